"""What the release of the JMLR paper draws, in its order: NumPy's legacy generator, seeded once.

The notebooks call ``seed(0)`` and run 20 repetitions. Each draws the features of all kernels and
then uniform numbers one by one, as they are used: OMKL-GF for M = 5, 10, 1, 15 and 20, OMKL-SFG
for the same M, OMKL-SFG-R for the same M. Where a run begins in that stream depends on the number
of rounds T, so ``replay`` is T: with it the seed is the number of the repetition, 0 .. 19, and a
learner draws what the release drew there. With ``replay`` 0 features and selection are drawn as
those of other learners.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from omkl.core.compiler import inlined, qualify_name
from omkl.core.hyperparameters import Range
from omkl.core.representations import Representation
from omkl.core.representations.blocked import LOCAL_FEATURES
from omkl.core.representations.random_features import (
    RANDOM_FEATURES,
    RandomFeatures,
    blank,
    draw_features,
)

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel

REPLAY = Annotated[int, Range(0), "T"]
RUNS = (5, 10, 1, 15, 20)  # values of M, in the order of the notebooks
DRAWN = 302  # rounds in which OMKL-GF draws its graph
NODES = 2  # its selective nodes
EXPLORED = 300  # rounds of OMKL-SFG with a draw, and of OMKL-SFG-R with two
WORDS, SHIFT = 624, 397  # of the Mersenne Twister


class ReplayedFeatures(NamedTuple):
    """``RandomFeatures``, and the generator that goes on where the release drew its features.

    words   (624,) state of the Mersenne Twister; empty where nothing is replayed
    place   (1,) how many of them are used up
    """

    padded: np.ndarray
    theta: np.ndarray
    norm2: np.ndarray
    n_waves: np.ndarray
    words: Annotated[np.ndarray, Range(0, 2**32 - 1)]
    place: Annotated[np.ndarray, Range(0, WORDS)]

    @property
    def omega(self) -> np.ndarray:
        """As of ``RandomFeatures``."""
        return RandomFeatures(*self[:4]).omega

    @property
    def coefficients(self) -> np.ndarray:
        """As of ``RandomFeatures``."""
        return RandomFeatures(*self[:4]).coefficients

    @property
    def n_kernels(self) -> int:
        return len(self.theta)


qualify_name(ReplayedFeatures)


def uniforms_of_gf(M: int, T: int) -> int:
    """How many uniform numbers a run of OMKL-GF takes."""
    return M * NODES * min(DRAWN, T) + T


def uniforms_of_sfg(M: int, T: int) -> int:
    """How many uniform numbers a run of OMKL-SFG takes."""
    return min(EXPLORED, T)


def uniforms_of_sfg_r(M: int, T: int) -> int:
    """How many uniform numbers a run of OMKL-SFG-R takes."""
    return min(EXPLORED, T) + T


Uniforms = Callable[[int, int], int]
FAMILIES: tuple[Uniforms, ...] = (uniforms_of_gf, uniforms_of_sfg, uniforms_of_sfg_r)


def uniforms_before(family: Uniforms, M: int, T: int) -> int:
    """How many uniform numbers a repetition takes before the run of a family with M kernels.

    Raises
    ------
    ValueError
        For an M that the notebooks do not run.
    """
    if M not in RUNS:
        known = ", ".join(map(str, sorted(RUNS)))
        raise ValueError(
            f"algorithm.M={M}: the release ran M = {known}, so only these can be replayed; "
            "with algorithm.replay=0 any M will do"
        )
    place = FAMILIES.index(family)
    whole = sum(other(m, T) for other in FAMILIES[:place] for m in RUNS)
    return whole + sum(family(m, T) for m in RUNS[: RUNS.index(M)])


def released_draws(
    kernels: Sequence[Kernel], d: int, D: int, T: int, repetition: int
) -> tuple[np.ndarray, np.random.RandomState]:
    """The frequencies (N, d, D) of a repetition, and the generator after them.

    Raises
    ------
    ValueError
        For kernels that the release does not know.
    """
    unknown = {kernel.family for kernel in kernels} - {"gaussian", "laplacian"}
    if unknown:
        raise ValueError(
            f"algorithm.replay: the release knows no {sorted(unknown)[0]} kernels; with "
            "algorithm.replay=0 all kernels with random features will do"
        )
    generator = np.random.RandomState(0)
    for r in range(repetition + 1):
        if r > 0:
            generator.random_sample(sum(family(M, T) for family in FAMILIES for M in RUNS))
        omega = np.array([_frequencies(kernel, d, D, generator) for kernel in kernels])
    return omega, generator


def _frequencies(kernel: Kernel, d: int, D: int, generator: np.random.RandomState) -> np.ndarray:
    if kernel.family == "gaussian":
        return generator.randn(d, D) * np.sqrt(1.0 / kernel.bandwidth)
    return generator.standard_cauchy((d, D)) / kernel.bandwidth


def _drawn(
    params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int
) -> tuple[RandomFeatures, np.random.RandomState | None]:
    """Features as the release drew them, or where nothing is replayed those of all learners."""
    if not params.replay:
        return draw_features(kernels, d, D, seed), None
    omega, generator = released_draws(kernels, d, D, params.replay, seed)
    model = blank(len(kernels), d, D)
    model.omega[:] = omega
    return model, generator


def replayed_features(family: Uniforms) -> Representation:
    """Random features with the generator of the release at the first number of a family's run."""
    # ``untaught`` would hand the features of one run, and its generator, to another.
    return RANDOM_FEATURES._replace(
        fresh=functools.partial(_fresh_with_generator, family),
        written=("words", "place"),
        untaught=None,
    )


def _fresh_with_generator(
    family: Uniforms, params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int
) -> ReplayedFeatures:
    model, generator = _drawn(params, kernels, d, D, seed)
    words, place = np.empty(0, dtype=np.int64), 0
    if generator is not None:
        generator.random_sample(uniforms_before(family, params.M, params.replay))
        state: Any = generator.get_state(legacy=False)
        words, place = state["state"]["key"].astype(np.int64), state["state"]["pos"]
    return ReplayedFeatures(*model, words, np.array([place]))


def _fresh(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> RandomFeatures:
    return _drawn(params, kernels, d, D, seed)[0]


# Of learners that evaluate every kernel and draw nothing else.
REPLAYED_LOCAL_FEATURES = LOCAL_FEATURES._replace(fresh=_fresh, untaught=None)


@inlined
def next_word(words, place):
    """The next 32 random bits of the Mersenne Twister: words (624,), place (1,)."""
    if place[0] == WORDS:
        for k in range(WORDS):
            y = (words[k] & 0x80000000) | (words[(k + 1) % WORDS] & 0x7FFFFFFF)
            words[k] = words[(k + SHIFT) % WORDS] ^ (y >> 1) ^ (0x9908B0DF * (y & 1))
        place[0] = 0
    y = words[place[0]]
    place[0] += 1
    y ^= y >> 11
    y ^= (y << 7) & 0x9D2C5680
    y ^= (y << 15) & 0xEFC60000
    return y ^ (y >> 18)


@inlined
def next_uniform(model, rng):
    """The next number in [0, 1): the release's ``numpy.random.random``, or our own."""
    if model.words.shape[0] == 0:
        return rng.random()
    high = next_word(model.words, model.place) >> 5
    low = next_word(model.words, model.place) >> 6
    return (high * 67108864.0 + low) / 9007199254740992.0
