"""Contributions of the inputs to a prediction: Shapley values over random orders of the inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np


def contributions(
    predict: Callable[[np.ndarray], np.ndarray],
    row: np.ndarray,
    means: np.ndarray,
    groups: Sequence[Sequence[int]],
    n_orders: int,
    seed: int,
) -> np.ndarray:
    """Return the mean change of the prediction when the inputs of a group become known.

    Groups become known one after another in random orders, each order also reversed. An input that
    is not yet known has its mean.

    Parameters
    ----------
    predict
        Function of rows (n, d) that returns their predictions (n,) or (n, m).
    row, means
        Inputs of the row and their means, (d,) each.
    groups
        Places of the inputs that become known together, for each group.
    n_orders
        Number of random orders, each used in both directions.
    seed
        Seed of the orders.

    Returns
    -------
    ndarray
        Contribution of each group, and last the prediction for the means, (G + 1,) or (G + 1, m).
    """
    same = (row == means) | (np.isnan(row) & np.isnan(means))
    known = [k for k, group in enumerate(groups) if not same[group].all()]
    rng = np.random.default_rng(seed)
    rows = np.tile(means, (len(known) + 1, 1))
    base = predict(rows[:1])
    total = np.zeros((len(groups), *base.shape[1:]))
    for _ in range(n_orders):
        order = rng.permutation(known)
        for way in (order, order[::-1]):
            rows[:] = means
            for k, group in enumerate(way):
                rows[k + 1 :, groups[group]] = row[groups[group]]
            total[way] += np.diff(predict(rows), axis=0)
    return np.concatenate([total / (2 * n_orders), base])
