"""Kill, starve and damage sweeps at random, start them again, and count what is lost.

    python scripts/chaos.py [--kills 50] [--seed 0] [--only kills-basic ...] [--docs docs]

One sweep of six small jobs is run undisturbed, and its numbers are the truth. Then

kills-LAUNCHER   the sweep is killed with its children, after a random time, --kills times in all;
                 each time the same command goes on; basic, batch, and joblib where its extra is
                 installed
full-disk        no file may grow beyond a random size
damage           a random byte of a random file of results or caches is flipped
at-once          four processes run the same sweep at once

After each disturbance the same command must end well, with each number as in the truth, each job
once, and no staging folder left. Every moment and size follows from --seed. Exit status 1 where
anything was lost; --docs writes the table into docs/reliability.md.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.util
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from endurance import write_docs

from omkl.report.text import markdown_table
from omkl.runs.folder import find

ROOT = Path(__file__).resolve().parents[1]
SWEEP = (
    "-m", "algorithm=raker,gf", "algorithm.lam=1e-3,1e-2,1e-1", "dataset.rows=1500", "seeds=2",
    "kernels=gaussian17", "D=8", "regret.kernel_ridge=false", "tracking=none", "figures=false",
)  # fmt: skip
N_JOBS = 6
LAUNCHERS = {"basic": None, "batch": None, "joblib": "hydra_joblib_launcher"}
PATIENCE = 120.0
MARKERS = ("<!-- chaos: begin -->\n", "<!-- chaos: end -->\n")


class Tally(NamedTuple):
    """What came of a kind of disturbance: ``lost`` are sentences."""

    name: str
    done: int
    lost: list[str]
    seconds: float


class Place:
    """A folder of outputs and one of caches, in which the sweep is started."""

    def __init__(self, folder: Path, launcher: str = "basic") -> None:
        self.folder = folder
        self.outputs, self.cache = folder / "outputs", folder / "cache"
        self.folder.mkdir(parents=True)
        self.arguments = [*SWEEP, *([f"launcher={launcher}"] if launcher != "basic" else [])]

    def start(self, most_bytes: int | None = None) -> subprocess.Popen[str]:
        def limit() -> None:
            if most_bytes is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

        command = "from omkl.commands.run import run; run()"
        return subprocess.Popen(
            [sys.executable, "-c", command, *self.arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(self.cache)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=limit,
        )

    def finish(self) -> tuple[int, str]:
        """Exit status and output of a start that nobody disturbs."""
        with self.start() as process:
            try:
                out, _ = process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                out, _ = process.communicate()
                out += f"\nnot at its end after {PATIENCE:.0f} s"
        return process.returncode, out

    def numbers(self) -> Counter[str]:
        """What every complete run says, and how often."""
        runs = [run for run in find(self.outputs) if run.complete] if self.outputs.is_dir() else []
        keys = ("algorithm", "params", "mse")
        return Counter(json.dumps({k: run.result[k] for k in keys}, sort_keys=True) for run in runs)

    def litter(self) -> list[str]:
        """What is left in the folders of runs beside runs."""
        known = {run.folder.name for run in find(self.outputs)}
        return [p.name for p in self.outputs.glob("runs/*/*") if p.name not in known]


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


class Chaos:
    """The disturbances, in folders below ``where``."""

    def __init__(self, where: Path, seed: int, kills: int) -> None:
        self.where, self.kills = where, kills
        self.random = random.Random(seed)
        self.kept = Place(where / "truth")
        began = time.monotonic()
        status, out = self.kept.finish()
        self.seconds = time.monotonic() - began
        self.truth = self.kept.numbers()
        if status or self.truth.total() != N_JOBS:
            raise SystemExit(f"the undisturbed sweep failed:\n{out}")
        began = time.monotonic()
        shutil.rmtree(self.kept.outputs)
        self.kept.finish()
        self.seconds = time.monotonic() - began  # with compiled code kept

    def place(self, name: str, launcher: str = "basic") -> Place:
        """A fresh place with the compiled code and the prepared data of the truth."""
        place = Place(self.where / name, launcher)
        shutil.copytree(self.kept.cache, place.cache)
        return place

    def killed(self, launcher: str) -> tuple[int, list[str]]:
        lost: list[str] = []
        done = sweeps = 0
        while done < self.kills:
            place = self.place(f"{launcher}-{sweeps}", launcher)
            sweeps += 1
            for _ in range(self.random.randint(1, 4)):
                moment = self.random.uniform(0.0, 1.1 * self.seconds)
                with place.start() as process:
                    time.sleep(moment)
                    ended = process.poll() is not None
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    process.communicate()
                if ended:
                    break
                done += 1
            found = lost_in(place, self.truth, *place.finish())
            lost += [f"{launcher}, sweep {sweeps}: {text}" for text in found]
            shutil.rmtree(place.folder)
        return done, lost

    def full_disk(self) -> tuple[int, list[str]]:
        lost, times = [], max(1, self.kills // 5)
        for n in range(times):
            place = self.place(f"full-{n}")
            most = self.random.choice([0, 100, 1000, 5000, 20_000, 60_000])
            with place.start(most) as process:
                out, _ = process.communicate()
            if "Traceback" in out:
                lost.append(f"files of at most {most} bytes: a traceback")
            found = lost_in(place, self.truth, *place.finish())
            lost += [f"after files of at most {most} bytes: {text}" for text in found]
            shutil.rmtree(place.folder)
        return times, lost

    def damage(self) -> tuple[int, list[str]]:
        place = self.place("damage")
        place.finish()
        lost = []
        for _ in range(self.kills):
            folder = self.random.choice([place.outputs / "runs", place.outputs, place.cache])
            files = sorted(p for p in folder.rglob("*") if p.is_file() and p.stat().st_size)
            path = self.random.choice(files)
            raw = bytearray(path.read_bytes())
            at = self.random.randrange(len(raw))
            raw[at] ^= 1 << self.random.randrange(8)
            path.write_bytes(raw)
            found = lost_in(place, self.truth, *place.finish())
            name = path.relative_to(place.folder)
            lost += [f"byte {at} of {name}: {text}" for text in found]
        return self.kills, lost

    def at_once(self) -> tuple[int, list[str]]:
        lost, times = [], max(1, self.kills // 10)
        for n in range(times):
            place = self.place(f"once-{n}")
            with contextlib.ExitStack() as stack:
                several = [stack.enter_context(place.start()) for _ in range(4)]
                ends = [process.communicate()[0] for process in several]
            for process, out in zip(several, ends, strict=True):
                found = lost_in(place, self.truth, process.returncode, out)
                lost += [f"one of four at once: {text}" for text in found]
            shutil.rmtree(place.folder)
        return times, lost

    def kinds(self) -> dict[str, Callable[[], tuple[int, list[str]]]]:
        kinds: dict[str, Callable[[], tuple[int, list[str]]]] = {}
        for launcher, package in LAUNCHERS.items():
            if package and importlib.util.find_spec(f"hydra_plugins.{package}") is None:
                print(f"kills-{launcher}: {package} is not installed")
                continue
            kinds[f"kills-{launcher}"] = functools.partial(self.killed, launcher)
        others = {"full-disk": self.full_disk, "damage": self.damage, "at-once": self.at_once}
        return kinds | others


def table(tallies: Sequence[Tally], seed: int) -> str:
    rows = [[t.name, str(t.done), str(len(t.lost)), f"{t.seconds:.0f}"] for t in tallies]
    heads = ["disturbance", "times", "losses", "seconds"]
    return f"Seed {seed}.\n\n{markdown_table(heads, rows, left=1)}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--docs", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="omkl-chaos-") as folder:
        chaos = Chaos(Path(folder), given.seed, given.kills)
        print(f"seed {given.seed}; the sweep takes {chaos.seconds:.1f} s undisturbed")
        tallies = []
        for name, disturb in chaos.kinds().items():
            if given.only and name not in given.only:
                continue
            began = time.monotonic()
            done, lost = disturb()
            tallies.append(Tally(name, done, lost, time.monotonic() - began))
            print(f"{name}: {done} times, {len(lost)} losses")
            print("".join(f"  {text}\n" for text in lost), end="", flush=True)
    text = table(tallies, given.seed)
    print(text)
    if given.docs:
        write_docs(given.docs / "reliability.md", text, MARKERS)
    return 1 if any(t.lost for t in tallies) else 0


if __name__ == "__main__":
    sys.exit(main())
