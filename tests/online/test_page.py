"""The page about Python does what it says, and names all there is."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path

import omkl

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_examples_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    test = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    told: list[str] = []
    found = doctest.DocTestRunner(verbose=False).run(test, out=told.append)
    assert found.attempted > 20 and found.failed == 0, "".join(told)


def test_the_page_names_what_there_is():
    text = PAGE.read_text(encoding="utf-8")
    methods = [n for n, _ in inspect.getmembers(omkl.OnlineLearner, inspect.isfunction)]
    internal = {"file", "arrays", "restore"}
    for name in (*(n for n in methods if n[0] != "_" and n not in internal), *omkl.__all__):
        assert name in text or name == "Results", name
