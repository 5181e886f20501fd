"""Hyper-parameters: from the keys of a YAML file to the ``Params`` of an algorithm.

The fields of ``Params`` are the valid keys, and the annotation of a field states its valid values.
A misspelt key, a wrong type or a value out of range is an error before the run begins. In the same
way, the annotation of a field of ``State`` tells other modules the role of its array:

    q: EVALUATED_WITH  # (N,)
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

import numpy as np

from omkl.core.compiler import inlined
from omkl.utils.constraints import did_you_mean, is_number, is_whole, no_such_key, shown

# --- Schedules ------------------------------------------------------------------------------------


class Schedule(NamedTuple):
    """Step size or exploration rate that depends on the round t >= 1: scale * t**power."""

    scale: float
    power: float


@inlined
def rate(schedule, t):
    """Return the value of a schedule at round t (1-based)."""
    if schedule.power == 0.0:
        return schedule.scale
    if schedule.power == -0.5:
        return schedule.scale / math.sqrt(t)
    return schedule.scale * t**schedule.power


# --- Fields of Params -----------------------------------------------------------------------------


class Range(NamedTuple):
    """Bounds ``low`` and ``high`` of a field: each is a number, or a text such as "N".

    "N", "D", "J"   number of kernels, of features, of nodes
    "t"             in a ``State``: number of rounds so far
    "n"             in a ``State``: largest entry of the array in the field n. Sums are valid too:
                    "n + pending"
    "x.1"           in a ``State``: length of axis 1 of the field x

    ``open_low`` and ``open_high`` exclude the bound itself. If the field is an array, ``columns``
    lists the indices on its last axis to which the bounds apply; () stands for all.
    """

    low: float | str
    high: float | str = math.inf
    open_low: bool = False
    open_high: bool = False
    columns: tuple[int, ...] = ()


class Choice(tuple[str, ...]):
    """Valid words of a setting. ``Params`` contains the index of the chosen word."""

    def __new__(cls, *words: str) -> Choice:
        return super().__new__(cls, words)


POSITIVE = Annotated[float, Range(0.0, open_low=True)]
NON_NEGATIVE = Annotated[float, Range(0.0)]
COUNT = Annotated[int, Range(1)]
SIZE = Annotated[int, Range(1, 100_000)]  # a limit, because memory or time per round grows with it
NODES = Annotated[int, Range(1, 10_000)]  # a limit, because each node has an array over all kernels
COUNT_OR_ZERO = Annotated[int, Range(0)]
UP_TO_N = Annotated[int, Range(1, "N")]
FRACTION = Annotated[float, Range(0.0, 1.0, open_low=True, open_high=True)]
UP_TO_ONE = Annotated[float, Range(0.0, 1.0, open_low=True)]
# NaN stands for the text "theorem", the step size of the paper's theorem.
STEP_OF_THEOREM = Annotated[float, Range(0.0, open_low=True), "theorem"]
RATE = Annotated[Schedule, Range(0.0, 1.0, open_low=True, open_high=True)]

_UNSIGNED = r"(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_NUMBER = rf"[-+]?{_UNSIGNED}"
_SCHEDULE = re.compile(
    rf"^\s*(?P<scale>{_NUMBER})\s*"
    r"(?:/\s*(?:(?P<root>sqrt)\(\s*(?P<v1>[tT])\s*\)|(?P<v2>[tT])(?:\s*(?:\^|\*\*)\s*(?P<power>"
    rf"{_UNSIGNED}))?))?\s*$"  # no sign: a rate must not grow with t
)


def parse_schedule(text: Any, horizon: int | None) -> Schedule:
    """Parse a schedule: a number, "0.1/sqrt(t)", "1/sqrt(T)", "2/t" or "0.5/t^0.25".

    Parameters
    ----------
    text
        Number or text; t is the round and T the horizon.
    horizon
        Rounds of the stream; None if unknown.

    Raises
    ------
    ValueError
        The text is no schedule, or it names T and the horizon is unknown.
    """
    if isinstance(text, bool) or not isinstance(text, int | float | str):
        raise ValueError(f"{shown(text)} is no schedule; write a number, 0.1/sqrt(t) or 1/sqrt(T)")
    if not isinstance(text, str):
        return Schedule(float(text) if is_number(text) else math.nan, 0.0)
    match = _SCHEDULE.match(text)
    if not match:
        raise ValueError(
            f"{shown(text)} is no schedule; write a number, a/sqrt(t), a/sqrt(T), a/t or a/t^0.25"
        )
    scale = float(match["scale"])
    variable = match["v1"] or match["v2"]
    if variable is None:
        return Schedule(scale, 0.0)
    power = -0.5 if match["root"] else -float(match["power"] or 1.0)
    if variable == "t":
        return Schedule(scale, power)
    if horizon is None:
        raise ValueError(
            f"{shown(text)} needs the number of rows T, and the length of this stream is not "
            "known; set stream.limit, or write the schedule in t"
        )
    return Schedule(scale * float(horizon) ** power, 0.0)


def build(
    Params: type,
    given: Mapping[str, Any],
    horizon: int | None,
    sizes: Mapping[str, int],
    where: str = "algorithm",
) -> Any:
    """Build ``Params(**given)`` after checking every key, type and range.

    Parameters
    ----------
    Params
        NamedTuple of an algorithm. Its annotations state the valid values of each field.
    given
        Values by key, as in a YAML file. If the default of a key is NaN, the value None is allowed
        and stands for this default.
    horizon
        Rounds of the stream, for schedules that name T; None if unknown.
    sizes
        Values of the letters that ranges may name (N, D).
    where
        Section of the configuration, for errors; "" for none.

    Raises
    ------
    ValueError
        Names the key, its valid values, and the nearest key to a misspelt one.
    """
    dot = f"{where}." if where else ""
    hints = get_type_hints(Params, include_extras=True)
    names = Params._fields  # type: ignore[attr-defined]
    for key in given:
        if key not in names:
            raise ValueError(no_such_key(dot, key, names))
    defaults = getattr(Params, "_field_defaults", {})
    optional = {key for key, value in defaults.items() if value != value}  # the default is NaN
    given = {key: value for key, value in given.items() if value is not None or key not in optional}
    missing = [name for name in names if name not in given and name not in defaults]
    if missing:
        raise ValueError(f"{dot}{missing[0]} is missing")
    values = {
        name: _convert(f"{dot}{name}", given[name], hints[name], horizon, sizes)
        for name in names
        if name in given
    }
    return Params(**values)


def with_defaults_cut(
    Params: type, given: Mapping[str, Any], defaults: Mapping[str, Any], sizes: Mapping[str, int]
) -> dict[str, Any]:
    """Copy ``given``, and reduce default values that are too large for this learner.

    A whole number is reduced to its upper bound if this bound is a letter, such as N. A number that
    differs from its default stays as it is, because the user chose it.

    Parameters
    ----------
    Params
        NamedTuple of an algorithm.
    given, defaults
        Values by key: of the user, and of the YAML file.
    sizes
        Values of the letters that ranges may name (N, D).
    """
    cut = dict(given)
    for name, hint in get_type_hints(Params, include_extras=True).items():
        bounds = next((m for m in getattr(hint, "__metadata__", ()) if isinstance(m, Range)), None)
        value = given.get(name)
        if bounds and isinstance(bounds.high, str) and type(value) is int:
            most = sizes[bounds.high] - bounds.open_high
            cut[name] = min(value, most) if value == defaults.get(name) else value
    return cut


def _convert(key: str, value: Any, hint: Any, horizon: int | None, sizes: Mapping[str, int]) -> Any:
    bounds: Range | None = None
    if hasattr(hint, "__metadata__"):
        if isinstance(value, str) and value in hint.__metadata__:
            return _rounds(key, horizon) if value == "T" else math.nan
        choice = next((m for m in hint.__metadata__ if isinstance(m, Choice)), None)
        if choice is not None:
            return _chosen(key, value, choice)
        bounds = next((m for m in hint.__metadata__ if isinstance(m, Range)), None)
        hint = hint.__origin__
    if hint is Schedule:
        try:
            schedule = parse_schedule(value, horizon)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None
        if not (schedule.scale > 0.0 and math.isfinite(schedule.scale)):
            given = value if isinstance(value, str) else shown(value)
            raise ValueError(f"{key}={given}: a step size or rate is positive and finite")
        _check_range(key, value, schedule.scale, bounds, sizes)
        return schedule
    if hint is bool:
        if not isinstance(value, bool):
            raise ValueError(f"{key}={shown(value)} is not true or false")
        return value
    if hint is int:
        if not is_whole(value):
            raise ValueError(f"{key}={shown(value)} is not a whole number")
        if abs(value) >= 2**63:  # compiled code counts in int64
            raise ValueError(f"{key}={shown(value)} is too large: whole numbers are below 2^63")
    elif hint is float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{key}={shown(value)} is not a number")
        if not is_number(value):
            raise ValueError(f"{key}={shown(value)} is not finite")
        value = float(value)
    else:
        raise TypeError(f"{key}: a field cannot be annotated {hint!r}")
    _check_range(key, value, value, bounds, sizes)
    return value


def require_count(key: str, value: Any) -> None:
    """Raise ValueError that names the key unless the value is a whole number of at least 1."""
    _convert(key, value, COUNT, None, {})


def _rounds(key: str, horizon: int | None) -> int:
    if horizon is None:
        raise ValueError(
            f"{key}=T is the number of rows, and the length of this stream is not known; set "
            "stream.limit, or write the number"
        )
    return horizon


def _chosen(key: str, value: Any, choice: Choice) -> int:
    if isinstance(value, str) and value in choice:
        return choice.index(value)
    hint = did_you_mean(shown(value), choice)
    raise ValueError(f"{key}={shown(value)} is none of {', '.join(choice)}.{hint}")


def _check_range(
    key: str, given: Any, value: float, bounds: Range | None, sizes: Mapping[str, int]
) -> None:
    if bounds is None:
        return
    low = sizes[bounds.low] if isinstance(bounds.low, str) else bounds.low
    high = sizes[bounds.high] if isinstance(bounds.high, str) else bounds.high
    too_low = value <= low if bounds.open_low else value < low
    too_high = value >= high if bounds.open_high else value > high
    if too_low or too_high:
        name_low, name_high = _bound(bounds.low, low), _bound(bounds.high, high)
        left = "(" if bounds.open_low else "["
        right = ")" if bounds.open_high or high == math.inf else "]"
        shown_value = f"{given:g}" if isinstance(given, float) and given.is_integer() else given
        raise ValueError(f"{key}={shown_value} lies outside {left}{name_low}, {name_high}{right}")


def _bound(stated: float | str, value: float) -> str:
    """Format a bound for an error message. If the bound is a letter, append its value: "N=9"."""
    if isinstance(stated, str):
        return f"{stated}={value}"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


# --- Fields of a State ----------------------------------------------------------------------------


# (N,) probability that ``select`` evaluates the kernel; NaN if it was not evaluated in this round.
EVALUATED_WITH = Annotated[np.ndarray, "probability of being evaluated"]
# (N,) probability that ``select`` lets the kernel learn.
LEARNS_WITH = Annotated[np.ndarray, "probability of learning"]
# int64: (N,) whether each kernel may learn, or (1,) the only kernel that may.
MAY_LEARN = Annotated[np.ndarray, "who may learn"]
# (N,) logarithms of the weights of a graph's nodes.
NODE_WEIGHTS = Annotated[np.ndarray, "logarithms of the nodes' weights"]

# ``omkl.core.snapshot`` checks numbers of a saved state against these ranges, because compiled code
# uses whole numbers as indices and counts without a check. Arrays of whole numbers without a range
# never change.
MOST_COUNT = 2**53  # larger numbers are not exact in float64; a sum of a few fits into int64
COUNTS = Annotated[np.ndarray, Range(0, MOST_COUNT)]
ROUNDS = Annotated[np.ndarray, Range(0, "t")]  # a number of rounds, or the index of one
KERNELS = Annotated[np.ndarray, Range(0, "N", open_high=True)]  # indices of kernels
SWITCH = Annotated[np.ndarray, Range(0, 1)]
# Array that can be computed from the settings and the other fields, so it is not saved. A loaded
# learner begins with the initial array, and the next round recomputes it.
DERIVED = Annotated[Any, "derived"]
# (3, 2 P) sums over the nodes' weights, see ``omkl.core.graph_sampling``.
TREES = Annotated[np.ndarray, "derived", "sums over the nodes' weights"]


def fields_with(State: type, annotation: Any) -> list[str]:
    """Return the names of the fields of ``State`` that have the metadata of ``annotation``.

    ``annotation`` is one of the ``Annotated`` types above. A field may have further metadata.
    """
    hints = get_type_hints(State, include_extras=True)
    wanted = set(get_args(annotation)[1:])
    return [name for name, hint in hints.items() if wanted <= set(get_args(hint)[1:])]
