"""Ten million rounds of a learner of every representation: flat memory, finite, as good as ever.

    python scripts/endurance.py [--rounds 10000000] [--minutes 3] [--only NAME ...] [--docs docs]

The scale of the inputs drifts by a factor of ten and back; labels are a small function of their
direction and noise, so that no learner can be much better than another and one that has gone wrong
is seen. A learner passes if every number is finite, memory after the first tenth grows by less than
2 MB, and the error of the last tenth is within 10 % of the first's, whose inputs it mirrors.
A learner that would take longer than --minutes has fewer rounds. Where a representation keeps every
row there is nothing to pass, and it is left out. Exit status 1 where one fails; --docs writes the
table into docs/reliability.md.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import reliability

from omkl import algorithms
from omkl.checks.learners import Case
from omkl.report.tables import markdown_table

BLOCK = 10_000
GROWTH = 2.0  # MB
WITHIN = 0.1


class Lasted(NamedTuple):
    """What came of a learner: ``wrong`` is "" where it passed."""

    name: str
    representation: str
    rounds: int
    first: float
    last: float
    growth: float
    seconds: float
    wrong: str


def one_a_representation() -> dict[str, str]:
    """The first learner of each representation that is bounded, by its name."""
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
    """Resident memory in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def affordable(case: Case, T: int, seconds: float) -> int:
    """T, or the rounds that the learner has time for."""
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
    lasted = []
    for name in given.only:
        lasted.append(last(name, given.rounds, 60.0 * given.minutes))
        print(lasted[-1], flush=True)
    reliability.publish(table(lasted), "endurance", given.docs)
    return 1 if any(one.wrong for one in lasted) else 0


if __name__ == "__main__":
    sys.exit(main())
