"""Indices in the compiled code of omkl are never negative, and nothing is spent on those that are.

NumPy counts a negative index from the end. So Numba compares every index that it cannot know with
0 and adds the size if it must: instructions for each element that a learner looks up by the number
of a kernel or a node, 2 to 8 % of a round of those that choose. No function of the core counts from
the end. With ``NUMBA_BOUNDSCHECK=1`` a negative index raises IndexError, as one too large does.

Code of other packages, algorithms from outside among it, is compiled as ever.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.np import arrayobj

_by_numba = arrayobj.fix_integer_index


def _fix(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
    """What Numba makes of an index of the integer type ``kind`` along a dimension."""
    function = context.fndesc
    if function is not None and function.modname.partition(".")[0] == "omkl":
        return context.cast(builder, index, kind, types.intp)
    return _by_numba(context, builder, kind, index, size)


def from_the_start() -> None:
    """Compile the indices of omkl so, from now on."""
    arrayobj.fix_integer_index = _fix
