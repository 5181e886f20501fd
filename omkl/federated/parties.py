"""A single server or a single client, connected by messages only.

The server sends a ``Broadcast`` to the clients, and each client answers with an ``Update``. The
results are those of the simulation, because both run the same compiled steps on the same states.
Server and clients draw the random features from the seed, so features are never sent.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from omkl.core import snapshot
from omkl.core.compiler import compiled, compiled_for
from omkl.core.hyperparameters import COUNTS, KERNELS
from omkl.core.rng import ASKING, generator, party_generators
from omkl.federated import privacy, protocol
from omkl.federated.messages import clear, combine_messages, protect, receive, squared_norm
from omkl.federated.privacy import SecretNormals
from omkl.federated.protocol import (
    Plan,
    aggregate,
    broadcast_selection,
    check_budget,
    learn,
    select,
)
from omkl.utils.wording import plain

LONGEST_REASON = 500  # characters of the reason in an event

log = logging.getLogger(__name__)


class Broadcast(NamedTuple):
    """Message of the server to every client before round t.

    theta      rows of the shared parameters (n, W): all rows, or only those of ``announced``
    log_w      (E,) logarithms of the server's weights; (0,) if clients have their own
    announced  int64 indices of the rows that the server drew for this round
    asked      int64 clients that are to send an update; (0,) for all
    senders    (0,) unless ``exchange.every`` = k > 1, see below

    With k > 1 clients have their own states, and ``t`` is the round of the next exchange. The
    message then contains the last exchange: ``theta`` (N, W) and ``log_w`` are sums of the
    parameters and losses that clients sent. The first N entries of ``senders`` (N + 2,) are the
    numbers of clients that sent row 0, 1, .. N - 1. The last two entries are the number of clients
    that sent a message, and the number of clients that could send one.
    """

    t: int
    theta: np.ndarray
    log_w: np.ndarray
    announced: KERNELS
    asked: COUNTS
    senders: np.ndarray


class Update(NamedTuple):
    """Update of one client in round t. A client that was not asked sends neither rows nor losses.

    client  number of the client
    t       round
    rows    (n,) indices of rows of the shared parameters
    theta   (n, W) new values of these rows
    losses  (E,) losses
    """

    client: int
    t: int
    rows: KERNELS
    theta: np.ndarray
    losses: np.ndarray


class Event(NamedTuple):
    """Rejected message.

    t       round
    client  number of the client; -1 if unknown
    reason  reason, one short line
    """

    t: int
    client: int
    reason: str


LARGEST_MEASURED = 1e140  # limit of a reported error, so that sums of squares stay finite


class Refused(ValueError):
    """Error: a message cannot be used. The text gives the reason."""


@compiled
def run_client_round(params, server, clients, t, X, y, u, normals, protection, scratch, message):
    """Run the round of one client, and return its prediction.

    Parameters
    ----------
    params, server, clients
        Hyper-parameters, the server's state as broadcast, and the state of the client.
    t
        Round, >= 1.
    X, y
        Row (1, d) and its target.
    u
        Uniform numbers of the client.
    normals, protection
        Standard normal numbers of the noise, and its settings.
    scratch, message
        Scratch of the client, and output.
    """
    select(params, server, clients, 0, t, u, scratch, message)
    y_hat = learn(params, server, clients, 0, t, X, 0, y, scratch, message)
    protect(protection, server.model.theta, message, normals)
    return y_hat


@compiled
def run_broadcast_selection(params, server, t, u):
    """Run the step of the server before the clients' steps.

    Parameters
    ----------
    params, server
        Hyper-parameters, and the server's state, updated in place.
    t
        Round, >= 1.
    u
        Uniform numbers of the server.
    """
    broadcast_selection(params, server, t, u)


@compiled
def run_receipt(server, message, inbox):
    """Receive one message at the server, and return whether the server accepts it.

    Parameters
    ----------
    server
        State of the server, updated in place.
    message
        Message of a client.
    inbox
        Limits of messages.
    """
    return receive(server, message, inbox, 1.0)


@compiled
def run_aggregation(params, server, t, inbox):
    """Run the step of the server after the clients' steps.

    Parameters
    ----------
    params, server
        Hyper-parameters, and the server's state, updated in place.
    t
        Round, >= 1.
    inbox
        Messages of the round, stored for a robust mean.
    """
    combine_messages(server, inbox)
    aggregate(params, server, t)
    clear(server)


@compiled
def set_row(model, i, values):
    """Write a row of the shared parameters, and its norm.

    Parameters
    ----------
    model
        Shared parameters, updated in place.
    i
        Row.
    values
        Numbers (W,).
    """
    for e in range(values.shape[0]):
        model.theta[i, e] = values[e]
    model.norm2[i] = squared_norm(model.theta, i)


def _require_fit(own: Broadcast | Update, found: Broadcast | Update, N: int) -> None:
    """Raise Refused unless the arrays of message ``found`` have the shapes and types of ``own``.

    N is the number of shared rows.
    """
    numbers: dict[str, Any] = {name: None for name in ("client", "t") if name in found._fields}
    arrays = {name: array for name, array in found._asdict().items() if name not in numbers}
    try:
        snapshot.require_fit(own._replace(**numbers), arrays, N)
    except snapshot.Mismatch as error:
        kind = "broadcast" if isinstance(found, Broadcast) else "update"
        raise Refused(f"its {kind} is not of this federation: {error}") from None


def shared_parameters(job: Plan, seed: int) -> Any:
    """Return the shared parameters before the first round, drawn from the seed."""
    d, D, budget = job.n_inputs, job.D, job.settings.max_upload
    return job.algorithm.model(job.params, job.used, d, D, seed, budget)


class Server:
    """Server of a federation: sends broadcasts, receives updates, and combines them.

    An update that is late, malformed or too large is refused and recorded in ``events``. The round
    goes on without it. A client without an update counts as a client that changed nothing.
    """

    def __init__(self, job: Plan, seed: int) -> None:
        exchange, self.guards = job.settings.message_exchange, job.settings.safeguards
        if exchange.graph is not None or exchange.bits is not None:
            raise ValueError(
                "exchange.graph and exchange.bits are simulated only, by omkl-run: leave them out"
            )
        self.every = exchange.every
        if self.every > 1:
            privacy.require_no_server(job.algorithm, self.guards)
        self.params = job.params
        self.lengths = job.lengths.copy()
        self.n_clients = len(self.lengths)
        self.algorithm = job.algorithm
        model = shared_parameters(job, seed)
        self.shape = model.theta.shape
        budget = job.settings.max_upload
        check_budget(job.algorithm, job.params, self.shape, budget)
        most = job.algorithm.upload(job.params, *self.shape)
        self.most_numbers = most if budget is None else min(most, budget)
        self.state = protocol.new_server_state(job.algorithm, model)
        self.events: list[Event] = []
        self.numbers = np.zeros(self.n_clients, dtype=np.int64)  # count received from each client
        self.t = 0
        self._rng = party_generators(seed, self.n_clients)[0]
        self._message = protocol.new_message(job.algorithm, job.params, model)
        self._inbox = privacy.inbox_for(self.guards, self.n_clients, self._message)
        self._asking_rng = generator(seed, ASKING)
        self._asked: list[int] = []  # in this round
        self._senders: set[int] = set()  # of this round
        N, W = self.shape
        self._sums = np.zeros((N, W)), self.state.losses.copy(), np.zeros(N + 2)
        protocol.qualify_names(model)

    def broadcast(self) -> Broadcast:
        """Begin the next round, or the rounds up to the next exchange, and return the broadcast."""
        self.t += self.every
        self._senders = set()
        state = self.state
        if self.every > 1:
            theta, losses, senders = self._sums
            return Broadcast(self.t, theta, losses, state.announced, self._ask(), senders)
        compiled_for(type(self.params), run_broadcast_selection)(
            self.params, state, self.t, self._rng.random(self.algorithm.draws(self.params)[1])
        )
        sends_rows = self.algorithm.announces[0]
        rows = state.announced[:sends_rows] if sends_rows else slice(None)
        log_w = state.log_w[:0] if sends_rows else state.log_w
        sent = (state.model.theta[rows].copy(), log_w.copy(), state.announced.copy())
        return Broadcast(self.t, *sent, self._ask(), np.zeros(0))

    def _ask(self) -> np.ndarray:
        """Draw the clients that are to send an update. An empty array (0,) stands for all."""
        present = np.array(self.present(), dtype=np.int64)
        wanted = self.guards.clients_per_round
        drawn = privacy.draw_asked(self._asking_rng, 1, self.n_clients, present, wanted)
        self._asked = present[drawn[0]].tolist()
        return np.array(self._asked if wanted else [], dtype=np.int64)

    def receive(self, update: Update) -> bool:
        """Add an update to this round. If it is refused, record an event and return False."""
        try:
            self._check_sender(update)
            if update.client in self._asked:
                self._check_content(update)
                self._take(update)
            elif not all(isinstance(a, np.ndarray) and a.size == 0 for a in update[2:]) or (
                update.rows.dtype != np.int64 or update.rows.ndim != 1
            ):
                raise Refused("it sends an update and was not asked for one")
        except Refused as error:
            self.note(update.client, str(error))
            return False
        self._senders.add(update.client)
        self.numbers[update.client] += update.theta.size + update.losses.size
        return True

    def _take(self, update: Update) -> None:
        message, n = self._message, len(update.rows)
        message.rows[:n] = update.rows
        message.theta[:n] = update.theta
        message.losses[: len(update.losses)] = update.losses
        message.n[:] = n, len(update.losses)
        if not run_receipt(self.state, message, self._inbox):
            bounds = {"robust.max_change": self.guards.max_change}
            bounds |= {"robust.max_loss": self.guards.max_loss} if len(update.losses) else {}
            limits = [f"{key}={bound:g}" for key, bound in bounds.items() if bound is not None]
            raise Refused(f"it is larger than {' and '.join(limits)} allow")

    def note(self, client: int, reason: str) -> None:
        """Record a failure of ``client`` in this round. The round continues."""
        # The reason may contain text from the client. Escape it, and shorten it to one line.
        reason = " ".join(plain(reason[:LONGEST_REASON]).split())
        self.events.append(Event(self.t, client, reason))
        log.warning("round %d, client %d: %s", self.t, client, reason)

    def measured(self, client: int, **numbers: float) -> tuple[float, ...]:
        """Return the measurements of a client. An impossible number becomes NaN, with an event.

        A NaN from the client means that it measured nothing. Its update counts in any case.
        """
        for name, number in numbers.items():
            if abs(number) > LARGEST_MEASURED or (name == "squared_error" and number < 0):
                numbers[name] = math.nan
                problem = f"its {name.replace('_', ' ')} of {number:g} is impossible"
                self.note(client, f"{problem}, and is left out")
        return tuple(numbers.values())

    def _check_sender(self, update: Update) -> None:
        if not 0 <= update.client < self.n_clients:
            raise Refused(f"there is no client {update.client}")
        if self.t > self.lengths[update.client]:
            raise Refused(f"its stream ended with round {self.lengths[update.client]}")
        if update.t != self.t:
            raise Refused(f"late: its message is of round {update.t}")
        if update.client in self._senders:
            raise Refused("its second message of the round")

    def _check_content(self, update: Update) -> None:
        N, W = self.shape
        rows, theta, losses = update.rows, update.theta, update.losses
        if not all(isinstance(a, np.ndarray) for a in (rows, theta, losses)):
            raise Refused("its message has other things than arrays")
        numbers = theta.size + losses.size
        if numbers > self.most_numbers:
            raise Refused(f"too many numbers: {numbers}, {self.most_numbers} are allowed")
        n = min(rows.size, N)
        n_losses = n if self.algorithm.losses_of_rows else len(self.state.losses)
        _require_fit(
            Update(0, 0, np.zeros(n, dtype=np.int64), np.zeros((n, W)), np.zeros(n_losses)),
            update, N,
        )  # fmt: skip
        if len(set(rows.tolist())) < len(rows):
            raise Refused(f"a row twice: {rows.tolist()}")
        with np.errstate(over="ignore"):
            if not np.isfinite(np.square(theta).sum() + np.square(losses).sum()):
                raise Refused("numbers whose squares are not finite")

    def finish(self) -> None:
        """End the round: learn from the updates that were accepted.

        A client whose stream has ended (``lengths``) does not count as a member.
        """
        self.state.members[0] = sum(self.t <= self.lengths[client] for client in self._asked)
        if self.every > 1:
            state = self.state
            senders = np.concatenate([state.senders_of, state.senders, state.members])
            self._sums = state.sums.copy(), state.losses.copy(), senders
        compiled_for(type(self.params), run_aggregation)(
            self.params, self.state, self.t, self._inbox
        )

    def present(self) -> list[int]:
        """Return the clients that have a row in this round."""
        return [k for k in range(self.n_clients) if self.t <= self.lengths[k]]

    def checkpoint(self) -> dict[str, np.ndarray]:
        """Return copies of the arrays that the next round depends on. Call it between rounds."""
        state = self.state
        sums = {f"sums.{k}": array for k, array in enumerate(self._sums if self.every > 1 else ())}
        return sums | {
            "t": np.array([self.t]),
            "theta": state.model.theta.copy(),
            "log_w": state.log_w.copy(),
            "announced": state.announced.copy(),
            "numbers": self.numbers.copy(),
            "lengths": self.lengths.copy(),
        }

    def restore(self, checkpoint: Mapping[str, np.ndarray]) -> None:
        """Restore a new server from ``checkpoint()``, equal to the last bit."""
        self.t = int(checkpoint["t"][0])
        for i, values in enumerate(checkpoint["theta"]):
            set_row(self.state.model, i, values)
        self.state.log_w[...] = checkpoint["log_w"]
        self.state.announced[...] = checkpoint["announced"]
        self.numbers[...] = checkpoint["numbers"]
        self.lengths[...] = checkpoint["lengths"]
        if self.every > 1:
            self._sums = checkpoint["sums.0"], checkpoint["sums.1"], checkpoint["sums.2"]
        self._rng.random((self.t, self.algorithm.draws(self.params)[1]))
        if self.guards.clients_per_round:
            self._asking_rng.random((self.t, self.n_clients))


class Client:
    """Client ``client`` of a federation, on its own stream.

    ``checkpoint`` returns what must survive a restart: the state of the client, its cumulative
    losses, and the number of rounds whose random numbers it has drawn. ``restore`` continues from
    it. Noise comes from the operating system's source of randomness.
    """

    def __init__(self, job: Plan, seed: int, client: int) -> None:
        self.job = job
        self.params = job.params
        self.client = client
        self.seed = seed
        algorithm = job.algorithm
        model = shared_parameters(job, seed)
        self.server = protocol.new_server_state(algorithm, model)  # from the last broadcast
        self._first_state = algorithm.client_state(job.params, job.used, model, 1)
        protocol.qualify_names(self._first_state, model)
        self.every = job.settings.message_exchange.every
        self._first_shared = self.server.model.theta.copy(), self.server.log_w.copy()
        self._scratch = protocol.new_scratch(algorithm, model)
        self._message = protocol.new_message(algorithm, job.params, model)
        self._protection = privacy.protection_for(
            job.settings.safeguards, algorithm, job.params, len(model.theta), int(job.lengths.max())
        )
        self._inbox = privacy.inbox_for(job.settings.safeguards, 1, self._message)
        self._normals = self._message.theta.size + len(self._message.losses)
        self.noise: SecretNormals | np.random.Generator = SecretNormals()
        self.private = job.settings.safeguards.privacy is not None
        self._rewind()

    def _rewind(self) -> None:
        """Return to the state before the first round."""
        first = self._first_state
        self.state = type(first)(*(field.copy() for field in first))
        self.losses = np.zeros(1 + len(self.server.model.theta))  # cumulative
        self._put_shared(*self._first_shared)
        self.y_hat, self.regret = np.zeros(0), float("nan")  # of the last rounds
        self._drawn = 0
        self._rng = party_generators(self.seed, self.client + 1)[1 + self.client]

    def play(self, broadcast: Broadcast, X: np.ndarray, y: np.ndarray) -> Update | None:
        """Take over the broadcast, then predict and learn row by row.

        Parameters
        ----------
        broadcast
            Message of the server of this federation.
        X, y
            Rows (n, d) and targets (n,). n is k = ``exchange.every``, which is 1 by default, or
            less at the end of the stream. The k-th row belongs to round ``broadcast.t``, and the
            client learns the rows before it without an exchange.

        Returns
        -------
        Update or None
            None if the stream has no row of round ``broadcast.t``. Predictions (n,) are in
            ``y_hat``, the regret so far (equation 11) in ``regret``.

        Raises
        ------
        ValueError
            The broadcast does not fit, or there are no rows for its rounds.
        Refused
            A number of the broadcast, of the reply or of the new state is not finite. Then the
            client returns to its former state, because a state that is not finite would stay so.
        """
        first = broadcast.t - self.every + 1
        if not 0 < len(y) <= self.every or not 1 <= first <= self.job.lengths.max():
            raise ValueError(
                f"{len(y)} rows for the rounds {first} to {broadcast.t}, of {self.every} at most: "
                "the stream is shorter, or has ended"
            )
        before = self.checkpoint()
        self.take(broadcast)
        y_hat, update = np.empty(len(y)), None
        states = (self.params, self.server, self.state)
        written = (self._protection, self._scratch, self._message)
        for s in range(len(y)):
            t = first + s
            row = (X[s : s + 1], float(y[s]), *self._draw(t))
            y_hat[s] = compiled_for(type(self.params), run_client_round)(*states, t, *row, *written)
            self.losses[0] += self._scratch.own_loss[0]
            self.losses[1:] += self._scratch.loss
            if t < broadcast.t:
                self.server.members[0] = 1.0
                run_receipt(self.server, self._message, self._inbox)
                compiled_for(type(self.params), run_aggregation)(
                    self.params, self.server, t, self._inbox
                )
            else:
                update = self._update(t, not len(broadcast.asked) or self.client in broadcast.asked)
        learned = (y_hat, self.losses, self.server.model.theta, *(update or ())[2:], *self.state)
        if not all(np.isfinite(array).all() for array in learned):
            self.restore(before)
            raise Refused(
                f"round {broadcast.t} gives numbers that are not finite, and is left out: the "
                "broadcast or a row is too large, or the steps are"
            )
        self.y_hat, self.regret = y_hat, float(self.losses[0] - self.losses[1:].min())
        return update

    def _draw(self, t: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the random numbers and the noise of round t; skip the numbers of missed rounds."""
        n_draws = self.job.algorithm.draws(self.params)[0]
        if t > self.job.lengths.max():
            raise ValueError(f"the broadcast is of round {t}: there are fewer")
        missed = max(0, t - 1 - self._drawn)
        self._rng.random((missed, n_draws))
        self._drawn = t
        if not self.private:
            return self._rng.random(n_draws), np.zeros(0)
        return self._rng.random(n_draws), self.noise.standard_normal(self._normals)

    def take(self, broadcast: Broadcast) -> None:
        """Take over a broadcast. Raises the errors of ``play`` before it changes anything."""
        server, sends_rows = self.server, self.job.algorithm.announces[0]
        N, width = server.model.theta.shape
        n, n_weights = (sends_rows, 0) if sends_rows else (N, len(server.log_w))
        asked = np.zeros(len(broadcast.asked), dtype=np.int64)
        senders = np.zeros(N + 2 if self.every > 1 else 0)
        if self.every > 1:
            n_weights = len(server.losses)
        own = np.zeros((n, width)), np.zeros(n_weights), server.announced, asked, senders
        _require_fit(Broadcast(0, *own), broadcast, N)
        if self.every > 1:
            self._learn_exchanged(broadcast)
            return
        server.announced[:] = broadcast.announced
        rows = server.announced[:sends_rows] if sends_rows else range(N)
        for i, values in zip(rows, broadcast.theta, strict=True):
            set_row(server.model, i, values)
        if not sends_rows:
            server.log_w[:] = broadcast.log_w

    def _learn_exchanged(self, broadcast: Broadcast) -> None:
        """Learn from the sums of all clients' messages in the last exchange."""
        state = self.server
        *senders_of, n_senders, members = broadcast.senders
        if members > 0.0:
            state.sums[...], state.losses[...] = broadcast.theta, broadcast.log_w
            state.senders_of[...] = senders_of
            state.senders[0], state.members[0] = n_senders, members
            compiled_for(type(self.params), run_aggregation)(
                self.params, state, broadcast.t - self.every, self._inbox
            )

    def _update(self, t: int, asked: bool) -> Update:
        message = self._message
        n, e = message.n if asked else (0, 0)
        arrays = (message.rows[:n], message.theta[:n], message.losses[:e])
        return Update(self.client, t, *(array.copy() for array in arrays))

    def checkpoint(self) -> dict[str, np.ndarray]:
        """Return all arrays that must survive a restart."""
        kept = {name: array.copy() for name, array in self.state._asdict().items()}
        if self.every > 1:
            shared = self.server.model.theta, self.server.log_w
            kept |= {"shared.theta": shared[0].copy(), "shared.log_w": shared[1].copy()}
        return kept | {"losses": self.losses.copy(), "drawn": np.array([self._drawn])}

    def restore(self, checkpoint: Mapping[str, np.ndarray]) -> None:
        """Continue from the arrays of ``checkpoint()``."""
        self._rewind()
        for name, array in self.state._asdict().items():
            array[...] = checkpoint[name]
        if self.every > 1:
            self._put_shared(checkpoint["shared.theta"], checkpoint["shared.log_w"])
        self.losses[...] = checkpoint["losses"]
        self._drawn = int(checkpoint["drawn"][0])
        self._rng.random((self._drawn, self.job.algorithm.draws(self.params)[0]))

    def _put_shared(self, theta: np.ndarray, log_w: np.ndarray) -> None:
        for i, values in enumerate(theta):
            set_row(self.server.model, i, values)
        self.server.log_w[...] = log_w
