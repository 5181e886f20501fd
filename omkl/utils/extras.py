"""Tell users how to install an extra of omkl into their environment."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import sys
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname


def how_to_install(extra: str) -> str:
    """Return the command that adds an extra to this installation of omkl.

    No package index has omkl: the command names where this installation came from.

    Parameters
    ----------
    extra
        A name of ``[project.optional-dependencies]`` in pyproject.toml, such as ``"mlflow"``.

    Returns
    -------
    str
        Such as ``.venv/bin/python -m pip install -e '/srv/omkl[mlflow]'`` in a checkout.
    """
    try:
        origin = importlib.metadata.distribution("omkl").read_text("direct_url.json") or "{}"
    except importlib.metadata.PackageNotFoundError:  # a checkout on PYTHONPATH
        checkout = Path(__file__).parents[2]
        origin = json.dumps({"url": checkout.as_uri(), "dir_info": {"editable": True}})
    return command(extra, json.loads(origin))


def command(extra: str, origin: dict) -> str:
    """Return the command for the content of ``direct_url.json`` (PEP 610); {}: from an index."""
    url, vcs = origin.get("url"), origin.get("vcs_info")
    if url and origin.get("dir_info", {}).get("editable"):
        what = f"-e '{url2pathname(urlsplit(url).path)}[{extra}]'"
    elif vcs:
        what = f"'omkl[{extra}] @ {vcs['vcs']}+{url}@{vcs['commit_id']}'"
    else:
        what = f"'omkl[{extra}] @ {url}'" if url else f"'omkl[{extra}]'"
    near = os.path.relpath(sys.executable)
    python = sys.executable if near.startswith("..") else near
    has_pip = importlib.util.find_spec("pip") is not None
    return f"{python} -m pip install {what}" if has_pip else f"uv pip install -p {python} {what}"
