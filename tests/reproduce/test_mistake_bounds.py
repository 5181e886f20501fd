"""The bounds of Jin, Hoi and Yang (ALT 2010) on real data, and what they take to be broken."""

import math

import numpy as np
import pandas as pd
import pytest
from reproduce import mistake_bounds as bounds
from reproduce import theorems
from reproduce.mistake_bounds import Minimum

import omkl
from omkl import algorithms
from omkl.checks import learners
from omkl.core import hyperparameters
from omkl.core.kernels import Kernel
from omkl.core.learner import Learner
from omkl.runs.run_folder import Run
from tests.conftest import rows_of
from tests.learners import learner_of

KERNELS = (
    Kernel("polynomial", 1.0), Kernel("polynomial", 3.0),
    Kernel("gaussian", 2.0**-4), Kernel("gaussian", 2.0**-2), Kernel("gaussian", 1.0),
)  # fmt: skip
N = len(KERNELS)
LEARNERS = tuple(bounds.MINIMA)


def minimum_of(name, params, kernels, X, y):
    return bounds.minimum_of(name, params._asdict(), kernels, X, y)


def stated(name, params, N, T, minimum, batch=None):
    return bounds.statements(name, params._asdict(), N, T, minimum, batch)


SEEDS = range(3)  # the means of the stochastic learners are over these


def rows(name, n, seed):
    X, y = rows_of(name, order="shuffled")
    order = np.random.default_rng(seed).permutation(n)  # of the same n rows: the same minimum
    return X[:n][order], y[:n][order]


def learner(name, d, seed=0, kernels=KERNELS, **changes):
    return learner_of(name, kernels, d, seed=seed, **changes)


def mistakes(ours, X, y, breakage=None):
    """Those of the prediction, and M of the theorems: rounds with q . z >= 1/2, or q . f wrong."""
    said, stated = 0, 0
    for t in range(len(y)):
        log_w = ours.state.log_w.copy()
        if breakage == "never learns":
            ours.state.model.alpha[:] = 0.0
        y_hat, _ = ours.predict_one(X[t])
        ours.learn_one(X[t], -y[t] if breakage == "learns the opposite" else y[t])
        q = np.exp(log_w - log_w.max())
        q /= q.sum()
        said += y[t] * y_hat <= 0
        z = y[t] * ours.selection.f <= 0
        stated += y[t] * y_hat <= 0 if by_outputs(ours) else q @ z >= 0.5
        if breakage == "weights grow with mistakes":
            ours.state.log_w[:] = 2 * log_w - ours.state.log_w
    return said, stated


def by_outputs(ours):
    return "R" in ours.params._fields


@pytest.mark.real_data
@pytest.mark.slow
@pytest.mark.parametrize(("data", "n"), [("sonar", 150), ("wdbc", 150), ("mushrooms", 200)])
def test_no_bound_is_broken_on_real_data(data, n):
    X, y = rows(data, n, seed=0)
    minima = {}
    for name in LEARNERS:
        ours = learner(name, X.shape[1])
        key = bounds.MINIMA[name]
        if key not in minima:
            minima[key] = minimum_of(name, ours.params, KERNELS, X, y)
        bound = stated(name, ours.params, N, n, minima[key].lower)[0].value
        counts = [mistakes(learner(name, X.shape[1], seed), *rows(data, n, seed)) for seed in SEEDS]
        assert all(said <= stated for said, stated in counts)
        worst = np.mean(counts, axis=0)[1]
        if "sua" not in name and "mua" not in name:  # holds for every order, not in the mean
            worst = max(stated for _, stated in counts)
        assert worst <= bound, f"{name} on {data}: {worst} mistakes, at most {bound}"


TELLING = {  # settings with which the bounds lie below 800 rounds
    "omkc_da_p1": {}, "omkc_da_p2": {}, "omkc_da_p1_doubling": {}, "omkc_sua_p": {"delta": 0.9},
    "omkc_mua_p": {"delta": 0.5}, "omkc_da_o": {"R": 4.0, "beta": 0.98},
    "omkc_sua_o": {"R": 2.0, "beta": 0.7, "delta": 0.9},
}  # fmt: skip


@pytest.mark.real_data
@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_bounds_that_say_something_are_kept_and_are_broken_by_a_broken_learner(name):
    """Mushrooms are easy: of 800 rounds a learner that is told the opposite mistakes nearly all."""
    n, kernels = 800, (Kernel("polynomial", 3.0), Kernel("gaussian", 0.25))
    X, y = rows("mushrooms", n, seed=0)

    def fresh(seed):
        return learner(name, X.shape[1], seed, kernels=kernels, **TELLING[name])

    params_of = fresh(0).params
    minimum = minimum_of(name, params_of, kernels, X, y)
    bound = stated(name, params_of, len(kernels), n, minimum.lower)[0].value
    assert bound < n
    assert np.mean([mistakes(fresh(seed), X, y)[1] for seed in SEEDS]) <= bound
    broken = [mistakes(fresh(seed), X, y, "learns the opposite")[1] for seed in SEEDS]
    assert min(broken) > stated(name, params_of, len(kernels), n, minimum.upper)[0].value


def test_nothing_is_promised_for_other_parameters():
    others = {"omkc_sua_o": {"eta": 100.0}, "omkc_da_p1_doubling": {"restart": False}}
    for name, changes in others.items():
        given = learner(name, 2, **changes).params
        assert stated(name, given, N, 100, 10.0)[0].value == math.inf


@pytest.mark.real_data
@pytest.mark.slow
@pytest.mark.parametrize("breakage", ["never learns", "weights grow with mistakes"])
def test_other_breakages_break_the_bound_of_theorem_2(breakage):
    n = 800
    X, y = rows("mushrooms", n, seed=0)
    bad_weights = breakage == "weights grow with mistakes"
    # For bad weights all kernels but the first see all rows alike.
    kernels = (KERNELS[0], *(Kernel("gaussian", 1e30),) * 4) if bad_weights else KERNELS
    algorithm = algorithms.load("omkc_da_p1")
    ours = Learner(algorithm, algorithm.Params(0.8), kernels, X.shape[1], 1, 0)
    g = bounds.margin_error(bounds.gram(kernels[0], X), y)  # the least or above
    bound = bounds.theorem2(N=N, g=g.upper, beta=0.8)
    assert bound < n / 2
    assert mistakes(ours, X, y, breakage)[1] > bound


def test_minima_in_closed_form():
    """One row: min ||f||^2 + 2 max(0, 1 - f), f = 1, is 1; R = 1/2 leaves 1/4 + 1."""
    X, y, one = np.array([[0.3, 0.1]]), np.array([-1.0]), (Kernel("gaussian", 1.0),)
    assert bounds.best_margin_error(one, X, y).lower == pytest.approx(1.0, abs=1e-6)
    assert bounds.combined_error(one, X, y, 2.0).lower == pytest.approx(1.0, abs=1e-6)
    for found in (bounds.combined_error(one, X, y, 0.5),):
        assert found == pytest.approx(Minimum(1.25, 1.25), abs=1e-6)
    assert bounds.combined_loss(one, X, y, 0.25).lower == pytest.approx(0.75, abs=1e-6)
    # Opposite labels at one place: f = 0 and both losses 1, 2 * 2.
    X, y = np.array([[0.3, 0.1], [0.3, 0.1]]), np.array([-1.0, 1.0])
    assert bounds.best_margin_error(one, X, y) == pytest.approx(Minimum(4.0, 4.0), abs=1e-5)


def test_ends_of_the_minimum_meet():
    X, y = learners.stream(120)
    y = np.where(y > 0.5, 1.0, -1.0)
    for kernel in KERNELS:
        found = bounds.margin_error(bounds.gram(kernel, X), y)
        assert found.lower <= found.upper <= 1.01 * found.lower
    both = bounds.combined_error(KERNELS, X, y, 1.5)
    assert both.lower <= both.upper <= 1.02 * both.lower
    loss = bounds.combined_loss(KERNELS, X, y, 1.5)
    assert loss.lower <= loss.upper <= 1.1 * loss.lower
    # A mixture is never worse than its best member.
    assert bounds.combined_error(KERNELS, X, y, 1e9).lower <= (
        bounds.best_margin_error(KERNELS, X, y).upper
    )


def test_right_hand_sides():
    """Each written out once more, as in the paper."""
    m, g, beta, delta, gamma, R, T = 4, 50.0, 0.7, 0.2, 0.9, 0.8, 300
    ln, rate = math.log(m), math.log(1 / beta)
    two = 2 * rate / (1 - beta) * g + 2 * ln / (1 - beta)
    three = 2 * (0.5 + gamma) * rate / (1 - beta ** (0.5 + gamma)) * g
    three += 4 * (0.5 + gamma) * ln / (1 - beta ** (0.5 + gamma))
    five = 2 * (g + ln + 2 / (2**0.5 - 1) * math.sqrt(g * ln)) + 2 * 6 * ln
    eight = g / (1 - R**2 * rate) + 2 * ln / ((1 - R**2 * rate) * rate)
    a = R**2 / 2 + ln / rate
    b = rate * R**2 * m**2 / (2 * delta**2) + m / (2 * delta)
    sides = {
        "omkc_da_p1": two, "omkc_da_p2": three, "omkc_da_p1_doubling": five,
        "omkc_sua_p": m / delta * two, "omkc_mua_p": two / delta, "omkc_da_o": eight,
        "omkc_sua_o": g + 2 * math.sqrt(a * b * T),
    }  # fmt: skip
    letters = {"beta": beta, "delta": delta, "gamma": gamma, "R": R}
    assert set(sides) == set(LEARNERS)
    for name, expected in sides.items():
        fields = algorithms.load(name).Params._fields
        given = learners.default_settings(name) | {k: v for k, v in letters.items() if k in fields}
        built = hyperparameters.build(algorithms.load(name).Params, given, None, {"N": m})
        assert stated(name, built, m, T, g)[0].value == pytest.approx(expected, rel=1e-12)
    assert bounds.theorem8(N=m, g=g, beta=0.7, R=2.0) == math.inf


@pytest.mark.slow
@pytest.mark.parametrize("R", [1.0, 1.6, math.inf])
def test_theorem_1_the_two_optima_agree(R):
    """Problem (1), one function of a mixed kernel, and problem (3), a function a kernel.

    (1) is found here by trying every mixture of two kernels; with R, these are the minima of
    corollary 9 and theorem 8.
    """
    kernels = (Kernel("polynomial", 1.0), Kernel("gaussian", 0.02))
    X, y = learners.stream(60)
    y = np.where(y > 0.5, 1.0, -1.0)
    y[::9] *= -1  # noise, so that both kernels are needed
    apart = bounds.combined_error(kernels, X, y, R)
    batch = bounds.batch_error(kernels, X, y, R)
    for found in (apart, batch):
        assert found.lower <= found.upper * (1 + 1e-9) <= 1.001 * found.lower
    assert batch.lower == pytest.approx(apart.lower, rel=1e-3)
    grams = [bounds.gram(kernel, X) for kernel in kernels]
    if R == math.inf:
        shares = np.linspace(0, 1, 101)
        tried = [bounds.margin_error(u * grams[0] + (1 - u) * grams[1], y).upper for u in shares]
        assert min(tried) == pytest.approx(apart.lower, rel=2e-3)
        assert 0 < int(np.argmin(tried)) < 100 and min(tried) < 0.99 * min(tried[0], tried[-1])
    else:
        free = bounds.batch_error(kernels, X, y)
        assert batch.lower > free.upper  # R is a limit here, and they agree all the same


@pytest.mark.real_data
def test_corollary_4_holds_for_its_beta_and_is_broken_by_a_broken_learner():
    n, kernels = 800, (Kernel("polynomial", 3.0), Kernel("gaussian", 0.25))
    X, y = rows("mushrooms", n, seed=0)
    first = learner("omkc_da_p1", X.shape[1], kernels=kernels)
    first.partial_fit(X, y)
    beta = bounds.corollary4_beta(first.state.updates.min(), len(kernels))
    ours = learner("omkc_da_p1", X.shape[1], kernels=kernels, beta=beta)
    minimum = minimum_of("omkc_da_p1", ours.params, kernels, X, y)
    _, found = stated("omkc_da_p1", ours.params, len(kernels), n, minimum.lower)
    assert found.name == "corollary 4" and found.value < n
    assert mistakes(ours, X, y)[1] <= found.value
    np.testing.assert_array_equal(ours.state.updates, first.state.updates)  # whatever beta is
    broken = learner("omkc_da_p1", X.shape[1], kernels=kernels, beta=beta)
    assert mistakes(broken, X, y, "learns the opposite")[1] > found.value
    # This beta makes theorem 2 least, with mistakes for g and 1 / beta - 1 for ln(1 / beta).
    m, N = 40.0, 16
    best = bounds.corollary4_beta(m, N)

    def side(beta):
        return 2 / beta * m + 2 * math.log(N) / (1 - beta)

    assert side(best) == pytest.approx(bounds.corollary4(N=N, g=m))
    assert side(best) < min(side(0.99 * best), side(1.01 * best))
    assert bounds.theorem2(N=N, g=m, beta=best) <= bounds.corollary4(N=N, g=m)


@pytest.mark.real_data
@pytest.mark.slow
def test_corollary_9_holds_and_is_broken_by_a_learner_told_the_opposite():
    n, kernels = 800, (Kernel("polynomial", 3.0), Kernel("gaussian", 0.25))
    X, y = rows("mushrooms", n, seed=0)

    def fresh():
        return learner("omkc_da_o", X.shape[1], kernels=kernels, **TELLING["omkc_da_o"])

    given = fresh().params
    g = bounds.batch_error(kernels, X, y, given.R)
    _, found = stated("omkc_da_o", given, len(kernels), n, 0.0, g.lower)
    assert found.name == "corollary 9" and found.value < n
    assert mistakes(fresh(), X, y)[1] <= found.value
    assert mistakes(fresh(), X, y, "learns the opposite")[1] > found.value


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["omkc_sua_p", "omkc_mua_p"])
def test_expected_updates_stay_below_the_remarks_and_not_of_a_learner_that_never_learns(name):
    n, kernels = 800, (Kernel("polynomial", 3.0), Kernel("gaussian", 0.25))
    X, y = rows("mushrooms", n, seed=0)
    N = len(kernels)

    def updates(seed, breakage=None):
        ours = learner(name, X.shape[1], seed, kernels=kernels, **TELLING[name])
        mistakes(ours, X, y, breakage)
        return ours.state.updates.sum()

    given = learner(name, X.shape[1], kernels=kernels, **TELLING[name]).params
    minimum = minimum_of(name, given, kernels, X, y)
    theorem, found = stated(name, given, N, n, minimum.lower)
    most = n if name == "omkc_sua_p" else N * n
    assert found.of == "updates" and found.value < most
    assert np.mean([updates(seed) for seed in SEEDS]) <= found.value
    assert np.mean([updates(seed, "never learns") for seed in SEEDS]) > found.value
    weighted = (found.value - given.delta * most) / (1 - given.delta)
    assert weighted == pytest.approx(theorem.value / 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "statements"),
    [("omkc_da_p1", ["theorem 2", "corollary 4"]), ("omkc_da_o", ["theorem 8", "corollary 9"])],
)
def test_statements_about_a_finished_run(name, statements, tmp_path, monkeypatch):
    X, y = learners.stream(60)
    frame = pd.DataFrame(X).add_prefix("x").assign(y=np.where(y > 0.5, "b", "a"))
    kernels = {"kernels": "omkc16", "D": 5, "stream.order": "file", "stream.scaling": "none"}
    ran = omkl.run(name, frame, target="y", task="classification", outputs=tmp_path, **kernels)
    monkeypatch.chdir(next(tmp_path.glob("frames/*")))  # a run folder names its file alone
    found = theorems.mistakes_of_run(Run(ran.folder))
    assert [one.name for one in found] == statements
    assert found[0].measured == ran["mistakes"][0] <= found[0].bound
