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


def widths(error, level=0.9, rates=RATES, far=None):
    """Half widths before each label, of predictions 0."""
    return Conformal(level, rates).follow(np.zeros(len(error)), np.asarray(error, float), far)


def by_the_letter(error, level, rates, far, window=WINDOW, horizon=500, widest=2.0):
    """The same, by sorting all scores in every round; with fractions where nothing is irrational.

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
    for t, s in enumerate(error):
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
            loss = np.array([float(alpha * (b - one) - min(0, b - one)) for one in a[j]])
            p = w[j] * np.exp(-eta * loss)
            w[j] = (1 - 1 / (2 * horizon)) * p / p.sum() + 1 / (2 * horizon * K)
            moved = zip(a[j], rates, strict=True)
            a[j] = [max(-1, one + r * (alpha - (one > b))) for one, r in moved]
        scores.append(min(s, 4.0 * kept[-1]) if n >= 20 and kept[-1] > 0.0 else s)
    return np.array(halves)


def test_first_rounds_by_hand():
    """One rate of 0.1, level 0.5: scores 1, 3, 2, and the levels 0.5, 0.45 and 0.5 on the way.

    Before label 2 the only score is 1, and ceil(0.5 x 2) = 1: it is the interval. 3 is outside
    (b = 1/2 is not below 0.5: it counts as inside), and so on as the letter has it.
    """
    half = widths([1.0, 3.0, 2.0, 0.0], level=0.5, rates=(0.1,))
    assert math.isnan(half[0])
    # b = 1 - 1/2 = 0.5, a = 0.5 is not above it: a rises by 0.1 x 0.5 to 0.55
    # 2 scores: ceil(0.45 x 3) = 2, the second smallest
    assert half[1:3].tolist() == [1.0, 3.0]
    # 2 lies above one of two: b = 2/3, a rises to 0.6; ceil(0.4 x 4) = 2 of (1, 2, 3)
    assert half[3] == 2.0


@pytest.mark.parametrize("rates", [(0.02,), RATES])
def test_equals_the_letter(rates):
    """Also with ties, scores beyond the window, levels that leave [0, 1], and rows far out."""
    rng = np.random.default_rng(1)
    error = np.abs(np.round(rng.standard_normal(1500), 1)) * np.where(np.arange(1500) < 700, 1, 6)
    far = rng.random(1500) < 0.05
    error[far] *= 4
    half = by_the_letter(error, 0.8, rates, far)
    np.testing.assert_allclose(widths(error, 0.8, rates, far), half, rtol=1e-12)


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


def test_one_row_at_a_time_gives_the_same_bits_of_rows_far_out():
    rng = np.random.default_rng(6)
    error, far = rng.standard_normal(60), rng.random(60) < 0.3
    whole, one = widths(error, far=far), Conformal(0.9)
    for s in range(60):
        np.testing.assert_equal(one.half_width(far[s]), whole[s])
        one.learn(0.0, error[s], far[s])


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


def test_the_next_width_is_that_of_what_was_learned_last():
    error = np.random.default_rng(7).standard_normal(40)
    whole, intervals = widths(error), Conformal(0.9)
    intervals.follow(np.zeros(20), error[:20])
    then = snapshot.copies(intervals.state)
    for s in range(20, 39):
        np.testing.assert_equal(intervals.half_width(), whole[s])
        np.testing.assert_equal(intervals.learn(0.0, error[s]), whole[s])
    intervals.restore(then)
    np.testing.assert_equal(intervals.half_width(), whole[20])


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
