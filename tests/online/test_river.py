"""Estimators of River: its own checks, and the numbers of ``omkl-run``."""

import math
import pickle
import random

import numpy as np
import pandas as pd
import pytest
from river import (
    checks,
    compose,
    conf,
    datasets,
    evaluate,
    linear_model,
    metrics,
    preprocessing,
    stats,
    stream,
)  # fmt: skip

import omkl
from omkl.river import (
    REPLAYED,
    ActiveMKLRegressor,
    MultiTargetMKLRegressor,
    OnlineMKLClassifier,
    OnlineMKLRegressor,
    PanelMKLRegressor,
)
from tests.online import test_learner

SMALL = {"kernels": "gaussian17", "D": 4}
MODELS = [
    OnlineMKLRegressor(),
    OnlineMKLClassifier(),
    ActiveMKLRegressor(**SMALL),
    MultiTargetMKLRegressor("gf", **SMALL),
]
CHECKS = [(model, check) for model in MODELS for check in checks.yield_checks(model)]


@pytest.mark.parametrize(
    ("model", "check"), CHECKS, ids=[f"{type(m).__name__}-{c.__name__}" for m, c in CHECKS]
)
def test_the_checks_of_river(model, check):
    assert check.__name__ not in model._unit_test_skips()
    check(model.clone())


def rows(n=300):
    """Two inputs, of which some are missing, by name in any order; a label near 5,000."""
    X, y = test_learner.stream(n)
    X[0] = 0.5, 100.0  # the first row has both
    shuffled = random.Random(0)
    found = []
    for a, b in X.tolist():
        x = {"a": a, "b": b} if shuffled.random() < 0.5 else {"b": b, "a": a}
        found.append({k: v for k, v in x.items() if not math.isnan(v)} | {"c": None})
    return X, np.nan_to_num(y, nan=5000.0), found


def one_by_one(model, xs, y, **how):
    said = []
    for x, label in zip(xs, y, strict=True):
        said.append(model.predict_one(x, **how))
        model.learn_one(x, label)
    return said


def test_the_numbers_are_those_of_a_run(tmp_path):
    X, y, xs = rows()
    run = test_learner.run_on(tmp_path, X, y, "algorithm=gf", "seed=3", "interval=0.8")
    kept = pd.read_parquet(run.folder / "predictions.parquet")
    model = OnlineMKLRegressor("gf", seed=3, interval=0.8, **SMALL)
    np.testing.assert_array_equal(one_by_one(model, xs, y), kept["y_hat"])
    found = one_by_one(model.clone(), xs, y.tolist(), with_interval=True)
    ends = [[interval.lower, interval.upper] for interval in found]
    np.testing.assert_array_equal(ends[2:], kept[["low", "high"]][2:])
    assert ends[0] == [0.0, 0.0] and isinstance(found[0], conf.interval.Interval)


def test_several_targets_are_regressors_side_by_side():
    X, y, xs = rows()
    east = np.nan_to_num(X[:, 0]) + 0.001 * y
    targets = [{"north": a, "east": b} for a, b in zip(y, east, strict=True)]
    together = MultiTargetMKLRegressor("gf", seed=3, interval=0.8, **SMALL)
    apart = {name: OnlineMKLRegressor("gf", seed=3, interval=0.8, **SMALL) for name in targets[0]}
    assert together.predict_one(xs[0]) == {}
    for x, target in zip(xs, targets, strict=True):
        together.learn_one(x, target)
        for name, model in apart.items():
            model.learn_one(x, target[name])
        for how in ({}, {"with_interval": True}):
            expected = {name: model.predict_one(x, **how) for name, model in apart.items()}
            assert together.predict_one(x, **how) == expected
    again = pickle.loads(pickle.dumps(together))
    assert again.predict_one(xs[0]) == together.predict_one(xs[0])


def test_a_target_may_be_missing_or_come_later():
    """With a new one the learner is made anew, of the rows that are kept."""
    X, y, xs = (part[:60] for part in rows())
    model = MultiTargetMKLRegressor("gf", **SMALL)
    fresh = omkl.learner("gf", inputs=["a", "b"], outputs=2, interval=0.9, **SMALL)
    Y = np.stack([y, np.where(np.arange(60) < 40, np.nan, -y)], axis=1)
    Y[50:55, 0] = np.nan
    for x, (north, east) in zip(xs, Y.tolist(), strict=True):
        model.learn_one(x, {"north": north, 7: None if math.isnan(east) else east})
        if math.isnan(east):
            assert list(model.predict_one(x)) == ["north"]
    fresh.partial_fit(X, Y)
    said = model.predict_one({"a": 0.1, "b": 20.0})
    assert said == dict(zip(["north", 7], fresh.predict([[0.1, 20.0]])[0], strict=True))
    model.learn_one(xs[0], {})  # teaches nothing but how the inputs lie
    for refused in (3.0, {"north": "much"}, {"south": math.inf}):
        with pytest.raises(ValueError, match="targets are"):
            model.learn_one(xs[0], refused)
    assert list(model.predict_one(xs[0])) == ["north", 7]


def test_predicting_other_rows_changes_nothing():
    _, y, xs = rows()
    plain, looked = (OnlineMKLRegressor("amkl_random", horizon=300, **SMALL) for _ in range(2))
    for s, (x, label) in enumerate(zip(xs, y, strict=True)):
        for other in xs[s : s + s % 3]:
            looked.predict_one(other)
        plain.learn_one(x, label)
        looked.learn_one(x, label)
    assert looked.predict_one(xs[0]) == plain.predict_one(xs[0])
    again = pickle.loads(pickle.dumps(looked))
    for model in (plain, again):
        model.learn_one(xs[1], 4900.0)
    assert again.predict_one(xs[2]) == plain.predict_one(xs[2])


def test_with_a_new_input_the_last_rows_are_learned_again():
    _, y, xs = rows(REPLAYED + 60)
    model = OnlineMKLRegressor("gf", **SMALL)
    for x, label in zip(xs[:-10], y[:-10], strict=True):
        model.learn_one({"b": x.get("b"), "z": 1.0}, label)
    for x, label in zip(xs[-10:], y[-10:], strict=True):
        model.learn_one(x | {"z": None}, label)
    fresh = omkl.learner("gf", inputs=["a", "b", "z"], interval=0.9, **SMALL)
    n = len(xs) - 10
    kept = np.column_stack([np.full(n, np.nan), [x.get("b", np.nan) for x in xs[:n]], np.ones(n)])
    late = [[x.get("a", np.nan), x.get("b", np.nan), np.nan] for x in xs[n:]]
    fresh.partial_fit(np.vstack([kept[-REPLAYED:], late]), y[n - REPLAYED :])
    x = {"a": 0.3, "b": 50.0, "z": 1.0}
    assert model.predict_one(x) == fresh.predict_one(x)


def test_classes_come_as_they_come():
    _, y, xs = rows()
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [4900, 5100])]
    model = OnlineMKLClassifier()
    assert model.predict_one(xs[0]) is None and model.predict_proba_one(xs[0]) == {}
    model.learn_one(xs[0], labels[0])
    assert model.predict_one(xs[1]) == labels[0]
    for x, label in zip(xs[1:], labels[1:], strict=True):
        model.learn_one(x, label)
    known = list(dict.fromkeys(labels))
    fresh = omkl.learner("auto", inputs=["a", "b"], classes=known)
    fresh.partial_fit([[x.get("a"), x.get("b")] for x in xs], labels)
    told = fresh.predict_proba([[0.1, 20.0]])[0]
    assert model.predict_proba_one({"a": 0.1, "b": 20.0}) == dict(zip(known, told, strict=True))
    with pytest.raises(ValueError, match="a class is a text or a number, and this is None"):
        model.learn_one(xs[0], None)
    with pytest.raises(NotImplementedError, match="omkc_da_p1 predicts no probabilities"):
        says = OnlineMKLClassifier("omkc_da_p1", **SMALL)
        for label in (True, False):
            says.learn_one(xs[0], label)
        says.predict_proba_one(xs[0])


def test_an_active_learner_asks():
    X, y, xs = rows()
    model = ActiveMKLRegressor("amkl_random", horizon=300, **SMALL)
    learner = omkl.learner("amkl_random", inputs=["a", "b"], horizon=300, **SMALL)
    expected = learner.partial_fit(X, y)
    for s, x in enumerate(xs):
        assert model.predict_one(x) == expected.y_hat[s], s
        assert model.asks == expected.asked[s]
        if model.asks:
            model.learn_one(x, y[s])
    assert 100 < expected.asked.sum() < 250
    answered = zip(xs, y.tolist(), strict=True)
    score = evaluate.progressive_val_score(answered, model.clone(), metrics.MAE())
    assert score.get() == pytest.approx(np.mean(np.abs(y - expected.y_hat)), rel=1e-12)


def test_it_works_where_models_work():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = np.where(np.arange(600) < 300, np.sin(2 * X[:, 0]), -3.0 * np.sin(2 * X[:, 0]))
    y += 0.1 * rng.normal(size=600)
    scores = []
    for last in (OnlineMKLRegressor(), linear_model.LinearRegression()):
        pipeline = compose.Select("a") | preprocessing.StandardScaler() | last
        rows = stream.iter_array(X, y, feature_names=["a", "b"])
        scores.append(evaluate.progressive_val_score(rows, pipeline, metrics.MAE()).get())
    assert scores[0] < 0.8 * scores[1]
    model, held = OnlineMKLRegressor(), stats.Mean()
    for x, label in stream.iter_array(X, y, feature_names=["a", "b"]):
        held.update(label in model.predict_one(x, with_interval=True))
        model.learn_one(x, label)
    assert 0.85 < held.get() < 0.95
    phishing = evaluate.progressive_val_score(
        datasets.Phishing().take(300), OnlineMKLClassifier(), metrics.Accuracy()
    )
    assert phishing.get() > 0.8


@pytest.mark.parametrize(
    ("settings", "x", "y", "message"),
    [
        ({}, {"a": ["red"]}, 1.0, "column 'a' is no input: lists or objects in its cells"),
        ({}, {"a": math.inf}, 1.0, "input a of row 1 is inf: no number"),
        ({}, {"a": 1.0}, None, "a target is a number, and this is None"),
        ({"scaling": "none", **SMALL, "algorithm": "gf"}, {"a": 1.0}, math.inf, "finite numbers"),
    ],
)
def test_what_is_wrong_is_named_and_not_learned(settings, x, y, message):
    model = OnlineMKLRegressor(**settings)
    for _ in range(2):
        with pytest.raises(ValueError) as error:
            model.learn_one(x, y)
        assert message in str(error.value)
    if "algorithm" not in settings and "params" not in settings:
        model.learn_one({"a": 1.0}, 2.0)
        assert model.predict_one({"a": 1.0}) == pytest.approx(2.0)


def test_of_a_row_that_is_refused_nothing_stays():
    """Neither its class nor its input, and the learner is not made anew."""
    rng = np.random.default_rng(0)
    model, other = OnlineMKLClassifier(), OnlineMKLClassifier()
    rows = [{"a": a, "b": b} for a, b in rng.normal(size=(40, 2))]
    for x in rows[:30]:
        for one in (model, other):
            one.learn_one(x, x["a"] > 0.0)
    model.predict_one(rows[30])
    for refused, label in (({"a": math.inf, "b": 0.0}, "third"), ({"a": 1.0, "c": math.inf}, True)):
        with pytest.raises(ValueError, match="no number"):
            model.learn_one(refused, label)
    assert model.predict_proba_one(rows[30]) == other.predict_proba_one(rows[30])
    fresh = OnlineMKLRegressor()
    with pytest.raises(ValueError):
        fresh.learn_one({"a": math.inf}, 1.0)
    fresh.learn_one({"b": 1.0}, 1.0)
    assert fresh.predict_one({"b": 1.0}) == 1.0


def test_a_panel_is_a_learner_per_series():
    rng = np.random.default_rng(0)
    rows = [
        ({"a": a, "device": f"d{k % 3}"}, a * (k % 3)) for k, a in enumerate(rng.normal(size=60))
    ]
    model = PanelMKLRegressor(series="device", interval=0.9)
    alone = {f"d{k}": omkl.learner("ridge", inputs=["a"], lags=model.lags) for k in range(3)}
    for x, y in rows:
        learner = alone[x["device"]]
        assert model.predict_one(x) == learner.predict_one({"a": x["a"]})
        model.learn_one(x, y)
        learner.learn_one({"a": x["a"]}, y)
    assert pickle.loads(pickle.dumps(model)).predict_one(rows[0][0]) == model.predict_one(
        rows[0][0]
    )
    ends = model.predict_one(rows[1][0], with_interval=True)
    assert ends.lower < model.predict_one(rows[1][0]) < ends.upper
    frame = pd.DataFrame([x for x, _ in rows])
    assert model.predict_many(frame)[0] == model.predict_one(rows[0][0])
    copy = model.clone()
    copy.learn_many(frame, pd.Series([y for _, y in rows]))
    np.testing.assert_array_equal(copy.predict_many(frame), model.predict_many(frame))


def test_series_are_learned_as_by_the_learner():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=90), "shop": [f"s{k % 3}" for k in range(90)]})
    y = (10.0 ** (np.arange(90) % 3) * (5.0 + frame.a + rng.normal(size=90))).tolist()
    model, learner = OnlineMKLRegressor(series="shop"), omkl.learner(series="shop", interval=0.9)
    for x, target in zip(frame.to_dict("records"), y, strict=True):
        y_hat = model.predict_one(x)
        assert y_hat == learner.predict_one(x)
        for one in (model, learner):
            one.learn_one(x, target)
    assert model.predict_one(x, with_interval=True).upper == learner.predict_interval([x])[0, 1]
    with pytest.raises(ValueError, match="a row has no 'shop', the series"):
        model.learn_one({"a": 1.0}, 2.0)
    model.learn_one({**x, "b": 1.0}, 2.0)  # a new input: the last rows are learned again
    assert model._learner.n_rows == 91 and model._learner.series == ("s0", "s1", "s2")


def test_a_panel_that_cannot_be_is_refused_by_its_setting():
    with pytest.raises(ValueError, match="max_series=0 lies outside"):
        PanelMKLRegressor(max_series=0).learn_one({"series": "a", "load": 1.0}, 1.0)
    with pytest.raises(ValueError, match="auto keeps counts"):
        PanelMKLRegressor(algorithm="auto").predict_one({"series": "a", "load": 1.0})
