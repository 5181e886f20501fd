"""CONTRIBUTING.md, "Add an algorithm in six steps", followed to the letter in a copy."""

import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# file: (\S+)\n")


def blocks() -> list[tuple[str, str]]:
    """Language and text of the fenced blocks of the section, in order."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = re.search(r"^## Add an algorithm in six steps\n(.*?)(?=^## )", text, re.M | re.S)
    assert section, "CONTRIBUTING.md has no section 'Add an algorithm in six steps'"
    return FENCE.findall(section[1])


@pytest.mark.slow(12)
def test_the_six_steps(tmp_path: Path):
    copy = tmp_path / "checkout"
    ignored = shutil.ignore_patterns(".*", "outputs", "data", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT, copy, ignore=ignored)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(copy),
        "OMKL_OFFLINE": "1",
    }
    written, commands = [], []
    for language, text in blocks():
        head = FILE.match(text)
        if head:
            path = copy / head[1]
            assert not path.exists(), f"{head[1]} is there already"
            path.write_text(text[head.end() :], encoding="utf-8")
            written.append(path.parent.name)
            continue
        assert language == "sh", f"what is this block for?\n{text}"
        for line in text.splitlines():
            done = subprocess.run(
                line, shell=True, cwd=copy, env=environment, capture_output=True, text=True,
                timeout=600,
            )  # fmt: skip
            assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
            commands.append(line)
    assert written == ["algorithms", "algorithm"], "one module and one YAML"
    assert any(line.startswith("omkl-check ") for line in commands)
    assert any(line.startswith("omkl-run") for line in commands)
    (table,) = copy.glob("outputs/debug/sweeps/*/table.csv")
    with open(table, encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["status"] != "baseline"]
        mse = {row["algorithm"]: float(row["mse"]) for row in rows}
    assert set(mse) == {"Plain mean", "Raker"}
    # The example has the Params of Raker: machine code of the two must not be mixed up.
    assert mse["Plain mean"] > mse["Raker"]
