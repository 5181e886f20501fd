"""Compiler of the streaming core. Only this module, ``simd``, ``rng`` and ``cache`` use Numba.

The decorator ``compiled`` marks a function of the core. ``cache`` stores its machine code on disk.

With ``NUMBA_DISABLE_JIT=1`` the decorators below return plain Python functions. These give the same
results, and a debugger can step through them.
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

config: Any = numba.config  # its attributes are defined at run time
F = TypeVar("F", bound=Callable[..., Any])

ENABLED = not config.DISABLE_JIT

# With these flags NaN and infinity keep their meaning, and sums keep their order. Another order
# would destroy the range reduction of the trigonometry. Only ``reassociating`` functions change it.
FLAGS = {"contract", "nsz"}

# The caller owns every array. Compiled code therefore counts no references, which would cost an
# atomic instruction per array and step, and code that allocates an array does not compile. C never
# calls this code, so no wrapper for C is compiled.
_OPTIONS: dict[str, Any] = {
    "fastmath": FLAGS,
    "error_model": "numpy",
    "_nrt": False,
    "no_cfunc_wrapper": True,
}


def compiled(function: F) -> F:
    """Compile a function of the core, without the interpreter lock, and store the code on disk."""
    return _kept(function, _OPTIONS)


def compiled_strict(function: F) -> F:
    """Compile as ``compiled``, but round after every operation, as NumPy does."""
    return _kept(function, _OPTIONS | {"fastmath": False})


def _kept(function: F, options: dict[str, Any]) -> F:
    if not ENABLED:
        return function
    dispatcher: Any = numba.njit(nogil=True, **options)(function)
    folder = cache.folder()
    # Code of other packages is not cached here: its edits do not change the digest of omkl's
    # sources. ``compiled_for`` caches it under its own digest.
    if folder is not None and sources.PACKAGE in Path(function.__code__.co_filename).parents:
        dispatcher._cache = cache.KeptCode(function, options, folder)
    return dispatcher


def for_this_process(function: Any) -> Any:
    """Compile as ``compiled``, but store nothing on disk."""
    return numba.njit(nogil=True, **_OPTIONS)(function) if ENABLED else function


def compiled_for(Params: type, function: Any) -> Any:
    """Return a function of the core, compiled for an algorithm with these ``Params``.

    For an algorithm outside the package, the code is cached under the digest of the algorithm's
    sources.
    """
    if not ENABLED or Params.__module__.startswith("omkl."):
        return function
    return _compiled_outside(function, Params.__module__)


@functools.cache
def _compiled_outside(function: Any, module: str) -> Any:
    dispatcher, folder = for_this_process(function.py_func), cache.folder()
    with contextlib.suppress(outside.ModuleProblem):  # without a source file nothing is cached
        if folder is not None:
            digest = outside.digest_of(module)
            dispatcher._cache = cache.KeptCode(function.py_func, _OPTIONS, folder, module, digest)
    return dispatcher


def specialised(function: Any, *arguments: Any) -> Callable[..., Any]:
    """Compile a function for the types of these arguments, and return its entry point.

    The entry point does not check types, which saves some microseconds per call for states of many
    arrays. If an argument has another type, the entry point reads invalid memory.
    """
    if not ENABLED:
        return function
    signature = tuple(function.typeof_pyval(argument) for argument in arguments)
    function.compile(signature)
    return function.overloads[signature].entry_point


def specialise_on_first_call(function: Any) -> Callable[..., None]:
    """Wrap a compiled function so that only its first call checks the types of the arguments.

    Later calls must have arguments of the same types.
    """
    code: list[Any] = []

    def call(*arguments: Any) -> None:
        if not code:
            code.append(specialised(function, *arguments))
        code[0](*arguments)

    return call


# Always inline: a call would push every field of every array of a state onto the stack.
INSIDE: dict[str, Any] = {**_OPTIONS, "forceinline": True}


def inlined(function: F) -> F:
    """Compile a helper into the body of each compiled function that uses it."""
    return register_jitable(**INSIDE)(function) if ENABLED else function


def overloads(function: Any) -> Any:
    """Return a decorator that provides the compiled form of ``function``.

    The decorated function gets the argument types of a compiled call, and returns the
    implementation that this call runs.
    """
    return overload(function, jit_options=INSIDE)  # type: ignore[arg-type]


def dispatch(step: Any, kind: type, function: Callable[..., Any]) -> None:
    """Register an implementation of ``step`` for first arguments of class ``kind``.

    Plain Python chooses the implementation when ``step`` is called, compiled code when it is
    compiled. The implementation is not passed as an argument, because the types of functions are
    not stable keys for the cache on disk.

    Parameters
    ----------
    step
        Function decorated by ``functools.singledispatch``.
    kind
        NamedTuple class of the first argument.
    function
        Implementation, with the parameters of ``step``.
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

    Numba names a symbol by the bare class names of its arguments. Two algorithms whose ``Params``
    have the same class name and field types could then share one symbol. A process that loads the
    code of both from disk would run one in place of the other.
    """
    kind.__name__ = f"{kind.__module__}.{kind.__qualname__}"


def element(columns, s):
    """Return element s of each array (S, ...) of a NamedTuple, whose fields may be NamedTuples too.

    The result has the same fields, with a number or a view in place of each array. An array
    (1, ...) is shared: its only element is returned for every s.
    """
    if isinstance(columns, tuple):
        return type(columns)(*(element(column, s) for column in columns))
    return columns[min(s, len(columns) - 1)]


def copy_element(columns, s, to):
    """Copy element s of each array of a NamedTuple to element ``to`` of the same array.

    Parameters
    ----------
    columns
        NamedTuple of arrays (S, ...). Its fields may be NamedTuples too. Shared arrays (1, ...)
        stay as they are.
    s, to
        Indices of the source and the target, in 0 .. S - 1.
    """
    for column in columns:
        if isinstance(column, tuple):
            copy_element(column, s, to)
        elif len(column) > 1:
            column[to] = column[s]


if ENABLED:

    @overloads(element)
    def _element_compiled(columns, s):
        # Without reference counts a function can return a tuple of views, but not a single view.
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
    """Count the sets of argument types for which a function was compiled in this process."""
    return len(function.signatures) if ENABLED else 0


def power_of_two(k):
    """Return 2**k exactly, for an integral float k in -1022..1023.

    In compiled code the bits of the result are set directly, without a call of ``ldexp``.
    """
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
    """Compile a function whose sums may be computed in any order, so that it becomes vector code.

    Only the operations of this function may be reordered. Functions that it calls keep their order.
    """
    if not ENABLED:
        return function
    return numba.njit(**_OPTIONS | {"nogil": True, "fastmath": FLAGS | {"reassoc"}})(function)


@reassociating
def dot(a, b):
    """Return the inner product of two vectors (n,), added up in any order."""
    total = 0.0
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total
