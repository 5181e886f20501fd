"""Compute comparators for regret: the best kernel of the dictionary in hindsight.

A comparator is a ridge regression that is fitted to the whole stream, so the regret is static. The
comparator is not the "best online kernel", which is the online learner of a single kernel with the
smallest loss. Regret is the sum of the learner's squared errors minus the sum of the comparator's
squared errors. The regularisation (lam per round) is part of the fit, but not of the regret. A
comparator is computed once for a whole sweep. A federation has comparators for each client and for
all clients together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.core.kernels import FAMILIES, Kernel
from omkl.core.linalg import add_rows, solve
from omkl.core.representations.random_features import draw_features, features_of
from omkl.experiment.job import Job, Progress, modules_of_families
from omkl.experiment.metrics import Recorder, mean_and_deviation
from omkl.runs.provenance import computed_by, without_prose
from omkl.utils.disk import load_or_make
from omkl.utils.threads import thread_pool

Blocks = Callable[[], Iterator[tuple[np.ndarray, np.ndarray]]]

RIDGE_FEATURES = "best kernel in hindsight (ridge regression on its random features)"

EACH_CLIENT = "each client's best kernel in hindsight, ridge regression on its random features"
ALL_CLIENTS = (
    "the best function of all clients in hindsight (12), ridge regression on random features"
)

KERNEL_RIDGE = "best kernel in hindsight (kernel ridge regression)"

CENTRED = "of the target less its mean"

TRUTH = "the noise-free target"


class Unsolvable(ValueError):
    """Raised with the name of a kernel whose equations have no solution in float64."""

    @classmethod
    def of(cls, kernel: Kernel) -> Unsolvable:
        return cls(
            f"the equations of the {kernel.family} kernel {kernel.bandwidth:.4g} cannot be solved "
            "in float64: its values are too large for the regularisation. Rescale the inputs, "
            "or raise regret.lam"
        )


def ridge_features(omega: np.ndarray, blocks: Blocks, lam: float) -> tuple[int, np.ndarray]:
    """Find the kernel whose ridge regression on random features fits the stream best.

    For each kernel the objective is the sum over all rounds t of
    ((theta'z_t - y_t)^2 + lam ||theta||^2), where z_t (2 D,) are the random features of row t. The
    normal equations are summed block by block, and give the minimum over theta. They take
    N (2 D)^2 numbers of memory for any length of the stream.

    Kernels that cannot be the best are dropped early. Later rounds only add to the objective, so
    the minimum for the first rounds is a lower bound of the minimum for all rounds. A kernel is
    dropped if this bound exceeds the minimum of another kernel for all rounds. The result is
    exactly the same as if all kernels were fitted to all rounds.

    Parameters
    ----------
    omega
        Frequencies (N, d, D) of one seed: N kernels, d inputs, D features per kernel.
    blocks
        Function that returns a new iterator over all blocks of rows X (n, d) and targets y (n,).
    lam
        Regularisation per round, >= 0. A value below 1e-10 counts as 1e-10.

    Returns
    -------
    int, ndarray
        Index of the kernel, and its coefficients theta (2 D,).

    Raises
    ------
    LinAlgError
        Normal equations cannot be solved in float64.
    """
    N, _, D = omega.shape
    squares, T = 0.0, 0
    for _, y in blocks():
        squares, T = squares + float(y @ y), T + len(y)
    ridge = max(lam * T, 1e-10 * T)
    slack = _slack(T, D, squares, ridge)
    equations = np.zeros((N, 2 * D + 1, 2 * D + 1))
    fitted: dict[int, tuple[float, np.ndarray]] = {}  # objective and theta by kernel
    left = list(range(N))
    n, looked = 0, T / FIRST_LOOK / LOOK_GROWTH
    for X, y in blocks():
        n += len(y)
        for i in left:
            add_rows(equations[i], features_of(omega[i], X), y)
        if n < LOOK_GROWTH * looked or n == T:
            continue
        looked = n
        bounds = [_bound(equations[i], ridge) for i in left]
        leader = left[int(np.argmin(bounds))]
        if leader not in fitted:
            of_all = np.zeros_like(equations[leader])
            for X_all, y_all in blocks():
                add_rows(of_all, features_of(omega[leader], X_all), y_all)
            fitted[leader] = solve(of_all, ridge)
        most = min(objective for objective, _ in fitted.values()) + slack
        left = [i for i, bound in zip(left, bounds, strict=True) if bound <= most]
    fitted |= {i: solve(equations[i], ridge) for i in left if i not in fitted}
    best = min(sorted(fitted), key=lambda i: fitted[i][0])  # the first of equal kernels
    return best, fitted[best][1]


FIRST_LOOK = 16  # kernels are first dropped after 1 / FIRST_LOOK of the rounds
LOOK_GROWTH = 1.25  # growth of the rounds from one test of kernels to the next


def _bound(equations: np.ndarray, ridge: float) -> float:
    """Return the minimum over theta of a kernel's objective; -inf if the equations are unsolvable.

    ``equations`` are the normal equations of the rounds so far, and ``ridge`` is the factor of
    ||theta||^2 in the objective.
    """
    try:
        return solve(equations, ridge)[0]
    except np.linalg.LinAlgError:
        return -np.inf


def _slack(T: int, D: int, squares: float, ridge: float) -> float:
    """Return a bound of the rounding errors in the comparison of two objectives.

    T is the number of rows, and D the number of features of a kernel. ``squares`` is the sum of the
    squared targets, and ``ridge`` is the factor of ||theta||^2 in an objective. The normal
    equations and the targets form a matrix A (2 D + 1, 2 D + 1). If rounding changes A by E, the
    objective changes by at most ||E|| (1 + ||theta||^2). The sums over T rows and the factorisation
    cause ||E|| <= (T + 2 D + 1) eps trace(A), where eps is the machine precision. The features of a
    row have norm 1, so trace(A) = T + 2 D ridge + squares. At the minimum ||theta||^2 is at most
    squares / ridge. The bound is multiplied by 4, to allow for the errors of both objectives.
    """
    trace = T + 2 * D * ridge + squares
    eps = float(np.finfo(np.float64).eps)
    return 4.0 * (T + 2 * D + 1) * eps * trace * (1.0 + squares / ridge)


def squared_errors(
    omega: np.ndarray, theta: np.ndarray, X: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """Return the squared errors (n,) of one kernel's function on a block of rows.

    Parameters
    ----------
    omega
        Frequencies (d, D).
    theta
        Coefficients (2 D,).
    X, y
        Rows (n, d) and targets (n,).
    """
    return np.square(features_of(omega, X) @ theta - y)


def kernel_ridge(
    kernels: Sequence[Kernel], X: np.ndarray, y: np.ndarray, lam: float, n_threads: int = 1
) -> tuple[int, np.ndarray]:
    """Find the kernel whose kernel ridge regression fits the stream best.

    For each kernel the objective is the sum over t of ((f(x_t) - y_t)^2 + lam ||f||^2). It is
    minimised over the functions f of the kernel's space. The minimum is exact. The search takes
    O(N T^3) time and O(T^2) memory.

    Parameters
    ----------
    kernels
        N kernels.
    X, y
        Rows (T, d) and targets (T,).
    lam
        Regularisation per round, >= 0. A value below 1e-10 counts as 1e-10.
    n_threads
        Number of kernels that are fitted at the same time.

    Returns
    -------
    int, ndarray
        Index of the kernel, and its squared errors (T,).

    Raises
    ------
    Unsolvable
        The equations of a kernel have no solution in float64.
    """
    from scipy.linalg import cho_factor, cho_solve

    T = len(y)
    ridge = max(lam * T, 1e-10 * T)

    def fit(kernel: Kernel) -> tuple[float, np.ndarray]:
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

    with thread_pool(n_threads) as pool:
        best, (_, errors) = min(enumerate(pool.map(fit, kernels)), key=lambda found: found[1][0])
    return best, errors


BLOCK = 1_024  # rows per block; the rounding of the sums depends on it
MOST_MEBIBYTES = 4096  # limit for all normal equations, or for a kernel matrix


def against_comparators(
    job: Job, rounds: np.ndarray, sums: np.ndarray, n_unscored: int, progress: Progress | None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the regret of R seeds against each comparator: entries of result.json, and curves.

    Parameters
    ----------
    job
        The job.
    rounds
        Recorded rounds (P,).
    sums
        Cumulative squared errors (R, P) of the learner at these rounds.
    n_unscored
        Number of rounds at the beginning that are not scored, at most ``metrics.FIRST``. ``rounds``
        does not contain them.
    progress
        Callback, or None.

    Returns
    -------
    dict, dict
        Entries by comparator, and curves (R, P) ``regret_NAME``.
    """
    settings, stream, T = job.settings.regret, job.stream, int(rounds[-1])
    entries: dict[str, dict[str, Any]] = {}
    curves: dict[str, np.ndarray] = {}

    def keep(name: str, label: str, comparator: np.ndarray, **more: Any) -> None:
        if n_unscored:
            comparator = comparator[:, n_unscored:] - comparator[:, n_unscored - 1, None]
        regret = sums - comparator
        curves[f"regret_{name}"] = regret
        mean, deviation = mean_and_deviation(regret[:, -1])
        entries[name] = {"label": label, "mean": mean, "std": deviation, **more}

    truth = stream.truth(BLOCK)
    if truth is not None:
        recorder = Recorder(1)
        for noise_free, (_, y) in zip(truth, stream.blocks(BLOCK), strict=True):
            recorder.add(np.square(noise_free - y)[None, :])
        keep("truth", TRUTH, recorder.curve()[1])
    for name, (label, least_of) in IN_HINDSIGHT.items():
        if not getattr(settings, name):
            continue
        if reason := _too_much(job, name, T):
            entries[name] = {"label": label, "skipped": reason}
            continue
        if job.stream.scaling == "columns":
            label = f"{label}, {CENTRED}"
        try:
            comparator, best = least_of(job, progress)
        except (Unsolvable, np.linalg.LinAlgError) as error:  # still report the learner's rounds
            entries[name] = {"label": label, "skipped": str(error)}
        else:
            chosen = [f"{family} {b:.4g}" for family, b, *_ in (job.dictionary[i] for i in best)]
            keep(name, label, comparator, kernels=chosen)
    return entries, curves


def _too_much(job: Job, name: str, T: int) -> str | None:
    """Return the reason to omit a comparator of T rounds; None if it is to be computed."""
    without = [k.family for k in job.dictionary if FAMILIES[k.family].spectrum is None]
    if name == "ridge_features" and without:
        return f"{without[0]} kernels have no random features"
    N, D = len(job.dictionary), job.D
    megabytes = N * (2 * D) ** 2 * 8 // 2**20
    if name == "ridge_features" and megabytes > MOST_MEBIBYTES:
        return f"the normal equations of {N} kernels with D={D} take {megabytes} MiB"
    megabytes = T**2 * 8 // 2**20
    if name == "kernel_ridge" and megabytes > MOST_MEBIBYTES:
        return f"a kernel matrix of {T} rows takes {megabytes} MiB"
    return None


def _least_of_ridge_features(
    job: Job, progress: Progress | None
) -> tuple[np.ndarray, Sequence[int]]:
    """Return cumulative squared errors (R, P) and indices (R,) of the best kernels, for R seeds."""
    what = f"ridge_features {job.seeds}"
    found = load_or_compute(job, what, lambda: _ridge_features(job, progress))
    return found["sums"], found["best"].tolist()


def _least_of_kernel_ridge(job: Job, progress: Progress | None) -> tuple[np.ndarray, Sequence[int]]:
    """Return cumulative squared errors (1, P), and the index of the best kernel as a list.

    All seeds share this comparator, because it has no random features.
    """
    found = load_or_compute(job, "kernel_ridge", lambda: _kernel_ridge(job, progress))
    recorder = Recorder(1)
    recorder.add(found["errors"][None, :])
    return recorder.curve()[1], [int(found["best"])]


IN_HINDSIGHT = {
    "ridge_features": (RIDGE_FEATURES, _least_of_ridge_features),
    "kernel_ridge": (KERNEL_RIDGE, _least_of_kernel_ridge),
}


def _ridge_features(job: Job, progress: Progress | None) -> dict[str, np.ndarray]:
    """Compute the comparators of R seeds.

    sums  (R, P) cumulative squared errors at P recorded rounds
    best  (R,) index of the best kernel
    """
    d, D, lam = job.stream.n_inputs, job.D, job.settings.regret.lam

    def find(seed: int) -> dict[str, np.ndarray]:
        omega = draw_features(job.dictionary, d, D, seed).omega
        index, theta = ridge_features(omega, lambda: _centred(job), lam)
        return {"best": np.array(index), "theta": theta, "omega": omega[index].copy()}

    chosen, recorder = [], Recorder(len(job.seeds))
    with thread_pool(job.settings.n_threads) as pool:
        for found in pool.map(find, job.seeds):
            chosen.append(found)
            if progress:
                progress("comparator", len(chosen), len(job.seeds), None)
        for X, y in _centred(job):

            def errors_of(fit_of_seed: dict[str, np.ndarray]) -> np.ndarray:
                return squared_errors(fit_of_seed["omega"], fit_of_seed["theta"], X, y)  # noqa: B023

            recorder.add(np.stack(list(pool.map(errors_of, chosen))))
    return {"sums": recorder.curve()[1], "best": np.array([int(found["best"]) for found in chosen])}


def _kernel_ridge(job: Job, progress: Progress | None) -> dict[str, np.ndarray]:
    if progress:
        progress("kernel ridge", 0, None, None)
    blocks = list(_centred(job))
    X = np.concatenate([b[0] for b in blocks])
    y = np.concatenate([b[1] for b in blocks])
    lam, n_threads = job.settings.regret.lam, job.settings.n_threads
    best, errors = kernel_ridge(job.dictionary, X, y, lam, n_threads)
    return {"best": np.array(best), "errors": errors}


def _centred(job: Job) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the blocks of a stream. If its scaling is "columns", subtract the mean of the targets.

    The comparator has no intercept, so targets with a mean far from 0 would increase its errors.
    Learners need no such step, because they standardise these targets online.
    """
    mean = 0.0
    if job.stream.scaling == "columns":
        total = n = 0.0
        for _, y in job.stream.blocks(BLOCK):
            total, n = total + float(y.sum()), n + len(y)
        mean = total / n
    for X, y in job.stream.blocks(BLOCK):
        yield job.stream.softened(X), y - mean


# --- Clients of a federation ---------------------------------------------------------------------


class ClientsRidge(NamedTuple):
    """Ridge regressions in hindsight: one per client, and one that all K clients share.

    Each regression uses the kernel that fits its rows best. The errors of client k in round t are
    0 if the client has fewer than t rows.

    errors         (T, K) squared errors of each client's own regression in T rounds
    theta          (2 D,) coefficients of the shared regression
    shared_errors  (T, K) squared errors of the shared regression
    """

    errors: np.ndarray
    theta: np.ndarray
    shared_errors: np.ndarray


class _Clients:
    """Inputs and targets of each client's rows, and their features for any kernel."""

    def __init__(
        self, omega: np.ndarray, X: np.ndarray, y: np.ndarray, lengths: np.ndarray
    ) -> None:
        K = len(lengths)
        self.omega = omega
        self.inputs = [np.ascontiguousarray(X[: lengths[k], k]) for k in range(K)]
        self.targets = [np.ascontiguousarray(y[: lengths[k], k]) for k in range(K)]

    def features(self, i: int, k: int) -> np.ndarray:
        """Return the random features (n, 2 D) of kernel i at the n rows of client k."""
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
            Indices of the kernel and of the client.
        theta
            Coefficients (2 D,).
        """
        return np.square(self.features(i, k) @ theta - self.targets[k])


def clients_ridge(
    omega: np.ndarray,
    X: np.ndarray,
    y: np.ndarray,
    lengths: np.ndarray,
    lam: float,
    shared_lam: float,
) -> ClientsRidge:
    """Fit every kernel to the rows of each client and to the rows of all clients.

    The objective is the sum over the rows of ((theta'z - y)^2 + lam ||theta||^2), where z (2 D,)
    are the random features of a row. The fits take O(K N D^2 (T + D)) time and O(K T + D^2) memory.

    Parameters
    ----------
    omega
        (N, d, D) frequencies of one seed.
    X, y
        (T, K, d) inputs and (T, K) targets.
    lengths
        (K,) number of rows of each client. Client k has the rows ``X[:lengths[k], k]``.
    lam, shared_lam
        Regularisation per row of each client's fit and of the shared fit, >= 0. A value below 1e-10
        counts as 1e-10.

    Returns
    -------
    ClientsRidge
        Squared errors, and the coefficients of the shared regression.
    """
    T, K = y.shape
    N = len(omega)
    data = _Clients(omega, X, y, lengths)
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
    return ClientsRidge(errors, theta, shared_errors)


# --- Cache ----------------------------------------------------------------------------------------


def load_or_compute(
    job: Job, what: str, make: Callable[[], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """Load the arrays of a comparator, or compute them once for all algorithms of a sweep.

    Parameters
    ----------
    job
        The job.
    what
        Text that identifies the comparator among all comparators of the job.
    make
        Function that returns a dictionary with the arrays of the comparator.
    """
    folder = job.settings.outputs / "comparators"
    return load_or_make(folder, _comparator_identity(job, what), make)


def _comparator_identity(job: Job, what: str) -> str:
    """Return a text that identifies a comparator: ``what``, and all settings that affect it."""
    settings = job.settings
    identity = {
        "stream": without_prose(job.stream.provenance),
        "settings": dict(settings.stream),
        "shuffle": settings.seed if settings.stream.order == "shuffled" else None,
        "kernels": job.dictionary,
        "modules": modules_of_families(job.dictionary),
        "D": job.D,
        "lam": settings.regret.lam,
        "sources": computed_by(),
        "what": what,
    }
    return json.dumps(identity, sort_keys=True, default=str)
