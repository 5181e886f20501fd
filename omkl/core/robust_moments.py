"""Location and scale of columns, updated row by row and robust to any single number.

Each column has two estimates, called HOME and AWAY. HOME uses all rows of the column. AWAY uses the
rows since the column changed its level. HOME is in use until a change is found, then AWAY.

HOME is a mean m and a deviation s of the n numbers so far. A number that is farther from m than
c_n s, with c_n = 8 (1 + 20 / n), counts as a number at this distance:

    m <- m + s psi((x - m) / s) / n,   s^2 <- mean of (s psi((x - m) / s))^2 about m,
    psi(u) = min(c_n, max(-c_n, u)).

As n grows, m and s tend to the location and scale of Huber's proposal 2 (P. J. Huber, "Robust
estimation of a location parameter", Annals of Mathematical Statistics 35, 1964). The recursive form
with steps 1 / n is that of J.-E. Englund, U. Holst, D. Ruppert, "Recursive M-estimators of location
and scale for dependent sequences", Scandinavian Journal of Statistics 15, 1988.

One number moves m by at most c_n s / n and s^2 by at most c_n^2 s^2 / n. If no number is farther
from m than c_n s, then m and s are exactly the mean and the standard deviation. Three cases need
more:

Base. In some columns more than half of the numbers equal one number b, the base (a constant, a
category coded as 0 and 1, rainfall). The deviation is then nearly 0, and every other number would
be clipped although it is correct. The limit for a column with a base is therefore taken from the k
numbers different from b: a number farther from b than c_k r counts as a number at this distance,
where r^2 is the mean of (x - b)^2 over these k numbers. As long as s = 0, no number is limited.

Change. A number is outside if it is farther than 4 s from m. In a column with a base it must also
be farther than c_k r from b. Two shares of outside numbers are computed: the short share, with a
memory of about ten numbers, and the long share, with a memory of about a hundred. If both exceed
one half, AWAY is used and HOME stays unchanged. As long as AWAY is not used, outside numbers are
left out of HOME while the long share exceeds a quarter or, in a column without a base, the short
share exceeds one half. If the short share falls below a fifth, HOME is used again, for example when
a fault of a sensor ends. After 5,000 rows, or after as many rows as HOME has, AWAY becomes HOME.
Bursts of some dozen rows, such as rain or one block of an experiment, do not count as a change.

Frozen units. The coefficients of a linear learner depend on the units of its inputs. If the units
change, its predictions for numbers far from m change a lot. ``frozen`` returns (x - c) / u with a
centre c and a unit u that stay constant until m is farther than 3 u from c, s is above 10 u, or s
is below u / 10. Then c is set to m, and u to s. During the first 20 numbers c = m and u = s.

Standardised numbers (x - m) / s are not limited. ``softened`` compresses numbers beyond 4 for
learners that need bounded inputs.

The state is an array (C, N_NUMBERS), one row per column. Rows are processed one by one, so results
do not depend on the split into blocks.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np

from omkl.core.compiler import compiled_strict, inlined
from omkl.core.hyperparameters import Range

FAR = 4.0  # deviations; one in 16,000 numbers of a normal column is farther from the mean
MOST = 8.0  # deviations; limit of a number's influence. One in 8^2 = 64 numbers can be so far out
YOUNG = 20.0  # numbers; the deviation of fewer numbers is uncertain
RECENT, LONGER = 10.0, 100.0  # memories, in rows, of the two shares of outside numbers
LEAVES, RETURNS, CALM = 0.5, 0.2, 0.25  # shares: use AWAY, use HOME again, restart AWAY
LONG = 5000.0  # rows after which AWAY becomes HOME
NO_SHARE = 1e-19  # shares below count as 0: less than half the last digit of 1 / LONGER
SHIFT, RATIO = 3.0, 10.0  # shift and ratio, in units u, at which frozen units are renewed

# Indices of a column's numbers.
# HOME, AWAY        number n of an estimate; its mean (MEAN) and sum of squared deviations (SQUARES)
#                   follow
# BASE, VOTES       base, and its votes in the majority vote of R. S. Boyer and J. S. Moore
# SAME, OTHERS      number of rows equal to the base, and of other rows, since it was chosen
# OTHER_SQUARES     sum of squared distances of the other rows from the base
# OUTSIDE           share of outside numbers with memory RECENT; OUTSIDE_LONG with memory LONGER
# IS_AWAY           1.0 if AWAY is in use, 0.0 if HOME is
# COUNT, BEYOND     number of all numbers, and of those beyond FAR deviations that a base does not
#                   explain
# FROZEN_HOME, FROZEN_AWAY   frozen c of an estimate; u follows
HOME, AWAY = 0, 3
MEAN, SQUARES = 1, 2
BASE, VOTES, SAME, OTHERS, OTHER_SQUARES = 6, 7, 8, 9, 10
OUTSIDE, IS_AWAY, COUNT, BEYOND = 11, 12, 13, 14
FROZEN_HOME, FROZEN_AWAY = 15, 17
OUTSIDE_LONG = 19
N_NUMBERS = 20
# Counts, squares, shares and units.
NON_NEGATIVE = (
    *(HOME, HOME + SQUARES, AWAY, AWAY + SQUARES, VOTES, SAME, OTHERS, OTHER_SQUARES, OUTSIDE),
    *(IS_AWAY, COUNT, BEYOND, FROZEN_HOME + 1, FROZEN_AWAY + 1, OUTSIDE_LONG),
)
MOMENTS = Annotated[np.ndarray, Range(0.0, columns=NON_NEGATIVE)]  # (C, N_NUMBERS)


def no_moments(n_columns: int) -> np.ndarray:
    """Return the state (n_columns, N_NUMBERS) before the first row."""
    return np.zeros((n_columns, N_NUMBERS))


@inlined
def softened(z):
    """Compress a standardised number z beyond FAR: to sign(z) (FAR + log(1 + |z| - FAR)).

    A number with |z| <= FAR is returned as it is.
    """
    beyond = abs(z) - FAR
    if beyond > 0.0:
        return math.copysign(FAR + math.log1p(beyond), z)
    return z


@inlined
def in_units(off, unit, most):
    """Return off / unit, clipped to [-most, most].

    If the unit is 0, return 0 for off = 0, else -most or most by the sign of ``off``.

    Parameters
    ----------
    off
        Difference from the location.
    unit
        Scale, >= 0.
    most
        Limit, > 0.
    """
    if unit > 0.0:
        return min(max(off / unit, -most), most)
    return math.copysign(most, off) if abs(off) > 0.0 else off


@inlined
def deviation_of(state, k, at):
    """Return the standard deviation s of column k by one estimate; 0 if all its numbers are equal.

    Parameters
    ----------
    state
        Moments (C, N_NUMBERS).
    k
        Column.
    at
        Estimate: HOME or AWAY.
    """
    return math.sqrt(state[k, at + SQUARES] / max(state[k, at], 1.0))


@inlined
def _has_base(state, k):
    """Return whether more than half, but not all, of the numbers of column k equal its base."""
    return state[k, OTHERS] > 0.0 and state[k, SAME] > state[k, OTHERS]


@inlined
def _clear(state, k, first, n):
    """Set ``n`` numbers of column k to 0, from index ``first`` on."""
    for j in range(first, first + n):
        state[k, j] = 0.0


@inlined
def _vote(state, k, x):
    """Count x in the majority vote (R. S. Boyer, J. S. Moore) for the base value of column k."""
    if state[k, VOTES] == 0.0 and (state[k, COUNT] == 0.0 or x != state[k, BASE]):
        state[k, BASE] = x
        _clear(state, k, SAME, 3)
    if x == state[k, BASE]:
        state[k, VOTES] += 1.0
        state[k, SAME] += 1.0
    else:
        state[k, VOTES] -= 1.0


@inlined
def _limit_of(n):
    """Return c_n: the number of deviations at which the (n + 1)-th number is clipped."""
    return MOST * (1.0 + YOUNG / max(n, 1.0))


@inlined
def _within(x, centre, most):
    """Clip x to [centre - most, centre + most]."""
    return min(centre + most, max(centre - most, x))


@inlined
def _add(state, k, at, x):
    """Add x to the estimate ``at``, HOME or AWAY (Welford's recursion)."""
    state[k, at] += 1.0
    off = x - state[k, at + MEAN]
    state[k, at + MEAN] += off / state[k, at]
    state[k, at + SQUARES] += off * (x - state[k, at + MEAN])


@inlined
def _add_bounded(state, k, at, x, least):
    """Add x to the estimate ``at``, HOME or AWAY.

    The distance of x from the mean is clipped at max(c_n s, ``least``).
    """
    s = deviation_of(state, k, at)
    if s > 0.0 and abs(x - state[k, at + MEAN]) > FAR * s:  # never clipped nearer: c_n > FAR
        most = max(_limit_of(state[k, at]) * s, least)
        x = _within(x, state[k, at + MEAN], most)
    _add(state, k, at, x)


@inlined
def _reach(state, k):
    """Return c_k r, the distance from the base up to which numbers are not limited.

    The result is 0 without a base.
    """
    if not _has_base(state, k):
        return 0.0
    return _limit_of(state[k, OTHERS]) * math.sqrt(state[k, OTHER_SQUARES] / state[k, OTHERS])


@inlined
def take_number(state, k, x, moves):
    """Add the number x to column k.

    Parameters
    ----------
    state
        Moments (C, N_NUMBERS), updated in place.
    k
        Column.
    x
        Number, not NaN.
    moves
        Whether the column may switch to AWAY.
    """
    based = _has_base(state, k)
    reach = _reach(state, k)
    off = abs(x - state[k, MEAN])
    s = deviation_of(state, k, HOME)
    is_outside = state[k, HOME] > 1.0 and off > FAR * s
    if based and state[k, OTHERS] >= YOUNG and abs(x - state[k, BASE]) <= reach:
        is_outside = False
    if moves:
        _follow(state, k, x, is_outside)
    in_fault = state[k, OUTSIDE_LONG] > CALM or (state[k, OUTSIDE] > LEAVES and not based)
    waits = is_outside and moves and in_fault
    if state[k, IS_AWAY] == 0.0 and not waits:
        _vote(state, k, x)
        if x != state[k, BASE]:
            far = x - state[k, BASE]
            if based:
                far = _within(far, 0.0, reach)
            state[k, OTHERS] += 1.0
            state[k, OTHER_SQUARES] += far * far
        least = reach + abs(state[k, BASE] - state[k, MEAN]) if based else 0.0
        _add_bounded(state, k, HOME, x, least)
        _freeze(state, k, HOME, FROZEN_HOME)
    state[k, COUNT] += 1.0


@inlined
def _share(share, is_outside, memory):
    """Return the share of outside numbers after a further number. ``memory`` is in rows."""
    if is_outside:
        return share + (1.0 - share) / memory
    # A smaller share is lost in the next sum, and would soon be subnormal, which is slow.
    return share - share / memory if share > NO_SHARE else 0.0


@inlined
def _follow(state, k, x, is_outside):
    """Add x to AWAY, and decide which of HOME and AWAY is in use."""
    if is_outside and state[k, OUTSIDE] < CALM and state[k, IS_AWAY] == 0.0:
        _clear(state, k, AWAY, 3)
    state[k, OUTSIDE] = _share(state[k, OUTSIDE], is_outside, RECENT)
    state[k, OUTSIDE_LONG] = _share(state[k, OUTSIDE_LONG], is_outside, LONGER)
    # If the share is below CALM, AWAY restarts at the next outside number, so it needs no update.
    is_read = state[k, IS_AWAY] > 0.0 or state[k, OUTSIDE] >= CALM
    if is_outside or (is_read and state[k, AWAY] > 0.0):
        _add_bounded(state, k, AWAY, x, 0.0)
        _freeze(state, k, AWAY, FROZEN_AWAY)
    if state[k, IS_AWAY] == 0.0:
        both = min(state[k, OUTSIDE], state[k, OUTSIDE_LONG])
        if both > LEAVES and state[k, AWAY + SQUARES] > 0.0:
            state[k, IS_AWAY] = 1.0
        return
    if state[k, OUTSIDE] < RETURNS:
        state[k, IS_AWAY] = 0.0
        state[k, OUTSIDE_LONG] = 0.0
        _clear(state, k, AWAY, 3)
    elif state[k, AWAY] >= min(LONG, state[k, HOME]):
        for j in range(3):
            state[k, HOME + j] = state[k, AWAY + j]
        state[k, FROZEN_HOME] = state[k, FROZEN_AWAY]
        state[k, FROZEN_HOME + 1] = state[k, FROZEN_AWAY + 1]
        state[k, IS_AWAY] = 0.0
        state[k, OUTSIDE] = 0.0
        state[k, OUTSIDE_LONG] = 0.0
        _clear(state, k, VOTES, 4)


@inlined
def centre_of(state, k):
    """Return the location m of column k, from the estimate in use."""
    return state[k, (AWAY if state[k, IS_AWAY] > 0.0 else HOME) + MEAN]


@inlined
def scale_of(state, k):
    """Return the scale s of column k, from the estimate in use; 0 if all its numbers are equal."""
    if state[k, IS_AWAY] > 0.0:
        return deviation_of(state, k, AWAY)
    return deviation_of(state, k, HOME)  # the compiler reuses the result that ``_freeze`` computes


@inlined
def _freeze(state, k, at, frozen):
    """Set the frozen c and u of the estimate ``at`` to m and s if m or s has changed too much."""
    m, s = state[k, at + MEAN], deviation_of(state, k, at)
    u = state[k, frozen + 1]
    off = abs(m - state[k, frozen]) > SHIFT * u or s > RATIO * u or s * RATIO < u
    if off or state[k, at] <= YOUNG:
        state[k, frozen] = m
        state[k, frozen + 1] = s


@inlined
def standardised(state, k, x):
    """Return (x - m) / s of column k; 0 if x is NaN or s is 0.

    Parameters
    ----------
    state
        Moments (C, N_NUMBERS).
    k
        Column.
    x
        Number or NaN.
    """
    s = scale_of(state, k)
    return 0.0 if math.isnan(x) or not s > 0.0 else (x - centre_of(state, k)) / s


@inlined
def frozen(state, k, x):
    """Return (x - c) / u with the frozen centre c and unit u of column k (module docstring).

    The result is 0 if x is NaN, and as long as u = 0.

    Parameters
    ----------
    state
        Moments (C, N_NUMBERS).
    k
        Column.
    x
        Number or NaN.
    """
    at = FROZEN_AWAY if state[k, IS_AWAY] > 0.0 else FROZEN_HOME
    u = state[k, at + 1]
    return 0.0 if math.isnan(x) or not u > 0.0 else (x - state[k, at]) / u


@inlined
def take_standardised(state, k, x, moves):
    """Add x to column k, and return x ``standardised`` by moments that include it.

    Parameters
    ----------
    state
        Moments (C, N_NUMBERS), updated in place.
    k
        Column.
    x
        Number or NaN.
    moves
        Whether the column may switch to AWAY.
    """
    if math.isnan(x):
        return 0.0
    is_of_others = _has_base(state, k) and abs(x - state[k, BASE]) <= _reach(state, k)
    take_number(state, k, x, moves)
    z = standardised(state, k, x)
    if abs(z) > FAR and not is_of_others:
        state[k, BEYOND] += 1.0
    return z


@inlined
def _take_and_mark(state, k, x):
    """Add x to column k. Return x ``standardised``, and whether it is far outside its usual range.

    x is far outside if it is more than FAR deviations from the location. If the column has a base,
    the value of most of its numbers, x must also be farther from the base than ``_reach``, which is
    computed before x is added.
    """
    n = state[k, BEYOND]
    z = take_standardised(state, k, x, True)
    return z, state[k, BEYOND] > n


@compiled_strict
def take_row(state, x, most, out, far):
    """Add a row to the moments, and write the standardised row.

    Parameters
    ----------
    state
        Moments (C, N_NUMBERS), updated in place.
    x
        Row (C,).
    most
        Largest valid absolute value. If a number exceeds it, nothing changes.
    out, far
        Output (C,): standardised numbers, and whether each is far outside its usual range.

    Returns
    -------
    bool
        Whether the row was added.
    """
    for k in range(x.shape[0]):
        if abs(x[k]) > most:
            return False
    for k in range(x.shape[0]):
        out[k], far[k] = _take_and_mark(state, k, x[k])
    return True


@compiled_strict
def standardise_rows(starts, slots, learns, moments, X, most, out, far, scratch):
    """Standardise rows of many series as ``take_row`` does. Add only those rows that are learned.

    Parameters
    ----------
    starts, slots, learns
        Runs of rows of one series: run g has the rows starts[g] .. starts[g + 1] - 1 and the slot
        slots[g] of ``moments``. If learns[g] is False, the moments of slots[g] do not change: each
        row of the run is standardised by a copy of these moments to which only this row is added.
    moments
        Moments of all slots (S, C, N_NUMBERS), updated in place.
    X
        Rows (n, C).
    most
        As in ``take_row``.
    out, far
        Output (n, C), as in ``take_row``.
    scratch
        Slot that may be overwritten.
    """
    for g in range(slots.shape[0]):
        s = slots[g]
        for r in range(starts[g], starts[g + 1]):
            if not learns[g]:
                for k in range(X.shape[1]):
                    for j in range(N_NUMBERS):
                        moments[scratch, k, j] = moments[slots[g], k, j]
                s = scratch
            take_row(moments[s], X[r], most, out[r], far[r])


@compiled_strict
def standardise_late(state, ahead, X, n_waiting, delay, out, far):
    """Standardise rows whose targets arrive ``delay`` rows later.

    Row s is standardised by the moments of the rows up to s - ``delay`` - 1 and of row s itself.
    Then row s - ``delay`` is added to the moments.

    Parameters
    ----------
    state
        Moments (C, N_NUMBERS), updated in place.
    ahead
        Scratch (C, N_NUMBERS).
    X
        Rows (n, C). The first ``n_waiting`` were standardised in an earlier call, and are not added
        to the moments yet.
    n_waiting
        Number of these first rows.
    delay
        Number of rows between a row and its target.
    out, far
        Output (n - n_waiting, C): standardised numbers, and whether each is far outside its usual
        range.
    """
    for s in range(n_waiting, X.shape[0]):
        for k in range(X.shape[1]):
            for j in range(N_NUMBERS):
                ahead[k, j] = state[k, j]
            out[s - n_waiting, k], far[s - n_waiting, k] = _take_and_mark(ahead, k, X[s, k])
            if s >= delay:
                _take_and_mark(state, k, X[s - delay, k])


@compiled_strict
def follow_targets(starts, slots, moments, last, scaled, y, X, d, out):
    """Scale targets by the targets before them, and write past targets as inputs.

    Parameters
    ----------
    starts, slots
        Runs of rows of one series: run g has the rows starts[g] .. starts[g + 1] - 1 and the slot
        slots[g].
    moments, last
        Numbers of each slot, updated in place: moments (S, 1, 20) of its known targets, and its
        last k targets (S, k), oldest first.
    scaled
        Whether to subtract the location (centre) and divide by the scale (unit). Otherwise the
        centre is 0 and the unit is 1.
    y
        Targets (n,). A NaN target is not added.
    X
        Rows (n, d + k): the last k targets are written to X[:, d:], newest first.
    d
        Number of inputs.
    out
        Output (4, n): scaled target, centre, unit, and number of known targets.
    """
    k = last.shape[1]
    for g in range(slots.shape[0]):
        s = slots[g]
        for r in range(starts[g], starts[g + 1]):
            count, centre, unit = moments[s, 0, COUNT], 0.0, 1.0
            if scaled:
                centre, unit = centre_of(moments[s], 0), scale_of(moments[s], 0)
            out[0, r], out[1, r], out[2, r], out[3, r] = y[r], centre, unit, count
            for j in range(k):
                value = last[s, k - 1 - j]
                if scaled:
                    value = (value - centre) / unit if unit > 0.0 else 0.0
                X[r, d + j] = 0.0 if math.isnan(value) else value
            if math.isnan(y[r]):
                continue
            if scaled:
                out[0, r] = in_units(y[r] - centre, unit, math.sqrt(count))
            take_number(moments[s], 0, y[r], True)
            for j in range(k - 1):
                last[s, j] = last[s, j + 1]
            if k > 0:
                last[s, k - 1] = y[r]


LEVEL_SHRINKAGE = 5.0  # number of rows as which the mean of all targets counts in that of a level


@compiled_strict
def fill_levels(X, levels, sums, counts, of_all, y, starts, out):
    """Encode categories (levels) by the mean target and the count of earlier rows of the level.

    All rows of a group are encoded before the targets of the group are learned. The mean is shrunk
    towards the mean of all targets, and the count n is written as log(1 + n).

    Parameters
    ----------
    X
        Rows (n, C). Some columns have the number of a level.
    levels
        Indices of these columns (L,).
    sums, counts
        Sum and number of the known targets of each level (L, n_levels), updated in place.
    of_all
        Sum and number of all known targets (2,), updated in place.
    y
        Targets (n,). A NaN target is not learned.
    starts
        (G + 1,) index of the first row of each group, and n.
    out
        Output (n, C): the mean target is in the column of the level, the count in the next column.
    """
    n_levels = sums.shape[1]
    for g in range(starts.shape[0] - 1):
        mean = of_all[0] / of_all[1] if of_all[1] > 0.0 else 0.0
        for r in range(starts[g], starts[g + 1]):
            for k in range(levels.shape[0]):
                level = X[r, levels[k]]
                if level >= 0.0 and level < n_levels:
                    total, n = sums[k, int(level)], counts[k, int(level)]
                    out[r, levels[k]] = (total + LEVEL_SHRINKAGE * mean) / (n + LEVEL_SHRINKAGE)
                    out[r, levels[k] + 1] = math.log1p(n)
        for r in range(starts[g], starts[g + 1]):
            if math.isfinite(y[r]):
                of_all[0] += y[r]
                of_all[1] += 1.0
                for k in range(levels.shape[0]):
                    level = X[r, levels[k]]
                    if level >= 0.0 and level < n_levels:
                        sums[k, int(level)] += y[r]
                        counts[k, int(level)] += 1.0


def shares_beyond(state: np.ndarray) -> np.ndarray:
    """Return the share of numbers far outside the usual range in each column (C,).

    The share is 0 before the first number.
    """
    return state[:, BEYOND] / np.maximum(state[:, COUNT], 1.0)


def scales(state: np.ndarray) -> np.ndarray:
    """Return the scale s of each column (C,); 0 while all its numbers are equal."""
    at = np.where(state[:, IS_AWAY] > 0.0, AWAY, HOME)[:, None]
    n, squares = (np.take_along_axis(state, at + j, axis=1)[:, 0] for j in (0, SQUARES))
    return np.sqrt(squares / np.maximum(n, 1.0))
