"""Draw README's pictures: ``python scripts/pages/pictures.py [stream]``.

Without an argument, draw the table "How good is it?". The file has the numbers in its metadata,
and a test compares them with the table. ``stream`` runs ``auto`` on hourly CO in a street of an
Italian city (UCI, Air Quality), prints the numbers of the caption and draws eight days.
"""

import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

import omkl
from omkl.datasets import catalogue
from omkl.report import style

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
RANKING = IMAGES / "ranking.png"
SHOWN = (pd.Timestamp("2005-01-26"), pd.Timestamp("2005-02-03"))
CHANGE = pd.Timestamp("2005-01-31 06:00")


class Row(NamedTuple):
    """Row of README's table: errors over those of a linear ridge, from the least to the most."""

    name: str
    mean: tuple[float, ...]  # one number, or the ends of a range
    worst: tuple[float, ...]


def table_of(readme: str) -> list[Row]:
    """Return the rows of the table below "How good is it?".

    Raises ValueError if there is none.
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
    """Draw a line per row: the mean over the streams, filled, and the worst stream, hollow."""
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


def save_stream() -> None:
    path = catalogue.obtain(catalogue.entry("air_quality")).path
    frame = pd.read_excel(path, engine="calamine")
    times = pd.to_datetime(frame["Date"].astype(str)) + pd.to_timedelta(frame["Time"].astype(str))
    run = omkl.run("auto", path, target="CO(GT)", na_values=-200, interval=0.9,
                   predictions=True, figures=False)  # fmt: skip
    print(
        f"RMSE {run['rmse']:.3f}, of a linear ridge {run['baselines']['ridge']['rmse']:.3f}; "
        f"intervals cover {run['interval']['coverage']:.1%}"
    )
    rows = run.predictions.assign(time=lambda rows: times.to_numpy()[rows["row"] - 1])
    with style.applied():
        for drawn in style.save(draw_stream(rows[rows["time"].between(*SHOWN)]), IMAGES, "stream"):
            print(drawn)


def draw_stream(shown: pd.DataFrame) -> Figure:
    """Draw predictions, intervals and measurements, and a dashed line at the change."""
    figure = Figure(figsize=(7.2, 2.6))
    axes = figure.add_subplot()
    axes.fill_between(
        shown["time"], shown["low"], shown["high"], color=style.COLOURS[6], alpha=0.45,
        linewidth=0, label="90 % interval",
    )  # fmt: skip
    axes.plot(shown["time"], shown["y_hat"], color=style.COLOURS[0], label="prediction")
    axes.plot(shown["time"], shown["y"], "o", color="black", markersize=2.2, label="measured")
    axes.axvline(CHANGE, color=style.GREY, linewidth=1.0, linestyle="dashed")
    axes.set(ylabel="CO in mg/m³", ylim=(0.0, 1.2 * shown["y"].max()), xlim=SHOWN)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(AutoDateLocator()))
    axes.legend(ncols=3, loc="upper left")
    return figure


if __name__ == "__main__":
    (save_stream if sys.argv[1:] == ["stream"] else save_ranking)()
