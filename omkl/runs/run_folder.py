"""Run folders: the truth about every experiment.

``outputs/runs/DATASET/ALGORITHM-KEY-STAMP`` has the numbers of one configuration, computed by one
state of the code. It is renamed into place when all of it is written, and never changed after that.
It can be moved: nothing in it holds an absolute path. Tables, figures and the MLflow view are made
from it.

    config.json      the resolved configuration
    result.json      status and every summary number (see below)
    predictions.parquet   one row per row and seed (``omkl.runs.writing``); with one seed, or
                     where predictions=true asks for it
    model.npz        the learner after the last row (``omkl.online.model_file``), with model=true
    curves.npz       arrays (see below)
    checksums.sha256   the SHA-256 of every file above, as ``sha256sum -c`` reads them
    figures/         plots; made from the other files, so deleting them loses nothing

``outputs/failures`` has the failures, each under the name of its run and the time. A run that was
interrupted leaves nothing. ``outputs/replaced`` has the folders that force=true computed again.

``result.json``
    status            "complete" | "failed"
    key               12 hex digits that name the settings which decide what the folder holds
    stamp             12 hex digits that name the code and the data (``omkl.runs.provenance``)
    algorithm, dataset, kernels      names, as typed
    n_rounds, n_inputs, n_kernels, D
    seeds             list of ints, one a repetition
    rows_without_target              rows that were predicted and not scored, in a regression
    missing_cells     {column: cells without a value}, of inputs; absent where none is missing
    far_out           {column: share of its values beyond 4 deviations}, of inputs, where at least
                      0.5 % are; with stream.scaling=columns (``omkl.core.robust_moments``)
    notices           sentences about rows whose errors mislead, as by their order
    mse, mse_mean, mse_std           per seed (list); mean and sample standard
                                     deviation over the seeds (std is null for one seed)
    kernels_per_round mean number of kernels evaluated in a round
    deterministic     true for exact-kernel learners: nothing is drawn, one seed says all
    target_unit       how much of the target is 1 in the scale of the stream, in which mse is
    rmse, mae, r2     root mean squared and mean absolute error in units of the target, and 1 -
                      MSE over the variance of the labels (null where they are all the same):
                      means over the seeds, over the rounds that ``mse_over`` names
    baselines         {"mean" | "last" | "ridge": {"rmse", "mae", "mse" (in the scale of the
                      stream)} or {"skipped": reason}}: what forecasters without a kernel make of
                      every label that the data have (``omkl.experiment.metrics``)
    max_squared_error, max_kernel_squared_error, max_norm
                      largest squared error of a prediction and of a single evaluated
                      kernel (null where it has overflowed), over rounds and seeds; largest
                      norm of x (null of a panel). With stream.scaling=columns mse and all
                      squared errors are in the target's units, but a kernel's in those that the
                      learner is told labels in (``omkl.datasets.stream``)
    mse_over          "all rounds". With stream.scaling=columns " but the first" follows: it
                      counts for nobody, and curves begin with the second round. With targets
                      that come late it is " but the first 8", as many as knew of no target;
                      of a panel " but the first of each series"
    labels, labels_per_seed   asked for: mean over the seeds, list
    al_efficiency, al_efficiency_std
                      labels over rounds: mean and sample standard deviation over the seeds;
                      1 for a learner that asks always
    seconds           wall time of streaming all seeds, without compilation
    seconds_per_seed  list: time inside the learner, summed over blocks
    threads           how many worked at once
    regret            {comparator: {"label": .., "mean": .., "std": ..}} cumulative squared
                      error above the comparator's at the last round; or
                      {comparator: {"label": .., "skipped": reason}}; {} where what the
                      learner weighs are no kernels, and of a panel
    series            of a panel (``dataset.series``): {"column", "n", "ranked": those with ten
                      scored rows, or all, "better_than": {baseline: on how many of
                      these}, "best", "worst": [{"series", "rows", "rmse", and the RMSE of
                      baselines by name}]}, at most five each, "together": whether one learner
                      learns all series, "by_date": whether rows of a date are predicted before one
                      of them is learned; else absent
    seasons           rows of each season of auto, given or found; absent without one
    spread            of a learner whose predictions have one, scored as normal distributions:
                      {"log_loss", "coverage_90", "width_90", "interval_score_90"}, means over
                      seeds and the rounds whose spread is known, in the unit of mse; else absent
                      (``omkl.experiment.metrics``)
    interval          of intervals that were requested (``omkl.core.conformal``): {"level",
                      "rates", "coverage", "width", "interval_score", "windows": {"until": last
                      rounds, "coverage"}}, of up to ten windows, null where no interval is known
    params            the algorithm's parameters
    versions, machine, commit   what computed it
    lock, typed       sha256 of requirements.lock, and the command line; null where there is none
    code              16 hex digits that name the package's sources
    modules           {module: sha256} of an algorithm or families outside; else absent
    started           ISO time, UTC
    In classification there are, in place of mse and regret,
    labels_of_classes what stands in the data for -1 and +1, or for each class
    mistakes          per seed, rounds whose class was not predicted
    error_rate, error_rate_mean, error_rate_std      mistakes a round, as for mse
    confusion         (K, K + 1) counts over all seeds, as lists: classes of the rows, predicted
                      classes, and last rows of which nothing was said; absent of many classes
    log_loss, brier_score   of learners with probabilities: means over rounds and seeds, in nats;
                      and of the sum over classes of (p_k - [y = k])^2, 0 to 2
    baselines         {"constant" (the most frequent class so far) | "last" | "ridge" (on -1 and
                      +1, one class against the rest): {"error_rate"} or {"skipped": reason}}
    updates_per_kernel, support_size                 rounds in which a kernel's classifier
                      learned, and rows kept for all of them; means over seeds and kernels
    best_kernel       mistakes of the best online kernel, mean over the seeds,
                      where the classifiers do not depend on each other; else null
    error             {"type", "message", "traceback"} when failed; the traceback is null
                      where the message says all
    A summary that has overflowed (max_norm, say) is null.

``curves.npz`` (R seeds, P recorded rounds, N kernels)
    t                 (P,) rounds that are recorded, 1-based
    mse               (R, P) mean squared error of rounds 1..t, with or without a label
    scored            (P,) of a regression: rounds that count in ``mse`` among rounds 1..t
    labels            (R, P) labels asked for in rounds 1..t
    time              (P,) days since 1970 at these rounds, where a date is among the inputs
    recent_t, recent_y, recent_y_hat, recent_spread   (up to 120,) the last rounds of the first
                      seed: label, prediction and its spread, NaN where it is not known; and
                      recent_low, recent_high, the ends of the interval of ``interval``; and
                      recent_time, days since 1970, where a date is among the inputs
    graph             (nodes, M) kernels that each node of a feedback graph sees, first seed
    regret_<name>     (R, P) cumulative squared error minus the comparator's
    baseline_<name>   (P,) error of a baseline in rounds 1..t; in classification seeds' mean
    weights           (R, N) expert weights after the last round, rows sum to 1
    weights_over_time (G, N) after rounds weights_t (G,), up to 32 and the last; seeds' mean
    importance_over_time (G, C) after the same rounds of the inputs input_names (C,), past targets
                      as the last, rows sum to 1; NaN before it is known, absent where it never is
    usage             (R, N) rounds in which the kernel was evaluated
    kernel_family     (N,) "gaussian", "laplacian" or another of ``omkl.core.kernels``
    kernel_bandwidth  (N,) bandwidths in the family's convention
    change_rounds     (C,) rounds at which the stream is known to change
    In classification error_rate (R, P), mistakes of rounds 1..t divided by t, in place of
    mse; updates, support (R, N), rounds in which a kernel's classifier learned and support
    vectors that it holds

A sweep has a folder of its own, which names the runs of its jobs (``jobs_of``)

    sweep.json        what is swept, and the start that it is of
    jobs/NAME.json    of each job: its number, its status, where its run folder is
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
KEPT = ("model", "predictions")  # settings that decide which files there are, and no number


class Measure(NamedTuple):
    """Measure of a run: key in result.json and curves.npz, names, scale and unit.

    A mean squared error is printed unscaled, so that runs of many data sets in a list have one
    scale.
    """

    key: str
    short: str
    long: str
    scale: float
    unit: str


MSE = Measure("mse", "MSE", "mean squared error", 1.0, "")
ERROR_RATE = Measure("error_rate", "errors", "error rate", 1e2, ", %")


def measure(result: Mapping[str, Any]) -> Measure:
    """Return the mean squared error of a regression, or the error rate of a classification."""
    return ERROR_RATE if result.get("task") == "classification" else MSE


def scaling_of(result: Mapping[str, Any]) -> str | None:
    """Return ``stream.scaling`` of a run, or None if the run has none."""
    found = result.get("stream", {}).get("scaling", {}).get("kind")
    return None if found is None else str(found)


def number_of(value: float | None) -> float:
    """Return a summary of result.json, where null stands for infinity."""
    return math.inf if value is None else value


def seeds_of(result: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the columns of a table with one row per seed."""
    key = measure(result).key
    names = {"seed": "seeds", key: key, "seconds": "seconds_per_seed", "labels": "labels_per_seed"}
    return {column: result[name] for column, name in names.items()}


class UnreadableRunError(ValueError):
    """A run folder is damaged, or something else wrote it."""


class Run:
    """One run folder. Every file is compared with its checksum when it is first read.

    Raises
    ------
    UnreadableRunError
        By every attribute, where a file is damaged or has no checksum.
    FileNotFoundError
        Where there is no such folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    @classmethod
    def in_memory(cls, folder: Path, **known: Any) -> Run:
        """Return a run whose ``result``, ``config`` or ``curves`` are given, and not read."""
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


MOST_DAMAGED = 5  # folders that are named


def _name_damaged(damaged: Sequence[tuple[Path, Exception]]) -> None:
    """Name on stderr the folders or files that cannot be read and are left out."""
    for path, error in damaged[:MOST_DAMAGED]:
        why = str(error) if isinstance(error, UnreadableRunError | OSError) else repr(error)
        warn(f"{path} cannot be read and is left out: {why}")
    if len(damaged) > MOST_DAMAGED:
        warn(f"{len(damaged) - MOST_DAMAGED:,} more cannot be read either")


def find(outputs: Path) -> Iterator[Run]:
    """Yield the runs below an outputs folder, sorted by folder.

    Among runs with the same settings, by different code, only the newest is found. A failure is
    found if no run with its settings has finished. Unreadable folders are named on stderr.
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
            except Exception as error:  # damaged, foreign, or moved at this moment
                if run.folder.exists():
                    damaged.append((run.folder, error))
        found = newest | found
    _name_damaged(damaged)
    yield from sorted(found.values(), key=lambda run: run.folder.parts[-2:])


def config_text(config: Mapping[str, Any]) -> str:
    """Return the text of ``config.json``."""
    return json.dumps(config, indent=2, ensure_ascii=False) + "\n"


def result_text(result: Mapping[str, Any]) -> str:
    """Return the text of ``result.json``; overflowed numbers are null."""
    finite = {key: _finite(value, key) for key, value in result.items()}
    return json.dumps(finite, indent=2, allow_nan=False) + "\n"


# Keys of settings. All other keys hold computed numbers.
_GIVEN = ("params", "stream")


def _finite(value: Any, key: str) -> Any:
    """Return a value of result.json: an overflowed number is None, an infinite setting "inf"."""
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
    """Return the run of each ended job of a sweep, in the order of the jobs.

    An unreadable run is named on stderr and left out.
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
    if fact["status"] == "failed":  # its folder may be of an earlier failure
        known = {name: plain_texts(fact[name]) for name in ("result", "config")}
        return Run.in_memory(path, **known)
    return Run(Path(os.path.normpath(path.parent / fact["folder"])))
