"""Panel as a stateful operator of Spark Structured Streaming (extra ``spark``).

Spark keeps the state of each series, a few kB, in its state store, and gives the rows of a series
to the process with that state. Every process draws the random features from the seed.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl.online.panel import Panel

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

STATE = "learned binary"
NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
NAME_TYPES = ("tinyint", "smallint", "int", "bigint", "string")


def partial_fit(rows: DataFrame, panel: Panel, *, target: str, order: str) -> DataFrame:
    """Predict and learn each row of a streaming data frame, as ``Panel.partial_fit``.

    Predictions equal those of the panel in one process, to the last bit, if both read the rows of a
    series in the same order. The column ``order`` sorts the rows of a micro-batch. Rows of a later
    micro-batch come later, whatever their ``order``.

    Parameters
    ----------
    rows
        A streaming data frame: series, inputs, ``target`` and ``order`` are columns.
    panel
        A panel without rows, from ``omkl.panel(series=COLUMN, inputs=[NAMES])``. Only its settings
        are used. Series share random features and nothing else.
    target
        Column of targets; a row with null is predicted and not learned.
    order
        Column of numbers or times, different in all rows of a series in a micro-batch.

    Returns
    -------
    DataFrame
        Streaming, with series, ``order`` and ``y_hat`` of each row, once each. Its query needs a
        checkpoint, the output mode "append", and ``omkl`` in Python on every machine.

    Raises
    ------
    ValueError
        A setting or a column does not fit; the text names it.
    """
    from pyspark.sql.streaming.state import GroupStateTimeout

    series, inputs = _checked(rows, panel, target, order)
    types = dict(rows.dtypes)
    schema = f"`{series}` {types[series]}, `{order}` {types[order]}, y_hat double"
    learn = _learner_of_series(pickle.dumps(panel.settings), series, list(inputs), target, order)
    # A repeated column, such as a target that is also the order, would be ambiguous.
    wanted = rows.select(*dict.fromkeys([series, order, target, *inputs]))
    return wanted.groupBy(series).applyInPandasWithState(
        learn, schema, STATE, "append", GroupStateTimeout.NoTimeout
    )


def _checked(rows: DataFrame, panel: Panel, target: str, order: str) -> tuple[str, tuple[str, ...]]:
    """Return the column of series and the columns of inputs. Raises ValueError for a misfit."""
    inputs = panel.settings.inputs
    if panel.series is None or not inputs or not panel.settings.named:
        raise ValueError("name the columns of the panel: omkl.panel(series=COLUMN, inputs=[NAMES])")
    shares = panel.share_weights or panel.share_scaling or panel.settings.interval is not None
    if len(panel) or shares or panel.max_series is not None:
        raise ValueError(
            "the panel has rows, max_series, or something that series share, which is for one "
            "process: give a new omkl.panel without max_series, share_weights, "
            "share_scaling and interval"
        )
    types = dict(rows.dtypes)
    if absent := [n for n in (panel.series, *inputs, target, order) if n not in types]:
        raise ValueError(f"the data frame has no column {', '.join(absent)}; it has {list(types)}")
    if types[panel.series] not in NAME_TYPES:
        raise ValueError(
            f"the series {panel.series} is {types[panel.series]}: cast it to one of {NAME_TYPES}"
        )
    for name in (*inputs, target):
        if types[name] not in NUMBERS:
            raise ValueError(f"column {name} is {types[name]}: cast it to one of {NUMBERS}")
    return panel.series, inputs


def _learner_of_series(
    settings: bytes, series: str, inputs: list[str], target: str, order: str
) -> Callable[..., Iterator[pd.DataFrame]]:
    """Return the function that Spark calls with all rows of a series in a micro-batch."""

    def learn(
        names: tuple[Any], parts: Iterator[pd.DataFrame], state: Any
    ) -> Iterator[pd.DataFrame]:
        import pandas as pd

        if names[0] is None:
            raise ValueError(f"a row has no {series}, the series: leave such rows out")
        panel, rows = _panel_of(settings), pd.concat(list(parts)).sort_values(order)
        if rows[order].isna().any() or rows[order].duplicated().any():
            raise ValueError(
                f"two rows of series {names[0]!r} have the same {order}, or one has none"
            )
        X, y = (rows[names].to_numpy(dtype=np.float64) for names in (inputs, target))
        try:
            if state.exists:
                panel.restore_series(names[0], state.get[0])
            y_hat = panel.partial_fit(X, y, np.array([names[0]] * len(rows), dtype=object)).y_hat
            state.update((panel.state_of(names[0]),))
        finally:  # Spark stores the state, and repeats failed rows from it
            if names[0] in panel:
                panel.forget(names[0])
        yield pd.DataFrame({series: rows[series], order: rows[order], "y_hat": y_hat})

    return learn


@functools.lru_cache(maxsize=4)
def _panel_of(settings: bytes) -> Panel:
    """Return an empty panel, once per process: it draws features and loads compiled code."""
    return Panel(pickle.loads(settings), threads=1)
