"""The page of a suite: tables and figures, from a folder of results alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from omkl.benchmark import cells, figures, scores
from omkl.benchmark.cells import Results
from omkl.benchmark.scores import MAIN
from omkl.benchmark.suite import PUBLISHED, REFERENCE, Suite
from omkl.report import stats
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
from omkl.report.text import readable
from omkl.utils.disk import write_atomically
from omkl.utils.wording import pluralize

NAMES = {
    "mse": "MSE", "mae": "MAE", "error_rate": "errors, %", "log_loss": "log loss",
    "interval_score_90": "interval score, 90 %", "coverage_90": "coverage of 90 %, %",
    "dynamic_regret": "dynamic regret per round", "recovery": "rounds until recovered",
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
        parts += [Heading("What is not there"), Table.of_rows(headings, lines, 3, broken=(3,))]
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
    return "standardised by what was seen, the same for all; blanks are the mean so far"


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
        drawn = figures.heat_map(errors, reference, place, f"{task}_ratios")
        caption = f"Error over that of {reference}; × is a learner that failed, k a thousand"
        parts.append(Picture(drawn[0], caption))
        for what, about in figures.TITLES.items():
            drawn = figures.over_time(read, task, what, place, f"{task}_{what}")
            parts.append(Picture(drawn[0], f"Error {about}"))
    parts += _over_streams(errors, reference, place, task)
    for score in (main, *FURTHER):
        values = cells.means(read, task, score)
        if np.isfinite(values).any(axis=None):
            heading = Heading(f"{title}: {NAMES[score]}", 3)
            parts += [heading, _scores(read, task, score, values)]
    return parts + _published(read, task)


def _summary(read: Results, task: str, errors: pd.DataFrame) -> Table:
    """A row per learner: those that never failed first, the best ratio before others."""
    reference = REFERENCE[task]
    complete = errors.dropna()
    ranks = complete.rank(axis=1).mean() if len(complete) else pd.Series(dtype=float)
    us, size, mae = (cells.means(read, task, name) for name in ("us_a_row", "bytes", "mae"))
    rows = []
    for learner in errors.columns:
        ratios = _ratios(errors, reference, learner)
        rows.append(
            {
                "": learner,
                "kind": read.kind(learner),
                "streams": int(errors[learner].notna().sum()),
                "failed": int(np.isinf(errors[learner]).sum()),
                "rank": ranks.get(learner, np.nan),
                "ratio": _geometric(ratios),
                "of MAE": _geometric(_ratios(mae, reference, learner)),
                "worst": ratios.max(),
                "µs per row": _finite(us, learner).median(),
                "kB": _finite(size / 1000.0, learner).max(),
            }
        )
    frame = pd.DataFrame(rows)
    frame = frame.sort_values("ratio", kind="stable")
    frame = frame.sort_values("failed", key=lambda n: n > 0, kind="stable")
    if mae.empty:
        frame = frame.drop(columns="of MAE")
    digits = {"rank": "{:.2f}", "ratio": "{:.3f}", "of MAE": "{:.3f}"}
    plain = dict.fromkeys(("worst", "µs per row", "kB"), _plain)
    return Table(frame, 2, formats={**digits, **plain})


def _ratios(errors: pd.DataFrame, reference: str, learner: str) -> pd.Series:
    """Errors over the reference's, of the streams where both are finite and above 0."""
    if learner not in errors or reference not in errors:
        return pd.Series(dtype=float)
    ratios = errors[learner] / errors[reference]
    return ratios[np.isfinite(ratios) & (ratios > 0.0)]


def _geometric(ratios: pd.Series) -> float:
    return float(np.exp(np.log(ratios).mean())) if len(ratios) else np.nan


def _finite(values: pd.DataFrame, learner: str) -> pd.Series:
    if learner not in values:
        return pd.Series(dtype=float)
    return values[learner][np.isfinite(values[learner])]


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
        return [*parts, Text(f"Nothing can be said: {error}.")]
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
    drawn = figures.rank_plot(groups, place, f"{task}_ranks")
    parts += [Picture(drawn[0], "Average ranks"), Text(f"{what} {groups.blocks.left_out}".strip())]
    if reference in errors:
        ratios = scores.log_ratio(errors, to=reference)
        body = [
            [str(name), f"{row.ratio:.3f}", _interval(row), str(row.n_streams)]
            for name, row in ratios.iterrows()
        ]
        text = f"Error over that of {reference}: geometric mean, and its 95 % interval."
        parts += [Text(text), Table.of_rows(["", "ratio", "interval", "streams"], body)]
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
    return Table.of_rows(["", *map(str, values.index)], body)


def _cell(value: float, std: float, score: str) -> str:
    if not np.isfinite(value):
        return ""
    text = f"{value:.2f}" if score in PER_CENT else readable(value)
    if np.isnan(std):
        return text
    return f"{text} ± {std:.2f}" if score in PER_CENT else f"{text} ± {readable(std, value)}"


def _published(read: Results, task: str) -> list[Part]:
    """What others have published about the same streams, beside what was rerun here."""
    streams = set(read.streams(task))
    rows = [row for row in read.suite.published if row["stream"] in streams]
    if not rows:
        return []
    score = "mae" if task == "regression" else "error_rate"
    lines = [
        (row["stream"], _published_score(row, score), row["learner"], PUBLISHED) for row in rows
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
        Table.of_rows(["stream", "learner", "", NAMES[score]], body, left=3),
    ]


def _published_score(row: dict[str, Any], score: str) -> float:
    return 1.0 - float(row["accuracy"]) if "accuracy" in row else float(row[score])


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
    return Table.of_rows(headings, body, left=2)
