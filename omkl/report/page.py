"""One HTML file of a sweep, which needs nothing else: table, curves, settings, commands.

The curves are SVG, drawn by a script in the page; what they are under the mouse is read off.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from omkl.disk import write_atomically
from omkl.report import baselines, stars, style, sweep_columns, typed
from omkl.report.page_script import CSS, SCRIPT
from omkl.report.sweep_columns import Row, is_baseline
from omkl.report.sweep_table import sweep_table
from omkl.report.windows import windowed
from omkl.runs.folder import MSE, Run, measure

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
    title = f"{_some(learners)} on {_some(datasets)}"
    streams, looks = style.streams(runs), style.looks_of(runs, legend)
    members: dict[str, list[tuple[Run, str]]] = {}
    for run, entry, stream in zip(runs, legend, streams, strict=True):
        members.setdefault(stream, []).append((run, entry))
    curves = {stream: _curves(found, looks) for stream, found in members.items()}
    data = json.dumps(curves, separators=(",", ":")).replace("<", "\\u003c")
    charts = [
        f"<h2>{escape(name)}</h2><div data-set='{escape(name, quote=True)}'></div>"
        for name in curves
    ]
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{CSS}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        *_table(sweep_table(runs)),
        *_failures(failures),
        *charts,
        *_settings(runs, [" on ".join(names) for names in zip(legend, streams, strict=True)]),
        *_commands(runs),
        f'<script type="application/json" id="curves">{data}</script>',
        f"<script>{SCRIPT}</script></body></html>",
        "",
    ]
    return "\n".join(parts)


def _some(names: Sequence[str], most: int = 4) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _table(rows: Sequence[Row]) -> Iterator[str]:
    shown = sweep_columns.columns_of(rows)
    looks = ["" if column.right else ' class="name"' for column in shown]
    head = "".join(
        f"<th{look}>{escape(column.heading)}</th>"
        for column, look in zip(shown, looks, strict=True)
    )
    yield f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>'
    for place, row in enumerate(rows):
        last = place + 1 == len(rows) or rows[place + 1]["dataset"] != row["dataset"]
        kinds = {"best": row["best"], "baseline": is_baseline(row), "last": last}
        classes = " ".join(name for name, holds in kinds.items() if holds)
        cells = "".join(
            f"<td{look}>{escape(column.cells[place])}</td>"
            for column, look in zip(shown, looks, strict=True)
        )
        yield f'<tr class="{classes}">{cells}</tr>'
    yield "</tbody></table></div>"
    notes = [f"Bold: {stars.meaning(rows, sweep_columns.short_names(rows))}."] if rows else []
    notes.append("± is the standard deviation over the seeds; seconds are of all seeds.")
    if comparators := sweep_columns.comparators_text(rows):
        notes.append(f"Regret is against {comparators}.")
    yield f'<p class="note">{escape(" ".join(notes))}</p>'


def _failures(failures: Sequence[Row]) -> Iterator[str]:
    if failures:
        yield "<h2>Not complete</h2><dl>"
        for row in failures:
            what = ", ".join([f"{row['algorithm']} on {row['dataset']}", *sweep_columns.pairs(row)])
            yield f"<dt>{escape(what)}</dt><dd>{escape(row['error'])}</dd>"
        yield "</dl>"


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


def _settings(runs: Sequence[Run], names: Sequence[str]) -> Iterator[str]:
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
    yield "<h2>Settings</h2>"
    yield _facts(common)
    for run, name, of_run in zip(runs, names, facts, strict=True):
        own = {name: value for name, value in of_run.items() if name not in common}
        own |= {"computed": f"{run.result['started']}, at commit {run.result['commit']}"}
        files = run.result.get("stream", {}).get("files", ())
        own |= {f"sha256 of {file['name']}": file["sha256"] for file in files if "name" in file}
        yield f"<details><summary>{escape(name)}</summary>{_facts(own)}</details>"


def _facts(facts: Mapping[str, Any]) -> str:
    items = (
        f"<dt>{escape(name)}</dt><dd>{escape(style.value_text(value))}</dd>"
        for name, value in facts.items()
    )
    return f"<dl>{''.join(items)}</dl>"


def _commands(runs: Sequence[Run]) -> Iterator[str]:
    yield "<h2>Commands</h2>"
    note = "A line computes one run again. Folders and files are as they lay when this was written."
    yield f'<p class="note">{note}</p>'
    for run in runs:
        yield f"<pre>{escape(typed.command(run))}</pre>"
