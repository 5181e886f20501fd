"""eM-KOFL by the rule of its authors' code, against plain NumPy with the same draws."""

import numpy as np

from omkl.checks import federations
from omkl.core.rng import party_generators

K, SEED, ETA, ETA_W, LAM = 5, 7, 0.3, 4.0, 0.01


def plain(X, y, omega):
    """Return the predictions (T, K); omega (N, d, D)."""
    T, (N, _, D) = len(y), omega.shape
    server, *clients = party_generators(SEED, K)
    theta, w = np.zeros((K, N, 2 * D)), np.ones((K, N))
    y_hat, kernels, sent = np.empty((T, K)), [], np.zeros(K, dtype=int)
    for t in range(T):
        v = server.random()
        if t == 0:
            kernel = int(v * N)
        else:  # of what was sent in the round before
            chance = np.bincount(sent, minlength=N).astype(float) ** K
            kernel = int(np.searchsorted(np.cumsum(chance), v * chance.sum(), side="right"))
            theta[:, kernel] = theta[sent == kernel, kernel].mean(axis=0)
        kernels.append(kernel)
        for k in range(K):
            shares = w[k] / w[k].sum()
            sent[k] = np.searchsorted(np.cumsum(shares), clients[k].random(), side="right")
            angle = np.einsum("d,ndj->nj", X[t, k], omega)
            z = np.hstack([np.sin(angle), np.cos(angle)]) / np.sqrt(D)
            f = (theta[k] * z).sum(axis=1)
            y_hat[t, k] = f[kernel]
            error = f - y[t, k]
            w[k] = w[k] * np.exp(-ETA_W * error**2)
            theta[k] = theta[k] - 2 * ETA * (error[:, None] * z + LAM * theta[k])
    return y_hat, kernels


def test_the_server_draws_by_counts_and_takes_the_mean_of_the_senders():
    case = federations.Case("em_kofl_counts")
    X, y = case.stream(120)
    ours = case.learner(seed=SEED, K=K, eta=ETA, eta_w=ETA_W, lam=LAM)
    expected, kernels = plain(X, y, ours.server.model.omega.copy())
    np.testing.assert_allclose(ours.partial_fit(X, y).y_hat, expected, rtol=0, atol=1e-11)
    assert len(set(kernels)) > 2
