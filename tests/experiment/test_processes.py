"""Jobs side by side: a job whose process dies fails alone, and an exception is raised."""

import os
import signal
import time

import numpy as np
import pytest

from omkl.experiment import processes

kept = []


def fatal(item: str) -> str:
    if item == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if item == "raise":
        raise OSError(item)
    return f"{item} on {os.environ['NUMBA_NUM_THREADS']} threads"


def test_of_jobs_whose_process_dies_each_fails_alone(monkeypatch):
    monkeypatch.setenv("PATH", "")  # as in a slim image, which has no pgrep
    items = ["one", "die", *"34567", "die", "nine"]
    ended = dict(processes.side_by_side(fatal, items, 2, threads=3))
    died = {1: None, 7: None}
    assert ended == {k: f"{item} on 3 threads" for k, item in enumerate(items)} | died


def growing(item):
    """Keep 400 MB, so that joblib replaces the worker."""
    kept.append(np.ones(50_000_000))
    time.sleep(1.1)  # joblib looks once a second
    return item


def test_workers_that_grow_are_replaced_where_warnings_are_errors():
    assert sorted(processes.side_by_side(growing, "abcde", 2)) == list(enumerate("abcde"))


def test_an_exception_of_a_job_is_raised():
    with pytest.raises(OSError, match="raise"):
        list(processes.side_by_side(fatal, ["one", "raise"], 2))
