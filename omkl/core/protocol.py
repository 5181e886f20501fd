"""Protocol of an online learner, and the only loop over time.

Every round is **select -> predict -> update**. ``select`` draws all random numbers, and chooses the
kernels to evaluate and the kernels to combine. Then the engine evaluates the chosen kernels.
``predict`` combines their outputs and changes nothing. ``update`` learns from the target. Outputs
of kernels that were not evaluated and targets that were not requested are NaN, so an algorithm that
uses one by mistake gets NaN in its state. An algorithm whose predictions are distributions also has
``variance``.

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
    """Arrays that the steps of a round share. The next round overwrites them.

    evaluate     (N,) int64, kernels to evaluate, distinct: the first ``n_evaluated[0]``
    combine      (N,) int64, evaluated kernels to combine: the first ``n_combined[0]``
    n_evaluated, n_combined   (1,) int64
    f            (N,) outputs f_i(x_t); NaN for kernels that are not evaluated
    scratch      arrays of the representation: features of the evaluated kernels, or sums

    After ``choose_all``, kernel i is the i-th evaluated kernel.
    """

    evaluate: np.ndarray
    combine: np.ndarray
    n_evaluated: np.ndarray
    n_combined: np.ndarray
    f: np.ndarray
    scratch: Any


@functools.singledispatch
def select(params, state, t, rng, selection):
    """Draw all random numbers of round t, and choose the kernels to evaluate and to combine.

    Parameters
    ----------
    params, state
        ``Params`` and ``State`` of the algorithm.
    t
        Round, >= 1.
    rng
        ``Uniform``: ``rng.random()`` returns a number in [0, 1).
    selection
        Output: lists of kernels and their lengths.
    """
    raise TypeError(f"no algorithm is registered for {type(params)}")


@functools.singledispatch
def predict(params, state, t, selection):
    """Return the prediction from ``selection.f``, and whether the target is requested.

    Nothing changes.

    Parameters
    ----------
    params, state
        ``Params`` and ``State`` of the algorithm.
    t
        Round, >= 1.
    selection
        Evaluated kernels, and their outputs.
    """
    raise TypeError(f"no algorithm is registered for {type(params)}")


@functools.singledispatch
def variance(params, state, t, selection):
    """Return the variance of y_t given the earlier rows, positive or NaN. Nothing changes.

    Parameters
    ----------
    params, state, t, selection
        As in ``predict``.
    """
    raise TypeError(f"no algorithm is registered for {type(params)}")


def no_variance(params, state, t, selection):
    return np.nan


@functools.singledispatch
def record(params, y_hat, s, prediction):
    """Write the prediction of row s to y_hat[s].

    Parameters
    ----------
    params
        ``Params`` of the algorithm.
    y_hat
        Output (n,), or scores of classes (n, K).
    s
        Row.
    prediction
        Number, or scores (K,).
    """
    raise TypeError(f"no algorithm is registered for {type(params)}")


def _record_number(params, y_hat, s, prediction):
    y_hat[s] = prediction


def _record_scores(params, y_hat, s, prediction):
    for k in range(prediction.shape[0]):
        y_hat[s, k] = prediction[k]


@functools.singledispatch
def update(params, state, t, y, selection):
    """Learn the target y in place; y is NaN if it was not requested.

    Parameters
    ----------
    params, state
        ``Params`` and ``State`` of the algorithm.
    t
        Round, >= 1.
    y
        Target, or NaN.
    selection
        Evaluated kernels, and their outputs.
    """
    raise TypeError(f"no algorithm is registered for {type(params)}")


def evaluate(model: Any, x: np.ndarray, selection: Selection) -> None:
    """Evaluate one row outside the compiled loop, for tests that run a round step by step.

    Parameters
    ----------
    model
        Model of the representation.
    x
        Row (d,).
    selection
        Kernels to evaluate; ``f`` is written.
    """
    selection.f[:] = np.nan
    evaluate_row(selection.scratch, model, np.reshape(x, (1, -1)), 0, selection)


@inlined
def choose(selection, kernels, n):
    """Evaluate and combine the first ``n`` of ``kernels`` in this round.

    Parameters
    ----------
    selection
        Output.
    kernels
        Distinct kernels (n,) or longer.
    n
        Number of kernels.
    """
    for m in range(n):
        selection.evaluate[m] = kernels[m]
        selection.combine[m] = kernels[m]
    selection.n_evaluated[0] = n
    selection.n_combined[0] = n


@inlined
def choose_all(selection):
    """Evaluate and combine every kernel in this round, in order of index."""
    N = selection.f.shape[0]
    if selection.n_evaluated[0] != N or selection.n_combined[0] != N:
        for i in range(N):
            selection.evaluate[i] = i
            selection.combine[i] = i
        selection.n_evaluated[0] = N
        selection.n_combined[0] = N


@inlined
def _largest_error(f, y, least):
    """Return the largest of ``least`` and all squared errors (f[i] - y)^2, with f (N,)."""
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


WHOLE, OPEN, CLOSE = range(3)  # parts of a round, see ``part`` of ``run_block``


@compiled
def run_block(params, state, t, X, y, rng, selection, y_hat, asked, spread, used, worst, part):
    """Run the rounds t + 1 .. t + n: the only loop over time.

    The body of a round is written here without helpers, because the compiler would compile each
    inlined helper a second time on its own.

    Parameters
    ----------
    params, state
        ``Params`` and ``State`` of the algorithm.
    t
        Number of earlier rounds, >= 0.
    X, y
        Inputs (n, d) and targets (n,).
    rng
        ``Uniform``.
    selection
        Scratch of the rounds.
    y_hat
        Output: predictions (n,), or scores (n, K) of a learner of K > 2 classes.
    asked, spread
        Output: whether each target is requested, bool (n,), and standard deviations (n,).
    used
        Number of rounds in which each kernel was evaluated, int64 (N,), updated in place.
    worst
        Largest squared error of an evaluated kernel (1,), updated in place.
    part
        WHOLE, or one half of a round. OPEN selects kernels once, and predicts every row of X as the
        row of round t + 1. CLOSE learns the target y (1,) of the last row that OPEN predicted. y is
        NaN if OPEN set ``asked`` to False.
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


def whole_dictionary(params: Any, dictionary: Sequence[Kernel], d: int) -> Sequence[Kernel]:
    return dictionary


class Algorithm(NamedTuple):
    """Online learner. ``register`` makes it from a module, and ``register_as`` from a class.

    name       name in ``algorithm=``
    module     module of its definition
    Params     NamedTuple of hyper-parameters, the keys of its YAML
    State      NamedTuple of arrays that ``init`` returns. It has ``model`` and ``log_w`` (N,), the
               logarithms of the kernels' weights up to a constant
    init       (params, dictionary, model) -> State
    representation   representation of the kernels' functions
    task       "regression", or "classification": targets are -1 and +1, and the sign of a
               prediction is the class
    deterministic   False if another seed gives other numbers on the same rows
    kernels    (params, dictionary, d) -> kernels of the learner for d inputs
    queries    whether it may leave targets unrequested
    equivariant   whether targets a + b y give predictions a + b y_hat, except in the first round
    reads_uncut   whether it limits the influence of outlying inputs itself: with
               stream.scaling=columns its inputs and targets are scaled, but outliers are not moved
               closer
    standardises   whether it standardises inputs itself: with stream.scaling=columns it gets inputs
               that are not scaled
    has_spread    whether its definition has ``variance``
    independent   whether each of its classifiers learns only from its own mistakes
    probabilities   of a classifier: whether (1 + y_hat) / 2 is the probability of +1
    of_classes   algorithm for K > 2 classes that are learned together. It has a parameter
               ``n_classes``, targets 0 .. K - 1 and scores ``y_hat`` (K,). None if the classifier
               learns one class against the rest
    expected_failures   checks of ``omkl.checks`` that it cannot pass, with reasons
    """

    name: str
    module: str
    Params: type
    State: type
    init: Callable[..., Any]
    has_spread: bool
    expected_failures: Mapping[str, str]
    representation: Representation
    task: str = "regression"
    deterministic: bool = True
    kernels: Callable[[Any, Sequence[Kernel], int], Sequence[Kernel]] = whole_dictionary
    queries: bool = False
    equivariant: bool = False
    reads_uncut: bool = False
    standardises: bool = False
    independent: bool = False
    probabilities: bool = False
    of_classes: Algorithm | None = None

    @property
    def learns_classes_together(self) -> bool:
        """True for the ``of_classes`` of a classifier, which learns all classes together."""
        return hasattr(self.Params, "n_classes")


Definition = TypeVar("Definition", bound=type)

# Algorithms of ``register_as`` by module and name. Importing a module adds its algorithms.
REGISTERED: dict[tuple[str, str], Algorithm] = {}


def _dispatch_steps(where: str, definition: Any) -> None:
    """Make the steps of the protocol call those of ``definition`` if they get its ``Params``.

    Raises AttributeError if the definition lacks a part, and ValueError if its ``Params`` belong to
    another definition.
    """
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


def register(module: str, *, definition: Any = None, **options: Any) -> Algorithm:
    """Register the steps of a module for its ``Params``, and return the algorithm.

    Called at the end of the module, which has ``Params``, ``State``, ``init``, ``select``,
    ``predict`` and ``update``. It may also have ``variance`` (the predictive variance), and
    ``EXPECTED_FAILURES``, which becomes ``expected_failures`` unless ``options`` has this field.

    Parameters
    ----------
    module
        ``__name__`` of the module.
    definition
        Class with the steps, if they are not in the module: see ``register_as``.
    options
        Fields of ``Algorithm``: ``representation``, and those that differ from their defaults. With
        random features, ``deterministic`` is always False.

    Raises
    ------
    AttributeError
        Names what the module lacks.
    ValueError
        ``Params``, the key of the steps, belongs to another algorithm.
    """
    where = module if definition is None else f"{module}.{definition.__qualname__}"
    definition = definition or importlib.import_module(module)
    _dispatch_steps(where, definition)
    options.setdefault("expected_failures", getattr(definition, "EXPECTED_FAILURES", {}))
    algorithm = Algorithm(
        name=module.removeprefix("omkl.algorithms.").replace(".", "/"),
        module=module,
        Params=definition.Params,
        State=definition.State,
        init=definition.init,
        has_spread=hasattr(definition, "variance"),
        **options,
    )
    draws = algorithm.representation.draws_features
    return algorithm._replace(deterministic=algorithm.deterministic and not draws)


def register_as(name: str, **options: Any) -> Callable[[Definition], Definition]:
    """Return a decorator that registers a class as the algorithm ``name``.

    Use it for a module with several algorithms. The class has the functions and names that
    ``register`` reads from a module. No instances are made, so its functions have no ``self``. Its
    docstring describes the paper.

    Parameters
    ----------
    name
        Name in ``algorithm=``.
    options
        Arguments of ``register``.
    """

    return adding(register, REGISTERED, name, options)


def adding(
    register: Callable[..., Any],
    registered: dict[tuple[str, str], Any],
    name: str,
    options: Mapping[str, Any],
) -> Callable[[Definition], Definition]:
    """Return a decorator that makes an algorithm from a class, and adds it to ``registered``.

    Parameters
    ----------
    register
        Function that makes the algorithm: ``register`` of this module or of ``omkl.federated``.
    registered
        Algorithms by module and name.
    name, options
        Name of the algorithm, and arguments of ``register``.
    """

    def decorate(definition: Definition) -> Definition:
        algorithm = register(definition.__module__, definition=definition, **options)
        registered[algorithm.module, name] = algorithm._replace(name=name)
        return definition

    return decorate
