"""Recent predictions, which are remembered until the targets of their rows come."""

from __future__ import annotations

import collections
from collections.abc import Mapping

import numpy as np

from omkl.online.stream_learner import RowPrediction

HEAD = "recent."  # of the names of arrays in a file


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
        """All that is remembered of n rows: arrays (n, ...), which ``restore`` takes.

        Outputs are numbered, from 0. Past targets are NaN of a row that was predicted before any.
        """
        if not self._said:
            return {}
        rows = [np.frombuffer(row) for row, _ in self._said.values()]
        found = {f"{HEAD}rows": np.stack(rows)}
        of_rows = [said.of_outputs or (said,) for _, said in self._said.values()]
        for k, of_output in enumerate(zip(*of_rows, strict=True)):
            head = f"{HEAD}{k}."
            found[f"{head}y_hat"] = np.array([said.y_hat for said in of_output], dtype=np.float64)
            flags = [(said.far, said.scored) for said in of_output]
            found[f"{head}flags"] = np.array(flags, dtype=np.float64)
            for i, parts in enumerate(zip(*(said.past for said in of_output), strict=True)):
                size = max(len(part) for part in parts)
                past = [part if len(part) else np.full(size, np.nan) for part in parts]
                found[f"{head}past.{i}"] = np.stack(past)
        return found

    def restore(self, kept: Mapping[str, np.ndarray], like: RowPrediction, d: int) -> None:
        """Remember what ``arrays`` were taken of; ``like`` is any prediction of the same learner.

        Raises
        ------
        ValueError
            The arrays are none of rows (n, d) and predictions of this learner.
        """
        n = len(kept.get(f"{HEAD}rows", ()))
        if not kept:
            return
        outputs = like.of_outputs or (like,)
        wanted = {f"{HEAD}rows": (n, d)}
        for k, one in enumerate(outputs):
            wanted[f"{HEAD}{k}.y_hat"] = (n, *np.shape(one.y_hat))
            wanted[f"{HEAD}{k}.flags"] = (n, 2)
            wanted |= {f"{HEAD}{k}.past.{i}": (n, len(part)) for i, part in enumerate(one.past)}
        shapes = {name: array.shape for name, array in kept.items()}
        # All rows may be of a time before the first target.
        shapes |= {name: wanted.get(name, ()) for name, shape in shapes.items() if shape == (n, 0)}
        if shapes != wanted or any(array.dtype != np.float64 for array in kept.values()):
            raise ValueError("its recent predictions are none of this learner")
        if n > self.limit or any(np.isinf(array).any() for array in kept.values()):
            raise ValueError("its recent predictions are too many, or have infinite numbers")
        for r in range(n):
            of_outputs = tuple(self._restored(kept, k, r, one) for k, one in enumerate(outputs))
            y_hat = np.array([said.y_hat for said in of_outputs])
            said = like._replace(y_hat=y_hat, of_outputs=of_outputs)
            self.add(kept[f"{HEAD}rows"][r], said if like.of_outputs else of_outputs[0])

    @staticmethod
    def _restored(
        kept: Mapping[str, np.ndarray], k: int, r: int, like: RowPrediction
    ) -> RowPrediction:
        """The prediction of output k of row r."""
        y_hat = kept[f"{HEAD}{k}.y_hat"][r]
        far, scored = kept[f"{HEAD}{k}.flags"][r] != 0.0
        parts = (kept[f"{HEAD}{k}.past.{i}"][r] for i in range(len(like.past)))
        past = tuple(part[: 0 if np.isnan(part).any() else None] for part in parts)
        y_hat = y_hat if y_hat.ndim else float(y_hat)
        return like._replace(y_hat=y_hat, far=bool(far), scored=bool(scored), past=past)
