"""What the columns of a sweep's table are called and say, on a terminal, in Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from omkl.report import columns, style
from omkl.report.columns import KEPT, Column, Fitted
from omkl.report.tables import Cell, Table
from omkl.report.text import readable
from omkl.runs.run_folder import MSE
from omkl.runs.wording import pluralize

Row = dict[str, Any]  # of omkl.report.sweep_table

BASELINE = " (baseline)"
SHORTEST = 9  # characters that are left of a name in a narrow terminal


class FittedSweep(NamedTuple):
    """The columns of a sweep that fit, and what is said below instead of in a column."""

    fitted: Fitted
    remarks: list[str]


def columns_of(rows: Sequence[Row]) -> list[Column]:
    """A column a fact; labels have one only where they cost something in some row."""
    names = setting_names(rows)
    chosen = list(zip(*(setting_texts(row, names) for row in rows), strict=True))
    runs = [row for row in rows if not is_baseline(row)]
    found = [
        _names("algorithm", [row["algorithm"] for row in rows]),
        _names("data set", [row["dataset"] for row in rows]),
        *(_names(name, cells, KEPT) for name, cells in zip(names, chosen, strict=False)),
        Column(heading(rows), [loss_text(row) for row in rows]),
    ]
    if any(row["regret"] is not None for row in rows):
        found.append(Column("regret", [_regret_text(row) for row in rows], worth=5))
    if any(row["al_efficiency"] < 1.0 for row in runs):
        found.append(Column("labels asked", [_labels_text(row) for row in rows], worth=6))
    for name, key, form, worth in (
        ("seconds", "seconds", "{:.3g}", 3),
        ("kernels / round", "kernels_per_round", "{:.4g}", 2),
        ("seeds", "n_seeds", "{}", 1),
    ):
        if name in names:  # it varies, and is told as a setting
            continue
        cells = ["" if is_baseline(row) else form.format(row[key]) for row in rows]
        found.append(Column(name, cells, worth))
    return found


def table(rows: Sequence[Row]) -> Table:
    """The rows as they are written: bold is the star, a group is a data set."""
    columns = columns_of(rows)
    n_names = sum(not column.right for column in columns)
    body = [list(cells) for cells in zip(*(column.cells for column in columns), strict=True)]
    for row, cells in zip(rows, body, strict=True):
        cells[n_names] = Cell(cells[n_names], bold=row["best"])
    return Table.of_rows(
        [column.heading for column in columns], body, left=n_names,
        groups={i for i, row in enumerate(rows[1:]) if row["dataset"] != rows[i]["dataset"]},
        kinds={i: "baseline" for i, row in enumerate(rows) if is_baseline(row)},
    )  # fmt: skip


def _names(heading: str, cells: Sequence[str], worth: int = KEPT) -> Column:
    return Column(heading, cells, worth, right=False, shortest=SHORTEST)


def fitted(rows: Sequence[Row], width: int) -> FittedSweep:
    """The columns as a terminal of ``width`` characters shows them.

    What is the same in all rows is said below; settings that have no room beside each other stand
    below the name of their run.
    """
    whole = columns_of(rows)
    n_settings = len(setting_names(rows))
    algorithm, dataset, *others = whole
    settings, numbers = others[:n_settings], others[n_settings:]
    remarks = []
    if any(map(is_baseline, rows)):
        remarks.append("(in brackets): a baseline, which has no kernel")
    algorithm = algorithm._replace(cells=[name_text(row) for row in rows])
    first = [algorithm, dataset]
    if len(set(dataset.cells)) == 1:
        first, remarks = [algorithm], [f"data set: {dataset.cells[0]}", *remarks]
    seeds = {row["n_seeds"] for row in rows if not is_baseline(row)}
    if len(seeds) == 1:
        (n_seeds,) = seeds
        numbers = [column for column in numbers if column.heading != "seeds"]
        remarks.append(pluralize(n_seeds, "seed"))
    numbers[0] = numbers[0]._replace(
        heading=numbers[0].heading.replace(" or ", "\nor "),
        cells=[
            f"{cell} {'*' if row['best'] else ' '}"
            for cell, row in zip(numbers[0].cells, rows, strict=True)
        ],
    )
    numbers = [c._replace(heading=_in_lines(c.heading)) for c in numbers]
    settings = [c._replace(heading=c.heading.replace(".", ".\n")) for c in settings]
    least = [*first, *settings, *(column for column in numbers if column.worth == KEPT)]
    if columns.width_of(least) > width and settings:
        below = ["\n  ".join([name_text(row), *pairs(row)]) for row in rows]
        first[0] = algorithm._replace(cells=below)
        settings = []
    found = columns.fit([*first, *settings, *numbers], width)
    if seeds != {1} and "seconds" not in found.left_out:
        remarks.append("seconds: of all seeds together")
    return FittedSweep(found, remarks)


def _in_lines(heading: str) -> str:
    return heading.replace(" / ", "\n/ ").replace("labels asked", "labels\nasked")


def is_baseline(row: Row) -> bool:
    return row.get("status") == "baseline"


def name_text(row: Row) -> str:
    """An algorithm's name; a baseline's stands in brackets."""
    name = str(row["algorithm"])
    return f"({name.removesuffix(BASELINE)})" if is_baseline(row) else name


def setting_names(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row["settings"]))


def setting_texts(row: Row, names: Iterable[str]) -> list[str]:
    chosen = row["settings"]
    return [style.value_text(chosen[name]) if name in chosen else "" for name in names]


def pairs(row: Row) -> list[str]:
    return [f"{name}={style.value_text(value)}" for name, value in row["settings"].items()]


def loss_text(row: Row) -> str:
    kind = row["measure"]
    loss, std = kind.scale * row[kind.key], row[f"{kind.key}_std"]
    if kind is MSE:
        return readable(loss) + ("" if std is None else f" ± {readable(std, loss)}")
    return f"{loss:.2f}" if std is None else f"{loss:.2f} ± {kind.scale * std:.2f}"


def heading(rows: Sequence[Row]) -> str:
    kinds = dict.fromkeys(row["measure"] for row in rows) or {MSE: None}
    return " or ".join(f"{kind.short}{kind.unit}" for kind in kinds)


def _regret_text(row: Row) -> str:
    regret, std = row["regret"], row["regret_std"]
    if regret is None:
        return ""
    return _brief(regret, regret) + ("" if std is None else f" ± {_brief(std, regret)}")


def _brief(value: float, like: float) -> str:
    """With two decimals at most: more say nothing of a sum over thousands of rounds."""
    return f"{value:.2f}" if abs(like) < 100 else readable(value, like)


def _labels_text(row: Row) -> str:
    return "" if is_baseline(row) else f"{100 * row['al_efficiency']:.3g} %"


def short_names(rows: Sequence[Row]) -> str:
    """What the rows are judged by: "MSE or errors"."""
    return " or ".join(dict.fromkeys(row["measure"].short for row in rows))


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
