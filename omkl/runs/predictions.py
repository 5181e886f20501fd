"""``predictions.parquet``: what was said of every row, beside its target."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np


class Predictions:
    """The file as it grows, compressed, in memory: about 20 bytes a row and seed.

    Columns: ``seed`` where there are several, ``row`` in the file, from 1, ``y`` (null where there
    is no target or nobody was asked for it), ``y_hat``, ``asked``, and ``spread`` of a learner that
    has one (null where it is not known).
    """

    def __init__(self, seeds: Sequence[int], has_spread: bool) -> None:
        import pyarrow as pa  # takes a while, and a run with many seeds has no use for it
        import pyarrow.parquet as pq

        from omkl.runs import parquet

        fields = {"row": pa.int64(), "y": pa.float64(), "y_hat": pa.float64(), "asked": pa.bool_()}
        if has_spread:
            fields["spread"] = pa.float64()
        if len(seeds) > 1:
            fields = {"seed": pa.int64(), **fields}
        self._parquet, self._schema, self._seeds = parquet, pa.schema(list(fields.items())), seeds
        self._sink = io.BytesIO()
        self._writer = pq.ParquetWriter(self._sink, self._schema)

    def add(self, rows: np.ndarray, y: np.ndarray, *said: np.ndarray) -> None:
        """A block: rows and y (n,), NaN where not known; y_hat, asked and spread (R, n)."""
        column = self._parquet.column
        label, row = column(y, np.isnan(y)), column(rows)
        for seed, y_hat, asked, spread in zip(self._seeds, *said, strict=True):
            columns = {
                "seed": column(np.full(len(y), seed)),
                "row": row,
                "y": label,
                "y_hat": column(y_hat),
                "asked": column(asked),
                "spread": column(spread, np.isnan(spread)),
            }
            kept = {name: columns[name] for name in self._schema.names}
            self._writer.write_table(self._parquet.table(kept))

    def file(self) -> bytes:
        self._writer.close()
        return self._sink.getvalue()
