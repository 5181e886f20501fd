"""The algorithms as the authors' public code runs them, where it departs from their text.

One module for each algorithm whose released code was compared with a transcript
of its predictions; ``Differs`` says in what it departs. The algorithms as
published are in the folder above. What the departures have in common is here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from omkl.features import gradient_step
from omkl.jit import part

if TYPE_CHECKING:
    from omkl.kernels import Kernel


@part
def learn(params, state, i, m, y, step, rnd):
    """theta_i moves by ``step``; then w_i, by the error before and the penalty after that move."""
    error = rnd.f[i] - y
    gradient_step(state.model, i, m, rnd.buffers, 2.0 * step * error, 1.0 - 2.0 * step * params.lam)
    state.log_w[i] -= step * (error * error + params.lam * state.model.norm2[i])


@part
def shifted(i, N):
    """Where the released draw ends instead of i: one further, and the last one for the last."""
    return min(i + 1, N - 1)


def released_divergence(
    kernels: Sequence[Kernel], gaussian_power: float = 1.0, laplacian_power: float = 1.0
) -> np.ndarray:
    """The divergence (N, N) that the released code computes, in any dimension.

    It is no integral of (kappa_i - kappa_j)^2: it does not depend on the number of
    inputs, is positive on the diagonal and negative for some pairs. With Gaussian
    variances b and Laplacian lengths l, Delta = own_i + own_j - cross_ij, where

        own:   b^(3/2) / sqrt(pi)                         l / (4 pi^2)
        cross: b_i b_j / sqrt(2 pi (b_i + b_j))           l_i l_j / (2 pi^2 (l_i + l_j))
               b (1 + erf(sqrt(b) / (2 l))) / (2 pi)      of a Gaussian and a Laplacian

    It grows with b^(3/2), so the widest Gaussians are "dissimilar" to every kernel. With a
    power other than 1 the bandwidths of that family enter as b^power.
    """
    unknown = {k.family for k in kernels} - {"gaussian", "laplacian"}
    if unknown:
        raise ValueError(f"the released code knows no {sorted(unknown)[0]} kernels")
    power = {"gaussian": gaussian_power, "laplacian": laplacian_power}
    kernels = [k._replace(bandwidth=k.bandwidth ** power[k.family]) for k in kernels]
    own = np.array([_own(k) for k in kernels])
    cross = np.array([[_cross(a, b) for b in kernels] for a in kernels])
    return own[:, None] + own[None, :] - cross


def _own(kernel: Kernel) -> float:
    b = kernel.bandwidth
    return b**1.5 / math.sqrt(math.pi) if kernel.family == "gaussian" else b / (4.0 * math.pi**2)


def _cross(one: Kernel, other: Kernel) -> float:
    if one.family > other.family:
        one, other = other, one
    a, b = one.bandwidth, other.bandwidth
    if other.family == "gaussian":
        return a * b / math.sqrt(2.0 * math.pi * (a + b))
    if one.family == "laplacian":
        return a * b / (2.0 * math.pi**2 * (a + b))
    return a * (1.0 + math.erf(0.5 * math.sqrt(a) / b)) / (2.0 * math.pi)
