"""A page for each paper that was reproduced: what it states, what was found, how far apart.

All numbers are read from what ``make reproduce-tables`` leaves: ``docs/reproduction/counts.json``
and the tables of ``docs/reproduction/README.md``, and of a paper without published experiments the
bounds of ``docs/classification/omkc_table.md``.
"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl import citation, registry
from pages import cards

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = "papers"
READINGS = ("as written", "as released", "recovered")
VERDICTS = ("reproduced", "close", "differs", "scatters", "no data")


class Paper(NamedTuple):
    """A paper: its BibTeX key, how its tables are called, how its entry in errata begins."""

    key: str
    tables: str  # "" where nothing was published to be compared with
    errata: str
    figure: str  # of its page of tables, or of the classifiers


PAPERS = (
    Paper("ghari2023graph", "JMLR", "Graph-aided", "jmlr_figure3.png"),
    Paper("ghari2021graph", "arXiv v1", "Graph-aided", "arxiv_v1_figures.png"),
    Paper("hong2020active", "Active MKL", "Active learning", "active_labels_recovered.png"),
    Paper("ghari2022personalized", "Federated", "Personalized", "federated_clients_written.png"),
    Paper("jin2010online", "", "Online multiple kernel learning", "omkc_table_bounds.png"),
)


class Distance(NamedTuple):
    """Of one published number: its table, the reading, by how many per cent ours is off."""

    table: str
    reading: str
    percent: float
    verdict: str


def reference(paper: Paper) -> citation.Reference:
    """Its BibTeX entry."""
    return next(one for one in citation.papers() if one.key == paper.key)


def heading(paper: Paper) -> str:
    """What its page is called."""
    fields = reference(paper).fields
    return f"{fields['title']} ({paper.tables or 'theorems'}, {fields['year']})"


def distances(paper: Paper) -> list[Distance]:
    """All that the tables of the paper say, in their order."""
    found, table, reading = [], "", ""
    for line in (DOCS / "reproduction" / "README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("### "):
            title = line.removeprefix("### ").partition(":")[0]
            table = title if title.startswith(f"{paper.tables}, table") else ""
        elif line.startswith("## "):
            table = ""
        elif table and line.startswith("|"):
            cells = [cell.strip() for cell in line.split("|")]
            reading = next((cell for cell in cells if cell in READINGS), "")
            for cell in cells if reading else []:
                for sign, number, verdict in re.findall(r"([+−]?)([\d.]+) %, (\w+)", cell):
                    percent = float(number) * (-1.0 if sign == "−" else 1.0)
                    found.append(Distance(table, reading, percent, verdict))
    return found


def page(paper: Paper) -> str:
    """The Markdown of a paper's page; its picture is ``FOLDER/KEY.png`` beside it."""
    lines = [f"# {heading(paper)}", ""]
    lines += _experiments(paper) if paper.tables else _theorems()
    lines += ["## What the paper itself has wrong", "", *_errata(paper), ""]
    lines += ["## Its algorithms", "", *_algorithms(paper), ""]
    lines += ["## Cite", "", "```bibtex", reference(paper).bibtex, "```", ""]
    return "\n".join(lines)


def _experiments(paper: Paper) -> list[str]:
    counts = json.loads((DOCS / "reproduction" / "counts.json").read_text(encoding="utf-8"))
    count: dict[str, Any] = counts[paper.tables]
    written, released, all_readings = count["reproduced"]
    found = distances(paper)
    tables = list(dict.fromkeys(one.table for one in found))
    lines = ["## What it states", ""]
    lines += [f"{count['numbers']} distinct numbers in these tables, beside run times:", ""]
    lines += [
        f"- [{title}](../reproduction/README.md#{_anchor(title)})" for title in _titles(paper)
    ]
    lines += ["", "## What was found", ""]
    lines += [
        f"{written} of the {count['numbers']} come out as the text is written, {released} as "
        f"written or as the authors' code was released, {all_readings} when settings that a search "
        "found to give published numbers count as well.",
        "",
        f"| | {' | '.join(VERDICTS)} |",
        f"|---|{'---:|' * len(VERDICTS)}",
    ]
    for reading in READINGS:
        verdicts = count["verdicts"][reading]
        if any(verdicts.values()):
            lines.append(f"| {reading} | {' | '.join(str(verdicts[v]) for v in VERDICTS)} |")
    lines += [
        "",
        "Reproduced: at most 3 % off, or within two standard errors of the difference of both "
        "means. Close: at most 15 %. Scatters: our seeds cannot tell.",
        "",
        "## How far apart",
        "",
        f"![Distances of our numbers from the published ones, table by table]({paper.key}.png)",
        "",
        "Per cent that our mean is off, without its sign, number by number.",
        "",
        "| | | numbers | half are within | the largest |",
        "|---|---|---:|---:|---:|",
    ]
    for table in tables:
        for reading in READINGS:
            off = [abs(d.percent) for d in found if (d.table, d.reading) == (table, reading)]
            if off:
                half, most = np.median(off), max(off)
                lines.append(f"| {table} | {reading} | {len(off)} | {half:.1f} % | {most:.1f} % |")
    lines += ["", f"![A figure of the paper beside ours](../reproduction/{paper.figure})", ""]
    lines += [*_about_figure(paper.figure), ""]
    return lines


def _titles(paper: Paper) -> list[str]:
    """The headings of the paper's tables."""
    text = (DOCS / "reproduction" / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"^### ({re.escape(paper.tables)}, table .*)$", text, re.MULTILINE)


def _about_figure(file: str) -> list[str]:
    """What the page of tables says below a figure."""
    text = (DOCS / "reproduction" / "README.md").read_text(encoding="utf-8")
    said = re.search(rf"^!\[(.*)\]\({re.escape(file)}\)$", text, re.MULTILINE)
    return [said[1]] if said else []


def _theorems() -> list[str]:
    rows = bounds()
    theorems = list(dict.fromkeys(row["by"] for row in rows))
    useful = [row for row in rows if row["bound"] < row["rounds"]]
    broken = [row for row in rows if row["mistakes"] > row["bound"]]
    lines = [
        "## What it states",
        "",
        "Bounds on the mistakes of its algorithms, no experiments:",
        "",
    ]
    lines += [f"- {theorem}" for theorem in theorems]
    lines += [
        "",
        "## What was found",
        "",
        f"Of {len(rows)} pairs of an algorithm and a data set, {len(broken)} break their bound, by "
        f"the mean over 20 permutations. {len(useful)} bounds are below the number of rounds, "
        "where a bound says something.",
        "",
        "## How far apart",
        "",
        "![Mistakes beside what the theorems allow](jin2010online.png)",
        "",
        "The share of what is allowed that was made, over the data sets.",
        "",
        "| | | least | largest |",
        "|---|---|---:|---:|",
    ]
    for name in dict.fromkeys(row["algorithm"] for row in rows):
        own = [row for row in rows if row["algorithm"] == name]
        shares = [row["mistakes"] / row["bound"] for row in own]
        lines.append(f"| {name} | {own[0]['by']} | {min(shares):.2%} | {max(shares):.2%} |")
    more = "[All learners, peers and bounds](../classification/omkc_table.md)."
    return [*lines, "", more, ""]


def bounds() -> list[dict[str, Any]]:
    """The bounds beside the mistakes, of the classifiers' page."""
    text = (DOCS / "classification" / "omkc_table.md").read_text(encoding="utf-8")
    lines = text.partition("Mistakes beside what the theorems allow")[2].splitlines()
    found = []
    for line in lines:
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if len(cells) == 7 and cells[2].replace(",", "").isdigit():
            found.append(
                {
                    "algorithm": cells[0], "data set": cells[1], "rounds": int(cells[2]),
                    "mistakes": float(cells[3].split(" ")[0]), "by": cells[4],
                    "bound": float(cells[5]),
                }
            )  # fmt: skip
    return found


def _errata(paper: Paper) -> list[str]:
    found, ours = [], False
    for line in (DOCS / "errata.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            ours = line.startswith(f"## {paper.errata}")
        elif ours and line.startswith("### "):
            title = line.removeprefix("### ")
            found.append(f"- [{title}](../errata.md#{_anchor(title)})")
    return found or ["Nothing was found."]


def _algorithms(paper: Paper) -> list[str]:
    cited = [name for name in cards.names() if _first_paper(name) == paper.key]
    return [f"- [{registry.title(name)}](../{cards.place(name)}) (`{name}`)" for name in cited]


def _first_paper(name: str) -> str:
    found = citation.papers_of(name)
    return found[0].key if found else ""


def _anchor(title: str) -> str:
    """The anchor of a heading, as mkdocs makes it."""
    from markdown.extensions.toc import slugify

    return slugify(re.sub(r"[\\`]", "", title), "-")


# --- the picture ----------------------------------------------------------------------------------


def picture(paper: Paper) -> bytes:
    """Every distance as a dot, or every bound beside its mistakes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    if paper.tables:
        fig = _drawn_distances(distances(paper))
    else:
        fig, ax = plt.subplots(figsize=(5.6, 3.4))
        rows = bounds()
        for name in dict.fromkeys(row["algorithm"] for row in rows):
            own = [row for row in rows if row["algorithm"] == name]
            shown = [row["bound"] / row["rounds"] for row in own]
            ax.plot(shown, [row["mistakes"] / row["rounds"] for row in own], "o", label=name)
        ax.axvline(1.0, color="0.3", lw=0.8, ls=":")
        ax.set(xlabel="bound, of the rounds (right of 1 it says nothing)", xscale="log")
        ax.set(ylabel="mistakes, of the rounds", yscale="log")
        ax.legend(
            frameon=False, fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2)
        )
    file = io.BytesIO()
    fig.savefig(file, format="png", dpi=130, bbox_inches="tight")
    plt.close(fig)
    return file.getvalue()


def _drawn_distances(found: list[Distance]) -> Any:
    import matplotlib.pyplot as plt

    tables = list(dict.fromkeys(one.table for one in found))
    fig, ax = plt.subplots(figsize=(5.6, 0.8 + 0.6 * len(tables)))
    for k, (reading, marker) in enumerate(zip(READINGS, "osD", strict=True)):
        own = [one for one in found if one.reading == reading]
        places = [tables.index(one.table) + 0.25 * (k - 1) for one in own]
        off = [max(abs(one.percent), 0.1) for one in own]
        if own:
            ax.plot(off, places, marker, ms=4, alpha=0.6, mew=0, label=reading)
    for limit in (3, 15):
        ax.axvline(limit, color="0.3", lw=0.8, ls=":")
    ax.set(xscale="log", xlabel="per cent off (0.1 and less on the left)")
    ax.set_yticks(range(len(tables)), tables)
    ax.invert_yaxis()
    ax.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    return fig
