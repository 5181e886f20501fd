"""The place of each algorithm on suites: a small CSV file that is kept with the documentation.

    # regression-1, commit b4c228c: omkl-benchmark run regression-1 --rows 2000 --seeds 3
    suite,task,learner,place,of,rank,ratio,failed,streams

A place is counted among the algorithms of omkl with their default settings: 1 has the least mean
rank of its errors over the streams that all of them have. Other libraries, tuned learners and those
with settings of a suite's own take no part.
"""

from __future__ import annotations

import dataclasses
import io
import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from omkl import algorithms
from omkl.benchmark import cells, scores
from omkl.benchmark.cells import Results
from omkl.benchmark.learners import algorithm_of
from omkl.benchmark.scores import MAIN
from omkl.benchmark.suite import OURS, REFERENCE, TRIVIAL, BadSuite, Suite
from omkl.utils import registry
from omkl.utils.disk import write_atomically

ALL = "omkl"  # typed for all algorithms of omkl, without those of folders such as as_released/
COLUMNS = ["suite", "task", "learner", "place", "of", "rank", "ratio", "failed", "streams"]


def every_algorithm() -> list[str]:
    """Those of omkl, without folders."""
    return [name for name in registry.names("omkl.algorithms") if "/" not in name]


def as_they_are(suite: Suite, task: str) -> dict[str, str]:
    """The suite's learners that are algorithms with their default settings: name by algorithm."""
    plain: dict[str, str] = {}
    for entry in suite.entries(task):
        features = (entry.kernels, entry.D) == (suite.kernels, suite.D)
        changed = entry.params or entry.grid or entry.lags or not features
        if entry.kind == TRIVIAL or (entry.kind == OURS and not changed):
            plain.setdefault(algorithms.load(algorithm_of(entry, task)).name, entry.name)
    return plain


def with_algorithms(suite: Suite, typed: Sequence[str]) -> tuple[Suite, set[str]]:
    """The suite with these learners and algorithms, and what they are called in it.

    ``typed`` are names of its learners and of algorithms of omkl, ALL, and "-" before a name that
    is left out. An algorithm that the suite has with its default settings is not added again.
    Raises BadSuite for a name of none, and for an algorithm that the suite has no streams for.
    """
    omitted = {name.removeprefix("-") for name in typed if name.startswith("-")}
    tasks = {name: algorithms.load(name).task for name in every_algorithm()} if ALL in typed else {}
    own = [name for name, task in tasks.items() if task in suite.tasks and name not in omitted]
    names = [name for name in typed if name != ALL and not name.startswith("-")]
    called: set[str] = set()
    if unknown := sorted({*names, *omitted} - _names(suite) - {*algorithms.names()}):
        raise _refused(suite, unknown)
    for name in [*names, *own]:
        if name in _names(suite):
            called.add(name)
            continue
        task = algorithms.load(name).task
        if task not in suite.tasks:
            raise _refused(suite, [name])
        if (one := algorithms.load(name).name) not in as_they_are(suite, task):
            suite = dataclasses.replace(suite, learners=[*suite.learners, {"name": name}])
        called.add(as_they_are(suite, task)[one])
    if ALL in typed:
        plain = [as_they_are(suite, task) for task in suite.tasks]
        called |= {name for of_task in plain for name in of_task.values()}
    return suite, called - omitted


def _refused(suite: Suite, names: Sequence[str]) -> BadSuite:
    return BadSuite(
        f"{suite.name} has no {', '.join(names)}; it has: {'; '.join(sorted(_names(suite)))}; "
        f"further ones are algorithms of omkl for {' and '.join(suite.tasks)}, and {ALL} is all"
    )


def _names(suite: Suite) -> set[str]:
    return {entry.name for task in suite.tasks for entry in suite.entries(task)}


def of_results(results: Results) -> pd.DataFrame:
    """A row for each algorithm and task of a folder, the best first; columns as in the file.

    ``ratio`` is the geometric mean of its error over the reference's (the linear ridge's, or the
    linear classifier's), of streams where neither failed. ``failed`` counts streams where it
    diverged or died, and ``streams`` those that ranks are of. Raises ValueError where a task has
    fewer than two learners, or nothing is there.
    """
    tables = []
    for task in results.tasks():
        plain = as_they_are(results.suite, task)
        errors = cells.means(results, task, MAIN[task])
        errors = errors[[name for name in plain.values() if name in errors]]
        if errors.empty:
            continue
        ranks, blocks = scores.average_ranks(errors)
        reference = REFERENCE[task]
        ratios = scores.log_ratio(errors, to=reference)["ratio"] if reference in errors else {}
        algorithm = {name: one for one, name in plain.items()}
        table = pd.DataFrame(index=ranks.index).assign(
            suite=results.suite.name,
            task=task,
            learner=[algorithm[name] for name in ranks.index],
            place=ranks.rank(method="min").astype(int),
            of=len(ranks),
            rank=ranks.round(2),
            ratio=[_ratio(ratios, name, reference) for name in ranks.index],
            failed=np.isinf(errors[ranks.index]).sum(),
            streams=len(blocks.errors),
        )
        tables.append(table)
    if not tables:
        raise ValueError(f"no stream of {results.suite.name} is there: run it first")
    return pd.concat(tables, ignore_index=True)[COLUMNS]


def _ratio(ratios: pd.Series, name: str, reference: str) -> str:
    """Three digits; "" where there is none, as of a learner that failed on every stream."""
    value = 1.0 if name == reference else ratios.get(name, np.nan)
    return "" if np.isnan(value) else f"{value:.3g}"


def command_of(results: Results) -> str:
    """What computes the cells that places are of."""
    changed = [f"--{k.replace('_', '-')} {v}" for k, v in results.stated["changed"].items()]
    plain = {task: as_they_are(results.suite, task) for task in results.tasks()}
    computed = {learner for _, learner in results.cells}
    names = sorted({name for of_task in plain.values() for name in of_task.values()} & computed)
    own = [algorithms.load(name) for name in every_algorithm()]
    omitted = [o.name for o in own if o.task in plain and plain[o.task].get(o.name) not in computed]
    every = [ALL, *(f"-{name}" for name in omitted)]
    learners = ";".join(every if len(every) < len(names) else names)
    typed = [f"omkl-benchmark run {results.suite.name}", *changed]
    return " ".join([*typed, f"--learners {shlex.quote(learners)}"])


def write(folder: Path, file: Path) -> None:
    """Write the places of a folder's results into the file, whose other suites stay.

    Raises ``cells.Damaged`` for a folder that holds no results, and ValueError as ``of_results``.
    """
    results = cells.results_of(folder)
    name, new = results.suite.name, of_results(results)
    commit = results.stated["commit"] or "unknown"
    heads = {name: f"# {name}, commit {commit}: {command_of(results)}"}
    if file.exists():
        kept, stated = read(file)
        heads = stated | heads
        new = pd.concat([kept[kept["suite"] != name], new], ignore_index=True)
    lines = [heads[one] for one in sorted(heads)]
    table = new.sort_values("suite", kind="stable").to_csv(index=False)
    write_atomically(file, "\n".join([*lines, table]))


def read(file: Path) -> tuple[pd.DataFrame, dict[str, str]]:
    """The table of a file, and by suite the line that says what it was computed with."""
    lines = file.read_text(encoding="utf-8").splitlines()
    stated = [line for line in lines if line.startswith("#")]
    heads = {line.removeprefix("# ").partition(",")[0]: line for line in stated}
    table = pd.read_csv(io.StringIO("\n".join(lines[len(stated) :])), dtype={"ratio": str})
    return table.fillna({"ratio": ""}), heads
