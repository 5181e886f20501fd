"""The runs of a sweep as one table: a row per run, which all that is shown of them is made of.

``sweep_table`` and ``failure_table`` read the runs once. From their rows come the table on a
terminal, in Markdown, LaTeX and HTML, the data frame of CSV, and the pivot: errors with what one
likes as rows and columns. ``read_question`` reads what somebody asks of runs, ``dataset=naval
algorithm=raker,gf sort=mse``.
"""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from omkl.report import naming, stats
from omkl.report.naming import markdown_text, readable, value_text
from omkl.report.tables import READABLE, Cell, Table, left_out_text, markdown_table
from omkl.runs import run_folder
from omkl.runs.run_folder import ERROR_RATE, MSE, Run, measure, number_of, scaling_of
from omkl.utils.disk import write_atomically
from omkl.utils.wording import few, plain, pluralize

if TYPE_CHECKING:
    from rich.console import Console

Row = dict[str, Any]

BASELINE = " (baseline)"
ABSENT = "-"  # in a cell of a pivot without a run
SHORTEST = 9  # characters that are left of a name in a narrow terminal
BOOKTABS = "% needs \\usepackage{booktabs}\n"


# --- rows -----------------------------------------------------------------------------------------


def presentable(runs: Iterable[Run]) -> Iterator[Run]:
    """Yield the runs that a table can hold, and name the others on stderr.

    A run folder may be damaged, or something else may have written it.
    """
    for run in runs:
        try:
            markdown(sweep_table([run]), failure_table([run]))
        except Exception as error:
            run_folder.left_out(run.folder, error)
        else:
            yield run


def sweep_table(runs: Sequence[Run]) -> list[Row]:
    """One row a complete run, grouped by data set, in the order of ``runs``.

    ``settings`` holds what varies among the runs, ``stream`` what of it makes another stream of the
    data set, ``measure`` what the run is judged by;
    ``mse`` and ``mse_std``, or ``error_rate`` and ``error_rate_std``, are in units of 1 (std
    None for one seed), ``scores`` the same by seed, ``seconds`` is the time of all seeds; ``best``
    marks the lowest of the data set and what does not differ from it, among runs with the same
    ``stream``, ``scaling`` and ``code`` (``stats.codes_of``); ``p_star`` is the p-value
    (``stats.compare``); ``regret`` and ``regret_std`` belong to the first comparator that was
    computed, named in ``comparator`` (all None if none was). ``coverage`` and ``width`` are of
    ``interval=..`` (None without). ``al_efficiency`` is the share of the
    labels that were asked for. Below the runs of a data set are its ``baselines``. ``status`` is
    "complete" or "baseline".
    """
    swept = naming.swept(runs)
    complete = [run for run in runs if run.complete]
    codes = iter(stats.codes_of(complete))
    rows = [
        _row(run, settings, next(codes))
        for run, settings in zip(runs, swept, strict=True)
        if run.complete
    ]
    comparable: dict[str, list[Row]] = {}
    for row in rows:
        group = row["dataset"], row["measure"].key, row["scaling"], row["stream"], row["code"]
        comparable.setdefault(str(group), []).append(row)
    for alike in comparable.values():
        stats.compare(alike)
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    rows += _baseline_rows(runs, swept)
    rows.sort(key=lambda row: datasets.index(row["dataset"]))
    return rows


def _row(run: Run, settings: dict[str, Any], code: str) -> Row:
    result, kind = run.result, measure(run.result)
    key = kind.key
    comparator = next((entry for entry in result["regret"].values() if "mean" in entry), None)
    shuffled = (run.config.get("stream") or {}).get("order") == "shuffled"
    return {
        "algorithm": naming.name_of(run),
        "dataset": result["dataset"],
        "settings": settings,
        "stream": naming.of_stream(settings),
        "measure": kind,
        # Of a regression: errors depend on it by unit or by the first round.
        "scaling": scaling_of(result) if kind is MSE else None,
        "code": code,
        key: number_of(result[f"{key}_mean"]),
        f"{key}_std": result[f"{key}_std"],
        "scores": dict(zip(result["seeds"], map(number_of, result[key]), strict=True)),
        # Whether another seed could give another score: by what is drawn, or by the order of rows.
        "draws": (kind is ERROR_RATE and shuffled) or not result.get("deterministic"),
        "regret": comparator and comparator["mean"],
        "regret_std": comparator and comparator["std"],
        "comparator": comparator and comparator["label"],
        **{name: result[name] for name in ("labels", "al_efficiency", "seconds")},
        "coverage": result.get("interval", {}).get("coverage"),
        "width": result.get("interval", {}).get("width"),
        "mse_per_label": result.get("mse_per_label"),
        "kernels_per_round": result["kernels_per_round"],
        "n_seeds": len(result["seeds"]),
        "status": "complete",
        "folder": _short(run.folder),
    }


def _baseline_rows(runs: Sequence[Run], swept: Sequence[Row]) -> list[Row]:
    """One row a baseline and data set; several where settings of the stream vary."""
    parts = ("dataset", "stream", "federation", "clients")
    rows: dict[str, Row] = {}
    for run, settings in zip(runs, swept, strict=True):
        key, dataset = measure(run.result).key, run.result["dataset"]
        of_stream = {k: v for k, v in settings.items() if k.partition(".")[0] in parts}
        for name, entry in stats.computed(run.result).items() if run.complete else ():
            if key not in entry:
                continue
            row = {
                "algorithm": f"{stats.NAMES[name]}{BASELINE}",
                "dataset": dataset,
                "settings": of_stream,
                "measure": measure(run.result),
                key: number_of(entry[key]),
                "best": False,
                "status": "baseline",
                "folder": "",
            }
            row |= dict.fromkeys((f"{key}_std", "regret", "regret_std", "comparator"))
            rows.setdefault(str((name, dataset, of_stream, key)), row)
    return list(rows.values())


def failure_table(runs: Sequence[Run]) -> list[Row]:
    """One row a run that is not complete: what it was and why it ended."""
    return [
        {
            "algorithm": naming.name_of(run),
            "dataset": run.result["dataset"],
            "settings": settings,
            "status": run.result["status"],
            "error": f"{run.result['error']['type']}: {run.result['error']['message']}",
            "folder": _short(run.folder),
        }
        for run, settings in zip(runs, naming.swept(runs), strict=True)
        if not run.complete
    ]


def _short(folder: Path) -> str:
    """The run folder below its outputs folder; runs can be moved, so never absolute."""
    return plain("/".join(Path(folder).parts[-3:]))


def is_baseline(row: Row) -> bool:
    return row.get("status") == "baseline"


def setting_names(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row["settings"]))


def setting_texts(row: Row, names: Iterable[str]) -> list[str]:
    settings = row["settings"]
    return [value_text(settings[name]) if name in settings else "" for name in names]


def frame(rows: Sequence[Row], failures: Sequence[Row] = ()) -> pd.DataFrame:
    """Every run, baseline and failure as a line, numbers in full and in units of 1."""
    keys = dict.fromkeys(row["measure"].key for row in rows) or {"mse": None}
    losses = [name for key in keys for name in (key, f"{key}_std")]
    numbers = [*losses, "regret", "regret_std", "comparator", "labels", "al_efficiency"]
    if any(row.get("coverage") is not None for row in rows):
        numbers += ["coverage", "width"]
    numbers += ["mse_per_label", "seconds", "kernels_per_round", "n_seeds", "best", "p_star"]
    names = ["algorithm", "dataset", *setting_names([*rows, *failures]), *numbers]
    lines = [row["settings"] | row for row in (*rows, *failures)]
    return pd.DataFrame(lines, columns=[*names, "status", "error", "folder"], dtype=object)


# --- the table ------------------------------------------------------------------------------------


class _Column(NamedTuple):
    """A column; with a ``worth`` it may be left out, a ``name`` is flush left and may be cut."""

    heading: str
    cells: list[Any]
    worth: int | None = None
    name: bool = False


def table(rows: Sequence[Row]) -> Table:
    """A column a fact; labels have one only where they cost something in some row.

    Bold is the star, a group is a data set.
    """
    names, settings, numbers = _columns(rows)
    return _table([*names, *settings, *numbers], rows)


def _columns(rows: Sequence[Row]) -> tuple[list[_Column], list[_Column], list[_Column]]:
    """Columns of names, of what varies, and of numbers, the error first."""
    swept = setting_names(rows)
    names = [
        _Column("algorithm", [row["algorithm"] for row in rows], name=True),
        _Column("data set", [row["dataset"] for row in rows], name=True),
    ]
    settings = [
        _Column(name, [*text], name=True)
        for name, text in zip(
            swept, zip(*(setting_texts(r, swept) for r in rows), strict=True), strict=False
        )
    ]
    errors = [Cell(loss_text(row), bold=row["best"]) for row in rows]
    numbers = [_Column(error_heading(rows), errors)]
    if any(row["regret"] is not None for row in rows):
        numbers.append(_Column("regret", [_regret_text(row) for row in rows], worth=5))
    if any(row.get("al_efficiency", 1.0) < 1.0 for row in rows):
        asked = ["" if is_baseline(row) else f"{100 * row['al_efficiency']:.3g} %" for row in rows]
        numbers.append(_Column("targets requested", asked, worth=6))
    if any(row.get("coverage") is not None for row in rows):
        covered = [_number_text(row.get("coverage"), "{:.1%}") for row in rows]
        widths = [_number_text(row.get("width"), "{:.4g}") for row in rows]
        numbers.append(_Column("coverage", covered, worth=4))
        numbers.append(_Column("mean width", widths, worth=4))
    for name, key, form, worth in (
        ("seconds", "seconds", "{:.3g}", 3),
        ("kernels / row", "kernels_per_round", "{:.4g}", 2),
        ("seeds", "n_seeds", "{}", 1),
    ):
        if name not in swept:  # what varies is told as a setting
            cells = ["" if is_baseline(row) else form.format(row[key]) for row in rows]
            numbers.append(_Column(name, cells, worth))
    return names, settings, numbers


def _number_text(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def _table(columns: Sequence[_Column], rows: Sequence[Row]) -> Table:
    return Table(
        [column.heading for column in columns],
        zip(*(column.cells for column in columns), strict=True),
        left=sum(column.name for column in columns),
        groups={i for i, row in enumerate(rows[1:]) if row["dataset"] != rows[i]["dataset"]},
        kinds={i: "baseline" for i, row in enumerate(rows) if is_baseline(row)},
        worth={i: column.worth for i, column in enumerate(columns) if column.worth is not None},
        shortest={i: SHORTEST for i, column in enumerate(columns) if column.name},
    )


def fitted(rows: Sequence[Row], width: int) -> tuple[Table, list[str]]:
    """The table for a terminal of ``width`` characters, and what is said below it.

    What is the same in all rows is said below; settings that have no room beside each other stand
    below the name of their run.
    """
    (_, dataset), settings, numbers = _columns(rows)
    remarks = []
    if any(map(is_baseline, rows)):
        remarks.append("(in brackets): a baseline, which has no kernel")
    names = [_Column("algorithm", [name_text(row) for row in rows], name=True)]
    if len(set(dataset.cells)) == 1:
        remarks.insert(0, f"data set: {dataset.cells[0]}")
    else:
        names.append(dataset)
    if len(seeds := {row["n_seeds"] for row in rows if not is_baseline(row)}) == 1:
        numbers = [column for column in numbers if column.heading != "seeds"]
        remarks.append(pluralize(next(iter(seeds)), "seed"))
    breaks = {" / ": "\n/ ", " or ": "\nor ", "targets requested": "targets\nrequested"}
    for text, broken in breaks.items():
        numbers = [c._replace(heading=c.heading.replace(text, broken)) for c in numbers]
    settings = [c._replace(heading=c.heading.replace(".", ".\n")) for c in settings]
    least = [*names, *settings, numbers[0]]
    if settings and _table(least, rows).width > width:
        cells = ["\n  ".join([name_text(row), *pairs(row)]) for row in rows]
        names[0], settings = names[0]._replace(cells=cells), []
    return _table([*names, *settings, *numbers], rows), remarks


def print_sweep(rows: Sequence[Row], failures: Sequence[Row], console: Console) -> None:
    """Print the rows to a ``rich.console.Console``, failures last.

    Columns that say least are left out where there is no room, and named.
    """
    from rich.padding import Padding
    from rich.text import Text

    if rows:
        shown, remarks = fitted(rows, console.width)
        left_out = shown.print(console)
        if {row.get("n_seeds", 1) for row in rows} != {1} and "seconds" not in left_out:
            remarks.append("seconds: of all seeds together")
        if "regret" not in left_out and (comparators := comparators_text(rows)):
            remarks.append(f"regret against: {comparators}")
        if left_out:
            remarks.append(left_out_text(left_out))
        console.print()
        for remark in (f"* {stats.meaning(rows, short_names(rows))}", *remarks):
            console.print(Text(remark))
    if failures:
        console.print(Text(f"\n{len(failures)} not complete"))
    alike: dict[str, list[Row]] = {}
    for row in failures:
        alike.setdefault(row["error"], []).append(row)
    for error, members in alike.items():
        runs = few(described(row) for row in members)
        console.print(Padding(Text(f"{runs}: {error}"), (0, 0, 0, 2)))
        console.print(Text(f"  {members[0]['folder']}"), soft_wrap=True)  # to be copied


def write_sweep(rows: Sequence[Row], failures: Sequence[Row], folder: Path) -> list[Path]:
    """Write table.csv (every run, numbers in full) and table.md (for reading)."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "table.csv", folder / "table.md"]
    write_atomically(paths[0], csv(rows, failures))
    write_atomically(paths[1], markdown(rows, failures))
    return paths


def csv(rows: Sequence[Row], failures: Sequence[Row]) -> str:
    return str(frame(rows, failures).to_csv(index=False, lineterminator="\n"))


def markdown(rows: Sequence[Row], failures: Sequence[Row]) -> str:
    parts = []
    if rows:
        star = stats.meaning(rows, short_names(rows))
        parts += [table(rows).markdown(), f"Bold: {star}. Seconds: all seeds together."]
        if comparators := comparators_text(rows):
            parts.append(f"Regret against: {markdown_text(comparators)}.")
    if failures:
        names = setting_names(failures)
        headings = ["algorithm", "data set", *names, "error", "folder"]
        body = [
            [r["algorithm"], r["dataset"], *setting_texts(r, names), r["error"], r["folder"]]
            for r in failures
        ]
        parts += ["Not complete:", markdown_table(headings, body, left=len(headings))]
    return "\n\n".join(parts) + "\n"


def latex(rows: Sequence[Row]) -> str:
    """The same columns as a LaTeX table."""
    return f"{BOOKTABS}{table(rows).latex()}\n"


# --- texts ----------------------------------------------------------------------------------------


def name_text(row: Row) -> str:
    """An algorithm's name; a baseline's stands in brackets."""
    name = str(row["algorithm"])
    return f"({name.removesuffix(BASELINE)})" if is_baseline(row) else name


def pairs(row: Row) -> list[str]:
    return [f"{name}={value_text(value)}" for name, value in row["settings"].items()]


def described(row: Row) -> str:
    """A run by its algorithm, its data set and the settings that vary."""
    return ", ".join([f"{row['algorithm']} on {row['dataset']}", *pairs(row)])


def loss_text(row: Row) -> str:
    kind = row["measure"]
    return stats.loss_text(kind, row[kind.key], row[f"{kind.key}_std"])


def error_heading(rows: Sequence[Row]) -> str:
    kinds = dict.fromkeys(row["measure"] for row in rows) or {MSE: None}
    return " or ".join(f"{kind.short}{kind.unit}" for kind in kinds)


def short_names(rows: Sequence[Row]) -> str:
    """What the rows are judged by: "MSE or errors"."""
    return " or ".join(dict.fromkeys(row["measure"].short for row in rows))


def _regret_text(row: Row) -> str:
    regret, std = row["regret"], row["regret_std"]
    if regret is None:
        return ""
    return _brief(regret, regret) + ("" if std is None else f" ± {_brief(std, regret)}")


def _brief(value: float, like: float) -> str:
    """With two decimals at most: more say nothing of a sum over thousands of rounds."""
    return f"{value:.2f}" if abs(like) < 100 else readable(value, like)


def comparators_text(rows: Sequence[Row]) -> str:
    """What the regret of a table is against, and whose is blank; "" where there is none."""
    against = list(dict.fromkeys(row["comparator"] for row in rows if row["comparator"]))
    with_one = {row["algorithm"] for row in rows if row["comparator"]}
    without = dict.fromkeys(
        f"{row['algorithm']} on {row['dataset']}" if row["algorithm"] in with_one
        else row["algorithm"] for row in rows if not (row["comparator"] or is_baseline(row))
    )  # fmt: skip
    if against and without:
        against.append(f"none was computed for {', '.join(without)}")
    return "; ".join(against)


# --- the pivot ------------------------------------------------------------------------------------

NAMED = ("algorithm", "dataset")


class Pivot(NamedTuple):
    """Errors by row and column: ``cells`` (rows, columns), None where there is no run.

    ``what`` is the error and its unit, ``star`` what the star says, ``named`` what the rows are.
    """

    what: str
    star: str
    named: str
    rows: list[str]
    columns: list[str]
    cells: list[list[Row | None]]

    def table(self) -> Table:
        body = [
            [name, *(Cell(loss_text(row), bold=row["best"]) if row else ABSENT for row in line)]
            for name, line in zip(self.rows, self.cells, strict=True)
        ]
        return Table([self.named, *self.columns], body, shortest={0: READABLE})

    def print(self, console: Console) -> None:
        """Print it; columns that have no room beside the others stand below them."""
        from rich.text import Text

        for number, part in enumerate(_parts(self.table(), console.width)):
            if number:
                console.print()
            part.print(console)
        console.print(Text(f"\n{self.what}\n* {self.star}"))

    def markdown(self) -> str:
        return f"{self.table().markdown()}\n\n{self.what}. Bold: {self.star}.\n"

    def latex(self) -> str:
        return f"% {self.what}\n{BOOKTABS}{self.table().latex()}\n"

    def csv(self) -> str:
        """Errors in full, in units of 1, and their deviations over seeds."""
        values: dict[str, list[Any]] = {self.named: self.rows}
        for number, column in enumerate(self.columns):
            rows = [line[number] for line in self.cells]
            values[column] = [row and row[row["measure"].key] for row in rows]
            values[f"{column} std"] = [row and row[f"{row['measure'].key}_std"] for row in rows]
        frame = pd.DataFrame(values, dtype=object)
        return str(frame.to_csv(index=False, lineterminator="\n"))


def pivot(rows: Sequence[Row], by: Sequence[str], over: Sequence[str]) -> Pivot:
    """The rows of ``sweep_table`` with ``by`` down and ``over`` across.

    What varies and is in neither stands in the name of its algorithm, or of its data set where it
    is a setting of the stream, so that no cell has two runs. ValueError for a key that is no
    algorithm, data set or setting that varies.
    """
    varies = [*NAMED, *setting_names(rows)]
    for key in (*by, *over):
        if key not in varies:
            raise ValueError(f"{key} does not vary in these runs; there are: {', '.join(varies)}")
    several = len({row["dataset"] for row in rows}) > 1
    left = [k for k in varies if k not in (*by, *over) and (k != "dataset" or several)]
    # A setting that varies tells data sets apart by how they are streamed, or learners.
    across = [
        k for k in left if k not in NAMED
        and ("dataset" if k.startswith(("dataset.", "stream.")) else "algorithm") in over
    ]  # fmt: skip
    left = [k for k in left if k not in across]
    names = [_name([_value(row, key) for key in by], row, left) for row in rows]
    heads = [_name([_named(row, key) for key in over], row, across) for row in rows]
    twice = Counter(zip(names, heads, strict=True))
    names = [
        f"{name} [{row['folder'][-4:]}]" if twice[name, head] > 1 and row["folder"] else name
        for row, name, head in zip(rows, names, heads, strict=True)
    ]
    cells: dict[tuple[str, str], Row] = {}
    for row, name, head in zip(rows, names, heads, strict=True):
        cells.setdefault((name, head), row)

    def order(i: int) -> tuple[Any, ...]:
        values = [place(_raw(rows[i], key)) for key in (*over, *across)]
        return is_baseline(rows[i]) and "algorithm" in over, values

    columns = list(dict.fromkeys(heads[i] for i in sorted(range(len(rows)), key=order)))
    down = list(dict.fromkeys(names))
    lines = [[cells.get((name, column)) for column in columns] for name in down]
    star = stats.meaning(rows, short_names(rows))
    return Pivot(error_heading(rows), star, ", ".join(by), down, columns, lines)


def place(value: Any) -> tuple[int, float, str]:
    """A key that sorts values of a setting: numbers by their size, before what is none."""
    if isinstance(value, int | float):
        return 0, value, ""
    return 1, 0.0, value_text(value)


def _parts(table: Table, width: int) -> Iterator[Table]:
    """The table cut between columns, the first of which stands in every part."""
    columns = [0]
    for number in range(1, len(table.headings)):
        if len(columns) > 1 and table.take([*columns, number]).width > width:
            yield table.take(columns)
            columns = [0]
        columns.append(number)
    yield table.take(columns)


def _name(texts: Sequence[str], row: Row, left: Sequence[str]) -> str:
    more = [_value(row, key) for key in left if key in NAMED]
    more += [f"{key}={_value(row, key)}" for key in left if key in row["settings"]]
    return ", ".join([*texts, *more])


def _raw(row: Row, key: str) -> Any:
    if key == "algorithm":
        return name_text(row)
    return row[key] if key in NAMED else row["settings"].get(key, ABSENT)


def _value(row: Row, key: str) -> str:
    return value_text(_raw(row, key))


def _named(row: Row, key: str) -> str:
    """A column's name, which says the setting as well."""
    if key in NAMED:
        return _value(row, key)
    return f"{key}={_value(row, key)}" if key in row["settings"] else f"no {key}"


# --- which runs, and how --------------------------------------------------------------------------

FORMATS = ("table", "md", "csv", "latex")
SHOWN_AS = ("sort", "format", "rows", "columns")  # keys that do not choose runs
NUMBERS = ("mse", "error_rate", "regret", "seconds", "labels", "kernels_per_round", "n_seeds")


class Question(NamedTuple):
    """What is asked for.

    ``wanted``         values by key, of which a run has one each
    ``sort``           a key of the table, with a minus before it from the largest; "" as they are
    ``format``         one of ``FORMATS``
    ``rows, columns``  keys of a pivot; () for the table of all columns
    """

    wanted: Mapping[str, Sequence[str]]
    sort: str = ""
    format: str = FORMATS[0]
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


def read_question(texts: Sequence[str]) -> Question:
    """What ``KEY=VALUE`` ask for; ValueError says which of them cannot be."""
    pairs: dict[str, list[str]] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals and value):
            raise ValueError(f"{text!r} chooses nothing; write KEY=VALUE, as in dataset=naval")
        if key in pairs:
            raise ValueError(f"{key} is given twice; several values are {key}=ONE,OTHER")
        pairs[key] = [part for part in value.split(",") if part]
    shown = {key: pairs.pop(key) for key in SHOWN_AS if key in pairs}
    form = shown.get("format", [FORMATS[0]])
    if len(form) != 1 or form[0] not in FORMATS:
        raise ValueError(f"format={','.join(form)} is none of {', '.join(FORMATS)}")
    sort = shown.get("sort", [""])
    if len(sort) != 1:
        raise ValueError(f"sort={','.join(sort)}: rows are sorted by one column")
    rows, columns = (tuple(shown.get(key, ())) for key in ("rows", "columns"))
    if bool(rows) != bool(columns):
        raise ValueError("a pivot has both: rows=algorithm columns=dataset")
    return Question(pairs, sort[0], form[0], rows, columns)


def matching(runs: Sequence[Run], wanted: Mapping[str, Sequence[str]]) -> list[Run]:
    """The runs that have what is wanted; ValueError for a key that no run has, or if none is left.

    Values are compared as numbers where they are numbers, and may have ``*``: ``rf/*``. A run that
    does not have a key that others have is found by ``KEY=off``, and by ``KEY=null``. Runs of a
    user's file, ``my-5c82``, are found by ``dataset=my`` too.
    """
    facts = [_facts(run) for run in runs]
    for key in wanted:
        if not any(key in of_run for of_run in facts):
            names = dict.fromkeys(name for of_run in facts for name in of_run)
            raise ValueError(f"no run has {key}=; there are: {', '.join([*names, *SHOWN_AS])}")
    left = [
        run
        for run, of_run in zip(runs, facts, strict=True)
        if all(
            any(_is(of_run.get(key, naming.OFF), text, key == "dataset") for text in texts)
            for key, texts in wanted.items()
        )
    ]
    if not left:
        pairs = " ".join(f"{key}={','.join(texts)}" for key, texts in wanted.items())
        values = "; ".join(f"{key}: {_values(facts, key)}" for key in wanted)
        raise ValueError(f"no run has {pairs}. There are {values}")
    return left


def _values(facts: Sequence[Mapping[str, Any]], key: str) -> str:
    values = (naming.value_text(of_run.get(key, naming.OFF)) for of_run in facts)
    return few(dict.fromkeys(values))


def _facts(run: Run) -> dict[str, Any]:
    """What a run can be chosen by: names, parameters of its algorithm, and settings."""
    result = run.result
    names = {key: result[key] for key in ("algorithm", "dataset", "status", "key")}
    return naming.settings_of(run) | result["params"] | names


# A setting that is off is left out of a configuration, or is null or false there.
_OFF = {naming.OFF, "null", "none", "false"}


def _is(value: Any, text: str, may_end_in_digits: bool = False) -> bool:
    shown = naming.value_text(value)
    if may_end_in_digits and fnmatch.fnmatchcase(shown, f"{text}-{4 * '[0-9a-f]'}"):
        return True
    if shown.lower() == text.lower() or {shown, text} <= _OFF or fnmatch.fnmatchcase(shown, text):
        return True
    try:
        return float(value) == float(text)
    except (TypeError, ValueError):
        return False


def ordered(rows: Sequence[Row], sort: str) -> list[Row]:
    """The rows of each data set, by ``sort``; those that do not have the number come last.

    With "" they are in the order of algorithms and settings, baselines last.
    """
    names = setting_names(rows)
    columns = [*NUMBERS, "algorithm", *names]
    key, largest_first = sort.removeprefix("-"), sort.startswith("-")
    if sort and (key not in columns or not any(key in row | row["settings"] for row in rows)):
        raise ValueError(f"sort={sort}: no row has {key!r}; there are: {', '.join(columns)}")
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))

    def by_names(row: Row) -> tuple[Any, ...]:
        values = (place(row["settings"].get(name)) for name in names)
        return datasets.index(row["dataset"]), is_baseline(row), row["algorithm"], *values

    def value(row: Row) -> Any:
        return (row | row["settings"]).get(key)

    rows = sorted(rows, key=by_names)
    if sort:
        rows.sort(key=lambda row: place(value(row)), reverse=largest_first)
        rows.sort(key=lambda row: (datasets.index(row["dataset"]), value(row) is None))
    return rows
