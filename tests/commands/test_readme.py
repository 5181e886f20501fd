"""The blocks of README that show no output run as typed."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.commands.test_cli import OMKL_RUN, environment

ROOT = Path(__file__).parents[2]
TYPED = re.findall(
    r"^    ((?:make|pip|cp|omkl-\w+) [^#\n]*)",
    (ROOT / "README.md").read_text("utf-8"),
    re.MULTILINE,
)
# Few rows and kernels, so that the commands take seconds.
QUICK = "stream.limit=60 kernels=gaussian17 D=4 tracking=none figures=false"
PIP = """#!/bin/sh
# Leaves what pip install -e leaves of the template: its entry point, and its folder on the path.
[ "$*" = "install -e ." ] && mkdir mypkg-0.1.dist-info && cd mypkg-0.1.dist-info
printf 'Metadata-Version: 2.1\\nName: mypkg\\nVersion: 0.1\\n' > METADATA
printf '[omkl.algorithms]\\nfixed_share = mypkg.fixed_share\\n' > entry_points.txt
"""


def of_program(name: str) -> list[str]:
    return [line.strip() for line in TYPED if line.startswith(name)]


def test_the_targets_of_make_exist():
    assert len(of_program("make ")) == 3
    for typed in of_program("make "):
        program, target = typed.split()
        done = subprocess.run([program, "--dry-run", target], cwd=ROOT, capture_output=True)
        assert done.returncode == 0, done.stderr


def test_the_extras_of_pip_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = re.findall(r"\w+", ",".join(re.findall(r"\[(.*?)\]", "\n".join(of_program("pip ")))))
    assert len(named) >= 3 and {*named} <= extras["optional-dependencies"].keys()


@pytest.mark.slow(2)
def test_the_commands_on_airfoil(tmp_path):
    commands = [typed for typed in of_program("omkl-run ") if "airfoil" in typed]
    assert len(commands) == 2
    path = {**environment(), "PATH": f"{OMKL_RUN.parent}:{os.environ['PATH']}"}
    for typed in commands:
        done = subprocess.run(
            f"{typed} {QUICK}", shell=True, cwd=tmp_path, env=path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("outputs/runs/airfoil/*"))) == 7, "Raker has no M"


@pytest.mark.slow(2)
def test_the_commands_on_an_algorithm_of_ones_own(tmp_path):
    start = TYPED.index(*[typed for typed in TYPED if typed.startswith("cp ")])
    commands = [typed.strip() for typed in TYPED[start:]]
    assert len(commands) == 4 and commands[1] == "pip install -e ."
    checkout, programs = tmp_path / "omkl", tmp_path / "bin"
    checkout.mkdir()
    programs.mkdir()
    (checkout / "docs").symlink_to(ROOT / "docs")
    (programs / "pip").write_text(PIP)
    (programs / "pip").chmod(0o755)
    path = f"{programs}:{OMKL_RUN.parent}:{os.environ['PATH']}"
    own = {**environment(), "PATH": path, "PYTHONPATH": str(tmp_path / "my-learner")}
    commands[3] += f" dataset.rows=60 seeds=1 {QUICK}"
    script = "\n".join(["set -e", *commands])
    done = subprocess.run(
        ["bash", "-c", script], cwd=checkout, env=own, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "fixed_share" in done.stdout
