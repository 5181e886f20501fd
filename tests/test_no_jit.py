"""``NUMBA_DISABLE_JIT=1``: plain Python gives the same numbers, and a debugger works."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from typing import NamedTuple

import numba
import numpy as np
import pytest

from omkl import algorithms, engine, jit
from omkl.checks import DICTIONARY, Case, default_settings, stream
from omkl.engine import Learner, Schedule
from omkl.features import RandomFeatures

SCRIPT = """
import json
from omkl import algorithms, jit
from omkl.checks import Case, default_settings
assert not jit.ENABLED
out = {}
for name in algorithms.names():
    case = Case(name, default_settings(name))
    learner = case.learner()
    y_hat = learner.partial_fit(*case.stream()).y_hat
    out[name] = [y_hat.tolist(), learner.state.log_w.tolist(), learner.used.tolist()]
print(json.dumps(out))
"""


@pytest.mark.slow
@pytest.mark.skipif(not jit.ENABLED, reason="nothing is compiled in this session")
def test_plain_python_gives_the_compiled_numbers():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    plain = json.loads(done.stdout)
    assert list(plain) == algorithms.names()
    for name, (y_hat, log_w, used) in plain.items():
        case = Case(name, default_settings(name))
        learner = case.learner()
        np.testing.assert_allclose(
            y_hat, learner.partial_fit(*case.stream()).y_hat, rtol=0, atol=1e-12, err_msg=name
        )
        np.testing.assert_allclose(log_w, learner.state.log_w, rtol=1e-12, err_msg=name)
        assert used == learner.used.tolist(), name


class Params(NamedTuple):
    """As that of Raker, field by field."""

    eta: Schedule
    lam: float


class State(NamedTuple):
    model: RandomFeatures
    log_w: np.ndarray


@pytest.mark.slow
def test_an_algorithm_with_the_fields_of_another_is_not_taken_for_it(monkeypatch):
    """Numba tells named tuples apart by the class's name, fields and their types alone."""
    raker = algorithms.load("raker")

    def update(params, state, t, y, rnd):
        state.log_w[0] = t

    namesake = engine.register(
        "elsewhere.namesake",
        Params,
        lambda params, dictionary, model: State(model, np.zeros(len(dictionary))),
        select=inspect.getmodule(raker.init).select,
        predict=inspect.getmodule(raker.init).predict,
        update=update,
    )
    # Compiled in memory: machine code for a class of the tests must not be kept on disk.
    plain = getattr(engine.run_block, "py_func", engine.run_block)
    in_memory = numba.njit(nogil=True, error_model="numpy", fastmath=jit.FLAGS)(plain)
    monkeypatch.setattr(engine, "run_block", in_memory)
    X, y = stream()
    settings = {"eta": Schedule(0.1, 0.0), "lam": 1e-3}
    first = Learner(raker, raker.Params(**settings), DICTIONARY, 3, 8, seed=0)
    second = Learner(namesake, Params(**settings), DICTIONARY, 3, 8, seed=0)
    assert first.partial_fit(X, y).y_hat.any()
    assert not second.partial_fit(X, y).y_hat.any()  # it never learns
    assert second.state.log_w[0] == len(y)
