"""Several targets of a row: m outputs learn as m learners by themselves, to the bit."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest

import omkl
from omkl.commands import predict
from tests.conftest import read_csv
from tests.online.test_model_file import SMALL

N, M = 420, 3
OUTPUTS = ["north", "east", "south"]


def stream(blanks=True):
    """Rows (n, 2) and targets (n, 3) of their own units, of which some are missing."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2)) * [1.0, 300.0]
    Y = np.stack([[50.0, 1.0, -7.0]] * N) + np.sin(X[:, :1]) * [1.0, 2.0, 0.1]
    Y += 0.1 * rng.normal(size=Y.shape)
    if blanks:
        X[[0, 3, 200], [1, 0, 0]] = np.nan
        Y[150:170, 1] = np.nan  # one output falls behind
        Y[300:305] = np.nan
    return X, Y


def learners(name, **settings):
    """One of three outputs, and three of one."""
    made = {"inputs": 2, "interval": 0.9, **SMALL, **settings}
    return omkl.learner(name, outputs=M, **made), [omkl.learner(name, **made) for _ in range(M)]


def require_equal(together, apart):
    for field in together._fields:
        expected = np.stack([getattr(one, field) for one in apart], axis=1)
        np.testing.assert_array_equal(getattr(together, field), expected, err_msg=field)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("raker", {}),
        ("raker", {"lags": 2}),
        ("gf", {}),
        ("ewrls", {}),
        ("vaw2", {}),
        pytest.param("auto", {}, marks=pytest.mark.slow(2)),
    ],
)
def test_outputs_learn_as_learners_by_themselves(tmp_path, name, settings):
    X, Y = stream()
    together, apart = learners(name, **settings)
    for rows in (slice(0, 1), slice(1, 290), slice(290, 380)):
        each = [one.partial_fit(X[rows], y) for one, y in zip(apart, Y[rows].T, strict=True)]
        require_equal(together.partial_fit(X[rows], Y[rows]), each)
    together.save(tmp_path / "model.npz")
    loaded = omkl.load_learner(tmp_path / "model.npz")
    said = np.stack([one.predict(X[380:]) for one in apart], axis=1)
    ends = np.stack([one.predict_interval(X[380:]) for one in apart], axis=1)
    for one in (together, loaded, copy.deepcopy(loaded)):
        np.testing.assert_array_equal(one.predict(X[380:]), said)
        np.testing.assert_array_equal(one.predict_interval(X[380:]), ends)
    for s in range(380, 400):
        expected = [one.predict_one(X[s]) for one in apart]
        intervals = np.array([one.interval for one in apart]).T
        for one in (together, loaded):
            np.testing.assert_array_equal(one.predict_one(X[s]), expected)
            np.testing.assert_array_equal(one.interval, intervals)
            one.learn_one(X[s], Y[s])
        for one, y in zip(apart, Y[s], strict=True):
            one.learn_one(X[s], y)
    again = pickle.loads(pickle.dumps(together))
    each = [one.partial_fit(X[400:], y) for one, y in zip(apart, Y[400:].T, strict=True)]
    for one in (together, again):
        require_equal(one.partial_fit(X[400:], Y[400:]), each)


@pytest.mark.parametrize("name", ["gf", "raker", "ewrls"])
def test_a_prediction_is_copied_and_an_output_without_target_learns_nothing(name):
    X, Y = stream(blanks=False)
    together, apart = learners(name)
    together.partial_fit(X[:60], Y[:60])
    for one, y in zip(apart, Y[:60].T, strict=True):
        one.partial_fit(X[:60], y)
    together.predict_one(X[60])
    for targets in (Y[60], [Y[60, 0], None, Y[60, 2]], [None] * M):
        copied, alone = pickle.loads(pickle.dumps(together)), copy.deepcopy(apart)
        copied.learn_one(X[60], targets)
        for one, y in zip(alone, targets, strict=True):
            one.partial_fit(X[60:61], [y])
        each = [one.partial_fit(X[61:90], y) for one, y in zip(alone, Y[61:90].T, strict=True)]
        require_equal(copied.partial_fit(X[61:90], Y[61:90]), each)
        said = [one.predict(X) for one in alone]
        np.testing.assert_array_equal(copied.predict(X), np.stack(said, axis=1))


@pytest.mark.parametrize("name", [pytest.param("auto", marks=pytest.mark.slow(2)), "sfg_r", "omkr"])
def test_outputs_of_many_rows_are_loaded(tmp_path, name):
    """Their arrays have room for more rows than fresh ones, and places that are none yet."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1200, 2))
    Y = np.stack([np.sin(2.0 * X[:, 0]), X[:, 1] > 0.5], axis=1)
    together = omkl.learner(name, inputs=2, outputs=2, interval=0.9, **SMALL)
    together.partial_fit(X[:1000], Y[:1000])
    together.save(tmp_path / "model.npz")
    loaded = omkl.load_learner(tmp_path / "model.npz")
    expected = together.partial_fit(X[1000:], Y[1000:])
    for field, found in loaded.partial_fit(X[1000:], Y[1000:])._asdict().items():
        np.testing.assert_array_equal(found, getattr(expected, field), err_msg=field)


def test_outputs_go_by_their_names(tmp_path):
    X, Y = stream(blanks=False)
    frame, targets = pd.DataFrame(X, columns=["a", "b"]), pd.DataFrame(Y, columns=OUTPUTS)
    named = omkl.learner("raker", outputs=OUTPUTS, interval=0.9, **SMALL)
    placed = omkl.learner("raker", outputs=3, interval=0.9, **SMALL)
    found = named.partial_fit(frame[:100], targets[OUTPUTS[::-1]][:100])
    require = np.testing.assert_array_equal
    require(found.y_hat, placed.partial_fit(X[:100], Y[:100]).y_hat)
    said = named.predict_one({"a": 0.1, "b": 20.0})
    assert list(said) == OUTPUTS and list(said.values()) == placed.predict_one([0.1, 20.0]).tolist()
    named.learn_one({"a": 0.1, "b": 20.0}, {"south": -7.0, "north": 51.0})
    placed.learn_one([0.1, 20.0], [51.0, np.nan, -7.0])
    require(named.predict(frame), placed.predict(X))
    assert named.weights.columns.tolist() == OUTPUTS and named.weights["east"].sum() == 1.0
    assert named.experts(frame.iloc[0])["south"].columns.tolist() == ["prediction", "weight"]
    assert repr(named) == "OnlineLearner('raker', 2 inputs, 3 outputs, 101 rows)"
    named.save(tmp_path / "model.npz")
    assert omkl.load_learner(tmp_path / "model.npz").outputs == named.outputs == tuple(OUTPUTS)
    frame.to_csv(tmp_path / "new.csv", index=False)
    told = [str(tmp_path / name) for name in ("model.npz", "new.csv")]
    assert predict.main([*told, "-o", str(tmp_path / "said.csv")]) == 0
    written = read_csv(tmp_path / "said.csv")
    require(written[[f"y_hat({name})" for name in OUTPUTS]], named.predict(frame))
    require(written[["low(east)", "high(east)"]], named.predict_interval(frame)[:, 1])


def test_outputs_that_are_alike_are_written_once(tmp_path):
    X, Y = stream(blanks=False)
    sizes = []
    for m in (1, 10):
        learner = omkl.learner("raker", inputs=2, outputs=m)
        learner.partial_fit(X[:5], np.tile(Y[:5, :1], m))
        learner.save(tmp_path / "model.npz")
        sizes.append((tmp_path / "model.npz").stat().st_size)
    assert sizes[1] < 1.2 * sizes[0]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"outputs": 0}, "outputs=0: from 1 to 10,000, or their names"),
        ({"outputs": "y"}, "outputs='y': say how many there are, or name them in a list"),
        ({"outputs": ["a", "a"]}, "no name twice"),
        ({"outputs": 2, "classes": ["a", "b"]}, "outputs are for regression"),
        ({"outputs": 2, "algorithm": "amkl_random", "horizon": 9}, "amkl_random requests some"),
    ],
)
def test_what_cannot_be_is_said(settings, said):
    with pytest.raises(ValueError, match=said):
        omkl.learner(**{"inputs": 2, **settings})


@pytest.mark.parametrize(
    ("y", "said"),
    [
        ([1.0], r"targets of 2 outputs are y \(2,\), of n rows \(n, 2\); got \(1,\)"),
        (1.0, r"targets of 2 outputs are y \(2,\)"),
        (None, r"targets of 2 outputs are y \(2,\)"),
        ({"c": 1.0, "a": 2.0}, "c: no output; a, b are"),
        ([1.0, "x"], "targets are numbers"),
        ([1.0, np.inf], "targets are finite numbers; got inf"),
    ],
)
def test_targets_that_are_none_are_refused_and_nothing_is_learned(y, said):
    learner = omkl.learner("raker", inputs=2, outputs=["a", "b"], **SMALL)
    learner.predict_one([0.1, 0.2])
    with pytest.raises(ValueError, match=said):
        learner.learn_one([0.1, 0.2], y)
    assert learner.n_rows == 0
    learner.learn_one([0.1, 0.2], {"a": 1.0, "b": 2.0})
    assert learner.n_rows == 1
