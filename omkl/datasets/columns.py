"""Choose the inputs and the target of a table, and encode their cells as numbers.

The first rows of a user's file decide the encoding of each column, so that the number of inputs is
known before the stream begins. The target is not used for this decision. The code of a cell depends
only on this cell. A word is a text with normalised numbers (``cells.word``). The kinds of columns:

numbers      one input, unchanged. True and false become 1 and 0
categories   at most MOST_CATEGORIES different words in the first rows. Each word becomes an input
             that is 0 or 1, in the order of appearance. A word that first occurs later is 0 in all
             of these inputs
hashed       more different words. They share HASHED inputs that are 0 or 1: the checksum of a word
             decides which one is 1. Two more inputs are for ``auto``. ``encode`` sets the first to
             the level of the word (``level_of``), and the second to 0. If n earlier targets
             with this level are known, ``auto`` replaces the first input by their mean, and the
             second by log(1 + n), see ``omkl.datasets.scaling.LevelMeans``. All other learners read
             0 for both inputs
date         hour (if there is one), weekday (Monday is 0), day of the year, and days elapsed since
             the first row. A clock time becomes its hour
left out     no input. These are columns without a value, and identifiers: words that are nearly all
             different, and whole numbers that count the rows. An identifier becomes an input if
             dataset.inputs names it
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import re
import zlib
import zoneinfo
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.datasets.base import MOST_COLUMNS, DataError, as_data_error
from omkl.datasets.cells import (
    CLOCKS,
    DAY,
    FEW,
    ISO,
    NO_DATE,
    NO_TIME,
    PLAIN,
    DateFormat,
    NumberFormat,
    date_format,
    date_parts,
    has_codes,
    is_blank,
    is_text,
    number_format,
    plain_numbers,
    text_of,
    word,
)
from omkl.utils.constraints import no_such
from omkl.utils.wording import few, pluralize

if TYPE_CHECKING:
    import pandas as pd


# --- Choosing inputs and target -------------------------------------------------------------------


def choose_columns(
    names: Sequence[str], usable: Sequence[bool], inputs: Any, target: Any, where: str
) -> tuple[list[int], int]:
    """Return the 0-based positions of the inputs and of the target.

    A text that is both a name and a position is read as a name.

    Parameters
    ----------
    names, usable
        Names of all columns, and whether each can be an input.
    inputs
        ``dataset.inputs``: names or 1-based positions, or a range of positions such as "3-23".
        None: every usable column except the target.
    target
        ``dataset.target``: name or 1-based position.
    where
        Name of the file, for messages.

    Raises
    ------
    DataError
        A column does not exist, is ambiguous or named twice, or no target or no input is left.
    """
    last = place_of(target, names, where)
    if inputs is None:
        chosen = [k for k in range(len(names)) if usable[k] and k != last]
    else:
        chosen = places_of(inputs, names, where, "dataset.inputs")
    if last in chosen:
        raise DataError(
            f"{where}: the target {names[last]!r} is also named in dataset.inputs; "
            "a learner would be shown the answer. Take it out."
        )
    twice = sorted({names[k] for k, n in Counter(chosen).items() if n > 1})
    if twice:
        raise DataError(f"{where}: dataset.inputs names {few(map(repr, twice))} twice.")
    if not chosen:
        raise DataError(
            f"{where}: no column is left as an input besides the target {names[last]!r}; ids are "
            f"none unless dataset.inputs names them. Columns: {few(map(repr, names))}"
        )
    return chosen, last


def places_of(given: Any, names: Sequence[str], where: str, key: str) -> list[int]:
    """Return the 0-based positions of columns.

    Parameters
    ----------
    given
        Names, 1-based positions, or ranges such as "3-23"; one or a list of them.
    names
        Names of all columns.
    where, key
        Name of the file and of the setting, for messages.

    Raises
    ------
    DataError
        A column does not exist, or some numbers of a range are names of columns and others are not.
    """
    places = []
    for item in given if isinstance(given, list | tuple) else [given]:
        span = None if item in names else _span(item)
        if span and span[-1] <= len(names):
            if 0 < sum(str(k) in names for k in span) < len(span):
                raise DataError(
                    f"{where}: {key}: {item!r} mixes names and positions. List the columns singly."
                )
            places += [_position(k, names, key, where) for k in span]
        else:
            places.append(_position(span[-1] if span else item, names, key, where))
    return places


def place_of(column: Any, names: Sequence[str], where: str, key: str = "dataset.target") -> int:
    """Return the 0-based position of a column.

    Parameters
    ----------
    column
        Name or 1-based position.
    names
        Names of all columns.
    where, key
        Name of the file and of the setting, for messages.

    Raises
    ------
    DataError
        The column is None, does not exist, or is ambiguous.
    """
    if column is None:
        raise DataError(
            f"{where}: say which column to predict: dataset.target=NAME or its position. "
            f"Columns: {few(map(repr, names))}"
        )
    return _position(column, names, key, where)


def count_inputs(inputs: Any) -> int | None:
    """Return the number of inputs in ``dataset.inputs``, or None if it depends on the file."""
    if inputs is None:
        return None
    spans = [_span(item) for item in (inputs if isinstance(inputs, list | tuple) else [inputs])]
    return sum(1 if span is None else len(span) for span in spans)


def require_distinct(names: Sequence[str], where: str, cure: str = "Rename one.") -> None:
    """Raise DataError if there are too many columns, or two columns have the same name.

    Parameters
    ----------
    names
        Names of all columns.
    where, cure
        Name of the file, and last sentence of the message.
    """
    require_few(len(names), where)
    if len(set(names)) < len(names):
        name, _ = Counter(names).most_common(1)[0]
        first, second, *_ = (k for k, other in enumerate(names, start=1) if other == name)
        raise DataError(f"{where}: columns {first} and {second} are both called {name!r}. {cure}")


def require_few(n_columns: int, where: str) -> None:
    if n_columns > MOST_COLUMNS:
        raise DataError(
            f"{where}: {n_columns:,} columns are more than the {MOST_COLUMNS:,} that are read."
        )


def _span(item: Any) -> range | None:
    match = re.fullmatch(r"\s*(\d{1,18})\s*-\s*(\d{1,18})\s*", str(item))
    return range(int(match[1]), int(match[2]) + 1) if match else None


def _position(item: Any, names: Sequence[str], key: str, where: str) -> int:
    name = str(item).strip()
    if name in names:
        return names.index(name)
    if isinstance(item, int) and not isinstance(item, bool):
        if 1 <= item <= len(names):
            return item - 1
        raise DataError(
            f"{where}: {key}: there is no column {item}; positions go from 1 to {len(names)}."
        )
    hint = " There is only one column: look at dataset.delimiter." if len(names) == 1 else ""
    missing = no_such(f"column {name!r}", repr(name), map(repr, names))
    raise DataError(f"{where}: {key}: {missing}{hint}")


# --- Series and classes ---------------------------------------------------------------------------

_BLANK_CURE = "If it stands for a missing value, add it to dataset.na_values."
INPUT_CURE = f"Correct the file, leave the column out, or say what it is: columns=. {_BLANK_CURE}"
MODEL_CURE = "Correct the cell, or remove its content: missing values are filled."
TARGET_CURE = f"Correct the file; if these are classes, add task=classification. {_BLANK_CURE}"


def series_are_whole(column: pd.Series) -> bool:
    """Return whether all names of series in a column are whole numbers. 07 counts as a text."""
    import pandas as pd

    if is_text(column):
        return all(_WHOLE.fullmatch(text) for text in _texts(column))
    return pd.api.types.is_numeric_dtype(column.dtype) and column.dtype != bool


def series_of(
    cells: pd.Series,
    rows: np.ndarray,
    where: str,
    whole: bool,
    may_be_blank: bool = False,
    cure: str = "Set dataset.missing=drop, or correct the file.",
) -> np.ndarray:
    """Read the cells of the column that names the series of each row.

    Parameters
    ----------
    cells
        Cells (n,) of the column.
    rows
        Row numbers (n,) in the file, for messages.
    where
        Name of the file, for messages.
    whole
        Whether series are whole numbers; otherwise they are texts.
    may_be_blank
        Whether cells may be missing.
    cure
        Last part of the message for a missing cell.

    Returns
    -------
    ndarray
        (n,) object: int or str, None for a missing cell.

    Raises
    ------
    DataError
        A cell is invalid, or missing while ``may_be_blank`` is False.
    """
    series = np.full(len(cells), None, dtype=object)
    for n, cell in enumerate(cells):
        blank = is_blank(cell)
        series[n] = None if blank else _series_in(cell, whole)
        if series[n] is not None or (blank and may_be_blank):
            continue
        if blank:
            problem = f"has no value, so the series of that row is not known. {cure}"
        else:
            kind = "whole number" if whole else "text"
            problem = (
                f"has {str(cell)!r} where a {kind} should be, as in the first rows: series are "
                "whole numbers, or they are texts. Correct the file."
            )
        raise DataError(f"{where}: row {rows[n]}, column {str(cells.name)!r} {problem}")
    return series


def _series_in(cell: Any, whole: bool) -> int | str | None:
    """Read the series in a cell that is not missing. Return None if the type is wrong."""
    if not whole:
        return None if isinstance(cell, int | float) else text_of(cell)
    number = PLAIN.read(cell)
    if number is None or number != np.floor(number) or abs(number) > MOST_WHOLE:
        return None
    return int(number)


_WHOLE = re.compile(r"-?[1-9]\d{0,14}|0")  # spelling in a text file
MOST_WHOLE = 2**53  # exact as float64


def class_codes(
    cells: Iterable[Any], classes: Sequence[Any], rows: np.ndarray, where: str
) -> np.ndarray:
    """Return the codes of classes.

    Parameters
    ----------
    cells
        Cells (n,) of the target.
    classes
        The K classes. Their codes are -1 and +1 if K = 2, and 0 .. K - 1 otherwise.
    rows
        Row numbers (n,) in the file, for messages.
    where
        Name of the file, for messages.

    Returns
    -------
    ndarray
        (n,) codes, NaN for a missing cell.

    Raises
    ------
    DataError
        A cell is none of the classes.
    """
    codes = [-1.0, 1.0] if len(classes) == 2 else range(len(classes))
    known, values = tuple(map(word, classes)), np.full(len(rows), np.nan)
    for n, cell in enumerate(cells):
        place = place_of_word(cell, known)
        if place is not None:
            values[n] = codes[place]
        elif not is_blank(cell):
            raise DataError(
                f"{where}: row {rows[n]} has the label {text_of(cell)!r}, which is none of "
                f"dataset.labels={list(classes)}. Name all labels; of two the first is -1 and the "
                "second +1."
            )
    return values


def place_of_word(cell: Any, known: tuple[str, ...]) -> int | None:
    """Return the index of a cell's word among the words ``known``, or None.

    A cell that is a number, such as 12, also matches a word that spells the same number in another
    way, such as 012, if there is only one such word.
    """
    place = _places(known).get(word(cell))
    if place is not None or isinstance(cell, str):
        return place
    number = PLAIN.read(cell)
    same = [] if number is None else by_number(known).get(number, [])
    return known.index(same[0]) if len(same) == 1 else None


@functools.lru_cache(256)
def _places(known: tuple[str, ...]) -> dict[str, int]:
    return {word: k for k, word in enumerate(known)}


def by_number(texts: Iterable[str]) -> dict[float, list[str]]:
    """Group texts that are equal as numbers, such as "01" and "1"."""
    groups: dict[float, list[str]] = {}
    for text in texts:
        with contextlib.suppress(ValueError):
            groups.setdefault(float(text), []).append(text)
    return groups


def _texts(series: pd.Series) -> list[str]:
    return [text_of(cell) for cell in series if not is_blank(cell)]


# --- Encoding of a column -------------------------------------------------------------------------

MOST_CATEGORIES, HASHED = 20, 16
N_LEVELS = 2**16  # levels of words, a multiple of HASHED; words with equal levels share their mean
LEVEL, LEVEL_COUNT = "#mean", "#count"  # suffixes of the names of inputs
FEWEST_ROWS, MOSTLY = 20, 0.9  # an identifier: least number of rows, least share of distinct words
NUMBERS = {"how": "numbers"}
OBJECTS = (list, dict, tuple, set, np.ndarray)


@dataclasses.dataclass(frozen=True)
class Column:
    """Encoding of the cells of a column as inputs.

    Attributes
    ----------
    kind
        Kind of the column, shown to the user. The docstring of this module lists the kinds. Two
        further kinds are "as named", an identifier that the user chose as an input, and "target".
    inputs
        Names of the inputs that a cell becomes.
    why
        Remark about the column for the user.
    recipe
        Format of the cells and their encoding as JSON. All later rows are read in this format. {}
        for a column that is not an input.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    why: str = ""
    recipe: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def encode(
        self,
        series: pd.Series,
        rows: np.ndarray,
        where: str,
        cure: str = INPUT_CURE,
        new: dict[str, Counter[str]] | None = None,
    ) -> np.ndarray:
        """Return the cells as numbers (n, k) for the k ``inputs``; NaN for a missing cell.

        Parameters
        ----------
        series
            The cells (n,).
        rows
            Row numbers (n,), for error messages.
        where, cure
            First and last part of an error message.
        new
            Receives the number of occurrences of each new category, by column. A new category is 0
            in all inputs.

        Raises
        ------
        DataError
            A cell does not have the format of the column. The message names its row.
        """
        with as_data_error(f"{where}: column {self.name!r}"):
            read, unread = self.read(series)
            if unread is not None:
                here = f"{where}: row {rows[unread]}, "
                raise DataError(self._refusal(series.iloc[unread], here, cure))
            is_new = read == len(self.inputs)
            if new is not None and self.how == "words" and is_new.any():
                new[self.name] = new.get(self.name, Counter()) + Counter(map(word, series[is_new]))
            return self._inputs_of(read)

    def read(self, series: pd.Series) -> tuple[np.ndarray, int | None]:
        """Return the cells (n,) as numbers, indices of words or microseconds.

        A cell is invalid if it does not have the format of the column. Missing and invalid cells
        become NaN, or NO_TIME in a column of dates. The second result is the index of the first
        invalid cell, or None.
        """
        if (whole := self._read_whole(series)) is not None:
            return whole, None
        at, cells = _distinct(series)
        found = [None if is_blank(cell) else self._read(cell) for cell in cells]
        unread = [k for k, cell in enumerate(cells) if found[k] is None and not is_blank(cell)]
        none: Any = NO_TIME if self.how == "date" else np.nan
        read = np.array([none if value is None else value for value in found], type(none))
        return read[at], int(np.flatnonzero(at == unread[0])[0]) if unread else None

    def cell(self, cell: Any, where: str, cure: str) -> Sequence[float]:
        """Return the inputs of one cell, equal to those of ``encode``.

        Parameters
        ----------
        cell
            Content of the cell.
        where, cure
            First and last part of an error message.

        Raises
        ------
        DataError
            The cell is invalid.
        """
        if is_blank(cell):
            return [math.nan] * len(self.inputs)
        found = self._read(cell)
        if found is None:
            raise DataError(self._refusal(cell, where, cure))
        if self.how == "numbers":
            return (found,)
        if self.how == "date":
            return self._date_parts(found)
        numbers = [0.0] * len(self.inputs)
        if self.how == "hashed":
            numbers[found % HASHED] = 1.0
            numbers[HASHED : HASHED + 1] = [float(found)] * (len(numbers) > HASHED)
        elif found < len(numbers):
            numbers[found] = 1.0
        return numbers

    @functools.cached_property
    def how(self) -> str | None:
        """Encoding of a cell: numbers, words, hashed or date. None: the column is left out."""
        return self.recipe.get("how")

    @functools.cached_property
    def number_format(self) -> NumberFormat:
        """Format of the numbers of the column."""
        return NumberFormat(**{k: v for k, v in self.recipe.items() if k != "how"})

    @functools.cached_property
    def _date(self) -> tuple[DateFormat, frozenset[str], int]:
        """Format of dates, texts that are not dates, and the first date in microseconds."""
        date = self.recipe["date"]
        form = DateFormat(date["format"], date.get("zone"))
        start = np.datetime64(date["start"] or 0, "us").astype(np.int64)
        return form, frozenset(date.get("missing", ())), int(start)

    @functools.cached_property
    def _known(self) -> tuple[str, ...]:
        return tuple(self.recipe["known"])

    def _read_whole(self, series: pd.Series) -> np.ndarray | None:
        """Read cells of one type at once. Return None if each cell must be read separately."""
        import pandas as pd

        if self.how == "numbers":
            form = self.number_format
            if form == NumberFormat(form.decimal) or pd.api.types.is_numeric_dtype(series.dtype):
                return plain_numbers(series, form.decimal)
        if self.how == "date" and pd.api.types.is_datetime64_any_dtype(series.dtype):
            if (zone := self._date[0].zone) and series.dt.tz is not None:
                series = series.dt.tz_convert(zone)
            return series.dt.tz_localize(None).to_numpy(dtype="datetime64[us]").astype(np.int64)
        return None

    def _read(self, cell: Any) -> Any:
        """Return a cell as a number, index of a word or microseconds; None if it is invalid."""
        match self.how:
            case "words":
                place = place_of_word(cell, self._known)
                return len(self.inputs) if place is None else place
            case "hashed":
                return level_of(word(cell))
            case "date":
                form, missing, _ = self._date
                return NO_TIME if isinstance(cell, str) and cell in missing else form.read(cell)
        return self.number_format.read(cell)

    def _inputs_of(self, read: np.ndarray) -> np.ndarray:
        if self.how == "date":
            parts = np.stack([np.asarray(part, float) for part in self._date_parts(read)], axis=1)
            parts[read == NO_TIME] = np.nan
            return parts
        if self.how == "numbers":
            return read[:, None]
        if self.how == "hashed":
            values = np.zeros((len(read), len(self.inputs)))
            values[:, :HASHED] = read[:, None] % HASHED == np.arange(HASHED)
            values[:, HASHED : HASHED + 1] = read[:, None]
        else:
            values = (read[:, None] == np.arange(len(self.inputs))).astype(np.float64)
        values[np.isnan(read)] = np.nan
        return values

    def _date_parts(self, read: Any) -> list[Any]:
        if isinstance(read, int) and read == NO_TIME:
            return [math.nan] * len(self.inputs)
        return date_parts(read, self.recipe["date"]["parts"], self._date[2])

    def _refusal(self, cell: Any, where: str, cure: str) -> str:
        kind, learned = (
            ("date", self._date[0]) if self.how == "date" else ("number", self.number_format)
        )
        return (
            f"{where}column {self.name!r} has {text_of(cell)!r} where a {kind} should be, as in "
            f"the first rows: {learned}. {cure}"
        )

    def changed(self, **fields: Any) -> Column:
        """Return a copy of the column with some fields replaced."""
        return dataclasses.replace(self, **fields)

    def noted(self, *notes: str | None) -> Column:
        """Return a copy of the column with further remarks."""
        return self.changed(why="; ".join(filter(None, (self.why, *notes))))

    def as_named(self, why: str, where: str) -> Column:
        """Return this column as an input, because the user named it. It may be an identifier.

        ``why`` is a further remark for the user. Raises DataError if the column cannot be an input.
        """
        if not self.recipe:
            raise DataError(f"{where}: column {self.name!r} is no input: {self.why}.")
        return self.noted(why).changed(kind="as named") if self.kind == "left out" else self

    def left_out(self, why: str) -> Column:
        return self.changed(kind="left out", inputs=(), why=why)

    def as_dict(self) -> dict[str, Any]:
        """Return the description of the column for the provenance of a stream."""
        return {"column": self.name, "as": self.kind, "inputs": list(self.inputs), "why": self.why}


def columns_described(described: Iterable[Mapping[str, Any]]) -> list[Column]:
    """Return the columns from their descriptions in JSON, made by ``dataclasses.asdict``."""
    return [Column(**{**column, "inputs": tuple(column["inputs"])}) for column in described]


def _distinct(series: pd.Series) -> tuple[np.ndarray, list[Any]]:
    """Return the index (n,) of each cell in a list of the distinct cells, and this list.

    The list is in the order of appearance. Equal cells are found only in a column of text. In any
    other column every cell counts as distinct.
    """
    if not is_text(series):
        return np.arange(len(series)), list(series)
    at, cells = series.factorize(use_na_sentinel=False)
    return at, list(cells)


def column_of(
    series: pd.Series, name: str, where: str, decimal: str = ".", declared: str | None = None
) -> Column:
    """Decide the format and the encoding of a column from its first cells.

    Parameters
    ----------
    series
        The first cells.
    decimal
        Decimal mark for numbers that are ambiguous, such as 1,234.
    declared
        Declaration of the user, one of ``DECLARATIONS`` with its options; None: the cells decide.

    Raises
    ------
    DataError
        The declaration is invalid.
    """
    with as_data_error(f"{where}: column {name!r}"):
        if declared is not None:
            return _declared(series, name, declaration(name, declared), decimal)
        return _column_of(series, name, decimal)


def _column_of(series: pd.Series, name: str, decimal: str) -> Column:
    import pandas as pd

    dtype, rows = series.dtype, pluralize(len(series), "row")
    if pd.api.types.is_datetime64_any_dtype(dtype) or isinstance(dtype, pd.PeriodDtype):
        return _date_column(name, series, DateFormat())
    is_declared = isinstance(dtype, pd.CategoricalDtype) or (
        isinstance(dtype, pd.StringDtype) and dtype.na_value is pd.NA
    )
    is_codes = not is_declared and has_codes(series)
    values = None if is_declared or is_codes else plain_numbers(series, decimal)
    texts = _texts(series) if values is None else []
    if not texts and (values is None or np.isnan(values).all()):
        return Column(name, "left out", (name,), f"no value in the first {rows}", NUMBERS)
    if values is None and any(isinstance(cell, OBJECTS) for cell in series):
        return Column(name, "left out", (), "lists or objects in its cells")
    different = list(dict.fromkeys(map(word, texts)))
    if is_codes:
        cure = f"leading zeros are codes; columns='{name}: number' reads numbers"
        return _categories(name, different, len(texts), True).noted(cure)
    if not is_declared and (form := _number_format(series, decimal)):
        return _numbers(name, series, form)
    if not is_declared and (date := _date_format(texts)):
        return _date_column(name, series, *date)
    return _categories(name, different, len(texts), not is_declared)


def plain_column(name: str) -> Column:
    """Return a column of plain numbers."""
    return Column(name, "numbers", (name,), recipe=NUMBERS)


def number_column(series: pd.Series, name: str, decimal: str = ".") -> Column:
    """Return the encoding of a column of numbers.

    Parameters
    ----------
    series
        First cells of the column. They decide only the format of numbers.
    name
        Name of the column.
    decimal
        Decimal mark if the cells do not show it.
    """
    form = _number_format(series, decimal) or NumberFormat(decimal)
    return _numbers(name, series, form)


def _number_format(series: pd.Series, decimal: str) -> NumberFormat | None:
    """Return the number format of a column; None if too few of its cells are numbers."""
    if plain_numbers(series, decimal) is not None:
        return NumberFormat(decimal) if is_text(series) else PLAIN
    if is_text(series):
        return number_format(Counter(_texts(series)), decimal)
    cells = [cell for cell in series if not is_blank(cell)]
    written = Counter(text_of(cell) for cell in cells if isinstance(cell, str))
    form = (number_format(written, decimal) if written else None) or PLAIN
    n = sum(form.read(cell) is not None for cell in cells)
    return form if n >= FEW * len(cells) else None


def _numbers(name: str, series: pd.Series, form: NumberFormat) -> Column:
    column = Column(name, "numbers", (name,), recipe={**NUMBERS, **form.as_recipe()})
    (values, _), rows = column.read(series), pluralize(len(series), "row")
    if len(series) >= FEWEST_ROWS and bool(np.all(np.diff(values) == 1.0)):
        return column.changed(kind="left out", why="an id: it counts the rows")
    there = values[~np.isnan(values)]
    is_constant = len(there) and there.min() == there.max()
    return column.noted(
        f"constant in the first {rows}" if is_constant else None, example(series, form)
    )


def example(series: pd.Series, form: NumberFormat) -> str | None:
    """Return a remark on how numbers with separators or units are read; None for plain numbers."""
    what = ["thousands have a separator"] if form.thousands else []
    what += [f"the unit is {form.unit}"] if form.unit else []
    if not what:
        return None
    there = (text for text in _texts(series) if form.thousands in text and form.unit in text)
    if (text := next(there, None)) is None:
        return " and ".join(what)
    return f"{' and '.join(what)}: {text} is read as {form.read(text) or 0:.15g}"


def _date_format(
    texts: Sequence[str], zone: str | None = None, day_first: bool | None = None
) -> tuple[DateFormat, list[str], str] | None:
    """Return the format of dates, the texts that count as missing, and a remark for the user.

    Return None if no format can read all other ``texts`` as dates.
    """
    missing = sorted(NO_DATE.intersection(texts))
    dates = [text for text in dict.fromkeys(texts) if text not in NO_DATE]
    format, is_unsure = date_format(dates, day_first) if dates else (None, False)
    if format is None:
        return None
    notes = [f"{few(map(repr, missing))} counts as missing"] if missing else []
    if is_unsure:
        month, day = ("month", "day") if format.startswith("%m") else ("day", "month")
        notes.append(
            f"{dates[0]} is read with the {month} first; columns='{{name}}: date {day}first' "
            f"reads the {day} first"
        )
    return DateFormat(format, zone), missing, "; ".join(notes)


def _date_column(
    name: str, series: pd.Series, form: DateFormat, missing: Sequence[str] = (), note: str = ""
) -> Column:
    date: dict[str, Any] = {"format": form.format, "parts": [], "start": ""}
    date |= {"zone": form.zone} if form.zone else {}
    date |= {"missing": list(missing)} if missing else {}
    column = Column(name, "date", (), recipe={"how": "date", "date": date})
    times, unread = column.read(series)
    there = times[times != NO_TIME]
    if not len(there) and unread is None:  # an invalid cell is an error when the rows are encoded
        return Column(
            name, "left out", (), f"no value in the first {pluralize(len(series), 'row')}"
        )
    has_clock = bool((there % DAY).any())
    parts = ["hour", "weekday", "day_of_year", "days_elapsed"][0 if has_clock else 1 :]
    if form.format in CLOCKS:
        parts = ["hour"]
    start = str(there[0].astype("datetime64[us]")) if len(there) else ""
    date |= {"parts": parts, "start": start}
    column = column.changed(recipe={"how": "date", "date": date})
    inputs = tuple(f"{name}.{part}" for part in parts)
    why = ", ".join(parts).replace("_", " ")
    return column.changed(inputs=inputs, why=why).noted(note.replace("{name}", name))


def _categories(name: str, different: list[str], n: int, may_be_id: bool) -> Column:
    """Return the encoding of a column of n cells with the distinct words ``different``.

    If ``may_be_id`` is True, a column whose words are nearly all different is left out.
    """
    if len(different) <= MOST_CATEGORIES:
        column = _of_words(name, different)
        if len(different) == 1:
            column = column.changed(why=f"constant in the first {pluralize(n, 'row')}")
    else:
        column = hashed(name, len(different), n)
    if may_be_id and n >= FEWEST_ROWS and len(different) > MOSTLY * n:
        why = f"an id: {len(different)} different values in {n} rows"
        return column.changed(kind="left out", why=why)
    return column


def _of_words(name: str, words: Sequence[str]) -> Column:
    """Return a column of categories with one input per word."""
    inputs = tuple(f"{name}={word}" for word in words)
    why = f"{len(words)} categories, one input each"
    return Column(name, "categories", inputs, why, {"how": "words", "known": list(words)})


def hashed(name: str, n_words: int, n: int, of_few: bool = False) -> Column:
    """Return a hashed column, whose words become inputs by their checksums.

    Parameters
    ----------
    name, n_words, n
        Name of the column, and its number of distinct words in the first n rows.
    of_few
        Whether the column is hashed only because n is small. If two words share an input, the user
        is then advised to declare the categories.
    """
    inputs = (*(f"{name}#{k + 1}" for k in range(HASHED)), name + LEVEL, name + LEVEL_COUNT)
    why = f"{n_words} categories in the first {n} rows, hashed into {HASHED} inputs"
    recipe = {"how": "hashed"} | ({"of_few": True} if of_few else {})
    return Column(name, "hashed", inputs, why, recipe)


def hashed_place(text: str) -> int:
    """Return the index of a word among the inputs of a hashed column."""
    return level_of(text) % HASHED


def level_of(text: str) -> int:
    """Return the level of a word of a hashed column: its checksum modulo N_LEVELS."""
    return zlib.crc32(text.encode()) % N_LEVELS


def levels_in(inputs: Sequence[str]) -> np.ndarray:
    """Return the indices (L,) of the inputs that contain levels of hashed columns.

    The next input after each level is reserved for a count. If n earlier targets with this level
    are known, ``LevelMeans`` replaces the level by their mean, and the next input by log(1 + n).
    """
    pairs = enumerate(itertools.pairwise(inputs))
    found = [
        k
        for k, (name, count) in pairs
        if name.endswith(LEVEL) and count == name.removesuffix(LEVEL) + LEVEL_COUNT
    ]
    return np.array(found, dtype=np.int64)


def without_levels(X: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return rows (d,) or (n, d) with 0 at the indices ``levels``."""
    if len(levels):
        X = X.copy()
        X[..., levels] = 0.0
    return X


# --- Declared columns -----------------------------------------------------------------------------


DECLARATIONS = (
    "number [comma|point] [UNIT] [known], category [WORD ...] [known], text [known], "
    "date [dayfirst|monthfirst] [ZONE], skip"
)


class Declaration(NamedTuple):
    """Parsed declaration of a column.

    kind        number, category, text, date or skip
    decimal     decimal mark of numbers; "" if the cells decide
    unit        unit of numbers; "" if the cells decide
    words       categories; () for the categories in the first rows
    day_first   whether the day of a date precedes the month; None if the cells decide
    zone        time zone of dates, or None
    ahead       whether later values of the column are known in advance. If so, and the stream has a
                horizon, the input is the column's value in the row of the target
    """

    kind: str
    decimal: str = ""
    unit: str = ""
    words: tuple[str, ...] = ()
    day_first: bool | None = None
    zone: str | None = None
    ahead: bool = False


def declaration(name: str, declared: Any) -> Declaration:
    """Parse the declaration of a column. Raises DataError if it is invalid."""
    kind, *options = (declared.split() if isinstance(declared, str) else ()) or [""]
    if options[-1:] == ["known"] and kind in ("number", "category", "text"):
        return declaration(name, declared.rpartition("known")[0])._replace(ahead=True)
    if kind == "number":
        mark = {"comma": ",", "point": "."}.get(options[0], "") if options else ""
        return Declaration(kind, decimal=mark, unit=" ".join(options[1 if mark else 0 :]))
    if kind == "category":
        return Declaration(kind, words=tuple(dict.fromkeys(map(word, options))))
    if kind == "date" and len(options) <= 2:
        day_first = {"dayfirst": True, "monthfirst": False}.get(options[0]) if options else None
        zone = options[-1] if options[0 if day_first is None else 1 :] else None
        if zone in (None, *zoneinfo.available_timezones()):
            return Declaration(kind, day_first=day_first, zone=zone)
    if kind in ("text", "skip") and not options:
        return Declaration(kind)
    raise DataError(
        f"columns: {name!r} is declared as {declared!r}, and a column is one of: {DECLARATIONS}."
    )


def _declared(series: pd.Series, name: str, made: Declaration, decimal: str) -> Column:
    import pandas as pd

    texts = _texts(series)
    different = list(dict.fromkeys(map(word, texts)))
    if made.kind == "skip":
        return Column(name, "left out", (), "declared as skip")
    if made.kind == "category":
        column = (
            _of_words(name, made.words)
            if made.words
            else _categories(name, different, len(texts), False)
        )
    elif made.kind == "text":
        column = hashed(name, len(different), len(series))
    elif made.kind == "number":
        form = _number_format(series, made.decimal or decimal) or NumberFormat(decimal)
        form = form._replace(decimal=made.decimal or form.decimal, unit=made.unit or form.unit)
        column = _numbers(name, series, form).changed(kind="numbers")
    else:
        is_typed = pd.api.types.is_datetime64_any_dtype(series.dtype)
        found = None if is_typed else _date_format(texts, made.zone, made.day_first)
        date = found or (DateFormat(None if is_typed else ISO, made.zone),)
        column = _date_column(name, series, *date)
    return column.noted("declared" + ", known ahead" * made.ahead)


def known_ahead(columns: Sequence[Column], declared: Any) -> np.ndarray:
    """Return the indices of inputs whose values in later rows are known in advance.

    These are the inputs of dates, and of columns that are declared as known.

    Parameters
    ----------
    columns
        Columns that are inputs, in order.
    declared
        ``dataset.columns``. It contains declarations only if it is a mapping.
    """
    texts = declared if isinstance(declared, Mapping) else {}
    places, start = list[int](), 0
    for column in columns:
        text = texts.get(column.name)
        is_known = text is not None and declaration(column.name, text).ahead
        if is_known or column.recipe.get("how") == "date":
            places += range(start, start + len(column.inputs))
        start += len(column.inputs)
    return np.array(places, dtype=np.int64)
