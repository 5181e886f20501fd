"""Define the console scripts. Each script calls ``main`` of one module. ``omkl`` lists them."""

from __future__ import annotations

import functools
import importlib
import sys

COMMANDS = {
    "run": "run a learner on a file or a data set, or with -m many",
    "predict": "predict new rows with a model that a run kept",
    "report": "tables, figures and MLflow's pages of finished runs",
    "data": "list, describe and fetch data sets; write an example file",
    "check": "run the conformance suite on an algorithm of your own",
}
BEGIN = "Begin with: omkl-data example my.csv && omkl-run my.csv target=price"


def _run(name: str) -> None:
    """Run a command and end the process. The name "" lists the commands."""
    try:
        from omkl.commands import terminal  # imported here, where Ctrl-C is handled
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        sys.exit(130)
    program = f"omkl-{name}" if name else "omkl"
    terminal.command(program, lambda: _main_of(name) if name else _list())


def _main_of(name: str) -> int:
    status: int = importlib.import_module(f"omkl.commands.{name}").main()
    return status


def _list() -> int:
    from omkl.commands import terminal

    if sys.argv[1:2] == [terminal.VERSION]:
        print(terminal.VERSION_TEXT)
        return 0
    for name, text in COMMANDS.items():
        print(f"omkl-{name:9}{text}")
    print(f"\n{BEGIN}\nEach command answers --help.")
    asked = set(sys.argv[1:]) <= {"-h", "--help"}
    return 0 if asked else terminal.EXIT_USAGE


omkl = functools.partial(_run, "")
omkl_run = functools.partial(_run, "run")
omkl_predict = functools.partial(_run, "predict")
omkl_report = functools.partial(_run, "report")
omkl_data = functools.partial(_run, "data")
omkl_check = functools.partial(_run, "check")
