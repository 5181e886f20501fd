"""Make tables of several runs: on a terminal, as CSV, Markdown, LaTeX, and on an HTML page."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from omkl.report import naming, stats
from omkl.report.frame import (
    BASELINE,
    HIDDEN,
    NUMBERS,
    frame_of,
    in_order,
    settings_in,
    with_baselines,
)
from omkl.report.naming import markdown_text, readable, value_text
from omkl.report.tables import Column, absent, fits, padded_markdown, print_columns
from omkl.runs.run_folder import FIGURES, Run
from omkl.utils import registry
from omkl.utils.disk import write_atomically
from omkl.utils.wording import few

MOST_WITH_FIGURES = 30  # a page of more runs has no figures, which take 0.5 MB per run

if TYPE_CHECKING:
    from rich.console import Console


def columns_of(frame: pd.DataFrame) -> list[Column]:
    """Return the columns of a table: error, algorithm, data set, settings and further metrics.

    The rows of ``frame`` are complete runs and baselines.
    """
    rows, settings = frame.to_dict("records"), settings_in(frame)
    names = [
        f"({row['algorithm']})" if row["status"] == BASELINE
        else registry.title(row["algorithm"])
        for row in rows
    ]  # fmt: skip
    kinds = dict.fromkeys(row["measure"] for row in rows)
    heading = " or ".join(f"{kind.short}{kind.unit}" for kind in kinds)
    columns = [
        Column(heading, [_loss_text(row) for row in rows]),
        Column("algorithm", names, is_name=True),
        Column("data set", [str(row["dataset"]) for row in rows], is_name=True),
    ]
    for name in settings:
        texts = ["" if row[name] != row[name] else value_text(row[name]) for row in rows]
        columns.append(Column(name.replace(".", ".\n"), texts, is_name=True))
    columns.append(Column("regret", [_regret_text(row) for row in rows], worth=5))
    asked = [row["al_efficiency"] for row in rows]
    if any(share < 1.0 for share in asked):
        texts = ["" if absent(share) else f"{100 * share:.3g} %" for share in asked]
        columns.append(Column("targets\nrequested", texts, worth=6))
    for heading, key, form, worth in (
        ("coverage", "coverage", "{:.1%}", 4),
        ("mean width", "width", "{:.4g}", 4),
        ("seconds", "seconds", "{:.3g}", 3),
        ("kernels\n/ row", "kernels_per_round", "{:.4g}", 2),
        ("seeds", "n_seeds", "{}", 1),
    ):
        texts = ["" if absent(row[key]) else form.format(row[key]) for row in rows]
        columns.append(Column(heading, texts, worth=worth))
    return [c for c in columns if c.is_name or (any(c.texts) and c.heading not in settings)]


def _loss_text(row: dict[str, Any]) -> str:
    kind = row["measure"]
    std = row[f"{kind.key}_std"]
    return stats.loss_text(kind, row[kind.key], None if absent(std) else std)


def _regret_text(row: dict[str, Any]) -> str:
    regret, std = row["regret"], row["regret_std"]
    if absent(regret):
        return ""
    return _brief(regret, regret) + ("" if absent(std) else f" ± {_brief(std, regret)}")


def _brief(value: float, like: float) -> str:
    """Format a number with two decimals, or as ``readable`` does if ``like`` is 100 or more."""
    return f"{value:.2f}" if abs(like) < 100 else readable(value, like)


def notes_of(frame: pd.DataFrame) -> list[str]:
    """Return the notes below a table, which explain the star and the comparators of the regret."""
    rows = [
        row | {"name": _called(row), "described": described(row, settings_in(frame))}
        for row in frame.to_dict("records")
        if row["status"] != BASELINE
    ]
    measures = " or ".join(dict.fromkeys(row["measure"].short for row in rows))
    notes = [stats.meaning(rows, measures)]
    if against := list(dict.fromkeys(r["comparator"] for r in rows if r["comparator"])):
        without = dict.fromkeys(row["name"] for row in rows if not row["comparator"])
        if without:
            against.append(
                f"none was computed for {few(without)} (regret.ridge_features=true computes one)"
            )
        notes.append(f"Regret against: {'; '.join(against)}")
    return notes


def _called(row: dict[str, Any]) -> str:
    return f"{registry.title(row['algorithm'])} on {row['dataset']}"


def described(row: dict[str, Any], settings: Iterable[str]) -> str:
    """Return the name of a run: its algorithm, its data set and the settings that vary."""
    given = {name: row[name] for name in settings if row[name] == row[name]}
    return ", ".join(filter(None, [_called(row), naming.pairs_text(given)]))


def failures_of(frame: pd.DataFrame) -> dict[str, list[str]]:
    """Return the names of the failed runs of a frame, by error message."""
    found: dict[str, list[str]] = {}
    for row in frame[frame["status"] == "failed"].to_dict("records"):
        found.setdefault(row["error"], []).append(described(row, settings_in(frame)))
    return found


# --- forms ----------------------------------------------------------------------------------------


def print_frame(frame: pd.DataFrame, console: Console, sort: str = "") -> None:
    """Print a table of complete runs and baselines with notes, and then the failed runs.

    Parameters
    ----------
    frame
        Runs as ``frame_of`` returns them.
    console
        Output.
    sort
        As in ``in_order``.
    """
    from rich.padding import Padding
    from rich.text import Text

    shown = shown_of(frame, sort)
    if len(shown):
        columns, notes = columns_of(shown), [f"* {notes_of(shown)[0]}", *notes_of(shown)[1:]]
        for column in list(columns):  # if all rows have the same value, a note states it
            values = {text for text in column.texts if text}
            if column.title in ("data set", "seeds") and len(values) == 1:
                columns.remove(column)
                notes.append(f"{column.title}: {values.pop()}")
        if any(text.startswith("(") for text in columns[1].texts):
            notes.append("(in brackets): a baseline, which has no kernel")
        stars = [bool(best) for best in shown["best"]]
        columns[0] = columns[0]._replace(
            texts=[f"{t} {'*' if s else ' '}" for t, s in zip(columns[0].texts, stars, strict=True)]
        )
        names = settings_in(frame)
        if names and not fits([c for c in columns if c.worth is None], console):
            columns = _with_settings_together(columns, names)
        datasets = shown["dataset"].tolist()
        ends = [i for i, name in enumerate(datasets[1:]) if name != datasets[i]]
        left_out = print_columns(columns, console, stars, ends)
        if set(shown["n_seeds"].dropna()) != {1} and "seconds" not in left_out:
            notes.append("seconds: of all seeds together")
        if left_out:
            notes.append(
                f"Hidden columns: {', '.join(left_out)} (widen the terminal, or format=csv)"
            )
        console.print()
        for note in notes:
            console.print(Text(note))
    failures = frame[frame["status"] == "failed"]
    if len(failures):
        console.print(Text(f"\n{len(failures)} not complete"))
    for error, which in failures_of(frame).items():
        console.print(Padding(Text(f"{few(which)}: {error}"), (0, 0, 0, 2)))
        folder = failures["folder"][failures["error"] == error].iloc[0]
        console.print(Text(f"  {folder}"), soft_wrap=True)  # not wrapped, so that it can be copied


def _with_settings_together(columns: Sequence[Column], names: Sequence[str]) -> list[Column]:
    """Join the columns of settings into one column."""
    settings = [column for column in columns if column.title in names]
    texts = [
        ", ".join(f"{c.title}={text}" for c, text in zip(settings, line, strict=True) if text)
        for line in zip(*(column.texts for column in settings), strict=True)
    ]
    first = columns.index(settings[0])
    others = [column for column in columns if column not in settings]
    return [*others[:first], Column("settings", texts, is_name=True), *others[first:]]


def shown_of(frame: pd.DataFrame, sort: str = "") -> pd.DataFrame:
    """Return complete runs and baselines in the order of a table."""
    return in_order(with_baselines(frame), sort)


def csv(frame: pd.DataFrame, sort: str = "") -> str:
    """Return CSV text with a line per run, baseline and failed run. Numbers are not rounded."""
    failed = frame[frame["status"] == "failed"]
    frame = pd.concat([shown_of(frame, sort), failed]).drop(columns=HIDDEN)
    frame = frame.drop(columns=[name for name in NUMBERS if frame[name].isna().all()])
    frame["algorithm"] = [
        f"{name} (baseline)" if status == BASELINE else registry.title(name)
        for name, status in zip(frame["algorithm"], frame["status"], strict=True)
    ]
    columns = {_safe(name): pd.Series([*map(_safe, frame[name])], dtype=object) for name in frame}
    frame = pd.DataFrame(columns)
    return str(frame.to_csv(index=False, lineterminator="\n"))


def _safe(cell: Any) -> Any:
    """Escape a text that a spreadsheet would read as a formula."""
    if not (isinstance(cell, str) and cell.startswith(("=", "+", "-", "@"))):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def markdown(frame: pd.DataFrame, sort: str = "") -> str:
    parts = []
    shown = shown_of(frame, sort)
    if len(shown):
        columns = columns_of(shown)
        body = [
            list(map(markdown_text, line)) for line in zip(*(c.texts for c in columns), strict=True)
        ]
        for line, best in zip(body, shown["best"], strict=True):
            line[0] = f"**{line[0]}**" if best else line[0]
        left = [column.is_name for column in columns]
        parts.append(padded_markdown([markdown_text(c.title) for c in columns], body, left))
        parts += [f"Bold: {notes_of(shown)[0]}. Seconds: all seeds together.", *notes_of(shown)[1:]]
    if failures := failures_of(frame):
        parts.append("Not complete:")
        parts += [f"- {markdown_text(f'{few(n)}: {error}')}" for error, n in failures.items()]
    return "\n\n".join(parts) + "\n"


def latex(frame: pd.DataFrame, sort: str = "") -> str:
    """Return a LaTeX table, which needs the package booktabs."""
    shown = shown_of(frame, sort)
    columns = columns_of(shown)
    table = pd.DataFrame({c.title: c.texts for c in columns})
    bold = pd.DataFrame("", index=table.index, columns=table.columns)
    bold.iloc[:, 0] = ["textbf:--rwrap;" if best else "" for best in shown["best"]]
    styler = table.style.format(escape="latex").format_index(escape="latex", axis=1)
    styler = styler.hide(axis="index").apply(lambda _: bold, axis=None)
    sides = "".join("l" if column.is_name else "r" for column in columns)
    text = styler.to_latex(hrules=True, column_format=sides)
    return f"% needs \\usepackage{{booktabs}}\n{text}"


def write(frame: pd.DataFrame, folder: Path) -> list[Path]:
    """Write table.csv, with numbers that are not rounded, and table.md. Return their paths."""
    paths = [folder / "table.csv", folder / "table.md"]
    write_atomically(paths[0], csv(frame))
    write_atomically(paths[1], markdown(frame))
    return paths


# --- Page -----------------------------------------------------------------------------------------


def write_page(runs: Sequence[Run], path: Path, figures: Iterable[Path] = ()) -> Path:
    """Write the page of several runs, and return its path.

    Parameters
    ----------
    runs
        Runs, including failed runs.
    path
        Path of the HTML file.
    figures
        PNG files to show below the table.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page(runs, figures))
    return path


def page(runs: Sequence[Run], figures: Iterable[Path] = ()) -> str:
    """Return the page as HTML. All content of run folders is escaped."""
    import jinja2

    frame = frame_of(runs)
    shown = shown_of(frame)
    columns, rows = columns_of(shown), shown.to_dict("records")
    star, *notes = notes_of(shown)
    complete = [run for run in runs if run.complete]
    learners = dict.fromkeys(map(naming.name_of, complete))
    datasets = [row["dataset"] for row in rows]
    ends = [a != b for a, b in zip(datasets, [*datasets[1:], None], strict=True)]
    texts = zip(*(column.texts for column in columns), strict=True)
    folders = [run.folder for run in complete if len(complete) <= MOST_WITH_FIGURES]
    drawn = {folder: _images(sorted((folder / FIGURES).glob("*.png"))) for folder in folders}
    legend, streams = naming.legend(complete), naming.streams(complete)
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    templates = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined
    )
    return templates.get_template("page.html").render(
        title=f"{few(learners)} on {few(dict.fromkeys(datasets))}",
        columns=columns,
        lines=zip(rows, ends, texts, strict=True),
        notes=[f"Bold: {star}", *notes],
        failures=[f"{few(n)}: {error}" for error, n in failures_of(frame).items()],
        pictures=_images(figures),
        runs=[
            {
                "name": f"{entry} on {stream}",
                "computed": f"computed {run.result['started']}, commit {run.result['commit']}",
                "command": naming.command(run),
                "pictures": drawn.get(run.folder, []),
            }
            for run, entry, stream in zip(complete, legend, streams, strict=True)
        ],
    )


def _images(paths: Iterable[Path]) -> list[tuple[str, str]]:
    """Return the name and the content in base 64 of each PNG file."""
    return [(path.stem, base64.b64encode(path.read_bytes()).decode()) for path in paths]
