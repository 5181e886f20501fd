"""Words that newcomers did not understand do not come back where users read."""

import ast
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
# In messages, help and the comments of YAML files.
HOUSE_WORDS = re.compile(
    r"\b(is|a|for a) blank\b|\bblanks\b|\bone's own\b|(?<!your )\bown files?\b|words (and|or) dates"
    r"|which the text does not|\b(no|a) spread\b|rounds/s|rounds? is open|\bwas told\b"
    r"|(asked|asks) for the label|\bhas nothing to choose\b|\bnumbers a round\b|feature a kernel",
    re.IGNORECASE,
)
REPORTED_TO_AUTHORS = ("omkl/papers/", "omkl/checks/")  # what users of the package do not read


def texts_of_code(path: Path) -> list[str]:
    """The strings of a module that can be printed: with a space, and no docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            texts.append("".join(parts))
        elif isinstance(node, ast.Constant) and id(node) not in alone:
            texts.append(str(node.value))
    return [text for text in texts if " " in text.strip()]


def test_messages_help_and_yaml_use_plain_words():
    modules = [
        path
        for path in sorted((ROOT / "omkl").rglob("*.py"))
        if not path.relative_to(ROOT).as_posix().startswith(REPORTED_TO_AUTHORS)
    ]
    texts = {path: texts_of_code(path) for path in modules}
    for path in sorted((ROOT / "conf").rglob("*.yaml")):
        lines = path.read_text(encoding="utf-8").splitlines()
        texts[path] = [line.partition("#")[2] for line in lines if "#" in line]
    assert sum(map(len, texts.values())) > 2000  # what is looked at is there
    gone = [
        f"{path.relative_to(ROOT)}: {text}"
        for path, of_file in texts.items()
        for text in of_file
        if HOUSE_WORDS.search(text)
    ]
    assert not gone, "\n".join(gone)


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
