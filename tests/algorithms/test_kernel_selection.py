"""OKS++ against its authors' code in plain NumPy, with the same draws and features."""

import math

import numpy as np
import pytest

from omkl.checks.learners import DICTIONARY, Case, stream
from omkl.core.representations.random_features import features_of

T = 300
N = len(DICTIONARY)
X, Y = stream(T)
Y = 3.0 * Y - 1.0


class Plain:
    """OKS++square.R with features: p, and what it learns of the drawn kernel."""

    def __init__(self, Z, U):
        self.Z, self.U = Z, U
        self.theta = [np.zeros(z.shape[1]) for z in Z]
        self.p = self.q = np.full(N, 1.0 / N)
        self.L = np.zeros(N)
        self.CK = self.CK_ = 0.0

    def output(self, i, t):
        return self.theta[i] @ self.Z[i][t]

    def learn(self, i, t):
        U, tem1 = self.U, 4.0 ** (1 / 3) * (self.U * N) ** (2 / 3)
        fx = self.output(i, t)
        tilde_l = (Y[t] - fx) ** 2 / self.p[i]
        self.CK += tilde_l
        self.CK_ += tilde_l**2 * self.q[i]
        self.L[i] += tilde_l
        tem2 = N ** (1 / 6) * 4.0 ** (1 / 3) * math.sqrt(1.0 + self.L[i])
        lam = math.sqrt(3 / 4) * U ** (4 / 3) * max(tem1**3, 8 * self.CK) ** (-1 / 6) / tem2
        self.theta[i] = self.theta[i] - lam * 2.0 * (fx - Y[t]) / self.p[i] * self.Z[i][t]
        norm = np.linalg.norm(self.theta[i])
        if norm > U:
            self.theta[i] *= U / norm
        delta = 0.5 * tem1 / max(tem1, 2.0 * self.CK ** (1 / 3))
        eta = math.sqrt(2.0 * math.log(N)) / math.sqrt(1.0 + self.CK_)
        self.q = np.exp(-eta * self.L) / np.exp(-eta * self.L).sum()
        self.p = (1.0 - delta) * self.q + delta / N
        return norm > U


@pytest.mark.parametrize("U", [0.3, 1.0, 20.0])
def test_oks_pp(U):
    ours = Case("oks_pp").learner(U=U)
    plain = Plain([features_of(omega, X) for omega in ours.state.model.omega.copy()], U)
    drawn, n_cut = [], 0
    for t in range(T):
        y_hat, chances = ours.predict_one(X[t])[0], plain.p
        assert ours.selection.n_evaluated[0] == 1
        i = int(ours.selection.evaluate[0])
        np.testing.assert_allclose(y_hat, plain.output(i, t), rtol=0, atol=1e-10)
        ours.learn_one(X[t], Y[t])
        np.testing.assert_allclose(ours.state.chances, chances, rtol=1e-10)
        n_cut += plain.learn(i, t)
        drawn.append(i)
    np.testing.assert_array_equal(ours.used, np.bincount(drawn, minlength=N))
    assert ours.used.min() > 0 and np.ptp(plain.p) > 1e-3
    assert (n_cut > 0) == (U < 20.0)


def test_the_first_round_by_hand():
    """A label of 1, N = 6 and U = 1: l = N, and the step 2 eta N, over the norm that U allows."""
    ours = Case("oks_pp").learner(U=1.0)
    ours.predict_one(X[0])
    i = int(ours.selection.evaluate[0])
    ours.learn_one(X[0], 1.0)
    np.testing.assert_array_equal(ours.state.total, [N, N**2 / N])
    assert ours.state.losses[i] == N and ours.state.losses.sum() == N
    eta = math.sqrt(0.75) / ((16.0 * N) ** (1 / 6) * (4.0 * N**2) ** (1 / 6) * math.sqrt(1.0 + N))
    np.testing.assert_allclose(ours.state.model.norm2[i], min(1.0, 2.0 * eta * N) ** 2, rtol=1e-12)
