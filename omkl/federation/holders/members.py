"""Which key speaks for which client: bound at first contact, kept on disk, refused otherwise."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from omkl.disk import write_atomically
from omkl.federated.parties import Refused
from omkl.runs.wording import plain

SHOWN = 12  # hex digits of a key's fingerprint in print


class Member(NamedTuple):
    """A client, and what it calls itself."""

    client: int
    name: str


def fingerprint(public_key: bytes) -> str:
    """The sha256 of a public key, as hex digits."""
    return hashlib.sha256(public_key).hexdigest()


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
        known = {member.client: member.name for member in self._by_key.values()}
        return [known.get(k, str(k + 1)) for k in range(self.n_clients)]

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
            told = f"there are {self.n_clients} clients, all here" if wished is None else (
                f"there is no client {client}: the last of {self.n_clients} is {self.n_clients - 1}"
            )  # fmt: skip
            raise Refused(f"node {key[:SHOWN]} is refused: {told}")
        if client in taken:
            self.require(key, client)
        member = Member(client, plain(name) or str(client + 1))
        self._by_key[key] = member
        if self._path is not None:
            kept = {known: found._asdict() for known, found in self._by_key.items()}
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
        own = f"; it is client {member.client}" if member else ""
        raise Refused(f"node {key[:SHOWN]} says that it is client {client}, {is_it}{own}")
