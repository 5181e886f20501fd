"""Small tables of the kinds that were read wrongly once, from the command line to the learner."""

import datetime
import decimal
import io
import warnings

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import omkl
from omkl.datasets import DataError, open_stream, read
from omkl.report.console import print_columns
from omkl.river import OnlineMKLRegressor
from tests.datasets.helpers import COLUMNS, RAW, collect, own, streamed, write, write_excel

RNG = np.random.default_rng(0)
CODES = {"012": 20.0, "34": 10.0, "1E5": -20.0, "A7": 5.0, "B3": -5.0}
QUICK = {"figures": False, "tracking": "none", "seeds": 1}


def coded(n: int, codes: tuple[str, ...] = tuple(CODES)) -> tuple[pd.DataFrame, np.ndarray]:
    frame = pd.DataFrame({"code": RNG.choice(codes, n), "x": RNG.normal(size=n)})
    return frame, frame["code"].map(CODES).to_numpy() + frame["x"].to_numpy()


def test_codes_of_digits_are_learned_on_and_predicted(tmp_path):
    X, y = coded(400)
    learner = omkl.learner("ridge")
    learner.partial_fit(X, y)
    digits, target = coded(200, ("012", "34", "1E5"))
    digits.to_csv(tmp_path / "digits.csv", index=False)
    errors = learner.partial_fit(digits, target).y_hat - target
    assert np.abs(errors).mean() < 0.5, "a frame without a letter among its codes"
    new = pd.DataFrame({"code": ["012", "34", "1E5"], "x": 0.0})
    np.testing.assert_allclose(learner.predict(new), [20, 10, -20], atol=2.0)
    letters = pd.concat([new, pd.DataFrame({"code": ["A7"], "x": [0.0]})])
    np.testing.assert_array_equal(learner.predict(letters)[:3], learner.predict(new))


def test_codes_with_leading_zeros_are_categories_and_it_is_said(tmp_path):
    shop, y = RNG.choice(["007", "012", "103"], 90), np.arange(90) % 7
    pd.DataFrame({"shop": shop, "y": y}).to_csv(tmp_path / "t.csv", index=False)
    stream = open_stream(own(tmp_path / "t.csv"), RAW)
    assert {f"shop={code}" for code in shop} == set(stream.inputs)
    (column,) = stream.columns
    assert column.why.endswith("leading zeros are codes; columns='shop: number' reads numbers")
    assert open_stream(own(tmp_path / "t.csv", columns={"shop": "number"}), RAW).inputs == ("shop",)
    learner = omkl.learner("ridge")
    learner.partial_fit(pd.DataFrame({"shop": shop}), y)
    assert set(learner.inputs) == set(stream.inputs)
    model = OnlineMKLRegressor(columns={"shop": "category 007 012 103"})
    for code in shop:
        model.predict_one({"shop": code})
        model.learn_one({"shop": code}, -5.0 if code == "007" else 5.0)
    assert model.predict_one({"shop": "012"}) > 2.0 > -2.0 > model.predict_one({"shop": "007"})


@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_blanks_and_digits_in_a_second_chunk_change_no_column(tmp_path, monkeypatch, end):
    monkeypatch.setattr(read, "CHUNK_ROWS", 40)
    code = ["12", "34", "A7", "B3"] * 10 + ["12", "", "34", ""] * 10
    frame = pd.DataFrame({"code": pd.Series(code).replace("", None), "y": np.arange(80) % 7})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    (rows,) = open_stream(own(tmp_path / f"t.{end}"), COLUMNS | {"scaling": "columns"}).rows(99)
    assert rows.x.shape == (80, 4) and not rows.x[41].any() and rows.x[40, 0] > 0.0


@pytest.mark.parametrize("later", [["1,250", "2,000", "1,500"], ["1,250.00", "2,000.00", "1500"]])
def test_thousands_keep_their_separator_in_a_later_frame(later):
    amount = RNG.uniform(1000, 3000, 100).round(2)
    first = pd.DataFrame({"amount": [f"{a:,.2f}" for a in amount], "b": RNG.normal(size=100)})
    learner = omkl.learner("ridge")
    learner.partial_fit(first, amount / 100)
    new = pd.DataFrame({"amount": later, "b": 0.0})
    np.testing.assert_allclose(learner.predict(new), [12.5, 20, 15], atol=0.2)


@pytest.mark.parametrize("name", ["größe.csv", "a=b.csv"])
def test_files_of_any_name_are_run(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    a, b = RNG.normal(size=(2, 60))
    pd.DataFrame({"a": a, "größe": b}).to_csv(name, index=False)
    assert omkl.run("mean", name, target="größe", **QUICK)["stream"]["target"] == "größe"


@pytest.mark.parametrize("target", [3, "3"])
def test_a_column_that_is_called_by_a_number_is_taken_by_its_name(tmp_path, monkeypatch, target):
    monkeypatch.chdir(tmp_path)
    run = omkl.run("mean", pd.DataFrame(RNG.normal(size=(60, 4))), target=target, **QUICK)
    assert run["stream"]["inputs"] == ["0", "1", "2"] and run["stream"]["target"] == "3"


@pytest.mark.parametrize(("row", "bad"), [(0, "n/a"), (7, "n/a"), (7, ""), (7, None)])
def test_a_missing_number_of_river_is_missing(row, bad):
    model, errors = OnlineMKLRegressor(), []
    for n, (a, b) in enumerate(RNG.normal(size=(400, 2))):
        x = {"a": bad if n == row else a, "b": b}
        errors.append(abs(model.predict_one(x) - (3 * a + b)))
        model.learn_one(x, 3 * a + b)
    assert np.mean(errors[-100:]) < 0.1


@pytest.mark.parametrize("inputs", [None, ["a", "b"]])
def test_a_column_that_is_empty_at_first_is_an_input(inputs):
    frame = pd.DataFrame(RNG.normal(size=(400, 2)), columns=["a", "b"])
    y = 3 * frame["a"] + frame["b"]
    learner = omkl.learner("ridge", inputs=inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner.partial_fit(frame[:200].assign(a=np.nan), y[:200])
        learner.partial_fit(frame[200:], y[200:])
    assert learner.inputs == ("a", "b")
    assert np.abs(learner.predict(frame[300:]) - y[300:]).mean() < 1.0


def test_targets_that_are_equal_at_first_give_finite_errors(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rain = np.where(np.arange(200) < 60, 0.0, RNG.exponential(size=200))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = omkl.run("auto", pd.DataFrame({"a": RNG.normal(size=200), "y": rain}), target="y",
                       **QUICK)  # fmt: skip
    assert run["rmse"] > 0.0 and run["spread"]["log_loss"] is not None


def test_libsvm_text_may_count_from_zero_and_holds_classes(tmp_path):
    path = write(tmp_path / "t.svm", "a 0:1 2:3\nb 1:2\n")
    given = {"target": None, "task": "classification", "zero_based": True}
    assert streamed(path, **given) == ([[1, 0, 3], [0, 2, 0]], [-1, 1])
    assert open_stream(own(path, **given), RAW).classes == ("a", "b")


def test_control_characters_of_a_header_do_not_reach_the_terminal(tmp_path):
    write(tmp_path / "t.csv", "a\x1b[31mRED,y\n1,2\n3,4\n")
    stream = open_stream(own(tmp_path / "t.csv"), RAW)
    collect(stream)
    shown = io.StringIO()
    print_columns(stream.provenance, "2 rows", Console(file=shown, width=100))
    assert r"a\x1b[31mRED" in shown.getvalue() and "\x1b" not in shown.getvalue()


@pytest.mark.parametrize("name", ["t.csv", "t.csv.zip", "t.dat"])
def test_text_with_another_ending_is_read(tmp_path, name):
    frame = pd.DataFrame({"a": [1.0, 3.0], "y": [2.0, 4.0]})
    frame.to_csv(tmp_path / name, index=False, compression="gzip" if name == "t.csv" else "infer")
    given = {"format": "csv"} if name == "t.dat" else {}
    assert streamed(tmp_path / name, **given) == ([[1], [3]], [2, 4])


@pytest.mark.parametrize("orient", ["records", "split", "table", "columns", "lines"])
def test_json_of_pandas_is_the_table(tmp_path, orient):
    frame = pd.DataFrame({"a": [1.5, None, 3.0], "b": ["x", "z", "x"], "y": [1.0, 2.0, 4.0]})
    lines = orient == "lines"
    frame.to_json(tmp_path / "t.json", orient="records" if lines else orient, lines=lines)
    frame.to_parquet(tmp_path / "t.parquet")
    stream = open_stream(own(tmp_path / "t.json"), RAW)
    assert stream.inputs == ("a", "b=x", "b=z")
    assert streamed(tmp_path / "t.json") == streamed(tmp_path / "t.parquet")


@pytest.mark.parametrize("end", ["csv", "xlsx"])
def test_two_header_rows_are_joined(tmp_path, end):
    rows = [["temp", None, "mass", "y"], ["min", "max", "kg", None], [1.0, 2.0, 3.0, 4.0],
            [5.0, 6.0, 7.0, 8.0]]  # fmt: skip
    path = tmp_path / f"t.{end}"
    if end == "xlsx":
        write_excel(path, rows)
    else:
        pd.DataFrame(rows).to_csv(path, index=False, header=False)
    with pytest.raises(DataError, match=r"row 1 has 'min' in column 'temp'.*dataset\.header=2"):
        open_stream(own(path), RAW)
    with pytest.raises(DataError, match=r"row 1, column 'x1' has 'temp' where a number"):
        open_stream(own(path, header=None, target=4), RAW)
    stream = open_stream(own(path, header=2), RAW)
    assert stream.inputs == ("temp min", "temp max", "mass kg")
    assert collect(stream)[0].tolist() == [[1, 2, 3], [5, 6, 7]]


def test_a_frame_of_all_types_is_one_table_to_a_run_a_learner_and_a_row(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    n = 120
    day = pd.Timestamp("2024-01-01")
    X = pd.DataFrame({
        "span": pd.to_timedelta(RNG.normal(size=n), unit="h"),
        "period": pd.period_range("2020-01", periods=n, freq="M"),
        "exact": [decimal.Decimal(f"{x:.3f}") for x in RNG.normal(size=n)],
        "date": [(day + pd.Timedelta(days=k)).date() for k in range(n)],
        "clock": [datetime.time(k % 24, 30) for k in range(n)],
        "flag": pd.array(RNG.choice([True, False, None], n), dtype="boolean"),
        "zoned": pd.date_range(day, periods=n, freq="7h", tz="Europe/Berlin"),
        "bytes": [b"x" if k % 2 else b"y" for k in range(n)],
        "code": [f"{k % 7:03d}" for k in range(n)],
    })  # fmt: skip
    y = RNG.normal(size=n)
    run = omkl.run("ridge", X.assign(y=y), target="y", **QUICK)
    learner = omkl.learner("ridge")
    said = learner.partial_fit(X, y).y_hat
    np.testing.assert_array_equal(said, run.predictions["y_hat"])
    assert learner.inputs == tuple(run["stream"]["inputs"])
    rows = [learner.numbers_of([row])[0] for row in X.to_dict("records")]
    np.testing.assert_array_equal(learner.numbers_of(X), rows)
