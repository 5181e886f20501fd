"""Scores of predictions with a spread, and where they are found in a run."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from omkl.config.settings import complete
from omkl.core.conformal import Conformal, IntervalSettings
from omkl.experiment import run as runner
from omkl.experiment.metrics import HALF_90, ScoredIntervals, Spreads, spread_scores
from tests.compositions import compose


def test_scores_are_those_of_the_normal_distribution():
    rng = np.random.default_rng(0)
    error, s = rng.standard_normal((2, 500)), rng.uniform(0.3, 2.0, (2, 500))
    found = spread_scores(error**2, s)
    np.testing.assert_allclose(found["log_loss"], -norm.logpdf(error, scale=s), rtol=1e-12)
    assert norm.ppf(0.95) == pytest.approx(HALF_90, rel=1e-15)
    np.testing.assert_array_equal(found["coverage_90"], np.abs(error) <= norm.ppf(0.95) * s)
    low, high = norm.interval(0.9, 0.0, s)
    np.testing.assert_allclose(found["width_90"], high - low, rtol=1e-12)
    outside = np.maximum(low - error, 0.0) + np.maximum(error - high, 0.0)  # Winkler
    np.testing.assert_allclose(found["interval_score_90"], high - low + 2 / 0.1 * outside)


@pytest.mark.parametrize("name", ["auto", "ie_gp"])
def test_equal_targets_at_the_start_leave_the_scores_finite(tmp_path, name):
    """Warnings are errors in tests, those of a division by a spread of 0 among them."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=200)
    rain = np.where(np.arange(200) < 4, 0.0, np.maximum(a, 0.0))
    pd.DataFrame({"a": a, "rain": rain}).to_csv(tmp_path / "rain.csv", index=False)
    own = ["dataset=file", f"dataset.path={tmp_path}/rain.csv", "dataset.target=rain", *TINY[:4]]
    outcome = runner.run(compose([f"algorithm={name}", f"outputs={tmp_path}/out", *own]))
    assert np.isfinite(outcome.run.result["spread"]["log_loss"])


def test_coverage_in_windows():
    """Ten windows of four rounds; the intervals of the fifth miss their targets."""
    low = np.where(np.arange(40) // 4 == 4, 0.5, -1.0)[None, :]
    intervals = ScoredIntervals(1, IntervalSettings(0.9, None))
    intervals.add_block(np.zeros(40), low, np.ones((1, 40)), np.ones(40, dtype=bool))
    windows = intervals.result()["windows"]
    assert windows == {"until": [*range(4, 41, 4)], "coverage": [1.0] * 4 + [0.0] + [1.0] * 5}


def test_rounds_whose_spread_is_not_known_are_not_scored():
    rng = np.random.default_rng(0)
    errors, s = rng.standard_normal((2, 9)) ** 2, rng.uniform(0.3, 2.0, (2, 9))
    late, whole = Spreads(2), Spreads(2)
    whole.add_block(errors, s)
    late.add_block(np.full((2, 2), 1e9), np.full((2, 2), np.nan))
    late.add_block(errors, s)
    assert late.means() == whole.means()


@pytest.mark.parametrize(("name", "has"), [("ie_gp", True), ("raker", False)])
def test_a_run_keeps_them(name, has, tmp_path):
    config = compose([
        f"algorithm={name}", "dataset.rows=300", "kernels=gaussian17", "D=8", "seeds=2",
        "tracking=none", "figures=false", f"outputs={tmp_path}",
    ])  # fmt: skip
    outcome = runner.run(config)
    assert outcome.status == "complete", outcome.run.result
    assert ("spread" in outcome.run.result) == has
    if has:
        assert 0.5 < outcome.run.result["spread"]["coverage_90"] <= 1.0


LEVEL = 0.8
FAR = [60, 110, 150, 170, 180]  # rows whose input is far out
TINY = ("kernels=gaussian17", "D=4", "tracking=none", "figures=false", f"interval={LEVEL}")


def run_on(tmp_path, *overrides):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200), "y": 50 + rng.normal(size=200)})
    frame.loc[[3, 90], "y"] = np.nan
    frame.loc[FAR, ["a", "y"]] += [30.0, 5.0]
    frame.to_csv(tmp_path / "own.csv", index=False)
    own = ["dataset=file", f"dataset.path={tmp_path / 'own.csv'}", "dataset.target=y", "seeds=1"]
    outcome = runner.run(compose([*TINY, *own, f"outputs={tmp_path}", *overrides]))
    assert outcome.status == "complete", outcome.run.result
    return outcome.run


@pytest.mark.parametrize("name", ["ie_gp", "gf", "amkl_aks"])
def test_intervals_of_a_run_follow_from_its_predictions(name, tmp_path):
    """Those of the labels that it asked for; the first one, of which nothing was known, left out.

    They are beside the predictions, and scored on the same rounds as the errors.
    """
    run = run_on(tmp_path, f"algorithm={name}", "block=64")
    kept = pd.read_parquet(run.folder / "predictions.parquet")
    y, y_hat = kept["y"].to_numpy(copy=True), kept["y_hat"].to_numpy()
    told = np.where(kept["asked"], y, np.nan)
    told[0] = np.nan
    half = Conformal(LEVEL).follow(y_hat, told, np.isin(np.arange(200), FAR))
    assert (half > 1.1 * Conformal(LEVEL).follow(y_hat, told)).any()
    np.testing.assert_array_equal(kept["high"], y_hat + half)
    np.testing.assert_array_equal(kept["low"], y_hat - half)
    found = run.result["interval"]
    inside = (np.abs(y - y_hat) <= half)[~np.isnan(y) & ~np.isnan(half)]
    assert found["coverage"] == pytest.approx(inside.mean(), abs=1e-12)
    assert 0.6 < found["coverage"] < 0.95 and found["width"] < found["interval_score"]
    assert run.curves["recent_low"].tolist() == kept["low"][~np.isnan(y)][-120:].tolist()


@pytest.mark.parametrize(
    ("overrides", "match"),
    [
        (["interval=90"], r"interval=90 is not a number above 0, and below 1"),
        (["interval=a"], r"interval='a' is not a number"),
        (["interval=0.9", "interval_rate=2"], r"interval_rate=2 is not a number above 0, and"),
        (["interval_rate=0.1"], r"interval_rate=0.1 needs an interval: add interval=0.9"),
        (["interval=0.9", "dataset=mushrooms", "algorithm=omkc_da_o"], "this is a classification"),
        (["interval=0.9", "federation=iid", "algorithm=pof_mkl"], "this is a federation"),
    ],
)
def test_intervals_that_cannot_be(overrides, match):
    with pytest.raises(ValueError, match=match):
        complete(compose(overrides))
