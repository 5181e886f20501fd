"""One client in ten lies: what it does to the honest ones, under each guard of the server.

    python scripts/lying_clients.py
    python scripts/lying_clients.py --seeds 3

Ten clients of naval, dealt out at random, 500 rounds; client 0 sends what ``LIES`` makes of an
honest message. MSE x 10^3 over the nine honest clients, the mean over the seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from omkl.config.compose import compose
from omkl.experiment.federation import FederatedJob
from omkl.experiment.run import prepare
from omkl.federated.parties import Client, Server, Update

CLIENTS = 10
Lie = Callable[[Update, np.ndarray], Update]
LIES: dict[str, Lie] = {
    "none": lambda update, theta: update,
    "theta + 1000": lambda update, theta: update._replace(theta=update.theta + 1000.0),
    "sign flip": lambda update, theta: update._replace(theta=2.0 * theta - update.theta),
    "flip x 10": lambda update, theta: update._replace(theta=theta - 10.0 * (update.theta - theta)),
}
GUARDS = {
    "mean": (),
    "max_change": ("robust.max_change={bound}",),
    "trim = 0.1": ("robust.trim=0.1",),
    "median": ("robust.trim=0.5",),
}
# Settings, and a bound on a message's change that no honest one passed.
LEARNERS = {
    "OFSKL": (("algorithm=ofskl",), 0.2),
    "vM-KOFL": (("algorithm=vm_kofl",), 1.0),
    "POF-MKL, M = 1": (("algorithm=pof_mkl",), 6.0),
}


def error(job: FederatedJob, seed: int, lie: Lie) -> tuple[float, int]:
    """MSE of the honest clients, and how many of their messages were refused."""
    server = Server(job, seed)
    clients = [Client(job, seed, k, simulated=True) for k in range(CLIENTS)]
    y_hat = np.empty(job.split.y.shape)
    for s in range(len(y_hat)):
        broadcast = server.broadcast()
        theta = server.state.model.theta.copy()
        for k, client in enumerate(clients):
            update = client.run_round(broadcast).update
            y_hat[s, k] = client.y_hat
            server.receive(update if k else lie(update, theta[update.rows]))
        server.finish()
    refused = sum(event.client != 0 for event in server.events)
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.mean(np.square(y_hat - job.split.y)[:, 1:])), refused


def main() -> None:
    import logging

    logging.getLogger("omkl").setLevel(logging.ERROR)  # a line for every refusal
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=500)
    given = parser.parse_args()
    stream = ["dataset=naval", "federation=iid", f"clients={CLIENTS}"]
    stream += [f"federation.rounds={given.rounds}", f"seeds={given.seeds}"]
    print("| | server |" + "".join(f" {lie} |" for lie in LIES) + " honest refused |")
    print("|---" * (3 + len(LIES)) + "|")
    for title, (words, bound) in LEARNERS.items():
        for guard, settings in GUARDS.items():
            guards = [setting.format(bound=bound) for setting in settings]
            job = prepare(compose([*words, *stream, *guards]))
            assert isinstance(job, FederatedJob)
            cells, refused = "", 0
            for lie in LIES.values():
                found = [error(job, seed, lie) for seed in job.seeds]
                cells += f" {1e3 * float(np.mean([e for e, _ in found])):.3g} |"
                refused += sum(n for _, n in found)
            print(f"| {title} | {guard} |{cells} {refused} |", flush=True)


if __name__ == "__main__":
    main()
