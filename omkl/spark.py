"""Learn many series in Spark Structured Streaming with a stateful operator (extra ``spark``).

The series are divided into buckets by their hash, and each bucket has one learner. Spark stores
the learner in its state store, and calls Python once per bucket and micro-batch. One call per
series would take more time than learning its rows. Every process draws the same random features
from the seed.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import io
import json
import pickle
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl.core.hyperparameters import require_count
from omkl.online.learner import OnlineLearner
from omkl.online.panel import Panel

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

STATE = "learned binary"
NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
NAME_TYPES = ("tinyint", "smallint", "int", "bigint", "string")
BUCKET, MADE_WITH = "omkl_bucket", "made_with"


def partial_fit(
    rows: DataFrame, learner: Panel | OnlineLearner, *, target: str, order: str, n_buckets: int = 16
) -> DataFrame:
    """Predict and learn each row of a streaming data frame, as ``learner.partial_fit`` does.

    The column ``order`` sorts the rows of a micro-batch. Rows of a later micro-batch are learned
    later, whatever their ``order``. The predictions of a panel equal exactly those of a panel in
    one process that reads the rows of each series in the same order. ``auto`` has one learner per
    bucket, so its predictions equal those of one process only if ``n_buckets`` is 1.

    Parameters
    ----------
    rows
        A streaming data frame: series, inputs, ``target`` and ``order`` are columns.
    learner
        A learner without rows, from ``omkl.panel(series=COLUMN, inputs=[NAMES])`` or
        ``omkl.learner("auto", series=COLUMN, inputs=[NAMES])``. Only its settings are used.
    target
        Column of targets; a row with null is predicted and not learned.
    order
        Column of numbers or times. Two rows of a series in one micro-batch must not have the same
        value. ``auto`` predicts all rows of a bucket with the same ``order`` before it learns any
        of them, unless ``series_delay`` is 0.
    n_buckets
        Number of buckets, >= 1. It must not change while a checkpoint is used. Spark rewrites the
        whole state of each bucket that has rows in a micro-batch. Use at least twice the number of
        cores, and more buckets if the state of a bucket exceeds about 20 MB.

    Returns
    -------
    DataFrame
        Streaming data frame with the series, ``order`` and prediction ``y_hat`` of each row. Every
        row occurs once. Its query needs a checkpoint, the output mode "append", and ``omkl`` in the
        Python of every machine.

    Raises
    ------
    ValueError
        A setting or a column does not fit; the text names it.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.streaming.state import GroupStateTimeout

    require_count("n_buckets", n_buckets)
    series, inputs = _checked(rows, learner, target, order)
    types = dict(rows.dtypes)
    schema = f"`{series}` {types[series]}, `{order}` {types[order]}, y_hat double"
    made = pickle.dumps((type(learner), learner.settings, n_buckets))
    learn = learner_of_bucket(made, series, list(inputs), target, order)
    # A repeated column, such as a target that is also the order, would be ambiguous.
    wanted = rows.select(*dict.fromkeys([series, order, target, *inputs]))
    bucket = F.pmod(F.hash(F.col(f"`{series}`")), F.lit(n_buckets))
    return (
        wanted.withColumn(BUCKET, bucket)
        .groupBy(BUCKET)
        .applyInPandasWithState(learn, schema, STATE, "append", GroupStateTimeout.NoTimeout)
    )


def _checked(
    rows: DataFrame, learner: Panel | OnlineLearner, target: str, order: str
) -> tuple[str, tuple[str, ...]]:
    """Return the column of series and the columns of inputs.

    Raises ValueError if the learner or the types of the columns cannot be used.
    """
    settings = learner.settings
    inputs, series = settings.inputs, settings.series
    shares, max_series = False, settings.max_series
    if isinstance(learner, Panel):
        begun, series, max_series = len(learner), learner.series, learner.max_series
        shares = learner.share_weights or learner.share_scaling
    else:
        begun = learner.n_rows
    if series is None or not inputs or not settings.named:
        raise ValueError(
            "name the columns: omkl.panel(series=COLUMN, inputs=[NAMES]), or "
            'omkl.learner("auto", series=COLUMN, inputs=[NAMES])'
        )
    if begun or shares or max_series is not None or settings.interval is not None:
        raise ValueError(
            "the learner has rows, max_series, an interval, or something that all series of a "
            "panel share, which is for one process: give a new one without max_series, interval, "
            "share_weights and share_scaling"
        )
    types = dict(rows.dtypes)
    if absent := [n for n in (series, *inputs, target, order) if n not in types]:
        raise ValueError(f"the data frame has no column {', '.join(absent)}; it has {list(types)}")
    if types[series] not in NAME_TYPES:
        raise ValueError(f"the series {series} is {types[series]}: cast it to one of {NAME_TYPES}")
    for name in (*inputs, target):
        if types[name] not in NUMBERS:
            raise ValueError(f"column {name} is {types[name]}: cast it to one of {NUMBERS}")
    return series, inputs


def learner_of_bucket(
    made: bytes, series: str, inputs: list[str], target: str, order: str
) -> Callable[..., Iterator[pd.DataFrame]]:
    """Return the function that Spark calls with all rows of a bucket in a micro-batch.

    Parameters
    ----------
    made
        Pickle of the class of the learner, its settings and the number of buckets.
    series, inputs, target, order
        Names of columns.
    """

    def learn(_: Any, parts: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        import pandas as pd

        rows = pd.concat(list(parts))
        for column in (series, order):
            if rows[column].isna().any():
                raise ValueError(f"a row has no {column}: leave such rows out")
        # Spark shuffles rows. The same micro-batch must have the same order when it is repeated.
        rows = rows.sort_values([order, series], ignore_index=True)
        if (twice := rows.duplicated([order, series])).any():
            name = rows[series].tolist()[int(np.argmax(twice))]
            raise ValueError(f"two rows of series {name!r} have the same {order}")
        learner = copy.deepcopy(_empty_learner(made))
        if state.exists:
            _restore(learner, state.get[0], made)
        X, y = (rows[names].to_numpy(dtype=np.float64) for names in (inputs, target))
        dated = isinstance(learner, OnlineLearner) and learner.settings.series_delay != 0
        dates = {"dates": rows[order]} if dated else {}
        y_hat = learner.partial_fit(X, y, rows[series], **dates).y_hat
        state.update((_state_of(learner, made),))
        yield pd.DataFrame({series: rows[series], order: rows[order], "y_hat": y_hat})

    return learn


@functools.lru_cache(maxsize=4)
def _empty_learner(made: bytes) -> Any:
    """Return a learner that has learned no row. The caller must copy it before it learns.

    The result is cached, because drawing features and loading compiled code take long.
    """
    kind, settings, _ = pickle.loads(made)
    return kind(settings, threads=1)


def _made_with(made: bytes) -> np.ndarray:
    """Return the settings and the number of buckets as JSON text, an array of bytes."""
    kind, settings, n_buckets = pickle.loads(made)
    text = json.dumps([kind.__name__, dataclasses.asdict(settings), n_buckets])
    return np.frombuffer(text.encode(), dtype=np.uint8)


def _state_of(learner: Panel | OnlineLearner, made: bytes) -> bytes:
    """Return the state of a learner for ``_restore``. Spark compresses it."""
    file, arrays = io.BytesIO(), learner.arrays() | {MADE_WITH: _made_with(made)}
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def _restore(learner: Panel | OnlineLearner, state: bytes, made: bytes) -> None:
    """Restore a state into a new learner. Raises ValueError if the state has other settings."""
    with np.load(io.BytesIO(state), allow_pickle=False) as file:
        arrays = dict(file.items())
    if not np.array_equal(arrays.pop(MADE_WITH), _made_with(made)):
        raise ValueError(
            "the checkpoint has learners of other settings or another number of buckets: give "
            "those, or begin with a new checkpoint"
        )
    learner.restore(arrays)
