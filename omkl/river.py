"""Use ``omkl.learner`` and ``omkl.panel`` as estimators of River (extra ``river``).

>>> from river import datasets, evaluate, metrics
>>> from omkl.river import OnlineMKLRegressor
>>> evaluate.progressive_val_score(datasets.ChickWeights(), OnlineMKLRegressor(), metrics.MAE())
MAE: 13.407541
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import pickle
from collections import Counter, deque
from collections.abc import Callable, Hashable, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from omkl.utils.wording import how_to_install

try:
    from river import base, conf
except ImportError as error:
    raise ImportError(
        f"omkl.river needs River 0.26 or later: {how_to_install('river')} ({error})"
    ) from None

from omkl.datasets.cells import is_blank
from omkl.datasets.columns import Column, plain_column
from omkl.online.estimator import LearnerParameters, PanelParameters, RegressorParameters
from omkl.online.learner import REPLAYED
from omkl.online.panel import Panel
from omkl.online.rows import columns_in
from omkl.online.series_slots import SeriesName, checked, with_series

if TYPE_CHECKING:
    import pandas as pd

    from omkl.online.learner import OnlineLearner

Row = tuple[Any, ...]


class _Online(LearnerParameters, base.Estimator):
    """Common part of all estimators: settings, input names, and the current ``OnlineLearner``."""

    seed: int

    def __post_init__(self) -> None:
        self._names: tuple[Hashable, ...] = ()  # sorted names of the inputs
        self._known: frozenset[Hashable] = frozenset()  # the same names
        self._columns: dict[Hashable, Column] = {}  # encodings of inputs that are texts or dates
        self._all: itemgetter[Any] | None = None  # reads all inputs of a row, if there are two
        self._learner: OnlineLearner | None = None
        self._column = self.settings_of_task.get("series")  # input with the series of a row
        # The last rows, with target and series.
        self._rows: deque[tuple[Row, Any, SeriesName | None]] = deque(maxlen=REPLAYED)
        # Rows predicted before there was a learner.
        self._early: deque[Mapping[Any, Any]] = deque(maxlen=REPLAYED)

    @property
    def _raw_memory_usage(self) -> int:
        """Bytes of the pickled estimator. River's default would also count the compiler."""
        return len(pickle.dumps(self))

    @property
    def new_categories(self) -> dict[str, Counter[str]]:
        """Number of rows with each undeclared category, as {column: {category: number}}."""
        return {} if self._learner is None else self._learner.new_categories

    def _further(self) -> dict[str, Any]:
        """Return the settings of ``omkl.learner`` that are specific to this estimator."""
        raise NotImplementedError

    def _make(self) -> None:
        """Make a new learner for all known inputs, and let it learn the last rows again."""
        if not self._names:
            return
        words = all(isinstance(name, str) for name in self._names)
        texts = [str(name) if words else repr(name) for name in self._names]
        columns: list[Column] = []
        if self._columns:
            columns = [
                self._columns.get(name) or plain_column(text)
                for name, text in zip(self._names, texts, strict=True)
            ]
            texts = [name for column in columns for name in column.inputs]
        self._learner = self.new_learner(
            inputs=texts, columns=columns, seed=self.seed, **self._further()
        )
        for x in self._early:
            with contextlib.suppress(ValueError):  # an invalid row
                early, name = self._with_series(x)
                self._learner.predict_one(self._row(early), name)
        self._early.clear()
        if self._rows:
            rows, labels, series = map(list, zip(*self._rows, strict=True))
            self._learner.partial_fit(rows, labels, series if self._column else None)

    def _meet(self, x: Mapping[Any, Any]) -> bool:
        """Add the new inputs of x to the known inputs. Return whether there were new inputs."""
        if x.keys() == self._known:
            return False
        new = [name for name in x if name not in self._known and self._is_known(name, x[name])]
        if new:
            places = {name: k for k, name in enumerate(self._names)}
            self._known |= set(new)
            self._names = tuple(sorted(self._known, key=lambda name: (str(type(name)), str(name))))
            self._all = itemgetter(*self._names) if len(self._names) > 1 else None
            order = [places.get(name) for name in self._names]
            rows = [(tuple(None if k is None else row[k] for k in order), *learned)
                    for row, *learned in self._rows]  # fmt: skip
            self._rows.clear()
            self._rows.extend(rows)
        return bool(new)

    def _is_known(self, name: Hashable, value: Any) -> bool:
        """Return whether a new input becomes an input of the learner.

        The result is False if the value is missing, or if ``columns`` declares the input as "skip".
        If the value is a text or a date, the encoding of the input is stored. Raises ValueError
        naming an invalid value.
        """
        declared = {text: said for text, said in (self.columns or {}).items() if text == str(name)}
        if is_blank(value) or "skip" in declared.values():
            return False
        if not (declared or isinstance(value, str)):
            with contextlib.suppress(TypeError, ValueError):
                return not math.isnan(float(value))
        (self._columns[name],) = columns_in({name: value}, [str(name)], declared)
        return True

    def _row(self, x: Mapping[Any, Any]) -> Row:
        """Return the known inputs in their order; None for an input that x lacks."""
        if self._all is not None:
            try:
                return self._all(x)
            except KeyError:
                pass
        return tuple(map(x.get, self._names))

    def _predicted(self, x: Mapping[Any, Any]) -> Any:
        """Return the learner's prediction for x, or None before there is a learner."""
        if self._learner is None:
            self._early.append(dict(x))
            return None
        x, series = self._with_series(x)
        return self._learner.predict_one(self._row(x), series)

    def _with_series(self, x: Mapping[Any, Any]) -> tuple[Mapping[Any, Any], SeriesName | None]:
        """Return a row without its series, and its series; None if there is no ``series=``."""
        if self._column is None:
            return x, None
        (x,), (series,) = with_series([x], self._column, None, "")
        return x, checked(series)

    def _learn(self, x: Mapping[Any, Any], label: Any, anew: bool = False) -> None:
        """Learn a row. ``anew``: make a new learner first, for a new class or a new output."""
        kept: dict[str, Any] = {}
        x, series = self._with_series(x)
        if anew or self._learner is None or x.keys() != self._known:
            copies = {"_rows": self._rows.copy(), "_early": self._early.copy()}
            kept = self.__dict__ | copies | {"_columns": dict(self._columns)}
        try:
            if self._meet(x) or anew or self._learner is None:
                self._make()
            row = self._row(x)
            if self._learner is not None:
                self._learner.learn_one(row, label, series)
        except ValueError:  # an invalid row leaves no input, class or learner behind
            self.__dict__.update(kept)
            raise
        self._rows.append((row, label, series))


class _MiniBatch:
    """Add methods for many rows to an estimator with methods for single rows."""

    predict_one: Callable[[dict], Any]
    learn_one: Callable[[dict, Any], None]

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Learn rows one by one, in order."""
        for x, label in zip(X.to_dict("records"), y.tolist(), strict=True):
            self.learn_one(x, label)

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Return the prediction of ``predict_one`` for each row, as if this row came next."""
        import pandas as pd  # imported here: River works without it

        return pd.Series([self.predict_one(x) for x in X.to_dict("records")], index=X.index)


class _Regressor(RegressorParameters, _Online):
    """Regressor with intervals."""

    def _further(self) -> dict[str, Any]:
        return {"task": "regression"}

    def _answer(self, x: Mapping[Any, Any], with_interval: bool) -> float | conf.interval.Interval:
        """Return the prediction of x, or its interval. Before the first row both are 0.0."""
        y_hat = self._predicted(x)
        if with_interval:
            self._require_intervals()
        if self._learner is None:
            return _interval(0.0, math.nan, math.nan) if with_interval else 0.0
        return _interval(y_hat, *self._learner.interval) if with_interval else y_hat

    def _require_intervals(self) -> None:
        if self.interval is None:
            raise ValueError("there are no intervals: make it with interval=0.9, say")


def _interval(y_hat: float, low: float, high: float) -> conf.interval.Interval:
    """Return River's interval. If the ends are unknown (NaN), both are the prediction."""
    return conf.interval.Interval(*((y_hat, y_hat) if math.isnan(low) else (low, high)))


@dataclasses.dataclass(eq=False, repr=False)
class OnlineMKLRegressor(_MiniBatch, _Regressor, base.MiniBatchRegressor):
    """Learn a regression with many kernels and adaptive intervals, without scaling or tuning.

    Inputs are identified by name, so their order does not matter. An input that is missing, None or
    NaN is replaced by its mean so far. The first value of an input decides its encoding: texts are
    hashed, and dates become hour, weekday, day of the year and days elapsed. When a new input
    occurs, a new learner of all known inputs learns the last 1,000 rows again, and everything
    learned before these rows is forgotten. Memory grows with the number of inputs, not with the
    number of rows. Use no scaler before the model, because the model standardises inputs itself.
    Inputs that are scaled twice are harder to learn from.

    Before the first row is learned the prediction is 0.0, and River's metrics count it.

    Parameters
    ----------
    algorithm, kernels, D, params, scaling, lags, horizon, features, columns
        As in ``omkl.online.estimator.LearnerParameters``. An active-learning algorithm ignores
        the targets that it would not request.
    interval, interval_rate, series, season, series_delay, max_series
        As in ``omkl.online.estimator.RegressorParameters``.
    seed
        Seed of random features and choices.
    """

    seed: int = 0

    def predict_one(self, x: dict, with_interval: bool = False) -> Any:
        """Return the prediction for x, or its interval, a ``river.conf.Interval``.

        Nothing is learned. Both ends of an interval are the prediction before the first error.
        """
        return self._answer(x, with_interval)

    def learn_one(self, x: dict, y: Any) -> None:
        """Learn the target y of x. Raises ValueError if y is not a number."""
        if is_blank(y):
            raise ValueError(f"a target is a number, and this is {y}")
        self._learn(x, y)


@dataclasses.dataclass(eq=False, repr=False)
class MultiTargetMKLRegressor(_Regressor, base.MultiTargetRegressor):
    """Learn a regression with several targets per row, by name.

    Each target is learned exactly as by a separate ``OnlineMKLRegressor``. A target that is None,
    NaN or missing is skipped. When a new target or a new input occurs, a new learner learns the
    last 1,000 rows again.

    Before the first row is learned the prediction is {}, and River's metrics do not count it.

    Parameters
    ----------
    algorithm, kernels, D, params, scaling, lags, horizon, features, columns
        As in ``omkl.online.estimator.LearnerParameters``. Active-learning algorithms are not
        supported.
    interval, interval_rate
        As in ``omkl.online.estimator.RegressorParameters``. ``series`` is for a single target.
    seed
        Seed of random features and choices.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._places: dict[Any, int] = {}  # positions of the targets, in order of appearance

    def _further(self) -> dict[str, Any]:
        return super()._further() | {"outputs": len(self._places)}

    def _make(self) -> None:
        if self._places:
            super()._make()

    def predict_one(self, x: dict, with_interval: bool = False) -> dict[Any, Any]:
        """Return the prediction of each target, or its interval. Nothing is learned."""
        if with_interval:
            self._require_intervals()
        y_hat = self._predicted(x)
        if self._learner is None:
            return {}
        if not with_interval:
            return dict(zip(self._places, y_hat.tolist(), strict=True))
        low, high = self._learner.interval
        ends = map(_interval, y_hat.tolist(), low.tolist(), high.tolist())
        return dict(zip(self._places, ends, strict=True))

    def learn_one(self, x: dict, y: dict) -> None:  # type: ignore[override]
        """Learn the targets y of row x. Raises ValueError if y does not map names to numbers."""
        if not isinstance(y, Mapping):
            raise ValueError(f"targets are numbers by name, {{'north': 1.0}}, and this is {y!r}")
        targets = {name: target for name, target in y.items() if not is_blank(target)}
        new = [name for name in targets if name not in self._places]
        self._places |= {name: len(self._places) + k for k, name in enumerate(new)}
        try:
            self._learn(x, {self._places[name]: targets[name] for name in targets}, bool(new))
        except ValueError:
            for name in new:
                del self._places[name]
            raise


@dataclasses.dataclass(eq=False, repr=False)
class PanelMKLRegressor(PanelParameters, base.MiniBatchRegressor):
    """Learn a regression per series, such as devices or shops, with ``omkl.panel``.

    The first row decides the inputs. A new series begins with a learner that has learned no row
    yet. Use no scaler before the model, because the panel standardises inputs itself.

    Parameters
    ----------
    algorithm, kernels, D, params, scaling, lags, horizon, features, columns
        As in ``omkl.online.estimator.PanelParameters``.
    series
        Name of the input that contains the series of a row, a whole number or a text.
    max_series, share_weights, share_scaling, interval, interval_rate
        As in ``omkl.panel``.
    seed
        Seed of random features and choices.
    """

    series: str = "series"
    seed: int = 0

    def __post_init__(self) -> None:
        self._made: Panel | None = None

    @property
    def _panel(self) -> Panel:
        if self._made is None:
            self._made = self.new_panel(self.seed)
        return self._made

    _raw_memory_usage = _Online._raw_memory_usage

    def predict_one(self, x: dict, with_interval: bool = False) -> Any:
        """Return the prediction of x, or its interval, as if x came next in its series.

        Nothing is learned. Before the first error of the series both ends of an interval are the
        prediction.
        """
        y_hat = float(self._panel.predict([x])[0])
        if not with_interval:
            return y_hat
        return _interval(y_hat, *self._panel.predict_interval([x])[0].tolist())

    def learn_one(self, x: dict, y: Any) -> None:
        """Learn the target y of x. Raises ValueError if y is not a number."""
        self._panel.partial_fit([x], [y])

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Learn rows one by one, in order."""
        self._panel.learn_many(X, y)

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Return the prediction of each row, as if it came next in its series.

        Nothing is learned.
        """
        return self._panel.predict_many(X)


@dataclasses.dataclass(eq=False, repr=False)
class ActiveMKLRegressor(_Regressor, base.Regressor):
    """Learn a regression with an algorithm that requests only some of the targets.

    The algorithms are amkl, amkl_aks and amkl_random. After ``predict_one`` the property ``asks``
    tells whether the target of this row is requested. ``learn_one`` ignores other targets, so
    River's ``evaluate`` scores the learner correctly. A row whose target is not requested needs no
    ``learn_one``: the next call of any method counts the row.

    Parameters
    ----------
    horizon
        T, the approximate number of rows, which defines the step sizes of AMKL.
    algorithm, kernels, D, params, scaling, lags, features, interval, interval_rate, seed
        As in ``OnlineMKLRegressor``.
    """

    algorithm: str = "amkl"
    horizon: int | None = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._skipped: Row | None = None  # last predicted row whose target was not requested

    @property
    def asks(self) -> bool:
        """True if the target of the last predicted row is requested, and before the first row."""
        return self._learner is None or self._learner.asks

    def predict_one(self, x: dict, with_interval: bool = False) -> Any:
        """Return the prediction for x, or its interval.

        First end the round of the previous row if its target was not requested.
        """
        self._skip()
        answer = self._answer(x, with_interval)
        self._skipped = None if self.asks else self._row(x)
        return answer

    def learn_one(self, x: dict, y: Any) -> None:
        """Learn the target y of x if it was requested."""
        if self._skipped is not None and self._row(x) == self._skipped:
            self._skipped = None
        self._skip()
        self._learn(x, y)

    def _skip(self) -> None:
        """End the round of a row whose target was not requested."""
        if self._learner is not None and self._skipped is not None:
            self._learner.learn_one(self._skipped, None)
        self._skipped = None


@dataclasses.dataclass(eq=False, repr=False)
class OnlineMKLClassifier(_MiniBatch, _Online, base.MiniBatchClassifier):
    """Learn a classification with many kernels, without scaling or tuning.

    Inputs are treated as by ``OnlineMKLRegressor``. When a new input or a new class occurs, a new
    learner of all known inputs and classes learns the last 1,000 rows again, and everything learned
    before these rows is forgotten. If there are more than two classes, ``auto`` learns all classes
    with one learner, and other algorithms learn each class against the rest.

    Before the first row is learned the prediction is None. River's metrics do not count it, and
    ``omkl-run`` counts it as a mistake. As long as only one class has occurred, the prediction is
    this class.

    Parameters
    ----------
    algorithm, kernels, D, params, scaling, lags, horizon, features, columns
        As in ``omkl.online.estimator.LearnerParameters``.
    seed
        Seed of random features and choices.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._codes: dict[Any, int] = {}  # codes of the classes, in order of appearance
        self._classes: list[Any] = []  # classes by code

    @property
    def _multiclass(self) -> bool:
        return True

    def _further(self) -> dict[str, Any]:
        return {"task": "classification", "classes": range(len(self._classes))}

    def _make(self) -> None:
        if len(self._classes) > 1:
            super()._make()

    def predict_one(self, x: dict) -> Any:  # type: ignore[override]
        """Return the class of x, or None before the first class. Nothing is learned."""
        code = self._predicted(x)
        if self._learner is None:
            return self._classes[0] if self._classes else None
        return self._classes[code]

    def predict_proba_one(self, x: dict) -> dict[Any, float]:  # type: ignore[override]
        """Return the probability of each class, or {} before the first class.

        Raises NotImplementedError, as River expects, if the algorithm has no probabilities.
        """
        self._predicted(x)
        if self._learner is None:
            return dict.fromkeys(self._classes, 1.0)
        if not self._learner.algorithm.probabilities:
            raise NotImplementedError(f"{self.algorithm} predicts no probabilities; auto does")
        return dict(zip(self._classes, self._learner.probabilities, strict=True))

    def learn_one(self, x: dict, y: Any) -> None:
        """Learn the class y of x. Raises ValueError for None and NaN."""
        if is_blank(y):
            raise ValueError(f"a class is a text or a number, and this is {y}")
        new = y not in self._codes
        if new:
            self._codes[y] = len(self._classes)
            self._classes.append(y)
        try:
            self._learn(x, self._codes[y], new)
        except ValueError:
            if new:
                self._classes.pop()
                del self._codes[y]
            raise

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the class probabilities of each row, as if it came next; one column per class."""
        import pandas as pd  # imported here: River works without it

        rows = [self.predict_proba_one(x) for x in X.to_dict("records")]
        return pd.DataFrame(rows, index=X.index, columns=self._classes)
