"""README's pictures: ``python scripts/pages/pictures.py [ranking]`` (a minute; needs River).

``ranking`` draws the table of "How good is it?" alone, in a second. The file has the numbers in
its metadata, which a test compares with the table.

The other is a real stream: hourly CO in a street of an Italian city (UCI, Air Quality), read from
the file as it is. A learner predicts each hour before the value is known. The errors of the caption
are printed.
"""

import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import omkl
from omkl.datasets import catalogue
from omkl.report import style

TARGET = "CO(GT)"
SHOWN = (pd.Timestamp("2005-01-26"), pd.Timestamp("2005-02-03"))
CHANGE = pd.Timestamp("2005-01-31 06:00")
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


def best_of_river(frame: pd.DataFrame, scored: np.ndarray) -> tuple[str, float]:
    """The model of River with the smallest error on the rows that are scored, and that error.

    Each gets the same columns, two past targets, and its library's scaler and imputer.
    """
    from river import compose, forest, linear_model, preprocessing, tree

    models = {
        "linear regression": linear_model.LinearRegression(),
        "Hoeffding tree": tree.HoeffdingAdaptiveTreeRegressor(seed=0),
        "adaptive random forest": forest.ARFRegressor(seed=0),
        "Mondrian forest": forest.AMFRegressor(seed=0),
    }
    numbers = frame.drop(columns=[TARGET, "Date", "Time"])
    hours = pd.to_datetime(frame["Date"].astype(str)) + pd.to_timedelta(frame["Time"].astype(str))
    numbers = numbers.assign(hour=hours.dt.hour, weekday=hours.dt.day_of_week)
    rows = numbers.ffill().fillna(0.0).to_dict("records")
    errors = {}
    for name, model in models.items():
        pipeline = compose.Pipeline(preprocessing.StandardScaler(), model)
        past, squares = [0.0, 0.0], []
        for x, y, counts in zip(rows, frame[TARGET], scored, strict=True):
            if np.isnan(y):
                continue
            x = x | {"before": past[0], "before that": past[1]}
            if counts:
                squares.append((pipeline.predict_one(x) - y) ** 2)
            pipeline.learn_one(x, y)
            past = [y, past[0]]
        errors[name] = float(np.sqrt(np.mean(squares)))
    best = min(errors, key=lambda name: errors[name])
    return best, errors[best]


def main() -> None:
    save_ranking()
    if sys.argv[1:] == ["ranking"]:
        return
    path = catalogue.obtain(catalogue.entry("air_quality")).path
    frame = pd.read_excel(path, na_values=[-200], engine="calamine")
    run = omkl.run(
        "auto", path, target=TARGET, na_values=-200, interval=0.9, predictions=True, figures=False
    )
    shown = run.predictions
    times = pd.to_datetime(frame["Date"].astype(str)) + pd.to_timedelta(frame["Time"].astype(str))
    shown = shown.assign(time=times.to_numpy()[shown["row"] - 1])
    scored = np.zeros(len(frame), bool)
    scored[shown["row"] - 1] = True
    scored[: shown["row"].min()] = False
    name, error = best_of_river(frame, scored)
    baselines = run["baselines"]
    print(
        f"RMSE of auto {run['rmse']:.3f}, of the best of River ({name}) {error:.3f}, "
        f"of an online linear ridge {baselines['ridge']['rmse']:.3f}; "
        f"90 % intervals cover {run['interval']['coverage']:.1%}"
    )
    draw(shown[shown["time"].between(*SHOWN)])


def draw(shown: pd.DataFrame) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    after, before = (
        shown["y"][side].mean() for side in (shown["time"] >= CHANGE, shown["time"] < CHANGE)
    )
    with style.applied():
        figure = Figure(figsize=(7.2, 2.6))
        axes = figure.add_subplot()
        axes.fill_between(
            shown["time"], shown["low"], shown["high"], color=style.COLOURS[6], alpha=0.45,
            linewidth=0, label="90 % interval",
        )  # fmt: skip
        axes.plot(shown["time"], shown["y_hat"], color=style.COLOURS[0], label="prediction")
        axes.plot(shown["time"], shown["y"], "o", color="black", markersize=2.2, label="measured")
        axes.axvline(CHANGE, color=style.GREY, linewidth=1.0, linestyle="dashed")
        axes.annotate(
            f"mean {before:.1f} -> {after:.1f} mg/m³",
            (CHANGE, 1.0), (4, -4), xycoords=("data", "axes fraction"),
            textcoords="offset points", va="top", fontsize=8, color=style.GREY,
        )  # fmt: skip
        axes.set(ylabel="CO in mg/m³", ylim=(0.0, 1.2 * shown["y"].max()), xlim=SHOWN)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(AutoDateLocator()))
        axes.legend(ncols=3, loc="upper left")
        for path in style.save(figure, IMAGES, "stream"):
            print(path)


if __name__ == "__main__":
    main()
