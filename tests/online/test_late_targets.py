"""Targets that come late: whichever way they come, the numbers are the same to the bit."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from river import evaluate, metrics
from river.stream import simulate_qa

import omkl
from omkl.river import OnlineMKLClassifier, OnlineMKLRegressor

SMALL = {"kernels": "gaussian17", "D": 4}
DELAY = 4  # rows that are predicted before the target of a row is learned, besides the next one
N = 150


@pytest.fixture
def frame(tmp_path, monkeypatch):
    """Rows of which many are equal, and a target that leans on the targets before it."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"a": rng.integers(0, 3, N) + 0.5, "b": rng.normal(size=N).round(1)})
    frame.loc[:8, "b"] = 0.1
    frame.loc[60:66, "b"] = 80.0  # far out
    frame["y"] = 50.0 + 2.0 * frame["a"] + np.cumsum(rng.normal(size=N))
    return frame


def rows_of(frame):
    return list(zip(frame[["a", "b"]].to_dict("records"), frame["y"].tolist(), strict=True))


def by_hand(learner, rows, learn):
    """Predictions and the ends of their intervals (n, 3); ``learn(learner, x, y)`` comes late."""
    said = []
    for t, (x, _) in enumerate(rows):
        said.append([learner.predict_one(x), *learner.interval])
        if t >= DELAY:
            learner = learn(learner, *rows[t - DELAY]) or learner
    return np.array(said)


def by_saved_models(learner, x, y):
    if learner.n_rows % 10 == 0:
        learner.save("model.npz")
        learner = omkl.load_learner("model.npz")
    learner.learn_one(x, y)
    return learner


def by_river(model, rows):
    """In River's order of questions and answers: with a delay of 5 it learns as by 4 here."""
    said = []
    for _, x, y in simulate_qa(rows, None, DELAY + 1):
        if y is None:
            interval = model.predict_one(x, with_interval=True)
            said.append([interval.lower, interval.upper])
        else:
            model.learn_one(x, y)
    return np.array(said)


@pytest.mark.parametrize(
    ("name", "lags", "horizon"),
    [
        ("raker", 0, 0), ("raker", 2, 0), ("auto", 0, 0), ("auto", 2, 3), ("gf", 1, 0),
        ("omkr", 0, 0), ("omkr", 0, 4),
    ],
)  # fmt: skip
def test_all_ways_of_being_late_agree(frame, name, lags, horizon):
    frame.loc[[20, 90] if horizon else [], "y"] = np.nan
    y = frame["y"].shift(-horizon).to_numpy()
    rows = list(zip(frame[["a", "b"]].to_dict("records"), y.tolist(), strict=True))
    given = {"lags": lags, "interval": 0.9, **SMALL}
    schedules = {"horizon": N} if name == "raker" else {}
    new = lambda: omkl.learner(name, inputs=["a", "b"], **given, **schedules)  # noqa: E731
    expected = by_hand(new(), rows, lambda learner, x, y: learner.learn_one(x, y))
    run = omkl.run(
        name, frame, target="y", interval=0.9, seeds=1,
        stream={"delay": DELAY - horizon, "horizon": horizon, "lags": lags}, **SMALL,
    )  # fmt: skip
    np.testing.assert_array_equal(run.predictions[["y_hat", "low", "high"]], expected)
    np.testing.assert_array_equal(run.predictions["y"], y)
    errors = (expected[:, 0] - y)[DELAY + 1 :]
    assert run["rmse"] == pytest.approx(np.sqrt(np.nanmean(errors**2)), rel=1e-12)
    assert run["mse_over"] == f"all rounds but the first {DELAY + 1}"
    later = by_hand(new(), rows, lambda learner, x, y: learner.partial_fit([x], [y]) and None)
    np.testing.assert_array_equal(later, expected)
    np.testing.assert_array_equal(by_hand(new(), rows, by_saved_models), expected)
    if horizon:
        return
    river = OnlineMKLRegressor(name, **given, **schedules)
    found = by_river(river.clone(), rows)
    known = ~np.isnan(expected[:, 1])
    np.testing.assert_array_equal(found[known], expected[known, 1:])
    scored = evaluate.progressive_val_score(rows, river.clone(), metrics.RMSE(), delay=DELAY + 1)
    assert scored.get() == pytest.approx(math.sqrt(np.mean((expected[:, 0] - y) ** 2)), rel=1e-12)


def test_classes_agree_too(frame):
    frame["y"] = np.where(frame["a"] + frame["b"] > 1.5, "up", "down")
    rows = rows_of(frame)
    new = lambda: omkl.learner("auto", inputs=["a", "b"], classes=["down", "up"])  # noqa: E731
    learner, later, said = new(), new(), []
    for t, (x, _) in enumerate(rows):
        said.append(learner.predict_one(x))
        assert later.predict_one(x) == said[-1]
        if t >= DELAY:
            learner.learn_one(*rows[t - DELAY])
            later.partial_fit(*([part] for part in rows[t - DELAY]))
    stream = {"delay": DELAY}
    run = omkl.run(
        "auto", frame, target="y", task="classification", stream=stream, seeds=1, **SMALL
    )
    mistakes = np.array(said)[DELAY + 1 :] != frame["y"][DELAY + 1 :]
    assert run["mistakes"] == [DELAY + 1 + int(np.sum(mistakes))], "to say nothing is a mistake"
    score = evaluate.progressive_val_score(
        rows, OnlineMKLClassifier(), metrics.Accuracy(), delay=DELAY + 1
    )
    assert score.get() > 0.7


@pytest.mark.parametrize("outputs", [None, 2])
def test_targets_come_in_any_order_and_predictions_are_saved(tmp_path, frame, outputs):
    X, y = frame[["a", "b"]].to_numpy() + np.arange(N)[:, None] / N, frame["y"].to_numpy()
    y = y if outputs is None else np.stack([y, -y], axis=1)
    learner, late = (
        omkl.learner("auto", inputs=2, interval=0.9, outputs=outputs, max_pending=50)
        for _ in range(2)
    )
    rng = np.random.default_rng(0)
    for start in range(0, N, 30):
        for t in range(start, start + 30):
            np.testing.assert_array_equal(late.predict_one(X[t]), learner.predict_one(X[t]))
        come = start + rng.permutation(30)[:-5]
        for t in come:
            learner.learn_one(X[t], y[t])
        late.save(tmp_path / "model.npz")
        late = omkl.load_learner(tmp_path / "model.npz")
        late.partial_fit(X[come], y[come])
    assert late.settings.max_pending == 50 and late.n_rows == learner.n_rows == 5 * 25
    np.testing.assert_array_equal(late.predict_interval(X), learner.predict_interval(X))


@pytest.mark.parametrize("name", ["gf", "auto", "amkl_random"])
def test_predictions_change_nothing(name):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 2))
    given = {"inputs": 2, "horizon": 80, "interval": 0.9, **SMALL}
    quiet, looked = (omkl.learner(name, **given) for _ in range(2))
    expected = quiet.partial_fit(X, X[:, 0])
    for t, x in enumerate(X):
        for other in (X[t] + 1.0, X[t], X[0] - 1.0, X[t]):
            said = looked.predict_one(other)
        assert said == expected.y_hat[t]
        assert looked.asks == expected.asked[t]
        np.testing.assert_array_equal(looked.interval, (expected.low[t], expected.high[t]))
        looked.learn_one(x, x[0])
    np.testing.assert_array_equal(looked.predict_interval(X), quiet.predict_interval(X))


def test_the_oldest_of_many_predictions_is_forgotten():
    """Its row is learned like one that was not predicted."""
    X, y = np.arange(20.0)[:, None], np.sin(np.arange(20.0))
    learner, other = (omkl.learner("auto", inputs=1, max_pending=k) for k in (2, 5))
    for one in (learner, other):
        one.partial_fit(X[:10], y[:10])
        for x in X[10:13]:
            one.predict_one(x)
        one.learn_one(X[12], y[12])
    alone = omkl.learner("auto", inputs=1)
    alone.partial_fit(np.append(X[:10], X[12:13], axis=0), np.append(y[:10], y[12]))
    for one in (learner, other, alone):
        one.learn_one(X[10], y[10])
    assert learner.predict_one(X[19]) == alone.predict_one(X[19]) != other.predict_one(X[19])
    with pytest.raises(ValueError, match="max_pending=-1"):
        omkl.learner("auto", inputs=1, max_pending=-1)


def test_intervals_learn_from_no_prediction_that_knew_nothing():
    """In moving units the first predictions are 0, and their errors as large as the target."""
    learner = omkl.learner("ridge", inputs=1, interval=0.9)
    rng, waiting = np.random.default_rng(1), []
    for _ in range(120):
        x = [rng.normal()]
        learner.predict_one(x)
        waiting.append((x, 1000.0 + x[0] + 0.1 * rng.normal()))
        if len(waiting) > 15:
            learner.learn_one(*waiting.pop(0))
    low, high = learner.interval
    assert 0.0 < high - low < 10.0


def test_what_is_said_of_a_row_stays_when_another_target_comes():
    learner = omkl.learner("auto", inputs=1, interval=0.9)
    learner.partial_fit(np.arange(50.0)[:, None], np.sin(np.arange(50.0)))
    learner.predict_one([1.0])
    learner.predict_one([2.0])
    before = learner.interval, learner.spread
    learner.learn_one([1.0], 50.0)
    assert (learner.interval, learner.spread) == before
