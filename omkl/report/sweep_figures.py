"""Draw figures of several runs: running errors, and a metric as a function of a setting or metric.

Colours distinguish algorithms, and line styles distinguish settings. ``Panels`` map the title of a
panel to a function that draws the panel into Axes.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from omkl.report import naming, style
from omkl.report.frame import NUMBERS, frame_of, settings_in
from omkl.report.naming import Entry
from omkl.runs.run_folder import ERROR_RATE, MSE, Run, measure
from omkl.utils import registry
from omkl.utils.constraints import no_such
from omkl.utils.wording import over_seeds

Panels = Mapping[str, Callable[[Axes], None]]

ROWS = "t"
LABELS = {
    "mse": "MSE", "error_rate": "error rate", "rmse": "RMSE", "mae": "MAE", "r2": "R2",
    "seconds": "run time of all seeds [s]", "al_efficiency": "share of targets requested",
    "labels": "targets requested", "regret": "regret", "n_rounds": "rows",
    "kernels_per_round": "kernels evaluated per row",
}  # fmt: skip


def all_figures(
    runs: Sequence[Run], folder: Path, suffixes: Sequence[str] = style.PNG
) -> list[Path]:
    """Save the figures of a finished sweep, and return their paths.

    One figure shows the running errors. If two or more runs have a regret against the same
    comparator, one figure shows their regrets. Each other figure shows the final error over one of

    - the algorithm, if there are several,
    - a setting that has three or more numbers as values,
    - the share of requested targets, if a run did not request all targets.

    Parameters
    ----------
    runs
        Runs of the sweep.
    folder
        Folder of the files.
    suffixes
        "png" and "pdf", or one of them.
    """
    runs = [run for run in runs if run.complete]
    if not runs:
        return []
    frame = frame_of(runs)
    names = [name for name in settings_in(frame) if len(set(filter(_is_number, frame[name]))) > 2]
    names += ["algorithm"] if frame["algorithm"].nunique() > 1 else []
    names += ["al_efficiency"] if (frame["al_efficiency"] < 1.0).any() else []
    figures = {"comparison": figure_of(running(runs), _title(runs, "Running"))}
    if regrets := regret_over_rows(runs):
        figures["regret"] = figure_of(regrets, f"Regret, {_seeds(runs)}")
    for x in names:
        name = f"error_by_{x.replace('/', '.')}"
        figures[name] = figure_of(against(frame, x), _title(runs, "Final", f" by {x}"))
    return [
        path
        for name, figure in figures.items()
        for path in style.save(figure, folder, name, suffixes)
    ]


def chosen_figure(runs: Sequence[Run], x: str, y: str = "") -> Figure:
    """Draw the panels of ``panels_of`` in one figure.

    Parameters
    ----------
    runs, x, y
        As in ``panels_of``.
    """
    what = LABELS.get(y, y)
    panels = panels_of(runs, x, y)
    title = f"{what[:1].upper()}{what[1:]} by {x}, {_seeds(runs)}"
    title = title if y else _title(runs, "Final", f" by {x}")
    return figure_of(panels, _title(runs, "Running") if x == ROWS and y != "regret" else title)


def panels_of(runs: Sequence[Run], x: str = ROWS, y: str = "") -> Panels:
    """Return panels of the metric ``y`` of runs as a function of ``x``, a setting or metric.

    Parameters
    ----------
    runs
        Complete runs.
    x
        "t": the running errors or regrets are drawn over the rows. Otherwise a setting or metric,
        as in ``against``.
    y
        Metric as in ``against``; "" stands for the error.

    Raises
    ------
    ValueError
        ``runs`` is empty, or no run has the setting or metric.
    """
    if not runs:
        raise ValueError("there is no finished run to draw")
    if x != ROWS:
        return against(frame_of(runs, [x.removeprefix("algorithm.")]), x, y)
    if y == "regret":
        if not (panels := regret_over_rows(runs)):
            raise ValueError("no two runs have a regret against the same comparator")
        return panels
    if y not in ("", "mse", "error_rate"):
        raise ValueError(
            f"x={ROWS}, the default, draws the error or the regret over the rows: leave y={y} out, "
            "or name a setting as x, such as x=D"
        )
    return running(runs)


def figure_of(panels: Panels, title: str) -> Figure:
    """Return a figure of panels with one legend below them."""
    with style.applied():
        height = 3.6 if len(panels) <= style.N_COLUMNS else 2.7
        figure, made = style.panels(list(panels), height)
        for panel in made:
            panels[panel.name](panel.axes)
            if not panel.lowest:
                panel.axes.set_xlabel("")
            if not panel.leftmost:
                panel.axes.set_ylabel("")
        style.figure_legend(figure, [panel.axes for panel in made])
        figure.suptitle(title, fontsize=10)
    return figure


# --- running errors -------------------------------------------------------------------------------


def running(runs: Sequence[Run]) -> Panels:
    """Return panels of running errors over the rows, one per stream, with the baselines."""
    return _by_stream(runs, _draw_running)


def regret_over_rows(runs: Sequence[Run]) -> Panels:
    """Return panels of regrets over the rows, one per stream; {} for fewer than two regrets.

    All regrets are against the comparator that the most runs have.
    """
    counts = Counter(
        name for run in runs for name in run.result["regret"] if f"regret_{name}" in run.curves
    )
    if not counts or max(counts.values()) < 2:
        return {}
    curve = f"regret_{max(counts, key=lambda name: counts[name])}"
    return _by_stream(
        [run for run in runs if curve in run.curves], functools.partial(_draw_regret, curve)
    )


def _by_stream(runs: Sequence[Run], draw: Callable[..., None]) -> Panels:
    """Return a panel per stream, in which ``draw`` draws its runs."""
    streams: dict[str, list[tuple[Run, Entry]]] = {}
    for run, entry, stream in zip(runs, naming.legend(runs), naming.streams(runs), strict=True):
        streams.setdefault(stream, []).append((run, entry))
    looks = style.looks_of([entry for members in streams.values() for _, entry in members])
    return {stream: functools.partial(draw, members, looks) for stream, members in streams.items()}


def _draw_running(
    members: Sequence[tuple[Run, Entry]], looks: Mapping[Entry, Mapping[str, Any]], axes: Axes
) -> None:
    choose = functools.partial(style.drawn_rounds, skip=0.01, limit=style.N_DRAWN_SMALL)
    runs, limits = [run for run, _ in members], []
    for number, (run, entry) in enumerate(members):
        drawn = choose(run.curves["t"])
        t = run.curves["t"][drawn]
        mean, std = style.mean_std(run.curves[measure(run.result).key][:, drawn])
        limits.append(style.positive_limits(mean, std))
        label = style.wrapped(str(entry), 60)
        style.band_line(
            axes, t, mean, std, number, label, limits[-1][0], opacity=0.12, looks=looks[entry]
        )
        style.mark_changes(axes, run.curves["change_rounds"], t)
    limits += style.baseline_lines(axes, runs, choose)
    style.log_axis(axes.yaxis, min(low for low, _ in limits), max(high for _, high in limits))
    style.row_axis(axes, max(runs, key=lambda run: run.curves["t"][-1]).curves)
    axes.set_ylabel(f"{_kinds([measure(run.result) for run in runs])} of rows 1..t")


def _draw_regret(
    curve: str,
    members: Sequence[tuple[Run, Entry]],
    looks: Mapping[Entry, Mapping[str, Any]],
    axes: Axes,
) -> None:
    for number, (run, entry) in enumerate(members):
        drawn = style.drawn_rounds(run.curves["t"], limit=style.N_DRAWN_SMALL)
        t, label = run.curves["t"][drawn], style.wrapped(str(entry), 60)
        mean, std = style.mean_std(run.curves[curve][:, drawn])
        style.band_line(axes, t, mean, std, number, label, opacity=0.12, looks=looks[entry])
        style.mark_changes(axes, run.curves["change_rounds"], t)
    axes.axhline(0, color=style.GREY, linewidth=0.8)
    style.row_axis(
        axes, max((run for run, _ in members), key=lambda run: run.curves["t"][-1]).curves
    )
    comparator = members[0][0].result["regret"][curve.removeprefix("regret_")]["label"]
    axes.set_ylabel(style.wrapped(f"cumulative loss above {comparator}", 48))


# --- A metric over a setting or another metric ----------------------------------------------------


def against(frame: pd.DataFrame, x: str, y: str = "") -> Panels:
    """Return panels of the metric ``y`` as a function of ``x``, a setting or another metric.

    Each data set has a panel. A line joins the runs of an algorithm that agree in all settings
    except ``x``. If ``x`` is a metric, the line joins the runs that agree in all settings
    that are not numbers. If any value of ``x`` is a text, the panel has a row for each value, and
    the metric is on the horizontal axis.

    Parameters
    ----------
    frame
        Runs as ``frame_of`` returns them.
    x
        A setting that varies, ``algorithm``, or a metric of ``frame.NUMBERS``.
    y
        A metric of ``frame.NUMBERS``; "" stands for the main error of the runs.

    Raises
    ------
    ValueError
        No run has the setting or metric.
    """
    frame = frame[frame["status"] == "complete"]
    settings = settings_in(frame)
    numbers = [name for name in NUMBERS if frame[name].notna().any()]
    x = x if x in frame else x.removeprefix("algorithm.")
    for what, name, known in (
        ("x", x, ["algorithm", *settings, *numbers]), ("y", y or numbers[0], numbers)
    ):  # fmt: skip
        if name not in known:
            raise ValueError(no_such(f"{what}={name}", name, known))
    panels: dict[str, dict[Entry, list[tuple[Any, float, float]]]] = {}
    for row in frame[frame[x].notna() | (x in settings)].to_dict("records"):
        if row[x] != row[x]:  # NaN: the run does not have the setting
            continue
        key = y or row["measure"].key
        others = {
            name: row[name]
            for name in settings
            if name != x and row[name] == row[name]
            and not (x in NUMBERS and _is_number(row[name]))
        }  # fmt: skip
        learner, pairs = registry.title(row["algorithm"]), naming.pairs_text(others)
        value, entry = row[x], Entry(learner, pairs)
        if x == "algorithm":  # lines differ in settings only
            value, entry = learner, Entry(pairs, "")
        point = value, _float(row[key]), _float(row.get(f"{key}_std"))
        panels.setdefault(row["dataset"], {}).setdefault(entry, []).append(point)
    looks = style.looks_of([entry for lines in panels.values() for entry in lines])
    names = [LABELS.get(x, x), LABELS.get(y, y) or _kinds(frame["measure"])]
    return {
        dataset: functools.partial(_draw_against, lines, looks, names)
        for dataset, lines in panels.items()
    }


def _draw_against(
    lines: Mapping[Entry, Sequence[tuple[Any, float, float]]],
    looks: Mapping[Entry, Mapping[str, Any]],
    names: Sequence[str],
    axes: Axes,
) -> None:
    values = [x for points in lines.values() for x, _, _ in points]
    texts = list(dict.fromkeys(naming.value_text(value) for value in values))
    numeric = all(map(_is_number, values))
    for entry, points in lines.items():
        look = {**looks[entry], "label": style.wrapped(str(entry), 60)}
        x, y, std = zip(*(sorted(points) if numeric else points), strict=True)
        if numeric:
            axes.errorbar(x, y, std, **look)
        else:
            places = [texts.index(naming.value_text(value)) for value in x]
            axes.errorbar(y, places, xerr=std, **look | {"linestyle": "none"})
    if numeric:
        if min(values) > 0 and max(values) > 20 * min(values):
            style.log_axis(axes.xaxis, min(values) / 1.2, max(values) * 1.2)
        elif len(texts) <= 6 and all(float(value).is_integer() for value in values):
            axes.set_xticks(sorted(set(values)))
        axes.set(xlabel=names[0], ylabel=names[1])
        return
    axes.set_ylim(len(texts) - 0.5, -0.5)
    axes.set_yticks(range(len(texts)), [style.wrapped(text, 34) for text in texts])
    errors = [y for points in lines.values() for _, y, _ in points if math.isfinite(y)]
    if errors and 0.0 < 8.0 * min(errors) < max(errors):
        style.log_axis(axes.xaxis, min(errors) / 1.3, max(errors) * 1.3)
    axes.set_xlabel(names[1])


def _float(value: float | None) -> float:
    """Return a number of a frame; NaN if it is absent or has overflowed."""
    return math.nan if value is None or math.isinf(value) else float(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _kinds(measures: Sequence[Any]) -> str:
    names = {MSE: "MSE", ERROR_RATE: "error rate"}
    return " or ".join(dict.fromkeys(names[kind] for kind in measures))


def _title(runs: Sequence[Run], kind: str, more: str = "") -> str:
    names = " or ".join(dict.fromkeys(measure(run.result).long for run in runs))
    return f"{kind} {names}{more}, {_seeds(runs)}"


def _seeds(runs: Sequence[Run]) -> str:
    counts = sorted({len(run.result["seeds"]) for run in runs})
    if len(counts) == 1:
        return over_seeds(counts[0])
    return f"mean ± std over {counts[0]} to {counts[-1]} seeds"
