"""Tables of a sweep, and a paper's table with our numbers beside the published ones.

A sweep: ``sweep_table`` and ``failure_table`` make rows, ``print_sweep`` and
``write_sweep`` show them. A paper's table: ``load_table`` reads a file of
``conf/table``, ``jobs`` says what has to be run, ``fill`` puts finished runs into
its cells and ``render`` writes it.
"""

from __future__ import annotations

import csv
import functools
import html
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omkl.report import style
from omkl.results import Run, write_atomically

Row = dict[str, Any]

FORMATS = ("md", "csv", "tex", "html")
ABSENT = "not in omkl yet"
REPRODUCED_STDS = 2.0
REPRODUCED_PERCENT = 3.0
CLOSE_PERCENT = 15.0
RULES = (
    f"reproduced: at most {REPRODUCED_STDS:g} of our standard deviations or "
    f"{REPRODUCED_PERCENT:g} % from the published number; "
    f"close: at most {CLOSE_PERCENT:g} %; differs: more; "
    "missing: not run; failed: the run ended in an error"
)

# How published.csv calls a quantity: mean and std in result.json, and its name in print.
METRICS = {"mse_e3": ("mse_mean", "mse_std", "MSE × 10⁻³")}


# --- a sweep ---------------------------------------------------------------------


def sweep_table(runs: Sequence[Run]) -> list[Row]:
    """One row a complete run, grouped by data set, in the order of ``runs``.

    ``settings`` holds what varies in the sweep, ``mse`` and ``mse_std`` are in units
    of 1 (std None for one seed), ``seconds`` is the time of all seeds, ``best`` marks
    the lowest MSE of the data set; ``regret`` belongs to the first comparator that
    was computed, named in ``comparator`` (both None if none was).
    """
    varying = style.varying(runs)
    rows = []
    for run, settings in zip(runs, varying, strict=True):
        if not run.complete:
            continue
        result = run.result
        comparator = next((v for v in result["regret"].values() if "mean" in v), None)
        rows.append(
            {
                "algorithm": style.name_of(run),
                "dataset": result["dataset"],
                "settings": settings,
                "mse": result["mse_mean"],
                "mse_std": result["mse_std"],
                "best": False,
                "regret": comparator and comparator["mean"],
                "comparator": comparator and comparator["label"],
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
        lowest = min(row["mse"] for row in members)
        for row in members:
            row["best"] = row["mse"] == lowest
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
        together = len(settings) > 2  # below the name: columns would be too narrow
        longest = max(2 + len(pair) for row in rows for pair in _pairs(row)) if together else 7
        grid.add_column("algorithm", overflow="fold", min_width=min(longest, 26))
        grid.add_column("data set", overflow="fold", min_width=6)
        for name in [] if together else settings:
            grid.add_column(Text(name), overflow="fold", min_width=4)
        grid.add_column("MSE × 10⁻³", justify="right", no_wrap=True)
        if with_regret:
            grid.add_column("regret", justify="right", no_wrap=True)
        for heading in ("seconds", "kernels\n/ round", "seeds"):
            grid.add_column(heading, justify="right", no_wrap=True)
        for place, row in enumerate(rows):
            cells = [
                "\n  ".join([row["algorithm"], *(_pairs(row) if together else [])]),
                row["dataset"],
                *([] if together else _setting_texts(row, settings)),
                _mse_text(row) + (" *" if row["best"] else "  "),
                *([_number(row["regret"], "{:.4g}")] if with_regret else []),
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
        console.print(Text("* lowest MSE of the data set; seconds: all seeds together"))
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
    plain = ["mse", "mse_std", "regret", "comparator", "seconds", "kernels_per_round", "n_seeds"]
    lines: list[list[Any]] = [
        ["algorithm", "dataset", *settings, *plain, "status", "error", "folder"]
    ]
    for row in [*rows, *failures]:
        chosen = [row["settings"].get(name, "") for name in settings]
        numbers = ["" if row.get(name) is None else row[name] for name in plain]
        end = [row.get("status", "complete"), row.get("error", ""), row["folder"]]
        lines.append([row["algorithm"], row["dataset"], *chosen, *numbers, *end])
    paths = [folder / "table.csv", folder / "table.md"]
    write_atomically(paths[0], _csv(lines))

    settings = _setting_names(rows)
    headings = ["algorithm", "data set", *settings, "MSE × 10⁻³", "regret", "seconds"]
    headings += ["kernels / round", "seeds"]
    body = []
    for row in rows:
        mse = _mse_text(row)
        body.append(
            [
                *(row["algorithm"], row["dataset"], *_setting_texts(row, settings)),
                f"**{mse}**" if row["best"] else mse,
                _number(row["regret"], "{:.4g}"),
                f"{row['seconds']:.3g}",
                f"{row['kernels_per_round']:.4g}",
                str(row["n_seeds"]),
            ]
        )
    parts = []
    if body:
        parts += [_markdown(headings, body, left=2 + len(settings)), ""]
        parts += ["Bold: lowest MSE of the data set. Seconds: all seeds together.", ""]
        comparators = dict.fromkeys(r["comparator"] for r in rows if r["comparator"])
        if comparators:
            parts += [f"Regret against: {_md('; '.join(comparators))}.", ""]
    if failures:
        settings = _setting_names(failures)
        body = [
            [r["algorithm"], r["dataset"], *_setting_texts(r, settings), r["error"], r["folder"]]
            for r in failures
        ]
        headings = ["algorithm", "data set", *settings, "error", "folder"]
        parts += ["Not complete:", "", _markdown(headings, body, left=len(headings)), ""]
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


def _mse_text(row: Row) -> str:
    if row["mse_std"] is None:
        return _number(1e3 * row["mse"], "{:.2f}")
    return f"{1e3 * row['mse']:.2f} ± {1e3 * row['mse_std']:.2f}"


def _number(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


# --- a paper's table ---------------------------------------------------------------


@dataclass(frozen=True)
class TableRow:
    """An algorithm: ``published`` is its name in published.csv, ``algorithm`` ours or None."""

    label: str
    published: str
    algorithm: str | None = None
    overrides: tuple[str, ...] = ()
    where: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Footnote:
    """A remark on rows (by ``published``) or, with columns (data sets), on their cells."""

    text: str
    rows: tuple[str, ...]
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A published table: which numbers it holds and how to make ours."""

    name: str
    title: str
    paper: str
    table: str
    metric: str
    scale: float
    decimals: int
    seeds: int
    overrides: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]  # (label, data set)
    rows: tuple[TableRow, ...]
    footnotes: tuple[Footnote, ...]


@dataclass(frozen=True)
class Cell:
    """Published and own number of one algorithm on one data set, in the table's unit.

    ``difference`` is in per cent of the published number; ``std`` is over our seeds.
    ``verdict`` is "reproduced", "close", "differs", "missing", "failed" or "absent"
    (the algorithm is not in omkl); ``reason`` says more about the last three.
    """

    row: TableRow
    column: str
    dataset: str
    published: float
    published_std: float | None
    verdict: str
    ours: float | None = None
    std: float | None = None
    difference: float | None = None
    reason: str = ""
    run: Run | None = None


@dataclass(frozen=True)
class Filled:
    """A table with runs in its cells, in the order rows x columns."""

    table: Table
    cells: tuple[tuple[Cell, ...], ...]

    @property
    def runs(self) -> list[Run]:
        return [cell.run for line in self.cells for cell in line if cell.run is not None]

    @property
    def counts(self) -> dict[str, int]:
        """Number of cells by verdict; those of absent algorithms are left out."""
        names = ("reproduced", "close", "differs", "missing", "failed")
        verdicts = [cell.verdict for line in self.cells for cell in line]
        return {name: verdicts.count(name) for name in names}


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
    keys = {"name", "title", "paper", "table", "metric", "scale", "seeds", "columns", "rows"}
    _check_keys(spec, keys, {"decimals", "overrides", "footnotes"}, "the table")
    if spec["metric"] not in METRICS:
        raise ValueError(f"metric {spec['metric']!r} is not one of {', '.join(METRICS)}")
    for column in spec["columns"]:
        _check_keys(column, {"label", "dataset"}, set(), "a column")
    rows = []
    for row in spec["rows"]:
        _check_keys(row, {"label", "published", "algorithm"}, {"where"}, "a row")
        algorithm = row["algorithm"] or {}
        if algorithm:
            _check_keys(algorithm, {"name"}, {"overrides"}, "a row's algorithm")
        rows.append(
            TableRow(
                label=str(row["label"]),
                published=str(row["published"]),
                algorithm=algorithm.get("name"),
                overrides=tuple(algorithm.get("overrides") or ()),
                where=dict(row.get("where") or {}),
            )
        )
    footnotes = []
    for note in spec.get("footnotes") or ():
        _check_keys(note, {"text", "rows"}, {"columns"}, "a footnote")
        footnotes.append(
            Footnote(str(note["text"]).strip(), tuple(note["rows"]), tuple(note.get("columns", ())))
        )
    table = Table(
        name=str(spec["name"]),
        title=str(spec["title"]),
        paper=str(spec["paper"]),
        table=str(spec["table"]),
        metric=str(spec["metric"]),
        scale=float(spec["scale"]),
        decimals=int(spec.get("decimals", 2)),
        seeds=int(spec["seeds"]),
        overrides=tuple(spec.get("overrides") or ()),
        columns=tuple((str(c["label"]), str(c["dataset"])) for c in spec["columns"]),
        rows=tuple(rows),
        footnotes=tuple(footnotes),
    )
    named = {row.published for row in table.rows}
    datasets = {dataset for _, dataset in table.columns}
    for remark in table.footnotes:
        unknown = (set(remark.rows) - named) | (set(remark.columns) - datasets)
        if unknown:
            raise ValueError(f"a footnote names {', '.join(sorted(unknown))}: not in the table")
    for override in (o for row in table.rows for o in (*table.overrides, *row.overrides)):
        _parsed(override)
    for row in table.rows:
        for dataset in datasets:
            _published(table, row, dataset)
    return table


def jobs(table: Table) -> list[list[str]]:
    """Hydra overrides of every cell that omkl can run, row by row."""
    return [
        [
            f"algorithm={row.algorithm}",
            f"dataset={dataset}",
            *table.overrides,
            f"seeds={table.seeds}",
            *row.overrides,
        ]
        for row in table.rows
        if row.algorithm is not None
        for _, dataset in table.columns
    ]


def fill(table: Table, runs: Iterable[Run]) -> Filled:
    """Put runs into the cells whose overrides, data set and number of seeds they have.

    Settings that no override names are not compared. Where several complete runs
    fit, the one started last is taken.
    """
    runs = list(runs)
    return Filled(
        table,
        tuple(
            tuple(_cell(table, row, label, dataset, runs) for label, dataset in table.columns)
            for row in table.rows
        ),
    )


def verdict(published: float, ours: float, std: float | None) -> str:
    """ "reproduced", "close" or "differs"; limits belong to the better verdict.

    All three numbers are in the same unit; ``std`` is ours over the seeds.
    """
    distance = abs(ours - published)
    percent = 100 * distance / abs(published)
    slack = 1e-9  # a limit that is met on paper is not missed by the last bit
    if std is not None and distance <= REPRODUCED_STDS * std * (1 + slack):
        return "reproduced"
    if percent <= REPRODUCED_PERCENT * (1 + slack):
        return "reproduced"
    return "close" if percent <= CLOSE_PERCENT * (1 + slack) else "differs"


def render(filled: Filled, formats: Iterable[str], folder: Path) -> list[Path]:
    """Write ``<name>.<format>`` for every format of "md", "csv", "tex", "html"."""
    writers = {"md": _to_md, "csv": _to_csv, "tex": _to_tex, "html": _to_html}
    formats = list(formats)
    for form in formats:
        if form not in writers:
            raise ValueError(f"format {form!r} is not one of {', '.join(FORMATS)}")
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for form in formats:
        paths.append(folder / f"{filled.table.name}.{form}")
        write_atomically(paths[-1], writers[form](filled))
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


def _published(table: Table, row: TableRow, dataset: str) -> tuple[float, float | None]:
    wanted = {
        "paper": table.paper,
        "table": table.table,
        "metric": table.metric,
        "algorithm": row.published,
        "dataset": dataset,
        **row.where,
    }
    found = [
        line
        for line in published_numbers()
        if all(line.get(name) == str(value) for name, value in wanted.items())
    ]
    if len(found) != 1:
        raise ValueError(f"published.csv has {len(found)} lines with {wanted}, not one")
    return float(found[0]["value"]), float(found[0]["std"]) if found[0]["std"] else None


def _cell(table: Table, row: TableRow, label: str, dataset: str, runs: Sequence[Run]) -> Cell:
    value, value_std = _published(table, row, dataset)

    def cell(verdict: str, **more: Any) -> Cell:
        return Cell(row, label, dataset, value, value_std, verdict, **more)

    if row.algorithm is None:
        return cell("absent", reason=ABSENT)
    fitting = [run for run in runs if _fits(table, row, dataset, run)]
    fitting.sort(key=lambda run: run.result.get("started", ""))
    complete = [run for run in fitting if run.complete]
    if complete:
        run = complete[-1]
        mean_key, std_key, _ = METRICS[table.metric]
        ours = table.scale * run.result[mean_key]
        std = run.result[std_key]
        std = None if std is None else table.scale * std
        return cell(
            verdict(value, ours, std),
            ours=ours,
            std=std,
            difference=100 * (ours - value) / value,
            run=run,
        )
    failed = [run for run in fitting if run.result["status"] == "failed"]
    if failed:
        error = failed[-1].result.get("error") or {"type": "failed", "message": "no message"}
        return cell("failed", reason=f"{error['type']}: {error['message']}", run=failed[-1])
    return cell("missing", reason="interrupted" if fitting else "not run")


def _fits(table: Table, row: TableRow, dataset: str, run: Run) -> bool:
    result = run.result
    if result["algorithm"] != row.algorithm or result["dataset"] != dataset:
        return False
    seeds = result.get("seeds", run.config.get("seeds"))
    if (len(seeds) if isinstance(seeds, list) else seeds) != table.seeds:
        return False
    return all(_has(run, *_parsed(override)) for override in (*table.overrides, *row.overrides))


def _parsed(override: str) -> tuple[str, Any]:
    """Dotted name and value of an override ``name=value`` (or ``+name=value``)."""
    name, equals, value = override.lstrip("+").partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_][\w.]*", name):
        raise ValueError(f"{override!r} is not an override like name=value")
    from omegaconf import OmegaConf

    return name, OmegaConf.from_dotlist([f"value={value}"])["value"]


def _has(run: Run, name: str, value: Any) -> bool:
    """Whether the run's setting ``name`` is ``value``; the name of a group stands for it."""
    group, _, rest = name.partition(".")
    if group == "algorithm" and rest in (run.result.get("params") or {}):
        return _same(run.result["params"][rest], value)
    if not rest and run.result.get(name) is not None:
        return _same(run.result[name], value)
    node: Any = run.config
    for part in name.split("."):
        if not isinstance(node, Mapping) or part not in node:
            return False
        node = node[part]
    return _same(node.get("name") if isinstance(node, Mapping) else node, value)


def _same(found: Any, wanted: Any) -> bool:
    return found == wanted or str(found) == str(wanted)


# --- what every format shows -----------------------------------------------------------


def _marks(filled: Filled, row: TableRow, dataset: str | None = None) -> list[int]:
    """Numbers of the footnotes at a row's label, or at its cell of a data set."""
    return [
        number
        for number, note in enumerate(filled.table.footnotes, start=1)
        if row.published in note.rows
        and (not note.columns if dataset is None else dataset in note.columns)
    ]


def _published_text(filled: Filled, cell: Cell) -> str:
    return _plus_minus(cell.published, cell.published_std, filled.table.decimals)


def _ours_text(filled: Filled, cell: Cell) -> str:
    """Our number, or why there is none."""
    if cell.ours is None:
        return cell.reason if cell.verdict == "absent" else cell.verdict
    return _plus_minus(cell.ours, cell.std, filled.table.decimals)


def _plus_minus(value: float, std: float | None, decimals: int) -> str:
    return f"{value:.{decimals}f}" + ("" if std is None else f" ± {std:.{decimals}f}")


def _difference_text(cell: Cell) -> str:
    return "" if cell.difference is None else f"{cell.difference:+.1f} %".replace("-", "−")


def _caption(filled: Filled) -> str:
    table = filled.table
    unit = METRICS[table.metric][2]
    return f"{table.title} ({unit}): table {table.table} of {table.paper} and omkl"


def _count_text(filled: Filled) -> str:
    counts = filled.counts
    parts = [f"{n} {'differ' if name == 'differs' else name}" for name, n in counts.items() if n]
    return f"{sum(counts.values())} cells: " + (", ".join(parts) or "none that omkl can run")


def _errors(filled: Filled) -> list[str]:
    return [
        f"{cell.row.label}, {cell.column}: {cell.reason} ({_short(cell.run.folder)})"
        for line in filled.cells
        for cell in line
        if cell.verdict == "failed" and cell.run is not None
    ]


def _provenance(filled: Filled) -> list[tuple[str, str]]:
    """What computed the numbers; several values where the runs do not agree."""
    table = filled.table
    settings = ", ".join(table.overrides)
    facts = [("settings", f"{settings}, {table.seeds} seeds, mean ± std over the seeds")]
    results = [run.result for run in filled.runs if run.complete]
    if not results:
        return facts

    def among(key: str) -> str:
        texts = []
        for result in results:
            value = result.get(key)
            if isinstance(value, Mapping):
                value = ", ".join(f"{k} {v}" for k, v in value.items())
            texts.append("unknown" if value is None else str(value))
        return "; ".join(dict.fromkeys(texts))

    total = sum(result["seconds"] for result in results)
    facts.append(("time", f"{total:.1f} s in all; cells with a run: {len(results)}"))
    facts += [(key, among(key)) for key in ("machine", "versions", "commit")]
    facts.append(("sources", f"stamp {among('numbers')}"))
    return facts


# --- formats -----------------------------------------------------------------------


def _to_csv(filled: Filled) -> str:
    """Tidy: one line a cell."""
    table = filled.table
    heading = ["paper", "table", "row", "algorithm", "dataset", "metric", "published"]
    heading += ["published_std", "ours", "std", "difference_percent", "verdict", "reason"]
    heading += ["n_seeds", "seconds", "footnotes", "commit", "numbers", "folder"]
    lines: list[list[Any]] = [heading]
    for line in filled.cells:
        for cell in line:
            result = cell.run.result if cell.run else {}
            marks = _marks(filled, cell.row) + _marks(filled, cell.row, cell.dataset)
            lines.append(
                [
                    *(table.paper, table.table, cell.row.label, cell.row.algorithm or ""),
                    *(cell.dataset, table.metric, cell.published, _blank(cell.published_std)),
                    *(_blank(cell.ours), _blank(cell.std), _blank(cell.difference)),
                    *(cell.verdict, cell.reason, "" if cell.ours is None else len(result["seeds"])),
                    *(result.get("seconds", ""), " ".join(map(str, marks))),
                    *(result.get("commit", ""), result.get("numbers", "")),
                    _short(cell.run.folder) if cell.run else "",
                ]
            )
    return _csv(lines)


def _blank(value: float | None) -> Any:
    return "" if value is None else value


def _csv(lines: Iterable[Sequence[Any]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(lines)
    return buffer.getvalue()


def _lines(filled: Filled) -> list[tuple[str, list[int], list[tuple[str, list[str]]]]]:
    """Per algorithm: label, its footnotes, and named lines of cells (Markdown, LaTeX)."""
    groups = []
    for cells in filled.cells:
        row = cells[0].row
        lines = [
            ("published", [_published_text(filled, cell) for cell in cells]),
            ("omkl", [_ours_text(filled, cell) for cell in cells]),
        ]
        if any(cell.ours is not None for cell in cells):
            lines.append(("difference", [_difference_text(cell) for cell in cells]))
            lines.append(("verdict", ["" if cell.ours is None else cell.verdict for cell in cells]))
        groups.append((row.label, _marks(filled, row), lines))
    return groups


def _to_md(filled: Filled) -> str:
    table = filled.table
    body = []
    for cells, (label, marks, lines) in zip(filled.cells, _lines(filled), strict=True):
        for place, (what, texts) in enumerate(lines):
            if what == "omkl":
                cell_marks = [_marks(filled, cell.row, cell.dataset) for cell in cells]
                pairs = zip(texts, cell_marks, strict=True)
                texts = [_md(text) + _md_marks(found) for text, found in pairs]
            else:
                texts = [_md(text) for text in texts]
            body.append([_md(label) + _md_marks(marks) if place == 0 else "", what, *texts])
    headings = ["", "", *(_md(label) for label, _ in table.columns)]
    parts = [f"# {_md(_caption(filled))}", "", _markdown(headings, body, 2, escaped=True), ""]
    parts += [f"{_count_text(filled)}.", "", f"{RULES}.", ""]
    parts += [f"{n}. {_md(note.text)}" for n, note in enumerate(table.footnotes, start=1)]
    parts += [""] if table.footnotes else []
    parts += [f"- failed: {_md(text)}" for text in _errors(filled)]
    parts += [f"- {name}: {_md(text)}" for name, text in _provenance(filled)]
    return "\n".join(parts) + "\n"


def _md_marks(marks: Sequence[int]) -> str:
    return f" <sup>{','.join(map(str, marks))}</sup>" if marks else ""


def _md(text: str) -> str:
    """Text for a Markdown table: one line, and nothing in it is markup."""
    return re.sub(r"([\\|*_<>`\[\]])", r"\\\1", " ".join(text.split()))


def _markdown(
    headings: Sequence[str], body: Sequence[Sequence[str]], left: int, escaped: bool = False
) -> str:
    """A Markdown table, its first ``left`` columns flush left, padded for reading."""

    def clean(text: str) -> str:
        if escaped or re.fullmatch(r"\*\*[^*]+\*\*", text):
            return text
        return _md(text)

    lines = [[clean(text) for text in line] for line in (headings, *body)]
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(headings))]

    def joined(line: Sequence[str]) -> str:
        padded = [
            text.ljust(width) if i < left else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * w if i < left else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return "\n".join([joined(lines[0]), joined(rule), *(joined(line) for line in lines[1:])])


_TEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": r"$-$",
    "⁻": r"$^{-}$",
    "³": r"$^{3}$",
    **{character: f"\\{character}" for character in "#$%&_"},
}


def _tex(text: str) -> str:
    text = text.replace("× 10⁻³", "\0")  # one formula, not four
    return "".join(_TEX.get(c, c) for c in text).replace("\0", r"$\times 10^{-3}$")


def _to_tex(filled: Filled) -> str:
    """A ``table`` environment to be read with \\input; needs the package booktabs."""
    table = filled.table
    n = len(table.columns)
    out = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering\small",
        rf"\caption{{{_tex(_caption(filled))}.}}",
        rf"\label{{tab:{re.sub(r'[^A-Za-z0-9]+', '-', table.name)}}}",
        rf"\begin{{tabular}}{{ll{'r' * n}}}",
        r"\toprule",
        " & ".join(["", "", *(_tex(label) for label, _ in table.columns)]).strip() + r" \\",
    ]
    for cells, (label, marks, lines) in zip(filled.cells, _lines(filled), strict=True):
        out.append(r"\midrule" if cells is filled.cells[0] else r"\addlinespace")
        for place, (what, texts) in enumerate(lines):
            first = _tex(label) + _tex_marks(marks) if place == 0 else ""
            if what == "omkl" and all(cell.verdict == "absent" for cell in cells):
                out.append(rf"{first} & {what} & \multicolumn{{{n}}}{{c}}{{{_tex(ABSENT)}}} \\")
                continue
            fields = [_tex(text) for text in texts]
            if what == "omkl":
                found = [_tex_marks(_marks(filled, c.row, c.dataset)) for c in cells]
                fields = [a + b for a, b in zip(fields, found, strict=True)]
            elif what == "verdict":
                fields = [rf"\emph{{{text}}}" if text else "" for text in fields]
            out.append(" & ".join([first, what, *fields]) + r" \\")
    out += [r"\bottomrule", r"\end{tabular}", "", r"\medskip"]
    out += [r"\begin{minipage}{0.95\linewidth}\footnotesize\raggedright"]
    notes = [f"$^{{{i}}}$ {_tex(note.text)}" for i, note in enumerate(table.footnotes, start=1)]
    notes += [f"{_tex(_count_text(filled))}. {_tex(RULES)}."]
    notes += [f"failed: {_tex(text)}" for text in _errors(filled)]
    notes += ["; ".join(f"{name}: {_tex(text)}" for name, text in _provenance(filled)) + "."]
    out += ["\\par\n".join(notes), r"\end{minipage}", r"\end{table}"]
    return "\n".join(out) + "\n"


def _tex_marks(marks: Sequence[int]) -> str:
    return f"$^{{{','.join(map(str, marks))}}}$" if marks else ""


_CSS = """
:root { color-scheme: light dark; --line: #d0d0d0; --soft: #5c5c5c; --back: #ffffff;
  --text: #1b1b1b; --good: #00694b; --fair: #7a5200; --bad: #a8321c; }
@media (prefers-color-scheme: dark) { :root { --line: #444a50; --soft: #a5abb1;
  --back: #16191c; --text: #e6e6e6; --good: #4fd1a5; --fair: #f0b541; --bad: #ff8f73; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.35rem; line-height: 1.3; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .45rem .8rem; border-bottom: 1px solid var(--line); text-align: right;
  vertical-align: top; white-space: nowrap; }
th:first-child { text-align: left; padding-left: 0; }
thead th { border-bottom: 2px solid var(--text); }
td span { display: block; }
.small { color: var(--soft); font-size: .82rem; }
.ours { font-weight: 600; }
.verdict { font-size: .82rem; }
.reproduced .verdict { color: var(--good); }
.close .verdict { color: var(--fair); }
.differs .verdict, .failed .verdict { color: var(--bad); }
.missing .verdict { color: var(--soft); }
sup { line-height: 0; font-weight: 400; }
sup a { color: var(--soft); }
h2 { font-size: 1rem; }
ol, ul, dl, p { font-size: .9rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
"""


def _to_html(filled: Filled) -> str:
    """One page that needs nothing else."""
    table, esc = filled.table, html.escape
    head = "".join(f'<th scope="col">{esc(label)}</th>' for label, _ in table.columns)
    body = []
    for cells in filled.cells:
        row = cells[0].row
        fields = "".join(_html_cell(filled, cell) for cell in cells)
        label = esc(row.label) + _html_marks(_marks(filled, row))
        body.append(f'<tr><th scope="row">{label}</th>{fields}</tr>')
    notes = "".join(
        f'<li id="note{i}">{esc(note.text)}</li>' for i, note in enumerate(table.footnotes, start=1)
    )
    errors = "".join(f"<li>{esc(text)}</li>" for text in _errors(filled))
    facts = "".join(
        f"<dt>{esc(name)}</dt><dd>{esc(text)}</dd>" for name, text in _provenance(filled)
    )
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{esc(_caption(filled))}</title>",
            f"<style>{_CSS}</style></head><body>",
            f"<h1>{esc(_caption(filled))}</h1>",
            f"<p>{esc(_count_text(filled))}. In each cell: ours, the published number, "
            "the difference and the verdict.</p>",
            f'<div class="wide"><table><thead><tr><th scope="col"></th>{head}</tr></thead>',
            f"<tbody>{''.join(body)}</tbody></table></div>",
            f"<p>{esc(RULES)}.</p>",
            f"<ol>{notes}</ol>" if notes else "",
            f"<h2>Failed</h2><ul>{errors}</ul>" if errors else "",
            f"<dl>{facts}</dl>",
            "</body></html>",
            "",
        ]
    )


def _html_cell(filled: Filled, cell: Cell) -> str:
    paper = f'<span class="small">published {html.escape(_published_text(filled, cell))}</span>'
    if cell.verdict == "absent":
        return f'<td class="absent">{paper}<span class="small">{ABSENT}</span></td>'
    marks = _html_marks(_marks(filled, cell.row, cell.dataset))
    if cell.ours is None:
        return (
            f'<td class="{cell.verdict}"><span class="verdict">{cell.verdict}{marks}</span>'
            f"{paper}</td>"
        )
    ours = html.escape(_ours_text(filled, cell))
    return (
        f'<td class="{cell.verdict}"><span class="ours">{ours}{marks}</span>{paper}'
        f'<span class="verdict">{_difference_text(cell)}, {cell.verdict}</span></td>'
    )


def _html_marks(marks: Sequence[int]) -> str:
    links = ",".join(f'<a href="#note{n}">{n}</a>' for n in marks)
    return f" <sup>{links}</sup>" if links else ""
