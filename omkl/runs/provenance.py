"""Describe the provenance of a run: digests of code and data, versions, and the machine."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omkl.utils import __version__, outside, sources
from omkl.utils.conf import KEY_DIGITS, PROSE
from omkl.utils.disk import sha256_of
from omkl.utils.threads import usable_cores

# Libraries that compute numbers or read them from files.
COMPUTING = ("python", "numpy", "numba", "scipy", "pandas", "pyarrow", "python-calamine")


def without_prose(described: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in described.items() if key not in PROSE}


@functools.cache
def code() -> str:
    """Return 16 hex digits that identify all sources of the package that can change a number."""
    return sources.digest(without=sources.VIEWS)


def computed_by() -> str:
    """Return a digest of all code that computes numbers, except modules of the user.

    The digest covers the sources of the package, the versions of libraries that compute or read
    numbers, and whether code is compiled.
    """
    libraries = [versions()[name] for name in COMPUTING]
    text = f"{sources.machine_code()} {code()} compiled: {sources.are_compiled()} {libraries}"
    return hashlib.sha256(text.encode()).hexdigest()


def edited(modules: Mapping[str, str]) -> str:
    """Return a message if sources were edited after this process imported them, else "".

    Parameters
    ----------
    modules
        Digests of the modules outside the package that a job uses, by name.
    """
    names = [*sources.edited(), *outside.edited(modules)]
    if not names:
        return ""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return (
        f"sources were edited since this process imported them ({', '.join(names[:3])}{more}): "
        "nothing of it is kept for later starts, which compute anew"
    )


def stamp_of(provenance: Mapping[str, Any], modules: Mapping[str, str]) -> str:
    """Return 12 hex digits that identify the code and the data of a result.

    Parameters
    ----------
    provenance
        Provenance of the stream: its files with their sha256, and how they are prepared.
    modules
        Digests of the modules outside the package that the job uses, by name.
    """
    data = without_prose(provenance)
    data["files"] = [{**file, "name": None} for file in data.get("files", ())]
    named = {"provenance": data, "modules": dict(modules)}
    text = computed_by() + json.dumps(named, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]


@functools.cache
def versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {"omkl": __version__, "python": platform.python_version()}
    found |= {name: version(name) for name in (*COMPUTING[1:], "omegaconf", "hydra-core")}
    with contextlib.suppress(PackageNotFoundError):  # optional
        found["mlflow"] = version("mlflow")
    return found


@functools.cache
def machine() -> dict[str, Any]:
    return {"processor": _processor(), "cores": usable_cores(), "system": platform.system()}


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
        return next(x.split(":", 1)[1].strip() for x in text.splitlines() if "model name" in x)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


@functools.cache
def commit() -> str | None:
    """Return the commit of the repository, with + if files differ from it; None if unknown."""
    found = _git("describe", "--always", "--abbrev=10", "--exclude=*", "--dirty=+")
    return None if found is None else found.strip()


def _git(*arguments: str) -> str | None:
    """Return the output of git in the repository of the package, or None if it fails."""
    root = sources.PACKAGE.parent
    if not (root / ".git").exists():
        return None
    try:
        completed = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return completed.stdout.decode(errors="replace")


def surroundings() -> dict[str, Any]:
    """Return the entries ``lock`` and ``typed`` of result.json.

    ``lock`` is the sha256 of requirements.lock in the repository, and ``typed`` is the command
    line. They are None if they do not exist.
    """
    lock = sources.PACKAGE.parent / "requirements.lock"
    program = Path(sys.argv[0]).name if sys.argv else ""
    typed = shlex.join([program, *sys.argv[1:]]) if program.startswith("omkl-") else None
    return {
        "lock": sha256_of(lock) if lock.is_file() else None,
        "typed": typed and "".join(c if c.isprintable() else "?" for c in typed),
    }
