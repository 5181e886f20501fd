"""The star of a table: the best learner, and all that no paired test tells from it.

Learners with the same seeds saw the same random features (and permutations, where the stream has
them), so they are compared seed by seed: a two-sided t test of the log-ratios to the learner with
the lowest mean, over the seeds that both have, its p-values adjusted by Holm for the number of
learners tested. Where some score of the table is 0 or less, differences take the place of ratios.

Ratios, because differences hide a learner that fails on a few seeds: it may be worse than the best
on each of 20, and these few make the standard error as large as the mean. Not Wilcoxon's test,
because it finds nothing where seeds are few: with five its smallest p-value is 2/2^5, with ten and
26 rows it is 25 * 2/2^10.

Three limits. The learner that is truly best keeps its star in at least 95 of 100 tables (97 of
those simulated), but what shares a star is not shown to be equal: few seeds tell few learners
apart. Among many learners that are equal, the unluckiest loses its star more often than in 5 of 100
tables (25, among 30 learners), since the same numbers choose the best of a table. And seeds
differ in what is drawn while the rows are the same: nothing is said about other data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from omkl.report import same_code, style

Array = np.ndarray

LEVEL = 0.05
ROUNDING = 1e-12  # differences up to so much of a score come from the order of sums


class Comparison(NamedTuple):
    """K learners beside the best of them."""

    starred: Array  # (K,) the lowest mean, and what does not differ from it
    p: Array  # (K,) adjusted by Holm; NaN for the best, and where no test was possible
    untested: Array  # (K,) fewer than two seeds in common with the best, so that no test was made


def holm(p: ArrayLike) -> Array:
    """Adjusted p-values by Holm's step-down method; NaN are no tests, and stay."""
    p = np.asarray(p, dtype=np.float64)
    adjusted = np.full(p.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * factors))
    return adjusted


def same_as_best(scores: ArrayLike, level: float = LEVEL) -> Comparison:
    """Which of K learners share the star, from their scores (R, K) on R seeds.

    Lower is better; NaN where a learner has no such seed. A learner that draws nothing has the
    same score on every seed. The mean of a learner is over its own seeds, a test is over those that
    two learners have in common. Means that agree to rounding are best together, and of
    them the one that is hardest to tell from a learner decides. With fewer than two seeds in common
    nothing can be tested: such a learner has no star and is ``untested``. Raises ValueError where a
    learner has no score at all, or an infinite one.
    """
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 2 or scores.shape[1] == 0:
        raise ValueError(f"scores have the shape {scores.shape}, and should have (seeds, learners)")
    known = ~np.isnan(scores)
    if not known.any(axis=0).all() or np.isinf(scores).any():
        raise ValueError("every learner needs a score, and finite ones: leave failures out")
    means = np.array([column[~np.isnan(column)].mean() for column in scores.T])
    lowest = means - means.min() <= ROUNDING * np.abs(means)
    bests = np.flatnonzero(lowest)
    positive = bool((scores[known] > 0.0).all())
    values = np.log(scores) if positive else scores
    resolution = ROUNDING * (np.ones_like(scores) if positive else np.abs(scores))
    p, excess = np.full(len(means), np.nan), np.zeros(len(means))
    for j in np.flatnonzero(~lowest):
        pairs = (_paired_t(values[:, j] - values[:, i], resolution[:, j]) for i in bests)
        if tests := [test for test in pairs if test is not None]:
            p[j], excess[j] = max(tests)
    adjusted = holm(p)
    untested = np.isnan(p) & ~lowest
    worse = (adjusted <= level) & (excess > 0.0)
    return Comparison(~worse & ~untested, adjusted, untested)


def _paired_t(differences: Array, resolution: Array) -> tuple[float, float] | None:
    """The two-sided p-value of differences (NaN: no pair) and their mean; None for one pair.

    What is below the ``resolution`` counts as 0.
    """
    from scipy.special import stdtr  # 0.2 s of import, which no table of single runs needs

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

    Of a row are read ``scores``, its scores by seed, and ``draws``: false for a learner that has
    the score of its one seed on every other. A row whose errors have overflowed has no star.
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
        if not row["draws"] and len(of_seed) == 1:  # on a seed that no other row has, too
            scores[:, column] = next(iter(of_seed.values()))
        else:
            scores[:-1, column] = [of_seed.get(seed, np.nan) for seed in seeds]
    found = same_as_best(scores)
    for row, starred, p, untested in zip(rows, *found, strict=True):
        row |= {"best": bool(starred), "p_star": None if np.isnan(p) else float(p)}
        row["untested"] = bool(untested)


def meaning(rows: Sequence[dict[str, Any]], measure: str) -> str:
    """What the star of a table says, and of which rows no test says anything."""
    text = f"lowest {measure} of the data set"
    if any(row.get("p_star") is not None for row in rows):
        text += f", and what does not differ from it (paired t over seeds, Holm, {LEVEL:.0%})"
    untested = [f"{r['algorithm']} on {r['dataset']}" for r in rows if r.get("untested")]
    if untested:
        text += f"; not compared, with fewer than two seeds in common with it: {_some(untested)}"
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        streams = [row["stream"] for row in rows if row["dataset"] == dataset and "stream" in row]
        differ = {name for one in streams for name in one if one[name] != streams[0].get(name)}
        if differ:
            names = " and ".join(name for name in streams[0] if name in differ)
            text += (
                f"; on {dataset} each value of {names} has a best of its own: its rows are others"
            )
        scalings: dict[str, dict[str, None]] = {}
        for row in rows:
            if row["dataset"] == dataset and row.get("scaling"):
                scalings.setdefault(row["scaling"], {})[row["algorithm"]] = None
        if len(scalings) > 1:
            each = "; ".join(f"{name}: {', '.join(who)}" for name, who in scalings.items())
            text += f"; on {dataset} stream.scaling differs, and with it the unit of errors or the "
            text += f"rounds that count, so each has a best of its own: {each}"
    earlier: dict[str, list[str]] = {}
    for row in rows:
        if row.get("code", same_code.NEWEST) != same_code.NEWEST:
            chosen = [f"{k}={style.value_text(v)}" for k, v in row["settings"].items()]
            what = " ".join([f"{row['algorithm']} on {row['dataset']}", *chosen])
            earlier.setdefault(row["code"], []).append(what)
    if earlier:
        each = "; ".join(f"{name}: {_some(runs)}" for name, runs in earlier.items())
        text += (
            f"; runs of earlier code are compared among themselves alone ({each}), and the "
            "commands that made them compute them anew"
        )
    return text


def _some(names: Sequence[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
