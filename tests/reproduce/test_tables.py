"""The published tables: what fills a cell, verdicts, claims, and how they are shown."""

import functools
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from reproduce import pages, results, tables

from omkl.runs.run_folder import Run
from tests.compositions import compose


@functools.cache
def every():
    """All tables by name: a fifth of the time of a collection, so not at import."""
    return {name: tables.load(name) for name in tables.names()}


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
        (115.02, None, 1, "differs"),
        (84.9, 15.0, 8, "differs"),
        (100, 15.1, 8, "scatters"),  # however near: these seeds cannot tell
        (346, 250.0, 8, "scatters"),
        (346, 245.0, 8, "differs"),
        (0.3499, None, 1, "reproduced"),
        (0.37, None, 1, "close"),
    ],
)
def test_verdict(ours, std, n_seeds, expected):
    published = 100 if ours > 1 else 0.34  # whose last digit may have been cut
    assert results.verdict(published, ours, std, n_seeds) == expected


def test_the_margin_is_two_standard_errors_of_a_difference_of_two_means():
    rng = np.random.default_rng(0)
    means = rng.standard_normal((2, 20_000, 20)).mean(axis=2)
    assert results.margin(1.0, 20) == pytest.approx(2 * np.std(means[0] - means[1]), rel=0.02)
    assert results.margin(None, 20) is None


# --- what fills a cell ----------------------------------------------------------------------------


def test_jobs_of_the_jmlr_tables():
    found = every()["jmlr_table1"].jobs
    common = ("kernels=rbf51_lap25", "D=50", "stream.scaling=whole", "regret.ridge_features=true")
    exact = ("kernels=rbf51_lap25_exact", *common[1:], "regret.kernel_ridge=true", "seeds=1")
    assert found[0] == ("algorithm=omkr", "dataset=airfoil", *exact)
    last = ("algorithm=sfg_r", "dataset=naval", *common, "algorithm.M=10", "seeds=20")
    assert last in found
    replayed = (*last[1:-1], "algorithm.replay=T", "dataset.inputs=2-18", "seeds=20")
    assert ("algorithm=as_released/gf", *replayed) in found
    # Table 2 is the run time of table 1, and both metrics of table 3 come from one run.
    assert every()["jmlr_table2"].jobs == found
    third = every()["jmlr_table3"].jobs
    assert len(third) == 4 * 5 * 2 and ("algorithm=gf", *last[1:]) in third


def test_every_published_number_has_a_cell():
    lines = tables.published_numbers()
    papers = {table.paper for table in every().values()}
    shown = set()
    for table in every().values():
        for identity in filter(None, table.cells["identity"]):
            *of, metric, _ = identity
            shown.add((*of, tables.METRICS[metric].std_of or metric))
    columns = ["paper", "algorithm", "dataset", "M", "D", "metric"]
    published = set(lines[lines["paper"].isin(papers)][columns].itertuples(index=False, name=None))
    assert published <= shown and len(published) > 350


def test_the_distinct_published_numbers():
    """12 errors of the JMLR paper, 24 of Hong and Chae's and 28 of the federated stand twice."""
    cells = pd.concat([table.cells for table in every().values()], ignore_index=True)
    judged = cells[cells["judged"]]
    paper = {table.name: table.paper for table in every().values()}
    by_number = judged.groupby("identity")["table"].agg(set)
    found = Counter(paper[next(iter(names))] for names in by_number)
    twice = Counter(paper[next(iter(names))] for names in by_number if len(names) > 1)
    assert found == {"graph-aided-jmlr": 80, "graph-aided-arxiv-v1": 20, "active-mkl": 84,
                     "federated-pof": 80}  # fmt: skip
    assert twice == {"graph-aided-jmlr": 12, "active-mkl": 24, "federated-pof": 28}
    # What fills one cell of a number fills the other, so that either may stand for both.
    jobs = judged.groupby(["identity", "variant"])["job"].agg(
        lambda j: len({frozenset(x) for x in j.dropna()})
    )
    assert jobs.max() == 1


def test_later_settings_of_a_cell_count_and_those_of_a_variant_add_up():
    raker = every()["active_table3"].cells.query("row == 'Raker' and variant == 'recovered'")
    for cell in raker.itertuples():
        assert 'algorithm.eta="50/sqrt(T)"' in cell.job and "algorithm.lam=1e-3" in cell.job
        assert ("stream.scaling=none" in cell.job) == (cell.dataset == "naval_decay")
    gf = every()["arxiv_v1_table1"].cells.query("row == 'OMKL-GF' and metric == 'mse_e3'")
    written, released = gf.itertuples()
    assert "algorithm.freeze=1000000" in written.job and "algorithm.freeze=302" in released.job
    assert released.algorithm == "as_released/gf_icml" and not released.changes_data


@pytest.mark.slow
def test_every_job_composes():
    jobs = {job for table in every().values() for job in table.jobs}
    typed = {job[0] for job in jobs}
    for name in ("as_released/sfg_r", "as_released/gf_icml", "recovered/sfg_mkl"):
        assert f"algorithm={name}" in typed
    seen = set()
    for job in jobs:
        told = {job[1], (job[0], *job[2:])}  # a data set is composed once, and so is all else
        if not told <= seen:
            seen |= told
            assert compose(list(job)).seeds in (1, 5, 20, 50)


def test_a_variant_may_be_measured_in_another_way():
    """Regret of the clients: as written above (11), found by search above ridge in hindsight."""
    cells = every()["pof_table3"].cells.query("row == 'vM-KOFL' and column == 'Naval'")
    written, searched = cells.itertuples()
    assert written.measured == "mean_client_regret"
    assert searched.measured == "mean_client_ridge_regret" and "regret.lam=2e-6" in searched.job
    regret = {who: {"mean": 1.0 + k, "std": 0.1, "spread": 3.0 + k}
              for k, who in enumerate(("clients", "clients_ridge"))}  # fmt: skip
    run = Run.in_memory(Path("x"), result={"regret": regret})
    measured = {name: metric.measure(run)[0]
                for name, metric in tables.METRICS.items() if "client" in name}  # fmt: skip
    assert list(measured.values()) == [1.0, 3.0, 2.0, 4.0]


# --- our numbers ----------------------------------------------------------------------------------


def run_of(mse, std=None, n_seeds=20, **result):
    content = {
        "status": "complete", "mse_mean": mse, "mse_std": std, "seeds": list(range(n_seeds)),
        "seconds_per_seed": [0.01, 0.02] * (n_seeds // 2) or [0.01], **result,
    }  # fmt: skip
    return Run.in_memory(Path("outputs/runs/x/y"), result=content)


def failed():
    error = {"type": "ValueError", "message": "M is larger than N"}
    return Run.in_memory(Path("x"), result={"status": "failed", "error": error})


@pytest.fixture
def filled():
    """Table 3 of the JMLR paper, whose runs all have 25.73 ± 0.5 and 15 ms; M = 5 failed."""
    table = every()["jmlr_table3"]
    runs = {job: run_of(0.02573, 0.0005) for job in table.jobs}
    runs |= {job: failed() for job in table.jobs if "algorithm.M=5" in job}
    return table, results.fill(table, runs)


def test_cells_have_our_numbers_differences_and_run_times(filled):
    _, cells = filled
    chosen = cells[(cells["row"] == "Airfoil") & (cells["variant"] == tables.WRITTEN)]
    by_metric = {m: group.set_index("column") for m, group in chosen.groupby("metric")}
    ten = by_metric["mse_e3"].loc["M = 10"]
    assert (ten["published"], ten["ours"], ten["std"]) == (25.73, 25.73, 0.5)
    assert ten["verdict"] == "reproduced" and ten["difference"] == pytest.approx(0.0, abs=1e-9)
    assert by_metric["mse_e3"].loc["M = 1", "verdict"] == "differs"
    assert by_metric["mse_e3"].loc["M = 5", "reason"] == "ValueError: M is larger than N"
    timed = by_metric["runtime_s"].loc["M = 10"]
    assert timed["verdict"] == "timed" and timed["ours"] == pytest.approx(0.015)
    assert timed["ratio"] == pytest.approx(2.56 / 0.015)


def test_a_table_in_markdown(filled):
    text = "\n\n".join(pages.table_parts(*filled))
    assert "| Airfoil | published | 49.53 | 24.95 | 25.73 |" in text
    assert (
        "| 25.73 ± 0.50<br>−48.1 %, differs | failed | 25.73 ± 0.50<br>0.0 %, reproduced |" in text
    )
    assert "authors' code: " in text and "failed: Airfoil, M = 5: ValueError" in text
    times = "\n\n".join(pages.table_parts(*filled, judged=False))
    assert "0.015 ± 0.005<br>171 × faster" in times


def test_a_number_that_stands_in_two_tables_counts_once(filled):
    _, third = filled
    first = every()["jmlr_table1"]
    runs = {job: run_of(0.02573, 0.0005) for job in first.jobs}
    both = results.counts(pd.concat([results.fill(first, runs), third], ignore_index=True))
    alone = results.counts(third)
    assert both.loc["as written"].sum() == 28 + 20 - 4 and alone.loc["as written"].sum() == 20
    assert alone.loc["as written", "failed"] == 4


def cells_of(*lines):
    """Rows (row, column, published, as written, as released, whether that has other data)."""
    found = []
    for row, column, published, *ours in lines:
        common = {"table": "t", "row": row, "column": column, "metric": "mse_e3"}
        common |= {"published": published, "judged": True, "changes_data": False}
        found.append(common | {"variant": "algorithm", "ours": ours[0]})
        if len(ours) > 1:
            found.append(common | {"variant": "released", "ours": ours[1], "changes_data": ours[2]})
    cells = pd.DataFrame(found)
    return cells.assign(difference=cells["ours"] - cells["published"])


def test_a_claim_holds_where_the_first_has_less_than_the_best_of_the_others():
    cells = cells_of(
        ("new", "a", 8.0, 9.0, 12.0, False), ("new", "b", 5.0, 5.0, 4.0, True),
        ("old", "a", 10.0, 10.0), ("old", "b", 4.0, 10.0),
        ("other", "a", 20.0, 12.0), ("other", "b", 4.0, 20.0),
    )  # fmt: skip
    claim = {"text": "new is lower", "tables": ["t"], "lower": "new", "than": ["old", "other"]}
    found = results.effects(claim, cells)
    assert {what: list(percents) for what, percents in found.items()} == {
        "published": pytest.approx([-20, 25]),
        "as written": pytest.approx([-10, -50]),
        "authors' code": pytest.approx([20]),  # on b it had other rows than the others
    }
    along = {"text": "", "tables": ["t"], "lower": "a", "than": ["b"], "along": "columns"}
    assert results.effects(along, cells)["published"] == pytest.approx([60, 150, 400])
    known = {"tables": ["t"], "rows": ["new"], "columns": ["b"]}
    assert results.distances(known, cells).to_dict() == {"as written": 0.0, "authors' code": 1.0}


def test_the_verdict_on_a_claim_is_of_the_stated_settings_first():
    def verdict(**held):
        by_variant = {what.replace("_", " "): np.array(each) for what, each in held.items()}
        return pages.claim_verdict({"published": np.array([True, True]), **by_variant})

    assert verdict(as_written=[True, True], found_by_search=[True, False]) == "holds"
    assert verdict(as_written=[True, False], found_by_search=[True, True]) == "only found by search"
    assert verdict(as_written=[False, False], found_by_search=[True, False]) == "in part"
    assert verdict(as_written=[False, False]) == "does not hold"
    assert verdict() == "not run"


def test_a_number_of_ours_has_the_mark_of_its_verdict():
    cells = cells_of(("a", "x", 10.0, 10.1), ("b", "x", 10.0, 11.0), ("c", "x", 10.0, 20.0))
    cells = cells.assign(shown="as written", verdict=["reproduced", "close", "differs"])
    cells.loc[2, "ours"] = np.nan
    cells.loc[2, "verdict"] = "no data"
    lines = pages._stacked(cells).splitlines()[2:]
    label = "published<br>as&nbsp;written"
    assert lines == [
        f"| a | {label} | 10.00<br>**10.10** |",
        f"| b | {label} | 10.00<br>*11.00* |",
        f"| c | {label} | 10.00<br>– |",
    ]


def test_what_the_papers_claim_is_in_their_tables():
    """No misspelt row or column: every claim compares published numbers."""
    cells = pd.concat([table.cells for table in every().values()]).assign(ours=np.nan)
    for paper in pages.papers():
        assert 4 <= len(paper["claims"]) <= 6
        for claim in paper["claims"]:
            assert set(claim["tables"]) <= set(every())
            along = "column" if claim.get("along") == "columns" else "row"
            shown = cells[cells["table"].isin(claim["tables"])].groupby(along)["published"].count()
            assert {claim["lower"], *claim["than"]} <= set(shown.index), claim
            if all(shown[[claim["lower"], *claim["than"]]]):
                assert len(results.effects(claim, cells)["published"]), claim
        for known in paper["known"]:
            for name in known["tables"]:
                assert set(known.get("rows", ())) <= set(every()[name].rows), known
                assert set(known.get("columns", ())) <= set(every()[name].columns), known
