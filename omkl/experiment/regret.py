"""Regret of a regression: comparators in hindsight, computed once for a whole sweep."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from omkl.core import kernels
from omkl.core.representations.random_features import draw_features
from omkl.experiment import comparators
from omkl.experiment.federation import FederatedJob
from omkl.experiment.job import Job, Progress
from omkl.experiment.metrics import Recorder, mean_and_deviation
from omkl.experiment.threads import default_threads, one_thread_each, thread_pool
from omkl.runs import folder as run_folder
from omkl.runs.provenance import sources_digest, without_prose
from omkl.runs.writing import npz_bytes


def against_comparators(
    job: Job,
    rounds: np.ndarray,
    sums: np.ndarray,
    progress: Progress | None,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Cumulative squared error above each comparator's, (R, P) on the recorded rounds."""
    settings, stream, T = job.config["regret"], job.stream, int(rounds[-1])
    entries: dict[str, dict[str, Any]] = {}
    curves: dict[str, np.ndarray] = {}

    def keep(name: str, label: str, comparator: np.ndarray, **more: Any) -> None:
        regret = sums - comparator
        curves[f"regret_{name}"] = regret
        mean, deviation = mean_and_deviation(regret[:, -1])
        entries[name] = {"label": label, "mean": mean, "std": deviation, **more}

    if job.label is not None:
        unknown = "labels come from outside, and most are not known"
        names = {"ridge_features": comparators.RIDGE_FEATURES}
        names["kernel_ridge"] = comparators.KERNEL_RIDGE
        wanted = [name for name in names if settings[name]]
        return {name: {"label": names[name], "skipped": unknown} for name in wanted}, {}

    truth = stream.truth(job.config["block"])
    if truth is not None:
        recorder = Recorder(1)
        for noise_free, (_, y) in zip(truth, stream.blocks(job.config["block"]), strict=True):
            recorder.add(np.square(noise_free - y)[None, :])
        keep("truth", comparators.TRUTH, recorder.curve()[1])

    if settings["ridge_features"]:
        label = comparators.RIDGE_FEATURES
        N, D = len(job.dictionary), job.config["D"]
        megabytes = N * (2 * D) ** 2 * 8 // 2**20
        reason = None
        if T > settings["max_rounds"]:
            reason = f"{T} rounds are more than regret.max_rounds={settings['max_rounds']}"
        elif megabytes > 4096:
            reason = f"the normal equations of {N} kernels with D={D} take {megabytes} MiB"
        if reason:
            entries["ridge_features"] = {"label": label, "skipped": reason}
        else:
            found = _remembered(
                job, f"ridge_features {job.seeds}", lambda: _ridge_features(job, progress)
            )
            best = [_kernel_name(job.dictionary[i]) for i in found["best"]]
            keep("ridge_features", label, found["sums"], kernels=best)

    if settings["kernel_ridge"]:
        label = comparators.KERNEL_RIDGE
        most = settings["kernel_ridge_rounds"]
        if most < T:
            reason = f"{T} rounds are more than regret.kernel_ridge_rounds={most}"
            entries["kernel_ridge"] = {"label": label, "skipped": reason}
        else:
            cached = _remembered(
                job,
                "kernel_ridge",
                lambda: load_or_compute(job, "kernel_ridge", lambda: _kernel_ridge(job, progress)),
            )
            recorder = Recorder(1)
            recorder.add(cached["errors"][None, :])
            name = _kernel_name(job.dictionary[int(cached["best"])])
            keep("kernel_ridge", label, recorder.curve()[1], kernels=[name])
    return entries, curves


def _ridge_features(job: Job, progress: Progress | None) -> dict[str, np.ndarray]:
    """Cumulative squared errors (R, P) of each seed's comparator, and the kernels chosen (R,)."""
    stream, size = job.stream, 1024
    n_threads = job.config["threads"] or default_threads()
    d, D = stream.n_inputs, job.config["D"]

    def omega_of(seed: int) -> np.ndarray:
        return draw_features(job.dictionary, d, D, seed).omega

    def find(seed: int) -> dict[str, np.ndarray]:

        def fit() -> dict[str, np.ndarray]:
            index, theta = comparators.ridge_features(
                omega_of(seed), lambda: stream.blocks(size), job.config["regret"]["lam"]
            )
            return {"best": np.array(index), "theta": theta}

        return load_or_compute(job, f"ridge_features-{seed}", fit)

    thetas, best = [], []
    with one_thread_each(), thread_pool(n_threads) as pool:
        for found in pool.map(find, job.seeds):
            thetas.append(found["theta"])
            best.append(int(found["best"]))
            if progress:
                progress("comparator", len(best), len(job.seeds), None)
    omegas = [omega_of(seed)[i].copy() for seed, i in zip(job.seeds, best, strict=True)]
    recorder = Recorder(len(job.seeds))
    for X, y in stream.blocks(size):
        recorder.add(
            np.stack(
                [
                    comparators.squared_errors(omega, theta, X, y)
                    for omega, theta in zip(omegas, thetas, strict=True)
                ]
            )
        )
    return {"sums": recorder.curve()[1], "best": np.array(best)}


def _kernel_ridge(job: Job, progress: Progress | None) -> dict[str, np.ndarray]:
    if progress:
        progress("kernel ridge", 0, None, None)
    blocks = list(job.stream.blocks(1024))
    X = np.concatenate([b[0] for b in blocks])
    y = np.concatenate([b[1] for b in blocks])
    n_threads = job.config["threads"] or default_threads()
    best, errors = comparators.kernel_ridge(
        job.dictionary, X, y, job.config["regret"]["lam"], n_threads
    )
    return {"best": np.array(best), "errors": errors}


def _kernel_name(kernel: kernels.Kernel) -> str:
    return f"{kernel.family} {kernel.bandwidth:.4g}"


def load_or_compute(
    job: Job | FederatedJob, what: str, make: Callable[[], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """A comparator is the same for every algorithm of a sweep: compute it once."""
    path = Path(job.config["outputs"]) / "comparators" / f"{_comparator_key(job, what)}.npz"
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
        pass
    made = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    # Half a file, after a power failure, is found to be none: no need to wait for the disk.
    run_folder.write_atomically(path, npz_bytes(made), sync=False)
    return made


def _comparator_key(job: Job | FederatedJob, what: str) -> str:
    """Names all that a comparator depends on: data, their preparation, dictionary, D and lam."""
    config = job.config
    identity = {
        "stream": without_prose(job.stream.provenance),
        "settings": config["stream"],
        "shuffle": config["seed"] if config["stream"]["order"] == "shuffled" else None,
        "kernels": job.dictionary,
        "D": config["D"],
        "lam": config["regret"]["lam"],
        "sources": sources_digest(),
        "what": what,
    }
    return run_folder.key_of(identity)


_memory: dict[str, dict[str, np.ndarray]] = {}

_MEMORY_BYTES = 2**26  # of comparators that are kept between the jobs of one process


def _remembered(
    job: Job, what: str, make: Callable[[], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """As ``load_or_compute``, for the other jobs of this process."""
    name = f"{Path(job.config['outputs']).absolute()} {_comparator_key(job, what)}"
    if name not in _memory:
        _memory[name] = make()
        while sum(a.nbytes for held in _memory.values() for a in held.values()) > _MEMORY_BYTES:
            if len(_memory) == 1:
                return _memory.pop(name)
            _memory.pop(next(iter(_memory)))
    return _memory[name]
