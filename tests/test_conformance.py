"""Every algorithm passes every check of ``omkl.checks``; failures are declared, strictly."""

import functools

import pytest

from omkl.checks import federations, learners, shared

# Of learners alone on a stream: hundreds of rounds in plain Python, or thousands of draws.
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
        suite,
        name,
        check,
        id=f"{name}:{check.name}",
        marks=[pytest.mark.slow] * (suite is learners and check.name in SLOW),
    )
    for suite in (learners, federations)
    for name in suite.names()
    for check in suite.cases(name)
]


@functools.lru_cache(maxsize=1)  # the checks of a learner come one after the other
def case_of(suite, name):
    """One for all checks of a learner, as in ``learners.run``."""
    return suite.Case(name)


@pytest.mark.parametrize(("suite", "name", "check"), ALL)
def test_conformance(suite, name, check):
    try:
        check.function(case_of(suite, name))
    except shared.Skip as reason:
        pytest.skip(str(reason))
    except AssertionError:
        if check.expected_failure is None:
            raise
        pytest.xfail(check.expected_failure)
    assert check.expected_failure is None, "declared to fail, but it passes"


def test_a_field_is_explained_by_its_name_alone():
    symbols = "Symbols  eta    step size of OMKL"
    assert shared.unexplained(("eta", "M", "et"), symbols) == ["M", "et"]
