"""A learner on a stream: the state of an algorithm, its generator and its clock."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.protocol import Algorithm, Round, run_block_of
from omkl.core.seeding import selection_generator

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Trace(NamedTuple):
    """What a learner said in a block: y_hat (n,), given before each label; asked (n,) bool."""

    y_hat: np.ndarray
    asked: np.ndarray


PRECISIONS = ("float64", "float32")


def check_precision(algorithm: Algorithm, precision: str) -> None:
    """Raise ValueError unless the algorithm can have features of that precision."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision={precision!r} is none of {', '.join(PRECISIONS)}")
    if precision != "float64" and not algorithm.representation.supports_float32:
        raise ValueError(
            f"precision={precision} rounds random features, and {algorithm.name} has exact "
            "kernels; leave it at float64"
        )


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
    precision
        "float32": random features are rounded to single precision, coefficients and sums
        are not. Predictions move by about 1e-8, and by more once that tips a choice of kernels.
    before
        Rows (n, d) that the learner sees before the first round, where its settings ask for
        some. ValueError where they do and none are given.
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
        precision: str = "float64",
        before: np.ndarray | None = None,
    ) -> None:
        check_precision(algorithm, precision)
        kernels = algorithm.kernels(params, dictionary)
        self.representation = algorithm.representation
        if model is None:
            model = self.representation.fresh(params, kernels, d, D, seed)
        self.params = params
        self.d = d
        self.threads = threads
        self.every_kernel = algorithm.every_kernel
        self.precision = precision
        if algorithm.rows_before is None:
            self.state = algorithm.init(params, kernels, model)
        else:
            if algorithm.rows_before(params) and before is None:
                raise ValueError(
                    f"{algorithm.name} with these settings looks at rows before the "
                    "first round: give them as Learner(before=X)"
                )
            self.state = algorithm.init(params, kernels, model, before)
        self.rng = selection_generator(seed)
        self._run_block = run_block_of(type(params))
        self.t = 0
        self.used = np.zeros(model.n_kernels, dtype=np.int64)
        self.worst = np.zeros(1)  # largest squared error of a single kernel
        self._round = self._room()

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> Trace:
        """Predict, then learn, row by row: X (n, d), y (n,). Any split gives the same numbers."""
        X = np.ascontiguousarray(X, dtype=np.float64)
        y = np.ascontiguousarray(y, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != self.d or y.shape != (len(X),):
            raise ValueError(
                f"a block is X (n, {self.d}) and y (n,); got X {X.shape} and y {y.shape}"
            )
        trace = Trace(np.empty(len(y)), np.empty(len(y), dtype=np.bool_))
        if self.representation.lookahead:
            self._stream_in_tiles(X, y, trace)
        else:
            self._stream(X, y, trace, slice(0, len(y)))
        return trace

    def _stream(self, X: np.ndarray, y: np.ndarray, trace: Trace, rows: slice) -> None:
        self._run_block(
            self.params,
            self.state,
            self.t,
            X[rows],
            y[rows],
            self.rng,
            self._round,
            trace.y_hat[rows],
            trace.asked[rows],
            self.used,
            self.worst,
        )
        self.t += rows.stop - rows.start

    def _stream_in_tiles(self, X: np.ndarray, y: np.ndarray, trace: Trace) -> None:
        pool = ThreadPoolExecutor(self.threads) if self.threads > 1 else None
        start = 0
        with pool or contextlib.nullcontext():
            while start < len(y):
                stop = start + self.prepare_tile(X[start:], pool)
                self._stream(X, y, trace, slice(start, stop))
                start = stop

    def prepare_tile(self, X: np.ndarray, pool: ThreadPoolExecutor | None = None) -> int:
        """Do what can be done for rows X (n, d) before their rounds; returns for how many."""
        lookahead, model = self.representation.lookahead, self.state.model
        if lookahead is None:
            return len(X)
        n = min(len(X), lookahead.tile_rows(model))
        model = lookahead.prepare_tile(model, self._round.buffers, X[:n], pool)
        self.state = self.state._replace(model=model)
        return n

    def learn_one(self, x: np.ndarray, y: float) -> float:
        """One round: the prediction for x (d,), given before y is learned."""
        trace = self.partial_fit(np.reshape(x, (1, -1)), np.array([y]))
        return float(trace.y_hat[0])

    def __getstate__(self) -> dict[str, Any]:
        left_out = ("_round", "_run_block")
        return {k: v for k, v in self.__dict__.items() if k not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._run_block = run_block_of(type(self.params))
        self._round = self._room()

    def _room(self) -> Round:
        model = self.state.model
        N = model.n_kernels
        buffers = self.representation.scratch(
            model, self.threads, self.every_kernel, self.precision
        )
        return Round(
            evaluate=np.zeros(N, dtype=np.int64),
            combine=np.zeros(N, dtype=np.int64),
            n=np.zeros(2, dtype=np.int64),
            f=np.full(N, np.nan),
            buffers=buffers,
        )
