"""Files and settings of strangers: numbers or words, and neither much time nor memory."""

import gzip
import os
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from omkl.datasets import DataError, base, catalogue, open_stream, read
from tests.datasets.helpers import RAW, WHOLE, own, streamed, write_excel

TABLE = "a,y\n1,2\n3,4\n"


def test_an_index_with_a_name_is_a_column(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 3.0], "b": [5.0, 7.0], "y": [2.0, 4.0]}, index=[9, 4])
    for suffix in ("parquet", "feather"):
        path = tmp_path / f"t.{suffix}"
        for written in (frame, frame.set_index("a"), frame.set_index("a", append=True)):
            table = pa.Table.from_pandas(written)
            (pq.write_table if suffix == "parquet" else feather.write_feather)(table, path)
            found = streamed(path, inputs=["a", "b"])
            assert found == ([[1.0, 5.0], [3.0, 7.0]], [2.0, 4.0])
            assert len(open_stream(own(path), RAW).inputs) == 2


def test_columns_that_are_no_numbers_say_why(tmp_path):
    table = pd.DataFrame({"list": [[1]] * 20, "a": np.arange(20) % 3, "y": 1.0 + np.arange(20) % 5})
    table.to_parquet(tmp_path / "t.parquet")
    columns = open_stream(own(tmp_path / "t.parquet"), RAW).columns
    said = {column.name: column.why for column in columns if column.kind == "left out"}
    assert said["list"] == "lists or objects in its cells"
    with pytest.raises(DataError, match=r"'list' is no input: lists or objects in its cells"):
        open_stream(own(tmp_path / "t.parquet", inputs=["list"]), RAW)


# --- Headers ----------------------------------------------------------------------------------


def doubled(path: Path) -> None:
    rows = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    names = ["y", "x", "y"]
    if path.suffix == ".jsonl":
        path.write_text('{"y": 1, "x": 2, "y": 3}\n{"y": 4, "x": 5, "y": 6}\n')
    elif path.suffix == ".xlsx":
        write_excel(path, [names, *rows])
    elif path.suffix in (".parquet", ".feather"):
        table = pa.table([pa.array(c) for c in zip(*rows, strict=True)], names=names)
        (pq.write_table if path.suffix == ".parquet" else feather.write_feather)(table, path)
    else:
        text = "\n".join(",".join(map(str, row)) for row in [names, *rows]) + "\n"
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


@pytest.mark.parametrize("end", ["csv", "csv.gz", "parquet", "feather", "xlsx", "jsonl"])
def test_doubled_headers_are_refused_with_both_positions(tmp_path, end):
    name = f"t.{end}"
    doubled(tmp_path / name)
    message = "columns 1 and 3 are both called 'y'"
    message = "row 1 is .* the key 'y' twice" if end == "jsonl" else message
    with pytest.raises(DataError, match=rf"{name}: .*{message}"):
        open_stream(own(tmp_path / name), RAW)


def test_doubled_headers_of_text_can_be_named_anew(tmp_path):
    doubled(tmp_path / "t.csv")
    x, y = streamed(tmp_path / "t.csv", columns=["a", "b", "y"])
    assert (x, y) == ([[1, 2], [4, 5]], [3, 6])
    with pytest.raises(DataError, match=r"dataset.columns: columns 1 and 2 are both called 'a'"):
        open_stream(own(tmp_path / "t.csv", columns=["a", "a", "y"]), RAW)
    (tmp_path / "t.csv").write_text("y,y.1,y\n1,2,3\n4,5,6\n")
    with pytest.raises(DataError, match=r"columns 1 and 3 are both called 'y'"):
        open_stream(own(tmp_path / "t.csv"), RAW)
    (tmp_path / "t.csv").write_text("y,y.1\n1,2\n4,5\n")
    assert streamed(tmp_path / "t.csv") == ([[2], [5]], [1, 4])


def test_a_row_in_place_of_a_header_is_not_lost_in_silence(tmp_path):
    (tmp_path / "t.csv").write_text("0.5,2,3\n4,5,6\n")
    assert streamed(tmp_path / "t.csv", header=False, target=3) == ([[0.5, 2], [4, 5]], [3, 6])
    for more in ({}, {"columns": ["a", "b", "y"]}):
        with pytest.raises(DataError, match=r"\(0\.5, 2, 3\).*a row, add dataset\.header=false"):
            open_stream(own(tmp_path / "t.csv", **more), RAW)
    (tmp_path / "t.csv").write_text("2019,2020,2021\n4,5,6\n7,8,9\n")  # years are names
    assert streamed(tmp_path / "t.csv", target="2021") == ([[4, 5], [7, 8]], [6, 9])


# --- Cells ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        ("a,y\nTrue,1\n,2\nFalse,3\n", [[1], [0.5], [0]]),
        ('a,y\n"1,234",1\n5,2\n"-1,234,567.5",3\n', [[1234], [5], [-1234567.5]]),
        ("a;y\n1.234,5;1\n5;2\n7,25;3\n", [[1234.5], [5], [7.25]]),
        ("\ufeffa,y\n1,1\n5,2\n7,3\n", [[1], [5], [7]]),
    ],
)
def test_cells_as_people_write_them(tmp_path, text, inputs):
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    assert streamed(tmp_path / "t.csv") == (inputs, [1, 2, 3])


def test_what_was_done_to_cells_is_told(tmp_path):
    (tmp_path / "t.csv").write_text('a,y\n"1,234","2,000"\n5,4\n7,9\n')
    stream = open_stream(own(tmp_path / "t.csv"), RAW)
    told = {column["column"]: column["why"] for column in stream.provenance["columns"]}
    assert told == {
        "a": "thousands have a separator: 1,234 is read as 1234",
        "y": "thousands have a separator: 2,000 is read as 2000",
    }


def test_a_class_that_is_called_na_is_told(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n1,NA\n2,DE\n3,FR\n")
    with pytest.raises(
        DataError, match=r"dataset.labels names 'NA', which stands for a missing value"
    ):
        open_stream(own(tmp_path / "t.csv", task="classification", labels=["NA", "DE"]), RAW)
    stream = open_stream(own(tmp_path / "t.csv", task="classification"), RAW)
    (*_, target) = stream.provenance["columns"]
    assert stream.classes == ("DE", "FR") and "missing in 1 of the first 3 rows" in target["why"]


# --- LIBSVM -----------------------------------------------------------------------------------


def test_libsvm_text_as_it_is(tmp_path):
    text = b"\xef\xbb\xbf+1 1:2 3:-4e-1 # a comment\n\n-1 2:.5\n"
    (tmp_path / "t.svm").write_bytes(text)
    assert streamed(tmp_path / "t.svm", target=None) == ([[2, 0, -0.4], [0, 0.5, 0]], [1, -1])


# --- Bounds -----------------------------------------------------------------------------------


def test_inputs_that_nobody_has(tmp_path):
    (tmp_path / "t.csv").write_text(TABLE)
    for inputs in (99999999999, "1-99999999999", ["1-99999999999"]):
        with pytest.raises(DataError, match=r"there is no column 99999999999"):
            open_stream(own(tmp_path / "t.csv", inputs=inputs), RAW)
    (tmp_path / "t.csv").write_text(",".join(f"c{k}" for k in range(100_001)) + "\n")
    with pytest.raises(DataError, match=r"100,001 columns are more than the 100,000"):
        open_stream(own(tmp_path / "t.csv"), RAW)


def test_a_sheet_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    write_excel(tmp_path / "t.xlsx", [["a", "y"], [1, 2]])
    far = tmp_path / "far.xlsx"
    extent = b'<dimension ref="A1:XFD1048576"/><sheetData>'
    with zipfile.ZipFile(tmp_path / "t.xlsx") as old, zipfile.ZipFile(far, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(b"<sheetData>", extent))
    with pytest.raises(DataError, match=r"549,755,813,888 bytes of memory.* or save it as CSV"):
        open_stream(own(far), RAW)
    monkeypatch.setattr(read, "MOST_SHEET_BYTES", 100)
    with pytest.raises(DataError, match=r"t.xlsx: a sheet takes .* and 100 are used at most"):
        open_stream(own(tmp_path / "t.xlsx"), RAW)


# --- Names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["../../x", "..", ".x", "/x", "a/b", "a\\b", "a b", "<b>", "x" * 81, "", 5, "x\n", None]
)
def test_names_are_names(tmp_path, name):
    (tmp_path / "t.csv").write_text(TABLE)
    with pytest.raises(DataError, match=r"dataset.name.* a name of letters, digits"):
        open_stream(own(tmp_path / "t.csv", name=name), RAW)
    with pytest.raises(DataError, match=r"dataset.file=.* below a data folder"):
        open_stream({"name": "x", "file": f"../{name}", "target": "y"}, RAW)
    with pytest.raises(DataError, match=r"is no path of names below a data folder"):
        catalogue.locate(f"../{name}")


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("my data.csv", "my_data"),
        ("../..hidden/<b>x</b>.csv", "b_"),
        ("größe.csv.gz", "größe"),
        (".csv", "_"),
        ("é" * 100 + ".csv", "é" * 30),
    ],
)
def test_names_of_files_become_names(file, name):
    assert base.name_of_file(file) == name and base.is_name(f"{name}-0123")


# --- Words in place of tracebacks -------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [("encoding", 5), ("encoding", "rot13"), ("delimiter", "e"), ("decimal", 3),
     ("columns", [["a"], "b"]), ("header", "yes"), ("na_values", [None]), ("inputs", 1.5),
     ("target", ["x", "y"]), ("labels", "ab"), ("prepare", "drop"), ("path", 5)],
)  # fmt: skip
def test_settings_of_a_wrong_type_are_refused(tmp_path, key, value):
    (tmp_path / "t.csv").write_text(TABLE)
    with pytest.raises(DataError, match=rf"^dataset.{key}=.* is not "):
        open_stream(own(tmp_path / "t.csv") | {key: value}, RAW)


JUNK = bytes(range(256)) * 8


def test_damaged_files_of_the_catalogue_are_told_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("OMKL_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    for form, data in (
        ("mat", b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + JUNK),
        ("mat", JUNK),
        ("excel", bytes.fromhex("d0cf11e0a1b11ae1") + JUNK),
        ("zip", b"PK\x03\x04" + JUNK),
        ("csv", JUNK),
    ):
        (tmp_path / "t.data").write_bytes(data)
        entry = {"name": "t", "file": "t.data", "target": "y", "members": {"a": None}}
        with pytest.raises(DataError, match=r"^t.data: "):
            open_stream(entry | {"format": form}, WHOLE)


def test_what_is_no_file_is_told(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder.csv").mkdir()
    for name, told in (("pipe.csv", "is a pipe or a device"), ("folder.csv", "is a folder")):
        with pytest.raises(DataError, match=told):
            open_stream(own(tmp_path / name), RAW)
    strange = tmp_path / os.fsdecode(b"\xff.csv")
    strange.write_text(TABLE)
    with pytest.raises(DataError, match=r"the file's name is no UTF-8"):
        open_stream(own(strange), RAW)
