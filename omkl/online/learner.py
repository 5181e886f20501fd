"""The learner of users and runs: it reads and scales rows, and hands them to ``core.Learner``.

An input is standardised with what its column held up to and in its row, a target with those known
before. Users call ``partial_fit``, ``predict_one`` and ``learn_one`` with rows as they come. A run
calls ``learn_rows`` with rows that its stream has scaled once for all seeds.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core import snapshot
from omkl.core.kernels import FAMILIES
from omkl.core.learner import Learner, Trace
from omkl.core.robust_moments import FAR
from omkl.core.snapshot import below
from omkl.core.weights import normalised
from omkl.datasets.columns import FEWEST_ROWS, NUMBERS, Column, class_codes, columns_described
from omkl.datasets.scaling import KnownTargets, Moments, TargetScaler, softened
from omkl.online import model_file
from omkl.online.intervals import AdaptiveIntervals
from omkl.online.predictions import (
    ROWS,
    SAID,
    Predictions,
    RecentPredictions,
    RowPrediction,
    stacked,
)
from omkl.online.rows import (
    Rows,
    columns_in,
    is_frame,
    of_numbers,
    targets_of,
    with_names,
)
from omkl.online.settings import LearnerSettings, input_names
from omkl.utils.disk import write_atomically

if TYPE_CHECKING:
    import pandas as pd

LARGEST = 1e150  # of an input that is scaled: squares stay below the largest number


class TargetLearner(NamedTuple):
    """The parts that learn one target of a row.

    learners    one, or one per class against the rest
    scaler      its past values, and its units
    intervals   None where none are put around predictions
    """

    learners: list[Learner]
    scaler: TargetScaler
    intervals: AdaptiveIntervals | None


class OnlineLearner:
    """A learner of d inputs, which ``omkl.learner`` makes.

    ``predict_one(x)`` changes nothing, and ``learn_one(x, y)`` learns a row. Targets may come
    at once, or late and in any order.

    A row x is an array or a list (d,), or a mapping by name where inputs have names; rows X are an
    array (n, d), a list of rows, or a data frame. An input may be NaN or None where it is not
    known, or missing in a mapping: it counts as the mean of its column so far. Names that the
    learner was not made for are ignored, with one warning. Texts, categories and dates in rows by
    name become numbers as in a file (``omkl.columns``); what they become, and without ``inputs``
    the inputs themselves, follows from the first rows.

    Attributes
    ----------
    settings    what it was made with
    inputs      names of the numbers that it learns from (d,), () before the first row
    columns     how columns of texts and dates become inputs, ``omkl.datasets.columns.Column``; ()
                where all are numbers; ``left_out`` names those that are no inputs
    classes     of a classification, () of a regression
    outputs     names of the targets of a row, or their places, () where it has one. Of m outputs a
                target is y (m,), or a mapping by name; a prediction is an array (m,), or a mapping
                where outputs have names; of n rows all are arrays (n, m). One that is None or NaN
                teaches its output nothing
    n_rows      rows that it has learned from
    asks        whether it requests the target of the row that ``predict_one`` predicted last; only
                learners of active learning may not
    spread      the standard deviation that it expects of the error of that prediction, NaN where it
                has none
    interval    the ends of the interval of that prediction: NaN before the first label, and without
                ``interval=`` where the algorithm has none of its own
    probabilities   of the classes in their order, of that prediction; () where the algorithm has
                none

    Parameters
    ----------
    settings, columns, left_out
        As the attributes.
    threads
        Threads of an exact-kernel learner; others use one.
    delay
        ``learn_rows`` learns a target when so many later rows are predicted.
    """

    def __init__(
        self,
        settings: LearnerSettings,
        columns: Sequence[Column] = (),
        left_out: Sequence[str] = (),
        threads: int = 1,
        delay: int = 0,
    ) -> None:
        self.classes, self.outputs = settings.classes, settings.outputs
        self.left_out = tuple(left_out)
        self._threads, self._delay = threads, delay
        self._recent = RecentPredictions(settings.max_pending)
        self._said: RowPrediction | None = None  # by the last predict_one
        # The last prediction, its row, standardised, and this row as each target's learners read
        # it, while nothing is learned after it.
        self._last: tuple[RowPrediction | None, Any, list[Any]] = None, None, []
        # Rows as ``learn_rows`` learns them later, what was predicted of them, and their targets.
        self.waiting: collections.deque[tuple[np.ndarray, RowPrediction, Any]]
        self.waiting = collections.deque()
        self._open = settings.named and not columns  # no row has come yet
        self._make(settings, columns)

    def _make(self, settings: LearnerSettings, columns: Sequence[Column]) -> None:
        """A learner that has seen nothing, once its inputs are known."""
        self.settings, self.inputs, self.columns = settings, settings.inputs, tuple(columns)
        self._table = Rows(self.inputs, settings.named, self.columns, self.left_out)
        self._moments = None
        self.specification = settings.specification().of_classes(len(self.classes))
        self.algorithm = self.specification.algorithm
        columns_scaled = settings.scaling == "columns"
        # Whether targets are learned in units of those known when their row was predicted.
        self.moves = columns_scaled and not (self.classes or self.algorithm.equivariant)
        self.softens = columns_scaled and not self.algorithm.reads_uncut
        self._targets: list[TargetLearner] = []
        if not self.inputs:
            return
        self._moments = Moments(len(self.inputs)) if columns_scaled else None
        drawn: Learner | None = None
        for _ in self.outputs or (None,):
            learners = []
            for _ in range(self.specification.n_learners(len(self.classes))):
                learners.append(self._core_learner(drawn))
                drawn = drawn or learners[0]
            around = settings.intervals
            intervals = AdaptiveIntervals(around, late=columns_scaled) if around else None
            scaler = TargetScaler(settings.lags, columns_scaled)
            self._targets.append(TargetLearner(learners, scaler, intervals))

    def _core_learner(self, drawn: Learner | None) -> Learner:
        """A fresh learner with the random features of ``drawn``, where it has any."""
        share = self.algorithm.representation.with_zero_weights
        model = share(drawn.state.model) if drawn and share else None
        n_inputs = len(self.inputs) + self.settings.lags
        return self.specification.learner(n_inputs, self.settings.seed, self._threads, model)

    def _begin(self, first: Any) -> None:
        """Learn of the first rows, or row, which inputs there are and what becomes of them.

        ValueError for what is no row leaves the learner without inputs.
        """
        first = with_names(first)
        by_name = is_frame(first) or isinstance(first, Mapping)
        if not by_name and isinstance(first, Sequence) and len(first):
            by_name = all(isinstance(row, Mapping) for row in first)
        given = self.settings.inputs
        if by_name and given and of_numbers(first):
            self._open = False
            return
        if by_name:
            columns = columns_in(first, given or None)
            if given:
                there = {column.name: column for column in columns}
                plain = (Column(name, "numbers", (name,), recipe=NUMBERS) for name in given)
                columns = [there.get(column.name, column) for column in plain]
            self.left_out = tuple(column.name for column in columns if not column.inputs)
            why = [f"{column.name}: {column.why}" for column in columns if not column.inputs]
            columns = [column for column in columns if column.inputs]
            inputs = tuple(name for column in columns for name in column.inputs)
            if not inputs:
                raise ValueError("no column is left as an input: omkl.columns(frame) says why")
            n = 1 if isinstance(first, Mapping) else len(first)
            if why and n < FEWEST_ROWS:  # later rows may well have values
                warnings.warn(
                    f"left out of the inputs, in later rows too ({'; '.join(why)}): name the "
                    "inputs with inputs=, or let more rows come first",
                    stacklevel=3,
                )
            if given and all(column.recipe == NUMBERS for column in columns):
                columns = []
        elif given:
            self._open = False
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
        self._make(settings, columns)  # bandwidths may be per input
        self._open = False

    def __repr__(self) -> str:
        task = f"{len(self.classes)} classes" if self.classes else "regression"
        task = f"{len(self.outputs)} outputs" if self.outputs else task
        inputs = f"{len(self.inputs)} inputs" if self.inputs else "inputs of the first row"
        return f"OnlineLearner({self.settings.algorithm!r}, {inputs}, {task}, {self.n_rows} rows)"

    @property
    def asks(self) -> bool:
        return self._said is not None and self._said.asked

    @property
    def spread(self) -> Any:
        return math.nan if self._said is None else self._said.spread

    @property
    def interval(self) -> tuple[Any, Any]:
        if self._said is None or self.classes:
            return math.nan, math.nan
        return self._said.y_hat - self._said.half, self._said.y_hat + self._said.half

    @property
    def probabilities(self) -> tuple[float, ...]:
        if self._said is None or not self.algorithm.probabilities:
            return ()
        return tuple(probabilities_of(np.array([self._said.y_hat]))[0].tolist())

    @property
    def _names_outputs(self) -> bool:
        return bool(self.outputs) and isinstance(self.outputs[0], str)

    @property
    def waits_for_inputs(self) -> bool:
        """Whether the first rows are still to decide which inputs there are."""
        return self._open

    def numbers_of(self, X: Any) -> np.ndarray:
        """Rows X as numbers (n, d), not scaled yet; the first decide which inputs there are.

        ValueError names what is no row, or no number that a learner can take.
        """
        if self._open:
            self._begin(X)
        return self._read(X)

    @property
    def has_intervals(self) -> bool:
        """Whether the learner was made with ``interval=``."""
        return self.settings.interval is not None

    @property
    def n_rows(self) -> int:
        """The most that any output has learned from."""
        return max((target.learners[0].t for target in self._targets), default=0)

    def predict_one(self, x: Any) -> Any:
        """Predict the row x as the next one: a number or a class. Nothing is learned.

        The prediction is remembered until ``learn_one`` of the same row. ``asks``, ``spread``,
        ``interval`` and ``probabilities`` are then those of this prediction. The first row decides
        which inputs there are, where the learner was made without ``inputs``.
        """
        if self._open:
            self._begin(x)
        row = self._table.one(x)
        said = self._said = self._predict_row(row)
        self._recent.add(row, said)
        if self.classes:
            return self.classes[_codes_of(np.array([said.y_hat]))[0]]
        if self._names_outputs:
            return dict(zip(self.outputs, said.y_hat.tolist(), strict=True))
        return said.y_hat

    def _predict_row(self, row: np.ndarray) -> RowPrediction:
        """What is said of a row of numbers (d,); FloatingPointError if that is not finite."""
        z, far = self._standardised_row(row, learns=False)
        said = self._predict_scaled(z, far)
        if type(said.y_hat) is not float or not math.isfinite(said.y_hat):
            self.require_finite(np.array(said.y_hat))
        return said

    def learn_one(self, x: Any, y: Any = None) -> None:
        """Learn the target y of the row x.

        It may follow ``predict_one`` of the row at once, come after other rows, in any order, or
        without a prediction. A row that was predicted is learned with the past targets that it was
        predicted with, and intervals learn from the error of that prediction. Of equal rows the one
        that was predicted first is learned first. At most ``max_pending`` predictions are
        remembered, the last ones: an older one counts as none.

        Where ``asks`` is False the target is not looked at, and None ends the round of the row.
        Else nothing is learned from a target that is NaN or None but how the inputs lie.
        ValueError names a row or a target that is none, and nothing is learned then.
        """
        label = self._label(y)
        if self._open:
            self._begin(x)
        self._learn_row(self._table.one(x), label)

    def _learn_row(self, row: np.ndarray, label: Any) -> RowPrediction:
        """Learn a row of numbers (d,), and return what was said of it."""
        said = self._recent.take(row) or self._predict_row(row)
        last, z, _ = self._last
        if said is not last:
            z, _ = self._standardised_row(row, learns=True)
        elif self._moments:
            self._moments.take_row_ahead()
        self._learn_scaled(z, label, said)
        return said

    def partial_fit(self, X: Any, y: Any) -> Predictions:
        """Predict and learn, row by row: rows X and targets y (n,). Any split gives the same bits.

        A target may be NaN or None: its row is predicted, and nothing is learned from it.
        A row that ``predict_one`` has predicted is learned as by ``learn_one``.
        Returns what was said before each label. ValueError names a row that is none, and nothing
        is learned then.
        """
        labels = self.labels(y)
        if len(labels) != len(X):
            raise ValueError(f"{len(X)} rows X and {len(labels)} labels y")
        if self._open:
            self._begin(X)
        rows = self._read(X)
        if len(rows) == 1 or (len(self._recent) and any(row in self._recent for row in rows)):
            of_rows = labels if self.outputs else labels.tolist()
            found = stacked(list(map(self._learn_row, rows, of_rows)), labels)
        else:
            standardised, far = self._standardised(rows, learns=True)
            found = self.learn_rows(standardised, labels, far)
            self.require_finite(found.y_hat)
        return found._replace(y_hat=self._answers(found.y_hat)) if self.classes else found

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """What ``predict_one`` would say of each row of X as the next, (n,).

        Nothing is learned and nothing changes: before the first row a learner without inputs does
        not take those of X either. With ``return_std`` also its standard deviation (n,), NaN
        before it is known; ValueError of a learner that has none.
        """
        if return_std and not self.algorithm.has_spread:
            name = self.settings.algorithm
            raise ValueError(f"{name} gives no standard deviation of its predictions; auto does")
        y_hat, spread, _ = self._predicted(X)
        answers = self._answers(y_hat) if self.classes else y_hat
        return (answers, spread) if return_std else answers

    def predict_interval(self, X: Any) -> np.ndarray:
        """The ends (n, 2) of the interval of each row of X as the next; changes nothing.

        Of m outputs (n, m, 2). Rows ``far_out`` have intervals of a width of their own.

        Raises ValueError unless the learner was made with ``interval=``.
        """
        if not self.has_intervals:
            raise ValueError("there are no intervals: make the learner with interval=0.9, say")
        look = self._looking_at(X)
        y_hat, _, far = look._predicted(X)
        half = np.stack([_half_widths(one, far) for one in look._targets], axis=-1)
        half = half if self.outputs else half[:, 0]
        return np.stack([y_hat - half, y_hat + half], axis=-1)

    def far_out(self, X: Any) -> np.ndarray:
        """Which inputs (n, d) of rows X are beyond 4 deviations of what their columns held so far.

        Each row is looked at as the next; nothing changes. Where most values of a column are the
        same number, the others are measured with each other. ValueError of a learner that does not
        scale its inputs.
        """
        if self.settings.scaling != "columns":
            raise ValueError(
                f"what is far out is not known with scaling={self.settings.scaling}: make the "
                "learner with scaling=columns"
            )
        look = self._looking_at(X)
        assert look._moments is not None
        return look._moments.standardised_each(look._read(X)).far

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (n, K) of the classes, in their order; changes nothing.

        ValueError of a learner that predicts classes and no probabilities.
        """
        if not self.algorithm.probabilities:
            raise ValueError(
                f"{self.settings.algorithm} says no probabilities; auto does, for classes"
            )
        return probabilities_of(self._predicted(X)[0])

    @property
    def experts(self) -> tuple[str, ...]:
        """Names of what it weighs: kernels, or the experts of ``auto`` and the baselines.

        Before the first row says how many inputs there are, those of one input.
        """
        made = self.specification
        n_inputs = len(self.inputs) + self.settings.lags if self.inputs else 1
        kernels = made.algorithm.kernels(made.params, made.dictionary, n_inputs)
        families = [kernel.family for kernel in kernels]
        return tuple(
            f"{family}({number:g})" if family in FAMILIES or families.count(family) > 1 else family
            for family, number, _ in kernels
        )

    @property
    def weights(self) -> pd.Series | pd.DataFrame:
        """The weight of each kernel or expert by its name, as shares of 1.

        Of several outputs a frame, a column an output; of more than two classes that are each
        learned against the rest a column a class.
        """
        return self._by_expert([normalised(one.state.log_w) for one in self.learners], "weight")

    @property
    def importance(self) -> pd.Series | pd.DataFrame:
        """The importance of each input by its name, as shares of 1; of ``auto`` and its classifier.

        It is the share of the gain of the boosted trees: by how much the cuts of an input reduced
        their errors on the last rows. Past targets count together, as the last entry. NaN before
        trees are first grown, after 500 rows. Noise has a share too: inputs that say nothing share
        some of it. Of several outputs a frame, a column an output. ValueError of a learner
        without trees.
        """
        self._require_inputs()
        found = [self._importance_of(target.learners[0]) for target in self._targets]
        if not len(found[0]):
            raise ValueError(
                f"{self.settings.algorithm} does not measure the importance of inputs: auto does"
            )
        return self._by_name(found, "importance", [*self.inputs, "past targets"], "input")

    def explain(self, x: Any) -> pd.DataFrame:
        """What each kernel or expert would predict for the row x as the next; nothing changes.

        Which inputs matter is ``importance``.

        Returns
        -------
        A ``pandas.DataFrame`` by kernel or expert, with the columns ``prediction`` and ``weight``;
        a prediction is in the unit of the target, or between -1 and 1 for the second of two
        classes, and NaN where the next round would not evaluate the kernel. Of more than two
        classes that are learned together (``auto``) it is the probability of the class that the
        expert finds likeliest; of others the columns are those of each class against the rest:
        (class, "prediction"), (class, "weight"); of several outputs likewise.
        """
        import pandas as pd

        look = self._looking_at(x)
        row, _ = look._standardised(look._checked(look._table.one(x)[None, :]), learns=False)
        outputs = [f for target in look._targets for f in look._outputs_of(target, row)]
        predictions = look._by_expert(outputs, "prediction")
        parts = {"prediction": predictions, "weight": look.weights}
        if len(outputs) == 1:
            return pd.DataFrame(parts)
        return pd.concat(parts, axis=1).swaplevel(axis=1).sort_index(axis=1)

    @property
    def learners(self) -> list[Learner]:
        """The core learners: of each output one, or of each class that is learned by itself."""
        self._require_inputs()
        return [learner for target in self._targets for learner in target.learners]

    def _require_inputs(self) -> None:
        if not self.inputs:
            raise RuntimeError("the learner has seen no row: it does not know its inputs yet")

    def _by_expert(self, values: Sequence[np.ndarray], name: str) -> Any:
        """Values (N,) of each of its learners as a Series, or as a frame by class."""
        return self._by_name(values, name, self.experts, "expert")

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
        """Write all that it is and has learned to a file; ``omkl.load_learner`` goes on with it.

        Predictions whose targets are still to come are among it.
        """
        write_atomically(Path(path).expanduser(), self.file())

    def file(self, columns: Any = None) -> bytes:
        """What ``save`` writes; ``columns`` as ``model_file.content``, in place of its own."""
        if not self.inputs:
            raise RuntimeError("it has seen no row and does not know its inputs: nothing to save")
        columns = columns or self.columns_of_rows()
        arrays = self.arrays() | self._recent.arrays()
        return model_file.content(self.settings, arrays, columns)

    def columns_of_rows(self) -> dict[str, Any] | None:
        """How columns become inputs, as a file of a model says it; None where all are numbers."""
        if not self.columns:
            return None
        of_rows = [dataclasses.asdict(column) for column in self.columns]
        left_out = list(self.left_out)
        return {"reading": {}, "target": None, "columns": of_rows, "left_out": left_out}

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of all that it has learned, which ``restore`` takes."""
        found: dict[str, np.ndarray] = {}
        for m, target in enumerate(self._targets):
            head = f"output.{m}." if self.outputs else ""
            for k, learner in enumerate(target.learners):
                found |= _named(f"{head}learner.{k}.", snapshot.snapshot(learner))
            found |= _named(f"{head}labels.", target.scaler.arrays())
            if target.intervals:
                found |= _named(f"{head}interval.", target.intervals.arrays())
        if self._moments:
            found |= _named("columns.", self._moments.arrays())
        return found

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        """Let a fresh learner go on where ``arrays`` were taken of one with the same settings.

        Raises ``snapshot.Mismatch`` where they do not fit, and it is of no use then.
        """
        self._open = False
        snapshot.require_names(self.arrays(), kept)
        for m, target in enumerate(self._targets):
            own = below(f"output.{m}.", kept) if self.outputs else kept
            for k, learner in enumerate(target.learners):
                snapshot.restore(learner, below(f"learner.{k}.", own))
            target.scaler.restore(below("labels.", own))
            if target.intervals:
                target.intervals.restore(below("interval.", own))
        if self._moments:
            self._moments.restore(below("columns.", kept))

    def _restore_recent(self, kept: Mapping[str, np.ndarray]) -> None:
        """Remember the predictions of a file; ValueError where they are none of this learner."""
        d = len(self.inputs)
        self._recent.restore(kept, self._predict_scaled(np.zeros(d)), d)

    def _predicted(self, X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of rows as the next: y_hat, (n,) or (n, K), spread (n,), and which (n,) are far out."""
        learner = self._looking_at(X)
        rows, far = learner._standardised(learner._read(X), learns=False)
        found = [learner._predict_rows_of(target, rows) for target in learner._targets]
        y_hat, spread = found[0]
        if self.outputs:
            y_hat, spread = (np.stack(arrays, axis=1) for arrays in zip(*found, strict=True))
        return y_hat, spread, far

    def _looking_at(self, rows: Any) -> OnlineLearner:
        """The learner, or before the first row a copy of it whose inputs are those of ``rows``."""
        if not self._open:
            return self
        look = copy.copy(self)
        look._begin(rows)
        return look

    def _read(self, X: Any) -> np.ndarray:
        return self._checked(self._table.many(X))

    def _checked(self, X: np.ndarray) -> np.ndarray:
        """ValueError for what is no number, of rows that may be the next."""
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
        """``_standardised`` of one row (d,), which is checked, to the last bit."""
        is_far = False
        if self._moments:
            found = self._moments.standardised_row(x, LARGEST, learns)
            if found is None:
                self._checked(x[None, :])
            else:
                x, is_far = found.z, True in found.far.tolist()
        elif not abs(x).max() <= LARGEST:  # or a number is NaN
            self._checked(x[None, :])
        return x, is_far

    def _standardised(self, X: np.ndarray, learns: bool) -> tuple[np.ndarray, np.ndarray]:
        """Rows with scaled inputs, and which (n,) are far out."""
        far = np.zeros(len(X), dtype=np.bool_)
        if moments := self._moments:
            taken = moments.standardised(X) if learns else moments.standardised_each(X)
            X, far = taken.z, taken.far_rows
        return X, far

    # --- Rows whose inputs are scaled -------------------------------------------------------------

    def learn_rows(
        self,
        X: np.ndarray,
        y: np.ndarray,
        far: np.ndarray | None = None,
        ahead: np.ndarray | None = None,
    ) -> Predictions:
        """Predict, then learn, row by row. Any split into blocks gives the same numbers.

        Rows without a target are predicted, and nothing is learned from them; they count as not
        asked. With a ``delay`` they wait as others do.

        Parameters
        ----------
        X, y
            Rows whose first d columns are scaled inputs, and targets (n,), or (n, m) of m outputs;
            NaN where there is none, and classes as codes.
        far
            (n,) bool, which rows are far out, whose intervals are wider; None: none is.
        ahead
            With a ``delay`` the rows as they are predicted, where X are scaled by rows whose
            targets are not in yet; None: as X.

        Returns
        -------
        Predictions (n,), or (n, m), of classes scores.
        """
        far = np.zeros(len(y), dtype=np.bool_) if far is None else far
        self._last = None, None, []
        # A learner that requests targets has units and lags of those that it requested.
        if self._delay or (self.algorithm.queries and (self.moves or self.settings.lags)):
            return self._row_by_row(X, X if ahead is None else ahead, y, far)
        if not self.outputs:
            return self._learn_rows_of(self._targets[0], X, y, far)
        found = [
            self._learn_rows_of(target, X, y[:, m], far) for m, target in enumerate(self._targets)
        ]
        return Predictions(*(np.stack(arrays, axis=1) for arrays in zip(*found, strict=True)))

    def _learn_rows_of(
        self, target: TargetLearner, X: np.ndarray, y: np.ndarray, far: np.ndarray
    ) -> Predictions:
        known = target.scaler.take(y) if self.moves or self.settings.lags else None
        rows, learners = self._inputs(X, target, known), target.learners
        if known and self.moves:
            labels = [softened(known.scaled) if self.softens else known.scaled]
        else:
            labels = [_labels_of(y, k, len(learners)) for k in range(len(learners))]
        traces = [one.partial_fit(rows, told) for one, told in zip(learners, labels, strict=True)]
        trace = traces[0]
        if len(traces) > 1:
            trace = trace._replace(y_hat=np.stack([one.y_hat for one in traces], axis=1))
        if known and self.moves:  # a spread is not known before targets have a deviation
            unit = np.where(known.unit > 0.0, known.unit, np.nan)
            y_hat = known.centre + known.unit * trace.y_hat
            trace = Trace(y_hat, trace.asked, unit * trace.spread)
        intervals = target.intervals
        half = intervals.follow(trace, y, far) if intervals else np.full(len(y), np.nan)
        return Predictions(*trace, half)

    def _row_by_row(
        self, X: np.ndarray, ahead: np.ndarray, y: np.ndarray, far: np.ndarray
    ) -> Predictions:
        """``learn_rows`` of single rows, each target ``delay`` rows later."""
        said = []
        for x, seen, label, is_far in zip(X, ahead, y.tolist(), far.tolist(), strict=True):
            said.append(self._predict_scaled(seen, is_far))
            self.waiting.append((x.copy(), said[-1], label))
            if len(self.waiting) > self._delay:
                x, earlier, label = self.waiting.popleft()
                self._learn_scaled(x, label, earlier)
        return stacked(said, y)

    def _inputs(
        self, X: np.ndarray, target: TargetLearner, known: KnownTargets | None = None
    ) -> np.ndarray:
        """Rows X as core learners read them, with the lags ``known`` before each, or the next."""
        if self.settings.lags:
            lags = known.lags if known else np.tile(target.scaler.lags, (len(X), 1))
            X = np.concatenate([X[:, : len(self.inputs)], lags], axis=1)
        return softened(X) if self.softens else X

    def _input_row(self, z: np.ndarray, lags: np.ndarray) -> np.ndarray:
        """``_inputs`` of one row z with these lags, to the last bit."""
        row = np.concatenate([z[: len(self.inputs)], lags]) if len(lags) else z
        return softened(row) if self.softens and abs(row).max() > FAR else row

    def _predict_rows_of(
        self, target: TargetLearner, X: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Predict each row X as the next: y_hat, (n,) or (n, K), and spread (n,)."""
        X = self._inputs(X, target)
        found = [learner.predict_with_spread(X) for learner in target.learners]
        y_hat, spread = found[0]
        if len(found) > 1:
            return np.stack([f for f, _ in found], axis=1), spread
        if not self.moves:
            return y_hat, spread
        _, centre, unit = target.scaler.now
        return centre + unit * y_hat, (unit if unit > 0.0 else math.nan) * spread

    def _outputs_of(self, target: TargetLearner, X: np.ndarray) -> list[np.ndarray]:
        """What each kernel of each core learner would predict for the row X (1, d), (N,) each."""
        row, (_, centre, unit) = self._inputs(X, target)[0], target.scaler.now
        outputs = [learner.outputs(row) for learner in target.learners]
        return [centre + unit * f for f in outputs] if self.moves else outputs

    def _predict_scaled(self, z: np.ndarray, far: bool = False) -> RowPrediction:
        """Predict the row z as the next one; nothing is learned."""
        rows = [self._input_row(z, target.scaler.lags) for target in self._targets]
        if not self.outputs:
            whole = self._predict_row_of(self._targets[0], rows[0], far)
        else:
            said = tuple(map(self._predict_row_of, self._targets, rows, [far] * len(rows)))
            y_hat, spread, half = (np.array([one[k] for one in said]) for k in (0, 2, 3))
            whole = RowPrediction(y_hat, True, spread, half, far, of_outputs=said)
        self._last = whole, z, rows
        return whole

    def _predict_row_of(self, target: TargetLearner, row: np.ndarray, far: bool) -> RowPrediction:
        learners, scaler, intervals = target
        y_hat: Any
        if len(learners) > 1:
            y_hat = np.array([learner.predict_one(row)[0] for learner in learners])
            asked, spread = any(learner.asks for learner in learners), math.nan
        else:
            y_hat, asked = learners[0].predict_one(row)
            spread = learners[0].spread
            if self.moves:
                _, centre, unit = scaler.now
                y_hat = centre + unit * y_hat
                spread *= unit if unit > 0.0 else math.nan
        half, scored = math.nan, False
        if intervals:
            half, scored = intervals.half_width(far), asked and intervals.scores_next
        past = (scaler.lags, *(learner.context() for learner in learners))
        return RowPrediction(y_hat, asked, spread, half, far, scored, past)

    def _learn_scaled(self, z: np.ndarray, y: Any, said: RowPrediction) -> None:
        """Learn the target y of the row z, of which ``_predict_scaled`` has ``said`` something.

        The row is learned with the past targets that it was predicted with, and intervals learn
        from the error of that prediction. A target that was not requested is not looked at; one
        that is NaN and was requested teaches nothing.
        """
        last, _, rows = self._last
        self._last = None, None, []
        rows = rows if said is last else [None] * len(self._targets)
        if not self.outputs:
            self._learn_row_of(self._targets[0], rows[0], z, y, said)
            return
        for one, row, label, part in zip(
            self._targets, rows, y.tolist(), said.of_outputs, strict=True
        ):
            self._learn_row_of(one, row, z, label, part)

    def _learn_row_of(
        self,
        target: TargetLearner,
        row: np.ndarray | None,
        z: np.ndarray,
        y: float,
        said: RowPrediction,
    ) -> None:
        """``row`` is z as core learners have just predicted it; None: they predicted others."""
        learners, scaler, intervals = target
        if math.isnan(y) and (said.asked or row is None):
            return
        (lags, *contexts), asked, is_last = said.past, True, row is not None
        row = self._input_row(z, lags) if row is None else row
        for k, (learner, context) in enumerate(zip(learners, contexts, strict=True)):
            told = y
            if len(learners) > 1:
                told = float(_labels_of(np.array([y]), k, len(learners))[0])
            elif self.moves:
                told = scaler.now.scaled(y, self.softens)
            if len(context) and not is_last:
                learner.learn_late(row, told, context)
            else:
                asked = learner.learn_one(row, told)
        if asked and len(learners) == 1 and (self.moves or scaler.n_lags):
            scaler.take_one(y)
        if intervals:
            intervals.follow_one(said.y_hat, said.scored, y, said.far)

    # --- What a run asks of the learner of one target ---------------------------------------------

    @property
    def kernel_weights(self) -> np.ndarray:
        """The weights (N,) of its kernels; of one learner per class their mean."""
        with np.errstate(invalid="ignore"):  # of one that diverges: its predictions tell
            found = [normalised(learner.state.log_w) for learner in self.learners]
            return found[0] if len(found) == 1 else np.mean(found, axis=0)

    @property
    def input_importance(self) -> np.ndarray:
        """The share (d + 1,) of each input, and of past targets together; as ``importance``.

        (0,) of a learner without such a measure.
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
        """How often (N,) each kernel was evaluated."""
        return self.learners[0].used

    @property
    def worst(self) -> float:
        """The largest squared error of a single kernel."""
        return float(self.learners[0].worst[0])

    # --- Targets and answers ----------------------------------------------------------------------

    def _label(self, y: Any) -> Any:
        """A label as a learner takes it, a number or of several outputs (m,); NaN for none."""
        if self.outputs:
            return self.labels([y])[0]
        if y is None:
            return math.nan
        if not self.classes and isinstance(y, int | float) and abs(y) < math.inf:
            return float(y)
        return float(self.labels([y])[0])

    def labels(self, y: Any) -> np.ndarray:
        """Labels (n,), in a classification codes, of several outputs (n, m); NaN for none."""
        if self.outputs:
            return targets_of(y, self.outputs)
        if self.classes:
            cells = np.array(["" if label is None else label for label in y], dtype=object)
            rows = self.n_rows + 1 + np.arange(len(cells))
            return class_codes(cells, self.classes, rows, "y")
        try:
            labels = np.array(y, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"labels are numbers, NaN or None where there is none: {error}"
            ) from None
        if labels.ndim != 1 or np.isinf(labels).any():
            bad = labels.shape if labels.ndim != 1 else labels[np.isinf(labels)][0]
            raise ValueError(f"labels are finite numbers y (n,); got {bad}")
        return labels

    def _answers(self, y_hat: np.ndarray) -> np.ndarray:
        """The classes (n,) that scores mean, (n,) or (n, K)."""
        return np.array(self.classes)[_codes_of(y_hat)]

    def require_finite(self, y_hat: np.ndarray) -> None:
        """FloatingPointError where a prediction is not finite."""
        if not np.isfinite(y_hat).all():
            raise FloatingPointError(
                f"by row {self.n_rows + 1} the predictions of {self.settings.algorithm} are no "
                "longer finite: the steps are too large for this stream. Reduce the step size."
            )


def _labels_of(y: np.ndarray, k: int, n_learners: int) -> np.ndarray:
    """The targets (n,) that core learner k of a target is told; of several, k against the rest."""
    if n_learners == 1:
        return y
    return np.where(np.isnan(y), np.nan, np.where(y == k, 1.0, -1.0))


def _half_widths(target: TargetLearner, far: np.ndarray) -> np.ndarray:
    """Half the widths (n,) of the intervals of n predictions, each as the next; NaN of none."""
    if target.intervals is None:
        return np.full(len(far), np.nan)
    half = [target.intervals.half_width(is_far) for is_far in (False, True)]
    return np.where(far, half[1], half[0])


def _named(head: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{head}{name}": array for name, array in arrays.items()}


def _codes_of(y_hat: np.ndarray) -> np.ndarray:
    """Places (n,) of the classes that scores mean, (n,) of two or (n, K); of a tie the first."""
    return y_hat.argmax(axis=1) if y_hat.ndim > 1 else (y_hat > 0.0).astype(int)


def probabilities_of(y_hat: np.ndarray) -> np.ndarray:
    """Probabilities (n, K) that scores mean, y_hat (n,) of two classes or (n, K) of K."""
    p = 0.5 * (1.0 + y_hat)
    if p.ndim == 1:
        return np.stack([1.0 - p, p], axis=1)
    total = p.sum(axis=1, keepdims=True)
    return np.divide(p, total, out=np.full(p.shape, 1.0 / p.shape[1]), where=total > 0.0)


def restored(model: model_file.Model, path: Any) -> OnlineLearner:
    """The learner of what a file holds; ModelError where its arrays are of none."""
    if model.panel is not None:
        raise model_file.ModelError(f"{path} holds a panel: omkl.load_panel goes on with it")
    try:
        learner = unlearned(model)
        recent = {n: a for n, a in model.arrays.items() if n in (ROWS, SAID)}
        learner.restore({n: a for n, a in model.arrays.items() if n not in recent})
        if recent:
            learner._restore_recent(recent)
    except (ValueError, TypeError, KeyError) as error:
        raise model_file.ModelError(f"{path}: {model.misfit(error)}") from None
    except MemoryError as error:
        raise model_file.ModelError(f"{path}: no model, or a damaged one: {error}") from None
    return learner


def unlearned(model: model_file.Model) -> OnlineLearner:
    """What a file holds, before it learned: first rows decide no more which inputs there are."""
    columns = columns_of(model.columns, model.settings.inputs)
    left_out = (model.columns or {}).get("left_out", ())
    learner = OnlineLearner(model.settings, columns, left_out)
    learner._open = False
    return learner


def columns_of(described: Mapping[str, Any] | None, inputs: Sequence[str]) -> list[Column]:
    """The columns that a model file describes; [] where they are its inputs as they are.

    ValueError for what describes none.
    """
    try:
        columns = columns_described((described or {}).get("columns") or ())
        names = tuple(name for column in columns for name in column.inputs)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"its columns are none: {error}") from None
    if all(column.recipe == NUMBERS for column in columns) or names != tuple(inputs):
        return []
    return columns


def load(path: str | Path) -> OnlineLearner:
    """The learner that ``OnlineLearner.save`` wrote to a file, where it was, to the last bit.

    Nothing in the file is executed. Raises ``model_file.ModelError`` for one that is missing,
    damaged or of something else; warns where other sources wrote it, whose numbers may differ.
    """
    model = model_file.read(path)
    learner = restored(model, path)
    model.warn_of_other_sources(path)
    return learner
