"""What long streams take: ``omkl-run`` is started as a user would, and its memory looked at.

This is done a few times a second.
"""

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
    results   the result.json of each of its runs
    """

    command: str
    seconds: float
    memory: list[tuple[float, float]]
    results: list[dict[str, Any]]


QUIET = (
    "tracking=none",
    "figures=false",
    "regret.ridge_features=false",
    "regret.kernel_ridge=false",
)


class Failed(RuntimeError):
    """``omkl-run`` ended with an error; the text is the end of what it said."""


def omkl_run(*commands: Sequence[str], every: float = 0.2) -> list[Process]:
    """Start each command line, all at the same time, and wait for all."""
    code = [sys.executable, "-c", "from omkl.commands.run import run; run()"]
    with tempfile.TemporaryDirectory(prefix="omkl-bench-") as folder:
        at_work = []
        for number, command in enumerate(commands):
            outputs = Path(folder) / str(number)
            log = (Path(folder) / f"{number}.log").open("w+")
            process = subprocess.Popen(
                [*code, *command, f"outputs={outputs}"], stdout=log, stderr=subprocess.STDOUT
            )
            at_work.append((process, log, outputs, time.perf_counter()))
        memory: list[list[tuple[float, float]]] = [[] for _ in at_work]
        seconds = [0.0] * len(at_work)
        try:
            while not all(seconds):
                for k, (process, _, _, start) in enumerate(at_work):
                    if seconds[k]:
                        continue
                    now = time.perf_counter() - start
                    if process.poll() is not None:
                        seconds[k] = now
                    elif resident := resident_bytes(process.pid):
                        memory[k].append((now, resident))
                time.sleep(every)
        finally:
            for process, *_ in at_work:
                process.kill()
        found = []
        for k, (process, log, outputs, _) in enumerate(at_work):
            log.seek(0)
            text = log.read()
            log.close()
            typed = shlex.join(["omkl-run", *commands[k]])
            if process.returncode:
                raise Failed(f"{typed}: {text[-2000:]}")
            paths = sorted(outputs.glob("runs/*/*/result.json"))
            results = [json.loads(path.read_text()) for path in paths]
            found.append(Process(typed, seconds[k], memory[k], results))
        return found


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
    """A long generated stream and a long Parquet file, a small learner each, side by side."""
    learner = ["algorithm=raker", "D=4", "seeds=1", "threads=1", "predictions=false"]
    learner += ["kernels.parts=[{family: gaussian, bandwidth: [0.1, 1]}]"]
    common = [*learner, "stream.scaling=none", "block=65536", *QUIET]
    with tempfile.TemporaryDirectory(prefix="omkl-bench-") as folder:
        path = Path(folder) / "rows.parquet"
        written = write_parquet(path, from_parquet)
        processes = omkl_run(
            [
                "dataset=synthetic",
                f"dataset.rows={generated}",
                "dataset.inputs=2",
                "dataset.n_centres=1",
                *common,
            ],
            ["dataset=file", f"dataset.path={path}", "dataset.target=y", *common],
        )
        size = path.stat().st_size
    found = []
    for process, source, rows in zip(
        processes, ("generated", "Parquet"), (generated, from_parquet), strict=True
    ):
        (result,) = process.results
        found.append(
            {
                "source": source,
                "rows": rows,
                "rounds": result["n_rounds"],
                "command": process.command.replace(str(path), path.name),
                "seconds": process.seconds,
                "seconds_of_rounds": result["seconds"],
                "round_us": 1e6 * result["seconds"] / result["n_rounds"],
                "memory": process.memory,
                # The run reads, compiles and imports before its rounds.
                **flatness(process.memory, since=process.seconds - result["seconds"]),
            }
        )
    found[1] |= {"file_mb": size / 1e6, "seconds_to_write": written}
    return found


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


def write_parquet(path: Path, n_rows: int) -> float:
    """Rows of the synthetic stream, written as they come; the seconds that took."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    start = time.perf_counter()
    entry = catalogue.entry("synthetic") | {"rows": n_rows, "inputs": 3, "n_centres": 1}
    stream = open_stream(entry, {"limit": None, "scaling": "none", "order": "file"})
    names = [*stream.inputs, stream.target]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with pq.ParquetWriter(path, schema) as writer:
        for X, y in stream.blocks(1 << 18):
            writer.write_table(pa.table([*map(pa.array, X.T), pa.array(y)], schema=schema))
    return time.perf_counter() - start
