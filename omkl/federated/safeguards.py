"""What a federation does for clients that do not trust the server, and for one that trusts not all.

``exchange`` is the arithmetic, ``privacy`` what its noise is worth; here are their settings and
what is made of them for K clients.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from omkl.federated.exchange import Inbox, Protection, new_inbox, no_protection
from omkl.federated.messages import Message
from omkl.federated.privacy import Privacy, protection_of
from omkl.federated.protocol import FederatedAlgorithm


class Safeguards(NamedTuple):
    """Settings of the exchange of messages; all off by default.

    clients_per_round  asked for their messages, drawn at random every round; None: all
    max_change         a message that moves the shared parameters by a larger norm is refused
    max_loss           one with a loss of a larger size is refused
    trim               share of the values left out at either end, by coordinate, before the mean;
                       0.5 the median
    privacy            noise at the clients
    """

    clients_per_round: int | None = None
    max_change: float | None = None
    max_loss: float | None = None
    trim: float = 0.0
    privacy: Privacy | None = None


NONE = Safeguards()


def cuts(trim: float, n_senders: int) -> np.ndarray:
    """How many of n = 0..n_senders values are left out at either end, (n_senders + 1,) int64.

    At least the share ``trim`` of them, and one or two are always left: none of fewer than three.
    (0,) where ``trim`` is 0.
    """
    if trim == 0.0:
        return np.zeros(0, dtype=np.int64)
    share = Fraction(str(trim))  # as it was typed: 0.1 of 10 is 1
    counts = [max(0, min(math.ceil(share * n), (n - 1) // 2)) for n in range(n_senders + 1)]
    return np.array(counts, dtype=np.int64)


def inbox_for(safeguards: Safeguards, n_clients: int, message: Message) -> Inbox:
    """The server's inbox for messages like this one."""
    senders = min(n_clients, safeguards.clients_per_round or n_clients)
    bounds = safeguards.max_change, safeguards.max_loss
    return new_inbox(message, *bounds, cuts(safeguards.trim, senders))


def protection_for(
    safeguards: Safeguards, algorithm: FederatedAlgorithm, params: Any, N: int, n_rounds: int
) -> Protection:
    """What a client does to a message, of ``n_rounds`` of them at most."""
    if safeguards.privacy is None:
        return no_protection()
    return protection_of(safeguards.privacy, algorithm, params, N, n_rounds)


def draw_asked(
    rng: np.random.Generator, n: int, n_clients: int, present: np.ndarray, wanted: int | None
) -> np.ndarray:
    """Which of the clients ``present`` (C,) are asked in n rounds, (n, C); all without ``wanted``.

    Every set of ``wanted`` clients is as likely as any other. Draws for all K clients, whoever
    is present.
    """
    asked = np.ones((n, len(present)), dtype=bool)
    if wanted is None:
        return asked
    drawn = rng.random((n, n_clients))[:, present]
    if wanted < len(present):
        first = np.argsort(drawn, axis=1, kind="stable")[:, :wanted]
        asked[:] = False
        np.put_along_axis(asked, first, True, axis=1)
    return asked
