"""The protocol of an online learner, and the only loop over time.

Every round is **select -> predict -> update**. ``select`` draws all
randomness and says which kernels to evaluate and which to combine;
``predict`` is pure; ``update`` sees the label. In between the engine evaluates
the selected kernels and no others: the output of a kernel that was not
selected, and a label that was not asked for, are handed over as NaN, so a
learner that peeks destroys its own state.

Notation (paper | code | shape)
    x_t | x | (d,)                 y_t | y | scalar
    kernel i of N | i | 0..N-1     random features | D frequencies, 2 D features
    f_i(x_t) | f[i] | (N,)         theta_i | theta[i] | (N, 2 D)
    w_i,t | log_w[i] = log w | (N,)    t | t | 1-based round
    eta, xi, lambda | eta, xi, lam     T | horizon, R | seeds
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.jit import compiled, dispatch, inlined, uncached
from omkl.core.representations import budgeted, expansion, perceptrons, random_features
from omkl.core.representations.budgeted import NoRoom
from omkl.core.representations.expansion import Sums, Support
from omkl.core.representations.perceptrons import Scores
from omkl.core.representations.random_features import Buffers, RandomFeatures, Tile

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Round(NamedTuple):
    """What one round hands from step to step; arrays are reused in the next.

    evaluate  (N,) int64, the kernels to evaluate: the first n[0] entries, distinct
    combine   (N,) int64, the kernels that predict, a subset: the first n[1] entries
    n         (2,) int64, both counts
    f         (N,) outputs f_i(x_t); NaN where the kernel was not evaluated
    buffers   room for the representation: features of the evaluated kernels, or sums

    A learner that evaluates every kernel in every round and says so to ``register`` finds
    kernel i as number i of the evaluated ones.
    """

    evaluate: np.ndarray
    combine: np.ndarray
    n: np.ndarray
    f: np.ndarray
    buffers: Buffers | Tile | Sums | Scores | NoRoom


@functools.singledispatch
def select(params, state, t, rng, rnd):
    """Draw all randomness of round t and fill rnd.evaluate, rnd.combine and rnd.n."""
    raise TypeError(f"no algorithm is registered for {type(params)}")


@functools.singledispatch
def predict(params, state, t, rnd):
    """Return (y_hat, asked) from rnd.f; changes nothing."""
    raise TypeError(f"no algorithm is registered for {type(params)}")


@functools.singledispatch
def update(params, state, t, y, rnd):
    """Learn from the label y, in place; y is NaN when it was not asked for."""
    raise TypeError(f"no algorithm is registered for {type(params)}")


@functools.singledispatch
def evaluate_row(buffers, model, X, row, rnd):
    """Write f_i(X[row]) of the kernels to evaluate into rnd.f; the others keep NaN."""
    raise TypeError(f"no representation is registered for {type(buffers)}")


def _evaluate_chosen(buffers, model, X, row, rnd):
    n = rnd.n[0]
    random_features.transform(model, X, row, rnd.evaluate, n, buffers)
    random_features.outputs(model, rnd.evaluate, n, buffers, rnd.f)


def _evaluate_every(buffers, model, X, row, rnd):
    random_features.transform_ahead(model, X, row, buffers)
    random_features.outputs(model, rnd.evaluate, rnd.n[0], buffers, rnd.f)


def _evaluate_support(buffers, model, X, row, rnd):
    expansion.outputs(model, X[row], buffers, rnd.f)


dispatch(evaluate_row, Buffers, _evaluate_chosen)

dispatch(evaluate_row, Tile, _evaluate_every)

dispatch(evaluate_row, Sums, _evaluate_support)


def _evaluate_perceptrons(buffers, model, X, row, rnd):
    perceptrons.outputs(model, X[row], buffers, rnd.f)


def _evaluate_budgeted(buffers, model, X, row, rnd):
    budgeted.budgeted_outputs(model, X[row], rnd.f)


dispatch(evaluate_row, Scores, _evaluate_perceptrons)

dispatch(evaluate_row, NoRoom, _evaluate_budgeted)


def evaluate(model: RandomFeatures | Support, x: np.ndarray, rnd: Round) -> None:
    """The same for one x (d,) outside the compiled loop, for tests that go step by step."""
    rnd.f[:] = np.nan
    evaluate_row(rnd.buffers, model, np.reshape(x, (1, -1)), 0, rnd)


@inlined
def choose(rnd, kernels, n):
    """Evaluate and combine the first ``n`` of ``kernels``."""
    for m in range(n):
        rnd.evaluate[m] = kernels[m]
        rnd.combine[m] = kernels[m]
    rnd.n[0] = n
    rnd.n[1] = n


@inlined
def choose_all(rnd):
    """Evaluate and combine every kernel."""
    if rnd.n[0] != rnd.f.shape[0] or rnd.n[1] != rnd.f.shape[0]:
        for i in range(rnd.f.shape[0]):
            rnd.evaluate[i] = i
            rnd.combine[i] = i
        rnd.n[:] = rnd.f.shape[0]


@compiled
def run_block(params, state, t, X, y, rng, rnd, y_hat, asked, used, worst):
    """Stream rounds t + 1 .. t + len(y).

    X (n, d), y (n,); y_hat (n,) and asked (n,) bool are written; used (N,) int64
    counts the rounds in which each kernel was evaluated, worst (1,) keeps the
    largest squared error of an evaluated kernel.
    """
    for s in range(y.shape[0]):
        now = t + s + 1
        select(params, state, now, rng, rnd)
        evaluate_row(rnd.buffers, state.model, X, s, rnd)
        prediction, ask = predict(params, state, now, rnd)
        y_hat[s] = prediction
        asked[s] = ask
        n = rnd.n[0]
        largest = worst[0]
        for m in range(n):
            i = rnd.evaluate[m]
            used[i] += 1
            error = rnd.f[i] - y[s]
            largest = max(largest, error * error)
        worst[0] = largest
        update(params, state, now, y[s] if ask else np.nan, rnd)
        if n < rnd.f.shape[0]:
            for m in range(n):
                rnd.f[rnd.evaluate[m]] = np.nan


def run_block_of(Params: type) -> Callable[..., None]:
    """Code of algorithms outside the package is not kept on disk, where edits would go unseen."""
    return run_block if Params.__module__.startswith("omkl.") else uncached(run_block)


class Algorithm(NamedTuple):
    """An online learner, as its module in ``omkl.algorithms`` registers it.

    name       as typed after ``algorithm=``
    Params     the NamedTuple of hyper-parameters, the keys of its YAML
    init       (params, dictionary, model) -> State, a NamedTuple of arrays with ``model``
    select, predict, update   the three steps
    kernels    (params, dictionary) -> the kernels that it learns with
    module     where it is defined
    exact      True: exact kernels and a growing support, nothing random; False: random
               features
    every_kernel   it evaluates all kernels in every round: features of several rounds
               are then computed together
    task       "regression", or "classification": labels are -1 and +1, and the sign of a
               prediction is the class
    represent  (params, kernels, d) -> a fresh model, where it is another than these two
    deterministic   whether another seed gives the same numbers on the same rows
    rows_before   params -> how many rows it wants to see, without labels, before the first
               round; ``init`` then has a fourth argument, those rows (n, d) or None for 0
    theorem    what its paper calls the theorem about it, as ``omkl.theory`` knows it
    independent   whether its classifiers learn from their own mistakes alone: single kernel
               Perceptrons
    """

    name: str
    Params: type
    init: Callable[..., Any]
    select: Callable[..., Any]
    predict: Callable[..., Any]
    update: Callable[..., Any]
    kernels: Callable[[Any, Sequence[Kernel]], Sequence[Kernel]]
    exact: bool
    every_kernel: bool
    module: str
    task: str = "regression"
    represent: Callable[[Any, Sequence[Kernel], int], Any] | None = None
    deterministic: bool = False
    rows_before: Callable[[Any], int] | None = None
    theorem: str | None = None
    independent: bool = False


def register(
    module: str,
    Params: type,
    init: Callable[..., Any],
    *,
    select: Callable[..., Any],
    predict: Callable[..., Any],
    update: Callable[..., Any],
    kernels: Callable[[Any, Sequence[Kernel]], Sequence[Kernel]] | None = None,
    exact: bool = False,
    every_kernel: bool = False,
    task: str = "regression",
    represent: Callable[[Any, Sequence[Kernel], int], Any] | None = None,
    deterministic: bool | None = None,
    rows_before: Callable[[Any], int] | None = None,
    theorem: str | None = None,
    independent: bool = False,
) -> Algorithm:
    """Make a module's three steps the ones that the engine takes for its Params."""
    for step, function in ((_STEPS[0], select), (_STEPS[1], predict), (_STEPS[2], update)):
        dispatch(step, Params, function)
    name = module.removeprefix("omkl.algorithms.").replace(".", "/")
    kernels = kernels or _dictionary
    return Algorithm(
        name, Params, init, select, predict, update, kernels, exact, every_kernel, module,
        task, represent, exact if deterministic is None else deterministic, rows_before,
        theorem, independent,
    )  # fmt: skip


_STEPS = (select, predict, update)


def _dictionary(params: Any, dictionary: Sequence[Kernel]) -> Sequence[Kernel]:
    return dictionary
