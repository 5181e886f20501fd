"""Read cells as numbers, dates and words, for files, data frames and single rows.

The format of a column is chosen once, from its first cells. Every later cell is read in this
format.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

# Texts that pandas reads as missing values.
BLANKS = frozenset({
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null", "NaT",
})  # fmt: skip
FLAGS = {word: float(word.lower() == "true") for word in
         ("True", "TRUE", "true", "False", "FALSE", "false")}  # fmt: skip


def is_blank(cell: Any) -> bool:
    """Return whether a cell is missing: None, NaN, NaT, pandas' NA, or a text of ``BLANKS``."""
    if isinstance(cell, str):
        return cell.strip() in BLANKS
    if cell is None:
        return True
    try:
        return bool(cell != cell)
    except (TypeError, ValueError):  # an array, or NA, which is not equal to itself either
        return type(cell).__name__ == "NAType"


def is_text(series: pd.Series) -> bool:
    """Return whether all cells of a column are text or missing."""
    import pandas as pd

    return isinstance(series.dtype, pd.StringDtype) or (
        series.dtype == object and all(isinstance(cell, str) or is_blank(cell) for cell in series)
    )


def text_of(cell: Any) -> str:
    """Return the text of a cell, without surrounding blanks."""
    if isinstance(cell, bytes):
        return cell.decode(errors="backslashreplace").strip()
    return str(cell).strip()


_WRITTEN = re.compile(r"(?:\+|(-))?(0|[1-9]\d*)(?:\.(\d*?)0*)?", re.ASCII)


def word(cell: Any) -> str:
    """Return the word of a cell, its text with numbers in one spelling.

    The word of 12, 12.0 and "+12" is "12". The word of "012" is "012".
    """
    text = text_of(cell)
    if match := _WRITTEN.fullmatch(text):
        minus, whole, fraction = match.groups("")
        return minus + (f"{whole}.{fraction}" if fraction else whole)
    return text


# --- Numbers --------------------------------------------------------------------------------------

_SPELLING = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u2019": "'", "−": "-"})
_INFINITE = re.compile(r"[-+]?inf(?:inity)?", re.IGNORECASE)
_HEX = re.compile(r"0[xX][0-9a-fA-F]{1,12}")
MARKS = {".": (",", " ", "'"), ",": (".", " ", "'")}  # thousands, by decimal mark
CODES = {"USD", "EUR", "GBP", "CHF", "JPY", "CNY", "SEK", "NOK", "DKK", "PLN", "US$", "Fr.", "kr"}
MOST_UNIT = 12  # characters
FEW, MOST = 0.5, 0.9  # least share of cells that a number format reads: without and with a unit


class NumberFormat(NamedTuple):
    """Format of the numbers of a column.

    decimal, thousands  decimal mark and thousands separator; "" for no separator
    unit                text before or after each number, such as kg, %, $; "" for none
    flags               whether the cells are true or false, which become 1 and 0
    """

    decimal: str = "."
    thousands: str = ""
    unit: str = ""
    flags: bool = False

    def read(self, cell: Any) -> float | None:
        """Return the number in a cell that is not missing, or None if it is not a number."""
        if isinstance(cell, str):
            return _number(cell.strip(), self)
        if isinstance(cell, datetime.timedelta):
            return cell.total_seconds()
        if isinstance(cell, datetime.date | bytes):
            return None
        try:
            return float(cell)
        except (TypeError, ValueError, OverflowError):
            return None

    def __str__(self) -> str:
        if self.flags:
            return "true or false"
        parts = [f"decimal mark {self.decimal!r}"]
        parts += [f"thousands {self.thousands!r}"] if self.thousands else []
        parts += [f"unit {self.unit!r}"] if self.unit else []
        return "a number with " + ", ".join(parts)

    def as_recipe(self) -> dict[str, Any]:
        """Return the fields that differ from the format of plain numbers, for JSON."""
        default = NumberFormat()._asdict()
        return {key: value for key, value in self._asdict().items() if value != default[key]}


PLAIN = NumberFormat()


def _number(text: str, form: NumberFormat) -> float | None:
    if form.flags:
        return FLAGS.get(text)
    if match := _pattern(form).fullmatch(text.translate(_SPELLING)):
        *signs, whole, fraction, exponent, last = match.groups()
        sign = "".join([*signs, last])
        if (whole or fraction) and len(sign) < 2:
            digits = whole.replace(form.thousands, "") if form.thousands else whole
            return float(f"{sign}{digits or 0}.{fraction or 0}{exponent}")
    if _INFINITE.fullmatch(text):
        return float(text)
    return float(int(text, 16)) if _HEX.fullmatch(text) else None


@functools.lru_cache(256)
def _pattern(form: NumberFormat) -> re.Pattern[str]:
    unit = f"(?:{re.escape(form.unit.translate(_SPELLING))})?" if form.unit else ""
    whole = r"\d*"
    if form.thousands:
        whole = rf"[1-9]\d{{0,2}}(?:{re.escape(form.thousands)}\d{{3}})+|\d*"
    return re.compile(
        rf"([-+]?) ?{unit} ?([-+]?)({whole})(?:{re.escape(form.decimal)}(\d*))?"
        rf"((?:[eE][-+]?\d+)?) ?{unit}(-?)",
        re.ASCII,
    )


def plain_numbers(series: pd.Series, decimal: str = ".") -> np.ndarray | None:
    """Return the numbers (n,) of a column of numbers, or of texts that are plain numbers.

    A missing value is NaN. Return None if a cell is not a plain number.
    """
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    if pd.api.types.is_numeric_dtype(series.dtype):
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    try:
        text = pc.utf8_trim_whitespace(pa.array(series, pa.large_string(), from_pandas=True))
        if decimal == ",":
            if pc.any(pc.match_substring(text, ".")).as_py():
                return None
            text = pc.replace_substring(text, ",", ".")
        return np.array(pc.cast(text, pa.float64()).to_numpy(zero_copy_only=False))
    except (pa.ArrowException, UnicodeError):
        return None


def has_codes(series: pd.Series) -> bool:
    """Return whether a column of text contains codes such as 007: digits after a leading zero."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        text = pa.array(series, pa.large_string(), from_pandas=True)
        return bool(pc.any(pc.match_substring_regex(text, r"^\s*0[0-9]+\s*$")).as_py())
    except (pa.ArrowException, UnicodeError):  # some cells are not text
        return False


def number_format(counts: Mapping[str, int], decimal: str) -> NumberFormat | None:
    """Return the number format that can read most cells of a column of text, or None.

    ``counts`` is the number of cells with each text. If two formats read equally many cells, the
    one with the ``decimal`` mark is chosen. The result is None in two cases:

    - The format reads less than half of the cells, or less than 90 % if numbers have a unit.
    - Numbers seem to be codes. Less than 90 % of the cells are numbers, and no number has a sign or
      a mark. The other cells contain at least two different texts, or a flag such as "true".
    """
    if counts and all(text in FLAGS for text in counts):
        return NumberFormat(flags=True)
    unit, total = _unit(counts), sum(counts.values())
    best, most = None, 0
    for mark in (decimal, "," if decimal == "." else "."):
        for thousands in ("", *MARKS[mark]):
            form = NumberFormat(mark, thousands, unit)
            n = sum(k for text, k in counts.items() if _number(text, form) is not None)
            if n > most:
                best, most = form, n
    if best is None or most < (MOST if unit else FEW) * total:
        return None
    others = [text for text in counts if best.read(text) is None]
    are_codes = all(text.isalnum() for text in counts.keys() - set(others))
    are_words = len(others) > 1 or FLAGS.keys() & others
    return None if are_words and are_codes and most < MOST * total else best


_AROUND = re.compile(r"([^\d.,'+-]*)[-+]?([^\d.,'+-]*)\d[\d.,' ]*(\D*)")


def _unit(counts: Iterable[str]) -> str:
    """Return the unit: the text that stands most often before or after a number."""
    units: Counter[str] = Counter()
    for text in counts:
        if match := _AROUND.fullmatch(text.translate(_SPELLING).rstrip("-").strip()):
            before, after = "".join(match.groups()[:2]).strip(), match[3].strip(" .,'")
            is_money = before in CODES or (before and unicodedata.category(before[-1]) == "Sc")
            if (is_money and not after) or (after and not before and len(after) <= MOST_UNIT):
                units[before or after] += 1
    return units.most_common(1)[0][0] if units else ""


# --- Dates and times ------------------------------------------------------------------------------

ISO = "ISO8601"
EPOCH, MICROSECOND = datetime.datetime(1970, 1, 1), datetime.timedelta(microseconds=1)
DAY = 86_400_000_000  # microseconds
NO_TIME = -(2**63)  # as NaT
CLOCKS = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p")
DAYS = (
    "%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d.%m.%y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y",
    "%d/%m/%y", "%d-%m-%Y", "%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y",
    "%B %d, %Y", "%b %d %Y", "%B %d %Y",
)  # fmt: skip
FORMATS = (ISO, *(f"{day}{clock}" for day in DAYS for clock in ("", *(f" {c}" for c in CLOCKS))))
NO_DATE = frozenset({"-", "--", "–", "—", "0000-00-00", "0000-00-00 00:00:00"})
_ISO_DAY = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([ T].*)?")


class DateFormat(NamedTuple):
    """Format of the dates of a column.

    format  format as in ``strptime``, or "ISO8601"; None for a column without text
    zone    time zone to which dates with an offset are converted; None: the offset is ignored
    """

    format: str | None = None
    zone: str | None = None

    def read(self, cell: Any) -> int | None:
        """Return the local time of a cell in microseconds since 1970.

        Return None if the cell is not a date in this format.
        """
        moment = self._moment(cell)
        if moment is None:
            return None
        if moment.tzinfo is not None:
            moment = moment.astimezone(ZoneInfo(self.zone)) if self.zone else moment
            moment = moment.replace(tzinfo=None)
        return (moment - EPOCH) // MICROSECOND

    def __str__(self) -> str:
        return f"a date written {'2024-03-31' if self.format in (ISO, None) else self.format}"

    def _moment(self, cell: Any) -> datetime.datetime | None:
        if isinstance(cell, datetime.datetime):  # pandas subtracts in 20 us, Python in 0.2 us
            return cell.to_pydatetime(warn=False) if hasattr(cell, "to_pydatetime") else cell
        if isinstance(cell, datetime.date):
            return datetime.datetime.combine(cell, datetime.time())
        if hasattr(cell, "to_timestamp"):  # a period
            return self._moment(cell.to_timestamp())
        text = text_of(cell)
        try:
            if self.format in (ISO, None):
                return datetime.datetime.fromisoformat(text) if _ISO_DAY.fullmatch(text) else None
            return datetime.datetime.strptime(text, self.format)
        except ValueError:
            return None


def date_format(texts: Sequence[str], day_first: bool | None) -> tuple[str | None, bool]:
    """Return the date format that can read all texts, or None, and whether it is a guess.

    ``day_first`` is the order of day and month, None if unknown. If both orders can read the texts,
    choose the order in which the dates only increase or only decrease. If both or neither are
    sorted, the order is a guess.
    """
    clocks = all(re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?( ?[AaPp][Mm])?", text) for text in texts)
    formats = CLOCKS if clocks else FORMATS
    found = [f for f in formats if all(DateFormat(f).read(text) is not None for text in texts)]
    if day_first is not None:
        found = [f for f in found if f.startswith("%d" if day_first else "%m")] or found
    both = len(found) > 1 and {format[:2] for format in found[:2]} == {"%d", "%m"}
    if not both:
        return (found[0] if found else None), False
    in_order = [format for format in found[:2] if _is_sorted(texts, format)]
    if len(in_order) == 1:
        return in_order[0], False
    return found[0], day_first is None


def _is_sorted(texts: Sequence[str], format: str) -> bool:
    times = [datetime.datetime.strptime(text, format) for text in texts]
    steps = [a <= b for a, b in itertools.pairwise(times)]
    return all(steps) or not any(steps)


def date_parts(time: Any, parts: Sequence[str], start: int) -> list[Any]:
    """Return parts of a time: hour, weekday (Monday is 0), day of the year, days since ``start``.

    Parameters
    ----------
    time
        Time in microseconds since 1970: an int, or an int64 array for arrays of the parts.
    parts
        Names of the requested parts: "hour", "weekday", "day_of_year", "days_elapsed".
    start
        Time from which days are counted, in microseconds since 1970.
    """
    day = time // DAY
    values = {
        "hour": lambda: (time - day * DAY) / 1e6 / 3600,
        "weekday": lambda: (day + 3) % 7,
        "day_of_year": lambda: _day_of_year(day),
        "days_elapsed": lambda: (time - start) / float(DAY),
    }
    return [values[part]() for part in parts]


def _day_of_year(day: Any) -> Any:
    """Return the day of the year, from 1, for days since 1970."""
    # The calendar repeats every 146,097 days, 400 years. Years are counted from 1 March, so that a
    # leap day is the last day of a year.
    day = (day + 719_468) % 146_097
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    since_march = day - (365 * year + year // 4 - year // 100)
    is_leap = (year % 4 == 0) & ((year % 100 != 0) | (year == 0))
    return since_march + 60 + is_leap - (since_march >= 306) * (365 + is_leap)
