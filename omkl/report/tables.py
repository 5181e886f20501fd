"""Tables of a sweep, and a paper's table with our numbers beside the published ones.

A sweep: ``sweep_table`` and ``failure_table`` make rows, ``print_sweep`` and
``write_sweep`` show them. A paper's table: ``load_table`` reads a file of
``conf/table``, ``jobs`` says what has to be run, ``fill`` puts finished runs into
its cells and ``render`` writes it.

A file of conf/table

    name, title       of the file; in print
    paper, table      select the published numbers in published.csv
    rows, columns     lists of lines, each with a ``label``
    footnotes         text, with the labels of ``rows`` and ``columns`` that it belongs to

A cell's settings come from the table, then its row, then its column:

    published, where  the algorithm in published.csv; further columns of it, as {M: 10}; null
                      for a row of ours that the paper lacks, which is shown and not judged
    metric            mse_e3 | al_efficiency | runtime_s | mean_client_regret |
                      client_regret_spread | mean_client_ridge_regret |
                      client_ridge_regret_spread
    dataset           data set
    algorithm         ours, as the paper is written; null where there is none
    released          ours, as the authors' code was released; null where there is none
    recovered         ours, with settings that a search found to give the published numbers;
                      null where there is none
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
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from omkl.experiment.metrics import mean_and_deviation
from omkl.report import style
from omkl.report.text import csv_text, markdown_table, markdown_text
from omkl.runs.folder import MSE, Run, measure, write_atomically

Row = dict[str, Any]

FORMATS = ("md", "csv", "tex", "html")
ABSENT = "not in omkl yet"
STANDARD_ERRORS = 2.0
REPRODUCED_PERCENT = 3.0
CLOSE_PERCENT = 15.0
NO_DATA = "no data"
VERDICTS = ("reproduced", "close", "differs", "scatters", "missing", NO_DATA, "failed")
# Our variants of a published number, in the order of every table: key in conf/table, in print.
WRITTEN = "algorithm"
VARIANTS = {WRITTEN: "as written", "released": "as released", "recovered": "recovered"}
RULES = (
    f"reproduced: at most {REPRODUCED_PERCENT:g} % from the published number, or at most "
    f"{STANDARD_ERRORS:g} standard errors of the difference of both means, that is "
    f"{STANDARD_ERRORS:g} sqrt(2) s / sqrt(R) for R seeds of standard deviation s, theirs taken "
    f"to scatter as ours; close: at most {CLOSE_PERCENT:g} %; differs: more; "
    f"scatters: within those {STANDARD_ERRORS:g} standard errors, but they are more than "
    f"{CLOSE_PERCENT:g} % of the published number, so that the seeds cannot tell: never counted as "
    "reproduced, however near; without a deviation, as where nothing is drawn, the percentage "
    "alone counts; missing: not run; no data: the file is not there and cannot be fetched; "
    "failed: the run ended in an error"
)
RUN_TIME_RULE = (
    "run times: seconds for one seed on one thread, and how many times that is faster than the "
    "published number; no verdict, since it is another machine"
)


# --- a sweep ---------------------------------------------------------------------


def sweep_table(runs: Sequence[Run]) -> list[Row]:
    """One row a complete run, grouped by data set, in the order of ``runs``.

    ``settings`` holds what varies in the sweep, ``measure`` what the run is judged by;
    ``mse`` and ``mse_std``, or ``error_rate`` and ``error_rate_std``, are in units of 1 (std
    None for one seed), ``seconds`` is the time of all seeds, ``best`` marks the lowest of the
    data set; ``regret`` belongs to the first comparator that was computed, named in
    ``comparator`` (both None if none was). ``al_efficiency`` is the share of the labels that
    were asked for.
    """
    varying = style.varying(runs)
    rows = []
    for run, settings in zip(runs, varying, strict=True):
        if not run.complete:
            continue
        result, key = run.result, measure(run.result).key
        comparator = next((v for v in result["regret"].values() if "mean" in v), None)
        rows.append(
            {
                "algorithm": style.name_of(run),
                "dataset": result["dataset"],
                "settings": settings,
                "measure": measure(result),
                key: result[f"{key}_mean"],
                f"{key}_std": result[f"{key}_std"],
                "best": False,
                "regret": comparator and comparator["mean"],
                "comparator": comparator and comparator["label"],
                "labels": result["labels"],
                "al_efficiency": result["al_efficiency"],
                "mse_per_label": result.get("mse_per_label"),
                "seconds": result["seconds"],
                "kernels_per_round": result["kernels_per_round"],
                "n_seeds": len(result["seeds"]),
                "folder": _short(run.folder),
            }
        )
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    rows.sort(key=lambda row: datasets.index(row["dataset"]))
    for dataset in datasets:
        members = [row for row in rows if row["dataset"] == dataset]
        for kind in {row["measure"] for row in members}:
            same = [row for row in members if row["measure"] == kind]
            lowest = min(row[kind.key] for row in same)
            for row in same:
                row["best"] = row[kind.key] == lowest
    return rows


def failure_table(runs: Sequence[Run]) -> list[Row]:
    """One row a run that is not complete: what it was and why it ended."""
    varying = style.varying(runs)
    rows = []
    for run, settings in zip(runs, varying, strict=True):
        if run.complete:
            continue
        result = run.result
        error = result.get("error")
        rows.append(
            {
                "algorithm": style.name_of(run),
                "dataset": result["dataset"],
                "settings": settings,
                "status": result["status"],
                "error": f"{error['type']}: {error['message']}" if error else result["status"],
                "folder": _short(run.folder),
            }
        )
    return rows


def print_sweep(rows: Sequence[Row], failures: Sequence[Row], console: Any) -> None:
    """Print the rows to a ``rich.console.Console`` of 80 columns or more, failures last.

    The regret has a column only where there is room for it (100 columns).
    """
    from rich import box
    from rich.table import Table as Grid
    from rich.text import Text

    settings = _setting_names(rows)
    with_regret = console.width >= 100 and any(row["regret"] is not None for row in rows)
    if rows:
        grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
        together = len(settings) > 1  # below the name: columns would be too narrow
        longest = max(2 + len(pair) for row in rows for pair in _pairs(row)) if together else 7
        grid.add_column("algorithm", overflow="fold", min_width=min(longest, 26))
        grid.add_column("data set", overflow="fold", min_width=6)
        for name in [] if together else settings:
            grid.add_column(Text(name), overflow="fold", min_width=4)
        grid.add_column(_heading(rows), justify="right", no_wrap=True)
        if with_regret:
            grid.add_column("regret", justify="right", no_wrap=True)
        for heading in ("AL_eff", "seconds", "kernels\n/ round", "seeds"):
            grid.add_column(heading, justify="right", no_wrap=True)
        for place, row in enumerate(rows):
            cells = [
                "\n  ".join([row["algorithm"], *(_pairs(row) if together else [])]),
                row["dataset"],
                *([] if together else _setting_texts(row, settings)),
                _loss_text(row) + (" *" if row["best"] else "  "),
                *([_number(row["regret"], "{:.4g}")] if with_regret else []),
                f"{row['al_efficiency']:.3g}",
                f"{row['seconds']:.3g}",
                f"{row['kernels_per_round']:.4g}",
                str(row["n_seeds"]),
            ]
            last = place + 1 == len(rows) or rows[place + 1]["dataset"] != row["dataset"]
            grid.add_row(
                *(Text(cell, style="bold" if row["best"] else "") for cell in cells),
                end_section=last,
            )
        console.print(grid)
        console.print(
            Text(
                f"* lowest {_short_names(rows)} of the data set; AL_eff: share of the labels "
                "asked for; seconds: all seeds"
            )
        )
        if with_regret:
            labels = dict.fromkeys(r["comparator"] for r in rows if r["comparator"])
            console.print(Text("regret against: " + "; ".join(labels)))
    if failures:
        grid = Grid(
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            title=f"{len(failures)} not complete",
            title_justify="left",
        )
        for heading in ("run", "error", "folder"):
            grid.add_column(heading, overflow="fold")
        for row in failures:
            what = ", ".join([f"{row['algorithm']} on {row['dataset']}", *_pairs(row)])
            grid.add_row(Text(what), Text(row["error"]), Text(row["folder"]))
        console.print(grid)


def write_sweep(rows: Sequence[Row], failures: Sequence[Row], folder: Path) -> list[Path]:
    """Write table.csv (every run, numbers in full) and table.md (for reading)."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = _setting_names([*rows, *failures])
    keys = dict.fromkeys(row["measure"].key for row in rows) or {"mse": None}
    losses = [name for key in keys for name in (key, f"{key}_std")]
    plain = [*losses, "regret", "comparator", "labels", "al_efficiency", "mse_per_label"]
    plain += ["seconds", "kernels_per_round", "n_seeds"]
    lines: list[list[Any]] = [
        ["algorithm", "dataset", *settings, *plain, "status", "error", "folder"]
    ]
    for row in [*rows, *failures]:
        chosen = [row["settings"].get(name, "") for name in settings]
        numbers = ["" if row.get(name) is None else row[name] for name in plain]
        end = [row.get("status", "complete"), row.get("error", ""), row["folder"]]
        lines.append([row["algorithm"], row["dataset"], *chosen, *numbers, *end])
    paths = [folder / "table.csv", folder / "table.md"]
    write_atomically(paths[0], csv_text(lines))

    settings = _setting_names(rows)
    headings = ["algorithm", "data set", *settings, _heading(rows), "regret", "AL_eff", "seconds"]
    headings += ["kernels / round", "seeds"]
    body = []
    for row in rows:
        mse = _loss_text(row)
        body.append(
            [
                *(row["algorithm"], row["dataset"], *_setting_texts(row, settings)),
                f"**{mse}**" if row["best"] else mse,
                _number(row["regret"], "{:.4g}"),
                f"{row['al_efficiency']:.3g}",
                f"{row['seconds']:.3g}",
                f"{row['kernels_per_round']:.4g}",
                str(row["n_seeds"]),
            ]
        )
    parts = []
    if body:
        parts += [markdown_table(headings, body, left=2 + len(settings)), ""]
        parts += [
            f"Bold: lowest {_short_names(rows)} of the data set. AL_eff: share of the labels that "
            "were asked for. Seconds: all seeds together.",
            "",
        ]
        comparators = dict.fromkeys(r["comparator"] for r in rows if r["comparator"])
        if comparators:
            parts += [f"Regret against: {markdown_text('; '.join(comparators))}.", ""]
    if failures:
        settings = _setting_names(failures)
        body = [
            [r["algorithm"], r["dataset"], *_setting_texts(r, settings), r["error"], r["folder"]]
            for r in failures
        ]
        headings = ["algorithm", "data set", *settings, "error", "folder"]
        parts += ["Not complete:", "", markdown_table(headings, body, left=len(headings)), ""]
    write_atomically(paths[1], "\n".join(parts))
    return paths


def _short(folder: Path) -> str:
    """The run folder below its outputs folder; runs can be moved, so never absolute."""
    return "/".join(Path(folder).parts[-3:])


def _setting_names(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row["settings"]))


def _setting_texts(row: Row, names: Iterable[str]) -> list[str]:
    chosen = row["settings"]
    return [style.value_text(chosen[name]) if name in chosen else "" for name in names]


def _pairs(row: Row) -> list[str]:
    return [f"{name}={style.value_text(value)}" for name, value in row["settings"].items()]


def _loss_text(row: Row) -> str:
    kind = row["measure"]
    loss, std = kind.scale * row[kind.key], row[f"{kind.key}_std"]
    return f"{loss:.2f}" if std is None else f"{loss:.2f} ± {kind.scale * std:.2f}"


def _heading(rows: Sequence[Row]) -> str:
    kinds = dict.fromkeys(row["measure"] for row in rows) or {MSE: None}
    return " or ".join(f"{kind.short}{kind.unit}" for kind in kinds)


def _short_names(rows: Sequence[Row]) -> str:
    return " or ".join(dict.fromkeys(row["measure"].short for row in rows))


def _number(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


# --- a paper's table ---------------------------------------------------------------


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


def _mse(result: Mapping[str, Any]) -> tuple[float, float | None]:
    std = result["mse_std"]
    return 1e3 * result["mse_mean"], None if std is None else 1e3 * std


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


def _spread(result: Mapping[str, Any], comparator: str = "clients") -> tuple[float, float | None]:
    _regret(result, comparator)
    return result["regret"][comparator]["spread"], None


METRICS = {
    "mse_e3": Metric("MSE × 10⁻³", True, _mse),
    "al_efficiency": Metric("AL_eff", True, _efficiency),
    "runtime_s": Metric("run time, s", False, _seconds),
    "mean_client_regret": Metric("regret of the clients, mean", True, _regret),
    "client_regret_spread": Metric(
        "regret of the clients, spread", True, _spread, std_of="mean_client_regret"
    ),
    "mean_client_ridge_regret": Metric(
        "regret of the clients above ridge in hindsight, mean",
        True,
        functools.partial(_regret, comparator="clients_ridge"),
    ),
    "client_ridge_regret_spread": Metric(
        "regret of the clients above ridge in hindsight, spread",
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

    @property
    def judged(self) -> bool:
        """Whether there is a published number, and of a kind that gets a verdict."""
        return self.published is not None and METRICS[self.metric].judged

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
    """A published table: which numbers it holds and how to make ours."""

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


@dataclass(frozen=True)
class Entry:
    """Our number for a cell, in the published unit.

    ``verdict`` is "reproduced", "close", "differs", "scatters", "timed" (a run time),
    "unpublished" (there is nothing to compare it with), "missing", "no data", "failed" or
    "absent" (the algorithm is not in omkl); ``reason`` says more about the last four.
    ``difference`` is in per cent of the published number, for a run time ``ratio`` is published
    over ours; ``std`` is over our seeds, ``margin`` of ``margin``.
    """

    verdict: str
    ours: float | None = None
    std: float | None = None
    difference: float | None = None
    ratio: float | None = None
    reason: str = ""
    run: Run | None = None
    margin: float | None = None


@dataclass(frozen=True)
class Cell:
    """A published number, None in a row that the paper lacks, and ours, an entry a variant.

    ``identity`` is the number itself: paper, algorithm, dataset, M, D, metric and value as
    published. Cells of two tables that show one number have the same; it is empty without one.
    """

    row: str
    column: str
    spec: Spec
    published: float | None
    published_std: float | None
    entries: Mapping[str, Entry]
    identity: tuple[str, ...]

    @property
    def written(self) -> Entry:
        return self.entries[WRITTEN]


@dataclass(frozen=True)
class Filled:
    """A table with runs in its cells, in the order rows x columns."""

    table: Table
    cells: tuple[tuple[Cell, ...], ...]
    swept: tuple[Run, ...] = ()

    @property
    def all_cells(self) -> list[Cell]:
        return [cell for line in self.cells for cell in line]

    @property
    def runs(self) -> list[Run]:
        """Every run of the table once, in the order of its cells."""
        entries = [entry for cell in self.all_cells for entry in cell.entries.values()]
        return list({id(e.run): e.run for e in entries if e.run is not None}.values())

    @property
    def judged(self) -> list[Cell]:
        """The cells that get a verdict."""
        return [cell for cell in self.all_cells if cell.spec.judged]

    def entries(self, variant: str = WRITTEN) -> list[Entry]:
        """Our numbers of the cells that get a verdict, those of absent algorithms included."""
        return [cell.entries[variant] for cell in self.judged if variant in cell.entries]

    def counts(self, variant: str = WRITTEN) -> dict[str, int]:
        """Number of judged cells by verdict; those of absent algorithms are left out."""
        verdicts = [entry.verdict for entry in self.entries(variant)]
        return {name: verdicts.count(name) for name in VERDICTS}


@dataclass(frozen=True)
class Counts:
    """How many distinct published numbers came out; one that stands in two tables is one.

    numbers           distinct published numbers that get a verdict
    in_several        those of them that stand in more than one table
    verdicts          {variant in print: {verdict: how many numbers}}
    reproduced        how many are reproduced as written; as written or as released; by any
                      variant
    """

    numbers: int
    in_several: int
    verdicts: Mapping[str, Mapping[str, int]]
    reproduced: tuple[int, int, int]


def distinct(filled: Iterable[Filled]) -> list[Cell]:
    """The judged cells of these tables, of those that show one number the first."""
    found: dict[tuple[str, ...], Cell] = {}
    for table in filled:
        for cell in table.judged:
            found.setdefault(cell.identity, cell)
    return list(found.values())


def counts(filled: Iterable[Filled]) -> Counts:
    """The distinct published numbers of these tables by what became of them."""
    filled = list(filled)
    cells = distinct(filled)
    stands: dict[tuple[str, ...], set[str]] = {}
    for table in filled:
        for cell in table.judged:
            stands.setdefault(cell.identity, set()).add(table.table.name)
    verdicts = {}
    for variant, what in VARIANTS.items():
        found = [cell.entries[variant].verdict for cell in cells if variant in cell.entries]
        verdicts[what] = {name: found.count(name) for name in (*VERDICTS, "absent")}

    def reproduced(variants: Sequence[str]) -> int:
        return sum(
            any(cell.entries[v].verdict == "reproduced" for v in variants if v in cell.entries)
            for cell in cells
        )

    names = list(VARIANTS)
    return Counts(
        len(cells),
        sum(len(tables) > 1 for tables in stands.values()),
        verdicts,
        (reproduced(names[:1]), reproduced(names[:2]), reproduced(names)),
    )


_CELL_KEYS = {*("published", "where", "metric", "dataset", *VARIANTS, "overrides", "seeds")}


def load_table(source: str | Path | Mapping[str, Any]) -> Table:
    """Read a file of conf/table (or the mapping it holds).

    Raises ValueError for a key, metric, row or column that does not exist, and for a
    cell that published.csv does not hold exactly once.
    """
    if isinstance(source, Mapping):
        spec = dict(source)
    else:
        from omegaconf import OmegaConf

        loaded: Any = OmegaConf.to_container(OmegaConf.load(source))
        spec = dict(loaded)
    keys = {"name", "title", "paper", "table", "columns", "rows"}
    _check_keys(spec, keys, {"footnotes", "sweeps"} | _CELL_KEYS, "the table")
    for what, more in (("row", {"by_column"}), ("column", set())):
        for line in spec[f"{what}s"]:
            _check_keys(line, {"label"}, _CELL_KEYS | more, f"a {what}")
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
            _published(table, cell)
    return table


def _sweep(given: Mapping[str, Any]) -> Sweep:
    _check_keys(given, {"dataset", "algorithms", "vary"}, {"overrides", "seeds"}, "a sweep")
    common = given.get("overrides") or ()
    settings = [[f"{name}={value}" for value in values] for name, values in given["vary"].items()]
    variants = [
        Variant(algorithm, _latest([*common, *chosen]))
        for algorithm in given["algorithms"]
        for chosen in itertools.product(*settings)
    ]
    return Sweep(given["dataset"], given.get("seeds", 1), tuple(variants))


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
    more = {"where": where, "overrides": _latest(overrides), "variants": variants}
    return Spec(**values | more)


def _laid_over(earlier: Any, later: Any) -> Any:
    """A variant as a row gives it after its table: overrides alone are added to it."""
    if not isinstance(later, Mapping) or "algorithm" in later:
        return later
    if earlier is None:  # this row has no such variant
        return None
    before = earlier if isinstance(earlier, Mapping) else {"algorithm": earlier}
    both = [*(before.get("overrides") or ()), *(later.get("overrides") or ())]
    return {**before, **later, "overrides": both}


def _variant(key: str, given: Any, overrides: Sequence[str]) -> Variant:
    if not isinstance(given, Mapping):
        return Variant(given, _latest(overrides))
    _check_keys(given, {"algorithm"}, {"overrides", "metric"}, key)
    metric = given.get("metric")
    if metric is not None and metric not in METRICS:
        raise ValueError(f"metric {metric!r} is not one of {', '.join(METRICS)}")
    both = _latest([*overrides, *(given.get("overrides") or ())])
    return Variant(given["algorithm"], both, metric)


def _latest(overrides: Iterable[str]) -> tuple[str, ...]:
    """Of several overrides for one setting the last, at the place of the first."""
    return tuple({_parsed(override)[0]: override for override in overrides}.values())


def jobs(table: Table) -> list[list[str]]:
    """Hydra overrides of every run that the table needs and omkl can do, each once."""
    found: dict[tuple[str, ...], None] = {}
    for line in table.specs:
        for spec in line:
            for variant in spec.variants.values():
                if _settings(variant) is not None:
                    common = (f"algorithm={variant.algorithm}", f"dataset={spec.dataset}")
                    found[*common, *variant.overrides, f"seeds={spec.seeds}"] = None
    for sweep in table.sweeps:
        for variant in sweep.variants:
            common = (f"algorithm={variant.algorithm}", f"dataset={sweep.dataset}")
            found[*common, *variant.overrides, f"seeds={sweep.seeds}"] = None
    return [list(job) for job in found]


def fill(table: Table, runs: Iterable[Run]) -> Filled:
    """Put runs into the cells whose learner, overrides, data set and number of seeds they have.

    All parameters of the learner are compared, so that two files of conf/algorithm may
    name one module; of the other settings those that an override names. Where several
    complete runs fit, the one started last is taken.
    """
    runs = list(runs)
    cells = []
    for row, line in zip(table.rows, table.specs, strict=True):
        cells.append(
            tuple(
                _cell(table, row, column, spec, runs)
                for column, spec in zip(table.columns, line, strict=True)
            )
        )
    swept = tuple(run for sweep in table.sweeps for run in _swept(sweep, runs))
    return Filled(table, tuple(cells), swept)


def _swept(sweep: Sweep, runs: Sequence[Run]) -> tuple[Run, ...]:
    found = []
    for variant in sweep.variants:
        settings = _settings(variant)
        if settings is not None:
            fitting = _fitting(sweep, variant, settings, runs)
            found += [run for run in fitting if run.complete][-1:]
    return tuple(found)


def margin(std: float | None, n_seeds: int) -> float | None:
    """Two standard errors of the difference of two means over ``n_seeds`` seeds each.

    Both are taken to have the standard deviation ``std`` over the seeds, so that the standard
    error of their difference is sqrt(2) std / sqrt(n_seeds). None where nothing deviates.
    """
    if std is None or n_seeds < 2:
        return None
    return STANDARD_ERRORS * math.sqrt(2.0 / n_seeds) * std


def verdict(published: float, ours: float, std: float | None, n_seeds: int) -> str:
    """ "reproduced", "close", "differs" or "scatters"; limits belong to the better verdict.

    ``published``, ``ours`` and ``std``, ours over ``n_seeds`` seeds, are in the same unit.
    "reproduced" is at most 3 %, or at most ``margin``, from the published number; "close" is at
    most 15 %. Where the margin exceeds 15 % of the published number it can tell a difference
    but no agreement: what lies within it "scatters".
    """
    slack = 1 + 1e-9  # a limit that is met on paper is not missed by the last bit
    distance = abs(ours - published)
    percent = 100 * distance / abs(published)
    error = margin(std, n_seeds) or 0.0
    within = distance <= error * slack
    if within and error > CLOSE_PERCENT / 100 * abs(published) * slack:
        return "scatters"
    if within or percent <= REPRODUCED_PERCENT * slack:
        return "reproduced"
    return "close" if percent <= CLOSE_PERCENT * slack else "differs"


def render(filled: Filled, formats: Iterable[str], folder: Path) -> list[Path]:
    """Write ``<name>.<format>`` for every format of "md", "csv", "tex", "html"."""
    from omkl.report import formats as writers

    formats = list(formats)
    for form in formats:
        if form not in FORMATS:
            raise ValueError(f"format {form!r} is not one of {', '.join(FORMATS)}")
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for form in formats:
        paths.append(folder / f"{filled.table.name}.{form}")
        write_atomically(paths[-1], getattr(writers, f"to_{form}")(filled))
    return paths


def _check_keys(node: Mapping[str, Any], needed: set[str], optional: set[str], where: str) -> None:
    unknown, absent = set(node) - needed - optional, needed - set(node)
    if unknown or absent:
        found = [f"unknown {', '.join(sorted(unknown))}"] if unknown else []
        found += [f"without {', '.join(sorted(absent))}"] if absent else []
        raise ValueError(f"{where} is {' and '.join(found)}")


@functools.lru_cache(maxsize=1)
def published_numbers() -> tuple[dict[str, str], ...]:
    """The lines of published.csv: paper, table, algorithm, dataset, M, D, metric, value, std."""
    path = Path(__file__).with_name("published.csv")
    with open(path, newline="", encoding="utf-8") as file:
        return tuple(csv.DictReader(file))


def _published(table: Table, spec: Spec) -> tuple[float | None, float | None]:
    """The published number of a cell and its deviation, None where there is none."""
    if spec.published is None:
        return None, None
    line = _published_line(table, spec)
    if METRICS[spec.metric].std_of is not None:
        return float(line["std"]), None
    return float(line["value"]), float(line["std"]) if line["std"] else None


def _identity(table: Table, spec: Spec) -> tuple[str, ...]:
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
    found = [
        line
        for line in published_numbers()
        if all(line.get(name) == str(value) for name, value in wanted.items())
        and table.table in line["table"].split("/")  # a number may stand in two tables
    ]
    if len(found) != 1:
        wanted |= {"table": table.table}
        raise ValueError(f"published.csv has {len(found)} lines with {wanted}, not one")
    return found[0]


def _cell(table: Table, row: str, column: str, spec: Spec, runs: Sequence[Run]) -> Cell:
    value, value_std = _published(table, spec)
    entries = {key: _entry(spec, variant, value, runs) for key, variant in spec.variants.items()}
    return Cell(row, column, spec, value, value_std, entries, _identity(table, spec))


def _entry(spec: Spec, variant: Variant, published: float | None, runs: Sequence[Run]) -> Entry:
    settings = _settings(variant)
    if settings is None:
        return Entry("absent", reason=ABSENT)
    fitting = _fitting(spec, variant, settings, runs)
    complete = [run for run in fitting if run.complete]
    if complete:
        run, metric = complete[-1], METRICS[variant.metric or spec.metric]
        ours, std = metric.measure(run.result)
        if published is None:
            return Entry("unpublished", ours, std, run=run)
        if not metric.judged:
            return Entry("timed", ours, std, ratio=published / ours, run=run)
        difference = 100 * (ours - published) / published
        n_seeds = len(run.result["seeds"])
        found = verdict(published, ours, std, n_seeds)
        return Entry(found, ours, std, difference, run=run, margin=margin(std, n_seeds))
    failed = [run for run in fitting if run.result["status"] == "failed"]
    if failed:
        error = failed[-1].result.get("error") or {"type": "failed", "message": "no message"}
        return Entry("failed", reason=f"{error['type']}: {error['message']}", run=failed[-1])
    if not fitting and (file := _missing_file(spec.dataset)):
        return Entry(NO_DATA, reason=f"{file} is in no data folder and has to be got by hand")
    return Entry("missing", reason="interrupted" if fitting else "not run")


def _fitting(
    spec: Spec | Sweep, variant: Variant, settings: Mapping[str, Any], runs: Sequence[Run]
) -> list[Run]:
    """The runs of a variant, the one started last at the end."""
    found = [run for run in runs if _fits(spec, variant, settings, run)]
    return sorted(found, key=lambda run: run.result.get("started", ""))


@functools.cache
def _missing_file(dataset: str) -> str | None:
    """The file of a data set where it is nowhere and no address leads to it."""
    from omkl.datasets import catalogue, download

    try:
        entry = catalogue.entry(dataset)
    except KeyError:
        return None
    file = entry.get("file")
    here = file is None or download.locate(file) is not None
    return None if here or download.downloadable(entry) else file


def _exists(module: str) -> bool:
    from omkl import algorithms, federated  # import the compiler, which most reports do without

    return module in algorithms.names() or module in federated.names()


def _settings(variant: Variant) -> dict[str, Any] | None:
    """The ``algorithm`` section of a variant's runs; None where omkl has no such learner."""
    if variant.algorithm is None:
        return None
    settings = dict(_algorithm_file(variant.algorithm))
    if not settings or not _exists(settings["name"]):
        return None
    for name, value in map(_parsed, variant.overrides):
        if name.startswith("algorithm."):
            settings[name.removeprefix("algorithm.")] = value
    return settings


@functools.cache
def _algorithm_file(name: str) -> Mapping[str, Any]:
    """A file of conf/algorithm with those of its defaults list; empty where there is none."""
    from omegaconf import OmegaConf

    from omkl.conf import conf_folder

    path = conf_folder() / "algorithm" / f"{name}.yaml"
    if not path.is_file():
        return {}
    content: Any = OmegaConf.to_container(OmegaConf.load(path))
    defaults = content.pop("defaults", [])
    found: dict[str, Any] = {}
    for default in defaults if "_self_" in defaults else [*defaults, "_self_"]:
        found |= content if default == "_self_" else _algorithm_file(default)
    return found


def _fits(spec: Spec | Sweep, variant: Variant, settings: Mapping[str, Any], run: Run) -> bool:
    result = run.result
    if result["algorithm"] != settings["name"] or result["dataset"] != spec.dataset:
        return False
    params = dict(result.get("params") or {}) | {"name": settings["name"]}
    if params.keys() != settings.keys():
        return False
    if not all(_same(params[key], value) for key, value in settings.items()):
        return False
    seeds = result.get("seeds", run.config.get("seeds"))
    n_seeds = len(seeds) if isinstance(seeds, list) else seeds
    if n_seeds != spec.seeds and not result.get("deterministic"):
        return False
    others = [o for o in map(_parsed, variant.overrides) if not o[0].startswith("algorithm.")]
    return all(_has(run, name, value) for name, value in others)


@functools.cache
def _parsed(override: str) -> tuple[str, Any]:
    """Dotted name and value of an override ``name=value`` (or ``+name=value``)."""
    name, equals, value = override.lstrip("+").partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_][\w.]*", name):
        raise ValueError(f"{override!r} is not an override like name=value")
    from omegaconf import OmegaConf

    return name, OmegaConf.from_dotlist([f"value={value}"])["value"]


def _has(run: Run, name: str, value: Any) -> bool:
    """Whether the run's setting ``name`` is ``value``; the name of a group stands for it."""
    if "." not in name and run.result.get(name) is not None:
        return _same(run.result[name], value)
    node: Any = run.config
    for part in name.split("."):
        if not isinstance(node, Mapping) or part not in node:
            return False
        node = node[part]
    return _same(node.get("name") if isinstance(node, Mapping) else node, value)


def _same(found: Any, wanted: Any) -> bool:
    """Whether two settings are equal, however their numbers are written."""
    if found == wanted or "".join(str(found).split()) == "".join(str(wanted).split()):
        return isinstance(found, bool) == isinstance(wanted, bool)
    if isinstance(found, bool) or isinstance(wanted, bool):
        return False
    try:
        return float(found) == float(wanted)
    except (TypeError, ValueError):
        return False
