"""README's picture of a real stream: ``python scripts/pages/pictures.py`` (a minute; needs River).

Hourly CO in a street of an Italian city (UCI, Air Quality), read from the file as it is. A learner
predicts each hour before it is told the value. The caption's errors are printed.
"""

from pathlib import Path

import numpy as np
import pandas as pd

import omkl
from omkl.datasets import catalogue
from omkl.report import style

TARGET = "CO(GT)"
SHOWN = (pd.Timestamp("2005-01-26"), pd.Timestamp("2005-02-03"))
CHANGE = pd.Timestamp("2005-01-31 06:00")
IMAGES = Path(__file__).parents[2] / "docs" / "images"


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
    from matplotlib.figure import Figure

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
