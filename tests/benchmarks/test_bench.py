"""The bench: its formulas are right, and no algorithm is missing."""

import functools
import json

import bench
import pytest
from benchmarks import federated as federations
from benchmarks import learners, limits, runs, setting, tables

from omkl import algorithms, federated
from omkl.checks import learners as checks

# --- limits --------------------------------------------------------------------------------------

LEVELS = [("level 1", 1000, 0.2), ("memory", None, 0.5)]
MACHINE = {
    "sincos_ns": 1.0, "exp_add_ns": 2.0, "peak_add_ns": 0.1, "cached_add_ns": 0.25,
    "read_add": [{"from": name, "bytes": size, "ns": ns} for name, size, ns in LEVELS],
    "copy_gb_s": 4.0, "last_cache": 10_000,
}  # fmt: skip


def test_least_time_of_a_round():
    work = {"evaluated": 2.0, "distinct": 2, "N": 2, "D": 10, "d": 5}
    every = limits.least(work, MACHINE)
    assert every["kind"] == limits.ALL
    levels = limits.least(work | {"rows": 3}, MACHINE)["least_us"]
    assert levels == pytest.approx(2 * 10 * (1.0 + 5 * 0.1 + 3 * 4 * 0.25) / 1e3)
    assert every["least_us"] == pytest.approx(2 * 10 * (1.0 + 5 * 0.1 + 4 * 0.25) / 1e3)

    chosen = limits.least(work | {"N": 3, "distinct": 1}, MACHINE)  # 560 bytes: first level
    assert chosen["kind"] == limits.CHOSEN
    assert chosen["least_us"] == pytest.approx(2 * 10 * (1.0 + 5 * 0.2 + 4 * 0.25) / 1e3)
    far = limits.least(work | {"N": 3}, MACHINE)  # 1,120 bytes
    assert far["least_us"] == pytest.approx(2 * 10 * (1.0 + 5 * 0.5 + 4 * 0.25) / 1e3)

    recursive = limits.least({"waves": 0, "squares": 100, "d": 5}, MACHINE)
    assert recursive["kind"] == limits.RECURSIVE
    read = limits.read_ns(MACHINE, 400.0)
    number = read + MACHINE["cached_add_ns"] + MACHINE["peak_add_ns"]  # of 50, by symmetry
    assert recursive["least_us"] == pytest.approx(50.0 * number / 1e3)
    exact = limits.least({"evaluated": 3.0, "kinds": 2, "support": 100.0, "d": 5}, MACHINE)
    assert exact["kind"] == limits.EXACT
    assert exact["least_us"] == pytest.approx(100 * (3 * 2.0 + 2 * 5 * 0.25) / 1e3)
    stored = {"evaluated": 1.0, "kinds": 1, "support": 10.0, "d": 5, "projected": 50.0}
    features = 50 * limits.read_ns(MACHINE, 400.0)
    assert limits.least(stored, MACHINE)["least_us"] == pytest.approx(
        (10 * (2.0 + 5 * 0.25) + features) / 1e3
    )


def test_least_time_of_a_round_of_a_client():
    work = {"N": 3, "D": 10, "d": 5, "learned": 2}
    us = (3 * 10 * (1.0 + 5 * 0.1) + (2 * 3 + 4 * 2) * 10 * 0.25) / 1e3
    assert limits.least(work, MACHINE)["least_us"] == pytest.approx(us)
    assert limits.least({"parameters": 100}, MACHINE)["least_us"] == pytest.approx(225 / 1e3)


def test_memory_sets_the_least_time_where_coefficients_leave_the_caches():
    work = {"evaluated": 100.0, "distinct": 100, "N": 100, "D": 10, "d": 1}  # 16 kB of theta
    assert limits.least(work, MACHINE)["set_by"] == "memory"
    assert limits.least(work, MACHINE)["least_us"] == pytest.approx(32 * 1000 / 4.0 / 1e3)
    assert limits.least(work, MACHINE | {"last_cache": 20_000})["set_by"] == "arithmetic"


# --- every algorithm has its row -----------------------------------------------------------------


def require_a_row_of_every_algorithm(rows):
    measured = [row["algorithm"] for row in rows if "missing" not in row]
    missing = [row["algorithm"] for row in rows if "missing" in row]
    assert sorted(measured + missing) == sorted(algorithms.names())
    kinds = {row["algorithm"]: row["kind"] for row in rows if "kind" in row}
    assert (kinds["raker"], kinds["amkl"]) == (limits.ALL, limits.ALL)
    assert (kinds["sfg"], kinds["omkr"]) == (limits.CHOSEN, limits.EXACT)


def test_every_federated_learner_has_a_row():
    X, y = checks.stream()
    rows = setting.Rows("made up", X, y)
    found = learners.beside(federations.measure(rows, seconds=0.0), MACHINE)
    assert [row["algorithm"] for row in found] == federated.names()
    assert all(row["kind"] == limits.FEDERATED for row in found)
    assert tables.federated_table({"federated": found}).count("POF-MKL") == 1


@pytest.mark.slow
def test_runs_are_measured_beside_their_learner():
    few = {name: (chosen, 400) for name, (chosen, _) in runs.KINDS.items() if "idge" in name}
    federation = {"federated": (["algorithm=ofskl", *runs.CLIENTS, *runs.SYNTHETIC], 400)}
    found = runs.measure(few | federation)
    assert [row["pyarrow_us"] is None for row in found] == [False, True]
    assert all(row["learner_us"] > 0.0 for row in found)
    assert "file, ridge" in tables.run_table({"runs": found})


# --- the command ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_prints_and_writes_every_algorithm(tmp_path, monkeypatch, capsys):
    few = setting.grid(20)
    monkeypatch.setattr(setting, "kernels", lambda: few)
    arrays = functools.partial(limits.measure, seconds=0.001, largest=1 << 20)
    monkeypatch.setattr(limits, "measure", lambda seconds: arrays())
    monkeypatch.setattr(learners, "ROUNDS", 4)
    monkeypatch.setattr(learners, "EXACT_ROUNDS", 4)
    measure = learners.measure
    monkeypatch.setattr(learners, "measure", lambda rows, seconds: measure(rows, 0.001))
    assert bench.main(["--only", "limits", "learners", "--outputs", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "bench.json").read_text())
    require_a_row_of_every_algorithm(found["learners"])
    printed = capsys.readouterr().out
    assert "## limits" in printed and "## learners" in printed
    assert found["machine"]["processor"] in printed
