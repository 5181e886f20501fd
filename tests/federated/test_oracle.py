"""POF-MKL against a plain NumPy version written from the paper's text alone.

Ghari and Shen, "Personalized Online Federated Learning with Multiple Kernels", NeurIPS 2022,
algorithms 1 and 2. Both get the same random features and the same uniform numbers.
"""

from __future__ import annotations

import numpy as np
import pytest

from omkl import federated
from omkl.checks.federations import streams
from omkl.core.hyperparameters import Schedule
from omkl.core.kernels import Kernel
from omkl.core.representations.random_features import draw_features
from omkl.core.rng import party_generators
from omkl.federated.simulation import Federation

DICTIONARY = tuple(Kernel("gaussian", b) for b in (0.05, 0.3, 1.0, 2.0, 5.0, 20.0, 80.0))
T, K, D, SEED = 150, 5, 6, 3
ETA, ETA_K, LAM = 0.03, 1.5, 0.02  # stable for one client that sends one kernel


def pof_mkl(frequencies, X, y, lengths, uniform, M, xi):
    """Predictions (T, K), NaN of clients that are done, and theta (N, 2 D).

    frequencies (N, d, D), X (T, K, d), y (T, K), lengths (K,) rounds of each client, uniform
    (T, K) the number that client k draws its bin with in round t.
    """
    N, _, D = frequencies.shape
    angles = np.einsum("tkd,ndf->tknf", X, frequencies)
    z = np.concatenate([np.sin(angles), np.cos(angles)], axis=-1) / np.sqrt(D)  # (4)
    theta, w = np.zeros((N, 2 * D)), np.ones((len(lengths), N))
    y_hat = np.full(y.shape, np.nan)
    for t in range(len(y)):
        clients = np.flatnonzero(t < np.asarray(lengths))
        change = np.zeros_like(theta)
        for k in clients:
            f = np.sum(theta * z[t, k], axis=1)
            y_hat[t, k] = w[k] @ f / w[k].sum()  # (6)
            best_first = np.argsort(-w[k], kind="stable")
            bins = [best_first[a : a + M] for a in range(0, N, M)]  # algorithm 1
            u = np.array([w[k, members].sum() for members in bins])
            q = (1.0 - xi) * u / u.sum() + xi / len(bins)  # (8)
            drawn = int(np.argmax(uniform[t, k] < np.cumsum(q)))
            loss = (f - y[t, k]) ** 2 + LAM * np.sum(theta**2, axis=1)
            gradient = 2.0 * (f - y[t, k])[:, None] * z[t, k] + 2.0 * LAM * theta
            change[bins[drawn]] += ETA * gradient[bins[drawn]] / q[drawn]  # (9)
            w[k] *= np.exp(-ETA_K * loss)  # (7)
        theta -= change / len(clients)  # (10)
    return y_hat, theta


@pytest.mark.parametrize("lengths", [(T,) * K, (T, 40, 1, 90, 41)])
@pytest.mark.parametrize(("M", "xi"), [(1, 1.0), (1, 0.6), (3, 0.5), (7, 1.0)])
def test_pof_mkl(M, xi, lengths):
    X, y = streams(T, K, seed=2)
    algorithm = federated.load("pof_mkl")
    steps = Schedule(ETA, 0.0), Schedule(ETA_K, 0.0)
    params = algorithm.Params(*steps, lam=LAM, xi=xi, M=M)
    federation = Federation(
        algorithm, params, DICTIONARY, X.shape[2], D, SEED, K, lengths=np.array(lengths)
    )
    ours = federation.partial_fit(X, y).y_hat
    frequencies = draw_features(DICTIONARY, X.shape[2], D, SEED).omega
    clients = party_generators(SEED, K)[1:]
    uniform = np.stack([generator.random((T, 1))[:, 0] for generator in clients], axis=1)
    y_hat, theta = pof_mkl(frequencies, X, y, lengths, uniform, M, xi)
    np.testing.assert_allclose(ours, y_hat, rtol=0, atol=1e-12)
    np.testing.assert_allclose(federation.server.model.theta, theta, rtol=0, atol=1e-12)
    assert np.ptp(y_hat[np.isfinite(y_hat)]) > 0.1  # it learned something to compare
