"""How large the experts of ``auto`` are: as measured in the design, or what a budget allows.

What a row costs is a formula in the sizes of the experts and the number of inputs, whose
coefficients were measured once (``scripts/benchmarks/auto_costs.py``). So the same settings give
the same experts on every machine. Of a budget that is exceeded the change that saves most is made,
again and again: an expert's waves, trees or rows are halved, or a group of experts is left out
(the neighbours and the many waves never are).
Where even the smallest set with trees costs more, there are none, and the others are cut from their
full sizes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from omkl.algorithms.auto_experts import (
    CLASSIFIER_GROUPS,
    GROUPS,
    MANY_WAVES,
    SOFTMAX_GROUPS,
    Draw,
    Group,
    Layout,
    columns_of_parts,
    layout_of,
)
from omkl.core.kernels import Kernel
from omkl.core.linalg import TILE_ROWS
from omkl.core.representations.boosted import (
    LEAST_BINS,
    LEAST_ROWS,
    LEAVES,
    MOST_COLUMNS,
    N_CUTS,
    N_LEAVES,
    N_TREES,
    ROWS_OF_BIN,
    most_bins,
    window_rows,
)
from omkl.core.representations.experts import KEPT
from omkl.core.representations.mixture_of_experts import TREE_LAGS, n_beside
from omkl.core.representations.softmax_mixture import MOST_CLASSES, trees_of_a_class
from omkl.core.representations.wide import MOST_BETWEEN
from omkl.core.robust_moments import N_NUMBERS
from omkl.core.simd import LANES

FEWEST_WAVES = 8  # of an expert: with fewer it is left out
FEWEST_TREES = 10
FEWEST_KEPT = 64
SINCOS, SORTING = 10, 4  # of a wave, of a neighbour: as much as so many inputs


class Sizes(NamedTuple):
    """What the experts are made of.

    groups   the recursive ones; the first group stays
    n_trees  of an ensemble, 0: there are none; n_rows of their window
    n_kept   rows among which neighbours are looked for; 0: there are none
    waves    of the regression on many waves, by kind; (): there is none
    K        classes that are learned together, 1 of numbers and of two classes
    """

    groups: tuple[Group, ...]
    n_trees: int
    n_rows: int
    n_kept: int
    waves: tuple[tuple[Draw, int], ...]
    K: int

    @property
    def n_many(self) -> int:
        return sum(D for _, D in self.waves)


def of_numbers(d: int) -> Sizes:
    """Without a budget, in d inputs."""
    return Sizes(GROUPS, N_TREES, window_rows(d + TREE_LAGS + 1), KEPT, MANY_WAVES, 1)


def of_classes(d: int, K: int = 1) -> Sizes:
    """Likewise of two classes (K = 1), or of more."""
    groups = SOFTMAX_GROUPS if K > 1 else CLASSIFIER_GROUPS
    n_trees = trees_of_a_class(K) if K > 1 else N_TREES
    return Sizes(groups, n_trees, window_rows(d + TREE_LAGS), 0, (), K)


def named(sizes: Sizes, whole: Sizes) -> tuple[Kernel, ...]:
    """The experts by name, with their sizes where these are less than in ``whole``."""
    full = {group.name: group.D for group in whole.groups}
    names = [("mean", 1.0), ("last label", 1.0)]
    for group in sizes.groups:
        cut = f", {group.D} waves" if group.D < full[group.name] else ""
        names += [(group.name + cut, length) for length in group.lengths]
    kept = f", {sizes.n_kept} rows" if sizes.n_kept < whole.n_kept else ""
    if sizes.n_kept:
        names += [(f"neighbours{kept}", 1.0), (f"linear, neighbours{kept}", 1.0)]
    trees = f"trees, {sizes.n_trees}" if sizes.n_trees else "no trees"  # the mixture of the others
    names.append((trees if sizes.n_trees < whole.n_trees else "trees", 1.0))
    if sizes.waves:
        cut = f", {sizes.n_many}" if sizes.n_many < whole.n_many else ""
        names.append((f"many waves{cut}", 1.0))
    return tuple(Kernel(name, length) for name, length in names)


# --- What they cost -------------------------------------------------------------------------------

# Microseconds, as ``scripts/benchmarks/auto_costs.py`` measures them; see ``docs/auto.md``.
COSTS: Mapping[str, float] = {
    "row": 2.97,
    "column": 0.104,
    "pair of features": 0.000355,
    "wave": 0.000165,
    "neighbour": 0.00029,
    "tree of numbers": 0.395,
    "column of trees of numbers": 0.0189,
    "bin of trees of numbers": 0.00656,
    "tree of classes": 0.343,
    "column of trees of classes": 0.031,
    "bin of trees of classes": 0.0271,
    "many waves": 5.52e-05,
}


def _learners(sizes: Sizes, d: int) -> Iterator[tuple[int, int, list[int]]]:
    """Of every recursive expert: its waves, their inputs, and features of each of its matrices."""
    layout = layout_of(sizes.groups, d)
    for group in sizes.groups:
        n_columns, F = _of_group(group, layout)
        for _ in group.lengths:
            yield group.D, n_columns, F


@functools.lru_cache(maxsize=4096)
def _of_group(group: Group, layout: Layout) -> tuple[int, list[int]]:
    """How many columns it reads, and features of each of its matrices."""
    columns, n_raw = layout.read(group)
    F = [2 * group.D + (n + 1 if n else 0) for n in columns_of_parts(layout.d, n_raw, group.D)]
    return len(columns), F


def counts(sizes: Sizes, d: int) -> dict[str, float]:
    """How much of each kind of work a row is, by the names of ``COSTS``."""
    learners = list(_learners(sizes, d))
    matrices = [F for _, _, parts in learners for F in parts]
    n_many, trees = sizes.n_many, _n_ensembles(sizes) * sizes.n_trees
    F = 2 * n_many + n_beside(d) + 1 if n_many else 0
    C = min(d + TREE_LAGS, MOST_COLUMNS)
    n_bins = min(most_bins(d + TREE_LAGS), max(LEAST_BINS, sizes.n_rows // ROWS_OF_BIN))
    what, n_leaves = ("numbers", LEAVES) if sizes.n_kept else ("classes", N_LEAVES)
    return {
        "row": 1.0,
        "column": layout_of(sizes.groups, d).n_columns,
        "pair of features": sum(F * F for F in matrices),
        "wave": sum(D * (n + SINCOS) for D, n, _ in learners) + n_many * (d + SINCOS),
        "neighbour": sizes.n_kept * (d + SORTING),
        f"tree of {what}": trees,
        f"column of trees of {what}": trees * C,
        f"bin of trees of {what}": trees * C * n_bins * n_leaves / sizes.n_rows,
        "many waves": F * F / 2 + F**3 / 6 / MOST_BETWEEN,
    }


def _n_ensembles(sizes: Sizes) -> int:
    if sizes.n_kept:
        return 2  # of labels, and of the errors of the last mixture
    return sizes.K if sizes.K <= MOST_CLASSES else 0


def us_of(sizes: Sizes, d: int) -> float:
    """Microseconds a row, while trees pay, on the processor that ``COSTS`` were measured on."""
    return sum(COSTS[name] * count for name, count in counts(sizes, d).items())


def mb_of(sizes: Sizes, d: int) -> float:
    """Megabytes of the larger arrays of a learner, with those that a round writes to."""
    learners = list(_learners(sizes, d))
    M = sum(len(F) for _, _, F in learners)
    W = -(-max(max(F) for _, _, F in learners) // LANES) * LANES
    D = -(-max(D for D, _, _ in learners) // LANES) * LANES
    height = max(n if D else 1 for D, n, _ in learners)
    numbers: float = M * (W * W + W * (5 + sizes.K)) + len(learners) * height * D
    numbers += len(learners) * max(n for _, n, _ in learners) + 2 * d * N_NUMBERS
    numbers += sizes.n_kept * (d + 3)
    E = max(1, _n_ensembles(sizes))
    C = d + TREE_LAGS + (1 if sizes.n_kept else 0)
    rows = C + (E if sizes.n_kept else 2 * E + 1) + C / 4 + 3
    numbers += sizes.n_rows * rows + E * sizes.n_trees * (4 * N_CUTS + N_LEAVES)
    if sizes.n_trees:
        numbers += N_LEAVES * min(C, MOST_COLUMNS) * most_bins(C) * 2
    numbers += C * most_bins(C)
    if sizes.waves:
        F = -(-(2 * sizes.n_many + n_beside(d) + 2) // LANES) * LANES
        numbers += F * (2 * F + TILE_ROWS + 2) + sizes.n_many * d
    return 8e-6 * numbers


# --- What a budget allows -------------------------------------------------------------------------


def _half(D: int) -> int:
    """Half of D in whole packs."""
    return -(-D // (2 * LANES)) * LANES


def _smaller(sizes: Sizes) -> Iterator[Sizes]:
    """Sizes that differ from these in one thing, which is half as large or left out."""
    for i, group in enumerate(sizes.groups):
        others = sizes.groups[:i], sizes.groups[i + 1 :]
        if group.D // 2 >= FEWEST_WAVES:
            half = group._replace(D=group.D // 2)
            yield sizes._replace(groups=(*others[0], half, *others[1]))
        elif i > 0:
            yield sizes._replace(groups=(*others[0], *others[1]))
    if sizes.n_trees // 2 >= FEWEST_TREES:
        yield sizes._replace(n_trees=sizes.n_trees // 2)
    if sizes.n_rows // 2 >= LEAST_ROWS:
        yield sizes._replace(n_rows=sizes.n_rows // 2)
    if sizes.n_kept > FEWEST_KEPT:
        yield sizes._replace(n_kept=_half(sizes.n_kept))
    if sizes.waves and sizes.n_many > LANES * len(sizes.waves):
        yield sizes._replace(waves=tuple((draw, _half(D)) for draw, D in sizes.waves))


@functools.lru_cache(maxsize=256)
def within(whole: Sizes, d: int, us: float, mb: float) -> Sizes:
    """The sizes, made smaller until they cost at most so many microseconds a row and megabytes.

    nan: any. There are no trees only where even the smallest set with them costs more. ValueError
    where the smallest set without them does says how much.
    """
    budgets = (us_of, us, "budget_us", "µs a row"), (mb_of, mb, "budget_mb", "MB")
    asked = [budget for budget in budgets if not math.isnan(budget[1])]
    sizes = whole
    while over := next((b for b in asked if b[0](sizes, d) > b[1]), None):
        cost, most, key, unit = over
        smaller = [one for one in _smaller(sizes) if cost(one, d) < cost(sizes, d)]
        if smaller:
            sizes = min(smaller, key=lambda one: cost(one, d))
        elif sizes.n_trees:
            return within(whole._replace(n_trees=0, n_rows=1), d, us, mb)
        else:
            least = math.ceil(10.0 * cost(sizes, d)) / 10.0
            inputs = "1 input" if d == 1 else f"{d} inputs"
            raise ValueError(
                f"algorithm.{key}={most:g}: with {inputs} the smallest set of experts takes "
                f"{least:g} {unit}. Set at least that, or leave it out."
            )
    return sizes
