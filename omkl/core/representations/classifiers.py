"""What an algorithm does to a kernel classifier, whatever it is made of: vote, add, project."""

from __future__ import annotations

import functools
import math

from omkl.core.jit import dispatch, inlined
from omkl.core.representations.random_features import RandomFeatures, gradient_step
from omkl.core.simd import LANES, at_least, clip, fma, load, pack, total
from omkl.core.weights import exp_nonpositive, exp_of_pack, largest_of

TIE = 1e-12  # of the sum of the weights; that of N products is off by less than N 2^-52


@inlined
def _positive(x):
    """1 for every number of a pack that is above 0, else 0: the least of all numbers is 2^-1074."""
    return clip(at_least(x, 0.0) * 2.0**1000 * 2.0**100, 1.0)


@inlined
def vote(log_w, f):
    """q . sign(f), both (N,): q sums to 1 and is proportional to exp(log_w); sign(0) = 0.

    It is 0 where it is no larger than ``TIE``: as many of equal weight on either side are a tie,
    whose sign rounding would choose.
    """
    N = log_w.shape[0]
    top = largest_of(log_w)
    weights = pack(0.0)
    scores = pack(0.0)
    j = 0
    while j + LANES <= N:
        w = exp_of_pack(load(log_w, j) - top)
        said = load(f, j)
        weights = weights + w
        scores = fma(w, _positive(said) - _positive(said * -1.0), scores)
        j += LANES
    total_w, score = total(weights), total(scores)
    for i in range(j, N):
        w_i = exp_nonpositive(log_w[i] - top)
        total_w += w_i
        if f[i] > 0.0:
            score += w_i
        elif f[i] < 0.0:
            score -= w_i
    return score / total_w if abs(score) > TIE * total_w else 0.0


@functools.singledispatch
def add(model, i, c, f, scratch):
    """f_i <- f_i + c kappa_i(x_t, .), where f = f_i(x_t) before."""
    raise TypeError(f"no representation is registered for {type(model)}")


@functools.singledispatch
def project(model, i, R, scratch):
    """f_i <- f_i / max(1, ||f_i|| / R)."""
    raise TypeError(f"no representation is registered for {type(model)}")


@inlined
def perceptron_step(params, eta, y, f):
    """What a Perceptron learns from a row that it was mistaken in, as ``local_step``."""
    return (-y if y * f <= 0.0 else 0.0), 1.0


@inlined
def add_mistaken(model, y, selection):
    """Let every classifier that was mistaken learn the row."""
    for i in range(selection.f.shape[0]):
        if y * selection.f[i] <= 0.0:
            add(model, i, y, selection.f[i], selection.scratch)


def _add_to_features(model, i, c, f, scratch):
    gradient_step(model, i, i, scratch, -c, 1.0)


def _project_features(model, i, R, scratch):
    if model.norm2[i] > R * R:
        gradient_step(model, i, i, scratch, 0.0, R / math.sqrt(model.norm2[i]))


dispatch(add, RandomFeatures, _add_to_features)

dispatch(project, RandomFeatures, _project_features)
