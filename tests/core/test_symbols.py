"""Compiled code of different algorithms cannot be taken for one another on disk."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from omkl import algorithms, federated
from omkl.checks import federations as federated_checks
from omkl.checks import learners
from omkl.core import compiler


@pytest.mark.skipif(not compiler.ENABLED, reason="nothing is compiled")
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


def test_no_name_depends_on_what_else_is_imported():
    """A type that gets its full name when another module is imported is compiled twice."""
    named, at_home = {}, set()
    for path in Path(compiler.__file__).parents[1].rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        own = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                place = {"dispatch": 1, "qualify_name": 0}.get(node.func.id)
                if place is None or not isinstance(kind := node.args[place], ast.Name):
                    continue
                named.setdefault(kind.id, path)
                at_home |= {kind.id} & own
    assert "RandomFeatures" in at_home
    given = {"Params", "State", "kind"}  # in the functions that register
    assert {kind: path for kind, path in named.items() if kind not in at_home | given} == {}
