"""Compute statistics of runs for reports: stars, baselines and windows.

In a table a star marks the best learner, and every learner that a paired test does not distinguish
from it.

Learners are compared seed by seed, because for one seed they have the same random features and the
same order of rows. The best learner has the lowest mean score. For each other learner and each
common seed, the logarithm of its score divided by the score of the best learner is computed. A
two-sided t test checks whether the mean of these log-ratios differs from 0. The p-values are
adjusted by Holm's method for the number of tests. If a score of the table is 0 or less, differences
replace log-ratios.

Log-ratios are better than differences if a learner is worse on each of 20 seeds and fails on a few
of them. The failures make the standard error of the differences as large as their mean, so the test
would not reject. Wilcoxon's test cannot reject with few seeds: its smallest p-value is 2/2^5 with
five seeds, and 25 * 2/2^10 with ten seeds and 26 learners.

The star has three limitations:

1. The learner with the lowest expected error has a star in at least 95 of 100 tables (97 in
   simulations), but not in all. A shared star does not show that learners are equal, because with
   few seeds the test rarely rejects.
2. If many learners are equally good, the one with the worst scores loses its star in more than 5 of
   100 tables (25 of 100 with 30 learners). The cause is that the same scores also choose the best
   learner.
3. Seeds vary the random numbers, but not the rows. The star says nothing about other data.
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
ROUNDING = 1e-12  # relative rounding error of a score, which depends on the order of additions


class Comparison(NamedTuple):
    """Comparison of K learners with the best of them."""

    starred: Array  # (K,) bool: lowest mean, or not significantly different from it
    p: Array  # (K,) p-values adjusted by Holm; NaN for the best, and without a test
    untested: Array  # (K,) bool: not tested, with fewer than two seeds in common with the best


def holm(p: ArrayLike) -> Array:
    """Adjust p-values (K,) by Holm's step-down method. NaN means no test, and stays NaN."""
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
    with all of them, and the largest p-value counts. A learner with fewer than two seeds in common
    with the best has no star and is ``untested``.

    Parameters
    ----------
    scores
        Scores (R, K) of K learners on R seeds; lower is better. NaN if a learner was not run with a
        seed. A learner without random numbers has the same score for every seed.

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
    """Return the two-sided p-value and the mean of differences (R,).

    Differences that are NaN are ignored. If fewer than two others remain, the result is None.
    Differences that do not exceed ``resolution`` (R,) count as 0.
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

    Each row must have ``scores``, its scores by seed, and ``draws``, which is False if the score is
    the same for every seed. A row with a score that is not finite gets no star.
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
    """Return a text that explains the star of a table and lists the runs that were not compared.

    Each row must have the columns of ``frame_of``. It must also have ``name``, which is its
    algorithm and data set, and ``described``, which is the name with settings.
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


# --- Errors and baselines -------------------------------------------------------------------------


def loss_text(kind: Measure, mean: float, std: float | None) -> str:
    """Format an error with its deviation over seeds.

    Parameters
    ----------
    kind
        MSE, or an error rate, which is printed in per cent.
    mean, std
        Mean and deviation. A deviation of None is not printed.
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
    """Return the entries of the computed baselines in result.json, by name."""
    entries = result.get("baselines", {})
    return {name: entry for name, entry in entries.items() if "skipped" not in entry}


def baseline_curves(runs: Sequence[Run]) -> Iterator[tuple[str, Array, Array]]:
    """Yield the name, the rows (P,) and the errors (P,) of the baselines of runs on one stream.

    Runs with different inputs or scalings have different curves of a baseline. Equal curves are
    yielded once.
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
    """Return RMSE and MAE in the unit of the target, as text."""
    return f"RMSE {readable(number_of(entry['rmse']))}, MAE {readable(number_of(entry['mae']))}"


def compared_by(result: Mapping[str, Any]) -> tuple[str, str]:
    """Return the keys of the error by which baselines are compared with the learner.

    The first key is for entries of baselines, and the second for the result of a run.
    """
    if measure(result) is ERROR_RATE:
        return "error_rate", "error_rate_mean"
    return ("rmse", "rmse") if "rmse" in result else ("mse", "mse_mean")


def worse_than(result: Mapping[str, Any]) -> str:
    """Return the names of the baselines with smaller errors than the learner, as text, or ""."""
    key, own = compared_by(result)
    names = [
        f"the {NAMES[name]}"
        for name, entry in computed(result).items()
        if number_of(entry.get(key)) < number_of(result.get(own))
    ]
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), *names[-1:]])


# --- Windows --------------------------------------------------------------------------------------


N_WINDOWS = 60
LEAST_ROUNDS = 20  # smallest number of rounds of a window


class Windowed(NamedTuple):
    """Errors of W consecutive windows of rounds.

    edges   (W + 1,) round 0, and the last round of each window
    loss    (R, W) mean error in each window, for R seeds
    """

    edges: np.ndarray
    loss: np.ndarray


def windowed(run: Run) -> Windowed:
    """Return the error of consecutive windows of rounds, in the unit of the run.

    The errors are computed from the curves, so each window ends at a recorded round. A window has
    at least ``LEAST_ROUNDS`` rounds. The error of a window without a scored round is NaN.
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
    # The errors are differences of large sums, so rounding may make an error of 0 negative.
    return Windowed(np.concatenate([[0], t[ends]]), np.maximum(loss, 0.0))
