"""A learner by its name, for tests of many folders."""

import hashlib
import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from omkl import algorithms
from omkl.checks.learners import default_settings
from omkl.core import cache, compiler, hyperparameters
from omkl.core.graph_sampling import COUNT, MASS
from omkl.core.kernels import Kernel
from omkl.core.learner import Learner


def learner_of(
    name: str, kernels: Sequence[Kernel], d: int, D: int = 1, *, T: int | None = None,
    seed: int = 0, threads: int = 1, model: Any = None, **changes: Any,
) -> Learner:  # fmt: skip
    """A learner of d inputs with the settings of its YAML, but for ``changes``, for T rounds."""
    algorithm = algorithms.load(name)
    given = default_settings(algorithm.name) | changes
    params = hyperparameters.build(algorithm.Params, given, T, {"N": len(kernels), "D": D})
    return Learner(algorithm, params, kernels, d, D, seed, threads=threads, model=model)


def one_of_each_representation() -> list[str]:
    """A learner for each of what functions are made of, in the order of their names."""
    found: dict[str, str] = {}
    for name in algorithms.names():
        found.setdefault(algorithms.load(name).representation.name, name)
    return list(found.values())


def compiled(function: Any) -> Any:
    """Compile a function of the tests, and keep its code on disk under a digest of its source."""
    dispatcher, folder = compiler.for_this_process(function), cache.folder()
    if compiler.ENABLED and folder is not None:
        digest = hashlib.sha256(inspect.getsource(function).encode()).hexdigest()
        dispatcher._cache = cache.KeptCode(function, {}, folder, digest=digest)
    return dispatcher


def node_probabilities(trees: np.ndarray, xi: float, N: int) -> np.ndarray:
    """p (N,) of all nodes of a feedback graph."""
    P = trees.shape[1] // 2
    mass, count = trees[MASS], trees[COUNT]
    return (1.0 - xi) * mass[P : P + N] / mass[1] + xi * count[P : P + N] / count[1]
