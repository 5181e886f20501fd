"""The server of a federation: the conversation with its clients, round by round.

A round is closed when ``quorum`` clients have answered, when all that are connected have, or after
``time_limit`` seconds. A client that has left is waited for some seconds, in which a process that
was killed and started again takes the place of the old one; who comes back is asked at once. A
client has one request at a time: who is late is asked for the present round after its answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import http
import logging
import socket
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from omkl.federated.parties import Broadcast, Refused
from omkl.federation import keys
from omkl.federation.coordinator import SHOWN, Coordinator, Member
from omkl.federation.transport import (
    PING_SECONDS,
    REPLACED,
    Message,
    pack_message,
    pack_round,
    read_reply,
    unpack_message,
)

log = logging.getLogger(__name__)

WAKE = 0.5  # seconds between two looks at the clock and at the folder of keys
GRACE = 5.0  # seconds that an open round waits for a client that was there and is gone
FAREWELL = 30.0  # seconds in which clients take the last parameters
VIOLATION, TOO_BIG = 1008, 1009  # close codes of RFC 6455


class PendingRequest(NamedTuple):
    """What a client was sent and has not answered: "terms", "round" or "finished", in round t."""

    kind: str
    t: int


@dataclasses.dataclass(eq=False)
class Peer:
    """A connection: with which key, which client it speaks for, and what it was asked."""

    connection: ServerConnection
    key: str
    member: Member | None = None
    pending: PendingRequest | None = None
    asked_in: int = 0  # the last round that it was asked for

    @property
    def client(self) -> int:
        assert self.member is not None
        return self.member.client


class ServerLoop:
    """What the server says to its clients, and what it makes of their answers.

    Parameters
    ----------
    coordinator
        The federation; its rounds are played here.
    host, port
        Where to listen; port 0 takes one that is free.
    trusted
        The folder of the server's certificate and of the clients' keys, to which others can be
        added while it runs. None: no TLS, and any client takes part.
    quorum
        Answers that close a round; None: of all clients.
    time_limit
        Seconds after which a round is closed.
    progress
        Called with t after every round.

    Raises
    ------
    ValueError
        Where certificates are missing or wrong, or nobody can listen there.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        host: str,
        port: int,
        trusted: Path | None,
        quorum: int | None,
        time_limit: float,
        progress: Callable[[int], None] = lambda t: None,
    ) -> None:
        self._coordinator = coordinator
        self._n_clients = coordinator.terms.n_clients
        self._quorum = min(quorum or self._n_clients, self._n_clients)
        self._time_limit, self._progress = time_limit, progress
        self._trusted, self._keys, self._looked = trusted, set[str](), -WAKE
        self._peers: dict[str, Peer] = {}
        self._problem = ""  # with the keys in the folder, told once
        self._context = None if trusted is None else keys.server_context(trusted)
        self._read_keys(first=True)
        self._socket = _listening(host, port)
        self.port = int(self._socket.getsockname()[1])
        self._gone: dict[int, float] = {}  # clients that have left, and when
        self._informed: set[int] = set()  # clients that have the last parameters
        self._changed = asyncio.Event()
        self._sending: set[asyncio.Task[None]] = set()
        self._connections = weakref.WeakSet[ServerConnection]()

    async def run(self) -> None:
        """Play all rounds that are left."""
        try:
            await self._run()
        finally:
            # Who connects while the server ends is on no list of websockets, and stays open.
            for connection in self._connections:
                if hasattr(connection, "transport"):  # TLS is agreed on
                    connection.transport.abort()
            await asyncio.sleep(0)  # until they are closed

    async def _run(self) -> None:
        async with serve(
            self._converse,
            create_connection=self._connection,  # type: ignore[arg-type]
            sock=self._socket,
            ssl=self._context,
            process_request=self._let_in,
            compression=None,
            max_size=self._coordinator.largest_message,
            ping_interval=PING_SECONDS,
            ping_timeout=PING_SECONDS,
            close_timeout=1.0,
        ):
            await self._gather_quorum()
            while not self._coordinator.over:
                if self._ready():
                    await self._play_round()
                    self._progress(self._coordinator.t)
                else:
                    await self._wait()
            await self._say_farewell()

    # --- rounds ---------------------------------------------------------------------------------

    async def _gather_quorum(self) -> None:
        """Wait for as many clients as close a round.

        A server that goes on waits ``time_limit`` seconds for them, then for one client alone.
        """
        goes_on = self._coordinator.t > 0
        end = time.monotonic() + self._time_limit
        while not self._coordinator.over and len(self._ready()) < self._needed():
            await self._wait()
            if goes_on and time.monotonic() > end and self._ready():
                break

    def _ready(self) -> list[Peer]:
        """Those that have a row for the next round, in the order of the clients."""
        there = [p for p in self._peers.values() if p.member and not self._done(p.client)]
        return sorted(there, key=lambda peer: peer.client)

    def _done(self, client: int) -> bool:
        return self._coordinator.is_done(client)

    def _needed(self) -> int:
        """How many answers close a round: the quorum, or all where fewer clients are left."""
        left = sum(not self._done(k) for k in range(self._n_clients))
        return min(self._quorum, left)

    async def _play_round(self) -> None:
        needed, broadcast = self._needed(), self._coordinator.open_round()
        end = time.monotonic() + self._time_limit
        while True:
            for peer in self._ready():
                if peer.pending is None and peer.asked_in < broadcast.t:
                    self._ask(peer, broadcast)
            waiting = [peer for peer in self._ready() if peer.pending is not None]
            if len(self._coordinator.answered) >= needed or not (waiting or self._may_be_back()):
                break
            if time.monotonic() >= end:
                for peer in waiting:
                    self._coordinator.note(peer.client, "no reply in time")
                break
            await self._wait(end - time.monotonic())
        self._coordinator.close_round()

    def _ask(self, peer: Peer, broadcast: Broadcast) -> None:
        if peer.client in self._coordinator.answered:
            return
        peer.asked_in = broadcast.t
        self._gone.pop(peer.client, None)
        self._request(peer, "round", broadcast.t, pack_round("round", peer.client, broadcast))

    def _may_be_back(self) -> bool:
        """Whether a client that has not answered has just left."""
        return any(
            time.monotonic() - since < GRACE and not self._done(client)
            for client, since in self._gone.items()
            if client not in self._coordinator.answered
        )

    async def _say_farewell(self) -> None:
        """Give all that are there the last parameters, for their models."""
        last, members = self._coordinator.last_broadcast(), self._coordinator.members
        end = time.monotonic() + FAREWELL
        while time.monotonic() < end and len(self._informed) < len(members):
            for peer in self._peers.values():
                asked = peer.pending is not None and peer.pending.kind == "finished"
                if peer.member and peer.client not in self._informed and not asked:
                    content = pack_round("finished", peer.client, last)
                    self._request(peer, "finished", last.t, content)
            await self._wait()

    async def _wait(self, seconds: float = WAKE) -> None:
        """Until something has come, or to look at the clock."""
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), max(0.0, min(seconds, WAKE)))
        self._read_keys()

    # --- connections ----------------------------------------------------------------------------

    def _read_keys(self, first: bool = False) -> None:
        """Take over the keys that are in the folder by now; no others may connect, or stay.

        A file that cannot be read, since it is still being copied say, is told of once, and leaves
        the others as they are; at the start it is an error.
        """
        now = time.monotonic()
        if self._trusted is None or self._context is None or now - self._looked < WAKE:
            return
        self._looked = now
        try:
            certificates = keys.trusted_certificates(self._trusted)
        except (OSError, ValueError) as error:
            if first:
                raise
            if str(error) != self._problem:
                self._problem = str(error)
                log.warning("%s", error)
            return
        self._problem = ""
        for key, certificate in certificates.items():
            if key not in self._keys:
                keys.trust(self._context, certificate)
        self._keys = set(certificates)
        for key in [key for key in self._peers if key not in self._keys]:
            self._turn_away(self._peers.pop(key), "its key was taken away")

    def _connection(self, *arguments: Any, **options: Any) -> ServerConnection:
        connection = ServerConnection(*arguments, **options)
        self._connections.add(connection)
        return connection

    def _key_of(self, connection: ServerConnection) -> str | None:
        """The fingerprint of the client's key; without TLS that of its token."""
        if self._context is None:
            token = (
                connection.request.headers.get("Authorization", "") if connection.request else ""
            )
            return hashlib.sha256(token.encode()).hexdigest() if token else None
        certificate = connection.transport.get_extra_info("ssl_object").getpeercert(True)
        key = keys.fingerprint(keys.x509.load_der_x509_certificate(certificate))
        return key if key in self._keys else None

    def _let_in(self, connection: ServerConnection, request: Request) -> Response | None:
        if self._key_of(connection) is None:
            return connection.respond(http.HTTPStatus.FORBIDDEN, "this key may not take part\n")
        return None

    async def _converse(self, connection: ServerConnection) -> None:
        """Greet who came, and take what it says until it leaves."""
        key = self._key_of(connection)
        if key is None:
            return
        earlier = self._peers.get(key)
        if earlier is not None:
            self._leave(earlier, "it is another process now")
            self._later(earlier.connection.close(REPLACED, "another process uses this key"))
        peer = self._peers[key] = Peer(connection, key)
        terms = pack_message("terms", terms=self._coordinator.terms.text())
        self._request(peer, "terms", self._coordinator.t, terms)
        why = "it has left"
        try:
            async for data in connection:
                self._take(peer, data)
                self._changed.set()
        except ConnectionClosed as error:
            if error.sent is not None and error.sent.code == TOO_BIG:
                why += ": its message is larger than one of this federation can be"
        if self._peers.get(key) is peer:
            del self._peers[key]
            self._leave(peer, why)

    def _request(self, peer: Peer, kind: str, t: int, content: bytes) -> None:
        peer.pending = PendingRequest(kind, t)
        self._later(peer.connection.send(content))

    def _later(self, sending: Any) -> None:
        """Send without waiting for a client that does not read."""

        async def send() -> None:
            with contextlib.suppress(ConnectionClosed):
                await sending

        task = asyncio.get_running_loop().create_task(send())
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    def _leave(self, peer: Peer, why: str) -> None:
        if peer.member and not self._coordinator.over:
            self._gone[peer.client] = time.monotonic()
            self._coordinator.note(peer.client, why)
        self._changed.set()

    # --- what clients say -----------------------------------------------------------------------

    def _take(self, peer: Peer, data: str | bytes) -> None:
        pending, peer.pending = peer.pending, None
        client = peer.member.client if peer.member else None
        if pending is None:
            self._turn_away(peer, "it speaks without being asked")
            return
        try:
            message = unpack_message(data)
            if message.kind == "declined":
                self._take_refusal(peer, str(message.fields["reason"]))
            elif message.kind == "failed" and pending.kind != "round":
                self._turn_away(peer, f"failed: {last_line(message.fields['reason'])}")
            elif pending.kind == "terms":
                self._take_member(peer, message)
            elif pending.kind == "finished":
                self._take_farewell(peer, pending, message)
            elif message.kind == "failed":
                reason = last_line(message.fields["reason"])
                self._coordinator.note(client, f"failed in round {pending.t}: {reason}")
            else:
                self._coordinator.receive(peer.key, *read_reply(message))
        except Refused as error:  # the coordinator has noted it
            self._close(peer, str(error))
        except Exception as error:  # whatever came: it is one client's
            self._coordinator.note(client, f"its message cannot be read: {error!r}")

    def _take_refusal(self, peer: Peer, reason: str) -> None:
        if peer.member is None:
            problem = f"node {peer.key[:SHOWN]} does not join: {reason}"
            self._coordinator.note(None, problem)
        else:
            self._coordinator.note(peer.client, f"it has left: {reason}")
            peer.member = None

    def _take_member(self, peer: Peer, message: Message) -> None:
        fields = message.fields
        wished = fields.get("wished")
        peer.member = self._coordinator.admit(
            peer.key,
            [str(column) for column in fields["columns"]],
            None if wished is None else int(wished),
            str(fields.get("name", "")),
        )
        log.info("client %d, %s, is there", *peer.member)

    def _take_farewell(self, peer: Peer, pending: PendingRequest, message: Message) -> None:
        if message.kind == "finished":
            self._informed.add(peer.client)
        else:  # the answer to a round that is over
            peer.pending = pending

    def _turn_away(self, peer: Peer, reason: str) -> None:
        self._coordinator.note(peer.member.client if peer.member else None, reason)
        self._close(peer, reason)

    def _close(self, peer: Peer, reason: str) -> None:
        async def close() -> None:
            await peer.connection.send(pack_message("refused", reason=reason))
            await peer.connection.close(VIOLATION)

        peer.member = None
        self._later(close())


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ValueError(f"cannot serve on {host}:{port}: {error.strerror}") from None


def last_line(reason: Any) -> str:
    """The last line of an error, which says what it was."""
    lines = [line for line in str(reason).splitlines() if line.strip()]
    return lines[-1] if lines else "no reason"
