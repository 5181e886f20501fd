"""The theorems of Ghari and Shen's JMLR paper on regret.

The theorems bound the expected cumulative loss above that of the best function in
hindsight, for constant eta, xi and eta_e, under

(as1)  L(theta'z, y) = (theta'z - y)^2 + lam ||theta||^2 is convex in theta;
(as2)  every kernel's loss lies in [0, 1], and ||grad L|| <= L;
(as3)  kernels are shift-invariant with kappa(0) = 1, and ||x|| <= 1.

Symbols, the same in all functions: ``T`` rounds, ``N`` kernels, ``eta`` step size, ``xi`` and
``eta_e`` exploration in (0, 1), ``L`` the bound on the gradient, ``C`` the largest sum of
|alpha_t| of an optimal f = sum alpha_t kappa(., x_t), ``epsilon`` the largest error of the
random features (``feature_errors``).

Every right-hand side also holds against the best function *of the random features*:
there the step from f* to its approximation falls away, which is ``epsilon=0`` with
``C=||theta*||``: lemma 1 (22) for theorem 2, (134) for theorem 5. That is what a run's regret
against ridge regression on random features is to be compared with.

The proof of theorem 2 has a gap for M > 1, which ``bound_of_run.unproved`` names: what is evaluated
of it is its right-hand side as stated.
"""

from __future__ import annotations

import math
from typing import Any

# --- right-hand sides --------------------------------------------------------------------


def theorem2(
    *,
    T: Any,
    N: int,
    J: int,
    eta: Any,
    eta_e: Any,
    L: float,
    theta_norm: float,
    epsilon: float = 0.0,
    C: float = 0.0,
) -> Any:
    """OMKL-GF, the right-hand side of (23); of lemma 1 (22) with ``epsilon=0``.

    J >= 1 selective nodes, theta_norm = ||theta*|| of the best function of the random
    features. T, eta and eta_e may be arrays, as in all three theorems.
    """
    return (
        math.log(N) / eta
        + theta_norm**2 / (2 * eta)
        + eta_e * J * T
        + epsilon * L * T * C
        + eta * N * T / (2 * (1 - eta_e))
        + eta * L**2 * N * J * T / (2 * eta_e**2)
    )


def theorem5(
    *,
    T: Any,
    N: int,
    n_out: int,
    eta: Any,
    xi: Any,
    L: float,
    C: float,
    inverse_q: Any,
    inverse_q_bar: Any = None,
    epsilon: float = 0.0,
) -> Any:
    """OMKL-SFG, the right-hand side of (40).

    n_out = |N_i^out| (M in omkl) of an in-neighbour i of the best kernel j*. inverse_q is
    the mean over the rounds of 1 / q_{j*,t}, inverse_q_bar that of 1 / q-bar_{i,t}, a
    weighted mean of 1 / q over the out-neighbours; by default it is inverse_q, as in the
    worst case (q >= xi / |dominating set|, text below the theorem).
    """
    if inverse_q_bar is None:
        inverse_q_bar = inverse_q
    return (
        math.log(N * n_out) / eta
        + (1 + epsilon) * C**2 / (2 * eta)
        + epsilon * L * T * C
        + (xi + eta * N / 2 - eta * xi / 2) * T
        + eta / 2 * T * (inverse_q_bar + L**2 * inverse_q)
    )


def theorem6(
    *,
    T: Any,
    N: int,
    beta: float,
    eta: Any,
    xi: Any,
    L: float,
    C: float,
    epsilon: float = 0.0,
) -> Any:
    """OMKL-SFG-R, the right-hand side of (48). Raises ValueError for beta outside (0, 1/N]."""
    if not 0 < beta <= 1 / N:
        raise ValueError(f"beta={beta} lies outside (0, 1/N={1 / N:.4g}]")
    return (
        2 * math.log(N) / eta
        + (1 + epsilon) * C**2 / (2 * eta)
        + epsilon * L * T * C
        + (xi + eta / 2 * (L**2 + N * beta + 1) / beta - eta * xi / 2) * T
    )


# --- constants that follow from the loss ---------------------------------------------------


def gradient_bound(lam: float, largest_loss: float = 1.0) -> float:
    """L: the largest ||grad L|| where the loss is at most ``largest_loss``.

    ||z|| = 1, so the gradient is at most 2 |e| + 2 lam ||theta|| with
    e^2 + lam ||theta||^2 <= largest_loss; the maximum is 2 sqrt(largest_loss (1 + lam)).
    """
    return 2 * math.sqrt(largest_loss * (1 + lam))


def theta_norm_bound(lam: float, mse: float | None, mean_square: float = 1.0) -> float:
    """An upper bound on ||theta*|| of ridge regression on random features.

    mse is its mean squared error, None where it is not known; mean_square the mean of y^2
    (at most 1 for targets in [0, 1]). At the optimum mse + lam ||theta||^2 <= mean_square,
    and lam theta is the mean of e z, at most sqrt(mse) long.
    """
    if lam == 0:
        return math.inf
    if mse is None:
        return math.sqrt(mean_square / lam)
    return min(math.sqrt(max(mean_square - mse, 0.0) / lam), math.sqrt(mse) / lam)


def coefficient_bound(lam: float, mse: float) -> float:
    """An upper bound on C = sum |alpha_t| of kernel ridge regression with this mse.

    Its coefficients are its errors divided by lam T, so C = mean |e| / lam <= sqrt(mse) / lam.
    """
    return math.inf if lam == 0 else math.sqrt(mse) / lam
