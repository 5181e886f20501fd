"""Recent predictions, which are remembered until the targets of their rows come."""

from __future__ import annotations

import collections
from collections.abc import Mapping

import numpy as np

from omkl.online.stream_learner import RowPrediction

ROWS, SAID = "recent.rows", "recent.said"  # names of arrays in a file


class RecentPredictions:
    """The predictions of recent rows, by the numbers of the rows; of equal rows the first is first.

    Parameters
    ----------
    limit
        How many are remembered, >= 1. Of more the oldest is forgotten.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._said: dict[int, tuple[bytes, RowPrediction]] = {}  # by its number, the oldest first
        self._numbers: dict[bytes, collections.deque[int]] = {}  # of the predictions of a row
        self._next = 0

    def __len__(self) -> int:
        return len(self._said)

    def __contains__(self, x: np.ndarray) -> bool:
        return x.tobytes() in self._numbers

    def add(self, x: np.ndarray, said: RowPrediction) -> None:
        """Remember what was ``said`` of the row x (d,), and forget the oldest of too many."""
        if len(self._said) >= self.limit:
            oldest, _ = next(iter(self._said.values()))
            self._pop(oldest)
        row = x.tobytes()
        self._said[self._next] = row, said
        self._numbers.setdefault(row, collections.deque()).append(self._next)
        self._next += 1

    def take(self, x: np.ndarray) -> RowPrediction | None:
        """Return the earliest prediction of the row x (d,) and forget it; None of a row without."""
        row = x.tobytes()
        return self._pop(row) if row in self._numbers else None

    def _pop(self, row: bytes) -> RowPrediction:
        numbers = self._numbers[row]
        _, said = self._said.pop(numbers.popleft())
        if not numbers:
            del self._numbers[row]
        return said

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the rows (n, d) and their predictions (n, p) as numbers, for ``restore``."""
        if not self._said:
            return {}
        rows = np.stack([np.frombuffer(row) for row, _ in self._said.values()])
        return {ROWS: rows, SAID: np.stack([_numbers(said) for _, said in self._said.values()])}

    def restore(self, kept: Mapping[str, np.ndarray], like: RowPrediction, d: int) -> None:
        """Remember what ``arrays`` were taken of; ``like`` is any prediction of the same learner.

        Raises
        ------
        ValueError
            The arrays are none of rows (n, d) and predictions of this learner.
        """
        rows, said = kept[ROWS], kept[SAID]
        shapes = (len(rows), d), (len(rows), len(_numbers(like)))
        alike = (rows.shape, said.shape) == shapes and rows.dtype == said.dtype == np.float64
        if not alike or len(rows) > self.limit or np.isinf(rows).any() or np.isinf(said).any():
            raise ValueError("its recent predictions are none of this learner")
        for row, numbers in zip(rows, said, strict=True):
            self.add(row, _of_numbers(like, numbers))


def _numbers(said: RowPrediction) -> np.ndarray:
    """What ``learn_one`` needs of a prediction, as numbers (p,)."""
    if said.of_outputs:
        return np.concatenate([_numbers(one) for one in said.of_outputs])
    flags = np.array([said.far, said.scored], dtype=np.float64)
    return np.concatenate([flags, np.ravel(said.y_hat), *said.past])


def _of_numbers(like: RowPrediction, numbers: np.ndarray) -> RowPrediction:
    """A prediction of these numbers (p,), of the learner that has predicted ``like``."""
    if like.of_outputs:
        parts = np.split(numbers, len(like.of_outputs))
        pairs = zip(like.of_outputs, parts, strict=True)
        return like._replace(of_outputs=tuple(_of_numbers(one, part) for one, part in pairs))
    sizes = [2, np.size(like.y_hat), *(len(part) for part in like.past)]
    (far, scored), y_hat, *past = np.split(numbers, np.cumsum(sizes)[:-1])
    answer = y_hat if np.ndim(like.y_hat) else float(y_hat[0])
    return like._replace(y_hat=answer, far=far != 0.0, scored=scored != 0.0, past=tuple(past))
