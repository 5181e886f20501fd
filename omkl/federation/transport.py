"""Messages between the server and the clients of a federation, and the client's connection.

A message is one binary WebSocket message: the length of a header in four bytes, the header as JSON
(``kind``, numbers and texts, and name, type and shape of each array), then the arrays one after
another, little-endian float64 or int64. Nothing is pickled and nothing is compressed.

    server to client    terms, round, finished, refused
    client to server    joined, reply, failed, declined, finished
"""

from __future__ import annotations

import json
import math
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from websockets.exceptions import (
    ConnectionClosed,
    InvalidMessage,
    InvalidStatus,
    WebSocketException,
)
from websockets.sync.client import connect

from omkl.federated.parties import Broadcast, Update
from omkl.federation.data_owner import Reply

TYPES = {"f8": np.float64, "i8": np.int64}
MOST_BYTES = 2**28  # of a message to a client, which does not know the terms before the first
REPLACED = 4000  # close code: another process uses the same key
PING_SECONDS = 20.0  # a party that is gone without a word is noticed after two of these
# How it ends where the server does not know the key: TLS 1.3 refuses a certificate after the
# handshake, when nobody reads the reason.
NOT_LET_IN = (
    InvalidStatus,
    InvalidMessage,
    ConnectionClosed,
    ConnectionResetError,
    BrokenPipeError,
)
RETRY_SECONDS = 2.0  # between two attempts to reach a server that is not there


class Message(NamedTuple):
    """What arrived: ``kind`` says what it is; a reader asks for the fields that it needs."""

    kind: str
    fields: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]


def pack_message(kind: str, arrays: Mapping[str, np.ndarray] | None = None, **fields: Any) -> bytes:
    """The bytes of a message; arrays are of float64 or int64."""
    listed, content = [], []
    for name, array in (arrays or {}).items():
        code = "i8" if array.dtype.kind == "i" else "f8"
        listed.append([name, code, list(array.shape)])
        content.append(array.astype(f"<{code}").tobytes())
    header = json.dumps({**fields, "kind": kind, "arrays": listed}).encode()
    return b"".join([len(header).to_bytes(4, "little"), header, *content])


def unpack_message(data: str | bytes) -> Message:
    """What ``pack_message`` made; ValueError for anything else.

    Arrays are copies: nothing that is kept refers to the buffer that arrived.
    """
    try:
        if isinstance(data, str):
            raise TypeError("a text")
        start = 4 + int.from_bytes(data[:4], "little")
        header = json.loads(data[4:start])
        arrays = {}
        for name, code, shape in header.pop("arrays"):
            if any(n < 0 for n in shape):
                raise ValueError("a negative length")
            size = math.prod(shape)
            kind = np.dtype(TYPES[code])
            flat = np.frombuffer(data[start : start + 8 * size], kind.newbyteorder("<"), size)
            arrays[str(name)] = flat.reshape(shape).astype(kind)
            start += 8 * size
        if start != len(data):
            raise ValueError(f"{len(data) - start} bytes too many")
        return Message(str(header.pop("kind")), header, arrays)
    except (
        TypeError,
        ValueError,
        KeyError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise ValueError(f"these bytes are no message: {error!r}") from None


def pack_round(kind: str, client: int, broadcast: Broadcast) -> bytes:
    """A broadcast to one client, as ``round`` or, after the last round, as ``finished``."""
    arrays = broadcast._asdict()
    return pack_message(kind, client=client, t=arrays.pop("t"), arrays=arrays)


def read_round(message: Message) -> tuple[int, Broadcast]:
    """The client that is asked, and the broadcast."""
    arrays = [message.arrays[name] for name in Broadcast._fields[1:]]
    return int(message.fields["client"]), Broadcast(int(message.fields["t"]), *arrays)


def pack_reply(client: int, t: int, reply: Reply) -> bytes:
    """A client's answer; besides the update, two numbers are all that it tells of its rows."""
    fields = reply._asdict()
    update = fields.pop("update")
    names = () if update is None else Update._fields[2:]
    arrays = {name: getattr(update, name) for name in names}
    return pack_message("reply", client=client, t=t, arrays=arrays, **fields)


def read_reply(message: Message) -> tuple[int, int, Reply]:
    """The client that speaks, the round, and its reply; raises whatever is wrong with it."""
    fields, arrays = message.fields, message.arrays
    client, t = int(fields["client"]), int(fields["t"])
    update = None
    if arrays:
        update = Update(client, t, *(arrays[name] for name in Update._fields[2:]))
    measured = float(fields["squared_error"]), float(fields["regret"])
    return client, t, Reply(update, *measured, bool(fields["done"]))


# --- the client's connection --------------------------------------------------------------------


def converse(
    address: str,
    context: ssl.SSLContext | None,
    token: str | None,
    answer: Callable[[Message], bytes | None],
    over: Callable[[], bool],
    tell: Callable[[str], None],
) -> None:
    """Answer the messages of the server ``host:port`` until it is ``over``.

    ``context`` has the client's key and the authority that it trusts; without, there is no TLS and
    ``token`` stands for the key. A server that is not there is waited for.
    """
    last_reason = ""
    while not over():
        connected = False
        try:
            with connect(
                f"{'ws' if context is None else 'wss'}://{address}",
                ssl=context,
                additional_headers={} if token is None else {"Authorization": f"Bearer {token}"},
                compression=None,
                max_size=MOST_BYTES,
                ping_interval=PING_SECONDS,
                ping_timeout=PING_SECONDS,
                close_timeout=RETRY_SECONDS,
            ) as connection:
                tell(f"connected to {address}")
                connected, last_reason = True, ""
                while not over():
                    reply = answer(unpack_message(connection.recv()))
                    if reply is not None:
                        connection.send(reply)
            return
        except (OSError, WebSocketException) as error:
            closed = error.rcvd if isinstance(error, ConnectionClosed) else None
            if closed is not None and closed.code == REPLACED:
                raise ValueError(
                    "another process uses this client's key: end one of them"
                ) from None
            reason = f"no server at {address}: {error}"
            if connected:
                reason = f"the server at {address} is gone"
            elif context is not None and isinstance(error, NOT_LET_IN):
                reason = (
                    f"the server at {address} closes the connection. Does it know this key? Give "
                    "the .pub file to whoever runs the server"
                )
        if reason != last_reason:
            tell(f"{reason}; trying again (Ctrl-C ends)")
            last_reason = reason
        time.sleep(RETRY_SECONDS)
