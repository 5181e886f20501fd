"""The place of each algorithm on suites, in a CSV file that is kept with the documentation.

A place is counted among the algorithms of omkl with their default settings: 1 has the least average
rank of its errors. Other libraries and tuned learners take no part. Comments above the table name
the command and the commit of each suite.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.suites import scores
from benchmarks.suites.running import Results
from benchmarks.suites.scores import MAIN
from benchmarks.suites.settings import OTHER, REFERENCE, LearnerSettings, Suite
from benchmarks.suites.streams import BadSuite, Task
from omkl import algorithms
from omkl.runs import provenance
from omkl.utils.disk import write_atomically

ALL = "omkl"  # stands for all algorithms, without those in folders


def choose(suite: Suite, typed: str | None) -> tuple[Suite, set[str]]:
    """Return the suite with algorithms that were typed besides, and the learners that were chosen.

    Parameters
    ----------
    suite
        The suite of a file.
    typed
        Names of its learners and of algorithms of omkl, separated by ";"; ``omkl`` for all
        algorithms, "-" before a name that is left out. None: the learners of the suite.

    Raises
    ------
    BadSuite
        A name is neither a learner of the suite nor an algorithm for its tasks.
    """
    if typed is None:
        return suite, {entry.name for task in suite.tasks for entry in suite.entries(task)}
    named = [name.strip() for name in typed.split(";")]
    omitted = {name[1:] for name in named if name.startswith("-")}
    wanted = [name for name in named if not name.startswith("-")]
    chosen: set[str] = set()
    if ALL in wanted:
        wanted.remove(ALL)
        every = [n for n in algorithms.names() if "/" not in n and n not in omitted]
        wanted += [name for name in every if _is_for(suite, name)]
        chosen = {name for task in suite.tasks for name in plain_learners(suite, task)}
    for name in wanted:
        called = _name_in(suite, name)
        if called is None:
            if name not in algorithms.names() or not _is_for(suite, name):
                tasks = " and ".join(suite.tasks)
                raise BadSuite(f"{name} is no learner of {suite.name} and no algorithm of {tasks}")
            more = [*suite.learners, LearnerSettings(name=name)]
            suite, called = suite.model_copy(update={"learners": more}), name
        chosen.add(called)
    return suite, chosen - omitted


def _is_for(suite: Suite, algorithm: str) -> bool:
    return algorithms.load(algorithm).task in suite.tasks


def _name_in(suite: Suite, name: str) -> str | None:
    """Return the name of a learner, or of an algorithm with its default settings, in a suite."""
    for task in suite.tasks:
        if name in {entry.name for entry in suite.entries(task)}:
            return name
    for task in suite.tasks:
        for called, algorithm in plain_learners(suite, task).items():
            if algorithm == name:
                return called
    return None


def plain_learners(suite: Suite, task: Task) -> dict[str, str]:
    """Return the algorithm of each learner with default settings, by the learner's name."""
    return {
        entry.name: algorithms.load(entry.what).name
        for entry in suite.entries(task)
        if entry.kind != OTHER and entry.candidates == [{}]
    }


def places_of(results: Results) -> pd.DataFrame:
    """Return one row per algorithm and task, best first.

    ``ratio`` is the geometric mean of errors over the reference's; ``failed`` counts streams on
    which the algorithm failed, ``streams`` those that ranks are of.
    """
    tables = []
    for task in results.suite.tasks:
        errors, plain = results.means(task, MAIN[task]), plain_learners(results.suite, task)
        errors = errors[[name for name in errors if name in plain]]
        if errors.shape[1] < 2:
            continue
        found = scores.compare(errors)
        names = found.ranks.index
        ratios = scores.log_ratios(errors, REFERENCE[task])["ratio"]
        table = pd.DataFrame({
            "suite": results.suite.name, "task": task, "learner": [plain[name] for name in names],
            "place": found.ranks.rank(method="min").astype(int), "of": len(names),
            "rank": found.ranks.round(2), "ratio": ratios[names].map("{:.3g}".format, "ignore"),
            "failed": np.isinf(errors[names]).sum(), "streams": len(found.errors),
        })  # fmt: skip
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def write(results: Results, command: str, file: Path) -> None:
    """Write the places into the file, whose other suites stay."""
    name, table = results.suite.name, places_of(results)
    lines = {name: f"# {name}, commit {provenance.commit() or 'unknown'}: {command}"}
    if file.exists():
        kept, others = read(file)
        lines = others | lines
        table = pd.concat([kept[kept["suite"] != name], table], ignore_index=True)
    text = table.sort_values("suite", kind="stable").to_csv(index=False)
    write_atomically(file, "\n".join([*(lines[key] for key in sorted(lines)), text]))


def read(file: Path) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the table of a file, and the comment of each suite by its name."""
    lines = file.read_text(encoding="utf-8").splitlines()
    comments = [line for line in lines if line.startswith("#")]
    by_suite = {line.removeprefix("# ").partition(",")[0]: line for line in comments}
    text = "\n".join(lines[len(comments) :])
    return pd.read_csv(io.StringIO(text), dtype={"ratio": str}, keep_default_na=False), by_suite
