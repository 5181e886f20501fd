"""The critical-difference diagram: everything readable, nothing upon another, and words."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from omkl.benchmark.rank_diagram import draw_critical_differences
from omkl.benchmark.statistics import critical_difference, wilcoxon_groups
from omkl.report import style

NAMES = [
    "IE-GP", "VAW² on random features", "River: Hoeffding adaptive tree, with lags",
    "AdaRaker, its rate tuned on a prefix that is not scored", "price in $, as ${x_1}$", "Raker",
    "OMKL-GF (recovered)", "running mean", "last label", "linear ridge",
]  # fmt: skip


def errors(k, n, seed=1):
    rng = np.random.default_rng(seed)
    names = [NAMES[j % 10] + " (lags)" * (j > 9) for j in range(k)]
    table = rng.lognormal(0.1 * np.arange(k), 0.5, (n, k))
    return pd.DataFrame(table, columns=names, index=[f"s{i}" for i in range(n)])


def drawn(table, method="nemenyi", width=7.0, height=12.0):
    """Axes that fill a figure, with their texts and boxes in inches from the upper left."""
    figure = Figure(figsize=(width, height), dpi=100)
    renderer = FigureCanvasAgg(figure).get_renderer()
    axes = figure.add_axes((0, 0, 1, 1))
    assert draw_critical_differences(table, axes, method) == []
    boxes = {text.get_text(): text.get_window_extent(renderer) for text in axes.texts}
    return axes, boxes


@pytest.mark.parametrize(
    ("k", "n", "method"),
    [(2, 30, "wilcoxon"), (5, 15, "nemenyi"), (12, 15, "wilcoxon"), (20, 30, "nemenyi")],
)
def test_no_text_lies_upon_another_or_outside(k, n, method):
    table = errors(k, n)
    axes, boxes = drawn(table, method)
    assert len(boxes) == len(axes.texts)  # all texts differ
    for (one, box), (two, other) in combinations(boxes.items(), 2):
        assert not box.overlaps(other), (one, two)
    for text, box in boxes.items():
        assert 0 < box.x0 and box.x1 < 700 and 0 < box.y0 and box.y1 < 1200, text
    told = " ".join(boxes).replace("\n", " ").replace(r"\$", "$")
    for name, rank in (groups := critical_difference(table)).ranks.items():
        assert f"{name} ({rank:.2f})" in told
    assert f"{n} streams; average ranks, 1 is best." in told
    assert (f"critical difference {groups.difference:.2f}" in told) is (method == "nemenyi")


def test_bars_are_the_groups_and_those_that_meet_are_on_different_levels():
    table = errors(12, 30)
    for method, test in (("nemenyi", critical_difference), ("wilcoxon", wilcoxon_groups)):
        axes, _ = drawn(table, method)
        groups = test(table)
        ticks = [text for text in axes.texts if text.get_text().isdigit()]
        (x0, r0), (x1, r1) = ((t.get_position()[0], int(t.get_text())) for t in ticks[:2])
        ranks = {
            tuple(np.round(r0 + (line.get_xdata() - x0) * (r1 - r0) / (x1 - x0), 6))
            for line in axes.lines
            if line.get_linewidth() == 3.5
        }
        inch = (r1 - r0) / (x1 - x0)
        expected = {
            (
                round(groups.ranks[c[0]] - 0.04 * inch, 6),
                round(groups.ranks[c[-1]] + 0.04 * inch, 6),
            )
            for c in groups.cliques
        }
        assert ranks == expected and len(expected) > 1
        bars = [line for line in axes.lines if line.get_linewidth() == 3.5]
        for one, two in combinations(bars, 2):
            level = one.get_ydata()[0] == two.get_ydata()[0]
            apart = (
                one.get_xdata()[1] < two.get_xdata()[0] or two.get_xdata()[1] < one.get_xdata()[0]
            )
            assert apart or not level


def test_with_few_streams_words_stand_in_place_of_bars():
    axes, boxes = drawn(errors(5, 4))
    assert not [line for line in axes.lines if line.get_linewidth() == 3.5]
    told = " ".join(boxes)
    assert "There are no bars: 4 streams are too few to tell 5 learners apart" in told
    assert "critical difference" not in told


def test_what_was_left_out_is_said():
    table = errors(5, 15)
    table.iloc[3, 2] = np.nan
    _, boxes = drawn(table)
    assert "Left out for missing values: streams s3." in " ".join(boxes)


def test_a_file_and_what_is_refused(tmp_path, monkeypatch):
    table = errors(5, 15)
    (path,) = draw_critical_differences(table, tmp_path / "a.png")
    assert path == tmp_path / "a.png" and path.stat().st_size > 5_000
    with monkeypatch.context() as patched:
        patched.setattr(style, "save", lambda figure, *what: what)
        assert draw_critical_differences(table, "b/c") == (Path("b"), "c", ("png", "pdf"))
    with pytest.raises(ValueError, match=r"c\.svg should end in \.png or \.pdf"):
        draw_critical_differences(table, tmp_path / "c.svg")
    with pytest.raises(ValueError, match="no method holm; there are: nemenyi, wilcoxon"):
        draw_critical_differences(table, tmp_path / "c", "holm")
    with pytest.raises(ValueError, match=r"axes are 1\.0 inches high, and 3\.\d are needed for 5"):
        drawn(table, height=1.0)
    with pytest.raises(ValueError, match=r"4\.0 inches are too narrow for these names: \d"):
        drawn(table, width=4.0)
