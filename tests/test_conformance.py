"""Every algorithm passes every check of ``omkl.checks``; failures are declared, strictly."""

import traceback

import pytest

from omkl.checks import federations, learners, shared

# Of learners alone on a stream: hundreds of rounds in plain Python, or thousands of draws.
SLOW = {*("draws", "honesty", "importance_weights"), *("python_equals_compiled", "selection")}


def of_learners(slow):
    """The names of the checks of learners that are slow, or that are not."""
    return [name for name in learners.CHECKS if (name in SLOW) == slow]


ALL = [
    *(pytest.param(learners, name, of_learners(False), id=name) for name in learners.names()),
    *(
        pytest.param(learners, name, of_learners(True), id=f"{name}-slow", marks=pytest.mark.slow)
        for name in learners.names()
    ),
    *(pytest.param(federations, n, federations.CHECKS, id=n) for n in federations.names()),
]


@pytest.mark.parametrize(("suite", "name", "chosen"), ALL)
def test_conformance(suite, name, chosen):
    require_conformance(suite, name, chosen)


def require_conformance(suite, name, chosen):
    """Try the chosen checks, and raise AssertionError with the message of each that fails."""
    case, told = suite.Case(name), []
    for check in suite.cases(name):
        if check.name in chosen:
            outcome = shared.outcome(case, check)
            if outcome.status == "failed":
                error = outcome.error and "".join(traceback.format_exception(outcome.error))
                told.append(f"{check.name}: {outcome.reason}\n{error or ''}")
    assert not told, "\n".join(told)
