"""Jobs side by side: they have the numbers of jobs one by one, and each fails alone."""

import contextlib
import multiprocessing
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from omkl.experiment import queue


def fatal(item: str) -> int:
    """The process number; ``die`` kills the process, ``raise`` raises, ``long`` takes a minute."""
    if item == "die" or "+die+" in item:
        os.kill(os.getpid(), signal.SIGKILL)
    if item == "raise":
        raise OSError(item)
    if item.endswith("long"):
        Path(item).touch()
        try:
            time.sleep(60.0)
        finally:
            Path(item).unlink()  # tidy
    return os.getpid()


def test_of_items_under_way_when_a_process_dies_each_is_done_again_by_itself():
    workers = queue.Workers(2)
    items = ["one", "die", *"456789"]
    ended = dict(workers.run(fatal, iter(items)))
    assert ended.keys() == {*items}
    assert [name for name, pid in ended.items() if pid is None] == ["die"]


def test_what_work_raises_is_raised_and_what_is_left_early_is_ended_tidily(tmp_path):
    with pytest.raises(OSError, match="raise"):
        list(queue.Workers(1).run(fatal, iter(["raise"])))
    long = tmp_path / "long"
    started = queue.Workers(2).run(fatal, iter(["one", str(long), "two"]))
    with contextlib.closing(started):
        next(started)
        wait_for(long.exists)
        began = time.monotonic()
    assert not long.exists() and time.monotonic() - began < 30.0
    wait_for(lambda: not multiprocessing.active_children())


def wait_for(condition) -> None:
    deadline = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def dies() -> None:
    os._exit(3)


def test_processes_that_cannot_start_are_given_up():
    with pytest.raises(RuntimeError, match="no worker process can be started"):
        list(queue.Workers(1, prepare=dies).run(fatal, iter(["one"])))


SMALL = ["dataset=synthetic", "dataset.rows=60", "kernels=gauss13", "D=4", "seeds=2"]
FEDERATED = ["federation=iid", "clients=3", "algorithm=pof_mkl"]


def job(tmp_path, *overrides):
    return [*SMALL, *overrides, "tracking=none", "figures=false", f"outputs={tmp_path}"]


@pytest.mark.slow(4)
def test_a_job_that_breaks_or_dies_fails_alone(tmp_path, monkeypatch):
    """The others have the numbers of jobs that have all threads of a process to themselves."""
    dying = tmp_path / "dying.py"
    dying.write_text("import multiprocessing, os\nif multiprocessing.parent_process(): os._exit(3)")
    monkeypatch.syspath_prepend(str(tmp_path))
    good = [["algorithm=raker"], FEDERATED, ["algorithm=gf"]]
    dies = ["algorithm=raker", "algorithm.name=dying", "+algorithm.module=dying"]
    bad = [["algorithm=raker", "algorithm.eta=1e200"], dies]
    monkeypatch.setenv("OMKL_THREADS", "2")
    jobs = [job(tmp_path / "beside", *own) for own in (*bad, *good)]
    ended = dict(queue.side_by_side(jobs))
    assert [ended[k].status for k in range(5)] == ["failed"] * 2 + ["complete"] * 3
    assert "no longer finite" in ended[0].run.result["error"]["message"]
    assert "its process died" in ended[1].run.result["error"]["message"]
    for k, own in enumerate(good, start=2):
        ((_, alone),) = queue.side_by_side([job(tmp_path / "alone", *own)])
        mine, other = ended[k].run, alone.run
        assert mine.result["threads"] == 1 and other.result["threads"] == 2
        assert mine.result["mse"] == other.result["mse"]
        assert mine.curves.keys() == other.curves.keys()
        for name, array in mine.curves.items():
            np.testing.assert_array_equal(array, other.curves[name], err_msg=name)


def test_long_jobs_are_first_and_none_is_beside_one_that_it_shares_with(tmp_path):
    in_hindsight = ["federation=iid", "clients=3", "regret.ridge_features=true"]
    jobs = [
        job(tmp_path, "algorithm=raker"),
        job(tmp_path, *FEDERATED, "regret.ridge_features=false"),
        job(tmp_path, "algorithm=pof_mkl", "algorithm.M=1", *in_hindsight),
        job(tmp_path, "algorithm=ofskl", *in_hindsight),
        job(tmp_path, "algorithm=em_kofl", *in_hindsight, "seed=3"),
    ]
    assert sorted(range(5), key=lambda k: queue.turn_of(jobs[k])) == [2, 3, 4, 1, 0]
    beside = [[other for other in range(5) if queue.shares(jobs[k], jobs[other])] for k in range(5)]
    assert beside[2] == [1, 2, 3]  # by its algorithm, and by what is best in hindsight
    assert beside[3] == [2, 3] and beside[4] == [4] and beside[0] == [0]
