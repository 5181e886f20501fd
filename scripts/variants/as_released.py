"""Algorithms as in the authors' public code (the release), if it differs from their text.

The section ``Differs`` of each docstring lists the differences.

The release of the JMLR paper draws all random numbers from NumPy's legacy generator. Its notebooks
call ``seed(0)`` once and run 20 repetitions. A repetition first draws the features of all kernels.
Then it runs OMKL-GF for M = 5, 10, 1, 15 and 20, OMKL-SFG for the same M, and OMKL-SFG-R for the
same M. Each run draws uniform numbers one by one when it needs them. The position of a run in this
sequence of numbers therefore depends on the number of rounds T.

To draw the same numbers as the release, set ``replay`` to T. The seed is then the number of the
repetition, 0 .. 19. If ``replay`` is 0, features and selections are drawn as by other algorithms.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from omkl.algorithms import gf as paper_gf
from omkl.algorithms import sfg as paper_sfg
from omkl.algorithms.parts import State, init, predict_mean, select_all
from omkl.algorithms.raker import Rfomkr
from omkl.core.compiler import inlined, qualify_name
from omkl.core.feedback_graph import rank_largest
from omkl.core.graph_sampling import COUNT as SET_SIZE
from omkl.core.graph_sampling import (
    MASS,
    OUT,
    clear,
    cover_of,
    draw_node,
    edges_of,
    empty_in_mass,
    in_probabilities,
    probability,
    refresh,
    toggle_member,
    trees_of,
)
from omkl.core.hyperparameters import (
    COUNT,
    COUNT_OR_ZERO,
    DERIVED,
    EVALUATED_WITH,
    FRACTION,
    NODE_WEIGHTS,
    NODES,
    NON_NEGATIVE,
    POSITIVE,
    RATE,
    SWITCH,
    TREES,
    UP_TO_N,
    Range,
    Schedule,
    rate,
)
from omkl.core.kernels import Kernel
from omkl.core.protocol import choose, register_as
from omkl.core.representations import Representation
from omkl.core.representations.random_features import (
    RANDOM_FEATURES,
    RandomFeatures,
    blank,
    draw_features,
    gradient_step,
    gradient_steps,
)
from omkl.core.representations.second_order import (
    STACKED_RLS,
    StackedRls,
    StackedScratch,
    learn_both,
    rls_scratch,
)
from omkl.core.simd import LANES, fma, load, pack, total
from omkl.core.weights import (
    draw,
    exp_of_pack,
    exponential_update,
    mean_by_shares,
    shares,
    shares_of_all,
)

REPLAY = Annotated[int, Range(0), "T"]
RUNS = (5, 10, 1, 15, 20)  # values of M, in the order of the notebooks
DRAWN = 302  # number of rounds in which OMKL-GF draws its graph
SELECTIVE = 2  # number of selective nodes of OMKL-GF
EXPLORED = 300  # rounds in which OMKL-SFG draws one number, and OMKL-SFG-R draws two
WORDS, SHIFT = 624, 397  # constants of the Mersenne Twister

# --- Random numbers of the release --------------------------------------------------------------


class ReplayedFeatures(NamedTuple):
    """``RandomFeatures`` with the state of the release's generator before the run's first number.

    words   (624,) state of the Mersenne Twister; empty if ``replay`` is 0
    place   (1,) number of words that were used
    """

    padded: np.ndarray
    theta: np.ndarray
    norm2: np.ndarray
    n_waves: np.ndarray
    words: Annotated[np.ndarray, Range(0, 2**32 - 1)]
    place: Annotated[np.ndarray, Range(0, WORDS)]

    @property
    def omega(self) -> np.ndarray:
        """Frequencies, as in ``RandomFeatures``."""
        return RandomFeatures(*self[:4]).omega

    @property
    def coefficients(self) -> np.ndarray:
        """Coefficients, as in ``RandomFeatures``."""
        return RandomFeatures(*self[:4]).coefficients

    @property
    def n_kernels(self) -> int:
        return len(self.theta)


qualify_name(ReplayedFeatures)


def uniforms_of_gf(M: int, T: int) -> int:
    """Return how many uniform numbers a run of OMKL-GF draws in T rounds."""
    return M * SELECTIVE * min(DRAWN, T) + T


def uniforms_of_sfg(M: int, T: int) -> int:
    """Return how many uniform numbers a run of OMKL-SFG draws in T rounds."""
    return min(EXPLORED, T)


def uniforms_of_sfg_r(M: int, T: int) -> int:
    """Return how many uniform numbers a run of OMKL-SFG-R draws in T rounds."""
    return min(EXPLORED, T) + T


Uniforms = Callable[[int, int], int]
FAMILIES: tuple[Uniforms, ...] = (uniforms_of_gf, uniforms_of_sfg, uniforms_of_sfg_r)


def uniforms_before(family: Uniforms, M: int, T: int) -> int:
    """Return how many uniform numbers a repetition draws before a run begins.

    Parameters
    ----------
    family
        Function of ``FAMILIES`` for the algorithm of the run.
    M
        Number of selected kernels.
    T
        Number of rounds.

    Raises
    ------
    ValueError
        The notebooks do not run this M.
    """
    if M not in RUNS:
        replayable = ", ".join(map(str, sorted(RUNS)))
        raise ValueError(
            f"algorithm.M={M}: the release ran M = {replayable}, so only these can be replayed; "
            "with algorithm.replay=0 any M will do"
        )
    place = FAMILIES.index(family)
    whole = sum(other(m, T) for other in FAMILIES[:place] for m in RUNS)
    return whole + sum(family(m, T) for m in RUNS[: RUNS.index(M)])


def released_draws(
    kernels: Sequence[Kernel], d: int, D: int, T: int, repetition: int
) -> tuple[np.ndarray, np.random.RandomState]:
    """Draw the frequencies (N, d, D) of a repetition as the release does.

    Also return the generator, which continues after the last frequency.

    Parameters
    ----------
    kernels
        N kernels.
    d, D
        Number of inputs, and of frequencies per kernel.
    T
        Number of rounds.
    repetition
        Number of the repetition, 0 .. 19.

    Raises
    ------
    ValueError
        The release does not have a kernel's family.
    """
    unknown = {kernel.family for kernel in kernels} - {"gaussian", "laplacian"}
    if unknown:
        raise ValueError(
            f"algorithm.replay: the release knows no {sorted(unknown)[0]} kernels; with "
            "algorithm.replay=0 all kernels with random features will do"
        )
    generator = np.random.RandomState(0)
    for r in range(repetition + 1):
        if r > 0:
            generator.random_sample(sum(family(M, T) for family in FAMILIES for M in RUNS))
        omega = np.array([_frequencies(kernel, d, D, generator) for kernel in kernels])
    return omega, generator


def _frequencies(kernel: Kernel, d: int, D: int, generator: np.random.RandomState) -> np.ndarray:
    if kernel.family == "gaussian":
        return generator.randn(d, D) * np.sqrt(1.0 / kernel.bandwidth)
    return generator.standard_cauchy((d, D)) / kernel.bandwidth


def _drawn(
    params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int
) -> tuple[RandomFeatures, np.random.RandomState | None]:
    """Draw features as the release does; if ``replay`` is 0, draw them as other algorithms do."""
    if not params.replay:
        return draw_features(kernels, d, D, seed), None
    omega, generator = released_draws(kernels, d, D, params.replay, seed)
    model = blank(len(kernels), d, D)
    model.omega[:] = omega
    return model, generator


def replayed_features(family: Uniforms) -> Representation:
    """Return the representation of an algorithm whose random numbers can be replayed.

    ``family`` counts the numbers of the algorithm, see ``FAMILIES``.
    """
    # ``with_zero_weights`` would share the state of the generator between learners.
    return RANDOM_FEATURES._replace(
        fresh=functools.partial(_fresh_with_generator, family),
        written=("words", "place"),
        with_zero_weights=None,
    )


def _fresh_with_generator(
    family: Uniforms, params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int
) -> ReplayedFeatures:
    model, generator = _drawn(params, kernels, d, D, seed)
    words, place = np.empty(0, dtype=np.int64), 0
    if generator is not None:
        generator.random_sample(uniforms_before(family, params.M, params.replay))
        state: Any = generator.get_state(legacy=False)
        words, place = state["state"]["key"].astype(np.int64), state["state"]["pos"]
    return ReplayedFeatures(*model, words, np.array([place]))


def _fresh(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> RandomFeatures:
    return _drawn(params, kernels, d, D, seed)[0]


# For algorithms that evaluate every kernel and draw no other random numbers.
REPLAYED_FEATURES = RANDOM_FEATURES._replace(fresh=_fresh, with_zero_weights=None)


@inlined
def next_word(words, place):
    """Return the next 32 random bits of a Mersenne Twister, and update words (624,), place (1,)."""
    if place[0] == WORDS:
        for k in range(WORDS):
            y = (words[k] & 0x80000000) | (words[(k + 1) % WORDS] & 0x7FFFFFFF)
            words[k] = words[(k + SHIFT) % WORDS] ^ (y >> 1) ^ (0x9908B0DF * (y & 1))
        place[0] = 0
    y = words[place[0]]
    place[0] += 1
    y ^= y >> 11
    y ^= (y << 7) & 0x9D2C5680
    y ^= (y << 15) & 0xEFC60000
    return y ^ (y >> 18)


@inlined
def next_uniform(model, rng):
    """Return the next uniform number in [0, 1), from the release's generator or from ``rng``."""
    if model.words.shape[0] == 0:
        return rng.random()
    high = next_word(model.words, model.place) >> 5
    low = next_word(model.words, model.place) >> 6
    return (high * 67108864.0 + low) / 9007199254740992.0


# --- Steps of several algorithms ----------------------------------------------------------------


@inlined
def learn(params, state, i, m, y, step, step_of_w, selection):
    """Update theta_i, and then w_i by the old error and the penalty of the new theta_i.

    Parameters
    ----------
    params, state
        Parameters, and the state, which is updated.
    i, m
        Index of the kernel, and its position among the evaluated kernels.
    y
        Target.
    step, step_of_w
        Step sizes of theta and of the weight.
    selection
        Evaluated round.
    """
    error = selection.f[i] - y
    gradient_step(
        state.model, i, m, selection.scratch, 2.0 * step * error, 1.0 - 2.0 * step * params.lam
    )
    state.log_w[i] -= step_of_w * (error * error + params.lam * state.model.norm2[i])


@inlined
def shifted(i, N):
    """Return the index that the release selects in place of i: the next index, at most N - 1."""
    return min(i + 1, N - 1)


@functools.lru_cache(maxsize=4)
def released_graph(N: int, M: int) -> np.ndarray:
    """Make the edges (3, N, M) of the released code, once for all seeds.

    Its function ``kernel_distance`` ends without a ``return``, so every divergence is NaN, and
    ``argmax`` of NaNs is the smallest index. The out-neighbours of node i are i and the M - 1
    smallest other indices.
    """
    return edges_of(np.array([[i, *np.delete(np.arange(N), i)[: M - 1]] for i in range(N)]))


SHIFTED = {"importance_weights": "q belongs to the drawn kernels, and others are selected"}
MOVED = {"complete_graph": "the penalty in its weights is that of the updated theta"}

# --- Algorithms ---------------------------------------------------------------------------------


@register_as("as_released/raker", representation=REPLAYED_FEATURES, expected_failures=MOVED)
class Raker:
    """Raker as released with the JMLR paper: the weights use the penalty of the updated theta.

    Paper    P. M. Ghari, Y. Shen, "Graph-Aided Online Multi-Kernel Learning", JMLR, section 5,
             and its public code; the algorithm is that of Shen, Chen and Giannakis, JMLR 2019.
    Task     regression; full information.
    Round    1. Evaluate f_i(x_t) = theta_i'z_i(x_t) for all N kernels.
             2. Predict the mean of the f_i weighted by w_i.
             3. theta_i <- theta_i - eta_t grad ((theta_i'z_i - y)^2 + lam ||theta_i||^2).
             4. w_i <- w_i exp(-eta_t ((f_i - y)^2 + lam ||theta_i||^2)) with the new theta_i.
    Symbols  eta  step size of theta and of the weights, > 0, a schedule in t
             lam  regularisation, >= 0
             replay   T: features and draws of the release, where the seed is the number of the
                      repetition; 0: those of other learners
    Cost     as ``raker``.
    Bound    none stated for this order.
    Differs  from the paper (``raker``): in the loss that updates the weights, the penalty is that
             of the updated theta, and the squared error is that of the old theta. In the text both
             are those of the old theta.
    """

    class Params(NamedTuple):
        eta: Schedule
        lam: NON_NEGATIVE
        replay: REPLAY = 0

    State, init, select, predict = State, init, select_all, predict_mean

    @staticmethod
    def update(params, state, t, y, selection):
        eta = rate(params.eta, t)
        gradient_steps(state.model, eta, params.lam, y, selection)
        # The norms are those of the updated thetas, as in the released code.
        exponential_update(state.log_w, eta, y, selection.f, params.lam, state.model.norm2)


@inlined
def sum_of_all(log_w, f):
    """Return the sum of exp(log_w) f over N kernels, for log_w (N,) <= 0 and f (N,)."""
    N = log_w.shape[0]
    weighted = pack(0.0)
    for j in range(0, N, LANES):
        n = min(LANES, N - j)
        weighted = fma(exp_of_pack(load(log_w, j, n)), load(f, j, n), weighted)
    return total(weighted)


@register_as(
    "as_released/rfomkr",
    representation=REPLAYED_FEATURES,
    expected_failures={
        "one_kernel": "the weight of a single kernel shrinks, and its prediction with it",
        "complete_graph": "its weights are beta^loss, and they are not normalised",
        "learns": "its predictions go to 0 as the losses add up",
    },
)
class RfomkrUnnormalised:
    """RFOMKR as released with the JMLR paper: its weights are never normalised.

    Paper    P. M. Ghari, Y. Shen, "Graph-Aided Online Multi-Kernel Learning", JMLR, section 5,
             and its public code; the algorithm is that of Sahoo, Hoi and Li, ACM TKDD 2019.
    Task     regression; full information.
    Round    1. Evaluate f_i(x_t) = theta_i'z_i(x_t) for all N kernels.
             2. Predict the sum of w_i f_i; the w_i start at 1/N and only shrink.
             3. theta_i <- theta_i - eta_t grad L_i(theta_i), and w_i <- w_i beta^(L_i(theta_i)),
                both at the theta_i that predicted,
                with L_i(theta) = (theta'z_i - y_t)^2 + lam ||theta||^2.
    Symbols  eta   step size of theta, > 0, a schedule in t
             beta  discount of the weights, in (0, 1) (0.5)
             lam   regularisation, >= 0 (released: 0, the squared error alone)
             replay   T: features and draws of the release, where the seed is the number of the
                      repetition; 0: those of other learners
    Cost     as ``rfomkr``.
    Bound    none: the predictions go to 0 as the losses add up.
    Differs  from the paper (``rfomkr``): the prediction is the plain sum of w_i f_i, which is the
             weighted mean only in the first round. That is where the published 350.52, 405.44,
             210.42 and 347.06 come from.
    """

    class Params(NamedTuple):
        eta: Schedule
        beta: FRACTION
        lam: NON_NEGATIVE
        replay: REPLAY = 0

    State, init, select = State, Rfomkr.init, select_all
    update = Rfomkr.update

    @staticmethod
    def predict(params, state, t, selection):
        return sum_of_all(state.log_w, selection.f), True


@inlined
def draw_graph(params, state, eta_e, rng):
    """Draw the graph by algorithm 2, with shifted indices. Each draw takes one random number."""
    w, p = state.w, state.share  # ``share`` serves as scratch here, and is written again later
    N = w.shape[0]
    shares_of_all(state.log_w, w)
    explore = 1.0
    for j in range(params.J):
        explore *= eta_e
        for i in range(N):
            p[i] = (1.0 - explore) * w[i] + explore / N
        n = 0
        for _ in range(params.M):
            i = draw(p, next_uniform(state.model, rng))
            n = paper_gf.add_kernel(state.kernels[j], n, shifted(i, N))
        state.n_kernels[j] = n
        paper_gf.keep_probabilities(state, j, params.M, explore)


@register_as(
    "as_released/gf", representation=replayed_features(uniforms_of_gf), expected_failures=SHIFTED
)
class Gf:
    """OMKL-GF as released with the JMLR paper: shifted indices and limited probabilities.

    Paper    P. M. Ghari, Y. Shen, "Graph-Aided Online Multi-Kernel Learning", JMLR,
             algorithms 1, 2 and 3, and its public code.
    Task     regression; selected kernels (at most M a round).
    Round    1. While t <= freeze, draw the graph: each of J selective nodes draws M times, with
                replacement, from pi_ij = (1 - eta_e^j) w_i / sum(w) + eta_e^j / N. A node that
                draws kernel i gets kernel min(i + 1, N - 1).
             2. u_j is the sum of w over the kernels of node j; draw a node from
                p_j = (1 - eta_e) u_j / U + eta_e / J.
             3. Evaluate that node's kernels S_t; predict their mean weighted by w.
             4. q_i = max(floor_q, sum_j p_j (1 - (1 - pi_ij)^M)), the shift left out; for i in S_t
                theta_i <- theta_i - eta grad L_i / q_i with
                L_i(theta) = (theta'z_i - y)^2 + lam ||theta||^2, then
                w_i <- w_i exp(-eta ((f_i - y)^2 + lam ||theta_i||^2) / q_i) with the new theta_i.
                Without ``weighted_step`` theta moves by eta grad L_i, and w_i as before.
    Symbols  eta, eta_e, lam, M, J   as in OMKL-GF
             freeze   rounds after which the graph is kept, >= 1 (released: 302)
             floor_q  smallest q in an importance weight, >= 0 (released: 0.05)
             weighted_step   true: the JMLR release; false: the rule of the ICML 2020 release
             replay   T: features and draws of the release, where the seed is the number of the
                      repetition; 0: those of other learners
    Cost     as ``gf``.
    Bound    none: the importance weights are not unbiased.
    Differs  from the paper (``gf``) in four points. The loop that draws kernels begins with an
             empty sum, so kernel 0 is never selected, every index is too large by one, and the last
             kernel has the probability of two. q has a lower limit. The penalty that updates the
             weights is that of the updated theta. The graph is drawn for the last time in round
             302, and in the text in round 300. The selective node is drawn as in the text.
             With ``replay`` the 20 cells of table 3 are reproduced as printed, one of them up to
             0.03 %. The first version of the paper (arXiv v1) has the ICML rule, J = 1 and steps
             1/sqrt(T). ``as_released/gf_icml`` reproduces three of its four cells within 1 %, and
             Naval within 7 %. These cells do not show whether indices are shifted or q is limited.
    """

    class Params(NamedTuple):
        eta: Schedule
        eta_e: RATE
        lam: NON_NEGATIVE
        M: UP_TO_N
        J: NODES
        freeze: COUNT
        floor_q: NON_NEGATIVE
        weighted_step: bool
        replay: REPLAY = 0

    State, init, predict = paper_gf.State, paper_gf.init, paper_gf.predict

    @staticmethod
    def select(params, state, t, rng, selection):
        eta_e = rate(params.eta_e, t)
        if t <= params.freeze:
            draw_graph(params, state, eta_e, rng)
        paper_gf.choose_node(params, state, eta_e, next_uniform(state.model, rng), selection)

    @staticmethod
    def update(params, state, t, y, selection):
        eta = rate(params.eta, t)
        for m in range(selection.n_evaluated[0]):
            i = selection.evaluate[m]
            step = eta / max(state.q[i], params.floor_q)
            learn(params, state, i, m, y, step if params.weighted_step else eta, step, selection)


def update_with_floors(params, state, t, y, selection):
    eta = rate(params.eta, t)
    node = state.node[0]
    error = mean_by_shares(state.w, selection.f, selection.combine, selection.n_combined[0]) - y
    p = probability(state.trees, node, rate(params.xi, t))
    state.log_u[node] -= eta / max(p, params.floor_p) * error * error
    for m in range(selection.n_evaluated[0]):
        i = selection.evaluate[m]
        step = eta / max(state.q[i], params.floor_q)
        learn(params, state, i, m, y, step, step, selection)


@register_as(
    "as_released/sfg",
    representation=replayed_features(uniforms_of_sfg),
    expected_failures={
        "permuted_graph": "node 0 is taken for ever after round 300, whichever kernel it is",
        **SHIFTED,
        **MOVED,
    },
)
class Sfg:
    """OMKL-SFG as released with the JMLR paper: no divergence, shifted indices, finally node 0.

    Paper    P. M. Ghari, Y. Shen, "Graph-Aided Online Multi-Kernel Learning", JMLR,
             algorithms 4 and 5, and its public code.
    Task     regression; selected kernels (exactly M a round).
    Round    0. A graph whose node i points to itself and to the M - 1 smallest other indices, and
                a dominating set DS of it by greedy set cover.
             1. p_i = (1 - xi) u_i / U + xi / |DS| [i in DS].
             2. Draw i from p; the node I_t is min(i + 1, N - 1). After ``explore`` rounds it is
                node 0.
             3. Evaluate its out-neighbours S_t; predict their mean weighted by w.
             4. q_i = sum of p_j over the in-neighbours j of i; in importance weights q_i is at
                least floor_q and p at least floor_p. For i in S_t
                theta_i <- theta_i - eta grad L_i / q_i with
                L_i(theta) = (theta'z_i - y)^2 + lam ||theta||^2, then
                w_i <- w_i exp(-eta ((f_i - y)^2 + lam ||theta_i||^2) / q_i) with the new theta_i;
                for the node, u <- u exp(-eta (y_hat - y)^2 / p).
    Symbols  eta, xi, lam, M   as in OMKL-SFG
             explore  rounds in which the node is drawn, >= 0 (released: 300)
             floor_q  smallest q in an importance weight, >= 0 (released: 0.1)
             floor_p  smallest p in an importance weight, >= 0 (released: 0.2)
             replay   T: features and draws of the release, where the seed is the number of the
                      repetition; 0: those of other learners
    Cost     as ``sfg``.
    Bound    none: the importance weights are not unbiased, and the node of the end is arbitrary.
    Differs  from the paper (``sfg``) in five points. The function for the divergence returns
             nothing, so every divergence is NaN, and the out-neighbours are the first indices: the
             narrowest Gaussians, if the dictionary begins with these. The loop that draws nodes
             begins with an empty sum, so node 0 is never drawn, and every index is too large by
             one. After round 300 the node is always node 0, and in the text argmax u. q and p have
             lower limits. The penalty that updates the weights is that of the updated theta.
             With ``replay`` the 20 cells of table 4 are reproduced as printed.
    """

    class Params(NamedTuple):
        eta: Schedule
        xi: RATE
        lam: NON_NEGATIVE
        M: UP_TO_N
        explore: COUNT_OR_ZERO
        floor_q: NON_NEGATIVE
        floor_p: NON_NEGATIVE
        replay: REPLAY = 0

    State, predict, update = paper_sfg.GraphState, paper_sfg.predict, update_with_floors

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: Any) -> paper_sfg.GraphState:
        return paper_sfg.on_graph(released_graph(len(dictionary), params.M), model)

    @staticmethod
    def select(params, state, t, rng, selection):
        xi = rate(params.xi, t)
        refresh(state.edges, state.trees, state.in_mass, state.scale, state.log_u, state.node[0])
        node = 0
        if t <= params.explore:
            v = next_uniform(state.model, rng)
            node = shifted(draw_node(state.trees, xi, v), state.log_u.shape[0])
        state.node[0] = node
        paper_sfg.choose_neighbours(state, xi, selection)


class RootedState(NamedTuple):
    """State of OMKL-SFG-R as released. The smallest index in DS'_t has an edge to every kernel."""

    model: Any
    log_w: np.ndarray  # (N,) kernels
    log_u: NODE_WEIGHTS  # (N,)
    edges: DERIVED  # (3, N, M) the unrefined graph; these four as in omkl.core.graph_sampling
    trees: TREES  # (3, 2 P) sums over u and over DS'_t
    cover: DERIVED  # (2, N) DS'_t
    in_mass: DERIVED  # (2 N M,) sums over in-neighbours
    scale: np.ndarray  # (1,) of the sums over u
    best: DERIVED  # (rank,)
    member: SWITCH  # (N,) int64, DS'_t
    changed: DERIVED  # (N,) int64, nodes that enter or leave DS'_t
    w: np.ndarray  # (N,) weights of the combined kernels, in their order, summing to 1
    q: EVALUATED_WITH  # (N,)
    node: DERIVED  # (1,) int64


@inlined
def refine(params, state, xi):
    """Update the dominating set DS'_t."""
    share = state.w  # ``w`` serves as scratch here, and is written again later
    slack = params.slack / (1.0 - xi)
    mass = state.trees[MASS]
    n = shares_that_changed(mass, state.member, slack, share, state.best, state.changed)
    for k in range(n):
        i = state.changed[k]
        state.member[i] = 1 - state.member[i]
        toggle_member(state.edges, state.trees, state.cover, i)


@inlined
def restore_members(state):
    """Restore the trees of DS'_t in a loaded learner, whose file only has the members."""
    for i in range(state.member.shape[0]):
        if state.member[i] == 1:
            toggle_member(state.edges, state.trees, state.cover, i)


@inlined
def has_edge(edges, i, j):
    """Return whether the unrefined graph has an edge from node i to node j."""
    found = False
    for m in range(edges.shape[2]):
        found = found or edges[OUT, i, m] == j
    return found


@inlined
def choose_rooted_neighbours(state, xi, selection):
    """Choose the kernels of a round, and write their probabilities q.

    The node's out-neighbours are combined. Its out-neighbours in the refined graph are evaluated.
    """
    clear(state.q, selection.evaluate, selection.n_evaluated[0])
    edges, trees, node, q = state.edges, state.trees, state.node[0], state.q
    choose(selection, edges[OUT, node], edges.shape[2])
    shares(state.log_w, selection.combine, selection.n_combined[0], state.w)
    root = 0
    while state.member[root] == 0:
        root += 1
    evaluate, n = selection.evaluate, selection.n_evaluated
    if node == root:
        for i in range(q.shape[0]):
            if not has_edge(edges, root, i):
                evaluate[n[0]] = i
                n[0] += 1
    in_probabilities(edges, trees, state.in_mass, state.cover, evaluate, n[0], xi, q)
    for m in range(n[0]):
        if not has_edge(edges, root, evaluate[m]):
            q[evaluate[m]] += probability(trees, root, xi)


@inlined
def shares_that_changed(mass, member, slack, share, best, changed):
    """List the nodes that enter or leave DS'_t, and return their number.

    A node is a member if its share u / U is at least the rank-th largest share minus ``slack``.

    Parameters
    ----------
    mass, member
        Sums of the weights (2 P,), and membership (N,) so far.
    slack
        Difference between the rank-th share and the threshold, >= 0.
    share, best
        Scratch (N,) and (rank,).
    changed
        Receives the nodes (N,).
    """
    P = mass.shape[0] // 2
    for i in range(share.shape[0]):
        share[i] = mass[P + i] / mass[1]
    threshold = rank_largest(share, best) - slack
    n = 0
    for i in range(share.shape[0]):
        if (share[i] >= threshold) != (member[i] == 1):
            changed[n] = i
            n += 1
    return n


@register_as(
    "as_released/sfg_r",
    representation=replayed_features(uniforms_of_sfg_r),
    expected_failures={**SHIFTED, **MOVED},
)
class SfgR:
    """OMKL-SFG-R as released with the JMLR paper: one node has an edge to every kernel.

    Paper    P. M. Ghari, Y. Shen, "Graph-Aided Online Multi-Kernel Learning", JMLR,
             algorithms 4 and 6, and its public code.
    Task     regression; selected kernels (M a round, more where the refinement adds edges).
    Round    0. The graph of the released OMKL-SFG.
             1. While t <= freeze: DS'_t by (44) with beta = (1 - xi) u_[rank] / U + xi / N - slack;
                every node i, those of DS'_t included, gets an edge from the smallest index of
                DS'_t.
             2. p_i = (1 - xi) u_i / U + xi / |DS'_t| [i in DS'_t].
             3. Draw i from p; the node I_t is min(i + 1, N - 1).
             4. Predict with its out-neighbours in the unrefined graph; learn, as the released
                OMKL-SFG, with those in the refined graph and their q.
    Symbols  eta, xi, lam, M   as in OMKL-SFG
             freeze   rounds after which the refined graph is kept, >= 1 (released: 300)
             rank     1..N: how many of the best nodes dominate
             slack    by how much beta is below that of the rank-th node, >= 0 (1e-7)
             floor_q  smallest q in an importance weight, >= 0 (released: 0.1)
             floor_p  smallest p in an importance weight, >= 0 (released: 0.2)
             replay   T: features and draws of the release, where the seed is the number of the
                      repetition; 0: those of other learners
    Cost     as ``sfg_r``.
    Bound    none: the importance weights are not unbiased.
    Differs  from the paper (``sfg_r``) as the released OMKL-SFG does: no divergence, so that d_i is
             the same node for every i, shifted indices, lower limits of q and p, and the penalty of
             the updated theta. Edges are also added to nodes in DS'_t. After round 300 the refined
             graph does not change, but the node is still drawn, and in the text it is argmax u. Up
             to round 300 the first random number of each round is not used.
             With ``replay`` the 20 cells of table 5 are reproduced as printed.
    """

    class Params(NamedTuple):
        eta: Schedule
        xi: RATE
        lam: NON_NEGATIVE
        M: UP_TO_N
        freeze: COUNT
        rank: UP_TO_N
        slack: NON_NEGATIVE
        floor_q: NON_NEGATIVE
        floor_p: NON_NEGATIVE
        replay: REPLAY = 0

    State, predict, update = RootedState, paper_sfg.predict, update_with_floors

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: Any) -> RootedState:
        N = len(dictionary)
        edges = released_graph(N, params.M)
        return RootedState(
            model,
            log_w=np.zeros(N),
            log_u=np.zeros(N),
            edges=edges,
            trees=trees_of(edges),
            cover=cover_of(edges),
            in_mass=empty_in_mass(edges),
            scale=np.zeros(1),
            best=np.zeros(params.rank),
            member=np.zeros(N, dtype=np.int64),
            changed=np.zeros(N, dtype=np.int64),
            w=np.zeros(N),
            q=np.full(N, np.nan),
            node=np.zeros(1, dtype=np.int64),
        )

    @staticmethod
    def select(params, state, t, rng, selection):
        xi = rate(params.xi, t)
        refresh(state.edges, state.trees, state.in_mass, state.scale, state.log_u, state.node[0])
        if state.trees[SET_SIZE, 1] == 0.0:
            restore_members(state)
        if t <= params.freeze:
            refine(params, state, xi)
            next_uniform(state.model, rng)  # the draw that is thrown away
        v = next_uniform(state.model, rng)
        state.node[0] = shifted(draw_node(state.trees, xi, v), state.log_u.shape[0])
        choose_rooted_neighbours(state, xi, selection)


def _scratch(model: StackedRls, threads: int) -> StackedScratch:
    """Return scratch arrays with which both levels predict before they learn the row's inputs."""
    first, second = (rls_scratch(level, threads) for level in model)
    return StackedScratch(first, second, np.zeros(1))


@register_as("as_released/vaw2", representation=STACKED_RLS._replace(scratch=_scratch))
class ReleasedVaw2:
    """VAW^2 as in its authors' notebook: both levels predict before they learn the row's inputs.

    Paper    D. B. Rokhlin, O. V. Gurtovaya, "Random feature-based double Vovk-Azoury-Warmuth
             algorithm for online multi-kernel learning", arXiv 2503.20087 (2025), and their public
             notebook.
    Task     regression; full information; no step size.
    Round    1. Each of the N kernels predicts f_i = z_i'A_i^-1 b_i with A_i = lam I + sum_{s<t}
                z_i z_i' and b_i = sum_{s<t} y_s z_i: recursive least squares.
             2. The second level does the same with f = (f_1, .., f_N) in place of z_i and lam2.
    Symbols  lam   regularisation of the first level, > 0 (notebook: 1)
             lam2  of the second, > 0 (notebook: 1)
    Cost     as ``vaw2``.
    Bound    none: the bounds of the paper are for predictions with the row x_t in A_i and f in B.
    Reading  The notebook was not available. This code follows a report of it, which states lam and
             when rows are added. Its kernels and D are unknown, so they are settings of the run.
    Differs  from the paper (``vaw2``): at the prediction the row x_t is not in A_i, and f is not
             in B.
    """

    class Params(NamedTuple):
        lam: POSITIVE
        lam2: POSITIVE

    class State(NamedTuple):
        model: StackedRls
        log_w: np.ndarray  # (N,) zeros: the second level has coefficients and no weights

    init, select = init, select_all

    @staticmethod
    def predict(params, state, t, selection):
        return selection.scratch.f[0], True

    @staticmethod
    def update(params, state, t, y, selection):
        learn_both(state.model, selection.scratch, selection.f, y)
