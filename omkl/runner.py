"""One job: from a resolved configuration to a finished run folder."""

from __future__ import annotations

import contextlib
import datetime
import functools
import hashlib
import io
import os
import platform
import shutil
import subprocess
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import omkl
from omkl import algorithms, comparators, federated, jit, kernels, params, results, tracking
from omkl.datasets import DataError, Stream, open_stream
from omkl.engine import Algorithm, Learner, Schedule, draw_features
from omkl.federated.job import FederatedJob
from omkl.federated.job import compute as compute_federated
from omkl.federated.job import prepare as prepare_federated
from omkl.metrics import Recorder, mean_and_deviation
from omkl.results import Run

Progress = Callable[[str, int, int | None, float | None], None]
"""progress(stage, done, total, running MSE): called between blocks."""


# Keys of a data set that describe it and cannot change a number.
PROSE = ("title", "notes", "licence", "citation", "uci", "url", "member", "by_hand")


FEATURES = 50  # D of a learner of its own
UNKNOWN_HORIZON = 10**6  # stands for the length of a stream that is not open yet
MOST_GIGABYTES = 8.0  # of coefficients that an exact-kernel learner may keep


class Outcome(NamedTuple):
    """How a job ended.

    run      its folder; with status "failed" there may be none, then run holds the
             result and the configuration in memory
    status   "complete", "reused" or "failed"
    notes    what the user should know
    tracked  whether the run is in the MLflow view
    """

    run: Run
    status: str
    notes: list[str]
    tracked: bool = False


class Job(NamedTuple):
    """Everything that has been checked and built before the first round."""

    config: dict[str, Any]
    stream: Stream
    dictionary: tuple[kernels.Kernel, ...]
    algorithm: Algorithm
    params: Any
    seeds: list[int]


def prepare(config: Mapping[str, Any]) -> Job | FederatedJob:
    """Check a configuration against the data, and build what it names.

    Raises ValueError (DataError for data) that names what is wrong and what to do.
    """
    _check_settings(config)
    if config["federation"]["name"] != "none":
        job = prepare_federated(config)
        return job._replace(config=_portable(job.config, job.stream))
    if config["algorithm"]["name"] in federated.names():
        raise ValueError(
            f"{config['algorithm']['name']} learns in a federation: add federation=iid clients=K, "
            "federation=by_site or federation=column"
        )
    if config["D"] is None:
        config = {**config, "D": FEATURES}
    dictionary = kernels.dictionary(config["kernels"])
    given = dict(config["algorithm"])
    algorithm = algorithms.load(given.pop("name"))
    sizes = {"N": len(dictionary), "D": config["D"]}
    # Once before the data are opened: a wrong number should not wait for a large file.
    params.build(algorithm.Params, given, UNKNOWN_HORIZON, sizes)
    stream = open_stream(config["dataset"], config["stream"], seed=config["seed"])
    built = params.build(algorithm.Params, given, stream.n_rounds, sizes)
    # An exact-kernel learner draws nothing: one repetition says all.
    n_seeds = 1 if algorithm.exact else config["seeds"]
    seeds = [config["seed"] + r for r in range(n_seeds)]
    if algorithm.exact:
        _require_memory(len(algorithm.kernels(built, dictionary)), stream)
    return Job(_portable(config, stream), stream, dictionary, algorithm, built, seeds)


def _require_memory(n_kernels: int, stream: Stream) -> None:
    """Exact kernels keep every row: refuse what cannot be held before the first round."""
    if stream.n_rounds is None:
        return
    gigabytes = stream.n_rounds * (n_kernels + stream.n_inputs) * 8 / 1e9
    if gigabytes > MOST_GIGABYTES:
        raise ValueError(
            f"exact kernels would keep {stream.n_rounds} rows for {n_kernels} kernels, "
            f"{gigabytes:.0f} GB; set stream.limit, choose fewer kernels, or a learner with "
            "random features"
        )


def _check_settings(config: Mapping[str, Any]) -> None:
    """Types and ranges of what belongs to no algorithm and no data set."""
    regret = config["regret"]
    whole = [("seeds", 1), ("seed", 0), ("block", 1)]
    numbers = [(key, config[key], low) for key, low in whole]
    numbers += [] if config["D"] is None else [("D", config["D"], 1)]
    numbers += [(f"regret.{key}", regret[key], 0) for key in ("max_rounds", "kernel_ridge_rounds")]
    if config["threads"] is not None:
        numbers.append(("threads", config["threads"], 1))
    for key, value, low in numbers:
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            raise ValueError(f"{key}={value!r} is not a whole number of at least {low}")
    switches = [(key, config[key]) for key in ("figures", "force", "fail_fast")]
    switches += [(f"regret.{key}", regret[key]) for key in ("ridge_features", "kernel_ridge")]
    for key, value in switches:
        if not isinstance(value, bool):
            raise ValueError(f"{key}={value!r} is not true or false")
    if config["tracking"] not in ("mlflow", "none"):
        raise ValueError(f"tracking={config['tracking']!r}; there are: mlflow, none")
    lam = regret["lam"]
    if isinstance(lam, bool) or not isinstance(lam, int | float) or not 0 <= lam < np.inf:
        raise ValueError(f"regret.lam={lam!r} is not a number of at least 0")


def _portable(config: Mapping[str, Any], stream: Stream) -> dict[str, Any]:
    """The configuration with an own file named by its content instead of its place.

    So the run folder can move, and a file that has changed makes another run.
    """
    dataset = dict(config["dataset"])
    if "path" in dataset:
        (file,) = stream.provenance["files"]
        dataset |= {"path": file["name"], "sha256": file["sha256"]}
    return {**config, "dataset": dataset}


def fit_to_algorithm(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration without the parameters that are another algorithm's.

    In a sweep ``algorithm.M=5,10`` meets learners that have no M; they run without it.
    """
    given = dict(config["algorithm"])
    own, *others = (
        _params_of(name)._fields  # type: ignore[attr-defined]
        for name in (given["name"], *algorithms.names(), *federated.names())
    )
    known = {field for fields in others for field in fields}
    kept = {k: v for k, v in given.items() if k == "name" or k in own or k not in known}
    return {**config, "algorithm": kept}


def _params_of(name: str) -> type:
    known = federated if name in federated.names() else algorithms
    return known.load(name).Params


def key_of(config: Mapping[str, Any]) -> str:
    """Eight hex digits naming the settings that can change a number."""
    return results.key_of({**config, "dataset": _without_prose(config["dataset"])})


def _without_prose(described: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in described.items() if key not in PROSE}


def folder_of(config: Mapping[str, Any]) -> Path:
    """Where the run of this configuration lives, relative to nothing but ``outputs``."""
    algorithm = str(config["algorithm"]["name"]).replace("/", ".")  # no folder in between
    name = f"{algorithm}-{key_of(config)}"
    return Path(config["outputs"]) / "runs" / str(config["dataset"]["name"]) / name


def run(config: Mapping[str, Any], progress: Progress | None = None) -> Outcome:
    """Run one job, or find it finished. Failures are returned, not raised.

    A job that cannot begin leaves nothing behind. One that breaks writes its failure
    into its folder, unless a finished result is there: that is only replaced by
    another finished one. KeyboardInterrupt passes through and changes nothing.
    """
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    try:
        if progress:
            progress("reading the data", 0, None, None)
        job = prepare(config)
    except Exception as error:
        explained = isinstance(error, ValueError | OSError | MemoryError)
        return Outcome(_failed(config, started, error, explained), "failed", [])
    config = job.config
    folder = folder_of(config)
    try:
        numbers = numbers_stamp(job.stream.provenance)
        notes: list[str] = []
        earlier = Run(folder)
        if _is_complete(earlier) and not config["force"]:
            if earlier.result.get("numbers") == numbers:
                # An earlier start may have had tracking=none, or ended before tracking.
                tracked = tracking.holds(folder, Path(config["outputs"]))
                tracker = None if tracked else _prepare_tracking(config)
                if config["figures"] and not (folder / "mse.png").exists():
                    _draw(earlier, tracker, progress)
                tracked = _track(config, folder, tracker, progress, notes) or tracked
                return Outcome(earlier, "reused", notes, tracked)
            notes.append(f"{folder.name} was computed by other code or data: computed anew")
        with _writable(folder):
            tracker = _prepare_tracking(config)
            result, curves = compute(job, progress)
            stamp = {"status": "complete", **_identity(config, started), "numbers": numbers}
            result = stamp | result
            with _staging(folder) as staging:
                _write(staging, config, result, curves)
                if config["figures"]:
                    _draw(_with(staging, result=result, curves=curves), tracker, progress)
                _replace(folder, staging)
            results.write_result(folder, result)
        tracked = _track(config, folder, tracker, progress, notes)
        return Outcome(Run(folder), "complete", notes, tracked)
    except Exception as error:
        explained = isinstance(error, DataError | FloatingPointError | OSError | MemoryError)
        failed = _failed(config, started, error, explained)
        if not _is_complete(Run(folder)):
            # Without a disk to write on, the failure is still returned.
            with contextlib.suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
                _write_config(folder, config)
                results.write_result(folder, failed.result)
        return Outcome(failed, "failed", [])


def _identity(config: Mapping[str, Any], started: str) -> dict[str, Any]:
    return {
        "key": key_of(config),
        "algorithm": config["algorithm"]["name"],
        "dataset": config["dataset"]["name"],
        "kernels": config["kernels"].get("name", "own"),
        "params": {k: v for k, v in config["algorithm"].items() if k != "name"},
        "started": started,
        "versions": versions(),
        "machine": machine(),
        "commit": commit(),
    }


def _failed(config: Mapping[str, Any], started: str, error: Exception, explained: bool) -> Run:
    """The failure as a run that is held in memory; without traceback if its message says all."""
    message = str(error)
    if isinstance(error, OSError) and error.strerror:
        message = f"cannot use {error.filename or folder_of(config)}: {error.strerror}"
    elif isinstance(error, MemoryError):
        message = f"not enough memory for this D, seeds and dictionary ({message})"
    failure = {
        "type": type(error).__name__,
        "message": message,
        "traceback": None if explained else traceback.format_exc(),
    }
    result = {"status": "failed", **_identity(config, started), "error": failure}
    return _with(folder_of(config), result=result, config=_shown(config))


def _is_complete(run: Run) -> bool:
    """Whether a finished result is there; a result.json that cannot be read is none."""
    try:
        return run.complete and (run.folder / "curves.npz").exists()
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def _writable(folder: Path) -> Iterator[None]:
    """The run folder, tried out before the first round; removed if nothing came into it."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
        yield
    finally:
        with contextlib.suppress(OSError):  # it holds something
            folder.rmdir()


@contextlib.contextmanager
def _staging(folder: Path) -> Iterator[Path]:
    """Where new files are made before they take the place of the old ones, all at once."""
    for left in folder.glob(".new-*"):  # by a process that was killed, not one at work
        if time.time() - left.stat().st_mtime > 3600:
            shutil.rmtree(left, ignore_errors=True)
    staging = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _replace(folder: Path, staging: Path) -> None:
    """Put the new files in place of the old ones; without result.json they count for nothing."""
    (folder / "result.json").unlink(missing_ok=True)
    for old in (*folder.glob("*.png"), *folder.glob("*.pdf")):
        old.unlink()
    for new in sorted(staging.iterdir()):
        os.replace(new, folder / new.name)


def _draw(run: Run, tracker: threading.Thread | None, progress: Progress | None) -> None:
    if progress:
        progress("figures", 0, None, None)
    if tracker:  # two threads should not import large packages at once
        tracker.join()
    from omkl.report import figures

    figures.all_figures(run)


def compute(
    job: Job | FederatedJob, progress: Progress | None = None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Stream every seed through its learner: the numbers of result.json and curves.npz."""
    config, stream = job.config, job.stream
    most_threads = config["threads"] or default_threads()
    if isinstance(job, FederatedJob):
        return compute_federated(job, most_threads, _threads, progress)
    n_threads = min(most_threads, len(job.seeds))
    if progress:
        progress("preparing", 0, None, None)
    with _threads(1) as pool:  # the compiler would swallow a Ctrl-C in the main thread
        learners = pool.submit(_learners, job).result()
    recorder = Recorder(len(learners))
    seconds = np.zeros(len(learners))
    labels = np.zeros(len(learners), dtype=np.int64)
    low, high, largest_norm, largest_error = np.inf, -np.inf, 0.0, 0.0

    def one(r: int, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        before = time.perf_counter()
        trace = learners[r].partial_fit(X, y)
        labels[r] += np.count_nonzero(trace.asked)
        seconds[r] += time.perf_counter() - before
        with np.errstate(over="ignore", invalid="ignore"):  # _require_finite tells
            return np.square(trace.y_hat - y)

    if progress:
        progress("rounds", 0, stream.n_rounds, None)
    clock = time.perf_counter()
    with _threads(n_threads) as pool:
        for X, y in stream.blocks(config["block"]):
            errors = list(pool.map(lambda r: one(r, X, y), range(len(learners))))  # noqa: B023
            with np.errstate(over="ignore", invalid="ignore"):
                recorder.add(np.stack(errors))
            _require_finite(job, recorder)
            low, high = min(low, float(y.min())), max(high, float(y.max()))
            largest_norm = max(largest_norm, float(np.linalg.norm(X, axis=1).max()))
            largest_error = max(largest_error, *(float(e.max()) for e in errors))
            if progress:
                so_far = float(recorder.total.mean() / recorder.n_rounds)
                progress("rounds", recorder.n_rounds, stream.n_rounds, so_far)
    elapsed = time.perf_counter() - clock
    T = recorder.n_rounds
    if T < 2:
        raise DataError(f"{stream.name}: a stream needs at least 2 rows, {T} came")
    if low == high:
        raise DataError(
            f"{stream.name}: the target {stream.target!r} is the same in all {T} rows, so there "
            "is nothing to learn. Choose another dataset.target or more rows."
        )
    rounds, sums = recorder.curve()
    mse = recorder.total / T
    mean, deviation = mean_and_deviation(mse)
    used = np.stack([learner.used for learner in learners])
    regret, regret_curves = _regret(job, rounds, sums, progress)
    learned_with = job.algorithm.kernels(job.params, job.dictionary)
    result = {
        "n_rounds": T,
        "n_inputs": stream.n_inputs,
        "n_kernels": used.shape[1],
        "deterministic": job.algorithm.exact,
        "max_squared_error": largest_error,
        "max_kernel_squared_error": max(float(learner.worst[0]) for learner in learners),
        "max_norm": largest_norm,
        "D": config["D"],
        "seeds": job.seeds,
        "mse_mean": mean,
        "mse_std": deviation,
        "mse": mse.tolist(),
        "kernels_per_round": float(used.sum() / (T * len(learners))),
        "labels": float(labels.mean()),
        "seconds": elapsed,
        "seconds_per_seed": seconds.tolist(),
        "threads": most_threads if job.algorithm.exact else n_threads,
        "regret": regret,
        "stream": stream.provenance,
    }
    curves = {
        "t": rounds,
        "mse": sums / rounds,
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
    raise FloatingPointError(
        f"by round {recorder.n_rounds} the predictions of {given['name']} are no longer finite "
        f"(seeds {', '.join(map(str, bad))}): the steps are too large for this stream. Reduce "
        f"{' or '.join(steps) or 'the step size'}; importance weights divide steps by small "
        "probabilities, so more exploration helps as well"
    )


@contextlib.contextmanager
def _threads(n: int) -> Iterator[ThreadPoolExecutor]:
    """A pool that Ctrl-C leaves at once: what its threads still compute is not waited for."""
    pool = ThreadPoolExecutor(n)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _weights(learner: Learner) -> np.ndarray:
    from omkl.weights import normalised

    return normalised(learner.state.log_w)


def _learners(job: Job) -> list[Learner]:
    """A learner a seed; compiles, or loads what was compiled, before any clock starts."""
    d, D = job.stream.n_inputs, job.config["D"]
    n_threads = job.config["threads"] or default_threads() if job.algorithm.exact else 1

    def learner(seed: int) -> Learner:
        return Learner(job.algorithm, job.params, job.dictionary, d, D, seed, threads=n_threads)

    learner(0).partial_fit(np.zeros((2, d)), np.zeros(2))
    return [learner(seed) for seed in job.seeds]


def _regret(
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
            sums_of, best = _ridge_features(job, progress)
            keep("ridge_features", label, sums_of, kernels=best)

    if settings["kernel_ridge"]:
        label = comparators.KERNEL_RIDGE
        most = settings["kernel_ridge_rounds"]
        if most < T:
            reason = f"{T} rounds are more than regret.kernel_ridge_rounds={most}"
            entries["kernel_ridge"] = {"label": label, "skipped": reason}
        else:
            cached = _cached(job, "kernel_ridge", lambda: _kernel_ridge(job, progress))
            recorder = Recorder(1)
            recorder.add(cached["errors"][None, :])
            name = _kernel_name(job.dictionary[int(cached["best"])])
            keep("kernel_ridge", label, recorder.curve()[1], kernels=[name])
    return entries, curves


def _ridge_features(job: Job, progress: Progress | None) -> tuple[np.ndarray, list[str]]:
    """Cumulative squared errors (R, P) of each seed's comparator, and the kernels chosen."""
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

        return _cached(job, f"ridge_features-{seed}", fit)

    thetas, best = [], []
    with comparators.one_thread_each(), _threads(n_threads) as pool:
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
    return recorder.curve()[1], [_kernel_name(job.dictionary[i]) for i in best]


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


def _cached(
    job: Job, what: str, make: Callable[[], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """A comparator is the same for every algorithm of a sweep: compute it once.

    Named by all that it depends on: data, their preparation, dictionary, D and lam.
    """
    config = job.config
    identity = {
        "stream": _without_prose(job.stream.provenance),
        "settings": config["stream"],
        "shuffle": config["seed"] if config["stream"]["order"] == "shuffled" else None,
        "kernels": job.dictionary,
        "D": config["D"],
        "lam": config["regret"]["lam"],
        "sources": _sources_digest(),
        "what": what,
    }
    path = Path(config["outputs"]) / "comparators" / f"{results.key_of(identity)}.npz"
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, KeyError):
        pass
    made = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    results.write_atomically(path, _npz(made, compress=False))
    return made


def _npz(arrays: Mapping[str, np.ndarray], compress: bool = True) -> bytes:
    buffer = io.BytesIO()
    if compress:
        np.savez_compressed(buffer, **dict(arrays))  # type: ignore[arg-type]
    else:
        np.savez(buffer, **dict(arrays))  # type: ignore[arg-type]
    return buffer.getvalue()


def _with(folder: Path, **known: Any) -> Run:
    """A run whose result, curves or configuration are held in memory."""
    run = Run(folder)
    run.__dict__.update(known)
    return run


def _shown(config: Mapping[str, Any]) -> dict[str, Any]:
    # Where results go and how they are shown is no part of the run: the folder can move.
    return {k: v for k, v in config.items() if k not in ("outputs", "force", "fail_fast")}


def _write_config(folder: Path, config: Mapping[str, Any]) -> None:
    from omegaconf import OmegaConf

    text = OmegaConf.to_yaml(OmegaConf.create(_shown(config)))
    results.write_atomically(folder / "config.yaml", text)


def _write(
    folder: Path,
    config: Mapping[str, Any],
    result: Mapping[str, Any],
    curves: Mapping[str, np.ndarray],
) -> None:
    _write_config(folder, config)
    results.write_atomically(folder / "curves.npz", _npz(curves))
    results.write_atomically(folder / "results.parquet", _tidy(result))


def _tidy(result: Mapping[str, Any]) -> bytes:
    """results.parquet: one row a seed."""
    import pyarrow as pa
    import pyarrow.parquet

    n = len(result["seeds"])
    columns: dict[str, list[Any]] = {
        name: [result[name]] * n
        for name in ("key", "algorithm", "dataset", "kernels", "n_rounds", "n_kernels", "D")
    }
    columns |= {f"algorithm.{k}": [v] * n for k, v in result["params"].items()}
    columns |= {
        "seed": list(result["seeds"]),
        "mse": list(result["mse"]),
        "seconds": list(result["seconds_per_seed"]),
        "kernels_per_round": [result["kernels_per_round"]] * n,
        "labels": [result["labels"]] * n,
    }
    sink = io.BytesIO()
    pa.parquet.write_table(pa.table(columns), sink)
    return sink.getvalue()


def _prepare_tracking(config: Mapping[str, Any]) -> threading.Thread | None:
    """Import MLflow and open its database while the rounds are running: they hold no lock."""
    if config["tracking"] != "mlflow":
        return None

    def quietly() -> None:
        try:
            tracking.prepare(Path(config["outputs"]))
        except Exception:  # log_run meets the same trouble and tells it
            return

    thread = threading.Thread(target=quietly, daemon=True)
    thread.start()
    return thread


def _track(
    config: Mapping[str, Any],
    folder: Path,
    thread: threading.Thread | None,
    progress: Progress | None,
    notes: list[str],
) -> bool:
    """Whether the run is in the MLflow view now; if it should be and is not, notes say why."""
    if thread is None:
        return False
    if progress:
        progress("tracking", 0, None, None)
    thread.join()
    try:
        tracking.log_run(folder, Path(config["outputs"]))
    except tracking.TrackingError as error:
        notes.append(str(error))
        return False
    return True


def default_threads() -> int:
    """Cores that this process may use; one a job under a launcher that says so."""
    for name in ("OMKL_THREADS", "SLURM_CPUS_PER_TASK", "NUMBA_NUM_THREADS"):
        if os.environ.get(name, "").isdigit():
            return max(1, int(os.environ[name]))
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _sources_digest() -> str:
    digest = hashlib.sha256(jit.fingerprint().encode())
    names = ["kernels", "graphs", "params", "comparators", "metrics", "runner"]
    names += [f"federated/{name}" for name in ("job", "simulation", "split")]
    files = [jit.PACKAGE / f"{n}.py" for n in names] + sorted(jit.PACKAGE.glob("datasets/*.py"))
    for path in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def numbers_stamp(provenance: Mapping[str, Any]) -> str:
    """Twelve hex digits naming the code and the data that a result comes from."""
    text = _sources_digest() + results.key_of({"provenance": _without_prose(provenance)})
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@functools.cache
def versions() -> dict[str, str]:
    from importlib.metadata import version

    names = ("numpy", "numba", "scipy", "hydra-core", "mlflow")
    return {
        "omkl": omkl.__version__,
        "python": platform.python_version(),
        **{name: version(name) for name in names},
    }


@functools.cache
def machine() -> dict[str, Any]:
    return {"processor": _processor(), "cores": default_threads(), "system": platform.system()}


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
        return next(x.split(":", 1)[1].strip() for x in text.splitlines() if "model name" in x)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


@functools.cache
def commit() -> str | None:
    """The checkout's commit, with a + when it has changes; None outside a checkout."""
    root = jit.PACKAGE.parent
    if not (root / ".git").exists():
        return None
    try:
        head = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty=+", "--abbrev=10"],
            capture_output=True, text=True, timeout=5, check=True,
        )  # fmt: skip
        return head.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
