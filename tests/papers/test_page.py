"""The page of all tables and figures, from invented run folders."""

import csv
import dataclasses
import functools
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from omkl import papers
from omkl.papers import claims, figures, matching, page, sections, tables
from omkl.papers.bounds import bound_of_run, fitted_slope
from omkl.papers.matching import Cell, Entry, FilledTable
from omkl.report.page import markdown_page
from omkl.runs.run_folder import Run, find
from tests.compositions import compose
from tests.conftest import change

ROOT = Path(__file__).parents[2]
SETTINGS = {
    "raker": {"eta": "0.1/sqrt(t)", "lam": 1e-3},
    "gf": {"eta": "0.1/sqrt(t)", "eta_e": "0.1/sqrt(t)", "lam": 1e-3, "J": 2, "freeze": 300},
    "sfg": {"eta": "0.1/sqrt(t)", "xi": "0.1/sqrt(t)", "lam": 1e-3, "explore": 300}
    | {"reading": "farthest", "divergence": "integral"},
}


@pytest.fixture
def specs(monkeypatch):
    present = [*SETTINGS, "as_released/gf", "as_released/sfg"]
    monkeypatch.setattr(matching, "_exists", lambda name: name in present)
    return [tables.load_table(n) for n in sorted(papers.names("table"), key=tables.order_of)]


@pytest.fixture
def outputs(run_folder_maker, tmp_path):
    """Runs for table 1, and of OMKL-GF for all M of table 3 on one data set."""

    def add(algorithm, dataset, M, **result):
        params = SETTINGS[algorithm] | ({} if algorithm == "raker" else {"M": M})
        key = f"{M:02d}{algorithm}"
        options = {"key": key, "params": params, "n_seeds": 20, "n_rounds": 200}
        folder = run_folder_maker(tmp_path, algorithm, dataset, **options)
        with open(folder / "config.yaml", "a") as file:
            file.write("stream:\n  scaling: whole\n")
        regret = Run(folder).result["regret"]
        regret["ridge_features"]["kernels"] = ["gaussian 1"] * 10 + ["laplacian 1"] * 10
        change(folder, regret=regret, **result)

    for dataset in ("airfoil", "bias", "concrete", "naval"):
        for algorithm in SETTINGS:
            add(algorithm, dataset, 10, mse_mean=0.0257, mse_std=0.0004)
    for M in (1, 5, 15, 20):
        add("gf", "airfoil", M, mse_mean=0.03, mse_std=0.02)
    return tmp_path


class Page(HTMLParser):
    """Checks that tags are balanced; keeps the text, the pictures and the links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.pictures: list[str] = []
        self.links: list[str] = []
        self.anchors: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.anchors += [found["id"]] if "id" in found else []
        self.links += [found["href"]] if "href" in found else []
        if tag == "img":
            assert found["alt"]
            self.pictures.append(found["src"])
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data + " "


@pytest.mark.slow
def test_one_screen_for_all_papers_one_for_each_and_all_cells(specs, outputs, tmp_path):
    folder = tmp_path / "docs"
    paths = page.build(specs, outputs, folder)
    assert paths[0] == folder / "index.html"
    drawn = {p.name for p in paths if p.suffix == ".png"}
    assert drawn == {
        "jmlr.png",
        *(f"jmlr_figure{n}.png" for n in (3, 4, 5, 6)),
        *("regret_and_theory.png", "regret_and_bounds.png"),
    }
    assert all(p.stat().st_size < 150_000 for p in paths if p.suffix == ".png")
    shown = set()
    for markdown in (p for p in paths if p.suffix == ".md"):
        name = "index.html" if markdown.stem == "README" else f"{markdown.stem}.html"
        markup, text = (folder / name).read_text("utf-8"), markdown.read_text("utf-8")
        found = Page(markup)
        shown |= set(found.pictures)
        assert sorted(re.findall(r"\]\((\S+\.png)\)", text)) == sorted(found.pictures)
        # Nothing is fetched, every mark leads to its footnote and every link to a page.
        for link in found.links:
            assert link[1:] in found.anchors if link[0] == "#" else (folder / link).exists()
        assert "http" not in markup and str(tmp_path) not in markup + text
    assert shown == drawn

    readme = (folder / "README.md").read_text("utf-8")
    assert len(readme.splitlines()) <= 60
    assert "264 distinct published numbers, run times apart, 64 of which stand in two" in readme
    assert "20 seeds (0..19)" in readme and "processor test, cores 2" in readme
    assert "All 16 runs were made at commit abc1234 with a clean tree." in readme
    assert readme.count("[JMLR: ") == 2 and "(jmlr.md)" in readme and "(jmlr_cells.md)" in readme
    jmlr = (folder / "jmlr.md").read_text("utf-8").replace("\\", "")
    assert "omkl-report run jmlr_table1 jmlr_table2" in jmlr
    # Claims with verdicts first, then the picture, then every table folded.
    assert jmlr.index("our verdict") < jmlr.index("(jmlr.png)") < jmlr.index("<details")
    assert jmlr.count("<details") == jmlr.count("</details>") == 4
    with open(folder / "jmlr_cells.csv", newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    (gf,) = (
        line["number"]
        for line in lines
        if line["table"].startswith("JMLR, table 1")
        and (line["row"], line["settings"], line["column"]) == ("OMKL-GF", "as written", "Airfoil")
    )
    assert gf == "25.70 ± 0.40"
    cells = (folder / "jmlr_cells.md").read_text("utf-8").replace("\\", "")
    for table in specs:
        if table.paper == "graph-aided-jmlr":
            assert f"table {table.table}: {table.title}" in cells
    assert "+20.2 %, scatters" in cells  # M = 5
    assert cells.index("Run times") > cells.index("Figures") > cells.index("reproduced")
    assert "for 10 of 20 comparators the best kernel is Laplacian" in cells


def test_page_without_a_single_run(specs, tmp_path):
    paths = page.build(specs, tmp_path, tmp_path / "docs")
    assert [p.name for p in paths[:2]] == ["index.html", "README.md"]
    assert {p.suffix for p in paths} == {".html", ".md", ".csv"}
    assert "not run" in Page(paths[0].read_text(encoding="utf-8")).text
    cells = tmp_path / "docs" / "jmlr_cells.html"
    assert "missing" in Page(cells.read_text(encoding="utf-8")).text


@pytest.mark.parametrize(
    "paper", [paper for paper in claims.load() if paper.searches], ids=lambda paper: paper.file
)
def test_what_searches_found_is_kept_and_shown(paper):
    """The pages of the site show the tables that lie with the papers, the text's point in each."""
    parts = sections.search_parts(paper)
    section = markdown_page("", parts).partition("\n\n")[2].strip()
    shown = (ROOT / f"docs/reproduction/{paper.file}_cells.md").read_text(encoding="utf-8")
    assert section in shown and section.count("as written |") == len(paper.searches)


def test_the_page_links_to_the_comparisons_that_are_there(tmp_path):
    build = functools.partial(page.build, [], tmp_path, tmp_path / "page", [])
    assert all("classification" not in path.read_text(encoding="utf-8") for path in build()[:2])
    (tmp_path / "classification").mkdir()
    (tmp_path / "classification" / "omkc_table.md").touch()
    markup, markdown = (path.read_text(encoding="utf-8") for path in build()[:2])
    said = "Classifiers beside other libraries: omkc"
    assert f'<a href="../classification/omkc_table.md">{said}_table</a>' in markup
    assert rf"[{said}\_table](../classification/omkc_table.md)" in markdown


def cell(row, column, published, written=None, released=None, more=()):
    """A cell with our errors, as written and as released with overrides of its own."""
    ours = {"algorithm": written, "released": released}
    variants = {
        key: tables.Variant("a", ("D=5", *(more if key == "released" else ())))
        for key, value in ours.items()
        if value is not None
    }
    entries = {k: Entry("close", ours[k], difference=ours[k] - published) for k in variants}
    spec = tables.Spec("a", "data", "mse_e3", {}, ("D=5",), 1, variants)
    return Cell(row, column, spec, published, None, entries, ())


def table_of(*lines):
    rows, columns = [line[0].row for line in lines], [cell.column for cell in lines[0]]
    specs = tuple(tuple(cell.spec for cell in line) for line in lines)
    return FilledTable(tables.Table("t", "", "p", "1", (*rows,), (*columns,), specs, ()), lines)


def test_a_claim_holds_where_the_first_has_less_than_the_best_of_the_others():
    filled = table_of(
        (cell("new", "a", 8.0, 9.0, 12.0), cell("new", "b", 5.0, 5.0, 4.0, ["stream.lags=1"])),
        (cell("old", "a", 10.0, 10.0), cell("old", "b", 4.0, 10.0)),
        (cell("other", "a", 20.0, 12.0), cell("other", "b", 4.0, 20.0)),
    )
    claim = claims.Claim("new is lower", ("t",), "new", ("old", "other"))
    found = claims.effects(claim, {"t": filled})
    assert found == {
        "published": pytest.approx([-20, 25]),
        "as written": pytest.approx([-10, -50]),
        "as released": pytest.approx([20]),  # on b it had other rows than the others
    }
    assert [claims.holds(claim, percent) for percent in found["published"]] == [True, False]
    assert claims.holds(dataclasses.replace(claim, at_most=25), 25)
    along = claims.Claim("less on a", ("t",), "a", ("b",), along="columns")
    assert claims.effects(along, {"t": filled})["published"] == pytest.approx([60, 150, 400])
    known = claims.Known("what", ("t",), rows=("new",), columns=("b",))
    assert claims.distances(known, {"t": filled}) == {"as written": 0.0, "as released": 1.0}


def test_the_verdict_on_a_claim_is_of_the_stated_settings_first():
    claim = claims.Claim("new is lower", ("t",), "new", ("old",))

    def verdict(**ours):
        effects = {what.replace("_", " "): percents for what, percents in ours.items()}
        (line,) = page.claims_table([(claim, {claims.PUBLISHED: [-9, -2], **effects})]).cells
        assert line[2].text == "2 of 2 (−9 to −2 %)" and line[-1].text == "omkl-report run t"
        return line[1].text

    assert verdict(as_written=[-1, -1], fitted=[-1, 2]) == "holds"
    assert verdict(as_written=[-1, 2], fitted=[-1, -1]) == "only fitted"
    assert verdict(as_written=[1, 2], fitted=[-1, 2]) == "in part"
    assert verdict(as_written=[1, 2]) == "does not hold"
    assert verdict() == "not run"


def test_baselines_stand_beside_the_least_published():
    """On one of two streams the ridge is better: 20 x 10^-3 is published, it has 10 and 30."""

    def cell(dataset, published, ridge):
        entries = {"mean": {"mse": 0.034}, "last": {"mse": 0.0113}, "ridge": {"mse": ridge}}
        result = {"status": "complete", "baselines": entries}
        entry = Entry("close", run=Run.in_memory(Path(dataset), result=result))
        spec = tables.Spec("Raker", dataset, "mse_e3", {}, (), 20, {})
        own = {tables.WRITTEN: entry}
        return Cell(f"row {published}", dataset, spec, float(published), None, own, (dataset,))

    cells = tuple(
        (cell(dataset, 20, ridge), cell(dataset, 25, ridge))
        for dataset, ridge in (("airfoil", 0.01), ("bias", 0.03))
    )
    table = tables.Table("t", "", "graph-aided-jmlr", "1", (), (), (), ())
    _, text, grid = sections.baseline_parts([FilledTable(table, cells)])
    assert "every published multi-kernel learner on 1 of 2 streams (airfoil)." in text.text
    assert "all of them on 2 of 2 streams (airfoil, bias), the running" in text.text
    assert "the running mean of the labels on 0 of 2 streams." in text.text
    first = ["airfoil", "34.00", "11.30", "10.00", "20", "row 20 (JMLR, table 1)"]
    assert list(map(str, grid.cells[0])) == first
    assert sections.baseline_parts([]) == []


def test_what_the_papers_claim_is_in_their_tables():
    """No misspelt row or column: every claim compares published numbers."""
    specs = {name: tables.load_table(name) for name in papers.names("table")}
    filled = {name: matching.fill(table, []) for name, table in specs.items()}
    for paper in claims.load():
        assert len(re.findall(r"\.(?= |$)", paper.verdict)) == 2 and 4 <= len(paper.claims) <= 6
        for claim in paper.claims:
            assert set(claim.tables) <= set(specs)
            assert claims.effects(claim, filled)["published"], claim
        for known in paper.known:
            for name in known.tables:
                assert set(known.rows) <= set(specs[name].rows), known
                assert set(known.columns) <= set(specs[name].columns), known


def test_a_line_for_each_m_over_the_exploration_rate(monkeypatch, tmp_path):
    """The axis begins at 0 and holds what is drawn last as well."""

    def run(M, xi, mean):
        regret = {"clients": {"mean": mean, "std": None}}
        params = {"M": M, "xi": xi}
        result = {"algorithm": "pof_mkl", "dataset": "naval", "params": params, "regret": regret}
        return Run.in_memory(tmp_path / f"{M}-{xi}", result=result)

    drawn = []
    monkeypatch.setattr(figures, "save", lambda figure, *_: drawn.append(figure) or [])
    runs = [run(25, 1.0, 9.0), run(1, 0.5, 2.0), run(25, 0.5, 7.0), run(1, 1.0, 3.0)]
    figures.exploration(runs, tmp_path, "exploration")
    (axes,) = drawn[0].axes
    lines = [container.lines[0].get_xydata().tolist() for container in axes.containers]
    assert lines == [[[0.5, 2.0], [1.0, 3.0]], [[0.5, 7.0], [1.0, 9.0]]]
    assert axes.get_ylim()[0] == 0.0 and axes.get_ylim()[1] > 9.0
    labels = [text.get_text() for text in drawn[0].legends[0].get_texts()]
    assert labels == ["POF-MKL, M = 1", "POF-MKL, M = 25"]


def test_regret_beside_the_theorem(outputs, tmp_path, monkeypatch):
    """The lines are the mean regret, the promised slope, the fitted one, T, and the bound."""
    (run,) = (r for r in find(outputs) if r.result["key"] == "10sfg" and "naval" in str(r.folder))
    drawn = {}
    monkeypatch.setattr(figures, "save", lambda figure, *_: drawn.update(axes=figure.axes) or [])
    figures.regret_bound(run)
    regret, promised, *others = (line.get_data() for line in drawn["axes"][0].get_lines())
    mean = run.curves["regret_ridge_features"].mean(axis=0)
    assert np.nan_to_num(regret[1]) == pytest.approx(np.where(mean > 0, mean, 0))
    x, y = promised
    assert math_slope(x, y) == pytest.approx(2 / 3)
    assert y[-1] == pytest.approx(mean[-1])
    if len(others) == 3:
        assert math_slope(*others[0]) == pytest.approx(fitted_slope(x, mean))
    assert others[-2][1] == pytest.approx(x)
    assert others[-1][1] == pytest.approx(bound_of_run(run).value)


def math_slope(x, y):
    return float(np.log(y[-1] / y[0]) / np.log(x[-1] / x[0]))


def test_regret_bound_is_drawn_where_there_is_a_theorem(outputs):
    (run,) = (r for r in find(outputs) if r.result["key"] == "10gf" and "naval" in str(r.folder))
    both = figures.regret_bound(run, suffixes=("png", "pdf"))
    assert [p.name for p in both] == ["regret_bound.png", "regret_bound.pdf"]
    assert figures.regret_bound(change(run.folder, algorithm="mine")) == []


@pytest.mark.slow
def test_every_cell_of_every_table_composes():
    """Each job of each table is a configuration Hydra reads, with the parameters that fill asks.

    A data set is composed once, and so is all that is said of an algorithm.
    """
    found, expected = {}, {}
    for name in papers.names("table"):
        table = tables.load_table(name)
        for job in matching.jobs(table):
            found[tuple(job)] = None
        for spec in (spec for line in table.specs for spec in line):
            for variant in spec.variants.values():
                key = (f"algorithm={variant.algorithm}", *variant.overrides)
                expected[key] = matching._settings(variant)
        for sweep in table.sweeps:
            for variant in sweep.variants:
                key = (f"algorithm={variant.algorithm}", *variant.overrides)
                expected[key] = matching._settings(variant)
    typed = {job[0] for job in found}
    for name in ("as_released/sfg_r", "as_released/gf_icml", "recovered/sfg_mkl"):
        assert f"algorithm={name}" in typed
    seen = set()
    for job in found:
        told = {job[1], (job[0], *job[2:])}
        if told <= seen:
            continue
        seen |= told
        config = compose(job)
        settings = expected[job[0], *job[2:-1]]  # without the data set and the seeds
        assert settings.keys() == config["algorithm"].keys()
        assert all(matching._same(config["algorithm"][k], v) for k, v in settings.items())
        assert config["seeds"] in (1, 5, 20, 50)
