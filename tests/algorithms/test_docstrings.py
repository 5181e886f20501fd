"""Examples in the docstrings of algorithms: what they print is what comes."""

from __future__ import annotations

import doctest
import sys

import pytest

from omkl import algorithms

MODULES = {name: sys.modules[algorithms.load(name).module] for name in algorithms.names()}
WITH_EXAMPLE = [name for name, module in MODULES.items() if ">>>" in (module.__doc__ or "")]


@pytest.mark.parametrize("name", WITH_EXAMPLE)
def test_example(name):
    found = doctest.testmod(MODULES[name])
    assert found.attempted > 0 and found.failed == 0


def test_there_are_examples():
    named = {"mean", "last", "ridge", "vaw2", "ie_gp", "auto", "auto_classifier"}
    assert named <= set(WITH_EXAMPLE)
