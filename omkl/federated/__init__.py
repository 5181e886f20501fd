"""Federated online learning: K clients, each with its own stream, and a server.

``protocol``         steps of a round, states, and the limit on the size of an upload
``messages``         content of a client's message, and how the server combines messages
``exchange``         links from clients to the server, or between clients without a server
``algorithms``       one file per learner or family of learners
``client_features``  random features of several clients at once
``simulation``       a whole federation in one process
``parties``          a single server or a single client
``flower``           deployment on Flower
``own_rows``         client of a deployment with the file of its rows
``split``            assignment of rows to clients
``privacy``          settings of noise, refusals and robust means; computation of the privacy that
                     noise gives
"""

from __future__ import annotations

import importlib

from omkl.federated.protocol import REGISTERED, FederatedAlgorithm
from omkl.utils import outside, registry


def names() -> list[str]:
    """Return the names of all federated algorithms, as typed after ``algorithm=``."""
    own = [name for name in registry.names_outside() if registry.is_federated(name)]
    return [*registry.names(registry.FEDERATED), *own]


def load(name: str) -> FederatedAlgorithm:
    """Return the federated algorithm called ``name``.

    Raises ValueError for an unknown name, with a list of the known names.
    """
    if name not in names():
        raise ValueError(
            f"{name} does not learn in a federation. Those that do: {', '.join(names())}. "
            "Without a federation: federation=none"
        )
    module = registry.names_outside().get(name)
    imported = outside.load(module) if module else importlib.import_module(registry.module_of(name))
    own = REGISTERED.get((imported.__name__, name))
    algorithm: FederatedAlgorithm = own or imported.algorithm
    return algorithm._replace(name=name)
