"""Local learners that differ in their settings alone: one evaluation of features teaches all.

Learners of one seed have the same features, and those of a local learner (``local_features``) wait
for nobody. Here eight rows' features of a kernel are evaluated once, and the coefficients of all
learners for that kernel learn from them while they lie in the first cache. Every sum has the order
that it has in a learner by itself, so numbers are the same, to the bit.

What the learners said and their norms are written to where each would have kept them: their own
rounds then find a block that is learned already.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.core.compiler import compiled, compiled_uncached, element, inlined
from omkl.core.protocol import local_step, step_size
from omkl.core.representations.local_features import (
    BLOCK,
    FEW,
    RENEWED,
    LocalScratch,
    copy,
    followed_norm2,
    learn_and_say,
    renew_norms,
    say,
    say_totals,
    several_learn_and_say,
)
from omkl.core.representations.random_features import RandomFeatures
from omkl.core.representations.waves import turn_rows, waves_of_eight
from omkl.core.simd import LANES, aligned, pack, store
from omkl.core.trigonometry import Double, Single

ROWS = BLOCK  # a learner that goes on by itself writes a block of its own to the same arrays


class Shared(NamedTuple):
    """What S learners of N kernels learn a block with; W and V are D and S in whole packs.

    theta    (S, N, 2 W) and norm2 (S, N), of which each learner's are a part
    padded   (N, d, W) their frequencies; n_waves (1,) int64 D
    f        (S, ROWS, N) outputs of a block of rounds
    after    (S, ROWS + 1, N) squared norms before each of its rounds, and after the last
    place    (S, 2) as ``LocalScratch`` has it
    eta      (ROWS, V) step sizes of its rounds
    held     (S, 2, W) coefficients of the present kernel
    waves    of eight rows at the present kernel, (8 W,) each
    columns, last    as ``LocalScratch`` has them
    eight    (2, 8, S, ROWS) outputs of eight kernels, and squared norms after each round
    said     (V, 8) packs whose totals are the outputs times sqrt(D)
    outputs, norms, steps, shrinks    (V,) of the present kernel in the present round
    """

    theta: np.ndarray
    norm2: np.ndarray
    padded: np.ndarray
    n_waves: np.ndarray
    f: np.ndarray
    after: np.ndarray
    place: np.ndarray
    eta: np.ndarray
    held: np.ndarray
    waves: Double | Single
    columns: np.ndarray
    last: Double | Single
    eight: np.ndarray
    said: np.ndarray
    outputs: np.ndarray
    norms: np.ndarray
    steps: np.ndarray
    shrinks: np.ndarray


def columns_of(params: Sequence[Any]) -> Any:
    """Settings of one class as a NamedTuple of arrays; ValueError where a value is no number."""
    first = params[0]
    if isinstance(first, tuple):
        return type(first)(*(columns_of(values) for values in zip(*params, strict=True)))
    column = np.array(params)
    if column.dtype.kind not in "bif" or {type(value) for value in params} != {type(first)}:
        raise ValueError(f"{params} are no numbers of one kind")
    return column


def shared(
    models: Sequence[RandomFeatures], scratch: LocalScratch, used_by: Shared | None = None
) -> tuple[Shared, list[RandomFeatures], list[LocalScratch]]:
    """What learners with these models, all of the same frequencies, learn with from now on.

    ``scratch`` is that of one of them, and all write to it by turns. ``used_by`` is another such
    thing for as many learners, which works by turns with this one: they write to the same arrays.
    Returns that, and every learner's model and scratch, of which arrays are parts of it.
    """
    S, N = len(models), models[0].n_kernels
    made = (used_by or _fresh(S, models[0], scratch))._replace(
        theta=aligned((S, *models[0].theta.shape)),
        norm2=np.zeros((S, N)),
        padded=models[0].padded,
        n_waves=models[0].n_waves,
    )
    for s, model in enumerate(models):
        made.theta[s], made.norm2[s] = model.theta, model.norm2
    own = [
        model._replace(padded=made.padded, theta=made.theta[s], norm2=made.norm2[s])
        for s, model in enumerate(models)
    ]
    scratches = [
        scratch._replace(f=made.f[s], norm2=made.after[s], place=made.place[s]) for s in range(S)
    ]
    return made, own, scratches


def _fresh(S: int, model: RandomFeatures, scratch: LocalScratch) -> Shared:
    N, d, W = model.padded.shape
    V = -(-S // LANES) * LANES
    kind, dtype = type(scratch.waves), scratch.waves.sin.dtype.name
    return Shared(
        theta=np.empty((0, 0, 0)),
        norm2=np.empty((0, 0)),
        padded=model.padded,
        n_waves=model.n_waves,
        f=aligned((S, ROWS, N)),
        after=aligned((S, ROWS + 1, N)),
        place=np.zeros((S, 2), dtype=np.int64),
        eta=aligned((ROWS, V)),
        held=aligned((S, 2, W)),
        waves=kind(aligned((LANES * W,), dtype), aligned((LANES * W,), dtype)),
        columns=aligned((ROWS * d,)),
        last=scratch.last,
        eight=aligned((2, LANES, S, ROWS)),
        said=aligned((V, LANES)),
        outputs=aligned((V,)),
        norms=aligned((V,)),
        steps=aligned((V,)),
        shrinks=aligned((V,)),
    )


@inlined
def _hold(shared, i, W):
    """Copy the coefficients of kernel i, and its squared norms."""
    S, N = shared.norm2.shape
    for s in range(S):
        copy(shared.theta, 2 * W * (s * N + i), shared.held, 2 * W * s, 2 * W)
        shared.norms[s] = shared.norm2[s, i]
        shared.after[s, 0, i] = shared.norm2[s, i]


@inlined
def _give_back(shared, i, W):
    """Copy the coefficients back. The norms are handed out round by round."""
    S, N = shared.norm2.shape
    for s in range(S):
        copy(shared.held, 2 * W * s, shared.theta, 2 * W * (s * N + i), 2 * W)


@inlined
def _write_eight(shared, i, n):
    """Outputs and norms of n rounds, of the kernels from the last multiple of eight to i.

    Written kernel by kernel they would go to one place each of many cache lines.
    """
    first = i // LANES * LANES
    for s in range(shared.norm2.shape[0]):
        for r in range(n):
            for k in range(i + 1 - first):
                shared.f[s, r, first + k] = shared.eight[0, k, s, r]
                shared.after[s, r + 1, first + k] = shared.eight[1, k, s, r]


@inlined
def _take_steps(shared, settings, r, y, root, S):
    """Steps, shrinkings and followed norms of round r; how many learners stay as they are."""
    outputs, norms, eta = shared.outputs, shared.norms, shared.eta
    steps, shrinks = shared.steps, shared.shrinks
    n_idle = 0
    for s in range(S):
        f = outputs[s]
        step, shrink = local_step(element(settings, s), eta[r, s], y, f)
        norms[s] = followed_norm2(norms[s], f, step, shrink)
        steps[s] = -step / root
        shrinks[s] = shrink
        n_idle += 1 if step == 0.0 and shrink == 1.0 else 0
    return n_idle


@inlined
def _learn_round(shared, z, after, W, S, n_idle, renewed):
    """All learners learn the row whose waves begin at z, and say the one at ``after``."""
    held, waves, said = shared.held, shared.waves, shared.said
    steps, shrinks = shared.steps, shared.shrinks
    if n_idle == 0:
        several_learn_and_say(held, waves, z, after, W, steps, shrinks, 0, S, said)
    else:
        for s in range(S):
            w = 2 * W * s
            if renewed or steps[s] != 0.0 or shrinks[s] != 1.0:
                one = learn_and_say(held, w, waves, z, after, W, pack(steps[s]), shrinks[s])
            else:
                one = say(held, w, waves, after, W)
            store(said, s * LANES, one)
    if renewed:
        renew_norms(held, W, 0, S, shared.norms)


@inlined
def _learn_eight(shared, settings, i, t, y, row, r0, D, W, S):
    """Rounds t .. t + 7 of kernel i, whose waves are there; they begin at row r0 of f."""
    root, scale = math.sqrt(D), 1.0 / math.sqrt(D)
    for s in range(S):
        store(shared.said, s * LANES, say(shared.held, 2 * W * s, shared.waves, 0, W))
    for r in range(LANES):
        say_totals(shared.said, scale, shared.outputs)
        for s in range(S):
            shared.eight[0, i % LANES, s, r0 + r] = shared.outputs[s]
        n_idle = _take_steps(shared, settings, r0 + r, y[row + r], root, S)
        z = r * W
        after = z + W if r + 1 < LANES else z
        _learn_round(shared, z, after, W, S, n_idle, (t + r) % RENEWED == 0)
        for s in range(S):
            shared.eight[1, i % LANES, s, r0 + r] = shared.norms[s]


@compiled
def _learn_rows(settings, shared, t, X, y, row, n):
    N, d, W = shared.padded.shape
    D = shared.n_waves[0]
    S = shared.theta.shape[0]
    turn_rows(X, row, n, shared.columns)
    for s in range(S):
        params = element(settings, s)
        for r in range(n):
            shared.eta[r, s] = step_size(params, t + r)
        shared.place[s, 0] = 0
        shared.place[s, 1] = n
    for i in range(N):
        _hold(shared, i, W)
        for r0 in range(0, n, LANES):
            first = r0 * d
            waves_of_eight(shared.padded, D, i, X, row + r0, shared.columns, first, shared, 0)
            _learn_eight(shared, settings, i, t + r0, y, row + r0, r0, D, W, S)
        _give_back(shared, i, W)
        if i % LANES == LANES - 1 or i == N - 1:
            _write_eight(shared, i, n)


def learn_rows(settings: Any, made: Shared, t: int, X: np.ndarray, y: np.ndarray, row: int) -> int:
    """Let all learners learn rounds t, t + 1, .. from X[row] on, kernel by kernel; how many.

    ``settings`` are of ``columns_of``; X (n, d), y (n,). None, 0, where rows or features are too
    few to be worth it: learners then go by themselves. After it each has to go through just these
    rounds, in which it combines what its kernels have said.
    """
    N, _, W = made.padded.shape
    n = min(ROWS, len(X) - row) // LANES * LANES
    if n == 0 or N * W < FEW:
        return 0
    ours = type(settings).__module__.startswith("omkl.")
    (_learn_rows if ours else compiled_uncached(_learn_rows))(settings, made, t, X, y, row, n)
    return n
