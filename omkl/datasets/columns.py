"""Choosing columns: which are inputs, which is the target."""

from __future__ import annotations

import collections
import difflib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from omkl.datasets.base import DataError

MOST_COLUMNS = 100_000
OUTSIDE = "label"  # what the target is called where labels come from outside


class Columns(NamedTuple):
    """Chosen columns: 0-based positions and names, the target's last."""

    positions: tuple[int, ...]
    names: tuple[str, ...]


def choose_columns(
    names: Sequence[str],
    usable: Sequence[bool],
    inputs: Any,
    target: Any,
    where: str,
    labelled: bool = True,
) -> Columns:
    """Resolve ``dataset.inputs`` and ``dataset.target``.

    A column is given by its name or its 1-based position; inputs also as a range of
    positions like "3-23". ``inputs=None`` takes every usable column but the target. Where
    labels come from outside (not ``labelled``) there may be no target: it is then called
    ``label``, and the first input stands in its place, for nobody to read.

    Raises
    ------
    DataError
        A column does not exist, is ambiguous or named twice, or there is no target or no
        input.
    """
    last = -1 if target is None and not labelled else place_of(target, names, where)
    if inputs is None:
        chosen = [k for k in range(len(names)) if usable[k] and k != last]
    else:
        given = inputs if isinstance(inputs, list | tuple) else [inputs]
        chosen = [k for item in given for k in _positions(item, names, where)]
    if last in chosen:
        raise DataError(
            f"{where}: the target {names[last]!r} is also named in dataset.inputs; "
            "a learner would be shown the answer. Take it out."
        )
    twice = sorted({names[k] for k, n in collections.Counter(chosen).items() if n > 1})
    if twice:
        raise DataError(f"{where}: dataset.inputs names {', '.join(map(repr, twice))} twice.")
    if not chosen:
        raise DataError(
            f"{where}: no column is left as an input"
            + ("" if target is None else f" besides the target {names[last]!r}")
            + f"; ids are none unless dataset.inputs names them. Columns: {listed(names)}"
        )
    inputs_of = tuple(names[k] for k in chosen)
    if target is None:
        return Columns((*chosen, chosen[0]), (*inputs_of, OUTSIDE))
    return Columns((*chosen, last), (*inputs_of, names[last]))


def place_of(column: Any, names: Sequence[str], where: str, key: str = "dataset.target") -> int:
    """The 0-based position of a column that is given by its name or its 1-based position."""
    if column is None:
        raise DataError(
            f"{where}: say which column to predict: dataset.target=NAME or its position. "
            f"Columns: {listed(names)}"
        )
    return _position(column, names, key, where)


def count_inputs(inputs: Any) -> int | None:
    """How many inputs ``dataset.inputs`` asks for; None where only the file can tell."""
    if inputs is None:
        return None
    given = inputs if isinstance(inputs, list | tuple) else [inputs]
    spans = [_span(item) for item in given]
    return sum(1 if span is None else len(span) for span in spans)


def require_distinct(names: Sequence[str], where: str) -> None:
    """DataError for a name that two columns have, with both positions, or for too many columns.

    Of doubled names one would be an input where the other is the target.
    """
    require_few(len(names), where)
    places: dict[str, int] = {}
    for k, name in enumerate(names, start=1):
        if name in places:
            raise DataError(
                f"{where}: columns {places[name]} and {k} are both called {name!r}. Rename one in "
                "the file, or give all columns a name in dataset.columns."
            )
        places[name] = k


def require_few(n_columns: int, where: str) -> None:
    if n_columns > MOST_COLUMNS:
        raise DataError(
            f"{where}: {n_columns:,} columns are more than the {MOST_COLUMNS:,} that are read."
        )


def _span(item: Any) -> range | None:
    match = (
        re.fullmatch(r"\s*(\d{1,18})\s*-\s*(\d{1,18})\s*", item) if isinstance(item, str) else None
    )
    return range(int(match[1]), int(match[2]) + 1) if match else None


def _positions(item: Any, names: Sequence[str], where: str) -> list[int]:
    span = _span(item)
    if span is None or item in names:
        return [_position(item, names, "dataset.inputs", where)]
    if span and span[-1] > len(names):  # before a list is made of it
        return [_position(span[-1], names, "dataset.inputs", where)]
    return [_position(k, names, "dataset.inputs", where) for k in span]


def _position(item: Any, names: Sequence[str], key: str, where: str) -> int:
    if isinstance(item, int) and not isinstance(item, bool):
        if 1 <= item <= len(names):
            return item - 1
        raise DataError(
            f"{where}: {key}: there is no column {item}; positions go from 1 to {len(names)}. "
            f"Columns: {listed(names)}"
        )
    name = str(item).strip()
    matches = [k for k, known in enumerate(names) if known == name]
    if len(matches) == 1:
        return matches[0]
    if matches:
        at = ", ".join(str(k + 1) for k in matches)
        raise DataError(f"{where}: {key}: {len(matches)} columns are called {name!r}: use {at}.")
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    if len(names) == 1:
        hint = " There is only one column: look at dataset.delimiter."
    raise DataError(f"{where}: {key}: no column {name!r}.{hint} Columns: {listed(names)}")


def listed(names: Sequence[str], positions: Sequence[int] | None = None) -> str:
    shown = range(len(names)) if positions is None else positions
    text = ", ".join(f"{k + 1} {names[k]!r}" for k in list(shown)[:40])
    return text + (f", ... ({len(shown)} in all)" if len(shown) > 40 else "") or "none"
