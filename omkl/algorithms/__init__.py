"""The algorithms, one file each. A module with ``Params`` and ``algorithm`` is registered.

Those in a sub-package are typed with a slash: ``algorithm=as_released/rfomkr``.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import sys
from collections.abc import Iterable, Iterator

from omkl.core.protocol import Algorithm

MAKERS = ("variants",)  # modules that make algorithms and are none


def names() -> list[str]:
    """Names of all algorithms, as typed after ``algorithm=``."""
    return sorted(_modules(__path__), key=lambda name: ("/" in name, name))


def _modules(path: Iterable[str], prefix: str = "") -> Iterator[str]:
    for module in pkgutil.iter_modules(path):
        name = prefix + module.name
        if name in MAKERS:
            continue
        if module.ispkg:
            yield from _modules([f"{folder}/{module.name}" for folder in path], f"{name}/")
        else:
            yield name


def load(name: str) -> Algorithm:
    """The algorithm of that name; ValueError lists what exists and the nearest name."""
    place = f"{__name__}.{name.replace('/', '.')}"
    if place not in sys.modules and name not in names():
        near = difflib.get_close_matches(name, names(), n=1, cutoff=0.4)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ValueError(f"there is no algorithm {name!r}.{hint} There are: {', '.join(names())}.")
    return importlib.import_module(place).algorithm
