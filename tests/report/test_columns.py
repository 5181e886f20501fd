"""Which runs ``omkl-report show`` shows, and how."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from rich.console import Console

from omkl.commands import data, report
from omkl.report import query, sweep_table
from omkl.runs.run_folder import Run


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
    assert re.findall(r"^(OMKL-GF +\d+|Raker) ", text, re.M) == ["OMKL-GF    5", "OMKL-GF    10",
                                                                 "Raker"]  # fmt: skip
    assert "data set: naval" in text and "sfg" not in text
    text = shown(outputs, capsys, "dataset=naval", "sort=-mse", "format=csv")
    lines = list(csv.DictReader(io.StringIO(text)))
    assert [line["algorithm"] for line in lines] == ["Raker", "OMKL-GF", "OMKL-GF", "OMKL-SFG"]
    errors = [float(line["mse"]) for line in lines[:3]]
    assert errors == sorted(errors, reverse=True) and lines[3]["status"] == "failed"
    assert shown(outputs, capsys, "M=5", "format=md").count("| OMKL-GF") == 2
    text = shown(outputs, capsys, "algorithm=g*", "M=5.0", "format=latex")
    assert text.count(r"\textbf{") == 2 and text.count(r" \\") == 3


def test_other_units_or_rounds_have_a_star_of_their_own(run_folder_maker, tmp_path, capsys):
    """With "none" the first round counts, and with "columns" it does not."""
    kinds = (("0000000a", "columns", 2.2), ("0000000b", "whole", 0.1), ("0000000c", "none", 9.0))
    for key, kind, level in kinds:
        folder = run_folder_maker(tmp_path, "raker", "mine", key, level=level)
        path = folder / "result.json"
        result = json.loads(path.read_text())
        result["stream"]["scaling"] = {"kind": kind}
        path.write_text(json.dumps(result))
    text = shown(tmp_path, capsys)
    assert len(re.findall(r"^Raker .*\d \*", text, re.M)) == 3
    said = " ".join(text.split())
    assert "on mine stream.scaling differs" in said
    assert "columns: Raker; whole: Raker; none: Raker" in said


def test_a_table_says_whose_regret_is_blank():
    ridge = {"dataset": "mine", "comparator": "ridge regression"}
    rows = [{**ridge, "algorithm": "Raker"}, {"algorithm": "Auto", "comparator": None}]
    assert sweep_table.comparators_text(rows) == "ridge regression; none was computed for Auto"
    rows += [{**ridge, "algorithm": "Raker", "dataset": "long", "comparator": None}]
    assert sweep_table.comparators_text(rows).endswith("for Auto, Raker on long")
    assert sweep_table.comparators_text(rows[1:2]) == ""


def test_a_run_that_does_not_tell_its_scaling_is_shown(run_folder_maker, tmp_path, capsys):
    path = run_folder_maker(tmp_path, "raker") / "result.json"
    result = json.loads(path.read_text())
    del result["stream"]
    path.write_text(json.dumps(result))
    assert re.search(r"^Raker .*\d \*", shown(tmp_path, capsys), re.M)


def test_a_pivot_has_a_run_a_cell(outputs, capsys):
    text = shown(outputs, capsys, "rows=algorithm", "columns=dataset")
    names = re.findall(r"^(\S.*?)  +\d", text, re.M)
    assert names == ["OMKL-GF, M=5", "OMKL-GF, M=10", "Raker"], "M tells runs of one cell apart"
    assert len(re.findall(r"\d \*", text)) == 2
    beside = shown(outputs, capsys, "rows=dataset", "columns=algorithm", "format=csv")
    header = next(csv.reader(io.StringIO(beside)))[1::2]
    assert header == ["OMKL-GF, M=5", "OMKL-GF, M=10", "Raker"], "a setting is of its algorithm"
    over_M = shown(outputs, capsys, "algorithm=gf", "rows=dataset", "columns=M", "format=csv")
    lines = list(csv.reader(io.StringIO(over_M)))
    assert lines[0] == ["dataset", "M=5", "M=5 std", "M=10", "M=10 std"]
    run = Run(outputs / "runs" / "naval" / "gf-00000010")
    assert float(lines[2][3]) == run.result["mse_mean"]
    assert r"\begin{tabular}{lrr}" in shown(outputs, capsys, "rows=M", "columns=dataset",
                                            "format=latex")  # fmt: skip


def test_a_wide_pivot_is_cut_between_columns(outputs):
    rows = sweep_table.sweep_table([Run(p.parent) for p in outputs.rglob("*-0*/result.json")])
    found = sweep_table.pivot(rows, ["algorithm"], ["dataset", "M"])
    stream = io.StringIO()
    found.print(Console(file=stream, width=44))
    text = stream.getvalue()
    assert max(map(len, text.splitlines())) <= 44
    assert all(text.count(name) == 1 for name in found.columns)
    assert text.count("\nRaker") == len(re.findall(r"^algorithm", text, re.M)) > 1


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (["naval"], "'naval' chooses nothing; write KEY=VALUE"),
        (["colour=red"], "no run has colour=; there are:"),
        (["dataset=navall"], "no run has dataset=navall. There are dataset: airfoil, naval"),
        (["format=docx"], "format=docx is none of table, md, csv, latex"),
        (["sort=beauty"], "sort=beauty: no row has 'beauty'"),
        (["rows=algorithm"], "a pivot has both: rows=algorithm columns=dataset"),
        (["rows=algorithm", "columns=eta"], "eta does not vary in these runs"),
        (["M=5", "M=10"], "M is given twice; several values are M=ONE,OTHER"),
    ],
)
def test_what_cannot_be_shown_is_said(outputs, capsys, choices, message):
    assert report.main(["show", "--outputs", str(outputs), *choices]) == 1
    assert message in capsys.readouterr().err


def test_numbers_are_compared_as_numbers(outputs):
    runs = [Run(outputs / "runs" / "naval" / name) for name in ("gf-00000005", "gf-00000010")]
    assert query.matching(runs, {"M": ["5.0"], "regret.lam": ["1e-3"]}) == runs[:1]


@pytest.mark.parametrize("width", [80, 70])
def test_a_line_a_data_set(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    assert data.main(["list"]) == 0
    table, _, notes = capsys.readouterr().out.partition("\n\n")
    lines = table.splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) == len(set(lines)) > 20 and all(line[0] != " " for line in lines)
    assert ("No room for: licence" in notes) is (width == 70)
    assert lines[0].split()[:5] == ["name", "rows", "inputs", "target", "where"]
