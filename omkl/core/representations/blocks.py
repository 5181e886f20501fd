"""What learners said in a block of rounds that each of them has learned by itself.

A matrix of second order fills the cache nearest to the processor, and those of all kernels none
that is near. A learner that learns from its own output alone need not wait for the others: one
after the other takes the whole block, and the engine then combines round by round what they said.
Rounds that are opened and closed by themselves go row by row, to the same bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from omkl.core.jit import inlined

BLOCK = 64  # rounds that a learner takes at once


class Block(NamedTuple):
    """Of N learners.

    f, variance  (BLOCK, N) outputs, and z'P z, of a block of rounds
    place        (2,) int64: the present row of these, and how many there are; 0: row by row
    """

    f: np.ndarray
    variance: np.ndarray
    place: np.ndarray


def empty_block(N: int) -> Block:
    return Block(np.zeros((BLOCK, N)), np.zeros((BLOCK, N)), np.zeros(2, dtype=np.int64))


@inlined
def rounds_to_learn(block, X, row):
    """How many rows of X (n, d) from ``row`` on are learned now; 0 within a block."""
    return 0 if block.place[1] > 0 else min(BLOCK, X.shape[0] - row)


@inlined
def hand_out(block, f, variance):
    """Write what was said in the present round into f and variance (N,)."""
    for i in range(f.shape[0]):
        f[i] = block.f[block.place[0], i]
        variance[i] = block.variance[block.place[0], i]


@inlined
def was_learned(block):
    """Whether the present round is of a block; the next one comes then."""
    if block.place[1] == 0:
        return False
    block.place[0] += 1
    if block.place[0] == block.place[1]:
        block.place[:] = 0
    return True
