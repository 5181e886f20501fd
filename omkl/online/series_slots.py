"""Assign each series a slot: the index of its row in the arrays of the state."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from omkl.online.rows import is_frame, with_names

SeriesName = int | str
KINDS = (int, str)


class SeriesSlots:
    """Assign each series a slot, its index in arrays (S, ...). A new series gets a free slot.

    Parameters
    ----------
    max_series
        Largest number of series in memory. A further series replaces the series whose last row is
        the oldest. None: no limit.
    first
        Slot of the first series. Earlier slots belong to no series.
    allocate
        Function of a list of slots that makes room for them and writes their initial state.
    """

    def __init__(
        self, max_series: int | None, first: int, allocate: Callable[[Sequence[int]], None]
    ) -> None:
        self.max_series, self._first, self._allocate = max_series, first, allocate
        self._slots: dict[SeriesName, int] = {}  # with max_series the least recent is first
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, name: object) -> bool:
        plain = name.item() if isinstance(name, np.generic) else name
        return type(plain) in KINDS and plain in self._slots

    @property
    def names(self) -> tuple[SeriesName, ...]:
        """Series in memory. With ``max_series`` the first of them is the next to be replaced."""
        return tuple(self._slots)

    @property
    def slots(self) -> np.ndarray:
        """Slots (S,) of ``names``."""
        return np.fromiter(self._slots.values(), dtype=np.int64)

    def slot(self, name: SeriesName, unknown: int) -> int:
        """Return the slot of a series, or ``unknown`` if the series is not in memory."""
        return self._slots.get(checked(name), unknown)

    def forget(self, name: SeriesName) -> None:
        """Remove a series and free its slot. Raises KeyError if the series is unknown."""
        self._free.append(self._slots.pop(checked(name)))

    def begin(self, names: Sequence[SeriesName]) -> None:
        """Assign slots with the initial state to new series."""
        if names:
            self._allocate(self._take(names))

    def array(self) -> np.ndarray:
        """Return ``names`` as a JSON list in an array of bytes, for ``restore``."""
        return np.frombuffer(json.dumps(self.names).encode(), dtype=np.uint8)

    def restore(self, kept: np.ndarray) -> None:
        """Assign slots to the series that ``array`` returned. Raises ValueError for wrong names."""
        names = json.loads(kept.tobytes())
        alike = isinstance(names, list) and all(type(name) in KINDS for name in names)
        if not alike or len(set(names)) < len(names):
            raise ValueError("its series must be a list of different whole numbers and texts")
        if self.max_series is not None and len(names) > self.max_series:
            raise ValueError(f"it has {len(names)} series, and max_series is {self.max_series}")
        self.begin(names)

    def spans(
        self, codes: np.ndarray, names: Sequence[SeriesName]
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """Split a block into parts, and yield each part with the slots of its rows.

        New series get slots. Without ``max_series`` the whole block is one part. Otherwise a part
        ends before a row whose series would replace a series of the same part.

        Parameters
        ----------
        codes, names
            Results of ``factorised``.
        """
        if self.max_series is None:
            self.begin([name for name in names if name not in self._slots])
            slots = np.array([self._slots[name] for name in names], dtype=np.int64)
            yield slice(0, len(codes)), slots[codes]
            return
        start = 0
        slots_of_rows: list[int] = []
        new: list[int] = []
        touched: set[int] = set()
        for row, code in enumerate(codes.tolist()):
            name = names[code]
            if name in self._slots:
                self._slots[name] = self._slots.pop(name)  # the most recent
            else:
                if len(self._slots) >= self.max_series:
                    gone = self._slots.pop(next(iter(self._slots)))
                    if gone in touched:
                        self._allocate(new)
                        yield slice(start, row), np.array(slots_of_rows, dtype=np.int64)
                        start, slots_of_rows, new, touched = row, [], [], set()
                    self._free.append(gone)
                new += self._take([name])
            slots_of_rows.append(self._slots[name])
            touched.add(self._slots[name])
        self._allocate(new)
        yield slice(start, len(codes)), np.array(slots_of_rows, dtype=np.int64)

    def _take(self, names: Sequence[SeriesName]) -> list[int]:
        """Assign slots to new series, and return them. The caller writes their initial state."""
        n = len(names)
        slots = [self._free.pop() for _ in range(min(n, len(self._free)))]
        used = self._first + len(self._slots) + len(self._free) + len(slots)
        slots += range(used, used + n - len(slots))
        self._slots.update(zip(names, slots, strict=True))
        return slots


def with_series(X: Any, column: str | None, series: Any, cure: str) -> tuple[Any, Any]:
    """Return X without its column of series, and the series (n,).

    Parameters
    ----------
    X
        Rows: an array, a frame, or a list of rows, which may be mappings by name.
    column
        Name of the column of series; None if X has no such column.
    series
        Series of each row; None: read them from the column.
    cure
        Advice for the error message if rows have no series.

    Raises
    ------
    ValueError
        The rows have no such column, and ``series`` is None.
    """
    X = with_names(X)
    if column is None:
        if series is None:
            raise ValueError(f"each row needs a series: {cure}")
        return X, series
    if is_frame(X):
        if series is None and column not in X.columns:
            raise ValueError(f"the data frame has no column {column!r}, the series")
        rows = X.drop(columns=[column], errors="ignore")
        return rows, X[column] if series is None else series
    if not isinstance(X, Sequence) or not all(isinstance(x, Mapping) for x in X):
        if series is None:
            raise ValueError(f"rows by position have no column {column!r}: give series=")
        return X, series
    if series is None and not all(column in x for x in X):
        raise ValueError(f"a row has no {column!r}, the series")
    rows = [{name: cell for name, cell in x.items() if name != column} for x in X]
    return rows, [x[column] for x in X] if series is None else series


def factorised(series: Any) -> tuple[np.ndarray, list[SeriesName]]:
    """Return the codes (n,) of the series, and the list of distinct series.

    A code is an index of this list. Raises ValueError if a row has no series.
    """
    import pandas as pd

    if isinstance(series, str) or not hasattr(series, "__len__"):
        raise ValueError(f"series={series!r} is no list: give the series of each row")
    if not hasattr(series, "dtype"):
        series = np.array([*series, None], dtype=object)[:-1]  # keeps tuples as single cells
    codes, names = pd.factorize(series)
    if (codes < 0).any():
        raise ValueError(f"row {int(np.argmin(codes)) + 1} of the block has no series")
    if series.dtype == object:  # pandas takes 1, 1.0 and True for equal
        for kind in set(map(type, series)):
            checked(next(name for name in series if type(name) is kind))
    return codes, [checked(name) for name in names]


def checked(name: Any) -> SeriesName:
    """Return the name of a series. Raises ValueError unless it is a whole number or a text."""
    plain = name.item() if isinstance(name, np.generic) else name
    if type(plain) not in KINDS:
        raise ValueError(
            f"series {plain!r} must be a whole number or a text, so that it can be saved"
        )
    return plain
