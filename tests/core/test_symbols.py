"""Compiled code of different algorithms cannot be taken for one another on disk."""

from __future__ import annotations

import pytest

from omkl import algorithms, federated
from omkl.checks import federations as federated_checks
from omkl.checks import learners
from omkl.core import jit


@pytest.mark.skipif(not jit.ENABLED, reason="nothing is compiled")
def test_every_type_has_a_name_of_its_own():
    """Numba's symbols carry the bare names of classes: two equal ones would clash."""
    kinds = set()
    for name in algorithms.names():
        learner = learners.Case(name).learner()
        kinds |= {type(learner.params), type(learner.state)}
    for name in federated.names():
        federation = federated_checks.Case(name).learner()
        model = federation.server.model
        kinds |= {type(federation.params), type(federation.clients), type(model)}
    assert len({kind.__name__ for kind in kinds}) == len(kinds)
    short = {"Params", "State", "ClientState", "Network", "NoClientState", "RandomFeatures"}
    assert all(kind.__qualname__ in short for kind in kinds)  # pickle goes by this
    assert all(kind.__name__ == f"{kind.__module__}.{kind.__qualname__}" for kind in kinds)
