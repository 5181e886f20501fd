"""Run what the published tables need, then put every published number beside ours.

    omkl-report run [TABLE ...] [--outputs outputs] [--page FOLDER]
    make reproduce-tables

Finished runs are reused while code, data and settings are the same; a run that several
tables share is done once. Jobs run side by side, one a core. The last thing is one page of
all tables and figures.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from omkl.datasets.base import MissingFile
from omkl.experiment import queue
from omkl.papers import matching, names, page, rendering, tables
from omkl.report import console
from omkl.runs import run_folder
from omkl.utils.disk import write_atomically
from omkl.utils.wording import pluralize


class Cells:
    """Runs jobs, each once, and keeps how long each took in a file, by the run's key.

    A reused run keeps the time of when it was computed, so the file tells what the
    tables cost and not what the last call did.
    """

    def __init__(self, outputs: Path) -> None:
        self.outputs = outputs
        self.path = outputs / page.TIMES
        self.times = page.read_times(outputs)
        self.done: dict[tuple[str, ...], bool] = {}
        self.spent: dict[tuple[str, ...], float] = {}

    def run(self, chosen: Sequence[tables.Table]) -> None:
        """Run the jobs of tables, side by side, and tell each as it ends."""
        asked: dict[tuple[str, ...], None] = {}
        for table in chosen:
            jobs = [tuple(job) for job in matching.jobs(table)]
            shared = sum(job in asked for job in jobs)
            above = f", {shared} of them named above" if shared else ""
            print(f"{table.name}: {pluralize(len(jobs), 'run')}{above}")
            asked |= dict.fromkeys(jobs)
        # A picture and a tracked run a cell would take longer than the cells themselves.
        quiet = ["tracking=none", "figures=false", f"outputs={self.outputs}"]
        jobs = list(asked)
        ended_jobs = queue.side_by_side([(*job, *quiet) for job in jobs])
        try:
            for n, (number, ended) in enumerate(ended_jobs, start=1):
                self._keep(jobs[number], f"  [{n}/{len(jobs)}]", ended)
        finally:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, json.dumps(self.times, indent=2) + "\n")

    def _keep(self, job: tuple[str, ...], label: str, ended: queue.Ended) -> None:
        result = ended.run.result
        # As typed: two files of conf/algorithm may name one module.
        typed = next(o for o in job if o.startswith("algorithm=")).partition("=")[2]
        text = f"{label} {typed} on {result['dataset']}"
        self.done[job] = ended.status != "failed"
        if ended.status == "failed":
            self.spent[job] = ended.seconds
            without = result["error"]["type"] == MissingFile.__name__
            self.done[job] = without  # nothing can be done about it here
            message = result["error"]["message"]
            first = message.splitlines()[0]
            why = f"no data: {first}" if without else f"failed: {message}"
            print(f"{text}: {why}", flush=True)
            return
        if ended.status == "complete" or result["key"] not in self.times:
            self.times[result["key"]] = ended.seconds
        self.spent[job] = self.times[result["key"]]
        how = "reused" if ended.status == "reused" else f"{ended.seconds:.1f} s"
        print(f"{text}: {console.loss_text(result)} ({how})", flush=True)
        for note in ended.notes:
            print(f"    {note}")

    def seconds(self, table: tables.Table) -> float:
        """The seconds that all jobs of a table took, shared ones included."""
        return sum(self.spent[tuple(job)] for job in matching.jobs(table))


def command(wanted: Sequence[str], outputs: Path, page_folder: Path | None = None) -> int:
    """``omkl-report run``: fill tables and make the page; the exit code.

    ``wanted`` are names of tables; none: all of them.
    """
    known = sorted(names("table"), key=tables.order_of)
    start = time.perf_counter()
    cells = Cells(outputs)
    chosen = [tables.load_table(name) for name in wanted or known]
    cells.run(chosen)
    runs = list(run_folder.find(outputs))
    print("\nseconds that the runs of each table took (tables share runs)")
    for table in chosen:
        rendering.render(matching.fill(table, runs), rendering.FORMATS, outputs / "tables")
        print(f"  {table.name:16s} {cells.seconds(table):8.1f}")
    print(f"  {'all runs once':16s} {sum(cells.spent.values()):8.1f}")
    print(f"  {'this call':16s} {time.perf_counter() - start:8.1f}\n")
    print(f"tables   {outputs / 'tables'}/ ({', '.join(rendering.FORMATS)})")
    if any(table.paper for table in chosen):  # one's own are on no page
        every_table = [tables.load_table(name) for name in known]
        written = page.build(every_table, outputs, page_folder or outputs / "page", runs)
        print(f"page     {written[0]}")
    return 0 if all(cells.done.values()) else 1
