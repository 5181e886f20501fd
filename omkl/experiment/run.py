"""One job: from a resolved configuration to a finished run folder."""

from __future__ import annotations

import contextlib
import datetime
import functools
import hashlib
import io
import math
import os
import platform
import shutil
import subprocess
import tempfile
import threading
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import omkl
from omkl import algorithms, federated, startup, tracking
from omkl.core import hyperparameters, jit, kernels
from omkl.core.protocol import Algorithm, Learner, Schedule, check_precision, draw_features
from omkl.datasets import DataError, Stream, download, label_sources, open_stream, open_streams
from omkl.datasets.download import sha256_of
from omkl.experiment import comparators
from omkl.experiment.federation import FederatedJob
from omkl.experiment.federation import compute as compute_federated
from omkl.experiment.federation import prepare as prepare_federated
from omkl.experiment.metrics import Recorder, label_cost, mean_and_deviation
from omkl.experiment.threads import cores, default_threads
from omkl.runs import folder as run_folder
from omkl.runs.folder import Run

Progress = Callable[[str, int, int | None, float | None], None]
"""progress(stage, done, total, running MSE): called between blocks."""


# Keys of a data set that describe it and cannot change a number.
PROSE = ("title", "notes", "licence", "citation", "uci", "url", "member", "by_hand")


FEATURES = 50  # D of a learner without a federation
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
    """Everything that has been checked and built before the first round.

    ``streams`` has one a seed: in a regression all the same, in a classification that is
    shuffled each seed its own permutation. ``stream`` is the first.
    """

    config: dict[str, Any]
    stream: Stream
    dictionary: tuple[kernels.Kernel, ...]
    algorithm: Algorithm
    params: Any
    seeds: list[int]
    label: label_sources.Label | None = None  # who is asked; None: the data
    streams: list[Stream] = []  # noqa: RUF012


def prepare(config: Mapping[str, Any]) -> Job | FederatedJob:
    """Check a configuration against the data, and build what it names.

    Raises ValueError (DataError for data) that names what is wrong and what to do.
    """
    _check_settings(config)
    config = with_task(config)
    if config["federation"]["name"] != "none":
        together = prepare_federated(config)
        return together._replace(config=_portable(together.config, together.stream))
    if config["algorithm"]["name"] in federated.names():
        raise ValueError(
            f"{config['algorithm']['name']} learns in a federation: add federation=iid clients=K, "
            "federation=by_site or federation=column"
        )
    if config["clients"] is not None:
        raise ValueError(f"clients={config['clients']} is for a federation: add federation=iid")
    if config["D"] is None:
        config["D"] = FEATURES
    dictionary = kernels.dictionary(config["kernels"])
    given = dict(config["algorithm"])
    algorithm = algorithms.load(given.pop("name"))
    sizes = {"N": len(dictionary), "D": config["D"]}
    # Once before the data are opened: a wrong number should not wait for a large file.
    hyperparameters.build(algorithm.Params, given, UNKNOWN_HORIZON, sizes)
    check_precision(algorithm, config["precision"])
    classify = algorithm.task == "classification"
    if not (algorithm.exact or algorithm.represent):
        for kernel in dictionary:
            kernel.require_frequencies()
    own_order = classify and config["stream"]["order"] == "shuffled"
    # Of a learner that draws nothing, as with exact kernels, one repetition says all.
    n_seeds = 1 if algorithm.deterministic and not own_order else config["seeds"]
    seeds = [config["seed"] + r for r in range(n_seeds)]
    streams = [_opened(config)] * n_seeds
    if own_order:
        streams = open_streams(config["dataset"], config["stream"], seeds)
    stream = streams[0]
    built = hyperparameters.build(algorithm.Params, given, stream.n_rounds, sizes)
    if not stream.labelled and (n_seeds > 1 or classify):
        raise ValueError(
            f"stream.labels={config['stream']['labels']} is asked by one learner of a regression, "
            f"and there are {n_seeds} seeds; set seeds=1"
        )
    if algorithm.exact and not classify:
        on_budget = "budget" in algorithm.Params._fields  # type: ignore[attr-defined]
        _require_memory(len(algorithm.kernels(built, dictionary)), stream, on_budget)
    portable = _portable(config, stream)
    return Job(portable, stream, dictionary, algorithm, built, seeds, streams=streams)


def with_task(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with its task in ``dataset.task`` alone and with an order of the rows.

    ValueError where data set and algorithm are for different tasks.
    """
    dataset, stream = dict(config["dataset"]), dict(config["stream"])
    name = config["algorithm"]["name"]
    own, task = task_of(name), task_in(config)
    if task not in ("regression", "classification"):
        raise ValueError(f"task={task!r}; there are: regression, classification")
    if task != dataset["task"] and not _may_be_either(dataset):
        raise ValueError(f"{dataset['name']} is a data set for {dataset['task']}, not for {task}")
    dataset["task"] = task
    if own != task:
        together = federated if config["federation"]["name"] != "none" else algorithms
        fitting = [n for n in together.names() if task_of(n) == task]
        raise ValueError(
            f"{name} is an algorithm for {own}, and {dataset['name']} is run as a {task}; for "
            f"that there are: {', '.join(fitting) or 'none in a federation'}"
        )
    if stream["order"] is None:
        shuffle = task == "classification" and "file" in dataset
        stream["order"] = "shuffled" if shuffle else "file"
    rest = {key: value for key, value in config.items() if key != "task"}
    return {**rest, "dataset": dataset, "stream": stream}


def task_in(config: Mapping[str, Any]) -> str:
    """The task that is meant: what may be either is classified where the algorithm does that."""
    dataset = config["dataset"]
    given: str = config.get("task") or dataset["task"]
    if config.get("task") or not _may_be_either(dataset):
        return given
    own = task_of(config["algorithm"]["name"])
    return own if own == "classification" else given


def _may_be_either(dataset: Mapping[str, Any]) -> bool:
    """Whether it is an own file, or the synthetic stream."""
    return "path" in dataset or "n_centres" in dataset


def task_of(name: str) -> str:
    """The task of an algorithm, in a federation or not."""
    return "regression" if name in federated.names() else algorithms.load(name).task


_streams: dict[str, tuple[tuple[Any, ...] | None, Stream]] = {}
_STREAM_BYTES = 2**28  # of the rows that are kept between the jobs of one process


def _opened(config: Mapping[str, Any]) -> Stream:
    """The stream of a configuration; the jobs of one process read and prepare a file once."""
    dataset, settings, seed = config["dataset"], config["stream"], config["seed"]
    shuffle = seed if settings["order"] == "shuffled" else None
    name = run_folder.key_of({"dataset": dataset, "stream": settings, "shuffle": shuffle})
    stamp = _file_stamp(dataset)
    if name in _streams and _streams[name][0] == stamp:
        return _streams[name][1]
    stream = open_stream(dataset, settings, seed=seed)
    _streams[name] = (_file_stamp(dataset), stream)
    while len(_streams) > 1 and sum(map(_bytes_of, _streams.values())) > _STREAM_BYTES:
        _streams.pop(next(iter(_streams)))
    return stream


def _bytes_of(held: tuple[Any, Stream]) -> int:
    stream = held[1]
    return 8 * (stream.n_rounds or 0) * (stream.n_inputs + 1)


def _file_stamp(dataset: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """What changes with the file of a data set; None where there is no such file."""
    path = download.locate(dataset["file"]) if "file" in dataset else dataset.get("path")
    try:
        facts = os.stat(Path(str(path)).expanduser())
    except OSError:  # opening it tells what is wrong
        return None
    return str(path), facts.st_mtime_ns, facts.st_size


def _require_memory(n_kernels: int, stream: Stream, on_budget: bool) -> None:
    """Without a budget exact kernels keep every row: refuse what cannot be held."""
    if stream.n_rounds is None or on_budget:
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
    switches += [
        (f"regret.{key}", regret[key])
        for key in ("ridge_features", "kernel_ridge", "mistake_bound")
    ]
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
    dataset, settings = dict(config["dataset"]), dict(config["stream"])
    if "path" in dataset:
        (file,) = stream.provenance["files"]
        dataset |= {"path": file["name"], "sha256": file["sha256"]}
    if settings["labels"] not in label_sources.SOURCES:
        path = Path(settings["labels"])
        settings["labels"] = f"{path.name} sha256:{sha256_of(path)}"
    return {**config, "dataset": dataset, "stream": settings}


def fit_to_algorithm(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration without the parameters that are another algorithm's.

    In a sweep ``algorithm.M=5,10`` meets learners that have no M; they run without it.
    """
    given = dict(config["algorithm"])
    own = _parameters(given["name"])
    known = _parameters_of_all()
    kept = {k: v for k, v in given.items() if k == "name" or k in own or k not in known}
    return {**config, "algorithm": kept}


def _parameters(name: str) -> tuple[str, ...]:
    known = federated if name in federated.names() else algorithms
    return known.load(name).Params._fields


@functools.cache
def _parameters_of_all() -> frozenset[str]:
    return frozenset(
        field for name in (*algorithms.names(), *federated.names()) for field in _parameters(name)
    )


def key_of(config: Mapping[str, Any]) -> str:
    """Eight hex digits naming the settings that can change a number."""
    return run_folder.key_of({**config, "dataset": _without_prose(config["dataset"])})


def _without_prose(described: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in described.items() if key not in PROSE}


def folder_of(config: Mapping[str, Any]) -> Path:
    """Where the run of this configuration lives, relative to nothing but ``outputs``."""
    algorithm = str(config["algorithm"]["name"]).replace("/", ".")  # no folder in between
    name = f"{algorithm}-{key_of(config)}"
    return Path(config["outputs"]) / "runs" / str(config["dataset"]["name"]) / name


def run(
    config: Mapping[str, Any],
    progress: Progress | None = None,
    label: label_sources.Label | None = None,
) -> Outcome:
    """Run one job, or find it finished. Failures are returned, not raised.

    ``label(row, x, y_hat)`` is asked for the labels that the learner wants, in place of the
    data; with it the job is always computed.

    A job that cannot begin leaves nothing behind. One that breaks writes its failure
    into its folder, unless a finished result is there: that is only replaced by
    another finished one. KeyboardInterrupt passes through and changes nothing.
    """
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    if label is not None:
        stream = {**config["stream"], "labels": label_sources.CALLBACK}
        config = {**config, "stream": stream, "force": True}
    try:
        if progress:
            progress("reading the data", 0, None, None)
        source = _label_source(config, label)
        job = prepare(config)
    except Exception as error:
        explained = isinstance(error, ValueError | OSError | MemoryError)
        return Outcome(_failed(config, started, error, explained), "failed", [])
    config = job.config
    folder = folder_of(config)
    try:
        numbers = numbers_stamp(job.stream.provenance)
        notes = _expansive_steps(job)
        earlier = Run(folder)
        if _is_complete(earlier) and not config["force"]:
            if earlier.result.get("numbers") == numbers:
                # An earlier start may have had tracking=none, or ended before tracking.
                tracked = tracking.holds(folder, Path(config["outputs"]))
                tracker = None if tracked else _prepare_tracking(config)
                if config["figures"] and not (folder / "weights.png").exists():
                    _draw(earlier, tracker, progress)
                tracked = _track(config, folder, tracker, progress, notes) or tracked
                return Outcome(earlier, "reused", notes, tracked)
            notes.append(f"{folder.name} was computed by other code or data: computed anew")
        with _writable(folder):
            tracker = _prepare_tracking(config)
            from omkl.experiment import classification

            if isinstance(job, FederatedJob):
                n_threads = config["threads"] or default_threads()
                kept = functools.partial(_cached, job)
                result, curves = compute_federated(job, n_threads, _threads, progress, kept)
            elif job.algorithm.task == "classification":
                result, curves = classification.compute(job, progress)
            else:
                result, curves = compute(_with_labels(job, source, folder), progress)
            stamp = {"status": "complete", **_identity(config, started), "numbers": numbers}
            result = stamp | result
            with _staging(folder) as staging:
                run_folder.write_together(staging, _files(config, result, curves))
                if config["figures"]:
                    _draw(_with(staging, result=result, curves=curves), tracker, progress)
                _replace(folder, staging)
        tracked = _track(config, folder, tracker, progress, notes)
        return Outcome(Run(folder), "complete", notes, tracked)
    except Exception as error:
        explained = isinstance(error, DataError | FloatingPointError | OSError | MemoryError)
        failed = _failed(config, started, error, explained)
        if not _is_complete(Run(folder)):
            # Without a disk to write on, the failure is still returned.
            with contextlib.suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
                text = run_folder.config_text(_shown(config))
                run_folder.write_atomically(folder / "config.yaml", text)
                run_folder.write_result(folder, failed.result)
        return Outcome(failed, "failed", [])


def _label_source(
    config: Mapping[str, Any], label: label_sources.Label | None
) -> label_sources.Label | None:
    """Who gives labels, as far as it is known before the data are open; None: data or prompt."""
    given = config["stream"]["labels"]
    if not isinstance(given, str):
        raise ValueError(
            f"stream.labels={given!r} is none of {', '.join(label_sources.SOURCES)}, FILE"
        )
    if given == label_sources.CALLBACK and label is None:
        raise ValueError(
            "stream.labels=callback is a function in Python: runner.run(config, label=function)"
        )
    if given in label_sources.SOURCES:
        return label
    if not given.endswith(".csv"):
        raise ValueError(
            f"stream.labels={given} is none of {', '.join(label_sources.SOURCES)}, and no CSV file "
            "with the columns row and label"
        )
    return label_sources.File(Path(given))


def _with_labels(job: Job, source: label_sources.Label | None, folder: Path) -> Job:
    """The job with its labels from outside kept in its folder as they come."""
    if job.stream.labelled:
        return job
    prompted = source is None
    if source is None:
        unit = job.stream.provenance["scaling"].get("max_norm", 1.0)
        source = label_sources.Prompt(job.stream.inputs, unit)
    kept = label_sources.Kept(folder / "labels.csv", source, resume=prompted)
    return job._replace(label=kept)


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


def lost(config: Mapping[str, Any], message: str) -> Outcome:
    """The outcome of a job whose process did not live to tell it."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Outcome(_failed(config, now, RuntimeError(message), explained=True), "failed", [])


def _is_complete(run: Run) -> bool:
    """Whether a finished result is there; what a power failure has cut off is none."""
    try:
        return run.complete and zipfile.is_zipfile(run.folder / "curves.npz")
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
    for new in sorted(staging.iterdir(), key=lambda path: path.name == "result.json"):
        os.replace(new, folder / new.name)


def _draw(run: Run, tracker: threading.Thread | None, progress: Progress | None) -> None:
    if progress:
        progress("figures", 0, None, None)
    if tracker:  # two threads should not import large packages at once
        tracker.join()
    from omkl.report import figures

    figures.all_figures(run)


def compute(
    job: Job, progress: Progress | None = None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Stream every seed through its learner: the numbers of result.json and curves.npz."""
    config, stream = job.config, job.stream
    most_threads = config["threads"] or default_threads()
    n_threads = min(most_threads, len(job.seeds))
    if progress:
        progress("preparing", 0, None, None)
    with _threads(1) as pool:  # the compiler would swallow a Ctrl-C in the main thread
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
    with _threads(n_threads) as pool:
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
        **label_cost(mse, n_bought[:, -1], T),
        "mse_over": "all rounds" if job.label is None else "rounds with a label",
        "seconds": elapsed,
        "seconds_per_seed": seconds.tolist(),
        "threads": most_threads if job.algorithm.exact else n_threads,
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
    notes = _expansive_steps(job)
    raise FloatingPointError(
        f"by round {recorder.n_rounds} the predictions of {given['name']} are no longer finite "
        f"(seeds {', '.join(map(str, bad))}): the steps are too large for this stream. Reduce "
        f"{' or '.join(steps) or 'the step size'}; importance weights divide steps by small "
        "probabilities, so more exploration helps as well" + "".join(f". {n}" for n in notes)
    )


def _expansive_steps(job: Job | FederatedJob) -> list[str]:
    """One text if the learner's steps are too large for gradient descent to settle, else none.

    With features of norm 1 a step on (theta'z - y)^2 + lam ||theta||^2 multiplies theta's part
    along z by 1 - 2 eta (1 + lam); above eta = 1 / (1 + lam) that is beyond -1. Importance
    weights, which make steps larger still, are not counted, and federations are not looked at.
    """
    if isinstance(job, FederatedJob) or job.algorithm.task != "regression":
        return []
    own = job.params._asdict()
    random_features = not (job.algorithm.exact or job.algorithm.represent)
    if not (random_features and isinstance(own.get("eta"), Schedule) and "lam" in own):
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


@contextlib.contextmanager
def _threads(n: int) -> Iterator[ThreadPoolExecutor]:
    """A pool that Ctrl-C leaves at once: what its threads still compute is not waited for."""
    pool = ThreadPoolExecutor(n)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _weights(learner: Learner) -> np.ndarray:
    from omkl.core.weights import normalised

    return normalised(learner.state.log_w)


def _learners(job: Job) -> list[Learner]:
    """A learner a seed; compiles, or loads what was compiled, before any clock starts."""
    d, D = job.stream.n_inputs, job.config["D"]
    n_threads = job.config["threads"] or default_threads() if job.algorithm.exact else 1

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
                lambda: _cached(job, "kernel_ridge", lambda: _kernel_ridge(job, progress)),
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


def _cached(
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
    run_folder.write_atomically(path, _npz(made), sync=False)
    return made


def _comparator_key(job: Job | FederatedJob, what: str) -> str:
    """Names all that a comparator depends on: data, their preparation, dictionary, D and lam."""
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
    return run_folder.key_of(identity)


_memory: dict[str, dict[str, np.ndarray]] = {}
_MEMORY_BYTES = 2**26  # of comparators that are kept between the jobs of one process


def _remembered(
    job: Job, what: str, make: Callable[[], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """As ``_cached``, for the other jobs of this process."""
    name = f"{Path(job.config['outputs']).absolute()} {_comparator_key(job, what)}"
    if name not in _memory:
        _memory[name] = make()
        while sum(a.nbytes for held in _memory.values() for a in held.values()) > _MEMORY_BYTES:
            if len(_memory) == 1:
                return _memory.pop(name)
            _memory.pop(next(iter(_memory)))
    return _memory[name]


def _npz(arrays: Mapping[str, np.ndarray]) -> bytes:
    # Not compressed: curves are noise in all but the first digits, 15 % is all there is to gain.
    buffer = io.BytesIO()
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


def _files(
    config: Mapping[str, Any], result: Mapping[str, Any], curves: Mapping[str, np.ndarray]
) -> dict[str, bytes | str]:
    return {
        "config.yaml": run_folder.config_text(_shown(config)),
        "curves.npz": _npz(curves),
        "results.parquet": _tidy(result),
        "result.json": run_folder.result_text(result),
    }


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
    key = run_folder.measure(result).key
    columns |= {
        "seed": list(result["seeds"]),
        key: list(result[key]),
        "seconds": list(result["seconds_per_seed"]),
        "kernels_per_round": [result["kernels_per_round"]] * n,
        "labels": list(result["labels_per_seed"]),
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


# Files and folders whose text cannot change a number of a run; a new file can, until it is named
# here. ``tests/test_sources.py`` looks which of them a job imports.
CHANGE_NO_NUMBER = {
    "__init__.py": "the version",
    "benchmark/": "other libraries, kept under keys of their own",
    "checks/": "the conformance suite",
    "commands/": "compose configurations, which have keys",
    "experiment/threads.py": "how many threads, and no number depends on that",
    "federated/__init__.py": "a registry",
    "federated/flower.py": "deploys a federation; its results are no run folders",
    "federated/parties.py": "as flower.py",
    "reproduction/": "starts jobs and fills published tables from their runs",
    "report/": "tables and figures of finished runs",
    "runs/folder.py": "reads and writes what was computed",
    "startup.py": "the order of imports",
    "tracking.py": "copies finished runs",
}


@functools.cache
def _sources_digest() -> str:
    digest = hashlib.sha256(jit.fingerprint().encode())
    for path in jit.files_without(CHANGE_NO_NUMBER):
        digest.update(path.relative_to(jit.PACKAGE).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def numbers_stamp(provenance: Mapping[str, Any]) -> str:
    """Twelve hex digits naming the code and the data that a result comes from."""
    text = _sources_digest() + run_folder.key_of({"provenance": _without_prose(provenance)})
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
    return {"processor": _processor(), "cores": cores(), "system": platform.system()}


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
