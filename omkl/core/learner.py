"""A learner on a stream: the state of an algorithm, its generator and its clock."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.compiler import compiled_for, specialised
from omkl.core.protocol import (
    CLOSE,
    OPEN,
    WHOLE,
    Algorithm,
    Selection,
    run_block,
)
from omkl.core.rng import Uniform, selection_generator

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Trace(NamedTuple):
    """The predictions of a learner in a block, each made before its label.

    y_hat (n,), or scores (n, K) of a learner of K > 2 classes; asked (n,) bool; spread (n,), the
    deviation of the label from y_hat that it expects, or of a learner with intervals of its own
    half their width; NaN where there is none.
    """

    y_hat: np.ndarray
    asked: np.ndarray
    spread: np.ndarray


class Before(NamedTuple):
    """What ``predict_one`` writes to, before it does: see ``Learner.before_round``."""

    state: Any
    written: list[np.ndarray]
    copies: list[np.ndarray]


def empty_trace(n: int, n_classes: int = 0) -> Trace:
    """``n_classes`` where they are learned together, else 0."""
    y_hat = np.empty((n, n_classes) if n_classes else n)
    return Trace(y_hat, np.empty(n, dtype=np.bool_), np.empty(n))


def _empty_row(d: int, n_classes: int) -> tuple[np.ndarray, np.ndarray, Trace]:
    """A row X (1, d), its label y (1,) and its prediction."""
    return np.empty((1, d)), np.empty(1), empty_trace(1, n_classes)


class Learner:
    """One learner on one stream: the state of an algorithm, its generator and its clock.

    Parameters
    ----------
    algorithm
        From ``omkl.algorithms.load``.
    params
        An ``algorithm.Params``.
    dictionary
        N kernels.
    d, D
        Inputs, and random features a kernel.
    seed
        Integer >= 0. Features and selection draw from separate children of one
        ``SeedSequence``: all algorithms see the same features for the same seed.
    model
        A representation to start from in place of a fresh one.
    threads
        Threads of an exact-kernel learner; the others use one.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        params: Any,
        dictionary: Sequence[Kernel],
        d: int,
        D: int,
        seed: int,
        model: Any = None,
        threads: int = 1,
    ) -> None:
        kernels = algorithm.kernels(params, dictionary, d)
        self.representation = algorithm.representation
        if model is None:
            model = self.representation.fresh(params, kernels, d, D, seed)
        self.params = params
        self.d = d
        self.threads = threads
        self.state = algorithm.init(params, kernels, model)
        self.rng = selection_generator(seed)
        self._run_block = compiled_for(type(params), run_block)
        self._written: tuple[Any, list[np.ndarray]] = None, []  # by predict_one, in that state
        self._row_code: tuple[Any, Any] = None, None  # of a round of one row, in that state
        self.n_classes: int = getattr(params, "n_classes", 0)  # that are learned together
        self._row = _empty_row(d, self.n_classes)
        self._asked: bool | None = None  # whether the open round asks; None where none is open
        self.spread = math.nan  # of the last prediction of predict_one
        self.t = 0
        self.used = np.zeros(model.n_kernels, dtype=np.int64)
        self.worst = np.zeros(1)  # largest squared error of a single kernel
        self.selection = self.empty_selection()

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> Trace:
        """Predict, then learn, row by row. Any split into blocks gives the same numbers.

        Parameters
        ----------
        X, y
            Inputs (n, d) and labels (n,).

        Returns
        -------
        The predictions (n,), each made before its label.

        Raises
        ------
        ValueError
            Names the row of an input that is no number, before anything is learned, or of a label
            that is none and that the learner asks for, when it is its turn: that round stays open.
        """
        self.require_no_open_round()
        X = np.ascontiguousarray(X, dtype=np.float64)
        y = np.ascontiguousarray(y, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != self.d or y.shape != (len(X),):
            raise ValueError(
                f"a block is X (n, {self.d}) and y (n,); got X {X.shape} and y {y.shape}"
            )
        self._require_numbers(X)
        unknown = np.append(np.flatnonzero(~np.isfinite(y)), len(y))  # one by one, see learn_one
        trace = empty_trace(len(y), self.n_classes)
        several = self.threads > 1 and self.representation.lookahead is not None
        pool = ThreadPoolExecutor(self.threads) if several else None
        with pool or contextlib.nullcontext():
            start = 0
            while start < len(y):
                stop = unknown[np.searchsorted(unknown, start)]
                if start == stop:
                    trace.y_hat[start], trace.asked[start] = self.predict_one(X[start])
                    trace.spread[start] = self.spread
                    self.learn_one(y[start])
                    start += 1
                    continue
                rows = slice(start, start + self.prepare_tile(X[start:stop], pool))
                part = Trace(*(array[rows] for array in trace))
                self._run(WHOLE, X[rows], y[rows], part)
                self.t += len(part.y_hat)
                start = rows.stop
        return trace

    def prepare_tile(self, X: np.ndarray, pool: ThreadPoolExecutor | None = None) -> int:
        """Do what can be done for rows X (n, d) before their rounds; returns for how many."""
        lookahead, model = self.representation.lookahead, self.state.model
        if lookahead is None:
            return len(X)
        n = min(len(X), lookahead.tile_rows(model))
        model = lookahead.prepare_tile(model, self.selection.scratch, X[:n], pool)
        self.state = self.state._replace(model=model)
        return n

    def predict_one(self, x: np.ndarray) -> tuple[Any, bool]:
        """Open a round with x (d,): the prediction, and whether the learner asks for the label.

        The round is closed by ``learn_one``: the two are ``partial_fit`` of one row, to the bit.
        ``spread`` is then that of this prediction. RuntimeError while a round is open.
        """
        self.require_no_open_round()
        X, y, trace = self._row
        X[0] = x if self._is_row(x) else self._rows(np.reshape(x, (1, -1)))
        self.prepare_tile(X)
        self._run_row(OPEN, X, y, trace)
        self._asked, self.spread = trace.asked.item(), trace.spread.item()
        return trace.y_hat[0].copy() if self.n_classes else trace.y_hat.item(), self._asked

    def learn_one(self, y: float | None = None) -> None:
        """Close the open round with the label y of its row.

        Where the learner did not ask, y may be left out, and it does not see one that is given.
        RuntimeError where no round is open; ValueError where a label was asked for and is NaN,
        infinite or left out: the round stays open.
        """
        if self._asked is None:
            raise RuntimeError("no row is open: predict_one(x) opens one")
        label = math.nan if y is None else float(y)
        if self._asked and not math.isfinite(label):
            raise ValueError(f"the learner requested the target of row {self.t + 1}, and it is {y}")
        X, y_row, trace = self._row
        y_row[0], trace.asked[0] = label, self._asked
        self._asked = None
        self._run_row(CLOSE, X, y_row, trace)
        self.t += 1

    def context(self) -> list[np.ndarray]:
        """Copies of what the next row knows of the rows before it; [] before there was one."""
        if not self.t:
            return []
        return [array.copy() for array in self.representation.context(self.state.model)]

    def learn_late(self, X: np.ndarray, y: np.ndarray, context: Sequence[np.ndarray]) -> None:
        """``partial_fit`` of a row X (1, d) that came when ``context`` was that of the next row.

        It is learned as what it was then, with the past labels that were known: a learner that has
        past labels as inputs would else learn from newer ones than it predicts with. Where nothing
        came between, it is ``partial_fit`` to the bit.
        """
        arrays = self.representation.context(self.state.model) if self.t and len(context) else ()
        newest = [array.copy() for array in arrays[:1]]
        for array, then in zip(arrays, context, strict=False):
            array[...] = then
        self.partial_fit(X, y)
        for labels, before in zip(arrays, newest, strict=False):  # y in front of those known now
            labels[1:] = before[:-1]

    def before_round(self) -> Before:
        """Copies of what the next ``predict_one`` writes to, with which ``cancel`` undoes it."""
        self.require_no_open_round()
        state, written = self._written
        if state is not self.state:
            state = self.state
            written = [self.rng.state, *(a for a in state if isinstance(a, np.ndarray))]
            written += [getattr(state.model, name) for name in self.representation.written]
            written += [a for a in self.selection if isinstance(a, np.ndarray)]
            self._written = state, written
        return Before(state, written, [array.copy() for array in written])

    def cancel(self, before: Before) -> None:
        """Let the round that was opened after ``before_round`` never have been, to the bit."""
        for array, copied in zip(before.written, before.copies, strict=True):
            array[...] = copied
        if self.representation.lookahead is not None:  # which made another state of the round
            self.state = before.state
        self._asked = None

    def predict(self, X: np.ndarray) -> np.ndarray:
        """What ``predict_one`` would predict for each row X (n, d) as the next one, (n,).

        Nothing is learned and nothing changes: a learner that chooses kernels by chance predicts
        with those of its next round, drawn from a copy of its generator, and will draw them
        again. RuntimeError while a round is open.
        """
        return self.predict_with_spread(X)[0]

    def predict_with_spread(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``predict`` and the spread of every prediction, (n,) each; NaN where there is none."""
        self.require_no_open_round()
        X = self._rows(X)
        parts = [empty_trace(0, self.n_classes)]
        while len(X):
            parts.append(self._look()._open(X))
            X = X[len(parts[-1].y_hat) :]
        y_hat, _, spread = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return y_hat, spread

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """What every kernel would say of the row x (d,) as the next, (N,); nothing changes.

        NaN where the round would not evaluate it. RuntimeError while a round is open.
        """
        self.require_no_open_round()
        look = self._look()
        look._open(self._rows(np.reshape(x, (1, -1))))
        return look.selection.f.copy()

    def _look(self) -> Learner:
        """A learner with arrays of its own wherever a round writes before its label is known."""
        state, model = self.state, self.state.model
        look = copy.copy(self)
        look.rng = Uniform(self.rng.state.copy())
        look.state = state._replace(
            **{name: a.copy() for name, a in state._asdict().items() if isinstance(a, np.ndarray)},
            model=model._replace(
                **{name: getattr(model, name).copy() for name in self.representation.written}
            ),
        )
        return look

    def _open(self, X: np.ndarray) -> Trace:
        """Predictions for each row, or for as many as fit into a tile, as that of the round."""
        X = X[: self.prepare_tile(X)]
        trace = empty_trace(len(X), self.n_classes)
        self._run(OPEN, X, np.empty(len(X)), trace)
        return trace

    def _run(self, part: int, X: np.ndarray, y: np.ndarray, trace: Trace) -> None:
        self._run_block(*self._arguments(part, X, y, trace))

    def _run_row(self, part: int, X: np.ndarray, y: np.ndarray, trace: Trace) -> None:
        """``_run`` of ``_row``, whose arrays have the same types in every call."""
        if self.representation.lookahead is not None:  # which makes another state of each round
            self._run(part, X, y, trace)
            return
        arguments = self._arguments(part, X, y, trace)
        if self._row_code[0] is not self.state:
            self._row_code = self.state, specialised(self._run_block, *arguments)
        self._row_code[1](*arguments)

    def _arguments(self, part: int, X: np.ndarray, y: np.ndarray, trace: Trace) -> tuple[Any, ...]:
        return (
            self.params, self.state, self.t, X, y, self.rng, self.selection, *trace,
            self.used, self.worst, part,
        )  # fmt: skip

    def _is_row(self, x: Any) -> bool:
        """Whether it is a row for sure; ``_rows`` takes more, and needs five times as long."""
        plain = type(x) is np.ndarray and x.dtype == np.float64 and x.shape == (self.d,)
        return plain and math.isfinite(sum(x.tolist()))

    def _rows(self, X: np.ndarray) -> np.ndarray:
        X = np.ascontiguousarray(X, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != self.d:
            raise ValueError(f"a row is x ({self.d},), rows are X (n, {self.d}); got {X.shape}")
        self._require_numbers(X)
        return X

    def _require_numbers(self, X: np.ndarray) -> None:
        finite = np.isfinite(X)
        if finite.all():
            return
        refused = np.isinf(X) if self.representation.accepts_blanks else ~finite
        if refused.any():
            s, k = np.argwhere(refused)[0]
            raise ValueError(f"input {k + 1} of row {self.t + s + 1} is {X[s, k]}: no number")

    def require_no_open_round(self) -> None:
        """RuntimeError while a round is open."""
        if self._asked is not None:
            raise RuntimeError("a row is open: learn_one(y) closes it")

    def __getstate__(self) -> dict[str, Any]:
        left_out = {"_run_block", "_written", "_row_code", "_row"}
        left_out |= {"selection"} if self._asked is None else set()
        return {k: v for k, v in self.__dict__.items() if k not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._written, self._row_code = (None, []), (None, None)
        self._row = _empty_row(self.d, self.n_classes)
        self._run_block = compiled_for(type(self.params), run_block)
        if self._asked is None:
            self.selection = self.empty_selection()

    def empty_selection(self) -> Selection:
        model = self.state.model
        N = model.n_kernels
        scratch = self.representation.scratch(model, self.threads)
        return Selection(
            evaluate=np.zeros(N, dtype=np.int64),
            combine=np.zeros(N, dtype=np.int64),
            n_evaluated=np.zeros(1, dtype=np.int64),
            n_combined=np.zeros(1, dtype=np.int64),
            f=np.full(N, np.nan),
            scratch=scratch,
        )


def one_against_rest(y: np.ndarray, number: int, n_classes: int) -> np.ndarray:
    """The labels -1, +1 (n,) for the learner of class ``number``; y as for a learner."""
    return y if n_classes == 2 else np.where(y == number, 1.0, -1.0)
