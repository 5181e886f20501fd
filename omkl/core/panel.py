"""Learners of many series of one stream, with their states as rows of arrays.

The state of a learner is a NamedTuple of arrays. The states of S series are one NamedTuple of
arrays (S, ...), or (1, ...) if all series share the array, such as random frequencies. The index of
a series is its slot. The rows of a block are sorted by series, and the rows of each series run
through ``protocol.run_block``. The results equal those of a separate learner per series, to the
last bit.

Slot 0 has the initial state, before the first row of a series. The next ``N_SCRATCH`` slots are
scratch: the state of a series is copied there for a prediction without a target.
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

FRESH, N_SCRATCH = 0, 8  # slot of a fresh series, and number of scratch slots, one per thread
FIRST = 1 + N_SCRATCH  # the first slot of a series
WORTH_THREADS = 5_000  # rows; for fewer rows, starting threads takes longer than it saves


class Slots(NamedTuple):
    """States and random generators of S series: arrays (S, ...), or (1, ...) if shared."""

    state: Any
    rng: Uniform


class Groups(NamedTuple):
    """Order in which the rows of a block are learned. Each of G runs has rows of a single series.

    rows     (n,) int64, index in the block of each row
    starts   (G + 1,) int64, index in ``rows`` at which each run begins; the last entry is n
    slots    (G,) int64, slot of the series of each run
    learns   (G,) bool, whether the rows of each run have targets
    """

    rows: np.ndarray
    starts: np.ndarray
    slots: np.ndarray
    learns: np.ndarray

    def part(self, first: int, last: int) -> Groups:
        """Return the runs first .. last - 1. The result shares the array ``rows``."""
        cut = slice(first, last)
        return Groups(self.rows, self.starts[first : last + 1], self.slots[cut], self.learns[cut])


def groups_of(slots: np.ndarray, learns: np.ndarray, in_order: bool) -> Groups:
    """Group rows into runs of one series, with or without targets.

    Parameters
    ----------
    slots, learns
        Slot of each row, and whether it has a target, (n,).
    in_order
        Whether to keep the order of the rows. It must be kept if series learn from each other.
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
    """Learners of many series, each equal to a ``Learner`` of the same settings.

    Parameters
    ----------
    fresh
        Learner that has learned nothing. Its state is the initial state of every series.
    share_weights
        Whether all series share one array ``log_w`` of kernel weights. Rows are then learned in the
        order of the stream.
    threads
        Number of threads, at most ``N_SCRATCH``. It does not change the results.
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
        """Number of rows (N,) for which each kernel was evaluated."""
        return np.sum([used for _, used, _ in self._workers], axis=0)

    @property
    def worst(self) -> float:
        """Largest squared error of a kernel over all rows and series."""
        return max(float(worst[0]) for *_, worst in self._workers)

    def make_room(self, n: int) -> None:
        """Grow the arrays to at least ``n`` slots."""
        if n > self.n_slots:

            def grown(_: str, array: np.ndarray) -> np.ndarray:
                return array if len(array) == 1 else longer(array, n)

            self.slots = mapped(grown, "slots", self.slots)
            self.t = longer(self.t, n)

    def run(self, groups: Groups, X: np.ndarray, y: np.ndarray) -> Trace:
        """Predict rows, and learn the rows with targets.

        Parameters
        ----------
        groups
            Order of the rows.
        X, y
            Inputs (n, d) and targets (n,), in the order of ``groups``.

        Returns
        -------
        Trace
            Predictions (n,) in the same order. ``asked`` is False for rows without targets.
        """
        trace = empty_trace(len(y))
        threads = self.threads if len(y) >= WORTH_THREADS else 1
        ends = np.searchsorted(groups.starts, np.linspace(0, len(y), threads + 1))
        cuts = [_at_a_series(groups.slots, int(end)) for end in ends[:-1]] + [len(groups.slots)]

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


def _at_a_series(slots: np.ndarray, g: int) -> int:
    """Return the first run, g or later, that belongs to another series than the run before it.

    A thread may begin at this run, because no series is then divided between two threads.
    ``slots`` (G,) has the slot of the series of each run. If there is no such run, return G.
    """
    while 0 < g < len(slots) and slots[g] == slots[g - 1]:
        g += 1
    return min(g, len(slots))


def _same_for_all(learner: Learner) -> set[int]:
    """Return the ids of the arrays that all series share.

    These are the random features, and the arrays of whole numbers without a declared range. No
    round changes such arrays.
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
    """Return an array (n, ...) that begins with ``array`` and ends with zeros."""
    grown = aligned((n, *array.shape[1:]), array.dtype.name)
    grown[: len(array)] = array
    return grown
