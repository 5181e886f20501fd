"""Federated online learning: K clients, each with a stream of its own, and a server.

``protocol`` holds the steps of a round and the compiled loop, ``messages`` what a client sends,
``budget`` how much it may send, ``algorithms`` one file a learner, ``simulation`` a whole
federation in one process, ``split`` how rows become clients, ``hindsight`` what regret is measured
against, ``parties`` server and client on their own, ``flower`` the same parties as Flower apps.

``exchange`` clips and adds noise to what a client sends, refuses and trims at the server;
``safeguards`` are its settings, ``privacy`` counts what the noise is worth, and ``leakage`` works
out what a message without it gives away: the sample.
"""

from __future__ import annotations

import importlib

from omkl import registry
from omkl.federated.protocol import FederatedAlgorithm


def names() -> list[str]:
    """Names of all federated algorithms, as typed after ``algorithm=``."""
    return registry.names(f"{__name__}.algorithms")


def load(name: str) -> FederatedAlgorithm:
    """The federated algorithm of that name; ValueError lists what exists."""
    if name not in names():
        raise ValueError(
            f"{name} does not learn in a federation. Those that do: {', '.join(names())}. "
            "Without a federation: federation=none"
        )
    algorithm: FederatedAlgorithm = importlib.import_module(registry.module_of(name)).algorithm
    return algorithm
