"""One page of all published tables and figures beside ours, from run folders alone.

``build`` writes index.html, README.md and their figures into a folder; neither page needs
anything else. counts.json beside them has the numbers of its summary, to be quoted. What the
page says is a list of blocks, written down once and rendered twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from omkl.disk import write_atomically
from omkl.reproduction import matching
from omkl.reproduction.filled import Filled
from omkl.reproduction.formats import contents, origin
from omkl.reproduction.page.baselines import baseline_blocks
from omkl.reproduction.page.blocks import (
    Block,
    Facts,
    Heading,
    Links,
    Text,
    html_page,
    markdown_page,
)
from omkl.reproduction.page.numbers import duration
from omkl.reproduction.page.search import commands, search_blocks
from omkl.reproduction.page.summary import counts, summary_blocks, table_name
from omkl.reproduction.page.theory import active_regret_blocks, theory_blocks
from omkl.reproduction.paper_figures import active, arxiv_v1, federated, jmlr
from omkl.reproduction.pictures import Drawn
from omkl.reproduction.tables import Table
from omkl.runs import provenance
from omkl.runs.folder import Run, find
from omkl.runs.wording import counted

TIMES = "tables/times.json"  # seconds of each run, by its key
COUNTS = "counts.json"  # ``counts``, for whoever quotes them
COMPARISONS = "classification"  # the folder beside the page where comparisons are
ACTIVE = "active_table3"  # whose runs have the regret that their paper bounds

# In the order of the page: title, and what draws the figures.
Figures = Callable[[dict[str, Filled], Path], list[Drawn]]
PAPERS: dict[str, tuple[str, Figures]] = {
    "graph-aided-jmlr": (
        'P. M. Ghari and Y. Shen, "Graph-Aided Online Multi-Kernel Learning", JMLR',
        jmlr,
    ),
    "graph-aided-arxiv-v1": ("Its first version on arXiv", arxiv_v1),
    "active-mkl": ('S. Hong and J. Chae, "Active Learning with Multiple Kernels"', active),
    "federated-pof": (
        'P. M. Ghari and Y. Shen, "Personalized Online Federated Learning with Multiple '
        'Kernels", NeurIPS 2022',
        federated,
    ),
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
    """Write the page of these tables into ``folder``; index.html is the first path.

    Tables of one's own are on no page of papers.
    """
    specs = [table for table in specs if table.paper]
    runs = list(find(outputs) if runs is None else runs)
    filled = [matching.fill(table, runs) for table in specs]
    folder.mkdir(parents=True, exist_ok=True)
    blocks = _blocks(filled, outputs, folder)
    title = "Published and reproduced: online multi-kernel learning"
    paths = [folder / "index.html", folder / "README.md", folder / COUNTS]
    write_atomically(paths[0], html_page(title, blocks))
    write_atomically(paths[1], markdown_page(title, blocks))
    numbers = {name: asdict(found) for name, found in counts(filled).items()}
    write_atomically(paths[2], json.dumps(numbers, indent=2) + "\n")
    return paths + [block.path for block in blocks if isinstance(block, Drawn)]


def _blocks(filled: Sequence[Filled], outputs: Path, folder: Path) -> list[Block]:
    times = read_times(outputs)
    by_run = {run.folder: run for table in filled for run in table.runs}
    done = [run for run in by_run.values() if run.complete]
    blocks: list[Block] = [*baseline_blocks(filled), *summary_blocks(filled, times)]
    for paper, (title, draw) in PAPERS.items():
        members = [table for table in filled if table.table.paper == paper]
        if not members:
            continue
        blocks.append(Heading(title))
        for table in members:
            blocks += [Heading(contents.caption(table.table), 3), table]
        figures = draw({table.table.name: table for table in members}, folder)
        if figures:
            blocks += [Heading("Figures", 3), *figures]
        blocks += active_regret_blocks([table for table in members if table.table.name == ACTIVE])
    blocks += theory_blocks([table for table in filled if table.table.name == "jmlr_table1"])
    blocks += search_blocks(outputs / "search")
    blocks += _comparison_blocks(folder)
    return blocks + _made_with(filled, done, times, outputs / "search")


def _comparison_blocks(folder: Path) -> list[Block]:
    """Links to the comparisons that are there."""
    found = sorted(comparison_folder(folder).glob("*.md"))
    if not found:
        return []
    links = tuple((path.stem, f"../{COMPARISONS}/{path.name}") for path in found)
    return [Heading("Online classifiers beside other libraries"), Links(links)]


def _made_with(
    filled: Sequence[Filled], runs: Sequence[Run], times: Mapping[str, float], searched: Path
) -> list[Block]:
    """Commands, commits, machine and settings behind the numbers of these runs."""
    if not runs:
        return []
    started = sorted(str(run.result["started"]) for run in runs)
    facts = [
        ("commands", commands(searched)),
        ("page", f"written at {origin.commit_text(provenance.commit())}"),
        *origin.provenance(runs),
        ("computed", f"{started[0]} to {started[-1]}"),
    ]
    known = [times[run.result["key"]] for run in runs if run.result["key"] in times]
    if known:
        total = f"{duration(sum(known))} for {counted(len(known), 'run')}, added up"
        facts.append(("total time", total))
    settings = [(table_name(t.table), origin.settings_text(t.table)) for t in filled]
    return [
        Heading("Made with"),
        Text(origin.origin_text(runs)),
        Facts(tuple(facts)),
        Heading("Settings", 3),
        Facts(tuple(settings)),
    ]
