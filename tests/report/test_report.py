"""Figures and tables, from invented run folders."""

from __future__ import annotations

import csv
import itertools
import json
import subprocess
import sys
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import yaml
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console

from omkl.checks.learners import default_settings
from omkl.commands import report
from omkl.papers import figures as paper_figures
from omkl.report import figures, naming, query, stats, style, sweep_figures, sweep_table
from omkl.report.naming import expert_names
from omkl.report.stats import windowed
from omkl.report.text import readable
from omkl.runs.run_folder import Run

SETTINGS = {name: default_settings(name) for name in ("raker", "omkr", "gf", "sfg", "sfg_r")}


def change(folder: Path, arrays: dict | None = None, **result) -> Run:
    """Overwrite arrays of curves.npz and entries of result.json."""
    if arrays:
        np.savez(folder / "curves.npz", **{**Run(folder).curves, **arrays})
    if result:
        path = folder / "result.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | result))
    return Run(folder)


def check_drawn(paths: list[Path], names: list[str]) -> None:
    from PIL import Image

    assert [path.name for path in paths] == [f"{name}.png" for name in names]
    for path in paths:
        with Image.open(path) as image:
            assert image.info["dpi"][0] == pytest.approx(150, abs=0.1)
            width, height = image.size
            pixels = np.asarray(image.convert("L"), dtype=float)
        assert 900 < width < 2000
        assert 400 < height < 1500
        assert pixels.std() > 10
        # nothing touches the edge: no text is cut off
        frame = (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1])
        assert all(side.min() > 250 for side in frame)


# --- figures -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("n_rounds", [1, 400, 9000])
@pytest.mark.parametrize("n_seeds", [1, 3])
def test_figures_of_a_run(run_folder_maker, tmp_path, n_rounds, n_seeds):
    run = Run(run_folder_maker(tmp_path, n_rounds=n_rounds, n_seeds=n_seeds))
    over_time = ["over_time"] if n_rounds > 1 else []  # of which there are two windows
    names = ["mse", *over_time, "regret", "weights", "usage"]
    check_drawn(figures.all_figures(run), names)
    assert not list(run.folder.glob(".*"))


@pytest.mark.slow
def test_figures_of_odd_runs(run_folder_maker, tmp_path):
    """Concentrated weights, one kernel in a family, change points, zero error, long names."""
    folder = run_folder_maker(tmp_path, "an_algorithm_of_$many$_words", "data_set_" * 6)
    weights = np.full((3, 76), 1e-12)
    weights[:, 5] = 1
    arrays = {
        "weights": weights,
        "kernel_family": np.array(["cauchy"] * 75 + ["gaussian"]),
        "change_rounds": np.array([100, 300]),
        "mse": np.zeros((3, 400)),
    }
    run = change(folder, arrays)
    names = ["mse", "over_time", "regret", "weights", "usage"]
    check_drawn(figures.all_figures(run), names)


def test_mse_draws_the_mean_the_band_and_the_changes(run_folder_maker, tmp_path, monkeypatch):
    drawn = {}

    def keep(figure, folder, name, suffixes):
        drawn[name] = figure.axes
        return []

    monkeypatch.setattr(style, "save", keep)
    folder = run_folder_maker(tmp_path, n_rounds=9000)
    run = change(folder, {"change_rounds": np.array([4000])})
    figures.mse(run)
    (axes,) = drawn["mse"]
    line, *dashed = axes.get_lines()
    t, values = line.get_data()
    assert len(t) <= style.N_DRAWN
    assert t[-1] == 9000
    assert values == pytest.approx(run.curves["mse"].mean(axis=0)[t - 1])
    assert [d.get_xdata()[0] for d in dashed] == [4000]
    assert axes.get_yscale() == "log"
    assert axes.get_title().startswith("Raker on airfoil")
    assert [t.get_text() for t in axes.get_legend().get_texts()] == [
        "mean ± std over 3 seeds",
        "the stream changes",
    ]


@pytest.mark.parametrize(("end", "scale"), [(4.0, "log"), (-20.0, "linear")])
def test_a_regret_below_0_is_drawn_beside_its_bound(
    run_folder_maker, tmp_path, monkeypatch, end, scale
):
    kept = []
    monkeypatch.setattr(style, "save", lambda figure, *_: kept.append(figure) or [])
    t = np.arange(1, 401)
    regret = np.concatenate([np.linspace(0.1, 1.0, 50), np.linspace(1.0, end, 350)])
    folder = run_folder_maker(tmp_path, "pof_mkl", n_rounds=400)
    curves = {"regret_clients": np.tile(regret, (2, 1)), "client_regret": np.full((2, 5), end)}
    entry = {"clients": {"largest_loss": 0.9}}
    run = change(folder, curves | {"bound": 3.0 * np.sqrt(t)}, regret=entry)
    figures.clients(run)
    left = kept[0].axes[0]
    assert left.get_yscale() == scale
    low, high = left.get_ylim()
    assert low < end < high, "the whole line can be seen"


def test_no_regret_figure_without_a_comparator(run_folder_maker, tmp_path):
    skipped = {"kernel_ridge": {"label": "kernel ridge", "skipped": "too long"}}
    run = change(run_folder_maker(tmp_path), regret=skipped)
    assert figures.regret(run) == []


def test_an_incomplete_run_has_no_figures(run_folder_maker, tmp_path):
    with pytest.raises(ValueError, match="is failed"):
        figures.all_figures(Run(run_folder_maker(tmp_path, failed=True)))


@pytest.fixture
def sweep(run_folder_maker, tmp_path):
    """Four data sets, Raker and GF with two M; one failure."""
    runs = []
    for dataset in ("airfoil", "bias", "concrete", "naval"):
        runs.append(run_folder_maker(tmp_path, "raker", dataset, n_seeds=2, level=0.02))
        for M in (5, 10):
            params = {"eta": "0.1/sqrt(t)", "M": M}
            folder = run_folder_maker(tmp_path, "gf", dataset, f"{M:08d}", params=params)
            runs.append(folder)
    runs.append(
        run_folder_maker(tmp_path, "gf", "naval", "deadbeef", failed=True, params={"M": 90})
    )
    return [Run(folder) for folder in runs]


def test_comparison_and_summary(sweep, tmp_path):
    check_drawn(sweep_figures.comparison(sweep, tmp_path / "c"), ["comparison"])
    check_drawn(sweep_figures.summary(sweep, tmp_path / "c"), ["summary"])
    assert sweep_figures.comparison(sweep[-1:], tmp_path / "c") == []


def test_a_summary_says_which_rounds_count(run_folder_maker, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(style, "save", lambda figure, *_: drawn.append(figure) or [])
    run = change(run_folder_maker(tmp_path), {}, mse_over="all rounds but the first")
    sweep_figures.summary([run], tmp_path)
    assert drawn[0].axes[0].get_xlabel().endswith(" of all rounds but the first")


def test_labels_name_what_varies_and_tell_all_runs_apart(sweep, run_folder_maker, tmp_path):
    def legend(*runs):
        return list(map(str, naming.legend(runs)))

    assert legend(*sweep[:3]) == ["Raker", "OMKL-GF, M=5", "OMKL-GF, M=10"]
    assert legend(*sweep[:2], sweep[3]) == ["Raker", "OMKL-GF", "Raker"]
    again = Run(run_folder_maker(tmp_path, "raker", "airfoil", "11111111", n_seeds=2))
    assert legend(sweep[0], again) == ["Raker [00000000]", "Raker [11111111]"]
    config = again.folder / "config.yaml"
    config.write_text(config.read_text().replace("D: 50", "D: 100"))
    assert legend(sweep[0], Run(again.folder)) == ["Raker, D=50", "Raker, D=100"]


def test_the_looks_of_280_lines_differ():
    assert len({str(style.look(i)) for i in range(280)}) == 280


def test_a_colour_is_an_algorithm_and_a_dash_its_settings(sweep, run_folder_maker, tmp_path):
    legend = naming.legend(sweep[:3])
    raker, five, ten = (style.looks_of(legend)[entry] for entry in legend)
    assert raker["color"] != five["color"] == ten["color"]
    assert raker["linestyle"] == "solid" and five["linestyle"] != ten["linestyle"]
    many = [Run(run_folder_maker(tmp_path, f"learner_{i}", "wine")) for i in range(8)]
    looks = style.looks_of(naming.legend(many)).values()
    assert len({str(one) for one in looks}) == 8 and len({one["color"] for one in looks}) == 7


def test_a_figure_of_a_paper_tells_many_algorithms_apart(run_folder_maker, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(style, "save", lambda figure, *_: drawn.append(figure) or [])
    runs = [Run(run_folder_maker(tmp_path, f"learner_{i}", "wine")) for i in range(9)]
    sweep_figures.comparison(runs, tmp_path, most=9)
    (panel,) = drawn[0].axes
    lines = [line for line in panel.get_lines() if str(line.get_label()).startswith("learner")]
    looks = {(x.get_color(), x.get_linestyle(), x.get_marker()) for x in lines}
    assert len(lines) == len(looks) == 9


def test_from_eight_curves_on_an_algorithm_has_a_panel(run_folder_maker, tmp_path, monkeypatch):
    """The others are pale there; fewer share one panel."""
    runs = [Run(run_folder_maker(tmp_path, "raker", level=0.05))]
    for M in range(2, 9):
        folder = run_folder_maker(tmp_path, "gf", key=f"{M:08d}", params={"M": M})
        runs.append(Run(folder))
    drawn = []
    monkeypatch.setattr(style, "save", lambda figure, *_: drawn.append(figure) or [])
    sweep_figures.comparison(runs, tmp_path)
    sweep_figures.comparison(runs[:7], tmp_path)
    small, one = drawn
    pale = [[line.get_label() for line in axes.get_lines()].count("the other runs")
            for axes in small.axes]  # fmt: skip
    assert [axes.get_title() for axes in small.axes] == ["Raker", "OMKL-GF", "OMKL-GF"]
    assert pale == [7, 3, 6]
    limits = {axes.get_ylim() for axes in small.axes}
    assert len(limits) == 1 and len(one.axes) == 1
    texts = [text.get_text() for text in small.axes[2].get_legend().get_texts()]
    assert texts == ["M=7", "M=8"]


def test_log_ticks_are_few_and_inside():
    for low, high in [(0.02, 0.021), (0.03, 0.08), (0.01, 0.3), (1e-3, 1), (1e-17, 1e5)]:
        ticks = style._log_ticks(low, high)
        assert 2 <= len(ticks) <= 9
        assert all(low <= tick <= high for tick in ticks)


@pytest.mark.parametrize("width", [1.2, 2.0, 5.0])
@pytest.mark.parametrize("limits", [(0.0055, 0.0085), (0.078, 0.104), (0.01, 0.3), (1e-9, 1e4)])
def test_no_tick_label_lies_on_another(width, limits):
    """However short the axis: (0.006, 0.007, 0.008) and (0.08, 0.09, 0.1) once were one word."""
    with style.applied():
        figure = Figure(figsize=(width, 1.5))
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        style.log_axis(axes.xaxis, *limits)
        axes.set_yticks([0], ["a name"])
        figure.draw_without_rendering()
        boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
        assert len(boxes) > (0 if width < 2 else 1)
        ends = [(box.x0, box.x1) for box in boxes]
        assert all(left[1] + 2 < right[0] for left, right in itertools.pairwise(ends))


def test_a_pdf_is_saved_where_it_is_asked_for(run_folder_maker, tmp_path):
    run = Run(run_folder_maker(tmp_path))
    png, pdf = figures.mse(run, tmp_path, style.PNG_AND_PDF)
    assert (png.name, pdf.name) == ("mse.png", "mse.pdf")
    raw = pdf.read_bytes()
    assert raw.startswith(b"%PDF") and b"CreationDate" not in raw


def test_windowed_errors_are_those_of_their_rounds(run_folder_maker, tmp_path):
    run = Run(run_folder_maker(tmp_path, n_rounds=400))
    squared = np.diff(run.curves["mse"] * run.curves["t"], axis=1, prepend=0.0)
    found = windowed(run, n_windows=4)
    assert found.edges.tolist() == [0, 100, 200, 300, 400]
    np.testing.assert_allclose(found.loss, squared.reshape(3, 4, 100).mean(axis=2), rtol=1e-9)
    with_labels = np.tile(np.arange(1, 401) // 2, (3, 1))
    outside = {"mse": run.curves["mse"] * run.curves["t"] / np.maximum(with_labels, 1)}
    change(run.folder, outside | {"labels": with_labels}, mse_over="rounds with a label")
    found = windowed(Run(run.folder), n_windows=4)
    np.testing.assert_allclose(found.loss, 2 * squared.reshape(3, 4, 100).mean(axis=2), rtol=1e-9)


def test_weights_over_time_are_a_map_of_kernels_with_the_change(run_folder_maker, tmp_path):
    weights = np.random.default_rng(0).dirichlet(np.ones(76), size=4)
    run = change(
        run_folder_maker(tmp_path),
        {
            "weights_t": np.array([128, 256, 384, 400]),
            "weights_over_time": weights,
            "change_rounds": np.array([200]),
        },
    )
    drawn = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "save", lambda figure, *_: drawn.append(figure) or [])
        figures.over_time(run)
    above, below, _ = drawn[0].axes
    (mesh,) = below.collections
    assert mesh.get_array().shape == (76, 4)
    np.testing.assert_array_equal(mesh.get_array()[0], np.maximum(weights[:, 0], weights.min()))
    for axes in (above, below):
        (line,) = [x for x in axes.get_lines() if x.get_label() == style.CHANGES]
        assert line.get_xdata()[0] == 200 and line.get_color() == style.CHANGE_COLOUR


def test_a_map_names_bandwidths_and_degrees_from_below(run_folder_maker, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(style, "save", lambda figure, *_: drawn.append(figure) or [])
    families = {"kernel_family": np.repeat(["polynomial", "gaussian"], 38)}
    over = {"weights_t": np.array([400]), "weights_over_time": np.full((1, 76), 1 / 76)}
    figures.over_time(change(run_folder_maker(tmp_path), families | over))
    label = drawn[0].axes[1].get_ylabel()
    assert label == "degree or bandwidth: polynomial, then gaussian"


@pytest.mark.slow
def test_no_window_system_and_tables_without_matplotlib(run_folder_maker, tmp_path):
    code = """if True:
        import sys
        import omkl.report.sweep_table
        import omkl.papers.matching
        assert "matplotlib" not in sys.modules
        import matplotlib
        from omkl.report import figures
        before = matplotlib.rcParams.copy()
        figures.mse(figures.Run(sys.argv[1]))
        assert matplotlib.rcParams.copy() == before
        assert "matplotlib.pyplot" not in sys.modules
    """
    folder = run_folder_maker(tmp_path)
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)


# --- the table of a sweep ----------------------------------------------------------------


def test_sweep_table(sweep, tmp_path):
    for raker, five, ten in zip(sweep[0:12:3], sweep[1:12:3], sweep[2:12:3], strict=True):
        change(raker.folder, mse=[0.0200, 0.0220], mse_mean=0.0210)
        change(five.folder, mse=[0.0300, 0.0330, 0.0310], mse_mean=0.0313)
        change(ten.folder, mse=[0.0201, 0.0250, 0.0300], mse_mean=0.0250)
    sweep = [Run(run.folder) for run in sweep]
    rows, failures = sweep_table.sweep_table(sweep), sweep_table.failure_table(sweep)
    assert [len(rows), len(failures)] == [12, 1]
    assert rows[0]["settings"] == {}
    assert [row["settings"]["M"] for row in rows[1:3]] == [5, 10]
    for dataset in ("airfoil", "naval"):
        members = [row for row in rows if row["dataset"] == dataset]
        assert [row["best"] for row in members] == [True, False, True]  # two seeds say little
    assert failures[0]["settings"] == {"M": 90}
    assert failures[0]["error"] == "ValueError: algorithm.M=90 is larger than N=76"

    for width, left_out in ((120, ""), (85, ""), (65, "No room for: seeds, kernels / round")):
        stream = StringIO()
        sweep_table.print_sweep(rows, failures, Console(file=stream, width=width))
        text = stream.getvalue()
        assert "\x1b" not in text
        assert max(map(len, text.splitlines())) <= width
        for row in rows:
            assert f"{readable(row['mse'])} ± {readable(row['mse_std'], row['mse'])}" in text
        assert text.count(" *  ") == 8
        assert "paired t over seeds, Holm, 5%" in " ".join(text.split())
        assert "regret against" in text
        assert left_out in text and ("No room" in text) is bool(left_out)
        assert "runs/naval/gf-deadbeef" in text

    paths = sweep_table.write_sweep(rows, failures, tmp_path / "t")
    lines = list(csv.DictReader(StringIO(paths[0].read_text(encoding="utf-8"))))
    assert [float(line["mse"]) for line in lines[:12]] == [row["mse"] for row in rows]
    assert [lines[12][k] for k in ("M", "mse", "status")] == ["90", "", "failed"]
    assert [line["best"] for line in lines[:3]] == ["True", "False", "True"]
    assert [float(line["p_star"] or "nan") for line in lines[1:3]] == [
        row["p_star"] for row in rows[1:3]
    ]
    markdown = paths[1].read_text(encoding="utf-8")
    assert markdown.count("**") == 16 and "Bold: lowest MSE of the data set, and" in markdown
    assert str(tmp_path) not in markdown + paths[0].read_text(encoding="utf-8")


def test_runs_of_different_code_are_not_starred_against_each_other(run_folder_maker, tmp_path):
    """Raker of a shared source that has changed, and GF before and after its own was edited."""
    days = iter(f"2026-01-0{day}T00:00:00+00:00" for day in range(1, 7))

    def made(name, lam, shared, learner, level):
        params = {"lam": lam}
        folder = run_folder_maker(
            tmp_path, name, key=f"{len(lam)}{learner * 7}", level=level, params=params
        )
        return change(folder, started=next(days), code={"shared": shared, "learner": learner})

    runs = [
        made("raker", "0.1", "old", "r", 0.01),
        made("gf", "0.1", "new", "g", 0.02),
        made("gf", "0.01", "new", "h", 0.03),
        made("raker", "0.01", "new", "s", 0.05),
    ]
    rows = sweep_table.sweep_table(runs)
    assert [row["best"] for row in rows] == [True, True, True, False]
    text = stats.meaning(rows, "MSE")
    assert "abc1234 of 2026-01-01: Raker on airfoil lam=0.1" in text
    assert "abc1234 of 2026-01-02: OMKL-GF on airfoil lam=0.1" in text
    assert "lam=0.01" not in text, "these are of the newest code"
    one = [Run(run.folder) for run in runs]
    for run in one:
        change(run.folder, code={"shared": "new", "learner": run.result["algorithm"]})
    rows = sweep_table.sweep_table([Run(run.folder) for run in one])
    assert [row["best"] for row in rows] == [True, False, False, False]
    assert "code" not in stats.meaning(rows, "MSE")


def test_runs_that_do_not_say_their_sources_are_known_by_their_commit(run_folder_maker, tmp_path):
    runs = [Run(run_folder_maker(tmp_path, name)) for name in ("raker", "gf")]
    assert set(stats.codes_of(runs)) == {stats.NEWEST}
    later = "2026-02-01T00:00:00+00:00"
    runs = [change(runs[0].folder, started=later), change(runs[1].folder, commit=None)]
    assert stats.codes_of(runs) == [stats.NEWEST, "version 0.1.0 of 2026-01-01"]


@pytest.fixture
def streams(run_folder_maker, tmp_path):
    """Raker and GF on 500 rows and GF on 900, with the running mean beside each."""
    runs = []
    for key, (name, rows, mean) in enumerate(
        [("raker", 500, 0.05), ("gf", 500, 0.05), ("gf", 900, 0.04)]
    ):
        folder = run_folder_maker(tmp_path, name, "synthetic", f"{key:08d}", level=0.02 + key / 100)
        entries = {"mean": {"rmse": 1.0, "mae": 1.0, "mse": mean}}
        change(folder, baselines=entries)
        config = folder / "config.yaml"
        read = yaml.safe_load(config.read_text(encoding="utf-8"))
        read["dataset"] |= {"rows": rows, "notes": f"of {rows} rows", "path": f"{rows}.csv"}
        config.write_text(yaml.safe_dump(read), encoding="utf-8")
        runs.append(Run(folder))
    return runs


def test_runs_on_other_rows_are_told_apart_and_not_compared(streams, tmp_path, monkeypatch):
    rows = sweep_table.sweep_table(streams)
    assert [row["settings"] for row in rows] == [
        {"dataset.rows": n} for n in (500, 500, 900, 500, 900)
    ]
    assert [row["best"] for row in rows] == [True, False, True, False, False]
    assert [row["mse"] for row in rows[3:]] == [0.05, 0.04], "a baseline a stream"
    assert stats.meaning(rows, "MSE").endswith(
        "; on synthetic each value of dataset.rows has a best of its own: its rows are others"
    )
    assert [len(query.matching(streams, {"dataset.rows": [n]})) for n in ("500", "900")] == [2, 1]
    drawn = []
    monkeypatch.setattr(style, "save", lambda figure, *_: drawn.append(figure) or [])
    sweep_figures.comparison(streams, tmp_path)
    sweep_figures.summary(streams, tmp_path)
    titles = ["synthetic, dataset.rows=500", "synthetic, dataset.rows=900"]
    assert [[axes.get_title() for axes in figure.axes] for figure in drawn] == [titles, titles]
    assert list(map(str, naming.legend(streams))) == ["Raker", "OMKL-GF", "OMKL-GF"]


def test_figures_are_drawn_of_the_runs_that_are_chosen(streams, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(figures, "all_figures", lambda run, to, suffixes: (to / "mse.png").touch())
    monkeypatch.setattr(paper_figures, "regret_bound", lambda *what: [])
    assert report.main(["figures", "dataset.rows=500", "--outputs", str(tmp_path)]) == 0
    assert [(run.folder / "mse.png").exists() for run in streams] == [True, True, False]
    told = capsys.readouterr().out.splitlines()
    assert sorted(told) == [f"[1/2] {streams[1].folder}", f"[2/2] {streams[0].folder}"]
    assert report.main(["figures", "sort=mse", "--outputs", str(tmp_path)]) == 1
    assert "figures are of runs: leave sort=" in capsys.readouterr().err


def test_a_table_says_what_was_swept_of_all_that_have_it(sweep, run_folder_maker, tmp_path):
    """Where all but one value failed, and of an algorithm that ran with one value alone."""
    params = {"M": 5, "eta": "0.1/sqrt(t)"}
    sfg = Run(run_folder_maker(tmp_path, "sfg", "naval", params=params))
    rows = sweep_table.sweep_table([sweep[-3], sweep[-1], sfg, sweep[0]])
    assert [row["settings"] for row in rows] == [{"M": 5}, {"M": 5}, {}]


def test_sweep_table_with_many_settings_fits_80_columns(sweep):
    rows = sweep_table.sweep_table(sweep)
    for row in rows:
        row["settings"] = {"eta": "0.1/sqrt(t)", "M": 5, "stream.scaling": "columns"}

    def printed(width: int) -> str:
        stream = StringIO()
        sweep_table.print_sweep(rows, [], Console(file=stream, width=width))
        assert max(map(len, stream.getvalue().splitlines())) <= width
        return stream.getvalue()

    beside, below = printed(80), printed(56)
    assert beside.count("columns  ") == beside.count(" ± ") / 2 == 12
    assert "No room for: seeds, kernels / round, seconds. They are shown" in beside
    assert below.count("\n  stream.scaling=columns\n") == below.count(" ± ") == 12


def test_one_seed_has_no_spread_and_markup_is_text(run_folder_maker, tmp_path):
    run = change(run_folder_maker(tmp_path, n_seeds=1), algorithm="[red]|x")
    rows = sweep_table.sweep_table([run])
    stream = StringIO()
    sweep_table.print_sweep(rows, [], Console(file=stream, width=80))
    assert "[red]|x" in stream.getvalue()
    assert "±" not in stream.getvalue()
    markdown = sweep_table.write_sweep(rows, [], tmp_path)[1].read_text(encoding="utf-8")
    assert r"\[red\]\|x" in markdown


@pytest.mark.parametrize(("kind", "label"), [("whole", "y, scaled to [0, 1]"), ("none", "y")])
def test_an_axis_says_when_labels_are_scaled(run_folder_maker, tmp_path, monkeypatch, kind, label):
    kept = []
    monkeypatch.setattr(style, "save", lambda figure, *_: kept.append(figure) or [])
    recent = {f"recent_{name}": np.arange(1.0, 9.0) for name in ("t", "y", "y_hat", "spread")}
    stream = {"target": "y", "scaling": {"kind": kind}}
    figures.predictions(change(run_folder_maker(tmp_path), recent, stream=stream))
    assert kept[0].axes[0].get_ylabel() == label


def test_predictions_coverage_and_experts_are_drawn(run_folder_maker, tmp_path):
    folder = run_folder_maker(tmp_path, "raker")
    assert figures.coverage(Run(folder)) == []
    assert figures.experts(Run(folder)) == [], "its weights are of kernels"
    t = np.arange(281, 401)
    said = {"recent_t": t, "recent_y": np.sin(t), "recent_y_hat": np.sin(t) + 0.1}
    windows = {"until": [200, 400], "coverage_50": [None, 0.4], "coverage_90": [0.8, 0.9]}
    experts = {"kernel_family": np.array(["mean", "linear"]), "kernel_bandwidth": np.ones(2)}
    arrays = said | {"recent_spread": np.full(len(t), 0.3)} | experts
    arrays["weights"] = np.array([[0.1, 0.9], [0.2, 0.8]])
    run = change(folder, arrays, spread={"windows": windows})
    check_drawn(figures.predictions(run), ["predictions"])
    check_drawn(figures.coverage(run), ["coverage"])
    check_drawn(figures.experts(run), ["experts"])
    twins = {"kernel_family": np.array(["pairs"] * 2), "kernel_bandwidth": np.array([1.0, 2.5])}
    named = expert_names(change(folder, twins))
    assert named == ["pairs, length 1", "pairs, length 2.5"]
    assert expert_names(change(folder, experts)) == ["mean", "linear"]
    adaptive = {"level": 0.8, "windows": {"until": [100, 400], "coverage": [0.7, 0.8]}}
    half = {"recent_half": np.full(len(t), 0.5)}
    check_drawn(figures.predictions(change(folder, half)), ["predictions"])  # none known
    run = change(folder, {}, interval=adaptive)
    check_drawn(figures.predictions(run), ["predictions"])
    check_drawn(figures.coverage(run), ["coverage"])
    assert figures.weights(run) == []


def test_weights_are_drawn_of_kernels_whose_family_is_of_a_module_outside(
    run_folder_maker, tmp_path
):
    """What reads a run does not know the family, and the run's configuration does."""
    folder = run_folder_maker(tmp_path, "raker")
    family = Run(folder).curves["kernel_family"]
    change(folder, {"kernel_family": np.where(family == "laplacian", "ricker", family)})
    assert figures.weights(Run(folder)) == []
    with open(folder / "config.yaml", "a") as file:
        file.write("kernels:\n  parts: [{family: gaussian}, {family: ricker}]\n")
    check_drawn(figures.weights(Run(folder)), ["weights"])
    assert figures.experts(Run(folder)) == []
