"""Theorems 1 and 2 of Ghari and Shen, NeurIPS 2022: what POF-MKL's regrets never exceed.

Both are for losses in [0, 1], (as2), and for constant steps eta and eta_k. Theorem 1 is about a
client against its best online kernel, (11), and holds for whatever the server sends. Theorem 2 is
about the server, the sum over all clients against the best single function, (12), and holds for the
mean over the draws of kernels.

Where the server asks m of K clients, drawn at random, (10) is the mean over the m. Its expectation
is the same, and so is the second term that (32) of the proof gives for it, which bounds the square
of a sum by a sum of squares. So (14) holds as it stands, for the mean over the draws of clients
too. It says nothing where messages are clipped, have noise, are refused or trimmed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from omkl.core.hyperparameters import Schedule, rate
from omkl.theory.regret_bounds import gradient_bound


def theorem_1(built: Any, n_kernels: int, t: np.ndarray) -> np.ndarray | None:
    """ln N / eta_k + eta_k t / 2 on the rounds t (P,): no client's regret of POF-MKL is larger.

    Ghari and Shen, NeurIPS 2022, (13), for losses in [0, 1]. None for a learner without
    client weights, and where eta_k is not constant, of which the theorem does not speak.
    """
    step = _constant(built, "eta_k")
    if step is None:
        return None
    return np.log(n_kernels) / step + step * np.asarray(t, dtype=float) / 2.0


def theorem_2(
    built: Any,
    n_kernels: int,
    n_clients: int,
    t: np.ndarray,
    theta_norm: float,
    epsilon: float = 0.0,
    C: float = 0.0,
) -> np.ndarray | None:
    """The right-hand side of (14) on the rounds t (P,), for clients that all have these rounds.

    K ||theta*||^2 / (2 eta) + (eta / 2) K t L^2 / p + K (ln N / eta_k + eta_k t / 2)
    + epsilon L K t C. With ``epsilon`` 0 it is (36), against the best function of the random
    features, whose norm is ``theta_norm``; the theorem's own, against the best function of the
    kernel's space, has theta_norm = C, the largest sum of |alpha|, and epsilon the largest
    error of the features. p is the least that (8) allows, xi / m with m bins, as the text
    below the theorem says; 1 where there is one bin. L follows from (as2).

    None for a learner without client weights, and where a step is not constant.
    """
    eta, eta_k = _constant(built, "eta"), _constant(built, "eta_k")
    if eta is None or eta_k is None:
        return None
    n_bins = math.ceil(n_kernels / built.M)
    p = 1.0 if n_bins == 1 else built.xi / n_bins
    L = gradient_bound(built.lam)
    t = np.asarray(t, dtype=float)
    weighing = math.log(n_kernels) / eta_k + eta_k * t / 2.0
    learning = theta_norm**2 / (2.0 * eta) + 0.5 * eta * t * L**2 / p
    return n_clients * (learning + weighing + epsilon * L * t * C)


def _constant(built: Any, name: str) -> float | None:
    step = getattr(built, name, None)
    if not isinstance(step, Schedule) or step.power != 0.0 or not hasattr(built, "eta_k"):
        return None
    return rate(step, 1)
