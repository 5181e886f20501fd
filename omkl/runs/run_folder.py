"""Run folders, the primary record of every experiment.

``outputs/runs/DATASET/ALGORITHM-KEY-STAMP`` has the numbers of one configuration, computed by one
version of the code. It is written under a temporary name, renamed when complete, and never changed
after that. It contains no absolute path, so it can be moved. Tables, figures and the MLflow view
are made from it.

    config.json      the resolved configuration
    result.json      status and every summary number (see below)
    predictions.parquet   one row per row and seed (``omkl.runs.writing``); with one seed, or
                     with predictions=true
    model.npz        the learner after the last row (``omkl.online.model_file``), with model=true
    curves.npz       arrays (see below)
    checksums.sha256   the SHA-256 of every file above, in the format of ``sha256sum -c``
    figures/         plots; they can be made again from the other files

``outputs/failures`` has the failures, each under the name of its run and the time. An interrupted
run leaves no files. ``outputs/replaced`` has the folders that force=true replaced.

``result.json``
    status            "complete" | "failed"
    key               12 hex digits that identify the settings on which the folder's content depends
    stamp             12 hex digits that identify code and data (``omkl.runs.provenance``)
    algorithm, dataset, kernels      names, as typed
    n_rounds, n_inputs, n_kernels, D
    seeds             list of ints, one per repetition
    rows_without_target              rows of a regression that were predicted but not scored
    missing_cells     {column: missing cells}, of inputs; absent if no cell is missing
    far_out           {column: share of values beyond 4 deviations}, of inputs with a share of at
                      least 0.5 %; with stream.scaling=columns (``omkl.core.robust_moments``)
    notices           warnings about rows with misleading errors, such as a sorted file
    mse, mse_mean, mse_std           per seed (list); mean and sample standard
                                     deviation over the seeds (std is null for one seed)
    kernels_per_round mean number of evaluated kernels per round
    deterministic     true for exact-kernel learners: they draw nothing, so one seed suffices
    target_unit       units of the target per unit of the stream's scale; mse is in that scale
    rmse, mae, r2     root mean squared and mean absolute error in units of the target, and 1 -
                      MSE / variance of the targets (null if all targets are equal): means over
                      the seeds, over the rounds in ``mse_over``
    baselines         {"mean" | "last" | "ridge": {"rmse", "mae", "mse" (in the scale of the
                      stream)} or {"skipped": reason}}: errors of forecasters without a kernel,
                      which learn every target of the data (``omkl.experiment.metrics``)
    max_squared_error, max_kernel_squared_error, max_norm
                      largest squared error of a prediction and of an evaluated kernel (null on
                      overflow), over rounds and seeds; largest norm of x (null of a panel). With
                      stream.scaling=columns mse and squared errors are in the target's units, but
                      the kernel's error in the units in which the learner receives targets
                      (``omkl.datasets.stream``)
    mse_over          rounds that count in mse: "all rounds", with an exception after it.
                      stream.scaling=columns adds " but the first", late targets
                      " but the first 8" (those predicted before any target was known), a panel
                      " but the first of each series". Curves begin after these rounds
    labels, labels_per_seed   requested targets: mean over the seeds, list
    al_efficiency, al_efficiency_std
                      share of requested targets: mean and sample standard deviation over the
                      seeds; 1 if the learner requests every target
    seconds           wall time of streaming all seeds, without compilation
    seconds_per_seed  list: time inside the learner, summed over blocks
    threads           number of parallel threads
    regret            {comparator: {"label": .., "mean": .., "std": ..}} cumulative squared
                      error minus the comparator's at the last round; or
                      {comparator: {"label": .., "skipped": reason}}; {} for learners whose
                      experts are not kernels, and for panels
    series            of a panel (``dataset.series``), else absent: {"column", "n", "ranked": number
                      of series with ten scored rows, or of all, "better_than": {baseline: number of
                      ranked series with a smaller error than it}, "best", "worst": [{"series",
                      "rows", "rmse", and the RMSE of baselines by name}], at most five each,
                      "together": whether one learner learns all series, "by_date": whether all rows
                      of a date are predicted before one of them is learned}
    seasons           lengths, in rows, of the seasons of auto, given or found; absent if none
    spread            scores of the learner's standard deviations, as normal distributions, else
                      absent: {"log_loss", "coverage_90", "width_90", "interval_score_90"}, means
                      over the seeds and the rounds with a standard deviation, in the unit of mse
                      (``omkl.experiment.metrics``)
    interval          scores of requested intervals (``omkl.core.conformal``): {"level", "rates",
                      "coverage", "width", "interval_score", "windows": {"until": last rounds,
                      "coverage"}}, of up to ten windows, null if no interval is known
    params            the algorithm's parameters
    versions, machine, commit   software and hardware
    lock, typed       sha256 of requirements.lock, and the command line; null if absent
    code              16 hex digits that identify the package's sources
    modules           {module: sha256} of an algorithm or families outside; else absent
    started           ISO time, UTC
    A classification has, in place of mse and regret,
    labels_of_classes the classes as in the data: those with code -1 and +1, or all
    mistakes          number of wrong predictions per seed
    error_rate, error_rate_mean, error_rate_std      mistakes per round, as for mse
    confusion         (K, K + 1) counts over all seeds, as lists: true classes, predicted classes,
                      and in the last column rows without a predicted class; absent if K is large
    log_loss, brier_score   of learners with probabilities: means over rounds and seeds, in nats,
                      and of the sum over classes of (p_k - [y = k])^2, 0 to 2
    baselines         {"constant" (the most frequent class so far) | "last" | "ridge" (on -1 and
                      +1, one class against the rest): {"error_rate"} or {"skipped": reason}}
    updates_per_kernel, support_size                 rounds in which a kernel's classifier
                      learned, and rows stored for all of them; means over seeds and kernels
    best_kernel       mistakes of the best online kernel, mean over the seeds; null if the
                      classifiers depend on each other
    error             {"type", "message", "traceback"} of a failure; traceback is null if the
                      message suffices
    A summary that has overflowed (max_norm, for example) is null.

``curves.npz`` (R seeds, P recorded rounds, N kernels)
    t                 (P,) recorded rounds, 1-based
    mse               (R, P) mean squared error of rounds 1..t, including targets not requested
    scored            (P,) of a regression: rounds among 1..t that count in ``mse``
    labels            (R, P) targets requested in rounds 1..t
    time              (P,) days since 1970 at these rounds, if a date is among the inputs
    recent_t, recent_y, recent_y_hat, recent_spread   (up to 120,) the last rounds of the first
                      seed: target, prediction and its standard deviation, NaN if unknown; and
                      recent_low, recent_high, the ends of the interval of ``interval``; and
                      recent_time, days since 1970, if a date is among the inputs
    graph             (nodes, M) kernels that each node of a feedback graph evaluates, first seed
    regret_<name>     (R, P) cumulative squared error minus the comparator's
    baseline_<name>   (P,) error of a baseline in rounds 1..t; in classification the seeds' mean
    weights           (R, N) expert weights after the last round, rows sum to 1
    weights_over_time (G, N) weights after rounds weights_t (G,), up to 32 and the last; the seeds'
                      mean
    importance_over_time (G, C) importance, after the same rounds, of the inputs input_names (C,)
                      with past targets as the last one; rows sum to 1; NaN while unknown, absent
                      if never known
    usage             (R, N) rounds in which the kernel was evaluated
    kernel_family     (N,) "gaussian", "laplacian" or another of ``omkl.core.kernels``
    kernel_bandwidth  (N,) bandwidths in the family's convention
    change_rounds     (C,) known rounds at which the stream changes
    A classification has error_rate (R, P), mistakes of rounds 1..t divided by t, in place of mse;
    and updates, support (R, N), the rounds in which a kernel's classifier learned, and its number
    of support vectors.

A sweep has its own folder, which names the runs of its jobs (``jobs_of``)

    sweep.json        the swept settings, and an identifier of this start of the sweep
    jobs/NAME.json    of each job: number, status, and path of its run folder
    table.md, table.csv, page.html, plots
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl.utils.disk import sha256_of
from omkl.utils.wording import plain, warn

RESULT, CONFIG, CURVES, CHECKSUMS = "result.json", "config.json", "curves.npz", "checksums.sha256"
FIGURES = "figures"
KEPT = ("model", "predictions")  # settings that decide which files exist, and change no number


class Measure(NamedTuple):
    """Main error of a run: key in result.json and curves.npz, names, scale and unit.

    A mean squared error is printed unscaled, so that runs on many data sets have one scale in a
    list.
    """

    key: str
    short: str
    long: str
    scale: float
    unit: str


MSE = Measure("mse", "MSE", "mean squared error", 1.0, "")
ERROR_RATE = Measure("error_rate", "errors", "error rate", 1e2, ", %")


def measure(result: Mapping[str, Any]) -> Measure:
    """Return the measure of a run: mean squared error, or error rate for a classification."""
    return ERROR_RATE if result.get("task") == "classification" else MSE


def scaling_of(result: Mapping[str, Any]) -> str | None:
    """Return ``stream.scaling`` of a run, or None if the run has none."""
    found = result.get("stream", {}).get("scaling", {}).get("kind")
    return None if found is None else str(found)


def number_of(value: float | None) -> float:
    """Return a summary number of result.json, in which null stands for infinity."""
    return math.inf if value is None else value


def seeds_of(result: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the columns of a table with one row per seed."""
    key = measure(result).key
    names = {"seed": "seeds", key: key, "seconds": "seconds_per_seed", "labels": "labels_per_seed"}
    return {column: result[name] for column, name in names.items()}


class UnreadableRunError(ValueError):
    """Error: a run folder is damaged, or something else wrote it."""


class Run:
    """Run folder. Every file is compared with its checksum when it is first read.

    Raises
    ------
    UnreadableRunError
        Any attribute: a file is damaged or has no checksum.
    FileNotFoundError
        There is no such folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    @classmethod
    def in_memory(cls, folder: Path, **known: Any) -> Run:
        """Return a run with given ``result``, ``config`` or ``curves``, which are then not read."""
        run = cls(folder)
        run.__dict__.update(known)
        return run

    def __repr__(self) -> str:
        return f"Run({self.folder.as_posix()!r})"

    @cached_property
    def checksums(self) -> dict[str, str]:
        """SHA-256 of each file by name."""
        for path in self.folder.rglob("*"):
            if path.is_symlink():  # it could expose a file outside the folder
                raise UnreadableRunError(f"{path.name} is a symbolic link, which no run writes")
        lines = (self.folder / CHECKSUMS).read_text(encoding="utf-8").splitlines()
        return {line[66:]: line[:64] for line in lines}

    @cached_property
    def result(self) -> dict[str, Any]:
        """Content of ``result.json``, with the control characters of its texts escaped."""
        return self._mapping(RESULT, lambda data: plain_texts(json.loads(data)))

    @cached_property
    def config(self) -> dict[str, Any]:
        return self._mapping(CONFIG, json.loads)

    @cached_property
    def curves(self) -> dict[str, np.ndarray]:
        def load(data: bytes) -> dict[str, np.ndarray]:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}

        return self._mapping(CURVES, load)

    def _mapping(self, name: str, parse: Callable[[bytes], Any]) -> dict[str, Any]:
        data = self.bytes_of(name)
        try:
            found = parse(data)
        except Exception as error:  # a parser can raise anything on a foreign file
            raise UnreadableRunError(f"{name} cannot be read: {error}") from error
        if not isinstance(found, dict):
            raise UnreadableRunError(f"{name} holds a {type(found).__name__}, not a mapping")
        return found

    def bytes_of(self, name: str) -> bytes:
        """Return the content of a file, compared with its checksum."""
        data = (self.folder / name).read_bytes()
        self._compare(name, hashlib.sha256(data).hexdigest())
        return data

    def _compare(self, name: str, sha256: str) -> None:
        if self.checksums.get(name) != sha256:
            raise UnreadableRunError(f"{name} does not match its checksum in {CHECKSUMS}")

    def require_whole(self) -> None:
        """Compare every file with its checksum, and parse the files of reports."""
        for name in self.checksums:
            self._compare(name, sha256_of(self.folder / name))
        _ = self.result, self.config, self.curves

    @property
    def complete(self) -> bool:
        return self.result["status"] == "complete"


def plain_texts(value: Any) -> Any:
    """Return the value with the control characters of its texts and keys escaped."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {plain(str(key)): plain_texts(item) for key, item in value.items()}
    return [plain_texts(item) for item in value] if isinstance(value, list) else value


MOST_DAMAGED = 5  # folders named in the message


def _name_damaged(damaged: Sequence[tuple[Path, Exception]]) -> None:
    """Name on stderr the folders or files that cannot be read."""
    for path, error in damaged[:MOST_DAMAGED]:
        why = str(error) if isinstance(error, UnreadableRunError | OSError) else repr(error)
        warn(f"{path} cannot be read and is left out: {why}")
    if len(damaged) > MOST_DAMAGED:
        warn(f"{len(damaged) - MOST_DAMAGED:,} more cannot be read either")


def find(outputs: Path) -> Iterator[Run]:
    """Yield the runs below an outputs folder, sorted by folder.

    Of several runs with the same settings by different code, only the newest is yielded. A failure
    is yielded only if no run with its settings has finished. Unreadable folders are named on
    stderr.
    """
    found: dict[Any, Run] = {}
    damaged = []
    for place in ("runs", "failures"):
        newest: dict[Any, Run] = {}
        for path in sorted((Path(outputs) / place).glob(f"*/*/{RESULT}")):
            run = Run(path.parent)
            try:
                result = run.result
                name = result["dataset"], result["algorithm"], result["key"]
                if name in newest and newest[name].result["started"] > result["started"]:
                    continue
                _ = run.config
                newest[name] = run
            except Exception as error:  # damaged, foreign, or being moved
                if run.folder.exists():
                    damaged.append((run.folder, error))
        found = newest | found
    _name_damaged(damaged)
    yield from sorted(found.values(), key=lambda run: run.folder.parts[-2:])


def config_text(config: Mapping[str, Any]) -> str:
    """Return ``config`` as the text of ``config.json``."""
    return json.dumps(config, indent=2, ensure_ascii=False) + "\n"


def result_text(result: Mapping[str, Any]) -> str:
    """Return ``result`` as the text of ``result.json``. Overflowed numbers become null."""
    finite = {key: _finite(value, key) for key, value in result.items()}
    return json.dumps(finite, indent=2, allow_nan=False) + "\n"


# Keys of settings. All other keys hold computed numbers.
_GIVEN = ("params", "stream")


def _finite(value: Any, key: str) -> Any:
    """Convert a value of result.json: overflowed numbers to None, infinite settings to "inf"."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {k: _finite(v, key) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v, key) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value) if key in _GIVEN else None
    return value


def sweep_folders(outputs: Path) -> list[Path]:
    """Return the folders of the sweeps in ``outputs``, the earliest first."""
    return sorted(path.parent for path in (outputs / "sweeps").glob("*/sweep.json"))


def jobs_of(sweep: Path) -> list[Run]:
    """Return the runs of the finished or failed jobs of a sweep, in the order of the jobs.

    An unreadable run is named on stderr and omitted.
    """
    jobs, damaged = [], []
    for path in sorted(sweep.glob("jobs/*.json")):
        try:
            fact = json.loads(path.read_text(encoding="utf-8"))
            run = _run_of_job(fact, path)
            _ = run.complete, run.config
            jobs.append((int(fact["number"]), path, run))
        except Exception as error:
            damaged.append((path, error))
    _name_damaged(damaged)
    return [run for _, _, run in sorted(jobs, key=lambda one: one[:2])]


def _run_of_job(fact: Mapping[str, Any], path: Path) -> Run:
    if fact["status"] == "failed":  # the folder may belong to an earlier failure
        known = {name: plain_texts(fact[name]) for name in ("result", "config")}
        return Run.in_memory(path, **known)
    return Run(Path(os.path.normpath(path.parent / fact["folder"])))
