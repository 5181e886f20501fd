"""Prepared data of the catalogue, kept in the user's cache folder.

Reading a spreadsheet or a text table takes longer than learning from it, and pandas alone
half a second to import. What is kept is named by the file's sha256, the catalogue entry and
the sources that read and prepare, so nothing stale can be found. Deleting it costs nothing.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Prepared = tuple[np.ndarray, np.ndarray, tuple[str, ...]]

MOST_BYTES = 2**26  # larger data are read anew: their reading is not what takes time
MOST_FILES = 32


def folder() -> Path:
    """``NUMBA_CACHE_DIR``, where machine code is kept as well, or the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("NUMBA_CACHE_DIR") or Path(home) / "omkl") / "data"


def prepared(sha256: str, entry: Mapping[str, Any], make: Callable[[], Prepared]) -> Prepared:
    """What ``make`` returns, from the cache folder if it was there before."""
    identity = json.dumps([sha256, dict(entry), _sources()], sort_keys=True, default=str)
    path = folder() / f"{hashlib.sha256(identity.encode()).hexdigest()[:24]}.npz"
    with contextlib.suppress(OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            found = archive["values"], archive["rows"], tuple(map(str, archive["names"]))
        os.utime(path)
        return found
    values, rows, names = make()
    if values.nbytes <= MOST_BYTES:
        with contextlib.suppress(OSError):  # nowhere to write: read anew each time
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(f".{os.getpid()}.tmp")
            with open(temporary, "wb") as sink:
                np.savez(sink, values=values, rows=rows, names=np.array(names))
            os.replace(temporary, path)
            _forget_old(path.parent)
    return values, rows, names


@functools.cache
def _sources() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _forget_old(place: Path) -> None:
    files = sorted(place.glob("*.npz"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in files[MOST_FILES:]:
        path.unlink(missing_ok=True)
