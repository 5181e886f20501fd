"""One learner of second order on the random features of all kernels together.

It is a recursive learner with N D frequencies. Its features have norm 1 as those of any other:
each kernel's are divided by sqrt(N), which lam is too, so the ridge regression is the same. What
is said of kernel i is its part of the sum, f_i = theta_i'z_i; predictions are the sum of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.jit import dispatch
from omkl.core.representations import evaluate_row, recursive
from omkl.core.representations.random_features import blank, draw_features
from omkl.core.representations.recursive import FORECASTERS, Recursive, blank_recursive

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Joint(NamedTuple):
    """The only learner ``all``, whose frequencies are those of the kernels one after the other.

    start (N,) int64: where the frequencies of kernel i begin.
    """

    all: Recursive
    start: np.ndarray

    @property
    def n_kernels(self) -> int:
        return len(self.start)

    @property
    def omega(self) -> np.ndarray:
        """The frequencies (N, d, D): a view, writes go through."""
        N, d = self.n_kernels, self.all.padded.shape[1]
        together = self.all.omega[0]
        return together.reshape(d, N, -1).swapaxes(0, 1)

    @property
    def theta(self) -> np.ndarray:
        """(N, 2 D) coefficients, sines and cosines: a copy."""
        N, n = self.n_kernels, int(self.all.n_waves[0])
        parts = self.all.theta[0, : 2 * n].reshape(2, N, n // N)
        return parts.swapaxes(0, 1).reshape(N, -1)


class Scratch(NamedTuple):
    """That of the learner, and its own selection: f (1,), evaluate and n_evaluated (1,) int64."""

    all: recursive.Scratch
    evaluate: np.ndarray
    n_evaluated: np.ndarray
    f: np.ndarray


def _fresh(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> Joint:
    N = len(kernels)
    padded = blank(1, d, N * D).padded
    drawn = draw_features(kernels, d, D, seed).omega
    padded[0, :, : N * D] = drawn.swapaxes(0, 1).reshape(d, N * D)
    together = blank_recursive(padded, np.array([N * D]), np.array([0]), np.array([N / params.lam]))
    return Joint(together, np.arange(N) * D)


def _scratch(model: Joint, threads: int, every_kernel: bool, precision: str) -> Scratch:
    first = recursive.forecaster_scratch(model.all, threads, every_kernel, precision)
    return Scratch(first, np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64), np.zeros(1))


def _evaluate(scratch, model, X, row, selection):
    recursive.evaluate(scratch.all, model.all, X, row, scratch)
    N = model.start.shape[0]
    n = model.all.n_waves[0]
    z = scratch.all.z
    theta = model.all.theta
    shrink = 1.0 / (1.0 + scratch.all.variance[0])
    for i in range(N):
        a = 0.0
        for j in range(model.start[i], model.start[i] + n // N):
            a += theta[0, j] * z[0, j] + theta[0, n + j] * z[0, n + j]
        selection.f[i] = a * shrink


dispatch(evaluate_row, Scratch, _evaluate)

JOINT = FORECASTERS._replace(name="recursive, joint", fresh=_fresh, scratch=_scratch, beside=())
