"""Names and titles of the algorithms, without importing one."""

import subprocess
import sys

import pytest

from omkl import algorithms, federated
from omkl.utils import registry

TITLES = {
    "raker": "Raker", "sfg_r": "OMKL-SFG-R", "ewrls": "EW-RLS", "ofmkl_avg": "OFMKL-Avg",
    "omkc_da_p1": "OMKC DA-P(1)", "omkc_da_p1_doubling": "OMKC DA-P(1), doubling",
    "rf/omkc_da_p1": "OMKC DA-P(1) (rf)", "omkc_uniform": "equal votes",
    "amkl_random": "random labels", "own/sfg": "OMKL-SFG (own)", "own/thing": "thing (own)",
    "thing": "thing",
}  # fmt: skip


def test_titles_are_the_heads_of_docstrings():
    assert {name: registry.title(name) for name in TITLES} == TITLES


def test_every_algorithm_has_a_title_of_its_own():
    names = [*algorithms.names(), *federated.names()]
    titles = {registry.title(name) for name in names}
    assert len(titles) == len(names) and not titles & set(names)


def test_a_module_is_an_algorithm_or_a_family_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_folder", lambda package: tmp_path)
    registry._entries.cache_clear()
    try:
        (tmp_path / "helper.py").write_text("thing = 1\n")
        (tmp_path / "mine.py").write_text('"""Nothing in particular."""\n\nalgorithm = 1\n')
        (tmp_path / "family.py").write_text(
            '@register_as("one", task="regression")\nclass One:\n    """First: of two. More."""\n'
            '@both(\n    "two",\n    "rf/two",\n)\nclass Two:\n    """Second: of two."""\n'
        )
        assert registry.names("omkl.algorithms") == ["mine", "one", "two", "rf/two"]
        assert registry.title("mine") == "mine", "its docstring has no head"
        assert [registry.title(name) for name in ("one", "rf/two")] == ["First", "Second (rf)"]
        assert registry.summary("one") == "of two"
        assert registry.module_of("rf/two") == "omkl.algorithms.family"
    finally:
        registry._entries.cache_clear()


def test_names_and_titles_do_without_the_compiler():
    code = (
        "import sys; from omkl.utils import registry; from omkl.report import naming;"
        "assert 'raker' in registry.names('omkl.algorithms');"
        "assert registry.title('raker') == 'Raker';"
        "assert 'omkl.algorithms' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_not_there_is_told():
    with pytest.raises(ValueError, match=r"no algorithm 'rakr'\. Did you mean raker\? There are:"):
        algorithms.load("rakr")
    with pytest.raises(ValueError, match=r"raker does not learn in a federation. Those that do:"):
        federated.load("raker")
