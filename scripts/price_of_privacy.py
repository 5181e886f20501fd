"""What noise at the clients costs in error, over the epsilon of a sample.

    python scripts/price_of_privacy.py                     draws docs/images/privacy.png
    python scripts/price_of_privacy.py --folder /tmp/out --seeds 3

Every federated learner on naval, 23 clients with 500 rounds each, dealt out at random. The clip is
the best of ``CLIPS`` at every epsilon, found on the same data: with a clip chosen beforehand the
price is higher. Dashed: without noise. Grey: the variance of the target, which is the error of its
mean. The table has epsilons of a sample and, of the same noise, of a client's whole stream.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from omkl.config.compose import compose
from omkl.experiment.federation import FederatedJob
from omkl.experiment.run import prepare
from omkl.federated.privacy import Privacy, account
from omkl.report import style

EPSILONS = (1.0, 8.0, 64.0, 512.0, 4096.0)
CLIPS = (0.01, 0.03, 0.1, 0.3, 1.0)  # those of the losses are ten times as large
DELTA = 1e-5
LEARNERS = ("ofskl", "ofmkl_avg", "vm_kofl", "pof_mkl", "em_kofl", "perfedavg")


class Price(NamedTuple):
    """Of one learner: mean squared errors (P,) at the epsilons, their clips, and without noise."""

    name: str
    errors: np.ndarray
    clips: np.ndarray
    plain: float


def job_of(name: str, seeds: int, rounds: int | None) -> FederatedJob:
    M = ["algorithm.M=51"] if name == "pof_mkl" else []
    stream = ["dataset=naval", "federation=iid", f"seeds={seeds}", "tracking=none"]
    stream += [] if rounds is None else [f"federation.rounds={rounds}"]
    job = prepare(compose([f"algorithm={name}", *stream, *M]))
    assert isinstance(job, FederatedJob)
    return job


def error(job: FederatedJob) -> float:
    """MSE over rounds, clients and seeds; infinite where a seed is lost in the noise."""
    squares = []
    for seed in job.seeds:
        y_hat = job.federation(seed).partial_fit(job.split.X, job.split.y).y_hat
        with np.errstate(over="ignore", invalid="ignore"):
            squares.append(np.mean(np.square(y_hat - job.split.y)))
    value = float(np.mean(squares))
    return value if np.isfinite(value) else float("inf")


def noisy(job: FederatedJob, epsilon: float, clip: float) -> FederatedJob:
    """The same federation with noise at its clients."""
    privacy = Privacy(epsilon, DELTA, "sample", clip, 10.0 * clip)
    guards = job.settings.safeguards._replace(privacy=privacy)
    return job._replace(settings=job.settings.resolved(safeguards=guards))


def price(job: FederatedJob) -> Price:
    errors = np.array([[error(noisy(job, e, clip)) for clip in CLIPS] for e in EPSILONS])
    clips = np.array(CLIPS)[errors.argmin(axis=1)]
    return Price(job.algorithm.name, errors.min(axis=1), clips, error(job))


def of_client(job: FederatedJob, epsilon: float) -> float:
    """The epsilon of a client's whole stream beside that of a sample."""
    privacy = Privacy(epsilon, DELTA, "sample", 1.0, 1.0)
    N, T = max(1, len(job.used)), len(job.split.y)
    return account(privacy, job.algorithm, job.params, N, T).epsilon_of_client


def draw(prices: Sequence[Price], variance: float) -> Figure:
    figure = Figure(figsize=(6.4, 4.2))
    axes = figure.subplots()
    for index, one in enumerate(prices):
        look = style.look(index)
        axes.plot(EPSILONS, 1e3 * one.errors, label=style.display_name(one.name), **look)
        axes.axhline(1e3 * one.plain, color=look["color"], linestyle="--", linewidth=0.8)
    axes.axhline(1e3 * variance, color=style.GREY, linewidth=1.6, label="mean of the target")
    axes.plot([], [], color=style.GREY, linestyle="--", linewidth=0.8, label="without noise")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(f"epsilon of a sample, delta = {DELTA:g}")
    axes.set_ylabel("MSE x 10$^3$")
    figure.legend(loc="outside upper center", ncols=4)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("docs/images"))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=None)
    given = parser.parse_args()
    jobs = {name: job_of(name, given.seeds, given.rounds) for name in LEARNERS}
    prices = [price(job) for job in jobs.values()]
    print("| | no noise |" + "".join(f" {epsilon:g} |" for epsilon in EPSILONS))
    print("|---" * (2 + len(EPSILONS)) + "|")
    for one in prices:
        cells = "".join(
            f" {1e3 * e:.3g} ({c:g}) |" for e, c in zip(one.errors, one.clips, strict=True)
        )
        print(f"| {style.display_name(one.name)} | {1e3 * one.plain:.3g} |{cells}")
    beside = [of_client(jobs["ofskl"], epsilon) for epsilon in EPSILONS]
    print("| of a client | |" + "".join(f" {epsilon:.3g} |" for epsilon in beside))
    variance = float(np.var(jobs["ofskl"].split.y))
    with style.applied():
        style.save(draw(prices, variance), given.folder, "privacy", ("png",))


if __name__ == "__main__":
    main()
