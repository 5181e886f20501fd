"""Messages between server and clients as Flower's records, and back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from omkl.federated.parties import Broadcast, ClientRound, Update
from omkl.federation.holders.holder import Reply


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
    except (KeyError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError("its answer cannot be read")
    return found


def asked_record(broadcast: Broadcast, client: int) -> RecordDict:
    """A broadcast, and which client is asked.

    In one record, since Flower fetches every array in two requests of its own.
    """
    arrays = broadcast._asdict()
    t = arrays.pop("t")
    return RecordDict({"asked": _packed(arrays, t=t, client=client)})


def read_asked(content: RecordDict) -> tuple[int, Broadcast]:
    """The client that is asked, and the broadcast."""
    record = content.config_records["asked"]
    arrays = {name: _unpacked(record, name) for name in Broadcast._fields if name != "t"}
    return int(record["client"]), Broadcast(int(record["t"]), **arrays)


def reply_record(client: int, t: int, reply: Reply) -> RecordDict:
    """What a client answers; besides the update, two numbers are all that it tells of its rows."""
    names = () if reply.update is None else ("rows", "theta", "losses")
    arrays = {name: getattr(reply.update, name) for name in names}
    measured = {"squared_error": reply.squared_error, "regret": reply.regret, "done": reply.done}
    return RecordDict({"reply": _packed(arrays, t=t, client=client, **measured)})


def read_reply(content: RecordDict) -> tuple[int, int, Reply]:
    """The client that speaks, the round, and its reply; raises whatever is wrong with it."""
    record = content.config_records["reply"]
    client, t = int(record["client"]), int(record["t"])
    update = None
    if "theta" in record:
        update = Update(client, t, *(_unpacked(record, n) for n in ("rows", "theta", "losses")))
    squared_error, regret = float(record["squared_error"]), float(record["regret"])
    return client, t, Reply(update, squared_error, regret, bool(record["done"]))


_TYPES = {"rows": "<i8", "announced": "<i8", "asked": "<i8"}  # of the arrays that are no float64


def _packed(arrays: dict[str, np.ndarray], **scalars: Any) -> ConfigRecord:
    record = ConfigRecord(scalars)
    for name, array in arrays.items():
        record[name] = array.astype(_TYPES.get(name, "<f8")).tobytes()
        record[f"{name}.shape"] = list(array.shape)
    return record


def _unpacked(record: ConfigRecord, name: str) -> np.ndarray:
    """A copy: what arrives cannot be written to."""
    array = np.frombuffer(record[name], dtype=_TYPES.get(name, "<f8"))
    return array.reshape(record[f"{name}.shape"]).copy()
