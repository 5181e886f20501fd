"""What a field of a ``State`` holds, where others than its algorithm have to know.

An annotation says it, as those of ``Params`` say what a setting may be:

    q: EVALUATED_WITH  # (N,)
"""

from __future__ import annotations

from typing import Annotated, Any, get_type_hints

import numpy as np

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


def fields_with(State: type, annotation: Any) -> list[str]:
    """Names of the fields that have this annotation."""
    hints = get_type_hints(State, include_extras=True)
    return [name for name, hint in hints.items() if hint == annotation]
