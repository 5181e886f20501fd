"""Messages of clients, with shared parameters and losses, and how the server combines them.

``average`` is equation (10) of Ghari and Shen (NeurIPS 2022). A client that sent nothing for a row
counts as if it had left the row unchanged.

``protect`` first clips a message and then adds Gaussian noise at the client. The noise is
proportional to the clip, so clipping must come first. With ``accepts`` the server refuses a message
that changes too much. With ``combine_messages`` it discards the largest and the smallest values of
every coordinate before it takes the mean. With ``NO_PROTECTION`` and an ``Inbox`` without limits,
none of this happens.

Shapes: a server's model has ``theta`` (N, W), N rows of W shared parameters. A message has at most
E losses. Every function reads a row as two halves, sines and cosines. A load of eight numbers
(``simd``) across the border of the halves would have to wait until both halves are stored.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from omkl.core.compiler import inlined
from omkl.core.simd import LANES, fma, load, pack, store, total

OFF = math.inf  # a limit that is not set


class Message(NamedTuple):
    """Message of a client: rows of the shared parameters, and losses.

    If there are as many losses as rows, loss j belongs to row j. Otherwise there is one loss per
    kernel.

    rows    (m,) int64 indices of rows
    theta   (m, W) new values of these rows
    losses  (E,) losses
    n       (2,) int64, number of rows and number of losses in use
    """

    rows: np.ndarray
    theta: np.ndarray
    losses: np.ndarray
    n: np.ndarray


def empty_message(n_rows: int, n_parameters: int, n_losses: int) -> Message:
    """Return an empty message with space for m rows (m, W) and E losses (E,).

    Parameters
    ----------
    n_rows
        m, most rows.
    n_parameters
        W, parameters of a row.
    n_losses
        E, most losses.
    """
    return Message(
        rows=np.zeros(n_rows, dtype=np.int64),
        theta=np.zeros((n_rows, n_parameters)),
        losses=np.zeros(n_losses),
        n=np.zeros(2, dtype=np.int64),
    )


# --- what a client writes -----------------------------------------------------------------------


@inlined
def copy(numbers, first, target, start, n):
    """Copy consecutive numbers of a flat array to another, eight at a time.

    Parameters
    ----------
    numbers, first
        Array, and flat index of the first number.
    target, start
        Output, and flat index of the first number.
    n
        Number of numbers.
    """
    j = 0
    while j + LANES <= n:
        store(target, start + j, load(numbers, first + j))
        j += LANES
    if j < n:
        store(target, start + j, load(numbers, first + j, n - j), n - j)


@inlined
def copy_row(source, i, target, j):
    """Copy a row of a matrix to a row of another matrix of the same width.

    Parameters
    ----------
    source, i
        Matrix (N, W), and its row.
    target, j
        Output (m, W), and its row.
    """
    W = source.shape[1]
    D = W // 2
    copy(source, W * i, target, W * j, D)
    copy(source, W * i + D, target, W * j + D, W - D)


@inlined
def step_into(model, i, message, j, features, step, shrink):
    """Write theta_i after a gradient step to a row of a message: shrink * theta_i - step * z_i.

    The model itself does not change.

    Parameters
    ----------
    model
        Shared parameters.
    i
        Kernel. All kernels must be evaluated, so that kernel i is the i-th evaluated one.
    message, j
        Output, and its row.
    features
        Tile with the features z of the row.
    step, shrink
        Factors of the features and of the parameters.
    """
    theta = model.theta
    target = message.theta
    D = theta.shape[1] // 2
    scaled = pack(-step / math.sqrt(D))
    z = i * features.place[0] + features.place[1]
    w = 2 * D * i
    to = 2 * D * j
    e = 0
    while e + LANES <= D:
        s = fma(load(features.waves.sin, z + e), scaled, load(theta, w + e) * shrink)
        c = fma(load(features.waves.cos, z + e), scaled, load(theta, w + D + e) * shrink)
        store(target, to + e, s)
        store(target, to + D + e, c)
        e += LANES
    if e < D:
        k = D - e
        s = fma(load(features.waves.sin, z + e, k), scaled, load(theta, w + e, k) * shrink)
        c = fma(load(features.waves.cos, z + e, k), scaled, load(theta, w + D + e, k) * shrink)
        store(target, to + e, s, k)
        store(target, to + D + e, c, k)


# --- how the server combines messages -----------------------------------------------------------


@inlined
def squared_norm(theta, i):
    """Return ||theta[i]||^2 of theta (N, W), with the same bits as ``gradient_step``."""
    D = theta.shape[1] // 2
    w = 2 * D * i
    a = pack(0.0)
    b = pack(0.0)
    j = 0
    while j + LANES <= D:
        s = load(theta, w + j)
        c = load(theta, w + D + j)
        a = fma(s, s, a)
        b = fma(c, c, b)
        j += LANES
    if j < D:
        s = load(theta, w + j, D - j)
        c = load(theta, w + D + j, D - j)
        a = fma(s, s, a)
        b = fma(c, c, b)
    return total(a + b)


@inlined
def scale_row(model, i, share):
    """Multiply theta_i by a factor, and update its norm.

    Parameters
    ----------
    model
        Shared parameters, updated in place.
    i
        Kernel.
    share
        Factor.
    """
    W = model.theta.shape[1]
    D = W // 2
    for start in (W * i, W * i + D):
        for e in range(0, D, LANES):
            k = min(LANES, D - e)
            store(model.theta, start + e, load(model.theta, start + e, k) * share, k)
    model.norm2[i] = squared_norm(model.theta, i)


@inlined
def add_entries(source, start, target, at, n, weight):
    """Add a multiple of consecutive entries to those of another array.

    Parameters
    ----------
    source, start
        Array, and flat index of the first entry.
    target, at
        Array, updated in place, and flat index of the first entry.
    n
        Number of entries.
    weight
        Factor of the source.
    """
    e = 0
    while e + LANES <= n:
        store(target, at + e, fma(load(source, start + e), weight, load(target, at + e)))
        e += LANES
    if e < n:
        k = n - e
        store(target, at + e, fma(load(source, start + e, k), weight, load(target, at + e, k)), k)


@inlined
def has_losses_of_rows(n):
    """Return whether the losses of a message with counts n (2,) belong to its rows."""
    return n[0] == n[1]


@inlined
def add_message(server, message, weight):
    """Add a message, times a weight, to the sums of this round.

    Parameters
    ----------
    server
        State of the server, updated in place.
    message
        Message of a client.
    weight
        Factor, > 0; 1 with a server.
    """
    N, W = server.sums.shape
    D = W // 2
    n = message.n[0]
    in_place = 0
    for j in range(n):
        i = message.rows[j]
        server.senders_of[i] += weight
        in_place += i == j
    if in_place == N:
        add_entries(message.theta, 0, server.sums, 0, N * W, weight)
    else:
        for j in range(n):
            i = message.rows[j]
            add_entries(message.theta, W * j, server.sums, W * i, D, weight)
            add_entries(message.theta, W * j + D, server.sums, W * i + D, W - D, weight)
    if has_losses_of_rows(message.n):
        for j in range(message.n[1]):
            server.losses[message.rows[j]] += weight * message.losses[j]
    else:
        for i in range(message.n[1]):
            server.losses[i] += weight * message.losses[i]
    server.senders[0] += weight


@inlined
def average_entries(theta, sums, start, n, silent, share):
    """Set theta to share (silent theta + sums) in n consecutive entries, then set the sums to 0.

    Parameters
    ----------
    theta, sums
        Parameters and sums of messages (N, W), updated in place.
    start, n
        Flat index of the first entry, and number of entries.
    silent
        Number of members that did not send this row. Each counts with the present theta.
    share
        1 / (number of members).
    """
    e = 0
    while e < n:
        k = min(LANES, n - e)
        mean = fma(load(theta, start + e, k), silent, load(sums, start + e, k)) * share
        store(theta, start + e, mean, k)
        store(sums, start + e, pack(0.0), k)
        e += LANES


@inlined
def average(server):
    """Replace theta_i by theta_i - (1/K) sum over k in C_i of (theta_i - theta_ik).

    This is equation (10). C_i are the clients that sent row i, theta_ik is the row i that client k
    sent, and K is ``server.members``. The code computes the mean of K rows, one per member. If
    there is one client, its row is therefore stored without rounding. On a graph the row of each
    sender is weighted by its link.
    """
    theta = server.model.theta
    W = theta.shape[1]
    D = W // 2
    members = server.members[0]
    for i in range(theta.shape[0]):
        if server.senders_of[i] == 0.0:
            continue
        silent = members - server.senders_of[i]
        share = 1.0 / members
        average_entries(theta, server.sums, W * i, D, silent, share)
        average_entries(theta, server.sums, W * i + D, W - D, silent, share)
        server.model.norm2[i] = squared_norm(theta, i)
        server.senders_of[i] = 0.0


@inlined
def clear(server):
    """Set the sums of losses and the number of messages to 0. ``average`` clears the other sums."""
    server.losses[:] = 0.0
    server.senders[0] = 0.0


# --- settings of clips, noise and refusals ------------------------------------------------------


class Protection(NamedTuple):
    """Clips and noise of one message. Without noise the clips are infinite.

    clip          largest norm of the change of a message, over all its rows
    clip_losses   largest norm of its losses
    noise         standard deviation of the noise on every parameter
    noise_losses  standard deviation of the noise on every loss
    whole         True: the rows themselves are clipped, because the client does not receive the
                  server's rows. False: the changes of the rows are clipped
    """

    clip: float
    clip_losses: float
    noise: float
    noise_losses: float
    whole: bool


NO_PROTECTION = Protection(OFF, OFF, 0.0, 0.0, False)  # messages are sent unchanged


class Inbox(NamedTuple):
    """Limits of messages at the server, and storage of a round's messages for a robust mean.

    max_change  limit of the norm of a message's change, above which the message is refused;
                infinite: none
    max_loss    limit of the size of a loss, above which the message is refused; infinite: none
    cuts     (K + 1,) int64: of n values, the cuts[n] largest and the cuts[n] smallest are
             discarded. For plain means ``cuts`` is (0,), and the arrays below are empty
    rows     (K, m) int64, theta (K, m, W), losses (K, E) and n (K, 2) int64 of each message
    taken    (1,) int64, number of messages stored in this round
    column   (K,) one coordinate of all messages
    place    (K, 2) int64, message and row of each value of ``column``
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


# --- noise at the client ------------------------------------------------------------------------


@inlined
def share_within(norm2, clip):
    """Return the factor that shortens a vector to a norm of at most ``clip``.

    ``norm2`` is the squared norm of the vector. If ``norm2`` is not finite, the factor is 0.
    """
    if not norm2 < math.inf:
        return 0.0
    norm = math.sqrt(norm2)
    return 1.0 if norm <= clip else clip / norm


@inlined
def protect(protection, theta, message, normals):
    """Clip a message, then add noise.

    If the change of the message is not finite, the client sends a change of 0 (and noise), because
    no noise could hide a number that is not finite.

    Parameters
    ----------
    protection
        Clips and noise.
    theta
        Shared parameters (N, W) as last broadcast.
    message
        Message, updated in place.
    normals
        Independent standard normal numbers (m W + E,).
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


# --- fewer bits -----------------------------------------------------------------------------------


@inlined
def quantise(levels, whole, theta, message, uniform):
    """Round the changes in a message to 0 or one of ``levels`` values on either side of 0.

    The values are equally spaced. The largest value is the largest absolute change in the row. An
    entry between two values is rounded up or down at random, so that its expectation is the entry.

    Parameters
    ----------
    levels
        Number of values on either side of 0; 0 for no rounding.
    whole
        True: the rows themselves are rounded, because the client does not receive the server's
        rows.
    theta
        Shared parameters (N, W) as last broadcast.
    message
        Message, updated in place.
    uniform
        Numbers (m W,) in [0, 1).
    """
    if levels == 0:
        return
    W = message.theta.shape[1]
    for j in range(message.n[0]):
        i = message.rows[j]
        largest = 0.0
        for e in range(W):
            base = 0.0 if whole else theta[i, e]
            largest = max(largest, abs(message.theta[j, e] - base))
        if not 0.0 < largest < math.inf:
            continue
        for e in range(W):
            base = 0.0 if whole else theta[i, e]
            scaled = (message.theta[j, e] - base) / largest * levels
            below = math.floor(scaled)
            above = 1.0 if uniform[j * W + e] < scaled - below else 0.0
            message.theta[j, e] = base + (below + above) / levels * largest


# --- refusals and robust means at the server ----------------------------------------------------


@inlined
def accepts(inbox, theta, message):
    """Return whether the server accepts a message.

    Parameters
    ----------
    inbox
        Limits of messages.
    theta
        Parameters (N, W) of the server.
    message
        Message of a client.
    """
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
def receive(server, message, inbox, weight):
    """Add a message, times a weight, to the sums of this round. Return False if it is refused.

    Parameters
    ----------
    server
        State of the server, updated in place.
    message
        Message of a client.
    inbox
        Limits, and storage of messages for a robust mean.
    weight
        Factor of the message, > 0; 1 unless the clients form a graph.
    """
    if not accepts(inbox, server.model.theta, message):
        return False
    add_message(server, message, weight)
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
    """Return n times the mean of the first n values without the ``cut`` largest and smallest ones.

    Parameters
    ----------
    values
        Values (n,) or longer; the first n are sorted in place.
    n
        Number of values.
    cut
        Number of values to discard at either end, < n / 2.
    """
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
def combine_messages(server, inbox):
    """Replace this round's sums by n times the trimmed means of the n values of each coordinate.

    If n of K clients sent a row, ``average`` then moves the row by the fraction n / K of the way to
    the trimmed mean. Clients that sent nothing do not enter the trimmed mean. Otherwise many silent
    clients could outvote the senders.
    """
    if inbox.cuts.shape[0] == 0:
        return
    K = inbox.taken[0]
    of_rows = True  # check every message: a client may be dishonest
    for k in range(K):
        of_rows = of_rows and has_losses_of_rows(inbox.n[k])
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
            if of_rows:
                for a in range(n):
                    inbox.column[a] = inbox.losses[inbox.place[a, 0], inbox.place[a, 1]]
                server.losses[i] = trimmed_sum(inbox.column, n, cut)
    cut = inbox.cuts[K]
    if cut > 0 and not of_rows:
        for e in range(server.losses.shape[0]):
            for k in range(K):
                inbox.column[k] = inbox.losses[k, e]
            server.losses[e] = trimmed_sum(inbox.column, K, cut)
    inbox.taken[0] = 0
