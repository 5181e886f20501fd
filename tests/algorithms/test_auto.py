"""``auto``, ``auto_classifier`` against their formulas in plain NumPy, and what must not matter."""

import itertools

import numpy as np
import pytest
from scipy.special import expit

from omkl import algorithms
from omkl.algorithms import auto, auto_experts
from omkl.core import snapshot
from omkl.core.learner import Learner


def learner(d: int, seed: int = 0, D: int = 1) -> Learner:
    return Learner(algorithms.load("auto"), auto.Auto.Params(), (), d, D, seed)


def stream(T: int = 300, d: int = 3, seed: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((T, d)) * 10.0 ** np.arange(d)
    y = np.sin(2.0 * X[:, 0]) + np.cumsum(0.1 * rng.standard_normal(T))
    return X, y + 0.1 * rng.standard_normal(T)


def says(X: np.ndarray, y: np.ndarray, seed: int = 0) -> np.ndarray:
    return learner(X.shape[1], seed).partial_fit(X, y).y_hat


# --- the formulas of the docstring ----------------------------------------------------------------


class Forecaster:
    """theta and P = U diag(D) U' of one recursive learner; ``ceiling`` on D where it forgets."""

    def __init__(
        self, F: int, prior: float | np.ndarray, decay: float = 1.0, ceiling: float = np.inf
    ) -> None:
        self.theta, self.U, self.D = np.zeros(F), np.eye(F), np.full(F, prior)
        self.decay, self.ceiling = decay, ceiling

    def variance(self, z: np.ndarray) -> float:
        return float(self.D @ (self.U.T @ z) ** 2)

    def learn(self, z: np.ndarray, error: float, noise: float = 1.0) -> None:
        f = self.U.T @ z
        g, alpha, K = self.D * f, noise, np.zeros(len(z))
        for j in range(len(z)):
            before, column = alpha, self.U[:, j].copy()
            alpha += g[j] * f[j]
            self.D[j] = min(self.ceiling, self.D[j] * before / alpha / self.decay)
            self.U[:, j] -= f[j] / before * K
            K += g[j] * column
        self.theta += K / alpha * error

    def forecast(self, z: np.ndarray) -> float:
        return self.theta @ z / (1.0 + self.variance(z))


class Parts:
    """A linear learner of many columns: parts with a matrix each, which share an error."""

    def __init__(self, sizes: list[int], prior: float, decay: float) -> None:
        self.parts = [Forecaster(F, prior, decay, prior) for F in sizes]
        self.ends = np.cumsum(sizes)[:-1]

    @property
    def theta(self) -> np.ndarray:
        return np.concatenate([part.theta for part in self.parts])

    @theta.setter
    def theta(self, numbers: np.ndarray) -> None:
        for part, theta in zip(self.parts, np.split(numbers, self.ends), strict=True):
            part.theta = theta

    def variances(self, z: np.ndarray) -> np.ndarray:
        pairs = zip(self.parts, np.split(z, self.ends), strict=True)
        return np.array([part.variance(own) for part, own in pairs])

    def variance(self, z: np.ndarray) -> float:
        return float(self.variances(z).sum())

    def learn(self, z: np.ndarray, error: float, noise: float = 1.0) -> None:
        q = self.variances(z)
        for part, own, apart in zip(
            self.parts, np.split(z, self.ends), noise + q.sum() - q, strict=True
        ):
            part.learn(own, error, apart)

    def forecast(self, z: np.ndarray) -> float:
        return self.theta @ z


class MLPoly:
    def __init__(self, N: int) -> None:
        self.R, self.V, self.w = np.zeros(N), np.zeros(N), np.full(N, 1.0 / N)

    def learn(self, f: np.ndarray, p: float, y: float) -> None:
        r = np.where(abs(p - f) > 1e-12 * abs(p), 2.0 * (p - y) * (p - f), 0.0)
        self.R, self.V = 0.999 * self.R + r, 0.999 * self.V + r * r
        w = np.maximum(self.R, 0.0)
        w[w > 0.0] /= (self.V + 1e-6 * self.V.max())[w > 0.0]
        self.w = w / w.sum() if w.sum() > 0.0 else np.full(len(w), 1.0 / len(w))


def standardised(x: np.ndarray, before: np.ndarray) -> np.ndarray:
    """x by the columns of before, without NaN; 0 where a column is constant or x is missing."""
    out = np.zeros(len(x))
    for k in range(len(x)):
        seen = before[:, k][~np.isnan(before[:, k])]
        if len(seen) and not np.isnan(x[k]) and seen.min() < seen.max():
            out[k] = soft((x[k] - seen.mean()) / seen.std())
    return out


def soft(z: float) -> float:
    return np.sign(z) * (4.0 + np.log1p(abs(z) - 4.0)) if abs(z) > 4.0 else z


class Units:
    """Those of a linear learner's inputs: mean and deviation, which are held from 20 on."""

    def __init__(self, d: int) -> None:
        self.c, self.u = np.zeros(d), np.zeros(d)

    def take(self, x: np.ndarray, before: np.ndarray) -> np.ndarray:
        out = np.zeros(len(x))
        for k in np.flatnonzero(~np.isnan(x)):
            seen = before[:, k][~np.isnan(before[:, k])]
            m, s, c, u = seen.mean(), seen.std(), self.c[k], self.u[k]
            if len(seen) <= 20 or abs(m - c) > 3.0 * u or s > 10.0 * u or 10.0 * s < u:
                self.c[k], self.u[k] = m, s
            if self.u[k] > 0.0:
                out[k] = (x[k] - self.c[k]) / self.u[k]
        return out


def changing(row: np.ndarray, before: np.ndarray, t: int) -> np.ndarray:
    return row - before if t else np.zeros(len(row))


def near(x: np.ndarray, rows: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Places and weights of the 10 nearest of the last 1,000 rows; row t is in place t mod 1000."""
    held: dict[int, np.ndarray] = {t % 1000: row for t, row in enumerate(rows)}
    q = np.array([np.sum((held[place] - x) ** 2) for place in sorted(held)])
    nearest = np.argsort(q, kind="stable")[:10]
    return nearest, 1.0 / (q[nearest] / len(x) + 1e-3) ** 2


class Kept:
    """What neighbours know: rows, labels and errors of the linear expert."""

    def __init__(self) -> None:
        self.rows: list[np.ndarray] = []
        self.labels, self.errors = np.zeros(1000), np.zeros(1000)

    def means(self, x: np.ndarray) -> tuple[float, float]:
        if not self.rows:
            return 0.0, 0.0
        nearest, w = near(x, self.rows)
        return tuple(w @ values[nearest] / w.sum() for values in (self.labels, self.errors))

    def learn(self, x: np.ndarray, y: float, error: float) -> None:
        place = len(self.rows) % 1000
        self.rows.append(x)
        self.labels[place], self.errors[place] = y, error


def plain(X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    T, d = X.shape
    model = auto.fresh_experts(auto.Auto.Params(), (), d, 1, seed).experts
    pairs = model.products
    groups = [group for group in auto_experts.GROUPS for _ in group.lengths]
    experts = []
    for i, group in enumerate(groups):
        F, prior = sizes(model, i), 1.0 / group.lam
        several = Parts(F, prior / sum(F), group.decay)
        whole = Forecaster(F[0], prior, group.decay, prior)
        experts.append(several if len(F) > 1 else whole)
    N = len(experts) + 6
    regrets, last = MLPoly(N), MLPoly(6)
    units = Units(d)
    corrections = [Forecaster(N + 1, 0.1), Forecaster(N + 1, 0.1, 0.995, 0.1)]
    kept, before, e = Kept(), np.zeros(d + 2), 0.0
    noise = weight = 0.0
    y_hat = np.zeros(T)
    for t in range(T):
        lags = np.array([y[max(0, t - k)] for k in range(1, 25)]) if t else np.zeros(24)
        labels = standardised(lags, np.repeat(y[:t, None], 24, axis=1))
        x = standardised(X[t], X[: t + 1])
        now = np.concatenate([x, labels[:2]])
        row = np.concatenate([x, labels, changing(now, before, t), x[pairs[:, 0]] * x[pairs[:, 1]]])
        before = now
        held = row.copy()
        held[:d] = units.take(X[t], X[: t + 1])
        assert np.abs(held[:d]).max() < 4.0  # softened and uncut inputs are then the same
        mean = y[:t].mean() if t else 0.0
        low, high = (y[:t].min(), y[:t].max()) if t else (0.0, 0.0)
        beyond = 0.5 * (high - low)
        reference = np.where(model.from_last, lags[0], mean)
        Z = [features(model, i, held if i == 0 else row) for i in range(len(experts))]
        f = np.array([mean, lags[0], *np.zeros(len(experts)), *kept.means(x), 0.0, 0.0])
        for i, (expert, z) in enumerate(zip(experts, Z, strict=True)):
            said = reference[i] + expert.forecast(z)
            f[2 + i] = np.clip(said, low - beyond, high + beyond)
        f[-3] = np.clip(f[2] + f[-3], low - beyond, high + beyond)
        f[-2:] = regrets.w[:-2] @ f[:-2] / regrets.w[:-2].sum()  # neither trees nor many waves yet
        p = regrets.w @ f
        inputs = np.array([*(f - p), e])
        said = [correction.theta @ inputs for correction in corrections]
        g = np.array([*np.clip(p + np.array(said), f.min(), f.max()), p, *f[:3]])
        y_hat[t] = last.w @ g
        kept.learn(x, y[t], y[t] - f[2] if t else 0.0)
        if t:
            most = 3.0 * np.sqrt(noise / weight) if weight else np.inf
            noise, weight = 0.99 * noise + (y[t] - p) ** 2, 0.99 * weight + 1.0
            for correction, off in zip(corrections, said, strict=True):
                correction.learn(inputs, y[t] - p - off, noise / weight)
            e = np.clip(y[t] - p, -most, most)
            regrets.learn(f, p, p + e)
            last.learn(g, y_hat[t], np.clip(y[t], y_hat[t] - most, y_hat[t] + most))
        for i, (expert, z) in enumerate(zip(experts, Z, strict=True)):
            expert.learn(z, y[t] - reference[i] - expert.theta @ z if t else 0.0)
    return y_hat


def pieces(row: np.ndarray, d: int) -> list[np.ndarray]:
    """The columns of a linear learner: as they are, or of more than 256 inputs in parts."""
    return np.array_split(row, -(-len(row) // 127)) if d > 256 else [row]


def sizes(model, i: int) -> list[int]:
    """How many features learner i has, or each of its parts."""
    D, n_raw = model.first.n_waves[i], model.first.n_raw[i]
    if D:
        return [2 * D + (n_raw + 1 if n_raw else 0)]
    columns = model.columns[i, : model.n_columns[i]]
    return [len(piece) + 1 for piece in pieces(columns, len(model.inputs))]


def features(model, i: int, whole: np.ndarray) -> np.ndarray:
    first = model.first
    row = whole[model.columns[i, : model.n_columns[i]]]
    D, n_raw = first.n_waves[i], first.n_raw[i]
    if not D:
        return np.concatenate([[*piece, 1.0] for piece in pieces(row, len(model.inputs))])
    raw = [*row[:n_raw], 1.0] if n_raw else []
    angle = row @ first.padded[i, : len(row), :D]
    return np.concatenate([np.sin(angle) / np.sqrt(D), np.cos(angle) / np.sqrt(D), raw])


def test_auto_is_what_its_docstring_says():
    X, y = stream(80)
    X[30:40, 1] = np.nan
    np.testing.assert_allclose(says(X, y, seed=3), plain(X, y, 3), rtol=0, atol=1e-9)


def many_inputs(T: int = 60, d: int = 257) -> tuple[np.ndarray, np.ndarray]:
    """More inputs than a linear learner has in one matrix."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-1.0, 1.0, (T, d))
    X[:2] = [[1.0], [-1.0]]  # nothing is far out then
    return X, 2.0 * X[:, 0] - X[:, 200] + 0.1 * rng.standard_normal(T)


def test_auto_of_many_inputs_is_what_its_docstring_says():
    X, y = many_inputs()
    X[30:40, 1] = np.nan
    np.testing.assert_allclose(says(X, y, seed=3), plain(X, y, 3), rtol=0, atol=1e-12)


def test_neighbours_are_of_the_last_thousand_rows():
    X, y = stream(1100, d=2)
    expert = learner(2)
    expert.partial_fit(X[:-1], y[:-1])
    expert.predict_one(X[-1])
    rows = [standardised(X[t], X[: t + 1]) for t in range(len(y))]
    nearest, w = near(rows[-1], rows[:-1])
    labels = np.concatenate([y[1000:-1], y[99:1000]])  # in their places
    assert expert.selection.f[-4] == pytest.approx(w @ labels[nearest] / w.sum(), abs=1e-9)


# --- what must not matter -------------------------------------------------------------------------


@pytest.mark.parametrize(("scale", "shift"), [(1e6, 0.0), (1e-6, 0.0), (1.0, 100.0), (3.0, -5.0)])
def test_units_of_the_target_do_not_matter(scale, shift):
    """Predictions move with the labels, from the second on: the first knows no label."""
    X, y = stream()
    moved = says(X, scale * y + shift)[1:]
    np.testing.assert_allclose((moved - shift) / scale, says(X, y)[1:], rtol=0, atol=1e-6)


def test_units_of_the_inputs_do_not_matter():
    X, y = stream()
    moved = X * np.array([1e-6, 1e6, 3.0]) + np.array([1.0, -1e6, 100.0])
    np.testing.assert_allclose(says(moved, y), says(X, y), rtol=0, atol=1e-6)


def test_dictionary_and_D_do_not_matter():
    X, y = stream()
    other = learner(3, D=70).partial_fit(X, y).y_hat
    np.testing.assert_array_equal(other, says(X, y))


def test_a_missing_input_counts_as_its_mean():
    X, y = stream()
    expert = learner(3)
    expert.partial_fit(X[:200], y[:200])
    missing, mean = X[200:201].copy(), X[200:201].copy()
    missing[0, 1], mean[0, 1] = np.nan, X[:200, 1].mean()
    # The linear expert's mean is that of its held units.
    assert expert.predict(missing)[0] == pytest.approx(expert.predict(mean)[0], abs=0.01)
    everything = np.full_like(X, np.nan)
    assert np.isfinite(says(everything, y)).all()


def test_constant_inputs_and_labels():
    X, y = stream()
    np.testing.assert_allclose(says(X, np.full(len(y), 7.5))[1:], 7.5, rtol=1e-12)
    constant = np.column_stack([X[:, 0], np.full(len(y), 0.1)])
    assert np.mean((says(constant, y) - y)[50:] ** 2) < 0.5 * np.var(y)


def test_one_input_and_three_hundred():
    X, y = stream(T=150, d=1)
    assert np.mean((says(X, y) - y)[50:] ** 2) < np.var(y)
    wide = np.random.default_rng(1).standard_normal((150, 300))
    y = wide[:, 0]
    y_hat = says(wide, y)
    assert np.isfinite(y_hat).all()
    assert np.mean((y_hat - y)[1:] ** 2) < 1.5 * np.var(y)


# --- what it promises -----------------------------------------------------------------------------


def targets(T: int = 1000):
    rng = np.random.default_rng(8)
    X = rng.standard_normal((T, 5))
    heavy = rng.standard_t(3.0, T)
    spread = np.exp(0.5 * np.sin(np.arange(T) / 50.0))
    yield "noise", X, rng.standard_normal(T)
    yield "heavy tails whose spread changes", X, heavy * spread
    yield "a walk", X, np.cumsum(rng.standard_normal(T))
    yield "linear with outliers", X, X.sum(axis=1) + heavy * (rng.random(T) < 0.05) * 20.0
    yield "rare counts", X, rng.poisson(0.1, T).astype(float)
    calm, t = 0.4 * rng.standard_normal(T), np.arange(T)
    slow = np.array(list(itertools.accumulate(calm, lambda before, x: x + 0.9 * before)))
    yield "slow, and two jumps", X, slow + np.select([t < 300, t < 600], [9.0, 50.0])
    yield "one wrong label", X, X.sum(axis=1) + calm + np.where(t == 500, 300.0, 0.0)


@pytest.mark.parametrize(("name", "X", "y"), [pytest.param(*t, id=t[0]) for t in targets()])
def test_never_much_worse_than_mean_last_label_or_ridge(name, X, y):
    mean = np.concatenate([[0.0], np.cumsum(y)[:-1] / np.arange(1, len(y))])
    ridge = Learner(
        algorithms.load("ridge"), algorithms.load("ridge").Params(0.01), (), X.shape[1], 1, 0
    )
    linear = ridge.partial_fit(X, y).y_hat
    plain_ones = [mean, np.concatenate([[0.0], y[:-1]]), linear]
    best = min(np.mean((f - y)[1:] ** 2) for f in plain_ones)
    assert np.mean((says(X, y) - y)[1:] ** 2) < 1.05 * best


def test_heavy_tails_of_inputs_are_read_as_they_are():
    """A linear function of inputs without a variance, by least squares and by auto."""
    rng = np.random.default_rng(7)
    X = rng.standard_t(1.9, (2500, 3))
    y = X @ [1.0, -2.0, 0.5] + rng.standard_normal(2500)
    exact = Forecaster(4, 1e3)
    errors = np.zeros(2500)
    for t, z in enumerate(np.column_stack([X, np.ones(2500)])):
        errors[t] = y[t] - exact.theta @ z
        exact.learn(z, errors[t])
    ours = says(X, y) - y
    assert np.mean(ours[300:] ** 2) < 1.3 * np.mean(errors[300:] ** 2)  # 16 when they were cut


@pytest.mark.parametrize("what", ["a cell", "a target", "a cell of a hundred"])
def test_a_fault_costs_its_own_rows(what):
    rng = np.random.default_rng(8)
    X = rng.standard_normal((2000, 3))
    y = X @ [1.0, -2.0, 0.5] + np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(2000)
    X_bad, y_bad = X.copy(), y.copy()
    faulty = np.zeros(2000, dtype=bool)
    faulty[1500] = True
    if what == "a target":
        y_bad[1500] = -9999.0
    else:
        if what == "a cell of a hundred":
            faulty[1500:1700] = rng.random(200) < 0.01
        X_bad[faulty, 0] = -9999.0
    sound = says(X, y) - y
    off = says(X_bad, y_bad) - y
    later = ~faulty & (np.arange(2000) > 1510)
    assert np.mean(off[later] ** 2) < 2.0 * np.mean(sound[later] ** 2)


@pytest.mark.parametrize("name", ["auto", "auto_classifier"])
def test_what_a_run_shows_of_the_experts(name):
    algorithm = algorithms.load(name)
    names = algorithm.kernels(algorithm.Params(), (), 3)
    expert = learner(3) if name == "auto" else classifier(3)
    assert len(set(names)) == len(names) == expert.state.model.n_kernels
    X, y = stream()
    expert.partial_fit(X, y if name == "auto" else np.sign(y))
    assert np.exp(expert.state.log_w).sum() == pytest.approx(1.0)


def test_its_spread_is_that_of_its_recent_errors():
    """Intervals hold as often as they say, before and after the noise becomes another."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((3000, 3))
    noise = np.where(np.arange(3000) < 1500, 1.0, 5.0)
    y = X @ [1.0, -2.0, 0.5] + noise * rng.standard_normal(3000)
    trace = learner(3).partial_fit(X, y)
    assert np.isnan(trace.spread[:2]).all() and np.isfinite(trace.spread[2:]).all()
    inside = np.abs(y - trace.y_hat) <= 1.6448536269514722 * trace.spread
    assert 0.87 < inside[500:1500].mean() < 0.93 and 0.87 < inside[1800:].mean() < 0.93


# --- on long streams ------------------------------------------------------------------------------


def steps(T: int, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """What waves cannot say: steps of two inputs together."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (T, 4))
    y = 2.0 * (X[:, 0] > 0.2) * (X[:, 1] > -0.3) - 1.0 * (X[:, 2] > 0.5)
    return X, y + 0.1 * rng.standard_normal(T)


def test_rows_blocks_and_a_resumed_model_are_the_same_where_much_was_learned():
    """The conformance suite's streams end before that."""
    X, y = steps(2000)
    expected = says(X, y)
    row_by_row = learner(4)
    said = []
    for x, label in zip(X, y, strict=True):
        said.append(row_by_row.predict_one(x)[0])
        row_by_row.learn_one(x, label)
    np.testing.assert_array_equal(said, expected)
    for cut in (499, 701, 1530, 1600):
        begun, resumed = learner(4), learner(4)
        begun.partial_fit(X[:cut], y[:cut])
        snapshot.restore(resumed, snapshot.snapshot(begun))
        np.testing.assert_array_equal(resumed.partial_fit(X[cut:], y[cut:]).y_hat, expected[cut:])
        changed = np.concatenate([y[:cut], -y[cut:]])
        np.testing.assert_array_equal(says(X, changed)[: cut + 1], expected[: cut + 1])


def test_rows_blocks_and_a_resumed_model_of_many_inputs_are_the_same():
    X, y = many_inputs(700, 300)
    expected = says(X, y)
    assert np.mean((expected - y)[500:] ** 2) < 0.3 * np.var(y)
    begun, resumed = learner(300), learner(300)
    begun.partial_fit(X[:613], y[:613])
    snapshot.restore(resumed, snapshot.snapshot(begun))
    for t in range(613, 700):
        assert resumed.predict_one(X[t])[0] == expected[t]
        resumed.learn_one(X[t], y[t])


def test_steps_are_learned_better_the_longer_the_stream():
    X, y = steps(8000)
    error = (says(X, y) - y) ** 2
    assert error[4000:].mean() < error[500:1000].mean()
    assert error[4000:].mean() < 0.035  # of which 0.01 is noise; 0.116 with waves alone


def test_memory_does_not_grow():
    X, y = steps(3000)
    expert = learner(4)
    expert.partial_fit(X[:400], y[:400])
    sizes = [array.nbytes for array in snapshot.snapshot(expert).values()]
    expert.partial_fit(X[400:], y[400:])
    assert [array.nbytes for array in snapshot.snapshot(expert).values()] == sizes


# --- classes --------------------------------------------------------------------------------------


def classifier(d: int, seed: int = 0) -> Learner:
    return Learner(algorithms.load("auto_classifier"), auto.AutoClassifier.Params(), (), d, 1, seed)


def says_of_classes(X: np.ndarray, y: np.ndarray, seed: int = 0) -> np.ndarray:
    return classifier(X.shape[1], seed).partial_fit(X, y).y_hat


def classes(T: int = 1000, slope: float = 2.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, labels, and the probability of +1: a logistic regression on two of four inputs."""
    rng = np.random.default_rng(6)
    X = rng.standard_normal((T, 4))
    p = expit(slope * (X[:, 0] - X[:, 1]) - 1.0)
    return X, np.where(rng.random(T) < p, 1.0, -1.0), p


def log_loss(y_hat: np.ndarray, y: np.ndarray) -> float:
    return float(-np.mean(np.log(0.5 * (1.0 + y * y_hat))))


@pytest.mark.parametrize("slope", [0.0, 0.5, 2.0])
def test_probabilities_are_near_those_that_labels_were_drawn_with(slope):
    """The log loss exceeds that of the true probabilities by little more than learning costs:
    about half a logarithm of the number of rows for each coefficient."""
    X, y, p = classes(2000, slope)
    excess = log_loss(says_of_classes(X, y), y) - log_loss(2.0 * p - 1.0, y)
    assert excess < 0.5 * 5 * np.log(2000) / 2000 + 0.005


def test_a_probability_is_never_0_or_1():
    X, _, _ = classes(600)
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    y_hat = says_of_classes(X, y)
    assert y_hat[0] == 0.0
    assert np.abs(y_hat).max() < 1.0
    assert np.mean(y_hat[300:] * y[300:] <= 0.0) < 0.04


def test_classes_that_follow_one_another_and_a_boundary_that_turns():
    T, rng = 1000, np.random.default_rng(5)
    X = rng.standard_normal((T, 3))
    sticky = np.where(np.cumsum(rng.random(T) < 0.05) % 2, 1.0, -1.0)
    assert np.mean(says_of_classes(X, sticky) * sticky <= 0.0) < 0.07
    angle = 2.0 * np.pi * np.arange(T) / T
    turning = np.where(X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle) > 0.0, 1.0, -1.0)
    assert np.mean(says_of_classes(X, turning) * turning <= 0.0) < 0.12


def test_classes_of_one_input_of_three_hundred_and_of_none():
    X, y, _ = classes(150)
    assert np.isfinite(says_of_classes(np.full_like(X, np.nan), y)).all()
    assert np.abs(says_of_classes(X[:, :1], y)).max() < 1.0
    wide = np.random.default_rng(1).standard_normal((150, 300))
    assert np.mean(says_of_classes(wide, np.sign(wide[:, 0])) * wide[:, 0] <= 0.0) < 0.5
