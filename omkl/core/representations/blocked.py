"""Random features of all kernels, kernel by kernel: local learners learn a block of rounds at once.

Row by row, a round reads the frequencies and coefficients of all N kernels, and no cache near the
processor holds them. A kernel that learns from its own output alone need not wait for the others:
here a few kernels go through a whole block of rounds, eight rows at a time, while their
frequencies, their coefficients and the waves of these rows stay in the first cache. Their outputs
and norms are kept for the engine, which then combines round by round.

Every sum is added up in the order of ``random_features``, so outputs and coefficients are those of
rows that go one by one, as those left over from the last eight do. Squared norms are not added up
in every round: the norm follows from a step and the output, to rounding, and in rounds that are
multiples of RENEWED it is added up. Both ways do that, by
the number of the round, so no split into blocks shows.

Learners that differ in their settings or labels alone have the same features for one seed:
``MultiLearner`` evaluates them once for all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.core.compiler import compiled, compiled_for, dispatch, element, inlined
from omkl.core.protocol import local_step, step_size
from omkl.core.representations import evaluate_row, learn_block, learn_row
from omkl.core.representations.random_features import (
    RANDOM_FEATURES,
    RandomFeatures,
    SparseScratch,
    forget_rows,
    gradient_step,
    sparse_scratch,
)
from omkl.core.representations.sincos_features import (
    turn_rows,
    waves_of_eight,
)
from omkl.core.simd import LANES, aligned, fma, load, pack, store, total, totals
from omkl.core.trigonometry import Waves, empty_waves

BLOCK = 64  # rounds of which outputs and norms are kept, a multiple of LANES
RENEWED = 64  # a multiple of it: a round after which squared norms are added up
FEW = 32  # features of all kernels, in whole packs: fewer are not worth a block
GROUP = 2  # kernels side by side: while one waits for its output, the other one computes


class LocalScratch(NamedTuple):
    """What rounds write to; W is D in whole packs, and rows of waves and theta have zeros behind D.

    single   as of other learners, for rows that are looked at one by one
    before   (N,) squared norms before the round that was learned last
    f        (BLOCK, N) outputs of a block of rounds
    norm2    (BLOCK + 1, N) squared norms before each of its rounds, and after the last
    place    (2,) int64: the present row of these arrays, and how many there are; 0: one by one,
             -1: one by one, and its outputs are there
    eta      (BLOCK,) step sizes of its rounds
    waves    of eight rows and a group of kernels, (GROUP 8 W,) each
    theta    (GROUP 2 W,) coefficients of the group
    columns  (BLOCK d,) rows of X by eights, input by input
    last     waves of the last few features, (8 8,) each: feature by feature, for eight rows
    """

    single: SparseScratch
    before: np.ndarray
    f: np.ndarray
    norm2: np.ndarray
    place: np.ndarray
    eta: np.ndarray
    waves: Waves
    theta: np.ndarray
    columns: np.ndarray
    last: Waves


def local_scratch(model: RandomFeatures, threads: int) -> LocalScratch:
    N, d, W = model.padded.shape
    return LocalScratch(
        single=sparse_scratch(model, threads),
        before=aligned((N,)),
        f=aligned((BLOCK, N)),
        norm2=aligned((BLOCK + 1, N)),
        place=np.zeros(2, dtype=np.int64),
        eta=np.zeros(BLOCK),
        waves=empty_waves(GROUP * LANES * W),
        theta=aligned((GROUP * 2 * W,)),
        columns=aligned((BLOCK * d,)),
        last=empty_waves(LANES * LANES),
    )


@inlined
def dot_coefficients(theta, w, waves, z, W):
    """A pack whose total is theta'z sqrt(D), of the coefficients at w and the waves at z."""
    a = pack(0.0)
    b = pack(0.0)
    for j in range(0, W, LANES):
        a = fma(load(theta, w + j), load(waves.sin, z + j), a)
        b = fma(load(theta, w + W + j), load(waves.cos, z + j), b)
    return a + b


@inlined
def step_and_evaluate(theta, w, waves, z, after, W, scaled, shrink):
    """theta <- shrink theta + scaled times the waves at z; then its product with those ``after``.

    One pass reads and writes the coefficients once for both.
    """
    a = pack(0.0)
    b = pack(0.0)
    for j in range(0, W, LANES):
        s = fma(load(waves.sin, z + j), scaled, load(theta, w + j) * shrink)
        c = fma(load(waves.cos, z + j), scaled, load(theta, w + W + j) * shrink)
        store(theta, w + j, s)
        store(theta, w + W + j, c)
        a = fma(s, load(waves.sin, after + j), a)
        b = fma(c, load(waves.cos, after + j), b)
    return a + b


@inlined
def four_step_and_evaluate(held, w, waves, z, after, W, steps, shrinks, s, dots):
    """``step_and_evaluate`` of learners s .. s + 3, whose coefficients are at w, w + 2 W, ..

    One look at the waves serves all four. Their packs go to ``dots``.
    """
    k0, k1, k2, k3 = pack(steps[s]), pack(steps[s + 1]), pack(steps[s + 2]), pack(steps[s + 3])
    h0, h1 = pack(shrinks[s]), pack(shrinks[s + 1])
    h2, h3 = pack(shrinks[s + 2]), pack(shrinks[s + 3])
    w1, w2, w3 = w + 2 * W, w + 4 * W, w + 6 * W
    a0, a1, a2, a3 = pack(0.0), pack(0.0), pack(0.0), pack(0.0)
    b0, b1, b2, b3 = pack(0.0), pack(0.0), pack(0.0), pack(0.0)
    for j in range(0, W, LANES):
        at, then = load(waves.sin, z + j), load(waves.sin, after + j)
        v0 = fma(at, k0, load(held, w + j) * h0)
        v1 = fma(at, k1, load(held, w1 + j) * h1)
        v2 = fma(at, k2, load(held, w2 + j) * h2)
        v3 = fma(at, k3, load(held, w3 + j) * h3)
        store(held, w + j, v0)
        store(held, w1 + j, v1)
        store(held, w2 + j, v2)
        store(held, w3 + j, v3)
        a0, a1, a2, a3 = fma(v0, then, a0), fma(v1, then, a1), fma(v2, then, a2), fma(v3, then, a3)
        at, then = load(waves.cos, z + j), load(waves.cos, after + j)
        v0 = fma(at, k0, load(held, w + W + j) * h0)
        v1 = fma(at, k1, load(held, w1 + W + j) * h1)
        v2 = fma(at, k2, load(held, w2 + W + j) * h2)
        v3 = fma(at, k3, load(held, w3 + W + j) * h3)
        store(held, w + W + j, v0)
        store(held, w1 + W + j, v1)
        store(held, w2 + W + j, v2)
        store(held, w3 + W + j, v3)
        b0, b1, b2, b3 = fma(v0, then, b0), fma(v1, then, b1), fma(v2, then, b2), fma(v3, then, b3)
    store(dots, s * LANES, a0 + b0)
    store(dots, (s + 1) * LANES, a1 + b1)
    store(dots, (s + 2) * LANES, a2 + b2)
    store(dots, (s + 3) * LANES, a3 + b3)


@inlined
def several_step_and_evaluate(held, waves, z, after, W, steps, shrinks, first, last, dots):
    """``step_and_evaluate`` of learners first .. last - 1, whose coefficients are 2 W apart."""
    s = first
    while s + 4 <= last:
        four_step_and_evaluate(held, 2 * W * s, waves, z, after, W, steps, shrinks, s, dots)
        s += 4
    while s < last:
        w = 2 * W * s
        one = step_and_evaluate(held, w, waves, z, after, W, pack(steps[s]), shrinks[s])
        store(dots, s * LANES, one)
        s += 1


@inlined
def outputs_of_packs(dots, scale, outputs):
    """The outputs, from the packs of all learners, whole packs of them."""
    for s in range(0, dots.shape[0], LANES):
        p = s * LANES
        sums = totals(
            load(dots, p), load(dots, p + LANES), load(dots, p + 2 * LANES),
            load(dots, p + 3 * LANES), load(dots, p + 4 * LANES), load(dots, p + 5 * LANES),
            load(dots, p + 6 * LANES), load(dots, p + 7 * LANES),
        )  # fmt: skip
        store(outputs, s, sums * scale)


@inlined
def squared_norm_at(theta, w, W):
    """That of the coefficients at w, added up as ``gradient_step`` does."""
    a = pack(0.0)
    b = pack(0.0)
    j = 0
    while j + LANES <= W:
        s = load(theta, w + j)
        c = load(theta, w + W + j)
        a = fma(s, s, a)
        b = fma(c, c, b)
        j += LANES
    if j < W:
        s = load(theta, w + j, W - j)
        c = load(theta, w + W + j, W - j)
        a = fma(s, s, a)
        b = fma(c, c, b)
    return total(a + b)


@inlined
def renew_norms(held, W, first, last, norms):
    """Squared norms of learners first .. last - 1, added up."""
    for s in range(first, last):
        norms[s] = squared_norm_at(held, 2 * W * s, W)


@inlined
def followed_norm2(norm2, f, step, shrink):
    """||shrink theta - step z||^2 by norm2 = ||theta||^2 and f = theta'z, where ||z|| = 1."""
    return shrink * (shrink * norm2 - 2.0 * step * f) + step * step


@inlined
def _learn_eight(scratch, params, t, y, row, first, n_kernels, D, W, r0):
    """Rounds t .. t + 7 of a group of kernels, whose waves are there; they begin at row r0 of f."""
    theta, waves = scratch.theta, scratch.waves
    root = math.sqrt(D)
    scale = 1.0 / math.sqrt(D)
    for g in range(n_kernels):
        dot = dot_coefficients(theta, 2 * W * g, waves, LANES * W * g, W)
        scratch.f[r0, first + g] = scale * total(dot)
    for r in range(LANES):
        # Rounds outside, kernels inside: a step needs the output that the last one gave, and while
        # its sum is on the way the other kernel's step is computed.
        for g in range(n_kernels):
            i = first + g
            f = scratch.f[r0 + r, i]
            norm2 = scratch.norm2[r0 + r, i]
            step, shrink = local_step(params, scratch.eta[r0 + r], y[row + r], f)
            w = 2 * W * g
            z = (LANES * g + r) * W
            after = z + W if r + 1 < LANES else z
            renewed = (t + r) % RENEWED == 0
            if step != 0.0 or shrink != 1.0 or renewed:
                dot = step_and_evaluate(theta, w, waves, z, after, W, pack(-step / root), shrink)
                follow = followed_norm2(norm2, f, step, shrink)
                norm2 = squared_norm_at(theta, w, W) if renewed else follow
            else:
                dot = dot_coefficients(theta, w, waves, after, W)
            scratch.norm2[r0 + r + 1, i] = norm2
            if r + 1 < LANES:
                scratch.f[r0 + r + 1, i] = scale * total(dot)


@inlined
def take_coefficients(model, i, scratch, g):
    """Copy the coefficients of row i to number g of the group, and their squared norm."""
    W = model.padded.shape[2]
    copy(model.theta, 2 * W * i, scratch.theta, 2 * W * g, 2 * W)
    scratch.norm2[0, i] = model.norm2[i]


@inlined
def return_coefficients(model, i, scratch, g):
    """Copy them back."""
    W = model.padded.shape[2]
    copy(scratch.theta, 2 * W * g, model.theta, 2 * W * i, 2 * W)


@inlined
def follow_norm(model, i, t, before, f, step, shrink):
    """After the step of round t: the norm follows from ``before`` and f, or stays as added up."""
    if t % RENEWED != 0:
        model.norm2[i] = followed_norm2(before, f, step, shrink)


@inlined
def followed_step(model, i, m, t, f, scratch, step, shrink):
    """``gradient_step`` of round t, and ``follow_norm``; f = theta_i'z_i."""
    before = model.norm2[i]
    gradient_step(model, i, m, scratch, step, shrink)
    follow_norm(model, i, t, before, f, step, shrink)


def _learn_block(scratch, params, model, t, X, y, row):
    if scratch.place[1] > 0:
        return
    n = min(BLOCK, X.shape[0] - row) // LANES * LANES
    N, d, W = model.padded.shape
    if n == 0 or N * W < FEW:
        return
    D = model.n_waves[0]
    forget_rows(scratch.single)
    turn_rows(X, row, n, scratch.columns)
    for r in range(n):
        scratch.eta[r] = step_size(params, t + r)
    for first in range(0, N, GROUP):
        n_kernels = min(GROUP, N - first)
        for g in range(n_kernels):
            take_coefficients(model, first + g, scratch, g)
        for r0 in range(0, n, LANES):
            for g in range(n_kernels):
                waves_of_eight(
                    model.padded, D, first + g, X, row + r0, scratch.columns, r0 * d, scratch,
                    LANES * W * g,
                )  # fmt: skip
            _learn_eight(scratch, params, t + r0, y, row + r0, first, n_kernels, D, W, r0)
        for g in range(n_kernels):
            return_coefficients(model, first + g, scratch, g)
    scratch.place[0] = 0
    scratch.place[1] = n


def _evaluate_local(scratch, model, X, row, selection):
    if scratch.place[1] == 0:
        evaluate_row(scratch.single, model, X, row, selection)
        return
    N = selection.f.shape[0]
    copy(scratch.f, scratch.place[0] * N, selection.f, 0, N)


@inlined
def copy(numbers, first, target, start, n):
    """target[start : start + n] = numbers[first : first + n], of flat arrays, eight at a time."""
    j = 0
    while j + LANES <= n:
        store(target, start + j, load(numbers, first + j))
        j += LANES
    if j < n:
        store(target, start + j, load(numbers, first + j, n - j), n - j)


@inlined
def hand_out_norms(scratch, model, n):
    """Squared norms of n rows of theta, before and after the present row of a block; then on."""
    r = scratch.place[0]
    copy(model.norm2, 0, scratch.before, 0, n)
    copy(scratch.norm2, (r + 1) * scratch.norm2.shape[1], model.norm2, 0, n)
    last = r + 1 == scratch.place[1]
    scratch.place[0] = 0 if last else r + 1
    scratch.place[1] = 0 if last else scratch.place[1]


def _learn_row(scratch, params, model, t, y, selection):
    N = selection.f.shape[0]
    if scratch.place[1] > 0:
        hand_out_norms(scratch, model, N)
        return
    eta = step_size(params, t)
    for i in range(N):
        f = selection.f[i]
        scratch.before[i] = model.norm2[i]
        step, shrink = local_step(params, eta, y, f)
        if step != 0.0 or shrink != 1.0 or t % RENEWED == 0:
            followed_step(model, i, i, t, f, scratch.single, step, shrink)


dispatch(learn_block, LocalScratch, _learn_block)
dispatch(evaluate_row, LocalScratch, _evaluate_local)
dispatch(learn_row, LocalScratch, _learn_row)


LOCAL_FEATURES = RANDOM_FEATURES._replace(
    name="random features, kernel by kernel", scratch=local_scratch, local=True
)


# --- Several learners: one evaluation of features teaches all -------------------------------------
#
# Eight rows' features of a kernel are evaluated once, and the coefficients of all learners for that
# kernel learn from them while they lie in the first cache. Every sum has the order that it has in a
# learner by itself, so numbers are the same, to the bit.
#
# Outputs and norms are written to where each learner would have kept them: its own rounds then find
# a block that is learned already.


class MultiLearner(NamedTuple):
    """What S learners of N kernels learn a block with; W and V are D and S in whole packs.

    theta    (S, N, 2 W) and norm2 (S, N), of which each learner's are a part
    padded   (N, d, W) their frequencies; n_waves (1,) int64 D
    f        (S, BLOCK, N) outputs of a block of rounds
    after    (S, BLOCK + 1, N) squared norms before each of its rounds, and after the last
    place    (S, 2) as ``LocalScratch`` has it
    eta      (BLOCK, V) step sizes of its rounds
    renewed  (BLOCK,) bool, whether the round is one in which a learner adds up its norms
    held     (S, 2, W) coefficients of the present kernel
    waves    of eight rows at the present kernel, (8 W,) each
    columns, last    as ``LocalScratch`` has them
    eight    (2, 8, S, BLOCK) outputs of eight kernels, and squared norms after each round
    dots     (V, 8) packs whose totals are the outputs times sqrt(D)
    outputs, norms, steps, shrinks    (V,) of the present kernel in the present round

    The last five are fields of this tuple, and as such of ``intervals``: in one of their own a
    round takes 6 % longer.
    """

    theta: np.ndarray
    norm2: np.ndarray
    padded: np.ndarray
    n_waves: np.ndarray
    f: np.ndarray
    after: np.ndarray
    place: np.ndarray
    eta: np.ndarray
    renewed: np.ndarray
    held: np.ndarray
    waves: Waves
    columns: np.ndarray
    last: Waves
    eight: np.ndarray
    dots: np.ndarray
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


def multi_learner(
    models: Sequence[RandomFeatures], scratch: LocalScratch, used_by: MultiLearner | None = None
) -> tuple[MultiLearner, list[RandomFeatures], list[LocalScratch]]:
    """What learners with these models, all of the same frequencies, learn with from now on.

    ``scratch`` is that of one of them, and all write to it by turns. ``used_by`` is another such
    thing for as many learners, which works by turns with this one: they write to the same arrays.
    Returns that, and every learner's model and scratch, of which arrays are parts of it.
    """
    S, N = len(models), models[0].n_kernels
    made = (used_by or _fresh_multi(S, models[0], scratch))._replace(
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


def _fresh_multi(S: int, model: RandomFeatures, scratch: LocalScratch) -> MultiLearner:
    N, d, W = model.padded.shape
    V = -(-S // LANES) * LANES
    return MultiLearner(
        theta=np.empty((0, 0, 0)),
        norm2=np.empty((0, 0)),
        padded=model.padded,
        n_waves=model.n_waves,
        f=aligned((S, BLOCK, N)),
        after=aligned((S, BLOCK + 1, N)),
        place=np.zeros((S, 2), dtype=np.int64),
        eta=aligned((BLOCK, V)),
        renewed=np.zeros(BLOCK, dtype=np.bool_),
        held=aligned((S, 2, W)),
        waves=empty_waves(LANES * W),
        columns=aligned((BLOCK * d,)),
        last=scratch.last,
        eight=aligned((2, LANES, S, BLOCK)),
        dots=aligned((V, LANES)),
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
def _take_steps(shared, settings, r, y, row, root, S):
    """Steps, shrinkings and followed norms of round r; how many learners stay as they are."""
    outputs, norms, eta = shared.outputs, shared.norms, shared.eta
    steps, shrinks = shared.steps, shared.shrinks
    n_idle = 0
    for s in range(S):
        f = outputs[s]
        step, shrink = local_step(element(settings, s), eta[r, s], y[s, row], f)
        norms[s] = followed_norm2(norms[s], f, step, shrink)
        steps[s] = -step / root
        shrinks[s] = shrink
        n_idle += 1 if step == 0.0 and shrink == 1.0 else 0
    return n_idle


@inlined
def _learn_round(shared, t, r, z, after, W, S, n_idle):
    """All learners learn row r, whose waves begin at z; ``dots`` are for the one at ``after``.

    It is their round t + r, t (S,).
    """
    held, waves, dots = shared.held, shared.waves, shared.dots
    steps, shrinks, renewed = shared.steps, shared.shrinks, shared.renewed[r]
    if n_idle == 0:
        several_step_and_evaluate(held, waves, z, after, W, steps, shrinks, 0, S, dots)
    else:
        for s in range(S):
            w = 2 * W * s
            if renewed or steps[s] != 0.0 or shrinks[s] != 1.0:
                one = step_and_evaluate(held, w, waves, z, after, W, pack(steps[s]), shrinks[s])
            else:
                one = dot_coefficients(held, w, waves, after, W)
            store(dots, s * LANES, one)
    for s in range(S if renewed else 0):
        if (t[s] + r) % RENEWED == 0:
            renew_norms(held, W, s, s + 1, shared.norms)


@inlined
def _learn_eight_together(shared, settings, i, t, y, row, r0, D, W, S):
    """Rounds t + r0 .. t + r0 + 7 of kernel i, whose waves are there; t (S,)."""
    root, scale = math.sqrt(D), 1.0 / math.sqrt(D)
    for s in range(S):
        store(shared.dots, s * LANES, dot_coefficients(shared.held, 2 * W * s, shared.waves, 0, W))
    for r in range(LANES):
        outputs_of_packs(shared.dots, scale, shared.outputs)
        for s in range(S):
            shared.eight[0, i % LANES, s, r0 + r] = shared.outputs[s]
        n_idle = _take_steps(shared, settings, r0 + r, y, row + r, root, S)
        z = r * W
        after = z + W if r + 1 < LANES else z
        _learn_round(shared, t, r0 + r, z, after, W, S, n_idle)
        for s in range(S):
            shared.eight[1, i % LANES, s, r0 + r] = shared.norms[s]


@compiled
def _learn_rows(settings, shared, t, X, y, row, n):
    N, d, W = shared.padded.shape
    D = shared.n_waves[0]
    S = shared.theta.shape[0]
    turn_rows(X, row, n, shared.columns)
    shared.renewed[:] = False
    for s in range(S):
        params = element(settings, s)
        for r in range(n):
            shared.eta[r, s] = step_size(params, t[s] + r)
            shared.renewed[r] |= (t[s] + r) % RENEWED == 0
        shared.place[s, 0] = 0
        shared.place[s, 1] = n
    for i in range(N):
        _hold(shared, i, W)
        for r0 in range(0, n, LANES):
            first = r0 * d
            waves_of_eight(shared.padded, D, i, X, row + r0, shared.columns, first, shared, 0)
            _learn_eight_together(shared, settings, i, t, y, row + r0, r0, D, W, S)
        _give_back(shared, i, W)
        if i % LANES == LANES - 1 or i == N - 1:
            _write_eight(shared, i, n)


def learn_rows(
    settings: Any, made: MultiLearner, t: np.ndarray, X: np.ndarray, y: np.ndarray, row: int
) -> int:
    """Let all learners learn rounds t, t + 1, .. from X[row] on, kernel by kernel; how many.

    ``settings`` are of ``columns_of``; t (S,) int64, X (n, d), y (S, n). None, 0, where rows or
    features are too few to be worth it: learners then go by themselves. After it each has to go
    through just these rounds, in which it combines its kernels' outputs.
    """
    N, _, W = made.padded.shape
    n = min(BLOCK, len(X) - row) // LANES * LANES
    if n == 0 or N * W < FEW:
        return 0
    compiled_for(type(settings), _learn_rows)(settings, made, t, X, y, row, n)
    return n


@compiled
def evaluate_others(made, single):
    """Outputs of all learners but the first for the row that it has evaluated, whose waves stay.

    ``evaluate_row`` of each then hands them out, until ``place`` is 0 again.
    """
    S, N = made.norm2.shape
    W = made.padded.shape[2]
    scale = 1.0 / math.sqrt(made.n_waves[0])
    for s in range(1, S):
        for i in range(N):
            w = 2 * W * (s * N + i)
            dot = dot_coefficients(made.theta, w, single.waves, single.start[i], W)
            made.f[s, 0, i] = scale * total(dot)
        made.place[s, 0] = 0
        made.place[s, 1] = -1
