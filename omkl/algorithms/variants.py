"""Algorithms on other representations: what is written against add and project fits them all.

    algorithm = variant(__name__, omkc_da_p1, ON_BUDGET)

makes of a module, which has but the head of a docstring, the algorithm of another one.
"""

from __future__ import annotations

import re
import sys
from types import ModuleType
from typing import Any, NamedTuple, get_type_hints

from omkl.core.hyperparameters import SIZE
from omkl.core.protocol import DEFINED, MAY_DEFINE, Algorithm, register
from omkl.core.representations import Representation
from omkl.core.representations.kernel_perceptrons import BUDGETED
from omkl.core.representations.local_features import LOCAL_FEATURES
from omkl.core.representations.random_features import RANDOM_FEATURES


class Kind(NamedTuple):
    """What differs from an exact classifier.

    local   the representation of a classifier that has a ``local_step``
    fields  that the Params have besides its own, with their annotations
    text    sections of the docstring; {name}, {task} and {symbols} are the exact classifier's
    """

    representation: Representation
    local: Representation
    fields: dict[str, Any]
    text: str


ON_RANDOM_FEATURES = Kind(
    RANDOM_FEATURES,
    LOCAL_FEATURES,
    {},
    """
Paper    none; the algorithm of ``{name}`` on the features of Rahimi and Recht, NIPS 2007.
Task     {task}
Round    As ``{name}``, where f_i <- f_i + c kappa_i(x_t, .) is theta_i <- theta_i + c z_i(x_t)
         and ||f_i|| is ||theta_i||.
Symbols  {symbols}
Cost     O(N D d) time a round; O(N D d) memory.
Bound    that of ``{name}`` for the kernels z_i(x)'z_i(x'), with z_i(x)'z_i(x) = 1.
Differs  from ``{name}``: kernels are approximated, so they must be shift-invariant.
""",
)

ON_BUDGET = Kind(
    BUDGETED,
    BUDGETED,
    {"budget": SIZE, "drop_smallest": bool},
    """
Paper    none; the algorithm of ``{name}`` with the budgets of Crammer, Kandola and Singer,
         NIPS 2003 (smallest), and Dekel, Shalev-Shwartz and Singer, NIPS 2005 (oldest).
Task     {task}
Round    As ``{name}``; a support vector that is one too many takes the place of another.
Symbols  {symbols}
         budget         support vectors of a classifier, >= 1
         drop_smallest  drop the smallest coefficient; false: the oldest vector
Cost     O(N budget d) time a round; O(N budget d) memory.
Bound    none.
Differs  from ``{name}``: it forgets.
""",
)


def variant(module: str, exact: ModuleType, kind: Kind) -> Algorithm:
    """Register an exact classifier's steps on another representation, under the module's name.

    The module gets the names that ``register`` reads, with Params of its own, and the
    sections of its docstring.
    """
    made, parent = sys.modules[module], exact.algorithm
    fields = get_type_hints(parent.Params, include_extras=True) | kind.fields
    Params: Any = NamedTuple("Params", list(fields.items()))  # type: ignore[misc]
    Params.__module__ = module
    for name in (*DEFINED, *MAY_DEFINE):
        if hasattr(exact, name):
            setattr(made, name, getattr(exact, name))
    made.Params = Params  # type: ignore[attr-defined]
    sections = {"name": parent.name, "task": _section(exact, "Task")}
    text = kind.text.format(**sections, symbols=_section(exact, "Symbols"))
    made.__doc__ = f"{(made.__doc__ or '').strip()}\n{text}"
    return register(
        module,
        representation=kind.local if hasattr(exact, "local_step") else kind.representation,
        task=parent.task,
        every_kernel=parent.every_kernel,
        deterministic=parent.deterministic,
    )


def _section(module: ModuleType, name: str) -> str:
    """What a section of a docstring says; empty where Python runs without docstrings."""
    found = re.search(rf"^{name} +(.*?)^\w", module.__doc__ or "", re.M | re.S)
    return found[1].rstrip() if found else ""
