"""Location and scale of columns: by hand, under faults, and where a robust scale is a trap."""

from __future__ import annotations

import math

import numpy as np
import pytest

from omkl.core import robust_moments as moments

N, T = 4000, np.arange(4000)
NORMAL = np.random.default_rng(0).standard_normal(N)
FAULT = (T >= 2000) & (T < 3000)


def take_rows(state, X, out, far, learns=True):
    slots = state[None] if learns else np.stack([state, state])
    runs = np.array([0, len(X)]), np.zeros(1, dtype=np.int64), np.array([learns])
    moments.standardise_rows(*runs, slots, X, math.inf, out, far, len(slots) - 1)


def standardise_each(state, X, out, far):
    take_rows(state, X, out, far, learns=False)


def standardised(x):
    """Each number of a column with what came up to it."""
    out, far = np.empty((len(x), 1)), np.empty((len(x), 1), dtype=bool)
    take_rows(moments.no_moments(1), np.array(x, dtype=float)[:, None], out, far)
    return out[:, 0]


def plain(x):
    """The same by mean and deviation."""
    n = np.arange(1.0, len(x) + 1)
    mean = np.cumsum(x) / n
    deviation = np.sqrt(np.maximum(np.cumsum(np.square(x)) / n - mean**2, 0.0))
    return np.divide(x - mean, deviation, out=np.zeros(len(x)), where=deviation > 1e-9)


def test_proposal_2_by_hand():
    """0, 2 and then 200: m = 1, s = 1, and 200 counts as no more than 8 (1 + 20 / 2) s from m."""
    state = moments.no_moments(1)
    for x in (0.0, 2.0, 200.0):
        moments.take_row(state, np.array([x]), math.inf, np.empty(1), np.empty(1, dtype=bool))
    counted = np.array([0.0, 2.0, 1.0 + 88.0])
    assert state[0, moments.MEAN] == pytest.approx(counted.mean())
    assert moments.scales(state)[0] == pytest.approx(counted.std())
    assert standardised([0.0, 2.0, 200.0])[2] == pytest.approx(
        (200 - counted.mean()) / counted.std()
    )


@pytest.mark.parametrize(
    "x",
    [
        NORMAL,
        np.cumsum(NORMAL),
        T,
        np.full(N, 3.0),
        np.where(T < 10, 0.0, 1.0),
        NORMAL > 2.33,  # a category that comes once in a hundred rows
        NORMAL > 3.2,  # and three times in all
        T // 50 % 20 == 3,  # in bursts
        np.where(T // 50 % 20 == 3, np.abs(NORMAL), 0.0),  # rain
    ],
    ids=["normal", "walk", "time", "constant", "step", "rare", "very rare", "bursts", "rain"],
)
def test_honest_columns_have_mean_and_deviation(x):
    np.testing.assert_allclose(standardised(x), plain(np.asarray(x, float)), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "fault",
    [
        np.where(T == 2000, -9999.0, NORMAL),
        np.where(T == 5, -9999.0, NORMAL),
        np.where(np.random.default_rng(1).random(N) < 0.01 * FAULT, -9999.0, NORMAL),
        np.where(FAULT, 10.0 * (NORMAL + 3.0) - 3.0, NORMAL),
        np.where(FAULT, NORMAL + 100.0, NORMAL),
        np.where(FAULT, 10.0 * NORMAL, NORMAL),
        np.where(FAULT, 0.0, NORMAL),
    ],
    ids=["one cell", "an early one", "1 %", "unit", "offset", "scale", "frozen"],
)
def test_after_a_fault_a_column_is_as_before(fault):
    """Its numbers are those that a column without the fault has, nearly."""
    off = standardised(fault)[3500:] - standardised(NORMAL)[3500:]
    assert np.sqrt(np.mean(off**2)) < 0.35


@pytest.mark.parametrize("change", [lambda x: x + 100.0, lambda x: 10.0 * x + 50.0])
def test_a_new_unit_or_offset_is_followed(change):
    z = standardised(np.where(T < 2000, NORMAL, change(NORMAL)))
    assert abs(z[2200:].mean()) < 0.2 and z[2200:].std() == pytest.approx(1.0, abs=0.15)


def test_zero_for_a_thousand_rows_and_then_it_moves():
    z = standardised(np.where(T < 1000, 0.0, NORMAL))
    assert not z[:1000].any() and np.isfinite(z).all()
    assert 0.5 < z[1200:].std() < 2.0


@pytest.mark.parametrize("df", [1.0, 1.9])
def test_heavy_tails_keep_their_order_and_a_scale(df):
    """Nothing is cut, and scale and location settle."""
    x = np.random.default_rng(2).standard_t(df, N)
    state = moments.no_moments(1)
    out, marked = np.empty((N, 1)), np.empty((N, 1), dtype=bool)
    take_rows(state, x[:2000, None], out[:2000], marked[:2000])
    middle = moments.scales(state)[0]
    take_rows(state, x[2000:, None], out[2000:], marked[2000:])
    assert moments.scales(state)[0] == pytest.approx(middle, rel=0.1)
    far = np.abs(x[3000:]) > 10.0
    assert np.corrcoef(out[3000:, 0][far], x[3000:][far])[0, 1] > 0.999
    assert state[0, moments.BEYOND] == marked.sum() == np.sum(np.abs(out) > 4.0)


def test_any_split_and_one_row_at_a_time_give_the_same_bits():
    X = np.random.default_rng(3).standard_t(2.0, (300, 3))
    X[::7, 1] = math.nan
    whole, parts, peeked = np.empty((3, 300, 3))
    far, of_parts, of_peeked = np.empty((3, 300, 3), dtype=bool)
    take_rows(moments.no_moments(3), X, whole, far)
    state = moments.no_moments(3)
    for s in range(300):
        one = slice(s, s + 1)
        standardise_each(state, X[one], peeked[one], of_peeked[one])
        moments.take_row(state, X[s], math.inf, parts[s], of_parts[s])
    np.testing.assert_array_equal(parts, whole)
    np.testing.assert_array_equal(peeked, whole)
    assert far.any() and (of_parts == far).all() and (of_peeked == far).all()
