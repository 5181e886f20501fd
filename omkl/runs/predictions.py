"""``predictions.parquet``: what was said of every row, beside its target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from omkl.utils import disk

KINDS = {float: "float64", int: "int64", bool: "bool_", str: "string"}


class _Table:
    """A Parquet file as it grows, compressed; columns by name and kind."""

    def __init__(self, path: Path, columns: Mapping[str, type]) -> None:
        import pyarrow as pa  # takes a while, and a run with many seeds has no use for it
        import pyarrow.parquet as pq

        self._pa, self._path = pa, path
        kinds = [(name, getattr(pa, KINDS[kind])()) for name, kind in columns.items()]
        self._schema = pa.schema(kinds)
        self._writer = pq.ParquetWriter(str(path), self._schema)

    def add(self, columns: Mapping[str, Any]) -> None:
        """Rows: an array (n,) for each column, NaN and None where not known; others are left."""
        arrays = [
            self._pa.array(columns[field.name], field.type, from_pandas=True)
            for field in self._schema
        ]
        with disk.with_path_in_error(self._path):
            self._writer.write_table(self._pa.table(arrays, schema=self._schema))

    def finished(self) -> Path:
        """The file, whole."""
        with disk.with_path_in_error(self._path):
            self._writer.close()
        return self._path


class Predictions:
    """What was said of the rows of a regression: about 20 bytes a row and seed.

    Columns: ``seed`` where there are several, ``row`` in the file, from 1, ``y`` (null where there
    is no target or nobody was asked for it), ``y_hat``, ``asked``, ``spread`` of a learner that
    has one, and ``low`` and ``high`` of an interval where there is one (null where not known).
    """

    def __init__(
        self, path: Path, seeds: Sequence[int], has_spread: bool, has_interval: bool = False
    ) -> None:
        columns: dict[str, type] = {"seed": int} if len(seeds) > 1 else {}
        columns |= {"row": int, "y": float, "y_hat": float, "asked": bool}
        columns |= {"spread": float} if has_spread else {}
        columns |= {"low": float, "high": float} if has_interval else {}
        self._table, self._seeds = _Table(path, columns), seeds

    def add(
        self,
        rows: np.ndarray,
        y: np.ndarray,
        y_hat: np.ndarray,
        asked: np.ndarray,
        spread: np.ndarray,
        half: np.ndarray,
    ) -> None:
        """A block: rows and y (n,), the others (R, n); NaN where not known."""
        for r, seed in enumerate(self._seeds):
            columns = {"seed": np.full(len(y), seed), "row": rows, "y": y, "y_hat": y_hat[r]}
            columns |= {"asked": asked[r], "spread": spread[r]}
            columns |= {"low": y_hat[r] - half[r], "high": y_hat[r] + half[r]}
            self._table.add(columns)

    def finished(self) -> Path:
        """The file, whole."""
        return self._table.finished()


class PredictedClasses:
    """What a seed's learners said of the rows of a classification.

    Columns: ``seed`` where there are several, ``row`` in the file, from 1, ``y`` and ``y_hat``, the
    class and the predicted one as texts (null where nothing was said: a score of 0 of two classes),
    and ``score``: of two classes what was said, of more the largest that was.
    """

    def __init__(self, path: Path, classes: Sequence[Any], seed: int | None) -> None:
        columns: dict[str, type] = {} if seed is None else {"seed": int}
        columns |= {"row": int, "y": str, "y_hat": str, "score": float}
        self._table, self._seed = _Table(path, columns), seed
        self._classes = np.array([str(label) for label in classes], dtype=object)

    def add(self, rows: np.ndarray, y: np.ndarray, y_hat: np.ndarray) -> None:
        """A block of rows (n,): y and y_hat as ``metrics.mistaken`` takes them."""
        if y_hat.ndim == 1:
            score = y_hat
            meant, true = (score > 0.0).astype(int), (y > 0.0).astype(int)
            said = np.where(score == 0.0, None, self._classes[meant])
        else:
            score, true = y_hat.max(axis=1), y.astype(int)
            said = self._classes[y_hat.argmax(axis=1)]
        columns = {"row": rows, "y": self._classes[true], "y_hat": said, "score": score}
        self._table.add({"seed": np.full(len(y), self._seed), **columns})

    def finished(self) -> Path:
        """The file, whole."""
        return self._table.finished()


def joined(parts: Sequence[Path], path: Path) -> Path:
    """The rows of the files ``parts``, one after another, in ``path``; the parts are removed."""
    import pyarrow.parquet as pq

    with disk.with_path_in_error(path):
        with pq.ParquetWriter(str(path), pq.read_schema(parts[0])) as writer:
            for part in parts:
                with pq.ParquetFile(part) as file:
                    for k in range(file.num_row_groups):
                        writer.write_table(file.read_row_group(k))
        for part in parts:
            part.unlink()
    return path
