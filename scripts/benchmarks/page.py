"""The whole bench as one page, with its explanation."""

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks import tables
from benchmarks.tables import Bench

HOW_TO_READ = """\
- **Measured / least.** The least time is that of the arithmetic alone: the sines, cosines and
  multiply-adds which a row cannot do without. Each is taken at the best speed that this machine
  showed for it in the same run, with nothing else to do and nothing to wait for. 1 cannot be
  reached. The rest is selection, weights, the sum of squares of the coefficients, loads and
  stores, and the ends of vectors (D = 50 is not a multiple of 8). The formula depends on what is
  known before a row, so compare a ratio with the goal in its line, and not with other kinds.
- **Where kernels are chosen, a row waits.** It waits for the frequencies of the chosen kernels,
  from the second cache. It waits for the sine of an argument and for the sum that is the output.
  It waits for the loss that the next choice depends on. The frequencies of a kernel are 105 cache
  lines. Loading them from the second cache is not hidden behind the sines of the kernel before,
  wherever it begins.
- **2.1 (2.0 to 2.4).** Everything is repeated. Shown are the median and, of a learner's times, the
  first and last decile; of ratios to NumPy the smallest and largest. A wide range means
  that the machine was busy with something else. A call of a learner counts if a short task
  before and after it took at most a tenth longer than at best, where five such calls are there.
  Exact learners take whole streams in such calls. A disturbed call counts as the median of the
  same part of other streams.
- **Exact kernels with few rows.** In SUA one classifier learns per row, so each has nine rows of
  its own on average: two vectors of eight, half of them empty.
- **Recursive.** Each row is added by F additions, and each of them waits four cycles for the one
  before. With F = 100 that is a tenth of a row whose one matrix is in the first cache. The
  least time does not contain it.
- **Not in the least time.** `auto` has trees and a ridge regression on 400 random features beside
  its recursive experts, which alone are counted.
- **Times omkl.** NumPy and omkl take turns, and a ratio is of times in the same turn. Both get the
  same rows and the same random frequencies, and their predictions are the same to 1e-8
  (`tests/benchmarks/test_bench.py`).
- **Growth.** Memory of the process in the third quarter of the time after its start-up, minus that
  in the second."""


def page(bench: Bench, plots: str) -> str:
    """The sections that were measured; plots lie in the folder ``plots`` beside the page."""
    parts = [
        "# Performance",
        "One run of `make bench`. On another machine only the ratios are comparable; the command\n"
        "prints all of this for yours. `outputs/bench/bench.json` has every number.",
        tables.machine(bench),
    ]
    if bench["share_of_core"] < 0.9:
        parts.append(
            f"**The machine was busy**: the bench had {100 * bench['share_of_core']:.0f} % of a "
            "core while it measured learners, and its times are too long by as much or more."
        )
    if bench["quick"]:
        parts.append("**Quick values** (`--quick`): fewer repetitions and shorter streams.")
    parts += ["## How to read it", HOW_TO_READ]
    parts += [section(name, bench) for name in PARTS if name in bench]
    return "\n\n".join(parts).replace("PLOTS/", f"{plots}/") + "\n"


def section(name: str, bench: Bench) -> str:
    """What one section found, as it is printed while the bench runs too."""
    return "\n\n".join(PARTS[name](bench))


def _setting(part: Mapping[str, Any]) -> str:
    return f"N = {part['N']} kernels, D = {part['D']}, d = {part['d']}"


def _limits(bench: Bench) -> list[str]:
    return ["## What the machine can do", tables.limit_table(bench), tables.formulas()]


def _learners(bench: Bench) -> list[str]:
    return [
        "## Every algorithm beside its limit",
        f"One thread, {_setting(bench['setting'])}, the rows of {bench['setting']['rows']}; "
        f"exact kernels: the first {_exact_rounds(bench):,} rounds of a stream.",
        tables.learner_table(bench),
        "![measured time of a row over the least](PLOTS/limits.png)",
    ]


def _federated(bench: Bench) -> list[str]:
    clients = bench["federated"][0]["clients"]
    return [
        "## A client's round in a federation",
        f"One thread for all of {clients} clients, 51 kernels, D as 1000 numbers per round "
        f"allow, the rows of {bench['setting']['rows']}. Where every client sends every kernel, "
        "eight kernels are taken side by side: their D = 9 sines are nine whole vectors.",
        tables.federated_table(bench),
    ]


def _peers(bench: Bench) -> list[str]:
    found = bench["peers"]
    return [
        "## Beside NumPy",
        f"{_setting(found)}, {found['rounds']:,} rows of {bench['setting']['rows']}. Learners are "
        "whole: from the first row on, with selection. Median, smallest and largest ratio of "
        f"{found['turns']} turns. One thread each.",
        tables.peer_table(bench),
    ]


def _streams(bench: Bench) -> list[str]:
    return [
        "## Long streams",
        "One after the other.",
        tables.stream_table(bench),
    ]


# In the order of the page.
PARTS: dict[str, Callable[[Bench], list[str]]] = {
    "limits": _limits,
    "learners": _learners,
    "federated": _federated,
    "peers": _peers,
    "startup": lambda bench: ["## Start-up", f"```text\n{bench['startup']['table']}\n```"],
    "streams": _streams,
}


def _exact_rounds(bench: Bench) -> int:
    return max((r["rounds"] for r in bench["learners"] if "rounds" in r), default=0)
