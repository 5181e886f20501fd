"""What a field of a ``State`` holds, where others than its algorithm have to know.

An annotation says it, as those of ``Params`` say what a setting may be:

    q: EVALUATED_WITH  # (N,)
"""

from __future__ import annotations

from typing import Annotated, Any, get_args, get_type_hints

import numpy as np

from omkl.core.hyperparameters import Range

# (N,) probability that ``select`` has the kernel evaluated; NaN where it was not, in this round.
EVALUATED_WITH = Annotated[np.ndarray, "probability of being evaluated"]
# (N,) probability that ``select`` lets the kernel learn.
LEARNS_WITH = Annotated[np.ndarray, "probability of learning"]
# int64: (N,) whether it may learn, or (1,) the only one that may.
MAY_LEARN = Annotated[np.ndarray, "who may learn"]
# (N,) logarithms of the weights of a graph's nodes.
NODE_WEIGHTS = Annotated[np.ndarray, "logarithms of the nodes' weights"]
# (3, 2 P) sums over the nodes' weights, see ``omkl.core.node_sampler``.
TREES = Annotated[np.ndarray, "sums over the nodes' weights"]

# What whole numbers that change may be: ``omkl.core.snapshot`` refuses others, since compiled code
# believes them. Arrays of whole numbers without a range are as a fresh learner has them.
ROUNDS = Annotated[np.ndarray, Range(0, "t")]  # so many rounds, or the number of one
KERNELS = Annotated[np.ndarray, Range(0, "N", open_high=True)]  # places of kernels
COUNTS = Annotated[np.ndarray, Range(0)]
# See ``omkl.core.node_sampler``.
EDGES = Annotated[np.ndarray, Range(0, "in_mass.0", open_high=True)]
SWITCH = Annotated[np.ndarray, Range(0, 1)]


def fields_with(State: type, annotation: Any) -> list[str]:
    """Names of the fields that have this annotation, and perhaps more."""
    hints = get_type_hints(State, include_extras=True)
    wanted = set(get_args(annotation)[1:])
    return [name for name, hint in hints.items() if wanted <= set(get_args(hint)[1:])]


def bounds_of(State: type) -> dict[str, Range]:
    """Of the fields whose annotation has a ``Range``: what its numbers may be."""
    hints = get_type_hints(State, include_extras=True)
    said = ((name, x) for name, hint in hints.items() for x in get_args(hint)[1:])
    return {name: x for name, x in said if isinstance(x, Range)}
