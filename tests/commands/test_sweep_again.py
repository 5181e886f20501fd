"""A sweep that is started again in its own folder, as a cluster does that puts it back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from omkl.commands.sweep import Sweep
from omkl.runs.sweeps import facts_of_jobs
from tests.compositions import compose

TINY = (
    "algorithm=raker", "dataset.rows=30", "D=2", "seeds=1", "tracking=none", "figures=false",
    "regret.kernel_ridge=false", "kernels.parts=[{family: gaussian, bandwidth: [0.3, 1]}]",
)  # fmt: skip


@pytest.fixture
def begin(tmp_path: Path):
    """Start the sweep of D=2,3 in its folder; the configurations of its jobs."""

    def start() -> list[dict[str, Any]]:
        hydra = SimpleNamespace(
            sweep=SimpleNamespace(dir=str(tmp_path / "sweep")),
            overrides=SimpleNamespace(task=["D=2,3"]),
            sweeper={},
            runtime=SimpleNamespace(choices={}),
        )
        config = SimpleNamespace(hydra=hydra, outputs=str(tmp_path / "out"), figures=False)
        Sweep.on_multirun_start(Sweep(), config)
        return [compose([*TINY, f"D={D}", f"outputs={tmp_path / 'out'}"]) for D in (2, 3)]

    yield start
    Sweep.folder, Sweep.failed = None, False


def run_job(sweep: Path, config: dict[str, Any], number: int) -> str | None:
    task = Sweep.task(config, str(sweep), number)
    return task and Sweep.work(task)[0]


def test_only_jobs_of_this_start_are_the_same_as_another(begin, tmp_path, capsys):
    sweep = tmp_path / "sweep"
    first, second = begin()
    assert "MSE" in run_job(sweep, first, 0)
    assert Sweep.claim(second, str(sweep), 1) is not None  # and is killed
    assert run_job(sweep, second, 2) is None
    assert "the same as an earlier job" in capsys.readouterr().out

    first, second = begin()
    assert run_job(sweep, first, 0).endswith("(found finished)")
    assert "MSE" in run_job(sweep, second, 1)
    assert run_job(sweep, second, 2) is None
    assert [fact["status"] for fact, _ in facts_of_jobs(sweep)] == ["reused", "complete"]
    Sweep.finish()
    assert len((sweep / "table.md").read_text().splitlines()) > 5
    assert not Sweep.failed


def test_a_job_that_is_put_back_into_the_queue_is_itself(begin, tmp_path):
    first, _ = begin()
    assert Sweep.claim(first, str(tmp_path / "sweep"), 0) is not None  # and is killed
    assert Sweep.claim(first, str(tmp_path / "sweep"), 0) is not None
    assert Sweep.claim(first, str(tmp_path / "sweep"), 5) is None


def test_failures_of_an_earlier_start_end_nothing(begin, tmp_path):
    sweep = tmp_path / "sweep"
    broken = begin()[0] | {"D": -1}
    assert "failed" in run_job(sweep, broken, 0)
    assert Sweep.has_failed(sweep)
    begin()
    assert not Sweep.has_failed(sweep), "with fail_fast nothing would run again"


@pytest.mark.parametrize("fault", ["damaged", "removed"])
def test_a_damaged_run_is_named_and_left_out_of_the_table(begin, tmp_path, capsys, fault):
    sweep = tmp_path / "sweep"
    for number, config in enumerate(begin()):
        assert "MSE" in run_job(sweep, config, number)
    fact, place = facts_of_jobs(sweep)[0]
    folder = place.parent / fact["folder"]
    if fault == "removed":
        shutil.rmtree(folder)
    else:
        result = json.loads((folder / "result.json").read_text())
        (folder / "result.json").write_text(json.dumps(result | {"mse_mean": 0.0}))
    Sweep.finish()
    told = capsys.readouterr()
    assert f"omkl: {folder.resolve()} is damaged and left out: " in told.err
    assert Sweep.failed and (sweep / "table.csv").exists()
