"""``omkl.open_stream``, ``omkl.run`` and ``omkl.load``: a run from Python and its numbers."""

import inspect
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import omkl
from omkl import algorithms
from omkl.datasets import DataError
from tests.conftest import read_csv

QUICK = {"dataset": "file", "kernels": "gaussian17", "D": 4}


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 2)), columns=["a", "b"])
    frame["y"] = 10.0 + frame["a"]
    path = tmp_path / "my own, file.csv"
    frame.to_csv(path, index=False)
    return path


def test_a_file_is_a_stream_of_blocks(file):
    stream = omkl.open_stream(file, "y", scaling="none")
    X, y = next(stream.blocks(1000))
    frame = read_csv(file)
    np.testing.assert_array_equal(X, frame[["a", "b"]])
    np.testing.assert_array_equal(y, frame["y"])
    assert stream.inputs == ("a", "b") and omkl.open_stream(file, "y").scaling == "columns"
    lagged = omkl.open_stream(str(file), "y", inputs=["b"], lags=1, limit=50)
    assert lagged.inputs == ("b", "y 1 before")
    assert sum(len(y) for _, y in lagged.blocks(7)) == 50


def test_what_there_is_no_stream_of_is_named(file):
    with pytest.raises(ValueError, match=r"no dataset=airfol\. Did you mean dataset=airfoil\?"):
        omkl.open_stream("airfol")
    with pytest.raises(
        ValueError, match=r"there is no lag\. Did you mean lags\? There are: lags, "
    ):
        omkl.open_stream(file, "y", lag=1)
    with pytest.raises(DataError, match="say which column to predict"):
        omkl.open_stream(file)
    with pytest.raises(DataError, match="no data file"):
        omkl.open_stream(file.with_name("gone.csv"), "y")


def test_a_stream_without_two_targets_is_no_stream(file):
    """Where the limit alone leaves none it is told at once, else when the file has ended."""
    with pytest.raises(DataError, match="2 rows with the target of the row 30 later, 0 came"):
        omkl.open_stream(file, "y", horizon=30, limit=8)
    stream = omkl.open_stream(file, "y", horizon=199)
    with pytest.raises(DataError, match="2 rows with the target of the row 199 later, 1 came"):
        list(stream.blocks(1000))


def test_a_run_and_its_data_frames(file, tmp_path):
    given = {"dataset.path": file, "dataset.target": "y", "outputs": tmp_path / "out"}
    run = omkl.run("algorithm=raker", seeds=2, **QUICK, **given)
    assert run["algorithm"] == "raker" and run["n_rounds"] == 200 and run.config["D"] == 4
    assert dict(run.seeds["mse"].items()) == dict(enumerate(run["mse"]))
    assert set(run.curves["seed"]) == {0, 1}
    last = run.curves.groupby("seed").last()
    assert last["mse"].tolist() == run["mse"] and last["t"].tolist() == [200, 200]
    assert {"baseline_mean", "labels"} <= set(run.curves)
    with pytest.raises(FileNotFoundError, match=r"no predictions\.parquet.* predictions=true"):
        run.predictions  # noqa: B018
    again = omkl.load(run.folder)
    assert again == run and again.folder == run.folder
    assert not list(run.folder.glob("*.png"))


def test_what_cannot_run_is_an_error(file, tmp_path):
    given = {"outputs": tmp_path / "out", **QUICK}
    with pytest.raises(ValueError, match=r"there is no algorithm=rakr\. Did you mean raker\?"):
        omkl.run("algorithm=rakr", **given)
    with pytest.raises(RuntimeError, match=r"say which file: dataset\.path=PATH"):
        omkl.run(**given)
    with pytest.raises(ValueError, match=r"is no run folder: there is no result\.json"):
        omkl.load(tmp_path)


def test_what_omkl_has_is_listed_and_nothing_else_is_there():
    assert set(omkl.__all__) <= set(dir(omkl))
    with pytest.raises(AttributeError, match="has no attribute 'learners'"):
        omkl.learners  # noqa: B018


def test_no_parameter_of_an_algorithm_is_called_as_a_setting_of_every_learner():
    settings = set(inspect.signature(omkl.learner).parameters)
    for name in algorithms.names():
        assert not settings & set(algorithms.load(name).Params._fields), name


@pytest.mark.parametrize("params", [{"no_such": None}, {"eta": None}])
def test_a_parameter_of_none_is_refused_by_its_name(params):
    with pytest.raises(ValueError, match=next(iter(params))):
        omkl.learner("raker", inputs=2, **params).learn_one([0.0, 1.0], 1.0)


LIGHT = """
import sys
HIDDEN = ("pandas", "matplotlib", "hydra", "pydantic", "joblib", "mlflow")
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ImportError(f"{name} is hidden")
sys.meta_path.insert(0, Finder())
import omkl
rows = [[0.1 * k, k % 3] for k in range(30)]
for algorithm in ("raker", "ridge"):
    by_name, by_place = (omkl.learner(algorithm, kernels="gaussian17", D=4) for _ in range(2))
    for x in rows:
        assert by_name.predict_one({"a": x[0], "b": x[1]}) == by_place.predict_one(x)
        by_name.learn_one({"a": x[0], "b": x[1]}, x[0])
        by_place.learn_one(x, x[0])
"""


def test_a_learner_of_numbers_imports_no_library_of_runs():
    subprocess.run([sys.executable, "-c", LIGHT], check=True)
