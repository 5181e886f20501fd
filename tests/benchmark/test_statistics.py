"""Statistics over data sets, beside published numbers, other libraries, and counting by hand."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from omkl.benchmark.scores import (
    average_ranks,
    complete_blocks,
    critical_difference,
    friedman,
    log_ratio,
)

NAN = np.nan

# Demsar, JMLR 7, 2006, table 6: 1 - AUC in thousandths. In "voting" the last two are printed alike
# and ranked 2 and 3.
VARIANTS = ["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"]
DEMSAR = pd.DataFrame(
    [
        [237, 232, 229, 202], [401, 409, 410, 431], [46, 29, 32, 33], [372, 339, 346, 343],
        [118, 112, 114, 102], [64, 69, 84, 69], [339, 332, 391, 315], [417, 417, 437, 375],
        [225, 162, 134, 125], [0, 0, 0, 0], [60, 38, 35, 38], [381, 334, 386, 331],
        [28, 19, 24.9, 25], [43, 22, 54, 30],
    ],
    columns=VARIANTS,
)  # fmt: skip

# Ten streams, four learners, no ties; and what scikit-posthocs 0.17.1 says of them:
#   long = ERRORS.melt(var_name="g", value_name="v")
#   posthoc_nemenyi_friedman(ERRORS)
ERRORS = pd.DataFrame(
    [
        [80, 63, 46, 72], [22, 88, 26, 94], [13, 55, 29, 52], [46, 101, 110, 106],
        [67, 28, 42, 63], [57, 32, 109, 122], [21, 27, 50, 53], [20, 93, 35, 137],
        [31, 96, 37, 81], [90, 93, 81, 121],
    ],
    columns=list("abcd"),
)  # fmt: skip
POSTHOCS = {  # pair: p of Nemenyi
    "ab": 0.6189123238078663,
    "ac": 0.8998835057401946,
    "ad": 0.017056143645461153,
    "bc": 0.9544113425170127,
    "bd": 0.30694968254063437,
    "cd": 0.1096113529818119,
}


def test_the_example_of_the_paper():
    ranks, _ = average_ranks(DEMSAR)
    assert ranks.round(3).to_dict() == {
        "C4.5+m+cf": 1.964, "C4.5+m": 2.0, "C4.5+cf": 2.893, "C4.5": 3.143
    }  # fmt: skip
    found = friedman(DEMSAR)
    without_ties = 1 - (60 + 3 * 6) / (14 * 4 * 15)  # of the paper: one tie of four, three of two
    assert found.statistic * without_ties == pytest.approx(9.28, abs=0.005)
    assert (found.n_streams, found.n_learners, found.blocks.left_out) == (14, 4, "")
    assert critical_difference(DEMSAR).difference == pytest.approx(1.25, abs=0.005)
    assert critical_difference(DEMSAR).cliques == (tuple(ranks.index),)
    at_ten = critical_difference(DEMSAR, level=0.1)
    assert at_ten.difference == pytest.approx(1.12, abs=0.005)
    assert at_ten.cliques == (("C4.5+m+cf", "C4.5+m", "C4.5+cf"), ("C4.5+cf", "C4.5"))
    assert at_ten.silence == ""


@pytest.mark.parametrize(
    ("n", "k", "difference"),
    # q of table 5(a) of the paper, which is cut after three digits, and two of our own settings
    [(1, 2, 1.960 * 1.0), (1, 5, 2.728 * 5**0.5), (1, 10, 3.164 * (110 / 6) ** 0.5),
     (4, 8, 5.25), (15, 8, 2.71)],
)  # fmt: skip
def test_critical_differences(n, k, difference):
    errors = pd.DataFrame(np.tile(np.arange(k), (n, 1)))
    assert critical_difference(errors).difference == pytest.approx(difference, rel=2e-3)


def test_friedman_is_that_of_scipy_and_f_follows():
    for errors in (DEMSAR, ERRORS):
        found, expected = friedman(errors), stats.friedmanchisquare(*errors.to_numpy().T)
        assert (found.statistic, found.p) == pytest.approx(tuple(expected))
        n, k = errors.shape
        f = (n - 1) * found.statistic / (n * (k - 1) - found.statistic)
        assert found.f == pytest.approx(f)
        assert found.f_p == pytest.approx(stats.f.sf(f, k - 1, (k - 1) * (n - 1)))


def test_friedman_where_all_streams_agree_or_none_says_anything():
    agreed = friedman(pd.DataFrame([[1, 2, 3]] * 7))
    assert (agreed.statistic, agreed.f, agreed.f_p) == (14.0, np.inf, 0.0)
    tied = friedman(pd.DataFrame([[1, 1, 1]] * 7))
    assert (tied.statistic, tied.p, tied.f, tied.f_p) == (0.0, 1.0, 0.0, 1.0)
    with pytest.raises(ValueError, match="two streams at least, and there is one"):
        friedman(pd.DataFrame([[1, 2, 3]]))


@pytest.mark.parametrize("pair", POSTHOCS)
def test_the_critical_difference_at_the_p_value_of_a_pair_is_their_difference(pair):
    ranks = average_ranks(ERRORS)[0]
    apart = abs(ranks[pair[0]] - ranks[pair[1]])
    assert critical_difference(ERRORS, POSTHOCS[pair]).difference == pytest.approx(apart)


def test_groups_of_neighbours():
    """By rank: a, c, b, d; and with failures behind all others, tied."""
    assert critical_difference(ERRORS).cliques == (("a", "c", "b"), ("c", "b", "d"))
    errors = pd.DataFrame({"a": [1.0, 2.0, np.inf], "b": [np.inf, 3.0, np.inf], "c": [2, 1, 3.0]})
    assert average_ranks(errors)[0].to_dict() == {"c": 4 / 3, "a": 5.5 / 3, "b": 8.5 / 3}


@settings(max_examples=10, deadline=None)
@given(st.integers(3, 9), st.integers(2, 5), st.integers(0, 2**32 - 1))
def test_order_and_units_play_no_part(n, k, seed):
    """Errors with ties; each stream in a unit of its own; learners and streams permuted."""
    rng = np.random.default_rng(seed)
    errors = pd.DataFrame(rng.integers(1, 6, (n, k)).astype(float), columns=list("abcde")[:k])
    units = errors.mul(2.0 ** rng.integers(-3, 4, n), axis=0)
    shuffled = errors.sample(frac=1, random_state=seed).sample(frac=1, axis=1, random_state=seed)
    cliques = critical_difference(errors).cliques
    assert cliques == critical_difference(shuffled).cliques
    assert not any(set(one) < set(other) for one in cliques for other in cliques)
    pd.testing.assert_series_equal(average_ranks(errors)[0], average_ranks(units)[0])
    assert friedman(shuffled).f_p == pytest.approx(friedman(errors).f_p)
    ratios, other = log_ratio(errors, "a"), log_ratio(units, "a")
    pd.testing.assert_frame_equal(ratios, other.loc[ratios.index])


def test_a_ratio_by_hand():
    """Half, and twice: no difference in the geometric mean; and always a tenth of it."""
    errors = pd.DataFrame(
        {"ridge": [1.0, 2.0, 4.0, 0.0], "x": [0.5, 4.0, 4.0, 1.0], "y": [0.1, 0.2, np.inf, 1.0]},
        index=["s1", "s2", "s3", "s4"],
    )
    found = log_ratio(errors)
    assert list(found.index) == ["y", "x"] and found.n_streams.tolist() == [2, 3]
    y, x = found.loc["y"], found.loc["x"]
    assert [y["mean"], y.low, y.high] == pytest.approx([np.log(0.1)] * 3)
    half = stats.t.ppf(0.975, 2) * np.log(2) / np.sqrt(3)
    assert [x["mean"], x.low, x.high] == pytest.approx([0.0, -half, half], abs=1e-12)
    assert [x.ratio, x.ratio_low, x.ratio_high] == pytest.approx([1, np.exp(-half), np.exp(half)])
    alone = log_ratio(errors.loc[["s1"]]).loc["x"]
    assert alone.ratio == 0.5 and np.isnan(alone.ratio_low)


def test_what_lacks_values_is_left_out_and_named():
    """s0 has nobody; b lacks more than a fifth of the others; then s1 lacks c alone."""
    errors = pd.DataFrame(np.arange(24.0).reshape(8, 3), columns=list("abc"))
    errors.index = [f"s{i}" for i in range(8)]
    errors.loc["s0"] = NAN
    errors.loc[["s2", "s3"], "b"] = NAN
    errors.loc["s1", "c"] = NAN
    blocks = complete_blocks(errors)
    assert (list(blocks.errors.columns), len(blocks.errors)) == (["a", "c"], 6)
    assert (blocks.learners, blocks.streams) == (("b",), ("s0", "s1"))
    assert blocks.left_out == "Left out for missing values: learners b; streams s0, s1."
    assert critical_difference(errors).blocks.left_out == blocks.left_out
    errors["c"] = NAN
    with pytest.raises(ValueError, match="of 3 learners on 8 streams 1 have a value on 80%"):
        average_ranks(errors)


def test_too_few_streams_are_said_to_be_too_few():
    few = ERRORS.iloc[:4]
    assert critical_difference(few).silence == (
        "4 streams are too few to tell 4 learners apart: of two that are equal one is better on "
        "all with a probability of 0.12 (6 streams are needed)"
    )
    assert critical_difference(ERRORS.iloc[:1]).silence == (
        "1 stream is too few to tell 4 learners apart: their ranks would have to differ by 4.69, "
        "and can by 3 at most (6 streams are needed)"
    )
