"""Learners without a step size: experts of second order on standardised inputs, mixed twice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from omkl.algorithms.auto_experts import Group, drawn, many_waves
from omkl.algorithms.auto_sizes import FULL, SIZES, class_sizes, expert_names, regression_sizes
from omkl.algorithms.parts import select_all
from omkl.core.hyperparameters import COUNT
from omkl.core.kernels import Kernel
from omkl.core.protocol import register, register_as
from omkl.core.representations import mixture_of_experts
from omkl.core.representations.experts import Experts
from omkl.core.representations.mixture_of_experts import MIXTURE_OF_EXPERTS, MixtureOfExperts
from omkl.core.representations.softmax_mixture import (
    SOFTMAX_MIXTURE,
    SoftmaxMixture,
    fresh_softmax,
    learn_softmax,
)


def kernels_of_auto(params: Any, dictionary: Sequence[Kernel], d: int) -> Sequence[Kernel]:
    return expert_names(regression_sizes(params.size, d))


def fresh_experts(
    params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int
) -> MixtureOfExperts:
    """Make the experts and mixtures of ``auto`` for regression, as they are before the first row.

    Parameters
    ----------
    params
        Params with ``size``.
    kernels, D
        Not used.
    d
        Number of inputs.
    seed
        Seed of the random frequencies.
    """
    sizes = regression_sizes(params.size, d)
    return mixture_of_experts.fresh_mixture(
        drawn(sizes.groups, d, seed), many_waves(d, seed, sizes.waves), sizes.n_trees,
        sizes.n_rows, sizes.n_stored,
    )  # fmt: skip


@register_as(
    "auto",
    representation=MIXTURE_OF_EXPERTS._replace(
        fresh=fresh_experts, accepts_blanks=True, uses_D=False
    ),
    kernels=kernels_of_auto,
    deterministic=False,
    equivariant=True,
    standardises=True,
)
class Auto:
    """Auto: experts of second order on standardised inputs and past targets, mixed twice.

    Paper    none. Experts: V. Vovk, "Competitive on-line statistics", International Statistical
             Review 69 (2001), K. S. Azoury and M. K. Warmuth, Machine Learning 43 (2001), on the
             features of Rahimi and Recht (NIPS 2007). Mixtures: ML-Poly of P. Gaillard, G. Stoltz,
             T. van Erven, "A second-order bound with excess losses", COLT 2014. Trees: J. H.
             Friedman, Annals of Statistics 29 (2001).
    Task     regression; full information; dictionary and D do not matter.
    Round    1. Standardise the d inputs and the last 24 targets by robust running estimates of
                location and scale (``omkl.core.robust_moments``). The estimates of an input include
                this row. A result z with |z| > 4 becomes sign(z) (4 + log(1 + |z| - 4)). A missing
                input counts as its mean, 0. Further columns are the changes of the inputs and of
                the last two targets since the previous row, and at most 64 products of two inputs.
             2. Evaluate N = 28 experts f_i:
                - The mean of the targets, and the last target.
                - 22 recursive ridge regressions (``GROUPS``). Each uses the forecast of Vovk,
                  Azoury and Warmuth, f = c + z'A^-1 b with A = lam I + sum_{s<=t} z_s z_s' and lam
                  = 0.01 or 1. Features z are some of the columns and the constant 1. b is the
                  sum of z_s (y_s - c). Experts that read changes have the last target as c,
                  other experts the mean of the targets. 16 of the experts also have the sines and
                  cosines of D = 25 or 50 random frequencies of their columns. If there are more
                  than 40 columns, these 16 experts have only sines and cosines. Frequencies are
                  normal (Gaussian kernel) or Cauchy (Laplacian kernel) numbers for all columns, for
                  one, or for two of them. In four experts old rows fade: A and b are multiplied by
                  0.98 to 0.998 per row. A ceiling keeps every variance at or below its prior, as in
                  ``ewrls``.
                - The mean target of the 10 nearest of the last 1,000 rows. A row at squared
                  distance q of the standardised inputs has the weight 1 / (q / d + 0.001)^2.
                - The linear expert of the inputs plus its mean error in these 10 rows.
                - 100 boosted trees of at most 32 leaves on the raw inputs and the last two targets,
                  grown on the last 32,768 rows (fewer with more than 62 inputs). They are grown
                  after 500 rows, again when there are 1.4 times as many rows, and later after every
                  quarter of the window. These trees are in use if their weight exceeds 0.1, and the
                  trees of step 5 if b exceeds 0.1. While neither ensemble is in use, the wait is up
                  to 8 times as long. While only one is in use, the other is grown every fourth
                  time. Half of the bins of a column lie around the cuts of the previous trees.
                  Growth takes many rows: in each row of the stream, the bins of one column are made
                  or one tree is grown, or several if the window has few rows. The old trees predict
                  until all new ones are complete. If two cuts are equally good, a column with only
                  two values is preferred.
                - A ridge regression with lam = 0.05 on the sines and cosines of 400 normal
                  frequencies: 160 of all inputs, 120 of three inputs and 120 of two. With at most
                  40 inputs, the inputs and two past targets are features too. It learns from row
                  513 on, in tiles of 32 rows. Targets are clipped to a distance of 10 s from p (s
                  and p of step 3). It is solved after 1,024 rows, then after 1.25 times as many,
                  and at least every 2,048 rows. Old rows fade by 1 / 65,536 per row. While its
                  weight is 0 it learns only one tile in 2 to 8.
                Until they are first fitted, the trees and this last regression predict the mixture
                of the other experts. Each f_i is clipped to the range of the targets so far,
                extended by half of it on both sides.
             3. Mix: p = sum w_i f_i with w_i proportional to max(R_i, 0) / (V_i + 10^-6 max V). R_i
                is the sum of r_i = 2 (p - y') (p - f_i) and V_i the sum of r_i^2 over past rows,
                which fade by 0.999 per row. y' is y clipped to a distance of 3 s from p. s^2 is the
                mean squared error of p over past rows, which fade by 0.99. r_i is 0 if |p - f_i| <=
                10^-12 |p|. If no R_i is positive, all weights are equal.
             4. Correct: q = p + theta'(f - p, e), clipped to the range of the f_i. e is the error
                of p in the previous row, clipped to 3 s. theta is the posterior mean of a Bayesian
                linear regression of the errors of p, with prior N(0, 0.1 I). The variance of its
                noise is s^2, which already includes the error of this row. There are two such q; in
                one of them old rows fade by 0.995. They learn once p has had an error.
             5. Mix again: m is the mixture, as in 3, of both q, p, the mean, the last target and
                the linear expert. A second ensemble of 100 trees predicts the error e of m from the
                same columns and m. Both e and the prediction g are clipped to 3 s. Predict m + b g,
                clipped to the range of the targets extended by three ranges, with b = sum e g /
                (sum g^2 + 3 s^2) clipped to [0, 1] and sums that fade by 0.998. The predictive
                standard deviation is s.
             6. Learn y. The mixtures learn from the second row on. Single outlying values have a
                limited influence:
                - A target is an outlier if it is farther than 20 deviations from the mean, and 10
                  times as far as every earlier target. If the previous target is as far on the same
                  side, it is a new level and no outlier. Neighbours, trees and the 400 frequencies
                  learn an outlier as a target at 20 deviations. As a past target it also counts as
                  20 deviations. The expert that predicts the last target clips it at 100
                  deviations. s and theta learn it as 3 s from p.
                - In a row with an outlier or with an input beyond 20 deviations, the error that a
                  recursive ridge regression learns is clipped to 3 s sqrt(1 + z'P z), where P is
                  A^-1 before the row.
                - The linear expert of the inputs uses units that stay constant until a column has
                  changed. If an input is beyond 4 deviations, this expert has two predictions: one
                  from inputs compressed as in 1, and one, c + theta'z, from uncompressed inputs. It
                  uses the second one if two conditions hold: its sum of squared errors in such
                  rows, which fades by 0.98, is smaller, and it lies within three ranges of the
                  targets. Neither this prediction nor its error is clipped.
             With more than 256 inputs, the columns of a linear expert are divided into as few parts
             as possible of at most 127 columns. Each part has its own constant 1 and matrix P_k, at
             first I / (lam F) for F features of all parts. The expert predicts c + theta'z. Part k
             learns the error with noise 1 + v - v_k, where v_k = z_k'P_k z_k and v is the sum of
             the v_k.
    Symbols  size  small, medium or full: which of the experts there are
             (``omkl.algorithms.auto_sizes``), with how many waves, trees and stored rows. The round
             above is that of full
    Cost     O(N D^2 + N D d + d m + F^2 + F d + M L d) time per round. Experts have D = 50 and m =
             d, or m = 127 with more than 256 inputs. The 400 frequencies give F = 800 features. The
             M = 200 trees have a depth L of about 5 to 10. The d in M L d is at most 32.
             A row in which a tree grows takes O(L d W) for W rows, some milliseconds. A row in
             which the ridge regression is solved takes O(F^3). O(N D^2 + N d (D + m) + F^2 + d W)
             memory, of which neighbours take 1,000 d.
    Bound    none. Without fading and clipping the regret of a mixture against the best fixed one
             is O(sqrt(N T ln T)), as in ``ml_poly``. Here rows fade with a memory of 1,000, and the
             regret may grow with T.
    Differs  no paper.

    The targets are 0, 1, .., 9 again and again, and the input is constant. The next target is 9:

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
        size: Annotated[int, SIZES] = FULL

    class State(NamedTuple):
        model: MixtureOfExperts
        log_w: np.ndarray  # (N,) logarithms of the experts' weights in p; TINY stands for 0

    select = select_all

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: MixtureOfExperts) -> Auto.State:
        return Auto.State(model, np.zeros(model.n_kernels))

    @staticmethod
    def predict(params, state, t, selection):
        return selection.scratch.y_hat[0], True

    @staticmethod
    def variance(params, state, t, selection):
        """Return s^2, the mean squared error of p over about 100 rows; NaN before the first error.

        Parameters
        ----------
        params, state, t, selection
            As in ``omkl.core.protocol.variance``.
        """
        noise = state.model.noise
        return noise[0] / noise[1] if noise[0] > 0.0 else math.nan

    update = staticmethod(mixture_of_experts.learn_mixture)


def kernels_of_classifier(params: Any, dictionary: Sequence[Kernel], d: int) -> Sequence[Kernel]:
    return expert_names(class_sizes(params.size, d, n_classes(params)))


def n_classes(params: Any) -> int:
    return getattr(params, "n_classes", 2)


def fresh_classifiers(
    params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int
) -> SoftmaxMixture:
    """Make the experts and mixtures of ``auto_classifier``, as they are before the first row.

    Parameters
    ----------
    params
        Params with ``size``, and ``n_classes`` if there are more than two classes.
    kernels, D
        Not used.
    d
        Number of inputs.
    seed
        Seed of the random frequencies.
    """
    K = n_classes(params)
    sizes = class_sizes(params.size, d, K)
    return fresh_softmax(classifiers(sizes.groups, d, seed, K), K, sizes.n_trees, sizes.n_rows)


def classifiers(groups: Sequence[Group], d: int, seed: int, K: int) -> Experts:
    """Return the logistic experts before the first row, with prior variances for K classes.

    A logit depends on the difference between the outputs of K classes. Prior variances are
    therefore multiplied by 1 - 1 / K.

    Parameters
    ----------
    groups
        Groups of experts.
    d
        Number of inputs.
    seed
        Seed of the random frequencies.
    K
        Number of classes, >= 2.
    """
    experts = drawn(groups, d, seed)
    first = experts.first
    for i, length in enumerate(length for group in groups for length in group.lengths):
        start = 2 * first.n_waves[i]
        places = [i, *range(*experts.parts[i : i + 2])]
        first.diagonal[places, start:] = 1.0 if start else length**-2
        if not start:
            first.ceiling[places] = length**-2
    first.diagonal[:] *= 1.0 - 1.0 / K
    first.ceiling[:] *= 1.0 - 1.0 / K
    return experts


CLASSIFIERS = SOFTMAX_MIXTURE._replace(fresh=fresh_classifiers, accepts_blanks=True, uses_D=False)


class Together:
    """Variant of ``AutoClassifier`` for K > 2 classes: one learner predicts all K probabilities."""

    class Params(NamedTuple):
        n_classes: COUNT
        size: Annotated[int, SIZES] = FULL

    class State(NamedTuple):
        model: SoftmaxMixture
        log_w: np.ndarray  # (N,) logarithms of the experts' weights in p
        updates: np.ndarray  # (N,) rounds from which an expert learned: all of them

    select = select_all

    @staticmethod
    def predict(params, state, t, selection):
        return selection.scratch.y_hat, True

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: SoftmaxMixture) -> Together.State:
        return Together.State(model, np.log(model.w), np.zeros(model.n_kernels))

    @staticmethod
    def update(params, state, t, y, selection):
        learn_softmax(state, selection.scratch, y)


together = register(
    __name__,
    definition=Together,
    representation=CLASSIFIERS,
    task="classification",
    kernels=kernels_of_classifier,
    deterministic=False,
    probabilities=True,
)._replace(name="auto_classifier")


@register_as(
    "auto_classifier",
    representation=CLASSIFIERS,
    task="classification",
    kernels=kernels_of_classifier,
    deterministic=False,
    standardises=True,
    probabilities=True,
    of_classes=together,
)
class AutoClassifier:
    """Auto for classes: logistic experts of second order on standardised inputs, mixed twice.

    Paper    none. Experts: the posterior of a logistic regression, approximated by a normal one
             round after round as in D. J. C. MacKay, Neural Computation 4 (1992), and D. J.
             Spiegelhalter and S. L. Lauritzen, Networks 20 (1990). Mixtures: fixed share, M.
             Herbster and M. K. Warmuth, Machine Learning 32 (1998). Counts: R. E. Krichevsky and V.
             K. Trofimov, IEEE Transactions on Information Theory 27 (1981). Trees as in ``auto``.
    Task     classification; full information; dictionary and D do not matter.
    Round    1. Standardise the inputs and the last two targets as ``auto`` does. Targets are the
                numbers 0, .., K - 1 of the classes. If there are two, the target -1 counts as 0.
             2. Evaluate N = 13 experts. Expert i gives probabilities p_ik of the classes:
                - (n_k + 1/2) / (n + K/2), where n_k of the n rows so far had class k. A second
                  expert counts only those rows that followed a row of the most recent class.
                - Ten logistic regressions, each with one matrix P and K vectors theta_k. p_ik is
                  0.9997 times the softmax of theta_k'z / sqrt(1 + pi v / 4), where v = z'P z, plus
                  0.0003 / K. Some of the ten are linear in the inputs, or in inputs and past
                  targets, with the prior variance 1 / length^2. The others also have sines and
                  cosines of random frequencies, as in ``auto``, with the prior variance 30. Their
                  other features have the prior variance 1. All prior variances are multiplied by
                  1 - 1 / K. In some experts old rows fade.
                - Boosted trees, grown as in ``auto``, but with at most 64 leaves and log loss. With
                  at most 32 classes there are min(100, max(20, 200 / K)) trees for each class.
                  Their sums are the logits of a softmax, mixed with 0.0003 / K as above. If there
                  are two classes, only the second has trees. A leaf is multiplied by max(0.1, 10 /
                  number of trees). Until the trees are grown, this expert predicts the mixture of
                  the other experts. The trees are in use if their weight is above 0.05, or their
                  |theta| in step 4 above 0.2.
             3. Mix: p_k = sum w_i p_ik.
             4. Correct: m_k = log p_k + theta'z_k with z_k = (log p_1k - log p_k, .., log p_Nk -
                log p_k, log p_k). theta and its covariance P are shared by the classes. The prior
                variance is 0.3. q is 0.99999 times the softmax of m, plus 0.00001 / K.
             5. Predict 2 p_k - 1 for every class k, with p = sum u_j g_j. If there are two classes,
                predict this number for the second class, +1. The g_j are q, the mixture of step 3,
                and three experts: the two with counts, and the first linear one. A row counts as a
                mistake if a class other than its target has the largest p_k.
             6. Update the logistic regressions: theta_k <- theta_k + s P z g_k with g_k = [y = k] -
                p_k, where p_k is the softmax of theta_k'z of this expert. s in [0, 1] maximises log
                p_y - s^2 v sum g_k^2 / 2. P <- (P - P z z'P / (v + r)) / decay with 1 / r =
                max(0.4, 2 / K) Var(g) / sum g_k^2. Var is the variance over the classes by their
                probabilities after the step. The correction moves in the same way along P g with g
                = z_y - sum p_k z_k and 1 / r = Var(z_k'P g) / (g'P g)^2.
             7. w_i <- w_i p_iy, scaled to sum 1; then w_i <- 0.999 w_i + 0.001 / N. The u_j of step
                5 follow the same rule with g_jy in place of p_iy.
             With more than 256 inputs linear experts have their columns in parts, as in ``auto``,
             with noise r + v - v_k and the prior as above.
    Symbols  size  as in ``auto``
    Cost     O(N D^2 + N D d + N K (D + d) + d m + M L d) time per round for N = 13 experts and
             D = 50, m as in ``auto`` and M trees; O(N D^2 + N d (D + m) + N K (D + d) + d W)
             memory.
    Bound    none for the whole. The log loss of the mixture exceeds that of any one expert by at
             most about log N + T / 1000.
    Differs  no paper.

    >>> from omkl import algorithms
    >>> from omkl.checks import learners
    >>> X, y = learners.Case("auto_classifier").stream(2000)
    >>> y_hat = learners.Case("auto_classifier").learner().partial_fit(X, y).y_hat
    >>> int((y * y_hat <= 0.0).sum())
    15
    """

    class Params(NamedTuple):
        size: Annotated[int, SIZES] = FULL

    State, init, select = Together.State, Together.init, select_all

    @staticmethod
    def predict(params, state, t, selection):
        return selection.scratch.y_hat[1], True

    @staticmethod
    def update(params, state, t, y, selection):
        learn_softmax(state, selection.scratch, 1.0 if y > 0.0 else 0.0)
