"""A node of a federation: Flower's Fleet API from a process that lives as long as its client.

Flower's own SuperNode asks for work every 3 s and starts a process for every message, which is 7 s
a round; here one process asks and answers. Keys, signatures, TLS and messages are Flower's.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import Message
from flwr.app.message import remove_content_from_message
from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
    RegisterNodeFleetRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import (
    ConfirmMessageReceivedRequest,
    PullObjectRequest,
    PushObjectRequest,
)
from flwr.proto.node_pb2 import Node as Node_
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

SOON, LATE = 0.02, 0.5  # seconds between two questions: after an answer, and after a while
SLOWER = 1.2  # by which they grow
GONE_SECONDS = 2.0  # between two tries of a server that is not there


class NotLetIn(ConnectionError):
    """The server does not know this node's key; the text says what to do."""


class Node:
    """A node with this key at the server ``host:port``; ``serve`` is its life.

    ``authority`` is the certificate that signed the server's; None: those that the system trusts.
    ``insecure``: no TLS, and the node registers itself. ``number`` is a file for the number that
    the server gave it, so that a node that was killed can say it is another process now.
    """

    def __init__(
        self,
        address: str,
        key: ec.EllipticCurvePrivateKey,
        authority: Path | None,
        insecure: bool,
        number: Path,
    ) -> None:
        self.address, self._key, self._insecure = address, key, insecure
        self._public = public_key_to_bytes(key.public_key())
        if authority is not None and not authority.is_file():
            raise ValueError(f"{authority} is missing: the certificate that signed the server's")
        self._authority = None if insecure or authority is None else str(authority)
        self._number = number

    def serve(
        self,
        answer: Callable[[Message], Message],
        tell: Callable[[str], None],
        ended: Callable[[], bool],
    ) -> None:
        """Answer messages until it has ``ended``; a server that is gone is waited for."""
        told = ""
        while True:
            try:
                with self._client() as client:
                    node_id = self._activated(client)
                    tell(f"connected to {self.address}")
                    told = ""
                    self._converse(client, node_id, answer, ended)
                    return
            except NotLetIn as error:
                reason = str(error)
            except httpx.HTTPStatusError as error:
                reason = f"the server at {self.address} answers {error.response.status_code}"
            except httpx.TransportError as error:
                reason = f"no server at {self.address}: {error}"
            if reason != told:
                tell(f"{reason}; trying again")
                told = reason
            time.sleep(GONE_SECONDS)

    def _client(self) -> FleetHttpClient:
        client: FleetHttpClient = FleetHttpClient.from_server_address(
            self.address,
            self._insecure,
            self._authority,
            interceptors=[
                RuntimeVersionHttpInterceptor(component_name="SuperNode"),
                NodeAuthHttpInterceptor(self._key, self._key.public_key()),
            ],
        )
        return client

    def _activated(self, client: FleetHttpClient) -> int:
        """The number of this node; NotLetIn where the server has no such key."""
        if self._insecure:
            with contextlib.suppress(httpx.HTTPStatusError):  # it is registered already
                client.RegisterNode(RegisterNodeFleetRequest(public_key=self._public))
        if self._number.exists():  # of a process that was killed and is taken to be there
            before = DeactivateNodeRequest(node_id=int(self._number.read_text()))
            with contextlib.suppress(httpx.HTTPStatusError):
                client.DeactivateNode(before)
        request = ActivateNodeRequest(
            public_key=self._public, heartbeat_interval=HEARTBEAT_DEFAULT_INTERVAL
        )
        try:
            node_id = int(client.ActivateNode(request).node_id)
        except httpx.HTTPStatusError as error:
            raise NotLetIn(
                f"the server at {self.address} does not let this key in "
                f"({error.response.status_code}): give its .pub file to whoever runs the server, "
                "or end the other process that uses this key"
            ) from None
        self._number.write_text(str(node_id))
        return node_id

    def _converse(
        self,
        client: FleetHttpClient,
        node_id: int,
        answer: Callable[[Message], Message],
        ended: Callable[[], bool],
    ) -> None:
        node = Node_(node_id=node_id)
        request = SendNodeHeartbeatRequest(node=node, heartbeat_interval=HEARTBEAT_DEFAULT_INTERVAL)

        def beat() -> bool:
            with contextlib.suppress(httpx.HTTPError):  # the conversation meets it as well
                client.SendNodeHeartbeat(request)
            return True

        heartbeat = HeartbeatSender(beat)
        heartbeat.start()
        answered, wait = time.monotonic(), SOON
        try:
            while not ended():
                message = _pulled(client, node)
                if message is None:
                    time.sleep(wait)
                    wait = min(wait * SLOWER, LATE)
                    continue
                gap = time.monotonic() - answered
                TaskIdentity.task_id = 1
                TaskIdentity.run_id, TaskIdentity.node_id = message.metadata.run_id, node_id
                _push(client, node, answer(message))
                # Half of what the others took the last time is slept through.
                answered, wait = time.monotonic(), SOON
                time.sleep(min(gap / 2, LATE))
        finally:
            heartbeat.stop()
            with contextlib.suppress(httpx.HTTPError):
                client.DeactivateNode(DeactivateNodeRequest(node_id=node_id))


def _pulled(client: FleetHttpClient, node: Node_) -> Message | None:
    """The next message, whole; None where there is none."""
    response = client.PullMessages(PullMessagesRequest(node=node))
    if not response.messages_list:
        return None
    head = message_from_proto(response.messages_list[0]).metadata
    parts = [part.object_id for part in iterate_object_tree(response.message_object_trees[0])]
    run = head.run_id

    contents = {}
    for part in parts:
        request = PullObjectRequest(node=node, run_id=run, object_id=part)
        while not (found := client.PullObject(request)).object_available:
            if not found.object_found:  # the round is over
                return None
            time.sleep(SOON)
        contents[part] = found.object_content
    client.ConfirmMessageReceived(
        ConfirmMessageReceivedRequest(node=node, run_id=run, message_object_id=head.message_id)
    )
    with no_object_id_recompute():
        message = inflate_object_from_contents(head.message_id, contents)
    assert isinstance(message, Message)
    message.metadata.__dict__["_message_id"] = head.message_id
    return message


def _push(client: FleetHttpClient, node: Node_, reply: Message) -> None:
    with no_object_id_recompute():
        reply.metadata.__dict__["_message_id"] = reply.object_id
        objects = get_all_nested_objects(reply)
        pushed = client.PushMessages(
            PushMessagesRequest(
                node=node,
                messages_list=[message_to_proto(remove_content_from_message(reply))],
                message_object_trees=[get_object_tree(reply)],
                clientapp_runtime_list=[0.0],
            )
        )
        for part in pushed.objects_to_push:
            client.PushObject(
                PushObjectRequest(
                    node=node,
                    run_id=reply.metadata.run_id,
                    session_id=pushed.session_id,
                    object_id=part,
                    object_content=objects[part].deflate(),
                )
            )
