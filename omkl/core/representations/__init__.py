"""Representations of the functions that kernel learners learn, one per module.

A module describes its representation by a ``Representation``, and registers a function that
evaluates a row with ``evaluate_row``. Other modules use only this description.
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
    """Function that returns a model of N kernels before the first round.

    All N functions of the model are 0.
    """

    def __call__(
        self, params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int
    ) -> Any: ...


class Lookahead(NamedTuple):
    """Computations for a tile (a block of rows) before their rounds, which need no targets.

    tile_rows     model -> number of rows that fit into the current tile
    prepare_tile  (model, scratch, X (n, d), pool or None) -> model with room for these rows; the
                  results are in ``scratch``
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
    """Description of how a learner of N kernels stores their functions.

    name              name in words
    fresh             makes a model, a NamedTuple of arrays with ``n_kernels``
    scratch           (model, threads) -> scratch of a round
    draws_features    True: f_i = theta_i'z_i with random features z_i of norm 1 that depend on the
                      kernel and the seed. False: no such features
    lookahead         computations for blocks of rows; None if a row needs none before its round
    written           fields of the model that ``evaluate_row`` changes
    uses_D            whether the model depends on D, the number of random features
    with_room         (model, n) -> model with arrays for n rows, if memory grows with the stream;
                      None if memory is ``bounded``
    support_size      model -> number of terms (N,) in the function of each kernel
    kept_rows         model -> number of rows of the stream that the model stores
    beside            names of families without random features that the representation accepts
                      although ``draws_features`` is True
    accepts_blanks    whether an input may be NaN, a missing value
    check_kernels     function that raises ValueError for kernels that the representation does not
                      support
    context           model -> arrays of earlier rows that a prediction uses. The first array has
                      the past targets, newest first. () if a prediction depends only on its row
    importance        model -> importance (C,) of each column, shares of sum 1; NaN while unknown.
                      The d inputs come first, then past targets. None: no such measure
    with_zero_weights  model -> new model, before its first round, with the feature arrays of the
                      given model; None if there are no arrays to share
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
        """Raise ValueError if a kernel needs random features that its family does not have."""
        for kernel in kernels:
            if self.draws_features and kernel.family not in self.beside:
                kernel.require_frequencies()


@functools.singledispatch
def evaluate_row(scratch, model, X, row, selection):
    """Write f_i(X[row]) to selection.f for each kernel i to evaluate. Other entries do not change.

    Parameters
    ----------
    scratch, model
        Scratch and model of the representation.
    X, row
        Rows (n, d), and the index of one.
    selection
        Kernels to evaluate.
    """
    raise TypeError(f"no representation is registered for {type(scratch)}")
