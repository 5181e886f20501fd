"""The algorithms as the authors' public code runs them, where it departs from their text.

One module for each algorithm whose released code was compared with a transcript
of its predictions; ``Differs`` says in what it departs. The algorithms as
published are in the folder above. What the departures have in common is here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from omkl.core.divergence import Matrix, distance_rows, distances_from, distances_to, matrix_of
from omkl.core.graphs import dissimilarity_graph
from omkl.core.jit import dispatch, inlined
from omkl.core.kernels import Kernel
from omkl.core.node_sampler import edges_of
from omkl.core.overlaps import LARGEST_MATRIX
from omkl.core.refinement import offer, offer_computed
from omkl.core.representations.random_features import gradient_step


@inlined
def learn(params, state, i, m, y, step, selection):
    """theta_i moves by ``step``; then w_i, by the error before and the penalty after that move."""
    error = selection.f[i] - y
    gradient_step(
        state.model, i, m, selection.scratch, 2.0 * step * error, 1.0 - 2.0 * step * params.lam
    )
    state.log_w[i] -= step * (error * error + params.lam * state.model.norm2[i])


@inlined
def shifted(i, N):
    """Where the released draw ends instead of i: one further, and the last one for the last."""
    return min(i + 1, N - 1)


class Released(NamedTuple):
    """The divergence that the released code computes, in any dimension; not its logarithm.

    It is no integral of (kappa_i - kappa_j)^2: it does not depend on the number of
    inputs, is positive on the diagonal and negative for some pairs. With Gaussian
    variances b and Laplacian lengths l, Delta = own_i + own_j - cross_ij, where

        own:   b^(3/2) / sqrt(pi)                         l / (4 pi^2)
        cross: b_i b_j / sqrt(2 pi (b_i + b_j))           l_i l_j / (2 pi^2 (l_i + l_j))
               b (1 + erf(sqrt(b) / (2 l))) / (2 pi)      of a Gaussian and a Laplacian

    It grows with b^(3/2), so the widest Gaussians are "dissimilar" to every kernel.

    bandwidth  (N,) b or l
    gaussian   (N,) bool
    own        (N,)
    """

    bandwidth: np.ndarray
    gaussian: np.ndarray
    own: np.ndarray


def released(
    kernels: Sequence[Kernel], gaussian_power: float = 1.0, laplacian_power: float = 1.0
) -> Released:
    """The kernels as the released code sees them; with their bandwidths as b^power."""
    unknown = {k.family for k in kernels} - {"gaussian", "laplacian"}
    if unknown:
        raise ValueError(f"the released code knows no {sorted(unknown)[0]} kernels")
    power = {"gaussian": gaussian_power, "laplacian": laplacian_power}
    kernels = [k._replace(bandwidth=k.bandwidth ** power[k.family]) for k in kernels]
    return Released(
        np.array([k.bandwidth for k in kernels]),
        np.array([k.family == "gaussian" for k in kernels]),
        np.array([_own(k) for k in kernels]),
    )


def released_divergence(
    kernels: Sequence[Kernel], gaussian_power: float = 1.0, laplacian_power: float = 1.0
) -> np.ndarray:
    """The released divergence as a matrix (N, N)."""
    N = len(kernels)
    return distance_rows(released(kernels, gaussian_power, laplacian_power), np.arange(N), N)


@functools.lru_cache(maxsize=4)
def released_graph(
    dictionary: tuple[Kernel, ...], gaussian_power: float, laplacian_power: float, M: int
) -> tuple[np.ndarray, Matrix | Released]:
    """Graph and divergence of the released code, made once for all seeds."""
    if len(dictionary) <= LARGEST_MATRIX:
        values = released_divergence(dictionary, gaussian_power, laplacian_power)
        return edges_of(dissimilarity_graph(values, M, logs=False)), matrix_of(values)
    computed = released(dictionary, gaussian_power, laplacian_power)
    return edges_of(dissimilarity_graph(computed, M, logs=False)), computed


def _own(kernel: Kernel) -> float:
    b = kernel.bandwidth
    return b**1.5 / math.sqrt(math.pi) if kernel.family == "gaussian" else b / (4.0 * math.pi**2)


def _released_distances(divergence, i, others, n, out, scratch):
    bandwidth, gaussian, own = divergence.bandwidth, divergence.gaussian, divergence.own
    for m in range(n):
        j = others[m]
        a, b = bandwidth[i], bandwidth[j]
        if gaussian[i] and gaussian[j]:
            cross = a * b / math.sqrt(2.0 * math.pi * (a + b))
        elif gaussian[i] == gaussian[j]:
            cross = a * b / (2.0 * math.pi**2 * (a + b))
        else:
            if gaussian[j]:
                a, b = b, a
            cross = a * (1.0 + math.erf(0.5 * math.sqrt(a) / b)) / (2.0 * math.pi)
        out[m] = own[i] + own[j] - cross


# It is symmetric.
dispatch(distances_from, Released, _released_distances)
dispatch(distances_to, Released, _released_distances)
dispatch(offer, Released, offer_computed)
