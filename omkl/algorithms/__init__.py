"""The algorithms, one file each. A module with ``Params`` and ``algorithm`` is registered.

Those in a sub-package are typed with a slash: ``algorithm=as_released/rfomkr``.
"""

from __future__ import annotations

import difflib
import sys

from omkl import registry
from omkl.core.protocol import Algorithm


def names() -> list[str]:
    """Names of all algorithms, as typed after ``algorithm=``."""
    return registry.names(__name__)


def load(name: str) -> Algorithm:
    """The algorithm of that name; ValueError lists what exists and the nearest name."""
    if f"{__name__}.{name.replace('/', '.')}" not in sys.modules and name not in names():
        near = difflib.get_close_matches(name, names(), n=1, cutoff=0.4)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ValueError(f"there is no algorithm {name!r}.{hint} There are: {', '.join(names())}.")
    algorithm: Algorithm = registry.load(__name__, name)
    return algorithm
