"""How many numbers go up and down in a round, and the number of features that a budget allows.

``max_upload`` is the most numbers that a client may send in a round: float64 values, parameters
and losses. An index of a row is no number, but takes as many bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from omkl.federated.protocol import FederatedAlgorithm, ServerState

BYTES = 8  # of a float64 and of the index of a row
MOST_FEATURES = 100  # the paper's limit of what a client can hold


def download(algorithm: FederatedAlgorithm, server: ServerState) -> tuple[int, int]:
    """Numbers and indices that the server sends to each client in a round."""
    N, W = server.model.theta.shape
    rows, named = algorithm.announces
    weights = 0 if rows else len(server.log_w)  # a server that draws keeps them to itself
    return (rows or N) * W + weights, named


def traffic(
    algorithm: FederatedAlgorithm, server: ServerState, sent: np.ndarray, n_rounds: float, most: int
) -> dict[str, Any]:
    """What went up and down between a client and the server, as ``result.json`` has it.

    sent (.., K, 2) numbers and indices that each of K clients sent, in ``n_rounds`` rounds on
    average, at most ``most`` numbers in one.
    """
    numbers, indices = download(algorithm, server)
    up = {
        "numbers_a_round": float(sent[..., 0].mean() / n_rounds),
        "bytes_a_round": float(BYTES * sent.sum(axis=-1).mean() / n_rounds),
        "most_numbers_a_round": most,
        "numbers": float(sent[..., 0].mean()),
        "bytes": float(BYTES * sent.sum(axis=-1).mean()),
    }
    down = {
        "numbers_a_round": numbers,
        "bytes_a_round": BYTES * (numbers + indices),
        "most_numbers_a_round": numbers,
        "numbers": numbers * n_rounds,
        "bytes": BYTES * (numbers + indices) * n_rounds,
    }
    both = sent.shape[-2] * (up["bytes"] + down["bytes"])
    return {"up": up, "down": down, "bytes_of_all": both}


def features_for(
    algorithm: FederatedAlgorithm, params: Any, n_kernels: int, max_upload: int | None
) -> int:
    """D: the most random features, up to 100, with which no message exceeds ``max_upload``."""
    if max_upload is None:
        return MOST_FEATURES
    for D in range(MOST_FEATURES, 0, -1):
        if algorithm.upload(params, n_kernels, 2 * D) <= max_upload:
            return D
    least = algorithm.upload(params, n_kernels, 2)
    raise ValueError(
        f"max_upload={max_upload}: {algorithm.name} sends at least {least} numbers a round, even "
        "with one random feature a kernel. Allow more, or choose fewer kernels or a smaller M"
    )


def check_budget(
    algorithm: FederatedAlgorithm, params: Any, shape: tuple[int, int], max_upload: int | None
) -> None:
    """ValueError if a message of these shared parameters (N, W) could exceed the budget."""
    if max_upload is None:
        return
    N, W = shape
    most = algorithm.upload(params, N, W)
    if most > max_upload:
        raise ValueError(
            f"{algorithm.name} would send {most} numbers a round, max_upload={max_upload}; "
            "leave D=null, which chooses it from the budget, or choose a smaller D or M"
        )
