"""The examples at the end of the docstrings of algorithms are run."""

from __future__ import annotations

import doctest
import importlib

import pytest

from omkl import algorithms

MODULES = [importlib.import_module(algorithms.load(name).module) for name in algorithms.names()]


@pytest.mark.parametrize(
    "module", [m for m in MODULES if ">>>" in str(m.__doc__)], ids=lambda m: m.__name__
)
def test_example(module):
    assert doctest.testmod(module).failed == 0


def test_what_is_beside_every_regression_has_an_example():
    for name in ("mean", "last", "ridge"):
        assert ">>>" in str(importlib.import_module(f"omkl.algorithms.{name}").__doc__)
