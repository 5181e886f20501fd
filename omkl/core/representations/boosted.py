"""Boosted regression trees on the last rows, grown anew in rounds that lie farther apart each time.

Where labels are steps of single inputs, or of inputs together, waves never end: a tree cuts where
labels are cut. Trees are grown one after the other, each on what those before left unexplained
(J. H. Friedman, "Greedy function approximation: a gradient boosting machine", Annals of Statistics
29 (2001)), by histograms of inputs that are cut into bins of equally many rows.

A window holds the last W rows. There are E ensembles over its first columns: each has columns of
its own number and labels of its own. A refit takes time of the order of W C for each tree, in the
round in which it comes; at most every quarter of a window one comes, so that a row takes the same
time on average however many there were.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from omkl.core.compiler import inlined
from omkl.core.hyperparameters import ROUNDS, Range

N_TREES = 100
DEPTH = 6
N_CUTS = 2**DEPTH - 1  # of a tree, numbered as in a heap: those after cut k are 2 k + 1 and 2 k + 2
N_BINS = 64
SHRINK = 0.1  # of what a leaf says, at least; of few trees ENOUGH over their number
ENOUGH = 5.0
LEAST = 20  # rows on either side of a cut
RIDGE = 1.0  # rows of label 0 that are added to a leaf
SAMPLED = 2048  # rows of a column from which bins are made
MOST_COLUMNS = 32  # that a tree looks at, drawn anew for each
TAIL, FARTHEST = 0.02, 3.0  # labels far beyond these quantiles count as some that are nearer
FIRST = 500  # rows before the first fit
MOST_PATIENCE = 8
GROWTH = 1.4  # of the rows from one fit to the next, until a quarter of a window comes first
MOST_ROWS = 2**15
LEAST_ROWS = 2**10
MOST_NUMBERS = 2**21  # of a window
NEVER = 1e300  # a cut there sends every row to the left
FACTOR, MODULUS = 48271, 2**31 - 1  # of S. K. Park and K. W. Miller's generator


class Boosted(NamedTuple):
    """E ensembles on a window of W rows of C columns; row number t is in place t mod W.

    rows       (C, W); labels (E, W), what is to be explained by each
    n_columns  (E,) int64: an ensemble reads the first ones
    n          (1,) int64 rows so far
    wait       (1,) int64: after so many more rows trees are grown anew
    patience   (1,) int64: how many times the usual rows lie between two fits, 1 where trees pay
    fits       (1,) int64
    column     (E, n_trees, N_CUTS) int64, threshold (E, n_trees, N_CUTS): a row with more goes to
               the right, and so does none where it is NEVER; a missing number goes to the left
    leaf       (E, n_trees, 2^DEPTH); base (E,) what is added to their sum
    """

    rows: np.ndarray
    labels: np.ndarray
    n_columns: np.ndarray
    n: ROUNDS
    wait: Annotated[np.ndarray, Range(0, MOST_PATIENCE * MOST_ROWS // 4)]
    patience: Annotated[np.ndarray, Range(1, MOST_PATIENCE)]
    fits: ROUNDS
    column: Annotated[np.ndarray, Range(0, "rows.0", open_high=True)]
    threshold: np.ndarray
    leaf: np.ndarray
    base: np.ndarray


class BoostedScratch(NamedTuple):
    """What a round writes to.

    x       (C,) the row
    bins    (W, C) uint8, edges (C, N_BINS - 1): a number is in the bin of so many lower edges
    sample  (SAMPLED,) numbers of a column, sorted
    rest    (W,) what is not explained yet
    order, spare  (W,) int32: places of the rows that a tree is grown on, those of a node together
    begins, size  (2 N_CUTS + 1,) int64: where those of a node are, and how many
    sums    (DEPTH + 1, 2, MOST_COLUMNS, N_BINS, 2) sum of rest and number of rows by bin
    whole   (2 N_CUTS + 1, 2) the same of a node
    cut     (N_CUTS,) int64: the last bin that goes to the left; N_BINS where there is none
    chosen  (C,) int64: columns that a tree looks at, the first ones; waiting (DEPTH + 2,) nodes
    """

    x: np.ndarray
    bins: np.ndarray
    edges: np.ndarray
    sample: np.ndarray
    rest: np.ndarray
    order: np.ndarray
    spare: np.ndarray
    begins: np.ndarray
    size: np.ndarray
    sums: np.ndarray
    whole: np.ndarray
    cut: np.ndarray
    chosen: np.ndarray
    waiting: np.ndarray


def window_rows(C: int) -> int:
    """How many rows of C columns are kept: a power of two."""
    fitting = 2 ** int(math.log2(MOST_NUMBERS / C))
    return max(LEAST_ROWS, min(MOST_ROWS, fitting))


def fresh_boosted(n_columns: list[int], n_trees: int = N_TREES) -> Boosted:
    """Ensembles of so many trees that know nothing; the window is as wide as the widest of them."""
    E, C = len(n_columns), max(n_columns)
    W = window_rows(C)
    return Boosted(
        rows=np.zeros((C, W)),
        labels=np.zeros((E, W)),
        n_columns=np.array(n_columns),
        n=np.zeros(1, dtype=np.int64),
        wait=np.full(1, FIRST),
        patience=np.ones(1, dtype=np.int64),
        fits=np.zeros(1, dtype=np.int64),
        column=np.zeros((E, n_trees, N_CUTS), dtype=np.int64),
        threshold=np.zeros((E, n_trees, N_CUTS)),
        leaf=np.zeros((E, n_trees, N_CUTS + 1)),
        base=np.zeros(E),
    )


def boosted_scratch(model: Boosted) -> BoostedScratch:
    C, W = model.rows.shape
    n_nodes = 2 * N_CUTS + 1
    return BoostedScratch(
        x=np.zeros(C),
        bins=np.zeros((W, C), dtype=np.uint8),
        edges=np.zeros((C, N_BINS - 1)),
        sample=np.zeros(SAMPLED),
        rest=np.zeros(W),
        order=np.zeros(W, dtype=np.int32),
        spare=np.zeros(W, dtype=np.int32),
        begins=np.zeros(n_nodes, dtype=np.int64),
        size=np.zeros(n_nodes, dtype=np.int64),
        sums=np.zeros((DEPTH + 1, 2, MOST_COLUMNS, N_BINS, 2)),
        whole=np.zeros((n_nodes, 2)),
        cut=np.zeros(N_CUTS, dtype=np.int64),
        chosen=np.zeros(C, dtype=np.int64),
        waiting=np.zeros(DEPTH + 2, dtype=np.int64),
    )


# --- What trees say -------------------------------------------------------------------------------


@inlined
def evaluate_boosted(model, scratch, e):
    """What ensemble e says of scratch.x; 0 before the first fit."""
    if model.fits[0] == 0:
        return 0.0
    said = model.base[e]
    for m in range(model.leaf.shape[1]):
        k = 0
        for _ in range(DEPTH):
            right = scratch.x[model.column[e, m, k]] > model.threshold[e, m, k]
            k = 2 * k + (2 if right else 1)
        said += model.leaf[e, m, k - N_CUTS]
    return said


# --- Bins -----------------------------------------------------------------------------------------


@inlined
def _sink(sample, k, n):
    """Let the number in place k of a heap of n sink to where it belongs, the largest on top."""
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
    """Sort the first n numbers, in place."""
    for k in range(n // 2 - 1, -1, -1):
        _sink(sample, k, n)
    for end in range(n - 1, 0, -1):
        x = sample[end]
        sample[end] = sample[0]
        sample[0] = x
        _sink(sample, 0, end)


@inlined
def _make_bins(model, scratch, n):
    """Cut every column into bins of as many of its numbers, and write the bins of the n rows."""
    n_sampled = min(n, SAMPLED)  # from all over the window: old rows alone would hide a change
    for c in range(model.rows.shape[0]):
        m = 0
        for k in range(n_sampled):
            x = model.rows[c, k * n // n_sampled]
            if not math.isnan(x):
                scratch.sample[m] = x
                m += 1
        _sort(scratch.sample, m)
        for b in range(N_BINS - 1):
            edge = NEVER
            if m > 1:
                k = min(m - 1, max(1, (b + 1) * m // N_BINS))
                edge = 0.5 * (scratch.sample[k - 1] + scratch.sample[k])
            scratch.edges[c, b] = edge
        for j in range(n):
            x = model.rows[c, j]
            low, high = 0, N_BINS - 1
            while low < high:
                middle = (low + high) // 2
                if x > scratch.edges[c, middle]:
                    low = middle + 1
                else:
                    high = middle
            scratch.bins[j, c] = low


# --- A tree ---------------------------------------------------------------------------------------


@inlined
def _add_up(scratch, node, level, side, n_chosen):
    """Write the sums by bin of the rows of a node."""
    for k in range(n_chosen):
        for b in range(N_BINS):
            scratch.sums[level, side, k, b, 0] = 0.0
            scratch.sums[level, side, k, b, 1] = 0.0
    for m in range(scratch.begins[node], scratch.begins[node] + scratch.size[node]):
        j = scratch.order[m]
        r = scratch.rest[j]
        for k in range(n_chosen):
            b = scratch.bins[j, scratch.chosen[k]]
            scratch.sums[level, side, k, b, 0] += r
            scratch.sums[level, side, k, b, 1] += 1.0


@inlined
def _best_cut(scratch, node, level, side, n_chosen):
    """The column, by its place among those chosen, and the last bin on the left; (-1, 0): none.

    Writes the sums of the left child. Of cuts that are as good the first is taken.
    """
    total, n = scratch.whole[node, 0], scratch.whole[node, 1]
    best = total * total / (n + RIDGE)
    best += 1e-12 * abs(best)
    column, last = -1, 0
    left = 2 * node + 1
    for k in range(n_chosen):
        s, m = 0.0, 0.0
        for b in range(N_BINS - 1):
            s += scratch.sums[level, side, k, b, 0]
            m += scratch.sums[level, side, k, b, 1]
            if m < LEAST:
                continue
            if n - m < LEAST:
                break
            gain = s * s / (m + RIDGE) + (total - s) * (total - s) / (n - m + RIDGE)
            if gain > best:
                best, column, last = gain, k, b
                scratch.whole[left, 0] = s
                scratch.whole[left, 1] = m
    return column, last


@inlined
def _part(scratch, node, c, last):
    """Put the rows of a node that go to the left first, in their order, and the others behind."""
    first, n = scratch.begins[node], scratch.size[node]
    n_left, n_right = 0, 0
    for m in range(first, first + n):
        j = scratch.order[m]
        if scratch.bins[j, c] <= last:
            scratch.order[first + n_left] = j
            n_left += 1
        else:
            scratch.spare[n_right] = j
            n_right += 1
    for m in range(n_right):
        scratch.order[first + n_left + m] = scratch.spare[m]
    left = 2 * node + 1
    scratch.begins[left] = first
    scratch.size[left] = n_left
    scratch.begins[left + 1] = first + n_left
    scratch.size[left + 1] = n_right


@inlined
def _close(model, scratch, e, m, node):
    """No cut from a node on: all rows go to the left, and the leaf there says its mean."""
    while node < N_CUTS:
        model.column[e, m, node] = 0
        model.threshold[e, m, node] = NEVER
        scratch.cut[node] = N_BINS
        left = 2 * node + 1
        scratch.whole[left, 0] = scratch.whole[node, 0]
        scratch.whole[left, 1] = scratch.whole[node, 1]
        node = left
    shrink = max(SHRINK, ENOUGH / model.leaf.shape[1])
    model.leaf[e, m, node - N_CUTS] = (
        shrink * scratch.whole[node, 0] / (scratch.whole[node, 1] + RIDGE)
    )


@inlined
def _add_up_children(scratch, node, level, n_chosen):
    """Sums by bin of both children: the smaller one's rows are added up, the rest is the other."""
    left = 2 * node + 1
    side = (node + 1) % 2
    small = 0 if scratch.size[left] <= scratch.size[left + 1] else 1
    _add_up(scratch, left + small, level + 1, small, n_chosen)
    sums = scratch.sums
    for k in range(n_chosen):
        for b in range(N_BINS):
            for what in range(2):
                sums[level + 1, 1 - small, k, b, what] = (
                    sums[level, side, k, b, what] - sums[level + 1, small, k, b, what]
                )


@inlined
def _level_of(node):
    level = 0
    while node > 0:
        node = (node - 1) // 2
        level += 1
    return level


@inlined
def _grow(model, scratch, e, m, n_chosen):
    """Grow tree m on the rows of node 0, one node after the other, the left ones first."""
    _add_up(scratch, 0, 0, 1, n_chosen)
    scratch.waiting[0] = 0
    n_waiting = 1
    while n_waiting > 0:
        n_waiting -= 1
        node = scratch.waiting[n_waiting]
        level, side = _level_of(node), (node + 1) % 2
        column, last = _best_cut(scratch, node, level, side, n_chosen)
        if column < 0:
            _close(model, scratch, e, m, node)
            continue
        c = scratch.chosen[column]
        model.column[e, m, node] = c
        model.threshold[e, m, node] = scratch.edges[c, last]
        scratch.cut[node] = last
        left = 2 * node + 1
        for what in range(2):
            scratch.whole[left + 1, what] = scratch.whole[node, what] - scratch.whole[left, what]
        if level + 1 == DEPTH:
            _close(model, scratch, e, m, left)
            _close(model, scratch, e, m, left + 1)
            continue
        _part(scratch, node, c, last)
        _add_up_children(scratch, node, level, n_chosen)
        scratch.waiting[n_waiting] = left + 1
        scratch.waiting[n_waiting + 1] = left
        n_waiting += 2


@inlined
def _choose(scratch, C, draw):
    """Some of C columns, drawn without regard to order, come first; returns how many, and draw."""
    n_chosen = min(C, MOST_COLUMNS)
    if n_chosen < C:
        for k in range(n_chosen):
            draw = draw * FACTOR % MODULUS
            other = k + draw % (C - k)
            c = scratch.chosen[k]
            scratch.chosen[k] = scratch.chosen[other]
            scratch.chosen[other] = c
    return n_chosen, draw


# --- A fit ----------------------------------------------------------------------------------------


@inlined
def _ends(scratch, n):
    """Between which numbers the first n of rest count as they are.

    They are as far from the two quantiles of TAIL as FARTHEST times what is between these.
    """
    m = min(n, SAMPLED)
    for k in range(m):
        scratch.sample[k] = scratch.rest[k * n // m]
    _sort(scratch.sample, m)
    low, high = scratch.sample[int(TAIL * m)], scratch.sample[m - 1 - int(TAIL * m)]
    if not high > low:
        return -NEVER, NEVER
    return low - FARTHEST * (high - low), high + FARTHEST * (high - low)


@inlined
def _begin(model, scratch, e, n):
    """Write the labels less their mean into rest; those far out are pulled in."""
    for j in range(n):
        scratch.rest[j] = model.labels[e, j]
    low, high = _ends(scratch, n)
    mean = 0.0
    for j in range(n):
        scratch.rest[j] = min(high, max(low, scratch.rest[j]))
        mean += scratch.rest[j] / n
    for j in range(n):
        scratch.rest[j] -= mean
    model.base[e] = mean


@inlined
def _explain(model, scratch, e, m, n):
    """Take what tree m says of the n rows off what is left."""
    for j in range(n):
        k = 0
        for _ in range(DEPTH):
            right = scratch.bins[j, model.column[e, m, k]] > scratch.cut[k]
            k = 2 * k + (2 if right else 1)
        scratch.rest[j] -= model.leaf[e, m, k - N_CUTS]


@inlined
def _fit_one(model, scratch, e, n, draw):
    """Grow all trees of ensemble e on the n rows of the window, each on about half of them."""
    C = model.n_columns[e]
    _begin(model, scratch, e, n)
    for c in range(C):
        scratch.chosen[c] = c
    for m in range(model.leaf.shape[1]):
        n_chosen, draw = _choose(scratch, C, draw)
        n_rows, total = 0, 0.0
        for j in range(n):
            draw = draw * FACTOR % MODULUS
            if draw % 2 == 0:
                scratch.order[n_rows] = j
                total += scratch.rest[j]
                n_rows += 1
        scratch.begins[0] = 0
        scratch.size[0] = n_rows
        scratch.whole[0, 0] = total
        scratch.whole[0, 1] = n_rows
        _grow(model, scratch, e, m, n_chosen)
        _explain(model, scratch, e, m, n)
    return draw


@inlined
def _fit(model, scratch, pays):
    """Grow all trees anew, and say when the next time is: later each time that they do not pay."""
    n = min(model.n[0], model.rows.shape[1])
    _make_bins(model, scratch, n)
    model.fits[0] += 1
    draw = model.fits[0] * FACTOR % MODULUS
    for e in range(model.n_columns.shape[0]):
        draw = _fit_one(model, scratch, e, n, draw)
    model.patience[0] = 1 if pays else min(MOST_PATIENCE, 2 * model.patience[0])
    until = min(int((GROWTH - 1.0) * model.n[0]), model.rows.shape[1] // 4)
    model.wait[0] = model.patience[0] * until


@inlined
def write_columns(scratch, row, lags):
    """Write a row (d,) and past labels behind it, as many as there are columns for, into x."""
    d = row.shape[0]
    for k in range(d):
        scratch.x[k] = row[k]
    for k in range(min(lags.shape[0], scratch.x.shape[0] - d)):
        scratch.x[d + k] = lags[k]


@inlined
def learn_boosted(model, scratch, pays):
    """Count the row scratch.x, whose labels stand in their place; grow trees if it is time.

    ``pays`` is whether what the present ones say was of use lately.
    """
    j = model.n[0] % model.rows.shape[1]
    for c in range(scratch.x.shape[0]):
        model.rows[c, j] = scratch.x[c]
    model.n[0] += 1
    model.wait[0] -= 1
    if model.wait[0] <= 0:
        _fit(model, scratch, pays)
