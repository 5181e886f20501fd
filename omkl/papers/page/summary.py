"""One line a paper: how much of it comes out, and by what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omkl.papers import filled as filling
from omkl.papers.filled import Counts, Filled
from omkl.papers.page.blocks import Block, Grid, Text
from omkl.papers.papers import Paper
from omkl.papers.tables import CITED, VARIANTS, WRITTEN

MOST, FEW = 0.9, 0.1  # shares of the numbers from which a paper does, and up to which it does not


def summary_blocks(papers: Mapping[Paper, Sequence[Filled]]) -> list[Block]:
    """The sums of all papers, and a table with a line for each of those that have tables."""
    total = filling.counts([table for tables in papers.values() for table in tables])
    written, released, fitted, cited = (
        total.verdicts[what] for what in (*VARIANTS.values(), CITED)
    )
    heads = ("paper", "does it reproduce?", "stated settings", "authors' code", "fitted", "why not")
    body = []
    for paper, tables in papers.items():
        count = filling.counts(tables)
        numbers = [_of(count.verdicts[what]) for what in VARIANTS.values()]
        body.append((paper.name, answer(count), *numbers, paper.why_not))
    said = [
        f"{total.numbers} distinct published numbers, run times apart, {total.in_several} of which "
        f"stand in two tables. With the settings that the papers state: {_said(written)}.",
        f"With the code that the authors released, where they did: {_said(released)}.",
        "With settings fitted to the published numbers, where that was tried; that they give them "
        f"is what they were chosen for: {_said(fitted)}.",
    ]
    if sum(cited.values()):
        said.append(f"Learners that a paper describes by a citation alone: {_said(cited)}.")
    return [
        Text(said[0]),
        Text(" ".join(said[1:])),
        Grid(heads, tuple(body), left=1, wordy=(1, 2, 3, 4, 5)),
        Text(
            "reproduced: at most 3 % off; consistent: more, but within two standard errors of the "
            f"difference of both means. A paper does reproduce where {100 * MOST:.0f} % of its "
            "numbers are one or the other with the settings that it states, and does not where "
            f"{100 * FEW:.0f} % are."
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
    without = ("missing", filling.NO_DATA, "failed", "absent")
    return sum(n for name, n in verdicts.items() if name not in without)


def _of(verdicts: Mapping[str, int]) -> str:
    """ "44 reproduced, 3 consistent of 92"."""
    n = compared(verdicts)
    if not n:
        return "none" if not sum(verdicts.values()) else "not run"
    parts = [f"{verdicts[name]} {name}" for name in ("reproduced", "consistent") if verdicts[name]]
    return f"{', '.join(parts) or '0 reproduced'} of {n}"


def _said(verdicts: Mapping[str, int]) -> str:
    left = sum(verdicts.values()) - compared(verdicts)
    rest = f"; {left} cannot be compared" if left else ""
    return f"{_of(verdicts)}{rest}"
