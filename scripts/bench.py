"""Measure the compiled core in relation to the limit of this machine.

    python scripts/bench.py [--quick] [--only SECTION ...]

Prints each table as it is measured and writes bench.json. The sections:

limits     throughput of the operations of a round, and the least time of a round that follows
learners   time of every algorithm, and its least time
federated  time of a client's round of every federated learner, and its least time
runs       time of a row in whole runs of each kind, and in their learner alone
"""

import argparse
import datetime
import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import federated, learners, limits, runs, setting, tables

from omkl.runs import provenance

SECTIONS = {
    "limits": tables.limit_table,
    "learners": tables.learner_table,
    "federated": tables.federated_table,
    "runs": tables.run_table,
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="shorter measurements: three minutes")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--outputs", type=Path, default=Path("outputs/bench"))
    given = parser.parse_args(arguments)
    bench = measure(given.only, 0.2 if given.quick else 0.5)
    given.outputs.mkdir(parents=True, exist_ok=True)
    path = given.outputs / "bench.json"
    path.write_text(json.dumps(bench, indent=1) + "\n")
    print(f"\n{tables.machine(bench)}\n{path}")
    return 0


def measure(wanted: list[str], seconds: float) -> dict[str, Any]:
    """Measure the wanted sections, each learner for ``seconds``, and print them."""
    start = time.perf_counter()
    rows = setting.rows(learners.EXACT_ROUNDS)
    bench: dict[str, Any] = {
        "machine": provenance.machine(),
        "caches": limits.caches(),
        "versions": provenance.versions(),
        "commit": provenance.commit(),
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "limits": limits.measure(seconds),
    }
    if "learners" in wanted:
        found = learners.measure(rows, seconds)
        # Twice: a busy moment must not make the machine look slower than it is.
        bench["limits"] = limits.better(bench["limits"], limits.measure(seconds))
        bench["learners"] = learners.beside(found, bench["limits"])
    if "federated" in wanted:
        found = federated.measure(rows, seconds)
        bench["federated"] = learners.beside(found, bench["limits"])
    if "runs" in wanted:
        bench["runs"] = runs.measure()
    for name in wanted:
        print(f"\n## {name}\n\n{SECTIONS[name](bench)}", flush=True)
    bench["seconds"] = time.perf_counter() - start
    return bench


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
