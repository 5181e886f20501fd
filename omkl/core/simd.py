"""SIMD vectors of eight doubles, called packs, for the inner loops of the streaming core.

If the compiler had to find vector code by itself, it would check that arrays do not overlap, run
the last elements one by one, and keep sums in memory. The functions below state the vector code. A
*pack* is eight doubles in registers: one of 512 bits, two of 256 or four of 128, depending on the
processor. ``load`` and ``store`` take the flat index into a C-contiguous array of any shape, and
the number of elements in use. The other elements are read as zero, and are not written. Sums are
computed in the same order on all processors.

Each function exists twice: in plain Python, where a pack is an array of eight numbers, and below as
machine code, by Numba's public ``intrinsic``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from omkl.core.compiler import ENABLED, overloads

LANES = 8

# Multiplied by x in ``pack``, faster than ``np.full``: tests in plain Python call it millions of
# times.
_ONES = np.ones(LANES)


def aligned(shape: tuple[int, ...], dtype: str = "float64") -> np.ndarray:
    """Allocate an array of zeros that begins at a cache line (64 bytes).

    A pack that lies in two cache lines takes two reads.
    """
    room = np.zeros(math.prod(shape) + 64, dtype)
    first = -room.ctypes.data % 64 // room.itemsize
    return room[first : first + math.prod(shape)].reshape(shape)


def load(array, start, n=LANES):
    """Return the pack of the n numbers array.flat[start : start + n], followed by zeros.

    Parameters
    ----------
    array
        C-contiguous float64 array.
    start
        Flat index of the first number.
    n
        Number of entries, 0..8.
    """
    numbers = array.flat[start : start + n]
    if n == LANES:
        return numbers
    pack = np.zeros(LANES)
    pack[:n] = numbers
    return pack


def gather(array, index, start, base, n=LANES):
    """Return the pack array[index[start : start + n] - base].

    If n < 8, the other elements repeat the last one.

    Parameters
    ----------
    array
        Array (m,).
    index
        Array of indices, from which index[start : start + n] are read.
    start
        Position of the first index in ``index``.
    base
        Offset subtracted from each index.
    n
        Number of elements, 1..8.
    """
    last = index[start + n - 1]
    pack = np.full(LANES, array[last - base])
    pack[:n] = array[index[start : start + n] - base]
    return pack


def store(array, start, pack, n=LANES):
    """Write the first n numbers of a pack to array.flat[start : start + n].

    Parameters
    ----------
    array
        C-contiguous float64 array.
    start
        Flat index of the first number.
    pack
        Numbers to write.
    n
        Number of entries, 0..8.
    """
    if n:
        array.flat[start : start + n] = pack if n == LANES else pack[:n]


def pack(x):
    """Return a pack whose eight elements are all x."""
    return _ONES * x


def fma(a, b, c):
    """Return a * b + c by element, with a single rounding if the processor has this instruction.

    Parameters
    ----------
    a, b, c
        Packs. A number stands for a pack of eight equal numbers.
    """
    return a * b + c


def total(pack):
    """Return the sum of the eight elements.

    The upper half is added to the lower half three times, so the order of the additions is fixed.
    """
    four = pack[:4] + pack[4:]
    two = four[:2] + four[2:]
    return two[0] + two[1]


def totals(a, b, c, d, e, f, g, h):
    """Return the sums of eight packs as one pack. It takes as long as three calls of ``total``.

    Parameters
    ----------
    a, b, c, d, e, f, g, h
        Packs.
    """
    packs = np.array((a, b, c, d, e, f, g, h))
    four = packs[:, :4] + packs[:, 4:]
    two = four[:, :2] + four[:, 2:]
    return two[:, 0] + two[:, 1]


def clip(pack, bound):
    """Clip each element to [-bound, bound]. NaN stays NaN."""
    return np.clip(pack, -bound, bound)


def flip_where_odd(pack, k):
    """Flip the sign of each element of a pack for which the whole number in k is odd.

    k is a pack of whole numbers plus ``WHOLE``, so that the last bit of an element shows whether
    its number is odd.
    """
    with np.errstate(invalid="ignore"):
        odd = k.view(np.int64) & 1
    return np.where(odd == 1, -pack, pack)


def at_least(pack, bound):
    """Return the larger of each element and the bound; the bound where the element is NaN."""
    return np.where(pack >= bound, pack, bound)


def below(pack, bound):
    """Replace each element by -inf unless it is less than the bound. NaN becomes -inf."""
    return np.where(pack < bound, pack, -np.inf)


def largest(pack):
    """Return the largest of the eight elements. A NaN may be ignored or returned."""
    four = np.where(pack[4:] > pack[:4], pack[4:], pack[:4])
    two = np.where(four[2:] > four[:2], four[2:], four[:2])
    return two[1] if two[1] > two[0] else two[0]


def times_power_of_two(pack, k):
    """Multiply each element by 2^j, where j is the whole number in k, -1023..1023.

    k is a pack of whole numbers plus ``WHOLE``, as for ``flip_where_odd``. 2^-1023 counts as 0.
    """
    return pack * ((k.view(np.int64) + 1023) << 52).view(np.float64)


# For |x| < 2^51 the float x + WHOLE has no digits below 1. So it is WHOLE plus x rounded to a whole
# number, and the binary digits of that number are its last bits.
WHOLE = 1.5 * 2.0**52


if ENABLED:
    import operator

    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic, models, register_model

    class Pack(types.Type):
        """Numba's type of eight doubles."""

        def __init__(self) -> None:
            super().__init__(name="pack")

    PACK = Pack()
    _PACK = ir.VectorType(ir.DoubleType(), LANES)
    _INT = ir.IntType(64)
    _INDEX = ir.IntType(32)
    _WHOLES = ir.VectorType(_INT, LANES)
    _BITS = ir.VectorType(ir.IntType(1), LANES)
    _FUSE = ("contract", "nsz")
    _ALIGN = ir.Constant(_INDEX, 4)  # alignment of a load or store: rows may begin anywhere

    @register_model(Pack)
    class _PackModel(models.PrimitiveModel):
        def __init__(self, manager: Any, kind: Any) -> None:
            super().__init__(manager, kind, _PACK)

    # --- How an instruction is made ---------------------------------------------------------------
    #
    # ``build(context, builder, kinds, args)`` writes the LLVM code of one instruction: ``kinds``
    # are Numba's types of the arguments, ``args`` their values. ``result(*kinds)`` returns the type
    # of the result, or None if the instruction does not apply to such arguments.

    def _instruction(names: Sequence[str], result: Any) -> Callable[[Any], Any]:
        """Return a decorator that makes ``build`` an intrinsic with these argument names."""

        def decorate(build: Any) -> Any:
            def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                value = build(context, builder, signature.args, args)
                return context.get_dummy_value() if value is None else value

            def choose(typingctx: Any, *kinds: Any) -> Any:
                kind = result(*kinds)
                return None if kind is None else (kind(*kinds), lower)

            position = inspect.Parameter.POSITIONAL_OR_KEYWORD
            arguments = [inspect.Parameter(name, position) for name in ("typingctx", *names)]
            # Numba asks an intrinsic for the names of its arguments.
            choose.__signature__ = inspect.Signature(arguments)  # type: ignore[attr-defined]
            choose.__name__ = build.__name__
            return intrinsic(choose)

        return decorate

    def _code_of(function: Any, result: Any) -> Callable[[Any], Any]:
        """Return a decorator of ``build`` that makes it the compiled form of ``function``.

        ``result`` states the argument types for which it is valid.
        """
        names = list(inspect.signature(function).parameters)

        def decorate(build: Any) -> Any:
            step = _instruction(names, result)(build)
            scope: dict[str, Any] = {"step": step, "result": result}
            called = ", ".join(names)
            exec(
                f"def choose({called}):\n"
                f"    if result({called}) is None:\n"
                f"        return None\n"
                f"    return lambda {called}: step({called})",
                scope,
            )
            overloads(function)(scope["choose"])
            return step

        return decorate

    def _a_pack(*kinds: Any) -> Any:
        return PACK

    def _pack_if_any(*kinds: Any) -> Any:
        """Return the type of a pack, or None if no argument is a pack."""
        return PACK if PACK in kinds else None

    def _spread(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        """Return a pack as it is, and a number as a pack of eight equal elements."""
        if kind is PACK:
            return value
        return _eight_times(builder, context.cast(builder, value, kind, types.float64), _PACK)

    def _eight_times(builder: Any, number: Any, vector: Any) -> Any:
        blank = ir.Constant(vector, ir.Undefined)
        first = builder.insert_element(blank, number, ir.Constant(_INDEX, 0))
        return builder.shuffle_vector(first, blank, _places([0] * LANES))

    def _places(numbers: Sequence[int]) -> Any:
        """Return the constant of a shuffle instruction that selects elements by their indices."""
        return ir.Constant(ir.VectorType(_INDEX, len(numbers)), list(numbers))

    def _wholes(number: int) -> Any:
        return ir.Constant(_WHOLES, [number] * LANES)

    def _declare(builder: Any, name: str, result: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(result, arguments)
        return cgutils.get_or_insert_function(builder.module, kind, name)

    # --- Memory -----------------------------------------------------------------------------------

    def _is_array(kind: Any) -> bool:
        return isinstance(kind, types.Array) and kind.layout == "C" and kind.dtype == types.float64

    def _loaded(array: Any, *kinds: Any) -> Any:
        return PACK if _is_array(array) else None

    def _storing(array: Any, start: Any, pack: Any, *kinds: Any) -> Any:
        return types.void if _is_array(array) and pack is PACK else None

    def _pointer(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
        """Return the pointer to the pack that begins at args[1] of the array args[0]."""
        array = context.make_array(kinds[0])(context, builder, args[0])
        start = context.cast(builder, args[1], kinds[1], types.intp)
        first = builder.gep(array.data, [start], inbounds=True)
        return builder.bitcast(first, _PACK.as_pointer())

    def _first(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        """Return a mask of eight elements of which the first ``value`` are set."""
        n = context.cast(builder, value, kind, types.intp)
        limit = _eight_times(builder, n, _WHOLES)
        return builder.icmp_signed("<", ir.Constant(_WHOLES, list(range(LANES))), limit)

    @_instruction(("array", "start"), _loaded)
    def _load(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
        return builder.load(_pointer(context, builder, kinds, args), align=4)

    @_instruction(("array", "start", "n"), _loaded)
    def _load_first(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, kinds, args)
        mask = _first(context, builder, kinds[2], args[2])
        arguments = [pointer.type, _INDEX, _BITS, _PACK]
        load_first = _declare(builder, "llvm.masked.load.v8f64.p0", _PACK, arguments)
        return builder.call(load_first, [pointer, _ALIGN, mask, ir.Constant(_PACK, [0.0] * LANES)])

    @_instruction(("array", "start", "pack"), _storing)
    def _store(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
        builder.store(args[2], _pointer(context, builder, kinds, args), align=4)

    @_instruction(("array", "start", "pack", "n"), _storing)
    def _store_first(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, kinds, args)
        mask = _first(context, builder, kinds[3], args[3])
        arguments = [_PACK, pointer.type, _INDEX, _BITS]
        store_first = _declare(builder, "llvm.masked.store.v8f64.p0", ir.VoidType(), arguments)
        builder.call(store_first, [args[2], pointer, _ALIGN, mask])

    # Calls without n use all elements, so they need no mask, which would cost instructions.

    @overloads(load)
    def _load_compiled(array, start, n=LANES):
        if isinstance(n, int | types.Omitted):
            return lambda array, start, n=LANES: _load(array, start)
        return lambda array, start, n=LANES: _load_first(array, start, n)

    @overloads(store)
    def _store_compiled(array, start, pack, n=LANES):
        if isinstance(n, int | types.Omitted):
            return lambda array, start, pack, n=LANES: _store(array, start, pack)
        return lambda array, start, pack, n=LANES: _store_first(array, start, pack, n)

    @_instruction(("array", "index", "start", "base", "n"), _a_pack)
    def _gather(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
        """Compile ``gather``, which reads one number at a time.

        A vector load would have to wait if some of its numbers were written just before.
        """
        values, places = (
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(kinds[:2], args[:2], strict=True)
        )
        start, base, n = (
            context.cast(builder, value, kind, types.intp)
            for kind, value in zip(kinds[2:], args[2:], strict=True)
        )
        last = builder.sub(n, ir.Constant(_INT, 1))
        pack = ir.Constant(_PACK, ir.Undefined)
        for j in range(LANES):
            here = ir.Constant(_INT, j)
            here = builder.select(builder.icmp_signed("<", here, last), here, last)
            place = builder.gep(places.data, [builder.add(start, here)], inbounds=True)
            offset = builder.sub(builder.load(place), base)
            number = builder.load(builder.gep(values.data, [offset], inbounds=True))
            pack = builder.insert_element(pack, number, ir.Constant(_INDEX, j))
        return pack

    @overloads(gather)
    def _gather_compiled(array, index, start, base, n=LANES):
        return lambda array, index, start, base, n=LANES: _gather(array, index, start, base, n)

    # --- Arithmetic -------------------------------------------------------------------------------

    @_code_of(pack, _a_pack)
    def _pack(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
        return _spread(context, builder, kinds[0], args[0])

    @_code_of(fma, _pack_if_any)
    def _fma(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
        spread = [_spread(context, builder, k, v) for k, v in zip(kinds, args, strict=True)]
        return builder.call(_declare(builder, "llvm.fmuladd.v8f64", _PACK, [_PACK] * 3), spread)

    def _element_by_element(operation: Any, name: str) -> None:
        """Compile an operator of Python between two packs, or a pack and a number."""

        def build(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
            left, right = (
                _spread(context, builder, k, v) for k, v in zip(kinds, args, strict=True)
            )
            return getattr(builder, name)(left, right, flags=_FUSE)

        _code_of(operation, _pack_if_any)(build)

    _element_by_element(operator.add, "fadd")
    _element_by_element(operator.sub, "fsub")
    _element_by_element(operator.mul, "fmul")
    _element_by_element(operator.truediv, "fdiv")

    @_code_of(abs, _pack_if_any)
    def _absolute(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
        return builder.call(_declare(builder, "llvm.fabs.v8f64", _PACK, [_PACK]), args)

    # --- Eight numbers to one ---------------------------------------------------------------------

    def _halved(function: Any, build_one: Any) -> None:
        """Compile a reduction of a pack to a number: combine its halves three times."""

        def build(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
            part, width = args[0], LANES
            while width > 1:
                width //= 2
                blank = ir.Constant(part.type, ir.Undefined)
                low = builder.shuffle_vector(part, blank, _places(range(width)))
                high = builder.shuffle_vector(part, blank, _places(range(width, 2 * width)))
                part = build_one(builder, low, high)
            return builder.extract_element(part, ir.Constant(_INDEX, 0))

        _code_of(function, lambda pack: types.float64)(build)

    _halved(total, lambda b, low, high: b.fadd(low, high))
    _halved(largest, lambda b, low, high: b.select(b.fcmp_ordered(">", high, low), high, low))

    @_code_of(totals, _a_pack)
    def _totals(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
        packs = list(args)
        for width in (4, 2, 1):
            low = [k for k in range(2 * LANES) if k // width % 2 == 0]
            high = [k + width for k in low]
            packs = [
                builder.fadd(
                    builder.shuffle_vector(one, other, _places(low)),
                    builder.shuffle_vector(one, other, _places(high)),
                )
                for one, other in zip(packs[::2], packs[1::2], strict=True)
            ]
        return packs[0]

    # --- Comparisons and bits ---------------------------------------------------------------------

    @_code_of(clip, _a_pack)
    def _clip(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
        x = args[0]
        high = _spread(context, builder, kinds[1], args[1])
        low = builder.fsub(ir.Constant(_PACK, [-0.0] * LANES), high)
        # Ordered comparisons are false for NaN, which then stays.
        x = builder.select(builder.fcmp_ordered(">", x, high), high, x)
        return builder.select(builder.fcmp_ordered("<", x, low), low, x)

    @_code_of(at_least, _a_pack)
    def _at_least(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
        low = _spread(context, builder, kinds[1], args[1])
        return builder.select(builder.fcmp_ordered(">=", args[0], low), args[0], low)

    @_code_of(below, _a_pack)
    def _below(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
        high = _spread(context, builder, kinds[1], args[1])
        least = ir.Constant(_PACK, [-math.inf] * LANES)
        return builder.select(builder.fcmp_ordered("<", args[0], high), args[0], least)

    @_code_of(flip_where_odd, _a_pack)
    def _flip_where_odd(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
        sign = builder.shl(builder.bitcast(args[1], _WHOLES), _wholes(63))
        flipped = builder.xor(builder.bitcast(args[0], _WHOLES), sign)
        return builder.bitcast(flipped, _PACK)

    @_code_of(times_power_of_two, _a_pack)
    def _times_power_of_two(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
        biased = builder.add(builder.bitcast(args[1], _WHOLES), _wholes(1023))
        power = builder.shl(biased, _wholes(52))
        return builder.fmul(args[0], builder.bitcast(power, _PACK))
