"""Define errors, chunks of rows and valid file names for all modules of ``omkl.datasets``."""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from omkl.utils.wording import pluralize

if TYPE_CHECKING:
    import numpy as np

PACKAGE = Path(__file__).parents[1]
MOST_COLUMNS = 100_000
MOST_DELAY = 1_000  # rows that wait for their targets: horizon and delay together


class DataError(ValueError):
    """Raised if data are missing or damaged, or do not fit the configuration."""


class MissingFile(DataError):
    """Raised if a file is in no data folder and cannot be downloaded."""


class Piece(NamedTuple):
    """Consecutive rows of a table.

    values  (n, d + 1) inputs, followed by the target; NaN for a missing value
    rows    (n,) row numbers in the file, from 1
    series  (n,) series of each row of a panel, None for a missing one; None without series
    """

    values: np.ndarray
    rows: np.ndarray
    series: np.ndarray | None = None

    def at(self, rows: slice | np.ndarray) -> Piece:
        """Return the selected rows."""
        return Piece(*(None if array is None else array[rows] for array in self))  # type: ignore[arg-type]


class Chunk(NamedTuple):
    """Consecutive rows of a stream.

    x       (n, d) inputs. A missing value is NaN, which only scaling "columns" accepts
    y       (n,) targets; NaN for a missing value
    rows    (n,) row numbers in the file, from 1
    time    (n,) date among the inputs in days since 1970, NaN for a missing value; None without a
            date
    truth   (n,) targets without noise; None if unknown
    series  (n,) series of each row of a panel, whole numbers or texts; None without series
    far     (n,) bool, whether a row has an input far from the earlier values of its column; None
            if inputs are not standardised online
    ahead   (n, d) inputs that the prediction reads. Each row is standardised by the mean and
            deviation of the row itself and of all rows whose targets are known when it is
            predicted. None if targets are not late: predictions then read x
    raw     (n, d) inputs before online standardisation. Hashed columns have levels in ``raw`` and 0
            in x. None if x is not standardised and no column is hashed
    """

    x: np.ndarray
    y: np.ndarray
    rows: np.ndarray
    time: np.ndarray | None = None
    truth: np.ndarray | None = None
    series: np.ndarray | None = None
    far: np.ndarray | None = None
    ahead: np.ndarray | None = None
    raw: np.ndarray | None = None

    def at(self, rows: slice | np.ndarray) -> Chunk:
        """Return the selected rows."""
        return Chunk(*(None if array is None else array[rows] for array in self))  # type: ignore[arg-type]


class RowCount(NamedTuple):
    """Number n of rows in one pass over a stream. If not ``exact``, it is an upper bound."""

    n: int
    exact: bool

    def __str__(self) -> str:
        if self.exact:
            return pluralize(self.n, "row")
        step = 10 ** max(len(str(self.n)) - 3, 0)
        return f"about {-(-self.n // step) * step:,} rows"


class Source(Protocol):
    """Source of unscaled rows in the order of time. Values are finite, or NaN if missing."""

    inputs: tuple[str, ...]
    target: str
    n_rows: int | None  # rows with a target; None if unknown before the end
    has_truth: bool
    row_count: RowCount | None  # all rows, also those without a target

    def chunks(self) -> Iterator[Chunk]:
        """Yield all chunks from the first row on. The caller may overwrite their arrays."""
        ...


def default_order(dataset: Mapping[str, Any], task: str) -> str:
    """Return the default of ``stream.order`` for a data set."""
    return "shuffled" if task == "classification" and "file" in dataset else "file"


def default_scaling(dataset: Mapping[str, Any], scheme: str | None = None) -> str:
    """Return the default of ``stream.scaling`` for a data set.

    ``scheme`` is the scheme of a federation, or None.
    """
    return "columns" if "path" in dataset and scheme is None else "whole"


# --- Names that become parts of paths -----------------------------------------------------------

MOST_NAME_BYTES = 80  # bytes of UTF-8, 80 English characters
STEM_BYTES = 60  # bytes of a file's stem, to which a suffix is added
NAME = (
    f"a name of letters, digits, '-', '_' and '.', at most {MOST_NAME_BYTES}, that does not begin "
    "with a dot: it becomes the name of a folder"
)


def is_name(value: Any) -> bool:
    """Return whether a value is a valid name of a folder. ``NAME`` describes the valid names."""
    return (
        isinstance(value, str)
        and re.fullmatch(r"[\w-][\w.-]*", value) is not None
        and len(value.encode()) <= MOST_NAME_BYTES
    )


def is_relative_file(value: Any) -> bool:
    """Return whether a value is a path below a folder: names separated by /."""
    parts = value.split("/") if isinstance(value, str) else []
    return bool(parts) and all(map(is_name, parts))


def name_of_file(file: str) -> str:
    """Return the stem of a file as a valid name: invalid characters become _, at most 60 bytes."""
    stem = re.sub(r"[^\w-]+", "_", PurePosixPath(file).name.partition(".")[0])
    return stem.encode()[:STEM_BYTES].decode(errors="ignore") or "_"


# --- Errors of parsers --------------------------------------------------------------------------


@contextlib.contextmanager
def as_data_error(where: str) -> Iterator[None]:
    """Convert errors of a parser to DataError, except bugs of omkl.

    The message begins with ``where``, the name of the file.
    """
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
            if isinstance(error, ValueError):  # a ValueError elsewhere is a user's mistake
                raise RuntimeError(f"{where}: {error}") from error
            raise
        raise DataError(f"{where}: {_in_words(error)}") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # raised by readers written in Rust
            raise
        raise DataError(f"{where}: cannot be read, it is damaged.") from error


def _is_bug(error: Exception) -> bool:
    """Return whether an error is a bug of omkl, and not caused by a damaged file.

    Errors such as AttributeError are always bugs. An error of a general class, such as ValueError,
    is a bug only if a function of omkl raised it: libraries raise these errors for damaged files.
    """
    if isinstance(error, AttributeError | NameError | AssertionError | Warning):
        return True
    if type(error) not in (TypeError, LookupError, KeyError, IndexError, ValueError, OverflowError):
        return False  # an error class of a reader or of the system
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return frame is not None and Path(frame.tb_frame.f_code.co_filename).is_relative_to(PACKAGE)


def _in_words(error: Exception) -> str:
    import pandas as pd

    message = _first_line(error).rstrip(".").removeprefix("Error tokenizing data. C error: ")
    if isinstance(error, pd.errors.ParserError):
        if "EOF inside string" in message:
            return f"a quote is opened and never closed ({message}). Correct the file."
        if long := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", message):
            problem = f"line {long[2]} has {long[3]} cells, where {long[1]} are expected"
            return different_lengths(problem)
    return (
        "cannot be read, it may be damaged or of another kind than the end of its name says: "
        f"{message}"
    )


def different_lengths(problem: str) -> str:
    """Return the error message for rows of different lengths, without the name of the file.

    ``problem`` states which row has too many cells.
    """
    return (
        f"rows of different lengths: {problem}. Correct the file, pass over lines above the header "
        "with dataset.skip_lines, or look at dataset.delimiter."
    )


def _first_line(error: BaseException) -> str:
    message = str(error).strip() or type(error).__name__
    return message.splitlines()[0][:200]
