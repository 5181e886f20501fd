"""The picture of learners side by side: error against time, a panel a stream, every point named."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from benchmarks.tables import Bench
from omkl.benchmark.suite import OURS, PEER, TRIVIAL
from omkl.report import style

LOOKS: dict[str, dict[str, Any]] = {
    OURS: {"color": style.COLOURS[0], "marker": "o"},
    PEER: {"color": style.COLOURS[1], "marker": "s"},
    TRIVIAL: {"color": style.GREY, "marker": "^"},
}
NAMES = {OURS: "omkl", PEER: "other libraries", TRIVIAL: "trivial forecasters"}
HIGHEST = 2.0  # an error that is larger is drawn on the upper edge, with its value
SIZE = 6.5  # points, of a name
MARK = 2.6  # points, half of what a mark takes
RADII = np.arange(4.0, 160.0, 3.0)  # points from a mark to the place of its name
ANGLES = np.arange(24) * (np.pi / 12.0)
NEAR = 8.0  # points: a name that is nearer needs no line to its mark
ON_FRONT = 20.0  # points further away that are as bad as a name across the line of the front
CROSSED = 4.0  # the same for each point of a line to a name that is on another mark
AMBIGUOUS = 15.0  # the same for a name as near to another mark as to its own
CHOICES = 100  # places of a name of which the lines to them are looked at
Array = np.ndarray


def draw(bench: Bench) -> Figure:
    """A panel a stream that has rows, one above the other."""
    found = bench["side"]["learners"]
    streams = [s for s in bench["side"]["streams"] if any(_is_of(row, s["name"]) for row in found)]
    figure = Figure(figsize=(7.0, 0.6 + 4.6 * max(1, len(streams))))
    grid = figure.subplots(max(1, len(streams)), 1, squeeze=False)[:, 0]
    drawn = []
    for axes, stream in zip(grid, streams, strict=False):
        rows = [_within(row) for row in found if _is_of(row, stream["name"])]
        _panel(axes, rows)
        axes.set_title(f"{stream['name']}: {stream['rows']:,} rows, {stream['columns']} inputs")
        axes.set_ylabel("error / error of the running mean")
        drawn.append((axes, rows))
    grid[-1].set_xlabel("µs a row, to predict and to learn")
    handles = [
        Line2D([], [], linestyle="none", label=NAMES[kind], **looks)
        for kind, looks in LOOKS.items()
    ]
    handles.append(Line2D([], [], color=style.GREY, linewidth=1.0, label="Pareto front"))
    figure.legend(handles=handles, loc="outside upper center", ncols=4)
    figure.draw_without_rendering()  # places are in pixels, which the layout decides
    figure.set_layout_engine(None)
    for axes, rows in drawn:
        name_points(axes, rows)
    return figure


def _is_of(row: dict[str, Any], stream: str) -> bool:
    return row["stream"] == stream and "us" in row


def _within(row: dict[str, Any]) -> dict[str, Any]:
    """A row whose error is on the axis: one that is too large is at its end, and named with it."""
    if row["error"] <= HIGHEST:
        return row
    return row | {"error": HIGHEST, "short": f"{row['short']} (error {row['error']:.3g})"}


def _panel(axes: Axes, rows: Sequence[dict[str, Any]]) -> None:
    us, errors = [row["us"] for row in rows], [row["error"] for row in rows]
    style.log_axis(axes.xaxis, 0.6 * min(us), 2.2 * max(us))
    style.log_axis(axes.yaxis, 0.8 * min(errors), 1.35 * max(errors))
    axes.plot(*zip(*front_line(rows), strict=True), color=style.GREY, linewidth=1.0, zorder=1)
    for row in rows:
        axes.plot(row["us"], row["error"], linestyle="none", markersize=4.0, **LOOKS[row["kind"]])


def front_line(rows: Sequence[dict[str, Any]]) -> list[tuple[float, float]]:
    """The corners of the line through the rows of the front: a step down at each of them."""
    front = sorted((row["us"], row["error"]) for row in rows if row["front"])
    steps = [[(us, before), (us, error)] for (_, before), (us, error) in itertools.pairwise(front)]
    return [front[0], *itertools.chain.from_iterable(steps)]


def name_points(axes: Axes, rows: Sequence[dict[str, Any]]) -> None:
    """Every row's name beside its mark, or where there is room and a line to it."""
    pixels = axes.figure.dpi / 72.0
    to_points = lambda xy: axes.transData.transform(xy) / pixels  # noqa: E731
    marks = to_points([(row["us"], row["error"]) for row in rows])
    texts = [
        axes.text(
            row["us"], row["error"], row["short"], fontsize=SIZE, ha="center", va="center",
            color=LOOKS[row["kind"]]["color"],
            path_effects=[withStroke(linewidth=1.4, foreground="white")],
        )
        for row in rows
    ]  # fmt: skip
    extents = [text.get_window_extent() for text in texts]
    halves = np.array([(box.width, box.height) for box in extents]) / pixels / 2.0 + 0.5
    panel = np.array([axes.bbox.p0, axes.bbox.p1]) / pixels
    centres = places(marks, halves, panel, _along(to_points(front_line(rows))))
    to_data = lambda xy: axes.transData.inverted().transform(xy * pixels)  # noqa: E731
    for text, mark, half, centre in zip(texts, marks, halves, centres, strict=True):
        text.set_position(tuple(to_data(centre)))
        end = np.clip(mark, centre - half, centre + half)
        if np.hypot(*(end - mark)) > NEAR:
            x, y = to_data(np.array([mark, end])).T
            axes.plot(x, y, color=style.GREY, linewidth=0.4, zorder=1.5)


def places(marks: Array, halves: Array, panel: Array, front: Array) -> Array:
    """The centres (n, 2) of names with half widths and heights ``halves`` (n, 2).

    No name covers another, a mark (n, 2) or the line from another name to its mark, all lie in
    the ``panel`` (2, 2); few are on the points ``front`` (k, 2), or nearer to another mark. What is
    in a crowd chooses first. A name that has no such place is as near its mark as it can be.
    """
    far = np.linalg.norm(marks[:, None] - marks[None], axis=2)
    order = np.argsort(np.sort(far, axis=1)[:, : 1 + len(marks) // 4].sum(axis=1), kind="stable")
    centres = np.full_like(marks, np.nan)
    lines = np.empty((0, 2))  # points on those that were drawn
    for k in order:
        placed = ~np.isnan(centres[:, 0])
        tried = candidates(marks[k], halves[k])
        bad = (tried - halves[k] < panel[0]).any(axis=1) | (tried + halves[k] > panel[1]).any(
            axis=1
        )
        bad |= _inside(marks, tried, halves[k] + MARK).any(axis=1)
        bad |= _inside(centres[placed], tried, halves[k] + halves[placed]).any(axis=1)
        bad |= _inside(lines, tried, halves[k]).any(axis=1)
        away = np.maximum(np.abs(tried[:, None] - marks[None]) - halves[k], 0.0)
        distance = np.linalg.norm(away, axis=2)
        others = np.arange(len(marks)) != k
        nearer = distance[:, others] < distance[:, k, None] + MARK
        cost = distance[:, k] + ON_FRONT * _inside(front, tried, halves[k]).any(axis=1)
        cost = np.where(bad, np.inf, cost + AMBIGUOUS * nearer.any(axis=1))
        best = np.argsort(cost, kind="stable")[:CHOICES]
        cost = cost[best] + _crossing(marks, k, tried[best], centres[placed], halves[placed])
        centres[k] = tried[best[np.argmin(cost)]]
        end = np.clip(marks[k], centres[k] - halves[k], centres[k] + halves[k])
        lines = np.concatenate([lines, _along(np.array([marks[k], end]))])
    return centres


def _crossing(marks: Array, k: int, tried: Array, centres: Array, halves: Array) -> Array:
    """What lines from mark k to places (n, 2) cost: names are not to be crossed, marks rarely."""
    cost = np.zeros(len(tried))
    others = np.delete(marks, k, axis=0)
    for share in np.linspace(0.0, 1.0, 24):
        points = marks[k] + share * (tried - marks[k])
        cost += CROSSED * _inside(others, points, np.array([MARK, MARK])).sum(axis=1)
        cost[_inside(centres, points, halves).any(axis=1)] = np.inf
    return cost


def candidates(mark: Array, half: Array) -> Array:
    """Centres of a name all around its mark, its nearest edge at ``RADII``."""
    directions = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
    return (mark + RADII[:, None, None] * directions + half * directions).reshape(-1, 2)


def _inside(points: Array, centres: Array, halves: Array) -> Array:
    """Whether each of the points (k, 2) lies in each of the boxes around n centres: (n, k)."""
    off = np.abs(np.asarray(centres)[:, None] - np.asarray(points)[None])
    return (off < (halves if halves.ndim == 1 else halves[None])).all(axis=2)


def _along(corners: Array, step: float = 2.0) -> Array:
    """Points on a line through corners (k, 2), at most ``step`` apart."""
    found = [corners[:1]]
    for a, b in itertools.pairwise(corners):
        n = max(1, int(np.ceil(np.linalg.norm(b - a) / step)))
        found.append(a + (b - a) * np.linspace(0.0, 1.0, n + 1)[1:, None])
    return np.concatenate(found)
