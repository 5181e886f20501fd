"""Which edits make machine code and results be computed anew."""

import importlib
import pkgutil
import sys
from pathlib import Path

import pytest

import omkl
from omkl.core import compiler
from omkl.runs import provenance
from omkl.utils import sources


@pytest.mark.skipif(not compiler.ENABLED, reason="nothing is compiled")
def test_every_compiled_function_counts_for_machine_code():
    from numba.core.dispatcher import Dispatcher

    for module in pkgutil.walk_packages(omkl.__path__, "omkl."):
        if ".flower" not in module.name and ".report" not in module.name:
            importlib.import_module(module.name)
    files = {
        Path(value.py_func.__code__.co_filename)
        for name, module in list(sys.modules.items())
        if name.startswith("omkl.")
        for value in vars(module).values()
        if isinstance(value, Dispatcher)
    }
    places = [
        f.relative_to(sources.PACKAGE).as_posix()
        for f in files
        if f.is_relative_to(sources.PACKAGE)
    ]
    assert len(places) > 3
    assert [place for place in places if not place.startswith(sources.COMPILED)] == []


@pytest.fixture
def edit(monkeypatch):
    """Put another text in place of a source, as if the package had been imported with it."""

    def forget():
        for function in (sources.digest, sources.machine_code, provenance.code):
            function.cache_clear()

    def put(place):
        monkeypatch.setattr(sources, "_READ", before | {place: ((0, 0), "f" * 64)})
        forget()

    before = sources._READ
    yield put
    monkeypatch.undo()
    forget()


@pytest.mark.parametrize(
    ("place", "code", "results"),
    [
        ("core/protocol.py", True, True),
        ("core/a_new_file.py", True, True),
        ("algorithms/raker.py", True, True),
        ("federated/protocol.py", True, True),
        ("datasets/columns.py", False, True),
        ("experiment/metrics.py", False, True),
        ("report/figures.py", False, False),
        ("commands/run.py", False, False),
    ],
)
def test_an_edit_computes_anew_what_it_can_change(edit, place, code, results):
    before = sources.machine_code(), provenance.code(), provenance.computed_by()
    edit(place)
    assert (sources.machine_code() != before[0]) == code
    assert (provenance.code() != before[1]) == results
    assert (provenance.computed_by() != before[2]) == results
