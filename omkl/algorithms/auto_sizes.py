"""Sizes of ``auto``: the experts of ``small``, ``medium`` and ``full``.

The tables were found by a search. Starting from ``full``, it halved waves, trees and stored rows,
or left groups out. Each time it made the change that saves most time, until a row of 10 inputs took
about 8 (small) or 30 (medium) microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from omkl.algorithms.auto_experts import CLASSIFIER_GROUPS, GROUPS, MANY_WAVES, Draw, Group
from omkl.core.hyperparameters import Choice
from omkl.core.kernels import Kernel
from omkl.core.representations.boosted import N_TREES, window_rows
from omkl.core.representations.experts import KEPT
from omkl.core.representations.mixture_of_experts import TREE_LAGS
from omkl.core.representations.softmax_mixture import trees_of_a_class

SIZES = Choice("small", "medium", "full")
SMALL, MEDIUM, FULL = range(3)


class Sizes(NamedTuple):
    """Experts of a learner.

    Attributes
    ----------
    groups
        Recursive experts. The first group is the linear one.
    n_trees
        Trees of an ensemble; 0 for none.
    n_rows
        Rows in the window from which trees are grown.
    n_stored
        Rows among which nearest neighbours are searched; 0 for none.
    waves
        Number of frequencies of each kind in the ridge regression on many waves (random features);
        empty for none.
    """

    groups: tuple[Group, ...]
    n_trees: int
    n_rows: int
    n_stored: int
    waves: tuple[tuple[Draw, int], ...]

    @property
    def n_waves(self) -> int:
        return sum(D for _, D in self.waves)


# Number of waves of each group that a size has. Other groups are left out.
REGRESSION_WAVES: Mapping[int, Mapping[str, int]] = {
    SMALL: {
        "linear": 0, "linear, lags, fading": 0, "changes": 0, "changes, fading": 0,
        "single inputs, laplacian": 12,
    },
    MEDIUM: {
        "linear": 0, "linear, lags, fading": 0, "changes": 0, "changes, fading": 0,
        "gaussian, changes": 12, "gaussian": 12, "gaussian, lags, fading": 25,
        "single inputs, lags, fading": 25, "single inputs, laplacian": 25, "pairs, laplacian": 12,
    },
}  # fmt: skip
CLASS_WAVES: Mapping[int, Mapping[str, int]] = {
    SMALL: {
        "linear": 0, "linear, lags, fading": 0, "gaussian, fading": 12,
        "laplacian": 12, "pairs": 25,
    },
    MEDIUM: {
        "linear": 0, "linear, lags, fading": 0, "gaussian": 25,
        "gaussian, fading": 25, "laplacian": 25, "single inputs": 25, "pairs": 50,
    },
}  # fmt: skip
REDUCED_TREES = 12  # trees of each ensemble of ``medium``
REDUCED_ROWS = 256  # stored rows
REDUCED_MANY = (24, 16, 16)  # frequencies of each kind in ``MANY_WAVES``


def regression_sizes(size: int, d: int) -> Sizes:
    """Return the experts for a target that is a number. ``size`` is an index in ``SIZES``."""
    window = window_rows(d + TREE_LAGS + 1)
    if size == FULL:
        return Sizes(GROUPS, N_TREES, window, KEPT, MANY_WAVES)
    n_trees = REDUCED_TREES if size == MEDIUM else 0
    waves = tuple((draw, D) for (draw, _), D in zip(MANY_WAVES, REDUCED_MANY, strict=True))
    groups = _reduced(GROUPS, REGRESSION_WAVES[size])
    return Sizes(groups, n_trees, window if n_trees else 1, REDUCED_ROWS, waves)


def class_sizes(size: int, d: int, K: int = 2) -> Sizes:
    """Return the experts for K classes.

    Parameters
    ----------
    size
        Index in ``SIZES``.
    d
        Number of inputs.
    K
        Number of classes, >= 2.
    """
    window = window_rows(d + TREE_LAGS)
    if size == FULL:
        return Sizes(CLASSIFIER_GROUPS, trees_of_a_class(K), window, 0, ())
    n_trees = REDUCED_TREES if size == MEDIUM and K == 2 else 0
    return Sizes(
        _reduced(CLASSIFIER_GROUPS, CLASS_WAVES[size]), n_trees, window if n_trees else 1, 0, ()
    )


def _reduced(groups: Sequence[Group], waves: Mapping[str, int]) -> tuple[Group, ...]:
    return tuple(group._replace(D=waves[group.name]) for group in groups if group.name in waves)


def expert_names(sizes: Sizes) -> tuple[Kernel, ...]:
    """Return the experts in the order of their predictions, each as a ``Kernel`` with its name."""
    names = [("mean", 1.0), ("last target", 1.0)]
    for group in sizes.groups:
        names += [(group.name, length) for length in group.lengths]
    if sizes.n_stored:
        names += [("neighbours", 1.0), ("linear, neighbours", 1.0)]
    # Every size has this expert. Without trees it predicts the mixture of the other experts.
    names.append(("trees" if sizes.n_trees else "no trees", 1.0))
    if sizes.waves:
        names.append(("many waves", 1.0))
    return tuple(Kernel(name, length) for name, length in names)
