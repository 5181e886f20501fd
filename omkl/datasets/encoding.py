"""Columns of an own file as numbers, without a look at the target.

What becomes of a column is decided by the first rows of the file, so that the number of inputs is
known before the stream begins; what a cell becomes depends on that cell alone.

numbers      as they are; of true and false 1 and 0
categories   words of which the first rows have at most MOST_CATEGORIES: a column of 0 and 1 a
             word, in the order of appearance; a word that comes later is 0 in all of them
hashed       more words: HASHED columns of 0 and 1, a word's place being its checksum
date         hour (where there is one), weekday (Monday is 0), day of the year, and days elapsed
             since the first row; of a clock time the hour
left out     words that are nearly all different, and whole numbers that count the rows, unless
             they are named in dataset.inputs; a column without a value
"""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.datasets.base import DataError
from omkl.datasets.cells import column_values, mostly_numbers, numbers_of

if TYPE_CHECKING:
    import pandas as pd

MOST_CATEGORIES, HASHED = 20, 16
FEWEST_ROWS, MOSTLY = 20, 0.9  # of so many rows on, this share of different words is an id
DATE = r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?"
DAYS = (
    "%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d.%m.%y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y",
    "%d/%m/%y", "%d-%m-%Y",
)  # fmt: skip
WITH_SIGN = r"[-+]?[^\w\s]? ?[-+]?\d[\d.,]* ?[^\w\s]?"  # $3.50 or 12 %
_NO_CELLS = (list, dict, tuple, set, np.ndarray)
CLOCK = r"\d{1,2}:\d{2}(:\d{2})?"


class Column(NamedTuple):
    """What becomes of a column: ``kind`` as above, names of its inputs, why, and how.

    ``recipe`` says it in JSON, so that another file is read alike; {} of one that is no input.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    why: str = ""
    recipe: Mapping[str, Any] = {}

    @property
    def encode(self) -> Callable[[pd.Series, np.ndarray, str], np.ndarray] | None:
        """encode(series, rows, where) are the cells as numbers (n, inputs), NaN where blank.

        rows (n,) are numbers of the file's rows, for errors.
        """
        how = self.recipe.get("how")
        if how == "numbers":
            return _numbers
        if how == "words":
            places = {word: k for k, word in enumerate(self.recipe["known"])}
            return functools.partial(_one_hot, place=places.get, size=len(places))
        if how == "hashed":
            return functools.partial(_one_hot, place=_hash, size=HASHED)
        return functools.partial(_parts, name=self.name, **self.recipe["date"]) if how else None

    def told(self) -> dict[str, Any]:
        return {"column": self.name, "as": self.kind, "inputs": list(self.inputs), "why": self.why}


NUMBERS = {"how": "numbers"}


def column_of(series: pd.Series, name: str) -> Column:
    """What becomes of a column whose first cells are these."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(series.dtype):
        return _date(name, series, None)
    n, blank = len(series), _blank(series)
    if blank.all():
        return Column(name, "left out", (name,), f"no value in the first {n} rows", NUMBERS)
    if any(isinstance(cell, _NO_CELLS) for cell in series):
        return Column(name, "left out", (), "lists or objects in its cells")
    values, text = numbers_of(series)
    if mostly_numbers(values, text):  # a lone word is an error once the column is read
        counts = n >= FEWEST_ROWS and bool(np.all(np.diff(values) == 1.0))
        if counts:
            return Column(name, "left out", (name,), "an id: it counts the rows", NUMBERS)
        constant = np.nanmin(values) == np.nanmax(values)
        why = f"constant in the first {n} rows" if constant else ""
        return Column(name, "numbers", (name,), why, NUMBERS)
    words = _words(series[~blank])
    for format in _formats(words):
        if pd.to_datetime(words, format=format, errors="coerce", utc=True).notna().all():
            return _date(name, series, format)
    return _categories(name, list(dict.fromkeys(words)), len(words))


def _categories(name: str, known: list[str], n: int) -> Column:
    """``known`` words among n."""
    if len(known) <= MOST_CATEGORIES:
        inputs = tuple(f"{name}={word}" for word in known)
        why = f"{len(known)} words, a column each"
        if len(known) == 1:
            why = f"constant in the first {n} rows"
        column = Column(name, "categories", inputs, why, {"how": "words", "known": known})
    else:
        inputs = tuple(f"{name}#{k + 1}" for k in range(HASHED))
        why = f"{len(known)} words in the first {n} rows, hashed into {HASHED} columns"
        column = Column(name, "hashed", inputs, why, {"how": "hashed"})
    if n >= FEWEST_ROWS and len(known) > MOSTLY * n:
        why = f"an id: {len(known)} words in {n} rows"
        if sum(bool(re.fullmatch(WITH_SIGN, word)) for word in known) > MOSTLY * len(known):
            why += f"; {known[0]} is no number: write it without the sign"
        return column._replace(kind="left out", why=why)
    return column


def _hash(word: str) -> int:
    return zlib.crc32(word.encode()) % HASHED


def _numbers(series: pd.Series, rows: np.ndarray, where: str) -> np.ndarray:
    return column_values(series, str(series.name), rows, where)[:, None]


def _one_hot(
    series: pd.Series,
    rows: np.ndarray,
    where: str,
    place: Callable[[str], int | None],
    size: int,
) -> np.ndarray:
    found, blank = np.zeros((len(series), size)), _blank(series)
    for n, word in zip(np.flatnonzero(~blank), _words(series[~blank]), strict=True):
        k = place(word)
        if k is not None:
            found[n, k] = 1.0
    found[blank] = np.nan
    return found


def _formats(words: pd.Series) -> list[str]:
    """Formats to try, if all words look like a date, or all like a clock time."""
    if words.str.fullmatch(CLOCK).all():
        return ["%H:%M", "%H:%M:%S"]
    if not words.str.fullmatch(DATE).all():
        return []
    return ["ISO8601", *(f"{day}{clock}" for day in DAYS for clock in ("", " %H:%M", " %H:%M:%S"))]


def _date(name: str, series: pd.Series, format: str | None) -> Column:
    times = _times(series, format)
    first = times.dropna()
    if first.empty:
        return Column(name, "left out", (), f"no value in the first {len(series)} rows")
    day_alone = bool((first == first.dt.normalize()).all())
    parts = ("hour", "weekday", "day_of_year", "days_elapsed")[1 if day_alone else 0 :]
    if format is not None and format.startswith("%H"):
        parts = ("hour",)
    inputs = tuple(f"{name}.{part}" for part in parts)
    date = {"format": format, "parts": list(parts), "start": first.iloc[0].isoformat()}
    why = ", ".join(parts).replace("_", " ")
    return Column(name, "date", inputs, why, {"how": "date", "date": date})


def _parts(
    series: pd.Series,
    rows: np.ndarray,
    where: str,
    name: str,
    format: str | None,
    parts: Sequence[str],
    start: str,
) -> np.ndarray:
    import pandas as pd

    times = _times(series, format)
    unread = times.isna().to_numpy() & ~_blank(series)
    if unread.any():
        n = int(np.argmax(unread))
        raise DataError(
            f"{where}: row {rows[n]}, column {name!r} holds {str(series.iloc[n])!r} where a date "
            "should be, as in the rows before. Correct the file or leave the column out of "
            "dataset.inputs."
        )
    since_midnight = times - times.dt.normalize()
    found = {
        "hour": since_midnight.dt.total_seconds() / 3600,
        "weekday": times.dt.day_of_week,
        "day_of_year": times.dt.day_of_year,
        "days_elapsed": (times - pd.Timestamp(start)).dt.total_seconds() / 86400,
    }
    columns = [found[part].to_numpy(dtype=np.float64, na_value=np.nan) for part in parts]
    return np.stack(columns, axis=1)


def _times(series: pd.Series, format: str | None) -> pd.Series:
    """Local times, NaT where there is none."""
    import pandas as pd

    if format is None:
        return series.dt.tz_localize(None)
    read = pd.to_datetime(_words(series), format=format, errors="coerce", utc=True)
    return read.dt.tz_localize(None)


def _words(series: pd.Series) -> pd.Series:
    return series.astype(str).str.strip()


def _blank(series: pd.Series) -> np.ndarray:
    import pandas as pd

    blank = series.isna().to_numpy(dtype=bool)
    if pd.api.types.is_numeric_dtype(series.dtype):
        return blank
    return blank | (_words(series) == "").to_numpy(dtype=bool)
