"""Location and scale of columns as rows come, which no single number can spoil.

Of a column, home is its mean m and deviation s over the n numbers so far, where a number counts as
no farther from m than c_n s, c_n = 8 (1 + 20 / n): m and s are then, in the limit, the location and
scale of Huber's proposal 2 (P. J. Huber, "Robust estimation of a location parameter", Annals of
Mathematical Statistics 35, 1964; recursively with steps 1 / n: J.-E. Englund, U. Holst, D. Ruppert,
"Recursive M-estimators of location and scale for dependent sequences", Scandinavian Journal of
Statistics 15, 1988),

    m <- m + s psi((x - m) / s) / n,   s^2 <- mean of (s psi((x - m) / s))^2 about m,
    psi(u) = min(c_n, max(-c_n, u)).

One number moves m by c_n s / n and s^2 by c_n^2 s^2 / n at most. On numbers of which none is so far
out they are the mean and deviation to the bit. Three cases need more than that:

A base. A column most of whose numbers are one number b (a constant, a category as 0 and 1, rain)
has a deviation of nearly 0, and each of its other numbers is far out, and honest. They are measured
with each other: one counts as no farther from b than c_k r, where r^2 is the mean of (x - b)^2 over
the k others. While s = 0 every number counts as it is.

A change. Away is the same over the rows since the column left home. Where more than half of the
last hundred numbers or so, and of the last ten, are outside, farther from m than 4 s (and than
c_k r from b), away has the column. Home waits as it is, and takes in nothing outside once a quarter
of the hundred are, or half of the ten where there is no base. It has the column again when fewer
than a fifth of ten are outside home: what a sensor said before a fault counts as before. After
5,000 rows (or as many as home has) away is home. Bursts of some dozen rows, as of rain or of a
block of a design, are no change.

Units that are held. What a linear learner has learned is in the units that its inputs had: where
these move, its coefficients are wrong, by much for a number that is far out. ``held`` is
(x - c) / u, where c and u are m and s as they were when m was last farther than 3 u from c, or s
more than 10 times u or less than u / 10; of the first 20 numbers they are m and s.

Nothing is cut: a number is (x - m) / s, however far out. Learners that need bounded ones read
``softened`` ones.

State is (C, N_NUMBERS), a row for each column. Rows come one by one: no block changes a bit.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np

from omkl.core.compiler import compiled_strict, inlined
from omkl.core.hyperparameters import Range

FAR = 4.0  # deviations: one in 16,000 numbers of a normal column is farther out
MOST = 8.0  # deviations: a number counts as no farther; up to one in 64 may be far out for good
YOUNG = 20.0  # numbers: a deviation of fewer is not known well
RECENT, LONGER = 10.0, 100.0  # rows that shares of those outside are of
LEAVES, RETURNS, CALM = 0.5, 0.2, 0.25  # shares: away has it, home has it, away begins anew
LONG = 5000.0  # rows after which away is home
SHIFT, RATIO = 3.0, 10.0  # of units that are held no longer

# Places of a column's numbers. Home and away: how many numbers, their mean, their squared
# deviations. Of the base: its votes (R. S. Boyer and J. S. Moore's), how often it came, how often
# others did since, their squared distances from it. ``OUTSIDE``: the share of the last rows;
# ``IS_AWAY``: 1.0 or 0.0; ``COUNT``, ``BEYOND``: all numbers, and those farther out than FAR that
# are not within reach of those that differ from a base.
HOME, AWAY = 0, 3
MEAN, SQUARES = 1, 2
BASE, VOTES, SAME, OTHERS, OTHER_SQUARES = 6, 7, 8, 9, 10
OUTSIDE, IS_AWAY, COUNT, BEYOND = 11, 12, 13, 14
HELD_HOME, HELD_AWAY = 15, 17  # c, and u behind it
OUTSIDE_LONG = 19
N_NUMBERS = 20
# Counts, squares, shares and units.
NON_NEGATIVE = (
    *(HOME, HOME + SQUARES, AWAY, AWAY + SQUARES, VOTES, SAME, OTHERS, OTHER_SQUARES, OUTSIDE),
    *(IS_AWAY, COUNT, BEYOND, HELD_HOME + 1, HELD_AWAY + 1, OUTSIDE_LONG),
)
MOMENTS = Annotated[np.ndarray, Range(0.0, columns=NON_NEGATIVE)]  # (C, N_NUMBERS)


def no_moments(n_columns: int) -> np.ndarray:
    """The state before the first row."""
    return np.zeros((n_columns, N_NUMBERS))


@inlined
def softened(z):
    """z up to +-FAR, then FAR + log(1 + what is beyond): it stays monotone, and hardly grows."""
    beyond = abs(z) - FAR
    if beyond > 0.0:
        return math.copysign(FAR + math.log1p(beyond), z)
    return z


@inlined
def in_units(off, unit, most):
    """off / unit, at most ``most`` from 0; so far out, or 0, where the unit is 0."""
    if unit > 0.0:
        return min(max(off / unit, -most), most)
    return math.copysign(most, off) if abs(off) > 0.0 else off


@inlined
def deviation_of(state, k, at):
    """Of column k, at home or away; 0 before it has moved."""
    return math.sqrt(state[k, at + SQUARES] / max(state[k, at], 1.0))


@inlined
def _has_base(state, k):
    """Whether more than half of the numbers are the same one, and not all."""
    return state[k, OTHERS] > 0.0 and state[k, SAME] > state[k, OTHERS]


@inlined
def _vote(state, k, x):
    """Let the number x vote for the base."""
    if state[k, VOTES] == 0.0 and (state[k, COUNT] == 0.0 or x != state[k, BASE]):
        state[k, BASE] = x
        state[k, SAME] = 0.0
        state[k, OTHERS] = 0.0
        state[k, OTHER_SQUARES] = 0.0
    if x == state[k, BASE]:
        state[k, VOTES] += 1.0
        state[k, SAME] += 1.0
    else:
        state[k, VOTES] -= 1.0


@inlined
def _limit_of(n):
    return MOST * (1.0 + YOUNG / max(n, 1.0))


@inlined
def _within(x, centre, most):
    return min(centre + most, max(centre - most, x))


@inlined
def _add(state, k, at, x):
    """Take x into home or away (Welford)."""
    state[k, at] += 1.0
    off = x - state[k, at + MEAN]
    state[k, at + MEAN] += off / state[k, at]
    state[k, at + SQUARES] += off * (x - state[k, at + MEAN])


@inlined
def _add_bounded(state, k, at, x, least):
    """Take x into home or away, no farther out than c_n deviations, nor than ``least``."""
    s = deviation_of(state, k, at)
    if s > 0.0:
        most = max(_limit_of(state[k, at]) * s, least)
        x = _within(x, state[k, at + MEAN], most)
    _add(state, k, at, x)


@inlined
def _reach(state, k):
    """How far honest numbers are from the base, c_k r; 0 without one."""
    if not _has_base(state, k):
        return 0.0
    return _limit_of(state[k, OTHERS]) * math.sqrt(state[k, OTHER_SQUARES] / state[k, OTHERS])


@inlined
def take_number(state, k, x, moves):
    """Take the number x into column k. Not ``moves``: home has it always."""
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
        _hold(state, k, HOME, HELD_HOME)
    state[k, COUNT] += 1.0


@inlined
def _follow(state, k, x, is_outside):
    """Take x into what is away, and decide which of both has the column."""
    if is_outside and state[k, OUTSIDE] < CALM and state[k, IS_AWAY] == 0.0:
        state[k, AWAY] = 0.0
        state[k, AWAY + MEAN] = 0.0
        state[k, AWAY + SQUARES] = 0.0
    outside = 1.0 if is_outside else 0.0
    state[k, OUTSIDE] += (outside - state[k, OUTSIDE]) / RECENT
    state[k, OUTSIDE_LONG] += (outside - state[k, OUTSIDE_LONG]) / LONGER
    if state[k, AWAY] > 0.0 or is_outside:
        _add_bounded(state, k, AWAY, x, 0.0)
        _hold(state, k, AWAY, HELD_AWAY)
    if state[k, IS_AWAY] == 0.0:
        both = min(state[k, OUTSIDE], state[k, OUTSIDE_LONG])
        if both > LEAVES and state[k, AWAY + SQUARES] > 0.0:
            state[k, IS_AWAY] = 1.0
        return
    if state[k, OUTSIDE] < RETURNS:
        state[k, IS_AWAY] = 0.0
        state[k, OUTSIDE_LONG] = 0.0
        state[k, AWAY] = 0.0
        state[k, AWAY + MEAN] = 0.0
        state[k, AWAY + SQUARES] = 0.0
    elif state[k, AWAY] >= min(LONG, state[k, HOME]):
        for j in range(3):
            state[k, HOME + j] = state[k, AWAY + j]
        state[k, HELD_HOME] = state[k, HELD_AWAY]
        state[k, HELD_HOME + 1] = state[k, HELD_AWAY + 1]
        state[k, IS_AWAY] = 0.0
        state[k, OUTSIDE] = 0.0
        state[k, OUTSIDE_LONG] = 0.0
        state[k, VOTES] = 0.0
        state[k, SAME] = 0.0
        state[k, OTHERS] = 0.0
        state[k, OTHER_SQUARES] = 0.0


@inlined
def centre_of(state, k):
    """m of column k, at home or away."""
    return state[k, (AWAY if state[k, IS_AWAY] > 0.0 else HOME) + MEAN]


@inlined
def scale_of(state, k):
    """s of column k, at home or away; 0 before it has moved."""
    return deviation_of(state, k, AWAY if state[k, IS_AWAY] > 0.0 else HOME)


@inlined
def _hold(state, k, at, held):
    """Renew the units of home or away where they are off by too much."""
    m, s = state[k, at + MEAN], deviation_of(state, k, at)
    u = state[k, held + 1]
    off = abs(m - state[k, held]) > SHIFT * u or s > RATIO * u or s * RATIO < u
    if off or state[k, at] <= YOUNG:
        state[k, held] = m
        state[k, held + 1] = s


@inlined
def standardised(state, k, x):
    """(x - m) / s of column k; 0 where x is not known or nothing has moved."""
    s = scale_of(state, k)
    return 0.0 if math.isnan(x) or not s > 0.0 else (x - centre_of(state, k)) / s


@inlined
def held(state, k, x):
    """(x - c) / u of column k; 0 where x is not known or nothing has moved."""
    at = HELD_AWAY if state[k, IS_AWAY] > 0.0 else HELD_HOME
    u = state[k, at + 1]
    return 0.0 if math.isnan(x) or not u > 0.0 else (x - state[k, at]) / u


@inlined
def take_standardised(state, k, x, moves):
    """Take x into column k, and return it ``standardised`` with itself among what was seen."""
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
    """``take_standardised``, and whether x counts among those of ``BEYOND``."""
    n = state[k, BEYOND]
    z = take_standardised(state, k, x, True)
    return z, state[k, BEYOND] > n


@compiled_strict
def take_row(state, x, most, out, far):
    """Take the row x (C,) in, write it standardised to out (C,), and to far (C,) what is far out.

    Where a number is more than ``most`` away from 0 nothing is done; returns whether it was done.
    """
    for k in range(x.shape[0]):
        if abs(x[k]) > most:
            return False
    for k in range(x.shape[0]):
        out[k], far[k] = _take_and_mark(state, k, x[k])
    return True


@compiled_strict
def standardise_rows(starts, slots, learns, moments, X, most, out, far, scratch):
    """Take rows X (n, C) in, and write them standardised to out (n, C), as ``take_row`` does.

    Rows come in runs of one key each: run g has the rows starts[g] .. starts[g + 1] - 1 and the
    slot slots[g] of ``moments`` (S, C, N_NUMBERS). Where ``learns`` (G,) is False each row is taken
    as the next one, in the slot ``scratch``.
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
    """Write the rows of X (n, C) but the first ``n_waiting`` to out and far, each as the next.

    Each row is taken in ``delay`` rows later. The first ``n_waiting`` are still to be taken in.
    ``ahead`` is an array like the state, and is written to.
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
    """Scale targets y (n,) by the targets before them, and write the last ones as inputs.

    Rows come in runs of one key each: run g has the rows starts[g] .. starts[g + 1] - 1 and the
    slot slots[g]. moments (S, 1, 20) and last (S, k), the oldest first, hold the known targets of
    each slot. ``scaled``: divide by location and scale; else centre is 0 and unit is 1. Write the
    last k targets to X[:, d:], the newest first, and to out (4, n) the scaled target, centre, unit
    and number of known targets. A target that is NaN is not taken in.
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


def shares_beyond(state: np.ndarray) -> np.ndarray:
    """``BEYOND`` over ``COUNT`` of each column (C,), 0 before its first number."""
    return state[:, BEYOND] / np.maximum(state[:, COUNT], 1.0)


def scales(state: np.ndarray) -> np.ndarray:
    """s of each column (C,), 0 before it has moved."""
    at = np.where(state[:, IS_AWAY] > 0.0, AWAY, HOME)[:, None]
    n, squares = (np.take_along_axis(state, at + j, axis=1)[:, 0] for j in (0, SQUARES))
    return np.sqrt(squares / np.maximum(n, 1.0))
