"""Learn raw rows online: encode and scale them, then call ``core.Learner``.

An input is standardised by the values of its column up to and including its row. A target is
standardised by the targets that were known when its row was predicted. Users call ``partial_fit``,
``predict_one`` and ``learn_one`` with raw rows. A run calls ``learn_rows`` with scaled rows, which
its stream scales once for all seeds.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import itertools
import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl.algorithms.auto_sizes import MEDIUM
from omkl.core import snapshot
from omkl.core.hyperparameters import require_count
from omkl.core.kernels import FAMILIES
from omkl.core.learner import Learner, runs_of
from omkl.core.snapshot import below, named
from omkl.core.weights import normalised
from omkl.datasets.base import DataError
from omkl.datasets.cells import is_blank, word
from omkl.datasets.columns import (
    FEWEST_ROWS,
    NUMBERS,
    Column,
    class_codes,
    columns_described,
    declaration,
    levels_in,
    place_of_word,
    plain_column,
    without_levels,
)
from omkl.datasets.scaling import LevelMeans, Moments, TargetScaler
from omkl.online import model_file
from omkl.online.intervals import AdaptiveIntervals, Ends, LeastTarget, RowWidths
from omkl.online.predictions import (
    PREDICTIONS,
    ROWS,
    SERIES,
    Predictions,
    RecentPredictions,
    RowPrediction,
    joined,
    stacked,
)
from omkl.online.rows import (
    Block,
    Rows,
    columns_in,
    is_frame,
    of_numbers,
    starts_within,
    targets_of,
    with_names,
)
from omkl.online.series import FRESH, TargetSeries
from omkl.online.series_slots import SeriesName, SeriesSlots, checked, factorised, with_series
from omkl.online.settings import (
    LearnerSettings,
    Specification,
    checked_classes,
    input_names,
    specify,
)
from omkl.online.target import TargetLearner
from omkl.utils.disk import write_atomically

if TYPE_CHECKING:
    import pandas as pd

OWN_UNITS, RAW_TARGETS = "in units of series", "of raw targets"
SERIES_CURE = (
    'give the learner a column, omkl.learner("auto", series="shop"), and each row a series'
)
LARGEST = 1e150  # largest input that is scaled: its square is finite
REPLAYED = 1000  # last rows, which are learned again after a new class
LEARNED = "recent.learned"  # name of their array in a file: inputs, and the index of the class
LEAST_WEIGHT = 0.001  # ``experts`` lists the experts with a larger weight


class OnlineLearner:
    """Online learner of d inputs. Use ``omkl.learner`` to make one.

    ``predict_one(x)`` learns nothing, and ``learn_one(x, y)`` learns a row. A target may arrive
    right after its prediction, or later and in any order.

    A row x is an array or a list (d,), or a mapping by name if inputs have names. Rows X are an
    array (n, d), a list of rows, or a data frame. An input that is NaN, None or absent from a
    mapping is replaced by the mean of its column so far. Names that are not inputs are ignored with
    one warning. Texts, categories and dates in rows by name become numbers as in a file
    (``omkl.columns``). The first rows decide the encoding. If ``inputs`` is not given, they also
    decide which columns are inputs.

    Attributes
    ----------
    settings    settings of the learner
    inputs      names (d,) of the inputs; () before the first row
    columns     encoding of each column as inputs (``omkl.datasets.columns.Column``); () if all
                columns are numbers
    left_out    names of the columns that are not inputs
    classes     classes of a classification, () for a regression. A target of a new class adds the
                class, with a warning: a new learner of all classes learns the last 1,000 rows
                again. Earlier rows, and predictions that await their targets, are forgotten
    outputs     names or positions of the targets of a row, () for a single target. With m outputs a
                target is an array y (m,) or a mapping by name. A prediction is an array (m,), or a
                mapping if the outputs have names. Predictions of n rows are arrays (n, m). An
                output learns nothing from None or NaN
    n_rows      number of rows learned
    new_categories   for each column, the categories that did not occur in the first rows, with the
                number of learned rows that had them
    asks        whether the learner requests the target of the row that was predicted last. Always
                True, except for active-learning algorithms
    spread      expected standard deviation of the error of the last prediction; NaN if unknown. For
                ``auto`` with ``interval=`` the standard deviation depends on the row
    interval    ends of the interval of the last prediction; NaN before the first error is learned,
                and for a learner without ``interval=``
    probabilities   probability of each class at the last prediction, in the order of ``classes``;
                    () if the algorithm does not predict probabilities

    Parameters
    ----------
    settings, columns, left_out
        Values of the attributes with these names.
    threads
        Threads of an exact-kernel learner; other learners use one.
    delay
        ``learn_rows`` learns a target after this many later rows are predicted.
    declared
        Kind of a column by name, as in ``columns=`` of ``omkl.learner``.
    """

    def __init__(
        self,
        settings: LearnerSettings,
        columns: Sequence[Column] = (),
        left_out: Sequence[str] = (),
        threads: int = 1,
        delay: int = 0,
        declared: Mapping[str, str] | None = None,
    ) -> None:
        self._declared = dict(declared or {})
        for name, kind in self._declared.items():
            declaration(name, kind)
        if self._declared and not settings.named:
            raise ValueError(
                "columns= declares columns by name: name the inputs, or leave them out"
            )
        self.classes, self.outputs = settings.classes, settings.outputs
        self.left_out, self._transform = tuple(left_out), settings.transform
        self.new_categories: dict[str, Counter[str]] = {}
        self._threads, self._delay = threads, delay
        self._recent = RecentPredictions(settings.max_pending)
        # The last rows of a classification, each with the place of its class.
        self._learned: collections.deque[np.ndarray] = collections.deque(maxlen=REPLAYED)
        self._prediction: RowPrediction | None = None  # of the last predict_one
        # The last prediction, its standardised row, and the inputs of each target's core learners.
        # ``learn_one`` reuses them for the same row. They are valid until something is learned.
        self._last: tuple[RowPrediction | None, Any, list[Any]] = None, None, []
        # Rows, predictions, targets and slots that ``learn_rows`` learns after the delay.
        self.waiting: collections.deque[tuple[np.ndarray, RowPrediction, Any, int]]
        self.waiting = collections.deque()
        # Rows and targets that ``partial_fit`` will learn after the delay, by series.
        self._late: dict[SeriesName | None, collections.deque[tuple[np.ndarray, float]]] = {}
        self.waits_for_inputs = settings.named and not columns  # until the first rows decide them
        self._slots: SeriesSlots | None = None
        if settings.series is not None:
            self._slots = SeriesSlots(settings.max_series, FRESH + 1, self._allocate)
        self._make(settings, columns)

    def _allocate(self, slots: Sequence[int]) -> None:
        if self._units:
            self._units.allocate(slots)

    def _make(self, settings: LearnerSettings, columns: Sequence[Column]) -> None:
        """Build the core learners if the inputs are known."""
        self.settings, self.inputs, self.columns = settings, settings.inputs, tuple(columns)
        self._table = Rows(self.inputs, settings.named, self.columns, self.left_out)
        self._moments = None
        self.specification = settings.specification().of_classes(len(self.classes))
        self.algorithm = self.specification.algorithm
        columns_scaled = settings.scaling == "columns"
        # Whether the targets known at prediction define the unit in which a target is learned.
        self.moves = columns_scaled and not (self.classes or self.algorithm.equivariant)
        reads_uncut = self.algorithm.reads_uncut or self.algorithm.standardises
        self.softens = columns_scaled and not reads_uncut
        self._targets: list[TargetLearner] = []
        if not self.inputs:
            return
        self._moments = Moments(len(self.inputs)) if columns_scaled else None
        self._levels = levels_in(self.inputs)
        # Learners that standardise inputs themselves read raw rows, with levels. Codes of three or
        # more classes have no mean.
        reads_levels = self.algorithm.standardises and len(self.classes) <= 2
        self._unread = self._levels[: 0 if reads_levels else None]
        drawn: Learner | None = None
        for _ in self.outputs or (None,):
            learners = []
            for _ in range(self.specification.n_learners(len(self.classes))):
                learners.append(self._core_learner(drawn))
                drawn = drawn or learners[0]
            around, intervals, has_series = settings.intervals, None, self._slots is not None
            if around:
                # With online scaling the first error has no unit, unless series have units.
                intervals = AdaptiveIntervals(around, late=columns_scaled and not has_series)
            scaler = TargetScaler(settings.lags, columns_scaled)
            has_levels = len(self._levels) > len(self._unread)
            levels = LevelMeans(self._levels) if has_levels else None
            widths = least = None
            if around and settings.algorithm == "auto":
                widths = self._new_widths(learners[0].d)
                if self._transform is None:
                    least = LeastTarget(np.zeros(1, dtype=np.int64), np.full(1, np.inf))
            series = self._target_series(intervals) if settings.has_seasons else None
            parts = learners, scaler, levels, intervals, widths, least, series
            self._targets.append(TargetLearner(*parts, self.moves, self.softens))
        self._settle()

    def _target_series(self, intervals: AdaptiveIntervals | None) -> TargetSeries:
        made = self.specification.learner
        make = functools.partial(made, seed=self.settings.seed, threads=self._threads)
        n_slots = 0 if self._slots is None else FRESH + 1
        settings = self.settings
        make_widths = self._new_widths if intervals else None
        return TargetSeries(
            make, self.inputs, settings.seasons, n_slots, intervals, settings.late, make_widths
        )

    def _new_widths(self, n_inputs: int) -> RowWidths:
        """Return learned widths that have learned no row."""
        around = self.settings.intervals
        assert around
        small = specify("auto", {"size": "small"}, self.specification.dictionary, 1, None)
        return RowWidths(around, small.learner(n_inputs, self.settings.seed))

    def _settle(self) -> None:
        """Remove the parts that ``TargetLearner.drops_widths`` finds no longer needed.

        If it removes the learned widths, also remove those of stored predictions.
        """
        if self._targets[0].drops_widths():
            self._recent.forget_widths()

    def _core_learner(self, drawn: Learner | None) -> Learner:
        """Return a new core learner. It shares the random features of ``drawn`` if possible."""
        share = self.algorithm.representation.with_zero_weights
        model = share(drawn.state.model) if drawn and share else None
        n_inputs = len(self.inputs) + self.settings.lags
        return self._of_raw_targets.learner(n_inputs, self.settings.seed, self._threads, model)

    @property
    def _of_raw_targets(self) -> Specification:
        """Specification of the core learners of raw targets.

        With series or seasons ``auto`` also learns in units of the series. The learner of raw
        targets then has at most the size "medium", to save time per row.
        """
        made, settings = self.specification, self.settings
        if not settings.has_seasons or (settings.series is None and not settings.seasons):
            return made
        return made._replace(params=made.params._replace(size=min(made.params.size, MEDIUM)))

    def _begin(self, first: Any) -> None:
        """Decide inputs and encodings from the first row, or from the first block of rows.

        If ValueError is raised, the next rows can still decide them.
        """
        first = with_names(first)
        by_name = is_frame(first) or isinstance(first, Mapping)
        if not by_name and isinstance(first, Sequence) and len(first):
            by_name = all(isinstance(row, Mapping) for row in first)
        given = self.settings.inputs
        if self._declared and not by_name:
            raise ValueError("columns= declares columns by name, and the first row has no names")
        if by_name and given and not self._declared and of_numbers(first):
            self.waits_for_inputs = False
            return
        if by_name:
            columns = columns_in(first, given or None, self._declared)
            if given:
                there = {column.name: column for column in columns}
                columns = [there.get(name) or plain_column(name) for name in given]
            self.left_out = tuple(column.name for column in columns if not column.inputs)
            why = [
                f"{column.name}: {column.why}"
                for column in columns
                if not (column.inputs or column.name in self._declared)
            ]
            columns = [column for column in columns if column.inputs]
            inputs = tuple(name for column in columns for name in column.inputs)
            if not inputs:
                raise ValueError("no column is left as an input: omkl.columns(frame) says why")
            n = 1 if isinstance(first, Mapping) else len(first)
            if why and n < FEWEST_ROWS:  # later rows may have values
                warnings.warn(
                    f"left out of the inputs, in later rows too ({'; '.join(why)}): name the "
                    "inputs with inputs=, or let more rows come first",
                    stacklevel=3,
                )
            if given and all(column.recipe == NUMBERS for column in columns):
                columns = []
        elif given:
            self.waits_for_inputs = False
            return
        else:
            row = np.shape(first)
            if not row or not row[-1]:
                raise ValueError(
                    f"the first row is x (d,), or X (n, d), or by name; got {type(first).__name__}"
                )
            columns, inputs = [], input_names(int(row[-1]))
            Rows(inputs, False).many(first if len(row) > 1 else [first])  # refuse text
        settings = dataclasses.replace(self.settings, inputs=inputs, named=by_name)
        self._make(settings, columns)  # checks again: bandwidths may depend on the number of inputs
        self.waits_for_inputs = False

    def __repr__(self) -> str:
        task = f"{len(self.classes)} classes" if self.classes else "regression"
        task = f"{len(self.outputs)} outputs" if self.outputs else task
        inputs = f"{len(self.inputs)} inputs" if self.inputs else "inputs of the first row"
        return f"OnlineLearner({self.settings.algorithm!r}, {inputs}, {task}, {self.n_rows} rows)"

    @property
    def asks(self) -> bool:
        return self._prediction is not None and self._prediction.asked

    @property
    def spread(self) -> Any:
        if self._prediction is None:
            return math.nan
        if self._transform is None:
            return self._prediction.spread
        return self._transform.spread(self._prediction.y_hat, self._prediction.spread)

    @property
    def interval(self) -> tuple[Any, Any]:
        if self._prediction is None or self.classes:
            return math.nan, math.nan
        return self._in_unit(self._prediction.low), self._in_unit(self._prediction.high)

    @property
    def probabilities(self) -> tuple[float, ...]:
        if self._prediction is None or not self.algorithm.probabilities:
            return ()
        return tuple(probabilities_of(np.array([self._prediction.y_hat]))[0].tolist())

    def numbers_of(self, X: Any) -> np.ndarray:
        """Return the inputs (n, d) of the rows X as numbers, not yet scaled.

        The first rows decide the inputs. Raises ValueError naming an invalid row or number.
        """
        if self.waits_for_inputs:
            self._begin(X)
        return self._read(X)

    @property
    def n_rows(self) -> int:
        """Number of rows learned; with several outputs, the largest number over the outputs."""
        return max((target.learners[0].t for target in self._targets), default=0)

    def predict_one(self, x: Any, series: SeriesName | None = None) -> Any:
        """Predict the target of the row x, a number or a class. Nothing is learned.

        The prediction is stored until ``learn_one`` is called with the same row. Until the next
        prediction ``asks``, ``spread``, ``interval`` and ``probabilities`` describe this one. If
        the learner was made without ``inputs``, the first row decides the inputs. ``series`` is the
        name of the row's series; None: the row contains the name in the column of series.
        """
        x, name = self._row_with_series(x, series)
        if self.waits_for_inputs:
            self._begin(x)
        row = self._numbers(x)
        prediction = self._prediction = self._predict_row(row, self._slot_of(name))
        self._recent.add(row, prediction, name)
        if self.classes:
            return self.classes[_codes_of(np.array([prediction.y_hat]))[0]]
        if self.outputs and isinstance(self.outputs[0], str):
            return dict(zip(self.outputs, self._in_unit(prediction.y_hat).tolist(), strict=True))
        return self._in_unit(prediction.y_hat)

    def _predict_row(self, row: np.ndarray, slot: int = FRESH) -> RowPrediction:
        """Predict a row of numbers (d,). Raises FloatingPointError for an infinite result."""
        z, far = self._standardised_row(row, learns=False)
        prediction = self._predict_scaled(z, far, slot)
        if type(prediction.y_hat) is not float or not math.isfinite(prediction.y_hat):
            self.require_finite(np.array(prediction.y_hat))
        return prediction

    def learn_one(self, x: Any, y: Any = None, series: SeriesName | None = None) -> None:
        """Learn the target of a row.

        ``predict_one`` may have predicted the row earlier, with other rows in between. The row is
        then learned with the past targets that its prediction used, and intervals learn from the
        error of this prediction. If several equal rows were predicted, the earliest of them is
        learned first. The learner stores the last ``max_pending`` predictions.

        Parameters
        ----------
        x
            Row, as in ``predict_one``.
        y
            Target: a number, or a class. NaN or None: only the scaling of inputs is updated. If
            ``asks`` is False, the target is ignored.
        series
            Name of the row's series; None: ``x`` contains the name in the column of series.

        Raises
        ------
        ValueError
            The row, target or series is invalid. Nothing is learned then.
        """
        added: tuple[Any, ...] = ()
        if self.classes:
            labels, added = self._labels_and_new([y])
            label = float(labels[0])
        else:
            label = self._label(y)
        x, name = self._row_with_series(x, series)
        if self.waits_for_inputs:
            self._begin(x)
        new: dict[str, Counter[str]] = {}
        row = self._numbers(x, new)
        if added:
            self._checked(row[None, :])
            self._add_class(added[0])
        self._learn_row(row, label, name)
        self._count(new)

    def _numbers(self, x: Any, new: dict[str, Counter[str]] | None = None) -> np.ndarray:
        """Return the row x as numbers (d,), and count new categories in ``new``, by column.

        Raises DataError naming an invalid cell.
        """
        try:
            return without_levels(self._table.one(x, new), self._unread)
        except DataError as error:
            raise DataError(f"row {self.n_rows + 1}: {error}") from None

    def _count(self, new: Mapping[str, Counter[str]]) -> None:
        """Add counts of categories in learned rows to ``new_categories``."""
        for column, words in new.items():
            self.new_categories.setdefault(column, Counter()).update(words)

    def _learn_row(
        self, row: np.ndarray, label: Any, name: SeriesName | None = None
    ) -> RowPrediction:
        """Learn a row of numbers (d,), and return its prediction."""
        slot, prediction = self._slot_of(name, begins=True), self._recent.take(row, name)
        prediction = prediction or self._predict_row(row, slot)
        last, z, _ = self._last
        if prediction is not last:
            z, _ = self._standardised_row(row, learns=True)
        elif self._moments:
            self._moments.take_row_ahead()
        self._learn_scaled(z, label, prediction, slot)
        if self.classes and not math.isnan(label):
            self._learned.append(np.append(row, self._places(label)))
        return prediction

    def partial_fit(self, X: Any, y: Any, series: Any = None, dates: Any = None) -> Predictions:
        """Predict and learn the rows X with the targets y (n,), row by row.

        Results do not depend on how rows are split between calls. A row with the target NaN or None
        is predicted and not learned. A row that ``predict_one`` has predicted is learned as by
        ``learn_one``.

        Parameters
        ----------
        X, y
            Rows and targets.
        series
            Series (n,) of each row; None: X has a column of series.
        dates
            Dates (n,), of any type. Consecutive rows of one date are all predicted before any of
            them is learned. If a date is split between two calls, each part counts as a date. None:
            the column of dates in X. Without such a column, or if ``series_delay`` is 0, each row
            is learned before the next is predicted.

        Returns
        -------
        Predictions
            Prediction of each row, made before its target was learned.

        Raises
        ------
        ValueError
            A row, target or series is invalid. Nothing is learned then.
        """
        labels, added = self._labels_and_new(y)
        X, codes, names = self._rows_with_series(X, series)
        if len(labels) != len(X) or (codes is not None and len(codes) != len(X)):
            raise ValueError(f"{len(X)} rows X and {len(labels)} labels y")
        if self.waits_for_inputs:
            self._begin(X)
        new: dict[str, Counter[str]] = {}
        rows = self._read(X, new)
        groups = self._groups(rows, dates)
        self._count(new)
        if added:
            return self._fit_new_classes(rows, labels, added)
        return self._fit(rows, labels, codes, names, groups)

    def _fit_new_classes(
        self, rows: np.ndarray, labels: np.ndarray, added: Sequence[Any]
    ) -> Predictions:
        """Predict and learn numeric rows (n, d), some of which have new classes.

        ``labels`` (n,) are indices of the present classes followed by the new classes ``added``. A
        new class is added after its first row is predicted, and before this row is learned.
        """
        starts = [int(np.argmax(labels == len(self.classes) + k)) for k in range(len(added))]
        codes = 2.0 * labels - 1.0 if len(self.classes) == 2 else labels
        found = [self._fit(rows[: starts[0]], codes[: starts[0]])]
        for first, stop, name in zip(starts, [*starts[1:], len(rows)], added, strict=True):
            before = self._answers(stacked([self._predict_row(rows[first])], labels[:1]).y_hat)
            self._add_class(name)
            found.append(self._fit(rows[first:stop], labels[first:stop]))
            found[-1].y_hat[0] = before[0]  # the class was new when this row was predicted
        return joined(found)

    def _fit(
        self,
        rows: np.ndarray,
        labels: np.ndarray,
        codes: np.ndarray | None = None,
        names: Sequence[SeriesName] = (),
        starts: np.ndarray | None = None,
    ) -> Predictions:
        """Predict and learn numeric rows (n, d) with targets or class codes ``labels`` (n,).

        Rows with series also have ``codes`` (n,), the index of each row's series in ``names``, and
        ``starts``, the groups of rows as in ``learn_rows``.
        """
        series = [None] * len(rows) if codes is None else [names[code] for code in codes]
        if self._delay and starts is not None:
            found = self._fit_late(rows, labels.tolist(), series, starts.tolist())
        elif len(rows) == 1 or (len(self._recent) and any(map(self._recent.has, rows, series))):
            of_rows = labels if self.outputs else labels.tolist()
            found = stacked(list(map(self._learn_row, rows, of_rows, series)), labels)
        elif self._slots is None or codes is None or starts is None:
            standardised, far = self._standardised(rows, learns=True)
            found = self.learn_rows(standardised, labels, far)
            if self.classes:
                self._remember(rows, labels)
        else:
            parts = []
            for part, slots in self._slots.spans(codes, names):
                cut = starts_within(starts, part)
                learned, ahead, far = self._standardised_groups(rows[part], cut)
                block = learned, labels[part], far, ahead
                parts.append(self.learn_rows(*block, slots=slots, starts=cut))
            found = joined(parts)
        self.require_finite(found.y_hat)
        if self.classes:
            return found._replace(y_hat=self._answers(found.y_hat))
        if self._transform is None:
            return found
        y_hat, low, high = map(self._in_unit, (found.y_hat, found.low, found.high))
        spread = self._transform.spread(found.y_hat, found.spread)
        return Predictions(y_hat, found.asked, spread, low, high)

    def _fit_late(
        self,
        rows: np.ndarray,
        labels: Sequence[float],
        series: Sequence[SeriesName | None],
        starts: Sequence[int],
    ) -> Predictions:
        """Predict and learn rows group by group: predict a group, then learn the rows that are due.

        A row is due when ``delay`` further rows of its series have been predicted.
        """
        found: list[RowPrediction] = []
        for first, stop in itertools.pairwise(starts):
            due = []
            for k in range(first, stop):
                found.append(self._predict_row(rows[k], self._slot_of(series[k])))
                self._recent.limit = max(self._recent.limit, len(self._recent) + 1)
                self._recent.add(rows[k], found[-1], series[k])
                waiting = self._late.setdefault(series[k], collections.deque())
                waiting.append((rows[k].copy(), labels[k]))
                if len(waiting) > self._delay:
                    due.append((*waiting.popleft(), series[k]))
            for row in due:
                self._learn_row(*row)
        return stacked(found, np.array(labels))

    def _in_unit(self, z: Any) -> Any:
        """Return predictions, or ends of intervals, in the unit of the targets."""
        if self._transform is None:
            return z
        return self._transform.inverse(z) if np.ndim(z) else float(self._transform.inverse(z))

    def _remember(self, rows: np.ndarray, labels: np.ndarray) -> None:
        """Store the last rows (n, d) with a known class, which ``_add_class`` learns again."""
        known = np.flatnonzero(~np.isnan(labels))[-REPLAYED:]
        self._learned.extend(np.column_stack([rows[known], self._places(labels[known])]))

    def _places(self, labels: Any) -> Any:
        """Return the index in ``classes`` of each code. Codes of two classes are -1 and 1."""
        return (labels + 1.0) / 2.0 if len(self.classes) == 2 else labels

    def _add_class(self, name: Any) -> None:
        """Add a class: new core learners of all classes learn the last rows again.

        Raises ValueError if the settings allow no further class.
        """
        made = dataclasses.replace(self.settings, classes=(*self.classes, name))
        made.specification()
        warnings.warn(
            f"{name!r} is a new class: a learner of {len(made.classes)} classes learns the last "
            f"{len(self._learned):,} rows again and forgets the rows before",
            stacklevel=3,
        )
        self.classes, self._prediction, self._last = made.classes, None, (None, None, [])
        self._recent = RecentPredictions(made.max_pending)
        self._make(made, self.columns)
        if self._learned:
            rows, last = np.stack(self._learned), self._learned.copy()
            self._fit(rows[:, :-1], rows[:, -1])
            self._learned = last

    def predict(self, X: Any, return_std: bool = False, series: Any = None) -> Any:
        """Return the prediction (n,) of each row, as if this row came next. Nothing changes.

        Parameters
        ----------
        X
            Rows: an array (n, d) or a data frame. They do not decide the learner's inputs.
        return_std
            Whether to also return the expected standard deviations (n,), NaN if unknown.
        series
            Series (n,) of each row; None: X has a column of series.

        Raises
        ------
        ValueError
            A row is invalid, or ``return_std`` is True and the algorithm has no standard deviation.
        """
        if return_std and not self.algorithm.has_spread:
            name = self.settings.algorithm
            raise ValueError(f"{name} predicts no standard deviation; auto does")
        y_hat, ends = self._predicted(X, with_ends=return_std, series=series)
        answers = self._answers(y_hat) if self.classes else y_hat
        return (answers, ends.spread) if return_std else answers

    def predict_interval(self, X: Any, series: Any = None) -> np.ndarray:
        """Return the ends (n, 2) of the interval of each row of X, as if this row came next.

        Nothing changes. With m outputs the result is (n, m, 2). Rows with inputs that are
        ``far_out`` have wider intervals. ``series`` is as in ``predict``. Raises ValueError unless
        the learner was made with ``interval=``.
        """
        if self.settings.interval is None:
            raise ValueError("there are no intervals: make the learner with interval=0.9, say")
        _, ends = self._predicted(X, with_ends=True, series=series)
        return np.stack([ends.low, ends.high], axis=-1)

    def far_out(self, X: Any) -> np.ndarray:
        """Return a mask (n, d) of the inputs that are more than 4 deviations from their mean.

        Mean and deviation are those of the learned rows together with the row itself. Nothing is
        learned. If more than half of the values of a column are the same number, only the other
        values define the deviation. Raises ValueError if the learner does not scale its inputs.
        """
        if self.settings.scaling != "columns":
            raise ValueError(
                f"means of columns are not known with scaling={self.settings.scaling}: make the "
                "learner with scaling=columns"
            )
        look = self._looking_at(X)
        assert look._moments is not None
        return look._moments.standardised_each(look._read(X)).far

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities (n, K) of the K ``classes`` for each row of X.

        Nothing is learned.

        Raises ValueError if the algorithm has no probabilities.
        """
        if not self.algorithm.probabilities:
            raise ValueError(
                f"{self.settings.algorithm} predicts no probabilities; auto does, for classes"
            )
        return probabilities_of(self._predicted(X)[0])

    @property
    def expert_names(self) -> tuple[str, ...]:
        """Names of the kernels, or of the experts of ``auto`` and the baselines.

        Before the first row the names are those of a learner with one input.
        """
        made = self._of_raw_targets
        n_inputs = len(self.inputs) + self.settings.lags if self.inputs else 1
        kernels = made.algorithm.kernels(made.params, made.dictionary, n_inputs)
        families = [kernel.family for kernel in kernels]
        return tuple(
            f"{family}({number:g})" if family in FAMILIES or families.count(family) > 1 else family
            for family, number, _ in kernels
        )

    @property
    def weights(self) -> pd.Series | pd.DataFrame:
        """Weight of each kernel or expert by name; the weights sum to 1.

        With several outputs the result is a data frame with a column per output. With more than two
        classes that are each learned against the rest, it is a data frame with a column per class.
        """
        return self._by_expert([normalised(one.state.log_w) for one in self.learners], "weight")

    @property
    def importance(self) -> pd.Series | pd.DataFrame:
        """Importance of each input by name, for ``auto`` and ``auto_classifier``; the sum is 1.

        ``auto`` contains boosted trees. The gain of an input is the amount by which the cuts of the
        trees at this input reduced the errors on the last rows. The importance of an input is its
        share in the sum of all gains. The last entry is the share of all past targets. All shares
        are NaN until the first trees exist, after 500 rows. Irrelevant inputs have small positive
        shares. With several outputs the result is a data frame with a column per output. Raises
        ValueError if the learner has no trees.
        """
        self._require_inputs()
        found = [self._importance_of(target.learners[0]) for target in self._targets]
        if not len(found[0]):
            raise ValueError(
                f"{self.settings.algorithm} does not measure the importance of inputs: auto does"
            )
        return self._by_name(found, "importance", [*self.inputs, "past targets"], "input")

    def explain(self, x: Any, n_orders: int = 8) -> pd.Series | pd.DataFrame:
        """Return the contribution of each input to the prediction of the row x.

        The contributions are estimates of Shapley values. First all inputs have their means. Then
        the inputs take their values in x one after another, in a random order. The contribution of
        an input is the mean change of the prediction at its step, over ``n_orders`` random orders
        and their reverses. All inputs that encode one column change in the same step. Nothing is
        learned. ``importance`` measures inputs over all rows.

        Parameters
        ----------
        x
            Row, as in ``predict_one``.
        n_orders
            Number of random orders, >= 1. The cost is ``2 * n_orders * (d + 1)`` predictions, 176
            for 10 inputs.

        Returns
        -------
        pandas.Series or pandas.DataFrame
            Contributions by input in the unit of the target. The last entry, "base", is the
            prediction for a row of means, which includes the effect of past targets. The sum of all
            entries is the prediction. With several outputs the result is a data frame with a column
            per output. In a classification it has a column per class, with the contributions to the
            probability of the class, or to its score if the algorithm has no probabilities.

        Raises
        ------
        ValueError
            The learner does not scale its inputs, so their means are unknown.
        """
        if self.settings.scaling != "columns":
            raise ValueError("explain replaces inputs by their means: it needs scaling='columns'")
        require_count("n_orders", n_orders)
        look, z, slot = self._looking_at_row(x)
        means, _ = look._standardised(np.full(z.shape, np.nan), learns=False)
        columns = {column.name: column.inputs for column in look.columns}
        columns = columns or {own: (own,) for own in look.inputs}
        groups = [[look.inputs.index(own) for own in inputs] for inputs in columns.values()]
        predict = functools.partial(look._predicted_scaled, slot=slot)
        found = _contributions(predict, z[0], means[0], groups, n_orders, self.settings.seed)
        parts = [found] if found.ndim == 1 else list(found.T)
        return look._by_name(parts, "contribution", [*columns, "base"], "input")

    def _predicted_scaled(self, Z: np.ndarray, slot: int) -> np.ndarray:
        """Return the predictions (n,) of standardised rows (n, d).

        With m outputs or m classes the result is (n, m).
        """
        slots = np.full(len(Z), slot)
        found = [target.predict(Z, slots)[0] for target in self._targets]
        y_hat = np.stack(found, axis=1) if self.outputs else found[0]
        return probabilities_of(y_hat) if self.algorithm.probabilities else self._in_unit(y_hat)

    def experts(self, x: Any) -> pd.DataFrame:
        """Return prediction and weight of each kernel or expert with a weight above 0.001.

        Nothing changes. ``weights`` returns the weights of all kernels or experts.

        Parameters
        ----------
        x
            Row, as in ``predict_one``.

        Returns
        -------
        pandas.DataFrame
            One row per kernel or expert, with the columns ``prediction`` and ``weight``. A
            prediction is in the unit of the target. It is NaN if the next round would not evaluate
            the kernel. With two classes a prediction lies between -1 for the first and 1 for the
            second class. If one learner learns three or more classes (``auto``), a prediction is
            the probability of the class that the expert finds most likely.

            If each class is learned against the rest, the columns are (class, "prediction") and
            (class, "weight"). With several outputs they are (output, "prediction") and (output,
            "weight"). In both cases a row is listed if at least one of its weights exceeds 0.001.
        """
        import pandas as pd

        look, z, _ = self._looking_at_row(x)
        outputs = [look._in_unit(f) for target in look._targets for f in target.outputs(z)]
        predictions, weights = look._by_expert(outputs, "prediction"), look.weights
        parts = {"prediction": predictions, "weight": weights}
        if len(outputs) == 1:
            return pd.DataFrame(parts)[weights > LEAST_WEIGHT]
        used = (weights > LEAST_WEIGHT).any(axis=1)
        return pd.concat(parts, axis=1).swaplevel(axis=1).sort_index(axis=1)[used]

    @property
    def learners(self) -> list[Learner]:
        """Core learners: one in total, or one per output, or one per class against the rest."""
        self._require_inputs()
        return [learner for target in self._targets for learner in target.learners]

    def _require_inputs(self) -> None:
        if not self.inputs:
            raise RuntimeError("the learner has seen no row: it does not know its inputs yet")

    def _by_expert(self, values: Sequence[np.ndarray], name: str) -> Any:
        """Return arrays (N,), one per core learner, as a Series or a data frame by expert."""
        return self._by_name(values, name, self.expert_names, "expert")

    def _by_name(
        self, values: Sequence[np.ndarray], name: str, names: Sequence[str], of: str
    ) -> Any:
        import pandas as pd

        index = pd.Index(names, name=of)
        if len(values) == 1:
            return pd.Series(values[0], index=index, name=name)
        columns = self.outputs or self.classes
        return pd.DataFrame(dict(zip(columns, values, strict=True)), index=index)

    def save(self, path: str | Path) -> None:
        """Write the learner to a file, which ``omkl.load_learner`` reads.

        The file includes the predictions that await their targets.
        """
        write_atomically(Path(path).expanduser(), self.file())

    def file(self, columns: Any = None) -> bytes:
        """Return the bytes of the file that ``save`` writes.

        ``columns`` are the encodings to write; None: those of the learner.
        """
        if not self.inputs:
            raise RuntimeError("it has seen no row and does not know its inputs: nothing to save")
        columns = columns or self.columns_of_rows()
        arrays = self.arrays() | self._recent.arrays()
        if self._learned:
            arrays[LEARNED] = np.stack(self._learned)
        settings = dataclasses.replace(self.settings, max_pending=self._recent.limit)
        return model_file.content(settings, arrays, columns)

    def columns_of_rows(self) -> dict[str, Any] | None:
        """Return the encodings of columns as in a model file; None if all columns are numbers."""
        if not self.columns:
            return None
        of_rows = [dataclasses.asdict(column) for column in self.columns]
        left_out = list(self.left_out)
        return {"reading": {}, "target": None, "columns": of_rows, "left_out": left_out}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return copies of all arrays of the learned state by name. ``restore`` reads them."""
        found: dict[str, np.ndarray] = {}
        for m, target in enumerate(self._targets):
            head = f"output.{m}." if self.outputs else ""
            found |= named(head, target.arrays(self._slots_in_use))
        if self._moments:
            found |= named("columns.", self._moments.arrays())
        if self._slots is not None:
            found["names"] = self._slots.array()
        return found

    @property
    def _slots_in_use(self) -> np.ndarray:
        return np.array([FRESH]) if self._slots is None else self._slots.slots

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        """Restore the ``arrays`` of a learner with the same settings into a new learner.

        Raises ``snapshot.Mismatch`` if the arrays do not fit. The new learner is then unusable.
        """
        self.waits_for_inputs = False
        if self._slots is not None:
            self._slots.restore(kept["names"])
        if self._units:
            self._units.restore(below("series.", kept), self._slots_in_use)
            self._settle()
        names = (n for n in self.arrays() if not n.startswith("series."))
        snapshot.require_names(names, (n for n in kept if not n.startswith("series.")))
        for m, target in enumerate(self._targets):
            target.restore(below(f"output.{m}.", kept) if self.outputs else kept)
        if self._moments:
            self._moments.restore(below("columns.", kept))

    def _restore_recent(self, kept: Mapping[str, np.ndarray]) -> None:
        """Restore stored predictions from a model file. Raises ValueError for a wrong shape."""
        d = len(self.inputs)
        self._recent.restore(kept, self._predict_scaled(np.zeros(d)), d)

    def _restore_learned(self, rows: np.ndarray) -> None:
        """Restore the last learned rows from a model file. Raises ValueError if they do not fit."""
        if rows.ndim != 2 or rows.shape[1] != len(self.inputs) + 1 or rows.dtype != np.float64:
            raise ValueError("its last rows do not fit its settings")
        if not np.isin(rows[:, -1], np.arange(len(self.classes))).all():
            raise ValueError("its last rows have classes that its settings do not list")
        self._learned.extend(self._checked(rows))

    # --- Series -----------------------------------------------------------------------------------

    @property
    def series(self) -> tuple[SeriesName, ...]:
        """Series in memory. With ``max_series`` the first of them is the next to be replaced."""
        return () if self._slots is None else self._slots.names

    @property
    def seasons(self) -> tuple[int, ...]:
        """Length, in rows, of each season that was given or found; () without a season."""
        return self._units.seasons if self._units else ()

    @property
    def _units(self) -> TargetSeries | None:
        """Part that predicts in units of series and searches for seasons, or None."""
        return self._targets[0].series if self._targets else None

    @property
    def bytes_per_series(self) -> int:
        """Bytes that a series takes in the arrays.

        The arrays can have room for up to twice the number of series in memory. The bytes of this
        spare room are not included.
        """
        self._require_inputs()
        return self._units.bytes_per_series if self._slots is not None and self._units else 0

    @property
    def mixture(self) -> pd.Series:
        """Weight of each candidate in the mixture of a learner with series or seasons.

        The candidates are a learner of targets scaled by their series, a learner of unscaled
        targets, the last target of the series, and, for each season, the target one season ago.
        """
        import pandas as pd

        names, weights = [RAW_TARGETS], np.ones(1)
        if self._units and self._units.learner:
            seasonal = [f"value {m} rows ago" for m in self.seasons]
            names = [OWN_UNITS, RAW_TARGETS, "last value", *seasonal]
            weights = self._units.state.regrets.w
        return pd.Series(weights, index=pd.Index(names, name="prediction"), name="weight")

    def forget(self, series: SeriesName) -> None:
        """Forget a series. Its next row counts as its first. Raises KeyError if it is unknown."""
        if self._slots is None:
            raise KeyError(series)
        self._slots.forget(series)

    def _rows_with_series(
        self, X: Any, series: Any
    ) -> tuple[Any, np.ndarray | None, list[SeriesName]]:
        """Return X without its column of series, codes (n,) of the series, and their names.

        ``names[codes[k]]`` is the series of row k. If the learner has no series, ``codes`` is None.
        """
        if self._slots is None:
            self._refuse_series(series)
            return X, None, []
        X, series = with_series(X, self.settings.series, series, SERIES_CURE)
        return X, *factorised(series)

    def _row_with_series(self, x: Any, series: Any) -> tuple[Any, SeriesName | None]:
        """Return a row without its column of series, and its series."""
        if self._slots is None:
            self._refuse_series(series)
            return x, None
        given = None if series is None else [series]
        (x,), (name,) = with_series([with_names(x)], self.settings.series, given, SERIES_CURE)
        return x, checked(name)

    def _refuse_series(self, series: Any) -> None:
        if series is not None:
            raise ValueError(f"the learner has no series: {SERIES_CURE}")

    def _slot_of(self, name: SeriesName | None, begins: bool = False) -> int:
        """Return the slot of a series, its index in the arrays of the state.

        If ``begins`` is True, an unknown series gets a new slot. Otherwise return FRESH, the slot
        with the state of a series that has learned no row yet.
        """
        if self._slots is None or name is None:
            return FRESH
        if begins:
            ((_, slots),) = self._slots.spans(np.zeros(1, dtype=np.int64), [name])
            return int(slots[0])
        return self._slots.slot(name, FRESH)

    def _groups(self, rows: np.ndarray, dates: Any) -> np.ndarray:
        """Return ``Block.starts`` (G + 1,) for n rows. Rows of one date are a group.

        ``dates`` are as in ``partial_fit``.
        """
        n = len(rows)
        if dates is None:
            at = self._date_inputs()
            if not at:
                return np.arange(n + 1)
            dates = rows[:, at]
        elif self._slots is None:
            raise ValueError(
                f"dates= is for rows of several series, and the learner has none: {SERIES_CURE}"
            )
        else:
            import pandas as pd

            dates = pd.factorize(np.asarray(dates))[0][:, None]
        if len(dates) != n:
            raise ValueError(f"{n} rows X and {len(dates)} dates")
        new = np.ones(n + 1, dtype=np.bool_)
        new[1:n] = (dates[1:] != dates[:-1]).any(axis=1)
        return np.flatnonzero(new) if n else np.zeros(1, dtype=np.int64)

    def _date_inputs(self) -> list[int]:
        """Return the indices of the inputs that define the date of a row.

        Return [] if rows are not grouped by date, or if there is not exactly one column of dates.
        """
        dated = [column for column in self.columns if column.kind == "date"]
        if self._slots is None or self.settings.series_delay == 0 or len(dated) != 1:
            return []
        return [self.inputs.index(name) for name in dated[0].inputs]

    def _standardised_groups(
        self, X: np.ndarray, starts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        """Return rows standardised for learning, rows standardised for prediction, and a mask.

        For prediction a row is standardised by the moments of the row itself and of all rows before
        its group. The second result is None if it equals the first. The mask is ``Block.far``.
        """
        if len(starts) == len(X) + 1:
            learned, far = self._standardised(X, learns=True)
            return learned, None, far
        learned, ahead, far = np.empty(X.shape), np.empty(X.shape), np.empty(len(X), dtype=np.bool_)
        for rows, together in runs_of(starts):
            if together:
                ahead[rows], far[rows] = self._standardised(X[rows], learns=False)
                learned[rows], _ = self._standardised(X[rows], learns=True)
            else:
                learned[rows], far[rows] = self._standardised(X[rows], learns=True)
                ahead[rows] = learned[rows]
        return learned, ahead, far

    def _predicted(
        self, X: Any, with_ends: bool = False, series: Any = None
    ) -> tuple[np.ndarray, Ends]:
        """Return predictions and intervals of rows, each row as if it came next.

        Predictions are (n,), or (n, K) for K outputs or classes. If ``with_ends`` is False,
        intervals are not computed, and their ends are NaN.
        """
        X, codes, names = self._rows_with_series(X, series)
        learner = self._looking_at(X)
        rows, far = learner._standardised(learner._read(X), learns=False)
        slots = np.full(len(rows), FRESH)
        if codes is not None:
            slots = np.array([self._slot_of(name) for name in names], dtype=np.int64)[codes]
        found = [target.predict(rows, slots) for target in learner._targets]
        unknown = np.full(len(rows), np.nan)
        ends = [Ends(unknown, unknown, unknown)] * len(found)
        if with_ends:
            parts = zip(learner._targets, found, strict=True)
            ends = [target.ends(rows, *of_target, far, slots) for target, of_target in parts]
        y_hat, whole = found[0][0], ends[0]
        if self.outputs:
            y_hat = np.stack([f for f, _ in found], axis=1)
            whole = Ends(*(np.stack(arrays, axis=1) for arrays in zip(*ends, strict=True)))
        if self._transform:
            low, high, spread = whole
            spread = self._transform.spread(y_hat, spread)
            whole = Ends(self._in_unit(low), self._in_unit(high), spread)
        return self._in_unit(y_hat), whole

    def _looking_at(self, rows: Any) -> OnlineLearner:
        """Return this learner. Before its first row return a copy with the inputs of ``rows``."""
        if not self.waits_for_inputs:
            return self
        look = copy.copy(self)
        look._begin(rows)
        return look

    def _looking_at_row(self, x: Any) -> tuple[OnlineLearner, np.ndarray, int]:
        """Return the result of ``_looking_at``, the standardised row (1, d), and its slot."""
        x, name = self._row_with_series(x, None)
        look = self._looking_at(x)
        row = look._checked(look._numbers(x)[None, :])
        return look, look._standardised(row, learns=False)[0], self._slot_of(name)

    def _read(self, X: Any, new: dict[str, Counter[str]] | None = None) -> np.ndarray:
        return self._checked(without_levels(self._table.many(X, new), self._unread))

    def _checked(self, X: np.ndarray) -> np.ndarray:
        """Return X. Raises ValueError if a number cannot be an input."""
        most = LARGEST if self._moments else np.finfo(float).max
        with np.errstate(invalid="ignore"):
            refused = np.abs(X) > most
        if not (self._moments or self.algorithm.representation.accepts_blanks):
            refused |= np.isnan(X)
        if refused.any():
            s, k = np.argwhere(refused)[0]
            known = np.isfinite(X[s, k])
            raise ValueError(
                f"input {self.inputs[k]} of row {self.n_rows + s + 1} is {X[s, k]}: "
                + (f"beyond {LARGEST:g}; rescale it" if known else "no number")
            )
        return X

    def _standardised_row(self, x: np.ndarray, learns: bool) -> tuple[np.ndarray, bool]:
        """Check and standardise one row (d,), and return whether an input is ``far_out``.

        The numbers equal those of ``_standardised``.
        """
        is_far = False
        if self._moments:
            plain = without_levels(x, self._levels)
            found = self._moments.standardised_row(plain, LARGEST, learns)
            if found is None:
                self._checked(x[None, :])
            else:
                is_far = True in found.far.tolist()
                x = x if self.algorithm.standardises else found.z
        elif not abs(x).max() <= LARGEST:  # NaN too
            self._checked(x[None, :])
        return x, is_far

    def _standardised(self, X: np.ndarray, learns: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return standardised rows (n, d), and a mask (n,) of rows with an input ``far_out``.

        If ``learns`` is True, the moments learn the rows.
        """
        far = np.zeros(len(X), dtype=np.bool_)
        if moments := self._moments:
            plain = without_levels(X, self._levels)
            taken = moments.standardised(plain) if learns else moments.standardised_each(plain)
            X, far = X if self.algorithm.standardises else taken.z, taken.far_rows
        return X, far

    # --- Rows whose inputs are scaled -------------------------------------------------------------

    def learn_rows(
        self,
        X: np.ndarray,
        y: np.ndarray,
        far: np.ndarray | None = None,
        ahead: np.ndarray | None = None,
        *,
        slots: np.ndarray | None = None,
        starts: np.ndarray | None = None,
    ) -> Predictions:
        """Predict and learn scaled rows one by one. Results do not depend on the split into blocks.

        A row without a target is predicted and not learned, and its ``asked`` is False. With a
        ``delay`` such a row waits like any other row.

        Parameters
        ----------
        X
            Rows (n, d) of inputs. The caller has scaled the inputs, unless the algorithm
            standardises them itself. X may have further columns for past targets, (n, d + lags),
            which are ignored.
        y
            Targets (n,), or (n, m) of m outputs; NaN for an unknown target. In a classification
            targets are class codes.
        far
            (n,) bool, whether each row has an input far outside its usual range, so that its
            interval is wider; None: no row has one.
        ahead
            The same rows, each scaled by the moments of the row itself and of the rows learned
            before its prediction. They differ from X if there is a ``delay`` or a group of several
            rows; None: X.
        slots
            Slot (n,) of the series of each row, from ``slots_of``; None: a stream without series.
        starts
            (G + 1,) indices of the first rows of the G groups, then n. All rows of a group are
            predicted before any of them is learned. None: each row is a group.

        Returns
        -------
        Predictions
            Predictions (n,), or (n, m) of m outputs. A classification returns scores.
        """
        block = Block(
            X,
            X if ahead is None else ahead,
            y,
            np.zeros(len(y), dtype=np.bool_) if far is None else far,
            np.full(len(y), FRESH) if slots is None else slots,
            np.arange(len(y) + 1) if starts is None else starts,
        )
        self._last = None, None, []
        # The units and lags of a learner that requests targets follow from the requested targets.
        if self._delay or (self.algorithm.queries and (self.moves or self.settings.lags)):
            return self._row_by_row(block)
        if self.outputs:
            found = [
                target.learn(block._replace(y=y[:, m])) for m, target in enumerate(self._targets)
            ]
            return Predictions(*(np.stack(arrays, axis=1) for arrays in zip(*found, strict=True)))
        parts: list[Predictions] = []
        while len(block.y) or not parts:
            target, n = self._targets[0], len(block.y)
            before = target.series.n_before_search(block) if target.series else n
            is_due = before == 0 < n  # the first group after a search goes row by row
            n = int(block.starts[1]) if is_due else before
            part, block = block.part(slice(0, n)), block.part(slice(n, len(block.y)))
            parts.append(self._learn_group(part) if is_due else target.learn(part))
        return joined(parts)

    def _learn_group(self, group: Block) -> Predictions:
        """Predict all rows of a group, then learn them one by one."""
        slots = group.slots.tolist()
        predictions = list(map(self._predict_scaled, group.ahead, group.far.tolist(), slots))
        for row in zip(group.X, group.y.tolist(), predictions, slots, strict=True):
            self._learn_scaled(*row)
        return stacked(predictions, group.y)

    def _row_by_row(self, block: Block) -> Predictions:
        """Predict rows one by one, and learn each target ``delay`` rows later."""
        predictions = []
        X, ahead, *columns, _ = block
        rows = zip(X, ahead, *(column.tolist() for column in columns), strict=True)
        for x, row_ahead, label, is_far, slot in rows:
            predictions.append(self._predict_scaled(row_ahead, is_far, slot))
            self.waiting.append((x.copy(), predictions[-1], label, slot))
            if len(self.waiting) > self._delay:
                x, earlier, label, slot = self.waiting.popleft()
                self._learn_scaled(x, label, earlier, slot)
        return stacked(predictions, block.y)

    def _predict_scaled(self, z: np.ndarray, far: bool = False, slot: int = FRESH) -> RowPrediction:
        """Predict the target of the scaled row z. Nothing is learned."""
        rows = [target.input_row(z) for target in self._targets]
        if not self.outputs:
            whole = self._targets[0].predict_one(rows[0], far, z, slot)
        else:
            parts = tuple(
                target.predict_one(row, far, z, slot)
                for target, row in zip(self._targets, rows, strict=True)
            )
            y_hat, spread, low, high = (np.array([one[k] for one in parts]) for k in (0, 2, 3, 4))
            whole = RowPrediction(y_hat, True, spread, low, high, far, of_outputs=parts)
        self._last = whole, z, rows
        return whole

    def _learn_scaled(
        self, z: np.ndarray, y: Any, prediction: RowPrediction, slot: int = FRESH
    ) -> None:
        """Learn the target y of the row z, which ``_predict_scaled`` predicted.

        The row is learned with the past targets that its prediction used, and intervals learn from
        the error of this prediction. A target that was not requested is ignored. Nothing is learned
        from a requested target that is NaN.
        """
        last, _, rows = self._last
        self._last = None, None, []
        rows = rows if prediction is last else [None] * len(self._targets)
        if not self.outputs:
            self._targets[0].learn_one(rows[0], z, y, prediction, slot)
            self._settle()
            return
        for one, row, label, part in zip(
            self._targets, rows, y.tolist(), prediction.of_outputs, strict=True
        ):
            one.learn_one(row, z, label, part, slot)

    # --- Measurements for runs, of a single target ------------------------------------------------

    @property
    def kernel_weights(self) -> np.ndarray:
        """Weights (N,) of the kernels; their mean over the classes if each class has a learner."""
        with np.errstate(invalid="ignore"):  # a diverged learner is reported by its predictions
            found = [normalised(learner.state.log_w) for learner in self.learners]
            return found[0] if len(found) == 1 else np.mean(found, axis=0)

    @property
    def input_importance(self) -> np.ndarray:
        """Importance (d + 1,) of each input and, last, of all past targets, as in ``importance``.

        The array is empty, (0,), if the algorithm does not measure importance.
        """
        return self._importance_of(self.learners[0])

    def _importance_of(self, learner: Learner) -> np.ndarray:
        measure, d = self.algorithm.representation.importance, len(self.inputs)
        if measure is None:
            return np.empty(0)
        shares = measure(learner.state.model)
        return np.append(shares[:d], shares[d:].sum())

    @property
    def used(self) -> np.ndarray:
        """Number of evaluations (N,) of each kernel."""
        return self.learners[0].used

    @property
    def worst(self) -> float:
        """Largest squared error that a single kernel has had in any row so far."""
        return float(self.learners[0].worst[0])

    # --- Targets and answers ----------------------------------------------------------------------

    def _label(self, y: Any) -> Any:
        """Return a target as a number, or as an array (m,) of m outputs. None becomes NaN."""
        if self.outputs:
            return self.labels([y])[0]
        if y is None:
            return math.nan
        plain = not self.classes and self._transform is None
        if plain and isinstance(y, int | float) and abs(y) < math.inf:
            return float(y)
        return float(self.labels([y])[0])

    def labels(self, y: Any) -> np.ndarray:
        """Return targets as numbers (n,), or (n, m) of m outputs. None becomes NaN.

        Classes become their codes. ``target_transform`` is applied.
        """
        if self.outputs:
            labels = targets_of(y, self.outputs)
            return self._transform.forward(labels) if self._transform else labels
        if self.classes:
            return self._codes(y, self.classes)
        try:
            labels = np.array(y, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"labels are numbers, or NaN or None if unknown: {error}") from None
        if labels.ndim != 1 or np.isinf(labels).any():
            bad = labels.shape if labels.ndim != 1 else labels[np.isinf(labels)][0]
            raise ValueError(f"labels are finite numbers y (n,); got {bad}")
        return self._transform.forward(labels) if self._transform else labels

    def _codes(self, y: Any, classes: Sequence[Any]) -> np.ndarray:
        """Return the codes (n,) of the targets y, which are members of ``classes`` or None.

        None becomes NaN.
        """
        cells = np.array(["" if label is None else label for label in y], dtype=object)
        return class_codes(cells, classes, self.n_rows + 1 + np.arange(len(cells)), "y")

    def _labels_and_new(self, y: Any) -> tuple[np.ndarray, tuple[Any, ...]]:
        """Return the targets y (n,) as numbers, and the classes that are new.

        If there are new classes, the numbers are indices of the known classes followed by the new
        classes in the order of their first row.
        """
        try:
            return self.labels(y), ()
        except DataError:  # some class is new
            known, new = tuple(map(word, self.classes)), dict[str, Any]()
            for cell in y:
                if not is_blank(cell) and place_of_word(cell, known) is None:
                    new.setdefault(word(cell), cell)
            classes = checked_classes([*self.classes, *new.values()])
            return self._codes(y, classes), classes[len(self.classes) :]

    def _answers(self, y_hat: np.ndarray) -> np.ndarray:
        """Return the predicted classes (n,) for scores (n,) of two classes or (n, K) of K."""
        return np.array(self.classes)[_codes_of(y_hat)]

    def require_finite(self, y_hat: np.ndarray) -> None:
        """Raise FloatingPointError if a prediction is not finite."""
        if not np.isfinite(y_hat).all():
            raise FloatingPointError(
                f"by row {self.n_rows + 1} the predictions of {self.settings.algorithm} are no "
                "longer finite: the steps are too large for this stream. Reduce the step size."
            )


def _codes_of(y_hat: np.ndarray) -> np.ndarray:
    """Return class indices (n,) for scores y_hat, (n,) of two classes or (n, K) of K.

    If scores are equal, the first class is chosen.
    """
    return y_hat.argmax(axis=1) if y_hat.ndim > 1 else (y_hat > 0.0).astype(int)


def probabilities_of(y_hat: np.ndarray) -> np.ndarray:
    """Return probabilities (n, K) from scores y_hat (n,) of two classes or (n, K) of K."""
    p = 0.5 * (1.0 + y_hat)
    if p.ndim == 1:
        return np.stack([1.0 - p, p], axis=1)
    total = p.sum(axis=1, keepdims=True)
    return np.divide(p, total, out=np.full(p.shape, 1.0 / p.shape[1]), where=total > 0.0)


def _contributions(
    predict: Callable[[np.ndarray], np.ndarray],
    row: np.ndarray,
    means: np.ndarray,
    groups: Sequence[Sequence[int]],
    n_orders: int,
    seed: int,
) -> np.ndarray:
    """Return the contribution of each group of inputs to a prediction, as in ``explain``.

    Parameters
    ----------
    predict
        Function of rows (n, d) that returns their predictions (n,) or (n, m).
    row, means
        Inputs of the row and their means, (d,) each.
    groups
        Indices of the inputs of each of the G groups.
    n_orders
        Number of random orders, each used in both directions.
    seed
        Seed of the orders.

    Returns
    -------
    ndarray
        Contributions of the groups, followed by the prediction for the means: (G + 1,), or
        (G + 1, m) for m outputs or classes.
    """
    same = (row == means) | (np.isnan(row) & np.isnan(means))
    known = [k for k, group in enumerate(groups) if not same[group].all()]
    rng = np.random.default_rng(seed)
    rows = np.tile(means, (len(known) + 1, 1))
    base = predict(rows[:1])
    total = np.zeros((len(groups), *base.shape[1:]))
    for _ in range(n_orders):
        order = rng.permutation(known)
        for way in (order, order[::-1]):
            rows[:] = means
            for k, group in enumerate(way):
                rows[k + 1 :, groups[group]] = row[groups[group]]
            total[way] += np.diff(predict(rows), axis=0)
    return np.concatenate([total / (2 * n_orders), base])


def restored(model: model_file.Model, path: Any) -> OnlineLearner:
    """Return the learner of a model file. Raises ModelError if the arrays do not fit."""
    if model.panel is not None:
        raise model_file.ModelError(f"{path} contains a panel: load it with omkl.load_panel")
    try:
        learner = unlearned(model)
        recent = {n: a for n, a in model.arrays.items() if n in (ROWS, PREDICTIONS, SERIES)}
        learned = {LEARNED: model.arrays[LEARNED]} if LEARNED in model.arrays else {}
        own = model.arrays.keys() - recent.keys() - learned.keys()
        learner.restore({n: a for n, a in model.arrays.items() if n in own})
        if learned:
            learner._restore_learned(learned[LEARNED])
        if recent:
            learner._restore_recent(recent)
    except (ValueError, TypeError, KeyError) as error:
        raise model_file.ModelError(f"{path}: {model.misfit(error)}") from None
    except MemoryError as error:
        raise model_file.ModelError(f"{path}: no model, or a damaged one: {error}") from None
    return learner


def unlearned(model: model_file.Model) -> OnlineLearner:
    """Return a learner with the settings and inputs of a model file, and without its state."""
    columns = columns_of(model.columns, model.settings.inputs)
    left_out = (model.columns or {}).get("left_out", ())
    learner = OnlineLearner(model.settings, columns, left_out)
    learner.waits_for_inputs = False
    return learner


def columns_of(described: Mapping[str, Any] | None, inputs: Sequence[str]) -> list[Column]:
    """Return the encodings of columns in a model file, or [] if all columns are numbers.

    Raises ValueError if the description is invalid.
    """
    try:
        columns = columns_described((described or {}).get("columns") or ())
        names = tuple(name for column in columns for name in column.inputs)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"its columns are invalid: {error}") from None
    if all(column.recipe == NUMBERS for column in columns) or names != tuple(inputs):
        return []
    return columns


def load(path: str | Path) -> OnlineLearner:
    """Return the learner that ``OnlineLearner.save`` wrote to a file, equal to the last bit.

    Nothing in the file is executed. Warns if another version of the sources wrote the file, because
    that version may compute slightly different numbers. Raises ``model_file.ModelError`` if the
    file is missing, damaged or no model file.
    """
    model = model_file.read(path)
    learner = restored(model, path)
    model.warn_of_other_sources(path)
    return learner
