"""Read files as pandas frames, in chunks.

The formats of users' files are text, Parquet, Feather, JSON and Excel. The catalogue also has CSV
files in a zip and MATLAB arrays. pandas reads text, because its parser accepts many separators,
decimal marks and encodings, and reports the line of a row that is too long. PyArrow reads Parquet
and Feather by record batches.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import hashlib
import io
import itertools
import json
import math
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.datasets import prepare
from omkl.datasets.base import DataError, RowCount, as_data_error, different_lengths
from omkl.datasets.cells import (
    BLANKS,
    PLAIN,
    NumberFormat,
    is_blank,
    is_text,
    number_format,
    plain_numbers,
    text_of,
    word,
)
from omkl.datasets.columns import place_of, require_distinct, require_few
from omkl.datasets.files import FileContent
from omkl.utils.constraints import no_such

if TYPE_CHECKING:
    import pandas as pd

CHUNK_ROWS = 65_536
CHUNK_CELLS = 2**21  # 16 MB of numbers: tables of more than 32 columns have fewer rows per chunk
CELL_BYTES, MOST_SHEET_BYTES = 32, 2**30  # bytes in memory: calamine loads a whole sheet
SEPARATORS = (";", "\t", "|", ",")
SNIFFED_LINES = 20
LIBSVM = (".libsvm", ".svm")


def chunk_rows(n_columns: int) -> int:
    """Return the number of rows per chunk for a table with this number of columns."""
    return max(1, min(CHUNK_ROWS, CHUNK_CELLS // max(n_columns, 1)))


def open_content(cfg: Mapping[str, Any]) -> FileContent:
    """Return the content of the file ``dataset.path``. Raises DataError if it cannot be read."""
    value = cfg.get("path")
    if value is None:
        raise DataError("dataset=file: say which file: dataset.path=PATH dataset.target=COLUMN")
    path, suffixes = Path(str(value)).expanduser(), (*READERS, *LIBSVM)
    if not (is_table(path.name) or cfg.get("format")):
        raise DataError(
            f"dataset.path={value}: files of this kind are not read; the name must end in one of "
            f"{', '.join(suffixes)}. For text of another name set dataset.format=csv."
        )
    try:
        path.name.encode()
    except UnicodeEncodeError:
        raise DataError(
            f"dataset.path={str(path)!a}: the file's name is no UTF-8. Rename the file."
        ) from None
    if path.exists():
        return FileContent(path)
    folder = path.absolute().parent
    if not folder.is_dir():
        raise DataError(f"dataset.path={path}: there is no folder {folder}.")
    files = sorted(p.name for p in folder.iterdir() if p.name.lower().endswith(suffixes))
    what = f"data file {path.name!r} in {folder}"
    raise DataError(f"dataset.path={path}: {no_such(what, repr(path.name), map(repr, files))}")


def is_table(name: str) -> bool:
    """Return whether a file name has a suffix of a format that can be read."""
    return name.lower().endswith((*READERS, *LIBSVM))


def is_libsvm(content: FileContent, cfg: Mapping[str, Any]) -> bool:
    """Return whether a file is LIBSVM text."""
    given = cfg.get("format")
    return given == "libsvm" if given else content.name.lower().endswith(LIBSVM)


def is_text_file(content: FileContent, cfg: Mapping[str, Any]) -> bool:
    """Return whether a file is a table in text format."""
    return not is_libsvm(content, cfg) and _reader(content, cfg) is _text


def count_rows(
    content: FileContent, cfg: Mapping[str, Any], first: pd.DataFrame
) -> RowCount | None:
    """Return the number of rows of a file, or None if it is unknown before the file is read.

    The number comes from the metadata of Parquet, from the length of ``first`` if it is the whole
    file, or from the number of lines, which is an upper bound.

    Parameters
    ----------
    content
        The file.
    cfg
        Settings of the data set.
    first
        First frame of the file: all rows of a short file, or a full chunk of a long one.
    """
    reader, prepares = _reader(content, cfg), cfg.get("prepare")
    if reader is _parquet and not prepares:
        import pyarrow.parquet as pq

        with as_data_error(content.name), content.open() as raw:
            return RowCount(int(pq.read_metadata(raw).num_rows), True)
    in_parts = reader in (_text, _json) and len(first) >= chunk_rows(first.shape[1])
    if prepares or not (in_parts or reader is _feather):
        return RowCount(len(first), True)
    if content.n_lines is None or reader is _feather:
        return None
    n = content.n_lines - (count_headers(cfg) if reader is _text else 0)
    return RowCount(n, False) if n >= len(first) else None  # "\r" alone can also end a line


def frames(
    content: FileContent,
    cfg: Mapping[str, Any],
    numbers: Collection[str] = (),
    only: str | int | None = None,
) -> Iterator[pd.DataFrame]:
    """Yield the rows of a file in frames, after the steps of ``dataset.prepare``.

    The index of a frame counts the rows of the file from 0. If there are steps of preparation, the
    whole file is one frame in memory, because the steps need all rows.

    Parameters
    ----------
    content, cfg
        The file, and the settings of the data set.
    numbers
        Columns of a text file that the parser may convert to numbers. Other cells stay text.
    only
        The only column of a text file to read; None: all columns.
    """
    import pandas as pd

    steps = cfg.get("prepare") or {}
    with as_data_error(content.name):
        reader = _reader(content, cfg)
        if reader is _text:
            chunks = _text(content, cfg) if steps else _text(content, cfg, numbers, only)
        else:
            chunks = _numbered(reader(content, cfg))
        chunks = (_without(frame, cfg.get("na_values")) for frame in chunks)
        if not steps:
            yield from chunks
            return
        whole = pd.concat(list(chunks)).apply(as_typed)
    with as_data_error(str(cfg["name"])):  # a step may not fit the file
        if len(whole):
            yield prepare.prepare_rows(whole, steps, content.name)


def as_typed(series: pd.Series) -> pd.Series:
    """Convert a column of text to numbers if all cells are plain numbers."""
    import pandas as pd

    if not is_text(series) or plain_numbers(series) is None:
        return series
    return pd.to_numeric(series)


def _numbered(chunks: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    start = 0
    for frame in chunks:
        frame.index = range(start, start := start + len(frame))
        yield frame


def _without(frame: pd.DataFrame, na_values: Any) -> pd.DataFrame:
    """Replace cells by missing values if they equal a text or a number in ``dataset.na_values``."""
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


def count_headers(cfg: Mapping[str, Any]) -> int:
    """Return the number of header rows in ``dataset.header``."""
    return int(cfg.get("header", True) or 0)


def column_names(header: Sequence[Any], cfg: Mapping[str, Any], where: str) -> list[str]:
    """Return the names of the columns.

    The names come from ``dataset.columns``, or else from the header. Without both they are x1, x2,
    ...

    Parameters
    ----------
    header
        Names in the header of the file, or the cells of the first row if there is no header.
    cfg
        Settings of the data set; ``columns`` and ``header`` are used.
    where
        Name of the file, for messages.

    Raises
    ------
    DataError
        Two columns have the same name, or the length of ``dataset.columns`` is wrong.
    """
    columns = cfg.get("columns")
    columns = columns if isinstance(columns, list | tuple) else None  # None: declarations
    if columns and len(columns) != len(header):
        raise DataError(
            f"{where}: dataset.columns names {len(columns)} columns, the file has {len(header)}."
        )
    if not columns and not cfg.get("header", True):
        require_few(len(header), where)
        return [f"x{k + 1}" for k in range(len(header))]
    words = ["" if name is None else str(name).strip() for name in columns or header]
    # A column without a name gets the name that pandas uses.
    names = [word or f"Unnamed: {k}" for k, word in enumerate(words)]
    cure = (
        "Rename one in the file, or give all columns a name in dataset.columns. If the header has "
        "two rows, set dataset.header=2."
    )
    require_distinct(names, f"{where}: dataset.columns" if columns else where, cure)
    return names


# --- Text -----------------------------------------------------------------------------------------


class Layout(NamedTuple):
    """Layout of a text file: delimiter and decimal mark. Delimiter None: any run of blanks."""

    delimiter: str | None
    decimal: str


def layout(content: FileContent, cfg: Mapping[str, Any]) -> Layout:
    """Return the layout of a text file. Parts that are "auto" are detected from its first lines."""
    delimiter, decimal = cfg.get("delimiter", "auto"), cfg.get("decimal") or "auto"
    if "auto" in (delimiter, decimal):
        with _lines(content, cfg) as file:
            lines = [line for line in itertools.islice(file, SNIFFED_LINES) if line.strip()]
        delimiter = _separator(lines) if delimiter == "auto" else delimiter
        decimal = _decimal(lines, delimiter) if decimal == "auto" else decimal
    return Layout(delimiter, decimal)


@contextlib.contextmanager
def _lines(content: FileContent, cfg: Mapping[str, Any]) -> Iterator[Iterator[str]]:
    """Open a text file and return its lines from the header on."""
    with content.open_lines(cfg.get("encoding") or "utf-8") as file:
        yield itertools.islice(file, cfg.get("skip_lines") or 0, None)


def _cells(lines: Iterator[str] | Sequence[str], delimiter: str | None) -> Iterator[list[str]]:
    if delimiter is None:
        return map(str.split, lines)
    return csv.reader(lines, delimiter=delimiter, skipinitialspace=True)


def _separator(lines: list[str]) -> str | None:
    """Return the separator that divides all first lines into the same number of columns.

    If several separators do so, return the separator that gives the most columns.
    """
    best, most = ",", 1
    for separator in SEPARATORS:
        with contextlib.suppress(csv.Error):  # a very long cell: it is not the separator
            counts = {len(row) for row in _cells(lines, separator)}
            if len(counts) == 1 and max(counts) > most:
                best, most = separator, max(counts)
    if most > 1 or any("," in line for line in lines):
        return best
    blanks = {len(line.split()) for line in lines}
    return None if len(blanks) == 1 and max(blanks) > 1 else best


def _decimal(lines: list[str], delimiter: str | None) -> str:
    if delimiter == ",":
        return "."
    cells = [cell.strip() for row in _cells(lines, delimiter) for cell in row]
    with_comma = any(re.fullmatch(r"[-+]?\d+,\d+", cell) for cell in cells)
    with_point = any(re.fullmatch(r"[-+]?\d*\.\d+(e[-+]?\d+)?", cell) for cell in cells)
    return "," if with_comma and not with_point else "."


def _text(
    content: FileContent,
    cfg: Mapping[str, Any],
    numbers: Collection[str] = (),
    only: str | int | None = None,
) -> Iterator[pd.DataFrame]:

    delimiter, decimal = layout(content, cfg)
    n_headers, encoding = count_headers(cfg), cfg.get("encoding") or "utf-8"
    with _lines(content, cfg) as file:
        lines = _cells(file, delimiter)
        rows = filter(None, lines)
        header = _joined([next(rows, []) for _ in range(n_headers or 1)])
        n_above = getattr(lines, "line_num", None) if n_headers else 0
        first = list(itertools.islice(rows, SNIFFED_LINES))
    if not header:
        raise DataError(f"{content.name}: the file is empty.")
    if first and len(first[0]) > len(header):  # pandas would cut all rows
        problem = "the first row has more cells than the header"
        raise DataError(f"{content.name}: {different_lengths(problem)}")
    if n_headers:
        _require_names(header, decimal, content.name)
    if cfg.get("header", True) is True:
        _require_one_header(header, first, NumberFormat(decimal), content.name)
    names = column_names(header, cfg, content.name)
    options: dict[str, Any] = {
        "sep": r"\s+" if delimiter is None else delimiter,
        "header": n_headers - 1 if n_headers else None,
        "skiprows": cfg.get("skip_lines") or 0,
        "decimal": decimal,
        "encoding": encoding,
        "index_col": False,
        "low_memory": False,
        "skipinitialspace": True,
        "names": names,
        "usecols": None if only is None else [place_of(only, names, content.name)],
        "chunksize": chunk_rows(len(header)),
        **precision(),
    }
    as_read = [numbers, ()] if numbers else [()]
    readers = [functools.partial(_rows_by_pandas, options, names, some) for some in as_read]
    # PyArrow and pandas would read different rows if a name in the header contains a line break,
    # or if lines end in "\r" alone. Then only pandas reads the file.
    is_usual = n_above == n_headers and not options["skiprows"] and (content.n_lines or 0) > 1
    if is_usual and encoding == "utf-8" and delimiter and set(names) <= set(numbers):
        readers.insert(0, functools.partial(_rows_by_arrow, names, n_headers, delimiter, decimal))
    n_read = 0
    for reader in readers:
        try:
            with content.open_text() as raw:
                for frame in reader(raw):
                    if (n_new := frame.index.stop - n_read) > 0:
                        n_read += n_new
                        yield frame.iloc[-n_new:]
            return
        except ValueError:  # a cell is no plain number: the last reader reads columns as text
            if reader is readers[-1]:
                raise


def _rows_by_pandas(
    options: Mapping[str, Any], names: Sequence[str], numbers: Collection[str], raw: IO[bytes]
) -> Iterator[pd.DataFrame]:
    """Yield the rows of a text file. Columns ``numbers`` are numbers, the others text.

    Raises ValueError for a cell in ``numbers`` that is not a number.
    """
    import pandas as pd

    dtype = {name: float if name in numbers else str for name in names}
    with pd.read_csv(raw, dtype=dtype, **options) as chunks:
        yield from chunks


def _rows_by_arrow(
    names: Sequence[str], n_headers: int, delimiter: str, decimal: str, raw: IO[bytes]
) -> Iterator[pd.DataFrame]:
    """Yield the rows of a text file in which all columns are numbers.

    This takes half the time of ``_rows_by_pandas`` for numbers of 17 digits. Raises ValueError for
    a row of another length, and for a cell that is neither a plain number nor one of ``BLANKS``.
    """
    import pandas as pd
    import pyarrow as pa
    from pyarrow import csv as text

    # A cell takes at least 2 bytes, so a batch has at most 2 chunk_rows rows.
    n_bytes = 4 * len(names) * chunk_rows(len(names))
    batches = text.open_csv(
        raw,
        text.ReadOptions(
            use_threads=False, block_size=n_bytes, skip_rows=n_headers, column_names=names
        ),
        text.ParseOptions(delimiter=delimiter),
        text.ConvertOptions(
            column_types=dict.fromkeys(names, pa.float64()),
            null_values=sorted(BLANKS),
            decimal_point=decimal,
        ),
    )
    start = 0
    for batch in batches:
        rows = range(start, start := start + batch.num_rows)
        columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
        n_missing = sum(column.null_count for column in batch.columns)
        if sum(int(np.isnan(column).sum()) for column in columns) > n_missing:
            raise ValueError("a cell such as NAN, which is no missing word")
        yield pd.DataFrame(dict(zip(names, columns, strict=True)), index=rows, copy=False)


def precision() -> dict[str, Any]:
    """Return the options for the fastest parser of pandas that rounds numbers correctly."""
    import pandas as pd

    version = tuple(int(part) for part in pd.__version__.split(".")[:2])
    return {"float_precision": "round_trip"} if version < (3, 1) else {}


def _require_names(header: Sequence[str], decimal: str, where: str) -> None:
    """Raise DataError if the first line is no header.

    It is no header if it is ``sep=``, or if all cells are numbers and some of them are not whole.
    Whole numbers can be names, such as years.
    """
    if re.fullmatch(r"sep=.?", header[0].strip()):
        raise DataError(f"{where}: its first line is no header. Set dataset.skip_lines=1.")
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


def _joined(headers: Sequence[Sequence[str]]) -> list[str]:
    """Join several header rows into one: ``mass`` above ``kg`` becomes "mass kg".

    Merged cells are read as a cell followed by empty cells. Except in the last row, an empty cell
    therefore repeats the cell to its left.
    """
    rows = [[cell.strip() for cell in row] for row in headers]
    for row in rows[:-1]:
        for k in range(1, len(row)):
            row[k] = row[k] or row[k - 1]
    return [" ".join(filter(None, column)) for column in itertools.zip_longest(*rows, fillvalue="")]


def _require_one_header(
    header: Sequence[str], rows: Sequence[Sequence[Any]], form: NumberFormat, where: str
) -> None:
    """Raise DataError if the first row looks like a second header row.

    Take the columns in which all cells after the first row are numbers. The first row looks like a
    header if there are at least two such columns, it has a text in at least one of them, and it has
    a number in none of them.
    """
    texts: dict[str, Any] = {}  # first cell by column
    n_numbers = 0
    for name, (first, *cells) in zip(header, zip(*rows, strict=False), strict=False):
        there = [cell for cell in cells if not is_blank(cell)]
        if there and all(form.read(cell) is not None for cell in there):
            n_numbers += 1
            if number_format({text_of(first): 1}, form.decimal):
                return
            texts |= {} if is_blank(first) else {name: first}
    if n_numbers > 1 and texts:
        name, cell = next(iter(texts.items()))
        raise DataError(
            f"{where}: row 1 has {cell!r} in column {name!r}, and later rows have numbers. If it "
            "is a second header row, set dataset.header=2, which joins both. If it is a row, set "
            "dataset.header=1."
        )


# --- Parquet, Feather, JSON -----------------------------------------------------------------


def _parquet(content: FileContent, cfg: Mapping[str, Any]) -> Iterator[pd.DataFrame]:
    import pyarrow.parquet as pq

    # Without pre-buffering a row group is read page by page, not as a whole.
    with content.open() as raw, pq.ParquetFile(raw, pre_buffer=False, buffer_size=1 << 20) as file:
        size = chunk_rows(len(file.schema_arrow.names))
        yield from _of_batches(file.iter_batches(size), file.schema_arrow, cfg, content.name)


def _feather(content: FileContent, cfg: Mapping[str, Any]) -> Iterator[pd.DataFrame]:
    import pyarrow as pa

    with content.open() as raw, pa.ipc.open_file(raw) as file:
        batches = (file.get_batch(k) for k in range(file.num_record_batches))
        yield from _of_batches(batches, file.schema, cfg, content.name)


def _of_batches(
    batches: Iterator[Any], schema: Any, cfg: Mapping[str, Any], where: str
) -> Iterator[pd.DataFrame]:
    # The index of a written frame is a column if it has a name.
    columns = [name for name in schema.names if not re.fullmatch(r"__index_level_\d+__", name)]
    names = column_names(columns, cfg, where)
    for batch in batches:
        frame = batch.to_pandas()
        if named := [name for name in frame.index.names if name in columns]:
            frame = frame.reset_index(level=named)[columns]
        frame.columns = names
        yield frame


def _json(content: FileContent, cfg: Mapping[str, Any]) -> Iterator[pd.DataFrame]:
    import pandas as pd

    names: list[str] = []
    rows = enumerate(_json_rows(content, cfg), start=1)
    while piece := dict(itertools.islice(rows, CHUNK_ROWS)):
        names = names or list(dict.fromkeys(name for row in piece.values() for name in row))
        for n, row in piece.items():
            if new := row.keys() - names:
                raise DataError(
                    f"{content.name}: row {n} has the key {min(new)!r}, which none of the "
                    f"first {CHUNK_ROWS:,} rows has. Give every row all keys, with null."
                )
        frame = pd.DataFrame(list(piece.values()), columns=names).infer_objects()
        frame.columns = column_names(names, cfg, content.name)
        yield frame


def _json_rows(content: FileContent, cfg: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a JSON file: one object per line. A .json file may also be one table."""
    with content.open_lines(cfg.get("encoding") or "utf-8") as file:
        lines: Iterable[str] = file
        if content.name.lower().endswith(".json"):
            text = file.read()
            try:
                whole = json.loads(text, object_pairs_hook=_distinct_keys)
            except DataError as error:
                raise DataError(f"{content.name}: {error}") from None
            except ValueError:
                lines = text.splitlines()
                if len(lines) < 2 or not lines[0].rstrip().endswith("}"):
                    raise
            else:
                yield from _rows_of(whole, content.name)
                return
        for n, line in enumerate(filter(str.strip, lines), start=1):
            try:
                row = json.loads(line, object_pairs_hook=_distinct_keys)
                if not isinstance(row, dict):
                    raise DataError(f"it is {line.strip()[:40]}")
            except (ValueError, RecursionError) as error:
                raise DataError(
                    f"{content.name}: row {n} is no JSON object {{...}} a line: {error}"
                ) from None
            yield row


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        name, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise DataError(f"an object has the key {name!r} twice")
    return row


def _rows_of(whole: Any, where: str) -> list[dict[str, Any]]:
    """Return the rows of a JSON table: a list of objects, or a format of ``DataFrame.to_json``."""
    import pandas as pd

    match whole:
        case {"columns": list(names), "data": list(rows)}:
            whole = pd.DataFrame(rows, columns=names, dtype=object).to_dict("records")
        case {"schema": {"primaryKey": ["index"]}, "data": [{}, *_] as rows}:
            whole = [{k: cell for k, cell in row.items() if k != "index"} for row in rows]
        case {"data": [{}, *_] as rows}:
            whole = rows
        case dict() if any(isinstance(cells, list | dict) for cells in whole.values()):
            whole = pd.DataFrame(whole, dtype=object).to_dict("records")
        case dict():
            whole = [whole]
    if not (isinstance(whole, list) and all(isinstance(row, dict) for row in whole)):
        raise DataError(
            f"{where}: a table in JSON is a list of objects, [{{...}}, ...], an object in each "
            "line, or what pandas.DataFrame.to_json writes."
        )
    return whole


# --- Excel, zip, MATLAB ---------------------------------------------------------------------------


def _excel(content: FileContent, cfg: Mapping[str, Any]) -> Iterator[pd.DataFrame]:
    """Yield the first sheet of an Excel file. Empty cells are None."""
    import pandas as pd
    from python_calamine import CalamineWorkbook

    with content.open() as file:
        _require_small_sheets(file, content.name)
        file.seek(0)
        with CalamineWorkbook.from_filelike(file) as workbook:
            cells = workbook.get_sheet_by_index(0).to_python()
    rows = [[None if cell == "" else cell for cell in row] for row in cells]
    n_headers = count_headers(cfg) if rows else 0
    headers = [
        ["" if cell is None else word(cell) for cell in row]  # word: a year is read as a float
        for row in rows[: n_headers or 1]
    ]
    header = _joined(headers)
    if cfg.get("header", True) is True:
        _require_one_header(header, rows[1:SNIFFED_LINES], PLAIN, content.name)
    frame = pd.DataFrame(rows[n_headers:], columns=column_names(header, cfg, content.name))
    yield frame.infer_objects()


_EXTENT = re.compile(rb'<dimension ref="[A-Z]+\d+:([A-Z]{1,3})(\d{1,7})"')


def _require_small_sheets(file: IO[bytes], where: str) -> None:
    """Raise DataError if a sheet is too large for memory.

    A single cell far from the table can make a sheet large.
    """
    if not zipfile.is_zipfile(file):  # .xls: its sheets are small
        return
    with zipfile.ZipFile(file) as archive:
        for part in archive.infolist():
            with archive.open(part) as sheet:
                extent = _EXTENT.search(sheet.read(4096))
            width, height = extent.groups() if extent else (b"", 0)
            n_columns = functools.reduce(lambda n, letter: 26 * n + letter - 64, width, 0)
            needed = max(part.file_size, CELL_BYTES * n_columns * int(height))
            if needed > MOST_SHEET_BYTES:
                raise DataError(
                    f"{where}: a sheet takes {needed:,} bytes of memory, and {MOST_SHEET_BYTES:,} "
                    "are used at most. Delete cells far from the table, or save it as CSV."
                )


def _zip(content: FileContent, cfg: Mapping[str, Any]) -> Iterator[pd.DataFrame]:
    """Yield the CSV files ``members`` of a zip, whose digests are checked.

    A file is found by its name in any folder of the zip.
    """
    import pandas as pd

    delimiter, header = cfg.get("delimiter", ","), 0 if cfg.get("header", True) else None
    with content.open() as packed, zipfile.ZipFile(packed) as archive:
        inside = {PurePosixPath(name).name: name for name in archive.namelist()}
        for member, digest in cfg["members"].items():
            if member not in inside:
                there = ", ".join(sorted(inside)) or "nothing"
                raise DataError(f"{cfg['name']}: {content.path} holds no {member}, but {there}.")
            data = archive.read(inside[member])
            _check_digest(data, digest, f"{cfg['name']}: {member} in {content.path}")
            frame = pd.read_csv(io.BytesIO(data), sep=delimiter, header=header, **precision())
            frame.columns = column_names(frame.columns, cfg, content.name)
            if cfg.get("member_column"):
                frame[cfg["member_column"]] = PurePosixPath(member).stem
            yield frame


def _check_digest(data: bytes, digest: str | None, what: str) -> None:
    """Raise DataError if the data have another digest.

    ``digest`` is sha256:HEX, git:HEX (the id of a git blob), or None for any content.
    """
    kind, _, wanted = (digest or "").partition(":")
    actual = hashlib.sha256(data)
    if kind == "git":
        actual = hashlib.sha1(b"blob %d\0" % len(data) + data)
    if wanted and actual.hexdigest() != wanted:
        raise DataError(
            f"{what} is not the file it should be.\n  expected {digest}\n  found    "
            f"{kind}:{actual.hexdigest()}\nGet the zip anew; for another version set its digest in "
            "dataset.members to null."
        )


def _mat(content: FileContent, cfg: Mapping[str, Any]) -> Iterator[pd.DataFrame]:
    """Yield the rows of a MATLAB file, with columns x1, x2, ...

    If ``cfg`` names an ``array``, the columns are those of this array. Otherwise they are those of
    the array X, followed by a column y for the array y.
    """
    import pandas as pd
    import scipy.io

    with content.open() as file:
        arrays = scipy.io.loadmat(io.BytesIO(file.read()))
    array = cfg.get("array")
    if missing := {array or "X", array or "y"} - arrays.keys():
        there = ", ".join(name for name in arrays if not name.startswith("__"))
        raise DataError(f"{content.name}: no array {' and '.join(sorted(missing))}, but {there}.")
    values = np.atleast_2d(arrays[array or "X"]).astype(np.float64)
    y = None if array else arrays["y"].ravel().astype(np.float64)
    if y is not None and values.shape[1] == len(y):  # one column per sample
        values = values.T
    frame = pd.DataFrame(values, columns=[f"x{k + 1}" for k in range(values.shape[1])])
    yield frame if y is None else frame.assign(y=y)


Reader = Callable[[FileContent, Mapping[str, Any]], Iterator["pd.DataFrame"]]
READERS: dict[str, Reader] = {
    ".csv": _text, ".csv.gz": _text, ".tsv": _text, ".tsv.gz": _text, ".txt": _text,
    ".csv.zip": _text, ".zip": _text, ".parquet": _parquet, ".feather": _feather,
    ".arrow": _feather, ".json": _json, ".jsonl": _json, ".ndjson": _json, ".xlsx": _excel,
    ".xls": _excel,
}  # fmt: skip
FORMATS: dict[str, Reader] = {"csv": _text, "zip": _zip, "excel": _excel, "mat": _mat}


def _reader(content: FileContent, cfg: Mapping[str, Any]) -> Reader:
    if given := cfg.get("format"):
        return FORMATS[given]
    name = content.name.lower()
    return next(reader for suffix, reader in READERS.items() if name.endswith(suffix))
