"""Disturb sweeps at random, start them again, and count losses.

    python scripts/chaos.py [--kills 50] [--seed 0] [--only kills-2 ...] [--docs docs]

An undisturbed sweep of six small jobs gives the reference numbers. Disturbances:

kills-N          kill the sweep and its children after a random time, --kills times in all; after
                 each kill the same command continues, in 1 or 2 processes
ctrl-c           interrupt a run while MLflow logs it
full-disk        limit the size of files, from 0 bytes on
damage           flip a random byte of a random file of results or caches
at-once          run the same sweep in four processes at once

After each disturbance the same command must succeed, with the reference numbers, each job once, and
no staging folder left. After Ctrl-C it must end within 2 s, and the MLflow view must show the one
complete result. Times and sizes follow from --seed. The exit status is 1 after a loss; --docs
writes the table into docs/reliability.md.
"""

import contextlib
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import reliability
from benchmarks.tables import markdown_table
from reliability import PATIENCE, Place, ended_within, lost_in, send

SMALL = (
    "dataset.rows=1500", "seeds=2", "kernels=gaussian17", "D=8",
    "figures=false",
)  # fmt: skip
SWEEP = ("-m", "algorithm=raker,gf", "algorithm.lam=1e-3,1e-2,1e-1", "tracking=none", *SMALL)
N_JOBS = 6
ONE = ("algorithm=raker", "tracking=mlflow", *SMALL)
SOON = 2.0  # seconds from Ctrl-C to the end
JOBS = (1, 2)  # processes of a sweep
KINDS = (*(f"kills-{n}" for n in JOBS), "ctrl-c", "full-disk", "damage", "at-once")
SIZES = (0, 1, 100, 1000, 4096, 20_000, 60_000)  # bytes that a file may have
Losses = tuple[int, list[str]]  # how often it was disturbed, and what was lost


class Tally(NamedTuple):
    """Result of a kind of disturbance; ``lost`` has a sentence per loss."""

    name: str
    done: int
    lost: list[str]
    seconds: float


class Chaos:
    """Disturbances, in folders below ``where``."""

    def __init__(self, where: Path, seed: int, kills: int) -> None:
        self.where, self.kills, self.seed = where, kills, seed
        self.random = random.Random(seed)
        self.kept = Place(where / "truth", SWEEP)
        status, out = self.kept.finish()
        self.truth = self.kept.numbers()
        if status or self.truth.total() != N_JOBS:
            raise SystemExit(f"the undisturbed sweep failed:\n{out}")
        shutil.rmtree(self.kept.outputs)
        began = time.monotonic()
        self.kept.finish()
        self.seconds = time.monotonic() - began  # with compiled code kept

    def place(self, name: str, arguments: Sequence[str] = SWEEP) -> Place:
        """Make a new place with the compiled code and the prepared data of the reference."""
        place = Place(self.where / name, arguments)
        shutil.copytree(self.kept.cache, place.cache)
        return place

    def killed(self, n_jobs: int) -> Losses:
        lost: list[str] = []
        done = sweeps = 0
        while done < self.kills:
            place = self.place(f"jobs-{n_jobs}-{sweeps}", (*SWEEP, f"--jobs={n_jobs}"))
            sweeps += 1
            for _ in range(self.random.randint(1, 4)):
                moment = self.random.uniform(0.0, 1.1 * self.seconds)
                with place.start() as process:
                    time.sleep(moment)
                    ended = process.poll() is not None
                    send(process, signal.SIGKILL)
                    process.communicate()
                if ended:
                    break
                done += 1
            found = lost_in(place, self.truth, *place.finish())
            lost += [f"{n_jobs} processes, sweep {sweeps}: {text}" for text in found]
            shutil.rmtree(place.folder)
        return done, lost

    def interrupted(self) -> Losses:
        """Send Ctrl-C while a published result is logged; check the delay and the view."""
        place, lost = self.place("ctrl-c", ONE), []
        place.finish()  # makes the database
        (first,) = place.runs()
        number = first.folder.stat().st_ino
        with place.start(more=("force=true",)) as process:
            published = _wait_for_another_than(number, first.folder)
            ended_within(process, PATIENCE)
            tracking = time.monotonic() - published
        for _ in range(self.kills):
            moment = self.random.uniform(0.0, tracking)
            number = first.folder.stat().st_ino
            with place.start(more=("force=true",)) as process:
                _wait_for_another_than(number, first.folder)
                time.sleep(moment)
                asked = time.monotonic()
                send(process, signal.SIGINT)
                out = ended_within(process, PATIENCE)
                took = time.monotonic() - asked
            found = [f"it ended after {took:.1f} s"] if took > SOON else []
            if "Traceback" in out:
                found.append("a traceback")
            found += lost_in(place, Counter([*place.numbers()]), *place.finish())
            folders = [run.folder.relative_to(place.outputs).as_posix() for run in place.runs()]
            if place.view() != folders:
                found.append(f"the MLflow view holds {place.view()}")
            lost += [f"Ctrl-C {moment:.2f} s after the result: {text}" for text in found]
        shutil.rmtree(place.folder)
        return self.kills, lost

    def full_disk(self) -> Losses:
        lost, times = [], min(len(SIZES), max(3, self.kills // 5))
        for n, most in enumerate(self.random.sample(SIZES, times)):
            place = self.place(f"full-{n}")
            with place.start(most) as process:
                out, _ = process.communicate()
            if "Traceback" in out:
                lost.append(f"files of at most {most} bytes: a traceback")
            found = lost_in(place, self.truth, *place.finish())
            lost += [f"after files of at most {most} bytes: {text}" for text in found]
            shutil.rmtree(place.folder)
        return times, lost

    def damage(self) -> Losses:
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

    def at_once(self) -> Losses:
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

    def disturb(self, kind: str) -> Losses:
        """Apply a disturbance of KINDS."""
        n_jobs = kind.removeprefix("kills-")
        if n_jobs.isdecimal():
            return self.killed(int(n_jobs))
        others: dict[str, Callable[[], Losses]] = {
            "ctrl-c": self.interrupted,
            "full-disk": self.full_disk,
            "damage": self.damage,
            "at-once": self.at_once,
        }
        return others[kind]()


def _wait_for_another_than(number: int, folder: Path) -> float:
    """Wait until another folder has replaced this one, at most PATIENCE. Return the time."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with contextlib.suppress(FileNotFoundError):  # it has just been moved away
            if folder.stat().st_ino != number:
                break
        time.sleep(0.002)
    return time.monotonic()


def table(tallies: Sequence[Tally], chaos: Chaos) -> str:
    rows = [[t.name, str(t.done), str(len(t.lost)), f"{t.seconds:.0f}"] for t in tallies]
    heads = ["disturbance", "times", "losses", "seconds"]
    text = f"`--kills {chaos.kills} --seed {chaos.seed}`\n\n{markdown_table(heads, rows, left=1)}\n"
    lost = [f"- {t.name}: {sentence}\n" for t in tallies for sentence in t.lost]
    return text + ("\n" if lost else "") + "".join(lost)


def main() -> int:
    parser = reliability.parser(__doc__, KINDS, KINDS)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="omkl-chaos-") as folder:
        chaos = Chaos(Path(folder), given.seed, given.kills)
        print(f"seed {given.seed}; the sweep takes {chaos.seconds:.1f} s undisturbed", flush=True)
        tallies = []
        for name in given.only:
            began = time.monotonic()
            done, lost = chaos.disturb(name)
            tallies.append(Tally(name, done, lost, time.monotonic() - began))
            print(f"{name}: {done} times, {len(lost)} losses")
            print("".join(f"  {text}\n" for text in lost), end="", flush=True)
        reliability.publish(table(tallies, chaos), "chaos", given.docs)
    return 1 if any(t.lost for t in tallies) else 0


if __name__ == "__main__":
    sys.exit(main())
