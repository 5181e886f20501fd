"""``omkl-check``: run the conformance suite of an algorithm, or compile it with ``--warm``."""

from __future__ import annotations

import argparse
import collections
import importlib
import inspect
import tempfile
import textwrap
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omkl.commands import terminal
from omkl.commands.terminal import EXIT_FAILED
from omkl.config.overrides import read_jobs
from omkl.utils import registry
from omkl.utils.constraints import no_such

# The suites are imported when needed: they import the compiler, which --help and errors do not use.
if TYPE_CHECKING:
    from omkl.checks.shared import Check, Outcome
    from omkl.config.schema import Algorithm


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``omkl-check`` with ``argv`` (without the program's name), and return the exit status.

    The status is 1 if a check failed, 2 if an algorithm or file does not exist, and otherwise 0.
    """
    arguments = _parser().parse_args(argv)
    config_dirs = [arguments.config_dir] if arguments.config_dir else []

    def act() -> int:
        if arguments.warm:
            for name in arguments.algorithms or ["auto"]:
                _warm(name, config_dirs)
            return 0
        if not arguments.algorithms:
            raise ValueError("name an algorithm: omkl-check ALGORITHM")
        asked = [one for text in arguments.algorithms for one in _asked(text, config_dirs)]
        return EXIT_FAILED if any([_check(one, arguments) for one in asked]) else 0

    return terminal.exit_status("omkl-check", act, (), (ValueError,))


def _parser() -> argparse.ArgumentParser:
    parser = terminal.parser(
        "omkl-check", "Run the conformance suite. The exit status is 1 where a check fails."
    )
    parser.add_argument(
        "algorithms", nargs="*", metavar="ALGORITHM",
        help="gf, say; a file of --config-dir; or your own module, mypkg.fixed_share",
    )  # fmt: skip
    parser.add_argument(
        "--config-dir", type=Path, metavar="FOLDER", help="more YAML files, in FOLDER/algorithm"
    )
    parser.add_argument("--only", metavar="CHECK,CHECK", help="these checks and no others")
    parser.add_argument(
        "--warm", action="store_true",
        help="run no checks: compile the algorithms (default: auto) into the cache folder, for "
        "an image",
    )  # fmt: skip
    parser.add_argument("--traceback", action="store_true", help="where each failure comes from")
    return parser


def _names_in(text: str) -> Sequence[str]:
    """Return the algorithms in a module such as mypkg.mine, or the text itself if it is a name."""
    return registry.declare_all(text) if "." in text else [text]


def _asked(text: str, config_dirs: Sequence[Path]) -> Iterator[Algorithm]:
    """Yield the algorithms that ``text`` names, with the parameters of their YAML files."""
    for name in _names_in(text):
        (made,) = read_jobs([f"algorithm={name}"], config_dirs).settings
        registry.declare_named({"algorithm": dict(made.algorithm), "kernels": made.kernels})
        yield made.algorithm


def _warm(text: str, config_dirs: Sequence[Path]) -> None:
    """Compile an algorithm for runs and for single rows, and print where the code is stored.

    Raises ValueError if the algorithm does not exist, or code cannot be stored.
    """
    from omkl.config.settings import task_of
    from omkl.core import cache
    from omkl.experiment import run as runner
    from omkl.experiment.job import LearnerJob

    for name in _names_in(text):
        typed = [f"algorithm={name}", "dataset=synthetic", "stream.limit=20", "seeds=1"]
        if registry.is_federated(name):
            typed += ["federation=iid", "clients=2"]
        else:
            typed += ["stream.scaling=columns"]
            typed += ["interval=0.9"] if task_of(name) == "regression" else []
        with tempfile.TemporaryDirectory() as folder:
            (settings,) = read_jobs([*typed, f"outputs={folder}"], config_dirs).settings
            outcome = runner.run(settings)
            if outcome.status == "failed":
                raise ValueError(f"{name}: {outcome.run.result['error']['message']}")
            job = runner.prepare(settings)
        if isinstance(job, LearnerJob):
            learner, row = job.learner(0), [0.0] * job.stream.n_inputs
            learner.predict_one(row)
            learner.learn_one(row, (*job.stream.classes, 0.0)[0])
        if cache.folder() is None:
            raise ValueError("nothing was kept: set NUMBA_CACHE_DIR to a writable folder")
        print(f"{name} is compiled: {cache.folder()}", flush=True)


def _check(asked: Algorithm, arguments: argparse.Namespace) -> bool:
    """Run the suite for an algorithm, print the outcomes, and return whether a check failed."""
    from omkl.checks import federations, learners, shared

    name = asked.name
    federation = registry.is_federated(name)
    case: shared.Case = federations.Case(name) if federation else learners.Case(name, asked.params)
    checks = list((federations if federation else learners).cases(name))
    chosen = [x.name for x in checks] if arguments.only is None else arguments.only.split(",")
    for text in chosen:
        if text not in [x.name for x in checks]:
            raise ValueError(no_such(f"check {text}", text, [x.name for x in checks]))
    file = importlib.import_module(case.algorithm.module).__file__
    print(f"{registry.title(name)} ({case.algorithm.module})", flush=True)
    counts: collections.Counter[str] = collections.Counter()
    for one in checks:
        if one.name not in chosen:
            continue
        outcome = shared.outcome(case, one)
        counts[outcome.status] += 1
        print(_lines(one, outcome, file), flush=True)
        if arguments.traceback and outcome.status == "failed" and outcome.error is not None:
            print("".join(traceback.format_exception(outcome.error)), flush=True)
    words = {"declared": "fail as declared"}
    total = ", ".join(f"{n} {words.get(status, status)}" for status, n in counts.items())
    print(f"{total}\n", flush=True)
    return counts["failed"] > 0


def _lines(check: Check, outcome: Outcome, file: str | None) -> str:
    """Format the outcome of a check. If it failed, explain how to declare that it fails."""
    status = {"declared": "fails", "failed": "FAILED"}.get(outcome.status, outcome.status)
    line = f"  {status:8}{check.name}"
    if outcome.status == "passed":
        return line
    if outcome.status != "failed":
        why = "as declared: " if outcome.status == "declared" else ""
        return f"{line}: {why}{outcome.reason}"
    if outcome.error is None:
        return f"{line}: {outcome.reason}. Take it out of EXPECTED_FAILURES in {file}"
    meant = (inspect.getdoc(check.function) or "").partition("\n\n")[0]
    reason = outcome.reason.strip().splitlines()[:_LINES]
    more = [
        " ".join(meant.split()),
        f"What came: {type(outcome.error).__name__}: {reason[0]}",
        *reason[1:],
        f"Where it cannot hold, say so in {file}:",
        f'    EXPECTED_FAILURES = {{"{check.name}": "the reason"}}',
    ]
    return "\n".join([line, *(textwrap.indent(text, " " * 10) for text in more)])


_LINES = 8  # number of lines of a failure's message, which NumPy makes long
