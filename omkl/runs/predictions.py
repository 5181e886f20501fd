"""``predictions.parquet``: what was said of every row, beside its target."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from omkl import disk


class Predictions:
    """The file ``path`` as it grows, compressed: about 20 bytes a row and seed.

    Columns: ``seed`` where there are several, ``row`` in the file, from 1, ``y`` (null where there
    is no target or nobody was asked for it), ``y_hat``, ``asked``, ``spread`` of a learner that
    has one, and ``low`` and ``high`` of an interval where there is one (null where not known).
    """

    def __init__(
        self, path: Path, seeds: Sequence[int], has_spread: bool, has_interval: bool = False
    ) -> None:
        import pyarrow as pa  # takes a while, and a run with many seeds has no use for it
        import pyarrow.parquet as pq

        fields = {"row": pa.int64(), "y": pa.float64(), "y_hat": pa.float64(), "asked": pa.bool_()}
        if has_spread:
            fields["spread"] = pa.float64()
        if has_interval:
            fields |= {"low": pa.float64(), "high": pa.float64()}
        if len(seeds) > 1:
            fields = {"seed": pa.int64(), **fields}
        self._pa, self._schema, self._seeds = pa, pa.schema(list(fields.items())), seeds
        self._path = path
        self._writer = pq.ParquetWriter(str(path), self._schema)

    def add(
        self,
        rows: np.ndarray,
        y: np.ndarray,
        y_hat: np.ndarray,
        asked: np.ndarray,
        spread: np.ndarray,
        half: np.ndarray | None,
    ) -> None:
        """A block: rows and y (n,), NaN where not known; the others (R, n), ``half`` or None."""
        for r, seed in enumerate(self._seeds):
            columns = {"seed": np.full(len(y), seed), "row": rows, "y": y, "y_hat": y_hat[r]}
            columns |= {"asked": asked[r], "spread": spread[r]}
            if half is not None:
                columns |= {"low": y_hat[r] - half[r], "high": y_hat[r] + half[r]}
            arrays = [
                self._pa.array(columns[field.name], field.type, from_pandas=True)
                for field in self._schema
            ]
            with disk.naming(self._path):
                self._writer.write_table(self._pa.table(arrays, schema=self._schema))

    def finished(self) -> Path:
        """The file, whole."""
        with disk.naming(self._path):
            self._writer.close()
        return self._path
