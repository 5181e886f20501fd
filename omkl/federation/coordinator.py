"""The server of a federation without its network: terms, members, rounds, and its folder.

    terms.json     what every client is told
    clients.json   which key speaks for which client
    state.npz      after the last round that was closed
    rounds.jsonl   a line a round: what each client measured
    events.jsonl   what did not count, and why
    model.npz      in the end, for ``omkl.load_learner`` and ``omkl-predict``

A server that was killed goes on from its folder: the round that was open is asked for again, and
clients that have played it give the reply that they gave.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl.federated.parties import Broadcast, Event, Refused, Server
from omkl.federation import terms as agreement
from omkl.federation.data_owner import MODEL, STATE, TERMS, Reply
from omkl.federation.models import server_model
from omkl.federation.terms import Terms
from omkl.utils.disk import npz_bytes, write_atomically
from omkl.utils.wording import few, plain

LONGEST_NAME = 80  # characters of a client's name

CLIENTS, ROUNDS, EVENTS = "clients.json", "rounds.jsonl", "events.jsonl"
SHOWN = 12  # hex digits of a key's fingerprint in print
OVERHEAD = 2**16  # bytes of a message beside its numbers and the names of columns


class Member(NamedTuple):
    """A client, and what it calls itself."""

    client: int
    name: str


class Members:
    """The clients of a federation by the fingerprint of their key; ``path`` keeps them."""

    def __init__(self, n_clients: int, path: Path | None = None) -> None:
        self.n_clients, self._path = n_clients, path
        self._by_key: dict[str, Member] = {}
        if path is not None and path.exists():
            kept = json.loads(path.read_text())
            self._by_key = {key: Member(**member) for key, member in kept.items()}

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, key: str) -> Member | None:
        return self._by_key.get(key)

    def names(self) -> list[str]:
        """Of all clients, in their order; those that never came are numbered."""
        names = {member.client: member.name for member in self._by_key.values()}
        return [names.get(k, str(k + 1)) for k in range(self.n_clients)]

    def bind(self, key: str, wished: int | None, name: str) -> Member:
        """The client that this key speaks for from now on: ``wished``, or the first that is free.

        Refused where the key speaks for another client, or the client has another key.
        """
        member = self._by_key.get(key)
        if member is not None:
            self.require(key, member.client if wished is None else wished)
            return member
        taken = {other.client for other in self._by_key.values()}
        free = [k for k in range(self.n_clients) if k not in taken]
        client = wished if wished is not None else (free[0] if free else self.n_clients)
        if not 0 <= client < self.n_clients:
            problem = f"there are {self.n_clients} clients, all here" if wished is None else (
                f"there is no client {client}: the last of {self.n_clients} is {self.n_clients - 1}"
            )  # fmt: skip
            raise Refused(f"node {key[:SHOWN]} is refused: {problem}")
        if client in taken:
            self.require(key, client)
        member = Member(client, " ".join(plain(name).split())[:LONGEST_NAME] or str(client + 1))
        self._by_key[key] = member
        if self._path is not None:
            kept = {key: bound._asdict() for key, bound in self._by_key.items()}
            write_atomically(self._path, json.dumps(kept, indent=1))
        return member

    def keep(self, keys: Iterable[str]) -> None:
        """Forget all others: of nodes without a key, those that are gone."""
        there = set(keys)
        self._by_key = {key: m for key, m in self._by_key.items() if key in there}

    def require(self, key: str, client: int) -> None:
        """Refused, with the names of both, unless this key speaks for the client."""
        member = self._by_key.get(key)
        if member is not None and member.client == client:
            return
        owner = next((k for k, m in self._by_key.items() if m.client == client), None)
        is_it = f"which is node {owner[:SHOWN]}" if owner else "which nobody is yet"
        itself = f"; it is client {member.client}" if member else ""
        raise Refused(f"node {key[:SHOWN]} says that it is client {client}, {is_it}{itself}")


class Measured(NamedTuple):
    """What the clients measured, (T, K) each, NaN where a client took no part.

    squared_error  in units of the target; NaN in a client's first round too, where it scales
                   by what it has seen
    regret         (11), in the units that are learned in
    seconds        from the opening of each round to its closing, summed
    """

    squared_error: np.ndarray
    regret: np.ndarray
    seconds: float


class Coordinator:
    """The server with its folder; ValueError if the folder is another federation's.

    stop   the round after which it is over, although clients have rows left; None: none
    used   (N,) int64 messages that held a row of the shared parameters
    sent   (K, 2) int64 numbers and rows that each client has sent
    """

    def __init__(self, folder: Path, terms: Terms, stop: int | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.stop = folder, stop
        self.terms = _terms_of(folder, terms)
        self.plan = agreement.plan_of(self.terms)
        agreement.warm_up(self.plan)
        self.server = Server(self.plan, self.plan.settings.seed)
        numbers = self.server.most_numbers + len(self.server.state.model.theta)
        # In bytes: a client names its columns, and sends numbers and the rows that they are of.
        self.largest_message = OVERHEAD + 2 * len(self.terms.text()) + 8 * numbers
        self.members = Members(self.terms.n_clients, folder / CLIENTS)
        self.used = np.zeros(len(self.server.state.model.theta), dtype=np.int64)
        self.sent = np.zeros((self.terms.n_clients, 2), dtype=np.int64)
        self._replies: dict[int, Reply] = {}
        self._lines: list[dict[str, Any]] = []
        self._n_events = 0
        self._opened = time.perf_counter()
        self._read_state()

    @property
    def t(self) -> int:
        """The last round that was closed."""
        return len(self._lines)

    @property
    def over(self) -> bool:
        """Whether no round is left."""
        if self.stop is not None and self.t >= self.stop:
            return True
        return bool((self.server.lengths <= self.t).all())

    def admit(self, key: str, columns: list[str], wished: int | None, name: str) -> Member:
        """The client that this key speaks for; Refused, and an event, with the reason."""
        try:
            if sorted(columns) != sorted(self.terms.inputs):
                raise Refused(
                    f"{name or key} has the columns {few(columns)}; the federation has "
                    f"{few(self.terms.inputs)}"
                )
            return self.members.bind(key, wished, name)
        except Refused as error:
            self.note(wished, str(error))
            raise

    def is_done(self, client: int) -> bool:
        """Whether the client has no row left for the next round."""
        return bool(self.server.lengths[client] <= self.t)

    def open_round(self) -> Broadcast:
        """Begin a round; returns what the clients are sent."""
        self._opened, self._replies = time.perf_counter(), {}
        return self.server.broadcast()

    def receive(self, key: str, client: int, t: int, reply: Reply) -> bool:
        """Take a reply of the node with this key; False, and an event, if it does not count."""
        try:
            self.members.require(key, client)
            if reply.update is not None and reply.update.client != client:
                raise Refused(f"its message is of client {reply.update.client}")
            if t != self.server.t:
                raise Refused(f"late: its message is of round {t}")
            if client in self._replies:
                raise Refused("its second message of the round")
        except Refused as error:
            # Whose key it is, not whose number it says, is the one that is at fault.
            member = self.members.get(key)
            self.note(member.client if member else None, str(error))
            return False
        self._replies[client] = reply
        return True

    def note(self, client: int | None, reason: str) -> None:
        """Note what went wrong; the round goes on."""
        self.server.note(-1 if client is None else client, reason)

    @property
    def answered(self) -> set[int]:
        """The clients whose reply to the open round has come."""
        return set(self._replies)

    def close_round(self) -> None:
        """Learn from the replies, in the order of the clients, and keep what was learned."""
        squared, regret = {}, {}
        for client, reply in sorted(self._replies.items()):
            if reply.update is not None and self.server.receive(reply.update):
                squared[client], regret[client] = self.server.measured(
                    client, squared_error=reply.squared_error, regret=reply.regret
                )
                self.used[reply.update.rows] += 1
                n_rows, n_numbers = len(reply.update.rows), reply.update.theta.size
                self.sent[client] += n_numbers + reply.update.losses.size, n_rows
        self.server.finish()
        for client, reply in self._replies.items():
            if reply.done:
                last = self.server.t if reply.update is not None else self.server.t - 1
                self.server.lengths[client] = min(self.server.lengths[client], last)
        seconds = time.perf_counter() - self._opened
        self._lines.append({"squared_error": squared, "regret": regret, "seconds": seconds})
        self._write_state()

    def last_broadcast(self) -> Broadcast:
        """The parameters after the last round, as a broadcast of the one that would follow."""
        return self.server.broadcast()

    def measured(self) -> Measured:
        T, K = self.t, self.terms.n_clients
        arrays = {name: np.full((T, K), math.nan) for name in ("squared_error", "regret")}
        for name, array in arrays.items():
            for t, line in enumerate(self._lines):
                for client, value in line[name].items():
                    array[t, int(client)] = value
        return Measured(**arrays, seconds=sum(line["seconds"] for line in self._lines))

    def write_model(self) -> Path | None:
        """``model.npz`` of the parameters after the last round; None for a network."""
        content = server_model(self.terms, self.plan, self.server, self.t)
        if content is None:
            return None
        write_atomically(self.folder / MODEL, content)
        return self.folder / MODEL

    def _write_state(self) -> None:
        """Lines first: those of a round whose state was not written are left out again."""
        _append(self.folder / ROUNDS, self._lines[-1:])
        events = self.server.events[self._n_events :]
        _append(self.folder / EVENTS, [event._asdict() for event in events])
        self._n_events = len(self.server.events)
        counts = {"n_events": np.array(self._n_events), "used": self.used, "sent": self.sent}
        kept = self.server.checkpoint() | counts
        write_atomically(self.folder / STATE, npz_bytes(kept))

    def _read_state(self) -> None:
        if not (self.folder / STATE).exists():
            for name in (ROUNDS, EVENTS):
                (self.folder / name).unlink(missing_ok=True)
            return
        with np.load(self.folder / STATE, allow_pickle=False) as archive:
            kept = {name: archive[name] for name in archive.files}
        self._n_events = int(kept["n_events"])
        self.used[:], self.sent[:] = kept["used"], kept["sent"]
        self.server.restore(kept)
        self._lines = _cut(self.folder / ROUNDS, self.server.t)
        if len(self._lines) != self.server.t:
            raise ValueError(
                f"{self.folder / ROUNDS} has {len(self._lines)} rounds, and {STATE} is of round "
                f"{self.server.t}: lines are lost. Begin again in another folder"
            )
        events = _cut(self.folder / EVENTS, self._n_events)
        self.server.events[:] = [Event(**event) for event in events]


def reopen(folder: Path) -> Coordinator:
    """The server whose folder this is, to look at what it holds."""
    return Coordinator(folder, agreement.read_terms((folder / TERMS).read_text()))


def _terms_of(folder: Path, terms: Terms) -> Terms:
    """Those that the folder has, if they are these; written if it has none."""
    path = folder / TERMS
    if not path.exists():
        write_atomically(path, terms.text())
        return terms
    kept = agreement.read_terms(path.read_text())
    config = json.loads(terms.text())["config"]
    for settings in (config, kept.config):
        settings["dataset"].pop("name", None)
    differing = sorted(
        key for key in kept._fields
        if key not in ("identity", "config") and getattr(kept, key) != getattr(terms, key)
    )  # fmt: skip
    differing += sorted(k for k in {*config, *kept.config} if config.get(k) != kept.config.get(k))
    if differing:
        raise ValueError(
            f"{folder} holds a federation with other settings ({', '.join(differing)}): go on with "
            "those, or name another folder"
        )
    return agreement.read_terms(path.read_text())


def _append(path: Path, lines: list[dict[str, Any]]) -> None:
    with open(path, "a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
        file.flush()
        os.fsync(file.fileno())  # the state that is written next counts these lines


def _cut(path: Path, n: int) -> list[dict[str, Any]]:
    """The first n lines of a file, which holds no others from then on."""
    lines = path.read_text().splitlines(keepends=True)[:n] if n else []
    write_atomically(path, "".join(lines))
    return [json.loads(line) for line in lines]
