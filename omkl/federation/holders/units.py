"""A client's rows in the units that a federation learns in, and its predictions back.

columns  inputs and labels are standardised by what this client has seen of them: nothing looks
         ahead, and nothing of it is sent. As ``omkl.learner(scaling="columns")`` does, to the bit.
bounds   by [low, high] of the terms: (x - middle) / (high - low). The same arithmetic, with moments
         of so many rows that none moves them.
none     rows are taken as they are; a blank is 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from omkl.datasets.scaling import KnownLabels, Moments
from omkl.federation.holders.terms import Terms

FIXED = 2.0**60  # rows behind moments that no further row moves


class Units:
    """The scaling of one client; it learns from each row that it is given."""

    def __init__(self, terms: Terms) -> None:
        self.scaling = terms.scaling
        self._columns = Moments(len(terms.inputs))
        self._labels = KnownLabels(0, scaled=terms.scaling != "none")
        self.n_outside = 0  # numbers beyond their bounds
        self._bounds = np.array([terms.bounds[name] for name in terms.inputs if terms.bounds])
        if terms.scaling == "bounds":
            self._columns.restore(_fixed(self._bounds))
            self._labels.restore(_fixed(np.array([terms.bounds[terms.target]])) | _NO_LAGS)
        self._now = self._labels.take(np.empty(0)).last

    @property
    def knows_labels(self) -> bool:
        """Whether predictions are in units of the target: not before the first label."""
        return self._now.n_known > 0 or self.scaling == "none"

    def inputs(self, x: np.ndarray) -> np.ndarray:
        """The row x (d,) scaled, itself among what is known."""
        if self.scaling == "none":
            return np.nan_to_num(x)
        if self.scaling == "bounds":
            low, high = self._bounds.T
            self.n_outside += int(np.count_nonzero((x < low) | (x > high)))
        found = self._columns.standardised_row(x, math.inf)
        assert found is not None  # nothing is too large
        return found

    def label(self, y: float) -> float:
        """The label y in units of those before it."""
        return self._now.scaled(y) if self.scaling != "none" else y

    def prediction(self, f: float) -> float:
        """What the federation says, in the units of the target."""
        return self._now.centre + self._now.unit * f

    def learn(self, y: float) -> None:
        """Take the label y into what is known."""
        self._now = self._labels.take_one(y)

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of all that it knows, which ``restore`` takes."""
        columns = {f"columns.{name}": a for name, a in self._columns.arrays().items()}
        return columns | {f"labels.{name}": a for name, a in self._labels.arrays().items()}

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        self._columns.restore(_below("columns.", kept))
        self._labels.restore(_below("labels.", kept))
        self._now = self._labels.take(np.empty(0)).last


_NO_LAGS = {"last": np.empty(0)}


def _fixed(bounds: np.ndarray) -> dict[str, np.ndarray]:
    """Moments whose mean is the middle of the bounds (C, 2), and whose deviation their distance."""
    low, high = bounds.T
    count = np.full(len(bounds), FIXED)
    return {
        "first": (low + high) / 2.0,
        "sums": np.stack([count, np.zeros(len(bounds)), FIXED * (high - low) ** 2]),
    }


def _below(head: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {n.removeprefix(head): array for n, array in arrays.items() if n.startswith(head)}
