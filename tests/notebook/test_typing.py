"""omkl has type hints: a client's script passes ``mypy --strict``."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import omkl

CLIENT = Path(__file__).with_name("client.py")


def test_a_client_passes_mypy_strict(tmp_path):
    assert (Path(omkl.__file__).parent / "py.typed").exists()
    options = ["--strict", "--cache-dir", str(tmp_path), "--config-file", ""]
    # Of what omkl is built on, Numba and pandas say no types.
    options += ["--follow-imports=silent", "--ignore-missing-imports"]
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import omkl\n\nomkl.learner(3)\nomkl.lerner('auto')\n")
    found = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(CLIENT), str(wrong)],
        capture_output=True, text=True,
    )  # fmt: skip
    errors = [line for line in found.stdout.splitlines() if "error:" in line]
    assert len(errors) == 2 and all("wrong.py" in line for line in errors), found.stdout


def test_the_client_runs(tmp_path):
    spec = importlib.util.spec_from_file_location("client", CLIENT)
    client = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(client)
    assert len(client.served(tmp_path / "model.npz")) == 2
    assert len(client.studied(tmp_path / "outputs")) == 4
