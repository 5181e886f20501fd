"""Where the time of a whole ``omkl-run`` goes, from the shell prompt to its last line.

    python scripts/startup.py [--repeat 3] [-- omkl-run's arguments]

Each stage is timed inside a process of its own that does nothing else; a stage counts
what it does itself, without the stages within it. The best of the repetitions stands.
Compiled code and prepared data are kept from an earlier start; comparators are not.
"""

from __future__ import annotations

import argparse
import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

DEFAULT = ["dataset=naval", "algorithm=sfg_r"]
STAGES = {
    "interpreter": "Python itself",
    "command line": "the command line looked up; Hydra imported; YAML files put together",
    "imports": "NumPy, Numba and the core imported",
    "data": "the file found, checked and scaled",
    "compiled code": "machine code loaded, features drawn: ends with the first round",
    "rounds": "all rounds of all seeds",
    "comparators": "the best kernels in hindsight, for the regret; figures drawn beside it",
    "results": "files written",
    "figures": "those that are left drawn: of the regret",
    "tracking": "the run written into the MLflow view",
    "the rest": "the table printed; the end of the process",
}


class Clock:
    """Seconds a stage, without those of the stages within it."""

    def __init__(self, since: float) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self.stage = "interpreter"
        self.since = since
        self.first_round = 0.0

    def switch(self, stage: str) -> str:
        """Begin a stage; the one that it interrupts."""
        now = time.perf_counter()
        before, self.stage = self.stage, stage
        self.seconds[before] += now - self.since
        self.since = now
        return before

    def timed(self, place: Any, name: str, stage: str) -> None:
        """Count every call of ``place.name`` as ``stage``."""
        function = getattr(place, name)

        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            before = self.switch(stage)
            try:
                return function(*args, **kwargs)
            finally:
                self.switch(before)

        setattr(place, name, counted)


def _inside(since: float, report: Path, arguments: Sequence[str]) -> None:
    """A whole ``omkl-run`` in this process, timed."""
    clock = Clock(since)
    clock.switch("command line")
    from omkl.commands import run as run_command

    run_alone = run_command.run_alone

    @functools.wraps(run_alone)
    def timed(*arguments: Any) -> int:
        clock.switch("imports")
        from omkl.experiment import regression
        from omkl.experiment import run as runner
        from omkl.viewers import Viewers

        clock.switch("the rest")
        clock.timed(runner, "prepare", "data")
        clock.timed(regression.Regression, "compute", "rounds")
        clock.timed(regression.Regression, "warm_up", "compiled code")
        clock.timed(regression, "_learners", "compiled code")
        clock.timed(regression, "against_comparators", "comparators")
        clock.timed(Viewers, "_draw", "figures")
        clock.timed(Viewers, "_track", "tracking")
        clock.timed(runner, "write_together", "results")
        _noting_the_first_round(clock, regression)
        return run_alone(*arguments)

    setattr(run_command, "run_alone", timed)  # noqa: B010

    def write() -> None:
        clock.switch("the rest")
        facts = {"seconds": clock.seconds, "first round": clock.first_round - since}
        report.write_text(json.dumps(facts), encoding="utf-8")

    sys.argv = ["omkl-run", *arguments]
    atexit.register(write)
    run_command.run()


def _noting_the_first_round(clock: Clock, regression: Any) -> None:
    """The last that ``_learners`` makes are followed by rounds."""
    learners: Callable[..., Any] = regression._learners

    def noted(*given: Any) -> Any:
        made = learners(*given)
        clock.first_round = time.perf_counter()
        return made

    regression._learners = noted


def measure(arguments: Sequence[str] = DEFAULT, repeat: int = 3) -> dict[str, Any]:
    """Run ``omkl-run`` with these arguments ``repeat`` times after once to warm up.

    Returns ``arguments``, ``stages`` (seconds by stage), ``first_round`` (seconds from the
    prompt), ``total`` (from the prompt until the process has ended) and ``libraries``
    (``floor``), each the least.
    """
    found = [_once(arguments) for _ in range(repeat + 1)][1:]
    return {
        "arguments": list(arguments),
        "stages": {name: min(f["seconds"][name] for f in found) for name in STAGES},
        "first_round": min(f["first round"] for f in found),
        "total": min(f["total"] for f in found),
        "libraries": min(floor() for _ in range(repeat + 1)),
    }


LEAST = """
import hydra, numba, numpy
@numba.njit(cache=True)
def total(x):
    return x.sum()
total(numpy.zeros(3))
"""


def floor() -> float:
    """Seconds that Python, Hydra and Numba need without us: the smallest function, cached."""
    folder = Path(tempfile.gettempdir()) / f"omkl-startup-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    script = folder / "least.py"
    if not script.exists() or script.read_text(encoding="utf-8") != LEAST:
        script.write_text(LEAST, encoding="utf-8")
    since = time.perf_counter()
    subprocess.run([sys.executable, str(script)], check=True)
    return time.perf_counter() - since


def _once(arguments: Sequence[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        since = time.perf_counter()
        command = [sys.executable, str(Path(__file__).resolve()), "--inside", repr(since)]
        subprocess.run(
            [*command, str(report), "--", *arguments, f"outputs={folder}/outputs"],
            check=True, stdout=subprocess.DEVNULL, env=_environment(),
        )  # fmt: skip
        ended = time.perf_counter()
        facts = json.loads(report.read_text(encoding="utf-8"))
        facts["total"] = ended - since
        facts["seconds"]["the rest"] += ended - since - sum(facts["seconds"].values())
        return facts


def _environment() -> dict[str, str]:
    """The same package as this one, whatever else is installed."""
    root = str(Path(__file__).resolve().parents[1])
    paths = [root, os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def table(found: dict[str, Any]) -> str:
    """What ``measure`` found, as text."""
    lines = [f"omkl-run {' '.join(found['arguments'])}"]
    for name, seconds in found["stages"].items():
        share = seconds / found["total"]
        lines.append(f"  {name:14} {seconds:7.3f} s  {share:4.0%}  {STAGES[name]}")
    lines.append(f"  {'total':14} {found['total']:7.3f} s        from the prompt to its return")
    lines.append(f"  {'first round':14} {found['first_round']:7.3f} s        from the prompt")
    least = "Python, Hydra, and Numba with the smallest function, cached"
    lines.append(f"  {'libraries':14} {found['libraries']:7.3f} s        {least}")
    return "\n".join(lines)


def main() -> int:
    given = sys.argv[1:]
    if given[:1] == ["--inside"]:
        _inside(float(given[1]), Path(given[2]), given[4:])
        return 0
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("arguments", nargs="*", default=DEFAULT, help="of omkl-run")
    arguments = parser.parse_args()
    print(table(measure(arguments.arguments, arguments.repeat)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
