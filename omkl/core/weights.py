"""Exponential weights in the log domain, sums of logarithms, and draws of an index.

Weights are stored as their logarithms, ``log_w``. A million multiplications by exp(-eta loss) would
underflow. A million subtractions of eta loss do not.
"""

from __future__ import annotations

import math

import numpy as np

from omkl.core.compiler import inlined, power_of_two
from omkl.core.simd import (
    LANES,
    WHOLE,
    at_least,
    clip,
    fma,
    gather,
    largest,
    load,
    pack,
    store,
    times_power_of_two,
    total,
)

LOG2E = 1.4426950408889634
LN2_HIGH = 6.93145751953125e-1
LN2_LOW = 1.42860682030941723212e-6
LARGEST = np.finfo(np.float64).max
ROOT_HALF_BITS = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
# For |R| and V up to these limits, ``log_evidence`` integrates with 10 nodes, exact up to rounding.
# Beyond them it subtracts two error functions that differ by a factor of at least e, so that few
# digits cancel.
MOST_REGRET, MOST_SQUARES = 6.0, 4.0
ETAS, ETA_WEIGHTS = np.polynomial.legendre.leggauss(10)
LEAST_SQUARES = 1e-200  # lower limit of V, so that divisions by its root stay finite
LARGE_ERFCX = 12.0  # for larger x, the asymptotic series of erfc has full precision


@inlined
def _exp_tail(r):
    """Return (exp(r) - 1 - r) / r^2 for |r| <= log(2) / 2."""
    p = 1.0 / 87178291200.0
    p = 1.0 / 6227020800.0 + r * p
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
    return 0.5 + r * p


@inlined
def exp_nonpositive(x):
    """Return exp(x) for x <= 0, with a relative error of 3e-16; 0 below -708, NaN for NaN.

    The code has no branch.
    """
    y = x if x > -709.0 else -709.0  # also for NaN, because k must be an integer
    k = np.floor(y * LOG2E + 0.5)
    # LN2_HIGH has so few bits that k LN2_HIGH is exact. So r is exact up to its last bit.
    r = (y - k * LN2_HIGH) - k * LN2_LOW
    p = 1.0 + r * (1.0 + r * _exp_tail(r))
    return 0.0 if x < -708.0 else p * power_of_two(k) + (x - x)  # x - x is 0, or NaN for NaN


@inlined
def exp_of_pack(x):
    """Return exp of each of the eight numbers <= 0 of a pack, as ``exp_nonpositive`` does."""
    y = at_least(x, -709.0)
    k = y * LOG2E + WHOLE
    whole = k - WHOLE
    r = (y - whole * LN2_HIGH) - whole * LN2_LOW
    return times_power_of_two(1.0 + r * (1.0 + r * _exp_tail(r)), k) + (x - x)


@inlined
def _log(k, f):
    """Return log(2^k (1 + f)) for sqrt(1/2) <= 1 + f < sqrt(2).

    log(1 + f) is computed as 2 artanh(f / (2 + f)), with a minimax polynomial for artanh.
    """
    s = f / (2.0 + f)
    z = s * s
    series = 1.531383769920937332e-01 + z * 1.479819860511658591e-01
    series = 2.222219843214978396e-01 + z * (1.818357216161805012e-01 + z * series)
    series = 3.999999999940941908e-01 + z * (2.857142874366239149e-01 + z * series)
    series = z * (6.666666666666735130e-01 + z * series)
    half = 0.5 * f * f
    return k * LN2_HIGH + (f - (half - (s * (half + series) + k * LN2_LOW)))


@inlined
def log_one_plus(w):
    """Return log(1 + w) for w in [0, 1], with a relative error of 4e-16, without a branch."""
    k = np.floor(w + 0.585786437626905)  # 1 where 1 + w exceeds sqrt(2)
    return _log(k, (w - k) * (1.0 - 0.5 * k))


@inlined
def log_one_minus_exp(x):
    """Return log(1 - exp(x)) for x <= 0, without a branch; -inf for 0.

    The error is at most 4e-16. For results below -1 this is the relative error.
    """
    y = x if x > -709.0 else -709.0
    k = np.floor(y * LOG2E + 0.5)
    r = (y - k * LN2_HIGH) - k * LN2_LOW
    p = _exp_tail(r)
    power = power_of_two(k)
    v = (1.0 - power) - power * (r + r * r * p)  # in [0, 1], without cancellation for k = 0
    bits = np.float64(v).view(np.int64)
    e = (bits - ROOT_HALF_BITS) >> 52
    m = np.int64(bits - (e << 52)).view(np.float64)
    result = _log(np.float64(e), m - 1.0)
    result = 0.0 if x < -708.0 else result + (x - x)
    return result if x != 0.0 else -np.inf


@inlined
def _scaled_erfc(x):
    """Return exp(x^2) erfc(x) for x >= 0, with a relative error of 3e-14."""
    if x < LARGE_ERFCX:
        return math.exp(x * x) * math.erfc(x)
    s = 0.5 / x / x
    series = 1.0
    for k in range(15, 0, -2):
        series = 1.0 - k * s * series
    return series / (x * math.sqrt(math.pi))


@inlined
def log_evidence(regret, squares):
    """Return log of the integral of exp(eta R - eta^2 V) over eta from 0 to 1/2.

    The error is at most 1e-13.

    Parameters
    ----------
    regret, squares
        Finite numbers R and V >= 0.
    """
    R, V = regret, squares
    if abs(R) <= MOST_REGRET and V <= MOST_SQUARES:
        integral = 0.0
        for k in range(ETAS.shape[0]):
            eta = 0.25 * (1.0 + ETAS[k])
            integral += 0.25 * ETA_WEIGHTS[k] * math.exp(eta * (R - eta * V))
        return math.log(integral)
    root = math.sqrt(max(V, LEAST_SQUARES))
    # Distances of eta = 0 and eta = 1/2 from the peak of the integrand, in units of its width.
    from_0, from_half = 0.5 * R / root, 0.5 * (R - V) / root
    at_half = 0.5 * R - 0.25 * V  # exponent of the integrand at eta = 1/2; it is 0 at eta = 0
    scale = 0.5 * math.log(math.pi) - math.log(2.0 * root)
    if R <= 0.0:
        tail = _scaled_erfc(-from_half) * math.exp(at_half)
        return scale + math.log(_scaled_erfc(-from_0) - tail)
    if from_half >= 0.0:
        tail = _scaled_erfc(from_0) * math.exp(-at_half)
        return scale + at_half + math.log(_scaled_erfc(from_half) - tail)
    return scale + from_0 * from_0 + math.log(math.erf(from_0) + math.erf(-from_half))


@inlined
def add_logs(total, more, scratch):
    """Replace total by log(exp(total) + exp(more)); -inf is allowed.

    The loop is split in two, because the compiler neither inlines nor vectorises a longer body.

    Parameters
    ----------
    total, more
        Logarithms (n,); ``total`` is updated in place.
    scratch
        Scratch (n,).
    """
    for j in range(total.shape[0]):
        x, y = total[j], more[j]
        low = x if x < y else y
        total[j] = y if x < y else x
        scratch[j] = exp_nonpositive(low - total[j]) if low > -np.inf else 0.0
    for j in range(total.shape[0]):
        total[j] += log_one_plus(scratch[j])


@inlined
def largest_of(values):
    """Return the largest of values (N,).

    Eight values are compared at a time. The result equals that of a loop with ``max``.
    """
    N = values.shape[0]
    highest = pack(values[0])
    j = 0
    while j + LANES <= N:
        highest = at_least(load(values, j), highest)
        j += LANES
    top = largest(highest)
    for i in range(j, N):
        top = max(top, values[i])
    return top


@inlined
def mean_of_all(log_w, f):
    """Return the mean of f (N,) with weights proportional to exp(log_w), eight numbers at a time.

    The largest log_w is subtracted from all, so that the largest weight is 1 and does not
    underflow.
    """
    N = log_w.shape[0]
    top = largest_of(log_w)
    weights = pack(0.0)
    weighted = pack(0.0)
    j = 0
    while j + LANES <= N:
        w = exp_of_pack(load(log_w, j) - top)
        weights = weights + w
        weighted = fma(w, load(f, j), weighted)
        j += LANES
    total_w = total(weights)
    mean = total(weighted)
    for i in range(j, N):
        w_i = exp_nonpositive(log_w[i] - top)
        total_w += w_i
        mean += w_i * f[i]
    return mean / total_w


@inlined
def variance_of_all(log_w, f, mean):
    """Return the mean of (f - mean)^2 with weights proportional to exp(log_w).

    Parameters
    ----------
    log_w, f
        Logarithms of weights, and outputs (N,).
    mean
        Centre of the squares.
    """
    N = log_w.shape[0]
    top = largest_of(log_w)
    weights = pack(0.0)
    weighted = pack(0.0)
    j = 0
    while j + LANES <= N:
        w = exp_of_pack(load(log_w, j) - top)
        error = load(f, j) - mean
        weights = weights + w
        weighted = fma(w * error, error, weighted)
        j += LANES
    total_w = total(weights)
    spread = total(weighted)
    for i in range(j, N):
        w_i = exp_nonpositive(log_w[i] - top)
        error_i = f[i] - mean
        total_w += w_i
        spread += w_i * error_i * error_i
    return spread / total_w


@inlined
def exponential_update(log_w, eta, y, f, lam, norm2):
    """Update log_w <- log_w - eta ((f - y)^2 + lam norm2) for all kernels.

    Parameters
    ----------
    log_w
        Logarithms of weights (N,), updated in place.
    eta
        Step size, > 0.
    y
        Target.
    f, norm2
        Outputs and squared norms of coefficients (N,).
    lam
        Penalty, >= 0.
    """
    N = log_w.shape[0]
    j = 0
    while j + LANES <= N:
        error = load(f, j) - y
        store(log_w, j, load(log_w, j) - (error * error + load(norm2, j) * lam) * eta)
        j += LANES
    for i in range(j, N):
        error_i = f[i] - y
        log_w[i] -= eta * (error_i * error_i + lam * norm2[i])


@inlined
def shares_of_all(log_w, w):
    """Write weights w (N,) of sum 1, proportional to exp(log_w). Return log(sum of exp(log_w))."""
    return shares_below(log_w, largest_of(log_w), w)


@inlined
def shares_below(log_w, top, w):
    """Do the same as ``shares_of_all`` if the largest log_w is known.

    Parameters
    ----------
    log_w
        Logarithms of weights (N,).
    top
        Largest of them.
    w
        Output (N,).
    """
    N = log_w.shape[0]
    weights = pack(0.0)
    j = 0
    while j + LANES <= N:
        exps = exp_of_pack(load(log_w, j) - top)
        store(w, j, exps)
        weights = weights + exps
        j += LANES
    if j < N:  # the padding is 0 - top, which may be positive: clip keeps exp finite
        store(w, j, exp_of_pack(clip(load(log_w, j, N - j) - top, 710.0)), N - j)
    total_w = total(weights)
    for i in range(j, N):
        total_w += w[i]
    inverse = 1.0 / total_w
    for i in range(N):
        w[i] *= inverse
    return top + math.log(total_w)


@inlined
def mean_of_all_by_shares(w, f):
    """Return the mean of f (N,) with weights w (N,) of sum 1, eight products at a time."""
    N = w.shape[0]
    weighted = pack(0.0)
    j = 0
    while j + LANES <= N:
        weighted = fma(load(w, j), load(f, j), weighted)
        j += LANES
    mean = total(weighted)
    for i in range(j, N):
        mean += w[i] * f[i]
    return mean


@inlined
def largest_among(log_w, kernels, n, least):
    """Return the largest of ``least`` and the log_w of some kernels.

    Parameters
    ----------
    log_w
        Logarithms of weights (N,).
    kernels, n
        Kernels (N,), of which the first n count.
    least
        Lower limit of the result.
    """
    highest = pack(least)
    for m in range(0, n, LANES):
        highest = at_least(gather(log_w, kernels, m, 0, min(LANES, n - m)), highest)
    return largest(highest)


@inlined
def weights_among(log_w, kernels, n, top, w):
    """Write w[m] = exp(log_w[i] - top) for i = kernels[m], m < n; log_w[i] = -inf gives 0.

    Parameters
    ----------
    log_w
        Logarithms of weights (N,).
    kernels, n
        Kernels (N,), of which the first n count.
    top
        Largest of their log_w.
    w
        Output (n,) or longer.
    """
    for m in range(0, n, LANES):
        k = min(LANES, n - m)
        store(w, m, exp_of_pack(clip(gather(log_w, kernels, m, 0, k) - top, LARGEST)), k)


@inlined
def shares(log_w, kernels, n, w):
    """Write the weights of some kernels, proportional to exp(log_w) and of sum 1, in their order.

    Parameters
    ----------
    log_w
        Logarithms of weights (N,).
    kernels, n
        Kernels (N,), of which the first n >= 1 count.
    w
        Output (N,), written up to n.
    """
    weights_among(log_w, kernels, n, largest_among(log_w, kernels, n, log_w[kernels[0]]), w)
    total = 0.0
    for m in range(n):
        total += w[m]
    inverse = 1.0 / total
    for m in range(n):
        w[m] *= inverse


@inlined
def mean_by_shares(w, f, kernels, n):
    """Return the mean of f over some kernels, with weights from ``shares``.

    Parameters
    ----------
    w, f
        Weights in the order of ``kernels``, and outputs by kernel, (N,).
    kernels, n
        Kernels (N,), of which the first n count.
    """
    mean = 0.0
    for m in range(n):
        mean += w[m] * f[kernels[m]]
    return mean


@inlined
def draw(p, u):
    """Draw an index with probabilities p (N,), by a uniform number u in [0, 1).

    Rounding can leave the sum of p a little below u. Then return the last index with p > 0.
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


@inlined
def n_less(ascending, n, number):
    """Count the numbers less than ``number`` among the first n, by bisection.

    Parameters
    ----------
    ascending
        Ascending numbers (n,) or longer.
    n
        Number of entries that count.
    number
        Limit; NaN gives 0.
    """
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low


def normalised(log_w: np.ndarray) -> np.ndarray:
    """Return weights of sum 1 along the last axis, proportional to exp(log_w), in plain NumPy."""
    w = np.exp(log_w - log_w.max(axis=-1, keepdims=True))
    return w / w.sum(axis=-1, keepdims=True)
