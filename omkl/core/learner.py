"""Learner of one stream: the state of an algorithm, its random generator, and its rounds."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.compiler import compiled_for, specialised
from omkl.core.protocol import CLOSE, OPEN, WHOLE, Algorithm, Selection, run_block
from omkl.core.rng import Uniform, selection_generator

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Trace(NamedTuple):
    """Predictions of a learner for n rows, each made before its target.

    y_hat   (n,), or scores (n, K) of a learner of K > 2 classes
    asked   (n,) bool: whether the target was requested and is known
    spread  (n,) expected standard deviation of the target from y_hat, or half-width of the interval
            of a learner that computes intervals; NaN if there is none
    """

    y_hat: np.ndarray
    asked: np.ndarray
    spread: np.ndarray


def empty_trace(n: int, n_classes: int = 0) -> Trace:
    """Allocate a trace of n rows.

    ``n_classes`` is the number of classes if they are learned together, else 0.
    """
    y_hat = np.empty((n, n_classes) if n_classes else n)
    return Trace(y_hat, np.empty(n, dtype=np.bool_), np.empty(n))


class Learner:
    """Learner of one stream: the state of an algorithm, its random generator, and its rounds.

    Parameters
    ----------
    algorithm
        From ``omkl.algorithms.load``.
    params
        Hyper-parameters, an ``algorithm.Params``.
    dictionary
        N kernels.
    d, D
        Number of inputs, and of random features per kernel.
    seed
        Integer >= 0. Random features and random selections have separate generators, so all
        algorithms have the same features for the same seed.
    model
        Representation to start from; None: a new one.
    threads
        Threads of an exact-kernel learner. Other learners use one.
    """

    _ahead: tuple[Any, Uniform]  # copies of state and generator after the last prediction
    # Bytes of the row whose features are in ``selection``, if the last call predicted one row; b""
    # if it predicted several rows; None if it learned a row.
    _predicted: bytes | None

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
        self.n_classes: int = getattr(params, "n_classes", 0)  # classes that are learned together
        self.asks = False  # whether the last predict_one requested the target
        self.spread = math.nan  # standard deviation from the last predict_one
        self.t = 0  # number of learned rows
        self.used = np.zeros(model.n_kernels, dtype=np.int64)  # rounds with each kernel evaluated
        self.worst = np.zeros(1)  # largest squared error of a single kernel
        self._make_room()

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> Trace:
        """Predict, then learn, row by row. The result does not depend on the split into blocks.

        Parameters
        ----------
        X, y
            Inputs (n, d) and targets (n,). A NaN target is unknown: if it is requested, the row is
            not learned, and ``asked`` is False.

        Returns
        -------
        Trace
            Predictions (n,), each made before its target.

        Raises
        ------
        ValueError
            An input is not a number: nothing is learned. Or a requested target is infinite: the
            rows before it are learned.
        """
        self._forget_prediction()
        X = np.ascontiguousarray(X, dtype=np.float64)
        y = np.ascontiguousarray(y, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != self.d or y.shape != (len(X),):
            raise ValueError(
                f"a block is X (n, {self.d}) and y (n,); got X {X.shape} and y {y.shape}"
            )
        self._require_numbers(X)
        # Rows without a finite target go one by one through ``learn_one``, other rows in blocks.
        unknown = np.append(np.flatnonzero(~np.isfinite(y)), len(y))
        trace = empty_trace(len(y), self.n_classes)
        several = self.threads > 1 and self.representation.lookahead is not None
        pool = ThreadPoolExecutor(self.threads) if several else None
        with pool or contextlib.nullcontext():
            start = 0
            while start < len(y):
                stop = unknown[np.searchsorted(unknown, start)]
                if start == stop:
                    trace.y_hat[start], asks = self.predict_one(X[start])
                    trace.spread[start] = self.spread
                    trace.asked[start] = asks and not math.isnan(y[start])
                    if trace.asked[start] or not asks:
                        self.learn_one(X[start], y[start])
                    start += 1
                    continue
                self.state, n = self.prepared(self.state, X[start:stop], pool)
                rows = slice(start, start + n)
                part = Trace(*(array[rows] for array in trace))
                self._run(WHOLE, self.state, self.rng, X[rows], y[rows], part)
                self.t += len(part.y_hat)
                start = rows.stop
        return trace

    def learn_groups(
        self,
        X: np.ndarray,
        ahead: np.ndarray,
        y: np.ndarray,
        starts: np.ndarray,
        forgets: bool = False,
    ) -> Trace:
        """Predict all rows of a group, then learn them, group by group.

        Each row is learned with the past targets (``context``) that its prediction used.

        Parameters
        ----------
        X, ahead
            The same rows (n, d) in two scalings: ``X`` is learned, and ``ahead`` is predicted. In
            a group of a single row, ``X`` serves for both.
        y
            Targets (n,). A row with target NaN is only predicted.
        starts
            (G + 1,) index of the first row of each of G groups, and n.
        forgets
            Whether to call ``forget_context`` after each learned row of a group of several rows,
            except after the first learned row of the group.

        Returns
        -------
        Trace
            Predictions (n,).
        """
        trace = empty_trace(len(y))
        for rows, together in runs_of(starts):
            if not together:
                part = self.partial_fit(X[rows], y[rows])
            else:
                y_hat, spread = self.predict_with_spread(ahead[rows])
                part, context = Trace(y_hat, ~np.isnan(y[rows]), spread), self.context()
                labels = y[rows][part.asked].tolist()
                for k, (x, label) in enumerate(zip(X[rows][part.asked], labels, strict=True)):
                    self.learn_one(x, label, context)
                    if forgets and k:
                        self.forget_context()
            for whole, found in zip(trace, part, strict=True):
                whole[rows] = found
        return trace

    def predict_one(self, x: np.ndarray) -> tuple[Any, bool]:
        """Predict the row x (d,) as the next row. Nothing is learned.

        A learner that draws kernels draws those of its next round from a copy of its generator.
        ``asks`` and ``spread`` are set for this prediction, and ``learn_one`` reuses the features
        of this row.

        Returns
        -------
        float or ndarray, bool
            Prediction, and whether the learner requests the target.
        """
        X, y, trace = self._row
        self._take_row(x)
        self._open(X, y, trace)
        self._predicted = X.tobytes()
        self.asks, self.spread = trace.asked.item(), trace.spread.item()
        return trace.y_hat[0].copy() if self.n_classes else trace.y_hat.item(), self.asks

    def learn_one(
        self, x: np.ndarray, y: float | None = None, context: np.ndarray | None = None
    ) -> bool:
        """Learn the target y of the row x (d,).

        The result equals that of ``partial_fit`` with one row, to the last bit.

        Parameters
        ----------
        x, y
            Row and its target. y may be None if the learner does not request the target.
        context
            Past targets at the time of the prediction, from ``context()``. Pass it if other rows
            were learned since the row was predicted. None: the current past targets.

        Returns
        -------
        bool
            Whether the target was requested.

        Raises
        ------
        ValueError
            The target is requested but is NaN, infinite or None. Nothing is learned.
        """
        if context is not None and len(context):
            return self._learn_late(x, y, context)
        X, label, trace = self._row
        label[0] = math.nan if y is None else y
        is_label, part = math.isfinite(label[0]), CLOSE
        if not self._predicted or np.asarray(x, dtype=np.float64).tobytes() != self._predicted:
            if is_label:
                part = WHOLE
            else:
                self.predict_one(x)
        if part == WHOLE:
            self._forget_prediction()
            self._take_row(x)
            self.state, _ = self.prepared(self.state, X, None)
        elif self.asks and not is_label:
            raise ValueError(f"the learner requested the target of row {self.t + 1}, and it is {y}")
        else:
            (self.state, self.rng), self._predicted = self._ahead, None
        self._run(part, self.state, self.rng, X, label, trace)
        self.t += 1
        return bool(trace.asked[0])

    def _take_row(self, x: np.ndarray) -> None:
        """Copy x (d,) into ``_row``. Raises ValueError unless x is a row of d numbers."""
        self._row[0][0] = x if self._is_row(x) else self._rows(np.reshape(x, (1, -1)))

    def context(self) -> np.ndarray:
        """Return the numbers (p,) of earlier rows that the next prediction uses.

        These are past targets and, for some learners, the previous row. They are NaN before the
        first target. If a prediction depends only on its own row, the result is empty (0,).
        """
        arrays = self.representation.context(self.state.model)
        if not arrays:
            return np.empty(0)
        return np.concatenate(arrays) if self.t else np.full(sum(map(len, arrays)), np.nan)

    def forget_context(self) -> None:
        """Replace past targets, and all other numbers that ``context`` returns, by 0."""
        for array in self.representation.context(self.state.model):
            array[:] = 0.0

    def _learn_late(self, x: np.ndarray, y: float | None, context: np.ndarray) -> bool:
        """Learn x (d,) with the past targets that its prediction used (``context``).

        Then restore the past targets from before this call, and add y as the newest one.
        """
        knew = not math.isnan(context[0])
        arrays = self.representation.context(self.state.model) if knew else ()
        self._take_row(x)  # raises before the context is changed
        newest = [array.copy() for array in arrays[:1]]
        start = 0
        for array in arrays:
            array[...] = context[start : start + len(array)]
            start += len(array)
        self._forget_prediction()
        asked = self.learn_one(x, y)
        for labels, before in zip(arrays, newest, strict=False):  # y is now the newest target
            labels[1:] = before[:-1]
        return asked

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the prediction (n,) of each row of X (n, d), as ``predict_one`` does."""
        return self.predict_with_spread(X)[0]

    def predict_with_spread(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return predictions and standard deviations, (n,) each; NaN if they are unknown."""
        X, y = self._rows(X), np.empty(len(X))
        trace, start = empty_trace(len(X), self.n_classes), 0
        while start < len(X):
            rows = Trace(*(array[start:] for array in trace))
            start += self._open(X[start:], y[start:], rows)
        return trace.y_hat, trace.spread

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """Return the output (N,) of every kernel for x (d,) as the next row.

        Nothing changes. The output of a kernel that the round would not evaluate is NaN.
        """
        self.predict_with_spread(np.reshape(x, (1, -1)))
        return self.selection.f.copy()

    def _open(self, X: np.ndarray, y: np.ndarray, trace: Trace) -> int:
        """Predict rows X (n, d), each as the next row, and return how many rows were predicted.

        The current tile (see ``prepared``) may limit their number. The predictions write to copies
        of the state and of the generator, so the learner does not change. If ``learn_one`` follows,
        it continues with these copies.
        """
        self._forget_prediction()
        state, rng = self.state, Uniform(self.rng.state.copy())
        own = {name: a.copy() for name, a in state._asdict().items() if isinstance(a, np.ndarray)}
        if written := self.representation.written:
            of_model = {name: getattr(state.model, name).copy() for name in written}
            own["model"] = state.model._replace(**of_model)
        state, n = self.prepared(state._replace(**own), X, None)
        self._ahead, self._predicted = (state, rng), b""
        if n < len(X):
            X, y, trace = X[:n], y[:n], Trace(*(array[:n] for array in trace))
        self._run(OPEN, state, rng, X, y, trace)
        return n

    def _forget_prediction(self) -> None:
        """Discard a prediction that no ``learn_one`` followed: its selected kernels and outputs."""
        if self._predicted is not None:
            self._predicted = None
            self.selection.n_evaluated[0] = self.selection.n_combined[0] = 0
            self.selection.f[:] = math.nan

    def prepared(
        self, state: Any, X: np.ndarray, pool: ThreadPoolExecutor | None
    ) -> tuple[Any, int]:
        """Compute the parts of the rounds of a block of rows that do not depend on targets.

        For exact-kernel learners these are sums over earlier rows, for up to ``tile_rows`` rows (a
        tile) at once. Other learners compute nothing here.

        Parameters
        ----------
        state
            State of the algorithm.
        X
            Rows (n, d).
        pool
            Pool of threads; None: a single thread.

        Returns
        -------
        state, int
            New state, and the number of rows, from the first one on, that were prepared.
        """
        lookahead = self.representation.lookahead
        if lookahead is None:
            return state, len(X)
        n = min(len(X), lookahead.tile_rows(state.model))
        model = lookahead.prepare_tile(state.model, self.selection.scratch, X[:n], pool)
        return state._replace(model=model), n

    def _run(
        self, part: int, state: Any, rng: Uniform, X: np.ndarray, y: np.ndarray, trace: Trace
    ) -> None:
        """Call ``protocol.run_block`` for the rows X. ``part`` is WHOLE, OPEN or CLOSE.

        If X is the array of ``_row``, a single row, the compiled code that runs does not check
        argument types. This saves some microseconds.
        """
        arguments = (
            self.params, state, self.t, X, y, rng, self.selection, *trace, self.used, self.worst,
            part,
        )  # fmt: skip
        if X is not self._row[0] or self.representation.lookahead is not None:
            self._run_block(*arguments)
            return
        if part not in self._row_code:
            self._row_code[part] = specialised(self._run_block, *arguments)
        self._row_code[part](*arguments)

    def _is_row(self, x: Any) -> bool:
        """Return whether x is a valid row that needs no conversion by ``_rows``, which is slow."""
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

    def __getstate__(self) -> dict[str, Any]:
        left_out = {"_run_block", "_row", "_row_code", "_ahead", "_predicted", "selection"}
        return {k: v for k, v in self.__dict__.items() if k not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_room()

    def _make_room(self) -> None:
        """Create the scratch arrays and the other attributes that pickling leaves out."""
        self._run_block = compiled_for(type(self.params), run_block)
        self._row = np.empty((1, self.d)), np.empty(1), empty_trace(1, self.n_classes)
        self._row_code: dict[int, Any] = {}  # compiled round of one row, by part
        self._ahead, self._predicted = (self.state, self.rng), None
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


def runs_of(starts: np.ndarray) -> Iterator[tuple[slice, bool]]:
    """Yield each group of several rows, and each run of consecutive groups of a single row.

    Parameters
    ----------
    starts
        (G + 1,) index of the first row of each of G groups, and the number of rows.

    Yields
    ------
    slice, bool
        Slice of the rows, and whether they are one group of several rows.
    """
    several = np.flatnonzero(np.diff(starts) > 1)
    start = 0
    for first, last in zip(starts[several].tolist(), starts[several + 1].tolist(), strict=True):
        if start < first:
            yield slice(start, first), False
        yield slice(first, last), True
        start = last
    if start < starts[-1]:
        yield slice(start, int(starts[-1])), False
