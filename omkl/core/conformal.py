"""Intervals around the predictions of any learner, whose coverage adapts to changes of a stream.

Paper    I. Gibbs, E. J. Candes, "Adaptive conformal inference under distribution shift", NeurIPS
         2021, has one rate. Their "Conformal inference for online prediction with arbitrary
         distribution shifts", JMLR 25 (2024), mixes several rates (DtACI). The texts were not
         available. The rates rate_k, eta and c below are quoted from other sources.
Symbols  y_t, y_hat_t  target and prediction of row t
         alpha         share of targets that may lie outside their intervals, 1 - ``level``
         a_k, rate_k   adaptive levels, used in place of alpha, and their step sizes, k = 1 .. K
         w_k           weights of the a_k, of sum 1
         W             number of stored scores, ``WINDOW``
Round    1. The score of a row is s_t = |y_t - y_hat_t|. q(a) is the ceil((1 - a)(n + 1))-th
            smallest of the last n <= W scores.
         2. The interval is y_hat_t +- q(sum w_k a_k).
         3. When the target arrives, r stored scores are less than s_t. b = 1 - r / (n + 1) is the
            largest level whose interval contains the target. Every a_k moves by
            rate_k (alpha - [a_k > b]), with [a_k > b] = 1 for a miss, else 0. w_k is multiplied by
            exp(-eta loss(b, a_k)) with the pinball loss(b, a) = alpha (b - a) - min(0, b - a). The
            w_k are then scaled to sum 1 and mixed with equal weights: w_k <- (1 - c) w_k + c / K.
            The rates c = 1 / (2 * 500) and eta are chosen for 500 rows.
         4. A row is "far out" if an input is far outside its usual range. These rows have their own
            levels a'_k and weights w'_k, which move in the same way, but only with rows far out.
            Their interval uses the lower of the two mixed levels, so it is never narrower than the
            interval of another row.
         5. Rows of a group, such as the rows of one date, were all predicted before any of their
            targets arrived. They share shocks, so g rows of a group count as sqrt(g) rows. a_k
            moves from its value before the group by min(1, rate_k sqrt(g)) (alpha - m_k), where m_k
            is the mean of [a_k > b] over these g rows. w_k is multiplied by exp(-eta sqrt(g) l_k),
            where l_k is the mean loss of a_k over the g rows.
Differs  In the paper the interval is the whole line for a < 1 / (n + 1). Here q(a) is then the
         largest stored score times exp(3 (1 / (n + 1) - a)). If s_t exceeds the largest stored
         score, b is the level at which this q reaches s_t. So each miss widens the interval, and
         levels below b rise again. Levels are at least -1. q is 0 for a >= 1. Two limits hold after
         20 scores. The half-width is at most twice the range of the targets so far. A score is
         stored as at most 4 times the largest stored one. So a single wrong target does not widen
         later intervals by its full size. A row without a target changes nothing. Separate levels
         for categories of rows are Mondrian conformal prediction (V. Vovk,
         A. Gammerman, G. Shafer, "Algorithmic Learning in a Random World", 2005). Here both
         categories share the scores.
Bound    With one rate, the coverage of T rows with targets is within (2 + rate) / (rate T) of
         ``level``, on any stream whose scores are at most exp(3) times the largest stored one and
         whose errors are at most twice the range of earlier targets. The proof is that of
         proposition 4.1 of the first paper: levels stay in [-1, 1 + rate], and each step of a level
         counts a miss or a hit. Rows far out are not included. The coverage of T rows far out is
         at least ``level`` minus the same term. With the levels a'_k alone it would be within this
         term of ``level``, and the intervals are never narrower than with a'_k alone.
         No bound is claimed for a mixture of several rates.

>>> import numpy as np
>>> from omkl.core.conformal import Conformal
>>> intervals = Conformal(0.9)
>>> error = np.random.default_rng(0).standard_normal(5000)
>>> error[2500:] *= 5.0
>>> half = intervals.follow(np.zeros(5000), error)
>>> round(float(np.mean(np.abs(error[3000:]) <= half[3000:])), 2)
0.9
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.core import snapshot
from omkl.core.compiler import compiled, inlined, specialise_on_first_call
from omkl.core.hyperparameters import COUNTS, DERIVED
from omkl.core.simd import LANES, load, store
from omkl.core.weights import n_less
from omkl.utils.constraints import is_number, shown


class IntervalSettings(NamedTuple):
    """Settings of intervals.

    level  share of targets that should lie in their intervals, in (0, 1)
    rate   step size of the adaptive level; None for a mixture of several rates
    """

    level: float
    rate: float | None


def interval_of(level: Any, rate: Any, where: str = "") -> IntervalSettings | None:
    """Check the settings of intervals, and return them; None for no intervals.

    Parameters
    ----------
    level, rate
        Settings ``interval`` and ``interval_rate``: numbers in (0, 1), or None.
    where
        Description of a task without intervals, such as "a classification". "" if the task has
        them.

    Raises
    ------
    ValueError
        Names the setting and its valid values.
    """
    for key, value in (("interval", level), ("interval_rate", rate)):
        if value is not None and not (is_number(value) and 0 < value < 1):
            raise ValueError(f"{key}={shown(value)} is not a number between 0 and 1, or null")
    if level is None:
        if rate is not None:
            raise ValueError(f"interval_rate={rate!r} needs an interval: add interval=0.9")
        return None
    if where:
        raise ValueError(
            f"interval={level!r} is only available for regression of one stream: this is {where}"
        )
    return IntervalSettings(level, rate)


# --- The last scores of predictions, kept sorted --------------------------------------------------
#
# A score is the absolute error of a prediction. A window has scores (W,) in order of arrival, and
# ordered (W,), the same scores ascending. After n scores the next one goes to place n modulo W.


WINDOW = 1000  # scores in a window
TIE = 1e-9  # levels and ranks that differ by less count as equal, so that rounding does not matter


@inlined
def quantile(ordered, n, level):
    """Return the ceil((1 - level) (n + 1))-th smallest of n scores, or 0 if this rank is 0.

    The rank counts the score of the next row, which is unknown, as an (n + 1)-th score. If the rank
    is n + 1, the largest of the n scores is returned.

    Parameters
    ----------
    ordered
        Scores (W,), the first n ascending.
    n
        Number of scores, >= 1.
    level
        Share of scores that may lie above the result; 1 or more gives 0.
    """
    place = math.ceil((1.0 - min(1.0, level)) * (n + 1.0) - TIE)
    return ordered[min(place, n) - 1] if place > 0 else 0.0


@inlined
def level_of(place, n):
    """Return the largest level at which ``quantile`` returns at least the score of rank ``place``.

    A level is a share of missed targets, so ``quantile`` falls as the level rises. ``place`` is a
    rank among n scores. Rank 1 is the smallest score.
    """
    return 1.0 - place / (n + 1.0)


@inlined
def replace_oldest(scores, ordered, n_so_far, score):
    """Replace the oldest score of a window by a new one.

    Return the number of scores in the window that are less than the new score.

    Parameters
    ----------
    scores, ordered
        Window (W,): scores in order of arrival, and ascending.
    n_so_far
        Number of scores that were put into the window before this one.
    score
        New score.
    """
    W = scores.shape[0]
    at = n_so_far % W
    place = n_less(ordered, min(n_so_far, W), score)
    # Index in ``ordered`` of the score that leaves.
    free = min(n_less(ordered, W, scores[at]), W - 1) if n_so_far >= W else n_so_far
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
    """Move ordered[first + 1 : last + 1] to ordered[first:last], eight at a time."""
    k = first
    while k + LANES <= last:
        store(ordered, k, load(ordered, k + 1))
        k += LANES
    while k < last:
        ordered[k] = ordered[k + 1]
        k += 1


@inlined
def _shift_up(ordered, first, last):
    """Move ordered[first:last] to ordered[first + 1 : last + 1], eight at a time."""
    k = last
    while k - LANES >= first:
        store(ordered, k - LANES + 1, load(ordered, k - LANES))
        k -= LANES
    while k > first:
        ordered[k] = ordered[k - 1]
        k -= 1


# --- Intervals ------------------------------------------------------------------------------------


RATES = tuple(0.001 * 2.0**k for k in range(8))
HORIZON = 500  # number of rows for which eta and c of the mixture are chosen
MOST = 2.0  # limit of the half-width, in ranges of the targets so far
GROWTH = 3.0  # slope of log(q) at levels below the level of the largest stored score
LEAST_LEVEL = -1.0
FARTHEST = 4.0  # limit of a stored score, in multiples of the largest stored one
ALONE = -1.0  # number of the group of a row that is alone
N_FARTHEST = 20  # number of scores after which half-widths and scores have these limits

# Columns of ``units`` in ``SeriesConformal``: the number of targets of a series, the running mean
# of its absolute errors, and its smallest and largest target.
LABELS, ERROR, LEAST, LARGEST = range(4)
NO_LABELS = (0.0, 0.0, np.inf, -np.inf)
FADES = 50.0  # memory, in errors, of the mean of the absolute errors of a series
FARTHEST_OF_SERIES = 8.0  # limit of an error in this mean, in units of the mean


class State(NamedTuple):
    """State of ``Conformal`` with K rates and W scores. The module docstring defines the symbols.

    rates, levels, weights   (K,) rate_k, a_k and w_k
    far_levels, far_weights  (K,) a'_k and w'_k of rows far out
    scores    (W,) last scores; the next score is stored at index ``n`` modulo W
    ordered   (W,) the same scores in ascending order, then infinity
    n         (1,) number of scores so far
    labels    (2,) smallest and largest target so far
    group     (3,) number of the present group, its rows so far, and its rows far out so far
    before    (4, K) levels, weights, far_levels and far_weights from before this group
    sums      (4, K) sums over the rows of this group: of their misses and of their losses, then of
              the misses and of the losses of its rows far out
    """

    rates: np.ndarray
    levels: np.ndarray
    weights: np.ndarray
    far_levels: np.ndarray
    far_weights: np.ndarray
    scores: np.ndarray
    ordered: DERIVED
    n: COUNTS
    labels: np.ndarray
    group: np.ndarray
    before: np.ndarray
    sums: np.ndarray


class Conformal:
    """Half-widths of intervals around predictions, which adapt to each target that arrives.

    Parameters
    ----------
    level
        Share of targets that should lie in their intervals, in (0, 1).
    rates
        Step sizes of the adaptive level, in (0, 1]. With a larger rate the interval follows a
        change sooner, and its width varies more. One rate gives the method of the paper of 2021.
        Several rates are mixed as in the paper of 2024.
    """

    def __init__(self, level: float, rates: Sequence[float] = RATES) -> None:
        if not 0.0 < level < 1.0:
            raise ValueError(f"an interval's level is between 0 and 1; got {level!r}")
        if not rates or not all(0.0 < rate <= 1.0 for rate in rates):
            raise ValueError(f"rates of intervals are in (0, 1]; got {list(rates)!r}")
        self.level = level
        K, alpha = len(rates), 1.0 - level
        self.state = State(
            rates=np.array(rates, dtype=float),
            levels=np.full(K, alpha),
            weights=np.full(K, 1.0 / K),
            far_levels=np.full(K, alpha),
            far_weights=np.full(K, 1.0 / K),
            scores=np.zeros(WINDOW),
            ordered=np.full(WINDOW, np.inf),
            n=np.zeros(1, dtype=np.int64),
            labels=np.array([np.inf, -np.inf]),
            group=np.zeros(3),
            before=np.zeros((4, K)),
            sums=np.zeros((4, K)),
        )
        varies = level**2 * alpha**3 + alpha**2 * level**3
        eta = math.sqrt(3.0 / HORIZON * (math.log(K * HORIZON) + 2.0) / varies)
        self._constants = (alpha, eta)
        # Arrays of ``learn``, for one prediction.
        self._row = (*np.zeros((4, 1)), np.zeros(1, dtype=np.bool_))

    def half_width(self, far: bool = False) -> float:
        """Return the half-width of the next interval; NaN before the first target.

        ``far`` states whether an input of the next row is far outside its usual range.
        """
        return self.learn(0.0, math.nan, far)

    def learn(self, y_hat: float, y: float, far: bool = False, group: float = ALONE) -> float:
        """Return the half-width of the interval of one prediction, then learn its target.

        Parameters
        ----------
        y_hat, y
            Prediction and target; NaN for an unknown target.
        far
            Whether an input of the row is far outside its usual range.
        group
            Number of the row's group, see ``follow``.
        """
        prediction, label, half, groups, is_far = self._row
        prediction[0], label[0], groups[0], is_far[0] = y_hat, y, group, far
        _learn_one(self.state, prediction, label, is_far, groups, half, *self._constants)
        return float(half[0])

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        """Set the arrays of ``state`` to saved copies, given by name.

        Raises ``snapshot.Mismatch`` if they do not fit.
        """
        snapshot.restore_arrays(self.state, kept)
        n, ordered = min(int(self.state.n[0]), WINDOW), self.state.ordered
        ordered[:n], ordered[n:] = np.sort(self.state.scores[:n]), np.inf

    def follow(
        self,
        y_hat: np.ndarray,
        y: np.ndarray,
        far: np.ndarray | None = None,
        groups: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the half-width (n,) of each prediction, computed before its target is learned.

        Parameters
        ----------
        y_hat, y
            Predictions and targets (n,). A target is NaN if it is unknown.
        far
            bool (n,), whether an input of each row is far outside its usual range; None if no row
            has such an input.
        groups
            Number (n,) >= 0 of the group of each row, or ALONE. Consecutive rows of a group were
            all predicted before any of their targets arrived. None: each row is alone.
        """
        half = np.empty(len(y_hat))
        groups = np.full(len(y), ALONE) if groups is None else groups
        y_hat, y, groups = (np.ascontiguousarray(a, dtype=float) for a in (y_hat, y, groups))
        far = np.zeros(len(y), dtype=np.bool_) if far is None else np.ascontiguousarray(far)
        _follow(self.state, y_hat, y, far, groups, half, *self._constants)
        return half


class SeriesConformal(Conformal):
    """Intervals of many series that share one window of scores.

    The score of a row is its absolute error divided by the mean absolute error of its series. Each
    series has a row of ``units`` (S, 4): number of targets, running mean of absolute errors,
    smallest and largest target.

    The running mean covers about the last ``FADES`` errors. After ``N_FARTHEST`` errors,
    an error counts in the mean as at most ``FARTHEST_OF_SERIES`` times the mean. After n errors the
    mean is multiplied by 1 + 1 / n, because it is uncertain. The interval is NaN before the first
    error of a series. As long as the mean is 0, errors of the series are not used as scores.
    """

    def follow_series(
        self, units: np.ndarray, slots: np.ndarray, y_hat: np.ndarray, y: np.ndarray, late: int
    ) -> np.ndarray:
        """Return the half-width (n,) of each prediction, computed before its target is learned.

        The rows belong to many series and are processed in the given order.

        Parameters
        ----------
        units
            Array (S, 4) of the class docstring, updated in place.
        slots
            Row of ``units`` of each prediction (n,).
        y_hat, y
            Predictions and targets (n,). A row whose target is NaN changes nothing.
        late
            Number of targets at the start of each series whose errors are not used, neither as
            scores nor in the running mean.
        """
        half = np.empty(len(y_hat))
        y_hat, y = (np.ascontiguousarray(a, dtype=float) for a in (y_hat, y))
        _follow_series(self.state, units, slots, y_hat, y, late, half, *self._constants)
        return half


@inlined
def _reach(ordered, n, level):
    """Return the half-width for a level: q(a) of the module docstring.

    It equals ``quantile`` for levels from 1 / (n + 1) on. For a lower level it is the largest score
    times a factor that grows as the level falls.
    """
    above = 1.0 / (n + 1.0) - level
    if above <= TIE:
        return quantile(ordered, n, level)
    return ordered[n - 1] * math.exp(GROWTH * above)


@inlined
def _level_of_score(ordered, n, place, score):
    """Return the level, >= -1, below which ``_reach`` is at least ``score``.

    ``place`` is the number of the n scores in ``ordered`` that are less than ``score``.
    """
    largest = ordered[n - 1]
    if place < n or not score > largest:
        return level_of(place, n)
    if not largest > 0.0:
        return LEAST_LEVEL
    return max(LEAST_LEVEL, level_of(n, n) - math.log(score / largest) / GROWTH)


@inlined
def _learn(rates, levels, weights, before, sums, at, n, b, alpha, eta):
    """Update levels and weights (K,) by the n-th target of a group.

    b is the largest level whose interval contains the target. Row ``at`` of ``before`` has the
    levels before the group, and row ``at + 1`` the weights before the group. The same rows of
    ``sums`` have the summed misses and losses of the group.
    """
    K, root = rates.shape[0], math.sqrt(n)
    total = 0.0
    for k in range(K):
        if n == 1.0:
            before[at, k], before[at + 1, k] = levels[k], weights[k]
            sums[at, k] = sums[at + 1, k] = 0.0
        off = b - before[at, k]
        sums[at, k] += 1.0 if off < -TIE else 0.0
        sums[at + 1, k] += alpha * off - min(0.0, off)  # pinball loss
        weights[k] = before[at + 1, k] * math.exp(-eta * sums[at + 1, k] / root)
        total += weights[k]
        levels[k] = before[at, k] + min(1.0, rates[k] * root) * (alpha - sums[at, k] / n)
        levels[k] = max(LEAST_LEVEL, levels[k])
    share = 1.0 / (2.0 * HORIZON)
    for k in range(K):
        weights[k] = (1.0 - share) * weights[k] / total + share / K


@inlined
def _mixed(levels, weights):
    """Return the mean of levels (K,) with weights (K,)."""
    level = 0.0
    for k in range(levels.shape[0]):
        level += weights[k] * levels[k]
    return level


@inlined
def _half_width(state, far):
    """Return the half-width of the next interval.

    ``far`` states whether an input of the next row is far outside its usual range.
    """
    n = min(state.n[0], state.scores.shape[0])
    if n == 0:
        return math.nan
    level = _mixed(state.levels, state.weights)
    if far:
        level = min(level, _mixed(state.far_levels, state.far_weights))
    half = _reach(state.ordered, n, level)
    span = state.labels[1] - state.labels[0]
    return min(half, MOST * span) if n >= N_FARTHEST and span > 0.0 else half


@compiled
def _follow(state, y_hat, y, far, groups, half, alpha, eta):
    """Write the half-width of each row to half (n,), then learn the target of the row."""
    for s in range(y_hat.shape[0]):
        half[s] = _half_width(state, far[s])
        if math.isfinite(y[s]):
            state.labels[0] = min(state.labels[0], y[s])
            state.labels[1] = max(state.labels[1], y[s])
        score = abs(y[s] - y_hat[s])
        if math.isfinite(score):
            _learn_score(state, score, far[s], groups[s], alpha, eta)


@inlined
def _learn_score(state, score, far, number, alpha, eta):
    """Update the levels by the rank of a new score, then store the score in the window.

    ``far`` states whether the row is far out, and ``number`` is the number of its group.
    """
    n, group = min(state.n[0], state.scores.shape[0]), state.group
    if number < 0.0 or number != group[0]:
        group[0], group[1], group[2] = number, 0.0, 0.0
    if n > 0:
        place = n_less(state.ordered, n, score)
        b = _level_of_score(state.ordered, n, place, score)
        group[1] += 1.0
        _learn(
            state.rates, state.levels, state.weights, state.before, state.sums, 0,
            group[1], b, alpha, eta,
        )  # fmt: skip
        if far:
            group[2] += 1.0
            _learn(
                state.rates, state.far_levels, state.far_weights, state.before, state.sums, 2,
                group[2], b, alpha, eta,
            )  # fmt: skip
    largest = state.ordered[n - 1] if n > 0 else 0.0
    if n >= N_FARTHEST and largest > 0.0:
        score = min(score, FARTHEST * largest)
    replace_oldest(state.scores, state.ordered, state.n[0], score)
    state.n[0] += 1


_learn_one = specialise_on_first_call(_follow)


@compiled
def _follow_series(state, units, slots, y_hat, y, late, half, alpha, eta):
    """Do the same as ``_follow`` for many series.

    The score of a row is divided by the mean error of its series.
    """
    for r in range(y_hat.shape[0]):
        s = slots[r]
        n_errors = max(units[s, LABELS] - late, 0.0)
        half[r] = math.nan
        unit = 0.0
        if n_errors > 0.0:
            unit = units[s, ERROR] * (1.0 + 1.0 / n_errors)
            half[r] = unit * _half_width(state, False)
            span = units[s, LARGEST] - units[s, LEAST]
            if n_errors >= N_FARTHEST and span > 0.0:
                half[r] = min(half[r], MOST * span)
        score = abs(y[r] - y_hat[r])
        if not math.isfinite(score):
            continue
        if units[s, LABELS] >= late:
            if unit > 0.0:
                _learn_score(state, score / unit, False, ALONE, alpha, eta)
            error = units[s, ERROR]
            if n_errors >= N_FARTHEST and error > 0.0:
                score = min(score, FARTHEST_OF_SERIES * error)
            units[s, ERROR] += (score - error) / min(n_errors + 1.0, FADES)
        units[s, LABELS] += 1.0
        units[s, LEAST] = min(units[s, LEAST], y[r])
        units[s, LARGEST] = max(units[s, LARGEST], y[r])
