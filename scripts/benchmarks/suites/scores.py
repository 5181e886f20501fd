"""Compute errors of predictions, equally for all learners, and statistics over streams.

The scores are means over the scored rows. Errors of a regression are in the unit of the target:

    mse, mae             errors of a regression
    error_rate           share of mistakes in a classification; a missing prediction is a mistake
    mse_from_1000, ...   (error_rate_from_1000, ...) error in rows 1,000 to 2,999, then in rows
                         3,000 to 9,999, and so on
    log_loss, interval_score_90, coverage_90   scores of predicted standard deviations
    us_per_row           microseconds for predicting and learning a row
    dynamic_regret       loss minus that of the best prediction, for generated streams
    recovery             number of rows after a change until the loss is normal, see ``recovery``
    after_fault          loss after a sensor fault, divided by the loss before it

Statistics over streams follow Demsar (JMLR 7, 2006). ``errors`` are a frame of streams x learners.
A learner that failed has the error inf, and ranks behind all others. NaN is a missing value.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from benchmarks.suites.models import Pass
from benchmarks.suites.streams import Rows
from omkl.experiment import metrics

BANDS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000)  # first rows of the bands
SETTLED, CALM = 500, 1000  # rows ignored after the begin of a fault, and rows compared before it
BACK, BEFORE = 1.5, 4  # factor of the loss, and number of windows before a change, see ``recovery``
MAIN = {"regression": "mse", "classification": "error_rate"}
LEVEL = 0.05
MAX_MISSING = 0.2  # learners without a value on a larger share of streams are left out
MIN_STREAMS = 6  # with fewer streams a sign test cannot reject at 5 %, even if one learner wins all

Array = np.ndarray


def losses(y: Array, y_hat: Array, task: str) -> Array:
    """Return the loss (n,) of predictions: squared errors, or 1 for each mistake."""
    if task == "classification":
        return (y_hat != y).astype(float)
    with np.errstate(over="ignore"):
        return np.square(y_hat - y)


def score(
    y: Array, one: Pass, rows: Rows, task: str, n_unscored: int, window: int
) -> dict[str, float]:
    """Score one pass over a stream.

    Parameters
    ----------
    y
        Targets (n,): numbers, or indices of classes.
    one
        Predictions of all rows.
    rows
        Rows of the stream, with known changes and faults.
    task
        "regression" or "classification".
    n_unscored
        Number of rows at the beginning that are not scored.
    window
        Number of rows of the sliding mean in ``recovery``.
    """
    loss = losses(y, one.y_hat, task)
    scored = np.arange(len(y)) >= n_unscored
    scored[0] &= not np.isnan(one.y_hat[0])
    main = MAIN[task]
    scores = {main: float(loss[scored].mean()), "us_per_row": 1e6 * one.seconds / len(y)}
    for first, last in itertools.pairwise(BANDS):
        if len(y) >= last:
            scores[f"{main}_from_{first}"] = float(loss[first:last].mean())
    if task == "regression":
        scores["mae"] = float(np.abs(one.y_hat - y)[scored].mean())
    if one.spread is not None and (known := scored & (one.spread > 0.0)).any():
        found = metrics.spread_scores(loss[known], one.spread[known])
        names = ("log_loss", "interval_score_90", "coverage_90")
        scores |= {name: float(found[name].mean()) for name in names}
    if rows.truth is not None:
        above = loss - losses(y, rows.truth, task)
        scores["dynamic_regret"] = float(above[scored].mean())
        if rows.change_rows:
            scores["recovery"] = recovery(loss, rows.change_rows, window)
    if rows.fault_rows:
        first, last = rows.fault_rows
        before = loss[max(n_unscored, first - 1 - CALM) : first - 1]
        after = loss[(last if last < len(y) else first - 1) + SETTLED :]
        if len(after) and before.any():
            scores["after_fault"] = float(after.mean() / before.mean())
    return scores


def recovery(loss: Array, change_rows: Sequence[int], window: int) -> float:
    """Return the mean number of rows from a change until the loss is normal.

    The loss is normal when its mean over ``window`` rows is at most BACK times its mean over the
    BEFORE windows that precede the change. If this does not happen, the rows up to the next change
    count.
    """
    ends = [*(change - 1 for change in change_rows[1:]), len(loss)]
    waits = []
    for change, end in zip(change_rows, ends, strict=True):
        before = loss[max(change - 1 - BEFORE * window, 0) : change - 1].mean()
        after = loss[change - 1 : end]
        n = min(window, len(after))
        over = np.flatnonzero(sliding_mean(after, n)[n - 1 :] <= BACK * before)
        waits.append(n + int(over[0]) if len(over) else len(after))
    return float(np.mean(waits))


def sliding_mean(loss: Array, window: int) -> Array:
    """Return, for each row, the mean of the last ``window`` values, or of all values so far."""
    n = np.arange(1, len(loss) + 1)
    sums = np.concatenate([[0.0], np.cumsum(loss)])
    first = np.maximum(n - window, 0)
    return (sums[n] - sums[first]) / (n - first)


# --- Statistics over streams ----------------------------------------------------------------------


class Comparison(NamedTuple):
    """Comparison of learners over the streams on which all have values.

    Attributes
    ----------
    ranks
        Average ranks, best first.
    difference
        Nemenyi's critical difference of two average ranks; inf if there are too few streams.
    chi2, p
        Friedman's statistic and its p-value.
    errors
        Errors that were compared, streams x learners.
    left_out
        A sentence that names learners and streams without values; "" if there are none.
    """

    ranks: pd.Series
    difference: float
    chi2: float
    p: float
    errors: pd.DataFrame
    left_out: str


def compare(errors: pd.DataFrame, level: float = LEVEL) -> Comparison:
    """Rank learners, and test whether they differ. Raises ValueError if too few have values."""
    blocks = errors.dropna(how="all")
    kept = blocks.loc[:, blocks.isna().mean() <= MAX_MISSING].dropna()
    n, k = kept.shape
    if n == 0 or k < 2:
        raise ValueError(f"{k} learners have values on the same {n} streams, and two are needed")
    ranks = kept.rank(axis=1).mean().sort_index().sort_values(kind="stable")
    difference, chi2, p = np.inf, np.nan, np.nan
    if n >= MIN_STREAMS and k > 2:
        chi2, p = stats.friedmanchisquare(*kept.replace(np.inf, 1e300).to_numpy().T)
        q = stats.studentized_range.ppf(1.0 - level, k, np.inf) / np.sqrt(2.0)
        difference = float(q * np.sqrt(k * (k + 1) / (6.0 * n)))
    omitted = [*errors.columns.difference(kept.columns), *errors.index.difference(kept.index)]
    text = f"Left out for missing values: {', '.join(map(str, omitted))}." if omitted else ""
    return Comparison(ranks, difference, float(chi2), float(p), kept, text)


def log_ratios(errors: pd.DataFrame, reference: str, level: float = LEVEL) -> pd.DataFrame:
    """Compare errors with those of a reference by the geometric mean of their ratio over streams.

    A stream is left out if the learner or the reference failed or made no error.

    Returns
    -------
    pandas.DataFrame
        One row per learner, best first: the mean ``ratio``, the ends ``low`` and ``high`` of its t
        interval, the ``worst`` ratio on a stream, and the number of ``streams``.
    """
    usable = np.log(errors.where((errors > 0.0) & np.isfinite(errors)))
    logs = usable.sub(usable[reference], axis=0)
    n, mean = logs.count(), logs.mean()
    half = stats.t.ppf(1.0 - level / 2.0, np.maximum(n - 1, 1)) * logs.std() / np.sqrt(n)
    table = pd.DataFrame({
        "ratio": mean, "low": mean - half, "high": mean + half, "worst": logs.max(),
    })  # fmt: skip
    return np.exp(table).assign(streams=n).sort_values("ratio", kind="stable")
