"""Files into numbers: choosing columns, reading, and what happens to blank cells.

Rows are counted from 1 without the header line, columns from 1.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import io
import itertools
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from omkl.datasets.stream import Chunk, DataError

if TYPE_CHECKING:
    import pandas as pd

CHUNK_ROWS = 65_536
LIBSVM_ROWS = 4_096  # they become dense: 4,096 x 300 numbers are 10 MB
MISSING = ("error", "mean", "drop")
SUFFIXES = (".csv", ".csv.gz", ".parquet", ".libsvm", ".svm")


# --- Which columns -------------------------------------------------------------------


class Columns(NamedTuple):
    """Chosen columns: 0-based positions and names, the target's last."""

    positions: tuple[int, ...]
    names: tuple[str, ...]


def choose_columns(
    names: Sequence[str],
    numeric: Sequence[bool],
    inputs: Any,
    target: Any,
    where: str,
    labelled: bool = True,
) -> Columns:
    """Resolve ``dataset.inputs`` and ``dataset.target``.

    A column is given by its name or its 1-based position; inputs also as a range of
    positions like "3-23". ``inputs=None`` takes every numeric column but the target. Where
    labels come from outside (not ``labelled``) there may be no target: the first input then
    stands in its place, for nobody to read.

    Raises
    ------
    DataError
        A column does not exist, is ambiguous or named twice, or there is no target or no
        input.
    """
    if target is None and labelled:
        raise DataError(
            f"{where}: say which column to predict: dataset.target=NAME or its position. "
            f"Columns: {_listed(names)}"
        )
    last = -1 if target is None else _position(target, names, "dataset.target", where)
    if inputs is None:
        chosen = [k for k in range(len(names)) if numeric[k] and k != last]
    else:
        given = inputs if isinstance(inputs, list | tuple) else [inputs]
        chosen = [k for item in given for k in _positions(item, names, where)]
    if last in chosen:
        raise DataError(
            f"{where}: the target {names[last]!r} is also named in dataset.inputs; "
            "a learner would be shown the answer. Take it out."
        )
    twice = sorted({names[k] for k in chosen if chosen.count(k) > 1})
    if twice:
        raise DataError(f"{where}: dataset.inputs names {', '.join(map(repr, twice))} twice.")
    if not chosen:
        raise DataError(
            f"{where}: no numeric column is left as an input"
            + ("" if target is None else f" besides the target {names[last]!r}")
            + f". Columns: {_listed(names)}"
        )
    positions = (*chosen, chosen[0] if target is None else last)
    return Columns(positions, tuple(names[k] for k in positions))


def count_inputs(inputs: Any) -> int | None:
    """How many inputs ``dataset.inputs`` asks for; None where only the file can tell."""
    if inputs is None:
        return None
    given = inputs if isinstance(inputs, list | tuple) else [inputs]
    spans = [_span(item) for item in given]
    return sum(1 if span is None else len(span) for span in spans)


def _span(item: Any) -> range | None:
    match = re.fullmatch(r"\s*(\d+)\s*-\s*(\d+)\s*", item) if isinstance(item, str) else None
    return range(int(match[1]), int(match[2]) + 1) if match else None


def _positions(item: Any, names: Sequence[str], where: str) -> list[int]:
    span = _span(item)
    if span is None or item in names:
        return [_position(item, names, "dataset.inputs", where)]
    return [_position(k, names, "dataset.inputs", where) for k in span]


def _position(item: Any, names: Sequence[str], key: str, where: str) -> int:
    if isinstance(item, int) and not isinstance(item, bool):
        if 1 <= item <= len(names):
            return item - 1
        raise DataError(
            f"{where}: {key}: there is no column {item}; positions go from 1 to {len(names)}. "
            f"Columns: {_listed(names)}"
        )
    name = str(item).strip()
    matches = [k for k, known in enumerate(names) if known == name]
    if len(matches) == 1:
        return matches[0]
    if matches:
        at = ", ".join(str(k + 1) for k in matches)
        raise DataError(f"{where}: {key}: {len(matches)} columns are called {name!r}: use {at}.")
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    if len(names) == 1:
        hint = " There is only one column: look at dataset.delimiter."
    raise DataError(f"{where}: {key}: no column {name!r}.{hint} Columns: {_listed(names)}")


def _listed(names: Sequence[str], positions: Sequence[int] | None = None) -> str:
    shown = range(len(names)) if positions is None else positions
    text = ", ".join(f"{k + 1} {names[k]!r}" for k in list(shown)[:40])
    return text + (f", ... ({len(shown)} in all)" if len(shown) > 40 else "") or "none"


# --- Tables and their blanks -----------------------------------------------------------


class Table(Protocol):
    """Chosen columns of a file, read from the start as often as wanted."""

    names: tuple[str, ...]  # the target's last
    n_rows: int | None

    def raw(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Pieces (values (n, d + 1), NaN where blank; row numbers (n,))."""
        ...


class ArrayTable:
    """A table in memory: ``values`` (T, d + 1), row numbers in the file (T,), ``order`` (T,)."""

    def __init__(
        self,
        values: np.ndarray,
        rows: np.ndarray,
        names: tuple[str, ...],
        order: np.ndarray | None = None,
    ) -> None:
        self.values = values
        self.rows = rows
        self.names = names
        self.n_rows: int | None = len(values)
        self._order = np.arange(len(values)) if order is None else order

    def in_order(self, order: np.ndarray) -> ArrayTable:
        """The same table, not copied, its rows in another order (T,)."""
        return ArrayTable(self.values, self.rows, self.names, order)

    def raw(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, len(self.values), CHUNK_ROWS):
            chosen = self._order[start : start + CHUNK_ROWS]
            yield self.values[chosen], self.rows[chosen]


class TableSource:
    """The rows of a table as a stream source, without blanks.

    ``missing``

    error   a blank cell is an error that names its row and column
    drop    rows with a blank cell are left out
    mean    a blank becomes the mean of its column over the whole file, which looks
            ahead; with ``causal`` the mean of the rows before it
    """

    has_truth = False

    def __init__(self, table: Table, where: str, missing: str, causal: bool) -> None:
        if missing not in MISSING:
            raise DataError(f"dataset.missing={missing!r} is none of {', '.join(MISSING)}.")
        self.inputs = table.names[:-1]
        self.target = table.names[-1]
        self.n_rows = table.n_rows
        self._table = table
        self._where = where
        self._missing = missing
        self._causal = causal
        self._means: np.ndarray | None = None
        if missing == "drop":
            self.n_rows = None
        if missing == "mean" and not causal:
            self._means = self._whole_means()

    def chunks(self) -> Iterator[Chunk]:
        width = len(self._table.names)
        total, count = np.zeros(width), np.zeros(width)
        for values, rows in self._table.raw():
            blank = np.isnan(values)
            if self._missing == "mean" and self._causal:
                values = self._fill_with_past(values, blank, rows, total, count)
            elif blank.any():
                values = self._without_blanks(values, blank, rows)
            if not np.isfinite(values).all():
                self._complain(~np.isfinite(values), rows, "is infinite", "Correct the file.")
            yield Chunk(np.ascontiguousarray(values[:, :-1]), values[:, -1].copy())

    def _without_blanks(
        self, values: np.ndarray, blank: np.ndarray, rows: np.ndarray
    ) -> np.ndarray:
        if self._missing == "drop":
            return values[~blank.any(axis=1)]
        if self._missing == "error":
            cure = "Set dataset.missing=mean or dataset.missing=drop, or correct the file."
            self._complain(blank, rows, "is blank", cure)
        assert self._means is not None
        return np.where(blank, self._means, values)

    def _fill_with_past(
        self,
        values: np.ndarray,
        blank: np.ndarray,
        rows: np.ndarray,
        total: np.ndarray,
        count: np.ndarray,
    ) -> np.ndarray:
        sums = total + np.cumsum(np.where(blank, 0.0, values), axis=0)
        counts = count + np.cumsum(~blank, axis=0)
        total[:], count[:] = sums[-1], counts[-1]
        # A blank adds nothing to its own row's sum: the sum up to it is that before it.
        unknown = blank & (counts == 0)
        if unknown.any():
            self._complain(
                unknown,
                rows,
                "is blank and no earlier row has a value to take the mean of",
                "Set dataset.missing=drop or stream.scaling=whole.",
            )
        return np.where(blank, sums / np.maximum(counts, 1), values)

    def _whole_means(self) -> np.ndarray:
        width = len(self._table.names)
        total, count = np.zeros(width), np.zeros(width)
        for values, _ in self._table.raw():
            blank = np.isnan(values)
            total += np.where(blank, 0.0, values).sum(axis=0)
            count += (~blank).sum(axis=0)
        for name, known in zip(self._table.names, count, strict=True):
            if not known:
                raise DataError(
                    f"{self._where}: column {name!r} has no value at all, so dataset.missing=mean "
                    "has no mean to put in. Leave the column out of dataset.inputs."
                )
        return total / count

    def _complain(self, bad: np.ndarray, rows: np.ndarray, what: str, cure: str) -> None:
        n, k = np.argwhere(bad)[0]
        raise DataError(
            f"{self._where}: row {rows[n]}, column {self._table.names[k]!r} {what}. {cure}"
        )


def frame_values(
    frame: pd.DataFrame,
    columns: Columns,
    rows: np.ndarray,
    where: str,
    labels: Sequence[Any] | None = None,
) -> np.ndarray:
    """The chosen columns of ``frame`` as float64 (n, d + 1), NaN where blank.

    ``columns.positions`` count in ``frame``; text that is no number is a DataError, but in
    a target that holds ``labels``.
    """
    values = np.empty((len(frame), len(columns.names)))
    for k, (position, name) in enumerate(zip(*columns, strict=True)):
        series = frame.iloc[:, position]
        if labels is not None and k == len(columns.names) - 1:
            values[:, k] = label_codes(series.to_numpy(dtype=object), labels, rows, where)
            continue
        values[:, k], text = _numbers(series)
        if text.any():
            n = int(np.argmax(text))
            raise DataError(
                f"{where}: row {rows[n]}, column {name!r} holds {str(series.iloc[n])!r} "
                "where a number should be. Correct the file or leave the column out of "
                "dataset.inputs."
            )
    return values


def label_codes(
    cells: np.ndarray, labels: Sequence[Any], rows: np.ndarray, where: str
) -> np.ndarray:
    """What a learner is told for the cells (n,): the labels' codes (n,), NaN where blank.

    Of two labels the first is -1 and the second +1; of K > 2 they are 0 .. K - 1.
    """
    codes = np.arange(len(labels)) if len(labels) > 2 else np.array([-1.0, 1.0])
    known = {_label(label): code for label, code in zip(labels, codes, strict=True)}
    found = np.empty(len(cells))
    for n, cell in enumerate(cells):
        key = _label(cell)
        if key == "":
            found[n] = np.nan
        elif key in known:
            found[n] = known[key]
        else:
            others = dict.fromkeys(str(c) for c in cells if _label(c) not in (*known, ""))
            raise DataError(
                f"{where}: row {rows[n]} has the label {str(cell)!r}, which is none of "
                f"dataset.labels={list(labels)}. Not among them: {', '.join(list(others)[:20])}. "
                "Name all labels; of two the first is -1 and the second +1."
            )
    return found


def _label(cell: Any) -> str | float:
    """Labels are compared as numbers where they are, else as text; "" for a blank."""
    text = str(cell).strip()
    try:
        number = float(text)
    except ValueError:
        return text
    return "" if np.isnan(number) else number


def numeric_columns(frame: pd.DataFrame) -> list[bool]:
    """Columns in which at least half of the cells that are not blank are numbers.

    A lone word among numbers then is an error with a row, not a column left out in silence.
    """
    flags = []
    for k in range(frame.shape[1]):
        values, text = _numbers(frame.iloc[:, k])
        flags.append(bool(text.sum() <= np.isfinite(values).sum()))
    return flags


def _numbers(series: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Numbers (n,), NaN elsewhere; where there is text or anything else but a blank (n,)."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(series.dtype):
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        return values, np.zeros(len(values), dtype=bool)
    words = series.astype(str).str.strip()
    numbers = pd.to_numeric(words, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    blank = (series.isna() | (words == "")).to_numpy(dtype=bool)
    return numbers, np.isnan(numbers) & ~blank


# --- Own files, read in chunks -----------------------------------------------------------


class CsvTable:
    """Columns of a CSV file, plain or gzipped, in chunks of ``CHUNK_ROWS`` rows.

    Which columns are numeric is decided on the first chunk, see ``numeric_columns``.
    """

    n_rows: int | None = None

    def __init__(self, path: Path, cfg: Mapping[str, Any]) -> None:
        self._path = path
        self._labels = cfg.get("labels")
        self._options = csv_options(cfg)
        with reading(path), _strict_about_lengths():
            first = next(self._frames(), None)
        if first is None or first.empty:
            raise DataError(f"{path.name}: the file has a header but no rows.")
        names = column_names(first, cfg, path.name)
        self._columns = choose_columns(
            names,
            numeric_columns(first),
            cfg.get("inputs"),
            cfg.get("target"),
            path.name,
            cfg.get("labelled", True),
        )
        self.names = self._columns.names

    def raw(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        start = 1
        with reading(self._path):
            for frame in self._frames():
                rows = np.arange(start, start + len(frame))
                where = self._path.name
                yield frame_values(frame, self._columns, rows, where, self._labels), rows
                start += len(frame)

    def _frames(self) -> Iterator[pd.DataFrame]:
        import pandas as pd

        with pd.read_csv(self._path, chunksize=CHUNK_ROWS, **self._options) as reader:
            yield from reader


class ParquetTable:
    """Columns of a Parquet file, in batches; the schema says which are numeric."""

    def __init__(self, path: Path, cfg: Mapping[str, Any]) -> None:
        import pyarrow as pa
        import pyarrow.types as pt

        self._path = path
        self._labels = cfg.get("labels")
        with reading(path), self._open() as file:
            schema = file.schema_arrow
            self.n_rows: int | None = file.metadata.num_rows
        numeric = [
            pt.is_integer(t) or pt.is_floating(t) or pt.is_boolean(t) or pt.is_decimal(t)
            for t in schema.types
        ]
        columns = choose_columns(
            schema.names,
            numeric,
            cfg.get("inputs"),
            cfg.get("target"),
            path.name,
            cfg.get("labelled", True),
        )
        for k, name in zip(*columns, strict=True):
            if not numeric[k]:
                numbers = [i for i, yes in enumerate(numeric) if yes]
                raise DataError(
                    f"{path.name}: column {k + 1} {name!r} holds {schema.types[k]}, not numbers. "
                    f"Numeric columns: {_listed(schema.names, numbers)}"
                )
        self.names = columns.names
        self._double = pa.float64()

    def raw(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        start = 1
        wanted = list(dict.fromkeys(self.names))
        with reading(self._path), self._open() as file:
            for batch in file.iter_batches(CHUNK_ROWS, columns=wanted):
                values = np.empty((batch.num_rows, len(self.names)))
                for k, name in enumerate(self.names):
                    column = batch.column(name).cast(self._double, safe=False)
                    values[:, k] = column.to_numpy(zero_copy_only=False)
                rows = np.arange(start, start + batch.num_rows)
                if self._labels is not None:
                    values[:, -1] = label_codes(values[:, -1], self._labels, rows, self._path.name)
                yield values, rows
                start += batch.num_rows

    def _open(self) -> Any:
        import pyarrow.parquet as pq

        # Without pre-buffering a row group is read page by page, not as a whole.
        return pq.ParquetFile(self._path, pre_buffer=False, buffer_size=1 << 20)


class LibsvmTable:
    """LIBSVM text, "label index:value index:value ...": blocks of rows, made dense.

    Indices count from 1 and those that are left out are 0; what follows a # is a comment.
    ``dataset.inputs`` is a range "1-123", or null for up to the highest index, which
    takes a pass over the file. Memory does not grow with it.
    """

    n_rows: int | None = None

    def __init__(self, path: Path, cfg: Mapping[str, Any]) -> None:
        self._path = path
        self._labels = cfg.get("labels")
        n_inputs = count_inputs(cfg.get("inputs"))
        if n_inputs is None:
            parts = [tokens for tokens, _, _ in self._tokens()]
            n_inputs = max((int(t[:, 0].max(initial=0)) for t in parts), default=0)
        if n_inputs < 1:
            raise DataError(f"{path.name}: no row has an input, so there is nothing to learn from.")
        self.names = (*(f"x{k + 1}" for k in range(n_inputs)), "label")

    def raw(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        d = len(self.names) - 1
        for pairs, counts, (first, given) in self._tokens():
            rows = np.arange(first, first + len(counts))
            at = np.repeat(np.arange(len(counts)), counts)
            index = pairs[:, 0].astype(int)
            outside = (index < 1) | (index > d) | (index != pairs[:, 0])
            if outside.any():
                n = int(np.argmax(outside))
                raise DataError(
                    f"{self._path.name}: row {rows[at[n]]} has the index {pairs[n, 0]:g}, "
                    f"outside 1..{d}. Look at dataset.inputs."
                )
            values = np.zeros((len(counts), d + 1))
            values[at, index - 1] = pairs[:, 1]
            if self._labels is None:
                values[:, d] = np.array(given, dtype=np.float64)
            else:
                cells = np.array(given, dtype=object)
                values[:, d] = label_codes(cells, self._labels, rows, self._path.name)
            yield values, rows

    def _tokens(self) -> Iterator[tuple[np.ndarray, np.ndarray, tuple[int, list[str]]]]:
        """Pairs (n, 2) of index and value, their number a row, the first row and the labels."""
        first = 1
        with reading(self._path), open(self._path, encoding="utf-8") as file:
            while lines := list(itertools.islice(file, LIBSVM_ROWS)):
                kept = [text for line in lines if (text := line.partition("#")[0].strip())]
                split = [text.split() for text in kept]
                counts = np.array([len(words) - 1 for words in split], dtype=int)
                joined = " ".join(word for words in split for word in words[1:])
                try:
                    flat = np.array(joined.replace(":", " ").split(), dtype=np.float64)
                    pairs = flat.reshape(int(counts.sum()), 2)
                except ValueError:
                    raise self._unreadable(split, first) from None
                yield pairs, counts, (first, [words[0] for words in split])
                first += len(split)

    def _unreadable(self, split: list[list[str]], first: int) -> DataError:
        for n, words in enumerate(split):
            for word in words[1:]:
                index, colon, value = word.partition(":")
                try:
                    readable = bool(colon) and float(index) * 0.0 + float(value) * 0.0 == 0.0
                except ValueError:
                    readable = False
                if not readable:
                    return DataError(
                        f"{self._path.name}: row {first + n} holds {word!r} where index:value "
                        "should be."
                    )
        return DataError(f"{self._path.name}: cannot be read as LIBSVM text.")


def open_own(cfg: Mapping[str, Any]) -> tuple[Path, Table]:
    """The file of ``dataset.path``: .csv, .csv.gz, .parquet, .libsvm or .svm, by its ending."""
    given = cfg.get("path")
    if given is None:
        raise DataError("dataset=file: say which file: dataset.path=PATH dataset.target=COLUMN")
    path = Path(str(given)).expanduser()
    name = path.name.lower()
    if not name.endswith(SUFFIXES):
        raise DataError(
            f"dataset.path={given}: files of this kind are not read; "
            f"the name must end in one of {', '.join(SUFFIXES)}."
        )
    if not path.is_file():
        raise DataError(_no_such_file(path))
    for suffix, table in ((".parquet", ParquetTable), ((".libsvm", ".svm"), LibsvmTable)):
        if name.endswith(suffix):
            return path, table(path, cfg)
    return path, CsvTable(path, cfg)


def read_own(cfg: Mapping[str, Any]) -> tuple[Path, pd.DataFrame]:
    """The file of ``dataset.path`` as a whole, for data that are held in memory."""
    import pandas as pd

    path, _ = open_own(cfg)
    name = path.name.lower()
    if name.endswith(".libsvm"):
        raise DataError(f"{path.name}: in a federation own data are a CSV or a Parquet file.")
    with reading(path):
        if name.endswith(".parquet"):
            frame = pd.read_parquet(path)
        else:
            with _strict_about_lengths():
                frame = pd.read_csv(path, **csv_options(cfg))
    frame.columns = list(column_names(frame, cfg, path.name))
    return path, frame


def _no_such_file(path: Path) -> str:
    folder = path.absolute().parent
    if not folder.is_dir():
        return f"dataset.path={path}: there is no folder {folder}."
    beside = sorted(p.name for p in folder.iterdir() if p.name.lower().endswith(SUFFIXES))
    near = difflib.get_close_matches(path.name, beside, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    there = ", ".join(beside[:20]) or "none"
    return f"dataset.path={path}: no such file in {folder}.{hint} Data files there: {there}"


def csv_options(cfg: Mapping[str, Any]) -> dict[str, Any]:
    """pandas options for text tables; ``delimiter`` null means any run of blanks."""
    import pandas as pd

    delimiter = cfg.get("delimiter", ",")
    options = {
        "sep": r"\s+" if delimiter is None else delimiter,
        "header": 0 if cfg.get("header", True) else None,
        "decimal": cfg.get("decimal") or ".",
        "encoding": cfg.get("encoding") or "utf-8",
        "index_col": False,
        "low_memory": False,
        "skipinitialspace": True,
    }
    # Before 3.1 the default parser was off by one unit in the last place for some numbers.
    if tuple(int(part) for part in pd.__version__.split(".")[:2]) < (3, 1):
        options["float_precision"] = "round_trip"
    return options


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what parsers raise into a DataError that names the file."""
    import pandas as pd
    import pyarrow as pa

    try:
        yield
    except DataError:
        raise
    except pd.errors.EmptyDataError as error:
        raise DataError(f"{path.name}: the file is empty.") from error
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        raise DataError(
            f"{path.name}: rows of different lengths ({_first_line(error)}). "
            "Look at dataset.delimiter and dataset.header."
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path.name}: not {error.encoding} text. Set dataset.encoding, for example latin-1."
        ) from error
    except (EOFError, zlib.error, pa.ArrowException, OSError) as error:
        raise DataError(f"{path.name}: cannot be read, it may be damaged: {error}") from error


@contextlib.contextmanager
def _strict_about_lengths() -> Iterator[None]:
    """If the first row is longer than the header, pandas cuts all rows and only warns."""
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        yield


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0]


# --- Catalogue files, read whole ---------------------------------------------------------


def read_frame(path: Path, cfg: Mapping[str, Any], n_rows: int | None = None) -> pd.DataFrame:
    """The file of a catalogue entry as a frame whose index counts rows from 0.

    ``format``: text (columns between blanks), csv, zip (CSV files in a zip, one below the
    other), excel, or mat (arrays X and y, the columns then being x1, x2, ... and y; or the
    one that ``array`` names).
    """
    form = cfg.get("format")
    if form in ("csv", "text"):
        import pandas as pd

        options = csv_options({**cfg, "delimiter": None} if form == "text" else cfg)
        with reading(path), _strict_about_lengths():
            frame = pd.read_csv(path, nrows=n_rows, **options)
    elif form == "zip":
        frame = _read_zip(path, cfg)
    elif form == "excel":
        frame = _read_excel(path, cfg)
    elif form == "mat":
        frame = _read_mat(path, cfg.get("array"))
    else:
        known = "text, csv, zip, excel, mat, libsvm"
        raise DataError(f"{cfg['name']}: dataset.format={form!r} is none of {known}.")
    names = list(column_names(frame, cfg, path.name))
    if form == "zip" and cfg.get("member_column"):
        names[-1] = cfg["member_column"]
    frame.columns = names
    return frame


def column_names(frame: pd.DataFrame, cfg: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Names from ``columns``, else from the header, else x1, x2, ..."""
    given = cfg.get("columns")
    if given:
        if len(given) != frame.shape[1]:
            raise DataError(
                f"{where}: dataset.columns names {len(given)} columns, "
                f"the file has {frame.shape[1]}."
            )
        return tuple(str(name).strip() for name in given)
    if not cfg.get("header", True):
        return tuple(f"x{k + 1}" for k in range(frame.shape[1]))
    return tuple(str(name).strip() for name in frame.columns)


def _read_zip(path: Path, cfg: Mapping[str, Any]) -> pd.DataFrame:
    """The files of ``members``, found by name in any folder of the zip, each with its digest."""
    import pandas as pd

    frames = []
    try:
        with zipfile.ZipFile(path) as archive:
            inside = {PurePosixPath(name).name: name for name in archive.namelist()}
            for member, digest in cfg["members"].items():
                if member not in inside:
                    there = ", ".join(sorted(inside)) or "nothing"
                    raise DataError(f"{cfg['name']}: {path} holds no {member}, but {there}.")
                content = archive.read(inside[member])
                _check_digest(content, digest, f"{cfg['name']}: {member} in {path}")
                with reading(path), _strict_about_lengths():
                    frame = pd.read_csv(io.BytesIO(content), **csv_options(cfg))
                if cfg.get("member_column"):  # read_frame gives it its name
                    frame[len(frame.columns)] = PurePosixPath(member).stem
                frames.append(frame)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise DataError(f"{path.name}: cannot be read, it may be damaged: {error}") from error
    return pd.concat(frames, ignore_index=True)


def _check_digest(content: bytes, digest: str | None, what: str) -> None:
    """``digest``: sha256:HEX, git:HEX (the id of a git blob), or None for any content."""
    if digest is None:
        return
    kind, _, wanted = digest.partition(":")
    if kind == "git":
        found = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    else:
        found = hashlib.sha256(content).hexdigest()
    if found != wanted:
        raise DataError(
            f"{what} is not the file it should be.\n  expected {digest}\n  found    "
            f"{kind}:{found}\nGet the zip anew; for another version set its digest in "
            "dataset.members to null."
        )


def _read_excel(path: Path, cfg: Mapping[str, Any]) -> pd.DataFrame:
    import pandas as pd
    from python_calamine import CalamineError, CalamineWorkbook

    try:
        with CalamineWorkbook.from_path(path) as workbook:
            cells: Iterable[list[Any]] = workbook.get_sheet_by_index(0).to_python()
    except CalamineError as error:
        raise DataError(f"{path.name}: cannot be read, it may be damaged: {error}") from error
    rows = [[None if cell == "" else cell for cell in row] for row in cells]
    if cfg.get("header", True) and rows:
        return pd.DataFrame(rows[1:], columns=rows[0])
    return pd.DataFrame(rows)


def _read_mat(path: Path, array: str | None) -> pd.DataFrame:
    import pandas as pd
    import scipy.io

    arrays = scipy.io.loadmat(path)
    if array is not None:
        if array not in arrays:
            names = ", ".join(name for name in arrays if not name.startswith("__"))
            raise DataError(f"{path.name}: no array {array!r}, but {names}.")
        values = arrays[array].astype(np.float64)
        return pd.DataFrame(values, columns=[f"x{k + 1}" for k in range(values.shape[1])])
    shapes = {name: v.shape for name, v in arrays.items() if isinstance(v, np.ndarray)}
    if "X" not in shapes or "y" not in shapes:
        raise DataError(f"{path.name}: no arrays X and y, but {shapes}.")
    y = arrays["y"].ravel().astype(np.float64)
    x = arrays["X"].astype(np.float64)
    if x.shape[1] == len(y):  # one column a sample
        x = x.T
    if x.shape[0] != len(y):
        raise DataError(f"{path.name}: X {shapes['X']} and y {shapes['y']} do not go together.")
    frame = pd.DataFrame(x, columns=[f"x{k + 1}" for k in range(x.shape[1])])
    frame["y"] = y
    return frame
