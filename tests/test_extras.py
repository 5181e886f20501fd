"""The command that installs an extra names its libraries and their versions."""

import shlex
import tomllib

import pytest
from packaging.requirements import Requirement

from omkl.utils import sources, wording

PROJECT = tomllib.loads((sources.PACKAGE.parent / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.mark.parametrize("extra", ["mlflow", "river", "sklearn", "privacy"])
def test_the_command_installs_what_the_extra_asks_for(extra):
    _, _, *named = shlex.split(wording.how_to_install(extra))
    wanted = map(Requirement, PROJECT["optional-dependencies"][extra])
    assert [(r.name, r.specifier) for r in map(Requirement, named)] == [
        (r.name, r.specifier) for r in wanted
    ]
