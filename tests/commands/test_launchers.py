"""Sweeps by other means than one job after another: the same numbers and the same table."""

from __future__ import annotations

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
from multiprocessing import Pipe
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from omkl import conf, threads
from omkl.commands import batch_launcher
from omkl.commands.sweep import Sweep
from omkl.config.command_line import EXTRAS, CommandLine, UsageError
from omkl.runs import config_file
from omkl.runs.sweeps import facts_of_jobs
from tests.commands.test_cli import (
    TINY,
    environment,
    interrupted,
    omkl_run,
    results_of,
    started,
    write_table,
)


@pytest.mark.parametrize(
    "value",
    [
        "1e-3", "y", "No", "null", "~", "a: b", "0.1/sqrt(t)", "", "2020-01-01", "nan", "1_000",
        "0x1f", "1:30", "é # x", "line\ntwo", "'q'", None, 1e-3, 1e22, 1.5e-300, True, float("inf"),
        -3, [1, [2.5, None]], {}, [], {"a": {"b": "true"}},
    ],
    ids=repr,
)  # fmt: skip
def test_config_files_are_as_omegaconf_reads_and_writes_them(value):
    config = {"value": value, "list": [value, value]}
    text = config_file.config_text(config)
    assert OmegaConf.to_container(OmegaConf.create(text)) == config
    assert config_file.read_config(text) == config
    assert config_file.read_config(OmegaConf.to_yaml(OmegaConf.create(config))) == config


# --- the command line ---------------------------------------------------------------------------


def test_launcher_is_short_for_hydras_group(capsys):
    def line(*typed: str) -> list[str]:
        return CommandLine(["-m", "seeds=1,2", *typed]).checked()[2:]

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
        told = rf"launcher={launcher} is not installed: .* pip install -e '.\[{extra}\]'"
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


def test_the_table_does_not_depend_on_who_is_first(tmp_path):
    """Of jobs with the same settings the one that begins runs; the lowest number counts."""
    for number in (3, 1, 2):
        config = {
            "algorithm": {"name": "gf"},
            "dataset": {"name": "x"},
            "kernels": {},
            "outputs": "o",
        }
        place = Sweep.claim(config | {"D": number % 2}, str(tmp_path), number)
        assert (place is None) == (number == 1)
    assert [fact["number"] for fact, _ in facts_of_jobs(tmp_path)] == [1, 2]


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
    assert len(re.findall(r"^\[\d/8\] gf on file \(M=\d, lam=0\.0\d+\): MSE", out, re.M)) == 4
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


@pytest.mark.parametrize("typed", ["workers=0", "workers='two'", "together=True", "together=0"])
def test_batch_with_a_wrong_number_of_workers_or_of_jobs_together(tmp_path, typed):
    done = omkl_run(tmp_path, "-m", "launcher=batch", f"launcher.{typed}", *TINY)
    assert done.returncode == 2
    told = "is not a whole number of at least 1, and at most 1,024, or null"
    assert done.stderr == f"omkl-run: launcher.{typed} {told}\n"


LONG = [
    "-m", "launcher=batch", "launcher.workers=2", "algorithm=gf", "algorithm.M=3", *TINY,
    "dataset.rows=200,9000000,100,150",
]  # fmt: skip


@pytest.mark.slow
def test_interrupted_batch_keeps_what_is_finished(tmp_path):
    with started(tmp_path, *LONG) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        assert all(": MSE" in line for line in lines), lines
        out, _ = interrupted(process)
    assert "OMKL-GF" in out, "the table of what is finished"
    before = results_of(tmp_path / "outputs")
    assert len(before) == 3
    files = [p for p in (tmp_path / "outputs" / "runs").rglob("*") if p.is_file()]
    assert {p.parent.name for p in files} == set(before), "nothing of the interrupted job is left"
    done = omkl_run(tmp_path, *LONG[:-1], "dataset.rows=200,300,100,150")
    assert done.returncode == 0
    assert done.stdout.count("(found finished)") == 3
    assert before.items() <= results_of(tmp_path / "outputs").items()


TERMINATED_AT_ITS_END = """
import os, signal, threading, time
from multiprocessing import Pipe
from omkl import disk
from omkl.commands import batch_launcher, sweep

def slowly(files):
    {while_it_syncs}
    time.sleep(0.5)
    print("on the disk", flush=True)

def first():
    assert ours.recv() is batch_launcher.READY
    disk.Syncing.do([])
    ours.close()
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGTERM)

disk._sync, sweep.Sweep.load = slowly, lambda: None
ours, theirs = Pipe()
threading.Thread(target=first).start()
batch_launcher._serve(theirs, {{}})
"""


@pytest.mark.parametrize(
    ("while_it_syncs", "out", "err"),
    [
        ("pass", "on the disk\n", ""),
        ("raise OSError('full')", "", "omkl-run: not all that was written is on the disk: full\n"),
    ],
)
def test_a_worker_that_is_told_to_end_at_its_end_still_syncs(while_it_syncs, out, err):
    # As at the end of a sweep: the connection is closed, and then multiprocessing sends SIGTERM.
    code = TERMINATED_AT_ITS_END.format(while_it_syncs=while_it_syncs)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, out, err)


TOLD_WHERE_NOBODY_LISTENS = """
import os, signal, sys, weakref
from multiprocessing.connection import Connection
from omkl.commands import batch_launcher, sweep

def swallow(_):
    os.kill(os.getpid(), signal.SIGTERM)
    for _ in range(1000):
        pass  # what is raised in a callback is printed and forgotten

class Thing:
    pass

def work(tasks):
    thing = Thing()
    kept = weakref.ref(thing, swallow)
    del thing
    yield "done"

def load():
    raise OSError("not to be loaded")

sweep.Sweep.work_together, sweep.Sweep.load = work, load
batch_launcher._serve(Connection(int(sys.argv[1])), {})
"""


def test_a_worker_ends_even_if_a_library_swallows_that_it_was_told_to():
    """Its connection is still open; and what cannot be loaded beforehand stops nobody."""
    ours, theirs = Pipe()
    with subprocess.Popen(
        [sys.executable, "-c", TOLD_WHERE_NOBODY_LISTENS, str(theirs.fileno())],
        env=environment(), stderr=subprocess.PIPE, text=True, pass_fds=[theirs.fileno()],
    ) as worker:  # fmt: skip
        assert ours.poll(60.0) and ours.recv() is batch_launcher.READY
        ours.send([])
        assert ours.poll(60.0) and ours.recv() == "done"
        _, told = worker.communicate(timeout=60)
    assert worker.returncode == 0 and "KeyboardInterrupt" in told, "nobody swallowed it"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="children are looked up in /proc")
def test_a_worker_that_is_killed_fails_its_job_alone(tmp_path):
    with started(tmp_path, *LONG) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        assert all(": MSE" in line for line in lines), lines
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        # Multiprocessing has a child of its own; the one at work has used the most time.
        os.kill(max(map(int, children), key=seconds_of), signal.SIGKILL)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert "[2/4] gf on synthetic (dataset.rows=9000000): failed: its process ended by" in out
    assert "1 not complete" in out


def test_a_worker_that_dies_as_it_starts_is_replaced():
    """Its task is then another's, whose answer here is that this is no task."""
    workers = batch_launcher.Workers(1, {})
    os.kill(workers._workers[0].process.pid, signal.SIGKILL)
    with pytest.raises(AttributeError, match="'str' object has no attribute"):
        list(workers.run(iter([["no task"]])))


def test_workers_that_cannot_start_are_given_up(monkeypatch):
    monkeypatch.setattr(batch_launcher, "_serve", print)  # ends before it says that it is ready
    monkeypatch.setattr(batch_launcher.Workers, "_STARTS", 2)
    with pytest.raises(RuntimeError, match="no worker process could start, with status"):
        list(batch_launcher.Workers(1, {}).run(iter([["no task"]])))


def seconds_of(pid: int) -> int:
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        time.sleep(0.1)
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))


# --- the engines of others ----------------------------------------------------------------------


def available(launcher: str) -> str | None:
    """Why an engine cannot be tested here; None if it can."""
    package, extra = EXTRAS[launcher]
    if importlib.util.find_spec(f"hydra_plugins.{package}") is None:
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


@pytest.mark.slow
def test_startup_tells_where_the_time_goes():
    done = subprocess.run(
        [sys.executable, "scripts/startup.py", "--repeat", "1", "--", *TINY, "dataset.rows=60"],
        cwd=conf.folder().parent, env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    seconds = dict(re.findall(r"^  (\w[\w ]*?) +([\d.]+) s", done.stdout, re.M))
    assert float(seconds["first round"]) < float(seconds["total"])
    sums = ("first round", "total", "libraries")
    stages = [float(v) for k, v in seconds.items() if k not in sums]
    assert sum(stages) == pytest.approx(float(seconds["total"]), abs=0.02)
    named = ("imports", "compiled code", "command line", "libraries")
    assert all(float(seconds[name]) > 0 for name in named)
