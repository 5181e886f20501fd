"""The conformance suite of federated learners; as ``learners`` for the others.

>>> from omkl.checks import federations
>>> federations.run("pof_mkl")
"""

from __future__ import annotations

import inspect
import pickle
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from omkl import federated
from omkl.checks import learners
from omkl.checks.learners import DICTIONARY, FEATURES, INPUTS, SECTIONS, Skip
from omkl.core import hyperparameters, jit
from omkl.core.kernels import Kernel
from omkl.federated import protocol
from omkl.federated.simulation import Federation

CLIENTS, ROUNDS = 5, 200


class Check(NamedTuple):
    name: str
    function: Callable[[Case], None]


class Case:
    """A federated algorithm with the settings of its YAML and a small dictionary."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.settings = learners.default_settings(name)
        self.algorithm = federated.load(name)
        self.module = sys.modules[self.algorithm.module]

    def params(self, N: int = len(DICTIONARY), T: int = ROUNDS, **changes: Any) -> Any:
        given = self.settings | {k: v for k, v in changes.items() if k in self.settings}
        return hyperparameters.build(self.algorithm.Params, given, T, {"N": N, "D": FEATURES})

    def federation(
        self,
        seed: int = 0,
        dictionary: tuple[Kernel, ...] = DICTIONARY,
        d: int = INPUTS,
        K: int = CLIENTS,
        T: int = ROUNDS,
        max_upload: int | None = None,
        model: Any = None,
        lengths: np.ndarray | None = None,
        **changes: Any,
    ) -> Federation:
        changes = {"M": min(2, len(dictionary)), **changes}
        built = self.params(len(dictionary), T, **changes)
        return Federation(
            self.algorithm, built, dictionary, d, FEATURES, seed, K, max_upload, model, lengths
        )


def streams(
    T: int = ROUNDS, K: int = CLIENTS, d: int = INPUTS, seed: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """X (T, K, d) in the unit ball and y (T, K) in [0, 1]; every client has its own function."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(T, K, d)) / np.sqrt(d)
    shift = np.linspace(0.0, 0.2, K)
    return X, 0.4 + shift + 0.4 * np.sin(3.0 * X[..., 0]) * np.cos(2.0 * X[..., -1])


def numbers_of(federation: Federation) -> bytes:
    """All that a federation has learned and counted."""
    kept = (federation.server, federation.clients, federation.totals)
    return pickle.dumps(kept)


def check_interface(case: Case) -> None:
    """Docstring sections, every parameter explained, YAML keys are the Params fields."""
    text = inspect.getdoc(case.module) or ""
    missing = [s for s in SECTIONS if not any(x.startswith(s) for x in text.splitlines())]
    assert not missing, f"the docstring lacks {missing}"
    symbols = text[text.index("\nSymbols") : text.index("\nCost")]
    fields = case.algorithm.Params._fields  # type: ignore[attr-defined]
    words = set(re.findall(r"\w+", symbols))
    unexplained = [field for field in fields if field not in words]
    assert not unexplained, f"Symbols does not explain {unexplained}"
    assert set(case.settings) == set(fields), "the YAML's keys are not the fields of Params"


def check_bounded_memory(case: Case) -> None:
    """What server and clients keep takes as much room after all rounds as after ten."""
    X, y = streams()
    federation = case.federation()
    federation.partial_fit(X[:10], y[:10])
    early = len(pickle.dumps(federation))
    federation.partial_fit(X[10:], y[10:])
    assert abs(len(pickle.dumps(federation)) - early) <= 8  # the generators' counters


def check_no_second_compilation(case: Case) -> None:
    """Another dictionary, dimension, number of clients or setting needs no new machine code."""
    X, y = streams()
    case.federation().partial_fit(X, y)
    before = jit.n_specialisations(protocol.run_rounds)
    case.federation(seed=3, K=2, lam=0.1).partial_fit(X[:7, :2], y[:7, :2])
    case.federation(dictionary=DICTIONARY[:2], d=1).partial_fit(X[..., :1], y)
    assert jit.n_specialisations(protocol.run_rounds) == before


def check_blocks(case: Case) -> None:
    """Blocks of 1, 7 and T rounds: the same bits."""
    X, y = streams()
    whole = case.federation()
    expected = whole.partial_fit(X, y)
    for size in (1, 7):
        federation = case.federation()
        parts = [
            federation.partial_fit(X[s : s + size], y[s : s + size]) for s in range(0, len(y), size)
        ]
        for field, array in zip(expected._fields, expected, strict=True):
            ours = np.concatenate([getattr(part, field) for part in parts])
            np.testing.assert_array_equal(ours, array)
        assert numbers_of(federation) == numbers_of(whole)


def check_pickle_and_resume(case: Case) -> None:
    """Pickled between rounds and resumed: the same bits."""
    X, y = streams()
    whole = case.federation().partial_fit(X, y).y_hat
    federation = case.federation()
    head = federation.partial_fit(X[:99], y[:99]).y_hat
    federation = pickle.loads(pickle.dumps(federation))
    tail = federation.partial_fit(X[99:], y[99:]).y_hat
    np.testing.assert_array_equal(np.concatenate([head, tail]), whole)


def check_threads(case: Case) -> None:
    """Eight seeds on 8 threads and on 1: the same bits."""
    X, y = streams()

    def one(seed: int) -> np.ndarray:
        return case.federation(seed).partial_fit(X, y).y_hat

    alone = [one(seed) for seed in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for a, b in zip(alone, pool.map(one, range(8)), strict=True):
            np.testing.assert_array_equal(a, b)


def check_python_equals_compiled(case: Case) -> None:
    """The five steps as plain Python: the same numbers to 1e-12."""
    X, y = streams(60)
    compiled = case.federation().partial_fit(X, y).y_hat
    federation = case.federation()
    federation._run = getattr(protocol.run_rounds, "py_func", protocol.run_rounds)
    plain = federation.partial_fit(X, y).y_hat
    np.testing.assert_allclose(plain, compiled, rtol=0, atol=1e-12)


def check_causality(case: Case) -> None:
    """Other labels from round s on never change a prediction up to round s, of any client."""
    X, y = streams()
    first = case.federation().partial_fit(X, y).y_hat
    for s in (0, 1, 57, len(y) - 1):
        other = y.copy()
        other[s:] = 1.0 - other[s:]
        np.testing.assert_array_equal(
            case.federation().partial_fit(X, other).y_hat[: s + 1], first[: s + 1]
        )


def check_clients_that_are_done(case: Case) -> None:
    """A client at the end of its stream leaves, whatever stands there; blocks do not matter."""
    X, y = streams()
    lengths = np.array([ROUNDS, 1, 57, ROUNDS, 120])
    whole = case.federation(lengths=lengths)
    expected = whole.partial_fit(X, y)
    there = np.arange(ROUNDS)[:, None] < lengths
    np.testing.assert_array_equal(np.isfinite(expected.y_hat), there)
    for k, n in enumerate(lengths):
        assert np.all(expected.regret[n:, k] == expected.regret[n - 1, k])
        assert np.all(expected.loss[n:, k] == expected.loss[n - 1, k])
    federation = case.federation(lengths=lengths)
    blank, nothing = np.where(there[..., None], X, np.nan), np.where(there, y, np.nan)
    parts = [
        federation.partial_fit(blank[s : s + 7], nothing[s : s + 7]) for s in range(0, ROUNDS, 7)
    ]
    for field, array in zip(expected._fields, expected, strict=True):
        ours = np.concatenate([getattr(part, field) for part in parts])
        np.testing.assert_array_equal(ours, array)
    assert numbers_of(federation) == numbers_of(whole)


def check_privacy(case: Case) -> None:
    """What one client sees in a round reaches the others through messages alone: a round later."""
    X, y = streams()
    first = case.federation().partial_fit(X, y).y_hat
    other = y.copy()
    other[57, 2] = 1.0 - other[57, 2]
    second = case.federation().partial_fit(X, other).y_hat
    np.testing.assert_array_equal(second[:58], first[:58])
    others = [k for k in range(X.shape[1]) if k != 2]
    assert not np.array_equal(second[58:, others], first[58:, others])


def check_budget(case: Case) -> None:
    """No client ever sends more than the algorithm says; a smaller budget is refused."""
    X, y = streams(30)
    federation = case.federation(max_upload=None)
    most = case.algorithm.upload(federation.params, *federation.server.model.theta.shape)
    before = federation.totals.sent[:, 0].copy()
    for s in range(len(y)):
        federation.partial_fit(X[s : s + 1], y[s : s + 1])
        assert np.all(federation.totals.sent[:, 0] - before <= most)
        before = federation.totals.sent[:, 0].copy()
    if case.algorithm.kernels(federation.params, DICTIONARY):
        case.federation(max_upload=most)
        try:
            case.federation(max_upload=most - 1)
        except ValueError as error:
            assert "max_upload" in str(error)
        else:
            raise AssertionError("a message over the budget was not refused")


def check_extreme_losses(case: Case) -> None:
    """20,000 rounds of labels that jump between 0 and 1 at random stay finite."""
    rng = np.random.default_rng(5)
    T = 20_000
    X = rng.uniform(-1.0, 1.0, size=(T, 2, INPUTS)) / np.sqrt(INPUTS)
    y = rng.integers(0, 2, size=(T, 2)).astype(float)
    federation = case.federation(K=2, T=T)
    assert np.all(np.isfinite(federation.partial_fit(X, y).y_hat))
    assert np.all(np.isfinite(federation.server.model.theta))


def check_degenerate(case: Case) -> None:
    """One input, one kernel, one client, one round, constant x, x = 0: finite predictions."""
    X, y = streams()
    one = (Kernel("gaussian", 1.0),)
    for federation, inputs, labels in (
        (case.federation(d=1), X[..., :1], y),
        (case.federation(dictionary=one), X, y),
        (case.federation(K=1), X[:, :1], y[:, :1]),
        (case.federation(), np.ones_like(X) / 2.0, y),
        (case.federation(), np.zeros_like(X), y),
        (case.federation(), X[:1], y[:1]),
    ):
        trace = federation.partial_fit(np.ascontiguousarray(inputs), labels)
        assert np.all(np.isfinite(trace.y_hat)) and np.all(np.isfinite(trace.regret))


def check_same_clients(case: Case) -> None:
    """Clients with the same stream and the same draws are one client."""
    X, y = streams()
    X, y = np.repeat(X[:, :1], 3, axis=1), np.repeat(y[:, :1], 3, axis=1)
    if case.algorithm.draws[0]:
        raise Skip("clients draw for themselves")
    y_hat = case.federation(K=3).partial_fit(X, y).y_hat
    alone = case.federation(K=1).partial_fit(X[:, :1], y[:, :1]).y_hat
    np.testing.assert_allclose(y_hat, np.repeat(alone, 3, axis=1), rtol=0, atol=1e-12)


def check_learns(case: Case) -> None:
    """On a realisable stream the last third is predicted much better than by the mean."""
    X, y = streams(6000, K=1)
    y_hat = case.federation(K=1, T=6000).partial_fit(X, y).y_hat
    last = slice(4000, 6000)
    assert np.mean((y_hat[last] - y[last]) ** 2) < 0.5 * np.var(y[last])


def cases() -> Iterator[Check]:
    """Every check."""
    for name, function in list(globals().items()):
        if name.startswith("check_"):
            yield Check(name.removeprefix("check_"), function)


def run(name: str) -> None:
    """All checks of one algorithm; AssertionError at the first that fails."""
    case = Case(name)
    for check in cases():
        try:
            check.function(case)
        except Skip as reason:
            print(f"{check.name}: does not apply ({reason})")
        else:
            print(f"{check.name}: passed")
