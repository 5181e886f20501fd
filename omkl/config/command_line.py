"""The arguments of ``omkl-run``: what they name is looked up before Hydra sees them."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from omkl.config.compose import SEARCH, parsed
from omkl.utils import conf, outside, registry
from omkl.utils.conf import override_text
from omkl.utils.constraints import did_you_mean, no_such
from omkl.utils.extras import how_to_install
from omkl.utils.wording import few

MODULE = "algorithm.module"
NAMED_FILE = "file"  # the data set that is a file of the user's


class UsageError(ValueError):
    """The command line names something that does not exist."""


# Launchers of others: the package of each, and our extra that installs it.
EXTRAS = {
    "joblib": ("hydra_joblib_launcher", "sweep"),
    "submitit_local": ("hydra_submitit_launcher", "slurm"),
    "submitit_slurm": ("hydra_submitit_launcher", "slurm"),
    "ray": ("hydra_ray_launcher", "ray"),
}


OF_BATCH = ("launcher.workers",)


def _spelt_out(text: str) -> str:
    """``launcher=batch launcher.workers=2`` is short for Hydra's group hydra/launcher."""
    text = re.sub(r"^launcher(?==)", "hydra/launcher", text)
    return re.sub(r"^(\+{0,2})launcher(?=\.)", r"\1hydra.launcher", text)


def installed(package: str) -> bool:
    """Whether a package of Hydra plugins is there."""
    try:
        return importlib.util.find_spec(f"hydra_plugins.{package}") is not None
    except ModuleNotFoundError:
        return False


Groups = Mapping[str, Sequence[str]]  # names by group


class Typed(NamedTuple):
    """An override: its text for Hydra, and as Hydra reads it."""

    text: str
    override: Any

    @property
    def key(self) -> str:
        return str(self.override.key_or_group)


class CommandLine:
    """The arguments of ``omkl-run``: what they name is looked up before anything is composed.

    Attributes
    ----------
    options
        Those of Hydra, with their values, but for ``--config-dir``.
    config_dirs
        Folders of YAML files that are searched after conf.
    is_sweep
        Whether there are several runs, with ``-m`` say.
    is_hydras
        Whether Hydra answers, and nothing is run: ``--help``, ``--cfg job``, ...
    """

    _WITH_VALUE = ("--config-dir", "-cd", "--package", "-p", "--cfg", "-c")
    _INFORMATION = ("--cfg", "-c", "--info", "-i")
    _ANOTHER_MATTER = ("--shell-completion", "-sc", "--hydra-help")
    _OTHERS = ("--multirun", "-m", "--run", "-r", "--resolve")

    def __init__(self, arguments: Sequence[str]) -> None:
        self.flags = {argument.partition("=")[0] for argument in arguments}
        self.options: list[str] = []
        self.config_dirs: list[Path] = []
        self.is_sweep = bool(self.flags & {"-m", "--multirun"})
        self.is_hydras = bool(self.flags.intersection(self._ANOTHER_MATTER + self._INFORMATION))
        self.module = ""  # as typed
        self._chosen: dict[str, list[str]] = {}  # names by group
        self._optional: dict[str, list[str]] = {}  # those of groups that may be left out
        self._texts: list[str] = []
        before = ""
        for argument in arguments:
            flag, equals, value = argument.partition("=")
            if before in self._WITH_VALUE:
                flag, value, before = before, argument, ""
            elif before in ("--info", "-i") and argument.replace("-", "").isalpha():
                before = ""  # its value can be left out
            elif not argument.startswith("-"):
                self._texts.append(argument)
                continue
            else:
                before = "" if equals else flag
            if flag not in ("--config-dir", "-cd"):
                self.options.append(argument)
            elif value:
                self.config_dirs.append(Path(value))
        self._texts = _with_file(self._texts)

    def checked(self) -> list[str]:
        """The overrides. Raises UsageError that lists what exists, and the nearest.

        A parameter that only some of the swept algorithms have is marked ``++``, so
        that Hydra lets it pass for the others, which run without it.
        """
        if self.flags.intersection(self._ANOTHER_MATTER):
            return self._texts
        known = {*self._WITH_VALUE, *self._INFORMATION, *self._OTHERS}
        for option in self.options:
            if option.startswith("-") and option.partition("=")[0] not in known:
                raise UsageError(f"there is no option {option}; settings are written key=value")
        try:
            typed = self._read()
            groups = self.groups()
            self._choose(typed, groups)
            self._look_for_sweeps(typed)
            added = self._launched(typed)
            self._look_up(groups)
            self._load_modules()
            # Where another group may choose the algorithm, Hydra and the runner judge its fields.
            others = groups.keys() - self._chosen.keys() - self._optional.keys()
            free = any(one.key in others for one in typed)
            return [*(self._checked(one, groups, free) for one in typed), *added]
        except (conf.MissingEntry, conf.UnreadableFile, outside.ModuleProblem) as error:
            raise UsageError(str(error)) from None

    def _checked(self, one: Typed, groups: Groups, free: bool) -> str:
        """The text of an override whose key exists."""
        group, dot, field = one.key.partition(".")
        hydras = one.key.startswith(("hydra.", "hydra/")) or one.override.package
        if hydras or one.key in groups or one.key == MODULE:
            return one.text
        if group in self._chosen and dot:
            return one.text if free else self._parameter(one, group, field)
        return self._setting(one)

    def _read(self) -> list[Typed]:
        """The overrides, parsed; notes the folders that they add to the search."""
        typed = [Typed(*parse_override(_spelt_out(text))) for text in self._texts]
        for one in typed:
            if one.key == SEARCH:
                value = one.override.value()
                paths = map(str, value if isinstance(value, list) else [value])
                local = [path for path in paths if not path.startswith("pkg://")]
                self.config_dirs += [Path(path.removeprefix("file://")) for path in local]
        return self._with_module(typed)

    def _with_module(self, typed: list[Typed]) -> list[Typed]:
        """``algorithm.module=mypkg.fixed_share`` also chooses ``algorithm=fixed_share``."""
        places = [n for n, one in enumerate(typed) if one.key == MODULE]
        if not places:
            return typed
        text, override = typed[places[-1]]
        if override.is_sweep_override() or override.is_delete() or len(places) > 1:
            raise UsageError(f"{text}: one module is typed; others are named in their YAML files")
        self.module = str(override.value())
        name = self.module.rpartition(".")[2]
        outside.require(self.module)
        registry.declare(name, self.module)  # the folder conf beside it is searched from here on
        key, _, value = text.lstrip("+").partition("=")
        typed[places[-1]] = Typed(f"++{key}={value}", override)
        if all(one.key != "algorithm" for one in typed):
            if name not in self.groups()["algorithm"]:
                raise UsageError(outside.without_yaml(name, self.module))
            typed.insert(0, Typed(*parse_override(f"algorithm={name}")))
        return typed

    def _load_modules(self) -> None:
        """Import what is chosen and outside the package: what it lacks is said now."""
        for name in self._chosen["kernels"]:
            if module := self._fields("kernels", name).get("module"):
                outside.load(module)
        for name in self._chosen["algorithm"]:
            fields = self._fields("algorithm", name)
            modules = registry.names_outside()
            if module := self.module or fields.get("module") or modules.get(fields["name"]):
                registry.declare(fields["name"], module)
                from omkl import algorithms  # the compiler

                algorithms.load(fields["name"])

    def _choose(self, typed: Sequence[Typed], groups: Groups) -> None:
        """Names that are chosen in each group of config.yaml, and in those that may be left out."""
        shown = self.flags.intersection(self._INFORMATION)
        if shown and self.is_sweep:
            raise UsageError(f"{shown.pop()} is about one run: leave -m out")
        items = [item for item in self._main()["defaults"] if isinstance(item, dict)]
        defaults = {
            group: name
            for item in items
            for group, name in item.items()
            if not group.startswith("override ")
        }
        chosen = {group: [name] if name else [] for group, name in defaults.items()}
        for one in typed:
            if one.override.is_delete() and not one.key.startswith("hydra"):
                raise UsageError(f"{one.text}: nothing can be taken out of a run")
            if one.key in chosen and not one.override.is_delete():
                chosen[one.key] = values_of(one.override, groups[one.key])
        for group in [*chosen]:  # what chosen files choose in other groups, auto for a file, say
            names = [name for name in chosen[group] if name in groups[group]]
            in_turn = [conf.choices_of(group, name, self.config_dirs) for name in names]
            for other in {key for some in in_turn for key in some} - {one.key for one in typed}:
                several = [[some[other]] if other in some else chosen[other] for some in in_turn]
                chosen[other] = list(dict.fromkeys(itertools.chain(*several)))
        self._optional = {group: chosen.pop(group) for group in [*chosen] if not defaults[group]}
        self._chosen = chosen

    def _look_for_sweeps(self, typed: Sequence[Typed]) -> None:
        """Where there is one run, no override may name several values."""
        mode = [str(t.override.value()) for t in typed if t.key == "hydra.mode"]
        self.is_sweep = self.is_sweep or "MULTIRUN" in mode
        for one in typed:
            if one.override.is_sweep_override() and not self.is_sweep:
                raise UsageError(f"{one.text} names several values: add -m to run them one by one")
            if one.override.is_range_sweep() and not list(one.override.sweep_iterator()):
                raise UsageError(f"{one.text} names no value: there would be nothing to run")
            if one.override.is_interval_sweep():
                raise UsageError(f"{one.text} is no list of values: write them, or range(1,5)")

    def _look_up(self, groups: Groups) -> None:
        """Whether there is what is chosen."""
        chosen = {**self._chosen, **self._optional}.items()
        for group, name in ((key, name) for key, names in chosen for name in names):
            if name not in groups[group]:
                module = registry.names_outside().get(name)
                if group == "algorithm" and module is not None:
                    raise UsageError(outside.without_yaml(name, module))
                raise UsageError(no_such(f"{group}={name}", name, groups[group]))
            if group in self._chosen and "name" not in self._fields(group, name):
                raise UsageError(f"{group}/{name}.yaml has no key 'name'")

    def _launched(self, typed: Sequence[Typed]) -> list[str]:
        """Look up the launcher; what else it sets, unless that is set already."""
        chosen = [t.override.value() for t in typed if t.key == "hydra/launcher"]
        launcher = str(chosen[-1]) if chosen else "basic"
        launchers = ["basic", "batch", *EXTRAS]
        if launcher not in launchers and did_you_mean(launcher, launchers):
            raise UsageError(no_such(f"launcher={launcher}", launcher, launchers))
        for one in typed if launcher in ("basic", "batch") else ():
            name = one.key.removeprefix("hydra.")
            if name.startswith("launcher.") and name not in OF_BATCH:
                raise UsageError(no_such(f"{name} with launcher=batch", name, OF_BATCH))
            if name in OF_BATCH and launcher == "basic":
                raise UsageError(f"{name} is of launcher=batch, which is not typed")
        if launcher not in launchers[1:]:
            return []  # Hydra knows it, or says what there is
        if not self.is_sweep:
            raise UsageError(f"launcher={launcher} runs the jobs of a sweep: add -m")
        if launcher == "batch":
            keys = {one.key for one in typed}
            quick = {"figures": "false", "tracking": "none"}
            added = [f"{key}={value}" for key, value in quick.items() if key not in keys]
            if added:
                print(
                    f"launcher=batch sets {' '.join(added)}. Later: omkl-report figures, "
                    "omkl-report rebuild-tracking."
                )
            return added
        package, extra = EXTRAS[launcher]
        if not installed(package):
            raise UsageError(f"launcher={launcher} is not installed: {how_to_install(extra)}")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would tell its makers
        return []

    def _parameter(self, typed: Typed, group: str, field: str) -> str:
        """An override of one key of an algorithm, a data set or a dictionary."""
        text, override = typed
        names, key = self._chosen[group], f"{group}.{field}"
        if key == "algorithm.name":
            raise UsageError(f"{text}: an algorithm is chosen by algorithm=NAME")
        have = {name: _flat(self._fields(group, name)) for name in names}
        fields = {f: value for some in have.values() for f, value in some.items()}
        # What lies below a list or a number of the YAML is not ours to judge.
        if any(field.startswith(f"{f}.") for f, v in fields.items() if not isinstance(v, dict)):
            return text
        without = [name for name in names if field not in have[name]]
        if not without:
            section = have[names[0]][field]
            if isinstance(section, dict) and not isinstance(override.value(), dict):
                raise UsageError(_made_of(text, key, section))
            return text
        if len(without) < len(names):
            if group != "algorithm":
                raise UsageError(f"{', '.join(without)} has no {key}")
            print(f"{', '.join(without)} has no {key} and runs without it.")
            return text if text.startswith("+") else "++" + text
        elsewhere = [n for n in self.groups()[group] if field in _flat(self._fields(group, n))]
        if group == "dataset" and elsewhere and override.type.name != "CHANGE":
            return text
        there = [f"{group}.{f}" for f in fields]
        if not elsewhere:
            known = [*there, *self._settings()]
            raise UsageError(no_such(f"{key} with {', '.join(names)}", key, known))
        raise UsageError(
            f"{', '.join(names)} has no {key} (but {few(elsewhere)}). There are: {few(there)}."
        )

    def _settings(self) -> dict[str, Any]:
        """Those outside the groups, and their sections."""
        return _flat({k: v for k, v in self._main().items() if k not in ("hydra", "defaults")})

    def _setting(self, typed: Typed) -> str:
        """An override outside the groups."""
        key, settings = typed.key, self._settings()
        if key in settings:
            if isinstance(settings[key], dict):
                raise UsageError(_made_of(typed.text, key, settings[key]))
            return typed.text
        flat = [name for name, value in settings.items() if not isinstance(value, dict)]
        fields = [
            field if name == NAMED_FILE and field in _keys_of_file() else f"{group}.{field}"
            for group, names in self._chosen.items()
            for name in names
            for field in self._fields(group, name)
        ]
        raise UsageError(no_such(key, key, [*self._chosen, *self._optional, *flat, *fields]))

    def groups(self) -> dict[str, list[str]]:
        """Names to choose from, by group."""
        for folder in self.config_dirs:
            if not folder.is_dir():
                raise UsageError(f"there is no folder {folder} (--config-dir)")
        return conf.groups(self.config_dirs)

    def _fields(self, group: str, name: str) -> dict[str, Any]:
        return conf.entry(group, name, self.config_dirs)

    def _main(self) -> dict[str, Any]:
        return conf.read(conf.main_file())


def _with_file(texts: Sequence[str]) -> list[str]:
    """A file that is named alone, ``my.csv target=price``, as ``dataset=file dataset.path=...``.

    Where the data set is a file, keys of ``conf/dataset/file.yaml`` need no ``dataset.``, and one
    seed is the default. With ``key=`` the learner of each key is by
    default as ``omkl.panel`` has it.
    """
    tables = [text for text in texts if _is_table(text)]
    if len(tables) > 1:
        raise UsageError(
            f"{' and '.join(tables)}: one file is read in a run. For a run of each: "
            f"-m dataset=file dataset.path={','.join(tables)}"
        )
    keys = {key_of(text) for text in texts}
    if tables and (twice := keys & {"dataset", "dataset.path"}):
        raise UsageError(f"{tables[0]} is the data set already: leave {min(twice)}= out")
    chosen = f"dataset={NAMED_FILE}"
    is_named = bool(tables)
    if not is_named and chosen not in texts:
        return list(texts)
    written = [chosen] if is_named else []
    written += map(of_file, texts)
    of_panel = conf.PANEL if keys & {"key", "dataset.key"} else {}
    written += [f"{key}={value}" for key, value in of_panel.items() if key not in keys]
    return written if keys & {"seeds", "debug"} else [*written, "seeds=1"]


def of_file(text: str) -> str:
    """An argument as one of the data set file: ``target=y`` as ``dataset.target=y``, a file's name
    as ``dataset.path``; others as they are.
    """
    if _is_table(text):
        return f"dataset.path={override_text(text)}"
    key = key_of(text)
    return text.replace(key, f"dataset.{key}", 1) if key in _keys_of_file() else text


@functools.cache
def _keys_of_file() -> frozenset[str]:
    return frozenset(conf.entry("dataset", NAMED_FILE).keys() - conf.read(conf.main_file()).keys())


def key_of(text: str) -> str:
    """The key of an override: ``target`` of ``+target=y``."""
    return text.lstrip("+~").partition("=")[0]


def _is_table(text: str) -> bool:
    """Whether an argument names a file of data and sets nothing."""
    if "=" in text or text.startswith("~"):
        return False
    from omkl.datasets.read import is_table  # pandas' side of the package, where a file is typed

    return is_table(text)


def parse_override(text: str) -> tuple[str, Any]:
    """An override as Hydra reads it; schedules such as 0.1/sqrt(t) need no quotes of their own."""
    from hydra.errors import HydraException

    if "=" not in text and not text.startswith("~"):
        groups = [group for group, names in conf.groups().items() if text in names]
        hint = f" Did you mean {groups[0]}={text}?" if groups else ""
        raise UsageError(f"{text!r} is no setting; write key=value, as in algorithm=gf.{hint}")
    try:
        return text, parsed(text)
    except (HydraException, ValueError) as error:  # a number of thousands of digits
        reason = str(error).splitlines()[0].partition(" expecting")[0]
    key, _, value = text.partition("=")
    pieces = value.split(",")
    if all(_is_schedule(piece) for piece in pieces):
        quoted = ",".join(f'"{piece}"' for piece in pieces)
        return f"{key}={quoted}", parsed(f"{key}={quoted}")
    raise UsageError(
        f"cannot read {text!r} ({reason}). Text with brackets, commas or colons goes in quotes "
        f"of its own, inside those of the shell: '{key}=\"{value}\"'"
    )


def _is_schedule(text: str) -> bool:
    from omkl.core.hyperparameters import parse_schedule

    try:
        parse_schedule(text, horizon=1)
    except ValueError:
        return False
    return True


def values_of(override: Any, names: Sequence[str]) -> list[str]:
    """The values of an override, one or those of a sweep; a glob stands for some of ``names``."""
    value = override.value()
    if hasattr(value, "filter"):
        return list(value.filter(list(names)))
    if override.is_sweep_override():
        return [str(getattr(v, "text", v)) for v in override.sweep_iterator()]
    return ["null" if value is None else str(value)]


def jobs_of(overrides: Sequence[str], groups: Groups) -> list[list[str]]:
    """The overrides of each job of a sweep: all combinations.

    Of several overrides of one key the last counts.
    """
    choices: dict[str, list[str]] = {}
    for text in overrides:
        _, override = parse_override(text)
        key, value = override.get_key_element(), override.value()
        if not override.is_sweep_override():
            choices[key] = [text]
        elif hasattr(value, "filter"):
            choices[key] = [f"{key}={name}" for name in value.filter(list(groups[key]))]
        else:
            choices[key] = [f"{key}={one}" for one in override.sweep_string_iterator()]
    return [list(job) for job in itertools.product(*choices.values())]


def swept_keys(overrides: Sequence[str]) -> list[str]:
    """The keys that have several values."""
    parsed = {one.key_or_group: one for _, one in map(parse_override, overrides)}
    return [key for key, one in parsed.items() if one.is_sweep_override()]


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """All keys of nested mappings with their dotted names, those of mappings as well."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat[f"{prefix}{key}"] = value
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
    return flat


def _made_of(text: str, key: str, section: Mapping[str, Any]) -> str:
    inner = ", ".join(f"{key}.{name}" for name in section)
    return f"{text}: {key} is made of {inner}; set one of these"
