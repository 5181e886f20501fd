"""One word per thing, wherever users read."""

import ast
import inspect
import io
import re
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from pages import cards
from rich.console import Console

import omkl
from omkl.core.conformal import Conformal
from omkl.online.estimator import LearnerParameters, RegressorParameters
from omkl.report import console, figures, style, sweep_table
from omkl.report.frame import frame_of
from omkl.utils import registry
from tests.conftest import change

ROOT = Path(__file__).parents[2]
PAGES = [
    path.relative_to(ROOT).as_posix()
    for name in (
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "docs/**/*.md",
        "docs/**/*.py",
    )
    for path in sorted(ROOT.glob(name))
]
# What does not appear where users read, and the one word for it.
WORDS = {
    r"\b(last|past) labels?\b|labels (asked|bought)|asked for the label": "target, requested",
    r"\bblanks?\b|\bmissing cells?\b": "missing value",
    r"(?<!`)\bpeers?\b(?!:|\"|/|_)|\brivals?\b|\bcompetitors?\b": "other libraries",
    r"\bcomparator in hindsight": "best kernel in hindsight",
    r"\b(?<!third )part(y|ies)\b|\bhub\b(?!:|\.)": "client, server",
    r"\bclient-rounds?\b|\brounds/s\b|rounds? is open|\bkernels / round\b": "row, step",
    r"\bintervals? (held|hold)\b|of 90 % held|hold so often|a spread with|\b(no|a) spread\b":
        "coverage, standard deviation",
    r"\bas released\b|\((recovered|fitted)\)|\b(only|at|with) fitted\b|\bfitted settings\b"
    r"|\| fitted \|":
        "authors' code, settings found by search",
    r"\b(features|kernels|numbers|times?|rows|bytes|seconds|us|µs) an? "
    r"(client|kernel|series|round|row|seed)\b": "per client, per kernel, ...",
    r"\bone's own\b|(?<!your )\bown files?\b": "your own",
    r"\b(is|was|are|were) told\b|\bas was said\b|\bto the bit\b|words (and|or) dates"
    r"|which the text does not|nothing to choose\b": "plain words",
    r"\b(lanes?|doors?|one wing|home and away)\b|\bat commit [0-9a-f]{7}": "nothing",
}  # fmt: skip
FORBIDDEN = re.compile("|".join(WORDS), re.IGNORECASE)


def forbidden_in(text: str) -> list[str]:
    return [text[max(0, m.start() - 30) : m.end() + 10] for m in FORBIDDEN.finditer(text)]


REPORTED_TO_AUTHORS = ("omkl/checks/",)  # what users of the package do not read


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
        f"{path.relative_to(ROOT)}: {found}"
        for path, of_file in texts.items()
        for text in of_file
        for found in forbidden_in(text)
    ]
    assert not gone, "\n".join(gone)


def heads_of(name: str) -> list[str]:
    """What a page of an algorithm says outside the paper's own words."""
    first, box = registry.docstring(name).partition("\n")[0], cards.box(name)
    return [first, *(box[part] for part in ("Task", "Cost"))]


def test_docstrings_on_the_site_use_plain_words():
    """Those of ``omkl.NAME`` with their methods, of the estimators' parameters, of algorithms."""
    found = [getattr(omkl, name) for name in omkl.__all__]
    found += [Conformal, LearnerParameters, RegressorParameters]
    texts = [inspect.getdoc(one) or "" for one in found]
    for one in filter(inspect.isclass, found):
        methods = [part for name, part in vars(one).items() if not name.startswith("_")]
        texts += [inspect.getdoc(part) or "" for part in methods]
    names = [name for package in registry.PACKAGES for name in registry.names(package)]
    texts += [text for name in names for text in heads_of(name)]
    assert len(texts) > 100  # what is looked at is there
    assert not [found for text in texts for found in forbidden_in(text)]


@pytest.mark.parametrize("page", PAGES)
def test_pages_use_plain_words(page):
    assert not forbidden_in((ROOT / page).read_text(encoding="utf-8"))


def test_output_uses_plain_words(sweep, run_folder_maker, tmp_path):
    """The tables of one run and of a sweep, with baselines and requested targets."""
    entry = {"rmse": 4.0, "mae": 3.0, "mse": 0.02}
    baselines = {name: entry for name in ("mean", "last", "ridge")}
    few = {"al_efficiency": 0.5, "labels": 200.0, "threads": 1, "baselines": baselines}
    run = change(run_folder_maker(tmp_path, "amkl", key="11111111"), **few)
    shown = io.StringIO()
    console.print_run(run, Console(file=shown, width=120))
    frame = frame_of([*sweep, run])
    sweep_table.print_frame(frame, Console(file=shown, width=200))
    # a terminal breaks headings over lines
    text = shown.getvalue() + sweep_table.markdown(frame)
    assert "last target" in text and "targets" in text  # what is looked at is there
    assert not FORBIDDEN.search(text.replace("\n", " "))


def test_figures_use_plain_words(run_folder_maker, tmp_path, monkeypatch):
    drawn: list[Figure] = []
    monkeypatch.setattr(style, "save", lambda figure, *_: drawn.append(figure) or [])
    windows = {"until": [100, 200, 300, 400], "coverage": [0.9, 0.8, 0.9, 1.0]}
    run = change(run_folder_maker(tmp_path), interval={"level": 0.9, "windows": windows})
    figures.all_figures(run, tmp_path)
    texts = [text.get_text() for figure in drawn for text in figure.findobj(Text)]
    assert any("coverage" in text for text in texts)  # the figure of intervals was drawn
    assert not [text for text in texts if FORBIDDEN.search(text)]
