"""Define the common parts of the jobs of regressions, classifications and federations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from omkl import algorithms
from omkl.config.schema import Settings
from omkl.config.settings import OF_PANEL, content_addressed, with_defaults_cut
from omkl.core import kernels
from omkl.core.hyperparameters import Schedule
from omkl.core.kernels import Kernel
from omkl.core.protocol import Algorithm
from omkl.datasets import DataError, Stream, catalogue, open_stream, open_streams
from omkl.datasets.files import FileContent
from omkl.experiment import kept_model, memory
from omkl.experiment.kept_model import require_keepable
from omkl.experiment.metrics import Recorder, mean_and_deviation
from omkl.online.learner import OnlineLearner
from omkl.online.panel import Panel
from omkl.online.settings import FEATURES, SCALINGS, SERIES_ALGORITHM, Specification, specify
from omkl.runs.run_folder import ERROR_RATE, MSE
from omkl.utils import outside

Progress = Callable[[str, int, int | None, float | None], None]
"""Callback between blocks: progress(stage, done, total, running MSE)."""

UNKNOWN_HORIZON = 10**6  # stands for the number of rounds T of a stream that is not open yet


class Computed(NamedTuple):
    """Content of result.json and curves.npz, and of further files by name."""

    result: dict[str, Any]
    curves: dict[str, np.ndarray]
    files: Mapping[str, bytes] = {}


class Job(Protocol):
    """Job whose settings are checked and complete.

    In ``settings`` the path of a user's file is replaced by the digest of its content.
    """

    @property
    def settings(self) -> Settings: ...

    @property
    def stream(self) -> Stream: ...

    @property
    def dictionary(self) -> tuple[Kernel, ...]: ...

    @property
    def D(self) -> int: ...

    @property
    def seeds(self) -> list[int]: ...

    def notes(self) -> list[str]:
        """Return notes that the user should read before the job runs."""
        ...

    def warm_up(self, compiled: Callable[[], object] = lambda: None) -> None:
        """Compile code, or load compiled code, before the time of the job is measured.

        Another process may compile the baselines meanwhile (``processes.helper``). After the
        learner is compiled, this method calls ``compiled``, which waits for the other process.
        """
        ...

    def compute(self, progress: Progress | None = None, staging: Path | None = None) -> Computed:
        """Stream the rows through the learner of every seed, and return the results.

        Files with an entry per row are written to the folder ``staging``, if it is given.
        """
        ...


class Timing(NamedTuple):
    """Seconds of the whole job, seconds of each seed's learner, and number of threads."""

    elapsed: float
    per_seed: Sequence[float]
    n_threads: int


def own_modules(job: Job) -> dict[str, str]:
    """Return the digest of each module outside the package that a job uses, by module name."""
    module = job.settings.algorithm.module
    algorithm = {} if module is None else outside.digests([module])
    return modules_of_families(job.dictionary) | algorithm


def modules_of_families(dictionary: Sequence[Kernel]) -> dict[str, str]:
    """Return the digest of each module outside the package that defines a kernel family.

    The keys are names of modules. Only families of ``dictionary`` count.
    """
    families = {kernel.family for kernel in dictionary}
    return outside.digests(type(kernels.FAMILIES[family]).__module__ for family in families)


def reported(job: Job, losses: np.ndarray, timing: Timing, **further: Any) -> dict[str, Any]:
    """Return the fields of result.json that every kind of job has.

    Parameters
    ----------
    job
        The job.
    losses
        Main error of each seed (R,).
    timing
        Times of the job.
    further
        Fields that are specific to this kind of job.
    """
    measure = ERROR_RATE if job.settings.task == "classification" else MSE
    mean, deviation = mean_and_deviation(losses)
    for name, entry in further.get("regret", {}).items():
        if not np.isfinite(entry.get("mean", 0.0)):
            further["regret"][name] = {"label": entry["label"], "skipped": "it is not finite"}
    return {
        "n_inputs": job.stream.n_inputs,
        "D": job.D,
        "seeds": job.seeds,
        f"{measure.key}_mean": mean,
        f"{measure.key}_std": deviation,
        measure.key: losses.tolist(),
        **further,
        "seconds": timing.elapsed,
        "seconds_per_seed": list(timing.per_seed),
        "threads": timing.n_threads,
        "stream": job.stream.provenance,
        **({"missing_cells": dict(missing)} if (missing := job.stream.missing) else {}),
        **({"far_out": dict(far)} if (far := job.stream.far_out) else {}),
        **({"notices": notices} if (notices := job.stream.notices) else {}),
    }


def require_finite(
    job: Job,
    params: Any,
    errors: Recorder,
    unit: str,
    notes: Callable[[Any], Iterable[str]] = lambda job: (),
) -> None:
    """Raise FloatingPointError if the errors are not finite. The message names the step sizes.

    Parameters
    ----------
    job, params
        Job, and the hyper-parameters of its learner.
    errors
        Errors of each seed.
    unit
        Name of what ``errors`` counts: "row" or "round".
    notes
        Function that is called with the job, and returns further sentences of the message.
    """
    bad = [s for s, total in zip(job.seeds, errors.total, strict=True) if not total < np.inf]
    if not bad:
        return
    name, given = job.settings.algorithm.name, job.settings.algorithm.params
    steps = [
        f"algorithm.{field}={given[field]}"
        for field, value in zip(params._fields, params, strict=True)
        if isinstance(value, Schedule) and field.startswith("eta") and field in given
    ]
    text = (
        f"by {unit} {errors.n_rounds} the predictions of {name} are no longer finite "
        f"(seeds {', '.join(map(str, bad))}): the steps are too large for this stream. Reduce "
        f"{' or '.join(steps) or 'the step size'}; importance weights divide steps by small "
        "probabilities, so more exploration helps as well"
    )
    raise FloatingPointError(". ".join([text, *notes(job)]))


def kernel_curves(used: Sequence[Kernel]) -> dict[str, np.ndarray]:
    """Return the families and bandwidths of kernels as entries of curves.npz."""
    return {
        "kernel_family": np.array([kernel.family for kernel in used]),
        "kernel_bandwidth": np.array([kernel.bandwidth for kernel in used]),
    }


class LearnerJob(NamedTuple):
    """Job with one learner per seed, and no federation.

    ``streams`` has one stream per seed. In a shuffled classification each seed has a different
    order of rows. Otherwise all seeds have the same stream.
    """

    settings: Settings
    streams: list[Stream]
    specification: Specification
    seeds: list[int]

    def notes(self) -> list[str]:
        return self.settings.notes

    @property
    def stream(self) -> Stream:
        """Stream of the first seed."""
        return self.streams[0]

    @property
    def D(self) -> int:
        return self.specification.D

    @property
    def dictionary(self) -> tuple[Kernel, ...]:
        return self.specification.dictionary

    @property
    def kernels(self) -> Sequence[Kernel]:
        """Kernels of the learner."""
        return self.algorithm.kernels(self.params, self.dictionary, self.stream.n_inputs)

    @property
    def algorithm(self) -> Algorithm:
        return self.specification.algorithm

    @property
    def params(self) -> Any:
        return self.specification.params

    def learner(self, seed: int, threads: int = 1) -> OnlineLearner | Panel:
        """Return a new learner for a seed.

        For a stream with series this is ``auto``, or a panel if another algorithm is chosen.
        """
        made = kept_model.settings_of(self.settings, self.stream, self.D, seed)
        if made.series is not None:
            return OnlineLearner(made, threads=threads, delay=self.stream.target_delay)
        if self.stream.has_series:
            dataset = self.settings.dataset
            options = {name: dataset[name] for name in OF_PANEL if name in dataset}
            return Panel(made, series=str(dataset["series"]), threads=threads, **options)
        # With "whole" the stream is scaled already.
        scaling = made.scaling if made.scaling in SCALINGS else "none"
        made = dataclasses.replace(made, scaling=scaling)
        return OnlineLearner(made, threads=threads, delay=self.stream.target_delay)


def prepare_learner(settings: Settings) -> LearnerJob:
    """Check settings against the data, and build the job.

    Raises ValueError for wrong settings, and DataError for unusable data. The message says what to
    correct.
    """
    D = FEATURES if settings.D is None else settings.D
    dictionary = kernels.dictionary(settings.placed_kernels)
    algorithm = algorithms.load(settings.algorithm.name)
    sizes = {"N": len(dictionary), "D": D}
    settings = with_defaults_cut(settings.replaced(D=D), algorithm.Params, sizes)
    given = settings.algorithm.params
    # Checked before the data are opened, so that a wrong number does not wait for a large file.
    specify(settings.algorithm.name, given, dictionary, D, UNKNOWN_HORIZON)
    if not algorithm.representation.uses_D:  # all D then identify the same run
        D = FEATURES
        settings = settings.replaced(D=D)
    if algorithm.queries and (settings.stream.delay or settings.stream.horizon):
        raise ValueError(
            f"{algorithm.name} requests some of the targets, and such a request is answered at "
            "once: leave stream.delay and stream.horizon out"
        )
    late = [key for key in ("horizon", "delay") if getattr(settings.stream, key)]
    if late and algorithm.name != SERIES_ALGORITHM and settings.dataset.get("series") is not None:
        raise ValueError(
            f"{algorithm.name} has a learner per series, which learns each target at once: leave "
            f"stream.{late[0]} out, or leave out algorithm= for {SERIES_ALGORITHM}"
        )
    classify = algorithm.task == "classification"
    own_order = classify and settings.stream.order == "shuffled"
    # A learner without random numbers gives equal results for all seeds.
    n_seeds = 1 if algorithm.deterministic and not own_order else settings.seeds
    seeds = settings.seed_list[:n_seeds]
    require_keepable(settings, n_seeds)
    streams = _opened(settings, seeds if own_order else None)
    streams = streams if own_order else streams * n_seeds
    stream = streams[0]
    if stream.n_rounds is None and any(isinstance(v, str) and "T" in v for v in given.values()):
        stream.count_rounds()  # for a schedule in T
    dictionary = kernels.dictionary(settings.placed_kernels, stream.n_inputs)
    made = specify(settings.algorithm.name, given, dictionary, D, stream.n_rounds)
    made = made.of_classes(len(stream.classes))
    _require_memory(settings, stream, made, n_seeds)
    portable = content_addressed(settings, stream)
    job = LearnerJob(portable, streams, made, seeds)
    if stream.has_series:
        job.learner(seeds[0])  # raises for settings that a panel cannot have
    return job


def _require_memory(settings: Settings, stream: Stream, made: Specification, R: int) -> None:
    algorithm, params, dictionary, D = made
    used = algorithm.kernels(params, dictionary, stream.n_inputs)
    each = memory.model_bytes(algorithm.representation, params, used, stream.n_inputs, D)
    n_models = memory.n_models(algorithm, stream, settings, R)
    # A classifier stores only the rows that it learns from, which may be few.
    keeps_rows = not algorithm.representation.bounded and algorithm.task == "regression"
    memory.require_memory(settings, stream, len(used), D, each, n_models, keeps_rows)


_streams: dict[str, list[Stream]] = {}

MOST_STREAM_BYTES = 2**28  # of rows cached between the jobs of one process


def _opened(settings: Settings, seeds: Sequence[int] | None) -> list[Stream]:
    """Open one stream per seed, or a single stream if ``seeds`` is None or empty.

    Opened streams are cached for further jobs of the process.
    """
    dataset, options, seed = settings.dataset, dict(settings.stream), settings.seed
    shuffle = (seeds or seed) if settings.stream.order == "shuffled" else None
    name = repr((dataset, options, shuffle))
    if name in _streams and is_of_now(_streams[name][0], dataset):
        return _streams[name]
    if seeds:
        streams = open_streams(dataset, options, seeds)
    else:
        streams = [open_stream(dataset, options, seed=seed)]
    _streams[name] = streams
    while len(_streams) > 1 and sum(map(_bytes_of, _streams.values())) > MOST_STREAM_BYTES:
        _streams.pop(next(iter(_streams)))
    return streams


def _bytes_of(streams: Sequence[Stream]) -> int:
    """Return the bytes of the rows in memory. Streams of several seeds share the same rows."""
    stream = streams[0]
    return 8 * (stream.n_rounds or 0) * (stream.n_inputs + 1)


def is_of_now(stream: Stream, dataset: Mapping[str, Any]) -> bool:
    """Return whether the files of a stream are unchanged since they were read.

    ``dataset`` are the settings of the data set.
    """
    for known in stream.provenance["files"]:
        path = catalogue.locate(dataset["file"]) if "file" in dataset else dataset.get("path")
        try:
            if FileContent(Path(str(path)).expanduser()).sha256 != known["sha256"]:
                return False
        except DataError:  # opening it reports the error
            return False
    return True
