"""Which runs a table needs, which of those that are there belong into its cells, and verdicts.

``jobs`` are the runs, ``fill`` puts runs into the cells of a table, ``verdict`` judges a number,
``counts`` counts the distinct published numbers of several tables.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from omkl.papers.tables import (
    CITED,
    METRICS,
    VARIANTS,
    WRITTEN,
    Spec,
    Sweep,
    Table,
    Variant,
    identity_of,
    parse_override,
    published_number,
)
from omkl.runs.run_folder import Run
from omkl.utils import conf, registry

T = TypeVar("T")
ABSENT = "not in omkl yet"
STANDARD_ERRORS = 2.0
REPRODUCED_PERCENT = 3.0
CLOSE_PERCENT = 15.0
NO_DATA = "no data"
PRINTED_UNIT = 0.01  # of the last digit of every published number; it may be cut or rounded
MEANINGS = {
    "reproduced": f"at most {REPRODUCED_PERCENT:g} % from the published number, whose last digit "
    "may be cut or rounded",
    "consistent": f"farther, but at most {STANDARD_ERRORS:g} standard errors of the difference of "
    f"both means. That is {STANDARD_ERRORS:g} sqrt(2) s / sqrt(R) for R seeds of standard "
    "deviation s; the published seeds are taken to vary as ours. Without a standard deviation, as "
    "where nothing is drawn, the percentage alone counts",
    "close": f"at most {CLOSE_PERCENT:g} % away",
    "differs": "farther away",
    "scatters": f"within those {STANDARD_ERRORS:g} standard errors, but they are more than "
    f"{CLOSE_PERCENT:g} % of the published number. The seeds cannot tell, and it is never counted "
    "as reproduced",
    "missing": "not run",
    NO_DATA: "the file is not there and cannot be fetched",
    "failed": "the run ended in an error",
}
VERDICTS = tuple(MEANINGS)
RULES = ". ".join(f"{verdict}: {meaning}" for verdict, meaning in MEANINGS.items())

RUN_TIME_RULE = (
    "run times: seconds for one seed on one thread, and how many times that is faster than the "
    "published number; no verdict, since it is another machine"
)


@dataclass(frozen=True)
class Entry:
    """Our number for a cell, in the published unit.

    ``verdict`` is "reproduced", "consistent", "close", "differs", "scatters", "timed" (a run time),
    "unpublished" (there is nothing to compare it with), "by definition" (it can be nothing else),
    "missing", "no data", "failed" or
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

    def called(self, variant: str) -> str:
        """A variant in print."""
        return CITED if self.spec.cited and variant == WRITTEN else VARIANTS[variant]


@dataclass(frozen=True)
class FilledTable:
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

    def of(self, wanted: Callable[[str], bool]) -> FilledTable | None:
        """The columns with metrics that are wanted, or None."""
        chosen = [
            i
            for i in range(len(self.table.columns))
            if any(wanted(line[i].spec.metric) for line in self.cells)
        ]
        if not chosen:
            return None

        def some(line: Sequence[T]) -> tuple[T, ...]:
            return tuple(line[i] for i in chosen)

        table, columns = self.table, some(self.table.columns)
        notes = [
            note for note in table.footnotes if not note.columns or {*note.columns} & {*columns}
        ]
        table = dataclasses.replace(
            table, columns=columns, specs=tuple(map(some, table.specs)), footnotes=tuple(notes)
        )
        return FilledTable(table, tuple(map(some, self.cells)), self.swept)

    @property
    def judged(self) -> list[Cell]:
        """The cells that get a verdict."""
        return [cell for cell in self.all_cells if cell.spec.judged]

    def entries(self, variant: str = WRITTEN) -> list[Entry]:
        """Our numbers of the cells that get a verdict, those of absent algorithms included."""
        return [cell.entries[variant] for cell in self.judged if variant in cell.entries]


@dataclass(frozen=True)
class Counts:
    """How many distinct published numbers came out; one that stands in two tables is one.

    numbers           distinct published numbers that get a verdict
    in_several        those of them that stand in more than one table
    verdicts          {variant in print: {verdict: how many numbers}}; what the paper only cites
                      is no setting that it states, and has a variant of its own
    """

    numbers: int
    in_several: int
    verdicts: Mapping[str, Mapping[str, int]]


def distinct(filled: Iterable[FilledTable]) -> list[Cell]:
    """The judged cells of these tables, of those that show one number the first."""
    by_identity: dict[tuple[str, ...], Cell] = {}
    for table in filled:
        for cell in table.judged:
            by_identity.setdefault(cell.identity, cell)
    return list(by_identity.values())


def counts(filled: Iterable[FilledTable]) -> Counts:
    """The distinct published numbers of these tables by what became of them."""
    filled = list(filled)
    cells = distinct(filled)
    stands: dict[tuple[str, ...], set[str]] = {}
    for table in filled:
        for cell in table.judged:
            stands.setdefault(cell.identity, set()).add(table.table.name)
    verdicts: dict[str, Counter[str]] = {what: Counter() for what in (*VARIANTS.values(), CITED)}
    for cell in cells:
        for variant, entry in cell.entries.items():
            verdicts[cell.called(variant)][entry.verdict] += 1
    return Counts(
        len(cells),
        sum(len(tables) > 1 for tables in stands.values()),
        {
            what: {name: numbers[name] for name in (*VERDICTS, "absent")}
            for what, numbers in verdicts.items()
        },
    )


def margin(std: float | None, n_seeds: int) -> float | None:
    """Two standard errors of the difference of two means over ``n_seeds`` seeds each.

    Both are taken to have the standard deviation ``std`` over the seeds, so that the standard
    error of their difference is sqrt(2) std / sqrt(n_seeds). None where nothing deviates.
    """
    if std is None or n_seeds < 2:
        return None
    return STANDARD_ERRORS * math.sqrt(2.0 / n_seeds) * std


def verdict(published: float, ours: float, std: float | None, n_seeds: int) -> str:
    """ "reproduced", "consistent", "close", "differs" or "scatters"; limits are of the better.

    ``published``, ``ours`` and ``std``, ours over ``n_seeds`` seeds, are in the published unit.
    "reproduced" is at most 3 % from the published number, "consistent" at most ``margin``,
    "close" at most 15 %. The last digit of the published number may be cut or rounded: what may
    have been printed so is no distance from it. Where the margin exceeds 15 % of the published
    number it can tell a difference but no agreement: what lies within it "scatters".
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


# --- runs of a table ------------------------------------------------------------------------------


def jobs(table: Table) -> list[list[str]]:
    """Hydra overrides of every run that the table needs and omkl can do, each once."""
    every_job: dict[tuple[str, ...], None] = {}
    for line in table.specs:
        for spec in line:
            for variant in spec.variants.values():
                if _settings(variant) is not None:
                    common = (f"algorithm={variant.algorithm}", f"dataset={spec.dataset}")
                    every_job[*common, *variant.overrides, f"seeds={spec.seeds}"] = None
    for sweep in table.sweeps:
        for variant in sweep.variants:
            common = (f"algorithm={variant.algorithm}", f"dataset={sweep.dataset}")
            every_job[*common, *variant.overrides, f"seeds={sweep.seeds}"] = None
    return [list(job) for job in every_job]


def fill(table: Table, runs: Iterable[Run]) -> FilledTable:
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
    return FilledTable(table, tuple(cells), swept)


def _swept(sweep: Sweep, runs: Sequence[Run]) -> tuple[Run, ...]:
    chosen = []
    for variant in sweep.variants:
        settings = _settings(variant)
        if settings is not None:
            fitting = _fitting(sweep, variant, settings, runs)
            chosen += [run for run in fitting if run.complete][-1:]
    return tuple(chosen)


def _cell(table: Table, row: str, column: str, spec: Spec, runs: Sequence[Run]) -> Cell:
    value, value_std = published_number(table, spec)
    entries = {key: _entry(spec, variant, value, runs) for key, variant in spec.variants.items()}
    return Cell(row, column, spec, value, value_std, entries, identity_of(table, spec))


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
        if not spec.judged:
            return Entry("by definition", ours, std, run=run)
        difference = 100 * (ours - published) / published
        n_seeds = len(run.result["seeds"])
        # With the draws behind the published number nothing is left to chance.
        replayed = "algorithm.replay=T" in variant.overrides
        judgement = verdict(published, ours, None if replayed else std, n_seeds)
        return Entry(judgement, ours, std, difference, run=run, margin=margin(std, n_seeds))
    failed = [run for run in fitting if run.result["status"] == "failed"]
    if failed:
        error = failed[-1].result["error"]
        return Entry("failed", reason=f"{error['type']}: {error['message']}", run=failed[-1])
    if file := _missing_file(spec.dataset):
        return Entry(NO_DATA, reason=f"{file} is in no data folder and has to be got by hand")
    return Entry("missing", reason="not run")


def _fitting(
    spec: Spec | Sweep, variant: Variant, settings: Mapping[str, Any], runs: Sequence[Run]
) -> list[Run]:
    """The runs of a variant, the one started last at the end."""
    fitting = [run for run in runs if _fits(spec, variant, settings, run)]
    return sorted(fitting, key=lambda run: run.result["started"])


@functools.cache
def _missing_file(dataset: str) -> str | None:
    """The file of a data set where it is nowhere and no address leads to it."""
    from omkl.datasets import catalogue

    try:
        entry = catalogue.entry(dataset)
    except KeyError:
        return None
    file = entry.get("file")
    here = file is None or catalogue.locate(file) is not None
    return None if here or catalogue.downloadable(entry) else file


@functools.cache
def _exists(module: str) -> bool:
    inside = any(module in registry.names(package) for package in registry.PACKAGES)
    return inside or module in registry.names_outside()


def _settings(variant: Variant) -> dict[str, Any] | None:
    """The ``algorithm`` section of a variant's runs; None where omkl has no such learner."""
    if variant.algorithm is None:
        return None
    settings = dict(_algorithm_file(variant.algorithm))
    if not settings or not _exists(settings["name"]):
        return None
    for name, value in map(parse_override, variant.overrides):
        if name.startswith("algorithm."):
            settings[name.removeprefix("algorithm.")] = value
    return settings


@functools.cache
def _algorithm_file(name: str) -> Mapping[str, Any]:
    """What a file of conf/algorithm says; empty where there is none."""
    return conf.entry("algorithm", name) if name in conf.names("algorithm") else {}


def _fits(spec: Spec | Sweep, variant: Variant, settings: Mapping[str, Any], run: Run) -> bool:
    result = run.result
    if result["algorithm"] != settings["name"] or result["dataset"] != spec.dataset:
        return False
    params = result["params"] | {"name": settings["name"]}
    if params.keys() != settings.keys():
        return False
    if not all(_same(params[key], value) for key, value in settings.items()):
        return False
    n_seeds = len(result["seeds"]) if run.complete else run.config["seeds"]
    if n_seeds != spec.seeds and not result.get("deterministic"):
        return False
    others = [
        o for o in map(parse_override, variant.overrides) if not o[0].startswith("algorithm.")
    ]
    return all(_has(run, name, value) for name, value in others)


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


def _same(stored: Any, wanted: Any) -> bool:
    """Whether two settings are equal, however their numbers are written."""
    if stored == wanted or "".join(str(stored).split()) == "".join(str(wanted).split()):
        return isinstance(stored, bool) == isinstance(wanted, bool)
    if isinstance(stored, bool) or isinstance(wanted, bool):
        return False
    try:
        return float(stored) == float(wanted)
    except (TypeError, ValueError):
        return False
