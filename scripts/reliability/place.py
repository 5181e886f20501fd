"""A folder in which one command is started, disturbed and started again, and what it holds then."""

from __future__ import annotations

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

from omkl import tracking
from omkl.runs.run_folder import Run, find

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120.0


class Place:
    """A folder of outputs and one of caches, in which ``omkl-run`` is started."""

    def __init__(self, folder: Path, arguments: Sequence[str]) -> None:
        self.folder, self.arguments = folder, list(arguments)
        self.outputs, self.cache = folder / "outputs", folder / "cache"
        self.folder.mkdir(parents=True)

    def start(
        self, most_bytes: int | None = None, more: Sequence[str] = ()
    ) -> subprocess.Popen[str]:
        command = "from omkl.commands.run import run; run()"

        def prepare() -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # whatever started us ignores
            if most_bytes is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        own = {"PYTHONPATH": os.pathsep.join(paths), "NUMBA_CACHE_DIR": str(self.cache)}
        return subprocess.Popen(
            [sys.executable, "-c", command, *self.arguments, *more],
            cwd=self.folder,
            env=os.environ | own,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=prepare,
        )

    def finish(self) -> tuple[int, str]:
        """Exit status and output of a start that nobody disturbs."""
        with self.start() as process:
            out = ended_within(process, PATIENCE)
        return process.returncode, out

    def runs(self) -> list[Run]:
        return list(find(self.outputs)) if self.outputs.is_dir() else []

    def numbers(self) -> Counter[str]:
        """What every complete run says, and how often."""
        keys = ("algorithm", "params", "mse")
        complete = [run.result for run in self.runs() if run.complete]
        return Counter(json.dumps({k: r[k] for k in keys}, sort_keys=True) for r in complete)

    def litter(self) -> list[str]:
        """What is left in the folders of runs beside runs, and hidden in them."""
        known = {run.folder.name for run in self.runs()}
        beside = [p.name for p in self.outputs.glob("runs/*/*") if p.name not in known]
        return beside + [p.name for p in self.outputs.glob("runs/*/*/.*")]

    def view(self) -> list[str]:
        """The digests of results that the MLflow view shows; what is not whole says so."""
        import mlflow

        uri = tracking.database_uri(tracking.database_file(self.outputs.resolve()))
        client = mlflow.MlflowClient(tracking_uri=uri)
        numbers = [experiment.experiment_id for experiment in client.search_experiments()]
        rows = [
            (run.info.run_id, run.data.tags.get(tracking.DIGEST))
            for run in (client.search_runs(numbers) if numbers else [])
        ]
        files = {path.name: path for path in self.outputs.glob("mlartifacts/*/*")}
        extra = [f"files of {name}" for name in files.keys() - {run_id for run_id, _ in rows}]
        return extra + [
            digest
            if run_id in files and Run(files[run_id] / "artifacts").held().digest == digest
            else f"a part of {run_id}"
            for run_id, digest in rows
        ]


def ended_within(process: subprocess.Popen[str], seconds: float) -> str:
    """The output of a process, which is killed with its children where it takes longer."""
    try:
        return process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0] + f"\nnot at its end after {seconds:g} s"


def lost_in(place: Place, truth: Counter[str], status: int, out: str) -> list[str]:
    """What is wrong after a start that nobody disturbed, in words."""
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
