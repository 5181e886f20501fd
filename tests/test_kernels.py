"""Kernel families against their definitions, their spectra and numerical integration."""

from __future__ import annotations

import itertools
import math
import re
from decimal import Decimal, localcontext

import numpy as np
import pytest
from omegaconf import OmegaConf
from scipy.integrate import quad

from omkl import kernels
from omkl.cli import conf_folder
from omkl.features import features_of
from omkl.kernels import (
    FAMILIES,
    Kernel,
    Matrix,
    computed,
    dictionary,
    log_divergence,
    log_overlap,
    rows_of,
)

ONE_OF_EACH = [Kernel("gaussian", 0.7), Kernel("laplacian", 1.3), Kernel("cauchy", 0.6)]


@pytest.mark.parametrize(
    ("kernel", "r", "value"),
    [
        (Kernel("gaussian", 2.0), [1.0, 1.0], math.exp(-0.5)),  # exp(-(1 + 1) / (2 2))
        (Kernel("laplacian", 2.0), [1.0, -3.0], math.exp(-2.0)),  # exp(-(1 + 3) / 2)
        (Kernel("cauchy", 2.0), [2.0, -4.0], 0.1),  # 1 / (1 + 1) / (1 + 4)
    ],
)
def test_value_by_hand(kernel, r, value):
    assert kernel.value(np.array(r)) == pytest.approx(value, rel=1e-15)
    assert kernel.value(np.zeros(2)) == 1.0


@pytest.mark.parametrize("kernel", ONE_OF_EACH, ids=lambda k: k.family)
def test_gram_holds_the_values_and_is_positive_definite(kernel):
    rng = np.random.default_rng(0)
    A, B = rng.uniform(-1, 1, (30, 3)), rng.uniform(-1, 1, (20, 3))
    np.testing.assert_allclose(kernel.gram(A, B), kernel.value(A[:, None] - B[None]), rtol=1e-12)
    assert np.linalg.eigvalsh(kernel.gram(A, A)).min() > 1e-9


@pytest.mark.parametrize("kernel", ONE_OF_EACH, ids=lambda k: k.family)
def test_random_features_estimate_the_kernel_without_bias(kernel):
    """z(x)'z(x') is the mean of D independent cos(omega'r): its variance is known exactly.

    var cos(omega'r) = (1 + kappa(2 r)) / 2 - kappa(r)^2, so the errors in units of their
    standard deviation have mean 0, deviation 1, and none beyond 5.
    """
    rng = np.random.default_rng(1)
    D, repeats = 300, 500
    x = rng.uniform(-1, 1, (4, 3))
    a, b = np.triu_indices(4, 1)
    r = x[a] - x[b]
    exact = kernel.value(r)
    deviation = np.sqrt(((1 + kernel.value(2 * r)) / 2 - exact**2) / D)
    error = np.empty((repeats, len(a)))
    for k in range(repeats):
        z = features_of(kernel.frequencies(rng, D, 3).T, x)
        error[k] = ((z @ z.T)[a, b] - exact) / deviation
    assert np.abs(error.mean(axis=0)).max() < 4.5 / math.sqrt(repeats)
    np.testing.assert_allclose(error.std(axis=0), 1.0, atol=0.15)
    assert np.abs(error).max() < 5.0


# --- The divergence ------------------------------------------------------------------------------

MANY = [Kernel(family, b) for family in FAMILIES for b in (1e-2, 0.3, 2.0, 1e2)]
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
    some = [Kernel(f, b) for f in FAMILIES for b in (0.4, 1.5)]
    s = np.arange(-30.0, 22.0, step)
    r = np.stack(np.meshgrid(*[np.exp(s)] * d, indexing="ij"), axis=-1)
    weight = (2.0 * step) ** d * np.exp(sum(np.meshgrid(*[s] * d, indexing="ij")))
    values = [k.value(r) for k in some]
    delta = np.exp(log_divergence(some, d))
    for i, j in itertools.combinations(range(len(some)), 2):
        integral = (weight * (values[i] - values[j]) ** 2).sum()
        assert delta[i, j] == pytest.approx(integral, rel=tolerance), (some[i], some[j])


def test_divergence_in_three_inputs_by_cubature_of_one_pair():
    step = 0.25
    s = np.arange(-14.0, 6.0, step)
    r = np.stack(np.meshgrid(*[np.exp(s)] * 3, indexing="ij"), axis=-1)
    a, b = Kernel("gaussian", 0.5), Kernel("laplacian", 1.0)
    weight = (2.0 * step) ** 3 * (r[..., 0] * r[..., 1] * r[..., 2])
    integral = (weight * (a.value(r) - b.value(r)) ** 2).sum()
    assert math.exp(log_divergence([a, b], 3)[0, 1]) == pytest.approx(integral, rel=1e-4)


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


def test_wider_kernels_are_farther_in_many_inputs():
    """In 520 inputs the wider of two Gaussians is nearly the whole of their divergence."""
    rows = log_divergence([Kernel("gaussian", b) for b in (1e-2, 1e-1, 1.0, 10.0, 1e2)], 520)
    assert [row.argmax() for row in rows] == [4, 4, 4, 4, 0]
    assert np.all(np.diff(rows[0][1:]) > 0)


@pytest.mark.parametrize("ratio", [30.0, 39.999999, 40.000001, 55.0, 1e3, 1e6])
def test_cauchy_and_laplacian_with_a_large_ratio(ratio):
    """Closed form and asymptotic series (from a ratio of 40) both are the integral.

    int exp(-z u) / (1 + u^2) du = (1 / z) int exp(-v) / (1 + (v / z)^2) dv: Gauss-Laguerre.
    """
    v, weight = np.polynomial.laguerre.laggauss(40)
    integral = float(weight @ (1.0 / (1.0 + (v / ratio) ** 2))) / ratio
    wide, narrow = Kernel("cauchy", 0.5 * ratio), Kernel("laplacian", 0.5)
    assert log_overlap(wide, narrow) == pytest.approx(math.log(ratio * integral), abs=1e-13)


def test_copies_of_a_kernel_have_no_divergence():
    copies = log_divergence([ONE_OF_EACH[0], ONE_OF_EACH[0], ONE_OF_EACH[1]], 3)
    assert copies[0, 1] == -np.inf and np.isfinite(copies[0, 2])


@pytest.mark.parametrize("d", [1, 15, 520, 10_000])
def test_computed_divergences_are_those_of_the_matrix(d):
    """All families, lengths that are 1e8 apart, and copies of a kernel."""
    some = [Kernel(f, b) for f in FAMILIES for b in (1e-4, 0.01, 0.011, 0.5, 0.5, 7.0, 1e4)]
    ours, matrix = rows_of(computed(some, d), np.arange(len(some))), log_divergence(some, d)
    np.testing.assert_array_equal(ours, ours.T)
    np.testing.assert_array_equal(np.isneginf(ours), np.isneginf(matrix))
    np.testing.assert_allclose(ours, matrix, rtol=1e-12, atol=1e-12)
    some_rows = rows_of(Matrix(matrix), np.array([3, 1]))
    np.testing.assert_array_equal(some_rows, matrix[[3, 1]])


# --- Dictionaries ---------------------------------------------------------------------------------


def published(name):
    gaussian51 = [("gaussian", 10.0 ** ((2 * i - 52) / 25)) for i in range(1, 52)]
    gaussian41 = [("gaussian", 10.0 ** ((i - 21) / 10)) for i in range(1, 42)]
    laplacian25 = [("laplacian", 10.0 ** ((i - 13) / 6)) for i in range(1, 26)]
    widths = [("gaussian", 2.0 ** (2 * i)) for i in range(-6, 7)]
    return {
        "rbf51_lap25": gaussian51 + laplacian25,
        # exp(-||x - x'||^2 / b), with no 2, is a Gaussian of variance b / 2
        "rbf51_lap25_exact": [(family, b / 2) for family, b in gaussian51] + laplacian25,
        "rbf41_exact": [(family, b / 2) for family, b in gaussian41],
        "rbf51": gaussian51,
        "rbf41": gaussian41,
        "gaussian17": [("gaussian", 10.0 ** ((i - 9) / 2)) for i in range(1, 18)],
        "gauss13": widths,
        "omkc16": [("polynomial", p) for p in (1, 2, 3)] + widths,
    }[name]


@pytest.mark.parametrize("path", sorted((conf_folder() / "kernels").glob("*.yaml")), ids=str)
def test_configured_dictionaries_are_the_published_ones(path):
    expected = published(path.stem)
    ours = dictionary(OmegaConf.to_container(OmegaConf.load(path)))
    assert [k.family for k in ours] == [family for family, _ in expected]
    np.testing.assert_allclose([k.bandwidth for k in ours], [b for _, b in expected], rtol=1e-13)


def test_dictionary_takes_a_number_a_list_or_a_grid_in_order():
    parts = [
        {"family": "cauchy", "bandwidth": 3},
        {"family": "laplacian", "bandwidth": [2, 0.5]},
        {"family": "gaussian", "log10_bandwidth": {"from": -1, "to": 1, "n": 3}},
    ]
    assert dictionary({"parts": parts}) == (
        Kernel("cauchy", 3.0),
        Kernel("laplacian", 2.0),
        Kernel("laplacian", 0.5),
        Kernel("gaussian", 0.1),
        Kernel("gaussian", 1.0),
        Kernel("gaussian", 10.0),
    )


GRID = {"from": 0, "to": 1, "n": 2}


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("gaussian", "kernels.parts[1] is no mapping with family and bandwidth: 'gaussian'"),
        (
            {"family": "gausian", "bandwidth": 1},
            "kernels.parts[1].family='gausian'; there are: gaussian, laplacian, cauchy",
        ),
        ({"family": ["gaussian"], "bandwidth": 1}, "kernels.parts[1].family=['gaussian']; there"),
        ({"bandwidth": 1}, "kernels.parts[1].family=None; there are"),
        ({"family": "cauchy", "width": 1}, "kernels.parts[1] has no key 'width'"),
        ({"family": "cauchy"}, "kernels.parts[1] needs either bandwidth or log10_bandwidth"),
        (
            {"family": "cauchy", "bandwidth": 1, "log10_bandwidth": GRID},
            "kernels.parts[1] needs either bandwidth or log10_bandwidth",
        ),
        ({"family": "cauchy", "bandwidth": 0}, "bandwidth 0 is not a positive number"),
        ({"family": "cauchy", "bandwidth": [1, -2]}, "bandwidth -2 is not a positive number"),
        ({"family": "cauchy", "bandwidth": "1"}, "bandwidth '1' is not a positive number"),
        ({"family": "cauchy", "bandwidth": math.inf}, "bandwidth inf is not a positive number"),
        ({"family": "cauchy", "bandwidth": math.nan}, "bandwidth nan is not a positive number"),
        ({"family": "cauchy", "bandwidth": True}, "bandwidth True is not a positive number"),
        (
            {"family": "cauchy", "log10_bandwidth": {"from": 0, "to": 1}},
            "kernels.parts[1].log10_bandwidth needs from, to and n; got {'from': 0, 'to': 1}",
        ),
        ({"family": "cauchy", "log10_bandwidth": 2}, "needs from, to and n; got 2"),
        (
            {"family": "cauchy", "log10_bandwidth": GRID | {"n": 0}},
            "kernels.parts[1].log10_bandwidth.n=0 is not a whole number of at least 1",
        ),
        (
            {"family": "cauchy", "log10_bandwidth": GRID | {"n": 2.5}},
            "kernels.parts[1].log10_bandwidth.n=2.5 is not a whole number of at least 1",
        ),
        (
            {"family": "cauchy", "log10_bandwidth": GRID | {"to": 400}},
            "bandwidth inf is not a positive number",
        ),
    ],
)
def test_dictionary_names_what_is_wrong(part, message):
    good = {"family": "gaussian", "bandwidth": 1}
    with pytest.raises(ValueError, match=re.escape(message)):
        dictionary({"parts": [good, part]})


@pytest.mark.parametrize("config", [{}, {"parts": None}, {"parts": []}])
def test_an_empty_dictionary_is_refused(config):
    with pytest.raises(ValueError, match=r"kernels\.parts is empty.*at least one kernel"):
        kernels.dictionary(config)
