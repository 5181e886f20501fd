"""Step sizes and exploration rates that change with the round."""

from __future__ import annotations

import math
from typing import NamedTuple

from omkl.core.jit import inlined


class Schedule(NamedTuple):
    """A step size or exploration rate: scale * t**power at round t."""

    scale: float
    power: float


@inlined
def rate(schedule, t):
    """The value of a schedule at round t (1-based)."""
    if schedule.power == 0.0:
        return schedule.scale
    if schedule.power == -0.5:
        return schedule.scale / math.sqrt(t)
    return schedule.scale * t**schedule.power
