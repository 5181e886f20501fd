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

        fields = {"row": pa.int64(), "y": pa.float64(), "y_hat": pa.float64(), "asked": pa.bool_()}
        if has_spread:
            fields["spread"] = pa.float64()
        if len(seeds) > 1:
            fields = {"seed": pa.int64(), **fields}
        self._pa, self._schema, self._seeds = pa, pa.schema(list(fields.items())), seeds
        self._sink = io.BytesIO()
        self._writer = pq.ParquetWriter(self._sink, self._schema)

    def add(self, rows: np.ndarray, y: np.ndarray, *said: np.ndarray) -> None:
        """A block: rows and y (n,), NaN where not known; y_hat, asked and spread (R, n)."""
        label = self._pa.array(y, from_pandas=True)
        for seed, y_hat, asked, spread in zip(self._seeds, *said, strict=True):
            columns = {"seed": [seed] * len(y), "row": rows, "y": label, "y_hat": y_hat}
            columns |= {"asked": asked, "spread": self._pa.array(spread, from_pandas=True)}
            arrays = [columns[name] for name in self._schema.names]
            self._writer.write_table(self._pa.table(arrays, schema=self._schema))

    def file(self) -> bytes:
        self._writer.close()
        return self._sink.getvalue()
