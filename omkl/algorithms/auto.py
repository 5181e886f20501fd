"""Auto: experts of second order on standardised inputs and past labels, mixed twice.

Paper    none. Experts: V. Vovk, "Competitive on-line statistics", International Statistical
         Review 69 (2001), K. S. Azoury and M. K. Warmuth, Machine Learning 43 (2001), on the
         features of Rahimi and Recht (NIPS 2007). Mixtures: ML-Poly of P. Gaillard, G. Stoltz,
         T. van Erven, "A second-order bound with excess losses", COLT 2014.
Task     regression; full information; nothing to choose: dictionary and D do not matter.
Round    1. Standardise every input by what was seen of it up to this row, and the last two labels
            by the labels before; clip at +-4. A missing input counts as its mean.
         2. Experts: the mean of the labels; the last label; and forecasters of Vovk, Azoury and
            Warmuth with lam = 0.01 of the labels less their mean, f = z'A^-1 b: linear in the
            inputs, or in inputs and labels; and with sines and cosines of random frequencies
            beside these, ``GROUPS``: normal ones, as of a Gaussian kernel; Cauchy ones, as of a
            Laplacian; normal ones in a single input or in two. In some the past fades. They go
            beyond the labels seen by no more than half of their range.
         3. p = sum w_i f_i, w_i proportional to max(R_i, 0) / V_i: R_i sums up
            r_i = 2 (p - y) (p - f_i), V_i sums up r_i^2, where rounds fade by 0.999.
         4. q = p + theta'(f - p), no less than the least f_i and no more than the largest; theta
            is the mean of a normal posterior with prior N(0, 0.1 I) and with the noise of p's
            errors, fading by 0.99.
         5. Predict the mixture, as in 3, of q, p, the mean, the last label and the linear one.
Symbols  none
Cost     O(N D^2 + N D d + d^2) time a round for N = 21 experts and D = 50; memory
         O(N (D + d)^2).
Bound    none for the whole; a mixture's regret against the best fixed one is O(sqrt(N T)).
Differs  no paper.

The labels 0, 1, .., 9 again and again, and no input that says anything; the next one is 9:

>>> import numpy as np
>>> from omkl import algorithms
>>> from omkl.core.learner import Learner
>>> auto = algorithms.load("auto")
>>> learner = Learner(auto, auto.Params(), (), d=1, D=1, seed=0)
>>> y = np.arange(200.0) % 10
>>> round(float(learner.partial_fit(np.zeros((200, 1)), y).y_hat[-1]), 2)
9.0
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from omkl.core.jit import inlined
from omkl.core.kernels import Kernel
from omkl.core.protocol import choose_all, register
from omkl.core.representations import experts, mixed
from omkl.core.representations.experts import Experts
from omkl.core.representations.mixed import MIXED, Mixed
from omkl.core.representations.random_features import blank
from omkl.core.representations.recursive import blank_recursive

N_LAGS = 2
MOST_RAW = 40  # with more inputs, waves have none beside them: the matrices would be theirs
LAM = 0.01
LINEAR_DECAY, WAVE_DECAY = 0.995, 0.998  # memories of 200 and 500 rounds for 3 and 50 features
FARTHEST = 30.0  # of a Cauchy number: the waves of larger ones are noise
TINY = 1e-300


class Params(NamedTuple):
    pass


class State(NamedTuple):
    model: Mixed
    log_w: np.ndarray  # (21,) of the experts' weights in p, those of 0 as TINY


# Frequencies (n, D) of length 1 in n inputs.
Draw = Callable[[np.random.Generator, int, int], np.ndarray]


def normal(rng: np.random.Generator, n: int, D: int) -> np.ndarray:
    """In units of sqrt(n), the distance of two standardised rows."""
    return rng.standard_normal((n, D)) / math.sqrt(n)


def cauchy(rng: np.random.Generator, n: int, D: int) -> np.ndarray:
    """In units of n, the distance in absolute values."""
    return np.clip(rng.standard_cauchy((n, D)), -FARTHEST, FARTHEST) / n


def single(rng: np.random.Generator, n: int, D: int) -> np.ndarray:
    """Of one input each, all inputs in turn: functions that are sums over the inputs."""
    W = np.zeros((n, D))
    W[np.resize(rng.permutation(n), D), np.arange(D)] = rng.standard_normal(D)
    return W


def pairs(rng: np.random.Generator, n: int, D: int) -> np.ndarray:
    """Of two inputs each, drawn anew."""
    W = np.zeros((n, D))
    for j in range(D):
        W[rng.choice(n, min(n, 2), replace=False), j] = rng.standard_normal(min(n, 2))
    return W


class Group(NamedTuple):
    """Experts that differ in the length of their D waves alone; D = 0: linear ones."""

    name: str
    lagged: bool  # past labels are inputs too
    decay: float = 1.0
    draw: Draw = normal
    D: int = 0
    lengths: tuple[float, ...] = (1.0,)


GROUPS: tuple[Group, ...] = (
    Group("linear", False),
    Group("linear, lags", True),
    Group("linear, lags, fading", True, LINEAR_DECAY),
    Group("gaussian", False, 1.0, normal, 50, (1.0, 2.0, 4.0)),
    Group("gaussian, lags", True, 1.0, normal, 25, (1.0, 4.0)),
    Group("gaussian, lags, fading", True, WAVE_DECAY, normal, 25, (1.0, 4.0)),
    Group("laplacian, lags", True, 1.0, cauchy, 25, (2.0, 8.0)),
    Group("single inputs, lags", True, 1.0, single, 25, (0.25, 0.5, 1.0)),
    Group("single inputs, lags, fading", True, WAVE_DECAY, single, 25, (0.5, 1.0)),
    Group("pairs, lags", True, 1.0, pairs, 25, (1.0, 2.0)),
)


def named(groups: Sequence[Group]) -> Sequence[Kernel]:
    """The experts by name, and the length of their waves."""
    learners = [Kernel(group.name, length) for group in groups for length in group.lengths]
    return (Kernel("mean", 1.0), Kernel("last label", 1.0), *learners)


def kernels(params: Params, dictionary: Sequence[Kernel]) -> Sequence[Kernel]:
    return named(GROUPS)


def drawn(groups: Sequence[Group], d: int, seed: int, prior: float) -> Experts:
    """Experts in d inputs that have learned nothing.

    A group has a generator of its own: what it draws does not depend on the other groups.
    """
    draws = {g.name: np.random.default_rng([seed, crc32(g.name.encode())]) for g in groups}
    learners = [(group, length) for group in groups for length in group.lengths]
    n_waves = np.array([group.D for group, _ in learners])
    n_raw = np.zeros(len(learners), dtype=np.int64)
    padded = blank(len(learners), d + N_LAGS, int(n_waves.max())).padded
    for i, (group, length) in enumerate(learners):
        n = d + N_LAGS if group.lagged else d
        n_raw[i] = n if n <= MOST_RAW or not group.D else 0
        padded[i, :n, : group.D] = group.draw(draws[group.name], n, group.D) / length
    first = blank_recursive(padded, n_waves, n_raw, np.full(len(learners), prior))
    decay = np.array([group.decay for group, _ in learners])
    return experts.fresh(first, decay, d, N_LAGS)


def fresh(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> Mixed:
    """Experts and mixtures that have learned nothing; D has no say."""
    return mixed.fresh(drawn(GROUPS, d, seed, 1.0 / LAM))


def init(params: Params, dictionary: Sequence[Kernel], model: Mixed) -> State:
    return State(model, np.zeros(model.n_kernels))


def select(params, state, t, rng, selection):
    choose_all(selection)


def predict(params, state, t, selection):
    return selection.scratch.y_hat[0], True


@inlined
def learn_and_weigh(state, t, y, selection):
    """Learn the label y of round t, and tell the weights."""
    mixed.learn(state.model, selection.scratch, selection.f, y, t)
    for i in range(state.log_w.shape[0]):
        state.log_w[i] = math.log(max(state.model.regrets.w[i], TINY))


def update(params, state, t, y, selection):
    learn_and_weigh(state, t, y, selection)


AUTO = MIXED._replace(fresh=fresh, accepts_blanks=True)

algorithm = register(
    __name__,
    representation=AUTO,
    every_kernel=True,
    kernels=kernels,
    deterministic=False,
    equivariant=True,
)
