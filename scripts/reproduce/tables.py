"""Published tables: YAML files that state how cells are filled, and the numbers of published.csv.

A file of ``tables/``

    name, title       name of the file; title in print
    paper, table      select the published numbers in published.csv
    rows, columns     lists of lines, each with a ``label``
    footnotes         text, with the labels of ``rows`` and ``columns`` that it belongs to
    sweeps            for figures, lists of {dataset, algorithms, overrides, seeds, vary}: every
                      combination of the values in ``vary`` is run as well

A cell's settings come from the table, then its row, then its column, then ``by_column`` of the row:

    published, where  algorithm in published.csv, and further columns of it, as {M: 10}; null for a
                      row that the paper lacks, which is shown and not judged
    metric            a key of ``METRICS``
    dataset           data set
    algorithm, released, rebuilt, recovered
                      our variants (``VARIANTS``): an algorithm's YAML file, or {algorithm,
                      dataset, overrides, metric}; null for none
    cited             true if the paper describes the learner by a citation alone
    definition        metrics whose published numbers hold by definition, and are no results
    overrides         settings of all variants; the later of two for one setting counts
    seeds             repetitions
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from omkl.experiment.metrics import mean_and_deviation
from omkl.runs.run_folder import Run
from omkl.utils import conf

FOLDER = Path(__file__).parent
# Our variants of a published number, in the order of every table: key of a file, in print.
WRITTEN = "algorithm"
VARIANTS = {
    WRITTEN: "as written",
    "released": "authors' code",
    "rebuilt": "rebuilt",  # by related public code, where the authors' own is not public
    "recovered": "found by search",
}
CITED = "as cited"  # in place of "as written" where the paper only cites another for the learner

Job = tuple[str, ...]  # the overrides of a run, as typed
Measured = tuple[float, float | None]


class Metric(NamedTuple):
    """A quantity of published.csv.

    Attributes
    ----------
    heading
        In print.
    measure
        Returns mean and standard deviation over seeds of a run, in the published unit.
    judged
        Whether a difference gets a verdict.
    std_of
        The metric whose published deviation is this one's published number.
    """

    heading: str
    measure: Callable[[Run], Measured]
    judged: bool = True
    std_of: str = ""


def _loss(run: Run) -> Measured:
    std = run.result["mse_std"]
    return 1e3 * run.result["mse_mean"], None if std is None else 1e3 * std


def _loss_whose_first_is_1(run: Run) -> Measured:
    """Replace the squared error of the first round, in which learners predict 0, by 1."""
    first, T = run.curves["mse"][:, 0].mean(), run.result["n_rounds"]
    mean, std = _loss(run)
    return mean + 1e3 * (1.0 - first) / T, std


def _error_rate(run: Run) -> Measured:
    std = run.result["error_rate_std"]
    return 100 * run.result["error_rate_mean"], None if std is None else 100 * std


def _label_efficiency(run: Run) -> Measured:
    return run.result["al_efficiency"], run.result["al_efficiency_std"]


def _seconds(run: Run) -> Measured:
    """Return seconds of one seed; of a federation the mean over its clients."""
    result = run.result
    n_clients = result["federated"]["n_clients"] if "federated" in result else 1
    return mean_and_deviation(np.asarray(result["seconds_per_seed"]) / n_clients)


def _regret(run: Run, comparator: str, key: str = "mean") -> Measured:
    entry = run.result["regret"][comparator]
    if "skipped" in entry:
        raise ValueError(f"regret against {entry['label']} was left out: {entry['skipped']}")
    return entry[key], entry["std"] if key == "mean" else None


def _of_clients(heading: str, comparator: str, std_of: str = "") -> Metric:
    key = "spread" if std_of else "mean"
    measure = functools.partial(_regret, comparator=comparator, key=key)
    return Metric(f"{heading}, {'standard deviation' if std_of else 'mean'}", measure, True, std_of)


METRICS = {
    "mse_e3": Metric("MSE × 10⁻³", _loss),
    "mse_e3_first_is_1": Metric("MSE × 10⁻³, the first error as 1", _loss_whose_first_is_1),
    "error_rate": Metric("mistakes, %", _error_rate),
    "al_efficiency": Metric("AL_eff", _label_efficiency),
    "runtime_s": Metric("run time, s", _seconds, judged=False),
    "mean_client_regret": _of_clients("regret of the clients", "clients"),
    "client_regret_spread": _of_clients(
        "regret of the clients", "clients", std_of="mean_client_regret"
    ),
    "mean_client_ridge_regret": _of_clients(
        "regret of the clients above ridge in hindsight", "clients_ridge"
    ),
    "client_ridge_regret_spread": _of_clients(
        "regret of the clients above ridge in hindsight", "clients_ridge",
        std_of="mean_client_ridge_regret",
    ),
}  # fmt: skip


class Table(NamedTuple):
    """A published table.

    Attributes
    ----------
    name, title, paper, number
        Of the file, in print, and the two keys of published.csv.
    rows, columns
        Labels.
    footnotes
        Mappings with ``text``, ``rows`` and ``columns``.
    cells
        One row per cell and variant: table, row, column, metric, dataset, variant, shown (the
        variant in print), algorithm, job, measured (the metric of the variant), changes_data,
        published, published_std, judged, identity (equal for cells that show one number).
    swept
        Jobs of its figures.
    """

    name: str
    title: str
    paper: str
    number: str
    rows: list[str]
    columns: list[str]
    footnotes: list[dict[str, Any]]
    cells: pd.DataFrame
    swept: list[Job]

    @property
    def jobs(self) -> list[Job]:
        """Runs that the table needs, each once."""
        return list(dict.fromkeys([*self.cells["job"].dropna(), *self.swept]))


def names() -> list[str]:
    """Return the names of all tables, in the order of the papers."""
    later = (("arxiv",), ("active",), ("pof",), ("omkc",))
    place = lambda n: next((k for k, p in enumerate(later, 1) if n.startswith(p)), 0)  # noqa: E731
    return sorted(
        (path.stem for path in (FOLDER / "tables").glob("*.yaml")), key=lambda n: (place(n), n)
    )


def load(name: str) -> Table:
    """Read a table. ValueError for a cell that published.csv does not contain exactly once."""
    if name not in names():
        raise ValueError(f"there is no table {name}; there are: {', '.join(names())}")
    return table_of(conf.read(FOLDER / "tables" / f"{name}.yaml"))


def table_of(content: Mapping[str, Any]) -> Table:
    """Make a table from the content of its file."""
    lines: list[dict[str, Any]] = []
    for row, column in itertools.product(content["rows"], content["columns"]):
        own = (row.get("by_column") or {}).get(column["label"], {})
        lines += _cell(content, row, column, own)
    swept = [job for sweep in content.get("sweeps", ()) for job in _swept(sweep)]
    return Table(
        content["name"], content["title"], content["paper"], str(content["table"]),
        [str(row["label"]) for row in content["rows"]],
        [str(column["label"]) for column in content["columns"]],
        [
            {"text": " ".join(note["text"].split()), "rows": note.get("rows", []),
             "columns": note.get("columns", [])}
            for note in content.get("footnotes", ())
        ],
        pd.DataFrame(lines), swept,
    )  # fmt: skip


def _cell(content: Mapping[str, Any], *sources: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one line per variant of a cell, from its row, its column and ``by_column``."""
    values: dict[str, Any] = {"seeds": 1, "cited": False, "definition": ()}
    variants: dict[str, Any] = {WRITTEN: None}
    where: dict[str, Any] = {}
    overrides: list[str] = []
    for source in (content, *sources):
        plain = ("published", "metric", "dataset", "seeds", "cited", "definition")
        values |= {key: source[key] for key in plain if key in source}
        where |= source.get("where") or {}
        overrides += source.get("overrides") or ()
        for key in VARIANTS:
            if key in source:
                variants[key] = _laid_over(variants.get(key), source[key])
    row, column, _ = sources
    metric = METRICS[values["metric"]]
    published = _published(content, values, where, metric)
    lines = []
    for key, shown in VARIANTS.items():
        if key != WRITTEN and variants.get(key) is None:
            continue
        variant = variants[key] or {"algorithm": None}
        own = _latest([*overrides, *(variant.get("overrides") or ())])
        job = None
        if variant["algorithm"] is not None:
            dataset = variant.get("dataset", values["dataset"])
            chosen = f"algorithm={variant['algorithm']}", f"dataset={dataset}"
            job = (*chosen, *own, f"seeds={values['seeds']}")
        judged = metric.judged and published["published"] is not None
        changed = set(own) - set(_latest(overrides))
        lines.append({
            "table": content["name"], "row": str(row["label"]), "column": str(column["label"]),
            "metric": values["metric"], "dataset": values["dataset"], "M": where.get("M"),
            "variant": key, "shown": CITED if values["cited"] and key == WRITTEN else shown,
            "algorithm": variant["algorithm"], "job": job,
            "measured": variant.get("metric", values["metric"]),
            "changes_data": any(not o.startswith(("algorithm.", "regret.")) for o in changed),
            "judged": judged and values["metric"] not in values["definition"], **published,
        })  # fmt: skip
    return lines


def _laid_over(earlier: Any, later: Any) -> dict[str, Any] | None:
    """Lay a later variant over an earlier one: overrides alone are added to it."""
    if later is None or isinstance(later, str):
        return None if later is None else {"algorithm": later}
    if "algorithm" in later:
        return dict(later)
    if earlier is None:  # this row has no such variant
        return None
    both = [*(earlier.get("overrides") or ()), *(later.get("overrides") or ())]
    return {**earlier, **later, "overrides": both}


def _latest(overrides: Iterable[str]) -> Job:
    """Keep the last of several overrides for one setting, in the place of the first."""
    by_key = {text.lstrip("+").partition("=")[0]: text for text in overrides}
    return tuple(by_key.values())


def _swept(sweep: Mapping[str, Any]) -> list[Job]:
    settings = [[f"{name}={value}" for value in values] for name, values in sweep["vary"].items()]
    return [
        (
            f"algorithm={algorithm}", f"dataset={sweep['dataset']}",
            *_latest([*(sweep.get("overrides") or ()), *chosen]), f"seeds={sweep.get('seeds', 1)}",
        )
        for algorithm in sweep["algorithms"]
        for chosen in itertools.product(*settings)
    ]  # fmt: skip


@functools.cache
def published_numbers() -> pd.DataFrame:
    """Return published.csv, all columns as text."""
    return pd.read_csv(FOLDER / "published.csv", dtype=str, keep_default_na=False)


def _published(
    content: Mapping[str, Any], values: Mapping[str, Any], where: Mapping[str, Any], metric: Metric
) -> dict[str, Any]:
    """Return the published number of a cell, its deviation, and what identifies it."""
    if values["published"] is None:
        return {"published": None, "published_std": None, "identity": ()}
    numbers = published_numbers()
    wanted = {
        "paper": content["paper"], "metric": metric.std_of or values["metric"],
        "algorithm": values["published"], "dataset": values["dataset"], **where,
    }  # fmt: skip
    fits = numbers["table"].str.split("/").map(lambda tables: str(content["table"]) in tables)
    for name, value in wanted.items():
        fits &= numbers[name] == str(value)
    if fits.sum() != 1:
        raise ValueError(f"published.csv has {fits.sum()} lines with {wanted}, not one")
    line = numbers[fits].iloc[0]
    value, std = (line["std"], "") if metric.std_of else (line["value"], line["std"])
    of = (line[name] for name in ("algorithm", "dataset", "M", "D"))
    return {
        "published": float(value), "published_std": float(std) if std else None,
        "identity": (content["paper"], *of, values["metric"], f"{float(value):g}"),
    }  # fmt: skip


def settings_text(table: Table, jobs: Sequence[Job]) -> str:
    """Return the overrides that most jobs of a table share, and the seeds."""
    every = dict.fromkeys(o for job in jobs for o in job[2:-1])
    common = sorted(o for o in every if 2 * sum(o in job for job in jobs) > len(jobs))
    seeds = max(int(job[-1].partition("=")[2]) for job in jobs)
    return f"{', '.join(common)}, {seeds} seeds, mean ± std over the seeds"
