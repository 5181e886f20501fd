"""Prepare some files as in the published experiments, before they are streamed.

The key ``prepare`` of a data set's YAML can contain these steps, which are applied in this order:

first_rows     n: use the first n rows of the file
drop           {column, equals}: remove rows with this value in the column
keep           {column, at_most}: remove rows with a larger value in the column
complete       true: remove rows with a missing value in any column of the file
rows_each      {column, rows, values}: for each value in the column, use the first ``rows`` rows
               with this value. If ``values`` is n > 0, use only the n smallest values of the
               column; if it is -n, only the n largest
codes          names of columns of words: replace the n-th distinct word by the number n - 1
time_of_day    name of a column of clock times: replace a time by the fraction of the day
one_hot        {all_but}: replace every column except ``all_but`` by 0/1 columns, one for each value
               of the replaced column, in sorted order
scale_inputs   {shift, divide}: replace each input x by (x + shift) / divide
scale_columns  {low, high}: map each input linearly, so that its range in the file becomes
               [low, high]. A constant input becomes (low + high) / 2
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl.datasets.base import DataError

if TYPE_CHECKING:
    import pandas as pd


def prepare_rows(frame: pd.DataFrame, steps: Mapping[str, Any], where: str) -> pd.DataFrame:
    """Apply all preparation steps except scaling.

    Parameters
    ----------
    frame
        Rows of the file. The index, which is the row number in the file, does not change.
    steps
        Content of ``dataset.prepare``.
    where
        Name of the file, for messages.

    Raises
    ------
    DataError
        A step does not fit the file.
    """
    if steps.get("first_rows") is not None:
        frame = frame.iloc[: steps["first_rows"]]
    if drop := steps.get("drop"):
        frame = frame[_column(frame, drop["column"], where) != drop["equals"]]
    if keep := steps.get("keep"):
        frame = frame[_column(frame, keep["column"], where) <= keep["at_most"]]
    if steps.get("complete"):
        frame = frame[frame.notna().all(axis=1)]
    if each := steps.get("rows_each"):
        column = _column(frame, each["column"], where)
        if each.get("values") is not None:
            frame = frame[column.isin(_some_values(column, each["values"], where))]
        groups = frame.groupby(_column(frame, each["column"], where), sort=False)
        short = {name: n for name, n in groups.size().items() if n < each["rows"]}
        if short:
            raise DataError(f"{where}: dataset.prepare.rows_each={each['rows']}, there are {short}")
        frame = groups.head(each["rows"])
    for words in steps.get("codes") or ():
        frame = frame.assign(**{words: _column(frame, words, where).factorize()[0]})
    if clock := steps.get("time_of_day"):
        fractions = [_fraction_of_day(cell, clock, where) for cell in _column(frame, clock, where)]
        frame = frame.assign(**{clock: fractions})
    if one_hot := steps.get("one_hot"):
        import pandas as pd

        apart = one_hot["all_but"]
        _column(frame, apart, where)
        coded = pd.get_dummies(frame.drop(columns=apart).astype(str), dtype=float)
        frame = pd.concat([frame[[apart]], coded], axis=1)
    return frame


def _some_values(column: pd.Series, n: Any, where: str) -> list[Any]:
    """Return the first n values of a column in sorted order, or the last -n if n is negative."""
    values = sorted(column.dropna().unique())
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= abs(n) <= len(values):
        raise DataError(
            f"{where}: dataset.prepare.rows_each.values={n!r} is no whole number from 1 to "
            f"{len(values)}, the values of {column.name!r}, or from -{len(values)} to -1."
        )
    return values[:n] if n > 0 else values[n:]


def scale_values(values: np.ndarray, steps: Mapping[str, Any]) -> np.ndarray:
    """Apply the scaling steps to values (T, d + 1), whose last column is the target."""
    if scale := steps.get("scale_inputs"):
        values = values.copy()
        values[:, :-1] = (values[:, :-1] + scale["shift"]) / scale["divide"]
    if columns := steps.get("scale_columns"):
        values = values.copy()
        inputs = values[:, :-1]
        least, most = np.nanmin(inputs, axis=0), np.nanmax(inputs, axis=0)
        middle, half = 0.5 * (least + most), 0.5 * (most - least)
        to_middle = 0.5 * (columns["low"] + columns["high"])
        to_half = 0.5 * (columns["high"] - columns["low"])
        inputs -= middle
        inputs *= to_half / np.where(half > 0.0, half, 1.0)
        inputs += to_middle
    return values


def _column(frame: pd.DataFrame, name: str, where: str) -> pd.Series:
    if name not in frame.columns:
        raise DataError(
            f"{where}: dataset.prepare names the column {name!r}, the file has "
            f"{', '.join(map(str, frame.columns))}."
        )
    return frame[name]


def _fraction_of_day(cell: Any, name: str, where: str) -> float:
    if not isinstance(cell, datetime.time | datetime.datetime):
        raise DataError(f"{where}: column {name!r} has {cell!r} where a time should be.")
    return (cell.hour * 3600 + cell.minute * 60 + cell.second) / 86400
