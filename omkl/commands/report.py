"""``omkl-report``: show tables, figures and the MLflow view of finished runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omkl.commands import terminal
from omkl.commands.terminal import EXIT_FAILED
from omkl.utils.wording import plain, pluralize, warn

# Each command imports what it needs: the compiler, MLflow and matplotlib take a second each.
if TYPE_CHECKING:
    from omkl.runs.run_folder import Run

CHOICES = (
    "a run's folder, or which runs and how: dataset=naval algorithm=raker,gf M=5, any setting; "
    "sort=mse or sort=-mse; format=md, csv or latex"
)
FORMATS = ("table", "md", "csv", "latex")

FIGURES_OF = (
    "which runs, as in show; x=algorithm.M y=seconds draws one number against another, x=M the "
    "error, x=t the error over the rows"
)
PAGE_OF = "runs of all sweeps instead, as in show: dataset=naval algorithm=raker,gf"
NO_RUNS = "there are no runs in {}; omkl-run makes some"


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``omkl-report`` with ``argv`` (without the program's name). Return the exit status."""
    arguments = _parser().parse_args(argv)
    return terminal.exit_status(
        "omkl-report", lambda: arguments.act(arguments), (ValueError, RuntimeError)
    )


def _parser() -> argparse.ArgumentParser:
    parser = terminal.parser(
        "omkl-report", "Tables, figures and the MLflow view, from results alone."
    )
    folder: dict[str, Any] = {"type": Path, "help": "default: outputs"}
    parser.add_argument("--outputs", default=Path("outputs"), **folder)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(
        name: str, act: Callable[[argparse.Namespace], int], text: str
    ) -> argparse.ArgumentParser:
        command = terminal.add_command(commands, name, act, text)
        command.add_argument("--outputs", default=argparse.SUPPRESS, **folder)
        return command

    showing = add("show", _show, "one table of finished and failed runs, or all about one run")
    showing.add_argument("choices", nargs="*", metavar="KEY=VALUE", help=CHOICES)
    paging = add("page", _page, "one HTML file of a sweep: table, figures, commands")
    paging.add_argument("choices", nargs="*", metavar="KEY=VALUE", help=PAGE_OF)
    paging.add_argument("--sweep", type=Path, help="folder of a sweep; default: the last one")
    paging.add_argument("--to", type=Path, help="file; default: page.html in the sweep's folder")
    drawing = add("figures", _figures, "draw the plots of runs anew, or x= against y= of them")
    drawing.add_argument("choices", nargs="*", metavar="KEY=VALUE", help=FIGURES_OF)
    drawing.add_argument("--pdf", action="store_true", help="each as PDF too")
    add("rebuild-tracking", _rebuild, "make the MLflow view again from the run folders")
    viewing = add("ui", _ui, "open MLflow on the runs")
    viewing.add_argument("--port", type=_port, default=5000, help="default: 5000")
    return parser


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 65536):
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 1 to 65535")
    return int(text)


def _runs(arguments: argparse.Namespace, wanted: Mapping[str, Sequence[str]]) -> list[Run]:
    """Return the runs that match ``wanted``. Print the names of unreadable folders on stderr."""
    from omkl.report import frame
    from omkl.runs.run_folder import find

    outputs = arguments.outputs
    runs = list(find(outputs))
    if not runs:
        raise ValueError(NO_RUNS.format(outputs / "runs"))
    return frame.matching(runs, wanted)


def _wanted(arguments: argparse.Namespace) -> dict[str, list[str]]:
    """Parse the arguments KEY=VALUE, and return the list of values of each key."""
    wanted: dict[str, list[str]] = {}
    for text in arguments.choices:
        key, equals, value = text.partition("=")
        if not (key and equals and value):
            raise ValueError(f"{text!r} chooses nothing; write KEY=VALUE, as in dataset=naval")
        if key in wanted:
            raise ValueError(f"{key} is given twice; several values are {key}=ONE,OTHER")
        if key in ("sort", "format") and arguments.act is not _show:
            raise ValueError("sort= and format= are of show: leave them out")
        wanted[key] = value.split(",")
    return wanted


def _show(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from omkl.report import sweep_table
    from omkl.report.frame import frame_of
    from omkl.runs.run_folder import RESULT, Run

    folders = [text for text in arguments.choices if (Path(text) / RESULT).is_file()]
    arguments.choices = [text for text in arguments.choices if text not in folders]
    wanted = _wanted(arguments)
    sort, form = (",".join(wanted.pop(key, [""])) for key in ("sort", "format"))
    if form not in ("", *FORMATS):
        raise ValueError(f"format={form} is none of {', '.join(FORMATS)}")
    runs = [Run(Path(text).resolve()) for text in folders] or _runs(arguments, wanted)
    if form in ("", "table"):
        if len(runs) == 1 and runs[0].complete:
            _print_run(runs[0])
        else:
            sweep_table.print_frame(frame_of(runs), Console(), sort)
    else:
        write = {"md": sweep_table.markdown, "csv": sweep_table.csv, "latex": sweep_table.latex}
        terminal.write_data([write[form](frame_of(runs), sort)])
    return 0


def _print_run(run: Run) -> None:
    """Print the inputs, numbers, baselines, command and figures of a run."""
    from rich.console import Console

    from omkl.report import console, naming
    from omkl.runs.run_folder import FIGURES

    console.print_inputs(run, Console())
    console.print_run(run, Console())
    print(plain(f"command  {naming.command(run)}"))
    console.print_path("results", run.folder, "/")
    if (run.folder / FIGURES).exists():
        console.print_path("figures", run.folder / FIGURES, "/")


def _page(arguments: argparse.Namespace) -> int:
    import tempfile

    from omkl.commands.sweep import PAGE
    from omkl.report import sweep_figures, sweep_table
    from omkl.runs import run_folder

    if arguments.choices and arguments.sweep:
        raise ValueError(
            "a page shows one sweep or chosen runs: give --sweep or KEY=VALUE, not both"
        )
    place = arguments.sweep
    if place is None and not arguments.choices:
        place = next(reversed(run_folder.sweep_folders(arguments.outputs)), None)
    if place is None:
        runs, to = _runs(arguments, _wanted(arguments)), arguments.outputs
    else:
        runs, to = run_folder.jobs_of(place), place
    if not any(run.complete for run in runs):
        raise ValueError(f"there is no finished run in {to}")
    with tempfile.TemporaryDirectory() as folder:
        figures = sweep_figures.all_figures(runs, Path(folder))
        print(sweep_table.write_page(runs, arguments.to or to / PAGE, figures))
    return 0


def _figures(arguments: argparse.Namespace) -> int:
    from omkl.report import figures, style, sweep_figures
    from omkl.runs.run_folder import FIGURES

    wanted = _wanted(arguments)
    x, y = (",".join(wanted.pop(key, [""])) for key in "xy")
    if y and not x:
        raise ValueError(f"y={y} needs an x: x=algorithm.M, say, or x=t for the rows")
    runs = [run for run in _runs(arguments, wanted) if run.complete]
    suffixes = ("png", "pdf") if arguments.pdf else ("png",)
    if x:
        name = f"{y or 'error'}_by_{x.replace('/', '.')}"
        drawn = sweep_figures.chosen_figure(runs, x, y)
        for path in style.save(drawn, arguments.outputs / FIGURES, name, suffixes):
            print(plain(str(path)))
        return 0
    failed = False
    for number, run in enumerate(runs, start=1):
        try:
            figures.write_figures(run, suffixes)
        except (ValueError, LookupError, TypeError, ArithmeticError, MemoryError) as error:
            failed = True
            why = f"cannot be drawn ({type(error).__name__}: {error})"
            warn(f"{run.folder} {why}", "omkl-report")
        else:
            width = len(str(len(runs)))
            print(plain(f"[{number:{width}}/{len(runs)}] {run.folder}"), flush=True)
    return EXIT_FAILED if failed else 0


def _rebuild(arguments: argparse.Namespace) -> int:
    from omkl.report import tracking

    n = tracking.rebuild(arguments.outputs)
    print(f"{tracking.uri(arguments.outputs)} has {pluralize(n, 'run')} again.")
    return 0


def _ui(arguments: argparse.Namespace) -> int:
    from omkl.report import tracking

    tracking.ui(arguments.outputs, port=arguments.port)
    return 0
