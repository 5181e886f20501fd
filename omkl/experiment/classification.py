"""A classification job: every seed's rows through its learner, in an order of its own.

Of two classes -1 and +1 a round is a mistake where y_t times the prediction is not
positive, so that saying nothing (0) is one. More classes are one against the rest: a
learner a class, told +1 for its own and -1 for the others; the class of the largest
prediction is the answer, and of equal ones the first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.learner import Learner
from omkl.core.weights import normalised
from omkl.datasets import DataError
from omkl.experiment.metrics import Recorder, mean_and_deviation
from omkl.experiment.regret import load_or_compute
from omkl.experiment.threads import default_threads, one_thread_each, thread_pool

if TYPE_CHECKING:
    from omkl.experiment.job import Job, Progress

# Their classifiers learn from their own mistakes alone: single kernel Perceptrons.
INDEPENDENT = ("omkc_da_p1", "omkc_da_p2", "omkc_da_p1_doubling", "omkc_uniform")


class OneSeed(NamedTuple):
    """What a seed leaves, over its learners (one, or one a class); N kernels.

    weights (N,) are means; updates and support (N,) sums, and so is ``rows``, which are kept.
    """

    recorder: Recorder
    weights: np.ndarray
    updates: np.ndarray
    support: np.ndarray
    used: np.ndarray
    rows: int
    seconds: float
    largest_norm: float
    n_classes_met: int


def compute(
    job: Job, progress: Progress | None = None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Stream every seed through its learner: the numbers of result.json and curves.npz."""
    config, R = job.config, len(job.seeds)
    most_threads = config["threads"] or default_threads()
    n_threads = min(most_threads, R)
    each = max(1, most_threads // R) if job.algorithm.representation.lookahead else 1
    if progress:
        progress("preparing", 0, None, None)
    with thread_pool(1) as pool:  # the compiler would swallow a Ctrl-C in the main thread
        pool.submit(_warm_up, job, each).result()
    total = None if job.stream.n_rounds is None else job.stream.n_rounds * R
    told = _Told(progress, total)
    clock = time.perf_counter()
    with thread_pool(n_threads) as pool:
        done = list(pool.map(lambda r: _one_seed(job, r, each, told.add), range(R)))
    elapsed = time.perf_counter() - clock
    T = done[0].recorder.n_rounds
    if T < 2:
        raise DataError(f"{job.stream.name}: a stream needs at least 2 rows, {T} came")
    if done[0].n_classes_met < 2:
        raise DataError(
            f"{job.stream.name}: all {T} labels are the same, so there is nothing to learn. "
            "Look at dataset.labels, or take more rows."
        )
    rounds = done[0].recorder.curve()[0]
    sums = np.concatenate([seed.recorder.curve()[1] for seed in done])
    mistakes = sums[:, -1]
    mean, deviation = mean_and_deviation(mistakes / T)
    updates = np.stack([seed.updates for seed in done])
    used = np.stack([seed.used for seed in done])
    kernels = job.algorithm.kernels(job.params, job.dictionary)
    binary = len(job.stream.labels) == 2
    independent = binary and config["algorithm"]["name"] in INDEPENDENT
    result = {
        "task": "classification",
        "labels_of_classes": [str(label) for label in job.stream.labels],
        "n_rounds": T,
        "n_inputs": job.stream.n_inputs,
        "n_kernels": len(kernels),
        "deterministic": job.algorithm.deterministic,
        "max_norm": max(seed.largest_norm for seed in done),
        "D": config["D"],
        "seeds": job.seeds,
        "error_rate_mean": mean,
        "error_rate_std": deviation,
        "error_rate": (mistakes / T).tolist(),
        "mistakes": mistakes.astype(int).tolist(),
        "updates_per_kernel": float(updates.mean()),
        "support_size": float(np.mean([seed.rows for seed in done])),
        "best_kernel": float(updates.min(axis=1).mean()) if independent else None,
        "kernels_per_round": float(used.sum() / (T * R)),
        "labels": float(T),
        "labels_per_seed": [T] * R,
        "al_efficiency": 1.0,
        "seconds": elapsed,
        "seconds_per_seed": [seed.seconds for seed in done],
        "threads": n_threads * each,
        "regret": {},
        "stream": job.stream.provenance,
    }
    fewest = updates.min(axis=1) if independent else None
    bound, bound_curves = _bound(job, T, fewest, float(updates.sum(axis=1).mean()), progress)
    if bound:
        result["bound"] = bound
    curves = {
        "t": rounds,
        "error_rate": sums / rounds,
        "weights": np.stack([seed.weights for seed in done]),
        "usage": used,
        "updates": updates,
        "support": np.stack([seed.support for seed in done]),
        "kernel_family": np.array([k.family for k in kernels]),
        "kernel_bandwidth": np.array([k.bandwidth for k in kernels]),
        "change_rounds": np.array(job.stream.change_rounds, dtype=np.int64),
    }
    return result, curves | bound_curves


def _bound(
    job: Job, T: int, fewest: np.ndarray | None, updates: float, progress: Progress | None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The right-hand side of the learner's theorem for the first 1/8, 1/4, 1/2 and all rounds.

    In the order of the first seed: all rounds have the same minimum in any order. ``fewest`` (R,)
    are the mistakes of each seed's best classifier, where classifiers are independent;
    ``updates`` the mean number of updates of all kernels.
    """
    from omkl.theory import mistake_bounds

    regret, name = job.config["regret"], job.config["algorithm"]["name"]
    if not regret["mistake_bound"]:
        return {}, {}
    if name not in mistake_bounds.THEOREMS:
        return {"skipped": f"no theorem is about {name}"}, {}
    if len(job.stream.labels) > 2:
        return {"skipped": "the theorems are about two classes"}, {}
    if job.streams[0] is not job.streams[-1] and job.config["stream"]["limit"] is not None:
        why = "with stream.limit every permutation has other rows, and so another bound"
        return {"skipped": f"{why}; set stream.order=file"}, {}
    if regret["kernel_ridge_rounds"] < T:
        most = regret["kernel_ridge_rounds"]
        return {"skipped": f"{T} rounds are more than regret.kernel_ridge_rounds={most}"}, {}
    if progress:
        progress("mistake bound", 0, None, None)
    at = np.unique([max(1, T // k) for k in (8, 4, 2, 1)])
    N = len(job.dictionary)

    def rows() -> tuple[np.ndarray, np.ndarray]:
        X, y = zip(*job.stream.blocks(1024), strict=True)
        return np.concatenate(X), np.concatenate(y)

    def solve() -> dict[str, np.ndarray]:
        X, y = rows()
        found = [
            mistake_bounds.minimum_of(name, job.params, job.dictionary, X[:n], y[:n]) for n in at
        ]
        return {
            "lower": np.array([m.lower for m in found]),
            "upper": np.array([m.upper for m in found]),
        }

    minima = load_or_compute(job, mistake_bounds.quantity(name, job.params), solve)
    values = [
        mistake_bounds.value(name, job.params, N, int(n), float(m))
        for n, m in zip(at, minima["lower"], strict=True)
    ]
    least = float(minima["lower"][-1])
    entry: dict[str, Any] = {
        "theorem": mistake_bounds.THEOREMS[name],
        "value": _stated(values[-1]),
        "minimum": [least, float(minima["upper"][-1])],
        "unproved": mistake_bounds.UNPROVED.get(name),
        "further": [],
    }
    batch = None
    if name == "omkc_da_o":
        R = job.params.R

        def solve_batch() -> dict[str, np.ndarray]:
            with one_thread_each():
                return mistake_bounds.batch_error(job.dictionary, *rows(), R)._asdict()

        batch = float(load_or_compute(job, f"batch_error-{R}", solve_batch)["lower"])
    for more in mistake_bounds.further(name, job.params, N, T, least, batch):
        told = {"name": more.name, "of": more.of, "value": _stated(more.value)}
        if more.of == "updates":
            told["measured"] = updates
        if more.name == "corollary 4" and fewest is not None:
            betas = [mistake_bounds.corollary4_beta(float(m), N) for m in fewest]
            told["beta"] = float(np.mean(betas))
        entry["further"].append(told)
    return entry, {"bound_t": at, "bound": np.array(values)}


def _stated(value: float) -> float | None:
    """None where nothing is promised."""
    return float(value) if np.isfinite(value) else None


def mistaken(y_hat: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Which predictions are mistakes, (n,): y_hat (n, 1) and y -1, +1; or (n, K) and y 0..K-1."""
    if y_hat.shape[1] == 1:
        return y * y_hat[:, 0] <= 0.0
    return y_hat.argmax(axis=1) != y


def told(y: np.ndarray, number: int, n_classes: int) -> np.ndarray:
    """The labels -1, +1 (n,) that the learner of class ``number`` is told."""
    return y if n_classes == 2 else np.where(y == number, 1.0, -1.0)


def _learners(job: Job, seed: int, n_threads: int) -> list[Learner]:
    d, D = job.stream.n_inputs, job.config["D"]
    K = len(job.stream.labels)
    precision = job.config["precision"]
    return [
        Learner(
            job.algorithm,
            job.params,
            job.dictionary,
            d,
            D,
            seed,
            threads=n_threads,
            precision=precision,
        )
        for _ in range(1 if K == 2 else K)
    ]


def _warm_up(job: Job, n_threads: int) -> None:
    d = job.stream.n_inputs
    _learners(job, 0, n_threads)[0].partial_fit(np.zeros((2, d)), np.array([-1.0, 1.0]))


def _one_seed(job: Job, r: int, n_threads: int, tell: Callable[[np.ndarray], None]) -> OneSeed:
    learners, recorder = _learners(job, job.seeds[r], n_threads), Recorder(1)
    K = len(job.stream.labels)
    seconds, largest_norm, met = 0.0, 0.0, np.empty(0)
    for X, y in job.streams[r].blocks(job.config["block"]):
        before = time.perf_counter()
        y_hat = np.stack(
            [x.partial_fit(X, told(y, k, K)).y_hat for k, x in enumerate(learners)], axis=1
        )
        seconds += time.perf_counter() - before
        if not np.isfinite(y_hat).all():
            raise FloatingPointError(
                f"by round {recorder.n_rounds + len(y)} the predictions are no longer finite "
                f"(seed {job.seeds[r]}): the steps are too large"
            )
        wrong = mistaken(y_hat, y)
        recorder.add(wrong[None, :].astype(np.float64))
        largest_norm = max(largest_norm, float(np.linalg.norm(X, axis=1).max()))
        met = np.union1d(met, y)
        tell(wrong)
    kept = job.algorithm.representation
    return OneSeed(
        recorder,
        weights=np.mean([normalised(x.state.log_w) for x in learners], axis=0),
        updates=np.sum([x.state.updates for x in learners], axis=0),
        support=np.sum([kept.support_size(x.state.model) for x in learners], axis=0),
        used=learners[0].used,
        rows=sum(kept.kept_rows(x.state.model) for x in learners),
        seconds=seconds,
        largest_norm=largest_norm,
        n_classes_met=len(met),
    )


class _Told:
    """Progress over all seeds, which run one after another on each thread."""

    def __init__(self, progress: Progress | None, total: int | None) -> None:
        self.progress, self.total = progress, total
        self.rounds = self.mistakes = 0
        self.lock = threading.Lock()
        if progress:
            progress("rounds", 0, total, None)

    def add(self, wrong: np.ndarray) -> None:
        with self.lock:
            self.rounds += len(wrong)
            self.mistakes += int(wrong.sum())
            if self.progress:
                self.progress("rounds", self.rounds, self.total, self.mistakes / self.rounds)
