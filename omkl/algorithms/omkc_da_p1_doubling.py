"""OMKC DA-P(1), doubling: beta follows, by doubling, the mistakes of the best classifier.

Paper    R. Jin, S. C. H. Hoi, T. Yang, "Online Multiple Kernel Learning: Algorithms and
         Mistake Bounds", ALT 2010, algorithm 1 with beta_k of equation (5).
Task     classification, labels -1 and +1; full information.
Round    As ``omkc_da_p1`` with beta_k = 2^(k/2) / (sqrt(ln N) + 2^(k/2)) in segment k = 0, 1, ..
         A segment ends with the round in which min_i of the mistakes since its beginning
         reaches 2^k.
Symbols  restart  whether the weights start at 1 in every segment
Cost     as ``omkc_da_p1``.
Bound    theorem 5, with restart: M <= 2 (g + ln N + 2 / (sqrt(2) - 1) sqrt(g ln N))
         + 2 ceil(log2 g) ln N, g = min_i g(kappa_i). Unproved: the proof has sqrt(2) more before
         sqrt(g ln N), see ``docs/errata.md``.
Differs  none. Reading: the weights restart, since the proof pays ln N in every segment; the
         text only says that beta changes. The classifiers are kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.algorithms.omkc_da_p1 import predict, select
from omkl.core.hyperparameters import ROUNDS
from omkl.core.protocol import register
from omkl.core.representations.kernel_perceptrons import PERCEPTRONS, add

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Params(NamedTuple):
    restart: bool


class State(NamedTuple):
    model: Any
    log_w: np.ndarray  # (N,)
    updates: ROUNDS  # (N,) int64
    mistakes: ROUNDS  # (N,) int64, in this segment
    segment: ROUNDS  # (1,) int64, k


def init(params: Any, dictionary: Sequence[Kernel], model: Any) -> State:
    N = len(dictionary)
    counts = np.zeros(N, dtype=np.int64)
    return State(model, np.zeros(N), counts, counts.copy(), np.zeros(1, dtype=np.int64))


def update(params, state, t, y, selection):
    N = selection.f.shape[0]
    root = 2.0 ** (0.5 * state.segment[0])
    discount = math.log(root / (math.sqrt(math.log(N)) + root))
    fewest = state.mistakes[0] + 1
    for i in range(N):
        if y * selection.f[i] <= 0.0:
            add(state.model, i, y, selection.f[i], selection.scratch)
            state.log_w[i] += discount
            state.updates[i] += 1
            state.mistakes[i] += 1
        fewest = min(fewest, state.mistakes[i])
    if fewest == 2.0 ** state.segment[0]:
        state.segment[0] += 1
        for i in range(N):
            state.mistakes[i] = 0
            if params.restart:
                state.log_w[i] = 0.0


EXPECTED_FAILURES = {"bounded_memory": "exact kernels keep every row that taught a classifier"}

algorithm = register(
    __name__,
    representation=PERCEPTRONS,
    task="classification",
    every_kernel=True,
    theorem="theorem 5",
    independent=True,
)
