"""Sweeps: their files, and other means than one job after another, with the same table."""

import csv
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from omkl.commands import sweep
from omkl.config.overrides import read_jobs
from tests.commands.test_cli import TINY, interrupted, omkl_run, results_of, started, write_table

# --- the files of a sweep -------------------------------------------------------------------------

QUICK = (
    "algorithm=raker", "dataset.rows=30", "D=2", "seeds=1", "tracking=none", "figures=false",
    "kernels.parts=[{family: gaussian, bandwidth: [0.3, 1]}]",
)  # fmt: skip


def facts_of_jobs(sweep: Path) -> list[tuple[dict[str, Any], Path]]:
    """Return what the jobs of a sweep have written, in their order."""
    facts = [(json.loads(path.read_text()), path) for path in sweep.glob("jobs/*.json")]
    return sorted(facts, key=lambda one: (one[0]["number"], one[1]))


def run_in(folder: Path, *more: str) -> bool:
    """Run the sweep of D=2,3,3 in its folder."""
    typed = [*QUICK, "D=2,3,3", f"outputs={folder / 'out'}", *more]
    return sweep.run(read_jobs(typed, sweep=True), folder / "sweep")


def test_of_jobs_with_the_same_settings_the_first_runs(tmp_path, capsys):
    assert run_in(tmp_path)
    assert "[3/3] raker on synthetic (D=3): the same as an earlier job" in capsys.readouterr().out
    assert [fact["number"] for fact, _ in facts_of_jobs(tmp_path / "sweep")] == [0, 1]


def test_notices_of_a_data_set_are_printed_once(tmp_path, capsys):
    text = "".join(f"{k * 7 % 30},{k}\n" for k in range(30))
    (tmp_path / "t.csv").write_text(f"a,y\n{text}")
    typed = [text for text in QUICK if "rows" not in text] + [f"outputs={tmp_path / 'out'}"]
    typed += ["dataset=file", f"dataset.path={tmp_path / 't.csv'}", "dataset.target=y", "D=2,3"]
    assert sweep.run(read_jobs(typed, sweep=True), tmp_path / "sweep")
    printed = capsys.readouterr().out
    assert printed.count("Warning: the rows come in the order of the target") == 1


def test_a_sweep_that_is_started_again_finds_what_is_finished(tmp_path, capsys):
    assert run_in(tmp_path)
    notes = tmp_path / "sweep" / "jobs" / "notes.txt"
    notes.write_text("mine")
    assert run_in(tmp_path, "seed=0,1")
    assert capsys.readouterr().out.count("(found finished)") == 2
    statuses = [fact["status"] for fact, _ in facts_of_jobs(tmp_path / "sweep")]
    assert sorted(statuses) == ["complete", "complete", "reused", "reused"]
    assert len((tmp_path / "sweep" / "table.md").read_text().splitlines()) > 5
    assert notes.read_text() == "mine", "no file of a sweep"


@pytest.mark.parametrize("fault", ["damaged", "removed"])
def test_a_damaged_run_is_named_and_left_out_of_the_table(tmp_path, capsys, fault):
    assert run_in(tmp_path)
    fact, place = facts_of_jobs(tmp_path / "sweep")[0]
    folder = place.parent / fact["folder"]
    if fault == "removed":
        shutil.rmtree(folder)
    else:
        result = json.loads((folder / "result.json").read_text())
        (folder / "result.json").write_text(json.dumps(result | {"mse_mean": 0.0}))
    assert (
        sweep.finish(
            tmp_path / "sweep", read_jobs([*QUICK, f"outputs={tmp_path / 'out'}"]).settings[0]
        )
        == 1
    )
    printed = capsys.readouterr()
    assert f"omkl: {place} cannot be read and is left out: " in printed.err
    assert (tmp_path / "sweep" / "table.csv").exists()


# --- side by side -------------------------------------------------------------------------------

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
def test_side_by_side_is_the_same_as_one_after_another(by_one_after_another, tmp_path):
    typed = [*SWEEP, *my(by_one_after_another), "--jobs=2"]
    done = omkl_run(tmp_path, *typed, start=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout.count("the same as an earlier job") == 2
    same_as_basic(by_one_after_another, tmp_path, done.stdout)
    before = results_of(tmp_path / "outputs")
    again = omkl_run(tmp_path, *typed, "algorithm.M=900,3,4,5", start=True)
    assert again.returncode == 1, "a sweep goes on after failures"
    assert "gf on my.csv (M=900, lam=0.001): failed: algorithm.M=900 lies outside" in again.stdout
    assert "2 not complete" in again.stdout
    assert again.stdout.count("(found finished)") == 6
    assert before.items() < results_of(tmp_path / "outputs").items()


BASIC = ["-m", "algorithm=gf", "algorithm.M=3", *TINY]
SIDE_BY_SIDE = [*BASIC, "--jobs=2"]


@pytest.mark.slow(2)
@pytest.mark.parametrize(
    ("command", "rows", "n_finished"),
    [(BASIC, "200,40000000,100", 1), (SIDE_BY_SIDE, "200,40000000,100,150", 3)],
    ids=["one after another", "side by side"],
)
def test_an_interrupted_sweep_keeps_what_is_finished(tmp_path, command, rows, n_finished):
    with started(tmp_path, *command, f"dataset.rows={rows}") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(n_finished)]
        assert all(": MSE" in line for line in lines), lines
        # Until the next is at work. An interrupt within the print of a line would print it twice.
        time.sleep(0.7 if n_finished == 1 else 0.2)
        out, _ = interrupted(process)
    assert "OMKL-GF" in out, "the table of what is finished"
    assert f"[{rows.count(',') + 1}/" not in out
    before = results_of(tmp_path / "outputs")
    assert len(before) == n_finished
    files = [p for p in (tmp_path / "outputs" / "runs").rglob("*") if p.is_file()]
    assert {p.parent.name for p in files} == set(before), "nothing of the interrupted job is left"
    done = omkl_run(tmp_path, *BASIC, f"dataset.rows={rows.replace('40000000', '300')}")
    assert done.returncode == 0
    assert done.stdout.count("(found finished)") == n_finished
    assert before.items() <= results_of(tmp_path / "outputs").items()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="children are looked up in /proc")
def test_what_a_killed_worker_was_at_is_done_again_by_itself(tmp_path):
    """One that kills its process again fails alone: tests/experiment/test_processes.py."""
    with started(tmp_path, *SIDE_BY_SIDE, "dataset.rows=200,600000,100,150") as process:
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


# --- on a cluster -------------------------------------------------------------------------------


def test_workers_of_dask_run_the_jobs(tmp_path):
    distributed = pytest.importorskip("distributed", reason="Dask is an extra")
    typed = ["algorithm=gf", "algorithm.M=3,4,900", "dataset.rows=80", *TINY]
    jobs = read_jobs([*typed, f"outputs={tmp_path}"], sweep=True)
    with distributed.LocalCluster(1, threads_per_worker=1, processes=False) as cluster:
        assert not sweep.run(jobs, n_jobs=cluster.scheduler_address)
    assert len(results_of(tmp_path)) == 2
