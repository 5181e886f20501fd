"""The same federation on Flower: a ServerApp and a ClientApp around the objects of ``parties``.

    python -m omkl.federated.flower grid algorithm=pof_mkl dataset=naval federation=iid clients=4
    python -m omkl.federated.flower simulation ...      Flower's simulation engine (Ray)
    python -m omkl.federated.flower deployment ...      one server and K clients as processes of
                                                        their own on this machine
    python -m omkl.federated.flower app FOLDER ...      write a Flower app, for ``flwr run FOLDER``;
                                                        without FOLDER into flower-app

The words after the engine are those of omkl-run. Each of the three runs the first seed and says
how far its predictions are from those of our own simulation. Besides: ``rounds=N`` stops early,
``timeout=S`` are the seconds that the server waits for replies.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from omkl.federated.flower.apps import TIMEOUT, Flown, difference, job_of
from omkl.federated.flower.deployment import run_deployed, write_app
from omkl.federated.flower.in_process import run_on_grid, run_on_simulation

ENGINES: dict[str, Callable[..., Flown]] = {
    "grid": run_on_grid,
    "simulation": run_on_simulation,
    "deployment": run_deployed,
}


def main(arguments: Sequence[str]) -> int:
    from omkl.commands.command_line import CommandLine

    if arguments and arguments[0] == "client":
        from omkl.federated.flower import client

        return client.main(arguments[1:])
    engine, words = (arguments[0], list(arguments[1:])) if arguments else ("", [])
    if engine not in (*ENGINES, "app"):
        print(f"omkl: {engine or 'nothing'} is no engine. There are:", file=sys.stderr)
        print(str(__doc__).split("\n\n")[1], file=sys.stderr)
        return 2
    folder = Path("flower-app")
    if engine == "app" and words and "=" not in words[0]:
        folder = Path(words.pop(0))
    own = dict(word.split("=", 1) for word in words if word.startswith(("rounds=", "timeout=")))
    words = [w for w in words if not w.startswith(("rounds=", "timeout="))]
    try:
        n_rounds, timeout = int(own.get("rounds", 0)), float(own.get("timeout", TIMEOUT))
    except ValueError:
        print(f"omkl: rounds and timeout are numbers; got {own}", file=sys.stderr)
        return 1
    if n_rounds < 0 or not timeout > 0:
        print(
            f"omkl: rounds is at least 0 (all) and timeout above 0 seconds; got {own}",
            file=sys.stderr,
        )
        return 1
    try:
        overrides = shlex.join(CommandLine(words).checked())
        job = job_of(overrides)
    except ValueError as error:
        print(f"omkl: {error}", file=sys.stderr)
        return 1
    if engine == "app":
        write_app(folder, overrides, n_rounds, timeout)
        print(f"{folder}/: flwr run {folder}")
        return 0
    start = time.perf_counter()
    flown = ENGINES[engine](overrides, n_rounds, timeout=timeout)
    seconds = time.perf_counter() - start
    n, K = flown.y_hat.shape
    came = ~np.isnan(flown.y_hat)
    squares = np.square(flown.y_hat - job.split.y[:n])[came]
    mse = squares.mean() if squares.size else np.nan
    there = np.arange(1, n + 1)[:, None] <= job.split.lengths
    print(f"{engine}: {n} rounds of {K} clients in {seconds:.1f} s, MSE {1e3 * mse:.2f} x 10^-3")
    if missing := np.count_nonzero(there & ~came):
        print(f"{missing} of {np.count_nonzero(there)} replies are missing")
    print(f"largest distance from our simulation: {difference(overrides, flown):.1e}")
    for event in flown.events:
        print(f"round {event.t}, client {event.client}: {event.reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
