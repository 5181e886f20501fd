"""Examples in the docstrings of algorithms: what they print is what comes."""

import doctest

import pytest

from omkl import algorithms
from omkl.utils import registry

WITH_EXAMPLE = [name for name in algorithms.names() if ">>>" in registry.docstring(name)]


@pytest.mark.parametrize("name", WITH_EXAMPLE)
def test_example(name):
    text = registry.docstring(name)
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    outcome = doctest.DocTestRunner().run(example)
    assert outcome.attempted > 0 and outcome.failed == 0


def test_there_are_examples():
    named = {"mean", "last", "ridge", "vaw2", "ie_gp", "auto", "auto_classifier"}
    assert named <= set(WITH_EXAMPLE)
