"""Time a whole ``omkl-run``, from the shell prompt to its last line.

    python scripts/startup.py [--repeat 3] [-- omkl-run's arguments]

Every number is the least time of new processes. Compiled code and prepared data come from an
earlier start; comparators are computed again.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DEFAULT = ["dataset=naval", "algorithm=sfg_r"]
RUN = "from omkl.commands import omkl_run; omkl_run()"
PLAIN = ["tracking=none", "figures=false"]
LEAST = """
import hydra, numba, numpy
@numba.njit(cache=True)
def total(x):
    return x.sum()
total(numpy.zeros(3))
"""
ROWS = {
    "libraries": "Python, Hydra, and Numba with the smallest function, cached",
    "imports": "Python, and the core imported",
    "rounds": "all rounds of all seeds, as result.json has it",
    "plain": "the whole run without comparators, figures and tracking",
    "total": "the whole run, from the prompt to its return",
}


def measure(arguments: Sequence[str] = DEFAULT, repeat: int = 3) -> dict[str, Any]:
    """Start ``omkl-run`` with these arguments ``repeat`` times, after a first start if several.

    Returns ``arguments`` and, for each of ``ROWS``, the least seconds.
    """
    with tempfile.TemporaryDirectory() as folder:
        least = Path(folder) / "least.py"  # Numba caches beside a file
        least.write_text(LEAST, encoding="utf-8")
        starts = range(repeat + (repeat > 1))
        measured = [_once(arguments, least, Path(folder) / str(n)) for n in starts][-repeat:]
    return {"arguments": list(arguments)} | {k: min(m[k] for m in measured) for k in ROWS}


def _once(arguments: Sequence[str], least: Path, outputs: Path) -> dict[str, float]:
    seconds = {
        "libraries": _seconds(str(least)),
        "imports": _seconds("-c", "import omkl.experiment.run"),
        "plain": _seconds("-c", RUN, *arguments, *PLAIN, f"outputs={outputs}/plain"),
        "total": _seconds("-c", RUN, *arguments, f"outputs={outputs}"),
    }
    (result,) = outputs.glob("runs/*/*/result.json")
    seconds["rounds"] = json.loads(result.read_text(encoding="utf-8"))["seconds"]
    return seconds


def environment() -> dict[str, str]:
    """Return variables with which a Python process imports this checkout."""
    paths = filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _seconds(*words: str) -> float:
    """Return the seconds of a Python process with these arguments."""
    own = environment()
    began = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL, env=own)
    return time.perf_counter() - began


def table(measured: dict[str, Any]) -> str:
    """Format the result of ``measure`` as text."""
    lines = [f"omkl-run {' '.join(measured['arguments'])}"]
    lines += [f"  {name:10} {measured[name]:7.3f} s  {text}" for name, text in ROWS.items()]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("arguments", nargs="*", default=DEFAULT, help="of omkl-run")
    given = parser.parse_args()
    print(table(measure(given.arguments, given.repeat)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
