"""Rows most of whose inputs are the same number: their features, alone and beside others."""

import numpy as np
import pytest

from omkl.checks import learners
from omkl.checks.federations import Case
from omkl.core.representations.random_features import (
    RandomFeatures,
    compact,
    draw_features,
    random_features,
)
from omkl.federated.client_features import (
    FEWEST_INPUTS,
    SHARE,
    advance_tile,
    client_tile,
)

d, D = FEWEST_INPUTS + 6, 13
SOME = learners.DICTIONARY[:2]


def rows(rng: np.random.Generator) -> np.ndarray:
    """All sorts (6, d): of many numbers, mostly 0, mostly 0.3, all 0.3, and at the border."""
    X = rng.normal(size=(6, d))
    X[1, rng.permutation(d)[: d - 3]] = 0.0
    X[2, rng.permutation(d)[: d - 5]] = 0.3
    X[3] = 0.3
    X[4, d // SHARE :] = -1.5
    X[5, d // SHARE + 1 :] = -1.5
    return X


def sines(waves, model: RandomFeatures, n: int) -> np.ndarray:
    """(N, n, D), of what the features of n rows were written to."""
    S = model.theta.shape[1] // 2
    return waves.sin[: model.n_kernels * n * S].reshape(model.n_kernels, n, S)[:, :, :D]


def test_arguments_are_the_sum_over_all_inputs():
    model = compact(draw_features(SOME, d, D, seed=0))
    tile, X = client_tile(model), rows(np.random.default_rng(0))
    for row, n in ((0, 4), (4, 2)):  # a tile of four, and the two that are left
        part = X[row : row + n]
        advance_tile(model, part, 0, tile)
        expected = np.sin(np.einsum("idj,rd->irj", model.omega, part))
        np.testing.assert_allclose(sines(tile.waves, model, n), expected, rtol=0, atol=1e-12)
        together = sines(tile.waves, model, n).copy()
        for r in range(n):  # a client by itself has the same bits
            advance_tile(model, part[r : r + 1], 0, tile)
            assert np.array_equal(sines(tile.waves, model, 1)[:, 0], together[:, r])
    assert tile.n_others[0] == -1 and len(tile.others) == 4


@pytest.mark.parametrize("name", ["pof_mkl", "em_kofl"])
def test_many_inputs_of_one_number_are_one_input(name):
    """Inputs that always say 0.3, and one input 0.3 whose frequencies are the sums of theirs."""
    rng, K, T = np.random.default_rng(1), 5, 40
    X, y = np.full((T, K, d), 0.3), rng.random((T, K))
    X[..., :4] = rng.random((T, K, 4))
    few = random_features(SOME, 5, D, rng)
    many = draw_features(SOME, d, D, seed=0)
    few.omega[:, :4] = many.omega[:, :4]
    few.omega[:, 4] = many.omega[:, 4:].sum(axis=1)
    federations = [
        Case(name).learner(dictionary=SOME, d=n, K=K, T=T, model=compact(model))
        for n, model in ((d, many), (5, few))
    ]
    first, second = (one.partial_fit(X[..., : one.d], y).y_hat for one in federations)
    np.testing.assert_allclose(first, second, rtol=0, atol=1e-12)
