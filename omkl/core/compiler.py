"""The compiler: all that knows Numba is here or in what is imported here, ``simd`` and ``sources``.

``compiled`` marks a function of the streaming core. Its machine code is kept on disk
(``cache``).

With ``NUMBA_DISABLE_JIT=1`` every function below is plain Python with the same
results, and a debugger works.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic, overload, register_jitable

from omkl.core import cache
from omkl.utils import outside, sources

config: Any = numba.config  # its names are made at run time
F = TypeVar("F", bound=Callable[..., Any])

ENABLED = not config.DISABLE_JIT

# No flag here assumes away NaN or infinity, and none may re-associate: that
# would destroy the range reduction of the trigonometry. Only `dot` re-associates.
FLAGS = {"contract", "nsz"}

# The caller owns every array, so that no reference is counted (an atomic instruction for
# each array at each step) and nothing can be allocated: that would not compile. Nor is anything
# called from C.
_OPTIONS: dict[str, Any] = {
    "fastmath": FLAGS,
    "error_model": "numpy",
    "_nrt": False,
    "no_cfunc_wrapper": True,
}


def compiled(function: F) -> F:
    """Compile for the streaming core: no interpreter lock, kept on disk."""
    return _kept(function, _OPTIONS)


def compiled_strict(function: F) -> F:
    """As ``compiled``, and every operation is rounded by itself, as NumPy's are."""
    return _kept(function, _OPTIONS | {"fastmath": False})


def _kept(function: F, options: dict[str, Any]) -> F:
    if not ENABLED:
        return function
    dispatcher: Any = numba.njit(nogil=True, **options)(function)
    folder = cache.folder()
    # Code of other packages is not kept, where edits would go unseen: see compiled_for.
    if folder is not None and sources.PACKAGE in Path(function.__code__.co_filename).parents:
        dispatcher._cache = cache.KeptCode(function, options, folder)
    return dispatcher


def for_this_process(function: Any) -> Any:
    """As ``compiled``, and nothing is kept on disk."""
    return numba.njit(nogil=True, **_OPTIONS)(function) if ENABLED else function


@functools.cache
def compiled_uncached(function: Any) -> Any:
    """The same compiled function, kept for this process alone."""
    return for_this_process(function.py_func) if ENABLED else function


def compiled_for(Params: type, function: Any) -> Any:
    """Return a compiled function for an algorithm with these ``Params``.

    Machine code for an algorithm outside the package is kept under the digest of its sources.
    """
    if not ENABLED or Params.__module__.startswith("omkl."):
        return function
    return _compiled_outside(function, Params.__module__)


@functools.cache
def _compiled_outside(function: Any, module: str) -> Any:
    dispatcher, folder = for_this_process(function.py_func), cache.folder()
    with contextlib.suppress(outside.ModuleProblem):  # its source is no file: nothing is kept
        if folder is not None:
            digest = outside.digest_of(module)
            dispatcher._cache = cache.KeptCode(function.py_func, _OPTIONS, folder, module, digest)
    return dispatcher


def specialised(function: Any, *arguments: Any) -> Callable[..., Any]:
    """A compiled function for arguments of these very types, which it does not look at.

    A call then saves what looking takes: some microseconds with states of many arrays. With
    arguments of other types it would read what is not there.
    """
    if not ENABLED:
        return function
    signature = tuple(function.typeof_pyval(argument) for argument in arguments)
    function.compile(signature)
    return function.overloads[signature].entry_point


def specialise_on_first_call(function: Any) -> Callable[..., None]:
    """A compiled function whose arguments have the same types in every call: the first one's."""
    code: list[Any] = []

    def call(*arguments: Any) -> None:
        if not code:
            code.append(specialised(function, *arguments))
        code[0](*arguments)

    return call


# Always inlined: a call would push every field of every array of a state on the stack.
INSIDE: dict[str, Any] = {**_OPTIONS, "forceinline": True}


def inlined(function: F) -> F:
    """Compile a helper into each compiled function that calls it."""
    return register_jitable(**INSIDE)(function) if ENABLED else function


def overloads(function: Any) -> Any:
    """Decorate what says, by the types of its arguments, what ``function`` is in compiled code."""
    return overload(function, jit_options=INSIDE)  # type: ignore[arg-type]


def dispatch(step: Any, kind: type, function: Callable[..., Any]) -> None:
    """Make ``function`` what ``step`` does when its first argument is a ``kind``.

    ``step`` is a ``functools.singledispatch`` function: that is the dispatch in
    plain Python. For compiled code the same rule is registered by type, which
    (unlike functions passed as arguments) the on-disk cache survives.
    """
    step.register(kind)(function)
    if not ENABLED:
        return
    qualify_name(kind)
    names = list(function.__code__.co_varnames[: function.__code__.co_argcount])
    first = names[0]
    scope: dict[str, Any] = {"kind": kind, "function": function}
    lines = [
        f"def choose({', '.join(names)}):",
        f"    if getattr({first}, 'instance_class', None) is kind:",
        "        return function",
    ]
    exec("\n".join(lines), scope)
    overloads(step)(scope["choose"])


def qualify_name(kind: type) -> None:
    """Give a NamedTuple its full name, module included, in the symbols of compiled code.

    Numba names a symbol by the bare class names of its arguments. Two algorithms whose
    ``Params`` have fields of the same types, compiled in different processes, would get
    one name for both; a process that loads both from disk then runs one for the other.
    """
    kind.__name__ = f"{kind.__module__}.{kind.__qualname__}"


def element(columns, s):
    """Number s of a NamedTuple whose leaves, nested ones too, are arrays (S, ...).

    They are numbers or views; of arrays (1, ...), which all share, the only one.
    """
    if isinstance(columns, tuple):
        return type(columns)(*(element(column, s) for column in columns))
    return columns[min(s, len(columns) - 1)]


def copy_element(columns, s, to):
    """Copy number s of a NamedTuple of arrays (S, ...) to number ``to``; (1, ...) stay."""
    for column in columns:
        if isinstance(column, tuple):
            copy_element(column, s, to)
        elif len(column) > 1:
            column[to] = column[s]


if ENABLED:

    @overloads(element)
    def _element_compiled(columns, s):
        # Without reference counts a function cannot return a view, but a tuple of views.
        fields = [
            f"element(columns.{field}, s)"
            if isinstance(kind, types.NamedTuple | types.NamedUniTuple)
            else f"columns.{field}[min(s, columns.{field}.shape[0] - 1)]"
            for field, kind in zip(columns.fields, columns, strict=True)
        ]
        scope: dict[str, Any] = {"kind": columns.instance_class, "element": element}
        exec(f"def pick(columns, s):\n    return kind({', '.join(fields)})", scope)
        return scope["pick"]

    @overloads(copy_element)
    def _copy_element_compiled(columns, s, to):
        if isinstance(columns, types.NamedTuple | types.NamedUniTuple):
            lines = [f"    copy_element(columns.{field}, s, to)" for field in columns.fields]
            scope: dict[str, Any] = {"copy_element": copy_element}
            exec("\n".join(["def copy(columns, s, to):", *lines]), scope)
            return scope["copy"]

        def copy(columns, s, to):
            if columns.shape[0] > 1:
                source, target = columns[s], columns[to]
                for place in np.ndindex(source.shape):
                    target[place] = source[place]

        return copy


def n_specialisations(function: Any) -> int:
    """How many argument types a compiled function has met in this process."""
    return len(function.signatures) if ENABLED else 0


def power_of_two(k):
    """2**k for an integral float k in -1022..1023, exact; in compiled code without a call."""
    return math.ldexp(1.0, int(k))


if ENABLED:

    @intrinsic
    def _power_of_two(typingctx: Any, k: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from llvmlite import ir

            integer = builder.fptosi(args[0], ir.IntType(64))
            biased = builder.add(integer, ir.Constant(ir.IntType(64), 1023))
            bits = builder.shl(biased, ir.Constant(ir.IntType(64), 52))
            return builder.bitcast(bits, ir.DoubleType())

        return types.float64(types.float64), build

    @overloads(power_of_two)
    def _power_of_two_compiled(k):
        return lambda k: _power_of_two(k)  # type: ignore[call-arg]


def reassociating(function: F) -> F:
    """Compile a helper whose sum may be taken in any order, so that it becomes vector code.

    The freedom holds for the instructions of this function alone, not for what it calls.
    """
    if not ENABLED:
        return function
    return numba.njit(**_OPTIONS | {"nogil": True, "fastmath": FLAGS | {"reassoc"}})(function)


@reassociating
def dot(a, b):
    """Inner product of two vectors, (n,) and (n,); the order of the sum is free."""
    total = 0.0
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total
