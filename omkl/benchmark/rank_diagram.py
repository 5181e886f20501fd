"""The critical-difference diagram: average ranks, and bars that join what no test tells apart.

All lengths are inches, y downwards from the top: names of any length and up to some dozens of
learners have their room, since every learner has a row of its own.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from omkl.benchmark import statistics
from omkl.benchmark.statistics import Groups
from omkl.report import style
from omkl.report.drawing import WIDTH
from omkl.report.stars import LEVEL
from omkl.runs.wording import pluralize

METHODS = {"nemenyi": statistics.critical_difference, "wilcoxon": statistics.wilcoxon_groups}

SIZE = 8.5  # points, of all text
LINE = 0.15  # inches a line of text takes
NAME_LENGTH = 30  # characters, then a name goes on in the next line
GAP = 0.08  # between a name and its line, and between bars
MARGIN = 0.1
SHORTEST_AXIS = 1.5
N_PAIRS = 6  # named below the diagram where bars cannot join them


class Layout(NamedTuple):
    """Where things are; ``bars``, ``rows`` and ``words`` are their tops."""

    left: float
    right: float
    low: int
    high: int
    axis: float
    bars: float
    rows: float
    row_height: float
    words: float
    height: float

    def x(self, rank: float) -> float:
        return self.left + (rank - self.low) / (self.high - self.low) * (self.right - self.left)


def draw_critical_differences(
    errors: pd.DataFrame, to: Path | str | Axes, method: str = "nemenyi", level: float = LEVEL
) -> list[Path]:
    """Draw average ranks of ``errors`` (``omkl.benchmark.statistics``), and what is not told apart.

    ``to`` is a file (.png or .pdf; without a suffix both are written), or axes, which have to be
    high enough. Learners joined by a bar do not differ, by ``method``: "nemenyi", whose ruler is
    the critical difference, or "wilcoxon". Where streams are too few there are no bars and words
    say so. Returns the files written. Raises ValueError for another method or suffix, for too low
    axes, and where there is nothing to compare.
    """
    if method not in METHODS:
        raise ValueError(f"there is no method {method}; there are: {', '.join(METHODS)}")
    groups = METHODS[method](errors, level)
    words = _words(groups)
    if isinstance(to, Axes):
        box = to.get_window_extent()
        dpi = to.get_figure(root=True).dpi  # type: ignore[union-attr]
        _draw(to, groups, words, box.width / dpi, box.height / dpi)
        return []
    path = Path(to)
    if path.suffix not in ("", ".png", ".pdf"):
        raise ValueError(f"{path.name} should end in .png or .pdf, or in neither for both")
    with style.applied():
        height = _layout(groups, words, WIDTH).height
        figure = Figure(figsize=(WIDTH, height))
        figure.set_layout_engine("none")
        _draw(figure.add_axes((0, 0, 1, 1)), groups, words, WIDTH, height)
        suffixes = (path.suffix[1:],) if path.suffix else ("png", "pdf")
        return style.save(figure, path.parent, path.stem, suffixes)


def _words(groups: Groups) -> str:
    """What the diagram says, in sentences."""
    n = len(groups.blocks.errors)
    parts = [f"{pluralize(n, 'stream')}; average ranks, 1 is best."]
    if n > 1:
        found = statistics.friedman(groups.blocks.errors)
        p = "< 0.001" if found.f_p < 0.001 else f"= {found.f_p:.2g}"
        parts.append(f"Do any differ? Friedman's test in Iman and Davenport's form: p {p}.")
    if groups.silence:
        parts.append(f"There are no bars: {groups.silence}.")
    else:
        joined = "Bars join" if groups.cliques else "There are no bars, which would join"
        test = f"{groups.method}, {groups.level:.0%}"
        parts.append(f"{joined} what does not differ ({test}).")
        if groups.unjoined:
            pairs = [" and ".join(map(str, pair)) for pair in groups.unjoined]
            more = f"; {len(pairs) - N_PAIRS} more pairs" if len(pairs) > N_PAIRS else ""
            named = "; ".join(pairs[:N_PAIRS]) + more
            parts.append(f"No bar can join these, which do not differ either: {named}.")
    return " ".join([*parts, groups.blocks.left_out]).strip()


def _labels(groups: Groups) -> list[str]:
    return [
        style.wrapped(f"{name} ({rank:.2f})", NAME_LENGTH) for name, rank in groups.ranks.items()
    ]


def _width(text: str) -> float:
    """Inches that text takes."""
    font = FontProperties(size=SIZE)
    lines = text.replace(r"\$", "$").split("\n")
    return max(text_to_path.get_text_width_height_descent(x, font, False)[0] for x in lines) / 72


def _bar_levels(groups: Groups, layout: Layout) -> list[int]:
    """A level for each bar, 0 on top: those of one level are apart from each other."""
    ends: list[float] = []  # of the last bar of each level
    levels = []
    for clique in groups.cliques:
        start, end = (layout.x(groups.ranks[clique[i]]) for i in (0, -1))
        free = (place for place, last in enumerate(ends) if start - last > 3 * GAP)
        level = next(free, len(ends))
        ends[level : level + 1] = [end]
        levels.append(level)
    return levels


def _layout(groups: Groups, words: str, width: float) -> Layout:
    labels, k = _labels(groups), len(groups.ranks)
    half = (k + 1) // 2
    left = MARGIN + max(map(_width, labels[:half])) + 2 * GAP
    right = width - MARGIN - max(map(_width, labels[half:])) - 2 * GAP
    if right - left < SHORTEST_AXIS:
        raise ValueError(
            f"{width:.1f} inches are too narrow for these names: "
            f"{width + SHORTEST_AXIS - right + left:.1f} are needed"
        )
    low, high = math.floor(groups.ranks.min()), math.ceil(groups.ranks.max())
    if high - low < max(1.0, groups.difference or 0.0):  # the ruler needs its length
        low, high = 1, k
    axis = MARGIN + LINE * (1.2 if groups.silence or groups.difference is None else 3.4)
    bars = axis + 2 * GAP
    layout = Layout(left, right, low, high, axis, bars, bars, 0.0, 0.0, 0.0)
    n_levels = 0 if groups.silence else 1 + max(_bar_levels(groups, layout), default=-1)
    rows = bars + 1.4 * GAP * n_levels + GAP
    row_height = LINE * max(label.count("\n") + 1 for label in labels) + 0.05
    below = rows + row_height * half + GAP
    n_lines = len(_lines_of(words, width))
    height = below + n_lines * LINE + MARGIN
    return layout._replace(rows=rows, row_height=row_height, words=below, height=height)


def _lines_of(words: str, width: float) -> list[str]:
    """Lines that fit between the margins."""
    n_characters = int((width - 2 * MARGIN) / 0.06)
    while True:
        lines = style.wrapped(words, n_characters).split("\n")
        if max(map(_width, lines)) <= width - 2 * MARGIN:
            return lines
        n_characters -= 2


def _draw(axes: Axes, groups: Groups, words: str, width: float, height: float) -> None:
    layout = _layout(groups, words, width)
    if height < layout.height - 1e-6:
        raise ValueError(
            f"the axes are {height:.1f} inches high, and {layout.height:.1f} are needed for "
            f"{len(groups.ranks)} learners"
        )
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    _draw_axis(axes, groups, layout)
    _draw_names(axes, groups, layout, width)
    if not groups.silence:
        for clique, level in zip(groups.cliques, _bar_levels(groups, layout), strict=True):
            start, end = (layout.x(groups.ranks[clique[i]]) for i in (0, -1))
            y = layout.bars + 1.4 * GAP * level
            ends = [start - GAP / 2, end + GAP / 2]
            axes.plot(ends, [y, y], color=style.COLOURS[0], linewidth=3.5, solid_capstyle="butt")
    for place, line in enumerate(_lines_of(words, width)):
        y = layout.words + LINE * place
        axes.text(MARGIN, y, line, size=SIZE, color=style.GREY, va="top")


def _draw_axis(axes: Axes, groups: Groups, layout: Layout) -> None:
    """The axis of ranks, and above it the ruler of the critical difference."""
    y, black = layout.axis, {"color": "black", "linewidth": 1.0}
    axes.plot([layout.left, layout.right], [y, y], **black)  # type: ignore[arg-type]
    n_ticks = layout.high - layout.low + 1
    step = math.ceil(n_ticks * 0.25 / (layout.right - layout.left))
    for rank in range(layout.low, layout.high + 1):
        labelled = (rank - layout.low) % step == 0
        x = layout.x(rank)
        axes.plot([x, x], [y - (0.06 if labelled else 0.03), y], **black)  # type: ignore[arg-type]
        if labelled:
            axes.text(x, y - 0.08, str(rank), size=SIZE, ha="center", va="bottom")
    if groups.difference is not None and not groups.silence:
        start, end = layout.x(layout.low), layout.x(layout.low + groups.difference)
        top = MARGIN + LINE
        axes.plot([start, end], [top, top], **black)  # type: ignore[arg-type]
        for x in (start, end):
            axes.plot([x, x], [top - 0.03, top + 0.03], **black)  # type: ignore[arg-type]
        text = f"critical difference {groups.difference:.2f}"
        axes.text(start, top - 0.05, text, size=SIZE, va="bottom")


def _draw_names(axes: Axes, groups: Groups, layout: Layout, width: float) -> None:
    """The better half at the left, the others at the right, each with a line to its rank."""
    labels, k = _labels(groups), len(groups.ranks)
    half = (k + 1) // 2
    for place, (label, rank) in enumerate(zip(labels, groups.ranks, strict=True)):
        at_left = place < half
        row = place if at_left else k - 1 - place
        y = layout.rows + layout.row_height * (row + 0.5)
        edge = layout.left - GAP if at_left else layout.right + GAP
        x = layout.x(rank)
        axes.plot([x, x, edge], [layout.axis, y, y], color="black", linewidth=0.8)
        side = {"ha": "right", "x": edge - GAP} if at_left else {"ha": "left", "x": edge + GAP}
        axes.text(y=y, s=label, size=SIZE, va="center", **side)  # type: ignore[arg-type]
