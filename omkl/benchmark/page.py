"""The page of a suite: tables and pictures, from a folder of results alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from omkl.benchmark import cells, documents, pictures, significance, table
from omkl.benchmark.documents import Code, Heading, Part, Picture, Table, Text
from omkl.benchmark.scores import MAIN
from omkl.benchmark.suite import PUBLISHED, REFERENCE, Suite
from omkl.benchmark.table import Results
from omkl.disk import write_atomically
from omkl.report import stars
from omkl.report.text import readable
from omkl.runs.wording import pluralize

NAMES = {
    "mse": "MSE", "mae": "MAE", "error_rate": "errors, %", "log_loss": "log loss",
    "interval_score_90": "interval score, 90 %", "coverage_90": "coverage of 90 %, %",
    "dynamic_regret": "dynamic regret a round", "recovery": "rounds until recovered",
    "sliding": "error of the last rounds", "us_a_row": "µs a row", "bytes": "kB",
    "accuracy": "accuracy, %",
}  # fmt: skip
PER_CENT = ("error_rate", "coverage_90")
LOWEST_IS_BEST = ("mse", "mae", "error_rate", "log_loss", "interval_score_90", "dynamic_regret")
FURTHER = ("log_loss", "interval_score_90", "coverage_90", "dynamic_regret", "recovery")


def make(folder: Path) -> list[Path]:
    """Write page.md, page.html, page.tex, results.csv and the pictures; the paths.

    Raises ``cells.Damaged`` for a folder that holds no results.
    """
    results = table.read(folder)
    place = folder / "page"
    place.mkdir(parents=True, exist_ok=True)
    parts = list(_parts(results, place))
    written = {
        "page.md": documents.markdown(parts),
        "page.html": documents.html_page(results.suite.title, parts),
        "page.tex": documents.latex(parts),
        "results.csv": results.table.to_csv(index=False),
    }
    for name, text in written.items():
        write_atomically(place / name, text)
    drawn = [part.path for part in parts if isinstance(part, Picture)]
    return [*(place / name for name in written), *drawn]


def _parts(results: Results, place: Path) -> list[Part]:
    suite = results.suite
    parts: list[Part] = [Heading(suite.title, 1), Text(_protocol(results))]
    parts += [Text(suite.notes)] if suite.notes else []
    for task in results.tasks():
        parts += _of_task(results, task, place)
    parts += [Heading("Streams"), _streams(results)]
    if lines := table.what_is_missing(results):
        parts += [
            Heading("What is not there"),
            Table(["stream", "learner", "", "why"], [list(line) for line in lines], left=4),
        ]
    return parts + _commands(results)


def _protocol(results: Results) -> str:
    suite, stated = results.suite, results.stated
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
        f"seeds, Holm, {stars.LEVEL:.0%}, with three seeds or more; peers with one seed are not "
        f"compared). Made with omkl "
        f"{stated['versions']['omkl']}, commit {stated['commit'] or 'unknown'}, on "
        f"{stated['machine']['processor']}; begun {stated['begun']}."
    )


def _scaling(suite: Suite) -> str:
    if suite.peers_see == "raw":
        return "standardised by what was seen, by each learner in its own way"
    return "standardised by what was seen, the same for all; blanks are the mean so far"


def _of_task(results: Results, task: str, place: Path) -> list[Part]:
    main, reference = MAIN[task], REFERENCE[task]
    errors = table.means(results, task, main)
    if errors.empty:
        return [Heading(task.capitalize()), Text("No stream of it is there.")]
    parts: list[Part] = [Heading(task.capitalize()), _summary(results, task, errors)]
    parts.append(
        Text(
            f"Ratio: error over that of {reference}, the geometric mean over the streams and its "
            "worst; streams where one of the two failed or made no error are left out of it. "
            "Rank: the mean over the streams that all learners have. µs a row: processor time of "
            "predicting and learning on one thread, the median over streams. kB: of what was "
            "learned, as kept in a file, the largest."
        )
    )
    if reference in errors:
        name = f"{task}_ratios"
        drawn = pictures.heat_map(errors, reference, place, name)
        caption = f"Error over that of {reference}; × is a learner that failed, k a thousand"
        parts += [Picture(drawn[0], caption)]
        for what in ("running", "sliding"):
            drawn = pictures.over_time(results, task, what, place, f"{task}_{what}")
            parts.append(Picture(drawn[0], f"Error {pictures.TITLES[what]}"))
    parts += significance.parts(errors, reference, place, task)
    parts += [Heading(f"{task.capitalize()}: {NAMES[main]}", 3), _scores(results, task, main)]
    for score in FURTHER:
        found = table.means(results, task, score)
        if np.isfinite(found).any(axis=None):
            parts += [Heading(f"{task.capitalize()}: {NAMES[score]}", 3)]
            parts += [_scores(results, task, score)]
    return parts + _published(results, task)


def _summary(results: Results, task: str, errors: pd.DataFrame) -> Table:
    """A row a learner: those that never failed first, the best ratio before others."""
    reference = REFERENCE[task]
    complete = errors.dropna()
    ranks = complete.rank(axis=1).mean() if len(complete) else pd.Series(dtype=float)
    us, size, mae = (table.means(results, task, name) for name in ("us_a_row", "bytes", "mae"))
    lines = []
    for learner in errors.columns:
        found = _ratios(errors, reference, learner)
        ratio, failed = _geometric(found), int(np.isinf(errors[learner]).sum())
        absolute = [_fixed(_geometric(_ratios(mae, reference, learner)))] if len(mae) else []
        cells_of_line = [
            learner, results.kind(learner), str(int(errors[learner].notna().sum())), str(failed),
            _fixed(ranks.get(learner, np.nan), 2), _fixed(ratio), *absolute,
            _plain(float(found.max())), _number(us, learner, "median"),
            _number(size / 1000.0, learner, "max"),
        ]  # fmt: skip
        lines.append((failed > 0, np.inf if np.isnan(ratio) else ratio, cells_of_line))
    lines.sort(key=lambda line: line[:2])
    of_mae = ["of MAE"] if len(mae) else []
    headings = ["", "kind", "streams", "failed", "rank", "ratio", *of_mae, "worst"]
    return Table([*headings, "µs a row", "kB"], [line for *_, line in lines], left=2)


def _ratios(errors: pd.DataFrame, reference: str, learner: str) -> pd.Series:
    """Errors over the reference's, of the streams where both are finite and above 0."""
    if learner not in errors or reference not in errors:
        return pd.Series(dtype=float)
    found = errors[learner] / errors[reference]
    return found[np.isfinite(found) & (found > 0.0)]


def _geometric(ratios: pd.Series) -> float:
    return float(np.exp(np.log(ratios).mean())) if len(ratios) else np.nan


def _fixed(value: float, digits: int = 3) -> str:
    return "" if np.isnan(value) else f"{value:.{digits}f}"


def _number(values: pd.DataFrame, learner: str, how: str) -> str:
    if learner not in values:
        return ""
    found = values[learner][np.isfinite(values[learner])]
    return _plain(float(getattr(found, how)()) if len(found) else np.nan)


def _plain(value: float) -> str:
    """A number with three digits or more; nothing for NaN."""
    return "" if np.isnan(value) else f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"


def _scores(results: Results, task: str, score: str) -> Table:
    """Learners x streams, means and deviations over the seeds; bold is a star (``stars``)."""
    found, spread = table.means(results, task, score), table.deviations(results, task, score)
    factor = 100.0 if score in PER_CENT else 1.0
    starred = table.starred(results, found, score) if score in LOWEST_IS_BEST else set()
    body = []
    for learner in found.columns:
        line = [str(learner)]
        for stream in found.index:
            value, std = found.loc[stream, learner], spread.loc[stream, learner]
            text = _cell(factor * float(value), factor * float(std), score)
            if not text or np.isinf(value):
                text = _why(results.status(str(stream), str(learner)))
            line.append(f"**{text}**" if (stream, learner) in starred else text)
        body.append(line)
    return Table(["", *map(str, found.index)], body)


def _cell(value: float, std: float, score: str) -> str:
    if not np.isfinite(value):
        return ""
    text = f"{value:.2f}" if score in PER_CENT else readable(value)
    if np.isnan(std):
        return text
    return f"{text} ± {std:.2f}" if score in PER_CENT else f"{text} ± {readable(std, value)}"


def _why(status: str) -> str:
    """What stands in a cell without a number; nothing where it has no such score."""
    return "" if status == cells.COMPLETE else status


def _published(results: Results, task: str) -> list[Part]:
    """What others have published about the same streams, beside what was rerun here."""
    streams = set(results.streams(task))
    rows = [row for row in results.suite.published if row["stream"] in streams]
    if not rows:
        return []
    score = "mae" if task == "regression" else "error_rate"
    ours = table.means(results, task, score)
    lines: list[tuple[str, float, list[str]]] = []
    factor = 100.0 if score in PER_CENT else 1.0
    for row in rows:
        value = _score_of(row, score)
        lines.append((row["stream"], value, [row["stream"], row["learner"], PUBLISHED,
                                             f"{factor * value:.4g}"]))  # fmt: skip
    for stream in ours.index:
        for learner in ours.columns:
            value = float(ours.loc[stream, learner])
            if np.isfinite(value):
                kind = results.kind(str(learner))
                lines.append((str(stream), value, [str(stream), str(learner), kind,
                                                   f"{factor * value:.4g}"]))  # fmt: skip
    lines.sort(key=lambda line: line[:2])
    sources = sorted({str(row["source"]) for row in rows})
    return [
        Heading(f"{task.capitalize()}: published and rerun", 3),
        Text(f"Published: {'; '.join(sources)}."),
        Table(["stream", "learner", "", NAMES[score]], [row for *_, row in lines], left=3),
    ]


def _score_of(row: dict[str, Any], score: str) -> float:
    return 1.0 - float(row["accuracy"]) if "accuracy" in row else float(row[score])


def _streams(results: Results) -> Table:
    body = []
    for name, stream in results.stated["streams"].items():
        if "missing" in stream:
            body.append([name, stream["task"], "", "", "", "not there", ""])
            continue
        package = f"{stream['package']} {stream['version']}" if "version" in stream else ""
        source = package or " ".join(
            str(stream[key]) for key in ("from", "dataset", "set") if key in stream
        )
        body.append(
            [
                name, stream["task"], f"{stream['rows']:,}", str(stream["columns"]),
                stream["order"], source, stream["sha256"][:12],
            ]
        )  # fmt: skip
    headings = ["stream", "task", "rows", "columns", "order", "from", "sha256 of the rows"]
    return Table(headings, body, left=2)


def _commands(results: Results) -> list[Part]:
    lines = [cell["command"] for cell in results.cells.values() if cell["command"]]
    if not lines:
        return []
    return [
        Heading("Commands"),
        Text(
            "Each row of ours is a run: typed in the folder of the results, this prints the "
            "error over all rounds (but the first in a regression) that results.csv calls as_run."
        ),
        Code("\n".join(lines)),
    ]
