"""Read run folders, the primary record of every experiment.

``outputs/runs/DATASET/ALGORITHM-KEY-STAMP`` contains the numbers of one configuration, computed by
one version of the code. The folder is written with a temporary name, and renamed when it is
complete. After that it never changes. It contains no absolute path, so it can be moved. Tables,
figures and the MLflow view are made from run folders.

    config.json      the resolved configuration
    result.json      status and all summary numbers (see below)
    predictions.parquet   predictions per row and seed (``omkl.runs.writing``), if there is one
                     seed, or with predictions=true
    model.npz        the learner after the last row (``omkl.online.model_file``), with model=true
    curves.npz       arrays (see below)
    checksums.sha256   the SHA-256 of every file above, in the format of ``sha256sum -c``
    figures/         plots, which can be drawn again from the other files

``outputs/failures`` contains failed runs, each with the name of the run and the time. An
interrupted run leaves no files. ``outputs/replaced`` contains folders that force=true replaced.

Means are over the seeds. A deviation (std) is the sample standard deviation over the seeds, and
null for one seed.

``result.json``
    status            "complete" | "failed"
    key               12 hex digits that identify all settings that affect the folder's content
    stamp             12 hex digits that identify code and data (``omkl.runs.provenance``)
    algorithm, dataset, kernels      names
    n_rounds, n_inputs, n_kernels, D numbers of rounds, inputs, kernels, and features per kernel
    seeds             list of ints, one per repetition
    rows_without_target              number of rows that were predicted but not scored
    missing_cells     {column: number of missing values} for inputs; absent if there are none
    far_out           {column: share of values beyond 4 deviations} for the inputs whose share is at
                      least 0.5 %. Only with stream.scaling=columns (``omkl.core.robust_moments``)
    notices           warnings about rows that make errors misleading, such as a sorted file
    mse, mse_mean, mse_std           mean squared error per seed (list), mean and deviation
    kernels_per_round mean number of evaluated kernels per round
    deterministic     true for learners without random numbers, for which one seed suffices
    target_unit       factor from the scale of the stream, in which mse is, to the target's unit
    rmse, mae, r2     root mean squared error and mean absolute error in the unit of the target, and
                      1 - MSE / variance of the targets (null if all targets are equal); means over
                      the rounds in ``mse_over``
    baselines         {"mean" | "last" | "ridge" | "seasonal": {"rmse", "mae", "mse" (in the scale
                      of the stream)} or {"skipped": reason}}: errors of forecasters without a
                      kernel, which learn every target of the data (``omkl.experiment.metrics``)
    max_squared_error, max_kernel_squared_error
                      largest squared error of a prediction, and of an evaluated kernel (null after
                      an overflow), over rounds and seeds. With stream.scaling=columns the first is
                      in the unit of the target, and the second in the standardised unit in which
                      the learner receives targets (``omkl.datasets.stream``)
    max_norm          largest norm of the inputs x; null for a panel
    mse_over          rounds that are scored: "all rounds", followed by an exception.
                      stream.scaling=columns adds " but the first". Late targets add
                      " but the first 8", which are predicted before any target is known. A panel
                      adds " but the first of each series". Curves begin after these rounds
    labels, labels_per_seed   number of requested targets: mean, and list per seed
    al_efficiency, al_efficiency_std
                      share of requested targets: mean and deviation; 1 if all are requested
    seconds           wall time of streaming all seeds, without compilation
    seconds_per_seed  list of the time that each learner took
    threads           number of parallel threads
    regret            {comparator: {"label": .., "mean": .., "std": ..}}: cumulative squared error
                      of the learner minus cumulative squared error of the comparator, after the
                      last round. A comparator that was not computed has the entry
                      {"label": .., "skipped": reason}. regret is {} for panels, and for
                      learners whose experts are not kernels
    series            only for a panel (``dataset.series``): {"column", "n": number of series,
                      "ranked": number of ranked series, which have ten scored rows if any series
                      has so many, "better_than": {baseline: number of ranked series in which the
                      learner has a smaller error}, "best", "worst": [{"series", "rows", "rmse", and
                      the RMSE of baselines by name}], at most five each, "together": whether one
                      learner learns all series, "by_date": whether all rows of a date are predicted
                      before any of them is learned}
    seasons           lengths, in rows, of the seasons that were given or found; absent if none
    spread            scores of the learner's standard deviations as normal distributions, if it has
                      any: {"log_loss", "coverage_90", "width_90", "interval_score_90"}. Means over
                      the rounds with a standard deviation, in the unit of mse
                      (``omkl.experiment.metrics``)
    interval          scores of the intervals of ``interval=`` (``omkl.core.conformal``): {"level",
                      "rates", "coverage", "width", "interval_score", "windows": {"until": last
                      round of each of up to ten windows, "coverage": null without intervals}}
    params            parameters of the algorithm
    versions, machine, commit   software and hardware
    lock, typed       sha256 of requirements.lock, and the command line; null if absent
    code              16 hex digits that identify the sources of the package
    modules           {module: sha256} for algorithms or kernel families outside the package, if any
    started           ISO time, UTC
    A classification has these entries in place of mse and regret:
    labels_of_classes the classes as in the data, in the order of their codes
    mistakes          number of wrong predictions per seed
    error_rate, error_rate_mean, error_rate_std      mistakes per round: one number per seed (list),
                      mean and deviation
    confusion         (K, K + 1) counts over all seeds: a row per true class, a column per predicted
                      class, and a last column for rows without a predicted class. Absent if K is
                      large
    log_loss          mean negative natural logarithm of the probability of the true class
    brier_score       mean of the sum over the classes k of (p_k - [y = k])^2, from 0 to 2. Both are
                      absent if the learner has no probabilities
    baselines         {"constant" (the most frequent class so far) | "last" | "ridge" (on -1 and
                      +1, one class against the rest): {"error_rate"} or {"skipped": reason}}
    updates_per_kernel   mean number, over seeds and kernels, of rounds in which a kernel's
                      classifier learned
    support_size      mean number of rows in memory
    best_kernel       number of mistakes of the online kernel with the fewest mistakes, mean over
                      the seeds; null if the classifiers of the kernels depend on each other
    A failure has error: {"type", "message", "traceback"}. The traceback is null if the message
    suffices. A number that has overflowed, such as max_norm, is null.

``curves.npz`` (R seeds, P recorded rounds, N kernels)
    t                 (P,) recorded rounds, from 1
    mse               (R, P) mean squared error of rounds 1..t, including targets not requested
    scored            (P,) number of scored rounds among 1..t; only for a regression
    labels            (R, P) number of targets requested in rounds 1..t
    time              (P,) dates of these rounds in days since 1970, if a date is among the inputs
    recent_t, recent_y, recent_y_hat, recent_spread   (up to 120,) the last rounds of the first
                      seed: round, target, prediction and its standard deviation, NaN if unknown
    recent_low, recent_high   ends of the intervals of ``interval=`` in these rounds
    recent_time       dates of these rounds in days since 1970, if a date is among the inputs
    graph             (nodes, M) indices of the kernels that a node of a feedback graph evaluates;
                      only of the first seed
    regret_<name>     (R, P) regret against a comparator after rounds 1..t
    baseline_<name>   (P,) error of a baseline in rounds 1..t; mean over seeds in a classification
    weights           (R, N) expert weights after the last round; each row sums to 1
    weights_t         (G,) rounds after which weights are recorded: at most 32, and the last round
    weights_over_time (G, N) weights after these rounds, means over the seeds
    importance_over_time (G, C) importance of the inputs input_names (C,) after the same rounds. The
                      last column is the importance of past targets. Each row sums to 1, or is NaN
                      as long as importance is unknown. Absent if importance is never known
    usage             (R, N) number of rounds in which each kernel was evaluated
    kernel_family     (N,) "gaussian", "laplacian" or another family of ``omkl.core.kernels``
    kernel_bandwidth  (N,) bandwidths in the family's convention
    change_rounds     (C,) known rounds at which the stream changes
    A classification has these arrays in place of mse:
    error_rate        (R, P) number of mistakes in rounds 1..t, divided by t
    updates           (R, N) number of rounds in which the classifier of each kernel learned
    support           (R, N) number of support vectors of the classifier of each kernel

A sweep has its own folder, which names the runs of its jobs (``jobs_of``):

    sweep.json        number of jobs, and keys with several values
    jobs/NAME.json    number, status and run folder of a job
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
KEPT = ("model", "predictions")  # settings that only decide which files are written


class Measure(NamedTuple):
    """Kind of the main error of a run.

    key     name in result.json and curves.npz
    short   short name, for tables
    long    long name, for figures
    scale   factor by which the error is multiplied when it is printed
    unit    unit in the heading of a table
    """

    key: str
    short: str
    long: str
    scale: float
    unit: str


MSE = Measure("mse", "MSE", "mean squared error", 1.0, "")
ERROR_RATE = Measure("error_rate", "errors", "error rate", 1e2, ", %")


def measure(result: Mapping[str, Any]) -> Measure:
    """Return the kind of a run's error: error rate of a classification, or mean squared error."""
    return ERROR_RATE if result.get("task") == "classification" else MSE


def scaling_of(result: Mapping[str, Any]) -> str | None:
    """Return ``stream.scaling`` of a run, or None if the run has none."""
    found = result.get("stream", {}).get("scaling", {}).get("kind")
    return None if found is None else str(found)


def number_of(value: float | None) -> float:
    """Return a number of result.json. None stands for an overflow and becomes infinity."""
    return math.inf if value is None else value


def seeds_of(result: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the columns of a table with one row per seed."""
    key = measure(result).key
    names = {"seed": "seeds", key: key, "seconds": "seconds_per_seed", "labels": "labels_per_seed"}
    return {column: result[name] for column, name in names.items()}


class UnreadableRunError(ValueError):
    """Raised if a run folder is damaged, or was not written by omkl."""


class Run:
    """Content of a run folder. The checksum of a file is checked when the file is first read.

    Raises
    ------
    UnreadableRunError
        Raised by any attribute if a file is damaged or has no checksum.
    FileNotFoundError
        Raised by any attribute if the folder does not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    @classmethod
    def in_memory(cls, folder: Path, **known: Any) -> Run:
        """Return a run with given ``result``, ``config`` or ``curves`` in place of files."""
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
        except Exception as error:  # a parser can raise any error for a damaged file
            raise UnreadableRunError(f"{name} cannot be read: {error}") from error
        if not isinstance(found, dict):
            raise UnreadableRunError(f"{name} holds a {type(found).__name__}, not a mapping")
        return found

    def bytes_of(self, name: str) -> bytes:
        """Return the content of a file after its checksum was checked."""
        data = (self.folder / name).read_bytes()
        self._compare(name, hashlib.sha256(data).hexdigest())
        return data

    def _compare(self, name: str, sha256: str) -> None:
        if self.checksums.get(name) != sha256:
            raise UnreadableRunError(f"{name} does not match its checksum in {CHECKSUMS}")

    def require_whole(self) -> None:
        """Check the checksums of all files, and parse result, configuration and curves."""
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


MOST_DAMAGED = 5  # number of folders that are named


def _name_damaged(damaged: Sequence[tuple[Path, Exception]]) -> None:
    """Print the names of unreadable folders or files on stderr."""
    for path, error in damaged[:MOST_DAMAGED]:
        why = str(error) if isinstance(error, UnreadableRunError | OSError) else repr(error)
        warn(f"{path} cannot be read and is left out: {why}")
    if len(damaged) > MOST_DAMAGED:
        warn(f"{len(damaged) - MOST_DAMAGED:,} more cannot be read either")


def find(outputs: Path) -> Iterator[Run]:
    """Yield the runs below an outputs folder, sorted by folder.

    If different versions of the code have run the same settings, only the newest run is yielded. A
    failure is yielded only if no run with the same settings has finished. The names of unreadable
    folders are printed on stderr.
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
            except Exception as error:  # damaged, not written by omkl, or moved meanwhile
                if run.folder.exists():
                    damaged.append((run.folder, error))
        found = newest | found
    _name_damaged(damaged)
    yield from sorted(found.values(), key=lambda run: run.folder.parts[-2:])


def config_text(config: Mapping[str, Any]) -> str:
    """Return a configuration as the text of ``config.json``."""
    return json.dumps(config, indent=2, ensure_ascii=False) + "\n"


def result_text(result: Mapping[str, Any]) -> str:
    """Return a result as the text of ``result.json``. Numbers that are not finite become null."""
    finite = {key: _finite(value, key) for key, value in result.items()}
    return json.dumps(finite, indent=2, allow_nan=False) + "\n"


_GIVEN = ("params", "stream")  # keys with settings; all other keys have computed numbers


def _finite(value: Any, key: str) -> Any:
    """Convert a value for result.json. ``key`` is the key of the entry that contains the value.

    A number that is not finite becomes None. In an entry with settings it becomes a text ("inf").
    """
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
    """Return the runs of the finished and failed jobs of a sweep, in the order of the jobs.

    An unreadable run is left out, and its name is printed on stderr.
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
