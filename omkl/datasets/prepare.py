"""Preparation of some files as in the published experiments, before they are streamed.

Steps of ``prepare:`` in a data set's YAML, applied in this order:

first_rows     number of rows from the top of the file that are used
drop           {column, equals}: remove rows with this value
keep           {column, at_most}: remove rows above this value
complete       true: remove rows with a missing value in any column of the file
rows_each      {column, rows, values}: use the first ``rows`` rows of each value of the column. With
               ``values`` = n, only of its first n values in sorted order, or the last -n
codes          columns of words; the n-th distinct word becomes the number n - 1
time_of_day    column of clock times; becomes the fraction of the day
one_hot        {all_but}: every other column becomes one 0/1 column per value, in sorted order
scale_inputs   {shift, divide}: (x + shift) / divide, for all inputs
scale_columns  {low, high}: every input linearly from its smallest and largest value in the
               file to these; a constant one becomes their middle
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
        Rows of the file. Their index, the row number in the file, is kept.
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
    """Apply the steps that scale to the values (T, d + 1), the target last."""
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
