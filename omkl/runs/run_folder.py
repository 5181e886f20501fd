"""Run folders: the truth about every experiment.

A run folder belongs to one resolved configuration. It is self-contained and movable: nothing in
it holds an absolute path. Tables, figures and the MLflow view are all made from it.

    config.yaml      the resolved configuration
    result.json      status and every summary number (see below); written last
    results.parquet  one tidy row a seed
    predictions.parquet   one row a row and seed (``omkl.runs.writing``); with one seed, or
                     where predictions=true asks for it
    model.npz        the learner after the last row (``omkl.online.model_file``), with model=true
    changes.diff     how the checkout differed from its commit, where it did
    result.STAMP.json   the result of earlier code in this place
    labels.csv       row and label, as they came, where labels come from outside
    curves.npz       arrays (see below)
    *.png, *.pdf     plots

``result.json``
    status            "complete" | "failed"; a run that was interrupted has no result.json
    key               first 16 hex digits of settings_sha256; with the algorithm the folder's name
    settings_sha256   sha256 of the settings that can change a number, compared before a finished
                      run is found again
    algorithm, dataset, kernels      names, as typed
    n_rounds, n_inputs, n_kernels, D
    seeds             list of ints, one a repetition
    rows_without_target              rows that were predicted and not scored, in a regression
    missing_cells     {column: cells without a value}, of inputs; absent where none is missing
    far_out           {column: share of its values beyond 4 deviations}, of inputs, where at least
                      0.5 % are; with stream.scaling=columns (``omkl.core.robust_moments``)
    target_sorted     true where the rows come in the order of the target, or class by class
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
    mse_over          "all rounds", or "rounds with a label" where labels come from outside
                      (``omkl.datasets.label_sources``) and no others are known; regret is
                      skipped then. With stream.scaling=columns " but the first" follows: it
                      counts for nobody, and curves begin with the second round. With targets
                      that come late it is " but the first 8", as many as knew of no target;
                      of a panel " but the first of each key"
    labels, labels_per_seed   asked for: mean over the seeds, list
    al_efficiency, al_efficiency_std
                      labels over rounds: mean and sample standard deviation over the seeds;
                      1 for a learner that asks always
    mse_per_label     MSE of all rounds over the number of labels, mean over the seeds
    seconds           wall time of streaming all seeds, without compilation
    seconds_per_seed  list: time inside the learner, summed over blocks
    threads           how many worked at once
    regret            {comparator: {"label": .., "mean": .., "std": ..}} cumulative squared
                      error above the comparator's at the last round; or
                      {comparator: {"label": .., "skipped": reason}}; {} where what the
                      learner weighs are no kernels, and of a panel
    keys              of a panel (``dataset.key``): {"column", "n", "ranked": keys with ten scored
                      rows, all where none has so many, "better_than": {baseline: on how many of
                      these}, "best", "worst": [{"key", "rows", "rmse", and the RMSE of baselines
                      by name}]}, at most five each; else absent
    spread            of a learner whose predictions have one, scored as normal distributions:
                      {"log_loss", "coverage_50", "coverage_90", "width_90",
                      "interval_score_90"}, means over seeds and the rounds whose spread is
                      known, in the unit of mse; else absent (``omkl.experiment.metrics``);
                      and "windows": {"until": last rounds, "coverage_50", "coverage_90"}, of
                      up to ten windows, null where no spread is known
    interval          of intervals that were asked for (``omkl.core.conformal``): {"level",
                      "rates", "coverage", "width", "interval_score", "windows": {"until",
                      "coverage"}}, as for ``spread``; up to forty windows
    params            the algorithm's parameters
    versions, machine, commit, numbers   what computed it; ``numbers`` stamps the
                      sources that can change a number, null where they were edited meanwhile
    lock, changes, machine_code, typed   sha256 of requirements.lock and of changes.diff, a digest
                      of compiler, processor and compiled sources, and the command line; null
                      where there is none
    code              {"shared", "learner"}: digests of the sources that all runs have, and of
                      the learner's and its baselines' own
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
    bound             {"theorem", "value" (null where nothing is promised), "minimum": [lower,
                      upper], "unproved": what its proof lacks or null, "further": other
                      statements, [{"name", "of": "mistakes" or "updates", "value", "measured"
                      (updates: mean over the seeds), "beta" (corollary 4: the one it is about,
                      mean over the seeds)}]}, see ``omkl.experiment.bounds``; or
                      {"skipped": reason}; absent without regret.mistake_bound
    error             {"type", "message", "traceback"} when failed; the traceback is null
                      where the message says all
    seal              {file: sha256} of every file that the run wrote as numbers or configuration,
                      this one with 64 zeros in place of its own (``omkl.runs.schema``); of
                      labels.csv once the run is complete. ``Run.problem`` compares
    A summary that has overflowed (max_norm, say) is null.

``curves.npz`` (R seeds, P recorded rounds, N kernels)
    t                 (P,) rounds that are recorded, 1-based
    mse               (R, P) mean squared error of rounds 1..t, with or without a label
    scored            (P,) of a regression: rounds that count in ``mse`` among rounds 1..t
    labels            (R, P) labels asked for in rounds 1..t
    coverage_50, coverage_90   (R, P) share of rounds 1..t whose label was in the interval of
                      50 and 90 %, of those whose spread is known; NaN before the first
    interval_coverage  (R, P) the same of the intervals of ``interval``
    recent_t, recent_y, recent_y_hat, recent_spread   (up to 120,) the last rounds of the first
                      seed: label, prediction and its spread, NaN where it is not known; and
                      recent_half, half the width of the interval of ``interval``; and
                      recent_time, days since 1970, where a date is among the inputs
    worst_t, ..       (120,) the same of the consecutive rounds with the largest squared error,
                      sought after the first 120; of no stream of fewer than 240
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
    vectors that it holds; of learners with probabilities calibration (3, 20), by probability in
    bins of equal width: rows, the sum of their probabilities, and how often they came true (of two
    classes those of the second, of more those of the predicted one); bound (B,) after bound_t (B,)
    rounds of the first seed's order

A sweep has a folder of its own, which names the runs of its jobs (``jobs_of``)

    sweep.json        what is swept, and the start that it is of
    jobs/NAME.json    of each job: its number, its status, where its run folder is
    table.md, table.csv, page.html, plots
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import zipfile
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl.runs import schema
from omkl.runs.schema import CorruptFileError
from omkl.utils import disk
from omkl.utils.conf import read_config
from omkl.utils.disk import write_atomically
from omkl.utils.wording import warn

# Settings that say how to run and where to put things, never what comes out.
NEUTRAL = (
    "threads", "tracking", "force", "progress", "outputs", "block", "figures", "predictions",
    "model", "fail_fast",
)  # fmt: skip


class Measure(NamedTuple):
    """What a run is judged by: key in result.json and curves.npz, words for it, and its unit.

    A mean squared error is printed as it is: a list has runs of many data sets, and one scale.
    """

    key: str
    short: str
    long: str
    scale: float
    unit: str


MSE = Measure("mse", "MSE", "mean squared error", 1.0, "")
ERROR_RATE = Measure("error_rate", "errors", "error rate", 1e2, ", %")


def measure(result: Mapping[str, Any]) -> Measure:
    """The mean squared error of a regression, the share of mistakes of a classification."""
    return ERROR_RATE if result.get("task") == "classification" else MSE


def scaling_of(result: Mapping[str, Any]) -> str | None:
    """``stream.scaling`` as it was; None of a run that does not tell."""
    found = result.get("stream", {}).get("scaling", {}).get("kind")
    return None if found is None else str(found)


def number_of(value: float | None) -> float:
    """A summary of result.json: infinity where it has overflowed, which is null there."""
    return math.inf if value is None else value


class Replaced(CorruptFileError):
    """Another process has put a new result in place of the one that was read."""


class Run:
    """One run folder, read lazily, as it was when it was first read.

    Another process may replace the run at any moment. Whoever reads sees the old one whole or the
    new one whole: after ``problem``, result and configuration are those that it has found sound,
    and what is read later is of the same result or raises Replaced.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    def __repr__(self) -> str:
        return f"Run({self.folder.as_posix()!r})"

    @cached_property
    def raw(self) -> bytes:
        """The bytes of ``result.json``."""
        with disk.shared_lock(self.folder):
            return (self.folder / schema.RESULT).read_bytes()

    @cached_property
    def digest(self) -> str:
        """The sha256 of ``result.json``, which tells one result in this folder from another."""
        return schema.sha256_of(self.raw)

    @cached_property
    def content(self) -> dict[str, Any]:
        """What ``result.json`` holds."""
        return schema.content_of(self.raw.decode())

    @cached_property
    def result(self) -> dict[str, Any]:
        """The same as it is shown: no text in it is a command to a terminal."""
        found: dict[str, Any] = schema.plain_texts(self.content)
        return found

    @cached_property
    def config(self) -> dict[str, Any]:
        return read_config(self._bytes_of("config.yaml").decode())

    @cached_property
    def curves(self) -> dict[str, np.ndarray]:
        with np.load(io.BytesIO(self._bytes_of("curves.npz")), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}

    def _bytes_of(self, name: str) -> bytes:
        """A file of this very result. Raises Replaced, or CorruptFileError if it is damaged."""
        sealed = self.content.get("seal", {}).get(name)
        with disk.shared_lock(self.folder):
            data = (self.folder / name).read_bytes()
            if sealed == schema.sha256_of(data):
                return data
            if _result_in(self.folder) != self.raw:
                raise Replaced(f"{self.folder} was replaced while it was read: start again")
        if sealed is not None:
            raise CorruptFileError(f"{name} is not as it was written: its sha256 is another")
        return data

    @property
    def complete(self) -> bool:
        return self.content.get("status") == "complete"

    @property
    def has_checksums(self) -> bool:
        """Whether files can be checked; runs of early versions have no checksums."""
        return "seal" in self.content

    @cached_property
    def problem(self) -> str | None:
        """Why the folder cannot be believed, or None; every sealed file is read.

        Raises FileNotFoundError where there is no ``result.json``.
        """
        with disk.shared_lock(self.folder):
            while True:
                raw, problem = _result_in(self.folder), None
                try:
                    result, config = _sound(self.folder, raw)
                except (CorruptFileError, OSError) as error:
                    problem = str(error)
                # Without locks, a run that was replaced meanwhile is looked at again.
                if _result_in(self.folder) == raw:
                    break
        if problem is None:
            self.__dict__.update(raw=raw, content=result, config=config)
            self.__dict__.pop("result", None)
        return problem

    def held(self, curves: bool = True) -> Run:
        """The run as it is now, with result, configuration and, if asked for, curves in memory.

        Raises CorruptFileError where it is damaged, FileNotFoundError where there is none.
        """
        while True:
            run = Run(self.folder)
            if run.problem is not None:
                raise CorruptFileError(run.problem)
            with contextlib.suppress(Replaced):
                if curves and run.complete:
                    _ = run.curves
                return run


def _result_in(folder: Path) -> bytes | None:
    """The bytes of ``result.json``; None where the system cannot read them."""
    try:
        return (folder / schema.RESULT).read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(*error.args) from None
    except OSError:
        return None


_MOST_BYTES = 2**32  # that curves.npz may unpack to


def _sound(folder: Path, raw: bytes | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Result and configuration of a run folder with the ``result.json`` raw.

    Raises CorruptFileError or OSError where it is not whole.
    """
    if raw is None:
        raise CorruptFileError(f"{schema.RESULT} cannot be read")
    for path in folder.iterdir():
        if path.is_symlink() and not path.name.startswith("."):
            raise CorruptFileError(f"{path.name} is a symbolic link, which no run writes")
    try:
        text = raw.decode()
        result = schema.content_of(text)
        if "seal" in result:
            schema.require_whole(text, result["seal"])
        elif "settings_sha256" in result:
            raise CorruptFileError("it has lost its checksums (seal)")
        schema.require(result, measure(result).key)
    except (CorruptFileError, UnicodeDecodeError) as error:
        raise CorruptFileError(f"{schema.RESULT}: {error}") from None
    if "seal" in result:
        but = () if result["status"] == "complete" else (schema.LABELS,)
        schema.require_files(folder, result["seal"], but)
    try:
        config = read_config((folder / "config.yaml").read_text(encoding="utf-8"))
        schema.require_config(config)
    except ValueError as error:
        raise CorruptFileError(f"config.yaml: {error}") from None
    if result["status"] == "complete":
        _require_archive(folder / "curves.npz")
    return result, config


def _require_archive(path: Path) -> None:
    """Raise CorruptFileError for a damaged curves.npz, even if its checksum is right."""
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > _MOST_BYTES:
                raise CorruptFileError(
                    f"{path.name} unpacks to more than {_MOST_BYTES / 2**30:g} GiB"
                )
            if damaged := archive.testzip():
                raise CorruptFileError(f"{path.name}: {damaged} is damaged")
    except CorruptFileError:
        raise
    except FileNotFoundError:
        raise CorruptFileError(f"{path.name} is missing") from None
    except Exception as error:  # zipfile has no one kind of error for damaged files
        raise CorruptFileError(f"{path.name} is no whole archive: {error}") from None


def folders(outputs: Path) -> Iterator[Run]:
    """All run folders below ``outputs/runs``, damaged ones too, in the order of their names."""
    for path in sorted((Path(outputs) / "runs").glob("*/*/result.json")):
        yield Run(path.parent)


def left_out(run: Run, problem: str) -> None:
    """Say that a damaged run is left out."""
    warn(
        f"{run.folder} is damaged and left out: {problem}. The omkl-run command that made "
        "it computes it anew."
    )


def find(outputs: Path, leave_out: Callable[[Run, str], None] = left_out) -> Iterator[Run]:
    """The run folders below ``outputs/runs`` that are whole, as ``whole`` finds them."""
    return whole(folders(outputs), leave_out)


def whole(runs: Iterable[Run], leave_out: Callable[[Run, str], None] = left_out) -> Iterator[Run]:
    """Those of the runs that are whole; ``leave_out`` is told of the others.

    A run that is removed at this moment is passed over; one that is held in memory is whole.
    """
    for run in runs:
        try:
            problem = None if "content" in run.__dict__ else run.problem
        except FileNotFoundError:
            continue
        if problem is None:
            yield run
        else:
            leave_out(run, problem)


def settings_sha256(config: Mapping[str, Any]) -> str:
    """64 hex digits naming the settings that can change a number."""
    relevant = {name: value for name, value in config.items() if name not in NEUTRAL}
    text = json.dumps(relevant, sort_keys=True, separators=(",", ":"), default=str)
    return schema.sha256_of(text)


KEY_DIGITS = 16  # of these, in names of files: no two settings of a billion share them


def write_result(folder: Path, result: Mapping[str, Any]) -> None:
    """Write ``result.json``, sealed with the files that lie there; "complete" ends a run."""
    but = () if result.get("status") == "complete" else (schema.LABELS,)
    text = result_text(result, schema.files_in(folder, but))
    write_atomically(folder / schema.RESULT, text)


def held_in_memory(folder: Path, **known: Any) -> Run:
    """A run whose content, curves or configuration are held in memory."""
    run = Run(folder)
    run.__dict__.update(known)
    return run


def result_text(result: Mapping[str, Any], files: Mapping[str, str]) -> str:
    """The text of ``result.json`` beside ``files``, their sha256 by name."""
    return schema.checksummed_text({k: _finite(v, k) for k, v in result.items()}, files)


# What was given, as it was typed or found; all else was counted.
_GIVEN = ("params", "stream")


def _finite(value: Any, key: str) -> Any:
    """A value of result.json: what has overflowed is null, and a setting that is infinite "inf"."""
    value = _plain(value)
    if isinstance(value, Mapping):
        return {k: _finite(v, key) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v, key) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value) if key in _GIVEN else None
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping | list | tuple | str | int | float | None):
        return value
    raise TypeError(f"result.json cannot hold a {type(value).__name__}: {value!r}")


def sweep_folders(outputs: Path) -> list[Path]:
    """The folders of the sweeps in ``outputs``, the earliest first."""
    return sorted(path.parent for path in (outputs / "sweeps").glob("*/sweep.json"))


def facts_of_jobs(
    sweep: Path,
    but: Container[Path] = (),
    leave_out: Callable[[Path, Exception], None] = lambda path, error: None,
) -> list[tuple[dict[str, Any], Path]]:
    """What the jobs of a sweep have left, in the order of the jobs.

    ``leave_out`` is told of files that no job has left so.
    """
    facts = []
    for path in sweep.glob("jobs/*.json"):
        if path not in but:
            try:
                fact = json.loads(path.read_text(encoding="utf-8"))
                schema.require_job(fact)
                facts.append((fact, path))
            except (ValueError, RecursionError) as error:  # just being written, or a stranger's
                leave_out(path, error)
    return sorted(facts, key=lambda pair: pair[0]["number"])


def jobs_of(sweep: Path) -> Iterator[tuple[Run, bool]]:
    """The runs of the jobs that ended, in the order of the jobs, and whether they are tracked."""
    for fact, path in facts_of_jobs(sweep, leave_out=_left_out):
        if fact["status"] == "failed":
            place = path.relative_to(sweep)  # where the traceback is, seen from the table
            yield held_in_memory(place, content=fact["result"], config=fact["config"]), False
        elif fact["status"] != "begun":  # which sweeps of earlier versions wrote
            yield Run(Path(os.path.normpath(path.parent / fact["folder"]))), fact["tracked"]


def _left_out(path: Path, error: Exception) -> None:
    warn(f"{path} is damaged and left out: {error}")
