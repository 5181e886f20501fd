"""A kernel family that the package does not have: one class, and everything else follows."""

import math

import numpy as np
import pytest
from scipy.special import erfcx

from omkl.checks import learners
from omkl.core import kernels
from omkl.core.feedback_graph import dissimilarity_graph, similarity_graph
from omkl.core.graph_sampling import edges_of
from omkl.core.kernel_distance import integrated, log_overlaps, overlaps
from omkl.core.kernels import FAMILIES, Family, Kernel, dictionary
from omkl.core.representations.random_features import features_of
from omkl.core.representations.support_vectors import empty_expansion
from omkl.experiment.run import prepare
from tests.compositions import compose
from tests.learners import learner_of


class Matern(Family):
    """Matern 3/2 in each input: prod_k (1 + u_k) exp(-u_k) with u = sqrt(3) |r| / b."""

    name = "matern"
    spectrum = "Student t"

    def value(self, r, b):
        u = math.sqrt(3.0) * np.abs(r) / b
        return np.prod((1.0 + u) * np.exp(-u), axis=-1)

    def frequencies(self, rng, D, d, b):
        return rng.standard_t(3, size=(D, d)) / b


class Triangle(Matern):
    """A corner at |r| = b, beside the one at 0."""

    name = "triangle"

    def value(self, r, b):
        return np.prod(np.maximum(1.0 - np.abs(r) / b, 0.0), axis=-1)


class Flat(Matern):
    """Its square has no integral."""

    name = "flat"

    def value(self, r, b):
        return np.prod((1.0 + np.square(r / b)) ** -0.25, axis=-1)


@pytest.fixture(autouse=True)
def registered():
    for family in (Matern, Triangle, Flat):
        kernels.register(family)
    yield
    for family in (Matern, Triangle, Flat):
        del FAMILIES[family.name]
    overlaps.cache_clear()


SOME = (
    *(Kernel("gaussian", b) for b in (0.01, 0.3, 2.0)),
    *(Kernel("matern", b) for b in (0.05, 0.4, 0.4, 3.0)),
    Kernel("cauchy", 0.7),
)


def test_it_is_read_from_a_configuration_and_has_one_name():
    part = {"family": "matern", "log10_bandwidth": {"from": -1, "to": 1, "n": 3}}
    assert dictionary({"parts": [part]}) == tuple(Kernel("matern", b) for b in (0.1, 1.0, 10.0))
    assert FAMILIES["matern"].spectrum and FAMILIES["polynomial"].spectrum is None
    with pytest.raises(ValueError, match="there is already a kernel family matern"):
        kernels.register(Matern)


def test_its_features_estimate_it():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (5, 2))
    kernel = Kernel("matern", 0.8)
    z = features_of(kernel.frequencies(rng, 200_000, 2).T, X)
    np.testing.assert_allclose(z @ z.T, kernel.gram(X, X), atol=0.01)


def matern32_with_laplacian(p, q):
    return np.log(2 / (math.sqrt(3) / p + 1 / q) * (1 + q * math.sqrt(3) / (p + q * math.sqrt(3))))


def matern52_with_itself(p, q):
    return np.log(16 / 3 * p * q / math.sqrt(5) / (p + q)) + np.log1p(
        p / (p + q) * (q / (p + q)) * (1 + p / (p + q) * (q / (p + q)))
    )


CLOSED = {
    **{(name, name): FAMILIES[name].overlaps[name] for name in ("gaussian", "laplacian", "cauchy")},
    ("cauchy", "gaussian"): lambda p, q: np.log(np.pi * p) + np.log(erfcx(p / np.sqrt(2 * q))),
    ("gaussian", "laplacian"): lambda p, q: (
        0.5 * np.log(2 * np.pi * p) + np.log(erfcx(np.sqrt(p / 2) / q))
    ),
    ("matern32", "laplacian"): matern32_with_laplacian,
    ("matern52", "matern52"): matern52_with_itself,
}


@pytest.mark.parametrize(("first", "second"), CLOSED)
def test_integration_finds_the_closed_forms(first, second):
    """Ratios of lengths from 1e-8 to 1e8."""
    b = 10.0 ** np.linspace(-4, 4, 9)
    one, other = FAMILIES[first], FAMILIES[second]
    p, q = np.meshgrid(b ** (1 / one.length_power), b ** (1 / other.length_power))
    closed = CLOSED[first, second](p, q)
    np.testing.assert_allclose(integrated(one, p, other, q), closed, rtol=0, atol=1e-13)


def test_its_overlaps_are_the_integrals():
    """Of kappa^2 that is 5 b / (2 sqrt(3)), and a wide Gaussian sees 4 b / sqrt(3), of kappa."""
    found = log_overlaps([Kernel("matern", 0.4), Kernel("gaussian", 1e12)], 3)
    assert found[0, 0] == pytest.approx(3 * math.log(5 * 0.4 / (2 * math.sqrt(3))), abs=1e-13)
    assert found[0, 1] == pytest.approx(3 * math.log(4 * 0.4 / math.sqrt(3)), abs=1e-11)


@pytest.mark.parametrize("name", ["triangle", "flat"])
def test_what_integration_does_not_find_is_said(name):
    with pytest.raises(ValueError, match=f"overlaps of {name} and {name} kernels are not found"):
        log_overlaps([Kernel(name, 1.0)], 2)


@pytest.mark.parametrize("d", [1, 15])
@pytest.mark.parametrize("build", [dissimilarity_graph, similarity_graph])
def test_graphs_are_the_same_in_any_order(build, d):
    expected = build(overlaps(SOME, d), 4)
    assert expected[4, 1] == 5 or build is dissimilarity_graph  # the copy is the nearest
    order = np.random.default_rng(d).permutation(3)  # the copies keep theirs
    order = np.concatenate([order, np.arange(3, len(SOME))])
    shuffled = tuple(SOME[i] for i in order)
    ours = build(overlaps(shuffled, d), 4)
    np.testing.assert_array_equal(ours, np.argsort(order)[expected][order])


def test_sfg_learns_with_it():
    X, y = learners.stream(1500)
    learner = learner_of("sfg", SOME, X.shape[1], 30, T=len(y), M=3)
    y_hat = learner.partial_fit(X, y).y_hat
    graph = dissimilarity_graph(overlaps(SOME, X.shape[1]), 3)
    np.testing.assert_array_equal(learner.state.edges, edges_of(graph))
    assert np.mean((y_hat[1000:] - y[1000:]) ** 2) < 0.7 * np.var(y[1000:])


def test_exact_kernels_refuse_it():
    """Their machine code is made from the families of the package alone."""
    with pytest.raises(ValueError, match="exact-kernel learners have no matern kernels; they have"):
        empty_expansion([Kernel("matern", 1.0)], 2)
    typed = ["kernels=matern26", "debug=quick"]
    with pytest.raises(ValueError, match="learners have no matern32 kernels; they have: gauss"):
        prepare(compose(["algorithm=omkr", *typed]))
    assert prepare(compose(["algorithm=rbf", *typed])), "its kernel is its own"
