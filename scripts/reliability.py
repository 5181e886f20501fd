"""Common parts of ``chaos.py`` and ``endurance.py``.

``Place`` is a folder in which one command is started, disturbed and started again, and ``lost_in``
finds lost results in it. ``parser`` is the command line of both scripts. ``publish`` writes their
tables into docs/reliability.md.
"""

import argparse
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import startup

from omkl.report import tracking
from omkl.runs import provenance
from omkl.runs.run_folder import Run, find
from omkl.utils import disk

PATIENCE = 120.0
PAGE = "reliability.md"


class Place:
    """Folders of outputs and caches, in which ``omkl-run`` is started."""

    def __init__(self, folder: Path, arguments: Sequence[str]) -> None:
        self.folder, self.arguments = folder, list(arguments)
        self.outputs, self.cache = folder / "outputs", folder / "cache"
        self.folder.mkdir(parents=True)

    def start(
        self, most_bytes: int | None = None, more: Sequence[str] = ()
    ) -> subprocess.Popen[str]:
        def prepare() -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # whatever started us ignores
            if most_bytes is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

        return subprocess.Popen(
            [sys.executable, "-c", startup.RUN, *self.arguments, *more],
            cwd=self.folder,
            env=startup.environment() | {"NUMBA_CACHE_DIR": str(self.cache)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=prepare,
        )

    def finish(self) -> tuple[int, str]:
        """Start the command undisturbed, and return its exit status and output."""
        with self.start() as process:
            out = ended_within(process, PATIENCE)
        return process.returncode, out

    def runs(self) -> list[Run]:
        return list(find(self.outputs)) if self.outputs.is_dir() else []

    def numbers(self) -> Counter[str]:
        """Return the numbers of every complete run, and how often they occur."""
        keys = ("algorithm", "params", "mse")
        complete = [run.result for run in self.runs() if run.complete]
        return Counter(json.dumps({k: r[k] for k in keys}, sort_keys=True) for r in complete)

    def litter(self) -> list[str]:
        """Return files in the folders of runs that belong to no run, except staging folders."""
        known = {run.folder.name for run in self.runs()}
        beside = [p.name for p in self.outputs.glob("runs/*/*") if p.name not in known]
        return [name for name in beside if not name.startswith(disk.STAGING)]

    def view(self) -> list[str]:
        """Return the run folders that the MLflow view shows, and mark incomplete ones."""
        import mlflow

        client = mlflow.MlflowClient(tracking_uri=tracking.uri(self.outputs))
        numbers = [experiment.experiment_id for experiment in client.search_experiments()]
        shown = client.search_runs(numbers) if numbers else []
        return [
            str(run.data.tags.get("folder"))
            if run.info.status == "FINISHED"
            else f"a part of {run.info.run_id}"
            for run in shown
        ]


def send(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Send a signal to a process and its children, if it has not ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def ended_within(process: subprocess.Popen[str], seconds: float) -> str:
    """Return the output of a process; kill it and its children after ``seconds``."""
    try:
        return process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        send(process, signal.SIGKILL)
        return process.communicate()[0] + f"\nnot at its end after {seconds:g} s"


def lost_in(place: Place, truth: Counter[str], status: int, out: str) -> list[str]:
    """Return a sentence for each loss after an undisturbed start."""
    found = []
    if status:
        found.append(f"exit status {status}: {out.strip().splitlines()[-1:]}")
    if "Traceback" in out:
        found.append("a traceback")
    if missing := truth - place.numbers():
        found.append(f"{missing.total()} results missing or wrong")
    if more := place.numbers() - truth:
        found.append(f"{more.total()} results twice or wrong")
    if left := place.litter():
        found.append(f"left behind: {', '.join(left)}")
    return found


# --- command line and page ------------------------------------------------------------------------


def parser(description: str, names: Sequence[str], usual: Sequence[str]) -> argparse.ArgumentParser:
    """Return a parser of the options of both scripts, ``--only`` and ``--docs``.

    ``--only`` accepts ``names``; its default is ``usual``.
    """
    made = argparse.ArgumentParser(description=description.splitlines()[0])
    default = f"default: {', '.join(usual)}"
    made.add_argument(
        "--only", nargs="+", choices=names, default=usual, metavar="NAME", help=default
    )
    made.add_argument("--docs", type=Path, metavar="FOLDER", help=f"write into FOLDER/{PAGE}")
    return made


def publish(text: str, name: str, docs: Path | None) -> None:
    """Print a table, and with ``docs`` write it and the commit between the comments of its name.

    Raises ValueError if the page has no such comments.
    """
    print(text)
    if docs is None:
        return
    path = docs / PAGE
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    page = path.read_text(encoding="utf-8")
    before, found, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not (found and ended):
        raise ValueError(f"{path} has no place for a table: {begin.strip()} and {end.strip()}")
    text = f"{text}\nMeasured at {str(provenance.commit())[:8]}.\n"
    path.write_text(f"{before}{begin}{text}{end}{after}", encoding="utf-8")
