"""Check that federated algorithms conform to the rules of omkl.

>>> from omkl.checks import federations
>>> federations.run("pof_mkl")
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from omkl import federated
from omkl.checks import shared
from omkl.checks.shared import DICTIONARY, FEATURES, INPUTS, Check, Skip
from omkl.core import compiler
from omkl.core.kernels import Kernel
from omkl.federated import parties, protocol, simulation
from omkl.federated.exchange import Links
from omkl.federated.messages import NO_PROTECTION, Protection
from omkl.federated.simulation import FederatedTrace, Federation
from omkl.utils.conf import default_settings

CLIENTS, ROUNDS = 5, 200


class Case(shared.Case):
    """Federated algorithm with the settings of its YAML file, and five clients."""

    n_rounds = ROUNDS
    rounds_to_play = 60
    many_rounds = 20_000

    def __init__(self, name: str) -> None:
        self.name = name
        self.settings = default_settings(name)
        self.algorithm = federated.load(name)
        self.loop = compiler.compiled_for(self.algorithm.Params, simulation.run_rounds)

    def stream(self, T: int = ROUNDS) -> tuple[np.ndarray, np.ndarray]:
        """Return rows (T, K, d) and targets (T, K) of the five clients. ``streams`` makes them."""
        return streams(T)

    def learner(
        self,
        seed: int = 0,
        dictionary: tuple[Kernel, ...] = DICTIONARY,
        d: int = INPUTS,
        K: int = CLIENTS,
        T: int | None = None,
        max_upload: int | None = None,
        model: Any = None,
        lengths: np.ndarray | None = None,
        links: Links | None = None,
        **changes: Any,
    ) -> Federation:
        changes = {"M": min(2, len(dictionary)), **changes}
        built = self.params(len(dictionary), T, **changes)
        sizes = d, FEATURES, seed, K, max_upload
        return Federation(
            self.algorithm, built, dictionary, *sizes, model=model, lengths=lengths, links=links
        )

    def learned(self, federation: Federation) -> Any:
        return federation.servers, federation.clients, federation.totals

    def weights(self, federation: Federation) -> list[np.ndarray]:
        servers = federation.servers
        return [servers.model.theta, servers.log_w, *federation.clients]

    @functools.cached_property
    def played(self) -> FederatedTrace:
        federation = self.learner()
        federation.loop = getattr(simulation.run_rounds, "py_func", simulation.run_rounds)
        return federation.partial_fit(*self.stream(self.rounds_to_play))


def streams(
    T: int = ROUNDS, K: int = CLIENTS, d: int = INPUTS, seed: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of K clients: X (T, K, d) in the unit ball and targets y (T, K) in [0, 1].

    The function from x to y differs between clients by a constant.

    Parameters
    ----------
    T, K, d
        Number of rounds, of clients and of inputs.
    seed
        Seed of the rows.
    """
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(T, K, d)) / np.sqrt(d)
    shift = np.linspace(0.0, 0.2, K)
    return X, 0.4 + shift + 0.4 * np.sin(3.0 * X[..., 0]) * np.cos(2.0 * X[..., -1])


def check_another_number_of_clients(case: Case) -> None:
    """Check that no code is compiled again for another number of clients."""
    X, y = streams()
    case.learner().partial_fit(X, y)
    before = compiler.n_specialisations(case.loop)
    case.learner(seed=3, K=2, lam=0.1).partial_fit(X[:7, :2], y[:7, :2])
    assert compiler.n_specialisations(case.loop) == before


def check_blocks_leave_the_same_state(case: Case) -> None:
    """Check that the final state is the same, to the last bit, for blocks of 1, 7 and T rounds."""
    X, y = streams()
    states = []
    for size in (1, 7, len(y)):
        federation = case.learner()
        shared.in_blocks(federation, X, y, size)
        states.append(pickle.dumps(case.learned(federation)))
    assert len(set(states)) == 1


def check_predict_is_pure(case: Case) -> None:
    """Check that ``predict`` changes no state, and returns the same value in a second call."""
    X, y = streams()
    federation = case.learner()
    federation.partial_fit(X[:50], y[:50])
    states = (federation.params, federation.server, federation.clients)
    protocol.broadcast_selection(*states[:2], 51, np.array([0.3, 0.6]))
    protocol.select(*states, 0, 51, np.array([0.3, 0.8]), federation.scratch, federation.message)
    before = pickle.dumps((states, federation.message))
    first, second = (protocol.predict(*states, 0, 51, X[50], 0, federation.scratch) for _ in "ab")
    assert first == second
    assert pickle.dumps((states, federation.message)) == before


def check_clients_that_are_done(case: Case) -> None:
    """Check that a client is ignored after the end of its stream, for any size of blocks."""
    X, y = streams()
    lengths = np.array([ROUNDS, 1, 57, ROUNDS, 120])
    whole = case.learner(lengths=lengths)
    expected = whole.partial_fit(X, y)
    present = np.arange(ROUNDS)[:, None] < lengths
    np.testing.assert_array_equal(np.isfinite(expected.y_hat), present)
    for k, n in enumerate(lengths):
        assert np.all(expected.regret[n:, k] == expected.regret[n - 1, k])
        assert np.all(expected.loss[n:, k] == expected.loss[n - 1, k])
    federation = case.learner(lengths=lengths)
    inputs, labels = np.where(present[..., None], X, np.nan), np.where(present, y, np.nan)
    shared.require_equal(shared.in_blocks(federation, inputs, labels, 7), expected)
    assert pickle.dumps(case.learned(federation)) == pickle.dumps(case.learned(whole))


def check_privacy(case: Case) -> None:
    """Check that data of a client affect other clients only from the next round on."""
    X, y = streams()
    first = case.learner().partial_fit(X, y).y_hat
    other = y.copy()
    other[57, 2] = 1.0 - other[57, 2]
    second = case.learner().partial_fit(X, other).y_hat
    np.testing.assert_array_equal(second[:58], first[:58])
    others = [k for k in range(X.shape[1]) if k != 2]
    assert not np.array_equal(second[58:, others], first[58:, others])


class Sent(NamedTuple):
    """Messages of one client in n rounds: W parameters of each of m kernels, and E losses.

    The server broadcasts the same state in every round.

    theta      (N, W) parameters of all N kernels, which the server broadcasts
    announced  (n, A) indices of the A kernels that the server announces
    rows       (n, m) indices of the kernels in each message
    values     (n, m, W) parameters of these kernels
    losses     (n, E) losses in each message
    normals    (n, m W + E) standard normal numbers from which the noise is made
    """

    theta: np.ndarray
    announced: np.ndarray
    rows: np.ndarray
    values: np.ndarray
    losses: np.ndarray
    normals: np.ndarray


def sent_by_one(
    case: Case, X: np.ndarray, y: np.ndarray, protection: Protection, start: int = 20
) -> tuple[Federation, Sent]:
    """Return a federation of one client, and its messages after ``start`` rounds of learning.

    Parameters
    ----------
    case
        Federated algorithm.
    X, y
        Rows (T, 1, d) and targets (T, 1).
    protection
        Clipping and noise of the messages.
    start
        Number of rounds that the federation learns before the recorded ones.
    """
    federation = case.learner(K=1, M=len(DICTIONARY))
    federation.partial_fit(X[:start], y[:start])
    params, server, clients = federation.params, federation.server, federation.clients
    message, scratch = federation.message, federation.scratch
    run_selection = compiler.compiled_for(type(params), parties.run_broadcast_selection)
    run_round = compiler.compiled_for(type(params), parties.run_client_round)
    rng = np.random.default_rng(5)
    theta, messages = server.model.theta.copy(), []
    for s in range(start, len(y)):
        u, v = (rng.random(n) for n in case.algorithm.draws(params))
        normals = rng.standard_normal(message.theta.size + len(message.losses))
        run_selection(params, server, s + 1, v)
        draws = (u, normals, protection)
        state = params, server, clients, s + 1
        run_round(*state, X[s], y[s, 0], *draws, scratch, message)
        arrays = server.announced, message.rows, message.theta, message.losses
        messages.append([array.copy() for array in arrays] + [normals])
    return federation, Sent(theta, *(np.stack(part) for part in zip(*messages, strict=True)))


def check_exposure(case: Case) -> None:
    """Check that one row changes at most ``exposure`` messages of its client.

    ``exposure`` is a function of the algorithm, and returns this number.
    """
    X, y = streams(60, K=1)
    params = case.params(M=len(DICTIONARY))
    exposure = case.algorithm.exposure(params, len(DICTIONARY), 60)
    _, plain = sent_by_one(case, X, y, NO_PROTECTION)
    other, labels = X.copy(), y.copy()
    other[40], labels[40] = -X[40], 1.0 - y[40]
    _, changed = sent_by_one(case, other, labels, NO_PROTECTION)
    pairs = list(zip(plain[2:5], changed[2:5], strict=True))
    differ = [not all(np.array_equal(a[s], b[s]) for a, b in pairs) for s in range(40)]
    assert differ[20] and not any(differ[:20])
    assert sum(differ) <= exposure


def check_noise(case: Case) -> None:
    """Check that a message is first clipped, and that noise is added afterwards."""
    X, y = streams(40, K=1)
    _, plain = sent_by_one(case, X, y, NO_PROTECTION)
    whole = case.algorithm.announces[0] > 0
    clip, clip_losses, sd = 1e-3, 1e-2, 0.5
    protection = Protection(clip, clip_losses, sd, 2.0 * sd, whole)
    _, noisy = sent_by_one(case, X, y, protection)
    for s in range(20):
        base = 0.0 if whole else plain.theta[plain.rows[s]]
        change = plain.values[s] - base
        clipped = change * min(1.0, clip / max(float(np.linalg.norm(change)), 1e-300))
        assert np.linalg.norm(clipped) <= clip * (1.0 + 1e-12)
        size = change.size
        expected = base + clipped + sd * noisy.normals[s][:size].reshape(change.shape)
        np.testing.assert_allclose(noisy.values[s], expected, rtol=0, atol=1e-12)
        losses = plain.losses[s]
        losses = losses * min(1.0, clip_losses / max(float(np.linalg.norm(losses)), 1e-300))
        losses = losses + 2.0 * sd * noisy.normals[s][size:]
        np.testing.assert_allclose(noisy.losses[s], losses, rtol=0, atol=1e-12)


def check_budget(case: Case) -> None:
    """Check that a client sends at most ``upload`` numbers a round.

    ``upload`` is a function of the algorithm. If the algorithm has kernels, a setting
    ``max_upload`` below the result of ``upload`` must raise an error.
    """
    X, y = streams(30)
    federation = case.learner(max_upload=None)
    most = case.algorithm.upload(federation.params, *federation.server.model.theta.shape)
    before = federation.totals.sent[:, 0].copy()
    for s in range(len(y)):
        federation.partial_fit(X[s : s + 1], y[s : s + 1])
        assert np.all(federation.totals.sent[:, 0] - before <= most)
        before = federation.totals.sent[:, 0].copy()
    if case.algorithm.kernels(federation.params, DICTIONARY, federation.d):
        case.learner(max_upload=most)
        shared.require_refusal("max_upload", lambda: case.learner(max_upload=most - 1))


def check_one_client(case: Case) -> None:
    """Check that a federation of one client has finite predictions and regrets."""
    X, y = streams(K=1)
    trace = case.learner(K=1).partial_fit(X, y)
    assert np.all(np.isfinite(trace.y_hat)) and np.all(np.isfinite(trace.regret))


def check_same_clients(case: Case) -> None:
    """Check that clients with equal rows and random numbers predict like a single client."""
    X, y = streams()
    X, y = np.repeat(X[:, :1], 3, axis=1), np.repeat(y[:, :1], 3, axis=1)
    if case.algorithm.draws(case.params(M=2))[0]:
        raise Skip("clients draw for themselves")
    y_hat = case.learner(K=3).partial_fit(X, y).y_hat
    alone = case.learner(K=1).partial_fit(X[:, :1], y[:, :1]).y_hat
    np.testing.assert_allclose(y_hat, np.repeat(alone, 3, axis=1), rtol=0, atol=1e-12)


CHECKS = shared.with_shared(globals())


def names() -> list[str]:
    """Return the names of the algorithms that this suite checks."""
    return federated.names()


def cases(name: str) -> Iterator[Check]:
    """Yield all checks for an algorithm."""
    return shared.declared(federated.load(name), CHECKS)


def run(name: str) -> None:
    """Run all checks for one algorithm. AssertionError names the first failure."""
    shared.run(Case(name), cases(name))
