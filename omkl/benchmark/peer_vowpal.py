"""Vowpal Wabbit as a peer: a regression through its Python package, row by row.

Its squared-error loss and steps are its defaults; labels are standardised by those that are known,
as for scikit-learn.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from omkl.datasets.scaling import KnownLabels


class _Vowpal:
    """A workspace with inputs in the namespace ``i``; it is pickled as the file of its model."""

    def __init__(self, arguments: str) -> None:
        from vowpalwabbit import Workspace  # an extra

        self.workspace = Workspace(arguments)
        self.labels = KnownLabels(0, scaled=True)
        self.now = self.labels.take(np.empty(0)).last

    def predict_one(self, x: Mapping[str, float]) -> float:
        said = float(self.workspace.predict(_line(x)))
        return self.now.centre + self.now.unit * said

    def learn_one(self, x: Mapping[str, float], y: float) -> None:
        self.workspace.learn(f"{self.now.scaled(y)!r} {_line(x)}")
        self.now = self.labels.take_one(y)

    def __getstate__(self) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="omkl-vw-") as place:
            path = Path(place) / "model"
            self.workspace.save(str(path))
            return {"model": path.read_bytes()}


def _line(x: Mapping[str, float]) -> str:
    """Inputs by their place: their names may have what is a mark to Vowpal Wabbit."""
    return "|i " + " ".join(f"{k}:{value!r}" for k, value in enumerate(x.values()))


def regression(options: str) -> Callable[[str, int, int], Any]:
    """make(task, n_classes, seed) of a workspace with these options; of a regression alone."""

    def make(task: str, n_classes: int, seed: int) -> Any:
        if task != "regression":
            raise ValueError("it has no classification")
        return _Vowpal(f"--quiet --random_seed {seed} {options}")

    return make
