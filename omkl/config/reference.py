"""Generate the reference of settings from the schema, for ``omkl-run --help`` and for a page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from omkl.config.schema import Settings
from omkl.datasets.schema import Dataset
from omkl.utils import conf, registry, sections

WIDTH = 79
GROUPS = ("algorithm", "dataset", "kernels", "federation", "debug")
PAGE = """\
# Settings

Write a setting as `key=value` after `omkl-run`, or in a YAML file of `--config-dir`. Misspelt
keys and impossible values are refused before a file is opened. The page of an algorithm and
`omkl-run --help algorithms` list its parameters (`algorithm.KEY`).

| Group | Choices |
|---|---|
{groups}

## A run

| Setting | Default | Meaning | Values |
|---|---|---|---|
{settings}

## A data set

`dataset=NAME` is a data set of the catalogue. `dataset=file` is your own file, with `dataset.path`
and `dataset.target`. A YAML in `conf/dataset` has the keys that differ from their defaults:

| Setting | Values |
|---|---|
{dataset}
"""


def markdown() -> str:
    """Return the page ``docs/settings.md``."""
    groups = [
        f"| `{group}=` | {', '.join(f'`{name}`' for name in conf.names(group))} |"
        for group in GROUPS
    ]
    settings = [
        f"| `{row.key}` | `{_plain(row.default)}` | {row.help} | {row.words} |"
        for row in sections.rows(Settings)
    ]
    dataset = [f"| `dataset.{key}` | {words} |" for key, words in _keys_of_dataset().items()]
    tables = {"groups": groups, "settings": settings, "dataset": dataset}
    return PAGE.format(**{name: "\n".join(rows) for name, rows in tables.items()})


HELP_PAGE = """\
Run a learner on a file or a data set, or with -m many runs and their table.

  omkl-run my.csv target=price                your own file, with learner auto
  omkl-run my.csv target=price interval=0.9   with intervals around predictions
  omkl-run algorithm=sfg_r dataset=naval      a learner and a data set by name
  omkl-run -m algorithm=raker,gf D=20,50      every combination, and one table

  KEY=VALUE            a setting; for a misspelt one the closest is named
  -m, --multirun       run every combination of values with commas between
  -j, --jobs N         processes of such a sweep, or tcp://HOST:PORT of Dask
  --from FOLDER        begin with the settings of a finished run
  --cfg job            print the settings; with --resolve their values
  --config-dir FOLDER  find more YAML files of algorithms and data sets
  +experiment=NAME     add the settings of a file in conf/experiment
  -sc install=bash     let the Tab key complete names (or zsh, fish)
  --version            print the version

  --help algorithms    what each learner is, when to take it, its parameters
  --help settings      all settings of a run, and their defaults
  --help data          data sets, and the settings of your own file

Then: omkl-report show (a table of runs), omkl-predict RUN FILE (new rows)."""


def help_page(
    topic: str, groups: Mapping[str, Sequence[str]], config_dirs: Sequence[Path] = ()
) -> str:
    """Return the help on a topic of ``TOPICS``, or the usage of the command for "".

    Parameters
    ----------
    topic
        "", "algorithms", "settings" or "data".
    groups
        Names of YAML files by group.
    config_dirs
        Folders with YAML files in addition to ``conf``.
    """
    if not topic:
        return HELP_PAGE
    lines = TOPICS[topic](groups, config_dirs)
    return "\n".join(lines)


def _algorithms(groups: Mapping[str, Sequence[str]], config_dirs: Sequence[Path]) -> Iterator[str]:
    """Yield the lines of the help on algorithms. The variants in a sub-folder share one line."""
    yield "Algorithms (algorithm=NAME): what each is, when to take it, and its parameters"
    yield "(algorithm.KEY=VALUE) with their defaults"
    folders: dict[str, list[str]] = {}
    for name in groups["algorithm"]:
        folder, _, last = name.rpartition("/")
        if folder:
            folders.setdefault(folder, []).append(last)
        else:
            yield from _about(name, config_dirs)
    if folders:
        yield "\nVariants (algorithm=rf/NAME; --cfg job shows their parameters)"
    for folder, names in folders.items():
        about = registry.summary(f"{folder}/")
        what = f": {about[0].lower()}{about[1:]}" if about else ""
        yield from hanging(f"{folder}/", ", ".join(names) + what)


def _settings(groups: Mapping[str, Sequence[str]], config_dirs: Sequence[Path]) -> Iterator[str]:
    yield "Settings (KEY=VALUE) and their defaults"
    for row in sections.rows(Settings):
        yield from hanging(f"{row.key}={_plain(row.default)}", row.help, 30)
    yield "\nChoices (GROUP=NAME); algorithms: --help algorithms, data sets: --help data"
    for group, names in groups.items():
        if group not in ("algorithm", "dataset"):
            yield from hanging(group, ", ".join(names), 10)


def _data(groups: Mapping[str, Sequence[str]], config_dirs: Sequence[Path]) -> Iterator[str]:
    yield "Data sets (dataset=NAME); omkl-data list and omkl-data describe NAME say more"
    yield from hanging("", ", ".join(groups["dataset"]), 0)
    yield "\nYour own file: omkl-run FILE target=COLUMN [KEY=VALUE ...]"
    words = _keys_of_dataset()
    for key in conf.entry("dataset", "file", config_dirs):
        if key in words and key not in ("path", "task"):
            yield from hanging(key, words[key], 14)


TOPICS = {"algorithms": _algorithms, "settings": _settings, "data": _data}


def _keys_of_dataset() -> dict[str, str]:
    """Return the possible values of each setting of a data set, as text by key."""
    return {
        key: sections.words(field)
        for key, field in Dataset.model_fields.items()
        if key not in conf.PROSE and (field.annotation is not Any or field.metadata)
    }


def _about(name: str, config_dirs: Sequence[Path]) -> list[str]:
    entry = conf.entry("algorithm", name, config_dirs)
    when = conf.when("algorithm", name, config_dirs)
    fields = (f"{key}={_plain(v)}" for key, v in entry.items() if key not in ("name", "module"))
    texts = [registry.summary(str(entry.get("name", name))), when and f"when: {when}"]
    first, *others = [text for text in [*texts, ", ".join(fields)] if text] or [""]
    return [line for head, text in [(name, first), *(("", text) for text in others)]
            for line in hanging(head, text)]  # fmt: skip


def hanging(head: str, text: str, width: int = 9) -> list[str]:
    """Return ``text`` as lines of a column, with ``head`` to the left of the first line.

    Parameters
    ----------
    head
        Text to the left of the column.
    text
        Text, which is wrapped at 79 characters.
    width
        Smallest width of the space for the head.
    """
    first, other = f"  {head:{width}} ", " " * (width + 3)
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=other, break_long_words=False
    )


def _plain(value: Any) -> str:
    """Return a value as YAML text."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
