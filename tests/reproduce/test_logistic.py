"""Raker, OMKL-GF and OMKL-SFG with the logistic loss, against plain NumPy."""

import numpy as np
import pytest

from omkl.checks.learners import Case, stream
from omkl.core.kernels import Kernel
from omkl.core.representations.random_features import features_of
from tests.learners import learner_of

KERNELS = tuple(Kernel("gaussian", 10.0**k) for k in (-1.0, -0.5, 0.0, 0.5))
LAM = 0.01
X, target = stream(150)
Y = np.where(target > 0.5, 1.0, -1.0)


def plain(omega, chosen=None, q=None):
    """Return y_hat of Raker, or of a learner that evaluates ``chosen[t]`` with their q[t]."""
    N = len(omega)
    z = np.stack([features_of(np.ascontiguousarray(w), X) for w in omega])
    theta, w, y_hat = np.zeros((N, z.shape[2])), np.ones(N), []
    for t, y in enumerate(Y):
        S = np.arange(N) if chosen is None else np.asarray(chosen[t])
        f = np.einsum("nd,nd->n", theta, z[:, t])
        y_hat.append(w[S] @ f[S] / w[S].sum())
        for i in S:
            step = 0.1 / np.sqrt(t + 1) / (1.0 if q is None else q[t][i])
            loss = np.log1p(np.exp(-y * f[i])) + LAM * theta[i] @ theta[i]
            w[i] *= np.exp(-step * loss)
            slope = -y / (1 + np.exp(y * f[i]))
            theta[i] = theta[i] - step * (slope * z[i, t] + 2 * LAM * theta[i])
    return np.array(y_hat)


def test_raker():
    ours = learner_of("logistic/raker", KERNELS, 3, 7, lam=LAM)
    expected = plain(ours.state.model.omega.copy())
    np.testing.assert_allclose(ours.partial_fit(X, Y).y_hat, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "settings"), [("gf", {"M": 2}), ("sfg", {"M": 2})])
def test_selected_kernels_step_by_their_probabilities(name, settings):
    ours = learner_of(f"logistic/{name}", KERNELS, 3, 7, lam=LAM, **settings)
    omega, chosen, q, y_hat = ours.state.model.omega.copy(), [], [], []
    for x, y in zip(X, Y, strict=True):
        y_hat.append(ours.predict_one(x)[0])
        ours.learn_one(x, y)
        n = ours.selection.n_evaluated[0]
        chosen.append(ours.selection.evaluate[:n].copy())
        q.append(ours.state.q.copy())
    np.testing.assert_allclose(y_hat, plain(omega, chosen, q), rtol=0, atol=1e-12)
    assert len({tuple(sorted(S)) for S in chosen}) > 1


def test_they_classify():
    for name in ("raker", "gf", "sfg"):
        case = Case(f"logistic/{name}")
        rows, labels = case.stream(2000)
        y_hat = case.learner().partial_fit(rows, labels).y_hat
        assert np.mean(y_hat[1000:] * labels[1000:] <= 0) < 0.2, name
