"""A run keeps its learner, and another run goes on from it, to the bit."""

import shutil

import numpy as np
import pandas as pd
import pytest

import omkl
from omkl.experiment import run as runner
from omkl.runs.run_folder import Run

SMALL = {"kernels": "gaussian17", "D": 4, "seeds": 1, "dataset": "file", "dataset.target": "y",
         "regret.ridge_features": False, "regret.kernel_ridge": False}  # fmt: skip


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


def resumed(frame, tmp_path, folder, **given):
    path = tmp_path / "more.csv"
    frame.to_csv(path, index=False)
    given = {"dataset.path": path, "outputs": tmp_path / "resumed", **given}
    return omkl.run(resume=folder, **given)


@pytest.mark.parametrize(
    "given",
    [
        {"algorithm": "gf", "interval": 0.9},
        {"algorithm": "auto", "stream.lags": 2},
        {"algorithm": "amkl_random", "stream.lags": 1, "algorithm.eta": 0.1,
         "algorithm.eta_g": 0.1},
    ],
    ids=lambda given: given["algorithm"],
)  # fmt: skip
def test_a_run_goes_on_where_another_ended(frame, tmp_path, given):
    whole = run_on(frame, tmp_path, "whole", **given)
    first = run_on(frame[:177], tmp_path, "first", model=True, **given)
    columns = ["town", "b", "y", "day", "a"]  # in any order
    second = resumed(frame[177:][columns], tmp_path, first.folder, model=True)
    expected = whole.predictions["y_hat"].to_numpy()
    np.testing.assert_array_equal(second.predictions["y_hat"], expected[177:])
    if "interval" in given:
        np.testing.assert_array_equal(second.predictions["low"], whole.predictions["low"][177:])
    assert second["key"] != first["key"] and second["n_rounds"] + first["n_rounds"] == 298
    assert Run(second.folder).problem is None
    # The model of the second is that of the whole.
    inputs = omkl.load_learner(second.model).inputs
    assert inputs[:4] == ("a", "day.weekday", "day.day_of_year", "day.days_elapsed")
    rows = np.random.default_rng(1).normal(size=(9, len(inputs)))
    of_whole = run_on(frame, tmp_path, "whole", **given, model=True)
    first, other = (omkl.load_learner(run.model).predict(rows) for run in (second, of_whole))
    np.testing.assert_array_equal(first, other)


def test_classes_go_on_too(frame, tmp_path):
    frame["y"] = np.where(frame["y"] > 5000.0, "high", "low")
    given = {"task": "classification", "stream.lags": 1}
    whole = run_on(frame, tmp_path, "whole", **given)
    first = run_on(frame[:177], tmp_path, "first", model=True, **given)
    second = resumed(frame[177:190], tmp_path, first.folder)
    assert (second.folder / "model.npz").exists(), "who goes on once goes on again"
    rate = whole.curves.set_index("t")["error_rate"]
    mistakes = round(rate[190] * 190) - round(rate[177] * 177)
    assert second["mistakes"] == [mistakes] and second["n_rounds"] == 13
    learner = omkl.load_learner(first.model)
    assert learner.classes == ("high", "low") and learner.n_rows == 177


def test_who_learned_from_labels_from_outside_is_told_the_target(frame, tmp_path):
    answers = tmp_path / "answers.csv"
    lines = [f"{row},{frame['y'].fillna(0.0)[row - 1]}" for row in range(1, 301)]
    answers.write_text("\n".join(["row,label", *lines, ""]))
    outside = {"algorithm": "amkl_aks", "stream.labels": answers, "dataset.target": None}
    first = run_on(frame[["a", "b"]], tmp_path, "asked", **outside, model=True)
    second = resumed(frame[["a", "b", "y"]], tmp_path, first.folder, **{"dataset.target": "y"})
    assert second["stream"]["target"] == "y" and second["stream"]["inputs"] == ["a", "b"]


def test_what_cannot_be_kept_or_gone_on_with_is_said(frame, tmp_path):
    cases = {
        "set seeds=1": {"seeds": 2},
        "Set stream.scaling=columns or none": {"stream.scaling": "whole"},
        "are of one learner, not of a federation": {
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
    with pytest.raises(ValueError, match=r"has no model\.npz: a run keeps"):
        resumed(frame, tmp_path, bare.folder)
    kept = run_on(frame, tmp_path, "bare", algorithm="gf", model=True)
    assert kept["key"] == bare["key"]
    with pytest.raises(ValueError, match="goes on with the settings of its run: leave D out"):
        resumed(frame, tmp_path, kept.folder, D=7)
    with pytest.raises(ValueError, match=r"leave dataset\.target out"):
        resumed(frame, tmp_path, kept.folder, **{"dataset.target": "a"})
    more = {"dataset.path": tmp_path / "more.csv", "outputs": tmp_path / "x", "resume": kept.folder}
    with pytest.raises(ValueError, match=r"resume=.*gone: .*No such file"):
        omkl.run(**{**more, "resume": tmp_path / "gone"})
    same = omkl.run(**{**more, "resume": kept.model, "dataset.target": "y"})
    assert same["key"] == omkl.run(**more)["key"], "the folder or the model in it"
    shutil.copy(kept.model, tmp_path / "moved.npz")
    with pytest.raises(ValueError, match=r"moved\.npz: the model is not in its run folder"):
        omkl.run(**{**more, "resume": tmp_path / "moved.npz"})
    other = {**kept.config, "outputs": str(tmp_path), "resume": str(kept.folder), "D": 7,
             "force": True, "fail_fast": False}  # fmt: skip
    other["dataset"] = {**other["dataset"], "path": str(tmp_path / "more.csv"), "labels": None}
    told = runner.run(other).run.result["error"]["message"]
    assert told.startswith("resume= goes on from a model with D=4, and this run has 7")
    with pytest.raises(RuntimeError, match=r"the model has the columns a, day, b, town; the file "
                       r"has a, b, y, and not day, town\."):  # fmt: skip
        resumed(frame[["a", "b", "y"]], tmp_path, kept.folder)
    kept.model.write_bytes(kept.model.read_bytes()[:-99])
    assert "model.npz" in Run(kept.folder).problem
    with pytest.raises(ValueError, match="no model, or a damaged one"):
        resumed(frame, tmp_path, kept.folder)
