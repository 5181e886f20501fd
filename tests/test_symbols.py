"""Compiled code of different algorithms cannot be taken for one another on disk."""

from __future__ import annotations

import pytest

from omkl import algorithms, checks, jit


@pytest.mark.skipif(not jit.ENABLED, reason="nothing is compiled")
def test_every_type_has_a_name_of_its_own():
    """Numba's symbols carry the bare names of classes: two equal ones would clash."""
    kinds = set()
    for name in algorithms.names():
        learner = checks.Case(name, checks.default_settings(name)).learner()
        kinds |= {type(learner.params), type(learner.state)}
    assert len({kind.__name__ for kind in kinds}) == len(kinds)
    assert all(kind.__qualname__ in ("Params", "State") for kind in kinds)  # pickle goes by this
