"""The version, which every command prints."""

import tomllib
from pathlib import Path

import pytest

import omkl
from omkl.commands import check, data, predict, report
from omkl.utils import conf

ROOT = Path(__file__).parents[1]


def test_the_version_is_written_once():
    given = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert given["project"]["dynamic"] == ["version"]
    assert given["tool"]["hatch"]["version"]["path"] == "omkl/utils/__init__.py"
    assert conf.read(ROOT / "CITATION.cff")["version"] == omkl.__version__


@pytest.mark.parametrize("command", [check, data, predict, report])
def test_commands_print_the_version(command, capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"omkl {omkl.__version__}\n"
