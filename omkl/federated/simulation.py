"""Whole federation in one process: all clients in compiled code, block by block.

With a server, messages go to its state, which all clients read. On a graph, they go to the states
of the neighbours (``exchange``). Both cases run the same code: every state sums the messages that
it receives, and ``aggregate`` of the learner turns the sums into the state of the next round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.compiler import compiled, compiled_for, element, inlined
from omkl.core.rng import ASKING, NOISE, ROUNDING, generator, generators, party_generators
from omkl.federated import privacy, protocol
from omkl.federated.exchange import Links, links_to_server
from omkl.federated.messages import clear, combine_messages, protect, quantise, receive
from omkl.federated.privacy import NO_SAFEGUARDS, Safeguards
from omkl.federated.protocol import (
    FederatedAlgorithm,
    ServerState,
    aggregate,
    broadcast_selection,
    check_budget,
    learn,
    select,
)

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel

MOST_NOISE = 2**20  # most numbers of noise drawn at once: 8 MiB


class Draws(NamedTuple):
    """Random numbers of n rounds of C clients.

    u        (n, C, a) uniform numbers of the clients, a per round
    v        (n, b) uniform numbers of the server, b per round
    asked    (n, C) whether the server asks each client for its message
    normals  (n, C, m W + E) standard normal numbers of the clients' noise; (n, C, 0) without noise
    uniform  (n, C, m W) uniform numbers for the rounding of entries; (n, C, 0) without rounding

    A message has at most m rows of W entries, and E losses.
    """

    u: np.ndarray
    v: np.ndarray
    asked: np.ndarray
    normals: np.ndarray
    uniform: np.ndarray


class Totals(NamedTuple):
    """Sums over all rounds so far.

    losses  (K, 1 + N) losses of the prediction and of every kernel, by client
    sent    (K, 2) int64 numbers and rows that each client has sent, to all receivers together
    replies (K, 2) int64 messages that each client has sent, and how many of them were refused
    used    (N,) int64 number of messages that contained each row
    worst   (2,) largest squared error of a prediction, and largest loss of a kernel
    """

    losses: np.ndarray
    sent: np.ndarray
    replies: np.ndarray
    used: np.ndarray
    worst: np.ndarray


class FederatedTrace(NamedTuple):
    """Predictions, losses and regrets of n rounds.

    y_hat   (n, K) predictions, each made before its target; NaN after a client's last row
    loss    (n, K) cumulative loss L of the predictions
    regret  (n, K) regret after each round, equation (11) of Ghari and Shen (NeurIPS 2022)

    Loss and regret stay constant after a client's last row.
    """

    y_hat: np.ndarray
    loss: np.ndarray
    regret: np.ndarray

    def rows(self, rows: slice) -> FederatedTrace:
        """Return views of a range of rounds."""
        return FederatedTrace(self.y_hat[rows], self.loss[rows], self.regret[rows])


@inlined
def add_losses(losses, k, scratch, worst):
    """Add the losses of a round to a client's sums. Return the smallest of its sums over kernels.

    Parameters
    ----------
    losses
        Sums (K, 1 + N), updated in place.
    k
        Client.
    scratch
        Losses of the round.
    worst
        Largest squared error and largest loss (2,), updated in place.
    """
    losses[k, 0] += scratch.own_loss[0]
    best = np.inf
    for i in range(scratch.loss.shape[0]):
        losses[k, 1 + i] += scratch.loss[i]
        best = min(best, losses[k, 1 + i])
        worst[1] = max(worst[1], scratch.loss[i])
    return best


@inlined
def count_members(servers, links, exchanged, present, asked):
    """Write, for each state, the number of clients that may send it a message.

    On a graph each client counts by the weight of its link.

    Parameters
    ----------
    servers
        States, of which ``members`` is written.
    links
        Recipients of messages.
    exchanged
        Whether messages are exchanged in this round.
    present, asked
        Clients with a row (C,), and whether each is to send a message.
    """
    servers.members[:] = 0.0
    for c in range(present.shape[0]):
        if asked[c]:
            first = links.first[present[c]]
            if not exchanged:
                servers.members[links.to[first], 0] = 1.0
                continue
            for e in range(first, links.first[present[c] + 1]):
                servers.members[links.to[e], 0] += links.weight[e]


@inlined
def deliver(servers, links, exchanged, k, message, inbox, totals):
    """Send a client's message along all its links or, between exchanges, only to its own state.

    Parameters
    ----------
    servers
        States, updated in place.
    links
        Recipients of messages.
    exchanged
        Whether messages are exchanged in this round.
    k
        Client.
    message
        Its message.
    inbox
        Limits of messages.
    totals
        Counts, updated in place.
    """
    first = links.first[k]
    stop = links.first[k + 1] if exchanged else first + links.own
    sent = min(stop - first - links.own, links.copies)
    totals.sent[k, 0] += sent * (message.n[0] * message.theta.shape[1] + message.n[1])
    totals.sent[k, 1] += sent * message.n[0]
    totals.replies[k, 0] += sent
    for j in range(message.n[0]):
        totals.used[message.rows[j]] += sent
    for e in range(first, stop):
        weight = links.weight[e] if exchanged else 1.0
        taken = receive(element(servers, links.to[e]), message, inbox, weight)
        totals.replies[k, 1] += not taken


@compiled
def run_rounds(
    params, servers, clients, t, present, X, Y, draws, links, protection, inbox, scratch, message,
    totals, trace,
):  # fmt: skip
    """Run rounds t + 1 .. t + n of the clients that have rows.

    Parameters
    ----------
    params, servers, clients
        Hyper-parameters, the states (S, ...) that receive messages, and the state of all K clients.
    t
        Number of rounds before.
    present
        Clients with a row (C,) int64.
    X, Y
        Rows (n, C, d) and targets (n, C).
    draws
        Random numbers of these rounds.
    links, protection, inbox
        Recipients of messages, their noise, and their limits.
    scratch, message
        Scratch of a client.
    totals
        Sums over all rounds, updated in place.
    trace
        Output (n, C).
    """
    n, C = Y.shape
    S = servers.members.shape[0]
    worst = totals.worst
    for s in range(n):
        now = t + s + 1
        exchanged = now % links.every == 0
        count_members(servers, links, exchanged, present, draws.asked[s])
        for h in range(S):
            broadcast_selection(params, element(servers, h), now, draws.v[s])
        for c in range(C):
            k = present[c]
            server = element(servers, links.state_of[k])
            y = Y[s, c]
            u = draws.u[s, c]
            select(params, server, clients, k, now, u, scratch, message)
            y_hat = learn(params, server, clients, k, now, X[s], c, y, scratch, message)
            trace.y_hat[s, c] = y_hat
            best = add_losses(totals.losses, k, scratch, worst)
            worst[0] = max(worst[0], (y_hat - y) * (y_hat - y))
            trace.loss[s, c] = totals.losses[k, 0]
            trace.regret[s, c] = totals.losses[k, 0] - best
            if not draws.asked[s, c]:
                continue
            protect(protection, server.model.theta, message, draws.normals[s, c])
            whole = protection.whole
            quantise(links.levels, whole, server.model.theta, message, draws.uniform[s, c])
            deliver(servers, links, exchanged, k, message, inbox, totals)
        for h in range(S):
            server = element(servers, h)
            combine_messages(server, inbox)
            aggregate(params, server, now)
            clear(server)


class Federation:
    """One federated learner on the streams of K clients: its states, generators and rounds.

    Parameters
    ----------
    algorithm
        From ``omkl.federated.load``.
    params
        An ``algorithm.Params``.
    dictionary
        N kernels.
    d, D
        Number of inputs, and random features per kernel.
    seed
        Integer >= 0. Every algorithm has the same features for the same seed. The server and each
        client have their own generators.
    n_clients
        K >= 1.
    max_upload
        Most numbers that a client may send in a round. Raises ValueError if the algorithm could
        exceed it.
    model
        Shared parameters to start from; None: new ones. Random features have theta (N, 2 D), as
        ``compact`` returns them.
    lengths
        (K,) whole numbers >= 1: number of rounds of each client. None: no client ends.
    guards
        Noise at the clients, refusals and robust means at the server. Raises ValueError for privacy
        that the algorithm cannot give, or without ``lengths``.
    links
        Recipients of messages; None: a server. Raises ValueError for links without a server if the
        algorithm's server draws, or if there are guards.

    Attributes
    ----------
    servers
        The state of the server, (1, ...), or of every client, (K, ...).
    """

    def __init__(
        self,
        algorithm: FederatedAlgorithm,
        params: Any,
        dictionary: Sequence[Kernel],
        d: int,
        D: int,
        seed: int,
        n_clients: int,
        max_upload: int | None = None,
        model: Any = None,
        lengths: np.ndarray | None = None,
        guards: Safeguards = NO_SAFEGUARDS,
        links: Links | None = None,
    ) -> None:
        kernels = algorithm.kernels(params, dictionary, d)
        if model is None:
            model = algorithm.model(params, kernels, d, D, seed, max_upload)
        N, W = model.theta.shape
        check_budget(algorithm, params, (N, W), max_upload)
        self.algorithm = algorithm
        self.params = params
        self.d = d
        self.n_clients = n_clients
        if lengths is None and guards.privacy is not None:
            raise ValueError("privacy counts messages: say after how many rounds clients are done")
        if lengths is None:
            lengths = np.full(n_clients, np.iinfo(np.int64).max)
        self.lengths = np.array(lengths, dtype=np.int64)
        if self.lengths.shape != (n_clients,) or self.lengths.min() < 1:
            raise ValueError(f"lengths are {n_clients} numbers of at least 1; got {lengths}")
        self.links = links_to_server(n_clients) if links is None else links
        self._require_a_server(guards)
        state = protocol.new_server_state(algorithm, model)
        self.servers = protocol.repeated(state, self.links.n_states)
        self.clients = algorithm.client_state(params, kernels, model, n_clients)
        protocol.qualify_names(self.clients, model)
        server_rng, *self._client_rngs = party_generators(seed, n_clients)
        self._server_rng = server_rng
        self.guards = guards
        n_rounds = int(self.lengths.max())
        self._protection = privacy.protection_for(guards, algorithm, params, N, n_rounds)
        self._asking_rng = generator(seed, ASKING)
        self._noise_rngs = generators(seed, NOISE, n_clients if guards.privacy else 0)
        self._rounding_rngs = generators(seed, ROUNDING, n_clients if self.links.levels else 0)
        self.t = 0
        self.totals = Totals(
            losses=np.zeros((n_clients, 1 + N)),
            sent=np.zeros((n_clients, 2), dtype=np.int64),
            replies=np.zeros((n_clients, 2), dtype=np.int64),
            used=np.zeros(N, dtype=np.int64),
            worst=np.zeros(2),
        )
        self._prepare()

    def _require_a_server(self, guards: Safeguards) -> None:
        """Raise ValueError for settings that ``links`` rule out.

        Some settings need a server that receives messages in every round. On a graph there is no
        server. With ``exchange.every`` > 1 the server has rounds without messages.
        """
        if self.links.n_states == 1 and self.links.every == 1:
            return
        privacy.require_no_server(self.algorithm, guards)
        if self.links.levels:
            raise ValueError(
                "exchange.bits rounds changes of what a server has broadcast: leave out "
                "exchange.graph and exchange.every"
            )

    @property
    def server(self) -> ServerState:
        """State of the server, or of the first client on a graph. Its arrays are views."""
        state: ServerState = element(self.servers, 0)
        return state

    @property
    def disagreement(self) -> float:
        """Distance of the clients' parameters from their mean; 0 with a server.

        The root mean square, over clients k, of ||theta_k - mean||, divided by the norm of the
        mean.
        """
        theta = self.servers.model.theta
        mean = theta.mean(axis=0)
        norm = float(np.linalg.norm(mean))
        apart = float(np.sqrt(np.square(theta - mean).sum() / len(theta)))
        return apart / norm if norm > 0.0 else 0.0

    def _prepare(self) -> None:
        self.loop: Any = compiled_for(type(self.params), run_rounds)
        self.scratch = protocol.new_scratch(self.algorithm, self.server.model)
        self.message = protocol.new_message(self.algorithm, self.params, self.server.model)
        self._inbox = privacy.inbox_for(self.guards, self.n_clients, self.message)

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> FederatedTrace:
        """Run n rounds with rows X (n, K, d) and targets y (n, K) of all clients.

        The split into blocks does not change the result. Entries after a client's last row are
        ignored.
        """
        X = np.ascontiguousarray(X, dtype=np.float64)
        y = np.ascontiguousarray(y, dtype=np.float64)
        K = self.n_clients
        if X.ndim != 3 or X.shape[1:] != (K, self.d) or y.shape != X.shape[:2]:
            raise ValueError(
                f"a block is X (n, {K}, {self.d}) and y (n, {K}); got X {X.shape}, y {y.shape}"
            )
        n = len(y)
        a, b = self.algorithm.draws(self.params)
        u = np.stack([rng.random((n, a)) for rng in self._client_rngs], axis=1)
        v = self._server_rng.random((n, b))
        trace = FederatedTrace(*(np.empty((n, K)) for _ in FederatedTrace._fields))
        ends = np.unique(self.lengths[(self.lengths > self.t) & (self.lengths < self.t + n)])
        start = 0
        for stop in (*(ends - self.t).tolist(), n):  # rounds with the same set of clients
            rows = slice(start, stop)
            self._advance(X[rows], y[rows], u[rows], v[rows], trace.rows(rows))
            self.t += stop - start
            start = stop
        return trace

    def _advance(
        self, X: np.ndarray, y: np.ndarray, u: np.ndarray, v: np.ndarray, trace: FederatedTrace
    ) -> None:
        """Run rounds in which the set of clients with rows does not change, and write the trace."""
        present = np.flatnonzero(self.lengths > self.t)
        if len(present) == self.n_clients:
            self._stream(present, X, y, u, v, trace)
            return
        losses = self.totals.losses
        trace.y_hat[:] = np.nan
        trace.loss[:] = losses[:, 0]
        trace.regret[:] = losses[:, 0] - losses[:, 1:].min(axis=1)
        if len(present):
            theirs = FederatedTrace(*(np.empty((len(y), len(present))) for _ in trace))
            X, y, u = (np.ascontiguousarray(array[:, present]) for array in (X, y, u))
            self._stream(present, X, y, u, v, theirs)
            for field, array in zip(trace, theirs, strict=True):
                field[:, present] = array

    def _stream(
        self,
        present: np.ndarray,
        X: np.ndarray,
        y: np.ndarray,
        u: np.ndarray,
        v: np.ndarray,
        trace: FederatedTrace,
    ) -> None:
        """Run rounds of the clients ``present`` (C,).

        X (n, C, d) are rows, and y (n, C) targets. u (n, C, a) are uniform numbers of the clients,
        and v (n, b) those of the server.
        """
        n, K, most = len(y), self.n_clients, self.guards.clients_per_round
        asked = privacy.draw_asked(self._asking_rng, n, K, present, most)
        entries = self.message.theta.size
        size = entries + len(self.message.losses)
        step = max(1, MOST_NOISE // (K * size)) if self._noise_rngs or self._rounding_rngs else n
        for start in range(0, n, step):
            rows = slice(start, min(n, start + step))
            n_here = rows.stop - start
            normals = np.empty((n_here, len(present), size if self._noise_rngs else 0))
            for c, k in enumerate(present if self._noise_rngs else ()):
                normals[:, c] = self._noise_rngs[k].standard_normal((n_here, size))
            uniform = np.empty((n_here, len(present), entries if self._rounding_rngs else 0))
            for c, k in enumerate(present if self._rounding_rngs else ()):
                uniform[:, c] = self._rounding_rngs[k].random((n_here, entries))
            draws = Draws(u[rows], v[rows], asked[rows], normals, uniform)
            states_of_all = (self.params, self.servers, self.clients)
            written = (self.scratch, self.message, self.totals, trace.rows(rows))
            streams = (self.t + start, present, X[rows], y[rows], draws, self.links)
            self.loop(*states_of_all, *streams, self._protection, self._inbox, *written)

    def __getstate__(self) -> dict[str, Any]:
        left_out = ("loop", "scratch", "message", "_inbox")
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()
