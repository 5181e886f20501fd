"""Bounds that a run evaluates and result.json holds: mistakes of OMKC, regrets of POF-MKL.

The mistake bounds are those of Jin, Hoi and Yang (ALT 2010), with what is optimal in hindsight.
Symbols, the same in all functions: ``T`` rounds, ``N`` kernels, and the letters of the
algorithms. Three quantities are minima over functions that know all rows, with the hinge loss
l(z, y) = max(0, 1 - y z):

g(kappa)  min over f of ||f||^2 + 2 sum_t l(f(x_t), y_t), theorems 2 to 7
g(u, f)   min over u in the simplex and ||f_i|| <= R of
          sum_i u_i ||f_i||^2 + 2 sum_t l(u . f(x_t), y_t), theorem 8
l(u, f)   min over the same of sum_t l(u . f(x_t), y_t), theorem 10

Theorem 1 says that g(u, f) is also g(kappa(u)), the least over u in the simplex of that of the
one kernel kappa(u) = sum_i u_i kappa_i; corollary 9 is theorem 8 with it, ||f|| <= R in the space
of kappa(u). ``combined_error`` finds the first, ``batch_error`` the second.

Each is convex after h_i = u_i f_i, and its dual is a maximum over alpha in [0, 1]^T with
s_i(alpha)^2 = sum_ts alpha_t y_t kappa_i(x_t, x_s) y_s alpha_s:

g(kappa)  2 sum alpha - s^2
g(u, f)   2 sum alpha - max_i phi(s_i), phi(s) = s^2 up to R and 2 R s - R^2 beyond
l(u, f)   sum alpha - R max_i s_i

They are solved by SciPy: the maximum over alpha by L-BFGS-B. For g(u, f) and g(kappa(u)) SLSQP
finds the minimum over u around it. l(u, f) is the least loss with sum_i ||h_i|| <= R; with
c (sum_i ||h_i||)^2 in place of the limit its dual is smooth but for the maximum, which a norm of
high order replaces, and c is halved in between until the limit is met. Both ends are certain
whatever the solver did: an alpha gives a lower bound of the minimum, a pair of u and f an upper
one. The bounds are stated with the lower one, so that none looks kept that is broken.

The regret bounds are theorems 1 and 2 of Ghari and Shen (NeurIPS 2022), for losses in [0, 1],
(as2), and for constant steps eta and eta_k. Theorem 1 is about a client against its best online
kernel, (11), and holds for whatever the server sends. Theorem 2 is about the server, the sum over
all clients against the best single function, (12), and holds for the mean over the draws of
kernels. Where the server asks m of K clients, drawn at random, (10) is the mean over the m. Its
expectation is the same, and so is the second term that (32) of the proof gives for it, which bounds
the square of a sum by a sum of squares. So (14) holds as it stands, for the mean over the draws of
clients too. It says nothing where messages are clipped, have noise, are refused or trimmed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.core.kernels import Kernel

Array = np.ndarray

# --- mistakes: right-hand sides -------------------------------------------------------------------


def theorem2(*, N: int, g: float, beta: float) -> float:
    """DA for OMKL-P (1), the right-hand side of (4)."""
    return (2 * math.log(1 / beta) * g + 2 * math.log(N)) / (1 - beta)


def theorem3(*, N: int, g: float, beta: float, gamma: float) -> float:
    """DA for OMKL-P (2)."""
    c = 0.5 + gamma
    return (2 * c * math.log(1 / beta) * g + 4 * c * math.log(N)) / (1 - beta**c)


def theorem5(*, N: int, g: float) -> float:
    """DA for OMKL-P (1) with the doubling trick, as stated (see ``THEOREMS``); g at least 1."""
    root = math.sqrt(g * math.log(N))
    segments = math.ceil(math.log2(max(g, 1.0)))
    return 2 * (g + math.log(N) + 2 / (math.sqrt(2) - 1) * root) + 2 * segments * math.log(N)


def theorem6(*, N: int, g: float, beta: float, delta: float) -> float:
    """SUA for OMKL-P, of the expected number of mistakes."""
    return N / delta * theorem2(N=N, g=g, beta=beta)


def theorem7(*, N: int, g: float, beta: float, delta: float) -> float:
    """MUA for OMKL-P, of the expected number of mistakes."""
    return theorem2(N=N, g=g, beta=beta) / delta


def theorem8(*, N: int, g: float, beta: float, R: float) -> float:
    """DA for OMKL-O, with g = g(u, f); inf where R^2 ln(1/beta) < 1 fails: nothing is promised."""
    rate = math.log(1 / beta)
    left = 1 - R**2 * rate
    return (g + 2 * math.log(N) / rate) / left if left > 0 else math.inf


def theorem10(*, T: int, N: int, loss: float, beta: float, R: float, delta: float) -> float:
    """SUA for OMKL-O, of the expected number of mistakes, as stated (see ``THEOREMS``).

    loss = l(u, f).
    """
    rate = math.log(1 / beta)
    a = R**2 / 2 + math.log(N) / rate
    b = rate * (R * N / delta) ** 2 / 2 + N / (2 * delta)
    return loss + 2 * math.sqrt(a * b * T)


def corollary4(*, N: int, g: float) -> float:
    """DA for OMKL-P (1) with the beta of ``corollary4_beta``, which is known in hindsight."""
    return 2 * (g + math.log(N) + 2 * math.sqrt(g * math.log(N)))


def corollary4_beta(fewest: float, N: int) -> float:
    """The beta of corollary 4 where the best classifier made ``fewest`` mistakes.

    The classifiers of algorithm 1 do not depend on beta, so any run of it tells ``fewest``.
    1 for one kernel, 0 where a classifier made no mistake: both are outside (0, 1).
    """
    root = math.sqrt(fewest)
    total = root + math.sqrt(math.log(N))
    return root / total if total > 0 else 1.0


def corollary9(*, N: int, g: float, beta: float, R: float) -> float:
    """DA for OMKL-O against the batch problem (1): theorem 8 with g = g(kappa(u))."""
    return theorem8(N=N, g=g, beta=beta, R=R)


def updates_single(*, T: int, N: int, g: float, beta: float, delta: float) -> float:
    """SUA for OMKL-P: the expected number of updates, below theorem 6.

    (1 - delta) E[sum of q . z] + delta T, with half of theorem 6 for the sum, as its proof has it.
    """
    weighted = theorem6(N=N, g=g, beta=beta, delta=delta) / 2
    return (1 - delta) * weighted + delta * T


def updates_multiple(*, T: int, N: int, g: float, beta: float, delta: float) -> float:
    """MUA for OMKL-P: the expected number of updates of all kernels, below theorem 7."""
    weighted = theorem7(N=N, g=g, beta=beta, delta=delta) / 2
    return (1 - delta) * weighted + delta * N * T


# --- mistakes: minima in hindsight ----------------------------------------------------------------


class Minimum(NamedTuple):
    """Certain ends of a minimum; ``lower`` is that of the dual, ``upper`` that of the primal."""

    lower: float
    upper: float


def gram(kernel: Kernel, X: Array) -> Array:
    """Kernel matrix (T, T) of rows X (T, d), normalised as ``Perceptrons`` does."""
    K = kernel.gram(X, X)
    scale = np.sqrt(np.diagonal(K))
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    return K * np.outer(inverse, inverse)


def margin_error(K: Array, y: Array) -> Minimum:
    """g(kappa) of a kernel matrix K (T, T) and labels y (T,)."""
    Q = y[:, None] * K * y[None, :]

    def objective(alpha: Array) -> tuple[float, Array]:
        v = Q @ alpha
        return alpha @ v - 2 * alpha.sum(), 2 * v - 2

    alpha = _minimised(objective, np.full(len(y), 0.5))
    v = Q @ alpha
    norm2 = float(alpha @ v)
    return Minimum(2 * float(alpha.sum()) - norm2, norm2 + 2 * _hinge(v))


def batch_error(kernels: Sequence[Kernel], X: Array, y: Array, R: float = math.inf) -> Minimum:
    """g(kappa(u)) over the simplex, one function f of the kernel kappa(u) with ||f|| <= R.

    Twice the batch problem (1) with C = 1 where R = inf; the problem of corollary 9.
    """
    Q = _signed_grams(kernels, X, y)
    N = len(Q)
    alpha = np.full(len(y), 0.5)
    lower, upper = -math.inf, math.inf

    def inner(u: Array) -> tuple[float, Array]:
        """The least g of kappa(u), and its slopes in u."""
        nonlocal alpha, lower, upper
        of_u = np.tensordot(u, Q, 1)

        def objective(alpha: Array) -> tuple[float, Array]:
            v = of_u @ alpha
            value, ratio = _limited(np.sqrt(max(alpha @ v, 0.0)), R)
            return value - 2 * alpha.sum(), 2 * ratio * v - 2

        alpha = _minimised(objective, alpha)
        v = of_u @ alpha
        norm2 = max(float(alpha @ v), 0.0)
        value, ratio = _limited(np.sqrt(norm2), R)
        upper = min(upper, float(ratio**2 * norm2) + 2 * _hinge(ratio * v))
        each = np.maximum((Q @ alpha) @ alpha, 0.0)
        worst, _ = _limited(np.sqrt(each.max()), R)
        lower = max(lower, 2 * float(alpha.sum()) - float(worst))
        return 2 * float(alpha.sum()) - float(value), -ratio * each

    _over_the_simplex(inner, N)
    return Minimum(lower, upper)


def _limited(s: Array, R: float) -> tuple[Array, Array]:
    """phi(s), and the factor phi'(s) / (2 s) that takes norm s into the ball of radius R."""
    beyond = s > R
    with np.errstate(divide="ignore", invalid="ignore"):  # s = 0 and R = inf are never beyond
        return np.where(beyond, 2 * R * s - R * R, s * s), np.where(beyond, R / s, 1.0)


def _over_the_simplex(function: Callable[[Array], tuple[float, Array]], N: int) -> None:
    """Look for the least value of a function of u, given with its slopes."""
    from scipy.optimize import minimize

    minimize(
        function, np.full(N, 1 / N), jac=True, method="SLSQP", bounds=[(0.0, 1.0)] * N,
        constraints={"type": "eq", "fun": lambda u: u.sum() - 1, "jac": lambda u: np.ones(N)},
        options={"maxiter": 60, "ftol": 1e-6},
    )  # fmt: skip


def best_margin_error(kernels: Sequence[Kernel], X: Array, y: Array) -> Minimum:
    """The least g(kappa) of a dictionary, on rows X (T, d)."""
    found = [margin_error(gram(kernel, X), y) for kernel in kernels]
    return Minimum(min(m.lower for m in found), min(m.upper for m in found))


def combined_error(kernels: Sequence[Kernel], X: Array, y: Array, R: float) -> Minimum:
    """g(u, f) over the simplex and ||f_i|| <= R."""
    Q = _signed_grams(kernels, X, y)
    N, T = len(Q), len(y)
    alpha = np.full(T, 0.5)
    lower, upper = -math.inf, math.inf

    def parts(alpha: Array) -> tuple[Array, Array, Array]:
        """Q_i alpha, and ``_limited`` of s_i."""
        v = Q @ alpha
        return v, *_limited(np.sqrt(np.maximum(v @ alpha, 0.0)), R)

    def inner(u: Array) -> tuple[float, Array]:
        nonlocal alpha, lower, upper

        def objective(alpha: Array) -> tuple[float, Array]:
            v, value, ratio = parts(alpha)
            return u @ value - 2 * alpha.sum(), 2 * (u * ratio) @ v - 2

        alpha = _minimised(objective, alpha)
        v, value, ratio = parts(alpha)
        lower = max(lower, 2 * float(alpha.sum()) - float(value.max()))
        # u and f_i = ratio_i sum alpha_t y_t kappa_i(x_t, .) are a choice for the minimum.
        penalty = float(u @ (ratio**2 * (v @ alpha)))
        upper = min(upper, penalty + 2 * _hinge((u * ratio) @ v))
        return 2 * float(alpha.sum()) - float(u @ value), -value

    _over_the_simplex(inner, N)
    return Minimum(lower, upper)


def combined_loss(kernels: Sequence[Kernel], X: Array, y: Array, R: float) -> Minimum:
    """l(u, f) over the simplex and ||f_i|| <= R."""
    Q = _signed_grams(kernels, X, y)
    T = len(y)
    alpha = np.full(T, 0.5)
    lower, upper = 0.0, float(T)

    def smoothed(alpha: Array, order: int) -> tuple[Array, Array, float, Array]:
        """Q_i alpha, s_i^2, and a smooth stand-in for the largest of these with its slopes."""
        v = Q @ alpha
        squares = np.maximum(v @ alpha, 1e-300)
        top = squares.max()
        powers = (squares / top) ** (order / 2)
        norm2 = top * powers.sum() ** (2 / order)
        slopes = (squares / top) ** (order / 2 - 1) * powers.sum() ** (2 / order - 1)
        return v, squares, norm2, slopes

    def size_with(c: float, order: int) -> float:
        """sum_i ||h_i|| of the least loss + c times its square."""
        nonlocal alpha, lower, upper

        def objective(alpha: Array) -> tuple[float, Array]:
            v, _, norm2, slopes = smoothed(alpha, order)
            return norm2 / (4 * c) - alpha.sum(), slopes / (2 * c) @ v - 1

        alpha = _minimised(objective, alpha)
        v, squares, _, slopes = smoothed(alpha, order)
        size = float(slopes @ np.sqrt(squares)) / (2 * c)
        lower = max(lower, float(alpha.sum()) - R * math.sqrt(squares.max()))
        upper = min(upper, _hinge(min(1.0, R / size) * (slopes / (2 * c)) @ v))
        return size

    high = T / R**2  # the loss without h is T, so a sum beyond R would cost more than it saves
    for order in (16, 64, 256):
        low = high
        while size_with(low, order) < R and low > 1e-9 * T / R**2:
            high, low = low, low / 4
        while high > 1.05 * low:
            c = math.sqrt(low * high)
            low, high = (c, high) if size_with(c, order) > R else (low, c)
        high *= 4
    return Minimum(lower, upper)


def _signed_grams(kernels: Sequence[Kernel], X: Array, y: Array) -> Array:
    """y_t kappa_i(x_t, x_s) y_s, (N, T, T)."""
    return np.stack([y[:, None] * gram(kernel, X) * y[None, :] for kernel in kernels])


def _hinge(margins: Array) -> float:
    return float(np.maximum(0.0, 1 - margins).sum())


def _minimised(function: Callable[[Array], tuple[float, Array]], start: Array) -> Array:
    """The alpha in [0, 1]^T with the least value of a function, given with its gradient."""
    from scipy.optimize import minimize

    options = {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-8, "gtol": 1e-6, "maxcor": 20}
    box = [(0.0, 1.0)] * len(start)
    return minimize(function, start, jac=True, method="L-BFGS-B", bounds=box, options=options).x


# --- mistakes: what a learner's theorem says ------------------------------------------------------


class Further(NamedTuple):
    """Another statement of the paper about the same learner.

    of     what it bounds: "mistakes" or "updates", in all rounds
    value  the bound; inf where nothing is promised
    """

    name: str
    of: str
    value: float


class Theorem(NamedTuple):
    """A theorem, evaluated for the parameters of the learner that registers it.

    side      its right-hand side (T, N, minimum, parameters)
    least     finds the minimum that it is about; learners with the same one share it
    unproved  what its proof lacks: it is evaluated as stated, which is less than the proof gives
              (``docs/errata.md``)
    others    what the paper says besides (T, N, minimum, batch, parameters)
    of_batch  whether they need ``batch``, the lower end of ``batch_error``
    """

    side: Callable[[int, int, float, dict[str, Any]], float]
    least: Callable[..., Minimum] = best_margin_error
    unproved: str | None = None
    others: Callable[[int, int, float, float, dict[str, Any]], list[Further]] | None = None
    of_batch: bool = False

    def minimum(self, params: Any, kernels: Sequence[Kernel], X: Array, y: Array) -> Minimum:
        """What the theorem is about, on rows X (T, d) and y (T,)."""
        radius = (params.R,) if hasattr(params, "R") else ()
        return self.least(kernels, X, y, *radius)

    def quantity(self, params: Any) -> str:
        """Names what ``minimum`` finds."""
        return f"{self.least.__name__}-{getattr(params, 'R', None)}"

    def value(self, params: Any, N: int, T: int, minimum: float) -> float:
        """The right-hand side after T rounds.

        inf where the theorem is about other parameters: theorem 10 has one eta, theorem 5 restarts.
        """
        given: dict[str, Any] = params._asdict()
        if not math.isnan(given.pop("eta", math.nan)) or not given.pop("restart", True):
            return math.inf
        return self.side(T, N, minimum, given)

    def further(
        self, params: Any, N: int, T: int, minimum: float, batch: float | None = None
    ) -> list[Further]:
        """What the paper says of the learner besides the theorem, after T rounds.

        Corollary 4 is about the beta of ``corollary4_beta`` and about no other.
        """
        if self.others is None or (self.of_batch and batch is None):
            return []
        return self.others(T, N, minimum, math.nan if batch is None else batch, params._asdict())


# By the name that an algorithm registers.
THEOREMS = {
    "theorem 2": Theorem(
        lambda T, N, g, given: theorem2(N=N, g=g, **given),
        others=lambda T, N, g, batch, given: [
            Further("corollary 4", "mistakes", corollary4(N=N, g=g))
        ],
    ),
    "theorem 3": Theorem(lambda T, N, g, given: theorem3(N=N, g=g, **given)),
    "theorem 5": Theorem(
        lambda T, N, g, given: theorem5(N=N, g=g, **given),
        unproved="its proof has sqrt(2) more before sqrt(g ln N)",
    ),
    "theorem 6": Theorem(
        lambda T, N, g, given: theorem6(N=N, g=g, **given),
        others=lambda T, N, g, batch, given: [
            Further("remark to theorem 6", "updates", updates_single(T=T, N=N, g=g, **given))
        ],
    ),
    "theorem 7": Theorem(
        lambda T, N, g, given: theorem7(N=N, g=g, **given),
        others=lambda T, N, g, batch, given: [
            Further("remark to theorem 7", "updates", updates_multiple(T=T, N=N, g=g, **given))
        ],
    ),
    "theorem 8": Theorem(
        lambda T, N, g, given: theorem8(N=N, g=g, **given),
        combined_error,
        others=lambda T, N, g, batch, given: [
            Further("corollary 9", "mistakes", corollary9(N=N, g=batch, **given))
        ],
        of_batch=True,
    ),
    "theorem 10": Theorem(
        lambda T, N, g, given: theorem10(T=T, N=N, loss=g, **given),
        combined_loss,
        unproved="its proof needs a step eta smaller by sqrt(T)",
    ),
}


# --- regrets of POF-MKL ---------------------------------------------------------------------------


def gradient_bound(lam: float, largest_loss: float = 1.0) -> float:
    """L: the largest ||grad L|| where the loss is at most ``largest_loss``.

    ||z|| = 1, so the gradient is at most 2 |e| + 2 lam ||theta|| with
    e^2 + lam ||theta||^2 <= largest_loss; the maximum is 2 sqrt(largest_loss (1 + lam)).
    """
    return 2 * math.sqrt(largest_loss * (1 + lam))


def client_regret_bound(built: Any, n_kernels: int, t: np.ndarray) -> np.ndarray | None:
    """ln N / eta_k + eta_k t / 2 on the rounds t (P,): no client's regret of POF-MKL is larger.

    Ghari and Shen, NeurIPS 2022, (13), for losses in [0, 1]. None for a learner without
    client weights, and where eta_k is not constant, of which the theorem does not speak.
    """
    step = _constant(built, "eta_k")
    if step is None:
        return None
    return np.log(n_kernels) / step + step * np.asarray(t, dtype=float) / 2.0


def server_regret_bound(
    built: Any,
    n_kernels: int,
    n_clients: int,
    t: np.ndarray,
    theta_norm: float,
    epsilon: float = 0.0,
    C: float = 0.0,
) -> np.ndarray | None:
    """The right-hand side of (14) on the rounds t (P,), for clients that all have these rounds.

    K ||theta*||^2 / (2 eta) + (eta / 2) K t L^2 / p + K (ln N / eta_k + eta_k t / 2)
    + epsilon L K t C. With ``epsilon`` 0 it is (36), against the best function of the random
    features, whose norm is ``theta_norm``; the theorem's own, against the best function of the
    kernel's space, has theta_norm = C, the largest sum of |alpha|, and epsilon the largest
    error of the features. p is the least that (8) allows, xi / m with m bins, as the text
    below the theorem says; 1 where there is one bin. L follows from (as2).

    None for a learner without client weights, and where a step is not constant.
    """
    eta, eta_k = _constant(built, "eta"), _constant(built, "eta_k")
    if eta is None or eta_k is None:
        return None
    n_bins = math.ceil(n_kernels / built.M)
    p = 1.0 if n_bins == 1 else built.xi / n_bins
    L = gradient_bound(built.lam)
    t = np.asarray(t, dtype=float)
    weighing = math.log(n_kernels) / eta_k + eta_k * t / 2.0
    learning = theta_norm**2 / (2.0 * eta) + 0.5 * eta * t * L**2 / p
    return n_clients * (learning + weighing + epsilon * L * t * C)


def _constant(built: Any, name: str) -> float | None:
    from omkl.core.hyperparameters import (
        Schedule,
        rate,
    )  # imports the compiler, which reports do without

    step = getattr(built, name, None)
    if not isinstance(step, Schedule) or step.power != 0.0 or not hasattr(built, "eta_k"):
        return None
    return rate(step, 1)
