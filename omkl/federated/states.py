"""The states of a federation before its first round."""

from __future__ import annotations

from typing import Any

import numpy as np

from omkl.core.compiler import qualify_name
from omkl.federated.messages import Message, empty_message
from omkl.federated.protocol import ClientScratch, FederatedAlgorithm, ServerState


def _n_losses(algorithm: FederatedAlgorithm, model: Any) -> int:
    """E: the losses that a client sends."""
    return len(model.theta) if algorithm.shared_weights else 0


def new_server_state(algorithm: FederatedAlgorithm, model: Any) -> ServerState:
    """The server before the first round."""
    N, W = model.theta.shape
    E = _n_losses(algorithm, model)
    return ServerState(
        model,
        log_w=np.zeros(E),
        announced=np.zeros(algorithm.announces[1], dtype=np.int64),
        sums=np.zeros((N, W)),
        senders_of=np.zeros(N, dtype=np.int64),
        losses=np.zeros(E),
        senders=np.zeros(1, dtype=np.int64),
    )


def new_message(algorithm: FederatedAlgorithm, params: Any, model: Any) -> Message:
    """An empty message with room for the most that a client may send."""
    N, W = model.theta.shape
    E = _n_losses(algorithm, model)
    return empty_message((algorithm.upload(params, N, W) - E) // W, W, E)


def new_scratch(algorithm: FederatedAlgorithm, model: Any) -> ClientScratch:
    """What the rounds of a client of this model write to."""
    N = len(model.theta)
    return ClientScratch(
        every=np.arange(N),
        f=np.zeros(N),
        loss=np.zeros(N),
        own_loss=np.zeros(1),
        p=np.zeros(1),
        w=np.zeros(N),
        model=algorithm.scratch(model),
    )


def qualify_names(*states: Any) -> None:
    """Give the types of these states their full names in compiled code."""
    for state in states:
        qualify_name(type(state))
