"""Warn of rows that make errors misleading: sorted rows, copies, inputs that reveal the target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from omkl.utils.wording import few, pluralize

NewCategories = Mapping[str, Counter[str]]  # number of rows with each new category, by column
FEWEST = 20  # least number of rows for a warning
BACK = 1 / 12  # days; smaller steps back are ignored, as clocks go back by an hour each autumn
COPIES, MOST_COPIES = 0.3, 4  # least share of copies, and largest mean number of equal rows
# Largest share of the target's variance that one input, or two inputs, leave unexplained.
EXPLAINED, OF_PAIR = 0.06, 1e-3
OF_LAST = 0.25  # the same, as a share of the variance that the last target leaves unexplained


class Order:
    """Record whether the targets and dates of consecutive rows increase or decrease."""

    def __init__(self) -> None:
        self._last, self._n, self._ups, self._downs = np.empty(0), 0, 0, 0
        self._time, self._onwards, self._back, self._first_back = np.empty(0), 0, 0, 0
        # Number of rows of the last date so far, and the numbers of rows of all earlier dates.
        self._n_of_date, self._sizes = 0, set[int]()

    def add(self, y: np.ndarray, time: np.ndarray | None, rows: np.ndarray) -> None:
        """Add the next rows.

        Parameters
        ----------
        y
            Targets (n,), NaN if missing.
        time
            Dates (n,) in days, NaN if missing; None without a column of dates.
        rows
            Row numbers (n,) in the file.
        """
        there = y[~np.isnan(y)]
        steps = np.diff(np.concatenate([self._last, there]))
        self._n, self._last = self._n + len(there), np.concatenate([self._last, there])[-1:]
        self._ups += int(np.sum(steps > 0.0))
        self._downs += int(np.sum(steps < 0.0))
        if time is None:
            return
        dated = ~np.isnan(time)
        steps = np.diff(time[dated], prepend=self._time)
        back = steps < -BACK
        if back.any() and not self._back:
            self._first_back = int(rows[dated][-len(steps) :][back.argmax()])
        self._back += int(back.sum())
        self._onwards += int(np.sum(steps > 0.0))
        first = len(time[dated]) - len(steps)  # 1 in the first block: its first row has no step
        begins = np.flatnonzero(steps) + first
        sizes = np.diff(begins, prepend=0, append=int(dated.sum()))
        sizes[0] += self._n_of_date
        self._n_of_date, self._sizes = int(sizes[-1]), self._sizes.union(sizes[:-1].tolist())
        self._time = np.concatenate([self._time, time[dated]])[-1:]

    def notices(self, n_classes: int, date: str | None) -> Iterator[str]:
        """Yield warnings about the order of the rows.

        ``n_classes`` is 0 in a regression, and ``date`` is the name of the column of dates.
        """
        changes = self._ups + self._downs
        by_class = 0 < changes < n_classes
        if self._n >= FEWEST and (by_class or (changes > 0 and not self._ups * self._downs)):
            yield (
                "the rows come in the order of the target. If they are no time series, "
                "stream.order=shuffled puts them in random order."
            )
        if self._onwards >= FEWEST and len(self._sizes) == 1 and max(self._sizes) > 1:
            n = max(self._sizes)
            yield (
                f"each {date} has {n} rows: if these are {n} series, name their column: "
                "dataset.series=COLUMN. Their number may otherwise be found as a season."
            )
        if self._back and self._back + self._onwards >= FEWEST:
            if not self._onwards:
                yield (
                    f"the rows run backwards in time by {date}, so that a prediction knows the "
                    f"future. Sort the file by {date}, oldest first."
                )
            else:
                yield (
                    f"{date} goes back in time {pluralize(self._back, 'time')}, first at row "
                    f"{self._first_back:,}. If it is the time of a row, sort the file by it; if "
                    "the file holds several series, name their column: dataset.series=COLUMN."
                )


def of_first_rows(
    values: np.ndarray, names: Sequence[str], numbers: Sequence[int]
) -> Iterator[str]:
    """Yield warnings about the first rows: copies, and inputs that reveal the target.

    Parameters
    ----------
    values
        First rows (n, d + 1). The last column is the target.
    names
        Names of the inputs.
    numbers
        Indices of the inputs that are neither categories nor parts of a date.
    """
    n = len(values)
    if n < FEWEST:
        return
    if n_copies := _copies(values):
        yield (
            f"{n_copies:,} of the first {n:,} rows are copies of earlier ones, their targets too: "
            "they are easy to predict. Remove them, unless each is a measurement of its own."
        )
    whole = values[~np.isnan(values).any(axis=1)]
    inputs = [k for k in numbers if len(whole) >= FEWEST and np.ptp(whole[:, k]) > 0.0]
    if inputs and np.ptp(whole[:, -1]) > 0.0 and np.abs(whole).max() < 1e100:
        yield from _giveaway(whole[:, inputs], whole[:, -1], [names[k] for k in inputs])


def of_new_categories(new: NewCategories, cure: str = "columns='{}: text'") -> Iterator[str]:
    """Yield a warning for each column with categories that did not occur in the first rows.

    ``cure`` is advice on how new categories get inputs. It contains {} for the column's name.
    """
    for column, words in new.items():
        counts = (f"{word} ({n:,})" for word, n in words.most_common())
        yield (
            f"{column} has new categories in {pluralize(words.total(), 'row')}: {few(counts)}. "
            f"They are 0 in all inputs of the column; {cure.format(column)} gives them inputs."
        )


def _copies(values: np.ndarray) -> int:
    """Count the rows that equal an earlier row.

    The result is 0 if every column has few distinct values, because rows are then often equal by
    chance. It is also 0 if less than 30 % or more than 75 % of the rows are copies.
    """
    bits = np.ascontiguousarray(values).view(np.uint64)
    factors = np.random.default_rng(0).integers(1, 2**63, values.shape[1], dtype=np.uint64) * 2 + 1
    n, n_different = len(values), len(np.unique((bits * factors).sum(axis=1)))
    if not n / MOST_COPIES <= n_different <= (1 - COPIES) * n:
        return 0
    some = values[:2_000]
    most = max(len(np.unique(column)) for column in some.T)
    return n - n_different if most > 0.4 * len(some) * n_different / n else 0


def _giveaway(X: np.ndarray, y: np.ndarray, names: Sequence[str]) -> Iterator[str]:
    """Yield a warning if one or two inputs reveal the target.

    Inputs reveal the target if a linear fit by them leaves very little of the target's variance
    unexplained, and much less than a linear fit by the previous target leaves unexplained.
    """
    X, y = _standardised(X), _standardised(y)
    by_last = float(np.mean(y[1:] * y[:-1])) ** 2
    share = (X.T @ y / len(y)) ** 2
    k = int(np.argmax(share))
    explained, most = float(share[k]), OF_LAST * (1.0 - by_last)
    found = [k] if 1.0 - explained <= min(EXPLAINED, most) else []
    if not found and len(names) > 1:  # try the second input that explains most of the rest
        rest = y - X[:, k] * (X[:, k] @ y) / len(y)
        pair = [k, int(np.argmax(np.where(np.arange(len(names)) == k, -1.0, np.abs(X.T @ rest))))]
        left = y - X[:, pair] @ np.linalg.lstsq(X[:, pair], y, rcond=None)[0]
        explained = 1.0 - float(left @ left) / len(y)
        found = pair if 1.0 - explained <= min(OF_PAIR, most) else []
    if found:
        named = " and ".join(names[k] for k in found)
        yield (
            f"{named} {'explain' if found[1:] else 'explains'} {100 * explained:.0f} % of the "
            f"target: {'are they' if found[1:] else 'is it'} known before the target? If not, "
            f"leave out: 'exclude=[{','.join(names[k] for k in found)}]'."
        )


def _standardised(x: np.ndarray) -> np.ndarray:
    centred = x - x.mean(axis=0)
    centred /= np.abs(centred).max(axis=0)  # otherwise the squares of tiny numbers are 0
    return centred / np.sqrt(np.mean(centred**2, axis=0))
