"""What the parts of ``auto`` bring, and how it does on streams that it was not designed on.

    python scripts/judge_auto.py [--seeds 3] [--rows 3000] [--peers outputs/judge_auto]

Prints four tables as Markdown. The first leaves parts out, on the streams of the papers and on made
ones: the streams that the design was looked at with. The others are of three sets of streams that
nobody tuned on, as far as the packages that have them are installed (``judge_auto_streams.py``),
against seven models of River (the ``bench`` extra), each with and without the last two labels as
inputs. What River says is kept in the folder ``--peers``, a file a stream: it takes minutes.
Streams that are not found are named at the end.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from judge_auto_streams import (
    FRESH,
    JUDGES,
    LATER,
    PAPERS,
    Rows,
    made,
    of_a_paper,
    shaped,
    surprises,
)

from omkl import algorithms
from omkl.algorithms import auto
from omkl.benchmark import peer_models
from omkl.core.learner import Learner

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
    """MSE of the inner mixtures, of experts, and without neighbours; the mean over seeds."""
    found = []
    for seed in range(n_seeds):
        _, said, f = _round_by_round(X, y, learner(X.shape[1], seed))
        without = _round_by_round(X, y, learner(X.shape[1], seed), neighbours=False)[0]
        found.append(
            {
                "without the last mixture: q": mse(said[:, 0], y),
                "without it: q that forgets": mse(said[:, 1], y),
                "without corrections too: p": mse(said[:, 2], y),
                "the mean of all experts": mse(f.mean(axis=1), y),
                "the best expert in hindsight": min(mse(one, y) for one in f.T),
                "without neighbours": mse(without, y),
            }
        )
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def _round_by_round(
    X: np.ndarray, y: np.ndarray, whole: Learner, neighbours: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictions (T,), what is mixed last (T, 6), and experts (T, N).

    Without neighbours their experts say what the mean and the linear one say.
    """
    rounds = []
    for x, label in zip(X, y, strict=True):
        y_hat, _ = whole.predict_one(x)
        rounds.append((y_hat, whole.selection.scratch.said.copy(), whole.selection.f.copy()))
        whole.learn_one(label)
        if not neighbours:
            whole.state.model.neighbours.labels[:] = whole.state.model.experts.label.mean[0]
            whole.state.model.neighbours.errors[:] = 0.0
    says, said, f = zip(*rounds, strict=True)
    return np.array(says), np.array(said), np.array(f)


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


PEERS = {
    "lin": "river_linear", "lin_t": "river_linear_scaled", "hat": "river_hat", "knn": "river_knn",
    "arf": "river_arf", "arf_mean": "river_arf_mean", "amf": "river_amf",
}  # fmt: skip


def of_peers(X: np.ndarray, y: np.ndarray, kept: Path) -> dict[str, float]:
    """MSE by name of the model and number of past labels, 0 or 2; read where it was kept."""
    if kept.is_file():
        return json.loads(kept.read_text())
    found = {}
    for n_lags in (0, 2):
        first = [np.concatenate([np.full(k, y[0]), y[:-k]]) for k in range(1, n_lags + 1)]
        first = [np.where(np.arange(len(y)) > 0, lag, 0.0) for lag in first]
        Z = np.column_stack([X, *first])
        for name, peer in PEERS.items():
            model = peer_models.PEERS[peer].make("regression", 0, 1)
            y_hat = np.zeros(len(y))
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
    papers = {name: of_a_paper(name, rows) for name in PAPERS}
    kinds = [ablation(some, n_seeds) for some in (papers, made(), shaped(), surprises())]
    print("| | papers' | made | shaped | surprises, worst | worst |\n|---|---|---|---|---|---|")
    for name in kinds[0][0]:
        ratios = [[row[name] for row in rows_of_kind] for rows_of_kind in kinds]
        means = " | ".join(f"{geometric(ratio):.3f}" for ratio in ratios[:3])
        worst = f"{max(ratios[3]):.3f} | {max(map(max, ratios)):.3f}"
        print(f"| {name} | {means} | {worst} |", flush=True)


def print_judgement(
    streams: dict[str, Callable[[int], Rows]], rows: int, n_seeds: int, folder: Path
) -> None:
    print("| stream | rows | inputs | us a row | best of River, and lags | / best | / best, lags "
          "| / best of mean, last, ridge |\n|---|---|---|---|---|---|---|---|")  # fmt: skip
    plain, lagged, missing = [], [], []
    for name, load in streams.items():
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
    print()


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
        for streams in (JUDGES, FRESH, LATER):
            print_judgement(streams, given.rows, given.seeds, given.peers)


if __name__ == "__main__":
    main()
