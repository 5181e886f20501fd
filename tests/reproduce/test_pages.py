"""The pages from invented runs of every job, and every table run in miniature."""

import re
from pathlib import Path

import numpy as np
import pytest
from reproduce import __main__ as command
from reproduce import pages, results, tables

from omkl.datasets import catalogue
from omkl.datasets.base import DataError
from omkl.report.naming import markdown_text
from omkl.runs.run_folder import Run, find
from tests import compositions
from tests.compositions import mapping


def invented(job):
    """A finished run of a job, held in memory."""
    config = mapping([text for text in job if not text.startswith("stream.limit")])
    algorithm = dict(config["algorithm"])
    rng, n, t = np.random.default_rng(abs(hash(job)) % 2**32), config["seeds"], np.arange(1, 201)
    params = {k: v for k, v in algorithm.items() if k not in ("name", "module")}
    regret = {
        name: {"label": name, "mean": 9.0, "std": 1.0, "spread": 2.0, "kernels": ["gaussian 1"] * n}
        for name in ("ridge_features", "clients", "clients_ridge")
    }
    result = {
        "status": "complete", "algorithm": algorithm["name"], "dataset": config["dataset"]["name"],
        "params": params, "seeds": list(range(n)), "mse": [0.01] * n, "kernels": "", "key": "k",
        "mse_mean": rng.uniform(0.003, 0.05), "error_rate_mean": 0.1, "error_rate_std": 0.01,
        "mse_std": 1e-4 if n > 1 else None, "al_efficiency": rng.uniform(0.2, 1.0),
        "al_efficiency_std": 0.01, "seconds_per_seed": [0.01] * n, "seconds": 1.0, "regret": regret,
        "baselines": {name: {"mse": 0.01} for name in ("mean", "last", "ridge")},
        "n_rounds": 200, "n_inputs": 5, "n_kernels": 60, "D": config["D"] or 50, "max_norm": 1.0,
        "max_squared_error": 0.7, "max_kernel_squared_error": 0.8, "kernels_per_round": 60.0,
        "labels_of_classes": ["a", "b", "c"],  # no theorem is about three
        "commit": "abc1234", "started": "2026-01-01", "machine": {"cores": 2}, "versions": {"o": 1},
    }  # fmt: skip
    curves = {
        "t": t, "mse": np.full((n, 200), result["mse_mean"]), "labels": np.tile(t, (n, 1)),
        "regret_ridge_features": np.tile(np.sqrt(t), (n, 1)),
        "kernel_family": np.array(["gaussian"] * 60), "kernel_bandwidth": np.logspace(-2, 2, 60),
    }  # fmt: skip
    if config["federation"]["name"] != "none":
        scheme = config["federation"].get("scheme", config["federation"]["name"])
        result["federated"] = {"n_clients": 4, "scheme": scheme, "rounds": 200, "least_rounds": 200}
        curves |= {
            "regret_clients": np.tile(np.sqrt(t), (n, 1)),
            "client_regret": rng.random((n, 4)),
        }
    return Run.in_memory(Path("x"), result=result, curves=curves, config=config)


@pytest.mark.slow(4)
def test_pages_of_every_paper(tmp_path):
    every = [tables.load(name) for name in tables.names()]
    runs = {job: invented(job) for table in every for job in table.jobs}
    (tmp_path / "errata.md").touch()
    written = pages.write(every, runs, tmp_path / "page")
    assert all(path.stat().st_size for path in written)

    texts = {path.name: path.read_text("utf-8") for path in written if path.suffix == ".md"}
    assert len(texts) == 2 + 2 * 4
    assert "not evaluated: the theorems are about two classes" in texts["omkc.md"]
    pictures = {path.name for path in written if path.suffix == ".png"}
    shown = [name for text in texts.values() for name in re.findall(r"\]\((\S+\.png)\)", text)]
    assert set(shown) == pictures and len(pictures) == 21
    for text in texts.values():  # every link leads to a page
        for link in re.findall(r"\]\((?!http)(\S+?\.(?:md|csv))\)", text):
            assert (tmp_path / "page" / link).exists(), link
    readme = texts["README.md"]
    assert "264 different numbers besides run times. 64 of them are in two tables" in readme
    assert 'make table TABLE="jmlr_table1 jmlr_table2' in texts["jmlr.md"]
    assert texts["jmlr.md"].count("<details") == texts["jmlr.md"].count("</details>") == 4
    cells = texts["jmlr_cells.md"]
    assert "tables 1, 2, 3, 4, 5: " in cells and "20 seeds, mean ± std" in cells
    assert (
        cells.index("## Figures")
        < cells.index("## Theory and")
        < cells.index("## Learners without")
    )
    assert "theorem 2 is unproved" in cells
    # Rows of an earlier table are left out, and tables of one column become one.
    assert texts["federated.md"].count("<details") == 2 and "| OFSKL |" in texts["federated.md"]
    assert "arXiv v1, tables 1 to 4 (MSE × 10⁻³)</summary>" in texts["arxiv_v1.md"]
    assert texts["active.md"].count("| OMKL-AKS |") == 1  # its AL_eff holds by definition


@pytest.mark.slow(2)
def test_without_data_nothing_is_judged_and_a_download_is_tried_once(tmp_path, monkeypatch, capsys):
    tried = []

    def nowhere(entry):
        tried.append(entry["file"])
        raise DataError(f"{entry['file']} is not here, and downloads are off")

    monkeypatch.setattr(results.catalogue, "obtain", nowhere)
    monkeypatch.setattr(results, "Composer", lambda: compositions.composer)
    every = [tables.load(name) for name in tables.names()]
    runs = results.run_jobs(every, tmp_path)
    assert len(tried) == len(set(tried)) and not any(run.complete for run in runs.values())
    told = capsys.readouterr().out
    assert told.count("no data: naval/data.txt is not here") == 1
    written = pages.write(every, runs, tmp_path / "page")
    texts = {path.name: path.read_text("utf-8") for path in written if path.suffix == ".md"}
    for paper in pages.papers():
        page = texts[f"{paper['file']}.md"]
        assert "Not run. " in page and paper["verdict"].split(".")[0] not in page
        assert "| does not hold |" not in page and "| holds |" not in page
        assert markdown_text(paper["why_not"]) not in texts["README.md"]
    assert texts["README.md"].count("| not run |") == 4


# --- every table in miniature ---------------------------------------------------------------------

SMALL = ("stream.limit=30", "D=4", "seeds=1")
FEDERATION = ("federation=iid", "clients=2", "federation.rounds=10")


def here(dataset):
    entry = catalogue.entry(dataset)
    return "file" not in entry or catalogue.locate(entry["file"]) is not None


def small_job(job):
    """The job with few rows; synthetic rows stand in where its data are not found."""
    by_key = {text.lstrip("+").partition("=")[0]: text for text in job}
    gone = {"federation", "clients"}
    if not here(by_key["dataset"].partition("=")[2]):
        by_key["dataset"] = "dataset=synthetic"
        by_key = {k: v for k, v in by_key.items() if not k.startswith("dataset.")}
    more = (*SMALL, *(FEDERATION if "federation" in by_key else ()))
    kept = {k: v for k, v in by_key.items() if k.partition(".")[0] not in gone}
    return tuple((kept | {text.partition("=")[0]: text for text in more}).values())


def small_table(table):
    """One cell with all its variants, and one run of its sweeps."""
    cells = table.cells[table.cells["algorithm"].notna()]
    of_cell = cells.groupby(["row", "column", "metric"], sort=False)
    sizes = of_cell["variant"].transform("size") + cells["dataset"].map(here)
    first = cells.loc[sizes.idxmax()]
    same = (cells[["row", "column", "metric"]] == first[["row", "column", "metric"]]).all(axis=1)
    cells = cells[same].reset_index(drop=True)
    swept = [small_job(job) for job in table.swept[:1]]
    return table._replace(cells=cells.assign(job=cells["job"].map(small_job)), swept=swept)


@pytest.mark.slow(8)
def test_every_table_in_miniature(tmp_path, monkeypatch, capsys):
    whole = {name: tables.load(name) for name in tables.names()}
    monkeypatch.setattr(tables, "load", lambda name: small_table(whole[name]))
    monkeypatch.setenv("OMKL_THREADS", "1")
    assert command.main(["run", *whole, "--outputs", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "failed" not in told
    assert all(run.complete for run in find(tmp_path))
    for name, table in whole.items():
        assert table.title in (tmp_path / "tables" / f"{name}.md").read_text("utf-8")
        assert (tmp_path / "tables" / f"{name}.csv").stat().st_size
    assert command.main(["theorems", "--outputs", str(tmp_path)]) == 0
    assert "OMKL-SFG" in capsys.readouterr().out or results.NO_DATA in told


def test_a_table_that_is_not_there_is_named(capsys):
    assert command.main(["run", "no_such_table"]) == 2
    assert "there is no table no_such_table; there are: jmlr_table1" in capsys.readouterr().err
