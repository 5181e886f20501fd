"""Runs of ``auto`` on many series: the learner of Python, date by date, and its baselines."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import omkl
from omkl.commands import predict
from omkl.commands import run as run_command
from omkl.online.learner import OnlineLearner

QUIET = {"figures": False, "tracking": "none", "algorithm.size": "small"}
WEEK = np.array([1.0, 1.1, 1.05, 1.0, 1.3, 1.6, 0.6])


def shops(n_days: int = 90, n_shops: int = 5) -> pd.DataFrame:
    """Sales of shops, one opened late, of levels far apart; all report once a day."""
    rng = np.random.default_rng(1)
    day = np.repeat(np.arange(n_days), n_shops)
    shop = np.tile(np.arange(n_shops), n_days)
    offer = (rng.random(len(day)) < 0.2).astype(float)
    y = 10.0**shop * WEEK[day % 7] * (1 + 0.3 * offer) * np.exp(0.05 * rng.normal(size=len(day)))
    y[rng.random(len(day)) < 0.05] = np.nan
    date = (pd.Timestamp("2024-01-01") + pd.to_timedelta(day, "D")).strftime("%Y-%m-%d")
    rows = pd.DataFrame({"date": date, "shop": shop, "offer": offer, "sales": y.round(4)})
    return rows[(rows["shop"] != 4) | (day > 20)].reset_index(drop=True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    shops().to_csv(tmp_path / "shops.csv", index=False)
    return tmp_path / "shops.csv"


def run(file: Path, **more: object) -> omkl.Results:
    settings = {"target": "sales", "series": "shop", "outputs": str(file.parent / "out"), **QUIET}
    return omkl.run(str(file), **(settings | more))


@pytest.mark.parametrize("block", [1000, 7])
@pytest.mark.parametrize("delay", ["date", 0])
def test_a_run_drives_the_learner_of_python(file: Path, delay: object, block: int) -> None:
    settings = {"season": 7, "interval": 0.9}
    found = run(file, **settings, **{"block": block, "stream.series_delay": delay})
    learner = omkl.learner("auto", size="small", series="shop", series_delay=delay, **settings)
    rows = shops()
    said = learner.partial_fit(rows.drop(columns="sales"), rows.sales)
    assert found["algorithm"] == "auto"
    np.testing.assert_allclose(found.predictions.y_hat, said.y_hat, rtol=1e-12)
    np.testing.assert_allclose(found.predictions.low, said.low, rtol=1e-9)
    assert found["series"]["together"] and found["series"]["by_date"] == (delay == "date")
    assert found["seasons"] == [7]


def test_last_and_seasonal_value_of_a_series_are_baselines(file: Path) -> None:
    found, rows = run(file, season=7), shops()
    of_shop = rows.groupby("shop").sales
    last = of_shop.transform(lambda sales: sales.ffill().shift())
    season = of_shop.shift(7).fillna(last)
    scored = rows.sales.notna() & last.notna()
    for name, values in {"last": last, "seasonal": season}.items():
        rmse = float(np.sqrt(np.mean((values - rows.sales)[scored] ** 2)))
        assert found["baselines"][name]["rmse"] == pytest.approx(rmse), name
    assert found["baselines"]["seasonal"]["season"] == 7
    assert "seasonal" not in run(file, season=0)["baselines"]
    assert found["rmse"] < found["baselines"]["seasonal"]["rmse"]


@pytest.mark.parametrize(("horizon", "delay"), [(2, 0), (1, 2)])
def test_a_run_predicts_later_rows_of_each_series(
    file: Path, capsys: pytest.CaptureFixture[str], horizon: int, delay: int
) -> None:
    rows, late = shops().drop(columns="date"), horizon + delay
    rows.to_csv(file, index=False)
    stream = {"stream.horizon": horizon, "stream.delay": delay, "block": 37}
    known = {"columns": {"offer": "number known"}, "model": True}
    found = run(file, season=7, interval=0.9, **stream, **known)
    of_shop = rows.groupby("shop")
    y, offer = of_shop.sales.shift(-horizon), of_shop.offer.shift(-horizon)
    made = omkl.learner("auto", size="small", series="shop", season=7, interval=0.9)
    learner = OnlineLearner(dataclasses.replace(made.settings, late=late))
    before: dict[int, list[tuple[dict[str, float], float]]] = {shop: [] for shop in range(5)}
    expected = []
    for shop, x, target in zip(rows["shop"], offer, y, strict=True):
        row = {"offer": x, "shop": shop}
        expected.append((learner.predict_one(row), *learner.interval))
        before[shop].append((row, target))
        if len(before[shop]) > late:
            learner.learn_one(*before[shop][-late - 1])
    told = found.predictions
    np.testing.assert_array_equal(told.y, y)
    np.testing.assert_array_equal(told[["y_hat", "low", "high"]], expected)
    last = of_shop.sales.transform(lambda sales: sales.ffill().shift(1 + delay))
    first = y.groupby(rows["shop"]).transform(
        lambda one: one.reset_index(drop=True).first_valid_index()
    )
    scored = y.notna() & (of_shop.cumcount() > first + late)
    rmse = float(np.sqrt(np.mean((last - y)[scored] ** 2)))
    assert found["baselines"]["last"]["rmse"] == pytest.approx(rmse)
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((told.y_hat - y)[scored] ** 2)))
    assert found["mse_over"] == f"all rounds but the first {late + 1} of each series"
    assert predict.main([str(found.folder), str(file)]) == 0
    out, err = capsys.readouterr()
    printed = pd.read_csv(io.StringIO(out))
    row = pd.Series(np.arange(1, len(rows) + 1)).groupby(rows["shop"]).shift(-horizon)
    np.testing.assert_array_equal(printed.target_row, row)
    kept = omkl.load_learner(found.folder / "model.npz")
    shifted = pd.DataFrame({"offer": offer, "shop": rows["shop"]})
    np.testing.assert_array_equal(printed.y_hat, learner.predict(shifted))
    np.testing.assert_array_equal(printed.y_hat, kept.predict(shifted))
    assert f"columns of the row {horizon} further down" in err


def test_a_season_that_is_found_is_told_with_its_baseline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    t = np.arange(1_700)
    y = np.sin(2 * np.pi * t / 24) + 0.1 * np.random.default_rng(3).standard_normal(len(t))
    pd.DataFrame({"x": t % 2, "y": y}).to_csv(tmp_path / "wave.csv", index=False)
    typed = ["target=y", "algorithm.size=small", "figures=false", "tracking=none"]
    run_command.main([str(tmp_path / "wave.csv"), *typed, f"outputs={tmp_path / 'out'}"])
    out = capsys.readouterr().out
    assert "24 rows, found" in out and "last season" in out


def test_the_console_says_how_series_are_learned(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = ["target=sales", "series=shop", "figures=false", "tracking=none", "season=7"]
    where = f"outputs={file.parent / 'out'}"
    run_command.main([str(file), *typed, "algorithm.size=small", where])
    out = capsys.readouterr().out
    assert "5 of shop, learned together" in out and "stream.series_delay=0" in out
    run_command.main([str(file), *typed[:-1], "algorithm=ridge", where])
    assert "5 of shop, a learner for each" in capsys.readouterr().out


def test_a_kept_learner_predicts_a_file(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run(file, model=True, season=7)
    coming = pd.DataFrame({"date": ["2024-04-01"] * 2, "offer": [0.0, 1.0], "shop": [3, 9]})
    coming.to_csv(tmp_path / "new.csv", index=False)
    assert predict.main([str(found.folder), str(tmp_path / "new.csv")]) == 0
    out, err = capsys.readouterr()
    learner = omkl.load_learner(found.folder / "model.npz")
    said = [float(line.split(",")[2]) for line in out.splitlines()[1:]]
    np.testing.assert_allclose(said, learner.predict(coming))
    assert out.splitlines()[0].startswith("row,shop,y_hat") and "1 series" in err


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"algorithm": "ridge", "season": 7}, "dataset.season=7 needs auto"),
        ({"share_weights": True}, "dataset.share_weights needs a learner per series"),
        ({"season": 1}, "season=1"),
        ({"stream.lags": 2}, "lags=2 are past targets of all series"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    file: Path, settings: dict[str, object], message: str
) -> None:
    with pytest.raises((RuntimeError, ValueError), match=message):
        omkl.run(str(file), target="sales", series="shop", outputs=file.parent, **settings)
