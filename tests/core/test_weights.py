"""Compiled arithmetic against extended precision, and exponential weights in the log domain."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from omkl.core import compiler, weights
from omkl.core.trigonometry import sincos


def every_exp(x, out):
    for j in range(x.shape[0]):
        out[j] = weights.exp_nonpositive(x[j])


compiled_exp = compiler.compiled(every_exp)


@compiler.compiled
def evidences(R, V, out):
    for k in range(out.shape[0]):
        out[k] = weights.log_evidence(R[k], V[k])
    return out


def exact_evidence(R, V):
    """The integral of exp(eta R - eta^2 V) from 0 to 1/2, from error functions of 60 digits."""
    with mpmath.workdps(60):
        R, V = mpmath.mpf(R), mpmath.mpf(V)
        if not V:
            return float(mpmath.log(mpmath.expm1(R / 2) / R)) if R else -math.log(2.0)
        root = mpmath.sqrt(V)
        low, high = (R - V) / (2 * root), R / (2 * root)
        if high < 0:
            area = mpmath.erfc(-high) - mpmath.erfc(-low)
        else:
            area = mpmath.erfc(low) - mpmath.erfc(high)
        return float(mpmath.log(mpmath.sqrt(mpmath.pi) / (2 * root) * area) + high**2)


def test_log_evidence():
    """On both sides of where one formula follows on the other, and of regrets without an end."""
    rng = np.random.default_rng(0)
    R = rng.normal(size=200) * 10.0 ** rng.uniform(-3.0, 6.0, 200)
    V = 10.0 ** rng.uniform(-8.0, 6.0, 200)
    R = np.append(R, [0.0, 1e-9, -5.9, -6.1, 5.9, 6.1, 6.1, 3.0, 3.0, -3.0, 5.0])
    V = np.append(V, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 4.1, 3.9, 4.1, 4.1, 5.0])
    expected = [exact_evidence(r, v) for r, v in zip(R, V, strict=True)]
    np.testing.assert_allclose(evidences(R, V, np.empty(len(R))), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("exp", [every_exp, compiled_exp], ids=["plain", "compiled"])
def test_exp_nonpositive(exp):
    rng = np.random.default_rng(0)
    x = -np.concatenate([[0.0, 1e-300, 1e-17], rng.uniform(0, 1, 5000), rng.uniform(0, 708, 5000)])
    out = np.empty_like(x)
    exp(x, out)
    exact = np.exp(x.astype(np.longdouble))
    assert np.abs(out / exact - 1).max() < 3e-16
    special = np.array([0.0, -708.5, -1e5, -1e300, -np.inf, np.nan])
    out = np.empty_like(special)
    exp(special, out)
    np.testing.assert_array_equal(out, [1.0, 0.0, 0.0, 0.0, 0.0, np.nan])


def test_logarithms_of_sums_and_differences():
    """log(1 - exp(x)) and log(exp(x) + exp(y)) against extended precision."""
    rng = np.random.default_rng(3)
    x = -np.concatenate([10.0 ** rng.uniform(-16, 2, 5000), rng.uniform(0, 3, 5000)])
    exact = np.log(-np.expm1(x.astype(np.longdouble)))
    ours = np.array([weights.log_one_minus_exp(v) for v in x])
    assert (np.abs(ours - exact) / np.maximum(np.abs(exact), 1.0)).max() < 4e-16
    special = [weights.log_one_minus_exp(v) for v in (0.0, -800.0, -np.inf, np.nan)]
    np.testing.assert_array_equal(special, [-np.inf, 0.0, 0.0, np.nan])
    y, room = rng.permutation(x), np.empty_like(x)
    exact = np.logaddexp(x.astype(np.longdouble), y.astype(np.longdouble))
    ours = x.copy()
    weights.add_logs(ours, y, room)
    assert np.abs(ours - exact).max() < 2e-14  # the logarithms themselves are near 100
    special = np.array([-np.inf, -np.inf, 1.0, 1.0])
    weights.add_logs(special, np.array([-np.inf, 2.0, -np.inf, 1.0]), room)
    np.testing.assert_array_equal(special, [-np.inf, 2.0, 1.0, 1.0 + np.log(2.0)])


@pytest.mark.parametrize(
    ("scale", "tolerance"), [(1.0, 3e-16), (1e2, 4e-16), (1e4, 4e-16), (1e6, 1e-13)]
)
def test_sincos_is_as_accurate_as_stated(scale, tolerance):
    x = np.random.default_rng(1).uniform(-scale, scale, 20_000)
    x[:5] = [0.0, scale, -scale, math.pi / 2, -math.pi]
    sin, cos = np.empty_like(x), np.empty_like(x)
    sincos(x, sin, cos)
    exact = x.astype(np.longdouble)
    assert np.abs(sin - np.sin(exact)).max() < tolerance
    assert np.abs(cos - np.cos(exact)).max() < tolerance


def test_sincos_of_huge_and_undefined_angles():
    """Where floats are further apart than a period the values mean nothing, but stay in range."""
    x = np.array([s * m * 10.0**k for s in (1, -1) for m in (1.0, 1.7) for k in range(7, 309)])
    sin, cos = np.empty_like(x), np.empty_like(x)
    sincos(x, sin, cos)
    assert np.abs(sin).max() <= 1.0 + 3e-16 and np.abs(cos).max() <= 1.0 + 3e-16
    x = np.array([np.nan, np.inf, -np.inf])
    with np.errstate(invalid="ignore"):
        sincos(x, sin, cos)
    assert np.isnan(sin[:3]).all() and np.isnan(cos[:3]).all()


# --- Weights --------------------------------------------------------------------------------------


def softmax(log_w):
    w = np.empty_like(log_w)
    return w, weights.shares_of_all(log_w, w)


def test_softmax_and_mean_by_hand():
    log_w = np.log([1.0, 2.0, 5.0])
    w, log_sum = softmax(log_w)
    np.testing.assert_allclose(w, [1 / 8, 2 / 8, 5 / 8], rtol=1e-15)
    assert log_sum == pytest.approx(math.log(8.0), rel=1e-15)
    assert weights.mean_of_all(log_w, np.array([10.0, 0.0, 4.0])) == pytest.approx(30 / 8)
    np.testing.assert_allclose(weights.normalised(np.stack([log_w, log_w + 7])), [w, w], rtol=1e-14)


def test_a_million_rounds_do_not_underflow():
    """Losses 0.9, 0.9 + 1e-6 and 1: the weights themselves are 0 long before the end.

    A million roundings of a number near 1e6 add up to 6e-5 at most.
    """
    loss = np.array([0.9, 0.9 + 1e-6, 1.0])
    log_w = -np.cumsum(np.tile(loss, (1_000_000, 1)), axis=0)[-1]
    assert np.all(np.exp(log_w) == 0.0)
    w, log_sum = softmax(log_w)
    np.testing.assert_allclose(w, np.array([1.0, math.exp(-1), 0.0]) / (1 + math.exp(-1)), 1e-4)
    assert log_sum == pytest.approx(-900_000 + math.log(1 + math.exp(-1)), rel=1e-9)
    assert weights.mean_of_all(log_w[2:], np.array([3.0])) == 3.0
    assert log_w.argmax() == 0


log_weights = arrays(np.float64, st.integers(1, 8), elements=st.floats(-1e6, 1e6))


@settings(deadline=None)
@given(log_weights, st.floats(-1e3, 1e3))
def test_softmax_properties(log_w, shift):
    """A distribution, in the order of the weights, that a common factor does not change."""
    w, _ = softmax(log_w)
    assert w.sum() == pytest.approx(1.0, abs=1e-15 * len(w)) and np.all(w >= 0.0)
    assert np.all(np.diff(w[np.argsort(log_w, kind="stable")]) >= -1e-18)
    np.testing.assert_allclose(softmax(log_w + shift)[0], w, rtol=0, atol=1e-9)
    np.testing.assert_allclose(weights.normalised(log_w), w, rtol=1e-14, atol=1e-300)
    mean = weights.mean_of_all(log_w, np.linspace(-1, 2, len(w)))
    assert mean == pytest.approx(w @ np.linspace(-1, 2, len(w)), abs=1e-14)


def means(log_w, f, share, out):
    """The mean of f in two ways, and the largest weight."""
    out[0] = weights.mean_of_all(log_w, f)
    weights.shares_of_all(log_w, share)
    out[1] = weights.mean_of_all_by_shares(share, f)
    out[2] = weights.largest_of(log_w)


compiled_means = compiler.compiled(means)


@pytest.mark.parametrize("mean", [means, compiled_means], ids=["plain", "compiled"])
@pytest.mark.parametrize("N", [1, 7, 8, 21])
def test_eight_at_a_time_is_one_after_the_other(mean, N):
    rng = np.random.default_rng(N)
    log_w, f, share, out = -rng.exponential(300.0, N), rng.normal(size=N), np.empty(N), np.empty(3)
    mean(log_w, f, share, out)
    np.testing.assert_allclose(out[:2], weights.normalised(log_w) @ f, rtol=1e-12)
    np.testing.assert_allclose(share, weights.normalised(log_w), rtol=1e-13)
    assert out[2] == log_w.max()


def test_draw_by_hand():
    p = np.array([0.0, 0.25, 0.0, 0.5, 0.25, 0.0])
    drawn = [weights.draw(p, u) for u in (0.0, 0.2499, 0.25, 0.7499, 0.75, 1.0 - 2**-53)]
    assert drawn == [1, 1, 3, 3, 4, 4]
    tenths = np.full(10, 0.1)  # their running sum ends at 1 - 1.1e-16
    assert weights.draw(tenths, 1.0 - 2**-53) == 9


def test_shares_are_the_weights_of_the_mean():
    log_w, f = np.log([1.0, 2.0, 5.0]) - 900.0, np.array([10.0, np.nan, 4.0])
    kernels, w = np.array([2, 0, 99]), np.full(3, np.nan)
    weights.shares(log_w, kernels, 2, w)
    np.testing.assert_allclose(w[:2], [5 / 6, 1 / 6], rtol=1e-13)
    assert weights.mean_by_shares(w, f, kernels, 2) == pytest.approx((5 * 4 + 10) / 6)


def test_a_kernel_whose_weight_is_nothing_has_no_share():
    log_w, w = np.append(-np.inf, np.linspace(-3.0, 0.0, 10)), np.empty(11)
    weights.shares(log_w, np.arange(11), 11, w)
    assert w[0] == 0.0
    np.testing.assert_allclose(w, weights.normalised(log_w), rtol=1e-14)
