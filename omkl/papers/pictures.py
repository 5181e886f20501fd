"""Pictures of a page: smaller on disk, and a panel a data set."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from omkl.disk import write_atomically
from omkl.report import drawing, style


class Drawn(NamedTuple):
    """A figure on disk and what it shows."""

    path: Path
    caption: str


def save(figure: Figure, folder: Path, name: str, suffixes: Sequence[str] = ("png",)) -> list[Path]:
    paths = style.save(figure, folder, name, suffixes)
    for path in paths:
        if path.suffix == ".png":
            shrink(path)
    return paths


def shrink(path: Path) -> None:
    """Fewer colours: a third of the bytes for a picture of lines, and none to be seen."""
    from PIL import Image

    buffer = io.BytesIO()
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(96, dither=Image.Dither.NONE)
        small.save(buffer, format="png", optimize=True, dpi=image.info["dpi"])
    write_atomically(path, buffer.getvalue())


def panels(
    datasets: Sequence[str],
    draw: Callable[[Axes, str], None],
    handles: Sequence[Line2D],
    xlabel: str,
    ylabel: str,
    folder: Path,
    name: str,
) -> list[Path]:
    with style.applied():
        rows, columns = drawing.panel_grid(len(datasets))
        figure = Figure(figsize=(max(drawing.WIDTH, 3.4 * columns), 2.7 * rows + 0.4))
        for place, dataset in enumerate(datasets):
            axes = figure.add_subplot(rows, columns, place + 1)
            draw(axes, dataset)
            axes.set_title(style.wrapped(dataset, 30))
            axes.set_xlabel(xlabel if place + columns >= len(datasets) else "")
            axes.set_ylabel(ylabel if place % columns == 0 else "")
        figure.legend(handles=list(handles), loc="outside lower center", ncols=len(handles))
        return save(figure, folder, name)
