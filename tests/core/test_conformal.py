"""Intervals that adapt: by hand, against the letter of the papers, and on streams that change."""

import doctest
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from omkl.core import conformal, snapshot
from omkl.core.conformal import NO_LABELS, RATES, WINDOW, Conformal, SeriesConformal

NONE = math.nan


def widths(error, level=0.9, rates=RATES, far=None, groups=None):
    """Half widths before each label, of predictions 0."""
    error = np.asarray(error, float)
    return Conformal(level, rates).follow(np.zeros(len(error)), error, far, groups)


def by_the_letter(error, level, rates, far, groups=None, window=WINDOW, horizon=500, widest=2.0):
    """The same, by sorting all scores in every round; with fractions where nothing is irrational.

    Rows of one group count together, as the square root of their number.

    One rate moves its level by whole multiples of alpha x rate: whether a place is a whole number
    is then no matter of rounding.
    """
    number = (lambda x: Fraction(str(x))) if len(rates) == 1 else float
    alpha, K = 1 - number(level), len(rates)
    rates = [number(rate) for rate in rates]
    a, w, halves = [[alpha] * K] * 2, [np.full(K, 1 / K)] * 2, []  # of all rows, and of those far
    of_losses = float((1 - alpha) ** 2 * alpha**3 + alpha**2 * (1 - alpha) ** 3)
    eta = math.sqrt(3 / horizon) * math.sqrt((math.log(K * horizon) + 2) / of_losses)
    scores: list[float] = []
    before: list = [None, None]  # levels and weights, and the misses and losses of the group
    for t, s in enumerate(error):
        if t == 0 or groups is None or groups[t] != groups[t - 1]:
            before = [None, None]
        kept = np.sort(scores[-window:])
        n = len(kept)
        if n == 0:
            halves.append(NONE)
            scores.append(s)
            continue
        both = [b[0] if K == 1 else float(p @ b) for p, b in zip(w, a, strict=True)]
        mixed = min(both) if far[t] else both[0]
        place = math.ceil((1 - min(1, mixed)) * (n + 1))
        half = 0.0 if place <= 0 else kept[min(place, n) - 1]
        if place > n:
            half *= math.exp(3.0 * (1 / (n + 1) - float(mixed)))
        span = np.ptp(error[:t])
        halves.append(min(half, widest * span) if n >= 20 and span > 0.0 else half)
        b = 1 - number(int(np.sum(kept < s))) / (n + 1)
        if 0.0 < kept[-1] < s:
            b = max(-1, b - number(math.log(s / kept[-1]) / 3.0))
        for j in range(1 + int(far[t])):
            at, weights, misses, losses = before[j] or (a[j], w[j], [], [])
            losses = [*losses, [float(alpha * (b - one) - min(0, b - one)) for one in at]]
            misses = [*misses, [one > b for one in at]]
            before[j] = at, weights, misses, losses
            m = len(misses)
            rows = 1 if m == 1 else math.sqrt(m)  # that the group counts as
            p = weights * np.exp(-eta * rows * np.mean(losses, axis=0))
            w[j] = (1 - 1 / (2 * horizon)) * p / p.sum() + 1 / (2 * horizon * K)
            missed = [number(int(n)) / m for n in np.sum(misses, axis=0)]
            moved = zip(at, rates, missed, strict=True)
            a[j] = [max(-1, one + min(1, r * rows) * (alpha - miss)) for one, r, miss in moved]
        scores.append(min(s, 4.0 * kept[-1]) if n >= 20 and kept[-1] > 0.0 else s)
    return np.array(halves)


@pytest.mark.parametrize(("rates", "grouped"), [((0.02,), False), (RATES, False), (RATES, True)])
def test_equals_the_letter(rates, grouped):
    """Also with ties, scores beyond the window, levels that leave [0, 1], and rows far out."""
    rng = np.random.default_rng(1)
    groups = np.cumsum(rng.random(1500) < 0.1).astype(float) if grouped else None
    error = np.abs(np.round(rng.standard_normal(1500), 1)) * np.where(np.arange(1500) < 700, 1, 6)
    far = rng.random(1500) < 0.05
    error[far] *= 4
    half = by_the_letter(error, 0.8, rates, far, groups)
    found = widths(error, 0.8, rates, far, groups)
    np.testing.assert_allclose(found, half, rtol=1e-9 if grouped else 1e-12)


def test_rows_far_out_are_covered_and_widen_no_other_interval():
    """Their errors are five times as large, then half as large: never narrower than of others."""
    rng = np.random.default_rng(5)
    far = rng.random(6000) < 0.05
    for scale in (5.0, 0.5):
        error = rng.standard_normal(6000) * np.where(far, scale, 1.0)
        half, alike = widths(error, far=far), widths(error)
        np.testing.assert_array_equal(half[~far], alike[~far])
        assert (half[far] >= alike[far])[1:].all()
        covered = (np.abs(error) <= half)[far].mean()
        assert abs(covered - 0.9) < 0.03 if scale > 1.0 else covered > 0.97
    assert (np.abs(5.0 * error) <= alike)[far].mean() < 0.8


def test_one_row_at_a_time_gives_the_same_bits_of_groups_and_of_rows_far_out():
    rng = np.random.default_rng(6)
    error, far = rng.standard_normal(60), rng.random(60) < 0.3
    groups = np.repeat([-1.0, 3.0, 4.0, -1.0], 15)
    whole, one = widths(error, far=far, groups=groups), Conformal(0.9)
    for s in range(60):
        np.testing.assert_equal(one.half_width(far[s]), whole[s])
        kept, one = snapshot.copies(one.state), Conformal(0.9)
        one.restore(kept)
        np.testing.assert_equal(one.learn(0.0, error[s], far[s], groups[s]), whole[s])


def test_rows_of_one_date_that_share_shocks_are_covered():
    """300 dates of 50 rows. Row by row, the level follows the date whose rows are all predicted."""
    rng = np.random.default_rng(7)
    error = 2.0 * np.repeat(rng.standard_normal(300), 50) + rng.standard_normal(15_000)
    for groups, low, high in ((np.repeat(np.arange(300.0), 50), 0.88, 0.92), (None, 0.6, 0.85)):
        half = np.repeat(widths(error, groups=groups)[::50], 50)
        assert low < (np.abs(error) <= half)[1000:].mean() < high


@pytest.mark.parametrize("scale", [8.0, 1 / 8])
def test_holds_again_after_a_change(scale):
    """A change of the noise by 8: back within 2 points of 90 % after 500 rounds, where fixed
    quantiles of all errors so far hold 40 or 100 %."""
    rng = np.random.default_rng(2)
    error = np.abs(rng.standard_normal(8000)) * np.where(np.arange(8000) < 4000, 1.0, scale)
    covered = error <= widths(error)
    assert abs(covered[4500:6000].mean() - 0.9) < 0.02
    assert abs(covered[1:].mean() - 0.9) < 0.005


def series_by_the_letter(slots, y_hat, y):
    """Widths of series whose first label is no score, in units of the mean error of each."""
    units, scores = [], []
    for r, s in enumerate(slots):
        labels = y[:r][slots[:r] == s]
        errors = np.abs(y - y_hat)[:r][slots[:r] == s][1:]
        mean = 0.0
        for n, error in enumerate(errors):
            counted = min(error, 8.0 * mean) if n >= 20 and mean > 0.0 else error
            mean += (counted - mean) / min(n + 1, 50)
        n = len(errors)
        unit = mean * (1 + 1 / n) if n else NONE
        units.append((unit, 2.0 * np.ptp(labels) if n >= 20 else np.inf, len(scores)))
        if n:
            scores.append(abs(y[r] - y_hat[r]) / unit)
    # Of the last width there is a score more, which says nothing of it.
    none = np.zeros(len(scores) + 1, bool)
    half = by_the_letter([*scores, 1.0], 0.9, RATES, none, widest=np.inf)
    return np.array([min(unit * half[n], most) for unit, most, n in units])


def test_intervals_of_series_are_as_the_letter_has_them():
    rng = np.random.default_rng(10)
    slots = rng.integers(4, size=600)
    y = rng.standard_normal(600) * 10.0 ** np.arange(-2, 2)[slots]
    y[300:320] *= 50.0  # errors that a unit takes at eight of it
    y_hat, units = np.zeros(600), np.tile(NO_LABELS, (4, 1))
    one = SeriesConformal(0.9)
    parts = [
        one.follow_series(units, slots[p], y_hat[p], y[p], 1)
        for p in np.split(np.arange(600), 7 * [0] + [1, 250])
    ]
    expected = series_by_the_letter(slots, y_hat, y)
    assert np.isnan(expected).sum() >= 8
    np.testing.assert_allclose(np.concatenate(parts), expected, rtol=1e-9)


def test_every_key_is_covered_whatever_its_scale():
    """Scales 10,000 times apart share a quantile: in units of its errors each covers 90 %."""
    rng, n_series = np.random.default_rng(11), 20
    slots = rng.permutation(np.repeat(np.arange(n_series), 1000))
    error = rng.standard_normal(len(slots)) * np.geomspace(0.01, 100.0, n_series)[slots]
    half = SeriesConformal(0.9).follow_series(
        np.tile(NO_LABELS, (n_series, 1)), slots, np.zeros(len(slots)), error, 1
    )
    covered = [np.mean((np.abs(error) <= half)[slots == s]) for s in range(n_series)]
    assert min(covered) > 0.87 and max(covered) < 0.93
    common = np.abs(error) <= widths(error)  # of all errors as they are: too wide, or none
    shares = [common[slots == s].mean() for s in range(n_series)]
    assert min(shares) < 0.6 and max(shares) > 0.99


def test_labels_that_are_not_known_teach_nothing():
    rng = np.random.default_rng(4)
    error = rng.standard_normal(400)
    known = rng.random(400) < 0.5
    half = widths(np.where(known, error, NONE))
    np.testing.assert_array_equal(half[known], widths(error[known]))


@pytest.mark.parametrize(
    ("level", "rates", "message"),
    [(level, RATES, "level is between 0 and 1") for level in (0.0, 1.0, -3, math.nan)]
    + [(0.9, rates, r"rates of intervals are in \(0, 1\]") for rates in ((), (0.0,), (0.1, 2.0))],
)
def test_levels_and_rates_that_are_none(level, rates, message):
    with pytest.raises(ValueError, match=message):
        Conformal(level, rates)


def test_examples():
    page = Path(__file__).parents[2] / "docs" / "intervals.md"
    for failed, tried in (
        doctest.testmod(conformal),
        doctest.testfile(str(page), module_relative=False),
    ):
        assert tried > 3 and not failed


@pytest.mark.parametrize("grows", [lambda t: t, lambda t: t**2, lambda t: 1.01**t])
def test_steady_misses_widen_intervals_beyond_every_score_so_far(grows):
    """Errors that only grow: the largest score kept, as the widest interval, covers none."""
    error = grows(np.arange(1.0, 4001.0))
    covered = error <= widths(error)
    assert covered[1:].mean() > 0.9
    assert np.median((widths(error) / error)[2000:]) < 1.05


def test_one_wrong_label_makes_no_later_interval_wide():
    error = np.random.default_rng(8).standard_normal(3000)
    calm = widths(error).max(initial=0.0, where=np.arange(3000) > 50)
    error[1500] = -9999.0
    half = widths(error)
    assert half[50:].max() < 1.5 * calm
    assert np.mean(np.abs(error) <= half) == pytest.approx(0.9, abs=0.01)


def test_the_coverage_of_one_rate_is_as_promised():
    """On any stream that meets the condition: here errors that miss narrowly while they can."""
    rate, T = 0.05, 3000
    one, rng, inside = Conformal(0.9, (rate,)), np.random.default_rng(9), 0
    one.learn(0.0, 1.0)
    one.learn(0.0, -1.0)
    for _ in range(T):
        half = one.half_width()
        error = half * (1.01 if rng.random() < 0.5 else 0.9)
        error = min(error, 1000.0)
        inside += error <= half
        one.learn(0.0, error if rng.random() < 0.5 else -error)
        assert abs(one.state.levels[0]) < 1.0 + rate
    assert abs(inside / T - 0.9) <= (2 + rate) / (rate * T)
