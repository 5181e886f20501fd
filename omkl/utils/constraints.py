"""Validate values, format them for error messages, and find the closest name."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from typing import Any

from omkl.utils.wording import few

LONGEST_SHOWN = 200  # characters of a value in a message


def no_such_key(dot: str, key: Any, known: Iterable[Any]) -> str:
    """Return the message that the key ``dot + key`` does not exist, with the closest known keys.

    Parameters
    ----------
    dot
        Prefix of the key, such as ``algorithm.``.
    key
        The unknown key.
    known
        Known keys.
    """
    name = key if isinstance(key, str) and is_writable(key) else shown(key)
    return no_such(f"{dot}{name}", str(key), known, dot)


def no_such(what: str, name: str, known: Iterable[Any], dot: str = "") -> str:
    """Return the message that ``what`` does not exist, with at most five of the closest names.

    Parameters
    ----------
    what
        Description of the unknown thing, such as ``algorithm 'rakr'``.
    name
        Name of the unknown thing, which is compared with the known names.
    known
        Known names.
    dot
        Prefix of the suggested name.
    """
    closest = _by_closeness(name, known)
    names = f" There are: {few(closest)}." if closest else ""
    return f"there is no {what}.{did_you_mean(name, closest, dot)}{names}"


def did_you_mean(name: str, known: Iterable[Any], dot: str = "") -> str:
    """Return " Did you mean x?" for the closest known name, or "" if none is similar.

    Parameters
    ----------
    name
        The unknown name.
    known
        Known names.
    dot
        Prefix of the suggested name.
    """
    closest = _by_closeness(name, known)
    similar = closest and _closeness(name, closest[0]) > 0.5
    return f" Did you mean {dot}{closest[0]}?" if similar else ""


def _by_closeness(name: str, known: Iterable[Any]) -> list[str]:
    return sorted(map(str, known), key=lambda other: -_closeness(name, other))


def _closeness(name: str, other: str) -> float:
    """Return the similarity of two names, from 0 (different) to 1.01 (equal).

    If ``name`` is a key, the parts of both names after the last dot are compared too. So ``M`` is
    similar to ``algorithm.M``.
    """
    is_key = name.replace(".", "").isidentifier()  # a file name in quotes is not one
    name, other = name.strip("'"), other.strip("'")  # equal quotes would raise every ratio
    last = (name.rpartition(".")[2], other.rpartition(".")[2]) if is_key else (name, other)
    ratios = [difflib.SequenceMatcher(None, *pair).ratio() for pair in (last, (name, other))]
    return max(ratios) + 0.01 * min(ratios)


def shown(value: Any) -> str:
    """Return a value for an error message: printable and cut to ``LONGEST_SHOWN`` characters."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print whole numbers with thousands of digits
        text = f"<{type(value).__name__} with too many digits>"
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) < LONGEST_SHOWN else text[:LONGEST_SHOWN] + "..."


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number in the range of float64."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def is_writable(text: str) -> bool:
    """Return whether a text can be written to a file and used in a file name."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and is_writable(value)
