"""Tables of papers and of one's own: what fills a cell, what is said of it, and their files."""

import csv
import json
import re
from collections import Counter
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from omkl import papers
from omkl.checks.learners import default_settings
from omkl.papers import matching, rendering, tables
from omkl.report.naming import readable
from omkl.runs.run_folder import Run
from tests.conftest import change
from tests.papers.test_page import Page

SETTINGS = {name: default_settings(name) for name in ("raker", "omkr", "gf", "sfg", "sfg_r")}


def verdicts(filled, variant=tables.WRITTEN):
    """Judged cells by verdict."""
    return Counter(entry.verdict for entry in filled.entries(variant))


# Over 8 seeds two standard errors of the difference are one standard deviation.
@pytest.mark.parametrize(
    ("ours", "std", "n_seeds", "expected"),
    [
        (103, None, 1, "reproduced"),
        (103, 9.0, 1, "reproduced"),  # a deviation of one seed says nothing
        (97, 0.0, 20, "reproduced"),
        (103.01, None, 1, "reproduced"),  # 100.00 may have been cut from 100.01
        (103.02, None, 1, "close"),
        (96.99, None, 1, "close"),
        (103.02, 3.01, 8, "consistent"),
        (103.02, 3.00, 8, "close"),
        (103.02, 3.01, 9, "close"),  # more seeds see smaller differences
        (115, 15.0, 8, "consistent"),
        (115, None, 1, "close"),
        (85, 1.0, 8, "close"),
        (115.02, None, 1, "differs"),
        (84.9, 15.0, 8, "differs"),
        (100, 15.1, 8, "scatters"),  # however near: these seeds cannot tell
        (110, 15.1, 8, "scatters"),
        (346, 250.0, 8, "scatters"),
        (346, 245.0, 8, "differs"),
        (0.3499, None, 1, "reproduced"),
        (0.37, None, 1, "close"),
        (0.32, None, 1, "close"),
    ],
)
def test_verdict(ours, std, n_seeds, expected):
    published = 100 if ours > 1 else 0.34  # whose last digit may have been cut
    assert matching.verdict(published, ours, std, n_seeds) == expected


def test_the_margin_is_two_standard_errors_of_a_difference_of_two_means():
    rng = np.random.default_rng(0)
    means = rng.standard_normal((2, 20_000, 20)).mean(axis=2)
    assert matching.margin(1.0, 20) == pytest.approx(2 * np.std(means[0] - means[1]), rel=0.02)
    assert matching.margin(None, 20) is None


@pytest.fixture
def here(monkeypatch):
    """The learners that these tests take to be in omkl."""
    present = ["raker", "gf", "sfg", "sfg_r", "omkr", "as_released/gf", "as_released/sfg"]
    monkeypatch.setattr(matching, "_exists", lambda name: name in present)
    return present


def test_jobs_of_the_jmlr_tables(here):
    table = tables.load_table("jmlr_table1")
    found = matching.jobs(table)
    assert len(found) == 28
    common = ["kernels=rbf51_lap25", "D=50", "stream.scaling=whole"]
    exact = ["kernels=rbf51_lap25_exact", *common[1:], "seeds=1"]
    assert found[0] == ["algorithm=omkr", "dataset=airfoil", *exact]
    assert found[-1] == [
        *("algorithm=sfg_r", "dataset=naval", *common, "algorithm.M=10", "seeds=20")
    ]
    (_, dataset, *settings, seeds) = found[-1]
    replayed = [dataset, *settings, "algorithm.replay=T", "dataset.inputs=2-18", seeds]
    assert ["algorithm=as_released/gf", *replayed] in found
    assert ["algorithm=as_released/sfg", *replayed] in found
    # Table 2 is the run time of table 1, and both metrics of table 3 come from one run.
    assert matching.jobs(tables.load_table("jmlr_table2")) == found
    third = matching.jobs(tables.load_table("jmlr_table3"))
    assert len(third) == 4 * 5 * 2
    assert ["algorithm=gf", *found[-1][1:]] in third


def test_every_published_number_of_the_papers_has_one_cell():
    cells = []
    for name in papers.names("table"):
        table = tables.load_table(name)
        if table.paper == "federated-pof":  # its tables share numbers: see below
            continue
        specs = (s for line in table.specs for s in line if s.published is not None)
        for spec in specs:
            cells.append((table.paper, table.table, spec.published, spec.dataset, spec.metric))
            cells[-1] += (str(spec.where["M"]),) if spec.where else ()
    compared = {cell[0] for cell in cells}
    published = [line for line in tables.published_numbers() if line["paper"] in compared]
    assert len(cells) == len(set(cells)) == len(published) == 344
    assert all(
        f"algorithm.M={spec.where['M']}" in spec.overrides
        for n in (3, 4, 5)
        for line in tables.load_table(f"jmlr_table{n}").specs
        for spec in line
    )


def test_every_published_number_of_the_federated_paper_has_a_cell():
    lines = [n for n in tables.published_numbers() if n["paper"] == "federated-pof"]
    found = {(n, k): 0 for k, n in enumerate(line["table"] for line in lines)}
    for n in (1, 2, 3):
        table = tables.load_table(f"pof_table{n}")
        for spec in (spec for line in table.specs for spec in line):
            metric = tables.METRICS[spec.metric].std_of or spec.metric
            for k, line in enumerate(lines):
                where = {"algorithm": spec.published, "dataset": spec.dataset, "metric": metric}
                where |= {name: str(value) for name, value in spec.where.items()}
                if all(line[name] == value for name, value in where.items()):
                    found[line["table"], k] += 1
                    assert spec.seeds == 20 and "max_upload=1000" in spec.overrides
    assert len(found) == 88 and all(found.values())


PUBLISHED = {
    "name": "t",
    "title": "T",
    "paper": "graph-aided-jmlr",
    "table": 3,
    "metric": "mse_e3",
    "seeds": 2,
    "columns": [{"label": "Airfoil", "dataset": "airfoil"}],
    "rows": [{"label": "5", "published": "gf", "algorithm": "gf", "where": {"M": 5}}],
}
(ROW,) = PUBLISHED["rows"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"colums": []}, "unknown colums"),
        ({"title": None}, "without title"),
        ({"metric": "speed"}, "metric 'speed' is not one of mse_e3"),
        ({"rows": [{**ROW, "where": {}}]}, "has 5 lines"),
        ({"rows": [{**ROW, "published": "gff"}]}, "has 0 lines"),
        ({"rows": [{**ROW, "by_column": {"Tims": {"seeds": 3}}}]}, "by_column of 5 names Tims"),
        ({"footnotes": [{"rows": ["raker"], "text": "x"}]}, "names raker"),
        ({"overrides": ["D"]}, "not an override"),
        ({"columns": [{"label": "Airfoil"}]}, "without dataset"),
        ({"table": None}, "a published table has a paper and a table"),
        ({"paper": None, "table": None}, "is of no paper"),
    ],
)
def test_a_table_of_what_does_not_exist_is_refused(wrong, message):
    assert matching.fill(tables.load_table(PUBLISHED), []).cells[0][0].published == 24.95
    spec = {key: value for key, value in (PUBLISHED | wrong).items() if value is not None}
    with pytest.raises(ValueError, match=message):
        tables.load_table(spec)


def test_later_settings_of_a_cell_count():
    spec = {
        "name": "t",
        "title": "T",
        "paper": "graph-aided-jmlr",
        "table": 3,
        "published": "gf",
        "overrides": ["D=50", "kernels=a"],
        "rows": [{"label": "Airfoil", "dataset": "airfoil", "overrides": ["kernels=b"]}],
        "columns": [
            {"label": "5", "metric": "mse_e3", "where": {"M": 5}, "overrides": ["x=5"]},
            {"label": "5 s", "metric": "runtime_s", "where": {"M": 5}, "seeds": 3},
        ],
    }
    first, second = tables.load_table(spec).specs[0]
    assert first.overrides == ("D=50", "kernels=b", "x=5")
    assert (first.seeds, second.seeds) == (1, 3)
    cells = matching.fill(tables.load_table(spec), []).cells[0]
    assert [cell.published for cell in cells] == [24.95, 1.53]


@pytest.fixture
def cell_run(run_folder_maker, tmp_path):
    """A run that fits a cell of the JMLR table, with stated numbers."""

    def make(algorithm, dataset, key="00000000", M=10, config=(), n_seeds=20, failed=False, **res):
        params = SETTINGS[algorithm] | ({"M": M} if "M" in SETTINGS[algorithm] else {})
        options = {"n_rounds": 20, "n_seeds": n_seeds, "failed": failed, "params": params}
        folder = run_folder_maker(tmp_path, algorithm, dataset, key, **options)
        path = folder / "config.yaml"
        text = path.read_text() + "stream:\n  scaling: whole\n"
        for old, new in config:
            assert old in text
            text = text.replace(old, new)
        path.write_text(text)
        return change(folder, **res)

    return make


def test_fill_takes_only_runs_with_the_settings_of_the_cell(cell_run, here):
    table = tables.load_table("jmlr_table1")

    def cell(*runs):
        return matching.fill(table, runs).cells[5][0]  # OMKL-GF on airfoil

    good = cell_run("gf", "airfoil", "0a", mse_mean=0.026, mse_std=0.0005)
    found = cell(good).written
    assert cell(good).published == 25.73
    assert (found.ours, found.std) == (26.0, 0.5)
    assert found.difference == pytest.approx(100 * 0.27 / 25.73)
    assert found.verdict == "reproduced"
    assert cell(good).entries["released"].verdict == "missing"
    for wrong in [
        cell_run("gf", "airfoil", "0b", M=5),
        cell_run("gf", "airfoil", "0c", n_seeds=19),
        cell_run("gf", "airfoil", "0d", D=100),
        cell_run("gf", "airfoil", "0e", kernels="rbf51"),
        cell_run("gf", "airfoil", "0f", config=[("scaling: whole", "scaling: columns")]),
        cell_run("gf", "bias", "0a"),
        cell_run("sfg", "airfoil", "0a"),
    ]:
        assert cell(wrong).written.verdict == "missing"
        assert cell(wrong, good).written == found
    failed = cell_run("gf", "airfoil", "1a", failed=True)
    assert cell(failed).written.verdict == "failed"
    assert cell(failed).written.reason == "ValueError: algorithm.M=90 is larger than N=76"
    assert cell(failed, good).written == found
    later = cell_run("gf", "airfoil", "1b", started="2026-02-01", mse_mean=0.028, mse_std=0.0)
    assert cell(later, good).written.verdict == "close"
    assert found.margin == pytest.approx(2 * np.sqrt(2 / 20) * 0.5)
    scattered = cell_run("gf", "airfoil", "1d", mse_mean=0.04, mse_std=0.03)
    assert cell(scattered).written.verdict == "scatters"


def test_released_deterministic_and_absent_learners(cell_run, here):
    table = tables.load_table("jmlr_table1")
    released = cell_run("gf", "airfoil", "0a", mse_mean=0.0257, mse_std=0.0004)
    changes = {
        "algorithm": "as_released/gf",
        "params": default_settings("as_released/gf") | {"M": 10, "replay": "T"},
    }
    released = change(released.folder, **changes)
    exact = cell_run("omkr", "naval", "0a", n_seeds=3, kernels="rbf51_lap25_exact")
    filled = matching.fill(table, [released, exact])
    both = filled.cells[5][0]
    assert both.written.verdict == "missing"
    assert both.entries["released"].verdict == "reproduced"
    assert filled.cells[0][3].written.verdict == "missing"  # three seeds where one is wanted
    change(exact.folder, deterministic=True)
    filled = matching.fill(table, [Run(exact.folder)])
    assert filled.cells[0][3].written.ours is not None
    assert [cell.written.reason for cell in filled.cells[2]] == ["not in omkl yet"] * 4  # POLY-2
    assert "released" not in filled.cells[2][0].entries  # nothing of POLY-2's was released
    assert "poly" not in str(matching.jobs(table))


def test_runs_of_one_module_with_other_settings_fill_other_variants(cell_run, here):
    """as_released/gf and as_released/gf_icml name one module: every parameter is compared."""
    content = papers.entry("table", "jmlr_table1")
    (row,) = (row for row in content["rows"] if row["label"] == "OMKL-GF")
    row |= {"released": "as_released/gf", "recovered": "as_released/gf_icml"}
    table = tables.load_table(content)

    def run(typed, key, **more):
        params = default_settings(typed) | {"M": 10} | more
        return change(cell_run("gf", "airfoil", key).folder, algorithm=NAME, params=params)

    NAME, OTHER = "as_released/gf", "as_released/gf_icml"
    (_, released), (_, recovered) = found = [
        (typed, run(typed, key)) for typed, key in ((NAME, "0a"), (OTHER, "0b"))
    ]
    assert len({json.dumps(r.result["params"]) for _, r in found}) == 2

    def filled(*runs):
        cell = matching.fill(table, runs).cells[5][0]
        assert list(cell.entries) == list(tables.VARIANTS)
        return {name: entry.run for name, entry in cell.entries.items()}

    nothing = dict.fromkeys(tables.VARIANTS)
    assert filled(released) == nothing | {"released": released}
    assert filled(recovered) == nothing | {"recovered": recovered}
    assert filled(recovered, released)["recovered"] is recovered
    assert filled(recovered, released)["released"] is released
    assert filled(run(NAME, "0c", M=5), run(OTHER, "0d", eta="0.2/sqrt(t)")) == nothing
    assert filled(run(NAME, "0e", more=1), run(NAME, "0g", replay="T")) == nothing
    # Numbers and schedules count, not how they are written.
    same = run(OTHER, "0f", lam="1e-3", M="10", eta="1 / sqrt(T)", floor_q=".05")
    assert filled(same)["recovered"] is same

    both = matching.fill(table, [released, recovered])
    assert [len(both.entries(name)) for name in tables.VARIANTS] == [32, 20, 4]
    assert verdicts(both, "recovered")["missing"] == 3
    assert both.runs == [released, recovered]


def test_a_variant_may_have_overrides_of_its_own(monkeypatch):
    monkeypatch.setattr(matching, "_exists", lambda name: True)
    table = tables.load_table("arxiv_v1_table1")
    spec = table.specs[table.rows.index("OMKL-GF")][0]
    assert list(spec.variants) == ["algorithm", "released"]
    assert "algorithm.freeze=1000000" in spec.overrides == spec.variants["algorithm"].overrides
    released = spec.variants["released"]
    assert released.algorithm == "as_released/gf_icml"
    assert set(released.overrides) - set(spec.overrides) == {"algorithm.freeze=302"}
    assert "algorithm.freeze=1000000" not in released.overrides
    (job,) = (job for job in matching.jobs(table) if job[0] == "algorithm=as_released/gf_icml")
    assert "algorithm.freeze=302" in job
    # With these the file is run as it stands.
    written = matching._algorithm_file("as_released/gf_icml")
    settings = matching._settings(released)
    assert settings.keys() == written.keys()
    assert all(matching._same(settings[key], value) for key, value in written.items())


@pytest.mark.parametrize(
    ("found", "wanted", "same"),
    [
        (0.001, "1e-3", True),
        (10, 10.0, True),
        ("0.1/sqrt(t)", "0.1 / sqrt(t)", True),
        ("1/sqrt(T)", "1/sqrt(t)", False),
        (True, 1, False),
        (False, False, True),
        (None, 0, False),
        (0.5, -0.5, False),
    ],
)
def test_same_settings(found, wanted, same):
    assert matching._same(found, wanted) is matching._same(wanted, found) is same


def test_run_times_are_per_seed_and_get_no_verdict(cell_run, here, tmp_path):
    run = cell_run("gf", "airfoil", "0a", M=5, seconds_per_seed=[0.01, 0.02] * 10)
    filled = matching.fill(tables.load_table("jmlr_table3"), [run])
    cell = filled.cells[0][6]
    assert (cell.spec.metric, cell.spec.where) == ("runtime_s", {"M": 5})
    assert cell.written.verdict == "timed"
    assert cell.written.ours == pytest.approx(0.015)
    assert cell.written.ratio == pytest.approx(1.53 / 0.015)
    assert sum(verdicts(filled).values()) == 20  # the twenty errors alone
    (path,) = rendering.render(filled, ["md"], tmp_path)
    text = path.read_text(encoding="utf-8")
    assert "0.015 ± 0.005<br>102 × faster" in text
    assert text.count("**MSE × 10⁻³**") == text.count("**run time, s**") == 1


def test_render(cell_run, here, tmp_path):
    runs = [
        cell_run("raker", "naval", mse_mean=0.01109, mse_std=0.00005),
        cell_run("gf", "airfoil", mse_mean=0.02573, mse_std=0.0005, seconds=1.25),
        cell_run("sfg_r", "bias", mse_mean=0.03, mse_std=None, commit="fff_1234+"),
        cell_run("sfg", "naval", failed=True, error={"type": "E", "message": "50% of <a_b>"}),
    ]
    filled = matching.fill(tables.load_table("jmlr_table1"), runs)
    assert verdicts(filled) == {
        "reproduced": 2,
        "differs": 1,
        "missing": 16,
        "failed": 1,
        "absent": 12,
    }
    folder = tmp_path / "out"
    paths = rendering.render(filled, rendering.FORMATS, folder)
    assert [path.name for path in paths] == [f"jmlr_table1.{f}" for f in rendering.FORMATS]
    text = {path.suffix[1:]: path.read_text(encoding="utf-8") for path in paths}
    page = Page(text["html"])
    assert not page.pictures
    assert all(link.startswith("#jmlr_table1-note") for link in page.links)
    assert "prefers-color-scheme: dark" in text["html"]

    squeezed = re.sub(r"\s+", " ", page.text)
    for shown in (text["md"], squeezed, text["tex"]):
        plain = shown.replace(r"$\pm$", "±").replace("$-$", "−").replace("\\", "")
        for number in ("32.68", "355.67", "11.35", "25.73", "13.24", "7.89"):
            assert number in plain
        for ours in ("11.09 ± 0.05", "25.73 ± 0.50", "30.00", "−2.3 %", "+126.6 %", "2.2 s"):
            assert ours in plain
        for word in ("reproduced", "differs", "missing", "failed", "not in omkl yet"):
            assert word in plain
        for fact in ("numpy 2.4.6", "processor test", "feedbeef", "20 seeds"):
            assert fact in plain
        made = "abc1234 (clean tree): 2 runs; fff_1234 with uncommitted changes: 1 run"
        assert made in plain
        assert "at most 15 %" in plain
        assert "divergence" in plain
    assert "OMKL-GF <sup>4</sup>" in text["md"]
    assert r"OMKL-GF$^{4}$" in text["tex"]
    assert r"50\% of \textless{}a\_b\textgreater{}" in text["tex"]
    assert "50% of <a_b>" in page.text

    tex = re.sub(r"\\.", "", text["tex"].replace("\\\\", "\n"))
    assert tex.count("{") == tex.count("}")
    assert tex.count("$") % 2 == 0
    body = text["tex"].split(r"\midrule")[1].split(r"\bottomrule")[0]
    for line in body.strip().splitlines():
        if line != r"\addlinespace":
            assert line.count(" & ") == (2 if "multicolumn" in line else 5)

    lines = list(csv.DictReader(StringIO(text["csv"])))
    assert len(lines) == 32 + 20
    (gf,) = (x for x in lines if x["algorithm"] == "gf" and x["dataset"] == "airfoil")
    assert [gf[k] for k in ("variant", "published", "ours", "std", "n_seeds")] == [
        *("as written", "25.73", "25.73", "0.5", "20")
    ]
    assert str(tmp_path) not in "".join(text.values())
    rendering.print_table(filled, Console(file=(shown := StringIO()), width=120))
    assert "JMLR, table 1" in shown.getvalue() and "not in omkl yet" in shown.getvalue()
    assert "11.09 ± 0.05  −2.3 %, reproduced" in shown.getvalue()
    with pytest.raises(ValueError, match="'pdf' is not one of md, csv, tex, html"):
        rendering.render(filled, ["pdf"], folder)


def test_a_number_that_stands_in_two_tables_counts_once(cell_run, here):
    """Tables 1 and 3 of the JMLR paper share OMKL-GF with M = 10, a number a data set."""
    both = [tables.load_table(f"jmlr_table{n}") for n in (1, 3)]
    runs = [
        cell_run("gf", "airfoil", mse_mean=0.02573, mse_std=0.0005),
        cell_run("gf", "airfoil", "05", M=5, mse_mean=0.02495, mse_std=0.0005),
        cell_run("raker", "airfoil", mse_mean=0.0286, mse_std=0.03),
    ]
    filled = [matching.fill(table, runs) for table in both]
    assert [verdicts(table)["reproduced"] for table in filled] == [1, 2]
    found = matching.counts(filled)
    assert (found.numbers, found.in_several) == (32 + 20 - 4, 4)
    assert found.verdicts["as written"]["reproduced"] == 2
    assert found.verdicts["as written"]["scatters"] == 1
    assert matching.counts(filled[:1]).in_several == 0


def test_the_distinct_published_numbers():
    """12 errors of the JMLR paper, 24 of Hong and Chae's and 28 of the federated stand twice."""
    specs = [tables.load_table(name) for name in papers.names("table")]
    filled = [matching.fill(table, []) for table in specs]
    found = {
        paper: matching.counts(table for table in filled if table.table.paper == paper)
        for paper in {table.paper for table in specs if table.paper}
    }
    assert {paper: (counts.numbers, counts.in_several) for paper, counts in found.items()} == {
        "graph-aided-jmlr": (80, 12),
        "graph-aided-arxiv-v1": (20, 0),
        "active-mkl": (84, 24),
        "federated-pof": (80, 28),
    }
    # What fills one cell of a number fills the other, so that either may stand for both.
    first = {}
    for table in filled:
        for cell in table.judged:
            jobs = {(v.algorithm, frozenset(v.overrides)) for v in cell.spec.variants.values()}
            made = (jobs, cell.spec.seeds)
            assert first.setdefault(cell.identity, made) == made, cell.identity


def test_the_origin_of_runs_in_one_sentence(cell_run):
    clean = cell_run("gf", "airfoil", "0a")
    told = rendering.origin_text([clean, clean])
    assert told == "All 2 runs were made at commit abc1234 with a clean tree."
    dirty, unknown = (
        cell_run("gf", "airfoil", k, commit=c) for k, c in (("0b", "abc+"), ("0c", None))
    )
    told = rendering.origin_text([clean, dirty, clean, unknown])
    assert told.startswith("These numbers are not those of one commit with a clean tree")
    assert "abc1234 (clean tree): 2 runs; abc with uncommitted changes: 1 run; no commit" in told
    assert rendering.origin_text([dirty]).startswith("These numbers are not")


def test_a_page_names_some_stamps_and_counts_them_all(cell_run):
    told = dict(rendering.provenance([cell_run("gf", "airfoil", "0a", stamp="a")]))["sources"]
    assert told == "1 stamp of code and data, stamp in result.json: a"
    runs = [cell_run("gf", "airfoil", f"1{k}", stamp=k) for k in "fedcba"]
    told = dict(rendering.provenance([*runs, *runs]))["sources"]
    assert told.startswith("6 stamps of code and data") and told.endswith(": a; b; c; d; ...")


# --- a table of one's own -------------------------------------------------------------------------

MINE = {
    "name": "mine",
    "title": "Two learners",
    "metric": "mse_e3",
    "seeds": 3,
    "columns": [{"label": "Airfoil", "dataset": "airfoil"}, {"label": "Naval", "dataset": "naval"}],
    "rows": [{"label": "Raker", "algorithm": "raker"}, {"label": "GF", "algorithm": "gf"}],
    "footnotes": [{"text": "exploring more", "rows": ["GF"]}],
}


def test_a_table_of_ones_own_needs_no_published_number(tmp_path, monkeypatch):
    table = tables.load_table(MINE)
    assert matching.jobs(table) == [
        [f"algorithm={algorithm}", f"dataset={dataset}", "seeds=3"]
        for algorithm in ("raker", "gf")
        for dataset in ("airfoil", "naval")
    ]
    run = {"mse_mean": 0.0125, "mse_std": 0.001, "commit": "abc1234", "stamp": "feed"}
    monkeypatch.setattr(matching, "_fitting", lambda spec, *_: _run_on_airfoil(run, spec.dataset))
    filled = matching.fill(table, [])
    assert not filled.judged
    paths = rendering.render(filled, rendering.FORMATS, tmp_path)
    texts = {path.suffix: path.read_text(encoding="utf-8") for path in paths}
    for suffix, number in ((".md", "12.50 ± 1.00"), (".tex", r"12.50 $\pm$ 1.00")):
        assert texts[suffix].count(number) == 2
        for word in ("published", "reproduced", "as written", "verdict", "not judged"):
            assert word not in texts[suffix]
    assert "# Two learners (MSE × 10⁻³)" in texts[".md"] and "GF <sup>1</sup>" in texts[".md"]
    lines = list(csv.DictReader(StringIO(texts[".csv"])))
    assert [line["verdict"] for line in lines] == ["unpublished", "missing"] * 2
    assert readable(float(lines[0]["ours"])) == "12.50"


def _run_on_airfoil(result: dict, dataset: str) -> list[Run]:
    """A finished run on airfoil alone, held in memory."""
    own = {"status": "complete", "seeds": [0, 1, 2], "started": "2026-01-01T00:00:00+00:00"}
    own |= {"seconds": 1.0, "machine": {"cores": 2}, "versions": {"omkl": "0.1.0"}}
    result = {**result, **own, "seconds_per_seed": [1.0] * 3}
    place = Path(f"outputs/runs/{dataset}/raker-1")
    return [Run.in_memory(place, result=result)] if dataset == "airfoil" else []


@pytest.mark.parametrize(
    ("metric", "result", "value"),
    [
        ("error_percent", {"error_rate_mean": 0.25, "error_rate_std": 0.01}, (25.0, 1.0)),
        (
            "regret",
            {"regret": {"a": {"skipped": ""}, "b": {"mean": 3.0, "std": None}}},
            (3.0, None),
        ),
    ],
)
def test_what_a_cell_may_measure(metric, result, value):
    assert tables.METRICS[metric].measure(result) == value
