"""Kernel classifiers with a budget: the oldest support vector goes when a new one comes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from omkl.core.hyperparameters import ROUNDS, Range
from omkl.core.jit import dispatch, inlined
from omkl.core.kernel_sums import own_sum, write_own_rows
from omkl.core.representations import Representation, evaluate_row
from omkl.core.representations.classifiers import add, project
from omkl.core.representations.expansion import check_kernels, empty_expansion
from omkl.core.representations.perceptrons import SMALLEST_SCALE, inverse_norm, own_value
from omkl.core.simd import LANES, aligned, load, store, totals

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Budgeted(NamedTuple):
    """N exact kernel classifiers with at most B support vectors each.

    x         (N, P, d, 8) support vectors by eights, those of a kernel together; 8 P is at least B
    inverse   (N, 8 P) 1 / ||x_s||, 0 for x_s = 0
    alpha     (N, 8 P) signed coefficients, 0 where there is no vector
    age       (N, B) int64, round of each
    size      (N,) int64; scale (N,); norm2 (N,) ||f_i||^2, where f_i is projected
    now       (d,) the row of the current round; rounds (1,) int64
    smallest  (1,) bool: drop the smallest coefficient rather than the oldest vector
    family, parameter   as in ``expansion.Expansion``
    """

    x: np.ndarray
    inverse: np.ndarray
    alpha: np.ndarray
    age: ROUNDS
    size: Annotated[np.ndarray, Range(0, "age.1")]
    scale: np.ndarray
    norm2: np.ndarray
    now: np.ndarray
    rounds: ROUNDS
    smallest: np.ndarray
    family: np.ndarray
    parameter: np.ndarray

    @property
    def n_kernels(self) -> int:
        return len(self.alpha)


class Scratch(NamedTuple):
    """What rounds write to. Norms cost as much as f_i, and ``project`` alone needs them.

    dropped  (d,) the support vector that ``add`` let go
    change   (3,) what ||f_i||^2 changes by before it goes; its coefficient, 0 for none; 1 / ||x_s||
    row      (64 P,) kernels of x and the support vectors of at most eight classifiers
    sums     (8 8,) packs whose totals are their sums
    groups   (G + 1,) int64: where each of G groups of classifiers begins, and N; a group is eight
             at most, with kernels of one family
    """

    dropped: np.ndarray
    change: np.ndarray
    row: np.ndarray
    sums: np.ndarray
    groups: np.ndarray


def _fresh(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> Budgeted:
    """With at most ``params.budget`` support vectors each."""
    N, budget = len(kernels), params.budget
    packs = -(-budget // LANES)
    like = empty_expansion(kernels, d)
    return Budgeted(
        x=aligned((N, packs, d, LANES)),
        inverse=aligned((N, packs * LANES)),
        alpha=aligned((N, packs * LANES)),
        age=np.zeros((N, budget), dtype=np.int64),
        size=np.zeros(N, dtype=np.int64),
        scale=np.ones(N),
        norm2=np.zeros(N),
        now=np.zeros(d),
        rounds=np.zeros(1, dtype=np.int64),
        smallest=np.array([params.drop_smallest]),
        family=like.family,
        parameter=like.parameter,
    )


@inlined
def _values(model, first, last, x, inverse, scratch):
    """A pack of f_i(x) of the kernels first .. last - 1, at most eight of a family; x (d,)."""
    sums = scratch.sums
    write_own_rows(model, first, last, x, inverse, scratch.row)
    held = model.alpha.shape[1]
    n = 0
    for i in range(first, last):
        size = model.size[i]
        one = own_sum(scratch.row, n, model.alpha, i * held, size)
        store(sums, (i - first) * LANES, one)
        n += (size + LANES - 1) // LANES * LANES
    f = totals(
        load(sums, 0), load(sums, LANES), load(sums, 2 * LANES), load(sums, 3 * LANES),
        load(sums, 4 * LANES), load(sums, 5 * LANES), load(sums, 6 * LANES), load(sums, 7 * LANES),
    )  # fmt: skip
    return load(model.scale, first, last - first) * f


@inlined
def outputs(model, x, scratch, f):
    """f (N,) at x (d,), which is kept for an update."""
    model.rounds[0] += 1
    for k in range(x.shape[0]):
        model.now[k] = x[k]
    inverse = inverse_norm(x)
    for g in range(scratch.groups.shape[0] - 1):
        first, last = scratch.groups[g], scratch.groups[g + 1]
        store(f, first, _values(model, first, last, x, inverse, scratch), last - first)


@inlined
def _dropped(model, i):
    """The place 0..B-1 of the vector that goes: the oldest, or that of the smallest coefficient."""
    place = 0
    for s in range(1, model.size[i]):
        if model.smallest[0]:
            a, b = abs(model.alpha[i, s]), abs(model.alpha[i, place])
            if a < b or (a == b and model.age[i, s] < model.age[i, place]):
                place = s
        elif model.age[i, s] < model.age[i, place]:
            place = s
    return place


def _add_to_budgeted(model, i, c, f, scratch):
    now = model.now
    inverse = inverse_norm(now)
    scratch.change[0] = c * (2.0 * f + c * own_value(model, i, inverse))
    scratch.change[1] = 0.0
    s = model.size[i]
    if s == model.age.shape[1]:
        s = _dropped(model, i)
        scratch.change[1] = model.scale[i] * model.alpha[i, s]
        scratch.change[2] = model.inverse[i, s]
        for k in range(now.shape[0]):
            scratch.dropped[k] = model.x[i, s // LANES, k, s % LANES]
    else:
        model.size[i] += 1
    for k in range(now.shape[0]):
        model.x[i, s // LANES, k, s % LANES] = now[k]
    model.inverse[i, s] = inverse
    model.alpha[i, s] = c / model.scale[i]
    model.age[i, s] = model.rounds[0]


@inlined
def _follow_norm(model, i, scratch):
    """The norm after the last ``add``, and without what it dropped: a kappa(x_s, .)."""
    model.norm2[i] += scratch.change[0]
    a, inverse = scratch.change[1], scratch.change[2]
    if a != 0.0:
        store(scratch.sums, 0, _values(model, i, i + 1, scratch.dropped, inverse, scratch))
        left = scratch.sums[0]
        part = a * (2.0 * left + a * own_value(model, i, inverse))
        model.norm2[i] = max(0.0, model.norm2[i] - part)
    scratch.change[0] = 0.0
    scratch.change[1] = 0.0


def _project_budgeted(model, i, R, scratch):
    _follow_norm(model, i, scratch)
    if model.norm2[i] <= R * R:
        return
    model.scale[i] *= R / math.sqrt(model.norm2[i])
    model.norm2[i] = R * R
    if model.scale[i] < SMALLEST_SCALE:
        for s in range(model.size[i]):
            model.alpha[i, s] *= model.scale[i]
        model.scale[i] = 1.0


def _evaluate(scratch, model, X, row, selection):
    outputs(model, X[row], scratch, selection.f)


dispatch(evaluate_row, Scratch, _evaluate)

dispatch(add, Budgeted, _add_to_budgeted)

dispatch(project, Budgeted, _project_budgeted)


def _scratch(model: Budgeted, threads: int, every_kernel: bool, precision: str) -> Scratch:
    return Scratch(
        dropped=np.zeros(len(model.now)),
        change=np.zeros(3),
        row=aligned((LANES * LANES * model.x.shape[1],)),
        sums=aligned((LANES * LANES,)),
        groups=np.array(_groups(model.family.tolist())),
    )


def _groups(families: Sequence[int]) -> list[int]:
    starts = [0]
    for i, family in enumerate(families):
        if i - starts[-1] == LANES or family != families[starts[-1]]:
            starts.append(i)
    return [*starts, len(families)]


def _support_size(model: Budgeted) -> np.ndarray:
    return model.size


def _kept_rows(model: Budgeted) -> int:
    return int(model.size.sum())


BUDGETED = Representation(
    name="kernel Perceptrons on a budget",
    fresh=_fresh,
    scratch=_scratch,
    lookahead=None,
    written=("now", "rounds"),
    draws_features=False,
    supports_float32=False,
    support_size=_support_size,
    kept_rows=_kept_rows,
    check_kernels=check_kernels,
)
