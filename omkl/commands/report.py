"""``omkl-report``: tables, figures and the MLflow view, from results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from omkl.commands.command_line import EXIT_FAILED, EXIT_INTERRUPTED, unknown_name
from omkl.conf import conf_folder


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
        from omkl.tracking import ui as user_interface

        return user_interface.ui(outputs, port=arguments.port)
    if arguments.command == "rebuild-tracking":
        from omkl.tracking import view

        n = view.rebuild(outputs)
        print(f"{n} runs are in {outputs / 'mlflow.db'} again.")
        return 0
    runs = list(find(outputs))
    if not runs:
        raise ValueError(f"there are no runs in {outputs / 'runs'}; omkl-run makes some")
    if arguments.command == "show":
        from omkl.report import sweep_table

        complete = [r for r in runs if r.complete]
        sweep_table.print_sweep(
            sweep_table.sweep_table(complete), sweep_table.failure_table(runs), Console()
        )
        return 0
    if arguments.command == "figures":
        from omkl.report import run_figures
        from omkl.reproduction import regret_figures

        for r in runs:
            if r.complete:
                run_figures.all_figures(r)
                regret_figures.regret_bound(r)
        return 0
    from omkl.reproduction import matching, page, tables
    from omkl.reproduction.formats import rendering

    if arguments.command == "page":
        files = sorted(
            (conf_folder() / "table").glob("*.yaml"), key=lambda p: tables.order_of(p.stem)
        )
        every = [tables.load_table(path) for path in files]
        print(page.build(every, outputs, arguments.to or outputs / "page", runs)[0])
        return 0
    filled = matching.fill(tables.load_table(_table_path(arguments.name)), runs)
    for path in rendering.render(filled, rendering.FORMATS, outputs / "tables"):
        print(path)
    return 0


def _table_path(name: str) -> Path:
    folder = conf_folder() / "table"
    path = folder / f"{name}.yaml"
    if not path.exists():
        raise ValueError(
            unknown_name(f"table {name}", name, [p.stem for p in folder.glob("*.yaml")])
        )
    return path
