"""Columns of a Parquet file, made of their bytes.

pyarrow's own ways to make them import pandas, 0.3 s, to see whether they were given its objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa


def column(values: Sequence[Any] | np.ndarray, missing: np.ndarray | None = None) -> pa.Array:
    """A column of truth values, int64, float64 or texts, all of one kind.

    missing (n,) bool says where it is null; of a sequence, None is null too. TypeError for
    values of another kind.
    """
    n = len(values)
    if not isinstance(values, np.ndarray):
        absent = np.array([value is None for value in values], dtype=bool)
        if absent.all():
            return pa.Array.from_buffers(pa.null(), n, [None])
        filler = next(value for value in values if value is not None)
        kept = [filler if value is None else value for value in values]
        if all(isinstance(value, str) for value in kept):
            return _texts(kept, absent)
        values, missing = np.array(kept), absent
    if values.dtype == np.bool_:
        kind, data = pa.bool_(), np.packbits(values, bitorder="little")
    elif values.dtype == np.float64:
        kind, data = pa.float64(), np.ascontiguousarray(values)
    elif values.dtype == np.int64:
        kind, data = pa.int64(), np.ascontiguousarray(values)
    else:
        raise TypeError(f"{values.dtype} is no kind of a column")
    return pa.Array.from_buffers(kind, n, [_validity(missing), pa.py_buffer(data.tobytes())])


def _texts(values: Sequence[str], missing: np.ndarray) -> pa.Array:
    raw = [b"" if gone else text.encode() for text, gone in zip(values, missing, strict=True)]
    ends = np.cumsum([0, *map(len, raw)], dtype=np.int32)
    buffers = [_validity(missing), pa.py_buffer(ends.tobytes()), pa.py_buffer(b"".join(raw))]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def _validity(missing: np.ndarray | None) -> pa.Buffer | None:
    if missing is None or not missing.any():
        return None
    return pa.py_buffer(np.packbits(~missing, bitorder="little").tobytes())


def table(columns: dict[str, pa.Array]) -> pa.Table:
    schema = pa.schema([(name, values.type) for name, values in columns.items()])
    return pa.Table.from_arrays(list(columns.values()), schema=schema)
