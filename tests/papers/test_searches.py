"""Notes beside the tables of a search, and what ``make reproduce-tables`` runs anew."""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
from pathlib import Path

import pytest

from omkl.papers import comparison, comparison_peers, page, reproduce, searches, sections

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def written(tmp_path):
    """Write the table of a search and its note, as a script does at its end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--outputs", type=Path, default=Path("outputs"))
    parser.add_argument("--final-seeds", type=int, default=20)
    parser.add_argument("--quick", action="store_true")

    def write(grid, script, *options):
        path = tmp_path / f"{grid}.csv"
        path.write_text("step,distance\n1,0.5\n")
        given = parser.parse_args(["--outputs", str(tmp_path), *options])
        searches.note([path], str(SCRIPTS / script), parser, given)
        return path

    return write


def change(table, **changes):
    path = table.with_suffix(".json")
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_search_is_outdated_where_its_note_is_of_other_code_options_or_files(written, tmp_path):
    assert list(searches.outdated(tmp_path)) == list(searches.SCRIPTS)
    graph = written("arxiv_v1", "search_graph.py")
    active = written("active", "search_active.py")
    federated = written("federated", "search_federated.py")
    assert searches.outdated(tmp_path) == {}

    written("active", "search_active.py", "--quick", "--final-seeds", "3")
    command = "python scripts/search_active.py --final-seeds 3 --quick"
    assert searches.command_of(searches.read_note(active)) == command
    change(graph, code="0" * 12)
    federated.write_text("step,distance\n1,0.4\n")  # not the file that the note is of
    assert searches.outdated(tmp_path) == {
        "search_graph.py": "arxiv_v1.csv was made by other code",
        "search_active.py": f"active.csv was made by {command}",
        "search_federated.py": "there is no table that it is known to have written",
    }


def test_the_page_says_by_which_code_a_search_was_made(written):
    path = written("arxiv_v1", "search_graph.py")
    change(path, commit="abc123")
    told = sections.made_by_text(path)
    assert told.startswith("Made by python scripts/search_graph.py at abc123 (clean tree), by the ")
    assert searches.code_stamp() in told
    assert sections.commands(path.parent).endswith("; python scripts/search_graph.py")
    change(path, code="0" * 12, commit="abc123+")
    told = sections.made_by_text(path)
    assert "abc123 with uncommitted changes, by other code than" in told
    path.with_suffix(".json").unlink()
    assert "is not known" in sections.made_by_text(path)


@pytest.mark.slow
def test_outdated_searches_are_run_before_the_page_is_made(written, tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("anew", SCRIPTS / "reproduce_tables.py")
    anew = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(anew)
    outputs, done = tmp_path, []
    (outputs / "search").mkdir()

    class Ended:
        returncode = 0

    def ran(line, **_):
        done.append(Path(line[1]).name)
        assert line[2:] == ["--outputs", str(outputs)] and Path(line[1]).is_file()
        return Ended

    monkeypatch.setattr(anew.subprocess, "run", ran)
    monkeypatch.setattr(reproduce.Cells, "run", lambda *_: None)
    monkeypatch.setattr(reproduce.Cells, "seconds", lambda *_: 0.0)
    monkeypatch.setattr(page, "build", lambda *_: done.append("page") or [outputs])
    monkeypatch.setattr(reproduce.rendering, "render", lambda *_: [])
    assert reproduce.command([], outputs, before_page=[anew.search]) == 0
    assert done == [*searches.SCRIPTS, "page"]
    done.clear()
    Ended.returncode = 3
    assert reproduce.command([], outputs, before_page=[anew.search]) == 1
    assert done == [*searches.SCRIPTS, "page"]
    done.clear()
    assert reproduce.command(["arxiv_v1_table1"], outputs, before_page=[anew.search]) == 0
    assert done == ["page"]


def test_comparisons_are_made_beside_the_page_or_left_out_aloud(tmp_path, monkeypatch, capsys):
    made = []
    monkeypatch.setattr(comparison, "command", lambda spec, *folders: made.append(folders) or 3)
    monkeypatch.setattr(comparison_peers, "missing", lambda name: f"{name} is not installed")
    assert reproduce.compare(tmp_path, tmp_path / "page") == 0
    told = capsys.readouterr().out
    assert "omkc_table: left out: sklearn_sgd is not installed" in told and not made
    monkeypatch.setattr(comparison_peers, "missing", lambda name: None)
    assert reproduce.compare(tmp_path, tmp_path / "page") == 3
    assert made == [(tmp_path, tmp_path / "classification")]


def test_the_page_links_to_the_comparisons_that_are_there(tmp_path):
    build = functools.partial(page.build, [], tmp_path, tmp_path / "page", [])
    assert all("classification" not in path.read_text(encoding="utf-8") for path in build()[:2])
    (tmp_path / "classification").mkdir()
    (tmp_path / "classification" / "omkc_table.md").touch()
    markup, markdown = (path.read_text(encoding="utf-8") for path in build()[:2])
    said = "Classifiers beside other libraries: omkc"
    assert f'<a href="../classification/omkc_table.md">{said}_table</a>' in markup
    assert rf"[{said}\_table](../classification/omkc_table.md)" in markdown
