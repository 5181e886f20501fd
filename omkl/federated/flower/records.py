"""Messages between server and clients as Flower's records, and back."""

from __future__ import annotations

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from omkl.federated.parties import Reply, Told


def arrays_of(**named: np.ndarray) -> ArrayRecord:
    return ArrayRecord({name: Array(np.ascontiguousarray(a)) for name, a in named.items()})


def told_record(told: Told) -> RecordDict:
    arrays = arrays_of(theta=told.theta, log_w=told.log_w, announced=told.announced)
    return RecordDict({"told": arrays, "round": ConfigRecord({"t": told.t})})


def read_told(content: RecordDict) -> Told:
    arrays = {name: array.numpy() for name, array in content.array_records["told"].items()}
    return Told(int(content.config_records["round"]["t"]), **arrays)


def reply_record(reply: Reply, y_hat: float, regret: float) -> RecordDict:
    arrays = arrays_of(rows=reply.rows, theta=reply.theta, extras=reply.extras)
    whose = ConfigRecord({"t": reply.t, "client": reply.client})
    measured = MetricRecord({"y_hat": y_hat, "regret": regret})
    return RecordDict({"reply": arrays, "round": whose, "measured": measured})


def read_reply(content: RecordDict) -> tuple[Reply, float, float]:
    arrays = {name: array.numpy() for name, array in content.array_records["reply"].items()}
    whose = content.config_records["round"]
    measured = content.metric_records["measured"]
    reply = Reply(int(whose["client"]), int(whose["t"]), **arrays)
    return reply, float(measured["y_hat"]), float(measured["regret"])
