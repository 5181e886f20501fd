"""The active paper's rebuilt learners against plain NumPy and published cells.

The plain version keeps features without 1/sqrt(D), as DOMKL's are, and lists instead of states.
"""

from math import comb

import numpy as np
import pytest

from omkl.core.kernels import Kernel, dictionary
from omkl.core.rng import selection_generator
from omkl.utils import conf
from tests.conftest import rows_of
from tests.learners import learner_of

NAME = "mkl_active_learning"
KERNELS = tuple(Kernel("gaussian", 10.0**k) for k in (-1.5, -1.0, -0.5, 0.0, 0.5))
D, LAM = 6, 0.05
rng = np.random.default_rng(11)
X = rng.uniform(size=(160, 4))
Y = np.sin(3 * X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(len(X))
T = len(Y)


# --- exact kernels --------------------------------------------------------------------------------


def plain_expansion(X, y, kernel, c, lam):
    """f <- (1 - c lam) f + 2 c (y - f(x)) k(x, .), with every coefficient faded in every round."""
    alpha, y_hat = np.zeros(len(y)), np.empty(len(y))
    for t in range(len(y)):
        y_hat[t] = sum(alpha[s] * kernel(X[s], X[t]) for s in range(t))
        alpha *= 1 - c * lam
        alpha[t] = 2 * c * (y[t] - y_hat[t])
    return y_hat


@pytest.mark.parametrize(
    ("name", "settings", "kernel"),
    [
        ("rbf", {"bandwidth": 0.5}, lambda a, b: np.exp(-np.sum((a - b) ** 2) / (2 * 0.5**2))),
        ("poly", {"degree": 1}, np.dot),
        ("poly", {"degree": 3}, lambda a, b: np.dot(a, b) ** 3),
    ],
)
def test_an_exact_kernel_fades(name, settings, kernel):
    ours = learner_of(f"{NAME}/{name}", (), 4, T=T, lam=2.0, eta=0.03, **settings)
    expected = plain_expansion(X, Y, kernel, 0.03, 2.0)
    np.testing.assert_allclose(ours.partial_fit(X, Y).y_hat, expected, rtol=0, atol=1e-12)


# --- random features ------------------------------------------------------------------------------


class Plain:
    """Kernels with features [sin, cos] that are not divided by sqrt(D)."""

    def __init__(self, omega, eta, eta_g):
        self.omega, self.eta, self.eta_g = omega, eta, eta_g
        self.theta, self.w = np.zeros((len(omega), 2 * D)), np.ones(len(omega))

    def outputs(self, x):
        angle = np.einsum("d,ndk->nk", x, self.omega)
        self.z = np.hstack([np.sin(angle), np.cos(angle)])
        self.f = (self.theta * self.z).sum(axis=1)
        return self.f

    def learn(self, y):
        error = self.f - y
        self.w = self.w * np.exp(-self.eta_g * error**2)
        step = 2 * self.eta * (error[:, None] * self.z + LAM * self.theta)
        self.theta = self.theta - step

    def mean(self, g, members=slice(None)):
        return self.w[members] @ g[members] / self.w[members].sum()


def ours_and_plain(name, eta=0.02, eta_g=0.4, seed=3, **settings):
    ours = learner_of(
        f"{NAME}/{name}", KERNELS, 4, D, T=T, seed=seed, lam=LAM, eta=eta, eta_g=eta_g, **settings
    )
    return ours, Plain(ours.state.model.omega.copy(), eta, eta_g)


def test_raker():
    ours, plain = ours_and_plain("raker")
    expected = []
    for x, y in zip(X, Y, strict=True):
        expected.append(plain.mean(plain.outputs(x)))
        plain.learn(y)
    np.testing.assert_allclose(ours.partial_fit(X, Y).y_hat, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("eta_c", [0.001, 0.02])
def test_amkl_skips_by_the_outputs_of_the_last_labelled_row(eta_c):
    ours, plain = ours_and_plain("amkl", eta_c=eta_c)
    expected, asked, old, skipped = [], [], np.zeros(len(KERNELS)), 0
    for t, (x, y) in enumerate(zip(X, Y, strict=True)):
        f, p = plain.outputs(x), plain.w / plain.w.sum()
        apart = max(p @ (old - old[j]) ** 2 for j in range(len(f)))
        asked.append(t < int(0.1 * T) or skipped >= 1 or apart > eta_c)
        if asked[-1]:
            old = f
        expected.append(plain.mean(old))
        skipped = 0 if asked[-1] else skipped + 1
        if asked[-1]:
            plain.learn(y)
    trace = ours.partial_fit(X, Y)
    np.testing.assert_array_equal(trace.asked, asked)
    np.testing.assert_allclose(trace.y_hat, expected, rtol=0, atol=1e-12)
    assert 0.5 < np.mean(asked) < 0.99


def test_omkl_aks_draws_a_subset_by_weights_of_a_constant_step():
    ours, plain = ours_and_plain("omkl_aks", eta_g=0.1, seed=5)
    uniform, expected, N, sizes = selection_generator(5), [], len(KERNELS), set()
    for x, y in zip(X, Y, strict=True):
        K = max(1, int(np.sum(plain.w / plain.w.max() > 0.8)))
        n_bins = min(comb(N, K) / N, 2.0) * N
        members = np.arange(N)
        if n_bins > 1:
            first = int(np.searchsorted(np.cumsum(plain.w / plain.w.sum()), uniform.random()))
            share = K / N  # J = K n_bins / N of the bins hold a kernel
            members = [i for i in range(N) if i == first or uniform.random() < share]
        sizes.add(len(members))
        expected.append(plain.mean(plain.outputs(x), members))
        plain.learn(y)
    np.testing.assert_allclose(ours.partial_fit(X, Y).y_hat, expected, rtol=0, atol=1e-12)
    assert len(sizes) > 2


def test_frequencies_are_orthogonal_and_as_long_as_one_normal_number():
    ours = learner_of(f"{NAME}/raker", KERNELS, 4, 4_000, T=T)
    for kernel, omega in zip(KERNELS, ours.state.model.omega, strict=True):
        rows = omega.T / kernel.bandwidth
        for block in rows.reshape(-1, 4, 4)[:50]:
            gram = block @ block.T
            np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-12)
        assert np.mean(np.sum(rows**2, axis=1)) == pytest.approx(1.0, abs=0.1)
        assert np.median(np.linalg.norm(rows, axis=1)) == pytest.approx(0.6745, rel=0.05)


# --- published numbers ----------------------------------------------------------------------------


def error_with_the_first_as_one(name, dataset, D=1, seed=0, **settings):
    X, y = rows_of(dataset, scaling="none")
    kernels = dictionary(conf.entry("kernels", "gaussian17"))
    ours = learner_of(f"{NAME}/{name}", kernels, X.shape[1], D, T=len(y), seed=seed, **settings)
    squared = np.square(ours.partial_fit(X, y).y_hat - y)
    squared[0] = 1.0
    return 1e3 * squared.mean()


@pytest.mark.real_data
def test_exact_rows_of_toms():
    cells = {14.36: ("rbf", {"bandwidth": 2 * 0.1**2}), 18.82: ("rbf", {"bandwidth": 200.0}),
             19.52: ("poly", {"degree": 1})}  # fmt: skip
    for published, (name, settings) in cells.items():
        ours = error_with_the_first_as_one(name, "toms", **settings)
        assert ours == pytest.approx(published, abs=0.01)


@pytest.mark.real_data
@pytest.mark.slow
def test_the_gain_of_selection_on_toms_is_the_step_of_the_weights():
    """Published: Raker 3.87, OMKL-AKS 2.02. Raker with the eta_g of OMKL-AKS is below both."""
    means = {
        (name, eta_g): np.mean([
            error_with_the_first_as_one(name, "toms", D=50, seed=seed, eta_g=eta_g)
            for seed in range(3)
        ])
        for name, eta_g in (("raker", "1/sqrt(T)"), ("omkl_aks", 0.1), ("raker", 0.1))
    }  # fmt: skip
    stated, selected, constant = means.values()
    assert stated == pytest.approx(3.87, rel=0.06) and selected == pytest.approx(2.02, rel=0.12)
    assert constant < 0.9 * selected
