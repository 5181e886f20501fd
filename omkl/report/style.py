"""How runs are named and how figures look, the same in every table and figure.

matplotlib is imported by the functions that draw, so that tables do not need it.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omkl import registry
from omkl.disk import write_atomically
from omkl.runs.config_file import PROSE
from omkl.runs.run_folder import NEUTRAL, Run
from omkl.runs.schema import plain_texts

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Okabe and Ito's colours without yellow, which vanishes on white paper. The three
# cycles have coprime lengths: the first 280 looks are all different.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
LINES: tuple[Any, ...] = (
    "solid",
    (0, (5, 1.6)),
    (0, (1.2, 1.2)),
    (0, (7, 1.6, 1.2, 1.6)),
    (0, (4, 1.2, 1, 1.2, 1, 1.2)),
)
# Of settings, which have a colour in common: as many as curves in one panel.
DASHES: tuple[Any, ...] = (*LINES, (0, (9, 1.5, 1.2, 1.5, 1.2, 1.5)), (0, (2.8, 2.8)))
MARKERS = "osD^vPX*"
GREY = "#666666"
DPI = 150  # of a PNG

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
    "pdf.fonttype": 42,  # text stays text for whoever edits the figure
}
# matplotlib 3.11 knows each key by its name, 3.9 takes any: the type of no dictionary suits both.
_NO_LAYOUT: Any = {"figure.autolayout": False, "figure.constrained_layout.use": False}


@contextmanager
def applied() -> Iterator[None]:
    """matplotlib's defaults plus our settings, whatever the user's matplotlibrc says."""
    import matplotlib.style

    with matplotlib.style.context(["default", _SETTINGS]):
        yield


def look(index: int) -> dict[str, Any]:
    """Colour, line style and marker number ``index`` of the cycle."""
    return {
        "color": COLOURS[index % len(COLOURS)],
        "linestyle": LINES[index % len(LINES)],
        "marker": MARKERS[index % len(MARKERS)],
    }


def looks_of(runs: Sequence[Run], legend: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The look of every entry of the legend: its algorithm has the colour, its settings the dash.

    Of more algorithms than colours every entry has a colour, a dash and a marker of its own.
    """
    algorithms = list(dict.fromkeys(name_of(run) for run in runs))
    settings = [entry.removeprefix(name_of(run)) for run, entry in zip(runs, legend, strict=True)]
    known = sorted(dict.fromkeys(settings), key=bool)  # none is solid
    if len(algorithms) > len(COLOURS):
        return {entry: look(number) for number, entry in enumerate(dict.fromkeys(legend))}
    return {
        entry: {
            "color": COLOURS[algorithms.index(name_of(run))],
            "linestyle": DASHES[known.index(text) % len(DASHES)],
            "marker": MARKERS[known.index(text) % len(MARKERS)],
        }
        for run, entry, text in zip(runs, legend, settings, strict=True)
    }


def save(
    figure: Figure, folder: Path, name: str, suffixes: Sequence[str] = ("png", "pdf")
) -> list[Path]:
    """Write ``name``.png (150 dpi) and ``name``.pdf (undated) whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    options: dict[str, dict[str, Any]] = {
        "png": {"dpi": DPI},
        "pdf": {"metadata": {"CreationDate": None}},
    }
    paths = []
    with _laid_out(figure), _glyphs_alone():
        for suffix in suffixes:
            buffer = io.BytesIO()
            figure.savefig(buffer, format=suffix, **options[suffix])
            paths.append(folder / f"{name}.{suffix}")
            write_atomically(paths[-1], buffer.getvalue())
    return paths


@contextmanager
def _laid_out(figure: Figure) -> Iterator[None]:
    """Place what is in the figure as for the PNG; an engine draws it once more for each file."""
    import matplotlib

    figure.set_dpi(DPI)
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    with matplotlib.rc_context(_NO_LAYOUT):  # after each file an engine is made anew, if it may be
        figure.set_layout_engine(None)
        yield


@contextmanager
def _glyphs_alone() -> Iterator[None]:
    """Embed a font in a PDF without its tables of layout, which no viewer reads.

    A PDF says where each glyph stands. That fontTools cuts these tables down to the glyphs that are
    used takes half of its time.
    """
    from fontTools import subset

    complete = subset.Options

    class Options(complete):  # type: ignore[misc, valid-type]
        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            vars(self)["drop_tables"].extend(("GDEF", "GPOS", "GSUB", "kern"))

    subset.Options = Options
    try:
        yield
    finally:
        subset.Options = complete


def wrapped(text: str, width: int) -> str:
    """Text for matplotlib: broken into lines, a dollar sign is a dollar sign."""
    return "\n".join(textwrap.wrap(text, width)).replace("$", r"\$")


def log_axis(axis: Axis, low: float, high: float) -> None:
    """A logarithmic axis from ``low`` to ``high`` (> 0) with few, plain tick labels.

    No label touches the next one, however short the axis is when it is drawn.
    """
    from matplotlib.ticker import FuncFormatter, Locator, NullLocator

    class Ticks(Locator):
        def __call__(self) -> Any:
            return self.tick_values(*axis.get_view_interval())

        def tick_values(self, vmin: float, vmax: float) -> Any:
            least, most = sorted((max(vmin, 1e-300), max(vmax, 1e-300)))
            return _log_ticks(least, most, _gap(axis))

    axis.axes.set(**{f"{axis.axis_name}scale": "log", f"{axis.axis_name}lim": (low, high)})  # type: ignore[attr-defined]
    axis.set_major_locator(Ticks())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def _gap(axis: Axis) -> Callable[[float, float], float]:
    """What share of the axis, as it lies now, the labels of two ticks need between these."""
    box = axis.axes.bbox
    if axis.axis_name == "y":  # type: ignore[attr-defined]
        height = 72.0 * box.height / axis.axes.figure.dpi
        return lambda a, b: 14.0 / max(height, 1.0)
    width = 72.0 * box.width / axis.axes.figure.dpi

    def apart(a: float, b: float) -> float:
        # A digit is as wide as 0.64 of the letter's size, 9 points; a blank lies in between.
        return (len(f"{a:g}") + len(f"{b:g}") + 3) / 2 * 5.8 / max(width, 1.0)

    return apart


def _log_ticks(
    low: float, high: float, gap: Callable[[float, float], float] = lambda a, b: 0.09
) -> list[float]:
    """The coarsest of a few ladders of round numbers with four steps inside the limits.

    ``gap(a, b)`` is the share of the axis that two ticks beside each other need.
    """
    from matplotlib.ticker import MaxNLocator

    decades = math.log10(high / low)
    if decades <= 0.0:
        return [low]
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    if decades > 3:
        chosen = exponents[:: max(1, math.ceil(decades / 6))]
        ticks = [10.0**e for e in chosen if low <= 10.0**e <= high]
        return _apart(ticks, decades, gap) if ticks else []
    for ladder in ((1,), (1, 3), (1, 2, 5), (1, 2, 3, 4, 6), (1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)):
        ticks = [m * 10.0**e for e in exponents for m in ladder]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) >= 4:
            return _apart(ticks, decades, gap)
    even = MaxNLocator(nbins=4, steps=[1, 2, 5, 10]).tick_values(low, high)
    ticks = [float(tick) for tick in even if low <= tick <= high]
    return _apart(ticks, decades, gap) if ticks else []


def _apart(
    ticks: Sequence[float], decades: float, gap: Callable[[float, float], float]
) -> list[float]:
    """Those ticks whose labels have room beside the last one chosen."""
    chosen = [ticks[0]]
    for tick in ticks[1:]:
        if math.log10(tick / chosen[-1]) >= gap(chosen[-1], tick) * decades:
            chosen.append(tick)
    return chosen


def display_name(algorithm: str) -> str:
    """The name of an algorithm for readers."""
    return registry.title(algorithm)


def name_of(run: Run) -> str:
    return display_name(run.result["algorithm"])


def value_text(value: Any) -> str:
    """A setting as short text, in the words that are typed for it."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{','.join(map(value_text, value))}]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{value_text(item)}" for key, item in value.items()) + "}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def varying(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """For each run the settings that tell it apart, in the order of ``runs``.

    A parameter counts when it differs between runs of one algorithm; any other
    setting when it differs between runs of one algorithm on one data set, and one that makes
    another stream of it when it differs between any. What is equal everywhere is left out.
    """
    facts = _facts(runs)
    by_algorithm: dict[tuple[str, str], set[str]] = defaultdict(set)
    by_dataset: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for run, (params, settings) in zip(runs, facts, strict=True):
        for name, value in params.items():
            by_algorithm[run.result["algorithm"], name].add(value_text(value))
        for name, value in settings.items():
            # What is off is left out, null or false, by the version and by how it was typed.
            text = OFF if value in (None, False, OFF) else value_text(value)
            by_dataset[(*_group(run, name), name)].add(text)
    found = []
    for run, (params, settings) in zip(runs, facts, strict=True):
        algorithm = run.result["algorithm"]
        chosen = {k: v for k, v in params.items() if len(by_algorithm[algorithm, k]) > 1}
        for name, value in settings.items():
            if len(by_dataset[(*_group(run, name), name)]) > 1:
                chosen[name] = value
        found.append(chosen)
    return found


OFF = "off"  # a setting that a run does not have, and another of its data set has


def _facts(runs: Sequence[Run]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """For each run its parameters and its settings, those too that are off in it alone."""
    facts = [(run.result["params"], settings_of(run)) for run in runs]
    named: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for run, (_, settings) in zip(runs, facts, strict=True):
        for name in settings:
            named[_group(run, name)][name] = None
    for run, (_, settings) in zip(runs, facts, strict=True):
        groups = {_group(run, "stream."), _group(run, "")}
        for name in [name for group in groups for name in named[group]]:
            settings.setdefault(name, OFF)
    return facts


def _group(run: Run, setting: str) -> tuple[str, str]:
    """The runs among which a setting may vary: of a data set and, but for streams, a learner."""
    whose = "" if is_of_stream(setting) else run.result["algorithm"]
    return whose, run.result["dataset"]


def is_of_stream(setting: str) -> bool:
    """Whether it makes another stream of a data set, for whoever learns it.

    Not the scaling, whose default is the learner's: tables tell it below.
    """
    return setting.startswith(("dataset.", "stream.")) and setting != "stream.scaling"


def swept(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """For each run its value of every setting that tells some of them apart, as far as it has one.

    In a table of these a blank is a run that has no such setting.
    """
    names = dict.fromkeys(name for settings in varying(runs) for name in settings)
    facts = [settings | params for params, settings in _facts(runs)]
    return [{name: of_run[name] for name in names if name in of_run} for of_run in facts]


# With other inputs the same labels are predicted, and scores can be compared.
OF_INPUTS = ("dataset.inputs", "dataset.client_column", "stream.lags")


def of_stream(settings: Mapping[str, Any]) -> dict[str, str]:
    """Those of the settings, as text, that make another stream of a data set."""
    return {
        name: value_text(value)
        for name, value in settings.items()
        if is_of_stream(name) and name not in OF_INPUTS
    }


def streams(runs: Sequence[Run]) -> list[str]:
    """For each run the name of its data set, and what tells its stream from others of these runs.

    Only runs of one stream can be drawn in one panel.
    """
    return [
        ", ".join([run.result["dataset"], *map("=".join, of_stream(settings).items())])
        for run, settings in zip(runs, varying(runs), strict=True)
    ]


def legend(runs: Sequence[Run]) -> list[str]:
    """An entry a run: the algorithm and what varies on its stream; no two alike on one stream."""
    texts = []
    for run, settings in zip(runs, varying(runs), strict=True):
        told = of_stream(settings)
        parts = [f"{k}={value_text(v)}" for k, v in settings.items() if k not in told]
        texts.append(", ".join([name_of(run), *parts]))
    places = list(zip(streams(runs), texts, strict=True))
    seen = Counter(places)
    return [
        f"{place[1]} [{run.result['key']}]" if seen[place] > 1 else place[1]
        for run, place in zip(runs, places, strict=True)
    ]


def settings_of(run: Run) -> dict[str, Any]:
    """Settings outside the algorithm that can change a number, flat; not where a file lies."""
    named = ("algorithm", "kernels", *NEUTRAL)
    flat = {"kernels": run.result["kernels"]}

    def walk(node: Mapping[str, Any], prefix: str) -> None:
        for name, value in node.items():
            if isinstance(value, Mapping):
                walk(value, f"{prefix}{name}.")
            else:
                flat[f"{prefix}{name}"] = value

    walk({k: v for k, v in run.config.items() if k not in named}, "")
    apart = {f"dataset.{key}" for key in ("name", "path", *PROSE)}
    shown: dict[str, Any] = plain_texts({k: v for k, v in flat.items() if k not in apart})
    return shown
