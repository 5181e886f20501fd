"""What all of ``omkl.datasets`` shares: errors, chunks of rows, and names that go into paths."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, NamedTuple, Protocol

import numpy as np

SCALINGS = ("columns", "whole", "none")
ORDERS = ("file", "shuffled")


class DataError(ValueError):
    """The data are missing, damaged or not what the configuration says."""


class MissingFile(DataError):
    """The data's file is in no data folder and cannot be fetched."""


class Chunk(NamedTuple):
    """Consecutive rows: ``x`` (n, d), ``y`` (n,), NaN where blank, ``truth`` (n,) or None.

    ``rows`` (n,) are their numbers in the file, from 1. In x only scaling "columns" takes NaN.
    """

    x: np.ndarray
    y: np.ndarray
    rows: np.ndarray
    truth: np.ndarray | None = None


class Source(Protocol):
    """Raw rows in the order of time, finite where they are not blank."""

    inputs: tuple[str, ...]
    target: str
    n_rows: int | None  # with a target; None when only reading to the end can tell
    has_truth: bool

    def chunks(self) -> Iterator[Chunk]:
        """Start anew from the first row; the chunks are the caller's to overwrite."""
        ...


# --- Names that become parts of paths -----------------------------------------------------------

MOST_NAME_BYTES = 80  # of UTF-8: as many characters, in English
STEM_BYTES = 60  # of a file, whose name gets an end


def is_name(given: Any) -> bool:
    """Whether it is text of letters, digits and ``-_.``, at most 80, that begins with no dot."""
    return (
        isinstance(given, str)
        and re.fullmatch(r"[\w-][\w.-]*", given) is not None
        and len(given.encode()) <= MOST_NAME_BYTES
    )


def checked_name(key: str, given: Any) -> str:
    """The name; ValueError naming its ``key`` where it is none (``is_name``)."""
    if not is_name(given):
        shown = repr(given)
        raise ValueError(
            f"{key}={shown if len(shown) < 200 else shown[:200] + '...'} is no name: letters, "
            f"digits, '-', '_' and '.', at most {MOST_NAME_BYTES}, not beginning with a dot. It "
            "becomes the name of a folder."
        )
    return str(given)


def is_relative_file(given: Any) -> bool:
    """Whether it is a path below a folder, every part of it a name, separated by /."""
    parts = given.split("/") if isinstance(given, str) else []
    return bool(parts) and all(map(is_name, parts))


def name_of_file(file: str) -> str:
    """A name made of that of a file: its stem, other characters as _, cut to 60."""
    stem = re.sub(r"[^\w-]+", "_", PurePosixPath(file).name.partition(".")[0])
    return stem.encode()[:STEM_BYTES].decode(errors="ignore") or "_"
