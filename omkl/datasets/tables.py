"""Tables: the chosen columns of a file as rows of numbers, and what happens to their blanks.

LIBSVM text is a table too: "label index:value index:value ...", a row a line.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from omkl.datasets import prepare, read
from omkl.datasets.base import MOST_COLUMNS, Chunk, DataError, RowCount, as_data_error
from omkl.datasets.cells import NumberFormat, is_blank, word
from omkl.datasets.columns import (
    INPUT_CURE,
    NUMBERS,
    TARGET_CURE,
    Column,
    by_number,
    choose_columns,
    class_codes,
    column_of,
    example,
    excluded_places,
    keys_are_whole,
    keys_of,
    number_column,
    place_of,
)
from omkl.datasets.files import FileContent
from omkl.utils.wording import few

if TYPE_CHECKING:
    import pandas as pd


MOST_CLASSES = 100
ALL_LABELS = "all"  # of dataset.labels: however many classes there are
OF_KEY = "the key: each value has a learner"
MOST_COUNTED = 100_000  # different values of a target that holds no classes


class Table(Protocol):
    """Chosen columns of a file, read from the start as often as wanted."""

    names: tuple[str, ...]  # the target's last
    n_rows: int | None
    columns: Sequence[Column]  # what became of them, where it has to be told
    row_count: RowCount | None

    def raw(self) -> Iterator[tuple[np.ndarray, ...]]:
        """Pieces (values (n, d + 1), NaN where blank; row numbers (n,)), of a panel keys (n,)."""
        ...


class ArrayTable:
    """A table in memory: ``values`` (T, d + 1), row numbers in the file (T,), ``order`` (T,)."""

    def __init__(
        self,
        values: np.ndarray,
        rows: np.ndarray,
        names: tuple[str, ...],
        order: np.ndarray | None = None,
        columns: Sequence[Column] = (),
    ) -> None:
        self.columns = columns
        self.values = values
        self.rows = rows
        self.names = names
        self.n_rows: int | None = len(values)
        self.row_count: RowCount | None = RowCount(len(values), True)
        self._order = np.arange(len(values)) if order is None else order

    def shuffled(self, seed: int) -> ArrayTable:
        """The same table, not copied, its rows in an order that the seed draws."""
        order = np.random.default_rng(seed).permutation(len(self.values))
        return ArrayTable(self.values, self.rows, self.names, order, self.columns)

    def raw(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        size = read.chunk_rows(self.values.shape[1])
        for start in range(0, len(self.values), size):
            chosen = self._order[start : start + size]
            yield self.values[chosen], self.rows[chosen]


class OwnTable:
    """Columns of an own file as numbers, in chunks; the first decides what becomes of them.

    ``columns`` say what became of each column but the target. Where no inputs are named, the
    column ``cfg[apart]`` is none of them. Pieces have the keys of rows where that is ``"key"``;
    they are None where blank, if such rows are to be dropped. ``key_type`` is int or str where
    pieces have keys, else None.
    """

    def __init__(
        self, content: FileContent, cfg: Mapping[str, Any], apart: str | None = None
    ) -> None:
        self._content, self._cfg, where = content, cfg, content.name
        self.n_rows = read.row_count(content, cfg)
        first = next(read.frames(content, cfg), None)
        self._decimal = read.decimal_mark(content, cfg)
        if first is None or not len(first):
            left = "no row is left by dataset.prepare" if cfg.get("prepare") else "no rows"
            raise DataError(f"{where}: the file has a header but {left}.")
        self.row_count = read.count_rows(content, cfg, first)
        names = [str(name) for name in first.columns]
        place = -1 if apart is None else place_of(cfg[apart], names, where, f"dataset.{apart}")
        given = cfg.get("columns")
        declared = {str(n): d for n, d in given.items()} if isinstance(given, Mapping) else {}
        for name in declared:
            place_of(name, names, where, "dataset.columns")
        columns = [
            column_of(first[name], name, where, self._decimal, declared.get(name)) for name in names
        ]
        wanted = cfg.get("inputs")
        if cfg.get("exclude") is not None:
            if wanted is not None:
                raise DataError(
                    f"{where}: dataset.inputs names all inputs, so dataset.exclude has nothing to "
                    "leave out. Set one of the two."
                )
            for k in excluded_places(cfg["exclude"], names, where):
                columns[k] = columns[k].left_out("dataset.exclude names it")
        self._key, self.key_type = -1, None
        if apart == "key":
            is_whole = keys_are_whole(first.iloc[:, place])
            self._key, self.key_type = place, int if is_whole else str
        usable = [column.kind != "left out" and k != place for k, column in enumerate(columns)]
        chosen = choose_columns(names, usable, wanted, cfg.get("target"), where)
        *inputs, last = chosen.positions
        self._last = last
        if last == self._key >= 0:
            raise DataError(f"{where}: dataset.key and dataset.target are both {names[place]!r}.")
        named = "dataset.inputs names it"
        self._inputs = {k: columns[k].as_named(named, where) for k in inputs}
        became = [
            self._inputs.get(k)
            or column.left_out(OF_KEY if k == self._key else column.why or "not in dataset.inputs")
            for k, column in enumerate(columns)
            if k != last
        ]
        target = Column(names[last], "target", ())
        self._read_target: Column | None = None
        if cfg.get("labels") is None:
            self._read_target = columns[last]
            if columns[last].how != "numbers":
                self._read_target = number_column(first[names[last]], names[last], self._decimal)
            target = target.noted(example(first[names[last]], self._read_target.number_format))
        target = target.noted(self._blank_classes(first, last))
        self.columns: Sequence[Column] = [*became, target] if target.why else became
        plain = {**NUMBERS, **NumberFormat(self._decimal).as_recipe()}
        self._plain = {column.name for column in columns if column.recipe == plain}
        self._plain -= {names[self._key]} if self._key >= 0 else set()
        self._plain -= {names[last]} if self._read_target is None else set()
        new = [name for column in self._inputs.values() for name in column.inputs]
        if len(new) > MOST_COLUMNS:
            raise DataError(
                f"{where}: {len(new):,} inputs are more than {MOST_COLUMNS:,}. Name fewer columns "
                "in dataset.inputs."
            )
        self.names = (*new, names[last])
        self._piece(first)  # so that what is wrong in the first rows is told before a run begins

    def _blank_classes(self, first: pd.DataFrame, target: int) -> str | None:
        """That rows of no class are left out; NA may have been meant for one."""
        n = int(first.iloc[:, target].isna().sum())
        if not (n and self._cfg.get("labels")):
            return None
        return (
            f"missing in {n} of the first {len(first)} rows, which are left out; NA, NaN, None and "
            "null in text are missing values too"
        )

    def raw(self) -> Iterator[tuple[np.ndarray, ...]]:
        for frame in read.frames(self._content, self._cfg, self._plain):
            yield self._piece(frame)

    def _piece(self, frame: pd.DataFrame) -> tuple[np.ndarray, ...]:
        values, rows = self._values(frame)
        if self._key < 0:
            return values, rows
        name, where = str(frame.columns[self._key]), self._content.name
        keys = keys_of(frame.iloc[:, self._key], name, rows, where, self.key_type is int)
        if self._cfg.get("missing") != "drop":
            require_keys(keys, name, rows, where)
        return values, rows, keys

    def _values(self, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        where, rows = self._content.name, frame.index.to_numpy() + 1
        parts = [c.encode(frame.iloc[:, k], rows, where) for k, c in self._inputs.items()]
        cells = frame.iloc[:, self._last]
        if self._read_target is None:
            labels = self._cfg["labels"]
            parts.append(class_codes(cells.to_numpy(dtype=object), labels, rows, where)[:, None])
        else:
            parts.append(self._read_target.encode(cells, rows, where, TARGET_CURE))
        values = np.concatenate(parts, axis=1)
        return prepare.scale_values(values, self._cfg.get("prepare") or {}), rows


def require_keys(keys: np.ndarray, name: str, rows: np.ndarray, where: str) -> None:
    """DataError for a row whose key (n,) is not known."""
    blank = _is_none(keys)
    if blank.any():
        raise DataError(
            f"{where}: row {rows[blank.argmax()]}, column {name!r} has no value, so the key of "
            "that row is not known. Set dataset.missing=drop, or correct the file."
        )


def _is_none(keys: np.ndarray) -> np.ndarray:
    return np.array([key is None for key in keys], dtype=bool)


def columns_as_before(
    columns: Sequence[Mapping[str, Any]], names: Sequence[str], where: str
) -> dict[str, Column]:
    """Columns as they became inputs of another file; DataError where one is not in this file."""
    encoded = [Column(**{**column, "inputs": tuple(column["inputs"])}) for column in columns]
    if missing := [column.name for column in encoded if column.name not in names]:
        raise DataError(
            f"{where}: the model has the columns {', '.join(c.name for c in encoded)}; the file "
            f"has {', '.join(names)}, and not {', '.join(missing)}."
        )
    return {column.name: column for column in encoded}


def inputs_in(
    cfg: Mapping[str, Any],
    columns: Sequence[Mapping[str, Any]] | None,
    inputs: Sequence[str],
    whole_keys: bool = False,
    new_words: dict[str, Counter[str]] | None = None,
) -> Iterator[tuple[np.ndarray, ...]]:
    """Row numbers (n,), from 1, and inputs X (n, d) of an own file, chunk by chunk.

    No target is read. ``columns`` say how those of another file became ``inputs``; None: inputs
    are columns of numbers. With ``cfg["key"]`` the keys (n,) of rows follow, whole numbers or
    texts. ``new_words`` is told, by column, of words that were in no row of that other file, and in
    how many of this one they are. Raises DataError for a file that cannot be read, or has others.
    """
    content = read.open_content(cfg)
    where = content.name
    if read.is_libsvm(content.path):
        if columns or cfg.get("key") is not None:
            raise DataError(f"{where}: the columns of a model have names, LIBSVM text has none.")
        for values, rows in _sparse_like(content, cfg, inputs).raw():
            yield rows, _finite(values[:, :-1], rows, inputs, where)
        return
    columns = columns or [Column(n, "numbers", (n,), recipe=NUMBERS)._asdict() for n in inputs]
    for frame in read.frames(content, cfg):
        names, rows = [str(name) for name in frame.columns], frame.index.to_numpy() + 1
        parts = []
        for name, column in columns_as_before(columns, names, where).items():
            series = frame.iloc[:, names.index(name)]
            parts.append(column.encode(series, rows, where))
            if new_words is not None and (new := column.new_words(series)):
                new_words.setdefault(name, Counter()).update(new)
        X = _finite(np.concatenate(parts, axis=1), rows, inputs, where)
        if cfg.get("key") is None:
            yield rows, X
            continue
        place = place_of(cfg["key"], names, where, "the key of the model")
        keys = keys_of(frame.iloc[:, place], names[place], rows, where, whole_keys)
        require_keys(keys, names[place], rows, where)
        yield rows, X, keys


def _finite(X: np.ndarray, rows: np.ndarray, inputs: Sequence[str], where: str) -> np.ndarray:
    """X (n, d) itself; DataError names a cell that is infinite."""
    if np.isinf(X).any():
        n, k = np.argwhere(np.isinf(X))[0]
        raise DataError(f"{where}: row {rows[n]}, {inputs[k]!r} is infinite. Correct the file.")
    return X


def _sparse_like(
    content: FileContent, cfg: Mapping[str, Any], inputs: Sequence[str]
) -> LibsvmTable:
    """LIBSVM text whose rows become the ``inputs`` of a model that learned from such text."""
    how = {"inputs": f"1-{len(inputs)}", "labelled": False, "encoding": cfg.get("encoding")}
    table = LibsvmTable(content, how)
    if table.names[:-1] != tuple(inputs):
        raise DataError(
            f"{content.name}: the inputs of the model are {few(inputs)}, and those of LIBSVM "
            "text are called x1, x2, ..."
        )
    return table


def classes_in(content: FileContent, cfg: Mapping[str, Any]) -> tuple[Any, ...]:
    """What stands in the target's column of an own file, numbers or words, in their order."""
    texts: set[str] = set()
    limited = cfg.get("labels") != ALL_LABELS
    for frame in read.frames(content, cfg, only=cfg.get("target")):
        names = [str(name) for name in frame.columns]
        place = 0 if len(names) == 1 else place_of(cfg.get("target"), names, content.name)
        texts |= {word(cell) for cell in frame.iloc[:, place].unique() if not is_blank(cell)}
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


def entry_table(
    frame: pd.DataFrame,
    cfg: Mapping[str, Any],
    classes: Sequence[Any] | None,
    apart: str | None = None,
) -> ArrayTable:
    """The chosen columns of a catalogue entry; its ``columns`` are those that hold no numbers.

    Where no inputs are named, the column ``cfg[apart]`` is none of them.
    """
    where, names = str(cfg["name"]), [str(column) for column in frame.columns]
    columns = [column_of(frame.iloc[:, k], name, where) for k, name in enumerate(names)]
    numeric = [column.how == "numbers" for column in columns]
    words = {k for k, is_numeric in enumerate(numeric) if not is_numeric}
    if apart is not None:
        place = place_of(cfg[apart], names, where, f"dataset.{apart}")
        numeric[place] = False
        words.discard(place)
    if cfg.get("exclude") is not None:
        raise DataError(
            f"{where}: dataset.exclude is for files of yours (dataset=file). Name the inputs that "
            "are left in dataset.inputs."
        )
    chosen = choose_columns(names, numeric, cfg.get("inputs"), cfg.get("target"), where)
    rows = frame.index.to_numpy() + 1
    parts = []
    for k in chosen.positions:
        cells, is_target = frame.iloc[:, k], k == chosen.positions[-1]
        if is_target and classes is not None:
            codes = class_codes(cells.to_numpy(dtype=object), classes, rows, where)
            parts.append(codes[:, None])
            continue
        column = columns[k] if numeric[k] else number_column(cells, names[k])
        parts.append(column.encode(cells, rows, where, TARGET_CURE if is_target else INPUT_CURE))
    values = np.concatenate(parts, axis=1)
    values = prepare.scale_values(values, cfg.get("prepare") or {})
    if cfg.get("inputs") is not None:
        words = set()
    left_out = [names[k] for k in sorted(words - set(chosen.positions))]
    return ArrayTable(values, rows, chosen.names, columns=unused_columns(left_out))


def unused_columns(names: Sequence[str]) -> list[Column]:
    """What becomes of columns of the catalogue that nobody named and that hold no numbers."""
    why = "it has text or dates, which are encoded only in your own files (dataset=file)"
    return [Column(name, "left out", (), why) for name in names]


class TableSource:
    """The rows of a table as a stream source; the last column is the target.

    ``missing``

    error   a blank cell is an error that names its row and column
    drop    rows with a blank cell are left out
    mean    a blank input becomes the mean of its column over the whole file, which looks
            ahead; with ``causal`` it stays blank, for the stream's scaling to deal with. A
            blank target stays blank, unless ``fills_target``, as the published experiments did
    """

    has_truth = False

    def __init__(
        self,
        table: Table,
        where: str,
        missing: str,
        causal: bool,
        fills_target: bool = False,
    ) -> None:
        *inputs, self.target = table.names
        self.inputs = tuple(inputs)
        self.n_rows = table.n_rows if missing == "error" or fills_target else None
        self.columns = table.columns
        self.row_count = count = table.row_count
        if count and missing == "drop":
            self.row_count = RowCount(count.n, False)
        self._table = table
        self._where = where
        self._missing = missing
        self._means: np.ndarray | None = None
        self.filled: np.ndarray | None = None  # (d,) cells that a mean of the whole file fills
        if missing == "mean" and not causal:
            self._means = self._whole_means(fills_target)

    def chunks(self) -> Iterator[Chunk]:
        has_value, n_left = np.zeros(len(self._table.names), dtype=bool), 0
        for values, rows, *keyed in self._table.raw():
            blank, keys = np.isnan(values), keyed[0] if keyed else None
            if blank.any() and self._missing == "error":
                cure = "Set dataset.missing=mean or dataset.missing=drop, or correct the file."
                self._complain(blank, rows, "is missing", cure)
            if self._missing == "drop":
                complete = ~blank.any(axis=1)
                if keys is not None:
                    complete &= ~_is_none(keys)
                    keys = keys[complete]
                values, rows = values[complete], rows[complete]
                has_value |= ~blank.all(axis=0)
                n_left += len(rows)
            elif self._means is not None:
                values = np.where(blank, self._means, values)
            self._require_finite(values, rows)
            yield Chunk(np.ascontiguousarray(values[:, :-1]), values[:, -1].copy(), rows, keys=keys)
        if self._missing == "drop" and not n_left and not has_value.all():
            name = self._table.names[int(has_value.argmin())]
            raise DataError(
                f"{self._where}: column {name!r} has no value at all, so dataset.missing=drop "
                "leaves no row. Leave the column out."
            )

    def _whole_means(self, with_target: bool) -> np.ndarray:
        """Means of the columns (d + 1,); the target's is NaN where it is not to be filled."""
        width = len(self._table.names)
        total, count, n = np.zeros(width), np.zeros(width), 0
        for values, rows, *_ in self._table.raw():
            blank = np.isnan(values)
            self._require_finite(values, rows)
            with np.errstate(over="ignore", invalid="ignore"):  # told below
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
        if not np.isfinite(total).all():
            name = self._table.names[int(np.argmin(np.isfinite(total)))]
            raise DataError(
                f"{self._where}: column {name!r} is too large for dataset.missing=mean to "
                "put a mean in. Rescale the column."
            )
        means: np.ndarray = total / count
        if not with_target:
            means[-1] = np.nan
        return means

    def _require_finite(self, values: np.ndarray, rows: np.ndarray) -> None:
        if np.isinf(values).any():
            self._complain(np.isinf(values), rows, "is infinite", "Correct the file.")

    def _complain(self, bad: np.ndarray, rows: np.ndarray, what: str, cure: str) -> None:
        n, k = np.argwhere(bad)[0]
        raise DataError(
            f"{self._where}: row {rows[n]}, column {self._table.names[k]!r} {what}. {cure}"
        )


CHUNK_ROWS = 4_096
CHUNK_CHARACTERS = 2**24
NOT_HERE = ("columns", "exclude", "na_values", "key", "client_column", "prepare")


class Piece(NamedTuple):
    """Rows as they are written: n pairs of index and value.

    places, values (n,): what stands before and after the colon; at (n,): their row in the piece;
    labels: one a row; first: the number of the first row.
    """

    places: np.ndarray
    values: np.ndarray
    at: np.ndarray
    labels: list[str]
    first: int


class LibsvmTable:
    """LIBSVM text: blocks of rows, made dense.

    Indices count from 1 and those that are left out are 0; what follows a # is a comment.
    ``dataset.inputs`` is a range "1-123", or null for up to the highest index, which
    takes a pass over the file. Memory does not grow with the file. Not ``labelled``: labels are not
    read, and are 0; rows may then have none, all of them or not one, and begin with their first
    pair.
    """

    n_rows: int | None = None
    columns: Sequence[Column] = ()

    def __init__(self, content: FileContent, cfg: Mapping[str, Any]) -> None:
        self._content, self._classes = content, cfg.get("labels")
        self._labelled = cfg.get("labelled", True)
        self.row_count: RowCount | None = None
        if not content.name.lower().endswith(".gz"):
            self.row_count = RowCount(content.n_lines, False)
        self._encoding = cfg.get("encoding") or "utf-8"
        _check_keys(cfg, content.name)
        highest = _range_from_1(cfg.get("inputs"), content.name, MOST_COLUMNS)
        if highest is None:
            highest = max((int(p.places.max(initial=0)) for p in self._pieces()), default=0)
        if highest < 1:
            raise DataError(f"{self._where}: no row has an input, so there is nothing to learn.")
        self._highest = highest
        self.names = (*(f"x{k + 1}" for k in range(highest)), "label")

    @property
    def _where(self) -> str:
        return self._content.name

    def raw(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        d = len(self.names) - 1
        most = max(1, read.CHUNK_CELLS // (d + 1))
        for piece in self._pieces():
            rows = np.arange(piece.first, piece.first + len(piece.labels))
            if piece.places.max(initial=0) > self._highest:
                n = int(np.argmax(piece.places > self._highest))
                raise DataError(
                    f"{self._where}: row {rows[piece.at[n]]} has the index {piece.places[n]}, "
                    f"outside 1..{self._highest}. Look at dataset.inputs."
                )
            targets = self._targets(piece, rows)
            for start in range(0, len(rows), most):
                stop = min(len(rows), start + most)
                these = slice(*np.searchsorted(piece.at, (start, stop)))
                values = np.zeros((stop - start, d + 1))
                values[piece.at[these] - start, piece.places[these] - 1] = piece.values[these]
                values[:, d] = targets[start:stop]
                yield values, rows[start:stop]

    def _targets(self, piece: Piece, rows: np.ndarray) -> np.ndarray:
        if not self._labelled:
            return np.zeros(len(rows))
        if self._classes is not None:
            cells = np.array(piece.labels, dtype=object)
            return class_codes(cells, self._classes, rows, self._where)
        targets = np.empty(len(rows))
        for n, text in enumerate(piece.labels):
            if _PAIRS.fullmatch(text):
                raise DataError(
                    f"{self._where}: row {rows[n]} has no label: it begins with the pair {text!r}. "
                    "Put the target of the row before it."
                )
            if not _NUMBER.fullmatch(text):
                raise DataError(
                    f"{self._where}: row {rows[n]} has the label {text!r} where a number should "
                    "be. If these are classes, add task=classification."
                )
            targets[n] = float(text)
        return targets

    def _pieces(self) -> Iterator[Piece]:
        first = 1
        with as_data_error(self._where), self._content.open_lines(self._encoding) as file:
            given = file if self._labelled else self._alike(file)
            while lines := _some(given):
                texts = [text for line in lines if (text := line.partition("#")[0].strip())]
                split = [text.split() for text in texts]
                has_labels = self._labelled or not split or ":" not in split[0][0]
                yield self._piece(split, first, has_labels)
                first += len(split)

    def _alike(self, lines: Iterable[str]) -> Iterator[str]:
        """Lines whose rows have all a label, or none; DataError for others.

        Among rows without a label an empty line is refused, since it may be meant for one of zeros.
        """
        n, labels, is_gap = 0, True, False
        for line in lines:
            if words := line.partition("#")[0].split(maxsplit=1):
                n, has_label = n + 1, ":" not in words[0]
                labels = labels if n > 1 else has_label
                if has_label != labels:
                    what, others = ("label", "pair") if has_label else ("pair", "label")
                    raise DataError(
                        f"{self._where}: row {n} begins with a {what}, {words[0][:80]!r}, and the "
                        f"rows before it with a {others}. Give all rows a label, or none."
                    )
                if is_gap and not labels:
                    raise DataError(
                        f"{self._where}: an empty line is before row {n}, and rows have no label. "
                        "Write a row of zeros as 1:0, or take the line out."
                    )
            is_gap = is_gap or not line.strip()
            yield line

    def _piece(self, split: list[list[str]], first: int, has_labels: bool) -> Piece:
        start = 1 if has_labels else 0  # of the pairs in a row
        words = [word for row in split for word in row[start:]]
        at = np.repeat(np.arange(len(split)), [len(row) - start for row in split])
        joined = " ".join(words)
        if not _PAIRS.fullmatch(joined):
            n = next(n for n, word in enumerate(words) if not _PAIRS.fullmatch(word))
            raise DataError(
                f"{self._where}: row {first + at[n]} has {words[n][:80]!r} where index:value "
                "should be, the index a whole number from 1."
            )
        pairs = np.array(joined.replace(":", " ").split(), dtype=np.float64).reshape(-1, 2)
        outside = (pairs[:, 0] < 1) | (pairs[:, 0] > MOST_COLUMNS)
        if outside.any():
            n = int(np.argmax(outside))
            written, cure = words[n].partition(":")[0][:40], ""
            if pairs[n, 0] == 0:
                cure = " Write the file with indices from 1: dump_svmlight_file(zero_based=False)."
            if pairs[n, 0] > MOST_COLUMNS:
                cure = " Hash the columns first: sklearn.feature_extraction.FeatureHasher."
            raise DataError(
                f"{self._where}: row {first + at[n]} has the index {written}, outside "
                f"1..{MOST_COLUMNS:,}.{cure}"
            )
        index = pairs[:, 0].astype(np.int64)
        place = np.sort(at * (MOST_COLUMNS + 1) + index)
        twice = place[1:][np.diff(place) == 0]
        if len(twice):
            row, k = divmod(int(twice[0]), MOST_COLUMNS + 1)
            raise DataError(
                f"{self._where}: row {first + row} has the index {k} twice. Correct the file."
            )
        return Piece(index, pairs[:, 1], at, [row[0] for row in split], first)


_FLOAT = r"(?:[-+]?(?:\d++\.?+\d*+|\.\d++)(?:e[-+]?\d++)?+|[-+]?inf(?:inity)?|nan)"
_NUMBER = re.compile(_FLOAT, re.ASCII | re.IGNORECASE)
# Possessive: a text of a million pairs is passed through once, and nothing is remembered of it.
_PAIRS = re.compile(rf"(?:\d++:{_FLOAT}(?: |$))*+", re.ASCII | re.IGNORECASE)


def _some(file: Iterator[str]) -> list[str]:
    """The next lines: CHUNK_ROWS of them, fewer where they are long."""
    lines: list[str] = []
    size = 0
    for line in itertools.islice(file, CHUNK_ROWS):
        lines.append(line)
        size += len(line)
        if size > CHUNK_CHARACTERS:
            break
    return lines


def _check_keys(cfg: Mapping[str, Any], where: str) -> None:
    """DataError for keys that mean nothing here, and would be passed over."""
    for key in NOT_HERE:
        if cfg.get(key):
            raise DataError(f"{where}: dataset.{key} is not for LIBSVM text, which has no columns.")
    if cfg.get("target") not in (None, "label"):
        raise DataError(
            f"{where}: dataset.target={cfg['target']!r} is not for LIBSVM text, whose target is "
            "the first number of a row. Leave it out."
        )


def _range_from_1(inputs: Any, where: str, most: int) -> int | None:
    """How many inputs "1-123" asks for, at most so many; None: as many as the file has."""
    if inputs is None:
        return None
    match = re.fullmatch(r"\s*1\s*-\s*(\d{1,18})\s*", inputs) if isinstance(inputs, str) else None
    if match is None or not 1 <= int(match[1]) <= most:
        raise DataError(
            f"{where}: dataset.inputs={inputs!r} is not for LIBSVM text: give a range '1-N', N at "
            f"most {most:,}, or null for up to the highest index."
        )
    return int(match[1])
