"""What searches for the settings behind the published numbers found."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from omkl.papers import searches
from omkl.papers.formats import origin
from omkl.papers.page.blocks import Block, Grid, Heading, Text
from omkl.papers.page.numbers import short_number

SEARCH_LINES = 8


@dataclass(frozen=True)
class Search:
    """A grid of a script in words, the paper's page it is for, and its point that is the text."""

    paper: str
    title: str
    grid: str
    text: Mapping[str, str]


SEARCHES = {
    "arxiv_v1": Search(
        "arxiv_v1",
        "arXiv v1, tables 1 to 4: SFG-MKL and SFG-MKL-R, 4 data sets, M = 5",
        "8 points: the similarity of two kernels is an integral over R^d, as in the text, or over "
        "one input; a node has M out-neighbours with itself or besides itself; after round 300 "
        "the node is that of the largest u, as in the text, or node 0.",
        {"formula": "integral", "out-neighbours": "with itself", "rules": "text"},
    ),
    "active": Search(
        "active",
        "Active MKL, table III: Raker, AMKL, OMKL-AKS and AMKL-AKS, 5 data sets",
        "74 points: the step of theta is 1/sqrt(T), as in the text, or 50/sqrt(T), which is what "
        "features without their factor 1/sqrt(D) do; that of the weights 1, 7 or 50/sqrt(T); lam; "
        "frequencies are independent, or orthogonal in blocks of d; the maximum in AMKL-AKS's "
        "criterion is over all kernels, as in (33), or over those of the subset; and the target "
        "of Plant is scaled to [0, 1] or taken as it is. Distances are over errors and, where "
        "labels are queried, efficiencies. As written: the text, with Plant as in the file.",
        {
            "step": "1",
            "weights": "1",
            "lam": "0.01",
            "frequencies": "independent",
            "criterion": "all",
            "plant": "as in the file",
        },
    ),
    "active_exact": Search(
        "active",
        "Active MKL, table II: the eight rows with exact kernels, 5 data sets",
        "96 points: all rows share one step, a constant or one over sqrt(T) or sqrt(t), and one "
        "penalty, by which coefficients fade; the paper states neither for them. The target of "
        "Plant is taken as it is or scaled to [0, 1]. No point reproduces the rows, together or "
        "one at a time, so nothing is fitted; KL-RBF (10) and OMKL come near on four data "
        "sets, at 0.1/sqrt(t) and lam = 0.1, and not on Plant.",
        {"step": "1/sqrt(T)", "lam": "0", "plant": "as in the file"},
    ),
    "federated": Search(
        "federated",
        "Federated, tables 1 and 2: POF-MKL and four rivals on Naval, UJI and Air",
        "96 points: eta of all learners and the step size of the weights (eta_w, of the clients "
        "or of the server), as in the text, one of some constants, or eta once more; rows of naval "
        "and uji dealt out at random, as in the text, or one after the other to each client; the "
        "longitude of uji, as in the text, or its latitude; of Beijing's twelve sites the first "
        "four by name or the last. Fitted, and chosen after the numbers were seen: consecutive, "
        "LATITUDE, last; POF-MKL with eta = eta_k = 0.0775, the rivals with the steps of the text. "
        "Cells of uji with 100 features a kernel take too long for a grid and are not in the "
        "distances.",
        {
            "dealing": "iid",
            "target": "LONGITUDE",
            "sites": "first",
            "eta": "1/sqrt(T)",
            "eta_w": "1/sqrt(T)",
        },
    ),
}


ABOUT = (
    "scripts/search_graph.py, search_active.py and search_federated.py run every point of a "
    "grid on all cells of a paper's tables of these learners, with one or a few seeds, and "
    "rank it by its distance: the mean of |ours / published − 1|. Where a point near to the "
    "published numbers was found, it is the variant called fitted. That it gives these "
    "numbers is what it was chosen for; it is no default anywhere."
)


def search_blocks(folder: Path, paper: str) -> list[Block]:
    """A table of each search for a paper whose CSV file is in the folder."""
    blocks: list[Block] = []
    for name, described in SEARCHES.items():
        path = folder / f"{name}.csv"
        if described.paper == paper and path.exists():
            with open(path, newline="", encoding="utf-8") as file:
                blocks += _one_search(path, described, list(csv.DictReader(file)))
    heading = Heading("Search for settings that give the published numbers")
    return [heading, Text(ABOUT), *blocks] if blocks else []


def _one_search(path: Path, described: Search, lines: Sequence[Mapping[str, str]]) -> list[Block]:
    """The first points of a grid, and that of the text at its rank."""
    # A column a cell would be too wide; the distance sums them up.
    heads = [head for head in lines[0] if " M=" not in head]
    body = [_search_line(rank, line, heads) for rank, line in enumerate(lines, start=1)]
    shown, note = body[:SEARCH_LINES], ""
    if len(lines) > SEARCH_LINES:
        note = f", the first {SEARCH_LINES} of {len(lines)} lines"
    for rank, line in enumerate(lines, start=1):
        if all(short_number(line.get(k, "")) == v for k, v in described.text.items()):
            place = f"{rank}, as written"
            shown = [row for row in shown if row is not body[rank - 1]]
            shown.insert(min(rank - 1, len(shown)), (place, *body[rank - 1][1:]))
    return [
        Heading(described.title + note, 3),
        Text(described.grid),
        Text(made_by_text(path)),
        Grid(("rank", *heads), tuple(shown)),
    ]


def made_by_text(path: Path) -> str:
    """By what a search's table was made, and whether by the code that writes this page."""
    content = searches.read_note(path)
    if content is None:
        return f"By which code {path.name} was made is not known: run its script again."
    made = f"Made by {searches.command_of(content)} at {origin.commit_text(content['commit'])}"
    if content["code"] == searches.code_stamp():
        return f"{made}, by the code that wrote this page (stamp {content['code']})."
    return f"{made}, by other code than that which wrote this page: run it again."


def commands(folder: Path) -> str:
    """What writes the page anew: the tables and the searches that it shows."""
    notes = [searches.read_note(path) for path in sorted(folder.glob("*.csv"))]
    made = dict.fromkeys(searches.command_of(content) for content in notes if content)
    return "; ".join(["make reproduce-tables (the runs, the searches, this page)", *made])


def _search_line(rank: int, line: Mapping[str, str], heads: Iterable[str]) -> tuple[str, ...]:
    texts = []
    for head in heads:
        value = short_number(line[head])
        if head.startswith("distance"):
            distance = float(line[head])
            value = f"{100 * distance:.1f} %" if distance < 1e4 else "diverges"
        texts.append(value)
    return (str(rank), *texts)
