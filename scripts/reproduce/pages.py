"""Markdown pages of the published tables and ours: an overview, and two pages per paper."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from omkl.experiment.metrics import mean_and_deviation
from omkl.report import naming
from omkl.report.naming import markdown_text
from omkl.report.stats import NAMES, computed
from omkl.runs import provenance
from omkl.runs.run_folder import Run
from omkl.utils import conf
from omkl.utils.disk import write_atomically
from reproduce import figures, omkc, regret_bounds, theorems
from reproduce.figures import Drawn, Filled
from reproduce.results import MEANINGS, NO_DATA, Runs, counts, distances, effects, fill
from reproduce.tables import CITED, FOLDER, METRICS, VARIANTS, WRITTEN, Table, settings_text

TITLE = "Published and reproduced: online multi-kernel learning"
MANY, FEW = 0.9, 0.1  # shares of the numbers from which a paper reproduces, and up to which not
NOT_RUN = "not run"
MAX_COLUMNS = 6  # of a table; two metrics with more have a panel each
BASELINES = ("mean", "last", "ridge")
MARKS = {
    "reproduced": ("**", "**"),
    "consistent": ("**", "**"),
    "close": ("*", "*"),
    "scatters": ("", "?"),
}
LEGEND = (
    "Our numbers: **bold** reproduced or consistent, *italic* close, ? scatters, – no data; "
    "without a mark: differs or unpublished. Data sets that are not at hand are only in the "
    "[CSV]({0}_cells.csv). [Notes and settings]({0}_cells.md#notes)."
)
VERDICTS = "| verdict | our number |\n|---|---|\n" + "\n".join(
    f"| {name} | {markdown_text(meaning)} |" for name, meaning in MEANINGS.items()
)


def papers() -> list[dict[str, Any]]:
    """Return the files of ``papers/`` in their order, with their names as ``file``."""
    files = sorted((FOLDER / "papers").glob("*.yaml"))
    return sorted(({"file": f.stem, **conf.read(f)} for f in files), key=lambda p: p["order"])


def write(tables: Sequence[Table], runs: Runs, folder: Path) -> list[Path]:
    """Write README.md, and for each paper a page, a page of all cells, these as CSV, and figures.

    Parameters
    ----------
    tables
        All published tables.
    runs
        The run of each of their jobs.
    folder
        Where the pages go.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pages: dict[str, str] = {}
    every: dict[str, tuple[dict[str, Any], pd.DataFrame]] = {}
    drawn: list[Drawn] = []
    for paper in papers():
        own = {table.name: table for table in tables if table.paper == paper["paper"]}
        filled = Filled(own, {name: fill(table, runs) for name, table in own.items()}, runs)
        cells = pd.concat(filled.cells.values(), ignore_index=True)
        every[paper["file"]] = paper, cells
        pictures, dumbbells = list[Drawn](), list[Drawn]()
        if answer(counts(cells)) != NOT_RUN:
            pictures = figures.FIGURES[paper["file"]](filled, folder)
            shown = cells[cells["table"].isin(paper["drawn"])]
            titles = {name: table.title for name, table in own.items()}
            dumbbells = figures.dumbbells(shown, titles, folder, paper["file"])
        pages[f"{paper['file']}.md"] = _paper_page(paper, filled, cells, dumbbells)
        pages[f"{paper['file']}_cells.md"] = _cells_page(paper, filled, pictures)
        pages[f"{paper['file']}_cells.csv"] = csv(cells)
        drawn += [*dumbbells, *pictures]
    bounds = next(table for table in tables if table.name == omkc.TABLE)
    pages["omkc.md"] = omkc.page(bounds, runs, table_parts(bounds, fill(bounds, runs))) + "\n"
    pages["README.md"] = _overview(every, list(runs.values()), folder)
    for name, text in pages.items():
        write_atomically(folder / name, text)
    return [*(folder / name for name in pages), *(one.path for one in drawn)]


def csv(cells: pd.DataFrame) -> str:
    """Return filled cells as CSV, a line per cell and variant."""
    results = [run.result if run is not None else {} for run in cells["run"]]
    columns = [
        "table", "row", "column", "dataset", "metric", "shown", "algorithm", "published",
        "published_std", "ours", "std", "margin", "difference", "ratio", "verdict", "reason",
    ]  # fmt: skip
    table = cells[columns].rename(columns={"shown": "variant"}).assign(
        commit=[result.get("commit") for result in results],
        run=[run and "/".join(run.folder.parts[-3:]) for run in cells["run"]],
    )  # fmt: skip
    return table.to_csv(index=False)


# --- Markdown -------------------------------------------------------------------------------------


def markdown(headings: Sequence[str], body: Iterable[Sequence[Any]], left: int = 1) -> str:
    """Return a table whose cells hold Markdown.

    Parameters
    ----------
    headings
        Headings.
    body
        Lines of cells.
    left
        Number of first columns that are flush left.
    """
    rule = ["---" if column < left else "--:" for column in range(len(headings))]
    head, *lines = (f"| {' | '.join(map(str, line))} |" for line in (headings, *body))
    return "\n".join([head, f"|{'|'.join(rule)}|", *lines])


def _pictures(drawn: Sequence[Drawn]) -> list[str]:
    alternative = [re.split(r"[:.;]", one.caption)[0] for one in drawn]
    return [
        f"![{text}]({one.path.name})\n\n{one.caption}"
        for text, one in zip(alternative, drawn, strict=True)
    ]


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(filter(None, parts)) + "\n"


def _minus(text: str) -> str:
    return text.replace("-", "−")


# --- tables ---------------------------------------------------------------------------------------


def name_of(paper: str, table: Table) -> str:
    """Return "JMLR, table 1: its title (its unit)"."""
    metrics = list(table.cells["metric"].unique())
    unit = f" ({METRICS[metrics[0]].heading})" if len(metrics) == 1 else ""
    number = f", table {table.number}" * bool(table.number)
    return f"{paper}{number}: {table.title}{unit}"


def lines_of(
    cells: pd.DataFrame, notes: Mapping[tuple[str, str], str]
) -> tuple[list[str], list[list[str]]]:
    """Return headings and lines of one panel: published numbers, then ours, a line per variant.

    ``notes`` are marks of footnotes by row and column; "" stands for all rows or columns.
    """
    columns = list(cells["column"].unique())
    headings = ["", "", *(column + notes.get(("", column), "") for column in columns)]
    body: list[list[str]] = []
    for row, group in cells.groupby("row", sort=False):
        label = f"{row}{notes.get((str(row), ''), '')}"
        first = group.drop_duplicates("column").set_index("column")
        if first["published"].notna().any():
            texts = [_number(c["published"], c["published_std"], 2) for _, c in first.iterrows()]
            body.append([label, "published", *texts])
            label = ""
        for shown, of_variant in group.groupby("shown", sort=False):
            by_column = of_variant.set_index("column").reindex(columns)
            written = of_variant["variant"].iloc[0] == WRITTEN
            texts = [
                "" if isinstance(cell["verdict"], float)  # the cell has no such variant
                else _ours(cell) + (notes.get((str(row), column), "") if written else "")
                for column, cell in by_column.iterrows()
            ]  # fmt: skip
            body.append([label, str(shown), *texts])
            label = ""
    return headings, body


def _ours(cell: pd.Series) -> str:
    if cell["ours"] is None or math.isnan(cell["ours"]):
        return cell["reason"] if cell["verdict"] == "absent" else cell["verdict"]
    timed = cell["verdict"] == "timed"
    digits = (
        2 if not timed or cell["ours"] <= 0 else max(0, 1 - math.floor(math.log10(cell["ours"])))
    )
    text = _number(cell["ours"], cell["std"], digits)
    if timed:
        times = cell["ratio"] if cell["ratio"] >= 1 else 1 / cell["ratio"]
        shown = f"{times:,.0f}" if times >= 9.95 else f"{times:.1f}"
        return f"{text}<br>{shown} × {'faster' if cell['ratio'] >= 1 else 'slower'}"
    if cell["difference"] is None or math.isnan(cell["difference"]):
        return text
    percent = _minus(f"{cell['difference']:+.1f}")
    return f"{text}<br>{'0.0' if percent[1:] == '0.0' else percent} %, {cell['verdict']}"


def _number(value: float, std: float | None, digits: int) -> str:
    if value is None or math.isnan(value):
        return ""
    spread = "" if std is None or math.isnan(std) else f" ± {std:.{digits}f}"
    return f"{value:.{digits}f}{spread}"


def table_parts(table: Table, cells: pd.DataFrame, judged: bool = True) -> list[str]:
    """Return the panels of a table, its counts and its footnotes; [] without cells of that kind.

    Parameters
    ----------
    table
        Table.
    cells
        Its filled cells.
    judged
        True for metrics with a verdict, False for run times.
    """
    cells = cells[cells["metric"].map(lambda metric: METRICS[metric].judged) == judged]
    if cells.empty:
        return []
    columns = set(cells["column"])
    marked = [n for n in table.footnotes if n["rows"] or set(n["columns"]) & columns]
    notes: dict[tuple[str, str], str] = {}
    for number, note in enumerate(marked, start=1):
        for row in note["rows"] or [""]:
            for column in note["columns"] or [""]:
                notes[row, column] = notes.get((row, column), "") + f" <sup>{number}</sup>"
    metrics = list(cells["metric"].unique())
    parts: list[str] = []
    n_columns = len(cells[["column", "metric"]].drop_duplicates())
    if len(metrics) > 1 and n_columns > MAX_COLUMNS:
        for metric in metrics:
            panel = cells[cells["metric"] == metric]
            parts += [f"**{METRICS[metric].heading}**", markdown(*lines_of(panel, notes), 2)]
    else:
        parts = [markdown(*lines_of(cells, notes), 2)]
    parts += [f"{count_text(cells)}."] if not judged or cells["judged"].any() else []
    parts += [n["text"] for n in table.footnotes if not n["rows"] and not n["columns"]]
    if marked:
        parts.append("\n".join(f"{k}. {n['text']}" for k, n in enumerate(marked, start=1)))
    failures = cells[cells["verdict"] == "failed"]
    return [*parts, *(f"failed: {c.row}, {c.column}: {c.reason}" for c in failures.itertuples())]


def count_text(cells: pd.DataFrame) -> str:
    """Return "as written: reproduced 12, close 3; rebuilt: ..."."""
    judged = cells[cells["judged"]]
    if judged.empty:
        return f"{len(cells)} run times, without a verdict"
    parts = []
    for shown in (*VARIANTS.values(), CITED):
        verdicts = judged[judged["shown"] == shown]["verdict"].value_counts()
        named = [f"{name} {verdicts[name]}" for name in (*MEANINGS, "absent") if name in verdicts]
        parts += [f"{shown}: {', '.join(named)}"] if named else []
    return "; ".join(parts)


# --- one page for all papers ----------------------------------------------------------------------


def _overview(
    every: Mapping[str, tuple[dict[str, Any], pd.DataFrame]], runs: Sequence[Run], folder: Path
) -> str:
    cells = pd.concat([of_paper for _, of_paper in every.values()], ignore_index=True)
    total, judged = counts(cells), cells[cells["judged"]]
    in_several = (judged.groupby("identity")["table"].nunique() > 1).sum()
    written, released, rebuilt, searched = (_share(total.loc[shown]) for shown in VARIANTS.values())
    body, reasons = [], []
    for file, (paper, of_paper) in every.items():
        table = counts(of_paper)
        shares = (_share(table.loc[shown]) for shown in VARIANTS.values())
        found = answer(table)
        body.append([f"[{paper['name']}]({file}.md)", found, *shares])
        if found != NOT_RUN:
            reasons.append(f"- {paper['name']}: {markdown_text(paper['why_not'])}")
    headings = ["paper", "does it reproduce?", *VARIANTS.values()]
    errata = folder.parent / "errata.md"
    complete = [run for run in runs if run.complete]
    links = ["- [OMKC: bounds and corollaries evaluated; the paper has no experiments](omkc.md)"]
    if (folder / "logistic.md").exists():
        links += ["- [JMLR: its learners as classifiers, with the logistic loss](logistic.md)"]
    links += ["- [Mistakes in the papers](../errata.md)"] if errata.exists() else []
    return _joined([
        f"# {TITLE}",
        f"The papers publish {judged['identity'].nunique()} different numbers besides run "
        f"times. {in_several} of them are in two tables: this page counts them once, and the "
        "page of a paper counts them in each table. omkl computes each number in one or several "
        "of five ways:",
        "\n".join([
            f"- as written: with the settings that the paper states ({written})",
            f"- authors' code: with the rules of the authors' public code ({released})",
            f"- rebuilt: with the rules of related public code ({rebuilt})",
            "- found by search: with settings that a search chose because they give the published "
            f"numbers ({searched}). These settings are never a default",
            "- as cited: learners that a paper only cites, with the rules of the cited paper "
            f"({_share(total.loc[CITED])})",
        ]),
        markdown(headings, body, left=6),
        "A paper reproduces if, as written, at least "
        f"{100 * MANY:.0f} % of its numbers are reproduced or consistent, and does not if at most "
        f"{100 * FEW:.0f} % are. Otherwise it reproduces in part.",
        *(["Why not?", "\n".join(reasons)] if reasons else []),
        "## Verdicts", VERDICTS,
        "A claim holds if, as written, it holds on every data set at hand.",
        "`make table TABLE=jmlr_table1` recomputes a table.",
        "## More pages", "\n".join(links),
        *(["## Made with", "\n".join(_facts(complete))] if complete else []),
    ])  # fmt: skip


def answer(table: pd.DataFrame) -> str:
    """Return "yes", "in part" or "no", by the numbers that can be compared as written."""
    verdicts = table.loc[VARIANTS[WRITTEN]]
    n = _compared(verdicts)
    if not n:
        return NOT_RUN
    share = (verdicts["reproduced"] + verdicts["consistent"]) / n
    return "yes" if share >= MANY else "no" if share <= FEW else "in part"


def verdict_text(cells: pd.DataFrame) -> str:
    """Return the answer for a paper, and the number of results with each verdict."""
    found = answer(counts(cells)).capitalize()
    verdicts = count_text(cells).capitalize()
    return f"{found}. The cells have these [verdicts](README.md#verdicts). {verdicts}."


def _compared(verdicts: pd.Series) -> int:
    return int(verdicts.drop(["no data", "failed", "absent"]).sum())


def _share(verdicts: pd.Series) -> str:
    """Return "44 of 92 reproduced, 3 consistent; 4 cannot be compared"."""
    n, total = _compared(verdicts), int(verdicts.sum())
    if not n:
        return f"none of {total} run" if total else "none"
    consistent = f", {verdicts['consistent']} consistent" if verdicts["consistent"] else ""
    rest = f"; {total - n} cannot be compared" if n < total else ""
    return f"{verdicts['reproduced']} of {n} reproduced{consistent}{rest}"


def _facts(runs: Sequence[Run]) -> list[str]:
    """Return commands, commits, machines and versions of the runs; several if runs differ."""
    results = [run.result for run in runs]
    commits = pd.Series([str(result["commit"]) for result in results]).value_counts()
    facts = {
        "command": "make reproduce-tables",
        "page": f"written at {provenance.commit() or 'no commit'}",
        "runs": "; ".join(f"{n} at {name}" for name, n in commits.items()),
        "computed": f"{min(r['started'] for r in results)} to {max(r['started'] for r in results)}",
    }
    for key in ("machine", "versions"):
        every = {", ".join(f"{k} {v}" for k, v in result[key].items()) for result in results}
        facts[key] = "; ".join(sorted(every))
    return [f"- {name}: {text}" for name, text in facts.items()]


# --- two pages for each paper ---------------------------------------------------------------------


def _paper_page(
    paper: dict[str, Any], filled: Filled, cells: pd.DataFrame, drawn: list[Drawn]
) -> str:
    panels = numbers(paper["name"], filled.tables, filled.cells)
    folded = []
    for summary, panel in panels.items():
        folded += ['<details markdown="1">', f"<summary>{summary}</summary>", *panel, "</details>"]
    return _joined([
        f"# {paper['title']}", "## Does it reproduce?", verdict_text(cells),
        "" if answer(counts(cells)) == NOT_RUN else paper["verdict"], claims_table(paper, cells),
        "A cell counts the data sets on which the claim holds. The brackets have the smallest and "
        "the largest difference between the first learner and the best other learner.",
        *_pictures(drawn), "## Settings that differ from the text",
        "Each cell is the mean distance of our numbers from the published numbers that the setting "
        "affects.",
        _known_table(paper, cells), "## Numbers", LEGEND.format(paper["file"]), *folded,
        f'`make table TABLE="{" ".join(filled.tables)}"` recomputes these tables.',
    ])  # fmt: skip


def _note(note: Mapping[str, Any]) -> str:
    about = ", ".join(map(str, [*note["rows"], *note["columns"]]))
    return f"**{markdown_text(about)}:** {note['text']}" if about else note["text"]


def _settings(filled: Filled) -> list[str]:
    """Return the settings that most runs of a table share, once for tables that share them."""
    tables: dict[str, list[str]] = {}
    for table in filled.tables.values():
        text = settings_text(table, list(table.cells["job"].dropna()))
        tables.setdefault(markdown_text(text), []).append(table.number)
    return [
        f"- table{'s' * (len(named) > 1)} {', '.join(named)}: {text}"
        for text, named in tables.items()
    ]


def numbers(
    paper: str, tables: Mapping[str, Table], cells: Mapping[str, pd.DataFrame]
) -> dict[str, list[str]]:
    """Return the published numbers and ours: panels by summary, without rows shown before.

    Tables that have one judged column each and the same rows become one panel with a column per
    table.
    """
    judged = {
        name: of[of["metric"].map(lambda metric: METRICS[metric].judged)]
        for name, of in cells.items()
    }
    if all(of["column"].nunique() == 1 for of in judged.values()):
        titled = [of.assign(column=tables[name].title) for name, of in judged.items()]
        merged = pd.concat(titled, ignore_index=True)
        unit = METRICS[merged["metric"].iloc[0]].heading
        first, *_, last = (table.number for table in tables.values())
        return {f"{paper}, tables {first} to {last} ({unit})": [_stacked(merged)]}
    panels: dict[str, list[str]] = {}
    seen: set[tuple[object, ...]] = set()
    for name, of_table in judged.items():
        parts = []
        for metric, panel in of_table.groupby("metric", sort=False):
            shown = [
                row
                for _, row in panel.groupby("row", sort=False)
                if not set(_identities(row)) <= seen and not _by_definition(row)
            ]
            if shown:
                heading = f"**{METRICS[str(metric)].heading}**"
                several = of_table["metric"].nunique() > 1
                parts += [heading] * several + [_stacked(pd.concat(shown))]
        if parts:
            panels[name_of(paper, tables[name])] = parts
        seen.update(_identities(of_table))
    return panels


def _by_definition(row: pd.DataFrame) -> bool:
    return row["published"].notna().any() and not row["judged"].any()


def _identities(cells: pd.DataFrame) -> list[tuple[object, ...]]:
    return list(zip(cells["job"], cells["measured"], cells["published"].notna(), strict=True))


def _stacked(cells: pd.DataFrame) -> str:
    """Return a table with a line per row: published number and our variants in one cell.

    Columns without any data are omitted, unless no column has data.
    """
    here = cells[cells["verdict"].notna() & (cells["verdict"] != NO_DATA)]
    columns = list((cells if here.empty else here)["column"].unique())
    body = []
    for row, group in cells.groupby("row", sort=False):
        first = group.drop_duplicates("column").set_index("column").reindex(columns)
        lines, labels = list[list[str]](), list[str]()
        if first["published"].notna().any():
            lines.append([f"{value:.2f}" for value in first["published"].astype(float)])
            labels.append("published")
        for shown, of_variant in group.groupby("shown", sort=False):
            by_column = of_variant.set_index("column").reindex(columns)
            lines.append([_marked(cell) for _, cell in by_column.iterrows()])
            labels.append(str(shown))
        together = ["<br>".join(cell) for cell in zip(*lines, strict=True)]
        # a label that wraps would stand beside another number
        body.append([row, "<br>".join(labels).replace(" ", "&nbsp;"), *together])
    return markdown(["", "", *columns], body, 2)


def _marked(cell: pd.Series) -> str:
    """Return our number with the mark of its verdict, see ``LEGEND``."""
    if isinstance(cell["verdict"], float):  # the cell has no such variant
        return ""
    if cell["ours"] is None or math.isnan(cell["ours"]):
        return "–" if cell["verdict"] == NO_DATA else cell["verdict"]
    before, after = MARKS.get(cell["verdict"], ("", ""))
    return f"{before}{cell['ours']:.2f}{after}"


def claims_table(paper: Mapping[str, Any], cells: pd.DataFrame) -> str:
    found = [(claim, effects(claim, cells)) for claim in paper["claims"]]
    shown = [v for v in ("published", *VARIANTS.values()) if any(v in of for _, of in found)]
    body = []
    for claim, of_variant in found:
        limit = claim.get("at_most", 0.0)
        held = {what: (p < 0) | (p <= limit) for what, p in of_variant.items()}
        texts = [
            f"{held[v].sum()} of {len(held[v])} ({_range(of_variant[v])} %)" if v in held else ""
            for v in shown
        ]
        body.append([markdown_text(claim["text"]), claim_verdict(held), *texts, _tables(claim)])
    return markdown(["claim", "our verdict", *shown, "table"], body, left=len(shown) + 3)


def _tables(claim: Mapping[str, Any]) -> str:
    names = [name.replace("_", r"\_") for name in claim["tables"]]
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def claim_verdict(held: Mapping[str, np.ndarray]) -> str:
    """Return the verdict on a claim. ``held`` states per variant on which data sets it holds."""
    ours = {what: each for what, each in held.items() if what != "published"}
    everywhere = [what for what, each in ours.items() if each.all()]
    if not ours:
        return NOT_RUN
    if VARIANTS[WRITTEN] in everywhere:
        return "holds"
    if everywhere:
        return f"only {' and '.join(everywhere)}"
    return "in part" if any(each.any() for each in ours.values()) else "does not hold"


def _range(percents: np.ndarray) -> str:
    ends = dict.fromkeys(f"{one:+.0f}" for one in (percents.min(), percents.max()))
    return _minus(" to ".join(ends))


def _known_table(paper: Mapping[str, Any], cells: pd.DataFrame) -> str:
    measured = [(known, distances(known, cells)) for known in paper["known"]]
    shown = [v for v in VARIANTS.values() if any(v in of for _, of in measured)]
    body = [
        [markdown_text(known["text"]), *(f"{of[v]:.1f} %" if v in of else "" for v in shown)]
        for known, of in measured
    ]
    return markdown(["", *shown], body)


def _cells_page(paper: dict[str, Any], filled: Filled, drawn: list[Drawn]) -> str:
    notes = dict.fromkeys(_note(n) for t in filled.tables.values() for n in t.footnotes)
    return _joined([
        f"# {paper['name']}: notes, settings, figures and theory",
        f"- [{paper['name']}: {paper['title']}]({paper['file']}.md)\n"
        f"- [All cells as CSV]({paper['file']}_cells.csv)",
        "## Notes", "\n".join(f"- {note}" for note in notes),
        "## Settings of the runs", "\n".join(_settings(filled)),
        "## Figures", *_pictures(drawn), *_active_regret(paper, filled),
        *_theory(paper, filled), *_baselines(paper, filled),
    ])  # fmt: skip


def _active_regret(paper: Mapping[str, Any], filled: Filled) -> list[str]:
    """Return the table of regret (15) of Hong and Chae, with the slope of its logarithm."""
    if "active_table3" not in filled.cells:
        return []
    cells = filled.cells["active_table3"].drop_duplicates(["row", "dataset", "variant"])
    datasets = list(cells["dataset"].unique())
    body = []
    for (_, row), group in cells.groupby(["variant", "row"], sort=False):
        by_dataset = group.set_index("dataset")["run"].reindex(datasets)
        texts = [_regret_text(run) if isinstance(run, Run) else "" for run in by_dataset]
        if any(texts):
            body.append([row, group["shown"].iloc[0], *texts])
    heading = "### Regret of the active learners"
    return [heading, paper["regret"], markdown(["learner", "settings", *datasets], body, 2)]


def _regret_text(run: Run) -> str:
    if not run.complete or figures.RIDGE not in run.curves:
        return ""
    regret = run.curves[figures.RIDGE]
    slope = regret_bounds.fitted_slope(run.curves["t"], regret.mean(axis=0))
    mean, std = mean_and_deviation(regret[:, -1])
    text = f"{mean:.2f}" if std is None else f"{mean:.2f} ± {std:.2f}"
    return _minus(text + ("" if slope is None else f" ({slope:.2f})"))


def _theory(paper: Mapping[str, Any], filled: Filled) -> list[str]:
    """Return the theorems of the runs of table 1, and which of their conditions hold."""
    if "jmlr_table1" not in filled.cells:
        return []
    runs = [run for run in filled.of("jmlr_table1") if figures.RIDGE in run.curves]
    runs = [run for run in runs if theorems.theorem_meant(run.result["algorithm"])]
    if not runs:
        return []
    body, judged = [], []
    notes: dict[str, dict[str, None]] = {}
    for run in runs:
        result, t = run.result, run.curves["t"]
        regret, bound = run.curves[figures.RIDGE].mean(axis=0), theorems.bound_of_run(run)
        slope, theorem = (
            regret_bounds.fitted_slope(t, regret),
            theorems.THEOREMS[result["algorithm"]],
        )
        body.append([
            naming.name_of(run), result["dataset"], f"{t[-1]:,}", f"{regret[-1]:.1f}",
            "" if slope is None else _minus(f"{slope:.2f}"),
            f"{theorem.rate:.2g} ({theorem.name})",
            "" if bound is None else f"{bound.value[-1]:.1e}",
            "" if bound is None else f"{bound.full:.1e}",
        ])  # fmt: skip
        if bound is not None:
            for note in bound.notes:
                notes.setdefault(note, {})[bound.theorem] = None
            judged += [
                {"name": a.name, "holds": a.holds, "text": a.text, "learner": naming.name_of(run),
                 "dataset": result["dataset"]}
                for a in theorems.assumptions(run)
            ]  # fmt: skip
    headings = ["learner", "data set", "T", "regret", "fitted slope", "promised slope",
                "bound, random features", "bound, kernel's space"]  # fmt: skip
    lines = []
    for name, group in pd.DataFrame(judged).groupby("name", sort=False):
        failing = group[[holds is False for holds in group["holds"]]]
        texts = [f"{row.learner} on {row.dataset}: {row.text}" for row in failing.itertuples()]
        if failing["text"].nunique() == 1:
            texts = [failing["text"].iloc[0]]
        elif len(texts) > 1:
            texts = [texts[0], f"{len(texts) - 1} more"]
        numbers = [
            sum(holds is answer for holds in group["holds"]) for answer in (True, False, None)
        ]
        lines.append([markdown_text(str(name)), *numbers, markdown_text("; ".join(texts))])
    D, d = runs[0].result["D"], sorted({run.result["n_inputs"] for run in runs})
    chance = theorems.PROBABILITY
    needed = [regret_bounds.features_needed(0.1, chance, n, n) for n in d]
    smallest = [regret_bounds.smallest_epsilon(chance, n, D, n) for n in d]
    return [
        "## Theory and experiment", paper["regret"], markdown(headings, body, 2),
        "\n".join(f"- {', '.join(names).capitalize()}: {note}" for note, names in notes.items()),
        "### Assumptions on these data",
        markdown(["assumption", "holds", "fails", "cannot be told", "where it fails"], lines),
        f"The theorems hold up to an error epsilon of the random features. With D = {D} features "
        f"of a Gaussian kernel of variance 1, they guarantee an error below epsilon with "
        f"probability {chance:g} only for an epsilon of at least {min(smallest):.1f} to "
        f"{max(smallest):.1f}, depending on the number of inputs. No error exceeds 2, so an "
        f"epsilon above 2 guarantees nothing. An epsilon of 0.1 needs {min(needed):,.0f} to "
        f"{max(needed):,.0f} features.",
    ]  # fmt: skip


def _baselines(paper: Mapping[str, Any], filled: Filled) -> list[str]:
    """Return the MSE of forecasters without a kernel, and the least published MSE."""
    cells = pd.concat(filled.cells.values(), ignore_index=True)
    cells = cells[cells["judged"] & (cells["metric"] == "mse_e3")]
    cells = cells[[
        run is not None and run.complete and "federated" not in run.result
        and bool(computed(run.result)) for run in cells["run"]
    ]]  # fmt: skip
    body = []
    for dataset, group in cells.groupby("dataset", sort=False):
        best = group.loc[group["published"].idxmin()]
        entries = [computed(run.result) for run in group["run"]]
        values = [
            max((e[b]["mse"] for e in entries if b in e), default=math.nan) for b in BASELINES
        ]
        texts = ["" if math.isnan(value) else f"{1e3 * value:.2f}" for value in values]
        number = filled.tables[best["table"]].number
        by = f"{best['row']} ({paper['name']}, table {number})"
        body.append([dataset, *texts, f"{best['published']:g}", by])
    if not body:
        return []
    headings = ["MSE × 10⁻³", *(NAMES[name] for name in BASELINES), "least published", "by"]
    return ["## Learners without a kernel", markdown(headings, body)]
