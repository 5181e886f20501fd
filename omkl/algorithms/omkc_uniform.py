"""equal votes: the Perceptrons of ``omkc_da_p1``, none of which counts more than another.

Paper    none; the baseline that Hedge weights have to beat.
Task     classification, labels -1 and +1; full information.
Round    1. Predict the sign of the mean of sign(f_i(x_t)).
         2. Where y_t f_i(x_t) <= 0: f_i <- f_i + y_t kappa_i(x_t, .).
Symbols  none
Cost     as ``omkc_da_p1``.
Bound    none.
Differs  none.
"""

from __future__ import annotations

from typing import NamedTuple

from omkl.algorithms.omkc_da_p1 import State, init, predict, select
from omkl.core.protocol import register
from omkl.core.representations.kernel_perceptrons import PERCEPTRONS, add


class Params(NamedTuple):
    pass


def update(params, state, t, y, selection):
    for i in range(selection.f.shape[0]):
        if y * selection.f[i] <= 0.0:
            add(state.model, i, y, selection.f[i], selection.scratch)
            state.updates[i] += 1


EXPECTED_FAILURES = {"bounded_memory": "exact kernels keep every row that taught a classifier"}

algorithm = register(
    __name__, representation=PERCEPTRONS, task="classification", every_kernel=True, independent=True
)
