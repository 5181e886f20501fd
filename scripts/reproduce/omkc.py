"""The page of Jin, Hoi and Yang (ALT 2010): six algorithms beside their bounds.

The paper has no experiments, so that no number on this page has a published one beside it.
"""

from __future__ import annotations

from omkl.report.naming import readable
from reproduce import theorems
from reproduce.results import Runs, fill
from reproduce.tables import Table

TABLE = "omkc"
EVALUATED = ("sonar", "ionosphere", "wdbc")  # the minima in hindsight of more rows take minutes
INTRODUCTION = """\
# R. Jin, S. C. H. Hoi, T. Yang, "Online Multiple Kernel Learning: Algorithms and Mistake Bounds"

The paper (ALT 2010) proves mistake bounds and has no experiments, so there is no published number
to compare with. This page runs its six algorithms on public data sets and evaluates its theorems
and corollaries for these runs."""
BOUNDS = """\
## Theorems and corollaries

Mistakes and updates are means over the permutations. A bound at or above the number of rows says
nothing. Corollary 4 is about a beta that is known in hindsight, and stands beside a run with the
default beta. Theorems 5 and 10 are evaluated as stated, which is less than their proofs give:
[errata](../errata.md). The minima in hindsight are evaluated on data sets of at most 600 rows."""
MORE = """\
## More

- [What the papers themselves have wrong](../errata.md)
- [All papers](README.md)
- command: make table TABLE=omkc"""


def page(table: Table, runs: Runs, parts: list[str]) -> str:
    """Return the page in Markdown.

    Parameters
    ----------
    table
        Table of the paper.
    runs
        Run of each job.
    parts
        Panels of the table.
    """
    return "\n\n".join(
        [INTRODUCTION, f"## {table.title}", *parts, BOUNDS, bounds_table(table, runs), MORE]
    )


def bounds_table(table: Table, runs: Runs) -> str:
    """Evaluate the paper's promises about each run on a data set of ``EVALUATED``."""
    cells = fill(table, runs)
    lines = [
        "| | data set | rows | what | measured | by | at most |",
        "|---|---|--:|---|--:|---|--:|",
    ]
    for cell in cells[cells["dataset"].isin(EVALUATED)].to_dict("records"):
        if cell["run"] is None or not cell["run"].complete:
            continue
        head = f"| {cell['row']} | {cell['column']} | {cell['run'].result['n_rounds']:,} |"
        try:
            statements = theorems.mistakes_of_run(cell["run"])
        except ValueError as error:
            lines.append(f"{head} not evaluated: {error} | | | |")
            continue
        for found in statements:
            note = f" ({found.note})" if found.note else ""
            lines.append(
                f"{head} {found.of} | {readable(found.measured)} | {found.name}{note} "
                f"| {readable(found.bound)} |"
            )
    return "\n".join(lines)
