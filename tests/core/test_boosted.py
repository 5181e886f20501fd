"""Boosted trees against their definition in plain NumPy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import expit, softmax

from omkl.core.representations import boosted
from omkl.core.representations.boosted import (
    BETTER,
    evaluate_boosted,
    learn_boosted,
    learn_boosted_classes,
)
from tests.learners import compiled


def learn_rows(model, scratch, X, Y, y_hat, of_classes, used=3):
    W = model.rows.shape[1]
    for t in range(X.shape[0]):
        for c in range(X.shape[1]):
            scratch.x[c] = X[t, c]
        for e in range(y_hat.shape[0]):
            y_hat[e, t] = evaluate_boosted(model, scratch, e)
        for e in range(Y.shape[0]):
            model.labels[e, model.n[0] % W] = Y[e, t]
        if of_classes:
            learn_boosted_classes(model, scratch, True)
        else:
            learn_boosted(model, scratch, used)


learn_rows_compiled = compiled(learn_rows)


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
    learn_rows_compiled(model, boosted.boosted_scratch(model), X, np.array(labels), y_hat, False)
    return model, y_hat


# --- The definition -------------------------------------------------------------------------------


def edges_of(column: np.ndarray) -> np.ndarray:
    numbers = np.sort(column[~np.isnan(column)])
    m, edges = len(numbers), []
    for b in range(1, 64):
        first = max(1, b * m // 64)
        gaps = np.diff(numbers[first - 1 : max(first + 1, (b + 1) * m // 64)])
        k = first + int(gaps.argmax()) if gaps.max() > 0.5 * gaps.sum() else first
        edges.append(0.5 * (numbers[k - 1] + numbers[k]))
    return np.unique(edges)


class Rows(NamedTuple):
    """Inputs of the rows of a leaf, what is to be explained in them, and how much each counts."""

    X: np.ndarray
    rest: np.ndarray
    weight: np.ndarray

    def of(self, which: np.ndarray) -> Rows:
        return Rows(self.X[which], self.rest[which], self.weight[which])


class Rules(NamedTuple):
    leaves: int
    least: float
    step: float


def best_cut(rows: Rows, edges: list[np.ndarray], least: float):
    """What the best cut of all edges brings, and the cut: column, edge, who goes to the right."""
    X, rest, weight = rows

    def worth(of: np.ndarray) -> float:
        return rest[of].sum() ** 2 / (weight[of].sum() + 1.0)

    alone = worth(np.ones(len(X), dtype=bool))
    most, cut = BETTER * alone, None
    for c, of_column in enumerate(edges):
        for edge in of_column:
            right = X[:, c] > edge
            lighter = min(weight[right].sum(), weight[~right].sum())
            if lighter >= least and worth(right) + worth(~right) > most:
                most, cut = BETTER * (worth(right) + worth(~right)), (c, edge, right)
    return most - BETTER * alone, cut


def tree(rows: Rows, edges: list[np.ndarray], rules: Rules, gains: np.ndarray):
    """What a tree says of a row, as a function; of all leaves the best cut comes next.

    What a cut brings is added to the gain of its column.
    """
    leaves = [((), rows, *best_cut(rows, edges, rules.least))]
    while len(leaves) < rules.leaves and any(cut for *_, cut in leaves):
        k = max(range(len(leaves)), key=lambda k: leaves[k][2] if leaves[k][3] else 0.0)
        path, of, gain, (c, edge, right) = leaves[k]
        gains[c] += gain
        parts = [of.of(right == side) for side in (False, True)]
        leaves[k], other = (
            ((*path, (c, edge, side)), part, *best_cut(part, edges, rules.least))
            for side, part in enumerate(parts)
        )
        leaves.append(other)

    def said(x: np.ndarray) -> float:
        for path, of, *_ in leaves:
            if all((x[c] > edge) == side for c, edge, side in path):
                return rules.step * of.rest.sum() / (of.weight.sum() + 1.0)
        raise AssertionError("every row is in a leaf")

    return said


def ensemble(X: np.ndarray, y: np.ndarray, n_trees: int):
    rest, one, gains = y - y.mean(), np.ones(len(y)), np.zeros(X.shape[1])
    edges = [edges_of(column) for column in X.T]
    trees = []
    for _ in range(n_trees):
        trees.append(tree(Rows(X, rest, one), edges, Rules(32, 20.0, 5.0 / n_trees), gains))
        rest = rest - np.array([trees[-1](x) for x in X])
    return lambda x: y.mean() + sum(grown(x) for grown in trees), gains


def ensemble_of_classes(X: np.ndarray, y: np.ndarray, K: int, n_trees: int):
    """Logits (T, K) of rows (T, d): one tree of each class, then the next of each."""
    edges = [edges_of(column) for column in X.T]
    base = np.log([(np.count_nonzero(y == k) + 0.5) / (len(y) + 0.5 * K) for k in range(K)])
    rounds, gains = [], np.zeros((K, X.shape[1]))

    def logits(X: np.ndarray) -> np.ndarray:
        return np.array(
            [base + sum(np.array([f(x) for f in trees]) for trees in rounds) for x in X]
        )

    for _ in range(n_trees):
        p = softmax(logits(X), axis=1)
        every = [Rows(X, (y == k) - p[:, k], p[:, k] * (1.0 - p[:, k])) for k in range(K)]
        rules = Rules(64, 1.0, 10.0 / n_trees)
        rounds.append([tree(rows, edges, rules, of) for rows, of in zip(every, gains, strict=True)])
    return logits, gains


def test_trees_are_the_best_cuts_of_what_is_left():
    X, y = stream(540, missing=0.1)
    model = boosted.fresh_boosted([3], n_trees=8)
    y_hat = np.zeros((1, len(y)))
    learn_rows_compiled(model, boosted.boosted_scratch(model), X, y[None], y_hat, False)
    expected, gains = ensemble(X[:500], y[:500], 8)
    np.testing.assert_array_equal(y_hat[0, :500], 0.0)
    np.testing.assert_allclose(y_hat[0, 500:], [expected(x) for x in X[500:]], rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.forest.gains, [gains], rtol=1e-9)
    np.testing.assert_allclose(boosted.gain_shares(model, 1), gains / gains.sum())


@pytest.mark.parametrize("K", [2, 3])
def test_trees_of_classes_add_up_to_logits_by_steps_of_newton(K):
    X, y = stream(540, missing=0.1)
    y = np.digitize(y, [0.0, 1.5][: K - 1]).astype(np.float64)
    model = boosted.fresh_boosted([3] * (1 if K == 2 else K), n_trees=4, of_classes=True)
    said = np.zeros((len(model.forest.base), len(y)))
    codes = (2.0 * y - 1.0 if K == 2 else y)[None]
    learn_rows_compiled(model, boosted.boosted_scratch(model, True), X, codes, said, True)
    logits, gains = (one_logit if K == 2 else ensemble_of_classes)(X[:500], y[:500], K, 4)
    np.testing.assert_allclose(said[:, 500:].T, logits(X[500:]), rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.forest.gains, gains, rtol=1e-9)


def one_logit(X: np.ndarray, y: np.ndarray, K: int, n_trees: int):
    """The logarithm of the odds (T, 1) of class 1 against class 0."""
    edges = [edges_of(column) for column in X.T]
    ones = np.count_nonzero(y)
    base, trees = np.log((ones + 0.5) / (len(y) - ones + 0.5)), []
    gains = np.zeros((1, X.shape[1]))

    def logit(X: np.ndarray) -> np.ndarray:
        return np.array([[base + sum(f(x) for f in trees)] for x in X])

    for _ in range(n_trees):
        p = expit(logit(X)[:, 0])
        rows, rules = Rows(X, y - p, p * (1.0 - p)), Rules(64, 1.0, 10.0 / n_trees)
        trees.append(tree(rows, edges, rules, gains[0]))
    return logit, gains


def test_steps_are_learned_and_cut_at_a_word_rather_than_its_number():
    X, y = stream(6000)
    X[:, 0] += np.sign(X[:, 0] - 0.3)
    model, y_hat = learned(np.column_stack([X, X[:, 0] > 0.3]), y)
    assert np.mean((y_hat[0] - y)[3000:] ** 2) < 0.05 * np.var(y)
    assert model.forest.gains[0, 3] > 100.0 * model.forest.gains[0, 0]


def test_an_ensemble_reads_the_first_columns_alone():
    X, y = stream(1000)
    _, narrow = learned(X[:, :2].copy(), y)
    _, both = learned(X, y, y, n_columns=[2, 3])
    # Two ensembles take two rounds longer. Later, bins depend on the cuts of both.
    np.testing.assert_array_equal(both[0, 504:620], narrow[0, 504:620])


def test_a_refit_that_is_resumed_with_another_scratch_grows_the_same_trees():
    X, y = stream(1500)
    labels, whole = np.array([y, y]), np.zeros((2, len(y)))
    model = boosted.fresh_boosted([3, 3])
    learn_rows_compiled(model, boosted.boosted_scratch(model), X, labels, whole, False)
    parts, begun = np.zeros((2, len(y))), []
    model = boosted.fresh_boosted([3, 3])
    for start, stop in ((0, 500), (500, 700), (700, 1500)):
        rows = slice(start, stop)
        part = np.zeros((2, stop - start))
        scratch = boosted.boosted_scratch(model)
        learn_rows_compiled(model, scratch, X[rows], labels[:, rows].copy(), part, False)
        parts[:, rows] = part
        begun.append(int(model.begun[0]))
    assert begun[:2] == [500, 699]  # cut in the middle of two refits
    np.testing.assert_array_equal(parts, whole)


def test_trees_that_are_not_used_are_regrown_every_fourth_time():
    X, y = stream(3000)
    model = boosted.fresh_boosted([3, 3])
    scratch, bases = boosted.boosted_scratch(model), []
    for rows in np.split(np.arange(3000), 30):
        Y = np.array([y, y])[:, rows]
        learn_rows_compiled(model, scratch, X[rows], Y, np.zeros((2, 100)), False, 1)
        bases.append(model.forest.base.copy())
    grown = [len(set(base)) - 1 for base in np.transpose(bases)]  # the first is that of no trees
    assert model.fits[0] == 6 and grown == [6, 2]


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
    assert model.forest.column.max() < d


def test_constant_columns_and_labels():
    X, y = np.ones((600, 2)), np.full(600, 7.5)
    _, y_hat = learned(X, y)
    np.testing.assert_allclose(y_hat[0, 501:], 7.5, rtol=1e-12)
    _, y_hat = learned(np.full((600, 2), np.nan), y)
    np.testing.assert_allclose(y_hat[0, 501:], 7.5, rtol=1e-12)


def test_the_newest_rows_have_bins_of_their_own():
    """Between two powers of two rows are sampled from all over the window."""
    T = 2_800
    X = np.arange(T, dtype=np.float64)[:, None]
    model = boosted.fresh_boosted([1])
    scratch = boosted.boosted_scratch(model)
    learn_rows_compiled(model, scratch, X, np.sin(X.T), np.zeros((1, T)), False)
    edges = scratch.edges[0][: scratch.n_bins[0] - 1]
    assert model.n[0] == T and np.diff(edges).max() < 2.0 * T / boosted.LEAST_BINS
    assert edges[-1] > 0.95 * scratch.begun[0] > 0.8 * T


def test_numbers_that_lie_close_to_a_few_are_told_apart():
    """As those of categories do that are standardised as rows come."""
    rng = np.random.default_rng(1)
    near = rng.integers(0, 5, 3000)
    X = (near + 0.02 * rng.standard_normal(3000))[:, None]
    _, y_hat = learned(X, np.where(near == 2, 1.0, 0.0))
    assert np.abs(y_hat[0, 2800:] - (near[2800:] == 2)).max() < 0.05


def test_later_trees_find_the_place_of_a_step_more_exactly_than_a_bin():
    rng = np.random.default_rng(4)
    X = rng.uniform(-1.0, 1.0, (5000, 2))
    model, _ = learned(X, np.where(X[:, 0] > 0.123, 1.0, 0.0))
    first = model.forest.threshold[0][model.forest.column[0] == 0]
    nearest = np.abs(first[first < boosted.NEVER] - 0.123).min()
    assert nearest < 0.2 * 2.0 / boosted.N_BINS  # of a bin of equally many rows
    assert model.fits[0] > 3
