"""Peers of the benchmark that omkl has code of its own for."""

import pickle

import numpy as np
import pytest

from omkl.benchmark import peers, streams


def test_bayesian_ridge_is_fitted_anew_after_each_block():
    pytest.importorskip("sklearn", reason="scikit-learn comes with make benchmark")
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import BayesianRidge

    X, y, *_ = streams.made("waves", 101, seed=0)
    model = peers.peer("sklearn_rff_bayes").make("regression", 0, 3)
    predictions = _predict(model, X, y)
    assert predictions[0] is None and predictions[49] == pytest.approx(y[:49].mean())
    for n in (50, 100):
        centre, unit = X[:n].mean(axis=0), X[:n].std(axis=0)
        sampler = RBFSampler(gamma=0.5, random_state=3).fit(X[:1])
        features = lambda Z: sampler.transform((Z - centre) / unit)  # noqa: B023, E731
        fitted = BayesianRidge().fit(features(X[:n]), y[:n])
        assert predictions[n] == pytest.approx(fitted.predict(features(X[n : n + 1]))[0])


def test_boosting_is_fitted_anew_with_a_quarter_more_rows_and_forgets():
    pytest.importorskip("sklearn", reason="scikit-learn comes with make benchmark")
    from sklearn.ensemble import HistGradientBoostingRegressor

    X, y, *_ = streams.made("random_tree", 420, seed=0)
    model = peers.peer("sklearn_boosting").make("regression", 0, 3)
    model.most = 220
    predictions = _predict(model, X, y)
    assert predictions[0] is None and predictions[199] == pytest.approx(y[:199].mean())
    boosting = HistGradientBoostingRegressor(early_stopping=False, random_state=3)
    for row, rows in ((200, slice(0, 200)), (249, slice(0, 200)), (250, slice(30, 250))):
        said = boosting.fit(X[rows], y[rows]).predict(X[row : row + 1])[0]
        assert predictions[row] == pytest.approx(said)


def test_boosting_of_classes_has_probabilities():
    pytest.importorskip("sklearn", reason="scikit-learn comes with make benchmark")
    X = np.random.default_rng(0).random((260, 2))
    y = X[:, 0] > 0.5
    model = peers.peer("sklearn_boosting").make("classification", 2, 3)
    said = [_predict_proba(model, x, int(c)) for x, c in zip(X, y, strict=True)]
    assert said[0] == {0: 0.5, 1: 0.5} and sum(said[210].values()) == pytest.approx(1.0)
    right = [p[int(c)] > 0.5 for p, c in zip(said[200:], y[200:], strict=True)]
    assert np.mean(right) > 0.8


def _predict_proba(model, x, label):
    row = {f"x{k}": float(v) for k, v in enumerate(x)}
    said = model.predict_proba_one(row)
    model.learn_one(row, label)
    return said


@pytest.mark.parametrize("name", ["vw_cubic", "vw_nn"])
def test_vowpal_wabbit_learns_and_has_a_size(name):
    pytest.importorskip("vowpalwabbit", reason="Vowpal Wabbit comes with make benchmark")
    X, y, *_ = streams.made("switch", 400, seed=0)
    model = peers.peer(name).make("regression", 0, 0)
    predictions = np.array(_predict(model, X, y))
    assert np.mean((predictions - y)[100:200] ** 2) < 0.5 * np.var(y)
    assert len(pickle.dumps(model)) > 500
    with pytest.raises(ValueError, match="no classification"):
        peers.peer(name).make("classification", 2, 0)


def test_moa_learns_numbers_and_classes_and_has_a_size():
    if reason := peers.missing("moa_arf"):
        pytest.skip(reason)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1_000, 2))
    numbers, classes = np.sign(X[:, 0]) + X[:, 1], (X[:, 0] > 0) + 1.0 * (X[:, 1] > 0)
    names = ["moa's, {a}", "b"]
    for name, task, n_classes, y in (
        ("moa_arf", "regression", 0, numbers),
        ("moa_soknl", "regression", 0, numbers),
        ("moa_arf", "classification", 3, classes),
    ):
        asked = peers.PeerTask(name, task, n_classes, 0, names)
        passes = [peers.pass_over(asked, X, y, seconds=100.0) for _ in range(2)]
        error = (passes[0].y_hat != y) if n_classes else (passes[0].y_hat - y) ** 2 / np.var(y)
        assert np.mean(error[200:]) < 0.3, name
        assert np.array_equal(passes[0].y_hat, passes[1].y_hat, equal_nan=True), name
        assert passes[0].bytes > 10_000, name
    with pytest.raises(ValueError, match="no classification"):
        peers.peer("moa_soknl").make("classification", 2, 0)


def test_without_java_it_says_so(monkeypatch, tmp_path):
    for package in ("capymoa", "jpype", "deprecated", "wrapt", "tqdm", "seaborn"):
        (tmp_path / f"{package}.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert "needs Java" in peers.missing("moa_arf")


def _predict(model, X, y):
    predictions = []
    for z, label in zip(X.tolist(), y.tolist(), strict=True):
        x = dict(enumerate(z))
        predictions.append(model.predict_one(x))
        model.learn_one(x, label)
    return predictions
