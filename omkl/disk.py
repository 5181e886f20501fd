"""Files that are written whole or not at all, and what killed processes leave of them.

What is being written is named after its owner. Only what belongs to a process of this machine
that is gone is removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
from pathlib import Path

STAGING = ".new-"  # a folder of files that are to take the place of others
TEMPORARY = ".tmp"  # the end of a file that is being written


def owner() -> str:
    """Machine, namespace and number of this process, as they stand in names of files."""
    return f"{_place()}.{os.getpid()}"


def _place() -> str:
    machine = re.sub(r"\W", "_", socket.gethostname(), flags=re.ASCII)[:40]
    try:  # containers of one machine number their processes apart
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        namespace = 0
    return f"{machine}.{namespace}"


def temporary_name(name: str) -> str:
    """What a file is called while this process writes it."""
    return f".{name[:120]}.{owner()}{TEMPORARY}"


def write_atomically(path: Path, data: bytes | str, sync: bool = True) -> None:
    """Write a file that is either there whole or not at all, with ``sync`` on the disk as well."""
    raw = data.encode() if isinstance(data, str) else data
    temporary = path.with_name(temporary_name(path.name))
    try:
        with open(temporary, "wb") as file:
            file.write(raw)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Remove what processes that are gone have left in a folder; nothing where there is none."""
    with contextlib.suppress(OSError):
        for path in [*folder.glob(f"{STAGING}*"), *folder.glob(f".*{TEMPORARY}")]:
            if not _is_gone(path.name):
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _is_gone(name: str) -> bool:
    """Whether the process that a name tells is one of this machine that has ended."""
    found = re.search(rf"[-.]{re.escape(_place())}\.(\d+)(?:-|{re.escape(TEMPORARY)}$)", name)
    if found is None or os.name == "nt":  # where asking about a process may end it
        return False
    try:
        os.kill(int(found[1]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # somebody else's, or no number of a process
        return False
    return False
