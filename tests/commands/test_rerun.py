"""Runs come out again from their folders alone, in another place."""

import shlex

import numpy as np
import pandas as pd
import pytest

from omkl.commands import run
from omkl.config.overrides import UsageError, read_jobs
from omkl.experiment import run as runner
from omkl.report import naming
from omkl.runs.run_folder import Run
from tests.compositions import compose

OWN = ("dataset=file", "dataset.path=own.csv", "dataset.target=y")
ROWS = "dataset.rows=60"
KINDS = {
    "learner": ("algorithm=raker", ROWS),
    "many settings": (
        *("algorithm=gf", "algorithm.M=5", 'algorithm.eta="0.5/sqrt(t)"', ROWS),
        *("seed=7", "dataset.change_at=0.5", "dataset.noise=0.3"),
    ),
    "kernels": ("algorithm=raker", ROWS, "kernels=rbf9", "features=qmc"),
    "own kernels": ("algorithm=raker", ROWS, "kernels.parts=[{family:gaussian,bandwidth:[0.1,1]}]"),
    "labels asked for": ("algorithm=amkl", ROWS),
    "classes": ("algorithm=omkc_sua_o", "task=classification", ROWS),
    "own file": (
        *("algorithm=ridge", "stream.lags=2", "interval=0.9", "model=true", "predictions=true"),
        *OWN,
    ),
    "seeds": ("algorithm=raker", "seeds=2", *OWN),
    "words": ("algorithm=omkc_da_p1", "task=classification", *OWN[:2], "dataset.target=colour"),
    "federation": ("algorithm=pof_mkl", ROWS, "federation=iid", "clients=3"),
    "column": ("algorithm=pof_mkl", *OWN, "federation=column", "dataset.client_column=shop"),
    "privacy": (
        *("algorithm=ofskl", ROWS, "federation=consecutive", "clients=3", "privacy.epsilon=8"),
    ),
}


def again_of(folder, typed):
    arguments, values = run.from_folder(folder, typed)
    return read_jobs(arguments, values=values).settings


@pytest.mark.slow(4)
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_comes_out_again_from_its_folder(tmp_path, monkeypatch, kind):
    if kind == "privacy":
        pytest.importorskip("dp_accounting", reason="the accountant is an extra")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    days = pd.date_range("2024-01-01", periods=60, freq="h")
    colours = rng.choice(["red", "blue"], size=60)
    table = {"day": days, "colour": colours, "x": rng.random(60), "y": rng.random(60)}
    pd.DataFrame(table | {"shop": np.arange(60) % 3}).to_csv("own.csv", index=False)
    quick = ["seeds=1", "D=3", "tracking=none", "figures=false"]
    first = runner.run(compose([*quick, *KINDS[kind], "outputs=here"]))
    assert first.status == "complete", first.run.result
    typed = ["outputs=there", "tracking=none", "figures=false"]
    (config,) = again_of(first.run.folder, typed)
    again = runner.run(config)
    assert again.status == "complete", again.run.result
    one, two = Run(first.run.folder), Run(again.run.folder)
    assert one.folder.name == two.folder.name, "it is the same run"
    for name in one.curves:
        np.testing.assert_array_equal(one.curves[name], two.curves[name], err_msg=name)
    assert {p.name for p in one.folder.iterdir()} == {p.name for p in two.folder.iterdir()}
    command = shlex.split(naming.command(one))  # as a page shows it
    options = run._parser().parse_args(command[1:])
    (config,) = again_of(options.folder, options.overrides)
    job = runner.prepare(config)
    assert command[0] == "omkl-run" and job.settings.key() == one.result["key"]


def test_what_is_typed_besides_counts_more(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    quick = ["seeds=1", "D=3", "tracking=none", "figures=false", ROWS]
    folder = runner.run(compose(["algorithm=gf", "algorithm.M=5", *quick])).run.folder
    (config,) = again_of(folder, ["algorithm.M=7", "D=4"])
    assert (config.algorithm.params["M"], config.D, config.dataset["rows"]) == (7, 4, 60)
    with pytest.raises(UsageError, match=r"no algorithm\.Mx\. Did you mean algorithm\.M\?"):
        again_of(folder, ["algorithm.Mx=7"])
    (other,) = again_of(folder, ["algorithm=raker"])
    assert other.algorithm.name == "raker" and "M" not in other.algorithm.params


def test_another_file_and_target_stand_beside_a_run_of_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"a": [1.0, 3.0, 2.0], "y": [0.0, 1.0, 3.0], "z": [2.0, 1.0, 0.0]})
    frame.to_csv("one.csv", index=False)
    quick = ["seeds=2", "tracking=none", "figures=false"]
    (config,) = read_jobs(["one.csv", "target=y", "algorithm=last", *quick]).settings
    folder = runner.run(config).run.folder
    (config,) = again_of(folder, ["target=z", "two.csv", "exclude=y"])
    (several,) = again_of(folder, ["dataset=file", "dataset.path=two.csv", "target=z"])
    assert several.seeds == 2, "that of the run, and not that of a new file"
    found = [config.dataset[key] for key in ("path", "target", "exclude")]
    assert found == ["two.csv", "z", "y"]


def test_a_folder_that_is_none_is_named(tmp_path):
    with pytest.raises(UsageError, match="there is no run folder"):
        run.from_folder(tmp_path, [])
