"""The pages about Python do what they say, and the first names all there is."""

import doctest
import importlib
import inspect
import textwrap
from pathlib import Path

import pytest

import omkl

DOCS = Path(__file__).parents[2] / "docs"


SHORT = ["start/python.md", "start/river.md", "start/scikit-learn.md", "panels.md"]


@pytest.mark.parametrize("name", ["python.md", "estimators.md", *SHORT])
def test_the_examples_of_the_page(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / name).read_text(encoding="utf-8")
    test = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    told: list[str] = []
    found = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(
        test, out=told.append
    )
    assert found.attempted > (5 if name in SHORT else 20) and found.failed == 0, "".join(told)


def test_the_example_of_readme(tmp_path, monkeypatch, capsys):
    """It prints what is below it."""
    monkeypatch.chdir(tmp_path)
    text = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    code, _, below = text.partition("```python\n")[2].partition("```\n\n")
    exec(code, {})
    assert capsys.readouterr().out == textwrap.dedent(below.partition("\n\n")[0]) + "\n"


@pytest.mark.parametrize("name", ["omkl", "omkl.sklearn", "omkl.river"])
def test_the_examples_of_the_modules(name):
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted >= 2 and found.failed == 0


def test_the_page_names_what_there_is():
    text = (DOCS / "python.md").read_text(encoding="utf-8")
    methods = [n for n, _ in inspect.getmembers(omkl.OnlineLearner, inspect.isfunction)]
    internal = {"file", "arrays", "restore", "labels", "require_finite", "numbers_of",
                "columns_of_rows", "learn_rows"}  # fmt: skip
    for name in (*(n for n in methods if n[0] != "_" and n not in internal), *omkl.__all__):
        assert name in text or name == "Results", name
