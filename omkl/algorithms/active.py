"""Predictions by subsets of good kernels, and targets requested only if the kernels disagree.

S. Hong, J. Chae, "Active Learning with Multiple Kernels": OMKL-AKS predicts with a drawn subset,
AMKL requests only some targets, AMKL-AKS does both. ``amkl_random`` is AMKL with random requests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from omkl.algorithms.parts import select_all
from omkl.core.compiler import inlined
from omkl.core.hyperparameters import (
    COUNT,
    COUNTS,
    KERNELS,
    NON_NEGATIVE,
    SIZE,
    Range,
    Schedule,
    rate,
)
from omkl.core.kernels import Kernel
from omkl.core.protocol import choose_all, register_as
from omkl.core.representations.random_features import (
    RANDOM_FEATURES,
    RandomFeatures,
    gradient_steps,
)
from omkl.core.simd import LANES, at_least, largest, load, pack
from omkl.core.weights import (
    draw,
    exponential_update,
    largest_of,
    mean_of_all,
    shares_below,
    variance_of_all,
)

# --- A subset of the kernels predicts -----------------------------------------------------------

BELOW_ONE = Annotated[float, Range(0.0, 1.0, open_high=True)]


@inlined
def n_subsets(N, K, most):
    """Return the number of subsets of size K of N kernels, or ``most`` if that is less.

    Parameters
    ----------
    N, K
        Number of items, and size of a subset, 0 <= K <= N.
    most
        Upper limit.
    """
    count = 1
    for k in range(min(K, N - K)):
        count = count * (N - k) // (k + 1)  # exact: the quotient is (N choose k + 1)
        if count >= most:
            return most
    return count


@inlined
def measure(log_w, top, delta, gamma):
    """Return the number K of good kernels, the bins J per kernel, and the number of all bins.

    These are equations (23), (58) and (26) of the paper.

    Parameters
    ----------
    log_w
        Logarithms of weights (N,).
    top
        The largest of them.
    delta
        A kernel is good if its weight divided by the largest weight exceeds delta, in [0, 1).
    gamma
        Most bins per kernel.
    """
    N = log_w.shape[0]
    least = math.log(delta) if delta > 0.0 else -np.inf
    K = 0
    for i in range(N):
        if delta == 0.0 or log_w[i] - top > least:
            K += 1
    bins = n_subsets(N, K, gamma * N)
    return K, bins * K // N, bins  # the quotient J is exact for both values of gamma_t


@inlined
def add_by_coins(subset, n, first, last, J, bins, rng):
    """Add each kernel first .. last - 1 to a subset with probability J / bins; return the new size.

    Parameters
    ----------
    subset, n
        Kernels (N,), of which the first n are in the subset.
    first, last
        Range of kernels.
    J, bins
        Number of bins that each kernel is in, and number of all bins.
    rng
        ``Uniform``.
    """
    for i in range(first, last):
        subset[n] = i  # overwritten unless it joins: a branch would be mispredicted
        n += 1 if bins * rng.random() < J else 0
    return n


@inlined
def draw_subset(params, state, rng):
    """Draw the kernels that predict, by the current weights (steps 1 to 3 of OMKL-AKS).

    Parameters
    ----------
    params, state
        Params with ``delta`` and ``gamma``, and state, whose ``subset``, ``n`` and ``w`` are
        written.
    rng
        ``Uniform``.
    """
    N = state.w.shape[0]
    top = largest_of(state.log_w)
    _, J, bins = measure(state.log_w, top, params.delta, params.gamma)
    if bins == 1:  # the bin of all kernels
        for i in range(N):
            state.subset[i] = i
        state.n[0] = N
        return
    shares_below(state.log_w, top, state.w)
    certain = draw(state.w, rng.random())
    n = add_by_coins(state.subset, 0, 0, certain, J, bins, rng)
    state.subset[n] = certain
    state.n[0] = add_by_coins(state.subset, n + 1, certain + 1, N, J, bins, rng)


@inlined
def choose_subset(state, selection):
    """Select all kernels to be evaluated, and those of the subset to be combined."""
    choose_all(selection)
    n = state.n[0]
    if n < selection.f.shape[0]:
        for m in range(n):
            selection.combine[m] = state.subset[m]
        selection.n_combined[0] = n


@inlined
def learn_all(params, state, t, y, selection):
    """Update weights by equation (22), and theta by equation (17). Both use the old theta.

    Parameters
    ----------
    params, state, t, y, selection
        As in ``omkl.core.protocol.update``.
    """
    eta_g = rate(params.eta_g, t)
    exponential_update(state.log_w, eta_g, y, selection.f, params.lam, state.model.norm2)
    gradient_steps(state.model, rate(params.eta, t), params.lam, y, selection)


@inlined
def mean_of_subset(state, selection):
    """Return the prediction of equations (31) and (32): a weighted mean over the drawn subset.

    The outputs of its kernels have the weights ``state.w``, from which the subset was drawn.
    """
    n = selection.n_combined[0]
    if n == selection.f.shape[0]:
        return mean_of_all(state.log_w, selection.f)
    total = 0.0
    mean = 0.0
    for m in range(n):
        i = selection.combine[m]
        total += state.w[i]
        mean += state.w[i] * selection.f[i]
    return mean / total


@register_as("omkl_aks", representation=RANDOM_FEATURES)
class OmklAks:
    """OMKL-AKS: every kernel learns. A random subset predicts: about K kernels if K are good.

    Paper    S. Hong, J. Chae, "Active Learning with Multiple Kernels", algorithm 1.
    Task     regression; full information.
    Round    1. K is the number of kernels with w_i / max w > delta, equation (23). J = gamma_t K
                with gamma_t = min((N choose K) / N, gamma), equation (58).
             2. Put each kernel into J distinct bins, drawn from gamma_t N bins. Bin j then has a
                set V_j of kernels, K of them on average.
             3. Draw a bin s. Bin j has the probability
                alpha_j = (sum of w_i over V_j) / (J sum of w), equation (29).
                The code fills only bin s: it puts one kernel, drawn with probability w_i / sum
                of w, into bin s, and every other kernel with probability J / (gamma_t N). This
                gives the same distribution of V_s.
             4. Predict the mean of f_i over V_s weighted by w, equations (31) and (32).
             5. For all kernels, theta_i <- theta_i - eta grad L_i(theta_i), equation (17), and
                w_i <- w_i exp(-eta_g L_i(theta_i)), equation (22). Both use the theta_i that
                predicted, with L_i(theta) = (theta'z_i - y_t)^2 + lam ||theta||^2.
    Symbols  eta    step size of theta (eta_l in the paper), > 0, a schedule in t
             eta_g  step size of the weights, > 0, a schedule in t
             lam    regularisation, >= 0
             delta  smallest ratio to the largest weight, in [0, 1); 0: all kernels predict (Raker)
             gamma  largest number of bins, as a multiple of N, >= 1 (section V: 2)
    Cost     O(N D d) time per round; O(N D d) memory.
    Bound    theorem 1: O(sqrt(T)) with high probability, eta and eta_g of order 1/sqrt(T);
             bounded, Lipschitz losses.
    Reading  Algorithm 1 draws the subset of round t + 1 at the end of round t. The code draws it at
             the start of round t + 1, from the same weights. In round 1 all weights are equal, and
             all kernels predict. "J distinct bins": a throw into a bin that already has the kernel
             is repeated. The paper fills bins in two ways. Equation (28) makes one bin for each
             subset of size K, if there are (N choose K) bins. Remark 1 fills bins at random. The
             experiments and this code follow remark 1 for every K. Since J / (gamma_t N) = K / N,
             gamma changes the collection of bins but not the distribution of the drawn subset.
    Differs  from the paper: none.
    """

    class Params(NamedTuple):
        eta: Schedule
        eta_g: Schedule
        lam: NON_NEGATIVE
        delta: BELOW_ONE
        gamma: SIZE

    class State(NamedTuple):
        model: RandomFeatures
        log_w: np.ndarray  # (N,)
        w: np.ndarray  # (N,) weights that sum to 1, of the round in which the subset was drawn
        subset: KERNELS  # (N,) the kernels that predict: the first n
        n: Annotated[np.ndarray, Range(0, "N")]  # (1,)

    update = learn_all

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: RandomFeatures) -> OmklAks.State:
        N = len(dictionary)
        return OmklAks.State(model, np.zeros(N), np.full(N, 1.0 / N), np.arange(N), np.array([N]))

    @staticmethod
    def select(params, state, t, rng, selection):
        draw_subset(params, state, rng)
        choose_subset(state, selection)

    @staticmethod
    def predict(params, state, t, selection):
        return mean_of_subset(state, selection), True


# --- Some targets are requested -----------------------------------------------------------------


@inlined
def must_ask(params, state):
    """Return whether the target must be requested even if the kernels agree.

    The target is requested after M rows without a request, and in every row if eta_c is 0.
    """
    return params.eta_c == 0.0 or state.unlabelled[0] >= params.M


@inlined
def farthest_of_all(f, mean):
    """Return the largest distance of the outputs f (N,) from ``mean``."""
    N = f.shape[0]
    farthest_pack = pack(0.0)
    j = 0
    while j + LANES <= N:
        farthest_pack = at_least(abs(load(f, j) - mean), farthest_pack)
        j += LANES
    farthest = largest(farthest_pack)
    for i in range(j, N):
        farthest = max(farthest, abs(f[i] - mean))
    return farthest


def update_if_asked(params, state, t, y, selection):
    if math.isnan(y):
        state.unlabelled[0] += 1
        return
    state.unlabelled[0] = 0
    learn_all(params, state, t, y, selection)


@register_as("amkl", representation=RANDOM_FEATURES, queries=True)
class Amkl:
    """AMKL: Raker that requests a target only if its kernels disagree.

    Paper    S. Hong, J. Chae, "Active Learning with Multiple Kernels", algorithm 2 with all
             kernels in the subset.
    Task     regression; queried labels.
    Round    1. Evaluate all kernels and predict the mean of the f_i weighted by w_i.
             2. Skip the target, and change nothing, if one of the last M targets was requested and
                no kernel j is far from the others,
                max over j of sum over i of p_i (f_i(x_t) - f_j(x_t))^2 <= eta_c, equation (33). The
                p_i are the weights w_i, scaled to sum 1.
             3. Otherwise request y_t. Then
                theta_i <- theta_i - eta grad L_i(theta_i), equation (37), and
                w_i <- w_i exp(-eta_g L_i(theta_i)), equation (39). Both use the theta_i
                that predicted, with L_i(theta) = (theta'z_i - y_t)^2 + lam ||theta||^2.
    Symbols  eta    step size of theta (eta_l in the paper), > 0, a schedule in t
             eta_g  step size of the weights, > 0, a schedule in t
             lam    regularisation, >= 0
             eta_c  largest disagreement without a request, >= 0; 0: every target is requested
             M      most successive rows without a request, >= 1
    Cost     O(N D d) time per round; O(N D d) memory.
    Bound    none. Theorem 2 states a regret, equation (15), of O(sqrt(T)) with eta, eta_g and eta_c
             of order 1/sqrt(T) for bounded, Lipschitz losses that obey the triangle inequality,
             (a5). It is false for every eta_c: targets on which the kernels agree may never be
             requested, which costs a regret of T/2 (``docs/errata.md``). The squared error that is
             learned here breaks (a5) as well. Lemma 6 is printed with eta_c of order sqrt(T); its
             proof uses 1/sqrt(T). At least one target in M + 1 is requested, equation (35). A run
             measures the regret (15) against ``ridge_features`` with regret.lam = lam.
    Reading  The paper states the selection criterion twice, with opposite signs. As in algorithm 2,
             a target is requested unless the condition of step 2 holds. Targets before round 1
             count as skipped, so the first one is requested. The loss between two kernels in
             equation (33) is the squared difference, because (a1) requires a symmetric loss and
             (18) is not symmetric. The symbols with hats in equations (37) and (39) mean f-bar and
             theta-bar. The paper has eta_c > 0; with eta_c = 0 every target is requested here, so
             it is Raker.
    Differs  from the paper: none. The authors' repository (JeongminChae/MKL_Active_Learning) has a
             distributed variant, DAMKL. It requests every target of the first tenth, and in a
             skipped round its criterion uses the outputs of the last row with a target.
    """

    class Params(NamedTuple):
        eta: Schedule
        eta_g: Schedule
        lam: NON_NEGATIVE
        eta_c: NON_NEGATIVE
        M: COUNT

    class State(NamedTuple):
        model: RandomFeatures
        log_w: np.ndarray  # (N,)
        unlabelled: COUNTS  # (1,) rows since the last label; M before the first

    select, update = select_all, update_if_asked

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: RandomFeatures) -> Amkl.State:
        return Amkl.State(model, np.zeros(len(dictionary)), np.array([params.M]))

    @staticmethod
    def predict(params, state, t, selection):
        y_hat = mean_of_all(state.log_w, selection.f)
        if must_ask(params, state):
            return y_hat, True
        # Left side of (33): the sum over i of p_i (f_i - f_j)^2 is the variance of the f_i plus
        # (f_j - mean)^2. It is largest for the f_j that is farthest from the mean.
        farthest = farthest_of_all(selection.f, y_hat)
        apart = variance_of_all(state.log_w, selection.f, y_hat) + farthest * farthest
        return y_hat, not apart <= params.eta_c  # True for NaN too


@inlined
def disagreement(state, selection, mean, farthest):
    """Return the left side of equation (33), the disagreement of the kernels.

    For every kernel j of all N kernels, take the sum of p_i (f_i - f_j)^2 over the kernels i of V.
    The result is the largest of these sums.

    Parameters
    ----------
    state, selection
        State, and the evaluated round.
    mean
        Prediction.
    farthest
        Largest distance of a kernel's output from ``mean``.
    """
    n = selection.n_combined[0]
    if n == selection.f.shape[0]:
        return variance_of_all(state.log_w, selection.f, mean) + farthest * farthest
    share = 0.0
    spread = 0.0
    for m in range(n):
        i = selection.combine[m]
        error = selection.f[i] - mean
        share += state.w[i]
        spread += state.w[i] * error * error
    return spread + share * farthest * farthest


def select_subset(params, state, t, rng, selection):
    if state.unlabelled[0] == 0:
        draw_subset(params, state, rng)
    choose_subset(state, selection)


@register_as("amkl_aks", representation=RANDOM_FEATURES, queries=True)
class AmklAks:
    """AMKL-AKS: a drawn subset of good kernels predicts, and requests a target if kernels disagree.

    Paper    S. Hong, J. Chae, "Active Learning with Multiple Kernels", algorithm 2.
    Task     regression; queried labels.
    Round    1. If the target of the round before was requested, draw the subset V of the kernels by
                steps 1 to 3 of OMKL-AKS, equations (40) and (41). Otherwise V does not change.
             2. Evaluate all kernels and predict the mean of f_i over V weighted by w, equations
                (43) and (44).
             3. Skip the target, and change nothing, if one of the last M targets was requested and
                no kernel j of all N is far from V,
                max over j of sum over i in V of p_i (f_i(x_t) - f_j(x_t))^2 <= eta_c, equation
                (33). The p_i are the weights w_i, scaled to sum 1 over all kernels.
             4. Otherwise request y_t, and update every kernel as AMKL does.
    Symbols  eta, eta_g, lam   as in AMKL
             delta, gamma      as in OMKL-AKS
             eta_c, M          as in AMKL
    Cost     O(N D d) time per round; O(N D d) memory.
    Bound    none. Theorem 3 states O(sqrt(T)) with high probability under the conditions of
             theorem 2. It is false for the same reason, see AMKL and ``docs/errata.md``. At least
             one target in M + 1 is requested, equation (35).
    Reading  As for OMKL-AKS and AMKL. In addition: d_l in equation (41) is J, and d_r in the text
             below equation (41) is K. The p_i of equation (33) are those of equation (38). They sum
             to 1 over all kernels, and to at most 1 over V. As printed, j runs over all kernels,
             although section I restricts the criterion to V.
    Differs  from the paper: none.
    """

    class Params(NamedTuple):
        eta: Schedule
        eta_g: Schedule
        lam: NON_NEGATIVE
        delta: BELOW_ONE
        gamma: SIZE
        eta_c: NON_NEGATIVE
        M: COUNT

    class State(NamedTuple):
        model: RandomFeatures
        log_w: np.ndarray  # (N,)
        w: np.ndarray  # (N,) as in OMKL-AKS, and so are the next two
        subset: KERNELS  # (N,)
        n: Annotated[np.ndarray, Range(0, "N")]  # (1,)
        unlabelled: COUNTS  # (1,) rows since the last label; M before the first

    select, update = select_subset, update_if_asked

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: RandomFeatures) -> AmklAks.State:
        subset = OmklAks.init(params, dictionary, model)
        return AmklAks.State(*subset, unlabelled=np.array([params.M]))

    @staticmethod
    def predict(params, state, t, selection):
        y_hat = mean_of_subset(state, selection)
        if must_ask(params, state):
            return y_hat, True
        apart = disagreement(state, selection, y_hat, farthest_of_all(selection.f, y_hat))
        return y_hat, not apart <= params.eta_c  # True for NaN too


@register_as("amkl_random", representation=RANDOM_FEATURES, queries=True)
class AmklRandom:
    """random labels: AMKL with random requests, the baseline of AMKL's choice of targets.

    Paper    none. It is algorithm 2 of S. Hong, J. Chae, "Active Learning with Multiple Kernels",
             with a coin in place of the criterion of equation (33). The paper does not have this
             baseline.
    Task     regression; queried labels.
    Round    1. Evaluate all kernels and predict the mean of the f_i weighted by w_i, as AMKL.
             2. If one of the last M targets was requested, toss a coin: with probability 1 - rate
                skip the target, and change nothing.
             3. Otherwise request y_t and learn by equations (37) and (39), as AMKL does.
    Symbols  eta    step size of theta, > 0, a schedule in t
             eta_g  step size of the weights, > 0, a schedule in t
             lam    regularisation, >= 0
             rate   probability of a request if step 2 tosses a coin, in [0, 1]; 1: every target
             M      most successive rows without a request, >= 1
    Cost     O(N D d) time per round; O(N D d) memory.
    Bound    none. At least one target in M + 1 is requested, as in equation (35) for AMKL.
    Differs  none. On average a request follows the previous one after
             (1 - (1 - rate)^(M + 1)) / rate rows. The share of requested targets tends to the
             inverse of this number: with M = 1 the share is 1 / (2 - rate). If AMKL with M = 1
             requests the share s of the targets, then rate = 2 - 1 / s requests as many, and the
             two differ only in which targets they request. The code tosses one coin in every
             round, even if step 2 does not need it.
    """

    class Params(NamedTuple):
        eta: Schedule
        eta_g: Schedule
        lam: NON_NEGATIVE
        rate: Annotated[float, Range(0.0, 1.0)]
        M: COUNT

    class State(NamedTuple):
        model: RandomFeatures
        log_w: np.ndarray  # (N,)
        unlabelled: COUNTS  # (1,) rows since the last label; M before the first
        coin: np.ndarray  # (1,) of this round, uniform in [0, 1)

    update = update_if_asked

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: RandomFeatures) -> AmklRandom.State:
        return AmklRandom.State(model, np.zeros(len(dictionary)), np.array([params.M]), np.zeros(1))

    @staticmethod
    def select(params, state, t, rng, selection):
        choose_all(selection)
        state.coin[0] = rng.random()

    @staticmethod
    def predict(params, state, t, selection):
        y_hat = mean_of_all(state.log_w, selection.f)
        return y_hat, state.unlabelled[0] >= params.M or state.coin[0] < params.rate
