"""Columns of a table: which are inputs and which is the target, and their cells as numbers.

What becomes of a column of an own file is decided by the first rows of the file, so that the number
of inputs is known before the stream begins, and without a look at the target. What a cell becomes
depends on that cell alone.

numbers      as they are; of true and false 1 and 0
categories   words of which the first rows have at most MOST_CATEGORIES: one 0/1 column per word, in
             the order of appearance; a word that comes later is 0 in all of them
hashed       more words: HASHED columns of 0 and 1, a word's place being its checksum
date         hour (where there is one), weekday (Monday is 0), day of the year, and days elapsed
             since the first row; of a clock time the hour
left out     words that are nearly all different, and whole numbers that count the rows, unless
             they are named in dataset.inputs; a column without a value
"""

from __future__ import annotations

import collections
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.datasets.base import DataError, as_data_error
from omkl.utils.constraints import no_such
from omkl.utils.wording import few, pluralize

if TYPE_CHECKING:
    import pandas as pd

MOST_COLUMNS = 100_000


# --- Choosing inputs and target -------------------------------------------------------------------


class Columns(NamedTuple):
    """Chosen columns: 0-based positions and names, the target's last."""

    positions: tuple[int, ...]
    names: tuple[str, ...]


def choose_columns(
    names: Sequence[str],
    usable: Sequence[bool],
    inputs: Any,
    target: Any,
    where: str,
) -> Columns:
    """Resolve ``dataset.inputs`` and ``dataset.target``.

    A column is given by its name or its 1-based position; inputs also as a range of
    positions like "3-23". ``inputs=None`` takes every usable column but the target.

    Raises
    ------
    DataError
        A column does not exist, is ambiguous or named twice, or there is no target or no
        input.
    """
    last = place_of(target, names, where)
    if inputs is None:
        chosen = [k for k in range(len(names)) if usable[k] and k != last]
    else:
        chosen = [k for item in _as_list(inputs) for k in _positions(item, names, where)]
    if last in chosen:
        raise DataError(
            f"{where}: the target {names[last]!r} is also named in dataset.inputs; "
            "a learner would be shown the answer. Take it out."
        )
    twice = sorted({names[k] for k, n in collections.Counter(chosen).items() if n > 1})
    if twice:
        raise DataError(f"{where}: dataset.inputs names {', '.join(map(repr, twice))} twice.")
    if not chosen:
        raise DataError(
            f"{where}: no column is left as an input besides the target {names[last]!r}; ids are "
            f"none unless dataset.inputs names them. Columns: {few(map(repr, names))}"
        )
    input_names = tuple(names[k] for k in chosen)
    return Columns((*chosen, last), (*input_names, names[last]))


def excluded_places(exclude: Any, names: Sequence[str], where: str) -> list[int]:
    """The 0-based positions of the columns that ``dataset.exclude`` names; none of None."""
    items = [] if exclude is None else _as_list(exclude)
    return [k for item in items for k in _positions(item, names, where, "dataset.exclude")]


def place_of(column: Any, names: Sequence[str], where: str, key: str = "dataset.target") -> int:
    """The 0-based position of a column that is given by its name or its 1-based position."""
    if column is None:
        raise DataError(
            f"{where}: say which column to predict: dataset.target=NAME or its position. "
            f"Columns: {few(map(repr, names))}"
        )
    return _position(column, names, key, where)


def count_inputs(inputs: Any) -> int | None:
    """How many inputs ``dataset.inputs`` asks for; None where only the file can tell."""
    if inputs is None:
        return None
    spans = [_span(item) for item in _as_list(inputs)]
    return sum(1 if span is None else len(span) for span in spans)


def require_distinct(names: Sequence[str], where: str, cure: str = "Rename one.") -> None:
    """DataError for a name that two columns have, with both positions, or for too many columns.

    Of doubled names one would be an input where the other is the target.
    """
    require_few(len(names), where)
    places: dict[str, int] = {}
    for k, name in enumerate(names, start=1):
        if name in places:
            raise DataError(
                f"{where}: columns {places[name]} and {k} are both called {name!r}. {cure}"
            )
        places[name] = k


def require_few(n_columns: int, where: str) -> None:
    if n_columns > MOST_COLUMNS:
        raise DataError(
            f"{where}: {n_columns:,} columns are more than the {MOST_COLUMNS:,} that are read."
        )


def _as_list(inputs: Any) -> Sequence[Any]:
    return inputs if isinstance(inputs, list | tuple) else [inputs]


def _span(item: Any) -> range | None:
    match = (
        re.fullmatch(r"\s*(\d{1,18})\s*-\s*(\d{1,18})\s*", item) if isinstance(item, str) else None
    )
    return range(int(match[1]), int(match[2]) + 1) if match else None


def _positions(
    item: Any, names: Sequence[str], where: str, key: str = "dataset.inputs"
) -> list[int]:
    span = _span(item)
    if span is None or item in names:
        return [_position(item, names, key, where)]
    if span and span[-1] > len(names):  # before a list is made of it
        return [_position(span[-1], names, key, where)]
    return [_position(k, names, key, where) for k in span]


def _position(item: Any, names: Sequence[str], key: str, where: str) -> int:
    if isinstance(item, int) and not isinstance(item, bool):
        if 1 <= item <= len(names):
            return item - 1
        raise DataError(
            f"{where}: {key}: there is no column {item}; positions go from 1 to {len(names)}."
        )
    name = str(item).strip()
    matches = [k for k, column in enumerate(names) if column == name]
    if len(matches) == 1:
        return matches[0]
    if matches:
        at = ", ".join(str(k + 1) for k in matches)
        raise DataError(f"{where}: {key}: {len(matches)} columns are called {name!r}: use {at}.")
    hint = " There is only one column: look at dataset.delimiter." if len(names) == 1 else ""
    missing = no_such(f"column {name!r}", repr(name), map(repr, names))
    raise DataError(f"{where}: {key}: {missing}{hint}")


# --- Cells as numbers -----------------------------------------------------------------------------

_BLANK_CURE = "If it stands for a missing value, add it to dataset.na_values."
INPUT_CURE = f"Correct the file or leave the column out of dataset.inputs. {_BLANK_CURE}"
TARGET_CURE = f"Correct the file; if these are classes, add task=classification. {_BLANK_CURE}"


def column_values(
    series: pd.Series, name: str, rows: np.ndarray, where: str, cure: str = INPUT_CURE
) -> np.ndarray:
    """A column as float64 (n,), NaN where blank; a DataError with its ``cure`` for other text."""
    values, text = numbers_of(series)
    if text.any():
        n = int(np.argmax(text))
        raise DataError(
            f"{where}: row {rows[n]}, column {name!r} has {str(series.iloc[n])!r} "
            f"where a number should be. {cure}"
        )
    return values


def mostly_numbers(values: np.ndarray, text: np.ndarray) -> bool:
    """Whether at least half of the cells of a column that are not blank are numbers.

    Takes what ``numbers_of`` returns. A lone word among numbers then is an error with a row, not a
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
    numbers = pd.to_numeric(_words(series), errors="coerce")
    values = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    return values, np.isnan(values) & ~_blank(series)


def keys_are_whole(series: pd.Series, in_text: bool) -> bool:
    """Whether the keys of a column are whole numbers: all of its first cells are, else texts.

    ``in_text``: cells are as a text file has them, and 07 is no whole number.
    """
    import pandas as pd

    if in_text:
        return bool(_words(series[~_blank(series)]).str.fullmatch(WHOLE).all())
    return pd.api.types.is_numeric_dtype(series.dtype) and series.dtype != bool


def keys_of(series: pd.Series, name: str, rows: np.ndarray, where: str, whole: bool) -> np.ndarray:
    """The keys (n,) in a column, whole numbers or texts; None where blank."""
    import pandas as pd

    blank, keys = _blank(series), np.full(len(series), None, dtype=object)
    is_numeric = pd.api.types.is_numeric_dtype(series.dtype) and series.dtype != bool
    if whole:
        values, bad = numbers_of(series)
        with np.errstate(invalid="ignore"):
            bad |= ~blank & (np.floor(values) != values) | (np.abs(values) > MOST_WHOLE)
        keys[~bad & ~blank] = values[~bad & ~blank].astype(np.int64).tolist()
    else:
        bad = np.full(len(series), is_numeric) & ~blank
        keys[~blank] = _words(series[~blank]).to_numpy(dtype=object)
    if bad.any():
        n, kind = int(np.argmax(bad)), "whole number" if whole else "text"
        raise DataError(
            f"{where}: row {rows[n]}, column {name!r} has {str(series.iloc[n])!r} where a {kind} "
            "should be, as in the first rows: keys are whole numbers, or they are texts. Correct "
            "the file."
        )
    return keys


WHOLE = r"-?[1-9]\d{0,14}|0"  # as a text file has it
MOST_WHOLE = 2**53  # a number that float64 has exactly


def class_codes(
    cells: np.ndarray, classes: Sequence[Any], rows: np.ndarray, where: str
) -> np.ndarray:
    """What a learner is given for the cells (n,): the codes of their classes, NaN where blank.

    Of two classes the first is -1 and the second +1; of K > 2 they are 0 .. K - 1.
    """
    codes = np.arange(len(classes)) if len(classes) > 2 else np.array([-1.0, 1.0])
    texts = {str(label).strip(): code for label, code in zip(classes, codes, strict=True)}
    numbers = {number: texts[same[0]] for number, same in by_number(texts).items() if not same[1:]}

    def code_of(cell: Any) -> float | None:
        """The code of a class, NaN of a blank, None of anything else."""
        text = str(cell).strip()
        if text in texts:
            return float(texts[text])
        number = _number(text)
        if text == "" or (number is not None and np.isnan(number)):
            return np.nan
        return None if number is None or number not in numbers else float(numbers[number])

    values = np.empty(len(cells))
    for n, cell in enumerate(cells):
        code = code_of(cell)
        if code is None:
            others = dict.fromkeys(str(c) for c in cells if code_of(c) is None)
            raise DataError(
                f"{where}: row {rows[n]} has the label {str(cell)!r}, which is none of "
                f"dataset.labels={list(classes)}. Not among them: {', '.join(list(others)[:20])}. "
                "Name all labels; of two the first is -1 and the second +1."
            )
        values[n] = code
    return values


def by_number(texts: Iterable[str]) -> dict[float, list[str]]:
    """The texts that are written numbers, by their number: "01" and "1" are one."""
    groups: dict[float, list[str]] = {}
    for text in texts:
        if (number := _number(text)) is not None:
            groups.setdefault(number, []).append(text)
    return groups


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _words(series: pd.Series) -> pd.Series:
    return series.astype(str).str.strip()


def _blank(series: pd.Series) -> np.ndarray:
    import pandas as pd

    blank = series.isna().to_numpy(dtype=bool)
    if pd.api.types.is_numeric_dtype(series.dtype):
        return blank
    return blank | (_words(series) == "").to_numpy(dtype=bool)


# --- What becomes of a column ---------------------------------------------------------------------

MOST_CATEGORIES, HASHED = 20, 16
FEWEST_ROWS, MOSTLY = 20, 0.9  # of so many rows on, this share of different words is an id
DATE = r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?"
CLOCK = r"\d{1,2}:\d{2}(:\d{2})?"
DAYS = (
    "%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d.%m.%y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y",
    "%d/%m/%y", "%d-%m-%Y",
)  # fmt: skip
WITH_SIGN = r"[-+]?[^\w\s]? ?[-+]?\d[\d.,]* ?[^\w\s]?"  # $3.50 or 12 %
NUMBERS = {"how": "numbers"}


class Column(NamedTuple):
    """What becomes of a column: ``kind`` as above, names of its inputs, why, and how.

    ``recipe`` says it in JSON, so that another file is read alike; {} of one that is no input.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    why: str = ""
    recipe: Mapping[str, Any] = {}

    def encode(
        self, series: pd.Series, rows: np.ndarray, where: str, cure: str = INPUT_CURE
    ) -> np.ndarray:
        """The cells as numbers (n, inputs), NaN where blank; DataError names what has no number.

        ``rows`` (n,) are numbers of the file's rows, for errors, which end with the ``cure``.
        """
        with as_data_error(f"{where}: column {self.name!r}"):
            match self.recipe.get("how"):
                case "numbers":
                    return column_values(series, self.name, rows, where, cure)[:, None]
                case "words":
                    places = {word: k for k, word in enumerate(self.recipe["known"])}
                    return _one_hot(series, places.get, len(places))
                case "hashed":
                    return _one_hot(series, _hash, HASHED)
                case "date":
                    return _date_parts(series, self.name, rows, where, cure, **self.recipe["date"])
            return np.empty((len(series), 0))

    def new_words(self, series: pd.Series) -> list[str]:
        """The words of a column of categories, of each row, that none of these is; else none."""
        if self.recipe.get("how") != "words":
            return []
        words = _words(series[~_blank(series)])
        return list(words[~words.isin(self.recipe["known"])])

    def as_named(self, why: str, where: str) -> Column:
        """The column as an input: one that would be left out is in because it was named."""
        if not self.recipe:
            raise DataError(f"{where}: column {self.name!r} has {self.why}.")
        if self.kind != "left out":
            return self
        return self._replace(kind="as named", why=f"{self.why}; {why}")

    def noted(self, *notes: str | None) -> Column:
        """The same column with more to say of it."""
        return self._replace(why="; ".join(filter(None, (self.why, *notes))))

    def left_out(self, why: str) -> Column:
        return self._replace(kind="left out", inputs=(), why=why)

    def as_dict(self) -> dict[str, Any]:
        """As the provenance of a stream has it."""
        return {"column": self.name, "as": self.kind, "inputs": list(self.inputs), "why": self.why}


def column_of(series: pd.Series, name: str, where: str) -> Column:
    """What becomes of a column whose first cells are these."""
    with as_data_error(f"{where}: column {name!r}"):
        return _column_of(series, name)


def _column_of(series: pd.Series, name: str) -> Column:
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(series.dtype):
        return _date_column(name, series, None)
    n, blank = len(series), _blank(series)
    rows = f"the first {pluralize(n, 'row')}"
    if blank.all():
        return Column(name, "left out", (name,), f"no value in {rows}", NUMBERS)
    # Cells are looked at one by one: not those of a dtype of numbers, which takes seconds.
    plain = series.dtype.kind in "biufc"
    if not plain and any(isinstance(x, list | dict | tuple | set | np.ndarray) for x in series):
        return Column(name, "left out", (), "lists or objects in its cells")
    values, text = numbers_of(series)
    if mostly_numbers(values, text):  # a lone word is an error once the column is read
        if n >= FEWEST_ROWS and bool(np.all(np.diff(values) == 1.0)):
            return Column(name, "left out", (name,), "an id: it counts the rows", NUMBERS)
        constant = np.nanmin(values) == np.nanmax(values)
        why = f"constant in {rows}" if constant else ""
        return Column(name, "numbers", (name,), why, NUMBERS)
    words = _words(series[~blank])
    for format in _formats(words):
        if pd.to_datetime(words, format=format, errors="coerce", utc=True).notna().all():
            return _date_column(name, series, format)
    return _categories(name, list(dict.fromkeys(words)), len(words))


def _categories(name: str, different: list[str], n: int) -> Column:
    """A column of n words, some of them ``different``."""
    if len(different) <= MOST_CATEGORIES:
        inputs = tuple(f"{name}={word}" for word in different)
        why = f"{len(different)} categories, one input each"
        if len(different) == 1:
            why = f"constant in the first {pluralize(n, 'row')}"
        column = Column(name, "categories", inputs, why, {"how": "words", "known": different})
    else:
        column = hashed(name, len(different), n)
    if n >= FEWEST_ROWS and len(different) > MOSTLY * n:
        why = f"an id: {len(different)} different values in {n} rows"
        if sum(bool(re.fullmatch(WITH_SIGN, word)) for word in different) > MOSTLY * len(different):
            why += f"; {different[0]} is no number: write it without the sign"
        return column._replace(kind="left out", why=why)
    return column


def hashed(name: str, n_words: int, n: int) -> Column:
    """A column whose words, ``n_words`` of them in the first n rows, have places by checksums."""
    inputs = tuple(f"{name}#{k + 1}" for k in range(HASHED))
    why = f"{n_words} categories in the first {n} rows, hashed into {HASHED} inputs"
    return Column(name, "hashed", inputs, why, {"how": "hashed"})


def _hash(word: str) -> int:
    return zlib.crc32(word.encode()) % HASHED


def _one_hot(series: pd.Series, place: Callable[[str], int | None], size: int) -> np.ndarray:
    """1 in the place of each cell's word, NaN in the row of a blank: (n, size)."""
    values, blank = np.zeros((len(series), size)), _blank(series)
    values[blank] = np.nan
    for n, word in zip(np.flatnonzero(~blank), _words(series[~blank]), strict=True):
        if (k := place(word)) is not None:
            values[n, k] = 1.0
    return values


def _formats(words: pd.Series) -> list[str]:
    """Formats to try, if all words look like a date, or all like a clock time."""
    if words.str.fullmatch(CLOCK).all():
        return ["%H:%M", "%H:%M:%S"]
    if not words.str.fullmatch(DATE).all():
        return []
    return ["ISO8601", *(f"{day}{clock}" for day in DAYS for clock in ("", " %H:%M", " %H:%M:%S"))]


def _date_column(name: str, series: pd.Series, format: str | None) -> Column:
    times = _times(series, format)
    present = times.dropna()
    if present.empty:
        rows = pluralize(len(series), "row")
        return Column(name, "left out", (), f"no value in the first {rows}")
    day_alone = bool((present == present.dt.normalize()).all())
    parts = ("hour", "weekday", "day_of_year", "days_elapsed")[1 if day_alone else 0 :]
    if format is not None and format.startswith("%H"):
        parts = ("hour",)
    inputs = tuple(f"{name}.{part}" for part in parts)
    date = {"format": format, "parts": list(parts), "start": present.iloc[0].isoformat()}
    why = ", ".join(parts).replace("_", " ")
    return Column(name, "date", inputs, why, {"how": "date", "date": date})


def _date_parts(
    series: pd.Series,
    name: str,
    rows: np.ndarray,
    where: str,
    cure: str,
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
            f"{where}: row {rows[n]}, column {name!r} has {str(series.iloc[n])!r} where a date "
            f"should be, as in the rows before. {cure}"
        )
    since_midnight = times - times.dt.normalize()
    values = {
        "hour": since_midnight.dt.total_seconds() / 3600,
        "weekday": times.dt.day_of_week,
        "day_of_year": times.dt.day_of_year,
        "days_elapsed": (times - pd.Timestamp(start)).dt.total_seconds() / 86400,
    }
    columns = [values[part].to_numpy(dtype=np.float64, na_value=np.nan) for part in parts]
    return np.stack(columns, axis=1)


def _times(series: pd.Series, format: str | None) -> pd.Series:
    """Local times, NaT where there is none."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(series.dtype):
        return series.dt.tz_localize(None)
    if format is None:  # the first rows were dates, and these are text
        format = "ISO8601"
    times = pd.to_datetime(_words(series), format=format, errors="coerce", utc=True)
    return times.dt.tz_localize(None)
