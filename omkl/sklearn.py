"""Use ``omkl.learner`` and ``omkl.panel`` as estimators of scikit-learn (extra ``sklearn``).

>>> from sklearn.datasets import load_diabetes
>>> from omkl.sklearn import OnlineMKLRegressor
>>> X, y = load_diabetes(return_X_y=True)
>>> model = OnlineMKLRegressor().fit(X[:300], y[:300])
>>> model.predict_interval(X[300:]).shape
(142, 2)
"""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from omkl.utils.wording import how_to_install

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_regressor
    from sklearn.utils import check_array, check_random_state, gen_batches
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.multiclass import check_classification_targets, unique_labels
    from sklearn.utils.validation import (
        check_consistent_length,
        check_is_fitted,
        check_X_y,
        validate_data,
    )
except ImportError as error:
    raise ImportError(
        f"omkl.sklearn needs scikit-learn 1.8 or later: {how_to_install('sklearn')} ({error})"
    ) from None

from omkl.datasets.columns import NUMBERS, Column
from omkl.online.estimator import LearnerParameters, PanelParameters, RegressorParameters
from omkl.online.rows import Rows, columns_in, is_frame, of_numbers, with_names

if TYPE_CHECKING:
    from omkl.online.learner import OnlineLearner

PAST_TARGETS = ("auto", "auto_classifier", "last")  # algorithms with past targets even if lags=0
ROWS = 1000  # rows learned or predicted at once; results do not depend on this number


class _Online(LearnerParameters, BaseEstimator):
    """Check rows and sample weights, and pass the rows to the estimator's ``OnlineLearner``."""

    learner_: OnlineLearner
    columns_: list[Column]
    new_categories_: dict[str, Counter[str]]
    _table: Rows | None
    n_features_in_: int
    weight_: float
    random_state: int | np.random.RandomState | None
    past_targets: bool | str

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.scaling == "columns"
        return tags

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # joblib maps arrays from a file read-only, and learning writes to them.
        if hasattr(self, "learner_"):
            self.learner_ = copy.deepcopy(self.learner_)

    def _rows(self, X: Any, y: Any = "no_validation", reset: bool = False) -> Any:
        """Return rows (n, d), and labels if given, checked by scikit-learn.

        Labels are (n,), or (n, m) in a regression with m outputs. Texts, categories and dates of a
        data frame are encoded as numbers. The first data frame has decided the encodings.
        """
        if reset:
            self._begin(X, y)
        if self._has_series:
            return self._rows_of_series(X, y, reset)
        if self.columns_ and not is_frame(X):
            raise ValueError(
                "the model was fitted on a data frame with text or dates: give X as a data "
                "frame with these columns"
            )
        table = self._table if is_frame(X) and (self.columns_ or not of_numbers(X)) else None
        if table is not None:
            validate_data(self, X, reset=reset, skip_check_array=True)
            X = table.many(X, None if isinstance(y, str) else self.new_categories_)
        options: dict[str, Any] = {
            "dtype": np.float64,
            "force_writeable": True,
            "ensure_all_finite": "allow-nan" if self.scaling == "columns" else True,
        }
        numeric = {}
        if is_regressor(self) and not isinstance(y, str):
            numeric = {"y_numeric": True, "multi_output": True}
        if table is None:
            return validate_data(self, X, y, reset=reset, **options, **numeric)
        if isinstance(y, str):
            return check_array(X, **options)
        return check_X_y(X, y, **options, **numeric)

    @property
    def _has_series(self) -> bool:
        return self.settings_of_task.get("series") is not None

    def _rows_of_series(self, X: Any, y: Any, reset: bool) -> Any:
        """Check a data frame X and targets (n,), if given, and return them without encoding."""
        X = with_names(X)
        if not is_frame(X):
            column = self.settings_of_task["series"]
            raise ValueError(
                f"rows by position have no column {column!r}: give X as a data frame with it"
            )
        validate_data(self, X, reset=reset, skip_check_array=True)
        if isinstance(y, str):
            return X
        check_consistent_length(X, y)
        return X, check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")

    def _begin(self, X: Any, y: Any) -> None:
        """Decide the encodings of columns from the first data frame."""
        self.columns_, self.new_categories_, self._table = [], {}, None
        if is_frame(X) and not self._has_series:
            names = [str(name) for name in X.columns]
            if self.columns or not of_numbers(X):
                validate_data(self, X, y, reset=True, skip_check_array=True)
                columns = columns_in(X, names, self.columns)
                if any(column.recipe != NUMBERS for column in columns):
                    self.columns_ = [column for column in columns if column.inputs]
            inputs = [name for column in self.columns_ for name in column.inputs] or names
            self._table = Rows(inputs, True, self.columns_, names)

    def _made(self, X: Any, task: str, **further: Any) -> OnlineLearner:
        """Return a new learner for rows like X (n, d)."""
        # By the names of the inputs the learner finds the codes of categories.
        inputs = self._table.inputs if self._table else X.shape[1]
        return self.new_learner(
            inputs=None if self._has_series else inputs,
            seed=_seed(self.random_state),
            task=task,
            **further,
        )

    def _in_order(self, rounds: np.ndarray, fit: bool) -> np.ndarray:
        """Return the indices ``rounds`` of rows in the order of learning: as given, or random.

        ``fit`` is True in the method ``fit``. The rows to predict after ``fit`` need not follow the
        last learned row, so the latest targets could mislead a learner that reads past targets. In
        random order past targets carry no information, and the learner gives them no weight.
        """
        if self.past_targets not in (True, False, "auto"):
            raise ValueError(f"past_targets={self.past_targets!r} is none of True, False, 'auto'")
        as_given = self.past_targets
        if as_given == "auto":
            needs_order = self.lags > 0 or self._has_series or self.algorithm not in PAST_TARGETS
            as_given = not fit or needs_order
        if as_given:
            return rounds
        return rounds[np.random.default_rng(self.learner_.settings.seed).permutation(len(rounds))]

    def _go_through(self, X: Any, y: np.ndarray, rounds: np.ndarray) -> None:
        """Learn rows in the order of ``rounds``."""
        if self._has_series:  # a block would cut the rows of a date in two
            self.learner_.partial_fit(X.iloc[rounds], y[rounds])
            self.new_categories_ = self.learner_.new_categories
            return
        for part in gen_batches(len(rounds), ROWS):
            self.learner_.partial_fit(X[rounds[part]], y[rounds[part]])

    def _blocks(self, X: Any) -> Iterator[Any]:
        """Return the checked rows X in blocks. With ``series`` all rows are one block."""
        check_is_fitted(self, "learner_")
        X = self._rows(X)
        if self._has_series:
            return iter([X])
        return (X[part] for part in gen_batches(len(X), ROWS))

    def _rounds(self, X: np.ndarray, sample_weight: Any, fresh: bool) -> np.ndarray:
        """Return the indices of rows to learn; a row of weight w occurs w times."""
        before = 0.0 if fresh else self.weight_
        if sample_weight is None:
            self.weight_ = before + len(X)
            return np.arange(len(X))
        w = check_array(
            sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
        )
        if w.ndim != 1:
            raise ValueError(f"sample_weight is one number a row (n,); got {w.shape}")
        check_consistent_length(X, w)
        if (w < 0.0).any():
            raise ValueError(f"sample_weight is not negative; got {w.min()}")
        if fresh and not w.any():
            raise ValueError("sample_weight: all weights are zero, so there is nothing to learn")
        total = np.cumsum(np.concatenate([[before], w]))
        copies = np.diff(np.floor(total)).astype(np.int64)
        if fresh and not copies.any():
            raise ValueError(
                f"sample_weight sums to {total[-1]}, so no row is learned, as a weight is a number "
                "of copies: scale the weights to a mean of 1"
            )
        self.weight_ = float(total[-1])
        return np.repeat(np.arange(len(X)), copies)


@dataclasses.dataclass(eq=False, repr=False)
class OnlineMKLRegressor(RegressorMixin, RegressorParameters, _Online):
    """Learn a regression row by row, with many kernels and adaptive intervals.

    ``fit`` forgets earlier rows and reads the new rows once. ``partial_fit`` continues with further
    rows in order. Inputs and targets need no scaling. A missing input, NaN, is replaced by the mean
    of its column so far. Texts, categories and dates of a data frame become numbers as in a file
    (``omkl.columns``). After ``partial_fit`` a learner with past targets (``auto``, or ``lags``)
    assumes that the row to predict follows the last learned row.

    Targets y (n, m) are m outputs. Each output is learned exactly as by a separate estimator. An
    active-learning algorithm supports one output only.

    Parameters
    ----------
    algorithm, kernels, D, params, scaling, lags, horizon, features, columns
        As in ``omkl.online.estimator.LearnerParameters``.
    interval, interval_rate, series, season, series_delay, max_series
        As in ``omkl.online.estimator.RegressorParameters``. With ``series`` X is a data frame, and
        the estimator equals ``omkl.learner("auto", series=...)``. A date should not be split
        between two calls of ``partial_fit``.
    random_state
        The seed. A whole number is the seed of ``omkl-run seed=``.
    past_targets
        Whether predictions may use the latest targets. True: rows are learned in order, as by
        ``omkl-run``, and predictions use the latest targets. False: rows are learned in random
        order, in which past targets carry no information. "auto": ``partial_fit`` learns in order,
        and ``fit`` in random order, because the rows to predict after ``fit`` need not follow the
        last learned row. If ``series`` or ``lags`` is set, or the algorithm uses no past targets,
        ``fit`` also learns in order.

    Attributes
    ----------
    learner_
        The trained ``OnlineLearner``.
    weight_
        The sum of all sample weights so far.
    new_categories_
        For each column, the categories that did not occur in the first rows, with the number of
        later rows that had them.
    n_features_in_, feature_names_in_
        As in all of scikit-learn.
    """

    random_state: int | np.random.RandomState | None = 0
    past_targets: bool | str = "auto"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn rows X (n, d) and targets y, and forget earlier rows; see ``past_targets``.

        Parameters
        ----------
        X, y
            Rows (n, d), and targets (n,), or (n, m) for m outputs. A later ``partial_fit`` takes
            the same number of outputs.
        sample_weight
            (n,) numbers >= 0. A row of weight w is learned floor(W + w) - floor(W) times, where W
            is the sum of the weights before this row. A whole number w therefore means w copies.
            Scale weights to a mean of 1: weights that sum to 1 would learn a single row.

        Raises
        ------
        ValueError
            An argument is wrong. The message names it.
        """
        return self._learn(X, y, sample_weight, fresh=True, fit=True)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn further rows. The split into calls does not change the result.

        Parameters
        ----------
        X, y, sample_weight
            As in ``fit``.
        """
        return self._learn(X, y, sample_weight, fresh=not hasattr(self, "learner_"))

    def _learn(self, X: Any, y: Any, sample_weight: Any, fresh: bool, fit: bool = False) -> Self:
        X, y = self._rows(X, y, reset=fresh)
        rounds = self._rounds(X, sample_weight, fresh)
        if fresh:
            outputs = y.shape[1] if y.ndim == 2 else None
            self.learner_ = self._made(X, "regression", outputs=outputs)
        self._go_through(X, y, self._in_order(rounds, fit))
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the prediction (n,) of each row of X (n, d), as if this row came next.

        Nothing is learned. If ``return_std`` is True, return a pair: the predictions, and the
        expected standard deviations (n,) of their errors, NaN if unknown. Raises ValueError if
        ``return_std`` is True and the algorithm has no standard deviation. With m outputs all
        results are (n, m).
        """
        if not return_std:
            return np.concatenate([self.learner_.predict(rows) for rows in self._blocks(X)])
        blocks = [self.learner_.predict(rows, return_std=True) for rows in self._blocks(X)]
        return tuple(np.concatenate(arrays) for arrays in zip(*blocks, strict=True))

    def predict_interval(self, X: Any) -> np.ndarray:
        """Return the ends (n, 2) of the interval of each row of X (n, d), as if it came next.

        Nothing is learned. With m outputs the result is (n, m, 2). Intervals learn from the errors
        of the predictions in ``fit`` and ``partial_fit``. They adapt so that the share ``interval``
        of the targets lies inside. The ends are NaN before the first error is learned. With
        ``series`` or a season they are NaN until two targets of the row's series differ.
        """
        return np.concatenate([self.learner_.predict_interval(r) for r in self._blocks(X)])


@dataclasses.dataclass(eq=False, repr=False)
class PanelMKLRegressor(RegressorMixin, PanelParameters, BaseEstimator):
    """Learn a regression per series, such as devices or shops, with ``omkl.panel``.

    The series of a row is in the column ``series`` of a data frame X. Otherwise it is the separate
    argument ``series`` of the methods, which scikit-learn's metadata routing passes on.

    Parameters
    ----------
    algorithm, kernels, D, params, scaling, lags, horizon, features, columns
        As in ``omkl.online.estimator.PanelParameters``.
    series
        Column of the series of a row; None: series are given separately.
    max_series, share_weights, share_scaling, interval, interval_rate
        As in ``omkl.panel``.
    random_state
        The seed. A whole number is the seed of ``omkl-run seed=``.

    Attributes
    ----------
    panel_
        The trained ``Panel``.
    """

    random_state: int | np.random.RandomState | None = 0

    def fit(self, X: Any, y: Any, series: Any = None) -> Self:
        """Learn rows X (n, d), targets y (n,) and series (n,), and forget earlier rows.

        Parameters
        ----------
        X, y
            Rows and targets.
        series
            Series of each row; None: the column ``series`` of X.
        """
        self.panel_ = self.new_panel(_seed(self.random_state))
        return self.partial_fit(X, y, series)

    def partial_fit(self, X: Any, y: Any, series: Any = None) -> Self:
        """Learn further rows of any series. The split into calls does not change the result.

        Parameters
        ----------
        X, y, series
            As in ``fit``.
        """
        if not hasattr(self, "panel_"):
            return self.fit(X, y, series)
        check_consistent_length(X, y, series)
        self.panel_.partial_fit(X, y, series)
        return self

    def predict(self, X: Any, series: Any = None) -> np.ndarray:
        """Return the prediction (n,) of each row of X (n, d), as if it came next in its series."""
        check_is_fitted(self, "panel_")
        return self.panel_.predict(X, series)

    def predict_interval(self, X: Any, series: Any = None) -> np.ndarray:
        """Return the ends (n, 2) of the interval of each row, as if it came next in its series."""
        check_is_fitted(self, "panel_")
        return self.panel_.predict_interval(X, series)


def _seed(random_state: Any) -> int:
    """Return ``random_state`` if it is a whole number; otherwise draw a seed from it."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))


def _has_probabilities(model: _Online) -> bool:
    """Return True if a classifier's algorithm has probabilities; else raise AttributeError."""
    if not model.algorithm_for("classification").probabilities:
        raise AttributeError(f"{model.algorithm} predicts no probabilities; auto does")
    return True


@dataclasses.dataclass(eq=False, repr=False)
class OnlineMKLClassifier(ClassifierMixin, _Online):
    """Learn a classification row by row, with many kernels.

    ``fit`` forgets earlier rows and reads the new rows once. ``partial_fit`` continues with further
    rows in order. Inputs need no scaling. A missing input, NaN, is replaced by the mean of its
    column so far. Texts, categories and dates of a data frame become numbers as in a file
    (``omkl.columns``). If there are more than two classes, ``auto`` learns all classes with one
    learner, and other algorithms learn each class against the rest.

    Parameters
    ----------
    algorithm, kernels, D, params, scaling, lags, horizon, features, columns
        As in ``omkl.online.estimator.LearnerParameters``.
    random_state
        The seed. A whole number is the seed of ``omkl-run seed=``.
    past_targets
        As in ``OnlineMKLRegressor``.

    Attributes
    ----------
    classes_
        (K,) sorted classes. The learner codes two classes as -1 and +1, in this order.
    learner_
        The trained ``OnlineLearner``; its classes are indices of ``classes_``.
    weight_
        The sum of all sample weights so far.
    n_features_in_, feature_names_in_
        As in all of scikit-learn.
    """

    random_state: int | np.random.RandomState | None = 0
    past_targets: bool | str = "auto"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn rows X (n, d) and classes y (n,), and forget earlier rows; see ``past_targets``.

        Parameters
        ----------
        X, y
            Rows (n, d) and classes (n,).
        sample_weight
            As in ``OnlineMKLRegressor.fit``.

        Raises
        ------
        ValueError
            An argument is wrong. The message names it.
        """
        return self._learn(X, y, None, sample_weight, fresh=True, fit=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn further rows. The split into calls does not change the result.

        Parameters
        ----------
        X, y, sample_weight
            As in ``fit``.
        classes
            All classes. Required in the first call, because some classes may first occur later.
        """
        fresh = not hasattr(self, "learner_")
        if fresh and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit: all of them")
        given = self.classes_ if classes is None else unique_labels(classes)
        if not fresh and not np.array_equal(given, self.classes_):
            raise ValueError(f"classes={given} are not those of the first call: {self.classes_}")
        return self._learn(X, y, given, sample_weight, fresh)

    def _learn(
        self, X: Any, y: Any, classes: Any, sample_weight: Any, fresh: bool, fit: bool = False
    ) -> Self:
        X, y = self._rows(X, y, reset=fresh)
        check_classification_targets(y)
        rounds = self._rounds(X, sample_weight, fresh)
        known = unique_labels(y) if classes is None else classes
        if len(known) < 2:
            raise ValueError(f"there is one class alone, {known}: two classes are the fewest")
        if not np.isin(y, known).all():
            raise ValueError(f"y has the classes {np.setdiff1d(y, known)}; there are: {known}")
        if fresh:
            self.classes_ = known
            self.learner_ = self._made(X, "classification", classes=range(len(known)))
        self._go_through(X, np.searchsorted(known, y), self._in_order(rounds, fit))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the class (n,) of each row of X (n, d), as if it came next. Nothing is learned."""
        codes = [self.learner_.predict(rows) for rows in self._blocks(X)]
        return self.classes_[np.concatenate(codes)]

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities (n, K) of the classes for each row of X, as if it came next.

        The method exists only if the algorithm has probabilities.
        """
        return np.concatenate([self.learner_.predict_proba(rows) for rows in self._blocks(X)])
