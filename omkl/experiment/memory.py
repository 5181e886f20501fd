"""Estimate the memory of a job before the first row."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from omkl.config.schema import Settings
from omkl.core.protocol import Algorithm
from omkl.core.representations import Representation
from omkl.datasets import Stream
from omkl.experiment.metrics import LIMIT
from omkl.utils.wording import few, pluralize

CURVES = 6  # curves of every seed, and also numbers per seed and row of a block
MOST_ROWS, MOST_BYTES = 2**14, 2**24  # limits of a block
STEP = 8  # arrays are padded to multiples of 8, so memory is measured for such D
UNKNOWN_BYTES = 16 * 10**9  # assumed if the machine's memory is unknown


def require_memory(
    settings: Settings,
    stream: Stream,
    n_kernels: int,
    D: int,
    model_bytes: float,
    n_models: int,
    keeps_rows: bool = False,
) -> None:
    """Raise ValueError if models, curves and rows of a job exceed the memory of this process.

    Parameters
    ----------
    settings, stream
        Settings and stream of the job.
    n_kernels, D
        Number of kernels of a learner, and of random features of a kernel.
    model_bytes, n_models
        Bytes of one learner before the first row, and number of learners in memory at a time.
    keeps_rows
        Whether each learner stores every row, with a coefficient for each kernel.

    Raises
    ------
    ValueError
        Names the settings that decide how much memory the job takes.
    """
    T = stream.n_rounds
    if T is None and stream.row_count:
        T = stream.row_count.n
    R, d = settings.seeds, stream.n_inputs
    block = block_rows(settings.block, d, R)
    kept = 8.0 * n_models * T * (n_kernels + d) if keeps_rows and T is not None else 0.0
    rows = 8 * (d + CURVES * R) * (block if T is None else min(T, block))
    curves = 8 * CURVES * R * (LIMIT if T is None else min(T, LIMIT))
    taken = n_models * model_bytes + curves + rows + kept
    usable = usable_bytes()
    if taken <= usable:
        return
    size = f"at least {taken / 1e9:,.1f} GB, and this process may use {usable / 1e9:,.1f}"
    if taken > 1e18:  # the estimate is infinite, for example
        size = f"more than the {usable / 1e9:,.1f} GB that this process may use"
    if kept > usable / 2:
        raise ValueError(
            f"exact kernels keep all of {T:,} rows for {pluralize(n_kernels, 'kernel')}, which "
            f"takes {size}: set stream.limit, choose fewer kernels, or a learner with random "
            "features"
        )
    sizes = [pluralize(n_kernels, "kernel"), pluralize(d, "input")]
    if len(stream.classes) > 2:
        sizes.append(f"{len(stream.classes):,} classes ({few(map(repr, stream.classes))})")
    raise ValueError(
        f"D={D} with {', '.join(sizes)}, seeds={R} and block={block} takes {size}: "
        "choose fewer of these, or smaller sizes among the parameters of the algorithm"
    )


def block_rows(block: int | None, d: int, R: int) -> int:
    """Return the largest number of rows of a block.

    Parameters
    ----------
    block
        Number of rows that the user set. None: as many rows as take 16 MB.
    d
        Number of inputs.
    R
        Number of seeds.
    """
    return block or max(1, min(MOST_ROWS, MOST_BYTES // (8 * (d + CURVES * R))))


def n_models(algorithm: Algorithm, stream: Stream, settings: Settings, R: int) -> int:
    """Return the number of models in memory at a time.

    A regression has one model per seed. A classification has as many seeds in memory as threads.
    Each of these seeds has one model, or one model per class.

    Parameters
    ----------
    algorithm, stream, settings
        Parts of the job.
    R
        Number of seeds.
    """
    if algorithm.task != "classification":
        return R
    n_learners = 1 if algorithm.learns_classes_together else max(1, len(stream.classes))
    return min(R, settings.n_threads) * n_learners


def model_bytes(representation: Representation, params: Any, kernels: Any, d: int, D: int) -> float:
    """Return the bytes of a learner's model, or a lower bound if the model exceeds the memory.

    Parameters
    ----------
    representation, params, kernels
        Representation, parameters and kernels of the learner.
    d, D
        Number of inputs, and of random features of a kernel.
    """

    def measured(features: int) -> int:
        return bytes_of(representation.fresh(params, kernels, d, features, 0))

    if representation.draws_features and 8.0 * len(kernels) * d * D > usable_bytes():
        return 8.0 * len(kernels) * d * D  # a lower bound
    return extrapolated(measured, D)


def extrapolated(measured: Callable[[int], int], D: int) -> float:
    """Extrapolate the bytes of a model with D features, which are a polynomial of degree 2 in D.

    ``measured`` returns the bytes for a number of features. It is called with small numbers only.
    The result is infinite if memory does not suffice for a small number.
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
    """Return the bytes of all arrays in nested tuples."""
    if isinstance(tree, np.ndarray):
        return tree.nbytes
    return sum(map(bytes_of, tree)) if isinstance(tree, tuple) else 0


def usable_bytes() -> int:
    """Return the bytes that this process can use: machine memory, or a lower cgroup limit."""
    found = [UNKNOWN_BYTES]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    return min(found + _cgroup_limits(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")))


def _cgroup_limits(membership: Path, mounted: Path) -> list[int]:
    """Return the memory limits of the process's cgroup (version 2) and of its parents.

    ``membership`` is a file with the path of the process's cgroup, relative to ``mounted``. In a
    container ``mounted`` may itself be this cgroup. Then the path does not exist below ``mounted``,
    and only the limit of ``mounted`` is returned.
    """
    found = []
    with contextlib.suppress(OSError):  # not Linux
        for line in membership.read_text().splitlines():
            group = mounted / line.rpartition(":")[2].lstrip("/")
            for folder in (group, *group.parents):
                with contextlib.suppress(OSError, ValueError):  # no such group, or "max"
                    found.append(int((folder / "memory.max").read_text()))
                if folder == mounted:
                    break
    return found
