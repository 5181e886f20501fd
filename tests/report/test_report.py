"""Figures and tables, from invented run folders."""

from __future__ import annotations

import csv
import itertools
import json
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import yaml
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console

from omkl import conf, papers
from omkl.checks.learners import default_settings
from omkl.commands import report
from omkl.papers import figures as paper_figures
from omkl.papers import matching, rendering, tables
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


# --- a paper's table ---------------------------------------------------------------------


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
    ],
)
def test_verdict(ours, std, n_seeds, expected):
    assert matching.verdict(100, ours, std, n_seeds) == expected


def test_the_last_digit_of_a_published_number_may_be_cut():
    assert matching.verdict(0.34, 0.3499, None, 1) == "reproduced"
    assert matching.verdict(0.34, 0.37, None, 1) == "close"
    assert matching.verdict(0.34, 0.32, None, 1) == "close"


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


def test_load_table_refuses_what_does_not_exist():
    row = {"label": "5", "published": "gf", "algorithm": "gf", "where": {"M": 5}}
    spec = {
        "name": "t",
        "title": "T",
        "paper": "graph-aided-jmlr",
        "table": 3,
        "metric": "mse_e3",
        "seeds": 2,
        "columns": [{"label": "Airfoil", "dataset": "airfoil"}],
        "rows": [row],
    }
    filled = matching.fill(tables.load_table(spec), [])
    assert filled.cells[0][0].published == 24.95
    for wrong, message in [
        ({"colums": []}, "unknown colums"),
        ({"metric": "speed"}, "mse_e3"),
        ({"rows": [{**row, "where": {}}]}, "has 5 lines"),
        ({"rows": [{**row, "published": "gff"}]}, "has 0 lines"),
        ({"footnotes": [{"rows": ["raker"], "text": "x"}]}, "names raker"),
        ({"overrides": ["D"]}, "not an override"),
        ({"columns": [{"label": "Airfoil"}]}, "without dataset"),
    ]:
        with pytest.raises(ValueError, match=message):
            tables.load_table(spec | wrong)
    with pytest.raises(ValueError, match="without title"):
        tables.load_table({k: v for k, v in spec.items() if k != "title"})


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


def test_an_algorithm_file_may_build_on_another(tmp_path, monkeypatch):
    folder = tmp_path / "algorithm" / "recovered"
    folder.mkdir(parents=True)
    (tmp_path / "algorithm" / "a.yaml").write_text("name: a\nM: 5\nlam: 1e-3\n")
    (folder / "b.yaml").write_text("defaults: [a, _self_]\nM: 7\n")
    monkeypatch.setattr(conf, "folder", lambda: tmp_path)
    matching._algorithm_file.cache_clear()
    try:
        assert matching._algorithm_file("recovered/b") == {"name": "a", "M": 7, "lam": 0.001}
        assert matching._algorithm_file("c") == {}
    finally:
        matching._algorithm_file.cache_clear()


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


class Page(HTMLParser):
    """Checks that tags are balanced; keeps the text and the attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag, attrs):
        self.attributes += attrs
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data + " "


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
    page = Page()
    page.feed(text["html"])
    page.close()
    assert page.open == []
    assert not any(k in ("src", "srcset") for k, _ in page.attributes)
    assert all(v.startswith("#jmlr_table1-note") for k, v in page.attributes if k == "href" and v)
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
        for paper in {table.paper for table in specs}
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
    told = dict(rendering.provenance([cell_run("gf", "airfoil", "0a", numbers="a")]))["sources"]
    assert told == "1 stamp of code and data, numbers in result.json: a"
    runs = [cell_run("gf", "airfoil", f"1{k}", numbers=k) for k in "fedcba"]
    told = dict(rendering.provenance([*runs, *runs]))["sources"]
    assert told.startswith("6 stamps of code and data") and told.endswith(": a; b; c; d; ...")


def test_render_without_a_single_run(here, tmp_path):
    for name in ("jmlr_table1", "jmlr_table2", "jmlr_table5", "arxiv_v1_table4"):
        filled = matching.fill(tables.load_table(name), [])
        for path in rendering.render(filled, rendering.FORMATS, tmp_path):
            assert "missing" in path.read_text(encoding="utf-8")


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
