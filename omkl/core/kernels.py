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

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np


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
