"""How many published numbers are reproduced: in words, by paper and by table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omkl.reproduction import filled as filling
from omkl.reproduction.filled import Filled
from omkl.reproduction.formats import contents
from omkl.reproduction.page.blocks import Block, Grid, Text
from omkl.reproduction.tables import VARIANTS, WRITTEN, Table

BOTH_VERSIONS = "JMLR and arXiv v1"


def summary_blocks(filled: Sequence[Filled], times: Mapping[str, float]) -> list[Block]:
    heads = ("table", "cells", *VARIANTS.values(), "reproduced by any", "runs take, s")
    body: list[tuple[str, ...]] = []
    for table in filled:
        one = sum(any(e.verdict == "reproduced" for e in c.entries.values()) for c in table.judged)
        n, n_any = str(len(table.judged)), str(one)
        texts = [contents.counted(table.entries(variant)) for variant in VARIANTS]
        if not table.judged:
            n, n_any, texts[0] = "", "", "run times only"
        seconds = [times[r.result["key"]] for r in table.runs if r.result["key"] in times]
        taken = f"{sum(seconds):.1f}" if seconds else ""
        body.append((table_name(table.table), n, *texts, n_any, taken))
    total = filling.counts(filled)
    written, released, recovered = map(contents.counts_text, total.verdicts.values())
    return [
        Text(
            f"Of {total.numbers} distinct published numbers, ours as the papers are written: "
            f"{written}. As the authors' code was released, where that exists: {released}. With "
            "settings recovered, that is chosen, to give the published numbers, where some were "
            f"sought: {recovered}. At least one of the three reproduces {total.reproduced[-1]} of "
            f"{total.numbers}. {total.in_several} of these numbers stand in two tables: they count "
            "once here, and in the lines of both tables below."
        ),
        *_by_paper(filled),
        Grid(heads, tuple(body), left=1, wordy=tuple(range(2, 2 + len(VARIANTS)))),
        Text(f"{filling.RULES}."),
        Text(f"{filling.RUN_TIME_RULE}. Tables share runs, each of which is done once."),
    ]


def _by_paper(filled: Sequence[Filled]) -> list[Block]:
    """The distinct numbers of every paper, and how many are reproduced by what."""
    heads = (
        *("paper", "distinct numbers", "in two tables", "reproduced as written"),
        *("as written or released", "as written, released or recovered", "scatter, as written"),
    )
    body = []
    for name, found in counts(filled).items():
        scattered = found.verdicts[VARIANTS[WRITTEN]]["scatters"]
        numbers = (found.numbers, found.in_several, *found.reproduced, scattered)
        body.append((name, *map(str, numbers)))
    return [Grid(heads, tuple(body))]


def counts(filled: Sequence[Filled]) -> dict[str, filling.Counts]:
    """The distinct published numbers of each paper, of both versions of one, and of all.

    Papers of whose tables none is given are left out; keys are names in print.
    """
    groups: dict[str, tuple[str, ...]] = {name: (paper,) for paper, name in contents.PAPERS.items()}
    groups[BOTH_VERSIONS] = ("graph-aided-jmlr", "graph-aided-arxiv-v1")
    groups["all"] = tuple(contents.PAPERS)
    found = {}
    for name, papers in groups.items():
        members = [table for table in filled if table.table.paper in papers]
        if any(table.judged for table in members):
            found[name] = filling.counts(members)
    return found


def table_name(table: Table) -> str:
    return f"{contents.paper_name(table)}, table {table.table}"
