"""Every algorithm passes every check of ``omkl.checks``; failures are declared, strictly."""

from __future__ import annotations

import pytest

from omkl import algorithms
from omkl.checks import learners

# They play hundreds of rounds in plain Python, or thousands of draws.
SLOW = (
    "draws",
    "every_kernel",
    "honesty",
    "importance_weights",
    "python_equals_compiled",
    "selection",
)
ALL = [
    pytest.param(
        name, check, id=f"{name}:{check.name}", marks=[pytest.mark.slow] * (check.name in SLOW)
    )
    for name in algorithms.names()
    for check in learners.cases(name)
]


@pytest.mark.parametrize(("name", "check"), ALL)
def test_conformance(name, check):
    case = learners.Case(name, learners.default_settings(name))
    try:
        check.function(case)
    except learners.Skip as reason:
        pytest.skip(str(reason))
    except AssertionError:
        if check.expected_failure is None:
            raise
        pytest.xfail(check.expected_failure)
    assert check.expected_failure is None, "declared to fail, but it passes"


def test_a_field_is_explained_by_its_name_alone():
    symbols = "Symbols  eta    step size of OMKL"
    assert learners.unexplained(("eta", "M", "et"), symbols) == ["M", "et"]
