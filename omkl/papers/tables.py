"""Tables of papers and of one's own, and the numbers of published.csv that most are about.

They are YAML files of ``omkl/papers/conf/table``, and one's own of ``conf/table``. ``load_table``
reads such a file, ``matching`` puts finished runs into its cells and judges them, ``rendering``
writes it.

A file of a table

    name, title       of the file; in print
    paper, table      select the published numbers in published.csv; a table of one's own has
                      neither, and no ``published``
    rows, columns     lists of lines, each with a ``label``
    footnotes         text, with the labels of ``rows`` and ``columns`` that it belongs to

A cell's settings come from the table, then its row, then its column:

    published, where  the algorithm in published.csv; further columns of it, as {M: 10}; null
                      for a row of ours that the paper lacks, which is shown and not judged
    metric            mse_e3 | error_percent | regret | al_efficiency | runtime_s |
                      mean_client_regret | client_regret_spread | mean_client_ridge_regret |
                      client_ridge_regret_spread
    dataset           data set
    algorithm         ours, as the paper is written; null where there is none
    released          ours, as the authors' code was released; null where there is none
    recovered         ours, with settings that were fitted to the published numbers; null where
                      there is none
    cited             true where the paper describes the learner by a citation alone: what is "as
                      written" is then of the cited text, and no setting that this paper states
    definition        metrics whose published numbers hold by definition, and are no results
    overrides         Hydra overrides of all of them, conditions of a run that fills the cell;
                      of two for one setting the later counts
    seeds             repetitions; a deterministic learner may have fewer

Each of the three is the name of a file of conf/algorithm, or ``{algorithm: that name,
overrides: [..], metric: ..}`` with overrides of its own and, where this variant measures the
published number in another way, a metric; a row or column may have these alone, for the
algorithm that another one names. A row may have ``by_column``: more of these settings by the
label of a column, which count last.

A table may have ``sweeps`` for figures: a list of ``{dataset, algorithms, overrides, seeds,
vary: {setting: [values]}}``, every combination of which is run besides.
"""

from __future__ import annotations

import csv
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from omkl.experiment.metrics import mean_and_deviation
from omkl.papers import FOLDER, entry

# Our variants of a published number, in the order of every table: key of a file, in print.
WRITTEN = "algorithm"
VARIANTS = {WRITTEN: "as written", "released": "as released", "recovered": "fitted"}
CITED = "as cited"  # what "as written" is called where the paper only cites another for it


@dataclass(frozen=True)
class Metric:
    """A quantity of published.csv: its name in print and how a run measures it.

    ``judged`` says whether a difference gets a verdict. ``std_of`` names the metric whose
    published deviation is this one's published number.
    """

    heading: str
    judged: bool
    measure: Callable[[Mapping[str, Any]], tuple[float, float | None]]
    std_of: str | None = None


def _loss(result: Mapping[str, Any], key: str, unit: float) -> tuple[float, float | None]:
    std = result[f"{key}_std"]
    return unit * result[f"{key}_mean"], None if std is None else unit * std


def _efficiency(result: Mapping[str, Any]) -> tuple[float, float | None]:
    return result["al_efficiency"], result["al_efficiency_std"]


def _seconds(result: Mapping[str, Any]) -> tuple[float, float | None]:
    """Of one seed; of a federation the mean over its clients."""
    n_clients = result["federated"]["n_clients"] if "federated" in result else 1
    return mean_and_deviation(np.asarray(result["seconds_per_seed"]) / n_clients)


def _regret(result: Mapping[str, Any], comparator: str = "clients") -> tuple[float, float | None]:
    entry = result["regret"][comparator]
    if "skipped" in entry:
        raise ValueError(f"regret against {entry['label']} was left out: {entry['skipped']}")
    return entry["mean"], entry["std"]


def _first_regret(result: Mapping[str, Any]) -> tuple[float, float | None]:
    """Against the first comparator that was computed."""
    computed = [entry for entry in result["regret"].values() if "mean" in entry]
    if not computed:
        raise ValueError(f"no regret of {result['algorithm']} was computed")
    return computed[0]["mean"], computed[0]["std"]


def _spread(result: Mapping[str, Any], comparator: str = "clients") -> tuple[float, float | None]:
    _regret(result, comparator)
    return result["regret"][comparator]["spread"], None


METRICS = {
    "mse_e3": Metric("MSE × 10⁻³", True, functools.partial(_loss, key="mse", unit=1e3)),
    "error_percent": Metric(
        "errors, %", True, functools.partial(_loss, key="error_rate", unit=100.0)
    ),
    "regret": Metric("regret", True, _first_regret),
    "al_efficiency": Metric("AL_eff", True, _efficiency),
    "runtime_s": Metric("run time, s", False, _seconds),
    "mean_client_regret": Metric("regret of the clients, mean", True, _regret),
    "client_regret_spread": Metric(
        "regret of the clients, standard deviation", True, _spread, std_of="mean_client_regret"
    ),
    "mean_client_ridge_regret": Metric(
        "regret of the clients above ridge in hindsight, mean",
        True,
        functools.partial(_regret, comparator="clients_ridge"),
    ),
    "client_ridge_regret_spread": Metric(
        "regret of the clients above ridge in hindsight, standard deviation",
        True,
        functools.partial(_spread, comparator="clients_ridge"),
    ),
}


@dataclass(frozen=True)
class Variant:
    """One way to make ours: a file of conf/algorithm and its overrides.

    ``algorithm`` is None where omkl has no such learner, ``overrides`` has the cell's too;
    ``metric`` is None where it is the cell's.
    """

    algorithm: str | None
    overrides: tuple[str, ...]
    metric: str | None = None


@dataclass(frozen=True)
class Spec:
    """What fills one cell; the fields are explained above.

    ``variants`` has, in the order of ``VARIANTS``, those that there are; the first always.
    """

    published: str | None
    dataset: str
    metric: str
    where: Mapping[str, Any]
    overrides: tuple[str, ...]
    seeds: int
    variants: Mapping[str, Variant]
    cited: bool = False
    definition: tuple[str, ...] = ()

    @property
    def judged(self) -> bool:
        """Whether there is a published result, and of a kind that gets a verdict."""
        has_result = self.published is not None and self.metric not in self.definition
        return has_result and METRICS[self.metric].judged

    @property
    def algorithm(self) -> str | None:
        return self.variants[WRITTEN].algorithm


@dataclass(frozen=True)
class Footnote:
    """A remark on rows or, with columns, on single cells; on the whole table without either."""

    text: str
    rows: tuple[str, ...]
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sweep:
    """Runs for a figure, each a data set and a variant."""

    dataset: str
    seeds: int
    variants: tuple[Variant, ...]


@dataclass(frozen=True)
class Table:
    """A table: which numbers it holds and how to make ours; ``paper`` is "" for one's own."""

    name: str
    title: str
    paper: str
    table: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    specs: tuple[tuple[Spec, ...], ...]  # rows x columns
    footnotes: tuple[Footnote, ...]
    sweeps: tuple[Sweep, ...] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(spec.metric for line in self.specs for spec in line))


_CELL_KEYS = {
    *("published", "where", "metric", "dataset", *VARIANTS, "overrides", "seeds"),
    *("cited", "definition"),
}


def load_table(source: str | Mapping[str, Any]) -> Table:
    """Read the table of that name (or the mapping that its file holds).

    Raises ValueError for a key, metric, row or column that does not exist, and for a
    cell that published.csv does not hold exactly once.
    """
    spec = entry("table", source) if isinstance(source, str) else dict(source)
    keys = {"name", "title", "columns", "rows"} | ({"paper", "table"} & set(spec))
    if len(keys & {"paper", "table"}) == 1:
        raise ValueError("a published table has a paper and a table, one's own has neither")
    _check_keys(spec, keys, {"footnotes", "sweeps"} | _CELL_KEYS, "the table")
    if "paper" not in spec:
        spec = {"paper": "", "table": "", "published": None, **spec}
    for what, besides in (("row", {"by_column"}), ("column", set())):
        for line in spec[f"{what}s"]:
            _check_keys(line, {"label"}, _CELL_KEYS | besides, f"a {what}")
    rows = tuple(str(row["label"]) for row in spec["rows"])
    columns = tuple(str(column["label"]) for column in spec["columns"])
    for row in spec["rows"]:
        unknown = set(row.get("by_column") or ()) - set(columns)
        if unknown:
            named = ", ".join(sorted(unknown))
            raise ValueError(f"by_column of {row['label']} names {named}: no column")
    footnotes = []
    for note in spec.get("footnotes") or ():
        _check_keys(note, {"text"}, {"rows", "columns"}, "a footnote")
        remark = Footnote(
            " ".join(str(note["text"]).split()),
            tuple(map(str, note.get("rows", ()))),
            tuple(map(str, note.get("columns", ()))),
        )
        unknown = (set(remark.rows) - set(rows)) | (set(remark.columns) - set(columns))
        if unknown:
            raise ValueError(f"a footnote names {', '.join(sorted(unknown))}: not in the table")
        footnotes.append(remark)
    table = Table(
        name=str(spec["name"]),
        title=str(spec["title"]),
        paper=str(spec["paper"]),
        table=str(spec["table"]),
        rows=rows,
        columns=columns,
        specs=tuple(
            tuple(_spec(spec, row, column, _own(row, column)) for column in spec["columns"])
            for row in spec["rows"]
        ),
        footnotes=tuple(footnotes),
        sweeps=tuple(_sweep(given) for given in spec.get("sweeps") or ()),
    )
    for line in table.specs:
        for cell in line:
            if cell.published is not None and not table.paper:
                raise ValueError(f"published: {cell.published} is of no paper: name paper, table")
            published_number(table, cell)
    return table


def order_of(name: str) -> tuple[int, str]:
    """A key that sorts tables: by paper, those of the JMLR paper first."""
    later = (("arxiv",), ("active",), ("pof", "federated"))
    return next((n for n, p in enumerate(later, 1) if name.startswith(p)), 0), name


def _sweep(entry: Mapping[str, Any]) -> Sweep:
    _check_keys(entry, {"dataset", "algorithms", "vary"}, {"overrides", "seeds"}, "a sweep")
    common = entry.get("overrides") or ()
    settings = [[f"{name}={value}" for value in values] for name, values in entry["vary"].items()]
    variants = [
        Variant(algorithm, _latest([*common, *chosen]))
        for algorithm in entry["algorithms"]
        for chosen in itertools.product(*settings)
    ]
    return Sweep(entry["dataset"], entry.get("seeds", 1), tuple(variants))


def _own(row: Mapping[str, Any], column: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a row says of one column."""
    own: Mapping[str, Any] = (row.get("by_column") or {}).get(column["label"], {})
    _check_keys(own, set(), _CELL_KEYS, f"by_column of {row['label']}")
    return own


def _spec(*sources: Mapping[str, Any]) -> Spec:
    """The settings of a cell from its table, row, column and ``by_column``; the later count."""
    values: dict[str, Any] = {"seeds": 1}
    chosen: dict[str, Any] = {}
    where: dict[str, Any] = {}
    overrides: list[str] = []
    for source in sources:
        values |= {key: source[key] for key in _CELL_KEYS - set(VARIANTS) if key in source}
        for key in VARIANTS:
            if key in source:
                chosen[key] = _laid_over(chosen.get(key), source[key])
        where |= source.get("where") or {}
        overrides += source.get("overrides") or ()
    for key in ("published", "metric", "dataset"):
        if key not in values:
            raise ValueError(f"a cell is without {key}")
    if values["metric"] not in METRICS:
        raise ValueError(f"metric {values['metric']!r} is not one of {', '.join(METRICS)}")
    variants = {
        key: _variant(key, chosen.get(key), overrides)
        for key in VARIANTS
        if key == WRITTEN or chosen.get(key) is not None
    }
    merged = {"where": where, "overrides": _latest(overrides), "variants": variants}
    return Spec(**values | merged)


def _laid_over(earlier: Any, later: Any) -> Any:
    """A variant as a row gives it after its table: overrides alone are added to it."""
    if not isinstance(later, Mapping) or "algorithm" in later:
        return later
    if earlier is None:  # this row has no such variant
        return None
    before = earlier if isinstance(earlier, Mapping) else {"algorithm": earlier}
    both = [*(before.get("overrides") or ()), *(later.get("overrides") or ())]
    return {**before, **later, "overrides": both}


def _variant(key: str, entry: Any, overrides: Sequence[str]) -> Variant:
    if not isinstance(entry, Mapping):
        return Variant(entry, _latest(overrides))
    _check_keys(entry, {"algorithm"}, {"overrides", "metric"}, key)
    metric = entry.get("metric")
    if metric is not None and metric not in METRICS:
        raise ValueError(f"metric {metric!r} is not one of {', '.join(METRICS)}")
    both = _latest([*overrides, *(entry.get("overrides") or ())])
    return Variant(entry["algorithm"], both, metric)


def _latest(overrides: Iterable[str]) -> tuple[str, ...]:
    """Of several overrides for one setting the last, at the place of the first."""
    return tuple({parse_override(override)[0]: override for override in overrides}.values())


def _check_keys(node: Mapping[str, Any], needed: set[str], optional: set[str], where: str) -> None:
    unknown, absent = set(node) - needed - optional, needed - set(node)
    if unknown or absent:
        problems = [f"unknown {', '.join(sorted(unknown))}"] if unknown else []
        problems += [f"without {', '.join(sorted(absent))}"] if absent else []
        raise ValueError(f"{where} is {' and '.join(problems)}")


@functools.lru_cache(maxsize=1)
def published_numbers() -> tuple[dict[str, str], ...]:
    """The lines of published.csv: paper, table, algorithm, dataset, M, D, metric, value, std."""
    with open(FOLDER / "published.csv", newline="", encoding="utf-8") as file:
        return tuple(csv.DictReader(file))


def published_number(table: Table, spec: Spec) -> tuple[float | None, float | None]:
    """The published number of a cell and its deviation, None where there is none."""
    if spec.published is None:
        return None, None
    line = _published_line(table, spec)
    if METRICS[spec.metric].std_of is not None:
        return float(line["std"]), None
    return float(line["value"]), float(line["std"]) if line["std"] else None


def identity_of(table: Table, spec: Spec) -> tuple[str, ...]:
    if spec.published is None:
        return ()
    line = _published_line(table, spec)
    value = line["value" if METRICS[spec.metric].std_of is None else "std"]
    where = (line[name] for name in ("algorithm", "dataset", "M", "D"))
    return (table.paper, *where, spec.metric, f"{float(value):g}")


def _published_line(table: Table, spec: Spec) -> dict[str, str]:
    std_of = METRICS[spec.metric].std_of
    wanted = {
        "paper": table.paper,
        "metric": std_of or spec.metric,
        "algorithm": spec.published,
        "dataset": spec.dataset,
        **spec.where,
    }
    lines = [
        entry
        for entry in published_numbers()
        if all(entry.get(name) == str(value) for name, value in wanted.items())
        and table.table in entry["table"].split("/")  # a number may stand in two tables
    ]
    if len(lines) != 1:
        wanted |= {"table": table.table}
        raise ValueError(f"published.csv has {len(lines)} lines with {wanted}, not one")
    return lines[0]


@functools.cache
def parse_override(override: str) -> tuple[str, Any]:
    """Dotted name and value of an override ``name=value`` (or ``+name=value``)."""
    name, equals, value = override.lstrip("+").partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_][\w.]*", name):
        raise ValueError(f"{override!r} is not an override like name=value")
    from omegaconf import OmegaConf

    return name, OmegaConf.from_dotlist([f"value={value}"])["value"]
