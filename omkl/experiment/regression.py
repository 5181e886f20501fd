"""A regression: every seed streamed through its learner."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from omkl import startup
from omkl.core import hyperparameters
from omkl.core.learner import Learner
from omkl.core.schedule import Schedule
from omkl.datasets import DataError, label_sources
from omkl.experiment.federation import FederatedJob
from omkl.experiment.job import Job, Progress
from omkl.experiment.metrics import Recorder, label_cost, mean_and_deviation
from omkl.experiment.regret import against_comparators
from omkl.experiment.threads import default_threads, thread_pool


def compute(
    job: Job, progress: Progress | None = None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Stream every seed through its learner: the numbers of result.json and curves.npz."""
    config, stream = job.config, job.stream
    most_threads = config["threads"] or default_threads()
    n_threads = min(most_threads, len(job.seeds))
    if progress:
        progress("preparing", 0, None, None)
    with thread_pool(1) as pool:  # the compiler would swallow a Ctrl-C in the main thread
        learners = pool.submit(_learners, job).result()
    recorder = Recorder(len(learners))
    seconds = np.zeros(len(learners))
    asked = Recorder(len(learners))
    low, high, largest_norm, largest_error = np.inf, -np.inf, 0.0, 0.0

    def one(r: int, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        before = time.perf_counter()
        trace = learners[r].partial_fit(X, y)
        seconds[r] += time.perf_counter() - before
        with np.errstate(over="ignore", invalid="ignore"):  # _require_finite tells
            return np.square(trace.y_hat - y), trace.asked

    if progress:
        progress("rounds", 0, stream.n_rounds, None)
    clock = time.perf_counter()
    with thread_pool(n_threads) as pool:
        for X, y in stream.blocks(config["block"]):
            if job.label is None:
                told = list(pool.map(lambda r: one(r, X, y), range(len(learners))))  # noqa: B023
            else:
                trace, y = label_sources.learn(learners[0], X, job.label, recorder.n_rounds)
                with np.errstate(over="ignore", invalid="ignore"):
                    unknown_is_0 = np.where(trace.asked, np.square(trace.y_hat - y), 0.0)
                told = [(unknown_is_0, trace.asked)]
                seconds[0] = time.perf_counter() - clock
            errors = [error for error, _ in told]
            with np.errstate(over="ignore", invalid="ignore"):
                recorder.add(np.stack(errors))
            asked.add(np.stack([bought for _, bought in told]))
            _require_finite(job, recorder)
            told_y = y if job.label is None else y[trace.asked]
            low = min(low, float(told_y.min(initial=np.inf)))
            high = max(high, float(told_y.max(initial=-np.inf)))
            largest_norm = max(largest_norm, float(np.linalg.norm(X, axis=1).max()))
            largest_error = max(largest_error, *(float(e.max()) for e in errors))
            if progress:
                known = recorder.n_rounds if job.label is None else asked.total.mean()
                so_far = float(recorder.total.mean() / known)
                progress("rounds", recorder.n_rounds, stream.n_rounds, so_far)
    elapsed = time.perf_counter() - clock
    T = recorder.n_rounds
    if T < 2:
        raise DataError(f"{stream.name}: a stream needs at least 2 rows, {T} came")
    if low == high and job.label is None:
        raise DataError(
            f"{stream.name}: the target {stream.target!r} is the same in all {T} rows, so there "
            "is nothing to learn. Choose another dataset.target or more rows."
        )
    rounds, sums = recorder.curve()
    n_bought = asked.curve()[1].astype(np.int64)
    n_known = rounds if job.label is None else n_bought  # rounds whose error is known
    mse = recorder.total / n_known[..., -1]
    mean, deviation = mean_and_deviation(mse)
    used = np.stack([learner.used for learner in learners])
    regret, regret_curves = against_comparators(job, rounds, sums, progress)
    learned_with = job.algorithm.kernels(job.params, job.dictionary)
    result = {
        "n_rounds": T,
        "n_inputs": stream.n_inputs,
        "n_kernels": used.shape[1],
        "deterministic": job.algorithm.deterministic,
        "max_squared_error": largest_error,
        "max_kernel_squared_error": max(float(learner.worst[0]) for learner in learners),
        "max_norm": largest_norm,
        "D": config["D"],
        "seeds": job.seeds,
        "mse_mean": mean,
        "mse_std": deviation,
        "mse": mse.tolist(),
        "kernels_per_round": float(used.sum() / (T * len(learners))),
        **label_cost(mse, n_bought[:, -1], T),
        "mse_over": "all rounds" if job.label is None else "rounds with a label",
        "seconds": elapsed,
        "seconds_per_seed": seconds.tolist(),
        "threads": most_threads if job.algorithm.representation.lookahead else n_threads,
        "regret": regret,
        "stream": stream.provenance,
    }
    curves = {
        "t": rounds,
        "mse": sums / n_known,
        "labels": n_bought,
        "weights": np.stack([_weights(learner) for learner in learners]),
        "usage": used,
        "kernel_family": np.array([k.family for k in learned_with]),
        "kernel_bandwidth": np.array([k.bandwidth for k in learned_with]),
        "change_rounds": np.array(stream.change_rounds, dtype=np.int64),
    }
    return result, curves | regret_curves


def _require_finite(job: Job, recorder: Recorder) -> None:
    bad = [s for s, total in zip(job.seeds, recorder.total, strict=True) if not total < np.inf]
    if not bad:
        return
    given = job.config["algorithm"]
    steps = [
        f"algorithm.{name}={given[name]}"
        for name, value in zip(job.params._fields, job.params, strict=True)
        if isinstance(value, Schedule) and name.startswith("eta") and name in given
    ]
    notes = expansive_steps(job)
    raise FloatingPointError(
        f"by round {recorder.n_rounds} the predictions of {given['name']} are no longer finite "
        f"(seeds {', '.join(map(str, bad))}): the steps are too large for this stream. Reduce "
        f"{' or '.join(steps) or 'the step size'}; importance weights divide steps by small "
        "probabilities, so more exploration helps as well" + "".join(f". {n}" for n in notes)
    )


def expansive_steps(job: Job | FederatedJob) -> list[str]:
    """One text if the learner's steps are too large for gradient descent to settle, else none.

    With features of norm 1 a step on (theta'z - y)^2 + lam ||theta||^2 multiplies theta's part
    along z by 1 - 2 eta (1 + lam); above eta = 1 / (1 + lam) that is beyond -1. Importance
    weights, which make steps larger still, are not counted, and federations are not looked at.
    """
    if isinstance(job, FederatedJob) or job.algorithm.task != "regression":
        return []
    own = job.params._asdict()
    draws_features = job.algorithm.representation.draws_features
    if not (draws_features and isinstance(own.get("eta"), Schedule) and "lam" in own):
        return []
    eta, bound = own["eta"], 1.0 / (1.0 + own["lam"])
    T, given = job.stream.n_rounds, str(job.config["algorithm"]["eta"])
    if eta.scale <= bound:
        return []
    # The first round of a schedule in t whose step is small enough; none of a constant.
    settled = math.inf if eta.power == 0.0 else (eta.scale / bound) ** (-1.0 / eta.power)
    always = settled > (T or math.inf) or settled == math.inf
    rounds = "every round" if always else f"rounds 1 to {math.ceil(settled) - 1}"
    at_T = f" at T = {T}" if "T" in given else ""
    text = (
        f"algorithm.eta={given} is {eta.scale:.3g}{at_T}; with lam={own['lam']:g} any step above "
        f"{bound:.4g} is expansive: it multiplies theta along the row's features by "
        f"{1.0 - 2.0 * eta.scale / bound:.3g}, and errors grow where rows are alike, in {rounds}"
    )
    if "T" in given:
        one, four = (hyperparameters.parse_schedule(given, n).scale for n in (1, 4))
        needed = math.ceil((one / bound) ** (-math.log(4.0) / math.log(four / one)))
        text += f". This eta is for T of at least {needed}"
    return [text]


def _weights(learner: Learner) -> np.ndarray:
    from omkl.core.weights import normalised

    return normalised(learner.state.log_w)


def _learners(job: Job) -> list[Learner]:
    """A learner a seed; compiles, or loads what was compiled, before any clock starts."""
    d, D = job.stream.n_inputs, job.config["D"]
    ahead = job.algorithm.representation.lookahead
    n_threads = job.config["threads"] or default_threads() if ahead else 1

    startup.load_numba()
    wanted = job.algorithm.rows_before(job.params) if job.algorithm.rows_before else 0
    before = next(job.stream.blocks(wanted))[0] if wanted else None

    def learner(seed: int) -> Learner:
        return Learner(
            job.algorithm,
            job.params,
            job.dictionary,
            d,
            D,
            seed,
            threads=n_threads,
            precision=job.config["precision"],
            before=before,
        )

    if job.label is None:
        learner(0).partial_fit(np.zeros((2, d)), np.zeros(2))
    else:
        label_sources.learn(learner(0), np.zeros((2, d)), lambda row, x, y_hat: 0.0)
    return [learner(seed) for seed in job.seeds]
