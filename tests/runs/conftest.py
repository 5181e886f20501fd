"""One finished run, computed once, of which every test damages a copy."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from omkl.config.schema import Settings
from omkl.experiment import run as runner
from omkl.experiment.run import Outcome
from tests.compositions import compose

TINY = (
    "algorithm=raker", "dataset.rows=30", "D=2", "seeds=2", "predictions=true", "tracking=none",
    "figures=false", "kernels.parts=[{family: gaussian, bandwidth: [0.3, 1]}]",
)  # fmt: skip


def tiny(outputs: Path, *overrides: str) -> Settings:
    return compose([*TINY, f"outputs={outputs}", *overrides])


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The outputs folder of a finished run."""
    outputs = tmp_path_factory.mktemp("finished") / "out"
    outcome = runner.run(tiny(outputs))
    assert outcome.status == "complete", outcome.run.result
    return outputs


@pytest.fixture
def outputs(finished: Path, tmp_path: Path) -> Path:
    """A copy of them, to be damaged."""
    shutil.copytree(finished, tmp_path / "out")
    return tmp_path / "out"


@pytest.fixture
def folder(outputs: Path) -> Path:
    """The run folder in the copy."""
    (found,) = (outputs / "runs" / "synthetic").iterdir()
    return found


@pytest.fixture
def start(outputs: Path) -> Callable[..., Outcome]:
    """Run the same command again, with further overrides."""
    return lambda *overrides: runner.run(tiny(outputs, *overrides))
