"""Define predictions of rows, and store recent predictions until their targets arrive."""

from __future__ import annotations

import collections
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from omkl.online.series import RowUnits

# Names of arrays in a file.
ROWS, PREDICTIONS, SERIES = "recent.rows", "recent.predictions", "recent.series"


class TargetTransform(NamedTuple):
    """Box-Cox transform of targets, (y ** power - 1) / power; log y for the power 0.

    The transform is increasing. Its inverse therefore maps the median of the transformed targets to
    the median of the targets, and the ends of an interval to ends with the same coverage.
    """

    power: float

    def forward(self, y: np.ndarray) -> np.ndarray:
        """Transform targets; NaN stays NaN. Raises ValueError for a target outside the domain."""
        with np.errstate(invalid="ignore", divide="ignore"):
            found = (y**self.power - 1.0) / self.power if self.power else np.log(y)
        if wrong := y[~np.isfinite(found) & ~np.isnan(y)].tolist():
            least = "0 or more" if self.power else "more than 0"
            raise ValueError(f"target_transform needs targets of {least}, and one is {wrong[0]:g}")
        return found

    def inverse(self, z: Any) -> Any:
        """Transform predictions or ends of intervals back to the unit of the targets."""
        if not self.power:
            return np.exp(z)
        return np.maximum(0.0, 1.0 + self.power * np.asarray(z)) ** (1.0 / self.power)

    def spread(self, z: Any, spread: Any) -> Any:
        """Transform a standard deviation at the prediction z back to the unit of the targets.

        The transform is approximated by its tangent at z.
        """
        return spread * self.inverse(z) ** (1.0 - self.power)


class Predictions(NamedTuple):
    """Predictions of n rows, each made before its target was learned; NaN if unknown.

    y_hat    (n,) numbers or classes. ``learn_rows`` returns scores of classes instead: (n,) for two
             classes, whose sign is the class, or (n, K) for K > 2
    asked    (n,) bool, whether the target was requested
    spread   (n,) expected standard deviation of the target around y_hat
    low, high   (n,) ends of the interval around y_hat
    """

    y_hat: np.ndarray
    asked: np.ndarray
    spread: np.ndarray
    low: np.ndarray
    high: np.ndarray


def joined(parts: Sequence[Predictions]) -> Predictions:
    """Join the predictions of consecutive blocks."""
    return Predictions(*map(np.concatenate, zip(*parts, strict=True)))


class RowPrediction(NamedTuple):
    """Prediction of one row, with the numbers that learning needs when the target arrives.

    y_hat    a number, or scores (K,) of classes
    asked    whether the target is requested
    spread   expected standard deviation of the target
    low, high   ends of the interval
    far      whether the row has an input far outside its usual range
    scored   whether intervals learn from the error of this prediction
    past     past targets that the prediction used: lags, and ``Learner.context`` of each core
             learner
    width    fields of ``intervals.Width``; () without learned widths
    series   units of the row's series; None for a learner without such units
    of_outputs   predictions of the m outputs; y_hat, spread, low and high are then arrays (m,)
    """

    y_hat: Any
    asked: bool
    spread: Any
    low: Any
    high: Any
    far: bool
    scored: bool = False
    past: tuple[np.ndarray, ...] = ()
    width: tuple[np.ndarray, ...] = ()
    series: RowUnits | None = None
    of_outputs: tuple[RowPrediction, ...] = ()


def stacked(predictions: Sequence[RowPrediction], y: np.ndarray) -> Predictions:
    """Stack the predictions of n rows with targets y, (n,) or (n, m).

    ``asked`` is False where the target is NaN.
    """
    asked = np.array([row.asked for row in predictions], dtype=np.bool_)
    return Predictions(
        np.array([row.y_hat for row in predictions], dtype=np.float64),
        (asked if y.ndim == 1 else asked[:, None]) & ~np.isnan(y),
        np.array([row.spread for row in predictions], dtype=np.float64),
        np.array([row.low for row in predictions], dtype=np.float64),
        np.array([row.high for row in predictions], dtype=np.float64),
    )


Row = tuple[int | str | None, bytes]  # series and numbers of a row


class RecentPredictions:
    """Store recent predictions by row and series.

    If several equal rows were predicted, ``take`` returns their predictions in the order in which
    they were stored.

    Parameters
    ----------
    limit
        Largest number of predictions, >= 1. A further prediction replaces the oldest.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # Predictions by their running number, the oldest first, and these numbers by row.
        self._predictions: dict[int, tuple[Row, RowPrediction]] = {}
        self._numbers: dict[Row, collections.deque[int]] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._predictions)

    def has(self, x: np.ndarray, series: int | str | None = None) -> bool:
        """Return whether a prediction is stored for the row x (d,) and its series."""
        return (series, x.tobytes()) in self._numbers

    def add(
        self, x: np.ndarray, prediction: RowPrediction, series: int | str | None = None
    ) -> None:
        """Store the prediction of a row. If the store is full, remove the oldest prediction.

        Parameters
        ----------
        x
            Row (d,).
        prediction
            Its prediction.
        series
            Name of the row's series.
        """
        if len(self._predictions) >= self.limit:
            oldest, _ = next(iter(self._predictions.values()))
            self._pop(oldest)
        row = series, x.tobytes()
        self._predictions[self._next] = row, prediction
        self._numbers.setdefault(row, collections.deque()).append(self._next)
        self._next += 1

    def take(self, x: np.ndarray, series: int | str | None = None) -> RowPrediction | None:
        """Remove and return the earliest prediction stored for the row x (d,) and its series.

        Return None if there is none.
        """
        row = series, x.tobytes()
        return self._pop(row) if row in self._numbers else None

    def forget_widths(self) -> None:
        """Remove the learned widths of all predictions."""
        for number, (row, prediction) in self._predictions.items():
            self._predictions[number] = row, prediction._replace(width=())

    def _pop(self, row: Row) -> RowPrediction:
        numbers = self._numbers[row]
        _, prediction = self._predictions.pop(numbers.popleft())
        if not numbers:
            del self._numbers[row]
        return prediction

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the stored rows (n, d) and predictions (n, p) as arrays, for ``restore``."""
        if not self._predictions:
            return {}
        rows = np.stack([np.frombuffer(x) for (_, x), _ in self._predictions.values()])
        numbers = [_numbers(prediction) for _, prediction in self._predictions.values()]
        width = max(map(len, numbers))  # predictions from before a season was found are shorter
        padded = [np.pad(one, (0, width - len(one)), constant_values=np.nan) for one in numbers]
        found = {ROWS: rows, PREDICTIONS: np.stack(padded)}
        names = [series for (series, _), _ in self._predictions.values()]
        if any(name is not None for name in names):
            found[SERIES] = np.frombuffer(json.dumps(names).encode(), dtype=np.uint8)
        return found

    def restore(self, kept: Mapping[str, np.ndarray], like: RowPrediction, d: int) -> None:
        """Restore the predictions that ``arrays`` returned.

        Parameters
        ----------
        kept
            The arrays.
        like
            Any prediction of the same learner. It defines the shapes of all fields.
        d
            Number of inputs.

        Raises
        ------
        ValueError
            The arrays do not fit this learner.
        """
        rows, predictions = kept[ROWS], kept[PREDICTIONS]
        names = json.loads(kept[SERIES].tobytes()) if SERIES in kept else [None] * len(rows)
        alike = rows.ndim == predictions.ndim == 2 and rows.shape == (len(predictions), d)
        # Predictions that were made during the search for seasons have additional numbers.
        alike = alike and predictions.shape[1] >= len(_numbers(like))
        alike = alike and rows.dtype == predictions.dtype == np.float64
        alike = alike and isinstance(names, list) and len(names) == len(rows)
        alike = alike and len(rows) <= self.limit
        if not alike or any(np.isinf(array).any() for array in (rows, predictions)):
            raise ValueError("its recent predictions do not fit its settings")
        for row, numbers, series in zip(rows, predictions, names, strict=True):
            self.add(row, _of_numbers(like, numbers), series)


def _numbers(prediction: RowPrediction) -> np.ndarray:
    """Return the parts of a prediction that ``learn_one`` needs, as numbers (p,)."""
    if prediction.of_outputs:
        return np.concatenate([_numbers(one) for one in prediction.of_outputs])
    flags = np.array([prediction.far, prediction.scored], dtype=np.float64)
    own = [] if prediction.series is None else [prediction.series.numbers()]
    y_hat = np.ravel(prediction.y_hat)
    return np.concatenate([flags, y_hat, *prediction.past, *prediction.width, *own])


def _of_numbers(like: RowPrediction, numbers: np.ndarray) -> RowPrediction:
    """Return a prediction from numbers (p,), with the shapes of ``like``."""
    if like.of_outputs:
        parts = np.split(numbers, len(like.of_outputs))
        pairs = zip(like.of_outputs, parts, strict=True)
        return like._replace(of_outputs=tuple(_of_numbers(one, part) for one, part in pairs))
    sizes = [2, np.size(like.y_hat), *(len(part) for part in (*like.past, *like.width))]
    (far, scored), y_hat, *parts, rest = np.split(numbers, np.cumsum(sizes))
    past, width = tuple(parts[: len(like.past)]), tuple(parts[len(like.past) :])
    answer = y_hat if np.ndim(like.y_hat) else float(y_hat[0])
    series = like.series.of_numbers(rest) if like.series else None
    flags = {"far": far != 0.0, "scored": scored != 0.0}
    return like._replace(y_hat=answer, past=past, width=width, series=series, **flags)
