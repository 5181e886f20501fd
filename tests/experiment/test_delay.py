"""Runs whose targets come late, ``stream.delay``, or are of later rows, ``stream.horizon``."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

import omkl
from omkl.commands import predict

QUICK = {"kernels": "gaussian17", "D": 4, "seeds": 1}
N = 160


@pytest.fixture
def frame(tmp_path, monkeypatch):
    """A level that wanders, an input that explains the rest, and a few rows without a target."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"a": rng.normal(size=N), "b": rng.normal(size=N)})
    frame["y"] = 50.0 + 2.0 * frame["a"] + np.cumsum(rng.normal(size=N))
    frame.loc[[20, 21, 90], "y"] = np.nan
    return frame


def test_baselines_are_as_late(frame):
    run = omkl.run("ridge", frame, target="y", stream={"delay": 2, "horizon": 3}, **QUICK)
    y = frame["y"].to_numpy()
    known = pd.Series(y).ffill().to_numpy()
    last = [known[t - 3] - y[t + 3] for t in range(6, N - 3)]  # y[t - 1 - 2] is in when t comes
    assert run["baselines"]["last"]["rmse"] == pytest.approx(np.sqrt(np.nanmean(np.square(last))))
    assert run["baselines"]["ridge"]["rmse"] == pytest.approx(run["rmse"], rel=1e-12)


@pytest.mark.parametrize("name", ["raker", "auto"])
def test_no_block_and_no_target_that_is_not_in_changes_a_prediction(frame, name):
    stream = {"delay": 4, "horizon": 2, "lags": 1}
    run = omkl.run(name, frame, target="y", stream=stream, **QUICK)
    cut = omkl.run(name, frame, target="y", stream=stream, block=7, force=True, **QUICK)
    np.testing.assert_array_equal(cut.predictions["y_hat"], run.predictions["y_hat"])
    assert cut["mse"] == run["mse"] and cut["baselines"] == run["baselines"]
    later = frame.assign(y=frame["y"].where(frame.index < 100, 7.0 * frame["y"]))
    other = omkl.run(name, later, target="y", stream=stream, **QUICK)
    pairs = zip(run.predictions["y_hat"], other.predictions["y_hat"], strict=True)
    first = next(t for t, (one, two) in enumerate(pairs) if one != two)
    assert first == 100 + 4 + 1, "the target of row 100 is in when row 105 comes"


def test_the_best_kernel_in_hindsight_counts_the_same_rounds(frame):
    def comparator(delay):
        stream, regret = {"delay": delay, "lags": 0}, {"ridge_features": True}
        run = omkl.run("raker", frame, target="y", stream=stream, regret=regret, **QUICK)
        curves = np.load(run.folder / "curves.npz")
        n = curves["t"] - (delay + 1)
        return curves["t"], curves["mse"][0] * n - curves["regret_ridge_features"][0]

    (t, at_once), (t_late, late) = comparator(0), comparator(5)
    at = {int(n): at_once[k] for k, n in enumerate(t)}
    expected = [at[int(n)] - at[6] for n in t_late]
    np.testing.assert_allclose(late, expected, rtol=1e-9, atol=1e-9)


def test_auto_learns_from_the_past_targets_that_it_predicts_with(tmp_path, monkeypatch):
    """Of the newest target that is in, y is the opposite; of the one before the row it is not."""
    monkeypatch.chdir(tmp_path)
    half = np.random.default_rng(0).normal(size=8)
    frame = pd.DataFrame({"a": np.zeros(480), "y": np.tile(np.concatenate([half, -half]), 30)})
    run = omkl.run("auto", frame, target="y", stream={"delay": 7}, **QUICK)
    errors = (run.predictions["y_hat"] - run.predictions["y"]).to_numpy()[-100:]
    assert np.abs(errors).max() < 0.05 * np.abs(half).max()


def test_the_kept_model_has_the_rows_that_wait(frame):
    stream = {"delay": 2, "horizon": 1}
    run = omkl.run("auto", frame, target="y", stream=stream, model=True, **QUICK)
    learner = omkl.load_learner(run.model)
    by_hand = omkl.learner("auto", inputs=["a", "b"])
    rows, y = frame[["a", "b"]].to_dict("records"), frame["y"].to_numpy()
    for t, row in enumerate(rows):
        by_hand.predict_one(row)
        if t >= 3:
            by_hand.learn_one(rows[t - 3], y[t - 2])
    for one in (learner, by_hand):
        one.learn_one(rows[-3], 60.0)
        one.learn_one(rows[-1], 61.0)
    np.testing.assert_array_equal(learner.predict(rows), by_hand.predict(rows))


@pytest.mark.parametrize(
    ("what", "stream", "message"),
    [
        (("amkl", "airfoil"), {"delay": 1}, "amkl requests some of the targets"),
        (("pof_mkl", "airfoil", "federation=iid"), {"delay": 1}, "stream.delay is not available"),
        (("raker", "airfoil"), {"horizon": 1, "order": "shuffled"}, "shuffled rows have no order"),
        (("raker", "airfoil"), {"horizon": 500, "delay": 501}, "together they must be at most"),
        (("raker", "airfoil"), {"delay": 1001}, "stream.delay=1001 is no"),
        (("raker", "airfoil"), {"delay": 30, "limit": 20, "scaling": "columns"}, "first target is"),
        (
            ("raker", "airfoil"),
            {"horizon": 30, "limit": 20},
            "2 rows with the target of the row 30",
        ),
    ],
)
def test_what_cannot_be_is_said(frame, what, stream, message):
    with pytest.raises((ValueError, RuntimeError), match=message):
        omkl.run(*what, stream=stream, **QUICK)


def heated(n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(7)
    hours = pd.date_range("2024-03-01", periods=n, freq="h")
    rows = pd.DataFrame({"time": hours, "cold": rng.normal(size=n), "wind": rng.normal(size=n)})
    rows["load"] = 3.0 * rows.cold + np.sin(2 * np.pi * hours.hour / 24)
    return rows


def test_calendar_and_declared_columns_are_those_of_the_row_that_is_predicted(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    rows, h = heated(), 5
    rows.to_csv("heat.csv", index=False)
    settings = {"target": "load", "figures": False, "tracking": "none", "model": True}
    settings |= {"stream": {"horizon": h}, "columns": {"cold": "number known"}}
    found = omkl.run("ridge", "heat.csv", **settings)
    by_hand = rows.assign(load=rows.load.shift(-h), cold=rows.cold.shift(-h))
    by_hand["time"] = rows.time + pd.Timedelta(hours=h)
    by_hand[:-h].to_csv("shifted.csv", index=False)
    same = omkl.run(
        "ridge", "shifted.csv", target="load", stream={"delay": h}, figures=False, tracking="none"
    )
    np.testing.assert_allclose(found.predictions.y_hat[:-h], same.predictions.y_hat)
    assert (
        found["rmse"]
        < 0.5 * omkl.run("ridge", "heat.csv", **settings | {"columns": {"cold": "number"}})["rmse"]
    )
    rows.drop(columns="load").to_csv("new.csv", index=False)
    assert predict.main([str(found.folder), "new.csv"]) == 0
    printed = capsys.readouterr()
    predicted = pd.read_csv(io.StringIO(printed.out), index_col="row")
    assert (predicted.target_row == predicted.index + h).all()
    assert f"lack the dates and known columns of the row {h} further down" in printed.err
    learner = omkl.load_learner(found.folder / "model.npz")
    np.testing.assert_allclose(
        predicted.y_hat[:-h], learner.predict(by_hand[:-h].drop(columns="load"))
    )
