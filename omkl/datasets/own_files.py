"""Own files, read in chunks: CSV, Parquet, LIBSVM text."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl.datasets import tables
from omkl.datasets.columns import choose_columns, count_inputs, listed
from omkl.datasets.stream import DataError
from omkl.datasets.tables import (
    Table,
    class_codes,
    csv_options,
    frame_values,
    numeric_columns,
    reading,
    strict_about_lengths,
)
from omkl.datasets.whole_files import column_names

if TYPE_CHECKING:
    import pandas as pd


LIBSVM_ROWS = 4_096  # they become dense: 4,096 x 300 numbers are 10 MB
SUFFIXES = (".csv", ".csv.gz", ".parquet", ".libsvm", ".svm")


class CsvTable:
    """Columns of a CSV file, plain or gzipped, in chunks of ``CHUNK_ROWS`` rows.

    Which columns are numeric is decided on the first chunk, see ``numeric_columns``.
    """

    n_rows: int | None = None

    def __init__(self, path: Path, cfg: Mapping[str, Any]) -> None:
        self._path = path
        self._classes = cfg.get("labels")
        self._options = csv_options(cfg)
        with reading(path), strict_about_lengths():
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
                yield frame_values(frame, self._columns, rows, where, self._classes), rows
                start += len(frame)

    def _frames(self) -> Iterator[pd.DataFrame]:
        import pandas as pd

        with pd.read_csv(self._path, chunksize=tables.CHUNK_ROWS, **self._options) as reader:
            yield from reader


class ParquetTable:
    """Columns of a Parquet file, in batches; the schema says which are numeric."""

    def __init__(self, path: Path, cfg: Mapping[str, Any]) -> None:
        import pyarrow as pa
        import pyarrow.types as pt

        self._path = path
        self._classes = cfg.get("labels")
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
                    f"Numeric columns: {listed(schema.names, numbers)}"
                )
        self.names = columns.names
        self._double = pa.float64()

    def raw(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        start = 1
        wanted = list(dict.fromkeys(self.names))
        with reading(self._path), self._open() as file:
            for batch in file.iter_batches(tables.CHUNK_ROWS, columns=wanted):
                values = np.empty((batch.num_rows, len(self.names)))
                for k, name in enumerate(self.names):
                    column = batch.column(name).cast(self._double, safe=False)
                    values[:, k] = column.to_numpy(zero_copy_only=False)
                rows = np.arange(start, start + batch.num_rows)
                if self._classes is not None:
                    values[:, -1] = class_codes(values[:, -1], self._classes, rows, self._path.name)
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
        self._classes = cfg.get("labels")
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
            if self._classes is None:
                values[:, d] = np.array(given, dtype=np.float64)
            else:
                cells = np.array(given, dtype=object)
                values[:, d] = class_codes(cells, self._classes, rows, self._path.name)
            yield values, rows

    def _tokens(self) -> Iterator[tuple[np.ndarray, np.ndarray, tuple[int, list[str]]]]:
        """Pairs (n, 2) of index and value, their number a row, the first row and the labels."""
        first = 1
        with reading(self._path), open(self._path, encoding="utf-8") as file:
            while lines := list(itertools.islice(file, LIBSVM_ROWS)):
                texts = [text for line in lines if (text := line.partition("#")[0].strip())]
                split = [text.split() for text in texts]
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
            with strict_about_lengths():
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
