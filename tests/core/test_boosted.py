"""Boosted trees against their definition in plain NumPy, on the same draws."""

from __future__ import annotations

import numpy as np
import pytest

from omkl.core.compiler import for_this_process
from omkl.core.representations import boosted
from omkl.core.representations.boosted import evaluate_boosted, learn_boosted


def learn_rows(model, scratch, X, Y, y_hat):
    W = model.rows.shape[1]
    for t in range(X.shape[0]):
        for c in range(X.shape[1]):
            scratch.x[c] = X[t, c]
        for e in range(Y.shape[0]):
            y_hat[e, t] = evaluate_boosted(model, scratch, e)
            model.labels[e, model.n[0] % W] = Y[e, t]
        learn_boosted(model, scratch, True)


learn_rows_compiled = for_this_process(learn_rows)


def stream(T: int, missing: float = 0.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Steps of two inputs, a slope and noise; one input says nothing."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((T, 3))
    y = (
        np.where(X[:, 0] > 0.3, 3.0, 0.0) * (X[:, 1] > -0.5)
        + X[:, 1]
        + 0.1 * rng.standard_normal(T)
    )
    X[rng.random(T) < missing, 1] = np.nan
    return X, y


def learned(X: np.ndarray, *labels: np.ndarray, n_columns: list[int] | None = None):
    model = boosted.fresh_boosted(n_columns or [X.shape[1]] * len(labels))
    y_hat = np.zeros((len(labels), len(X)))
    learn_rows_compiled(model, boosted.boosted_scratch(model), X, np.array(labels), y_hat)
    return model, y_hat


# --- The definition -------------------------------------------------------------------------------


class Draws:
    def __init__(self, fit: int) -> None:
        self.now = fit * 48271 % (2**31 - 1)

    def next(self) -> int:
        self.now = self.now * 48271 % (2**31 - 1)
        return self.now


def edges_of(column: np.ndarray) -> np.ndarray:
    numbers = np.sort(column[~np.isnan(column)])
    k = np.clip(np.arange(1, 64) * len(numbers) // 64, 1, len(numbers) - 1)
    return 0.5 * (numbers[k - 1] + numbers[k])


LEAF = 5.0 / 8.0  # of what a leaf says, where there are eight trees


def tree(X: np.ndarray, rest: np.ndarray, edges: list[np.ndarray], level: int = 0):
    """What a tree says of a row, as a function: the best cut of all edges, and trees behind it."""
    value = LEAF * rest.sum() / (len(rest) + 1.0)
    best, cut = rest.sum() ** 2 / (len(rest) + 1.0) * (1.0 + 1e-12), None
    for c, of_column in enumerate(edges):
        for edge in of_column:
            right = X[:, c] > edge
            n = np.count_nonzero(right)
            if min(n, len(rest) - n) < 20 or level == 6:
                continue
            sums = rest[right].sum(), rest[~right].sum()
            gain = sums[0] ** 2 / (n + 1.0) + sums[1] ** 2 / (len(rest) - n + 1.0)
            if gain > best:
                best, cut = gain, (c, edge, right)
    if cut is None:
        return lambda x: value
    c, edge, right = cut
    high = tree(X[right], rest[right], edges, level + 1)
    low = tree(X[~right], rest[~right], edges, level + 1)
    return lambda x: high(x) if x[c] > edge else low(x)


def ensemble(X: np.ndarray, y: np.ndarray, draws: Draws, n_trees: int):
    rest = y - y.mean()
    edges = [edges_of(column) for column in X.T]
    trees = []
    for _ in range(n_trees):
        rows = np.array([draws.next() % 2 == 0 for _ in y])
        trees.append(tree(X[rows], rest[rows], edges))
        rest = rest - np.array([trees[-1](x) for x in X])
    return lambda x: y.mean() + sum(grown(x) for grown in trees)


def test_trees_are_the_best_cuts_of_what_is_left():
    X, y = stream(540, missing=0.1)
    model = boosted.fresh_boosted([3], n_trees=8)
    y_hat = np.zeros((1, len(y)))
    learn_rows_compiled(model, boosted.boosted_scratch(model), X, y[None], y_hat)
    expected = ensemble(X[:500], y[:500], Draws(1), 8)
    np.testing.assert_array_equal(y_hat[0, :500], 0.0)
    np.testing.assert_allclose(y_hat[0, 500:], [expected(x) for x in X[500:]], rtol=0, atol=1e-9)


def test_steps_are_learned():
    X, y = stream(6000)
    _, y_hat = learned(X, y)
    assert np.mean((y_hat[0] - y)[3000:] ** 2) < 0.05 * np.var(y)


def test_an_ensemble_reads_the_first_columns_alone():
    X, y = stream(1000)
    _, narrow = learned(X[:, :2].copy(), y)
    _, both = learned(X, y, y, n_columns=[2, 3])
    np.testing.assert_array_equal(both[0], narrow[0])


def test_units_of_columns_do_not_matter():
    X, y = stream(1000)
    _, y_hat = learned(X, y)
    _, moved = learned(8.0 * X, y)
    np.testing.assert_array_equal(moved, y_hat)


def test_one_wild_label_does_not_ruin_the_trees():
    X, y = stream(1500)
    wild = y.copy()
    wild[300] = 1e6
    _, y_hat = learned(X, wild)
    assert np.mean((y_hat[0] - y)[800:] ** 2) < 0.3 * np.var(y)


@pytest.mark.parametrize("d", [1, 40, 600])
def test_a_window_of_many_columns_has_fewer_rows_and_trees_look_at_some(d):
    assert d * boosted.window_rows(d) <= 2**21
    rng = np.random.default_rng(3)
    X = rng.standard_normal((600, d))
    model, y_hat = learned(X, X[:, 0])
    assert np.isfinite(y_hat).all() and y_hat[0, 550:].std() > 0.0
    assert model.column.max() < d


def test_constant_columns_and_labels():
    X, y = np.ones((600, 2)), np.full(600, 7.5)
    _, y_hat = learned(X, y)
    np.testing.assert_allclose(y_hat[0, 500:], 7.5, rtol=1e-12)
    _, y_hat = learned(np.full((600, 2), np.nan), y)
    np.testing.assert_allclose(y_hat[0, 500:], 7.5, rtol=1e-12)


def test_the_newest_rows_have_bins_of_their_own():
    """Between two powers of two rows are sampled from all over the window."""
    T = 2_800
    X = np.arange(T, dtype=np.float64)[:, None]
    model = boosted.fresh_boosted([1])
    scratch = boosted.boosted_scratch(model)
    learn_rows_compiled(model, scratch, X, np.sin(X.T), np.zeros((1, T)))
    edges = scratch.edges[0][scratch.edges[0] < boosted.NEVER]
    assert model.n[0] == T and np.diff(edges).max() < 2.0 * T / boosted.N_BINS
    assert edges[-1] > 0.85 * T
