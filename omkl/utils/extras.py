"""Name the command that installs an extra of omkl."""

from __future__ import annotations

import shlex
from importlib.metadata import PackageNotFoundError, requires


def how_to_install(extra: str) -> str:
    """Return the command that installs the libraries of an extra of omkl.

    Parameters
    ----------
    extra
        A name of ``[project.optional-dependencies]`` in pyproject.toml, such as ``"mlflow"``.
    """
    try:
        wanted = [text for text in requires("omkl") or () if f"extra == '{extra}'" in text]
    except PackageNotFoundError:  # a checkout on PYTHONPATH
        wanted = []
    named = [text.partition(";")[0] for text in wanted] or [f".[{extra}]"]
    return f"pip install {' '.join(map(shlex.quote, named))}"
