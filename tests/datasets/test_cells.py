"""A column is read in one way by a file, a later chunk, another format, a data frame and a row."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import omkl
from omkl.datasets import DataError, open_stream, read, tables
from omkl.online.rows import Rows, columns_in, encoded
from tests.datasets.helpers import COLUMNS, RAW, collect, own, streamed, write, write_excel

N = 60
NUMBERS = np.random.default_rng(0).normal(scale=900, size=N).round(2)
DAYS = pd.date_range("2024-01-01", periods=N, freq="31h")
SPELLINGS = {
    "plain": [f"{x}" for x in NUMBERS],
    "unit": [f"{x} kg" for x in NUMBERS],
    "percent": [f"{x}%" for x in NUMBERS],
    "money": [f"${x:,.2f}" for x in NUMBERS],
    "blank": [f"{x:,.2f}".replace(",", " ") for x in NUMBERS],
    "swiss": [f"{x:,.2f}".replace(",", "'") for x in NUMBERS],
    "german": [f"{x:_.2f}".replace(".", ",").replace("_", ".") for x in NUMBERS],
    "comma": [f"{x}".replace(".", ",") for x in NUMBERS],
    "unicode minus": [f"{x}".replace("-", "−") for x in NUMBERS],
    "trailing minus": [f"{abs(x)}{'-' if x < 0 else ''}" for x in NUMBERS],
}
DATES = {
    "iso": "%Y-%m-%d %H:%M:%S", "am pm": "%m/%d/%Y %I:%M %p", "month name": "%d %b %Y %H:%M",
    "fractions": "%d/%m/%Y %H:%M:%S.%f",
}  # fmt: skip


def frame_of(cells: list) -> pd.DataFrame:
    return pd.DataFrame({"a": cells, "y": np.arange(len(cells)) % 7 / 2})


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_numbers_as_people_write_them(tmp_path, spelling):
    frame_of(SPELLINGS[spelling]).to_csv(tmp_path / "t.tsv", sep="\t", index=False)
    assert streamed(tmp_path / "t.tsv")[0] == NUMBERS[:, None].tolist()


@pytest.mark.parametrize("format", DATES)
def test_dates_as_people_write_them_with_one_that_is_missing(tmp_path, format):
    cells = DAYS.strftime(DATES[format]).tolist()
    write_rows = [*cells[:9], "-", *cells[10:]]
    frame_of(write_rows).to_csv(tmp_path / "t.csv", index=False)
    X = np.concatenate([b.x for b in open_stream(own(tmp_path / "t.csv"), RAW).rows(N)])
    expected = (DAYS - DAYS[0]) / pd.Timedelta(days=1)
    there = np.arange(N) != 9
    np.testing.assert_allclose(X[there, 3], expected[there], atol=1e-12)
    (column, *_) = open_stream(own(tmp_path / "t.csv"), RAW).columns
    assert "'-' counts as missing" in column.why


def test_the_order_of_day_and_month_is_that_in_which_dates_grow_or_is_declared(tmp_path):
    days = [f"{k:02d}/{m:02d}/2024" for m in (1, 2, 3) for k in range(1, 13)]
    frame_of(days).to_csv(tmp_path / "t.csv", index=False)
    stream = open_stream(own(tmp_path / "t.csv"), RAW)
    assert collect(stream)[0][12, 1] == 32, "1 February"
    mixed = [days[k * 7 % 36] for k in range(36)]
    frame_of(mixed).to_csv(tmp_path / "t.csv", index=False)
    (column, *_) = open_stream(own(tmp_path / "t.csv"), RAW).columns
    assert "month first; columns='a: date dayfirst'" in column.why
    declared = own(tmp_path / "t.csv", columns={"a": "date dayfirst"})
    assert collect(open_stream(declared, RAW))[0][1, 1] == 8, "8 January"


def test_text_with_an_offset_and_a_typed_column_with_a_zone_are_one_clock(tmp_path):
    frame = frame_of(DAYS.tz_localize("Europe/Berlin"))
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert streamed(tmp_path / "t.csv") == streamed(tmp_path / "t.parquet")


def mixed() -> pd.DataFrame:
    """Columns of all kinds as text, two of them with blanks."""
    rng = np.random.default_rng(1)
    code = rng.choice(["12", "A7", "B3", "012", "1E5"], N)
    size = pd.Series(NUMBERS.astype(str)).mask(rng.random(N) < 0.1)
    return pd.DataFrame({
        "code": pd.Series(code).mask(rng.random(N) < 0.1), "size": size,
        "mass": SPELLINGS["unit"], "many": [f"w{k % 40}" for k in range(N)],
        "word": rng.choice(["1e3", "true", "null", "7"], N),
        "when": DAYS.strftime("%Y-%m-%d %H:%M"), "y": (np.arange(N) % 7 / 2).astype(str),
    })  # fmt: skip


def written(folder, frame):
    """The frame in files of all formats, and the same rows typed in Parquet."""
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_csv(folder / "t.tsv", index=False, sep="\t")
    frame.to_parquet(folder / "text.parquet")
    frame.to_feather(folder / "t.feather")
    frame.to_json(folder / "t.jsonl", orient="records", lines=True)
    cells = frame.astype(object).where(frame.notna(), None).to_numpy().tolist()
    write_excel(folder / "t.xlsx", [list(frame.columns), *cells])
    typed = frame.assign(when=DAYS.floor("min"), size=frame["size"].astype(float))
    typed["y"] = typed["y"].astype(float)
    typed.to_parquet(folder / "typed.parquet")
    typed.astype({"code": "category", "size": "Float64"}).to_parquet(folder / "declared.parquet")
    return sorted(folder.iterdir())


KINDS = ["words", "numbers", "numbers", "hashed", "words", "date"]


def test_columns_learned_from_any_format_or_frame_encode_alike(tmp_path):
    frame = mixed()
    learned = [columns_in(frame.drop(columns="y"))]
    expected = encoded(frame, learned[0])
    for path in written(tmp_path, frame):
        stream = open_stream(own(path), RAW)
        assert [column.how for column in stream.columns] == KINDS, path.name
        np.testing.assert_array_equal(encoded(frame, stream.columns), expected, path.name)
        (rows,) = open_stream(own(path), COLUMNS).rows(N)
        np.testing.assert_array_equal(rows.y, np.arange(N) % 7 / 2)
    for dtype in ("object", "string", "str", pd.ArrowDtype(pa.string()), "category"):
        columns = columns_in(frame.drop(columns="y").astype({"many": dtype, "code": dtype}))
        np.testing.assert_array_equal(encoded(frame, columns), expected, str(dtype))


@pytest.mark.parametrize("chunk", [N, 25, 1])
def test_all_formats_frames_and_rows_give_the_same_numbers_to_the_bit(tmp_path, monkeypatch, chunk):
    frame = mixed()
    columns = columns_in(frame.drop(columns="y"))
    inputs = [name for column in columns for name in column.inputs]
    assert [c.how for c in columns] == KINDS
    described = json.loads(json.dumps([dataclasses.asdict(column) for column in columns]))
    expected = encoded(frame, columns)
    monkeypatch.setattr(read, "CHUNK_ROWS", chunk)
    for path in written(tmp_path, frame):
        pieces = [X for X, *_ in tables.inputs_in(own(path), described, inputs)]
        np.testing.assert_array_equal(np.concatenate(pieces), expected, err_msg=path.name)
        np.testing.assert_array_equal(
            encoded(pd.concat(read.frames(read.open_content(own(path)), own(path))), columns),
            expected,
        )
    rows = Rows(inputs, True, columns)
    arrow = frame.convert_dtypes(dtype_backend="pyarrow")
    for given in (frame, frame.astype(object), frame.convert_dtypes(), arrow):
        np.testing.assert_array_equal(encoded(given, columns), expected)
        cells = given.drop(columns="y").to_dict("records")
        np.testing.assert_array_equal([rows.one(row) for row in cells], expected)


def test_a_number_is_the_category_that_spells_it():
    columns = columns_in(frame_of(["012", "A7", "B3", "1E5"] * 10)[["a"]])
    for cells in ([12, 100_000], [12.0, 1e5], ["012", "1E5"]):
        found = encoded(pd.DataFrame({"a": cells}), columns)
        assert found.tolist() == [[1, 0, 0, 0], [0, 0, 0, 1]]
    assert not encoded(pd.DataFrame({"a": ["12"]}), columns).any(), "as text it is another one"


@pytest.mark.parametrize(
    ("cells", "later"),
    [(["1", "2"], "16,955"), (["1 kg", "2 kg"], "5 g"), (["1,5", "2,5"], "1.5"),
     (["31/01/2024", "01/02/2024"], "02/13/2024")],
)  # fmt: skip
def test_another_spelling_later_is_an_error_with_its_row(tmp_path, monkeypatch, cells, later):
    monkeypatch.setattr(read, "CHUNK_ROWS", 2)
    frame_of([*cells, later]).to_csv(tmp_path / "t.csv", index=False, sep=";")
    with pytest.raises(DataError, match=rf"row 3, column 'a' has '{later}' where a "):
        collect(open_stream(own(tmp_path / "t.csv"), RAW))


def test_columns_are_what_is_declared(tmp_path):
    frame_of(["1", "2", "3"] * 10).to_csv(tmp_path / "t.csv", index=False)

    def kinds(said: str) -> list[str]:
        stream = open_stream(own(tmp_path / "t.csv", columns={"a": said}, inputs=["a"]), RAW)
        return list(stream.inputs)

    assert kinds("category") == ["a=1", "a=2", "a=3"] and kinds("number") == ["a"]
    assert len(kinds("text")) == 18
    with pytest.raises(DataError, match=r"'a' is declared as 'colour', and a column is one of"):
        kinds("colour")
    with pytest.raises(DataError, match=r"row 1, column 'a' has '1' where a date should be"):
        kinds("date")
    with pytest.raises(DataError, match=r"dataset.columns: there is no column 'b'"):
        open_stream(own(tmp_path / "t.csv", columns={"b": "text"}), RAW)
    k = np.arange(N) % 5
    for column in (pd.Categorical(k), pd.array(k.astype(str), dtype="string")):
        assert omkl.columns(frame_of(column)).loc["a", "as"] == "categories"


@pytest.mark.parametrize("dtype", ["object", "category", "string"])
def test_a_missing_class_of_any_dtype_is_no_label(tmp_path, dtype):
    label = pd.Series(["x", "z", None] * 10, dtype=object).astype(dtype)
    frame_of(np.arange(30.0) ** 2).assign(y=label).to_parquet(tmp_path / "t.parquet")
    stream = open_stream(own(tmp_path / "t.parquet", task="classification"), RAW)
    assert stream.classes == ("x", "z") and collect(stream)[1].tolist() == [-1, 1] * 10
    whole = pd.Series([2, 3, None] * 10, dtype=float)
    frame_of(np.arange(30.0) ** 2).assign(y=whole).to_parquet(tmp_path / "t.parquet")
    assert open_stream(own(tmp_path / "t.parquet", task="classification"), RAW).classes == (
        "2",
        "3",
    )


def test_a_number_that_is_a_name_is_taken_for_the_name(tmp_path):
    write(tmp_path / "t.csv", "0,1,2,3\n1.5,2.5,3.5,9\n1.5,2.5,3.5,8\n")
    assert streamed(tmp_path / "t.csv", target=3)[1] == [9, 8]


@pytest.mark.parametrize("above", ["sep=;\n", "Report 2024\n\n"])
def test_lines_above_the_header_are_passed_over(tmp_path, above):
    mark = ";" if ";" in above else ","
    write(tmp_path / "t.csv", above + f"a{mark}y\n1{mark}2\n3{mark}4\n")
    with pytest.raises(DataError, match=r"dataset\.skip_lines"):
        streamed(tmp_path / "t.csv")
    assert streamed(tmp_path / "t.csv", skip_lines=1) == ([[1], [3]], [2, 4])
