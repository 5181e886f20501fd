"""Jobs side by side: each fails alone, and numbers are those of jobs one by one."""

import os
import signal

import numpy as np
import pytest

from omkl.experiment import processes
from omkl.experiment import run as runner
from tests.compositions import compose


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


def test_an_exception_of_a_job_is_raised():
    with pytest.raises(OSError, match="raise"):
        list(processes.side_by_side(fatal, ["one", "raise"], 2))


@pytest.mark.slow(2)
def test_jobs_side_by_side_have_the_numbers_of_jobs_one_by_one(tmp_path):
    small = ["dataset.rows=60", "kernels=gauss13", "D=4", "seeds=2", "tracking=none"]
    own = (["algorithm=raker"], ["algorithm=pof_mkl", "federation=iid", "clients=3"])

    def configs(outputs):
        return [compose([*small, *one, "figures=false", f"outputs={outputs}"]) for one in own]

    beside = dict(processes.side_by_side(runner.run, configs(tmp_path / "beside"), 2))
    for number, config in enumerate(configs(tmp_path / "alone")):
        mine, other = beside[number].run, runner.run(config).run
        assert mine.result["threads"] == 1
        assert mine.result["mse"] == other.result["mse"]
        for name, array in mine.curves.items():
            np.testing.assert_array_equal(array, other.curves[name], err_msg=name)
