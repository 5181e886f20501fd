"""The protocol of an online learner, and the only loop over time.

Every round is **select -> predict -> update**. ``select`` draws all
randomness and says which kernels to evaluate and which to combine;
``predict`` is pure; ``update`` sees the label. In between the engine evaluates
the selected kernels and no others: the output of a kernel that was not
selected, and a label that was not asked for, are handed over as NaN, so a
learner that peeks destroys its own state. A learner whose predictions are distributions
also has ``variance``.

Notation (paper | code | shape)
    x_t | x | (d,)                 y_t | y | scalar
    kernel i of N | i | 0..N-1     random features | D frequencies, 2 D features
    f_i(x_t) | f[i] | (N,)         theta_i | coefficients[i] | (N, 2 D)
    w_i,t | log_w[i] = log w | (N,)    t | t | 1-based round
    eta, xi, lambda | eta, xi, lam     T | horizon, R | seeds
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from omkl.core.compiler import compiled, dispatch, inlined, qualify_name
from omkl.core.representations import Representation, evaluate_row
from omkl.core.simd import LANES, at_least, largest, load, pack

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Selection(NamedTuple):
    """What one round hands from step to step; arrays are reused in the next.

    evaluate     (N,) int64, the kernels to evaluate, distinct: the first ``n_evaluated[0]``
    combine      (N,) int64, the kernels that predict, some of these: ``n_combined[0]``
    n_evaluated, n_combined   (1,) int64
    f            (N,) outputs f_i(x_t); NaN where the kernel was not evaluated
    scratch      what the representation writes to: features of the evaluated kernels, or sums

    A learner that evaluates every kernel in every round and says so to ``register`` finds
    kernel i as number i of the evaluated ones.
    """

    evaluate: np.ndarray
    combine: np.ndarray
    n_evaluated: np.ndarray
    n_combined: np.ndarray
    f: np.ndarray
    scratch: Any


@functools.singledispatch
def select(params, state, t, rng, selection):
    """Draw all randomness of round t; say what to evaluate and to combine, and how many.

    ``rng.random()`` gives the numbers (``uniform``).
    """
    raise TypeError(f"no algorithm is registered for {type(params)}")


@functools.singledispatch
def predict(params, state, t, selection):
    """Return (y_hat, asked) from selection.f; changes nothing."""
    raise TypeError(f"no algorithm is registered for {type(params)}")


@functools.singledispatch
def variance(params, state, t, selection):
    """Return the variance of y_t given what was seen, above 0 or NaN; changes nothing."""
    raise TypeError(f"no algorithm is registered for {type(params)}")


def no_variance(params, state, t, selection):
    return np.nan


@functools.singledispatch
def record(params, y_hat, s, prediction):
    """Write a prediction into row s of y_hat, (n,) or of scores of classes (n, K)."""
    raise TypeError(f"no algorithm is registered for {type(params)}")


def _record_number(params, y_hat, s, prediction):
    y_hat[s] = prediction


def _record_scores(params, y_hat, s, prediction):
    for k in range(prediction.shape[0]):
        y_hat[s, k] = prediction[k]


@functools.singledispatch
def update(params, state, t, y, selection):
    """Learn from the label y, in place; y is NaN when it was not asked for."""
    raise TypeError(f"no algorithm is registered for {type(params)}")


def evaluate(model: Any, x: np.ndarray, selection: Selection) -> None:
    """``evaluate_row`` of one x (d,) outside the compiled loop, for checks that go step by step."""
    selection.f[:] = np.nan
    evaluate_row(selection.scratch, model, np.reshape(x, (1, -1)), 0, selection)


@inlined
def choose(selection, kernels, n):
    """Evaluate and combine the first ``n`` of ``kernels`` (at least n,)."""
    for m in range(n):
        selection.evaluate[m] = kernels[m]
        selection.combine[m] = kernels[m]
    selection.n_evaluated[0] = n
    selection.n_combined[0] = n


@inlined
def choose_all(selection):
    """Evaluate and combine every kernel, in their order: both lists are (N,) then."""
    N = selection.f.shape[0]
    if selection.n_evaluated[0] != N or selection.n_combined[0] != N:
        for i in range(N):
            selection.evaluate[i] = i
            selection.combine[i] = i
        selection.n_evaluated[0] = N
        selection.n_combined[0] = N


@inlined
def _largest_error(f, y, least):
    """The largest (f[i] - y)^2 of f (N,), or ``least`` where that is larger."""
    N = f.shape[0]
    worst_pack = pack(least)
    j = 0
    while j + LANES <= N:
        error = load(f, j) - y
        worst_pack = at_least(error * error, worst_pack)
        j += LANES
    worst = largest(worst_pack)
    for i in range(j, N):
        error_i = f[i] - y
        worst = max(worst, error_i * error_i)
    return worst


WHOLE, OPEN, CLOSE = range(3)  # parts of a round, see ``run_block``


@compiled
def run_block(params, state, t, X, y, rng, selection, y_hat, asked, spread, used, worst, part):
    """Stream rounds t + 1 .. t + n. The only loop over time, and all that an algorithm compiles.

    X (n, d), y (n,); y_hat (n,), or (n, K) of a learner of K > 2 classes, asked (n,) bool and
    spread (n,) are written; used (N,) int64 counts the rounds in which each kernel was evaluated,
    worst (1,) keeps the largest squared error of an evaluated kernel.

    ``part`` is WHOLE, or a round in two halves: OPEN says of each row of X what is said of it as
    that of round t + 1, and selects once; the last row is learned next. CLOSE learns its label
    y (1,), with asked as it was written.

    What a round does stands here, and not in functions of its own: each function that is inlined is
    compiled once more for itself.
    """
    forward = 1 if part == WHOLE else 0
    N = selection.f.shape[0]
    for s in range(X.shape[0]):
        now = t + s * forward + 1
        if part == WHOLE or (part == OPEN and s == 0):
            select(params, state, now, rng, selection)
        if part != CLOSE:
            evaluate_row(selection.scratch, state.model, X, s, selection)
            prediction, ask = predict(params, state, now, selection)
            record(params, y_hat, s, prediction)
            asked[s] = ask
            spread[s] = math.sqrt(variance(params, state, now, selection))
        if part == OPEN:
            continue
        n = selection.n_evaluated[0]
        if n == N:
            for i in range(n):
                used[i] += 1
            worst[0] = _largest_error(selection.f, y[s], worst[0])
        else:
            largest_error = worst[0]
            for m in range(n):
                i = selection.evaluate[m]
                used[i] += 1
                error = selection.f[i] - y[s]
                largest_error = max(largest_error, error * error)
            worst[0] = largest_error
        update(params, state, now, y[s] if asked[s] else np.nan, selection)
        if n < N:
            for m in range(n):
                selection.f[selection.evaluate[m]] = np.nan


class Algorithm(NamedTuple):
    """An online learner, as ``register`` or ``register_as`` makes it of a module or a class.

    name       as typed after ``algorithm=``
    module     where it is defined
    Params     the NamedTuple of hyper-parameters, the keys of its YAML
    State      the NamedTuple that ``init`` returns
    init       (params, dictionary, model) -> State, a NamedTuple of arrays with ``model``
               and ``log_w``, the logarithms of the kernels' weights up to a constant
    representation   what the kernels' functions are made of
    task       "regression", or "classification": labels are -1 and +1, and the sign of a
               prediction is the class
    deterministic   whether another seed gives the same numbers on the same rows
    kernels    (params, dictionary, d) -> the kernels that it learns with, of d inputs
    queries    whether it may leave a label unasked
    equivariant   with labels a + b y it predicts a + b y_hat, but in the first round
    reads_uncut   it bounds itself what an input far out can do: with stream.scaling=columns it
               reads inputs and labels that are not softened
    has_spread    its module has ``variance``
    independent   whether its classifiers learn from their own mistakes alone: single kernel
               Perceptrons
    probabilities   of a classifier: (1 + y_hat) / 2 is the probability of +1
    of_classes   of a classifier that learns K > 2 classes together: the algorithm that it is then,
               with a parameter ``n_classes``. Labels are 0 .. K - 1, ``y_hat`` (K,) scores; None
               of those that learn one class against the rest
    expected_failures   checks of ``omkl.checks`` that it cannot pass, and why
    """

    name: str
    module: str
    Params: type
    State: type
    init: Callable[..., Any]
    representation: Representation
    task: str
    deterministic: bool
    kernels: Callable[[Any, Sequence[Kernel], int], Sequence[Kernel]]
    queries: bool
    equivariant: bool
    reads_uncut: bool
    has_spread: bool
    independent: bool
    probabilities: bool
    of_classes: Algorithm | None
    expected_failures: Mapping[str, str]

    @property
    def learns_classes_together(self) -> bool:
        """Whether it is what ``of_classes`` of another is."""
        return hasattr(self.Params, "n_classes")


def whole_dictionary(params: Any, dictionary: Sequence[Kernel], d: int) -> Sequence[Kernel]:
    return dictionary


Definition = TypeVar("Definition", bound=type)

# The algorithms of ``register_as`` by module and name, as far as their modules are imported.
REGISTERED: dict[tuple[str, str], Algorithm] = {}


def _dispatch_steps(where: str, definition: Any) -> None:
    """Make the steps of a definition those that the engine takes for its Params."""
    steps: dict[str, Any] = {"select": select, "predict": predict, "update": update}
    wanted = ("Params", "State", "init", *steps)
    if missing := [name for name in wanted if not hasattr(definition, name)]:
        raise AttributeError(f"{where} registers an algorithm without {', '.join(missing)}")
    functions = {name: getattr(definition, name) for name in steps}
    Params = definition.Params
    if any(
        step.registry.get(Params, functions[n]) is not functions[n] for n, step in steps.items()
    ):
        raise ValueError(f"{where} has the Params of another algorithm: it needs a class for them")
    for name, step in steps.items():
        dispatch(step, Params, functions[name])
    dispatch(variance, Params, getattr(definition, "variance", no_variance))
    dispatch(record, Params, _record_scores if "n_classes" in Params._fields else _record_number)
    qualify_name(definition.State)


def register(
    module: str,
    *,
    representation: Representation,
    task: str = "regression",
    deterministic: bool = True,
    kernels: Callable[[Any, Sequence[Kernel], int], Sequence[Kernel]] = whole_dictionary,
    queries: bool = False,
    equivariant: bool = False,
    reads_uncut: bool = False,
    independent: bool = False,
    probabilities: bool = False,
    of_classes: Algorithm | None = None,
    expected_failures: Mapping[str, str] | None = None,
    definition: Any = None,
) -> Algorithm:
    """Make the steps that a module defines those that the engine takes for its Params.

    Called at the end of the module, which has ``Params``, ``State``, ``init``, ``select``,
    ``predict`` and ``update``. It may also have ``variance``, the variance of the label; and
    ``EXPECTED_FAILURES``, in place of the argument.

    Parameters
    ----------
    module
        ``__name__`` of the module.
    definition
        What has the steps, where it is not the module: see ``register_as``.
    deterministic
        False says that ``select`` draws.
    representation, task, ...
        As the fields of ``Algorithm``.

    Raises
    ------
    AttributeError
        Names what the module lacks.
    ValueError
        Where ``Params``, by which the steps are found, is that of another algorithm.
    """
    where = module if definition is None else f"{module}.{definition.__qualname__}"
    definition = definition or importlib.import_module(module)
    _dispatch_steps(where, definition)
    return Algorithm(
        name=module.removeprefix("omkl.algorithms.").replace(".", "/"),
        module=module,
        Params=definition.Params,
        State=definition.State,
        init=definition.init,
        representation=representation,
        task=task,
        deterministic=deterministic and not representation.draws_features,
        kernels=kernels,
        queries=queries,
        equivariant=equivariant,
        reads_uncut=reads_uncut,
        has_spread=hasattr(definition, "variance"),
        independent=independent,
        probabilities=probabilities,
        of_classes=of_classes,
        expected_failures=expected_failures or getattr(definition, "EXPECTED_FAILURES", {}),
    )


def register_as(name: str, **options: Any) -> Callable[[Definition], Definition]:
    """Decorate a class that has the steps of the algorithm ``name``: one of several in a module.

    The class is a namespace without instances: its functions have no ``self``. It holds what
    ``register`` reads from a module, and its docstring is the paper's box. ``options`` are those of
    ``register``.
    """

    def decorate(definition: Definition) -> Definition:
        algorithm = register(definition.__module__, definition=definition, **options)
        REGISTERED[algorithm.module, name] = algorithm._replace(name=name)
        return definition

    return decorate
