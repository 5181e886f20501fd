"""Whether the machine can hold what the settings ask for: told before the first round."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from omkl.config.settings import Settings
from omkl.core.protocol import Algorithm
from omkl.core.representations import Representation
from omkl.datasets import Stream
from omkl.experiment.metrics import LIMIT
from omkl.utils.wording import pluralize

CURVES = 6  # that are kept of every seed, as many numbers a row of a block
STEP = 8  # a measured D is a multiple of it, as arrays are padded to
UNKNOWN_BYTES = 16 * 10**9  # where the machine does not say how much it has


def require_memory(
    settings: Settings, stream: Stream, n_kernels: int, D: int, model_bytes: float, n_models: int
) -> None:
    """ValueError where models, curves and blocks of rows take more than the machine has.

    ``model_bytes`` are those of one learner, of which there are ``n_models`` at a time.
    """
    T = stream.n_rounds
    R, d, block = settings.n_seeds, stream.n_inputs, settings.block
    curves = curve_bytes(R, T)
    rows = 8 * (d + CURVES * R) * (block if T is None else min(T, block))
    taken, there = n_models * model_bytes + curves + rows, usable_bytes()
    if taken > there:
        raise ValueError(
            f"D={D} with {pluralize(n_kernels, 'kernel')}, {pluralize(d, 'input')}, seeds={R} and "
            f"block={block} takes "
            f"at least {min(taken, 1e24) / 1e9:,.1f} GB, and this machine has {there / 1e9:,.1f}: "
            "choose fewer of these, or smaller sizes among the parameters of the algorithm"
        )


def n_models(algorithm: Algorithm, stream: Stream, settings: Settings, R: int) -> int:
    """How many models R seeds need at a time.

    A regression streams all seeds together, a classification as many as there are threads.
    """
    if algorithm.task != "classification":
        return R
    n_learners = 1 if algorithm.learns_classes_together else max(1, len(stream.classes))
    return min(R, settings.n_threads) * n_learners


def curve_bytes(R: int, T: int | None) -> int:
    """Bytes of the curves of R seeds over T rounds."""
    return 8 * CURVES * R * (LIMIT if T is None else min(T, LIMIT))


def model_bytes(representation: Representation, params: Any, kernels: Any, d: int, D: int) -> float:
    """Bytes of a learner's model, or some of them where it is too large to look; see below."""

    def measured(features: int) -> int:
        return bytes_of(representation.fresh(params, kernels, d, features, 0))

    if representation.draws_features and 8.0 * len(kernels) * d * D > usable_bytes():
        return 8.0 * len(kernels) * d * D  # and more
    return extrapolated(measured, D)


def extrapolated(measured: Callable[[int], int], D: int) -> float:
    """Bytes at D, from those at small D: they are a polynomial in it, of degree 2 at most.

    Infinite where not even a small one can be had.
    """
    try:
        if D <= 3 * STEP:
            return measured(D)
        one, two, three = (measured(n * STEP) for n in (1, 2, 3))
    except MemoryError:
        return np.inf
    n = D / STEP - 1.0
    return one + n * (two - one) + 0.5 * n * (n - 1.0) * (three - 2 * two + one)


def bytes_of(tree: Any) -> int:
    """Bytes of all arrays in nested tuples."""
    if isinstance(tree, np.ndarray):
        return tree.nbytes
    return sum(map(bytes_of, tree)) if isinstance(tree, tuple) else 0


def usable_bytes() -> int:
    """Memory of the machine, or what a container's share of it is."""
    found = [UNKNOWN_BYTES]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for place in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            found.append(int(Path(place).read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return min(found)
