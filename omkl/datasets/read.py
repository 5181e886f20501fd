"""Files as pandas frames: own files in chunks, those of the catalogue as a whole.

pandas reads text, since its parser takes separators, decimals and encodings as people write them
and says in which line a row is too long; PyArrow reads Parquet and Feather by record batches.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import itertools
import json
import math
import re
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from omkl.datasets import prepare
from omkl.datasets.base import DataError, RowCount, as_data_error
from omkl.datasets.cells import PLAIN, is_text, plain_numbers
from omkl.datasets.columns import place_of, require_distinct, require_few
from omkl.datasets.files import FileContent
from omkl.utils.constraints import no_such

if TYPE_CHECKING:
    import pandas as pd

CHUNK_ROWS = 65_536
CHUNK_CELLS = 2**21  # 16 MB of numbers: tables of more than 32 columns come in fewer rows
MOST_UNPACKED = 2**31  # bytes of a file in a zip, or of the parts of a sheet
MOST_CELLS = 2**25  # of a sheet: it is held in memory
SEPARATORS = (";", "\t", "|", ",")
SNIFFED_LINES = 20
LIBSVM = (".libsvm", ".svm")
UNPACKED_TEXT = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson", *LIBSVM)


def chunk_rows(n_columns: int) -> int:
    """How many rows of so many columns are read at once."""
    return max(1, min(CHUNK_ROWS, CHUNK_CELLS // max(n_columns, 1)))


# --- Own files ------------------------------------------------------------------------------------


def open_content(cfg: Mapping[str, Any]) -> FileContent:
    """Return the content of ``dataset.path`` as it is now."""
    return FileContent(_locate(cfg.get("path")))


def _locate(value: Any) -> Path:
    if value is None:
        raise DataError("dataset=file: say which file: dataset.path=PATH dataset.target=COLUMN")
    path, suffixes = Path(str(value)).expanduser(), (*READERS, *LIBSVM)
    if not is_table(path.name):
        raise DataError(
            f"dataset.path={value}: files of this kind are not read; "
            f"the name must end in one of {', '.join(suffixes)}."
        )
    try:
        path.name.encode()
    except UnicodeEncodeError:
        raise DataError(
            f"dataset.path={str(path)!a}: the file's name is no UTF-8. Rename the file."
        ) from None
    if path.exists():
        return path
    folder = path.absolute().parent
    if not folder.is_dir():
        raise DataError(f"dataset.path={path}: there is no folder {folder}.")
    files = sorted(p.name for p in folder.iterdir() if p.name.lower().endswith(suffixes))
    what = f"data file {path.name!r} in {folder}"
    raise DataError(f"dataset.path={path}: {no_such(what, repr(path.name), map(repr, files))}")


def is_table(name: str) -> bool:
    """Whether a file of this name is read, by how it ends."""
    return name.lower().endswith((*READERS, *LIBSVM))


def is_libsvm(path: Path) -> bool:
    return path.name.lower().endswith(LIBSVM)


def is_text_file(path: Path) -> bool:
    return not is_libsvm(path) and _reader(path) is _text


def decimal_mark(content: FileContent, cfg: Mapping[str, Any]) -> str:
    """Return the decimal mark of numbers that could have either."""
    return str(layout(content, cfg)["decimal"]) if is_text_file(content.path) else "."


def row_count(content: FileContent, cfg: Mapping[str, Any]) -> int | None:
    """How many rows there are, where nothing has to be read for it."""
    if _reader(content.path) is not _parquet or cfg.get("prepare"):
        return None
    import pyarrow.parquet as pq

    with as_data_error(content.name), content.open() as raw:
        return int(pq.read_metadata(raw).num_rows)


def count_rows(
    content: FileContent, cfg: Mapping[str, Any], first: pd.DataFrame
) -> RowCount | None:
    """How many rows there are, by the ``first`` frame and the lines of text; None: unknown."""
    if (n := row_count(content, cfg)) is not None:
        return RowCount(n, True)
    read = _reader(content.path)
    in_parts = read in (_text, _json_lines) and not cfg.get("prepare")
    if read is not _feather and not (in_parts and len(first) >= chunk_rows(first.shape[1])):
        return RowCount(len(first), True)
    if not content.name.lower().endswith(UNPACKED_TEXT):  # packed
        return None
    has_header = read is _text and cfg.get("header", True)
    n = content.n_lines - (1 if has_header else 0)
    return RowCount(n, False) if n >= len(first) else None  # lines may end in other ways


def frames(
    content: FileContent,
    cfg: Mapping[str, Any],
    numbers: Collection[str] = (),
    only: str | int | None = None,
) -> Iterator[pd.DataFrame]:
    """An own file with its columns named, its ``na_values`` blank, after ``dataset.prepare``.

    The index counts rows from 0. Cells of text files are text, but in the columns ``numbers``,
    whose cells the parser may convert. Of a text file ``only`` one column may be read. Steps of
    preparation take the file as a whole: it is then one frame, in memory.
    """
    import pandas as pd

    steps = cfg.get("prepare") or {}
    with as_data_error(content.name), _strict_about_lengths():
        if _reader(content.path) is not _text:
            chunks = _named(_reader(content.path)(content, cfg), content, cfg)
        elif steps:
            chunks = _text(content, cfg)
        else:
            chunks = _text(content, cfg, numbers, only)
        chunks = (_without(frame, cfg.get("na_values")) for frame in chunks)
        if not steps:
            yield from chunks
            return
        whole = pd.concat(list(chunks)).apply(as_typed)
        if len(whole):
            yield prepare.prepare_rows(whole, steps, content.name)


def as_typed(series: pd.Series) -> pd.Series:
    """Return a column of text that spells plain numbers as numbers, others as they are."""
    import pandas as pd

    if not is_text(series) or plain_numbers(series) is None:
        return series
    return pd.to_numeric(series)


def _named(
    chunks: Iterator[pd.DataFrame], content: FileContent, cfg: Mapping[str, Any]
) -> Iterator[pd.DataFrame]:
    names: list[str] | None = None
    for frame in chunks:
        names = names or column_names(frame.columns, cfg, content.name)
        frame.columns = names
        yield frame


def _without(frame: pd.DataFrame, na_values: Any) -> pd.DataFrame:
    """The frame with ``dataset.na_values`` blank, as they are written or as the same number."""
    import pandas as pd

    given = na_values if isinstance(na_values, list | tuple) else [na_values]
    blank = {str(cell) for cell in given if cell is not None}
    if not blank:
        return frame
    numbers = {number for cell in blank if (number := PLAIN.read(cell)) is not None}

    def is_one(series: pd.Series) -> pd.Series:
        return series.astype(str).str.strip().isin(blank) | pd.to_numeric(
            series, errors="coerce"
        ).isin(numbers)

    return frame.mask(frame.apply(is_one))


def column_names(header: Any, cfg: Mapping[str, Any], where: str) -> list[str]:
    """Names from ``dataset.columns``, else those of the ``header``, else x1, x2, ...

    DataError where two columns have one name, with their positions.
    """
    columns = cfg.get("columns")
    columns = columns if isinstance(columns, list | tuple) else None  # else declarations
    if columns and len(columns) != len(header):
        raise DataError(
            f"{where}: dataset.columns names {len(columns)} columns, the file has {len(header)}."
        )
    if not columns and not cfg.get("header", True):
        require_few(len(header), where)
        return [f"x{k + 1}" for k in range(len(header))]
    words = ["" if name is None else str(name).strip() for name in columns or header]
    # A column without a name is called as pandas calls it.
    names = [word or f"Unnamed: {k}" for k, word in enumerate(words)]
    cure = "Rename one in the file, or give all columns a name in dataset.columns."
    require_distinct(names, f"{where}: dataset.columns" if columns else where, cure)
    return names


# --- Text -----------------------------------------------------------------------------------------


def _text(
    content: FileContent,
    cfg: Mapping[str, Any],
    numbers: Collection[str] = (),
    only: str | int | None = None,
) -> Iterator[pd.DataFrame]:
    import pandas as pd

    separators = layout(content, cfg)
    lines = _first_lines(content, cfg)
    if lines and re.fullmatch(r"sep=.\s*", lines[0]):
        raise DataError(f"{content.name}: its first line is no header. Set dataset.skip_lines=1.")
    split = _split(lines[:1], separators["delimiter"] or " ")
    require_few(max((len(row) for row in split), default=0), content.name)
    options = csv_options({**cfg, **separators})
    with content.open_text() as file:
        header = _first_row(file, options)
    if cfg.get("header", True):
        _require_names(header, separators["decimal"], content.name)
    names = column_names(header, cfg, content.name)
    options |= {"names": names, "dtype": {n: float if n in numbers else str for n in names}}
    if only is not None:
        options["usecols"] = [place_of(only, names, content.name)]
    size, n_read = chunk_rows(len(header)), 0
    try:
        with content.open_text() as file, pd.read_csv(file, chunksize=size, **options) as chunks:
            for frame in chunks:
                yield frame
                n_read += 1
    except ValueError:  # a cell is no plain number: it is read as text, and named if it is none
        if not numbers:
            raise
        yield from itertools.islice(_text(content, cfg, (), only), n_read, None)


def csv_options(cfg: Mapping[str, Any]) -> dict[str, Any]:
    """pandas options for text tables; ``delimiter`` null means any run of blanks."""
    import pandas as pd

    delimiter = cfg.get("delimiter", ",")
    options = {
        "sep": r"\s+" if delimiter is None else delimiter,
        "header": 0 if cfg.get("header", True) else None,
        "skiprows": cfg.get("skip_lines") or 0,
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


def _first_row(file: IO[bytes], options: Mapping[str, Any]) -> list[str]:
    """Its cells as they are written: of two equal names pandas renames the second."""
    import pandas as pd

    words = {"header": None, "nrows": 1, "dtype": str, "keep_default_na": False}
    frame = pd.read_csv(file, **{**options, **words})
    return [str(cell) for cell in frame.iloc[0]]


@contextlib.contextmanager
def _strict_about_lengths() -> Iterator[None]:
    """If the first row is longer than the header, pandas cuts all rows and only warns."""
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        yield


def _require_names(header: Sequence[str], decimal: str, where: str) -> None:
    """DataError where the first line is a row; a year may well be a name, 0.1257 is none."""
    try:
        numbers = [float(cell.replace(decimal, ".")) for cell in header]
    except ValueError:
        return
    if any(math.isfinite(number) and number != int(number) for number in numbers):
        shown = ", ".join(header[:3]) + (", .." if len(header) > 3 else "")
        raise DataError(
            f"{where}: the first line has numbers in place of names of columns ({shown}). If it is "
            "a row, add dataset.header=false; else write names there."
        )


def layout(content: FileContent, cfg: Mapping[str, Any]) -> dict[str, Any]:
    """``delimiter`` (None: any run of blanks) and ``decimal`` as given, or as the file has them."""
    delimiter, decimal = cfg.get("delimiter", "auto"), cfg.get("decimal") or "auto"
    if "auto" in (delimiter, decimal):
        lines = _first_lines(content, cfg)
        if delimiter == "auto":
            delimiter = _separator(lines)
        if decimal == "auto":
            decimal = _decimal(lines, delimiter)
    return {"delimiter": delimiter, "decimal": decimal}


def _first_lines(content: FileContent, cfg: Mapping[str, Any]) -> list[str]:
    start = cfg.get("skip_lines") or 0
    with content.open_lines(cfg.get("encoding") or "utf-8") as file:
        lines = itertools.islice(file, start, start + SNIFFED_LINES)
        return [line for line in lines if line.strip()]


def _separator(lines: list[str]) -> str | None:
    """The one that cuts the first lines into the most columns, as many in each."""
    best, most = ",", 1
    for separator in SEPARATORS:
        counts = {len(row) for row in _split(lines, separator)}
        if len(counts) == 1 and max(counts) > most:
            best, most = separator, max(counts)
    if most > 1 or any("," in line for line in lines):
        return best
    blanks = {len(line.split()) for line in lines}
    return None if len(blanks) == 1 and max(blanks) > 1 else best


def _split(lines: list[str], separator: str) -> list[list[str]]:
    """Their cells; none where one is so long that the separator is another."""
    try:
        return list(csv.reader(lines, delimiter=separator))
    except csv.Error:
        return []


def _decimal(lines: list[str], delimiter: str | None) -> str:
    if delimiter == ",":
        return "."
    rows = _split(lines, delimiter) if delimiter else map(str.split, lines)
    cells = [cell.strip() for row in rows for cell in row]
    with_comma = any(re.fullmatch(r"[-+]?\d+,\d+", cell) for cell in cells)
    with_point = any(re.fullmatch(r"[-+]?\d*\.\d+(e[-+]?\d+)?", cell) for cell in cells)
    return "," if with_comma and not with_point else "."


# --- Parquet, Feather, JSON lines -----------------------------------------------------------------


def _parquet(content: FileContent, cfg: Mapping[str, Any]) -> Iterator[pd.DataFrame]:
    import pyarrow.parquet as pq

    # Without pre-buffering a row group is read page by page, not as a whole.
    with content.open() as raw, pq.ParquetFile(raw, pre_buffer=False, buffer_size=1 << 20) as file:
        names = column_names(_columns_in(file.schema_arrow), cfg, content.name)
        yield from _of_batches(file.iter_batches(chunk_rows(len(names))))


def _feather(content: FileContent, cfg: Mapping[str, Any]) -> Iterator[pd.DataFrame]:
    import pyarrow as pa

    with content.open() as raw, pa.ipc.open_file(raw) as file:
        column_names(_columns_in(file.schema), cfg, content.name)
        yield from _of_batches(file.get_batch(k) for k in range(file.num_record_batches))


def _columns_in(schema: Any) -> list[str]:
    """Without the indices of a frame that have no name, of which pandas keeps the numbers too."""
    return [name for name in schema.names if not re.fullmatch(r"__index_level_\d+__", name)]


def _of_batches(batches: Iterator[Any]) -> Iterator[pd.DataFrame]:
    import pyarrow as pa

    start = 0
    for batch in batches:
        frame = batch.to_pandas()
        # The index of a frame that somebody wrote is a column like others, if it has a name.
        if named := [name for name in frame.index.names if name in batch.schema.names]:
            frame = frame.reset_index(level=named)[_columns_in(batch.schema)]
        for k, name in enumerate(frame.columns):
            if name in batch.schema.names and pa.types.is_binary(batch.schema.field(name).type):
                frame.isetitem(k, frame.iloc[:, k].map(_text_of, na_action="ignore"))
        frame.index = range(start, start + len(frame))
        start += len(frame)
        yield frame


def _text_of(cell: bytes) -> str:
    return cell.decode(errors="backslashreplace")


def _json_lines(content: FileContent, cfg: Mapping[str, Any]) -> Iterator[pd.DataFrame]:
    import pandas as pd

    names: list[str] = []
    with content.open_lines(cfg.get("encoding") or "utf-8") as file:
        lines = enumerate((line for line in file if line.strip()), start=1)
        start, size = 0, CHUNK_ROWS
        while rows := [_json_row(line, n, content) for n, line in itertools.islice(lines, size)]:
            names = names or list(dict.fromkeys(name for row in rows for name in row))
            allowed = set(names)
            for n, row in enumerate(rows, start=start + 1):
                if new := next((name for name in row if name not in allowed), None):
                    raise DataError(
                        f"{content.name}: row {n} has the key {new!r}, which none of the first "
                        f"{CHUNK_ROWS:,} rows has. Give every row all keys, with null."
                    )
            index = range(start, start + len(rows))
            yield pd.DataFrame(rows, columns=names, index=index).infer_objects()
            start, size = index.stop, chunk_rows(len(names))


def _json_row(line: str, n: int, content: FileContent) -> dict[str, Any]:
    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        row = dict(pairs)
        if len(row) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            first, second, *_ = (k for k, key in enumerate(keys, start=1) if key == twice)
            raise DataError(
                f"{content.name}: row {n}: keys {first} and {second} are both {twice!r}. Rename "
                "one in the file."
            )
        return row

    try:
        row = json.loads(line, object_pairs_hook=distinct)
        if "\\ud" in line.lower():
            json.dumps(row, ensure_ascii=False).encode()
    except DataError:
        raise
    except UnicodeEncodeError:
        raise DataError(f"{content.name}: row {n} has half a character: \\ud...") from None
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{content.name}: row {n} cannot be read as JSON, an object {{...}} a line: {error}"
        ) from error
    if not isinstance(row, dict):
        raise DataError(f"{content.name}: row {n} is no JSON object {{...}}: {line.strip()[:80]}")
    return row


# --- Excel ----------------------------------------------------------------------------------------


def _excel(content: FileContent, cfg: Mapping[str, Any]) -> Iterator[pd.DataFrame]:
    yield _sheet(content, cfg).infer_objects()


def _sheet(content: FileContent, cfg: Mapping[str, Any]) -> pd.DataFrame:
    """The first sheet of an Excel file, empty cells None."""
    import pandas as pd
    from python_calamine import CalamineWorkbook

    with content.open() as file:
        _require_small_sheets(file, content.name)
        file.seek(0)
        with CalamineWorkbook.from_filelike(file) as workbook:
            cells = workbook.get_sheet_by_index(0).to_python()
    rows = [[None if cell == "" else cell for cell in row] for row in cells]
    if not (cfg.get("header", True) and rows):
        return pd.DataFrame(rows)
    names = ["" if cell is None else _without_fraction(cell) for cell in rows[0]]
    require_few(len(names), content.name)
    return pd.DataFrame(rows[1:], columns=names)


def _without_fraction(cell: Any) -> str:
    """A cell of a header; Excel's numbers are floats, and a year is none."""
    if isinstance(cell, float) and math.isfinite(cell) and cell == int(cell):
        return str(int(cell))
    return str(cell)


def _require_small_sheets(file: IO[bytes], where: str) -> None:
    """DataError for a sheet whose cells would fill the memory: its reader makes room for all.

    One cell in the last row and column is enough for that, so places are looked at.
    """
    if not zipfile.is_zipfile(file):  # .xls, whose sheets are small
        return
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            if not name.endswith("/"):  # any member may be named as a sheet
                with archive.open(name) as member:
                    _require_small_sheet(member, where)


_PLACE = re.compile(rb"""\br\s*=\s*["']([A-Za-z]{1,4})(\d{1,9})["']""")
_ROW = re.compile(rb"""<(?:\w+:)?row\b[^>]{0,200}?\br\s*=\s*["'](\d{1,9})["']""")


def _require_small_sheet(member: IO[bytes], where: str) -> None:
    height, width, unpacked, tail = 0, 1, 0, b""
    while piece := member.read(2**20):
        unpacked += len(piece)
        places = _PLACE.findall(tail + piece)
        width = max([width, *map(_column_number, {letters for letters, _ in places})])
        height = max([height, *(int(row) for _, row in places)])
        height = max([height, *map(int, _ROW.findall(tail + piece))])
        tail = (tail + piece)[-256:]
        if unpacked > MOST_UNPACKED or height * width > MOST_CELLS:
            raise DataError(
                f"{where}: a sheet of {height:,} rows and {width:,} columns ({unpacked:,} bytes "
                f"so far) is more than the {MOST_CELLS:,} cells and {MOST_UNPACKED:,} bytes that "
                "are read. Save it as CSV."
            )


def _column_number(letters: bytes) -> int:
    number = 0
    for letter in letters.upper():
        number = 26 * number + letter - ord("A") + 1
    return number


READERS: dict[str, Callable[[FileContent, Mapping[str, Any]], Iterator[pd.DataFrame]]] = {
    ".csv": _text, ".csv.gz": _text, ".tsv": _text, ".tsv.gz": _text, ".txt": _text,
    ".parquet": _parquet, ".feather": _feather, ".arrow": _feather, ".jsonl": _json_lines,
    ".ndjson": _json_lines, ".xlsx": _excel, ".xls": _excel,
}  # fmt: skip


def _reader(path: Path) -> Callable[[FileContent, Mapping[str, Any]], Iterator[pd.DataFrame]]:
    name = path.name.lower()
    return next(read for suffix, read in READERS.items() if name.endswith(suffix))


# --- Files of the catalogue -----------------------------------------------------------------------


def read_entry(content: FileContent, cfg: Mapping[str, Any]) -> pd.DataFrame:
    """The file of a catalogue entry after all steps of its preparation that do not scale.

    The index counts the file's rows from 0. ``format``: text (columns between blanks), csv, zip
    (CSV files in a zip, one below the other), excel, or mat (arrays X and y, the columns then being
    x1, x2, ... and y; or the one that ``array`` names).
    """
    steps, form = cfg.get("prepare") or {}, cfg.get("format")
    with as_data_error(content.name), _strict_about_lengths():
        if form in ("csv", "text"):
            with content.open_text() as file:
                text = io.BytesIO(file.read())
            split_at = {**cfg, "delimiter": None} if form == "text" else cfg
            frame = _read_csv(text, split_at, steps.get("first_rows"))
        elif form == "zip":
            frame = _read_zip(content, cfg)
        elif form == "excel":
            frame = _sheet(content, cfg)
        elif form == "mat":
            frame = _read_mat(content, cfg.get("array"))
        else:
            formats = "text, csv, zip, excel, mat, libsvm"
            raise DataError(f"{cfg['name']}: dataset.format={form!r} is none of {formats}.")
    names = column_names(frame.columns, cfg, content.name)
    if form == "zip" and cfg.get("member_column"):
        names[-1] = cfg["member_column"]
    frame.columns = names
    with as_data_error(cfg["name"]):  # a step may be given what it cannot take
        return prepare.prepare_rows(frame, steps, cfg["name"])


def _read_csv(file: IO[bytes], cfg: Mapping[str, Any], n_rows: int | None) -> pd.DataFrame:
    import pandas as pd

    options = csv_options(cfg)
    header = _first_row(file, options)
    file.seek(0)
    frame = pd.read_csv(file, nrows=n_rows, **options)
    if cfg.get("header", True) and len(header) == frame.shape[1]:
        frame.columns = header
    return frame


def _read_zip(content: FileContent, cfg: Mapping[str, Any]) -> pd.DataFrame:
    """The files of ``members``, found by name in any folder of the zip, each with its digest."""
    import pandas as pd

    parts = []
    with content.open() as packed, zipfile.ZipFile(packed) as archive:
        inside = {PurePosixPath(name).name: name for name in archive.namelist()}
        for member, digest in cfg["members"].items():
            what = f"{cfg['name']}: {member} in {content.path}"
            if member not in inside:
                there = ", ".join(sorted(inside)) or "nothing"
                raise DataError(f"{cfg['name']}: {content.path} holds no {member}, but {there}.")
            if archive.getinfo(inside[member]).file_size > MOST_UNPACKED:
                raise DataError(
                    f"{what} is larger than the {MOST_UNPACKED:,} bytes that are unpacked."
                )
            unpacked = archive.read(inside[member])
            _check_digest(unpacked, digest, what)
            frame = _read_csv(io.BytesIO(unpacked), cfg, None)
            if cfg.get("member_column"):  # read_entry gives it its name
                frame[len(frame.columns)] = PurePosixPath(member).stem
            parts.append(frame)
    return pd.concat(parts, ignore_index=True)


def _check_digest(content: bytes, digest: str | None, what: str) -> None:
    """``digest``: sha256:HEX, git:HEX (the id of a git blob), or None for any content."""
    if digest is None:
        return
    kind, _, wanted = digest.partition(":")
    if kind == "git":
        actual = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    else:
        actual = hashlib.sha256(content).hexdigest()
    if actual != wanted:
        raise DataError(
            f"{what} is not the file it should be.\n  expected {digest}\n  found    "
            f"{kind}:{actual}\nGet the zip anew; for another version set its digest in "
            "dataset.members to null."
        )


def _read_mat(content: FileContent, array: str | None) -> pd.DataFrame:
    import pandas as pd
    import scipy.io

    with content.open() as file:
        arrays = scipy.io.loadmat(io.BytesIO(file.read()))
    if array is not None:
        if array not in arrays:
            names = ", ".join(name for name in arrays if not name.startswith("__"))
            raise DataError(f"{content.name}: no array {array!r}, but {names}.")
        values = np.atleast_2d(arrays[array].astype(np.float64))
        return pd.DataFrame(values, columns=[f"x{k + 1}" for k in range(values.shape[1])])
    shapes = {name: v.shape for name, v in arrays.items() if isinstance(v, np.ndarray)}
    if "X" not in shapes or "y" not in shapes:
        raise DataError(f"{content.name}: no arrays X and y, but {shapes}.")
    y = arrays["y"].ravel().astype(np.float64)
    x = arrays["X"].astype(np.float64)
    if x.shape[1] == len(y):  # one column a sample
        x = x.T
    if x.shape[0] != len(y):
        raise DataError(f"{content.name}: X {shapes['X']} and y {shapes['y']} do not go together.")
    frame = pd.DataFrame(x, columns=[f"x{k + 1}" for k in range(x.shape[1])])
    frame["y"] = y
    return frame
