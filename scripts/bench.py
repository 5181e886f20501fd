"""Measure the streaming core against what this machine can do, in one run.

    python scripts/bench.py [--seconds 0.3] [--json FILE]

A round of a random-feature learner evaluates |S| of N kernels: for each of the
|S| D features it needs d multiply-adds for the argument, one sine and cosine,
two multiply-adds for the output and two for the update. The least time is

    |S| D (sincos + (d + 4) multiply_add)

with the throughputs of the bare polynomial and of y += a x, both on cached
data, measured here as well. An exact-kernel learner needs one exponential and
one multiply-add for each of N t kernel values, and d multiply-adds for each of
t distances of each kind. Beside it stands the same work in vectorised NumPy, one
matrix operation over all evaluated kernels at a time; for learners that select,
without the selection, which flatters NumPy. Only the ratios mean anything on
another machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import OmegaConf

from omkl import algorithms, checks, params, runner
from omkl.cli import conf_folder
from omkl.engine import Learner
from omkl.features import sincos
from omkl.jit import compiled
from omkl.kernels import Kernel, dictionary
from omkl.weights import exp_nonpositive

D, INPUTS, ROUNDS, EXACT_ROUNDS = 50, 15, 1000, 4000


@compiled
def _repeat_sincos(n, x, sin, cos):
    for _ in range(n):
        sincos(x, sin, cos)


@compiled
def _repeat_multiply_add(n, a, x, y):
    for _ in range(n):
        for j in range(x.shape[0]):
            y[j] += a * x[j]
        a = -a


@compiled
def _repeat_exponential(n, c, x, alpha, y):
    for _ in range(n):
        for j in range(x.shape[0]):
            y[j] += alpha[j] * exp_nonpositive(c * x[j])
        c *= 1.0 - 1e-9


def best_time(function: Callable[[], Any], seconds: float, fewest: int = 5) -> list[float]:
    """Times of repeated calls for about that many seconds, and no fewer than ``fewest``."""
    function()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < fewest or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return times


def limits(seconds: float) -> dict[str, float]:
    """Nanoseconds on cached data: sine and cosine, multiply-add, exponential and multiply-add."""
    n, size = 200, 2048
    x = np.random.default_rng(0).normal(scale=8.0, size=size)
    sin, cos, y = np.empty(size), np.empty(size), np.zeros(size)
    pair = min(best_time(lambda: _repeat_sincos(n, x, sin, cos), seconds))
    add = min(best_time(lambda: _repeat_multiply_add(n, 1e-3, x, y), seconds))
    x = np.abs(x)
    exp = min(best_time(lambda: _repeat_exponential(n, -0.5, x, sin, y), seconds))
    per = 1e9 / (n * size)
    return {"sincos_ns": pair * per, "multiply_add_ns": add * per, "exp_add_ns": exp * per}


def measure(name: str, seconds: float, limit: dict[str, float]) -> dict[str, Any]:
    """One learner on one thread: microseconds a round, and their ratio to the least time."""
    loaded = OmegaConf.to_container(OmegaConf.load(conf_folder() / "kernels/rbf51_lap25.yaml"))
    assert isinstance(loaded, dict)
    kernels = dictionary({str(key): value for key, value in loaded.items()})
    N = len(kernels)
    algorithm = algorithms.load(name)
    given = checks.default_settings(name)
    built = params.build(algorithm.Params, given, 100 * ROUNDS, {"N": N, "D": D})
    rounds = EXACT_ROUNDS if algorithm.exact else ROUNDS
    rng = np.random.default_rng(1)
    X = rng.uniform(0.0, 1.0, size=(rounds, INPUTS)) / np.sqrt(INPUTS)
    y = rng.uniform(0.0, 1.0, size=rounds)
    learner = Learner(algorithm, built, kernels, INPUTS, D, seed=0)
    if algorithm.exact:  # the whole stream each time: rounds grow
        times = best_time(
            lambda: Learner(algorithm, built, kernels, INPUTS, D, seed=0).partial_fit(X, y), seconds
        )
        used = algorithm.kernels(built, kernels)
        evaluated, kinds = float(len(used)), len({k.family for k in used})
        values_ns = evaluated * limit["exp_add_ns"] + kinds * INPUTS * limit["multiply_add_ns"]
        least_us = 0.5 * rounds * values_ns / 1e3
    else:
        learner.partial_fit(X, y)  # past the rounds in which graphs are drawn
        before, t = learner.used.sum(), learner.t
        times = best_time(lambda: learner.partial_fit(X, y), seconds)
        evaluated = float((learner.used.sum() - before) / (learner.t - t))
        feature_ns = limit["sincos_ns"] + (INPUTS + 4) * limit["multiply_add_ns"]
        least_us = evaluated * D * feature_ns / 1e3
    round_us = statistics.median(times) / rounds * 1e6
    if algorithm.exact:  # half as many rounds: half the time a round
        numpy_times = best_time(numpy_exact(used, rounds // 2), seconds, fewest=2)
        numpy_us = 2.0 * statistics.median(numpy_times) / (rounds // 2) * 1e6
    else:
        numpy_times = best_time(numpy_random_features(round(evaluated), 200), seconds, fewest=3)
        numpy_us = statistics.median(numpy_times) / 200 * 1e6
    return {
        "algorithm": name,
        "kernels_per_round": evaluated,
        "round_us": round_us,
        "spread": (max(times) - min(times)) / statistics.median(times),
        "least_us": least_us,
        "ratio": round_us / least_us,
        "numpy_us": numpy_us,
        "times_numpy": numpy_us / round_us,
    }


def numpy_random_features(n_kernels: int, rounds: int) -> Callable[[], Any]:
    """Evaluate, predict and update that many random-feature learners, round by round."""
    rng = np.random.default_rng(1)
    omega = rng.normal(size=(n_kernels, D, INPUTS))
    X = rng.uniform(0.0, 1.0, size=(rounds, INPUTS)) / np.sqrt(INPUTS)
    y = rng.uniform(0.0, 1.0, size=rounds)

    def stream() -> None:
        theta, log_w = np.zeros((n_kernels, 2 * D)), np.zeros(n_kernels)
        for t in range(rounds):
            eta = 0.1 / np.sqrt(t + 1)
            angle = omega @ X[t]
            z = np.concatenate([np.sin(angle), np.cos(angle)], axis=1) / np.sqrt(D)
            f = np.einsum("nj,nj->n", theta, z)
            w = np.exp(log_w - log_w.max())
            _ = w @ f / w.sum()
            error = f - y[t]
            log_w -= eta * (error**2 + 1e-3 * np.einsum("nj,nj->n", theta, theta))
            theta -= eta * (2.0 * error[:, None] * z + 2e-3 * theta)

    return stream


def numpy_exact(kernels: Sequence[Kernel], rounds: int) -> Callable[[], Any]:
    """Exact-kernel regression, the kernel values of a round in one expression a family."""
    rng = np.random.default_rng(1)
    X = rng.uniform(0.0, 1.0, size=(rounds, INPUTS)) / np.sqrt(INPUTS)
    y = rng.uniform(0.0, 1.0, size=rounds)
    gaussian = np.array([k.bandwidth for k in kernels if k.family == "gaussian"])
    laplacian = np.array([k.bandwidth for k in kernels if k.family == "laplacian"])

    def stream() -> None:
        alpha, log_w = np.zeros((len(kernels), rounds)), np.zeros(len(kernels))
        for t in range(rounds):
            r = X[:t] - X[t]
            values = [
                np.exp(-0.5 / gaussian[:, None] * np.square(r).sum(1)),
                np.exp(-1.0 / laplacian[:, None] * np.abs(r).sum(1)),
            ]
            if not len(gaussian) and not len(laplacian):
                values = [((X[:t] @ X[t]) ** 2)[None, :]]
            f = np.einsum("ns,ns->n", np.concatenate(values), alpha[:, :t])
            w = np.exp(log_w - log_w.max())
            _ = w @ f / w.sum()
            alpha[:, t] = -0.1 / np.sqrt(t + 1) * (f - y[t])
            log_w += np.log(0.5) * (f - y[t]) ** 2

    return stream


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each measurement")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    arguments = parser.parse_args()
    limit = limits(arguments.seconds)
    machine = runner.machine()
    print(f"{machine['processor']}, one thread; N=76 kernels, D={D}, d={INPUTS}")
    print(f"sin and cos  {limit['sincos_ns']:.3f} ns    ", end="")
    print(f"multiply-add {limit['multiply_add_ns']:.4f} ns    ", end="")
    print(f"exp and multiply-add {limit['exp_add_ns']:.3f} ns\n")
    print(
        f"{'algorithm':22s} {'kernels':>7s} {'us/round':>9s} {'least':>8s} {'ratio':>6s} "
        f"{'NumPy us':>9s} {'times':>6s}  spread"
    )
    rows = []
    for name in algorithms.names():
        row = measure(name, arguments.seconds, limit)
        rows.append(row)
        print(
            f"{name:22s} {row['kernels_per_round']:7.1f} {row['round_us']:9.2f} "
            f"{row['least_us']:8.2f} {row['ratio']:6.2f} {row['numpy_us']:9.1f} "
            f"{row['times_numpy']:6.1f}  {100 * row['spread']:.0f} %"
        )
    if arguments.json:
        text = {"machine": machine, "versions": runner.versions(), "limits": limit, "rows": rows}
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(text, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
