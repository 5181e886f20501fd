"""Files that are written whole or not at all, and what killed processes leave of them.

What is being written is named after its owner. Only what belongs to a process of this machine
that is gone is removed. A folder whose files belong together is locked while they are replaced.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import re
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omkl.utils.wording import warn

if TYPE_CHECKING:
    import numpy as np

fcntl: Any
try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

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


@contextlib.contextmanager
def with_path_in_error(path: Path) -> Iterator[None]:
    """An OSError that names no file, or the temporary one, shall name this file or folder.

    An open file that fills its disk names none.
    """
    try:
        yield
    except OSError as error:
        name = TEMPORARY if error.filename is None else os.path.basename(str(error.filename))
        if name.endswith(TEMPORARY) or name.startswith(STAGING):
            text = error.strerror or str(error)  # libraries raise some with a text alone
            raise OSError(error.errno or errno.EIO, text, str(path)) from error
        raise


def temporary_name(name: str) -> str:
    """What a file is called while this process writes it."""
    return f".{name[:120]}.{owner()}{TEMPORARY}"


def write_atomically(path: Path, data: bytes | str | Iterable[str], sync: bool = True) -> None:
    """Write a file that is either there whole or not at all, with ``sync`` on the disk as well.

    Pieces of a text are written as they come.
    """
    pieces = [data] if isinstance(data, bytes | str) else data
    temporary = path.with_name(temporary_name(path.name))
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
    """Let a symbolic link lead to a folder; whether it does now.

    What is no link is left as it is, and a file system may have none.
    """
    temporary = link.with_name(temporary_name(link.name))
    try:
        if link.exists() and not link.is_symlink():
            return False
        os.symlink(os.path.relpath(folder, link.parent), temporary, target_is_directory=True)
        os.replace(temporary, link)
    except OSError:
        temporary.unlink(missing_ok=True)
        return False
    return True


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


def temporary_folder(place: Path | None = None) -> tempfile.TemporaryDirectory[str]:
    """A folder for a while, below ``place`` or the system's temporary folder.

    What killed processes left there goes.
    """
    place = place or Path(tempfile.gettempdir())
    remove_leftovers(place)
    return tempfile.TemporaryDirectory(prefix=f"{STAGING}{owner()}-", dir=place)


def _is_gone(name: str) -> bool:
    """Whether the process that a name tells is one of this machine that has ended."""
    match = re.search(rf"[-.]{re.escape(_place())}\.(\d+)(?:-|{re.escape(TEMPORARY)}$)", name)
    if match is None or os.name == "nt":  # where asking about a process may end it
        return False
    try:
        os.kill(int(match[1]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # somebody else's, or no number of a process
        return False
    return False


# --- files that belong together -------------------------------------------------------------------


@contextlib.contextmanager
def exclusive_lock(folder: Path) -> Iterator[None]:
    """Of processes that replace the files of one folder, let one at a time, while nobody reads.

    Where the file system has no locks this holds up nobody. A thread may ask again for what it has.
    """
    with _locked(folder, exclusive=True):
        yield


@contextlib.contextmanager
def shared_lock(folder: Path) -> Iterator[None]:
    """Nobody with an ``exclusive_lock`` replaces files meanwhile; others may read as well."""
    with _locked(folder, exclusive=False):
        yield


_mine = threading.local()


@contextlib.contextmanager
def _locked(folder: Path, exclusive: bool) -> Iterator[None]:
    with contextlib.ExitStack() as held:
        if fcntl is not None:
            with contextlib.suppress(OSError):  # no folder, or no locks: the files themselves tell
                descriptor = os.open(folder, os.O_RDONLY)
                held.callback(os.close, descriptor)
                status = os.fstat(descriptor)
                folders: set[tuple[int, int]] = _mine.__dict__.setdefault("folders", set())
                if (one := (status.st_dev, status.st_ino)) not in folders:
                    fcntl.flock(descriptor, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
                    folders.add(one)
                    held.callback(folders.discard, one)
        yield


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
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("NUMBA_CACHE_DIR") or Path(home) / "omkl")


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
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
