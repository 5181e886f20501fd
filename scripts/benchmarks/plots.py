"""The plots of a bench."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks import peers
from benchmarks.tables import Bench, title
from omkl.report import style


def draw_all(bench: Bench, folder: Path) -> list[Path]:
    """Every plot that the sections measured allow."""
    drawn: dict[str, Callable[[Bench], Figure]] = {
        "learners": limit_plot,
        "peers": peer_plot,
        "sizes": size_plot,
        "streams": memory_plot,
    }
    names = {"learners": "limits", "streams": "memory"}
    found = []
    with style.applied():
        for key, draw in drawn.items():
            if key in bench:
                found += style.save(draw(bench), folder, names.get(key, key), style.PNG_AND_PDF)
    return found


def limit_plot(bench: Bench) -> Figure:
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
    left = min(row["ratio"][0] for row in rows)
    right = max(max(row["ratio"][0], row["goal"]) for row in rows)
    axes.set_xlim(0.9 * min(1.0, left), max(3.0, 1.25 * right))
    axes.set_xlabel("measured time of a round / least time")
    handles = [
        Line2D([], [], color=style.COLOURS[k], marker=style.MARKERS[k], label=kind)
        for k, kind in enumerate(kinds)
    ]
    handles.append(Line2D([], [], color=style.GREY, linewidth=1.6, label="goal"))
    figure.legend(handles=handles, loc="outside upper center", ncols=4)
    return figure


def peer_plot(bench: Bench) -> Figure:
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
    letters = list(dict.fromkeys(curve["letter"] for curve in bench["sizes"]))
    what = {
        "N": "kernels N",
        "D": "features per kernel D",
        "d": "inputs d",
        "M": "kernels per round M",
    }
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
