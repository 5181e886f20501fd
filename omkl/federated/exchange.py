"""Recipients of a client's messages, the rounds in which they are sent, and the bits per entry.

With a server, all messages go to the server, and all clients read its state. On a graph, each
client has its own state and sends its message to its neighbours. A client averages its own message
and the messages of its neighbours with the Metropolis-Hastings weights (Xiao and Boyd, "Fast linear
iterations for distributed averaging", Systems & Control Letters, 2004)

    a_kl = 1 / (1 + max(d_k, d_l))   for neighbours k and l with d_k and d_l neighbours,
    a_kk = 1 - sum over the neighbours l of a_kl.

The matrix of weights is symmetric, and its rows sum to 1. On a complete graph all weights are 1/K,
and every client has exactly the state that a server would have.

With ``every`` = k, messages are exchanged in rounds k, 2k, ... In all other rounds a client learns
from its own message only.

With ``bits`` = b, the change of each entry in a message is rounded to one of 2^b - 1 values from -m
to m, where m is the largest absolute change in the row. The rounding is random, and its expectation
is the change. This is the uniform stochastic rounding of QSGD (Alistarh, Grubic, Li, Tomioka,
Vojnovic, NeurIPS 2017), applied row by row, with m in place of the norm.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from omkl.core.rng import GRAPH, generator

GRAPHS = ("complete", "ring", "grid", "random")
TRIES = 1000  # random graphs to draw until one is connected


class Exchange(NamedTuple):
    """Settings ``exchange.*`` of a run.

    graph  one of ``GRAPHS``; None: a server
    edges  probability of an edge of the random graph, in (0, 1]
    every  rounds from one exchange to the next, >= 1
    bits   bits per entry of a message; None: float64
    """

    graph: str | None = None
    edges: float = 0.3
    every: int = 1
    bits: int | None = None


SERVER = Exchange()


class Links(NamedTuple):
    """Recipients and weights of the messages of K clients.

    Messages go to states: the single state of the server, or one state per client.

    state_of  (K,) int64: the state that each client reads
    first     (K + 1,) int64: client k has the links first[k] .. first[k + 1] - 1
    to        (E,) int64: the state that receives the messages of each link
    weight    (E,) weight of a message on each link, above 0
    own       1 if the first link of every client leads to its own state, otherwise 0
    copies    most receivers to which a client sends its message; 1 with a server
    every     rounds from one exchange to the next
    levels    number of positive values of a rounded entry; 0: entries are float64
    """

    state_of: np.ndarray
    first: np.ndarray
    to: np.ndarray
    weight: np.ndarray
    own: int
    copies: int
    every: int
    levels: int

    @property
    def n_states(self) -> int:
        return int(self.state_of.max()) + 1


def links_to_server(K: int, levels: int = 0) -> Links:
    """Link K clients to one server, whose state all clients read."""
    zeros = np.zeros(K, dtype=np.int64)
    return Links(zeros, np.arange(K + 1), zeros.copy(), np.ones(K), 0, 1, 1, levels)


def links_of_graph(adjacency: np.ndarray, every: int = 1, copies: int | None = None) -> Links:
    """Link each client to itself and to its neighbours.

    Parameters
    ----------
    adjacency
        (K, K) bool, symmetric, False on the diagonal.
    every
        Rounds from one exchange to the next, >= 1.
    copies
        Most receivers to which a client sends its message; None: K.

    Returns
    -------
    Links
        The weight of a link from k to l is a_kl (module docstring) times 1 + d_l, so that the
        weights of the messages that l receives sum to their number. All weights are 1 if all
        clients have the same number of neighbours.

    Raises
    ------
    ValueError
        The graph is not symmetric, not connected, or has an edge from a client to itself.
    """
    K = len(adjacency)
    if adjacency.shape != (K, K) or np.any(adjacency != adjacency.T) or np.any(np.diag(adjacency)):
        raise ValueError("a graph is a symmetric matrix of edges, with none to oneself")
    if not connected(adjacency):
        raise ValueError(
            "the graph of clients is not connected: some would never exchange messages"
        )
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
    """Return whether every client of ``adjacency`` (K, K) can reach every other client."""
    reached = np.zeros(len(adjacency), dtype=bool)
    reached[0] = True
    for _ in range(len(adjacency)):
        reached |= adjacency[reached].any(axis=0)
    return bool(reached.all())


def graph_of(name: str, K: int, edges: float, rng: np.random.Generator) -> np.ndarray:
    """Return the edges between K clients.

    Parameters
    ----------
    name
        complete  all pairs
        ring      k and k + 1, and the last and the first
        grid      neighbours in rows of ceil(sqrt(K)) clients; the last row may be shorter
        random    each pair with probability ``edges`` (Erdos and Renyi), redrawn until connected
    K
        Number of clients, >= 1.
    edges
        Probability of an edge, in (0, 1]. Only "random" reads it.
    rng
        Generator of the random graph.

    Returns
    -------
    ndarray
        (K, K) bool, symmetric.

    Raises
    ------
    ValueError
        None of ``TRIES`` random graphs is connected.
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
    """Return the links of a federation.

    Parameters
    ----------
    exchange
        Settings.
    K
        Number of clients.
    seed
        Seed of a random graph.

    Raises
    ------
    ValueError
        No connected graph is drawn.
    """
    levels = 0 if exchange.bits is None else 2 ** (exchange.bits - 1) - 1
    if exchange.graph is None and exchange.every == 1:
        return links_to_server(K, levels)
    # Between exchanges every client needs its own state. A server with ``every`` > 1 is therefore
    # simulated as a complete graph with one copy of each message, which the server passes on.
    name = exchange.graph or "complete"
    graph = graph_of(name, K, exchange.edges, generator(seed, GRAPH))
    return links_of_graph(graph, exchange.every, None if exchange.graph else 1)._replace(
        levels=levels
    )
