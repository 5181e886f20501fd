"""A client's round of every federated learner, beside the same in vectorised NumPy.

K clients on one thread, 51 kernels, D as 1000 numbers a round allow. The NumPy version takes all
clients of a round at once, in one matrix product a kernel, which is the best that NumPy can do; its
time and ours are for one client's round. ``work`` says what a round is made of, in the words of
``limits.least``, by which it is compared with what the machine can do.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from omkl import checks, federated, kernels, params
from omkl.federated import protocol
from omkl.federated.simulation import Federation
from omkl.reproduce import configuration

CLIENTS, INPUTS, ROUNDS, NUMPY_ROUNDS = 23, 15, 100, 10
Row = dict[str, Any]


def rows(seconds: float) -> list[Row]:
    """A row for every federated learner; about ``seconds`` for each measurement.

    round_us, numpy_us  (median, smallest, largest) microseconds of one client's round
    times_numpy         how many times faster we are, of the medians
    work                evaluated, distinct, N, D, d, as for the other learners; None for a
                        network
    """
    dictionary = kernels.dictionary(configuration(["kernels=rbf51"])["kernels"])
    rng = np.random.default_rng(1)
    X = rng.uniform(0.0, 1.0, size=(ROUNDS, CLIENTS, INPUTS)) / np.sqrt(INPUTS)
    y = rng.uniform(0.0, 1.0, size=(ROUNDS, CLIENTS))
    return [_row(name, dictionary, X, y, seconds) for name in federated.names()]


def _row(name: str, dictionary: Any, X: np.ndarray, y: np.ndarray, seconds: float) -> Row:
    algorithm = federated.load(name)
    given = checks.default_settings(name)
    built = params.build(algorithm.Params, given, 500, {"N": len(dictionary), "D": 100})
    used = algorithm.kernels(built, dictionary)
    D = protocol.features_for(algorithm, built, len(used), 1000) if used else 1
    federation = Federation(algorithm, built, dictionary, INPUTS, D, 0, CLIENTS, 1000)
    ours = _times(lambda: federation.partial_fit(X, y), seconds, ROUNDS)
    model = federation.server.model
    plain = _network(model) if not used else _numpy(name, model.omega.copy())
    numpy = _times(lambda: plain(X[:NUMPY_ROUNDS], y[:NUMPY_ROUNDS]), seconds, NUMPY_ROUNDS)
    N = len(used)
    work = {"evaluated": N, "distinct": N, "N": N, "D": D, "d": INPUTS} if used else None
    return {
        "algorithm": name,
        "clients": CLIENTS,
        "round_us": ours,
        "numpy_us": numpy,
        "times_numpy": numpy[0] / ours[0],
        "work": work,
    }


def _times(function: Callable[[], Any], seconds: float, rounds: int) -> tuple[float, float, float]:
    function()
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        found.append(1e6 * (time.perf_counter() - start) / (rounds * CLIENTS))
    return statistics.median(found), min(found), max(found)


def _numpy(name: str, omega: np.ndarray) -> Callable[[np.ndarray, np.ndarray], None]:
    """All clients of a round at once: evaluate, predict, learn the rows that they send."""
    N, _, D = omega.shape
    theta, log_w = np.zeros((N, 2 * D)), np.zeros((CLIENTS, N))
    own = np.zeros((CLIENTS, N, 2 * D)) if name == "em_kofl" else None
    rng = np.random.default_rng(0)
    eta, lam = 500**-0.5, 1e-3

    def stream(X: np.ndarray, y: np.ndarray) -> None:
        for x, label in zip(X, y, strict=True):
            angle = x @ omega  # (N, K, D)
            z = np.concatenate([np.sin(angle), np.cos(angle)], axis=2) / np.sqrt(D)
            if own is None:
                f = np.einsum("nkj,nj->kn", z, theta)
                norm2 = np.einsum("nj,nj->n", theta, theta)
            else:
                f = np.einsum("nkj,knj->kn", z, own)
                norm2 = np.einsum("knj,knj->kn", own, own)
            w = np.exp(log_w - log_w.max(axis=1, keepdims=True))
            _ = np.einsum("kn,kn->k", w, f) / w.sum(axis=1)
            error = f - label[:, None]
            log_w[...] -= eta * (error**2 + lam * norm2)
            if own is not None:
                step = 2.0 * error[:, :, None] * z.transpose(1, 0, 2) + 2.0 * lam * own
                own[...] -= eta * step
                theta[0] = own[:, 0].mean(axis=0)
            elif name == "pof_mkl":  # M = 1, xi = 1
                i, k = rng.integers(N, size=CLIENTS), np.arange(CLIENTS)
                step = 2.0 * error[k, i, None] * z[i, k] + 2.0 * lam * theta[i]
                np.subtract.at(theta, i, eta * N / CLIENTS * step)
            else:
                theta[...] -= eta * (
                    2.0 * np.einsum("kn,nkj->nj", error, z) / CLIENTS + 2.0 * lam * theta
                )

    return stream


def _network(model: Any) -> Callable[[np.ndarray, np.ndarray], None]:
    """The two steps of PerFedAvg for all clients of a round at once."""
    sizes = model.sizes.tolist()
    flat, start = model.theta[0].copy(), 0
    layers = []
    for a, b in itertools.pairwise(sizes):
        weights = flat[start : start + a * b].reshape(b, a)
        layers.append((weights, flat[start + a * b : start + (a + 1) * b]))
        start += (a + 1) * b

    def gradient(network: Any, x: np.ndarray, label: np.ndarray) -> Any:
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
        return found[::-1]

    def stream(X: np.ndarray, y: np.ndarray) -> None:
        for x, label in zip(X, y, strict=True):
            shared = [(np.broadcast_to(w, (CLIENTS, *w.shape)), b) for w, b in layers]
            first = gradient(shared, x, label)
            adapted = [
                (w - 0.01 * g, b - 0.01 * h) for (w, b), (g, h) in zip(shared, first, strict=True)
            ]
            for (w, b), (g, h) in zip(layers, gradient(adapted, x, label), strict=True):
                w -= 0.01 * g.mean(axis=0)
                b -= 0.01 * h.mean(axis=0)

    return stream


if __name__ == "__main__":
    print("microseconds of one client's round, smallest of many: ours, NumPy, ratio")
    for row in rows(0.5):
        ours, plain = row["round_us"][1], row["numpy_us"][1]
        print(f"{row['algorithm']:12s} {ours:8.2f} {plain:8.1f} {plain / ours:6.1f}")
