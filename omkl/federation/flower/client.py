"""A client of a federation: ``python -m omkl.federation.flower client``.

It opens its own file, or standard input, and nothing else; what it needs to know besides the
server tells it. Ctrl-C leaves the federation; the same command goes on where it was.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flwr.app import Error, Message

from omkl.federated.parties import Refused
from omkl.federation.flower import keys
from omkl.federation.flower.node import Node
from omkl.federation.flower.records import (
    read_asked,
    read_said,
    reply_record,
    said,
)
from omkl.federation.holders.holder import Holder
from omkl.federation.holders.rows import opened
from omkl.runs.wording import plain

NUMBER = "node"  # in the client's folder: what the server calls it


class Talk:
    """What a client says to the messages of its server."""

    def __init__(self, holder: Holder, wished: int | None, name: str) -> None:
        self.holder, self.wished, self.name = holder, wished, name
        self.refused = ""
        self.ended = False

    @property
    def over(self) -> bool:
        """Whether the federation is over for this client."""
        return bool(self.ended or self.refused)

    def answer(self, message: Message) -> Message:
        """The reply to a message."""
        try:
            if message.metadata.message_type == "train":
                content = self._round(message)
            else:
                content = self._spoken(read_said(message.content), message)
        except (Refused, ValueError) as error:
            self.refused = str(error)
            content = said(refused=self.refused)
        except Exception as error:  # the server goes on without this round
            tell(f"this round failed: {error!r}")
            return Message(Error(code=0, reason=repr(error)), reply_to=message)
        return Message(content, reply_to=message)

    def _round(self, message: Message) -> Any:
        if self.holder.terms is None:  # its folder is new, and the server knows it
            return said(unknown=True)
        number, broadcast = read_asked(message.content)
        reply = self.holder.play(number, broadcast)
        return reply_record(number, broadcast.t, reply)

    def _spoken(self, words: dict[str, Any], message: Message) -> Any:
        if "refused" in words:
            self.refused = f"the server refuses this client: {words['refused']}"
        elif "terms" in words:
            self.holder.join(words["terms"])
            return said(columns=self.holder.rows.columns, wished=self.wished, name=self.name)
        elif "finished" in words:
            if self.holder.terms is not None:
                self.holder.finish(*read_asked(message.content))
            self.ended = True
        return said()


def tell(text: str) -> None:
    """Standard output is for predictions."""
    print(f"omkl: {plain(text)}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    given = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        node, talk = _made(given)
    except (Refused, ValueError) as error:  # DataError is one
        tell(str(error))
        return 1
    if given.insecure:
        tell(keys.UNPROTECTED)
    try:
        node.serve(talk.answer, tell, lambda: talk.over)
    except KeyboardInterrupt:
        tell("leaving; the same command goes on from here")
    if talk.refused:
        tell(talk.refused)
    path = talk.holder.write_model()
    talk.holder.rows.close()
    tell(talk.holder.summary() + (f"; model in {path}" if path else ""))
    return 1 if talk.refused else 0


def _made(given: argparse.Namespace) -> tuple[Node, Talk]:
    folder = given.folder or Path(f"omkl-client-{given.name}")
    folder.mkdir(parents=True, exist_ok=True)
    trusted = given.keys
    if given.insecure and trusted is None:
        trusted = folder  # its own key all the same: the server knows it again
        keys.make_client_key(trusted, given.name)
    if trusted is None:
        raise ValueError(
            "--keys FOLDER has this client's key and the certificate that signed the server's; "
            "--insecure goes without, and then anybody can listen and take part"
        )
    key = keys.read_client_key(trusted / keys.CLIENTS / f"{given.name}.key")
    authority = None if given.system_certificates else trusted / keys.AUTHORITY
    rows = opened(given.data, sys.stdin, given.target, given.leave_out)
    holder = Holder(folder, rows)
    number = folder / NUMBER
    node = Node(given.superlink, key, None if given.insecure else authority, given.insecure, number)
    return node, Talk(holder, given.number, given.name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m omkl.federation.flower client",
        description="Take part in a federation with one's own rows, which stay here.",
        epilog="What a reply gives away of a row is said in docs/federated.md.",
    )
    add = parser.add_argument
    add("--superlink", required=True, metavar="HOST:PORT", help="the server")
    add("--data", required=True, help="a .csv, .tsv or .txt with a header, or - for standard input")
    add("--target", required=True, help="the column that is predicted")
    add("--leave-out", nargs="*", default=[], metavar="COLUMN", help="columns that are no inputs")
    add("--name", default="client", help="of this client, and of its key (default: client)")
    add("--keys", type=Path, help="a folder with ca.pem and clients/NAME.key")
    add("--system-certificates", action="store_true",
        help="an authority that this machine trusts has signed that of the server")  # fmt: skip
    add("--insecure", action="store_true",
        help="without TLS: whoever is in between reads and changes all that is sent, and whoever "
        "reaches the server takes part")  # fmt: skip
    add("--folder", type=Path, help="what it must not lose (default: omkl-client-NAME)")
    add("--number", type=int, help="which client it is, from 0 (default: the first free one)")
    return parser
