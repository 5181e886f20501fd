"""The command that installs an extra is one that works where it is printed."""

import re
import sys
from pathlib import Path

import pytest

from omkl.utils import extras, sources

CHECKOUT = {"url": "file:///srv/my%20omkl", "dir_info": {"editable": True}}
WHEEL = {"url": "file:///tmp/omkl-0.1.0-py3-none-any.whl", "archive_info": {}}
GIT = {"url": "https://host/omkl.git", "vcs_info": {"vcs": "git", "commit_id": "3f2a"}}


@pytest.mark.parametrize(
    ("origin", "what"),
    [
        (CHECKOUT, "-e '/srv/my omkl[mlflow]'"),
        (WHEEL, "'omkl[mlflow] @ file:///tmp/omkl-0.1.0-py3-none-any.whl'"),
        (GIT, "'omkl[mlflow] @ git+https://host/omkl.git@3f2a'"),
        ({}, "'omkl[mlflow]'"),
    ],
)
def test_the_origin_of_the_installation_is_named(origin, what, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert extras.command("mlflow", origin).endswith(f"pip install {what}")


def test_the_python_of_the_installation_is_named(monkeypatch):
    monkeypatch.chdir(Path(sys.executable).parent)
    python = Path(sys.executable).name
    assert extras.how_to_install("mlflow").startswith(f"{python} -m pip install ")


def test_no_other_place_names_a_command():
    for path in sources.PACKAGE.rglob("*.py"):
        if path.name != "extras.py":
            assert not re.search(r"pip install\s+'?omkl", path.read_text("utf-8")), path
