"""Labels from outside: who is asked, when, and what is kept."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from omkl.checks import learners
from omkl.checks.learners import Case, default_settings
from omkl.datasets import label_sources
from omkl.experiment import metrics
from omkl.experiment import run as runner
from tests.compositions import compose

ROWS = 40
BASE = ("kernels=gaussian17", "D=4", "seeds=1", "tracking=none", "figures=false")
CONFIDENT = ("algorithm=amkl", "algorithm.eta_c=1e9", "algorithm.M=3")  # asks every fourth time


@pytest.fixture
def unlabelled(tmp_path):
    """A file without a target: two inputs, and the answers by row."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(ROWS, 2)).round(4)
    path = tmp_path / "new.csv"
    path.write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in X))
    return path, {row: round(float(x[0] - x[1]), 4) for row, x in enumerate(X, start=1)}


def settings(path, outputs, *more):
    return [*BASE, *CONFIDENT, "dataset=file", f"dataset.path={path}", f"outputs={outputs}", *more]


def folder_of(outputs):
    (found,) = outputs.glob("runs/*/*/labels.csv")
    return found.parent


def kept(folder):
    with open(folder / "labels.csv", newline="") as file:
        return {int(line["row"]): float(line["label"]) for line in csv.DictReader(file)}


def start(arguments, answers):
    """omkl-run as a process with lines on its standard input."""
    command = [sys.executable, "-c", "from omkl.commands import omkl_run; omkl_run()", *arguments]
    text = "".join(f"{answer}\n" for answer in answers)
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
def test_a_prompt_asks_only_when_the_learner_wants_to_know(unlabelled, tmp_path):
    path, truth = unlabelled
    arguments = settings(path, tmp_path / "out", "stream.labels=prompt")
    asked = list(range(1, ROWS + 1, 4))
    answers = [truth[row] for row in asked]
    first = start(arguments, ["what?", *answers[:3]])  # a slip of the pen, and then the line ends
    assert first.returncode == 1
    assert first.stderr.count("label: ") == 5 and "'what?' is no finite number" in first.stderr
    assert "row 13: the learner asks for a label and no more are given" in first.stderr
    assert kept(folder_of(tmp_path / "out")) == {row: truth[row] for row in asked[:3]}

    second = start(arguments, answers[3:])  # goes on where it ended
    assert second.returncode == 0, second.stderr
    assert second.stderr.count("label: ") == len(asked) - 3
    assert "row 1:" not in second.stderr and "row 13: a " in second.stderr
    assert "10 requested, AL_eff 0.25" in second.stdout
    assert "rows with a target" in second.stdout
    assert kept(folder_of(tmp_path / "out")) == {row: truth[row] for row in asked}

    third = start(arguments, [])
    assert third.returncode == 0 and "Found finished" in third.stdout


def test_a_prompt_shows_rows_as_they_stand_in_the_file(unlabelled, tmp_path, monkeypatch, capsys):
    path, truth = unlabelled
    answers = "".join(f"{truth[row]}\n" for row in range(1, ROWS + 1, 4))
    monkeypatch.setattr("sys.stdin", io.StringIO(answers))
    assert runner.run(compose(settings(path, tmp_path, "stream.labels=prompt"))).run.complete
    told = capsys.readouterr().err
    lines = path.read_text().splitlines()
    for row in (1, 5, 37):
        a, b = lines[row].split(",")
        assert f"row {row}: a {float(a):g}, b {float(b):g}\n" in told


def test_a_file_and_a_function_give_what_the_prompt_gives(unlabelled, tmp_path):
    path, truth = unlabelled
    answers = tmp_path / "answers.csv"
    answers.write_text("row,label\n" + "".join(f"{row},{y}\n" for row, y in truth.items()))
    config = compose(settings(path, tmp_path / "file", f"stream.labels={answers}"))
    from_file = runner.run(config)
    assert from_file.status == "complete", from_file.run.result
    calls = []

    def label(row, x, y_hat):
        assert x.shape == (2,) and np.isfinite(y_hat)
        calls.append(row)
        return truth[row]

    from_function = runner.run(compose(settings(path, tmp_path / "f")), label=label)
    assert calls == list(range(1, ROWS + 1, 4))
    a, b = from_file.run.result, from_function.run.result
    assert a["mse"] == b["mse"] and a["labels"] == b["labels"] == len(calls)
    assert a["mse_over"] == "rounds with a label but the first" and "/" not in json.dumps(
        a["stream"]["files"]
    )
    assert all("skipped" in entry for entry in a["regret"].values())
    assert str(tmp_path) not in (from_file.run.folder / "config.yaml").read_text()
    assert runner.run(config).status == "reused"
    answers.write_text(answers.read_text().replace(f"1,{truth[1]}\n", "1,0.123\n", 1))
    assert runner.run(config).status == "complete"  # other answers, another run
    again = runner.run(compose(settings(path, tmp_path / "f")), label=label)
    assert again.status == "complete" and len(calls) == 20  # a function is always asked


@pytest.mark.parametrize("name", ["raker", "amkl_aks", "omkr", "gf"])
def test_the_learner_is_the_same_whoever_gives_labels(name):
    """Bit for bit, and the labels that it did not want are never asked for."""
    X, y = learners.stream(200)
    inside, outside = (Case(name, default_settings(name)).learner(T=200) for _ in range(2))
    trace = inside.partial_fit(X, y)
    calls = []

    def label(row, x, y_hat):
        calls.append(row)
        assert y_hat == trace.y_hat[row - 1]
        return y[row - 1]

    first, y_first = label_sources.learn(outside, X[:120], label)
    second, y_second = label_sources.learn(outside, X[120:], label, before=120)
    for n, parts in enumerate(zip(first, second, strict=True)):
        np.testing.assert_array_equal(np.concatenate(parts), trace[n])
    assert calls == (np.flatnonzero(trace.asked) + 1).tolist()
    got = np.concatenate([y_first, y_second])
    np.testing.assert_array_equal(got, np.where(trace.asked, y, np.nan))


def failure(config, **more):
    outcome = runner.run(config, **more)
    assert outcome.status == "failed"
    return outcome.run.result["error"]["message"]


def test_what_cannot_be_asked_is_said(unlabelled, tmp_path):
    path, _ = unlabelled
    answers = tmp_path / "answers.csv"

    def told(text, *more):
        answers.write_text(text)
        overrides = settings(path, tmp_path / "out", f"stream.labels={answers}", *more)
        return failure(compose(overrides))

    assert "row 5: the learner asks for its label and answers.csv has none" in told(
        "row,label\n1,0.5\n"
    )
    assert "columns row (from 1) and label" in told("1,0.5\n")
    assert "columns row (from 1) and label" in told("row,label\n1,nan\n")
    assert "two labels for one row" in told("row,label\n1,0.5\n1,0.6\n")
    assert "set seeds=1" in told("row,label\n1,0.5\n", "seeds=2")

    def config(labels):
        return compose(settings(path, tmp_path / "out", f"stream.labels={labels}"))

    assert "none of data, prompt, callback" in failure(config("phone"))
    assert "omkl.experiment.run.run(config, label=function)" in failure(config("callback"))
    assert "cannot read the labels" in failure(config("nowhere.csv"))
    assert "say which column to predict" in failure(config("data"))
    wrong = failure(config("data"), label=lambda row, x, y_hat: float("inf"))
    assert "the label of row 1 is inf" in wrong


def test_the_target_of_the_data_is_not_looked_at(tmp_path):
    """A catalogued or synthetic stream has one; with labels from outside it is NaN."""
    config = compose([*BASE, *CONFIDENT, "dataset.rows=60", f"outputs={tmp_path}"])
    outcome = runner.run(config, label=lambda row, x, y_hat: 0.25 + 1e-3 * row)
    assert outcome.status == "complete", outcome.run.result
    assert "truth" not in outcome.run.result["regret"]
    with open(Path(outcome.run.folder) / "labels.csv") as file:
        assert file.read().startswith("row,label\n1,0.251\n5,0.255\n")


def test_seeds_that_request_as_many_targets_have_no_deviation():
    """Of their shares there may be one, by rounding."""
    requested = np.full(3, 95)
    cost = metrics.label_cost(np.ones(3), requested, 400)
    assert cost["al_efficiency"] == pytest.approx(0.2375) and cost["al_efficiency_std"] == 0.0
    assert np.std(requested / 400, ddof=1) > 0.0


def test_a_run_says_what_its_labels_cost(tmp_path):
    """Errors of all rounds count, (54), with a label or without; labels over rounds is (55)."""
    more = ("dataset.rows=60", "seeds=3", f"outputs={tmp_path}")
    config = compose([*BASE, *CONFIDENT, *more])
    run = runner.run(config).run
    result, curves = run.result, run.curves
    assert result["labels_per_seed"] == [15, 15, 15] and result["labels"] == 15
    assert (result["al_efficiency"], result["al_efficiency_std"]) == (0.25, 0.0)
    assert result["mse_over"] == "all rounds"
    assert result["mse_per_label"] == pytest.approx(result["mse_mean"] / 15)
    np.testing.assert_array_equal(curves["labels"], np.tile((curves["t"] + 3) // 4, (3, 1)))
    job = runner.prepare(config)
    X, y = next(iter(job.stream.blocks(60)))
    trace = job.learner(1).partial_fit(X, y)
    assert result["mse"][1] == pytest.approx(np.mean((trace.y_hat - y) ** 2), rel=1e-12)

    passive = runner.run(compose([*BASE, "algorithm=raker", *more])).run.result
    assert (passive["al_efficiency"], passive["labels"]) == (1.0, 60)
    assert passive["mse_per_label"] == pytest.approx(passive["mse_mean"] / 60)


def test_a_target_that_nobody_named_is_no_column(unlabelled, tmp_path):
    path, truth = unlabelled
    answers = tmp_path / "answers.csv"
    answers.write_text("row,label\n" + "".join(f"{row},{y}\n" for row, y in truth.items()))
    config = compose(settings(path, tmp_path / "file", f"stream.labels={answers}"))
    assert runner.run(config).run.result["stream"]["target"] == "label"
