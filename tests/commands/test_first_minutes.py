"""What a person who begins with omkl types and reads."""

import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import omkl
from omkl import commands
from omkl.commands import data, run
from tests.commands import forks

ROOT = Path(__file__).parents[2]
TINY = ("kernels=gaussian17", "D=4", "seeds=1", "tracking=none", "figures=false")


def omkl_run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return forks.omkl_run(arguments, folder, {}, 120.0)


def test_omkl_lists_every_command():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    done = subprocess.run(
        [Path(sys.executable).with_name("omkl")], capture_output=True, text=True, check=True
    )
    listed = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("omkl-")]
    assert {*listed, "omkl"} == scripts.keys()
    assert listed == [f"omkl-{name}" for name in commands.COMMANDS]


MODULES = ["omkl.commands.terminal", "omkl.utils.sources", "omkl.report.console"]


@pytest.mark.parametrize("module", MODULES)
def test_ctrl_c_during_the_imports_leaves_one_line(module):
    code = f"""
import sys
class Finder:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
from omkl.commands import omkl_run
sys.argv[1:] = ["dataset.rows=50", "tracking=none", "outputs=/dev/null/none"]
omkl_run()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode in (130, -signal.SIGINT)
    assert done.stderr.startswith("\nInterrupted.") and done.stderr.count("\n") == 2


def test_help_fits_on_one_screen(capsys):
    assert run.main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 79


@pytest.mark.parametrize(
    ("topic", "named"),
    [
        ("algorithms", "sfg_r     "),
        ("settings", "interval=null"),
        ("data", "Your own file: omkl-run FILE target=COLUMN"),
    ],
)
def test_help_on_a_topic(topic, named, capsys):
    assert run.main(["--help", topic]) == 0
    out = capsys.readouterr().out
    assert named in out
    assert max(map(len, out.splitlines())) <= 79


def test_help_on_an_unknown_topic_names_the_closest(capsys):
    assert run.main(["--help", "algoritm"]) == 2
    assert "Did you mean algorithms?" in capsys.readouterr().err


def test_a_message_names_at_most_five_candidates(capsys):
    for typed in (["algorithm=rakr"], ["my.csv", "traget=price"], ["dataset=navel"]):
        assert run.main(typed) == 2
        (line,) = capsys.readouterr().err.splitlines()
        there = line.partition("There are: ")[2]
        assert there.count(",") == 4 and there.endswith(" more."), line


def test_the_example_is_written_once(tmp_path, capsys):
    path = tmp_path / "my.csv"
    assert data.main(["example", str(path)]) == 0
    assert len(path.read_text().splitlines()) == 401
    assert data.main(["example", str(path)]) == 0, "it is there already"
    path.write_text("mine\n")
    assert data.main(["example", str(path)]) == 1
    assert path.read_text() == "mine\n" and "name a new one" in capsys.readouterr().err


def test_dir_shows_the_public_names():
    assert dir(omkl) == sorted(omkl.__all__)


@pytest.mark.slow
def test_jobs_that_fail_alike_have_one_message(tmp_path):
    (tmp_path / "my.csv").write_text("a,price\n" + "1,none\n" * 50)
    many = f"seed=range({50})"
    done = omkl_run(tmp_path, "-m", "my.csv", "target=price", "algorithm=ridge", many, *TINY)
    assert done.returncode == 1
    assert done.stdout.count("'none'") == 2, "when the first fails, and at the end"
    assert "50 not complete" in done.stdout and " and 45 more: " in " ".join(done.stdout.split())
    assert len(done.stdout.splitlines()) < 20
