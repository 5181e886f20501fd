"""A client's own rows, one a line of a text file or of standard input, and their scaling.

Nothing but the next line is read. In a stream from standard input the target of a row may be left
empty: its prediction is then written out, and the next line is its label.

Rows are scaled to the units that a federation learns in, and predictions back:

columns  inputs and labels are standardised by what this client has seen of them: nothing looks
         ahead, and nothing of it is sent. As ``omkl.learner(scaling="columns")`` does, to the bit.
bounds   by [low, high] of the terms: (x - middle) / (high - low).
none     rows are taken as they are; a blank is 0.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np

from omkl.datasets import DataError
from omkl.datasets.scaling import LabelHistory, Moments, RunningLabelStats, softened
from omkl.federation.terms import Terms
from omkl.online.stream_learner import below
from omkl.utils.wording import few

BLANKS = ("", "na", "nan", "null", "none")
DELIMITERS = (",", ";", "\t")
FIXED = 2.0**60  # labels behind bounds: none is too far out for so many


class Row(NamedTuple):
    """Inputs x (d,), NaN where blank, and the label, NaN where it is not known yet."""

    x: np.ndarray
    y: float


class ClientRows:
    """The rows of one client, in their order.

    ``columns`` are those of the header, without the target and what is ``left_out``; ``arrange``
    says in which order x has them. ``live``: of standard input, where a line may come late.
    """

    def __init__(
        self,
        source: TextIO,
        name: str,
        target: str,
        left_out: Sequence[str] = (),
        live: bool = False,
    ) -> None:
        self.name, self.target, self.live = name, target, live
        self._source = source
        header = source.readline()
        delimiter = max(DELIMITERS, key=header.count)
        self._lines: Iterator[list[str]] = csv.reader(_lines_of(source), delimiter=delimiter)
        self._header = [
            cell.strip() for cell in next(csv.reader([header], delimiter=delimiter), [])
        ]
        twice = {column for column in self._header if self._header.count(column) > 1}
        missing = [column for column in (target, *left_out) if column not in self._header]
        if twice or missing or not self._header:
            wrong = f"two columns {twice.pop()!r}" if twice else f"no column {', '.join(missing)}"
            raise DataError(f"{name} has {wrong}; its first line is {header.strip()[:200]!r}")
        self.columns = [c for c in self._header if c not in (target, *left_out)]
        self.n_read = 0
        self.n_without_label = 0
        self._next: Row | None = None
        self._order: list[int] | None = None

    def arrange(self, inputs: Sequence[str]) -> None:
        """Let x have the columns in this order; DataError, with both lists, if they are others."""
        if sorted(inputs) != sorted(self.columns):
            raise DataError(
                f"{self.name} has the columns {few(self.columns)} beside {self.target}; the "
                f"federation has {few(inputs)}"
            )
        self._order = [self._header.index(column) for column in inputs]

    def skip(self, n_rows: int) -> None:
        """Pass over rows that were learned before; none of a live stream, which does not repeat."""
        while not self.live and self.n_read < n_rows and self.row() is not None:
            pass

    def row(self) -> Row | None:
        """The next row with a label, or of a live stream without; None at the end."""
        row = self._read() if self._next is None else self._next
        self._next = None
        self.n_read += row is not None
        return row

    @property
    def ended(self) -> bool:
        """Whether there is no further row; of a live stream that is known when none comes."""
        if self.live:
            return False
        if self._next is None:
            self._next = self._read()
        return self._next is None

    def label(self, tell: Callable[[], None]) -> float:
        """The label of a row that had none, from the next line; DataError where none comes."""
        tell()
        line = next(self._lines, None)
        if line is None:
            raise DataError(f"{self.name} ended where the label of a row was to come")
        return self._number(line[0] if line else "", self.target)

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def _read(self) -> Row | None:
        while (cells := next(self._lines, None)) is not None:
            if not any(cell.strip() for cell in cells):
                continue
            row = self._row_of(cells)
            if not math.isnan(row.y) or self.live:
                return row
            self.n_without_label += 1
        return None

    def _row_of(self, cells: Sequence[str]) -> Row:
        if self._order is None:
            raise RuntimeError("arrange() says in which order the columns are")
        if len(cells) != len(self._header):
            raise DataError(
                f"{self._place()} has {len(cells)} cells; the first line has {len(self._header)}"
            )
        x = np.array([self._number(cells[k], self._header[k]) for k in self._order])
        return Row(x, self._number(cells[self._header.index(self.target)], self.target))

    def _number(self, cell: str, column: str) -> float:
        if cell.strip().lower() in BLANKS:
            return math.nan
        try:
            number = float(cell)
        except ValueError:
            raise DataError(
                f"{self._place()}, column {column}: {cell!r} is no number. Encode text as "
                "numbers, the same at every client."
            ) from None
        if not math.isfinite(number):
            raise DataError(f"{self._place()}, column {column}: {cell!r} is not finite")
        return number

    def _place(self) -> str:
        return f"{self.name}, row {self.n_read + self.n_without_label + 1}"


def _lines_of(source: TextIO) -> Iterator[str]:
    """Line by line: a loop over a pipe would wait for more than the next."""
    return iter(source.readline, "")


def open_rows(path: str, stdin: TextIO, target: str, left_out: Sequence[str] = ()) -> ClientRows:
    """The rows of a file, or with "-" of standard input; DataError if it cannot be read."""
    if path == "-":
        return ClientRows(stdin, "standard input", target, left_out, live=True)
    file = Path(path).expanduser()
    if file.suffix.lower() not in (".csv", ".tsv", ".txt"):
        raise DataError(f"{file}: a client's rows are a text file: .csv, .tsv or .txt")
    try:
        source = open(file, encoding="utf-8-sig", newline="")  # noqa: SIM115, read row by row
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from None
    try:
        return ClientRows(source, file.name, target, left_out)
    except DataError:
        source.close()
        raise


# --- scaling -----------------------------------------------------------------------------------


class Units:
    """The scaling of one client; it learns from each row that it is given."""

    def __init__(self, terms: Terms) -> None:
        self.scaling = terms.scaling
        self._columns = Moments(len(terms.inputs))
        self._labels = LabelHistory(0, scaled=terms.scaling != "none")
        self.n_outside = 0  # numbers beyond their bounds
        self._bounds = np.array([terms.bounds[name] for name in terms.inputs if terms.bounds])
        self._stats = self._labels.take(np.empty(0)).last
        if terms.scaling == "bounds":
            low, high = terms.bounds[terms.target]
            self._stats = RunningLabelStats(FIXED, (low + high) / 2.0, high - low)

    @property
    def knows_labels(self) -> bool:
        """Whether predictions are in units of the target: not before the first label."""
        return self._stats.n_known > 0 or self.scaling == "none"

    def inputs(self, x: np.ndarray) -> np.ndarray:
        """The row x (d,) scaled, itself among what is known."""
        if self.scaling == "none":
            return np.nan_to_num(x)
        if self.scaling == "bounds":
            low, high = self._bounds.T
            self.n_outside += int(np.count_nonzero((x < low) | (x > high)))
            there = ~np.isnan(x) & (high > low)
            off = np.divide(x - (low + high) / 2.0, high - low, out=np.zeros(len(x)), where=there)
            return softened(off)
        scaled = self._columns.standardised_row(x, math.inf)
        assert scaled is not None  # nothing is too large
        return softened(scaled.z)

    def label(self, y: float) -> float:
        """The label y in units of those before it."""
        return self._stats.scaled(y, soft=True) if self.scaling != "none" else y

    def prediction(self, f: float) -> float:
        """What the federation says, in the units of the target."""
        return self._stats.centre + self._stats.unit * f

    def learn(self, y: float) -> None:
        """Take the label y into what is known."""
        if self.scaling != "bounds":
            self._stats = self._labels.take_one(y)

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of all that it knows, which ``restore`` takes."""
        columns = {f"columns.{name}": a for name, a in self._columns.arrays().items()}
        return columns | {f"labels.{name}": a for name, a in self._labels.arrays().items()}

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        self._columns.restore(below("columns.", kept))
        self._labels.restore(below("labels.", kept))
        if self.scaling != "bounds":
            self._stats = self._labels.take(np.empty(0)).last
