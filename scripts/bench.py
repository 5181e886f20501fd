"""Measure the streaming core: against this machine's limit, against NumPy, and over long streams.

    python scripts/bench.py [--quick] [--only SECTION ...] [--docs DOCS]

Prints every table as it is measured and writes bench.json, bench.md and a plot. The sections:

limits    throughput of what a round is made of: the least time that it could take
learners  every algorithm beside that least time
federated a client's round of every federated learner, beside it
peers     a round of four learners beside NumPy
startup   from the shell prompt to the last line
streams   100 million generated rows, 10 million from Parquet: time and memory
"""

import argparse
import datetime
import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import startup
from benchmarks import (
    federated,
    learners,
    limits,
    long_streams,
    page,
    peers,
    plots,
    setting,
)

from omkl.runs import provenance


class Extent(NamedTuple):
    """How much to measure; the second is ``--quick``."""

    seconds: float  # for each measurement of a learner or of the machine
    turns: int  # of omkl and NumPy
    rounds: int  # a turn
    generated: int
    from_parquet: int


FULL = Extent(0.5, 5, 2000, 100_000_000, 10_000_000)
QUICK = Extent(0.2, 3, 500, 10_000_000, 1_000_000)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="smaller and shorter: two minutes")
    parser.add_argument("--only", nargs="+", choices=page.PARTS, help="these sections alone")
    parser.add_argument("--outputs", type=Path, default=Path("outputs/bench"))
    parser.add_argument("--docs", type=Path, help="also write performance.md and its plot here")
    given = parser.parse_args(arguments)
    wanted = given.only or list(page.PARTS)
    bench = measure(wanted, QUICK if given.quick else FULL)
    bench["quick"] = given.quick
    write(bench, given.outputs, given.docs)
    return 0


def measure(wanted: list[str], extent: Extent) -> dict[str, Any]:
    """Every wanted section, printed when it is done."""
    start = time.perf_counter()
    rows = setting.rows(max(extent.rounds, learners.EXACT_ROUNDS))
    bench = described(rows)
    if {"learners", "federated"} & set(wanted) and "limits" not in wanted:
        wanted = ["limits", *wanted]
    for name, make in sections(rows, extent, bench).items():
        if name not in wanted:
            continue
        bench[name] = make()
        elapsed = time.perf_counter() - start
        print(f"\n## {name} ({elapsed:.0f} s)\n\n{page.section(name, bench)}", flush=True)
    bench["seconds"] = time.perf_counter() - start
    return bench


def described(rows: setting.Rows) -> dict[str, Any]:
    """The machine, the versions and the setting: what a bench has before its sections."""
    return {
        "machine": provenance.machine(),
        "caches": limits.caches(),
        "versions": provenance.versions(),
        "commit": provenance.commit(),
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "share_of_core": 1.0,  # until learners are measured
        "setting": {
            "rows": rows.source,
            "N": len(setting.kernels()),
            "D": setting.D,
            "d": rows.X.shape[1],
        },
    }


def sections(
    rows: setting.Rows, extent: Extent, bench: dict[str, Any]
) -> dict[str, Callable[[], Any]]:
    """What measures each section, in the order in which they are measured."""

    def of_learners() -> Any:
        before = time.process_time(), time.perf_counter()
        found = learners.measure(rows, extent.seconds)
        share = (time.process_time() - before[0]) / (time.perf_counter() - before[1])
        bench["share_of_core"] = share
        # Before and after: a busy moment must not make the machine look slower than it is.
        bench["limits"] = limits.better(bench["limits"], limits.measure(extent.seconds))
        return learners.beside(found, bench["limits"])

    def of_federations() -> Any:
        found = federated.measure(rows, extent.seconds)
        return learners.beside(found, bench["limits"])

    return {
        "limits": lambda: limits.measure(extent.seconds),
        "learners": of_learners,
        "federated": of_federations,
        "peers": lambda: peers.measure(rows, extent.turns, extent.rounds, extent.seconds / 10),
        "startup": lambda: {"table": startup.table(startup.measure())},
        "streams": lambda: long_streams.measure(extent.generated, extent.from_parquet),
    }


def write(bench: dict[str, Any], outputs: Path, docs: Path | None) -> None:
    outputs.mkdir(parents=True, exist_ok=True)
    (outputs / "bench.json").write_text(json.dumps(bench, indent=1) + "\n")
    drawn = plots.draw(bench, outputs)
    (outputs / "bench.md").write_text(page.page(bench, "."))
    print(f"\n{outputs}/bench.json, bench.md and plot, {bench['seconds']:.0f} s")
    if docs:
        (docs / "performance").mkdir(exist_ok=True)
        for picture in drawn:
            shutil.copy(picture, docs / "performance")
        (docs / "performance.md").write_text(page.page(bench, "performance"))
        print(docs / "performance.md")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
