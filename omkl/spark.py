"""A learner per key as an operator of Spark Structured Streaming: ``pip install 'omkl[spark]'``.

Where a panel outgrows one machine, Spark keeps the learners: it sends the rows of a key to one
place, holds what the key has learned as the state of its group, and brings both back from its
checkpoint after a failure. Random features follow from the seed, so that they do not travel.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

try:
    import pyspark  # noqa: F401
    from pyspark.sql.streaming.state import GroupStateTimeout
    from pyspark.sql.types import BinaryType, DoubleType, StructField, StructType
except ImportError as error:
    raise ImportError(
        f"omkl.spark needs PySpark 4 and a JVM: pip install 'omkl[spark]' ({error})"
    ) from None

from omkl.api import panel as make_panel
from omkl.online.panel import Panel

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.state import GroupState

__all__ = ["predict_and_learn"]


def predict_and_learn(
    rows: DataFrame,
    *,
    key: str,
    target: str,
    order: str,
    inputs: Sequence[str] | None = None,
    algorithm: str = "raker",
    **settings: Any,
) -> DataFrame:
    """Predict each row of a stream before its target is learned, by a learner of its key.

    Predictions are those of ``omkl.panel`` on the same rows, to the bit.

    Parameters
    ----------
    rows
        A streaming data frame.
    key
        The column whose values have a learner each.
    target
        The column of targets, numbers; null where there is none: such a row is predicted only.
    order
        The column that says in which order rows are learned. Spark does not keep the order of
        rows, so those of a micro-batch are sorted by it. A row that comes in a later micro-batch is
        learned later, whatever its place is.
    inputs
        The columns that are inputs, of numbers; None: all but the three above.
    algorithm, settings
        As ``omkl.panel`` takes them, without what keys would share (``share_weights``,
        ``share_scaling``), ``max_keys``, which are of one process, and ``threads``.

    Returns
    -------
    A streaming data frame with the columns ``key``, ``order``, ``target`` and ``y_hat``, to be
    written in append mode. With a checkpoint, and a sink that Spark writes exactly once such as
    files, no row is lost or learned twice after a failure.

    Raises
    ------
    ValueError
        Names a column that is not there, or a setting that is wrong.
    """
    of_one = {"key", "max_keys", "share_weights", "share_scaling", "threads"} & set(settings)
    if of_one:
        raise ValueError(f"{', '.join(sorted(of_one))}: on Spark each key is kept by itself")
    named = (key, target, order)
    given = [name for name in rows.columns if name not in named] if inputs is None else [*inputs]
    if missing := [name for name in (*named, *given) if name not in rows.columns]:
        raise ValueError(f"the stream has no column {', '.join(map(repr, missing))}")
    text = json.dumps({"algorithm": algorithm, "inputs": given, "threads": 1, **settings})
    _panel(text)  # says what is wrong before anything starts
    kept = [rows.schema[key], rows.schema[order]]
    numbers = [StructField(target, DoubleType()), StructField("y_hat", DoubleType())]
    return rows.groupBy(key).applyInPandasWithState(
        functools.partial(_learn, text, key, target, order, given),
        outputStructType=StructType([*kept, *numbers]),
        stateStructType=StructType([StructField("learned", BinaryType())]),
        outputMode="append",
        timeoutConf=GroupStateTimeout.NoTimeout,
    )


@functools.lru_cache(maxsize=8)
def _panel(text: str) -> Panel:
    """One per process and settings, in which keys come and go."""
    return make_panel(**json.loads(text))


def _learn(
    text: str,
    key: str,
    target: str,
    order: str,
    inputs: list[str],
    name: tuple[Any],
    chunks: Iterator[pd.DataFrame],
    state: GroupState,
) -> Iterator[pd.DataFrame]:
    """Predictions of the rows of a key in a micro-batch, which Spark hands over in chunks."""
    import pandas as pd

    rows = pd.concat(list(chunks)).sort_values(order, kind="stable")
    panel, slot = _panel(text), 0
    if slot in panel:  # a row before stopped half-way
        panel.forget(slot)
    if state.exists:
        panel.put_in(slot, bytes(state.get[0]))
    y = rows[target].to_numpy(dtype=float)
    X = rows[inputs].astype(float)
    y_hat = panel.partial_fit(X, y, np.full(len(rows), slot)).y_hat
    state.update((panel.take_out(slot),))
    yield pd.DataFrame({key: rows[key], order: rows[order], target: y, "y_hat": y_hat})
