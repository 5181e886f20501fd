"""The page of Jin, Hoi and Yang (ALT 2010): six algorithms and their bounds.

The paper has no experiments, so the page has no published numbers.
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

The paper (ALT 2010) proves mistake bounds and has no experiments, so no published number can be
compared. This page runs its six algorithms on public data sets and evaluates its theorems and
corollaries for these runs."""
BOUNDS = """\
## Theorems and corollaries

Each cell has a measured number (the mean over the permutations) and its bound. A bound above the
number of rows has no content. Corollary 4 assumes the best beta in hindsight; the run has the
default beta. Theorems 5 and 10 are evaluated as stated, although their proofs give larger bounds
([errata](../errata.md)). The bounds compare with the best kernel in hindsight, which takes minutes
to compute for more than 600 rows, so the table has the three smallest data sets."""
MORE = """\
## More

- [Mistakes in the papers](../errata.md)
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
    cells = cells[cells["dataset"].isin(EVALUATED)]
    cells = cells[[run is not None and run.complete for run in cells["run"]]]
    rows: dict[str, int] = {}
    lines: dict[tuple[str, str, str], dict[str, str]] = {}
    for cell in cells.to_dict("records"):
        column, learner = cell["column"], cell["row"]
        rows[column] = cell["run"].result["n_rounds"]
        try:
            statements = theorems.mistakes_of_run(cell["run"])
        except ValueError as error:
            lines.setdefault((learner, "", ""), {})[column] = f"not evaluated: {error}"
            continue
        for found in statements:
            note = f" ({found.note})" if found.note else ""
            line = lines.setdefault((learner, found.of, f"{found.name}{note}"), {})
            line[column] = f"{readable(found.measured)} / {readable(found.bound)}"
    headings = ["", "", "bound", *(f"{name} ({n:,} rows)" for name, n in rows.items())]
    body = [[*key, *(line.get(name, "") for name in rows)] for key, line in lines.items()]
    rule = ["---"] * 3 + ["--:"] * len(rows)
    first, *rest = (f"| {' | '.join(line)} |" for line in (headings, *body))
    return "\n".join([first, f"|{'|'.join(rule)}|", *rest])
