"""The factor of a positive definite matrix, definite always; sums of the normal equations."""

import numpy as np
import pytest
from scipy.linalg import solve

from omkl.core import linalg
from omkl.core.linalg import add_rows, empty_factor, project_row, take_in
from omkl.core.simd import LANES, aligned
from tests import learners


def matrix_of_factor(factor, diagonal, F):
    """P (F, F) of one factor (B, 8 B, 8) and diagonal (8 B,)."""
    W = len(factor) * LANES
    U = factor.transpose(0, 2, 1).reshape(W, W)[:F, :F]
    return U * diagonal[:F] @ U.T


def recurse(
    factor, diagonal, i, theta, Z, y, times, r, decay, ceiling, z, f, alpha, gain, slope, step
):
    """Take in the rows Z (n, F) so many times, with labels y (n,); returns the last variance."""
    B = factor.shape[1]
    variance = 0.0
    for s in range(times * Z.shape[0]):
        row = s % Z.shape[0]
        for j in range(Z.shape[1]):
            z[i, j] = Z[row, j]
        variance = project_row(factor, diagonal, i, B, z, f, alpha)
        take_in(factor, diagonal, i, B, f, alpha, r, decay, ceiling, gain, slope, step)
        error = y[row]
        for j in range(Z.shape[1]):
            error -= theta[i, j] * Z[row, j]
        for j in range(theta.shape[1]):
            theta[i, j] += step[j] * error
    return variance


compiled = learners.compiled(recurse)


class Learner:
    """N factors beside each other, of which number i learns; P_i = prior I at first."""

    def __init__(self, F, prior=1.0, N=1, i=0):
        self.F, self.i = F, i
        self.factor, self.diagonal = empty_factor(N, F)
        self.diagonal *= prior
        W = self.diagonal.shape[1]
        self.theta = np.zeros((N, W))
        self.z, self.f = aligned((N, W)), aligned((N, W))
        self.scratch = aligned((N, W + LANES)), np.zeros(W), np.zeros(W), aligned((W,))

    def learn(self, Z, y=None, times=1, r=1.0, decay=1.0, ceiling=np.inf, run=compiled):
        y = np.zeros(len(Z)) if y is None else y
        return run(
            self.factor, self.diagonal, self.i, self.theta, Z, y, times, r, decay, ceiling,
            self.z, self.f, *self.scratch,
        )  # fmt: skip

    @property
    def P(self):
        return matrix_of_factor(self.factor[self.i], self.diagonal[self.i], self.F)

    def require_definite(self):
        """P = U diag(D) U' is, if U is unit upper triangular and D > 0: read, not computed."""
        U = self.factor[self.i].transpose(0, 2, 1).reshape(self.diagonal.shape[1], -1)
        assert np.isfinite(U).all() and np.isfinite(self.diagonal).all()
        np.testing.assert_array_equal(np.tril(U), np.eye(len(U)))
        assert (self.diagonal > 0.0).all()
        assert np.isfinite(self.theta).all()


def rows(n, F, seed=0):
    return np.random.default_rng(seed).standard_normal((n, F))


@pytest.mark.parametrize("F", [1, 7, 8, 31, 40, 50])
def test_it_is_the_inverse_of_what_was_seen(F):
    """Sizes with one block, with four at a time and with some over, and rows behind the last."""
    lam, Z, y = 0.1, rows(10_000, F), rows(10_000, 1, seed=1)[:, 0]
    ours = Learner(F, 1.0 / lam)
    ours.learn(Z, y)
    A = lam * np.eye(F) + Z.T @ Z
    np.testing.assert_allclose(ours.P, solve(A, np.eye(F), assume_a="pos"), rtol=0, atol=1e-12)
    expected = solve(A, Z.T @ y, assume_a="pos")
    np.testing.assert_allclose(ours.theta[0, :F], expected, rtol=0, atol=1e-8)


def test_ill_conditioned_rows_agree_as_well():
    """Features of a wide Gaussian, nearly dependent: the condition of A is 1e8 and more."""
    x = rows(10_000, 2)
    Z = np.concatenate([f(x @ rows(2, 25, seed=2) / 10.0) for f in (np.sin, np.cos)], axis=1) / 5.0
    y, lam = np.sin(3.0 * x[:, 0]), 1e-3
    ours = Learner(50, 1.0 / lam)
    ours.learn(Z, y)
    A = lam * np.eye(50) + Z.T @ Z
    assert np.linalg.cond(A) > 1e6
    expected = Z @ solve(A, Z.T @ y, assume_a="pos")
    np.testing.assert_allclose(Z @ ours.theta[0, :50], expected, rtol=0, atol=1e-8)


def test_weights_of_the_past():
    """Decay 0.99: A is the sum of the rows with weights 0.99^age, and lam fades with them."""
    F, n, decay, lam = 12, 10_000, 0.99, 0.1
    Z, y = rows(n, F), rows(n, 1, seed=1)[:, 0]
    ours = Learner(F, 1.0 / lam)
    ours.learn(Z, y, decay=decay)
    w = decay ** np.arange(n - 1, -1, -1)
    A = lam * decay**n * np.eye(F) + (w[:, None] * Z).T @ Z
    np.testing.assert_allclose(ours.P * decay, np.linalg.inv(A), rtol=0, atol=1e-12)
    np.testing.assert_allclose(ours.theta[0, :F], solve(A, Z.T @ (w * y)), rtol=0, atol=1e-8)


SEVERE = {
    "constant": np.ones((4, 12)),
    "collinear": rows(8, 1) * np.arange(1.0, 13.0),
    "nearly collinear": rows(8, 1) * np.arange(1.0, 13.0) + 1e-9 * rows(8, 12, seed=1),
    "tiny": 1e-12 * rows(8, 12),
    "huge": 1e12 * rows(8, 12),
    "one huge, once": np.where(np.arange(96).reshape(8, 12) == 30, 1e12, 1.0),
    "tiny and huge": rows(8, 12) * 10.0 ** np.linspace(-12, 12, 12),
    "huge, then tiny": rows(8, 12) * np.where(np.arange(8) % 2, 1e12, 1e-12)[:, None],
    "nothing": np.zeros((4, 12)),
}


@pytest.mark.slow
@pytest.mark.parametrize("decay", [1.0, 0.98])
@pytest.mark.parametrize("name", SEVERE)
def test_a_million_rounds_stay_definite(name, decay):
    Z = SEVERE[name]
    ours = Learner(12, 10.0)
    y = rows(len(Z), 1, seed=3)[:, 0] * np.abs(Z).max()
    variance = ours.learn(Z, y, times=1_000_000 // len(Z), decay=decay, ceiling=10.0)
    ours.require_definite()
    assert 0.0 <= variance < np.inf
    assert ours.diagonal.max() <= 10.0


def test_what_is_not_seen_any_more_is_forgotten_up_to_the_ceiling():
    """Without one, P grows by 1 / 0.9 a round in every direction but that of the rows."""
    Z = np.zeros((1, 12))
    Z[0, 3] = 1.0
    free, bound = Learner(12, 10.0), Learner(12, 10.0)
    free.learn(Z, times=300, decay=0.9)
    bound.learn(Z, times=300, decay=0.9, ceiling=10.0)
    others = np.arange(12) != 3
    np.testing.assert_allclose(np.diag(free.P)[others], 10.0 * 0.9**-300, rtol=1e-10)
    np.testing.assert_array_equal(np.diag(bound.P)[others], 10.0)
    # 1 / P = 0.9 (1 / P + 1) has the solution P = 1 / 9, which no ceiling touches
    assert bound.P[3, 3] == pytest.approx(1.0 / 9.0) == free.P[3, 3]


def test_a_matrix_leaves_those_beside_it_alone():
    """And what it becomes is the same in every place."""
    Z, y = rows(50, 20), rows(50, 1, seed=1)[:, 0]
    alone = Learner(20, 3.0)
    alone.learn(Z, y)
    for i in range(3):
        beside = Learner(20, 3.0, N=3, i=i)
        beside.learn(Z, y)
        np.testing.assert_array_equal(beside.P, alone.P)
        np.testing.assert_array_equal(beside.theta[i], alone.theta[0])
        for other in {0, 1, 2} - {i}:
            P = matrix_of_factor(beside.factor[other], beside.diagonal[other], 20)
            np.testing.assert_array_equal(P, 3.0 * np.eye(20))


def test_blocks_hold_rows_of_the_triangle_in_their_order():
    """Bierman's recursion column by column, and where each number of U lies."""
    F, r = 20, 0.7
    Z = rows(9, F)
    ours = Learner(F, 2.0)
    ours.learn(Z, r=r)
    U, D = np.eye(F), np.full(F, 2.0)
    for z in Z:
        f, k, alpha = U.T @ z, np.zeros(F), r
        g = D * f
        for j in range(F):
            before, alpha = alpha, alpha + g[j] * f[j]
            D[j] *= before / alpha
            column = U[:, j].copy()
            U[:, j] = column - f[j] / before * k
            k += column * g[j]
    for row in range(F):
        for column in range(F):
            found = ours.factor[0, row // LANES, column, row % LANES]
            assert found == pytest.approx(U[row, column], rel=1e-10, abs=1e-13)
    np.testing.assert_allclose(ours.diagonal[0, :F], D, rtol=1e-11)


# --- Normal equations -----------------------------------------------------------------------------


def test_equations_that_are_added_up_are_solved_as_by_least_squares():
    rng = np.random.default_rng(3)
    z, y, penalty = rng.normal(size=(150, 8)), rng.normal(size=150), 0.7
    equations = np.zeros((9, 9))
    for rows in (slice(40), slice(40, 150)):
        add_rows(equations, z[rows], y[rows])
    objective, theta = linalg.solve(equations, penalty)
    Z = np.vstack([z, np.sqrt(penalty) * np.eye(8)])
    expected, (residual,), _, _ = np.linalg.lstsq(Z, np.append(y, np.zeros(8)), rcond=None)
    np.testing.assert_allclose(theta, expected, rtol=1e-11)
    assert objective == pytest.approx(residual, rel=1e-12)
    equations[-1] = equations[:, -1] = np.inf
    with pytest.raises(np.linalg.LinAlgError, match="cannot be solved"):
        linalg.solve(equations, penalty)
