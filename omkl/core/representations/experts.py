"""Experts for raw streams, which standardise inputs and past targets row by row.

One expert predicts the mean of the targets so far, and one predicts the last target. Every other
expert is a recursive learner (``second_order``) that predicts the target minus this mean, or minus
the last target. A learner reads some columns of the row: inputs, past targets, changes of inputs
and targets since the previous row, and products of two inputs. The first of these columns are also
linear features of the learner. It may also have random features (sines and cosines) of all its
columns.

Inputs are standardised by the location and scale (``robust_moments``) of the rows up to the present
one. Past targets are standardised by the location and scale of the targets so far. A missing input
(NaN) counts as the mean of its column. Learners read standardised numbers that are compressed
beyond 4 deviations (``robust_moments.softened``). One learner may be marked ``uncut``. It reads its
inputs in frozen units (``robust_moments.frozen``). These inputs are not softened if its past errors
were smaller without softening, see ``_write_readings``. Targets are not scaled, because a ridge
regression is linear in them. A linear learner of many columns divides its columns into parts. Each
part has its own matrix P, see ``noise_of_part``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.compiler import dispatch, inlined
from omkl.core.hyperparameters import ROUNDS
from omkl.core.representations import Representation, evaluate_row
from omkl.core.representations.second_order import (
    Recursive,
    RlsScratch,
    learn_rls,
    rls_output,
    rls_scratch,
    write_features,
)
from omkl.core.robust_moments import (
    COUNT,
    FAR,
    frozen,
    no_moments,
    scale_of,
    softened,
    standardised,
    take_number,
    take_standardised,
)
from omkl.core.robust_moments import MEAN as CENTRE
from omkl.core.simd import LANES, aligned, fma, largest, load, pack, store

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


# --- Functions without inputs: f_i is a number, alpha[i, 0] ---------------------------------------


class Constant(NamedTuple):
    alpha: np.ndarray  # (N, 1)

    @property
    def n_kernels(self) -> int:
        return len(self.alpha)


class NoScratch(NamedTuple):
    """Scratch of a representation that needs none."""


def _evaluate_constant(scratch, model, X, row, selection):
    for m in range(selection.n_evaluated[0]):
        i = selection.evaluate[m]
        selection.f[i] = model.alpha[i, 0]


dispatch(evaluate_row, NoScratch, _evaluate_constant)


def _fresh_constant(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> Constant:
    return Constant(np.zeros((len(kernels), 1)))


def _no_scratch(model: Constant, threads: int) -> NoScratch:
    return NoScratch()


CONSTANT = Representation(
    name="constant", fresh=_fresh_constant, scratch=_no_scratch, draws_features=False
)


# --- Weights from regrets, without a rate: ML-Poly ------------------------------------------------
#
# The weight w_i of expert i is proportional to max(R_i, 0) / V_i. R_i is the sum of the gains r_i =
# 2 (p - y) (p - f_i): the first-order decrease of the squared error of the mixture p if its weight
# moves to expert i. V_i is the sum of r_i^2 (P. Gaillard, G. Stoltz, T. van Erven, COLT 2014). Old
# rounds fade in both sums, so that the best mixture may change. The regret bound of ML-Poly, of
# order sqrt(N T ln T), holds without fading.


REGRET_FADING = 0.999  # a memory of about 1,000 rounds; from 0.99 to 1 errors differ by 3 %
# This share of the largest V is added to all V. Otherwise an R of rounding errors could get weight.
REGRET_FLOOR = 1e-6
ROUNDING = 1e-12  # smaller relative differences of predictions count as 0


class Regrets(NamedTuple):
    """Weights of N experts by their regrets.

    In ``learn_regrets`` the gain of an expert is 2 (p - y) (p - f), where p is the prediction of
    the mixture, f that of the expert, and y the target.

    total    (N,) fading sum R of the gains of each expert
    squares  (N,) fading sum V of the squared gains
    w        (N,) weights of sum 1
    """

    total: np.ndarray
    squares: np.ndarray
    w: np.ndarray


def no_regrets(N: int) -> Regrets:
    return Regrets(np.zeros(N), np.zeros(N), np.full(N, 1.0 / N))


@inlined
def mixture_of(w, f):
    """Return the sum of the predictions f (N,) times the weights w (N,)."""
    p = 0.0
    for i in range(f.shape[0]):
        p += w[i] * f[i]
    return p


@inlined
def learn_regrets(regrets, f, p, y):
    """Update the sums and weights of the experts by the target y.

    Parameters
    ----------
    regrets
        Sums and weights, updated in place.
    f
        Predictions (N,).
    p
        Prediction of their mixture.
    y
        Target.
    """
    N = f.shape[0]
    largest = 0.0
    for i in range(N):
        off = p - f[i]
        r = 2.0 * (p - y) * off if abs(off) > ROUNDING * abs(p) else 0.0
        regrets.total[i] = REGRET_FADING * regrets.total[i] + r
        regrets.squares[i] = REGRET_FADING * regrets.squares[i] + r * r
        largest = max(largest, regrets.squares[i])
    total = 0.0
    for i in range(N):
        regrets.w[i] = 0.0
        if regrets.total[i] > 0.0:
            regrets.w[i] = regrets.total[i] / (regrets.squares[i] + REGRET_FLOOR * largest)
        total += regrets.w[i]
    for i in range(N):
        regrets.w[i] = regrets.w[i] / total if total > 0.0 else 1.0 / N


# --- Nearest neighbours: their targets, and the errors of another learner at their rows -----------
#
# Distances are Euclidean. Each row is standardised by the moments at its arrival. A neighbour at
# squared distance q in d inputs has the weight 1 / (q / d + CLOSE)^2, which is largest for rows
# that repeat.


KEPT = 1000  # stored rows, a multiple of LANES; 500 do nearly as well
NEAREST = 10  # neighbours; 5 to 20 give errors within 1 %
CLOSE = 1e-3  # keeps the weight of a repeated row finite


class Neighbours(NamedTuple):
    """The last n_kept rows. Row number t, counted from 0, has the index t mod n_kept.

    rows    (n_kept / 8, d, 8) rows in groups of eight, so that distances read memory in order
    labels  (n_kept,) targets
    errors  (n_kept,) errors of the linear expert in these rows
    n       (1,) int64, number of rows so far
    """

    rows: np.ndarray
    labels: np.ndarray
    errors: np.ndarray
    n: ROUNDS


class NeighboursScratch(NamedTuple):
    """Scratch of a round.

    distance  (n_kept,) squared distances of the stored rows
    nearest   (NEAREST,) indices of the nearest rows, the nearest first
    mean      (2,) weighted means of their targets and of their errors; 0 before the first row
    """

    distance: np.ndarray
    nearest: np.ndarray
    mean: np.ndarray


def fresh_neighbours(d: int, n_kept: int = KEPT) -> Neighbours:
    """Make an empty window of ``n_kept`` rows, a multiple of LANES and at least NEAREST."""
    n = np.zeros(1, dtype=np.int64)
    return Neighbours(aligned((n_kept // LANES, d, LANES)), np.zeros(n_kept), np.zeros(n_kept), n)


def neighbours_scratch(model: Neighbours) -> NeighboursScratch:
    nearest = np.zeros(NEAREST, dtype=np.int64)
    return NeighboursScratch(aligned(model.labels.shape), nearest, np.zeros(2))


@inlined
def _measure(scratch, model, x, n):
    """Write the squared distances between the first n stored rows (d,) and x[:d]."""
    d = model.rows.shape[1]
    for j in range(0, n, LANES):
        total = pack(0.0)
        for k in range(d):
            off = load(model.rows, j * d + k * LANES) - pack(x[k])
            total = fma(off, off, total)
        store(scratch.distance, j, total)


@inlined
def _find(scratch, n):
    """Write the indices of the nearest of n rows into ``nearest``, and return their number.

    The list is sorted by distance. A new entry moves the more distant entries back by one. Of two
    rows with equal distances the one with the smaller index comes first.
    """
    distance, nearest = scratch.distance, scratch.nearest
    n_nearest = 0
    farthest = np.inf  # largest distance in the list once it is full
    for first in range(0, n, LANES):
        if n_nearest == NEAREST and largest(load(distance, first) * -1.0) <= -farthest:
            continue  # none of these eight rows is nearer
        for j in range(first, min(first + LANES, n)):
            if n_nearest < NEAREST or distance[j] < farthest:
                n_nearest = min(n_nearest + 1, NEAREST)
                m = n_nearest - 1
                while m > 0 and distance[nearest[m - 1]] > distance[j]:
                    nearest[m] = nearest[m - 1]
                    m -= 1
                nearest[m] = j
                if n_nearest == NEAREST:
                    farthest = distance[nearest[NEAREST - 1]]
    return n_nearest


@inlined
def evaluate_neighbours(scratch, model, x):
    """Write the weighted mean target and error of the nearest rows of x into scratch.mean.

    Parameters
    ----------
    scratch, model
        Scratch, and window of rows.
    x
        Row, whose first d numbers are its inputs.
    """
    n = min(model.n[0], model.labels.shape[0])
    _measure(scratch, model, x, n)
    scratch.mean[:] = 0.0
    whole = 0.0
    for m in range(_find(scratch, n)):
        j = scratch.nearest[m]
        w = 1.0 / (scratch.distance[j] / model.rows.shape[1] + CLOSE) ** 2
        whole += w
        scratch.mean[0] += w * model.labels[j]
        scratch.mean[1] += w * model.errors[j]
    if whole > 0.0:
        scratch.mean[0] /= whole
        scratch.mean[1] /= whole


@inlined
def learn_neighbours(model, x, label, error):
    """Store a row in place of the oldest one.

    Parameters
    ----------
    model
        Window, updated in place.
    x
        Row, whose first d numbers are its inputs.
    label
        Target.
    error
        Error of the linear expert in this row.
    """
    j = model.n[0] % model.labels.shape[0]
    for k in range(model.rows.shape[1]):
        model.rows[j // LANES, k, j % LANES] = x[k]
    model.labels[j] = label
    model.errors[j] = error
    model.n[0] += 1


# --- Experts --------------------------------------------------------------------------------------


# A single target is an outlier if its distance from the mean is above FARTHEST_LABEL deviations and
# above FARTHEST_SEEN times the largest distance so far. It is learned as a target at FARTHEST_LABEL
# deviations.
FARTHEST_LABEL = 20.0
FARTHEST_SEEN = 10.0
FARTHEST_INPUT = 20.0  # deviations; if an input is farther, the error of the row is clipped
FARTHEST_LAST = 100.0  # limit, in deviations, of the last target as a prediction
FARTHEST_ERROR = 3.0  # limit of a clipped error, in standard deviations expected for the row
MARGIN = 0.5  # largest distance of a prediction from the range of the targets, in ranges
WIDE_MARGIN = 3.0  # the same for uncut inputs: if inputs have heavy tails, targets may have too
FADING_READINGS = 0.98  # a memory of some 50 rows for the errors with softened and uncut inputs
MEAN, LAST, N_PLAIN = 0, 1, 2  # the experts that use targets alone come first


class Experts(NamedTuple):
    """N recursive learners, N + 2 experts, and moments of inputs and targets.

    The columns of a row are d inputs, L past targets (newest first), C changes since the previous
    row (of the d inputs and of the C - d newest targets), and K products of inputs.

    first      recursive learners, one per part. A learner with many columns has several parts.
               Index i < N is the first part of learner i
    parts      (N + 1,) int64; the further parts of learner i have the indices parts[i] ..
               parts[i + 1] - 1 of ``first``. Each part uses the columns after those of the part
               before
    decay      (N,) weight of earlier rows, in (0, 1]
    from_last  (N,) True: a learner predicts the target minus the last target. False: minus the mean
    columns    (N, W) columns that each learner uses. Learner i uses columns[i, : n_columns[i]]
    n_columns  (N,) number of columns that each learner uses
    products   (K, 2) inputs whose product is a column
    uncut      (N,) whether the learner may use its inputs without softening; at most one may
    inputs     (d, 20) moments of the inputs, as in ``robust_moments``
    label      (1, 20) moments of the target
    bounds     (2,) smallest and largest target
    lags       (L,) last targets, newest first
    before     (C,) previous row: its inputs and newest targets, standardised and softened
    readings   (2,) fading sums of squared errors of the ``uncut`` learner in rows with an outlying
               input: with softened inputs, and without softening
    """

    first: Recursive
    parts: np.ndarray
    decay: np.ndarray
    from_last: np.ndarray
    columns: np.ndarray
    n_columns: np.ndarray
    products: np.ndarray
    uncut: np.ndarray
    inputs: np.ndarray
    label: np.ndarray
    bounds: np.ndarray
    lags: np.ndarray
    before: np.ndarray
    readings: np.ndarray

    @property
    def n_kernels(self) -> int:
        return len(self.decay) + N_PLAIN


class ExpertsScratch(NamedTuple):
    """Scratch of a round.

    first       scratch of the recursive learners
    f           (N,) theta'z of the learners
    variance    (N,) z'P z, summed over all parts of a learner
    x           (d,) row as it arrived
    moments     (d, 20) moments of the inputs, including this row
    whole       (d + L + C + K,) all columns of the row
    frozen      (d,) inputs in frozen units (``robust_moments.frozen``)
    row         (1, W) columns that one learner uses
    readings    (2,) predictions of the ``uncut`` learner with softened inputs, and without
                softening
    n_readings  (1,) number of valid entries of ``readings``
    is_uncut    (1,) whether the prediction without softening is used
    """

    first: RlsScratch
    f: np.ndarray
    variance: np.ndarray
    x: np.ndarray
    moments: np.ndarray
    whole: np.ndarray
    frozen: np.ndarray
    row: np.ndarray
    readings: np.ndarray
    n_readings: np.ndarray
    is_uncut: np.ndarray


def fresh_experts(
    first: Recursive,
    parts: np.ndarray,
    decay: np.ndarray,
    from_last: np.ndarray,
    columns: list[np.ndarray],
    products: np.ndarray,
    sizes: tuple[int, int, int],
    uncut: np.ndarray,
) -> Experts:
    """Build experts from recursive learners, in the state that experts have before the first row.

    Parameters
    ----------
    first, parts, decay, from_last, products, uncut
        As in ``Experts``.
    columns
        Columns that each learner uses.
    sizes
        Number of inputs, number of past targets, and number of columns with changes of targets:
        d, L and C - d of ``Experts``.
    """
    d, n_lags, n_changing = sizes
    n_columns = np.array([len(read) for read in columns])
    width = max(int(n_columns.max()), first.padded.shape[1])
    read = np.zeros((len(columns), width), dtype=np.int64)
    for i, ones in enumerate(columns):
        read[i, : len(ones)] = ones
    return Experts(
        first, parts, decay, from_last, read, n_columns, products, uncut, no_moments(d),
        no_moments(1), bounds=np.zeros(2), lags=np.zeros(n_lags),
        before=np.zeros(d + n_changing), readings=np.zeros(2),
    )  # fmt: skip


def context_of(model: Any) -> tuple[np.ndarray, ...]:
    """Return the arrays that the next prediction uses: the past targets, and the previous row."""
    return model.experts.lags, model.experts.before


def experts_scratch(model: Experts, threads: int) -> ExpertsScratch:
    d = len(model.inputs)
    n_whole = d + len(model.lags) + len(model.before) + len(model.products)
    return ExpertsScratch(
        rls_scratch(model.first, threads),
        f=np.zeros(len(model.decay)),
        variance=np.zeros(len(model.decay)),
        x=np.zeros(d),
        moments=no_moments(d),
        whole=np.zeros(n_whole),
        frozen=np.zeros(d),
        row=np.zeros((1, model.columns.shape[1])),
        readings=np.zeros(2),
        n_readings=np.ones(1, dtype=np.int64),
        is_uncut=np.zeros(1, dtype=bool),
    )


@inlined
def _standardise(model, scratch, X, row):
    """Standardise the inputs X[row] and the past targets, and write them into ``whole``.

    The moments of the inputs include X[row].
    """
    d = X.shape[1]
    moments = scratch.moments
    for k in range(d):
        scratch.x[k] = X[row, k]
        for j in range(moments.shape[1]):
            moments[k, j] = model.inputs[k, j]
        scratch.whole[k] = softened(take_standardised(moments, k, X[row, k], True))
        scratch.frozen[k] = frozen(moments, k, X[row, k])
    for k in range(model.lags.shape[0]):
        scratch.whole[d + k] = softened(standardised(model.label, 0, model.lags[k]))


@inlined
def _derive(model, scratch):
    """Write changes and products into ``whole``, after the standardised columns.

    Changes are 0 in round 1.
    """
    start = model.inputs.shape[0] + model.lags.shape[0]
    n_changes = model.before.shape[0]
    for k in range(n_changes):
        change = scratch.whole[k] - model.before[k]
        scratch.whole[start + k] = change if model.label[0, COUNT] > 0.0 else 0.0
    start += n_changes
    for k in range(model.products.shape[0]):
        left, right = model.products[k, 0], model.products[k, 1]
        scratch.whole[start + k] = scratch.whole[left] * scratch.whole[right]


@inlined
def part_of(model, i, m):
    """Return the index in ``first`` of part m of learner i.

    Parameters
    ----------
    model
        Experts.
    i, m
        Learner, and number of a part, 0 .. ``n_parts`` - 1.
    """
    return i if m == 0 else model.parts[i] + m - 1


@inlined
def n_parts(model, i):
    return 1 + model.parts[i + 1] - model.parts[i]


@inlined
def _output(model, scratch, i):
    """Return theta'z of learner i for the columns in scratch.row, and write its z'P z.

    Both are sums over the parts of the learner.
    """
    first = scratch.first
    write_features(model.first, scratch.row, 0, model.n_columns[i], i, first)
    output = rls_output(model.first, i, first)
    variance = first.variance[i]
    start = model.first.n_raw[i]
    for j in range(model.parts[i], model.parts[i + 1]):
        n_raw = model.first.n_raw[j]
        for k in range(n_raw):
            first.z[j, k] = scratch.row[0, start + k]
        first.z[j, n_raw] = 1.0
        output += rls_output(model.first, j, first)
        variance += first.variance[j]
        start += n_raw
    scratch.variance[i] = variance
    return output


@inlined
def _forecast(model, scratch, i):
    """Return the forecast of learner i: theta'z / (1 + z'P z), after Vovk, Azoury and Warmuth.

    If the learner has several parts, return theta'z, because the sum of their z'P z can be too
    large.
    """
    return scratch.f[i] / (1.0 + scratch.variance[i]) if n_parts(model, i) == 1 else scratch.f[i]


@inlined
def noise_of_part(scratch, i, j, noise):
    """Return the noise of part ``j`` of learner i: ``noise`` plus the z'P z of the other parts.

    A matrix P over all columns would have an entry per pair of columns. Instead each part k has its
    own matrix P_k, as if its coefficients were independent of those of other parts. Let z_k be the
    features of part k, q_k = z_k'P_k z_k, and r the noise. Part k is updated by recursive least
    squares with noise r + sum_{j != k} q_j. Its gain is P_k z_k / (r + sum_j q_j). All parts have
    this denominator, so together they correct the error once. Covariances between coefficients of
    different parts are lost after each row.

    Parameters
    ----------
    scratch
        Scratch, with the numbers that the evaluation of the row wrote.
    i, j
        Learner, and index of its part in ``first``.
    noise
        Noise r.
    """
    return noise + (scratch.variance[i] - scratch.first.variance[j])


@inlined
def write_outputs(model, scratch, X, row):
    """Write theta'z of all learners at X[row] into scratch.f.

    Also write the other numbers of the scratch, which ``learn_experts`` needs for this row.

    Parameters
    ----------
    model, scratch
        Experts and their scratch.
    X, row
        Rows (n, d), and the index of one.
    """
    _standardise(model, scratch, X, row)
    _derive(model, scratch)
    for i in range(scratch.f.shape[0]):
        n = model.n_columns[i]
        if model.uncut[i]:
            _write_readings(model, scratch, i)
            continue
        for k in range(n):
            scratch.row[0, k] = scratch.whole[model.columns[i, k]]
        scratch.f[i] = _output(model, scratch, i)


@inlined
def _write_readings(model, scratch, i):
    """Predict with the ``uncut`` learner i from softened and from uncut inputs, and choose one.

    Uncut inputs are inputs without softening. Write both predictions into ``scratch.readings``. The
    learner also learns with the chosen inputs. Uncut inputs are chosen if both conditions hold:
    1. In earlier rows with an outlying input, uncut inputs gave smaller errors.
    2. Their prediction for this row exceeds the range of the targets so far by at most WIDE_MARGIN
       times this range.
    In a row without an outlying input, only softened inputs are used.
    """
    scratch.n_readings[0] = 1
    scratch.is_uncut[0] = False
    for k in range(scratch.frozen.shape[0]):
        if abs(scratch.frozen[k]) > FAR:
            scratch.n_readings[0] = 2
    for reading in range(3):  # softened, uncut, and again the features of the softened row
        for k in range(model.n_columns[i]):
            at = model.columns[i, k]
            scratch.row[0, k] = scratch.whole[at]
            if at < scratch.frozen.shape[0]:
                z = scratch.frozen[at]
                scratch.row[0, k] = z if reading == 1 else softened(z)
        output = _output(model, scratch, i)
        if reading == 0:
            scratch.f[i] = output
            soft = _reference(model, i) + _forecast(model, scratch, i)
            scratch.readings[0] = near_labels(model, soft, MARGIN)
            if scratch.n_readings[0] == 1:
                return
        elif reading == 1:
            whole = _reference(model, i) + output
            scratch.readings[1] = near_labels(model, whole, WIDE_MARGIN)
            if model.readings[1] < model.readings[0] and scratch.readings[1] == whole:
                scratch.is_uncut[0] = True
                scratch.f[i] = output
                return


@inlined
def _compare_readings(model, scratch, y):
    """Add the squared errors with softened and with uncut inputs to the sums ``model.readings``.

    Nothing is added in a row without an outlying input.
    """
    if scratch.n_readings[0] > 1:
        for k in range(2):
            off = y - scratch.readings[k]
            model.readings[k] = FADING_READINGS * model.readings[k] + off * off


@inlined
def is_row_far(scratch, most):
    """Return whether an input of the evaluated row is beyond ``most`` deviations from its mean."""
    farthest = 0.0
    for k in range(scratch.frozen.shape[0]):
        farthest = max(farthest, abs(scratch.whole[k]))
    return farthest > softened(most)


@inlined
def foreseen_label(model, y, before, most):
    """Return the target y, clipped to ``most`` deviations from the mean if y is an outlier.

    y is an outlier if its distance from the mean of the targets exceeds both ``most`` deviations
    and FARTHEST_SEEN times the largest distance of a target so far. If the distance of
    the previous target also exceeds both, on the same side, y is not an outlier: the targets have a
    new level.

    Parameters
    ----------
    model
        Experts.
    y, before
        Target, and the previous target.
    most
        Limit in deviations.
    """
    mean = model.label[0, CENTRE]
    seen = max(mean - model.bounds[0], model.bounds[1] - mean)
    counts = most * scale_of(model.label, 0)
    farthest = max(counts, FARTHEST_SEEN * seen)
    off = y - mean
    stays = min(abs(off), abs(before - mean)) > farthest and (off > 0.0) == (before > mean)
    if stays or not counts > 0.0 or abs(off) <= farthest:
        return y
    return mean + math.copysign(counts, off)


@inlined
def _reference(model, i):
    """Return the number that learner i subtracts from targets: the last target, or their mean."""
    if not model.from_last[i]:
        return model.label[0, CENTRE]
    return foreseen_label(model, model.lags[0], model.lags[1], FARTHEST_LABEL)


@inlined
def near_labels(model, prediction, ranges):
    """Clip a prediction to the range of the targets so far, extended on both sides.

    Parameters
    ----------
    model
        Experts.
    prediction
        Prediction.
    ranges
        Extension on each side, as a multiple of the range of the targets.
    """
    margin = ranges * (model.bounds[1] - model.bounds[0])
    return min(model.bounds[1] + margin, max(model.bounds[0] - margin, prediction))


@inlined
def write_predictions(scratch, model, f):
    """Write the experts' predictions into f (N + 2,), after ``write_outputs``.

    Parameters
    ----------
    scratch, model
        Scratch and experts.
    f
        Output (N + 2,).
    """
    f[MEAN] = model.label[0, CENTRE]
    f[LAST] = foreseen_label(model, model.lags[0], model.lags[1], FARTHEST_LAST)
    for i in range(scratch.f.shape[0]):
        reference = _reference(model, i)
        if model.uncut[i]:
            f[i + N_PLAIN] = scratch.readings[1 if scratch.is_uncut[0] else 0]
        else:
            prediction = reference + _forecast(model, scratch, i)
            f[i + N_PLAIN] = near_labels(model, prediction, MARGIN)


@inlined
def learn_experts(model, scratch, y, deviation):
    """Learn the target of the evaluated row with every expert.

    In the first row, the mean of the targets is the target itself, so all errors are 0. If the
    target is an outlier, or an input is beyond FARTHEST_INPUT deviations, the error of each learner
    is clipped to FARTHEST_ERROR times its expected error in this row, ``deviation`` sqrt(1 + z'P
    z). The error of the ``uncut`` learner is not clipped if it uses inputs without softening,
    because outlying inputs may cause large errors.

    Parameters
    ----------
    model, scratch
        Experts, updated in place, and their scratch.
    y
        Target.
    deviation
        Standard deviation of the noise.
    """
    first = model.label[0, COUNT] == 0.0
    label = foreseen_label(model, y, model.lags[0], FARTHEST_LABEL)
    is_foreseen = label == y and not is_row_far(scratch, FARTHEST_INPUT)
    if not first:
        _compare_readings(model, scratch, label)
    for i in range(scratch.f.shape[0]):
        error = 0.0 if first else y - _reference(model, i) - scratch.f[i]
        if not is_foreseen and not (model.uncut[i] and scratch.is_uncut[0]):
            most = FARTHEST_ERROR * deviation * math.sqrt(1.0 + scratch.variance[i])
            error = min(most, max(-most, error))
        for m in range(n_parts(model, i)):
            j = part_of(model, i, m)
            noise = noise_of_part(scratch, i, j, 1.0)
            learn_rls(model.first, j, scratch.first, noise, model.decay[i], error)
    count(model, scratch, y)


@inlined
def count(model, scratch, y):
    """Add the evaluated row and its target to the moments, bounds and lags.

    Parameters
    ----------
    model, scratch
        Experts, updated in place, and their scratch.
    y
        Target.
    """
    for k in range(model.inputs.shape[0]):
        for j in range(model.inputs.shape[1]):
            model.inputs[k, j] = scratch.moments[k, j]
    for k in range(model.before.shape[0]):
        model.before[k] = scratch.whole[k]
    if model.label[0, COUNT] == 0.0:
        model.bounds[:] = y
        model.lags[:] = y
    seen = foreseen_label(model, y, model.lags[0], FARTHEST_LABEL)
    model.bounds[0] = min(model.bounds[0], seen)
    model.bounds[1] = max(model.bounds[1], seen)
    take_number(model.label, 0, y, False)
    for k in range(model.lags.shape[0] - 1, 0, -1):
        model.lags[k] = model.lags[k - 1]
    model.lags[0] = y
