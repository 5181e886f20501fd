"""Weights from regrets, without a rate: ML-Poly.

w_i is proportional to max(R_i, 0) / V_i, where R_i adds up r_i = 2 (p - y) (p - f_i), by how much
expert i would have been better than the mixture p to first order, and V_i adds up r_i^2
(P. Gaillard, G. Stoltz, T. van Erven, COLT 2014). Regret against the best fixed convex mixture is
of order sqrt(N T) whatever the scale of the labels. Old rounds fade, so that the best mixture may
change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from omkl.core.jit import inlined

FADING = 0.999  # a memory of about 1,000 rounds; from 0.99 to 1 errors differ by 3 %
FLOOR = 1e-6  # of the largest V, added to all: an R that is little but rounding gets no weight
ROUNDING = 1e-12  # relative difference of predictions that counts as none


class Regrets(NamedTuple):
    """Of N experts, (N,) each: fading sums R and V, and the weights w, which sum to 1."""

    total: np.ndarray
    squares: np.ndarray
    w: np.ndarray


def no_regrets(N: int) -> Regrets:
    return Regrets(np.zeros(N), np.zeros(N), np.full(N, 1.0 / N))


@inlined
def mixed(w, f):
    """The mixture of the predictions f (N,) by weights w (N,)."""
    p = 0.0
    for i in range(f.shape[0]):
        p += w[i] * f[i]
    return p


@inlined
def learn_regrets(regrets, f, p, y):
    """Learn the label y after the predictions f (N,), whose mixture was p; weigh anew."""
    N = f.shape[0]
    largest = 0.0
    for i in range(N):
        off = p - f[i]
        r = 2.0 * (p - y) * off if abs(off) > ROUNDING * abs(p) else 0.0
        regrets.total[i] = FADING * regrets.total[i] + r
        regrets.squares[i] = FADING * regrets.squares[i] + r * r
        largest = max(largest, regrets.squares[i])
    total = 0.0
    for i in range(N):
        regrets.w[i] = 0.0
        if regrets.total[i] > 0.0:
            regrets.w[i] = regrets.total[i] / (regrets.squares[i] + FLOOR * largest)
        total += regrets.w[i]
    for i in range(N):
        regrets.w[i] = regrets.w[i] / total if total > 0.0 else 1.0 / N
