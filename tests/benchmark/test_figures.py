"""Figures of a suite: average ranks, and the bars beside them."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from omkl.benchmark import page
from omkl.benchmark.scores import critical_difference


def ranked(k, n):
    names = [f"learner {j} of ${{x_1}}$, with a name that takes two lines or so" for j in range(k)]
    table = np.random.default_rng(1).lognormal(0.1 * np.arange(k), 0.5, (n, k))
    return critical_difference(pd.DataFrame(table, columns=names))


def test_bars_that_share_a_learner_are_beside_each_other():
    groups = ranked(14, 40)
    bars = list(zip(page.bar_levels(groups), groups.cliques, strict=True))
    assert len(bars) > 3
    for (level, clique), (other_level, other) in combinations(bars, 2):
        assert level != other_level or not set(clique) & set(other)


def test_the_ten_best_are_drawn_with_their_part_of_the_bars():
    whole, best = ranked(14, 40), page.best_ranked(ranked(14, 40))
    assert best.ranks.index.tolist() == whole.ranks.index.tolist()[:10]
    assert best.cliques == tuple(
        clique[: 10 - whole.ranks.index.get_loc(clique[0])]
        for clique in whole.cliques
        if whole.ranks.index.get_loc(clique[0]) < 9
    )


@pytest.mark.parametrize(("k", "n"), [(2, 30), (5, 4), (38, 25)])
def test_ranks_are_drawn_whatever_they_are(tmp_path, k, n):
    (path,) = page.rank_plot(ranked(k, n), tmp_path, "ranks")
    assert path == tmp_path / "ranks.png" and path.stat().st_size > 5_000
