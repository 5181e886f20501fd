"""The MLflow view: what it holds, that it can be lost, and that it never harms a run."""

import importlib.util
import json
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import warnings
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

pytest.importorskip("mlflow", reason="MLflow is an extra")

import mlflow

from omkl.experiment import viewers
from omkl.report import tracking
from omkl.report.tracking import TrackingError
from omkl.runs.run_folder import Run, jobs_of
from tests.compositions import compose
from tests.conftest import change, configure, seal

SO_FAR = "curves/mean squared error"


@pytest.fixture
def outputs(tmp_path, empty_database):
    folder = tmp_path / "outputs"
    folder.mkdir()
    shutil.copy(empty_database, folder / "mlflow.db")
    return folder


def client(outputs):
    return mlflow.MlflowClient(tracking.uri(outputs))


def log(run, outputs):
    (run_id,) = tracking.log([run], outputs)
    return run_id


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def all_runs(outputs):
    found = client(outputs)
    ids = [experiment.experiment_id for experiment in found.search_experiments()]
    return found.search_runs(ids) if ids else []


# --- the content of a run -------------------------------------------------------------------------


def test_a_run_has_settings_numbers_curves_and_files(outputs, run_folder_maker):
    folder = run_folder_maker(outputs, "sfg_r", n_rounds=3000, params={"eta": 0.1, "M": 10})
    for name in ("predictions.parquet", "model.npz"):
        (folder / name).write_bytes(b"large")
    seal(folder)
    (folder / "figures").mkdir()
    (folder / "figures" / "mse.png").write_bytes(b"png")
    run_id = log(Run(folder), outputs)

    result = json.loads((folder / "result.json").read_text())
    run = client(outputs).get_run(run_id)
    assert client(outputs).get_experiment(run.info.experiment_id).name == "airfoil"
    assert run.info.run_name == "OMKL-SFG-R"
    assert (run.info.status, run.info.start_time) == ("FINISHED", 1767225600000)
    assert run.data.params == {
        "algorithm.name": "sfg_r", "algorithm.lam": "0.001", "algorithm.eta": "0.1",
        "algorithm.M": "10", "dataset.name": "airfoil", "regret.lam": "0.001", "D": "50",
        "seeds": "3", "seed": "0",
    }  # fmt: skip
    metrics = run.data.metrics
    for name in ("mse_mean", "mse_std", "seconds", "kernels_per_round"):
        assert metrics[name] == pytest.approx(result[name])
    assert metrics[SO_FAR] == pytest.approx(result["mse_mean"])
    regret = result["regret"]["ridge_features"]["mean"]
    assert metrics["regret.ridge_features.mean"] == pytest.approx(regret)
    assert metrics["curves/regret_ridge_features"] == pytest.approx(regret)
    expected = {"key": "00000000", "algorithm": "sfg_r", "dataset": "airfoil", "status": "complete",
                "commit": "abc1234", "stamp": "feedbeef",
                "folder": "runs/airfoil/sfg_r-00000000-feedbeef"}  # fmt: skip
    assert expected.items() <= run.data.tags.items()
    assert "MSE " in run.data.tags["mlflow.note.content"]
    files = {"config.json", "result.json", "curves.npz", "mse.png"}
    assert {item.path for item in client(outputs).list_artifacts(run_id)} == files


def test_a_failed_run_is_marked_as_failed(outputs, run_folder_maker):
    folder = run_folder_maker(outputs, failed=True)
    run = client(outputs).get_run(log(Run(folder), outputs))
    assert (run.info.status, run.data.metrics) == ("FAILED", {})
    assert run.data.tags["error"] == "ValueError: algorithm.M=90 is larger than N=76"


def test_odd_configurations_and_infinite_numbers(outputs, run_folder_maker):
    folder = run_folder_maker(outputs, n_rounds=5)
    wide = {f"p{number}": number for number in range(150)}
    odd = {"long": "x" * 7000, "list": [1, {"a": 2}], "none": None, "empty": {}, "ä/b[c]": True}
    configure(folder, algorithm=wide, **odd, text="", threads=4, outputs="/somewhere")
    mse = Run(change(folder).folder).curves["mse"].copy()
    mse[:, 3:] = [np.inf, np.nan]
    run_id = log(change(folder, {"mse": mse}), outputs)
    params = client(outputs).get_run(run_id).data.params
    assert params["algorithm.p149"] == "149" and len(params["long"]) == 6000
    assert params["list"] == '[1, {"a": 2}]' and params["_/b_c_"] == "true"
    assert params["none"] == "null" and params["empty"] == "{}" and params["text"] == ""
    assert "threads" not in params and "outputs" not in params
    steps = [point.step for point in client(outputs).get_metric_history(run_id, SO_FAR)]
    assert steps == [1, 2, 3]


def test_a_sweep_is_a_run_above_its_runs(outputs, run_folder_maker):
    sweep = outputs / "sweeps" / "2026"
    (sweep / "jobs").mkdir(parents=True)
    (sweep / "sweep.json").write_text("{}")
    (sweep / "table.md").write_text("| a table |")
    names = [(a, d) for a in ("raker", "gf") for d in ("airfoil", "naval")]
    for number, (algorithm, dataset) in enumerate(names):
        run = run_folder_maker(outputs, algorithm, dataset, n_rounds=30)
        fact = {"number": number, "status": "complete"}
        fact["folder"] = os.path.relpath(run, sweep / "jobs")
        (sweep / "jobs" / f"{dataset}-{run.name}.json").write_text(json.dumps(fact))
    log(Run(run_folder_maker(outputs, "sfg", n_rounds=30)), outputs)
    for _ in range(2):
        tracking.log(jobs_of(sweep), outputs, sweep)
        runs = {run.info.run_id: run for run in all_runs(outputs)}
        parents = {i: run for i, run in runs.items() if "sweep" in run.data.tags}
        assert len(runs) == 5 + 2 and len(parents) == 2, "one per data set, however often logged"
        for run in runs.values():
            above = run.data.tags.get("mlflow.parentRunId")
            if run.data.tags.get("algorithm") in ("raker", "gf"):
                assert parents[above].info.experiment_id == run.info.experiment_id
            else:
                assert above is None
        for run in parents.values():
            assert run.info.run_name == "sweep of 2: Raker, OMKL-GF"
            assert run.data.tags["mlflow.note.content"] == "| a table |"


# --- where and when -------------------------------------------------------------------------------


def test_the_server_that_the_user_names_is_used(tmp_path, outputs, run_folder_maker, monkeypatch):
    """A database of the user's stands for it."""
    shutil.move(outputs / "mlflow.db", tmp_path / "mine.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mine.db")
    monkeypatch.chdir(tmp_path)
    run = Run(run_folder_maker(outputs))
    log(run, outputs)
    assert not (outputs / "mlflow.db").exists()
    assert tracking.rebuild(outputs) == 1
    assert len(all_runs(outputs)) == 1
    with pytest.raises(TrackingError, match=r"mine\.db \(MLFLOW_TRACKING_URI\): look there"):
        tracking.ui(outputs)


def test_a_run_that_was_cut_short_is_replaced(outputs, run_folder_maker, monkeypatch):
    run = Run(run_folder_maker(outputs))

    def interrupted(*what):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(tracking, "_curves", interrupted)
        with pytest.raises(TrackingError):
            log(run, outputs)
    run_id = log(run, outputs)
    assert [run.info.run_id for run in all_runs(outputs)] == [run_id]


def log_at_once(barrier, folders, outputs, said):
    warnings.simplefilter("error")
    for number in (1, 2):
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    barrier.wait()
    for folder in folders:
        log(Run(folder), outputs)


@pytest.mark.slow(8)
def test_three_processes_on_a_fresh_folder(tmp_path, run_folder_maker):
    outputs, said = tmp_path / "outputs", tmp_path / "said"
    folders = [
        [run_folder_maker(outputs, "raker", key=f"{n:04}{k:04}") for k in range(2)]
        for n in range(3)
    ]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["omkl.report.tracking", "mlflow.store.tracking.sqlalchemy_store"]
    )
    barrier = context.Barrier(3)
    workers = [
        # Each process also logs a run that another one logs.
        context.Process(target=log_at_once, args=(barrier, [*own, folders[0][0]], outputs, said))
        for own in folders
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0] * 3
    assert said.read_text() == ""
    runs = all_runs(outputs)
    names = {folder.name for own in folders for folder in own}
    assert len(runs) == 6 and {Path(run.data.tags["folder"]).name for run in runs} == names


def test_a_lock_that_is_held_is_named(outputs, run_folder_maker, monkeypatch):
    monkeypatch.setattr(tracking, "LOCK_SECONDS", 0.1)
    with (
        FileLock(outputs / ".mlflow.lock"),
        pytest.raises(TrackingError, match=r"mlflow\.lock for 0\.1 s.*rebuild-tracking"),
    ):
        log(Run(run_folder_maker(outputs)), outputs)


# --- making it again ------------------------------------------------------------------------------


@pytest.mark.slow(2)
def test_a_damaged_database_is_made_again(outputs, run_folder_maker):
    run = Run(run_folder_maker(outputs))
    (outputs / "mlflow.db").write_text("this is no database, " * 1000)
    with pytest.raises(TrackingError, match=r"mlflow\.db .*rebuild-tracking.*tracking=none"):
        log(run, outputs)
    assert tracking.rebuild(outputs) == 1
    assert len(all_runs(outputs)) == 1


def test_a_path_that_mlflow_cannot_take_is_named(tmp_path, run_folder_maker):
    with pytest.raises(TrackingError, match=r"contains \? or %"):
        log(Run(run_folder_maker(tmp_path / "50% off")), tmp_path / "50% off")


@pytest.mark.slow(2)
def test_a_view_that_was_moved_is_made_again(outputs, tmp_path, run_folder_maker, capsys):
    for name in ("raker", "gf"):
        log(Run(run_folder_maker(outputs, name)), outputs)
    moved = tmp_path / "my outputs #1 ä"
    outputs.rename(moved)
    folder = run_folder_maker(moved, "sfg")
    with pytest.raises(TrackingError, match="made for another place"):
        log(Run(folder), moved)
    (run_folder_maker(moved, "sfg_r") / "result.json").write_text('{"status": ')
    assert tracking.rebuild(moved) == 3
    assert "cannot be read and is left out" in capsys.readouterr().err
    assert not outputs.exists() and len(all_runs(moved)) == 3
    for run in all_runs(moved):
        copy = client(moved).download_artifacts(run.info.run_id, "result.json", str(tmp_path))
        assert json.loads(Path(copy).read_text())["key"] == "00000000"


@pytest.mark.parametrize("command", [tracking.rebuild, tracking.ui])
def test_a_view_of_nothing(tmp_path, command):
    with pytest.raises(TrackingError, match=r"no runs in .*: nothing to show"):
        command(tmp_path)
    assert not (tmp_path / "mlflow.db").exists()


# --- the import, and the user interface -----------------------------------------------------------


def test_ui_on_a_port_in_use(outputs):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(TrackingError, match=rf"port {port} is in use: choose another"):
            tracking.ui(outputs, port)


def test_ui_makes_the_view_first(tmp_path, run_folder_maker, monkeypatch, capsys):
    run_folder_maker(tmp_path)
    served = []
    monkeypatch.setattr(tracking, "_serve", lambda *what: served.append(what))
    port = free_port()
    tracking.ui(tmp_path, port)
    assert served == [(tracking.uri(tmp_path), port)]
    assert len(all_runs(tmp_path)) == 1
    address = f"http://127.0.0.1:{port}/#/experiments/1/runs"
    assert f"airfoil  {address}?workflowType=machine_learning" in capsys.readouterr().out


@pytest.mark.slow
def test_ui_serves_until_a_signal_and_leaves_nothing(outputs, run_folder_maker, tmp_path):
    """And runs nothing that lies in the outputs folder, which may be a stranger's."""
    log(Run(run_folder_maker(outputs)), outputs)
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
        process.send_signal(signal.SIGTERM)
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
        outcome = viewers.run_and_draw(config)
        assert outcome.status == "complete"
        notes.append(viewers.track([outcome.run], config))
    assert "pip install 'mlflow" in notes[0] and notes[1] is None
    typed = compose([*quick, "algorithm=last", "dataset.rows=50", "tracking=mlflow"])
    failed = viewers.run_and_draw(typed)
    assert "tracking=mlflow needs MLflow" in failed.run.result["error"]["message"]
    for act in (tracking.ui, tracking.rebuild):
        with pytest.raises(TrackingError, match="pip install 'mlflow"):
            act(tmp_path)
