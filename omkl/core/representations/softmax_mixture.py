"""Experts and their mixtures for classes: features are shared, outputs are not.

An expert has features z, one matrix P (the covariance of coefficients, ``second_order``), and
coefficients theta_k for each of K classes. A further class costs one product theta_k'z and one step
along P z, but no further P. The probabilities of the classes are the softmax of the K outputs, so
they sum to 1. A prediction averages over theta by MacKay's approximation: it divides the outputs by
sqrt(1 + pi z'P z / 4). A row moves the coefficients of all classes along one line: P times the
gradient of log p_y, where p_y is the probability of the class y of the row. The step goes to the
maximum of the posterior on this line.

Inputs, past targets and recursive learners are those of ``experts``. Two plain experts use targets
alone. The first predicts the frequencies of the classes in all rows. The second counts only rows
that followed a row of class c, where c is the newest known class. Boosted trees, whose sums are
logits, are another expert. Until the trees are grown, they predict the mixture of the other
experts.

The weight of an expert in the first mixture is multiplied by its probability of the true class. In
each round a share of all weights is distributed equally again. A further learner corrects the first
mixture. For each class, its inputs are the log probability log p of the first mixture, and the
differences log p_i - log p for the probabilities p_i of the experts. A final mixture combines the
corrected probabilities, the first mixture and plain experts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from omkl.core.compiler import dispatch, inlined
from omkl.core.linalg import dot_from, move_along, take_in
from omkl.core.representations import evaluate_row
from omkl.core.representations.boosted import (
    N_TREES,
    Boosted,
    BoostedScratch,
    boosted_scratch,
    evaluate_boosted,
    fresh_boosted,
    gain_shares,
    learn_boosted_classes,
    write_columns,
)
from omkl.core.representations.experts import (
    LAST,
    MEAN,
    N_PLAIN,
    Experts,
    ExpertsScratch,
    context_of,
    count,
    experts_scratch,
    n_parts,
    noise_of_part,
    part_of,
    write_outputs,
)
from omkl.core.representations.mixture_of_experts import TREE_LAGS
from omkl.core.representations.second_order import RECURSIVE
from omkl.core.robust_moments import COUNT
from omkl.core.simd import LANES, aligned

PRIOR = 0.3  # variance of a coefficient of the correction
# Share of the weights that is distributed equally in each round: 0.0001 to 0.01 give errors within
# 0.5 %.
SHARE = 1e-3
# The mixture "uses" trees above this weight, or above this coefficient of the correction.
TREES_USED = (0.05, 0.2)
# Shares of equal probabilities in the probabilities of an expert, and in those of the correction.
FLATTEST, FLATTER = 3e-4, 1e-5
UNSEEN = 0.5  # count of each class before the first row: Krichevsky and Trofimov
# P is updated by a share of the curvature of the log loss along the gradient of a row: 2 / K, at
# least SHARED. All classes share P, but most classes learn less from a row than the two with the
# largest gradients. With many classes 0.25 to 0.6 give log losses within 3 %.
SHARED = 0.4
STEEPEST = 1e-13  # least curvature, because its inverse is the noise of the update
NOTHING = 1e-24  # squared length of a gradient from which nothing is learned
MOST_STEPS, PRECISE = 60, 1e-12  # limits of the search for a step, which usually takes two to four
PLAIN = (MEAN, LAST, N_PLAIN)  # experts that are candidates themselves; the third is linear
# All classes together have MOST_TREES trees, but each class has at least FEWEST. With more than
# MOST_CLASSES classes there are no trees.
MOST_TREES, FEWEST, MOST_CLASSES = 200, 20, 32
CORRECTED, MIXTURE = 0, 1  # first candidates of the last mixture; PLAIN follow


class SoftmaxMixture(NamedTuple):
    """N experts for K classes, and their mixtures.

    experts     N - 1 experts, N - 3 of them learners. ``experts.first.theta`` is unused and 0
    trees       K ensembles of logits that read raw inputs and past targets. For K = 2 there is only
                one ensemble, for the second class. For K > MOST_CLASSES there is one, and its trees
                are never grown
    theta       (M, K, 8 B) coefficients of each class, for the M matrices P in ``experts.first``.
                A learner has one of these matrices, or several if its columns are in parts
    counts      (K,) number of rows of each class
    followed    (K, K) number of rows of class j (second index) whose previous row had class i
    w           (N,) weights of the experts, of sum 1
    covariance  (N + 1, N + 1) covariance of the coefficients of the correction
    coefficients   (N + 1,) coefficients of the correction, which all classes share
    last        (5,) weights in the final mixture: of the corrected probabilities, of the first
                mixture, and of the three experts PLAIN
    """

    experts: Experts
    trees: Boosted
    theta: np.ndarray
    counts: np.ndarray
    followed: np.ndarray
    w: np.ndarray
    covariance: np.ndarray
    coefficients: np.ndarray
    last: np.ndarray

    @property
    def n_kernels(self) -> int:
        return self.experts.n_kernels + 1


class SoftmaxScratch(NamedTuple):
    """Scratch of a round.

    outputs      (N - 3, K) theta_k'z of the learners
    p            (N, K) probabilities of the experts
    beyond       (N + 1, K) inputs of the correction: differences of the log probabilities of the
                 experts from those of the mixture, and log probabilities of the mixture
    margin       (K,) logits of the correction
    candidates   (5, K) probabilities that the final mixture combines
    y_hat        (K,) prediction, 2 p - 1
    share, direction, moved   (K,) scratch of a step
    gradient, product         (N + 1,) gradient of the correction, and covariance times gradient
    """

    experts: ExpertsScratch
    trees: BoostedScratch
    outputs: np.ndarray
    p: np.ndarray
    beyond: np.ndarray
    margin: np.ndarray
    candidates: np.ndarray
    y_hat: np.ndarray
    share: np.ndarray
    direction: np.ndarray
    moved: np.ndarray
    gradient: np.ndarray
    product: np.ndarray


def trees_of_a_class(K: int) -> int:
    """Return the number of trees of each of K classes."""
    return min(N_TREES, max(FEWEST, MOST_TREES // K))


def fresh_softmax(model: Experts, K: int, n_trees: int, n_rows: int) -> SoftmaxMixture:
    """Build the mixtures of these experts for K classes, in the state before the first row.

    Parameters
    ----------
    model
        Experts.
    K
        Number of classes, >= 2.
    n_trees, n_rows
        Trees of each class, and rows of their window.
    """
    N, n_last = model.n_kernels + 1, 2 + len(PLAIN)
    n_columns = len(model.inputs) + TREE_LAGS
    E = K if 2 < K <= MOST_CLASSES else 1
    return SoftmaxMixture(
        model,
        fresh_boosted([n_columns] * E, n_trees, n_rows, of_classes=True),
        theta=aligned((model.first.n_kernels, K, model.first.theta.shape[1])),
        counts=np.zeros(K),
        followed=np.zeros((K, K)),
        w=np.full(N, 1.0 / N),
        covariance=PRIOR * np.eye(N + 1),
        coefficients=np.zeros(N + 1),
        last=np.full(n_last, 1.0 / n_last),
    )


def softmax_scratch(model: SoftmaxMixture, threads: int) -> SoftmaxScratch:
    N, K = model.n_kernels, len(model.counts)
    return SoftmaxScratch(
        experts_scratch(model.experts, threads),
        boosted_scratch(model.trees, of_classes=True),
        outputs=np.zeros((len(model.experts.decay), K)),
        p=np.zeros((N, K)),
        beyond=np.zeros((N + 1, K)),
        margin=np.zeros(K),
        candidates=np.zeros((2 + len(PLAIN), K)),
        y_hat=np.zeros(K),
        share=np.zeros(K),
        direction=np.zeros(K),
        moved=np.zeros(K),
        gradient=np.zeros(N + 1),
        product=np.zeros(N + 1),
    )


@inlined
def _softmax(logits, scale, p):
    """Write the softmax of scale * logits (K,) into p (K,)."""
    K = logits.shape[0]
    top = logits[0]
    for k in range(1, K):
        top = max(top, logits[k])
    whole = 0.0
    for k in range(K):
        p[k] = math.exp(scale * (logits[k] - top))
        whole += p[k]
    for k in range(K):
        p[k] /= whole


@inlined
def _flatten(p, share):
    """Update p <- (1 - share) p + share / K, for probabilities p (K,)."""
    K = p.shape[0]
    for k in range(K):
        p[k] = (1.0 - share) * p[k] + share / K


@inlined
def _step_and_curvature(logits, direction, y, quadratic, scratch):
    """Return the step s along a direction (K,) of logits, and the variance of the direction at s.

    s in [0, 1] maximises log p_y(logits + s direction) - s^2 quadratic / 2. The derivative of this
    function is decreasing, equal to ``quadratic`` at 0, and not above 0 at 1. Newton's
    steps find its zero, and bisection keeps them in a bracket. The variance is taken over the
    classes by their probabilities at s.
    """
    K = logits.shape[0]
    low, high, s, before = 0.0, 1.0, 0.0, 2.0
    variance = 0.0
    for _ in range(MOST_STEPS):
        for k in range(K):
            scratch.moved[k] = logits[k] + s * direction[k]
        _softmax(scratch.moved, 1.0, scratch.share)
        mean = 0.0
        for k in range(K):
            mean += scratch.share[k] * direction[k]
        variance = 0.0
        for k in range(K):
            off = direction[k] - mean
            variance += scratch.share[k] * off * off
        slope = direction[y] - mean - s * quadratic
        if slope > 0.0:
            low = s
        else:
            high = s
        step = slope / (variance + quadratic)
        if abs(step) <= PRECISE * s or high - low <= PRECISE * s:
            break
        if not (low < s + step < high and abs(step) <= 0.5 * before):
            step = 0.5 * (low + high) - s
        s += step
        before = abs(step)
    return s, variance


@inlined
def _write_outputs(scratch, model):
    """Write theta_k'z of every expert and class."""
    N, K = scratch.outputs.shape
    F = model.theta.shape[2]
    for i in range(N):
        for k in range(K):
            scratch.outputs[i, k] = 0.0
            for m in range(n_parts(model.experts, i)):
                j = part_of(model.experts, i, m)
                at, n = (j * K + k) * F, model.experts.first.blocks[j] * LANES
                z = scratch.experts.first.z
                scratch.outputs[i, k] += dot_from(model.theta, at, z, j * F, n)


@inlined
def _last_class(model):
    """Return the class that was learned last.

    The result is a valid index even if a model file contains another number.
    """
    return min(model.followed.shape[0] - 1, max(0, int(model.experts.lags[0])))


@inlined
def _write_probabilities(scratch, model, X, row):
    """Write the probabilities of every expert at X[row] into scratch.p (N, K)."""
    write_outputs(model.experts, scratch.experts, X, row)
    _write_outputs(scratch, model)
    K = model.counts.shape[0]
    rows = model.experts.label[0, COUNT]
    last = _last_class(model)
    after = UNSEEN * K
    for k in range(K):
        after += model.followed[last, k]
    for k in range(K):
        scratch.p[MEAN, k] = (model.counts[k] + UNSEEN) / (rows + UNSEEN * K)
        scratch.p[LAST, k] = (model.followed[last, k] + UNSEEN) / after
    for i in range(scratch.outputs.shape[0]):
        variance = scratch.experts.variance[i]
        p = scratch.p[i + N_PLAIN]
        _softmax(scratch.outputs[i], 1.0 / math.sqrt(1.0 + 0.25 * math.pi * variance), p)
        _flatten(p, FLATTEST)
    _write_trees(scratch, model)


@inlined
def _write_trees(scratch, model):
    """Write the probabilities of the trees into the last row of scratch.p.

    Until trees exist, this row is the mixture of the other experts. Then the weight of the trees
    does not change.
    """
    write_columns(scratch.trees, scratch.experts.x, model.experts.lags[:TREE_LAGS])
    N, K = scratch.p.shape
    p = scratch.p[N - 1]
    if model.trees.fits[0] > 0:
        scratch.margin[0] = 0.0  # for two classes, the trees give the logit of the second class
        E = model.trees.forest.base.shape[0]
        for e in range(E):
            scratch.margin[K - E + e] = evaluate_boosted(model.trees, scratch.trees, e)
        _softmax(scratch.margin, 1.0, p)
        _flatten(p, FLATTEST)
        return
    whole = 0.0
    for k in range(K):
        p[k] = 0.0
        for i in range(N - 1):
            p[k] += model.w[i] * scratch.p[i, k]
        whole += p[k]
    for k in range(K):
        p[k] /= whole


@inlined
def _mix(w, p, mixture):
    """Write into mixture (K,) the mean of the probabilities p (M, K) with weights w (M,)."""
    for k in range(mixture.shape[0]):
        mixture[k] = 0.0
        for i in range(w.shape[0]):
            mixture[k] += w[i] * p[i, k]


def _evaluate_softmax(scratch, model, X, row, selection):
    _write_probabilities(scratch, model, X, row)
    N, K = scratch.p.shape
    candidates, beyond = scratch.candidates, scratch.beyond
    _mix(model.w, scratch.p, candidates[MIXTURE])
    for k in range(K):
        mixed = math.log(candidates[MIXTURE, k])
        a = mixed * (1.0 + model.coefficients[N])
        beyond[N, k] = mixed
        for i in range(N):
            beyond[i, k] = math.log(scratch.p[i, k]) - mixed
            a += model.coefficients[i] * beyond[i, k]
        scratch.margin[k] = a
    _softmax(scratch.margin, 1.0, candidates[CORRECTED])
    _flatten(candidates[CORRECTED], FLATTER)
    for c in range(len(PLAIN)):
        for k in range(K):
            candidates[2 + c, k] = scratch.p[PLAIN[c], k]
    _mix(model.last, candidates, scratch.y_hat)
    for k in range(K):
        scratch.y_hat[k] = 2.0 * scratch.y_hat[k] - 1.0
    for i in range(N):
        selection.f[i] = 0.0
        for k in range(K):
            selection.f[i] = max(selection.f[i], scratch.p[i, k])


dispatch(evaluate_row, SoftmaxScratch, _evaluate_softmax)


@inlined
def _learn_expert(scratch, model, i, y):
    """Move the theta_k of expert i, for every class k, along P z, and update P by the row."""
    experts, first = model.experts, scratch.experts.first
    K = model.counts.shape[0]
    gradient, direction = scratch.moved, scratch.direction
    variance = scratch.experts.variance[i]
    _softmax(scratch.outputs[i], 1.0, gradient)
    squares = 0.0
    for k in range(K):
        g = (1.0 if k == y else 0.0) - gradient[k]
        direction[k] = variance * g
        squares += g * g
    curvature, s = STEEPEST, 0.0
    if squares > NOTHING and variance > 0.0:
        quadratic = variance * squares
        s, spread = _step_and_curvature(scratch.outputs[i], direction, y, quadratic, scratch)
        share = max(SHARED, 2.0 / K)
        curvature = max(STEEPEST, share * spread / (variance * quadratic))
    noise = 1.0 / curvature
    F = model.theta.shape[2]
    for m in range(n_parts(experts, i)):
        j = part_of(experts, i, m)
        apart = noise_of_part(scratch.experts, i, j, noise)
        take_in(
            experts.first.factor, experts.first.diagonal, j, experts.first.blocks[j],
            first.projected, first.alpha, apart, experts.decay[i], experts.first.ceiling[j],
            first.gain, first.slope, first.step,
        )  # fmt: skip
        for k in range(K if s > 0.0 else 0):
            move = (variance + noise) * s * direction[k] / variance
            at, n = (j * K + k) * F, experts.first.blocks[j] * LANES
            move_along(model.theta, at, first.step, 0, n, move)


@inlined
def _learn_correction(scratch, model, y):
    """Move the coefficients of the correction along P g, and update P.

    P is their covariance, and g is the gradient of the log probability of the true class y.
    """
    M, K = scratch.beyond.shape
    _softmax(scratch.margin, 1.0, scratch.share)
    for j in range(M):
        mean = 0.0
        for k in range(K):
            mean += scratch.share[k] * scratch.beyond[j, k]
        scratch.gradient[j] = scratch.beyond[j, y] - mean
    variance = 0.0
    for j in range(M):
        scratch.product[j] = 0.0
        for m in range(M):
            scratch.product[j] += model.covariance[j, m] * scratch.gradient[m]
        variance += scratch.product[j] * scratch.gradient[j]
    if not variance > NOTHING:
        return
    for k in range(K):
        scratch.direction[k] = 0.0
        for j in range(M):
            scratch.direction[k] += scratch.product[j] * scratch.beyond[j, k]
    s, spread = _step_and_curvature(scratch.margin, scratch.direction, y, variance, scratch)
    curvature = max(STEEPEST, spread / (variance * variance))
    shrink = curvature / (1.0 + curvature * variance)
    for j in range(M):
        model.coefficients[j] += s * scratch.product[j]
        for m in range(M):
            model.covariance[j, m] -= shrink * scratch.product[j] * scratch.product[m]


@inlined
def _learn_weights(w, p, y):
    """Multiply the weights w (M,) by the probabilities p[:, y] of the true class y, and scale them.

    Then distribute the share SHARE of their sum equally among all experts.
    """
    whole = 0.0
    for i in range(w.shape[0]):
        w[i] *= p[i, y]
        whole += w[i]
    for i in range(w.shape[0]):
        w[i] = (1.0 - SHARE) * w[i] / whole + SHARE / w.shape[0]


@inlined
def learn_softmax(state, scratch, label):
    """Learn the class of the evaluated row with experts and mixtures.

    Parameters
    ----------
    state
        State with the model, updated in place.
    scratch
        Scratch, with the numbers that the evaluation of the row wrote.
    label
        Class, 0 .. K - 1.
    """
    model, y = state.model, int(label)
    for i in range(scratch.outputs.shape[0]):
        _learn_expert(scratch, model, i, y)
    _learn_correction(scratch, model, y)
    n = model.w.shape[0] - 1
    if model.counts.shape[0] <= MOST_CLASSES:
        trees = model.trees
        trees.labels[0, trees.n[0] % trees.labels.shape[1]] = y
        is_used = model.w[n] > TREES_USED[0] or abs(model.coefficients[n]) > TREES_USED[1]
        learn_boosted_classes(trees, scratch.trees, is_used)
    _learn_weights(model.w, scratch.p, y)
    _learn_weights(model.last, scratch.candidates, y)
    if model.experts.label[0, COUNT] > 0.0:
        model.followed[_last_class(model), y] += 1.0
    model.counts[y] += 1.0
    count(model.experts, scratch.experts, label)
    for i in range(n + 1):
        state.log_w[i] = math.log(model.w[i])
        state.updates[i] += 1.0


def _importance(model: SoftmaxMixture) -> np.ndarray:
    return gain_shares(model.trees, len(model.trees.forest.gains))


SOFTMAX_MIXTURE = RECURSIVE._replace(
    name="mixed softmax experts",
    scratch=softmax_scratch,
    draws_features=False,
    context=context_of,
    importance=_importance,
)
