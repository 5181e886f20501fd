"""Snapshots of a learner as arrays by name: saving, checking and restoring.

A state is a NamedTuple of arrays, possibly nested. The name of an array is the path of its fields,
such as ``state.model.theta``. ``require_fit`` is the only check of arrays from outside, in a model
file, a panel or a message of a federation. It compares shapes and types with a new state of the
same settings, and numbers with the ranges that the fields declare (``omkl.core.hyperparameters``),
because compiled code relies on both. Fields marked ``DERIVED`` are not saved.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, get_args, get_type_hints

import numpy as np

from omkl.core.hyperparameters import COUNTS, DERIVED, ROUNDS, Range
from omkl.core.learner import Learner
from omkl.core.simd import aligned


class Mismatch(ValueError):
    """Error: arrays do not fit a state of these settings. The message names the difference."""


class Snapshot(NamedTuple):
    """Arrays of a learner to save: those that its next round depends on, and its counts.

    The fields are those of ``Learner`` with the same names.
    """

    t: COUNTS  # (1,)
    state: Any
    used: ROUNDS
    worst: np.ndarray
    rng: np.ndarray


class Field(NamedTuple):
    """Array of a state.

    name     path of field names, joined by dots
    array    the array
    range    range of its numbers; None if none is declared
    derived  whether snapshots omit it
    inside   ``name`` without its last part
    """

    name: str
    array: np.ndarray
    range: Range | None
    derived: bool
    inside: str


def snapshot(learner: Learner) -> dict[str, np.ndarray]:
    """Return copies of all arrays that the next round of a learner depends on, by name."""
    return copies(_snapshot_of(learner))


def restore(learner: Learner, arrays: Mapping[str, np.ndarray]) -> None:
    """Restore the arrays of ``snapshot`` into a new learner.

    The new learner then equals the saved one, to the last bit.
    Arrays that grow with the stream may be longer than in the new learner.

    Parameters
    ----------
    learner
        New learner with the same settings.
    arrays
        Arrays by name.

    Raises
    ------
    Mismatch
        The arrays do not fit. The learner does not change.
    """
    own = _with_room(learner, arrays)
    require_fit(own, arrays, N=own.state.model.n_kernels)
    saved = {field.name for field in fields(own) if not field.derived}
    made: dict[int, np.ndarray] = {}  # by the id of the old array, which two fields may share

    def filled(name: str, array: np.ndarray) -> np.ndarray:  # new: learners share some old arrays
        if name not in saved:
            return array
        if id(array) not in made:
            made[id(array)] = aligned(array.shape, array.dtype.name)
            made[id(array)][...] = arrays[name]
        return made[id(array)]

    learner.state = mapped(filled, "state", own.state)
    learner.used[:], learner.worst[:] = arrays["used"], arrays["worst"]
    learner.rng.state[:] = arrays["rng"]
    learner.t = int(arrays["t"][0])


def _snapshot_of(learner: Learner) -> Snapshot:
    t = np.array([learner.t])
    return Snapshot(t, learner.state, learner.used, learner.worst, learner.rng.state)


def _with_room(learner: Learner, arrays: Mapping[str, np.ndarray]) -> Snapshot:
    """Return a snapshot of the learner whose growing arrays are as long as those in ``arrays``."""
    own, grow = _snapshot_of(learner), learner.representation.with_room
    lengths = [
        max(arrays[name].shape, default=0)
        for name, array, *_ in fields(own)
        if name in arrays and array.shape != arrays[name].shape
    ]
    if grow is None or not lengths:
        return own
    try:
        model = grow(learner.state.model, max(lengths))
    except MemoryError:
        raise Mismatch(f"an array has room for {max(lengths):,} rows") from None
    return own._replace(state=own.state._replace(model=model))


def restore_arrays(state: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Copy ``arrays`` into the arrays of a state by name. Raises Mismatch unless they fit."""
    require_fit(state, arrays)
    for name, array in named_arrays(state):
        array[...] = arrays[name]


def copies(state: Any) -> dict[str, np.ndarray]:
    """Return copies of the arrays of a state by name, without derived ones."""
    return {name: array.copy() for name, array in named_arrays(state)}


def named_arrays(state: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Iterate over the names and arrays of a state, without derived ones."""
    return ((field.name, field.array) for field in fields(state) if not field.derived)


def named(head: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays with ``head`` added in front of their names."""
    return {f"{head}{name}": array for name, array in arrays.items()}


def below(head: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays whose names begin with ``head``. Keys are the rest of these names."""
    return {n.removeprefix(head): array for n, array in arrays.items() if n.startswith(head)}


def fields(state: Any, inside: str = "") -> Iterator[Field]:
    """Yield the arrays of a state as ``Field``. A derived field that is no array is left out.

    Raises TypeError for a field that is neither an array, nor None, nor derived. ``inside`` is the
    prefix of the names.
    """
    State: Any = type(state)
    annotations = _annotations(State)
    for own_name, value in zip(state._fields, state, strict=True):
        name, declared = f"{inside}{own_name}", annotations[own_name]
        is_derived = get_args(DERIVED)[1] in declared
        if isinstance(value, np.ndarray):
            found = next((item for item in declared if isinstance(item, Range)), None)
            yield Field(name, value, found, is_derived, inside)
        elif is_derived or value is None:
            continue
        elif isinstance(value, tuple) and hasattr(value, "_fields"):
            yield from fields(value, f"{name}.")
        else:
            raise TypeError(f"{name} is a {type(value).__name__}: a state is made of arrays")


@functools.cache
def _annotations(State: type) -> dict[str, tuple[Any, ...]]:
    """Return the annotations of each field. The result is cached, because panels need it often."""
    hints = get_type_hints(State, include_extras=True)
    return {name: get_args(hint)[1:] for name, hint in hints.items()}


def mapped(function: Callable[[str, np.ndarray], np.ndarray], name: str, value: Any) -> Any:
    """Apply a function to every array of nested NamedTuples.

    Parameters
    ----------
    function
        (name, array) -> array.
    name
        Name of ``value``, the first part of the names of its arrays.
    value
        NamedTuple, array or None.

    Returns
    -------
    The same NamedTuples with the new arrays.
    """
    if isinstance(value, np.ndarray):
        return function(name, value)
    if not hasattr(value, "_fields"):
        return value
    parts = zip(value._fields, value, strict=True)
    return type(value)(*(mapped(function, f"{name}.{field}", part) for field, part in parts))


def require_fit(own: Any, arrays: Mapping[str, np.ndarray], N: int = 0) -> None:
    """Raise Mismatch unless ``arrays`` have the names, shapes, types and ranges of a state.

    Parameters
    ----------
    own
        New state with the same settings. If an array of floats of ``own`` is finite, the given
        array must be finite too. Whole numbers without a declared range must equal those of
        ``own``.
    arrays
        Arrays by name.
    N
        Number of kernels: the value of "N" in the bounds of ``Range``.
    """
    saved = [field for field in fields(own) if not field.derived]
    require_names((field.name for field in saved), arrays)
    for name, array, *_ in saved:
        found = arrays[name]
        if (array.dtype, array.shape) != (found.dtype, found.shape):
            raise Mismatch(
                f"{name} is {found.dtype} {found.shape}, where these settings have "
                f"{array.dtype} {array.shape}"
            )
        if array.dtype.kind == "f" and not np.isfinite(found).all() and np.isfinite(array).all():
            raise Mismatch(
                f"{name} holds {found[~np.isfinite(found)][0]}, where numbers are finite"
            )
    for name, array, known, _, inside in saved:
        found = arrays[name]
        if known is not None:
            _require_within(name, found, known, lambda end: _bound(end, inside, arrays, N))  # noqa: B023
        elif array.dtype.kind in "bi" and not np.array_equal(array, found):
            raise Mismatch(f"{name} differs from that of a new learner, and has no stated range")


def require_names(own: Iterable[str], arrays: Iterable[str]) -> None:
    """Raise Mismatch that lists the names which are in only one of ``own`` and ``arrays``."""
    if different := set(own) ^ set(arrays):
        raise Mismatch(f"one has, and the other has not: {', '.join(sorted(different))}")


def _require_within(
    name: str, numbers: np.ndarray, known: Range, bound: Callable[[float | str], float]
) -> None:
    if known.columns:
        numbers = numbers[..., known.columns]
    low = bound(known.low)
    # The upper bound may be computed from an invalid array. Without ``max``, the range could be
    # empty.
    high = max(low, bound(known.high) - known.open_high)
    out = numbers[(numbers < low) | (numbers > high)]
    if out.size:
        raise Mismatch(f"{name} holds {out[0]}, which is not in {low:g} .. {high:g}")


def _bound(end: float | str, inside: str, arrays: Mapping[str, np.ndarray], N: int) -> float:
    """Return the value of ``end``, a bound of a ``Range``: a number, or a text such as "N"."""
    if not isinstance(end, str):
        return end
    if end == "N":
        return N
    if end == "t":
        return int(arrays["t"][0])  # already checked, because t is the first field
    array, _, axis = f"{inside}{end}".rpartition(".")
    if axis.isdigit():
        return arrays[array].shape[int(axis)]
    return sum(int(arrays[f"{inside}{part}"].max()) for part in end.split(" + "))
