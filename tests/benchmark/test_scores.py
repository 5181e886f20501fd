"""Scores of predictions, against sums written out."""

import numpy as np
import pytest

from omkl.benchmark import peers, streams
from omkl.benchmark.scores import Diverged, Predictions, Rules, recovery, scored


def said(y_hat, spread=None, probabilities=None):
    y_hat = np.array(y_hat, dtype=float)
    nothing = np.full(len(y_hat), np.nan)
    return Predictions(y_hat, nothing if spread is None else spread, probabilities, 2e-6, 80)


def test_a_regression():
    y, y_hat = np.array([5.0, 1.0, 2.0, 4.0]), [0.0, 1.5, 2.0, 2.0]
    found = scored(y, said(y_hat), Rules(1, 2, 0.5)).scores
    assert found["mse"] == pytest.approx((0.25 + 0 + 4) / 3)
    assert found["mae"] == pytest.approx(2.5 / 3) and found["rmse"] == pytest.approx(
        4.25**0.5 / 3**0.5
    )
    assert found["sliding"] == pytest.approx(2.0)
    assert found["fading"] == pytest.approx((0.25 * 0.25 + 4) / (0.25 + 0.5 + 1))
    assert found["as_run"] == found["rmse"]  # all rounds but the first
    assert found["us_a_row"] == pytest.approx(0.5) and found["bytes"] == 80
    counted = scored(y, said(y_hat), Rules(0, 2, 0.5)).scores
    assert counted["mse"] == pytest.approx(29.25 / 4)
    silent = scored(y, said([np.nan, *y_hat[1:]]), Rules(0, 2, 0.5)).scores
    assert silent["mse"] == found["mse"]  # a first round of which nothing is said


def test_predictions_whose_squared_errors_overflow_have_diverged():
    with pytest.raises(Diverged, match="up to row 3 is not finite"):
        scored(np.zeros(4), said([0.0, 1.0, 1e200, 1.0]), Rules(3, 2, 0.5))


def test_a_long_stream_is_scored_by_bands_of_rounds():
    y = np.zeros(10_500)
    y_hat = np.where(np.arange(len(y)) < 3_000, 2.0, 1.0)
    scores = scored(y, said(y_hat), Rules(0, 2, 0.5)).scores
    bands = {name: score for name, score in scores.items() if name.startswith("mse_from_")}
    assert bands == {"mse_from_1000": 4.0, "mse_from_3000": 1.0}  # no band that is not whole


def test_a_spread():
    y, spread = np.zeros(3), np.array([np.nan, 1.0, 2.0])
    found = scored(y, said([0.0, 0.0, 10.0], spread), Rules(0, 2, 0.5)).scores
    half = 1.6448536269514722
    assert found["coverage_90"] == 0.5
    wide = 2 * half + 4 * half + 20 * (10 - 2 * half)
    assert found["interval_score_90"] == pytest.approx(wide / 2)
    log_losses = 0.5 * np.log(2 * np.pi), 12.5 + 0.5 * np.log(2 * np.pi) + np.log(2.0)
    assert found["log_loss"] == pytest.approx(np.mean(log_losses))


def test_a_classification():
    y, p = np.array([0.0, 1.0, 1.0]), np.array([[0.5, 0.5], [0.0, 1.0], [1.0, 0.0]])
    found = scored(y, said([np.nan, 1.0, 0.0], None, p), Rules(1, 2, 0.5), classes=True).scores
    assert found["error_rate"] == 0.5 and found["as_run"] == pytest.approx(2 / 3)
    assert found["log_loss"] == pytest.approx(-np.log(1e-6) / 2)


def test_dynamic_regret_is_above_what_would_have_been_best():
    y, truth = np.array([1.0, 3.0, 1.0]), np.array([1.0, 2.0, 1.0])
    found = scored(y, said([0.0, 0.0, 1.0]), Rules(0, 2, 0.5), truth, ()).scores
    assert found["dynamic_regret"] == pytest.approx((1 + (9 - 1) + 0) / 3)
    assert "recovery" not in found


def test_recovery_is_the_first_window_that_is_almost_as_good_as_before():
    losses = np.array([1.0] * 16 + [9.0] * 5 + [1.0] * 10)
    assert recovery(losses, [17], window=4) == 5 + 4
    assert recovery(losses * np.where(np.arange(31) < 16, 1.0, 1.4), [17], window=4) == 5 + 4
    assert recovery(losses, [17], window=20) == 15  # no such window before the end
    never = np.array([1.0] * 16 + [9.0] * 7)
    assert recovery(never, [17], window=4) == 7
    assert recovery(np.ones(20), [17], window=4) == 4
    two = np.concatenate([losses, [9.0] * 2, [1.0] * 10])
    # Before the second change the mean is 3.5, so that a window of 5 will do.
    assert recovery(two, [17, 32], window=4) == (9 + 4) / 2


def test_after_a_fault_500_rounds_do_not_count():
    """Errors of 1 before it, 9 in it and for 400 rounds after, and then 2."""
    losses = np.repeat([7.0, 1.0, 9.0, 2.0], [200, 1000, 430, 400])
    y, rules = np.sqrt(losses), Rules(100, 50, 0.9)
    scores = [scored(y, said(0 * y), rules, fault=(1201, last)).scores for last in (1230, len(y))]
    assert scores[0]["after_fault"] == pytest.approx(2.0)
    assert scores[1]["after_fault"] == pytest.approx(2.0)  # it stays: 500 rounds after its begin
    assert "after_fault" not in scored(y, said(0 * y), rules, fault=(1201, 1600)).scores


def test_curves_end_in_the_scores():
    rng = np.random.default_rng(0)
    y, y_hat = rng.standard_normal((2, 1000))
    found = scored(y, said(y_hat), Rules(100, 50, 0.9))
    losses = (y - y_hat) ** 2
    t = found.curves["t"].astype(int)
    assert t[0] == 101 and t[-1] == 1000 and len(t) == 300
    for k in (0, 7, 150, 299):
        assert found.curves["running"][k] == pytest.approx(losses[100 : t[k]].mean())
        assert found.curves["sliding"][k] == pytest.approx(
            losses[max(100, t[k] - 50) : t[k]].mean()
        )
        weights = 0.9 ** np.arange(t[k] - 101, -1, -1)
        assert found.curves["fading"][k] == pytest.approx(
            weights @ losses[100 : t[k]] / weights.sum()
        )


@pytest.mark.parametrize("name", streams.REGRESSION | streams.CLASSIFICATION)
def test_generators_know_their_truth(name):
    found = streams.made(name, 2000, seed=3)
    again = streams.made(name, 2000, seed=3)
    assert all(np.array_equal(a, b) for a, b in zip(found, again, strict=True))
    assert len(found.X) == len(found.y) == len(found.truth) == 2000
    if name in streams.CLASSIFICATION:
        assert 0.03 < np.mean(found.y != found.truth) < 0.13
    else:
        assert np.var(found.y - found.truth) < 0.2 * np.var(found.y)
    assert all(1 < change <= 2000 for change in found.change_rounds)
    calm = ("robot_arm", "random_tree", "bells", "thresholds", "sensors")
    if name not in ("turning", "plane", "friedman_gradual", *calm):
        assert found.change_rounds


@pytest.mark.parametrize("n_classes", [0, 2])
def test_nearest_neighbours_draw_from_their_seed(n_classes):
    task = "classification" if n_classes else "regression"
    *_, neighbours = peers.peer("river_knn").make(task, n_classes, 7).steps.values()
    assert neighbours.engine.seed == 7


ONE_TASK = ("river_arf_mean", "sklearn_rff_bayes", "vw_cubic", "vw_nn")


@pytest.mark.slow(2)
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_peers_say_numbers_and_probabilities(task):
    rng = np.random.default_rng(0)
    for name, one in peers.PEERS.items():
        if one.library == "capymoa":  # needs Java: test_peer_models.py
            continue
        if peers.missing(name):  # what make benchmark installs besides
            assert name in ("vw_cubic", "vw_nn")
            continue
        n_classes = 3 if task == "classification" else 0
        if task == "classification" and name in ONE_TASK:
            with pytest.raises(ValueError, match="it has no classification"):
                one.make(task, n_classes, 1)
            continue
        model = one.make(task, n_classes, 1)
        for t in range(8):
            x = dict(zip("ab", rng.standard_normal(2).tolist(), strict=True))
            y_hat, p = peers.prediction_of(model, x, n_classes)
            assert t == 0 or np.isfinite(y_hat), name
            if len(p) and not np.isnan(y_hat):
                assert y_hat == np.argmax(p) and sum(p) == pytest.approx(1.0), name
            model.learn_one(x, t % 3)
