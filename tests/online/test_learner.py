"""A learner called from Python: in the user's units, and bit for bit what a run says."""

import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import omkl
from omkl.experiment import run as runner
from tests.compositions import compose

TINY = ("seeds=1", "tracking=none", "figures=false", "dataset=file", "kernels=gaussian17", "D=4")
SMALL = {"kernels": "gaussian17", "D": 4}


def stream(T=300):
    """Two inputs and a label near 5,000; some of either are blank, and some inputs are far out."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(T, 2)) * [1.0, 300.0]
    X[40::23, 0] *= 40.0
    y = 5000 + 200 * np.sin(X[:, 0]) + rng.normal(size=T)
    X[[0, 3, 200], [1, 0, 0]] = np.nan
    y[[0, 7, 8, T - 1]] = np.nan
    return X, y


def run_on(tmp_path, X, y, *overrides):
    """The predictions of ``omkl-run`` on a file with these rows."""
    path = tmp_path / "mine.csv"
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).to_csv(path, index=False)
    places = (f"dataset.path={path}", "dataset.target=y", f"outputs={tmp_path / 'out'}")
    outcome = runner.run(compose([*TINY, *places, *overrides]))
    assert outcome.status == "complete", outcome.run.result
    return outcome.run


def in_two_ways(learner, X, y):
    """Half of the stream in blocks of 7, the other half row by row, blanks as blocks of one."""
    said = []
    for s in range(0, len(y) // 2, 7):
        rows = slice(s, min(s + 7, len(y) // 2))
        said.append(learner.partial_fit(X[rows], y[rows]).y_hat)
    for x, label in zip(X[len(y) // 2 :], y[len(y) // 2 :], strict=True):
        pure = learner.predict(x[None, :])
        if label is None or label != label:
            said.append(learner.partial_fit(x[None, :], [label]).y_hat)
        else:
            said.append([learner.predict_one(x)])
            learner.learn_one(x, label)
        np.testing.assert_array_equal(pure, said[-1])
    return np.concatenate(said)


@pytest.mark.parametrize(
    ("name", "lags", "scaling"),
    [
        ("gf", 0, "columns"), ("gf", 2, "columns"), ("gf", 1, "none"), ("auto", 0, "columns"),
        ("auto", 2, "columns"), ("amkl_random", 2, "columns"),
    ],
)  # fmt: skip
def test_the_numbers_are_those_of_a_run(tmp_path, name, lags, scaling):
    X, y = stream()
    if scaling == "none":
        X, y = np.nan_to_num(X) / 1000, y / 5000
    typed = (f"algorithm={name}", f"stream.lags={lags}", f"stream.scaling={scaling}", "seed=3")
    run = run_on(tmp_path, X, y, *typed)
    kept = pd.read_parquet(run.folder / "predictions.parquet")
    known = int(np.sum(~np.isnan(y)))
    learner = omkl.learner(
        name, inputs=2, lags=lags, scaling=scaling, seed=3, horizon=known, **SMALL
    )
    np.testing.assert_array_equal(in_two_ways(learner, X, y), kept["y_hat"])


def test_intervals_are_those_of_a_run(tmp_path):
    X, y = stream()
    y[40::23] *= 1.2  # of the rows that are far out
    widths = {"interval": 0.9, "interval_rate": 0.02}
    typed = [f"{key}={value}" for key, value in widths.items()]
    for name in ("auto", "gf"):  # with a standard deviation of its predictions, and without
        run = run_on(tmp_path, X, y, f"algorithm={name}", *typed)
        kept = pd.read_parquet(run.folder / "predictions.parquet")[["low", "high"]].to_numpy()
        learner = omkl.learner(name, inputs=2, **widths, **SMALL)
        half = np.ptp(kept, axis=1)  # wider far out than one row before
        assert half[132::23].mean() > 1.1 * half[131::23].mean()
        said = learner.partial_fit(X[:200], y[:200])
        np.testing.assert_array_equal(np.stack([said.low, said.high], axis=1), kept[:200])
        for s in range(200, 299):
            pure = learner.predict_interval(X[s : s + 1])
            learner.predict_one(X[s])
            np.testing.assert_array_equal([learner.interval, *pure], kept[[s, s]])
            learner.learn_one(X[s], y[s])
    with pytest.raises(ValueError, match=r"make the learner with interval=0\.9"):
        omkl.learner("gf", inputs=2).predict_interval(X)
    with pytest.raises(ValueError, match="gf predicts no standard deviation"):
        learner.predict(X, return_std=True)
    assert math.isnan(learner.spread) and np.isnan(learner.partial_fit(X, y).spread).all()


@pytest.mark.parametrize("classes", [("ham", "spam"), (1, 2, 3)])
def test_classes_are_named_as_they_come(tmp_path, classes):
    X, y = stream()
    cut = [4900, 5100] if len(classes) == 3 else [5000]
    labels = np.array(classes, dtype=object)[np.digitize(np.nan_to_num(y), cut)]
    labels[[5, 6]] = None
    run = run_on(tmp_path, X, labels, "algorithm=auto", "task=classification",
                 f"dataset.labels=[{','.join(map(str, classes))}]")  # fmt: skip
    learner = omkl.learner("auto", inputs=2, classes=classes, **SMALL)
    said = in_two_ways(learner, X, labels)
    known = labels != None  # noqa: E711
    wrong = said[known] != labels[known]
    assert set(said) <= set(classes)
    # A run counts the first round, in which nothing is said, as a mistake.
    assert wrong[1:].sum() == run.result["mistakes"][0] - (len(classes) == 2 or wrong[0])
    p = learner.predict_proba(X[:9])
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(np.array(classes)[p.argmax(axis=1)], learner.predict(X[:9]))


@pytest.mark.parametrize("algorithm", ["auto", "rf/omkc_da_p1"])
def test_new_class_is_learned_from_its_first_row_on(tmp_path, algorithm):
    """A learner of all classes learns the last 1,000 rows again: any split gives the same bits."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1400, 2))
    y = np.where(X[:, 0] > 0.0, "east", "west").astype(object)
    y[1200:][X[1200:, 1] > 0.5] = "north"
    y[1300], y[[3, 1100]] = "south", None
    first = 1200 + int(np.argmax(y[1200:] == "north"))
    learner, single, third = (
        omkl.learner(algorithm, inputs=2, classes=["west", "east"], **SMALL) for _ in range(3)
    )
    with pytest.warns(UserWarning, match="is a new class: a learner of [34] classes"):
        said = learner.partial_fit(X, y).y_hat
    assert learner.classes == ("west", "east", "north", "south") and learner.n_rows == 1100
    if algorithm == "auto":
        assert np.mean(said[1320:] == y[1320:]) > 0.8
    fresh = omkl.learner(algorithm, inputs=2, classes=["west", "east", "north"], **SMALL)
    known = [s for s in range(first) if y[s] is not None][-1000:]
    fresh.partial_fit(X[known], y[known])
    found = fresh.partial_fit(X[first:1300], y[first:1300]).y_hat
    assert (said[first + 1 : 1300] == found[1:]).all()
    third.partial_fit(X[:1000], y[:1000])
    third.save(tmp_path / "model.npz")
    third = omkl.load_learner(tmp_path / "model.npz")
    single.partial_fit(X[:1000], y[:1000])
    with pytest.warns(UserWarning, match="a new class"):
        for s in range(1000, 1400):
            assert single.predict_one(X[s]) == said[s]
            single.learn_one(X[s], y[s])
        third.partial_fit(X[1000:], y[1000:])
    for other in (single, third):
        np.testing.assert_array_equal(other.predict(X[:99]), learner.predict(X[:99]))
        assert other.arrays().keys() == learner.arrays().keys()
    with pytest.raises(ValueError, match=r"rows are X \(n, 2\); got \(1,\)"):
        learner.learn_one(X[0, :1], "up")
    assert len(learner.classes) == 4, "an invalid row adds no class"
    with pytest.warns(UserWarning, match="learns the last 0 rows again"):
        found = omkl.learner(algorithm, inputs=2, classes="ab", **SMALL).partial_fit(X[:2], "ca")
    assert len(found.y_hat) == 2


def test_predicting_changes_nothing_and_says_its_spread():
    X, y = stream()
    learner, again = (omkl.learner("auto", inputs=2) for _ in range(2))
    for one in (learner, again):
        one.partial_fit(X[:100], y[:100])
    y_hat, std = learner.predict(X[100:120], return_std=True)
    assert np.all(std > 0.0) and np.all(np.abs(y_hat - 5000) < 500)
    assert learner.predict_one(X[100]) == again.predict_one(X[100]) == y_hat[0]
    assert learner.spread == std[0]
    with pytest.raises(ValueError, match="raker predicts no standard deviation"):
        omkl.learner("raker", inputs=2).predict(X[:1], return_std=True)


def test_a_row_whose_target_was_not_requested_is_learned_without():
    """And one whose target never comes teaches how the inputs lie, as in a block."""
    X, y = (part[:150] for part in stream())
    for name in ("amkl", "amkl_random", "gf"):
        given = {"inputs": 2, "horizon": 150, "interval": 0.9, **SMALL}
        given |= {"eta_c": 1e9, "M": 3} if name == "amkl" else {}
        whole, asked, again = (omkl.learner(name, **given) for _ in range(3))
        trace = whole.partial_fit(X, y)
        for t, (x, target) in enumerate(zip(X, y, strict=True)):
            assert asked.predict_one(x) == trace.y_hat[t]
            assert asked.asks == (trace.asked[t] or (np.isnan(target) and asked.asks))
            asked.learn_one(x, target if asked.asks else None)
        again.partial_fit(X, np.where(trace.asked, y, np.nan))
        for one in (asked, again):
            np.testing.assert_array_equal(one.predict(X), whole.predict(X))
        assert name == "gf" or 0 < trace.asked.sum() < 140


def test_rows_by_name_are_rows_by_position():
    X, y = stream()
    by_place, by_name = omkl.learner("gf", inputs=2), omkl.learner("gf", inputs=["a", "b"])
    expected = by_place.partial_fit(X, y).y_hat
    frame = pd.DataFrame({"b": X[:, 1], "a": X[:, 0]})
    found = [by_name.partial_fit(frame[:100], y[:100]).y_hat]
    rows = [{"b": b, "a": None if math.isnan(a) else a} for a, b in X[100:]]
    found.append(by_name.partial_fit(rows[:50], y[100:150]).y_hat)
    found.append(by_name.partial_fit(X[150:], y[150:]).y_hat)
    np.testing.assert_array_equal(np.concatenate(found), expected)
    assert by_name.predict_one(rows[0]) == by_place.predict_one(X[100])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "gff"}, "there is no algorithm 'gff'. Did you mean gf?"),
        ({"algorithm": "pof_mkl"}, 'learns in a federation, which is a run: omkl.run('),
        ({"kernels": "rbf5"}, "there is no kernels=rbf5. Did you mean kernels=rbf51?"),
        ({"kernels": {"parts": []}}, "kernels.parts is empty"),
        ({"lamb": 1.0}, "there is no algorithm.lamb. Did you mean algorithm.lam?"),
        ({"lam": -1.0}, "algorithm.lam=-1 lies outside"),
        ({"eta": "1/sqrt(T)"}, "eta=1/sqrt(T) needs the number of rows T: give horizon=T"),
        ({"inputs": 0}, "inputs=0: say how many"),
        ({"inputs": ["a", "a"]}, "no name twice"),
        ({"D": 0}, "D=0 lies outside [1, inf)"),
        ({"seed": -1}, "seed=-1 lies outside [0, inf)"),
        ({"scaling": "whole"}, "scaling='whole' is none of columns, none: it looks ahead"),
        ({"interval": 90}, "interval=90 is not a number between 0 and 1"),
        ({"algorithm": "auto", "classes": "ab", "interval": 0.9}, "this is a classification"),
        ({"target_transform": "sqrt"}, "target_transform='sqrt' is none of 'log', the power of a"),
        ({"target_transform": 2}, "target_transform=2 is none of"),
        ({"features": "sobol"}, "features='sobol' is none of rff, orthogonal, qmc"),
        ({"features": "orthogonal"}, "laplacian kernels are a product over the inputs"),
        ({"algorithm": "omkr", "features": "qmc"}, "omkr draws none that can be placed"),
        ({"task": "classification"}, "gf is an algorithm for regression, not for classification"),
        ({"classes": "ab"}, "gf is for regression: there are no classes"),
        ({"algorithm": "auto_classifier"}, "so name the classes"),
        ({"algorithm": "auto", "classes": ["a", "a "]}, "from 2 to 10,000 different ones"),
        ({"algorithm": "auto", "classes": range(10**5)}, "classes=0, 1, 2, 3, 4 and 99,995 more:"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named(changes, message):
    with pytest.raises(ValueError) as error:
        omkl.learner(**{"algorithm": "gf", "inputs": 2, **changes})
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([1.0], "a row is x (2,), rows are X (n, 2); got (1,"),
        ([1.0, math.inf], "input b of row 1 is inf: no number"),
        ([1.0, 1e200], "input b of row 1 is 1e+200: beyond 1e+150; rescale it"),
        (["word", 1.0], "'word' where a number should be, as in the first rows"),
        ({"c": 1.0, "d": 2.0}, "these inputs came: c, d; the learner was made for: a, b"),
    ],
)
def test_a_wrong_row_is_named_and_nothing_is_learned(x, message):
    learner, expected = (omkl.learner("gf", inputs=["a", "b"], **SMALL) for _ in range(2))
    for call in (learner.predict_one, lambda x: learner.partial_fit([x], [1.0])):
        with pytest.raises(ValueError) as error:
            call(x)
        assert message in str(error.value)
    X, y = stream()
    for labels, words in (([1.0], "300 rows X and 1 labels y"), ([math.inf] * 300, "finite")):
        with pytest.raises(ValueError, match=words):
            learner.partial_fit(X, labels)
    found = learner.partial_fit(X, y).y_hat
    np.testing.assert_array_equal(found, expected.partial_fit(X, y).y_hat)


def test_a_learner_imports_the_compiler_and_the_yaml_reader_alone():
    program = """
import sys, omkl
assert not {"numpy", "numba", "yaml"} & sys.modules.keys()
omkl.learner("gf", inputs=2).predict_one([1.0, 2.0])
print(*sorted({name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names))
"""
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"numpy", "scipy", "numba", "yaml"} <= set(found)
    heavy = (
        "omegaconf mlflow hydra pandas matplotlib pyarrow sklearn rich pooch sqlalchemy requests"
    )
    assert not set(found) & set(heavy.split())


def test_partial_fit_returns_what_its_docs_list():
    X = np.random.default_rng(0).normal(size=(50, 3))
    learner = omkl.learner("raker", inputs=3, D=8, interval=0.9)
    said = learner.partial_fit(X, X[:, 0])
    assert said.y_hat.shape == said.asked.shape == said.spread.shape == (50,)
    inside = (said.low <= said.y_hat) & (said.y_hat <= said.high)
    assert np.all(inside, where=np.isfinite(said.low))


@pytest.mark.parametrize("transform", ["log", 0.5])
def test_target_transform_learns_transformed_targets(tmp_path, transform):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    y = np.exp(X[:, 0] + rng.normal(size=500))
    y[7] = np.nan
    settings = {"inputs": 2, "interval": 0.9, **SMALL}
    learner, by_hand = (
        omkl.learner("gf", **settings, **given) for given in ({"target_transform": transform}, {})
    )
    z = by_hand.partial_fit(X, np.log(y) if transform == "log" else 2.0 * (np.sqrt(y) - 1.0))
    said = learner.partial_fit(X, y)
    for ours, theirs in zip(
        (said.y_hat, said.low, said.high), (z.y_hat, z.low, z.high), strict=True
    ):
        back = np.exp(theirs) if transform == "log" else np.maximum(0.0, 1.0 + theirs / 2.0) ** 2
        np.testing.assert_allclose(ours, back)
    learner.save(tmp_path / "model.npz")
    loaded = omkl.load_learner(tmp_path / "model.npz")
    assert loaded.predict_one(X[3]) == learner.predict(X[3:4])[0]
    np.testing.assert_array_equal(loaded.interval, learner.predict_interval(X[3:4])[0])
    assert learner.explain(X[3]).sum() == pytest.approx(loaded.predict_one(X[3]))
    loaded.learn_one(X[3], 2.0)
    with pytest.raises(ValueError, match=r"target_transform needs targets of .* one is -1"):
        loaded.learn_one(X[3], -1.0)


def test_log_target_predicts_the_median():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 2))
    y = np.exp(X[:, 0] + rng.normal(size=2000))
    logs = omkl.learner("auto", inputs=2, interval=0.9, target_transform="log")
    plain = omkl.learner("auto", inputs=2)
    said = logs.partial_fit(X, y)
    errors, mean_errors = (
        np.abs(one - y)[500:] for one in (said.y_hat, plain.partial_fit(X, y).y_hat)
    )
    assert errors.mean() < 0.95 * mean_errors.mean()
    assert np.mean(said.y_hat[500:] < y[500:]) == pytest.approx(0.5, abs=0.05)
    expected = (
        said.y_hat * omkl.learner("auto", inputs=2, interval=0.9).partial_fit(X, np.log(y)).spread
    )
    np.testing.assert_allclose(said.spread[500:], expected[500:])
    known = said.low[500:]
    assert known.min() > 0.0 and np.mean((known <= y[500:]) & (y[500:] <= said.high[500:])) > 0.85
