"""No stale number: sources are edited before, during and after a run, in one process and two."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from omkl.utils import sources

EDIT = ("state.total[0] += y", "state.total[0] -= y")  # of the running mean, of one length

RUN = """
from pathlib import Path
import omkl
from omkl.config.compose import Composer

LEARNER = Path(omkl.__file__).parent / "algorithms" / "baselines.py"

def edit(path, change):
    path.write_text(path.read_text().replace(*change))

def start(*more, progress=None):
    from omkl.experiment import run
    typed = ["algorithm=mean", "dataset.rows=60", "kernels=rbf9", "seeds=1", *more]
    outcome = run.run(Composer().compose([*typed, "outputs=outputs"]), progress)
    result = outcome.run.result
    if outcome.status == "failed":
        print(result["error"])
    print(outcome.status, repr(result["mse_mean"]), not result["stamp"].startswith("edited"))
"""


class Copy:
    """A copy of the package, in which scripts are run."""

    def __init__(self, folder: Path, jit: bool = False):
        self.folder = folder
        self.learner = folder / "omkl" / "algorithms" / "baselines.py"
        root = sources.PACKAGE.parent
        without = shutil.ignore_patterns("__pycache__")
        for name in ("omkl", "conf"):
            shutil.copytree(root / name, folder / name, ignore=without)
        self.env = os.environ | {
            "PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "cache"),
            "NUMBA_DISABLE_JIT": str(int(not jit)), "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip

    def run(self, lines: str, **env: str) -> list[tuple[str, float, bool]]:
        """What each start in a process of its own says: its status, its error, whether stamped."""
        done = subprocess.run(
            [sys.executable, "-c", RUN + lines],
            cwd=self.folder, env=self.env | env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        words = [line.split() for line in done.stdout.splitlines()]
        return [(status, float(error), stamped == "True") for status, error, stamped in words]

    def edit(self, path: Path, change: tuple[str, str]) -> None:
        text = path.read_text()
        assert change[0] in text
        path.write_text(text.replace(*change))


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """The errors of the running mean as it is and as it is edited."""
    copy = Copy(tmp_path_factory.mktemp("true"))
    ((_, plain, _),) = copy.run("start()")
    copy.edit(copy.learner, EDIT)
    ((status, edited, _),) = copy.run("start()")
    assert status == "complete" and edited != plain
    assert len(list(copy.folder.glob("outputs/runs/*/*"))) == 2, "that of earlier code stays"
    return plain, edited


@pytest.mark.slow(4)
def test_an_edit_while_a_process_lives_is_never_stamped_as_what_ran(tmp_path, numbers):
    plain, edited = numbers
    copy = Copy(tmp_path)
    change = repr(EDIT)
    # Between two runs of one process, after the package and before the learner is imported, and
    # while the data are read.
    assert copy.run(f"start()\nedit(LEARNER, {change})\nstart()") == [
        ("complete", plain, True),
        ("complete", plain, False),
    ]
    copy.edit(copy.learner, EDIT[::-1])
    assert copy.run(f"edit(LEARNER, {change})\nstart()") == [("complete", edited, False)]
    copy.edit(copy.learner, EDIT[::-1])
    during = f"lambda stage, *_: edit(LEARNER, {change}) if stage == 'preparing' else None"
    assert copy.run(f"start('force=true', progress={during})") == [("complete", plain, False)]
    assert copy.run("start()\nstart()") == [("complete", edited, True), ("reused", edited, True)]


@pytest.mark.slow(6)
def test_machine_code_is_that_of_the_sources_that_were_imported(tmp_path, numbers):
    plain, edited = numbers
    copy = Copy(tmp_path, jit=True)
    imports = "import omkl.experiment.run, omkl.algorithms as a; a.load('mean')\n"
    ((_, error, stamped),) = copy.run(f"{imports}edit(LEARNER, {EDIT!r})\nstart()")
    assert error == pytest.approx(plain) and not stamped
    ((_, error, stamped),) = copy.run("start()")
    assert error == pytest.approx(edited) and stamped
