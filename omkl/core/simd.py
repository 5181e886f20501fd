"""Eight doubles at a time, for the inner loops of the streaming core.

Left to itself the compiler turns a loop into vector code behind checks that its
arrays do not overlap, runs the last elements one by one, and keeps sums in
memory. The pieces below say what is meant: a *pack* is eight doubles in a
register (one of 512 bits, two of 256 or four of 128, as the processor has it).
``load`` and ``store`` take the flat index into a C-contiguous array of any
shape and how many entries count; the others read as zero and are left alone.
The order of every sum is the same on all processors.

``narrow`` makes a pack of eight floats for arithmetic in single precision. An array
may hold floats too: they are loaded as doubles, and stored from either kind of pack.

In plain Python a pack is an array of eight. The module is long because each instruction is here
twice, as its plain Python and as its machine code.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from omkl.core.compiler import ENABLED, overloads

LANES = 8

# Tests play rounds in plain Python, a few million of these a learner: they are written for speed.
_DOUBLE, _ONES = np.dtype(np.float64), np.ones(LANES)


def aligned(shape: tuple[int, ...], dtype: str = "float64") -> np.ndarray:
    """Zeros that begin at a cache line: a pack that straddles two is read twice."""
    room = np.zeros(math.prod(shape) + 64, dtype)
    first = -room.ctypes.data % 64 // room.itemsize
    return room[first : first + math.prod(shape)].reshape(shape)


def load(array, start, n=LANES):
    """The pack array.flat[start : start + n], n in 0..8, zeros behind it."""
    given = array.flat[start : start + n]
    if n == LANES:
        return given if given.dtype is _DOUBLE else given.astype(np.float64)
    pack = np.zeros(LANES)
    pack[:n] = given
    return pack


def gather(array, index, start, base, n=LANES):
    """The pack array[index[start : start + n] - base], n in 1..8; behind it the last repeats."""
    last = index[start + n - 1]
    pack = np.full(LANES, array[last - base])
    pack[:n] = array[index[start : start + n] - base]
    return pack


def store(array, start, pack, n=LANES):
    """array.flat[start : start + n] = the first n of the pack, n in 0..8."""
    if n:
        array.flat[start : start + n] = pack if n == LANES else pack[:n]


def store_pairs(array, start, stride, a, b):
    """array.flat[start + r stride] = a[r], and the number behind it b[r], for r in 0..7."""
    for r in range(LANES):
        array.flat[start + r * stride : start + r * stride + 2] = a[r], b[r]


def pack(x):
    """Eight times the number x."""
    return _ONES * x


def fma(a, b, c):
    """a b + c by element, with one rounding where the processor can; numbers spread."""
    return a * b + c


def narrow(pack):
    """The pack in single precision; what is computed with it stays so."""
    return pack.astype(np.float32)


def total(pack):
    """Sum of the eight, by halves."""
    four = pack[:4] + pack[4:]
    two = four[:2] + four[2:]
    return two[0] + two[1]


def totals(a, b, c, d, e, f, g, h):
    """The pack of ``total`` of each of eight packs, at the price of three."""
    packs = np.array((a, b, c, d, e, f, g, h))
    four = packs[:, :4] + packs[:, 4:]
    two = four[:, :2] + four[:, 2:]
    return two[:, 0] + two[:, 1]


def clip(pack, bound):
    """Each element brought into [-bound, bound]; NaN stays."""
    return np.clip(pack, -bound, bound)


def flip_where_odd(pack, k):
    """The pack with the sign of those elements flipped whose k is odd.

    k holds whole numbers plus ``WHOLE``, so that the last bit is that of the number.
    """
    with np.errstate(invalid="ignore"):
        odd = k.view(np.int64) & 1
    return np.where(odd == 1, -pack, pack)


def at_least(pack, bound):
    """Each element, or that of the bound where it is larger; the bound for NaN."""
    return np.where(pack >= bound, pack, bound)


def below(pack, bound):
    """Each element that is less than the bound; -inf in place of the others, and of NaN."""
    return np.where(pack < bound, pack, -np.inf)


def largest(pack):
    """The largest of the eight; a NaN counts as any number would."""
    four = np.where(pack[4:] > pack[:4], pack[4:], pack[:4])
    two = np.where(four[2:] > four[:2], four[2:], four[:2])
    return two[1] if two[1] > two[0] else two[0]


def times_power_of_two(pack, k):
    """The pack times 2^k for k in -1023..1023, where 2^-1023 counts as 0.

    k holds whole numbers plus ``WHOLE``, as of ``flip_where_odd``.
    """
    return pack * ((k.view(np.int64) + 1023) << 52).view(np.float64)


# Adding it to |x| < 2^51 rounds x to a whole number and leaves that in the last bits.
WHOLE = 1.5 * 2.0**52


if ENABLED:
    import operator

    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic, models, register_model

    class Pack(types.Type):
        """Numba's type of eight doubles, or of eight floats."""

        def __init__(self, name: str, element: Any, number: Any) -> None:
            super().__init__(name=name)
            self.number = number  # Numba's type of one of them
            self.vector = ir.VectorType(element, LANES)

    PACK = Pack("pack", ir.DoubleType(), types.float64)
    NARROW = Pack("narrow_pack", ir.FloatType(), types.float32)
    _INT = ir.IntType(64)
    _WHOLES = ir.VectorType(_INT, LANES)
    _BITS = ir.VectorType(ir.IntType(1), LANES)
    _FUSE = ("contract", "nsz")

    @register_model(Pack)
    class _PackModel(models.PrimitiveModel):
        def __init__(self, manager: Any, kind: Any) -> None:
            super().__init__(manager, kind, kind.vector)

    def _result(*kinds: Any) -> Any:
        """Single precision as soon as one of several is."""
        return NARROW if NARROW in kinds else PACK

    def _spread(context: Any, builder: Any, kind: Any, value: Any, like: Any) -> Any:
        """A pack as it is, a number eight times."""
        if isinstance(kind, Pack):
            return value
        number = context.cast(builder, value, kind, like.number)
        return _eight_times(builder, number, like.vector)

    def _eight_times(builder: Any, number: Any, vector: Any) -> Any:
        blank = ir.Constant(vector, ir.Undefined)
        first = builder.insert_element(blank, number, ir.Constant(ir.IntType(32), 0))
        order = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return builder.shuffle_vector(first, blank, order)

    def _stored(kind: Any) -> Any:
        """The pack as it lies in an array of that type."""
        return PACK if kind.dtype == types.float64 else NARROW

    def _pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        start = context.cast(builder, args[1], signature.args[1], types.intp)
        first = builder.gep(array.data, [start], inbounds=True)
        return builder.bitcast(first, _stored(signature.args[0]).vector.as_pointer())

    def _counting(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        """Which of the eight lie before the first ``value``."""
        n = context.cast(builder, value, kind, types.intp)
        limit = _eight_times(builder, n, _WHOLES)
        return builder.icmp_signed("<", ir.Constant(_WHOLES, list(range(LANES))), limit)

    def _widened(builder: Any, kind: Any, value: Any) -> Any:
        return value if _stored(kind) is PACK else builder.fpext(value, PACK.vector)

    def _as_stored(builder: Any, array: Any, pack: Any, value: Any) -> Any:
        if _stored(array) is pack:
            return value
        if pack is PACK:
            return builder.fptrunc(value, NARROW.vector)
        return builder.fpext(value, PACK.vector)

    def _name(step: str, array: Any) -> str:
        return f"llvm.masked.{step}.v8f{64 if _stored(array) is PACK else 32}.p0"

    def _is_array(kind: Any) -> bool:
        known = (types.float64, types.float32)
        return isinstance(kind, types.Array) and kind.layout == "C" and kind.dtype in known

    def _declare(builder: Any, name: str, result: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(result, arguments)
        return cgutils.get_or_insert_function(builder.module, kind, name)

    @intrinsic
    def _load(typingctx: Any, array: Any, start: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = _pointer(context, builder, signature, args)
            return _widened(builder, signature.args[0], builder.load(pointer, align=4))

        return (PACK(array, start), build) if _is_array(array) else None

    @intrinsic
    def _load_first(typingctx: Any, array: Any, start: Any, n: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = _pointer(context, builder, signature, args)
            mask = _counting(context, builder, signature.args[2], args[2])
            vector = _stored(signature.args[0]).vector
            arguments = [pointer.type, ir.IntType(32), _BITS, vector]
            masked = _declare(builder, _name("load", signature.args[0]), vector, arguments)
            zeros = ir.Constant(vector, [0.0] * LANES)
            value = builder.call(masked, [pointer, ir.Constant(ir.IntType(32), 4), mask, zeros])
            return _widened(builder, signature.args[0], value)

        return (PACK(array, start, n), build) if _is_array(array) else None

    @intrinsic
    def _gather(typingctx: Any, array: Any, index: Any, start: Any, base: Any, n: Any) -> Any:
        """Number by number: written to memory first, they would have to be waited for."""

        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values, places = (
                context.make_array(kind)(context, builder, value)
                for kind, value in zip(signature.args[:2], args[:2], strict=True)
            )
            start, base, n = (
                context.cast(builder, value, kind, types.intp)
                for kind, value in zip(signature.args[2:], args[2:], strict=True)
            )
            last = builder.sub(n, ir.Constant(_INT, 1))
            pack = ir.Constant(PACK.vector, ir.Undefined)
            for j in range(LANES):
                here = ir.Constant(_INT, j)
                here = builder.select(builder.icmp_signed("<", here, last), here, last)
                place = builder.gep(places.data, [builder.add(start, here)], inbounds=True)
                offset = builder.sub(builder.load(place), base)
                number = builder.load(builder.gep(values.data, [offset], inbounds=True))
                pack = builder.insert_element(pack, number, ir.Constant(ir.IntType(32), j))
            return pack

        return PACK(array, index, start, base, n), build

    @intrinsic
    def _store(typingctx: Any, array: Any, start: Any, value: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = _as_stored(builder, signature.args[0], signature.args[2], args[2])
            builder.store(value, _pointer(context, builder, signature, args), align=4)
            return context.get_dummy_value()

        known = _is_array(array) and isinstance(value, Pack)
        return (types.void(array, start, value), build) if known else None

    @intrinsic
    def _store_first(typingctx: Any, array: Any, start: Any, value: Any, n: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = _pointer(context, builder, signature, args)
            mask = _counting(context, builder, signature.args[3], args[3])
            value = _as_stored(builder, signature.args[0], signature.args[2], args[2])
            arguments = [value.type, pointer.type, ir.IntType(32), _BITS]
            masked = _declare(builder, _name("store", signature.args[0]), ir.VoidType(), arguments)
            builder.call(masked, [value, pointer, ir.Constant(ir.IntType(32), 4), mask])
            return context.get_dummy_value()

        known = _is_array(array) and isinstance(value, Pack)
        return (types.void(array, start, value, n), build) if known else None

    @intrinsic
    def _store_pairs(typingctx: Any, array: Any, start: Any, stride: Any, a: Any, b: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            index = ir.IntType(32)
            kinds, stored = signature.args, _stored(signature.args[0])
            a, b = (
                _as_stored(builder, kinds[0], kind, value)
                for kind, value in zip(kinds[3:], args[3:], strict=True)
            )
            array = context.make_array(kinds[0])(context, builder, args[0])
            place, stride = (
                context.cast(builder, value, kind, types.intp)
                for kind, value in zip(kinds[1:3], args[1:3], strict=True)
            )
            two = ir.VectorType(stored.vector.element, 2)
            for r in range(LANES):
                both = ir.Constant(ir.VectorType(index, 2), [r, LANES + r])
                pointer = builder.gep(array.data, [place], inbounds=True)
                pointer = builder.bitcast(pointer, two.as_pointer())
                builder.store(builder.shuffle_vector(a, b, both), pointer, align=4)
                place = builder.add(place, stride)
            return context.get_dummy_value()

        return types.void(array, start, stride, a, b), build

    @intrinsic
    def _pack(typingctx: Any, x: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return _spread(context, builder, signature.args[0], args[0], PACK)

        return PACK(x), build

    @intrinsic
    def _fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = signature.return_type
            spread = [
                _spread(context, builder, k, v, kind)
                for k, v in zip(signature.args, args, strict=True)
            ]
            name = f"llvm.fmuladd.v8f{kind.number.bitwidth}"
            return builder.call(_declare(builder, name, kind.vector, [kind.vector] * 3), spread)

        return _result(a, b, c)(a, b, c), build

    def _elementwise(name: str) -> Any:
        @intrinsic
        def step(typingctx: Any, a: Any, b: Any) -> Any:
            def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                kind = signature.return_type
                left = _spread(context, builder, signature.args[0], args[0], kind)
                right = _spread(context, builder, signature.args[1], args[1], kind)
                return getattr(builder, name)(left, right, flags=_FUSE)

            return _result(a, b)(a, b), build

        return step

    @intrinsic
    def _narrow(typingctx: Any, value: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.fptrunc(args[0], NARROW.vector)

        return NARROW(value), build

    def _halved(build_one: Any) -> Any:
        """Reduce the eight to one number: the upper half with the lower one, three times."""

        @intrinsic
        def step(typingctx: Any, value: Any) -> Any:
            def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                part, width = args[0], LANES
                while width > 1:
                    width //= 2
                    kind = ir.VectorType(ir.IntType(32), width)
                    blank = ir.Constant(part.type, ir.Undefined)
                    low = ir.Constant(kind, list(range(width)))
                    high = ir.Constant(kind, list(range(width, 2 * width)))
                    part = build_one(
                        builder,
                        builder.shuffle_vector(part, blank, low),
                        builder.shuffle_vector(part, blank, high),
                    )
                return builder.extract_element(part, ir.Constant(ir.IntType(32), 0))

            return types.float64(value), build

        return step

    def _larger(builder: Any, low: Any, high: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", high, low), high, low)

    _total = _halved(lambda builder, low, high: builder.fadd(low, high))
    _largest = _halved(_larger)

    @intrinsic
    def _totals(
        typingctx: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any
    ) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind, packs = ir.VectorType(ir.IntType(32), LANES), list(args)
            for width in (4, 2, 1):
                low = [k for k in range(2 * LANES) if k // width % 2 == 0]
                high = [k + width for k in low]
                packs = [
                    builder.fadd(
                        builder.shuffle_vector(one, other, ir.Constant(kind, low)),
                        builder.shuffle_vector(one, other, ir.Constant(kind, high)),
                    )
                    for one, other in zip(packs[::2], packs[1::2], strict=True)
                ]
            return packs[0]

        return PACK(a, b, c, d, e, f, g, h), build

    @intrinsic
    def _clip(typingctx: Any, value: Any, bound: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            x = args[0]
            high = _spread(context, builder, signature.args[1], args[1], PACK)
            low = builder.fsub(ir.Constant(PACK.vector, [-0.0] * LANES), high)
            # Ordered comparisons are false for NaN, which then stays.
            x = builder.select(builder.fcmp_ordered(">", x, high), high, x)
            return builder.select(builder.fcmp_ordered("<", x, low), low, x)

        return PACK(value, bound), build

    @intrinsic
    def _flip_where_odd(typingctx: Any, value: Any, k: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            bits = builder.bitcast(args[1], _WHOLES)
            whole = _WHOLES
            if value is NARROW:
                whole = ir.VectorType(ir.IntType(32), LANES)
                bits = builder.trunc(bits, whole)
            last = value.number.bitwidth - 1
            sign = builder.shl(bits, ir.Constant(whole, [last] * LANES))
            flipped = builder.xor(builder.bitcast(args[0], whole), sign)
            return builder.bitcast(flipped, value.vector)

        return value(value, k), build

    @intrinsic
    def _at_least(typingctx: Any, value: Any, bound: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            low = _spread(context, builder, signature.args[1], args[1], PACK)
            return builder.select(builder.fcmp_ordered(">=", args[0], low), args[0], low)

        return PACK(value, bound), build

    @intrinsic
    def _below(typingctx: Any, value: Any, bound: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            high = _spread(context, builder, signature.args[1], args[1], PACK)
            least = ir.Constant(PACK.vector, [-math.inf] * LANES)
            return builder.select(builder.fcmp_ordered("<", args[0], high), args[0], least)

        return PACK(value, bound), build

    @intrinsic
    def _times_power_of_two(typingctx: Any, value: Any, k: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            bits = builder.bitcast(args[1], _WHOLES)
            biased = builder.add(bits, ir.Constant(_WHOLES, [1023] * LANES))
            power = builder.shl(biased, ir.Constant(_WHOLES, [52] * LANES))
            return builder.fmul(args[0], builder.bitcast(power, PACK.vector))

        return PACK(value, k), build

    @overloads(load)
    def _load_compiled(array, start, n=LANES):
        if isinstance(n, int | types.Omitted):
            return lambda array, start, n=LANES: _load(array, start)  # type: ignore[call-arg]
        return lambda array, start, n=LANES: _load_first(array, start, n)  # type: ignore[call-arg]

    @overloads(gather)
    def _gather_compiled(array, index, start, base, n=LANES):
        return lambda array, index, start, base, n=LANES: _gather(array, index, start, base, n)  # type: ignore[call-arg]

    @overloads(store)
    def _store_compiled(array, start, pack, n=LANES):
        if isinstance(n, int | types.Omitted):
            return lambda array, start, pack, n=LANES: _store(array, start, pack)  # type: ignore[call-arg]
        return lambda array, start, pack, n=LANES: _store_first(array, start, pack, n)  # type: ignore[call-arg]

    @overloads(store_pairs)
    def _store_pairs_compiled(array, start, stride, a, b):
        return lambda array, start, stride, a, b: _store_pairs(array, start, stride, a, b)  # type: ignore[call-arg]

    @overloads(pack)
    def _pack_compiled(x):
        return lambda x: _pack(x)  # type: ignore[call-arg]

    @overloads(fma)
    def _fma_compiled(a, b, c):
        return lambda a, b, c: _fma(a, b, c)  # type: ignore[call-arg]

    @overloads(narrow)
    def _narrow_compiled(pack):
        return lambda pack: _narrow(pack)  # type: ignore[call-arg]

    @overloads(totals)
    def _totals_compiled(a, b, c, d, e, f, g, h):
        return lambda a, b, c, d, e, f, g, h: _totals(a, b, c, d, e, f, g, h)  # type: ignore[call-arg]

    @overloads(total)
    def _total_compiled(pack):
        return lambda pack: _total(pack)

    @overloads(largest)
    def _largest_compiled(pack):
        return lambda pack: _largest(pack)

    @overloads(clip)
    def _clip_compiled(pack, bound):
        return lambda pack, bound: _clip(pack, bound)  # type: ignore[call-arg]

    @overloads(flip_where_odd)
    def _flip_where_odd_compiled(pack, k):
        return lambda pack, k: _flip_where_odd(pack, k)  # type: ignore[call-arg]

    @overloads(at_least)
    def _at_least_compiled(pack, bound):
        return lambda pack, bound: _at_least(pack, bound)  # type: ignore[call-arg]

    @overloads(below)
    def _below_compiled(pack, bound):
        return lambda pack, bound: _below(pack, bound)  # type: ignore[call-arg]

    @overloads(times_power_of_two)
    def _times_power_of_two_compiled(pack, k):
        return lambda pack, k: _times_power_of_two(pack, k)  # type: ignore[call-arg]

    @intrinsic
    def _absolute(typingctx: Any, value: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vector = signature.args[0].vector
            name = f"llvm.fabs.v8f{signature.args[0].number.bitwidth}"
            return builder.call(_declare(builder, name, vector, [vector]), args)

        return value(value), build

    @overloads(abs)
    def _absolute_compiled(pack):
        if isinstance(pack, Pack):
            return lambda pack: _absolute(pack)  # type: ignore[call-arg]
        return None

    def _overload_operator(python: Any, name: str) -> None:
        step = _elementwise(name)

        @overloads(python)
        def compiled(a, b):
            if isinstance(a, Pack) or isinstance(b, Pack):
                return lambda a, b: step(a, b)
            return None

    _overload_operator(operator.add, "fadd")
    _overload_operator(operator.sub, "fsub")
    _overload_operator(operator.mul, "fmul")
    _overload_operator(operator.truediv, "fdiv")
