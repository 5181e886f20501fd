"""Online multiple kernel classification against the boxes of Jin, Hoi and Yang (ALT 2010).

The boxes are written out in plain NumPy with full Gram matrices; only what is drawn is read
from the learner's state.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from omkl.core.compiler import for_this_process
from omkl.core.kernels import Kernel
from omkl.core.representations.kernel_perceptrons import vote
from omkl.core.representations.support_vectors import TILE
from tests.learners import learner_of

KERNELS = (
    Kernel("polynomial", 1.0),
    Kernel("polynomial", 3.0),
    Kernel("gaussian", 0.02),
    Kernel("gaussian", 1.0),
    Kernel("laplacian", 0.4),
    Kernel("cauchy", 0.3),
)
N = len(KERNELS)


@for_this_process
def voted(log_w, f):
    return vote(log_w, f)


def learner(name, kernels=KERNELS, d=3, **changes):
    return learner_of(name, kernels, d, 16, **changes)


def one_round(ours, x, y):
    """The prediction for x (d,), given before y is learned."""
    y_hat, _ = ours.predict_one(x)
    ours.learn_one(x, y)
    return y_hat


def stream(T=200, seed=3):
    """Labels that are a curve in x but for one in ten, rows that repeat, and a row of zeros."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, (T, 3))
    y = np.where(np.sin(6.0 * X[:, 0]) > X[:, 1], 1.0, -1.0)
    y[rng.random(T) < 0.1] *= -1.0
    X[7], X[20], y[20] = 0.0, X[3], -y[3]
    return X, y


def grams(X):
    """kappa_i of all rows, normalised, (N, T, T)."""
    found = []
    for kernel in KERNELS:
        K = kernel.gram(X, X)
        norm = np.sqrt(np.diag(K))
        norm[norm == 0] = 1.0
        found.append(K / np.outer(norm, norm))
    return np.stack(found)


class Box:
    """f_i by their coefficients on all rows; Algorithm 1's letters."""

    def __init__(self, X):
        self.K = grams(X)
        self.alpha = np.zeros((N, len(X)))
        self.w = np.ones(N)

    def f(self, t):
        return np.einsum("is,is->i", self.alpha, self.K[:, t])

    @property
    def q(self):
        return self.w / self.w.sum()

    def norm(self, i):
        return math.sqrt(self.alpha[i] @ self.K[i] @ self.alpha[i])

    def project(self, i, R):
        self.alpha[i] /= max(1.0, self.norm(i) / R)


def da_p1(box, t, y, state, beta=0.8):
    f = box.f(t)
    for i in range(N):
        z = float(y * f[i] <= 0)
        box.w[i] *= beta**z
        box.alpha[i, t] += z * y
    return box.q


def da_p2(box, t, y, state, beta=0.8, gamma=0.7):
    f = box.f(t)
    for i in range(N):
        z = float(y * f[i] <= 0)
        box.w[i] *= beta ** (z * (0.5 + min(gamma, -y * f[i])))
        box.alpha[i, t] += z * y


def one_or_many_updates(box, t, y, state, beta=0.8):
    f = box.f(t)
    m = np.isin(np.arange(N), state.drawn) if len(state.drawn) == 1 else state.drawn
    for i in range(N):
        z = float(y * f[i] <= 0)
        box.w[i] *= beta ** (m[i] * z)
        box.alpha[i, t] += m[i] * z * y


def da_o(box, t, y, state, beta=0.9, R=1.3):
    f = box.f(t)
    if y * (box.q @ f) <= 0:
        for i in range(N):
            box.w[i] *= beta ** (-y * f[i])
            box.alpha[i, t] += y
            box.project(i, R)


def sua_o(box, t, y, state, beta=0.9, R=1.3, delta=0.3):
    f = box.f(t)
    if y * (box.q @ f) <= 0:
        p = (1 - delta) * box.q + delta / N
        a = R**2 / 2 + math.log(N) / math.log(1 / beta)
        b = math.log(1 / beta) * R**2 * N**2 / (2 * delta**2) + N / (2 * delta)
        i = state.drawn[0]
        m = 1 / p[i]
        box.w[i] *= beta ** (-math.sqrt(a / b) * m * y * f[i])
        box.alpha[i, t] += math.sqrt(a / b) * m * y
        box.project(i, R)


BOXES = {
    "omkc_da_p1": (da_p1, {"beta": 0.8}),
    "omkc_da_p2": (da_p2, {"beta": 0.8, "gamma": 0.7}),
    "omkc_sua_p": (one_or_many_updates, {"beta": 0.8, "delta": 0.3}),
    "omkc_mua_p": (one_or_many_updates, {"beta": 0.8, "delta": 0.3}),
    "omkc_da_o": (da_o, {"beta": 0.9, "R": 1.3}),
    "omkc_sua_o": (sua_o, {"beta": 0.9, "R": 1.3, "delta": 0.3}),
}


@pytest.mark.parametrize("name", BOXES)
def test_is_its_box(name):
    step, settings = BOXES[name]
    X, y = stream()
    ours, box = learner(name, **settings), Box(X)
    for t in range(len(y)):
        f = box.f(t)
        expected = box.q @ (f if name.endswith("_o") else np.sign(f))
        assert one_round(ours, X[t], y[t]) == pytest.approx(expected, abs=1e-12)
        step(box, t, y[t], ours.state)
    np.testing.assert_allclose(np.exp(ours.state.log_w), box.w, rtol=1e-11)
    np.testing.assert_allclose(
        ours.state.model.norm2, [box.norm(i) ** 2 for i in range(N)], rtol=1e-10
    )
    assert box.w.max() > 1.5 * box.w.min()  # or the weights would not have been tested


def test_first_rounds_of_da_p1_by_hand():
    """One input, kappa = exp(-(x - x')^2 / 2) and the sign of a cosine; beta = 1/2."""
    kernels = (Kernel("gaussian", 1.0), Kernel("polynomial", 1.0))
    ours = learner("omkc_da_p1", kernels, d=1, beta=0.5)
    # Both are 0, which is a mistake of both: f_1 = kappa(1, .), f_2 = sign(x), w = 1/2, 1/2.
    assert one_round(ours, [1.0], 1.0) == 0.0
    # f_1(-2) = exp(-9/2) > 0, f_2(-2) = -1: a tie. y = -1, so f_1 alone is wrong; w = 1/4, 1/2.
    assert one_round(ours, [-2.0], -1.0) == 0.0
    # f_1(0.5) = exp(-1/8) - exp(-25/8) > 0, f_2 = 1: both for +1. y = -1: w = 1/8, 1/4.
    assert one_round(ours, [0.5], -1.0) == 1.0
    # f_1(-0.5) = exp(-9/8) - exp(-9/8) - exp(-1/2) < 0, f_2 = -1 + 1 = 0: q.sign = -1/3.
    assert one_round(ours, [-0.5], -1.0) == pytest.approx(-1 / 3, rel=1e-15)
    np.testing.assert_allclose(np.exp(ours.state.log_w), [1 / 8, 1 / 8])
    assert ours.state.updates.tolist() == [3, 3]


def test_doubling_restarts_with_the_mistakes_of_the_best():
    X, y = stream()
    ours, box = learner("omkc_da_p1_doubling"), Box(X)
    k, mistakes, segments = 0, np.zeros(N), []
    for t in range(len(y)):
        beta = 2 ** (k / 2) / (math.sqrt(math.log(N)) + 2 ** (k / 2))
        mistakes += y[t] * box.f(t) <= 0
        da_p1(box, t, y[t], None, beta)
        if mistakes.min() == 2**k:
            k, mistakes, box.w = k + 1, np.zeros(N), np.ones(N)
            segments.append(t)
        one_round(ours, X[t], y[t])
        np.testing.assert_allclose(np.exp(ours.state.log_w), box.w, rtol=1e-11)
    assert ours.state.segment[0] == k >= 4 and segments[0] == 0


def test_every_coin_up_is_the_deterministic_one():
    X, y = stream(300)
    first = learner("omkc_mua_p", delta=1.0).partial_fit(X, y)
    np.testing.assert_array_equal(first.y_hat, learner("omkc_da_p1").partial_fit(X, y).y_hat)


@pytest.mark.parametrize("name", ["omkc_da_p1", "omkc_sua_o"])
def test_blocks_and_threads_change_no_bit(name):
    X, y = stream(5 * TILE)
    whole = learner(name).partial_fit(X, y).y_hat
    cut, parts, start = learner(name, threads=3), [], 0
    for size in (1, TILE - 1, 7, 2 * TILE, 50, 43, TILE - 36):
        parts.append(cut.partial_fit(X[start : start + size], y[start : start + size]).y_hat)
        start += size
    assert start == len(y)
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_a_scale_that_runs_out_of_range_changes_nothing():
    """R = 1e-3: every projection divides by about 1000, 1e-308 is reached in 100 mistakes."""
    X, y = stream(4 * TILE)
    ours, cut = learner("omkc_da_o", R=1e-3), learner("omkc_da_o", R=1e-3)
    y_hat = ours.partial_fit(X, y).y_hat
    parts = [cut.partial_fit(X[s : s + 5], y[s : s + 5]).y_hat for s in range(0, len(y), 5)]
    np.testing.assert_array_equal(np.concatenate(parts), y_hat)
    assert ours.state.updates[0] > 110 and ours.state.model.scale.min() > 1e-110
    box = Box(X)
    for t in range(len(y)):
        assert y_hat[t] == pytest.approx(box.q @ box.f(t), rel=1e-9, abs=1e-18)
        da_o(box, t, y[t], None, beta=0.995, R=1e-3)


def test_supports_are_those_rounds_in_which_the_classifier_learned():
    X, y = stream()
    ours = learner("omkc_sua_p")
    rounds = []
    for t in range(len(y)):
        before = ours.state.updates.copy()
        one_round(ours, X[t], y[t])
        rounds.append(np.flatnonzero(ours.state.updates > before))
    model = ours.state.model
    kept = [t for t, who in enumerate(rounds) if len(who)]
    held = int(model.n[0] + model.pending[0])
    np.testing.assert_array_equal(model.x[:, :held].T, X[kept])
    for i in range(N):
        own = [kept.index(t) for t, who in enumerate(rounds) if i in who]
        assert model.members[i, : model.size[i]].tolist() == own


def test_kernels_are_at_most_one_on_the_diagonal():
    """As all theorems assume: ||f_i||^2 after the first mistake is kappa_i(x, x)."""
    for x in ([0.0, 0.0, 0.0], [1e-200, 0.0, 0.0], [3.0, -4.0, 1e6], [1e-3, 0.2, 0.1]):
        ours = learner("omkc_da_p1")
        one_round(ours, x, 1.0)
        own = ours.state.model.norm2
        assert np.all(own <= 1.0) and own[2] == 1.0
        again = one_round(ours, x, 1.0)
        assert np.all((0.0 <= ours.selection.f) & (ours.selection.f <= 1.0 + 1e-12)) and again > 0.5


def test_the_step_of_the_theorem_may_be_replaced():
    assert learner("omkc_sua_o", eta=0.25).state.eta[0] == 0.25
    with pytest.raises(ValueError, match="eta='best' is not a number"):
        learner("omkc_sua_o", eta="best")


def test_a_tied_vote_is_none_in_any_order():
    """As many of equal weight on either side: in fractions the sum is 0, and so is the vote."""
    rng, beta, n_ties = np.random.default_rng(0), Fraction(4, 5), 0
    for _ in range(400):
        mistakes, said = rng.integers(0, 2, 13), rng.choice([-1.0, 0.0, 1.0], 13)
        exact = sum(beta ** int(m) * int(s) for m, s in zip(mistakes, said, strict=True))
        n_ties += exact == 0 and bool(said.any())
        log_w = mistakes * math.log(float(beta))
        for order in (np.arange(13), rng.permutation(13), np.argsort(said)):
            found = voted(log_w[order], said[order])
            assert np.sign(found) == np.sign(float(exact)), (mistakes[order], said[order])
    assert n_ties > 10
