"""On Flower: the numbers of the simulation, and rounds that go on when clients fail."""

import contextlib
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install -e '.[flower]'")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, RecordDict

from omkl.federation import command, flower
from omkl.federation.trial import difference, end, free_port, job_of

K, T = 4, 12
LINE = (
    "dataset=synthetic dataset.rows=400 kernels=gaussian17 federation=iid "
    f"clients={K} federation.rounds={T} seeds=1"
)
POF = f"algorithm=pof_mkl algorithm.M=3 algorithm.xi=0.5 {LINE}"


class Grid:
    """What ``serve`` asks of Flower's grid; its clients are functions in this process.

    ``deliver(client, t, content)`` is the network: what arrives, None where nothing does.
    ``alive(client, t)`` says whether a client's process runs; back again it has forgotten all but
    what is on disk.
    """

    def __init__(self, line, deliver, alive, keep, run_id):
        self.config = {"omkl": line} | ({"omkl-keep": str(keep)} if keep else {})
        self.deliver, self.alive, self.run_id = deliver, alive, run_id
        self.contexts = {}

    def get_node_ids(self):
        return [k + 1 for k in range(K)]

    def context(self, client):
        return Context(
            self.run_id, client + 1, {"partition-id": client}, RecordDict(), dict(self.config)
        )

    def send_and_receive(self, messages, *, timeout=None):
        replies = []
        for message in messages:
            client, t = message.dst_node_id - 1, int(message.group_id)
            if not self.alive(client, t):
                self.contexts.pop(client, None)
                continue
            context = self.contexts.setdefault(client, self.context(client))
            metadata = SimpleNamespace(src_node_id=client + 1)
            try:
                content = self.deliver(client, t, flower.play_round(message.content, context))
            except RuntimeError as error:
                reason = SimpleNamespace(reason=f"Traceback\n{error!r}\n")
                replies.append(
                    SimpleNamespace(has_error=lambda: True, error=reason, metadata=metadata)
                )
                continue
            if content is not None:
                replies.append(
                    SimpleNamespace(has_error=lambda: False, content=content, metadata=metadata)
                )
        return replies


@pytest.fixture
def run(monkeypatch):
    """``serve`` on the grid above; outside of Flower's processes a message cannot be made."""
    monkeypatch.setattr(
        "flwr.app.Message", lambda content, **address: SimpleNamespace(content=content, **address)
    )

    def run(line, deliver=lambda client, t, content: content, alive=lambda client, t: True,
            keep=None, run_id=1):  # fmt: skip
        flower._client.cache_clear()
        return flower.serve(job_of(line), Grid(line, deliver, alive, keep, run_id))

    return run


@pytest.mark.parametrize("name", ["pof_mkl", "em_kofl", "perfedavg"])
def test_the_apps_give_the_simulation(run, name):
    line = POF if name == "pof_mkl" else f"algorithm={name} {LINE}"
    result = run(line)
    assert result.events == [] and difference(line, result) <= 1e-12
    job = job_of(line)
    federation = job.federation(0)
    regret = federation.partial_fit(job.split.X, job.split.y).regret
    np.testing.assert_allclose(result.regret, regret, rtol=0, atol=1e-12)
    np.testing.assert_allclose(result.theta, federation.server.model.theta, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(result.numbers, federation.totals.sent[:, 0])


def changed(content, **arrays):
    """The same message with other arrays."""
    arrays = flower._arrays(content, "update") | arrays
    content["update"] = ArrayRecord({name: Array(a) for name, a in arrays.items()})
    return content


def spoilt(how, content):
    if how == "NaN":
        return changed(
            content, theta=np.full_like(flower._arrays(content, "update")["theta"], np.nan)
        )
    if how == "broken":
        raise RuntimeError("out of power")
    if how == "lost":
        return None
    record = dict(content.array_records["update"].items())
    theta = record["theta"]
    bad = Array(dtype=theta.dtype, shape=theta.shape, stype=theta.stype, data=b"PK\x03\x04")
    content["update"] = ArrayRecord(record | {"theta": bad})
    return content


REASONS = {
    "NaN": "where numbers are finite",
    "half an archive": "cannot be read",
    "broken": "failed in round 5: RuntimeError('out of power')",
    "lost": "no reply in time",
}


@pytest.mark.parametrize("how", REASONS)
def test_rounds_go_on_without_a_bad_reply(run, how):
    """Client 2 fails in round 5: the others are heard, and it is heard again in round 6."""

    def deliver(client, t, content):
        return spoilt(how, content) if (client, t) == (2, 5) else content

    result = run(POF, deliver)
    assert {e.client for e in result.events} == {2}
    assert REASONS[how] in result.events[0].reason
    gone = np.isnan(result.y_hat)
    assert gone[4, 2] and gone.sum() == 1 and np.isfinite(result.theta).all()
    # What it learned in round 5 it keeps: its own weights went on.
    lost = run(POF, lambda c, t, content: None if (c, t) == (2, 5) else content)
    np.testing.assert_array_equal(result.theta, lost.theta)
    np.testing.assert_array_equal(result.y_hat, lost.y_hat)


def test_a_client_that_dies_and_comes_back(run, tmp_path):
    """Its process is gone in rounds 4 to 6; what it had learned lies on disk, of this run alone."""

    def alive(client, t):
        return client != 1 or not 4 <= t <= 6

    run(POF, keep=tmp_path, run_id=7)  # another run
    kept = run(POF, alive=alive, keep=tmp_path)
    assert [(e.t, e.client, e.reason) for e in kept.events] == [
        (t, 1, "no reply in time") for t in (4, 5, 6)
    ]
    assert np.isnan(kept.y_hat[3:6, 1]).all() and np.isnan(kept.y_hat).sum() == 3
    forgot = run(POF, alive=alive)
    assert kept.y_hat[6, 1] != forgot.y_hat[6, 1]  # without the disk it starts anew
    np.testing.assert_array_equal(kept.y_hat[:6], forgot.y_hat[:6])


def test_a_node_speaks_for_one_client(run):
    """Node 2 says from round 5 on that it is client 3, with theta + 1000."""

    def deliver(client, t, content):
        if client == 1 and t >= 5:
            changed(content, theta=flower._arrays(content, "update")["theta"] + 1000.0)
            content["round"] = ConfigRecord({"t": t, "client": 3})
        return content

    result = run(POF, deliver)
    refused = "node 2 says that it is client 3, which is node 4; it is client 1"
    assert {e.reason for e in result.events if e.client == 1} == {refused, "no reply in time"}
    assert np.isnan(result.y_hat[4:, 1]).all() and np.isnan(result.y_hat).sum() == T - 4
    lost = run(POF, lambda c, t, content: None if c == 1 and t >= 5 else content)
    np.testing.assert_array_equal(result.theta, lost.theta)


def test_an_app(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert command.main(["app", *POF.split(), "rounds=3"]) == 0
    written = (tmp_path / "flower-app" / "pyproject.toml").read_text()
    assert "algorithm=pof_mkl" in written and "omkl-rounds = 3" in written
    assert capsys.readouterr().out == "flower-app/: flwr run flower-app\n"
    assert f'omkl-result = "{tmp_path / "flower-app" / "result.npz"}"' in written
    assert 'omkl-keep = "~/.omkl/flower-app"' in written and '"omkl"]' in written
    assert command.main(["app", "own", *POF.split(), "result=here.npz", "keep=there"]) == 0
    written = (tmp_path / "own" / "pyproject.toml").read_text()
    assert (tmp_path / "own" / "omkl_apps.py").exists()
    assert 'omkl-result = "here.npz"' in written and 'omkl-keep = "there"' in written


@pytest.mark.skipif(find_spec("ray") is None, reason="needs omkl[flower-simulation]")
@pytest.mark.filterwarnings("default")
def test_the_simulation_engine_gives_the_simulation():
    result = flower.run_on_simulation(POF, n_rounds=5)
    assert result.events == [] and len(result.y_hat) == 5
    assert difference(POF, result) <= 1e-12


@pytest.mark.filterwarnings("default")
def test_an_app_on_the_nodes_of_flower(tmp_path, monkeypatch):
    """``flwr run FOLDER`` on a SuperLink and two SuperNodes, as Flower starts them."""
    line = POF.replace(f"clients={K}", "clients=2")
    ports = [free_port() for _ in range(3)]
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
    flower.write_app(tmp_path / "app", line, n_rounds=2, keep=str(tmp_path / "kept"))

    def started(name, *arguments):
        with open(tmp_path / f"{name}.log", "wb") as log:
            command = [str(programs / arguments[0]), *arguments[1:]]
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        stack.callback(end, process)

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
    result_of_app = flower.read_result(result)
    assert result_of_app.events == [] and result_of_app.y_hat.shape == (2, 2)
    assert difference(line, result_of_app) <= 1e-12
    assert len(list((tmp_path / "kept").glob("client-*.npz"))) == 2


def wait_until(happened, seconds=200.0):
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.2)
