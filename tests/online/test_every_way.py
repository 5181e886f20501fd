"""The same rows give the same predictions to the bit, whichever way they reach a learner.

A run of the command line, a block, blocks, one row after the other, through a saved model, a panel
of one series and the estimators of scikit-learn and River: 100 configurations drawn at random.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pandas as pd
import pytest

import omkl
from omkl.datasets.columns import levels_in
from omkl.datasets.scaling import LevelMeans
from omkl.river import OnlineMKLRegressor as RiverRegressor
from omkl.sklearn import OnlineMKLRegressor

CONFIGURATIONS = 100
LEARNERS = (
    "adahedge", "adaraker", "amkl", "auto", "boa", "ewrls", "fogd", "gf", "ie_gp", "kt", "last",
    "mean", "ml_poly", "oks_pp", "omkl_aks", "omkl_b", "omkr", "raker", "rbf", "rfomkr", "ridge",
    "ridge_rff", "sfg", "sfg_mkl_r", "sfg_r", "squint", "vaw2",
)  # fmt: skip
IN_PANELS = ("ewrls", "raker", "rfomkr", "ridge", "ridge_rff")


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("ways")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        yield place


def drawn(number: int) -> tuple[str, dict[str, Any], pd.DataFrame]:
    """The name of a learner, its settings and rows: column ``y`` is the target."""
    draw = random.Random(number)
    rng = np.random.default_rng(number)
    n, d = draw.randint(12, 60), draw.randint(1, 4)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4, size=d)
    y = draw.choice((1.0, 5e3)) * (np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)) + draw.choice((0, 7))
    if draw.random() < 0.3:
        X[rng.random((n, d)) < 0.1] = np.nan
    X[0] = np.where(np.isnan(X[0]), 0.5, X[0])  # a column has values at its beginning
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(d)]).assign(y=y)
    settings = {
        "kernels": draw.choice(("gauss5", "rbf9")),
        "D": draw.choice((3, 8, 20)),
        "seed": draw.randint(0, 99),
        "lags": draw.choice((0, 0, 1, 3)),
        "scaling": "columns",
        "interval": draw.choice((None, 0.8)),
    }
    return LEARNERS[number % len(LEARNERS)], settings, frame


def by_the_command_line(name, settings, frame, number):
    path = f"rows{number}.csv"
    frame.to_csv(path, index=False)
    stream = {"lags": settings["lags"], "scaling": settings["scaling"]}
    rest = {key: settings[key] for key in ("kernels", "D", "seed", "interval")}
    draw = random.Random(number)
    done = omkl.run(
        name, path, target="y", stream=stream, predictions=True, seeds=1,
        block=draw.choice((1, 7, 1000)), threads=draw.choice((1, 2)), **rest,
    )  # fmt: skip
    return done.predictions["y_hat"].to_numpy()


@pytest.mark.parametrize("number", range(CONFIGURATIONS))
def test_every_way_has_the_same_predictions(number, tmp_path):
    name, settings, frame = drawn(number)
    X, y = frame.drop(columns="y").to_numpy(), frame["y"].to_numpy()
    n, d = X.shape
    horizon = len(y)
    new = lambda: omkl.learner(name, inputs=d, horizon=horizon, **settings)  # noqa: E731
    whole = new().partial_fit(X, y).y_hat

    def same(way, y_hat):
        np.testing.assert_array_equal(
            y_hat, np.broadcast_to(whole, y_hat.shape), err_msg=f"{way}: {name}, {settings}"
        )

    same("a run", by_the_command_line(name, settings, frame, number))
    cuts = sorted(random.Random(number).sample(range(1, n), 3))
    learner, found = new(), []
    for first, last in zip([0, *cuts], [*cuts, n], strict=True):
        found.append(learner.partial_fit(X[first:last], y[first:last]).y_hat)
    same("blocks", np.concatenate(found))

    learner, found = new(), []
    for k, (x, target) in enumerate(zip(X, y, strict=True)):
        if k == cuts[1]:
            learner.save(tmp_path / "model.npz")
            learner = omkl.load_learner(tmp_path / "model.npz")
        assert learner.predict(x[None])[0] == whole[k]
        found.append(learner.predict_one(x))
        learner.learn_one(x, target)
    same("row by row, and through a file", np.array(found))

    if name in IN_PANELS:
        panel = omkl.panel(name, inputs=d, horizon=horizon, threads=1, **settings)
        found = [panel.partial_fit(X[k : k + 9], y[k : k + 9], ["a"] * len(y[k : k + 9])).y_hat
                 for k in range(0, n, 9)]  # fmt: skip
        same("a panel of one series", np.concatenate(found))

    rest = {**settings, "algorithm": name, "horizon": horizon}
    seed = rest.pop("seed")
    estimator = OnlineMKLRegressor(**rest, random_state=seed, past_targets=True)
    river, found = RiverRegressor(**rest, seed=seed), []
    for k, (x, target) in enumerate(zip(X, y, strict=True)):
        named = dict(zip(frame.columns, x.tolist(), strict=False))
        before = whole[0] if k == 0 else estimator.predict(x[None])[0]
        estimator.partial_fit(x[None], [target])
        found.append((before, river.predict_one(named)))
        river.learn_one(named, target)
    same("scikit-learn and River", np.array(found).T)


def with_words(n: int = 150) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(3)
    places, x = rng.integers(0, 30, n), rng.normal(size=n)
    words = [None if rng.random() < 0.05 else f"place {k}" for k in places]
    y = 5.0 * np.cos(7.0 * places) + x + 0.1 * rng.normal(size=n)
    return pd.DataFrame({"x": x, "place": words}), y


@pytest.mark.filterwarnings("ignore:place. 'place")  # words of the first rows share inputs
@pytest.mark.parametrize("delay", [0, 3])
@pytest.mark.parametrize("name", ["auto", "ridge"])
def test_levels_of_text_are_the_same_in_every_way(name, delay, tmp_path):
    X, y = with_words()
    X.assign(y=y).to_csv("words.csv", index=False)
    settings = {"scaling": "columns", "lags": 0}
    run = omkl.run(name, "words.csv", target="y", stream={"delay": delay, **settings}, seeds=1,
                   predictions=True, block=7)  # fmt: skip
    expected = run.predictions["y_hat"].to_numpy()
    found, rows, learner = [], X.to_dict("records"), omkl.learner(name, **settings)
    for k, row in enumerate(rows):
        found.append(learner.predict_one(row))
        if k == 60:
            learner.save(tmp_path / "model.npz")
            learner = omkl.load_learner(tmp_path / "model.npz")
        if k >= delay:
            learner.learn_one(rows[k - delay], y[k - delay])
    np.testing.assert_array_equal(found, expected)
    if not delay:
        blocks, estimator = omkl.learner(name, **settings), OnlineMKLRegressor(name, **settings)
        for part in (slice(0, 40), slice(40, 150)):
            y_hat = blocks.partial_fit(X[part], y[part]).y_hat
            np.testing.assert_array_equal(y_hat, expected[part])
            estimator.partial_fit(X[part], y[part])
        np.testing.assert_array_equal(estimator.predict(X), blocks.predict(X))
        np.testing.assert_array_equal(learner.predict(X), blocks.predict(X))


def test_levels_have_the_shrunk_mean_of_the_targets_before_the_group():
    levels = levels_in(("x", "place#mean", "place#count", "other#mean"))
    codes, y = np.array([5.0, 8.0, 5.0, np.nan, 5.0]), np.array([3.0, 5.0, np.nan, 1.0, 7.0])
    means = LevelMeans(levels)
    rows = np.column_stack([np.ones(5), codes, np.zeros(5), np.full(5, 9.0)])
    found = means.filled(rows, y, np.array([0, 2, 3, 4, 5]))
    of_first = [0.0, 0.0, (3.0 + 5.0 * 4.0) / 6.0, np.nan, (3.0 + 5.0 * 3.0) / 6.0]
    np.testing.assert_allclose(found[:, 1], of_first)
    np.testing.assert_allclose(found[:, 2], [0.0, 0.0, np.log(2.0), 0.0, np.log(2.0)])
    np.testing.assert_array_equal(found[:, [0, 3]], rows[:, [0, 3]])
    np.testing.assert_allclose(means.of_row(rows[0]), [(10.0 + 5.0 * 4.0) / 7.0, np.log(3.0)])


def test_auto_learns_the_mean_of_each_level():
    rng = np.random.default_rng(0)
    effects, places = rng.normal(size=300), rng.integers(0, 300, 3_000)
    X, y = pd.DataFrame({"place": [f"p{k}" for k in places]}), effects[places]
    error = omkl.learner("auto").partial_fit(X, y).y_hat - y
    assert np.sqrt(np.mean(error[2_000:] ** 2)) < 0.5 * np.std(y)
