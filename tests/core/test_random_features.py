"""How coefficients of random features lie; work ahead of the round changes no bit."""

import numpy as np
import pytest

from omkl.checks import federations, learners
from omkl.core import compiler
from omkl.core.learner import Learner
from omkl.core.representations import random_features
from omkl.core.representations.random_features import compact, gradient_step, whole_packs
from omkl.federated import client_features
from omkl.federated.simulation import Federation

SIZES = [1, 8, 21, 50]  # features: fewer than a pack, one pack, and a few and many lanes left over


@pytest.mark.parametrize("D", SIZES)
@pytest.mark.parametrize("name", ["sfg", "amkl", "raker", "adaraker"])
def test_rows_begin_at_a_cache_line_and_stay_zero_behind_the_features(name, D):
    X, y = learners.stream(150)
    case = learners.Case(name)
    learner = Learner(
        case.algorithm, case.params(), learners.DICTIONARY, learners.INPUTS, D, seed=3
    )
    learner.partial_fit(X[:149], y[:149])
    learner.partial_fit(X[149:], y[149:])  # a row by itself
    model = getattr(learner.state.model, "rows", learner.state.model)
    N, W = len(model.theta), model.padded.shape[2]
    halves = model.theta.reshape(N, 2, W)
    assert model.theta.ctypes.data % 64 == model.theta.strides[0] % 64 == 0
    assert halves[:, :, :D].any() and not halves[:, :, D:].any()
    np.testing.assert_array_equal(model.coefficients, np.hstack([*halves.swapaxes(0, 1)[:, :, :D]]))
    np.testing.assert_allclose(model.norm2, np.square(model.coefficients).sum(axis=1), atol=1e-13)


@pytest.mark.parametrize("D", SIZES)
def test_a_step_without_padding_is_the_same_step(D):
    """Outputs, coefficients and norms have the same bits; the rows of the first are 2 D apart."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6, learners.INPUTS))
    drawn = random_features.draw_features(learners.WIDE, learners.INPUTS, D, 0)
    given = rng.standard_normal((len(learners.WIDE), 2 * D))
    padded = drawn._replace(theta=whole_packs(given))
    bare = compact(padded)
    np.testing.assert_array_equal(bare.theta, given)
    for one, other in zip(learn_rows(bare, X), learn_rows(padded, X), strict=True):
        np.testing.assert_array_equal(one, other)


def learn_rows(model, X):
    """What is said of the rows, with a step of every kernel after each; then what was learned."""
    model = model._replace(norm2=np.zeros(model.n_kernels))
    scratch = client_features.client_tile(model)
    said = np.zeros((len(X), model.n_kernels))
    for row in range(len(X)):
        learn_row(model, X, row, scratch, said[row])
    return said, model.coefficients, model.norm2


@compiler.compiled
def learn_row(model, X, row, scratch, f):
    client_features.advance_tile(model, X, row, scratch)
    client_features.tile_outputs(model, scratch, f)
    for i in range(f.shape[0]):
        gradient_step(model, i, i, scratch, 0.5 * f[i], 0.9)


def test_coefficients_are_a_copy_that_is_not_written_to():
    model = random_features.draw_features(learners.DICTIONARY, 2, 5, 0)
    with pytest.raises(ValueError, match="read-only"):
        model.coefficients[:] = 1.0
    assert model.coefficients.shape == (len(learners.DICTIONARY), 10)


def test_parties_exchange_no_padding():
    """Messages and their budget count the numbers of a row."""
    case, D = federations.Case("pof_mkl"), 5
    federation = Federation(
        case.algorithm, case.params(), learners.DICTIONARY, learners.INPUTS, D, 0, 2
    )
    assert federation.server.model.theta.shape == (len(learners.DICTIONARY), 2 * D)


def one_by_one(learner, X, y):
    return [learner.partial_fit(X[t : t + 1], y[t : t + 1]).y_hat[0] for t in range(len(y))]


@pytest.mark.parametrize("name", ["sfg", "sfg_r", "gf"])
def test_a_guessed_kernel_says_what_a_chosen_one_says(name):
    case = learners.Case(name)
    X, y = case.stream()
    whole, rows = case.learner(seed=7), case.learner(seed=7)
    np.testing.assert_array_equal(whole.partial_fit(X, y).y_hat, one_by_one(rows, X, y))
    np.testing.assert_array_equal(whole.state.model.coefficients, rows.state.model.coefficients)
    assert whole.selection.scratch.first.any(), "no kernel was guessed"
    assert whole.selection.scratch.known.any(), "no output was taken ahead"
    assert not rows.selection.scratch.first.any(), "of a single row there is nothing ahead"


@pytest.mark.parametrize("name", ["amkl", "rf/omkc_da_o", "rf/omkc_sua_o"])
def test_an_output_that_is_taken_ahead_is_taken_again_after_a_step(name):
    case = learners.Case(name)
    X, y = case.stream()
    whole, rows = case.learner(seed=7), case.learner(seed=7)
    first = X[:203]  # 25 tiles of eight, and three rows by themselves
    np.testing.assert_array_equal(
        whole.partial_fit(first, y[:203]).y_hat, one_by_one(rows, first, y[:203])
    )
    np.testing.assert_array_equal(whole.state.model.coefficients, rows.state.model.coefficients)


def test_other_rows_are_not_taken_for_those_that_were_guessed():
    case = learners.Case("sfg")
    X, y = case.stream()
    guessing, fresh = case.learner(seed=7), case.learner(seed=7)
    guessing.partial_fit(X[:300], y[:300])
    one_by_one(fresh, X[:300], y[:300])
    others = X[::-1][:20].copy()
    np.testing.assert_array_equal(guessing.predict(others), fresh.predict(others))
    np.testing.assert_array_equal(
        guessing.partial_fit(others, y[:20]).y_hat, one_by_one(fresh, others, y[:20])
    )
