"""Files that are written whole or not at all, and caches whose damage is noticed."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from omkl.utils.wording import warn

if TYPE_CHECKING:
    import numpy as np

STAGING = ".new-"  # how the names of files and folders begin that are being written
ABANDONED = 86_400.0  # seconds without a change after which nobody writes them any more


@contextlib.contextmanager
def with_path_in_error(path: Path) -> Iterator[None]:
    """Let an OSError that names no file, or a temporary one, name this file or folder.

    An open file that fills its disk names none.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None or STAGING in str(error.filename):
            text = error.strerror or str(error)  # libraries raise some with a text alone
            raise OSError(error.errno or errno.EIO, text, str(path)) from error
        raise


def temporary_name(path: Path) -> Path:
    """Return a new name beside ``path`` for what is to be renamed to it."""
    return path.with_name(f"{STAGING}{uuid.uuid4().hex}")


def flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, data: bytes | str | Iterable[str], sync: bool = True) -> None:
    """Write a file that is there whole or not at all; pieces of a text are written as they come.

    With ``sync`` it is on the disk when this returns.
    """
    pieces = [data] if isinstance(data, bytes | str) else data
    temporary = temporary_name(path)
    try:
        with with_path_in_error(path):
            with open(temporary, "wb") as file:
                for piece in pieces:
                    file.write(piece.encode() if isinstance(piece, str) else piece)
                file.flush()
                if sync:
                    os.fsync(file.fileno())
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def point_to(link: Path, folder: Path) -> bool:
    """Let a symbolic link lead to a folder, and return whether it does now.

    What is no link is left as it is, and a file system may have none.
    """
    temporary = temporary_name(link)
    try:
        if link.exists() and not link.is_symlink():
            return False
        os.symlink(os.path.relpath(folder, link.parent), temporary, target_is_directory=True)
        os.replace(temporary, link)
    except OSError:
        temporary.unlink(missing_ok=True)
        return False
    return True


def remove_abandoned(folder: Path) -> None:
    """Remove what processes that were killed have left in a folder, a day after its last change."""
    for path in folder.glob(f"{STAGING}*"):
        with contextlib.suppress(OSError):  # renamed or removed at this moment
            inside = path.iterdir() if path.is_dir() and not path.is_symlink() else ()
            changed = max(one.lstat().st_mtime for one in (path, *inside))
            if time.time() - changed > ABANDONED:
                _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, which may be larger than memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def npz_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Arrays as the content of an ``.npz`` file.

    Not compressed: curves are noise in all but the first digits, 15 % is all there is to gain.
    """
    import numpy as np

    buffer = io.BytesIO()
    np.savez(buffer, **dict(arrays))  # type: ignore[arg-type]
    return buffer.getvalue()


# --- what is kept to save time --------------------------------------------------------------------
#
# Behind the content is a line with its checksum, of the content and of what it is kept for
# together: a flipped bit, a cut or a renamed file gives nothing, and nothing damaged is parsed.


def user_cache() -> Path:
    """``NUMBA_CACHE_DIR``, or the folder of omkl in the user's cache."""
    if found := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(found)
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # a container may run as a user without a home
        raise OSError("there is no home folder for the cache: set XDG_CACHE_HOME") from None
    return Path(home) / "omkl"


def sealed(content: bytes, identity: str) -> bytes:
    """What is written of a content that is kept for ``identity``; ``read_sealed`` reads it."""
    checksum = hashlib.sha256(identity.encode() + content).hexdigest()
    return content + b"\nomkl %b\n" % checksum.encode()


_SEAL_LENGTH = len("\nomkl \n") + 64


def read_sealed(path: Path, identity: str, cure: str) -> bytes | None:
    """The content of a file that was ``sealed`` for ``identity``; None where there is none.

    One that is damaged is removed, which a line on stderr tells, with what is done about it.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        warn(f"{path} cannot be read ({error.strerror}): {cure}")
        return None
    content = raw[:-_SEAL_LENGTH]
    if raw == sealed(content, identity):
        return content
    warn(f"{path} is damaged: {cure}")
    with contextlib.suppress(OSError):
        path.unlink()
    return None


def keep_newest(folder: Path, ours: re.Pattern[str], n: int) -> None:
    """Delete all but the ``n`` newest of what has such a name; the folder may hold other things."""
    with contextlib.suppress(OSError):  # another process removes some as well
        found = [path for path in folder.iterdir() if ours.fullmatch(path.name)]
        for path in sorted(found, key=lambda path: path.stat().st_mtime)[:-n]:
            _remove(path)
