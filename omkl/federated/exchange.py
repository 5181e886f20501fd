"""What happens to a message on its way: noise at the client; refusals, robust means at the server.

A client first clips what its message tells, then adds Gaussian noise to it (``protect``): the
noise is measured by the clip, so it could not hide what was not clipped. The server refuses a
message that changes too much (``accepts``), and may leave out the largest and the smallest values
of every coordinate before it takes the mean (``settle``).

All of it is off with ``no_protection`` and an ``Inbox`` without cuts: the arithmetic is then that
of the learners alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from omkl.core.compiler import inlined
from omkl.federated.messages import Message, receive

OFF = math.inf


class Protection(NamedTuple):
    """Clips and noise of one message; the norms are infinite where there is no noise.

    clip          largest norm of the change that a message makes, over all its rows
    clip_losses   largest norm of its losses
    noise         standard deviation of what is added to every parameter
    noise_losses  the same of every loss
    whole         whether the rows themselves are clipped: the client was not told the server's
    """

    clip: float
    clip_losses: float
    noise: float
    noise_losses: float
    whole: bool


class Inbox(NamedTuple):
    """What the server takes of a message, and the messages of a round that it looks at together.

    max_change, max_loss   a message above is refused; infinite: none is
    cuts     (K + 1,) int64, values left out at either end of so many; (0,) for plain means, and
             the arrays below are then empty
    rows     (K, m) int64     theta   (K, m, W)
    losses   (K, E)           n       (K, 2) int64, of each message
    taken    (1,) int64, messages so far
    column   (K,) one coordinate of all messages; place (K, 2) int64, message and row of each
    """

    max_change: float
    max_loss: float
    cuts: np.ndarray
    rows: np.ndarray
    theta: np.ndarray
    losses: np.ndarray
    n: np.ndarray
    taken: np.ndarray
    column: np.ndarray
    place: np.ndarray


def no_protection() -> Protection:
    """Messages go out as they are."""
    return Protection(OFF, OFF, 0.0, 0.0, False)


def new_inbox(
    message: Message, max_change: float | None, max_loss: float | None, cuts: np.ndarray
) -> Inbox:
    """An inbox for messages like this one; ``cuts`` (K + 1,) of K senders, or (0,)."""
    K = max(0, len(cuts) - 1)
    m, W = message.theta.shape
    return Inbox(
        OFF if max_change is None else float(max_change),
        OFF if max_loss is None else float(max_loss),
        cuts,
        rows=np.zeros((K, m), dtype=np.int64),
        theta=np.zeros((K, m, W)),
        losses=np.zeros((K, len(message.losses))),
        n=np.zeros((K, 2), dtype=np.int64),
        taken=np.zeros(1, dtype=np.int64),
        column=np.zeros(K),
        place=np.zeros((K, 2), dtype=np.int64),
    )


@inlined
def is_simple(protection, inbox):
    """Whether nobody looks at a single message: no noise, no refusals, plain means."""
    refuses = inbox.max_change < math.inf or inbox.max_loss < math.inf
    return not (protection.clip < math.inf or refuses or inbox.cuts.shape[0] > 0)


# --- at the client ------------------------------------------------------------------------------


@inlined
def share_within(norm2, clip):
    """The share of a vector that has a norm of at most ``clip``; 0 where it is not finite."""
    if not norm2 < math.inf:
        return 0.0
    norm = math.sqrt(norm2)
    return 1.0 if norm <= clip else clip / norm


@inlined
def protect(protection, theta, message, normals):
    """Clip what the message tells, then add noise.

    theta (N, W) as last broadcast; normals (m W + E,) independent standard normal numbers.
    A change that is not finite is sent as none: it would show through any noise.
    """
    if not protection.clip < math.inf:
        return
    W = message.theta.shape[1]
    norm2 = 0.0
    for j in range(message.n[0]):
        for e in range(W):
            base = 0.0 if protection.whole else theta[message.rows[j], e]
            change = message.theta[j, e] - base
            norm2 += change * change
    share = share_within(norm2, protection.clip)
    for j in range(message.n[0]):
        for e in range(W):
            base = 0.0 if protection.whole else theta[message.rows[j], e]
            change = share * (message.theta[j, e] - base) if share > 0.0 else 0.0
            message.theta[j, e] = base + change + protection.noise * normals[j * W + e]
    norm2 = 0.0
    for e in range(message.n[1]):
        norm2 += message.losses[e] * message.losses[e]
    share = share_within(norm2, protection.clip_losses)
    first = message.theta.size
    for e in range(message.n[1]):
        clipped = share * message.losses[e] if share > 0.0 else 0.0
        message.losses[e] = clipped + protection.noise_losses * normals[first + e]


# --- at the server ------------------------------------------------------------------------------


@inlined
def accepts(inbox, theta, message):
    """Whether the server takes the message; theta (N, W) are its own parameters."""
    if inbox.max_loss < math.inf:
        for e in range(message.n[1]):
            if not abs(message.losses[e]) <= inbox.max_loss:
                return False
    if not inbox.max_change < math.inf:
        return True
    norm2 = 0.0
    for j in range(message.n[0]):
        for e in range(message.theta.shape[1]):
            change = message.theta[j, e] - theta[message.rows[j], e]
            norm2 += change * change
    return norm2 <= inbox.max_change * inbox.max_change


@inlined
def take(server, message, inbox):
    """Add a message to this round if the server accepts it; returns whether it does."""
    if not accepts(inbox, server.model.theta, message):
        return False
    receive(server, message)
    if inbox.cuts.shape[0] > 0:
        k = inbox.taken[0]
        for j in range(message.n[0]):
            inbox.rows[k, j] = message.rows[j]
            for e in range(message.theta.shape[1]):
                inbox.theta[k, j, e] = message.theta[j, e]
        for e in range(message.n[1]):
            inbox.losses[k, e] = message.losses[e]
        inbox.n[k, 0] = message.n[0]
        inbox.n[k, 1] = message.n[1]
        inbox.taken[0] += 1
    return True


@inlined
def trimmed_sum(values, n, cut):
    """n times the mean of values[:n] without the ``cut`` largest and smallest; sorts them."""
    gap = 1
    while gap < n:
        gap = 3 * gap + 1
    while gap > 0:  # Shell's sort
        for a in range(gap, n):
            value = values[a]
            b = a
            while b >= gap and values[b - gap] > value:
                values[b] = values[b - gap]
                b -= gap
            values[b] = value
        gap //= 3
    total = 0.0
    for a in range(cut, n - cut):
        total += values[a]
    return n * (total / (n - 2 * cut))


@inlined
def settle(server, inbox):
    """Put robust sums in place of this round's: (10) then moves each row by the trimmed mean.

    A row that n clients of K sent moves by n / K of the way to the trimmed mean of the n: clients
    that sent nothing count as in (10), and stand for no value that could outvote the others.
    """
    if inbox.cuts.shape[0] == 0:
        return
    K = inbox.taken[0]
    for i in range(server.sums.shape[0]):
        n = 0
        for k in range(K):
            for j in range(inbox.n[k, 0]):
                if inbox.rows[k, j] == i:
                    inbox.place[n, 0] = k
                    inbox.place[n, 1] = j
                    n += 1
        cut = inbox.cuts[n]
        if cut > 0:
            for e in range(server.sums.shape[1]):
                for a in range(n):
                    inbox.column[a] = inbox.theta[inbox.place[a, 0], inbox.place[a, 1], e]
                server.sums[i, e] = trimmed_sum(inbox.column, n, cut)
    cut = inbox.cuts[K]
    if cut > 0:
        for e in range(server.losses.shape[0]):
            for k in range(K):
                inbox.column[k] = inbox.losses[k, e]
            server.losses[e] = trimmed_sum(inbox.column, K, cut)
    inbox.taken[0] = 0
