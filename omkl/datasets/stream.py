"""Stream the rows of a data set in the order of time, and scale them as they are read.

A ``Source`` yields chunks of unscaled rows. The chunks are scaled first, and then cut into blocks
of the size that the caller requests. Results therefore do not depend on the size of the blocks.

Scaling (``x`` is a row of inputs, ``y`` its target)

columns   Each input is standardised, (x - mean) / deviation, by the values of its column up to and
          including its row, and by no later row. A single value has a bounded influence on mean and
          deviation, and a column may change its unit (``omkl.core.robust_moments``). A missing
          value becomes 0, the mean so far. Standardised values are not clipped. Learners that need
          bounded inputs read softened values.
          The stream yields targets in their own unit, which is also the unit of predictions, errors
          and all reported numbers. A learner internally learns (y - mean) / deviation, with mean
          and deviation of the targets that were known at its prediction, and the same two numbers
          convert its prediction back (``omkl.datasets.scaling``). The first prediction, before any
          target is known, is 0. It is not scored, neither for learners nor for comparators.
whole     x / max_t ||x_t||_2 and (y - min) / (max - min), with maxima and minima over all streamed
          rows. All inputs are divided by the same number. This uses later rows, as the published
          experiments did.
none      Inputs and targets are not changed.

Lags are further inputs, which follow the inputs of the data set: the last k targets that are known
when the row is predicted, the newest first. A lag is 0 as long as there are too few targets. With
scaling "columns" lags are standardised by the targets known at that time. With "whole" and "none"
they are scaled as y. The stream assumes that all earlier targets are known. A learner that learns
only some targets computes the lags itself (``omkl.datasets.scaling``).

Targets may be late. With a horizon h the target of row t is the value that row t + h has in the
target column. The first h values of this column then belong to no row, and the last h rows have no
target. With a delay k each target arrives k rows later. The prediction of row t can therefore use
the targets of rows up to t - 1 - k - h, also as lags. For the prediction, the inputs of row t are
standardised by these rows and row t. For learning, they are standardised by all rows up to row t.

In a panel the rows belong to several series. Each series has its own scale and its own past
targets, which the learner computes (``omkl.online.panel``). The stream yields such rows unscaled
and without lags.

A missing target is never filled in. Its row is predicted and not learned: ``rows`` yields it with
y NaN, and ``blocks`` leaves it out.

In a classification y is the code of a class, -1 and +1 or 0 .. K - 1 for K > 2, and is not scaled.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.datasets.base import Chunk, DataError, RowCount, Source
from omkl.datasets.columns import known_ahead, levels_in, without_levels
from omkl.datasets.notices import Order
from omkl.datasets.scaling import LateMoments, Moments, TargetScaler, softened

if TYPE_CHECKING:
    from omkl.datasets.columns import Column

# Least share of values beyond 4 deviations that is reported. A normal distribution has 6e-5, and a
# Laplace distribution 0.0035.
HEAVY = 0.005
HUGE = 1e150  # sums of squares of larger numbers overflow


class Options(NamedTuple):
    """Options of a stream, the argument ``stream_cfg`` of ``omkl.datasets.open_stream``."""

    limit: int | None
    scaling: str
    order: str
    lags: int
    delay: int
    horizon: int

    @property
    def causal(self) -> bool:
        """True if the scaling of a row uses no later row."""
        return self.scaling == "columns"


class Extent(NamedTuple):
    """Result of one pass over a stream: number of rows with a target, and ranges of the values."""

    n_rounds: int
    max_norm: float
    target_min: float
    target_max: float


class Stream:
    """Rows of a data set in the order of time. Every pass begins with the first row.

    A round is a row with a target.

    Attributes
    ----------
    name, task      name of the data set; "regression" or "classification"
    classes         classes as spelled in the data, in the order of their codes; () in a regression
    where           name of the file or of the data set, for error messages
    n_rounds        number of rounds T; None as long as it is unknown. Scaling "whole" counts the
                    rounds at the beginning. With other scalings, T is known only after the whole
                    stream is read if the data is a CSV file, or a table whose rows may be dropped
                    or lack a target
    n_inputs        number of inputs d, lags included
    n_lags          number of lags, which are the last inputs
    scaling         "columns", "whole" or "none"
    moving_units    whether the learner standardises targets online
    inputs, target  names of the inputs, and of the target
    provenance      JSON-able: files with sha256, licence, citation, scaling and its constants
    change_rounds   first round, counted from 1, after each known change of the data
    horizon         number of rows from a row to the row whose target it predicts
    target_delay    number of further rows after which a target is known, delay plus horizon
    series_type     int or str, type of the series of a panel; None without series
    moments         location and scale of each column, over the rows of the latest pass so far
    late_moments    location and scale of each column, over the rows whose targets are known
    """

    def __init__(
        self,
        source: Source,
        cfg: Mapping[str, Any],
        options: Options,
        provenance: Mapping[str, Any],
        *,
        survey: bool = False,
        change_rounds: tuple[int, ...] = (),
        classes: tuple[Any, ...] = (),
        where: str | None = None,
        series_type: type | None = None,
    ) -> None:
        limit, scaling, _, lags, delay, horizon = options
        self.name, self.task = str(cfg["name"]), cfg.get("task", "regression")
        self.where, self.series_type = where or self.name, series_type
        self._declared = cfg.get("columns")
        if lags and len(classes) > 2:
            raise DataError(
                f"{self.where}: stream.lags={lags} takes labels for numbers, and there are "
                f"{len(classes)} classes. Set stream.lags=0."
            )
        self.classes = classes
        self.n_lags = lags
        self.target = source.target
        past = (f"{self.target} {k + delay} before" for k in range(1, lags + 1))
        self.inputs = (*source.inputs, *past)
        self.horizon, self.target_delay = horizon, delay + horizon
        self.n_inputs = len(self.inputs)
        self._source, self._levels = source, levels_in(source.inputs)
        self.scaling = scaling
        self.moments = Moments(len(source.inputs))
        self.late_moments = LateMoments(len(source.inputs), self.target_delay)
        self.moving_units = scaling == "columns" and not classes
        self._limit = limit
        self._provenance = provenance
        self._extent: Extent | None = None
        self._blank: np.ndarray | None = None  # (d,) cells of the last whole pass
        self._order: Order | None = None  # of the last whole pass
        self.n_rounds: int | None = None
        if most := [n for n in (source.n_rows, limit) if n is not None]:
            self.n_rounds = None if source.n_rows is None else min(most)
            self.require_rows(min(most) - horizon)
        if survey or scaling == "whole" or (horizon and self.n_rounds is not None):
            self.count_rounds()
        n = self.n_rounds
        changes = (t - horizon for t in change_rounds)
        self.change_rounds = tuple(t for t in changes if t > 1 and (n is None or t <= n))

    @property
    def has_series(self) -> bool:
        """True if rows have series, as in a panel."""
        return self.series_type is not None

    @property
    def has_dates(self) -> bool:
        """True if a date is among the inputs."""
        return self._clock is not None

    @cached_property
    def is_cut(self) -> bool:
        """True if the source has more rows than the limit.

        If the number of rows is unknown, read the source until it ends or exceeds the limit.
        """
        limit = self._limit
        if limit is None:
            return False
        if self._source.n_rows is not None:
            return limit < self._source.n_rows
        counts = itertools.accumulate(len(chunk.y) for chunk in self._source.chunks())
        return any(count > limit for count in counts)

    @property
    def row_count(self) -> RowCount | None:
        """Number of rows of a pass, or None if it is unknown before the pass."""
        count, limit = self._source.row_count, self._limit
        if count is None or limit is None:
            return count
        return count._replace(n=min(count.n, limit))

    def count_rounds(self) -> None:
        """Read the whole stream, so that ``n_rounds`` is known.

        Raises DataError if nothing can be learned from the stream.
        """
        self._extent = self._survey()
        self.n_rounds = self._extent.n_rounds

    @property
    def columns(self) -> Sequence[Column]:
        """Columns of a user's file; () for other data."""
        return getattr(self._source, "columns", ())

    @cached_property
    def known_ahead(self) -> np.ndarray:
        """Indices of the inputs whose later values are known in advance.

        With a horizon h the stream reads these inputs of row t from row t + h.
        """
        taken = [column for column in self.columns if column.inputs]
        return known_ahead(taken, self._declared)

    @property
    def notices(self) -> list[str]:
        """Messages to the user about the rows. They are complete after a whole pass."""
        notices = list(getattr(self._source, "notices", ()))
        if self._order is not None and self._provenance["order"] == "file" and not self.has_series:
            date = self._clock and self._clock[0].rpartition(".")[0]
            notices += self._order.notices(len(self.classes), date)
        return notices

    @property
    def missing(self) -> dict[str, int]:
        """Number of missing values of each column that has any, after a whole pass.

        The streamed rows are counted. If the mean of the whole file replaces missing values, all
        rows of the file are counted.
        """
        filled = getattr(self._source, "filled", None)
        counts = self._blank if filled is None else filled
        return {} if counts is None else {c: int(n) for c, n in self._by_column(counts) if n}

    @property
    def far_out(self) -> dict[str, float]:
        """Share of values beyond 4 deviations, for each column whose share is at least HEAVY."""
        return {c: s for c, s in self._by_column(self.moments.shares_beyond) if s >= HEAVY}

    def _by_column(self, values: np.ndarray) -> Iterable[tuple[str, float]]:
        """Return pairs (column, value) for ``values`` (d,) of the inputs.

        The value of a column is the largest value of the inputs that encode the column.
        """
        column_of = {name: c.name for c in self.columns for name in c.inputs}
        largest: dict[str, float] = {}
        for name, value in zip(self._source.inputs, values.tolist(), strict=True):
            column = column_of.get(name, name)
            largest[column] = max(value, largest.get(column, value))
        return largest.items()

    @cached_property
    def _clock(self) -> tuple[str, float] | None:
        """Name of the input that counts days since a date, and this date in days since 1970."""
        for column in self.columns:
            name = f"{column.name}.days_elapsed"
            if name in column.inputs:
                since = np.datetime64(column.recipe["date"]["start"]) - np.datetime64(0, "D")
                return name, float(since / np.timedelta64(1, "D"))
        return None

    @property
    def inputs_without_lags(self) -> tuple[str, ...]:
        return self.inputs[: self.n_inputs - self.n_lags]

    def __repr__(self) -> str:
        rounds = "?" if self.n_rounds is None else self.n_rounds
        return f"Stream({self.name!r}, {rounds} rounds x {self.n_inputs} inputs)"

    @property
    def target_unit(self) -> float:
        """Factor that converts errors of the scaled target y to the unit of the target."""
        if self.scaling == "whole" and self._extent is not None and not self.classes:
            return self._extent.target_max - self._extent.target_min
        return 1.0

    @cached_property
    def provenance(self) -> dict[str, Any]:
        scaling: dict[str, Any] = {"kind": self.scaling}
        if self.scaling == "whole" and self._extent is not None:
            scaling["max_norm"] = self._extent.max_norm
            if not self.classes:
                scaling |= {
                    "target_min": self._extent.target_min,
                    "target_max": self._extent.target_max,
                }
        classes = {"labels": list(self.classes)} if self.classes else {}
        lags = {"lags": self.n_lags} if self.n_lags else {}
        late = {"delay": self.target_delay - self.horizon, "horizon": self.horizon}
        return {
            **self._provenance, "task": self.task, "inputs": list(self.inputs),
            "target": self.target, "rounds": self.n_rounds, "limit": self._limit,
            "scaling": scaling, **classes, **lags, **{key: n for key, n in late.items() if n},
        }  # fmt: skip

    def blocks(self, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the rows with a target as blocks X (n, d) and y (n,), float64 and C-contiguous.

        n is ``size``, or less in the last block. The numbers do not depend on ``size``.
        """
        return ((x, y) for x, y, *_ in self.rounds(size))

    def rounds(self, size: int) -> Iterator[Chunk]:
        """Yield the rows with a target in blocks of ``size`` rows, with all fields of ``Chunk``."""
        return _regrouped(self._with_target(), size)

    def rows(self, size: int) -> Iterator[Chunk]:
        """Yield all rows in blocks of ``size`` rows. The target of a row without target is NaN."""
        return _regrouped(self._streamed(), size)

    def softened(self, X: np.ndarray) -> np.ndarray:
        """Return rows X (n, d), with the inputs softened if the stream standardises them."""
        return softened(X) if self.scaling == "columns" else X

    def truth(self, size: int) -> Iterator[np.ndarray] | None:
        """Yield the targets (n,) without noise, scaled as y, for the blocks of ``blocks``.

        Return None if they are unknown, as for all real data.
        """
        if not self._source.has_truth:
            return None
        blocks = _regrouped(self._with_target(), size)
        return (block.truth for block in blocks if block.truth is not None)

    def require_rows(self, n: int, n_read: int = 0) -> None:
        """Raise DataError unless at least two rows have a target.

        ``n`` is the number of rows with a target, and ``n_read`` the number of all rows.
        """
        if n < 2:
            if n_read - self.horizon > 1:
                values = "one value" if n else "no value"
                raise DataError(
                    f"{self.where}: the target {self.target!r} has {values} in {n_read:,} rows, "
                    "and a stream needs at least 2. Choose another dataset.target, or look at the "
                    "file and at stream.limit."
                )
            later = f" with the target of the row {self.horizon} later" if self.horizon else ""
            horizon = ", stream.horizon" if self.horizon else ""
            raise DataError(
                f"{self.where}: a stream needs at least 2 rows{later}, {max(n, 0)} came. "
                f"Look at the file, at dataset.missing=drop{horizon} and at stream.limit."
            )

    def _limited(self) -> Iterator[Chunk]:
        """Yield the rows up to the limit. With a horizon, take their targets from later rows."""
        shifted = ahead_in_series if self.has_series else ahead
        return (
            shifted(self._read(), self.horizon, self.known_ahead) if self.horizon else self._read()
        )

    def _read(self) -> Iterator[Chunk]:
        """Yield the rows of the source, up to the limit."""
        left = self._limit
        blank = np.zeros(len(self._source.inputs), dtype=np.int64)
        order = Order()
        for chunk in self._source.chunks():
            if left is not None:
                chunk = chunk.at(slice(left))
                left -= len(chunk.y)
            if self._clock:
                name, start = self._clock
                days = chunk.x[:, self._source.inputs.index(name)]
                chunk = chunk._replace(time=start + days)
            blank += np.isnan(chunk.x).sum(axis=0)
            order.add(chunk.y, chunk.time, chunk.rows)
            yield chunk
            if left == 0:
                break
        self._blank = blank
        self._order = order

    def _survey(self) -> Extent:
        n, n_read, max_norm, low, high = 0, 0, 0.0, np.inf, -np.inf
        for x, y, *_ in self._limited():
            x = without_levels(x, self._levels)
            n_read += len(y)
            n += int(np.sum(~np.isnan(y)))
            with np.errstate(over="ignore"):  # an infinite norm is refused
                norms = np.sqrt(np.einsum("ij,ij->i", x, x))
            max_norm = max(max_norm, float(np.nanmax(norms, initial=0.0)))
            low = min(low, float(np.nanmin(y, initial=np.inf)))
            high = max(high, float(np.nanmax(y, initial=-np.inf)))
        self.require_rows(n, n_read)
        if low == high:
            raise DataError(
                f"{self.where}: the target {self.target!r} is {low:g} in all {n} rows, "
                "so there is nothing to learn. Choose another dataset.target or more rows."
            )
        self._require_finite(max_norm, high - low)
        return Extent(n, max_norm, low, high)

    def _require_finite(self, max_norm: float, span: float) -> None:
        if not (np.isfinite(max_norm) and np.isfinite(span)):
            raise DataError(
                f"{self.where}: the values are too large to be scaled (largest norm of the "
                f"inputs {max_norm:g}, range of the target {span:g}). Rescale the columns."
            )

    def require_small(self, values: np.ndarray, names: Sequence[str]) -> None:
        """Raise DataError if the squares of a column of values (n, k) overflow."""
        with np.errstate(invalid="ignore"):
            huge = (np.abs(values) > HUGE).any(axis=0)
        if huge.any():
            raise DataError(
                f"{self.where}: the values of column {names[int(huge.argmax())]!r} are too large "
                "to be scaled. Rescale it, or leave it out of dataset.inputs."
            )

    def _with_target(self) -> Iterator[Chunk]:
        """Yield the rows with a target."""
        for chunk in self._streamed():
            blank = np.isnan(chunk.y)
            yield chunk.at(~blank) if blank.any() else chunk

    def _streamed(self) -> Iterator[Chunk]:
        """Yield all rows, scaled and with lags."""
        d = len(self._source.inputs)
        moments, late = Moments(d), LateMoments(d, self.target_delay)  # passes may be parallel
        self.moments, self.late_moments, labels = moments, late, _Labels(self)
        for chunk in self._limited():
            yield labels.added(self._with_scaled_inputs(chunk, moments, late))
        labels.require_rows()

    def _with_scaled_inputs(self, chunk: Chunk, moments: Moments, late: LateMoments) -> Chunk:
        """Return a chunk with scaled inputs, and with the fields ``far``, ``ahead`` and ``raw``."""
        raw, x = chunk.x, without_levels(chunk.x, self._levels)
        if len(self._levels):
            chunk = chunk._replace(x=x, raw=raw)
        if self.scaling == "whole":
            assert self._extent is not None
            x = x / self._extent.max_norm if self._extent.max_norm > 0 else x
            return chunk._replace(x=x, raw=None)
        if self.scaling == "columns":
            self.require_small(x, self.inputs)
        if self.scaling == "none" or self.has_series:
            return chunk
        standardised = moments.standardised(x)
        chunk = chunk._replace(x=standardised.z, far=standardised.far_rows, raw=raw)
        if not self.target_delay:
            return chunk
        ahead = late.standardised(x)
        return chunk._replace(ahead=ahead.z, far=ahead.far_rows)


class _Labels:
    """Scale the targets of one pass over a stream, and add past targets as lags."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._history = TargetScaler(stream.n_lags, stream.scaling == "columns")
        self._waiting = np.full(stream.target_delay, np.nan)
        self._n = self._n_read = 0  # rows with a target, and all rows

    def added(self, chunk: Chunk) -> Chunk:
        """Return the next rows with scaled targets and with lags.

        The inputs of the rows must be scaled already.
        """
        stream = self._stream
        if stream.scaling == "columns":
            stream.require_small(chunk.y[:, None], [stream.target])
        elif stream.scaling == "whole":
            chunk = self._in_units(chunk)
        self._n += int(np.sum(~np.isnan(chunk.y)))
        self._n_read += len(chunk.y)
        if stream.n_lags and not stream.has_series:
            labels = np.concatenate([self._waiting, chunk.y])
            come, self._waiting = np.split(labels, [len(chunk.y)])
            lags = self._history.take(come).lags
            rows = {"x": chunk.x, "ahead": chunk.ahead, "raw": chunk.raw}
            with_lags = {n: np.hstack([X, lags]) for n, X in rows.items() if X is not None}
            chunk = chunk._replace(**with_lags)
        return chunk

    def _in_units(self, chunk: Chunk) -> Chunk:
        """Return the rows with targets and ``truth`` scaled to [0, 1]."""
        assert self._stream._extent is not None
        _, _, low, high = self._stream._extent
        if self._stream.classes:
            low, high = 0.0, 1.0
        y, truth = (chunk.y - low) / (high - low), chunk.truth
        return chunk._replace(y=y, truth=None if truth is None else (truth - low) / (high - low))

    def require_rows(self) -> None:
        """Raise DataError if too few rows had a target."""
        self._stream.require_rows(self._n, self._n_read)


def ahead(chunks: Iterable[Chunk], horizon: int, known: np.ndarray) -> Iterator[Chunk]:
    """Replace the target of each row by the target of the row ``horizon`` rows later.

    Inputs that are known ahead are replaced in the same way. In the last ``horizon`` rows these
    inputs and the targets are NaN.

    Parameters
    ----------
    chunks
        Rows as they were read.
    horizon
        Number of rows, >= 1, from a row to the row whose target it predicts.
    known
        Indices of inputs that are known ahead.
    """
    held: Chunk | None = None
    for chunk in chunks:
        if held is not None:
            chunk = joined([held, chunk])
        n = max(len(chunk.y) - horizon, 0)
        held = chunk.at(slice(n, None))
        if n:
            truth = None if chunk.truth is None else chunk.truth[horizon:]
            x = chunk.x[:n].copy()
            x[:, known] = chunk.x[horizon:, known]
            yield chunk.at(slice(n))._replace(x=x, y=chunk.y[horizon:].copy(), truth=truth)
    if held is not None:
        none, x = np.full(len(held.y), np.nan), held.x.copy()
        x[:, known] = np.nan
        yield held._replace(x=x, y=none, truth=None if held.truth is None else none)


def ahead_in_series(chunks: Iterable[Chunk], horizon: int, known: np.ndarray) -> Iterator[Chunk]:
    """Replace the target of each row by the target ``horizon`` rows later in the same series.

    The result is one chunk, so all rows are in memory.

    Parameters
    ----------
    chunks, horizon, known
        As in ``ahead``, which also describes the inputs that are known ahead.
    """
    rows = list(chunks)
    if not rows:
        return
    chunk = joined(rows)
    assert chunk.series is not None
    _, codes = np.unique(chunk.series, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    row, later = order[: len(order) - horizon], order[horizon:]
    same = codes[row] == codes[later]
    row, later = row[same], later[same]
    x, y = chunk.x.copy(), np.full(len(chunk.y), np.nan)
    x[:, known] = np.nan
    x[np.ix_(row, known)] = chunk.x[np.ix_(later, known)]
    y[row] = chunk.y[later]
    yield chunk._replace(x=x, y=y)


def _regrouped(chunks: Iterable[Chunk], size: int) -> Iterator[Chunk]:
    """Cut chunks into blocks of ``size`` rows. The last block may be shorter."""
    if size < 1:
        raise ValueError(f"a block needs at least one row, size={size}")
    held: list[Chunk] = []
    n_held = 0
    for chunk in chunks:
        start, n = 0, len(chunk.y)
        while start < n:
            stop = min(n, start + size - n_held)
            held.append(chunk.at(slice(start, stop)))
            n_held += stop - start
            start = stop
            if n_held == size:
                yield joined(held)
                held, n_held = [], 0
    if held:
        yield joined(held)


def joined(chunks: Sequence[Chunk]) -> Chunk:
    """Join consecutive chunks into one."""
    if len(chunks) == 1:
        return chunks[0]
    parts: Iterator[Any] = zip(*chunks, strict=True)
    arrays: list[Any] = [None if part[-1] is None else np.concatenate(part) for part in parts]
    return Chunk(*arrays)
