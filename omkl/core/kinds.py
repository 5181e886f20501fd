"""What a setting may hold: a test of its value, and the same in words for whoever typed another.

A table of kinds by key is the door of a part of the configuration: of a run in
``omkl.config.checks``, of a data set and its stream in ``omkl.datasets.keys``. The
parameters of algorithms have theirs in the annotations of ``Params``
(``omkl.core.hyperparameters``).
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

LONGEST_SHOWN = 200  # characters of a value in an error


class Kind(NamedTuple):
    """holds(value) -> bool; ``words`` are what an error says after "must be" or "is not".

    ``refused`` stands for both where it is given.
    """

    holds: Callable[[Any], bool]
    words: str
    refused: str = ""

    def refusal(self, key: str, value: Any, verb: str = "is not") -> str | None:
        """Why ``value`` cannot stand under ``key``; None where it can."""
        if self.holds(value):
            return None
        return f"{key}={shown(value)} {self.refused or f'{verb} {self.words}'}"


def check_section(
    where: str, given: Any, kinds: Mapping[str, Kind], optional: Iterable[str] = ()
) -> None:
    """ValueError that names the key where ``given`` is no mapping of these keys, each of its kind.

    ``where`` is the section, "stream" say; "" is the whole configuration, which may hold more.
    """
    if not isinstance(given, Mapping):
        raise ValueError(f"{where or 'the configuration'}={shown(given)} is not {MAPPING.words}")
    dot = f"{where}." if where else ""
    for key in given if where else ():
        if key not in kinds:
            raise ValueError(_no_such_key(dot, key, list(kinds)))
    for key, kind in kinds.items():
        if key in given:
            if told := kind.refusal(f"{dot}{key}", given[key]):
                raise ValueError(told)
        elif key not in optional:
            raise ValueError(f"{dot}{key} is missing; it is {kind.words}")


def _no_such_key(dot: str, key: Any, known: list[str]) -> str:
    near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.5)
    hint = f" Did you mean {dot}{near[0]}?" if near else ""
    named = key if isinstance(key, str) and is_writable(key) else shown(key)
    return f"there is no {dot}{named}.{hint} There are: {', '.join(known)}."


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


def whole(low: int, most: int | None = None) -> Kind:
    upto = "" if most is None else f", and at most {most:,}"
    return Kind(
        lambda value: is_whole(value) and low <= value and (most is None or value <= most),
        f"a whole number of at least {low}{upto}",
    )


def number(low: float, most: float) -> Kind:
    return Kind(
        lambda value: is_number(value) and low <= value <= most,
        f"a number of at least {low:g}, and at most {most:g}",
    )


def one_of(*words: str) -> Kind:
    listed = ", ".join(words)
    return Kind(
        lambda value: isinstance(value, str) and value in words,
        f"one of {listed}",
        f"is none of {listed}",
    )


def or_null(kind: Kind) -> Kind:
    return Kind(
        lambda value: value is None or kind.holds(value),
        f"{kind.words}, or null",
        kind.refused and f"{kind.refused}, null",
    )


def word_of(words: str) -> Kind:
    """Text that is not blank; ``words`` say what it means."""
    return Kind(is_text, words)


SWITCH = Kind(lambda value: isinstance(value, bool), "true or false")
MAPPING = Kind(lambda value: isinstance(value, Mapping), "a mapping of settings")
