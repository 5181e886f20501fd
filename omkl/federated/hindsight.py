"""Comparators of federated regret in hindsight: ridge regression on random features.

Every kernel is fitted, and the kernel with the smallest objective is taken: for each client from
its own rows, and for all clients together from all rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from omkl.core.linalg import add_rows, solve
from omkl.core.representations.random_features import features_of

CLIENTS = "each client's best kernel in hindsight, ridge regression on its random features"
SERVER = "the best function of all clients in hindsight (12), ridge regression on random features"


class Ridge(NamedTuple):
    """Best of N kernels for each of K clients alone, and for all clients together.

    kernels        (K,) int64, best kernel of each client
    errors         (T, K) squared errors of each client's own kernel; 0 after its last row
    shared_kernel  int, best kernel of all clients together
    theta          (2 D,) parameters of the shared kernel
    shared_errors  (T, K) squared errors of the shared kernel; 0 after a client's last row
    """

    kernels: np.ndarray
    errors: np.ndarray
    shared_kernel: int
    theta: np.ndarray
    shared_errors: np.ndarray


class Clients:
    """Features and targets of each client's rows."""

    def __init__(
        self, omega: np.ndarray, X: np.ndarray, y: np.ndarray, lengths: np.ndarray
    ) -> None:
        K = len(lengths)
        self.omega = omega
        self.inputs = [np.ascontiguousarray(X[: lengths[k], k]) for k in range(K)]
        self.targets = [np.ascontiguousarray(y[: lengths[k], k]) for k in range(K)]

    def features(self, i: int, k: int) -> np.ndarray:
        """Return z (n, 2 D) of kernel i at the rows of client k."""
        return features_of(self.omega[i], self.inputs[k])

    def equations(self, i: int, k: int) -> np.ndarray:
        """Return the normal equations of kernel i and client k, in the layout of ``linalg``."""
        z = self.features(i, k)
        equations = np.zeros((z.shape[1] + 1, z.shape[1] + 1))
        add_rows(equations, z, self.targets[k])
        return equations

    def errors(self, i: int, k: int, theta: np.ndarray) -> np.ndarray:
        """Return the squared errors (n,) of a kernel's function on the rows of a client.

        Parameters
        ----------
        i, k
            Kernel and client.
        theta
            Coefficients (2 D,).
        """
        return np.square(self.features(i, k) @ theta - self.targets[k])


def ridge(
    omega: np.ndarray,
    X: np.ndarray,
    y: np.ndarray,
    lengths: np.ndarray,
    lam: float,
    shared_lam: float,
) -> Ridge:
    """Fit every kernel to the rows of each client and to the rows of all clients.

    Minimises the sum of (theta'z - y)^2 + lam ||theta||^2 over the rows. Takes O(K N D^2 (T + D))
    time, most of it in products of matrices, and O(K T + D^2) memory.

    Parameters
    ----------
    omega
        (N, d, D) frequencies of one seed.
    X, y
        (T, K, d) inputs and (T, K) targets.
    lengths
        (K,) whole numbers: client k has the first ``lengths[k]`` rows.
    lam, shared_lam
        Regularisation >= 0 of each client's fit and of the shared fit.

    Returns
    -------
    Ridge
        Kernels and squared errors.
    """
    T, K = y.shape
    N = len(omega)
    data = Clients(omega, X, y, lengths)
    penalties = max(lam, 1e-10) * lengths
    shared_penalty = max(shared_lam, 1e-10) * int(lengths.sum())
    objectives, shared_objectives = np.zeros((N, K)), np.zeros(N)
    for i in range(N):
        of_clients = [data.equations(i, k) for k in range(K)]
        objectives[i] = [solve(of_clients[k], penalties[k])[0] for k in range(K)]
        shared_objectives[i] = solve(np.sum(of_clients, axis=0), shared_penalty)[0]
    kernels, shared_kernel = objectives.argmin(axis=0), int(shared_objectives.argmin())
    together = np.sum([data.equations(shared_kernel, k) for k in range(K)], axis=0)
    _, theta = solve(together, shared_penalty)
    errors, shared_errors = np.zeros((T, K)), np.zeros((T, K))
    for k in range(K):
        rows, i = slice(lengths[k]), int(kernels[k])
        _, fitted = solve(data.equations(i, k), penalties[k])
        errors[rows, k] = data.errors(i, k, fitted)
        shared_errors[rows, k] = data.errors(shared_kernel, k, theta)
    return Ridge(kernels, errors, shared_kernel, theta, shared_errors)
