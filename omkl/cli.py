"""The three commands: omkl-run, omkl-data, omkl-report. Thin: they parse, call and print."""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from omkl.results import Run
    from omkl.runner import Outcome

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def conf_folder() -> Path:
    """Where the YAML files are: in the package when installed, beside it in a checkout."""
    package = Path(__file__).parent
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


# --- omkl-run -----------------------------------------------------------------------------------


def run() -> None:
    """``omkl-run``: one job, or with ``-m`` a sweep."""
    arguments = sys.argv[1:]
    try:
        sys.argv[1:] = checked(arguments)
    except UsageError as error:
        print(f"omkl-run: {error}", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    import hydra

    main = hydra.main(version_base="1.3", config_path=str(conf_folder()), config_name="config")(job)
    try:
        main()
    except KeyboardInterrupt:
        Sweep.finish(interrupted=True)
        print("\nInterrupted. What is finished is kept; the same command goes on.", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    sys.exit(_exit_code)


_exit_code = 0


class UsageError(ValueError):
    """The command line names something that does not exist."""


def checked(arguments: Sequence[str]) -> list[str]:
    """The command line for Hydra, after every name in it has been looked up.

    Raises UsageError that lists what exists and the nearest name. A parameter
    that only some of the swept algorithms have is marked ``++``, so that Hydra
    lets it pass for the others, which run without it.
    """
    folders = [conf_folder()]
    rewritten = list(arguments)
    overrides: list[tuple[int, str]] = []
    takes_value = False
    for number, argument in enumerate(arguments):
        if takes_value:
            if arguments[number - 1] in ("--config-dir", "-cd"):
                folders.append(Path(argument))
            takes_value = False
        elif argument in _FLAGS_WITH_VALUE:
            takes_value = True
        elif argument.startswith("--config-dir="):
            folders.append(Path(argument.partition("=")[2]))
        elif not argument.startswith("-"):
            overrides.append((number, argument))
    if not overrides:
        return rewritten
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    groups = _groups(folders)
    chosen = {"algorithm": ["sfg_r"], "dataset": ["synthetic"], "kernels": ["rbf51_lap25"]}
    parsed = []
    parser = OverridesParser.create()
    for number, text in overrides:
        if "=" not in text and not text.startswith("~"):
            raise UsageError(f"{text!r} is no setting; write key=value, as in algorithm=gf")
        try:
            override = parser.parse_override(text)
        except HydraException as error:
            reason = str(error).splitlines()[0]
            raise UsageError(
                f"cannot read {text!r} ({reason}). Text with blanks, brackets or commas goes in "
                f"quotes of its own: 'algorithm.eta=\"0.1/sqrt(t)\"'"
            ) from None
        key = override.key_or_group
        if key in groups and key in chosen and not override.is_delete():
            chosen[key] = _values(override)
        parsed.append((number, text, override))
    for group, names in chosen.items():
        for name in names:
            if name not in groups[group]:
                raise UsageError(_unknown(f"{group}={name}", name, groups[group]))
    for number, text, override in parsed:
        key = override.key_or_group
        if key in groups or key.startswith("hydra") or override.is_delete():
            continue
        group, dot, field = key.partition(".")
        if override.is_add() or override.is_force_add():
            continue
        if group in chosen and dot:
            fields = {name: _fields(folders, group, name) for name in chosen[group]}
            top = field.partition(".")[0]
            everything = list(dict.fromkeys(f for names in fields.values() for f in names))
            if top not in everything:
                where = f" of {', '.join(chosen[group])}"
                raise UsageError(
                    _unknown(key, key, [f"{group}.{f}" for f in everything], where=where)
                )
            without = [name for name in chosen[group] if top not in fields[name]]
            if without and group == "algorithm":
                rewritten[number] = "++" + text
                print(f"{key} is no parameter of {', '.join(without)}: run without it.")
            continue
        known = _settings(folders)
        if key not in known:
            raise UsageError(_unknown(key, key, known))
    return rewritten


_FLAGS_WITH_VALUE = {
    "--config-dir", "-cd", "--config-name", "-cn", "--config-path", "-cp",
    "--package", "-p", "--cfg", "-c", "--info", "-i",
}  # fmt: skip


def _values(override: Any) -> list[str]:
    if override.is_choice_sweep():
        return [str(getattr(v, "text", v)) for v in override.value().list]
    if override.is_sweep_override():
        return [str(v) for v in override.sweep_string_iterator()]
    return [str(override.value())]


def _groups(folders: Iterable[Path]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"there is no folder {folder} (--config-dir)")
        for path in sorted(folder.glob("*/*.yaml")):
            groups.setdefault(path.parent.name, []).append(path.stem)
    groups.pop("table", None)
    return groups


def _load_yaml(path: Path) -> dict[str, Any]:
    from omegaconf import OmegaConf

    container = OmegaConf.to_container(OmegaConf.load(path))
    return {str(k): v for k, v in container.items()} if isinstance(container, dict) else {}


def _fields(folders: Sequence[Path], group: str, name: str) -> list[str]:
    """Keys of a group's YAML, with those of the YAML that it builds upon."""
    for folder in reversed(folders):
        path = folder / group / f"{name}.yaml"
        if path.exists():
            content = _load_yaml(path)
            bases = [d for d in content.pop("defaults", []) if isinstance(d, str) and d != "_self_"]
            inherited = [f for base in bases for f in _fields(folders, group, base)]
            return list(dict.fromkeys([*inherited, *content]))
    return []


def _settings(folders: Sequence[Path]) -> list[str]:
    content = _load_yaml(folders[0] / "config.yaml")
    content.pop("hydra", None)
    content.pop("defaults", None)
    names = ["algorithm", "dataset", "kernels"]
    for key, value in content.items():
        names.append(key)
        if isinstance(value, dict):
            names += [f"{key}.{inner}" for inner in value]
    return names


def _unknown(shown: str, name: str, known: Sequence[str], where: str = "") -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if not near:  # the last word may be right where the group is wrong: "M" for "algorithm.M"
        near = [k for k in known if k.rpartition(".")[2] == name.rpartition(".")[2]][:1]
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"there is no {shown}.{hint} There are{where}: {', '.join(known)}."


def job(cfg: DictConfig) -> None:
    """One job of a run or a sweep, called by Hydra."""
    global _exit_code
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode
    from omegaconf import OmegaConf

    container = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(container, dict)
    config = {str(k): v for k, v in container.items()}
    sweeping = HydraConfig.get().mode == RunMode.MULTIRUN
    from omkl import runner

    if sweeping:
        config, _ = runner.fit_to_algorithm(config)
        Sweep.enlist(config, HydraConfig.get().runtime.output_dir, HydraConfig.get().job.num)
    label = f"{config['algorithm']['name']} on {config['dataset']['name']}"
    with _progress(label) as progress:
        outcome = runner.run(config, progress)
    if sweeping:
        _print_line(outcome)
        if outcome.status == "failed" and config["fail_fast"]:
            raise SystemExit(EXIT_FAILED)
        return
    _print_outcome(outcome, Path(config["outputs"]), config["tracking"])
    if outcome.status == "failed":
        _exit_code = EXIT_FAILED


def _print_line(outcome: Outcome) -> None:
    """One line a job while a sweep goes on."""
    from omkl.report.console import mse_text

    result = outcome.run.result
    head = f"{result['algorithm']} on {result['dataset']}"
    changed = ", ".join(f"{k}={v}" for k, v in result["params"].items() if k in ("M", "K", "J"))
    head += f" ({changed})" if changed else ""
    if outcome.status == "failed":
        print(f"failed    {head}: {result['error']['message']}", flush=True)
    else:
        word = "reused" if outcome.status == "reused" else "done"
        print(f"{word:9s} {head}: MSE {mse_text(result)}", flush=True)
    for note in outcome.notes:
        print(f"          {note}", flush=True)


def _print_outcome(outcome: Outcome, outputs: Path, tracked: str) -> None:
    from rich.console import Console

    from omkl.report.console import print_run

    result, folder = outcome.run.result, outcome.run.folder
    if outcome.status == "failed":
        print(f"omkl-run: {result['error']['message']}", file=sys.stderr)
        if result["error"]["type"] not in ("ValueError", "DataError"):
            print(f"The traceback is in {folder / 'result.json'}.", file=sys.stderr)
        return
    console = Console()
    print_run(outcome.run, console)
    for note in outcome.notes:
        console.print(note, style="yellow")
    if outcome.status == "reused":
        console.print("Found finished; nothing was computed (force=true computes it again).")
    plots = sorted(p.name for p in folder.glob("*.png"))
    console.print(f"results  {folder}/  (result.json, results.parquet, curves.npz, config.yaml)")
    if plots:
        console.print(f"plots    {folder}/  ({', '.join(plots)}; each as .pdf too)")
    if tracked == "mlflow":
        where = "" if outputs == Path("outputs") else f" --outputs {outputs}"
        command = "make ui" if not where and Path("Makefile").exists() else f"omkl-report ui{where}"
        console.print(f"tracked  {outputs / 'mlflow.db'}  (look: {command})")


class Sweep:
    """What Hydra calls around a sweep: it ends with one table of all jobs and failures.

    Each job leaves a line in a file of its own, so the table is the same under
    every launcher that shares the file system.
    """

    folder: Path | None = None

    @staticmethod
    def enlist(config: Mapping[str, Any], sweep_folder: str, number: Any) -> None:
        from omkl import runner

        jobs = Path(sweep_folder) / "jobs"
        jobs.mkdir(parents=True, exist_ok=True)
        where = os.path.relpath(runner.folder_of(config), sweep_folder)
        (jobs / f"{number}.json").write_text(json.dumps({"folder": where}))

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        Sweep.folder = Path(config.hydra.sweep.dir)

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        Sweep.finish()

    def __getattr__(self, name: str) -> Any:
        """Hydra's other occasions pass without notice."""
        if name.startswith("on_"):
            return lambda *args, **kwargs: None
        raise AttributeError(name)

    @classmethod
    def finish(cls, interrupted: bool = False) -> None:
        global _exit_code
        folder, cls.folder = cls.folder, None
        if folder is None or not (folder / "jobs").is_dir():
            return
        from rich.console import Console

        from omkl.report import tables

        runs = list(_runs_of(folder))
        finished = [r for r in runs if r.complete]
        rows, failures = tables.sweep_table(finished), tables.failure_table(runs)
        print()
        tables.print_sweep(rows, failures, Console())
        tables.write_sweep(rows, failures, folder)
        if failures:
            _exit_code = EXIT_FAILED
        print(f"\ntable    {folder}/table.md, table.csv")
        if not interrupted and len(finished) > 1:
            from omkl.report import figures

            drawn = figures.comparison(finished, folder) + figures.summary(finished, folder)
            names = ", ".join(p.name for p in drawn if p.suffix == ".png")
            print(f"plots    {folder}/{names}")


def _runs_of(sweep: Path) -> Iterator[Run]:
    """The run folders of a sweep in the order of its jobs, each once."""
    from omkl.results import Run

    seen = set()
    for path in sorted((sweep / "jobs").glob("*.json"), key=lambda p: int(p.stem)):
        where = os.path.normpath(sweep / json.loads(path.read_text())["folder"])
        if where not in seen and (Path(where) / "result.json").exists():
            yield Run(Path(where))
        seen.add(where)


class _progress:
    """A progress bar on a terminal, nothing elsewhere."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.bar: Any = None

    def __enter__(self) -> Any:
        if not sys.stderr.isatty():
            return None
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[done]}"),
            TextColumn("{task.fields[rate]}"),
            TextColumn("{task.fields[mse]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self.bar.start()
        self.task = self.bar.add_task(self.label, total=None, done="", rate="", mse="")
        return self.show

    def show(self, stage: str, done: int, total: int | None, mse: float | None) -> None:
        speed = self.bar.tasks[0].speed or 0.0
        rounds = stage == "rounds"
        self.bar.update(
            self.task,
            description=self.label if rounds else f"{self.label}: {stage}",
            completed=done,
            total=total,
            done=f"{done:,}" + (f"/{total:,}" if total else ""),
            rate=f"{speed:,.0f} rounds/s" if rounds and speed else "",
            mse="" if mse is None else f"MSE {mse:.3e}",
        )

    def __exit__(self, *exception: Any) -> None:
        if self.bar is not None:
            self.bar.stop()


# --- omkl-data ----------------------------------------------------------------------------------


def data() -> None:
    """``omkl-data list | describe NAME | fetch NAME... | verify``."""
    from omkl.datasets.command import main

    sys.exit(main(sys.argv[1:]))


# --- omkl-report --------------------------------------------------------------------------------


def report() -> None:
    """``omkl-report show | table NAME | rebuild-tracking | ui``: from results only."""
    import argparse

    parser = argparse.ArgumentParser(
        prog="omkl-report", description="Tables, figures and the MLflow view, from results alone."
    )
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), help="default: outputs")
    sub = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    sub.add_parser("show", help="one table of all finished and failed runs")
    table = sub.add_parser("table", help="a published table beside ours, e.g. jmlr_table1")
    table.add_argument("name")
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

    from omkl.results import find

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

        for r in runs:
            if r.complete:
                figures.all_figures(r)
        return 0
    from omkl.report import tables

    for path in tables.render(
        tables.fill(tables.load_table(_table_path(arguments.name)), runs),
        ("md", "csv", "tex", "html"),
        outputs / "tables",
    ):
        print(path)
    return 0


def _table_path(name: str) -> Path:
    folder = conf_folder() / "table"
    path = folder / f"{name}.yaml"
    if not path.exists():
        raise ValueError(_unknown(f"table {name}", name, [p.stem for p in folder.glob("*.yaml")]))
    return path
