"""Own files as pandas frames, in chunks where their format allows it; rows count from 0."""

from __future__ import annotations

import csv
import gzip
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omkl.datasets import prepare, tables
from omkl.datasets.stream import DataError
from omkl.datasets.tables import csv_options, reading, strict_about_lengths
from omkl.datasets.whole_files import column_names, read_excel

if TYPE_CHECKING:
    import pandas as pd

SEPARATORS = (";", "\t", "|", ",")
SNIFFED_LINES = 20


def frames(path: Path, cfg: Mapping[str, Any]) -> Iterator[pd.DataFrame]:
    """The file with its columns named, its ``na_values`` blank, after ``dataset.prepare``.

    Steps of preparation take the file as a whole: it is then one frame, in memory.
    """
    import pandas as pd

    steps = cfg.get("prepare") or {}
    prepare.check_steps(steps, path.name)
    read = _reader(path)
    with reading(path), strict_about_lengths():
        chunks = _named(read(path, cfg), path, cfg)
        if not steps:
            yield from chunks
            return
        whole = pd.concat(list(chunks))
    if len(whole):
        yield prepare.prepare_rows(whole, steps, path.name)


def _named(
    chunks: Iterator[pd.DataFrame], path: Path, cfg: Mapping[str, Any]
) -> Iterator[pd.DataFrame]:
    given = cfg.get("na_values")
    cells = given if isinstance(given, list | tuple) else [given]
    blank = {form for cell in cells if cell is not None for form in _forms(cell)}
    for frame in chunks:
        frame.columns = list(column_names(frame, cfg, path.name))
        yield frame.mask(frame.isin(blank)) if blank else frame


def _forms(cell: Any) -> set[Any]:
    """A cell as a word and, where it is one, as a number."""
    try:
        return {str(cell), float(cell)}
    except ValueError:
        return {str(cell)}


def _text(path: Path, cfg: Mapping[str, Any]) -> Iterator[pd.DataFrame]:
    import pandas as pd

    options = csv_options({**cfg, **layout(path, cfg)})
    with pd.read_csv(path, chunksize=tables.CHUNK_ROWS, **options) as chunks:
        yield from chunks


def layout(path: Path, cfg: Mapping[str, Any]) -> dict[str, Any]:
    """``delimiter`` (None: any run of blanks) and ``decimal`` as given, or as the file has them."""
    delimiter, decimal = cfg.get("delimiter", "auto"), cfg.get("decimal") or "auto"
    if "auto" in (delimiter, decimal):
        lines = _first_lines(path, cfg.get("encoding") or "utf-8")
        if delimiter == "auto":
            delimiter = _separator(lines)
        if decimal == "auto":
            decimal = _decimal(lines, delimiter)
    return {"delimiter": delimiter, "decimal": decimal}


def _first_lines(path: Path, encoding: str) -> list[str]:
    opened: Callable[..., Any] = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rt", encoding=encoding) as file:
        return [line for line in itertools.islice(file, SNIFFED_LINES) if line.strip()]


def _separator(lines: list[str]) -> str | None:
    """The one that cuts the first lines into the most columns, as many in each."""
    best, most = ",", 1
    for separator in SEPARATORS:
        counts = {len(row) for row in csv.reader(lines, delimiter=separator)}
        if len(counts) == 1 and max(counts) > most:
            best, most = separator, max(counts)
    if most > 1 or any("," in line for line in lines):
        return best
    blanks = {len(line.split()) for line in lines}
    return None if len(blanks) == 1 and max(blanks) > 1 else best


def _decimal(lines: list[str], delimiter: str | None) -> str:
    if delimiter == ",":
        return "."
    rows = csv.reader(lines, delimiter=delimiter) if delimiter else map(str.split, lines)
    cells = [cell.strip() for row in rows for cell in row]
    with_comma = any(re.fullmatch(r"[-+]?\d+,\d+", cell) for cell in cells)
    with_point = any(re.fullmatch(r"[-+]?\d*\.\d+(e[-+]?\d+)?", cell) for cell in cells)
    return "," if with_comma and not with_point else "."


def _parquet(path: Path, cfg: Mapping[str, Any]) -> Iterator[pd.DataFrame]:
    import pyarrow.parquet as pq

    # Without pre-buffering a row group is read page by page, not as a whole.
    with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:
        yield from _of_batches(file.iter_batches(tables.CHUNK_ROWS))


def _feather(path: Path, cfg: Mapping[str, Any]) -> Iterator[pd.DataFrame]:
    import pyarrow as pa

    with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as file:
        batches = (file.get_batch(k) for k in range(file.num_record_batches))
        yield from _of_batches(batches)


def _of_batches(batches: Iterator[Any]) -> Iterator[pd.DataFrame]:
    start = 0
    for batch in batches:
        frame = batch.to_pandas()
        frame.index = range(start, start + len(frame))
        start += len(frame)
        yield frame


def _json_lines(path: Path, cfg: Mapping[str, Any]) -> Iterator[pd.DataFrame]:
    import pandas as pd

    try:
        with pd.read_json(path, lines=True, chunksize=tables.CHUNK_ROWS) as chunks:
            yield from chunks
    except ValueError as error:
        raise DataError(f"{path.name}: cannot be read as JSON, a row a line: {error}") from error


def _excel(path: Path, cfg: Mapping[str, Any]) -> Iterator[pd.DataFrame]:
    frame = read_excel(path, cfg)
    yield frame.infer_objects()


READERS: dict[str, Callable[[Path, Mapping[str, Any]], Iterator[pd.DataFrame]]] = {
    ".csv": _text, ".csv.gz": _text, ".tsv": _text, ".tsv.gz": _text, ".txt": _text,
    ".parquet": _parquet, ".feather": _feather, ".arrow": _feather, ".jsonl": _json_lines,
    ".ndjson": _json_lines, ".xlsx": _excel, ".xls": _excel,
}  # fmt: skip


def _reader(path: Path) -> Callable[[Path, Mapping[str, Any]], Iterator[pd.DataFrame]]:
    name = path.name.lower()
    return next(read for suffix, read in READERS.items() if name.endswith(suffix))


def row_count(path: Path, cfg: Mapping[str, Any]) -> int | None:
    """How many rows there are, where nothing has to be read for it."""
    if _reader(path) is not _parquet or cfg.get("prepare"):
        return None
    import pyarrow.parquet as pq

    with reading(path):
        return int(pq.read_metadata(path).num_rows)


def is_text(path: Path) -> bool:
    return _reader(path) is _text
