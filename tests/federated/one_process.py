"""All parties of a federation in one process, message by message."""

from __future__ import annotations

from typing import Any

import numpy as np

from omkl.core.rng import NOISE, generators
from omkl.federated.parties import Broadcast, Client, Server, Update


def learn(client: Client, broadcast: Broadcast) -> Update | None:
    """Let a client learn its rows of the job up to the round of a broadcast."""
    job, k = client.job, client.client
    rows = slice(broadcast.t - client.every, min(broadcast.t, int(job.lengths[k])))
    X, y = (np.ascontiguousarray(array[rows, k]) for array in (job.split.X, job.split.y))
    return client.play(broadcast, X, y)


def play(job: Any, seed: int) -> tuple[Server, np.ndarray]:
    """Play all rounds; the server, and y_hat (T, K). Noise is that of the simulation."""
    K, n_rounds = len(job.lengths), int(job.lengths.max())
    server = Server(job, seed)
    clients = [Client(job, seed, k) for k in range(K)]
    for client, noise in zip(clients, generators(seed, NOISE, K), strict=True):
        client.noise = noise
    y_hat = np.full((n_rounds, K), np.nan)
    while server.t < n_rounds:
        broadcast = server.broadcast()
        rows = slice(server.t - server.every, server.t)
        for k in np.flatnonzero(server.lengths > rows.start):
            update = learn(clients[k], broadcast)
            y_hat[rows, k][: len(clients[k].y_hat)] = clients[k].y_hat
            if update is not None:
                server.receive(update)
        server.finish()
    return server, y_hat
