"""Arrays that are kept on disk to save computing them: found whole, or made anew.

A file is a NumPy archive with a line after it: the sha256 of what it is kept for and of the archive
together. So a flipped bit, a cut or a renamed file gives no number, and nothing that is damaged is
parsed.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from omkl.utils import sources
from omkl.utils.disk import npz_bytes, remove_leftovers, write_atomically

Arrays = dict[str, np.ndarray]

NAME = re.compile(r"[0-9a-f]{24}\.npz")  # of our files, whole: the folder may hold others
_LINE_LENGTH = len("\nomkl \n") + 64


def user_folder() -> Path:
    """``NUMBA_CACHE_DIR``, where machine code is kept as well, or the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("NUMBA_CACHE_DIR") or Path(home) / "omkl") / "data"


def name_of(identity: str) -> str:
    """The name of the file that is kept for ``identity``."""
    return f"{hashlib.sha256(identity.encode()).hexdigest()[:24]}.npz"


def load_or_make(
    folder: Path,
    identity: str,
    make: Callable[[], Mapping[str, np.ndarray]],
    most_bytes: int | None = None,
    most_files: int | None = None,
) -> Arrays:
    """What ``make`` returns, from ``folder`` where it is kept for this very ``identity``.

    A file that is damaged is made anew, which one line on stderr tells. Where nothing can be
    written, a line tells that as well, and the arrays are returned. Arrays of more than
    ``most_bytes`` are not kept; of more than ``most_files`` files those go that were not used for
    longest.
    """
    path = folder / name_of(identity)
    kept = read(path, identity)
    if kept is not None:
        with contextlib.suppress(OSError):
            os.utime(path)
        return kept
    arrays = dict(make())
    if most_bytes is None or sum(array.nbytes for array in arrays.values()) <= most_bytes:
        _write(path, identity, arrays)
        if most_files is not None:
            _keep_newest(folder, most_files)
    return arrays


def read(path: Path, identity: str) -> Arrays | None:
    """The arrays of a file; None, and told, where it is damaged; None where there is none.

    None too where the sources of this process, which an identity names, have been edited since.
    """
    if sources.nothing_is_kept():
        return None
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        _tell(f"cannot read {path} ({error.strerror}): its content is computed again")
        return None
    archive = raw[:-_LINE_LENGTH]
    if raw[-_LINE_LENGTH:] != _line(identity, archive):
        _tell(f"{path} is damaged: its content is computed again")
        return None
    with np.load(io.BytesIO(archive), allow_pickle=False) as opened:
        return {name: opened[name] for name in opened.files}


def _write(path: Path, identity: str, arrays: Arrays) -> None:
    if sources.nothing_is_kept():
        return
    archive = npz_bytes(arrays)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _clean_once(path.parent)
        # Half a file, after a power failure, is found to be none: no need to wait for the disk.
        write_atomically(path, archive + _line(identity, archive), sync=False)
    except OSError as error:
        _tell(f"cannot keep {path} ({error.strerror}): it will be made anew")


def _line(identity: str, archive: bytes) -> bytes:
    return b"\nomkl %b\n" % hashlib.sha256(identity.encode() + archive).hexdigest().encode()


@functools.cache
def _clean_once(folder: Path) -> None:
    remove_leftovers(folder)


def _keep_newest(folder: Path, n: int) -> None:
    with contextlib.suppress(OSError):  # another process removes some as well
        files = [path for path in folder.iterdir() if NAME.fullmatch(path.name)]
        for path in sorted(files, key=lambda path: path.stat().st_mtime)[:-n]:
            path.unlink(missing_ok=True)


def _tell(text: str) -> None:
    print(f"omkl: {text}", file=sys.stderr, flush=True)
