"""Streams that change when and how we say, with what would have been best to say in every row.

Of a regression the label is a function of the inputs that changes, and normal noise; of a
classification it is a class, and another one with some probability.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Array = np.ndarray


class Made(NamedTuple):
    """Inputs (n, d), labels (n,), the best prediction of each (n,), and rounds of changes.

    A change is the first round, from 1, of what is new.
    """

    X: Array
    y: Array
    truth: Array
    change_rounds: tuple[int, ...]


def _parts(T: int, n: int) -> tuple[Array, tuple[int, ...]]:
    """Which of n parts a round (T,) is in, and the rounds in which another begins."""
    part = np.arange(T) * n // T
    return part, tuple(int(t) + 1 for t in np.flatnonzero(np.diff(part)) + 1)


def _friedman(X: Array, order: Array) -> Array:
    a, b, c, d, e = X[:, order[:5]].T
    return 10 * np.sin(np.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e


def switch(rng: np.random.Generator, T: int) -> Made:
    """A linear function that becomes another in the middle."""
    X, (a, b) = rng.standard_normal((T, 8)), rng.standard_normal((2, 8))
    part, changes = _parts(T, 2)
    truth = np.where(part == 0, X @ a, X @ b)
    return Made(X, truth + 0.3 * rng.standard_normal(T), truth, changes)


def returning(rng: np.random.Generator, T: int) -> Made:
    """Two linear functions in turns, each of them twice."""
    X, (a, b) = rng.standard_normal((T, 8)), rng.standard_normal((2, 8))
    part, changes = _parts(T, 4)
    truth = np.where(part % 2 == 0, X @ a, X @ b)
    return Made(X, truth + 0.3 * rng.standard_normal(T), truth, changes)


def turning(rng: np.random.Generator, T: int) -> Made:
    """A linear function of two inputs that turns slowly and never stops; four inputs are noise."""
    X, angle = rng.standard_normal((T, 6)), np.arange(T) * (2.0 * np.pi / T)
    truth = 2.0 * (X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle))
    return Made(X, truth + 0.3 * rng.standard_normal(T), truth, ())


def friedman_abrupt(rng: np.random.Generator, T: int) -> Made:
    """Friedman's first function, whose inputs change places twice."""
    X = rng.random((T, 10))
    part, changes = _parts(T, 3)
    orders = [rng.permutation(10) for _ in range(3)]
    truth = np.choose(part, [_friedman(X, order) for order in orders])
    return Made(X, truth + rng.standard_normal(T), truth, changes)


def friedman_gradual(rng: np.random.Generator, T: int) -> Made:
    """Two such functions; the second comes more and more often in the middle fifth.

    There is no round of a change.
    """
    X = rng.random((T, 10))
    first, second = (_friedman(X, rng.permutation(10)) for _ in range(2))
    begins, ends = 2 * T // 5, 3 * T // 5
    share = np.clip((np.arange(T) - begins) / (ends - begins), 0.0, 1.0)
    truth = np.where(rng.random(T) < share, second, first)
    return Made(X, truth + rng.standard_normal(T), truth, ())


def waves(rng: np.random.Generator, T: int) -> Made:
    """A slow wave of the inputs, then one four times as fast: another bandwidth is needed."""
    X = rng.standard_normal((T, 2))
    part, changes = _parts(T, 2)
    truth = np.where(part == 0, np.sin(X[:, 0]) + X[:, 1], np.sin(4.0 * X[:, 0]) + X[:, 1])
    return Made(X, truth + 0.1 * rng.standard_normal(T), truth, changes)


def _with_wrong_labels(rng: np.random.Generator, truth: Array, share: float) -> Array:
    return np.where(rng.random(len(truth)) < share, 1 - truth, truth)


def board(rng: np.random.Generator, T: int) -> Made:
    """A board of four fields that change colour in the middle; one label of 20 is wrong."""
    X = rng.standard_normal((T, 4))
    part, changes = _parts(T, 2)
    truth = ((X[:, 0] > 0) ^ (X[:, 1] > 0) ^ (part == 1)).astype(int)
    return Made(X, _with_wrong_labels(rng, truth, 0.05), truth, changes)


def plane(rng: np.random.Generator, T: int) -> Made:
    """A plane between two classes that turns slowly and never stops."""
    X, angle = rng.standard_normal((T, 6)), np.arange(T) * (2.0 * np.pi / T)
    truth = (X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle) > 0).astype(int)
    return Made(X, _with_wrong_labels(rng, truth, 0.05), truth, ())


def sea(rng: np.random.Generator, T: int) -> Made:
    """Street and Kim (2001): the sum of two inputs against four thresholds, one after another."""
    X = 10.0 * rng.random((T, 3))
    part, changes = _parts(T, 4)
    truth = (X[:, 0] + X[:, 1] <= np.array([8.0, 9.0, 7.0, 9.5])[part]).astype(int)
    return Made(X, _with_wrong_labels(rng, truth, 0.1), truth, changes)


def circles(rng: np.random.Generator, T: int) -> Made:
    """Inside or outside a circle that moves twice."""
    X = rng.random((T, 2))
    part, changes = _parts(T, 3)
    centre = np.array([[0.3, 0.3], [0.7, 0.4], [0.4, 0.7]])[part]
    truth = (((X - centre) ** 2).sum(axis=1) < 0.09).astype(int)
    return Made(X, _with_wrong_labels(rng, truth, 0.05), truth, changes)


REGRESSION: dict[str, Callable[[np.random.Generator, int], Made]] = {
    f.__name__: f for f in (switch, returning, turning, friedman_abrupt, friedman_gradual, waves)
}
CLASSIFICATION: dict[str, Callable[[np.random.Generator, int], Made]] = {
    f.__name__: f for f in (board, plane, sea, circles)
}


def made(name: str, rows: int, seed: int) -> Made:
    """So many rows of the generator of that name; KeyError where there is none."""
    return (REGRESSION | CLASSIFICATION)[name](np.random.default_rng(seed), rows)
