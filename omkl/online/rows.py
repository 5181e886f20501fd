"""Convert the rows that a user passes to arrays of numbers.

Rows are given by position, by name, or as a data frame. Texts, categories and dates become numbers
as in a file (``omkl.datasets.columns``). The first data frame decides how a column is encoded. If
the first rows are few, more categories are likely to follow, so texts are hashed.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.datasets.cells import is_blank, word
from omkl.datasets.columns import (
    FEWEST_ROWS,
    NUMBERS,
    Column,
    column_of,
    declaration,
    hashed,
    hashed_place,
    place_of,
    plain_column,
    require_distinct,
)
from omkl.datasets.notices import NewCategories, of_new_categories
from omkl.datasets.read import CHUNK_ROWS
from omkl.utils.wording import few

if TYPE_CHECKING:
    import pandas as pd

CURE = "Write it in this way, make it NaN or None, or leave the column out."


class Block(NamedTuple):
    """Scaled rows and their targets, in groups. A group is predicted before its rows are learned.

    X        (n, d + lags) rows scaled for learning; the columns for past targets are not filled yet
    ahead    (n, d + lags) the same rows, each scaled by the moments of the row itself and of the
             rows learned before its prediction
    y        (n,) targets, or (n, m) of m outputs; NaN for an unknown target
    far      (n,) bool, whether each row has an input far outside its usual range
    slots    (n,) slot of the series of each row, its index in the arrays of the state
    starts   (G + 1,) indices of the first rows of the G groups, then n
    """

    X: np.ndarray
    ahead: np.ndarray
    y: np.ndarray
    far: np.ndarray
    slots: np.ndarray
    starts: np.ndarray

    def part(self, rows: slice) -> Block:
        """Return the block of the rows in a slice."""
        X, ahead, y, far, slots = (array[rows] for array in self[:-1])
        return Block(X, ahead, y, far, slots, starts_within(self.starts, rows))


def starts_within(starts: np.ndarray, rows: slice) -> np.ndarray:
    """Return ``Block.starts`` for a slice of the rows. A group that is cut becomes two groups."""
    if rows.start == rows.stop:
        return starts[:1]  # 0
    first, last = np.searchsorted(starts, [rows.start + 1, rows.stop])
    return np.concatenate([[0], starts[first:last] - rows.start, [rows.stop - rows.start]])


class Rows:
    """Convert rows to the inputs of a learner.

    Parameters
    ----------
    inputs
        Names (d,) of the inputs of a learner.
    named
        Whether a row may be a mapping of names to values.
    columns
        Encodings of the columns of a row; () if each column is an input as it is.
    left_out
        Names of columns that are not inputs but may occur in rows.
    """

    def __init__(
        self,
        inputs: Sequence[str],
        named: bool,
        columns: Sequence[Column] = (),
        left_out: Sequence[str] = (),
    ) -> None:
        self.inputs, self.named = tuple(inputs), named
        self.columns, self.left_out = tuple(columns), frozenset(left_out)
        self.names = tuple(column.name for column in self.columns) or self.inputs
        self._plain = all(column.recipe == NUMBERS for column in self.columns)
        self._readers = self.columns or tuple(map(plain_column, self.inputs))
        self._warned: set[str] = set()  # subjects of warnings so far
        # Columns that are hashed because the first rows were few: the first word at each input.
        self._hashed: dict[str, dict[int, str]]
        self._hashed = {column.name: {} for column in columns if column.recipe.get("of_few")}

    def one(self, x: Any, new: dict[str, Counter[str]] | None = None) -> np.ndarray:
        """Return the row x as numbers (d,), NaN for an unknown input.

        Categories that did not occur in the first rows are counted in ``new``, by column. Raises
        ValueError naming an invalid cell.
        """
        x = with_names(x)
        if type(x) is not tuple and isinstance(x, Mapping):  # isinstance takes as long as the rest
            x = self._by_name(x)
        if self._plain or self._encoded(x):
            try:
                row = np.asarray(x, dtype=np.float64)
            except (TypeError, ValueError):  # text: read each cell
                return self._of_cells([x], new)[0]
            if row.shape != (len(self.inputs),):
                raise self._misshapen(row.shape)
            return row
        return self._of_cells([x], new)[0]

    def _of_cells(self, X: Sequence[Any], new: dict[str, Counter[str]] | None) -> np.ndarray:
        """Return rows as numbers (n, d). Each cell is read separately."""
        found: dict[str, Counter[str]] = {}
        rows = []
        for n, x in enumerate(X, start=1):
            if np.ndim(x) == 0 or len(x) != len(self._readers):
                raise self._misshapen((len(x),) if np.ndim(x) else ())
            row: list[float] = []
            where = f"row {n}, " if len(X) > 1 else ""
            for column, cell in zip(self._readers, x, strict=True):
                numbers = column.cell(cell, where, CURE)
                if column.how == "words" and not any(numbers):
                    found.setdefault(column.name, Counter())[word(cell)] += 1
                elif column.name in self._hashed:
                    self._find_shared(column.name, [cell])
                row += numbers
            rows.append(row)
        self._count(found, new)
        return np.array(rows, dtype=np.float64)

    def many(self, X: Any, new: dict[str, Counter[str]] | None = None) -> np.ndarray:
        """Return rows as numbers (n, d), from an array, a list of rows, or a data frame.

        Columns of a data frame are found by name. ``new`` and errors are as in ``one``.
        """
        X = with_names(X)
        if is_frame(X):
            return self._of_frame(X, new)
        if isinstance(X, Sequence) and any(isinstance(x, Mapping) for x in X):
            X = [self._by_name(x) for x in X]
        if not self._plain and len(X) and not self._encoded(X[0]):
            return self._of_cells(X, new)
        try:
            rows = np.ascontiguousarray(X, dtype=np.float64)
        except (TypeError, ValueError):
            return self._of_cells(X, new)
        if rows.ndim != 2 or rows.shape[1] != len(self.inputs):
            if rows.shape == (0,):
                return np.empty((0, len(self.inputs)))
            raise self._misshapen(rows.shape)
        return rows

    def _encoded(self, x: Any) -> bool:
        """Return whether a row is an array of inputs, so that no column needs encoding."""
        return (
            isinstance(x, np.ndarray)
            and x.dtype.kind == "f"
            and len(x) == len(self.inputs) != len(self.names)
        )

    def _misshapen(self, given: tuple[int, ...]) -> ValueError:
        d = len(self.names)
        return ValueError(f"a row is x ({d},), rows are X (n, {d}); got {given}")

    def _by_name(self, x: Mapping[str, Any]) -> Sequence[Any]:
        if self.named and len(x) == len(self.names):
            try:
                return tuple([x[name] for name in self.names])
            except KeyError:
                pass
        self._require_known(list(x))
        return tuple([x.get(name) for name in self.names])

    def _of_frame(self, frame: pd.DataFrame, new: dict[str, Counter[str]] | None) -> np.ndarray:
        if self.named:
            frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
            self._require_known(list(frame.columns))
            if missing := [name for name in self.names if name not in frame.columns]:
                self._warn(
                    "missing",
                    f"the data frame has no {few(missing)}: each counts as its mean so far",
                )
            frame = frame.reindex(columns=list(self.names))
        elif frame.shape[1] != len(self._readers):
            raise self._misshapen(frame.shape)
        if self._plain and of_numbers(frame):
            return np.ascontiguousarray(frame.to_numpy(dtype=np.float64, na_value=np.nan))
        frame, found = frame.set_axis(list(self.names), axis=1), dict[str, Counter[str]]()
        rows = encoded(frame, self._readers, found)
        for column in list(self._hashed):
            self._find_shared(column, frame[column].unique())
        self._count(found, new)
        return rows

    def _require_known(self, names: Sequence[str]) -> None:
        """Raise ValueError if no name is known, and warn once of unknown names."""
        if not self.named:
            raise ValueError(
                f"a row by name needs names: make the learner with inputs={list(names)[:40]!r} in "
                f"place of inputs={len(self.inputs)}"
            )
        known = set(self.names)
        if not known.intersection(names):
            raise ValueError(
                f"these inputs came: {few(names)}; the learner was made for: "
                f"{few(self.names)}. One that is not known is None or NaN."
            )
        if unknown := [name for name in names if name not in known | self.left_out]:
            self._warn(
                "unknown",
                f"{few(unknown)}: the learner was made for {few(self.names)}, and what else "
                "comes is ignored",
            )

    def _find_shared(self, column: str, cells: Iterable[Any]) -> None:
        """Warn once if two words of a hashed column share an input."""
        for text in [word(cell) for cell in cells if not is_blank(cell)]:
            first = self._hashed[column].setdefault(hashed_place(text), text)
            if first != text:
                del self._hashed[column]
                self._warn(
                    f"words of {column}",
                    f"{column}: {first!r} and {text!r} have the same input, as the first rows did "
                    f"not show the categories: columns={{{column!r}: 'category {first} {text}'}}, "
                    "with all of them, gives each an input",
                )
                return

    def _count(self, found: NewCategories, new: dict[str, Counter[str]] | None) -> None:
        """Add the counts ``found`` to ``new``, and warn once of each column with new categories."""
        for column, text in zip(
            found, of_new_categories(found, "columns={{'{}': 'text'}}"), strict=True
        ):
            self._warn(f"category of {column}", text)
            if new is not None:
                new[column] = new.get(column, Counter()) + found[column]

    def _warn(self, what: str, text: str) -> None:
        """Warn with this text, once per subject ``what``."""
        if what not in self._warned:
            self._warned.add(what)
            warnings.warn(text, stacklevel=5)


def targets_of(Y: Any, outputs: Sequence[str | int]) -> np.ndarray:
    """Return the targets Y of n rows as numbers (n, m), one column per output.

    Y is given by position or by name of the output. A missing target becomes NaN. Raises ValueError
    naming an invalid target.
    """
    Y, m = with_names(Y), len(outputs)
    by_name = [set(Y.columns)] if is_frame(Y) else [set(y) for y in Y if isinstance(y, Mapping)]
    named = isinstance(outputs[0], str)
    if (named or not is_frame(Y)) and (unknown := set().union(*by_name) - set(outputs)):
        raise ValueError(f"{few(sorted(map(str, unknown)))}: no output; {few(outputs)} are")
    if is_frame(Y) and named:
        Y = Y.reindex(columns=list(outputs))
    elif by_name and not is_frame(Y):
        Y = [[y.get(name) for name in outputs] if isinstance(y, Mapping) else y for y in Y]
    try:
        targets = np.array(Y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"targets are numbers, (m,) of a row, NaN or None: {error}") from None
    if targets.ndim != 2 or targets.shape[1] != m:
        shape = targets.shape[1:] if isinstance(Y, list) and len(Y) == 1 else targets.shape
        raise ValueError(f"targets of {m} outputs are y ({m},), of n rows (n, {m}); got {shape}")
    if np.isinf(targets).any():
        raise ValueError(f"targets are finite numbers; got {targets[np.isinf(targets)][0]}")
    return targets


def is_frame(X: Any) -> bool:
    """Return whether X is a pandas data frame."""
    return hasattr(X, "columns") and hasattr(X, "iloc")


def with_names(X: Any) -> Any:
    """Convert a Polars or PyArrow table to a pandas data frame, and a named Series to a mapping.

    The rows of a list are converted one by one. Any other X is returned unchanged.
    """
    if type(X) is tuple or isinstance(X, np.ndarray | Mapping):
        return X
    if hasattr(X, "to_pandas"):
        return X.to_pandas()
    if hasattr(X, "to_dict") and not hasattr(X, "columns"):
        named: dict[Any, Any] = X.to_dict()
        return named if all(isinstance(name, str) for name in named) else X
    if isinstance(X, list) and X and hasattr(X[0], "to_dict"):
        return [with_names(x) for x in X]
    return X


def columns_in(
    first: Any, inputs: Sequence[str] | None = None, declared: Mapping[str, str] | None = None
) -> list[Column]:
    """Return the encodings of the columns of the first rows.

    Parameters
    ----------
    first
        A data frame, a mapping, or a list of mappings.
    inputs
        Names of the inputs; None: all columns except identifiers and empty columns.
    declared
        Kind of a column by its name, as in ``omkl.learner``.

    Returns
    -------
    list of Column
        Columns that become inputs. If ``inputs`` is None, also the columns that are left out.

    Raises
    ------
    DataError
        A declared column does not exist, or a column cannot be an input.
    """
    declared = declared or {}
    is_small = isinstance(first, Mapping) or (not is_frame(first) and len(first) < FEWEST_ROWS)
    if is_small and not declared and of_numbers(first):  # without pandas: 0.4 s and 60 MB
        rows = [first] if isinstance(first, Mapping) else first
        names = [str(name) for name in dict.fromkeys(name for row in rows for name in row)]
        require_distinct(names, "the row")
        return [plain_column(name) for name in names if inputs is None or name in inputs]
    frame = _as_frame(first).iloc[:CHUNK_ROWS]
    for name in declared:
        place_of(name, list(frame.columns), "the data frame", "columns")
    columns = []
    for name in frame.columns:
        if inputs is not None and name not in inputs:
            continue
        column = column_of(frame[name], name, "the data frame", declared=declared.get(name))
        has_words = name in declared and declaration(name, declared[name]).words
        if len(frame) < FEWEST_ROWS and column.how == "words" and not has_words:
            column = hashed(name, len(column.recipe["known"]), len(frame), of_few=True)
        if name not in declared and all(map(is_blank, frame[name])):
            column = column.changed(kind="numbers", why=f"{column.why}: numbers are expected")
        elif name not in declared and inputs is not None:
            column = column.as_named("it is named in inputs", "the data frame")
        elif column.kind == "left out":
            column = column.left_out(column.why)
        columns.append(column)
    return columns


def _as_frame(first: Any) -> pd.DataFrame:
    import pandas as pd

    rows = [first] if isinstance(first, Mapping) else first
    frame = first if is_frame(first) else pd.DataFrame([dict(row) for row in rows])
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    require_distinct(list(frame.columns), "the data frame")
    return frame


def of_numbers(first: Any) -> bool:
    """Return whether the first rows, given by name, contain only numbers and missing values."""
    if not is_frame(first):
        return all(
            value is None or isinstance(value, int | float | np.number | np.bool_)
            for row in ([first] if isinstance(first, Mapping) else first)
            for value in row.values()
        )
    return all(kind.kind in "biuf" for kind in first.dtypes)


def encoded(
    frame: pd.DataFrame, columns: Sequence[Column], new: dict[str, Counter[str]] | None = None
) -> np.ndarray:
    """Return the inputs (n, d) of the rows of a data frame.

    Parameters
    ----------
    frame
        The rows.
    columns
        Encoding of each column.
    new
        Receives the number of occurrences of each new category, by column.

    Raises
    ------
    ValueError
        A cell cannot be encoded; the text names it.
    """
    rows = np.arange(1, len(frame) + 1)
    parts = [column.encode(frame[column.name], rows, "the rows", CURE, new) for column in columns]
    return np.ascontiguousarray(np.concatenate(parts, axis=1))
