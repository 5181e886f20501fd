"""Kernel families against their definitions, their spectra and numerical integration."""

import math
import re
import tracemalloc

import numpy as np
import pytest
from scipy import special, stats

from omkl.core import kernels
from omkl.core.kernels import Kernel, dictionary, even_uniforms
from omkl.core.representations.random_features import features_of
from omkl.utils import conf

ONE_OF_EACH = [Kernel("gaussian", 0.7), Kernel("laplacian", 1.3), Kernel("cauchy", 0.6)]
ONE_OF_EACH += [Kernel("matern32", 0.9), Kernel("matern52", 1.1)]


@pytest.mark.parametrize(
    ("kernel", "r", "value"),
    [
        (Kernel("gaussian", 2.0), [1.0, 1.0], math.exp(-0.5)),  # exp(-(1 + 1) / (2 2))
        (Kernel("laplacian", 2.0), [1.0, -3.0], math.exp(-2.0)),  # exp(-(1 + 3) / 2)
        (Kernel("cauchy", 2.0), [2.0, -4.0], 0.1),  # 1 / (1 + 1) / (1 + 4)
        (Kernel("matern32", math.sqrt(3.0)), [1.0, -2.0], 6.0 * math.exp(-3.0)),  # (1 + 1) (1 + 2)
        (Kernel("matern52", math.sqrt(5.0)), [3.0, 0.0], 7.0 * math.exp(-3.0)),  # 1 + 3 + 9 / 3
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


@pytest.mark.parametrize(("family", "order"), [("matern32", 1.5), ("matern52", 2.5)])
def test_matern_kernels_are_those_of_the_literature(family, order):
    """Bessel's form, in each input; frequencies are Student's t; huge differences give 0."""
    b, r = 0.7, np.array([1e-3, 0.1, 0.5, 2.0, 9.0])
    u = math.sqrt(2.0 * order) * r / b
    bessel = 2.0 ** (1.0 - order) / math.gamma(order) * u**order * special.kv(order, u)
    kernel = Kernel(family, b)
    np.testing.assert_allclose(kernel.value(r[:, None]), bessel, rtol=1e-12)
    pairs = np.stack([r, r[::-1]], axis=1)
    np.testing.assert_allclose(kernel.value(pairs), bessel * bessel[::-1], rtol=1e-12)
    assert Kernel(family, 1e-100).value(np.array([1e119])) == 0.0
    omega = kernel.frequencies(np.random.default_rng(0), 20_000, 2).ravel() * b
    levels = np.linspace(0.05, 0.95, 19)
    below = np.mean(omega[:, None] <= special.stdtrit(2.0 * order, levels), axis=0)
    np.testing.assert_allclose(below, levels, atol=4.0 * 0.5 / math.sqrt(len(omega)))


# --- Dictionaries ---------------------------------------------------------------------------------


def published(name):
    gaussian51 = [("gaussian", 10.0 ** ((2 * i - 52) / 25)) for i in range(1, 52)]
    gaussian41 = [("gaussian", 10.0 ** ((i - 21) / 10)) for i in range(1, 42)]
    laplacian25 = [("laplacian", 10.0 ** ((i - 13) / 6)) for i in range(1, 26)]
    widths = [("gaussian", 2.0 ** (2 * i)) for i in range(-6, 7)]
    matern26 = [(f"matern{n}2", 2.0**i) for n in (3, 5) for i in range(-6, 7)]
    return {
        "rbf51_lap25": gaussian51 + laplacian25,
        # exp(-||x - x'||^2 / b), with no 2, is a Gaussian of variance b / 2
        "rbf51_lap25_exact": [(family, b / 2) for family, b in gaussian51] + laplacian25,
        "rbf41_exact": [(family, b / 2) for family, b in gaussian41],
        "rbf51": gaussian51,
        "rbf41": gaussian41,
        "gaussian17": [("gaussian", 10.0 ** ((i - 9) / 2)) for i in range(1, 18)],
        "gauss13": widths,
        "gauss8": [("gaussian", 4.0**j) for j in range(-1, 7)],
        "gauss5": [("gaussian", b) for b in (0.1, 0.3, 1.0, 3.0, 10.0)],
        "rbf9": [("gaussian", length**2) for length in 10.0 ** np.linspace(-1, 1, 9)],
        "matern26": matern26,
        "gauss13_matern26": widths + matern26,
        "omkc16": [("polynomial", p) for p in (1, 2, 3)] + widths,
    }[name]


def test_bandwidths_may_be_per_input():
    part = {"family": "gaussian", "bandwidth": [0.5, 2], "per_input": True}
    for d, expected in ((None, [0.5, 2.0]), (1, [0.5, 2.0]), (30, [15.0, 60.0])):
        assert [kernel.bandwidth for kernel in dictionary({"parts": [part]}, d)] == expected
    (half, _) = dictionary({"parts": [part | {"factor": 0.5}]}, 30)
    assert half.bandwidth == 7.5
    plain = dictionary({"parts": [part | {"per_input": False}]}, 30)
    assert [kernel.bandwidth for kernel in plain] == [0.5, 2.0]
    # So rows of d inputs, each as far apart, are as alike for every d.
    for d in (1, 30):
        (kernel, _) = dictionary({"parts": [part]}, d)
        assert kernel.value(np.full(d, 0.7)) == pytest.approx(np.exp(-(0.7**2) / (2 * 0.5)))
    for wrong, message in (
        ({"per_input": 1}, r"parts\[0\].per_input=1 is not true or false"),
        ({"family": "laplacian"}, "per_input is for Gaussian kernels, not laplacian ones"),
    ):
        with pytest.raises(ValueError, match=message):
            dictionary({"parts": [part | wrong]}, 2)


@pytest.mark.parametrize("name", conf.names("kernels"))
def test_configured_dictionaries_are_the_published_ones(name):
    expected = published(name)
    ours = dictionary(conf.entry("kernels", name))
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
        ({"family": "cauchy", "width": 1}, "kernels.parts[1] has no key 'width'"),
        (
            {"family": "cauchy", "bandwidth": 1, "log10_bandwidth": GRID},
            "kernels.parts[1] needs either bandwidth or log10_bandwidth",
        ),
        ({"family": "cauchy", "bandwidth": 0}, "bandwidth 0 is not a positive number"),
        ({"family": "cauchy", "bandwidth": "1"}, "bandwidth '1' is not a positive number"),
        ({"family": "cauchy", "bandwidth": math.nan}, "bandwidth nan is not a positive number"),
        (
            {"family": "cauchy", "log10_bandwidth": {"from": 0, "to": 1}},
            "kernels.parts[1].log10_bandwidth needs from, to and n; got {'from': 0, 'to': 1}",
        ),
        (
            {"family": "cauchy", "log10_bandwidth": GRID | {"n": 0}},
            "kernels.parts[1].log10_bandwidth.n=0 is not a whole number of at least 1",
        ),
        ({"family": "gaussian", "bandwidth": 1e-320}, "is not from 1e-100 to 1e+100"),
        (
            {"family": "polynomial", "degree": 10**9},
            "degree 1000000000 is not a whole number of at least 1, and at most 100",
        ),
        (
            {"family": "gaussian", "log10_bandwidth": GRID | {"n": 10**9}},
            "log10_bandwidth.n=1000000000 is not a whole number of at least 1, and at most 10,000",
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


def test_a_linear_kernel_has_no_number_and_no_frequencies():
    (kernel,) = dictionary({"parts": [{"family": "linear"}]})
    A, B = np.array([[1.0, 2.0], [0.0, 3.0]]), np.array([[4.0, -1.0]])
    np.testing.assert_array_equal(kernel.gram(A, B), [[3.0], [-2.0]])
    with pytest.raises(ValueError, match=r"linear kernels have no random features.*second order"):
        kernel.require_frequencies()
    with pytest.raises(ValueError, match="a linear kernel has the key family, nothing else"):
        dictionary({"parts": [{"family": "linear", "bandwidth": 1.0}]})


def kernel_error(kernel, D, repeats=200):
    """Errors of z(x)'z(x') at six pairs of rows, over fresh draws (repeats, 6)."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, (4, 3))
    a, b = np.triu_indices(4, 1)
    exact = kernel.value(x[a] - x[b])
    errors = np.empty((repeats, len(a)))
    for k in range(repeats):
        z = features_of(kernel.frequencies(rng, D, 3).T, x)
        errors[k] = (z @ z.T)[a, b] - exact
    return errors


PLACED = [Kernel("gaussian", 0.7, "orthogonal"), *(k._replace(features="qmc") for k in ONE_OF_EACH)]


@pytest.mark.parametrize("kernel", PLACED, ids=lambda k: f"{k.features}-{k.family}")
def test_placed_features_have_the_same_mean_and_less_variance(kernel):
    placed = kernel_error(kernel, D=48)
    alone = kernel_error(kernel._replace(features="rff"), D=48)
    deviation = placed.std(axis=0)
    assert (np.abs(placed.mean(axis=0)) < 4.5 * deviation / math.sqrt(len(placed))).all()
    assert np.square(placed).mean() < 0.8 * np.square(alone).mean()


def test_orthogonal_frequencies_are_blocks_of_rows_that_are_orthogonal():
    """As long as normal rows: the squared length is chi^2 of d degrees, and the rest is cut."""
    omega = Kernel("gaussian", 4.0, "orthogonal").frequencies(np.random.default_rng(0), 2000, 3)
    assert omega.shape == (2000, 3)
    for start in range(0, 1998, 3):
        gram = omega[start : start + 3] @ omega[start : start + 3].T
        np.testing.assert_allclose(gram - np.diag(np.diag(gram)), 0.0, atol=1e-12)
    squares = 4.0 * np.square(omega).sum(axis=1)
    assert stats.kstest(squares, stats.chi2(3).cdf).pvalue > 1e-3
    np.testing.assert_allclose(4.0 * omega.T @ omega / 2000, np.eye(3), atol=0.1)


def test_orthogonal_frequencies_of_wide_inputs_take_no_cube_of_their_number():
    """5,000 inputs: a square block of as many rows has 200 MB, these 8 rows 0.3 MB."""
    tracemalloc.start()
    omega = Kernel("gaussian", 1.0, "orthogonal").frequencies(np.random.default_rng(0), 8, 5000)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    gram = omega @ omega.T
    np.testing.assert_allclose(gram - np.diag(np.diag(gram)), 0.0, atol=1e-9)
    assert omega.shape == (8, 5000) and most < 10e6


def test_even_uniforms_have_one_point_in_each_cell_of_each_input():
    u = even_uniforms(np.random.default_rng(0), 50, 4)
    assert u.shape == (50, 4) and u.min() > 0.0 and u.max() < 1.0
    cells = np.floor(64 * u).astype(int)
    assert all(len(set(column)) == 50 for column in cells.T)
    assert even_uniforms(np.random.default_rng(1), 1, 2).shape == (1, 2)
    with pytest.raises(ValueError, match=r"features=qmc places up to 21,201 inputs, not 30,000"):
        even_uniforms(np.random.default_rng(0), 5, 30_000)


@pytest.mark.parametrize("kernel", ONE_OF_EACH, ids=lambda k: k.family)
def test_quantiles_are_those_of_the_spectral_distribution(kernel):
    u = np.array([1e-9, 0.01, 0.3, 0.5, 0.9, 1 - 1e-6])
    b = kernel.bandwidth
    law = {
        "gaussian": stats.norm(scale=1 / math.sqrt(b)),
        "laplacian": stats.cauchy(scale=1 / b),
        "cauchy": stats.laplace(scale=1 / b),
        "matern32": stats.t(3, scale=1 / b),
        "matern52": stats.t(5, scale=1 / b),
    }[kernel.family]
    found = kernels.FAMILIES[kernel.family].quantiles(u, b)
    np.testing.assert_allclose(found, law.ppf(u), rtol=1e-7, atol=1e-12)


def test_features_that_cannot_be_placed_are_refused():
    parts = [{"family": "laplacian", "bandwidth": 1.0}]
    (laplacian,) = dictionary({"parts": parts, "features": "orthogonal"})
    with pytest.raises(ValueError, match="a product over the inputs: choose a dictionary of Gauss"):
        laplacian.frequencies(np.random.default_rng(0), 8, 2)
    with pytest.raises(ValueError, match="features='sobol' is none of rff, orthogonal, qmc"):
        dictionary({"parts": parts, "features": "sobol"})
