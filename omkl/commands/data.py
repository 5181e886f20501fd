"""``omkl-data``: list, describe and fetch data sets, and write an example file."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from omkl.commands import terminal
from omkl.config.overrides import UsageError
from omkl.datasets import catalogue
from omkl.datasets.base import DataError
from omkl.datasets.columns import count_inputs
from omkl.utils.wording import plain, warn

Entries = Mapping[str, Mapping[str, Any]]
EPILOG = """\
Files are looked for in OMKL_DATA_DIR (when set), in data/ of the project and in shared/data
beside it, then among those that come with omkl; downloads go to the first of these.
  OMKL_UCI_URL=URL   a mirror in place of https://archive.ics.uci.edu
  OMKL_OFFLINE=1     forbid downloads

exit status: 0 all well, 1 something is missing or damaged, 2 wrong usage
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``omkl-data`` with ``argv`` (without the program's name). Return the exit status."""
    arguments = _parser().parse_args(argv)
    return terminal.exit_status(
        "omkl-data", lambda: arguments.act(arguments), (DataError,), (UsageError,)
    )


def _parser() -> argparse.ArgumentParser:
    parser = terminal.parser("omkl-data", "Data sets of omkl, and an example file.", EPILOG)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, act: Callable[[Entries], int], text: str, nargs: str | None = None) -> None:
        def act_on_entries(arguments: argparse.Namespace) -> int:
            return act(_chosen(arguments.names))

        command = terminal.add_command(commands, name, act_on_entries, text)
        command.set_defaults(names=[])
        if nargs:
            command.add_argument("names", nargs=nargs, metavar="NAME")

    add("list", _list, "all data sets and where their files are")
    add("describe", _describe, "everything about one or more data sets", "+")
    add("fetch", _fetch, "download the files of data sets, or compare their sha256", "+")
    example = terminal.add_command(commands, "example", _example, "write a CSV file to begin with")
    example.add_argument("file", type=Path, metavar="FILE", help="my.csv, say")
    return parser


def _chosen(names: Sequence[str]) -> Entries:
    try:
        return {name: catalogue.entry(name) for name in names} or catalogue.entries()
    except KeyError as error:
        raise UsageError(error.args[0]) from error


def _example(arguments: argparse.Namespace) -> int:
    """Write the example file, unless another file has its name."""
    path, content = arguments.file, (catalogue.BUNDLED / "example.csv").read_bytes()
    if path.exists() and path.read_bytes() != content:
        raise DataError(f"{path} exists and is another file: name a new one")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    print(plain(f"{path} has 400 simulated days. Predict their prices:"))
    print(plain(f"  omkl-run {path} target=price"))
    return 0


def _list(entries: Entries) -> int:
    from rich.console import Console

    from omkl.report.tables import Column, print_columns

    def column(title: str, value: Callable[[Mapping[str, Any]], Any], **options: Any) -> Column:
        cells = [value(entry) for entry in entries.values()]
        return Column(title, ["-" if cell is None else str(cell) for cell in cells], **options)

    columns = [
        column("name", lambda entry: entry["name"], is_name=True),
        column("rows", lambda entry: entry.get("rows")),
        column("inputs", _n_inputs, worth=3),
        column("target", lambda entry: entry.get("target"), is_name=True, worth=4),
        column("where", _where, is_name=True),
        column("licence", _licence, is_name=True, worth=1),
    ]
    console = Console()
    if left_out := print_columns(columns, console):
        console.print(f"\nHidden: {', '.join(left_out)}; omkl-data describe NAME shows them")
    return 0


def _describe(entries: Entries) -> int:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    for entry in entries.values():
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for key, value in {**entry, **(_file_facts(entry) if "file" in entry else {})}.items():
            if value is not None:
                table.add_row(key, Text(str(value)))
        Console().print(table, "")
    return 0


def _file_facts(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return size, path and download address of a data set's file, and the way to get the file."""
    cure = entry.get("by_hand")
    if catalogue.downloadable(entry):
        cure = f"omkl-data fetch {entry['name']}"
    return {
        "rows x inputs": f"{entry.get('rows', '-')} x {_n_inputs(entry) or '-'}",
        "found": catalogue.locate(entry["file"]) or "nowhere",
        "address": catalogue.address(entry),
        "to get it": cure,
    }


def _fetch(entries: Entries) -> int:
    status = 0
    for name, entry in entries.items():
        if "file" not in entry:
            print(f"{name}: needs no download")
            continue
        try:
            path = catalogue.locate(entry["file"])
            if path is not None:
                catalogue.verified(path, entry)
                print(f"{name}: already there, {path}")
            else:
                if catalogue.downloadable(entry):
                    print(f"{name}: downloading {catalogue.address(entry)}", flush=True)
                print(f"{name}: wrote {catalogue.fetch(entry).path}")
        except DataError as error:
            warn(error, "omkl-data")
            status = 1
    return status


def _where(entry: Mapping[str, Any]) -> str:
    """Return where the rows of a data set come from, as text for a table."""
    if "file" not in entry:
        return "your file" if "path" in entry else "made on the fly"
    if catalogue.locate(entry["file"]) is not None:
        return "here"
    return "not here (fetch)" if catalogue.downloadable(entry) else "not here (by hand)"


def _licence(entry: Mapping[str, Any]) -> str | None:
    """Return the licence. An ellipsis replaces the text from the first bracket on."""
    return entry.get("licence") and re.sub(r" \(.*", "…", entry["licence"])


def _n_inputs(entry: Mapping[str, Any]) -> int | None:
    return entry["inputs"] if "n_centres" in entry else count_inputs(entry.get("inputs"))
