"""Labels from outside: a human, a file or a function, asked only when the learner wants one.

    omkl-run algorithm=amkl_aks seeds=1 stream.labels=prompt dataset=file dataset.path=new.csv
    omkl-run ... stream.labels=answers.csv
    omkl.experiment.run.run(config, label=function)
    omkl.experiment.viewers.run_and_show(config, label=function)  # with figures and tracking

A function gets the row's number (from 1), its inputs (d,) and the prediction, and returns the
label. The labels of a run are kept in ``labels.csv`` of its folder as they come, so that a
session which is interrupted goes on where it ended; such a file, with the columns ``row`` and
``label``, is also what ``stream.labels=FILE`` reads.
"""

from __future__ import annotations

import csv
import io
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from omkl.core.learner import Trace, empty_trace
from omkl.datasets.base import DataError
from omkl.datasets.files import FileContent

COLUMNS = ("row", "label")

Label = Callable[[int, np.ndarray, float], float]
"""label(row, x (d,), y_hat) -> y"""


class Rounds(Protocol):
    """A learner whose rounds are opened and closed, as ``Learner`` has it."""

    spread: float

    def predict_one(self, x: np.ndarray) -> tuple[float, bool]: ...

    def learn_one(self, y: float) -> None: ...


def learn(
    learner: Rounds, X: np.ndarray, label: Label, before: int = 0
) -> tuple[Trace, np.ndarray]:
    """Stream rows X (n, d) through a learner that asks ``label`` for what it wants to know.

    ``before`` rows were streamed earlier. Returns what the learner predicted, and the labels (n,)
    that it got, NaN where it did not ask.
    """
    trace = empty_trace(len(X))
    y = np.full(len(X), np.nan)
    for s, x in enumerate(X):
        trace.y_hat[s], trace.asked[s] = learner.predict_one(x)
        trace.spread[s] = learner.spread
        if trace.asked[s]:
            y[s] = _checked(label(before + s + 1, x, float(trace.y_hat[s])), before + s + 1)
        learner.learn_one(y[s])
    return trace, y


def _checked(value: float, row: int) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise DataError(f"the label of row {row} is {number}: a label is a finite number")
    return number


class Prompt:
    """Asks on the terminal: the question goes to stderr, the answer is a line of stdin.

    ``rows`` are those of the stream before they are scaled, each (len(inputs),): what the learner
    sees tells a human little.
    """

    def __init__(self, inputs: Sequence[str], rows: Iterator[np.ndarray]) -> None:
        self.inputs = inputs
        self._rows = enumerate(rows, start=1)

    def __call__(self, row: int, x: np.ndarray, y_hat: float) -> float:
        shown = next(values for n, values in self._rows if n == row)
        named = zip(self.inputs, shown, strict=True)
        values = ", ".join(f"{name} {value:.6g}" for name, value in named)
        print(f"row {row}: {values}\n  prediction {y_hat:.4g}", file=sys.stderr)
        while True:
            print("  label: ", end="", file=sys.stderr, flush=True)
            line = sys.stdin.readline()
            if not line:
                raise DataError(
                    f"row {row}: the learner asks for a label and no more are given; the same "
                    "command goes on here"
                )
            try:
                return _checked(float(line), row)
            except ValueError:
                print(f"  {line.strip()!r} is no finite number", file=sys.stderr)


class File:
    """Looks labels up in a CSV file with the columns ``row``, from 1, and ``label``.

    ``sha256`` is that of the bytes that they were read from.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.labels, self.sha256, torn = _read(path)
        if torn is not None:
            raise DataError(
                f"{path}: the last line, {torn!r}, does not end with a newline, so nobody can say "
                "whether it is whole. Complete it, or take it out."
            )

    def __call__(self, row: int, x: np.ndarray, y_hat: float) -> float:
        if row not in self.labels:
            raise DataError(
                f"row {row}: the learner asks for its label and {self.path.name} has none"
            )
        return self.labels[row]


class Journal:
    """Writes labels down as they come; with ``resume`` it asks only for those not yet there.

    A last line that was cut off is taken out and asked for again, which stderr tells.
    """

    def __init__(self, path: Path, label: Label, resume: bool) -> None:
        self.path = path
        self.label = label
        self.labels: dict[int, float] = {}
        torn = None
        if resume and path.exists():
            self.labels, _, torn = _read(path)
        if torn is not None:
            with open(path, "rb+") as file:
                file.truncate(file.read().rfind(b"\n") + 1)
            print(
                f"{path.name}: the last line, {torn!r}, was cut off; its target is requested again",
                file=sys.stderr,
            )
        if not self.labels:
            path.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")

    def __call__(self, row: int, x: np.ndarray, y_hat: float) -> float:
        if row not in self.labels:
            value = _checked(self.label(row, x, y_hat), row)
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(f"{row},{value!r}\n")
            self.labels[row] = value
        return self.labels[row]


def read(path: Path) -> dict[int, float]:
    """Labels by row, of the lines that end. DataError where the file is not as it should be."""
    return _read(path)[0]


def _read(path: Path) -> tuple[dict[int, float], str, str | None]:
    """Labels by row, the sha256 of the file, and what stands after its last newline, if anything.

    A line without its newline may be cut off in the middle of its number: it is not believed.
    """
    try:
        content = FileContent(path)
        with content.open() as file:
            whole, newline, torn = file.read().rpartition(b"\n")
    except DataError as error:
        raise DataError(f"cannot read the labels: {error}") from None
    try:
        text = (whole + newline).decode("utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        lines = [(int(line["row"]), _checked(float(line["label"]), 0)) for line in reader]
        has_columns = set(COLUMNS) <= set(reader.fieldnames or ()) or (torn and not whole)
        if not has_columns or any(row < 1 for row, _ in lines):
            raise ValueError
    except (KeyError, TypeError, ValueError, csv.Error):
        raise DataError(
            f"{path} is no file of labels: it needs the columns row (from 1) and label (a finite "
            "number), separated by commas, under a header"
        ) from None
    labels = dict(lines)
    if len(labels) < len(lines):
        raise DataError(f"{path} has two labels for one row")
    return labels, content.sha256, torn.decode(errors="replace") if torn else None
