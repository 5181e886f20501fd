"""The algorithms, one file each. A module with ``Params`` and ``algorithm`` is registered.

Those in a sub-package are typed with a slash: ``algorithm=as_released/rfomkr``. Those of modules
outside the package come last (``omkl.outside``).
"""

from __future__ import annotations

import difflib
import sys

from omkl import outside, registry
from omkl.core.protocol import Algorithm


def names() -> list[str]:
    """Names of all algorithms, as typed after ``algorithm=``."""
    return [*registry.names(__name__), *registry.names_outside()]


def load(name: str) -> Algorithm:
    """The algorithm of that name; ValueError lists what exists and the nearest name.

    Of a module outside the package, the error says what it lacks.
    """
    module = outside.modules().get(name)
    if module is not None and module == registry.names_outside().get(name):
        return _load_outside(name, module)
    if f"{__name__}.{name.replace('/', '.')}" not in sys.modules and name not in names():
        if gone := registry.removal(name):
            raise ValueError(gone)
        near = difflib.get_close_matches(name, names(), n=1, cutoff=0.4)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ValueError(f"there is no algorithm {name!r}.{hint} There are: {', '.join(names())}.")
    algorithm: Algorithm = registry.load(__name__, name)
    return algorithm


def _load_outside(name: str, module: str) -> Algorithm:
    found = getattr(outside.load(module), "algorithm", None)
    if not isinstance(found, Algorithm):
        shown = "no algorithm" if found is None else f"a {type(found).__name__}"
        raise outside.ModuleProblem(
            f"the module {module} has {shown} where it should end with algorithm = "
            "register(__name__, representation=...), of omkl.core.protocol"
        )
    return found._replace(name=name)
