"""Constraints of settings: a test of a value, and in words what it may be.

A table of constraints by key is the schema of a part of the configuration: of a run in
``omkl.config.schema``, of a data set and its stream in ``omkl.datasets.schema``. The
parameters of algorithms have theirs in the annotations of ``Params``
(``omkl.core.hyperparameters``).
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from omkl.utils.wording import few

LONGEST_SHOWN = 200  # characters of a value in an error


class Constraint(NamedTuple):
    """holds(value) -> bool; ``words`` are what an error says after "must be" or "is not".

    ``refused`` stands for both where it is given.
    """

    holds: Callable[[Any], bool]
    words: str
    refused: str = ""

    def refusal(self, key: str, value: Any, verb: str = "is not") -> str | None:
        """Why ``value`` cannot be that of ``key``; None where it can."""
        if self.holds(value):
            return None
        return f"{key}={shown(value)} {self.refused or f'{verb} {self.words}'}"


def check_section(
    where: str,
    section: Any,
    constraints: Mapping[str, Constraint],
    optional: Iterable[str] = (),
) -> None:
    """ValueError that names the key where a section has other keys or values than it may have.

    ``where`` is its name, "stream" say; "" is the whole configuration, which may hold more.
    """
    if not isinstance(section, Mapping):
        raise ValueError(f"{where or 'the configuration'}={shown(section)} is not {MAPPING.words}")
    dot = f"{where}." if where else ""
    for key in section if where else ():
        if key not in constraints:
            raise ValueError(no_such_key(dot, key, list(constraints)))
    for key, constraint in constraints.items():
        if key in section:
            if refusal := constraint.refusal(f"{dot}{key}", section[key]):
                raise ValueError(refusal)
        elif key not in optional:
            raise ValueError(f"{dot}{key} is missing; it is {constraint.words}")


def no_such_key(dot: str, key: Any, known: Iterable[Any]) -> str:
    """Say that there is no ``dot + key``, and name the closest of the known keys."""
    name = key if isinstance(key, str) and is_writable(key) else shown(key)
    return no_such(f"{dot}{name}", str(key), known, dot)


def no_such(what: str, name: str, known: Iterable[Any], dot: str = "") -> str:
    """Say that there is no ``what``, and name the closest of the known names, at most five."""
    closest = _by_closeness(name, known)
    there = f" There are: {few(closest)}." if closest else ""
    return f"there is no {what}.{did_you_mean(name, closest, dot)}{there}"


def did_you_mean(name: str, known: Iterable[Any], dot: str = "") -> str:
    """Return " Did you mean x?" for the closest of the known names, or "" if none is similar."""
    closest = _by_closeness(name, known)
    similar = closest and _closeness(name, closest[0]) > 0.5
    return f" Did you mean {dot}{closest[0]}?" if similar else ""


def _by_closeness(name: str, known: Iterable[Any]) -> list[str]:
    return sorted(map(str, known), key=lambda other: -_closeness(name, other))


def _closeness(name: str, other: str) -> float:
    """Compare two names. Compare keys by their last words too: ``M`` is in ``algorithm.M``."""
    is_key = name.replace(".", "").isidentifier()  # and no file name in quotes
    name, other = name.strip("'"), other.strip("'")  # quotes would make all of them alike
    last = (name.rpartition(".")[2], other.rpartition(".")[2]) if is_key else (name, other)
    ratios = [difflib.SequenceMatcher(None, *pair).ratio() for pair in (last, (name, other))]
    return max(ratios) + 0.01 * min(ratios)


def shown(value: Any) -> str:
    """The value as an error shows it: printable, and cut where it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no whole number of thousands of digits
        text = f"<{type(value).__name__} with too many digits>"
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) < LONGEST_SHOWN else text[:LONGEST_SHOWN] + "..."


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether it is a finite number that float64 holds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def is_writable(text: str) -> bool:
    """Whether it can stand in a file, and be the name of one."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and is_writable(value)


def whole(low: int, most: int | None = None) -> Constraint:
    upto = "" if most is None else f", and at most {most:,}"
    return Constraint(
        lambda value: is_whole(value) and low <= value and (most is None or value <= most),
        f"a whole number of at least {low}{upto}",
    )


def number(low: float, most: float) -> Constraint:
    return Constraint(
        lambda value: is_number(value) and low <= value <= most,
        f"a number of at least {low:g}, and at most {most:g}",
    )


def one_of(*words: str) -> Constraint:
    listed = ", ".join(words)
    return Constraint(
        lambda value: isinstance(value, str) and value in words,
        f"one of {listed}",
        f"is none of {listed}",
    )


def or_null(other: Constraint) -> Constraint:
    return Constraint(
        lambda value: value is None or other.holds(value),
        f"{other.words}, or null",
        other.refused and f"{other.refused}, null",
    )


def word_of(words: str) -> Constraint:
    """Text that is not blank; ``words`` say what it means."""
    return Constraint(is_text, words)


SHARE = Constraint(lambda value: is_number(value) and 0 < value < 1, "a number between 0 and 1")
SWITCH = Constraint(lambda value: isinstance(value, bool), "true or false")
MAPPING = Constraint(lambda value: isinstance(value, Mapping), "a mapping of settings")
