"""One row more of a stream: its columns standardised by what was seen of them, it included."""

from __future__ import annotations

import math

from omkl.core.jit import rounded


@rounded
def take_row(first, sums, x, most, clip, out):
    """Add x (C,) to what is known of C columns, and write it standardised to out (C,).

    As ``omkl.datasets.scaling`` has it for many rows, to the bit: first (C,) is the first number
    of each column, NaN before it; sums (3, C) are the numbers, what they are above the first, and
    its squares; a blank (NaN), and a column that has not moved yet, is 0. Where a number is more
    than ``most`` away from 0 nothing is done; returns whether it was done.
    """
    C = x.shape[0]
    for k in range(C):
        if abs(x[k]) > most:
            return False
    for k in range(C):
        out[k] = 0.0
        if math.isnan(x[k]):
            continue
        if math.isnan(first[k]):
            first[k] = x[k]
        above = x[k] - first[k]
        sums[0, k] += 1.0
        sums[1, k] += above
        sums[2, k] += above * above
        above_mean = sums[1, k] / sums[0, k]
        variance = sums[2, k] / sums[0, k] - above_mean * above_mean
        if variance > 0.0:
            found = (x[k] - (above_mean + first[k])) / math.sqrt(variance)
            out[k] = min(max(found, -clip), clip)
    return True
