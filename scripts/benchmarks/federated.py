"""A client's round of every federated learner on one thread, beside its limit and beside NumPy.

51 kernels, D as 1000 numbers per round allow. NumPy takes all clients of a round at once, in a
few products of arrays, which is the best that it can do; it makes the same predictions to 1e-8
(``tests/benchmark/test_bench.py``). Its time and ours are for one client's round.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.peers_numpy import drawn, normalised, rate
from benchmarks.setting import SEED, Rows
from benchmarks.timing import Spread, deciles, interleaved, ratios, spread, undisturbed
from omkl import federated
from omkl.checks import learners
from omkl.config.compose import compose
from omkl.core import hyperparameters, kernels
from omkl.core.kernels import Kernel
from omkl.core.rng import party_generators
from omkl.federated.protocol import MOST_FEATURES, FederatedAlgorithm, features_for
from omkl.federated.simulation import Federation

CLIENTS, ROUNDS, NUMPY_ROUNDS = 23, 100, 10
BUDGET = 1000  # numbers a round
Row = dict[str, Any]
Stream = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Case(NamedTuple):
    """A federated learner with the settings of its YAML."""

    algorithm: FederatedAlgorithm
    params: Any
    dictionary: tuple[Kernel, ...]
    d: int
    D: int

    def federation(self, n_clients: int = CLIENTS) -> Federation:
        return Federation(
            self.algorithm, self.params, self.dictionary, self.d, self.D, SEED, n_clients
        )


def case(name: str, dictionary: tuple[Kernel, ...], d: int, budget: int = BUDGET) -> Case:
    algorithm = federated.load(name)
    sizes = {"N": len(dictionary), "D": MOST_FEATURES}
    built = hyperparameters.build(algorithm.Params, learners.default_settings(name), 500, sizes)
    used = algorithm.kernels(built, dictionary)
    D = features_for(algorithm, built, len(used), budget) if used else 1
    return Case(algorithm, built, dictionary, d, D)


def measure(rows: Rows, turns: int, seconds: float) -> list[Row]:
    """A row for every federated learner.

    round_us   Spread of the microseconds of one client's round
    numpy_us   the same of NumPy, and ``times``, the ratio to ours in the same turn
    work       what a client's round is made of, for ``limits.least``
    """
    chosen = compose(["kernels=rbf51"])["kernels"]
    dictionary = kernels.dictionary(chosen)
    n = min(ROUNDS, len(rows.y) // CLIENTS)
    X = np.ascontiguousarray(rows.X[: n * CLIENTS].reshape(n, CLIENTS, -1))
    y = np.ascontiguousarray(rows.y[: n * CLIENTS].reshape(n, CLIENTS))
    cases = [case(name, dictionary, X.shape[2]) for name in federated.names()]
    return [_row(given, X, y, turns, seconds) for given in cases]


def _row(given: Case, X: np.ndarray, y: np.ndarray, turns: int, seconds: float) -> Row:
    federation, stream = given.federation(), in_numpy(given, CLIENTS)
    took = undisturbed(lambda: federation.partial_fit(X, y), seconds)
    few = slice(0, min(NUMPY_ROUNDS, len(y)))
    both = {
        "ours": lambda: lambda: federation.partial_fit(X, y),
        "numpy": lambda: lambda: stream(X[few], y[few]),
    }
    turn = interleaved(both, turns, seconds / 10)
    per, per_few = 1e6 / y.size, 1e6 / y[few].size
    N, W = federation.server.model.theta.shape
    if given.algorithm.kernels(given.params, given.dictionary):
        learned = (given.algorithm.upload(given.params, N, W) - len(federation.server.log_w)) // W
        learned = N if given.algorithm.name == "em_kofl" else learned
        work: dict[str, Any] = {"N": N, "D": given.D, "d": given.d, "learned": learned}
    else:
        work = {"parameters": W}
    return {
        "algorithm": given.algorithm.name,
        "clients": CLIENTS,
        "rounds": len(y),
        "round_us": Spread(*(per * t for t in deciles(took))),
        "numpy_us": Spread(*(per_few * t for t in spread(turn["numpy"]))),
        "times": Spread(*(t * per_few / per for t in ratios(turn["numpy"], turn["ours"]))),
        "work": work,
    }


def in_numpy(given: Case, n_clients: int) -> Stream:
    """The learner on X (n, K, d), y (n, K) in plain NumPy: its predictions (n, K)."""
    federation = given.federation(n_clients)
    model = federation.server.model
    if given.algorithm.name == "perfedavg":
        return _network(given.params, model)
    start = _Start(given.params, model.omega.copy(), n_clients, party_generators(SEED, n_clients))
    return {"pof_mkl": _pof_mkl, "em_kofl": _em_kofl}.get(given.algorithm.name, _shared)(
        given.algorithm.name, start
    )


class _Start(NamedTuple):
    params: Any
    omega: np.ndarray  # (N, d, D)
    n_clients: int
    generators: list[np.random.Generator]  # of the server and of each client


def _features(omega: np.ndarray, x: np.ndarray) -> np.ndarray:
    """z (N, K, 2 D) of x (K, d)."""
    angle = x @ omega
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=2) / np.sqrt(omega.shape[2])


def _move(theta: np.ndarray, lam: float, step: np.ndarray, error: np.ndarray, z: Any) -> None:
    """The mean of theta_i - step (2 error z + 2 lam theta_i) over clients; step, error (K, N)."""
    K = len(step)
    slope = np.matmul((step * error).T[:, None, :], z)[:, 0]
    theta -= 2.0 / K * (slope + lam * step.sum(axis=0)[:, None] * theta)


def _shared(name: str, start: _Start) -> Stream:
    """vM-KOFL, OFMKL-Avg, OFSKL: all kernels, one combination for all clients."""
    given, omega = start.params, start.omega
    N, _, D = omega.shape
    theta, log_w, clock = np.zeros((N, 2 * D)), np.zeros(N), itertools.count(1)

    def stream(X: np.ndarray, y: np.ndarray) -> np.ndarray:
        y_hat = np.empty(y.shape)
        for s, t in zip(range(len(y)), clock, strict=False):
            z = _features(omega, X[s])
            f = np.matmul(z, theta[:, :, None])[:, :, 0].T  # (K, N)
            y_hat[s] = f @ normalised(log_w)
            error = f - y[s][:, None]
            if name == "vm_kofl":
                loss = error**2 + given.lam * np.einsum("nj,nj->n", theta, theta)
                log_w[...] -= rate(given.eta_w, t) * loss.mean(axis=0)
            _move(theta, given.lam, np.full(f.shape, rate(given.eta, t)), error, z)
        return y_hat

    return stream


def _pof_mkl(name: str, start: _Start) -> Stream:
    given, omega, K = start.params, start.omega, start.n_clients
    N, _, D = omega.shape
    n_bins = -(-N // given.M)
    bin_of = np.arange(N) // given.M  # of a place in the order by weight
    theta, log_w, clock = np.zeros((N, 2 * D)), np.zeros((K, N)), itertools.count(1)
    clients, rows = start.generators[1:], np.arange(K)

    def stream(X: np.ndarray, y: np.ndarray) -> np.ndarray:
        y_hat = np.empty(y.shape)
        u = np.stack([rng.random(len(y)) for rng in clients], axis=1)
        for s, t in zip(range(len(y)), clock, strict=False):
            w = np.exp(log_w - log_w.max(axis=1, keepdims=True))
            w /= w.sum(axis=1, keepdims=True)
            order = np.argsort(-log_w, axis=1, kind="stable")
            shares = np.add.reduceat(w[rows[:, None], order], np.arange(0, N, given.M), axis=1)
            q = (1.0 - given.xi) * shares + given.xi / n_bins
            chosen = np.minimum((np.cumsum(q, axis=1) <= u[s][:, None]).sum(axis=1), n_bins - 1)
            sent = np.zeros((K, N))
            sent[rows[:, None], order] = bin_of == chosen[:, None]
            z = _features(omega, X[s])
            f = np.matmul(z, theta[:, :, None])[:, :, 0].T
            y_hat[s] = np.einsum("kn,kn->k", w, f)
            error = f - y[s][:, None]
            loss = error**2 + given.lam * np.einsum("nj,nj->n", theta, theta)
            log_w[...] -= rate(given.eta_k, t) * loss
            step = rate(given.eta, t) / q[rows, chosen]
            if given.M > 1:
                _move(theta, given.lam, sent * step[:, None], error, z)
            else:  # one row a client: not all of them
                i = order[rows, chosen]
                slope = error[rows, i, None] * z[i, rows] + given.lam * theta[i]
                np.subtract.at(theta, i, 2.0 / K * step[:, None] * slope)
        return y_hat

    return stream


def _em_kofl(name: str, start: _Start) -> Stream:
    given, omega, K = start.params, start.omega, start.n_clients
    N, _, D = omega.shape
    theta, own = np.zeros((N, 2 * D)), np.zeros((N, K, 2 * D))
    log_w, server, clock = np.zeros(N), start.generators[0], itertools.count(1)
    following: list[int] = []

    def stream(X: np.ndarray, y: np.ndarray) -> np.ndarray:
        y_hat = np.empty(y.shape)
        v = server.random((len(y), 2))
        for s, t in zip(range(len(y)), clock, strict=False):
            w = normalised(log_w)
            now = following.pop() if following else int(drawn(w, v[s, 0]))
            following.append(int(drawn(w, v[s, 1])))
            own[now] = theta[now]
            z = _features(omega, X[s])
            f = np.einsum("nkj,nkj->kn", z, own)
            y_hat[s] = f[:, now]
            error = f - y[s][:, None]
            loss = error**2 + given.lam * np.einsum("nkj,nkj->kn", own, own)
            eta = rate(given.eta, t)
            own[...] *= 1.0 - 2.0 * eta * given.lam
            own[...] -= (2.0 * eta * error.T[:, :, None]) * z
            theta[following[0]] = own[following[0]].mean(axis=0)
            log_w[...] -= rate(given.eta_w, t) * loss.mean(axis=0)
        return y_hat

    return stream


def _network(given: Any, model: Any) -> Stream:
    """The two steps of PerFedAvg for all clients of a round at once."""
    flat, start, clock = model.theta[0].copy(), 0, itertools.count(1)
    layers = []
    for a, b in itertools.pairwise(model.sizes.tolist()):
        weights = flat[start : start + a * b].reshape(b, a)
        layers.append((weights, flat[start + a * b : start + (a + 1) * b]))
        start += (a + 1) * b

    def gradient(network: Any, x: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, Any]:
        values = [x]
        for number, (weights, bias) in enumerate(network):
            value = np.einsum("kba,ka->kb", weights, values[-1]) + bias
            last = number == len(network) - 1
            values.append(value if last else np.maximum(value, 0.0))
        delta = 2.0 * (values[-1] - label[:, None])
        found = []
        for (weights, _), below in zip(network[::-1], values[-2::-1], strict=True):
            found.append((delta[:, :, None] * below[:, None, :], delta))
            delta = np.einsum("kb,kba->ka", delta, weights) * (below > 0.0)
        return values[-1][:, 0], found[::-1]

    def stream(X: np.ndarray, y: np.ndarray) -> np.ndarray:
        y_hat = np.empty(y.shape)
        for s, t in zip(range(len(y)), clock, strict=False):
            alpha, beta = rate(given.alpha, t), rate(given.beta, t)
            shared = [(np.broadcast_to(w, (len(y[s]), *w.shape)), b) for w, b in layers]
            y_hat[s], first = gradient(shared, X[s], y[s])
            adapted = [
                (w - alpha * g, b - alpha * h) for (w, b), (g, h) in zip(shared, first, strict=True)
            ]
            for (w, b), (g, h) in zip(layers, gradient(adapted, X[s], y[s])[1], strict=True):
                w -= beta * g.mean(axis=0)
                b -= beta * h.mean(axis=0)
        return y_hat

    return stream
