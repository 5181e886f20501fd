"""One HTML file of a sweep, which needs nothing else: table, curves, settings, commands.

The curves are SVG, drawn by a script in the page; what they are under the mouse is read off.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from omkl.disk import write_atomically
from omkl.report import baselines, stars, style, sweep_columns, typed
from omkl.report.page import Code, Curves, Facts, Fold, Heading, Part, Text, html_page
from omkl.report.sweep_columns import Row
from omkl.report.sweep_table import sweep_table
from omkl.report.windows import windowed
from omkl.runs.run_folder import MSE, Run, measure

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
    legend = style.legend(runs)
    datasets = list(dict.fromkeys(run.result["dataset"] for run in runs))
    learners = list(dict.fromkeys(map(style.name_of, runs)))
    streams, looks = style.streams(runs), style.looks_of(runs, legend)
    members: dict[str, list[tuple[Run, str]]] = {}
    for run, entry, stream in zip(runs, legend, streams, strict=True):
        members.setdefault(stream, []).append((run, entry))
    parts = [*_table(sweep_table(runs)), *_failures(failures)]
    for stream, of_stream in members.items():
        parts += [Heading(stream), Curves(stream, _curves(of_stream, looks))]
    names = [" on ".join(names) for names in zip(legend, streams, strict=True)]
    parts += [*_settings(runs, names), *_commands(runs)]
    return html_page(f"{_some(learners)} on {_some(datasets)}", parts)


def _some(names: Sequence[str], most: int = 4) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _table(rows: Sequence[Row]) -> Iterator[Part]:
    yield sweep_columns.table(rows)
    notes = [f"Bold: {stars.meaning(rows, sweep_columns.short_names(rows))}."] if rows else []
    notes.append("± is the standard deviation over the seeds; seconds are of all seeds.")
    if comparators := sweep_columns.comparators_text(rows):
        notes.append(f"Regret is against {comparators}.")
    yield Text(" ".join(notes), note=True)


def _failures(failures: Sequence[Row]) -> Iterator[Part]:
    if failures:
        yield Heading("Not complete")
        yield Facts(
            [
                (
                    ", ".join(
                        [f"{row['algorithm']} on {row['dataset']}", *sweep_columns.pairs(row)]
                    ),
                    row["error"],
                )
                for row in failures
            ]
        )


def _curves(members: Sequence[tuple[Run, str]], looks: Mapping[str, Any]) -> dict[str, Any]:
    """What the script draws of the runs of a stream: the same lines seen in several ways."""
    first = members[0][0]
    kind = measure(first.result)
    views = [
        {
            "name": f"{kind.long} so far",
            "ylabel": f"{_short(kind)} of rounds 1..t",
            "log": True,
            "skip": SKIPPED,
            "lines": [*(_running(r, e, looks[e]) for r, e in members), *_baselines(members)],
        },
        {
            "name": "of windows",
            "ylabel": f"{_short(kind)} of a window",
            "log": True,
            "skip": 0,
            "lines": [_window(run, entry, looks[entry]) for run, entry in members],
        },
    ]
    regrets = [line for run, entry in members if (line := _regret(run, entry, looks[entry]))]
    if regrets:
        views.append({"name": "regret", "ylabel": "cumulative squared error above the comparator",
                      "log": False, "skip": 0, "lines": regrets})  # fmt: skip
    changes = {int(t) for run, _ in members for t in run.curves["change_rounds"]}
    return {"changes": sorted(changes), "views": views}


def _short(kind: Any) -> str:
    return "MSE" if kind is MSE else str(kind.long)


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


def _chosen(t: np.ndarray) -> np.ndarray:
    """Some of the recorded rounds, dense early and even later."""
    if len(t) <= N_POINTS:
        return np.arange(len(t))
    even = np.linspace(0, len(t) - 1, N_POINTS // 2).round().astype(int)
    early = np.searchsorted(t, np.geomspace(t[0], t[-1], N_POINTS // 2))
    return np.unique(np.concatenate([even, np.minimum(early, len(t) - 1)]))


def _running(run: Run, entry: str, looks: Mapping[str, Any]) -> dict[str, Any]:
    chosen = _chosen(run.curves["t"])
    values = run.curves[measure(run.result).key][:, chosen]
    return _line(entry, looks, run.curves["t"][chosen], values)


def _baselines(members: Sequence[tuple[Run, str]]) -> Iterator[dict[str, Any]]:
    for index, line in enumerate(baselines.lines([run for run, _ in members])):
        chosen = _chosen(line.t)
        dash = style.LINES[index % len(style.LINES)]
        looks = {"color": "#888888", "linestyle": dash, "linewidth": 1}
        yield _line(line.text, looks, line.t[chosen], line.values[chosen])


def _window(run: Run, entry: str, looks: Mapping[str, Any]) -> dict[str, Any]:
    found = windowed(run)
    return _line(entry, looks, found.edges[1:], found.loss)


def _regret(run: Run, entry: str, looks: Mapping[str, Any]) -> dict[str, Any] | None:
    """Against the first comparator that was computed, as in the table."""
    stated = run.result["regret"]
    name = next((n for n in stated if "mean" in stated[n] and f"regret_{n}" in run.curves), None)
    if name is None:
        return None
    chosen = _chosen(run.curves["t"])
    return _line(entry, looks, run.curves["t"][chosen], run.curves[f"regret_{name}"][:, chosen])


def _settings(runs: Sequence[Run], names: Sequence[str]) -> Iterator[Part]:
    """What all runs have in common, and of each what it has besides."""
    facts = [
        style.settings_of(run) | {f"algorithm.{k}": v for k, v in run.result["params"].items()}
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
    return Facts([(name, style.value_text(value)) for name, value in facts.items()])


def _commands(runs: Sequence[Run]) -> Iterator[Part]:
    yield Heading("Commands")
    note = "A line computes one run again. Folders and files are as they lay when this was written."
    yield Text(note, note=True)
    for run in runs:
        yield Code(typed.command(run))
