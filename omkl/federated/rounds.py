"""What the rounds of a federation draw, and what they give."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from omkl.core.compiler import inlined
from omkl.core.simd import LANES, at_least, largest, load, pack, store


class Draws(NamedTuple):
    """What was drawn for n rounds of C clients.

    u        (n, C, a) uniform numbers of the clients      v  (n, b) those of the server
    asked    (n, C) whether the server asks for the client's message
    normals  (n, C, m W + E) standard normal numbers of the clients' noise; (n, C, 0) without
    """

    u: np.ndarray
    v: np.ndarray
    asked: np.ndarray
    normals: np.ndarray


class Totals(NamedTuple):
    """Sums over all rounds so far.

    losses  (K, 1 + N) of the prediction and of every kernel, by client
    sent    (K, 2) int64 numbers and rows that each client has sent
    replies (K, 2) int64 messages that each client was asked for, and those that were refused
    used    (N,) int64 messages that held a row
    worst   (2,) the largest squared error of a prediction and the largest loss of a kernel
    """

    losses: np.ndarray
    sent: np.ndarray
    replies: np.ndarray
    used: np.ndarray
    worst: np.ndarray


class FederatedTrace(NamedTuple):
    """What n rounds gave.

    y_hat   (n, K), given before each label; NaN where a client is done
    loss    (n, K) of the predictions, L of the paper, summed up to each round
    regret  (n, K) after each round, as in (11)

    Sums of a client that is done stay what they are.
    """

    y_hat: np.ndarray
    loss: np.ndarray
    regret: np.ndarray

    def rows(self, rows: slice) -> FederatedTrace:
        """The trace of some rounds, without a copy."""
        return FederatedTrace(self.y_hat[rows], self.loss[rows], self.regret[rows])


@inlined
def add_losses(losses, k, scratch, worst):
    """Add the losses of a round to losses[k] (1 + N,); return the least sum of a kernel."""
    losses[k, 0] += scratch.own_loss[0]
    N = scratch.loss.shape[0]
    at = k * losses.shape[1] + 1
    least = pack(-np.inf)  # of all sums, negated
    most = pack(worst[1])
    i = 0
    while i + LANES <= N:
        loss = load(scratch.loss, i)
        cumulative = load(losses, at + i) + loss
        store(losses, at + i, cumulative)
        least = at_least(cumulative * -1.0, least)
        most = at_least(loss, most)
        i += LANES
    best = -largest(least)
    top = largest(most)
    while i < N:
        losses[k, 1 + i] += scratch.loss[i]
        best = min(best, losses[k, 1 + i])
        top = max(top, scratch.loss[i])
        i += 1
    worst[1] = top
    return best
