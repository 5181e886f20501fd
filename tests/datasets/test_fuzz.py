"""Files that nobody would write: numbers, or an error that names file, row, column or key.

Never another exception, a hang or much memory. ``make fuzz`` tries thousands, others each time.
"""

import csv
import datetime
import decimal
import gzip
import io
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import feather

from omkl.datasets import DataError, open_stream, read
from omkl.datasets.tables import FileTable
from omkl.online.rows import encoded
from tests.datasets.helpers import RAW, own, write_excel

CASES = int(os.environ.get("OMKL_FUZZ", "300"))  # in all
MOST_BYTES = 10**9
fuzz = settings(
    max_examples=max(1, CASES // 8),
    derandomize="OMKL_FUZZ" not in os.environ,
    deadline=20_000,
    database=None,
    suppress_health_check=list(HealthCheck),
)

# --- Cells, files, settings -------------------------------------------------------------------

WORDS = (
    "", " ", "NA", "nan", "null", "inf", "-inf", "True", "false", "1e999", "1e-320", "0x1F", "1_0",
    "1,234", "1.234,5", "0,5", "--", "2024-02-30", "2024-02-13", "13.02.2024 07:30", "99:99",
    "<b>x</b>", "[red]", "ß", "\u202e", "\x00", "'", '"', "a\nb", "9" * 400, "١٢", "=1+1",
)  # fmt: skip
words = st.one_of(st.sampled_from(WORDS), st.text(max_size=8))
numbers = st.one_of(
    st.integers(-5, 5),
    st.floats(allow_subnormal=True),
    st.sampled_from([2**63, -(2**80), 1e308, 5e-324, 1e-200, 0.1]),
)
cells = st.one_of(numbers, numbers, st.booleans(), st.none(), words)
names = st.one_of(st.sampled_from(["a", "b", "x", "y", "y.1", "", " y", "Unnamed: 0"]), words)


@st.composite
def tables(draw: Any) -> tuple[list[Any], list[list[Any]]]:
    """A header, most times with a y, and rows, most times of its length."""
    width = draw(st.integers(1, 4))
    header = draw(st.permutations(["a", "b", "x", "y"]))[:width]
    if draw(st.integers(0, 3)) == 0:
        header = draw(st.lists(names, min_size=width, max_size=width))
    elif "y" not in header:
        header[-1] = "y"
    of_a_kind = draw(st.lists(st.sampled_from([numbers, cells, words]), min_size=width))
    rows = draw(
        st.lists(st.tuples(*(of_a_kind[k % len(of_a_kind)] for k in range(width))), max_size=12)
    )
    return header, [list(row) for row in rows]


def damaged(data: bytes, cuts: list[tuple[int, int, bytes]]) -> bytes:
    """The bytes with pieces replaced: (place, length, what comes there)."""
    for place, length, new in cuts:
        start = place % (len(data) + 1)
        data = data[:start] + new + data[start + length :]
    return data


damages = st.one_of(
    st.just([]),
    st.lists(
        st.tuples(st.integers(0, 10**6), st.integers(0, 40), st.binary(max_size=6)), max_size=3
    ),
)
VALUES = {
    "target": st.one_of(st.none(), names, st.integers(-1, 5)),
    "inputs": st.sampled_from([None, "a", "1-2", "2-1", "1-9999999999", [1], [], 1, ["a", "b"]]),
    "missing": st.sampled_from(["error", "drop", "mean", "zero"]),
    "task": st.just("classification"),
    "labels": st.one_of(st.none(), st.lists(cells, max_size=3)),
    "header": st.sampled_from([True, False, None, "yes"]),
    "delimiter": st.sampled_from(["auto", None, ",", ";", "\t", ".", "\\", "|", '"', "", 5]),
    "decimal": st.sampled_from(["auto", ".", ",", None]),
    "encoding": st.sampled_from(["utf-8", "latin-1", "utf-16", "cp1252", "utf-7", "idna", "x"]),
    "columns": st.one_of(st.none(), st.lists(words, max_size=4)),
    "na_values": st.one_of(st.none(), cells, st.lists(cells, max_size=2)),
    "prepare": st.sampled_from(
        [None, {"first_rows": 2}, {"first_rows": "x"}, {"codes": ["a"]}, {"time_of_day": "a"},
         {"one_hot": {"all_but": "y"}}, {"drop": {"column": "a", "equals": 1}}, {"drop": 3},
         {"keep": {"column": "a", "at_most": "x"}}, {"scale_inputs": {"shift": 1}},
         {"scale_columns": {"low": 0, "high": 1}}, {"rows_each": {"column": "a", "rows": 1}}]
    ),
}  # fmt: skip
few = st.lists(st.sampled_from(list(VALUES)), max_size=2)
keys = few.flatmap(lambda chosen: st.fixed_dictionaries({key: VALUES[key] for key in chosen}))
options = st.fixed_dictionaries(
    {
        "limit": st.sampled_from([None, None, 3]),
        "scaling": st.sampled_from(["columns", "columns", "whole", "none"]),
        "order": st.just("file"),
        "lags": st.sampled_from([0, 0, 2]),
    }
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    before = most_memory()
    yield tmp_path_factory.mktemp("fuzz")
    assert most_memory() < before + MOST_BYTES


def most_memory() -> int:
    """Bytes that this process has held at most."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def try_out(path: Path, given: dict[str, Any], streaming: dict[str, Any]) -> None:
    """Open and stream the file: what comes is numbers, or a DataError that names something."""
    try:
        stream = open_stream(own(path, **given), streaming)
        for x, y in stream.blocks(5):
            assert x.shape == (len(y), stream.n_inputs) and len(stream.inputs) == stream.n_inputs
            assert np.isfinite(x).all() and np.isfinite(y).all()
        assert json.loads(json.dumps(stream.provenance))["files"][0]["name"] == path.name
    except DataError as error:
        told = str(error)
        assert any(name in told for name in (path.name, "dataset.", "stream.")), told
        assert len(told) < 5000 and "Traceback" not in told, told


# --- What is tried ----------------------------------------------------------------------------


@fuzz
@given(
    table=tables(),
    separator=st.sampled_from(",;\t| "),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1"]),
    packed=st.booleans(),
    cuts=damages,
    given_keys=keys,
    streaming=options,
)
def test_text(
    folder, table, separator, end, quoting, encoding, packed, cuts, given_keys, streaming
):
    header, rows = table
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator=end, quoting=quoting)
    writer.writerows([header, *rows])
    data = damaged(text.getvalue().encode(encoding, errors="replace"), cuts)
    path = folder / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(damaged(gzip.compress(data), cuts[1:]) if packed else data)
    try_out(path, given_keys, streaming)


@fuzz
@given(data=st.binary(max_size=60), end=st.sampled_from(["csv", "json", "zip", "jsonl", "svm",
       "txt", "csv.gz", "parquet", "feather", "xlsx", "xls"]), given_keys=keys,
       streaming=options)  # fmt: skip
def test_bytes(folder, data, end, given_keys, streaming):
    path = folder / f"t.{end}"
    path.write_bytes(data)
    try_out(path, given_keys, streaming)


moments = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1))
ARROW = {
    pa.float64(): st.floats(),
    pa.float16(): st.floats(width=16).map(np.float16),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.bool_(): st.booleans(),
    pa.string(): words,
    pa.binary(): st.binary(max_size=4),
    pa.timestamp("ns"): moments,
    pa.timestamp("us", "Asia/Tokyo"): moments,
    pa.date32(): st.dates(),
    pa.time64("us"): st.times(),
    pa.duration("ms"): st.timedeltas(datetime.timedelta(-9), datetime.timedelta(9)),
    pa.decimal128(20, 3): st.decimals(-1000, 1000, places=3).map(decimal.Decimal),
    pa.list_(pa.int8()): st.lists(st.integers(-5, 5), max_size=2),
    pa.struct([("k", pa.int8())]): st.fixed_dictionaries({"k": st.integers(-5, 5)}),
    pa.null(): st.none(),
}


@fuzz
@given(data=st.data(), as_feather=st.booleans(), cuts=damages, given_keys=keys, streaming=options)
def test_columns_of_every_type(folder, data, as_feather, cuts, given_keys, streaming):
    n = data.draw(st.integers(0, 30))
    header = [*data.draw(st.lists(names, max_size=3)), "y"]
    columns = []
    for name in header:
        kinds = [pa.float64(), pa.int64(), pa.string()] if name == "y" else list(ARROW)
        kind = data.draw(st.sampled_from(kinds))
        column = st.lists(st.one_of(ARROW[kind], ARROW[kind], st.none()), min_size=n, max_size=n)
        array = pa.array(data.draw(column), kind, from_pandas=False)
        if kind == pa.string() and data.draw(st.booleans()):
            array = array.dictionary_encode()
        columns.append(array)
    table = pa.table(columns, names=header)
    sink = io.BytesIO()
    (feather.write_feather if as_feather else pq.write_table)(table, sink)
    path = folder / ("t.feather" if as_feather else "t.parquet")
    path.write_bytes(damaged(sink.getvalue(), cuts))
    try_out(path, given_keys, streaming)


@fuzz
@given(
    rows=st.lists(
        st.tuples(
            st.one_of(numbers, words),
            st.lists(
                st.one_of(
                    st.tuples(st.integers(1, 9), numbers).map(lambda pair: "{}:{}".format(*pair)),
                    st.sampled_from(["7:1", "1:2:3", "nan:1", "1e9:1", "100001:1", ":", "5", "#"]),
                    words,
                ),
                max_size=4,
            ),
        ),
        max_size=8,
    ),
    cuts=damages,
    given_keys=keys,
    streaming=options,
)
def test_libsvm(folder, rows, cuts, given_keys, streaming):
    text = "".join(f"{label} {' '.join(pairs)}\n" for label, pairs in rows)
    path = folder / "t.svm"
    path.write_bytes(damaged(text.encode(errors="replace"), cuts))
    try_out(path, {"target": None, **given_keys}, streaming)


@fuzz
@given(table=tables(), cuts=damages, given_keys=keys, streaming=options)
def test_sheets(folder, table, cuts, given_keys, streaming):
    header, rows = table
    path = folder / "t.xlsx"
    plain = [[cell if isinstance(cell, str | int | float) else None for cell in row]
             for row in [header, *rows]]  # fmt: skip
    write_excel(path, [[int(c) if isinstance(c, bool) else c for c in row] for row in plain])
    path.write_bytes(damaged(path.read_bytes(), cuts))
    try_out(path, given_keys, streaming)


@fuzz
@given(table=tables(), cuts=damages, given_keys=keys, streaming=options, more=st.data())
def test_json_lines(folder, table, cuts, given_keys, streaming, more):
    header, rows = table
    extra = st.recursive(cells, lambda inner: st.lists(inner, max_size=2), max_leaves=3)
    lines = []
    for row in rows:
        pairs = [*zip(map(str, header), row, strict=True)]
        if more.draw(st.integers(0, 5)) == 0:
            pairs.append((more.draw(names), more.draw(extra)))
        lines.append(", ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in pairs))
    text = "".join(f"{{{line}}}\n" for line in lines)
    path = folder / more.draw(st.sampled_from(["t.jsonl", "t.json"]))
    path.write_bytes(damaged(text.encode(errors="replace"), cuts))
    try_out(path, given_keys, streaming)


@fuzz
@given(table=tables(), separator=st.sampled_from(",;\t|"))
def test_later_chunks_are_read_as_the_first_says(folder, table, separator):
    """Cells of chunks of three rows are those of the whole file, read by the first three rows."""
    path = folder / "c.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=separator).writerows([table[0], *table[1]])
    cfg = own(path, delimiter=separator, header=True)
    try:
        (whole,) = read.frames(read.open_content(cfg), cfg)
        read.CHUNK_ROWS = 3
        found = FileTable(read.open_content(cfg), cfg)
        values = np.concatenate([values for values, *_ in found.raw()])
    except (DataError, ValueError):
        return
    finally:
        read.CHUNK_ROWS = 65_536
    inputs = [column for column in found.columns if column.inputs]
    np.testing.assert_array_equal(values[:, :-1], encoded(whole, inputs))


finite = st.floats(-1e9, 1e9, allow_subnormal=False).map(lambda x: x + 0.0)


@fuzz
@given(
    rows=st.lists(st.lists(st.one_of(finite.map(repr), words), min_size=2, max_size=2), max_size=9),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_arrow_reads_the_numbers_of_pandas(folder, rows, end):
    """Whether Arrow reads all rows or hands some over: the same rows, to the bit."""
    path, found = folder / "p.csv", []
    lines = [",".join(row) for row in (["a", "y"], ["0.5", "1"], ["7", "2e-3"], *rows)]
    path.write_text(end.join([*lines, ""]), encoding="utf-8", newline="")
    for reader in (read._rows_by_arrow, mock.Mock(side_effect=ValueError)):
        with mock.patch.object(read, "_rows_by_arrow", reader):
            try:
                table = FileTable(read.open_content(own(path)), own(path))
                found.append(np.concatenate([rows.values for rows in table.raw()]).tobytes())
            except DataError as error:
                found.append(str(error))
    assert found[0] == found[1]


@fuzz
@given(
    rows=st.lists(st.tuples(finite, finite, finite), min_size=2, max_size=12),
    separator=st.sampled_from(",;\t| "),
    comma=st.booleans(),
    blanks=st.sets(st.integers(0, 11)),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_numbers_come_back_as_they_were_written(folder, rows, separator, comma, blanks, end):
    """Whatever separates them: a right result, to the bit."""
    if comma and separator == ",":
        separator = ";"
    table = np.array(rows)
    table[[k for k in blanks if k < len(table) and separator != " "], 0] = np.nan

    def written(cell: float) -> str:
        text = "" if np.isnan(cell) else repr(float(cell))
        return text.replace(".", ",") if comma else text

    path = folder / "n.csv"
    lines = [separator.join(map(written, row)) for row in table]
    path.write_text(end.join([separator.join("aby"), *lines, ""]), newline="")
    if np.sum(~np.isnan(table[:, 0])) < 2:
        return
    how = {"delimiter": None if separator == " " else separator} | (
        {"decimal": ","} if comma else {}
    )
    stream = open_stream(own(path, missing="drop", inputs=["a", "b"], **how), RAW)
    found = np.concatenate([np.column_stack(block) for block in stream.blocks(5)])
    np.testing.assert_array_equal(found, table[~np.isnan(table).any(axis=1)])
