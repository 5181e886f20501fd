"""What a learner has learned, as arrays by name, and back into a fresh learner.

Names are those of the fields, ``state.model.theta``. Coming back, the contents of arrays come from
the snapshot and all else from a learner of the same settings: shapes, types, and code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from omkl.core.learner import Learner
from omkl.core.simd import aligned

OF_THE_LEARNER = ("used", "worst")


class Mismatch(ValueError):
    """A snapshot is not of a learner of these settings; the text says what differs."""


def snapshot(learner: Learner) -> dict[str, np.ndarray]:
    """Copies of all arrays that the next round depends on; RuntimeError while a round is open."""
    learner.require_no_open_round()
    found = {name: array.copy() for name, array in _arrays("state", learner.state)}
    found |= {name: getattr(learner, name).copy() for name in OF_THE_LEARNER}
    return found | {"rng": learner.rng.state.copy(), "t": np.array([learner.t])}


def restore(learner: Learner, kept: Mapping[str, np.ndarray]) -> None:
    """Let a fresh learner go on where ``kept`` was taken, to the bit.

    Raises Mismatch, and leaves the learner as it is, unless names, shapes and types are those of
    its own arrays. Where memory grows with the stream, arrays may be longer.
    """
    own = snapshot(learner)
    if own.keys() != kept.keys():
        names = ", ".join(sorted(own.keys() ^ kept.keys()))
        raise Mismatch(f"one has, and the other has not: {names}")
    longer = not learner.representation.bounded
    for name, array in own.items():
        _require_like(name, array, kept[name], longer and name.startswith("state.model."))
    if kept["t"][0] < 0:
        raise Mismatch(f"t is {kept['t'][0]}")
    learner.state = _filled("state", learner.state, kept, {})
    for name in OF_THE_LEARNER:
        getattr(learner, name)[:] = kept[name]
    learner.rng.state[:] = kept["rng"]
    learner.t = int(kept["t"][0])


def _arrays(name: str, value: Any) -> Iterator[tuple[str, np.ndarray]]:
    if isinstance(value, np.ndarray):
        yield name, value
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for field in value._fields:
            yield from _arrays(f"{name}.{field}", getattr(value, field))
    else:
        raise TypeError(f"{name} is a {type(value).__name__}: a state is made of arrays")


def _filled(
    name: str, value: Any, kept: Mapping[str, np.ndarray], made: dict[int, np.ndarray]
) -> Any:
    """``value`` with the contents that were kept, in new arrays: learners share some of theirs.

    ``made`` has them by the id of the array in whose place they are; one in two places stays one.
    """
    if not isinstance(value, np.ndarray):
        fields = {f: _filled(f"{name}.{f}", getattr(value, f), kept, made) for f in value._fields}
        return value._replace(**fields)
    if id(value) not in made:
        array = made[id(value)] = aligned(kept[name].shape, kept[name].dtype.name)
        array[...] = kept[name]
    return made[id(value)]


def _require_like(name: str, own: np.ndarray, kept: np.ndarray, longer: bool) -> None:
    same = own.shape == kept.shape
    grown = (
        longer
        and own.ndim == kept.ndim
        and all(n <= m for n, m in zip(own.shape, kept.shape, strict=True))
    )
    if own.dtype != kept.dtype or not (same or grown):
        raise Mismatch(
            f"{name} is {kept.dtype} {kept.shape}, where these settings have "
            f"{own.dtype} {own.shape}"
        )
