"""Two levels of the forecaster of Vovk, Azoury and Warmuth: one for each kernel, one over them.

A forecaster has seen the features of the row that it predicts: with P = A_{t-1}^-1 and
theta = P b_{t-1} it says z'A_t^-1 b_{t-1} = theta'z / (1 + z'P z). What the N forecasters of the
kernels say is the row of features of the second level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.factor import empty_factor, project, take_in
from omkl.core.jit import dispatch, inlined
from omkl.core.representations import evaluate_row, recursive
from omkl.core.representations.recursive import Recursive, learn
from omkl.core.simd import LANES, aligned, fma, load, pack, store, total

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Stacked(NamedTuple):
    """Forecasters ``first`` of N kernels, and the second level's theta, factor and diagonal.

    theta (1, 8 B), factor (1, B, 8 B, 8), diagonal (1, 8 B), with 8 B at least N.
    """

    first: Recursive
    theta: np.ndarray
    factor: np.ndarray
    diagonal: np.ndarray

    @property
    def n_kernels(self) -> int:
        return self.first.n_kernels


class Scratch(NamedTuple):
    """What a round writes to; ``y_hat`` (1,) is what the second level says.

    said (1, 8 B) what the kernels say; projected (1, 8 B), variance (1,) and gain, slope,
    step (8 B,) are as of ``recursive``.
    """

    first: recursive.Scratch
    said: np.ndarray
    projected: np.ndarray
    variance: np.ndarray
    y_hat: np.ndarray
    gain: np.ndarray
    slope: np.ndarray
    step: np.ndarray


def _fresh(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> Stacked:
    factor, diagonal = empty_factor(1, len(kernels))
    diagonal[:] = 1.0 / params.lam2
    first = recursive.fresh(kernels, d, D, seed, 1.0 / params.lam)
    return Stacked(first, aligned(diagonal.shape), factor, diagonal)


def _scratch(model: Stacked, threads: int, every_kernel: bool, precision: str) -> Scratch:
    F = model.diagonal.shape[1]
    return Scratch(
        recursive.scratch(model.first, threads, every_kernel, precision),
        said=aligned((1, F)),
        projected=aligned((1, F)),
        variance=np.zeros(1),
        y_hat=np.zeros(1),
        gain=np.zeros(F),
        slope=np.zeros(F),
        step=aligned((F,)),
    )


def _evaluate(scratch, model, X, row, selection):
    first = scratch.first
    recursive.evaluate(first, model.first, X, row, selection)
    for i in range(selection.f.shape[0]):
        selection.f[i] /= 1.0 + first.variance[i]
        scratch.said[0, i] = selection.f[i]
    B = model.factor.shape[1]
    a = pack(0.0)
    for b in range(B):
        a = fma(load(model.theta, b * LANES), load(scratch.said, b * LANES), a)
    scratch.variance[0] = project(
        model.factor, model.diagonal, 0, B, scratch.said, scratch.projected
    )
    scratch.y_hat[0] = total(a) / (1.0 + scratch.variance[0])


dispatch(evaluate_row, Scratch, _evaluate)


@inlined
def learn_both(model, scratch, f, y):
    """Let all forecasters, whose predictions are f (N,), and the one over them learn y."""
    for i in range(f.shape[0]):
        error = y - f[i] * (1.0 + scratch.first.variance[i])
        learn(model.first, i, scratch.first, 1.0, 1.0, error)
    error = y - scratch.y_hat[0] * (1.0 + scratch.variance[0])
    B = model.factor.shape[1]
    take_in(
        model.factor, model.diagonal, 0, B, scratch.projected, 1.0, 1.0, np.inf,
        scratch.gain, scratch.slope, scratch.step,
    )  # fmt: skip
    for b in range(B):
        j = b * LANES
        store(model.theta, j, fma(load(scratch.step, j), error, load(model.theta, j)))


STACKED = recursive.RECURSIVE._replace(
    name="recursive on two levels", fresh=_fresh, scratch=_scratch
)
