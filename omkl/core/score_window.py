"""The last scores of predictions, kept sorted: where a new one stands, and their quantiles.

A score is how far off a prediction was. A window is scores (W,), by place of arrival, and ordered
(W,), the same ascending; of n scores so far the next place is n modulo W.
"""

from __future__ import annotations

import math

from omkl.core.jit import inlined
from omkl.core.search import n_less

WINDOW = 1000  # scores kept
TIE = 1e-9  # levels and places that are no farther apart are the same: rounding decides nothing


@inlined
def quantile(ordered, n, level):
    """The score that a share 1 - level of n + 1 is not above, n >= 1; at most the largest, or 0."""
    place = math.ceil((1.0 - min(1.0, level)) * (n + 1.0) - TIE)
    return ordered[min(place, n) - 1] if place > 0 else 0.0


@inlined
def level_of(ordered, n, score):
    """The largest level whose quantile a new score is not above: 1 - r / (n + 1), r are less."""
    return 1.0 - n_less(ordered, n, score) / (n + 1.0)


@inlined
def keep(scores, ordered, n_so_far, score):
    """Put a score in the place of the oldest, of ``n_so_far`` that there were."""
    W = scores.shape[0]
    at = n_so_far % W
    free = min(n_so_far, W)  # the place in ``ordered`` that the new score may take
    if n_so_far >= W:
        free = n_less(ordered, W, scores[at])
    place = n_less(ordered, min(n_so_far, W), score)
    if place > free:
        place -= 1
        for k in range(free, place):
            ordered[k] = ordered[k + 1]
    else:
        for k in range(free, place, -1):
            ordered[k] = ordered[k - 1]
    ordered[place] = score
    scores[at] = score


@inlined
def pinball(alpha, off):
    """Loss of a level a for a label whose own level is b, off = b - a, where alpha is wanted."""
    return alpha * off - min(0.0, off)


@inlined
def missed(off):
    """Whether the interval of level a does not hold that label, off = b - a: 1.0 or 0.0."""
    return 1.0 if off < -TIE else 0.0
