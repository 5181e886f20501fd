"""Check a file and every representation over ten million rounds: memory, finite numbers, errors.

    python scripts/endurance.py [--rounds 10000000] [--minutes 3] [--only NAME ...] [--docs docs]

First, a run of the running mean and the baselines reads a Parquet file of as many rows with 100
columns. It passes if the peak of memory grows by less than 100 MB after the third chunk.

The scale of the inputs drifts by a factor of ten and back. Targets are a small function of the
direction of the inputs, and noise, so all learners have nearly the same error, and a failure is
visible. A learner passes if every number is finite, memory grows by less than 2 MB after the first
tenth, and the error of the last tenth is within 10 % of that of the first, whose inputs have the
same scale. A learner that would take longer than --minutes has fewer rounds. Representations that
store every row are omitted. The exit status is 1 after a failure; --docs writes the tables into
docs/reliability.md.
"""

import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import reliability
from benchmarks.tables import markdown_table

from omkl import algorithms
from omkl.checks.learners import Case
from omkl.config.compose import Composer
from omkl.datasets.read import chunk_rows
from omkl.experiment import run as runner

BLOCK = 10_000
GROWTH = 2.0  # MB
COLUMNS, PEAK_GROWTH = 100, 100.0  # of a file; MB
WITHIN = 0.1


class Lasted(NamedTuple):
    """Result of a learner; ``wrong`` is "" if it passed."""

    name: str
    representation: str
    rounds: int
    first: float
    last: float
    growth: float
    seconds: float
    wrong: str


def one_a_representation() -> dict[str, str]:
    """Return the first learner of each representation with bounded memory, by its name."""
    found: dict[str, str] = {}
    for name in algorithms.names():
        representation = algorithms.load(name).representation
        if representation.bounded:
            found.setdefault(representation.name, name)
    return found


def blocks(T: int, d: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    for start in range(0, T, BLOCK):
        n = min(BLOCK, T - start)
        direction = rng.uniform(-1.0, 1.0, (n, d)) / np.sqrt(d)
        scale = 10.0 ** (0.5 * np.cos(2.0 * np.pi * (start + np.arange(n)) / T))
        y = 0.02 * np.sin(3.0 * direction[:, 0]) + 0.3 * rng.standard_normal(n)
        yield scale[:, None] * direction, y


def memory() -> float:
    """Return the resident memory in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def affordable(case: Case, T: int, seconds: float) -> int:
    """Return the number of rounds that take ``seconds``, at most T and at least ten blocks."""
    learner = case.learner()
    for X, y in blocks(2 * BLOCK, learner.d):  # the first compiles
        began = time.monotonic()
        learner.partial_fit(X, case.labels(y > 0.0) if case.classifies else y)
        took = time.monotonic() - began
    return min(T, max(10 * BLOCK, int(BLOCK * seconds / took)))


def last(name: str, most: int, seconds: float) -> Lasted:
    case = Case(name)
    T = affordable(case, most, seconds)
    learner = case.learner(T=T)
    errors, kept = [], []
    began = time.monotonic()
    for X, y in blocks(T, learner.d):
        told = case.labels(y > 0.0) if case.classifies else y
        y_hat = learner.partial_fit(X, told).y_hat
        wrong = y_hat * told <= 0.0 if case.classifies else np.square(y_hat - told)
        errors.append(float(wrong.mean()))
        kept.append(memory())
    tenth = max(1, len(errors) // 10)
    first, latest = np.mean(errors[:tenth]), np.mean(errors[-tenth:])
    growth = kept[-1] - kept[tenth - 1]
    found = []
    if not np.isfinite(errors).all():
        found.append("not finite")
    if not abs(latest / first - 1.0) <= WITHIN:
        found.append("another error")
    if growth > GROWTH:
        found.append("memory grows")
    took, kind = time.monotonic() - began, case.representation.name
    return Lasted(name, kind, T, float(first), float(latest), growth, took, ", ".join(found))


class FileRun(NamedTuple):
    """Peak memory in MB of a run of a file, after three chunks and at its end."""

    rows: int
    third_chunk: float
    end: float
    seconds: float
    wrong: str


def peak() -> float:
    """Return the largest resident memory so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def write_file(path: str, n_rows: int) -> None:
    """Write columns with few distinct values, which Parquet compresses to a tenth."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, names = np.random.default_rng(0), [f"x{k}" for k in range(COLUMNS)]
    schema = pa.schema([(name, pa.float64()) for name in [*names, "y"]])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, n_rows, BLOCK):
            X = rng.integers(-8, 8, (min(BLOCK, n_rows - start), COLUMNS)) / 4.0
            y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(len(X))
            writer.write_table(pa.table([*X.T, y], schema=schema))


def run_file(n_rows: int) -> FileRun:
    """Run a learner on a file. Another process writes the file, so its memory does not count."""
    peaks: list[float] = []

    def progress(stage: str, done: int, total: int | None, loss: float | None) -> None:
        if stage == "rounds" and done >= 3 * chunk_rows(COLUMNS + 1) and not peaks:
            peaks.append(peak())

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/rows.parquet"
        writer = multiprocessing.get_context("spawn").Process(
            target=write_file, args=(path, n_rows)
        )
        writer.start()
        writer.join()
        chosen = ["algorithm=mean", "dataset=file", f"dataset.path={path}", "dataset.target=y"]
        quiet = [f"outputs={folder}/out", "figures=false", "tracking=none", "seeds=1"]
        began = time.monotonic()
        outcome = runner.run(Composer().compose([*chosen, *quiet]), progress)
        seconds = time.monotonic() - began
    if outcome.status != "complete":
        raise RuntimeError(outcome.run.result["error"]["message"])
    (third,) = peaks
    end = peak()
    return FileRun(n_rows, third, end, seconds, "grows" if end - third > PEAK_GROWTH else "")


def file_table(one: FileRun) -> str:
    heads = ["rows", "columns", "MB after 3 chunks", "MB at the end", "us per row", ""]
    numbers = [f"{one.rows:,}", f"{COLUMNS}", f"{one.third_chunk:,.0f}", f"{one.end:,.0f}"]
    row = [*numbers, f"{1e6 * one.seconds / one.rows:.1f}", one.wrong or "passed"]
    return f"{markdown_table(heads, [row], left=0)}\n"


def table(lasted: list[Lasted]) -> str:
    heads = ["representation", "learner", "rounds", "first tenth", "last tenth"]
    heads += ["MB more", "us per round", ""]
    body = [
        [
            one.representation,
            one.name,
            f"{one.rounds:,}",
            f"{one.first:.4f}",
            f"{one.last:.4f}",
            f"{one.growth:.1f}",
            f"{1e6 * one.seconds / one.rounds:.1f}",
            one.wrong or "passed",
        ]
        for one in lasted
    ]
    return f"{markdown_table(heads, body, left=2)}\n"


def main() -> int:
    parser = reliability.parser(__doc__, algorithms.names(), [*one_a_representation().values()])
    parser.add_argument("--rounds", type=int, default=10_000_000)
    parser.add_argument("--minutes", type=float, default=3.0)
    given = parser.parse_args()
    read = run_file(given.rounds)
    reliability.publish(file_table(read), "files", given.docs)
    lasted = []
    for name in given.only:
        lasted.append(last(name, given.rounds, 60.0 * given.minutes))
        print(lasted[-1], flush=True)
    reliability.publish(table(lasted), "endurance", given.docs)
    return 1 if read.wrong or any(one.wrong for one in lasted) else 0


if __name__ == "__main__":
    sys.exit(main())
