"""Mean, last target and ridge beside a result: on the terminal, in tables, figures and tracking."""

import csv
import io
from unittest.mock import Mock

import numpy as np
import pytest
from rich.console import Console

from omkl.report import console, stats, sweep_table
from omkl.report import frame as frames
from omkl.report.naming import readable
from tests.conftest import change

ENTRIES = {
    "mean": {"rmse": 6.93, "mae": 5.78, "mse": 0.034},
    "last": {"rmse": 4.0, "mae": 2.54, "mse": 0.0113},
    "ridge": {"skipped": "2,000 inputs are more than 1,500"},
}


@pytest.fixture
def with_baselines(run_folder_maker, tmp_path):
    """A run folder with a result and curves that have them."""

    def make(*names, entries=ENTRIES, level=0.03, key="12345678", **result):
        folder = run_folder_maker(tmp_path, *names, key=key, level=level)
        own = {"rmse": 6.38, "mae": 5.18, "r2": 0.144, "target_unit": 37.6, "baselines": entries}
        stream = {"target": "sound", "scaling": {"kind": "whole"}}
        own |= {"stream": stream, "mse_over": "all rounds", "threads": 1}
        curves = {
            f"baseline_{name}": np.full(400, entry["mse"])
            for name, entry in entries.items()
            if "mse" in entry
        }
        return change(folder, curves, **(own | result))

    return make


def printed(run, width=100):
    stream = io.StringIO()
    console.print_run(run, Console(file=stream, width=width))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("value", "text"),
    [(5829.54146, "5,830"), (6.3818, "6.382"), (0.028797, "0.02880"), (58295.4, "58,295"),
     (0.0, "0"), (-3.14159, "-3.142"), (1e9, "1e+09"), (2e-7, "2e-07"), (999999.6, "1,000,000")],
)  # fmt: skip
def test_numbers_in_a_readable_scale(value, text):
    assert readable(value) == text


def test_a_run_on_the_terminal(with_baselines):
    text = printed(with_baselines())
    assert "MSE        0.04390 ± 0.00225   (mean ± std over 3 seeds; y in [0, 1])" in text
    assert "baselines  last target 0.01130   running mean 0.03400\n" in text
    assert "RMSE 6.380   MAE 5.180   R2 0.144   (in units of sound)" in text
    assert "Warning: Raker is worse here than the last target." in text
    assert "algorithm=auto is the learner that has nothing to set." in text
    assert "Not computed: linear ridge (2,000 inputs are more than 1,500)." in text


AROUND = {"level": 0.9, "coverage": 0.9, "width": 0.5, "interval_score": 0.7}


def test_intervals_that_nobody_asked_for_are_not_printed(with_baselines):
    own = {"coverage_90": 0.207, "width_90": 0.3}
    assert "interval" not in printed(with_baselines(spread=own))


@pytest.mark.parametrize(
    ("mean", "std", "said"),
    [(-2.5e-9, None, "-2.5e-09 above"), (4002.0, 17.25, "4,002 ± 17 above"),
     (43690.7, 0.5, "43,691 ± 0 above"), (0.0125, 5.3, "0.01250 ± 5.300 above")],
)  # fmt: skip
def test_a_regret_has_the_digits_of_an_error(with_baselines, mean, std, said):
    entry = {"label": "the best kernel", "mean": mean, "std": std}
    text = printed(with_baselines(regret={"ridge_features": entry}))
    assert f"regret     {said} the best kernel\n" in text


@pytest.mark.parametrize(
    ("families", "said"),
    [(["gaussian"] * 3, "kernels 3 in the dictionary, 3 per row"),
     (["linear", "products", "neighbours"], "experts 3, 3 per row"), (["mean"], None)],
)  # fmt: skip
def test_experts_that_are_no_kernels_are_not_called_so(with_baselines, families, said):
    n = len(families)
    run = with_baselines(n_kernels=n, kernels_per_round=float(n))
    families = {"kernel_family": np.array(families), "kernel_bandwidth": np.ones(n)}
    run = change(run.folder, families)
    lines = [" ".join(line.split()) for line in printed(run).splitlines()]
    found = [line for line in lines if line.startswith(("kernels", "experts"))]
    assert found == ([said] if said else [])


@pytest.mark.parametrize(("kind", "said"), [("whole", "   (y in [0, 1])"), ("columns", "")])
def test_widths_of_intervals_say_when_they_are_scaled(with_baselines, kind, said):
    """A target that happens to span 1 is scaled as well: its unit does not tell."""
    stream = {"target": "sound", "scaling": {"kind": kind}}
    text = printed(with_baselines(interval=AROUND, stream=stream, target_unit=1.0), 120)
    (line,) = [line for line in text.splitlines() if "mean width" in line]
    assert line.endswith(f"cover 90.0 %, mean width 0.5000, interval score 0.7000{said}")


def test_no_warning_where_the_learner_is_the_best_or_there_is_nothing_to_beat(with_baselines):
    assert "Warning" not in printed(with_baselines(rmse=3.99))
    assert stats.worse_than({"baselines": {}, "rmse": 1.0}) == ""
    assert stats.worse_than({"federated": {}}) == ""


def test_what_is_better_is_listed(with_baselines):
    three = ENTRIES | {"ridge": {"rmse": 6.0, "mae": 1.0, "mse": 0.02}}
    run = with_baselines(entries=three, rmse=7.0)
    worse = "the running mean, the last target and the linear ridge"
    assert stats.worse_than(run.result) == worse
    classes = {"constant": {"error_rate": 0.2}, "last": {"error_rate": 0.1}}
    result = {"task": "classification", "error_rate_mean": 0.15, "baselines": classes}
    assert stats.worse_than(result) == "the last target"


def test_a_row_a_baseline_and_data_set(with_baselines, tmp_path):
    params = {"eta": "0.1/sqrt(t)", "M": 5}
    runs = [with_baselines("raker", "airfoil"), with_baselines("raker", "bias")]
    runs.insert(1, with_baselines("gf", "airfoil", key="87654321", params=params))
    frame = frames.frame_of(runs)
    shown = frames.with_baselines(frame)
    marked = list(zip(shown["algorithm"], shown["dataset"], shown["status"], strict=True))
    names = ("running mean", "last target")
    assert marked[2:4] == [(name, "airfoil", "baseline") for name in names]
    assert marked[5:] == [(name, "bias", "baseline") for name in names]
    assert not shown["best"][shown["status"] == "baseline"].any()
    stream = io.StringIO()
    sweep_table.print_frame(frame, Console(file=stream, width=80))
    assert "0.01130" in stream.getvalue() and "0.03400" in stream.getvalue()
    table, markdown = sweep_table.write(frame, tmp_path)
    lines = list(csv.DictReader(io.StringIO(table.read_text(encoding="utf-8"))))
    assert [float(x["mse"]) for x in lines if x["status"] == "baseline"] == [0.0113, 0.034] * 2
    assert "(last target)" in markdown.read_text(encoding="utf-8")


def test_one_scale_for_a_learner_and_its_baselines(with_baselines):
    """In units of the target where inputs are standardised, and how far below the best."""
    in_units = {"target": "sound", "scaling": {"kind": "columns"}}
    cells = {"missing_cells": {"a": 7, "b": 1234}, "far_out": {"b": 0.006, "c": 0.0213}}
    text = printed(with_baselines(rmse=3.0, stream=in_units, **cells))
    assert "error      RMSE 3.000   MAE 5.180   R2 0.144   (in units of sound)\n" in text
    assert "baselines  last target 4.000   running mean 6.930\n" in text
    assert "             -> 25 % below the best\n" in text
    assert "; missing values: b 1,234, a 7\n" in text
    assert "  far out    values beyond 4 deviations: c 2.1 %, b 0.6 %\n" in text


def test_a_bar_says_how_much_is_done_and_how_long_the_rest_takes(monkeypatch):
    shown, clock = [], iter([0.0, 10.0])
    monkeypatch.setattr(console.time, "perf_counter", lambda: next(clock))
    bar = console.Bar("auto on my.csv", n_seeds=1)
    bar.bar, bar.task = Mock(update=lambda task, **fields: shown.append(fields["status"])), 0
    bar.show("rounds", 0, 1240, None)
    bar.show("rounds", 310, 1240, 4.0)
    assert shown == ["0/1,240 (0 %)", "310/1,240 (25 %) 31 rows/s MSE 4.000 30 s left"]


def test_columns_of_a_file_before_its_rows():
    columns = [
        {"column": "id", "as": "left out", "inputs": [], "why": "an id: it counts the rows"},
        {"column": "size", "as": "numbers", "inputs": ["size"], "why": ""},
    ]
    stream = io.StringIO()
    known = {"name": "my-1234", "target": "y", "files": [{"name": "my.csv"}], "columns": columns}
    known |= {"delimiter": ";", "decimal": ","}
    console.print_columns(known, "about 1,240 rows", Console(file=stream))
    assert stream.getvalue().splitlines() == [
        "my.csv -> y   about 1,240 rows, 1 input from 1 column",
        "  separated by  ';', decimals by ','",
        "  id            left out: an id: it counts the rows",
        "  as numbers    size",
        "",
    ]
