"""On Flower: the numbers of the simulation, and rounds that go on when clients fail."""

import contextlib
import csv
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install -e '.[flower]'")

from flwr.app import Array, ArrayRecord

from omkl.experiment import deployed
from omkl.federated import flower
from omkl.federated.exchange import Exchange, links_of
from omkl.federated.simulation import Federation

APP = Path(__file__).parents[2] / "docs" / "federation-app"
N_ROWS = (12, 7, 9)
SETTINGS = "algorithm=pof_mkl algorithm.M=3 algorithm.xi=0.5 kernels=gaussian17 clients=3"


def config_of(folder, more=""):
    return {
        "settings": f"{SETTINGS} federation.rounds={N_ROWS[0]} {more}", "inputs": "a,b",
        "target": "load", "scaling": "none", "bounds": "", "measured": True, "timeout": 100.0,
        "folder": str(folder / "server"),
    }  # fmt: skip


@pytest.fixture
def files(tmp_path):
    for k, n in enumerate(N_ROWS):
        values = np.random.default_rng(k).normal(size=(n, 3)).tolist()
        text = "\n".join(["a,b,load", *(",".join(map(repr, row)) for row in values)])
        (tmp_path / f"{k}.csv").write_text(text + "\n")
    return tmp_path


def simulated(config, every, folder):
    """y_hat (T, K) of the same rows in a simulated federation, NaN where a client is done."""
    plan, K = deployed.plan_of(flower.read_terms(config)), len(N_ROWS)
    federation = Federation(
        plan.algorithm, plan.params, plan.dictionary, 2, plan.D, 0, K, plan.settings.max_upload,
        lengths=np.array(N_ROWS), links=links_of(Exchange(every=every), K, 0),
    )  # fmt: skip
    rows = np.zeros((N_ROWS[0], K, 3))
    for k, n in enumerate(N_ROWS):
        rows[:n, k] = np.loadtxt(folder / f"{k}.csv", delimiter=",", skiprows=1)
    return federation.partial_fit(rows[..., :2], rows[..., 2]).y_hat


def learned(folder):
    """y_hat (T, K) as the clients wrote them down."""
    y_hat = np.full((N_ROWS[0], len(N_ROWS)), np.nan)
    for k in range(len(N_ROWS)):
        with open(folder / f"{k}-federation" / "predictions.csv") as file:
            for line in csv.DictReader(file):
                y_hat[int(line["round"]) - 1, k] = float(line["y_hat"])
    return y_hat


class Grid:
    """What ``serve`` needs of Flower's grid; its clients are functions in this process.

    ``deliver(client, t, content)`` is the network: what arrives, None where nothing does.
    """

    def __init__(self, folder, config, deliver):
        self.folder, self.config, self.deliver = folder, config, deliver

    def get_node_ids(self):
        return [11, 12, 13]

    def send_and_receive(self, messages, *, timeout=None):
        return list(self.replies_to(messages))

    def replies_to(self, messages):
        for message in messages:
            client, t = message.dst_node_id - 11, int(message.group_id)
            node = {"partition-id": client, "data": str(self.folder / f"{client}.csv")}
            context = SimpleNamespace(run_config=self.config, node_config=node)
            reply = SimpleNamespace(
                metadata=SimpleNamespace(src_node_id=message.dst_node_id), has_error=lambda: False
            )
            try:
                reply.content = flower.answer(
                    message.content, context, deployed.plan_of, deployed.client_model
                )
                reply.content = self.deliver(client, t, reply.content)
            except RuntimeError as error:
                reply.has_error, reply.error = lambda: True, SimpleNamespace(reason=f"\n{error!r}")
            if reply.has_error() or reply.content is not None:
                yield reply


@pytest.fixture
def run(monkeypatch, files):
    """``serve`` on the grid above; outside of Flower's processes a message cannot be made."""
    monkeypatch.setattr(
        "flwr.app.Message", lambda content, **address: SimpleNamespace(content=content, **address)
    )

    def run(more="", deliver=lambda client, t, content: content):
        for folder in files.glob("*-federation"):
            shutil.rmtree(folder)
        shutil.rmtree(files / "server", ignore_errors=True)
        config = config_of(files, more)
        terms = flower.read_terms(config)
        coordinator = flower.Coordinator(files / "server", terms, deployed.plan_of(terms))
        flower.serve(coordinator, Grid(files, config, deliver), 1.0)
        return coordinator

    return run


@pytest.mark.parametrize("every", [1, 5])
def test_the_apps_give_the_simulation(run, files, every):
    coordinator = run(f"exchange.every={every}")
    assert coordinator.server.events == []
    expected = simulated(config_of(files, f"exchange.every={every}"), every, files)
    np.testing.assert_allclose(learned(files), expected, rtol=0, atol=1e-12)
    assert len(list(files.glob("*-federation/model.npz"))) == 3
    assert coordinator.summary().startswith("12 rounds, 0 events\nclient 0: mean squared error")


def changed(content, **arrays):
    """The same message with other arrays."""
    packed = dict(content.array_records["arrays"].items())
    content["arrays"] = ArrayRecord(packed | arrays)
    return content


def spoilt(how, content):
    if how == "broken":
        raise RuntimeError("out of power")
    if how == "lost":
        return None
    theta = content.array_records["arrays"]["theta"]
    if how == "NaN":
        return changed(content, theta=Array(np.full_like(theta.numpy(), np.nan)))
    half = Array(dtype=theta.dtype, shape=theta.shape, stype=theta.stype, data=b"PK\x03\x04")
    return changed(content, theta=half)


REASONS = {
    "NaN": "where numbers are finite",
    "half an archive": "cannot be read",
    "broken": "RuntimeError('out of power')",
    "lost": "no reply in time",
}


@pytest.mark.parametrize("how", REASONS)
def test_rounds_go_on_without_a_bad_reply(run, files, how):
    """Client 2 fails in round 5: the others are heard, and it is heard again in round 6."""

    def deliver(client, t, content):
        return spoilt(how, content) if (client, t) == (2, 5) else content

    coordinator = run(deliver=deliver)
    (event,) = coordinator.server.events
    assert event[:2] == (5, 2) and REASONS[how] in event.reason
    theta, y_hat = coordinator.server.state.model.theta.copy(), learned(files)
    assert np.isfinite(theta).all()
    # What it learned in round 5 it keeps: its own weights went on.
    lost = run(deliver=lambda c, t, content: None if (c, t) == (2, 5) else content)
    np.testing.assert_array_equal(theta, lost.server.state.model.theta)
    np.testing.assert_array_equal(y_hat, learned(files))


def test_a_round_that_nobody_answers_is_asked_again(run, files):
    silent = iter([None] * 6)
    coordinator = run(deliver=lambda c, t, content: next(silent, content) if t == 4 else content)
    assert coordinator.server.events == []
    np.testing.assert_allclose(learned(files), simulated(config_of(files), 1, files), atol=1e-12)


@pytest.mark.filterwarnings("default")
def test_an_app_on_the_nodes_of_flower(files, monkeypatch):
    """``flwr run`` on a SuperLink and SuperNodes with a file each, of which one is killed."""
    with contextlib.ExitStack() as stack:
        ports = [free_port() for _ in range(1 + len(N_ROWS))]
        address, programs = f"127.0.0.1:{ports[0]}", Path(sys.executable).parent
        (files / "flwr").mkdir()
        (files / "flwr" / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "{address}"\n'
            "insecure = true\n"
        )
        monkeypatch.setenv("FLWR_HOME", str(files / "flwr"))
        monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))

        def started(name, *arguments):
            with open(files / f"{name}.log", "wb") as log:
                command = [str(programs / arguments[0]), *arguments[1:]]
                process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
            stack.callback(killed, process)
            return process

        def node(k):
            data = f'partition-id={k} data="{files / f"{k}.csv"}"'
            return started(f"node-{k}", "flower-supernode", "--insecure", "--superlink", address,
                           "--node-config", data, "--port", str(ports[1 + k]))  # fmt: skip

        started("link", "flower-superlink", "--insecure", "--port", str(ports[0]),
                "--disable-runtime-dependency-installation")  # fmt: skip
        wait_until(lambda: "running on" in (files / "link.log").read_text())
        nodes = [node(k) for k in range(len(N_ROWS))]
        config = config_of(files, "exchange.every=4")
        (files / "config.toml").write_text(
            "\n".join(f"{key} = {toml(value)}" for key, value in config.items())
        )
        run = [str(programs / "flwr"), "run", str(APP), "here", "-c", str(files / "config.toml")]
        assert subprocess.run(run, capture_output=True, timeout=120).returncode == 0
        rounds = files / "server" / "rounds.csv"
        wait_until(lambda: rounds.exists() and len(rounds.read_text().splitlines()) > 1, 300.0)
        killed(nodes[0])
        node(0)
        wait_until((files / "server" / "model.npz").exists, 400.0)
    y_hat, expected = learned(files), simulated(config, 4, files)
    np.testing.assert_allclose(y_hat[:4], expected[:4], rtol=0, atol=1e-12)
    # Another node plays on for the client that was killed: it may have missed an exchange.
    assert np.isfinite(y_hat).sum() >= sum(N_ROWS) - 4


def toml(value):
    return str(value).lower() if isinstance(value, bool) else repr(value)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def killed(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_until(happened, seconds=200.0):
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.2)
