"""Who receives the messages of a client, when, and with how many bits an entry.

With a server all messages go to it, and all clients read its state. On a graph there is none: each
client has a state of its own, and sends its message to its neighbours. It then takes the mean of
its own message and of theirs by the Metropolis-Hastings weights (Xiao and Boyd, "Fast linear
iterations for distributed averaging", Systems & Control Letters, 2004)

    a_kl = 1 / (1 + max(d_k, d_l)) of neighbours k and l with d_k and d_l of them,
    a_kk = 1 - the sum over the neighbours of a_kl.

The matrix of these is symmetric, and its rows add up to 1. On a complete graph all weights are 1/K:
every client has the state that the server would have, to the bit.

With ``every`` = k clients exchange messages in the rounds k, 2k, ..; in the others each learns from
its own alone. With ``bits`` = b every entry of what a message changes is rounded at random to one
of 2^b - 1 values between the largest entry of its row and minus that, so that its expectation is
the entry: uniform stochastic rounding, as in QSGD (Alistarh, Grubic, Li, Tomioka, Vojnovic, NeurIPS
2017) with a row as its bucket and the largest entry in place of the norm.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from omkl.core.rng import graph_generator

GRAPHS = ("complete", "ring", "grid", "random")
TRIES = 1000  # graphs that are drawn until one is connected


class Exchange(NamedTuple):
    """As ``exchange.*`` of a run.

    graph  one of ``GRAPHS``; None: a server
    edges  probability of an edge of the random graph
    every  rounds from one exchange to the next
    bits   of an entry of a message; None: float64
    """

    graph: str | None = None
    edges: float = 0.3
    every: int = 1
    bits: int | None = None


SERVER = Exchange()


class Links(NamedTuple):
    """Where the messages of K clients go, and how.

    S states receive messages: that of the server, or one of each client.

    home    (K,) int64: the state that a client reads
    first   (K + 1,) int64: the links of client k are first[k] .. first[k + 1] - 1
    to      (E,) int64: the states that they lead to
    weight  (E,) of the message there, above 0
    own     0, or 1 where a client's first link leads to a state of its own
    copies  of a message that a client sends at most: 1 to a server, which hands it on
    every   rounds from one exchange to the next
    levels  values of an entry above 0; 0: entries are float64
    """

    home: np.ndarray
    first: np.ndarray
    to: np.ndarray
    weight: np.ndarray
    own: int
    copies: int
    every: int
    levels: int

    @property
    def n_states(self) -> int:
        return int(self.home.max()) + 1


def links_to_server(K: int, levels: int = 0) -> Links:
    """All messages go to the server, whose state all clients read."""
    zeros = np.zeros(K, dtype=np.int64)
    return Links(zeros, np.arange(K + 1), zeros.copy(), np.ones(K), 0, 1, 1, levels)


def links_of_graph(adjacency: np.ndarray, every: int = 1, copies: int | None = None) -> Links:
    """Each client sends to itself and to its neighbours; ``adjacency`` (K, K) bool, symmetric.

    Weights are those of the module, times 1 + d_k of the client who receives: 1 where all have
    equally many neighbours. ``copies`` are K without a server. ValueError for a graph that is
    not symmetric, not connected, or has an edge from a client to itself.
    """
    K = len(adjacency)
    if adjacency.shape != (K, K) or np.any(adjacency != adjacency.T) or np.any(np.diag(adjacency)):
        raise ValueError("a graph is a symmetric matrix of edges, with none to oneself")
    if not connected(adjacency):
        raise ValueError("the graph of clients is not connected: some would never hear of others")
    members = 1.0 + adjacency.sum(axis=1)
    first, to, weight = [0], [], []
    for k in range(K):
        others = np.flatnonzero(adjacency[k])
        shares = members[others] / np.maximum(members[k], members[others])
        own = members[k] - (members[k] / np.maximum(members[k], members[others])).sum()
        to += [k, *others.tolist()]
        weight += [own, *shares.tolist()]
        first.append(len(to))
    return Links(
        np.arange(K), np.array(first), np.array(to), np.array(weight), 1, copies or K, every, 0
    )


def connected(adjacency: np.ndarray) -> bool:
    """Whether every client of ``adjacency`` (K, K) hears of every other in the end."""
    reached = np.zeros(len(adjacency), dtype=bool)
    reached[0] = True
    for _ in range(len(adjacency)):
        reached |= adjacency[reached].any(axis=0)
    return bool(reached.all())


def graph_of(name: str, K: int, edges: float, rng: np.random.Generator) -> np.ndarray:
    """The edges (K, K) between K clients; ValueError for a random graph that is never connected.

    complete  all pairs
    ring      k and k + 1, the last and the first
    grid      neighbours in rows of ceil(sqrt(K)) clients, the last row may be shorter
    random    each pair with probability ``edges`` (Erdos and Renyi), drawn until connected
    """
    k, other = np.indices((K, K))
    if name == "complete":
        return np.asarray(k != other)
    if name == "ring":
        apart = (k - other) % K
        return np.asarray((apart == 1) | (apart == K - 1)) & (k != other)
    if name == "grid":
        width = int(np.ceil(np.sqrt(K)))
        return np.asarray(
            np.abs(k // width - other // width) + np.abs(k % width - other % width) == 1
        )
    for _ in range(TRIES):
        drawn = np.triu(rng.random((K, K)) < edges, 1)
        if connected(drawn | drawn.T):
            return np.asarray(drawn | drawn.T)
    raise ValueError(
        f"exchange.edges={edges}: none of {TRIES:,} random graphs of {K} clients is connected; "
        "raise it"
    )


def links_of(exchange: Exchange, K: int, seed: int) -> Links:
    """The links of a federation of K clients; a random graph is drawn from the seed."""
    levels = 0 if exchange.bits is None else 2 ** (exchange.bits - 1) - 1
    if exchange.graph is None and exchange.every == 1:
        return links_to_server(K, levels)
    # A server that is heard from now and then is a complete graph whose messages it hands on.
    name = exchange.graph or "complete"
    graph = graph_of(name, K, exchange.edges, graph_generator(seed))
    return links_of_graph(graph, exchange.every, None if exchange.graph else 1)._replace(
        levels=levels
    )
