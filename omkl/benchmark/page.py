"""The page of a suite, from a folder of results alone: tables and figures.

Figures are a heat map of streams and learners, average ranks, and error against time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from omkl.benchmark import cells, scores
from omkl.benchmark.cells import Results, means
from omkl.benchmark.scores import MAIN, SETTLED, Groups
from omkl.benchmark.suite import OURS, PEER, PUBLISHED, REFERENCE, Suite
from omkl.report import stats, style
from omkl.report.naming import readable
from omkl.report.page import (
    Code,
    Heading,
    Part,
    Picture,
    Text,
    html_page,
    latex_tables,
    markdown_page,
)
from omkl.report.tables import Cell, Table
from omkl.utils.disk import write_atomically
from omkl.utils.wording import pluralize

MOST_LINES = 6  # of a panel: what is best in the mean, and the reference
MOST_RANKS = 10  # of learners in the diagram of ranks
COLUMNS = 3
LARGEST = math.log(4.0)  # of a ratio that has a colour of its own
TITLES = {"running": "over rows 1..t", "sliding": "over the last rows"}


def heat_map(errors: pd.DataFrame, reference: str, folder: Path, name: str) -> list[Path]:
    """log(error / error of the reference) of streams x learners; blue is better.

    ``errors`` as of ``cells.means``; a cross is a learner that failed, nothing a missing value, k
    a thousand. The learner with the least mean of the logarithms is the first row.
    """
    ratios = _log_ratios(errors, reference).T
    shown = ratios.replace(np.inf, LARGEST).clip(-LARGEST, LARGEST)
    order = ratios.replace(np.inf, LARGEST).mean(axis=1).sort_values(kind="stable").index
    ratios, shown = ratios.loc[order], shown.loc[order]
    with style.applied():
        height = 1.9 + 0.2 * len(order)
        figure = Figure(figsize=(max(style.WIDTH, 2.6 + 0.42 * shown.shape[1]), height))
        axes = figure.add_subplot()
        axes.grid(False)
        image = axes.imshow(
            shown.to_numpy(float), cmap="RdBu_r", vmin=-LARGEST, vmax=LARGEST, aspect="auto"
        )
        axes.set_xticks(range(shown.shape[1]), list(shown.columns), rotation=60, ha="right",
                        rotation_mode="anchor")  # fmt: skip
        axes.set_yticks(range(len(order)), list(order))
        axes.tick_params(length=0)
        _numbers(axes, ratios)
        for side in axes.spines.values():
            side.set_visible(False)
        bar = figure.colorbar(image, ax=axes, shrink=min(1.0, 2.2 / height), aspect=12)
        ticks = [0.25, 0.5, 1.0, 2.0, 4.0]
        bar.set_ticks([math.log(t) for t in ticks], labels=["≤ ¼", "½", "1", "2", "≥ 4"])
        bar.set_label(f"error / error of {reference}")
        bar.outline.set_visible(False)
        return style.save(figure, folder, name)


def _log_ratios(errors: pd.DataFrame, reference: str) -> pd.DataFrame:
    """log(error / error of the reference), of the streams on which the reference made errors."""
    positive = errors[errors[reference] > 0.0]
    with np.errstate(divide="ignore"):
        return np.log(positive.div(positive[reference], axis=0))


def _numbers(axes: Axes, ratios: pd.DataFrame) -> None:
    """The ratio in every field, a cross for a failure."""
    for row, values in enumerate(ratios.to_numpy(float)):
        for column, value in enumerate(values):
            if math.isnan(value):
                continue
            text = "×" if value == math.inf else _short(math.exp(value))
            dark = abs(min(value, LARGEST)) > 0.65 * LARGEST
            axes.text(column, row, text, ha="center", va="center", fontsize=6.2,
                      color="white" if dark else "black")  # fmt: skip


def _short(ratio: float) -> str:
    if ratio >= 9.95:
        return f"{ratio:.0f}" if ratio < 999.5 else f"{ratio / 1000:.1f}k" if ratio < 1e5 else "big"
    return f"{ratio:.2f}".lstrip("0") if ratio < 1.995 else f"{ratio:.1f}"


def rank_plot(groups: Groups, folder: Path, name: str) -> list[Path]:
    """Average ranks of the ten best, the best on top; bars join those that do not differ."""
    n_learners, groups = len(groups.ranks), best_ranked(groups)
    ranks = groups.ranks
    places = {learner: place for place, learner in enumerate(ranks.index)}
    with style.applied():
        figure = Figure(figsize=(style.WIDTH, 1.0 + 0.2 * len(ranks)))
        axes, side = figure.subplots(1, 2, sharey=True, width_ratios=(5, 1))
        side.set_axis_off()
        axes.plot(ranks.to_numpy(), range(len(ranks)), "o", color=style.COLOURS[0])
        labels = [style.wrapped(f"{name} ({rank:.2f})", 200) for name, rank in ranks.items()]
        axes.set_yticks(range(len(ranks)), labels)
        axes.set_ylim(len(ranks) - 0.5, -0.5)
        of_all = f" of {n_learners} learners" if n_learners > len(ranks) else ""
        axes.set_xlabel(f"average rank{of_all}, 1 is best")
        if not groups.silence:
            reach = ranks.iloc[0] + groups.difference
            axes.axvspan(ranks.iloc[0], reach, color=style.GREY, alpha=0.15, linewidth=0)
            for level, clique in zip(bar_levels(groups), groups.cliques, strict=True):
                ends = [places[clique[0]] - 0.25, places[clique[-1]] + 0.25]
                look = {"color": style.COLOURS[1], "linewidth": 2.5, "solid_capstyle": "butt"}
                side.plot([level, level], ends, **look)
            side.set_xlim(-0.5, max([6, *bar_levels(groups)]) + 0.5)
        return style.save(figure, folder, name)


def best_ranked(groups: Groups) -> Groups:
    """The ``MOST_RANKS`` best of them, and as much of their cliques as is theirs."""
    ranks = groups.ranks.iloc[:MOST_RANKS]
    cut = (tuple(name for name in clique if name in ranks.index) for clique in groups.cliques)
    return groups._replace(ranks=ranks, cliques=tuple(c for c in cut if len(c) > 1))


def bar_levels(groups: Groups) -> list[int]:
    """A column for each bar, so that those in one column share no learner."""
    ends: list[int] = []  # of the last bar in each column
    levels, places = [], {learner: place for place, learner in enumerate(groups.ranks.index)}
    for clique in groups.cliques:
        start, end = places[clique[0]], places[clique[-1]]
        level = next((i for i, last in enumerate(ends) if last < start), len(ends))
        ends[level : level + 1] = [end]
        levels.append(level)
    return levels


def chosen_learners(results: Results, task: str, errors: pd.DataFrame) -> list[str]:
    """Those that are drawn over time: the reference, and the best of ours and of peers."""
    reference = REFERENCE[task]
    ratios = _log_ratios(errors, reference).replace([np.inf, -np.inf], LARGEST)
    order = ratios.mean().sort_values(kind="stable").index
    ours, peers = ([n for n in order if results.kind(n) == kind] for kind in (OURS, PEER))
    return [*ours[: MOST_LINES - 3], *peers[:2], reference]


def over_time(results: Results, task: str, what: str, folder: Path, name: str) -> list[Path]:
    """A panel a stream: ``what`` error ("running", "sliding") of some learners against rounds."""
    errors = means(results, task, MAIN[task])
    learners = chosen_learners(results, task, errors)
    streams = list(errors.index)
    with style.applied():
        rows = math.ceil(len(streams) / COLUMNS)
        columns = min(COLUMNS, len(streams))
        figure = Figure(figsize=(max(style.WIDTH, 3.0 * columns), 0.7 + 2.0 * rows))
        for place, stream in enumerate(streams):
            axes = figure.add_subplot(rows, columns, place + 1)
            curves = {
                learner: cells.curves(results.cells[stream, learner]["folder"])
                for learner in learners
                if results.status(stream, learner) == cells.COMPLETE
            }
            _panel(axes, curves, learners, what)
            changes = np.array(results.stated["streams"][stream].get("change_rounds", []))
            if len(changes):
                style.mark_changes(axes, changes, np.array([1, axes.get_xlim()[1]]))
            axes.set_title(style.wrapped(stream, 30))
            if place + columns >= len(streams):
                axes.set_xlabel("round t")
            if place % columns == 0:
                axes.set_ylabel("MSE" if task == "regression" else "error rate")
        style.figure_legend(figure, figure.axes)
        figure.suptitle(f"Error {TITLES[what]}, means over the seeds", fontsize=10)
        return style.save(figure, folder, name)


def _panel(
    axes: Axes, curves: Mapping[str, Mapping[str, np.ndarray]], learners: Sequence[str], what: str
) -> None:
    """Lines of a stream; the first twentieth of the rounds, where errors are large, is left out."""
    limits, last = [], 1
    for index, learner in enumerate(learners):
        if learner not in curves:
            continue
        t, values = curves[learner]["t"], curves[learner][what].mean(axis=0)
        drawn = t >= t[0] + 0.05 * (t[-1] - t[0])
        looks = {k: v for k, v in style.look(index).items() if k != "marker"}
        axes.plot(t[drawn], np.where(values > 0.0, values, np.nan)[drawn], label=learner, **looks)
        limits.append(style.positive_limits(values[drawn], None))
        last = max(last, int(t[-1]))
    style.log_axis(axes.yaxis, min(low for low, _ in limits), max(high for _, high in limits))
    style.round_axis(axes, np.array([1, last]))


NAMES = {
    "mse": "MSE", "mae": "MAE", "error_rate": "errors, %", "log_loss": "log loss",
    "interval_score_90": "interval score, 90 %", "coverage_90": "coverage of 90 %, %",
    "dynamic_regret": "dynamic regret per row", "recovery": "rows until recovered",
}  # fmt: skip
PER_CENT = ("error_rate", "coverage_90")
LOWEST_IS_BEST = ("mse", "mae", "error_rate", "log_loss", "interval_score_90", "dynamic_regret")
FURTHER = ("log_loss", "interval_score_90", "coverage_90", "dynamic_regret", "recovery")


def make(folder: Path) -> list[Path]:
    """Write page.md, page.html, page.tex, results.csv and the figures; returns their paths.

    Raises ``cells.Damaged`` for a folder that holds no results.
    """
    read = cells.results_of(folder)
    place = folder / "page"
    place.mkdir(parents=True, exist_ok=True)
    title, parts = read.suite.title, list(_parts(read, place))
    texts = {
        "page.md": markdown_page(title, parts),
        "page.html": html_page(title, parts),
        "page.tex": latex_tables(parts),
        "results.csv": read.table.to_csv(index=False),
    }
    for name, text in texts.items():
        write_atomically(place / name, text)
    pictures = [part.path for part in parts if isinstance(part, Picture)]
    return [*(place / name for name in texts), *pictures]


def _parts(read: Results, place: Path) -> list[Part]:
    parts: list[Part] = [Text(_protocol(read), markup=True)]
    parts += [Text(read.suite.notes, markup=True)] if read.suite.notes else []
    for task in read.tasks():
        parts += _of_task(read, task, place)
    parts += [Heading("Streams"), _streams(read)]
    if lines := cells.what_is_missing(read):
        headings = ["stream", "learner", "", "why"]
        parts += [Heading("What is not there"), Table(headings, lines, 3, broken=(3,))]
    if commands := [cell["command"] for cell in read.cells.values() if cell["command"]]:
        text = (
            "Each row of ours is a run: typed in the folder of the results, this prints the "
            "error over all rounds (but the first in a regression) that results.csv calls as_run."
        )
        parts += [Heading("Commands"), Text(text), Code("\n".join(commands))]
    return parts


def _protocol(read: Results) -> str:
    suite, stated = read.suite, read.stated
    first = (
        f"the first {suite.prefix} rows are learned and count for nobody"
        if suite.prefix
        else f"the first round is {suite.first_round}"
    )
    changed = ", ".join(f"{key}={value}" for key, value in stated["changed"].items())
    typed = f"**Not the suite as it is: {changed}.** " if changed else ""
    return (
        f"{typed}Suite `{suite.name}` of `{suite.version}`, one pass over at most "
        f"{suite.rows:,} rows of each stream, {pluralize(suite.seeds, 'seed')} "
        f"(peers {suite.peer_seeds}); {first}. Inputs are {_scaling(suite)}. "
        f"Means over the seeds; bold: the lowest, and what does not differ from it (paired t over "
        f"seeds, Holm, {stats.LEVEL:.0%}, with three seeds or more; peers with one seed are not "
        f"compared). Made with omkl "
        f"{stated['versions']['omkl']}, commit {stated['commit'] or 'unknown'}, on "
        f"{stated['machine']['processor']}; begun {stated['begun']}."
    )


def _scaling(suite: Suite) -> str:
    if suite.peers_see == "raw":
        return "standardised by what was seen, by each learner in its own way"
    return "standardised by what was seen, the same for all; missing values are the mean so far"


def _of_task(read: Results, task: str, place: Path) -> list[Part]:
    main, reference, title = MAIN[task], REFERENCE[task], task.capitalize()
    errors = cells.means(read, task, main)
    if errors.empty:
        return [Heading(title), Text("No stream of it is there.")]
    legend = (
        f"Ratio: error over that of {reference}, the geometric mean over the streams and its "
        "worst; streams where one of the two failed or made no error are left out of it. "
        "Rank: the mean over the streams that all learners have. µs per row: processor time of "
        "predicting and learning on one thread, the median over streams. kB: of what was "
        "learned, as kept in a file, the largest."
    )
    parts: list[Part] = [Heading(title), _summary(read, task, errors), Text(legend)]
    if reference in errors:
        drawn = heat_map(errors, reference, place, f"{task}_ratios")
        caption = f"Error over that of {reference}; × is a learner that failed, k a thousand"
        parts.append(Picture(drawn[0], caption))
        for what, about in TITLES.items():
            drawn = over_time(read, task, what, place, f"{task}_{what}")
            parts.append(Picture(drawn[0], f"Error {about}"))
    parts += _over_streams(errors, reference, place, task)
    parts += _faults(read, task)
    for score in (main, *FURTHER):
        values = cells.means(read, task, score)
        if np.isfinite(values).any(axis=None):
            heading = Heading(f"{title}: {NAMES[score]}", 3)
            parts += [heading, _scores(read, task, score, values)]
    return parts + _published(read, task)


def _summary(read: Results, task: str, errors: pd.DataFrame) -> Table:
    """A row per learner: those that never failed first, the best ratio before others."""
    ratios, mae = _ratios(errors, REFERENCE[task]), cells.means(read, task, "mae")
    us, size = (_finite(cells.means(read, task, name)) for name in ("us_a_row", "bytes"))
    columns = {
        "kind": [read.kind(name) for name in errors],
        "streams": errors.notna().sum(),
        "failed": np.isinf(errors).sum(),
        "rank": errors.dropna().rank(axis=1).mean(),
        "ratio": _geometric(ratios),
        "of MAE": _geometric(_ratios(mae, REFERENCE[task])),
        "worst": ratios.max(),
        "µs per row": us.median(),
        "kB": size.max() / 1000.0,
    }
    frame = pd.DataFrame(index=errors.columns).assign(**columns)
    frame = frame.sort_values("ratio", kind="stable")
    frame = frame.sort_values("failed", key=lambda n: n > 0, kind="stable")
    if mae.empty:
        frame = frame.drop(columns="of MAE")
    plain = dict.fromkeys(("worst", "µs per row", "kB"), _plain)
    forms = {"rank": "{:.2f}".format, "ratio": "{:.3f}".format, "of MAE": "{:.3f}".format, **plain}
    for column in frame.columns.intersection([*forms]):
        frame[column] = frame[column].map(forms[column], na_action="ignore")
    return Table(["", *frame], frame.itertuples(name=None), left=2)


def _ratios(errors: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Errors over the reference's; NaN where one of the two is 0 or not finite."""
    if reference not in errors:
        return errors * np.nan
    return _finite(errors.div(errors[reference], axis=0))


def _finite(values: pd.DataFrame) -> pd.DataFrame:
    """Those above 0."""
    return values.where(np.isfinite(values) & (values > 0.0))


def _geometric(ratios: pd.DataFrame) -> pd.Series:
    return np.exp(np.log(ratios).mean())


def _plain(value: float) -> str:
    """A number with three digits or more."""
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"


def _over_streams(errors: pd.DataFrame, reference: str, place: Path, task: str) -> list[Part]:
    """Friedman's test, average ranks with their critical difference, and ratios with intervals.

    ``errors`` are streams x learners, inf where one failed, NaN where there is no value.
    """
    parts: list[Part] = [Heading(f"{task.capitalize()}: over the streams", 3)]
    try:
        groups = scores.critical_difference(errors)
        whole = scores.friedman(errors) if len(groups.blocks.errors) > 1 else None
    except ValueError as error:
        return [*parts, Text(f"No conclusion: {error}.")]
    if whole is not None:
        text = (
            f"Friedman's test on {whole.n_learners} learners and {whole.n_streams} streams: "
            f"chi-squared {whole.statistic:.1f}, p = {whole.p:.2g}; F of Iman and Davenport "
            f"{whole.f:.2f}, p = {whole.f_p:.2g}."
        )
        parts.append(Text(text))
    what = (
        f"There are no bars: {groups.silence}."
        if groups.silence
        else f"Bars join what Nemenyi's test does not tell apart at {groups.level:.0%}: ranks less "
        f"than {groups.difference:.2f} apart, as far as the grey band is wide."
    )
    drawn = rank_plot(groups, place, f"{task}_ranks")
    parts += [Picture(drawn[0], "Average ranks"), Text(f"{what} {groups.blocks.left_out}".strip())]
    if (n_more := len(groups.ranks) - MOST_RANKS) > 0:
        names = ", ".join(f"{name} {rank:.2f}" for name, rank in groups.ranks[MOST_RANKS:].items())
        parts.append(Text(f"Ranks of the {n_more} others: {names}.", note=True))
    if reference in errors:
        ratios = scores.log_ratio(errors, to=reference)
        body = [
            [str(name), f"{row.ratio:.3f}", _interval(row), str(int(row.n_streams))]
            for name, row in ratios.iterrows()
        ]
        text = f"Error over that of {reference}: geometric mean, and its 95 % interval."
        parts += [Text(text), Table(["", "ratio", "interval", "streams"], body)]
    return parts


def _interval(row: pd.Series) -> str:
    """Nothing where one stream gives none."""
    there = row.notna()[["ratio_low", "ratio_high"]].all()
    return f"{row.ratio_low:.3f} to {row.ratio_high:.3f}" if there else ""


def _scores(read: Results, task: str, score: str, values: pd.DataFrame) -> Table:
    """Learners x streams, means and deviations over the seeds; bold is a star (``stars``)."""
    spread = cells.deviations(read, values, score)
    factor = 100.0 if score in PER_CENT else 1.0
    starred = cells.starred(read, values, score) if score in LOWEST_IS_BEST else set()
    body = []
    for learner in values.columns:
        line = [Cell(str(learner))]
        for stream in values.index:
            value, std = values.loc[stream, learner], spread.loc[stream, learner]
            text = _cell(factor * float(value), factor * float(std), score)
            if not text:
                status = read.status(str(stream), str(learner))
                text = "" if status == cells.COMPLETE else status
            line.append(Cell(text, bold=(stream, learner) in starred))
        body.append(line)
    return Table(["", *map(str, values.index)], body)


def _cell(value: float, std: float, score: str) -> str:
    if not np.isfinite(value):
        return ""
    text = f"{value:.2f}" if score in PER_CENT else readable(value)
    if np.isnan(std):
        return text
    return f"{text} ± {std:.2f}" if score in PER_CENT else f"{text} ± {readable(std, value)}"


def _faults(read: Results, task: str) -> list[Part]:
    """Learners x faults: the error after each over that before, the mean over the streams."""
    ratios = cells.means(read, task, "after_fault")
    if not np.isfinite(ratios).any(axis=None):
        return []
    fault_of = {name: stream.get("fault") for name, stream in read.stated["streams"].items()}
    by_fault = np.exp(np.log(ratios).groupby(fault_of, sort=False).mean()).T
    by_fault["worst"] = ratios.max()
    order = by_fault.drop(columns=["none", "worst"], errors="ignore").mean(axis=1).sort_values()
    body = [[name, *map(_times, by_fault.loc[name])] for name in order.index]
    about = (
        f"The squared error from {SETTLED} rows after a fault on (after its begin, where it "
        "stays), over that of the rows before it: the geometric mean over the streams, and the "
        "worst of all. Without a fault it is not 1 either, as learners go on learning."
    )
    heading = Heading(f"{task.capitalize()}: error after a fault over that before", 3)
    return [heading, Text(about), Table(["", *by_fault.columns], body)]


def _times(ratio: float) -> str:
    """Two decimals or three digits; a learner that failed has no ratio."""
    if not np.isfinite(ratio):
        return "" if np.isnan(ratio) else "failed"
    return f"{ratio:.2f}" if ratio < 9.995 else _plain(ratio)


def _published(read: Results, task: str) -> list[Part]:
    """What others have published about the same streams, beside what was rerun here."""
    streams = set(read.streams(task))
    rows = [row for row in read.suite.published if row["stream"] in streams]
    if not rows:
        return []
    score = "mae" if task == "regression" else "error_rate"
    lines = [
        (
            row["stream"],
            1.0 - float(row["accuracy"]) if "accuracy" in row else float(row[score]),
            row["learner"],
            PUBLISHED,
        )
        for row in rows
    ]
    for (stream, learner), value in cells.means(read, task, score).stack().items():
        if np.isfinite(value):
            lines.append((str(stream), float(value), str(learner), read.kind(str(learner))))
    factor = 100.0 if score in PER_CENT else 1.0
    body = [
        [stream, learner, kind, f"{factor * value:.4g}"]
        for stream, value, learner, kind in sorted(lines, key=lambda line: line[:2])
    ]
    sources = sorted({str(row["source"]) for row in rows})
    return [
        Heading(f"{task.capitalize()}: published and rerun", 3),
        Text(f"Published: {'; '.join(sources)}."),
        Table(["stream", "learner", "", NAMES[score]], body, left=3),
    ]


def _streams(read: Results) -> Table:
    body = []
    for name, stream in read.stated["streams"].items():
        if "missing" in stream:
            body.append([name, stream["task"], "", "", "", "not there", ""])
            continue
        package = f"{stream['package']} {stream['version']}" if "version" in stream else ""
        source = package or " ".join(
            str(stream[key]) for key in ("from", "dataset", "set") if key in stream
        )
        size = [f"{stream['rows']:,}", stream["columns"]]
        body.append([name, stream["task"], *size, stream["order"], source, stream["sha256"][:12]])
    headings = ["stream", "task", "rows", "columns", "order", "from", "sha256 of the rows"]
    return Table(headings, body, left=2)
