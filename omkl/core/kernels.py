"""Kernel families and dictionaries of kernels.

A class describes a family: the exact value of its kernels, their random frequencies, the meaning of
their number b (the bandwidth or degree), the parts of compiled sums over rows, and overlaps in
closed form. Families with a spectral measure are shift invariant. Their kernels are products over
the inputs and 1 at zero, so that the measure is a probability distribution. With r = x - x':

| family    | kappa(r)                     | frequencies                        | bandwidth b |
|-----------|------------------------------|------------------------------------|-------------|
| gaussian  | exp(-||r||_2^2 / (2 b))      | normal, mean 0, covariance I / b   | a variance  |
| laplacian | exp(-||r||_1 / b)            | Cauchy, scale 1/b, in each input   | a length    |
| cauchy    | prod_k 1 / (1 + r_k^2 / b^2) | Laplace, scale 1/b, in each input  | a length    |
| matern32  | prod_k (1 + u_k) exp(-u_k),  | Student t of 3 degrees of freedom, | a length    |
|           | u = sqrt(3) abs(r) / b       | scale 1/b, in each input           |             |
| matern52  | prod_k (1 + u_k + u_k^2 / 3) | Student t of 5 degrees of freedom, | a length    |
|           | exp(-u_k), u = sqrt(5)       | scale 1/b, in each input           |             |
|           | abs(r) / b                   |                                    |             |

Exact-kernel learners also accept the polynomials kappa(x, z) = (x^T z)^degree, which have no
spectral measure. Their "bandwidth" is the degree. Learners of second order also accept the linear
kernel kappa(x, z) = x^T z + 1, whose features are x and 1. Its "bandwidth" has no meaning.

The setting ``features`` places the D frequencies of a kernel in one of three ways. In all three the
mean of cos(omega'(x - x')) over the frequencies has the expectation kappa(x, x'). The errors
differ:

rff         independent draws from the spectral distribution (Rahimi and Recht, NIPS 2007)
orthogonal  blocks of d orthogonal frequencies, whose lengths have the same distribution as in rff.
            Only for Gaussian kernels, whose spectral density depends only on the length of a
            frequency (F. X. Yu, A. T. Suresh, K. Choromanski, D. Holtmann-Rice, S. Kumar,
            "Orthogonal Random Features", NIPS 2016; its text was read in parts)
qmc         D points of a Sobol sequence, mapped by the quantile function of each input
            (H. Avron, V. Sindhwani, J. Yang, M. W. Mahoney, "Quasi-Monte Carlo Feature Maps for
            Shift-Invariant Kernels", JMLR 17 (2016); its text was read in parts). The seed
            scrambles the sequence
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from omkl.utils.constraints import is_number, is_whole, shown

RFF, ORTHOGONAL, QMC = FEATURES = ("rff", "orthogonal", "qmc")
SOBOL_BITS = 30
LogOverlap = Callable[[np.ndarray, np.ndarray], np.ndarray]

LEAST_BANDWIDTH, MOST_BANDWIDTH = 1e-100, 1e100
MOST_DEGREE = 100
MOST_KERNELS = 10_000


class Family:
    """Kernel family. ``register`` makes it available.

    Every family has ``gram``. A family with a spectral measure has ``value`` and ``frequencies``:
    its kernels are products over the inputs, 1 at zero, and functions of r / length alone, with
    length = b**length_power.

    Exact-kernel learners accept only families of this module that have the functions ``term``,
    ``finish`` and ``parameter``. ``term`` and ``finish`` are compiled for eight numbers at a time.
    They may use operators, ``abs``, and the given ``exp`` of arguments <= 0. The value of the
    kernel at the rows x and x_s is finish(exp, c, s) with c = parameter(b). If ``shares`` is True,
    s is the sum of term(x_k, x_sk) over the inputs k. This sum does not depend on c, so all kernels
    of the family share it, and kappa must be finite at s = 0. If ``shares`` is False, s is the
    product of term(x_k, x_sk, c) over the inputs k.

    name          name in configurations and run folders
    label         label of b: its key in conf/kernels, its axis in figures
    spectrum      name of the distribution of the frequencies; None if there is none
    isotropic     whether the frequencies are normal with covariance I / b, so that they may be
                  orthogonal
    length_power  power of b that is the length of a kernel: 1 for a length, 1/2 for a variance
    shares        whether ``term`` has no parameter c
    taken_by      description of the algorithms that accept a family without a spectral measure
    overlaps      functions by the name of a second family, which is this family or was registered
                  earlier. Each function takes the bandwidths of both kernels and returns log of the
                  integral of kappa kappa' over one input. Without a function, the integral is
                  computed numerically
    """

    name: ClassVar[str]
    label: ClassVar[str] = "bandwidth"
    spectrum: ClassVar[str | None] = None
    isotropic: ClassVar[bool] = False
    length_power: ClassVar[float] = 1.0
    shares: ClassVar[bool] = True
    taken_by: ClassVar[str] = "an algorithm with exact kernels"
    term: ClassVar[Callable[..., Any]]
    finish: ClassVar[Callable[..., Any]]
    overlaps: ClassVar[Mapping[str, LogOverlap]] = {}

    def value(self, r: np.ndarray, b: float) -> np.ndarray:
        """Return kappa (...,), in [0, 1], of differences r (..., d)."""
        raise TypeError(f"{self.name} kernels are no functions of a difference")

    def frequencies(self, rng: np.random.Generator, D: int, d: int, b: float) -> np.ndarray:
        """Draw frequencies (D, d) from the spectral distribution.

        Parameters
        ----------
        rng
            Generator.
        D, d
            Number of frequencies and of inputs.
        b
            Bandwidth.
        """
        raise TypeError(f"{self.name} kernels have no frequencies")

    def quantiles(self, u: np.ndarray, b: float) -> np.ndarray:
        """Return the quantiles of the frequencies of one input at u in (0, 1), for features=qmc."""
        raise ValueError(f"{self.name} kernels have no quantiles for features=qmc: take rff")

    def gram(self, A: np.ndarray, B: np.ndarray, b: float) -> np.ndarray:
        """Compute the exact kernel matrix.

        Parameters
        ----------
        A, B
            Rows (m, d) and (n, d).
        b
            Bandwidth.

        Returns
        -------
        ndarray
            Values (m, n) of the kernel.
        """
        return np.stack([self.value(a - B, b) for a in A])

    def parameter(self, b: float) -> float:
        """Return the parameter c of ``term`` and ``finish`` for bandwidth b."""
        return b

    def numbers(self, where: str, part: Mapping[str, Any]) -> list[float]:
        """Return the bandwidths or degrees that one entry of ``kernels.parts`` states.

        Raises ValueError that names the problem. ``where`` is the name of the entry in the error
        message.
        """
        unknown = set(part) - {"family", "bandwidth", "log10_bandwidth", "factor"}
        if unknown:
            raise ValueError(f"{where} has no key {shown(sorted(map(str, unknown))[0])}")
        factor = part.get("factor", 1.0)
        bandwidths = []
        for b in _bandwidths(where, part):
            for value in (b, factor):
                if not (is_number(value) and value > 0.0):
                    raise ValueError(f"{where}: bandwidth {shown(value)} is not a positive number")
            if not LEAST_BANDWIDTH <= factor * b <= MOST_BANDWIDTH:
                raise ValueError(
                    f"{where}: bandwidth {factor * b:g} is not from {LEAST_BANDWIDTH:g} to "
                    f"{MOST_BANDWIDTH:g}, where its frequencies are numbers"
                )
            bandwidths.append(float(factor * b))
        return bandwidths


FAMILIES: dict[str, Family] = {}


def register(family: type[Family]) -> type[Family]:
    """Register a family by its name. Raises ValueError if the name is taken."""
    if family.name in FAMILIES:
        raise ValueError(f"there is already a kernel family {family.name}")
    FAMILIES[family.name] = family()
    return family


def exponential(exp, c, s):
    """Return exp(c s), the ``finish`` of families whose kernels are exponential functions.

    Parameters
    ----------
    exp
        Exponential for arguments <= 0, of numbers or packs.
    c
        Parameter of the kernel, <= 0.
    s
        Sum of ``term`` over the inputs, >= 0.
    """
    return exp(s * c)


# --- Families -------------------------------------------------------------------------------------


@register
class Gaussian(Family):
    name = "gaussian"
    spectrum = "normal"
    isotropic = True
    length_power = 0.5
    overlaps: ClassVar = {
        "gaussian": lambda p, q: (
            0.5 * (math.log(2.0 * math.pi) + (np.log(p) + np.log(q)) - np.log(p + q))
        )
    }

    def value(self, r: np.ndarray, b: float) -> np.ndarray:
        return np.exp(np.square(r).sum(axis=-1) * (-0.5 / b))

    def frequencies(self, rng: np.random.Generator, D: int, d: int, b: float) -> np.ndarray:
        return rng.standard_normal((D, d)) / math.sqrt(b)

    def quantiles(self, u: np.ndarray, b: float) -> np.ndarray:
        from scipy.special import ndtri

        return np.asarray(ndtri(u)) / math.sqrt(b)

    def gram(self, A: np.ndarray, B: np.ndarray, b: float) -> np.ndarray:
        squares = np.square(A).sum(1)[:, None] + np.square(B).sum(1)[None, :] - 2.0 * A @ B.T
        return np.exp(np.maximum(squares, 0.0) * (-0.5 / b))

    def parameter(self, b: float) -> float:
        return -0.5 / b

    @staticmethod
    def term(a, b):
        return (a - b) * (a - b)

    finish = staticmethod(exponential)


@register
class Laplacian(Family):
    name = "laplacian"
    spectrum = "Cauchy"
    overlaps: ClassVar = {
        "laplacian": lambda p, q: math.log(2.0) + (np.log(p) + np.log(q)) - np.log(p + q)
    }

    def value(self, r: np.ndarray, b: float) -> np.ndarray:
        return np.exp(-np.abs(r).sum(axis=-1) / b)

    def frequencies(self, rng: np.random.Generator, D: int, d: int, b: float) -> np.ndarray:
        return rng.standard_cauchy((D, d)) / b

    def quantiles(self, u: np.ndarray, b: float) -> np.ndarray:
        return np.tan(math.pi * (u - 0.5)) / b

    def parameter(self, b: float) -> float:
        return -1.0 / b

    @staticmethod
    def term(a, b):
        return abs(a - b)

    finish = staticmethod(exponential)


@register
class Cauchy(Family):
    name = "cauchy"
    spectrum = "Laplace"
    shares = False
    overlaps: ClassVar = {
        "cauchy": lambda p, q: math.log(math.pi) + (np.log(p) + np.log(q)) - np.log(p + q)
    }

    def value(self, r: np.ndarray, b: float) -> np.ndarray:
        return np.exp(-np.log1p(np.square(r / b)).sum(axis=-1))

    def frequencies(self, rng: np.random.Generator, D: int, d: int, b: float) -> np.ndarray:
        return rng.laplace(size=(D, d)) / b

    def quantiles(self, u: np.ndarray, b: float) -> np.ndarray:
        return np.sign(u - 0.5) * -np.log1p(-np.abs(2.0 * u - 1.0)) / b

    def parameter(self, b: float) -> float:
        return 1.0 / b

    @staticmethod
    def term(a, b, c):
        scaled = (b - a) * c
        return scaled * scaled + 1.0

    @staticmethod
    def finish(exp, c, s):
        return 1.0 / s


class _Matern(Family):
    """Matern kernels: products over the inputs of a polynomial in u times exp(-u).

    u is sqrt(2 order) |r| / b, where the order is 3/2 or 5/2. (The order 1/2 would give the
    Laplacian kernel.) With one input this is the usual Matern kernel of length b. With several
    inputs the usual Matern kernel is different: a function of the distance ||r||.
    """

    spectrum = "Student t"
    degrees: ClassVar[int]  # degrees of freedom, twice the order

    def log_polynomial(self, u: np.ndarray) -> np.ndarray:
        """Return log of the polynomial in u >= 0 (..., d), separately for each input."""
        raise NotImplementedError

    def value(self, r: np.ndarray, b: float) -> np.ndarray:
        u = math.sqrt(self.degrees) / b * np.abs(r)
        return np.exp((self.log_polynomial(u) - u).sum(axis=-1))

    def frequencies(self, rng: np.random.Generator, D: int, d: int, b: float) -> np.ndarray:
        return rng.standard_t(self.degrees, size=(D, d)) / b

    def quantiles(self, u: np.ndarray, b: float) -> np.ndarray:
        from scipy.special import stdtrit

        return np.asarray(stdtrit(self.degrees, u)) / b


@register
class Matern32(_Matern):
    name = "matern32"
    degrees = 3

    def log_polynomial(self, u: np.ndarray) -> np.ndarray:
        return np.log1p(u)


@register
class Matern52(_Matern):
    name = "matern52"
    degrees = 5

    def log_polynomial(self, u: np.ndarray) -> np.ndarray:
        # 1 + u + u^2 / 3 = (1 + u) (1 + u^2 / (3 (1 + u))); u^2 itself would overflow.
        return np.log1p(u) + np.log1p(u / 3.0 * (u / (1.0 + u)))


@register
class Polynomial(Family):
    name = "polynomial"
    label = "degree"

    def gram(self, A: np.ndarray, B: np.ndarray, b: float) -> np.ndarray:
        return (A @ B.T) ** int(b)

    @staticmethod
    def term(a, b):
        return a * b

    @staticmethod
    def finish(exp, c, s):
        power = s
        for _ in range(int(c) - 1):
            power = power * s
        return power

    def numbers(self, where: str, part: Mapping[str, Any]) -> list[float]:
        if set(part) != {"family", "degree"}:
            raise ValueError(f"{where}: a polynomial has the keys family and degree, nothing else")
        degree = part["degree"]
        degrees = list(degree) if isinstance(degree, list | tuple) else [degree]
        for degree in degrees:
            if not (is_whole(degree) and 1 <= degree <= MOST_DEGREE):
                raise ValueError(
                    f"{where}: degree {shown(degree)} is not a whole number of at least 1, and at "
                    f"most {MOST_DEGREE}"
                )
        return [float(degree) for degree in degrees]


@register
class Linear(Family):
    """Linear kernel on the inputs, for learners of second order, which need no step size."""

    name = "linear"
    taken_by = "an algorithm of second order (ie_gp, vaw2)"

    def gram(self, A: np.ndarray, B: np.ndarray, b: float) -> np.ndarray:
        return A @ B.T + 1.0

    def numbers(self, where: str, part: Mapping[str, Any]) -> list[float]:
        if set(part) != {"family"}:
            raise ValueError(f"{where}: a linear kernel has the key family, nothing else")
        return [1.0]


LINEAR = Linear.name

# Compiled code only uses families of the package: the keys of the cache of machine code are digests
# of the sources of the package, and would not change with a family outside.
BUILT_IN = tuple(family for family in FAMILIES.values() if hasattr(family, "term"))


# --- Kernels and dictionaries ---------------------------------------------------------------------


class Kernel(NamedTuple):
    """One kernel of a dictionary.

    family     name of its family
    bandwidth  number b > 0 of the family: a bandwidth, or a degree
    features   placement of its frequencies, one of ``FEATURES``
    """

    family: str
    bandwidth: float
    features: str = RFF

    def value(self, r: np.ndarray) -> np.ndarray:
        """Return kappa(r) of differences r (..., d)."""
        return FAMILIES[self.family].value(r, self.bandwidth)

    def frequencies(self, rng: np.random.Generator, D: int, d: int) -> np.ndarray:
        """Draw frequencies (D, d) from the kernel's spectral distribution, placed by ``features``.

        Parameters
        ----------
        rng
            Generator.
        D, d
            Number of frequencies and of inputs.

        Raises
        ------
        ValueError
            The kernel has no spectral distribution, or ``features`` does not fit its family.
        """
        self.require_frequencies()
        family = FAMILIES[self.family]
        if self.features == ORTHOGONAL:
            return orthogonal_normals(rng, D, d) / math.sqrt(self.bandwidth)
        if self.features == QMC:
            return family.quantiles(even_uniforms(rng, D, d), self.bandwidth)
        return family.frequencies(rng, D, d, self.bandwidth)

    def require_frequencies(self) -> None:
        """Raise ValueError for a kernel without a spectral distribution."""
        if FAMILIES[self.family].spectrum is None:
            raise ValueError(
                f"{self.family} kernels have no random features: choose a dictionary without "
                f"(kernels=gauss13), or {FAMILIES[self.family].taken_by}"
            )
        if self.features == ORTHOGONAL and not FAMILIES[self.family].isotropic:
            raise ValueError(
                f"features={ORTHOGONAL} is for kernels that depend on one distance, and "
                f"{self.family} kernels are a product over the inputs: choose a dictionary of "
                f"Gaussian ones (kernels=gauss13), or features={QMC}"
            )

    def gram(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """Return the exact kernel matrix (m, n) of rows A (m, d) and B (n, d)."""
        return FAMILIES[self.family].gram(A, B, self.bandwidth)


def with_features(kernels: Mapping[str, Any], features: str) -> dict[str, Any]:
    """Add the placement of frequencies to the content of a YAML file of ``conf/kernels``.

    Raises ValueError if the content already has another placement.
    """
    if features not in FEATURES:
        raise ValueError(f"features={shown(features)} is none of {', '.join(FEATURES)}")
    if "features" in kernels and features not in (RFF, kernels["features"]):
        raise ValueError(
            f"features={features} and kernels.features={kernels['features']} differ: give one"
        )
    return dict(kernels) if features == RFF else {**kernels, "features": features}


def dictionary(config: Mapping[str, Any], n_inputs: int | None = None) -> tuple[Kernel, ...]:
    """Build the kernels that a YAML file of ``conf/kernels`` describes, in its order.

    Parameters
    ----------
    config
        ``config["parts"]`` is a list. Each part has a family and either ``bandwidth`` (a number or
        a list) or ``log10_bandwidth`` with from, to and n (evenly spaced exponents). ``factor``
        multiplies the bandwidths, for example to convert those of another convention. With
        ``per_input: true``, for Gaussian kernels, the number of inputs multiplies them too. A
        polynomial part has ``degree`` instead, a whole number or a list. ``config["features"]``, if
        present, is for all kernels.
    n_inputs
        Number of inputs d, lags included. If None (unknown), ``per_input`` multiplies by 1.

    Raises
    ------
    ValueError
        Names the part and the problem.
    """
    kernels: list[Kernel] = []
    features = config.get("features", RFF)
    if features not in FEATURES:
        raise ValueError(f"features={shown(features)} is none of {', '.join(FEATURES)}")
    parts = config.get("parts") or []
    if not isinstance(parts, list | tuple):
        raise ValueError(f"kernels.parts={shown(parts)} is no list of families and bandwidths")
    for number, part in enumerate(parts):
        where = f"kernels.parts[{number}]"
        if not isinstance(part, Mapping):
            raise ValueError(f"{where} is no mapping with family and bandwidth: {shown(part)}")
        family = part.get("family")
        if not isinstance(family, str) or family not in FAMILIES:
            raise ValueError(f"{where}.family={shown(family)}; there are: {', '.join(FAMILIES)}")
        part = _of_inputs(where, part, 1 if n_inputs is None else n_inputs)
        kernels += [Kernel(family, b, features) for b in FAMILIES[family].numbers(where, part)]
        if len(kernels) > MOST_KERNELS:
            raise ValueError(f"{where}: a dictionary has at most {MOST_KERNELS:,} kernels")
    if not kernels:
        raise ValueError("kernels.parts is empty: a dictionary needs at least one kernel")
    return tuple(kernels)


def _of_inputs(where: str, part: Mapping[str, Any], n_inputs: int) -> Mapping[str, Any]:
    """Replace ``per_input`` in one part of a dictionary by a factor, the number of inputs.

    Squared distances of rows grow in proportion to the number of inputs.
    """
    if "per_input" not in part:
        return part
    if not isinstance(part["per_input"], bool):
        raise ValueError(f"{where}.per_input={shown(part['per_input'])} is not true or false")
    if not FAMILIES[part["family"]].isotropic:
        raise ValueError(f"{where}.per_input is for Gaussian kernels, not {part['family']} ones")
    factor = part.get("factor", 1.0)
    if part["per_input"] and is_number(factor):
        factor = n_inputs * factor
    return {key: v for key, v in part.items() if key != "per_input"} | {"factor": factor}


def _bandwidths(where: str, part: Mapping[str, Any]) -> list[Any]:
    if ("bandwidth" in part) == ("log10_bandwidth" in part):
        raise ValueError(f"{where} needs either bandwidth or log10_bandwidth")
    if "bandwidth" in part:
        bandwidth = part["bandwidth"]
        return (
            list(bandwidth)
            if isinstance(bandwidth, Sequence) and not isinstance(bandwidth, str)
            else [bandwidth]
        )
    grid = part["log10_bandwidth"]
    exponents = grid if isinstance(grid, Mapping) else {}
    ends = [exponents[key] for key in ("from", "to") if is_number(exponents.get(key))]
    if set(exponents) != {"from", "to", "n"} or len(ends) < 2:
        raise ValueError(f"{where}.log10_bandwidth needs from, to and n; got {shown(grid)}")
    if not (is_whole(exponents["n"]) and 1 <= exponents["n"] <= MOST_KERNELS):
        raise ValueError(
            f"{where}.log10_bandwidth.n={shown(exponents['n'])} is not a whole number of at least "
            f"1, and at most {MOST_KERNELS:,}"
        )
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite value is refused below
        return [float(10.0**e) for e in np.linspace(float(ends[0]), float(ends[1]), exponents["n"])]


# --- Placement of frequencies ---------------------------------------------------------------------


def orthogonal_normals(rng: np.random.Generator, D: int, d: int) -> np.ndarray:
    """Draw normal frequencies (D, d) with covariance I, orthogonal within blocks of d rows.

    Parameters
    ----------
    rng
        Generator.
    D, d
        Number of frequencies and of inputs. Blocks begin at the rows 0, d, 2 d, ..
    """
    blocks = []
    for first in range(0, D, d):
        n = min(d, D - first)  # only the needed rows: d rows would take d^3 time
        q, r = np.linalg.qr(rng.standard_normal((d, n)))
        q *= np.sign(np.diag(r))  # makes q uniform over the rotations
        lengths = np.sqrt(rng.chisquare(d, size=n))
        blocks.append(lengths[:, None] * q.T)
    return np.concatenate(blocks)


def even_uniforms(rng: np.random.Generator, D: int, d: int) -> np.ndarray:
    """Return the first D points of a scrambled Sobol sequence, inside the open unit cube.

    Parameters
    ----------
    rng
        Generator of the scrambling.
    D, d
        Number of points and of inputs.

    Returns
    -------
    Points (D, d).

    Raises
    ------
    ValueError
        There are more inputs than the sequence has dimensions.
    """
    from scipy.stats import qmc  # slow to import, and rarely needed

    if d > qmc.Sobol.MAXDIM:
        raise ValueError(f"features=qmc places up to {qmc.Sobol.MAXDIM:,} inputs, not {d:,}")
    sequence = qmc.Sobol(d, scramble=True, bits=SOBOL_BITS, seed=rng)
    points: np.ndarray = sequence.random_base2((D - 1).bit_length())[:D]
    return points + 0.5 ** (SOBOL_BITS + 1)  # midpoints of cells, because 0 has no finite quantile
