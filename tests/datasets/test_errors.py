"""What is wrong with a file or with its settings is told in words: where it is, and the cure."""

import gzip
import io
import zipfile

import pandas as pd
import pytest

from omkl.datasets import DataError, open_stream
from tests.datasets.helpers import COLUMNS, WHOLE, own

HOUSES = "id,area,street,price\n1,50,A,100\n2,80,B,170\n3,65.5,A,140\n4,30,C,60\n"
TABLE = "a,y\n1,2\n3,4\n"
JUNK = bytes(range(256)) * 8
DAMAGED = "cannot be read, it may be damaged"
TWO_HEADERS = "a,y\nm2,\n1,2\n3,4\n"
EXCEL = io.BytesIO()
with zipfile.ZipFile(EXCEL, "w") as archive:
    for name in ("[Content_Types].xml", "_rels/.rels", "a.xml", "b.xml", "c.xml"):
        archive.writestr(name, "")
EXCEL = EXCEL.getvalue()
PARQUET = io.BytesIO()
pd.DataFrame({"a": [1.0, None], "street": ["A", "B"], "y": [1, 2]}).to_parquet(PARQUET)
PARQUET = PARQUET.getvalue()

SETTINGS = [  # of HOUSES in t.csv
    ({"target": "prise"}, r"no column 'prise'. Did you mean 'price'\? There are: 'price'"),
    ({"target": 9}, r"dataset.target: there is no column 9; positions go from 1 to 4"),
    ({"target": None}, "say which column to predict: dataset.target"),
    ({"target": "price", "inputs": ["area", "price"]}, "shown the answer"),
    ({"target": "price", "inputs": ["area", 2]}, "names 'area' twice"),
    ({"target": "price", "inputs": ["area.2"]}, "no column 'area.2'"),
    ({"target": "street"}, "row 1, column 'street' has 'A' where a number"),
    ({"target": "price", "missing": "zero"}, "missing='zero' is none of error, mean"),
    ({"target": "a", "delimiter": ";"}, "only one column: look at dataset.delimiter"),
]
FILES = [
    # Text: its cells
    ("t.csv", "a,y\n1,2\nx,3\n5,4\n", {}, "row 2, column 'a' has 'x' where a number"),
    (
        "t.csv",
        "a,y\n?,2\n3,4\n",
        {},
        "If it stands for a missing value, add it to dataset.na_values",
    ),
    ("t.csv", "a,y\n1,2\ninf,3\n5,4\n", {}, "row 2, column 'a' is infinite"),
    ("t.csv", "a,y\n1,2\n5,2\n", {}, "the target 'y' is 2 in all 2 rows"),
    ("t.csv", "a,y\n1,b\n2,b\n", {"task": "classification"}, "'y' is 'b' in all rows, so there"),
    ("t.csv", "a,y\n1e300,2\n1,5\n", {}, "too large to be scaled"),
    # Text: rows and columns that are not there
    ("t.csv", "a,y\n1,2\n", {}, "at least 2 rows, 1 came"),
    ("t.csv", "a,y\n1,\n2,\n", {}, "t.csv: the target 'y' has no value in 2 rows, and a stream n"),
    ("t.csv", "a,y\n1,\n,2\n", {"missing": "drop"}, "a stream needs at least 2 rows, 0 came"),
    ("t.csv", "a,y\n", {}, "a header but no rows"),
    ("t.csv", "", {}, "the file is empty"),
    ("t.csv", "s,y\n,1\n,2\n", {}, "no column is left as an input"),
    ("t.csv", "a,y\n,2\n,5\n", {"inputs": ["a"]}, "column 'a' has no value at all"),
    ("t.csv", "1,3,y\n1,2,3\n", {"inputs": "1-2"}, "'1-2' mixes names and positions. List the"),
    # Text: its lines
    ("t.csv", "a,y\n1,2,3\n4,5,6\n", {}, "rows of different lengths: the first row has more cells"),
    ("t.csv", "# of a device\na,y\n1,2\n", {}, "first row has more cells than the header"),
    ("t.csv", "a,y\n1,2\n1,2,3\n", {}, "line 3 has 3 cells, where 2 are expected. Correct"),
    ("t.csv", b'a,y\n1,2\n"3,4\n', {}, "a quote is opened and never closed"),
    # Of another kind, or damaged
    ("t.csv", JUNK, {}, "not utf-8 text"),
    ("t.csv", ("\ufeff" + TABLE).encode("utf-16-le"), {}, "dataset.encoding, for example utf-16"),
    ("t.csv", "größe,y\n1,2\n3,4\n".encode("latin-1"), {}, "not utf-8 text. Set dataset.encoding"),
    ("t.csv", b"PK\x03\x04" + JUNK, {}, DAMAGED),
    ("t.csv", EXCEL, {}, "this is a zip of 5 files: .*. Name an Excel file .xlsx"),
    ("t.csv.gz", b"\x1f\x8b\x08" + JUNK, {}, DAMAGED),
    ("t.csv.gz", gzip.compress(TABLE.encode() * 50)[:-20], {}, "may be damaged"),
    ("t.parquet", TABLE, {}, "of another kind than the end of its name says"),
    ("t.parquet", b"PAR1" + JUNK + b"PAR1", {}, DAMAGED),
    ("t.parquet", PARQUET[:-20], {}, DAMAGED),
    ("t.parquet", PARQUET, {"target": "street"}, "row 1, column 'street' has 'A' where a number"),
    ("t.parquet", PARQUET, {"missing": "error"}, "row 2, column 'a' is missing"),
    ("t.feather", b"ARROW1" + JUNK + b"ARROW1", {}, DAMAGED),
    ("t.xlsx", b"PK\x03\x04" + JUNK, {}, DAMAGED),
    ("t.xls", bytes.fromhex("d0cf11e0a1b11ae1") + JUNK, {}, DAMAGED),
    ("t.jsonl", "[1, 2]\n", {}, "row 1 is no JSON object"),
    ("t.jsonl", '{"a": 1, "y": 2}\n{"a"', {}, "row 2 is no JSON object"),
    ("t.json", '{"a": 1, "y": 2}\n{"a"', {}, "row 2 is no JSON object"),
    ("t.json", '[{"a": 1, "y": 2}', {}, "may be damaged"),
    ("t.json", '[{"a": 1, "a": 2}]', {}, "an object has the key 'a' twice"),
    ("t.json", "[1, 2]", {}, r"a table in JSON is a list of objects, \[{...}, ...\]"),
    ("t.csv", TWO_HEADERS, {}, r"row 1 has 'm2' in column 'a'.* second header.*dataset.header=2"),
    ("t.csv", TWO_HEADERS, {"header": 1}, r"row 1, column 'a' has 'm2' where a number"),
    ("t.jsonl", '{"a": ' + "[" * 100_000 + "\n", {}, "row 1 is no JSON object"),
]
CLASSES = {"task": "classification", "labels": [-1, 1]}
LIBSVM = [
    ("1 1:2\n-1 2 3:4 5\n", {}, r"row 2 has '2' where index:value should be"),
    ("1 1:2\n-1 2;3\n", {}, r"row 2 has '2;3' where index:value should be"),
    ("1 1:2:3 4\n", {}, r"row 1 has '1:2:3' where index:value"),
    ("1 1:2\n2 1:3 2:4 1:5\n", {}, r"row 2 has an index twice"),
    ("1 nan:2\n", {}, r"row 1 has 'nan:2'"),
    ("1 1e300:1\n", {}, r"row 1 has '1e300:1'"),
    ("1 1000000000:1\n", {}, r"row 1 has the index 1000000000, outside 1..100,000"),
    ("1 0:1\n", {}, r"row 1 has the index 0, outside 1\.\.100,000. If .* dataset.zero_based=true"),
    ("1 1:2\n2 3:3\n", {"inputs": "1-2"}, r"row 2 has the index 3, outside 1..2"),
    ("spam 1:2\nham 1:3\n", {}, r"row 1 has the label 'spam' where a number should be"),
    ("1 1:2\n1:3 2:4\n", {}, r"row 2 has no label: it begins with the pair '1:3'. Put the target"),
    ("1 1:2\n3 1:3\n", CLASSES, r"row 2 has the label '3', which is none of .*=\[-1, 1"),
    ("1 1:2\n1 1:3\n", {"task": "classification"}, r"the target 'label' is '1' in all rows"),
    ("1 1:inf\n2 1:3\n", {}, r"row 1, column 'x1' is infinite"),
    ("1 1:2\n2 1:3\n", {"target": 1}, r"dataset.target=1 is not for LIBSVM text"),
    ("1 1:2\n2 1:3\n", {"inputs": [5]}, r"dataset.inputs=\[5\] is not for LIBSVM"),
    ("1 1:2\n2 1:3\n", {"inputs": "1-99999999999"}, r"a range '1-N', N at most 100,000"),
    ("1 1:2\n2 1:3\n", {"columns": ["a"]}, r"dataset.columns is not for LIBSVM text"),
    ("1\n2\n", {}, r"no row has an input"),
]
BY_BLOCKS = [  # what comes after the first rows, or with what was seen of a column
    ("t,y\n2024-02-13,1\n2024-02-14,2\nsoon,3\n", "row 3, column 't' has 'soon' where a date"),
    ("a,y\n0,1\n1,2\n2,-1e160\n3,3\n", "t.csv: the values of column 'y' are too large"),
]


CASES = [
    *(("t.csv", HOUSES, keys, message) for keys, message in SETTINGS),
    *FILES,
    *(("t.svm", text, {"target": None, **keys}, message) for text, keys, message in LIBSVM),
]


@pytest.mark.parametrize(
    ("name", "data", "keys", "message"),
    CASES,
    ids=[f"{name}: {message}" for name, _, _, message in CASES],
)
def test_the_error_names_the_thing_and_the_cure(tmp_path, name, data, keys, message):
    (tmp_path / name).write_bytes(data.encode() if isinstance(data, str) else data)
    with pytest.raises(DataError, match=message) as error:
        open_stream(own(tmp_path / name, **keys), WHOLE)
    assert name in str(error.value) or "dataset." in str(error.value)
    assert "index_col" not in str(error.value) and "C error" not in str(error.value)


@pytest.mark.parametrize(("text", "message"), BY_BLOCKS)
def test_errors_come_as_far_as_a_file_is_read(tmp_path, monkeypatch, text, message):
    monkeypatch.setattr("omkl.datasets.read.CHUNK_ROWS", 2)
    (tmp_path / "t.csv").write_text(text)
    stream = open_stream(own(tmp_path / "t.csv"), COLUMNS)
    with pytest.raises(DataError, match=message):
        list(stream.blocks(10))
