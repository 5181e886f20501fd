"""The server of a federation of holders: the talk with its clients, round by round.

A round is closed when ``quorum`` clients have answered, when all that are there have, or after
``time_limit`` seconds. Who has left is waited for some seconds, in which a process that was killed
and started again takes the place of the old one; who comes back is asked at once.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from flwr.app import Message, RecordDict
from flwr.common.constant import ErrorCode

from omkl.federated.parties import Broadcast, Refused
from omkl.federation.flower import keys
from omkl.federation.flower.link import Link
from omkl.federation.flower.records import asked_record, last_line, read_reply, read_said, said
from omkl.federation.holders.coordinator import Coordinator
from omkl.federation.holders.members import SHOWN, Member, fingerprint

log = logging.getLogger(__name__)

POLL = 0.01  # seconds between two looks at the replies
LOOK = 0.5  # seconds between two looks at who is there
GRACE = 5.0  # seconds that an open round waits for a client that was there and is gone
FAREWELL = 30.0  # seconds in which clients take the last parameters


@dataclasses.dataclass
class Peer:
    """A node that is there: since when, with which key, and which client it speaks for."""

    node: int
    since: str
    key: str
    member: Member | None = None
    turned_away: bool = False
    asked_in: int = 0  # the last round that it was asked for


class Asked(NamedTuple):
    """A message that was sent, in round t: "terms", "round", "finished" or "refused"."""

    node: int
    about: str
    t: int


class Talk:
    """What the server says to its clients, and what it makes of their answers.

    ``trusted`` is the folder of the keys that may take part, to which others can be added; None:
    anybody's. ``progress(t)`` is called after every round.
    """

    def __init__(
        self,
        link: Link,
        coordinator: Coordinator,
        trusted: Path | None,
        quorum: int | None,
        time_limit: float,
        progress: Callable[[int], None] = lambda t: None,
    ) -> None:
        self._link, self._coordinator, self._trusted = link, coordinator, trusted
        self._n_clients = coordinator.terms.n_clients
        self._quorum = min(quorum or self._n_clients, self._n_clients)
        self._time_limit, self._progress = time_limit, progress
        self._peers: dict[int, Peer] = {}
        self._asked: dict[str, Asked] = {}
        self._gone: dict[int, float] = {}  # clients that have left, and when
        self._told: set[int] = set()  # clients that know it is over
        self._looked = 0.0

    def run(self) -> None:
        """All rounds that are left, from when a quorum is there.

        A server that goes on waits ``time_limit`` seconds for it, then for one client alone.
        """
        goes_on = self._coordinator.t > 0
        end = time.monotonic() + self._time_limit
        while not self._coordinator.over and len(self._ready()) < self._needed():
            self._listen()
            if goes_on and time.monotonic() > end and self._ready():
                break
        while not self._coordinator.over:
            if self._ready():
                self._round()
                self._progress(self._coordinator.t)
            else:
                self._listen()
        self._part()

    def _ready(self) -> list[Peer]:
        """Those that have a row for the next round, in the order of the clients."""
        there = [p for p in self._peers.values() if p.member and not self._done(p.member.client)]
        return sorted(there, key=_client_of)

    def _done(self, client: int) -> bool:
        return self._coordinator.is_done(client)

    def _needed(self) -> int:
        """How many answers close a round: the quorum, or all where fewer clients are left."""
        left = sum(not self._done(k) for k in range(self._n_clients))
        return min(self._quorum, left)

    def _round(self) -> None:
        needed, broadcast = self._needed(), self._coordinator.open_round()
        end = time.monotonic() + self._time_limit
        while True:
            for peer in self._ready():
                if peer.asked_in < broadcast.t:
                    self._ask_round(peer, broadcast)
            self._listen()
            waiting = self._waiting(broadcast.t)
            if len(self._coordinator.answered) >= needed or not (waiting or self._may_be_back()):
                break
            if time.monotonic() >= end:
                for peer in waiting:
                    self._coordinator.note(_client_of(peer), "no reply in time")
                break
        self._coordinator.close_round()

    def _ask_round(self, peer: Peer, broadcast: Broadcast) -> None:
        client = _client_of(peer)
        if client in self._coordinator.answered:
            return
        peer.asked_in = broadcast.t
        self._gone.pop(client, None)
        self._send(peer, "round", broadcast.t, "train", asked_record(broadcast, client))

    def _may_be_back(self) -> bool:
        """Whether a client that has not answered has just left."""
        return any(
            time.monotonic() - since < GRACE and not self._done(client)
            for client, since in self._gone.items()
            if client not in self._coordinator.answered
        )

    def _waiting(self, t: int) -> list[Peer]:
        """Those that were asked for round t and are there, in the order of the clients."""
        nodes = {a.node for a in self._asked.values() if a.about == "round" and a.t == t}
        return sorted((p for n, p in self._peers.items() if n in nodes), key=_client_of)

    def _send(self, peer: Peer, about: str, t: int, kind: str, content: RecordDict) -> None:
        message = Message(content, dst_node_id=peer.node, message_type=kind, group_id=str(t))
        (identity,) = self._link.grid.push_messages([message])
        if identity:
            self._asked[identity] = Asked(peer.node, about, t)

    def _listen(self) -> None:
        """Take what has come, and look who is there."""
        if time.monotonic() - self._looked >= LOOK:
            self._look()
            self._looked = time.monotonic()
        for message in self._link.grid.pull_messages(list(self._asked)):
            asked = self._asked.pop(message.metadata.reply_to_message_id, None)
            if asked is not None:
                self._take(asked, message)
        time.sleep(POLL)

    def _look(self) -> None:
        """Greet who came, or came back as another process; leave out who is gone."""
        if self._trusted is not None:
            for key in keys.public_keys(self._trusted).values():
                self._link.register(key)
        there = {info.node_id: info for info in self._link.grid.nodes()}
        for node in [n for n in self._peers if n not in there]:
            self._leave(self._peers.pop(node), "it has left")
        for node, info in there.items():
            since = str(info.last_activated_at)
            known = self._peers.get(node)
            if known is not None and known.since == since:
                continue
            if known is not None:
                self._leave(known, "it is another process now")
            peer = self._peers[node] = Peer(node, since, fingerprint(info.public_key))
            terms = said(terms=self._coordinator.terms.text())
            self._send(peer, "terms", self._coordinator.t, "query", terms)

    def _leave(self, peer: Peer, why: str) -> None:
        self._asked = {i: asked for i, asked in self._asked.items() if asked.node != peer.node}
        if peer.member and not self._coordinator.over:
            self._gone[peer.member.client] = time.monotonic()
            self._coordinator.note(peer.member.client, why)

    def _take(self, asked: Asked, message: Message) -> None:
        peer = self._peers.get(asked.node)
        if peer is None:
            return
        client = peer.member.client if peer.member else None
        if message.has_error() and message.error.code == ErrorCode.NODE_UNAVAILABLE:
            if client is not None:  # the next look says what became of it
                self._gone[client] = time.monotonic()
            return
        if message.has_error():
            reason = last_line(message.error.reason)
            self._coordinator.note(client, f"failed in round {asked.t}: {reason}")
            return
        try:
            if asked.about == "terms":
                self._take_member(peer, message.content)
            elif asked.about == "round":
                self._take_reply(peer, message.content)
        except Refused as error:  # the coordinator has noted it
            peer.turned_away = True
            self._send(peer, "refused", asked.t, "query", said(refused=str(error)))
        except Exception as error:  # whatever came: it is one client's
            self._coordinator.note(client, f"its message cannot be read: {error!r}")

    def _take_member(self, peer: Peer, content: RecordDict) -> None:
        words = read_said(content)
        if "refused" in words:
            peer.turned_away = True
            self._coordinator.note(
                None, f"node {peer.key[:SHOWN]} does not join: {words['refused']}"
            )
            return
        wished = words.get("wished")
        peer.member = self._coordinator.admit(
            peer.key,
            [str(column) for column in words["columns"]],
            None if wished is None else int(wished),
            str(words.get("name", "")),
        )
        log.info("client %d, %s, is there", *peer.member)

    def _take_reply(self, peer: Peer, content: RecordDict) -> None:
        if "said" in content.config_records:
            words = read_said(content)
            client = _client_of(peer)
            if words.get("unknown"):  # its folder is new: greeted again
                self._coordinator.note(client, "it does not know the terms any more")
                self._peers.pop(peer.node)
            else:
                self._coordinator.note(client, f"it has left: {words.get('refused')}")
                peer.member = None
            return
        client, t, reply = read_reply(content)
        self._coordinator.receive(peer.key, client, t, reply)

    def _part(self) -> None:
        """Give all that are there the last parameters, for their models."""
        last, members = self._coordinator.last_broadcast(), self._coordinator.members
        end = time.monotonic() + FAREWELL
        waiting: set[int] = set()
        while time.monotonic() < end and (waiting or len(self._told) < len(members)):
            for peer in self._peers.values():
                if peer.member and peer.member.client not in self._told:
                    self._told.add(peer.member.client)
                    content = asked_record(last, peer.member.client)
                    content["said"] = said(finished=True)["said"]
                    self._send(peer, "finished", last.t, "query", content)
            self._listen()
            waiting = {a.node for a in self._asked.values() if a.about == "finished"}


def _client_of(peer: Peer) -> int:
    assert peer.member is not None
    return peer.member.client
