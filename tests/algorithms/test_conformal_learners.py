"""SAMOCP and GMOCP: by hand, rebuilt in NumPy, against released numbers, and where they reduce."""

import math

import numpy as np
import pytest

from omkl.algorithms import conformal as algorithm
from omkl.checks import learners
from omkl.core.kernels import Kernel
from omkl.core.representations.random_features import features_of
from omkl.core.rng import selection_generator

TIE = 1e-9


def pinball(b, a, alpha):
    return alpha * (b - a) - min(0.0, b - a)


class Expert:
    """A level and a weight for each kernel, as the released code has them: not scaled."""

    def __init__(self, k, levels, weights, lifetime):
        self.k, self.age = k, 0
        self.life = lifetime * (k & -k)
        self.rate = min(0.9, 140 / math.sqrt(self.life)) if lifetime else 0.9
        self.weight = self.rate
        self.levels, self.weights = np.array(levels), np.array(weights)
        self.squares = np.zeros(len(self.levels))

    @property
    def shares(self):
        return self.weights / self.weights.sum()

    @property
    def level(self):
        return self.shares @ self.levels

    def learn(self, b, alpha, step, eps):
        self.age += 1
        for i, b_i in enumerate(b):
            self.weights[i] *= math.exp(-eps * pinball(b_i, self.levels[i], alpha))
            h = float(b_i < self.levels[i] - TIE) - alpha
            self.squares[i] += h * h
            self.levels[i] -= step * h / math.sqrt(self.squares[i])


class Experts:
    """SAMOCP's levels, from the levels b (N,) of the scores of each round.

    As ``released``, experts are compared once they have learned, and those that lose more gain.
    """

    def __init__(self, N, level=0.9, step=0.05, eps=0.9, lifetime=8, released=False):
        self.alpha, self.step, self.eps = 1.0 - level, step, eps
        self.lifetime, self.released, self.t = lifetime, released, 0
        self.living = [Expert(1, [self.alpha] * N, [1.0 / N] * N, lifetime)]

    def mixed(self):
        u = np.array([expert.weight for expert in self.living])
        u = u / u.sum()
        level = sum(a * expert.level for a, expert in zip(u, self.living, strict=True))
        return level, sum(a * expert.shares for a, expert in zip(u, self.living, strict=True))

    def learn(self, b):
        self.t += 1
        said = self.mixed()
        if self.lifetime:
            self.living = [expert for expert in self.living if expert.age <= expert.life]
            level, shares = self.mixed()
            if not self.released:
                self.compare(b, *said)
            self.living.append(Expert(self.t + 1, [level] * len(b), shares, self.lifetime))
        for expert in self.living:
            expert.learn(b, self.alpha, self.step, self.eps)
        if self.released:
            self.compare(b, *self.mixed())

    def compare(self, b, level, shares):
        whole = pinball(shares @ b, level, self.alpha)
        for expert in self.living:
            own = pinball(expert.shares @ b, expert.level, self.alpha)
            sign = -1.0 if self.released else 1.0
            expert.weight *= math.exp(sign * expert.rate * (whole - own))


class Window:
    """All scores of a kernel, sorted anew whenever they are asked."""

    def __init__(self):
        self.kept = []

    def level_of(self, score):
        return 1.0 - sum(s < score for s in self.kept) / (len(self.kept) + 1)

    def quantile(self, level):
        place = math.ceil((1.0 - min(1.0, level)) * (len(self.kept) + 1) - TIE)
        return sorted(self.kept)[min(place, len(self.kept)) - 1] if place > 0 else 0.0

    def half_width(self, level):
        return self.quantile(level) if self.kept else math.nan

    def keep(self, score):
        self.kept = [*self.kept, score][-1000:]


class Kernels:
    """Random-feature predictors that learn by gradient steps."""

    def __init__(self, learner, X):
        self.z = [features_of(omega.copy(), X) for omega in learner.state.model.omega]
        self.theta = [np.zeros(z.shape[1]) for z in self.z]

    def said(self, i, s):
        return self.theta[i] @ self.z[i][s]

    def learn(self, i, s, error, step, lam):
        self.theta[i] -= 2.0 * step * (error * self.z[i][s] + lam * self.theta[i])


def drawn(p, u):
    """The first index at which the running sum of p exceeds u."""
    return int(np.argmax(np.cumsum(p) > u)) if np.sum(p) > u else int(np.flatnonzero(p)[-1])


def samocp(learner, X, y, seed):
    """The same in NumPy, from the features of a fresh learner: y_hat and half widths."""
    given, rng, N = learner.params, selection_generator(seed), len(learner.selection.f)
    kernels, windows = Kernels(learner, X), [Window() for _ in range(N)]
    experts = Experts(N, given.level, given.step, given.eps, given.lifetime)
    said = []
    for s, label in enumerate(y):
        level, shares = experts.mixed()
        i = drawn(shares, rng.random())
        f = np.array([kernels.said(i, s) for i in range(N)])
        said.append((f[i], windows[i].half_width(level)))
        scores = np.abs(label - f)
        experts.learn(np.array([w.level_of(r) for w, r in zip(windows, scores, strict=True)]))
        for i in range(N):
            windows[i].keep(scores[i])
            kernels.learn(i, s, f[i] - label, 0.1 / math.sqrt(s + 1), given.lam)
    return np.array(said).T


def gmocp(learner, X, y, seed):
    """As ``samocp``."""
    given, rng, N = learner.params, selection_generator(seed), len(learner.selection.f)
    kernels, windows = Kernels(learner, X), [Window() for _ in range(N)]
    alpha, w = 1.0 - given.level, np.ones(N)
    levels, squares, said = np.full(N, alpha), np.zeros(N), []
    for s, label in enumerate(y):
        rate = 0.1 / math.sqrt(s + 1)  # of all that has a schedule
        pi = (1.0 - rate) * w / w.sum() + rate / N
        nodes = []
        for _ in range(given.J):
            node = []
            for _ in range(given.M):
                uniform = rng.random() < rate
                i = int(rng.random() * N) if uniform else drawn(w / w.sum(), rng.random())
                node += [i] if i not in node else []
            nodes.append(node)
        u = np.array([w[node].sum() for node in nodes])
        p = (1.0 - rate) * u / u.sum() + rate / given.J
        S = nodes[drawn(p, rng.random())]
        q = sum(p) * (1.0 - (1.0 - pi) ** given.M)
        m = S[drawn(w[S] / w[S].sum(), rng.random())]
        said.append((kernels.said(m, s), windows[m].half_width(levels[m])))
        for i in S:
            error = kernels.said(i, s) - label
            b = windows[i].level_of(abs(error))
            w[i] *= math.exp(-rate * pinball(b, levels[i], alpha) / q[i])
            h = (float(b < levels[i] - TIE) - alpha) / q[i]
            squares[i] += h * h
            levels[i] -= given.step * h / math.sqrt(squares[i])
            windows[i].keep(abs(error))
            kernels.learn(i, s, error, rate / q[i], given.lam)
    return np.array(said).T


def noisy(T, change=1.0):
    """The stream of the checks with noise, and labels of another function and scale from T / 2."""
    X, y = learners.stream(T)
    y = y + 0.05 * np.random.default_rng(0).standard_normal(T)
    y[T // 2 :] = 1.5 - change * 2.0 * y[T // 2 :]
    return X, y


@pytest.mark.parametrize(
    ("name", "rebuilt", "T", "changes"),
    [
        ("samocp", samocp, 200, {}),
        ("samocp", samocp, 100, {"lifetime": 1, "step": 0.01, "eps": 5.0, "level": 0.7}),
        ("samocp", samocp, 60, {"lifetime": 0}),
        ("gmocp", gmocp, 200, {}),
        ("gmocp", gmocp, 60, {"J": 1, "level": 0.6, "step": 0.1}),
    ],
)
def test_rebuilt_in_numpy(name, rebuilt, T, changes):
    X, y = noisy(T)
    learner = learners.Case(name).learner(seed=3, **changes)
    expected = rebuilt(learner, X, y, seed=3)
    y_hat, asked, half = learner.partial_fit(X, y)
    np.testing.assert_allclose(y_hat, expected[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(half, expected[1], rtol=0, atol=1e-9)
    assert asked.all()


ONE = (Kernel("gaussian", 1.0),)


def test_first_rounds_by_hand():
    """One kernel that stays at 0, level 0.8, one expert: a miss is worth 0.8, a hit 0.2.

    Of scores 1, 3, 2 the levels go 0.2, + 0.05, + 0.05 / sqrt 2, + 0.05 / sqrt 3: places
    ceil(0.75 x 2), ceil(0.71 x 3), ceil(0.69 x 4), of 1, 2 and 3 scores. 9 is a miss: the sum of
    squares is 3 x 0.04 + 0.64, the level falls by 0.05 x 0.8 / sqrt(0.76), and of four scores the
    ceil(0.73 x 5)-th is the interval.
    """
    case = learners.Case("samocp")
    learner = case.learner(dictionary=ONE, eta=1e-12, level=0.8, lifetime=0)
    half = learner.partial_fit(np.zeros((5, 3)), np.array([1.0, 3.0, 2.0, -9.0, 0.0])).spread
    assert math.isnan(half[0])
    np.testing.assert_allclose(half[1:], [1.0, 3.0, 3.0, 9.0], atol=1e-9)
    before_last = 0.25 + 0.05 / math.sqrt(2) + 0.05 / math.sqrt(3) - 0.04 / math.sqrt(0.76)
    last = before_last + 0.05 * 0.2 / math.sqrt(0.8)  # 0 is less than all: a hit
    assert learner.state.level[0] == pytest.approx(last, abs=1e-12)


def test_experts_as_released():
    """Level and share of the first of two models, as the authors' code says them on 20 rounds.

    It is run on levels (7t mod 10 + 1) / 11 and (3t mod 11 + 1) / 12, with lifetime 2.
    """
    released = Experts(2, level=0.8, lifetime=2, released=True)
    said = []
    for t in range(1, 21):
        level, shares = released.mixed()
        said += [level, shares[0]]
        released.learn(np.array([(7 * t % 10 + 1) / 11, (3 * t % 11 + 1) / 12]))
    known = {1: (0.2, 0.5), 2: (0.25, 0.4822801514), 3: (0.2902283178, 0.4880704463),
             4: (0.2845970317, 0.4929961135), 8: (0.3320538745, 0.4983972132),
             13: (0.3411251099, 0.5097703526), 20: (0.3351145756, 0.5170560219)}  # fmt: skip
    for t, numbers in known.items():
        np.testing.assert_allclose(said[2 * t - 2 : 2 * t], numbers, rtol=0, atol=1e-10)
    assert len(released.living) == 6


def test_with_one_kernel_both_are_online_gradient_descent_with_one_level():
    X, y = noisy(300)
    one = learners.Case("samocp").learner(dictionary=ONE, lifetime=0).partial_fit(X, y)
    other = learners.Case("gmocp").learner(dictionary=ONE).partial_fit(X, y)
    for ours, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("lifetime", [1, 2, 3, 8, 9])
def test_no_expert_takes_the_place_of_one_that_lives(lifetime):
    """One made for round k comes with label k - 1, the first before all, and ends with a label."""
    free_from: dict[int, int] = {}
    for k in range(1, 3000):
        place = algorithm.place_of(k, lifetime)
        assert free_from.get(place, 0) <= k - 1
        free_from[place] = k + algorithm.lifetime_of(k, lifetime) + (k == 1)
    assert max(free_from) < algorithm.POWERS * algorithm.n_places(lifetime)


@pytest.mark.parametrize(("name", "lowest"), [("samocp", 0.8), ("gmocp", 0.85)])
def test_coverage_comes_back_after_a_change(name, lowest):
    """Noise and function change in the middle; in both halves intervals hold about 90 %."""
    X, y = noisy(6000, change=3.0)
    y_hat, _, half = learners.Case(name).learner(T=6000).partial_fit(X, y)
    inside = np.abs(y - y_hat) <= half
    for rows in (slice(500, 3000), slice(4500, 6000)):
        assert lowest < inside[rows].mean() < 0.94
