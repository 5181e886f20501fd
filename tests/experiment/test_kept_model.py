"""A run keeps its learner, and the learner goes on from Python, to the bit."""

import numpy as np
import pandas as pd
import pytest

import omkl
from omkl.runs.run_folder import Run

SMALL = {"kernels": "gaussian17", "D": 4, "seeds": 1, "dataset": "file", "dataset.target": "y"}


@pytest.fixture
def frame():
    """Numbers, words and dates; some cells are blank."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=300)})
    frame["day"] = pd.date_range("2024-01-01", periods=300).strftime("%Y-%m-%d")
    frame["b"] = 300.0 * rng.normal(size=300)
    frame["town"] = np.where(rng.random(300) < 0.5, "Ulm", "Kiel")
    frame["y"] = 5000.0 + 200.0 * np.sin(frame["a"]) + 50.0 * (frame["town"] == "Ulm")
    frame.loc[[3, 200], ["b", "y"]] = np.nan
    return frame


def run_on(frame, tmp_path, name, **given):
    path = tmp_path / f"{name}.csv"
    frame.to_csv(path, index=False)
    return omkl.run(**{**SMALL, "dataset.path": path, "outputs": tmp_path / name, **given})


@pytest.mark.parametrize(
    "given",
    [
        {"algorithm": "gf", "interval": 0.9},
        {"algorithm": "auto", "stream.lags": 2},
        {"task": "classification", "stream.lags": 1},
    ],
    ids=str,
)
def test_a_kept_learner_goes_on_as_the_run_would_have(frame, tmp_path, given):
    frame = frame.dropna().reset_index(drop=True)
    if "task" in given:
        frame["y"] = np.where(frame["y"] > 5000.0, "high", "low")
    whole = run_on(frame, tmp_path, "whole", **given)
    first = run_on(frame[:177], tmp_path, "first", model=True, **given)
    learner = omkl.load_learner(first.model)
    assert learner.n_rows == 177
    rest = frame[177:]
    found = learner.partial_fit(rest[["town", "b", "day", "a"]], rest["y"])  # in any order
    expected = whole.predictions["y_hat"].to_numpy()[177:]
    np.testing.assert_array_equal(found.y_hat, expected)
    assert Run(first.folder).result


def test_a_learner_that_cannot_be_kept_is_refused(frame, tmp_path):
    cases = {
        "set seeds=1": {"seeds": 2},
        "Set stream.scaling=columns or none": {"stream.scaling": "whole"},
        "needs a run of one learner, not a federation": {
            "algorithm": "pof_mkl", "federation": "iid", "clients": 2},
        "dataset.prepare.scale_columns changes": {
            "+dataset.prepare.scale_columns": {"low": 0, "high": 1}},
    }  # fmt: skip
    for words, given in cases.items():
        with pytest.raises(RuntimeError, match=words):
            run_on(frame, tmp_path, "none", **{"algorithm": "gf", **given, "model": True})
    bare = run_on(frame, tmp_path, "bare", algorithm="gf")
    with pytest.raises(FileNotFoundError, match=r"has no model\.npz; a run keeps it"):
        bare.model  # noqa: B018
