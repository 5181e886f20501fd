"""``NUMBA_DISABLE_JIT=1``: plain Python gives the same numbers, and a debugger works."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest

from omkl import algorithms
from omkl.algorithms.baselines import constant
from omkl.algorithms.parts import predict_only as predict  # noqa: F401 - register reads it
from omkl.algorithms.parts import select_all as select  # noqa: F401
from omkl.checks import federations as federated_checks
from omkl.checks.learners import DICTIONARY, Case, stream
from omkl.core import compiler, protocol
from omkl.core.learner import Learner
from omkl.core.representations.experts import CONSTANT, Constant
from tests.learners import one_of_each_representation

# Enough to see that the switch works: of all rounds, the steps as plain Python are held to compiled
# ones by the conformance suite.
ROUNDS = 20
LEARNERS, TOGETHER = one_of_each_representation(), ["pof_mkl", "perfedavg"]

SCRIPT = """
import json, sys
from omkl.checks import federations
from omkl.checks.learners import Case
from omkl.core import compiler
assert not compiler.ENABLED
out = {}
for name in sys.argv[2].split():
    case = Case(name)
    learner = case.learner()
    y_hat = learner.partial_fit(*case.stream(int(sys.argv[1]))).y_hat
    out[name] = [y_hat.tolist(), learner.state.log_w.tolist(), learner.used.tolist()]
for name in sys.argv[3].split():
    federation = federations.Case(name).learner()
    y_hat = federation.partial_fit(*federations.streams(40)).y_hat
    out[name] = [y_hat.tolist(), federation.totals.losses.tolist(), federation.totals.sent.tolist()]
print(json.dumps(out))
"""


@pytest.mark.slow(5)
@pytest.mark.skipif(not compiler.ENABLED, reason="nothing is compiled in this session")
def test_plain_python_gives_the_compiled_numbers():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(ROUNDS), " ".join(LEARNERS), " ".join(TOGETHER)],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    plain = json.loads(done.stdout)
    assert list(plain) == [*LEARNERS, *TOGETHER]
    for name in TOGETHER:
        y_hat, losses, sent = plain.pop(name)
        federation = federated_checks.Case(name).learner()
        compiled = federation.partial_fit(*federated_checks.streams(40)).y_hat
        np.testing.assert_allclose(y_hat, compiled, rtol=0, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(losses, federation.totals.losses, rtol=1e-11, err_msg=name)
        assert sent == federation.totals.sent.tolist(), name
    for name, (y_hat, log_w, used) in plain.items():
        case = Case(name)
        learner = case.learner()
        compiled = learner.partial_fit(*case.stream(ROUNDS)).y_hat
        np.testing.assert_allclose(y_hat, compiled, rtol=0, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(log_w, learner.state.log_w, rtol=1e-12, err_msg=name)
        assert used == learner.used.tolist(), name


class Params(NamedTuple):
    """As that of ``mean``: no field."""


class State(NamedTuple):
    """As that of ``mean``, field by field."""

    model: Constant
    log_w: np.ndarray
    total: np.ndarray


def init(params, dictionary, model):
    return State(model, np.zeros(1), np.zeros(1))


def update(params, state, t, y, selection):
    state.total[0] = t


def test_an_algorithm_with_the_fields_of_another_is_not_taken_for_it(monkeypatch):
    """Numba tells named tuples apart by the class's name, fields and their types alone."""
    mean = algorithms.load("mean")
    namesake = protocol.register(__name__, representation=CONSTANT, kernels=constant)
    # Compiled in memory: machine code for a class of the tests must not be kept on disk.
    plain = getattr(protocol.run_block, "py_func", protocol.run_block)
    in_memory = numba.njit(nogil=True, error_model="numpy", fastmath=compiler.FLAGS)(plain)
    monkeypatch.setattr(protocol, "run_block", in_memory)
    X, y = stream()
    first = Learner(mean, mean.Params(), DICTIONARY, 3, 8, seed=0)
    second = Learner(namesake, Params(), DICTIONARY, 3, 8, seed=0)
    assert first.partial_fit(X, y).y_hat.any()
    assert not second.partial_fit(X, y).y_hat.any()  # it never learns
    assert first.state.total[0] == np.cumsum(y)[-1]
    assert second.state.total[0] == len(y)
