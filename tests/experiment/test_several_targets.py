"""Runs with several targets or horizons: each is learned as in a run of its own, to the bit."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import omkl
from omkl.commands import predict
from omkl.core.learner import Learner
from omkl.core.representations.blocked import LOCAL_FEATURES
from omkl.datasets import read
from omkl.experiment import evaluate
from omkl.experiment.regression import RegressionMetrics
from omkl.experiment.several_targets import OF_EACH
from omkl.report import console, style, sweep_figures, sweep_table
from omkl.runs.run_folder import ALIKE, Run
from tests.conftest import read_csv

SMALL = {"kernels": "gaussian17", "D": 4, "figures": False, "tracking": "none"}
TARGETS = ["north", "east"]


def wind(n: int = 300) -> pd.DataFrame:
    """Two inputs and two targets in units of their own, of which some are missing."""
    rng = np.random.default_rng(0)
    heat, town = rng.normal(size=n).round(3), rng.choice(["Oslo", "Rome"], size=n)
    rows = pd.DataFrame({"heat": heat, "town": town})
    rows["north"] = (50.0 + np.sin(heat) + 0.1 * rng.normal(size=n)).round(3)
    rows["east"] = (300.0 * heat**2 * (town == "Rome")).round(3)
    rows.loc[rng.random(n) < 0.1, "heat"] = np.nan
    rows.loc[np.arange(n) % 7 == 3, "east"] = np.nan
    return rows


@pytest.fixture
def file(tmp_path: Path) -> Path:
    wind().to_csv(tmp_path / "wind.csv", index=False)
    return tmp_path / "wind.csv"


def run(file: Path, *what: str, **more: object) -> omkl.Results:
    made = {"target": TARGETS, "outputs": str(file.parent / "out"), **SMALL}
    return omkl.run(*what, str(file), **(made | more))


def with_gaps(file: Path) -> Path:
    """Rows of which some have one target, some both and the last none."""
    rows = wind(400)
    rows["east"] = (300.0 * rows.heat.fillna(0.0) ** 2).round(3)
    rows.loc[(np.arange(400) % 5 == 1) & (np.arange(400) > 320), "north"] = np.nan
    rows.loc[np.arange(100, 120), "east"] = np.nan
    rows.loc[390:, TARGETS] = np.nan
    rows.to_csv(file, index=False)
    return file


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("raker", {"seeds": 3, "threads": 2, "D": 20, "interval": 0.8}),
        ("raker", {"stream": {"lags": 1, "horizon": 2}, "D": 20}),
        ("ie_gp", {"seeds": 2, "interval": 0.9, "block": 150}),
        ("krls", {"stream": {"scaling": "none"}}),
        ("sfg_r", {"seeds": 2, "interval": 0.8}),
        ("auto", {"interval": 0.9}),
    ],
)
def test_targets_in_one_pass_have_the_numbers_of_runs_of_their_own(
    file: Path, name: str, settings: dict
) -> None:
    together = run(with_gaps(file), name, **settings)
    result, curves = Run(together.folder).result, Run(together.folder).curves
    assert "jobs_in_pass" not in result
    for k, target in enumerate(TARGETS):
        alone = run(file, name, target=target, exclude=TARGETS[1 - k], **settings)
        own = Run(alone.folder)
        assert result["targets"][target] == {n: own.result[n] for n in OF_EACH if n in own.result}
        for n, curve in own.curves.items():
            np.testing.assert_array_equal(curves[n if n in ALIKE else f"targets.{k}.{n}"], curve)


def test_features_of_a_row_are_evaluated_once_for_all_targets(file: Path, monkeypatch) -> None:
    """Each learner gets blocks of rows whose features, and steps, all of them have had already."""
    learned, run_rows = [], Learner.run_rows

    def counted(self, X, *given) -> None:
        if self.representation is LOCAL_FEATURES:  # baselines are not
            learned.append((len(X), int(self.selection.scratch.place[1])))
        run_rows(self, X, *given)

    monkeypatch.setattr(Learner, "run_rows", counted)
    rows = wind(320)
    rows.fillna({"east": 1.0}).to_csv(file, index=False)
    run(file, "raker", D=20, threads=1)
    assert all(n == together for n, together in learned)
    assert sum(n for n, _ in learned) == 2 * (8 + 320)  # 8 of them to warm up


def test_targets_of_one_horizon_go_in_one_pass_as_far_as_memory_goes(
    file: Path, monkeypatch
) -> None:
    settings = {"stream": {"horizon": [0, 2]}, "outputs": str(file.parent / "one")}
    passes, go = [], evaluate.Pass.run
    monkeypatch.setattr(
        evaluate.Pass, "run", lambda self, *how: passes.append(len(self.jobs)) or go(self, *how)
    )
    found = run(file, "gf", **settings)
    assert passes == [2, 2]
    monkeypatch.setattr(evaluate, "n_in_one_pass", lambda job: 1)
    again = run(file, "gf", **settings | {"outputs": str(file.parent / "two")})
    assert passes == [2, 2, 1, 1, 1, 1] and again["targets"] == found["targets"]


def test_a_target_that_fails_is_named_and_ends_the_run(file: Path, monkeypatch) -> None:
    add, streamed = RegressionMetrics.add, []

    def failing(self, block, *given) -> None:
        streamed.append(self.job.stream.target)
        add(self, block, *given)
        if self.job.stream.target == "east" and len(streamed) > 2:
            raise FloatingPointError("no number")

    monkeypatch.setattr(RegressionMetrics, "add", failing)
    with pytest.raises(RuntimeError, match="target east: no number"):
        run(file, "ridge", block=50)
    assert streamed == 2 * TARGETS


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("gf", {"stream": {"lags": 2}, "interval": 0.8}),
        ("raker", {"stream": {"horizon": 3}, "seeds": 2, "predictions": True}),
        ("ridge", {"stream": {"scaling": "whole"}}),
        ("ridge", {"stream": {"order": "shuffled"}}),
    ],
)
def test_each_target_is_as_in_a_run_of_its_own(file: Path, name: str, settings: dict) -> None:
    together = run(file, name, **settings)
    said = together.predictions
    for target in TARGETS:
        other = next(one for one in TARGETS if one != target)
        alone = run(file, name, target=target, exclude=other, **settings)
        own = together["targets"][target]
        for key in ("mse", "rmse", "r2", "n_rounds", "mse_over", "baselines", "regret"):
            assert own[key] == alone[key], key
        if "interval" in settings:
            assert own["interval"] == alone["interval"]
        expected = alone.predictions.drop(columns="asked")
        found = said.rename(columns={f"{c}({target})": c for c in expected})
        pd.testing.assert_frame_equal(found[list(expected)], expected)
    of_each = together["targets"].values()
    assert together["rmse"] == pytest.approx(np.mean([one["rmse"] for one in of_each]))
    mse = np.mean([one["mse"] for one in of_each], axis=0)
    assert together["mse"] == pytest.approx(mse)
    last = [one["baselines"]["last"]["rmse"] for one in of_each]
    assert together["baselines"]["last"]["rmse"] == pytest.approx(np.mean(last))


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("gf", {"stream": {"lags": 2}, "interval": 0.8}),
        ("krls", {"stream": {"delay": 2}, "seeds": 2, "predictions": True}),
    ],
)
def test_each_horizon_is_as_in_a_run_of_its_own(file: Path, name: str, settings: dict) -> None:
    own, horizons = dict(settings, target="north", exclude="east"), [5, 0, 1]
    stream = own.pop("stream")
    together = run(file, name, stream=stream | {"horizon": horizons}, **own)
    said, names = together.predictions, ["north 5 later", "north", "north 1 later"]
    assert list(together["targets"]) == names
    assert together["stream"]["horizon"] == horizons and together["stream"]["target"] == "north"
    for h, of_it in zip(horizons, names, strict=True):
        alone = run(file, name, stream=stream | {"horizon": h}, **own)
        one = together["targets"][of_it]
        assert (one["column"], one["horizon"]) == ("north", h)
        for key in ("mse", "rmse", "r2", "n_rounds", "rows_without_target", "baselines", "regret"):
            assert one[key] == alone[key], key
        expected = alone.predictions.drop(columns="asked")
        found = said.rename(columns={f"{c}({of_it})": c for c in expected})
        pd.testing.assert_frame_equal(found[list(expected)], expected)
        curve = Run(together.folder).curves[f"targets.{names.index(of_it)}.mse"]
        np.testing.assert_array_equal(curve, Run(alone.folder).curves["mse"])


def test_horizons_of_several_targets_are_drawn_and_printed(file: Path) -> None:
    found = run(file, "ridge", stream={"horizon": [1, 6, 24]}, figures=True)
    assert list(found["targets"])[2:4] == ["north 24 later", "east 1 later"]
    panels = found.plots()["horizons"].axes
    assert [axes.get_ylabel() for axes in panels] == ["RMSE, north", "RMSE, east"]
    t, errors = panels[0].lines[0].get_data()
    rmse = [found["targets"][f"north {h} later"]["rmse"] for h in (1, 6, 24)]
    assert list(t) == [1, 6, 24] and list(errors) == rmse
    text = io.StringIO()
    console.print_run(Run(found.folder), Console(file=text, width=100))
    (line,) = (one for one in text.getvalue().splitlines() if "  east 24 later " in one)
    assert f"RMSE {found['targets']['east 24 later']['rmse']:.4g} " in line


@pytest.mark.parametrize(("name", "lags"), [("gf", 2), ("raker", 0), ("ie_gp", 0)])
def test_the_model_that_is_kept_is_a_learner_of_several_outputs(
    file: Path, tmp_path: Path, name: str, lags: int
) -> None:
    settings = {"stream": {"lags": lags}, "interval": 0.8, "seed": 3}
    found = run(file, name, model=True, inputs=["heat"], **settings)
    rows, made = wind()[["heat"]], {"kernels": "gaussian17", "D": 4, "interval": 0.8}
    learner = omkl.learner(name, inputs=["heat"], outputs=TARGETS, lags=lags, seed=3, **made)
    learner.partial_fit(rows, wind()[TARGETS])
    kept = omkl.load_learner(found.model)
    for said in (lambda one: one.predict(rows), lambda one: one.predict_interval(rows)):
        np.testing.assert_array_equal(said(kept), said(learner))
    more = rows[:50], wind()[TARGETS][:50]
    np.testing.assert_array_equal(kept.partial_fit(*more).y_hat, learner.partial_fit(*more).y_hat)
    assert predict.main([str(found.folder), str(file), "-o", str(tmp_path / "said.csv")]) == 0
    written = read_csv(tmp_path / "said.csv")[[f"y_hat({name})" for name in TARGETS]]
    np.testing.assert_array_equal(written, omkl.load_learner(found.model).predict(rows))


def test_a_list_with_a_horizon_of_0_lets_nothing_come_late(file: Path) -> None:
    settings = {"target": "north", "exclude": "east", "model": True}
    kept, alone = (
        omkl.load_learner(run(file, "ridge", stream={"horizon": h}, **settings).model)
        for h in ([0], 0)
    )
    rows = wind()[["heat", "town"]]
    np.testing.assert_array_equal(kept.predict(rows)[:, 0], alone.predict(rows))


@pytest.mark.parametrize("order", ["file", "shuffled"])
def test_rows_are_read_once_for_all_targets(file: Path, order: str, monkeypatch) -> None:
    passes, frames = [], read.frames
    monkeypatch.setattr(read, "frames", lambda *given: passes.append(order) or frames(*given))
    run(file, "ridge", stream={"order": order})
    assert len(passes) == 2, "the first rows when it is opened, and then all of them"


def test_rows_are_dropped_for_all_targets_alike(file: Path) -> None:
    found = run(file, "ridge", missing="drop")
    rows = wind().dropna()
    assert found.predictions.row.tolist() == (rows.index + 1).tolist()
    assert found["n_rounds"] == len(rows)


def test_the_table_has_a_row_for_each_target(file: Path) -> None:
    found = run(file, "gf", seeds=2, figures=True)
    text = io.StringIO()
    console.print_run(Run(found.folder), Console(file=text, width=100))
    lines = text.getvalue().splitlines()
    for target in TARGETS:
        own = found["targets"][target]
        (line,) = (n for n, line in enumerate(lines) if line.split()[:1] == [target])
        assert f"RMSE {own['rmse']:.4g}" in lines[line]
        assert f"running mean {own['baselines']['mean']['rmse']:.4g}" in lines[line + 1]
    assert "43 rows without a target" in text.getvalue()
    plots = found.plots()
    assert {"mse", "weights"} <= set(plots)
    assert "weights (mean of 2 targets)" in plots["weights"].get_suptitle()
    assert "RMSE" in repr(found) and "last target" in found._repr_html_()
    sweep_table.print_sweep(sweep_table.sweep_table([Run(found.folder)]), [], Console(file=text))
    assert "MSE: the mean over north, east, each in its own unit" in text.getvalue()


def test_targets_with_the_same_warning_share_a_line(file: Path) -> None:
    rows = wind()[["heat"]].fillna(0.0)
    rows.assign(a=rows.heat, b=7.0 * rows.heat, last=np.arange(300.0)).to_csv(file, index=False)
    found = run(file, "raker", target=["a", "b", "last"])
    text = io.StringIO()
    console.print_run(Run(found.folder), Console(file=text, width=200))
    warnings = [line for line in text.getvalue().splitlines() if line.startswith("Warning: Raker")]
    assert warnings == [
        "Warning: Raker is worse here than the linear ridge for a, b.",
        "Warning: Raker is worse here than the last target and the linear ridge for last.",
    ]


def test_importance_is_the_mean_over_the_targets(tmp_path: Path) -> None:
    wind(1200).to_csv(tmp_path / "wind.csv", index=False)
    found = run(tmp_path / "wind.csv", "auto", figures=True)
    curves = Run(found.folder).curves
    n = len(curves["weights_t"])
    assert curves["weights_t"].tolist() == curves["targets.1.weights_t"][:n].tolist()
    of_each = [curves[f"targets.{k}.importance_over_time"][:n] for k in (0, 1)]
    np.testing.assert_array_equal(curves["importance_over_time"], np.mean(of_each, axis=0))
    assert "inputs (mean of 2 targets), first" in found.plots()["importance"].axes[0].get_title()


def test_each_target_has_a_panel_with_its_own_rounds_and_baselines(file: Path) -> None:
    found = run(file, "raker", seeds=2)
    panels = found.plots()["mse"].axes
    assert [axes.get_title() for axes in panels] == TARGETS
    for axes, target in zip(panels, TARGETS, strict=True):
        own = found["targets"][target]
        lines = {line.get_label(): line.get_data() for line in axes.get_lines()}
        t, values = lines["Raker"]
        assert t[-1] == own["n_rounds"] and values[-1] == pytest.approx(np.mean(own["mse"]))
        for name, label in (("mean", "running mean"), ("ridge", "linear ridge")):
            assert lines[label][1][-1] == pytest.approx(own["baselines"][name]["mse"])
    assert "(mean of 2 targets), mean" in found.plot().get_title(), "axes of somebody else"


def test_of_many_targets_six_have_a_panel_and_the_others_are_counted(file: Path) -> None:
    rows = wind()[["heat", "north"]]
    names = [f"y{k}" for k in range(8)]
    rows.assign(**{name: rows.north for name in names}).to_csv(file, index=False)
    mse = run(file, "ridge", target=names, exclude="north").plots()["mse"]
    assert [axes.get_title() for axes in mse.axes] == names[:6]
    assert mse.get_suptitle().endswith("\n6 of 8 targets, 2 more not drawn")


@pytest.mark.parametrize("blank", [False, True])
def test_windows_are_drawn_where_the_targets_have_the_same_rounds(file: Path, blank: bool) -> None:
    rows = wind() if blank else wind().fillna({"east": 1.0})
    rows.to_csv(file, index=False)
    found = run(file, "gf", stream={"horizon": 2})
    assert ("over_time" in found.plots()) is not blank
    alone = run(file, "gf", target=["east"], exclude="north").plots()
    assert "over_time" in alone and "mean of" not in alone["over_time"].get_suptitle()


def test_the_share_of_rows_of_a_kernel_is_the_mean_over_the_targets(file: Path) -> None:
    assert "usage" not in run(file, "raker").plots(), "all kernels in all rows"
    found = run(file, "sfg_r", seeds=2)
    curves = Run(found.folder).curves
    rounds = [one["n_rounds"] for one in found["targets"].values()]
    assert rounds == [300, 257]
    usage = found.plots()["usage"]
    assert "evaluated per row (mean of 2 targets)" in usage.get_suptitle()
    drawn = [np.asarray(axes.containers[0].lines[0].get_ydata()) for axes in usage.axes]
    shares = [curves[f"targets.{k}.usage"].mean(axis=0) / n for k, n in enumerate(rounds)]
    assert np.concatenate(drawn) == pytest.approx(np.mean(shares, axis=0))
    assert np.concatenate(drawn).sum() == pytest.approx(found["kernels_per_round"])


def test_figures_of_a_sweep_say_that_errors_are_means_over_targets(file: Path, monkeypatch) -> None:
    titles: list[str] = []
    monkeypatch.setattr(
        style, "save", lambda figure, *_: titles.append(figure.get_suptitle()) or []
    )
    runs = [Run(run(file, name).folder) for name in ("raker", "gf")]
    sweep_figures.all_figures(runs, file.parent)
    mean = "mean squared error (mean of 2 targets), 1 seed"
    assert titles == [f"Running {mean}", f"Final {mean}"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target": ["north", "noth"]}, r"no column 'noth'. Did you mean 'north'"),
        ({"target": ["north", 3]}, r"dataset.target=\['north', 3\] names a column twice"),
        ({"inputs": ["heat", "east"]}, "the target 'east' is also named in dataset.inputs"),
        ({"exclude": "east"}, "dataset.exclude names the target 'east'"),
        ({"algorithm": "amkl"}, "amkl requests some of the targets of a row with one"),
        ({"task": "classification", "algorithm": "auto_classifier"}, "a classification has one"),
        ({"key": "town"}, "the learner of a key .* has one"),
        ({"federation": "iid", "clients": 2, "algorithm": "pof_mkl"}, "clients .* learn one"),
        ({"model": True, "stream": {"delay": 1}}, "wait for their targets"),
        ({"stream": {"follow": True}}, "reads a file that grows, once for each target"),
        ({"target": "north", "stream": {"horizon": [1, 1]}}, "none of them twice"),
        (
            {"target": "north", "stream": {"horizon": [1, 2]}, "model": True},
            r"stream.horizon=\[1, 2\] names 2 horizons, and model=true keeps no rows",
        ),
        (
            {"target": "town", "stream": {"horizon": [1, 2]}, "algorithm": "auto_classifier"}
            | {"task": "classification"},
            "names 2 horizons, and a classification has one",
        ),
        ({"model": True, "seeds": 2}, "model=true keeps the learner of one seed"),
    ],
)
def test_what_cannot_be_is_said(file: Path, settings: dict, message: str) -> None:
    with pytest.raises((RuntimeError, ValueError), match=message):
        run(file, **settings)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("town", "The column holds words, and several targets are numbers: take it out of"),
        ("day", "The column holds dates, and several targets are numbers: take it out of"),
        ("far", "row 2, column 'far' has 'no' where a number should be. Correct the file; several"),
    ],
)
def test_a_target_that_holds_no_numbers_is_named(file: Path, column: str, message: str) -> None:
    days = pd.date_range("2024-01-01", periods=300).strftime("%Y-%m-%d")
    rows = wind().assign(day=days, far=["1", "no", *["2"] * 298])
    rows[["heat", "north", column]].to_csv(file, index=False)
    with pytest.raises((RuntimeError, ValueError), match=message):
        run(file, "ridge", target=["north", column])


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("mean", "the target 'east' has no value in 300 rows"),
        ("drop", "column 'east' has no value at all, so dataset.missing=drop leaves no row"),
    ],
)
def test_a_target_without_a_value_is_named(file: Path, missing: str, message: str) -> None:
    wind().assign(east=np.nan).to_csv(file, index=False)
    with pytest.raises((RuntimeError, ValueError), match=message):
        run(file, "ridge", missing=missing)


def test_a_run_does_not_go_on_with_several_targets(file: Path) -> None:
    found = run(file, "gf", model=True)
    with pytest.raises((RuntimeError, ValueError), match="go on with its outputs from Python"):
        omkl.run(str(file), resume=str(found.folder), outputs=str(file.parent / "out"))


def test_a_column_that_is_called_as_a_horizon_of_another_is_refused(file: Path) -> None:
    wind().rename(columns={"east": "north 1 later"}).to_csv(file, index=False)
    targets = ["north", "north 1 later"]
    with pytest.raises((RuntimeError, ValueError), match="two targets would be called 'north 1"):
        run(file, "ridge", target=targets, stream={"horizon": [0, 1]})


def test_a_stream_and_an_entry_of_the_catalogue_have_one_target(file: Path) -> None:
    with pytest.raises(ValueError, match="a stream has one target"):
        omkl.open_stream(file, TARGETS)
    with pytest.raises(RuntimeError, match="several targets are for files of yours"):
        omkl.run("ridge", "airfoil", target=["frequency", "sound_pressure"], **SMALL)
