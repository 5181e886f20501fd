"""The algorithms, one file each. A module with ``Params`` and ``algorithm`` is registered."""

from __future__ import annotations

import difflib
import importlib
import pkgutil

from omkl.engine import Algorithm


def names() -> list[str]:
    """Names of all algorithms, as typed after ``algorithm=``."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.ispkg)


def load(name: str) -> Algorithm:
    """The algorithm of that name; ValueError lists what exists and the nearest name."""
    if name not in names():
        near = difflib.get_close_matches(name, names(), n=1, cutoff=0.4)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ValueError(f"there is no algorithm {name!r}.{hint} There are: {', '.join(names())}.")
    module = importlib.import_module(f"{__name__}.{name}")
    return module.algorithm
