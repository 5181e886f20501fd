"""Scale many series of one stream, and mix the predictions for them.

The location of a series is its last known target. The scale of a series is the mean of its absolute
changes, with old changes fading. It is shrunk towards a scale estimated from all series: their mean
relative change times the level (mean absolute target) of this series. Location and scale are the
units of the series. Past targets in these units become inputs, so that one learner can predict
series of all levels.

A mixture with weights by regret (``Regrets``) combines four kinds of candidates: the prediction of
a learner of targets in the units of their series, the prediction of a learner of raw targets, the
last target of the series, and for each season the target one season ago. The last target has all
weight until another candidate has smaller errors.

The state of S series consists of arrays (S, ...). Rows are processed one by one, so results do not
depend on the split into blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np

from omkl.core.compiler import compiled, inlined
from omkl.core.hyperparameters import MOST_COUNT, Range
from omkl.core.representations.experts import (
    REGRET_FADING,
    REGRET_FLOOR,
    ROUNDING,
    Regrets,
    mixture_of,
    no_regrets,
)

# Indices of the numbers of a series.
# STEPS, KNOWN      number of rows so far, and number of those with a target
# LAST, LEVEL       last target, and mean of the absolute targets
# CHANGES, WEIGHT   fading sum of absolute changes, and fading sum of 1 for each change
# PEAK              largest CHANGES / WEIGHT so far; it fades
STEPS, KNOWN, LAST, LEVEL, CHANGES, WEIGHT, PEAK = range(7)
N_NUMBERS = 7
NON_NEGATIVE = (STEPS, KNOWN, LEVEL, CHANGES, WEIGHT, PEAK)

CHANGE_FADING = 0.98  # a memory of 50 rows of a series
RELATIVE_FADING = 0.999  # a memory of 1,000 rows of all series
PEAK_FADING = 0.998
SHRINKAGE = 3.0  # number of changes as which the estimate from all series counts
LEAST_RELATIVE = 0.1  # least scale, as a multiple of the estimate from all series
LEAST_OF_PEAK = 0.05  # least scale, as a multiple of PEAK, for quiet rows between spikes
NOISE_FADING = 0.99  # a memory of 100 rows
N_MEAN = 20  # last targets of a series whose mean is an input
FIRST_LAG, LAST_LAG = 2, 8  # past targets that are inputs; lag 1 is the location
N_HARMONICS = 3  # sines and cosines of each cycle of the calendar
# Limits, in scales of the series, of past targets, of targets and of errors in gains.
FARTHEST_LAG, FARTHEST_TARGET, FARTHEST_ERROR = 50.0, 30.0, 10.0
GROUP_FADING = 0.95  # a memory of 20 groups of several rows
CAUTION = 1.6  # standard errors of a gain that give no weight, in large groups of rows
FIRST_SHARE = 0.5  # share of (p - f)^2 in the gain of the first row of a group, see ``_learn_row``
TINY = 1e-300
OWN, RAW, LAST_VALUE, N_PLAIN = 0, 1, 2, 3  # candidates of the mixture; seasonal values follow


class Series(NamedTuple):
    """State of S series and of the mixture with K candidates, which all series share.

    A group is a set of rows that are predicted before the target of any of them arrives.

    numbers   (S, N_NUMBERS) numbers of each series, with the indices STEPS .. PEAK
    ring      (S, R) last R targets, NaN where unknown; the target of row t of a series has the
              index t mod R
    relative  (2,) fading sum, over all series, of absolute changes divided by the level, and fading
              number of these changes
    regrets   weights of the candidates, and sums of their gains over all groups before the present
              group
    group     (K + 2,) gain of each candidate in the present group, number of rows learned before
              this group (its identifier), and number of its rows so far
    noise     (2,) fading sum of the squared errors of the mixture divided by the squared scale, and
              fading number of these errors
    """

    numbers: Annotated[np.ndarray, Range(0.0, MOST_COUNT, columns=NON_NEGATIVE[:2])]
    ring: np.ndarray
    relative: Annotated[np.ndarray, Range(0.0)]
    regrets: Regrets
    group: np.ndarray
    noise: Annotated[np.ndarray, Range(0.0)]


class Units(NamedTuple):
    """Units and inputs of n rows, computed before the target of each row is learned.

    A series has units as soon as two of its targets differ.

    inputs      (n, E) past targets in the units of the series, log scale, log level, and the mean
                of the last N_MEAN targets in these units
    location    (n,) last target of the series
    scale       (n,) scale of the series; 0 as long as the series has no units
    candidates  (n, K) candidates of the mixture. Columns 0 and 1 are the predictions of two
                learners, which the caller writes. Column 2 is the last target of the series, and
                the following columns are its targets one season ago. Columns from 2 on are NaN
                before the first target of the series
    """

    inputs: np.ndarray
    location: np.ndarray
    scale: np.ndarray
    candidates: np.ndarray

    def of(self, y: np.ndarray) -> np.ndarray:
        """Convert targets (n,) to the units of their series; NaN for a row without units."""
        return (y - self.location) / self._unit

    def width(self, half: np.ndarray) -> np.ndarray:
        """Convert half-widths (n,) from units of the series to those of the target.

        The result is NaN for a row without units.
        """
        return half * self._unit

    @property
    def _unit(self) -> np.ndarray:
        return np.where(self.scale > 0.0, self.scale, np.nan)


def no_series(n: int, seasons: Sequence[int], late: int = 0) -> Series:
    """Return the state of n series before their first rows.

    Parameters
    ----------
    n
        Number of series.
    seasons
        Length of each season in rows.
    late
        Number of further rows of a series after which a target is known.
    """
    regrets = no_regrets(N_PLAIN + len(seasons))
    regrets.w[:] = np.arange(len(regrets.w)) == LAST_VALUE
    length = max(N_MEAN, 2 * max(seasons, default=0) + 1) + late
    return Series(
        np.zeros((n, N_NUMBERS)), np.full((n, length), np.nan), np.zeros(2),
        regrets, np.zeros(N_PLAIN + len(seasons) + 2), np.zeros(2),
    )  # fmt: skip


class Lags(NamedTuple):
    """Lags, in rows, of the past targets that predictions read. Lag 1 is the last known target.

    inputs    (L,) lags of the targets that are inputs
    seasonal  (M,) for each season, the lag of the target that is a candidate of the mixture
    behind    number of newest targets to leave out. It is 0 when a row is predicted. When the row
              is learned later, the targets that have arrived since its prediction are left out
    """

    inputs: np.ndarray
    seasonal: np.ndarray
    behind: int = 0


def lags_of(seasons: Sequence[int], late: int = 0) -> Lags:
    """Return the lags of past targets. ``seasons`` has the lengths (M,) of the seasons, in rows.

    The target of a row arrives after ``late`` further rows of its series. The lag of a season is
    that of the newest known target with the same phase in the season as the predicted row.
    """
    inputs, seasonal = [*range(FIRST_LAG, LAST_LAG + 1)], []
    for m in seasons:
        lag = m * (late // m + 1) - late
        inputs += [lag - 1 or lag + m - 1, lag, lag + 1, lag + m]
        seasonal.append(lag)
    return Lags(np.array(inputs), np.array(seasonal, dtype=np.int64))


def n_inputs(seasons: Sequence[int]) -> int:
    """Return the number E of inputs that ``Units`` add to a row."""
    return len(lags_of(seasons).inputs) + 3


def waves_of(cycles: np.ndarray) -> np.ndarray:
    """Return sines and cosines (n, 2 N_HARMONICS P) of P phases (n, P), measured in cycles.

    They are 0 where the phase is NaN.
    """
    angles = 2.0 * math.pi * cycles[:, :, None] * np.arange(1.0, N_HARMONICS + 1.0)
    waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=2)
    return np.nan_to_num(waves).reshape(len(cycles), -1)


def units_of(
    series: Series,
    lags: Lags,
    slots: np.ndarray,
    y: np.ndarray | None = None,
    starts: np.ndarray | None = None,
) -> Units:
    """Return units and inputs of rows. If targets are given, learn them.

    Parameters
    ----------
    series
        State, updated in place.
    lags
        Lags of the inputs and of the candidates.
    slots
        Index in ``series`` (n,) of the series of each row.
    y
        Targets (n,). A row with the target NaN counts as a row of its series, but no target is
        learned. None: nothing changes.
    starts
        (G + 1,) index of the first row of each group, and n. The units of all rows of a group are
        computed before any target of the group is learned. None: all rows are one group.
    """
    n = len(slots)
    units = Units(
        np.empty((n, len(lags.inputs) + 3)), np.empty(n), np.empty(n),
        np.empty((n, N_PLAIN + len(lags.seasonal))),
    )  # fmt: skip
    _follow(
        series.numbers, series.ring, series.relative, lags, slots,
        *_targets(n, y, starts), *units,
    )  # fmt: skip
    return units


def _targets(
    n: int, y: np.ndarray | None, starts: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return y, starts and whether to learn, with arrays in place of None.

    If y is None, it becomes NaN (n,), and nothing is learned. If ``starts`` is None, all n rows are
    one group.
    """
    whole = np.array([0, n]) if starts is None else starts
    return (np.full(n, np.nan), whole, False) if y is None else (y, whole, True)


def learn_targets(series: Series, slots: np.ndarray, y: np.ndarray) -> None:
    """Learn the targets of rows.

    Parameters
    ----------
    series
        State, updated in place.
    slots, y
        Index in ``series`` of the series of each row (n,), and targets (n,).
    """
    _learn(series.numbers, series.ring, series.relative, slots, y)


def mixed(
    series: Series,
    units: Units,
    y: np.ndarray | None = None,
    starts: np.ndarray | None = None,
    rounds: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return predictions and standard deviations (n,) of the mixture.

    If targets are given, update the weights of the mixture.

    Parameters
    ----------
    series
        State, updated in place.
    units
        Units of n rows, with all candidates filled in.
    y, starts
        As in ``units_of``.
    rounds
        (n,) number of rows that were learned before each prediction, the same for all rows of a
        group. Only needed with targets.
    """
    n = len(units.scale)
    y_hat, deviation = np.empty(n), np.empty(n)
    rounds = np.zeros(n, dtype=np.int64) if rounds is None else rounds
    _mix(
        series.regrets, series.group, series.noise, units.scale, units.candidates,
        *_targets(n, y, starts), rounds, y_hat, deviation,
    )  # fmt: skip
    return y_hat, deviation


def learn_mixture(
    series: Series, units: Units, y_hat: np.ndarray, y: np.ndarray, rounds: np.ndarray
) -> None:
    """Update the weights of the mixture from the targets of n rows that it predicted earlier.

    Parameters
    ----------
    series
        State, updated in place.
    units
        Units and candidates of the rows at the time of their predictions.
    y_hat, y
        Predictions of the mixture and targets, (n,).
    rounds
        As in ``mixed``.
    """
    _learn_mixture(
        series.regrets, series.group, series.noise, units.scale, units.candidates, y_hat, y, rounds
    )


@inlined
def _scale(numbers, relative, s):
    """Return the scale of series s; 0 as long as its targets are all equal."""
    if not numbers[s, KNOWN] > 0.0:
        return 0.0
    usual = relative[0] / relative[1] * numbers[s, LEVEL] if relative[1] > 0.0 else 0.0
    scale = (numbers[s, CHANGES] + SHRINKAGE * usual) / (numbers[s, WEIGHT] + SHRINKAGE)
    return max(scale, LEAST_RELATIVE * usual, LEAST_OF_PEAK * numbers[s, PEAK])


@inlined
def _in_units(value, last, unit):
    """Return a past target in units of its series, clipped to FARTHEST_LAG; 0 if it is NaN."""
    off = (value - last) / unit
    return min(FARTHEST_LAG, max(-FARTHEST_LAG, off)) if math.isfinite(off) else 0.0


@inlined
def _write(numbers, ring, relative, lags, s, r, inputs, location, scale, candidates):
    """Write the units, inputs and candidates of row r, which belongs to series s.

    The candidates written here are past targets. The caller adds those of learners.
    """
    R, n = ring.shape[1], int(numbers[s, STEPS]) - lags.behind
    last = ring[s, (n - 1) % R] if lags.behind else numbers[s, LAST]
    scale[r] = _scale(numbers, relative, s) if math.isfinite(last) else 0.0
    known = last if numbers[s, KNOWN] > 0.0 else math.nan
    last = last if math.isfinite(last) else 0.0
    location[r] = last
    unit = scale[r] if scale[r] > 0.0 else np.inf
    L = lags.inputs.shape[0]
    for k in range(L):
        inputs[r, k] = _in_units(ring[s, (n - lags.inputs[k]) % R], last, unit)
    inputs[r, L] = math.log(scale[r]) if scale[r] > 0.0 else 0.0
    inputs[r, L + 1] = math.copysign(math.log1p(abs(last)), last)
    total, n_known = 0.0, 0
    for k in range(1, N_MEAN + 1):
        y = ring[s, (n - k) % R]
        if math.isfinite(y):
            total += y
            n_known += 1
    inputs[r, L + 2] = _in_units(total / n_known, last, unit) if n_known else 0.0
    candidates[r, LAST_VALUE] = known
    for j in range(lags.seasonal.shape[0]):
        value = ring[s, (n - lags.seasonal[j]) % R]
        candidates[r, N_PLAIN + j] = value if math.isfinite(value) else known


@inlined
def _learn_target(numbers, ring, relative, s, y):
    """Learn the target y of series s. If y is NaN, only count the row."""
    ring[s, int(numbers[s, STEPS]) % ring.shape[1]] = y
    numbers[s, STEPS] += 1.0
    if not math.isfinite(y):
        return
    change = abs(y - numbers[s, LAST])
    numbers[s, KNOWN] += 1.0
    numbers[s, LEVEL] += (abs(y) - numbers[s, LEVEL]) / numbers[s, KNOWN]
    numbers[s, LAST] = y
    if numbers[s, KNOWN] > 1.0:
        numbers[s, CHANGES] = CHANGE_FADING * numbers[s, CHANGES] + change
        numbers[s, WEIGHT] = CHANGE_FADING * numbers[s, WEIGHT] + 1.0
        mean = numbers[s, CHANGES] / numbers[s, WEIGHT]
        numbers[s, PEAK] = max(mean, PEAK_FADING * numbers[s, PEAK])
        relative[0] = RELATIVE_FADING * relative[0] + change / max(numbers[s, LEVEL], TINY)
        relative[1] = RELATIVE_FADING * relative[1] + 1.0


@compiled
def _follow(
    numbers, ring, relative, lags, slots, y, starts, learns, inputs, location, scale,
    candidates,
):  # fmt: skip
    """Write units and inputs of all rows of a group, then learn their targets."""
    for g in range(starts.shape[0] - 1):
        for r in range(starts[g], starts[g + 1]):
            _write(
                numbers, ring, relative, lags, slots[r], r, inputs, location, scale,
                candidates,
            )  # fmt: skip
        if learns:
            for r in range(starts[g], starts[g + 1]):
                _learn_target(numbers, ring, relative, slots[r], y[r])


@compiled
def _learn(numbers, ring, relative, slots, y):
    for r in range(slots.shape[0]):
        _learn_target(numbers, ring, relative, slots[r], y[r])


@inlined
def _deviation(noise):
    """Return the standard deviation of errors in units of the scale; NaN before the first error."""
    return math.sqrt(noise[0] / noise[1]) if noise[1] > 0.0 else math.nan


@inlined
def _fading(n):
    """Return the factors by which the sum of gains and the sum of squared gains fade.

    Each sum is multiplied by its factor before the gain of a group of n rows is added.
    """
    return (GROUP_FADING, GROUP_FADING**2) if n > 1.0 else (REGRET_FADING, REGRET_FADING)


@inlined
def _learn_row(regrets, group, noise, scale, f, y_hat, y, number):
    """Update weights and noise of the mixture from one row.

    A row without units or without a target changes nothing. ``number`` identifies the group of the
    row. Rows of a group share shocks, so their gains are not independent: the gains are added, and
    the sum counts as a single gain of ML-Poly (``experts``). Gains are divided by the squared
    scale. Otherwise the series with the largest values would determine the weights for all series.

    Let p be the prediction of the mixture, f that of a candidate, and y the target. The gain of
    ML-Poly, 2 (p - y) (p - f), is often positive by chance if f is far from all targets, and a
    single large group could then move all weight. Rows of a group therefore use the difference of
    the squared errors, (p - y)^2 - (f - y)^2 = 2 (p - y) (p - f) - (p - f)^2, with p - y clipped.
    The first row of a group subtracts only FIRST_SHARE of (p - f)^2, so that groups of a single row
    stay near ML-Poly.

    After n rows of a group, a candidate has weight only for the part of its summed gain above
    CAUTION sqrt(1 - 1 / n) standard errors. The candidate "last target" has weight for its whole
    gain. After a group of several rows, sums of gains fade fast (GROUP_FADING), because the first
    groups have the largest errors. Sums of squared gains fade by the squared factor, so that they
    remain the variance of the summed gain.
    """
    if not (scale > 0.0 and math.isfinite(y)):
        return
    K, new, largest, total = f.shape[0], group[f.shape[0]] != number, 0.0, 0.0
    error = (y_hat - y) / scale
    clipped = min(FARTHEST_ERROR, max(-FARTHEST_ERROR, error))
    old, old_squares = _fading(group[K + 1])  # if ``new``, of the group before, which is complete
    group[K + 1] = 1.0 if new else group[K + 1] + 1.0
    share = FIRST_SHARE if new else 1.0
    caution = CAUTION * math.sqrt(1.0 - 1.0 / group[K + 1])
    fading, of_squares = _fading(group[K + 1])
    for i in range(K):
        if new:
            regrets.total[i] = old * regrets.total[i] + group[i]
            regrets.squares[i] = old_squares * regrets.squares[i] + group[i] * group[i]
            group[i] = 0.0
        off = y_hat - f[i]
        if abs(off) > ROUNDING * abs(y_hat):
            off /= scale
            group[i] += (2.0 * clipped - share * off) * off
        largest = max(largest, of_squares * regrets.squares[i] + group[i] * group[i])
    group[K] = number
    for i in range(K):
        gain = fading * regrets.total[i] + group[i]
        squares = of_squares * regrets.squares[i] + group[i] * group[i]
        if i != LAST_VALUE:
            gain -= caution * math.sqrt(squares)
        regrets.w[i] = gain / (squares + REGRET_FLOOR * largest) if gain > 0.0 else 0.0
        total += regrets.w[i]
    for i in range(K):
        regrets.w[i] = regrets.w[i] / total if total > 0.0 else 1.0 * (i == LAST_VALUE)
    noise[0] = NOISE_FADING * noise[0] + error * error
    noise[1] = NOISE_FADING * noise[1] + 1.0


@compiled
def _mix(regrets, group, noise, scale, candidates, y, starts, learns, rounds, y_hat, deviation):
    """Write the predictions of all rows of a group, then learn their targets."""
    for g in range(starts.shape[0] - 1):
        for r in range(starts[g], starts[g + 1]):
            y_hat[r] = mixture_of(regrets.w, candidates[r])
            deviation[r] = scale[r] * _deviation(noise)
            if not scale[r] > 0.0:  # no units
                y_hat[r] = candidates[r, LAST_VALUE]
                deviation[r] = math.nan
        if learns:
            for r in range(starts[g], starts[g + 1]):
                _learn_row(
                    regrets, group, noise, scale[r], candidates[r], y_hat[r], y[r], rounds[r]
                )


@compiled
def _learn_mixture(regrets, group, noise, scale, candidates, y_hat, y, rounds):
    for r in range(y.shape[0]):
        _learn_row(regrets, group, noise, scale[r], candidates[r], y_hat[r], y[r], rounds[r])


# --- Seasons --------------------------------------------------------------------------------------
#
# A season is a local peak, over lags k, of the autocorrelation of the changes of the series. Let
# d_t be the change of a series at row t, divided by its mean absolute change, and c_t(k) the sum of
# d_t d_{t-k} over all series. z(k) is the sum of c_t(k) over the rows t, in standard errors. The
# standard error uses the mean square of c_t(k), which is valid even if series share shocks. A
# season makes this mean square large at its own lags, so the median over all lags is taken. For
# white noise and random walks z stays below LEAST_Z at all lags.


SEARCHED = 1500  # number of first rows of each series in which seasons are searched
LONGEST = 500  # largest length of a season, in rows
SHORTEST = 4  # smallest length; shorter seasons are covered by the lags of every series
LEAST_Z, LEAST_CORRELATION = 6.5, 0.1
# Peaks of a slow season, in changes of means of SLOW rows. Overlapping means raise z.
SLOW, LEAST_Z_OF_SLOW, LEAST_SLOW_CORRELATION = 8, 15.0, 0.3
LEAST_Z_OF_CALENDAR = 2.5  # for the few lengths that the spacing of dates suggests
FARTHEST_CHANGE = 4.0  # limit of a change, in mean absolute changes of its series
NEARLY = 0.9  # share of the highest peak from which on a peak at a shorter lag is preferred
# Days between two rows of a series, and the seasons that are then likely.
CALENDAR = ((1.0, (7, 364, 365)), (7.0, (52,)), (30.4, (12,)), (91.3, (4,)))


def calendar_seasons(days: float) -> tuple[int, ...]:
    """Return likely seasons, in rows, of series whose rows are ``days`` days apart."""
    if 0.0 < days < 0.75:
        return round(1.0 / days), round(7.0 / days)
    found = [seasons for step, seasons in CALENDAR if abs(days / step - 1.0) < 0.1]
    return found[0] if found else ()


def find_seasons(y: np.ndarray, slots: np.ndarray, likely: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the lengths of the seasons of many series.

    Parameters
    ----------
    y, slots
        Target (n,) and series (n,) of each row, in the order of the rows. An unknown target is NaN.
    likely
        Lengths in rows, in ascending order, for which a lower peak of the autocorrelation suffices.
        When one of these seasons is found, it is removed before the next length is tested: the mean
        change at each of its phases is subtracted.

    Returns
    -------
    tuple of int
        Lengths in rows, in ascending order: at most two, plus those of ``likely`` that were
        found. () if there is no season.
    """
    order = np.argsort(slots, kind="stable")
    parts = np.split(y[order], np.flatnonzero(np.diff(slots[order])) + 1)
    changes = []
    for part in parts:
        d = np.diff(part[:SEARCHED]) if len(part) > SHORTEST else np.empty(0)
        usual = np.nanmean(np.abs(d)) if np.isfinite(d).any() else 0.0
        if usual > 0.0:
            far = FARTHEST_CHANGE * usual
            changes.append(np.clip(d - np.nanmean(d), -far, far) / usual)
    r, z = _autocorrelation(changes)
    peaks = [k for k in _peaks(r) if r[k] >= LEAST_CORRELATION and z[k] >= LEAST_Z]
    found = set(_highest(peaks, r))
    for m in likely:
        if m in _peaks(r) and z[m] >= LEAST_Z_OF_CALENDAR:
            found.add(m)
            changes = [d - _of_phases(d, m) for d in changes]
            r, z = _autocorrelation(changes)
    return tuple(sorted(found)) or _slow_season(changes)


def _slow_season(changes: Sequence[np.ndarray]) -> tuple[int, ...]:
    """Return (length,) of a season that is longer than 2 SLOW rows, or () if there is none.

    In the changes (T,) from row to row, noise may hide such a season. The changes from the mean of
    SLOW rows to the mean of the next SLOW rows have less noise, and more of the season.
    """
    weights = np.convolve(np.ones(SLOW), np.ones(SLOW)) / SLOW
    long = [np.nan_to_num(d) for d in changes if len(d) >= len(weights)]
    r, z = _autocorrelation([np.convolve(d, weights, "valid") for d in long])
    is_peak = (r >= LEAST_SLOW_CORRELATION) & (z >= LEAST_Z_OF_SLOW)
    return tuple(_highest([k for k in _peaks(r) if is_peak[k] and k > 2 * SLOW], r)[:1])


def _peaks(r: np.ndarray) -> list[int]:
    """Return the lags of peaks of the autocorrelation r, if r is negative at a shorter lag.

    The changes within a season sum to 0, so r is negative at a lag below the length of the season.
    Without such a lag, a high r comes from changes that differ in mean or size over time, as in
    sorted targets.
    """
    lags = range(2, len(r) - 1)
    return [k for k in lags if r[k] > max(r[k - 1], r[k + 1]) and r[1:k].min() < 0.0]


def _highest(peaks: list[int], r: np.ndarray) -> list[int]:
    """Return the lags of at most two of the ``peaks`` of the autocorrelation r.

    The first lag is the shortest one whose peak is at least NEARLY times as high as the highest
    peak. If the first lag is less than SHORTEST, the list is empty. The second lag has the highest
    peak among the peaks at divisors of the first lag (above LAST_LAG). If no divisor has a peak,
    the second lag is that of the highest peak of all, or again the first lag if the highest peak
    is at twice the first lag. Noise moves a peak by a few rows: ``_corrected``.
    """
    highest = max(peaks, key=lambda k: r[k], default=0)
    first = next((k for k in peaks if r[k] >= NEARLY * r[highest]), 0)
    if first < SHORTEST:
        return []
    others = [k for k in peaks if LAST_LAG < k < first and first % k == 0]
    other = first if highest == 2 * first else highest  # twice a season is a lag of its inputs
    return [_corrected(k, r) for k in (first, max(others, key=lambda k: r[k], default=other))]


def _corrected(k: int, r: np.ndarray) -> int:
    """Return the lag m, within a tenth of k, for which the mean of r at m, 2 m, 3 m, .. is highest.

    If m is wrong by one row, j m is wrong by j rows, and r is lower there.
    """
    w, longest = max(1, k // 10), len(r) - 1
    near = range(k - w, min(k + w, longest) + 1)
    n = longest // near[-1]
    return max((k, *near), key=lambda m: r[m : n * m + 1 : m].mean())  # k wins a tie


def _of_phases(d: np.ndarray, m: int) -> np.ndarray:
    """Return an array (T,): for each of the changes d (T,), the mean of all changes of its phase.

    The phase of a change is its index modulo m, the number of rows of a season.
    """
    phases, known = np.arange(len(d)) % m, np.isfinite(d)
    sums = np.bincount(phases[known], d[known], m)
    return (sums / np.maximum(np.bincount(phases[known], minlength=m), 1))[phases]


def _autocorrelation(changes: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the autocorrelation r (L,) of the changes of many series, and z (L,), by lag.

    z is the sum of products of changes at this lag, in standard errors (comment at LEAST_Z).
    """
    T = max(map(len, changes), default=0)
    n_lags = min(LONGEST, T // 3) + 2
    products = np.zeros((n_lags, T))
    for d in map(np.nan_to_num, changes):
        for k in range(min(n_lags, len(d))):
            products[k, k : len(d)] += d[k:] * d[: len(d) - k]
    sums, n_products = products.sum(axis=1), T - np.arange(n_lags)
    if n_lags <= SHORTEST or not sums[0] > 0.0:
        return np.zeros(0), np.zeros(0)
    usual = np.sqrt(np.median(np.square(products).sum(axis=1)[2:] / n_products[2:]))
    return sums / sums[0], sums / (max(usual, TINY) * np.sqrt(n_products))
