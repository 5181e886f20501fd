"""The door of a data set's configuration: the type of every key, before a file is opened."""

from __future__ import annotations

import codecs
import math
from collections.abc import Callable, Mapping
from typing import Any

from omkl.datasets.columns import MOST_COLUMNS
from omkl.datasets.naming import checked_name, is_relative_file
from omkl.datasets.stream import DataError

MOST_WORDS = 10_000  # of a list that is no list of columns


def check_keys(cfg: Mapping[str, Any]) -> None:
    """DataError naming the key, what it holds and what it may be."""
    try:
        checked_name("dataset.name", cfg.get("name"))
    except ValueError as error:
        raise DataError(str(error)) from None
    for key, (holds, words) in KEYS.items():
        if cfg.get(key) is not None and not holds(cfg[key]):
            raise DataError(f"dataset.{key}={_shown(cfg[key])} must be {words}.")
    if cfg.get("delimiter") == cfg.get("decimal") != "auto" and cfg.get("decimal"):
        raise DataError(
            f"dataset.delimiter and dataset.decimal are both {cfg['decimal']!r}: one cannot be "
            "told from the other."
        )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 200 else text[:200] + "..."


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_cell(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, str) or (number and math.isfinite(value))


def _is_column(value: Any) -> bool:
    return isinstance(value, str) or _is_whole(value)


def _list_of(holds: Callable[[Any], bool], most: int) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, list | tuple) and 0 < len(value) <= most and all(map(holds, value))
    )


def _or_list_of(holds: Callable[[Any], bool], most: int) -> Callable[[Any], bool]:
    listed = _list_of(holds, most)
    return lambda value: holds(value) or listed(value)


def _is_delimiter(value: Any) -> bool:
    if value == "auto":
        return True
    return isinstance(value, str) and len(value) == 1 and not (value.isalnum() or value in '"\r\n')


def _is_encoding(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(codecs.lookup(value)._is_text_encoding)
    except (LookupError, ValueError):
        return False


KEYS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "path": (_is_text, "the path of a file"),
    "file": (
        is_relative_file,
        "the path of a file below a data folder: names of letters, digits, '-', '_' and '.', at "
        "most 80, none of them beginning with a dot, with / between them",
    ),
    "format": (_is_text, "a word: text, csv, zip, excel, mat or libsvm"),
    "encoding": (_is_encoding, "an encoding of text that Python knows, such as utf-8 or latin-1"),
    "delimiter": (_is_delimiter, "auto, null for any run of blanks, or one character"),
    "decimal": (lambda value: value in ("auto", ".", ","), "auto, '.' or ','"),
    "header": (lambda value: isinstance(value, bool), "true or false"),
    "columns": (
        _list_of(_is_column, MOST_COLUMNS),
        f"a list of names, at most {MOST_COLUMNS:,}: [a,b,c]",
    ),
    "target": (_is_column, "a column, by its name or its position"),
    "inputs": (
        _or_list_of(_is_column, MOST_COLUMNS),
        f"columns by name or position, or a range '3-23', or a list of at most {MOST_COLUMNS:,}",
    ),
    "labels": (
        lambda value: isinstance(value, list | tuple) and len(value) <= MOST_WORDS,
        "a list of what stands in the target's column",
    ),
    "na_values": (
        _or_list_of(_is_cell, MOST_WORDS),
        f"a cell that stands for a blank, or a list of at most {MOST_WORDS:,}",
    ),
    "client_column": (_is_column, "a column, by its name or its position"),
    "sites": (_is_column, "a column, by its name or its position"),
    "array": (_is_text, "the name of an array"),
    "member_column": (_is_text, "a name"),
    "members": (lambda value: isinstance(value, Mapping), "a mapping of names to digests"),
    "prepare": (lambda value: isinstance(value, Mapping), "a mapping of steps"),
    "sha256": (_is_text, "64 hex digits"),
    "url": (_is_text, "an address"),
    "member": (_is_text, "the name of a file in a zip"),
}
