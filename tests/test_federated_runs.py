"""Federated runs as a user types them: who gets which rows, results, what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from omkl import runner
from omkl.datasets import DataError, catalogue, download
from omkl.federated import job as federated_job
from omkl.federated.split import by_column, by_site, deal
from omkl.report import figures, tables
from omkl.reproduce import configuration


def outcome_of(tmp_path, *overrides):
    quiet = ["tracking=none", "figures=false", f"outputs={tmp_path}", "seeds=3"]
    return runner.run(configuration([*overrides, "kernels=gaussian17", *quiet]))


SYNTHETIC = ("dataset=synthetic", "dataset.rows=400", "federation=iid", "clients=5")


def test_every_row_goes_to_one_client():
    rng = np.random.default_rng(0)
    rows = deal(100, 7, 14, rng)
    assert rows.shape == (14, 7) and len(np.unique(rows)) == 98
    np.testing.assert_array_equal(deal(6, 2, 3, None), [[0, 1], [2, 3], [4, 5]])
    with pytest.raises(ValueError, match="7 clients with 15 rounds each need 105 rows, there are"):
        deal(100, 7, 15, rng)


def test_clients_are_at_home_at_a_site():
    """Appendix C in small: 35 rows of one's own site, 5 of each of the other three."""
    sites = np.repeat(["a", "b", "c", "d"], 300)
    rows = by_site(sites, 24, 35, 5, np.random.default_rng(0))
    assert rows.shape == (50, 24) and len(np.unique(rows)) == 1200
    for k in range(24):
        names, counts = np.unique(sites[rows[:, k]], return_counts=True)
        assert dict(zip(names, counts, strict=True))["abcd"[k % 4]] == 35
        assert sorted(counts) == [5, 5, 5, 35]
    with pytest.raises(ValueError, match="need 350 rows of site a, there are 300"):
        by_site(sites, 28, 35, 5, np.random.default_rng(0))


def test_clients_by_column():
    labels = np.array(["x", "y", "x", "x", "y", "y"], dtype=object)
    rows, clients = by_column(labels, None)
    assert clients == ["x", "y"]
    np.testing.assert_array_equal(rows, [[0, 1], [2, 4], [3, 5]])
    with pytest.raises(ValueError, match=r"client x has 3 rows, federation\.rounds=4"):
        by_column(labels, 4)


def test_a_run(tmp_path):
    run = outcome_of(tmp_path, "algorithm=pof_mkl", "algorithm.M=3", *SYNTHETIC).run
    result, curves = run.result, run.curves
    assert result["status"] == "complete", result
    assert (result["n_rounds"], result["D"], result["n_kernels"]) == (80, 100, 17)
    told = result["federated"]
    assert (told["rounds"], told["rows"], told["n_clients"]) == (80, 400, 5)
    assert told["up"]["most_numbers_a_round"] == 600 <= told["max_upload"] == 1000
    sent = curves["client_sent"]  # 5 bins of 3 and one of 2, drawn alike
    assert sent.shape == (3, 5, 2) and np.all(sent[..., 0] == 200 * sent[..., 1])
    assert told["up"]["bytes"] == pytest.approx(8 * sent.sum(axis=2).mean())
    assert told["down"]["numbers"] == 80 * 17 * 200
    assert told["bytes_of_all"] == pytest.approx(5 * (told["up"]["bytes"] + told["down"]["bytes"]))
    assert result["mse_mean"] == pytest.approx(curves["client_mse"].mean())
    np.testing.assert_allclose(curves["mse"][:, -1], curves["client_mse"].mean(axis=1))
    regret = result["regret"]["clients"]
    assert regret["mean"] == pytest.approx(curves["client_regret"].mean())
    assert regret["spread"] == pytest.approx(curves["client_regret"].std(axis=1, ddof=1).mean())
    np.testing.assert_allclose(
        curves["regret_clients"][:, -1], curves["client_regret"].mean(axis=1)
    )
    assert np.all(curves["client_regret"] <= regret["bound"])
    assert {p.stem for p in figures.all_figures(run)} == {"mse", "regret", "weights", "clients"}
    (row,) = tables.sweep_table([run])
    assert row["regret"] == regret["mean"]
    again = outcome_of(tmp_path, "algorithm=pof_mkl", "algorithm.M=3", *SYNTHETIC)
    assert again.status == "reused"


def test_own_data_with_a_column_of_clients(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=90), "who": np.tile(["ann", "bob", "cid"], 30)})
    frame["y"] = np.sin(frame["a"])
    frame.loc[4, "a"] = np.nan  # a row of bob
    for name in ("own.csv", "own.parquet"):
        path = tmp_path / name
        frame.to_csv(path, index=False) if name.endswith("csv") else frame.to_parquet(path)
        own = ["dataset=file", f"dataset.path={path}", "dataset.target=y", "dataset.missing=drop"]
        own += ["federation=column", "dataset.client_column=who", "algorithm=vm_kofl"]
        job = federated_job.prepare(configuration([*own, "kernels=gaussian17"]))
        assert job.split.clients == ["ann", "bob", "cid"] and job.split.X.shape == (29, 3, 1)
        kept = frame.dropna()
        scaled = (kept["y"] - kept["y"].min()) / (kept["y"].max() - kept["y"].min())
        np.testing.assert_allclose(job.split.y[:, 1], scaled[kept["who"] == "bob"][:29])
        assert outcome_of(tmp_path, *own).run.result["n_rounds"] == 29


def test_rows_of_nobody(tmp_path):
    """A blank in the column of clients is a missing value."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60), "who": np.tile(["ann", "bob", "cid"], 20)})
    frame["y"] = np.sin(frame["a"])
    frame.loc[[7, 40], "who"] = None  # bob's
    for name in ("own.csv", "own.parquet"):
        path = tmp_path / name
        frame.to_csv(path, index=False) if name.endswith("csv") else frame.to_parquet(path)
        own = ["dataset=file", f"dataset.path={path}", "dataset.target=y", "algorithm=vm_kofl"]
        own += ["federation=column", "dataset.client_column=who", "kernels=gaussian17"]
        for missing in ("error", "mean"):
            with pytest.raises(DataError, match=rf"{name}: row 8, column 'who' .*missing=drop"):
                federated_job.prepare(configuration([*own, f"dataset.missing={missing}"]))
        job = federated_job.prepare(configuration([*own, "dataset.missing=drop"]))
        assert job.split.clients == ["ann", "bob", "cid"] and job.split.X.shape == (18, 3, 1)
        kept = frame.dropna()
        scaled = (kept["y"] - kept["y"].min()) / (kept["y"].max() - kept["y"].min())
        np.testing.assert_allclose(job.split.y[:, 1], scaled[kept["who"] == "bob"])
        job = federated_job.prepare(configuration([*own, "stream.limit=6"]))  # before the blank
        assert job.split.clients == ["ann", "bob", "cid"]


def test_more_rounds_than_sites_give(tmp_path):
    frame = pd.DataFrame({"a": np.arange(40.0), "site": ["x", "y"] * 20, "y": np.arange(40.0)})
    frame.to_csv(tmp_path / "own.csv", index=False)
    own = ["dataset=file", f"dataset.path={tmp_path / 'own.csv'}", "dataset.target=y", "clients=4"]
    own += ["+dataset.sites=site", "federation=by_site", "federation.home=3", "federation.away=1"]
    own += ["kernels=gaussian17", "algorithm=pof_mkl"]
    assert federated_job.prepare(configuration(own)).split.y.shape == (4, 4)
    assert federated_job.prepare(configuration([*own, "federation.rounds=3"])).split.y.shape == (
        3,
        4,
    )
    with pytest.raises(ValueError, match=r"federation.rounds=5: .* give each client 4 rows"):
        federated_job.prepare(configuration([*own, "federation.rounds=5"]))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("algorithm=pof_mkl",), "pof_mkl learns in a federation: add federation=iid"),
        (("algorithm=raker", *SYNTHETIC), "raker does not learn in a federation"),
        (("algorithm=pof_mkl", "federation=iid"), "how many clients"),
        (("algorithm=pof_mkl", *SYNTHETIC, "clients=0"), "clients=0 is not a whole number"),
        (("algorithm=pof_mkl", *SYNTHETIC, "algorithm.M=17", "D=50"), "would send 1700 numbers"),
        (("algorithm=pof_mkl", *SYNTHETIC, "max_upload=1"), "sends at least 2 numbers"),
        (("algorithm=pof_mkl", "federation=by_site"), "dataset.sites"),
        (("algorithm=pof_mkl", "federation=column", "dataset=file"), "dataset.client_column=NAME"),
        (("algorithm=pof_mkl", *SYNTHETIC, "stream.scaling=running"), "scaling=whole or none"),
        (("algorithm=pof_mkl", *SYNTHETIC, "federation.rounds=90"), "need 450 rows"),
        (("algorithm=pof_mkl", *SYNTHETIC, "precision=float32"), "computes in float64"),
        (("algorithm=pof_mkl", *SYNTHETIC, "task=classification"), "none in a federation"),
        (("algorithm=perfedavg", *SYNTHETIC, "max_upload=5"), "already has 8 parameters"),
        (("algorithm=raker", "clients=3"), "clients=3 is for a federation"),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path, overrides, message):
    outcome = outcome_of(tmp_path, *overrides)
    assert outcome.status == "failed"
    error = outcome.run.result["error"]
    assert message in error["message"] and error["traceback"] is None


def test_data_that_are_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(download, "data_folders", lambda: (tmp_path,))
    with pytest.raises(DataError, match=r"(?s)wec: .* was not found\..*Download the zip"):
        catalogue.open_with_column(
            catalogue.entry("wec"), {"limit": None, "scaling": "whole", "order": "file"}, "site"
        )


def test_the_sites_of_wave_energy_converters(tmp_path, monkeypatch):
    """The loader on a zip of the right form: four files without a header, the site their name."""
    import zipfile

    monkeypatch.setattr(download, "data_folders", lambda: (tmp_path,))
    entry = catalogue.entry("wec") | {"rows": None, "prepare": {}}
    entry["members"] = dict.fromkeys(entry["members"])
    (tmp_path / "wec").mkdir()
    with zipfile.ZipFile(tmp_path / entry["file"], "w") as archive:
        for number, name in enumerate(entry["members"]):
            lines = [",".join(str(number + column) for column in range(49))] * 3
            archive.writestr(f"WECs_DataSet/{name}", "\n".join(lines) + "\n")
    options = {"limit": None, "scaling": "none", "order": "file"}
    stream, sites = catalogue.open_with_column(entry, options, "site")
    X, y = next(stream.blocks(100))
    assert X.shape == (12, 48) and y.tolist() == [48.0] * 3 + [49.0] * 3 + [50.0] * 3 + [51.0] * 3
    assert list(dict.fromkeys(sites)) == [
        "Adelaide_Data",
        "Perth_Data",
        "Sydney_Data",
        "Tasmania_Data",
    ]
    entry["members"]["Perth_Data.csv"] = "git:" + 40 * "0"
    with pytest.raises(DataError, match=r"Perth_Data.csv .* is not the file it should be"):
        catalogue.open_with_column(entry, options, "site")
