"""Pages of the published tables beside ours, from run folders alone.

``build`` writes one page of all papers, README.md and index.html, a page for each paper, one with
all cells of each paper, these as CSV, and their figures into a folder; none of them needs anything
else. What a page says is a list of parts, written down once and rendered twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from omkl.papers import claims, figures, matching, rendering
from omkl.papers.claims import Claim, Known, Paper
from omkl.papers.matching import MEANINGS, RUN_TIME_RULE, Counts, FilledTable
from omkl.papers.sections import (
    active_regret_parts,
    baseline_parts,
    search_parts,
    signed,
    theory_parts,
)
from omkl.papers.tables import CITED, METRICS, VARIANTS, WRITTEN, Table
from omkl.report import tables as printed
from omkl.report.page import (
    Facts,
    Fold,
    Heading,
    Links,
    Part,
    Picture,
    Text,
    html_page,
    markdown_page,
)
from omkl.runs import provenance
from omkl.runs.run_folder import Run, find
from omkl.utils.disk import write_atomically

TITLE = "Published and reproduced: online multi-kernel learning"
COMPARISONS = "classification"  # the folder beside the page where comparisons with others are
ERRATA = "errata.md"  # beside it, too
VERDICT_TABLE = printed.Table(("verdict", "our number"), MEANINGS.items(), broken=(0, 1))
MOST, FEW = 0.9, 0.1  # shares of the numbers from which a paper does, and up to which it does not


def build(
    specs: Sequence[Table], outputs: Path, folder: Path, runs: Iterable[Run] | None = None
) -> list[Path]:
    """Write the pages of these tables into ``folder``; index.html is the first path.

    Tables of one's own are on no page of papers.
    """
    runs = list(find(outputs) if runs is None else runs)
    filled = [matching.fill(table, runs) for table in specs if table.paper]
    folder.mkdir(parents=True, exist_ok=True)
    by_paper: dict[Paper, list[FilledTable]] = {}
    for paper in claims.load():
        if members := [table for table in filled if table.table.paper == paper.paper]:
            by_paper[paper] = members
    pages: dict[str, tuple[str, list[Part]]] = {"README": (TITLE, _overview(by_paper, folder))}
    for paper, members in by_paper.items():
        pages[paper.file] = (paper.title, _paper_parts(paper, members, folder))
        cells = _cell_parts(paper, members, folder)
        pages[f"{paper.file}_cells"] = (f"{paper.name}: all cells", cells)
        every = [*_tables(members, judged=True), *_tables(members, judged=False)]
        write_atomically(folder / _csv_of(paper), rendering.printed_csv(every))
    paths: list[Path] = []
    for name, (title, parts) in pages.items():
        paths += [folder / f"{'index' if name == 'README' else name}.html", folder / f"{name}.md"]
        write_atomically(paths[-2], html_page(title, parts))
        write_atomically(paths[-1], markdown_page(title, parts))
    drawn = [
        part.path for _, parts in pages.values() for part in parts if isinstance(part, Picture)
    ]
    return [*paths, *(folder / _csv_of(paper) for paper in by_paper), *drawn]


# --- one screen for all papers --------------------------------------------------------------------


def _overview(by_paper: Mapping[Paper, Sequence[FilledTable]], folder: Path) -> list[Part]:
    links = [(f"{paper.name}: {paper.title}", paper.file) for paper in by_paper]
    cells = [(f"{paper.name}: all cells", f"{paper.file}_cells") for paper in by_paper]
    beside = sorted((folder.parent / COMPARISONS).glob("*.md"))
    more = [
        (f"Classifiers beside other libraries: {path.stem}", f"../{COMPARISONS}/{path.name}")
        for path in beside
    ]
    return [
        *summary_parts(by_paper),
        Links((*links, *cells, *more, *_errata(folder))),
        *_made_with([table for tables in by_paper.values() for table in tables]),
    ]


def _errata(folder: Path) -> list[tuple[str, str]]:
    there = (folder.parent / ERRATA).exists()
    return [("What the papers themselves have wrong", f"../{ERRATA}")] if there else []


def _made_with(filled: Sequence[FilledTable]) -> list[Part]:
    """Commands, commits and machine behind the numbers of these runs."""
    by_folder = {run.folder: run for table in filled for run in (*table.runs, *table.swept)}
    runs = [run for run in by_folder.values() if run.complete]
    if not runs:
        return []
    started = sorted(str(run.result["started"]) for run in runs)
    facts = [
        ("commands", "make reproduce-tables (the runs, this page)"),
        ("page", f"written at {rendering.commit_text(provenance.commit())}"),
        *rendering.provenance(runs),
        ("computed", f"{started[0]} to {started[-1]}"),
    ]
    return [Heading("Made with"), Text(rendering.origin_text(runs)), Facts(tuple(facts))]


def summary_parts(papers: Mapping[Paper, Sequence[FilledTable]]) -> list[Part]:
    """The sums of all papers, and a table with a line for each of those that have tables."""
    total = matching.counts([table for tables in papers.values() for table in tables])
    written, released, fitted, cited = (
        total.verdicts[what] for what in (*VARIANTS.values(), CITED)
    )
    heads = ("paper", "does it reproduce?", "stated settings", "authors' code", "fitted", "why not")
    body = []
    for paper, tables in papers.items():
        count = matching.counts(tables)
        numbers = [_of(count.verdicts[what]) for what in VARIANTS.values()]
        body.append((paper.name, answer(count), *numbers, paper.why_not))
    sentences = [
        f"{total.numbers} distinct published numbers, run times apart, {total.in_several} of which "
        f"stand in two tables. With the settings that the papers state: {_sum(written)}.",
        f"With the code that the authors released, where they did: {_sum(released)}.",
        "With settings that a search fitted to the published numbers, where that was tried: "
        f"{_sum(fitted)}.",
    ]
    if sum(cited.values()):
        sentences.append(f"Learners that a paper describes by a citation alone: {_sum(cited)}.")
    return [
        Text(sentences[0]),
        Text(" ".join(sentences[1:])),
        printed.Table(heads, tuple(body), left=1, broken=(1, 2, 3, 4, 5)),
        Text(
            "Reproduced: at most 3 % off. Consistent: more, but within two standard errors of the "
            f"difference of both means. The answer is yes where at least {100 * MOST:.0f} % of a "
            "paper's numbers are one or the other with the settings that it states. It is no where "
            f"at most {100 * FEW:.0f} % are."
        ),
    ]


def answer(count: Counts) -> str:
    """ "yes", "in part" or "no", of the numbers that the stated settings can be asked for."""
    verdicts = count.verdicts[VARIANTS[WRITTEN]]
    asked = compared(verdicts)
    if not asked:
        return "not run"
    share = (verdicts["reproduced"] + verdicts["consistent"]) / asked
    return "yes" if share >= MOST else "no" if share <= FEW else "in part"


def compared(verdicts: Mapping[str, int]) -> int:
    """How many numbers there are two of, theirs and ours."""
    without = ("missing", matching.NO_DATA, "failed", "absent")
    return sum(n for name, n in verdicts.items() if name not in without)


def _of(verdicts: Mapping[str, int]) -> str:
    """ "44 reproduced, 3 consistent of 92"."""
    n = compared(verdicts)
    if not n:
        return "none" if not sum(verdicts.values()) else "not run"
    parts = [f"{verdicts[name]} {name}" for name in ("reproduced", "consistent") if verdicts[name]]
    return f"{', '.join(parts) or '0 reproduced'} of {n}"


def _sum(verdicts: Mapping[str, int]) -> str:
    left = sum(verdicts.values()) - compared(verdicts)
    rest = f"; {left} cannot be compared" if left else ""
    return f"{_of(verdicts)}{rest}"


# --- one screen for one paper ---------------------------------------------------------------------


def _paper_parts(paper: Paper, filled: Sequence[FilledTable], folder: Path) -> list[Part]:
    by_name = {table.table.name: table for table in filled}
    drawn = [by_name[name] for name in paper.drawn if name in by_name]
    dumbbells = (
        figures.dumbbells(drawn, drawn[0].table.metrics[0], folder, paper.file) if drawn else []
    )
    names = " ".join(table.table.name for table in filled)
    tables = [
        Fold(rendering.caption(table.table), rendering.parts_of(table))
        for table in _tables(filled, judged=True)
    ]
    return [
        Text(paper.verdict),
        Heading("Does it reproduce?"),
        claims_table([(claim, claims.effects(claim, by_name)) for claim in paper.claims]),
        Text(
            "A claim holds where it holds on all data sets that we have, with the settings that "
            "the paper states. In brackets: by how many per cent the first learner has more or "
            "less than the best of the others, from the least to the most over the data sets."
        ),
        *dumbbells,
        Heading("Tables"),
        VERDICT_TABLE,
        *tables,
        Heading("What differs, and why"),
        _needed([(known, claims.distances(known, by_name)) for known in paper.known]),
        Text(
            "What one has to know and the text does not say. The numbers are mean distances from "
            "the published ones, of the cells that it changes."
        ),
        Heading("More"),
        Links(
            (
                ("All cells, figures, theory and run times", f"{paper.file}_cells"),
                ("All cells as CSV", _csv_of(paper)),
                *_errata(folder),
                ("All papers", "README"),
            )
        ),
        Facts((("command", f"omkl-report run {names}"),)),
    ]


def _csv_of(paper: Paper) -> str:
    return f"{paper.file}_cells.csv"


def _tables(filled: Iterable[FilledTable], judged: bool) -> list[FilledTable]:
    """Their columns of metrics that get a verdict, or of run times."""
    return [one for t in filled if (one := t.of(lambda m: METRICS[m].judged == judged))]


def claims_table(
    compared: Sequence[tuple[Claim, Mapping[str, Sequence[float]]]],
) -> printed.Table:
    """Claims and their effects: our verdict, where they hold by settings, and a command."""
    shown = [
        what
        for what in (claims.PUBLISHED, *VARIANTS.values())
        if any(what in effects for _, effects in compared)
    ]
    body = []
    for claim, effects in compared:
        held = {
            what: [claims.holds(claim, percent) for percent in percents]
            for what, percents in effects.items()
        }
        texts = [_held(held[what], effects[what]) if what in held else "" for what in shown]
        command = f"omkl-report run {' '.join(claim.tables)}"
        body.append((claim.text, _verdict(held), *texts, command))
    heads = ("claim", "our verdict", *shown, "command")
    return printed.Table(heads, body, broken=tuple(range(len(heads))))


def _verdict(held: Mapping[str, Sequence[bool]]) -> str:
    """Of whether a claim holds on each data set, by settings."""
    ours = {what: each for what, each in held.items() if what != claims.PUBLISHED}
    everywhere = [what for what, each in ours.items() if all(each)]
    if not ours:
        return "not run"
    if VARIANTS[WRITTEN] in everywhere:
        return "holds"
    if everywhere:
        return f"only {' and '.join(everywhere)}"
    return "in part" if any(map(any, ours.values())) else "does not hold"


def _held(held: Sequence[bool], percents: Sequence[float]) -> str:
    """On how many data sets a claim holds, of how many, and from what to what."""
    ends = dict.fromkeys(f"{one:+.0f}" for one in (min(percents), max(percents)))
    return signed(f"{sum(held)} of {len(held)} ({' to '.join(ends)} %)")


def _needed(measured: Sequence[tuple[Known, Mapping[str, float]]]) -> printed.Table:
    shown = [w for w in VARIANTS.values() if any(w in effect for _, effect in measured)]
    body = tuple(
        (known.text, *(f"{effect[w]:.1f} %" if w in effect else "" for w in shown))
        for known, effect in measured
    )
    return printed.Table(("", *shown), body, broken=(0,))


# --- all cells of a paper -------------------------------------------------------------------------


def _cell_parts(paper: Paper, filled: Sequence[FilledTable], folder: Path) -> list[Part]:
    """Its tables, figures and theory; run times, which get no verdict, at the end."""
    links = ((f"{paper.name}: {paper.title}", paper.file), ("All cells as CSV", _csv_of(paper)))
    parts: list[Part] = [Links(links), VERDICT_TABLE]
    timed = _tables(filled, judged=False)
    for table in _tables(filled, judged=True):
        parts += [Heading(rendering.caption(table.table)), *rendering.parts_of(table)]
    by_name = {table.table.name: table for table in filled}
    if drawn := figures.FIGURES[paper.file](by_name, folder):
        parts += [Heading("Figures"), *drawn]
    parts += active_regret_parts([t for t in filled if t.table.name == "active_table3"], paper)
    parts += theory_parts([t for t in filled if t.table.name == "jmlr_table1"], paper)
    parts += baseline_parts(filled)
    parts += search_parts(paper)
    parts += [Heading("Run times"), Text(f"{RUN_TIME_RULE}.")] if timed else []
    for table in timed:
        parts += [Heading(rendering.caption(table.table), 3), *rendering.parts_of(table)]
    settings = [(rendering.table_name(t.table), rendering.settings_text(t.table)) for t in filled]
    return [*parts, Heading("Settings"), Facts(tuple(settings))]
