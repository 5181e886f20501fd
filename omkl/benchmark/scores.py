"""What predictions score, the same for our learners and others, and statistics over data sets.

A round before ``n_unscored`` counts for nobody, and so does a first round of which a peer says
nothing. Errors of a regression are in units of the target.

    mse, mae, rmse       of a regression, over the rounds that count
    error_rate           of a classification; to say nothing is a mistake
    log_loss             -log of the density or the probability (at least 1e-6) of the label
    interval_score_90, coverage_90   of the central interval of 90 % that a spread gives
    mse_from_1000, ..    (error_rate_from_1000, ..) of the rounds 1,000 to 2,999; from 3,000 to
                         9,999, and so on as far as rows go: is a long stream learned on and on
    sliding, fading      mse or error_rate of the last ``window`` rounds; with weights fading^age
    as_run               rmse or error rate over all rounds (but the first in a regression): what
                         ``omkl-run`` prints
    us_a_row             microseconds of processor time a row, on one thread
    bytes                of what was learned, as it is kept in a file
    dynamic_regret       loss above that of what would have been best to say, a round
    after_fault          mse of a stream with a fault from 500 rounds after it on (after its begin,
                         where it stays), over that of at most 1,000 rounds before it
    recovery             rounds after a change until the sliding loss is back, see ``recovery``

Statistics of learners over data sets (Demsar, JMLR 7, 2006; Benavoli et al., JMLR 17, 2016) take
``errors``, a DataFrame: streams are the rows (blocks), learners the columns, values are scores
averaged over seeds, lower is better. Two values say that there is no score:

    NaN   no value: it was not run, the file is not there. Average ranks, Friedman and Nemenyi need
          complete blocks: ``complete_blocks`` leaves learners and streams out, and every result
          names them. Log-ratios use the streams that both learners have.
    inf   the learner has failed: it has diverged or died. It ranks behind all others; learners that
          failed on one stream are tied there. A log-ratio of it does not exist.

Streams are blocks of equal weight and independent of each other: two halves of one data set are
not two streams. Seeds are no streams either (what shares a star, ``omkl.report.stats``, is decided
by seeds within one).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from scipy.signal import lfilter

from omkl.experiment import metrics
from omkl.report.stats import LEVEL
from omkl.utils.wording import pluralize

BANDS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000)  # rounds in which scores by band begin
LEAST = 1e-6  # a probability in the log loss
POINTS = 300  # of a curve
SETTLED, CALM = 500, 1000  # rounds after a fault that do not count, and before it that do
BACK, BEFORE = 1.5, 4  # times the loss before a change, when it is over; windows it is taken from
MAIN = {"regression": "mse", "classification": "error_rate"}  # what learners are ranked by
MEASURED = ("us_a_row", "bytes")  # that another machine or library has otherwise

Array = np.ndarray


class Predictions(NamedTuple):
    """What was said of n rows before their labels, and what it took.

    y_hat          (n,) numbers, or codes of classes; NaN where nothing was said
    spread         (n,) standard deviations, NaN where there is none
    probabilities  (n, K) of the classes, or None
    seconds        of processor time on one thread, in predicting and learning all rows
    bytes          of what was learned, as it is kept in a file
    """

    y_hat: Array
    spread: Array
    probabilities: Array | None
    seconds: float
    bytes: int


class Diverged(ArithmeticError):
    """Predictions or their squared errors are not finite; the text says from which row on."""


class Rules(NamedTuple):
    """How rounds are counted: the first that do not, rows of a window, factor of fading."""

    n_unscored: int
    window: int
    fading: float


class Scored(NamedTuple):
    """Scores by name, and curves (P,) by name: t, running, sliding, fading."""

    scores: dict[str, float]
    curves: dict[str, Array]


def scored(
    y: Array,
    predictions: Predictions,
    rules: Rules,
    truth: Array | None = None,
    change_rounds: Sequence[int] = (),
    classes: bool = False,
    fault: Sequence[int] = (),
) -> Scored:
    """Score predictions of labels y (n,), codes of classes or numbers.

    ``truth`` (n,) is what would have been best to say; ``fault`` the first round of one and the
    last. Raises Diverged.
    """
    y_hat = np.asarray(predictions.y_hat)
    counts = np.arange(len(y)) >= rules.n_unscored
    counts[0] &= not np.isnan(y_hat[0])
    with np.errstate(over="ignore"):
        losses = _losses(y, y_hat, classes)
        finite = np.isfinite(np.cumsum(losses[1:]))  # of the first row nothing may be said
    if not finite.all():
        raise Diverged(f"the sum of squared errors up to row {finite.argmin() + 2} is not finite")
    scores = (
        _of_classes(losses, y, predictions, counts)
        if classes
        else _of_numbers(losses, y, predictions, counts)
    )
    if truth is not None:
        above = losses - _losses(y, truth, classes)
        scores["dynamic_regret"] = float(above[counts].mean())
        if change_rounds:
            scores["recovery"] = recovery(losses, change_rounds, rules.window)
    if fault:
        scores |= _after_fault(losses, rules.n_unscored, *fault)
    scores |= {"us_a_row": 1e6 * predictions.seconds / len(y), "bytes": float(predictions.bytes)}
    curves = _curves(losses, np.flatnonzero(counts), rules)
    scores |= {name: float(curves[name][-1]) for name in ("sliding", "fading")}
    return Scored(scores, curves)


def _losses(y: Array, y_hat: Array, classes: bool) -> Array:
    return (y_hat != y).astype(float) if classes else np.square(y_hat - y)


def _by_band(name: str, losses: Array) -> dict[str, float]:
    return {
        f"{name}_from_{begin}": float(losses[begin:end].mean())
        for begin, end in itertools.pairwise(BANDS)
        if len(losses) >= end
    }


def _of_classes(
    losses: Array, y: Array, predictions: Predictions, counts: Array
) -> dict[str, float]:
    scores = {"error_rate": float(losses[counts].mean()), "as_run": float(losses.mean())}
    scores |= _by_band("error_rate", losses)
    if predictions.probabilities is not None:
        p = predictions.probabilities[np.arange(len(y)), y.astype(int)]
        scores["log_loss"] = float(-np.log(np.clip(p[counts], LEAST, 1.0)).mean())
    return scores


def _of_numbers(
    losses: Array, y: Array, predictions: Predictions, counts: Array
) -> dict[str, float]:
    mse = float(losses[counts].mean())
    mae = float(np.abs(predictions.y_hat - y)[counts].mean())
    scores = {"mse": mse, "rmse": float(np.sqrt(mse)), "mae": mae}
    # One by one, as a run sums up.
    scores["as_run"] = float(np.sqrt(np.cumsum(losses[1:])[-1] / (len(losses) - 1)))
    scores |= _by_band("mse", losses)
    has_spread = counts & (predictions.spread > 0.0)
    if has_spread.any():
        of_spread = metrics.spread_scores(losses[has_spread], predictions.spread[has_spread])
        names = ("log_loss", "interval_score_90", "coverage_90")
        scores |= {name: float(of_spread[name].mean()) for name in names}
    return scores


def _curves(losses: Array, rounds: Array, rules: Rules) -> dict[str, Array]:
    """Means over rounds 1..t, the last ones, and with fading weights, at some rounds."""
    counted = losses[rounds]
    n = np.arange(1, len(counted) + 1)
    sums = np.concatenate([[0.0], np.cumsum(counted)])
    first = np.maximum(n - rules.window, 0)
    fade = [1.0, -rules.fading]
    at = np.unique(np.linspace(0, len(counted) - 1, min(POINTS, len(counted))).round().astype(int))
    curves = {
        "t": rounds + 1.0,
        "running": sums[1:] / n,
        "sliding": (sums[n] - sums[first]) / (n - first),
        "fading": lfilter([1.0], fade, counted) / lfilter([1.0], fade, np.ones(len(counted))),
    }
    return {name: values[at] for name, values in curves.items()}


def _after_fault(losses: Array, n_unscored: int, first: int, last: int) -> dict[str, float]:
    """Nothing of a stream that is too short."""
    before = losses[max(n_unscored, first - 1 - CALM) : first - 1]
    after = losses[(last if last < len(losses) else first - 1) + SETTLED :]
    if not len(after) or not before.any():
        return {}
    return {"after_fault": float(after.mean() / before.mean())}


def recovery(losses: Array, change_rounds: Sequence[int], window: int) -> float:
    """Rounds until a change is over, the mean over all changes.

    It is over when the mean loss of the last ``window`` rounds, all of them after the change, is
    at most 1.5 times that of the 4 ``window`` rounds before it; where that never is before the
    next change, or the end, it took all rounds until then.
    """
    ends = [*(c - 1 for c in change_rounds[1:]), len(losses)]
    rounds = []
    for change, end in zip(change_rounds, ends, strict=True):
        before = losses[max(change - 1 - BEFORE * window, 0) : change - 1].mean()
        after = losses[change - 1 : end]
        n = min(window, len(after))
        sums = np.concatenate([[0.0], np.cumsum(after)])
        sliding = (sums[n:] - sums[:-n]) / n
        over = np.flatnonzero(sliding <= BACK * before)
        rounds.append(n + int(over[0]) if len(over) else len(after))
    return float(np.mean(rounds))


# A learner without a value on more of the streams than this is left out, rather than the streams.
MOST_MISSING = 0.2
# With fewer not even a learner that wins on all differs at 5 %: a sign test has 2/2^5 or more.
FEWEST_STREAMS = 6


class Blocks(NamedTuple):
    """Errors without a NaN, and what was left out for it."""

    errors: pd.DataFrame
    learners: tuple[str, ...]
    streams: tuple[str, ...]

    @property
    def left_out(self) -> str:
        """A sentence for readers; "" where nothing was left out."""
        parts = [
            f"{kind} {', '.join(names)}"
            for kind, names in (("learners", self.learners), ("streams", self.streams))
            if names
        ]
        return f"Left out for missing values: {'; '.join(parts)}." if parts else ""


class Friedman(NamedTuple):
    """Do the learners differ at all? Friedman's test, and the F of Iman and Davenport."""

    statistic: float  # chi-squared with n_learners - 1 degrees of freedom, corrected for ties
    p: float
    f: float  # (n - 1) chi2 / (n (k - 1) - chi2): less conservative; inf if all streams agree
    f_p: float
    n_streams: int
    n_learners: int
    blocks: Blocks


class Groups(NamedTuple):
    """Average ranks, and which learners Nemenyi's test does not tell apart.

    A clique is a run of neighbours in rank of which no two differ, as long as it can be. A learner
    that differs from its neighbours is in none.
    """

    ranks: pd.Series  # as of ``average_ranks``
    cliques: tuple[tuple[str, ...], ...]
    difference: float  # of ranks that is significant
    level: float
    silence: str  # why the streams are too few to tell any learners apart; "" if they are not
    blocks: Blocks


def complete_blocks(errors: pd.DataFrame) -> Blocks:
    """The errors of learners and streams that have them all, and who was left out.

    First go streams where no learner has a value; then learners without one on more than
    ``MOST_MISSING`` of the streams; then every stream where one of the others has none.
    Raises ValueError where fewer than two learners or no stream remain.
    """
    missing = errors.isna()
    missing = missing[~missing.all(axis=1)]
    kept = errors.columns[missing.mean() <= MOST_MISSING] if len(missing) else errors.columns[:0]
    complete = errors[kept].dropna()
    if len(kept) < 2 or complete.empty:
        raise ValueError(
            f"of {errors.shape[1]} learners on {errors.shape[0]} streams {len(kept)} have a value "
            f"on {1 - MOST_MISSING:.0%} of the streams, and together on {len(complete)} streams: "
            "run what is missing, or leave learners out"
        )
    learners = tuple(str(name) for name in errors.columns if name not in kept)
    streams = tuple(str(name) for name in errors.index if name not in complete.index)
    return Blocks(complete, learners, streams)


def average_ranks(errors: pd.DataFrame) -> tuple[pd.Series, Blocks]:
    """The mean rank of each learner, the best first, equal ones by name; 1 is best.

    Equal errors share the mean of their ranks.
    """
    blocks = complete_blocks(errors)
    ranks = blocks.errors.rank(axis=1).mean()
    return ranks.sort_index(key=lambda i: i.map(str)).sort_values(kind="stable"), blocks


def friedman(errors: pd.DataFrame) -> Friedman:
    """Friedman's test on the ranks. Raises ValueError on a single stream."""
    blocks = complete_blocks(errors)
    n, k = blocks.errors.shape
    if n < 2:
        raise ValueError("Friedman's test needs two streams at least, and there is one")
    excess = blocks.errors.rank(axis=1).to_numpy() - (k + 1) / 2
    spread = float((excess**2).sum())  # of all ranks; 0 where every stream is one tie
    chi2 = (k - 1) * float((excess.sum(axis=0) ** 2).sum()) / spread if spread else 0.0
    rest = n * (k - 1) - chi2
    # Half ranks and their sums are exact, so all streams agree exactly where nothing is left.
    agree = spread > 0 and float((excess.sum(axis=0) ** 2).sum()) == n * spread
    f = np.inf if agree else (n - 1) * chi2 / rest
    return Friedman(
        chi2, float(stats.chi2.sf(chi2, k - 1)),
        f, float(stats.f.sf(f, k - 1, (k - 1) * (n - 1))),
        n, k, blocks,
    )  # fmt: skip


def critical_difference(errors: pd.DataFrame, level: float = LEVEL) -> Groups:
    """Nemenyi's test: average ranks differ where they are ``difference`` apart or more.

    The difference is q sqrt(k (k + 1) / (6 n)) for k learners on n streams; q is the quantile of
    the studentised range of k normal values, divided by sqrt(2).
    """
    ranks, blocks = average_ranks(errors)
    n, k = blocks.errors.shape
    q = float(stats.studentized_range.ppf(1.0 - level, k, np.inf)) / np.sqrt(2.0)
    difference = q * np.sqrt(k * (k + 1) / (6.0 * n))
    needed = max(int(np.ceil(q**2 * k * (k + 1) / (6.0 * (k - 1) ** 2))), FEWEST_STREAMS)
    why = ""
    if difference > k - 1:
        why = f"their ranks would have to differ by {difference:.2f}, and can by {k - 1} at most"
    elif n < FEWEST_STREAMS:
        chance = min(1.0, 2.0 ** (1 - n))
        why = f"of two that are equal one is better on all with a probability of {chance:.2g}"
    silence = ""
    if why:
        streams = f"{pluralize(n, 'stream')} {'is' if n == 1 else 'are'} too few"
        silence = f"{streams} to tell {k} learners apart: {why} ({needed} streams are needed)"
    cliques = _cliques(ranks, difference)
    return Groups(ranks, cliques, float(difference), level, silence, blocks)


def _cliques(ranks: pd.Series, difference: float) -> tuple[tuple[str, ...], ...]:
    """The longest runs of neighbours in rank of which no two are ``difference`` apart."""
    names, values, cliques, reached = list(ranks.index), ranks.to_numpy(), [], 0
    for start in range(len(names)):
        stop = int(np.searchsorted(values - values[start], difference))
        if stop > max(reached, start + 1):
            cliques.append(tuple(names[start:stop]))
            reached = stop
    return tuple(cliques)


def log_ratio(errors: pd.DataFrame, to: str = "ridge", level: float = LEVEL) -> pd.DataFrame:
    """How many times the error of the learner ``to`` the others make: what ranks hide.

    A row a learner, the best first: n_streams; mean, low, high of log(error / error of ``to``) over
    the streams, with a t interval of 1 - ``level`` (NaN for one stream); ratio, ratio_low,
    ratio_high, their exponentials: 0.8 is a fifth less error in the geometric mean. Streams without
    a logarithm do not count: no value, a failure, or an error of 0 of one of the two.
    """
    usable = errors.where((errors > 0.0) & np.isfinite(errors))
    rows = {}
    for name in errors.columns.drop(to):
        present = (np.log(usable[name]) - np.log(usable[to])).dropna()
        n, mean = len(present), present.mean()
        half = np.nan
        if n > 1:
            half = stats.t.ppf(1.0 - level / 2.0, n - 1) * present.std() / np.sqrt(n)
        rows[name] = (n, mean, mean - half, mean + half)
    names = ["n_streams", "mean", "low", "high"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=names)
    for column, log in (("ratio", "mean"), ("ratio_low", "low"), ("ratio_high", "high")):
        table[column] = np.exp(table[log])
    return table.sort_values("mean", kind="stable")
