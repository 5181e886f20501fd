"""What federated regret is measured against in hindsight: ridge regression on random features.

Each kernel is fitted to its features, and the kernel with the least objective is taken: once for
each client alone, from its own rows, and once for all clients together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from omkl.core.representations.random_features import features_of

CLIENTS = "each client's best kernel in hindsight, ridge regression on its random features"
SERVER = "the best function of all clients in hindsight (12), ridge regression on random features"


class Ridge(NamedTuple):
    """The best of N kernels for each of K clients alone, and for all of them together.

    kernels        (K,) int64, of each client
    errors         (T, K) squared errors of each client's own; 0 where it is done
    shared_kernel  int, for all
    theta          (2 D,) for all
    shared_errors  (T, K) squared errors of the one for all; 0 where a client is done
    """

    kernels: np.ndarray
    errors: np.ndarray
    shared_kernel: int
    theta: np.ndarray
    shared_errors: np.ndarray


def ridge(
    omega: np.ndarray,
    X: np.ndarray,
    y: np.ndarray,
    lengths: np.ndarray,
    lam: float,
    shared_lam: float,
) -> Ridge:
    """Fit every kernel to the rows of each client and to those of all.

    omega (N, d, D) are one seed's frequencies; X (T, K, d), y (T, K), of which client k has the
    first ``lengths[k]`` rounds. Minimises the sum of (theta'z - y)^2 + lam ||theta||^2 over the
    rows, ``lam`` for a client's own and ``shared_lam`` for the one for all. Takes
    O(K N D^2 (T + D)) time and O(K D^2) memory.
    """
    T, K = y.shape
    N, _, D = omega.shape
    own = [np.ascontiguousarray(X[: lengths[k], k]) for k in range(K)]
    told = [np.ascontiguousarray(y[: lengths[k], k]) for k in range(K)]
    squares = np.array([float(target @ target) for target in told])
    least, kernels, thetas = np.full(K, np.inf), np.zeros(K, dtype=np.int64), np.zeros((K, 2 * D))
    shared_least, shared_kernel, shared_theta = np.inf, 0, np.zeros(2 * D)
    unit = np.eye(2 * D)
    for i in range(N):
        all_gram, all_cross = np.zeros((2 * D, 2 * D)), np.zeros(2 * D)
        for k in range(K):
            z = features_of(omega[i], own[k])
            gram, cross = z.T @ z, z.T @ told[k]
            all_gram += gram
            all_cross += cross
            theta = np.linalg.solve(gram + max(lam, 1e-10) * len(z) * unit, cross)
            objective = squares[k] - float(theta @ cross)
            if objective < least[k]:
                least[k], kernels[k], thetas[k] = objective, i, theta
        penalty = max(shared_lam, 1e-10) * int(lengths.sum())
        theta = np.linalg.solve(all_gram + penalty * unit, all_cross)
        objective = float(squares.sum()) - float(theta @ all_cross)
        if objective < shared_least:
            shared_least, shared_kernel, shared_theta = objective, i, theta
    errors, shared_errors = np.zeros((T, K)), np.zeros((T, K))
    for k in range(K):
        rows = slice(lengths[k])
        z = features_of(omega[kernels[k]], own[k])
        errors[rows, k] = np.square(z @ thetas[k] - told[k])
        z = features_of(omega[shared_kernel], own[k])
        shared_errors[rows, k] = np.square(z @ shared_theta - told[k])
    return Ridge(kernels, errors, shared_kernel, shared_theta, shared_errors)
