"""The mistake bounds of Jin, Hoi and Yang (ALT 2010), and their minima in hindsight.

Symbols: ``T`` rounds, ``N`` kernels, and the letters of the algorithms. Three quantities are minima
over functions that know all rows, with the hinge loss l(z, y) = max(0, 1 - y z):

g(kappa)  min over f of ||f||^2 + 2 sum_t l(f(x_t), y_t), theorems 2 to 7
g(u, f)   min over u in the simplex and ||f_i|| <= R of
          sum_i u_i ||f_i||^2 + 2 sum_t l(u . f(x_t), y_t), theorem 8
l(u, f)   min over the same of sum_t l(u . f(x_t), y_t), theorem 10

By theorem 1, g(u, f) is also g(kappa(u)), the least over u of the one kernel
kappa(u) = sum_i u_i kappa_i; corollary 9 is theorem 8 with it.

Each minimum is convex after h_i = u_i f_i. Its dual is a maximum over alpha in [0, 1]^T with
s_i(alpha)^2 = sum_ts alpha_t y_t kappa_i(x_t, x_s) y_s alpha_s:

g(kappa)  2 sum alpha - s^2
g(u, f)   2 sum alpha - max_i phi(s_i), phi(s) = s^2 up to R and 2 R s - R^2 beyond
l(u, f)   sum alpha - R max_i s_i

SciPy's L-BFGS-B finds the maximum over alpha, and SLSQP the minimum over u around it. l(u, f) is
the least loss with sum_i ||h_i|| <= R: with c (sum_i ||h_i||)^2 in place of the limit its dual is
smooth but for the maximum, which a norm of high order replaces, and c is halved until the limit is
met. Any alpha gives a lower end of the minimum, any pair of u and f an upper one, whatever the
solver did. Bounds are stated with the lower end, so that no broken bound looks kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from omkl.core.kernels import Kernel

Array = np.ndarray

# --- right-hand sides -----------------------------------------------------------------------------


def theorem2(*, N: int, g: float, beta: float) -> float:
    """Bound the mistakes of DA for OMKL-P (1), the right-hand side of (4)."""
    return (2 * math.log(1 / beta) * g + 2 * math.log(N)) / (1 - beta)


def theorem3(*, N: int, g: float, beta: float, gamma: float) -> float:
    """Bound the mistakes of DA for OMKL-P (2)."""
    c = 0.5 + gamma
    return (2 * c * math.log(1 / beta) * g + 4 * c * math.log(N)) / (1 - beta**c)


def theorem5(*, N: int, g: float) -> float:
    """Bound the mistakes of DA for OMKL-P (1) with the doubling trick, as stated; g >= 1."""
    root = math.sqrt(g * math.log(N))
    segments = math.ceil(math.log2(max(g, 1.0)))
    return 2 * (g + math.log(N) + 2 / (math.sqrt(2) - 1) * root) + 2 * segments * math.log(N)


def theorem6(*, N: int, g: float, beta: float, delta: float) -> float:
    """Bound the expected mistakes of SUA for OMKL-P."""
    return N / delta * theorem2(N=N, g=g, beta=beta)


def theorem7(*, N: int, g: float, beta: float, delta: float) -> float:
    """Bound the expected mistakes of MUA for OMKL-P."""
    return theorem2(N=N, g=g, beta=beta) / delta


def theorem8(*, N: int, g: float, beta: float, R: float) -> float:
    """Bound the mistakes of DA for OMKL-O, with g = g(u, f); inf unless R^2 ln(1/beta) < 1."""
    rate = math.log(1 / beta)
    left = 1 - R**2 * rate
    return (g + 2 * math.log(N) / rate) / left if left > 0 else math.inf


def theorem10(*, T: int, N: int, loss: float, beta: float, R: float, delta: float) -> float:
    """Bound the expected mistakes of SUA for OMKL-O, as stated; loss = l(u, f)."""
    rate = math.log(1 / beta)
    a = R**2 / 2 + math.log(N) / rate
    b = rate * (R * N / delta) ** 2 / 2 + N / (2 * delta)
    return loss + 2 * math.sqrt(a * b * T)


def corollary4(*, N: int, g: float) -> float:
    """Bound the mistakes of DA for OMKL-P (1) with the beta of ``corollary4_beta``."""
    return 2 * (g + math.log(N) + 2 * math.sqrt(g * math.log(N)))


def corollary4_beta(fewest: float, N: int) -> float:
    """Return the beta of corollary 4 from the ``fewest`` mistakes of a classifier.

    The classifiers of algorithm 1 do not depend on beta, so any run of it gives ``fewest``.
    """
    root = math.sqrt(fewest)
    total = root + math.sqrt(math.log(N))
    return root / total if total > 0 else 1.0


def corollary9(*, N: int, g: float, beta: float, R: float) -> float:
    """Bound the mistakes of DA for OMKL-O with g = g(kappa(u)), from the batch problem (1)."""
    return theorem8(N=N, g=g, beta=beta, R=R)


def updates_single(*, T: int, N: int, g: float, beta: float, delta: float) -> float:
    """Bound the expected updates of SUA for OMKL-P (below theorem 6).

    (1 - delta) E[sum of q . z] + delta T, with half of theorem 6 for the sum, as in its proof.
    """
    weighted = theorem6(N=N, g=g, beta=beta, delta=delta) / 2
    return (1 - delta) * weighted + delta * T


def updates_multiple(*, T: int, N: int, g: float, beta: float, delta: float) -> float:
    """Bound the expected updates of all kernels of MUA for OMKL-P (below theorem 7)."""
    weighted = theorem7(N=N, g=g, beta=beta, delta=delta) / 2
    return (1 - delta) * weighted + delta * N * T


# --- minima in hindsight --------------------------------------------------------------------------


class Minimum(NamedTuple):
    """An interval that contains a minimum: ``lower`` is a dual value, ``upper`` a primal one."""

    lower: float
    upper: float


def gram(kernel: Kernel, X: Array) -> Array:
    """Return the kernel matrix (T, T) of rows X (T, d), normalised as ``Perceptrons`` does."""
    K = kernel.gram(X, X)
    scale = np.sqrt(np.diagonal(K))
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    return K * np.outer(inverse, inverse)


def margin_error(K: Array, y: Array) -> Minimum:
    """Find g(kappa) of a kernel matrix K (T, T) and labels y (T,)."""
    Q = y[:, None] * K * y[None, :]

    def objective(alpha: Array) -> tuple[float, Array]:
        v = Q @ alpha
        return alpha @ v - 2 * alpha.sum(), 2 * v - 2

    alpha = _minimised(objective, np.full(len(y), 0.5))
    v = Q @ alpha
    norm2 = float(alpha @ v)
    return Minimum(2 * float(alpha.sum()) - norm2, norm2 + 2 * _hinge(v))


def batch_error(kernels: Sequence[Kernel], X: Array, y: Array, R: float = math.inf) -> Minimum:
    """Find g(kappa(u)) over the simplex: one function of the kernel kappa(u) with ||f|| <= R.

    This is the problem of corollary 9, and for R = inf twice the batch problem (1) with C = 1.

    Parameters
    ----------
    kernels
        N kernels.
    X, y
        Rows (T, d) and targets (T,), -1 or +1.
    R
        Largest norm.
    """
    Q = _signed_grams(kernels, X, y)
    N = len(Q)
    alpha = np.full(len(y), 0.5)
    lower, upper = -math.inf, math.inf

    def inner(u: Array) -> tuple[float, Array]:
        """Return the least g of kappa(u), and its slopes in u."""
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
    """Return phi(s), and the factor phi'(s) / (2 s) that takes norm s into the ball of radius R."""
    beyond = s > R
    with np.errstate(divide="ignore", invalid="ignore"):  # s = 0 and R = inf are not selected below
        return np.where(beyond, 2 * R * s - R * R, s * s), np.where(beyond, R / s, 1.0)


def _over_the_simplex(function: Callable[[Array], tuple[float, Array]], N: int) -> None:
    """Minimise a function of u in the simplex that returns value and slopes."""
    minimize(
        function, np.full(N, 1 / N), jac=True, method="SLSQP", bounds=[(0.0, 1.0)] * N,
        constraints={"type": "eq", "fun": lambda u: u.sum() - 1, "jac": lambda u: np.ones(N)},
        options={"maxiter": 60, "ftol": 1e-6},
    )  # fmt: skip


def best_margin_error(kernels: Sequence[Kernel], X: Array, y: Array) -> Minimum:
    """Find the least g(kappa) of a dictionary.

    Parameters
    ----------
    kernels
        N kernels.
    X, y
        Rows (T, d) and targets (T,), -1 or +1.
    """
    found = [margin_error(gram(kernel, X), y) for kernel in kernels]
    return Minimum(min(m.lower for m in found), min(m.upper for m in found))


def combined_error(kernels: Sequence[Kernel], X: Array, y: Array, R: float) -> Minimum:
    """Find g(u, f) over the simplex and ||f_i|| <= R.

    Parameters
    ----------
    kernels
        N kernels.
    X, y
        Rows (T, d) and targets (T,), -1 or +1.
    R
        Largest norm of a function, > 0.
    """
    Q = _signed_grams(kernels, X, y)
    N, T = len(Q), len(y)
    alpha = np.full(T, 0.5)
    lower, upper = -math.inf, math.inf

    def parts(alpha: Array) -> tuple[Array, Array, Array]:
        """Return Q_i alpha, and the results of ``_limited`` for s_i."""
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
    """Find l(u, f) over the simplex and ||f_i|| <= R.

    Parameters
    ----------
    kernels
        N kernels.
    X, y
        Rows (T, d) and targets (T,), -1 or +1.
    R
        Largest norm of a function, > 0.
    """
    Q = _signed_grams(kernels, X, y)
    T = len(y)
    alpha = np.full(T, 0.5)
    lower, upper = 0.0, float(T)

    def smoothed(alpha: Array, order: int) -> tuple[Array, Array, float, Array]:
        """Return Q_i alpha, s_i^2, and a smooth maximum of these with its slopes."""
        v = Q @ alpha
        squares = np.maximum(v @ alpha, 1e-300)
        top = squares.max()
        powers = (squares / top) ** (order / 2)
        norm2 = top * powers.sum() ** (2 / order)
        slopes = (squares / top) ** (order / 2 - 1) * powers.sum() ** (2 / order - 1)
        return v, squares, norm2, slopes

    def size_with(c: float, order: int) -> float:
        """Return sum_i ||h_i|| of the least loss + c times its square."""
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
    """Return y_t kappa_i(x_t, x_s) y_s, (N, T, T)."""
    return np.stack([y[:, None] * gram(kernel, X) * y[None, :] for kernel in kernels])


def _hinge(margins: Array) -> float:
    return float(np.maximum(0.0, 1 - margins).sum())


def _minimised(function: Callable[[Array], tuple[float, Array]], start: Array) -> Array:
    """Minimise a function of alpha in [0, 1]^T that returns value and gradient; return alpha."""
    options = {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-8, "gtol": 1e-6, "maxcor": 20}
    box = [(0.0, 1.0)] * len(start)
    return minimize(function, start, jac=True, method="L-BFGS-B", bounds=box, options=options).x


# --- the theorem of each algorithm ----------------------------------------------------------------


class Statement(NamedTuple):
    """Statement of the paper about a learner.

    Attributes
    ----------
    name
        Name of the theorem or corollary.
    of
        Quantity that it bounds over all rounds: "mistakes" or "updates".
    value
        Bound; inf if nothing is promised for these parameters.
    unproved
        Gap of the proof; "" for none. The bound is evaluated as stated (docs/errata.md).
    """

    name: str
    of: str
    value: float
    unproved: str = ""


MINIMA: dict[str, Callable[..., Minimum]] = {
    "omkc_da_p1": best_margin_error,
    "omkc_da_p1_doubling": best_margin_error,
    "omkc_da_p2": best_margin_error,
    "omkc_sua_p": best_margin_error,
    "omkc_mua_p": best_margin_error,
    "omkc_da_o": combined_error,
    "omkc_sua_o": combined_loss,
}
UNPROVED = {
    "omkc_da_p1_doubling": "its proof has sqrt(2) more before sqrt(g ln N)",
    "omkc_sua_o": "its proof needs a step eta smaller by sqrt(T)",
}


def minimum_of(
    algorithm: str, params: Mapping[str, Any], kernels: Sequence[Kernel], X: Array, y: Array
) -> Minimum:
    """Find the minimum that an algorithm's theorem is about.

    Parameters
    ----------
    algorithm
        A name of ``MINIMA``.
    params
        The learner's parameters.
    kernels
        N kernels.
    X, y
        Rows (T, d) and targets (T,), -1 or +1.
    """
    radius = (params["R"],) if "R" in params else ()
    return MINIMA[algorithm](kernels, X, y, *radius)


def statements(
    algorithm: str,
    params: Mapping[str, Any],
    N: int,
    T: int,
    minimum: float,
    batch: float | None = None,
) -> list[Statement]:
    """Evaluate what the paper promises about a learner: its theorem first.

    Parameters
    ----------
    algorithm
        A name of ``MINIMA``.
    params
        The learner's parameters, numbers.
    N, T
        Kernels and rounds.
    minimum
        The lower end of ``minimum_of``.
    batch
        The lower end of ``batch_error``, for corollary 9; None to leave it out.
    """
    given = {name: params[name] for name in ("beta", "gamma", "delta", "R") if name in params}
    g: dict[str, Any] = {"N": N, "g": minimum}
    restarts = params.get("restart", True)
    found = {
        "omkc_da_p1": lambda: [
            Statement("theorem 2", "mistakes", theorem2(**g, **given)),
            Statement("corollary 4", "mistakes", corollary4(**g)),
        ],
        "omkc_da_p1_doubling": lambda: [
            Statement("theorem 5", "mistakes", theorem5(**g) if restarts else math.inf)
        ],
        "omkc_da_p2": lambda: [Statement("theorem 3", "mistakes", theorem3(**g, **given))],
        "omkc_sua_p": lambda: [
            Statement("theorem 6", "mistakes", theorem6(**g, **given)),
            Statement("remark to theorem 6", "updates", updates_single(T=T, **g, **given)),
        ],
        "omkc_mua_p": lambda: [
            Statement("theorem 7", "mistakes", theorem7(**g, **given)),
            Statement("remark to theorem 7", "updates", updates_multiple(T=T, **g, **given)),
        ],
        "omkc_da_o": lambda: [
            Statement("theorem 8", "mistakes", theorem8(**g, **given)),
            *([] if batch is None else [
                Statement("corollary 9", "mistakes", corollary9(N=N, g=batch, **given))
            ]),
        ],
        "omkc_sua_o": lambda: [
            Statement("theorem 10", "mistakes", _theorem10(params, N, T, minimum))
        ],
    }[algorithm]()  # fmt: skip
    return [found[0]._replace(unproved=UNPROVED.get(algorithm, "")), *found[1:]]


def _theorem10(params: Mapping[str, Any], N: int, T: int, loss: float) -> float:
    """Evaluate theorem 10, which is about the step size that ``eta="theorem"`` asks for."""
    eta = params.get("eta", "theorem")
    if eta != "theorem" and not (isinstance(eta, float) and math.isnan(eta)):
        return math.inf
    given = {name: params[name] for name in ("beta", "R", "delta")}
    return theorem10(T=T, N=N, loss=loss, **given)
