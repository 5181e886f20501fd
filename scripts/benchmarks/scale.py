"""What a round costs at other sizes, and what long streams and large sweeps take.

Sizes are measured in this process; streams, seeds and sweeps by starting ``omkl-run`` as a
user would, with the memory of that process looked at a few times a second.
"""

import json
import math
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import setting
from benchmarks.setting import D
from benchmarks.timing import times
from omkl.datasets import catalogue, open_stream
from omkl.utils import registry
from omkl.utils.threads import default_threads

ALGORITHMS = ("raker", "gf", "sfg", "sfg_r")
WARM_UP = 320  # rounds: past those in which graphs are drawn
LONGEST_START = 20.0  # seconds that a learner may take before its first round
Point = dict[str, Any]


class Sweep(NamedTuple):
    """One letter varies, the others are fixed."""

    letter: str
    sizes: tuple[int, ...]
    fixed: dict[str, int]


SWEEPS = (
    Sweep("N", (10, 30, 100, 300, 1000, 3000, 10_000), {"D": D, "d": 15}),
    Sweep("D", (10, 30, 100, 300, 1000, 3000, 10_000), {"N": 10, "d": 15, "M": 5}),
    Sweep("d", (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000), {"N": 10, "D": D, "M": 5}),
    Sweep("M", (1, 3, 10, 30, 100, 300, 1000), {"N": 1000, "D": D, "d": 15}),
)


def sizes(seconds: float, largest: int) -> list[dict[str, Any]]:
    """A curve for each sweep and algorithm; sizes up to ``largest``."""
    found = []
    for sweep in SWEEPS:
        for name in ALGORITHMS:
            if sweep.letter == "M" and name == "raker":
                continue  # it has none
            points, notes = _curve(name, sweep, seconds, largest)
            found.append(
                {
                    "letter": sweep.letter,
                    "fixed": {k: v for k, v in sweep.fixed.items() if k != "M" or name != "raker"},
                    "algorithm": name,
                    "points": points,
                    "notes": notes,
                    "exponent": exponent([(p["size"], p["round_us"]) for p in points]),
                    "start_exponent": exponent([(p["size"], p["start_s"]) for p in points]),
                    "stated": stated_cost(name),
                }
            )
    return found


def _curve(name: str, sweep: Sweep, seconds: float, largest: int) -> tuple[list[Point], list[str]]:
    points: list[Point] = []
    for size in sweep.sizes:
        if size > largest:
            return points, [f"{sweep.letter} > {largest:,} left out"]
        if too_long := _start_would_take(points, size):
            return points, [f"{name}, {sweep.letter} = {size:,} left out: {too_long}"]
        points.append(_point(name, {**sweep.fixed, sweep.letter: size}, size, seconds))
    return points, []


def _start_would_take(points: Sequence[Point], size: int) -> str | None:
    """Why a learner of this size is not started, or None."""
    if len(points) < 2:
        return None
    (n0, before), (n1, last) = ((p["size"], p["start_s"]) for p in points[-2:])
    growth = math.log(last / before) / math.log(n1 / n0)
    predicted = last * (size / n1) ** min(max(growth, 1.0), 2.0)
    if predicted > LONGEST_START:
        return f"it would take about {predicted:.0f} s before the first round"
    return None


def _point(name: str, at: dict[str, int], size: int, seconds: float) -> Point:
    changes = {"M": at["M"]} if "M" in at and name != "raker" else {}
    case = setting.case(name, setting.grid(at["N"]), at["d"], at["D"], 10_000, **changes)
    rng = np.random.default_rng(1)
    rounds = 100
    X = rng.uniform(-1.0, 1.0, size=(WARM_UP + rounds, case.d)) / math.sqrt(case.d)
    y = rng.uniform(0.0, 1.0, size=len(X))
    start = time.perf_counter()
    learner = case.learner()
    start_s = time.perf_counter() - start
    learner.partial_fit(X[:WARM_UP], y[:WARM_UP])
    X, y = X[WARM_UP:], y[WARM_UP:]
    took = times(lambda: learner.partial_fit(X, y), seconds, fewest=3)
    return {"size": size, "round_us": 1e6 * min(took) / rounds, "start_s": start_s}


def exponent(points: Sequence[tuple[float, float]]) -> float | None:
    """The slope in logarithms over the last decade of sizes, where fixed costs weigh least."""
    if len(points) < 3:
        return None
    last = points[-1][0]
    upper = np.log([p for p in points if p[0] >= last / 10.001])
    return float(np.polyfit(upper[:, 0], upper[:, 1], 1)[0])


def stated_cost(name: str) -> str:
    """The section Cost of an algorithm's docstring, on one line."""
    return " ".join(registry.box(name)["Cost"].split())


# --- whole runs, as processes --------------------------------------------------------------------


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


def streams(generated: int, from_parquet: int) -> list[dict[str, Any]]:
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


def seeds(counts: Sequence[int], rounds: int) -> list[dict[str, Any]]:
    """The same run with ever more repetitions."""
    found = []
    for count in counts:
        (process,) = omkl_run(
            ["algorithm=sfg_r", f"dataset.rows={rounds}", f"seeds={count}", *QUIET]
        )
        (result,) = process.results
        found.append(
            {
                "seeds": count,
                "rounds": rounds,
                "command": process.command,
                "seconds": process.seconds,
                "seconds_of_rounds": result["seconds"],
                "round_us": 1e6 * result["seconds"] / (rounds * count),
                "peak_mb": max(held for _, held in process.memory) / 1e6,
            }
        )
    return found


GOAL_JOB_MS = 30.0


def jobs(count: int, count_one_by_one: int) -> list[dict[str, Any]]:
    """A sweep of small jobs, several in one process and one by one."""
    found: list[dict[str, Any]] = []
    for override, n in (("launcher=batch", count), (None, count_one_by_one)):
        if override is None and n == count:
            continue
        command = [
            "-m",
            f"seed=range({n})",
            "algorithm=raker",
            "dataset.rows=100",
            "seeds=1",
            "D=10",
        ]
        command += [*([override] if override else []), *QUIET]
        (process,) = omkl_run(command)
        if len(process.results) != n:
            raise Failed(f"{process.command}: {len(process.results)} of {n} results")
        found.append(
            {
                "launcher": override or "one after the other",
                "jobs": n,
                "command": process.command,
                "seconds": process.seconds,
                "job_ms": 1e3 * process.seconds / n,
                "goal": GOAL_JOB_MS if override else None,
                "threads": default_threads(),
            }
        )
    return found
