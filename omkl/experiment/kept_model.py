"""The learner of a run in ``model.npz``, and runs that go on from there (``resume=FOLDER``)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from omkl.core import snapshot
from omkl.datasets import DataError, Stream
from omkl.datasets.base import name_of_file
from omkl.datasets.files import FileContent
from omkl.online import learner as online
from omkl.online import model_file
from omkl.online.model_file import Model
from omkl.online.panel import PanelOfRun
from omkl.online.rows import listed
from omkl.online.settings import SCALINGS, LearnerSettings
from omkl.online.stream_learner import StreamLearner, below
from omkl.runs import run_folder
from omkl.runs.writing import MODEL
from omkl.utils.constraints import shown
from omkl.utils.wording import pluralize

if TYPE_CHECKING:
    from omkl.config.settings import Settings

# Keys of a data set that say how a text file is read.
READING = ("na_values", "delimiter", "header", "columns", "decimal", "encoding")
# What may be typed beside resume=FOLDER; all else is that of the folder's run.
MAY_DIFFER = ("resume", "dataset", "dataset.path", "stream.limit", "stream.follow",
              *run_folder.NEUTRAL)  # fmt: skip
SECTIONS_THAT_MAY = ("regret.", "hydra")


def require_keepable(settings: Settings, n_seeds: int) -> None:
    """ValueError where model=true is asked of a job that has no one learner for other rows."""
    if not settings.model:
        return
    if n_seeds > 1:
        raise ValueError("model=true keeps the learner of one seed: set seeds=1")
    if settings.stream.scaling not in SCALINGS:
        raise ValueError(
            f"model=true: with stream.scaling={settings.stream.scaling} rows are in units of this "
            "file as a whole, which no later row has. Set stream.scaling=columns or none."
        )
    scales = {"scale_inputs", "scale_columns"}
    if steps := sorted(scales & set(settings.dataset.get("prepare") or {})):
        raise ValueError(
            f"model=true: dataset.prepare.{steps[0]} changes the numbers of this file, and rows "
            "that come later have others. Scale the file itself, or leave the step out."
        )


class Keepable(Protocol):
    """What is asked of a job whose learner is kept."""

    @property
    def settings(self) -> Settings: ...
    @property
    def stream(self) -> Stream: ...
    @property
    def seeds(self) -> list[int]: ...
    @property
    def D(self) -> int: ...
    @property
    def resumed(self) -> Resumed | None: ...


def content(
    job: Keepable, learner: StreamLearner | PanelOfRun, moments: Mapping[str, np.ndarray]
) -> bytes:
    """``model.npz`` of a job of one seed that has ended; ``moments`` of the stream's columns.

    Rows whose targets are not in yet wait in it, by their numbers in the stream from 1.
    """
    if isinstance(learner, PanelOfRun):
        return learner.panel.content(_columns(job))
    pending, waiting = None, learner.waiting
    arrays = learner.arrays() | online.arrays_of(waiting)
    if waiting:
        pending = {"ids": list(waiting), "most": online.MOST_PENDING + len(waiting)}
    if job.stream.scaling == "columns":
        arrays |= {f"columns.{name}": array for name, array in moments.items()}
    return model_file.content(settings_of(job), arrays, _columns(job), pending)


def settings_of(job: Keepable, seed: int | None = None) -> LearnerSettings:
    """The learner of a job, of its first seed if none is given, as one called from Python."""
    stream, settings = job.stream, job.settings
    given = settings.algorithm.params
    names_T = any(isinstance(value, str) and "T" in value for value in given.values())
    horizon = job.resumed.model.settings.horizon if job.resumed else stream.n_rounds
    return LearnerSettings(
        algorithm=settings.algorithm.name,
        params=dict(given),
        kernels=dict(settings.kernels),
        D=job.D,
        precision=settings.precision,
        seed=job.seeds[0] if seed is None else seed,
        inputs=tuple(stream.inputs[: len(stream.inputs) - stream.n_lags]),
        named=True,
        classes=tuple(stream.classes),
        scaling=stream.scaling,
        lags=stream.n_lags,
        horizon=horizon if names_T else None,
        interval=settings.interval.level if settings.interval else None,
        interval_rate=settings.interval.rate if settings.interval else None,
    )


def _columns(job: Keepable) -> dict[str, Any] | None:
    """How the columns of an own file become inputs; None where they are inputs as they are."""
    taken = [column for column in job.stream.columns if column.inputs]
    if not taken:
        return None
    reading = {key: job.settings.dataset[key] for key in READING if key in job.settings.dataset}
    return {"reading": reading, "target": job.stream.target,
            "columns": [column._asdict() for column in taken]}  # fmt: skip


class Resumed(NamedTuple):
    """The model that a job goes on from, and the sha256 of its file."""

    model: Model
    sha256: str

    def restore(self, learner: StreamLearner) -> None:
        """Bring a learner to where it was; what it counts begins anew.

        DataError for a model that does not fit.
        """
        try:
            learner.restore(self.model.arrays)
        except snapshot.Mismatch as error:
            raise DataError(f"the model of resume=: {self.model.misfit(error)}") from None
        for one in learner.learners:
            one.used[:], one.worst[:] = 0, 0.0

    @property
    def dataset(self) -> dict[str, Any]:
        """What the file is opened with besides: its columns become the inputs that they were."""
        return {"resumed": self.sha256, "encoded": (self.model.columns or {}).get("columns")}

    def go_on(self, stream: Stream) -> None:
        """Let a stream begin where that of the model ended; DataError where inputs differ."""
        known = self.model.settings.inputs
        inputs = stream.inputs[: len(stream.inputs) - stream.n_lags]
        if tuple(inputs) != known:
            raise DataError(
                f"{stream.where} has the inputs {listed(inputs)}; the model that resume= goes on "
                f"from has: {listed(known)}"
            )
        stream.go_on(below("columns.", self.model.arrays), self.labels)

    @property
    def labels(self) -> dict[str, np.ndarray]:
        """What was known of the labels, as arrays of a ``LabelHistory``."""
        return below("labels.0.", self.model.arrays)

    def require_same(self, settings: LearnerSettings) -> None:
        """ValueError where a job makes another learner than that of the model."""
        for field in dataclasses.fields(settings):
            before, now = (getattr(one, field.name) for one in (self.model.settings, settings))
            if before != now and field.name != "named":
                raise ValueError(
                    f"resume= goes on from a model with {field.name}={shown(before)}, and this run "
                    f"has {shown(now)}: leave the setting out, or start anew"
                )

    def note(self) -> str:
        n = int(self.model.arrays["learner.0.t"][0])
        more = "; updates and support count these as well" if self.model.settings.classes else ""
        if not self.model.is_of_these_sources:
            more += "; other sources wrote it, and its numbers may differ from theirs"
        return f"goes on from a model of {pluralize(n, 'row')}{more}"


def path_of(setting: Any) -> Path:
    """The file of a model, given itself or by the folder of its run; ValueError says what is not.

    A run folder keeps it with model=true.
    """
    try:
        path = Path(str(setting)).expanduser()
        folder = path.is_dir()
    except (OSError, RuntimeError) as error:  # a name that is too long, a user that there is not
        raise ValueError(f"{setting} is no file and no folder: {error}") from None
    if folder and not (path / MODEL).is_file():
        raise ValueError(f"{setting} has no {MODEL}: a run keeps its learner with model=true")
    return path / MODEL if folder else path


def read(setting: Any) -> Resumed:
    """The model of ``resume=``; ValueError names what is missing or damaged."""
    path = path_of(setting)
    try:
        model = model_file.read(path)
        online.restored(model, path)  # what cannot be gone on with is told before the data are read
        if model.settings.outputs:
            raise model_file.ModelError("a run has one target: go on with its outputs from Python")
    except model_file.ModelError as error:
        raise ValueError(f"resume={setting}: {error}") from None
    return Resumed(model, FileContent(path).sha256)


def continued(config: Mapping[str, Any], typed: Iterable[str]) -> dict[str, Any]:
    """The configuration of a run that goes on: that of ``resume=``, with other rows.

    What it names is a run folder, or the model in one.
    ``typed`` are the keys of the command line. ValueError for one that would make another learner.
    """
    path = config["dataset"].get("path")
    if path is None:
        raise ValueError("resume= goes on with other rows: say which file, dataset.path=FILE")
    learner = read(config["resume"]).model.settings
    typed = list(typed)
    folder = path_of(config["resume"]).parent
    try:
        earlier = run_folder.Run(folder).config
    except FileNotFoundError:
        raise ValueError(
            f"resume={config['resume']}: the model is not in its run folder, which has the "
            "settings to go on with: give that folder"
        ) from None
    before = earlier["dataset"]
    for key in typed:
        if not _may_be_typed(key, config["dataset"], before):
            raise ValueError(
                f"resume= goes on with the settings of its run: leave {key} out, or start anew"
            )
    own = {**before} if "path" in before else {**config["dataset"]}
    sha256 = own.pop("sha256", "")
    if own["name"] == f"{name_of_file(str(own['path']))}-{sha256[:4]}":
        own["name"] = "file"
    target = config["dataset"]["target"] if before["target"] is None else before["target"]
    own |= {"path": path, "target": target}
    own |= {"labels": list(learner.classes)} if learner.classes else {}
    stream = earlier["stream"] | {key: config["stream"][key] for key in ("limit", "follow")}
    kept = {"dataset": own, "stream": stream | {"order": "file", "labels": "data"}}
    neutral = {key: config[key] for key in (*run_folder.NEUTRAL, "regret") if key in config}
    # Whoever went on once goes on again: what is learned last is kept, unless it is told not to.
    neutral["model"] = config["model"] if "model" in typed else True
    return {**config, **earlier, **kept, **neutral, "resume": str(config["resume"])}


def _may_be_typed(key: str, typed: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether a key of a data set ``given`` may stand beside ``resume=`` a run of that ``before``.

    That of a run whose labels came from outside may have no target, which is then to be said; how a
    file is read is new where there was none.
    """
    if key == "dataset.target":
        return before["target"] in (None, typed["target"])
    new = key.startswith("dataset.") and "path" not in before
    return new or key in MAY_DIFFER or key.startswith(SECTIONS_THAT_MAY)
