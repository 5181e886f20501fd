"""``omkl-run``: run one job, or with ``-m`` a sweep."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from omkl.commands import sweep, terminal
from omkl.commands.terminal import EXIT_FAILED
from omkl.config import overrides, reference
from omkl.config.overrides import UsageError, Values, key_of, of_file
from omkl.config.schema import GROUPS
from omkl.utils import conf
from omkl.utils.conf import NEUTRAL
from omkl.utils.constraints import no_such
from omkl.utils.wording import UNEXPLAINED, plain, warn

if TYPE_CHECKING:
    from omkl.config.schema import Settings
    from omkl.experiment.job import Job
    from omkl.experiment.run import Outcome
    from omkl.runs.run_folder import Run


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``omkl-run`` with ``argv`` (without the program's name) and return the exit status."""
    return terminal.exit_status(
        "omkl-run", lambda: _start(_parser().parse_intermixed_args(argv)), (), (UsageError,)
    )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (settings are written key=value; see omkl-run --help)")


def _parser() -> argparse.ArgumentParser:
    """Return the parser of options. Their help is in ``omkl.config.reference``."""
    parser = _Parser("omkl-run", add_help=False, allow_abbrev=False)
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("-m", "--multirun", action="store_true")
    parser.add_argument("-j", "--jobs")
    parser.add_argument("--from", dest="folder", type=Path)
    parser.add_argument("-cd", "--config-dir", action="append", type=Path, default=[])
    parser.add_argument("-c", "--cfg", choices=["job"])
    parser.add_argument("--resolve", action="store_true")
    parser.add_argument("-h", "--help", nargs="?", const="")
    parser.add_argument("-sc", "--shell-completion")
    parser.add_argument(terminal.VERSION, action="store_true")
    return parser


def _start(options: argparse.Namespace) -> int:
    if options.version:
        print(terminal.VERSION_TEXT)
    elif options.help is not None:
        if options.help not in ("", *reference.TOPICS):
            raise UsageError(no_such(f"--help {options.help}", options.help, reference.TOPICS))
        groups = conf.groups(options.config_dir)
        print(reference.help_page(options.help, groups, options.config_dir))
    elif options.shell_completion:
        overrides.complete(options.shell_completion, options.overrides)
    elif options.cfg or options.resolve:
        if options.multirun:
            raise UsageError("--cfg shows the settings of one run: leave -m out")
        texts, values = from_folder(options.folder, options.overrides)
        print(overrides.composed_text(texts, options.config_dir, options.resolve, values), end="")
    else:
        return _run(options)
    return 0


def _run(options: argparse.Namespace) -> int:
    prefix = "hydra.sweep.dir="
    folder = None
    for text in options.overrides:
        if text.startswith(prefix):
            folder = Path(text[len(prefix) :])
    typed = [text for text in options.overrides if not text.startswith(prefix)]
    if (folder or options.jobs is not None) and not options.multirun:
        raise UsageError("--jobs and hydra.sweep.dir are for a sweep: add -m")
    n_jobs = _n_jobs(options.jobs or "1")
    texts, values = from_folder(options.folder, typed)
    jobs = overrides.read_jobs(texts, options.config_dir, options.multirun, values)
    for note in jobs.notes:
        print(note)
    if options.multirun:
        return 0 if sweep.run(jobs, folder, n_jobs) else EXIT_FAILED
    return run_alone(jobs.settings[0])


def _n_jobs(text: str) -> int | str:
    """Return the number of processes for jobs, or the address of a Dask scheduler."""
    if "://" in text:
        return text
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise UsageError(f"--jobs={text} is neither a number from 1 nor an address tcp://HOST:PORT")
    return int(text)


def run_alone(settings: Settings) -> int:
    """Run one job, print its numbers, and return the exit status."""
    from omkl.experiment import run as runner
    from omkl.experiment import viewers
    from omkl.report import console

    def on_begin(job: Job) -> None:
        rows = str(job.stream.row_count or "")
        bar.print(lambda where: console.print_columns(job.stream.provenance, rows, where))

    bar = sweep.bar_of(sweep.title_of(settings), settings)
    with bar as progress:
        outcome = runner.run(settings, progress, on_begin)
        if outcome.status == "reused":
            bar.print(lambda where: console.print_inputs(outcome.run, where))
        if outcome.status != "failed":
            bar.print(lambda where: console.print_run(outcome.run, where))
        outcome = viewers.draw(outcome, progress)
    if outcome.status == "failed":
        error = outcome.run.result["error"]
        more = f"\n\n{error['traceback']}\n{UNEXPLAINED}" if error["traceback"] else ""
        warn(f"{error['message']}{more}", "omkl-run")
        return EXIT_FAILED
    _print_outcome(outcome, settings.outputs)
    _print_hints(outcome.run)
    print(end="", flush=True)
    sweep.print_tracked(viewers.track([outcome.run], settings), settings.outputs)
    return 0


def _print_outcome(outcome: Outcome, outputs: Path) -> None:
    """Print the notes of a run and the paths of its files."""
    from omkl.report import console
    from omkl.runs.run_folder import FIGURES

    result, folder = outcome.run.result, outcome.run.folder
    for note in outcome.notes:
        print(f"Note: {plain(note)}")
    if outcome.status == "reused":
        print("Found finished: nothing was computed (force=true computes it again).")
    # Paths are not wrapped, so that they can be copied.
    console.print_saved("results", folder, outputs)
    data = folder.parent
    for file in result["stream"].get("files", ()):  # explain the folder's name at its first run
        if data.name.endswith(f"-{file['sha256'][:4]}") and len(list(data.iterdir())) == 1:
            print(f"         {data.name}: {file['name']}, and the first digits of its SHA-256")
    kept = ("predictions.parquet", "model.npz")
    names = ["result.json", "curves.npz", "config.json"]
    print(console.wrapped("", names + [name for name in kept if (folder / name).exists()]))
    drawn = (folder / FIGURES).glob("*.png")
    if plots := sorted(drawn, key=lambda path: (path.name != "over_time.png", path.name)):
        console.print_path("plots", plots[0])
        print(console.wrapped("", [path.name for path in plots[1:]]))


def _print_hints(run: Run) -> None:
    """Suggest the next commands after a run."""
    from omkl.report.naming import has_kernels

    result, folder, steps = run.result, run.folder, []
    if result["stream"].get("columns") and not result.get("federated"):  # a file of the user's
        if (folder / "model.npz").exists():
            steps = [f"predict new rows: omkl-predict {folder} FILE"]
        elif len(result["seeds"]) == 1:  # model=true needs one
            steps = ["keep the model: model=true"]
        if "rmse" in result:
            others = "kt,raker,vaw2" if "series" in result else "auto,raker,vaw2"
            steps.append(f"compare: -m algorithm={others}")
    hints = ["; ".join(steps)] if steps else []
    compared = {"ridge_features", "server"} & result["regret"].keys()
    if has_kernels(run) and not ({"series", "error_rate"} & result.keys() or compared):
        hints.append("regret in hindsight: regret.ridge_features=true")
    for name, hint in zip(["next", ""], hints, strict=False):
        print(f"{name:<9}{hint}")


def from_folder(folder: Path | None, typed: Sequence[str]) -> tuple[Sequence[str], Values]:
    """Return the arguments of a command line, and the settings of the run in ``folder``.

    Arguments take precedence over these settings. Raises UsageError if there is no run in the
    folder, or if the run is damaged.
    """
    if folder is None:
        return typed, {}
    config = dict(_config_of(folder.expanduser()))
    if "path" in config["dataset"]:  # a file of the user's
        typed = [of_file(text) for text in typed]
        file = {key: value for key, value in config["dataset"].items() if key != "sha256"}
        config["dataset"] = file | {"name": "file"}  # the content may have changed since
    if config["federation"]["name"] == "column":  # the column decides the number of clients
        config.pop("clients", None)
    unset = {*NEUTRAL, *({*GROUPS} & {key_of(text) for text in typed})}
    return typed, {f"++{key}": [value] for key, value in config.items() if key not in unset}


def _config_of(folder: Path) -> Mapping[str, Any]:
    from omkl.runs.run_folder import Run, UnreadableRunError  # imported here: NumPy takes 0.1 s

    try:
        return Run(folder).config
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"--from {folder}: there is no run folder") from None
    except UnreadableRunError as error:
        raise UsageError(f"--from {folder}: {error}") from None
