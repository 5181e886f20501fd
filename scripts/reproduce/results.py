"""Our numbers in the cells of published tables, and verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import variants

from omkl.config.compose import Composer
from omkl.config.schema import Settings
from omkl.datasets import catalogue
from omkl.datasets.base import DataError, MissingFile
from omkl.experiment import processes
from omkl.experiment import run as runner
from omkl.report import console
from omkl.runs.run_folder import Run
from reproduce.tables import CITED, METRICS, VARIANTS, Job, Table

ABSENT = "not in omkl"
NO_DATA = "no data"
STANDARD_ERRORS = 2.0
REPRODUCED_PERCENT = 3.0
CLOSE_PERCENT = 15.0
PRINTED_UNIT = 0.01  # of the last digit of every published number; it may be cut or rounded
MEANINGS = {
    "reproduced": f"at most {REPRODUCED_PERCENT:g} % from the published number, whose last digit "
    "may be cut or rounded",
    "consistent": f"farther away, but at most {STANDARD_ERRORS:g} standard errors of the "
    f"difference of both means: {STANDARD_ERRORS:g} sqrt(2) s / sqrt(R) for R seeds with standard "
    "deviation s. Only for numbers with a standard deviation",
    "close": f"at most {CLOSE_PERCENT:g} % away",
    "differs": "farther away",
    "scatters": f"within {STANDARD_ERRORS:g} standard errors, but these exceed "
    f"{CLOSE_PERCENT:g} % of the published number, so the seeds cannot decide. Not counted as "
    "reproduced",
    NO_DATA: "the file is absent and cannot be downloaded",
    "failed": "the run ended in an error",
}

Runs = Mapping[Job, Run]


def run_jobs(tables: Sequence[Table], outputs: Path) -> dict[Job, Run]:
    """Run the jobs of tables in processes, or find their runs. Print each job as it ends."""
    jobs = list(dict.fromkeys(job for table in tables for job in table.jobs))
    # A picture and a tracked run per cell would take longer than the cells themselves.
    quiet = ("tracking=none", "figures=false", f"outputs={outputs}")
    variants.declare()
    composer = Composer()
    configs = [composer.compose([*job, *quiet]) for job in jobs]
    missing = _missing_data(configs)
    runs = {
        job: runner.failure(config, MissingFile(missing[config.dataset["name"]]), True).run
        for job, config in zip(jobs, configs, strict=True)
        if config.dataset["name"] in missing
    }
    there = [number for number, job in enumerate(jobs) if job not in runs]
    for place, ended in processes.side_by_side(runner.run, [configs[number] for number in there]):
        outcome = ended or runner.failure(configs[there[place]], RuntimeError(processes.DIED), True)
        job, run = jobs[there[place]], outcome.run
        runs[job] = run
        text = f"  [{len(runs)}/{len(jobs)}] {' '.join(job[:2])}"
        if outcome.status == "failed":
            print(f"{text}: {verdict_of_failure(run)}: {run.result['error']['message']}")
        else:
            print(f"{text}: {console.loss_text(run.result)} ({outcome.status})", flush=True)
    return runs


def _missing_data(configs: Sequence[Settings]) -> dict[str, str]:
    """Return the data sets whose file cannot be obtained, and print each reason once."""
    datasets = {config.dataset["name"]: config.dataset for config in configs}
    reasons: dict[str, str] = {}
    for file, dataset in {d["file"]: d for d in datasets.values() if "file" in d}.items():
        try:
            catalogue.obtain(dataset)
        except DataError as error:
            reasons[file] = str(error)
            print(f"  {NO_DATA}: {error}", flush=True)
    return {name: reasons[d["file"]] for name, d in datasets.items() if d.get("file") in reasons}


def verdict_of_failure(run: Run) -> str:
    missing = run.result["error"]["type"] == MissingFile.__name__
    return NO_DATA if missing else "failed"


def fill(table: Table, runs: Runs) -> pd.DataFrame:
    """Add our numbers to the cells of a table.

    Parameters
    ----------
    table
        The table.
    runs
        The run of each job.

    Returns
    -------
    pandas.DataFrame
        ``table.cells`` and: run, ours, std, margin (see ``margin``), difference (in per cent of the
        published number), ratio (published over ours, of run times), verdict and reason. A verdict
        is a key of ``MEANINGS``, "timed", "unpublished", "by definition" or "absent".
    """
    found = [_filled(cell, runs) for cell in table.cells.to_dict("records")]
    return pd.concat([table.cells, pd.DataFrame(found)], axis=1)


def _filled(cell: dict, runs: Runs) -> dict[str, object]:
    empty = dict.fromkeys(("run", "ours", "std", "margin", "difference", "ratio"))
    if cell["job"] is None:
        return {**empty, "verdict": "absent", "reason": ABSENT}
    run = runs[cell["job"]]
    if not run.complete:
        failure, error = verdict_of_failure(run), run.result["error"]
        reason = f"{error['type']}: {error['message']}"
        if failure == NO_DATA:  # the message names folders of this machine
            reason = f"see omkl-data describe {cell['dataset']}"
        return {**empty, "verdict": failure, "reason": reason, "run": run}
    ours, std = METRICS[cell["measured"]].measure(run)
    found = {**empty, "run": run, "ours": ours, "std": std, "reason": ""}
    published, n_seeds = cell["published"], len(run.result["seeds"])
    if published is None or math.isnan(published):
        return {**found, "verdict": "unpublished"}
    if not METRICS[cell["metric"]].judged:
        return {**found, "verdict": "timed", "ratio": published / ours}
    if not cell["judged"]:
        return {**found, "verdict": "by definition"}
    # A replay uses the draws of the published number: seeds explain no difference.
    replayed = "algorithm.replay=T" in cell["job"]
    return {
        **found, "margin": margin(std, n_seeds),
        "difference": 100 * (ours - published) / published,
        "verdict": verdict(published, ours, None if replayed else std, n_seeds),
    }  # fmt: skip


def margin(std: float | None, n_seeds: int) -> float | None:
    """Return two standard errors of the difference of two means over ``n_seeds`` seeds each.

    Both means are assumed to have the standard deviation ``std`` over seeds. None if nothing
    deviates.
    """
    if std is None or n_seeds < 2:
        return None
    return STANDARD_ERRORS * math.sqrt(2.0 / n_seeds) * std


def verdict(published: float, ours: float, std: float | None, n_seeds: int) -> str:
    """Judge our number against a published one, both in the published unit.

    "reproduced" is at most 3 % from the published number, "consistent" at most ``margin``, "close"
    at most 15 %, else "differs". The last digit of the published number may be cut or rounded, so a
    distance that this explains counts as 0. A margin above 15 % of the published number can show a
    difference but no agreement: a number within it "scatters".

    Parameters
    ----------
    published, ours
        Numbers in the published unit.
    std
        Standard deviation over seeds; None if nothing deviates.
    n_seeds
        Number of seeds.
    """
    slack = 1 + 1e-9  # a limit that is met on paper is not missed by the last bit
    distance = max(published - PRINTED_UNIT / 2 - ours, ours - published - PRINTED_UNIT, 0.0)
    percent = 100 * distance / abs(published)
    error = margin(std, n_seeds) or 0.0
    within = distance <= error * slack
    if within and error > CLOSE_PERCENT / 100 * abs(published) * slack:
        return "scatters"
    if percent <= REPRODUCED_PERCENT * slack:
        return "reproduced"
    if within:
        return "consistent"
    return "close" if percent <= CLOSE_PERCENT * slack else "differs"


def counts(cells: pd.DataFrame) -> pd.DataFrame:
    """Count distinct published numbers by variant in print (rows) and verdict (columns).

    A number that stands in two tables is counted once, with the verdict of the first.
    """
    judged = cells[cells["judged"]]
    place = judged["table"] + judged["row"] + judged["column"]
    judged = judged[place == place.groupby(judged["identity"]).transform("first")]
    table = pd.crosstab(judged["shown"], judged["verdict"])
    return table.reindex([*VARIANTS.values(), CITED], columns=[*MEANINGS, "absent"], fill_value=0)


def effects(claim: Mapping, cells: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return by how many per cent the number of ``lower`` exceeds the least number of ``than``.

    Parameters
    ----------
    claim
        An entry of ``claims`` in a file of ``papers/``.
    cells
        Filled cells of its tables.

    Returns
    -------
    dict
        "published" or the variant in print: one number per data set, negative if ``lower`` is
        lower. A row without the variant counts as written, unless the variant changes the data. If
        a number is missing or not above 0, there is no effect.
    """
    along = "column" if claim.get("along") == "columns" else "row"
    across = "row" if along == "column" else "column"
    cells = cells[cells["table"].isin(claim["tables"])]
    metric = claim.get("metric") or cells["metric"].iloc[0]
    labels = [claim["lower"], *claim["than"]]
    cells = cells[(cells["metric"] == metric) & cells[along].isin(labels)]
    found: dict[str, list[float]] = {}
    for _, group in cells.groupby(["table", across], sort=False):
        written = group[group["variant"] == "algorithm"].set_index(along)
        if set(labels) - set(written.index):
            continue
        numbers = {"published": written["published"]}
        for key, shown in VARIANTS.items():
            own = group[group["variant"] == key].set_index(along)
            if claim["lower"] in own.index:
                rest = written["ours"].drop(own.index)
                alike = [] if own["changes_data"].any() else [rest]
                numbers[shown] = pd.concat([own["ours"], *alike])
        for shown, of_label in numbers.items():
            values = of_label.reindex(labels).astype(float)
            if (values > 0).all():
                percent = 100 * (values.iloc[0] / values.iloc[1:].min() - 1)
                found.setdefault(shown, []).append(percent)
    return {shown: np.array(percents) for shown, percents in found.items()}


def distances(known: Mapping, cells: pd.DataFrame) -> pd.Series:
    """Return the mean distance from the published numbers, in per cent, by variant in print.

    Parameters
    ----------
    known
        An entry of ``known`` in a file of ``papers/``, which selects cells.
    cells
        Filled cells.
    """
    chosen = cells["judged"] & cells["table"].isin(known["tables"])
    for of, label in (("rows", "row"), ("columns", "column")):
        if of in known:
            chosen &= cells[label].isin(known[of])
    cells = cells[chosen].dropna(subset=["difference"])
    by_variant = cells["difference"].astype(float).abs().groupby(cells["variant"]).mean()
    return by_variant.rename(VARIANTS)
