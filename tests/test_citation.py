"""BibTeX of papers and of omkl, and the version that every command prints."""

import re
import tomllib
from pathlib import Path

import pytest

import omkl
from omkl import algorithms, federated
from omkl.commands import check, data, predict, report, run
from omkl.papers import citation
from omkl.utils import conf, registry

ROOT = Path(__file__).parents[1]
NAMES = [*algorithms.names(), *federated.names()]
NEEDED = {
    "article": {"author", "title", "journal", "year"},
    "book": {"author", "title", "publisher", "year"},
    "inproceedings": {"author", "title", "booktitle", "year"},
    "misc": {"author", "title", "year", "eprint", "archiveprefix"},
}


def keys(algorithm: str) -> list[str]:
    return [paper.key for paper in citation.papers_of(algorithm)]


def test_every_published_algorithm_has_bibtex():
    without = {name for name in NAMES if not citation.papers_of(name)}
    assert "mean" in without
    for name in without:
        assert registry.box(name)["Paper"].startswith("none"), name


def test_every_title_in_a_docstring_is_cited():
    for name in NAMES:
        quoted = re.findall(r'"([^"]+)"', registry.box(name).get("Paper", ""))
        cited = {re.sub(r"\W+", " ", p.fields["title"]).lower() for p in citation.papers_of(name)}
        assert {re.sub(r"\W+", " ", title).lower() for title in quoted} <= cited, name


def test_every_paper_is_cited_by_an_algorithm_and_whole():
    text = (Path(citation.__file__).parent / "papers.bib").read_text(encoding="utf-8")
    found = citation.papers()
    assert len(found) == text.count("\n@") and len({paper.key for paper in found}) == len(found)
    assert {paper.key for paper in found} == {key for name in NAMES for key in keys(name)}
    for paper in found:
        assert set(paper.fields) >= NEEDED[paper.kind], paper.key
        assert all(text.count("{") == text.count("}") for text in paper.fields.values())


def test_papers_are_those_that_the_docstring_names_in_its_order():
    assert keys("gf") == ["ghari2023graph", "ghari2020online"]
    assert keys("ml_poly") == ["gaillard2014second", "vovk2001competitive", "azoury2001relative"]
    assert keys("sfg_mkl") == ["ghari2021graph"], "the first version has the title of the second"
    assert keys("pof_mkl") == ["ghari2022personalized"], "not the title that is part of its own"
    assert keys("rf/omkc_da_p1") == keys("omkc_da_p1") == ["jin2010online"]


def test_a_box_is_read_by_its_headings():
    box = registry.box("gf")
    assert list(box) == ["Paper", "Task", "Round", "Symbols", "Cost", "Bound", "Differs"]
    assert box["Task"] == "regression; selected kernels (at most M a round)."
    assert box["Symbols"].splitlines()[1] == "eta_e   exploration, in (0, 1), a schedule"
    assert registry.box("nothing") == {}


def test_the_version_is_written_once():
    given = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert given["project"]["dynamic"] == ["version"]
    assert given["tool"]["hatch"]["version"]["path"] == "omkl/utils/version.py"
    assert conf.read(ROOT / "CITATION.cff")["version"] == omkl.__version__
    assert citation.software().fields["version"] == omkl.__version__


@pytest.mark.parametrize("command", [check, data, predict, report])
def test_commands_print_the_version(command, capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"omkl {omkl.__version__}\n"


def test_omkl_run_prints_the_version(capsys):
    assert run.main(["--version"]) == 0
    assert capsys.readouterr().out == f"omkl {omkl.__version__}\n"
