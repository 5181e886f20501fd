"""Cells of a column as numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from omkl.datasets.base import DataError

if TYPE_CHECKING:
    import pandas as pd

BLANK = "What stands for a blank goes into dataset.na_values."
OF_INPUT = f"Correct the file or leave the column out of dataset.inputs. {BLANK}"
OF_TARGET = f"Correct the file; if these are classes, add task=classification. {BLANK}"


def column_values(
    series: pd.Series, name: str, rows: np.ndarray, where: str, cure: str = OF_INPUT
) -> np.ndarray:
    """A column as float64 (n,), NaN where blank; a DataError with its ``cure`` for other text."""
    values, text = numbers_of(series)
    if text.any():
        n = int(np.argmax(text))
        raise DataError(
            f"{where}: row {rows[n]}, column {name!r} holds {str(series.iloc[n])!r} "
            f"where a number should be. {cure}"
        )
    return values


def numeric_columns(frame: pd.DataFrame) -> list[bool]:
    """Which columns are ``mostly_numbers``."""
    return [mostly_numbers(*numbers_of(frame.iloc[:, k])) for k in range(frame.shape[1])]


def mostly_numbers(values: np.ndarray, text: np.ndarray) -> bool:
    """Whether at least half of the cells of a column that are not blank are numbers.

    Takes what ``numbers_of`` found. A lone word among numbers then is an error with a row, not a
    column left out in silence.
    """
    return bool(text.sum() <= np.isfinite(values).sum())


def numbers_of(series: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Numbers (n,), NaN elsewhere; where there is text or anything else but a blank (n,).

    True and False, which stand beside blanks as objects, are 1 and 0, as they are without blanks.
    """
    import pandas as pd

    if pd.api.types.is_numeric_dtype(series.dtype):
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        return values, np.zeros(len(values), dtype=bool)
    if series.dtype == object:
        switches = series.map(lambda cell: isinstance(cell, bool | np.bool_))
        if switches.any():
            series = series.mask(switches, series.where(switches, 0).astype(int))
    words = series.astype(str).str.strip()
    numbers = pd.to_numeric(words, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    blank = (series.isna() | (words == "")).to_numpy(dtype=bool)
    return numbers, np.isnan(numbers) & ~blank
