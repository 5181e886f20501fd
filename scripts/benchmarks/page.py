"""The whole bench as one page, with its explanation."""

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks import tables
from benchmarks.tables import Bench

HOW_TO_READ = """\
- **Measured / least.** The least time is that of the arithmetic alone: the sines, cosines and
  multiply-adds which a round cannot do without, each at the best speed that this machine showed
  for it in the same run, as if nothing else were to be done and nothing waited for anything.
  1 cannot be reached; what is above it is selection, weights, the sum of squares of the
  coefficients, loads and stores, and the ends of vectors (D = 50 is not a multiple of 8). The
  formula depends on what is known before a round, so ratios compare with the goal in their row and
  not between kinds. Where kernels are chosen, a round waits: for the frequencies of what was just
  chosen, from the second cache, for the sine of an argument, for the sum that is the output, for
  the loss that the next choice depends on. Frequencies of a kernel are 105 cache lines, and loading
  them from the second cache is not hidden behind the sines of the kernel before, wherever they are
  asked for.
- **2.1 (2.0 to 2.4).** Everything is repeated: the median, and the first and last decile of a
  learner's times, the smallest and largest of ratios to peers. A wide span means that the machine
  was busy with something else. Of a learner's calls those count before and after which a
  short work took at most a tenth longer than at best, where there are five of them. Exact
  learners take whole streams, in such calls: one that was disturbed counts as the median of
  the same part of other streams.
- **Exact kernels with few rows.** Where one classifier learns a row (SUA), each has nine rows of
  its own on average: two vectors of eight, half of them empty. With one row each, a round of SUA-O
  on a budget takes half as long: weights and a draw of 76 kernels, a vector of eight for each.
- **Recursive.** A row is taken in by F additions each of which waits for the one before, four
  cycles: with F = 100 a tenth of a round that has one matrix in the first cache. No formula has it.
- **Not in the least time.** GMOCP and SAMOCP keep the last scores of each kernel in order and take
  quantiles of them, and GMOCP draws its graph anew in every round. `auto` has trees and a ridge
  regression on 400 waves beside its recursive experts, which alone are counted.
- **Error** of float32: the largest change of a prediction in the first rounds. Its ratio is to the
  least time of float64. Where rounding tips the choice of kernels, it is as large as that choice.
- **Times omkl.** Peers and omkl take turns, and a ratio is of times in the same turn. Peers
  get the same rows and the same random frequencies, and their predictions are the same to
  1e-8 (`tests/benchmark/test_bench.py`), but for river's own sampler. A peer that is not
  installed says so. The line of omkl on all cores is the time a seed and round: 0.5 times is the
  best that two cores can do.
- **Exponent.** The slope of time against size in logarithms over the last decade of sizes: the
  power with which a round grows where fixed costs no longer weigh. A step above the stated power
  is where a model leaves a cache.
- **Growth.** Memory of the process in the third quarter of the time after its start-up, less that
  in the second. The steps at both ends of the plot are packages being loaded, at the end those
  that write the results."""


def page(bench: Bench, plots: str) -> str:
    """The sections that were measured; plots lie in the folder ``plots`` beside the page."""
    parts = [
        "# Performance",
        "One run of `make bench`. Only ratios mean anything on another machine; it prints all of\n"
        "this for yours. `outputs/bench/bench.json` has every number.",
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
    for section, written in PARTS.items():
        if section in bench:
            parts += [part.replace("PLOTS/", f"{plots}/") for part in written(bench)]
    return "\n\n".join(parts) + "\n"


def _plot(name: str, text: str) -> str:
    return f"![{text}](PLOTS/{name}.png)"


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
        _plot("limits", "measured time of a round over the least"),
    ]


def _federated(bench: Bench) -> list[str]:
    clients = bench["federated"][0]["clients"]
    return [
        "## A client's round in a federation",
        f"One thread for all of {clients} clients, 51 kernels, D as 1000 numbers a round "
        f"allow, the rows of {bench['setting']['rows']}. NumPy takes all clients of a round "
        "at once and makes the same predictions to 1e-8. Where every client sends every kernel, "
        "eight kernels are taken side by side: their D = 9 sines are nine whole vectors.",
        tables.federated_table(bench),
    ]


def _peers(bench: Bench) -> list[str]:
    found = bench["peers"]
    return [
        "## Peers",
        f"{_setting(found)}, the rows of {bench['setting']['rows']}: whole learners from the "
        f"first round on, {found['rounds']:,} rounds, selection included; median, smallest and "
        f"largest ratio of {found['turns']} turns. {tables.peer_versions(bench)}.",
        tables.peer_table(bench),
        _plot("peers", "time of a round over that of omkl"),
        "A kernel and round, against Raker's round over its N kernels "
        f"({found['rounds_of_libraries']:,} rounds). The second line of river is its own "
        "sampler, which takes every input by itself: other features, and d times as many.",
        tables.package_table(bench),
        tables.winners(bench),
    ]


def _sizes(bench: Bench) -> list[str]:
    return [
        "## Cost against sizes",
        _fixed(bench),
        tables.size_table(bench),
        _plot("sizes", "time of a round against N, D, d and M"),
    ]


def _streams(bench: Bench) -> list[str]:
    return [
        "## Long streams",
        "Both at the same time, a core each.",
        tables.stream_table(bench),
        _plot("memory", "memory over time"),
    ]


# In the order of the page.
PARTS: dict[str, Callable[[Bench], list[str]]] = {
    "limits": _limits,
    "learners": _learners,
    "federated": _federated,
    "peers": _peers,
    "startup": lambda bench: ["## Start-up", tables.startup(bench)],
    "sizes": _sizes,
    "streams": _streams,
    "seeds": lambda bench: ["## Many seeds", tables.seed_table(bench)],
    "jobs": lambda bench: ["## Many jobs", tables.job_table(bench)],
}


def _exact_rounds(bench: Bench) -> int:
    return max((r["rounds"] for r in bench["learners"] if "rounds" in r), default=0)


def _fixed(bench: Bench) -> str:
    seen: dict[str, str] = {}
    for curve in bench["sizes"]:
        others = ", ".join(f"{k} = {v}" for k, v in curve["fixed"].items())
        if len(others) >= len(seen.get(curve["letter"], "")):
            seen[curve["letter"]] = others
    text = "; ".join(f"{letter} varies with {others}" for letter, others in seen.items())
    return (
        "One thread, rounds past those in which graphs are drawn; start: seconds before the first "
        f"round of the largest, random features and graph. {text}."
    )
