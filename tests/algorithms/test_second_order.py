"""``mean``, ``last``, and learners of second order against formulas in NumPy and other libraries.

Nothing in the plain versions is recursive where a batch says the same: matrices are summed and
solved anew in every round.
"""

import numpy as np
import pytest

from omkl import algorithms
from omkl.checks.learners import DICTIONARY, Case, default_settings, stream
from omkl.core.kernels import Kernel
from omkl.core.learner import Learner

T = 60
ONE = (Kernel("gaussian", 0.5),)
X, Y = stream(T)
Y = 3.0 * Y - 1.0  # both signs, and beyond 1


def learner(name, dictionary=DICTIONARY, **settings):
    return Case(name, default_settings(name)).learner(3, dictionary=dictionary, **settings)


def features(omega):
    """z(X) of frequencies (d, D), divided by sqrt(D)."""
    return np.hstack([np.sin(X @ omega), np.cos(X @ omega)]) / np.sqrt(omega.shape[1])


def all_features(ours):
    return [features(omega) for omega in ours.state.model.omega.copy()]


def ridge(Z, y, lam, t):
    """Ridge regression on the first t rows."""
    return np.linalg.solve(lam * np.eye(Z.shape[1]) + Z[:t].T @ Z[:t], Z[:t].T @ y[:t])


def forecasts(Z, y, lam):
    """z_t'A_t^-1 b_{t-1}, A_t with row t in it and b_{t-1} without its label, for every t."""
    said = np.empty(len(y))
    for t in range(len(y)):
        A = lam * np.eye(Z.shape[1]) + Z[: t + 1].T @ Z[: t + 1]
        said[t] = Z[t] @ np.linalg.solve(A, Z[:t].T @ y[:t])
    return said


def require_equal(ours, expected):
    y_hat = ours.partial_fit(X, Y).y_hat
    np.testing.assert_allclose(y_hat, expected, rtol=0, atol=1e-9)
    assert np.ptp(expected) > 0.5


# --- The formulas ---------------------------------------------------------------------------------


def single(name, d=1, **params):
    """A learner that has no dictionary and no features."""
    algorithm = algorithms.load(name)
    return Learner(algorithm, algorithm.Params(**params), (), d, D=1, seed=0)


@pytest.mark.parametrize(
    ("name", "y_hat"), [("mean", [0.0, 3.0, 2.0, 2.0]), ("last", [0.0, 3.0, 1.0, 2.0])]
)
def test_what_does_not_look_at_x(name, y_hat):
    x, y = np.array([[1.0], [2.0], [0.0], [1.0]]), np.array([3.0, 1.0, 2.0, 7.0])
    assert single(name).partial_fit(x, y).y_hat.tolist() == y_hat
    assert single(name).partial_fit(1e9 * x, y).y_hat.tolist() == y_hat


def test_two_rounds_of_ridge_by_hand():
    """z_1 = (1, 1), z_2 = (2, 1), lam = 1: A_2 = [[6, 3], [3, 3]], b = 3 (1, 1)."""
    # The inverse of A_2 is [[3, -3], [-3, 6]] / 9, so z_2'A_2^-1 = (3, 0) / 9.
    x, y = np.array([[1.0], [2.0]]), np.array([3.0, 1.0])
    np.testing.assert_allclose(
        single("ridge", lam=1.0).partial_fit(x, y).y_hat, [0.0, 1.0], atol=1e-15
    )
    assert algorithms.load("ridge").deterministic


@pytest.mark.parametrize("lam", [1e-3, 0.3, 2.0])
def test_ridge(lam):
    require_equal(learner("ridge", lam=lam), forecasts(np.column_stack([X, np.ones(T)]), Y, lam))


@pytest.mark.parametrize("lam", [0.01, 1.0])
def test_the_identity_of_vovk_azoury_and_warmuth(lam):
    """Loss - least loss = sum_t (y_t^2 z_t'A_t^-1 z_t - y_hat_t^2 z_t'A_{t-1}^-1 z_t)."""
    Z = np.column_stack([X, np.ones(T)])
    y_hat = learner("ridge", lam=lam).partial_fit(X, Y).y_hat
    A = lam * np.eye(4) + Z.T @ Z
    theta = np.linalg.solve(A, Z.T @ Y)
    least = lam * theta @ theta + np.sum((Z @ theta - Y) ** 2)
    before, difference = lam * np.eye(4), 0.0
    for z, y, prediction in zip(Z, Y, y_hat, strict=True):
        after = before + np.outer(z, z)
        difference += y**2 * (z @ np.linalg.solve(after, z))
        difference -= prediction**2 * (z @ np.linalg.solve(before, z))
        before = after
    assert np.sum((y_hat - Y) ** 2) - least == pytest.approx(difference, rel=1e-9)


def test_ridge_rff():
    ours = learner("ridge_rff", lam=0.3, bandwidth=0.8)
    require_equal(ours, forecasts(all_features(ours)[0], Y, 0.3))


def udu(P):
    """U unit upper triangular and D with P = U diag(D) U'."""
    P, n = P.copy(), len(P)
    U, D = np.eye(n), np.zeros(n)
    for j in reversed(range(n)):
        D[j] = P[j, j]
        U[:j, j] = P[:j, j] / D[j]
        P[:j, :j] -= D[j] * np.outer(U[:j, j], U[:j, j])
    return U, D


def test_ewrls():
    lam, decay = 0.3, 0.9
    ours = learner("ewrls", lam=lam, bandwidth=0.8, decay=decay)
    Z = all_features(ours)[0]
    theta, P = np.zeros(Z.shape[1]), np.eye(Z.shape[1]) / lam
    said, capped = np.empty(T), 0
    for t, (z, y) in enumerate(zip(Z, Y, strict=True)):
        said[t] = z @ theta
        step = P @ z / (1.0 + z @ P @ z)
        theta = theta + step * (y - said[t])
        U, D = udu((P - np.outer(step, P @ z)) / decay)
        capped += np.count_nonzero(D > 1.0 / lam)
        P = U * np.minimum(D, 1.0 / lam) @ U.T
    require_equal(ours, said)
    assert capped > 0  # or the ceiling would not have been tested


@pytest.mark.parametrize("second", ["vaw", "weights"])
def test_vaw2(second):
    lam, lam2 = 0.3, 0.7
    ours = learner("vaw2", lam=lam, lam2=lam2, second=second)
    F = np.column_stack([forecasts(Z, Y, lam) for Z in all_features(ours)])
    if second == "vaw":
        require_equal(ours, forecasts(F, Y, lam2))
        return
    said = np.empty(T)
    for t in range(T):
        largest = np.square(Y[:t]).max(initial=0.0)
        w = np.ones(F.shape[1])
        if largest > 0.0:
            w = np.exp(-np.square(F[:t] - Y[:t, None]).sum(axis=0) / (8.0 * largest))
        said[t] = F[t] @ w / w.sum()
    require_equal(ours, said)


def test_ml_poly():
    ours = learner("ml_poly", lam=0.3)
    F = np.column_stack([forecasts(Z, Y, 0.3) for Z in all_features(ours)])
    N = F.shape[1]
    r, said, weighted = np.zeros((T, N)), np.empty(T), 0
    for t in range(T):
        R, V, B = r[:t].sum(axis=0), np.square(r[:t]).sum(axis=0), np.square(r[:t]).max(initial=0.0)
        w = np.ones(N)
        if R.max() > 0.0:
            w, weighted = np.maximum(R, 0.0) / (B + V), weighted + 1
        said[t] = F[t] @ w / w.sum()
        r[t] = 2.0 * (said[t] - Y[t]) * (said[t] - F[t])
    require_equal(ours, said)
    assert weighted > T / 2


def normal(y, mean, variance):
    return np.exp(-0.5 * (y - mean) ** 2 / variance) / np.sqrt(2.0 * np.pi * variance)


@pytest.mark.parametrize("name", ["ie_gp", "ie_gp_dynamic"])
def test_ie_gp(name):
    noise, prior = 0.3, 0.7
    moves = dict(walk=0.01, switch=0.2) if name == "ie_gp_dynamic" else dict(walk=0.0, switch=0.0)
    ours = learner(name, noise=noise, prior=prior, **moves)
    Z = all_features(ours)
    N, F = len(Z), Z[0].shape[1]
    m, S = np.zeros((N, F)), np.stack([prior * np.eye(F)] * N)
    w, said = np.ones(N) / N, np.empty(T)
    transition = np.full((N, N), moves["switch"] / (N - 1))
    np.fill_diagonal(transition, 1.0 - moves["switch"])
    for t in range(T):
        w = transition @ w
        S = S + moves["walk"] * np.eye(F)
        z = np.stack([Z[i][t] for i in range(N)])
        f = np.einsum("nf,nf->n", z, m)
        Sz = np.einsum("nfg,ng->nf", S, z)
        s = np.einsum("nf,nf->n", z, Sz) + noise
        said[t] = w @ f
        w = w * normal(Y[t], f, s)
        w = w / w.sum()
        m = m + Sz * ((Y[t] - f) / s)[:, None]
        S = S - np.einsum("nf,ng->nfg", Sz, Sz / s[:, None])
    require_equal(ours, said)


@pytest.mark.parametrize("levels", [3, 8])
def test_adaraker(levels):
    """Intervals are objects that are born and die. Of 3 levels the longest have 4 rounds."""
    eta0, lam = 0.9, 0.05
    ours = learner("adaraker", eta0=eta0, lam=lam, levels=levels)
    Z = np.stack(all_features(ours))
    N, alive, said = len(Z), {}, np.empty(T)
    for t in range(1, T + 1):
        alive = {span: known for span, known in alive.items() if t <= span[1]}
        for length in (2**j for j in range(levels)):
            if t % length == 0:
                eta = min(0.5, eta0 / np.sqrt(length))
                alive[t, t + length - 1] = [eta, eta, np.zeros((N, Z.shape[2])), np.ones(N)]
        z, y = Z[:, t - 1], Y[t - 1]
        f = {span: np.einsum("nf,nf->n", z, theta) for span, (_, _, theta, _) in alive.items()}
        p = {span: f[span] @ w / w.sum() for span, (_, _, _, w) in alive.items()}
        said[t - 1] = sum(k[1] * p[span] for span, k in alive.items()) / sum(
            k[1] for k in alive.values()
        )
        for span, (eta, h, theta, w) in alive.items():
            gain = (said[t - 1] - y) ** 2 - (p[span] - y) ** 2
            loss = (f[span] - y) ** 2 + lam * np.square(theta).sum(axis=1)
            theta = theta - eta * (2.0 * (f[span] - y)[:, None] * z + 2.0 * lam * theta)
            h = h * (1.0 + eta * np.clip(gain, -1.0, 1.0))
            alive[span] = [eta, h, theta, w * np.exp(-eta * loss)]
    require_equal(ours, said)


# --- Other libraries ------------------------------------------------------------------------------


def test_gaussian_process_of_scikit_learn():
    """One kernel: the process whose covariance is prior z(x)'z(x'), with its deviation."""
    gp = pytest.importorskip("sklearn.gaussian_process")
    noise, prior = 0.05, 0.7
    ours = learner("ie_gp", ONE, noise=noise, prior=prior)
    (Z,) = all_features(ours)
    said = ours.partial_fit(X, Y)
    fixed = gp.kernels.DotProduct(sigma_0=0.0, sigma_0_bounds="fixed")
    covariance = gp.kernels.ConstantKernel(prior) * fixed
    for t in (1, 5, 30, T - 1):
        process = gp.GaussianProcessRegressor(covariance, alpha=noise, optimizer=None)
        mean, deviation = process.fit(Z[:t], Y[:t]).predict(Z[t : t + 1], return_std=True)
        assert said.y_hat[t] == pytest.approx(mean[0], abs=1e-9)
        assert said.spread[t] ** 2 == pytest.approx(deviation[0] ** 2 + noise, rel=1e-9)


# --- Linear kernels -------------------------------------------------------------------------------

MIXED = (Kernel("linear", 1.0), Kernel("gaussian", 0.5), Kernel("laplacian", 1.0))


@pytest.mark.parametrize("name", ["vaw2", "ie_gp", "ml_poly"])
def test_a_dictionary_may_hold_the_inputs_themselves(name):
    X, _ = stream(2000)
    y = 0.3 - X @ [1.0, -2.0, 0.5]
    y_hat = learner(name, MIXED).partial_fit(X, y).y_hat
    assert np.mean(np.square(y_hat - y)[1000:]) < 1e-3 * np.var(y)


def test_linear_kernels_have_the_features_of_ridge():
    """ie_gp on x and 1 alone is ridge without its shrinking."""
    ours = learner("ie_gp", (Kernel("linear", 1.0),), noise=0.3, prior=1.0)
    Z = np.column_stack([X, np.ones(T)])
    require_equal(ours, [Z[t] @ ridge(Z, Y, 0.3, t) for t in range(T)])


@pytest.mark.parametrize("name", ["raker", "ie_gp_dynamic", "adaraker"])
def test_learners_that_need_frequencies_refuse_linear_kernels(name):
    with pytest.raises(ValueError, match=r"linear kernels have no random features.*ie_gp, vaw2"):
        learner(name, MIXED)


def test_learners_with_exact_kernels_refuse_linear_kernels():
    with pytest.raises(ValueError, match="exact-kernel learners have no linear kernels"):
        learner("omkr", MIXED)


# --- Long streams, and streams that change --------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("inputs", ["constant", "two rows", "random"])
def test_covariances_that_walk_stay_symmetric_and_definite(inputs):
    n = 100_000
    rows = np.random.default_rng(0).uniform(-1.0, 1.0, (n, 3))
    rows = {"constant": np.ones((n, 3)), "two rows": np.tile(rows[:2], (n // 2, 1))}.get(
        inputs, rows
    )
    ours = learner("ie_gp_dynamic", ONE, noise=0.01, prior=0.1, walk=1e-6)
    ours.partial_fit(rows, np.zeros(n))
    half = ours.state.model.covariance[0]  # the upper triangle, the blocks on the diagonal whole
    for b in range(len(half)):
        own = half[b, 8 * b : 8 * b + 8]
        np.testing.assert_array_equal(own, own.T)
        assert not half[b, : 8 * b].any()
    upper = np.triu(half.transpose(0, 2, 1).reshape(len(half) * 8, -1))
    P = upper + np.triu(upper, 1).T
    F = 2 * ours.state.model.omega.shape[2]
    walk = 1e-6 / 0.01
    # the walk before the next round is in it already
    assert np.linalg.eigvalsh(P[:F, :F]).min() >= (walk / (1.0 + walk) + walk) * (1.0 - 1e-6)
    assert not P[F:].any()


@pytest.mark.slow
def test_after_a_change_adaraker_catches_up_where_raker_does_not():
    """Three changes in 12,000 rounds: what they cost, above the same stream without them.

    Raker has the step of its theorem. With a constant step that is right for the stream it loses
    little too: AdaRaker is for those who do not know it.
    """
    n = 12_000
    X, y = stream(n)
    changed = np.where((np.arange(n) // 3000) % 2 == 0, y, 1.0 - y)

    def loss(name, labels, **settings):
        y_hat = Case(name).learner(T=n, **settings).partial_fit(X, labels).y_hat
        return np.square(y_hat - labels)[3000:].sum()

    raker, ours = (
        loss(name, changed, **s) - loss(name, y, **s)
        for name, s in (("raker", {"eta": "1/sqrt(T)"}), ("adaraker", {}))
    )
    assert 0.0 < ours < 0.1 * raker
    assert loss("adaraker", changed) < 0.6 * loss("raker", changed, eta="1/sqrt(T)")
