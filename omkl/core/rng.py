"""Random generators of a seed, and uniform numbers for compiled code.

Features, selections and messages have separate generators. Compiled code draws the same numbers as
NumPy's ``default_rng`` (PCG64), with the state of the generator in an array. A
``numpy.random.Generator`` cannot be an argument of compiled code: because that code counts no
references (``compiler``), each call would leak 64 bytes, a gigabyte in ten million rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from omkl.core import compiler

MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
_WORD = 2**64 - 1
_BOTH = 2**128 - 1


class Uniform(NamedTuple):
    """Generator of numbers in [0, 1) for compiled code.

    state   (4,) uint64: state and increment of PCG64, high word first
    """

    state: np.ndarray

    def random(self) -> float:
        """Return the next number, the same bits as ``numpy.random.Generator.random``."""
        high, low, *increment = (int(word) for word in self.state)
        state = (high << 64 | low) * MULTIPLIER + (increment[0] << 64 | increment[1]) & _BOTH
        self.state[0], self.state[1] = state >> 64, state & _WORD
        mixed, turn = state >> 64 ^ state & _WORD, state >> 122
        return (((mixed >> turn | mixed << 64 - turn) & _WORD) >> 11) * 2.0**-53


def uniform(generator: np.random.Generator) -> Uniform:
    """Return a ``Uniform`` that continues the sequence of numbers of a PCG64 generator.

    Raises ValueError for another kind of generator.
    """
    bits: Any = generator.bit_generator.state
    if bits["bit_generator"] != "PCG64":
        raise ValueError(f"a generator of PCG64 is needed; got {bits['bit_generator']}")
    pair = (bits["state"]["state"], bits["state"]["inc"])
    words = [word for number in pair for word in (number >> 64, number & _WORD)]
    return Uniform(np.array(words, dtype=np.uint64))


# Purposes of random numbers. Each has its own generator, so that they do not influence each other.
FEATURES, SELECTION, SPLIT, ASKING, NOISE, ROUNDING, GRAPH = range(7)


def _child(seed: int, purpose: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed).spawn(purpose + 1)[purpose]


def generator(seed: int, purpose: int) -> np.random.Generator:
    """Make the generator of a seed for a purpose.

    Parameters
    ----------
    seed
        Integer >= 0.
    purpose
        FEATURES: the random features, which are the same for every algorithm. SELECTION: the
        kernels of each round. SPLIT: the order in which rows are distributed to clients. ASKING:
        the clients that send. GRAPH: the random graph of a federation without a server.
    """
    return np.random.default_rng(_child(seed, purpose))


def generators(seed: int, purpose: int, n: int) -> list[np.random.Generator]:
    """Make several generators of a seed for a purpose.

    Parameters
    ----------
    seed
        Integer >= 0.
    purpose
        As in ``generator``, or NOISE: the noise on the messages of clients in a simulation. Anyone
        who knows the seed can remove this noise, so deployed clients use ``SecretNormals``. Or
        ROUNDING: the rounding of the entries of messages.
    n
        Number of generators. The k-th generator does not depend on n.
    """
    return [np.random.default_rng(child) for child in _child(seed, purpose).spawn(n)]


def selection_generator(seed: int) -> Uniform:
    """Make the generator with which a learner selects kernels."""
    return uniform(generator(seed, SELECTION))


def party_generators(seed: int, n_clients: int) -> list[np.random.Generator]:
    """Make the generators of a server and its clients: that of the server first."""
    return generators(seed, SELECTION, n_clients + 1)


if compiler.ENABLED:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic, overload_method

    @intrinsic
    def _random(typingctx: Any, state: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word, both = ir.IntType(64), ir.IntType(128)
            half = ir.Constant(both, 64)
            data = context.make_array(signature.args[0])(context, builder, args[0]).data
            places = [builder.gep(data, [ir.Constant(word, k)]) for k in range(4)]
            words = [builder.zext(builder.load(place), both) for place in places]
            old, increment = (
                builder.or_(builder.shl(words[k], half), words[k + 1]) for k in (0, 2)
            )
            new = builder.add(builder.mul(old, ir.Constant(both, MULTIPLIER)), increment)
            high = builder.trunc(builder.lshr(new, half), word)
            low = builder.trunc(new, word)
            builder.store(high, places[0])
            builder.store(low, places[1])
            mixed, turn = builder.xor(high, low), builder.lshr(high, ir.Constant(word, 58))
            back = builder.and_(builder.neg(turn), ir.Constant(word, 63))
            turned = builder.or_(builder.lshr(mixed, turn), builder.shl(mixed, back))
            real = builder.uitofp(builder.lshr(turned, ir.Constant(word, 11)), ir.DoubleType())
            return builder.fmul(real, ir.Constant(ir.DoubleType(), 2.0**-53))

        return types.float64(state), build

    # Numba's type of a named tuple whose fields are of one type.
    @overload_method(types.NamedUniTuple, "random", jit_options=compiler.INSIDE)  # type: ignore[call-arg]
    def _random_compiled(rng):
        if rng.instance_class is not Uniform:
            return None
        return lambda rng: _random(rng.state)  # type: ignore[call-arg]
