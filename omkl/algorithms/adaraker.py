"""AdaRaker: instances of Raker that restart on intervals of every length, mixed by their gains.

Paper    Y. Shen, T. Chen, G. B. Giannakis, "Random Feature-based Online Multi-kernel Learning in
         Environments with Unknown Dynamics", JMLR 20 (2019), algorithm 3.
Task     regression; full information; streams that change.
Round    1. Level j has the intervals [k 2^j, (k + 1) 2^j - 1], k >= 1. Every interval I that
            contains t has an instance of Raker, which begins with I, has the step
            eta_I = min(1/2, eta0 / sqrt(|I|)) and predicts p_I. All instances share the features.
         2. Predict the mean of the p_I weighted by h_I. h_I is eta_I when I begins.
         3. r_I = (y_hat - y_t)^2 - (p_I - y_t)^2, and h_I <- h_I (1 + eta_I r_I).
         4. Every instance learns as Raker does, with its own step.
Symbols  eta0    scale of all steps, > 0
         lam     regularisation, >= 0
         levels  number of levels: the longest interval has 2^(levels - 1) rounds
Cost     O(N D d + N D log T) time per round; O(N D levels) memory.
Bound    on every interval I at once O(sqrt(|I|) log T) against the best function; losses in
         [0, 1], ||x|| <= 1.
Reading  The paper's text was not available. The rules follow a summary. In the summary, weights
         are multiplied by the advantage r_I of an instance over the mixture. The factor 1 + eta r
         and the intervals are those of A. Daniely, A. Gonen, S. Shalev-Shwartz (ICML 2015). r_I is
         clipped to [-1, 1], its range if losses lie in [0, 1]. After 2^levels rounds no level with
         longer intervals is added, and intervals of the longest level follow one another.
Differs  from the paper: not known. The released code restarts the weights but not theta.

>>> from omkl.checks import learners
>>> X, y = learners.stream(1000)
>>> y_hat = learners.Case("adaraker").learner().partial_fit(X, y).y_hat
>>> f"{((y_hat - y) ** 2).mean():.6f}"
'0.042082'
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np

from omkl.algorithms.parts import select_all
from omkl.core.compiler import dispatch, inlined
from omkl.core.hyperparameters import NON_NEGATIVE, POSITIVE, Range
from omkl.core.protocol import register
from omkl.core.representations import evaluate_row
from omkl.core.representations.random_features import RANDOM_FEATURES, RandomFeatures, draw_features
from omkl.core.representations.sincos_features import dot_features, gradient_step_at, waves_of_row
from omkl.core.simd import LANES, aligned, fma, load, pack, store, total
from omkl.core.trigonometry import Waves, empty_waves
from omkl.core.weights import exponential_update, mean_of_all_by_shares, shares_of_all

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Params(NamedTuple):
    eta0: POSITIVE
    lam: NON_NEGATIVE
    levels: Annotated[int, Range(1, 62)]  # intervals of 2^levels rounds are counted in int64


class Intervals(NamedTuple):
    """Coefficients of N kernels on J levels. W is D rounded up to a multiple of 8.

    rows   ``RandomFeatures`` with the frequencies of the N kernels. Its theta (J N, 2 W) and
           norm2 (J N,) have one block of N rows per level
    row    (J, N) int64, row of theta of kernel i on level j
    alive  (1,) int64, number of levels whose first interval has begun
    mix    (J,) weights of the levels, of sum 1
    """

    rows: RandomFeatures
    row: Annotated[np.ndarray, Range(0, "rows.theta.0", open_high=True)]
    alive: Annotated[np.ndarray, Range(1, "mix.0")]
    mix: np.ndarray

    @property
    def omega(self) -> np.ndarray:
        return self.rows.omega

    @property
    def theta(self) -> np.ndarray:
        """Copy of the coefficients (N, 2 D J) of all kernels, J levels side by side."""
        levels = self.rows.coefficients.reshape(*self.row.shape, -1)
        return np.concatenate(list(levels), axis=1)

    @property
    def n_kernels(self) -> int:
        return self.row.shape[1]


class Scratch(NamedTuple):
    """Scratch of a round.

    waves  (N W,) features of the kernels at the row
    angle  (W,) arguments of one kernel
    f      (J N,) output of each row of theta
    """

    waves: Waves
    angle: np.ndarray
    f: np.ndarray


def _fresh(params: Params, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> Intervals:
    """Make coefficients that are 0 on all levels."""
    N, n_levels = len(kernels), params.levels
    drawn = draw_features(kernels, d, D, seed)
    theta = aligned((N * n_levels, drawn.theta.shape[1]))
    rows = drawn._replace(theta=theta, norm2=np.zeros(N * n_levels))
    row = np.arange(n_levels * N).reshape(n_levels, N)
    mix = np.zeros(n_levels)
    mix[0] = 1.0
    return Intervals(rows, row, np.ones(1, dtype=np.int64), mix)


def _scratch(model: Intervals, threads: int) -> Scratch:
    J, N = model.row.shape
    W = model.rows.padded.shape[2]
    return Scratch(empty_waves(N * W), aligned((W,)), np.zeros(J * N))


@inlined
def begin_level(model, j):
    """Set the coefficients of level j to 0, for a new interval."""
    for r in model.row[j]:
        model.rows.norm2[r] = 0.0
        for k in range(model.rows.theta.shape[1]):
            model.rows.theta[r, k] = 0.0


@inlined
def gradient_steps_of_level(model, j, eta, lam, y, scratch):
    """Take a gradient step for the coefficients of every kernel on level j.

    Parameters
    ----------
    model
        Coefficients, updated in place.
    j
        Level.
    eta, lam
        Step size and penalty.
    y
        Target.
    scratch
        ``Scratch``, with the features and outputs at the current row.
    """
    W = model.rows.padded.shape[2]
    shrink = 1.0 - 2.0 * eta * lam
    for i in range(model.row.shape[1]):
        r = model.row[j, i]
        step = 2.0 * eta * (scratch.f[r] - y)
        gradient_step_at(model.rows, r, scratch.waves, i * W, step, shrink)


def _evaluate(scratch, model, X, row, selection):
    N = selection.f.shape[0]
    J = model.alive[0]
    rows = model.rows
    W = rows.padded.shape[2]
    scale = 1.0 / math.sqrt(rows.n_waves[0])
    for i in range(N):
        waves_of_row(rows, i, X, row, scratch.angle, scratch.waves, i * W)
        for j in range(J):
            dot = dot_features(rows, model.row[j, i], scratch.waves, i * W)
            scratch.f[j * N + i] = total(dot) * scale
    for i in range(0, N, LANES):
        n = min(LANES, N - i)
        mean = pack(0.0)
        for j in range(J):
            mean = fma(load(scratch.f, j * N + i, n), model.mix[j], mean)
        store(selection.f, i, mean, n)


dispatch(evaluate_row, Scratch, _evaluate)

INTERVALS = RANDOM_FEATURES._replace(
    name="random features on intervals", scratch=_scratch, with_zero_weights=None, fresh=_fresh
)


class State(NamedTuple):
    """State with J levels. Arrays (J N,) are ordered as theta: level by level.

    log_w  (N,) logarithms of the weights of the kernels, over all levels
    log_v  (J N,) logarithms of the weights of the kernels on each level
    log_h  (J,) logarithms of the weights of the levels
    share  (J N,) weights of the kernels on each level, of sum 1
    """

    model: Intervals
    log_w: np.ndarray
    log_v: np.ndarray
    log_h: np.ndarray
    share: np.ndarray


def init(params: Params, dictionary: Sequence[Kernel], model: Intervals) -> State:
    N = len(dictionary)
    log_v = np.zeros(params.levels * N)
    share = np.full(params.levels * N, 1.0 / N)
    return State(model, np.zeros(N), log_v, np.zeros(params.levels), share)


@inlined
def step_size(params, length):
    return min(0.5, params.eta0 / math.sqrt(length))


@inlined
def prediction_of_level(state, selection, j):
    """Return the prediction of the instance of level j.

    Parameters
    ----------
    state, selection
        State, and the evaluated round.
    j
        Level.
    """
    N = selection.f.shape[0]
    rows = slice(j * N, j * N + N)
    return mean_of_all_by_shares(state.share[rows], selection.scratch.f[rows])


@inlined
def prediction_of_all(state, selection):
    """Return the prediction of the mixture of all levels."""
    y_hat = 0.0
    for j in range(state.model.alive[0]):
        y_hat += state.model.mix[j] * prediction_of_level(state, selection, j)
    return y_hat


select = select_all


def predict(params, state, t, selection):
    return prediction_of_all(state, selection), True


def update(params, state, t, y, selection):
    scratch, norm2 = selection.scratch, state.model.rows.norm2
    y_hat = prediction_of_all(state, selection)
    N = selection.f.shape[0]
    length = 1
    for j in range(state.model.alive[0]):
        eta = step_size(params, length)
        gain = (y_hat - y) ** 2 - (prediction_of_level(state, selection, j) - y) ** 2
        state.log_h[j] += math.log(1.0 + eta * min(1.0, max(-1.0, gain)))
        rows = slice(j * N, j * N + N)
        exponential_update(state.log_v[rows], eta, y, scratch.f[rows], params.lam, norm2[rows])
        if (t + 1) % length != 0:  # otherwise the level restarts in the next round
            gradient_steps_of_level(state.model, j, eta, params.lam, y, scratch)
        length *= 2
    _begin(params, state, t + 1)
    _mix(state)


@inlined
def _begin(params, state, t):
    """Start the intervals that begin in round t."""
    N = state.log_w.shape[0]
    length = 1
    for j in range(state.log_h.shape[0]):
        if t % length == 0:
            if state.model.alive[0] <= j:
                state.model.alive[0] = j + 1
            begin_level(state.model, j)
            state.log_h[j] = math.log(step_size(params, length))
            for r in range(j * N, j * N + N):
                state.log_v[r] = 0.0
        length *= 2


@inlined
def _mix(state):
    """Update the weights of the levels in use, and the weights of the kernels over all levels."""
    mix = state.model.mix
    J = state.model.alive[0]
    N = state.log_w.shape[0]
    shares_of_all(state.log_h[:J], mix[:J])
    for i in range(N):
        state.log_w[i] = 0.0
    for j in range(J):
        share = state.share[j * N : j * N + N]
        shares_of_all(state.log_v[j * N : j * N + N], share)
        for i in range(N):
            state.log_w[i] += mix[j] * share[i]
    for i in range(N):
        state.log_w[i] = math.log(max(state.log_w[i], 1e-300))


EXPECTED_FAILURES = {"one_kernel": "one kernel has as many steps as there are levels"}

algorithm = register(__name__, representation=INTERVALS)
