"""The recorder of curves, and comparators in hindsight against other solvers."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omkl.checks.learners import DICTIONARY, stream
from omkl.core.kernels import Kernel
from omkl.core.linalg import add_rows
from omkl.core.representations.random_features import features_of, random_features
from omkl.experiment import comparators, metrics
from omkl.experiment.comparators import kernel_ridge, ridge_features
from omkl.experiment.metrics import STRETCH, LastRows, Recorder


def record(errors, sizes):
    recorder = Recorder(len(errors))
    start = 0
    for size in [*sizes, errors.shape[1] - sum(sizes)]:
        recorder.add(errors[:, start : start + size])
        start += size
    return recorder


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 40), st.data())
def test_any_split_into_blocks_records_the_same_bits(n, data):
    """Around the rounds at which every-k-th begins (LIMIT), k doubles and nothing is left over."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "FIRST", 4)
        patch.setattr(metrics, "LIMIT", 9)
        errors = np.random.default_rng(n).exponential(size=(2, n))
        cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=8)))
        whole = record(errors, []).curve()
        split = record(errors, np.diff([0, *cuts]).tolist()).curve()
        for a, b in zip(whole, split, strict=True):
            np.testing.assert_array_equal(a, b)
        rounds, sums = whole
        assert rounds[: min(n, 4)].tolist() == list(range(1, min(n, 4) + 1))
        assert len(rounds) <= 9 + 1 and rounds[-1:].tolist() == ([n] if n else [])
        np.testing.assert_allclose(sums, errors.cumsum(axis=1)[:, rounds - 1], rtol=1e-14)


@pytest.mark.parametrize("n", [90, 700])
def test_the_last_rows_are_kept_however_they_are_cut(n):
    y, rows = np.arange(float(n)), LastRows()
    for start, stop in itertools.pairwise([0, 5, 5, n - 130 if n > 130 else 20, n]):
        rows.add(start + 1, y=y[start:stop])
    found = rows.curves()
    assert found["recent_t"].tolist() == list(range(max(n - STRETCH, 0) + 1, n + 1))
    np.testing.assert_array_equal(found["recent_y"], y[-STRETCH:])


@pytest.mark.parametrize("K", [2, 4])
def test_scores_of_classes_are_those_of_scikit_learn_for_any_split(K):
    sk = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(K)
    p, true = rng.dirichlet(np.ones(K), 300), rng.integers(0, K, 300)
    whole, split = metrics.ProbabilityScores(), metrics.ProbabilityScores()
    whole.add(p, true)
    for rows in np.split(np.arange(300), [1, 7, 200]):
        split.add(p[rows], true[rows])
    assert (whole.log_loss, whole.brier_score) == (split.log_loss, split.brier_score)
    assert whole.log_loss == pytest.approx(sk.log_loss(true, p))
    assert whole.brier_score == pytest.approx(np.square(p - np.eye(K)[true]).sum(axis=1).mean())
    confusion = metrics.Confusion(K)
    y_hat, y = (p[:, 1] - p[:, 0], 2.0 * true - 1.0) if K == 2 else (p, true)
    confusion.add(y_hat, y)
    np.testing.assert_array_equal(
        confusion.counts[:, :K], sk.confusion_matrix(true, p.argmax(axis=1))
    )
    assert not confusion.counts[:, K].any()


def test_to_say_nothing_has_a_column_of_its_own():
    confusion = metrics.Confusion(2)
    confusion.add(np.array([0.0, 0.0, -0.2, 0.7]), np.array([1.0, 1.0, -1.0, -1.0]))
    assert confusion.counts.tolist() == [[1, 1, 0], [0, 0, 2]]


# --- Comparators --------------------------------------------------------------------------------


@pytest.mark.parametrize("lam", [1e-3, 0.1])
def test_ridge_features_is_least_squares_with_the_regulariser_as_rows(lam):
    """min sum (theta'z_t - y_t)^2 + lam T ||theta||^2, the best kernel by that objective."""
    X, y = stream(200)
    omega = random_features(DICTIONARY, 3, 5, np.random.default_rng(0)).omega
    blocks = [(X[:70], y[:70]), (X[70:], y[70:])]
    best, theta = ridge_features(omega, lambda: iter(blocks), lam)
    objectives, solutions = [], []
    for i in range(len(DICTIONARY)):
        stacked = np.vstack([features_of(omega[i], X), np.sqrt(lam * len(y)) * np.eye(10)])
        target = np.concatenate([y, np.zeros(10)])
        solutions.append(np.linalg.lstsq(stacked, target)[0])
        objectives.append(np.square(stacked @ solutions[i] - target).sum())
    assert best == np.argmin(objectives)
    np.testing.assert_allclose(theta, solutions[best], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        comparators.squared_errors(omega[best], theta, X, y),
        np.square(features_of(omega[best], X) @ solutions[best] - y),
        rtol=1e-7,
        atol=1e-14,
    )


@pytest.mark.parametrize("lam", [0.0, 1e-3])
def test_the_best_kernel_in_hindsight_is_that_of_fitting_all_to_all_rounds(lam, monkeypatch):
    """To the bit, and of two that are the same the first; lost kernels are left early."""
    X, y = stream(1000)
    drawn = random_features(DICTIONARY, 3, 5, np.random.default_rng(0)).omega
    omega = np.concatenate([drawn, 30.0 * drawn, drawn])

    def blocks():
        return ((X[k : k + 60], y[k : k + 60]) for k in range(0, len(y), 60))

    alone = [ridge_features(omega[[i]], blocks, lam)[1] for i in range(len(omega))]
    ridge = max(lam, 1e-10) * len(y)
    objectives = [
        comparators.squared_errors(omega[i], theta, X, y).sum() + ridge * theta @ theta
        for i, theta in enumerate(alone)
    ]
    gathered = []

    def counted(equations, z, y):
        gathered.append(len(z))
        add_rows(equations, z, y)

    monkeypatch.setattr(comparators, "add_rows", counted)
    best, theta = ridge_features(omega, blocks, lam)
    assert best == np.argmin(objectives) < len(drawn)
    np.testing.assert_array_equal(theta, alone[best])
    assert sum(gathered) < 0.9 * len(omega) * len(y)


def test_kernel_ridge_is_that_of_scikit_learn():
    """alpha = lam T; rbf with gamma = 1 / (2 b), laplacian with gamma = 1 / b."""
    sklearn = pytest.importorskip("sklearn.kernel_ridge", reason="scikit-learn is not installed")
    X, y = stream(150)
    lam = 1e-3
    kernels = [*DICTIONARY, Kernel("cauchy", 0.7)]

    def fit(kernel):
        if kernel.family == "cauchy":
            gram = np.prod(1 / (1 + ((X[:, None] - X) / 0.7) ** 2), axis=2)
            options, inputs = {"kernel": "precomputed"}, gram
        else:
            gamma = (0.5 if kernel.family == "gaussian" else 1.0) / kernel.bandwidth
            name = {"gaussian": "rbf", "laplacian": "laplacian"}[kernel.family]
            options, inputs = {"kernel": name, "gamma": gamma}, X
        model = sklearn.KernelRidge(alpha=lam * len(y), **options).fit(inputs, y)
        errors = np.square(model.predict(inputs) - y)
        # At the minimum ||f||^2 is alpha'K alpha, and K alpha are the fitted values.
        return errors.sum() + lam * len(y) * model.dual_coef_ @ model.predict(inputs), errors

    theirs = [fit(kernel) for kernel in kernels]
    for chosen in (kernels, kernels[4:], kernels[6:]):  # all, no Gaussian, Cauchy alone
        best, errors = kernel_ridge(chosen, X, y, lam, n_threads=2)
        candidates = theirs[len(kernels) - len(chosen) :]
        assert best == np.argmin([objective for objective, _ in candidates])
        np.testing.assert_allclose(errors, candidates[best][1], rtol=1e-7, atol=1e-13)
