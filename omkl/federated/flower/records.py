"""Messages between server and clients as Flower's records, and back."""

from __future__ import annotations

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from omkl.federated.parties import Broadcast, ClientRound, Update


def arrays_of(**named: np.ndarray) -> ArrayRecord:
    return ArrayRecord({name: Array(np.ascontiguousarray(a)) for name, a in named.items()})


def broadcast_record(broadcast: Broadcast) -> RecordDict:
    """The arrays of a broadcast, and its round."""
    arrays = broadcast._asdict()
    t = arrays.pop("t")
    return RecordDict({"broadcast": arrays_of(**arrays), "round": ConfigRecord({"t": t})})


def read_broadcast(content: RecordDict) -> Broadcast:
    arrays = {name: array.numpy() for name, array in content.array_records["broadcast"].items()}
    return Broadcast(int(content.config_records["round"]["t"]), **arrays)


def round_record(played: ClientRound) -> RecordDict:
    """The arrays of an update, whose it is and of which round, and what the client measured."""
    update = played.update
    arrays = arrays_of(rows=update.rows, theta=update.theta, losses=update.losses)
    sender = ConfigRecord({"t": update.t, "client": update.client})
    measured = MetricRecord({"y_hat": played.y_hat, "regret": played.regret})
    return RecordDict({"update": arrays, "round": sender, "measured": measured})


def read_round(content: RecordDict) -> ClientRound:
    arrays = {name: array.numpy() for name, array in content.array_records["update"].items()}
    sender = content.config_records["round"]
    measured = content.metric_records["measured"]
    update = Update(int(sender["client"]), int(sender["t"]), **arrays)
    return ClientRound(update, float(measured["y_hat"]), float(measured["regret"]))
