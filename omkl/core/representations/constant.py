"""Functions that do not look at x: f_i is a number, alpha[i, 0]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.jit import dispatch
from omkl.core.representations import Representation, evaluate_row

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Constant(NamedTuple):
    alpha: np.ndarray  # (N, 1)

    @property
    def n_kernels(self) -> int:
        return len(self.alpha)


class Scratch(NamedTuple):
    """A round needs nothing to write to."""


def _evaluate(scratch, model, X, row, selection):
    for m in range(selection.n_evaluated[0]):
        i = selection.evaluate[m]
        selection.f[i] = model.alpha[i, 0]


dispatch(evaluate_row, Scratch, _evaluate)


def _fresh(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> Constant:
    return Constant(np.zeros((len(kernels), 1)))


def _scratch(model: Constant, threads: int, every_kernel: bool, precision: str) -> Scratch:
    return Scratch()


def _no_support(model: Constant) -> np.ndarray:
    return np.zeros(model.n_kernels, dtype=np.int64)


def _no_rows(model: Constant) -> int:
    return 0


CONSTANT = Representation(
    name="constant",
    fresh=_fresh,
    scratch=_scratch,
    lookahead=None,
    written=(),
    draws_features=False,
    supports_float32=False,
    support_size=_no_support,
    kept_rows=_no_rows,
)
