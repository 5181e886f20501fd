"""Models of other libraries that the benchmark has code of its own for."""

import numpy as np
import pytest
from benchmarks.suites import models
from benchmarks.suites.generators import generate

ONE_TASK = ("river_arf_mean", "vw_cubic", "vw_nn")


def predictions(model, X, y):
    found = []
    for z, label in zip(X.tolist(), y.tolist(), strict=True):
        x = dict(enumerate(z))
        found.append(model.predict_one(x))
        model.learn_one(x, label)
    return found


@pytest.mark.slow(2)
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_every_model_predicts_and_learns(task):
    pytest.importorskip("river", reason="River is an extra")
    rng = np.random.default_rng(0)
    for name, model in models.MODELS.items():
        if models.why_missing(name):
            assert model.library in ("vowpalwabbit", "capymoa"), name
            continue
        n_classes = 3 if task == "classification" else 0
        if n_classes and name in ONE_TASK:
            with pytest.raises(ValueError, match="it has no classification"):
                model.make(task, n_classes, 1)
            continue
        made = model.make(task, n_classes, 1)
        for t in range(8):
            x = dict(zip("ab", rng.standard_normal(2).tolist(), strict=True))
            assert t == 0 or np.isfinite(models.predict(made, x, n_classes)), name
            made.learn_one(x, t % 3)


def test_nearest_neighbours_draw_from_their_seed():
    pytest.importorskip("river", reason="River is an extra")
    *_, neighbours = models.find("river_knn").make("regression", 0, 7).steps.values()
    assert neighbours.engine.seed == 7


def test_boosting_is_fitted_with_a_quarter_more_rows_and_forgets():
    pytest.importorskip("sklearn", reason="scikit-learn is an extra")
    from sklearn.ensemble import HistGradientBoostingRegressor

    X, y, *_ = generate("random_tree", 252)
    model = models.find("sklearn_boosting").make("regression", 0, 3)
    model.max_rows = 220
    found = predictions(model, X, y)
    assert found[0] is None and found[199] == pytest.approx(y[:199].mean())
    boosting = HistGradientBoostingRegressor(early_stopping=False, random_state=3)
    for row, rows in ((200, slice(0, 200)), (249, slice(0, 200)), (250, slice(30, 250))):
        expected = boosting.fit(X[rows], y[rows]).predict(X[row : row + 1])[0]
        assert found[row] == pytest.approx(expected)


def test_vowpal_wabbit_and_moa_learn_where_they_are_installed():
    X, y, *_ = generate("switch", 400)
    for name in ("vw_cubic", "vw_nn", "moa_arf", "moa_soknl"):
        if not models.why_missing(name):
            made = models.find(name).make("regression", 0, 0)
            error = np.array(predictions(made, X, y)) - y
            assert np.mean(error[100:200] ** 2) < 0.5 * np.var(y), name
