"""What all of ``omkl.datasets`` shares: errors, chunks of rows, and names that go into paths."""

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
MOST_DELAY = 1_000  # rows that wait for their targets, a horizon and a delay together


class DataError(ValueError):
    """The data are missing, damaged or not what the configuration says."""


class MissingFile(DataError):
    """The data's file is in no data folder and cannot be fetched."""


class Piece(NamedTuple):
    """Consecutive rows of a table.

    ``values`` (n, d + 1), NaN where blank, the target last; ``rows`` (n,) are their numbers in the
    file, from 1; ``series`` (n,) are those of a panel, None where blank; None of one stream.
    """

    values: np.ndarray
    rows: np.ndarray
    series: np.ndarray | None = None

    def at(self, rows: slice | np.ndarray) -> Piece:
        """Return some of the rows."""
        return Piece(*(None if array is None else array[rows] for array in self))  # type: ignore[arg-type]


class Chunk(NamedTuple):
    """Consecutive rows: ``x`` (n, d), ``y`` (n,), NaN where blank, ``truth`` (n,) or None.

    ``rows`` (n,) are their numbers in the file, from 1. In x only scaling "columns" takes NaN.
    ``time`` (n,) are days since 1970 of a date among the inputs, NaN where blank; else None.
    ``series`` (n,) are those of a panel, whole numbers or texts; None of one stream.
    ``far`` (n,) bool says which rows are far out of what was seen, of inputs that are scaled by it.
    ``ahead`` (n, d) are the rows as they are predicted, where targets come late and inputs are
    scaled by rows whose targets are in; else None.
    ``raw`` (n, d) are the rows before x was scaled by its columns; None if x was not.
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
        """Return some of the rows."""
        return Chunk(*(None if array is None else array[rows] for array in self))  # type: ignore[arg-type]


class RowCount(NamedTuple):
    """Number of rows of a pass: ``exact``, or an upper bound."""

    n: int
    exact: bool

    def __str__(self) -> str:
        if self.exact:
            return pluralize(self.n, "row")
        step = 10 ** max(len(str(self.n)) - 3, 0)
        return f"about {-(-self.n // step) * step:,} rows"


class Source(Protocol):
    """Raw rows in the order of time, finite where they are not blank."""

    inputs: tuple[str, ...]
    target: str
    n_rows: int | None  # with a target; None when only reading to the end can tell
    has_truth: bool
    row_count: RowCount | None  # those without a target too

    def chunks(self) -> Iterator[Chunk]:
        """Start anew from the first row; the chunks are the caller's to overwrite."""
        ...


def default_order(dataset: Mapping[str, Any], task: str) -> str:
    """Return ``stream.order`` where none is given."""
    return "shuffled" if task == "classification" and "file" in dataset else "file"


def default_scaling(dataset: Mapping[str, Any], scheme: str | None = None) -> str:
    """Return ``stream.scaling`` where none is given."""
    return "columns" if "path" in dataset and scheme is None else "whole"


# --- Names that become parts of paths -----------------------------------------------------------

MOST_NAME_BYTES = 80  # of UTF-8: as many characters, in English
STEM_BYTES = 60  # of a file, whose name gets an end
NAME = (
    f"a name of letters, digits, '-', '_' and '.', at most {MOST_NAME_BYTES}, that does not begin "
    "with a dot: it becomes the name of a folder"
)


def is_name(value: Any) -> bool:
    """Return whether a value is a name: letters, digits and ``-_.``, at most 80, no dot first."""
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
    """Return a name for a file: its stem, other characters replaced by _, cut to 60."""
    stem = re.sub(r"[^\w-]+", "_", PurePosixPath(file).name.partition(".")[0])
    return stem.encode()[:STEM_BYTES].decode(errors="ignore") or "_"


# --- What parsers raise -------------------------------------------------------------------------


@contextlib.contextmanager
def as_data_error(where: str) -> Iterator[None]:
    """Turn whatever a parser raises into a DataError that begins with ``where``, a file's name."""
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
    """Return whether an error is a bug of omkl. Other errors are faults of a file."""
    if isinstance(error, AttributeError | NameError | AssertionError | Warning):
        return True
    if type(error) not in (TypeError, LookupError, KeyError, IndexError, ValueError, OverflowError):
        return False  # a class of a reader's own, or of the system
    frame = error.__traceback__  # a library that stumbles over a file raises these too
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
    """Return the end of an error of rows that do not fit the header."""
    return (
        f"rows of different lengths: {problem}. Correct the file, pass over lines above the header "
        "with dataset.skip_lines, or look at dataset.delimiter."
    )


def _first_line(error: BaseException) -> str:
    message = str(error).strip() or type(error).__name__
    return message.splitlines()[0][:200]
