"""Rows as a caller has them, as arrays: by position, by name, or a data frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


class Rows:
    """Reads rows of inputs that have these names; ``named``: whether a mapping may be a row."""

    def __init__(self, inputs: Sequence[str], named: bool) -> None:
        self.inputs, self.named = tuple(inputs), named

    def one(self, x: Any) -> np.ndarray:
        """A row (d,), NaN where it is not known; ValueError says what was given."""
        if type(x) is not tuple and isinstance(x, Mapping):  # which takes as long as the rest
            x = self._by_name(x)
        row = _numbers(x)
        if row.shape != (len(self.inputs),):
            raise self._misshapen(row)
        return row

    def many(self, X: Any) -> np.ndarray:
        """Rows (n, d), of an array, a list of rows, or a data frame by its columns' names."""
        if hasattr(X, "columns") and hasattr(X, "to_numpy"):
            X = self._of_frame(X)
        elif isinstance(X, Sequence) and any(isinstance(x, Mapping) for x in X):
            X = [self._by_name(x) for x in X]
        rows = np.ascontiguousarray(_numbers(X))
        if rows.ndim != 2 or rows.shape[1] != len(self.inputs):
            if rows.shape == (0,):
                return np.empty((0, len(self.inputs)))
            raise self._misshapen(rows)
        return rows

    def _misshapen(self, given: np.ndarray) -> ValueError:
        d = len(self.inputs)
        return ValueError(f"a row is x ({d},), rows are X (n, {d}); got {given.shape}")

    def _by_name(self, x: Mapping[str, Any]) -> list[Any]:
        if self.named and len(x) == len(self.inputs):
            try:
                return [x[name] for name in self.inputs]
            except KeyError:
                pass
        self._require_same(list(x))
        raise ValueError(
            f"a row by name needs names: make the learner with inputs={list(x)[:40]!r} in place of "
            f"inputs={len(self.inputs)}"
        )

    def _of_frame(self, frame: Any) -> np.ndarray:
        names = [str(name) for name in frame.columns]
        if not self.named:
            return frame.to_numpy()
        if set(names) != set(self.inputs) or len(names) != len(self.inputs):
            self._require_same(names)
        return frame.iloc[:, [names.index(name) for name in self.inputs]].to_numpy()

    def _require_same(self, names: Sequence[str]) -> None:
        if self.named and sorted(names) != sorted(self.inputs):
            raise ValueError(
                f"these inputs came: {listed(names)}; the learner was made for: "
                f"{listed(self.inputs)}. One that is not known is None or NaN."
            )


def listed(names: Sequence[str]) -> str:
    """Names in print, the first of many."""
    return ", ".join(map(str, names[:40])) + (f", ... ({len(names)})" if len(names) > 40 else "")


def _numbers(values: Any) -> np.ndarray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"inputs are numbers, NaN or None where not known: {error}") from None
