"""Prepared data of the catalogue, kept in the user's cache folder.

Reading a spreadsheet or a text table takes longer than learning from it, and pandas alone
half a second to import. What is kept is named by the file's sha256, the catalogue entry and
the sources that read and prepare, so nothing stale can be found, and what is damaged is made anew
(``omkl.cached_arrays``). Deleting it costs nothing.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl import cached_arrays
from omkl.core import imported


class Prepared(NamedTuple):
    """Values (n, d + 1) with the target last, their rows in the file (n,), and names.

    ``left_out`` are columns that nobody named and that hold no numbers.
    """

    values: np.ndarray
    rows: np.ndarray
    names: tuple[str, ...]
    left_out: tuple[str, ...] = ()


MOST_BYTES = 2**26  # larger data are read anew: their reading is not what takes time
MOST_FILES = 32


def prepared(sha256: str, entry: Mapping[str, Any], make: Callable[[], Prepared]) -> Prepared:
    """What ``make`` returns, from the cache folder if it was there before."""
    identity = json.dumps([sha256, dict(entry), _sources()], sort_keys=True, default=str)
    path = cached_arrays.user_folder() / cached_arrays.name_of(identity)
    found = cached_arrays.read(path, identity)
    if found is not None:
        with contextlib.suppress(OSError):
            os.utime(path)
        names, left_out = (tuple(map(str, found[key])) for key in ("names", "left_out"))
        return Prepared(found["values"], found["rows"], names, left_out)
    made = make()
    if made.values.nbytes <= MOST_BYTES:
        arrays = {key: np.asarray(value) for key, value in made._asdict().items()}
        if cached_arrays.write(path, identity, arrays):
            _forget_old(path.parent)
    return made


@functools.cache
def _sources() -> str:
    digest = hashlib.sha256()
    for path, source in imported.SOURCES.items():
        if path.is_relative_to(imported.PACKAGE / "datasets"):
            digest.update(f"{path.name} {source.digest}".encode())
    return digest.hexdigest()


def _forget_old(place: Path) -> None:
    with contextlib.suppress(OSError):  # another process forgets as well
        ours = (path for path in place.iterdir() if cached_arrays.NAME.fullmatch(path.name))
        files = sorted(ours, key=lambda path: path.stat().st_mtime, reverse=True)
        for path in files[MOST_FILES:]:
            path.unlink(missing_ok=True)
