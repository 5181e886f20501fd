"""One job: from a resolved configuration to a finished run folder."""

from __future__ import annotations

import datetime
import hashlib
import io
import os
import platform
import subprocess
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import omkl
from omkl import algorithms, comparators, jit, kernels, params, results
from omkl.datasets import Stream, open_stream
from omkl.engine import Algorithm, Learner
from omkl.metrics import Recorder, mean_and_deviation
from omkl.results import Run

Progress = Callable[[str, int, int | None, float | None], None]
"""progress(stage, done, total, running MSE): called between blocks."""


class Outcome(NamedTuple):
    """status is "complete", "reused" or "failed"; notes are things that the user should know."""

    run: Run
    status: str
    notes: list[str]


class Job(NamedTuple):
    """Everything that has been checked and built before the first round."""

    config: dict[str, Any]
    stream: Stream
    dictionary: tuple[kernels.Kernel, ...]
    algorithm: Algorithm
    params: Any
    seeds: list[int]


def prepare(config: Mapping[str, Any]) -> Job:
    """Check a configuration against the data, and build what it names.

    Raises ValueError (DataError for data) that names what is wrong and what to do.
    """
    for key, low in (("D", 1), ("seeds", 1), ("seed", 0), ("block", 1)):
        value = config[key]
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            raise ValueError(f"{key}={value!r} is not a whole number of at least {low}")
    threads = config["threads"]
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise ValueError(f"threads={threads!r} is not a whole number of at least 1, or null")
    if config["tracking"] not in ("mlflow", "none"):
        raise ValueError(f"tracking={config['tracking']!r}; there are: mlflow, none")
    lam = config["regret"]["lam"]
    if isinstance(lam, bool) or not isinstance(lam, int | float) or not lam >= 0:
        raise ValueError(f"regret.lam={lam!r} is not a number of at least 0")
    dictionary = kernels.dictionary(config["kernels"])
    given = dict(config["algorithm"])
    algorithm = algorithms.load(given.pop("name"))
    sizes = {"N": len(dictionary), "D": config["D"]}
    # Once before the data are opened: a wrong number should not wait for a large file.
    params.build(algorithm.Params, given, 1, sizes)
    stream = open_stream(config["dataset"], config["stream"], seed=config["seed"])
    built = params.build(algorithm.Params, given, stream.n_rounds, sizes)
    seeds = [config["seed"] + r for r in range(config["seeds"])]
    return Job(dict(config), stream, dictionary, algorithm, built, seeds)


def fit_to_algorithm(config: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The configuration without the parameters that are another algorithm's, and their names.

    In a sweep ``algorithm.M=5,10`` meets learners that have no M; they run without it.
    """
    given = dict(config["algorithm"])
    own = algorithms.load(given["name"]).Params._fields  # type: ignore[attr-defined]
    foreign = [key for key in given if key != "name" and key not in own]
    others = {
        field
        for name in algorithms.names()
        for field in algorithms.load(name).Params._fields  # type: ignore[attr-defined]
    }
    dropped = [key for key in foreign if key in others]
    kept = {key: value for key, value in given.items() if key not in dropped}
    return {**config, "algorithm": kept}, dropped


def folder_of(config: Mapping[str, Any]) -> Path:
    """Where the run of this configuration lives, relative to nothing but ``outputs``."""
    algorithm = str(config["algorithm"]["name"]).replace("/", ".")  # no folder in between
    name = f"{algorithm}-{results.key_of(config)}"
    return Path(config["outputs"]) / "runs" / str(config["dataset"]["name"]) / name


def run(config: Mapping[str, Any], progress: Progress | None = None) -> Outcome:
    """Run one job, or find it finished. Failures are written down, not raised.

    KeyboardInterrupt passes through and leaves the folder without a result.
    """
    folder = folder_of(config)
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    identity = {
        "key": results.key_of(config),
        "algorithm": config["algorithm"]["name"],
        "dataset": config["dataset"]["name"],
        "kernels": config["kernels"].get("name", "own"),
        "params": {k: v for k, v in config["algorithm"].items() if k != "name"},
        "started": started,
        "versions": versions(),
        "machine": machine(),
        "commit": commit(),
    }
    try:
        job = prepare(config)
        numbers = numbers_stamp(job.stream.provenance)
        earlier = Run(folder)
        notes: list[str] = []
        if (folder / "result.json").exists() and not config["force"]:
            if earlier.complete and earlier.result.get("numbers") == numbers:
                return Outcome(earlier, "reused", [])
            if earlier.complete:
                notes.append(f"{folder.name} was computed by other code or data: computed anew")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "result.json").unlink(missing_ok=True)
        tracker = _prepare_tracking(config)
        result, curves = compute(job, progress)
        result = {"status": "complete"} | identity | {"numbers": numbers} | result
        _write(folder, config, result, curves)
        if config["figures"]:
            from omkl.report import figures

            if progress:
                progress("figures", 0, None, None)
            figures.all_figures(_with(folder, result, curves))
        results.write_result(folder, result)
        finished = Run(folder)
        notes += _track(config, folder, tracker, progress)
        return Outcome(finished, "complete", notes)
    except Exception as error:
        failure = {
            "type": type(error).__name__,
            "message": str(error),
            "traceback": traceback.format_exc(),
        }
        failed = {"status": "failed"} | identity | {"error": failure}
        return Outcome(_write_failure(folder, config, failed), "failed", [])


def compute(
    job: Job, progress: Progress | None = None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Stream every seed through its learner: the numbers of result.json and curves.npz."""
    config, stream = job.config, job.stream
    n_threads = config["threads"] or default_threads()
    learners = [
        Learner(job.algorithm, job.params, job.dictionary, stream.n_inputs, config["D"], seed)
        for seed in job.seeds
    ]
    _compile(job)
    recorder = Recorder(len(learners))
    seconds = np.zeros(len(learners))
    labels = np.zeros(len(learners), dtype=np.int64)

    def one(r: int, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        before = time.perf_counter()
        trace = learners[r].partial_fit(X, y)
        labels[r] += np.count_nonzero(trace.asked)
        seconds[r] += time.perf_counter() - before
        return np.square(trace.y_hat - y)

    clock = time.perf_counter()
    with ThreadPoolExecutor(min(n_threads, len(learners))) as pool:
        for X, y in stream.blocks(config["block"]):
            errors = list(pool.map(lambda r: one(r, X, y), range(len(learners))))  # noqa: B023
            recorder.add(np.stack(errors))
            if progress:
                so_far = float(recorder.total.mean() / recorder.n_rounds)
                progress("rounds", recorder.n_rounds, stream.n_rounds, so_far)
    elapsed = time.perf_counter() - clock
    T = recorder.n_rounds
    if not np.all(np.isfinite(recorder.total)):
        bad = [s for s, total in zip(job.seeds, recorder.total, strict=True) if not total < np.inf]
        raise FloatingPointError(
            f"the predictions of seeds {bad} are no longer finite: the step sizes are too large "
            "for this stream (importance weights divide them by small probabilities)"
        )
    rounds, sums = recorder.curve()
    mse = recorder.total / T
    mean, deviation = mean_and_deviation(mse)
    used = np.stack([learner.used for learner in learners])
    regret, regret_curves = _regret(job, learners, rounds, sums, progress)
    result = {
        "n_rounds": T,
        "n_inputs": stream.n_inputs,
        "n_kernels": len(job.dictionary),
        "D": config["D"],
        "seeds": job.seeds,
        "mse_mean": mean,
        "mse_std": deviation,
        "mse": mse.tolist(),
        "kernels_per_round": float(used.sum() / (T * len(learners))),
        "labels": float(labels.mean()),
        "seconds": elapsed,
        "seconds_per_seed": seconds.tolist(),
        "threads": n_threads,
        "regret": regret,
        "stream": stream.provenance,
    }
    curves = {
        "t": rounds,
        "mse": sums / rounds,
        "weights": np.stack([_weights(learner) for learner in learners]),
        "usage": used,
        "kernel_family": np.array([k.family for k in job.dictionary]),
        "kernel_bandwidth": np.array([k.bandwidth for k in job.dictionary]),
        "change_rounds": np.array(stream.change_rounds, dtype=np.int64),
    }
    return result, curves | regret_curves


def _weights(learner: Learner) -> np.ndarray:
    from omkl.weights import normalised

    return normalised(learner.state.log_w)


def _compile(job: Job) -> None:
    """Compile, or load what was compiled, on two rows before the clock starts."""
    d, D = job.stream.n_inputs, job.config["D"]
    Learner(job.algorithm, job.params, job.dictionary, d, D, 0).partial_fit(
        np.zeros((2, d)), np.zeros(2)
    )


def _regret(
    job: Job,
    learners: Sequence[Learner],
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
        N, _, D = learners[0].state.model.omega.shape
        megabytes = N * (2 * D) ** 2 * 8 // 2**20
        reason = None
        if T > settings["max_rounds"]:
            reason = f"{T} rounds are more than regret.max_rounds={settings['max_rounds']}"
        elif megabytes > 4096:
            reason = f"the normal equations of {N} kernels with D={D} take {megabytes} MiB"
        if reason:
            entries["ridge_features"] = {"label": label, "skipped": reason}
        else:
            sums_of, best = _ridge_features(job, learners, progress)
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


def _ridge_features(
    job: Job, learners: Sequence[Learner], progress: Progress | None
) -> tuple[np.ndarray, list[str]]:
    """Cumulative squared errors (R, P) of each seed's comparator, and the kernels chosen."""
    stream, size = job.stream, 1024
    n_threads = job.config["threads"] or default_threads()

    def find(r: int) -> dict[str, np.ndarray]:
        omega = learners[r].state.model.omega

        def fit() -> dict[str, np.ndarray]:
            index, theta = comparators.ridge_features(
                omega, lambda: stream.blocks(size), job.config["regret"]["lam"]
            )
            return {"best": np.array(index), "theta": theta}

        return _cached(job, f"ridge_features-{job.seeds[r]}", fit)

    thetas, best = [], []
    with comparators.one_thread_each(), ThreadPoolExecutor(n_threads) as pool:
        for r, found in enumerate(pool.map(find, range(len(learners)))):
            thetas.append(found["theta"])
            best.append(int(found["best"]))
            if progress:
                progress("comparator", r + 1, len(learners), None)
    recorder = Recorder(len(learners))
    for X, y in stream.blocks(size):
        recorder.add(
            np.stack(
                [
                    comparators.squared_errors(learner.state.model.omega[i], theta, X, y)
                    for learner, i, theta in zip(learners, best, thetas, strict=True)
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
        "stream": job.stream.provenance,
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


def _with(folder: Path, result: dict[str, Any], curves: dict[str, np.ndarray]) -> Run:
    run = Run(folder)
    run.__dict__.update(result=result, curves=curves)
    return run


def _write_config(folder: Path, config: Mapping[str, Any]) -> None:
    from omegaconf import OmegaConf

    # Where results go and how they are shown is no part of the run: the folder can move.
    shown = {k: v for k, v in config.items() if k not in ("outputs", "force", "fail_fast")}
    results.write_atomically(folder / "config.yaml", OmegaConf.to_yaml(OmegaConf.create(shown)))


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


def _write_failure(folder: Path, config: Mapping[str, Any], failed: dict[str, Any]) -> Run:
    """Write a failure down; a finished result of the same folder is never overwritten by it."""
    run = Run(folder)
    run.__dict__.update(result=failed)
    try:
        if (folder / "result.json").exists() and Run(folder).complete:
            return run
        folder.mkdir(parents=True, exist_ok=True)
        _write_config(folder, config)
        results.write_result(folder, failed)
    except OSError as error:  # no disk: the failure can still be shown
        failed["error"]["message"] += f" (and {folder} cannot be written: {error.strerror})"
    return run


def _prepare_tracking(config: Mapping[str, Any]) -> threading.Thread | None:
    """Import MLflow and open its database while the rounds are running: they hold no lock."""
    if config["tracking"] != "mlflow":
        return None
    from omkl import tracking

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
) -> list[str]:
    if thread is None:
        return []
    from omkl import tracking

    if progress:
        progress("tracking", 0, None, None)
    thread.join()
    try:
        tracking.log_run(folder, Path(config["outputs"]))
    except tracking.TrackingError as error:
        return [str(error)]
    return []


def default_threads() -> int:
    """Cores that this process may use; one a job under a launcher that says so."""
    for name in ("OMKL_THREADS", "SLURM_CPUS_PER_TASK"):
        if os.environ.get(name, "").isdigit():
            return max(1, int(os.environ[name]))
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _sources_digest() -> str:
    digest = hashlib.sha256(jit.fingerprint().encode())
    names = ["kernels", "graphs", "params", "comparators", "metrics", "runner"]
    files = [jit.PACKAGE / f"{n}.py" for n in names] + sorted(jit.PACKAGE.glob("datasets/*.py"))
    for path in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def numbers_stamp(provenance: Mapping[str, Any]) -> str:
    """Twelve hex digits naming the code and the data that a result comes from."""
    text = _sources_digest() + results.key_of({"provenance": provenance})
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def versions() -> dict[str, str]:
    from importlib.metadata import version

    names = ("numpy", "numba", "scipy", "hydra-core", "mlflow")
    return {
        "omkl": omkl.__version__,
        "python": platform.python_version(),
        **{name: version(name) for name in names},
    }


def machine() -> dict[str, Any]:
    return {"processor": _processor(), "cores": default_threads(), "system": platform.system()}


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
        return next(x.split(":", 1)[1].strip() for x in text.splitlines() if "model name" in x)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


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
