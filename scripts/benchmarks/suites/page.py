"""Write the page of a suite, ``page.md``, with tables and figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from benchmarks.suites import scores
from benchmarks.suites.running import Results
from benchmarks.suites.scores import MAIN, SETTLED
from benchmarks.suites.settings import OTHER, OURS, PUBLISHED, REFERENCE
from benchmarks.suites.streams import Task
from benchmarks.tables import markdown_table
from omkl.report import style
from omkl.report.naming import readable
from omkl.runs import provenance
from omkl.utils.disk import write_atomically

MAX_LINES = 6  # largest number of lines in a panel
MAX_RANKED = 15  # largest number of learners in the figure of ranks
MAX_RATIO = 4.0  # ratio at which colours saturate
HEADINGS = {
    "mse": "MSE", "mae": "MAE", "error_rate": "errors, %", "log_loss": "log loss",
    "interval_score_90": "interval score, 90 %", "coverage_90": "coverage of 90 %, %",
    "dynamic_regret": "dynamic regret per row", "recovery": "rows until recovered",
}  # fmt: skip
PER_CENT = ("error_rate", "coverage_90")


def write(results: Results, folder: Path) -> list[Path]:
    """Write ``page.md`` and its figures into the folder ``page``; return their paths."""
    place = folder / "page"
    suite, pictures = results.suite, []
    parts = [f"# {suite.title}", _protocol(results), suite.notes]
    for task in suite.tasks:
        errors = results.means(task, MAIN[task])
        if errors.empty:
            continue
        drawn = _figures(results, task, errors, place)
        pictures += drawn
        parts += [f"## {task.capitalize()}", _summary(results, task, errors)]
        parts += [f"![{path.stem.replace('_', ' ')}]({path.name})" for path in drawn]
        parts += [_statistics(errors), *_faults(results, task)]
        for score, heading in HEADINGS.items():
            if not (values := results.means(task, score)).empty:
                parts += [f"### {task.capitalize()}: {heading}", _scores(values, score)]
        parts += _published(results, task)
    shown = results.sources.drop(columns=["changes", "fault"], errors="ignore")
    parts += ["## Streams", markdown_table([*shown], shown.itertuples(index=False), left=2)]
    if results.missing:
        parts += [
            "## Without scores",
            markdown_table(["stream", "learner", "why"], results.missing, 3),
        ]
    path = place / "page.md"
    write_atomically(path, "\n\n".join(filter(None, parts)) + "\n")
    return [path, *pictures]


def _protocol(results: Results) -> str:
    suite = results.suite
    unscored = f"the first {suite.prefix} rows are learned and not scored"
    if not suite.prefix:
        unscored = f"the first row is {suite.first_row}"
    inputs = "as they are" if suite.inputs_of_models == "raw" else "standardised by earlier rows"
    return (
        f"Suite `{suite.name}` of `{suite.version}`: at most {suite.rows:,} rows of each stream, "
        f"{suite.seeds} seeds ({suite.model_seeds} of other libraries), means over the seeds; "
        f"{unscored}. Inputs of other libraries are {inputs}. Bold: the lowest. omkl "
        f"{provenance.versions()['omkl']}, commit {provenance.commit() or 'unknown'}, on "
        f"{provenance.machine()['processor']}."
    )


def _ratios(errors: pd.DataFrame, task: Task) -> pd.DataFrame:
    """Return errors divided by the error of the reference; inf if a learner failed."""
    positive = errors[errors[REFERENCE[task]] > 0.0]
    return positive.div(positive[REFERENCE[task]], axis=0)


def _summary(results: Results, task: Task, errors: pd.DataFrame) -> str:
    """Return a table with one row per learner: first those that never failed, by mean ratio."""
    ratios = scores.log_ratios(errors, REFERENCE[task])
    table = ratios.assign(
        kind=[results.kind(name) for name in ratios.index],
        failed=np.isinf(errors).sum(),
        us=results.means(task, "us_per_row").median(),
    ).sort_values("failed", key=lambda n: n > 0, kind="stable")
    us = table["us"].map("{:,.3g}".format, na_action="ignore").fillna("")
    body = []
    for name, row in table.iterrows():
        interval = "" if math.isnan(row.low) else f"{row.low:.3f} to {row.high:.3f}"
        numbers = (f"{row.ratio:.3f}", interval, _short(row.worst), row.streams, row.failed)
        body.append((name, row.kind, *numbers, us[name]))
    headings = ["", "kind", "ratio", "95 % interval", "worst", "streams", "failed", "µs per row"]
    legend = (
        f"Ratio: error over that of {REFERENCE[task]}, the geometric mean over the streams on "
        "which neither failed or made no error. µs per row: of predicting and learning, the median "
        "over streams."
    )
    return f"{markdown_table(headings, body, left=2)}\n\n{legend}"


def _statistics(errors: pd.DataFrame) -> str:
    try:
        found = scores.compare(errors)
    except ValueError as error:
        return f"No ranks: {error}."
    n, k = found.errors.shape
    if not math.isfinite(found.difference):
        return (
            f"{n} streams are too few to tell {k} learners apart by their ranks. {found.left_out}"
        )
    return (
        f"Friedman's test on {k} learners and {n} streams: chi-squared {found.chi2:.1f}, "
        f"p = {found.p:.2g}. Nemenyi's critical difference of average ranks, as wide as the grey "
        f"band, is {found.difference:.2f} at {scores.LEVEL:.0%}. {found.left_out}"
    )


def _scores(values: pd.DataFrame, score: str) -> str:
    """Return a table of learners x streams. The lowest value of each stream is bold."""
    shown = values * (100.0 if score in PER_CENT else 1.0)
    lowest = shown.eq(shown.min(axis=1), axis=0) & (score not in ("coverage_90", "recovery"))

    def text(value: float, bold: bool) -> str:
        if not math.isfinite(value):
            return "failed" if value == math.inf else ""
        number = f"{value:.2f}" if score in PER_CENT else readable(value)
        return f"**{number}**" if bold else number

    body = [[name, *map(text, shown[name], lowest[name])] for name in map(str, shown.columns)]
    return _markdown(["", *map(str, shown.index)], body)


def _markdown(headings: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a table whose cells contain Markdown."""
    lines = [headings, ["---", *["--:"] * (len(headings) - 1)], *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _faults(results: Results, task: Task) -> list[str]:
    """Return a table of learners x faults: geometric means of error after / error before."""
    ratios = results.means(task, "after_fault")
    if ratios.empty:
        return []
    fault_of = results.sources.set_index("stream")["fault"]
    table = np.exp(np.log(ratios).groupby(fault_of, sort=False).mean()).T
    table["worst"] = ratios.max()
    body = [[str(name), *map(_short, row)] for name, row in table.iterrows()]
    about = (
        f"The loss from {SETTLED} rows after a fault on (after its begin, where it lasts), over "
        "that of the rows before it: geometric means over the streams, and the worst."
    )
    return ["### After a fault", about, markdown_table(["", *table.columns], body)]


def _published(results: Results, task: Task) -> list[str]:
    """Return a table of published scores on the same streams, together with those of the rerun."""
    score = "mae" if task == "regression" else "error_rate"
    table = results.table
    rows = table[(table["task"] == task) & (table["score"] == score)]
    published = rows[rows["kind"] == PUBLISHED]
    if published.empty:
        return []
    rows = rows[rows["stream"].isin(published["stream"])]
    means = rows.groupby(["stream", "learner", "kind"], observed=True)["value"].mean().reset_index()
    means["value"] *= 100.0 if score in PER_CENT else 1.0
    means = means.sort_values(["stream", "value"])
    means["value"] = means["value"].map("{:.4g}".format)
    headings = ["stream", "learner", "", HEADINGS[score]]
    sources = dict.fromkeys(row.source for row in results.suite.published)
    text = f"Published: {'; '.join(sources)}."
    body = means.itertuples(index=False)
    return ["### Published and rerun", text, markdown_table(headings, body, left=3)]


# --- Figures --------------------------------------------------------------------------------------


def _figures(results: Results, task: Task, errors: pd.DataFrame, place: Path) -> list[Path]:
    with style.applied():
        paths = style.save(_heat_map(errors, task), place, f"{task}_ratios")
        paths += style.save(_over_time(results, task, errors), place, f"{task}_over_time")
        if len(errors) >= scores.MIN_STREAMS and len(errors.columns) > 2:
            paths += style.save(_rank_plot(scores.compare(errors)), place, f"{task}_ranks")
    return paths


def _short(ratio: float) -> str:
    """Write a ratio with at most four characters."""
    if not math.isfinite(ratio):
        return "" if math.isnan(ratio) else "×"
    if ratio >= 9.95:
        return f"{ratio:.0f}" if ratio < 999.5 else f"{ratio / 1000:.1f}k" if ratio < 1e5 else "big"
    return f"{ratio:.2f}" if ratio < 1.995 else f"{ratio:.1f}"


def _heat_map(errors: pd.DataFrame, task: Task) -> Figure:
    """Draw a map of errors divided by those of the reference, learners x streams.

    Blue is better than the reference, and × is a failure.
    """
    ratios = _ratios(errors, task).T
    logs = np.log(ratios.where(ratios > 0.0)).clip(-math.log(MAX_RATIO), math.log(MAX_RATIO))
    order = logs.mean(axis=1).sort_values(kind="stable").index
    ratios, logs = ratios.loc[order], logs.loc[order]
    figure = Figure(
        figsize=(max(style.WIDTH, 2.6 + 0.42 * len(logs.columns)), 1.9 + 0.2 * len(logs))
    )
    axes = figure.add_subplot()
    axes.grid(False)
    limit = math.log(MAX_RATIO)
    image = axes.imshow(logs, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    axes.set_xticks(
        range(len(logs.columns)), logs.columns, rotation=60, ha="right", rotation_mode="anchor"
    )
    axes.set_yticks(range(len(logs)), logs.index)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    for (row, column), value in np.ndenumerate(ratios.to_numpy(float)):
        dark = abs(logs.iat[row, column]) > 0.65 * limit
        axes.text(column, row, _short(value), ha="center", va="center", fontsize=6.2,
                  color="white" if dark else "black")  # fmt: skip
    bar = figure.colorbar(image, shrink=min(1.0, 2.2 / figure.get_figheight()), aspect=12)
    ticks = [0.25, 0.5, 1.0, 2.0, 4.0]
    bar.set_ticks([math.log(t) for t in ticks], labels=["≤ ¼", "½", "1", "2", "≥ 4"])
    axes.set_title(f"Error over that of {REFERENCE[task]}")
    return figure


def _rank_plot(found: scores.Comparison) -> Figure:
    """Draw average ranks, the best on top. A band shows the critical difference to the best."""
    ranks = found.ranks.iloc[:MAX_RANKED]
    figure = Figure(figsize=(style.WIDTH, 1.0 + 0.2 * len(ranks)))
    axes = figure.add_subplot()
    axes.plot(ranks, range(len(ranks)), "o", color=style.COLOURS[0])
    axes.set_yticks(range(len(ranks)), [f"{name} ({rank:.2f})" for name, rank in ranks.items()])
    axes.invert_yaxis()
    axes.set_xlabel(f"average rank of {len(found.ranks)} learners on {len(found.errors)} streams")
    best = ranks.iloc[0]
    axes.axvspan(best, best + found.difference, color=style.GREY, alpha=0.15, linewidth=0)
    return figure


def _over_time(results: Results, task: Task, errors: pd.DataFrame) -> Figure:
    """Draw the sliding error of the best learners and of the reference, one panel per stream."""
    ratios = scores.log_ratios(errors, REFERENCE[task]).index
    ours, others = ([n for n in ratios if results.kind(n) == kind] for kind in (OURS, OTHER))
    learners = [*ours[: MAX_LINES - 3], *others[:2], REFERENCE[task]]
    figure, panels = style.panels(list(map(str, errors.index)), 2.0)
    changes = results.sources.set_index("stream")["changes"]
    for panel in panels:
        axes = panel.axes
        for index, learner in enumerate(learners):
            if (curve := results.curves.get((panel.name, learner))) is not None:
                rows, values = curve[:, len(curve[0]) // 20 :]  # the first errors are large
                looks = {k: v for k, v in style.look(index).items() if k != "marker"}
                axes.plot(rows, np.where(values > 0.0, values, np.nan), label=learner, **looks)
        axes.set_yscale("log")
        style.mark_changes(axes, np.array(changes[panel.name]), np.array([1, axes.get_xlim()[1]]))
        if panel.lowest:
            axes.set_xlabel("row")
        if panel.leftmost:
            axes.set_ylabel(HEADINGS[MAIN[task]].removesuffix(", %"))
    style.figure_legend(figure, figure.axes)
    figure.suptitle(f"Error of the last {results.suite.window} rows", fontsize=10)
    return figure
