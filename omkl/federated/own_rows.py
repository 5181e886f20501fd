"""Data owner in a deployed federation: a client, its file, the scaling of its rows, and its state.

The owner's folder contains

    state.npz        learner, scaling and reply after the row that was learned most recently
    predictions.csv  round, row, prediction before the target arrived, and target of every row
    model.npz        at the end, for ``omkl.load_learner`` and ``omkl-predict``

The owner learns its rows in order, each of them once. If a restarted server repeats a round, the
owner gives the same reply again.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl.core.snapshot import below
from omkl.datasets import DataError
from omkl.datasets.scaling import Moments, TargetScaler, TargetUnits, softened
from omkl.federated.parties import Broadcast, Client, Refused, Update
from omkl.federated.protocol import Plan
from omkl.utils.disk import npz_bytes, write_atomically

STATE, PREDICTIONS, MODEL = "state.npz", "predictions.csv", "model.npz"
SUFFIXES, DELIMITERS = (".csv", ".tsv", ".txt"), (",", ";", "\t")
MISSING = ("", "na", "nan", "null", "none")
SCALINGS = ("columns", "none")
N_FIXED = 2.0**60  # number of rows as which fixed bounds count, so large that nothing is an outlier


class Terms(NamedTuple):
    """Settings that the server and all clients of a federation must share.

    Flower's run config contains them.

    settings   settings of ``omkl-run``: algorithm, kernels, clients, federation.rounds, ...
    inputs     names of the input columns, in order
    target     name of the column to predict
    scaling    "columns": each client standardises by its rows so far; "bounds": all clients scale
               by ``bounds``; "none": rows are unchanged, and a missing value is 0
    bounds     (low, high) of every input and of the target, or {}
    measured   whether clients report squared errors and regrets
    """

    settings: str
    inputs: tuple[str, ...]
    target: str
    scaling: str
    bounds: dict[str, tuple[float, float]]
    measured: bool

    def text(self) -> str:
        """Return the terms as JSON. ``read_state`` compares them with the terms in a folder."""
        return json.dumps(self._asdict())


def read_terms(config: Mapping[str, Any]) -> Terms:
    """Return the terms of a run config. Raises ValueError that names the wrong key."""
    inputs = tuple(name.strip() for name in str(config["inputs"]).split(",") if name.strip())
    target, scaling = str(config["target"]).strip(), str(config["scaling"])
    if not inputs or not target:
        raise ValueError("inputs and target name the columns that all clients have")
    if target in inputs or len(set(inputs)) < len(inputs):
        raise ValueError(f"target={target} and inputs={', '.join(inputs)}: a name occurs twice")
    if scaling not in SCALINGS:
        raise ValueError(f"scaling={scaling} is none of {', '.join(SCALINGS)}")
    bounds = _read_bounds(str(config["bounds"]), (*inputs, target))
    if bounds:
        scaling = "bounds"
    return Terms(str(config["settings"]), inputs, target, scaling, bounds, bool(config["measured"]))


def _read_bounds(text: str, columns: Sequence[str]) -> dict[str, tuple[float, float]]:
    bounds = {}
    for part in filter(str.strip, text.split(",")):
        name, _, pair = part.rpartition("=")
        try:
            low, high = (float(number) for number in pair.split(":"))
        except ValueError:
            raise ValueError(f"bounds: {part.strip()!r} is not NAME=LOW:HIGH") from None
        if not -math.inf < low < high < math.inf:
            raise ValueError(f"bounds: {part.strip()!r} needs LOW < HIGH, both finite")
        bounds[name.strip()] = low, high
    if bounds and set(bounds) != set(columns):
        raise ValueError(f"bounds are of {', '.join(bounds)}; the columns are {', '.join(columns)}")
    return bounds


# --- rows ---------------------------------------------------------------------------------------


class Place(NamedTuple):
    """Position in a file.

    offset  number of bytes before it; 0 stands for the first row
    line    number of lines before it
    """

    offset: int = 0
    line: int = 0


def read_rows(
    path: Path, terms: Terms, start: Place, n: int
) -> tuple[np.ndarray, np.ndarray, Place, bool]:
    """Read the next rows of an owner's file.

    Parameters
    ----------
    path
        A text file with a header. Columns that ``terms`` does not name are ignored, and so are rows
        without a target.
    terms
        Names of the columns.
    start, n
        Position after the rows that were read before, and most rows to read.

    Returns
    -------
    X, y, place, ended
        Inputs (m, d) with NaN for missing values, targets (m,), position after these rows, and
        whether the file has no further row.

    Raises
    ------
    DataError
        The file cannot be read, lacks a column, or has a cell that is not a finite number.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise DataError(f"{path}: the rows of a data owner are a text file: {', '.join(SUFFIXES)}")
    try:
        file = open(path, encoding="utf-8-sig", newline="")  # noqa: SIM115
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    with file:
        header = file.readline()
        delimiter = max(DELIMITERS, key=header.count)
        lines = iter(file.readline, "")  # unlike an iteration of the file, it allows ``tell``
        cells_of_lines = csv.reader(itertools.chain([header], lines), delimiter=delimiter)
        names = [cell.strip() for cell in next(cells_of_lines, [])]
        wanted = (*terms.inputs, terms.target)
        if wrong := [name for name in wanted if names.count(name) != 1]:
            raise DataError(
                f"{path.name} has not one column {wrong[0]!r}: the federation has "
                f"{', '.join(wanted)}; the header is {header.strip()[:200]!r}"
            )
        places, passed = [names.index(name) for name in wanted], 0
        if start.offset:
            file.seek(start.offset)
            passed = start.line - cells_of_lines.line_num
        labelled = _labelled(cells_of_lines, path.name, passed, len(names), places[-1])
        found = list(itertools.islice(labelled, n))
        place = Place(file.tell(), passed + cells_of_lines.line_num)
        ended = next(labelled, None) is None
    values = [
        [_number(cells[k], f"{path.name}, line {line}, column {names[k]}") for k in places]
        for line, cells in found
    ]
    rows = np.array(values).reshape(-1, len(wanted))
    return rows[:, :-1], rows[:, -1], place, ended


def _labelled(
    reader: Any, name: str, passed: int, n_columns: int, target: int
) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the cells of each row with a target.

    ``passed`` is the number of lines that were skipped, which the CSV reader has not counted.
    """
    for cells in reader:
        number = passed + reader.line_num
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != n_columns:
            raise DataError(
                f"{name}, line {number} has {len(cells)} cells; the header has {n_columns}"
            )
        if cells[target].strip().lower() not in MISSING:
            yield number, cells


def _number(cell: str, place: str) -> float:
    if cell.strip().lower() in MISSING:
        return math.nan
    try:
        number = float(cell)
    except ValueError:
        number = math.inf
    if not math.isfinite(number):
        raise DataError(
            f"{place}: {cell!r} is not a finite number. Encode text as numbers, the same at every "
            "client."
        )
    return number


class ScaledRow(NamedTuple):
    """Row and target in scaled units.

    x       (d,) scaled inputs
    y       scaled target
    centre, unit  a scaled prediction f is ``centre + unit * f`` in units of the target
    known   whether centre and unit are known. If the owner scales by its rows, they are known after
            its first target
    """

    x: np.ndarray
    y: float
    centre: float
    unit: float
    known: bool


class Units:
    """Scaling of the rows of one data owner, by ``terms.scaling``.

    With scaling "columns", statistics of the owner's rows determine the scale. A target is first
    scaled, and then added to the statistics.
    """

    def __init__(self, terms: Terms) -> None:
        self.scaling = terms.scaling
        self._columns = Moments(len(terms.inputs))
        self._targets = TargetScaler(0, scaled=terms.scaling != "none")
        self._bounds: TargetUnits | None = None
        if terms.bounds:
            self._low, self._high = np.array([terms.bounds[name] for name in terms.inputs]).T
            low, high = terms.bounds[terms.target]
            self._bounds = TargetUnits(N_FIXED, (low + high) / 2.0, high - low)

    def scale(self, x: np.ndarray, y: float) -> ScaledRow:
        """Scale the inputs by the rows up to this one, and the target by the targets before it."""
        units = self._bounds or self._targets.now
        n, centre, unit = units
        label = y if self.scaling == "none" else units.scaled(y, soft=True)
        if self.scaling != "bounds":
            self._targets.take_one(y)
        return ScaledRow(self._inputs(x), label, centre, unit, n > 0 or self.scaling == "none")

    def _inputs(self, x: np.ndarray) -> np.ndarray:
        if self.scaling == "none":
            return np.nan_to_num(x)
        if self.scaling == "bounds":
            scaled = (x - (self._low + self._high) / 2.0) / (self._high - self._low)
            return softened(np.nan_to_num(scaled))
        standardised = self._columns.standardised_row(x, math.inf)
        assert standardised is not None  # the limit is infinite
        return softened(standardised.z)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return copies of all arrays that ``restore`` needs."""
        columns = {f"columns.{name}": a for name, a in self._columns.arrays().items()}
        return columns | {f"labels.{name}": a for name, a in self._targets.arrays().items()}

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        """Restore the scaling from ``arrays()``."""
        self._columns.restore(below("columns.", kept))
        self._targets.restore(below("labels.", kept))


def read_state(folder: Path, terms: Terms) -> dict[str, np.ndarray]:
    """Return the saved arrays of a client or server from its folder, or {} before its first round.

    Raises ValueError if the folder belongs to other terms.
    """
    if not (folder / STATE).exists():
        return {}
    with np.load(folder / STATE, allow_pickle=False) as archive:
        kept = {name: archive[name] for name in archive.files}
    begun, now = json.loads(str(kept.pop("terms"))), json.loads(terms.text())
    if differing := [name for name in now if begun.get(name) != now[name]]:
        raise ValueError(
            f"{folder} holds a federation with other terms ({', '.join(differing)}): go on with "
            "those, or name another folder"
        )
    return kept


def write_state(folder: Path, terms: Terms, arrays: Mapping[str, np.ndarray]) -> None:
    """Save the arrays of a client or server in its folder. ``read_state`` reads them.

    Parameters
    ----------
    folder
        Folder of the client or server.
    terms
        Terms of the federation, stored beside the arrays.
    arrays
        Arrays of the state by name.
    """
    write_atomically(folder / STATE, npz_bytes({"terms": np.array(terms.text()), **arrays}))


# --- the owner ----------------------------------------------------------------------------------


class Reply(NamedTuple):
    """Reply of a client to a broadcast.

    update         message with parameters and losses; None if the client has no row in the round
    n_rows         number of rows learned since the previous broadcast
    n_scored       number of these rows whose prediction was in units of the target
    squared_error  sum of squared errors over the scored rows; 0 unless ``measured``
    regret         regret so far (equation 11), in scaled units; NaN unless ``measured``
    done           whether the client has learned its last row
    """

    update: Update | None
    n_rows: int
    n_scored: int
    squared_error: float
    regret: float
    done: bool


class DataOwner:
    """Client ``number`` of a federation, with the rows of the file ``path``.

    Its state is saved in ``folder``. After an error, construct a new owner with the same folder.
    Raises ValueError if the folder belongs to another client or other terms.
    """

    def __init__(self, path: Path, folder: Path, number: int, terms: Terms, plan: Plan) -> None:
        if not 0 <= number < len(plan.lengths):
            raise ValueError(f"partition-id={number}: clients are 0 to {len(plan.lengths) - 1}")
        self.path, self.folder, self.terms, self.plan = path, folder, terms, plan
        folder.mkdir(parents=True, exist_ok=True)
        self.party = Client(plan, plan.settings.seed, number)
        self.units = Units(terms)
        self.n_rows = self.t = 0
        self._place = Place()
        self._last: Reply | None = None
        kept = read_state(folder, terms)
        if kept:
            self._restore(number, kept)
        else:  # remove the predictions that a crash before the first state left
            (folder / PREDICTIONS).unlink(missing_ok=True)

    def play(self, broadcast: Broadcast) -> Reply:
        """Predict and learn the next rows, and return the reply to the server.

        Raises the errors of ``read_rows`` and ``Client.play``. Then the folder does not change, and
        the same rows are read in the next round.
        """
        if self._last is not None and broadcast.t <= self.t:
            if broadcast.t < self.t:
                raise Refused(
                    f"round {broadcast.t} was asked for, and {self.t} was played: the server has "
                    "lost what it had learned"
                )
            return self._last
        first = broadcast.t - self.party.every
        n_wanted = min(self.party.every, int(self.plan.lengths.max()) - first)
        X, y, place, ended = read_rows(self.path, self.terms, self._place, n_wanted)
        if not len(y):
            return Reply(None, 0, 0, 0.0, math.nan, True)
        scaled = [self.units.scale(x, label) for x, label in zip(X, y, strict=True)]
        x_units, y_units, centre, unit, known = map(np.array, zip(*scaled, strict=True))
        update = self.party.play(broadcast, x_units, y_units)
        y_hat = centre + unit * self.party.y_hat
        errors = np.square(y_hat - y)[known]
        lines = [
            (first + s + 1, self.n_rows + s + 1, float(y_hat[s]), float(y[s]))
            for s in range(len(y))
        ]
        measured = float(errors.sum()), self.party.regret
        if not self.terms.measured:
            errors, measured = errors[:0], (0.0, math.nan)
        reply = Reply(update, len(y), len(errors), *measured, ended)
        self._place = place
        self._keep(broadcast.t, reply, lines)
        return reply

    def finish(self, broadcast: Broadcast) -> None:
        """Set the parameters to those of the broadcast after the last round."""
        self.party.take(broadcast)

    def _keep(self, t: int, reply: Reply, lines: list[tuple[int, int, float, float]]) -> None:
        with open(self.folder / PREDICTIONS, "a") as file:
            if not file.tell():
                file.write("round,row,y_hat,y\n")
            file.writelines(",".join(map(repr, line)) + "\n" for line in lines)
            size = file.tell()
        self.t, self.n_rows, self._last = t, self.n_rows + len(lines), reply
        arrays = {f"party.{name}": a for name, a in self.party.checkpoint().items()}
        arrays |= {f"units.{name}": a for name, a in self.units.arrays().items()}
        update, *numbers = reply
        if update is not None:
            arrays |= {f"update.{name}": getattr(update, name) for name in Update._fields[2:]}
        arrays["reply"] = np.array(numbers, dtype=float)
        arrays["counts"] = np.array([self.party.client, t, self.n_rows, *self._place, size])
        write_state(self.folder, self.terms, arrays)

    def _restore(self, number: int, kept: Mapping[str, np.ndarray]) -> None:
        client, self.t, self.n_rows, *place, size = kept["counts"].tolist()
        self._place = Place(*place)
        if client != number:
            raise ValueError(f"{self.folder} is of client {client}, and this is client {number}")
        self.party.restore(below("party.", kept))
        self.units.restore(below("units.", kept))
        n_rows, n_scored, squared_error, regret, done = kept["reply"].tolist()
        sent = below("update.", kept)
        update = Update(client, self.t, **sent) if sent else None
        self._last = Reply(update, int(n_rows), int(n_scored), squared_error, regret, bool(done))
        if (self.folder / PREDICTIONS).stat().st_size > size:  # lines of a round that ended early
            os.truncate(self.folder / PREDICTIONS, size)
