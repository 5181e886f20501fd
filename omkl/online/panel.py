"""Learn each series of a stream, such as a device or a shop, with its own learner.

Use ``omkl.panel`` to make a panel. Every series begins with the same initial ``OnlineLearner`` and
learns only from rows of this series. The predictions equal those of a separate ``OnlineLearner``,
to the last bit. All series share the random frequencies. The state of a series is one row of the
arrays of ``omkl.core.panel``.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core import conformal, snapshot
from omkl.core.conformal import NO_LABELS, SeriesConformal
from omkl.core.hyperparameters import COUNTS, require_count
from omkl.core.panel import FIRST, FRESH, Groups, PanelLearner, Slots, groups_of, longer
from omkl.core.robust_moments import MOMENTS, N_NUMBERS, follow_targets, standardise_rows
from omkl.core.snapshot import below
from omkl.core.weights import normalised
from omkl.datasets.scaling import Moments, MomentsState, softened
from omkl.online import model_file
from omkl.online.intervals import rates_of
from omkl.online.learner import LARGEST, OnlineLearner, unlearned
from omkl.online.predictions import Predictions, joined
from omkl.online.rows import is_frame, with_names
from omkl.online.series_slots import SeriesName, SeriesSlots, factorised, with_series
from omkl.online.settings import LearnerSettings
from omkl.utils.disk import write_atomically

if TYPE_CHECKING:
    import pandas as pd

OPTIONS = ("series", "max_series", "share_weights", "share_scaling")


class Scaler(NamedTuple):
    """Scaling of the inputs, targets and errors of S series.

    inputs   (S, d, N_NUMBERS) moments of the inputs; d is 0 if all series share their scaling
    targets  (S, 1, N_NUMBERS) moments of the targets
    last     (S, n_lags) newest targets of each series, the oldest of them first
    units    (S, 4) units of the errors, as in ``SeriesConformal``; None without intervals
    """

    inputs: MOMENTS
    targets: MOMENTS
    last: np.ndarray
    units: np.ndarray | None


class State(NamedTuple):
    """All arrays of a panel.

    t         (S,) number of rows that each of S series has learned
    slots     state of the core learner of each series
    scaler    scaling of each series
    columns   moments of the inputs that all series share; None without ``share_scaling``
    interval  state of the intervals, which all series share; None without intervals
    """

    t: COUNTS
    slots: Slots
    scaler: Scaler
    columns: MomentsState | None
    interval: conformal.State | None


class Panel:
    """Learn each series with its own learner. Settings, seed and random features are common.

    Rows are given as for ``OnlineLearner``. The series of a row is a whole number or a text, in a
    column of the rows or in a separate argument. A new series begins as a learner that has learned
    no row yet. Predictions equal exactly those of one ``OnlineLearner`` per series, unless series
    share weights or scaling. Intervals learn from the errors of all series together.

    Attributes
    ----------
    settings    settings of the learner of every series
    series      name of the column of series; None if series are a separate argument
    max_series  largest number of series in memory. Each further series replaces the series whose
                last row is the oldest. None: no limit
    """

    def __init__(
        self,
        settings: LearnerSettings,
        *,
        series: str | None = None,
        max_series: int | None = None,
        share_weights: bool = False,
        share_scaling: bool = False,
        threads: int | None = None,
        declared: Mapping[str, str] | None = None,
    ) -> None:
        self.settings, self.series, self.max_series = settings, series, max_series
        self.share_weights, self.share_scaling = share_weights, share_scaling
        for name, number in (("max_series", max_series), ("threads", threads)):
            if number is not None:
                require_count(name, number)
        self._threads = threads or os.cpu_count() or 1
        _require_supported(settings, share_weights, share_scaling)
        self._slots = SeriesSlots(max_series, FIRST, self._allocate)
        # The initial learner of every series.
        self._one = OnlineLearner(settings, declared=declared)
        if self._one.inputs:
            _require_numbers(self._one)
            self._make()
        else:
            _require_numbers(OnlineLearner(dataclasses.replace(settings, inputs=("x",))))

    def _make(self) -> None:
        """Allocate the arrays of the first series, once the inputs are known."""
        one, n_lags = self._one, self.settings.lags
        self.settings = one.settings
        self._learner = PanelLearner(one.learners[0], self.share_weights, self._threads)
        d = len(one.inputs)
        self._moves = one.moves
        self._scaled = self.settings.scaling == "columns"
        self._moments = Moments(d) if self._scaled and self.share_scaling else None
        n = self._learner.n_slots
        n_own = d if self._scaled and not self.share_scaling else 0
        self._conformal: SeriesConformal | None = None
        if around := self.settings.intervals:
            self._conformal = SeriesConformal(around.level, rates_of(around))
        self._scaler = Scaler(
            inputs=np.zeros((n, n_own, N_NUMBERS)),
            targets=np.zeros((n, 1, N_NUMBERS)),
            last=np.full((n, n_lags), np.nan),
            units=np.tile(NO_LABELS, (n, 1)) if self._conformal else None,
        )

    def __repr__(self) -> str:
        name, inputs = self.settings.algorithm, len(self._one.inputs) or "unknown"
        return f"Panel({name!r}, {len(self):,} series, {inputs} inputs)"

    def __len__(self) -> int:
        """Return the number of series in memory."""
        return len(self._slots)

    def __contains__(self, series: object) -> bool:
        return series in self._slots

    @property
    def names(self) -> tuple[SeriesName, ...]:
        """Series in memory. With ``max_series`` the first of them is the next to be replaced."""
        return self._slots.names

    @property
    def bytes_per_series(self) -> int:
        """Bytes that a series takes in the arrays.

        The arrays can have room for up to twice the number of series in memory. The bytes of this
        spare room are not included.
        """
        self._require_inputs()
        return sum(array[FRESH].nbytes for array in self._own().values())

    def n_rows(self, series: SeriesName) -> int:
        """Return the number of rows that a series has learned; 0 for an unknown series."""
        slot = self._slots.slot(series, FRESH)
        return 0 if slot == FRESH else int(self._learner.t[slot])

    def weights(self, series: SeriesName) -> pd.Series:
        """Return the weight of each kernel for a series, by name; the weights sum to 1."""
        import pandas as pd

        self._require_inputs()
        log_w = self._learner.slots.state.log_w
        slot = min(self._slots.slot(series, FRESH), len(log_w) - 1)
        index = pd.Index(self._one.expert_names, name="expert")
        return pd.Series(normalised(log_w[slot]), index=index, name="weight")

    @property
    def kernel_weights(self) -> np.ndarray:
        """Mean weight (N,) of each kernel over the series in memory."""
        log_w = self._learner.slots.state.log_w
        slots = self._slots.slots if len(log_w) > 1 else [0]
        weights = np.exp(log_w[slots] - log_w[slots].max(axis=1, keepdims=True))
        return np.mean(weights / weights.sum(axis=1, keepdims=True), axis=0)

    @property
    def input_importance(self) -> np.ndarray:
        """Empty array (0,), because no algorithm of a panel measures the importance of inputs."""
        return np.empty(0)

    @property
    def used(self) -> np.ndarray:
        """Number of evaluations (N,) of each kernel, over all series, since the panel was made."""
        return self._learner.used

    @property
    def worst(self) -> float:
        """Largest squared error of a single kernel since the panel was made."""
        return self._learner.worst

    def _require_inputs(self) -> None:
        if not self._one.inputs:
            raise RuntimeError("the panel has seen no row: it does not know its inputs yet")

    def forget(self, series: SeriesName) -> None:
        """Forget a series. Its next row counts as its first. Raises KeyError if it is unknown."""
        self._slots.forget(series)

    def partial_fit(self, X: Any, y: Any, series: Any = None) -> Predictions:
        """Predict and learn the rows X. The results do not depend on the split into blocks.

        Parameters
        ----------
        X, y
            Rows (n, d), and targets (n,). A row with the target NaN or None is predicted and not
            learned.
        series
            Series (n,) of each row; None: the column of X that the attribute ``series`` names.

        Returns
        -------
        Predictions
            Prediction of each row, made before its target was learned, as for ``OnlineLearner``.
            An interval is NaN before the first error of its series. Intervals of all series are NaN
            until one series has had an error other than 0, and a further error after it. From then
            on a series whose errors are all 0 has intervals of width 0.

        Raises
        ------
        ValueError
            A row, a target or a series is invalid; nothing is learned.
        """
        X, series = with_series(X, self.series, series, CURE)
        labels, (codes, names) = self._one.labels(y), factorised(series)
        if not len(X) == len(labels) == len(codes):
            raise ValueError(f"{len(X)} rows X, {len(labels)} targets y and {len(codes)} series")
        rows = self._rows(X)
        predictions = joined(
            [
                self._run(slots, rows[part], labels[part], learns=True)
                for part, slots in self._slots.spans(codes, names)
            ]
        )
        self._one.require_finite(predictions.y_hat)
        return predictions

    def predict(self, X: Any, series: Any = None) -> np.ndarray:
        """Return the prediction (n,) of each row of X, as if it came next in its series.

        Nothing changes. A row of an unknown series is predicted by a learner that has learned no
        row yet.
        """
        return self._as_next(X, series).y_hat

    def predict_interval(self, X: Any, series: Any = None) -> np.ndarray:
        """Return the ends (n, 2) of the interval of each row of X.

        Each row is predicted as if it came next in its series. Nothing changes. Both ends are NaN
        before the first error of a series. Raises ValueError if the panel has no intervals.
        """
        if self.settings.interval is None:
            raise ValueError("there are no intervals: make the panel with interval=0.9, say")
        predictions = self._as_next(X, series)
        return np.stack([predictions.low, predictions.high], axis=-1)

    def _as_next(self, X: Any, series: Any) -> Predictions:
        """Return the prediction of each row, as if it came next in its series."""
        X, series = with_series(X, self.series, series, CURE)
        codes, names = factorised(series)
        if len(X) != len(codes):
            raise ValueError(f"{len(X)} rows X and {len(codes)} series")
        if self._one.waits_for_inputs:  # a prediction must not decide the inputs
            nothing = np.full(len(X), np.nan)
            return Predictions(np.asarray(self._one.predict(X)), nothing > 0, *[nothing] * 3)
        rows = self._rows(X)
        slots = np.array([self._slots.slot(name, FRESH) for name in names], dtype=np.int64)
        predictions = self._run(slots[codes], rows, np.full(len(rows), np.nan), learns=False)
        self._one.require_finite(predictions.y_hat)
        return predictions

    def predict_many(self, X: Any, series: Any = None) -> pd.Series:
        """Return the predictions of a data frame as a Series with the same index, for River."""
        import pandas as pd

        X = with_names(X)
        index = X.index if is_frame(X) else None
        return pd.Series(self.predict(X, series), index=index, name="y_hat")

    def learn_many(self, X: Any, y: Any, series: Any = None) -> None:
        """Call ``partial_fit``, under River's name.

        Parameters
        ----------
        X, y
            Rows (n, d), and targets (n,).
        series
            Series (n,) of each row; None: the column of X that the attribute ``series`` names.
        """
        self.partial_fit(X, y, series)

    def predict_one(self, x: Any, series: SeriesName | None = None) -> float:
        """Return the prediction of the row x (d,), as if it came next in its series.

        Nothing changes.
        """
        return float(self.predict([with_names(x)], None if series is None else [series])[0])

    def learn_one(self, x: Any, y: Any, series: SeriesName | None = None) -> None:
        """Learn the target of a row.

        Parameters
        ----------
        x, y
            Row (d,) and its target. A row whose y is None is not learned.
        series
            Series of the row; None: the column that the attribute ``series`` names.
        """
        self.partial_fit([with_names(x)], [y], None if series is None else [series])

    def _rows(self, X: Any) -> np.ndarray:
        """Return rows as checked numbers (n, d). The first rows decide the inputs."""
        inputs = self._one.inputs
        rows = self._one.numbers_of(X)
        if self._one.inputs != inputs:
            self._make()
        return rows

    def _allocate(self, slots: Sequence[int]) -> None:
        """Make room for slots of new series, and write the initial state into them."""
        if not slots:
            return
        most = max(slots) + 1
        if most > self._learner.n_slots:
            room = max(most, 2 * self._learner.n_slots)
            if self.max_series is not None:
                room = max(most, min(room, FIRST + self.max_series))
            self._learner.make_room(room)
            self._scaler = snapshot.mapped(lambda _, a: longer(a, room), "", self._scaler)
        for array in self._own().values():
            array[slots] = array[FRESH]

    def _run(self, slots: np.ndarray, rows: np.ndarray, y: np.ndarray, learns: bool) -> Predictions:
        """Predict rows, and learn them if ``learns`` is True.

        In the result ``asked`` is True for each row that was learned.

        Parameters
        ----------
        slots
            Slot (n,) of the series of each row.
        rows, y
            Rows (n, d) that are not scaled, and targets (n,).
        learns
            Whether to learn the rows.
        """
        labels = y
        known = ~np.isnan(y) if learns else np.zeros(len(y), dtype=np.bool_)
        groups = groups_of(slots, known, in_order=self.share_weights)
        order = groups.rows
        X = self._standardised(groups, rows, learns)
        y = y[order]
        centre, unit = np.zeros(len(y)), np.ones(len(y))
        if self._moves or self.settings.lags:
            out = np.empty((4, len(y)))
            moments, last = self._scaler.targets, self._scaler.last
            follow_targets(
                groups.starts, groups.slots, moments, last, self._scaled,
                y, X, len(self._one.inputs), out,
            )  # fmt: skip
            if self._moves:
                y, centre, unit, _ = out
        if self._one.softens:
            X, y = softened(X), softened(y) if self._moves else y
        trace = self._learner.run(groups, X, y)
        result = np.empty((2, len(y)))
        result[0, order] = centre + unit * trace.y_hat if self._moves else trace.y_hat
        result[1, order] = np.where(unit > 0.0, unit, np.nan) * trace.spread
        half = np.full(len(labels), np.nan)
        if self._conformal is not None:
            units, late = self._scaler.units, int(self._scaled)
            assert units is not None
            half = self._conformal.follow_series(units, slots, result[0], labels, late)
        return Predictions(result[0], known, result[1], result[0] - half, result[0] + half)

    def _standardised(self, groups: Groups, rows: np.ndarray, learns: bool) -> np.ndarray:
        """Return standardised rows in the order of ``groups``, with a column of zeros per lag."""
        order = groups.rows
        if self._moments is not None:
            moments = self._moments
            taken = moments.standardised(rows) if learns else moments.standardised_each(rows)
            X = taken.z[order]
        else:
            X = rows[order]
            if self._scaled:
                takes = np.full(len(groups.slots), learns)
                standardise_rows(
                    groups.starts, groups.slots, takes, self._scaler.inputs, X.copy(),
                    LARGEST, X, np.empty(X.shape, dtype=np.bool_), FRESH + 1,
                )  # fmt: skip
        lags = self.settings.lags
        return np.concatenate([X, np.zeros((len(X), lags))], axis=1) if lags else X

    def save(self, path: str | Path) -> None:
        """Write all series to a file, which ``omkl.load_panel`` reads.

        Raises RuntimeError if the panel has seen no row.
        """
        write_atomically(Path(path).expanduser(), self.content())

    def content(self, columns: Any = None) -> bytes:
        """Return the bytes of the file that ``save`` writes.

        ``columns`` is as in ``model_file.content``.
        """
        options = {name: getattr(self, name) for name in OPTIONS}
        columns = self._one.columns_of_rows() if columns is None else columns
        return model_file.content(self.settings, self.arrays(), columns, panel=options)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the state of all series, for ``restore``."""
        self._require_inputs()
        slots, own = self._slots.slots, self._own()
        kept = {"series": self._slots.array()} | {name: own[name][slots] for name in own}
        return kept | self._shared()

    @property
    def _state(self) -> State:
        columns = self._moments.state if self._moments is not None else None
        interval = self._conformal.state if self._conformal is not None else None
        return State(self._learner.t, self._learner.slots, self._scaler, columns, interval)

    def _own(self) -> dict[str, np.ndarray]:
        """Return the arrays (S, ...) with a row per series, by name."""
        arrays = snapshot.named_arrays(self._state)
        return {name: array for name, array in arrays if _is_own(name, array)}

    def _shared(self) -> dict[str, np.ndarray]:
        """Return the arrays that all series share, by name."""
        arrays = snapshot.named_arrays(self._state)
        return {name: array for name, array in arrays if not _is_own(name, array)}

    def _like(self, shape: tuple[int, ...]) -> State:
        """Return a state with the initial values of new series.

        An array with a row per series gets the shape (*shape, ...). The arrays that all series
        share are those of this panel.
        """

        def fresh(name: str, array: np.ndarray) -> np.ndarray:
            if not _is_own(name, array):
                return array
            return np.broadcast_to(array[FRESH], shape + array.shape[1:])

        return State(
            *(snapshot.mapped(fresh, name, part) for name, part in self._state._asdict().items())
        )

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        """Restore the arrays of a saved panel with the same settings into a new panel.

        Raises ValueError if the arrays do not fit. The panel is then unusable.
        """
        self._slots.restore(kept["series"])
        kept = {name: array for name, array in kept.items() if name != "series"}
        snapshot.require_fit(self._like((len(self),)), kept)
        slots = self._slots.slots
        for name, array in self._own().items():
            array[slots] = kept[name]
        for name, array in self._shared().items():
            array[...] = kept[name]
        if self._conformal is not None:
            self._conformal.restore(below("interval.", kept))


def _require_supported(settings: LearnerSettings, weights: bool, scaling: bool) -> None:
    """Raise ValueError for settings that a panel does not support."""
    if settings.classes:
        raise ValueError("a panel is for regression: make a learner per series for classes")
    if scaling and settings.scaling == "none":
        raise ValueError('share_scaling=True needs scaling="columns"')
    specification = settings.specification()
    algorithm, representation = specification.algorithm, specification.algorithm.representation
    why = ""
    if algorithm.queries:
        why = "requests some of the targets"
    elif not representation.bounded or representation.lookahead:
        why = "keeps rows of the stream"
    elif not algorithm.module.startswith("omkl."):
        why = "is defined outside omkl"
    if why:
        raise ValueError(f"{algorithm.name} {why}, and a panel has no such learners: {ADVICE}")
    # The number of inputs is unknown here, so 1 stands for it. A single kernel has no weights.
    n_experts = len(algorithm.kernels(specification.params, specification.dictionary, 1))
    has_more = tuple(algorithm.State.__annotations__) != ("model", "log_w")
    if weights and (has_more or n_experts == 1):
        raise ValueError(
            f"share_weights=True needs a learner whose state beside coefficients is the weights of "
            f"several kernels, and {algorithm.name} is none: raker and rfomkr are"
        )


def _is_own(name: str, array: np.ndarray) -> bool:
    """Return whether an array of ``State`` has a row per series."""
    return name == "t" or (name.startswith(("slots.", "scaler.")) and len(array) > 1)


CURE = "series=, or omkl.panel(series=COLUMN)"
ADVICE = (
    'omkl.learner("auto", series=COLUMN) learns all series together; a panel takes ridge, '
    "ridge_rff, raker, rfomkr and others"
)


def _require_numbers(one: OnlineLearner) -> None:
    """Raise ValueError unless the state of a series consists of floating-point numbers.

    The state of a random generator is allowed. ``auto`` is not, because its trees have indices.
    """
    algorithm, slots = one.algorithm, PanelLearner(one.learners[0]).slots
    own = [field for field in snapshot.fields(slots) if len(field.array) > 1]
    if any(field.array.dtype.kind != "f" for field in own if not field.name.startswith("rng.")):
        size = sum(field.array[0].nbytes for field in own)
        raise ValueError(
            f"{algorithm.name} keeps counts and places besides numbers ({size / 1000:,.0f} kB per "
            f"series), and a panel has no such learners: {ADVICE}"
        )


def load(path: str | Path, threads: int | None = None) -> Panel:
    """Return the panel that ``Panel.save`` wrote to a file, equal to the last bit.

    ``threads`` is as in ``omkl.panel``. Raises ``model_file.ModelError`` if the file is missing,
    damaged or does not contain a panel.
    """
    model = model_file.read(path)
    if model.panel is None:
        raise model_file.ModelError(f"{path} contains one learner: load it with omkl.load_learner")
    try:
        if set(model.panel) != set(OPTIONS):
            raise ValueError(f"options {sorted(set(model.panel) ^ set(OPTIONS))}")
        panel = Panel(model.settings, threads=threads, **model.panel)
        panel._one = unlearned(model)
        panel.restore(model.arrays)
    except (ValueError, TypeError, KeyError) as error:
        raise model_file.ModelError(f"{path}: {model.misfit(error)}") from None
    model.warn_of_other_sources(path)
    return panel
