"""Online multi-kernel classification: Perceptrons of several kernels, weighted by Hedge.

R. Jin, S. C. H. Hoi, T. Yang, "Online Multiple Kernel Learning: Algorithms and Mistake Bounds", ALT
2010. In the -P algorithms the classifiers vote, and each learns from its own mistakes. In the -O
algorithms their outputs are combined, and they learn if the combination is wrong. In the DA
algorithms all classifiers learn, in SUA one drawn classifier, in MUA several.

Most algorithms also run on random features, under names with ``rf/``. Their steps only use ``add``
and ``project``, which both representations have. The paper does not have these variants. The
features are those of A. Rahimi, B. Recht (NIPS 2007), f_i(x) = theta_i'z_i(x). They take O(N D d)
time per round and O(N D d) memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints

import numpy as np

from omkl.algorithms.parts import predict_mean, select_all
from omkl.core.compiler import inlined
from omkl.core.hyperparameters import (
    FRACTION,
    LEARNS_WITH,
    MAY_LEARN,
    POSITIVE,
    ROUNDS,
    STEP_OF_THEOREM,
    UP_TO_ONE,
    Range,
)
from omkl.core.kernels import Kernel
from omkl.core.protocol import choose_all, register_as
from omkl.core.representations.kernel_perceptrons import PERCEPTRONS, add, project, vote
from omkl.core.representations.random_features import RANDOM_FEATURES
from omkl.core.weights import draw, mean_of_all, shares_of_all

Definition = TypeVar("Definition", bound=type)


def classifier(
    name: str, on_features: str | None = None, **options: Any
) -> Callable[[Definition], Definition]:
    """Register a class on exact kernels as ``name``, and on random features as ``on_features``.

    Compiled code chooses the steps by the type of the hyper-parameters. The form on random features
    is therefore a subclass with a ``Params`` type of its own.

    Parameters
    ----------
    name, on_features
        Names in ``algorithm=``; None: no form on random features.
    options
        Arguments of ``register_as``.
    """

    def decorate(exact: Definition) -> Definition:
        definition: Any = exact
        options.update(task="classification")
        grows = {"bounded_memory": "exact kernels keep every row that taught a classifier"}
        exact_options = options | {"representation": PERCEPTRONS, "expected_failures": grows}
        register_as(name, **exact_options)(definition)
        if on_features:
            fields = get_type_hints(definition.Params, include_extras=True)
            params: Any = NamedTuple("Params", list(fields.items()))  # type: ignore[misc]
            params.__module__ = exact.__module__
            params.__qualname__ = f"{exact.__qualname__}.rf.Params"
            variant = type("rf", (exact,), {"Params": params})
            definition.rf = variant  # where pickle looks for its Params
            register_as(
                on_features, representation=RANDOM_FEATURES, **options | {"independent": False}
            )(variant)
        return exact

    return decorate


class State(NamedTuple):
    model: Any  # Perceptrons or RandomFeatures
    log_w: np.ndarray  # (N,)
    updates: ROUNDS  # (N,) int64, rounds in which the classifier learned


def init(params: Any, dictionary: Sequence[Kernel], model: Any) -> State:
    N = len(dictionary)
    return State(model, np.zeros(N), np.zeros(N, dtype=np.int64))


def predict_by_vote(params, state, t, selection):
    return vote(state.log_w, selection.f), True


@classifier("omkc_da_p1", "rf/omkc_da_p1", independent=True)
class DaP1:
    """OMKC DA-P(1): Perceptrons that vote with Hedge weights; every mistaken one learns.

    Paper    R. Jin, S. C. H. Hoi, T. Yang, "Online Multiple Kernel Learning: Algorithms and
             Mistake Bounds", ALT 2010, algorithm 1 (DA for OMKL-P (1)).
    Task     classification, labels -1 and +1; full information.
    Round    1. Predict sign(q_t . sign(f_t(x_t))), q_i = w_i / sum of w. The learner returns
                q_t . sign(f_t(x_t)), in [-1, 1].
             2. z_i = 1 if y_t f_i(x_t) <= 0, else 0. f_i <- f_i + z_i y_t kappa_i(x_t, .) and
                w_i <- w_i beta^z_i.
    Symbols  beta  discount of the weight of a mistaken classifier, in (0, 1)
    Cost     O(S d + sum_i S_i) time per round; O(S d + sum_i S_i) memory, growing with the
             mistakes. Classifier i has S_i support vectors, and S counts the distinct rows among
             the support vectors of all classifiers.
    Bound    theorem 2: M <= 2 ln(1/beta) / (1 - beta) min_i g(kappa_i) + 2 ln N / (1 - beta), where
             g is the least ||f||^2 + 2 sum of hinge losses over the functions f of kappa_i. M is
             the number of rounds with q . z >= 1/2, so a tie and f_i = 0 count as mistakes. The
             prediction above makes at most M mistakes.
    Differs  none. Kernels are normalised to kappa(x, x) = 1; the paper assumes <= 1.
    """

    class Params(NamedTuple):
        beta: FRACTION

    State, init, select, predict = State, init, select_all, predict_by_vote

    @staticmethod
    def update(params, state, t, y, selection):
        discount = math.log(params.beta)
        for i in range(selection.f.shape[0]):
            f = selection.f[i]
            if y * f <= 0.0:
                add(state.model, i, y, f, selection.scratch)
                state.log_w[i] += discount
                state.updates[i] += 1


@classifier("omkc_da_p2", "rf/omkc_da_p2", independent=True)
class DaP2:
    """OMKC DA-P(2): DA-P(1) with a discount that grows with the size of a mistake.

    Paper    R. Jin, S. C. H. Hoi, T. Yang, "Online Multiple Kernel Learning: Algorithms and
             Mistake Bounds", ALT 2010, algorithm 2 (DA for OMKL-P (2)).
    Task     classification, labels -1 and +1; full information.
    Round    1. Predict sign(q_t . sign(f_t(x_t))), as ``omkc_da_p1``.
             2. z_i = 1 if y_t f_i(x_t) <= 0, else 0; nu_i = z_i (1/2 + min(gamma, -y_t f_i(x_t))).
                f_i <- f_i + z_i y_t kappa_i(x_t, .) and w_i <- w_i beta^nu_i.
    Symbols  beta   discount of the weights, in (0, 1)
             gamma  largest size of a mistake that counts, > 0
    Cost     as ``omkc_da_p1``.
    Bound    theorem 3: M <= 2 c ln(1/beta) / (1 - beta^c) min_i g(kappa_i)
             + 4 c ln N / (1 - beta^c) with c = 1/2 + gamma.
    Differs  none.
    """

    class Params(NamedTuple):
        beta: FRACTION
        gamma: POSITIVE

    State, init, select, predict = State, init, select_all, predict_by_vote

    @staticmethod
    def update(params, state, t, y, selection):
        discount = math.log(params.beta)
        for i in range(selection.f.shape[0]):
            margin = y * selection.f[i]
            if margin <= 0.0:
                add(state.model, i, y, selection.f[i], selection.scratch)
                state.log_w[i] += discount * (0.5 + min(params.gamma, -margin))
                state.updates[i] += 1


@classifier("omkc_da_p1_doubling", independent=True)
class Doubling:
    """OMKC DA-P(1), doubling: beta adapts, by doubling, to the mistakes of the best classifier.

    Paper    R. Jin, S. C. H. Hoi, T. Yang, "Online Multiple Kernel Learning: Algorithms and
             Mistake Bounds", ALT 2010, algorithm 1 with beta_k of equation (5).
    Task     classification, labels -1 and +1; full information.
    Round    As ``omkc_da_p1`` with beta_k = 2^(k/2) / (sqrt(ln N) + 2^(k/2)) in segment k = 0, 1,
             .. In each segment the mistakes of every classifier are counted from 0. The segment
             ends with the round in which the smallest count reaches 2^k.
    Symbols  restart  whether the weights start at 1 in every segment
    Cost     as ``omkc_da_p1``.
    Bound    theorem 5, with restart: M <= 2 (G + ln N + 2 / (sqrt(2) - 1) sqrt(G ln N))
             + 2 ceil(log2 G) ln N, G = min_i g(kappa_i) with g as in ``omkc_da_p1``. Unproved:
             the proof has a further factor sqrt(2) before sqrt(G ln N), see ``docs/errata.md``.
    Reading  The weights restart, because the proof adds ln N for every segment; the text only says
             that beta changes. The functions f_i do not restart.
    Differs  none.
    """

    class Params(NamedTuple):
        restart: bool

    class State(NamedTuple):
        model: Any
        log_w: np.ndarray  # (N,)
        updates: ROUNDS  # (N,) int64
        mistakes: ROUNDS  # (N,) int64, in this segment
        segment: ROUNDS  # (1,) int64, k

    select, predict = select_all, predict_by_vote

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: Any) -> Any:
        N = len(dictionary)
        counts = np.zeros(N, dtype=np.int64)
        return Doubling.State(
            model, np.zeros(N), counts, counts.copy(), np.zeros(1, dtype=np.int64)
        )

    @staticmethod
    def update(params, state, t, y, selection):
        N = selection.f.shape[0]
        root = 2.0 ** (0.5 * state.segment[0])
        discount = math.log(root / (math.sqrt(math.log(N)) + root))
        fewest = state.mistakes[0] + 1
        for i in range(N):
            if y * selection.f[i] <= 0.0:
                add(state.model, i, y, selection.f[i], selection.scratch)
                state.log_w[i] += discount
                state.updates[i] += 1
                state.mistakes[i] += 1
            fewest = min(fewest, state.mistakes[i])
        if fewest == 2.0 ** state.segment[0]:
            state.segment[0] += 1
            for i in range(N):
                state.mistakes[i] = 0
                if params.restart:
                    state.log_w[i] = 0.0


@classifier("omkc_da_o", "rf/omkc_da_o")
class DaO:
    """OMKC DA-O: the outputs are combined, and all classifiers learn if the combination is wrong.

    Paper    R. Jin, S. C. H. Hoi, T. Yang, "Online Multiple Kernel Learning: Algorithms and
             Mistake Bounds", ALT 2010, algorithm 5 (DA for OMKL-O).
    Task     classification, labels -1 and +1; full information.
    Round    1. Predict sign(q_t . f_t(x_t)), q_i = w_i / sum of w. The learner returns
                q_t . f_t(x_t).
             2. If y_t q_t . f_t(x_t) <= 0, for all i: w_i <- w_i beta^(-y_t f_i(x_t)) and
                f_i <- f_i + y_t kappa_i(x_t, .), projected onto ||f_i|| <= R.
    Symbols  beta  discount of the weights, in (0, 1)
             R     largest norm of a classifier, > 0
    Cost     as ``omkc_da_p1``; a projection takes O(1).
    Bound    theorem 8, if c = R^2 ln(1/beta) < 1: M <= G / (1 - c) + 2 ln N / ((1 - c) ln(1/beta)).
             G is the least value, over u in the simplex and ||f_i|| <= R, of the sum of
             u_i ||f_i||^2 plus twice the sum of the hinge losses of u . f.
    Differs  none.
    """

    class Params(NamedTuple):
        beta: FRACTION
        R: POSITIVE

    State, init, select, predict = State, init, select_all, predict_mean

    @staticmethod
    def update(params, state, t, y, selection):
        if y * mean_of_all(state.log_w, selection.f) > 0.0:
            return
        discount = math.log(params.beta)
        for i in range(selection.f.shape[0]):
            state.log_w[i] -= discount * y * selection.f[i]
            add(state.model, i, y, selection.f[i], selection.scratch)
            project(state.model, i, params.R, selection.scratch)
            state.updates[i] += 1


@inlined
def smooth(p, delta, uniform):
    """Replace every entry of p (N,) by (1 - delta) p + delta uniform.

    Parameters
    ----------
    p
        Probabilities (N,), updated in place.
    delta
        Share of ``uniform`` in the result, in (0, 1].
    uniform
        Number that is the same for all entries, such as 1 / N.
    """
    for i in range(p.shape[0]):
        p[i] = (1.0 - delta) * p[i] + delta * uniform


def select_one(params, state, t, rng, selection):
    """Evaluate all classifiers. Draw the one that may learn, with probabilities from ``smooth``.

    Parameters
    ----------
    params, state
        Params with ``delta``, and state with ``p`` and ``drawn``, which are written.
    t, rng, selection
        As in ``omkl.core.protocol.select``.
    """
    choose_all(selection)
    shares_of_all(state.log_w, state.p)
    smooth(state.p, params.delta, 1.0 / state.p.shape[0])
    state.drawn[0] = draw(state.p, rng.random())


@classifier("omkc_sua_p", "rf/omkc_sua_p", deterministic=False)
class SuaP:
    """OMKC SUA-P: Perceptrons vote; one is drawn per round and learns if it was wrong.

    Paper    R. Jin, S. C. H. Hoi, T. Yang, "Online Multiple Kernel Learning: Algorithms and
             Mistake Bounds", ALT 2010, algorithm 3 (SUA for OMKL-P).
    Task     classification, labels -1 and +1; full information.
    Round    1. Draw i_t from p = (1 - delta) q_t + delta / N, q_i = w_i / sum of w.
             2. Predict sign(q_t . sign(f_t(x_t))), as ``omkc_da_p1``: all classifiers vote.
             3. For i = i_t, if y_t f_i(x_t) <= 0: f_i <- f_i + y_t kappa_i(x_t, .) and
                w_i <- w_i beta.
    Symbols  beta   discount of the weight of a mistaken classifier, in (0, 1)
             delta  smoothing of the draw, in (0, 1]
    Cost     as ``omkc_da_p1``, with at most one support vector per round.
    Bound    theorem 6: E[M] <= N / delta (2 ln(1/beta) / (1 - beta) min_i g(kappa_i)
             + 2 ln N / (1 - beta)).
    Differs  none. The draw comes before the target arrives, which changes no distribution.
    """

    class Params(NamedTuple):
        beta: FRACTION
        delta: UP_TO_ONE

    class State(NamedTuple):
        model: Any
        log_w: np.ndarray  # (N,)
        updates: ROUNDS  # (N,) int64
        p: LEARNS_WITH  # (N,)
        drawn: Annotated[MAY_LEARN, Range(0, "N", open_high=True)]  # (1,) int64, i_t

    select, predict = select_one, predict_by_vote

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: Any) -> Any:
        N = len(dictionary)
        p, drawn = np.zeros(N), np.zeros(1, dtype=np.int64)
        return SuaP.State(*init(params, dictionary, model), p, drawn)

    @staticmethod
    def update(params, state, t, y, selection):
        i = state.drawn[0]
        if y * selection.f[i] <= 0.0:
            add(state.model, i, y, selection.f[i], selection.scratch)
            state.log_w[i] += math.log(params.beta)
            state.updates[i] += 1


@classifier("omkc_mua_p", "rf/omkc_mua_p", deterministic=False)
class MuaP:
    """OMKC MUA-P: Perceptrons vote; a Perceptron that a coin selects learns if it was wrong.

    Paper    R. Jin, S. C. H. Hoi, T. Yang, "Online Multiple Kernel Learning: Algorithms and
             Mistake Bounds", ALT 2010, algorithm 4 (MUA for OMKL-P).
    Task     classification, labels -1 and +1; full information.
    Round    1. Draw m_i = 1 with probability p_i, independently; p_i = (1 - delta) q_i + delta,
                q_i = w_i / sum of w, but p = 1 in the first round.
             2. Predict sign(q_t . sign(f_t(x_t))), as ``omkc_da_p1``: all classifiers vote.
             3. If m_i = 1 and y_t f_i(x_t) <= 0: f_i <- f_i + y_t kappa_i(x_t, .) and
                w_i <- w_i beta.
    Symbols  beta   discount of the weight of a mistaken classifier, in (0, 1)
             delta  smoothing of the draw, in (0, 1]; with 1 it is ``omkc_da_p1``
    Cost     as ``omkc_da_p1``.
    Bound    theorem 7: E[M] <= 1 / delta (2 ln(1/beta) / (1 - beta) min_i g(kappa_i)
             + 2 ln N / (1 - beta)).
    Differs  none. The draws come before the target arrives, which changes no distribution.
    """

    class Params(NamedTuple):
        beta: FRACTION
        delta: UP_TO_ONE

    class State(NamedTuple):
        model: Any
        log_w: np.ndarray  # (N,)
        updates: ROUNDS  # (N,) int64
        p: LEARNS_WITH  # (N,)
        drawn: Annotated[MAY_LEARN, Range(0, 1)]  # (N,) int64, m_i

    predict = predict_by_vote

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: Any) -> Any:
        N = len(dictionary)
        p, drawn = np.zeros(N), np.zeros(N, dtype=np.int64)
        return MuaP.State(*init(params, dictionary, model), p, drawn)

    @staticmethod
    def select(params, state, t, rng, selection):
        choose_all(selection)
        shares_of_all(state.log_w, state.p)
        smooth(state.p, params.delta, 1.0)
        for i in range(state.p.shape[0]):
            if t == 1:
                state.p[i] = 1.0
            state.drawn[i] = 1 if rng.random() < state.p[i] else 0

    @staticmethod
    def update(params, state, t, y, selection):
        discount = math.log(params.beta)
        for i in range(selection.f.shape[0]):
            if state.drawn[i] == 1 and y * selection.f[i] <= 0.0:
                add(state.model, i, y, selection.f[i], selection.scratch)
                state.log_w[i] += discount
                state.updates[i] += 1


@classifier("omkc_sua_o", "rf/omkc_sua_o", deterministic=False)
class SuaO:
    """OMKC SUA-O: outputs are combined; if the combination is wrong, one drawn classifier learns.

    Paper    R. Jin, S. C. H. Hoi, T. Yang, "Online Multiple Kernel Learning: Algorithms and
             Mistake Bounds", ALT 2010, algorithm 6 (SUA for OMKL-O).
    Task     classification, labels -1 and +1; full information.
    Round    1. Draw i_t from p = (1 - delta) q_t + delta / N, q_i = w_i / sum of w.
             2. Predict sign(q_t . f_t(x_t)). The learner returns q_t . f_t(x_t).
             3. If y_t q_t . f_t(x_t) <= 0, for i = i_t and with m = 1 / p_i:
                w_i <- w_i beta^(-eta m y_t f_i(x_t)) and f_i <- f_i + eta m y_t kappa_i(x_t, .),
                projected onto ||f_i|| <= R.
    Symbols  beta   discount of the weights, in (0, 1)
             R      largest norm of a classifier, > 0
             delta  smoothing of the draw, in (0, 1]
             eta    step size, > 0; ``theorem``: sqrt(a / b) of theorem 10
    Cost     as ``omkc_da_p1``, with at most one support vector per round.
    Bound    theorem 10: E[M] <= 2 sqrt(a b T) + the least sum of the hinge losses of u . f over u
             in the simplex and ||f_i|| <= R, a = R^2 / 2 + ln N / ln(1/beta),
             b = ln(1/beta) R^2 N^2 / (2 delta^2) + N / (2 delta). Unproved: the proof needs a step
             smaller by sqrt(T), see ``docs/errata.md``.
    Reading  p is always computed from the current weights, as in algorithm 3. Line 15 of algorithm
             6 prints q_t, although the weights w_t+1 are known at that point. The theorem's eta
             lacks the factor 1 / sqrt(T) that its bound would need; it is used as printed.
    Differs  none. The draw comes before the target arrives, also in rounds without a mistake.
    """

    class Params(NamedTuple):
        beta: FRACTION
        R: POSITIVE
        delta: UP_TO_ONE
        eta: STEP_OF_THEOREM

    class State(NamedTuple):
        model: Any
        log_w: np.ndarray  # (N,)
        updates: ROUNDS  # (N,) int64
        p: LEARNS_WITH  # (N,)
        drawn: Annotated[MAY_LEARN, Range(0, "N", open_high=True)]  # (1,) int64, i_t
        eta: np.ndarray  # (1,)

    select, predict = select_one, predict_mean

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: Any) -> Any:
        N = len(dictionary)
        a, b = step_of_theorem(params, N)
        eta = math.sqrt(a / b) if math.isnan(params.eta) else params.eta
        return SuaO.State(
            *init(params, dictionary, model),
            p=np.zeros(N),
            drawn=np.zeros(1, dtype=np.int64),
            eta=np.array([eta]),
        )

    @staticmethod
    def update(params, state, t, y, selection):
        if y * mean_of_all(state.log_w, selection.f) > 0.0:
            return
        i = state.drawn[0]
        step = state.eta[0] / state.p[i] * y
        state.log_w[i] -= math.log(params.beta) * step * selection.f[i]
        add(state.model, i, step, selection.f[i], selection.scratch)
        project(state.model, i, params.R, selection.scratch)
        state.updates[i] += 1


def step_of_theorem(params: Any, N: int) -> tuple[float, float]:
    """Return a and b of theorem 10, whose step size eta is sqrt(a / b)."""
    rate = math.log(1.0 / params.beta)
    a = 0.5 * params.R**2 + math.log(N) / rate
    b = 0.5 * rate * (params.R * N / params.delta) ** 2 + 0.5 * N / params.delta
    return a, b


@classifier("omkc_uniform", independent=True)
class EqualVotes:
    """equal votes: the Perceptrons of ``omkc_da_p1`` with equal weights.

    Paper    none; the baseline of Hedge weights.
    Task     classification, labels -1 and +1; full information.
    Round    1. Predict the sign of the mean of sign(f_i(x_t)).
             2. If y_t f_i(x_t) <= 0: f_i <- f_i + y_t kappa_i(x_t, .).
    Symbols  none
    Cost     as ``omkc_da_p1``.
    Bound    none.
    Differs  none.
    """

    class Params(NamedTuple):
        pass

    State, init, select, predict = State, init, select_all, predict_by_vote

    @staticmethod
    def update(params, state, t, y, selection):
        for i in range(selection.f.shape[0]):
            if y * selection.f[i] <= 0.0:
                add(state.model, i, y, selection.f[i], selection.scratch)
                state.updates[i] += 1
