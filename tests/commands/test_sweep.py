"""Sweeps: their files, and other means than one job after another, with the same table."""

import csv
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import startup

from omkl.commands.sweep import Sweep, finish, work
from omkl.config.command_line import EXTRAS, CommandLine, UsageError, installed
from omkl.runs.run_folder import facts_of_jobs
from omkl.utils import threads
from tests.commands.test_cli import (
    TINY,
    interrupted,
    omkl_run,
    results_of,
    started,
    write_table,
)
from tests.compositions import compose

# --- the command line ---------------------------------------------------------------------------


def test_launcher_is_short_for_hydras_group(capsys):
    def line(*typed: str) -> list[str]:
        return CommandLine(["-m", "seeds=1,2", *typed]).checked()[1:]

    quick = ["figures=false", "tracking=none"]
    assert line("launcher=batch") == ["hydra/launcher=batch", *quick]
    assert "launcher=batch sets figures=false tracking=none." in capsys.readouterr().out
    assert line("hydra/launcher=batch", "figures=true") == [
        "hydra/launcher=batch", "figures=true", "tracking=none",
    ]  # fmt: skip
    assert line("launcher=batch", "launcher.workers=3", *quick)[:2] == [
        "hydra/launcher=batch", "hydra.launcher.workers=3",
    ]  # fmt: skip
    assert line("launcher=basic") == ["hydra/launcher=basic"]
    with pytest.raises(UsageError, match="launcher=batch runs the jobs of a sweep: add -m"):
        CommandLine(["launcher=batch"]).checked()
    with pytest.raises(UsageError, match=r"no launcher=bach\. Did you mean batch"):
        CommandLine(["-m", "launcher=bach"]).checked()


def test_a_launcher_that_is_not_installed_is_told_with_its_extra(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for launcher, (_, extra) in EXTRAS.items():
        told = rf"launcher={launcher} is not installed: .*pip install .*\[{extra}\]'"
        with pytest.raises(UsageError, match=told):
            CommandLine(["-m", f"launcher={launcher}"]).checked()


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, 1),
        ({"SLURM_CPUS_PER_TASK": "3", "OMP_NUM_THREADS": "2"}, 3),
        ({"OMP_NUM_THREADS": "2"}, 2),
        ({"OMP_NUM_THREADS": "4,2"}, 1),
        ({"OMKL_THREADS": "5", "SLURM_CPUS_PER_TASK": "3"}, 5),
    ],
)
def test_a_job_beside_others_takes_the_cores_it_was_given(monkeypatch, environment, expected):
    for name in ("OMKL_THREADS", "SLURM_CPUS_PER_TASK", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    threads.default_to_one_thread()
    assert threads.default_threads() == expected
    monkeypatch.delenv("OMKL_THREADS")


# --- the files of a sweep -------------------------------------------------------------------------

QUICK = (
    "algorithm=raker", "dataset.rows=30", "D=2", "seeds=1", "tracking=none", "figures=false",
    "regret.kernel_ridge=false", "kernels.parts=[{family: gaussian, bandwidth: [0.3, 1]}]",
)  # fmt: skip


def begin(folder: Path) -> tuple[Sweep, list[dict[str, Any]]]:
    """Start the sweep of D=2,3,3 in its folder; it and the configurations of its jobs."""
    configs = [compose([*QUICK, f"D={D}", f"outputs={folder / 'out'}"]) for D in (2, 3, 3)]
    return Sweep.begin(folder / "sweep", configs, ["D"]), configs


def run_job(sweep: Sweep, config: dict[str, Any], number: int) -> str | None:
    task = sweep.task(config, number)
    return task and work(task).text


def test_of_jobs_with_the_same_settings_the_first_runs(tmp_path, capsys):
    """Whatever their order: as processes of a cluster, which read the sweep from its folder."""
    sweep, (first, second, third) = begin(tmp_path)
    assert Sweep.read(sweep.folder) == sweep
    assert run_job(sweep, third, 2) is None
    assert "[3/3] raker on synthetic (D=3): the same as an earlier job" in capsys.readouterr().out
    assert "MSE" in run_job(sweep, second, 1)
    assert "MSE" in run_job(sweep, first, 0)
    assert [fact["number"] for fact, _ in facts_of_jobs(sweep.folder)] == [0, 1]


def test_a_sweep_that_is_started_again_finds_what_is_finished(tmp_path):
    """As a cluster does that puts it back into its queue."""
    sweep, (first, second, _) = begin(tmp_path)
    assert "MSE" in run_job(sweep, first, 0)
    sweep, _ = begin(tmp_path)
    assert facts_of_jobs(sweep.folder) == []
    assert run_job(sweep, first, 0).endswith("(found finished)")
    assert "MSE" in run_job(sweep, second, 1)
    assert [fact["status"] for fact, _ in facts_of_jobs(sweep.folder)] == ["reused", "complete"]
    assert finish(sweep, tmp_path / "out", figures=False)
    assert len((sweep.folder / "table.md").read_text().splitlines()) > 5


def test_failures_of_an_earlier_start_end_nothing(tmp_path):
    sweep, (config, *_) = begin(tmp_path)
    assert "failed" in run_job(sweep, config | {"D": -1}, 0)
    assert sweep.has_failed()
    sweep, _ = begin(tmp_path)
    assert not sweep.has_failed(), "with fail_fast nothing would run again"


def test_a_sweep_that_is_started_again_leaves_others_alone(tmp_path):
    """A job of the earlier start that is still at work, and files that no sweep has written."""
    sweep, (config, *_) = begin(tmp_path)
    task = sweep.task(config, 0)
    (sweep.folder / "jobs" / "notes.txt").write_text("mine")
    begin(tmp_path)
    assert "MSE" in work(task).text
    assert (sweep.folder / "jobs" / "notes.txt").read_text() == "mine"
    (tmp_path / "mine" / "jobs").mkdir(parents=True)
    (tmp_path / "mine" / "jobs" / "a-1.json").write_text("{}")
    Sweep.begin(tmp_path / "mine", [config], [])
    assert (tmp_path / "mine" / "jobs" / "a-1.json").exists(), "it was no folder of a sweep"


@pytest.mark.parametrize("fault", ["damaged", "removed"])
def test_a_damaged_run_is_named_and_left_out_of_the_table(tmp_path, capsys, fault):
    sweep, configs = begin(tmp_path)
    for number, config in enumerate(configs[:2]):
        assert "MSE" in run_job(sweep, config, number)
    fact, place = facts_of_jobs(sweep.folder)[0]
    folder = place.parent / fact["folder"]
    if fault == "removed":
        shutil.rmtree(folder)
    else:
        result = json.loads((folder / "result.json").read_text())
        (folder / "result.json").write_text(json.dumps(result | {"mse_mean": 0.0}))
    assert not finish(sweep, tmp_path / "out", figures=False)
    printed = capsys.readouterr()
    assert f"omkl: {folder.resolve()} is damaged and left out: " in printed.err
    assert (sweep.folder / "table.csv").exists()


# --- batch --------------------------------------------------------------------------------------

SWEEP = ["-m", "algorithm=raker,gf", "algorithm.M=3,4", "algorithm.lam=1e-3,1e-2", *TINY]


def table_of(sweep: Path) -> list[dict[str, str]]:
    """The final table without what differs from run to run."""
    with open(sweep / "table.csv", encoding="utf-8", newline="") as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


def numbers_of(outputs: Path) -> dict[str, tuple]:
    found = {name: json.loads(text) for name, text in results_of(outputs).items()}
    return {name: (r["mse"], r["regret"], r["params"]) for name, r in found.items()}


def only(paths: Iterator[Path]) -> Path:
    (path,) = paths
    return path


@pytest.fixture(scope="module")
def by_one_after_another(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("basic")
    write_table(folder / "my.csv")
    done = omkl_run(folder, *SWEEP, *my(folder))
    assert done.returncode == 0, done.stderr
    return folder


def my(folder: Path) -> Sequence[str]:
    return "dataset=file", f"dataset.path={folder / 'my.csv'}", "dataset.target=price"


def same_as_basic(basic: Path, folder: Path, out: str) -> None:
    assert numbers_of(folder / "outputs") == numbers_of(basic / "outputs")
    first, second = (only((f / "outputs" / "sweeps").iterdir()) for f in (basic, folder))
    assert table_of(second) == table_of(first)
    for number in (3, 5, 6, 7, 8):  # 2 and 4 are the same as 1 and 3, or they as these
        assert len(re.findall(rf"^\[{number}/8\] (gf|raker) on file .*: MSE", out, re.M)) <= 1
    assert len(re.findall(r"^\[\d/8\] gf on my\.csv \(M=\d, lam=0\.0\d+\): MSE", out, re.M)) == 4
    for text in results_of(folder / "outputs").values():
        assert json.loads(text)["threads"] == 1, "one core a job"


@pytest.mark.slow
def test_batch_is_the_same_as_one_after_another(by_one_after_another, tmp_path):
    typed = [*SWEEP, *my(by_one_after_another), "launcher=batch", "launcher.workers=2"]
    done = omkl_run(tmp_path, *typed, start=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout.count("the same as an earlier job") == 2
    same_as_basic(by_one_after_another, tmp_path, done.stdout)
    before = results_of(tmp_path / "outputs")
    again = omkl_run(tmp_path, *typed, "algorithm.lam=1e-3,1e-2,1e-1")
    assert again.stdout.count("(found finished)") == 6
    assert before.items() < results_of(tmp_path / "outputs").items()


@pytest.mark.slow
def test_batch_goes_on_after_failures(tmp_path):
    typed = ["-m", "launcher=batch", "algorithm=gf", "algorithm.M=3,900,4", *TINY]
    done = omkl_run(tmp_path, *typed, "dataset.rows=80")
    assert done.returncode == 1
    assert "[2/3] gf on synthetic (M=900): failed: algorithm.M=900 lies outside" in done.stdout
    assert "1 not complete" in done.stdout
    assert len(results_of(tmp_path / "outputs")) == 2
    done = omkl_run(tmp_path, *typed[:-5], "algorithm.M=900,5", *TINY, "fail_fast=true",
                    "launcher.workers=1", "dataset.rows=3000000")  # fmt: skip
    assert done.returncode == 1
    assert "[2/2]" not in done.stdout
    assert len(results_of(tmp_path / "outputs")) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("swept", "values"),
    [("dataset.target", ["a", "price"]), ("stream.horizon", ["1", "6", "24"])],
)
def test_targets_and_horizons_have_a_run_each_and_one_table(tmp_path, swept, values):
    """Each run equals the run that is typed alone, and its key has a column in the table."""
    write_table(tmp_path / "my.csv")
    own = ["my.csv", "dataset.exclude=[a,price]", "algorithm=ridge", *TINY, "tracking=none"]
    own += ["figures=false"] + ["target=price"] * (swept != "dataset.target")
    done = omkl_run(tmp_path, "-m", *own, f"{swept}={','.join(values)}")
    assert done.returncode == 0, done.stderr
    (table,) = (tmp_path / "outputs").glob("sweeps/*/table.csv")
    with open(table, encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["status"] == "complete"]
    assert [row[swept] for row in rows] == values
    for row in rows:
        folder = tmp_path / "outputs" / row["folder"]
        result = json.loads((folder / "result.json").read_text())
        assert float(row["mse"]) == result["mse_mean"]
        alone = omkl_run(tmp_path, *own, f"{swept}={row[swept]}", "outputs=alone")
        assert alone.returncode == 0, alone.stderr
        again = json.loads(
            (tmp_path / "alone" / Path(*folder.parts[-3:]) / "result.json").read_text()
        )
        assert (again["mse"], again["n_inputs"]) == (result["mse"], 1)


@pytest.mark.parametrize("typed", ["workers='two'", "workers=0"])
def test_batch_with_a_wrong_number_of_workers(tmp_path, typed):
    done = omkl_run(tmp_path, "-m", "launcher=batch", f"launcher.{typed}", *TINY)
    assert done.returncode == 2
    told = "is not a whole number of at least 1, and at most 1,024, or null"
    assert done.stderr == f"omkl-run: launcher.{typed} {told}\n"


BASIC = ["-m", "algorithm=gf", "algorithm.M=3", *TINY]
BATCH = [*BASIC, "launcher=batch", "launcher.workers=2"]


@pytest.mark.slow(2)
@pytest.mark.parametrize(
    ("launcher", "rows", "n_finished"),
    [(BASIC, "200,4000000,100", 1), (BATCH, "200,4000000,100,150", 3)],
    ids=["one after another", "batch"],
)
def test_an_interrupted_sweep_keeps_what_is_finished(tmp_path, launcher, rows, n_finished):
    with started(tmp_path, *launcher, f"dataset.rows={rows}") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(n_finished)]
        assert all(": MSE" in line for line in lines), lines
        time.sleep(0.7 if n_finished == 1 else 0.0)  # until the next is at work
        out, _ = interrupted(process)
    assert "OMKL-GF" in out, "the table of what is finished"
    assert f"[{rows.count(',') + 1}/" not in out
    before = results_of(tmp_path / "outputs")
    assert len(before) == n_finished
    files = [p for p in (tmp_path / "outputs" / "runs").rglob("*") if p.is_file()]
    assert {p.parent.name for p in files} == set(before), "nothing of the interrupted job is left"
    done = omkl_run(tmp_path, *launcher, f"dataset.rows={rows.replace('4000000', '300')}")
    assert done.returncode == 0
    assert done.stdout.count("(found finished)") == n_finished
    assert before.items() <= results_of(tmp_path / "outputs").items()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="children are looked up in /proc")
def test_what_a_killed_worker_was_at_is_done_again_by_itself(tmp_path):
    """One that kills its process again fails alone: tests/experiment/test_queue.py."""
    with started(tmp_path, *BATCH, "dataset.rows=200,600000,100,150") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        assert all(": MSE" in line for line in lines), lines
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(at_work([*map(int, children)]), signal.SIGKILL)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "[2/4] gf on synthetic (dataset.rows=600000): MSE" in out


def at_work(pids: Sequence[int]) -> int:
    """The process that computes; multiprocessing has a child of its own, and one waits."""

    def ticks(pid: int) -> int:
        text = Path(f"/proc/{pid}/stat").read_text()
        return sum(map(int, text.rpartition(")")[2].split()[11:13]))

    before = {pid: ticks(pid) for pid in pids}
    time.sleep(0.4)
    return max(pids, key=lambda pid: ticks(pid) - before[pid])


# --- the engines of others ----------------------------------------------------------------------


def available(launcher: str) -> str | None:
    """Why an engine cannot be tested here; None if it can."""
    package, extra = EXTRAS[launcher]
    if not installed(package):
        return f"{package} is not installed (extra {extra!r})"
    if launcher == "submitit_slurm":
        if shutil.which("sbatch") is None:
            return "there is no Slurm on this machine (sbatch)"
        state = subprocess.run(["sinfo", "-h", "-o", "%T"], capture_output=True, text=True)
        if not re.search("idle|mixed|allocated|completing", state.stdout):
            return f"Slurm has no node that works: {state.stdout or state.stderr}".strip()
    return None


@pytest.mark.slow
@pytest.mark.parametrize("launcher", EXTRAS)
def test_engine_gives_the_same_table(by_one_after_another, tmp_path, launcher):
    if reason := available(launcher):
        pytest.skip(reason)
    workers = {"joblib": ["launcher.n_jobs=2"], "ray": ["+launcher.ray.init.num_cpus=2"]}
    typed = [*SWEEP, *my(by_one_after_another), f"launcher={launcher}"]
    # Others may have work on a cluster as well.
    done = omkl_run(tmp_path, *typed, *workers.get(launcher, []), patience=600.0)
    assert done.returncode == 0, done.stdout + done.stderr
    same_as_basic(by_one_after_another, tmp_path, done.stdout)


# --- start-up -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_mode_that_is_set_is_found(tmp_path):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "many.yaml").write_text(
        "# @package _global_\nhydra:\n  mode: MULTIRUN\n  sweeper:\n    params: {seed: '1,2'}\n"
    )
    done = omkl_run(tmp_path, "--config-dir=.", "+experiment=many", *TINY, "dataset.rows=60")
    assert "[2/2] sfg_r on synthetic (seed=2): MSE" in done.stdout + done.stderr
    done = omkl_run(tmp_path, "hydra.mode=MULTIRUN", "seed=1,2", *TINY, "dataset.rows=60")
    assert "[2/2] sfg_r on synthetic (seed=2): " in done.stdout + done.stderr


def test_startup_tells_where_the_time_goes(monkeypatch):
    """What is started is not started here."""

    def started(words, **options):
        code = words[words.index("-c") + 1] if "-c" in words else ""
        exec(code.partition(";")[0], {})  # what is imported is there
        outputs = [Path(word[8:]) for word in words if word.startswith("outputs=")]
        if outputs and outputs[0].name != "plain":
            folder = outputs[0] / "runs" / "synthetic" / "gf-1"
            folder.mkdir(parents=True)
            (folder / "result.json").write_text('{"seconds": 0.25}')

    monkeypatch.setattr(startup.subprocess, "run", started)
    measured = startup.measure(TINY, repeat=1)
    assert measured["rounds"] == 0.25 and measured["arguments"] == TINY
    seconds = dict(re.findall(r"^  (\w[\w ]*?) +([\d.]+) s", startup.table(measured), re.M))
    assert list(seconds) == ["libraries", "imports", "rounds", "plain", "total"]
