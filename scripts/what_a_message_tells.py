"""What the server of a federation can work out from one message of a client: its x and y.

    python scripts/what_a_message_tells.py
    python scripts/what_a_message_tells.py privacy.epsilon=8     with noise at the clients

Plays 40 rounds of 4 clients, 160 messages, and guesses from each the sample that it was computed
from (``omkl.federated.leakage``). Further words are settings of omkl-run. A sample is told where x
and y are right to 1e-6. The median distance of the guessed x from the sample's stands beside that
of a guess that looks at no message: the mean input.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from omkl.config.compose import compose
from omkl.experiment.federation import FederatedJob
from omkl.experiment.run import prepare
from omkl.federated.leakage import Guess, Seen, guess
from omkl.federated.parties import Client, Server

ROUNDS, CLIENTS, RIGHT = 40, 4, 1e-6
CASES = {
    "OFSKL": ("algorithm=ofskl",),
    "OFMKL-Avg": ("algorithm=ofmkl_avg",),
    "vM-KOFL": ("algorithm=vm_kofl",),
    "eM-KOFL": ("algorithm=em_kofl",),
    "PerFedAvg": ("algorithm=perfedavg",),
    "POF-MKL, M = 51": ("algorithm=pof_mkl", "algorithm.M=51"),
    "POF-MKL, M = 5": ("algorithm=pof_mkl", "algorithm.M=5"),
    "POF-MKL, M = 1": ("algorithm=pof_mkl",),
    "POF-MKL, M = 1, xi = 0.5": ("algorithm=pof_mkl", "algorithm.xi=0.5"),
}
STREAM = (
    "dataset=synthetic",
    "federation=iid",
    f"clients={CLIENTS}",
    f"federation.rounds={ROUNDS}",
)


class Told(NamedTuple):
    """Of n messages: those that gave x away, and x and y; median distances of guessed x, y."""

    n: int
    x: int
    both: int
    distance: float
    blind: float


def listen(job: FederatedJob, seed: int) -> Told:
    """Play all rounds and guess from every message."""
    server = Server(job, seed)
    clients = [Client(job, seed, k) for k in range(job.split.y.shape[1])]
    model, mean = server.state.model, job.split.X.mean(axis=(0, 1))
    n = x_right = right = 0
    distances, blind = [], []
    for s in range(len(job.split.y)):
        broadcast = server.broadcast()
        theta = model.theta.copy()
        for k, client in enumerate(clients):
            update = client.run_round(broadcast).update
            server.receive(update)
            seen = Seen(broadcast.t, theta, broadcast.announced, update.rows, update.theta)
            found = guess(job.algorithm.name, job.params, model, seen)
            x, y = job.split.X[s, k], job.split.y[s, k]
            n += 1
            blind.append(np.linalg.norm(mean - x))
            if isinstance(found, Guess):
                distances.append(np.linalg.norm(found.x - x))
                x_right += bool(distances[-1] < RIGHT)
                right += bool(distances[-1] < RIGHT and abs(found.y - y) < RIGHT)
        server.finish()
    distance = float(np.median(distances)) if distances else np.nan
    return Told(n, x_right, right, distance, float(np.median(blind)))


def main(words: Sequence[str]) -> None:
    print("| | x and y | x | median distance of the guessed x | of the mean input |")
    print("|---|---|---|---|---|")
    for title, settings in CASES.items():
        try:
            job = prepare(compose([*settings, *STREAM, "seeds=1", *words]))
        except ValueError as error:
            print(f"| {title} | refused: {error} | | | |")
            continue
        assert isinstance(job, FederatedJob)
        told = listen(job, 0)
        print(
            f"| {title} | {told.both} of {told.n} | {told.x} | {told.distance:.2g} "
            f"| {told.blind:.2g} |"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
