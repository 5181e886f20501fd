"""Which runs a table needs, and which of those that are there belong into its cells."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from omkl import conf
from omkl.papers.filled import ABSENT, NO_DATA, Cell, Entry, Filled, margin, verdict
from omkl.papers.tables import (
    METRICS,
    Spec,
    Sweep,
    Table,
    Variant,
    identity_of,
    parse_override,
    published_number,
)
from omkl.runs.run_folder import Run


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
        found = verdict(published, ours, None if replayed else std, n_seeds)
        return Entry(found, ours, std, difference, run=run, margin=margin(std, n_seeds))
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
    found = [run for run in runs if _fits(spec, variant, settings, run)]
    return sorted(found, key=lambda run: run.result["started"])


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


@functools.cache
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
