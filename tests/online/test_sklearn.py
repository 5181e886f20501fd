"""Estimators of scikit-learn: its own checks, and the numbers of ``omkl-run``."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures
from sklearn.utils.estimator_checks import estimator_checks_generator

import omkl
from omkl.sklearn import OnlineMKLClassifier, OnlineMKLRegressor, PanelMKLRegressor
from tests.online import test_learner

SMALL = {"kernels": "gaussian17", "D": 4}
# Declared by scikit-learn for its own SGDRegressor and SGDClassifier: rows have an order.
DECLARED = {
    "check_sample_weight_equivalence_on_dense_data": "the copies of a row come one after another"
}


CHECKS = [
    pair
    for model in (OnlineMKLRegressor(), OnlineMKLClassifier())
    for pair in estimator_checks_generator(model, expected_failed_checks=DECLARED, mark="xfail")
]


def name_of(given):
    """Of an estimator its class, of a check its function."""
    return getattr(given, "func", type(given)).__name__


@pytest.mark.parametrize(("model", "check"), CHECKS, ids=name_of)
def test_the_checks_of_scikit_learn(model, check):
    check(model)


def stream():
    """Two inputs, of which some are blank, and a label near 5,000."""
    X, y = test_learner.stream()
    return X, np.nan_to_num(y, nan=5000.0)


def one_by_one(model, X, y, predict, **first):
    """What is said of each row before it is learned."""
    model.partial_fit(X[:1], y[:1], **first)
    said = []
    for x, label in zip(X[1:, None], y[1:, None], strict=True):
        said.append(predict(x)[0])
        model.partial_fit(x, label)
    return np.array(said)


@pytest.mark.parametrize(("name", "lags"), [("gf", 2), ("auto", 0)])
def test_the_numbers_are_those_of_a_run(tmp_path, name, lags):
    X, y = stream()
    run = test_learner.run_on(
        tmp_path, X, y, f"algorithm={name}", f"stream.lags={lags}", "seed=3", "interval=0.8"
    )
    kept = pd.read_parquet(run.folder / "predictions.parquet")
    model = OnlineMKLRegressor(name, lags=lags, random_state=3, interval=0.8, **SMALL)
    said = one_by_one(model, X, y, lambda x: [[*model.predict(x), *model.predict_interval(x)[0]]])
    np.testing.assert_array_equal(said, kept[["y_hat", "low", "high"]][1:])
    # In one go, and in pieces, nothing else is learned.
    for pieces in ([X], np.split(X, [1, 170])):
        again, start = clone(model), 0
        for rows in pieces:
            again.partial_fit(rows, y[start : start + len(rows)])
            start += len(rows)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))


@pytest.mark.parametrize(("name", "lags"), [("gf", 2), ("auto", 0)])
def test_targets_of_two_columns_are_estimators_side_by_side(name, lags):
    X, y = stream()
    Y = np.stack([y, np.cos(np.nan_to_num(X[:, 0])) + 0.001 * y], axis=1)
    made = {"algorithm": name, "lags": lags, "interval": 0.8, "random_state": 3, **SMALL}
    together, *apart = (OnlineMKLRegressor(**made) for _ in range(3))
    together.fit(X[:200], Y[:200]).partial_fit(X[200:250], Y[200:250])
    for one, column in zip(apart, Y.T, strict=True):
        one.fit(X[:200], column[:200]).partial_fit(X[200:250], column[200:250])
    rows = X[250:]
    for said in (
        lambda model: model.predict(rows),
        lambda model: model.predict_interval(rows),
        *([lambda model: model.predict(rows, return_std=True)[1]] if name == "auto" else []),
    ):
        np.testing.assert_array_equal(said(together), np.stack(list(map(said, apart)), axis=1))
    with pytest.raises(ValueError, match=r"targets of 2 outputs are y \(2,\)"):
        together.partial_fit(rows, np.ones((len(rows), 3)))
    with pytest.raises(ValueError, match="amkl requests some of the targets, so it has one output"):
        OnlineMKLRegressor("amkl", horizon=9, **SMALL).fit(X, Y)


def test_the_mistakes_of_a_classifier_are_those_of_a_run(tmp_path):
    X, y = stream()
    labels = np.where(y > 5000.0, "spam", "ham")
    run = test_learner.run_on(
        tmp_path, X, labels, "algorithm=auto", "task=classification", "dataset.labels=[ham,spam]"
    )
    model = OnlineMKLClassifier(**SMALL)
    said = one_by_one(model, X, labels, model.predict, classes=["spam", "ham"])
    # A run counts the first round, in which nothing is said, as a mistake.
    assert (said != labels[1:]).sum() + 1 == run.result["mistakes"][0]


def test_a_row_is_learned_as_often_as_its_weight_says():
    X, y = stream()
    X, y = X[4:64], y[4:64]
    weighted, copied = (OnlineMKLRegressor("gf", **SMALL) for _ in range(2))
    w = np.arange(60) % 4
    np.testing.assert_array_equal(
        weighted.fit(X, y, sample_weight=w).predict(X),
        copied.fit(np.repeat(X, w, axis=0), np.repeat(y, w)).predict(X),
    )
    # Of weights 0.75 the sum reaches no new whole number at the rows 0, 4 and 8.
    w = np.full(10, 0.75)
    again = clone(weighted).partial_fit(X[:7], y[:7], sample_weight=w[:7])
    again.partial_fit(X[7:10], y[7:10], sample_weight=w[7:])
    learned = [1, 2, 3, 5, 6, 7, 9]
    copied.fit(X[learned], y[learned])
    np.testing.assert_array_equal(again.predict(X), copied.predict(X))
    assert again.weight_ == 7.5 and copied.weight_ == 7.0


def test_it_works_where_estimators_work():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    search = GridSearchCV(
        make_pipeline(PolynomialFeatures(1, include_bias=False), OnlineMKLRegressor("gf")),
        {
            "onlinemklregressor__kernels": ["rbf51", "gaussian17"],
            "onlinemklregressor__params": [{"lam": 1e-3}, {"lam": 1e-1}],
        },
        cv=2,
    ).fit(X[:200], y[:200])
    assert set(search.best_params_) == {"onlinemklregressor__kernels", "onlinemklregressor__params"}
    model = OnlineMKLRegressor().fit(X, y)
    assert list(model.feature_names_in_) == list(X.columns)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[X.columns[::-1]])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert cross_val_score(OnlineMKLRegressor(), X, y, cv=3).min() > 0.35
    X, y = load_breast_cancer(return_X_y=True)
    assert cross_val_score(OnlineMKLClassifier(), X, y, cv=3, scoring="roc_auc").min() > 0.98


def test_what_is_expected_of_the_next_label_is_said():
    X, y = load_diabetes(return_X_y=True)
    model = OnlineMKLRegressor().fit(X[:342], y[:342])
    y_hat, std = model.predict(X[342:], return_std=True)
    low, high = model.predict_interval(X[342:]).T
    assert np.all(std > 0.0) and np.all(low < y_hat) and np.all(y_hat < high)
    assert 0.8 < np.mean((low < y[342:]) & (y[342:] < high)) <= 0.98
    narrow = clone(model).set_params(interval=0.5).fit(X[:342], y[:342])
    assert np.all(np.diff(narrow.predict_interval(X[342:])) < high[:, None] - low[:, None])
    with pytest.raises(ValueError, match="raker predicts no standard deviation"):
        OnlineMKLRegressor("raker", **SMALL).fit(X, y).predict(X, return_std=True)


def test_what_an_algorithm_cannot_do_is_not_there():
    assert hasattr(OnlineMKLClassifier(), "predict_proba")
    assert not hasattr(OnlineMKLClassifier("omkc_da_p1"), "predict_proba")


@pytest.mark.parametrize(
    ("Model", "settings", "fit", "message"),
    [
        (OnlineMKLRegressor, {"algorithm": "gff"}, {}, "no algorithm 'gff'. Did you mean gf?"),
        (OnlineMKLRegressor, {"params": {"lamb": 1}}, {}, "there is no algorithm.lamb"),
        (OnlineMKLRegressor, {"interval": 90}, {}, "interval=90 is not a number between 0 and 1"),
        (OnlineMKLRegressor, {}, {"sample_weight": [-1.0, 2.0, 1.0]}, "is not negative; got -1.0"),
        (OnlineMKLRegressor, {}, {"sample_weight": [0.0] * 3}, "all weights are zero"),
        (OnlineMKLRegressor, {}, {"sample_weight": [0.2] * 3}, "scale the weights to a mean of 1"),
        (OnlineMKLClassifier, {"algorithm": "gf"}, {}, "gf is an algorithm for regression"),
        (OnlineMKLClassifier, {}, {"y": ["a"] * 3}, "there is one class alone, ['a']"),
    ],
)
def test_what_is_wrong_is_named(Model, settings, fit, message):
    given = {"X": np.eye(3), "y": [1, 2, 3]} | fit
    model = Model(**settings)
    with pytest.raises(ValueError) as error:
        model.fit(**given)
    assert message in str(error.value)
    with pytest.raises(NotFittedError):
        model.predict(np.eye(3))


def test_classes_are_those_of_the_first_call():
    model, X = OnlineMKLClassifier(), np.eye(3)
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        model.partial_fit(X, ["a", "b", "a"])
    model.partial_fit(X, ["a", "b", "a"], classes=["c", "b", "a"])
    assert list(model.classes_) == ["a", "b", "c"] and model.predict_proba(X).shape == (3, 3)
    with pytest.raises(ValueError, match="are not those of the first call"):
        model.partial_fit(X, ["a", "b", "a"], classes=["a", "b"])
    with pytest.raises(ValueError, match=r"y has the classes \['d'\]"):
        model.partial_fit(X, ["a", "b", "d"])
    model.fit(X, [True, False, True])
    assert model.predict(X).dtype == bool


def test_a_panel_takes_series_as_a_column_or_by_metadata_routing():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"device": rng.integers(4, size=200), "load": rng.normal(size=200)})
    y = rows.device + np.sin(rows.load)
    panel = omkl.panel(series="device", seed=2, lags=1, interval=0.9)
    panel.partial_fit(rows, y)
    expected = panel.predict(rows)
    model = PanelMKLRegressor(series="device", lags=1, random_state=2, interval=0.9)
    np.testing.assert_array_equal(model.fit(rows, y).fit(rows, y).predict(rows), expected)
    parts = clone(model).partial_fit(rows[:90], y[:90]).partial_fit(rows[90:], y[90:])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(parts)).predict(rows), expected)
    np.testing.assert_array_equal(parts.predict_interval(rows), panel.predict_interval(rows))
    with config_context(enable_metadata_routing=True):
        beside = PanelMKLRegressor(lags=1, random_state=2)
        beside.set_fit_request(series=True).set_predict_request(series=True)
        pipeline = make_pipeline(FunctionTransformer(), beside)
        pipeline.fit(rows[["load"]], y, series=rows.device)
        said = pipeline.predict(rows[["load"]], series=rows.device)
    np.testing.assert_array_equal(said, expected)
    with pytest.raises(NotFittedError):
        clone(model).predict(rows)
    with pytest.raises(ValueError, match="each row needs a series"):
        clone(beside).fit(rows, y)


def test_series_of_a_data_frame_are_learned_as_by_the_learner():
    rng = np.random.default_rng(1)
    dates = pd.date_range("2024-01-01", periods=60).repeat(5)
    rows = pd.DataFrame({"date": dates, "shop": [f"s{k % 5}" for k in range(300)]})
    rows["price"] = rng.normal(size=300)
    y = 10.0 ** (np.arange(300) % 5) * (9.0 + rows.price + rng.normal(size=300))
    learner = omkl.learner("auto", series="shop", interval=0.9, season=7)
    learner.partial_fit(rows[:200], y[:200])
    model = OnlineMKLRegressor(series="shop", season=7)
    for one in (
        clone(model).fit(rows[:200], y[:200]),
        clone(model).partial_fit(rows[:200], y[:200]),
    ):
        np.testing.assert_array_equal(one.predict(rows[200:]), learner.predict(rows[200:]))
    learner.partial_fit(rows[200:], y[200:])
    one = pickle.loads(pickle.dumps(one)).partial_fit(rows[200:], y[200:])
    np.testing.assert_array_equal(
        one.predict_interval(rows[:9]), learner.predict_interval(rows[:9])
    )
    assert list(one.feature_names_in_) == list(rows.columns)
    scores = cross_val_score(model, rows, y, cv=TimeSeriesSplit(2))
    assert scores.min() > 0.9
    with pytest.raises(ValueError, match="no column 'shop': give X as a data frame"):
        clone(model).fit(rows[["price"]].to_numpy(), y)
    with pytest.raises(ValueError, match="the data frame has no column 'shop', the series"):
        clone(model).fit(rows[["price"]], y)
    with pytest.raises(ValueError, match="outputs= has 2: make one learner per target"):
        clone(model).fit(rows, np.column_stack([y, y]))
