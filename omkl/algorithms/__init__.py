"""Algorithms, one file for each algorithm or small family.

``omkl.core.protocol`` defines the parts of an algorithm. ``omkl.utils.registry`` finds the module
of a name.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from omkl.core.protocol import REGISTERED, Algorithm
from omkl.utils import conf, outside, registry
from omkl.utils.constraints import no_such
from omkl.utils.registry import declare as declare  # for modules outside the package

if TYPE_CHECKING:
    import pandas as pd


def names() -> list[str]:
    """Return the names of all algorithms, as typed after ``algorithm=``."""
    own = [name for name in registry.names_outside() if not registry.is_federated(name)]
    return [*registry.names(__name__), *own]


def table() -> pd.DataFrame:
    """Return a ``pandas.DataFrame`` of all algorithms.

    Its columns are title, task, when to use each, summary, and the paper to cite. The index has
    the names that ``omkl.learner(name)`` and ``algorithm=name`` accept.
    """
    import pandas as pd

    rows = {}
    for name in names():
        try:
            when = conf.when("algorithm", name)
        except conf.MissingEntry:
            when = ""
        facts = {"title": registry.title(name), "task": load(name).task, "when": when}
        rows[name] = facts | {"summary": registry.summary(name), "paper": registry.paper(name)}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("algorithm")


def load(name: str) -> Algorithm:
    """Return the algorithm called ``name``.

    Raises
    ------
    ValueError
        There is no such algorithm. The message has the nearest name and lists the others.
    outside.ModuleProblem
        A module outside the package is incomplete. The message names the missing parts.
    """
    module = outside.modules().get(name)
    if module is not None and module == registry.names_outside().get(name):
        return _load_outside(name, module)
    if name not in registry.names(__name__):
        raise ValueError(no_such(f"algorithm {name!r}", name, names()))
    imported = importlib.import_module(registry.module_of(name))
    algorithm: Algorithm = REGISTERED.get((imported.__name__, name)) or imported.algorithm
    return algorithm


def _load_outside(name: str, module: str) -> Algorithm:
    imported = outside.load(module)
    algorithm = REGISTERED.get((module, name)) or getattr(imported, "algorithm", None)
    if not isinstance(algorithm, Algorithm):
        shown = "no algorithm" if algorithm is None else f"a {type(algorithm).__name__}"
        raise outside.ModuleProblem(
            f"the module {module} has {shown} where it should end with algorithm = "
            "register(__name__, representation=...), of omkl.core.protocol; a module with several "
            f'has a class for each, below @register_as("{name}", representation=...)'
        )
    return algorithm._replace(name=name)
