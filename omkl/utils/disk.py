"""Atomic writing of files, and caches that detect damaged files."""

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
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from omkl.utils import sources
from omkl.utils.wording import tell, warn

if TYPE_CHECKING:
    import numpy as np

STAGING = ".new-"  # prefix of files and folders that are being written
ABANDONED = 86_400.0  # seconds without a change after which a temporary file is removed


@contextlib.contextmanager
def with_path_in_error(path: Path) -> Iterator[None]:
    """Add the name ``path`` to an OSError that names no file, or only a temporary file.

    For example, the error of a full disk does not name the open file.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None or STAGING in str(error.filename):
            text = error.strerror or str(error)  # some libraries set only the text
            raise OSError(error.errno or errno.EIO, text, str(path)) from error
        raise


def temporary_name(path: Path) -> Path:
    """Return a new name in the folder of ``path``, for a file that is later renamed to ``path``."""
    return path.with_name(f"{STAGING}{uuid.uuid4().hex}")


def flush(path: Path) -> None:
    """Wait until the content of a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, data: bytes | str | Iterable[str], sync: bool = True) -> None:
    """Write a file completely or not at all, also if the program is killed.

    Parameters
    ----------
    path
        The file.
    data
        Its content, or pieces of text that are written one by one.
    sync
        Whether to wait until the file is on the disk.
    """
    pieces = [data] if isinstance(data, bytes | str) else data
    temporary = temporary_name(path)
    try:
        with with_path_in_error(path):
            with open(temporary, "wb") as file:
                file.writelines(p.encode() if isinstance(p, str) else p for p in pieces)
                file.flush()
                if sync:
                    os.fsync(file.fileno())
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def point_to(link: Path, folder: Path) -> bool:
    """Create or replace a symbolic link to a folder. Return False if no link can be created.

    An existing file or folder with the name of the link is not replaced. Some file systems have no
    links.
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
    """Remove temporary files and folders that have not changed for a day.

    Such files and folders belong to processes that were killed.
    """
    for path in folder.glob(f"{STAGING}*"):
        with contextlib.suppress(OSError):  # another process may rename or remove it
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
    """Return arrays as the content of an ``.npz`` file.

    The file is not compressed. Compression would save only 15 %, because most digits of curves are
    noise.
    """
    import numpy as np

    buffer = io.BytesIO()
    np.savez(buffer, **dict(arrays))  # type: ignore[arg-type]
    return buffer.getvalue()


# --- caches with checksums ------------------------------------------------------------------------
#
# A cached file ends with a line that has a checksum of its identity and its content. The identity
# is a text with everything that the content depends on. So a changed bit, a cut file and a renamed
# file are detected before the content is parsed.


def user_cache() -> Path:
    """Return ``NUMBA_CACHE_DIR``, or the folder of omkl in the user's cache."""
    if found := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(found)
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # a container may run as a user without a home
        raise OSError("there is no home folder for the cache: set XDG_CACHE_HOME") from None
    return Path(home) / "omkl"


def sealed(content: bytes, identity: str) -> bytes:
    """Return the content with a checksum of ``identity`` and content, for ``read_sealed``."""
    checksum = hashlib.sha256(identity.encode() + content).hexdigest()
    return content + b"\nomkl %b\n" % checksum.encode()


_SEAL_LENGTH = len("\nomkl \n") + 64


def read_sealed(path: Path, identity: str, cure: str) -> bytes | None:
    """Return the content that ``sealed`` stored for ``identity``, or None.

    A damaged file is removed, with a message on stderr.

    Parameters
    ----------
    path
        The file.
    identity
        Text with everything that the content depends on.
    cure
        End of the message: how the content is replaced, such as "it is computed again".
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
    """Delete files or folders with matching names, except for the ``n`` newest ones.

    Parameters
    ----------
    folder
        The folder, which may have other files.
    ours
        Pattern of the names.
    n
        Number of files that stay, >= 1.
    """
    with contextlib.suppress(OSError):  # another process may remove some
        found = [path for path in folder.iterdir() if ours.fullmatch(path.name)]
        for path in sorted(found, key=lambda path: path.stat().st_mtime)[:-n]:
            _remove(path)


def arrays_name(identity: str) -> str:
    """Return the name of the cached file with the arrays of ``identity``."""
    return f"{hashlib.sha256(identity.encode()).hexdigest()[:24]}.npz"


def load_or_make(
    folder: Path, identity: str, make: Callable[[], Mapping[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """Return the arrays of ``identity`` from the cache, or compute and store them.

    A damaged file is reported on stderr, and its arrays are computed again. If the cache cannot be
    written, a message on stderr says so, and the arrays are still returned.

    Parameters
    ----------
    folder
        Folder of the cache.
    identity
        Text with everything that the arrays depend on.
    make
        Function that computes the arrays.
    """
    path = folder / arrays_name(identity)
    kept = read_arrays(path, identity)
    if kept is not None:
        return kept
    arrays = dict(make())
    _write_arrays(path, identity, arrays)
    return arrays


def read_arrays(path: Path, identity: str) -> dict[str, np.ndarray] | None:
    """Return the arrays of a cached file, or None if it is missing or damaged.

    A damaged file is reported on stderr. If sources of omkl were edited after this process imported
    them, the cache is not used, and the result is None. The reason is that edited sources may give
    arrays that the digest in ``identity`` does not describe.
    """
    if sources.nothing_is_kept():
        return None
    archive = read_sealed(path, identity, "its content is computed again")
    if archive is None:
        return None
    import numpy as np

    with np.load(io.BytesIO(archive), allow_pickle=False) as opened:
        return {name: opened[name] for name in opened.files}


def _write_arrays(path: Path, identity: str, arrays: dict[str, np.ndarray]) -> None:
    if sources.nothing_is_kept():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(path.parent)
        # No need to wait for the disk: the checksum detects a file that a power failure cut.
        write_atomically(path, sealed(npz_bytes(arrays), identity), sync=False)
    except OSError as error:
        tell(f"cannot keep {path} ({error.strerror}): it will be made anew")
