"""Own files as pandas frames, in chunks where their format allows it; rows count from 0."""

from __future__ import annotations

import csv
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omkl.datasets import prepare, tables
from omkl.datasets.base import DataError
from omkl.datasets.columns import place_of, require_few
from omkl.datasets.files import FileContent
from omkl.datasets.tables import chunk_rows, csv_options, reading, strict_about_lengths
from omkl.datasets.whole_files import as_words, column_names, header_of, read_excel

if TYPE_CHECKING:
    import pandas as pd

SEPARATORS = (";", "\t", "|", ",")
SNIFFED_LINES = 20


def frames(content: FileContent, cfg: Mapping[str, Any]) -> Iterator[pd.DataFrame]:
    """The file with its columns named, its ``na_values`` blank, after ``dataset.prepare``.

    Steps of preparation take the file as a whole: it is then one frame, in memory. What was done
    to cells of a column stands in ``attrs["read_as"]``, by the column's name.
    """
    import pandas as pd

    steps = cfg.get("prepare") or {}
    prepare.check_steps(steps, content.name)
    read = _reader(content.path)
    with reading(content.name), strict_about_lengths():
        chunks = _named(read(content, cfg), content, cfg)
        if not steps:
            yield from chunks
            return
        whole = pd.concat(list(chunks))
        if len(whole):
            yield prepare.prepare_rows(whole, steps, content.name)


def _named(
    chunks: Iterator[pd.DataFrame], content: FileContent, cfg: Mapping[str, Any]
) -> Iterator[pd.DataFrame]:
    given = cfg.get("na_values")
    cells = given if isinstance(given, list | tuple) else [given]
    blank = {form for cell in cells if cell is not None for form in _forms(cell)}
    names: list[str] | None = None
    for frame in chunks:
        names = names or list(column_names(frame.columns, cfg, content.name))
        frame.columns = names
        frame, read_as = with_plain_numbers(frame, frame.attrs.get("decimal", "."))
        if blank:
            frame = frame.mask(frame.isin(blank))
        frame.attrs["read_as"] = read_as
        yield frame


def with_plain_numbers(frame: pd.DataFrame, decimal: str) -> tuple[pd.DataFrame, dict[str, str]]:
    """Cells of words such as "1,234.5" as Python writes the number, and an example by column."""
    import pandas as pd

    thousands = "," if decimal == "." else "."
    grouped = re.compile(rf"[-+]?[1-9]\d{{0,2}}(?:[{thousands}]\d{{3}})+(?:[{decimal}]\d*)?")
    fraction = re.compile(r"[-+]?\d*,\d+(?:[eE][-+]?\d+)?")
    found: dict[str, str] = {}
    for k, dtype in enumerate(frame.dtypes):
        if not (pd.api.types.is_string_dtype(dtype) or pd.api.types.is_object_dtype(dtype)):
            continue
        name, series = frame.columns[k], frame.iloc[:, k]
        if not any(isinstance(cell, str) and ("," in cell or "." in cell) for cell in series):
            continue
        words = series.astype(str).str.strip()
        groups = words.str.fullmatch(grouped.pattern).to_numpy(dtype=bool)
        plain = words[groups].str.replace(thousands, "").str.replace(decimal, ".")
        if groups.any():
            first = words[groups].iloc[0]
            found[str(name)] = f"thousands have a separator: {first} is read as {plain.iloc[0]}"
        if decimal == ",":
            fractions = words.str.fullmatch(fraction.pattern).to_numpy(dtype=bool) & ~groups
            plain = pd.concat([plain, words[fractions].str.replace(",", ".")])
        if len(plain):
            changed = series.astype(object)
            changed[plain.index] = plain
            frame.isetitem(k, changed)
    return frame, found


def _forms(cell: Any) -> set[Any]:
    """A cell as a word and, where it is one, as a number."""
    try:
        return {str(cell), float(cell)}
    except ValueError:
        return {str(cell)}


def _text(content: FileContent, cfg: Mapping[str, Any]) -> Iterator[pd.DataFrame]:
    import pandas as pd

    found = layout(content, cfg)
    lines = _first_lines(content, cfg.get("encoding") or "utf-8")
    separator = found["delimiter"] or " "
    require_few(max((len(row) for row in _split(lines[:1], separator)), default=0), content.name)
    options = csv_options({**cfg, **found})
    with content.open_text() as file:
        first = pd.read_csv(file, **as_words(options))
    rows, names = chunk_rows(first.shape[1]), header_of(first)
    if cfg.get("header", True):
        _require_names(names, found["decimal"], content.name)
    if cfg.get("task") == "classification" and cfg.get("target") is not None:
        # Classes are text: "01" and "1" are two, which numbers would merge.
        labels = names if cfg.get("header", True) else list(first.columns)
        named = list(column_names(labels, cfg, content.name))
        options["dtype"] = {labels[place_of(cfg["target"], named, content.name)]: str}
    with content.open_text() as file, pd.read_csv(file, chunksize=rows, **options) as chunks:
        for frame in chunks:
            if cfg.get("header", True) and len(names) == frame.shape[1]:
                frame.columns = names  # as they are written: pandas renames the second of two
            frame.attrs["decimal"] = found["decimal"]
            yield frame


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
        lines = _first_lines(content, cfg.get("encoding") or "utf-8")
        if delimiter == "auto":
            delimiter = _separator(lines)
        if decimal == "auto":
            decimal = _decimal(lines, delimiter)
    return {"delimiter": delimiter, "decimal": decimal}


def _first_lines(content: FileContent, encoding: str) -> list[str]:
    with content.open_lines(encoding) as file:
        return [line for line in itertools.islice(file, SNIFFED_LINES) if line.strip()]


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
        batches = (file.get_batch(k) for k in range(file.num_record_batches))
        yield from _of_batches(batches)


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
        start, rows = 0, tables.CHUNK_ROWS
        while found := [_json_row(line, n, content) for n, line in itertools.islice(lines, rows)]:
            names = names or list(dict.fromkeys(name for row in found for name in row))
            known = set(names)
            for n, row in enumerate(found, start=start + 1):
                if new := next((name for name in row if name not in known), None):
                    raise DataError(
                        f"{content.name}: row {n} has the key {new!r}, which none of the first "
                        f"{tables.CHUNK_ROWS:,} rows has. Give every row all keys, with null."
                    )
            stop = start + len(found)
            yield pd.DataFrame(found, columns=names, index=range(start, stop)).infer_objects()
            start, rows = stop, chunk_rows(len(names))


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
        raise DataError(f"{content.name}: row {n} holds half a character: \\ud...") from None
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{content.name}: row {n} cannot be read as JSON, an object {{...}} a line: {error}"
        ) from error
    if not isinstance(row, dict):
        raise DataError(f"{content.name}: row {n} is no JSON object {{...}}: {line.strip()[:80]}")
    return row


def _excel(content: FileContent, cfg: Mapping[str, Any]) -> Iterator[pd.DataFrame]:
    yield read_excel(content, cfg).infer_objects()


READERS: dict[str, Callable[[FileContent, Mapping[str, Any]], Iterator[pd.DataFrame]]] = {
    ".csv": _text, ".csv.gz": _text, ".tsv": _text, ".tsv.gz": _text, ".txt": _text,
    ".parquet": _parquet, ".feather": _feather, ".arrow": _feather, ".jsonl": _json_lines,
    ".ndjson": _json_lines, ".xlsx": _excel, ".xls": _excel,
}  # fmt: skip

GROWING = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson")  # a line can be appended


def _reader(path: Path) -> Callable[[FileContent, Mapping[str, Any]], Iterator[pd.DataFrame]]:
    name = path.name.lower()
    return next(read for suffix, read in READERS.items() if name.endswith(suffix))


def row_count(content: FileContent, cfg: Mapping[str, Any]) -> int | None:
    """How many rows there are, where nothing has to be read for it."""
    if _reader(content.path) is not _parquet or cfg.get("prepare"):
        return None
    import pyarrow.parquet as pq

    with reading(content.name), content.open() as raw:
        return int(pq.read_metadata(raw).num_rows)


def is_text(path: Path) -> bool:
    return _reader(path) is _text
