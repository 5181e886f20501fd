"""The first rounds of the active learners and their kin against the paper, written out.

Equation numbers are those of Hong and Chae, "Active Learning with Multiple Kernels". Nothing
here uses the package's helpers; only what is random is read from the state.
"""

import itertools
import math

import numpy as np
import pytest

from omkl import algorithms
from omkl.algorithms.active import measure
from omkl.checks import learners
from omkl.checks.learners import DICTIONARY, Case, default_settings
from omkl.core import protocol
from omkl.core.hyperparameters import Schedule
from omkl.core.kernels import Kernel
from omkl.core.learner import Learner
from omkl.core.representations.random_features import draw_features
from omkl.experiment import run as runner
from tests.compositions import compose

FOUR = tuple(Kernel("gaussian", b) for b in (0.01, 0.1, 1.0, 100.0))
P = len(FOUR)
X = np.array([0.9, -0.4, 0.7, 0.1, -0.8, 0.5, 0.2, 0.85, 0.6])
Y = np.array([1.5, -2.0, 0.5, 2.0, -1.0, 1.0, -1.5, 1.5, 0.0])  # large: weights move apart
ETA_L, ETA_G, LAM, ETA_C = 0.2, 0.4, 0.3, 0.12
STEPS = dict(eta=Schedule(ETA_L, 0.0), eta_g=Schedule(ETA_G, 0.0), lam=LAM)
SUBSETS = dict(delta=0.6, gamma=2)
ASKING = dict(eta_c=ETA_C, M=2)
SETTINGS = {
    "omkl_aks": STEPS | SUBSETS,
    "amkl": STEPS | ASKING,
    "amkl_aks": STEPS | SUBSETS | ASKING,
    "amkl_random": STEPS | dict(rate=0.4, M=2),
}


def learner(name, seed=0, **changes):
    algorithm = algorithms.load(name)
    params = algorithm.Params(**(SETTINGS[name] | changes))
    return Learner(algorithm, params, FOUR, d=1, D=2, seed=seed)


class Paper:
    """Algorithms 1 and 2 with the equations as they stand; V is what the learner drew."""

    def __init__(self, ours):
        self.omega = ours.state.model.omega[:, 0, :].copy()  # (P, D), one input
        self.theta = np.zeros((P, 4))
        self.w = np.ones(P)

    def z(self, i, x):
        angle = self.omega[i] * x
        return np.concatenate([np.sin(angle), np.cos(angle)]) / math.sqrt(2)  # (10), D = 2

    def outputs(self, x):
        return [self.theta[i] @ self.z(i, x) for i in range(P)]  # (36)

    def predict(self, V, f):
        return sum(self.w[i] / sum(self.w[list(V)]) * f[i] for i in V)  # (43), (44)

    def confident(self, V, f):
        p = self.w / self.w.sum()  # (38)
        return max(sum(p[i] * (f[i] - f[j]) ** 2 for i in V) for j in range(P)) <= ETA_C  # (33)

    def learn(self, x, y):
        for i in range(P):
            z, error = self.z(i, x), self.theta[i] @ self.z(i, x) - y
            loss = error**2 + LAM * self.theta[i] @ self.theta[i]  # (18)
            self.theta[i] = self.theta[i] - ETA_L * (2 * error * z + 2 * LAM * self.theta[i])
            self.w[i] *= math.exp(-ETA_G * loss)  # (39)

    def bins(self, delta, gamma):
        """K, J and the size of the collection: (40), (58), (25), (26)."""
        K = sum(self.w / self.w.max() > delta)
        gamma_t = min(math.comb(P, K) / P, gamma)
        return K, gamma_t * K, math.floor(gamma_t * P)


def rounds(ours):
    """Yield (t, x, y, V, f, y_hat, asked); the learner learns when the loop goes on."""
    for t in range(1, len(X) + 1):
        selection, state = ours.selection, ours.state
        protocol.select(ours.params, state, t, ours.rng, selection)
        assert sorted(selection.evaluate[: selection.n_evaluated[0]]) == list(range(P))  # all learn
        protocol.evaluate(state.model, X[t - 1 : t], selection)
        y_hat, asked = protocol.predict(ours.params, state, t, selection)
        V = selection.combine[: selection.n_combined[0]].tolist()
        yield t, X[t - 1], Y[t - 1], V, selection.f.copy(), y_hat, asked
        protocol.update(ours.params, state, t, Y[t - 1] if asked else np.nan, selection)


@pytest.mark.parametrize("seed", range(5))
def test_omkl_aks(seed):
    ours = learner("omkl_aks", seed)
    paper, sizes = Paper(ours), set()
    for _, x, y, V, f, y_hat, asked in rounds(ours):
        K, J, n_bins = paper.bins(**SUBSETS)
        assert measure(ours.state.log_w, ours.state.log_w.max(), **SUBSETS) == (K, J, n_bins)
        sizes.add(K)
        assert len(set(V)) == len(V) == P if K == P else 1 <= len(V) <= P
        np.testing.assert_allclose(f, paper.outputs(x), rtol=1e-11, atol=1e-14)
        assert asked and y_hat == pytest.approx(paper.predict(V, f), rel=1e-12)
        paper.learn(x, y)
    assert len(sizes) > 1  # or there would have been nothing to choose


@pytest.mark.parametrize(
    ("name", "seed"), [("amkl", 0), *(("amkl_random", seed) for seed in range(3))]
)
def test_amkl_and_random_labels(name, seed):
    ours = learner(name, seed)
    paper, history = Paper(ours), []
    for _, x, y, V, f, y_hat, asked in rounds(ours):
        assert sorted(V) == list(range(P))
        np.testing.assert_allclose(f, paper.outputs(x), rtol=1e-11, atol=1e-14)
        assert y_hat == pytest.approx(paper.predict(V, f), rel=1e-12)
        forced = not any(history[-2:])  # no label in the last M rounds, none before the first
        wanted = not paper.confident(V, f) if name == "amkl" else ours.state.coin[0] < 0.4
        assert asked == (forced or wanted)
        history.append(asked)
        if asked:
            paper.learn(x, y)
    assert history[0] and 0 < sum(history) < len(history)


@pytest.mark.parametrize("seed", range(8))
def test_amkl_aks(seed):
    ours = learner("amkl_aks", seed)
    paper, history, before, moved = Paper(ours), [], list(range(P)), []
    for _, x, y, V, f, y_hat, asked in rounds(ours):
        if history and history[-1]:
            moved.append(V != before)
        else:
            assert V == before  # nothing changes without a label, the subset neither
        np.testing.assert_allclose(f, paper.outputs(x), rtol=1e-11, atol=1e-14)
        assert y_hat == pytest.approx(paper.predict(V, f), rel=1e-12)
        assert asked == (not (any(history[-2:]) and paper.confident(V, f)))
        history.append(asked)
        before = V
        if asked:
            paper.learn(x, y)
    assert 0 < sum(history) < len(history) and any(moved)


def test_the_confidence_condition_can_hold_for_the_subset_and_not_for_all():
    """(33) takes the maximum over every kernel j, not over those of the subset alone."""
    ours = learner("amkl_aks")
    selection, state = ours.selection, ours.state
    protocol.select(ours.params, state, 1, ours.rng, selection)
    state.unlabelled[0] = 1
    selection.combine[:2], selection.n_combined[0] = (0, 1), 2
    selection.f[:] = [0.5, 0.5, 0.5, 0.5]
    assert protocol.predict(ours.params, state, 2, selection) == (0.5, False)
    selection.f[:] = [0.5, 0.5, 0.5, 1.5]  # p_0 + p_1 = 1/2, so the sum is 0.5 > 0.12
    assert protocol.predict(ours.params, state, 2, selection) == (0.5, True)
    state.unlabelled[0] = 2  # = M
    selection.f[:] = 0.5
    assert protocol.predict(ours.params, state, 2, selection) == (0.5, True)


@pytest.mark.parametrize("gamma", [1, 2, 3])
@pytest.mark.parametrize("N", [1, 2, 3, 4, 7, 17, 64, 200])
def test_sizes_are_those_of_the_paper_and_whole(N, gamma):
    for K in {1, 2, N // 2, N - 1, N} - {0}:
        if K > N:
            continue
        log_w = np.where(np.arange(N) < K, 0.0, -1e4)
        n_bins = min(math.comb(N, K), gamma * N)
        assert measure(log_w, log_w.max(), 0.8, gamma) == (K, n_bins * K / N, n_bins)


def collection(N, J, bins, rng):
    """Omega(J, K) by remark 1: which bin holds which kernel, (bins, N) bool."""
    inside = np.zeros((bins, N), dtype=np.bool_)
    for ball in range(N):
        inside[rng.choice(bins, size=J, replace=False), ball] = True
    return inside


def thrown(p, J, n_bins, rng):
    """One subset by remark 1 and (29) to the letter: the whole then the draw."""
    inside = collection(len(p), J, n_bins, rng)
    assert inside.shape == (n_bins, len(p)) and (inside.sum(axis=0) == J).all()
    alpha = inside @ p / J
    assert alpha.sum() == pytest.approx(1.0)
    return frozenset(np.flatnonzero(inside[rng.choice(n_bins, p=alpha / alpha.sum())]).tolist())


@pytest.mark.parametrize("gamma", [1, 2])
@pytest.mark.parametrize("weights", [(1.0, 0.9, 0.1, 0.05), (1.0, 0.2, 0.1, 0.1), (1, 1, 1, 0.1)])
def test_subsets_are_as_frequent_as_those_of_the_letter(weights, gamma):
    """5,000 draws of ours and of the paper's construction beside their law; K = 2, 1, 3."""
    ours, rng, n = learner("omkl_aks", gamma=gamma), np.random.default_rng(0), 5000
    ours.state.log_w[:] = np.log(weights)
    drawn = []
    for _ in range(n):
        protocol.select(ours.params, ours.state, 5, ours.rng, ours.selection)
        drawn.append(frozenset(ours.selection.combine[: ours.selection.n_combined[0]].tolist()))
    p = np.array(weights) / sum(weights)
    K, J, n_bins = measure(ours.state.log_w, ours.state.log_w.max(), ours.params.delta, gamma)
    letter = [thrown(p, J, n_bins, rng) for _ in range(n)]
    kinds = [frozenset(c) for k in range(1, P + 1) for c in itertools.combinations(range(P), k)]
    for kind in kinds:
        # One kernel drawn by p, the others in its bin with probability K / P each.
        law = p[list(kind)].sum() * (K / P) ** (len(kind) - 1) * (1 - K / P) ** (P - len(kind))
        spread = 5 * math.sqrt(n * law * (1 - law)) + 1e-9
        assert abs(drawn.count(kind) - n * law) <= spread, kind
        assert abs(letter.count(kind) - n * law) <= spread, kind


# --- one learner becomes another -----------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    return learners.stream(1500)


def case(name, seed=0, **changes):
    return Case(name).learner(seed, T=1500, **changes)


RAKER = dict(eta="1/sqrt(T)", lam=1e-2)


@pytest.mark.parametrize(
    ("name", "changes", "other", "asks_always"),
    [
        ("amkl", {"eta_c": 0.0}, "raker", True),  # never confident
        ("amkl_random", {"rate": 1.0}, "raker", True),
        ("omkl_aks", {"delta": 0.0}, "raker", True),  # keeps all kernels
        ("amkl_aks", {"delta": 0.0}, "amkl", False),
        ("amkl_aks", {"eta_c": 0.0}, "omkl_aks", True),
    ],
)
def test_one_learner_is_another(name, changes, other, asks_always, data):
    first = case(name, 3, **changes)
    second = case(other, 3, **(RAKER if other == "raker" else {}))
    a, b = first.partial_fit(*data), second.partial_fit(*data)
    np.testing.assert_array_equal(a.y_hat, b.y_hat)
    np.testing.assert_array_equal(a.asked, b.asked)
    np.testing.assert_array_equal(first.state.model.coefficients, second.state.model.coefficients)
    assert a.asked.all() == asks_always


@pytest.mark.parametrize("M", [1, 2, 5])
def test_random_labels_are_as_many_as_the_docstring_says(M, data):
    """A gap lasts (1 - (1 - r)^(M + 1)) / r rows on average: 1 / (2 - r) of the labels, M = 1."""
    shares = {r: case("amkl_random", rate=r, M=M).partial_fit(*data).asked for r in (0.1, 0.5, 0.9)}
    for r, asked in shares.items():
        share = r / (1 - (1 - r) ** (M + 1))
        assert abs(asked.mean() - share) < 4 * math.sqrt(share * (1 - share) / len(asked))
        assert M > 1 or share == pytest.approx(1 / (2 - r))
    none = case("amkl_random", rate=0.0, M=M).partial_fit(*data).asked
    np.testing.assert_array_equal(none, np.arange(len(none)) % (M + 1) == 0)


@pytest.mark.parametrize("name", ["amkl", "amkl_aks"])
@pytest.mark.parametrize("M", [1, 2, 5, 100])
def test_one_label_in_m_and_one_is_always_bought(name, M, data):
    """(35): even a learner that is always confident buys every (M + 1)-th, the first included."""
    always = case(name, M=M, eta_c=1e9).partial_fit(*data).asked
    np.testing.assert_array_equal(always, np.arange(len(always)) % (M + 1) == 0)
    asked = case(name, M=M).partial_fit(*data).asked
    assert asked.mean() >= 1 / (M + 1)
    without = np.diff(np.flatnonzero(asked)) - 1
    assert asked[0] and without.max() <= M


def test_regret_15_is_counted_over_all_rounds_against_the_best_kernel_of_45(tmp_path):
    """Cumulative squared error above that of the best theta*, labelled or not."""
    lam, T, D = 0.01, 300, 5
    flat = ["algorithm=amkl", "algorithm.eta_c=0.1", f"regret.lam={lam}", f"dataset.rows={T}"]
    flat += ["kernels=gaussian17", f"D={D}", "seeds=1", "tracking=none", "figures=false"]
    config = compose([*flat, "regret.ridge_features=true", f"outputs={tmp_path}"])
    outcome, job = runner.run(config), runner.prepare(config)
    x, y = next(iter(job.stream.blocks(T)))
    omega = draw_features(job.dictionary, x.shape[1], D, 0).omega
    best = (math.inf, 0.0)
    for i in range(len(omega)):
        angle = x @ omega[i]
        z = np.concatenate([np.sin(angle), np.cos(angle)], axis=1) / math.sqrt(D)
        # (45): the sum over t of (theta'z - y)^2 + lam ||theta||^2, as least squares with 2 D rows.
        rows = np.concatenate([z, math.sqrt(lam * T) * np.eye(2 * D)])
        theta = np.linalg.lstsq(rows, np.concatenate([y, np.zeros(2 * D)]), rcond=None)[0]
        errors = np.sum((z @ theta - y) ** 2)
        best = min(best, (errors + lam * T * theta @ theta, errors))
    result = outcome.run.result
    assert result["al_efficiency"] < 1.0
    ours = T * result["mse_mean"] - best[1]
    assert result["regret"]["ridge_features"]["mean"] == pytest.approx(ours, rel=1e-8)


# --- OMKL-B ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [1, 7, 50, 300])
def test_omkl_b_is_its_box(budget, data):
    """Coefficients that fade, and of the rows the last ``budget``; 300 is more than a tile."""
    rows, y = data[0][:500], data[1][:500]
    kernels, lam = DICTIONARY[1:3], 0.2
    gram = np.stack([k.gram(rows, rows) for k in kernels])
    alpha, w, expected = np.zeros((2, len(y))), np.ones(2), np.empty(len(y))
    for t in range(len(y)):
        held = slice(max(0, t - budget), t)
        f = np.array([alpha[i, held] @ gram[i, t, held] for i in range(2)])
        expected[t] = w @ f / w.sum()
        eta = 0.5 / math.sqrt(t + 1)
        alpha *= 1 - eta * lam
        alpha[:, t] = -eta * (f - y[t])
        w = w * 0.5 ** ((f - y[t]) ** 2)
    settings = default_settings("omkl_b") | dict(budget=budget, lam=lam, eta="0.5/sqrt(t)")
    ours = Case("omkl_b", settings).learner(dictionary=kernels, T=1500)
    parts = [ours.partial_fit(rows[a:b], y[a:b]).y_hat for a, b in ((0, 70), (70, 71), (71, 500))]
    np.testing.assert_allclose(np.concatenate(parts), expected, rtol=0, atol=1e-12)
    assert ours.state.model.n[0] == budget
