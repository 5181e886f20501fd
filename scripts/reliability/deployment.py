"""A federation on Flower, its server and clients processes of their own; clients are killed."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

CLIENTS, PATIENCE = 3, 300.0
TIMEOUT = 40.0  # that a round with a death takes; on a busy machine others take half of it
ROUNDS_A_KILL = 3  # one before, one with the death, one to come back in


def kill_clients(folder: Path, draw: random.Random, kills: int) -> tuple[int, list[str]]:
    """Kill clients at random moments and start them again; how often, and what was lost.

    Rounds have to go on, every client has to come back with what it had learned, and every
    prediction has to be that of the same federation in this process, with the same absences.
    """
    from omkl.federated.flower import deployment  # Flower is an extra

    n_rounds = ROUNDS_A_KILL * kills + 2
    overrides = (
        "algorithm=pof_mkl algorithm.M=3 algorithm.xi=0.5 dataset=synthetic dataset.rows=3000 "
        f"kernels=gaussian17 federation=iid clients={CLIENTS} federation.rounds={n_rounds} seeds=1"
    )
    learned: list[set[int]] = [set() for _ in range(CLIENTS)]  # at a death: its reply may be lost
    done = 0
    with deployment.deployment(overrides, folder) as deployed:
        deployed.run(n_rounds, TIMEOUT)
        try:
            for _ in range(kills):
                client = draw.randrange(CLIENTS)
                began = deployed.learned(client)
                _wait_until_above(began, functools.partial(deployed.learned, client))
                if deployed.learned(client) > n_rounds - ROUNDS_A_KILL:
                    break  # it could not come back in time
                time.sleep(draw.uniform(0.0, 5.0))
                deployed.kill(client)
                learned[client].add(deployed.learned(client))
                time.sleep(draw.uniform(0.0, 5.0))
                deployed.start(client)
                done += 1
            flown = deployed.result(PATIENCE)
        except (RuntimeError, TimeoutError) as error:
            return done, [str(error)]
    return done, _lost(overrides, n_rounds, flown.y_hat, learned, folder)


def _lost(
    overrides: str, n_rounds: int, y_hat: np.ndarray, learned: list[set[int]], folder: Path
) -> list[str]:
    from omkl.federated.flower import in_process

    away = np.isnan(y_hat)
    found = [f"client {c} did not come back" for c in np.flatnonzero(away[-1])]
    same = in_process.run_on_grid(
        overrides,
        n_rounds=n_rounds,
        alive=lambda client, t: not away[t - 1, client] or t in learned[client],
        deliver=lambda client, t, reply: None if away[t - 1, client] else (0, reply),
        run_config={"omkl-keep": str(folder / "same")},
    )
    if not np.array_equal(np.isnan(same.y_hat), away):
        found.append("predictions came that no client can have sent")
    elif (worst := np.nanmax(np.abs(same.y_hat - y_hat))) > 1e-12:
        found.append(f"a prediction is wrong by {worst:.1e}")
    return found


def _wait_until_above(t: int, learned: Callable[[], int]) -> None:
    end = time.monotonic() + PATIENCE
    while learned() <= t:
        if time.monotonic() > end:
            raise TimeoutError(f"a client learned nothing for {PATIENCE:.0f} s")
        time.sleep(0.1)
