"""The table of a sweep: its rows, its stars, its forms, and what ``omkl-report show`` shows."""

import csv
import io
import re

import pytest
from rich.console import Console

from omkl.commands import data, report
from omkl.report import figures, naming, sweep_figures, sweep_table
from omkl.report.frame import frame_of, matching, settings_in, with_baselines
from omkl.report.naming import readable
from omkl.runs.run_folder import Run
from tests.conftest import change, configure


@pytest.fixture
def outputs(run_folder_maker, tmp_path):
    """Raker and GF with two M on two data sets, and a failure."""
    for dataset in ("airfoil", "naval"):
        run_folder_maker(tmp_path, "raker", dataset, level=0.05)
        for M in (10, 5):
            params = {"eta": "0.1/sqrt(t)", "M": M}
            run_folder_maker(tmp_path, "gf", dataset, f"{M:08d}", level=M / 1e3, params=params)
    run_folder_maker(tmp_path, "sfg", "naval", "deadbeef", failed=True)
    return tmp_path


def shown(outputs, capsys, *choices: str) -> str:
    assert report.main(["show", "--outputs", str(outputs), *choices]) == 0
    return capsys.readouterr().out


def test_show_chooses_sorts_and_writes(outputs, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = shown(outputs, capsys, "dataset=naval", "algorithm=raker,gf")
    names = re.findall(r"^ *0[.]\d+ ± 0[.]\d+ [* ]* +(\S+ +\d+ |Raker)", text, re.M)
    assert [name.split() for name in names] == [["OMKL-GF", "5"], ["OMKL-GF", "10"], ["Raker"]]
    assert "data set: naval" in text and "sfg" not in text
    text = shown(outputs, capsys, "dataset=naval", "sort=-mse", "format=csv")
    lines = list(csv.DictReader(io.StringIO(text)))
    assert [line["algorithm"] for line in lines] == ["Raker", "OMKL-GF", "OMKL-GF", "OMKL-SFG"]
    errors = [float(line["mse"]) for line in lines[:3]]
    assert errors == sorted(errors, reverse=True) and lines[3]["status"] == "failed"
    assert lines[0]["M"] == "" and lines[1]["n_seeds"] == "3"
    assert shown(outputs, capsys, "M=5", "format=md").count("| OMKL-GF") == 2
    text = shown(outputs, capsys, "algorithm=g*", "M=5.0", "format=latex")
    assert text.count(r"\textbf{") == 2 and text.count(r" \\") == 3
    assert text.count(r"\toprule") == 1


def test_show_of_one_run_gives_its_numbers_command_and_figures(outputs, capsys):
    (folder,) = outputs.glob("runs/naval/gf-00000005-*")
    (folder / "figures").mkdir()
    text = shown(outputs, capsys, "dataset=naval", "M=5")
    assert text.startswith("OMKL-GF on naval\n  MSE ")
    assert f"\ncommand  omkl-run --from {folder}\n" in text
    assert f"\nfigures  {folder}/figures/\n" in text


def test_cells_that_a_spreadsheet_would_compute_are_escaped(run_folder_maker, tmp_path):
    names = ("=1+1", "-x", "@sum", "-5", "+1e3")
    folders = [
        run_folder_maker(tmp_path, "gf", key=f"{n:08d}", params={"=a": name})
        for n, name in enumerate(names)
    ]
    text = sweep_table.csv(frame_of([Run(folder) for folder in folders]))
    lines = list(csv.DictReader(io.StringIO(text)))
    assert sorted(line["'=a"] for line in lines) == sorted(["'=1+1", "'-x", "'@sum", "-5", "+1e3"])


def test_other_units_or_rounds_have_a_star_of_their_own(run_folder_maker, tmp_path, capsys):
    """With "none" the first round counts, and with "columns" it does not."""
    kinds = (("0000000a", "columns", 2.2), ("0000000b", "whole", 0.1), ("0000000c", "none", 9.0))
    for key, kind, level in kinds:
        folder = run_folder_maker(tmp_path, "raker", "mine", key, level=level)
        change(folder, stream={"name": "mine", "target": "y", "scaling": {"kind": kind}})
    text = shown(tmp_path, capsys)
    assert len(re.findall(r"\d \* +Raker", text)) == 3
    said = " ".join(text.split())
    assert "on mine stream.scaling differs" in said
    assert "each of columns, whole, none has a best run of its own" in said


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (["naval"], "'naval' chooses nothing; write KEY=VALUE"),
        (["colour=red"], "no run has colour=; there are:"),
        (["dataset=navall"], "no run has dataset=navall. There are dataset: airfoil, naval"),
        (["format=docx"], "format=docx is none of table, md, csv, latex"),
        (["sort=beauty"], "sort=beauty: no row has 'beauty'"),
        (["M=5", "M=10"], "M is given twice; several values are M=ONE,OTHER"),
    ],
)
def test_what_cannot_be_shown_is_said(outputs, capsys, choices, message):
    assert report.main(["show", "--outputs", str(outputs), *choices]) == 1
    assert message in capsys.readouterr().err


def test_a_file_of_the_users_is_found_by_its_name(run_folder_maker, tmp_path):
    run = Run(run_folder_maker(tmp_path, "auto", "my-5c82", "00000000"))
    assert matching([run], {"dataset": ["my"]}) == [run]
    with pytest.raises(ValueError, match="no run has dataset=m"):
        matching([run], {"dataset": ["m"]})


@pytest.mark.parametrize("width", [80, 70])
def test_a_line_a_data_set(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    assert data.main(["list"]) == 0
    table, _, notes = capsys.readouterr().out.partition("\n\n")
    lines = table.splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) == len(set(lines)) > 20 and all(line[0] != " " for line in lines)
    assert ("Hidden: licence" in notes) is (width == 70)
    assert lines[0].split()[:5] == ["name", "rows", "inputs", "target", "where"]


# --- rows and stars -------------------------------------------------------------------------------


def test_sweep_table(sweep, tmp_path):
    for raker, five, ten in zip(sweep[0:12:3], sweep[1:12:3], sweep[2:12:3], strict=True):
        change(raker.folder, mse=[0.0200, 0.0220], mse_mean=0.0210)
        change(five.folder, mse=[0.0300, 0.0330, 0.0310], mse_mean=0.0313)
        change(ten.folder, mse=[0.0201, 0.0250, 0.0300], mse_mean=0.0250)
    frame = frame_of([Run(run.folder) for run in sweep])
    complete = frame[frame["status"] == "complete"]
    assert [len(frame), len(complete)] == [13, 12] and settings_in(frame) == ["M"]
    assert complete["M"].tolist()[1:3] == [5, 10] and complete["M"].isna().tolist()[0]
    for dataset in ("airfoil", "naval"):
        best = complete["best"][complete["dataset"] == dataset]
        assert best.tolist() == [True, False, True]  # two seeds say little
    (failed,) = frame[frame["status"] == "failed"].to_dict("records")
    assert failed["error"] == "ValueError: algorithm.M=90 is larger than N=76"

    for width, left_out in ((120, ""), (85, ""), (62, "Hidden columns: seeds, kernels / row")):
        stream = io.StringIO()
        sweep_table.print_frame(frame, Console(file=stream, width=width))
        text = stream.getvalue()
        assert "\x1b" not in text
        assert max(map(len, text.splitlines())) <= width
        for row in complete.to_dict("records"):
            assert f"{readable(row['mse'])} ± {readable(row['mse_std'], row['mse'])}" in text
        assert text.count(" * ") == 8
        assert "paired t over 2 to 3 seeds, Holm, 5%" in " ".join(text.split())
        assert "Regret against" in text
        assert left_out in " ".join(text.split()) and ("Hidden columns" in text) is bool(left_out)
        assert "failures/naval/gf-deadbeef-feedbeef" in text

    paths = sweep_table.write(frame, tmp_path)
    lines = list(csv.DictReader(io.StringIO(paths[0].read_text(encoding="utf-8"))))
    assert {float(line["mse"]) for line in lines[:12]} == set(complete["mse"])
    assert [lines[12][k] for k in ("M", "mse", "status")] == ["90", "", "failed"]
    assert [line["best"] for line in lines[:3]] == ["False", "True", "True"]
    markdown = paths[1].read_text(encoding="utf-8")
    assert markdown.count("**") == 16 and "Bold: lowest MSE of the data set, and" in markdown
    assert str(tmp_path) not in markdown + paths[0].read_text(encoding="utf-8")


def test_runs_of_earlier_code_have_a_star_of_their_own(run_folder_maker, tmp_path):
    runs = [
        change(
            run_folder_maker(tmp_path, "gf", key=f"{n}", level=0.01 + n / 100, params={"lam": n}),
            started=f"2026-01-0{n + 1}T00:00:00+00:00", code="old" if n == 0 else "new",
        )
        for n in range(3)
    ]  # fmt: skip
    frame = frame_of(runs)
    assert frame["best"].tolist() == [True, True, False]
    (text,) = sweep_table.notes_of(frame)[:1]
    assert "earlier code are not compared with later ones: OMKL-GF on airfoil, lam=0" in text


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
        facts = {"name": "synthetic", "rows": rows, "notes": f"of {rows} rows"}
        runs.append(configure(folder, dataset=facts | {"path": f"{rows}.csv"}))
    return runs


def test_runs_on_other_rows_are_told_apart_and_not_compared(streams):
    frame = with_baselines(frame_of(streams))
    assert frame["dataset.rows"].tolist() == [500, 500, 900, 500, 900]
    assert frame["best"].tolist() == [True, False, True, False, False]
    assert frame["mse"].tolist()[3:] == [0.05, 0.04], "a baseline per stream"
    assert "on synthetic each value of dataset.rows has a best" in sweep_table.notes_of(frame)[0]
    assert [len(matching(streams, {"dataset.rows": [n]})) for n in ("500", "900")] == [2, 1]
    titles = ["synthetic, dataset.rows=500", "synthetic, dataset.rows=900"]
    assert list(sweep_figures.running(streams)) == titles
    assert list(sweep_figures.panels_of(streams, "algorithm")) == ["synthetic"]
    assert list(map(str, naming.legend(streams))) == ["Raker", "OMKL-GF", "OMKL-GF"]


def test_figures_are_drawn_of_the_runs_that_are_chosen(streams, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(figures, "all_figures", lambda run, to, suffixes: (to / "mse.png").touch())
    assert report.main(["figures", "dataset.rows=500", "--outputs", str(tmp_path)]) == 0
    assert [(run.folder / "figures" / "mse.png").exists() for run in streams] == [True, True, False]
    told = capsys.readouterr().out.splitlines()
    assert sorted(told) == [f"[1/2] {streams[1].folder}", f"[2/2] {streams[0].folder}"]
    assert report.main(["figures", "sort=mse", "--outputs", str(tmp_path)]) == 1
    assert "sort= and format= are of show" in capsys.readouterr().err


def test_a_table_says_what_was_swept_of_all_that_have_it(sweep, run_folder_maker, tmp_path):
    """Where all but one value failed, and of an algorithm that ran with one value alone."""
    params = {"M": 5, "eta": "0.1/sqrt(t)"}
    sfg = Run(run_folder_maker(tmp_path, "sfg", "naval", params=params))
    frame = frame_of([sweep[-3], sweep[-1], sfg, sweep[0]])
    assert frame["M"].tolist()[:3] == [5, 90, 5] and settings_in(frame) == ["M"]


def test_one_seed_has_no_spread_and_markup_is_text(run_folder_maker, tmp_path):
    run = change(run_folder_maker(tmp_path, n_seeds=1), algorithm="[red]|x")
    frame = frame_of([run])
    stream = io.StringIO()
    sweep_table.print_frame(frame, Console(file=stream, width=80))
    assert "[red]|x" in stream.getvalue()
    assert "±" not in stream.getvalue()
    assert r"\[red\]\|x" in sweep_table.markdown(frame)
