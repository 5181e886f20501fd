"""``omkl-data``: list, describe, fetch and verify data sets, and write an example file."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from omkl.commands import terminal
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
    """Run ``omkl-data`` with ``argv`` (without the program's name); returns the exit status."""
    arguments = _parser().parse_args(argv)
    return terminal.exit_status(
        "omkl-data", lambda: arguments.act(arguments), (DataError,), (KeyError,)
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
    add("fetch", _fetch, "download the files of data sets", "+")
    text = "compare the sha256 of every file that is found (or of the named ones)"
    add("verify", _verify, text, "*")
    example = terminal.add_command(commands, "example", _example, "write a CSV file to begin with")
    example.add_argument("file", type=Path, metavar="FILE", help="my.csv, say")
    return parser


def _chosen(names: Sequence[str]) -> Entries:
    return {name: catalogue.entry(name) for name in names} or catalogue.entries()


def _example(arguments: argparse.Namespace) -> int:
    """Write the example file. Refuse to replace another file."""
    path, content = arguments.file, (catalogue.BUNDLED / "example.csv").read_bytes()
    if path.exists() and path.read_bytes() != content:
        raise DataError(f"{path} exists and is another file: name a new one")
    path.write_bytes(content)
    print(plain(f"{path} has 400 simulated days. Predict their prices:"))
    print(plain(f"  omkl-run {path} target=price"))
    return 0


def _list(entries: Entries) -> int:
    from rich.console import Console
    from rich.text import Text

    from omkl.report.tables import Column, print_columns

    places = {name: _where(entry) for name, entry in entries.items()}
    folders = dict.fromkeys(place for place in places.values() if isinstance(place, Path))
    marks = {path: "here" if n == 1 else f"here ({n})" for n, path in enumerate(folders, 1)}
    body = [
        [
            name,
            _or_dash(entry.get("rows")),
            _or_dash(_n_inputs(entry)),
            _or_dash(entry.get("target")),
            marks[place] if isinstance(place := places[name], Path) else place,
            _brief(_or_dash(entry.get("licence"))),
        ]
        for name, entry in entries.items()
    ]
    names, rows, inputs, targets, where, licences = zip(*body, strict=True)
    columns = [
        Column("name", names, is_name=True),
        Column("rows", rows),
        Column("inputs", inputs, worth=3),
        Column("target", targets, is_name=True, worth=4),
        Column("where", where, is_name=True),
        Column("licence", licences, is_name=True, worth=1),
    ]
    console = Console()
    left_out = print_columns(columns, console)
    for path, mark in marks.items():
        console.print(Text(f"\n{mark}: {os.path.relpath(path)}"), soft_wrap=True)
    if left_out:
        console.print(f"\nHidden: {', '.join(left_out)}; omkl-data describe NAME shows them")
    return 0


def _describe(entries: Entries) -> int:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for number, (name, entry) in enumerate(entries.items()):
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        facts = _file_facts(entry) if "file" in entry else _settings(entry)
        for key, value in {"name": name, "title": entry.get("title"), **facts}.items():
            if value is not None:
                table.add_row(key, Text(str(value)))
        if number:
            console.print()
        console.print(table)
    return 0


def _settings(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Of data that are no file of the catalogue, what they are set to; the notes last."""
    settings = {key: "null" if value is None else value for key, value in entry.items()}
    notes = settings.pop("notes", None)
    return {key: v for key, v in settings.items() if key not in ("name", "title")} | {
        "notes": notes
    }


def _file_facts(entry: Mapping[str, Any]) -> dict[str, Any]:
    path = catalogue.locate(entry["file"])
    steps = [f"{step} {value}" for step, value in (entry.get("prepare") or {}).items()]
    if entry.get("missing", "error") != "error":
        steps.append(f"missing values: {entry['missing']}")
    return {
        "rows x inputs": f"{_or_dash(entry.get('rows'))} x {_or_dash(_n_inputs(entry))}",
        "inputs": entry.get("inputs") or "all other numeric columns",
        "target": entry.get("target"),
        "preparation": "; ".join(steps) or "none",
        "file": entry["file"],
        "found": "nowhere" if path is None else path,
        "sha256": entry.get("sha256") or "not known",
        "UCI": entry.get("uci"),
        "address": catalogue.address(entry),
        "to get it": f"omkl-data fetch {entry['name']}"
        if catalogue.downloadable(entry)
        else entry.get("by_hand"),
        "licence": entry.get("licence"),
        "citation": entry.get("citation"),
        "notes": entry.get("notes"),
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


def _verify(entries: Entries) -> int:
    status = 0
    seen: set[Path] = set()
    for name, entry in entries.items():
        path = catalogue.locate(entry["file"]) if "file" in entry else None
        if path is None or path in seen:
            continue
        seen.add(path)
        try:
            content = catalogue.verified(path, entry)
            verdict = "ok" if entry.get("sha256") else "sha256 not known,"
            print(f"{verdict} {content.sha256[:12]} {path}")
        except DataError as error:
            warn(error, "omkl-data")
            status = 1
        except OSError as error:
            warn(f"{name}: cannot read {path}: {error.strerror}", "omkl-data")
            status = 1
    if not seen:
        print("no data file was found: see omkl-data list")
    return status


def _where(entry: Mapping[str, Any]) -> str | Path:
    """The folder that the file was found in, or what there is in its place."""
    if "file" not in entry:
        return "your file" if "path" in entry else "made on the fly"
    path = catalogue.locate(entry["file"])
    if path is not None:
        return Path(str(path).removesuffix(entry["file"]))
    return "not here (fetch)" if catalogue.downloadable(entry) else "not here (by hand)"


def _n_inputs(entry: Mapping[str, Any]) -> int | None:
    return entry["inputs"] if "n_centres" in entry else count_inputs(entry.get("inputs"))


def _brief(text: str) -> str:
    """What stands before brackets; an ellipsis says that there were some."""
    before, bracket, _ = text.partition(" (")
    return f"{before}…" if bracket else before


def _or_dash(value: Any) -> str:
    return "-" if value is None else str(value)
