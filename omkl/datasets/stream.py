"""Streams: the rows of a data set in the order of time, scaled on their way.

A ``Source`` yields raw chunks of a size of its own choosing. Scaling works on
those chunks and blocks are cut afterwards, so no number can depend on the block
size that a caller asks for.

Scaling (``x`` is a row of inputs, ``y`` its target)

columns   every input is standardised, (x - mean) / deviation, with what its column held up to
          and in its row (``omkl.core.robust_moments``: no single value spoils either, and a
          column that changes its unit is followed). Values are not cut; learners that need
          bounded ones read them softened. A blank counts as the mean so far, 0. Nothing
          looks ahead. Targets stay in their own units, and so do predictions, squared errors
          and all that is reported. What a learner is told is (y - mean) / deviation, of the
          labels that it knew when it predicted, and its prediction is mapped back with the
          same two numbers (``omkl.datasets.scaling``): the loss that it learns from is in
          units that move until the labels' deviation settles. It answers the mean of the
          known labels where it says 0. The first prediction, with no label known, is 0 in
          the target's units and is not scored, of learners and comparators alike.
whole     x / max_t ||x_t||_2 and (y - min) / (max - min), over all rows that are
          streamed. One scalar for the inputs. Looks ahead in time; this is what the
          published experiments did.
none      as it is.

Lags are further inputs after the others: the last k labels that are known when the row comes,
the newest first, 0 where there is none yet. With scaling "columns" they are standardised by the
labels known then, with "whole" and "none" they are as y. A stream takes all labels for known;
who learns from some of them alone fills the lags in anew (``omkl.datasets.scaling``).

Targets may be late. With a horizon of h rows the target of a row is that of the row h later: the
first h targets belong to no row, and the last h rows have none. With a delay of k it is in k rows
later than at once, so that the prediction of a row knows the targets of rows that came at least
1 + k + h rows before it, lags among them. Inputs of such a prediction are standardised by those
rows and by its own; a row is learned with what its columns held up to and in it.

Rows that have series are a panel: each series has a scale and past labels of its own. Whoever
learns them keeps those of each series (``omkl.online.panel``); the stream gives rows as they are,
without lags.

A target that is blank is never made up: its row is in ``rows`` with y NaN, to be predicted, and
is left out of ``blocks``.

In classification y is a label's code (-1 and +1, or 0 .. K - 1 of K > 2) and stays it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.datasets.base import Chunk, DataError, RowCount, Source
from omkl.datasets.columns import known_ahead
from omkl.datasets.notices import Order
from omkl.datasets.scaling import LateMoments, Moments, TargetScaler, softened

if TYPE_CHECKING:
    from omkl.datasets.columns import Column

HEAVY = 0.005  # of a column beyond 4 deviations is told: a normal one has 6e-5, a Laplace 0.0035
HUGE = 1e150  # squares of larger numbers overflow, or their sums do


class Options(NamedTuple):
    """Options of ``omkl.datasets.open_stream``."""

    limit: int | None
    scaling: str
    order: str
    lags: int
    delay: int
    horizon: int

    @property
    def causal(self) -> bool:
        """True if each row is scaled by itself and earlier rows alone."""
        return self.scaling == "columns"


class Extent(NamedTuple):
    """Counts and bounds that one pass over the rows finds."""

    n_rounds: int
    max_norm: float
    target_min: float
    target_max: float


class Stream:
    """A data set in the order of time; every pass starts anew at the first round.

    Attributes
    ----------
    name, task      name of the data set; "regression" or "classification"
    classes         what stands in the data for the codes of the classes, () in regression
    where           what errors call it: an own file by its name, other data by theirs
    n_rounds        number of rounds T, the rows with a target, or None where only reading to
                    the end can tell: CSV files, and tables whose incomplete rows are dropped,
                    unless scaling "whole" has counted them
    n_inputs        number of inputs d, the lags among them
    n_lags          how many of them, the last ones, are past labels
    scaling         as above; ``moving_units``: whether it scales what a learner is told
    inputs, target  column names
    provenance      JSON-able: files with sha256, licence, citation, scaling and its constants
    change_rounds   1-based rounds that are the first after a known change
    horizon         how many rows later the row is whose target is that of a row
    target_delay    how many rows wait for their targets, the horizon among them
    series_type        int or str, of the series of a panel; None of rows without
    moments         what the latest pass has seen of the columns so far
    late_moments    the same of the rows whose targets are in
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
        self._source = source
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
        """True if there are rows beyond the limit. A source of unknown length is read up to it."""
        limit = self._limit
        if limit is None:
            return False
        if self._source.n_rows is not None:
            return limit < self._source.n_rows
        counts = itertools.accumulate(len(chunk.y) for chunk in self._source.chunks())
        return any(count > limit for count in counts)

    @property
    def row_count(self) -> RowCount | None:
        """Number of rows of a pass as known before it. None if unknown."""
        count, limit = self._source.row_count, self._limit
        if count is None or limit is None:
            return count
        return count._replace(n=min(count.n, limit))

    def count_rounds(self) -> None:
        """Read to the end: ``n_rounds`` is known then. DataError where nothing can be learned."""
        self._extent = self._survey()
        self.n_rounds = self._extent.n_rounds

    @property
    def columns(self) -> Sequence[Column]:
        """Columns of an own file. () for other data."""
        return getattr(self._source, "columns", ())

    @cached_property
    def known_ahead(self) -> np.ndarray:
        """Places of inputs that are known ahead: with a horizon those of the target's row."""
        taken = [column for column in self.columns if column.inputs]
        return known_ahead(taken, self._declared)

    @property
    def notices(self) -> list[str]:
        """Messages about the rows for the user. Complete after a whole pass."""
        notices = list(getattr(self._source, "notices", ()))
        if self._order is not None and self._provenance["order"] == "file" and not self.has_series:
            date = self._clock and self._clock[0].rpartition(".")[0]
            notices += self._order.notices(len(self.classes), date)
        return notices

    @property
    def missing(self) -> dict[str, int]:
        """Missing cells of each column after a whole pass. Complete columns have no entry.

        Those that the mean of a whole file fills are counted in the whole file.
        """
        filled = getattr(self._source, "filled", None)
        counts = self._blank if filled is None else filled
        return {} if counts is None else {c: int(n) for c, n in self._by_column(counts) if n}

    @property
    def far_out(self) -> dict[str, float]:
        """The share of the values of each column that came beyond 4 deviations, HEAVY or more."""
        return {c: s for c, s in self._by_column(self.moments.shares_beyond) if s >= HEAVY}

    def _by_column(self, values: np.ndarray) -> Iterable[tuple[str, float]]:
        """Return the largest value of each column from values (d,) of its inputs."""
        column_of = {name: c.name for c in self.columns for name in c.inputs}
        largest: dict[str, float] = {}
        for name, value in zip(self._source.inputs, values.tolist(), strict=True):
            column = column_of.get(name, name)
            largest[column] = max(value, largest.get(column, value))
        return largest.items()

    @cached_property
    def _clock(self) -> tuple[str, float] | None:
        """The input that counts the days since a date, and that date in days since 1970."""
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
        """Units of the target per unit of y. Errors are multiplied by it."""
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
            **self._provenance,
            "task": self.task,
            "inputs": list(self.inputs),
            "target": self.target,
            "rounds": self.n_rounds,
            "limit": self._limit,
            "scaling": scaling,
            **classes,
            **lags,
            **{key: n for key, n in late.items() if n},
        }

    def blocks(self, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """All rounds as (X (n, d), y (n,)), float64, C-contiguous.

        n is ``size`` but for the last block. The numbers are identical for every size.
        """
        return ((x, y) for x, y, *_ in self.rounds(size))

    def rounds(self, size: int) -> Iterator[Chunk]:
        """As ``blocks``, with the numbers of the rows."""
        return _regrouped(self._with_target(), size)

    def rows(self, size: int) -> Iterator[Chunk]:
        """As ``blocks``, with the rows that have no target, and without the truth."""
        return _regrouped(self._streamed(), size)

    def softened(self, X: np.ndarray) -> np.ndarray:
        """Rows X (n, d) of a block as learners read them that need bounded inputs."""
        return softened(X) if self.scaling == "columns" else X

    def truth(self, size: int) -> Iterator[np.ndarray] | None:
        """The noise-free target (n,) in the scale of y, in the blocks of ``blocks(size)``.

        None where it is unknown, as for all real data.
        """
        if not self._source.has_truth:
            return None
        blocks = _regrouped(self._with_target(), size)
        return (block.truth for block in blocks if block.truth is not None)

    def require_rows(self, n: int, n_read: int = 0) -> None:
        """DataError for a stream of n < 2 rows with a target, of so many that were read."""
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
        """Rows as they were read, with the targets that they have."""
        return ahead(self._read(), self.horizon, self.known_ahead) if self.horizon else self._read()

    def _read(self) -> Iterator[Chunk]:
        """All rows up to the limit."""
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
        """DataError for a column of values (n, k) whose squares overflow."""
        with np.errstate(invalid="ignore"):
            huge = (np.abs(values) > HUGE).any(axis=0)
        if huge.any():
            raise DataError(
                f"{self.where}: the values of column {names[int(huge.argmax())]!r} are too large "
                "to be scaled. Rescale it, or leave it out of dataset.inputs."
            )

    def _with_target(self) -> Iterator[Chunk]:
        """The rows that have a target."""
        for chunk in self._streamed():
            blank = np.isnan(chunk.y)
            yield chunk.at(~blank) if blank.any() else chunk

    def _streamed(self) -> Iterator[Chunk]:
        """All rows, scaled and with their lags."""
        d = len(self._source.inputs)
        moments, late = Moments(d), LateMoments(d, self.target_delay)  # passes may run side by side
        self.moments, self.late_moments, labels = moments, late, _Labels(self)
        for chunk in self._limited():
            yield labels.added(self._with_scaled_inputs(chunk, moments, late))
        labels.require_rows()

    def _with_scaled_inputs(self, chunk: Chunk, moments: Moments, late: LateMoments) -> Chunk:
        """A chunk with its inputs as they are streamed, and which rows are far out."""
        x = chunk.x
        if self.scaling == "whole":
            assert self._extent is not None
            return chunk._replace(x=x / self._extent.max_norm if self._extent.max_norm > 0 else x)
        if self.scaling == "columns":
            self.require_small(x, self.inputs)
        if self.scaling == "none" or self.has_series:
            return chunk
        standardised = moments.standardised(x)
        chunk = chunk._replace(x=standardised.z, far=standardised.far_rows, raw=x)
        if not self.target_delay:
            return chunk
        ahead = late.standardised(x)
        return chunk._replace(ahead=ahead.z, far=ahead.far_rows)


class _Labels:
    """The labels of one pass of a stream: what is known of them so far."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._history = TargetScaler(stream.n_lags, stream.scaling == "columns")
        self._waiting = np.full(stream.target_delay, np.nan)
        self._n = self._n_read = 0  # rows with a label, and all

    def added(self, chunk: Chunk) -> Chunk:
        """The next rows, whose inputs are scaled, with labels in the stream's units and lags."""
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
        """The labels, and the truth, from 0 to 1."""
        assert self._stream._extent is not None
        _, _, low, high = self._stream._extent
        if self._stream.classes:
            low, high = 0.0, 1.0
        y, truth = (chunk.y - low) / (high - low), chunk.truth
        return chunk._replace(y=y, truth=None if truth is None else (truth - low) / (high - low))

    def require_rows(self) -> None:
        """DataError where too few rows had a label."""
        self._stream.require_rows(self._n, self._n_read)


def ahead(chunks: Iterable[Chunk], horizon: int, known: np.ndarray) -> Iterator[Chunk]:
    """Yield rows with targets and known inputs of those ``horizon`` >= 1 later.

    Parameters
    ----------
    chunks
        Rows as they were read.
    horizon
        Rows from a row to the one whose target it predicts.
    known
        Places of inputs that are known ahead. Of the last rows they are NaN, as targets are.
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


def _regrouped(chunks: Iterable[Chunk], size: int) -> Iterator[Chunk]:
    """Cut chunks into blocks of ``size`` rows, the last shorter."""
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
    """Return consecutive chunks as one."""
    if len(chunks) == 1:
        return chunks[0]
    parts: Iterator[Any] = zip(*chunks, strict=True)
    arrays: list[Any] = [None if part[-1] is None else np.concatenate(part) for part in parts]
    return Chunk(*arrays)
