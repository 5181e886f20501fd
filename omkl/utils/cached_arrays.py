"""Arrays that are kept on disk to save computing them: found whole, or made anew.

A file is a NumPy archive, sealed with its checksum (``disk``).
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from omkl.utils import sources
from omkl.utils.disk import (
    npz_bytes,
    read_sealed,
    remove_abandoned,
    sealed,
    write_atomically,
)
from omkl.utils.wording import tell

Arrays = dict[str, np.ndarray]


def name_of(identity: str) -> str:
    """The name of the file that is kept for ``identity``."""
    return f"{hashlib.sha256(identity.encode()).hexdigest()[:24]}.npz"


def load_or_make(
    folder: Path,
    identity: str,
    make: Callable[[], Mapping[str, np.ndarray]],
) -> Arrays:
    """What ``make`` returns, from ``folder`` where it is kept for this very ``identity``.

    A file that is damaged is made anew, which one line on stderr tells. Where nothing can be
    written, a line tells that as well, and the arrays are returned.
    """
    path = folder / name_of(identity)
    kept = read(path, identity)
    if kept is not None:
        return kept
    arrays = dict(make())
    _write(path, identity, arrays)
    return arrays


def read(path: Path, identity: str) -> Arrays | None:
    """The arrays of a file; None, and told, where it is damaged; None where there is none.

    None too where the sources of this process, which an identity names, have been edited since.
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
        # Half a file, after a power failure, is found to be none: no need to wait for the disk.
        write_atomically(path, sealed(npz_bytes(arrays), identity), sync=False)
    except OSError as error:
        tell(f"cannot keep {path} ({error.strerror}): it will be made anew")
