"""Learners without parameters: experts of second order on standardised inputs, mixed twice."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from omkl.algorithms.parts import select_all
from omkl.core.hyperparameters import COUNT
from omkl.core.kernels import Kernel
from omkl.core.protocol import register, register_as
from omkl.core.representations import experts, mixture_of_experts
from omkl.core.representations.experts import Experts
from omkl.core.representations.mixture_of_experts import (
    LOGISTIC_MIXTURE,
    MIXTURE_OF_EXPERTS,
    LogisticMixture,
    MixtureOfExperts,
)
from omkl.core.representations.random_features import blank
from omkl.core.representations.second_order import blank_recursive
from omkl.core.representations.softmax_mixture import (
    SOFTMAX_MIXTURE,
    SoftmaxMixture,
    fresh_softmax,
    learn_softmax,
)

N_LAGS = 2  # labels beside inputs
MOST_LAGS = 24
MOST_PRODUCTS = 64  # all of 10 inputs, squares with them
MOST_WHOLE = 256  # inputs: with more, linear experts have a matrix for every PART of their columns
PART = 127
MOST_RAW = 40  # with more inputs, waves have none beside them: the matrices would be theirs
LAM, LARGER_LAM = 0.01, 1.0
LINEAR_DECAY, WAVE_DECAY = 0.995, 0.998  # memories of 200 and 500 rounds for 3 and 50 features
CHANGES_DECAY = 0.98  # of 50 rounds
FARTHEST = 30.0  # of a Cauchy number: the waves of larger ones are noise
TINY = 1e-300

# Frequencies (n, D) of length 1 in n inputs.
Draw = Callable[[np.random.Generator, int, int], np.ndarray]


def normal(rng: np.random.Generator, n: int, D: int) -> np.ndarray:
    """In units of sqrt(n), the distance of two standardised rows."""
    return rng.standard_normal((n, D)) / math.sqrt(n)


def cauchy(rng: np.random.Generator, n: int, D: int) -> np.ndarray:
    """In units of n, the distance in absolute values."""
    return _clipped_cauchy(rng, (n, D)) / n


def _ones(rng: np.random.Generator, n: int, D: int, numbers: np.ndarray) -> np.ndarray:
    """D numbers, each for one of n inputs, all inputs in turn."""
    W = np.zeros((n, D))
    W[np.resize(rng.permutation(n), D), np.arange(D)] = numbers
    return W


def _some(
    rng: np.random.Generator, n: int, D: int, most: int, draw: Callable[[int], Any]
) -> np.ndarray:
    """Numbers for so many of n inputs, drawn anew D times."""
    W = np.zeros((n, D))
    for j in range(D):
        numbers = draw(min(n, most))
        W[rng.choice(n, len(numbers), replace=False), j] = numbers
    return W


def _clipped_cauchy(rng: np.random.Generator, size: int | tuple[int, int]) -> np.ndarray:
    return np.clip(rng.standard_cauchy(size), -FARTHEST, FARTHEST)


def single(rng: np.random.Generator, n: int, D: int) -> np.ndarray:
    """Of one input each: functions that are sums over the inputs."""
    return _ones(rng, n, D, rng.standard_normal(D))


def cauchy_single(rng: np.random.Generator, n: int, D: int) -> np.ndarray:
    return _ones(rng, n, D, _clipped_cauchy(rng, D))


def pairs(rng: np.random.Generator, n: int, D: int) -> np.ndarray:
    """Of two inputs each."""
    return _some(rng, n, D, 2, rng.standard_normal)


def cauchy_pairs(rng: np.random.Generator, n: int, D: int) -> np.ndarray:
    return _some(rng, n, D, 2, lambda k: _clipped_cauchy(rng, k))


def triples(rng: np.random.Generator, n: int, D: int) -> np.ndarray:
    """Of three inputs each."""
    return _some(rng, n, D, 3, rng.standard_normal)


class Columns(Enum):
    """What learners read. ``INPUTS`` and ``CHANGES`` are with labels where a group is lagged."""

    INPUTS = "inputs"
    PRODUCTS = "inputs and their products"
    CHANGES = "how columns changed; waves are of the inputs too"
    LABELS = "past labels"


class Group(NamedTuple):
    """Experts that differ in the length of their D waves alone; D = 0: linear ones.

    Those that read changes explain labels less the last one, others labels less their mean.
    """

    name: str
    lagged: bool  # past labels are inputs too
    decay: float = 1.0
    draw: Draw = normal
    D: int = 0
    lengths: tuple[float, ...] = (1.0,)
    lam: float = LAM
    reads: Columns = Columns.INPUTS
    uncut: bool = False  # inputs are read as they are, however far out


GROUPS: tuple[Group, ...] = (
    Group("linear", False, uncut=True),
    Group("linear, lags, fading", True, LINEAR_DECAY),
    Group("past labels", True, reads=Columns.LABELS),
    Group("products", False, lam=LARGER_LAM, reads=Columns.PRODUCTS),
    Group("changes", True, lam=LARGER_LAM, reads=Columns.CHANGES),
    Group("changes, fading", True, CHANGES_DECAY, lam=LARGER_LAM, reads=Columns.CHANGES),
    Group("gaussian, changes", True, 1.0, normal, 25, reads=Columns.CHANGES),
    Group("gaussian", False, 1.0, normal, 50, (1.0, 4.0), LARGER_LAM),
    Group("gaussian, lags", True, 1.0, normal, 25, (1.0, 4.0)),
    Group("gaussian, lags, fading", True, WAVE_DECAY, normal, 25, (4.0,)),
    Group("laplacian, lags", True, 1.0, cauchy, 25, (2.0, 8.0)),
    Group("single inputs, lags", True, 1.0, single, 25, (0.25, 1.0), LARGER_LAM),
    Group("single inputs, lags, fading", True, WAVE_DECAY, single, 25, (0.5,), LARGER_LAM),
    Group("single inputs, laplacian", False, 1.0, cauchy_single, 50, (1.0,)),
    Group("pairs, lags", True, 1.0, pairs, 25, (1.0, 2.0)),
    Group("pairs, laplacian", False, 1.0, cauchy_pairs, 50, (1.0, 2.0)),
)

MANY_WAVES: tuple[tuple[Draw, int], ...] = ((normal, 160), (triples, 120), (pairs, 120))


def named(groups: Sequence[Group]) -> Sequence[Kernel]:
    """The experts by name, and the length of their waves."""
    learners = [Kernel(group.name, length) for group in groups for length in group.lengths]
    return (Kernel("mean", 1.0), Kernel("last label", 1.0), *learners)


def _products(d: int, seed: int) -> np.ndarray:
    """Pairs (K, 2) of inputs, squares among them: all, or some drawn without regard to order."""
    n = d * (d + 1) // 2
    if n <= MOST_PRODUCTS:
        return np.column_stack(np.triu_indices(d))
    rng = np.random.default_rng([seed, crc32(b"which products")])
    drawn = rng.choice(n, MOST_PRODUCTS, replace=False)
    first = np.cumsum(np.arange(d, 0, -1)) - np.arange(d, 0, -1)  # pairs before those of an input
    left = np.searchsorted(first, drawn, side="right") - 1
    return np.column_stack([left, left + drawn - first[left]])


def _parts(n: int) -> list[int]:
    """How many columns are in each part of n: as many, and at most PART."""
    return [len(part) for part in np.array_split(np.arange(n), -(-n // PART))]


class _Layout(NamedTuple):
    """Where the columns of ``experts`` are, for a set of groups and d inputs."""

    d: int
    n_lags: int
    n_products: int

    def read(self, group: Group) -> tuple[np.ndarray, int]:
        """The columns that a group reads, and how many of them, the first ones, are not waves."""
        inputs = np.arange(self.d)
        changes = self.d + self.n_lags + np.arange(self.d + N_LAGS if group.lagged else self.d)
        products = self.d + self.n_lags + self.d + N_LAGS + np.arange(self.n_products)
        if group.reads is Columns.LABELS:
            columns = self.d + np.arange(self.n_lags)
        elif group.reads is Columns.PRODUCTS:
            columns = np.concatenate([inputs, products])
        elif group.reads is Columns.CHANGES:
            columns = changes
        else:
            columns = np.arange(self.d + N_LAGS if group.lagged else self.d)
        n_raw = len(columns) if len(columns) <= MOST_RAW or not group.D else 0
        if group.D and group.reads is Columns.CHANGES:
            columns = np.concatenate([changes, inputs])
        return columns, n_raw


def drawn(groups: Sequence[Group], d: int, seed: int) -> Experts:
    """Experts in d inputs that have learned nothing.

    A group has a generator of its own: what it draws does not depend on the other groups.
    """
    draws = {g.name: np.random.default_rng([seed, crc32(g.name.encode())]) for g in groups}
    learners = [(group, length) for group in groups for length in group.lengths]
    reads = {group.reads for group in groups}
    products = _products(d, seed) if Columns.PRODUCTS in reads else np.zeros((0, 2), dtype=np.int64)
    n_lags = MOST_LAGS if Columns.LABELS in reads else N_LAGS
    layout = _Layout(d, n_lags, len(products))
    columns, n_raw = zip(*(layout.read(group) for group, _ in learners), strict=True)
    n_waves = np.array([group.D for group, _ in learners])
    height = max(len(read) if D else 1 for read, D in zip(columns, n_waves, strict=True))
    padded = blank(len(learners), height, int(n_waves.max())).padded
    for i, (group, length) in enumerate(learners):
        n = len(columns[i])
        if group.D:
            padded[i, :n, : group.D] = group.draw(draws[group.name], n, group.D) / length
    split = [
        _parts(n) if not D and d > MOST_WHOLE else [n] for n, D in zip(n_raw, n_waves, strict=True)
    ]
    parts = len(learners) + np.cumsum([0, *(len(sizes) - 1 for sizes in split)])
    sizes = np.array([first for first, *_ in split] + [n for _, *more in split for n in more])
    # Many columns of norm sqrt(n) would begin with a variance z'P z that parts never work off.
    width = [sum(ns) + len(ns) if len(ns) > 1 else 1 for ns in split]
    prior = 1.0 / (np.array([group.lam for group, _ in learners]) * width)
    owners = np.repeat(np.arange(len(learners)), np.diff(parts))
    first = blank_recursive(
        padded, np.append(n_waves, n_waves[owners]), sizes, np.append(prior, prior[owners])
    )
    decay = np.array([group.decay for group, _ in learners])
    from_last = np.array([group.reads is Columns.CHANGES for group, _ in learners])
    return experts.fresh_experts(
        first, parts, decay, from_last, list(columns), products, (d, n_lags, N_LAGS),
        np.array([group.uncut for group, _ in learners]),
    )  # fmt: skip


def many_waves(d: int, seed: int) -> np.ndarray:
    """Frequencies (d, 400) of inputs, of all of them, of three and of two."""
    rng = np.random.default_rng([seed, crc32(b"many waves")])
    return np.hstack([draw(rng, d, D) for draw, D in MANY_WAVES])


def kernels_of_auto(params: Any, dictionary: Sequence[Kernel]) -> Sequence[Kernel]:
    later = ("neighbours", "linear, neighbours", "trees", "many waves")
    return (*named(GROUPS), *(Kernel(name, 1.0) for name in later))


def fresh_experts(
    params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int
) -> MixtureOfExperts:
    """Experts and mixtures that have learned nothing; D has no say."""
    return mixture_of_experts.fresh_mixture(drawn(GROUPS, d, seed), many_waves(d, seed))


@register_as(
    "auto",
    representation=MIXTURE_OF_EXPERTS._replace(
        fresh=fresh_experts, accepts_blanks=True, uses_D=False
    ),
    kernels=kernels_of_auto,
    deterministic=False,
    equivariant=True,
    reads_uncut=True,
)
class Auto:
    """Auto: experts of second order on standardised inputs and past targets, mixed twice.

    Paper    none. Experts: V. Vovk, "Competitive on-line statistics", International Statistical
             Review 69 (2001), K. S. Azoury and M. K. Warmuth, Machine Learning 43 (2001), on the
             features of Rahimi and Recht (NIPS 2007). Mixtures: ML-Poly of P. Gaillard, G. Stoltz,
             T. van Erven, "A second-order bound with excess losses", COLT 2014. Trees: J. H.
             Friedman, Annals of Statistics 29 (2001).
    Task     regression; full information; no parameters: dictionary and D do not matter.
    Round    1. Standardise every input by what was seen of it up to this row, and the last 24
                labels by the labels before, robustly (``omkl.core.robust_moments``); what is beyond
                4 counts as 4 + log(1 + |z| - 4). A missing input counts as its mean. The first
                linear expert reads inputs in units that are held; in a row with one beyond 4 it
                reads them as they are, not as above, where that had the lesser squared error in
                such rows so far, which fade by 0.98, and where it then predicts within three
                ranges of the labels seen.
                Further columns: the changes since the row before of inputs and of the last two
                labels, and 64 products of two inputs, all where there are no more.
             2. Experts: the mean of the labels; the last label; and forecasters of Vovk, Azoury and
                Warmuth of the labels less their mean, or less the last one, f = z'A^-1 b,
                ``GROUPS``: linear in some columns; or with sines and cosines of random frequencies
                beside these, normal ones, as of a Gaussian kernel, or Cauchy ones, as of a
                Laplacian, in all of the columns, in one of them or in two. lam = 0.01 or 1. In some
                the past fades, and the variance that this gives back has a ceiling, the prior's, as
                of ``ewrls``. Of more than 256 inputs a linear one has its columns in parts, as few
                as have 127 at most, each with a 1 and a matrix P_k of its own: f = theta'z; P_k
                begin as I / (lam F), F features in all; part k learns the error of f with noise
                1 + v - v_k, where v_k = z_k'P_k z_k and v is their sum.
                Two more: of the 10 nearest of the last 1,000 rows the mean label, weighted by
                1 / (q / d + 0.001)^2, where q is the squared distance of standardised inputs; and
                the linear one and its mean error there. And 100 boosted
                trees of 32 leaves on inputs and the last two labels as they are, of the last 32,768
                rows (fewer of more than 62 inputs), grown anew after 500 rows, 1.4 times as many
                and so on, and then every quarter of these; while they do not pay, up to 8 times as
                rarely. And a ridge regression, lam = 0.05, on 400 normal waves of the inputs, of
                all, of three and of two, beside inputs and two past labels (of more than 40 inputs
                on waves alone). It takes every row from row 513 on, with labels no farther than 10
                s from p, and one in 2 to 8 tiles of 32 rows while it does not pay; is solved anew
                after 1,024 of these, 1.25 times as many and so on, at the most every 2,048; and
                forgets them by one in 65,536. Before they know anything the experts of trees and of
                many waves say the mixture of the others. Experts go beyond the labels seen by no
                more than half of their range; the linear one, of inputs as they are, by three
                ranges and as theta'z in place of z'A^-1 b.
             3. p = sum w_i f_i, w_i proportional to max(R_i, 0) / V_i: R_i sums up r_i = 2 (p - y')
                (p - f_i), V_i sums up r_i^2, where rounds fade by 0.999; y' is y, or what is
                nearest to it within 3 s of p, where s^2 is the noise: the mean of p's squared
                errors in the rounds before, which fade by 0.99. In full, max(R_i, 0) is divided by
                V_i + 10^-6 max V; weights are equal where no R_i is positive; r_i is 0 where f_i
                and p differ by less than 10^-12 of p; mixtures learn from round 2 on.
             4. q = p + theta'(f - p, e), no less than the least f_i and no more than the largest; e
                is p's error in the round before, cut off as y' is; theta the mean of a normal
                posterior with prior N(0, 0.1 I) and with the noise, this round's error with it.
                There are two: the second forgets by 0.995. Neither learns while p never erred.
             5. m is the mixture, as in 3, of both q, p, the mean, the last label and the linear
                one. Other trees learn its errors, from the same columns and m: they say g, cut off
                at 3 s. Predict m + b g, where b in [0, 1] is the sum of e g over that of g^2, and
                three times s^2; e is m's error, cut off as in 3; rounds fade by 0.998. The spread
                is s.
             6. Learn y. A label is far out where it alone, without the one before it, is beyond 20
                deviations and 10 times as far from the mean as all labels so far. It is told to
                neighbours, trees and waves as 20 deviations, as is a last label from which others
                count (as a prediction, 100); it is as far as 3 s from p to s and the corrections;
                and moves a recursive expert by an error of at most 3 s sqrt(1 + z'P z). So does
                any label of a row with an input beyond 20 deviations, but where inputs are read
                as they are.
    Symbols  none
    Cost     O(N D^2 + N D d + d m) time per round for N = 28 experts, D = 50 and m = d inputs, of
             more than 256 m = 127; O(F^2 + F d) for F = 800 features of many waves, and O(M L d) on
             average for M = 200 trees of depth L, 5 to 10 or so, in d up to 32. A round in which
             trees grow takes longer, O(M L d W) for W rows, some tenths of a second, and one of a
             solution O(F^3). Memory O(N D^2 + N d (D + m) + F^2 + d W), 1,000 d of it for
             neighbours.
    Bound    none. Without fading, and where no error is cut off, a mixture's regret against the
             best fixed one would be O(sqrt(N T ln T)), as of ``ml_poly``; rounds fade here, and
             with a memory of 1,000 rounds it may grow with T.
    Differs  no paper.

    The labels 0, 1, .., 9 again and again, and no input that says anything; the next one is 9:

    >>> import numpy as np
    >>> from omkl import algorithms
    >>> from omkl.core.learner import Learner
    >>> auto = algorithms.load("auto")
    >>> learner = Learner(auto, auto.Params(), (), d=1, D=1, seed=0)
    >>> y = np.arange(200.0) % 10
    >>> round(float(learner.partial_fit(np.zeros((200, 1)), y).y_hat[-1]), 1)
    8.8
    """

    class Params(NamedTuple):
        pass

    class State(NamedTuple):
        model: MixtureOfExperts
        log_w: np.ndarray  # (28,) of the experts' weights in p, those of 0 as TINY

    select = select_all

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: MixtureOfExperts) -> Auto.State:
        return Auto.State(model, np.zeros(model.n_kernels))

    @staticmethod
    def predict(params, state, t, selection):
        return selection.scratch.y_hat[0], True

    @staticmethod
    def variance(params, state, t, selection):
        """The mean of p's squared errors in about 100 rounds; not known (NaN) before the first."""
        noise = state.model.noise
        return noise[0] / noise[1] if noise[1] > 0.0 else math.nan

    @staticmethod
    def update(params, state, t, y, selection):
        mixture_of_experts.learn_mixture(state.model, selection.scratch, selection.f, y, t)
        for i in range(state.log_w.shape[0]):
            state.log_w[i] = math.log(max(state.model.regrets.w[i], TINY))


WAVE_VARIANCE = 30.0  # of a coefficient of a wave before the first label: 10 to 100 do as well
CLASSIFIER_LINEAR_DECAY, CLASSIFIER_WAVE_DECAY = 0.98, 0.996  # memories of 50 and 250 rounds

CLASSIFIER_GROUPS = tuple(
    group._replace(lam=1.0 / WAVE_VARIANCE)
    for group in (
        Group("linear", False, lengths=(3.0, 1.0)),
        Group("linear, lags, fading", True, CLASSIFIER_LINEAR_DECAY),
        Group("gaussian", False, 1.0, normal, 50, (0.5, 1.0)),
        Group("gaussian, fading", False, CLASSIFIER_WAVE_DECAY, normal, 25, (1.0,)),
        Group("laplacian", False, 1.0, cauchy, 50, (1.0,)),
        Group("single inputs", False, 1.0, single, 25, (0.25, 0.5)),
        Group("pairs", False, 1.0, pairs, 50, (1.0,)),
    )
)


# Of more than two classes; past labels are no inputs: classes have no order.
SOFTMAX_GROUPS = tuple(
    group._replace(name="linear, fading", lagged=False) if group.lagged else group
    for group in CLASSIFIER_GROUPS
)


def kernels_of_classifier(params: Any, dictionary: Sequence[Kernel]) -> Sequence[Kernel]:
    return (*named(CLASSIFIER_GROUPS), Kernel("trees", 1.0))


def kernels_of_several(params: Any, dictionary: Sequence[Kernel]) -> Sequence[Kernel]:
    return (*named(SOFTMAX_GROUPS), Kernel("trees", 1.0))


def fresh_classifiers(
    params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int
) -> LogisticMixture:
    """Experts and mixtures that have learned nothing; D has no say."""
    return mixture_of_experts.fresh_logistic(_classifiers(CLASSIFIER_GROUPS, d, seed))


def fresh_softmax_classifiers(
    params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int
) -> SoftmaxMixture:
    """The same for ``n_classes`` together."""
    return fresh_softmax(_classifiers(SOFTMAX_GROUPS, d, seed), params.n_classes)


def _classifiers(groups: Sequence[Group], d: int, seed: int) -> Experts:
    experts = drawn(groups, d, seed)
    first = experts.first
    for i, length in enumerate(length for group in groups for length in group.lengths):
        start = 2 * first.n_waves[i]
        places = [i, *range(*experts.parts[i : i + 2])]
        first.diagonal[places, start:] = 1.0 if start else length**-2
        if not start:
            first.ceiling[places] = length**-2
    return experts


class Together:
    """``AutoClassifier`` of K > 2 classes, see there."""

    class Params(NamedTuple):
        n_classes: COUNT

    class State(NamedTuple):
        model: SoftmaxMixture
        log_w: np.ndarray  # (13,) of the experts' weights in p
        updates: np.ndarray  # (13,) rounds from which an expert learned: all of them

    select = select_all

    @staticmethod
    def predict(params, state, t, selection):
        return selection.scratch.y_hat, True

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: SoftmaxMixture) -> Together.State:
        return Together.State(model, np.log(model.w), np.zeros(model.n_kernels))

    @staticmethod
    def update(params, state, t, y, selection):
        learn_softmax(state.model, selection.scratch, y)
        for i in range(state.log_w.shape[0]):
            state.log_w[i] = math.log(state.model.w[i])
            state.updates[i] += 1.0


together = register(
    __name__,
    definition=Together,
    representation=SOFTMAX_MIXTURE._replace(
        fresh=fresh_softmax_classifiers, accepts_blanks=True, uses_D=False
    ),
    task="classification",
    kernels=kernels_of_several,
    deterministic=False,
    probabilities=True,
)._replace(name="auto_classifier")


@register_as(
    "auto_classifier",
    representation=LOGISTIC_MIXTURE._replace(
        fresh=fresh_classifiers, accepts_blanks=True, uses_D=False
    ),
    task="classification",
    kernels=kernels_of_classifier,
    deterministic=False,
    reads_uncut=True,
    probabilities=True,
    of_classes=together,
)
class AutoClassifier:
    """Auto for classes: logistic experts of second order on standardised inputs, mixed twice.

    Paper    none. Experts: the posterior of a logistic regression, approximated by a normal one
             round after round as in D. J. C. MacKay, Neural Computation 4 (1992), and D. J.
             Spiegelhalter and S. L. Lauritzen, Networks 20 (1990). Mixtures: fixed share, M.
             Herbster and M. K. Warmuth, Machine Learning 32 (1998). Counts: R. E. Krichevsky and V.
             K. Trofimov, IEEE Transactions on Information Theory 27 (1981). Trees as of ``auto``.
    Task     classification; full information; no parameters: dictionary and D do not matter.
    Round    1. Inputs and the last two labels are standardised as of ``auto``.
             2. Experts say a logit l_i, no farther from 0 than 8, of the label +1: one from the
                counts n of both classes, log((n+ + 1/2) / (n- + 1/2)); one from the counts of those
                after the last label; and logistic ones, m / sqrt(1 + pi v / 8) with m = theta'z, v
                = z'P z. They are linear in the inputs, or in inputs and labels, with a prior
                deviation 1 / length of coefficients; or have sines and cosines beside these, as of
                ``auto``, with prior variance 30, and 1 for the rest. In some the past fades. Of
                more than 256 inputs linear ones have parts as of ``auto``, with noise r + v - v_k,
                but the prior as it is. The
                last expert is 100 boosted trees of the labels, grown as of ``auto``, in inputs and
                the last two labels as they are, but of 64 leaves, by log loss and on all rows of
                the window: their sum is the logit l. Before they are grown they say the mixture of
                the others, so that their weight stays what it was. They pay where their weight is
                above 0.05, or |theta| of them in step 4 above 0.2.
             3. Mix them: f_i = tanh(l_i / 2), p = sum w_i f_i, l = log((1 + p) / (1 - p)).
             4. Correct that: m = l + theta'z, z = (l_1 - l, .., l_N - l, l, 1), with prior variance
                0.3 of theta; q = tanh(m / (2 sqrt(1 + pi v / 8))), the logit cut off at 12.
             5. Predict y_hat = sum u_k g_k, g = (q, p, and f of the counts, of those after the last
                label, of the first linear expert). (1 + y_hat) / 2 is the probability of +1. A
                mistake where y_t y_hat is not positive.
             6. Logistic ones learn: b = y m + v s for s = 1 / (1 + e^b); theta <- theta + P z y s;
                P <- (P - P z z'P / (v + r)) / decay, r = 2 + 2 cosh b = 1 / (s (1 - s)).
             7. w_i <- w_i (1 + y f_i) / 2, scaled to sum 1, then 0.999 w_i + 0.001 / N; u so with
                g.
             Of K > 2 classes an expert has one P and K theta_k; past labels are no inputs.
             2. Experts say probabilities p_ik: (n_k + 1/2) / (n + K/2) of counts; (c_k + p_1k) /
                (c + 1) of the counts c_k of classes after the last one; and the softmax of
                theta_k'z / sqrt(1 + pi v / 4), 0.999 of it and 0.001 / K. Of up to 32 classes
                trees are the last expert: those of class k, min(100, max(20, 200 / K)), add up
                to its logit; p_ik is 0.999 of their softmax and 0.001 / K. A leaf counts 0.1, or
                10 over the number of trees where that is more.
             3. Mix them: p_k = sum w_i p_ik.
             4. Correct that: m_k = log p_k + theta'z_k, z_k = (log p_1k - log p_k, .., log p_Nk -
                log p_k, log p_k), theta and its P shared by the classes, prior variance 0.3; q is
                the softmax of m, 0.99999 of it and 0.00001 / K.
             5. Predict 2 p_k - 1 of the mixture by u of q, p, and p_i as above: p_k sum to 1.
             6. theta_k <- theta_k + s P z g_k with g_k = [y = k] - p_k of the experts' own softmax
                of theta_k'z; s in [0, 1] makes log p_y - s^2 v sum g_k^2 / 2 largest; P as above
                with 1 / r = 0.4 Var(g) / sum g_k^2, the variance by the probabilities after s.
                The correction so along P g, g = z_y - sum p_k z_k, and 1 / r = Var(z_k'P g) /
                (g'P g)^2.
             7. w_i <- w_i p_iy, u so, and shares as above.
    Symbols  none
    Cost     O(N D^2 + N D d + d m) time per round for N = 13 experts and D = 50, m and trees as of
             ``auto``; memory O(N D^2 + N d (D + m) + d W). Of K > 2 classes O(N K (D + d)) more of
             both.
    Bound    none for the whole; the log loss of the mixture is at most that of one expert and
             log N + T / 1000 or so.
    Differs  no paper.

    >>> from omkl import algorithms
    >>> from omkl.checks import learners
    >>> X, y = learners.Case("auto_classifier").stream(2000)
    >>> y_hat = learners.Case("auto_classifier").learner().partial_fit(X, y).y_hat
    >>> int((y * y_hat <= 0.0).sum())
    16
    """

    class Params(NamedTuple):
        pass

    class State(NamedTuple):
        model: LogisticMixture
        log_w: np.ndarray  # (13,) of the experts' weights in p
        updates: np.ndarray  # (13,) rounds from which an expert learned: all of them

    select, predict = select_all, Auto.predict

    @staticmethod
    def init(
        params: Any, dictionary: Sequence[Kernel], model: LogisticMixture
    ) -> AutoClassifier.State:
        return AutoClassifier.State(model, np.log(model.w), np.zeros(model.n_kernels))

    @staticmethod
    def update(params, state, t, y, selection):
        mixture_of_experts.learn_logistic(state.model, selection.scratch, selection.f, y)
        for i in range(state.log_w.shape[0]):
            state.log_w[i] = math.log(state.model.w[i])
            state.updates[i] += 1.0
