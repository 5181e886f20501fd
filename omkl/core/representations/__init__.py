"""What the function of a kernel is made of: one module a representation.

A module describes its own as a ``Representation`` and registers, with ``evaluate_row``,
how a row is evaluated. The engine and the experiments ask the description and know no module.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Fresh(Protocol):
    """A model of N kernels before the first round, all of whose functions are 0."""

    def __call__(
        self, params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int
    ) -> Any: ...


class Lookahead(NamedTuple):
    """Work on rows ahead of their rounds that needs no label: done for a tile of rows at once.

    tile_rows     model -> how many rows fit into the current tile
    prepare_tile  (model, scratch, X (n, d), pool or None) -> the model, with room for these
                  rows; what is known of them before their rounds is in ``scratch``
    """

    tile_rows: Callable[[Any], int]
    prepare_tile: Callable[[Any, Any, np.ndarray, ThreadPoolExecutor | None], Any]


def _accept_all(kernels: Sequence[Kernel]) -> None:
    return


def _no_terms(model: Any) -> np.ndarray:
    return np.zeros(model.n_kernels, dtype=np.int64)


def _no_rows(model: Any) -> int:
    return 0


def _no_context(model: Any) -> tuple[np.ndarray, ...]:
    return ()


class Representation(NamedTuple):
    """How a learner of N kernels keeps their functions, and what can be asked of it.

    name              in words
    fresh             makes a model, a NamedTuple of arrays with ``n_kernels``
    scratch           (model, threads) -> what a round writes to
    draws_features    f_i = theta_i'z_i with features z_i of norm 1 that are drawn from the
                      seed by the frequencies of the kernel; else kernels are exact
    lookahead         None where a row is looked at in its round alone
    written           fields of the model that ``evaluate_row`` writes to
    uses_D            it is another one with another D
    with_room         (model, n) -> the model with arrays for n rows, where memory grows with the
                      stream; None where it does not: it is ``bounded``
    support_size      model -> terms of each kernel's function (N,); 0 where there are no such
    kept_rows         model -> how many rows of the stream it keeps
    beside            families without frequencies that it takes although it draws features
    accepts_blanks    an input may be NaN, where it is not known
    check_kernels     ValueError for kernels that no model can be made of
    context           model -> its arrays through which a row knows the rows before it, the last
                      labels first, the newest in front; () where a row is known by itself
    importance        model -> the share (C,) of each column in what it has found out, the d inputs
                      first and past labels behind them, NaN before it is known; None where a
                      learner has no such measure
    with_zero_weights  model -> one before the first round whose features are the very arrays of
                      the other's; None where there is nothing to share
    """

    name: str
    fresh: Fresh
    scratch: Callable[[Any, int], Any]
    draws_features: bool
    lookahead: Lookahead | None = None
    written: tuple[str, ...] = ()
    support_size: Callable[[Any], np.ndarray] = _no_terms
    kept_rows: Callable[[Any], int] = _no_rows
    beside: tuple[str, ...] = ()
    accepts_blanks: bool = False
    check_kernels: Callable[[Sequence[Kernel]], None] = _accept_all
    with_zero_weights: Callable[[Any], Any] | None = None
    uses_D: bool = True
    with_room: Callable[[Any, int], Any] | None = None
    context: Callable[[Any], tuple[np.ndarray, ...]] = _no_context
    importance: Callable[[Any], np.ndarray] | None = None

    @property
    def bounded(self) -> bool:
        return self.with_room is None

    def require(self, kernels: Sequence[Kernel]) -> None:
        """ValueError for a kernel without the frequencies that features are drawn from."""
        for kernel in kernels:
            if self.draws_features and kernel.family not in self.beside:
                kernel.require_frequencies()


@functools.singledispatch
def evaluate_row(scratch, model, X, row, selection):
    """Write f_i(X[row]) of the kernels to evaluate into selection.f; the others keep NaN."""
    raise TypeError(f"no representation is registered for {type(scratch)}")
