"""The three commands: omkl-run, omkl-data, omkl-report. Thin: they parse, call and print."""

from __future__ import annotations

import _thread
import contextlib
import difflib
import importlib.util
import json
import math
import os
import re
import sys
import textwrap
import threading
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from omkl.experiment.threads import share_the_machine

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from omkl.experiment.run import Outcome
    from omkl.runs.folder import Run

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def conf_folder() -> Path:
    """Where the YAML files are: in the package when installed, beside it in a checkout."""
    package = Path(__file__).parents[1]
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


# --- omkl-run -----------------------------------------------------------------------------------


def run() -> None:
    """``omkl-run``: one job, or with ``-m`` a sweep."""
    sys.unraisablehook = _insisting_on_interrupts(sys.unraisablehook)
    for stream in (sys.stdout, sys.stderr):  # a terminal may lack letters such as ±
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        try:
            code = _run(sys.argv[1:])
        except Exception as error:
            if _was_interrupted(error):
                raise KeyboardInterrupt from error
            raise
        sys.stdout.flush()
    except KeyboardInterrupt:
        with contextlib.suppress(KeyboardInterrupt):
            Sweep.finish(interrupted=True)
        print("\nInterrupted. What is finished is kept; the same command goes on.", file=sys.stderr)
        sys.stdout.flush()
        # Threads may be in the middle of a long computation: nothing waits for them.
        os._exit(EXIT_INTERRUPTED)
    except BrokenPipeError:  # as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_FAILED
    sys.exit(code)


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether a library has made another error of a Ctrl-C."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def _insisting_on_interrupts(otherwise: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A Ctrl-C that lands in a callback from C code is lost there: send it again."""

    def hook(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            threading.Timer(0.05, _thread.interrupt_main).start()
        else:
            otherwise(unraisable)

    return hook


def _run(arguments: Sequence[str]) -> int:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    own_trace = "HYDRA_FULL_ERROR" in os.environ
    # Hydra then raises its errors instead of printing them, some of them with tracebacks.
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    import hydra
    from hydra.errors import HydraException

    from omkl import startup

    try:
        line = CommandLine(arguments)
        sys.argv[1:] = line.checked()
        OmegaConf.register_new_resolver("omkl.help", line.help, replace=True)
        folder = str(conf_folder())
        main = hydra.main(version_base="1.3", config_path=folder, config_name="config")(job)
        once = startup.composing_once() if line.plain else contextlib.nullcontext()
        try:
            with once:
                main()
        except (Exception, SystemExit):
            Sweep.finish()
            raise
        Sweep.finish()
    except UsageError as error:
        print(f"omkl-run: {error}", file=sys.stderr)
        return EXIT_USAGE
    except (HydraException, OmegaConfBaseException) as error:
        if own_trace or _was_interrupted(error):
            raise
        cause = error.__cause__
        more = f"\n{cause}" if isinstance(cause, OmegaConfBaseException) else ""
        print(f"omkl-run: {str(error).strip()}{more}", file=sys.stderr)
        return EXIT_USAGE
    except BrokenPipeError:
        raise
    except OSError as error:
        if own_trace or error.filename is None:
            raise
        print(f"omkl-run: cannot use {error.filename}: {error.strerror}", file=sys.stderr)
        return EXIT_FAILED
    except SystemExit as error:  # Hydra's own options, and fail_fast
        return error.code if isinstance(error.code, int) else EXIT_FAILED
    return _exit_code


_exit_code = 0


class UsageError(ValueError):
    """The command line names something that does not exist."""


# Launchers of others: the package of each, and our extra that installs it.
EXTRAS = {
    "joblib": ("hydra_joblib_launcher", "sweep"),
    "submitit_local": ("hydra_submitit_launcher", "slurm"),
    "submitit_slurm": ("hydra_submitit_launcher", "slurm"),
    "ray": ("hydra_ray_launcher", "ray"),
}


def _spelt_out(text: str) -> str:
    """``launcher=batch launcher.workers=2`` is short for Hydra's group hydra/launcher."""
    text = re.sub(r"^launcher(?==)", "hydra/launcher", text)
    return re.sub(r"^(\+{0,2})launcher(?=\.)", r"\1hydra.launcher", text)


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(f"hydra_plugins.{package}") is not None
    except ModuleNotFoundError:
        return False


class CommandLine:
    """The arguments of ``omkl-run``: what they name is looked up before Hydra sees them."""

    _WITH_VALUE = (
        "--config-dir", "-cd", "--config-name", "-cn", "--config-path", "-cp",
        "--package", "-p", "--cfg", "-c", "--experimental-rerun",
    )  # fmt: skip
    _INFORMATION = ("--cfg", "-c", "--info", "-i", "--help", "-h")
    _ANOTHER_MATTER = (
        "--shell-completion", "-sc", "--hydra-help", "--version", "--experimental-rerun",
        "--config-name", "-cn", "--config-path", "-cp",
    )  # fmt: skip

    def __init__(self, arguments: Sequence[str]) -> None:
        self.arguments = list(arguments)
        self.folders = [conf_folder()]
        self.overrides: list[tuple[int, str]] = []
        before = ""
        for number, argument in enumerate(arguments):
            flag, equals, value = argument.partition("=")
            if before in self._WITH_VALUE:
                flag, value = before, argument
                before = ""
            elif before in ("--info", "-i") and argument.replace("-", "").isalpha():
                before = ""  # its value can be left out
            elif not argument.startswith("-"):
                self.overrides.append((number, argument))
                continue
            else:
                before = "" if equals else flag
            if flag in ("--config-dir", "-cd") and value:
                self.folders.append(Path(value))

    @property
    def plain(self) -> bool:
        """Whether nothing but the YAML files of ``conf`` and these arguments sets anything."""
        flags = {argument.partition("=")[0] for argument in self.arguments}
        mode = any("hydra.mode" in argument for argument in self.arguments)
        return not mode and not flags & {*self._ANOTHER_MATTER} and len(self.folders) == 1

    def checked(self) -> list[str]:
        """The command line for Hydra. Raises UsageError that lists what exists, and the nearest.

        A parameter that only some of the swept algorithms have is marked ``++``, so
        that Hydra lets it pass for the others, which run without it.
        """
        flags = {argument.partition("=")[0] for argument in self.arguments}
        if not self.overrides or flags.intersection(self._ANOTHER_MATTER):
            return self.arguments
        rewritten = list(self.arguments)
        parsed = []
        for number, text in self.overrides:
            text, override = _parsed(_spelt_out(text))
            rewritten[number] = text
            parsed.append((number, text, override))
            if override.key_or_group == "hydra.searchpath":
                given = override.value()
                paths = given if isinstance(given, list) else [given]
                self.folders += [
                    Path(str(path).removeprefix("file://"))
                    for path in paths
                    if not str(path).startswith("pkg://")
                ]
        groups = self.groups()
        chosen = _defaults(self.folders[0])
        sweeping = bool(flags & {"-m", "--multirun"})
        if sweeping and (shown := flags.intersection(self._INFORMATION)):
            raise UsageError(f"{shown.pop()} is about one run: leave -m out")
        for _, text, override in parsed:
            key = override.key_or_group
            if override.is_delete() and not key.startswith("hydra"):
                raise UsageError(f"{text}: nothing can be taken out of a run")
            if key in chosen and not override.is_delete():
                chosen[key] = _values(override, groups[key])
            sweeping = sweeping or (key == "hydra.mode" and str(override.value()) == "MULTIRUN")
        for _, text, override in parsed:
            if override.is_sweep_override() and not sweeping:
                raise UsageError(f"{text} names several values: add -m to run them one by one")
        rewritten += self._launched(parsed, sweeping)
        for group, names in chosen.items():
            for name in names:
                if name not in groups[group]:
                    raise UsageError(_unknown(f"{group}={name}", name, groups[group]))
                if "name" not in self.fields(group, name):
                    raise UsageError(f"{group}/{name}.yaml has no key 'name'")
        others = any(o.key_or_group in groups.keys() - chosen.keys() for _, _, o in parsed)
        for number, text, override in parsed:
            key = override.key_or_group
            if key in groups or key.startswith(("hydra.", "hydra/")) or override.package:
                continue
            group, dot, field = key.partition(".")
            if group in chosen and dot and others:
                continue  # another group may choose the algorithm: Hydra and the runner judge
            if group in chosen and dot:
                rewritten[number] = self._parameter(text, override, group, field, chosen[group])
            else:
                self._setting(text, override, chosen)
        # Hydra wants its own options first.
        places = [number for number, _, _ in parsed]
        n = len(self.arguments)
        options = [text for number, text in enumerate(rewritten[:n]) if number not in places]
        return [*options, *(rewritten[number] for number in places), *rewritten[n:]]

    def _launched(self, parsed: Sequence[tuple[int, str, Any]], sweeping: bool) -> list[str]:
        """Look up the launcher; what else it sets, unless that is set already."""
        chosen = [o.value() for _, _, o in parsed if o.key_or_group == "hydra/launcher"]
        launcher = str(chosen[-1]) if chosen else "basic"
        known = ["basic", "batch", *EXTRAS]
        if launcher not in known and difflib.get_close_matches(launcher, known):
            raise UsageError(_unknown(f"launcher={launcher}", launcher, known))
        if launcher not in known[1:]:
            return []  # Hydra knows it, or says what there is
        if not sweeping:
            raise UsageError(f"launcher={launcher} runs the jobs of a sweep: add -m")
        if launcher == "batch":
            given = {override.key_or_group for _, _, override in parsed}
            quick = {"figures": "false", "tracking": "none"}
            added = [f"{key}={value}" for key, value in quick.items() if key not in given]
            if added:
                print(
                    f"launcher=batch sets {' '.join(added)}. Later: omkl-report figures, "
                    "omkl-report rebuild-tracking."
                )
            return added
        package, extra = EXTRAS[launcher]
        if not _installed(package):
            raise UsageError(
                f"launcher={launcher} is not installed: in the checkout, "
                f"pip install -e '.[{extra}]'"
            )
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would tell its makers
        return []

    def _parameter(
        self, text: str, override: Any, group: str, field: str, names: Sequence[str]
    ) -> str:
        """An override of one key of an algorithm, a data set or a dictionary."""
        have = {name: _flat(self.fields(group, name)) for name in names}
        # What lies below a list or a number of the YAML is not ours to judge.
        below = [
            f for fields in have.values() for f, v in fields.items() if not isinstance(v, dict)
        ]
        if any(field.startswith(f"{f}.") for f in below):
            return text
        without = [name for name in names if field not in have[name]]
        if not without:
            section = have[names[0]][field]
            if isinstance(section, dict) and not isinstance(override.value(), dict):
                raise UsageError(_made_of(text, f"{group}.{field}", section))
            return text
        elsewhere = [n for n in self.groups()[group] if field in _flat(self.fields(group, n))]
        if len(without) == len(names):
            if group == "dataset" and elsewhere and override.type.name != "CHANGE":
                return text
            known = list(dict.fromkeys(f"{group}.{f}" for fields in have.values() for f in fields))
            if not elsewhere:
                where = f" with {', '.join(names)}"
                raise UsageError(_unknown(f"{group}.{field}", f"{group}.{field}", known, where))
            raise UsageError(
                f"{', '.join(names)} has no {group}.{field} (but {', '.join(elsewhere)}). "
                f"There are: {', '.join(known)}."
            )
        if group != "algorithm":
            raise UsageError(f"{', '.join(without)} has no {group}.{field}")
        print(f"{', '.join(without)} has no {group}.{field} and runs without it.")
        return text if text.startswith("+") else "++" + text

    def _setting(self, text: str, override: Any, chosen: Mapping[str, Sequence[str]]) -> None:
        """An override outside the groups."""
        key = override.key_or_group
        known = _settings(self.folders[0])
        if key in known:
            if isinstance(known[key], dict):
                raise UsageError(_made_of(text, key, known[key]))
            if key == "outputs" and {"", "null"}.intersection(_values(override, [])):
                raise UsageError(f"{text}: outputs is the folder that results go to")
            return
        flat = [name for name, value in known.items() if not isinstance(value, dict)]
        fields = [
            f"{g}.{f}" for g, names in chosen.items() for n in names for f in self.fields(g, n)
        ]
        raise UsageError(_unknown(key, key, [*chosen, *flat], hidden=fields))

    def groups(self) -> dict[str, list[str]]:
        """Names to choose from, by group."""
        found: dict[str, list[str]] = {}
        for folder in self.folders:
            if not folder.is_dir():
                raise UsageError(f"there is no folder {folder} (--config-dir)")
            for path in sorted(folder.glob("*/**/*.yaml")):
                group, _, name = path.relative_to(folder).with_suffix("").as_posix().partition("/")
                names = found.setdefault(group, [])
                if name not in names:
                    names.append(name)
        found.pop("table", None)  # for omkl-report
        found.pop("comparison", None)
        return {k: sorted(v, key=lambda name: ("/" in name, name)) for k, v in found.items()}

    def fields(self, group: str, name: str) -> dict[str, Any]:
        """Keys of a group's YAML and their values, with those of the YAML that it builds upon."""
        for folder in self.folders:  # Hydra takes the first as well
            path = folder / group / f"{name}.yaml"
            if path.exists():
                content = _load_yaml(path)
                merged: dict[str, Any] = {}
                for base in content.pop("defaults", []):
                    if isinstance(base, str) and base != "_self_":
                        merged |= self.fields(group, base)
                return merged | content
        return {}

    def help(self) -> str:
        """The part of ``--help`` that depends on the YAML files."""
        groups = self.groups()
        lines = ["Choices (group=name)"]
        for group, names in groups.items():
            lines += _hanging(group, ", ".join(names))
        lines += ["", "Parameters of each algorithm (algorithm.KEY=value) and their defaults"]
        for name in groups["algorithm"]:
            fields = {k: v for k, v in self.fields("algorithm", name).items() if k != "name"}
            lines += _hanging(name, ", ".join(f"{k}={_plain(v)}" for k, v in fields.items()))
        lines += ["", "Settings (key=value) and their defaults"]
        text = (self.folders[0] / "config.yaml").read_text(encoding="utf-8")
        between = text.partition("\n\n")[2].partition("\nhydra:")[0]
        return "\n".join(lines + textwrap.indent(between.strip(), "  ").splitlines())


def _hanging(head: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, 79, initial_indent=f"  {head:9} ", subsequent_indent=" " * 12, break_long_words=False
    )


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parsed(text: str) -> tuple[str, Any]:
    """An override as Hydra reads it; schedules such as 0.1/sqrt(t) need no quotes of their own."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    if "=" not in text and not text.startswith("~"):
        raise UsageError(f"{text!r} is no setting; write key=value, as in algorithm=gf")
    parser = OverridesParser.create()
    try:
        return text, parser.parse_override(text)
    except HydraException as error:
        reason = str(error).splitlines()[0].partition(" expecting")[0]
    key, _, value = text.partition("=")
    pieces = value.split(",")
    if all(_is_schedule(piece) for piece in pieces):
        quoted = ",".join(f'"{piece}"' for piece in pieces)
        return f"{key}={quoted}", parser.parse_override(f"{key}={quoted}")
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


def _values(override: Any, names: Sequence[str]) -> list[str]:
    """The values of an override, one or those of a sweep; a glob stands for some of ``names``."""
    value = override.value()
    if hasattr(value, "filter"):
        return list(value.filter(list(names)))
    if override.is_sweep_override():
        return [str(getattr(v, "text", v)) for v in override.sweep_iterator()]
    return ["null" if value is None else str(value)]


def _load_yaml(path: Path) -> dict[str, Any]:
    import yaml
    from omegaconf import OmegaConf

    try:
        container = OmegaConf.to_container(OmegaConf.load(path))
    except (yaml.YAMLError, OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from None
    return {str(k): v for k, v in container.items()} if isinstance(container, dict) else {}


def _defaults(folder: Path) -> dict[str, list[str]]:
    """What config.yaml chooses in each of its groups."""
    items = _load_yaml(folder / "config.yaml")["defaults"]
    pairs = [pair for item in items if isinstance(item, dict) for pair in item.items()]
    return {group: [name] for group, name in pairs if not group.startswith("override ")}


def _settings(folder: Path) -> dict[str, Any]:
    """The settings of config.yaml, flat."""
    content = _load_yaml(folder / "config.yaml")
    return _flat({k: v for k, v in content.items() if k not in ("hydra", "defaults")})


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


def _unknown(
    shown: str, name: str, known: Sequence[str], where: str = "", hidden: Sequence[str] = ()
) -> str:
    """That there is no ``shown``, what is like it (of known and hidden), and what there is."""
    everything = [*known, *hidden]
    near = difflib.get_close_matches(name, everything, n=1, cutoff=0.5)
    # The last word may be right where the group is wrong: "M" for "algorithm.M".
    near = [k for k in everything if k.rpartition(".")[2] == name.rpartition(".")[2]][:1] or near
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"there is no {shown}{where}.{hint} There are: {', '.join(known)}."


def job(cfg: DictConfig) -> None:
    """One job of a run or a sweep, called by Hydra."""
    global _exit_code
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    hydra_config = HydraConfig.get()
    config = configuration(cfg, hydra_config.overrides.task)
    from omkl.experiment import run as runner
    from omkl.experiment import settings
    from omkl.report import console

    prompted = config["stream"]["labels"] == "prompt"  # a bar would write over the questions
    classify = settings.task_in(config) == "classification"
    if hydra_config.mode != RunMode.MULTIRUN:
        label = f"{config['algorithm']['name']} on {config['dataset']['name']}"
        with console.Bar(label, config["seeds"], not prompted, classify) as progress:
            outcome = runner.run(config, progress)
        console.print_outcome(outcome, Path(config["outputs"]))
        _exit_code = EXIT_FAILED if outcome.status == "failed" else 0
        return
    # A launcher may run jobs in other processes, whose bars would write over each other.
    elsewhere = Sweep.folder is None
    if elsewhere:
        share_the_machine()
        Sweep.recall(Path(hydra_config.sweep.dir))
        if config["fail_fast"] and Sweep.has_failed(Path(hydra_config.sweep.dir)):
            return
    task = Sweep.task(config, hydra_config.runtime.output_dir, hydra_config.job.num)
    if task is None:
        return
    from omkl.experiment import comparators

    with (
        comparators.one_thread_each() if elsewhere else contextlib.nullcontext(),
        console.Bar(task.label, config["seeds"], not (elsewhere or prompted), classify) as progress,
    ):
        text, failed = Sweep.work(task, progress)
    if elsewhere:  # Lines tells it
        return
    print(text, flush=True)
    if failed and config["fail_fast"]:
        raise SystemExit(EXIT_FAILED)


def configuration(cfg: DictConfig, given: Sequence[str]) -> dict[str, Any]:
    """What a job is made of, from Hydra's configuration and the overrides of the job."""
    from omegaconf import OmegaConf

    container = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(container, dict)
    config = {str(k): v for k, v in container.items()}
    keys = [text.lstrip("+").partition("=")[0] for text in given]
    if any(key.startswith("kernels.") for key in keys) and "kernels.name" not in keys:
        config["kernels"]["name"] = "own"
    return config


class Task(NamedTuple):
    """A job of a sweep: how it is called, what it is made of, and its file in the sweep."""

    label: str
    config: dict[str, Any]
    place: Path


class Sweep:
    """What happens around a sweep, which ends with one table of all jobs and failures.

    Each job leaves a file of its own in the sweep's folder, so the table is the
    same under every launcher that shares the file system.
    """

    folder: Path | None = None
    outputs = Path()
    figures = True
    n_jobs: int | None = None
    swept: tuple[str, ...] = ()
    lines: Lines | None = None

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Called by Hydra, before any job and in this process."""
        Sweep.folder = Path(config.hydra.sweep.dir)
        Sweep.outputs = Path(config.outputs)
        Sweep.figures = config.figures is True
        texts = [*config.hydra.overrides.task]
        if params := config.hydra.sweeper.get("params"):
            texts = [*(f"{key}={value}" for key, value in params.items()), *texts]
        counts: dict[str, int | None] = {}
        for text in texts:  # the last of each key counts
            override = _parsed(text)[1]
            counts.pop(override.key_or_group, None)
            if override.is_sweep_override():
                values = override.value()
                known = not hasattr(values, "filter") and override.is_discrete_sweep()
                counts[override.key_or_group] = len(_values(override, [])) if known else None
        Sweep.swept = tuple(counts)
        each = [n for n in counts.values() if n is not None]
        Sweep.n_jobs = math.prod(each) if len(each) == len(counts) else None
        with contextlib.suppress(OSError):  # the sweeper meets the same and tells it
            Sweep.folder.mkdir(parents=True, exist_ok=True)
            text = json.dumps({"n_jobs": Sweep.n_jobs, "swept": Sweep.swept})
            (Sweep.folder / "sweep.json").write_text(text, encoding="utf-8")
        if config.hydra.runtime.choices.get("hydra/launcher") in EXTRAS:
            Sweep.lines = Lines(Sweep.folder)

    @classmethod
    def recall(cls, folder: Path) -> None:
        """In the process of a job: what the process that began the sweep has found."""
        with contextlib.suppress(OSError, ValueError):
            facts = json.loads((folder / "sweep.json").read_text(encoding="utf-8"))
            cls.n_jobs, cls.swept = facts["n_jobs"], tuple(facts["swept"])

    def __getattr__(self, name: str) -> Any:
        """Hydra's other occasions pass without notice."""
        if name.startswith("on_"):
            return lambda *args, **kwargs: None
        raise AttributeError(name)

    @classmethod
    def label(cls, number: int) -> str:
        if cls.n_jobs is None:
            return f"[{number + 1}] "
        return f"[{number + 1:{len(str(cls.n_jobs))}}/{cls.n_jobs}] "

    @classmethod
    def settings(cls, config: Mapping[str, Any]) -> str:
        """What is swept and is neither algorithm nor data set."""
        pairs = []
        for key in cls.swept:
            value: Any = config
            for part in key.split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
            if key not in ("algorithm", "dataset") and value is not None:
                value = value["name"] if isinstance(value, Mapping) and "name" in value else value
                pairs.append(f"{key.removeprefix('algorithm.')}={value}")
        return f" ({', '.join(pairs)})" if pairs else ""

    @classmethod
    def task(cls, config: dict[str, Any], sweep_folder: str, number: int) -> Task | None:
        """The job of this configuration; None, and told, if an earlier one has the same."""
        from omkl.experiment import settings

        config = settings.fit_to_algorithm(config)
        label = f"{cls.label(number)}{config['algorithm']['name']} on {config['dataset']['name']}"
        label += cls.settings(config)
        place = cls.claim(config, sweep_folder, number)
        if place is None:
            print(f"{label}: the same as an earlier job", flush=True)
            return None
        return Task(label, config, place)

    @staticmethod
    def work(task: Task, progress: Any = None) -> tuple[str, bool]:
        """Run a job: the text that tells how it ended, and whether it failed."""
        from omkl.experiment import run as runner

        return Sweep.ended(task, runner.run(task.config, progress))

    @staticmethod
    def ended(task: Task, outcome: Outcome) -> tuple[str, bool]:
        from omkl.report import console

        text = console.line_text(task.label, outcome)
        Sweep.record(task.place, outcome, text)
        return text, outcome.status == "failed"

    @staticmethod
    def has_failed(folder: Path) -> bool:
        return any(fact["status"] == "failed" for fact, _ in _facts(folder))

    @staticmethod
    def claim(config: Mapping[str, Any], sweep_folder: str, number: int) -> Path | None:
        """A file for this job, or None if another job of the sweep has the same settings."""
        from omkl.runs import writing

        place = Path(sweep_folder) / "jobs" / f"{writing.folder_of(config).name}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(place, "x", encoding="utf-8") as file:
                json.dump({"number": number, "status": "begun"}, file)
        except FileExistsError:
            place.with_suffix(f".{number}").touch()  # the first of them has its place in the table
            return None
        return place

    @staticmethod
    def record(place: Path, outcome: Outcome, text: str) -> None:
        from omkl.runs import folder as run_folder

        run = outcome.run
        facts = json.loads(place.read_text(encoding="utf-8"))
        facts |= {"status": outcome.status, "tracked": outcome.tracked, "text": text}
        facts["folder"] = os.path.relpath(run.folder, place.parent)
        if outcome.status == "failed":  # its run folder may not exist, or hold an older result
            facts |= {"result": run.result, "config": run.config}
        run_folder.write_atomically(place, json.dumps(facts, indent=2), sync=False)

    @classmethod
    def finish(cls, interrupted: bool = False) -> None:
        """Print and write the table, unless there was no sweep; draw the plots."""
        global _exit_code
        folder, cls.folder = cls.folder, None
        if folder is None:
            return
        if cls.lines is not None:
            cls.lines.finish()
        from rich.console import Console

        from omkl.report import console, tables

        jobs = list(_jobs_of(folder))
        runs = [run for run, _ in jobs]
        finished = [run for run in runs if run.complete]
        if not runs:
            return
        if len(finished) < len(runs):
            _exit_code = EXIT_FAILED
        rows, failures = tables.sweep_table(finished), tables.failure_table(runs)
        print()
        tables.print_sweep(rows, failures, Console())
        tables.write_sweep(rows, failures, folder)
        print(f"\ntable    {folder}/")
        print("         table.md, table.csv")
        if cls.figures and not interrupted and len(finished) > 1:
            from omkl.report import figures

            drawn = figures.comparison(finished, folder)
            if any(map(figures.saved_labels, finished)):
                drawn += figures.comparison(finished, folder, "labels", against="labels")
            drawn += figures.summary(finished, folder) + figures.tradeoff(finished, folder)
            names = ", ".join(path.name for path in drawn if path.suffix == ".png")
            print(f"plots    {names} (each as .pdf too)")
        if any(tracked for _, tracked in jobs):
            print(console.tracked_text(cls.outputs))


class Lines:
    """Tells the jobs of other processes as they end, from the files that they leave."""

    def __init__(self, sweep: Path) -> None:
        self.sweep = sweep
        self.told: set[Path] = set()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self) -> None:
        while not self.over.wait(0.5):
            self._tell()

    def _tell(self) -> None:
        for fact, path in _facts(self.sweep, self.told):
            if "text" in fact:
                self.told.add(path)
                print(fact["text"], flush=True)

    def finish(self) -> None:
        self.over.set()
        self.thread.join()
        self._tell()


def _facts(sweep: Path, but: Container[Path] = ()) -> list[tuple[dict[str, Any], Path]]:
    """What the jobs of a sweep have left, in the order of the jobs."""
    facts = []
    others: dict[str, int] = {}
    for path in sweep.glob("jobs/*"):
        number = path.suffix.removeprefix(".")
        if number.isdigit():  # a job with the settings of another
            others[path.stem] = min(int(number), others.get(path.stem, int(number)))
        elif path.suffix == ".json" and path not in but:
            with contextlib.suppress(ValueError):  # just being written
                facts.append((json.loads(path.read_text(encoding="utf-8")), path))
    for fact, path in facts:
        fact["number"] = min(fact["number"], others.get(path.stem, fact["number"]))
    return sorted(facts, key=lambda pair: pair[0]["number"])


def _jobs_of(sweep: Path) -> Iterator[tuple[Run, bool]]:
    """The runs of the jobs that ended, in the order of the jobs, and whether they are tracked."""
    from omkl.runs.folder import Run

    for fact, path in _facts(sweep):
        if fact["status"] == "failed":
            run = Run(path.relative_to(sweep))  # where the traceback is, seen from the table
            run.__dict__.update(result=fact["result"], config=fact["config"])
            yield run, False
        elif fact["status"] != "begun":
            yield Run(Path(os.path.normpath(path.parent / fact["folder"]))), fact["tracked"]


# --- omkl-data ----------------------------------------------------------------------------------


def data() -> None:
    """``omkl-data list | describe NAME | fetch NAME... | verify``."""
    from omkl.commands.data import main

    sys.exit(main(sys.argv[1:]))


# --- omkl-report --------------------------------------------------------------------------------


def report() -> None:
    """``omkl-report``: from results only, but for ``run``, which makes what is missing."""
    import argparse

    if sys.argv[1:2] == ["run"]:
        from omkl.reproduction.reproduce import command as run_tables

        sys.exit(run_tables(sys.argv[2:]))

    parser = argparse.ArgumentParser(
        prog="omkl-report", description="Tables, figures and the MLflow view, from results alone."
    )
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), help="default: outputs")
    sub = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    sub.add_parser("show", help="one table of all finished and failed runs")
    sub.add_parser("run", help="run what published tables need, fill them, make the page")
    table = sub.add_parser("table", help="fill a published table from the runs that are there")
    table.add_argument("name", help="jmlr_table1, say")
    page = sub.add_parser("page", help="one page of all tables and figures from those runs")
    page.add_argument("--to", type=Path, help="folder; default: OUTPUTS/page")
    sub.add_parser("figures", help="draw the plots of all runs anew")
    sub.add_parser("rebuild-tracking", help="make the MLflow view again from the run folders")
    ui = sub.add_parser("ui", help="open MLflow on the runs")
    ui.add_argument("--port", type=int, default=5000)
    for command in sub.choices.values():
        command.add_argument("--outputs", type=Path, default=argparse.SUPPRESS)
    arguments = parser.parse_args()
    try:
        sys.exit(_report(arguments))
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except (ValueError, OSError, RuntimeError) as error:
        print(f"omkl-report: {error}", file=sys.stderr)
        sys.exit(EXIT_FAILED)


def _report(arguments: Any) -> int:
    from rich.console import Console

    from omkl.runs.folder import find

    outputs: Path = arguments.outputs
    if arguments.command == "ui":
        from omkl import tracking

        return tracking.ui(outputs, port=arguments.port)
    if arguments.command == "rebuild-tracking":
        from omkl import tracking

        n = tracking.rebuild(outputs)
        print(f"{n} runs are in {outputs / 'mlflow.db'} again.")
        return 0
    runs = list(find(outputs))
    if not runs:
        raise ValueError(f"there are no runs in {outputs / 'runs'}; omkl-run makes some")
    if arguments.command == "show":
        from omkl.report import tables

        complete = [r for r in runs if r.complete]
        tables.print_sweep(tables.sweep_table(complete), tables.failure_table(runs), Console())
        return 0
    if arguments.command == "figures":
        from omkl.report import figures
        from omkl.reproduction import paper_figures

        for r in runs:
            if r.complete:
                figures.all_figures(r)
                paper_figures.regret_bound(r)
        return 0
    from omkl.report import tables
    from omkl.reproduction import page

    if arguments.command == "page":
        files = sorted(
            (conf_folder() / "table").glob("*.yaml"), key=lambda p: page.order_of(p.stem)
        )
        every = [tables.load_table(path) for path in files]
        print(page.build(every, outputs, arguments.to or outputs / "page", runs)[0])
        return 0
    filled = tables.fill(tables.load_table(_table_path(arguments.name)), runs)
    for path in tables.render(filled, tables.FORMATS, outputs / "tables"):
        print(path)
    return 0


def _table_path(name: str) -> Path:
    folder = conf_folder() / "table"
    path = folder / f"{name}.yaml"
    if not path.exists():
        raise ValueError(_unknown(f"table {name}", name, [p.stem for p in folder.glob("*.yaml")]))
    return path
