"""``omkl.run``, ``omkl.sweep`` and ``omkl.load_runs`` as one types them in a notebook."""

import matplotlib
import matplotlib.figure
import numpy as np
import pandas as pd
import pytest

import omkl
from omkl.runs.run_folder import Run

QUICK = {"kernels": "gaussian17", "D": 4, "seeds": 1}


@pytest.fixture
def frame(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"area": rng.normal(size=120), "town": rng.choice(["a", "b"], 120)})
    frame["price"] = 10.0 + 3.0 * frame["area"] + 5.0 * (frame["town"] == "a")
    return frame


def test_a_frame_a_file_and_a_name_are_data_sets(frame):
    run = omkl.run("auto", frame, target="price", **QUICK)
    frame.to_csv("my.csv", index=False)
    of_file = omkl.run("auto", "my.csv", target="price", **QUICK)
    assert run["rmse"] == of_file["rmse"] == omkl.run("my.csv", target="price", **QUICK)["rmse"]
    assert [c["column"] for c in run["stream"]["columns"]] == ["area", "town"]
    assert omkl.run("raker", "airfoil", **QUICK)["n_rounds"] == 1503


def test_a_run_is_found_finished_whatever_form_its_settings_have(frame):
    nested = omkl.run("auto", frame, target="price", stream={"lags": 2}, **QUICK)
    before = nested.folder.joinpath("result.json").stat().st_mtime_ns
    dotted = omkl.run("auto", frame, target="price", **{"stream.lags": 2}, **QUICK)
    text = omkl.run("algorithm=auto", frame, "stream.lags=2", target="price", **QUICK)
    assert nested.folder == dotted.folder == text.folder
    assert nested.folder.joinpath("result.json").stat().st_mtime_ns == before
    assert len(list(nested.folder.parents[2].glob("frames/*/*.parquet"))) == 1


def test_frames_of_many_kinds_are_kept(frame):
    n = len(frame)
    hard = frame.assign(
        day=pd.date_range("2024-01-01", periods=n, tz="Europe/Oslo"),
        mixed=[1 if k % 3 == 0 else "x" for k in range(n)],
        category=pd.Categorical(["u", "v", "w"] * (n // 3)),
        span=pd.to_timedelta(np.arange(n) % 7, unit="h"),
        whole=pd.array([None, 3] * (n // 2), dtype="Int64"),
        month=pd.period_range("2024-01", periods=n, freq="M"),
    ).set_index(pd.date_range("2024-01-01", periods=n))
    run = omkl.run(hard, target="price", **QUICK)
    kinds = {c["column"]: c["as"] for c in run["stream"]["columns"]}
    assert kinds["index"] == kinds["day"] == kinds["month"] == "date"
    assert kinds["span"] == kinds["whole"] == "numbers"
    assert kinds["mixed"] == kinds["category"] == "categories"


@pytest.mark.parametrize(
    ("what", "settings", "words"),
    [
        (("gf", "airfoil", "naval"), {}, "an algorithm and a data set are the two"),
        (("gf", [[1.0]]), {}, r"pandas\.DataFrame\(X\)"),
        (("gf", "airfoil"), {"algorithm": "raker"}, "the algorithm is given twice"),
        (("gf", "airfol"), {}, r"no dataset=airfol\. Did you mean airfoil\?"),
        (("gf", "airfoil"), {"eta": 0.1}, r"no eta\. Did you mean algorithm\.eta\?"),
        (("gf", pd.DataFrame([[1, 2]], columns=["a", "a"])), {}, "both called 'a'"),
    ],
)
def test_what_cannot_be_run_is_named(frame, what, settings, words):
    with pytest.raises(ValueError, match=words):
        omkl.run(*what, **settings)


def test_a_run_shows_its_numbers_and_draws_its_plots(frame):
    run = omkl.run("auto", frame, target="price", **QUICK)
    assert f"RMSE {run['rmse']:.4g}, 120 rows" in repr(run)
    assert (
        "linear ridge (baseline)" in run._repr_html_() and f"{run['rmse']:.4g}" in run._repr_html_()
    )
    axes = matplotlib.figure.Figure().add_subplot()
    assert run.plot("mse", ax=axes) is axes and axes.lines
    assert run.plot().get_xlabel() == "row t"
    assert run.plot("predictions", ax=axes) is axes
    with pytest.raises(ValueError, match=r"no plot 'rmse'.*there are: mse, "):
        run.plot("rmse")
    with pytest.raises(ValueError, match=r"over_time has several panels: run\.plots\(\)"):
        run.plot("over_time")
    plots = run.plots()
    assert {"mse", "over_time", "predictions"} <= set(plots)
    assert plots._repr_html_().count("data:image/png;base64,") == len(plots)
    assert not list(run.folder.glob("*.png"))
    classes = frame.assign(price=np.where(frame["price"] > 10, "dear", "cheap"))
    of_classes = omkl.run(classes, target="price", task="classification", **QUICK)
    assert "error rate" in repr(of_classes) and " %" in of_classes._repr_html_()
    assert of_classes.plot("error_rate").get_ylabel() == "error rate of rows 1..t"


def test_a_sweep_is_a_frame_of_runs_and_finds_finished_ones(frame):
    settings = {**QUICK, "D": [3, 4], "seeds": 2}
    sweep = omkl.sweep(["raker", "gf"], frame, target="price", **settings)
    assert isinstance(sweep, pd.DataFrame) and len(sweep) == len(sweep.runs) == 4
    assert sweep["algorithm"].tolist() == ["raker"] * 2 + ["gf"] * 2
    assert sweep["D"].tolist() == [3, 4, 3, 4] and set(sweep["n_seeds"]) == {2}
    assert sweep["mse"].tolist() == [run["mse_mean"] for run in sweep.runs]
    results = [Run(run.folder).checksums for run in sweep.runs]
    again = omkl.sweep(["raker", "gf"], frame, target="price", **settings)
    assert [Run(run.folder).checksums for run in again.runs] == results
    assert sweep.plot().lines and type(sweep[sweep["D"] == 3]) is pd.DataFrame
    assert "(linear ridge)" in sweep.table()["algorithm"].tolist()
    with_m = omkl.sweep(["raker", "gf"], frame, "algorithm.M=2,3", target="price", **QUICK)
    assert with_m["algorithm"].tolist() == ["raker", "gf", "gf"]


def test_a_sweep_takes_lists_of_kernels_as_a_run_does(frame):
    settings = {"target": "price", "D": 4, "seeds": 1}
    for kernels in (
        [0.1, 1.0],
        ["gaussian", "laplacian"],
        [{"family": "gaussian", "bandwidth": 2}],
    ):
        (one,) = omkl.sweep("raker", frame, kernels=[kernels], **settings)["mse"]
        assert one == omkl.run("raker", frame, kernels=kernels, **settings)["mse_mean"]
    assert len(omkl.sweep("raker", frame, kernels=[[0.1], [0.1, 1.0]], **settings)) == 2
    assert len(omkl.sweep("raker", frame, kernels=["gaussian17", "rbf9"], **settings)) == 2
    with pytest.raises(ValueError, match="in a sweep a list of names or a list of lists"):
        omkl.sweep("raker", frame, kernels=["gaussian17", [0.1]], **settings)


@pytest.mark.slow(2)
def test_a_sweep_in_processes_gives_the_same_numbers(frame):
    settings = {**QUICK, "target": "price"}
    here = omkl.sweep(["raker", "mean"], frame, outputs="here", **settings)
    there = omkl.sweep(["raker", "mean"], frame, outputs="there", n_jobs=2, **settings)
    assert here["mse"].tolist() == there["mse"].tolist()


def test_a_run_of_a_sweep_that_fails_is_a_row(frame):
    with pytest.warns(UserWarning, match=r"raker on airfoil failed: "):
        sweep = omkl.sweep("raker", "airfoil", "algorithm.eta=1e200,0.1", **QUICK)
    assert sweep["status"].tolist() == ["failed", "complete"] and len(sweep.runs) == 1
    with pytest.raises(ValueError, match=r"D=\[\]: a sweep over no values"):
        omkl.sweep("raker", frame, target="price", D=[])


def test_runs_are_loaded_by_what_they_are(frame):
    for algorithm in ("raker", "mean"):
        omkl.run(algorithm, frame, target="price", **{**QUICK, "seeds": 2})
    runs = omkl.load_runs("outputs")
    assert runs["algorithm"].tolist() == ["mean", "raker"] and runs["folder"].is_unique
    raker = omkl.load_runs("outputs", algorithm="raker", D=4, stream={"scaling": "columns"})
    assert raker[["algorithm", "D", "n_seeds"]].values.tolist() == [["raker", 4, 2]]
    assert raker["rmse"][0] == raker.runs[0]["rmse"]
    long = omkl.load_runs("outputs", algorithm=["raker"], long=True)
    assert long["seed"].tolist() == [0, 1] and long["mse"].tolist() == raker.runs[0]["mse"]
    with pytest.raises(ValueError, match=r"no run has algorithm=gf\. There are algorithm: mean"):
        omkl.load_runs("outputs", algorithm="gf")
    with pytest.raises(ValueError, match=r"there are no runs in elsewhere/runs"):
        omkl.load_runs("elsewhere")


def test_the_data_set_of_the_package_is_a_frame_and_a_series():
    X, y = omkl.datasets.load("airfoil")
    assert X.shape == (1503, 5) and y.name == "sound_pressure" and "chord_length" in X
    arrays = omkl.datasets.load("airfoil", as_frame=False)
    np.testing.assert_array_equal(arrays[0], X.to_numpy())
    np.testing.assert_array_equal(arrays[1], y.to_numpy())
    with pytest.raises(ValueError, match=r"no data set airfol\. Did you mean airfoil\?"):
        omkl.datasets.load("airfol")


def test_values_of_python_mean_what_they_say(frame):
    """None of them passes through the text of a command line."""
    names = {"price": "größe", "area": "Fläche, m²", "town": 3}
    strange = frame.rename(columns=names)
    run = omkl.run("auto", strange, target="größe", outputs="ergebnisse_ö/${x}", **QUICK)
    assert run.folder.is_relative_to("ergebnisse_ö/${x}")
    assert run.config["dataset"]["target"] == "größe"
    strange.to_csv("ü [1].csv", index=False)
    inputs = ("Fläche, m²", 3)
    of_file = omkl.run("ridge", "ü [1].csv", target="größe", inputs=["Fläche, m²", "3"], **QUICK)
    assert (
        of_file["rmse"]
        == omkl.run("ridge", strange, target="größe", inputs=inputs, **QUICK)["rmse"]
    )
    for k, word in enumerate(("1e3", "true", "null", "${seed}", "3")):
        column = frame.rename(columns={"price": word})
        run = omkl.run("mean", column, target=word, title=word, **QUICK)
        assert run.config["dataset"]["target"] == word, k
    run = omkl.run("mean", frame.rename(columns={"price": 3, "town": 1}), target=3, **QUICK)
    assert run.config["dataset"]["target"] == "3"
    words = ["1e3", "true", "nö"]
    classes = omkl.run(
        "auto", strange.assign(kind=words * 40), target="kind", task="classification",
        labels=words, columns={"Fläche, m²": "number", 3: "skip"}, **QUICK,
    )  # fmt: skip
    assert classes.config["dataset"]["labels"] == words and classes["error_rate_mean"] < 0.1
    runs = omkl.sweep("ridge", strange, target=["größe", "Fläche, m²"], **QUICK)
    assert [run.config["dataset"]["target"] for run in runs.runs] == ["größe", "Fläche, m²"]
    with pytest.raises(ValueError, match=r"D='50' is not a whole number"):
        omkl.run("raker", "airfoil", D="50")
