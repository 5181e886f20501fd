"""The regret theorems of Ghari and Shen: their JMLR paper, and NeurIPS 2022 on federations.

The theorems bound the expected cumulative loss above that of the best function in hindsight, for
constant eta, xi and eta_e, under

(as1)  L(theta'z, y) = (theta'z - y)^2 + lam ||theta||^2 is convex in theta;
(as2)  every kernel's loss lies in [0, 1], and ||grad L|| <= L;
(as3)  kernels are shift-invariant with kappa(0) = 1, and ||x|| <= 1.

Symbols: ``T`` rounds, ``N`` kernels, ``eta`` step size, ``xi`` and ``eta_e`` exploration in (0, 1),
``L`` the bound on the gradient, ``C`` the largest sum of |alpha_t| of an optimal
f = sum alpha_t kappa(., x_t), ``epsilon`` the largest error of the random features.

Every right-hand side also holds against the best function *of the random features*: there
``epsilon=0`` and ``C=||theta*||``, lemma 1 (22) for theorem 2, (134) for theorem 5. A run's regret
against ridge regression on random features is compared with that.

Claim 1 of Rahimi and Recht (2007) says how far random features are from their kernel, over all x
and x' of a set of diameter diam. The papers have it without diam; ||x|| <= 1 is a ball of diameter
2 (docs/errata.md).

Theorem 1 of the federated paper is about a client against its best online kernel, (11), and holds
whatever the server sends. Theorem 2 is about the sum over all clients against the best single
function, (12), in the mean over the draws of kernels and of the clients that are asked. It says
nothing where messages are clipped, have noise, are refused or trimmed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import lambertw

from omkl.core.hyperparameters import Schedule, parse_schedule, rate
from omkl.core.kernels import Family

DIAMETER = 2.0  # of the ball ||x|| <= 1
LARGEST_EPSILON = 2.0  # |z'z - kappa| never exceeds it: both lie in [-1, 1]

Array = np.ndarray

# --- graph-aided learners -------------------------------------------------------------------------


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
    """Evaluate the right-hand side of (23) for OMKL-GF; of lemma 1 (22) with ``epsilon=0``.

    J >= 1 selective nodes, theta_norm = ||theta*|| of the best function of the random features. T
    and the rates may be arrays, as in all three theorems.
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
    """Evaluate the right-hand side of (40) for OMKL-SFG.

    n_out = |N_i^out| (M in omkl) of an in-neighbour i of the best kernel j*. inverse_q is the mean
    over the rounds of 1 / q_{j*,t}, inverse_q_bar that of 1 / q-bar_{i,t}, a weighted mean of 1 / q
    over the out-neighbours. Its default is inverse_q, the worst case of the text below the theorem.
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
    *, T: Any, N: int, beta: float, eta: Any, xi: Any, L: float, C: float, epsilon: float = 0.0
) -> Any:
    """Evaluate the right-hand side of (48) for OMKL-SFG-R; ValueError unless 0 < beta <= 1/N."""
    if not 0 < beta <= 1 / N:
        raise ValueError(f"beta={beta} lies outside (0, 1/N={1 / N:.4g}]")
    return (
        2 * math.log(N) / eta
        + (1 + epsilon) * C**2 / (2 * eta)
        + epsilon * L * T * C
        + (xi + eta / 2 * (L**2 + N * beta + 1) / beta - eta * xi / 2) * T
    )


# --- constants ------------------------------------------------------------------------------------


def gradient_bound(lam: float, largest_loss: float = 1.0) -> float:
    """Bound ||grad L|| = L where the loss is at most ``largest_loss``.

    ||z|| = 1, so the gradient is at most 2 |e| + 2 lam ||theta|| with
    e^2 + lam ||theta||^2 <= largest_loss; the maximum is 2 sqrt(largest_loss (1 + lam)).
    """
    return 2 * math.sqrt(largest_loss * (1 + lam))


def mean_schedule(text: Any, T: int) -> Array:
    """Return the means over rounds 1..t of a schedule, for t = 1..T."""
    schedule, rounds = parse_schedule(text, T), np.arange(1, T + 1)
    if schedule.power == 0:
        return np.full(T, schedule.scale)
    return np.cumsum(schedule.scale * rounds**schedule.power) / rounds


def fitted_slope(t: Array, regret: Array) -> float | None:
    """Fit the slope of log regret over log t on t >= T / 2, by least squares.

    Returns None if there are fewer than three rounds, or the regret is not positive throughout.
    """
    late = t >= t[-1] / 2
    if late.sum() < 3 or not (regret[late] > 0).all():
        return None
    return float(np.polyfit(np.log(t[late]), np.log(regret[late]), 1)[0])


def theta_norm_bound(lam: float, mse: float | None, mean_square: float = 1.0) -> float:
    """Bound ||theta*|| of ridge regression on random features.

    At the optimum mse + lam ||theta||^2 <= mean_square, and lam theta is the mean of e z, at most
    sqrt(mse) long.

    Parameters
    ----------
    lam
        Penalty, >= 0.
    mse
        Mean squared error of the regression; None if unknown.
    mean_square
        Mean of y^2, at most 1 for targets in [0, 1].
    """
    if lam == 0:
        return math.inf
    if mse is None:
        return math.sqrt(mean_square / lam)
    return min(math.sqrt(max(mean_square - mse, 0.0) / lam), math.sqrt(mse) / lam)


def coefficient_bound(lam: float, mse: float) -> float:
    """Bound C = sum |alpha_t| of kernel ridge regression with this mse.

    Its coefficients are its errors divided by lam T, so C = mean |e| / lam <= sqrt(mse) / lam.
    """
    return math.inf if lam == 0 else math.sqrt(mse) / lam


# --- errors of random features --------------------------------------------------------------------


def second_moment(family: Family, d: int, b: float) -> float:
    """Return the mean of ||omega||^2 over a kernel's frequencies omega (d,); inf if unknown."""
    if family.name == "gaussian":
        return d / b
    if family.name == "cauchy":
        return 2 * d / b**2
    degrees = getattr(family, "degrees", 2)  # of a Student t
    return degrees / (degrees - 2) * d / b**2 if degrees > 2 else math.inf


def probability(epsilon: float, second_moment: float, D: int, d: int) -> float:
    """Return a lower bound on the probability that D features err by less than epsilon.

    1 - 2^8 (sigma diam / epsilon)^2 exp(-D epsilon^2 / (4 d + 8)) for ||x|| <= 1, or 0 if this is
    negative.

    Parameters
    ----------
    epsilon
        Error, > 0.
    second_moment
        Mean of ||omega||^2, sigma^2.
    D, d
        Number of features and of inputs.
    """
    if not math.isfinite(second_moment):
        return 0.0
    failure = _failure_factor(second_moment) / epsilon**2 * math.exp(-D * epsilon**2 / (4 * d + 8))
    return max(0.0, 1.0 - failure)


def smallest_epsilon(chance: float, second_moment: float, D: int, d: int) -> float:
    """Return the epsilon whose ``probability`` is ``chance``; inf if there is none.

    With a = D / (4 d + 8), a eps^2 exp(a eps^2) = 2^8 a (sigma diam)^2 / (1 - chance): Lambert's W.

    Parameters
    ----------
    chance
        Probability in [0, 1).
    second_moment, D, d
        As in ``probability``.
    """
    if not math.isfinite(second_moment):
        return math.inf
    a = D / (4 * d + 8)
    return math.sqrt(float(lambertw(a * _failure_factor(second_moment) / (1 - chance)).real) / a)


def features_needed(epsilon: float, chance: float, second_moment: float, d: int) -> float:
    """Return the number of features that give epsilon at least the probability ``chance``.

    Parameters
    ----------
    epsilon
        Error, > 0.
    chance
        Probability in [0, 1).
    second_moment, d
        As in ``probability``.
    """
    failure = _failure_factor(second_moment) / epsilon**2
    return max(0.0, (4 * d + 8) / epsilon**2 * math.log(failure / (1 - chance)))


def _failure_factor(second_moment: float) -> float:
    return 256 * second_moment * DIAMETER**2


# --- federated learners ---------------------------------------------------------------------------


def client_regret_bound(params: Any, n_kernels: int, t: Array) -> Array | None:
    """Bound the regret of a client of POF-MKL after t rounds by (13), ln N / eta_k + eta_k t / 2.

    Returns None for a learner without client weights, and if eta_k is not constant.

    Parameters
    ----------
    params
        ``Params`` of the learner.
    n_kernels
        Number of kernels N.
    t
        Rounds (P,).
    """
    eta_k = _constant(params, "eta_k")
    if eta_k is None:
        return None
    return np.log(n_kernels) / eta_k + eta_k * np.asarray(t, dtype=float) / 2.0


def server_regret_bound(
    params: Any,
    n_kernels: int,
    n_clients: int,
    t: Array,
    theta_norm: float,
    epsilon: float = 0.0,
    C: float = 0.0,
) -> Array | None:
    """Evaluate the right-hand side of (14), for clients that all have t rounds.

    K ||theta*||^2 / (2 eta) + (eta / 2) K t L^2 / p + K (ln N / eta_k + eta_k t / 2) + epsilon L K
    t C. With ``epsilon=0`` it is (36), against the best function of the random features. p is the
    least that (8) allows, xi / m with m bins; 1 for one bin. L follows from (as2).

    Parameters
    ----------
    params
        ``Params`` of the learner.
    n_kernels, n_clients
        Numbers N and K.
    t
        Rounds (P,).
    theta_norm
        ||theta*|| of the best function of the random features.
    epsilon, C
        Error of the random features, and bound on sum |alpha_t|.

    Returns
    -------
    Array (P,); None for a learner without client weights, and if a step is not constant.
    """
    eta, eta_k = _constant(params, "eta"), _constant(params, "eta_k")
    if eta is None or eta_k is None:
        return None
    n_bins = math.ceil(n_kernels / params.M)
    p = 1.0 if n_bins == 1 else params.xi / n_bins
    L = gradient_bound(params.lam)
    t = np.asarray(t, dtype=float)
    weighing = math.log(n_kernels) / eta_k + eta_k * t / 2.0
    learning = theta_norm**2 / (2.0 * eta) + 0.5 * eta * t * L**2 / p
    return n_clients * (learning + weighing + epsilon * L * t * C)


def _constant(params: Any, name: str) -> float | None:
    step = getattr(params, name, None)
    if not isinstance(step, Schedule) or step.power != 0.0 or not hasattr(params, "eta_k"):
        return None
    return rate(step, 1)
