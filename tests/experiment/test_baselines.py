"""What stands beside every result: mean, last label and ridge; accuracy in units of the target."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from omkl.experiment import metrics
from omkl.experiment import run as runner
from omkl.experiment.metrics import Accuracy, Baselines, Rounds
from omkl.runs.run_folder import Run
from tests.compositions import compose

SMALL = ("kernels=gaussian17", "D=4", "seeds=2", "tracking=none", "figures=false")


def run(folder, *overrides, **given) -> Run:
    config = compose([*SMALL, *overrides, f"outputs={folder / 'out'}"])
    outcome = runner.run(config, **given)
    assert outcome.status != "failed", outcome.run.result["error"]
    return outcome.run


@pytest.fixture
def file(tmp_path):
    """120 rows of two inputs and a target between 100 and 200."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (120, 2)).round(3)
    y = (150 + 40 * X[:, 0] + 5 * rng.normal(size=120)).round(2)
    path = tmp_path / "my.csv"
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "price": y}).to_csv(path, index=False)
    return path


def of(path, *more):
    return ("dataset=file", f"dataset.path={path}", "dataset.target=price", *more)


# --- by hand --------------------------------------------------------------------------------------


ALL = np.ones(3, dtype=bool)  # three labels, all of them scored


def told(n_inputs, unit=1.0):
    """What of a stream decides how labels are told: as they are."""
    return SimpleNamespace(
        n_inputs=n_inputs, target_unit=unit, scaling="none", n_lags=0, classes=(), target_delay=0,
        has_series=False,
    )  # fmt: skip


def test_three_rounds_by_hand():
    """Labels 1, 3, 2 in units of 2: the mean says 0, 1, 2, the last label 0, 1, 3."""
    found = Baselines(told(1, 2.0))
    found.add(Rounds(np.zeros((3, 1)), np.array([1.0, 3.0, 2.0]), ALL))
    entries = found.entries()
    assert entries["mean"] == pytest.approx({"rmse": 2 * (5 / 3) ** 0.5, "mae": 2.0, "mse": 5 / 3})
    assert entries["last"] == pytest.approx({"rmse": 2 * 2**0.5, "mae": 8 / 3, "mse": 2.0})
    curves = found.curves(np.arange(1, 4), 0)
    assert curves["baseline_last"].tolist() == [1.0, 2.5, 2.0]
    assert list(entries) == ["mean", "last", "ridge"]


def test_a_label_that_is_not_scored_is_learned_all_the_same():
    found = Baselines(told(1))
    found.add(Rounds(np.zeros((3, 1)), np.array([7.0, 7.0, 9.0]), np.arange(3) > 0))
    assert found.entries()["last"] == {"rmse": 2**0.5, "mae": 1.0, "mse": 2.0}
    assert found.curves(np.array([1, 2]), 1)["baseline_last"].tolist() == [0.0, 2.0]


def test_labels_that_are_not_known_are_neither_learned_nor_counted():
    found = Baselines(told(1))
    y = np.array([1.0, np.nan, np.nan, 3.0])
    found.add(Rounds(np.zeros((4, 1)), y, ~np.isnan(y)))
    assert found.entries()["last"] == {"rmse": 2.5**0.5, "mae": 1.5, "mse": 2.5}
    assert found.curves(np.array([1, 2]), 0)["baseline_last"].tolist() == [1.0, 2.5]


def test_accuracy_is_what_scikit_learn_says():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(1)
    y, y_hat = 1e6 + rng.normal(size=500), 1e6 + rng.normal(size=(2, 500))
    accuracy = Accuracy(2, 3.0)
    for rows in (slice(0, 7), slice(7, 7), slice(7, 500)):
        accuracy.add(y_hat[:, rows] - y[rows], y[rows])
    for r in range(2):
        assert accuracy.r2[r] == pytest.approx(metrics.r2_score(y, y_hat[r]), rel=1e-9)
        own = 3.0 * y, 3.0 * y_hat[r]
        assert accuracy.mae[r] == pytest.approx(metrics.mean_absolute_error(*own), rel=1e-9)
        assert accuracy.rmse[r] == pytest.approx(metrics.root_mean_squared_error(*own), rel=1e-9)


def test_what_overflows_is_left_out_and_says_so():
    found = Baselines(told(1))
    X, y = np.array([[1e200], [1e200], [1.0]]), np.array([1e200, -1e200, 1.0])
    found.add(Rounds(X, y, ALL))
    assert found.entries()["mean"] == {"skipped": "its predictions are not finite"}


# --- in a run -------------------------------------------------------------------------------------


def test_baselines_of_a_run_are_the_algorithms_alone(file, tmp_path):
    beside = run(tmp_path, "algorithm=raker", *of(file))
    for name in ("mean", "last", "ridge"):
        alone = run(tmp_path, f"algorithm={name}", *of(file))
        entry = beside.result["baselines"][name]
        assert entry["mse"] == alone.result["mse_mean"]
        assert (entry["rmse"], entry["mae"]) == (alone.result["rmse"], alone.result["mae"])
        np.testing.assert_array_equal(beside.curves[f"baseline_{name}"], alone.curves["mse"][0])
    again = run(tmp_path / "7", "algorithm=raker", *of(file, "block=7"))
    for key in ("baselines", "rmse", "mae", "r2"):
        assert again.result[key] == beside.result[key]


def test_errors_are_in_units_of_the_target(file, tmp_path):
    y = pd.read_csv(file)["price"].to_numpy()
    whole = run(tmp_path, "algorithm=last", *of(file, "stream.scaling=whole")).result
    plain = run(tmp_path, "algorithm=last", *of(file, "stream.scaling=none")).result
    assert whole["target_unit"] == y.max() - y.min() and plain["target_unit"] == 1.0
    for result, first in ((whole, y.min()), (plain, 0.0)):
        errors = np.concatenate([[first], y[:-1]]) - y
        assert result["mae"] == pytest.approx(np.abs(errors).mean(), rel=1e-9)
        assert result["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-9)
        assert result["r2"] == pytest.approx(1 - np.mean(errors**2) / y.var(), rel=1e-6)
        assert result["baselines"]["last"]["rmse"] == result["rmse"]


def test_baselines_know_every_label_of_the_data(file, tmp_path):
    """Also those that the learner does not ask for."""
    seldom = run(tmp_path, "algorithm=amkl_random", "algorithm.rate=0.2", *of(file)).result
    always = run(tmp_path, "algorithm=raker", *of(file)).result
    assert seldom["labels"] < 100 and seldom["baselines"] == always["baselines"]


def test_no_baseline_has_seen_a_label_before_it_predicts_it(file, tmp_path):
    before = run(tmp_path, "algorithm=raker", *of(file, "stream.scaling=none")).curves
    table = pd.read_csv(file)
    table.loc[70:, "price"] = -1000.0
    table.to_csv(file, index=False)
    after = run(tmp_path, "algorithm=raker", *of(file, "stream.scaling=none")).curves
    for name in ("mean", "last", "ridge"):
        one, other = before[f"baseline_{name}"], after[f"baseline_{name}"]
        np.testing.assert_array_equal(one[:70], other[:70])
        assert one[70] != other[70]


def test_ridge_is_left_out_where_inputs_are_too_many(file, tmp_path, monkeypatch):
    monkeypatch.setattr(metrics, "MOST_INPUTS", 1)
    result = run(tmp_path, "algorithm=raker", *of(file)).result
    assert result["baselines"]["ridge"] == {"skipped": "2 inputs are more than 1"}
    assert set(result["baselines"]["mean"]) == {"rmse", "mae", "mse"}


def test_a_kernel_that_overflows_does_not_lose_the_run(tmp_path):
    """1.1^78 / 10 in round 2 leaves it no weight; 100^78 / 10 in round 3 has no square."""
    path = tmp_path / "large.csv"
    rows = ["10,1", "0.11,0.5", "10,0.5", *("0,0.5" for _ in range(8))]
    path.write_text("\n".join(["a,price", *rows]) + "\n")
    parts = "[{family:gaussian,bandwidth:1.0},{family:polynomial,degree:78}]"
    plain = ("stream.scaling=none",)
    found = run(tmp_path, "algorithm=omkr", *of(path, *plain, f"kernels.parts={parts}"))
    text = (found.folder / "result.json").read_text()
    assert json.loads(text)["max_kernel_squared_error"] is None
    assert found.result["mse_mean"] < 1e3
    assert found.curves["weights"].tolist() == [[1.0, 0.0]]


# --- classification -------------------------------------------------------------------------------


@pytest.fixture
def classes(tmp_path):
    def write(kinds, values=None):
        path = tmp_path / "classes.csv"
        frame = pd.DataFrame({"a": np.arange(len(kinds)) if values is None else values})
        frame.assign(kind=kinds).to_csv(path, index=False)
        names = ",".join(sorted(set(kinds)))
        file = ["dataset=file", f"dataset.path={path}", "dataset.target=kind"]
        more = [f"dataset.labels=[{names}]"]
        return ["task=classification", "algorithm=omkc_da_p1", *file, *more]

    return write


def test_classes_by_hand(classes, tmp_path):
    """n p p n p p: the mean of labels says nothing, n, nothing, p, nothing, p."""
    found = run(tmp_path, *classes(list("nppnpp"), np.zeros(6)))
    told = {name: 6 * entry["error_rate"] for name, entry in found.result["baselines"].items()}
    assert list(told) == ["constant", "last", "ridge"]
    assert told["constant"] == pytest.approx(5) and told["last"] == pytest.approx(4)
    assert (6 * found.curves["baseline_last"][-1]) == pytest.approx(4)


def test_three_classes(classes, tmp_path):
    """The first of equal answers: x before anything is known."""
    kinds = list("yyzyxy")
    found = run(tmp_path, *classes(kinds))
    told = {name: 6 * entry["error_rate"] for name, entry in found.result["baselines"].items()}
    assert told["last"] == pytest.approx(5) and told["constant"] == pytest.approx(3)
