"""The sections of a bench as Markdown, and its plots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import limits, peers
from omkl.report import style
from omkl.report.text import markdown_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Bench = Mapping[str, Any]


# --- numbers -------------------------------------------------------------------------------------


def number(x: float) -> str:
    """Three digits, or all that stand before the point."""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def between(s: Sequence[float]) -> str:
    median, low, high = s
    return f"{number(median)} ({number(low)} to {number(high)})"


def verdict(value: float, goal: float | None, largest: bool) -> str:
    """The goal, and whether it is met."""
    if goal is None:
        return ""
    met = value <= goal if largest else value >= goal
    sign = "≤" if largest else "≥"
    return f"{sign} {number(goal)}: {'yes' if met else 'no'}"


def title(algorithm: str) -> str:
    return style.display_name(algorithm)


# --- sections ------------------------------------------------------------------------------------


def machine(bench: Bench) -> str:
    about = bench["machine"]
    caches = ", ".join(f"level {k}: {size >> 10:,} KiB" for k, size in bench["caches"].items())
    versions = ", ".join(f"{name} {v}" for name, v in bench["versions"].items())
    return "\n".join(
        [
            f"- Processor: {about['processor']}, {about['cores']} cores; {about['system']}.",
            f"- Caches: {caches}.",
            f"- Versions: {versions}.",
            f"- Commit {bench['commit'] or 'unknown'}, {bench['started']}, "
            f"{bench['seconds'] / 60:.1f} minutes" + (", quick." if bench["quick"] else "."),
        ]
    )


def limit_table(bench: Bench) -> str:
    found = bench["limits"]
    body = [
        ["s", "sine and cosine, polynomial alone", f"{found['sincos_ns']:.3f} ns"],
        ["e", "exponential and multiply-add", f"{found['exp_add_ns']:.3f} ns"],
        ["p", "multiply-add in registers (matrix product)", f"{found['peak_add_ns']:.4f} ns"],
        ["c", "multiply-add on cached data, y += a x", f"{found['cached_add_ns']:.4f} ns"],
    ]
    for level in found["read_add"]:
        what = f"multiply-add reading one operand from {level['from']}"
        body.append(["r", what, f"{level['ns']:.4f} ns"])
    body += [
        ["", "memory, copy", f"{found['copy_gb_s']:.1f} GB/s"],
        ["", "memory, a = b + c x", f"{found['triad_gb_s']:.1f} GB/s"],
    ]
    return markdown_table(["", "one thread", "measured"], body, left=2)


def formulas() -> str:
    """The least time of a round, as ``benchmarks.limits`` states it."""
    text = limits.__doc__ or ""
    return f"```text\n{text[text.index('The least time of a round') :].rstrip()}\n```"


def learner_table(bench: Bench) -> str:
    rows = bench["learners"]
    some_error = any("error" in row for row in rows)
    headings = ["algorithm", "kernels a round", "µs a round", "least", "measured / least", "goal"]
    headings += ["error"] if some_error else []
    body = []
    for row in rows:
        name = title(row["algorithm"])
        if row.get("precision", "float64") != "float64":
            name += f", {row['precision']}"
        if "missing" in row:
            body.append([name, row["missing"], *[""] * (len(headings) - 2)])
            continue
        line = [
            name,
            f"{row['work']['evaluated']:.3g} ({row['kind'].split()[0]})",
            number(row["round_us"][0]),
            number(row["least_us"]) + (" (memory)" if row["set_by"] == "memory" else ""),
            between(row["ratio"]),
            verdict(row["ratio"][0], row["goal"], largest=True),
        ]
        body.append(line + ([f"{row['error']:.1e}" if "error" in row else ""] * some_error))
    return markdown_table(headings, body, left=1)


def federated_table(bench: Bench) -> str:
    headings = ["algorithm", "D", "rows sent", "µs a client's round", "least", "measured / least"]
    body = [
        [
            title(row["algorithm"]),
            str(row["work"].get("D", "")),
            str(row["work"].get("learned", "")),
            number(row["round_us"][0]),
            number(row["least_us"]),
            between(row["ratio"]),
            verdict(row["ratio"][0], row["goal"], largest=True),
            number(row["numpy_us"][0]),
            between(row["times"]),
        ]
        for row in bench["federated"]
    ]
    return markdown_table([*headings, "goal", "NumPy, µs", "times omkl"], body, left=1)


def _peer_line(row: Mapping[str, Any], first: list[str]) -> list[str]:
    if "missing" in row:
        return [*first, row["peer"], row["missing"], "", ""]
    times = row["times"]
    faster = between(times) if row["peer"] != peers.OURS else ""
    goal = verdict(times[0], row["goal"], largest=False)
    if times[0] < 1.0 and not row["peer"].startswith("omkl"):
        goal = f"{goal}; the peer wins".removeprefix("; ")
    return [*first, row["peer"], number(row["round_us"][0]), faster, goal]


def peer_table(bench: Bench) -> str:
    found = bench["peers"]
    body = [_peer_line(row, [title(row["algorithm"])]) for row in found["learners"]]
    headings = ["algorithm", "", "µs a round", "times omkl", "goal"]
    return markdown_table(headings, body, left=2)


def package_table(bench: Bench) -> str:
    body = [_peer_line(row, []) for row in bench["peers"]["kernels"]]
    return markdown_table(["", "µs a kernel and round", "times omkl", "goal"], body, left=1)


def peer_versions(bench: Bench) -> str:
    return ", ".join(f"{name} {v}" for name, v in bench["peers"]["versions"].items())


def winners(bench: Bench) -> str:
    """One sentence on who beats omkl."""
    rows = [r for part in ("learners", "kernels") for r in bench["peers"][part]]
    ahead = [
        f"{r['peer']} on {title(r['algorithm'])}"
        for r in rows
        if "times" in r and not r["peer"].startswith("omkl") and r["times"][0] < 1.0
    ]
    return f"Faster than omkl: {', '.join(ahead)}." if ahead else "No peer was faster than omkl."


def size_table(bench: Bench) -> str:
    body = []
    for curve in bench["sizes"]:
        points = curve["points"]
        slope = curve["exponent"]
        last = points[-1]
        body.append(
            [
                curve["letter"],
                title(curve["algorithm"]),
                f"{points[0]['size']:,} to {last['size']:,}",
                number(points[0]["round_us"]),
                number(last["round_us"]),
                "" if slope is None else f"{slope:.2f}",
                number(last["start_s"]),
                curve["stated"].split(";")[0].removesuffix("."),
            ]
        )
    headings = ["", "algorithm", "sizes", "µs, first", "µs, last", "exponent", "start, s", "stated"]
    notes = [note for curve in bench["sizes"] for note in curve["notes"]]
    table = markdown_table(headings, body, left=3)
    return "\n\n".join(
        [table, *([f"Not measured: {'; '.join(dict.fromkeys(notes))}."] * bool(notes))]
    )


def stream_table(bench: Bench) -> str:
    body = [
        [
            row["source"],
            f"{row['rounds']:,}",
            number(row["seconds"]),
            number(row["round_us"]),
            number(row["peak_mb"]),
            "" if row["growth_mb"] is None else f"{row['growth_mb']:+.1f}",
        ]
        for row in bench["streams"]
    ]
    headings = ["rows", "rounds", "s, from prompt to end", "µs a round", "peak MB", "growth MB"]
    commands = "\n".join(f"    {row['command']}" for row in bench["streams"])
    return f"{markdown_table(headings, body, left=1)}\n\n{commands}"


def seed_table(bench: Bench) -> str:
    body = [
        [
            f"{row['seeds']:,}",
            number(row["seconds"]),
            number(row["seconds_of_rounds"]),
            number(row["round_us"]),
            number(row["peak_mb"]),
        ]
        for row in bench["seeds"]
    ]
    headings = ["seeds", "s, from prompt to end", "s, rounds", "µs a seed and round", "peak MB"]
    return f"{markdown_table(headings, body, left=0)}\n\n    {bench['seeds'][-1]['command']}"


def job_table(bench: Bench) -> str:
    body = []
    for row in bench["jobs"]:
        if "missing" in row:
            body.append([row["launcher"], f"{row['jobs']:,}", row["missing"], "", ""])
            continue
        goal = verdict(row["job_ms"], row["goal"], largest=True)
        line = [row["launcher"], f"{row['jobs']:,}", number(row["seconds"]), number(row["job_ms"])]
        body.append([*line, goal])
    commands = "\n".join(f"    {row['command']}" for row in bench["jobs"] if "command" in row)
    table = markdown_table(["launcher", "jobs", "s", "ms a job", "goal"], body, left=1)
    return f"{table}\n\n{commands}"


def startup(bench: Bench) -> str:
    return str(bench["startup"]["table"])


def section(name: str, bench: Bench) -> str:
    """What one section found, without its explanation, as it is printed while the bench runs."""
    return "\n\n".join(part(bench) for part in SECTIONS[name])


SECTIONS: dict[str, Sequence[Callable[[Bench], str]]] = {
    "limits": (limit_table,),
    "learners": (learner_table,),
    "federated": (federated_table,),
    "peers": (peer_table, package_table, winners),
    "startup": (startup,),
    "sizes": (size_table,),
    "streams": (stream_table,),
    "seeds": (seed_table,),
    "jobs": (job_table,),
}


# --- the page ------------------------------------------------------------------------------------


def page(bench: Bench, plots: str) -> str:
    """The whole bench with its explanation; plots lie in the folder ``plots`` beside it."""

    def plot(name: str, text: str) -> str:
        return f"![{text}]({plots}/{name}.png)"

    def setting(part: Mapping[str, Any]) -> str:
        return f"N = {part['N']} kernels, D = {part['D']}, d = {part['d']}"

    parts = [
        "# Performance",
        "One run of `make bench`. Only ratios mean anything on another machine; it prints all of\n"
        "this for yours. `outputs/bench/bench.json` has every number.",
        machine(bench),
    ]
    if bench["share_of_core"] < 0.9:
        parts.append(
            f"**The machine was busy**: the bench had {100 * bench['share_of_core']:.0f} % of a "
            "core while it measured learners, and its times are too long by as much or more."
        )
    if bench["quick"]:
        parts.append("**Quick values** (`--quick`): fewer repetitions and shorter streams.")
    parts += ["## How to read it", HOW_TO_READ]
    if "limits" in bench:
        parts += ["## What the machine can do", limit_table(bench), formulas()]
    if "learners" in bench:
        parts += [
            "## Every algorithm beside its limit",
            f"One thread, {setting(bench['setting'])}, the rows of {bench['setting']['rows']}; "
            f"exact kernels: the first {_exact_rounds(bench):,} rounds of a stream.",
            learner_table(bench),
            plot("limits", "measured time of a round over the least"),
        ]
    if "federated" in bench:
        clients = bench["federated"][0]["clients"]
        parts += [
            "## A client's round in a federation",
            f"One thread for all of {clients} clients, 51 kernels, D as 1000 numbers a round "
            f"allow, the rows of {bench['setting']['rows']}. NumPy takes all clients of a round "
            "at once and makes the same predictions to 1e-8. With D = 9 the sines of a kernel are "
            "a vector of eight and one number more, and what is done once a kernel, its weight "
            "among it, costs as much as its features.",
            federated_table(bench),
        ]
    if "peers" in bench:
        found = bench["peers"]
        parts += [
            "## Peers",
            f"{setting(found)}, the rows of {bench['setting']['rows']}: whole learners from the "
            f"first round on, {found['rounds']:,} rounds, selection included; median, smallest and "
            f"largest ratio of {found['turns']} turns. {peer_versions(bench)}.",
            peer_table(bench),
            plot("peers", "time of a round over that of omkl"),
            "A kernel and round, against Raker's round over its N kernels "
            f"({found['rounds_of_libraries']:,} rounds). The second line of river is its own "
            "sampler, which takes every input by itself: other features, and d times as many.",
            package_table(bench),
            winners(bench),
        ]
    if "startup" in bench:
        parts += ["## Start-up", startup(bench)]
    if "sizes" in bench:
        parts += [
            "## Cost against sizes",
            _fixed(bench),
            size_table(bench),
            plot("sizes", "time of a round against N, D, d and M"),
        ]
    if "streams" in bench:
        parts += [
            "## Long streams",
            "Both at the same time, a core each.",
            stream_table(bench),
            plot("memory", "memory over time"),
        ]
    if "seeds" in bench:
        parts += ["## Many seeds", seed_table(bench)]
    if "jobs" in bench:
        parts += ["## Many jobs", job_table(bench)]
    return "\n\n".join(parts) + "\n"


HOW_TO_READ = """\
- **Measured / least.** The least time is that of the arithmetic alone: the sines, cosines and
  multiply-adds which a round cannot do without, each at the best speed that this machine showed
  for it in the same run, as if nothing else were to be done and nothing waited for anything.
  1 cannot be reached; what is above it is selection, weights, the sum of squares of the
  coefficients, loads and stores, and the ends of vectors (D = 50 is not a multiple of 8). The
  formula depends on what is known before a round, so ratios compare with the goal in their row and
  not between kinds.
- **2.1 (2.0 to 2.4).** Everything is repeated: the median, and the first and last decile of a
  learner's times, the smallest and largest of ratios to peers. A wide span means that the machine
  was busy with something else.
- **Error** of float32: the largest change of a prediction in the first rounds. Its ratio is to the
  least time of float64. Where rounding tips the choice of kernels, it is as large as that choice.
- **Times omkl.** Peers and omkl take turns, and a ratio is of times in the same turn. Peers
  get the same rows and the same random frequencies, and their predictions are the same to
  1e-8 (`tests/benchmark/test_bench.py`), but for river's own sampler. JAX is compiled before the
  clock starts and may use all cores. A peer that is not installed says so. The line of omkl on
  all cores is the time a seed and round: 0.5 times is the best that two cores can do.
- **Exponent.** The slope of time against size in logarithms over the last decade of sizes: the
  power with which a round grows where fixed costs no longer weigh. A step above the stated power
  is where a model leaves a cache.
- **Growth.** Memory of the process in the third quarter of the time after its start-up, less that
  in the second. The steps at both ends of the plot are packages being loaded, at the end those
  that write the results."""


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


# --- plots ---------------------------------------------------------------------------------------


def plots(bench: Bench, folder: Path, suffixes: Sequence[str] = ("png", "pdf")) -> list[Path]:
    """Every plot that the sections measured allow."""
    drawn: dict[str, Callable[[Bench], Figure]] = {
        "learners": limit_plot,
        "peers": peer_plot,
        "sizes": size_plot,
        "streams": memory_plot,
    }
    names = {"learners": "limits", "peers": "peers", "sizes": "sizes", "streams": "memory"}
    found = []
    with style.applied():
        for key, draw in drawn.items():
            if key in bench:
                found += style.save(draw(bench), folder, names[key], suffixes)
    return found


def limit_plot(bench: Bench) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    rows = [row for row in bench["learners"] if "ratio" in row]
    figure = Figure(figsize=(6.4, 0.9 + 0.23 * len(rows)))
    axes = figure.subplots()
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    names = []
    for place, row in enumerate(rows):
        colour = style.COLOURS[kinds.index(row["kind"])]
        median, low, high = row["ratio"]
        axes.plot([low, high], [place, place], color=colour, linewidth=1.2, solid_capstyle="butt")
        axes.plot(median, place, style.MARKERS[kinds.index(row["kind"])], color=colour)
        axes.plot([row["goal"]] * 2, [place - 0.4, place + 0.4], color=style.GREY, linewidth=1.6)
        double = row.get("precision", "float64") == "float64"
        names.append(title(row["algorithm"]) + ("" if double else f", {row['precision']}"))
    axes.set_yticks(range(len(rows)), names)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    right = max(max(row["ratio"][0], row["goal"]) for row in rows)
    axes.set_xlim(1.0, max(3.0, 1.25 * right))
    axes.set_xlabel("measured time of a round / least time")
    handles = [
        Line2D([], [], color=style.COLOURS[k], marker=style.MARKERS[k], label=kind)
        for k, kind in enumerate(kinds)
    ]
    handles.append(Line2D([], [], color=style.GREY, linewidth=1.6, label="goal"))
    figure.legend(handles=handles, loc="outside upper center", ncols=4)
    return figure


def peer_plot(bench: Bench) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    rows = [r for r in bench["peers"]["learners"] if "times" in r and r["peer"] != peers.OURS]
    libraries = [r for r in bench["peers"]["kernels"] if "times" in r and r["peer"] != peers.OURS]
    groups: dict[str, list[Any]] = {}
    for row in rows:
        groups.setdefault(title(row["algorithm"]), []).append(row)
    if libraries:
        groups["one kernel"] = libraries
    kinds = list(dict.fromkeys(row["peer"] for group in groups.values() for row in group))
    n_lines = sum(len(group) + 1 for group in groups.values())
    figure = Figure(figsize=(6.8, 0.9 + 0.21 * n_lines))
    axes = figure.subplots()
    place, ticks, names = 0.0, [], []
    for group, members in groups.items():
        axes.text(-0.01, place, group, transform=axes.get_yaxis_transform(), ha="right",
                  va="center", fontweight="bold")  # fmt: skip
        for row in members:
            place += 1.0
            median, low, high = row["times"]
            looks = style.look(kinds.index(row["peer"]))
            axes.plot([low, high], [place, place], color=looks["color"], linewidth=1.2)
            axes.plot(median, place, looks["marker"], color=looks["color"])
            if row["goal"]:
                ends = [place - 0.4, place + 0.4]
                axes.plot([row["goal"]] * 2, ends, color=style.GREY, linewidth=1.6)
            ticks.append(place)
            names.append(row["peer"])
        place += 1.0
    axes.set_yticks(ticks, names)
    axes.set_ylim(place - 0.4, -0.8)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    values = [x for group in groups.values() for row in group for x in (*row["times"], row["goal"])]
    seen = [x for x in values if x]
    style.log_axis(axes.xaxis, min(0.3, 0.7 * min(seen)), 1.6 * max(seen))
    axes.axvline(1.0, color=style.GREY, linewidth=0.8, linestyle=(0, (4, 2)))
    axes.set_xlabel("time of a round / that of omkl on one thread")
    axes.text(1.15, -0.4, "slower than omkl", color=style.GREY, fontsize=8, va="center")
    goal = Line2D([], [], color=style.GREY, linewidth=1.6, label="goal")
    axes.legend(handles=[goal], loc="lower left")
    return figure


def size_plot(bench: Bench) -> Figure:
    from matplotlib.figure import Figure

    letters = list(dict.fromkeys(curve["letter"] for curve in bench["sizes"]))
    what = {"N": "kernels N", "D": "features a kernel D", "d": "inputs d", "M": "kernels a round M"}
    figure = Figure(figsize=(7.0, 5.6))
    grid = figure.subplots(2, 2)
    algorithms = list(dict.fromkeys(curve["algorithm"] for curve in bench["sizes"]))
    for axes, letter in zip(grid.flat, letters, strict=True):
        curves = [curve for curve in bench["sizes"] if curve["letter"] == letter]
        for curve in curves:
            x = [p["size"] for p in curve["points"]]
            us = [p["round_us"] for p in curve["points"]]
            slope = curve["exponent"]
            label = title(curve["algorithm"]) + ("" if slope is None else f", {slope:.2f}")
            axes.plot(x, us, label=label, **style.look(algorithms.index(curve["algorithm"])))
        every = [p for curve in curves for p in curve["points"]]
        low, high = min(p["round_us"] for p in every), max(p["round_us"] for p in every)
        style.log_axis(axes.xaxis, 0.8 * min(p["size"] for p in every),
                       1.25 * max(p["size"] for p in every))  # fmt: skip
        style.log_axis(axes.yaxis, 0.6 * low, 2.0 * high * (high / low) ** 0.4)  # room above
        axes.set_xlabel(what[letter])
        axes.set_ylabel("µs a round")
        axes.legend(loc="upper left", title="exponent over the last decade", title_fontsize=8)
    return figure


def memory_plot(bench: Bench) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.0))
    axes = figure.subplots()
    top = 0.0
    for k, row in enumerate(bench["streams"]):
        seconds = [t for t, _ in row["memory"]]
        megabytes = [b / 1e6 for _, b in row["memory"]]
        top = max(top, *megabytes)
        looks = style.look(k) | {"marker": ""}
        axes.plot(seconds, megabytes, label=f"{row['rounds']:,} rows, {row['source']}", **looks)
    axes.set_ylim(0.0, 1.3 * top)
    axes.set_xlim(left=0.0)
    axes.set_xlabel("seconds since omkl-run was typed")
    axes.set_ylabel("memory of the process, MB")
    axes.legend(loc="lower right")
    return figure
