"""Which runs a report is about, and how it shows them: ``dataset=naval algorithm=raker,gf``."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from omkl.report import naming
from omkl.report.sweep_table import Row, is_baseline, place, setting_names
from omkl.runs.run_folder import Run

FORMATS = ("table", "md", "csv", "latex")
SHOWN_AS = ("sort", "format", "rows", "columns")  # keys that do not choose runs
NUMBERS = ("mse", "error_rate", "regret", "seconds", "labels", "kernels_per_round", "n_seeds")


class Question(NamedTuple):
    """What is asked for.

    ``wanted``         values by key, of which a run has one each
    ``sort``           a key of the table, with a minus before it from the largest; "" as they are
    ``format``         one of ``FORMATS``
    ``rows, columns``  keys of a pivot; () for the table of all columns
    """

    wanted: Mapping[str, Sequence[str]]
    sort: str = ""
    format: str = FORMATS[0]
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


def read(texts: Sequence[str]) -> Question:
    """What ``KEY=VALUE`` ask for; ValueError says which of them cannot be."""
    pairs: dict[str, list[str]] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals and value):
            raise ValueError(f"{text!r} chooses nothing; write KEY=VALUE, as in dataset=naval")
        if key in pairs:
            raise ValueError(f"{key} is given twice; several values are {key}=ONE,OTHER")
        pairs[key] = [part for part in value.split(",") if part]
    shown = {key: pairs.pop(key) for key in SHOWN_AS if key in pairs}
    form = shown.get("format", [FORMATS[0]])
    if len(form) != 1 or form[0] not in FORMATS:
        raise ValueError(f"format={','.join(form)} is none of {', '.join(FORMATS)}")
    sort = shown.get("sort", [""])
    if len(sort) != 1:
        raise ValueError(f"sort={','.join(sort)}: rows are sorted by one column")
    rows, columns = (tuple(shown.get(key, ())) for key in ("rows", "columns"))
    if bool(rows) != bool(columns):
        raise ValueError("a pivot has both: rows=algorithm columns=dataset")
    return Question(pairs, sort[0], form[0], rows, columns)


def matching(runs: Sequence[Run], wanted: Mapping[str, Sequence[str]]) -> list[Run]:
    """The runs that have what is wanted; ValueError for a key that no run has, or if none is left.

    Values are compared as numbers where they are numbers, and may have ``*``: ``rf/*``. A run that
    does not have a key that others have is found by ``KEY=off``, and by ``KEY=null``. Runs of a
    user's file, ``my-5c82``, are found by ``dataset=my`` too.
    """
    facts = [_facts(run) for run in runs]
    for key in wanted:
        if not any(key in of_run for of_run in facts):
            names = dict.fromkeys(name for of_run in facts for name in of_run)
            raise ValueError(f"no run has {key}=; there are: {', '.join([*names, *SHOWN_AS])}")
    left = [
        run
        for run, of_run in zip(runs, facts, strict=True)
        if all(
            any(_is(of_run.get(key, naming.OFF), text, key == "dataset") for text in texts)
            for key, texts in wanted.items()
        )
    ]
    if not left:
        pairs = " ".join(f"{key}={','.join(texts)}" for key, texts in wanted.items())
        values = "; ".join(f"{key}: {_values(facts, key)}" for key in wanted)
        raise ValueError(f"no run has {pairs}. There are {values}")
    return left


def _values(facts: Sequence[Mapping[str, Any]], key: str) -> str:
    values = (naming.value_text(of_run.get(key, naming.OFF)) for of_run in facts)
    return ", ".join(dict.fromkeys(values))


def _facts(run: Run) -> dict[str, Any]:
    """What a run can be chosen by: names, parameters of its algorithm, and settings."""
    result = run.result
    names = {key: result[key] for key in ("algorithm", "dataset", "status", "key")}
    return naming.settings_of(run) | result["params"] | names


# A setting that is off is left out of a configuration, or is null or false there.
_OFF = {naming.OFF, "null", "none", "false"}


def _is(value: Any, text: str, may_end_in_digits: bool = False) -> bool:
    shown = naming.value_text(value)
    if may_end_in_digits and fnmatch.fnmatchcase(shown, f"{text}-{4 * '[0-9a-f]'}"):
        return True
    if shown.lower() == text.lower() or {shown, text} <= _OFF or fnmatch.fnmatchcase(shown, text):
        return True
    try:
        return float(value) == float(text)
    except (TypeError, ValueError):
        return False


def ordered(rows: Sequence[Row], sort: str) -> list[Row]:
    """The rows of each data set, by ``sort``; those that do not have the number come last.

    With "" they are in the order of algorithms and settings, baselines last.
    """
    names = setting_names(rows)
    columns = [*NUMBERS, "algorithm", *names]
    key, largest_first = sort.removeprefix("-"), sort.startswith("-")
    if sort and (key not in columns or not any(key in row | row["settings"] for row in rows)):
        raise ValueError(f"sort={sort}: no row has {key!r}; there are: {', '.join(columns)}")
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))

    def by_names(row: Row) -> tuple[Any, ...]:
        values = (place(row["settings"].get(name)) for name in names)
        return datasets.index(row["dataset"]), is_baseline(row), row["algorithm"], *values

    def value(row: Row) -> Any:
        return (row | row["settings"]).get(key)

    rows = sorted(rows, key=by_names)
    if sort:
        rows.sort(key=lambda row: place(value(row)), reverse=largest_first)
        rows.sort(key=lambda row: (datasets.index(row["dataset"]), value(row) is None))
    return rows
