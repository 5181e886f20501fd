"""Flower's SuperLink in this process, reduced to what clients need, and a grid on it.

Served is the Fleet API alone: over the network a node can activate itself, fetch messages and send
replies, and nothing else. Flower's Control API, with which anybody who reaches the port could
register nodes and start runs, is not there. Every call is signed with the node's key, which
Flower checks; nodes are registered here, from the public keys that the server was given.
"""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from fastapi import FastAPI
from flwr.app import Message
from flwr.app.message import remove_content_from_message
from flwr.common.constant import NOOP_ACCOUNT_NAME, NOOP_FLWR_AID, SUPERLINK_NODE_ID
from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME, NOOP_FEDERATION_ID, TaskType
from flwr.supercore.error import http_error_translator
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.protobuf.translation import ProtobufTranslationMiddleware
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.config_loader import (
    get_federation_manager,
    get_objectstore_linkstate_factories,
)
from flwr.superlink.routers.fleet.node_auth import NodeAuthMiddleware
from flwr.superlink.routers.fleet.router import router as fleet_router
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware

from omkl.federation.flower.grid import OwnGrid

START_SECONDS = 60.0


class Certificate(NamedTuple):
    """The files of the server's certificate and of its private key."""

    certificate: Path
    key: Path


class Link:
    """A SuperLink that serves until ``close``.

    ``certificate`` None: no TLS. ``open_to_all``: a node registers itself with any key; else only
    those that ``register`` was given.
    """

    def __init__(
        self, host: str, port: int, certificate: Certificate | None, open_to_all: bool
    ) -> None:
        _, factory = get_objectstore_linkstate_factories(
            FLWR_IN_MEMORY_DB_NAME, get_federation_manager()
        )
        self.state = factory.state()
        app = FastAPI(
            openapi_url=None,
            middleware=[
                Middleware(BaseHTTPMiddleware, dispatch=http_error_translator),
                Middleware(ProtobufTranslationMiddleware),
                Middleware(NodeAuthMiddleware),
            ],
        )
        app.state.linkstate_factory = factory
        app.state.enable_supernode_auth = not open_to_all
        app.include_router(fleet_router)
        files = {} if certificate is None else _files_of(certificate)
        self._server = uvicorn.Server(
            uvicorn.Config(app, access_log=False, log_level="warning", **files)
        )
        self._socket = _listening(host, port)
        self.port = int(self._socket.getsockname()[1])
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True
        )
        self.grid = LinkGrid(self.state)
        self._thread.start()
        end = time.monotonic() + START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > end:
                raise RuntimeError(f"the server could not serve on {host}:{port}")
            time.sleep(0.01)

    def register(self, public_key: bytes) -> None:
        """Let the node with this key (PEM, as Flower has it) in; once more changes nothing."""
        if self.state.get_node_id_by_public_key(public_key) is None:
            self.state.create_node(NOOP_FLWR_AID, NOOP_ACCOUNT_NAME, public_key, 0)

    def close(self) -> None:
        self.grid.close()
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()


def _files_of(certificate: Certificate) -> dict[str, Any]:
    for path in certificate:
        if not path.is_file():
            raise ValueError(
                f"{path} is missing: make keys and certificates for a trial with "
                "python -m omkl.federation.flower keys FOLDER, or serve with insecure=true"
            )
    return {"ssl_certfile": str(certificate.certificate), "ssl_keyfile": str(certificate.key)}


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise ValueError(f"cannot serve on {host}:{port}: {error.strerror}") from None
    return listening


class LinkGrid(OwnGrid):
    """A grid on the state of a SuperLink in this process, without HTTP in between."""

    def __init__(self, state: Any) -> None:
        self._state = state
        run_id = state.create_run(
            None, None, None, {}, NOOP_FEDERATION_ID, None, NOOP_FLWR_AID, TaskType.SERVER_APP
        )
        (self._run,) = state.get_run_info(run_ids=[run_id])
        task = self._run.primary_task_id
        state.claim_task(task)
        state.activate_task(task)
        # Messages ask the process who it is.
        TaskIdentity.task_id, TaskIdentity.run_id = task, run_id
        TaskIdentity.node_id = SUPERLINK_NODE_ID
        self._partial: dict[str, Message] = {}  # replies of which parts are missing
        self._heartbeat = HeartbeatSender(lambda: bool(state.acknowledge_task_heartbeat(task)))
        self._heartbeat.start()

    def close(self) -> None:
        self._heartbeat.stop()

    @property
    def run(self) -> Any:
        return self._run

    @property
    def run_id(self) -> int:
        return int(self._run.run_id)

    def get_node_ids(self) -> Iterable[int]:
        return list(self._state.get_nodes(self.run_id))

    def nodes(self) -> list[Any]:
        """Flower's records of the nodes that are online: number, key, since when."""
        return list(self._state.get_node_info(node_ids=list(self.get_node_ids())))

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Flower's ids of the messages; "" for one whose node is not there."""
        ids = []
        for message in messages:
            # A node may reply to whatever id it names: nobody guesses that of another's message.
            message.metadata.group_id += f" {secrets.token_hex(16)}"
            with no_object_id_recompute():
                identity = message.object_id
                message.metadata.__dict__["_message_id"] = identity
                tree, objects = get_object_tree(message), get_all_nested_objects(message)
                session = self._state.start_session(self.run_id)
                stored, missing = self._state.store_message_and_object_tree(
                    remove_content_from_message(message), tree, session
                )
                for object_id in missing:
                    content = objects[object_id].deflate()
                    self._state.store_object(self.run_id, session, object_id, content)
            ids.append(identity if stored else "")
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The replies that have come whole; the parts of a reply come one by one."""
        wanted = set(message_ids)
        for message in self._state.get_message_res(wanted - self._partial.keys(), self.run_id):
            self._partial[message.metadata.reply_to_message_id] = message
        whole = {i: self._whole(m) for i, m in self._partial.items() if i in wanted}
        found = {i: message for i, message in whole.items() if message is not None}
        self._partial = {i: m for i, m in self._partial.items() if i in wanted - found.keys()}
        self._state.delete_messages(message_ins_ids=set(found))
        return list(found.values())

    def _whole(self, message: Message) -> Message | None:
        """The message with its content; None while parts of it are on their way."""
        if message.has_error():
            return message
        root, store = message.metadata.message_id, self._state.object_store
        parts = [node.object_id for node in iterate_object_tree(store.get_object_tree(root))]
        contents = {part: store.get(part) for part in parts}
        if not all(contents.values()):
            return None
        with no_object_id_recompute():
            inflated = inflate_object_from_contents(root, contents)
        assert isinstance(inflated, Message)
        inflated.metadata.__dict__["_message_id"] = root
        store.delete(root)
        return inflated

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        raise NotImplementedError("messages are pushed, and replies pulled")
