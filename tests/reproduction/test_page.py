"""The page of all tables and figures, from invented run folders."""

from __future__ import annotations

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from omkl import conf
from omkl.reproduction import matching, page, pictures, regret_figures, tables
from omkl.runs.folder import Run, find
from omkl.theory.bound_of_run import bound_of_run, fitted_slope
from tests.compositions import compose

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
    return [tables.load_table(n) for n in sorted(conf.names("table"), key=tables.order_of)]


@pytest.fixture
def outputs(run_folder_maker, tmp_path):
    """Runs for table 1, and of OMKL-GF for all M of table 3 on one data set."""

    def add(algorithm, dataset, M, **result):
        params = SETTINGS[algorithm] | ({} if algorithm == "raker" else {"M": M})
        key = f"{M:02d}{algorithm}"
        options = {"key": key, "params": params, "n_seeds": 20, "n_rounds": 200}
        folder = run_folder_maker(tmp_path, algorithm, dataset, **options)
        with open(folder / "config.yaml", "a") as file:
            file.write("stream:\n  scaling: whole\nregret:\n  lam: 0.001\n")
        path = folder / "result.json"
        stored = json.loads(path.read_text()) | result
        stored["regret"]["ridge_features"]["kernels"] = ["gaussian 1"] * 10 + ["laplacian 1"] * 10
        path.write_text(json.dumps(stored))
        return folder

    for dataset in ("airfoil", "bias", "concrete", "naval"):
        for algorithm in SETTINGS:
            add(algorithm, dataset, 10, mse_mean=0.0257, mse_std=0.0004)
    for M in (1, 5, 15, 20):
        add("gf", "airfoil", M, mse_mean=0.03, mse_std=0.02)
    (tmp_path / "tables").mkdir()
    times = {"10gf": 1.5, "10raker": 2.0, "10sfg": 4.0}
    (tmp_path / page.TIMES).write_text(json.dumps(times))
    (tmp_path / "search").mkdir()
    text = {"formula": "integral", "out-neighbours": "with itself", "rules": "text"}
    near = text | {"formula": "integral, d = 1", "rules": "node 0"}
    cell = "sfg_mkl naval M=5"
    points = [near | {"distance": 0.0222 + 0.01 * n, cell: 8.765} for n in range(20)]
    points.append(text | {"distance": 1e9, cell: 9.0})
    with open(tmp_path / "search" / "arxiv_v1.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(points[0]))
        writer.writeheader()
        writer.writerows(points)
    lines = ["step,mse"] + [f"0.{n},12.34567" for n in range(40)]
    (tmp_path / "search" / "step_sizes.csv").write_text("\n".join(lines))
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
def test_page(specs, outputs, tmp_path):
    folder = tmp_path / "docs"
    index, readme, counts, *figures = page.build(specs, outputs, folder)
    markup, markdown = index.read_text(encoding="utf-8"), readme.read_text(encoding="utf-8")
    found = Page(markup)
    assert sorted(found.pictures) == sorted(p.name for p in figures)
    assert {p.name for p in figures} == {
        *(f"jmlr_figure{n}.png" for n in (3, 4, 5, 6)),
        *("regret_and_theory.png", "regret_and_bounds.png"),
    }
    assert sum(p.stat().st_size for p in figures) < 3e6
    assert all(p.stat().st_size < 150_000 for p in figures)
    assert sorted(re.findall(r"\]\((\S+\.png)\)", markdown)) == sorted(found.pictures)
    # Nothing is fetched, and every mark leads to its footnote.
    assert all(link.startswith("#") and link[1:] in found.anchors for link in found.links)
    assert "http" not in markup
    assert str(tmp_path) not in markup + markdown
    for text in (found.text, markdown.replace("\\", "")):
        text = " ".join(text.split())
        for table in specs:
            assert f"table {table.table}: {table.title}" in text
        assert "Of 276 distinct published numbers" in text
        assert "64 of these numbers stand in two tables: they count once here" in text
        assert "the first 8 of 40 lines" in text
        assert "the first 8 of 21 lines" in text
        assert "8 points: the similarity of two kernels" in text
        assert "8.765" not in text  # a cell of a search
        assert re.search(
            r"as written (\| )?as released (\| )?recovered (\| )?reproduced by any", text
        )
        assert "At least one of the three reproduces" in text
        point = r"(\| )?integral (\| )?with itself (\| )?text (\| )?diverges"
        assert re.search(rf"8 (\| )?integral, d = 1 .* 21, as written {point}", text)
        assert "9.2 %" in text
        assert "10.2 %" not in text
        assert "12.35" in text
        assert "processor test, cores 2" in text
        assert "20 seeds (0..19)" in text
        assert "for 10 of 20 comparators the best kernel is Laplacian" in text
        assert "at most 3 % from the published number, or at most 2 standard errors" in text
        assert "total time 30 s for 12 runs" in text.replace(": ", " ")
        assert "+20.2 %, scatters" in text  # M = 5
        assert "All 16 runs were made at commit abc1234 with a clean tree." in text
        assert "page written at" in text.replace(": ", " ")
        assert text.count("By which code") == 2  # no search here has a note
        assert "make reproduce-tables (the runs, the searches, this page)" in text
    written = json.loads(counts.read_text(encoding="utf-8"))["JMLR and arXiv v1"]
    assert (written["numbers"], written["in_several"]) == (100, 12)
    assert len(written["reproduced"]) == 3
    assert set(written["verdicts"]) == set(tables.VARIANTS.values())


def test_page_without_a_single_run(specs, tmp_path):
    paths = page.build(specs, tmp_path, tmp_path / "docs")
    assert [p.name for p in paths] == ["index.html", "README.md", "counts.json"]
    assert "missing" in Page(paths[0].read_text(encoding="utf-8")).text


def test_regret_beside_the_theorem(outputs, tmp_path, monkeypatch):
    """The lines are the mean regret, the promised slope, the fitted one, T, and the bound."""
    (run,) = (r for r in find(outputs) if r.result["key"] == "10sfg" and "naval" in str(r.folder))
    drawn = {}
    monkeypatch.setattr(pictures, "save", lambda figure, *_: drawn.update(axes=figure.axes) or [])
    regret_figures.regret_bound(run)
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


def test_regret_bound_writes_both_formats(outputs):
    (run,) = (r for r in find(outputs) if r.result["key"] == "10gf" and "naval" in str(r.folder))
    assert [p.name for p in regret_figures.regret_bound(run)] == [
        "regret_bound.png",
        "regret_bound.pdf",
    ]
    change = json.loads((run.folder / "result.json").read_text()) | {"algorithm": "mine"}
    (run.folder / "result.json").write_text(json.dumps(change))
    assert regret_figures.regret_bound(Run(run.folder)) == []


@pytest.mark.slow
def test_every_cell_of_every_table_composes():
    """Each job of each table is a configuration Hydra reads, with the parameters that fill asks.

    A data set is composed once, and so is all that is said of an algorithm.
    """
    found, expected = {}, {}
    for name in conf.names("table"):
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
