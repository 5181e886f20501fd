"""Run what the published tables need, then put every published number beside ours.

    omkl-report run [TABLE ...] [--outputs outputs] [--page FOLDER]
    make reproduce-tables

Finished runs are reused while code, data and settings are the same; a run that several
tables share is done once. Jobs run side by side, one a core. The last thing is one page of
all tables and figures.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from omkl.config.compose import Composer
from omkl.datasets.base import MissingFile
from omkl.experiment import queue
from omkl.experiment import run as runner
from omkl.papers import matching, names, page, rendering, tables
from omkl.report import console
from omkl.runs import run_folder
from omkl.utils.wording import pluralize


def run_jobs(chosen: Sequence[tables.Table], outputs: Path) -> bool:
    """Run the jobs of tables, side by side and each once, and tell each as it ends.

    Returns whether all ended well; one whose data nobody can fetch is no failure.
    """
    asked: dict[tuple[str, ...], None] = {}
    for table in chosen:
        jobs = [tuple(job) for job in matching.jobs(table)]
        shared = sum(job in asked for job in jobs)
        above = f", {shared} of them named above" if shared else ""
        print(f"{table.name}: {pluralize(len(jobs), 'run')}{above}")
        asked |= dict.fromkeys(jobs)
    # A picture and a tracked run a cell would take longer than the cells themselves.
    quiet = ["tracking=none", "figures=false", f"outputs={outputs}"]
    jobs, well = list(asked), True
    composer = Composer()
    configs = [composer.compose([*job, *quiet]) for job in jobs]
    outcomes = queue.side_by_side(runner.run, configs)
    for n, (number, outcome) in enumerate(outcomes, start=1):
        ended = outcome or runner.crashed(configs[number], queue.DIED)
        result = ended.run.result
        # As typed: two files of conf/algorithm may name one module.
        typed = next(o for o in jobs[number] if o.startswith("algorithm=")).partition("=")[2]
        text = f"  [{n}/{len(jobs)}] {typed} on {result['dataset']}"
        if ended.status == "failed":
            without = result["error"]["type"] == MissingFile.__name__
            well &= without
            message = result["error"]["message"]
            first = message.splitlines()[0]
            why = f"no data: {first}" if without else f"failed: {message}"
            print(f"{text}: {why}", flush=True)
            continue
        how = "reused" if ended.status == "reused" else f"{result['seconds']:.1f} s"
        print(f"{text}: {console.loss_text(result)} ({how})", flush=True)
        for note in ended.notes:
            print(f"    {note}")
    return well


def command(wanted: Sequence[str], outputs: Path, page_folder: Path | None = None) -> int:
    """``omkl-report run``: fill tables and make the page; the exit code.

    ``wanted`` are names of tables; none: all of them.
    """
    known = sorted(names("table"), key=tables.order_of)
    start = time.perf_counter()
    chosen = [tables.load_table(name) for name in wanted or known]
    well = run_jobs(chosen, outputs)
    runs = list(run_folder.find(outputs))
    for table in chosen:
        filled = matching.fill(table, runs)
        rendering.render(filled, rendering.FORMATS, outputs / "tables")
        if wanted:
            rendering.print_table(filled, Console())
    print(f"\ntables   {outputs / 'tables'}/ ({', '.join(rendering.FORMATS)})")
    if any(table.paper for table in chosen):  # one's own are on no page
        every_table = [tables.load_table(name) for name in known]
        written = page.build(every_table, outputs, page_folder or outputs / "page", runs)
        print(f"page     {written[0]}")
    print(f"this call took {time.perf_counter() - start:.1f} s")
    return 0 if well else 1
