"""Labels in units of those that are known: predictions come back, and nothing looks ahead."""

import math

import numpy as np
import pandas as pd
import pytest

from omkl import algorithms
from omkl.datasets import open_stream
from omkl.experiment import run as runner
from omkl.online import settings as learner_settings
from omkl.online.learner import OnlineLearner
from omkl.utils import conf
from tests.compositions import compose

TINY = (
    "kernels=gaussian17", "D=4", "seeds=1", "tracking=none", "figures=false", "dataset=file",
    "dataset.target=y", "algorithm=gf",
)  # fmt: skip
STREAM = {"limit": None, "scaling": "columns", "order": "file"}


@pytest.fixture
def file(tmp_path):
    """Rows whose target is near 5,000, some of them without one."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    y = 5000 + 200 * np.sin(x[:, 0]) + rng.normal(size=300)
    y[[0, 7, 8, 299]] = np.nan
    path = tmp_path / "mine.csv"
    pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y}).to_csv(path, index=False)
    return path


def start(file, *overrides):
    places = (f"dataset.path={file}", f"outputs={file.parent / 'out'}")
    outcome = runner.run(compose([*TINY, *places, *overrides]))
    assert outcome.status in ("complete", "reused"), outcome.run.result
    return outcome


def learner(name, stream):
    d, lags = stream.n_inputs, stream.n_lags
    made = learner_settings.read(
        name, inputs=d - lags, kernels="gaussian17", params={}, D=4, seed=0,
        scaling=stream.scaling, lags=lags, horizon=300,
    )  # fmt: skip
    return OnlineLearner(made), made.specification().learner(d, 0)


@pytest.mark.parametrize("lags", [0, 2])
def test_row_by_row_with_labels_before_is_what_a_block_is(file, lags):
    """By hand: mean and deviation of the labels before, the prediction mapped back with them."""
    cfg = conf.entry("dataset", "file") | {"path": str(file), "target": "y"}
    stream = open_stream(cfg, STREAM | {"lags": lags})
    block = next(stream.rows(1000))
    first, second = learner("gf", stream)
    trace = first.learn_rows(block.x, block.y)
    known = []
    for t, (x, y) in enumerate(zip(block.x, block.y, strict=True)):
        centre, unit = (np.mean(known), np.std(known)) if known else (0.0, 0.0)
        past = [(label - centre) / unit if unit else 0.0 for label in known[::-1][:lags]]
        np.testing.assert_allclose(x[2:], np.clip(past + [0.0] * (lags - len(past)), -4, 4))
        f = second.predict(x[None, :])[0]
        assert trace.y_hat[t] == pytest.approx(centre + unit * f, rel=1e-9, abs=1e-6)
        assert trace.asked[t] == (not math.isnan(y))
        if math.isnan(y):
            continue
        most = math.sqrt(len(known))
        told = (y - centre) / unit if unit else math.copysign(most, y - centre)
        second.partial_fit(x[None, :], np.array([min(most, max(-most, told))]))
        known.append(y)


def test_errors_are_in_units_of_the_target_and_predictions_are_kept(file):
    run = start(file).run
    assert (run.result["n_rounds"], run.result["rows_without_target"]) == (296, 4)
    frame = pd.read_parquet(run.folder / "predictions.parquet")
    assert list(frame.columns) == ["row", "y", "y_hat", "asked"]
    assert frame["row"].tolist() == list(range(1, 301))
    given = pd.read_csv(file)["y"]
    pd.testing.assert_series_equal(frame["y"], given)
    assert frame["asked"].tolist() == given.notna().tolist()
    assert frame["y_hat"].notna().all(), "rows without a target are predicted"
    squared = (frame["y"] - frame["y_hat"]) ** 2
    first = squared.first_valid_index()
    assert run.result["mse"][0] == pytest.approx(squared.drop(first).mean())
    assert run.result["mse_over"] == "all rounds but the first"
    assert run.curves["t"].tolist() == list(range(2, given.notna().sum() + 1))
    assert frame["y_hat"][0] == 0.0, "nothing is known yet"
    assert squared[50:].mean() < 2 * given.var()


@pytest.mark.parametrize("block", [7, 1000])
def test_spreads_are_in_units_of_the_target(file, block):
    """By hand: the deviation of the labels before, and none while that is 0."""
    run = start(file, "algorithm=ie_gp", f"block={block}", "force=true").run
    frame = pd.read_parquet(run.folder / "predictions.parquet")
    assert frame["spread"].isna().tolist() == [True] * 3 + [False] * 297
    assert 1.0 < frame["spread"][100:].median() < 250.0
    scored = frame[frame["spread"].notna() & frame["y"].notna()]
    inside = (scored["y"] - scored["y_hat"]).abs() <= 1.6448536269514722 * scored["spread"]
    assert run.result["spread"]["coverage_90"] == pytest.approx(inside.mean())
    assert run.result["spread"]["width_90"] == pytest.approx(
        2 * 1.6448536269514722 * scored["spread"].mean()
    )


@pytest.mark.parametrize("name", ["auto", "mean", "last"])
def test_equivariant_learners_are_told_labels_as_they_are(file, name):
    cfg = conf.entry("dataset", "file") | {"path": str(file), "target": "y"}
    stream = open_stream(cfg, STREAM)
    block = next(stream.rows(1000))
    scaled, alone = learner(name, stream)
    trace = scaled.learn_rows(block.x, block.y)
    there = ~np.isnan(block.y)
    said = alone.partial_fit(block.x[there], block.y[there]).y_hat
    np.testing.assert_array_equal(trace.y_hat[there], said)


def test_baselines_are_told_labels_as_the_learner_is(file):
    """Of a file far from 0 ridge has the centre of the labels; blanks count for none."""
    beside = start(file, "stream.lags=1").run.result["baselines"]
    for name in ("mean", "last", "ridge"):
        alone = start(file, f"algorithm={name}", "stream.lags=1").run.result
        assert beside[name]["mse"] == alone["mse_mean"]
        assert (beside[name]["rmse"], beside[name]["mae"]) == (alone["rmse"], alone["mae"])


def test_predictions_can_be_switched(file):
    outcome = start(file, "predictions=false")
    path = outcome.run.folder / "predictions.parquet"
    assert not path.exists()
    with_them = start(file, "predictions=true")
    assert (with_them.run.folder / "predictions.parquet").exists()
    assert with_them.run.result["mse"] == outcome.run.result["mse"]
    assert start(file).status == "reused", "of one seed predictions are kept by default"
    assert not (start(file, "seeds=2").run.folder / "predictions.parquet").exists()
    both = pd.read_parquet(
        start(file, "seeds=2", "predictions=true").run.folder / "predictions.parquet"
    )
    assert both.groupby("seed").size().tolist() == [300, 300]
    start(file, "seeds=2", "predictions=false", "force=true")
    assert not (start(file, "seeds=2").run.folder / "predictions.parquet").exists()


def test_a_learner_that_does_not_ask_has_units_and_lags_of_what_it_asked_for(file):
    """An unasked label must change nothing: not a unit, not a lag, not a later prediction."""
    cfg = conf.entry("dataset", "file") | {"path": str(file), "target": "y"}
    stream = open_stream(cfg, STREAM | {"lags": 2})
    block = next(stream.rows(1000))
    first, _ = learner("amkl_random", stream)
    assert first.algorithm.queries
    trace = first.learn_rows(block.x, block.y)
    unasked = ~trace.asked & ~np.isnan(block.y)
    assert 10 < unasked.sum() < 290
    other = np.where(unasked, 1e6, block.y)
    x = block.x.copy()
    x[:, 2:] = np.nan  # what a stream that knows all labels says of them
    found = learner("amkl_random", stream)[0].learn_rows(x, other)
    np.testing.assert_array_equal(found.y_hat, trace.y_hat)
    np.testing.assert_array_equal(found.asked, trace.asked)


def test_algorithms_say_whether_they_ask_always():
    names = {n for n in algorithms.names() if algorithms.load(n).queries}
    assert names == {"amkl", "amkl_aks", "amkl_random"}


@pytest.mark.parametrize("comparator", ["ridge_features", "kernel_ridge"])
def test_regret_does_not_depend_on_the_offset_of_the_target(tmp_path, comparator):
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=80), rng.normal(size=80)
    found = []
    for offset in (0.0, 101_000.0):
        path = tmp_path / "own.csv"
        pd.DataFrame({"x": x, "y": np.sin(x) + 0.1 * noise + offset}).to_csv(path, index=False)
        typed = ["dataset=file", f"dataset.path={path}", "dataset.target=y", "algorithm=raker"]
        typed.append(f"regret.{comparator}=true")
        quick = ["D=3", "seeds=1", "figures=false", "tracking=none", f"outputs={tmp_path}"]
        entry = runner.run(compose([*typed, *quick])).run.result["regret"][comparator]
        assert entry["label"].endswith("of the target less its mean")
        found.append(entry["mean"])
    assert found[1] == pytest.approx(found[0], rel=1e-6) and found[0] > 0
