"""Define the appearance of figures: colours, axes, lines with bands, panels and their legend.

The functions that draw import matplotlib, so that tables do not need it. Figures are created
without pyplot, so they need no window system and are not stored in a global list.

Shapes: R seeds, P recorded rounds. A band shows the sample standard deviation over the seeds. A
single seed has no band.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.report import stats
from omkl.report.naming import Entry
from omkl.runs.run_folder import MSE, Measure, Run
from omkl.utils.disk import write_atomically

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

Array = np.ndarray

# Okabe and Ito's colours without yellow, which is invisible on white paper. The numbers of colours,
# lines and markers are coprime, so the first 280 combinations are all different.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
LINES: tuple[Any, ...] = (
    "solid",
    (0, (5, 1.6)),
    (0, (1.2, 1.2)),
    (0, (7, 1.6, 1.2, 1.6)),
    (0, (4, 1.2, 1, 1.2, 1, 1.2)),
)
# Line styles for settings, which share the colour of their algorithm.
DASHES: tuple[Any, ...] = (*LINES, (0, (9, 1.5, 1.2, 1.5, 1.2, 1.5)), (0, (2.8, 2.8)))
MARKERS = "osD^vPX*"
GREY = "#666666"
DPI = 150  # resolution of a PNG
PNG = ("png",)

_SETTINGS: dict[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "errorbar.capsize": 2,
    "figure.constrained_layout.use": True,
    "pdf.fonttype": 42,  # text can be edited
}


@contextmanager
def applied() -> Iterator[None]:
    """Apply matplotlib's defaults and the settings of this module, ignoring matplotlibrc."""
    import matplotlib.style

    with matplotlib.style.context(["default", _SETTINGS]):
        yield


def look(index: int) -> dict[str, Any]:
    """Return colour, line style and marker number ``index``. Each list is repeated without end."""
    return {
        "color": COLOURS[index % len(COLOURS)],
        "linestyle": LINES[index % len(LINES)],
        "marker": MARKERS[index % len(MARKERS)],
    }


def looks_of(legend: Sequence[Entry]) -> dict[Entry, dict[str, Any]]:
    """Return colour, line style and marker of every entry. Lines differ even without colour.

    If any algorithm has several entries, each algorithm has a colour and a marker, and each
    combination of settings has a line style. If all algorithms have one entry, or if there are more
    algorithms than colours, entry number k has ``look(k)``.
    """
    entries = list(dict.fromkeys(legend))
    learners = list(dict.fromkeys(entry.learner for entry in entries))
    if len(learners) > len(COLOURS) or len(learners) == len(entries):
        return {entry: look(number) for number, entry in enumerate(entries)}
    order = sorted(dict.fromkeys(entry[1:] for entry in entries), key=any)  # no settings: solid
    places = {entry: learners.index(entry.learner) for entry in entries}
    return {
        entry: {
            "color": COLOURS[place],
            "linestyle": DASHES[order.index(entry[1:]) % len(DASHES)],
            "marker": MARKERS[place % len(MARKERS)],
        }
        for entry, place in places.items()
    }


def save(figure: Figure, folder: Path, name: str, suffixes: Sequence[str] = PNG) -> list[Path]:
    """Write a figure to files and return their paths. No file is left half written.

    Parameters
    ----------
    figure
        Figure.
    folder, name
        Folder and stem of the files.
    suffixes
        "png" (150 dpi) and "pdf" (without a date), or one of them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    figure.set_dpi(DPI)
    paths = []
    for suffix in suffixes:
        options: dict[str, Any] = {"dpi": DPI}
        if suffix == "pdf":
            options = {"metadata": {"CreationDate": None}}
        buffer = io.BytesIO()
        figure.savefig(buffer, format=suffix, **options)
        paths.append(folder / f"{name}.{suffix}")
        write_atomically(paths[-1], buffer.getvalue())
    return paths


def wrapped(text: str, width: int) -> str:
    """Break text into lines for matplotlib. Dollar signs are escaped."""
    return "\n".join(textwrap.wrap(text, width)).replace("$", r"\$")


def log_axis(axis: Axis, low: float, high: float) -> None:
    """Make an axis logarithmic, with few, plain tick labels.

    Parameters
    ----------
    axis
        X or y axis.
    low, high
        Limits, 0 < low < high.
    """
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    axis.axes.set(**{f"{axis.axis_name}scale": "log", f"{axis.axis_name}lim": (low, high)})  # type: ignore[attr-defined]
    if high < 8.0 * low:
        axis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 5, 10]))
    else:
        subs = (
            (1.0, 2.0, 5.0) if high < 50.0 * low else (1.0, 3.0) if high < 500.0 * low else (1.0,)
        )
        axis.set_major_locator(LogLocator(subs=subs, numticks=5))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())


# --- lines, axes and panels


# Most points of a line: more would enlarge the file without a visible difference.
N_DRAWN = 2000
N_DRAWN_SMALL = 500
CHANGES = "the stream changes"
CHANGE_COLOUR = "#b2182b"  # not a colour of a learner
WIDTH = 7.0  # inches
N_COLUMNS = 3


def band_line(
    axes: Axes,
    t: Array,
    mean: Array,
    std: Array | None,
    index: int,
    label: str,
    floor: float = -math.inf,
    opacity: float = 0.2,
    looks: Mapping[str, Any] | None = None,
) -> Line2D:
    """Draw a line with a band of one standard deviation.

    Parameters
    ----------
    axes
        Axes to draw into.
    t, mean, std
        Abscissae, means and deviations (n,); std None: no band. A single point has error bars.
    index
        Number of the line, for ``look``. It also shifts the markers along the line, so that the
        markers of several lines do not overlap.
    label
        Text of the legend.
    floor
        Smaller values are drawn at this value, for a logarithmic axis.
    opacity
        Opacity of the band.
    looks
        Colour, line style and marker in place of ``look(index)``.
    """
    looks = look(index) if looks is None else looks
    if std is not None and len(t) > 1:
        lower, upper = np.maximum(mean - std, floor), np.maximum(mean + std, floor)
        axes.fill_between(t, lower, upper, color=looks["color"], alpha=opacity, linewidth=0)
    elif std is not None:
        axes.errorbar(t, mean, yerr=std, color=looks["color"], capsize=3)
    every = (0.03 * (index % 5), 0.16) if len(t) > 1 else 1
    (line,) = axes.plot(t, np.maximum(mean, floor), markevery=every, label=label, **looks)
    return line


def sorted_clients(axes: Axes, run: Run, index: int = 0) -> None:
    """Draw the regret of each client after the last round, in increasing order.

    If there are several seeds, a band shows the standard deviation over the seeds.

    Parameters
    ----------
    axes
        Axes to draw into.
    run
        Run of a federation.
    index
        Number of the line, for ``look``.
    """
    mean, std = mean_std(run.curves["client_regret"])
    order = np.argsort(mean)
    share = (np.arange(len(mean)) + 0.5) / len(mean)
    band_line(axes, share, mean[order], None if std is None else std[order], index, "clients")
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.5, 1], ["least", "median", "most"])


def baseline_lines(
    axes: Axes, runs: Sequence[Run], choose: Callable[[Array], Array]
) -> list[tuple[float, float]]:
    """Draw thin grey lines of the baselines of runs, and return each line's limits on a log axis.

    Parameters
    ----------
    axes
        Axes to draw into.
    runs
        Runs on one stream.
    choose
        Function of the recorded rounds that returns the indices of the rounds to draw.
    """
    limits = []
    for text, t, errors in stats.baseline_curves(runs):
        chosen = choose(t)
        values = errors[chosen]
        dashes = LINES[[*stats.NAMES.values()].index(text)]
        shown = np.where(values > 0.0, values, np.nan)  # not drawn on a logarithmic axis
        axes.plot(t[chosen], shown, label=text, color=GREY, linewidth=0.8, linestyle=dashes)
        if values.max() > 0.0:
            limits.append(positive_limits(values, None))
    return limits


def row_axis(axes: Axes, curves: Mapping[str, Array], from_first: bool = False) -> None:
    """Label the x axis with numbers of rows, or with dates if the dates of the rows increase.

    Parameters
    ----------
    axes
        Axes whose x values are numbers of rows.
    curves
        ``t``, the recorded rows, and ``time``, their dates in days since 1970, if there are dates.
    from_first
        Whether the axis begins at the first recorded row. If False, it begins at 0.
    """
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, num2date
    from matplotlib.ticker import MaxNLocator

    t, time = curves["t"], curves.get("time", np.empty(0))
    first, last = int(t[0]), int(t[-1])
    if first == last:
        axes.set(xlim=(last - 0.5, last + 0.5), xticks=[last], xlabel="row t")
        return
    margin = 0.02 * (last - first)
    axes.set_xlim(first - margin if from_first else 0, last + margin)
    axes.set_xlabel("row t")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    if len(time) > 1 and time[0] < time[-1] and bool(np.all(np.diff(time) >= 0.0)):
        locator = AutoDateLocator(maxticks=7)
        first_day, last_day = num2date(time[0]), num2date(time[-1])
        days = locator.tick_values(first_day, last_day)
        days = days[(days >= time[0]) & (days <= time[-1])]
        if len(days) > 1:
            texts = ConciseDateFormatter(locator).format_ticks(days)
            axes.set_xticks(np.interp(days, time, t), texts)
            axes.set_xlabel(f"{first_day:%Y-%m-%d} to {last_day:%Y-%m-%d}")


def mark_changes(axes: Axes, rounds: Array, t: Array) -> None:
    """Draw vertical lines at the known changes of a stream, with one entry in the legend.

    Parameters
    ----------
    axes
        Axes of rows.
    rounds
        Rounds (C,) of the changes.
    t
        Drawn rounds (n,), which limit the lines.
    """
    from matplotlib.patheffects import withStroke

    label: str | None = CHANGES
    if any(line.get_label() == CHANGES for line in axes.get_lines()):
        return
    dashed: dict[str, Any] = {"color": CHANGE_COLOUR, "linestyle": (0, (4, 2)), "linewidth": 1.3}
    dashed["path_effects"] = [withStroke(linewidth=2.6, foreground="white")]  # for a dark map
    for change in rounds[(rounds > t[0]) & (rounds <= t[-1])]:
        axes.axvline(change, label=label, zorder=3, **dashed)
        label = None


def mean_std(values: Array) -> tuple[Array, Array | None]:
    """Return mean and sample standard deviation over the seeds, which are the first axis.

    The deviation of a single seed is None.
    """
    values = np.asarray(values, dtype=np.float64)
    return values.mean(axis=0), values.std(axis=0, ddof=1) if len(values) > 1 else None


def drawn_rounds(t: Array, skip: float = 0.0, limit: int = N_DRAWN) -> Array:
    """Return the indices of the recorded rounds to draw, which are denser at the beginning.

    Parameters
    ----------
    t
        Recorded rounds (P,).
    skip
        Share of the rounds that is omitted at the beginning.
    limit
        Largest number of indices.
    """
    first = int(np.searchsorted(t, skip * t[-1]))
    if len(t) - first <= limit:
        return np.arange(first, len(t))
    even = np.linspace(first, len(t) - 1, limit // 2).round().astype(int)
    early = np.searchsorted(t, np.geomspace(t[first], t[-1], limit // 2))
    return np.unique(np.concatenate([even, np.minimum(early, len(t) - 1)]))


def positive_limits(mean: Array, std: Array | None) -> tuple[float, float]:
    """Return limits of a logarithmic axis that show a mean curve and most of its band."""
    positive = mean[mean > 0]
    if positive.size == 0:
        return 1e-17, 1e-15
    lowest = float(positive.min())
    bottom = lowest if std is None else max(float((mean - std).min()), lowest / 3)
    top = float(mean.max() if std is None else (mean + std).max())
    return bottom / 1.12, top * 1.12


def panel_grid(n_panels: int) -> tuple[int, int]:
    """Return the numbers of rows and of columns for a grid of panels. Four panels make a square."""
    columns = 2 if n_panels == 4 else min(N_COLUMNS, n_panels)
    return math.ceil(n_panels / columns), columns


class Panel(NamedTuple):
    """One of several panels, with flags that mark panels at the left and at the bottom."""

    axes: Axes
    name: str
    leftmost: bool
    lowest: bool


def panels(names: Sequence[str], row_height: float) -> tuple[Figure, list[Panel]]:
    """Return a figure with one panel per name. Panels are ``row_height`` inches high."""
    from matplotlib.figure import Figure

    rows, columns = panel_grid(len(names))
    figure = Figure(figsize=(max(WIDTH, 3.4 * columns), rows * row_height + 0.4))
    made = []
    for place, name in enumerate(names):
        axes = figure.add_subplot(rows, columns, place + 1)
        axes.set_title(wrapped(name, 30))
        made.append(Panel(axes, name, place % columns == 0, place + columns >= len(names)))
    return figure, made


def figure_legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """Draw one legend below the panels, with every entry once."""
    entries: dict[str, Artist] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if entries:
        longest = max(len(line) for label in entries for line in label.split("\n"))
        fitting = int(figure.get_figwidth() / (0.07 * longest + 0.55))
        columns = max(1, min(fitting, len(entries)))
        figure.set_figheight(figure.get_figheight() + 0.17 * math.ceil(len(entries) / columns))
        figure.legend([*entries.values()], [*entries], loc="outside lower center", ncols=columns)


def axis_name(kind: Measure) -> str:
    return kind.short if kind is MSE else kind.long
