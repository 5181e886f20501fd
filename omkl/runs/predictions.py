"""``predictions.parquet``: what was said of every row, beside its target."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np


class Predictions:
    """The file as it grows, compressed, in memory: about 20 bytes a row and seed.

    Columns: ``seed`` where there are several, ``row`` in the file, from 1, ``y`` (null where there
    is no target or nobody was asked for it), ``y_hat``, ``asked``.
    """

    def __init__(self, seeds: Sequence[int]) -> None:
        import pyarrow as pa  # takes a while, and a run with many seeds has no use for it
        import pyarrow.parquet as pq

        fields = {"row": pa.int64(), "y": pa.float64(), "y_hat": pa.float64(), "asked": pa.bool_()}
        if len(seeds) > 1:
            fields = {"seed": pa.int64(), **fields}
        self._pa, self._schema, self._seeds = pa, pa.schema(list(fields.items())), seeds
        self._sink = io.BytesIO()
        self._writer = pq.ParquetWriter(self._sink, self._schema)

    def add(self, rows: np.ndarray, y: np.ndarray, y_hat: np.ndarray, asked: np.ndarray) -> None:
        """A block: rows and y (n,), NaN where not known; y_hat and asked (R, n)."""
        for seed, said, wanted in zip(self._seeds, y_hat, asked, strict=True):
            label = self._pa.array(y, from_pandas=True)
            columns = {"seed": [seed] * len(y), "row": rows, "y": label, "y_hat": said}
            columns["asked"] = wanted
            arrays = [columns[name] for name in self._schema.names]
            self._writer.write_table(self._pa.table(arrays, schema=self._schema))

    def file(self) -> bytes:
        self._writer.close()
        return self._sink.getvalue()
