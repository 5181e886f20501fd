"""Read the chosen columns of a file as rows of numbers, and treat missing values."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from omkl.datasets import notices, prepare, read
from omkl.datasets.base import MOST_COLUMNS, Chunk, DataError, Piece, RowCount, as_data_error
from omkl.datasets.cells import NumberFormat, is_blank, word
from omkl.datasets.columns import (
    MODEL_CURE,
    NUMBERS,
    TARGET_CURE,
    Column,
    by_number,
    choose_columns,
    class_codes,
    column_of,
    columns_described,
    example,
    number_column,
    place_of,
    places_of,
    plain_column,
    series_are_whole,
    series_of,
)
from omkl.datasets.files import FileContent
from omkl.datasets.libsvm import LibsvmTable, words_in
from omkl.utils.wording import few

if TYPE_CHECKING:
    import pandas as pd


MOST_CLASSES = 100
ALL_LABELS = "all"  # value of dataset.labels that allows any number of classes
MOST_COUNTED = 100_000  # distinct values of a target; reading stops beyond it


class Table(Protocol):
    """Chosen columns of a file, which can be read several times."""

    names: tuple[str, ...]  # names of the inputs, followed by the target
    columns: Sequence[Column]  # encodings of the columns
    row_count: RowCount | None

    @property
    def notices(self) -> Sequence[str]:
        """Messages to the user about the rows that were read so far."""
        ...

    def raw(self) -> Iterator[Piece]:
        """Yield all rows."""
        ...


@dataclasses.dataclass
class ArrayTable:
    """A table in memory.

    Attributes
    ----------
    whole
        All T rows.
    order
        (T,) indices: row t of the stream is row ``order[t]`` of ``whole``.
    """

    names: tuple[str, ...]
    columns: Sequence[Column]
    notices: Sequence[str]
    row_count: RowCount | None
    whole: Piece
    order: np.ndarray

    @classmethod
    def holding(cls, table: Table, most_cells: int | None = None) -> ArrayTable:
        """Load all rows of a table. Raises DataError for more than ``most_cells`` cells."""
        pieces, n_cells = [], 0
        for piece in table.raw():
            n_cells += piece.values.size
            if most_cells and n_cells > most_cells:
                raise DataError(
                    f"stream.order=shuffled holds all rows in memory, and these are more than "
                    f"{most_cells:,} cells. Shuffle the file once and set stream.order=file."
                )
            pieces.append(piece)
        parts: Any = zip(*pieces, strict=True)
        arrays: list[Any] = [None if p[0] is None else np.concatenate(p) for p in parts]
        whole = Piece(*arrays)
        n = len(whole.rows)
        count = RowCount(n, True)
        return cls(table.names, table.columns, table.notices, count, whole, np.arange(n))

    def shuffled(self, seed: int) -> ArrayTable:
        """Return the table with its rows in random order. Rows are not copied."""
        order = np.random.default_rng(seed).permutation(len(self.order))
        return dataclasses.replace(self, order=order)

    def raw(self) -> Iterator[Piece]:
        size = read.chunk_rows(len(self.names))
        for start in range(0, len(self.order), size):
            yield self.whole.at(self.order[start : start + size])


class FileTable:
    """Columns of a file as numbers, in chunks. The first rows decide how columns are encoded.

    Parameters
    ----------
    content, cfg
        The file, and the settings of the data set. In a classification ``labels`` are the classes.
    apart
        Key of ``cfg`` that names a column with the series of each row, or with the client of each
        row; None: no such column. The column is an input only if ``dataset.inputs`` names it. With
        ``missing=drop`` the series of a row may be missing, None.

    Attributes
    ----------
    columns
        Encodings of the columns. The target is included only if there is a remark about it.
    series_type
        int or str, type of the series; None without series.
    """

    def __init__(
        self, content: FileContent, cfg: Mapping[str, Any], apart: str | None = None
    ) -> None:
        self._content, self._cfg, self._where = content, cfg, content.name
        first = next(read.frames(content, cfg), None)
        if first is None or not len(first):
            left = "no row is left by dataset.prepare" if cfg.get("prepare") else "no rows"
            raise DataError(f"{self._where}: the file has a header but {left}.")
        self.row_count = read.count_rows(content, cfg, first)
        is_text = read.is_text_file(content, cfg)
        self._decimal = read.layout(content, cfg).decimal if is_text else "."
        names, where = [str(name) for name in first.columns], self._where
        self._series, self.series_type = None, None
        if apart is not None:
            self._series = place_of(cfg[apart], names, where, f"dataset.{apart}")
            self.series_type = int if series_are_whole(first.iloc[:, self._series]) else str
        columns = self._columns_of(first)
        usable = [c.kind != "left out" and k != self._series for k, c in enumerate(columns)]
        wanted = cfg.get("inputs")
        inputs, self._last = choose_columns(names, usable, wanted, cfg.get("target"), where)
        if apart == "series" and self._last == self._series:
            raise DataError(f"{where}: dataset.series and dataset.target are both {cfg[apart]!r}.")
        named = "dataset.inputs names it"
        self._inputs = {k: columns[k].as_named(named, where) for k in inputs}
        self._target = self._target_of(columns[self._last], first)
        self.columns: Sequence[Column] = ()
        if "path" in cfg or wanted is None:
            why_apart = "the column of series" if apart == "series" else None
            for k, column in enumerate(columns):
                why = why_apart if k == self._series else column.why
                columns[k] = self._inputs.get(k) or column.left_out(why or "not in dataset.inputs")
            columns[self._last] = self._target
            self.columns = [c for c in columns if c is not self._target or c.why]
        new = [name for column in self._inputs.values() for name in column.inputs]
        if len(new) > MOST_COLUMNS:
            raise DataError(
                f"{where}: {len(new):,} inputs are more than {MOST_COLUMNS:,}. Name fewer columns "
                "in dataset.inputs."
            )
        self.names = (*new, names[self._last])
        plain = {**NUMBERS, **NumberFormat(self._decimal).as_recipe()}
        self._plain = {c.name for c in (*self._inputs.values(), self._target) if c.recipe == plain}
        self._plain -= set() if self._series is None else {names[self._series]}
        self._new: dict[str, Counter[str]] = {}  # categories that did not occur in the first rows
        # Read now, so that errors in the first rows are reported before a run begins.
        values, *_ = self._piece(first)
        self._of_first: list[str] = []
        if "path" in cfg:
            numbers = [c.inputs[0] for c in self._inputs.values() if c.how == "numbers"]
            places = [k for k, name in enumerate(new) if name in set(numbers)]
            self._of_first = list(notices.of_first_rows(values, new, places))

    def _columns_of(self, first: pd.DataFrame) -> list[Column]:
        """Decide the encoding of each column from its declaration, or from the first rows."""
        cfg, where, names = self._cfg, self._where, list(first.columns)
        given = cfg.get("columns")
        declared = {str(n): d for n, d in given.items()} if isinstance(given, Mapping) else {}
        for name in declared:
            place_of(name, names, where, "dataset.columns")
        columns = [
            column_of(first[name], name, where, self._decimal, declared.get(name)) for name in names
        ]
        if cfg.get("exclude") is not None and cfg.get("inputs") is not None:
            raise DataError(
                f"{where}: dataset.inputs names all inputs, so dataset.exclude has nothing to "
                "leave out. Set one of the two."
            )
        exclude = [] if cfg.get("exclude") is None else cfg["exclude"]
        for k in places_of(exclude, names, where, "dataset.exclude"):
            columns[k] = columns[k].left_out("dataset.exclude names it")
        return columns

    def _target_of(self, column: Column, first: pd.DataFrame) -> Column:
        """Return the column of the target. The target of a classification has no recipe."""
        cells = first[column.name]
        if self._cfg.get("labels") is None:
            if column.how != "numbers":
                column = number_column(cells, column.name, self._decimal)
            target = Column(column.name, "target", (), recipe=column.recipe)
            return target.noted(example(cells, column.number_format))
        target, n = Column(column.name, "target", ()), int(cells.isna().sum())
        if not n:
            return target
        return target.noted(
            f"missing in {n} of the first {len(first)} rows, which are left out; NA, NaN, None and "
            "null in text are missing values too"
        )

    @property
    def notices(self) -> list[str]:
        return [*self._of_first, *notices.of_new_categories(self._new)]

    def raw(self) -> Iterator[Piece]:
        self._new = {}
        for frame in read.frames(self._content, self._cfg, self._plain):
            yield self._piece(frame)

    def _piece(self, frame: pd.DataFrame) -> Piece:
        where, rows = self._where, frame.index.to_numpy() + 1
        parts = [
            column.encode(frame.iloc[:, k], rows, where, new=self._new)
            for k, column in self._inputs.items()
        ]
        cells = frame.iloc[:, self._last]
        if self._target.recipe:
            parts.append(self._target.encode(cells, rows, where, TARGET_CURE))
        else:
            parts.append(class_codes(cells, self._cfg["labels"], rows, where)[:, None])
        values = np.concatenate(parts, axis=1)
        values = prepare.scale_values(values, self._cfg.get("prepare") or {})
        if self._series is None:
            return Piece(values, rows)
        whole, drops = self.series_type is int, self._cfg.get("missing") == "drop"
        return Piece(
            values, rows, series_of(frame.iloc[:, self._series], rows, where, whole, drops)
        )


# --- Rows of a model ------------------------------------------------------------------------------


def inputs_in(
    cfg: Mapping[str, Any],
    columns: Sequence[Mapping[str, Any]] | None,
    inputs: Sequence[str],
    whole_series: bool = False,
    new_words: dict[str, Counter[str]] | None = None,
) -> Iterator[Piece]:
    """Yield the rows of a file in chunks, encoded as inputs (n, d) of a trained model.

    Parameters
    ----------
    cfg
        Settings of the file. The key ``series`` names the column of series. No target is read.
    columns
        Encodings of the columns in the model; None: all inputs are columns of numbers.
    inputs
        Names (d,) of the inputs of the model.
    whole_series
        Whether series are whole numbers.
    new_words
        Receives, by column, the number of occurrences of each word that is new to the model.

    Raises
    ------
    DataError
        The file cannot be read, or has other columns.
    """
    content = read.open_content(cfg)
    where = content.name
    if read.is_libsvm(content, cfg):
        if columns or cfg.get("series") is not None:
            raise DataError(f"{where}: the columns of a model have names, LIBSVM text has none.")
        for values, rows, _ in LibsvmTable.like(content, cfg, inputs).raw():
            X = values[:, :-1]
            refuse(np.isinf(X), rows, inputs, where, "is infinite. Correct the file.")
            yield Piece(X, rows)
        return
    known = columns_described(columns) if columns else list(map(plain_column, inputs))
    for frame in read.frames(content, cfg):
        names, rows = [str(name) for name in frame.columns], frame.index.to_numpy() + 1
        if missing := [column.name for column in known if column.name not in names]:
            raise DataError(
                f"{where}: the model has the columns {few(c.name for c in known)}; the file has "
                f"{few(names)}, and not {few(missing)}."
            )
        cells = (frame.iloc[:, names.index(column.name)] for column in known)
        parts = [
            column.encode(series, rows, where, MODEL_CURE, new_words)
            for column, series in zip(known, cells, strict=True)
        ]
        X, series = np.concatenate(parts, axis=1), None
        refuse(np.isinf(X), rows, inputs, where, "is infinite. Correct the file.")
        if cfg.get("series") is not None:
            place = place_of(cfg["series"], names, where, "the series of the model")
            series = series_of(
                frame.iloc[:, place], rows, where, whole_series, cure="Correct the file."
            )
        yield Piece(X, rows, series)


def refuse(
    cells: np.ndarray, rows: np.ndarray, names: Sequence[str], where: str, what: str
) -> None:
    """Raise DataError that names the first wrong cell of a block, if there is one.

    Parameters
    ----------
    cells
        Mask (n, d) of wrong cells.
    rows, names
        Row numbers (n,) in the file, and names (d,) of the columns.
    where, what
        Name of the file, and description of the problem, for the message.
    """
    if cells.any():
        n, k = np.argwhere(cells)[0]
        raise DataError(f"{where}: row {rows[n]}, column {names[k]!r} {what}")


# --- Classes --------------------------------------------------------------------------------------


def classes_in(content: FileContent, cfg: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the sorted classes, numbers or words, in the target column of a user's file."""
    texts: set[str] = set()
    limited = cfg.get("labels") != ALL_LABELS
    for cells in _targets_in(content, cfg):
        texts |= {word(cell) for cell in cells if not is_blank(cell)}
        if len(texts) > MOST_COUNTED and limited:
            break
    if len(texts) > MOST_CLASSES and limited:
        number = f"{'at least ' if len(texts) > MOST_COUNTED else ''}{len(texts):,}"
        raise DataError(
            f"{content.name}: the target {cfg['target']!r} has {number} different values "
            f"({few(map(repr, sorted(texts)))}), and classes are at most {MOST_CLASSES}. Set "
            f"task=regression; or, if these are classes, dataset.labels={ALL_LABELS}."
        )
    twins = next((same for same in by_number(texts).values() if len(same) > 1), None)
    if twins is not None:
        both = " and ".join(map(repr, sorted(twins)))
        raise DataError(
            f"{content.name}: the target {cfg['target']!r} holds {both}, "
            "which are one number written in two ways. Write it in one way; or, if these are "
            "classes of their own, name all classes in dataset.labels."
        )
    try:
        return tuple(sorted(texts, key=float))
    except ValueError:
        return tuple(sorted(texts))


def _targets_in(content: FileContent, cfg: Mapping[str, Any]) -> Iterator[Iterable[Any]]:
    """Yield the distinct cells of the target's column, chunk by chunk."""
    if read.is_libsvm(content, cfg):
        with as_data_error(content.name):
            yield {words[0] for words in words_in(content, cfg)}
        return
    for frame in read.frames(content, cfg, only=cfg.get("target")):
        names = [str(name) for name in frame.columns]
        place = 0 if len(names) == 1 else place_of(cfg.get("target"), names, content.name)
        yield frame.iloc[:, place].unique()


# --- Streams --------------------------------------------------------------------------------------


class TableSource:
    """Source of a stream that reads the rows of a table. The last column is the target.

    ``missing`` decides the treatment of missing values:

    error   raise DataError naming the row and the column
    drop    remove rows with a missing value
    mean    if ``causal`` is True, a missing input stays NaN, and the stream replaces it by the mean
            so far. Otherwise it is replaced by the mean of its column in the whole file, including
            later rows. A missing target stays NaN. Only if ``fills_target`` is True, the mean of
            the whole file replaces it, as in the published experiments
    """

    has_truth = False

    def __init__(
        self, table: Table, where: str, missing: str, causal: bool, fills_target: bool = False
    ) -> None:
        *inputs, self.target = table.names
        self.inputs = tuple(inputs)
        self.columns, self.row_count = table.columns, table.row_count
        self.n_rows: int | None = None
        if (count := table.row_count) and missing == "drop":
            self.row_count = RowCount(count.n, False)
        if count and count.exact and (missing == "error" or fills_target):
            self.n_rows = count.n
        self._table = table
        self._where = where
        self._missing = missing
        self._means: np.ndarray | None = None
        self.filled: np.ndarray | None = None  # (d,) cells filled by the mean of the whole file
        if missing == "mean" and not causal:
            self._means = self._whole_means(fills_target)

    @property
    def notices(self) -> Sequence[str]:
        """Messages to the user about the rows that were read so far."""
        return self._table.notices

    def chunks(self) -> Iterator[Chunk]:
        for piece in self._table.raw():
            blank = np.isnan(piece.values)
            if self._missing == "error":
                cure = "Set dataset.missing=mean or dataset.missing=drop, or correct the file."
                refuse(blank, piece.rows, self._table.names, self._where, f"is missing. {cure}")
            elif self._missing == "drop":
                complete = ~blank.any(axis=1)
                if piece.series is not None:
                    complete &= np.array([name is not None for name in piece.series], dtype=bool)
                piece = piece.at(complete)
            elif self._means is not None:
                piece = piece._replace(values=np.where(blank, self._means, piece.values))
            values, rows, series = self._finite(piece)
            X, y = np.ascontiguousarray(values[:, :-1]), values[:, -1].copy()
            yield Chunk(X, y, rows, series=series)

    def _whole_means(self, with_target: bool) -> np.ndarray:
        """Return the means (d + 1,) of the columns; NaN for the target unless ``with_target``."""
        width = len(self._table.names)
        total, count, n = np.zeros(width), np.zeros(width), 0
        for values, *_ in map(self._finite, self._table.raw()):
            blank = np.isnan(values)
            with np.errstate(over="ignore"):  # an infinite mean is refused like an infinite cell
                total += np.where(blank, 0.0, values).sum(axis=0)
            count += (~blank).sum(axis=0)
            n += len(values)
        self.filled = (n - count)[:-1]
        if not with_target:
            total[-1], count[-1] = 0.0, 1.0
        if not count.all():
            raise DataError(
                f"{self._where}: column {self._table.names[int(count.argmin())]!r} has no value at "
                "all, so dataset.missing=mean has no mean to put in. Leave the column out of "
                "dataset.inputs."
            )
        means: np.ndarray = total / count
        if not with_target:
            means[-1] = np.nan
        return means

    def _finite(self, piece: Piece) -> Piece:
        """Return the piece. Raises DataError naming a cell that is infinite."""
        what = "is infinite. Correct the file."
        refuse(np.isinf(piece.values), piece.rows, self._table.names, self._where, what)
        return piece
