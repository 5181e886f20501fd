"""Packs of eight: compiled code does what their plain Python says."""

import numpy as np
import pytest

from omkl.core import compiler
from omkl.core.simd import (
    LANES,
    WHOLE,
    at_least,
    below,
    clip,
    flip_where_odd,
    fma,
    gather,
    largest,
    load,
    pack,
    store,
    times_power_of_two,
    total,
)
from omkl.core.weights import exp_of_pack


def axpy(a, x, y, n):
    """y[:n] += a x[:n], and the sum of the new y[:n]."""
    kept = pack(0.0)
    for j in range(0, n, LANES):
        k = min(LANES, n - j)
        new = fma(load(x, j, k), a, load(y, j, k))
        store(y, j, new, k)
        kept = kept + new
    return total(kept)


def halves(x, out):
    """x minus the nearest whole number within 0.3, its sign flipped where that number is odd."""
    shifted = load(x, 0) + WHOLE
    store(out, 0, flip_where_odd(clip(load(x, 0) - (shifted - WHOLE), 0.3), shifted))


def powers(x, out):
    """|-1| times 2^x of whole numbers x; below -1023 as there."""
    k = at_least(load(x, 0), -1023.0)
    store(out, 0, times_power_of_two(abs(pack(-1.0)), k + WHOLE))


def highest(x, out):
    out[0] = largest(load(x, 0))


def highest_below(x, bound, out):
    out[0] = largest(below(load(x, 0), bound))


def gathered(x, index, n, out):
    store(out, 0, gather(x, index, 1, 10, n))


def exponentials(x, out):
    store(out, 0, exp_of_pack(load(x, 0)))


@pytest.fixture(params=["plain", "compiled"])
def build(request):
    if request.param == "compiled" and not compiler.ENABLED:
        pytest.skip("nothing is compiled in this session")
    return (lambda f: f) if request.param == "plain" else compiler.for_this_process


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 19])
def test_only_the_first_n_entries_count(build, n):
    x, y = np.arange(1.0, 21.0), np.full(20, 100.0)
    expected = y.copy()
    expected[:n] += 0.5 * x[:n]
    assert build(axpy)(0.5, x, y, n) == expected[:n].sum()
    np.testing.assert_array_equal(y, expected)


def test_signs_flip_at_odd_numbers_and_nan_stays(build):
    x = np.array([0.2, 1.2, 2.4, 2.6, -1.2, -2.2, np.nan, 7.0])
    out = np.empty(8)
    build(halves)(x, out)
    np.testing.assert_allclose(out, [0.2, -0.2, 0.3, 0.3, 0.2, -0.2, np.nan, 0.0], atol=1e-15)


def test_powers_of_two_are_exact(build):
    x = np.array([0.0, 1.0, -1.0, 52.0, 1023.0, -1022.0, -1023.0, -5000.0])
    out = np.empty(8)
    build(powers)(x, out)
    np.testing.assert_array_equal(out, [1.0, 2.0, 0.5, 2.0**52, 2.0**1023, 2.0**-1022, 0.0, 0.0])


def test_the_largest_below_a_bound(build):
    find, out = build(highest_below), np.empty(1)
    x = np.array([3.0, -1.0, np.nan, 2.0, np.inf, 1.0, -np.inf, 2.0])
    for bound, expected in ((np.inf, 3.0), (3.0, 2.0), (2.0, 1.0), (-1.0, -np.inf)):
        find(x, bound, out)
        assert out[0] == expected


def test_the_largest_of_eight(build):
    find, out = build(highest), np.empty(1)
    for place in range(LANES):
        x = -np.arange(1.0, 9.0)
        x[place] = -0.5
        find(x, out)
        assert out[0] == -0.5


@pytest.mark.parametrize("n", [1, 5, 8])
def test_numbers_are_gathered_from_where_an_index_says(build, n):
    x, index, out = np.arange(0.0, 30.0), np.array([0, 12, 13, 17, 20, 21, 30, 38, 39]), np.empty(8)
    build(gathered)(x, index, n, out)
    np.testing.assert_array_equal(out[:n], (index[1:] - 10.0)[:n])
    assert np.all(out[n:] == index[n] - 10)


def test_eight_exponentials(build):
    x = np.array([-0.0, -1e-9, -0.4, -1.0, -36.7, -700.0, -1e9, np.nan])
    out = np.empty(8)
    build(exponentials)(x, out)
    np.testing.assert_allclose(out, np.exp(x), rtol=3e-16)
