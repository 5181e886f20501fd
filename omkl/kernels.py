"""Kernel families and dictionaries of kernels.

Every family is shift invariant, a product over the inputs, and 1 at zero, so
its spectral measure is a probability distribution. A family states its exact
value and samples its frequencies side by side:

| family    | kappa(r)                     | frequencies                        | bandwidth b |
|-----------|------------------------------|------------------------------------|-------------|
| gaussian  | exp(-||r||_2^2 / (2 b))      | normal, mean 0, covariance I / b   | a variance  |
| laplacian | exp(-||r||_1 / b)            | Cauchy, scale 1/b, in each input   | a length    |
| cauchy    | prod_k 1 / (1 + r_k^2 / b^2) | Laplace, scale 1/b, in each input  | a length    |

Exact-kernel learners also know the polynomials kappa(x, x') = (x'x')^degree, which have
no spectral measure; their "bandwidth" is the degree.

"Bandwidth" in the dictionaries of Ghari and Shen is the variance for Gaussian
kernels (exp(-||r||^2 / (2 b))) and the length for Laplacian ones.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.jit import compiled, implement
from omkl.weights import exp_nonpositive, log_one_minus_exp, log_one_plus

LOG_2 = math.log(2.0)


class Family(NamedTuple):
    """One kernel family: exact value and spectral sampling.

    value(r, b)              r (..., d) differences -> (...) in [0, 1]
    frequencies(rng, D, d, b)   -> (D, d) draws from the spectral distribution
    """

    name: str
    value: Callable[[np.ndarray, float], np.ndarray]
    frequencies: Callable[[np.random.Generator, int, int, float], np.ndarray]


def _gaussian_value(r: np.ndarray, b: float) -> np.ndarray:
    return np.exp(-0.5 / b * np.square(r).sum(axis=-1))


def _gaussian_frequencies(rng: np.random.Generator, D: int, d: int, b: float) -> np.ndarray:
    return rng.standard_normal((D, d)) / math.sqrt(b)


def _laplacian_value(r: np.ndarray, b: float) -> np.ndarray:
    return np.exp(-np.abs(r).sum(axis=-1) / b)


def _laplacian_frequencies(rng: np.random.Generator, D: int, d: int, b: float) -> np.ndarray:
    return rng.standard_cauchy((D, d)) / b


def _cauchy_value(r: np.ndarray, b: float) -> np.ndarray:
    return np.exp(-np.log1p(np.square(r / b)).sum(axis=-1))


def _cauchy_frequencies(rng: np.random.Generator, D: int, d: int, b: float) -> np.ndarray:
    return rng.laplace(size=(D, d)) / b


FAMILIES = {
    family.name: family
    for family in (
        Family("gaussian", _gaussian_value, _gaussian_frequencies),
        Family("laplacian", _laplacian_value, _laplacian_frequencies),
        Family("cauchy", _cauchy_value, _cauchy_frequencies),
    )
}


POLYNOMIAL = "polynomial"


class Kernel(NamedTuple):
    """One kernel of a dictionary: a family's name and a bandwidth > 0, or a degree."""

    family: str
    bandwidth: float

    def value(self, r: np.ndarray) -> np.ndarray:
        """kappa(r) for differences r (..., d)."""
        return FAMILIES[self.family].value(r, self.bandwidth)

    def frequencies(self, rng: np.random.Generator, D: int, d: int) -> np.ndarray:
        """(D, d) frequencies drawn from the kernel's spectral distribution."""
        self.require_frequencies()
        return FAMILIES[self.family].frequencies(rng, D, d, self.bandwidth)

    def require_frequencies(self) -> None:
        """ValueError for a polynomial: it has no spectral distribution."""
        if self.family == POLYNOMIAL:
            raise ValueError(
                "polynomial kernels have no random features: choose a dictionary without "
                "(kernels=gauss13), or an algorithm with exact kernels"
            )

    def gram(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """Exact kernel matrix: A (m, d), B (n, d) -> (m, n)."""
        if self.family == POLYNOMIAL:
            return (A @ B.T) ** int(self.bandwidth)
        if self.family == "gaussian":
            squares = np.square(A).sum(1)[:, None] + np.square(B).sum(1)[None, :] - 2.0 * A @ B.T
            return np.exp(-0.5 / self.bandwidth * np.maximum(squares, 0.0))
        return np.stack([self.value(a - B) for a in A])


def dictionary(config: Mapping[str, Any]) -> tuple[Kernel, ...]:
    """The kernels that ``conf/kernels/*.yaml`` describes, in its order.

    ``config["parts"]`` is a list; each part has a family and either
    ``bandwidth`` (a number or a list) or ``log10_bandwidth`` with from, to and n
    (evenly spaced exponents); ``factor`` multiplies them, for other conventions.
    A polynomial part has ``degree`` instead, a whole number or a list. Raises ValueError
    naming what is wrong.
    """
    kernels: list[Kernel] = []
    parts = config.get("parts") or []
    for number, part in enumerate(parts):
        where = f"kernels.parts[{number}]"
        if not isinstance(part, Mapping):
            raise ValueError(f"{where} is no mapping with family and bandwidth: {part!r}")
        family = part.get("family")
        if family == POLYNOMIAL:
            kernels += [Kernel(family, float(degree)) for degree in _degrees(where, part)]
            continue
        if not isinstance(family, str) or family not in FAMILIES:
            raise ValueError(
                f"{where}.family={family!r}; there are: {', '.join(FAMILIES)}, {POLYNOMIAL}"
            )
        unknown = set(part) - {"family", "bandwidth", "log10_bandwidth", "factor"}
        if unknown:
            raise ValueError(f"{where} has no key {sorted(map(str, unknown))[0]!r}")
        factor = part.get("factor", 1.0)
        for b in _bandwidths(where, part):
            for value in (b, factor):
                if isinstance(value, bool) or not (
                    isinstance(value, int | float) and 0.0 < value < math.inf
                ):
                    raise ValueError(f"{where}: bandwidth {value!r} is not a positive number")
            kernels.append(Kernel(family, float(factor * b)))
    if not kernels:
        raise ValueError("kernels.parts is empty: a dictionary needs at least one kernel")
    return tuple(kernels)


def _degrees(where: str, part: Mapping[str, Any]) -> list[int]:
    if set(part) != {"family", "degree"}:
        raise ValueError(f"{where}: a polynomial has the keys family and degree, nothing else")
    given = part["degree"]
    degrees = list(given) if isinstance(given, list | tuple) else [given]
    for degree in degrees:
        if isinstance(degree, bool) or not isinstance(degree, int) or degree < 1:
            raise ValueError(f"{where}: degree {degree!r} is not a whole number of at least 1")
    return degrees


def _bandwidths(where: str, part: Mapping[str, Any]) -> list[Any]:
    if ("bandwidth" in part) == ("log10_bandwidth" in part):
        raise ValueError(f"{where} needs either bandwidth or log10_bandwidth")
    if "bandwidth" in part:
        given = part["bandwidth"]
        return (
            list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
        )
    grid = part["log10_bandwidth"]
    try:
        low, high, n = float(grid["from"]), float(grid["to"]), grid["n"]
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{where}.log10_bandwidth needs from, to and n; got {grid!r}") from None
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"{where}.log10_bandwidth.n={n!r} is not a whole number of at least 1")
    with np.errstate(over="ignore"):  # the infinity is refused with its place
        return [float(10.0**e) for e in np.linspace(low, high, n)]


def log_overlap(a: Kernel, b: Kernel) -> float:
    """log of the integral of kappa_a(r) kappa_b(r) over one input, r from -inf to inf.

    Closed forms throughout; in d inputs the integral is this one to the power d.
    """
    p, q = np.array([a.bandwidth]), np.array([b.bandwidth])
    return float(_log_overlaps(a.family, p, b.family, q)[0])


def _log_overlaps(first: str, p: np.ndarray, second: str, q: np.ndarray) -> np.ndarray:
    """log_overlap for arrays of bandwidths of two families."""
    if first > second:
        first, p, second, q = second, q, first, p
    log_p, log_q = np.log(p), np.log(q)
    match first, second:
        case "gaussian", "gaussian":
            return 0.5 * (math.log(2.0 * math.pi) + (log_p + log_q) - np.log(p + q))
        case "laplacian", "laplacian":
            return math.log(2.0) + (log_p + log_q) - np.log(p + q)
        case "cauchy", "cauchy":
            return math.log(math.pi) + (log_p + log_q) - np.log(p + q)
        case "gaussian", "laplacian":
            return 0.5 * (math.log(2.0 * math.pi) + log_p) + _log_erfcx(np.sqrt(0.5 * p) / q)
        case "cauchy", "gaussian":
            return math.log(math.pi) + log_p + _log_erfcx(p / np.sqrt(2.0 * q))
        case "cauchy", "laplacian":
            return math.log(2.0) + log_p + np.log(_exponential_over_cauchy(p / q))
    raise AssertionError(f"no overlap of {first} and {second}")


def _log_erfcx(z: np.ndarray) -> np.ndarray:
    from scipy.special import erfcx

    return np.log(erfcx(z))


def _exponential_over_cauchy(z: np.ndarray) -> np.ndarray:
    """The integral of exp(-z u) / (1 + u^2) over u > 0, for z > 0 (A&S 5.2.12)."""
    from scipy.special import sici

    z = np.asarray(z, dtype=float)
    si, ci = sici(z)
    result = np.asarray(ci * np.sin(z) + (0.5 * math.pi - si) * np.cos(z))
    far = z > 40.0  # the closed form cancels; the asymptotic series is exact to rounding here
    if far.any():
        squares = z[far] ** 2
        term, total = 1.0 / z[far], np.zeros(far.sum())
        for k in range(1, 14):
            total += term
            term = term * -(2 * k - 1) * (2 * k) / squares
        result[far] = total
    return result


# --- Divergences ----------------------------------------------------------------------------------


def log_divergence(kernels: Sequence[Kernel], d: int) -> np.ndarray:
    """log of Delta(kappa_i, kappa_j), the integral over R^d of (kappa_i - kappa_j)^2, (N, N).

    The families are products over the inputs, so one-dimensional integrals to
    the power d are enough; they stay in the log domain, where d = 520 neither
    over- nor underflows. Equal kernels have -inf. Source: Ghari and Shen, JMLR, (27).
    """
    families = np.array([kernel.family for kernel in kernels])
    bandwidths = np.array([kernel.bandwidth for kernel in kernels])
    log_product = np.empty((len(kernels), len(kernels)))
    for first in np.unique(families):
        for second in np.unique(families):
            rows, columns = np.nonzero(families == first)[0], np.nonzero(families == second)[0]
            p, q = np.broadcast_arrays(bandwidths[rows][:, None], bandwidths[columns][None, :])
            log_product[np.ix_(rows, columns)] = d * _log_overlaps(first, p, second, q)
    own = np.diagonal(log_product)
    squares = np.logaddexp(own[:, None], own[None, :])
    ratio = math.log(2.0) + log_product - squares  # log of 2 int kk' / (int k^2 + int k'^2) <= 0
    with np.errstate(divide="ignore"):
        result = squares + np.log(-np.expm1(np.minimum(ratio, 0.0)))
    np.fill_diagonal(result, -np.inf)
    return result


class Matrix(NamedTuple):
    """Divergences, or their logarithms, as a matrix (N, N)."""

    values: np.ndarray

    @property
    def n_kernels(self) -> int:
        return len(self.values)


class Divergence(NamedTuple):
    """``log_divergence`` of every two of N kernels, computed when asked for: O(N) memory.

    The overlap of two kernels scales with their lengths a and b: its log is
    log a + H(log b - log a), and H, one function for every two families, is kept as
    polynomials on short pieces of its argument. Equal to the matrix to 1e-12 (relative
    where it is above 1).

    family   (N,) number of the kernel's family
    length   (N,) log of the kernel's length
    own      (N,) log of the integral of kappa_i^2 over R^d
    d        inputs
    first    (F, F) the first piece for families f <= g
    n_pieces (F, F) how many pieces
    lowest   (F, F) argument at which the first piece begins
    pieces   (n, DEGREE + 1) coefficients, the highest power first
    """

    family: np.ndarray
    length: np.ndarray
    own: np.ndarray
    d: int
    first: np.ndarray
    n_pieces: np.ndarray
    lowest: np.ndarray
    pieces: np.ndarray

    @property
    def n_kernels(self) -> int:
        return len(self.own)


LARGEST_MATRIX = 1024  # kernels: 8 MB
PER_UNIT = 4  # pieces of H in a unit of its argument
DEGREE = 11
# A bandwidth is a length, or of a Gaussian its square.
LENGTH_POWER = {"gaussian": 0.5, "laplacian": 1.0, "cauchy": 1.0}


@functools.lru_cache(maxsize=4)
def divergence(kernels: tuple[Kernel, ...], d: int) -> Matrix | Divergence:
    """``log_divergence`` in a form that fits into memory: the matrix while it is small.

    Made once for all seeds.
    """
    if len(kernels) <= LARGEST_MATRIX:
        return Matrix(log_divergence(kernels, d))
    return computed(kernels, d)


def computed(kernels: Sequence[Kernel], d: int) -> Divergence:
    """What the divergences of these kernels in d inputs are computed from."""
    names = sorted({kernel.family for kernel in kernels})
    bandwidth = np.array([kernel.bandwidth for kernel in kernels])
    family = np.array([names.index(kernel.family) for kernel in kernels])
    length = np.array([LENGTH_POWER[k.family] for k in kernels]) * np.log(bandwidth)
    own = np.empty(len(kernels))
    F = len(names)
    first, count = np.zeros((F, F), dtype=np.int64), np.zeros((F, F), dtype=np.int64)
    lowest = np.zeros((F, F))
    pieces: list[np.ndarray] = []
    for f, g in itertools.combinations_with_replacement(range(F), 2):
        here, there = length[family == f], length[family == g]
        low = 0.0 if f == g else there.min() - here.max()
        high = there.max() - here.min()
        n = max(1, math.ceil((high - low) * PER_UNIT))
        first[f, g], count[f, g], lowest[f, g] = len(pieces), n, low
        pieces += list(_pieces(names[f], names[g], low, n))
    table = np.array(pieces)
    for f in range(F):
        where = family == f
        own[where] = d * (length[where] + np.polyval(table[first[f, f]], -1.0))
    return Divergence(family, length, own, d, first, count, lowest, table)


def _pieces(one: str, other: str, low: float, n: int) -> np.ndarray:
    """H of two families from ``low`` on, n pieces: (n, DEGREE + 1).

    The interpolation at Chebyshev's points is exact to rounding on pieces this short.
    """
    nodes = np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
    s = low + (np.arange(n)[:, None] + 0.5 * (nodes + 1.0)) / PER_UNIT
    values = _log_overlaps(one, np.ones_like(s), other, np.exp(s / LENGTH_POWER[other]))
    return np.linalg.solve(np.vander(nodes), values.T).T


@functools.singledispatch
def divergences(divergence, i, others, n, out, room):
    """out[m] = divergence of kernel i and kernel others[m] for m < n; room (n,) is written."""
    raise TypeError(f"{type(divergence)} holds no divergences")


def _computed_divergences(divergence, i, others, n, out, room):
    family, length, own = divergence.family, divergence.length, divergence.own
    pieces = divergence.pieces
    fi, li, own_i = family[i], length[i], own[i]
    for m in range(n):
        fj, lj = family[others[m]], length[others[m]]
        swap = fj < fi or (fj == fi and lj < li)
        f, g = (fj, fi) if swap else (fi, fj)
        begin = lj if swap else li
        s = li - lj if swap else lj - li
        x = (s - divergence.lowest[f, g]) * PER_UNIT
        k = min(max(int(x), 0), divergence.n_pieces[f, g] - 1)
        x = 2.0 * (x - k) - 1.0
        k += divergence.first[f, g]
        H = pieces[k, 0]
        for c in range(1, DEGREE + 1):
            H = H * x + pieces[k, c]
        # Equal kernels: any overlap above their own, log Delta is -inf then.
        out[m] = np.inf if fi == fj and li == lj else divergence.d * (begin + H)
    # Several short passes: a long one would be left as scalar code.
    for m in range(n):
        own_j = own[others[m]]
        room[m] = -abs(own_j - own_i)
    for m in range(n):
        room[m] = exp_nonpositive(room[m])
    for m in range(n):
        own_j = own[others[m]]
        room[m] = (own_j if own_i < own_j else own_i) + log_one_plus(room[m])
    for m in range(n):
        ratio = LOG_2 + out[m] - room[m]  # log of 2 int kk' / (int k^2 + int k'^2) <= 0
        out[m] = log_one_minus_exp(ratio if ratio < 0.0 else 0.0)
    for m in range(n):
        out[m] += room[m]


def _given_divergences(divergence, i, others, n, out, room):
    values = divergence.values
    for m in range(n):
        out[m] = values[i, others[m]]


implement(divergences, Divergence, _computed_divergences)
implement(divergences, Matrix, _given_divergences)


@compiled
def _fill(divergence, rows, others, out, room):
    for r in range(rows.shape[0]):
        divergences(divergence, rows[r], others, others.shape[0], out[r], room)


def rows_of(divergence: Any, rows: np.ndarray) -> np.ndarray:
    """Rows (n, N) of the divergences: ``divergence`` is what ``divergences`` takes."""
    out = np.empty((len(rows), divergence.n_kernels))
    if isinstance(divergence, Matrix):
        return divergence.values[rows]
    others = np.arange(out.shape[1])
    _fill(divergence, np.asarray(rows, dtype=np.int64), others, out, np.empty(out.shape[1]))
    return out
