"""The last scores of predictions, kept sorted: where a new one stands, and their quantiles.

A score is how far off a prediction was. A window is scores (W,), by place of arrival, and ordered
(W,), the same ascending; of n scores so far the next place is n modulo W.
"""

from __future__ import annotations

import math

from omkl.core.jit import inlined
from omkl.core.search import n_less
from omkl.core.simd import LANES, load, store

WINDOW = 1000  # scores kept
TIE = 1e-9  # levels and places that are no farther apart are the same: rounding decides nothing


@inlined
def quantile(ordered, n, level):
    """The score that a share 1 - level of n + 1 is not above, n >= 1; at most the largest, or 0."""
    place = math.ceil((1.0 - min(1.0, level)) * (n + 1.0) - TIE)
    return ordered[min(place, n) - 1] if place > 0 else 0.0


@inlined
def level_of(place, n):
    """The largest level whose quantile of n scores one is not above that has ``place`` below it."""
    return 1.0 - place / (n + 1.0)


@inlined
def keep(scores, ordered, n_so_far, score):
    """Put a score in the place of the oldest, of ``n_so_far``; return how many kept were less."""
    W = scores.shape[0]
    at = n_so_far % W
    place = n_less(ordered, min(n_so_far, W), score)
    # The place in ``ordered`` that the scores between make room from.
    free = n_less(ordered, W, scores[at]) if n_so_far >= W else n_so_far
    if place > free:
        _shift_down(ordered, free, place - 1)
        ordered[place - 1] = score
    else:
        _shift_up(ordered, place, free)
        ordered[place] = score
    scores[at] = score
    return place


@inlined
def _shift_down(ordered, first, last):
    """ordered[first:last] = ordered[first + 1 : last + 1], eight at a time."""
    k = first
    while k + LANES <= last:
        store(ordered, k, load(ordered, k + 1))
        k += LANES
    while k < last:
        ordered[k] = ordered[k + 1]
        k += 1


@inlined
def _shift_up(ordered, first, last):
    """ordered[first + 1 : last + 1] = ordered[first:last], eight at a time."""
    k = last
    while k - LANES >= first:
        store(ordered, k - LANES + 1, load(ordered, k - LANES))
        k -= LANES
    while k > first:
        ordered[k] = ordered[k - 1]
        k -= 1


@inlined
def pinball(alpha, off):
    """Loss of a level a for a label whose own level is b, off = b - a, where alpha is wanted."""
    return alpha * off - min(0.0, off)


@inlined
def missed(off):
    """Whether the interval of level a does not hold that label, off = b - a: 1.0 or 0.0."""
    return 1.0 if off < -TIE else 0.0
