"""What a file gives: chunks of raw rows, or an error that says what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

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
