"""Read and write ``model.npz``, a file with the settings (JSON) and the state of a learner.

Reading a file executes no code from it: arrays are read without pickle, and the algorithm is looked
up by name. The checksums of the archive detect damage, but not forgery. Therefore
``core.snapshot`` checks shapes, types and ranges of all arrays. Arrays that can be computed from
others are not in the file. Random frequencies are in the file, because another version of the
sources or another machine may draw different ones.

Arrays are compressed (deflate), so unused zeros take little space. To limit the memory that a
forged file can take, a compressed file unpacks to at most ``MOST_UNPACKED`` bytes. A larger learner
is stored uncompressed. The entries of a file:

    settings   JSON: format, omkl (version), code (digest of the sources), learner (the settings)
    recent.rows, recent.predictions, recent.series   rows that await their targets, their
               predictions, and their series (JSON)
    recent.learned   last rows of a classification, each with the index of its class
    series, t, slots.NAME, scaler.NAME   for a panel: names of the series (JSON), and arrays with
               one row per series
    learner.K.NAME, labels.NAME, interval.NAME, widths.NAME   parts of the learner of one target,
               see ``TargetLearner.arrays``. With several targets these names begin with output.M,
               and arrays equal to those of output.0 are omitted
    columns.NAME   moments of the inputs
    series.NAME, names   units of the series, and names of the series (JSON)
"""

from __future__ import annotations

import dataclasses
import io
import json
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl.online.settings import LearnerSettings, input_names, output_names, season_of
from omkl.utils import __version__, sources
from omkl.utils.wording import few

FORMAT = 1
SETTINGS = "settings"
MOST_JSON, MOST_ARRAYS = 2**24, 10_000
MOST_UNPACKED, MOST_HEADER = 2**28, 2**10  # bytes of all arrays, and of the header of one


class ModelError(ValueError):
    """Raised if a file contains no usable learner. The message names the file and the reason."""


class Model(NamedTuple):
    """Content of a model file.

    settings   settings of the learner
    arrays     arrays of the learned state, by name
    version    version of omkl that wrote the file
    code       digest of the sources that wrote the file; "" if unknown
    columns    encodings of the columns of a table; None if all columns are numbers
    panel      options of ``online.panel.Panel``; None for a single learner
    """

    settings: LearnerSettings
    arrays: dict[str, np.ndarray]
    version: str
    code: str
    columns: dict[str, Any] | None
    panel: dict[str, Any] | None = None

    @property
    def is_of_these_sources(self) -> bool:
        return bool(self.code) and self.code == code_of_learners()

    def warn_of_other_sources(self, path: str | Path) -> None:
        """Warn the caller if other sources wrote the file."""
        if not self.is_of_these_sources:
            warnings.warn(
                f"{path} was written by omkl {self.version} with other sources than these: it goes "
                "on, and its numbers may differ from theirs",
                stacklevel=3,
            )

    def misfit(self, difference: object) -> str:
        """Return the message for arrays that do not fit the settings."""
        if self.is_of_these_sources:
            return f"no model, or a damaged one: {difference}"
        return (
            f"omkl {self.version} wrote it with other sources than these, whose learners are kept "
            f"in another way ({difference}): go on with those sources, or learn anew"
        )


def code_of_learners() -> str:
    """Return a digest of the sources of learners, or "" if they were edited after import."""
    if sources.nothing_is_kept():
        return ""
    return sources.machine_code() + sources.digest(("online/", "datasets/"))


def content(
    settings: LearnerSettings,
    arrays: Mapping[str, np.ndarray],
    columns: Any = None,
    panel: Any = None,
) -> bytes:
    """Return the bytes of a model file.

    Parameters
    ----------
    settings, arrays
        Settings and state of the learner.
    columns
        Encodings of the columns of a table, as JSON; None: all columns are numbers.
    panel
        Options of ``online.panel.Panel``; None for a single learner.
    """
    head = {
        "format": FORMAT,
        "omkl": __version__,
        "code": code_of_learners(),
        "learner": dataclasses.asdict(settings),
        "columns": columns,
        **({} if panel is None else {"panel": panel}),
    }
    text = np.frombuffer(json.dumps(head, allow_nan=False).encode(), dtype=np.uint8)
    return _packed({SETTINGS: text, **_without_copies(arrays)})


def _without_copies(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Leave out the arrays of later outputs that equal those of the first output."""
    found = {}
    for name, array in arrays.items():
        of_first = f"output.0.{name.split('.', 2)[-1]}"
        is_further = name.startswith("output.") and name != of_first
        like = arrays.get(of_first) if is_further else None
        if like is None or array.size == 1 or not np.array_equal(array, like):
            found[name] = array
    return found


def _with_copies(arrays: Mapping[str, np.ndarray], n_outputs: int) -> dict[str, np.ndarray]:
    """Add the copies that ``_without_copies`` left out."""
    first = {n.removeprefix("output.0."): a for n, a in arrays.items() if n.startswith("output.0.")}
    copies = {f"output.{k}.{n}": a for k in range(1, n_outputs) for n, a in first.items()}
    return copies | dict(arrays)


def _packed(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return the bytes of an npz file.

    The compression level is 1. ``np.savez_compressed`` always uses level 6 and takes 1.6 times as
    long.
    """
    unpacked = sum(array.nbytes + MOST_HEADER for array in arrays.values())
    kind = zipfile.ZIP_DEFLATED if unpacked <= MOST_UNPACKED else zipfile.ZIP_STORED
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", kind, compresslevel=1) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asarray(array), allow_pickle=False)
    return file.getvalue()


def read(path: str | Path) -> Model:
    """Return the model in a file.

    Raises ModelError if the file is missing, damaged or no model file.
    """
    path = Path(path).expanduser()
    try:
        arrays = _arrays(path)
        head = json.loads(arrays.pop(SETTINGS).tobytes())
        if head["format"] != FORMAT:
            raise ModelError(
                f"{path}: a model of format {head['format']!r}, by omkl {head['omkl']}; this is "
                f"omkl {__version__}, which reads format {FORMAT}"
            )
        settings = _settings(head["learner"])
        _require_size(settings, arrays)
        arrays = _with_copies(arrays, len(settings.outputs))
        version, code = str(head["omkl"]), str(head["code"])
        return Model(settings, arrays, version, code, head["columns"], head.get("panel"))
    except ModelError:
        raise
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror or error}") from None
    except Exception as error:  # a damaged file can make its readers raise anything
        problem = str(error).strip().partition("\n")[0][:200] or type(error).__name__
        raise ModelError(f"{path}: no model, or a damaged one: {problem}") from None


def _arrays(path: Path) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        kinds = {entry.compress_type for entry in entries}
        if len(entries) > MOST_ARRAYS or not kinds <= {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise ModelError(f"{path}: no model: omkl writes a few arrays, deflated or as they are")
        unpacked = sum(entry.file_size for entry in entries)  # an upper bound of the bytes read
        if unpacked > max(MOST_UNPACKED, path.stat().st_size):
            raise ModelError(
                f"{path}: no model: it unpacks to {unpacked:,} bytes, and what omkl writes to at "
                f"most {MOST_UNPACKED:,}, or to no more than the file has"
            )
        sizes = {entry.filename: entry.file_size for entry in entries}
        if sizes.get(f"{SETTINGS}.npy", MOST_JSON + 1) > MOST_JSON:
            raise ModelError(f"{path}: no model of omkl: there are no settings in it")
        if damaged := archive.testzip():
            raise ModelError(f"{path}: {damaged} is damaged")
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _settings(given: Mapping[str, Any]) -> LearnerSettings:
    fields = {field.name for field in dataclasses.fields(LearnerSettings)}
    if given.keys() != fields:
        differing = few(sorted(given.keys() ^ fields))
        raise ValueError(f"settings {differing} are missing, or not known")
    names, classes, outputs = input_names(list(given["inputs"])), given["classes"], given["outputs"]
    if outputs:  # a list of positions stands for a number of outputs
        outputs = output_names(outputs if isinstance(outputs[0], str) else len(outputs))
    return LearnerSettings(**{
        **given, "inputs": names, "classes": tuple(classes), "outputs": tuple(outputs),
        "season": season_of(given["season"]),
    })  # fmt: skip


def _require_size(settings: LearnerSettings, arrays: Mapping[str, np.ndarray]) -> None:
    """Raise ValueError if the settings describe more random features than the arrays contain.

    Called before the learner is created, so that a forged file cannot exhaust the memory.
    """
    made = settings.specification()
    if len(settings.outputs) > len(arrays):
        raise ValueError("the settings have more outputs than there are arrays")
    numbers = sum(array.size for array in arrays.values())
    n_inputs = len(settings.inputs) + settings.lags
    drawn = len(made.algorithm.kernels(made.params, made.dictionary, n_inputs)) * n_inputs * made.D
    if made.algorithm.representation.draws_features and drawn > numbers:
        raise ValueError("the settings describe a larger learner than the arrays")
