"""What a learner has learned, as arrays by name, and back into a fresh learner.

Names are those of the fields, ``state.model.theta``. Coming back, the contents of arrays come from
the snapshot and all else from a learner of the same settings: shapes, types, code, and what
whole numbers may be. Compiled code believes those, as places and counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from omkl.core.hyperparameters import Range, bounds_of
from omkl.core.learner import Learner
from omkl.core.simd import aligned

OF_THE_LEARNER = ("used", "worst")


class Mismatch(ValueError):
    """A snapshot is not of a learner of these settings; the text says what differs."""


def snapshot(learner: Learner) -> dict[str, np.ndarray]:
    """Copies of all arrays that the next round depends on; RuntimeError while a round is open."""
    learner.require_no_open_round()
    found = {name: array.copy() for name, array in named_arrays("state", learner.state)}
    found |= {name: getattr(learner, name).copy() for name in OF_THE_LEARNER}
    return found | {"rng": learner.rng.state.copy(), "t": np.array([learner.t])}


def restore(learner: Learner, kept: Mapping[str, np.ndarray]) -> None:
    """Let a fresh learner go on where ``kept`` was taken, to the bit.

    Raises Mismatch, and leaves the learner as it is, unless names, shapes and types are those of
    its own arrays, numbers are finite where its own are, and whole numbers are what their fields
    say, or its own. Where memory grows with the stream, arrays may have room for more rows.
    """
    own = snapshot(learner)
    require_names(own, kept)
    within = {name: (Range(0, "t"), "") for name in OF_THE_LEARNER} | {"t": (Range(0), "")}
    within |= dict(ranges("state", learner.state))
    for name, array in _with_room(learner, own, kept).items():
        require_like(name, array, kept[name])
        if array.dtype.kind in "bi":
            _require_within(name, array, kept, learner, within.get(name))
    made: dict[int, np.ndarray] = {}  # by the id of what is replaced: one in two places stays one

    def filled(name: str, array: np.ndarray) -> np.ndarray:  # new: learners share some of theirs
        if id(array) not in made:
            made[id(array)] = aligned(kept[name].shape, kept[name].dtype.name)
            made[id(array)][...] = kept[name]
        return made[id(array)]

    learner.state = mapped(filled, "state", learner.state)
    for name in OF_THE_LEARNER:
        getattr(learner, name)[:] = kept[name]
    learner.rng.state[:] = kept["rng"]
    learner.t = int(kept["t"][0])


def named_arrays(name: str, value: Any) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of nested NamedTuples, by the names of their fields."""
    if isinstance(value, np.ndarray):
        yield name, value
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for field in value._fields:
            yield from named_arrays(f"{name}.{field}", getattr(value, field))
    else:
        raise TypeError(f"{name} is a {type(value).__name__}: a state is made of arrays")


def mapped(function: Callable[[str, np.ndarray], np.ndarray], name: str, value: Any) -> Any:
    """The same NamedTuples with what a function makes of each name and array."""
    if isinstance(value, np.ndarray):
        return function(name, value)
    fields = zip(value._fields, value, strict=True)
    return type(value)(*(mapped(function, f"{name}.{field}", part) for field, part in fields))


def require_names(own: Mapping[str, Any], kept: Mapping[str, Any]) -> None:
    """Mismatch that says which arrays there are of one alone."""
    if own.keys() != kept.keys():
        names = ", ".join(sorted(own.keys() ^ kept.keys()))
        raise Mismatch(f"one has, and the other has not: {names}")


def require_like(name: str, own: np.ndarray, kept: np.ndarray) -> None:
    """Mismatch unless shape and type are those of ``own``, and numbers finite where its are."""
    if (own.dtype, own.shape) != (kept.dtype, kept.shape):
        raise Mismatch(
            f"{name} is {kept.dtype} {kept.shape}, where these settings have "
            f"{own.dtype} {own.shape}"
        )
    if own.dtype.kind == "f" and np.isfinite(own).all() and not np.isfinite(kept).all():
        raise Mismatch(f"{name} holds {kept[~np.isfinite(kept)][0]}, where numbers are finite")


def _with_room(
    learner: Learner, own: dict[str, np.ndarray], kept: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """``own`` with arrays as long as those that were kept, where memory grows with the stream."""
    grow = learner.representation.with_room
    if grow is None:
        return own
    longest = [max(kept[n].shape, default=0) for n, a in own.items() if a.shape != kept[n].shape]
    if not longest:
        return own
    try:
        model = grow(learner.state.model, max(longest))
    except MemoryError:
        raise Mismatch(f"an array has room for {max(longest):,} rows") from None
    return own | dict(named_arrays("state.model", model))


def ranges(name: str, value: Any) -> Iterator[tuple[str, tuple[Range, str]]]:
    """The ranges that fields say, by the names of their arrays, and in what the fields are."""
    if isinstance(value, np.ndarray):
        return
    for field, found in bounds_of(type(value)).items():
        yield f"{name}.{field}", (found, f"{name}.")
    for field in value._fields:
        yield from ranges(f"{name}.{field}", getattr(value, field))


def _require_within(
    name: str,
    own: np.ndarray,
    kept: Mapping[str, np.ndarray],
    learner: Learner,
    given: tuple[Range, str] | None,
) -> None:
    """Mismatch unless whole numbers are in their range, or without one those of ``own``."""
    numbers = kept[name]
    if given is None:
        if not np.array_equal(own, numbers):
            raise Mismatch(f"{name} is not what these settings make it, and no range is said of it")
        return
    known, beside = given

    def bound(end: float | str) -> float:
        if not isinstance(end, str):
            return end
        if end in ("N", "t"):
            return learner.state.model.n_kernels if end == "N" else int(kept["t"][0])
        array, _, axis = f"{beside}{end}".rpartition(".")
        if axis.isdigit():
            return kept[array].shape[int(axis)]
        return sum(int(kept[f"{beside}{part}"].max()) for part in end.split(" + "))

    low = bound(known.low)
    high = max(low, bound(known.high) - known.open_high)  # what is beside may be the wrong one
    out = numbers[(numbers < low) | (numbers > high)]
    if out.size:
        raise Mismatch(f"{name} holds {out[0]}, which is not in {low:g} .. {high:g}")
