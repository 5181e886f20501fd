"""Overlaps and divergences of kernels: integration, hundred digits, and the order that decides."""

import itertools
import math
from decimal import Decimal, localcontext

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad

from omkl.core.feedback_graph import dissimilarity_graph, similarity_graph
from omkl.core.kernel_distance import divergence_rows, log_overlaps, overlaps, ranks
from omkl.core.kernels import FAMILIES, Kernel, dictionary
from omkl.utils import conf

PUBLISHED = dictionary(conf.entry("kernels", "rbf51_lap25"))


def log_overlap(a, b):
    return log_overlaps([a, b], 1)[0, 1]


def log_divergence(some, d):
    return divergence_rows(overlaps(tuple(some), d), np.arange(len(some)))


SPECTRAL = [name for name, family in FAMILIES.items() if family.spectrum]
MANY = [Kernel(family, b) for family in SPECTRAL for b in (1e-2, 0.3, 1e2)]
PAIRS = list(itertools.combinations_with_replacement(MANY, 2))


def test_log_overlap_equals_numerical_integration():
    """Every pair of families at ratios of bandwidths up to 1e4, integrated over s = log r."""
    for a, b in PAIRS:

        def integrand(s, a=a, b=b):
            r = np.array([math.exp(s)])
            return 2.0 * math.exp(s) * a.value(r) * b.value(r)

        integral = sum(
            quad(integrand, low, low + 6.0, epsabs=0.0, epsrel=1e-11, limit=200)[0]
            for low in np.arange(-42.0, 18.0, 6.0)
        )
        assert log_overlap(a, b) == pytest.approx(math.log(integral), abs=1e-9), (a, b)
        assert log_overlap(b, a) == log_overlap(a, b)


@pytest.mark.parametrize(("d", "step", "tolerance"), [(1, 0.05, 1e-9), (2, 0.1, 1e-6)])
def test_divergence_is_the_integral_over_all_inputs(d, step, tolerance):
    """Cubature of (kappa_i - kappa_j)^2 with the kernels' own values in d inputs.

    The trapezoid rule in log |r_k| converges exponentially; 2^d orthants are equal.
    """
    some = [Kernel(f, b) for f in SPECTRAL for b in (0.4, 1.5)]
    s = np.arange(-30.0, 22.0, step)
    r = np.stack(np.meshgrid(*[np.exp(s)] * d, indexing="ij"), axis=-1)
    weight = (2.0 * step) ** d * np.exp(sum(np.meshgrid(*[s] * d, indexing="ij")))
    values = np.array([kernel.value(r.reshape(-1, d)) for kernel in some])
    integral = (values[:, None] - values) ** 2 @ weight.ravel()
    delta = np.exp(log_divergence(some, d))
    np.testing.assert_allclose(delta, integral, rtol=tolerance, atol=0)


@pytest.mark.parametrize("d", [1, 15, 520])
def test_divergence_of_gaussians_to_fifty_digits(d):
    """No over- or underflow in 520 inputs, and no cancellation between neighbours.

    With <k, k'> = sqrt(2 pi b b' / (b + b')), Delta = <k, k>^d + <k', k'>^d - 2 <k, k'>^d.
    """
    bandwidths = [10.0 ** ((2 * i - 52) / 25) for i in range(1, 52)]
    ours = log_divergence([Kernel("gaussian", b) for b in bandwidths], d)
    np.testing.assert_array_equal(ours, ours.T)
    np.testing.assert_array_equal(np.diagonal(ours), -np.inf)
    with localcontext() as context:
        context.prec = 50
        two_pi = 2 * Decimal("3.14159265358979323846264338327950288419716939937510582")
        for i, j in [(0, 1), (0, 50), (25, 26), (49, 50), (3, 30)]:
            p, q = Decimal(bandwidths[i]), Decimal(bandwidths[j])

            def power(x, y):
                return ((two_pi * x * y / (x + y)).ln() * d / 2).exp()

            exact = (power(p, p) + power(q, q) - 2 * power(p, q)).ln()
            assert ours[i, j] == pytest.approx(float(exact), abs=2e-11)


@pytest.mark.parametrize("ratio", [30.0, 39.999999, 40.000001, 55.0, 1e3, 1e6])
def test_cauchy_and_laplacian_with_a_large_ratio(ratio):
    """What is integrated is the integral of Gauss and Laguerre.

    int exp(-z u) / (1 + u^2) du = (1 / z) int exp(-v) / (1 + (v / z)^2) dv: Gauss-Laguerre.
    """
    v, weight = np.polynomial.laguerre.laggauss(40)
    integral = float(weight @ (1.0 / (1.0 + (v / ratio) ** 2))) / ratio
    wide, narrow = Kernel("cauchy", 0.5 * ratio), Kernel("laplacian", 0.5)
    assert log_overlap(wide, narrow) == pytest.approx(math.log(ratio * integral), abs=1e-13)


# --- More digits ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def overlap_to_110_digits():
    """The integrals of kappa_i kappa_j over one input, of the published 76 kernels."""

    def scaled_erfc(z):  # exp(z^2) erfc(z); by its continued fraction where erfc is tiny
        if z < 30:
            return mpmath.exp(z * z) * mpmath.erfc(z)
        tail = mpmath.mpf(0)
        for k in range(100, 0, -1):
            tail = (mpmath.mpf(k) / 2) / (z + tail)
        return 1 / (mpmath.sqrt(mpmath.pi) * (z + tail))

    def overlap(a, b):
        p, q = mpmath.mpf(a.bandwidth), mpmath.mpf(b.bandwidth)
        if a.family == b.family == "gaussian":
            return mpmath.sqrt(2 * mpmath.pi * p * q / (p + q))
        if a.family == b.family:
            return 2 * p * q / (p + q)
        if a.family == "laplacian":
            p, q = q, p
        return mpmath.sqrt(2 * mpmath.pi * p) * scaled_erfc(mpmath.sqrt(p / 2) / q)

    with mpmath.workdps(110):
        result = np.empty((76, 76), dtype=object)
        for i, j in itertools.combinations_with_replacement(range(76), 2):
            result[i, j] = result[j, i] = overlap(PUBLISHED[i], PUBLISHED[j])
    return result


def in_d_inputs(overlap, d):
    return np.array([[v**d for v in row] for row in overlap])


@pytest.mark.slow
@pytest.mark.parametrize("d", [5, 6, 8, 15, 21])
def test_graph_of_algorithm_4_to_110_digits(overlap_to_110_digits, d):
    """Every row for M = 20, of which M = 5 and 10 are the beginning: sums of Delta itself."""
    with mpmath.workdps(110):
        product = in_d_inputs(overlap_to_110_digits, d)
        own = np.diagonal(product)
        delta = own[:, None] + own[None, :] - 2 * product
        exact = np.empty((76, 20), dtype=int)
        for i in range(76):
            there, total = [i], delta[i]
            while len(there) < 20:
                rest = [j for j in range(76) if j not in there]
                there.append(max(rest, key=lambda j: (total[j], -j)))
                total = total + delta[there[-1]]
            exact[i] = there
    for M in (5, 10, 20):
        ours = dissimilarity_graph(overlaps(PUBLISHED, d), M)
        np.testing.assert_array_equal(ours, exact[:, :M])
    if d == 8:
        assert exact[0, :10].tolist() == [0, 75, 51, 52, 53, 54, 55, 56, 57, 74]


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 5, 8, 21, 78, 520])
def test_order_of_divergences_to_110_digits(overlap_to_110_digits, d):
    """What (45) and the graph of similar kernels decide by: own_j - 2 overlap(i, j)."""
    with mpmath.workdps(110):
        product = in_d_inputs(overlap_to_110_digits, d)
        order = [sorted(range(76), key=lambda j: product[j, j] - 2 * row[j]) for row in product]
    near = similarity_graph(overlaps(PUBLISHED, d), 76)
    np.testing.assert_array_equal(near, order)
    np.testing.assert_array_equal(np.argsort(ranks(overlaps(PUBLISHED, d)), axis=1), order)


# --- The dictionary has no order ------------------------------------------------------------------


@pytest.mark.parametrize("d", [2, 8, 21, 520])
@pytest.mark.parametrize("build", [dissimilarity_graph, similarity_graph])
def test_permuting_the_dictionary_permutes_the_graph(build, d):
    order = np.random.default_rng(d).permutation(76)
    place = np.argsort(order)
    shuffled = tuple(PUBLISHED[i] for i in order)
    ours = build(overlaps(PUBLISHED, d), 12)
    np.testing.assert_array_equal(build(overlaps(shuffled, d), 12), place[ours][order])
