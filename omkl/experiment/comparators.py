"""What the regret is measured against: the best of the dictionary in hindsight.

Each comparator is fitted to the whole stream and then kept fixed (static
regret): "best kernel in hindsight" always means such a ridge regression. The least
loss of a kernel that learns online is another comparator, called that of the "best
kernel's online learner". Regret is counted in squared error; the regularisation
lam T, the sum of the lam a round of the learners' loss, only shapes the fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from omkl.core.kernels import FAMILIES, Kernel
from omkl.core.representations.random_features import features_of
from omkl.threads import one_thread_each

Blocks = Callable[[], Iterator[tuple[np.ndarray, np.ndarray]]]

RIDGE_FEATURES = "best kernel in hindsight (ridge regression on its random features)"

KERNEL_RIDGE = "best kernel in hindsight (kernel ridge regression)"

ONLINE_LEARNER = "best online kernel"

TRUTH = "the noise-free target"


class Unsolvable(ValueError):
    """The equations of a comparator have no solution in float64; the text says of which kernel."""

    @classmethod
    def of(cls, kernel: Kernel) -> Unsolvable:
        return cls(
            f"the equations of the {kernel.family} kernel {kernel.bandwidth:.4g} cannot be solved "
            "in float64: its values are too large beside the regularisation. Rescale the inputs, "
            "or raise regret.lam"
        )


def ridge_features(omega: np.ndarray, blocks: Blocks, lam: float) -> tuple[int, np.ndarray]:
    """The kernel whose ridge regression on its random features fits the stream best.

    omega (N, d, D) are one seed's frequencies. Minimises, kernel by kernel, the
    sum over t of (theta'z_t - y_t)^2 + lam ||theta||^2 from normal equations
    gathered block by block: N (2 D)^2 numbers of memory, however long the stream.

    Returns the kernel's index and its theta (2 D,). Numbers do not depend on the
    seeds of selection.
    """
    N, _, D = omega.shape
    gram = np.zeros((N, 2 * D, 2 * D))
    cross = np.zeros((N, 2 * D))
    squares = 0.0
    T = 0
    for X, y in blocks():
        T += len(y)
        squares += float(y @ y)
        for i in range(N):
            z = features_of(omega[i], X)
            gram[i] += z.T @ z
            cross[i] += z.T @ y
    best, best_objective, best_theta = 0, np.inf, np.zeros(2 * D)
    ridge = max(lam * T, 1e-10 * T) * np.eye(2 * D)
    for i in range(N):
        theta = np.linalg.solve(gram[i] + ridge, cross[i])
        objective = squares - float(theta @ cross[i])  # value of the objective at its minimum
        if objective < best_objective:
            best, best_objective, best_theta = i, objective, theta
    return best, best_theta


def squared_errors(
    omega: np.ndarray, theta: np.ndarray, X: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """(theta'z(x) - y)^2 for a block, one kernel: omega (d, D), theta (2 D,), X (n, d), y (n,)."""
    return np.square(features_of(omega, X) @ theta - y)


def kernel_ridge(
    kernels: Sequence[Kernel], X: np.ndarray, y: np.ndarray, lam: float, n_threads: int = 1
) -> tuple[int, np.ndarray]:
    """The kernel whose kernel ridge regression fits the stream best, and its squared errors (T,).

    Minimises the sum over t of (f(x_t) - y_t)^2 + lam ||f||^2, exactly: O(N T^3) time,
    O(T^2) memory. Raises Unsolvable.
    """
    from scipy.linalg import cho_factor, cho_solve
    from scipy.spatial.distance import cdist

    T = len(y)
    ridge = max(lam * T, 1e-10 * T)
    metrics = {FAMILIES[kernel.family].metric for kernel in kernels} - {None}
    distances = {metric: cdist(X, X, metric) for metric in metrics}

    def fit(kernel: Kernel) -> tuple[float, np.ndarray]:
        family = FAMILIES[kernel.family]
        if family.metric:
            K = family.of_distance(distances[family.metric], kernel.bandwidth)
        else:
            K = kernel.gram(X, X)
        K.flat[:: T + 1] += ridge
        try:
            alpha = cho_solve(cho_factor(K, lower=True, overwrite_a=True, check_finite=False), y)
        except np.linalg.LinAlgError:
            raise Unsolvable.of(kernel) from None
        # y - f is ridge * alpha, and the objective at its minimum is ridge * y'alpha.
        objective, errors = ridge * float(y @ alpha), np.square(ridge * alpha)
        if not (np.isfinite(objective) and np.isfinite(errors).all()):
            raise Unsolvable.of(kernel)
        return objective, errors

    best, best_objective, best_errors = 0, np.inf, np.zeros(T)
    with one_thread_each(), ThreadPoolExecutor(n_threads) as pool:
        for i, (objective, errors) in enumerate(pool.map(fit, kernels)):
            if objective < best_objective:
                best, best_objective, best_errors = i, objective, errors
    return best, best_errors
