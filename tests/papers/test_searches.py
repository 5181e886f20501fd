"""Ranking a grid, notes beside its table, and what ``make reproduce-tables`` runs anew."""

import functools
import json
import subprocess

import numpy as np
import pytest

from omkl.papers import comparison, page, reproduce, searches, sections
from omkl.papers.search_graph import Cell


@pytest.fixture
def written(tmp_path):
    """Write the table of a search and its note, as a search does at its end."""
    parser = searches.parser("search_active", "what it does")
    parser.add_argument("--seeds", type=int, default=1)

    def write(grid, module, *options):
        given = parser.parse_args(["--outputs", str(tmp_path), *options])
        searches.write(grid, [{"step": 1, "distance": 0.5}], module, parser, given)
        return tmp_path / "search" / f"{grid}.csv"

    return write


def change(table, **changes):
    path = table.with_suffix(".json")
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_points_are_ranked_by_their_distance_and_shared_jobs_done_once():
    done = []

    def measure(step, seed):
        done.append((step, seed))
        return abs(step - 3) + seed

    def line_of(point, values):
        return {**point, "distance": sum(values)}

    points = [{"step": step, "name": name} for step in (1, 3, 2) for name in "ab"]
    jobs_of = lambda point: [(point["step"], seed) for seed in (0, 1)]  # noqa: E731
    lines = searches.rank(points, jobs_of, measure, line_of)
    assert [(line["step"], line["name"]) for line in lines] == [
        *((3, "a"), (3, "b"), (2, "a"), (2, "b"), (1, "a"), (1, "b"))
    ]
    assert [line["distance"] for line in lines] == [1, 1, 3, 3, 5, 5]
    assert sorted(done) == [(step, seed) for step in (1, 2, 3) for seed in (0, 1)]


def test_distances_are_of_means_over_seeds_and_infinite_where_a_setting_diverged():
    one, other = Cell("sfg_mkl", "naval", 5, 2.0), Cell("sfg_mkl_r", "naval", 5, 4.0)
    line = searches.line_of_cells({"step": 1}, [one, other], [1.0, 2.0, 5.0, np.inf])
    assert line["sfg_mkl naval M=5"] == 1.5 and line["distance sfg_mkl"] == 0.25
    assert line["distance sfg_mkl_r"] == line["distance"] == np.inf and line["step"] == 1


def test_a_search_is_outdated_where_its_note_is_of_other_code_options_or_files(written, tmp_path):
    folder = tmp_path / "search"
    assert list(searches.outdated(folder)) == list(searches.MODULES)
    graph = written("arxiv_v1", "search_graph")
    active = written("active", "search_active")
    federated = written("federated", "search_federated")
    assert searches.outdated(folder) == {}

    written("active", "search_active", "--quick", "--seeds", "3")
    command = "python -m omkl.papers.search_active --quick --seeds 3"
    assert searches.command_of(searches.read_note(active)) == command
    change(graph, code="0" * 12)
    federated.write_text("step,distance\n1,0.4\n")  # not the file that the note is of
    assert searches.outdated(folder) == {
        "search_graph": "arxiv_v1.csv was made by other code",
        "search_active": f"active.csv was made by {command}",
        "search_federated": "there is no table that it is known to have written",
    }


def test_the_page_says_by_which_code_a_search_was_made(written):
    path = written("arxiv_v1", "search_graph")
    command = "python -m omkl.papers.search_graph"
    change(path, commit="abc123")
    text = sections.made_by_text(path)
    assert text.startswith(f"Made by {command} at abc123 (clean tree), by the ")
    assert searches.code_stamp() in text
    assert sections.commands(path.parent).endswith(f"; {command}")
    change(path, code="0" * 12, commit="abc123+", script="search_graph.py")  # of an older version
    text = sections.made_by_text(path)
    assert "python scripts/search_graph.py at abc123 with uncommitted changes, by other" in text
    path.with_suffix(".json").unlink()
    assert "is not known" in sections.made_by_text(path)


@pytest.mark.parametrize(("status", "code"), [(0, 0), (3, 1)])
def test_outdated_searches_are_run_before_the_page_is_made(tmp_path, monkeypatch, status, code):
    done = []

    def run(words):
        done.append(words[2].removeprefix("omkl.papers."))
        assert words[1] == "-m" and words[3:] == ["--outputs", str(tmp_path)]
        return subprocess.CompletedProcess(words, status)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(reproduce, "compare", lambda *_: done.append("compare") or 0)
    monkeypatch.setattr(reproduce.Cells, "run", lambda *_: None)
    monkeypatch.setattr(reproduce.Cells, "seconds", lambda *_: 0.0)
    monkeypatch.setattr(page, "build", lambda *_: done.append("page") or [tmp_path])
    monkeypatch.setattr(reproduce.rendering, "render", lambda *_: [])
    assert reproduce.command([], tmp_path, everything=True) == code
    assert done == [*searches.MODULES, "compare", "page"]
    done.clear()
    assert reproduce.command(["arxiv_v1_table1"], tmp_path, everything=True) == 0
    assert reproduce.command([], tmp_path) == 0
    assert done == ["page", "page"]


def test_comparisons_are_made_beside_the_page_or_left_out_aloud(tmp_path, monkeypatch, capsys):
    made = []
    monkeypatch.setattr(comparison, "command", lambda spec, *folders: made.append(folders) or 3)
    monkeypatch.setattr(comparison, "missing", lambda name: f"{name} is not installed")
    assert reproduce.compare(tmp_path, tmp_path / "page") == 0
    told = capsys.readouterr().out
    assert "omkc_table: left out: sklearn_sgd is not installed" in told and not made
    monkeypatch.setattr(comparison, "missing", lambda name: None)
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
