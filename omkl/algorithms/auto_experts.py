"""Choose the columns and the random frequencies of the experts of ``auto`` and its classifier."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from omkl.core.representations import experts
from omkl.core.representations.experts import Experts
from omkl.core.representations.random_features import blank
from omkl.core.representations.second_order import blank_recursive

N_LAGS = 2  # past targets that experts read beside inputs
MOST_LAGS = 24  # past targets of the expert that reads only past targets
MOST_PRODUCTS = 64  # most products of two inputs; 10 inputs have 55, squares included
MOST_WHOLE = 256  # inputs; with more, linear experts have one matrix per PART columns
PART = 127  # columns; together with the constant feature 1 they fill whole packs
MOST_RAW = 40  # columns; with more, experts with waves do not read them linearly too
LAM, LARGER_LAM = 0.01, 1.0  # regularisation
LINEAR_DECAY, WAVE_DECAY = 0.995, 0.998  # memories of 200 and 500 rounds for 3 and 50 features
CHANGES_DECAY = 0.98  # a memory of 50 rounds
FARTHEST = 30.0  # limit of a Cauchy number; waves of higher frequencies are noise

# Function (generator, n, D) that draws frequencies (n, D) for n inputs, of length 1.
Draw = Callable[[np.random.Generator, int, int], np.ndarray]


def normal(rng: np.random.Generator, n: int, D: int) -> np.ndarray:
    """Draw D normal frequencies for n inputs, as an array (n, D), divided by sqrt(n).

    The division is needed because the Euclidean distance of standardised rows grows like sqrt(n).

    Parameters
    ----------
    rng
        Generator.
    n, D
        Number of inputs and of frequencies.
    """
    return rng.standard_normal((n, D)) / math.sqrt(n)


def cauchy(rng: np.random.Generator, n: int, D: int) -> np.ndarray:
    """Draw D Cauchy frequencies for n inputs, as an array (n, D), divided by n.

    The division is needed because the L1 distance of standardised rows grows like n.

    Parameters
    ----------
    rng, n, D
        As in ``normal``.
    """
    return _clipped_cauchy(rng, (n, D)) / n


def _ones(rng: np.random.Generator, n: int, D: int, numbers: np.ndarray) -> np.ndarray:
    """Return D frequencies for n inputs, as an array (n, D), each of a single input.

    Column j has ``numbers[j]`` at one input and zeros at the others. The columns go through the
    inputs in a random order, again and again.
    """
    W = np.zeros((n, D))
    W[np.resize(rng.permutation(n), D), np.arange(D)] = numbers
    return W


def _some(
    rng: np.random.Generator, n: int, D: int, most: int, draw: Callable[[int], Any]
) -> np.ndarray:
    """Return D frequencies for n inputs, as an array (n, D), each of at most ``most`` inputs.

    Column j has numbers from ``draw(count)`` at random inputs, and zeros at the others.
    """
    W = np.zeros((n, D))
    for j in range(D):
        numbers = draw(min(n, most))
        W[rng.choice(n, len(numbers), replace=False), j] = numbers
    return W


def _clipped_cauchy(rng: np.random.Generator, size: int | tuple[int, int]) -> np.ndarray:
    return np.clip(rng.standard_cauchy(size), -FARTHEST, FARTHEST)


def single(rng: np.random.Generator, n: int, D: int) -> np.ndarray:
    """Draw D frequencies for n inputs, as an array (n, D), for sums of functions of one input.

    Each has a normal value for one input, and zeros for the others.

    Parameters
    ----------
    rng, n, D
        As in ``normal``.
    """
    return _ones(rng, n, D, rng.standard_normal(D))


def cauchy_single(rng: np.random.Generator, n: int, D: int) -> np.ndarray:
    return _ones(rng, n, D, _clipped_cauchy(rng, D))


def pairs(rng: np.random.Generator, n: int, D: int) -> np.ndarray:
    """Draw D frequencies for n inputs, as an array (n, D).

    Each has normal values for two of the inputs, and zeros for the others.

    Parameters
    ----------
    rng, n, D
        As in ``normal``.
    """
    return _some(rng, n, D, 2, rng.standard_normal)


def cauchy_pairs(rng: np.random.Generator, n: int, D: int) -> np.ndarray:
    return _some(rng, n, D, 2, lambda k: _clipped_cauchy(rng, k))


def triples(rng: np.random.Generator, n: int, D: int) -> np.ndarray:
    """Draw D frequencies for n inputs, as an array (n, D).

    Each has normal values for three of the inputs, and zeros for the others.

    Parameters
    ----------
    rng, n, D
        As in ``normal``.
    """
    return _some(rng, n, D, 3, rng.standard_normal)


class Columns(Enum):
    """Kinds of columns that experts read.

    In lagged groups, INPUTS includes past targets, and CHANGES includes changes of past targets.
    """

    INPUTS = "inputs"
    PRODUCTS = "inputs and their products"
    CHANGES = "how columns changed; waves are of the inputs too"
    LABELS = "past targets"


class Group(NamedTuple):
    """Experts that differ only in a length scale: one expert per entry of ``lengths``.

    An expert has D waves (random features); D = 0 for linear experts.

    Experts that read changes predict the target minus the last target, other experts the target
    minus the mean of the targets.
    """

    name: str
    lagged: bool  # whether past targets are inputs too
    decay: float = 1.0
    draw: Draw = normal
    D: int = 0
    lengths: tuple[float, ...] = (1.0,)
    lam: float = LAM
    reads: Columns = Columns.INPUTS
    uncut: bool = False  # whether inputs are also read without softening


GROUPS: tuple[Group, ...] = (
    Group("linear", False, uncut=True),
    Group("linear, lags, fading", True, LINEAR_DECAY),
    Group("past targets", True, reads=Columns.LABELS),
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

WAVE_VARIANCE = 30.0  # prior variance of a coefficient of a wave; 10 to 100 do as well
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

# Kinds and numbers of the frequencies of the ridge regression on many waves.
MANY_WAVES: tuple[tuple[Draw, int], ...] = ((normal, 160), (triples, 120), (pairs, 120))


def _products(d: int, seed: int) -> np.ndarray:
    """Return the pairs (K, 2) of inputs to multiply, squares included.

    These are all pairs, or MOST_PRODUCTS random ones if there are more.
    """
    n = d * (d + 1) // 2
    if n <= MOST_PRODUCTS:
        return np.column_stack(np.triu_indices(d))
    rng = np.random.default_rng([seed, crc32(b"which products")])
    drawn = rng.choice(n, MOST_PRODUCTS, replace=False)
    first = np.cumsum(np.arange(d, 0, -1)) - np.arange(d, 0, -1)  # number of the first pair (k, k)
    left = np.searchsorted(first, drawn, side="right") - 1
    return np.column_stack([left, left + drawn - first[left]])


def columns_of_parts(d: int, n_raw: int, n_waves: int) -> list[int]:
    """Divide the raw columns of an expert among its matrices; return the number of columns of each.

    An expert with waves has a single matrix, and so have all experts of at most MOST_WHOLE inputs.
    Otherwise all matrices get about equally many columns, at most PART.

    Parameters
    ----------
    d
        Number of inputs.
    n_raw
        Number of raw columns of the expert.
    n_waves
        Number of waves of the expert.
    """
    if n_waves or d <= MOST_WHOLE:
        return [n_raw]
    return [len(part) for part in np.array_split(np.arange(n_raw), -(-n_raw // PART))]


class Layout(NamedTuple):
    """Order of the columns of ``experts.Experts``: inputs, past targets, changes, products.

    d           number of inputs
    n_lags      number of past targets
    n_products  number of products of two inputs
    """

    d: int
    n_lags: int
    n_products: int

    @property
    def n_columns(self) -> int:
        return 2 * self.d + self.n_lags + N_LAGS + self.n_products

    def read(self, group: Group) -> tuple[np.ndarray, int]:
        """Return the columns that a group reads, and the number n_raw of its linear features.

        The first n_raw of these columns are linear features. If the group has waves, they are
        computed from all of these columns.
        """
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


def layout_of(groups: Sequence[Group], d: int) -> Layout:
    reads = {group.reads for group in groups}
    n_products = min(MOST_PRODUCTS, d * (d + 1) // 2) if Columns.PRODUCTS in reads else 0
    return Layout(d, MOST_LAGS if Columns.LABELS in reads else N_LAGS, n_products)


def drawn(groups: Sequence[Group], d: int, seed: int) -> Experts:
    """Draw the random frequencies of new experts for d inputs, and return the experts.

    Each group has its own generator, so that its frequencies do not depend on the other groups.

    Parameters
    ----------
    groups
        Groups of experts, with distinct names.
    d
        Number of inputs.
    seed
        Seed of the random frequencies.
    """
    draws = {g.name: np.random.default_rng([seed, crc32(g.name.encode())]) for g in groups}
    learners = [(group, length) for group in groups for length in group.lengths]
    layout = layout_of(groups, d)
    products = _products(d, seed) if layout.n_products else np.zeros((0, 2), dtype=np.int64)
    columns, n_raw = zip(*(layout.read(group) for group, _ in learners), strict=True)
    n_waves = np.array([group.D for group, _ in learners])
    height = max(len(read) if D else 1 for read, D in zip(columns, n_waves, strict=True))
    padded = blank(len(learners), height, int(n_waves.max())).padded
    for i, (group, length) in enumerate(learners):
        n = len(columns[i])
        if group.D:
            padded[i, :n, : group.D] = group.draw(draws[group.name], n, group.D) / length
    split = [columns_of_parts(d, n, D) for n, D in zip(n_raw, n_waves, strict=True)]
    parts = len(learners) + np.cumsum([0, *(len(sizes) - 1 for sizes in split)])
    sizes = np.array([first for first, *_ in split] + [n for _, *more in split for n in more])
    # n standardised columns have norm sqrt(n). Without the factor 1 / width, the sum of z'P z over
    # several parts would start very large, and the parts, which lose the covariances between them,
    # would never reduce it.
    width = [sum(ns) + len(ns) if len(ns) > 1 else 1 for ns in split]
    prior = 1.0 / (np.array([group.lam for group, _ in learners]) * width)
    owners = np.repeat(np.arange(len(learners)), np.diff(parts))
    first = blank_recursive(
        padded, np.append(n_waves, n_waves[owners]), sizes, np.append(prior, prior[owners])
    )
    decay = np.array([group.decay for group, _ in learners])
    from_last = np.array([group.reads is Columns.CHANGES for group, _ in learners])
    return experts.fresh_experts(
        first, parts, decay, from_last, list(columns), products, (d, layout.n_lags, N_LAGS),
        np.array([group.uncut for group, _ in learners]),
    )  # fmt: skip


def many_waves(d: int, seed: int, waves: Sequence[tuple[Draw, int]]) -> np.ndarray:
    """Draw the frequencies (d, D) of the ridge regression on many waves (random features).

    Parameters
    ----------
    d
        Number of inputs.
    seed
        Seed.
    waves
        Kinds of frequencies, and the number of each kind.
    """
    rng = np.random.default_rng([seed, crc32(b"many waves")])
    return np.hstack([draw(rng, d, D) for draw, D in waves])
