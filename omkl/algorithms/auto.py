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
from omkl.core.representations.mixture_of_experts import (
    MIXTURE_OF_EXPERTS,
    MixtureOfExperts,
)
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
    """Make experts and mixtures before the first row.

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
    Round    1. Standardise the d inputs and the last 24 labels by robust running estimates of
                location and scale (``omkl.core.robust_moments``). Those of an input include this
                row. z with |z| > 4 becomes sign(z) (4 + log(1 + |z| - 4)). A missing input is 0,
                its mean. Further columns are the changes of the inputs and of the last two labels
                since the row before, and 64 products of two inputs (all, where there are fewer).
             2. Evaluate N = 28 experts f_i:
                - The mean of the labels, and the last label.
                - 22 recursive ridge regressions (``GROUPS``), each the forecaster of Vovk, Azoury
                  and Warmuth, f = c + z'A^-1 b with A = lam I + sum_{s<=t} z_s z_s' and lam = 0.01
                  or 1. They explain the label less its mean (c is the mean), or less the last label
                  where z holds changes (c is the last label). z is some of the columns and 1. In 16
                  it has the sines and cosines of D = 25 or 50 random frequencies as well, and only
                  these where it reads more than 40 columns. Frequencies are normal (Gaussian
                  kernel) or Cauchy (Laplacian kernel), of all columns, of one or of two. Four
                  experts forget: A and b fade by 0.98 to 0.998 per row, and no variance exceeds
                  that of the prior, as in ``ewrls``.
                - The mean label of the 10 nearest of the last 1,000 rows, weighted by
                  1 / (q / d + 0.001)^2, q the squared distance of standardised inputs.
                - The linear expert in the inputs plus its mean error in these 10 rows.
                - 100 boosted trees of at most 32 leaves on the raw inputs and the last two labels
                  of the last 32,768 rows (fewer with more than 62 inputs). They begin to grow after
                  500 rows, again when there are 1.4 times as many rows, and later after every
                  quarter of the window; up to 8 times as rarely while their weight is at
                  most 0.1 and b (see 5) at most 0.1. While one of both is larger, the trees of the
                  other are regrown every fourth time. Half of the bins of a column lie around the
                  cuts of the trees before. A round bins one column or grows one tree, more of them
                  while the window has fewer than 65,536 rows; new trees are used once all have
                  grown.
                - A ridge regression, lam = 0.05, on the sines and cosines of 400 normal frequencies
                  of all inputs, of three and of two. With at most 40 inputs it has these and two
                  past labels as well. It learns from row 513 on, in tiles of 32 rows, labels within
                  10 s of p (see 3). It is solved after 1,024 rows, then after 1.25 times as many,
                  at least every 2,048, and rows fade by 1 / 65,536. While it has no weight it takes
                  one tile in 2 to 8.
                The last two predict the mixture of the others until they are first fitted. Each f_i
                is clipped to the range of the labels so far, extended by half of it on both sides.
             3. Mix: p = sum w_i f_i with w_i proportional to max(R_i, 0) / (V_i + 10^-6 max V).
                R_i and V_i sum r_i and r_i^2, r_i = 2 (p - y') (p - f_i), and fade by 0.999. y' is
                y clipped to within 3 s of p. s^2 is the mean squared error of p in the rows before,
                which fade by 0.99. r_i is 0 where |p - f_i| <= 10^-12 |p|. Weights are equal where
                no R_i is positive.
             4. Correct: q = p + theta'(f - p, e), clipped to the range of the f_i. e is p's error
                in the row before, clipped to 3 s. theta is the posterior mean of a Bayesian
                linear regression of the errors of p, with prior N(0, 0.1 I) and the noise s^2 after
                the row. There are two such q; one forgets by 0.995. They learn once p has erred.
             5. Mix again: m is the mixture, as in 3, of both q, p, the mean, the last label and the
                linear expert. Another 100 trees on the same columns and m predict the error e of m,
                clipped to 3 s: their prediction g is clipped so too. Predict m + b g, clipped to
                three ranges of the labels beyond them, with b = sum e g / (sum g^2 + 3 s^2) clipped
                to [0, 1] and sums that fade by 0.998. The predictive standard deviation is s.
             6. Learn y. Mixtures learn from the second row on. Single values far out are bounded:
                - A label is an outlier where it is beyond 20 deviations and 10 times as far from
                  the mean as all labels before, and the label before it is not so far out on the
                  same side. Neighbours, trees and the 400 frequencies learn it as 20 deviations. As
                  a last label it counts as 20 too, as a prediction of the next one as 100. s and
                  theta learn it as 3 s from p.
                - With such a label, or an input beyond 20 deviations, the error that a recursive
                  ridge regression learns is clipped to 3 s sqrt(1 + z'P z), P = A^-1 before the
                  row.
                - The linear expert in the inputs keeps their location and scale until a column has
                  moved, and has two readings of a row with an input beyond 4: compressed as in 1,
                  and as it is. The second is taken where it had the lesser squared error in such
                  rows, the sums fading by 0.98, and predicts c + theta'z within three ranges of the
                  labels. Then neither its prediction nor its error is clipped.
             With more than 256 inputs a linear expert has its columns in as few parts as have 127
             at most, each with a 1 and a matrix P_k, I / (lam F) at first for F features in all.
             It predicts c + theta'z; part k learns the error with noise 1 + v - v_k, where
             v_k = z_k'P_k z_k and v is their sum.
    Symbols  size  small, medium or full: which of the experts there are
             (``omkl.algorithms.auto_sizes``), with how many waves, trees and stored rows. The round
             above is that of full
    Cost     O(N D^2 + N D d + d m + F^2 + F d + M L d) time per round. Experts have D = 50 and m =
             d, or m = 127 with more than 256 inputs; the 400 frequencies F = 800 features; the M =
             200 trees depth L, about 5 to 10, and at most 32 for d. A row in which a
             tree grows takes O(L d W) for W rows, some milliseconds; one in which the 400 are
             solved takes O(F^3). O(N D^2 + N d (D + m) + F^2 + d W) memory, 1,000 d of it for
             neighbours.
    Bound    none. Without fading and clipping the regret of a mixture against the best fixed one
             is O(sqrt(N T ln T)), as in ``ml_poly``. Here rows fade with a memory of 1,000, and it
             may grow with T.
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
        size: Annotated[int, SIZES] = FULL

    class State(NamedTuple):
        model: MixtureOfExperts
        log_w: np.ndarray  # (N,) of the experts' weights in p, those of 0 as TINY

    select = select_all

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: MixtureOfExperts) -> Auto.State:
        return Auto.State(model, np.zeros(model.n_kernels))

    @staticmethod
    def predict(params, state, t, selection):
        return selection.scratch.y_hat[0], True

    @staticmethod
    def variance(params, state, t, selection):
        """Return the mean of p's squared errors over about 100 rounds, NaN before the first error.

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
    """Make experts and mixtures for classes before the first row.

    Parameters
    ----------
    params
        Params with ``size``, and ``n_classes`` for more than two.
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
    """Draw experts whose priors are those of logits: differences between K classes' outputs.

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
    """Form of ``AutoClassifier`` for K > 2 classes, which are learned together."""

    class Params(NamedTuple):
        n_classes: COUNT
        size: Annotated[int, SIZES] = FULL

    class State(NamedTuple):
        model: SoftmaxMixture
        log_w: np.ndarray  # (N,) of the experts' weights in p
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
    Round    1. Standardise the inputs and the last two labels as ``auto`` does. Labels are the
                numbers 0, .., K - 1 of the classes; of two classes 0 is -1.
             2. Evaluate N = 13 experts. Expert i gives probabilities p_ik of the classes:
                - The counts n_k of the classes: (n_k + 1/2) / (n + K/2). The same of the rows that
                  came after a label like the last one.
                - Ten logistic regressions, each with one P and K vectors theta_k: 0.9997 times the
                  softmax of theta_k'z / sqrt(1 + pi v / 4), v = z'P z, plus 0.0003 / K. They are
                  linear in the inputs, or in inputs and labels, with the prior variance
                  1 / length^2. Or z has sines and cosines of random frequencies as well, as in
                  ``auto``, with the prior variance 30, and 1 for the rest. All prior variances are
                  times 1 - 1 / K. Some experts forget.
                - Boosted trees, grown as in ``auto``, with at most 64 leaves and by log loss. With
                  at most 32 classes there are min(100, max(20, 200 / K)) for each class, and their
                  sums are the logits of a softmax, mixed with 0.0003 / K as above. Of two classes
                  only the second has trees. A leaf counts 0.1, or 10 over the number of trees where
                  that is more. Until they are grown they predict the mixture of the others. They
                  count as used if their weight is above 0.05, or their |theta| in step 4 above
                  0.2.
             3. Mix: p_k = sum w_i p_ik.
             4. Correct: m_k = log p_k + theta'z_k with z_k = (log p_1k - log p_k, ..,
                log p_Nk - log p_k, log p_k). theta and its P are shared by the classes, prior
                variance 0.3. q is 0.99999 times the softmax of m, plus 0.00001 / K.
             5. Predict 2 p_k - 1 with p = sum u_j g_j; of two classes that of the second, +1. g is
                q, the mixture of step 3, and three experts: the counts, those after the last label,
                the first linear one. A row counts as a mistake where the largest is another class.
             6. Update the logistic regressions. theta_k <- theta_k + s P z g_k with
                g_k = [y = k] - p_k, p_k by the softmax of the expert's own theta_k'z. s in [0, 1]
                maximises log p_y - s^2 v sum g_k^2 / 2. P <- (P - P z z'P / (v + r)) / decay with
                1 / r = max(0.4, 2 / K) Var(g) / sum g_k^2, the variance by the probabilities after
                s. The correction moves so along P g, g = z_y - sum p_k z_k, with
                1 / r = Var(z_k'P g) / (g'P g)^2.
             7. w_i <- w_i p_iy, scaled to sum 1; then w_i <- 0.999 w_i + 0.001 / N. The u_j
                likewise, with g.
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

    class State(NamedTuple):
        model: SoftmaxMixture
        log_w: np.ndarray  # (N,) of the experts' weights in p
        updates: np.ndarray  # (N,) rounds from which an expert learned: all of them

    select = select_all

    @staticmethod
    def predict(params, state, t, selection):
        return selection.scratch.y_hat[1], True

    @staticmethod
    def init(
        params: Any, dictionary: Sequence[Kernel], model: SoftmaxMixture
    ) -> AutoClassifier.State:
        return AutoClassifier.State(model, np.log(model.w), np.zeros(model.n_kernels))

    @staticmethod
    def update(params, state, t, y, selection):
        learn_softmax(state, selection.scratch, 1.0 if y > 0.0 else 0.0)
