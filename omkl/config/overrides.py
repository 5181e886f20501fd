"""The command line as jobs: shorthand, sweeps, composition, and what to do about a mistake."""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from omkl.config import schema
from omkl.config.compose import Composer, hydra_of_our_own, parsed, store_defaults
from omkl.config.schema import Settings
from omkl.utils import conf, outside, registry
from omkl.utils.conf import override_text
from omkl.utils.constraints import no_such

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

# Settings of Hydra that omkl has another way for.
REFUSED = {
    "hydra.run.dir": "write outputs=FOLDER",
    "hydra.job.chdir": "a run stays in the folder where it was started; write outputs=FOLDER",
    "hydra.verbose": "omkl writes no log; result.json in the folder of a run has the traceback",
    "hydra/job_logging": "omkl writes no log; result.json in the folder of a run has the traceback",
    "hydra/hydra_logging": "omkl writes no log",
    "hydra/launcher": "write -m --jobs=N; for a cluster python -m omkl.commands.cluster",
    "hydra.mode": "write -m",
    "hydra.searchpath": "write --config-dir=FOLDER",
}


class UsageError(ValueError):
    """The command line cannot be understood. The text says what to write."""


class Jobs(NamedTuple):
    """The jobs of a command line.

    Attributes
    ----------
    settings
        Those of each job.
    swept
        Keys that have several values.
    notes
        Parameters that some algorithms of the sweep do not have.
    """

    settings: list[Settings]
    swept: list[str]
    notes: list[str]


def read_jobs(
    arguments: Sequence[str], config_dirs: Sequence[Path] = (), sweep: bool = False
) -> Jobs:
    """Compose the jobs of a command line.

    Parameters
    ----------
    arguments
        Overrides ``key=value``, and at most one file of data.
    config_dirs
        Folders of YAML files that are searched after ``conf``.
    sweep
        Whether a key may have several values.

    Raises
    ------
    UsageError
        An override cannot be read, or names something that does not exist, or a setting cannot
        have a value.
    """
    composer = _composer(config_dirs)
    overrides = [parse(text) for text in expand(arguments, config_dirs)]
    if sweep:
        in_files = _attempt(composer, composer.sweep_of, _combinations(overrides, composer)[0])
        overrides = [*map(parse, in_files), *overrides]
        jobs = _combinations(overrides, composer)
    else:
        jobs = [_single(overrides)]
    notes: dict[str, None] = {}
    settings = [_composed(composer, job, jobs, notes) for job in jobs]
    last = {one.get_key_element(): one for one in overrides}.values()
    return Jobs(settings, [o.key_or_group for o in last if o.is_sweep_override()], list(notes))


def composed_text(arguments: Sequence[str], config_dirs: Sequence[Path], resolve: bool) -> str:
    """Return the settings of one job as YAML, for ``--cfg job``."""
    composer = _composer(config_dirs)
    job = _single([parse(text) for text in expand(arguments, config_dirs)])
    return _attempt(composer, lambda texts: composer.text(texts, resolve), job)


def complete(command: str, arguments: Sequence[str]) -> None:
    """Print what a shell asks of Hydra's completion: ``install=bash``, ``query=bash``."""
    from hydra.core.global_hydra import GlobalHydra

    with hydra_of_our_own():
        store_defaults()
        hydra: Any = GlobalHydra.instance().hydra
        hydra.shell_completion(config_name=conf.main_file().stem, overrides=[command, *arguments])


def _composer(config_dirs: Sequence[Path]) -> Composer:
    for folder in config_dirs:
        if not folder.is_dir():
            raise UsageError(f"there is no folder {folder} (--config-dir)")
    return Composer(config_dirs)


# --- what is typed --------------------------------------------------------------------------------


def expand(arguments: Sequence[str], config_dirs: Sequence[Path] = ()) -> list[str]:
    """Write shorthand out.

    ``my.csv target=y`` becomes ``dataset=file dataset.path=my.csv dataset.target=y seeds=1``, with
    the defaults of ``omkl.panel`` where a key is named. ``algorithm.module=mypkg.mine`` also
    chooses the algorithm ``mine``.
    """
    files = [text for text in arguments if _is_file(text)]
    if len(files) > 1:
        raise UsageError(
            f"{' and '.join(files)}: a run reads one file. For a run of each: "
            f"-m dataset=file dataset.path={','.join(files)}"
        )
    keys = {key_of(text) for text in arguments}
    if files and (twice := keys & {"dataset", "dataset.path"}):
        raise UsageError(f"{files[0]} is the data set already: leave {min(twice)}= out")
    texts = list(arguments)
    if files or "dataset=file" in texts:
        texts = ["dataset=file"] * bool(files) + [of_file(text) for text in texts]
        more = conf.PANEL if keys & {"key", "dataset.key"} else {}
        more = more if keys & {"seeds", "debug"} else {**more, "seeds": 1}
        texts += [f"{key}={value}" for key, value in more.items() if key not in keys]
    return _with_module(texts, config_dirs)


def of_file(text: str) -> str:
    """Return an argument as one of ``dataset=file``.

    ``target=y`` becomes ``dataset.target=y``, the name of a file ``dataset.path=...``.
    """
    if _is_file(text):
        return f"dataset.path={override_text(text)}"
    key = key_of(text)
    return text.replace(key, f"dataset.{key}", 1) if _is_of_file(f"dataset.{key}") else text


def _is_file(text: str) -> bool:
    """Return whether an argument names a file of data, which may not exist."""
    if text.startswith(("~", "+")):
        return False
    known = schema.DEFAULTS.keys() | conf.groups().keys()
    if "=" in text:  # a=b.csv, where no setting is called a
        key = key_of(text)
        return key.partition(".")[0] not in known | _keys_of_file() and Path(text).is_file()
    is_setting = text.partition(".")[0] in known
    return Path(text).is_file() or (bool(Path(text).suffix) and not is_setting)


def _is_of_file(key: str) -> bool:
    """Return whether ``dataset.KEY`` of an own file may be written as ``KEY``."""
    group, _, name = key.partition(".")
    return group == "dataset" and name in _keys_of_file()


@functools.cache
def _keys_of_file() -> frozenset[str]:
    return frozenset(conf.entry("dataset", "file").keys() - schema.DEFAULTS.keys())


def _with_module(texts: Sequence[str], config_dirs: Sequence[Path]) -> list[str]:
    written = list(texts)
    for place, text in enumerate(texts):
        key, _, module = text.lstrip("+").partition("=")
        if key != "algorithm.module":
            continue
        try:  # Composer searches the folder conf beside the module from here
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
    """Return the key of an override: ``target`` of ``+target=y``."""
    return text.lstrip("+~").partition("=")[0]


def parse(text: str) -> Override:
    """Parse an override. A value such as ``0.1/sqrt(t)`` needs no quotes.

    Raises UsageError where Hydra cannot read it, and for overrides that omkl does not take.
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


# --- the jobs of a sweep --------------------------------------------------------------------------


def _single(overrides: Sequence[Override]) -> list[str]:
    for one in overrides:
        if one.is_sweep_override():
            raise UsageError(f"{one.input_line} has several values: add -m to run each")
    return [str(one.input_line) for one in overrides]


def _combinations(overrides: Sequence[Override], composer: Composer) -> list[list[str]]:
    """Return the overrides of each job. Of several overrides of one key the last counts."""
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
    composer: Composer, job: list[str], jobs: Sequence[list[str]], notes: dict[str, None]
) -> Settings:
    """Compose a job without the parameters that only other algorithms of the sweep have."""
    try:
        return composer.compose(job)
    except _composition_errors() as error:
        key = _unknown_key(error)
        rest = [text for text in job if key_of(text) != key]
        of_others = key.startswith("algorithm.") and any(_has(composer, one, key) for one in jobs)
        if rest == job or not of_others:
            raise _explained(error, composer, job) from None
    settings = _composed(composer, rest, jobs, notes)
    notes[f"{settings.algorithm.name} has no {key} and runs without it."] = None
    return settings


def _has(composer: Composer, job: Sequence[str], key: str) -> bool:
    with contextlib.suppress(*_composition_errors()):
        return key in composer.keys(job)
    return False


# --- mistakes -------------------------------------------------------------------------------------


def _composition_errors() -> tuple[type[Exception], ...]:
    import yaml
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    # ValueError: Hydra's own for algorithm=5, and modules that cannot be used.
    return HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError


def _attempt(composer: Composer, do: Callable[[list[str]], Any], job: list[str]) -> Any:
    try:
        return do(job)
    except _composition_errors() as error:
        raise _explained(error, composer, job) from None


def _unknown_key(error: Exception) -> str:
    """Return the key that the composed files do not have; "" for another error."""
    match = re.match(r"Could not override '(.+)'\.\n", str(error))
    return match[1] if match and error.__cause__ is not None else ""


def _explained(error: Exception, composer: Composer, job: Sequence[str]) -> UsageError:
    """Return what a user can do about an error of Hydra or OmegaConf."""
    if missing := getattr(error, "missing_cfg_file", None):
        group, _, name = str(missing).partition("/")
        module = registry.names_outside().get(name) if group == "algorithm" else None
        if module is not None:
            return UsageError(outside.without_yaml(name, module))
        known = conf.names(group, composer.config_dirs)
        return UsageError(no_such(f"{group}={name}", name, known))
    if key := _unknown_key(error):
        others = [text for text in job if key_of(text) != key]
        known = [*conf.groups(), *composer.keys(others)]
        if "dataset=file" in job:
            known = [name.removeprefix("dataset.") if _is_of_file(name) else name for name in known]
        chosen = [text for text in job if key.startswith(f"{text.partition('=')[0]}.")]
        where = f" with {chosen[-1]}" if chosen else ""
        return UsageError(no_such(f"{key}{where}", key, known))
    cause = error.__cause__
    return UsageError(f"{str(error).strip()}\n{cause}" if cause else str(error).strip())
