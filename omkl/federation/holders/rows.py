"""A client's own rows, one a line of a text file or of standard input.

Nothing but the next line is read. In a stream from standard input the target of a row may be left
empty: its prediction is then written out, and the next line is its label.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np

from omkl.datasets import DataError
from omkl.online.rows import listed

BLANKS = ("", "na", "nan", "null", "none")
DELIMITERS = (",", ";", "\t")


class Row(NamedTuple):
    """Inputs x (d,), NaN where blank, and the label, NaN where it is not known yet."""

    x: np.ndarray
    y: float


class OwnRows:
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
            told = f"two columns {twice.pop()!r}" if twice else f"no column {', '.join(missing)}"
            raise DataError(f"{name} has {told}; its first line is {header.strip()[:200]!r}")
        self.columns = [c for c in self._header if c not in (target, *left_out)]
        self.n_read = 0
        self.n_without_label = 0
        self._next: Row | None = None
        self._order: list[int] | None = None

    def arrange(self, inputs: Sequence[str]) -> None:
        """Let x have the columns in this order; DataError, with both lists, if they are others."""
        if sorted(inputs) != sorted(self.columns):
            raise DataError(
                f"{self.name} has the columns {listed(self.columns)} beside {self.target}; the "
                f"federation has {listed(inputs)}"
            )
        self._order = [self._header.index(column) for column in inputs]

    def skip(self, n_rows: int) -> None:
        """Pass over rows that were learned before; none of a live stream, which does not repeat."""
        while not self.live and self.n_read < n_rows and self.row() is not None:
            pass

    def row(self) -> Row | None:
        """The next row with a label, or of a live stream without; None at the end."""
        found = self._take() if self._next is None else self._next
        self._next = None
        self.n_read += found is not None
        return found

    @property
    def ended(self) -> bool:
        """Whether there is no further row; of a live stream that is known when none comes."""
        if self.live:
            return False
        if self._next is None:
            self._next = self._take()
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

    def _take(self) -> Row | None:
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
                f"{self._place()}, column {column}: {cell!r} is no number. Encode words as "
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


def opened(path: str, stdin: TextIO, target: str, left_out: Sequence[str] = ()) -> OwnRows:
    """The rows of a file, or with "-" of standard input; DataError if it cannot be read."""
    if path == "-":
        return OwnRows(stdin, "standard input", target, left_out, live=True)
    file = Path(path).expanduser()
    if file.suffix.lower() not in (".csv", ".tsv", ".txt"):
        raise DataError(f"{file}: a client's rows are a text file: .csv, .tsv or .txt")
    try:
        source = open(file, encoding="utf-8-sig", newline="")  # noqa: SIM115, read row by row
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from None
    try:
        return OwnRows(source, file.name, target, left_out)
    except DataError:
        source.close()
        raise
