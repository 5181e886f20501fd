"""The MLflow view: what it holds, that it can be lost, and that it never harms a run."""

import errno
import importlib.util
import json
import multiprocessing
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from filelock import FileLock

from omkl.experiment import viewers
from omkl.report import tracking
from omkl.report.tracking import TrackingError
from omkl.runs.run_folder import Run
from tests.compositions import compose
from tests.conftest import change


@pytest.fixture
def outputs(tmp_path, empty_database):
    folder = tmp_path / "outputs"
    folder.mkdir()
    shutil.copy(empty_database, folder / "mlflow.db")
    return folder


@pytest.fixture
def quick_creation(monkeypatch, empty_database):
    """New databases without MLflow's migrations."""
    make = tracking._client

    def client_of(database):
        if not database.exists():
            shutil.copy(empty_database, database)
        return make(database)

    monkeypatch.setattr(tracking, "_client", client_of)


SO_FAR = "curves/MSE so far in 1e-3"


def client(outputs):
    return tracking._client(outputs / "mlflow.db")


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def all_runs(outputs):
    found = client(outputs)
    ids = [experiment.experiment_id for experiment in found.search_experiments()]
    return found.search_runs(ids) if ids else []


# --- the content of a run


def test_content(outputs, run_folder_maker):
    folder = run_folder_maker(outputs, "sfg_r", n_rounds=3000, params={"eta": 0.1, "M": 10})
    (folder / "mse.png").write_bytes(b"png")
    (folder / ".result.json.1.tmp").write_bytes(b"half")
    run_id = tracking.log_run(folder, outputs)

    result = json.loads((folder / "result.json").read_text())
    run = client(outputs).get_run(run_id)
    assert client(outputs).get_experiment(run.info.experiment_id).name == "airfoil"
    assert run.info.run_name == "sfg_r M=10 eta=0.1 seeds=3"
    assert run.info.status == "FINISHED"
    assert run.info.start_time == 1767225600000  # 2026-01-01 UTC in ms
    assert run.info.end_time - run.info.start_time == 500
    assert run.data.params == {
        "algorithm.name": "sfg_r", "algorithm.lam": "0.001", "algorithm.eta": "0.1",
        "algorithm.M": "10", "dataset.name": "airfoil", "regret.lam": "0.001", "D": "50",
        "seeds": "3", "seed": "0",
    }  # fmt: skip
    metrics = dict(run.data.metrics)
    so_far, last = metrics.pop("curves/MSE so far in 1e-3"), 1e3 * result["mse_mean"]
    assert so_far == pytest.approx(last, rel=1e-12)
    assert metrics.pop("curves/MSE of a window in 1e-3") == pytest.approx(last, rel=0.2)
    regret = result["regret"]["ridge_features"]["mean"]
    assert metrics.pop("curves/regret") == metrics.pop("final/regret") == regret
    assert metrics == {
        "final/MSE in 1e-3": last,
        "mse": result["mse_mean"],
        "mse_std": result["mse_std"],
        "seconds": 0.5,
        "kernels_per_round": 76.0,
        "regret_ridge_features": result["regret"]["ridge_features"]["mean"],
    }
    tags = run.data.tags
    expected = {
        "key": "00000000", "algorithm": "sfg_r", "dataset": "airfoil", "status": "complete",
        "commit": "abc1234", "numbers": "feedbeef", "versions": "omkl 0.1.0, numpy 2.4.6",
        "folder": "runs/airfoil/sfg_r-00000000",
    }  # fmt: skip
    assert expected.items() <= tags.items() and "error" not in tags
    files = {"config.yaml", "result.json", "results.parquet", "curves.npz", "mse.png"}
    assert {item.path for item in client(outputs).list_artifacts(run_id)} == files


def test_the_charts_that_a_page_begins_with_are_those_over_time(outputs, run_folder_maker):
    """MLflow sorts sections by name, "Model metrics" last, and the charts in each."""
    folder = run_folder_maker(outputs)
    baselines = {"mean": {"rmse": 0.5, "mae": 0.4, "mse": 0.05}}
    change(folder, al_efficiency=0.5, labels=200.0, baselines=baselines, rmse=0.3)
    run = client(outputs).get_run(tracking.log_run(folder, outputs))
    charts = sorted(run.data.metrics, key=lambda name: ("/" not in name, name))
    assert charts[:5] == [
        "curves/MSE of a window in 1e-3",
        SO_FAR,
        "curves/regret",
        "final/MSE in 1e-3",
        "final/regret",
    ]
    assert run.data.metrics["al_efficiency"] == 0.5, "where labels cost"


def test_the_data_are_mlflows_data_set_by_their_sha256(outputs, run_folder_maker):
    folder = run_folder_maker(outputs)
    files = [{"name": "airfoil.dat", "bytes": 5, "sha256": "ab" * 32}]
    change(folder, stream={"name": "airfoil", "files": files, "url": "https://a.b/c"})
    (given,) = client(outputs).get_run(tracking.log_run(folder, outputs)).inputs.dataset_inputs
    assert (given.dataset.name, given.dataset.digest) == ("airfoil", ("ab" * 32)[:36])
    assert json.loads(given.dataset.source) == {"files": files, "url": "https://a.b/c"}
    assert json.loads(given.dataset.profile) == {"rows": 400, "inputs": 5}


def test_files_are_not_stored_twice(outputs, run_folder_maker, monkeypatch):
    folder = run_folder_maker(outputs)
    (folder / "labels.csv").write_text("row,label\n")

    def linked(name):
        artifacts = outputs / "mlartifacts" / "airfoil" / run_id / "artifacts"
        assert (artifacts / name).read_bytes() == (folder / name).read_bytes()
        return os.path.samefile(folder / name, artifacts / name)

    run_id = tracking.log_run(folder, outputs)
    assert linked("curves.npz") and linked("result.json")
    assert not linked("labels.csv"), "it grows"

    def refused(*names, **how):
        raise OSError(errno.EXDEV, "another disk")

    monkeypatch.setattr(os, "link", refused)
    change(folder, seconds=9.0)
    run_id = tracking.log_run(folder, outputs)
    assert not linked("curves.npz")


@pytest.fixture
def sweep(outputs, run_folder_maker):
    """Raker and GF on two data sets, and another run that is of no sweep."""
    sweep = outputs / "sweeps" / "2026"
    (sweep / "jobs").mkdir(parents=True)
    (sweep / "sweep.json").write_text("{}")
    (sweep / "table.md").write_text("| a table |")
    (sweep / "comparison.png").write_bytes(b"png")
    names = [(a, d) for a in ("raker", "gf") for d in ("airfoil", "naval")]
    for number, (algorithm, dataset) in enumerate(names):
        run = run_folder_maker(outputs, algorithm, dataset, n_rounds=30)
        fact = {"number": number, "status": "complete", "tracked": True}
        fact["folder"] = os.path.relpath(run, sweep / "jobs")
        (sweep / "jobs" / f"{dataset}-{run.name}.json").write_text(json.dumps(fact))
        tracking.log_run(run, outputs)
    tracking.log_run(run_folder_maker(outputs, "sfg", n_rounds=30), outputs)
    return sweep


def test_a_sweep_is_a_run_above_its_runs(sweep, outputs, quick_creation):
    n_rebuilt = []

    def rebuild(*_):
        n_rebuilt.append(tracking.rebuild(outputs))

    for write in (tracking.log_sweep, tracking.log_sweep, rebuild):
        write(sweep, outputs)
        runs = {run.info.run_id: run for run in all_runs(outputs)}
        parents = {i: run for i, run in runs.items() if "sweep" in run.data.tags}
        assert len(runs) == 5 + 2 and len(parents) == 2, "one an experiment, however often written"
        for run in runs.values():
            above = run.data.tags.get("mlflow.parentRunId")
            if run.data.tags.get("algorithm") in ("raker", "gf"):
                assert parents[above].info.experiment_id == run.info.experiment_id
            else:
                assert above is None
        for run_id, run in parents.items():
            assert run.info.run_name == "sweep of 2: raker, gf"
            assert run.data.tags["mlflow.note.content"] == "| a table |"
            files = {item.path for item in client(outputs).list_artifacts(run_id)}
            assert files == {"table.md", "comparison.png"}
    assert n_rebuilt == [5], "parents are no runs of ours"


def test_what_libraries_warn_of_is_ignored_before_a_thread_imports_them(tmp_path, monkeypatch):
    monkeypatch.setattr(tracking, "prepare", lambda outputs: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settings = SimpleNamespace(tracking="mlflow", outputs=tmp_path)
        viewers.Viewers().begun(SimpleNamespace(settings=settings))
        warnings.warn("SOCKS support in urllib3 requires the installation of ...", stacklevel=1)


def test_a_long_table_is_cut_after_a_row():
    kept = tracking.shortened("| Raker | 0.1 |\n" * 600)
    assert len(kept) <= tracking.NOTE_LENGTH and kept.endswith("table.md has all rows.\n")
    assert set(kept.partition("\n\n")[0].splitlines()) == {"| Raker | 0.1 |"}


@pytest.mark.parametrize("n_rounds", [1, 501, 3000])
def test_curve_has_at_most_500_points_with_both_ends(outputs, run_folder_maker, n_rounds):
    folder = run_folder_maker(outputs, n_rounds=n_rounds, n_seeds=2)
    run_id = tracking.log_run(folder, outputs)
    history = client(outputs).get_metric_history(run_id, SO_FAR)
    steps = [point.step for point in history]
    assert steps == sorted(set(steps))
    assert len(steps) <= 500
    assert (steps[0], steps[-1]) == (1, n_rounds)
    with np.load(folder / "curves.npz") as curves:
        expected = 1e3 * curves["mse"].mean(axis=0)[np.array(steps) - 1]
    np.testing.assert_allclose([point.value for point in history], expected, rtol=1e-12)


def test_a_failed_run_and_one_of_one_seed(outputs, run_folder_maker):
    folder = run_folder_maker(outputs, failed=True)
    run = client(outputs).get_run(tracking.log_run(folder, outputs))
    assert (run.info.status, run.data.metrics) == ("FAILED", {})
    assert run.data.tags["error"] == "ValueError: algorithm.M=90 is larger than N=76"
    folder = run_folder_maker(outputs, "gf", n_seeds=1)
    run = client(outputs).get_run(tracking.log_run(folder, outputs))
    assert run.info.status == "FINISHED"
    assert "mse_std" not in run.data.metrics and "mse" in run.data.metrics


def test_odd_configurations(outputs, run_folder_maker):
    folder = run_folder_maker(outputs)
    wide = "".join(f"  p{number}: {number}\n" for number in range(150))
    (folder / "config.yaml").write_text(
        "algorithm:\n" + wide + f"long: {'x' * 7000}\nlist: [1, {{a: 2}}]\nnone: null\n"
        "empty: {}\n'ä/b[c]': true\ntext: ''\nthreads: 4\noutputs: /somewhere\n"
    )
    params = client(outputs).get_run(tracking.log_run(folder, outputs)).data.params
    assert params["algorithm.p149"] == "149"
    assert len(params["long"]) == 6000
    assert params["list"] == '[1, {"a": 2}]'
    assert params["none"] == "null" and params["empty"] == "{}" and params["text"] == ""
    assert params["__b_c_"] == "true"
    assert "threads" not in params and "outputs" not in params


def test_infinite_values_are_left_out(outputs, run_folder_maker):
    folder = run_folder_maker(outputs, n_rounds=5)
    mse = Run(folder).curves["mse"].copy()
    mse[:, 3:] = [np.inf, np.nan]
    change(folder, {"mse": mse})
    run_id = tracking.log_run(folder, outputs)
    steps = [point.step for point in client(outputs).get_metric_history(run_id, SO_FAR)]
    assert steps == [1, 2, 3]


# --- writing twice, and from several processes


def test_the_same_content_is_written_once_and_a_new_one_replaces_it(outputs, run_folder_maker):
    folder = run_folder_maker(outputs)
    first = tracking.log_run(folder, outputs)
    size = (outputs / "mlflow.db").read_bytes()
    assert tracking.log_run(folder, outputs) == first
    assert (outputs / "mlflow.db").read_bytes() == size

    change(folder, seconds=9.0)
    second = tracking.log_run(folder, outputs)
    assert second != first
    assert [run.info.run_id for run in all_runs(outputs)] == [second]
    assert [path.name for path in (outputs / "mlartifacts" / "airfoil").iterdir()] == [second]


def test_a_copied_folder_is_a_run_of_its_own(outputs, run_folder_maker):
    folder = run_folder_maker(outputs)
    copy = shutil.copytree(folder, folder.with_name("copy"))
    change(copy, seconds=9.0)
    ids = [tracking.log_run(path, outputs) for path in (folder, copy, folder)]
    assert ids[0] == ids[2] != ids[1]
    assert len(all_runs(outputs)) == 2


@pytest.mark.parametrize(
    ("error", "raised"), [(OSError(28, "No space left on device"), TrackingError),
                          (KeyboardInterrupt(), KeyboardInterrupt)],
)  # fmt: skip
def test_a_run_that_was_cut_short_is_replaced(
    outputs, run_folder_maker, monkeypatch, error, raised
):
    folder = run_folder_maker(outputs)

    def interrupted(*what):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(tracking, "link_all", interrupted)
        with pytest.raises(raised):
            tracking.log_run(folder, outputs)
    run_id = tracking.log_run(folder, outputs)
    assert [run.info.run_id for run in all_runs(outputs)] == [run_id]


def test_holds_what_is_logged(outputs, run_folder_maker, quick_creation):
    run = Run(run_folder_maker(outputs))
    assert not tracking.holds(run, outputs)
    tracking.log_run(run.folder, outputs)
    assert tracking.holds(run, outputs)
    change(run.folder, seconds=9.0)
    assert not tracking.holds(Run(run.folder), outputs)
    assert tracking.rebuild(outputs) == 1
    assert tracking.holds(Run(run.folder), outputs) and not tracking.holds(run, outputs)
    (outputs / "mlflow.db").unlink()
    assert not tracking.holds(Run(run.folder), outputs)
    tracking.prepare(outputs)
    assert not tracking.holds(Run(run.folder), outputs), "the new database is empty"


def log_at_once(barrier, folders, outputs, said):
    warnings.simplefilter("error")
    for number in (1, 2):
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    barrier.wait()
    for folder in folders:
        tracking.log_run(folder, outputs)


@pytest.mark.slow(8)
def test_four_processes_on_a_fresh_folder(tmp_path, run_folder_maker):
    outputs, said = tmp_path / "outputs", tmp_path / "said"
    folders = [
        [run_folder_maker(outputs, "raker", key=f"{n:04}{k:04}") for k in range(2)]
        for n in range(4)
    ]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["omkl.report.tracking", "mlflow.store.tracking.sqlalchemy_store"]
    )
    barrier = context.Barrier(4)
    workers = [
        # Each process also logs a run that another one logs.
        context.Process(target=log_at_once, args=(barrier, [*own, folders[0][0]], outputs, said))
        for own in folders
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert said.read_text() == ""
    runs = all_runs(outputs)
    assert len(runs) == 8
    assert {run.data.tags["key"] for run in runs} == {f.name[-8:] for own in folders for f in own}
    left = {path.name for path in outputs.iterdir()}
    assert left == {".mlflow.lock", "mlartifacts", "mlflow.db", "runs"}


def test_lock_names_the_file_and_gives_up(outputs, run_folder_maker, monkeypatch):
    folder = run_folder_maker(outputs)
    monkeypatch.setattr(tracking, "LOCK_SECONDS", 0.1)
    with (
        FileLock(outputs / ".mlflow.lock"),
        pytest.raises(TrackingError, match=r"mlflow\.lock for 0\.1 s.*rebuild-tracking"),
    ):
        tracking.log_run(folder, outputs)


# --- errors


@pytest.mark.parametrize("damage", ["text", "half migrated", "page", "outdated"])
def test_corrupt_database(outputs, run_folder_maker, quick_creation, damage):
    folder = run_folder_maker(outputs)
    if damage != "outdated":  # MLflow looks at the version once in a process
        tracking.log_run(folder, outputs)
    database = outputs / "mlflow.db"
    if damage == "text":
        database.write_text("this is no database, " * 1000)
    elif damage != "page":
        statement = "UPDATE alembic_version SET version_num = '0a8213491aaa'"
        if damage == "half migrated":
            database.unlink()
            statement = "CREATE TABLE experiments (a INTEGER)"
        connection = sqlite3.connect(database)
        connection.execute(statement)
        connection.commit()
        connection.close()
    else:
        raw = bytearray(database.read_bytes())
        for start in range(4096, len(raw), 4096):
            raw[start : start + 100] = b"\xff" * 100
        database.write_bytes(raw)
    change(folder, seconds=2.0)
    with pytest.raises(TrackingError, match=r"mlflow\.db .*rebuild-tracking.*tracking=none"):
        tracking.log_run(folder, outputs)
    tracking.prepare(outputs)  # says nothing
    assert tracking.rebuild(outputs) == 1
    assert len(all_runs(outputs)) == 1


def test_paths_that_mlflow_can_take_and_not(tmp_path, run_folder_maker, quick_creation):
    folder = run_folder_maker(tmp_path / "50% off")
    with pytest.raises(TrackingError, match=r"contains \? or %"):
        tracking.log_run(folder, tmp_path / "50% off")
    outputs = tmp_path / "my outputs #1 ä"
    folder = run_folder_maker(outputs)
    run_id = tracking.log_run(folder, outputs)
    assert "curves.npz" in {item.path for item in client(outputs).list_artifacts(run_id)}
    assert (outputs / "mlartifacts" / "airfoil" / run_id).is_dir()


# --- making it anew


def test_rebuild_after_a_move(outputs, tmp_path, run_folder_maker, quick_creation):
    folders = [run_folder_maker(outputs, name) for name in ("raker", "gf")]
    folders.append(run_folder_maker(outputs, "sfg", dataset="naval", failed=True))
    old = [tracking.log_run(folder, outputs) for folder in folders]
    moved = tmp_path / "elsewhere"
    outputs.rename(moved)

    folder = run_folder_maker(moved, "sfg")
    with pytest.raises(TrackingError, match="made for another place"):
        tracking.log_run(folder, moved)
    with pytest.raises(TrackingError, match="made for another place"):
        tracking.ui(moved, free_port())

    assert tracking.rebuild(moved) == 4
    assert not outputs.exists()
    runs = all_runs(moved)
    assert len(runs) == 4 and not {run.info.run_id for run in runs} & set(old)
    for run in runs:
        paths = [item.path for item in client(moved).list_artifacts(run.info.run_id)]
        assert "result.json" in paths
        copy = client(moved).download_artifacts(run.info.run_id, "result.json", str(tmp_path))
        assert json.loads(Path(copy).read_text())["key"] == "00000000"
    kept = {path.name for path in (moved / "mlartifacts").glob("*/*")}
    assert kept == {run.info.run_id for run in runs}
    assert tracking.log_run(folder, moved) in kept


def test_rebuild_leaves_out_what_it_cannot_read(outputs, run_folder_maker, quick_creation, capsys):
    run_folder_maker(outputs)
    (run_folder_maker(outputs, "gf") / "result.json").write_text('{"status": ')
    (run_folder_maker(outputs, "sfg") / "curves.npz").write_bytes(b"no archive")
    (run_folder_maker(outputs, "sfg_r") / "config.yaml").write_text("a: [")
    assert tracking.rebuild(outputs) == 1
    assert capsys.readouterr().err.count("is damaged and left out") == 3


@pytest.mark.parametrize("command", [tracking.rebuild, tracking.ui])
def test_a_view_of_nothing(tmp_path, command):
    with pytest.raises(TrackingError, match=r"no run folders below .*: nothing to show"):
        command(tmp_path)
    assert not (tmp_path / "mlflow.db").exists()


# --- the import, and the user interface


def test_ui_on_a_port_in_use(outputs):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(TrackingError, match=rf"port {port} is in use: choose another"):
            tracking.ui(outputs, port)


def test_ui_makes_the_view_first(tmp_path, run_folder_maker, quick_creation, monkeypatch, capsys):
    run_folder_maker(tmp_path)
    served = []
    monkeypatch.setattr(tracking, "_serve", lambda *what: served.append(what))
    port = free_port()
    tracking.ui(tmp_path, port)
    assert served == [(tmp_path / "mlflow.db", port)]
    assert len(all_runs(tmp_path)) == 1
    address = f"http://127.0.0.1:{port}/#/experiments/1/runs"
    assert f"airfoil  {address}?workflowType=machine_learning" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ui_serves_until_a_signal_and_leaves_nothing(outputs, run_folder_maker, tmp_path, number):
    """And runs nothing that lies in the outputs folder, which may be a stranger's."""
    tracking.log_run(run_folder_maker(outputs), outputs)
    for name in ("flask", "mlflow", "uvicorn", "sqlalchemy"):
        mark = f"open({str(tmp_path / 'executed')!r}, 'w')\nraise SystemExit(7)\n"
        (outputs / f"{name}.py").write_text(mark)
    port = free_port()
    code = (
        "import sys; from pathlib import Path; from omkl.report import tracking\n"
        "tracking.ui(Path(sys.argv[1]), int(sys.argv[2]))\n"
    )
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", code, str(outputs), str(port)],
        stdout=quiet, stderr=quiet, cwd=outputs, start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                url = f"http://127.0.0.1:{port}/health"
                with urllib.request.urlopen(url, timeout=5) as answer:
                    assert answer.status == 200
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.1)
        process.send_signal(number)
        process.wait(timeout=30)
        with pytest.raises(ProcessLookupError):  # whoever it has started has ended as well
            os.killpg(process.pid, 0)
    finally:
        process.kill()
        process.wait()
    assert not (tmp_path / "executed").exists()


def test_without_mlflow_runs_are_folders_and_it_is_said_once(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    quick = ("seeds=1", "D=2", "kernels=gaussian17", "figures=false", f"outputs={tmp_path}")
    notes = []
    for algorithm in ("raker", "mean"):
        config = compose([*quick, f"algorithm={algorithm}", "dataset.rows=50"])
        outcome = viewers.run_and_show(config)
        assert outcome.status == "complete" and not outcome.tracked
        notes.append([note for note in outcome.notes if "MLflow" in note])
    assert len(notes[0]) == 1 and "[mlflow]'" in notes[0][0] and notes[1] == []
    typed = compose([*quick, "algorithm=last", "dataset.rows=50", "tracking=mlflow"])
    failed = viewers.run_and_show(typed)
    assert "tracking=mlflow needs MLflow" in failed.run.result["error"]["message"]
    for act in (tracking.ui, tracking.rebuild):
        with pytest.raises(TrackingError, match=r"pip install .*\[mlflow\]'"):
            act(tmp_path)
