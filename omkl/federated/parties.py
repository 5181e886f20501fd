"""The server and a client each on its own, with nothing between them but messages.

What goes over a wire is a ``Told`` one way and a ``Reply`` the other. The arithmetic is that of
the simulation: the same compiled steps on the same states. Features are not sent: every side
draws them from the seed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from omkl.experiment.federation import FederatedJob
from omkl.federated import protocol
from omkl.federated.protocol import Message, compiled_for

log = logging.getLogger(__name__)


class Told(NamedTuple):
    """What the server tells every client before round t.

    theta      rows of the shared parameters (n, W): all, or those that are announced first
    log_w      (E,) weights of the server, where it shares them
    announced  (A,) int64 rows that the server names
    """

    t: int
    theta: np.ndarray
    log_w: np.ndarray
    announced: np.ndarray


class Reply(NamedTuple):
    """What client k sends in round t: new values (n, W) of rows (n,), and further numbers (E,)."""

    client: int
    t: int
    rows: np.ndarray
    theta: np.ndarray
    extras: np.ndarray


class Turn(NamedTuple):
    """A client's round: the message, its prediction before the label, its regret so far (11)."""

    reply: Reply
    y_hat: float
    regret: float


class Event(NamedTuple):
    """A message that did not count: round, client (-1: not known) and why."""

    t: int
    client: int
    reason: str


class Refused(ValueError):
    """A reply that cannot be used; the text says why."""


class ServerSide:
    """The server of a federation: tells, receives, aggregates.

    A reply that is late, damaged or too large is refused and noted in ``events``; the round
    goes on without it, and a client without a reply counts as one that changed nothing.
    """

    def __init__(self, job: FederatedJob, seed: int) -> None:
        self.params = job.params
        self.n_clients = len(job.split.clients)
        self.lengths = job.split.lengths
        self.algorithm = job.algorithm
        kernels = job.algorithm.kernels(job.params, job.dictionary)
        d, D, budget = job.stream.n_inputs, job.D, job.settings.max_upload
        model = job.algorithm.model(job.params, kernels, d, D, seed, budget)
        self.shape = model.theta.shape
        protocol.check_budget(job.algorithm, job.params, self.shape, budget)
        most = job.algorithm.upload(job.params, *self.shape)
        self.most_numbers = most if budget is None else min(most, budget)
        self.server = protocol.blank_server(job.algorithm, model)
        self.events: list[Event] = []
        self.numbers = np.zeros(self.n_clients, dtype=np.int64)  # received from each client
        self.t = 0
        self._rng = protocol.generators(seed, self.n_clients)[0]
        self._room = protocol.blank_message(job.algorithm, job.params, model)
        self._heard: set[int] = set()
        protocol.tell_states_apart(model)
        kind = type(job.params)
        self._announce = compiled_for(kind, protocol.run_announcement)
        self._receive = compiled_for(kind, protocol.run_receipt)
        self._aggregate = compiled_for(kind, protocol.run_aggregation)

    def tell(self) -> Told:
        """Begin the next round."""
        self.t += 1
        self._heard = set()
        self._announce(self.params, self.server, self.t, self._rng.random(self.algorithm.draws[1]))
        server, sends_rows = self.server, self.algorithm.announces[0]
        rows = server.announced[:sends_rows] if sends_rows else slice(None)
        log_w = server.log_w[:0] if sends_rows else server.log_w
        return Told(self.t, server.model.theta[rows].copy(), log_w.copy(), server.announced.copy())

    def receive(self, reply: Reply) -> bool:
        """Take a reply into this round; False, and an event, if it is refused."""
        try:
            self._check(reply)
        except Refused as error:
            self.note(reply.client, str(error))
            return False
        room, n = self._room, len(reply.rows)
        room.rows[:n] = reply.rows
        room.theta[:n] = reply.theta
        room.extras[: len(reply.extras)] = reply.extras
        room.n[:] = n, len(reply.extras)
        self._receive(self.server, room)
        self._heard.add(reply.client)
        self.numbers[reply.client] += reply.theta.size + reply.extras.size
        return True

    def note(self, client: int, reason: str) -> None:
        """Note what went wrong with a client in this round; the round goes on."""
        self.events.append(Event(self.t, client, reason))
        log.warning("round %d, client %d: %s", self.t, client, reason)

    def _check(self, reply: Reply) -> None:
        N, W = self.shape
        if not 0 <= reply.client < self.n_clients:
            raise Refused(f"there is no client {reply.client}")
        if self.t > self.lengths[reply.client]:
            raise Refused(f"its stream ended with round {self.lengths[reply.client]}")
        if reply.t != self.t:
            raise Refused(f"late: its message is of round {reply.t}")
        if reply.client in self._heard:
            raise Refused("its second message of the round")
        rows, theta, extras = reply.rows, reply.theta, reply.extras
        if not all(isinstance(a, np.ndarray) for a in (rows, theta, extras)):
            raise Refused("its message has other things than arrays")
        numbers = theta.size + extras.size
        if numbers > self.most_numbers:
            raise Refused(f"too many numbers: {numbers}, {self.most_numbers} are allowed")
        shapes = (rows.shape, theta.shape, extras.shape)
        wanted = ((rows.size,), (rows.size, W), self.server.extras.shape)
        if shapes != wanted:
            raise Refused(f"wrong shapes: {shapes}")
        if rows.dtype != np.int64 or theta.dtype != np.float64 or extras.dtype != np.float64:
            raise Refused(f"wrong types: {rows.dtype}, {theta.dtype}, {extras.dtype}")
        if len(set(rows.tolist())) < len(rows) or np.any((rows < 0) | (rows >= N)):
            raise Refused(f"wrong rows: {rows.tolist()}")
        if not (np.isfinite(theta).all() and np.isfinite(extras).all()):
            raise Refused("numbers that are not finite")
        with np.errstate(over="ignore"):
            if not np.isfinite(np.square(theta).sum() + np.square(extras).sum()):
                raise Refused("numbers whose squares are not finite")

    def finish(self) -> None:
        """End the round: learn from the replies that were taken."""
        self._aggregate(self.params, self.server, self.t, len(self.present()))

    def present(self) -> list[int]:
        """The clients that have a sample in this round."""
        return [k for k in range(self.n_clients) if self.t <= self.lengths[k]]


class ClientSide:
    """Client k of a federation, on its own stream.

    Its state is what it keeps, its cumulative losses and the rounds it has drawn random
    numbers for; ``state`` and ``restore`` carry it over a restart.
    """

    def __init__(self, job: FederatedJob, seed: int, client: int) -> None:
        self.job = job
        self.params = job.params
        self.client = client
        self.seed = seed
        own = slice(job.split.lengths[client])
        self.X = np.ascontiguousarray(job.split.X[own, client])
        self.y = np.ascontiguousarray(job.split.y[own, client])
        algorithm = job.algorithm
        self._kernels = algorithm.kernels(job.params, job.dictionary)
        d, D, budget = job.stream.n_inputs, job.D, job.settings.max_upload
        model = algorithm.model(job.params, self._kernels, d, D, seed, budget)
        self.server = protocol.blank_server(algorithm, model)  # as last told
        self._blank = algorithm.keeps(job.params, self._kernels, model, 1)
        protocol.tell_states_apart(self._blank, model)
        self._room = protocol.blank_room(algorithm, model)
        self._message = protocol.blank_message(algorithm, job.params, model)
        self._run = compiled_for(type(job.params), protocol.run_client)
        self._take = compiled_for(type(job.params), protocol.take_row)
        self._rewind()

    def _rewind(self) -> None:
        """The state before the first round."""
        self.own = type(self._blank)(*(field.copy() for field in self._blank))
        self.losses = np.zeros(1 + len(self.server.model.theta))
        self._drawn = 0
        self._rng = protocol.generators(self.seed, self.client + 1)[1 + self.client]

    def turn(self, told: Told) -> Turn:
        """Round ``told.t``: predict, see the label, learn; what was told decides nothing else.

        A client that missed rounds goes on with the sample and the random numbers of the
        present one. ValueError for what no server of this federation tells.
        """
        if not 1 <= told.t <= len(self.y):
            raise ValueError(f"there is no round {told.t}; the stream has {len(self.y)}")
        self._hear(told)
        n_draws = self.job.algorithm.draws[0]
        self._rng.random((max(0, told.t - 1 - self._drawn), n_draws))
        u = self._rng.random(n_draws)
        self._drawn = told.t
        s = told.t - 1
        room, message = self._room, self._message
        y_hat = self._run(
            self.params,
            self.server,
            self.own,
            told.t,
            self.X[s : s + 1],
            self.y[s],
            u,
            room,
            message,
        )
        self.losses[0] += room.own_loss[0]
        self.losses[1:] += room.loss
        return Turn(
            self._reply(told.t, message), y_hat, float(self.losses[0] - self.losses[1:].min())
        )

    def _hear(self, told: Told) -> None:
        server, sends_rows = self.server, self.job.algorithm.announces[0]
        server.announced[:] = told.announced
        rows = told.announced[:sends_rows] if sends_rows else range(len(server.model.theta))
        for i, values in zip(rows, told.theta, strict=True):
            self._take(server.model, i, values)
        if not sends_rows:
            server.log_w[:] = told.log_w

    def _reply(self, t: int, message: Message) -> Reply:
        n, e = message.n
        return Reply(
            self.client,
            t,
            message.rows[:n].copy(),
            message.theta[:n].copy(),
            message.extras[:e].copy(),
        )

    def state(self) -> dict[str, np.ndarray]:
        """Everything that must not be lost, as arrays."""
        fields = {
            name: array.copy() for name, array in zip(self.own._fields, self.own, strict=True)
        }
        return fields | {"losses": self.losses.copy(), "drawn": np.array([self._drawn])}

    def restore(self, state: Mapping[str, np.ndarray] | None) -> None:
        """Go on from a ``state()``; from the beginning with None."""
        if state is not None and int(state["drawn"][0]) == self._drawn and self._drawn:
            self._put(state)  # the generator stands where it should
            return
        self._rewind()
        if state is not None:
            self._put(state)
            self._drawn = int(state["drawn"][0])
            self._rng.random((self._drawn, self.job.algorithm.draws[0]))

    def _put(self, state: Mapping[str, np.ndarray]) -> None:
        for name, array in zip(self.own._fields, self.own, strict=True):
            array[...] = state[name]
        self.losses[...] = state["losses"]


def play(
    job: FederatedJob, seed: int, n_rounds: int | None = None
) -> tuple[ServerSide, np.ndarray]:
    """Both sides in one process, message by message; the server, and y_hat (T, K)."""
    T, K = job.split.y.shape
    n_rounds = n_rounds or T
    server = ServerSide(job, seed)
    clients = [ClientSide(job, seed, k) for k in range(K)]
    y_hat: Any = np.full((n_rounds, K), np.nan)
    for s in range(n_rounds):
        told = server.tell()
        for k in server.present():
            turn = clients[k].turn(told)
            y_hat[s, k] = turn.y_hat
            server.receive(turn.reply)
        server.finish()
    return server, y_hat
