"""README's picture of the table "How good is it?": ``python scripts/pages/pictures.py``.

The file has the numbers in its metadata, which a test compares with the table. The picture of a
real stream was drawn once, by this file of commit b4c228c5.
"""

import json
import re
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from omkl.report import style

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
RANKING = IMAGES / "ranking.png"


class Row(NamedTuple):
    """A row of README's table: errors over those of a linear ridge, from the least to the most."""

    name: str
    mean: tuple[float, ...]  # one number, or the ends of a range
    worst: tuple[float, ...]


def table_of(readme: str) -> list[Row]:
    """The rows of the table below "How good is it?".

    Raises ValueError where there is none.
    """
    section = readme.partition("## How good is it?")[2].partition("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:1] == "|"]
    if len(lines) < 3:
        raise ValueError('README.md has no table below "How good is it?"')
    rows = []
    for name, mean, worst, _ in lines[2:]:
        numbers = [tuple(map(float, re.findall(r"[\d.]+", text))) for text in (mean, worst)]
        rows.append(Row(name.replace("`", "").removeprefix("best of "), *numbers))
    return rows


def draw_ranking(rows: list[Row]) -> Figure:
    """A line per row: the mean over the streams, filled, and the worst stream, hollow."""
    with style.applied():
        figure = Figure(figsize=(7.2, 0.9 + 0.32 * len(rows)))
        axes = figure.add_subplot()
        axes.axvline(1.0, color=style.GREY, linewidth=1.0, linestyle="dashed")
        for place, row in enumerate(rows):
            axes.plot([row.mean[0], row.worst[-1]], [place] * 2, color="#cccccc", linewidth=1.0)
            for values, fill, size, label in (
                (row.worst, "white", 8, "worst stream"),
                (row.mean, style.COLOURS[0], 5, "geometric mean over the streams"),
            ):
                axes.plot(
                    values, [place] * len(values), "o-", color=style.COLOURS[0], markersize=size,
                    linewidth=2.0, markerfacecolor=fill, label=label,
                )  # fmt: skip
        low, high = min(row.mean[0] for row in rows), max(row.worst[-1] for row in rows)
        style.log_axis(axes.xaxis, low / 1.3, high * 1.3)
        axes.set_yticks(range(len(rows)), [style.wrapped(row.name, 34) for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel("mean squared error over that of an online linear ridge (left is better)")
        style.figure_legend(figure, [axes])
    return figure


def save_ranking() -> None:
    rows = table_of((ROOT / "README.md").read_text(encoding="utf-8"))
    with style.applied():
        metadata = {"Description": json.dumps(rows)}
        draw_ranking(rows).savefig(RANKING, dpi=style.DPI, metadata=metadata)
    print(RANKING)


if __name__ == "__main__":
    save_ranking()
