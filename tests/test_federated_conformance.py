"""Every federated algorithm passes every check of ``omkl.federated.checks``."""

from __future__ import annotations

import pytest

from omkl import federated
from omkl.checks import Skip
from omkl.federated import checks

ALL = [(name, check) for name in federated.names() for check in checks.cases()]


@pytest.mark.parametrize(("name", "check"), ALL, ids=[f"{n}:{c.name}" for n, c in ALL])
def test_conformance(name, check):
    try:
        check.function(checks.Case(name))
    except Skip as reason:
        pytest.skip(str(reason))
