"""The schema of a data set and its stream: what each key may hold, before a file is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from omkl.datasets.base import ORDERS, SCALINGS, DataError, checked_name, is_relative_file
from omkl.datasets.columns import MOST_COLUMNS
from omkl.utils.constraints import (
    MAPPING,
    SWITCH,
    Constraint,
    is_number,
    is_whole,
    is_writable,
    one_of,
    or_null,
    shown,
    whole,
    word_of,
)

MOST_WORDS = 10_000  # of a list that is no list of columns
MOST_LAGS = 1_000  # each is a column of all rows that are read at a time
MOST_DELAY = 1_000  # rows that wait for their targets, a horizon and a delay together
TASKS = ("regression", "classification")
MISSING = ("error", "mean", "drop")


def check_dataset(cfg: Mapping[str, Any]) -> None:
    """DataError naming the key, what it holds and what it may be."""
    if not isinstance(cfg, Mapping):
        raise DataError(f"dataset={shown(cfg)} must be {MAPPING.words}.")
    try:
        checked_name("dataset.name", cfg.get("name"))
    except ValueError as error:
        raise DataError(str(error)) from None
    if not {"file", "path", "n_centres"} & set(cfg):
        raise DataError(
            f"dataset.name={cfg['name']}: a data set needs one of the keys 'file' (an entry of the "
            "catalogue), 'path' (an own table) or 'n_centres' (synthetic)."
        )
    for key, constraint in DATASET.items():
        if cfg.get(key) is not None:
            require(f"dataset.{key}", cfg[key], constraint)
    if cfg.get("delimiter") == cfg.get("decimal") != "auto" and cfg.get("decimal"):
        raise DataError(
            f"dataset.delimiter and dataset.decimal are both {cfg['decimal']!r}: one cannot be "
            "told from the other."
        )


def check_stream(cfg: Mapping[str, Any]) -> None:
    """As ``check_dataset``, for how the rows are streamed."""
    for key, constraint in STREAM.items():
        if key in cfg:
            require(f"stream.{key}", cfg[key], constraint)


def require(key: str, value: Any, constraint: Constraint) -> None:
    """DataError where the value of a key is not what it may be."""
    if refusal := constraint.refusal(key, value, "must be"):
        raise DataError(f"{refusal}.")


def _is_cell(value: Any) -> bool:
    return (isinstance(value, str) and is_writable(value)) or is_number(value)


def _is_column(value: Any) -> bool:
    return (isinstance(value, str) and is_writable(value)) or is_whole(value)


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
        return isinstance(value, str) and isinstance("".encode(value), bytes)
    except (LookupError, ValueError):
        return False


def _is_declared(value: Any) -> bool:
    """Whether it says of columns, by name, what they are."""
    return isinstance(value, Mapping) and all(
        _is_cell(name) and isinstance(declared, str) for name, declared in value.items()
    )


def _is_published(value: Any) -> bool:
    """Whether it says how many clients and rounds a published federation has."""
    return isinstance(value, Mapping) and all(
        key in ("clients", "rounds") and is_whole(n) and n >= 1 for key, n in value.items()
    )


_COLUMN = Constraint(_is_column, "a column, by its name or its position")

DATASET: dict[str, Constraint] = {
    "task": one_of(*TASKS),
    "path": Constraint(
        lambda value: isinstance(value, str) and bool(value.strip()), "the path of a file"
    ),
    "file": Constraint(
        is_relative_file,
        "the path of a file below a data folder: names of letters, digits, '-', '_' and '.', at "
        "most 80, none of them beginning with a dot, with / between them",
    ),
    "format": word_of("a word: text, csv, zip, excel, mat or libsvm"),
    "encoding": Constraint(
        _is_encoding, "an encoding of text that Python knows, such as utf-8 or latin-1"
    ),
    "delimiter": Constraint(_is_delimiter, "auto, null for any run of spaces, or one character"),
    "decimal": Constraint(
        lambda value: isinstance(value, str) and value in ("auto", ".", ","), "auto, '.' or ','"
    ),
    "header": SWITCH,
    "columns": Constraint(
        lambda value: _is_declared(value) or _list_of(_is_column, MOST_COLUMNS)(value),
        "what columns are, {shop: category, when: date dayfirst}, or names of all columns of a "
        f"file, at most {MOST_COLUMNS:,}: [a,b,c]",
    ),
    "skip_lines": whole(0, MOST_WORDS),
    "target": Constraint(
        _is_column,
        "one column, by its name or its position (of several columns each has a run: "
        "-m dataset.target=a,b)",
    ),
    "inputs": Constraint(
        _or_list_of(_is_column, MOST_COLUMNS),
        f"columns by name or position, or a range '3-23', or a list of at most {MOST_COLUMNS:,}",
    ),
    "exclude": Constraint(
        _or_list_of(_is_column, MOST_COLUMNS),
        f"a column by name or position, or a range '3-5', or a list of at most {MOST_COLUMNS:,}",
    ),
    "labels": Constraint(
        lambda value: (
            (isinstance(value, list | tuple) and len(value) <= MOST_WORDS) or value == "all"
        ),
        "a list of what stands in the target's column, or all, however many that are",
    ),
    "missing": one_of(*MISSING),
    "na_values": Constraint(
        _or_list_of(_is_cell, MOST_WORDS),
        f"a cell that stands for a missing value, or a list of at most {MOST_WORDS:,}",
    ),
    "key": _COLUMN,
    "max_keys": whole(1),
    "share_weights": SWITCH,
    "share_scaling": SWITCH,
    "client_column": _COLUMN,
    "sites": _COLUMN,
    "array": word_of("the name of an array"),
    "member_column": word_of("a name"),
    "members": Constraint(MAPPING.holds, "a mapping of names to digests"),
    "prepare": Constraint(MAPPING.holds, "a mapping of steps"),
    "rows": whole(1),
    "federated": Constraint(_is_published, "a mapping of clients and rounds, whole numbers from 1"),
    "kernel": Constraint(MAPPING.holds, "a mapping of family and bandwidth"),
    "kernel_after": Constraint(MAPPING.holds, "a mapping of family and bandwidth"),
    "sha256": word_of("64 hex digits"),
    "url": word_of("an address"),
    "member": word_of("the name of a file in a zip"),
}

STREAM: dict[str, Constraint] = {
    "limit": or_null(whole(2)),
    "scaling": one_of(*SCALINGS),
    "order": one_of(*ORDERS),
    "lags": whole(0, MOST_LAGS),
    "delay": whole(0, MOST_DELAY),
    "horizon": whole(0, MOST_DELAY),
}


def default_order(dataset: Mapping[str, Any], task: str) -> str:
    """``stream.order`` where none is given."""
    return "shuffled" if task == "classification" and "file" in dataset else "file"


def default_scaling(dataset: Mapping[str, Any], scheme: str | None = None) -> str:
    """``stream.scaling`` where none is given."""
    return "columns" if "path" in dataset and scheme is None else "whole"
