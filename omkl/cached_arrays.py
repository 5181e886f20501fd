"""Arrays that are kept on disk to save computing them: found whole, or made anew.

A file is a NumPy archive with a line after it: the sha256 of what it is kept for, and that of the
line's first part and the archive together. So a name that two things share, a flipped bit or a cut
gives no number, and nothing that is damaged is parsed.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from omkl.core import imported
from omkl.disk import remove_leftovers, write_atomically

Arrays = dict[str, np.ndarray]

_LINE = re.compile(rb"\nomkl ([0-9a-f]{64}) ([0-9a-f]{64})\n")
_LENGTH = len(b"\nomkl  \n") + 2 * 64


def user_folder() -> Path:
    """``NUMBA_CACHE_DIR``, where machine code is kept as well, or the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("NUMBA_CACHE_DIR") or Path(home) / "omkl") / "data"


NAME = re.compile(r"[0-9a-f]{24}\.npz")  # of our files, whole: the folder may hold others


def name_of(identity: str) -> str:
    """The name of the file that is kept for ``identity``."""
    return f"{_sha256(identity.encode())[:24]}.npz"


def load_or_make(
    folder: Path, identity: str, make: Callable[[], Mapping[str, np.ndarray]]
) -> Arrays:
    """What ``make`` returns, from ``folder`` where it is kept for this very ``identity``.

    A file that is damaged, or kept for something else, is made anew, which one line on stderr
    tells. Where nothing can be written, a line tells that as well, and the arrays are returned.
    """
    path = folder / name_of(identity)
    found = read(path, identity)
    if found is not None:
        return found
    made = dict(make())
    write(path, identity, made)
    return made


def read(path: Path, identity: str) -> Arrays | None:
    """The arrays of a file; None, and told, where it is damaged; None where there is none.

    None too where the sources of this process, which an identity names, have been edited since.
    """
    if imported.nothing_is_kept():
        return None
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        _tell(f"cannot read {path} ({error.strerror}): what it holds is made anew")
        return None
    archive, line = raw[:-_LENGTH], _LINE.fullmatch(raw[-_LENGTH:])
    kept_for = _sha256(identity.encode())
    if line is None or line[2].decode() != _sha256(line[1] + archive):
        _tell(f"{path} is damaged: what it holds is made anew")
        return None
    if line[1].decode() != kept_for:
        _tell(f"{path} is kept for something else: what it should hold is made anew")
        return None
    with np.load(io.BytesIO(archive), allow_pickle=False) as opened:
        return {name: opened[name] for name in opened.files}


def write(path: Path, identity: str, arrays: Mapping[str, np.ndarray]) -> bool:
    """Keep arrays; False, and told in one line, where they cannot be kept."""
    if imported.nothing_is_kept():
        return False
    sink = io.BytesIO()
    np.savez(sink, **dict(arrays))  # type: ignore[arg-type]
    archive, kept_for = sink.getvalue(), _sha256(identity.encode()).encode()
    line = b"\nomkl %b %b\n" % (kept_for, _sha256(kept_for + archive).encode())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _clean_once(path.parent)
        # Half a file, after a power failure, is found to be none: no need to wait for the disk.
        write_atomically(path, archive + line, sync=False)
    except OSError as error:
        _tell(f"cannot keep {path} ({error.strerror}): it will be made anew")
        return False
    return True


@functools.cache
def _clean_once(folder: Path) -> None:
    remove_leftovers(folder)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _tell(text: str) -> None:
    print(f"omkl: {text}", file=sys.stderr, flush=True)
