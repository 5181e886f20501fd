"""Boosted trees on the last rows, grown again at intervals that become longer.

If targets are step functions of one or several inputs, a sum of waves (random features) converges
slowly, whereas a tree cuts at the step. Trees are grown one after the other, each on the residuals
of the trees before (J. H. Friedman, "Greedy function approximation: a gradient boosting machine",
Annals of Statistics 29 (2001)). Cuts are found from histograms of the inputs, whose bins have
equally many rows. The leaf whose best cut gains most is cut next (G. Ke et al., "LightGBM", NIPS
2017), so trees are deep where targets need it.

Targets are numbers with squared error, or classes with log loss. For classes the sums of the trees
are logits, and the values of leaves are Newton steps (J. Friedman, T. Hastie, R. Tibshirani,
"Additive logistic regression", Annals of Statistics 28 (2000)).

An ensemble is one sequence of trees. E ensembles share a window of the last W rows with C columns.
Each ensemble uses only the first c of these columns, where c may differ between ensembles. A refit
grows all trees again, in steps: a step makes the bins of one column, in time of order W, or grows
one tree, of order W C. Each round takes one or a few steps, so that no row waits for a whole refit.
New trees replace the old ones after the last step. The round in which this happens depends only on
the number of rows. Refits are at least about a quarter of a window apart, so that the mean time per
row stays bounded.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from omkl.core.compiler import inlined
from omkl.core.hyperparameters import ROUNDS, Range
from omkl.core.weights import n_less

N_TREES = 100  # trees per ensemble
N_LEAVES = 64  # largest number of leaves of a tree, for classes
N_CUTS = N_LEAVES - 1  # cuts of a tree, numbered in the order of growth
N_BINS = 256  # largest number of bins of a column
LEAST_BINS = 64  # this limit of the number of bins while rows are few or columns are many
BINS_OF_TWO = 4  # most of a column of two values: its edges are at and between them
ROWS_OF_BIN = 32  # one bin per so many rows, if that gives more than LEAST_BINS
MOST_SUMS = 2**12  # bins of all columns, so that the sums of a leaf stay in the processor's cache
SHRINK = 0.1  # learning rate: factor of a leaf. ENOUGH / (number of trees) if that is larger
# For numbers: leaves of a tree, least number of rows on either side of a cut, and ENOUGH.
LEAVES, LEAST, ENOUGH = 32, 20.0, 5.0
# For classes: least sum of p (1 - p) on either side of a cut, and ENOUGH.
LEAST_OF_CLASSES, ENOUGH_OF_CLASSES = 1.0, 10.0
RIDGE = 1.0  # penalty of the value of a leaf: like so many more rows of target 0
SAMPLED = 2048  # rows of a column from which bins are made
MOST_COLUMNS = 32  # columns per tree, drawn for each tree
# Targets are clipped to FARTHEST times the distance of the TAIL and 1 - TAIL quantiles beyond
# these.
TAIL, FARTHEST = 0.02, 3.0
UNSEEN = 0.5  # count of each class before the first row
FIRST = 500  # rows before the first refit
MOST_PATIENCE = 8  # largest factor of the wait between refits while the mixture does not use trees
GROWTH = 1.4  # growth of the number of rows from one refit to the next; the wait is at most W / 4
ASLEEP = 3  # refits that leave out an ensemble while the mixture uses only the other one
MOST_ROWS = 2**15  # largest window
LEAST_ROWS = 2**10  # smallest window
MOST_NUMBERS = 2**21  # limit of the rows times columns of a window
ROWS_OF_ROUND = 2**16  # limit of the rows times steps of a refit in a round; at least one step
ROWS_OF_STEP = 500  # number of rows whose part of a step takes as long as the rest of the step
BETTER = 1.0 + 1e-12  # a cut must be better by this factor, so that rounding decides no tie
NEVER = 1e300  # threshold that sends every row to the left
FACTOR, MODULUS = 48271, 2**31 - 1  # generator of S. K. Park and K. W. Miller
G, H = 0, 1  # indices of the gradient of a row and of its weight, 1 for squared error


class Forest(NamedTuple):
    """Trees of E ensembles in C columns. A tree has at most N_CUTS cuts; cut 0 is the root.

    column     (E, n_trees, N_CUTS) int64, column that a cut compares
    threshold  (E, n_trees, N_CUTS) rows above it go to the right. Missing values go to the left
    child      (E, n_trees, N_CUTS, 2) int64, next cut to the left and to the right, or -1 - k for
               leaf k
    leaf       (E, n_trees, N_LEAVES) values of the leaves
    base       (E,) number added to the sum of the trees
    gains      (E, C) gain of all cuts in a column
    """

    column: Annotated[np.ndarray, Range(0, "gains.1", open_high=True)]
    threshold: np.ndarray
    child: Annotated[np.ndarray, Range(-N_LEAVES, N_CUTS - 1)]
    leaf: np.ndarray
    base: np.ndarray
    gains: np.ndarray


class Boosted(NamedTuple):
    """E ensembles of trees on a window of the last W rows of C columns.

    The arrays have room for P rows: W, and one for every step of a refit, so that later rows do not
    overwrite the window before the last step. Row number t has the index t mod P.

    rows       (C, P) columns of the rows
    labels     (E, P) targets of each ensemble. For classes (1, P): the class of each row, 0 ..
               E - 1. If E = 1, the classes are 0 and 1, and the ensemble has the log odds of 1
    n_columns  (E,) int64, number c of columns that each ensemble uses: the first c of the C columns
    n          (1,) int64, number of rows so far
    wait       (1,) int64, number of rows until the next refit begins
    patience   (1,) int64, factor of the usual number of rows between two refits, 1 while the
               mixture uses the trees
    fits       (1,) int64, number of complete refits
    begun      (1,) int64, number of rows when the present refit began; 0 between two refits
    n_steps    (1,) int64, number of steps of the present refit so far
    asleep     (E,) int64, number of coming refits that leave out the ensemble, because the mixture
               uses only other ensembles
    forest     trees of the last complete refit
    """

    rows: np.ndarray
    labels: np.ndarray
    n_columns: np.ndarray
    n: ROUNDS
    wait: Annotated[np.ndarray, Range(0, MOST_PATIENCE * MOST_ROWS // 4)]
    patience: Annotated[np.ndarray, Range(1, MOST_PATIENCE)]
    fits: ROUNDS
    begun: ROUNDS
    n_steps: ROUNDS
    asleep: Annotated[np.ndarray, Range(0, ASLEEP)]
    forest: Forest


class BoostedScratch(NamedTuple):
    """Scratch of a round, and of a refit. ``Boosted`` defines W, C and E. A column has <= B bins.

    A snapshot does not contain the scratch. A learner that is loaded during a refit repeats its
    steps from the rows of the window.

    begun, n_steps  (1,) int64, as in ``Boosted``, for the refit to which this scratch belongs
    draw            (1,) int64, most recent random number
    forest          trees that are being grown
    x               (C,) present row
    edges           (C, B - 1) edges between the bins of each column
    n_bins          (C,) int64, number of bins of each column
    bins, bins_of   (W, C) and (C, W) uint8, bin of each number, by row and by column
    sample          (SAMPLED,) numbers of one column, sorted
    near            (SAMPLED + 1,) entry k is the number of present cuts near sample[k], minus the
                    number near sample[k - 1]
    places          (B + 1,) int64, index in ``sample`` at which each bin begins
    rest            (W, 2) gradient G and weight H of the rows; for squared error the residual and 1
    scores, p       (E, W) for classes: logits and probabilities
    order           (W,) int32, rows on which a tree is grown; the rows of a leaf lie side by side
    spare           (W,) int32, rows that move to the right
    begins, size    (N_LEAVES,) int64, first index in ``order`` and number of rows of a leaf
    slot            (N_LEAVES,) int64, index in ``sums`` of a leaf
    sums            (N_LEAVES, at most MOST_COLUMNS, B, 2) sums of G and H by bin
    whole, left     (N_LEAVES, 2) sums of G and H in a leaf, and left of its best cut
    worth           (N_LEAVES,) reduction of the loss by the two sides of the best cut
    gain            (N_LEAVES,) ``worth`` minus the reduction by the leaf itself; 0 without a cut
    best            (N_LEAVES, 2) int64, column (index in ``chosen``) and last left bin of the best
                    cut
    parent          (N_LEAVES, 2) int64, cut and side that lead to a leaf
    chosen          (C,) int64, permutation of the columns; those drawn for a tree come first
    """

    begun: np.ndarray
    n_steps: np.ndarray
    draw: np.ndarray
    forest: Forest
    x: np.ndarray
    bins: np.ndarray
    bins_of: np.ndarray
    edges: np.ndarray
    n_bins: np.ndarray
    sample: np.ndarray
    near: np.ndarray
    places: np.ndarray
    rest: np.ndarray
    scores: np.ndarray
    p: np.ndarray
    order: np.ndarray
    spare: np.ndarray
    begins: np.ndarray
    size: np.ndarray
    slot: np.ndarray
    sums: np.ndarray
    whole: np.ndarray
    left: np.ndarray
    worth: np.ndarray
    gain: np.ndarray
    best: np.ndarray
    parent: np.ndarray
    chosen: np.ndarray


def window_rows(C: int) -> int:
    """Return the number of rows in a window of C columns, a power of two."""
    fitting = 2 ** int(math.log2(MOST_NUMBERS / C))
    return max(LEAST_ROWS, min(MOST_ROWS, fitting))


def most_bins(C: int) -> int:
    """Return the largest number of bins of a column if there are C columns."""
    return min(N_BINS, max(LEAST_BINS, MOST_SUMS // C))


def fresh_boosted(
    n_columns: list[int], n_trees: int = N_TREES, n_rows: int = 0, of_classes: bool = False
) -> Boosted:
    """Make ensembles that have learned no row.

    They share one window of past rows, with max(n_columns) columns.

    Parameters
    ----------
    n_columns
        Number of columns that each ensemble uses, from the first one on.
    n_trees
        Trees per ensemble; 0: trees are never grown.
    n_rows
        Rows of the window; 0 for ``window_rows``.
    of_classes
        Whether targets are classes.
    """
    E, C = len(n_columns), max(n_columns)
    n_places = (n_rows or window_rows(C)) + C + E * n_trees
    rows = np.zeros((C, n_places))  # takes no memory before it is written
    rows[0, 0] = np.nan  # so that snapshots may contain missing inputs
    return Boosted(
        rows=rows,
        labels=np.zeros((1 if of_classes else E, n_places)),
        n_columns=np.array(n_columns),
        n=np.zeros(1, dtype=np.int64),
        wait=np.full(1, FIRST),
        patience=np.ones(1, dtype=np.int64),
        fits=np.zeros(1, dtype=np.int64),
        begun=np.zeros(1, dtype=np.int64),
        n_steps=np.zeros(1, dtype=np.int64),
        asleep=np.zeros(E, dtype=np.int64),
        forest=_no_trees(E, n_trees, C),
    )


def _no_trees(E: int, n_trees: int, C: int) -> Forest:
    """Allocate the trees of E ensembles in C columns."""
    return Forest(
        column=np.zeros((E, n_trees, N_CUTS), dtype=np.int64),
        threshold=np.zeros((E, n_trees, N_CUTS)),
        child=np.zeros((E, n_trees, N_CUTS, 2), dtype=np.int64),
        leaf=np.zeros((E, n_trees, N_LEAVES)),
        base=np.zeros(E),
        gains=np.zeros((E, C)),
    )


def gain_shares(model: Boosted, n_ensembles: int) -> np.ndarray:
    """Return the share (C,) of each column in the total gain of the first ``n_ensembles``.

    The shares are NaN before the first refit.
    """
    gains = model.forest.gains[:n_ensembles].sum(axis=0)
    return np.divide(gains, gains.sum(), out=np.full(len(gains), np.nan), where=gains.sum() > 0.0)


def boosted_scratch(model: Boosted, of_classes: bool = False) -> BoostedScratch:
    """Allocate the scratch of a model."""
    C, (E, n_trees) = len(model.rows), model.forest.leaf.shape[:2]
    W = model.rows.shape[1] - C - E * n_trees
    of_scores = (E, W if of_classes else 0)
    most_leaves = N_LEAVES if n_trees else 0
    return BoostedScratch(
        begun=np.zeros(1, dtype=np.int64),
        n_steps=np.zeros(1, dtype=np.int64),
        draw=np.zeros(1, dtype=np.int64),
        forest=_no_trees(E, n_trees, C),
        x=np.zeros(C),
        bins=np.zeros((W, C), dtype=np.uint8),
        bins_of=np.zeros((C, W), dtype=np.uint8),
        edges=np.zeros((C, most_bins(C) - 1)),
        n_bins=np.ones(C, dtype=np.int64),
        sample=np.zeros(SAMPLED),
        near=np.zeros(SAMPLED + 1),
        places=np.zeros(most_bins(C) + 1, dtype=np.int64),
        rest=np.zeros((W, 2)),
        scores=np.zeros(of_scores),
        p=np.zeros(of_scores),
        order=np.zeros(W, dtype=np.int32),
        spare=np.zeros(W, dtype=np.int32),
        begins=np.zeros(N_LEAVES, dtype=np.int64),
        size=np.zeros(N_LEAVES, dtype=np.int64),
        slot=np.zeros(N_LEAVES, dtype=np.int64),
        sums=np.zeros((most_leaves, min(C, MOST_COLUMNS), most_bins(C), 2)),
        whole=np.zeros((N_LEAVES, 2)),
        left=np.zeros((N_LEAVES, 2)),
        worth=np.zeros(N_LEAVES),
        gain=np.zeros(N_LEAVES),
        best=np.zeros((N_LEAVES, 2), dtype=np.int64),
        parent=np.zeros((N_LEAVES, 2), dtype=np.int64),
        chosen=np.zeros(C, dtype=np.int64),
    )


# --- Predictions ----------------------------------------------------------------------------------


@inlined
def evaluate_boosted(model, scratch, e):
    """Return the prediction of ensemble e for scratch.x; 0 before the first trees.

    Parameters
    ----------
    model, scratch
        Ensembles, and their scratch with the row x.
    e
        Ensemble.
    """
    if model.fits[0] == 0:
        return 0.0
    forest = model.forest
    said = forest.base[e]
    for m in range(forest.leaf.shape[1]):
        k = 0
        for _ in range(N_CUTS):
            right = scratch.x[forest.column[e, m, k]] > forest.threshold[e, m, k]
            k = forest.child[e, m, k, 1 if right else 0]
            if k < 0:
                break
        said += forest.leaf[e, m, max(0, -1 - k)]
    return said


# --- Bins -----------------------------------------------------------------------------------------


@inlined
def _sink(sample, k, n):
    """Restore a heap of n numbers, largest on top, in which number k may be too small."""
    x = sample[k]
    while 2 * k + 1 < n:
        child = 2 * k + 1
        if child + 1 < n and sample[child + 1] > sample[child]:
            child += 1
        if not sample[child] > x:
            break
        sample[k] = sample[child]
        k = child
    sample[k] = x


@inlined
def _sort(sample, n):
    """Sort the first n numbers in place.

    This is heapsort, because compiled code cannot allocate memory as other sorts do.
    """
    for k in range(n // 2 - 1, -1, -1):
        _sink(sample, k, n)
    for end in range(n - 1, 0, -1):
        x = sample[end]
        sample[end] = sample[0]
        sample[0] = x
        _sink(sample, 0, end)


@inlined
def _edge(sample, first, behind, m):
    """Return the index k at which a bin begins: its edge is between sample[k - 1] and sample[k].

    ``sample`` has m sorted numbers. Bins of equal weight would give this bin the indices first ..
    behind - 1, and usually k is ``first``. But if one gap between neighbouring numbers of the bin
    is wider than all its other gaps together, the bin begins behind this gap.
    """
    first = min(m - 1, max(1, first))
    last = min(m, max(behind, first + 1)) - 1
    half = 0.5 * (sample[last] - sample[first - 1])
    for k in range(first, last + 1):
        if sample[k] - sample[k - 1] > half:
            return k
    return first


@inlined
def _most_steps(model):
    """Return the number of steps of a refit: one per column to make bins, and one per tree."""
    return model.rows.shape[0] + model.forest.leaf.shape[0] * model.forest.leaf.shape[1]


@inlined
def _n_window(model):
    """Return the number of rows W of a window."""
    return model.rows.shape[1] - _most_steps(model)


@inlined
def _place(model, n, j):
    """Return the index in ``rows`` of row j = 0 .. n - 1 of the window of the present refit."""
    return (model.begun[0] - n + j) % model.rows.shape[1]


@inlined
def _write_places(model, scratch, c, m, most):
    """Divide m sorted numbers of column c into ``most`` bins, and write the first index of each.

    Bins have equal weight: half of the weight is spread evenly over the numbers, and half over the
    numbers near cuts of the present trees, so that the next trees can locate a step more precisely.
    """
    forest, near, places = model.forest, scratch.near, scratch.places
    radius = m // most
    for k in range(m + 1):
        near[k] = 0.0
    total = 0.0
    for e in range(forest.leaf.shape[0] if model.fits[0] > 0 and m > 1 else 0):
        for i in range(forest.leaf.shape[1]):
            for k in range(N_CUTS):
                if forest.column[e, i, k] == c and forest.threshold[e, i, k] < NEVER:
                    at = n_less(scratch.sample, m, forest.threshold[e, i, k])
                    low, high = max(0, at - radius), min(m, at + radius)
                    near[low] += 1.0
                    near[high] -= 1.0
                    total += high - low
    for b in range(most + 1):
        places[b] = b * m // most
    if total > 0.0:
        b, inside, weight = 1, 0.0, 0.0
        for k in range(m):
            inside += near[k]
            weight += 0.5 / m + 0.5 * inside / total
            while b < most and weight * most >= b:
                places[b] = k + 1
                b += 1
        while b < most:
            places[b] = m
            b += 1


@inlined
def _make_bins(model, scratch, c, n):
    """Divide column c into bins, and write the bin of each of the n rows.

    In a column with few distinct values, standardisation by changing estimates spreads each value
    over many close numbers. ``_edge`` therefore moves the edge of a bin into a wide gap, so that
    close numbers stay in one bin.
    """
    most = min(scratch.edges.shape[1] + 1, max(LEAST_BINS, n // ROWS_OF_BIN))
    n_sampled = min(n, SAMPLED)  # from the whole window, because the stream may have changed
    m = 0
    for k in range(n_sampled):
        x = model.rows[c, _place(model, n, k * n // n_sampled)]
        if not math.isnan(x):
            scratch.sample[m] = x
            m += 1
    _sort(scratch.sample, m)
    edges, n_edges = scratch.edges[c], 0
    _write_places(model, scratch, c, m, most)
    for b in range(1, most if m > 1 else 0):
        k = _edge(scratch.sample, scratch.places[b], scratch.places[b + 1], m)
        edge = 0.5 * (scratch.sample[k - 1] + scratch.sample[k])
        if n_edges == 0 or edge > edges[n_edges - 1]:
            edges[n_edges] = edge
            n_edges += 1
    scratch.n_bins[c] = n_edges + 1
    for j in range(n):
        b = n_less(edges, n_edges, model.rows[c, _place(model, n, j)])  # 0 for a missing value
        scratch.bins[j, c] = b
        scratch.bins_of[c, j] = b


# --- A tree ---------------------------------------------------------------------------------------


@inlined
def _add_up(scratch, leaf, n_chosen):
    """Write the sums of G and H by bin over the rows of a leaf."""
    sums = scratch.sums[scratch.slot[leaf]]
    for k in range(n_chosen):
        for b in range(scratch.n_bins[scratch.chosen[k]]):
            sums[k, b, G] = 0.0
            sums[k, b, H] = 0.0
    for m in range(scratch.begins[leaf], scratch.begins[leaf] + scratch.size[leaf]):
        j = scratch.order[m]
        g, h = scratch.rest[j, G], scratch.rest[j, H]
        for k in range(n_chosen):
            b = scratch.bins[j, scratch.chosen[k]]
            sums[k, b, G] += g
            sums[k, b, H] += h


@inlined
def _begin_cut(scratch, leaf):
    """Reset the best cut of a leaf to "no cut".

    Its gain is 0, and its ``worth`` is the reduction of the loss by the undivided leaf.
    """
    total = scratch.whole[leaf, G]
    scratch.worth[leaf] = BETTER * (total * total / (scratch.whole[leaf, H] + RIDGE))
    scratch.gain[leaf] = 0.0


@inlined
def _find_cut(scratch, leaf, k, least):
    """Find the best cut of a leaf in the k-th chosen column. Store it if it is the best so far.

    On both sides of a cut, the sum of the weights H must be at least ``least``.
    """
    sums, left = scratch.sums[scratch.slot[leaf], k], scratch.left[leaf]
    total, weight = scratch.whole[leaf, G], scratch.whole[leaf, H]
    best = scratch.worth[leaf]
    if weight < 2.0 * least:
        return
    g, h = 0.0, 0.0
    for b in range(scratch.n_bins[scratch.chosen[k]] - 1):
        g += sums[b, G]
        h += sums[b, H]
        if h < least:
            continue
        if weight - h < least:
            break
        rest, left_of, right_of = total - g, h + RIDGE, weight - h + RIDGE
        # Both sides are multiplied by left_of right_of, because a division is slow.
        worth = g * g * right_of + rest * rest * left_of
        if worth > best * (left_of * right_of):
            best = BETTER * worth / (left_of * right_of)
            scratch.gain[leaf] += best - scratch.worth[leaf]
            scratch.worth[leaf] = best
            scratch.best[leaf, 0] = k
            scratch.best[leaf, 1] = b
            left[G] = g
            left[H] = h


@inlined
def _part(scratch, leaf, other, c, last):
    """Divide the rows of a leaf at a cut: column c, last left bin ``last``.

    Left rows stay in ``leaf``, and right rows move to ``other``.
    """
    first, n = scratch.begins[leaf], scratch.size[leaf]
    n_left, n_right = 0, 0
    for m in range(first, first + n):
        j = scratch.order[m]
        is_left = 1 if scratch.bins_of[c, j] <= last else 0
        # The row is written to both sides. A branch would be mispredicted in many rows.
        scratch.order[first + n_left] = j
        scratch.spare[n_right] = j
        n_left += is_left
        n_right += 1 - is_left
    for m in range(n_right):
        scratch.order[first + n_left + m] = scratch.spare[m]
    scratch.size[leaf] = n_left
    scratch.begins[other] = first + n_left
    scratch.size[other] = n_right


@inlined
def _find_both_cuts(scratch, leaf, other, n_chosen, least):
    """Find the best cuts of both parts of a divided leaf.

    Only the smaller part adds up its rows. The sums of the larger part are the sums of the whole
    leaf minus the sums of the smaller part. ``least`` is that of ``_find_cut``.
    """
    small, large = (leaf, other) if scratch.size[leaf] <= scratch.size[other] else (other, leaf)
    whole = scratch.slot[leaf]
    scratch.slot[small] = other
    scratch.slot[large] = whole
    _add_up(scratch, small, n_chosen)
    _begin_cut(scratch, leaf)
    _begin_cut(scratch, other)
    for k in range(n_chosen):
        for b in range(scratch.n_bins[scratch.chosen[k]]):
            scratch.sums[whole, k, b, G] -= scratch.sums[other, k, b, G]
            scratch.sums[whole, k, b, H] -= scratch.sums[other, k, b, H]
        _find_cut(scratch, leaf, k, least)
        _find_cut(scratch, other, k, least)


@inlined
def _best_leaf(scratch, n_leaves):
    """Return the first leaf whose best cut has the largest gain; -1 if no cut has a gain."""
    best, most = -1, 0.0
    for leaf in range(n_leaves):
        if scratch.gain[leaf] > most:
            best, most = leaf, scratch.gain[leaf]
    return best


@inlined
def _grow(scratch, of_classes, e, m, n_rows, n_chosen):
    """Grow tree m of ensemble e on the first n_rows of ``order``, and return its number of leaves.

    When a leaf is cut, its left part keeps its number and the right part gets the next number.
    """
    least = LEAST_OF_CLASSES if of_classes else LEAST
    enough = ENOUGH_OF_CLASSES if of_classes else ENOUGH
    forest = scratch.forest
    shrink = max(SHRINK, enough / forest.leaf.shape[1])
    most = N_LEAVES if of_classes else LEAVES
    whole = scratch.whole
    for what in range(2):
        whole[0, what] = 0.0
    for k in range(n_rows):
        for what in range(2):
            whole[0, what] += scratch.rest[scratch.order[k], what]
    scratch.begins[0] = 0
    scratch.size[0] = n_rows
    scratch.slot[0] = 0
    _add_up(scratch, 0, n_chosen)
    _begin_cut(scratch, 0)
    for k in range(n_chosen):
        _find_cut(scratch, 0, k, least)
    forest.column[e, m, 0] = 0
    forest.threshold[e, m, 0] = NEVER  # without a cut, all rows go to leaf 0
    forest.child[e, m, 0, 0] = -1
    forest.child[e, m, 0, 1] = -1
    n_leaves = 1
    while n_leaves < most:
        leaf = _best_leaf(scratch, n_leaves)
        if leaf < 0:
            break
        other, cut = n_leaves, n_leaves - 1
        c, last = scratch.chosen[scratch.best[leaf, 0]], scratch.best[leaf, 1]
        if cut > 0:
            forest.child[e, m, scratch.parent[leaf, 0], scratch.parent[leaf, 1]] = cut
        forest.gains[e, c] += scratch.gain[leaf]
        forest.column[e, m, cut] = c
        forest.threshold[e, m, cut] = scratch.edges[c, last]
        forest.child[e, m, cut, 0] = -1 - leaf
        forest.child[e, m, cut, 1] = -1 - other
        for what in range(2):
            whole[other, what] = whole[leaf, what] - scratch.left[leaf, what]
            whole[leaf, what] = scratch.left[leaf, what]
        for side in range(2):
            scratch.parent[other if side else leaf, 0] = cut
            scratch.parent[other if side else leaf, 1] = side
        _part(scratch, leaf, other, c, last)
        n_leaves += 1
        if n_leaves < most:
            _find_both_cuts(scratch, leaf, other, n_chosen, least)
    for k in range(max(1, n_leaves - 1), N_CUTS):  # clear cuts of an earlier, larger tree
        forest.column[e, m, k] = 0
        forest.threshold[e, m, k] = NEVER
        forest.child[e, m, k, 0] = -1
        forest.child[e, m, k, 1] = -1
    for leaf in range(N_LEAVES):
        value = shrink * whole[leaf, G] / (whole[leaf, H] + RIDGE)
        forest.leaf[e, m, leaf] = value if leaf < n_leaves else 0.0
    return n_leaves


@inlined
def _next_draw(scratch):
    """Return the next random number, in 1 .. MODULUS - 1."""
    scratch.draw[0] = scratch.draw[0] * FACTOR % MODULUS
    return scratch.draw[0]


@inlined
def _choose(scratch, C):
    """Draw at most MOST_COLUMNS of the first C columns to the front of ``chosen``.

    Return the number of drawn columns.
    """
    n_chosen = min(C, MOST_COLUMNS)
    if n_chosen < C:
        for k in range(n_chosen):
            other = k + _next_draw(scratch) % (C - k)
            c = scratch.chosen[k]
            scratch.chosen[k] = scratch.chosen[other]
            scratch.chosen[other] = c
    return n_chosen


# --- A fit ----------------------------------------------------------------------------------------


@inlined
def _ends(scratch, n):
    """Return the limits to which the first n targets in ``rest`` are clipped.

    The limits lie beyond the TAIL and 1 - TAIL quantiles, by FARTHEST times the distance between
    these quantiles.
    """
    m = min(n, SAMPLED)
    for k in range(m):
        scratch.sample[k] = scratch.rest[k * n // m, G]
    _sort(scratch.sample, m)
    low, high = scratch.sample[int(TAIL * m)], scratch.sample[m - 1 - int(TAIL * m)]
    if not high > low:
        return -NEVER, NEVER
    return low - FARTHEST * (high - low), high + FARTHEST * (high - low)


@inlined
def _begin(model, scratch, e, n):
    """Begin the trees of ensemble e: write the mean of the clipped targets into its base.

    Also write the residuals (clipped targets minus this mean), with weight 1, into ``rest``.
    """
    for j in range(n):
        scratch.rest[j, G] = model.labels[e, _place(model, n, j)]
        scratch.rest[j, H] = 1.0
    low, high = _ends(scratch, n)
    mean = 0.0
    for j in range(n):
        scratch.rest[j, G] = min(high, max(low, scratch.rest[j, G]))
        mean += scratch.rest[j, G] / n
    for j in range(n):
        scratch.rest[j, G] -= mean
    scratch.forest.base[e] = mean


@inlined
def _begin_classes(model, scratch, n):
    """Begin the trees of all classes: write the log share of each class into base and scores.

    A single ensemble, for two classes, gets the log odds of class 1 against class 0.
    """
    E = scratch.forest.base.shape[0]
    for k in range(E):
        code = 1.0 if E == 1 else float(k)
        rows = 0.0
        for j in range(n):
            rows += 1.0 if model.labels[0, _place(model, n, j)] == code else 0.0
        others = n - rows + UNSEEN if E == 1 else n + UNSEEN * E
        scratch.forest.base[k] = math.log((rows + UNSEEN) / others)
        for j in range(n):
            scratch.scores[k, j] = scratch.forest.base[k]


@inlined
def _write_chances(scratch, n):
    """Write the probabilities of the classes, from their scores, into p."""
    E = scratch.forest.base.shape[0]
    for j in range(n):
        top, whole = 0.0, 0.0
        for k in range(E):
            top = max(top, scratch.scores[k, j])
        if E == 1:
            whole = math.exp(-top)
        for k in range(E):
            scratch.p[k, j] = math.exp(scratch.scores[k, j] - top)
            whole += scratch.p[k, j]
        for k in range(E):
            scratch.p[k, j] /= whole


@inlined
def _end_fit(model, scratch, is_used):
    """Replace the trees by the grown ones, and set the number of rows until the next refit.

    This number is multiplied by the ``patience`` of the model. While the mixture does not use the
    trees, the patience doubles with every refit, up to MOST_PATIENCE.
    """
    forest, grown = model.forest, scratch.forest
    for e in range(forest.base.shape[0]):  # copies of whole arrays would allocate
        if model.asleep[e] > 0:
            continue
        forest.base[e] = grown.base[e]
        for c in range(forest.gains.shape[1]):
            forest.gains[e, c] = grown.gains[e, c]
        for m in range(forest.leaf.shape[1]):
            for k in range(N_LEAVES):
                forest.leaf[e, m, k] = grown.leaf[e, m, k]
            for k in range(N_CUTS):
                forest.column[e, m, k] = grown.column[e, m, k]
                forest.threshold[e, m, k] = grown.threshold[e, m, k]
                for side in range(2):
                    forest.child[e, m, k, side] = grown.child[e, m, k, side]
    model.patience[0] = 1 if is_used else min(MOST_PATIENCE, 2 * model.patience[0])
    until = min(int((GROWTH - 1.0) * model.begun[0]), _n_window(model) // 4)
    model.wait[0] = max(1, model.patience[0] * until - (model.n[0] - model.begun[0]))
    model.fits[0] += 1
    model.begun[0] = 0


@inlined
def write_columns(scratch, row, lags):
    """Write the columns x of a row: inputs, and past targets for the remaining columns.

    Parameters
    ----------
    scratch
        Scratch with x.
    row
        Inputs (d,).
    lags
        Past targets, the newest first.
    """
    d = row.shape[0]
    for k in range(d):
        scratch.x[k] = row[k]
    for k in range(min(lags.shape[0], scratch.x.shape[0] - d)):
        scratch.x[d + k] = lags[k]


@inlined
def _n_due(model, scratch):
    """Store the row scratch.x, whose targets are already stored. Begin a refit if one is due.

    Return the number of steps that the refit must have done at the end of this round, or 0 if no
    refit is in progress. The scratch is reset when a refit begins. It is also reset if the learner
    was loaded during the refit. Then the caller repeats the steps so far.
    """
    if model.forest.leaf.shape[1] == 0:
        return 0
    j = model.n[0] % model.rows.shape[1]
    for c in range(scratch.x.shape[0]):
        model.rows[c, j] = scratch.x[c]
    model.n[0] += 1
    model.wait[0] -= 1
    if model.begun[0] == 0:
        if model.wait[0] > 0:
            return 0
        model.begun[0] = model.n[0]
        model.n_steps[0] = 0
    if scratch.begun[0] != model.begun[0] or scratch.n_steps[0] != model.n_steps[0]:
        scratch.begun[0] = model.begun[0]
        scratch.n_steps[0] = 0
        scratch.draw[0] = (model.fits[0] + 1) * FACTOR % MODULUS
        scratch.forest.gains[:] = 0.0
    more = max(1, ROWS_OF_ROUND // (_n_rows(model) + ROWS_OF_STEP))
    model.n_steps[0] = min(_most_steps(model), model.n_steps[0] + more)
    return model.n_steps[0]


@inlined
def _n_rows(model):
    """Return the number of rows in the window of the present refit."""
    return min(model.begun[0], _n_window(model))


# Two functions instead of one with a flag, so that a learner compiles only the one that it calls.


@inlined
def learn_boosted(model, scratch, used):
    """Store the row scratch.x, whose targets are already stored. Grow trees if a refit is due.

    Parameters
    ----------
    model, scratch
        Ensembles, and their scratch with the row x.
    used
        Sum of 2**e over the ensembles e whose present trees the mixture uses.
    """
    n_due, n = _n_due(model, scratch), _n_rows(model)
    while scratch.n_steps[0] < n_due:
        step = scratch.n_steps[0] - model.rows.shape[0]
        if step < 0:
            _make_bins(model, scratch, scratch.n_steps[0], n)
        else:
            n_trees = model.forest.leaf.shape[1]
            if model.asleep[step // n_trees] == 0:
                _learn_tree(model, scratch, step // n_trees, step % n_trees, n)
        scratch.n_steps[0] += 1
    if n_due == _most_steps(model):
        _end_fit(model, scratch, used > 0)
        for e in range(model.asleep.shape[0]):
            if used >> e & 1 or used == 0:
                model.asleep[e] = 0
            else:
                model.asleep[e] = model.asleep[e] - 1 if model.asleep[e] > 0 else ASLEEP


@inlined
def _learn_tree(model, scratch, e, m, n):
    """Grow tree m of ensemble e on the n rows, and subtract its prediction from the residuals."""
    C = model.n_columns[e]
    if m == 0:
        _begin(model, scratch, e, n)
        # Columns of two values come first, because the first of two equal cuts is taken. In a leaf
        # of few rows a word and the number that decides it have equal cuts. Only the cut of the
        # word is also right for all further rows.
        k = 0
        for are_two in (True, False):
            for c in range(C):
                if (scratch.n_bins[c] <= BINS_OF_TWO) == are_two:
                    scratch.chosen[k] = c
                    k += 1
    n_chosen = _choose(scratch, C)
    for j in range(n):
        scratch.order[j] = j
    for leaf in range(_grow(scratch, False, e, m, n, n_chosen)):
        first = scratch.begins[leaf]
        for at in range(first, first + scratch.size[leaf]):
            scratch.rest[scratch.order[at], G] -= scratch.forest.leaf[e, m, leaf]


@inlined
def learn_boosted_classes(model, scratch, is_used):
    """Do the same as ``learn_boosted`` for targets that are classes.

    Parameters
    ----------
    model, scratch
        As in ``learn_boosted``.
    is_used
        Whether the mixture uses the present trees.
    """
    n_due, n = _n_due(model, scratch), _n_rows(model)
    while scratch.n_steps[0] < n_due:
        step = scratch.n_steps[0] - model.rows.shape[0]
        if step < 0:
            _make_bins(model, scratch, scratch.n_steps[0], n)
        else:  # one tree of each class, then the next of each
            E = model.forest.base.shape[0]
            _learn_tree_of_class(model, scratch, step % E, step // E, n)
        scratch.n_steps[0] += 1
    if n_due == _most_steps(model):
        _end_fit(model, scratch, is_used)


@inlined
def _learn_tree_of_class(model, scratch, k, m, n):
    """Grow tree m of class k on the n rows, and add its prediction to the logits of the class."""
    if k == 0 and m == 0:
        _begin_classes(model, scratch, n)
        for c in range(model.rows.shape[0]):
            scratch.chosen[c] = c
    if k == 0:
        _write_chances(scratch, n)
    code = 1.0 if model.forest.base.shape[0] == 1 else float(k)
    n_chosen = _choose(scratch, model.rows.shape[0])
    for j in range(n):
        p, label = scratch.p[k, j], model.labels[0, _place(model, n, j)]
        scratch.rest[j, G] = (1.0 if label == code else 0.0) - p
        scratch.rest[j, H] = p * (1.0 - p)
        scratch.order[j] = j
    n_leaves = _grow(scratch, True, k, m, n, n_chosen)
    for leaf in range(n_leaves):
        first = scratch.begins[leaf]
        for at in range(first, first + scratch.size[leaf]):
            scratch.scores[k, scratch.order[at]] += scratch.forest.leaf[k, m, leaf]
