"""Every federated algorithm passes every check of ``omkl.checks.federations``."""

from __future__ import annotations

import pytest

from omkl import federated
from omkl.checks import federations
from omkl.checks.learners import Skip

ALL = [(name, check) for name in federated.names() for check in federations.cases()]


@pytest.mark.parametrize(("name", "check"), ALL, ids=[f"{n}:{c.name}" for n, c in ALL])
def test_conformance(name, check):
    try:
        check.function(federations.Case(name))
    except Skip as reason:
        pytest.skip(str(reason))
