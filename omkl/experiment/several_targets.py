"""A regression with several targets of a row: a job of each, and what their run says of all.

Targets are the columns of a list in ``dataset.target``, and a column so many rows later, for each
horizon of a list in ``stream.horizon``. Each target is learned and scored as in a run of its own on
these inputs, to the bit: no target is an input, and one of a later row is learned when that row is
there. Targets of one horizon go through the stream in one pass. What is said of all are means over
the targets, in the unit of each.
"""

from __future__ import annotations

import functools
import itertools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl.config.settings import Settings
from omkl.core.kernels import Kernel
from omkl.datasets import Stream
from omkl.experiment import evaluate, regression
from omkl.experiment.job import Computed, Measured, Progress
from omkl.experiment.regression import Regression
from omkl.online import model_file
from omkl.runs.run_folder import ALIKE
from omkl.runs.writing import MODEL, PREDICTIONS, side_by_side

# What result.json says of each target; the others are of all.
MEANS = ("mse_mean", "rmse", "mae", "r2")
LARGEST = ("n_rounds", "max_squared_error", "max_kernel_squared_error", "max_norm")
OF_EACH = (
    *MEANS, *LARGEST[:-1], "mse", "mse_std", "mse_over", "target_unit", "rows_without_target",
    "baselines", "regret", "spread", "interval",
)  # fmt: skip


class SeveralTargets(NamedTuple):
    """The jobs of the targets, and the settings of their run.

    horizons    how many rows later the target of each is; () where the run has one horizon
    """

    settings: Settings
    jobs: list[Regression]
    horizons: tuple[int, ...] = ()

    @property
    def stream(self) -> Stream:
        """That of the first target."""
        return self.jobs[0].stream

    @property
    def dictionary(self) -> tuple[Kernel, ...]:
        return self.jobs[0].dictionary

    @property
    def D(self) -> int:
        return self.jobs[0].D

    @property
    def seeds(self) -> list[int]:
        return self.jobs[0].seeds

    @property
    def names(self) -> list[str]:
        """What the targets are called: "load", or "load 6 later" of several horizons."""
        columns = [job.stream.target for job in self.jobs]
        later = [f" {h} later" if h else "" for h in self.horizons] or [""] * len(columns)
        return [column + text for column, text in zip(columns, later, strict=True)]

    def notes(self) -> list[str]:
        """Those of all jobs, each once."""
        return list(dict.fromkeys(note for job in self.jobs for note in job.notes()))

    def passes(self) -> list[list[int]]:
        """The jobs, by their numbers, of each pass over the rows; they have the same horizon.

        There are several of a horizon where the memory has no room for all.
        """
        of_horizon: dict[int, list[int]] = {}
        for number, job in enumerate(self.jobs):
            of_horizon.setdefault(job.stream.horizon, []).append(number)
        most = evaluate.n_in_one_pass(self.jobs[0])
        return [
            numbers[start : start + most]
            for numbers in of_horizon.values()
            for start in range(0, len(numbers), most)
        ]

    def warm_up(self) -> None:
        """That of two jobs of each horizon: more have the same code."""
        first: dict[int, list[int]] = {}
        for numbers in self.passes():
            first.setdefault(self.jobs[numbers[0]].stream.horizon, numbers)
        for numbers in first.values():
            evaluate.warm_up([self.jobs[k] for k in numbers[:2]])

    def compute(
        self,
        progress: Progress | None = None,
        measured: Measured | None = None,
        staging: Path | None = None,
    ) -> Computed:
        """Compute all targets. ``measured`` hears nothing: the last comes late."""
        with tempfile.TemporaryDirectory(dir=staging) as folder:
            places = [Path(folder) / str(k) for k in range(len(self.jobs))]
            for place in places:
                place.mkdir()
            parts: dict[int, Computed] = {}
            passes = self.passes()
            for n, numbers in enumerate(passes):
                jobs = [self.jobs[k] for k in numbers]
                kept = [places[k] if staging else None for k in numbers]
                told = progress and _of_all(progress, n, len(passes))
                for number, found in evaluate.evaluate(jobs, kept, told):
                    k = numbers[number]
                    if isinstance(found, FloatingPointError):
                        raise FloatingPointError(f"target {self.names[k]}: {found}")
                    if isinstance(found, Exception):
                        raise found
                    parts[k] = found
            return self._joined([parts[k] for k in range(len(places))], places, staging)

    def _joined(
        self, parts: Sequence[Computed], places: Sequence[Path], staging: Path | None
    ) -> Computed:
        """What all targets have computed; the files of each are in its place."""
        names, files = self.names, dict[str, bytes | Path]()
        if staging and PREDICTIONS in parts[0].kept:
            said = [place / PREDICTIONS for place in places]
            files[PREDICTIONS] = side_by_side(said, staging / PREDICTIONS, names)
        if self.settings.model:
            models = []
            for part, place in zip(parts, places, strict=True):
                data = part.kept[MODEL]
                assert isinstance(data, bytes)
                (place / MODEL).write_bytes(data)
                models.append(model_file.read(place / MODEL))
            files[MODEL] = model_file.of_outputs(models, names)
        result = _result([part.result for part in parts], names)
        if self.horizons:
            for name, job, h in zip(names, self.jobs, self.horizons, strict=True):
                result["targets"][name] |= {"column": job.stream.target, "horizon": h}
            result["stream"]["horizon"] = list(dict.fromkeys(self.horizons))
        if len(self.stream.targets) == 1:
            result["stream"]["target"] = self.stream.target
        return Computed(result, _curves([part.curves for part in parts]), files)


def prepare(settings: Settings) -> SeveralTargets:
    """Check settings against the data, and build what they name; as ``prepare_learner``."""
    target, horizon = settings.dataset.get("target"), settings.stream.horizon
    targets = list(target) if isinstance(target, list | tuple) else []
    columns = [{"output": k} for k in range(len(targets))] or [{}]
    horizons = list(horizon) if isinstance(horizon, list | tuple) else []
    jobs = []
    for column, h in itertools.product(columns, horizons or [horizon]):
        stream = settings.stream._replace(horizon=h)
        one = settings.resolved(dataset=settings.dataset | column, stream=stream)
        jobs.append(regression.prepare(one))
        if jobs[0].algorithm.queries:
            raise ValueError(
                f"{jobs[0].algorithm.name} requests some of the targets of a row with one: name "
                "one column in dataset.target"
            )
    own = jobs[0].settings
    dataset = {key: value for key, value in own.dataset.items() if key != "output"}
    stream = own.stream._replace(horizon=horizon)
    of_each = horizons * len(columns)
    resolved = own.resolved(dataset=dataset, stream=stream)
    prepared = SeveralTargets(resolved, jobs, tuple(of_each))
    if twice := [name for name in prepared.names if prepared.names.count(name) > 1]:
        raise ValueError(
            f"two targets would be called {twice[0]!r}, a column and a horizon of another: rename "
            "the column"
        )
    return prepared


def _of_all(progress: Progress, number: int, n: int) -> Progress:
    """The progress of pass ``number`` of n as part of all of them."""

    def tell(stage: str, done: int, total: int | None, loss: float | None) -> None:
        if stage == "rounds" and total is not None:
            done, total = done + number * total, n * total
        progress(stage, done, total, loss)

    return tell


def _result(results: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """What result.json says of a run, of what it would say of each of its targets."""

    def combined(key: str, of: Callable[[list[Any]], Any]) -> Any:
        values = [result[key] for result in results]
        return None if None in values else of(values)

    targets = {
        name: {key: result[key] for key in OF_EACH if key in result}
        for name, result in zip(names, results, strict=True)
    }
    first = {key: v for key, v in results[0].items() if key not in (*OF_EACH, "mse_per_label")}
    mse = np.mean([result["mse"] for result in results], axis=0)
    over = {result["mse_over"] for result in results}
    return first | {
        **{key: combined(key, lambda values: float(np.mean(values))) for key in MEANS},
        **{key: combined(key, max) for key in LARGEST},
        "mse": mse.tolist(),
        "mse_std": float(mse.std(ddof=1)) if len(mse) > 1 else None,
        "mse_over": over.pop() if len(over) == 1 else "all rounds but the first of each target",
        "kernels_per_round": combined("kernels_per_round", lambda values: float(np.mean(values))),
        "labels": combined("labels", sum),
        "labels_per_seed": np.sum([one["labels_per_seed"] for one in results], axis=0).tolist(),
        "seconds": combined("seconds", sum),
        "seconds_per_seed": np.sum([r["seconds_per_seed"] for r in results], axis=0).tolist(),
        "baselines": _baselines([result["baselines"] for result in results]),
        "regret": {},
        "stream": {**results[0]["stream"], "target": None},
        "targets": targets,
        **({"target_sorted": True} if any("target_sorted" in one for one in results) else {}),
    }


def _baselines(of_targets: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Means of the errors of each baseline; one that a target does not have is skipped."""
    found = {}
    for name, first in of_targets[0].items():
        entries = [entries[name] for entries in of_targets]
        skipped = [entry for entry in entries if "skipped" in entry]
        means = {key: float(np.mean([e[key] for e in entries])) for key in first if not skipped}
        found[name] = dict(skipped[0]) if skipped else means
    return found


def _curves(curves: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Those of each target, ``targets.K.NAME``, and of all at the rounds that all recorded."""
    found = {name: curves[0][name] for name in ALIKE}
    for k, of_target in enumerate(curves):
        found |= {f"targets.{k}.{n}": a for n, a in of_target.items() if n not in ALIKE}
    found["t"], at = _common([one["t"] for one in curves])
    baselines = [n for n in curves[0] if n.startswith("baseline_") and all(n in c for c in curves)]
    for name in ("mse", "scored", "labels", *baselines):
        several = [one[name][..., places] for one, places in zip(curves, at, strict=True)]
        found[name] = np.sum(several, axis=0) if name == "labels" else np.mean(several, axis=0)
    found["weights"] = np.mean([one["weights"] for one in curves], axis=0)
    found["usage"] = np.sum([one["usage"] for one in curves], axis=0)
    weights_t, at = _common([one["weights_t"] for one in curves])
    found |= {"weights_t": weights_t} if len(weights_t) else {}
    for name in ("weights_over_time", "importance_over_time"):
        if len(weights_t) and all(name in one for one in curves):
            several = [one[name][places] for one, places in zip(curves, at, strict=True)]
            found[name] = np.mean(several, axis=0)
    if "importance_over_time" in found:
        found["input_names"] = curves[0]["input_names"]  # targets have the same inputs
    return found


def _common(rounds: Sequence[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """The rounds that are in all of these, and their places in each."""
    found = functools.reduce(np.intersect1d, rounds)
    return found, [np.searchsorted(one, found) for one in rounds]
