"""What is common is compiled by another process, where something is compiled at all."""

from __future__ import annotations

import pytest

from omkl import startup
from omkl.core import cache
from omkl.experiment import compiling


@pytest.fixture
def started(monkeypatch):
    """The processes that are started, by one of two threads."""
    found, beside = [], startup.beside
    monkeypatch.setattr(compiling, "default_threads", lambda: 2)
    monkeypatch.setattr(startup, "beside", lambda *a: found.append(beside(*a)) or found[-1])
    return found


def tell_of_compiling():
    for tell in cache._listeners:
        tell()


def test_one_process_compiles_what_is_common_and_is_waited_for(started):
    with compiling.compiled_beside():
        assert started == []
        tell_of_compiling()
        tell_of_compiling()
    assert [process.returncode for process in started] == [0]


def test_none_is_left_where_the_learner_fails(started):
    with pytest.raises(ZeroDivisionError), compiling.compiled_beside():
        tell_of_compiling()
        raise ZeroDivisionError
    assert [process.returncode for process in started] == [1], "it ended at once"


@pytest.mark.parametrize(("place", "name"), [(compiling, "default_threads"), (cache, "folder")])
def test_one_thread_and_code_that_is_not_kept_need_none(started, monkeypatch, place, name):
    monkeypatch.setattr(place, name, {"default_threads": lambda: 1, "folder": lambda: None}[name])
    with compiling.compiled_beside():
        tell_of_compiling()
    assert started == []
