"""Messages between server and clients as Flower's records, and back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from omkl.federated.holders.holder import Reply
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


def last_line(reason: Any) -> str:
    """The last line of an error, which says what it was."""
    lines = [line for line in str(reason).splitlines() if line.strip()]
    return lines[-1] if lines else "no reason"


# --- clients with files of their own ------------------------------------------------------------


def said(**content: Any) -> RecordDict:
    """Words and numbers between a server and its clients, beside the rounds."""
    return RecordDict({"said": ConfigRecord({"text": json.dumps(content)})})


def read_said(content: RecordDict) -> dict[str, Any]:
    """What ``said`` made; ValueError for what is none."""
    try:
        found = json.loads(str(content.config_records["said"]["text"]))
    except (KeyError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise ValueError("its answer cannot be read")
    return found


def asked_record(broadcast: Broadcast, client: int) -> RecordDict:
    """A broadcast, and which client is asked."""
    content = broadcast_record(broadcast)
    content["round"] = ConfigRecord({"t": broadcast.t, "client": client})
    return content


def asked_client(content: RecordDict) -> int:
    return int(content.config_records["round"]["client"])


def reply_record(client: int, t: int, reply: Reply) -> RecordDict:
    """What a client answers; the first three are all that it tells of its rows."""
    measured = {"squared_error": reply.squared_error, "regret": reply.regret}
    content = {
        "measured": MetricRecord(measured),
        "round": ConfigRecord({"t": t, "client": client, "done": reply.done}),
    }
    if reply.update is not None:
        update = reply.update
        arrays = arrays_of(rows=update.rows, theta=update.theta, losses=update.losses)
        return RecordDict(content | {"update": arrays})
    return RecordDict(content)


def read_reply(content: RecordDict) -> tuple[int, int, Reply]:
    """The client that speaks, the round, and its reply; raises whatever is wrong with it."""
    sender = content.config_records["round"]
    client, t = int(sender["client"]), int(sender["t"])
    measured = content.metric_records["measured"]
    update = None
    if "update" in content.array_records:
        arrays = {n: array.numpy() for n, array in content.array_records["update"].items()}
        update = Update(client, t, **arrays)
    squared_error, regret = float(measured["squared_error"]), float(measured["regret"])
    return client, t, Reply(update, squared_error, regret, bool(sender["done"]))
