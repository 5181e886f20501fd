"""What federated regret is measured against in hindsight: ridge regression on random features.

Each kernel is fitted to its features, and the kernel with the least objective is taken: once for
each client alone, from its own rows, and once for all clients together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from omkl.core.linalg import empty_moments, least_objectives
from omkl.core.representations.random_features import features_at, features_of
from omkl.federated.client_features import FEWEST_INPUTS, SHARE

if TYPE_CHECKING:
    from scipy.sparse import csr_array

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


class SparseInputs(NamedTuple):
    """Rows of which most inputs are one number each: ``common`` (n,), and what the others add to it
    as a sparse matrix ``others`` (n, d)."""

    common: np.ndarray
    others: csr_array


def sparse_inputs(X: np.ndarray) -> SparseInputs | None:
    """Rows X (n, d) as ``SparseInputs``; None where d is small or a row differs in too much."""
    n, d = X.shape
    if d < FEWEST_INPUTS or n == 0:
        return None
    from scipy.sparse import csr_array  # 0.2 s

    common = np.median(X, axis=1)  # what more than half of them are
    if SHARE * np.count_nonzero(X != common[:, None], axis=1).max() > d:
        return None
    return SparseInputs(common, csr_array(X - common[:, None]))


class Equations:
    """The normal equations of ridge regression on a kernel's features, client by client.

    Those of n rows are written as one matrix (W, W), which can be added up over clients, as
    ``linalg.add_rounds`` has them: Z'Z of the features Z (n, 2 D), with Z'y and y'y in column 2 D.
    """

    def __init__(
        self, omega: np.ndarray, X: np.ndarray, y: np.ndarray, lengths: np.ndarray
    ) -> None:
        K = len(lengths)
        self.omega = omega
        self.inputs = [np.ascontiguousarray(X[: lengths[k], k]) for k in range(K)]
        self.sparse = [sparse_inputs(inputs) for inputs in self.inputs]
        self.targets = [np.ascontiguousarray(y[: lengths[k], k]) for k in range(K)]

    def features(self, i: int, k: int) -> np.ndarray:
        """z (n, 2 D) of kernel i at the rows of client k."""
        omega, sparse = self.omega[i], self.sparse[k]
        if sparse is None:
            return features_of(omega, self.inputs[k])
        return features_at(sparse.others @ omega + np.outer(sparse.common, omega.sum(axis=0)))

    def of_client(self, i: int, k: int, equations: np.ndarray) -> None:
        """Write the equations of kernel i and of client k."""
        z, y = self.features(i, k), self.targets[k]
        n = z.shape[1]
        np.matmul(z.T, z, out=equations[:n, :n])
        equations[:n, n] = z.T @ y
        equations[n, n] = y @ y

    def of_all(self, i: int, equations: np.ndarray) -> None:
        """Write the equations of kernel i and of all clients together."""
        one = np.zeros_like(equations)
        equations[:] = 0.0
        for k in range(len(self.inputs)):
            self.of_client(i, k, one)
            equations += one

    def errors(self, i: int, k: int, theta: np.ndarray) -> np.ndarray:
        """Squared errors (n,) of theta (2 D,) of kernel i on the rows of client k."""
        return np.square(self.features(i, k) @ theta - self.targets[k])


def least(equations: np.ndarray, D: int, penalty: float, work: np.ndarray) -> float:
    """The least sum of squares with that penalty of ||theta||^2; work (W, W) is written.

    LinAlgError where the equations of 2 D features cannot be solved in float64.
    """
    objective = np.empty(1)
    least_objectives(equations[None], np.zeros(1, dtype=np.int64), D, penalty, work, objective)
    if objective[0] < 0.0:
        raise np.linalg.LinAlgError("its normal equations cannot be solved in float64")
    return float(objective[0])


def solution(equations: np.ndarray, D: int, penalty: float) -> np.ndarray:
    """theta (2 D,) of the fit with that penalty of ||theta||^2."""
    n = 2 * D
    return np.linalg.solve(equations[:n, :n] + penalty * np.eye(n), equations[:n, n])


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
    O(K N D^2 (T + D)) time, most of it in products of matrices, and O(K T + D^2) memory.
    """
    T, K = y.shape
    N, _, D = omega.shape
    data = Equations(omega, X, y, lengths)
    penalties = max(lam, 1e-10) * lengths
    shared_penalty = max(shared_lam, 1e-10) * int(lengths.sum())
    objectives, shared_objectives = np.zeros((N, K)), np.zeros(N)
    alone, together, work = empty_moments(3, D)
    for i in range(N):
        together[:] = 0.0
        for k in range(K):
            data.of_client(i, k, alone)
            together += alone
            objectives[i, k] = least(alone, D, penalties[k], work)
        shared_objectives[i] = least(together, D, shared_penalty, work)
    kernels, shared_kernel = objectives.argmin(axis=0), int(shared_objectives.argmin())
    data.of_all(shared_kernel, together)
    theta = solution(together, D, shared_penalty)
    errors, shared_errors = np.zeros((T, K)), np.zeros((T, K))
    for k in range(K):
        rows = slice(lengths[k])
        data.of_client(int(kernels[k]), k, alone)
        fitted = solution(alone, D, penalties[k])
        errors[rows, k] = data.errors(int(kernels[k]), k, fitted)
        shared_errors[rows, k] = data.errors(shared_kernel, k, theta)
    return Ridge(kernels, errors, shared_kernel, theta, shared_errors)
