"""Where a number stands among numbers that ascend."""

from __future__ import annotations

from omkl.core.jit import inlined


@inlined
def n_less(ascending, n, number):
    """How many of the first n of ``ascending`` (at least n,) are less than the number."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low
