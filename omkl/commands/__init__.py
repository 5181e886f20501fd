"""Console scripts. Each runs ``main`` of the module of its name, and ``omkl`` lists them."""

from __future__ import annotations

import importlib
import sys
from functools import partial

from omkl.commands import terminal

COMMANDS = {
    "run": "run a learner on a file or a data set, or with -m many",
    "predict": "predict new rows with a model that a run kept",
    "report": "tables, figures and MLflow's pages of finished runs",
    "data": "list, describe and fetch data sets; write an example file",
    "check": "run the conformance suite on an algorithm of your own",
}
BEGIN = "Begin with: omkl-data example my.csv && omkl-run my.csv target=price"


def _main_of(name: str) -> int:
    status: int = importlib.import_module(f"omkl.commands.{name}").main()
    return status


def _list() -> int:
    if sys.argv[1:2] == [terminal.VERSION]:
        print(terminal.VERSION_TEXT)
        return 0
    for name, text in COMMANDS.items():
        print(f"omkl-{name:9}{text}")
    print(f"\n{BEGIN}\nEach command answers --help.")
    asked = set(sys.argv[1:]) <= {"-h", "--help"}
    return 0 if asked else terminal.EXIT_USAGE


omkl = partial(terminal.command, "omkl", _list)
omkl_run = partial(terminal.command, "omkl-run", partial(_main_of, "run"))
omkl_predict = partial(terminal.command, "omkl-predict", partial(_main_of, "predict"))
omkl_report = partial(terminal.command, "omkl-report", partial(_main_of, "report"))
omkl_data = partial(terminal.command, "omkl-data", partial(_main_of, "data"))
omkl_check = partial(terminal.command, "omkl-check", partial(_main_of, "check"))
