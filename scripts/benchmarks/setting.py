"""Define the data, dictionary and learners that all measurements share."""

from typing import Any, NamedTuple

import numpy as np

from omkl import algorithms
from omkl.checks import learners
from omkl.core import hyperparameters
from omkl.core.kernels import Kernel, dictionary
from omkl.core.learner import Learner
from omkl.core.protocol import Algorithm
from omkl.core.representations.random_features import RandomFeatures, draw_features
from omkl.datasets import catalogue, open_stream
from omkl.datasets.columns import count_inputs
from omkl.utils import conf

D = 50  # random features a kernel
SEED = 0


class Rows(NamedTuple):
    """Rows X (T, d) and y (T,), scaled as in a run, and their source."""

    source: str
    X: np.ndarray
    y: np.ndarray


def rows(limit: int) -> Rows:
    """Return the first rows of naval, or of a similar synthetic stream if its file is missing."""
    entry = catalogue.entry("naval")
    if catalogue.locate(entry["file"]) is None:
        inputs = count_inputs(entry["inputs"])
        entry = catalogue.entry("synthetic") | {"rows": limit, "inputs": inputs}
    stream = open_stream(entry, {"limit": limit, "scaling": "whole", "order": "file"})
    X, y = next(stream.blocks(limit))
    return Rows(stream.name, X, y)


def kernels() -> tuple[Kernel, ...]:
    """Return the dictionary of the JMLR paper: 51 Gaussian and 25 Laplacian kernels."""
    return dictionary(conf.entry("kernels", "rbf51_lap25"))


def grid(N: int) -> tuple[Kernel, ...]:
    """Return N kernels, 2/3 Gaussian and 1/3 Laplacian, with bandwidths 0.01 to 100."""
    n = max(1, round(N * 51 / 76))
    found = [Kernel("gaussian", float(b)) for b in np.logspace(-2, 2, n)]
    return (*found, *(Kernel("laplacian", float(b)) for b in np.logspace(-2, 2, N - n)))


class Case(NamedTuple):
    """An algorithm with its settings on a dictionary."""

    algorithm: Algorithm
    params: Any
    dictionary: tuple[Kernel, ...]
    d: int
    D: int

    def learner(self, seed: int = SEED, **options: Any) -> Learner:
        """Return a learner before its first round."""
        return Learner(
            self.algorithm, self.params, self.dictionary, self.d, self.D, seed, **options
        )

    def features(self) -> RandomFeatures:
        return draw_features(self.dictionary, self.d, self.D, SEED)


def case(
    name: str, dictionary: tuple[Kernel, ...], d: int, D: int, horizon: int, **changes: Any
) -> Case:
    """Return an algorithm with the settings of its YAML. Numbers of kernels are cut to N."""
    algorithm = algorithms.load(name)
    N = len(dictionary)
    given = learners.default_settings(name) | changes
    for field in ("M", "rank"):
        if field in given:
            given[field] = min(given[field], N)
    built = hyperparameters.build(algorithm.Params, given, horizon, {"N": N, "D": D})
    return Case(algorithm, built, dictionary, d, D)
