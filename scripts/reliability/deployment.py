"""A federation, its server and clients processes of their own; any of them is killed."""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np

CLIENTS, PATIENCE = 3, 600.0
TIMEOUT = 300.0  # of a round: whoever is killed comes back before it is over
ROUNDS_A_KILL = 30


def kill_parties(folder: Path, draw: random.Random, kills: int) -> tuple[int, list[str]]:
    """Kill clients and the server at random moments and start them again; how often, what was lost.

    Every prediction has to be that of the simulation: nobody's row is left out or learned twice.
    """
    from omkl.federation.trial import difference, trial  # its transport is an extra

    n_rounds = ROUNDS_A_KILL * (kills + 1)
    overrides = (
        "algorithm=pof_mkl algorithm.M=3 algorithm.xi=0.5 dataset=synthetic "
        f"dataset.rows={CLIENTS * n_rounds} kernels=gaussian17 federation=iid clients={CLIENTS} "
        f"federation.rounds={n_rounds} seeds=1 figures=false"
    )
    done = 0
    with trial(overrides, folder, timeout=TIMEOUT) as deployed:
        try:
            for _ in range(kills):
                party = draw.randrange(CLIENTS + 1)
                _wait_until_above(deployed, deployed.learned(0))
                if deployed.learned(0) > n_rounds - ROUNDS_A_KILL // 2:
                    break  # it could not come back in time
                time.sleep(draw.uniform(0.0, 3.0))
                if party == CLIENTS:
                    deployed.kill_server()
                    deployed.start_server()
                else:
                    deployed.kill(party)
                    deployed.start(party)
                done += 1
            result = deployed.result(PATIENCE)
        except (RuntimeError, TimeoutError) as error:
            return done, [str(error)]
    found = [
        f"client {c} misses rounds" for c in np.flatnonzero(np.isnan(result.y_hat).any(axis=0))
    ]
    if not found and (worst := difference(overrides, result)) > 1e-12:
        found.append(f"a prediction is wrong by {worst:.1e}")
    return done, found


def _wait_until_above(deployed: object, t: int) -> None:
    end = time.monotonic() + PATIENCE
    while deployed.learned(0) <= t:  # type: ignore[attr-defined]
        if time.monotonic() > end:
            raise TimeoutError(f"nothing was learned for {PATIENCE:.0f} s")
        time.sleep(0.1)
