"""Convert the command line to jobs: expand shorthand and sweeps, compose, and explain errors."""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from omkl.config import schema
from omkl.config.compose import Composer, help_as_text, hydra_of_our_own, parsed, store_defaults
from omkl.config.schema import Settings
from omkl.utils import conf, outside, registry
from omkl.utils.conf import override_text
from omkl.utils.constraints import no_such

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

# Settings of Hydra that omkl replaces.
REFUSED = {
    "hydra.run.dir": "write outputs=FOLDER",
    "hydra.job.chdir": "a run stays in the folder where it was started; write outputs=FOLDER",
    "hydra.verbose": "omkl writes no log; result.json in the folder of a run has the traceback",
    "hydra/job_logging": "omkl writes no log; result.json in the folder of a run has the traceback",
    "hydra/hydra_logging": "omkl writes no log",
    "hydra/launcher": "write -m --jobs=N, or --jobs=tcp://HOST:PORT of a Dask scheduler",
    "hydra.mode": "write -m",
    "hydra.searchpath": "write --config-dir=FOLDER",
}


# Python values of each setting, by its dotted key.
Values = Mapping[str, Sequence[Any]]


class UsageError(ValueError):
    """Raised if the command line is invalid. The message says what to write."""


class Jobs(NamedTuple):
    """Jobs of a command line.

    Attributes
    ----------
    settings
        Settings of each job.
    swept
        Keys with several values.
    notes
        Remarks on parameters that some algorithms of the sweep do not have.
    """

    settings: list[Settings]
    swept: list[str]
    notes: list[str]


class Job(NamedTuple):
    """Job before composition: overrides as texts, and Python values by dotted keys."""

    overrides: list[str]
    values: dict[str, Any]

    def without(self, key: str) -> Job:
        """Return the job without a setting."""
        overrides = [text for text in self.overrides if key_of(text) != key]
        return Job(overrides, {name: v for name, v in self.values.items() if name != key})


def read_jobs(
    arguments: Sequence[str],
    config_dirs: Sequence[Path] = (),
    sweep: bool = False,
    values: Values | None = None,
) -> Jobs:
    """Compose the jobs of a command line, or of a call in Python.

    Parameters
    ----------
    arguments
        Overrides ``key=value``, and at most one data file.
    config_dirs
        Folders of YAML files that are searched after ``conf``.
    sweep
        Whether a key may have several values.
    values
        A list of Python values for each dotted key, with one value unless ``sweep`` is True.
        Arguments take precedence.

    Raises
    ------
    UsageError
        An override is invalid, a name in it does not exist, or a setting has an invalid value.
    """
    composer = _composer(config_dirs)
    arguments, values = expand(arguments, config_dirs, values or {})
    overrides = [parse(text) for text in arguments]
    if sweep:
        first = Job(_combinations(overrides, composer)[0], {})
        in_files = _attempt(composer, lambda job: composer.sweep_of(job.overrides), first)
        overrides = [*map(parse, in_files), *overrides]
        texts = _combinations(overrides, composer)
    else:
        texts = [_single(overrides)]
    jobs = [
        Job(one, dict(zip(values, chosen, strict=True)))
        for one in texts
        for chosen in itertools.product(*values.values())
    ]
    notes: dict[str, None] = {}
    settings = [_composed(composer, job, jobs, notes) for job in jobs]
    last = {one.get_key_element(): one for one in overrides}.values()
    return Jobs(settings, [o.key_or_group for o in last if o.is_sweep_override()], list(notes))


def composed_text(
    arguments: Sequence[str], config_dirs: Sequence[Path], resolve: bool, values: Values
) -> str:
    """Return the settings of one job as YAML, for ``--cfg job``.

    Parameters
    ----------
    arguments, config_dirs, values
        As in ``read_jobs``.
    resolve
        Whether references are resolved.

    Raises
    ------
    UsageError
        As in ``read_jobs``.
    """
    composer = _composer(config_dirs)
    arguments, values = expand(arguments, config_dirs, values)
    job = Job(_single([parse(one) for one in arguments]), {k: v for k, (v,) in values.items()})
    return _attempt(composer, lambda job: composer.text(*job, resolve), job)


def complete(command: str, arguments: Sequence[str]) -> None:
    """Print the answer of Hydra's shell completion to a command such as ``install=bash``."""
    from hydra.core.global_hydra import GlobalHydra

    with hydra_of_our_own(), help_as_text():
        store_defaults()
        hydra: Any = GlobalHydra.instance().hydra
        hydra.shell_completion(config_name=conf.main_file().stem, overrides=[command, *arguments])


def _composer(config_dirs: Sequence[Path]) -> Composer:
    for folder in config_dirs:
        if not folder.is_dir():
            raise UsageError(f"there is no folder {folder} (--config-dir)")
    return Composer(config_dirs)


# --- Shorthand ------------------------------------------------------------------------------------


def expand(
    arguments: Sequence[str], config_dirs: Sequence[Path] = (), values: Values | None = None
) -> tuple[list[str], dict[str, Sequence[Any]]]:
    """Expand shorthand, and return the arguments and the Python values.

    ``my.csv target=y`` becomes ``dataset=file dataset.path=my.csv dataset.target=y seeds=1``. If
    ``series=COLUMN`` is set, ``kernels`` and ``D`` get the defaults of ``omkl.panel``.
    ``algorithm.module=mypkg.mine`` also chooses the algorithm ``mine``. Python values that name
    YAML files of ``conf``, such as ``algorithm="raker"``, become arguments.

    Parameters
    ----------
    arguments, config_dirs, values
        As in ``read_jobs``.

    Raises
    ------
    UsageError
        There are two data files, or a data file and also ``dataset=`` or ``dataset.path=``.
    """
    choosing = {*conf.groups(config_dirs), "+experiment", "algorithm.module"}
    values = dict(values or {})
    chosen = {k: values.pop(k) for k in [*values] if k in choosing and _are_names(values[k])}
    texts = [*arguments, *(f"{k}={','.join(map(override_text, v))}" for k, v in chosen.items())]
    files = [text for text in texts if _is_file(text)]
    if len(files) > 1:
        raise UsageError(
            f"{' and '.join(files)}: a run reads one file. For a run of each: "
            f"-m dataset=file dataset.path={','.join(files)}"
        )
    declared_columns = dict[str, Any]()
    for text in list(texts):
        key, _, value = text.removeprefix("dataset.").partition("=")
        if key == "columns" and (declared := _declared(value)) is not None:
            declared_columns |= declared
        elif key.startswith("columns."):
            declared_columns[key.removeprefix("columns.")] = value.strip("\"'")
        else:
            continue
        texts.remove(text)
    if declared_columns:
        values["dataset.columns"] = [declared_columns]
    keys = {key_of(one) for one in (*texts, *values)}
    if files and (twice := keys & {"dataset", "dataset.path"}):
        raise UsageError(f"{files[0]} is the data set already: leave {min(twice)}= out")
    if files or "dataset=file" in texts:
        texts = ["dataset=file"] * bool(files) + [of_file(text) for text in texts]
        values = {key_of_file(key): several for key, several in values.items()}
        has_series = keys & {"series", "dataset.series"}
        more = conf.PANEL_KERNELS if has_series else {}
        more = more if keys & {"seeds", "debug"} else {**more, "seeds": 1}
        texts += [f"{key}={value}" for key, value in more.items() if key not in keys]
    return _with_module(texts, config_dirs), values


def _declared(text: str) -> dict[str, Any] | None:
    """Parse the value of ``columns=``, and return the declaration of each column by its name.

    The value is a text such as ``shop: category, code: skip``, or the name of a YAML file. Return
    None for a value in Hydra's grammar, such as ``{shop: category}``.
    """
    if text.endswith((".yaml", ".yml")):
        try:
            return conf.read(Path(text).expanduser())
        except conf.UnreadableFile as error:
            raise UsageError(str(error)) from None
    if not text or text[0] in "{['\"" or text == "null":
        return None
    pairs = [one.partition(":") for one in text.split(",")]
    if any(not (name.strip() and colon) for name, colon, _ in pairs):
        raise UsageError(
            f"columns={text}: write columns='shop: category, code: skip', or the name of a YAML "
            "file with a line for each column"
        )
    return {name.strip(): declared.strip() for name, _, declared in pairs}


def _are_names(values: Sequence[Any]) -> bool:
    return all(value is None or isinstance(value, str) for value in values)


def of_file(text: str) -> str:
    """Convert shorthand for a user's file to an override of the group ``dataset``.

    ``target=y`` becomes ``dataset.target=y``, and ``my.csv`` becomes ``dataset.path=my.csv``. Other
    overrides do not change.
    """
    if _is_file(text):
        return f"dataset.path={override_text(text)}"
    key = key_of(text)
    return text.replace(key, key_of_file(key), 1)


def key_of_file(key: str) -> str:
    """Return the key with the prefix ``dataset.``, if it is a setting of a user's file.

    For example, ``target`` becomes ``dataset.target``. Other keys do not change.
    """
    return f"dataset.{key}" if key in _keys_of_file() else key


def _is_file(text: str) -> bool:
    """Return whether an argument is the name of a data file, which may be missing."""
    if text.startswith(("~", "+")):
        return False
    known = schema.DEFAULTS.keys() | conf.groups().keys()
    if "=" in text:  # a file named a=b.csv, if no setting is called a
        key = key_of(text)
        return key.partition(".")[0] not in known | _keys_of_file() and Path(text).is_file()
    is_setting = text.partition(".")[0] in known
    return Path(text).is_file() or (bool(Path(text).suffix) and not is_setting)


@functools.cache
def _keys_of_file() -> frozenset[str]:
    return frozenset(conf.entry("dataset", "file").keys() - schema.DEFAULTS.keys())


def _with_module(texts: Sequence[str], config_dirs: Sequence[Path]) -> list[str]:
    written = list(texts)
    for place, text in enumerate(texts):
        key, _, module = text.lstrip("+").partition("=")
        if key != "algorithm.module":
            continue
        try:  # from now on Composer also searches the folder conf beside the module
            name, *others = registry.declare_all(module)
        except outside.ModuleProblem as error:
            raise UsageError(str(error)) from None
        written[place] = f"++algorithm.module={module}"
        if all(key_of(one) != "algorithm" for one in texts):
            if others:
                several = ", ".join([name, *others])
                raise UsageError(f"{module} has {several}: choose one, as in algorithm={name}")
            if name not in conf.names("algorithm", config_dirs):
                raise UsageError(outside.without_yaml(name, module))
            written.insert(0, f"algorithm={name}")
    return written


def key_of(text: str) -> str:
    """Return the key of an override, such as ``target`` for ``+target=y``."""
    return text.lstrip("+~").partition("=")[0]


def parse(text: str) -> Override:
    """Parse an override. A value such as ``0.1/sqrt(t)`` needs no quotes.

    Raises UsageError if Hydra cannot parse the override, or if omkl does not accept it.
    """
    from hydra.errors import HydraException

    key, equals, value = text.partition("=")
    if (name := key.lstrip("+~")).startswith(("hydra.", "hydra/")):
        cure = REFUSED.get(name, "omkl does not use this setting of Hydra")
        raise UsageError(f"{text}: {cure}")
    if not equals and not text.startswith("~"):
        groups = [group for group, names in conf.groups().items() if text in names]
        hint = f" Did you mean {groups[0]}={text}?" if groups else ""
        raise UsageError(f"{text!r} is no setting: write key=value, as in algorithm=gf.{hint}")
    try:
        override = parsed(text)
    except (HydraException, ValueError) as error:  # ValueError: a number of thousands of digits
        if not re.fullmatch(r"[\w\s.,*/^()+-]+", value):
            if (quoted := _FOREIGN.sub(lambda m: m[0] if m[1] else f'"{m[0]}"', value)) != value:
                return parse(f"{key}={quoted}")
            reason = str(error).splitlines()[0].partition(" expecting")[0]
            raise UsageError(
                f"cannot read {text!r} ({reason}). Text with brackets, commas or colons goes in "
                f"quotes of its own, inside those of the shell: '{key}=\"{value}\"'"
            ) from None
        quoted = ",".join(f'"{piece}"' for piece in value.split(","))
        override = parsed(f"{key}={quoted}")
    if override.is_delete():
        raise UsageError(f"{text}: a run has all settings, and none can be left out")
    if override.key_or_group == "algorithm.name":
        raise UsageError(f"{text}: write algorithm=NAME")
    return override


# A text in quotes, or a word with letters that Hydra's grammar lacks: [größe, "b c"].
_FOREIGN = re.compile(r"""(["']).*?\1|[^\s,\[\]{}:"']*[^\x00-\x7f][^\s,\[\]{}:"']*""")


# --- Jobs of a sweep ------------------------------------------------------------------------------


def _single(overrides: Sequence[Override]) -> list[str]:
    for one in overrides:
        if one.is_sweep_override():
            raise UsageError(f"{one.input_line} has several values: add -m to run each")
    return [str(one.input_line) for one in overrides]


def _combinations(overrides: Sequence[Override], composer: Composer) -> list[list[str]]:
    """Return the overrides of each job. If a key occurs several times, the last one counts."""
    choices: dict[str, list[str]] = {}
    for one in overrides:
        key, text = one.get_key_element(), str(one.input_line)
        value: Any = one.value()
        if not one.is_sweep_override():
            choices[key] = [text]
            continue
        if one.is_interval_sweep():
            raise UsageError(f"{text} is no list of values: write them, or range(1,5)")
        if hasattr(value, "filter"):
            values = value.filter(conf.names(key, composer.config_dirs))
        else:
            values = list(one.sweep_string_iterator())
        if not values:
            raise UsageError(f"{text} has no value: there would be nothing to run")
        choices[key] = [f"{key}={value}" for value in values]
    return [list(job) for job in itertools.product(*choices.values())]


def _composed(
    composer: Composer, job: Job, jobs: Sequence[Job], notes: dict[str, None]
) -> Settings:
    """Compose a job. Leave out parameters that only other algorithms of the sweep have."""
    try:
        return composer.compose(*job)
    except _composition_errors() as error:
        key = _unknown_key(error)
        rest = job.without(key)
        of_others = key.startswith("algorithm.") and any(_has(composer, one, key) for one in jobs)
        if rest == job or not of_others:
            raise _explained(error, composer, job) from None
    settings = _composed(composer, rest, jobs, notes)
    notes[f"{settings.algorithm.name} has no {key} and runs without it."] = None
    return settings


def _has(composer: Composer, job: Job, key: str) -> bool:
    with contextlib.suppress(*_composition_errors()):
        return key in composer.keys(*job)
    return False


# --- Errors ---------------------------------------------------------------------------------------


def _composition_errors() -> tuple[type[Exception], ...]:
    import yaml
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    # ValueError: Hydra raises it for algorithm=5, and omkl for modules that cannot be used.
    return HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError


def _attempt(composer: Composer, do: Callable[[Job], Any], job: Job) -> Any:
    try:
        return do(job)
    except _composition_errors() as error:
        raise _explained(error, composer, job) from None


def _unknown_key(error: Exception) -> str:
    """Return the key that an error reports as missing in the files; "" for another error."""
    from omegaconf.errors import ConfigAttributeError, ConfigKeyError

    cause = error.__cause__ or error
    if isinstance(cause, ConfigAttributeError | ConfigKeyError):
        return str(cause.full_key)
    return ""


def _explained(error: Exception, composer: Composer, job: Job) -> UsageError:
    """Convert an error of Hydra or OmegaConf to an error that tells the user what to do."""
    if missing := getattr(error, "missing_cfg_file", None):
        group, _, name = str(missing).partition("/")
        module = registry.names_outside().get(name) if group == "algorithm" else None
        if module is not None:
            return UsageError(outside.without_yaml(name, module))
        known = conf.names(group, composer.config_dirs)
        return UsageError(no_such(f"{group}={name}", name, known))
    if key := _unknown_key(error):
        known = [*conf.groups(), *composer.keys(*job.without(key))]
        if "dataset=file" in job.overrides:
            short = {f"dataset.{name}": name for name in _keys_of_file()}
            known = [short.get(name, name) for name in known]
        chosen = [text for text in job.overrides if key.startswith(f"{text.partition('=')[0]}.")]
        where = f" with {chosen[-1]}" if chosen else ""
        return UsageError(no_such(f"{key}{where}", key, known))
    cause = error.__cause__
    return UsageError(f"{str(error).strip()}\n{cause}" if cause else str(error).strip())
