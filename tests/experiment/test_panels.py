"""Runs of many series in one stream with a learner per series."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import omkl
from omkl.commands import predict
from tests.compositions import compose

QUIET = {"figures": False, "tracking": "none"}


def shops(n: int = 400) -> pd.DataFrame:
    """Shops that open one after another and differ in level; some targets are missing."""
    rng = np.random.default_rng(0)
    shop = np.minimum(rng.integers(6, size=n), np.arange(n) // 20)
    price, town = rng.normal(size=n).round(3), rng.choice(["Oslo", "Rome"], size=n)
    sales = 20.0 * shop + (1 + shop) * np.sin(price) + 2.0 * (town == "Rome")
    sales[rng.random(n) < 0.1] = np.nan
    return pd.DataFrame({"shop": shop, "price": price, "town": town, "sales": sales.round(3)})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    shops().to_csv(tmp_path / "shops.csv", index=False)
    return tmp_path / "shops.csv"


def run(file: Path, *what: str, **more: object) -> omkl.Results:
    """Run Raker, or the learner in ``what``."""
    settings = {"target": "sales", "series": "shop", "outputs": str(file.parent / "out"), **QUIET}
    return omkl.run(*(what or ("raker",)), str(file), **(settings | more))


def rmse(error: pd.Series) -> float:
    return float(np.sqrt(np.mean(np.square(error))))


@pytest.mark.parametrize("block", [1000, 7])
def test_a_run_drives_the_panel_that_users_have(file: Path, block: int) -> None:
    """Its errors are those of the panel, and each series is compared with its own last target."""
    rows = shops()
    found = run(file, block=block, seed=3, stream={"lags": 2}, model=True, interval=0.9)
    panel = omkl.panel("raker", series="shop", seed=3, lags=2, interval=0.9)
    inputs = rows[["shop", "price", "town"]]
    said = panel.partial_fit(inputs, rows.sales)
    y_hat = said.y_hat
    np.testing.assert_array_equal(found.predictions.y_hat, y_hat)
    np.testing.assert_array_equal(found.predictions[["low", "high"]].T, [said.low, said.high])
    assert 0.8 < found["interval"]["coverage"] < 0.97
    assert found.predictions.series.tolist() == rows.shop.tolist()

    known = rows.assign(y_hat=y_hat).dropna(subset="sales")
    known["last"] = known.groupby("shop").sales.shift()
    scored = known[known.groupby("shop").cumcount() > 0]
    assert found["mse_over"] == "all rounds but the first of each series"
    assert found["rmse"] == pytest.approx(rmse(scored.y_hat - scored.sales))
    assert found["baselines"]["last"]["rmse"] == pytest.approx(rmse(scored["last"] - scored.sales))
    of_each = {
        shop: (len(own), rmse(own.y_hat - own.sales), rmse(own["last"] - own.sales))
        for shop, own in scored.groupby("shop")
    }
    in_order = sorted(of_each, key=lambda shop: of_each[shop][1])
    assert found["regret"] == {} and found["max_norm"] is None
    series = found["series"]
    assert (series["column"], series["n"], series["ranked"]) == ("shop", 6, 6)
    assert [entry["series"] for entry in series["best"]] == in_order[:5]
    assert [entry["series"] for entry in series["worst"]] == in_order[::-1][:5]
    for entry in series["best"]:
        said = entry["rows"], entry["rmse"], entry["last"]
        assert said == pytest.approx(of_each[entry["series"]])
    assert series["better_than"]["last"] == sum(own < last for _, own, last in of_each.values())

    kept = omkl.load_panel(found.folder / "model.npz")
    assert kept.names == panel.names
    np.testing.assert_array_equal(kept.predict(inputs[:20]), panel.predict(inputs[:20]))


def test_kernels_of_a_learner_per_series_are_as_the_panel_has_them(file: Path) -> None:
    found = run(file)
    own = inspect.signature(omkl.panel).parameters
    assert [found[name] for name in ("kernels", "D")] == [own[n].default for n in ("kernels", "D")]
    assert not found["series"]["together"] and "seasons" not in found
    named = compose(["dataset=file", f"dataset.path={file}", "kernels=gauss5"]).kernels
    assert [part["bandwidth"] for part in named["parts"]] == [[0.1, 0.3, 1, 3, 10]]
    ridge = run(file, "ridge")
    assert ridge["rmse"] == pytest.approx(ridge["baselines"]["ridge"]["rmse"])


@pytest.mark.parametrize(
    "options", [{"max_series": 2}, {"share_weights": True, "share_scaling": True}]
)
def test_what_series_share_and_how_many_are_kept_is_set(file: Path, options: dict) -> None:
    rows, found = shops(), run(file, model=True, **options)
    panel = omkl.panel("raker", series="shop", lags=0, **options)
    y_hat = panel.partial_fit(rows[["shop", "price", "town"]], rows.sales).y_hat
    np.testing.assert_array_equal(found.predictions.y_hat, y_hat)
    kept = omkl.load_panel(found.folder / "model.npz")
    assert kept.names == panel.names and all(getattr(kept, k) == v for k, v in options.items())
    assert (found["rmse"] != run(file)["rmse"]) and found.folder != run(file).folder
    with pytest.raises((RuntimeError, ValueError), match=f"dataset.{next(iter(options))} is of s"):
        run(file, series=None, **options)


def test_a_kept_panel_predicts_a_file(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run(file, model=True, interval=0.9)
    coming = shops()[["town", "price", "shop"]][:3].assign(shop=[0, 5, 77])
    coming.to_csv(tmp_path / "new.csv", index=False)
    assert predict.main([str(found.folder), str(tmp_path / "new.csv")]) == 0
    out, err = capsys.readouterr()
    header, *lines = out.splitlines()
    assert header == "row,shop,y_hat,low,high"
    panel = omkl.load_panel(found.folder / "model.npz")
    said = panel.predict(coming), *panel.predict_interval(coming).T
    expected = _plain(zip([1, 2, 3], [0, 5, 77], *said, strict=True))
    assert lines == [",".join(map(repr, row)) for row in expected]
    assert lines[2].endswith(",nan,nan"), "of a series that is new"
    assert "1 series that the model has not: 77" in err


def _plain(rows: object) -> list[tuple]:
    return [(row, shop, *map(float, said)) for row, shop, *said in rows]  # type: ignore[attr-defined]


def test_the_key_may_be_an_input_as_well(file: Path) -> None:
    assert run(file)["stream"]["inputs"] == ["price", "town=Oslo", "town=Rome"]
    assert run(file, inputs=["shop", "price"])["stream"]["inputs"] == ["shop", "price"]


def test_keys_of_a_text_file_stay_texts_where_one_is_no_whole_number(file: Path) -> None:
    rows = shops()
    rows.assign(shop=rows.shop.map("{:02d}".format)).to_csv(file, index=False)
    found = run(file, model=True)
    assert set(omkl.load_panel(found.folder / "model.npz").names) == {f"0{k}" for k in range(6)}
    assert found.predictions.series.tolist() == rows.shop.map("{:02d}".format).tolist()


def test_a_row_without_a_key_is_an_error_or_dropped(file: Path) -> None:
    rows = shops()
    rows.shop = rows.shop.astype(object).where(rows.index != 30, None)
    rows.to_csv(file, index=False)
    with pytest.raises(RuntimeError, match=r"row 31, column 'shop' has no value, so the series"):
        run(file)
    found = run(file, missing="drop")
    assert found["n_rounds"] == rows.drop(30).sales.notna().sum()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"algorithm": "amkl"}, "amkl requests some of the targets"),
        ({"task": "classification", "algorithm": "auto_classifier"}, "a panel is for regression"),
        ({"stream": {"order": "shuffled"}}, "set stream.order=file"),
        ({"stream": {"scaling": "whole"}}, "set stream.scaling=columns or none"),
        ({"stream": {"horizon": 2}}, "learns each target at once: leave stream.horizon"),
        ({"regret": {"ridge_features": True}}, "names several: leave one of the two out"),
        ({"federation": "iid", "clients": 2, "algorithm": "pof_mkl"}, "federation share a learner"),
        ({"series": "sales"}, "dataset.series and dataset.target are both 'sales'"),
        ({"series": "shpo"}, r"dataset\.series: there is no column 'shpo'. Did you mean 'shop'"),
    ],
)
def test_what_a_panel_cannot_do_is_said(file: Path, settings: dict, message: str) -> None:
    chosen = settings.pop("algorithm", "raker")
    with pytest.raises((RuntimeError, ValueError), match=message):
        run(file, chosen, **settings)


def test_a_data_set_of_the_catalogue_has_no_series(tmp_path: Path) -> None:
    with pytest.raises((RuntimeError, ValueError), match=r"dataset\.series is for files of yours"):
        omkl.run("ridge", "+dataset.series=1", "airfoil", outputs=str(tmp_path), **QUIET)
