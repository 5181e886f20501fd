"""Generate streams that change at known rows, with the best possible prediction of every row.

The target of a regression is a function of the inputs plus normal noise. The target of a
classification is a function of the inputs, too, but with a fixed probability another class replaces
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Array = np.ndarray


class Generated(NamedTuple):
    """A generated stream.

    Attributes
    ----------
    X
        Inputs, (n, d).
    y
        Targets, (n,).
    truth
        Best possible prediction of each row, (n,): the target without noise.
    change_rows
        Rows, counted from 1, at which another function begins.
    """

    X: Array
    y: Array
    truth: Array
    change_rows: tuple[int, ...]


def _parts(T: int, n: int) -> tuple[Array, tuple[int, ...]]:
    """Cut T rows into n equal parts. Return the part (T,) of each row, and the change rows."""
    part = np.arange(T) * n // T
    return part, tuple(int(t) + 1 for t in np.flatnonzero(np.diff(part)) + 1)


def _friedman(X: Array, order: Array) -> Array:
    a, b, c, d, e = X[:, order[:5]].T
    return 10 * np.sin(np.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e


def switch(rng: np.random.Generator, T: int) -> Generated:
    """Change from one linear function to another in the middle."""
    X, (a, b) = rng.standard_normal((T, 8)), rng.standard_normal((2, 8))
    part, changes = _parts(T, 2)
    truth = np.where(part == 0, X @ a, X @ b)
    return Generated(X, truth + 0.3 * rng.standard_normal(T), truth, changes)


def returning(rng: np.random.Generator, T: int) -> Generated:
    """Alternate between two linear functions, each twice."""
    X, (a, b) = rng.standard_normal((T, 8)), rng.standard_normal((2, 8))
    part, changes = _parts(T, 4)
    truth = np.where(part % 2 == 0, X @ a, X @ b)
    return Generated(X, truth + 0.3 * rng.standard_normal(T), truth, changes)


def turning(rng: np.random.Generator, T: int) -> Generated:
    """Rotate a linear function of two inputs slowly. Four more inputs are noise."""
    X, angle = rng.standard_normal((T, 6)), np.arange(T) * (2.0 * np.pi / T)
    truth = 2.0 * (X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle))
    return Generated(X, truth + 0.3 * rng.standard_normal(T), truth, ())


def friedman_abrupt(rng: np.random.Generator, T: int) -> Generated:
    """Permute the inputs of Friedman's first function twice."""
    X = rng.random((T, 10))
    part, changes = _parts(T, 3)
    orders = [rng.permutation(10) for _ in range(3)]
    truth = np.choose(part, [_friedman(X, order) for order in orders])
    return Generated(X, truth + rng.standard_normal(T), truth, changes)


def friedman_gradual(rng: np.random.Generator, T: int) -> Generated:
    """Replace one Friedman function by another gradually, over the middle fifth of the rows."""
    X = rng.random((T, 10))
    first, second = (_friedman(X, rng.permutation(10)) for _ in range(2))
    begins, ends = 2 * T // 5, 3 * T // 5
    share = np.clip((np.arange(T) - begins) / (ends - begins), 0.0, 1.0)
    truth = np.where(rng.random(T) < share, second, first)
    return Generated(X, truth + rng.standard_normal(T), truth, ())


def waves(rng: np.random.Generator, T: int) -> Generated:
    """Change the frequency of a wave by a factor of four in the middle of the stream."""
    X = rng.standard_normal((T, 2))
    part, changes = _parts(T, 2)
    truth = np.where(part == 0, np.sin(X[:, 0]) + X[:, 1], np.sin(4.0 * X[:, 0]) + X[:, 1])
    return Generated(X, truth + 0.1 * rng.standard_normal(T), truth, changes)


def robot_arm(rng: np.random.Generator, T: int) -> Generated:
    """Predict the distance between a point and the hand of a robot arm with four links."""
    angles, lengths = rng.uniform(-2.0, 2.0, (T, 4)), rng.uniform(0.5, 1.5, (T, 4))
    turned = np.cumsum(angles, axis=1)
    hand = np.stack([(lengths * np.cos(turned)).sum(1), (lengths * np.sin(turned)).sum(1)])
    truth = np.hypot(hand[0] - 1.0, hand[1] - 0.5)
    return Generated(np.hstack([angles, lengths]), truth + 0.1 * rng.standard_normal(T), truth, ())


def _tree(rng: np.random.Generator, X: Array, depth: int) -> Array:
    """Return the values (n,) of a random decision tree with normal numbers in its leaves."""
    node = np.zeros(len(X), dtype=int)
    for level in range(depth):
        column, cut = rng.integers(X.shape[1], size=2**level), rng.uniform(0.2, 0.8, 2**level)
        node = 2 * node + (X[np.arange(len(X)), column[node]] > cut[node])
    return rng.standard_normal(2**depth)[node]


def random_tree(rng: np.random.Generator, T: int) -> Generated:
    """Predict the value of a random decision tree with 256 leaves and ten inputs."""
    X = rng.random((T, 10))
    truth = _tree(rng, X, 8)
    return Generated(X, truth + 0.3 * rng.standard_normal(T), truth, ())


def changing_tree(rng: np.random.Generator, T: int) -> Generated:
    """Predict the value of a decision tree with 64 leaves, which is replaced twice."""
    X = rng.random((T, 10))
    part, changes = _parts(T, 3)
    truth = np.choose(part, [_tree(rng, X, 6) for _ in range(3)])
    return Generated(X, truth + 0.3 * rng.standard_normal(T), truth, changes)


def bells(rng: np.random.Generator, T: int) -> Generated:
    """Predict a mean of 40 random heights, weighted by Gaussian bells in six inputs."""
    X, centres = rng.random((T, 6)), rng.random((40, 6))
    heights = rng.standard_normal(40)
    truth, whole = np.zeros(T), np.zeros(T)
    for centre, height in zip(centres, heights, strict=True):
        bell = np.exp(-((X - centre) ** 2).sum(axis=1) / 0.1)
        truth += height * bell
        whole += bell
    truth /= whole
    return Generated(X, truth + 0.1 * rng.standard_normal(T), truth, ())


def thresholds(rng: np.random.Generator, T: int) -> Generated:
    """Predict a threshold autoregression, whose next value depends on the signs of the last two."""
    noise, drive = 0.5 * rng.standard_normal(T), rng.standard_normal(T)
    truth, y = np.zeros(T), np.zeros(T + 2)
    for t in range(T):
        last, before = y[t + 1], y[t]
        high = last > 0.0
        truth[t] = (0.8 * last - 0.5 * before if high else -0.6 * last + 0.3 * before) + (
            drive[t] if before > 0.0 else -drive[t]
        )
        y[t + 2] = truth[t] + noise[t]
    return Generated(drive[:, None], y[2:], truth, ())


def _with_wrong_labels(rng: np.random.Generator, truth: Array, share: float) -> Array:
    return np.where(rng.random(len(truth)) < share, 1 - truth, truth)


def board(rng: np.random.Generator, T: int) -> Generated:
    """Predict the colour on a board of four fields. The colours are swapped in the middle."""
    X = rng.standard_normal((T, 4))
    part, changes = _parts(T, 2)
    truth = ((X[:, 0] > 0) ^ (X[:, 1] > 0) ^ (part == 1)).astype(int)
    return Generated(X, _with_wrong_labels(rng, truth, 0.05), truth, changes)


def plane(rng: np.random.Generator, T: int) -> Generated:
    """Rotate the plane between two classes slowly."""
    X, angle = rng.standard_normal((T, 6)), np.arange(T) * (2.0 * np.pi / T)
    truth = (X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle) > 0).astype(int)
    return Generated(X, _with_wrong_labels(rng, truth, 0.05), truth, ())


def sea(rng: np.random.Generator, T: int) -> Generated:
    """Compare the sum of two inputs with a threshold that changes thrice (Street and Kim, 2001)."""
    X = 10.0 * rng.random((T, 3))
    part, changes = _parts(T, 4)
    truth = (X[:, 0] + X[:, 1] <= np.array([8.0, 9.0, 7.0, 9.5])[part]).astype(int)
    return Generated(X, _with_wrong_labels(rng, truth, 0.1), truth, changes)


def circles(rng: np.random.Generator, T: int) -> Generated:
    """Separate the inside of a circle from its outside. The circle moves twice."""
    X = rng.random((T, 2))
    part, changes = _parts(T, 3)
    centre = np.array([[0.3, 0.3], [0.7, 0.4], [0.4, 0.7]])[part]
    truth = (((X - centre) ** 2).sum(axis=1) < 0.09).astype(int)
    return Generated(X, _with_wrong_labels(rng, truth, 0.05), truth, changes)


def sensors(rng: np.random.Generator, T: int) -> Generated:
    """Predict from six sensors with different units. Four matter, one of them non-linearly."""
    Z = rng.standard_normal((T, 6))
    truth = 2.0 * Z[:, 0] + Z[:, 1] - 0.5 * Z[:, 2] + np.sin(2.0 * Z[:, 3])
    X = np.array([20.0, 1013.0, 55.0, 3.0, 0.4, 230.0]) + Z * [5.0, 8.0, 12.0, 1.0, 0.1, 2.0]
    return Generated(X, truth + 0.1 * rng.standard_normal(T), truth, ())


GENERATORS: dict[str, Callable[[np.random.Generator, int], Generated]] = {
    f.__name__: f for f in (
        switch, returning, turning, friedman_abrupt, friedman_gradual, waves, robot_arm,
        random_tree, changing_tree, bells, thresholds, sensors, board, plane, sea, circles,
    )
}  # fmt: skip


def generate(name: str, n_rows: int, seed: int = 0) -> Generated:
    """Return ``n_rows`` rows of a generator in ``GENERATORS``."""
    return GENERATORS[name](np.random.default_rng(seed), n_rows)
