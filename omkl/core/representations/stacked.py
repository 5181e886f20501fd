"""Two levels of the forecaster of Vovk, Azoury and Warmuth: one for each kernel, one over them.

What the N forecasters of the kernels say is the row of features of the second level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.jit import dispatch, inlined
from omkl.core.representations import evaluate_row, recursive
from omkl.core.representations.random_features import blank
from omkl.core.representations.recursive import (
    FORECASTERS,
    Recursive,
    blank_recursive,
    forecaster_scratch,
    learn_every,
)

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Stacked(NamedTuple):
    """Forecasters ``first`` of N kernels, and the only one of ``second``, in N inputs.

    The place behind its inputs, where a learner on inputs has its 1, stays 0.
    """

    first: Recursive
    second: Recursive

    @property
    def omega(self) -> np.ndarray:
        return self.first.omega

    @property
    def theta(self) -> np.ndarray:
        """Of the kernels."""
        return self.first.theta

    @property
    def n_kernels(self) -> int:
        return self.first.n_kernels


class Scratch(NamedTuple):
    """What a round writes to: that of either level, and f (1,), what the second says."""

    first: recursive.Scratch
    second: recursive.Scratch
    f: np.ndarray


def _fresh(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> Stacked:
    N = len(kernels)
    first = recursive.fresh(kernels, d, D, seed, 1.0 / params.lam)
    no_waves, inputs, prior = np.array([0]), np.array([N]), np.array([1.0 / params.lam2])
    return Stacked(first, blank_recursive(blank(1, N, 0).padded, no_waves, inputs, prior))


def _scratch(model: Stacked, threads: int, every_kernel: bool, precision: str) -> Scratch:
    first, second = (forecaster_scratch(level, threads, every_kernel, precision) for level in model)
    return Scratch(first, second, np.zeros(1))


def _evaluate(scratch, model, X, row, selection):
    recursive.evaluate(scratch.first, model.first, X, row, selection)
    for i in range(selection.f.shape[0]):
        scratch.second.z[0, i] = selection.f[i]
    scratch.f[0] = recursive.output(model.second, 0, scratch.second)


dispatch(evaluate_row, Scratch, _evaluate)


@inlined
def learn_both(model, scratch, f, y):
    """The forecasters of the kernels, who said f (N,), and the one over them learn y."""
    learn_every(model.first, scratch.first, f, y)
    learn_every(model.second, scratch.second, scratch.f, y)


STACKED = FORECASTERS._replace(name="recursive on two levels", fresh=_fresh, scratch=_scratch)
