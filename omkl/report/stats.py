"""Statistics of runs for reports: stars, baselines and windows.

In a table a star marks the best learner, and every learner that a paired test does not distinguish
from it.

Learners with the same seeds have the same random features and row orders, so they are compared seed
by seed. The test is a two-sided t test of the log-ratios of their scores to those of the learner
with the lowest mean, over the seeds that both have. p-values are adjusted by Holm for the number of
tested learners. If a score of the table is 0 or less, differences replace ratios.

Why ratios: a learner may be worse than the best on each of 20 seeds and fail on a few of them.
These few make the standard error of differences as large as their mean, so differences hide it.
Why not Wilcoxon's test: it cannot reject with few seeds. Its smallest p-value is 2/2^5 with five
seeds, and 25 * 2/2^10 with ten seeds and 26 learners.

The star has three limits:

1. The learner that is truly best keeps its star in at least 95 of 100 tables (97 in simulations).
   A shared star does not show that learners are equal: few seeds distinguish few learners.
2. Among many equal learners, the unluckiest one loses its star in more than 5 of 100 tables (25 of
   100 with 30 learners), because the same numbers choose the best one.
3. Seeds vary the random draws, not the rows. The star says nothing about other data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from omkl.report.naming import readable
from omkl.report.tables import absent
from omkl.runs.run_folder import ERROR_RATE, MSE, Measure, Run, measure, number_of
from omkl.utils.wording import few

Array = np.ndarray

LEVEL = 0.05
ROUNDING = 1e-12  # relative rounding error of a score, from the order of sums


class Comparison(NamedTuple):
    """Comparison of K learners with the best of them."""

    starred: Array  # (K,) the lowest mean, and learners that do not differ from it
    p: Array  # (K,) adjusted by Holm; NaN for the best, and without a test
    untested: Array  # (K,) not tested: fewer than two seeds in common with the best


def holm(p: ArrayLike) -> Array:
    """Adjust p-values (K,) by Holm's step-down method. NaN, for no test, stays NaN."""
    p = np.asarray(p, dtype=np.float64)
    adjusted = np.full(p.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * factors))
    return adjusted


def same_as_best(scores: ArrayLike) -> Comparison:
    """Decide which learners share the star.

    The mean of a learner is over all its seeds. A test uses the seeds that two learners have in
    common. If several learners have the best mean up to rounding, each other learner is compared
    with the one from which it is hardest to distinguish. A learner with fewer than two seeds in
    common with the best has no star and is ``untested``.

    Parameters
    ----------
    scores
        Scores (R, K) of K learners on R seeds; lower is better. NaN: the learner has no such seed.
        A learner that draws nothing has the same score on every seed.

    Raises
    ------
    ValueError
        A learner has no score, or an infinite one.
    """
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 2 or scores.shape[1] == 0:
        raise ValueError(f"scores have the shape {scores.shape}, and should have (seeds, learners)")
    scored = ~np.isnan(scores)
    if not scored.any(axis=0).all() or np.isinf(scores).any():
        raise ValueError("every learner needs a score, and finite ones: leave failures out")
    means = np.array([column[~np.isnan(column)].mean() for column in scores.T])
    lowest = means - means.min() <= ROUNDING * np.abs(means)
    bests = np.flatnonzero(lowest)
    positive = bool((scores[scored] > 0.0).all())
    values = np.log(scores) if positive else scores
    resolution = ROUNDING * (np.ones_like(scores) if positive else np.abs(scores))
    p, excess = np.full(len(means), np.nan), np.zeros(len(means))
    for j in np.flatnonzero(~lowest):
        pairs = (_paired_t(values[:, j] - values[:, i], resolution[:, j]) for i in bests)
        if tests := [test for test in pairs if test is not None]:
            p[j], excess[j] = max(tests)
    adjusted = holm(p)
    untested = np.isnan(p) & ~lowest
    worse = (adjusted <= LEVEL) & (excess > 0.0)
    return Comparison(~worse & ~untested, adjusted, untested)


def _paired_t(differences: Array, resolution: Array) -> tuple[float, float] | None:
    """Return the two-sided p-value of differences and their mean; None for fewer than two pairs.

    Differences below the ``resolution`` count as 0.
    """
    from scipy.special import stdtr  # takes 0.2 s, and a table of single runs does not need it

    paired = ~np.isnan(differences)
    d = differences[paired]
    if len(d) < 2:
        return None
    d = np.where(np.abs(d) <= resolution[paired], 0.0, d)
    mean, spread = float(d.mean()), float(d.std(ddof=1))
    if spread <= ROUNDING * abs(mean):  # the same on every seed
        return float(mean == 0.0), mean
    t = mean / spread * np.sqrt(len(d))
    return float(2.0 * stdtr(len(d) - 1, -abs(t))), mean


def compare(rows: Sequence[dict[str, Any]]) -> None:
    """Set ``best``, ``p_star`` and ``untested`` of the rows of one data set and one measure.

    Each row must have ``scores``, its scores by seed, and ``draws``, which is False for a learner
    whose score is the same for every seed. A row with overflowed errors gets no star.
    """
    for row in rows:
        row |= {"best": False, "p_star": None, "untested": False}
    rows = [
        row for row in rows if row["scores"] and all(map(math.isfinite, row["scores"].values()))
    ]
    if not rows:
        return
    seeds = sorted({seed for row in rows for seed in row["scores"]})
    scores = np.full((len(seeds) + 1, len(rows)), np.nan)
    for column, row in enumerate(rows):
        of_seed = row["scores"]
        if not row["draws"] and len(of_seed) == 1:  # valid for every seed
            scores[:, column] = next(iter(of_seed.values()))
        else:
            scores[:-1, column] = [of_seed.get(seed, np.nan) for seed in seeds]
    for row, starred, p, untested in zip(rows, *same_as_best(scores), strict=True):
        row |= {"best": bool(starred), "p_star": None if np.isnan(p) else float(p)}
        row["untested"] = bool(untested)


def meaning(rows: Sequence[Mapping[str, Any]], measure: str) -> str:
    """Return sentences that explain the star of a table and list the runs that were not compared.

    Each row must have ``name``, its algorithm and data set, ``described``, the same with its
    settings, and the columns that ``compare`` and ``frame_of`` write.
    """
    text = f"lowest {measure} of the data set"
    seeds = sorted({len(row["scores"]) for row in rows if not row.get("untested")})
    over = " to ".join(map(str, dict.fromkeys([seeds[0], seeds[-1]]))) if seeds else "0"
    over += " seed" if over == "1" else " seeds"
    if any(not absent(row.get("p_star")) for row in rows):
        text += f", and what does not differ from it (paired t over {over}, Holm, {LEVEL:.0%})"
    else:
        text += f" ({over})"
    parts = [text]
    if untested := [row["name"] for row in rows if row.get("untested")]:
        alone = "not compared, with fewer than two seeds in common with it"
        parts.append(f"{alone}: {few(untested)}")
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        members = [row for row in rows if row["dataset"] == dataset]
        for name in dict.fromkeys(name for row in members for name in row.get("stream", {})):
            if len({row["stream"].get(name) for row in members}) > 1:
                parts.append(f"on {dataset} each value of {name} has a best run of its own")
        newest = max(members, key=lambda row: str(row["started"]))
        if earlier := [row["described"] for row in members if row["code"] != newest["code"]]:
            parts.append(f"runs of earlier code are not compared with later ones: {few(earlier)}")
        scalings = dict.fromkeys(row["scaling"] for row in members if row.get("scaling"))
        if len(scalings) > 1:
            parts.append(
                f"on {dataset} stream.scaling differs, and with it the unit of errors or the rows "
                f"that count: each of {', '.join(scalings)} has a best run of its own"
            )
    return "; ".join(parts)


# --- errors and baselines


def loss_text(kind: Measure, mean: float, std: float | None) -> str:
    """Format an error with its deviation over seeds.

    Parameters
    ----------
    kind
        MSE, printed unscaled, or an error rate, printed in per cent.
    mean, std
        Mean and deviation; None: no deviation.
    """
    if kind is MSE:
        return readable(mean) + ("" if std is None else f" ± {readable(std, mean)}")
    spread = "" if std is None else f" ± {kind.scale * std:.2f}"
    return f"{kind.scale * mean:.2f}{spread}"


NAMES = {
    "mean": "running mean",
    "last": "last target",
    "seasonal": "last season",
    "ridge": "linear ridge",
    "constant": "most frequent class",
}


def computed(result: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the entries of the baselines that were computed, by name."""
    entries = result.get("baselines", {})
    return {name: entry for name, entry in entries.items() if "skipped" not in entry}


def baseline_curves(runs: Sequence[Run]) -> Iterator[tuple[str, Array, Array]]:
    """Yield the name, the rows (P,) and the errors (P,) of the baselines of runs on one stream.

    A baseline has a curve for each of its inputs or units, and equal curves are yielded once.
    """
    for name, text in NAMES.items():
        shown: list[Array] = []
        for run in runs:
            values = run.curves.get(f"baseline_{name}")
            if values is None or name not in computed(run.result):
                continue
            if not any(np.array_equal(values, other) for other in shown):
                shown.append(values)
                yield text, run.curves["t"], values


def accuracy_text(entry: Mapping[str, Any]) -> str:
    """Return root mean squared and mean absolute error in units of the target."""
    return f"RMSE {readable(number_of(entry['rmse']))}, MAE {readable(number_of(entry['mae']))}"


def compared_by(result: Mapping[str, Any]) -> tuple[str, str]:
    """Return the key of the error in the entries of baselines, and its key in the result of a run.

    Baselines are compared by the error in the first line of a table. For a federation this is the
    MSE.
    """
    if measure(result) is ERROR_RATE:
        return "error_rate", "error_rate_mean"
    return ("rmse", "rmse") if "rmse" in result else ("mse", "mse_mean")


def worse_than(result: Mapping[str, Any]) -> str:
    """Return the names of baselines with smaller errors than the learner, or ""."""
    key, own = compared_by(result)
    names = [
        f"the {NAMES[name]}"
        for name, entry in computed(result).items()
        if number_of(entry.get(key)) < number_of(result.get(own))
    ]
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), *names[-1:]])


# --- windows


N_WINDOWS = 60
LEAST_ROUNDS = 20  # least rounds of a window


class Windowed(NamedTuple):
    """Error of consecutive windows: ends (W + 1,) and means (R, W)."""

    edges: np.ndarray
    loss: np.ndarray


def windowed(run: Run) -> Windowed:
    """Return the error of consecutive windows of rounds, in the unit of the run.

    It is computed from the sums in the curves, so windows end at recorded rounds. A window has at
    least ``LEAST_ROUNDS`` rounds. The error of a window without a scored round is NaN.
    """
    curves, key = run.curves, measure(run.result).key
    t = curves["t"]
    counted = np.broadcast_to(curves.get("scored", t), curves[key].shape).astype(float)
    sums = curves[key] * counted
    n_windows = max(1, min(N_WINDOWS, int(t[-1]) // LEAST_ROUNDS))
    ends = np.searchsorted(t, np.linspace(0, t[-1], n_windows + 1)[1:])
    ends = np.unique(np.minimum(ends, len(t) - 1))
    number = np.diff(counted[:, ends], prepend=0.0)
    total = np.diff(sums[:, ends], prepend=0.0)
    loss = np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)
    # Differences of large sums: rounding may make a loss of 0 negative.
    return Windowed(np.concatenate([[0], t[ends]]), np.maximum(loss, 0.0))
