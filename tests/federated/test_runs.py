"""Federated runs as a user types them: who gets which rows, results, what is refused."""

import itertools

import numpy as np
import pandas as pd
import pytest

from omkl.core.representations.random_features import draw_features, features_of
from omkl.datasets import DataError, catalogue, opening, prepare
from omkl.experiment import comparators
from omkl.experiment import run as runner
from omkl.federated.split import by_column, by_site, consecutive
from omkl.report import figures
from omkl.report.frame import frame_of, with_baselines
from omkl.report.stats import windowed
from tests.compositions import compose


def outcome_of(tmp_path, *overrides):
    quiet = ["tracking=none", "figures=false", f"outputs={tmp_path}", "seeds=3"]
    return runner.run(compose([*overrides, "kernels=gaussian17", *quiet]))


SYNTHETIC = ("dataset=synthetic", "dataset.rows=400", "federation=iid", "clients=5")


def test_the_streams_of_the_clients_are_kept_for_jobs_that_deal_the_same(tmp_path):
    file = tmp_path / "own.csv"
    pd.DataFrame({"x": np.sqrt(np.arange(40.0)), "y": np.arange(40.0) % 7}).to_csv(
        file, index=False
    )
    own = [f"dataset.path={file}", "dataset.target=y", "federation=iid", "clients=4"]

    def split(*more):
        return runner.prepare(compose(["dataset=file", *own, "algorithm=pof_mkl", *more])).split

    first = split()
    assert split("algorithm=ofskl", "D=5", "seeds=2") is first
    for other in (split("seed=1"), split("federation=in_turn"), split("clients=5")):
        assert other is not first and not np.array_equal(other.rows, first.rows)
    pd.DataFrame({"x": np.sqrt(np.arange(40.0)), "y": np.arange(40.0) % 5}).to_csv(
        file, index=False
    )
    anew = split()  # not those of the file as it was
    np.testing.assert_array_equal(anew.rows, first.rows)
    assert not np.array_equal(anew.y, first.y)


def test_a_client_gets_consecutive_rows():
    rows = consecutive(10, 3, 3)
    np.testing.assert_array_equal(rows.T, [[0, 1, 2], [3, 4, 5], [6, 7, 8]])
    np.testing.assert_array_equal(consecutive(12, 3, 2).T, [[0, 1], [4, 5], [8, 9]])
    with pytest.raises(ValueError, match="3 clients with 4 rounds each need 12 rows"):
        consecutive(10, 3, 4)
    given = ["dataset=synthetic", "dataset.rows=40", "federation=consecutive", "clients=4"]
    job = runner.prepare(compose([*given, "algorithm=pof_mkl"]))
    np.testing.assert_array_equal(job.split.rows[:, 2], np.arange(20, 30))


def test_a_federation_has_the_published_dictionary_unless_another_is_named():
    given = ["algorithm=pof_mkl", "federation=iid", "clients=2"]
    assert compose(given).kernels["name"] == "rbf51"
    assert compose([*given, "kernels=gauss13"]).kernels["name"] == "gauss13"
    assert compose(["algorithm=raker"]).kernels["name"] == "rbf51_lap25"


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
    labels = np.array(["x", "y", "x", "x", "y", "y", "y"], dtype=object)
    rows, clients = by_column(labels, None)
    assert clients == ["x", "y"]
    np.testing.assert_array_equal(rows, [[0, 1], [2, 4], [3, 5], [-1, 6]])
    np.testing.assert_array_equal(by_column(labels, 2)[0], [[0, 1], [2, 4]])
    with pytest.raises(ValueError, match=r"federation\.rounds=5: .* most rows, y, has 4"):
        by_column(labels, 5)


def table_of_three(tmp_path):
    """200, 90 and 9 rows of three clients, in turns."""
    rng = np.random.default_rng(0)
    who = rng.permutation(np.repeat(["ann", "bob", "cid"], [200, 90, 9]))
    frame = pd.DataFrame({"a": rng.normal(size=len(who)), "who": who})
    frame["y"] = np.sin(2.0 * frame["a"]) + 0.1 * rng.normal(size=len(who))
    frame.to_csv(tmp_path / "own.csv", index=False)
    own = ["dataset=file", f"dataset.path={tmp_path / 'own.csv'}", "dataset.target=y"]
    return frame, [*own, "federation=column", "dataset.client_column=who"]


@pytest.mark.parametrize("name", ["pof_mkl", "em_kofl", "perfedavg"])
def test_clients_of_unequal_length_are_served_to_their_end(tmp_path, name):
    frame, own = table_of_three(tmp_path)
    run = outcome_of(tmp_path, f"algorithm={name}", *own).run
    result, curves, sizes = run.result, run.curves, run.result["federated"]
    names = list(dict.fromkeys(frame["who"]))
    counts = frame["who"].value_counts()[names].to_numpy()
    assert result["status"] == "complete" and curves["client_name"].tolist() == names
    assert curves["client_rounds"].tolist() == counts.tolist()
    assert (sizes["rounds"], sizes["least_rounds"], sizes["rows_used"]) == (200, 9, 299)
    # Each client's error is over its own rounds, the run's is their mean, and curves are of all.
    job = runner.prepare(compose([f"algorithm={name}", *own, "kernels=gaussian17"]))
    trace = job.federation(0).partial_fit(job.split.X, job.split.y)
    there = ~np.isnan(job.split.y)
    np.testing.assert_array_equal(np.isnan(trace.y_hat), ~there)
    squared = np.where(there, np.square(trace.y_hat - job.split.y), 0.0)
    np.testing.assert_allclose(curves["client_mse"][0], squared.sum(axis=0) / counts)
    assert result["mse"][0] == pytest.approx(curves["client_mse"][0].mean())
    assert result["mse_mean"] == pytest.approx(curves["client_mse"].mean())
    assert curves["mse"][0, 49] == pytest.approx(squared[:50].sum() / there[:50].sum())
    assert curves["mse"][0, -1] == pytest.approx(squared.sum() / 299)
    # A window's error is over the rounds of those that are still there.
    windows = windowed(run)
    ends = windows.edges.tolist()
    in_window = [squared[a:b].sum() / there[a:b].sum() for a, b in itertools.pairwise(ends)]
    np.testing.assert_allclose(windows.loss[0], in_window)
    assert sizes["down"]["numbers"] == pytest.approx(
        sizes["down"]["numbers_a_round"] * counts.mean()
    )
    if name == "pof_mkl":
        np.testing.assert_allclose(curves["client_regret"][0], trace.regret[-1])
        np.testing.assert_array_equal(curves["client_sent"][0, :, 1], counts)


def test_regret_against_ridge_regression_in_hindsight(tmp_path):
    """Each client's own and the server's, from normal equations written out here."""
    lam = 0.01
    given = [
        "algorithm=vm_kofl",
        f"algorithm.lam={lam}",
        *SYNTHETIC,
        "D=4",
        f"regret.lam={lam}",
        "regret.ridge_features=true",
    ]
    run = outcome_of(tmp_path, *given).run
    job = runner.prepare(compose([*given, "kernels=gaussian17", "seeds=3"]))
    X, y = job.split.X, job.split.y
    T, K, d = X.shape
    omega = draw_features(job.dictionary, d, 4, seed=1).omega
    trace = job.federation(1).partial_fit(X, y)

    def best(inputs, targets):
        """Squared errors and loss of the kernel with the least mean of the loss."""
        found = []
        for i in range(len(job.dictionary)):
            z = features_of(omega[i], inputs)
            n = len(targets)
            theta = np.linalg.solve(z.T @ z / n + lam * np.eye(8), z.T @ targets / n)
            errors = np.square(z @ theta - targets)
            found.append((np.sum(errors + lam * theta @ theta), errors, np.linalg.norm(theta)))
        return min(found, key=lambda one: one[0])

    for k in range(K):
        own = np.square(trace.y_hat[:, k] - y[:, k]) - best(X[:, k], y[:, k])[1]
        assert run.curves["client_ridge_regret"][1, k] == pytest.approx(own.sum(), abs=1e-9)
    loss, errors, norm = best(X.reshape(-1, d), y.ravel())
    assert run.curves["regret_server"][1, -1] == pytest.approx(trace.loss[-1].sum() - loss)
    half = np.sum(errors.reshape(T, K)[:40] + lam * norm**2)
    assert run.curves["regret_server"][1, 39] == pytest.approx(trace.loss[39].sum() - half)
    regret = run.result["regret"]
    assert list(regret) == ["clients", "clients_ridge", "server"]
    assert len({entry["label"] for entry in regret.values()}) == 3
    assert regret["clients_ridge"]["mean"] == pytest.approx(
        run.curves["client_ridge_regret"].mean()
    )
    np.testing.assert_allclose(
        run.curves["regret_clients_ridge"][:, -1], run.curves["client_ridge_regret"].mean(axis=1)
    )


def test_ridge_in_hindsight_is_not_that_of_another_number_of_clients(tmp_path):
    """K x T rows dealt in turn have the same bytes for every K."""
    base = ("dataset=synthetic", "dataset.rows=40", "federation=in_turn", "algorithm=ofskl", "D=3")

    def regret(outputs, clients):
        one = outcome_of(outputs, *base, f"clients={clients}", "regret.ridge_features=true")
        return one.run.result["regret"]["clients_ridge"]["mean"]

    alone = regret(tmp_path / "alone", 4)
    assert regret(tmp_path / "both", 2) != regret(tmp_path / "both", 4) == alone


def test_ridge_in_hindsight_is_computed_on_request_only(tmp_path):
    run = outcome_of(tmp_path, "algorithm=vm_kofl", *SYNTHETIC, "D=4").run
    assert list(run.result["regret"]) == ["clients"]


def test_ridge_in_hindsight_that_cannot_be_solved_takes_nothing_away(tmp_path, monkeypatch):
    monkeypatch.setattr(comparators, "add_rows", lambda equations, z, y: equations.fill(np.inf))
    typed = ("algorithm=vm_kofl", *SYNTHETIC, "D=4", "regret.ridge_features=true")
    run = outcome_of(tmp_path, *typed).run
    assert run.result["status"] == "complete" and run.result["regret"]["clients"]["mean"] > 0.0
    for name in ("clients_ridge", "server"):
        assert run.result["regret"][name]["skipped"] == (
            "its normal equations cannot be solved in float64. Rescale the inputs and the target, "
            "or raise regret.lam"
        )


def test_a_run(tmp_path):
    typed = ("algorithm=pof_mkl", "algorithm.M=3", *SYNTHETIC, "regret.ridge_features=true")
    run = outcome_of(tmp_path, *typed).run
    result, curves = run.result, run.curves
    assert result["status"] == "complete", result
    assert (result["n_rounds"], result["D"], result["n_kernels"]) == (80, 100, 17)
    sizes = result["federated"]
    assert (sizes["rounds"], sizes["rows"], sizes["n_clients"]) == (80, 400, 5)
    assert sizes["up"]["most_numbers_a_round"] == 600 <= sizes["max_upload"] == 1000
    sent = curves["client_sent"]  # 5 bins of 3 and one of 2, drawn alike
    assert sent.shape == (3, 5, 2) and np.all(sent[..., 0] == 200 * sent[..., 1])
    assert sizes["up"]["bytes"] == pytest.approx(8 * sent.sum(axis=2).mean())
    assert sizes["down"]["numbers"] == 80 * 17 * 200
    assert sizes["bytes_of_all"] == pytest.approx(
        5 * (sizes["up"]["bytes"] + sizes["down"]["bytes"])
    )
    assert result["mse_mean"] == pytest.approx(curves["client_mse"].mean())
    np.testing.assert_allclose(curves["mse"][:, -1], curves["client_mse"].mean(axis=1))
    regret = result["regret"]["clients"]
    assert regret["mean"] == pytest.approx(curves["client_regret"].mean())
    assert regret["spread"] == pytest.approx(curves["client_regret"].std(axis=1, ddof=1).mean())
    np.testing.assert_allclose(
        curves["regret_clients"][:, -1], curves["client_regret"].mean(axis=1)
    )
    names = {"mse", "over_time", "regret", "weights", "clients"}
    assert {p.stem for p in figures.all_figures(run, tmp_path)} == names
    frame = with_baselines(frame_of([run]))
    assert set(frame["algorithm"][1:]) == {"running mean", "last target", "linear ridge"}
    assert frame["regret"][0] == regret["mean"]
    again = outcome_of(tmp_path, *typed)
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
        job = runner.prepare(compose([*own, "kernels=gaussian17"]))
        assert job.split.clients == ["ann", "bob", "cid"] and job.split.X.shape == (30, 3, 1)
        assert job.split.lengths.tolist() == [30, 29, 30] and np.isnan(job.split.y[29, 1])
        kept = frame.dropna()
        scaled = (kept["y"] - kept["y"].min()) / (kept["y"].max() - kept["y"].min())
        np.testing.assert_allclose(job.split.y[:29, 1], scaled[kept["who"] == "bob"])
        assert outcome_of(tmp_path, *own).run.result["n_rounds"] == 30


def test_a_column_of_clients_that_is_not_there(tmp_path):
    """The error names the key that was mistyped, not the target's."""
    _, own = table_of_three(tmp_path)
    wrong = r"own.csv: {}: there is no column 'hwo'. Did you mean 'who'\?"
    with pytest.raises(DataError, match=wrong.format("dataset.client_column")):
        runner.prepare(compose([*own, "algorithm=vm_kofl", "dataset.client_column=hwo"]))
    sites = ["federation=by_site", "+dataset.sites=hwo", "clients=3", "algorithm=vm_kofl"]
    with pytest.raises(DataError, match=wrong.format("dataset.sites")):
        runner.prepare(compose([*own, *sites]))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("algorithm=pof_mkl",), "pof_mkl learns in a federation: add federation=iid"),
        (("algorithm=raker", *SYNTHETIC), "raker does not learn in a federation"),
        (("algorithm=pof_mkl", "federation=iid"), "how many clients"),
        (("algorithm=pof_mkl", *SYNTHETIC, "algorithm.M=17", "D=50"), "would send 1700 numbers"),
        (("algorithm=pof_mkl", "federation=by_site"), "dataset.sites"),
        (("algorithm=pof_mkl", "federation=column", "dataset=file"), "dataset.client_column=NAME"),
        (("algorithm=pof_mkl", *SYNTHETIC, "stream.scaling=columns"), "scaling=whole or none"),
        (("algorithm=pof_mkl", *SYNTHETIC, "federation.rounds=90"), "need 450 rows"),
        (("algorithm=pof_mkl", *SYNTHETIC, "task=classification"), "none in a federation"),
        (("algorithm=perfedavg", *SYNTHETIC, "max_upload=5"), "already has 8 parameters"),
        (("algorithm=raker", "clients=3"), "clients=3 needs a federation"),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path, overrides, message):
    outcome = outcome_of(tmp_path, *overrides)
    assert outcome.status == "failed"
    error = outcome.run.result["error"]
    assert message in error["message"] and error["traceback"] is None


def test_the_sites_of_wave_energy_converters(tmp_path, monkeypatch):
    """The loader on a zip of the right form: four files without a header, the site their name."""
    import zipfile

    monkeypatch.setattr(catalogue, "data_folders", lambda: (tmp_path,))
    entry = catalogue.entry("wec") | {"rows": None, "prepare": {}}
    entry["members"] = dict.fromkeys(entry["members"])
    (tmp_path / "wec").mkdir()
    with zipfile.ZipFile(tmp_path / entry["file"], "w") as archive:
        for number, name in enumerate(entry["members"]):
            lines = [",".join(str(number + column) for column in range(49))] * 3
            archive.writestr(f"WECs_DataSet/{name}", "\n".join(lines) + "\n")
    options = {"limit": None, "scaling": "none", "order": "file"}
    stream, sites = opening.open_with_column(entry, options, "sites")
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
        opening.open_with_column(entry, options, "sites")


def test_four_of_twelve_sites():
    """The first by name, or with a negative number the last."""
    frame = pd.DataFrame({"site": np.repeat(list("dacb"), 3), "x": np.arange(12.0)})
    for n, wanted in ((2, "ab"), (-2, "dc"), (None, "dacb")):
        each = {"column": "site", "rows": 2, "values": n}
        left = prepare.prepare_rows(frame, {"rows_each": each}, "own")
        assert "".join(left["site"].unique()) == wanted and len(left) == 2 * len(wanted)
    for n in (0, 5, -5, 1.0):
        with pytest.raises(DataError, match=r"rows_each\.values=.* whole number from 1 to 4"):
            each = {"column": "site", "rows": 2, "values": n}
            prepare.prepare_rows(frame, {"rows_each": each}, "own")
