"""The algorithms as the authors' public code runs them, where it departs from their text.

``Differs`` of a module says in what it departs. The algorithms as published are in the folder
above. What the departures have in common is here; ``draws`` has the release's random numbers.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from omkl.core.compiler import dispatch, inlined
from omkl.core.feedback_graph import dissimilarity_graph, offer, offer_computed
from omkl.core.graph_sampling import edges_of
from omkl.core.kernel_distance import distances_from, distances_to
from omkl.core.representations.random_features import gradient_step


@inlined
def learn(params, state, i, m, y, step, step_of_w, selection):
    """theta_i moves by ``step``; then w_i, by the error before and the penalty after that move."""
    error = selection.f[i] - y
    gradient_step(
        state.model, i, m, selection.scratch, 2.0 * step * error, 1.0 - 2.0 * step * params.lam
    )
    state.log_w[i] -= step_of_w * (error * error + params.lam * state.model.norm2[i])


@inlined
def shifted(i, N):
    """Where the released draw ends instead of i: one further, and the last one for the last."""
    return min(i + 1, N - 1)


class Undefined(NamedTuple):
    """The divergence of the released code, which is the same for every pair of kernels.

    Its function ``kernel_distance`` ends without a ``return``, so every divergence is NaN, and
    ``argmax`` of NaNs is the smallest index. Equal divergences lead there too.

    own  (N,) zeros
    """

    own: np.ndarray


@functools.lru_cache(maxsize=4)
def released_graph(N: int, M: int) -> tuple[np.ndarray, Undefined]:
    """Make edges (3, N, M) and divergence of the released code, once for all seeds.

    The out-neighbours of node i are i and the M - 1 smallest other indices.
    """
    divergence = Undefined(np.zeros(N))
    return edges_of(dissimilarity_graph(divergence, M, logs=False)), divergence


def _no_distances(divergence, i, others, n, out, scratch):
    for m in range(n):
        out[m] = 0.0


dispatch(distances_from, Undefined, _no_distances)
dispatch(distances_to, Undefined, _no_distances)
dispatch(offer, Undefined, offer_computed)
