"""Experts and their mixtures for targets that are numbers.

The experts of ``experts``, nearest neighbours, trees and a ridge regression are mixed twice.
Recursive learners correct the first mixture. The final mixture combines the corrected predictions,
the first mixture and three plain experts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from omkl.core.compiler import dispatch, inlined
from omkl.core.representations import evaluate_row
from omkl.core.representations.boosted import (
    Boosted,
    BoostedScratch,
    boosted_scratch,
    evaluate_boosted,
    fresh_boosted,
    gain_shares,
    learn_boosted,
    write_columns,
)
from omkl.core.representations.experts import (
    FARTHEST_LABEL,
    LAST,
    MARGIN,
    MEAN,
    N_PLAIN,
    WIDE_MARGIN,
    Experts,
    ExpertsScratch,
    Neighbours,
    NeighboursScratch,
    Regrets,
    context_of,
    evaluate_neighbours,
    experts_scratch,
    foreseen_label,
    fresh_neighbours,
    learn_experts,
    learn_neighbours,
    learn_regrets,
    mixture_of,
    near_labels,
    neighbours_scratch,
    no_regrets,
    write_outputs,
    write_predictions,
)
from omkl.core.representations.random_features import blank
from omkl.core.representations.second_order import (
    RECURSIVE,
    Recursive,
    RlsScratch,
    blank_recursive,
    learn_rls,
    rls_output,
    rls_scratch,
)
from omkl.core.representations.wide import (
    Wide,
    WideScratch,
    evaluate_wide,
    fresh_wide,
    learn_wide,
    wide_scratch,
)

# f (N,) are the predictions of the experts: those of ``experts``, the mean target of the nearest
# rows, the linear expert plus its mean error in these rows (``Neighbours``), trees, and ``wide``.
# The first mixture p has weights by regret (``Regrets``). Two recursive learners correct p with
# coefficients of any sign: q = p + theta'z, where z = (f - p, e), and e is the error of p in the
# previous round. One of them weights all rounds equally, in the other old rounds fade. Before the
# first target, the coefficients theta have variance PRIOR. The noise of a target is the mean square
# of the recent errors of p, so the unit of the targets does not matter. q is clipped to the range
# of f. The final mixture has weights by regret again, for both q, p and three plain experts: among
# a few good candidates, weights by regret are hardly ever worse than the best one.
#
# Trees are grown after some hundred rows (``boosted``). Until then, their expert predicts the
# mixture of the other experts, so its regret and its input f - p of the corrections are 0. A second
# ensemble of trees predicts the error of the final mixture from the row and this mixture. A share
# of this prediction is added to the mixture. The share is large if these predictions were right in
# recent rows.
#
# If a calm stream jumps, all errors are far above the noise. It is then a matter of chance which
# expert was nearest, and this round would outweigh all rounds before. So errors are clipped to
# FARTHEST deviations of the noise in regrets and in e.


PRIOR = 0.1  # variance of a coefficient: 0.03 to 1 give errors within 2 %
FADING = (1.0, 0.995)  # of both corrections: none, and a memory of 200 rounds
NOISE_FADING = 0.99  # a memory of about 100 rounds
FARTHEST = 3.0  # limit of an error, in deviations of the noise: 2 to 4 give errors within 1 %
LINEAR = N_PLAIN  # the expert that is linear in the inputs
PLAIN = (MEAN, LAST, LINEAR)  # experts that are candidates of the final mixture themselves
REGRETS = len(FADING)  # index of p in the final mixture: after the corrections, before PLAIN
N_LATER = 4  # experts after those of ``experts``; the last two need rows before they are fitted
TREES, REST = 0, 1  # ensembles: trees of the targets, and of the errors of the final mixture
TREE_LAGS = 2  # past targets among the columns of trees
WIDE_LAGS = 2  # past targets among the linear features of ``wide``; its waves use inputs only
FARTHEST_WIDE = 10.0  # deviations of the noise; limit of the distance of targets of ``wide`` from p
MOST_BESIDE = 40  # inputs; with more of them ``wide`` has no linear features
REST_FADING = 0.998  # a memory of 500 rounds
# The mixture "uses" trees of targets above this weight, and trees of errors above this share.
LEAST_WEIGHT, LEAST_SHARE = 0.1, 0.1
TINY = 1e-300  # stands for a weight of 0, whose logarithm is not finite
REST_PRIOR = 3.0  # multiple of the squared noise that keeps the share small at first


class MixtureOfExperts(NamedTuple):
    """N experts and their mixtures. f (N,) are the predictions of the experts.

    experts      the first N - 4 experts
    neighbours   most recent rows, among which the nearest ones are searched
    trees        two ensembles of trees. The first predicts the target from raw inputs and past
                 targets. The second predicts the error of the final mixture, and also reads the
                 prediction of the final mixture
    wide         ridge regression on many random features, the inputs and past targets
    regrets      weights of the experts in the first mixture p
    corrections  two recursive learners that correct p, from the N + 1 inputs f - p and e. The
                 coefficient of their constant feature stays 0
    noise        (2,) fading sum of the squared errors of p, and fading number of these errors
    error        (1,) error e of p in the previous row, clipped to FARTHEST deviations of the noise
    last         weights in the final mixture: of the two corrected predictions, of p, and of the
                 three experts PLAIN
    rest         (2,) fading sums of r g and of g^2, where r is the error of the final mixture, and
                 g is the error that trees predicted
    """

    experts: Experts
    neighbours: Neighbours
    trees: Boosted
    wide: Wide
    regrets: Regrets
    corrections: Recursive
    noise: np.ndarray
    error: np.ndarray
    last: Regrets
    rest: np.ndarray

    @property
    def n_kernels(self) -> int:
        return self.experts.n_kernels + N_LATER

    @property
    def theta(self) -> np.ndarray:
        return self.corrections.theta


class MixtureScratch(NamedTuple):
    """Scratch of a round. f, p, e and PLAIN are as in ``MixtureOfExperts``.

    corrections  scratch of the corrections, with z = (f - p, e) for both
    correction   (2,) theta'z of both corrections
    candidates   (6,) predictions that the final mixture combines: two corrected ones, p, and those
                 of the experts PLAIN
    mixed        (1,) prediction of the final mixture
    rest         (1,) error of the final mixture that trees predict
    y_hat        (1,) prediction
    """

    experts: ExpertsScratch
    neighbours: NeighboursScratch
    trees: BoostedScratch
    wide: WideScratch
    corrections: RlsScratch
    correction: np.ndarray
    candidates: np.ndarray
    mixed: np.ndarray
    rest: np.ndarray
    y_hat: np.ndarray


def fresh_mixture(
    model: Experts, frequencies: np.ndarray, n_trees: int, n_rows: int, n_kept: int
) -> MixtureOfExperts:
    """Build the mixtures of these experts, in the state that they have before the first row.

    Parameters
    ----------
    model
        Experts.
    frequencies
        Frequencies (d, D) of ``wide``.
    n_trees, n_rows
        Trees per ensemble, and rows of their window.
    n_kept
        Number of most recent rows among which nearest neighbours are searched.
    """
    N, d = model.n_kernels + N_LATER, len(model.inputs)
    none, inputs = np.zeros(len(FADING), dtype=np.int64), np.full(len(FADING), N + 1)
    prior = np.full(len(FADING), PRIOR)
    return MixtureOfExperts(
        model,
        fresh_neighbours(d, n_kept),
        fresh_boosted([d + TREE_LAGS, d + TREE_LAGS + 1], n_trees, n_rows),
        fresh_wide(frequencies, n_linear(d)),
        regrets=no_regrets(N),
        corrections=blank_recursive(blank(len(FADING), N + 1, 0).padded, none, inputs, prior),
        noise=np.zeros(2),
        error=np.zeros(1),
        last=no_regrets(REGRETS + 1 + len(PLAIN)),
        rest=np.zeros(2),
    )


@inlined
def n_linear(d):
    """Return the number of linear features of ``wide``: the first columns of a row.

    They are the d inputs and WIDE_LAGS past targets, in addition to the random features. With more
    than MOST_BESIDE inputs there are none, and the number is 0.
    """
    return d + WIDE_LAGS if d <= MOST_BESIDE else 0


def mixture_scratch(model: MixtureOfExperts, threads: int) -> MixtureScratch:
    return MixtureScratch(
        experts_scratch(model.experts, threads),
        neighbours_scratch(model.neighbours),
        boosted_scratch(model.trees),
        wide_scratch(model.wide),
        rls_scratch(model.corrections, threads),
        correction=np.zeros(len(FADING)),
        candidates=np.zeros(REGRETS + 1 + len(PLAIN)),
        mixed=np.zeros(1),
        rest=np.zeros(1),
        y_hat=np.zeros(1),
    )


@inlined
def _evaluate_neighbours(scratch, model, f):
    """Write the two predictions by nearest rows into f[N - 4] and f[N - 3], where f is (N,)."""
    near = scratch.neighbours
    evaluate_neighbours(near, model.neighbours, scratch.experts.whole)
    k = f.shape[0] - N_LATER
    f[k] = near.mean[0]
    f[k + 1] = near_labels(model.experts, f[LINEAR] + near.mean[1], MARGIN)


@inlined
def _evaluate_sleepers(scratch, model, f):
    """Write the predictions of trees and of ``wide`` into the last two entries of f (N,).

    Until such an expert has been fitted, it predicts the mixture of the other experts.
    """
    d, N = scratch.experts.x.shape[0], f.shape[0]
    write_columns(scratch.trees, scratch.experts.x, model.experts.lags[:TREE_LAGS])
    trees = evaluate_boosted(model.trees, scratch.trees, TREES)
    wide = evaluate_wide(model.wide, scratch.wide, scratch.experts.whole, n_linear(d))
    awake = (model.trees.fits[0] > 0, model.wide.fits[0] > 0)
    both = (near_labels(model.experts, trees, MARGIN), near_labels(model.experts, wide, MARGIN))
    p, weight = 0.0, 0.0
    for i in range(N - 2):
        p += model.regrets.w[i] * f[i]
        weight += model.regrets.w[i]
    for m in range(2):
        if awake[m]:
            p += model.regrets.w[N - 2 + m] * both[m]
            weight += model.regrets.w[N - 2 + m]
    for m in range(2):
        f[N - 2 + m] = both[m] if awake[m] else p / weight


def _evaluate_mixture(scratch, model, X, row, selection):
    f = selection.f
    write_outputs(model.experts, scratch.experts, X, row)
    write_predictions(scratch.experts, model.experts, f)
    _evaluate_neighbours(scratch, model, f)
    _evaluate_sleepers(scratch, model, f)
    p = mixture_of(model.regrets.w, f)
    z = scratch.corrections.z
    low, high = f[0], f[0]
    for i in range(f.shape[0]):
        z[:, i] = f[i] - p
        low = min(low, f[i])
        high = max(high, f[i])
    z[:, f.shape[0]] = model.error[0]
    for c in range(len(FADING)):
        scratch.correction[c] = rls_output(model.corrections, c, scratch.corrections)
        scratch.candidates[c] = min(high, max(low, p + scratch.correction[c]))
    scratch.candidates[REGRETS] = p
    for k in range(len(PLAIN)):
        scratch.candidates[REGRETS + 1 + k] = f[PLAIN[k]]
    scratch.mixed[0] = mixture_of(model.last.w, scratch.candidates)
    _evaluate_rest(scratch, model)


@inlined
def _evaluate_rest(scratch, model):
    """Write the prediction: the final mixture plus a share of the error that trees predict for it.

    ``_share_of_rest`` returns this share.
    """
    trees, mixed = scratch.trees, scratch.mixed[0]
    trees.x[trees.x.shape[0] - 1] = mixed
    predicted = evaluate_boosted(model.trees, trees, REST)
    scratch.rest[0] = _foreseen(0.0, predicted, FARTHEST * _deviation(model))
    added = _share_of_rest(model) * scratch.rest[0]
    scratch.y_hat[0] = near_labels(model.experts, mixed + added, WIDE_MARGIN)


@inlined
def _share_of_rest(model):
    """Return the share b in [0, 1]: the prediction is the final mixture plus b times ``rest``.

    ``rest`` is the error that trees predict for the final mixture. b is near 1 if these predictions
    were right in recent rows.
    """
    if not (model.rest[0] > 0.0 and model.noise[0] > 0.0):
        return 0.0
    noise = model.noise[0] / model.noise[1]
    return min(1.0, model.rest[0] / (model.rest[1] + REST_PRIOR * noise))


@inlined
def _deviation(model):
    """Return the standard deviation of the noise; infinity before the first error."""
    return math.sqrt(model.noise[0] / model.noise[1]) if model.noise[1] > 0.0 else np.inf


dispatch(evaluate_row, MixtureScratch, _evaluate_mixture)


@inlined
def _foreseen(p, y, farthest):
    """Clip y to [p - farthest, p + farthest]."""
    return min(p + farthest, max(p - farthest, y))


def learn_mixture(params, state, t, y, selection):
    """Learn y with experts and mixtures: the ``update`` of an algorithm with this model.

    In round 1 all experts predict 0, so the mixtures learn nothing.

    Parameters
    ----------
    params, state
        ``Params`` and ``State`` of the algorithm.
    t
        Round, >= 1.
    y
        Target.
    selection
        Evaluated kernels, their outputs, and the scratch.
    """
    model, scratch, f = state.model, selection.scratch, selection.f
    label, deviation, error = y, np.inf, 0.0
    if t > 1:
        label = foreseen_label(model.experts, y, model.experts.lags[0], FARTHEST_LABEL)
        p = scratch.candidates[REGRETS]
        deviation = _deviation(model)
        farthest = FARTHEST * deviation
        mixed = scratch.mixed[0]
        learn_regrets(model.regrets, f, p, _foreseen(p, y, farthest))
        learn_regrets(model.last, scratch.candidates, mixed, _foreseen(mixed, y, farthest))
        rest, predicted = model.rest, scratch.rest[0]  # error of the last mixture, as trees see it
        rest[0] = REST_FADING * rest[0] + (_foreseen(mixed, y, farthest) - mixed) * predicted
        rest[1] = REST_FADING * rest[1] + predicted * predicted
        _learn_correction(model, scratch, y - p if label == y else _foreseen(p, y, farthest) - p)
        model.error[0] = _foreseen(p, y, farthest) - p
        error = label - f[LINEAR]
    learn_neighbours(model.neighbours, scratch.experts.whole, label, error)
    # Store the targets of both ensembles. The error of the last mixture is 0 in round 1, because
    # there was no prediction.
    trees, N = model.trees, f.shape[0]
    j = trees.n[0] % trees.rows.shape[1]
    trees.labels[TREES, j] = label
    trees.labels[REST, j] = label - scratch.mixed[0] if trees.n[0] > 0 else 0.0
    used = 1 << TREES if model.regrets.w[N - 2] > LEAST_WEIGHT else 0
    used += 1 << REST if _share_of_rest(model) > LEAST_SHARE else 0
    learn_boosted(trees, scratch.trees, used)
    near = _foreseen(scratch.candidates[REGRETS], label, FARTHEST_WIDE * _deviation(model))
    n_columns = n_linear(scratch.experts.x.shape[0])
    learn_wide(model.wide, scratch.wide, near, n_columns, model.regrets.w[N - 1] > 0.0)
    learn_experts(model.experts, scratch.experts, y, deviation)
    for i in range(N):
        state.log_w[i] = math.log(max(model.regrets.w[i], TINY))


@inlined
def _learn_correction(model, scratch, error):
    """Update the noise and both corrections by an error of the first mixture.

    The corrections learn nothing as long as all errors are 0.
    """
    model.noise[0] = NOISE_FADING * model.noise[0] + error * error
    model.noise[1] = NOISE_FADING * model.noise[1] + 1.0
    noise = model.noise[0] / model.noise[1]
    if not noise > 0.0:
        return
    for c in range(len(FADING)):
        off = error - scratch.correction[c]
        learn_rls(model.corrections, c, scratch.corrections, noise, FADING[c], off)


def _context(model: MixtureOfExperts) -> tuple[np.ndarray, ...]:
    return (*context_of(model), model.error)


def _importance(model: MixtureOfExperts) -> np.ndarray:
    """Return the share (C,) of each column in the gain of the trees that predict the target."""
    return gain_shares(model.trees, TREES + 1)[: model.trees.n_columns[TREES]]


MIXTURE_OF_EXPERTS = RECURSIVE._replace(
    name="mixed experts", scratch=mixture_scratch, draws_features=False, context=_context,
    importance=_importance,
)  # fmt: skip
