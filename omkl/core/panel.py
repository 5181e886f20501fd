"""Learners of many keys on one stream: their states as rows of arrays, and one loop over a block.

A state is a NamedTuple of arrays. Those of S keys are the same NamedTuple of arrays (S, ...), and
what all keys share, random frequencies among it, is there once, as arrays (1, ...). The rows of a
block are sorted by key, and each key's run through ``protocol.run_block`` as they would by
themselves: numbers are those of a learner that is alone, to the bit.

Slot 0 is a key before its first row, and the next ``N_SCRATCH`` are written to where something is
predicted and not learned: a copy is made of a key's slot, as ``Learner.predict`` makes one.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from omkl.core.compiler import compiled, copy_element, element
from omkl.core.learner import Learner, Trace, empty_trace
from omkl.core.protocol import OPEN, WHOLE, run_block
from omkl.core.rng import Uniform
from omkl.core.simd import aligned
from omkl.core.snapshot import fields, mapped, named_arrays

FRESH, N_SCRATCH = 0, 8  # a slot, and how many of them threads write to
FIRST = 1 + N_SCRATCH  # the first slot of a key
WORTH_THREADS = 5_000  # rows: fewer take less time than threads take to start


class Slots(NamedTuple):
    """The states and generators of S keys, arrays (S, ...), or (1, ...) where they share one."""

    state: Any
    rng: Uniform


class Groups(NamedTuple):
    """Rows of a block in the order in which they are learned: runs of rows of one key.

    rows     (n,) int64 the places of these rows in the block
    starts   (G + 1,) int64 where each run begins in ``rows``, and n
    slots    (G,) int64 the slot of its key
    learns   (G,) bool whether its rows have targets
    """

    rows: np.ndarray
    starts: np.ndarray
    slots: np.ndarray
    learns: np.ndarray

    def part(self, first: int, last: int) -> Groups:
        """Runs first .. last - 1 of the same rows."""
        cut = slice(first, last)
        return Groups(self.rows, self.starts[first : last + 1], self.slots[cut], self.learns[cut])


def groups_of(slots: np.ndarray, learns: np.ndarray, in_order: bool) -> Groups:
    """The runs of rows with these slots and targets, (n,) each.

    ``in_order``: rows stay in their order, where keys learn from each other.
    """
    n = len(slots)
    rows = np.arange(n) if in_order else np.argsort(slots, kind="stable")
    slots, learns = slots[rows], learns[rows]
    new = np.ones(n + 1, dtype=np.bool_)
    new[1:n] = (slots[1:] != slots[:-1]) | (learns[1:] != learns[:-1])
    starts = np.flatnonzero(new) if n else np.zeros(1, dtype=np.int64)
    return Groups(rows, starts, slots[starts[:-1]], learns[starts[:-1]])


@compiled
def _run_groups(
    params, all_slots, t, starts, slots, learns, X, y, selection, y_hat, asked, spread, used, worst,
    scratch,
):  # fmt: skip
    for g in range(slots.shape[0]):
        s, a, b = slots[g], starts[g], starts[g + 1]
        own, part = s, WHOLE
        if not learns[g]:
            own, part = scratch, OPEN
            copy_element(all_slots, s, scratch)
        found = element(all_slots, own)
        run_block(
            params, found.state, t[s], X[a:b], y[a:b], found.rng, selection,
            y_hat[a:b], asked[a:b], spread[a:b], used, worst, part,
        )  # fmt: skip
        if learns[g]:
            t[s] += b - a


class PanelLearner:
    """Learners of many keys, each as ``Learner`` of the same settings.

    Parameters
    ----------
    fresh
        A learner that has learned nothing: what every key begins as.
    share_weights
        Whether all keys share one ``log_w``; rows are then learned in their order.
    threads
        At most ``N_SCRATCH``; numbers do not depend on it.
    """

    def __init__(self, fresh: Learner, share_weights: bool = False, threads: int = 1) -> None:
        self.params, self.share_weights = fresh.params, share_weights
        self.threads = 1 if share_weights else min(threads, N_SCRATCH)
        is_shared, n = _same_for_all(fresh), FIRST
        if share_weights:
            is_shared.add(id(fresh.state.log_w))

        def with_slots(_: str, array: np.ndarray) -> np.ndarray:
            if id(array) in is_shared:
                return array[None]
            copies = aligned((n, *array.shape), array.dtype.name)
            copies[:] = array
            return copies

        self.slots = mapped(with_slots, "slots", Slots(fresh.state, fresh.rng))
        self.t = np.zeros(n, dtype=np.int64)
        self._workers = [
            (fresh.empty_selection(), fresh.used.copy(), np.zeros(1)) for _ in range(self.threads)
        ]

    @property
    def n_slots(self) -> int:
        return len(self.t)

    @property
    def used(self) -> np.ndarray:
        """How often (N,) each kernel was evaluated."""
        return np.sum([used for _, used, _ in self._workers], axis=0)

    @property
    def worst(self) -> float:
        """The largest squared error of a single kernel."""
        return max(float(worst[0]) for *_, worst in self._workers)

    def make_room(self, n: int) -> None:
        """Have ``n`` slots, where there are fewer."""
        if n > self.n_slots:

            def grown(_: str, array: np.ndarray) -> np.ndarray:
                return array if len(array) == 1 else longer(array, n)

            self.slots = mapped(grown, "slots", self.slots)
            self.t = longer(self.t, n)

    def run(self, groups: Groups, X: np.ndarray, y: np.ndarray) -> Trace:
        """Predict, and learn where there are targets: X (n, d), y (n,) in the order of ``groups``.

        Returns
        -------
        The predictions (n,) in that order; ``asked`` is False for rows without targets.
        """
        trace = empty_trace(len(y))
        threads = self.threads if len(y) >= WORTH_THREADS else 1
        ends = np.searchsorted(groups.starts, np.linspace(0, len(y), threads + 1))
        cuts = [_at_a_key(groups.slots, int(end)) for end in ends[:-1]] + [len(groups.slots)]

        def work(k: int) -> None:
            some, (selection, used, worst) = groups.part(cuts[k], cuts[k + 1]), self._workers[k]
            _run_groups(
                self.params, self.slots, self.t, some.starts, some.slots, some.learns, X, y,
                selection, *trace, used, worst, 1 + k,
            )  # fmt: skip

        if threads == 1:
            work(0)
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(work, range(threads)))
        return trace


def _at_a_key(slots: np.ndarray, g: int) -> int:
    """The first run from number g on that is of another key than the run before it."""
    while 0 < g < len(slots) and slots[g] == slots[g - 1]:
        g += 1
    return min(g, len(slots))


def _same_for_all(learner: Learner) -> set[int]:
    """The ids of arrays that are the same for all keys.

    They are the features, and whole numbers that never change: those of which no range is said.
    """
    model, with_zero_weights = learner.state.model, learner.representation.with_zero_weights
    others = with_zero_weights(model) if with_zero_weights else None
    features = {id(array) for _, array in named_arrays(others)} if others else set()
    return {
        id(field.array)
        for field in fields(learner.state)
        if id(field.array) in features
        or (field.array.dtype.kind in "bi" and field.range is None and not field.derived)
    }


def longer(array: np.ndarray, n: int) -> np.ndarray:
    """An array (n, ...) that begins with ``array``, zeros behind."""
    grown = aligned((n, *array.shape[1:]), array.dtype.name)
    grown[: len(array)] = array
    return grown
