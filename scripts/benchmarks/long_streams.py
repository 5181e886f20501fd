"""What long streams take: ``omkl-run`` is started as a user would, and its memory looked at.

This is done a few times a second.
"""

import contextlib
import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl.datasets import catalogue, open_stream


class Process(NamedTuple):
    """A finished ``omkl-run``.

    command   as a user types it
    seconds   from start to end
    memory    (seconds since the start, resident bytes) by the time
    result    the result.json of its run
    """

    command: str
    seconds: float
    memory: list[tuple[float, float]]
    result: dict[str, Any]


QUIET = (
    "tracking=none",
    "figures=false",
)


class Failed(RuntimeError):
    """``omkl-run`` ended with an error; the text is the end of what it said."""


def omkl_run(command: Sequence[str], every: float = 0.2) -> Process:
    """Start a command line and wait for it."""
    typed = shlex.join(["omkl-run", *command])
    code = [sys.executable, "-c", "from omkl.commands import omkl_run; omkl_run()"]
    memory: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory(prefix="omkl-bench-") as folder:
        outputs, log = Path(folder) / "outputs", Path(folder) / "log"
        start = time.perf_counter()
        with log.open("w") as said:
            words = [*code, *command, f"outputs={outputs}"]
            process = subprocess.Popen(words, stdout=said, stderr=subprocess.STDOUT)
            try:
                while process.poll() is None:
                    if resident := resident_bytes(process.pid):
                        memory.append((time.perf_counter() - start, resident))
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(every)
            finally:
                process.kill()
        seconds = time.perf_counter() - start
        if process.returncode:
            raise Failed(f"{typed}: {log.read_text()[-2000:]}")
        (path,) = outputs.glob("runs/*/*/result.json")
        return Process(typed, seconds, memory, json.loads(path.read_text()))


def resident_bytes(pid: int) -> float | None:
    """Memory that a process holds; None where it has ended or the system does not tell."""
    try:
        if sys.platform == "linux":
            text = Path(f"/proc/{pid}/status").read_text()
            line = next(x for x in text.splitlines() if x.startswith("VmRSS:"))
            return 1024.0 * int(line.split()[1])
        shown = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True)
        return 1024.0 * int(shown.stdout)
    except (OSError, StopIteration, ValueError):
        return None


def measure(generated: int, from_parquet: int) -> list[dict[str, Any]]:
    """A long generated stream and a long Parquet file, a small learner each."""
    learner = ["algorithm=raker", "D=4", "seeds=1", "threads=1", "predictions=false"]
    learner += ["kernels.parts=[{family: gaussian, bandwidth: [0.1, 1]}]"]
    common = [*learner, "stream.scaling=none", "block=65536", *QUIET]
    made = ["dataset=synthetic", f"dataset.rows={generated}", "dataset.inputs=2"]
    with tempfile.TemporaryDirectory(prefix="omkl-bench-") as folder:
        path = Path(folder) / "rows.parquet"
        write_parquet(path, from_parquet)
        of_file = ["dataset=file", f"dataset.path={path}", "dataset.target=y"]
        processes = {
            "generated": omkl_run([*made, "dataset.n_centres=1", *common]),
            "Parquet": omkl_run([*of_file, *common]),
        }
    return [
        {
            "source": source,
            "rounds": process.result["n_rounds"],
            "command": process.command.replace(str(path), path.name),
            "seconds": process.seconds,
            "round_us": 1e6 * process.result["seconds"] / process.result["n_rounds"],
            "memory": process.memory,
            # The run reads, compiles and imports before its rounds.
            **flatness(process.memory, since=process.seconds - process.result["seconds"]),
        }
        for source, process in processes.items()
    ]


def flatness(memory: Sequence[tuple[float, float]], since: float) -> dict[str, float | None]:
    """Peak, and growth from the second to the third quarter of the time after ``since``, in MB.

    The last quarter holds the writing of the results. The growth is None where the time
    was too short to look at the memory in both.
    """
    seconds = np.array([t for t, _ in memory])
    megabytes = np.array([b for _, b in memory]) / 1e6
    quarter = 4.0 * (seconds - since) / (seconds[-1] - since)
    early = megabytes[(quarter >= 1.0) & (quarter < 2.0)]
    late = megabytes[(quarter >= 2.0) & (quarter < 3.0)]
    told = len(early) and len(late)
    return {
        "peak_mb": float(megabytes.max()),
        "growth_mb": float(np.median(late) - np.median(early)) if told else None,
    }


def write_parquet(path: Path, n_rows: int) -> None:
    """Rows of the synthetic stream, written as they come."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    entry = catalogue.entry("synthetic") | {"rows": n_rows, "inputs": 3, "n_centres": 1}
    stream = open_stream(entry, {"limit": None, "scaling": "none", "order": "file"})
    names = [*stream.inputs, stream.target]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with pq.ParquetWriter(path, schema) as writer:
        for X, y in stream.blocks(1 << 18):
            writer.write_table(pa.table([*map(pa.array, X.T), pa.array(y)], schema=schema))
