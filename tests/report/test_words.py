"""Words that newcomers did not understand do not come back where users read."""

import io
import re
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from rich.console import Console

from omkl.report import console, figures, style, sweep_table
from tests.conftest import change

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    *("docs/index.md", "docs/commands.md", "docs/own-files.md", "docs/multi-kernel-learning.md"),
    *("docs/auto.md", "docs/compare.md", "docs/fewer-labels.md", "docs/keep-a-model.md"),
    *(f"docs/start/{name}.md" for name in ("install", "python", "csv", "river", "scikit-learn")),
)
GONE = re.compile(
    r"last label|labels (asked|bought)|kernels / round|intervals? held|of 90 % held"
    r"|in hindsight.*comparator|\ba client-round|file of one's own|\bpeers\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("page", PAGES)
def test_pages_use_plain_words(page):
    assert not GONE.findall((ROOT / page).read_text(encoding="utf-8"))


def test_output_uses_plain_words(sweep, run_folder_maker, tmp_path):
    """The tables of one run and of a sweep, with baselines and requested targets."""
    entry = {"rmse": 4.0, "mae": 3.0, "mse": 0.02}
    baselines = {name: entry for name in ("mean", "last", "ridge")}
    few = {"al_efficiency": 0.5, "labels": 200.0, "threads": 1, "baselines": baselines}
    run = change(run_folder_maker(tmp_path, "amkl", key="11111111"), **few)
    shown = io.StringIO()
    console.print_run(run, Console(file=shown, width=120))
    rows = sweep_table.sweep_table([*sweep, run])
    sweep_table.print_sweep(rows, [], Console(file=shown, width=200))
    # a terminal breaks headings over lines
    text = shown.getvalue() + sweep_table.markdown(rows, [])
    assert "last target" in text and "targets" in text  # what is looked at is there
    assert not GONE.search(text.replace("\n", " "))


def test_figures_use_plain_words(run_folder_maker, tmp_path, monkeypatch):
    drawn: list[Figure] = []
    monkeypatch.setattr(style, "save", lambda figure, *_: drawn.append(figure) or [])
    windows = {"until": [100, 200, 300, 400], "coverage": [0.9, 0.8, 0.9, 1.0]}
    run = change(run_folder_maker(tmp_path), interval={"level": 0.9, "windows": windows})
    figures.all_figures(run)
    texts = [text.get_text() for figure in drawn for text in figure.findobj(Text)]
    assert any("coverage" in text for text in texts)  # the figure of intervals was drawn
    assert not [text for text in texts if GONE.search(text)]
