"""Streams: the rows of a data set in the order of time, scaled on their way.

A ``Source`` yields raw chunks of a size of its own choosing. Scaling works on
those chunks and blocks are cut afterwards, so no number can depend on the block
size that a caller asks for.

Scaling (``x`` is a row of inputs, ``y`` its target)

whole     x / max_t ||x_t||_2 and (y - min) / (max - min), over all rows that are
          streamed. One scalar for the inputs. Looks ahead in time; this is what the
          published experiments did.
running   round t uses rows 1..t only: x_t / max_{s<=t} ||x_s||_2, known before the
          prediction, and (y_t - min_{s<=t} y_s) / (max_{s<=t} y_s - min_{s<=t} y_s).
          The label's own scale is known once the label is told, never before: no
          later row is used, yet a label that sets a new record is told as 0 or 1,
          and the first one, with no range yet, as 0. Squared errors of different
          rounds are therefore in units that settle as the range does.
none      as it is.

In classification y is a label's code (-1 and +1, or 0 .. K - 1 of K > 2) and stays it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

SCALINGS = ("whole", "running", "none")
ORDERS = ("file", "shuffled")


class DataError(ValueError):
    """The data are missing, damaged or not what the configuration says."""


class MissingFile(DataError):
    """The data's file is in no data folder and cannot be fetched."""


class Chunk(NamedTuple):
    """Consecutive rows: ``x`` (n, d), ``y`` (n,), ``truth`` (n,) or None."""

    x: np.ndarray
    y: np.ndarray
    truth: np.ndarray | None = None


class Source(Protocol):
    """Raw rows in the order of time, complete and finite."""

    inputs: tuple[str, ...]
    target: str
    n_rows: int | None  # None when only reading to the end can tell
    has_truth: bool

    def chunks(self) -> Iterator[Chunk]:
        """Start anew from the first row; the chunks are the caller's to overwrite."""
        ...


class Extent(NamedTuple):
    """What one pass over the streamed rows finds out."""

    n_rounds: int
    max_norm: float
    target_min: float
    target_max: float


def norms(x: np.ndarray) -> np.ndarray:
    """Euclidean norms (n,) of the rows of ``x`` (n, d)."""
    with np.errstate(over="ignore"):
        return np.sqrt(np.einsum("ij,ij->i", x, x))


class Stream:
    """A data set in the order of time; every pass starts anew at the first round.

    Attributes
    ----------
    name, task      name of the data set; "regression" or "classification"
    classes         what stands in the data for the codes of the classes, () in regression
    n_rounds        number of rounds T, or None where only reading to the end can tell:
                    CSV files, and tables whose incomplete rows are dropped, unless
                    scaling "whole" has counted them
    n_inputs        number of inputs d
    inputs, target  column names
    provenance      JSON-able: files with sha256, licence, citation, scaling and its constants
    change_rounds   1-based rounds that are the first after a known change
    labelled        False: labels come from outside, and y is NaN in every block
    """

    def __init__(
        self,
        source: Source,
        *,
        name: str,
        task: str,
        scaling: str,
        limit: int | None,
        survey: bool,
        provenance: Callable[[], dict[str, Any]],
        change_rounds: tuple[int, ...] = (),
        classes: tuple[Any, ...] = (),
        labelled: bool = True,
    ) -> None:
        self.labelled = labelled
        self.name = name
        self.task = task
        self.classes = classes
        self.inputs = source.inputs
        self.target = source.target
        self.n_inputs = len(source.inputs)
        self._source = source
        self._scaling = scaling
        self._limit = limit
        self._provenance = provenance
        self._extent: Extent | None = None
        self.n_rounds: int | None = None
        if source.n_rows is not None:
            self.n_rounds = source.n_rows if limit is None else min(limit, source.n_rows)
            self._require_rows(self.n_rounds)
        if survey or scaling == "whole":
            self._extent = self._survey()
            self.n_rounds = self._extent.n_rounds
        known = self.n_rounds
        self.change_rounds = tuple(t for t in change_rounds if known is None or t <= known)

    def __repr__(self) -> str:
        rounds = "?" if self.n_rounds is None else self.n_rounds
        return f"Stream({self.name!r}, {rounds} rounds x {self.n_inputs} inputs)"

    @cached_property
    def provenance(self) -> dict[str, Any]:
        scaling: dict[str, Any] = {"kind": self._scaling}
        if self._scaling == "whole" and self._extent is not None:
            scaling["max_norm"] = self._extent.max_norm
            if not self.classes:
                scaling |= {
                    "target_min": self._extent.target_min,
                    "target_max": self._extent.target_max,
                }
        classes = {"labels": list(self.classes)} if self.classes else {}
        return {
            **self._provenance(),
            "task": self.task,
            "inputs": list(self.inputs),
            "target": self.target,
            "rounds": self.n_rounds,
            "limit": self._limit,
            "scaling": scaling,
            **classes,
        }

    def blocks(self, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """All rounds as (X (n, d), y (n,)), float64, C-contiguous.

        n is ``size`` but for the last block. The numbers are identical for every size.
        """
        if self.labelled:
            pieces = ((chunk.x, chunk.y) for chunk in self._scaled())
        else:
            pieces = ((chunk.x, np.full(len(chunk.x), np.nan)) for chunk in self._scaled())
        return ((x, y) for x, y in regroup(pieces, _checked_size(size)))

    def truth(self, size: int) -> Iterator[np.ndarray] | None:
        """The noise-free target (n,) in the scale of y, in the blocks of ``blocks(size)``.

        None where it is unknown, as for all real data.
        """
        if not (self._source.has_truth and self.labelled):
            return None
        pieces = ((chunk.truth,) for chunk in self._scaled() if chunk.truth is not None)
        return (piece[0] for piece in regroup(pieces, _checked_size(size)))

    def _require_rows(self, n: int) -> None:
        if n < 2:
            raise DataError(
                f"{self.name}: a stream needs at least 2 rows, {n} came. "
                "Look at the file, at dataset.missing=drop and at stream.limit."
            )

    def _limited(self) -> Iterator[Chunk]:
        left = self._limit
        for chunk in self._source.chunks():
            if not self.labelled:  # so that nothing of the file's target is used
                chunk = Chunk(chunk.x, np.zeros(len(chunk.x)))
            if left is not None and len(chunk.y) >= left:
                truth = None if chunk.truth is None else chunk.truth[:left]
                yield Chunk(chunk.x[:left], chunk.y[:left], truth)
                return
            if left is not None:
                left -= len(chunk.y)
            yield chunk

    def _survey(self) -> Extent:
        n, max_norm, low, high = 0, 0.0, np.inf, -np.inf
        for x, y, _ in self._limited():
            n += len(y)
            max_norm = max(max_norm, float(norms(x).max(initial=0.0)))
            low = min(low, float(y.min(initial=np.inf)))
            high = max(high, float(y.max(initial=-np.inf)))
        self._require_rows(n)
        if not self.labelled:
            self._require_finite(max_norm, 1.0)
            return Extent(n, max_norm, 0.0, 1.0)
        if low == high:
            raise DataError(
                f"{self.name}: the target {self.target!r} is {low:g} in all {n} rows, "
                "so there is nothing to learn. Choose another dataset.target or more rows."
            )
        self._require_finite(max_norm, high - low)
        return Extent(n, max_norm, low, high)

    def _require_finite(self, max_norm: float, span: float) -> None:
        if not (np.isfinite(max_norm) and np.isfinite(span)):
            raise DataError(
                f"{self.name}: the values are too large to be scaled (largest norm of the "
                f"inputs {max_norm:g}, range of the target {span:g}). Rescale the columns."
            )

    def _scaled(self) -> Iterator[Chunk]:
        if self._scaling == "none":
            yield from self._limited()
        elif self._scaling == "running":
            yield from self._scaled_running()
        else:
            assert self._extent is not None
            _, max_norm, low, high = self._extent
            if self.classes:
                low, high = 0.0, 1.0
            for x, y, truth in self._limited():
                yield Chunk(
                    x / max_norm if max_norm > 0 else x,
                    (y - low) / (high - low),
                    None if truth is None else (truth - low) / (high - low),
                )

    def _scaled_running(self) -> Iterator[Chunk]:
        max_norm, low, high = 0.0, np.inf, -np.inf
        for x, y, truth in self._limited():
            if not len(y):
                continue
            norm = np.maximum.accumulate(np.maximum(norms(x), max_norm))
            lows = np.minimum.accumulate(np.minimum(y, low))
            highs = np.maximum.accumulate(np.maximum(y, high))
            max_norm, low, high = float(norm[-1]), float(lows[-1]), float(highs[-1])
            self._require_finite(max_norm, high - low)
            yield Chunk(
                _ratio(x, norm[:, None]),
                y if self.classes else _ratio(y - lows, highs - lows),
                None if truth is None else _ratio(truth - lows, highs - lows),
            )


def regroup(
    pieces: Iterable[tuple[np.ndarray, ...]], size: int
) -> Iterator[tuple[np.ndarray, ...]]:
    """Cut tuples of arrays of equal lengths into tuples of ``size`` rows, the last shorter."""
    pending: list[tuple[np.ndarray, ...]] = []
    n_pending = 0
    for piece in pieces:
        start, n = 0, len(piece[0])
        while start < n:
            stop = min(n, start + size - n_pending)
            pending.append(tuple(array[start:stop] for array in piece))
            n_pending += stop - start
            start = stop
            if n_pending == size:
                yield _joined(pending)
                pending, n_pending = [], 0
    if pending:
        yield _joined(pending)


def _joined(pieces: list[tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
    if len(pieces) == 1:
        return pieces[0]
    return tuple(np.concatenate(arrays) for arrays in zip(*pieces, strict=True))


def _checked_size(size: int) -> int:
    if size < 1:
        raise ValueError(f"a block needs at least one row, size={size}")
    return size


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """above / below, and 0 where ``below`` is 0."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
