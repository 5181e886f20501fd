"""Regret of a regression: comparators in hindsight, computed once for a whole sweep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from omkl import cached_arrays
from omkl.core import kernels
from omkl.core.kernels import FAMILIES
from omkl.core.representations.random_features import draw_features
from omkl.experiment import comparators
from omkl.experiment.job import Job, Progress, modules_of_families
from omkl.experiment.metrics import Recorder, mean_and_deviation
from omkl.runs import run_folder
from omkl.runs.provenance import sources_digest, without_prose
from omkl.threads import one_thread_each, thread_pool

MOST_MEBIBYTES = 4096  # of the normal equations, or of a kernel matrix


def against_comparators(
    job: Job,
    rounds: np.ndarray,
    sums: np.ndarray,
    n_unscored: int,
    progress: Progress | None,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Cumulative squared error above each comparator's, (R, P) on the recorded rounds (P,).

    sums (R, P) are the learner's. The first ``n_unscored`` rounds, 0 or 1, are not among them, and
    count for nobody.
    """
    settings, stream, T = job.settings.regret, job.stream, int(rounds[-1])
    entries: dict[str, dict[str, Any]] = {}
    curves: dict[str, np.ndarray] = {}

    def keep(name: str, label: str, comparator: np.ndarray, **more: Any) -> None:
        if n_unscored:
            comparator = comparator[:, n_unscored:] - comparator[:, :n_unscored]
        regret = sums - comparator
        curves[f"regret_{name}"] = regret
        mean, deviation = mean_and_deviation(regret[:, -1])
        entries[name] = {"label": label, "mean": mean, "std": deviation, **more}

    block = job.settings.block
    truth = stream.truth(block) if stream.labelled else None
    if truth is not None:
        recorder = Recorder(1)
        for noise_free, (_, y) in zip(truth, stream.blocks(block), strict=True):
            recorder.add(np.square(noise_free - y)[None, :])
        keep("truth", comparators.TRUTH, recorder.curve()[1])
    for name, (label, least_of) in IN_HINDSIGHT.items():
        if not getattr(settings, name):
            continue
        if reason := _why_not(job, name, T):
            entries[name] = {"label": label, "skipped": reason}
            continue
        if job.stream.scaling == "columns":
            label = f"{label}, {comparators.CENTRED}"
        try:
            comparator, best = least_of(job, progress)
        except comparators.Unsolvable as error:  # the learner's rounds are worth more
            entries[name] = {"label": label, "skipped": str(error)}
        else:
            keep(name, label, comparator, kernels=[_kernel_name(job.dictionary[i]) for i in best])
    return entries, curves


def _why_not(job: Job, name: str, T: int) -> str | None:
    """Why a comparator is left out, if it is."""
    if not job.stream.labelled:
        return "labels come from outside, and what was not asked for is not known"
    most = "max_rounds" if name == "ridge_features" else "kernel_ridge_rounds"
    limit = getattr(job.settings.regret, most)
    if limit < T:
        return f"{T:,} rounds are more than regret.{most}={limit}"
    without = [k.family for k in job.dictionary if FAMILIES[k.family].spectrum is None]
    if name == "ridge_features" and without:
        return f"{without[0]} kernels have no random features"
    N, D = len(job.dictionary), job.D
    megabytes = N * (2 * D) ** 2 * 8 // 2**20
    if name == "ridge_features" and megabytes > MOST_MEBIBYTES:
        return f"the normal equations of {N} kernels with D={D} take {megabytes} MiB"
    megabytes = T**2 * 8 // 2**20
    if name == "kernel_ridge" and megabytes > MOST_MEBIBYTES:
        return f"a kernel matrix of {T} rounds takes {megabytes} MiB"
    return None


def _least_of_ridge_features(
    job: Job, progress: Progress | None
) -> tuple[np.ndarray, Sequence[int]]:
    """Cumulative squared errors (R, P) of each seed's comparator, and the kernels chosen."""
    found = _remembered(job, f"ridge_features {job.seeds}", lambda: _ridge_features(job, progress))
    return found["sums"], found["best"].tolist()


def _least_of_kernel_ridge(job: Job, progress: Progress | None) -> tuple[np.ndarray, Sequence[int]]:
    """The same (1, P) for all seeds."""

    def fit() -> dict[str, np.ndarray]:
        return load_or_compute(job, "kernel_ridge", lambda: _kernel_ridge(job, progress))

    found = _remembered(job, "kernel_ridge", fit)
    recorder = Recorder(1)
    recorder.add(found["errors"][None, :])
    return recorder.curve()[1], [int(found["best"])]


IN_HINDSIGHT = {
    "ridge_features": (comparators.RIDGE_FEATURES, _least_of_ridge_features),
    "kernel_ridge": (comparators.KERNEL_RIDGE, _least_of_kernel_ridge),
}


def _ridge_features(job: Job, progress: Progress | None) -> dict[str, np.ndarray]:
    """Cumulative squared errors (R, P) of each seed's comparator, and the kernels chosen (R,)."""
    size = 1024
    d, D, lam = job.stream.n_inputs, job.D, job.settings.regret.lam

    def find(seed: int) -> dict[str, np.ndarray]:
        omega = draw_features(job.dictionary, d, D, seed).omega

        def fit() -> dict[str, np.ndarray]:
            index, theta = comparators.ridge_features(omega, lambda: _centred(job, size), lam)
            return {"best": np.array(index), "theta": theta}

        found = load_or_compute(job, f"ridge_features-{seed}", fit)
        return found | {"omega": omega[int(found["best"])].copy()}

    chosen, recorder = [], Recorder(len(job.seeds))
    with one_thread_each(), thread_pool(job.settings.n_threads) as pool:
        for found in pool.map(find, job.seeds):
            chosen.append(found)
            if progress:
                progress("comparator", len(chosen), len(job.seeds), None)
        for X, y in _centred(job, size):

            def errors_of(found: dict[str, np.ndarray]) -> np.ndarray:
                return comparators.squared_errors(found["omega"], found["theta"], X, y)  # noqa: B023

            recorder.add(np.stack(list(pool.map(errors_of, chosen))))
    return {
        "sums": recorder.curve()[1],
        "best": np.array([int(found["best"]) for found in chosen]),
    }


def _kernel_ridge(job: Job, progress: Progress | None) -> dict[str, np.ndarray]:
    if progress:
        progress("kernel ridge", 0, None, None)
    blocks = list(_centred(job, 1024))
    X = np.concatenate([b[0] for b in blocks])
    y = np.concatenate([b[1] for b in blocks])
    lam, n_threads = job.settings.regret.lam, job.settings.n_threads
    best, errors = comparators.kernel_ridge(job.dictionary, X, y, lam, n_threads)
    return {"best": np.array(best), "errors": errors}


def _centred(job: Job, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The blocks of a stream; with targets in their own units these are less their mean.

    A ridge without an intercept would pay for the offset of such a target, which no learner does:
    learners standardise it.
    """
    mean = 0.0
    if job.stream.scaling == "columns":
        total = n = 0.0
        for _, y in job.stream.blocks(size):
            total, n = total + float(y.sum()), n + len(y)
        mean = total / n
    for X, y in job.stream.blocks(size):
        yield X, y - mean


def _kernel_name(kernel: kernels.Kernel) -> str:
    return f"{kernel.family} {kernel.bandwidth:.4g}"


def load_or_compute(
    job: Job, what: str, make: Callable[[], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """A comparator is the same for every algorithm of a sweep: compute it once."""
    folder = job.settings.outputs / "comparators"
    return cached_arrays.load_or_make(folder, _comparator_identity(job, what), make)


def _comparator_identity(job: Job, what: str) -> str:
    """All that a comparator depends on: data, their preparation, dictionary, D and lam."""
    settings = job.settings
    identity = {
        "stream": without_prose(job.stream.provenance),
        "settings": settings.stream.options,
        "shuffle": settings.seed if settings.stream.order == "shuffled" else None,
        "kernels": job.dictionary,
        "modules": modules_of_families(job.dictionary),
        "D": job.D,
        "lam": settings.regret.lam,
        "sources": sources_digest(()),  # there is no learner in it
        "what": what,
    }
    return run_folder.settings_sha256(identity)


_memory: dict[str, dict[str, np.ndarray]] = {}

_MEMORY_BYTES = 2**26  # of comparators that are kept between the jobs of one process


def _remembered(
    job: Job, what: str, make: Callable[[], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """As ``load_or_compute``, for the other jobs of this process."""
    name = f"{job.settings.outputs.absolute()} {_comparator_identity(job, what)}"
    if name not in _memory:
        _memory[name] = make()
        while sum(a.nbytes for kept in _memory.values() for a in kept.values()) > _MEMORY_BYTES:
            if len(_memory) == 1:
                return _memory.pop(name)
            _memory.pop(next(iter(_memory)))
    return _memory[name]
