"""Federated online learning: K clients, each with a stream of its own, and a server.

``protocol`` holds the steps of a round, the states, and how much may be sent; ``messages`` what a
client sends and how the server combines it; ``exchange`` whether there is one, or a graph of
clients; ``algorithms`` one file a learner; ``client_features``
the features of several clients at once. ``simulation`` is a whole federation in one process,
``parties`` server and client on their own. ``flower`` and ``own_rows`` deploy them.
``split`` deals rows to clients, ``hindsight`` is what regret is measured against. ``privacy`` has
the settings of noise, refusals and robust means, and what noise is worth.
"""

from __future__ import annotations

import importlib

from omkl.federated.protocol import FederatedAlgorithm
from omkl.utils import outside, registry


def names() -> list[str]:
    """Names of all federated algorithms, as typed after ``algorithm=``."""
    own = [name for name in registry.names_outside() if registry.is_federated(name)]
    return [*registry.names(registry.FEDERATED), *own]


def load(name: str) -> FederatedAlgorithm:
    """The federated algorithm of that name; ValueError lists what exists."""
    if name not in names():
        raise ValueError(
            f"{name} does not learn in a federation. Those that do: {', '.join(names())}. "
            "Without a federation: federation=none"
        )
    module = registry.names_outside().get(name)
    imported = outside.load(module) if module else importlib.import_module(registry.module_of(name))
    algorithm: FederatedAlgorithm = imported.algorithm
    return algorithm._replace(name=name)
