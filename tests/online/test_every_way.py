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
