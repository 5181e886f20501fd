"""Compare ``auto`` with other forecasters on panels, seasonal streams and tables.

    PYTHONPATH=scripts python scripts/benchmarks/series.py [FOLDER] [--models "last"] --to FILE

FOLDER holds one CSV per stream, and ``streams.csv`` with their ``name``, ``kind`` (panel, seasonal
or table) and ``seasons`` ("24,168"). A stream has the columns ``y``, ``date`` and ``series``, as
far as it has them; all others are inputs that are known with the row. Without FOLDER the
generators below are the streams. The last line of a kind is the geometric mean of the ratios.

Each row is predicted before its target. Forecasters read past targets of the row's series alone,
so all but ``auto`` predict the same, whether a date is learned row by row or as a whole.
The models named LightGBM need ``lightgbm``; ``--models`` leaves them out.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import omkl

REFIT, WARM = 1_000, 200  # rows between refits of LightGBM; first rows, which are not scored
LAGS, MEANS = 24, (7, 28)
RESERVED = ("date", "series", "y")


class Stream(NamedTuple):
    """Rows of a stream in the order of their dates, and the seasons that forecasters receive."""

    name: str
    kind: str
    frame: pd.DataFrame
    seasons: tuple[int, ...]

    @property
    def names(self) -> pd.Series:
        """Series of each row, one for all rows of a stream without series."""
        absent = pd.Series("all", index=self.frame.index)
        return self.frame.get("series", absent)


# --- Streams --------------------------------------------------------------------------------------


def in_folder(folder: Path) -> Iterator[Stream]:
    """Yield the streams of a folder."""
    for entry in pd.read_csv(folder / "streams.csv", dtype=str).fillna("").itertuples():
        frame = pd.read_csv(folder / f"{entry.name}.csv")
        if "date" in frame:
            frame["date"] = pd.to_datetime(frame["date"])
        seasons = tuple(int(m) for m in entry.seasons.split(",") if m)
        yield Stream(entry.name, entry.kind, frame, seasons)


def generated() -> Iterator[Stream]:
    """Generate panels and a seasonal stream, whose rows have a known distribution."""
    rng = np.random.default_rng(20)
    days, n = pd.date_range("2022-01-01", periods=200), 40
    walks = np.cumsum(rng.standard_normal((200, n)), axis=0) * 10.0 ** rng.uniform(-2, 4, n)
    weekday = 1.0 + 0.5 * np.sin(2 * np.pi * np.arange(200)[:, None] / 7 + rng.uniform(0, 6, n))
    counts = rng.negative_binomial(2.0, 1.0 / (1.0 + weekday * rng.uniform(0.2, 5.0, n)))
    levels = 10.0 ** rng.uniform(-2, 4, n)
    trend = np.exp(0.003 * np.arange(200)[:, None] * rng.standard_normal(n))
    sales = levels * trend * weekday * np.exp(0.1 * rng.standard_normal((200, n)))
    spikes = levels * (1.0 + 0.01 * rng.standard_normal((200, n)))
    spikes *= np.where(rng.random((200, n)) < 0.03, rng.uniform(2, 6, (200, n)), 1.0)
    wide = {"walks": walks, "counts": counts, "sales": sales, "spikes": spikes}
    for name, values in wide.items():
        rows = pd.DataFrame(values, index=pd.Index(days, name="date"))
        rows.columns = pd.Index([f"s{k}" for k in range(n)], name="series")
        frame = rows.stack().rename("y").astype(float).reset_index()
        yield Stream(name, "panel", frame, () if name in ("walks", "spikes") else (7,))
    t = np.arange(6_000)
    wave = np.sin(2 * np.pi * t / 30) + 0.5 * np.sin(6 * np.pi * t / 30 + 1)
    noise = np.convolve(rng.standard_normal(6_000), 0.8 ** np.arange(30))[:6_000]
    y = 50 + 10 * wave * (1 + 0.3 * np.sin(t / 900)) + noise
    yield Stream("period of 30", "seasonal", pd.DataFrame({"y": y}), (30,))
    yield Stream("random walk", "seasonal", pd.DataFrame({"y": np.cumsum(noise)}), ())


# --- Forecasters: predictions (n,) ----------------------------------------------------------------


def last(stream: Stream) -> np.ndarray:
    return _lag(stream, 1).to_numpy()


def seasonal(stream: Stream, season: int) -> np.ndarray:
    return _lag(stream, season).fillna(_lag(stream, 1)).to_numpy()


def _lag(stream: Stream, k: int) -> pd.Series:
    return stream.frame["y"].groupby(stream.names, sort=False).shift(k)


def _calendar(frame: pd.DataFrame) -> pd.DataFrame:
    if "date" not in frame:
        return pd.DataFrame(index=frame.index)
    date = frame["date"].dt
    parts = pd.DataFrame({"hour": date.hour + date.minute / 60, "weekday": date.day_of_week,
                          "month": date.month}, index=frame.index)  # fmt: skip
    return parts.loc[:, parts.nunique() > 1]


def ridge(stream: Stream, decay: float) -> np.ndarray:
    """Recursive ridge regression on lags, seasonal lags, one-hot calendar and inputs."""
    lags = sorted({*range(1, 9), *(m + k for m in stream.seasons for k in (-1, 0, 1))})
    past = pd.concat([_lag(stream, k) for k in lags], axis=1)
    past = past.apply(lambda one: one.fillna(past.iloc[:, 0])).fillna(0.0)
    inputs = stream.frame.drop(columns=[n for n in RESERVED if n in stream.frame])
    texts = inputs.select_dtypes(exclude="number")
    few = inputs.drop(columns=[name for name in texts if texts[name].nunique() > 40])
    few = few.fillna(few.mean(numeric_only=True))
    one_hot = pd.get_dummies(few, dtype=float) if few.shape[1] else few
    calendar = _calendar(stream.frame).astype("category")
    parts = pd.get_dummies(calendar, dtype=float) if calendar.shape[1] else calendar
    X = np.column_stack([past, one_hot, parts, np.ones(len(past))]).astype(float)
    X /= np.maximum(np.abs(X[: 2 * WARM]).max(axis=0), 1e-9)
    y, d = stream.frame["y"].to_numpy(float), X.shape[1]
    theta, P, y_hat = np.zeros(d), np.eye(d) * 1e3, np.zeros(len(y))
    for t, (x, target) in enumerate(zip(X, y, strict=True)):
        y_hat[t] = theta @ x
        if not np.isnan(target):
            z = P @ x
            gain = z / (decay + x @ z)
            theta = theta + gain * (target - y_hat[t])
            P = np.clip((P - np.outer(gain, z)) / decay, -1e6, 1e6)
    return y_hat


def boosting(stream: Stream, of_changes: bool) -> np.ndarray:
    """LightGBM, refitted every ``REFIT`` rows on all rows before; changes are y less the last."""
    import lightgbm

    grouped = stream.frame["y"].groupby(stream.names, sort=False)
    lags = sorted({*range(1, LAGS + 1), *(m + k for m in stream.seasons for k in (-1, 0, 1))})
    X = pd.concat({f"lag{k}": grouped.shift(k) for k in lags}, axis=1)
    for k in MEANS:
        X[f"mean{k}"] = X["lag1"].groupby(stream.names).transform(_mean_of_last, k)
    base = X["lag1"].fillna(0.0).to_numpy() if of_changes else np.zeros(len(X))
    if of_changes:
        X = X.sub(X["lag1"], axis=0).assign(lag1=X["lag1"])
    others = stream.frame.drop(columns=[n for n in ("date", "y") if n in stream.frame])
    X = pd.concat([X, others, _calendar(stream.frame)], axis=1)
    for name in X.select_dtypes(exclude="number"):
        X[name] = X[name].astype("category")
    y, y_hat = stream.frame["y"].to_numpy(float), np.full(len(X), np.nan)
    settings = {"n_estimators": 200, "learning_rate": 0.05, "num_leaves": 31, "verbose": -1}
    starts = [WARM, *range(REFIT, len(X), REFIT)]
    for start, end in zip(starts, [*starts[1:], len(X)], strict=True):
        learned = ~np.isnan(y[:start])
        model = lightgbm.LGBMRegressor(**settings, n_jobs=1, random_state=0)
        model.fit(X[:start][learned], (y - base)[:start][learned])
        y_hat[start:end] = base[start:end] + model.predict(X[start:end])
    return y_hat


def _mean_of_last(values: pd.Series, k: int) -> pd.Series:
    return values.rolling(k, min_periods=1).mean()


def panel(stream: Stream) -> np.ndarray:
    """``omkl.panel("ridge")``, a learner per series, on past targets, calendar and inputs."""
    inputs = stream.frame.drop(columns=[n for n in RESERVED if n in stream.frame])
    X = pd.concat([inputs, _calendar(stream.frame)], axis=1).assign(series=stream.names)
    learner = omkl.panel("ridge", series="series", lags=8)
    return learner.partial_fit(X.assign(one=np.arange(len(X)) % 2), stream.frame["y"]).y_hat


def auto(stream: Stream, **settings: Any) -> np.ndarray:
    """``omkl.learner("auto")`` on the columns as they are."""
    X, y = stream.frame.drop(columns="y"), stream.frame["y"]
    if X.shape[1] == 0:
        X = pd.DataFrame({"one": np.arange(len(y)) % 2})
    if "series" not in X:
        settings.pop("series", None)
        settings.pop("series_delay", None)
    return omkl.learner("auto", **settings).partial_fit(X, y).y_hat


def models(stream: Stream) -> dict[str, Callable[[], np.ndarray]]:
    """Return the forecasters of a stream by name."""
    found: dict[str, Callable[[], np.ndarray]] = {"last": lambda: last(stream)}
    for m in stream.seasons:
        found[f"season {m}"] = functools.partial(seasonal, stream, m)
    found["ridge"] = lambda: ridge(stream, 1.0)
    found["ridge, forgetting"] = lambda: ridge(stream, 0.999)
    found["LightGBM"] = lambda: boosting(stream, False)
    found["LightGBM of changes"] = lambda: boosting(stream, True)
    if stream.kind == "panel":
        found["omkl.panel ridge"] = lambda: panel(stream)
        found["auto by date"] = lambda: auto(stream, series="series")
        found["auto by row"] = lambda: auto(stream, series="series", series_delay=0)
    else:
        found["auto"] = lambda: auto(stream)
    found["auto without series or season"] = lambda: auto(stream, season=0)
    return found


# --- Comparison -----------------------------------------------------------------------------------


def compare(streams: Iterator[Stream], chosen: list[str], path: Path) -> pd.DataFrame:
    """Return RMSE by stream and model. Each is written to ``path`` as soon as it is known."""
    found = pd.read_csv(path) if path.exists() else pd.DataFrame()
    for stream in streams:
        for name, run in models(stream).items():
            known = len(found) and ((found.stream == stream.name) & (found.model == name)).any()
            if known or (chosen and name.split(" ")[0] not in chosen and name not in chosen):
                continue
            clock, y = time.perf_counter(), stream.frame["y"].to_numpy(float)
            y_hat = run()
            later = stream.names.groupby(stream.names).cumcount().to_numpy() > 0
            scored = ~np.isnan(y) & later & (np.arange(len(y)) >= WARM)
            rmse = float(np.sqrt(np.mean((y_hat - y)[scored] ** 2)))
            row = {"stream": stream.name, "kind": stream.kind, "model": name, "rmse": rmse,
                   "by_series": _ratio_by_series(stream, y_hat, scored),
                   "seconds": round(time.perf_counter() - clock, 2)}  # fmt: skip
            found = pd.concat([found, pd.DataFrame([row])], ignore_index=True)
            found.to_csv(path, index=False)
            print(f"{stream.name:20} {name:22} {rmse:12.5g} {row['seconds']:8.1f} s", flush=True)
    return found


def _ratio_by_series(stream: Stream, y_hat: np.ndarray, scored: np.ndarray) -> float:
    """Return RMSE / RMSE of the last value, as a geometric mean over the series."""
    errors = pd.DataFrame({"own": y_hat, "last": last(stream)}).sub(stream.frame["y"], axis=0)
    mse = (errors**2)[scored].groupby(stream.names[scored]).mean()
    mse = mse[(mse > 0.0).all(axis=1)]
    return float(np.exp(0.5 * np.log(mse["own"] / mse["last"]).mean()))


def summary(found: pd.DataFrame) -> Iterator[str]:
    """Yield a table per kind: RMSE of ``auto``, divided by the best other and by the last value."""
    for kind, rows in found.groupby("kind", sort=False):
        table = rows.pivot(index="stream", columns="model", values="rmse")
        ours = [name for name in table if name.startswith("auto")]
        others = table.drop(columns=ours)
        best = others.min(axis=1)
        ratios = pd.DataFrame({f"{name} / best": table[name] / best for name in ours})
        for name in ours if "last" in table else ():
            ratios[f"{name} / last"] = table[name] / table["last"]
        if "auto" in table:
            ratios["auto / without season"] = table["auto"] / table[ours[-1]]
        by_series = rows.pivot(index="stream", columns="model", values="by_series")
        for name in ours if kind == "panel" else ():
            ratios[f"{name} / last, by series"] = by_series[name]
        ratios["best other"] = others.dropna(how="all").idxmin(axis=1)
        yield f"{kind}\n{ratios.round(3).to_string()}"
        means = np.exp(np.log(ratios.drop(columns="best other").astype(float)).mean())
        yield f"geometric mean: {means.round(3).to_dict()}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--models", default="", help="these alone, separated by ;")
    parser.add_argument("--to", type=Path, required=True, help="CSV of errors; known ones stay")
    given = parser.parse_args()
    chosen = [name.strip() for name in given.models.split(";") if name.strip()]
    streams = in_folder(given.folder) if given.folder else generated()
    print("\n".join(summary(compare(streams, chosen, given.to))))


if __name__ == "__main__":
    main()
