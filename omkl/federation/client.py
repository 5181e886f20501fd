"""A client of a federation: ``omkl-federate client``.

It opens its own file, or standard input, and nothing else; what it needs to know besides the
server tells it. Ctrl-C leaves the federation; the same command goes on where it was.
"""

from __future__ import annotations

import argparse
import secrets
import signal
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path

from omkl.federated.parties import Refused
from omkl.federation import keys
from omkl.federation.data_owner import DataOwner
from omkl.federation.rows import open_rows
from omkl.federation.transport import Message, converse, pack_message, pack_reply, read_round
from omkl.utils.wording import plain

TOKEN = "token"  # in the client's folder: what stands for its key where there is no TLS


class ClientLoop:
    """What a client answers to the messages of its server; ``wished`` is the number it wants."""

    def __init__(self, owner: DataOwner, wished: int | None, name: str) -> None:
        self.owner, self.wished, self.name = owner, wished, name
        self.refused = ""
        self.ended = False

    @property
    def over(self) -> bool:
        """Whether the federation is over for this client."""
        return bool(self.ended or self.refused)

    def answer(self, message: Message) -> bytes | None:
        """The reply to a message, None where none is wanted."""
        try:
            if message.kind == "round":
                number, broadcast = read_round(message)
                return pack_reply(number, broadcast.t, self.owner.play(number, broadcast))
            if message.kind == "terms":
                self.owner.join(str(message.fields["terms"]))
                columns = self.owner.rows.columns
                return pack_message("joined", columns=columns, wished=self.wished, name=self.name)
            if message.kind == "finished":
                if self.owner.terms is not None:
                    self.owner.finish(*read_round(message))
                self.ended = True
                return pack_message("finished")
            reason = message.fields.get("reason", f"what is {message.kind!r}?")
            self.refused = f"the server refuses this client: {reason}"
            return None
        except (Refused, ValueError) as error:
            self.refused = str(error)
            return pack_message("declined", reason=self.refused)
        except Exception as error:  # the server goes on without this round
            tell(f"this round failed: {error!r}")
            return pack_message("failed", reason=repr(error))


def tell(text: str) -> None:
    """Standard output is for predictions."""
    print(f"omkl: {plain(text)}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """``omkl-federate client``; returns the exit status."""
    options = _parser().parse_args(arguments)
    if any(word.startswith("--superlink") for word in arguments):
        tell("--superlink is called --server now")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        context, token = _identity(options)
        rows = open_rows(options.data, sys.stdin, options.target, options.leave_out)
        loop = ClientLoop(DataOwner(_folder(options), rows), options.number, options.name)
    except (Refused, ValueError) as error:  # DataError is one
        tell(str(error))
        return 1
    if options.insecure:
        tell(keys.UNPROTECTED)
    try:
        converse(options.server, context, token, loop.answer, lambda: loop.over, tell)
    except KeyboardInterrupt:
        tell("leaving; the same command goes on from here")
    except ValueError as error:
        loop.refused = str(error)
    if loop.refused:
        tell(loop.refused)
    path = loop.owner.write_model()
    rows.close()
    tell(loop.owner.summary() + (f"; model in {path}" if path else ""))
    return 1 if loop.refused else 0


def _folder(options: argparse.Namespace) -> Path:
    return options.folder or Path(f"omkl-client-{options.name}")


def _identity(options: argparse.Namespace) -> tuple[ssl.SSLContext | None, str | None]:
    """TLS with the client's key, or without TLS the secret by which the server knows it again."""
    if options.insecure:
        path = _folder(options) / TOKEN
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            keys.write_secret(path, secrets.token_hex(32).encode())
        return None, path.read_text()
    if options.keys is None:
        raise ValueError(
            "--keys FOLDER has this client's key and the certificate that signed the server's; "
            "--insecure goes without, and then anybody can listen and take part"
        )
    authority = None if options.system_certificates else options.keys / keys.AUTHORITY
    return keys.client_context(options.keys / keys.CLIENTS / f"{options.name}.key", authority), None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="omkl-federate client",
        description="Take part in a federation with your rows, which stay on this machine.",
        epilog="What a reply reveals of a row is on the page docs/privacy.md.",
    )
    add = parser.add_argument
    add("--server", "--superlink", required=True, metavar="HOST:PORT", help="the server")
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
