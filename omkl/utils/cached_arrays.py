"""Cache of arrays on disk. A file is a NumPy archive with a checksum (``disk.sealed``)."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from omkl.utils import sources
from omkl.utils.disk import npz_bytes, read_sealed, remove_abandoned, sealed, write_atomically
from omkl.utils.wording import tell

Arrays = dict[str, np.ndarray]


def name_of(identity: str) -> str:
    """Return the file name of an identity."""
    return f"{hashlib.sha256(identity.encode()).hexdigest()[:24]}.npz"


def load_or_make(
    folder: Path, identity: str, make: Callable[[], Mapping[str, np.ndarray]]
) -> Arrays:
    """Return the arrays of ``identity`` from the cache, or make and store them.

    A damaged file is reported on stderr and made again. If the cache cannot be written, a message
    on stderr says so, and the arrays are still returned.

    Parameters
    ----------
    folder
        Folder of the cache.
    identity
        Text with everything that the arrays depend on.
    make
        Computes the arrays.
    """
    path = folder / name_of(identity)
    kept = read(path, identity)
    if kept is not None:
        return kept
    arrays = dict(make())
    _write(path, identity, arrays)
    return arrays


def read(path: Path, identity: str) -> Arrays | None:
    """Return the arrays of a file, or None if there is none or it is damaged.

    A damaged file is reported on stderr. If sources of this process were edited after import the
    result is None, because ``identity`` names the sources as imported.
    """
    if sources.nothing_is_kept():
        return None
    archive = read_sealed(path, identity, "its content is computed again")
    if archive is None:
        return None
    with np.load(io.BytesIO(archive), allow_pickle=False) as opened:
        return {name: opened[name] for name in opened.files}


def _write(path: Path, identity: str, arrays: Arrays) -> None:
    if sources.nothing_is_kept():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(path.parent)
        # The checksum detects a file cut by a power failure: do not wait for the disk.
        write_atomically(path, sealed(npz_bytes(arrays), identity), sync=False)
    except OSError as error:
        tell(f"cannot keep {path} ({error.strerror}): it will be made anew")
