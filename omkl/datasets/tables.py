"""Tables and what happens to their blanks: rows of numbers, whatever file they come from."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from omkl.core.imported import PACKAGE
from omkl.datasets.base import Chunk, DataError
from omkl.datasets.cells import OF_INPUT, OF_TARGET, column_values
from omkl.datasets.columns import Columns
from omkl.datasets.keys import MISSING

if TYPE_CHECKING:
    import pandas as pd

    from omkl.datasets.encoding import Column


CHUNK_ROWS = 65_536
CHUNK_CELLS = 2**25  # 256 MB of numbers: tables of more than 512 columns come in fewer rows


def chunk_rows(n_columns: int) -> int:
    """How many rows of so many columns are read at once."""
    return max(1, min(CHUNK_ROWS, CHUNK_CELLS // max(n_columns, 1)))


class Table(Protocol):
    """Chosen columns of a file, read from the start as often as wanted."""

    names: tuple[str, ...]  # the target's last
    n_rows: int | None
    columns: Sequence[Column]  # what became of them, where it has to be told

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
        columns: Sequence[Column] = (),
    ) -> None:
        self.columns = columns
        self.values = values
        self.rows = rows
        self.names = names
        self.n_rows: int | None = len(values)
        self._order = np.arange(len(values)) if order is None else order

    def in_order(self, order: np.ndarray) -> ArrayTable:
        """The same table, not copied, its rows in another order (T,)."""
        return ArrayTable(self.values, self.rows, self.names, order, self.columns)

    def raw(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, len(self.values), CHUNK_ROWS):
            chosen = self._order[start : start + CHUNK_ROWS]
            yield self.values[chosen], self.rows[chosen]


class TableSource:
    """The rows of a table as a stream source.

    ``missing``

    error   a blank cell is an error that names its row and column
    drop    rows with a blank cell are left out
    mean    a blank input becomes the mean of its column over the whole file, which looks
            ahead; with ``causal`` it stays blank, for the stream's scaling to deal with. A
            blank target stays blank, unless ``fills_target``, as the published experiments did
    """

    has_truth = False

    def __init__(
        self, table: Table, where: str, missing: str, causal: bool, fills_target: bool = False
    ) -> None:
        if missing not in MISSING:
            raise DataError(f"dataset.missing={missing!r} is none of {', '.join(MISSING)}.")
        self.inputs = table.names[:-1]
        self.target = table.names[-1]
        self.n_rows = table.n_rows if missing == "error" or fills_target else None
        self.columns = table.columns
        self._table = table
        self._where = where
        self._missing = missing
        self._means: np.ndarray | None = None
        if missing == "mean" and not causal:
            self._means = self._whole_means(fills_target)

    def chunks(self) -> Iterator[Chunk]:
        for values, rows in self._table.raw():
            blank = np.isnan(values)
            if blank.any() and self._missing == "error":
                cure = "Set dataset.missing=mean or dataset.missing=drop, or correct the file."
                self._complain(blank, rows, "is blank", cure)
            if self._missing == "drop":
                complete = ~blank.any(axis=1)
                values, rows = values[complete], rows[complete]
            elif self._means is not None:
                values = np.where(blank, self._means, values)
            if np.isinf(values).any():
                self._complain(np.isinf(values), rows, "is infinite", "Correct the file.")
            yield Chunk(np.ascontiguousarray(values[:, :-1]), values[:, -1].copy(), rows)

    def _whole_means(self, with_target: bool) -> np.ndarray:
        """Means of the columns (d + 1,); the target's is NaN where it is not to be filled."""
        width = len(self._table.names)
        total, count = np.zeros(width), np.zeros(width)
        for values, rows in self._table.raw():
            blank = np.isnan(values)
            if np.isinf(values).any():
                self._complain(np.isinf(values), rows, "is infinite", "Correct the file.")
            with np.errstate(over="ignore", invalid="ignore"):  # told below
                total += np.where(blank, 0.0, values).sum(axis=0)
            count += (~blank).sum(axis=0)
        if not with_target:
            total[-1], count[-1] = 0.0, 1.0
        for name, known in zip(self._table.names, count, strict=True):
            if not known:
                raise DataError(
                    f"{self._where}: column {name!r} has no value at all, so dataset.missing=mean "
                    "has no mean to put in. Leave the column out of dataset.inputs."
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
    classes: Sequence[Any] | None = None,
) -> np.ndarray:
    """The chosen columns of ``frame`` as float64 (n, d + 1), NaN where blank.

    ``columns.positions`` count in ``frame``, the target's last; text that is no number is a
    DataError, but in a target that holds ``classes``.
    """
    values = np.empty((len(frame), len(columns.names)))
    for k, (position, name) in enumerate(zip(*columns, strict=True)):
        series = frame.iloc[:, position]
        if classes is not None and k == len(columns.names) - 1:
            values[:, k] = class_codes(series.to_numpy(dtype=object), classes, rows, where)
            continue
        cure = OF_TARGET if k == len(columns.names) - 1 else OF_INPUT
        values[:, k] = column_values(series, name, rows, where, cure)
    return values


def class_codes(
    cells: np.ndarray, classes: Sequence[Any], rows: np.ndarray, where: str
) -> np.ndarray:
    """What a learner is given for the cells (n,): the codes of their classes, NaN where blank.

    Of two classes the first is -1 and the second +1; of K > 2 they are 0 .. K - 1.
    """
    codes = np.arange(len(classes)) if len(classes) > 2 else np.array([-1.0, 1.0])
    texts = {str(given).strip(): code for given, code in zip(classes, codes, strict=True)}
    numbers = {number: texts[same[0]] for number, same in by_number(texts).items() if not same[1:]}

    def code_of(cell: Any) -> float | None:
        """The code of a class, NaN of a blank, None of anything else."""
        text = str(cell).strip()
        if text in texts:
            return float(texts[text])
        number = _number(text)
        if text == "" or (number is not None and np.isnan(number)):
            return np.nan
        return None if number is None or number not in numbers else float(numbers[number])

    found = np.empty(len(cells))
    for n, cell in enumerate(cells):
        code = code_of(cell)
        if code is None:
            others = dict.fromkeys(str(c) for c in cells if code_of(c) is None)
            raise DataError(
                f"{where}: row {rows[n]} has the label {str(cell)!r}, which is none of "
                f"dataset.labels={list(classes)}. Not among them: {', '.join(list(others)[:20])}. "
                "Name all labels; of two the first is -1 and the second +1."
            )
        found[n] = code
    return found


def by_number(texts: Iterable[str]) -> dict[float, list[str]]:
    """The texts that are written numbers, by their number: "01" and "1" are one."""
    found: dict[float, list[str]] = {}
    for text in texts:
        if (number := _number(text)) is not None:
            found.setdefault(number, []).append(text)
    return found


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


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
def reading(where: str) -> Iterator[None]:
    """Turn whatever a parser raises into a DataError that names the file."""
    try:
        yield
    except DataError:
        raise
    except MemoryError as error:
        raise DataError(
            f"{where}: takes more memory than there is, or is damaged: {_first_line(error)}"
        ) from error
    except UnicodeError as error:
        encoding = getattr(error, "encoding", "text of the encoding that was given")
        start = getattr(error, "object", b"")[:2]
        likely = "utf-16" if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "latin-1"
        raise DataError(
            f"{where}: not {encoding} text. Set dataset.encoding, for example {likely}."
        ) from error
    except Exception as error:
        if _is_bug(error):
            if isinstance(error, ValueError):  # which elsewhere are mistakes of a user
                raise RuntimeError(f"{where}: {error}") from error
            raise
        raise DataError(f"{where}: {_in_words(error)}") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of a reader that is written in Rust
            raise
        raise DataError(f"{where}: cannot be read, it is damaged.") from error


def _is_bug(error: Exception) -> bool:
    """Whether an error says that omkl is wrong, and not that a file is."""
    if isinstance(error, AttributeError | NameError | AssertionError):
        return True
    if type(error) not in (TypeError, LookupError, KeyError, IndexError, ValueError, OverflowError):
        return False  # a class of a reader's own, or of the system
    frame = error.__traceback__  # a library that stumbles over a file raises these too
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return frame is not None and Path(frame.tb_frame.f_code.co_filename).is_relative_to(PACKAGE)


def _in_words(error: Exception) -> str:
    import pandas as pd

    if isinstance(error, pd.errors.EmptyDataError):
        return "the file is empty."
    said = _first_line(error).rstrip(".")
    if isinstance(error, gzip.BadGzipFile):
        return f"the name ends in .gz, and no gzip file is in it ({said}). Rename the file."
    if isinstance(error, pd.errors.ParserError | pd.errors.ParserWarning):
        if "EOF inside string" in said:
            return f"a quote is opened and never closed ({said}). Correct the file."
        long = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", said)
        if long or any(word in said for word in ("Length", "Number of passed names")):
            where = "the first row has more cells than the header"
            if long:
                where = f"line {long[2]} has {long[3]} cells, where {long[1]} are expected"
            return (
                f"rows of different lengths: {where}. Correct the file, take lines above the "
                "header out, or look at dataset.delimiter and dataset.header."
            )
    if isinstance(error, OSError) and error.strerror:
        said = error.strerror
    return (
        "cannot be read, it may be damaged or of another kind than the end of its name says: "
        f"{said}"
    )


@contextlib.contextmanager
def strict_about_lengths() -> Iterator[None]:
    """If the first row is longer than the header, pandas cuts all rows and only warns."""
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        yield


def _first_line(error: BaseException) -> str:
    said = str(error).strip() or type(error).__name__
    return said.splitlines()[0][:200]
