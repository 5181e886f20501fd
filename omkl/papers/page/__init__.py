"""Pages of the published tables beside ours, from run folders alone.

``build`` writes one page of all papers, README.md and index.html, a page for each paper, one with
all cells of each paper, and their figures into a folder; none of them needs anything else. What a
page says is a list of blocks, written down once and rendered twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from omkl.disk import write_atomically
from omkl.papers import dumbbell, matching, papers
from omkl.papers.filled import RULES, RUN_TIME_RULE, Filled
from omkl.papers.formats import contents, origin
from omkl.papers.page.baselines import baseline_blocks
from omkl.papers.page.blocks import (
    Block,
    Facts,
    Grid,
    Heading,
    Links,
    Text,
    html_page,
    markdown_page,
)
from omkl.papers.page.numbers import duration, signed
from omkl.papers.page.search import commands, search_blocks
from omkl.papers.page.summary import summary_blocks
from omkl.papers.page.theory import active_regret_blocks, theory_blocks
from omkl.papers.paper_figures import active, arxiv_v1, federated, jmlr
from omkl.papers.papers import Claim, Known, Paper
from omkl.papers.pictures import Drawn
from omkl.papers.tables import METRICS, VARIANTS, Table
from omkl.runs import provenance
from omkl.runs.run_folder import Run, find
from omkl.runs.wording import pluralize

TITLE = "Published and reproduced: online multi-kernel learning"
TIMES = "tables/times.json"  # seconds of each run, by its key
COMPARISONS = "classification"  # the folder beside the page where comparisons are
ERRATA = "errata.md"  # beside it, too

Figures = Callable[[dict[str, Filled], Path], list[Drawn]]
FIGURES: dict[str, Figures] = {
    "jmlr": jmlr,
    "arxiv_v1": arxiv_v1,
    "active": active,
    "federated": federated,
}


def read_times(outputs: Path) -> dict[str, float]:
    """Seconds that each run took when it was computed, by its key; empty where none is known."""
    try:
        return json.loads((outputs / TIMES).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def comparison_folder(folder: Path) -> Path:
    """Where the comparisons with other libraries are that a page in ``folder`` links to."""
    return folder.parent / COMPARISONS


def build(
    specs: Sequence[Table], outputs: Path, folder: Path, runs: Iterable[Run] | None = None
) -> list[Path]:
    """Write the pages of these tables into ``folder``; index.html is the first path.

    Tables of one's own are on no page of papers.
    """
    runs = list(find(outputs) if runs is None else runs)
    filled = [matching.fill(table, runs) for table in specs if table.paper]
    folder.mkdir(parents=True, exist_ok=True)
    times = read_times(outputs)
    by_paper: dict[Paper, list[Filled]] = {}
    for paper in papers.load():
        if members := [table for table in filled if table.table.paper == paper.paper]:
            by_paper[paper] = members
    pages: dict[str, tuple[str, list[Block]]] = {
        "README": (TITLE, _overview(by_paper, times, outputs, folder))
    }
    for paper, members in by_paper.items():
        pages[paper.file] = (paper.title, _paper_blocks(paper, members, times, folder))
        cells = _cell_blocks(paper, members, outputs, folder)
        pages[f"{paper.file}_cells"] = (f"{paper.name}: all cells", cells)
    paths: list[Path] = []
    for name, (title, blocks) in pages.items():
        paths += [folder / f"{'index' if name == 'README' else name}.html", folder / f"{name}.md"]
        write_atomically(paths[-2], html_page(title, blocks))
        write_atomically(paths[-1], markdown_page(title, blocks))
    drawn = [
        block.path for _, blocks in pages.values() for block in blocks if isinstance(block, Drawn)
    ]
    return paths + drawn


# --- one screen for all papers --------------------------------------------------------------------


def _overview(
    by_paper: Mapping[Paper, Sequence[Filled]],
    times: Mapping[str, float],
    outputs: Path,
    folder: Path,
) -> list[Block]:
    links = [(f"{paper.name}: {paper.title}", paper.file) for paper in by_paper]
    cells = [(f"{paper.name}: all cells", f"{paper.file}_cells") for paper in by_paper]
    beside = sorted(comparison_folder(folder).glob("*.md"))
    more = [
        (f"Classifiers beside other libraries: {path.stem}", f"../{COMPARISONS}/{path.name}")
        for path in beside
    ]
    return [
        *summary_blocks(by_paper),
        Links((*links, *cells, *more, *_errata(folder))),
        *_made_with([table for tables in by_paper.values() for table in tables], times, outputs),
    ]


def _errata(folder: Path) -> list[tuple[str, str]]:
    there = (folder.parent / ERRATA).exists()
    return [("What the papers themselves have wrong", f"../{ERRATA}")] if there else []


def _done(filled: Iterable[Filled]) -> list[Run]:
    """The complete runs of tables, each once."""
    by_folder = {run.folder: run for table in filled for run in (*table.runs, *table.swept)}
    return [run for run in by_folder.values() if run.complete]


def _made_with(filled: Sequence[Filled], times: Mapping[str, float], outputs: Path) -> list[Block]:
    """Commands, commits and machine behind the numbers of these runs."""
    runs = _done(filled)
    if not runs:
        return []
    started = sorted(str(run.result["started"]) for run in runs)
    facts = [
        ("commands", commands(outputs / "search")),
        ("page", f"written at {origin.commit_text(provenance.commit())}"),
        *origin.provenance(runs),
        ("computed", f"{started[0]} to {started[-1]}"),
        *_total_time(runs, times),
    ]
    return [Heading("Made with"), Text(origin.origin_text(runs)), Facts(tuple(facts))]


def _total_time(runs: Iterable[Run], times: Mapping[str, float]) -> list[tuple[str, str]]:
    known = [times[run.result["key"]] for run in runs if run.result["key"] in times]
    total = f"{duration(sum(known))} for {pluralize(len(known), 'run')}, added up"
    return [("total time", total)] if known else []


# --- one screen for one paper ---------------------------------------------------------------------


def _paper_blocks(
    paper: Paper, filled: Sequence[Filled], times: Mapping[str, float], folder: Path
) -> list[Block]:
    by_name = {table.table.name: table for table in filled}
    drawn = [by_name[name] for name in paper.drawn if name in by_name]
    figures = (
        dumbbell.dumbbells(drawn, drawn[0].table.metrics[0], folder, paper.file) if drawn else []
    )
    names = " ".join(table.table.name for table in filled)
    return [
        Text(paper.verdict),
        Heading("What it claims"),
        _claims([(claim, papers.effects(claim, by_name)) for claim in paper.claims]),
        Text(
            "In brackets: by how many per cent the first learner has more or less than the best of "
            "the others, from the least to the most over the data sets."
        ),
        Heading("Published and ours"),
        *figures,
        Heading("What one has to know and the text does not say"),
        _needed([(known, papers.distances(known, by_name)) for known in paper.known]),
        Text(
            "The numbers are mean distances from the published ones, of the cells that it changes."
        ),
        Heading("All of it"),
        Links(
            (
                ("All cells, figures and run times", f"{paper.file}_cells"),
                *_errata(folder),
                ("All papers", "README"),
            )
        ),
        Facts((("command", f"omkl-report run {names}"), *_total_time(_done(filled), times))),
    ]


def _claims(found: Sequence[tuple[Claim, Mapping[str, Sequence[float]]]]) -> Grid:
    shown = [
        what
        for what in (papers.PUBLISHED, *VARIANTS.values())
        if any(what in effects for _, effects in found)
    ]
    body = tuple(
        (claim.text, *(_held(claim, effects.get(what, ())) for what in shown))
        for claim, effects in found
    )
    return Grid(("claim", *shown), body, wordy=tuple(range(1 + len(shown))))


def _held(claim: Claim, percents: Sequence[float]) -> str:
    if not percents:
        return ""
    n = sum(papers.holds(claim, percent) for percent in percents)
    ends = list(dict.fromkeys(f"{one:+.0f}" for one in (min(percents), max(percents))))
    said = f"holds on {n} of {len(percents)}" if n else "not found"
    return signed(f"{said} ({' to '.join(ends)} %)")


def _needed(found: Sequence[tuple[Known, Mapping[str, float]]]) -> Grid:
    shown = [w for w in VARIANTS.values() if any(w in effect for _, effect in found)]
    body = tuple(
        (known.text, *(f"{effect[w]:.1f} %" if w in effect else "" for w in shown))
        for known, effect in found
    )
    return Grid(("", *shown), body, wordy=(0,))


# --- all cells of a paper -------------------------------------------------------------------------


def _cell_blocks(
    paper: Paper, filled: Sequence[Filled], outputs: Path, folder: Path
) -> list[Block]:
    """Its tables, figures and theory; run times, which get no verdict, at the end."""
    blocks: list[Block] = [
        Links(((f"{paper.name}: {paper.title}", paper.file),)),
        Text(f"{RULES}."),
    ]
    judged = [one for table in filled if (one := table.of(lambda metric: METRICS[metric].judged))]
    timed = [one for table in filled if (one := table.of(lambda m: not METRICS[m].judged))]
    for table in judged:
        blocks += [Heading(contents.caption(table.table)), table]
    if figures := FIGURES[paper.file]({table.table.name: table for table in filled}, folder):
        blocks += [Heading("Figures"), *figures]
    blocks += active_regret_blocks([t for t in filled if t.table.name == "active_table3"])
    blocks += theory_blocks([t for t in filled if t.table.name == "jmlr_table1"])
    blocks += baseline_blocks(filled)
    blocks += search_blocks(outputs / "search", paper.file)
    blocks += [Heading("Run times"), Text(f"{RUN_TIME_RULE}.")] if timed else []
    for table in timed:
        blocks += [Heading(contents.caption(table.table), 3), table]
    settings = [(contents.table_name(t.table), origin.settings_text(t.table)) for t in filled]
    return [*blocks, Heading("Settings"), Facts(tuple(settings))]
