"""Exponential weights in the log domain, and drawing an index.

Weights are always kept as ``log_w``: a million rounds of multiplying by
exp(-eta loss) underflow, a million subtractions do not.
"""

from __future__ import annotations

import math

import numpy as np

from omkl.jit import part, power_of_two

LOG2E = 1.4426950408889634
LN2_HIGH = 6.93145751953125e-1
LN2_LOW = 1.42860682030941723212e-6


@part
def exp_nonpositive(x):
    """exp(x) for x <= 0 to 3e-16 relative, branch-free; 0 below -708, NaN for NaN."""
    y = x if x > -709.0 else -709.0  # also for NaN, which has no whole k
    k = np.floor(y * LOG2E + 0.5)
    r = (y - k * LN2_HIGH) - k * LN2_LOW
    p = 1.0 / 6227020800.0
    p = 1.0 / 479001600.0 + r * p
    p = 1.0 / 39916800.0 + r * p
    p = 1.0 / 3628800.0 + r * p
    p = 1.0 / 362880.0 + r * p
    p = 1.0 / 40320.0 + r * p
    p = 1.0 / 5040.0 + r * p
    p = 1.0 / 720.0 + r * p
    p = 1.0 / 120.0 + r * p
    p = 1.0 / 24.0 + r * p
    p = 1.0 / 6.0 + r * p
    p = 0.5 + r * p
    p = 1.0 + r * p
    p = 1.0 + r * p
    return 0.0 if x < -708.0 else p * power_of_two(k) + (x - x)  # 0, or NaN for NaN


@part
def softmax(log_w, w):
    """Write weights w (N,) that sum to 1 and are proportional to exp(log_w); return log sum exp."""
    top = log_w[0]
    for i in range(1, log_w.shape[0]):
        top = log_w[i] if log_w[i] > top else top
    total = 0.0
    for i in range(log_w.shape[0]):
        w[i] = exp_nonpositive(log_w[i] - top)
    for i in range(log_w.shape[0]):
        total += w[i]
    inverse = 1.0 / total
    for i in range(log_w.shape[0]):
        w[i] *= inverse
    return top + math.log(total)


@part
def weighted_mean(log_w, f, kernels, n):
    """Mean of f over the first ``n`` of ``kernels``, weighted by exp(log_w)."""
    top = log_w[kernels[0]]
    for m in range(1, n):
        top = max(top, log_w[kernels[m]])
    total = 0.0
    mean = 0.0
    for m in range(n):
        i = kernels[m]
        w = exp_nonpositive(log_w[i] - top)
        total += w
        mean += w * f[i]
    return mean / total


@part
def draw(p, u):
    """Index drawn from the probabilities p (N,) by one uniform number u in [0, 1).

    Rounding can leave the sum of p a little below u; the last index with a
    positive probability is returned then.
    """
    total = 0.0
    last = 0
    for i in range(p.shape[0]):
        if p[i] > 0.0:
            last = i
            total += p[i]
            if u < total:
                return i
    return last


@part
def argmax(values):
    """Smallest index of the largest of values (N,)."""
    best = 0
    for i in range(1, values.shape[0]):
        if values[i] > values[best]:
            best = i
    return best


def normalised(log_w: np.ndarray) -> np.ndarray:
    """Weights summing to 1 along the last axis, in plain NumPy."""
    w = np.exp(log_w - log_w.max(axis=-1, keepdims=True))
    return w / w.sum(axis=-1, keepdims=True)
