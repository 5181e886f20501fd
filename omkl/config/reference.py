"""The reference of settings, made from the schema: for ``omkl-run --help``, and as a page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from omkl.utils import conf, registry
from omkl.utils.conf import flattened

WIDTH = 79
GROUPS = ("algorithm", "dataset", "kernels", "federation", "debug")
# What each setting of conf/config.yaml is for, with its unit where it has one.
HELP = {
    "task": "what is learned; null: as the data set says",
    "D": "random features per kernel; null: 50, in a federation what max_upload allows",
    "features": (
        "how random frequencies are placed: rff, each by itself; orthogonal, in orthogonal blocks "
        "(Gaussian kernels); qmc, evenly by a scrambled Sobol sequence"
    ),
    "seeds": "R, repetitions with fresh random features",
    "seed": "the first of them",
    "interval": (
        "0.9: intervals around predictions that cover so large a share of the targets, also "
        "after the stream changes; null: none"
    ),
    "interval_rate": "one rate at which they adapt; null: eight, mixed",
    "clients": "K of a federation; null: as published for the data set",
    "max_upload": "numbers that a client of a federation may send per round; null: any",
    "clients_per_round": "clients requested to send messages, drawn at random; null: all",
    "robust.max_change": "the server refuses messages that change more than this norm",
    "robust.max_loss": "it refuses messages with larger losses",
    "robust.trim": "share of messages left out at either end, by coordinate; 0.5: the median",
    "privacy.epsilon": "of a unit, for the noise on what a client sends; null: no noise",
    "privacy.delta": "of a unit",
    "privacy.unit": "what is hidden: sample, a row; client, all rows of a client",
    "privacy.clip": "largest norm of a message's change",
    "privacy.clip_losses": "largest norm of its losses",
    "exchange.graph": "clients send to their neighbours on this graph; null: to a server",
    "exchange.edges": "probability of an edge of the random graph",
    "exchange.every": "rounds from one exchange of messages to the next",
    "exchange.bits": "of an entry of a message, rounded at random; null: float64",
    "stream.limit": "rows at most; null: all",
    "stream.scaling": (
        "columns: standardised by the rows so far; whole: to [0, 1] by all rows; null: columns "
        "for your own files, else whole"
    ),
    "stream.lags": "past targets that are inputs too",
    "stream.delay": "a target is learned so many rows after its prediction; 0: before the next row",
    "stream.horizon": "rows between a row and the one whose target it predicts",
    "stream.order": (
        "file, or shuffled by the seed; null: file for your own files, shuffled in a "
        "classification of the catalogue"
    ),
    "regret.ridge_features": (
        "compare with ridge regression on each kernel's random features in hindsight, which can "
        "take 20 times as long as the learner"
    ),
    "regret.kernel_ridge": (
        "compare with kernel ridge regression in hindsight: T^3 operations and T^2 numbers of "
        "memory for T rows and each kernel"
    ),
    "regret.lam": "regularisation per round, of both",
    "threads": "seeds in parallel; null: as many as cores",
    "block": "rows that are learned at a time; null: a second of them, at most 16,384 and 16 MB",
    "outputs": "folder of the results",
    "figures": "draw figures; pdf: each as PDF too",
    "predictions": "keep predictions.parquet; null: with one seed",
    "model": "keep model.npz, the learner of one seed, for omkl-predict and omkl.load_learner",
    "tracking": "where else runs are shown; auto: in MLflow, where it is installed",
    "force": "compute again what is finished",
    "fail_fast": "end a sweep at the first failure",
}
PAGE = """\
# Settings

Everything that can be written as `key=value` after `omkl-run`, or in a YAML file of
`--config-dir`. Misspelt keys and values that cannot be are refused before anything is opened.
The parameters of an algorithm (`algorithm.KEY`) are on its page, and in
`omkl-run --help algorithms`.

| Group | Choices |
|---|---|
{groups}

## A run

| Setting | Default | What it is | What it may be |
|---|---|---|---|
{settings}

## A data set

`dataset=NAME` chooses one of the catalogue, `dataset=file` a file of your own with `dataset.path`
and `dataset.target`. Its keys, of which a YAML in `conf/dataset` has those that differ:

| Setting | What it may be |
|---|---|
{dataset}
"""


def markdown() -> str:
    """The page ``docs/settings.md``."""
    from omkl.config.schema import SETTINGS  # NumPy, which a prompt does not wait for
    from omkl.datasets.schema import DATASET

    groups = [
        f"| `{group}=` | {', '.join(f'`{name}`' for name in conf.names(group))} |"
        for group in GROUPS
    ]
    settings = [
        f"| `{key}` | `{_plain(value)}` | {HELP[key]} | {SETTINGS[key].words} |"
        for key, value in settings_of_main_file()
    ]
    dataset = [f"| `dataset.{key}` | {rule.words} |" for key, rule in DATASET.items()]
    tables = {"groups": groups, "settings": settings, "dataset": dataset}
    return PAGE.format(**{name: "\n".join(rows) for name, rows in tables.items()})


HELP_PAGE = """\
Run a learner on a file or a data set, or with -m many runs and their table.

  omkl-run my.csv target=price                your own file, with learner auto
  omkl-run my.csv target=price interval=0.9   with intervals around predictions
  omkl-run algorithm=sfg_r dataset=naval      a learner and a data set by name
  omkl-run -m algorithm=raker,gf seed=1,2     every combination, and one table

  KEY=VALUE            a setting; for a misspelt one the closest is named
  -m, --multirun       run every combination of values with commas between
  -j, --jobs N         processes of such a sweep
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
    """Return the help on a topic of ``TOPICS``, or how to call the command if it is "".

    Parameters
    ----------
    topic
        "", "algorithms", "settings" or "data".
    groups
        Names of YAML files by group.
    config_dirs
        Folders with YAML files besides those of ``conf``.
    """
    if not topic:
        return HELP_PAGE
    lines = TOPICS[topic](groups, config_dirs)
    return "\n".join(lines)


def _algorithms(groups: Mapping[str, Sequence[str]], config_dirs: Sequence[Path]) -> Iterator[str]:
    """Yield the help on algorithms. Variants in a sub-folder have a line together."""
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
    for key, value in settings_of_main_file():
        yield from hanging(f"{key}={_plain(value)}", HELP[key], 30)
    yield "\nChoices (GROUP=NAME); algorithms: --help algorithms, data sets: --help data"
    for group, names in groups.items():
        if group not in ("algorithm", "dataset"):
            yield from hanging(group, ", ".join(names), 10)


def _data(groups: Mapping[str, Sequence[str]], config_dirs: Sequence[Path]) -> Iterator[str]:
    from omkl.datasets.schema import DATASET  # imported here: NumPy takes 0.1 s

    yield "Data sets (dataset=NAME); omkl-data list and omkl-data describe NAME say more"
    yield from hanging("", ", ".join(groups["dataset"]), 0)
    yield "\nYour own file: omkl-run FILE target=COLUMN [KEY=VALUE ...]"
    for key in conf.entry("dataset", "file", config_dirs):
        if key in DATASET and key not in ("path", "task"):
            yield from hanging(key, DATASET[key].words, 14)


TOPICS = {"algorithms": _algorithms, "settings": _settings, "data": _data}


def settings_of_main_file() -> Iterator[tuple[str, Any]]:
    """The settings of conf/config.yaml, in its order, with their defaults."""
    main = conf.read(conf.main_file())
    yield from flattened({k: v for k, v in main.items() if k not in ("defaults", "hydra")})


def _about(name: str, config_dirs: Sequence[Path]) -> list[str]:
    entry = conf.entry("algorithm", name, config_dirs)
    when = conf.when("algorithm", name, config_dirs)
    fields = (f"{key}={_plain(v)}" for key, v in entry.items() if key not in ("name", "module"))
    texts = [registry.summary(str(entry.get("name", name))), when and f"when: {when}"]
    first, *others = [text for text in [*texts, ", ".join(fields)] if text] or [""]
    return [line for head, text in [(name, first), *(("", text) for text in others)]
            for line in hanging(head, text)]  # fmt: skip


def hanging(head: str, text: str, width: int = 9) -> list[str]:
    """The text beside its head, which is so wide at least."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=f"  {head:{width}} ",
        subsequent_indent=" " * (width + 3),
        break_long_words=False,
    )


def _plain(value: Any) -> str:
    """As it is written in YAML."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
