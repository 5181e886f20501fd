"""What makes a learner: an algorithm with its parameters, a dictionary, D and a precision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from omkl import algorithms
from omkl.core import hyperparameters
from omkl.core.kernels import Kernel
from omkl.core.learner import Learner, check_precision
from omkl.core.protocol import Algorithm

FEATURES = 50  # D where none is given


class Specification(NamedTuple):
    """All of a learner but its inputs and its seed, checked."""

    algorithm: Algorithm
    params: Any
    dictionary: tuple[Kernel, ...]
    D: int
    precision: str

    def learner(
        self,
        n_inputs: int,
        seed: int,
        threads: int = 1,
        before: np.ndarray | None = None,
        model: Any = None,
    ) -> Learner:
        """A fresh learner; ``before`` and ``model`` as ``Learner`` has them."""
        return Learner(
            self.algorithm,
            self.params,
            self.dictionary,
            n_inputs,
            self.D,
            seed,
            model=model,
            threads=threads,
            precision=self.precision,
            before=before,
        )


def specify(
    name: str,
    given: Mapping[str, Any],
    dictionary: tuple[Kernel, ...],
    D: int,
    precision: str,
    horizon: int | None,
) -> Specification:
    """Check parameters as typed, by the names of the algorithm's ``Params``.

    Raises ValueError that names the setting and what it may be.
    """
    algorithm = algorithms.load(name)
    sizes = {"N": len(dictionary), "D": D}
    params = hyperparameters.build(algorithm.Params, given, horizon, sizes)
    check_precision(algorithm, precision)
    algorithm.representation.require(dictionary)
    algorithm.representation.check_kernels(algorithm.kernels(params, dictionary))
    return Specification(algorithm, params, dictionary, D, precision)
