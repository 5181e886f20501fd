"""What shares the star of a table: hand numbers, SciPy as oracle, permutations."""

import numpy as np
import pytest
import scipy.stats

from omkl.report import stats
from omkl.report.stats import holm, same_as_best

NAN = np.nan


def test_holm_by_hand():
    """0.01 x 4, 0.02 x 3, 0.03 x 2 = 0.06 as the one before, 0.4 x 1; what is no test stays."""
    adjusted = holm([0.02, NAN, 0.4, 0.01, 0.03])
    assert adjusted == pytest.approx([0.06, NAN, 0.4, 0.04, 0.06], nan_ok=True)
    assert holm([0.9, 0.6]).tolist() == [1.0, 1.0]


# Multiples of 1/8, whose differences are exact: seeds down, learners across.
BY_HAND = np.array(
    [
        [1.000, 1.125, 1.250, 3.0],
        [2.000, 2.125, 1.875, 4.0],
        [3.000, 3.125, 3.250, 5.5],
        [4.000, 4.125, 4.000, 6.5],
    ]
)


@pytest.mark.parametrize("scores", [BY_HAND - 1, np.exp2(BY_HAND)], ids=["with a 0", "positive"])
def test_a_star_by_hand(scores):
    """Beside the first: higher by 1/8 always; now higher, now lower; far away.

    These are differences where one score is 0, and logarithms to the base 2 of ratios elsewhere.
    """
    found = same_as_best(scores)
    assert found.starred.tolist() == [True, False, True, False]
    t = 0.09375 / np.sqrt(0.10546875 / 3 / 4)  # mean and variance of 1/4, -1/8, 1/4 and 0
    assert found.p[1] == 0.0
    assert found.p[2] == pytest.approx(2 * scipy.stats.t.sf(t, 3)) and found.p[2] > 0.3
    assert found.p[3] == pytest.approx(
        2 * scipy.stats.ttest_rel(BY_HAND[:, 3], BY_HAND[:, 0]).pvalue
    )
    assert np.isnan(found.p[0]) and not found.untested.any()


@pytest.mark.parametrize("shift", [0.0, 5.0])
def test_p_values_are_those_of_scipy(shift):
    rng = np.random.default_rng(3)
    scores = rng.standard_normal((10, 6)) + shift + 0.3 * np.arange(6)
    values = np.log(scores) if shift else scores
    assert (scores > 0).all() == bool(shift)
    best = scores.mean(axis=0).argmin()
    raw = scipy.stats.ttest_rel(values, values[:, [best]]).pvalue
    raw[best] = NAN
    others = ~np.isnan(raw)
    expected = np.full(6, NAN)
    order = np.argsort(raw[others])
    steps = np.maximum.accumulate(raw[others][order] * np.arange(5, 0, -1)).clip(max=1)
    expected[np.flatnonzero(others)[order]] = steps
    found = same_as_best(scores)
    assert found.p == pytest.approx(expected, nan_ok=True)
    assert found.starred.tolist() == [not p <= 0.05 for p in expected]
    assert 1 < found.starred.sum() < 6


def test_a_learner_that_fails_on_some_seeds_has_no_star():
    """Always worse than the best, and now and then by a factor of a hundred."""
    rng = np.random.default_rng(11)
    best = 0.007 * np.exp(0.05 * rng.standard_normal(20))
    fails = best * np.exp(1 + 2 * rng.random(20) ** 2 + 4 * (np.arange(20) < 2))
    assert scipy.stats.ttest_rel(fails, best).pvalue > 0.05
    assert same_as_best(np.transpose([best, fails])).starred.tolist() == [True, False]


def test_what_sums_in_another_order_give_is_a_tie():
    scores = np.array([[0.1, 0.1 * (1 + 1e-15)], [0.101, 0.101 * (1 + 1e-15)]])
    assert scores[0, 0] != scores[0, 1]
    assert same_as_best(scores).starred.tolist() == [True, True]
    sevenths = np.array([[7, 6], [6, 5], [5, 7]]) / 7
    assert sevenths[:, 0].mean() != sevenths[:, 1].mean()  # 6/7, and 6/7
    assert np.isnan(same_as_best(sevenths).p).all()  # both are the best
    assert same_as_best(scores * [1, 1 + 1e-9]).starred.tolist() == [True, False]


def test_one_seed_shows_no_difference_and_gives_one_star():
    found = same_as_best([[0.3, 0.1, 0.2, 0.1]])
    assert found.starred.tolist() == [False, True, False, True]
    assert found.untested.tolist() == [True, False, True, False]
    assert np.isnan(found.p).all()


def test_learners_without_two_common_seeds_are_not_compared():
    """And a learner that is better wherever both were, if not over all seeds, keeps the star."""
    scores = np.array(
        [[1.0, NAN, 0.9], [1.1, NAN, 1.0], [1.2, 5.0, 1.1], [NAN, 5.1, 2.9], [0.9, NAN, NAN]]
    )
    found = same_as_best(scores)
    assert found.starred.tolist() == [True, False, True]
    assert found.untested.tolist() == [False, True, False]
    assert found.p[2] < 0.05  # lower by a tenth on each of three seeds


@pytest.mark.parametrize("gap", [0.0, 0.3])
@pytest.mark.parametrize("score", [np.positive, np.exp])
def test_the_truly_best_keeps_its_star_in_95_of_100_tables(gap, score):
    """400 tables of six learners and five seeds each; the first is the best, or as good as all."""
    rng = np.random.default_rng(7)
    kept = [
        same_as_best(score(rng.standard_normal((5, 6)) + gap * (np.arange(6) > 0))).starred[0]
        for _ in range(400)
    ]
    assert np.mean(kept) >= 0.95


def row(name, scores, draws=True, dataset="naval"):
    made = {"name": f"{name} on {dataset}", "dataset": dataset, "scores": scores, "draws": draws}
    return made | {"code": "a", "started": "2026"}


def test_what_draws_nothing_has_its_score_on_every_seed():
    raker, exact = row("Raker", {0: 0.30, 1: 0.33, 2: 0.31}), row("OMKR", {0: 0.10}, draws=False)
    other, drawn = row("OGD", {0: 0.11}, draws=False), row("GF", {0: 0.2})
    rows = [raker, exact, other, drawn]
    stats.compare(rows)
    assert [row["best"] for row in rows] == [False, True, False, False]
    assert [row["untested"] for row in rows] == [False, False, False, True]
    assert other["p_star"] == 0.0  # nothing is drawn: another number is another learner
    expected = scipy.stats.ttest_1samp(
        np.log([3.0, 3.3, 3.1]), 0.0
    ).pvalue  # the last step of Holm's
    assert raker["p_star"] == pytest.approx(expected)
    stats.compare(tied := [row("a", {0: 0.1}, draws=False), row("b", {0: 0.1}, draws=False)])
    assert [row["best"] for row in tied] == [True, True]


def test_the_footnote_says_how_it_was_decided_and_what_was_not_compared():
    rows = [row("A", {0: 1.0, 1: 1.1}), row("B", {0: 1.1, 1: 1.1}), row("C", {5: 3.0, 6: 3.0})]
    stats.compare(rows)
    assert stats.meaning(rows, "MSE") == (
        "lowest MSE of the data set, and what does not differ from it (paired t over 2 seeds, "
        "Holm, 5%); not compared, with fewer than two seeds in common with it: C on naval"
    )
    stats.compare(alone := [row("A", {0: 1.0})])
    assert stats.meaning(alone, "MSE") == "lowest MSE of the data set (1 seed)"
