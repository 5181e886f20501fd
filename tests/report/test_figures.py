"""Figures of one run and of several, from invented run folders."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from omkl.report import figures, naming, style, sweep_figures
from omkl.report.stats import windowed
from omkl.runs.run_folder import Run
from tests.conftest import change, configure


def check_drawn(paths: list[Path], *names: str) -> None:
    from PIL import Image

    assert [path.name for path in paths] == [f"{name}.png" for name in names]
    for path in paths:
        with Image.open(path) as image:
            assert image.info["dpi"][0] == pytest.approx(150, abs=0.1)
            width, height = image.size
            pixels = np.asarray(image.convert("L"), dtype=float)
        assert 900 < width < 2000 and 400 < height < 1500 and pixels.std() > 10
        # nothing touches the edge: no text is cut off
        frame = (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1])
        assert all(side.min() > 250 for side in frame)


# --- one run --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("n_rounds", "n_seeds"), [(1, 3), (400, 1), (9000, 3)])
def test_figures_of_a_run(run_folder_maker, tmp_path, n_rounds, n_seeds):
    run = Run(run_folder_maker(tmp_path, n_rounds=n_rounds, n_seeds=n_seeds))
    over_time = ["over_time"] if n_rounds > 1 else []  # of which there are two windows
    paths = figures.all_figures(run, tmp_path / "f")
    check_drawn(paths, "mse", *over_time, "regret", "weights")
    assert not list((tmp_path / "f").glob(".*"))


@pytest.mark.slow
def test_figures_of_odd_runs(run_folder_maker, tmp_path):
    """Concentrated weights, one kernel in a family, change points, zero error, long names."""
    folder = run_folder_maker(tmp_path, "an_algorithm_of_$many$_words", "data_set_" * 6)
    weights = np.full((3, 76), 1e-12)
    weights[:, 5] = 1
    families = np.array(["cauchy"] * 75 + ["gaussian"])
    arrays = {"weights": weights, "kernel_family": families, "mse": np.zeros((3, 400))}
    run = change(folder, arrays | {"change_rounds": np.array([100, 300])})
    paths = figures.all_figures(run, tmp_path / "f")
    check_drawn(paths, "mse", "over_time", "regret", "weights")


def test_mse_draws_the_mean_the_band_and_the_changes(run_folder_maker, tmp_path):
    folder = run_folder_maker(tmp_path, n_rounds=9000)
    run = change(folder, {"change_rounds": np.array([4000])})
    figure = figures.error(run)
    (axes,) = figure.axes
    line, *dashed = axes.get_lines()
    t, values = line.get_data()
    assert len(t) <= style.N_DRAWN and t[-1] == 9000
    assert values == pytest.approx(run.curves["mse"].mean(axis=0)[t - 1])
    assert [d.get_xdata()[0] for d in dashed] == [4000]
    assert axes.get_yscale() == "log" and axes.get_title().startswith("Raker on airfoil")
    assert axes.get_title().endswith("mean ± std over 3 seeds")
    (legend,) = figure.legends  # below the panel, where it lies on no data
    assert [text.get_text() for text in legend.get_texts()] == ["Raker", "the stream changes"]


def test_what_a_run_does_not_have_is_not_drawn(run_folder_maker, tmp_path):
    folder = run_folder_maker(tmp_path)
    skipped = {"kernel_ridge": {"label": "kernel ridge", "skipped": "too long"}}
    run = change(folder, regret=skipped)
    for draw in (figures.regret, figures.coverage, figures.experts, figures.graph):
        assert draw(run) is None
    with pytest.raises(ValueError, match="is failed"):
        figures.all_figures(Run(run_folder_maker(tmp_path, "gf", failed=True)), tmp_path)


def test_windowed_errors_are_those_of_their_rounds(run_folder_maker, tmp_path):
    run = Run(run_folder_maker(tmp_path, n_rounds=400))
    windows = windowed(run)
    n = len(windows.edges) - 1
    assert n > 3 and windows.edges.tolist() == [400 // n * k for k in range(n + 1)]
    squared = np.diff(run.curves["mse"] * run.curves["t"], axis=1, prepend=0.0)
    expected = squared.reshape(3, n, 400 // n).mean(axis=2)
    np.testing.assert_allclose(windows.loss, expected, rtol=1e-9)
    scored = np.maximum(np.arange(1, 401) // 2, 1)
    outside = {"mse": run.curves["mse"] * run.curves["t"] / scored}
    change(run.folder, outside | {"scored": scored})
    windows = windowed(Run(run.folder))
    np.testing.assert_allclose(windows.loss, 2 * expected, rtol=1e-9)


def test_weights_over_time_are_a_map_of_kernels_with_the_change(run_folder_maker, tmp_path):
    weights = np.random.default_rng(0).dirichlet(np.ones(76), size=4)
    folder = run_folder_maker(tmp_path)
    arrays = {"weights_t": np.array([128, 256, 384, 400]), "weights_over_time": weights}
    figure = figures.over_time(change(folder, arrays | {"change_rounds": np.array([200])}))
    above, below, _ = figure.axes
    (mesh,) = below.collections
    assert mesh.get_array().shape == (76, 4)
    first = Run(folder).curves["kernel_family"].tolist()[0]
    top = Run(folder).curves["kernel_family"].tolist()[::-1].index(first)  # its widest kernel
    np.testing.assert_array_equal(mesh.get_array()[-1], weights[:, 75 - top])
    for axes in (above, below):
        (line,) = [x for x in axes.get_lines() if x.get_label() == style.CHANGES]
        assert line.get_xdata()[0] == 200 and line.get_color() == style.CHANGE_COLOUR
    families = {"kernel_family": np.repeat(["polynomial", "gaussian"], 38)}
    below = figures.over_time(change(folder, families)).axes[1]
    assert below.get_ylabel() == "bandwidth or degree"
    named = [(text.get_text(), text.xy[1]) for text in below.texts]
    assert named == [("gaussian", 38), ("polynomial", 76)], "the first one is on top"


def test_importance_over_time_is_a_map_of_inputs(run_folder_maker, tmp_path):
    names = [f"x{k}" for k in range(15)] + ["past targets"]
    shares = np.random.default_rng(0).dirichlet(np.arange(1.0, 17.0), size=4)
    shares[0] = np.nan  # not known yet
    arrays = {"weights_t": np.array([128, 256, 384, 400]), "importance_over_time": shares}
    figure = figures.importance(change(run_folder_maker(tmp_path), arrays | {"input_names": names}))
    axes = figure.axes[0]
    ((_, *largest),) = [[text.get_text() for text in axes.get_yticklabels()]]
    order = np.argsort(shares[1:].sum(axis=0))
    assert largest == [names[k] for k in order[-12:]]
    (mesh,) = axes.collections
    lines = np.ma.filled(mesh.get_array(), np.nan)
    np.testing.assert_array_equal(lines[1:], shares[:, order[-12:]].T)
    np.testing.assert_allclose(lines[0], shares[:, order[:-12]].sum(axis=1))
    assert axes.get_title().endswith("importance of inputs, first known at row 256")


def test_weights_are_drawn_of_a_family_of_a_module_outside(run_folder_maker, tmp_path):
    """What reads a run does not know the family, and the run's configuration does."""
    folder = run_folder_maker(tmp_path, "raker")
    family = Run(folder).curves["kernel_family"]
    change(folder, {"kernel_family": np.where(family == "laplacian", "ricker", family)})
    assert figures.weights(Run(folder)) is None
    run = configure(folder, kernels={"parts": [{"family": "gaussian"}, {"family": "ricker"}]})
    assert figures.weights(run).axes
    assert figures.experts(Run(folder)) is None


def test_coverage_is_drawn_around_its_level_with_a_binomial_band(run_folder_maker, tmp_path):
    shares = [None, *[0.9] * 8, 1.0]
    interval = {"level": 0.9, "windows": {"until": [*range(40, 401, 40)], "coverage": shares}}
    (axes,) = figures.coverage(change(run_folder_maker(tmp_path), interval=interval)).axes
    level, line = axes.get_lines()
    assert axes.get_ylim() == (80.0, 100.5) and level.get_ydata()[0] == 90.0
    assert line.get_ydata()[1:] == pytest.approx([90.0] * 8 + [100.0])
    (band,) = axes.patches
    assert band.get_data().baseline.min() == pytest.approx(90.0 - 200.0 * (0.9 * 0.1 / 40) ** 0.5)


def test_experts_are_sorted_and_those_without_weight_counted(run_folder_maker, tmp_path):
    names = np.array(["mean", "last target", "trees", "linear"])
    arrays = {"kernel_family": names, "kernel_bandwidth": np.ones(4)}
    arrays["weights"] = np.array([[0.001, 0.2, 0.799, 0.0]])
    figure = figures.experts(change(run_folder_maker(tmp_path), arrays))
    (axes,) = figure.axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["trees", "last target"]
    assert axes.get_title().endswith("2 more together 0.1 %")


def test_rows_in_random_order_have_no_line_through_them(run_folder_maker, tmp_path):
    recent = {f"recent_{name}": np.arange(1.0, 9.0) for name in ("t", "y", "y_hat", "spread")}
    kept = []
    for order in ("file", "shuffled"):
        run = change(run_folder_maker(tmp_path / order), recent)
        kept.append(figures.predictions(configure(run.folder, stream={"order": order})))
    (line, shuffled) = (figure.axes[0].get_lines()[0] for figure in kept)
    assert (line.get_linestyle(), shuffled.get_linestyle()) == ("-", "None")


# --- several runs ---------------------------------------------------------------------------------


def test_figures_of_a_sweep(sweep, tmp_path):
    paths = sweep_figures.all_figures(sweep, tmp_path / "c")
    check_drawn(paths, "comparison", "regret", "error_by_algorithm")
    runs = [run for run in sweep if run.complete]
    axes = sweep_figures.chosen_figure(runs, "t", "regret").axes
    lines = [line for one in axes for line in one.get_lines() if len(line.get_xdata()) > 2]
    for run, line in zip(runs, lines, strict=True):
        last = run.curves["regret_ridge_features"][:, -1].mean()
        assert line.get_ydata()[-1] == pytest.approx(last)


def test_errors_of_algorithms_and_the_share_of_targets_requested(run_folder_maker, tmp_path):
    """The pair that the paper on active learning plots, where some targets are not requested."""
    runs = [
        change(
            run_folder_maker(tmp_path, "amkl", key=f"{n}", level=0.02 + n, params={"eta_c": n}),
            al_efficiency=0.2 * n,
        )
        for n in (2, 1, 3)
    ]
    (draw,) = sweep_figures.panels_of(runs, "al_efficiency").values()
    axes = Figure().add_subplot()
    draw(axes)
    x, y = axes.containers[0].lines[0].get_data()
    assert x.tolist() == pytest.approx([0.2, 0.4, 0.6])
    assert y.tolist() == [runs[n].result["mse_mean"] for n in (1, 0, 2)]
    names = {path.stem for path in sweep_figures.all_figures(runs, tmp_path)}
    assert names == {"comparison", "regret", "error_by_eta_c", "error_by_al_efficiency"}


def test_labels_name_what_varies_and_tell_all_runs_apart(sweep, run_folder_maker, tmp_path):
    def legend(*runs):
        return list(map(str, naming.legend(runs)))

    assert legend(*sweep[:3]) == ["Raker", "OMKL-GF, M=5", "OMKL-GF, M=10"]
    assert legend(*sweep[:2], sweep[3]) == ["Raker", "OMKL-GF", "Raker"]
    again = Run(run_folder_maker(tmp_path, "raker", "airfoil", "11111111", n_seeds=2))
    assert legend(sweep[0], again) == ["Raker, key=00000000", "Raker, key=11111111"]
    assert legend(sweep[0], configure(again.folder, D=100)) == ["Raker, D=50", "Raker, D=100"]


def test_the_error_is_drawn_against_each_number_that_was_swept(run_folder_maker, tmp_path):
    runs = [
        Run(
            run_folder_maker(
                tmp_path, "gf", key=f"{M}{n}", level=0.01 * M, params={"M": M, "eta": e}
            )
        )
        for M in (8, 2, 4)
        for n, e in enumerate(("1", "1/t"))
    ]
    names = {path.stem for path in sweep_figures.all_figures(runs, tmp_path)}
    assert names == {"comparison", "regret", "error_by_M"}, (
        "eta has two values, which are no numbers"
    )
    (axes,) = sweep_figures.chosen_figure(runs, "algorithm.M").axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("M", "MSE")
    lines = axes.get_legend_handles_labels()
    assert lines[1] == ["OMKL-GF, eta=1", "OMKL-GF, eta=1/t"]
    for line, at in zip(lines[0], (0, 1), strict=True):
        x, y = line.lines[0].get_data()
        assert x.tolist() == [2, 4, 8]
        assert y.tolist() == [runs[k].result["mse_mean"] for k in (2 + at, 4 + at, at)]
    with pytest.raises(ValueError, match=r"there is no y=second\. Did you mean seconds"):
        sweep_figures.panels_of(runs, "M", "second")


def test_rows_of_a_file_with_dates_have_dates_at_their_axis(run_folder_maker, tmp_path):
    days = 19_723.0 + np.arange(400)  # from 2024-01-01 on
    (axes,) = figures.error(change(run_folder_maker(tmp_path), {"time": days})).axes
    texts = dict(
        zip(axes.get_xticks(), [t.get_text() for t in axes.get_xticklabels()], strict=True)
    )
    assert texts[1] == "2024" and texts[367] == "2025", "the year has 366 days"
    assert (
        axes.get_xlabel() == "2024-01-01 to 2025-02-03"
        and axes.get_lines()[0].get_xdata()[-1] == 400
    )


@pytest.mark.slow
def test_no_window_system_and_tables_without_matplotlib(run_folder_maker, tmp_path):
    code = """if True:
        import sys
        import omkl.report.sweep_table
        assert "matplotlib" not in sys.modules
        import matplotlib
        from omkl.report import figures
        before = matplotlib.rcParams.copy()
        list(figures.figures_of(figures.Run(sys.argv[1])))
        assert matplotlib.rcParams.copy() == before
        assert "matplotlib.pyplot" not in sys.modules
    """
    folder = run_folder_maker(tmp_path)
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)
