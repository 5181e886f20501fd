"""Own files as people have them: words, dates, ids, separators, formats, preparation."""

import zlib

import numpy as np
import pandas as pd
import pytest

from omkl.datasets import DataError, base, columns, open_stream, opening, read
from tests.datasets.helpers import COLUMNS, RAW, collect, own, write_excel


@pytest.fixture
def frame() -> pd.DataFrame:
    """40 rows: an id, one in words, a category, words, a date, a constant, a number."""
    rng = np.random.default_rng(0)
    n = 40
    return pd.DataFrame(
        {
            "id": np.arange(100, 100 + n),
            "key": [f"k{k * 7919 % 997}" for k in range(n)],
            "town": rng.choice(["Ulm", "Bonn", "Jena"], n),
            "when": [f"2024-02-{1 + k // 2:02d} {12 * (k % 2):02d}:30" for k in range(n)],
            "same": 5.0,
            "size": rng.normal(size=n),
            "y": rng.normal(size=n),
        }
    )


def test_columns_become_numbers_and_it_is_said_how(tmp_path, frame):
    frame.loc[3, "town"] = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    stream = open_stream(own(tmp_path / "t.csv"), COLUMNS)
    towns = list(dict.fromkeys(frame["town"].dropna()))
    dates = ("when.hour", "when.weekday", "when.day_of_year", "when.days_elapsed")
    assert stream.inputs == (*(f"town={t}" for t in towns), *dates, "same", "size")
    said = {c["column"]: c for c in stream.provenance["columns"]}
    assert {name: c["as"] for name, c in said.items()} == {
        "id": "left out", "key": "left out", "town": "categories", "when": "date",
        "same": "numbers", "size": "numbers",
    }  # fmt: skip
    assert said["id"]["why"] == "an id: it counts the rows"
    assert said["key"]["why"] == "an id: 40 different values in 40 rows"
    assert said["same"]["why"] == "constant in the first 40 rows"
    raw = open_stream(own(tmp_path / "t.csv", inputs=["town", "when"]), COLUMNS)
    assert next(raw.rows(40)).x[3, :3].tolist() == [0, 0, 0], "a blank is the mean so far"
    table = open_stream(own(tmp_path / "t.csv", inputs=["when"], missing="drop"), RAW)
    times = pd.to_datetime(frame["when"])
    days = (times - times[0]).dt.total_seconds() / 86400
    parts = [times.dt.hour + 0.5, times.dt.day_of_week, times.dt.day_of_year, days]
    np.testing.assert_allclose(collect(table)[0], np.stack(parts, axis=1))


@pytest.mark.parametrize("settings", [COLUMNS, RAW | {"horizon": 2}])
def test_rows_have_the_time_of_their_date(tmp_path, frame, settings):
    frame.to_csv(tmp_path / "t.csv", index=False)
    stream = open_stream(own(tmp_path / "t.csv", inputs=["size", "when"]), settings)
    times = np.concatenate([block.time for block in stream.rows(7)])
    days = (pd.to_datetime(frame["when"]) - pd.Timestamp(0)).dt.total_seconds() / 86400
    np.testing.assert_allclose(times, days, atol=1e-9)
    without = open_stream(own(tmp_path / "t.csv", inputs=["size"]), settings)
    assert next(without.rows(7)).time is None


def test_rows_are_counted_before_they_are_read(tmp_path, frame, monkeypatch):
    """Of text that is read in parts by its lines, which may be more than its rows."""

    def told(name: str, **stream) -> str:
        return str(open_stream(own(tmp_path / name, missing="mean"), COLUMNS | stream).row_count)

    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_csv(tmp_path / "t.csv.gz", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    names = ("t.csv", "t.csv.gz", "t.parquet", "t.jsonl")
    assert [*map(told, names)] == ["40 rows"] * 4
    monkeypatch.setattr(read, "CHUNK_ROWS", 8)
    assert [*map(told, names)] == ["about 40 rows", "None", "40 rows", "about 40 rows"]
    assert told("t.csv", limit=7) == "about 7 rows"
    assert str(base.RowCount(1_234_567, False)) == "about 1,240,000 rows"


def test_what_is_named_is_an_input(tmp_path, frame):
    frame.to_csv(tmp_path / "t.csv", index=False)
    stream = open_stream(own(tmp_path / "t.csv", inputs=["id", "key"]), RAW)
    assert stream.n_inputs == 1 + columns.HASHED + 2
    x, _ = collect(stream)
    np.testing.assert_array_equal(x[:, 0], frame["id"])
    places = [zlib.crc32(word.encode()) % columns.HASHED for word in frame["key"]]
    np.testing.assert_array_equal(x[:, 1:-2], np.eye(columns.HASHED)[places])
    assert not x[:, -2:].any(), "the mean and the count of a level"
    why = {c["column"]: c["why"] for c in stream.provenance["columns"]}
    assert "dataset.inputs names it" in why["id"] and why["town"].endswith("one input each")
    left = [c for c in stream.provenance["columns"] if c["as"] == "left out"]
    assert {c["column"] for c in left} == {"town", "when", "same", "size"}
    assert all(c["inputs"] == [] for c in left)


def test_what_is_excluded_is_no_input(tmp_path, frame):
    frame.to_csv(tmp_path / "t.csv", index=False)
    stream = open_stream(own(tmp_path / "t.csv", exclude=["when", 3, "y"]), COLUMNS)
    assert stream.inputs == ("same", "size")
    became = {c["column"]: c["why"] for c in stream.provenance["columns"]}
    assert became["when"] == became["town"] == "dataset.exclude names it"
    with pytest.raises(DataError, match=r"dataset\.exclude: there is no column 'towm'"):
        open_stream(own(tmp_path / "t.csv", exclude="towm"), COLUMNS)
    with pytest.raises(DataError, match="names all inputs"):
        open_stream(own(tmp_path / "t.csv", exclude="town", inputs=["size"]), COLUMNS)


def test_a_file_is_shuffled_in_memory(tmp_path, frame, monkeypatch):
    frame.to_csv(tmp_path / "t.csv", index=False)
    stream = open_stream(own(tmp_path / "t.csv"), RAW | {"order": "shuffled"}, seed=3)
    order = np.random.default_rng(3).permutation(40)
    np.testing.assert_array_equal(collect(stream)[1], frame["y"].to_numpy()[order])
    monkeypatch.setattr(opening, "MOST_SHUFFLED", 100)
    with pytest.raises(DataError, match="these are more than 100 cells"):
        open_stream(own(tmp_path / "t.csv"), RAW | {"order": "shuffled"})


@pytest.mark.parametrize(
    ("y", "in_order"),
    [(np.arange(40.0), True), (-np.arange(40.0), True), (np.repeat([1.0, 2.0], 20), True),
     (np.arange(40.0) % 39, False), (np.arange(19.0), False)],
)  # fmt: skip
def test_rows_in_the_order_of_the_target_are_noticed(tmp_path, y, in_order):
    pd.DataFrame({"x": np.sin(np.arange(len(y))), "y": y}).to_csv(tmp_path / "t.csv", index=False)
    stream = open_stream(own(tmp_path / "t.csv"), RAW)
    assert not stream.notices, "nothing is read yet"
    collect(stream)
    told = ["the rows come in the order of the target" in notice for notice in stream.notices]
    assert told == [True] * in_order


def test_missing_cells_are_counted_by_column(tmp_path, frame):
    frame.loc[3:5, "town"] = None
    frame.loc[7, "size"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    for options, limit in ((COLUMNS, None), (COLUMNS, 5), (COLUMNS | {"scaling": "whole"}, None)):
        stream = open_stream(own(tmp_path / "t.csv"), options | {"limit": limit})
        collect(stream)
        assert stream.missing == ({"town": 2} if limit else {"town": 3, "size": 1})


def test_heavy_tails_are_told_and_rare_words_are_none(tmp_path):
    """By what came up to each row; rain is measured with other rain."""
    rng, n = np.random.default_rng(0), 3000
    frame = pd.DataFrame({"delay": rng.standard_t(2, n), "normal": rng.standard_normal(n)})
    frame["town"] = rng.choice(["Ulm", "Bonn", "Rom"], n, p=[0.97, 0.02, 0.01])
    frame["rain"] = np.where(rng.random(n) < 0.95, 0.0, rng.exponential(size=n))
    frame.loc[700, "normal"] = -9999.0
    frame.assign(y=frame["delay"]).to_csv(tmp_path / "t.csv", index=False)
    stream = open_stream(own(tmp_path / "t.csv"), COLUMNS)
    assert stream.far_out == {}, "nothing is read yet"
    X = collect(stream)[0][:, stream.inputs.index("delay")]
    assert stream.far_out == {"delay": np.mean(np.abs(X) > 4.0)}
    assert 0.005 < stream.far_out["delay"] < 0.02


def test_codes_depend_on_no_later_row_and_on_no_target(tmp_path, frame, monkeypatch):
    """Chunks of ten rows: what is new later is coded 0, and nothing before it changes."""
    monkeypatch.setattr(read, "CHUNK_ROWS", 10)
    frame["town"] = (["Ulm", "Bonn"] * 20)[:40]
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.loc[20:, "town"] = "Rom"
    frame.loc[20:, "size"] = 1e4
    frame["y"] = -3 * frame["y"] + 8
    frame.to_csv(tmp_path / "b.csv", index=False)
    before, after = (
        collect(open_stream(own(tmp_path / f), COLUMNS))[0] for f in ("a.csv", "b.csv")
    )
    np.testing.assert_array_equal(before[:20], after[:20])
    raw = open_stream(own(tmp_path / "b.csv", inputs=["town"]), RAW)
    assert raw.inputs == ("town=Ulm", "town=Bonn")
    assert collect(raw)[0][18:22].tolist() == [[1, 0], [0, 1], [0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("cells", "parts", "second"),
    [
        (["13.02.2024", "02.03.2024"], ("weekday", "day_of_year", "days_elapsed"), [5, 62, 18]),
        (["2/13/2024", "3/2/2024"], ("weekday", "day_of_year", "days_elapsed"), [5, 62, 18]),
        (["2024-02-13", "2024-03-02"], ("weekday", "day_of_year", "days_elapsed"), [5, 62, 18]),
        (["07:15", "18:45"], ("hour",), [18.75]),
        (
            ["2024-02-13T06:00:00", "2024-03-02T18:00:00"],
            ("hour", "weekday", "day_of_year", "days_elapsed"),
            [18, 5, 62, 18.5],
        ),
    ],
)
def test_dates_as_people_write_them(tmp_path, cells, parts, second):
    pd.DataFrame({"t": cells * 2, "y": [1, 2, 3, 4]}).to_csv(tmp_path / "t.csv", index=False)
    stream = open_stream(own(tmp_path / "t.csv"), RAW)
    assert stream.inputs == tuple(f"t.{part}" for part in parts)
    np.testing.assert_allclose(collect(stream)[0][1], second)


def test_blanks_separate_and_excel_opens(tmp_path):
    (tmp_path / "t.txt").write_text("a  b   y\n1  2   3\n4  5   6.5\n")
    assert collect(open_stream(own(tmp_path / "t.txt"), RAW))[0].tolist() == [[1, 2], [4, 5]]
    write_excel(tmp_path / "t.xlsx", [["a", "town", "y"], [1, "Ulm", 3], [None, "Bonn", 6.5],
                                      [2, "Ulm", None]])  # fmt: skip
    stream = open_stream(own(tmp_path / "t.xlsx"), RAW)
    assert stream.inputs == ("a", "town=Ulm", "town=Bonn")
    x, y = collect(stream)
    assert x.tolist() == [[1, 1, 0], [1.5, 0, 1]] and y.tolist() == [3, 6.5]


@pytest.mark.parametrize("given", [-200, [-200], ["-200", "unknown"]])
@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_na_values_are_blank(tmp_path, given, name):
    frame = pd.DataFrame({"a": [1.0, -200.0, 3.0], "b": ["x", "y", "-200"], "y": [1.0, 2.0, -200]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    (rows,) = open_stream(own(tmp_path / name, na_values=given, inputs=["a", "b"]), COLUMNS).rows(9)
    assert rows.x[1, 0] == 0 and rows.x[2, 1:].tolist() == [0, 0]
    assert np.isnan(rows.y).tolist() == [False, False, True]


def test_classes_are_found_in_the_file(tmp_path):
    words = ["spam", "ham", "spam", None, "ham"]
    pd.DataFrame({"a": range(5), "y": words}).to_csv(tmp_path / "t.csv", index=False)
    stream = open_stream(own(tmp_path / "t.csv", task="classification"), RAW)
    assert stream.classes == ("ham", "spam") and stream.provenance["labels"] == ["ham", "spam"]
    x, y = collect(stream)
    assert y.tolist() == [1, -1, 1, -1] and x[:, 0].tolist() == [0, 1, 2, 4]
    pd.DataFrame({"a": range(6), "y": [10, 9, 2, 9, 10, 2]}).to_csv(tmp_path / "n.csv", index=False)
    stream = open_stream(own(tmp_path / "n.csv", task="classification"), RAW)
    assert stream.classes == ("2", "9", "10") and collect(stream)[1].tolist() == [2, 1, 0, 1, 2, 0]
    many = pd.DataFrame({"a": range(200), "y": np.arange(200) / 7})
    many.to_csv(tmp_path / "many.csv", index=False)
    with pytest.raises(
        DataError, match=r"200 different values .*195 more\), and classes are at most 100"
    ):
        open_stream(own(tmp_path / "many.csv", task="classification"), RAW)
    every = own(tmp_path / "many.csv", task="classification", labels="all", inputs=["a"])
    assert len(open_stream(every, RAW).classes) == 200


def test_classes_are_text_before_they_are_numbers(tmp_path):
    """Else "01" and "1" would be one class, in silence."""
    path = tmp_path / "t.csv"
    path.write_text("a,y\n1,01\n2,1\n3,2\n4,01\n")
    with pytest.raises(DataError, match="'01' and '1', which are one number"):
        open_stream(own(path, task="classification"), RAW)
    named = own(path, task="classification", labels=["01", "1", "2"])
    assert collect(open_stream(named, RAW))[1].tolist() == [0, 1, 2, 0]
    path.write_text("a,y\n1,1e1\n2,5\n3,10\n")
    with pytest.raises(DataError, match="one number written in two ways"):
        open_stream(own(path, task="classification"), RAW)
    path.write_text("a,y\n1,+1\n2,-1\n3,+1\n")
    numbers = own(path, task="classification", labels=[-1, 1])
    assert collect(open_stream(numbers, RAW))[1].tolist() == [1, -1, 1], "a number in one way"


def test_preparation_works_or_is_refused(tmp_path, frame):
    frame.to_csv(tmp_path / "t.csv", index=False)

    def prepared(**steps):
        return open_stream(own(tmp_path / "t.csv", prepare=steps, inputs=["size"]), RAW)

    (rows,) = prepared(first_rows=10).rows(99)
    assert rows.rows.tolist() == list(range(1, 11))
    (rows,) = prepared(drop={"column": "town", "equals": "Ulm"}).rows(99)
    there = frame["town"] != "Ulm"
    np.testing.assert_array_equal(rows.rows, np.flatnonzero(there) + 1)
    np.testing.assert_allclose(rows.y, frame["y"][there])
    (rows,) = prepared(scale_columns={"low": -1, "high": 1}).rows(99)
    assert (rows.x.min(), rows.x.max()) == (pytest.approx(-1), pytest.approx(1))
    assert prepared(first_rows=10).provenance["prepare"] == {"first_rows": 10}
    with pytest.raises(DataError, match=r"there is no dataset.prepare.shuffle"):
        prepared(shuffle=True)
    with pytest.raises(DataError, match=r"no row is left by dataset.prepare"):
        prepared(keep={"column": "size", "at_most": -1e300})
    (tmp_path / "t.svm").write_text("1 1:2\n-1 1:3\n")
    with pytest.raises(DataError, match=r"dataset.prepare is not for LIBSVM text"):
        open_stream(own(tmp_path / "t.svm", prepare={"first_rows": 1}), RAW)


def test_a_column_of_many_words_may_have_blanks(tmp_path):
    words = [f"w{k % 40}" for k in range(80)]
    words[3] = None
    table = pd.DataFrame({"word": words, "y": np.arange(80) % 7})
    table.to_csv(tmp_path / "t.csv", index=False)
    x, _ = collect(open_stream(own(tmp_path / "t.csv"), RAW))
    whole = np.delete(x, 3, axis=0)
    assert set(whole.ravel()) == {0.0, 1.0} and whole.sum(axis=1).tolist() == [1.0] * 79
    assert 0.0 < x[3, :-2].min() and x[3].max() < 1.0, "a mean"
