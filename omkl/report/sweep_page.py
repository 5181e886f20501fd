"""One HTML file of a sweep, which needs nothing else: table, curves, settings, commands.

The curves are SVG, drawn by a script in the page; what they are under the mouse is read off.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl.report import naming, stats, style, sweep_table
from omkl.report.page import Code, Curves, Facts, Fold, Heading, Part, Text, html_page
from omkl.report.sweep_table import Row
from omkl.runs.run_folder import MSE, Run, measure
from omkl.utils.disk import write_atomically

N_POINTS = 240  # of a curve
DIGITS = 4
SKIPPED = 0.005  # share of the rounds whose means are of a handful: they set no scale


def write(runs: Sequence[Run], path: Path, failures: Sequence[Row] = ()) -> Path:
    """Write the page of complete runs to ``path``; ``failures`` are rows of ``failure_table``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, html(runs, failures))
    return path


def html(runs: Sequence[Run], failures: Sequence[Row] = ()) -> str:
    runs = [run for run in runs if run.complete]
    legend, streams = naming.legend(runs), naming.streams(runs)
    looks = style.looks_of(legend)
    members: dict[str, list[Member]] = {}
    for run, entry, stream in zip(runs, legend, streams, strict=True):
        members.setdefault(stream, []).append(Member(run, str(entry), looks[entry]))
    parts = list(_table(sweep_table.sweep_table(runs)))
    if failures:
        facts = [(sweep_table.described(row), row["error"]) for row in failures]
        parts += [Heading("Not complete"), Facts(facts)]
    for stream, of_stream in members.items():
        parts += [Heading(stream), Curves(stream, _curves(of_stream))]
    names = [f"{entry} on {stream}" for entry, stream in zip(legend, streams, strict=True)]
    parts += [*_settings(runs, names), *_commands(runs)]
    learners = list(dict.fromkeys(map(naming.name_of, runs)))
    datasets = list(dict.fromkeys(run.result["dataset"] for run in runs))
    return html_page(f"{naming.some(learners, 4)} on {naming.some(datasets, 4)}", parts)


class Member(NamedTuple):
    """A run of a stream, and its entry and look in the chart."""

    run: Run
    entry: str
    looks: Mapping[str, Any]


def _table(rows: Sequence[Row]) -> Iterator[Part]:
    yield sweep_table.table(rows)
    notes = [f"Bold: {stats.meaning(rows, sweep_table.short_names(rows))}."] if rows else []
    notes.append("± is the standard deviation over the seeds; seconds are of all seeds.")
    if comparators := sweep_table.comparators_text(rows):
        notes.append(f"Regret is against {comparators}.")
    yield Text(" ".join(notes), note=True)


def _curves(members: Sequence[Member]) -> dict[str, Any]:
    """What the script draws of the runs of a stream: the same lines seen in several ways."""
    kind = measure(members[0].run.result)
    short = "MSE" if kind is MSE else kind.long
    baselines = _baselines([member.run for member in members])
    views = [
        (f"{kind.long} so far", f"{short} of rounds 1..t", True, SKIPPED,
         [*map(_running, members), *baselines]),
        ("of windows", f"{short} of a window", True, 0, [*map(_window, members)]),
    ]  # fmt: skip
    if regrets := [line for member in members if (line := _regret(member))]:
        ylabel = "cumulative squared error above the comparator"
        views.append(("regret", ylabel, False, 0, regrets))
    changes = {int(t) for member in members for t in member.run.curves["change_rounds"]}
    names = ("name", "ylabel", "log", "skip", "lines")
    return {
        "changes": sorted(changes),
        "views": [dict(zip(names, view, strict=True)) for view in views],
    }


def _line(name: str, looks: Mapping[str, Any], t: np.ndarray, values: np.ndarray) -> dict[str, Any]:
    """A line of the script: values (R, P) at rounds t (P,), their mean and deviation."""
    values = np.atleast_2d(values)
    std = values.std(axis=0, ddof=1) if len(values) > 1 else None
    colour = str(looks["color"])
    return {
        "name": name,
        "colour": "var(--black)" if colour == "#000000" else colour,
        "dash": _dashes(looks["linestyle"]),
        "width": looks.get("linewidth", 1.8),
        "t": t.tolist(),
        "y": _brief(values.mean(axis=0)),
        "s": None if std is None else _brief(std),
    }


def _dashes(linestyle: Any) -> str:
    return "" if isinstance(linestyle, str) else " ".join(f"{2 * part:g}" for part in linestyle[1])


def _brief(values: np.ndarray) -> list[float | None]:
    return [float(f"{v:.{DIGITS}g}") if math.isfinite(v) else None for v in values.tolist()]


def _running(member: Member) -> dict[str, Any]:
    curves = member.run.curves
    drawn = style.drawn_rounds(curves["t"], limit=N_POINTS)
    values = curves[measure(member.run.result).key][:, drawn]
    return _line(member.entry, member.looks, curves["t"][drawn], values)


def _baselines(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    for index, line in enumerate(stats.baseline_lines(runs)):
        drawn = style.drawn_rounds(line.t, limit=N_POINTS)
        dash = style.LINES[index % len(style.LINES)]
        looks = {"color": "#888888", "linestyle": dash, "linewidth": 1}
        yield _line(line.text, looks, line.t[drawn], line.values[drawn])


def _window(member: Member) -> dict[str, Any]:
    windows = stats.windowed(member.run)
    return _line(member.entry, member.looks, windows.edges[1:], windows.loss)


def _regret(member: Member) -> dict[str, Any] | None:
    """Against the first comparator that was computed, as in the table."""
    stated, curves = member.run.result["regret"], member.run.curves
    name = next((n for n in stated if "mean" in stated[n] and f"regret_{n}" in curves), None)
    if name is None:
        return None
    drawn = style.drawn_rounds(curves["t"], limit=N_POINTS)
    return _line(member.entry, member.looks, curves["t"][drawn], curves[f"regret_{name}"][:, drawn])


def _settings(runs: Sequence[Run], names: Sequence[str]) -> Iterator[Part]:
    """What all runs have in common, and of each what it has besides."""
    facts = [
        naming.settings_of(run) | {f"algorithm.{k}": v for k, v in run.result["params"].items()}
        for run in runs
    ]
    common = {
        name: value
        for name, value in facts[0].items()
        if all(name in of_run and of_run[name] == value for of_run in facts)
    }
    yield Heading("Settings")
    yield _facts(common)
    for run, name, of_run in zip(runs, names, facts, strict=True):
        more = {name: value for name, value in of_run.items() if name not in common}
        more |= {"computed": f"{run.result['started']}, at commit {run.result['commit']}"}
        files = run.result.get("stream", {}).get("files", ())
        more |= {f"sha256 of {file['name']}": file["sha256"] for file in files if "name" in file}
        yield Fold(name, [_facts(more)])


def _facts(facts: Mapping[str, Any]) -> Facts:
    return Facts([(name, naming.value_text(value)) for name, value in facts.items()])


def _commands(runs: Sequence[Run]) -> Iterator[Part]:
    yield Heading("Commands")
    note = "A line computes one run again. Folders and files are as they lay when this was written."
    yield Text(note, note=True)
    for run in runs:
        yield Code(naming.command(run))
