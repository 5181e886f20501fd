"""Columns of Parquet files are those that pyarrow makes, and pandas stays where it is."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from omkl.runs.parquet import column, table


@pytest.mark.parametrize(
    "values",
    [
        [1, -(2**63), 2**63 - 1],
        [0.5, float("nan"), -0.0, float("inf")],
        [1, 2.5],
        ["a", "", "ä ∞", "x" * 300],
        [True, False, True] * 7,
        [None, None],
        [None, 3, None] * 5,
        ["a", None],
        [1.0, None, float("nan")],
        [],
    ],
    ids=str,
)
def test_columns_are_those_of_pyarrow(values):
    ours, theirs = column(values), pa.array(values)
    ours.validate(full=True)
    assert ours.type == theirs.type
    assert str(ours.to_pylist()) == str(theirs.to_pylist()), "as text: NaN is not equal to itself"


def test_columns_of_arrays_have_nulls_where_something_is_missing():
    values = np.array([1.0, np.nan, 3.0])
    assert column(values, np.isnan(values)).to_pylist() == [1.0, None, 3.0]
    assert column(np.arange(6)[::2]).to_pylist() == [0, 2, 4]
    found = table({"a": column(np.array([True, False])), "b": column(["x", "y"])})
    assert found.to_pylist() == [{"a": True, "b": "x"}, {"a": False, "b": "y"}]


@pytest.mark.parametrize("values", [[2**63], ["a", 1], np.arange(3, dtype=np.float32)], ids=str)
def test_what_is_no_column_is_refused(values):
    with pytest.raises(TypeError, match="no kind of a column"):
        column(values)


def test_pandas_is_not_imported():
    code = (
        "import io, sys, pyarrow.parquet; from omkl.runs.parquet import column, table;"
        "columns = {'a': column([1]), 'b': column(['x']), 'c': column([None])};"
        "pyarrow.parquet.write_table(table(columns), io.BytesIO());"
        "print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
