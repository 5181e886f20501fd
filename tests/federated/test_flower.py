"""On Flower: the numbers of the simulation, and rounds that go on when clients fail."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install -e '.[flower]'")

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

import omkl
from omkl import federated
from omkl.federated import parties
from omkl.federation.flower import __main__ as command
from omkl.federation.flower import app_folder, apps, deployment, in_process, records

K, T = 4, 12
LINE = (
    "dataset=synthetic dataset.rows=400 kernels=gaussian17 federation=iid "
    f"clients={K} federation.rounds={T} seeds=1"
)
OPEN = ["F", "inputs=a", "target=y", "insecure=true"]
JOIN = ["--data", "-", "--target", "y", "--superlink", "localhost:1"]
POF = f"algorithm=pof_mkl algorithm.M=3 algorithm.xi=0.5 {LINE}"


@pytest.mark.parametrize("name", federated.names())
def test_the_grid_gives_the_simulation(name):
    line = POF if name == "pof_mkl" else f"algorithm={name} {LINE}"
    flown = in_process.run_on_grid(line)
    assert flown.events == []
    assert apps.difference(line, flown) <= 1e-12
    federation = apps.job_of(line).federation(0)
    split = apps.job_of(line).split
    regret = federation.partial_fit(split.X, split.y).regret
    np.testing.assert_allclose(flown.regret, regret, rtol=0, atol=1e-12)
    np.testing.assert_allclose(flown.theta, federation.server.model.theta, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(flown.numbers, federation.totals.sent[:, 0])


def test_clients_of_unequal_length(tmp_path):
    """A client at the end of its stream is asked no more; the others go on."""
    who = ["ann"] * 12 + ["bob"] * 3 + ["cid"] * 7
    lines = ["x,who,y", *(f"{np.sin(n):.6f},{name},{n % 5}" for n, name in enumerate(who))]
    (tmp_path / "own.csv").write_text("\n".join(lines) + "\n")
    line = f"algorithm=pof_mkl algorithm.M=3 dataset=file dataset.path={tmp_path / 'own.csv'}"
    line += " dataset.target=y dataset.client_column=who federation=column seeds=1"
    flown = in_process.run_on_grid(f"{line} kernels=gaussian17")
    assert flown.events == []
    assert np.isfinite(flown.y_hat).sum(axis=0).tolist() == [12, 3, 7]
    assert apps.difference(f"{line} kernels=gaussian17", flown) <= 1e-12


def change(reply, **arrays):
    """The same message with other arrays."""
    record = reply.content.array_records["update"]
    kept = {name: array.numpy() for name, array in record.items()}
    changed = {name: edit(kept[name]) for name, edit in arrays.items()}
    reply.content["update"] = ArrayRecord(
        {name: Array(np.ascontiguousarray(a)) for name, a in (kept | changed).items()}
    )
    return reply


def with_bytes(reply, data):
    """The same message with other bytes for its parameters."""
    record = reply.content.array_records["update"]
    theta = record["theta"]
    spoiled = Array(dtype=theta.dtype, shape=theta.shape, stype=theta.stype, data=data)
    reply.content["update"] = ArrayRecord(dict(record.items()) | {"theta": spoiled})
    return reply


def an_archive():
    buffer = io.BytesIO()
    np.savez(buffer, theta=np.zeros(3))
    return buffer.getvalue()


BYTES = {"no bytes": b"", "half an archive": b"PK\x03\x04", "an archive": an_archive()}


def spoiled(how, reply):
    if how == "NaN":
        return 0, change(reply, theta=lambda a: np.full_like(a, np.nan))
    if how == "shape":
        return 0, change(reply, theta=lambda a: a[:, :-1])
    if how == "budget":
        every = {"theta": lambda a: np.zeros((17, a.shape[1])), "rows": lambda a: np.arange(17)}
        return 0, change(reply, **every)
    if how == "late":
        return 2, reply
    if how == "empty":
        del reply.content["update"]
        return 0, reply
    if how in BYTES:
        return 0, with_bytes(reply, BYTES[how])
    if how == "no client":
        reply.content["round"] = ConfigRecord({"t": 5, "client": np.inf})
        return 0, reply
    assert how == "lost"
    return None


REASONS = {
    "NaN": ["not finite"],
    "shape": ["wrong shapes"],
    "budget": ["too many numbers"],
    "late": ["no reply in time", "late: its message is of round 5"],
    "empty": ["cannot be read"],
    "no bytes": ["cannot be read"],
    "half an archive": ["cannot be read"],
    "an archive": ["other things than arrays"],
    "no client": ["cannot be read"],
    "lost": ["no reply in time"],
}


@pytest.mark.parametrize("how", REASONS)
def test_rounds_go_on_without_a_bad_reply(how):
    """Client 2 fails in round 5: the others are heard, and it is heard again in round 6."""

    def deliver(client, t, reply):
        return spoiled(how, reply) if (client, t) == (2, 5) else (0, reply)

    flown = in_process.run_on_grid(POF, deliver=deliver)
    assert [why for why in REASONS[how] if not any(why in e.reason for e in flown.events)] == []
    assert len(flown.events) == len(REASONS[how])
    assert all(e.client == 2 for e in flown.events)
    gone = np.isnan(flown.y_hat)
    assert gone[4, 2] and gone.sum() == 1
    assert np.isfinite(flown.theta).all()
    # What it learned in round 5 it keeps: its own weights went on.
    lost = in_process.run_on_grid(POF, deliver=lambda c, t, r: None if (c, t) == (2, 5) else (0, r))
    np.testing.assert_array_equal(flown.theta, lost.theta)
    np.testing.assert_array_equal(flown.y_hat, lost.y_hat)


def test_a_client_that_dies_and_comes_back(tmp_path):
    """Its process is gone in rounds 4 to 6; what it had learned lies on disk."""
    away = (4, 5, 6)

    def alive(client, t):
        return client != 1 or t not in away

    kept = in_process.run_on_grid(
        POF, alive=alive, run_config={"omkl-keep": str(tmp_path / "kept")}
    )
    assert [(e.t, e.client, e.reason) for e in kept.events] == [
        (t, 1, "no reply in time") for t in away
    ]
    assert np.isnan(kept.y_hat[3:6, 1]).all() and np.isnan(kept.y_hat).sum() == 3
    forgot = in_process.run_on_grid(POF, alive=alive)
    assert kept.y_hat[6, 1] != forgot.y_hat[6, 1]  # without the disk it starts anew
    np.testing.assert_array_equal(kept.y_hat[:6], forgot.y_hat[:6])


def test_what_another_run_kept_is_left_alone(tmp_path):
    first, second = (
        in_process.run_on_grid(POF, run_config={"omkl-keep": str(tmp_path)}) for _ in "12"
    )
    for flown in (first, second):
        assert flown.events == [] and apps.difference(POF, flown) <= 1e-12
    np.testing.assert_array_equal(first.y_hat, second.y_hat)


def test_an_app_without_a_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert command.main(["app", *POF.split(), "rounds=3"]) == 0
    written = (tmp_path / "flower-app" / "pyproject.toml").read_text()
    assert "algorithm=pof_mkl" in written and "omkl-rounds = 3" in written
    assert capsys.readouterr().out == "flower-app/: flwr run flower-app\n"
    assert command.main(["app", "mine", *POF.split()]) == 0
    assert (tmp_path / "mine" / "omkl_apps.py").exists()
    assert f'omkl-result = "{tmp_path / "flower-app" / "result.npz"}"' in written
    assert 'omkl-keep = "~/.omkl/flower-app"' in written and '"omkl"]' in written
    assert command.main(["app", "own", *POF.split(), "result=here.npz", "keep=there"]) == 0
    written = (tmp_path / "own" / "pyproject.toml").read_text()
    assert 'omkl-result = "here.npz"' in written and 'omkl-keep = "there"' in written


def test_an_answer_that_cannot_be_read_is_none():
    for text in ("[" * 100_000, "[1]", "{"):
        with pytest.raises(ValueError, match="its answer cannot be read"):
            records.read_said(RecordDict({"said": ConfigRecord({"text": text})}))


def test_missing_replies_are_told(monkeypatch, capsys):
    def lossy(overrides, n_rounds, timeout):
        def deliver(client, t, reply):
            return None if (client, t) in {(2, 1), (3, 12)} else (0, reply)

        return in_process.run_on_grid(overrides, n_rounds, deliver=deliver)

    monkeypatch.setattr(command, "run_of", lambda engine: lossy)
    assert command.main(["grid", *POF.split()]) == 0
    out = capsys.readouterr().out
    assert f"2 of {T * K} replies are missing" in out and "nan" not in out
    flown = in_process.run_on_grid(POF, deliver=lambda client, t, r: None)
    assert np.isnan(apps.difference(POF, flown))


def test_a_node_speaks_for_one_client():
    """Node 2 says from round 5 on that it is client 3, with theta + 1000."""

    def deliver(client, t, reply):
        if client == 1 and t >= 5:
            change(reply, theta=lambda a: a + 1000.0)
            reply.content["round"] = ConfigRecord({"t": t, "client": 3})
        return 0, reply

    flown = in_process.run_on_grid(POF, deliver=deliver)
    named = {e.reason for e in flown.events if e.client == 1}
    assert named == {"node 2 says that it is client 3, which is node 4; it is client 1"}
    assert np.isnan(flown.y_hat[4:, 1]).all() and np.isnan(flown.y_hat).sum() == T - 4
    lost = in_process.run_on_grid(
        POF, deliver=lambda c, t, r: None if c == 1 and t >= 5 else (0, r)
    )
    np.testing.assert_array_equal(flown.theta, lost.theta)


def test_a_client_that_breaks(monkeypatch):
    """An error in a client is an event; the round goes on."""
    run_round = parties.Client.run_round

    def out_of_power(party, broadcast):
        if (party.client, broadcast.t) == (2, 5):
            raise RuntimeError("out of power")
        return run_round(party, broadcast)

    monkeypatch.setattr(parties.Client, "run_round", out_of_power)
    flown = in_process.run_on_grid(POF)
    (event,) = flown.events
    assert (event.t, event.client) == (5, 2) and "out of power" in event.reason
    assert np.isnan(flown.y_hat).sum() == 1 and np.isfinite(flown.theta).all()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gird"], "gird is no engine"),
        (["grid", "federation=idd"], "there is no federation=idd. Did you mean iid?"),
        (["grid", "algorithm=raker"], "no federation is asked for"),
        (["grid", "rounds=x"], "rounds and timeout are numbers"),
        (["grid", "rounds=-1"], "rounds is at least 0"),
        (["grid", "timeout=0"], "timeout above 0 seconds"),
        (["grid", "timeout=nan"], "timeout above 0 seconds"),
        (["deployment", "insecure=yes"], "neither true nor false"),
        (["keys"], "name a folder"),
        (["key", "FOLDER", "../ann"], "is no name of a client"),
        (["server"], "name the folder of the federation first"),
        (["server", "F", "target=y"], "inputs= is missing"),
        (["server", "F", "inputs=a", "target=y"], "insecure=true goes without"),
        (["server", "F", "inputs=a", "target=y", "insecure=1"], "insecure=1 is neither"),
        (["server", "F", "dataset=naval"], "a server of holders has no data"),
        (["server", *OPEN, "quorum=0"], "quorum=0 is no number of at least 1"),
        (["server", *OPEN, "bounds=none.yaml"], "bounds=none.yaml cannot be read"),
        (["server", *OPEN, "clients=2", "algorithm=raker"], "raker does not learn in a federation"),
        (["client", *JOIN], "--keys FOLDER has this client's key"),
        (
            ["client", *JOIN, "--keys", "KEYS"],
            "Make a key: python -m omkl.federation.flower key KEYS",
        ),
    ],
)
def test_what_cannot_be_flown_is_told(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command.main(words) in (1, 2)
    assert message in capsys.readouterr().err


@pytest.mark.skipif(find_spec("ray") is None, reason="needs omkl[flower-simulation]")
@pytest.mark.filterwarnings("default")
def test_the_simulation_engine_gives_the_simulation():
    flown = in_process.run_on_simulation(POF, n_rounds=5)
    assert flown.events == [] and len(flown.y_hat) == 5
    assert apps.difference(POF, flown) <= 1e-12


@pytest.mark.filterwarnings("default")
def test_a_deployment_whose_server_and_client_are_killed(tmp_path):
    """Three clients with a file each, TLS and keys; bit for bit the simulation all the same."""
    line = POF.replace(f"clients={K}", "clients=3") + " figures=false"
    with deployment.deployment(line, tmp_path) as deployed:
        wait_until(lambda: deployed.learned(0) >= 2)
        deployed.kill_server()
        deployed.kill(1)
        assert deployed.learned(0) < T
        deployed.start_server()
        deployed.start(1)
        flown = deployed.result(seconds=400)
    assert flown.y_hat.shape == (T, 3) and not np.isnan(flown.y_hat).any()
    assert apps.difference(line, flown) == 0.0
    told = {(1, "it is another process now"), (1, "it has left")}
    assert {(e.client, e.reason) for e in flown.events} <= told
    learner = omkl.load_learner(deployed.models()[-1])
    assert len(deployed.models()) == 4 and np.isfinite(learner.predict([[0.0] * 5])).all()
    (run,) = (tmp_path / "outputs").glob("runs/*/*/result.json")
    assert '"n_clients": 3' in run.read_text()
    assert not [p for p in (tmp_path / "keys").rglob("*.key") if p.stat().st_mode & 0o077]


@pytest.mark.filterwarnings("default")
def test_an_app_on_the_nodes_of_flower(tmp_path, monkeypatch):
    """``flwr run FOLDER`` on a SuperLink and two SuperNodes, as Flower starts them."""
    line = POF.replace(f"clients={K}", "clients=2")
    ports = [deployment.free_port() for _ in range(3)]
    address = f"127.0.0.1:{ports[0]}"
    programs = Path(sys.executable).parent
    (tmp_path / "flwr").mkdir()
    (tmp_path / "flwr" / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "{address}"\n'
        "insecure = true\n"
    )
    monkeypatch.setenv("FLWR_HOME", str(tmp_path / "flwr"))
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    app_folder.write_app(tmp_path / "app", line, n_rounds=2, keep=str(tmp_path / "kept"))

    def started(name, *arguments):
        with open(tmp_path / f"{name}.log", "wb") as log:
            command = [str(programs / arguments[0]), *arguments[1:]]
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        stack.callback(deployment.end, process)

    with contextlib.ExitStack() as stack:
        started("link", "flower-superlink", "--insecure", "--port", str(ports[0]),
                "--disable-runtime-dependency-installation")  # fmt: skip
        wait_until(lambda: "running on" in (tmp_path / "link.log").read_text())
        for k in (0, 1):
            started(f"node-{k}", "flower-supernode", "--insecure", "--superlink", address,
                    "--node-config", f"partition-id={k}", "--port", str(ports[1 + k]))  # fmt: skip
        run = [str(programs / "flwr"), "run", str(tmp_path / "app"), "here"]
        assert subprocess.run(run, capture_output=True, timeout=120).returncode == 0
        result = tmp_path / "app" / "result.npz"
        wait_until(result.exists, seconds=300.0)
    flown = in_process.read_result(result)
    assert flown.events == [] and flown.y_hat.shape == (2, 2)
    assert apps.difference(line, flown) <= 1e-12
    assert len(list((tmp_path / "kept").glob("client-*.npz"))) == 2


def wait_until(happened, seconds=200.0):
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.2)
