"""The network of a federation: messages, TLS and keys, faults, the command, a kill of everybody."""

import asyncio
import contextlib
import io
import json
import math
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync.client import connect

import omkl
from omkl.federated.parties import Broadcast, Update
from omkl.federation import command, keys, terms, transport
from omkl.federation import server as serving
from omkl.federation.client import ClientLoop
from omkl.federation.coordinator import Coordinator
from omkl.federation.data_owner import DataOwner, Reply
from omkl.federation.rows import ClientRows
from omkl.federation.server import ServerLoop
from omkl.federation.trial import difference, trial
from omkl.utils.extras import how_to_install

T = 6
WORDS = ["algorithm=vm_kofl", "kernels=gaussian17", "D=4", f"federation.rounds={T}"]


# --- messages -----------------------------------------------------------------------------------


def test_messages_arrive_as_they_were_sent():
    broadcast = Broadcast(3, np.eye(2), np.zeros(0), np.array([4, 1]), np.zeros(0, dtype=np.int64))
    message = transport.unpack_message(transport.pack_round("round", 7, broadcast))
    number, arrived = transport.read_round(message)
    assert (message.kind, number, arrived.t) == ("round", 7, 3)
    for sent, came in zip(broadcast[1:], arrived[1:], strict=True):
        np.testing.assert_array_equal(came, sent, strict=True)
        assert came.flags.owndata and came.flags.writeable
    update = Update(1, 3, np.array([2]), np.full((1, 4), 0.1), np.array([np.pi]))
    reply = Reply(update, np.nan, -0.5, False)
    _, _, same = transport.read_reply(transport.unpack_message(transport.pack_reply(1, 3, reply)))
    np.testing.assert_array_equal(same.update.theta, update.theta, strict=True)
    assert np.isnan(same.squared_error) and (same.regret, same.done) == (-0.5, False)
    nothing = Reply(None, np.nan, np.nan, True)
    client, t, same = transport.read_reply(
        transport.unpack_message(transport.pack_reply(1, 4, nothing))
    )
    assert (client, t, same.update, same.done) == (1, 4, None, True)


def raw(header, content=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(4, "little") + text + content


STRANGE = ("(,)f8", "O", "U8", "f4")  # types of NumPy that are none of a message


@pytest.mark.parametrize(
    "data",
    [
        b"",
        "words",
        b"\xff\xff\xff\xff",
        raw([1]),
        raw({"kind": "reply"}),
        raw(b"[" * 100_000),
        raw({"kind": "reply", "arrays": [["theta", "f8", [3]]]}, b"\0" * 23),
        raw({"kind": "reply", "arrays": [["theta", "f8", [3]]]}, b"\0" * 25),
        raw({"kind": "reply", "arrays": [["theta", "f8", [-1]]]}),
        raw({"kind": "reply", "arrays": [["theta", "f8", [2**70]]]}),
        raw({"kind": "reply", "arrays": [["theta", "f8", ["3"]]]}),
        raw({"kind": "reply", "arrays": [["theta", "O", [1]]]}, b"\0" * 8),
        *(raw({"kind": "reply", "arrays": [["theta", t, [1]]]}, bytes(8)) for t in STRANGE),
        b"\x80\x04\x95",  # how a pickle begins
    ],
    ids=range(17),
)
def test_bytes_that_are_no_message(data):
    with pytest.raises(ValueError, match="these bytes are no message"):
        transport.unpack_message(data)


# --- a server and clients on this machine -------------------------------------------------------


class Hub:
    """A server in a thread, and clients in others, with TLS and keys or without."""

    def __init__(self, folder, n_clients=2, secure=True, timeout=20.0, quorum=None, **options):
        self.folder, self.events = folder, []
        words = [*WORDS, f"clients={n_clients}"]
        agreed = terms.make_terms(words, ["a"], "y", scaling="none", **options)
        self.coordinator = Coordinator(folder / "hub", agreed)
        self.keys = folder / "keys" if secure else None
        if secure:
            keys.make_certificates(folder / "keys", ["127.0.0.1"])
        self.loop = ServerLoop(self.coordinator, "127.0.0.1", 0, self.keys, quorum, timeout)
        self.address = f"127.0.0.1:{self.loop.port}"
        self.clients, self.over = [], False
        self.thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self.thread.start()

    async def _serve(self):
        self._asyncio, self._task = asyncio.get_running_loop(), asyncio.current_task()
        with contextlib.suppress(asyncio.CancelledError):
            await self.loop.run()

    def stop(self):
        """End all threads."""
        self.over = True
        with contextlib.suppress(RuntimeError):  # it has ended
            self._asyncio.call_soon_threadsafe(self._task.cancel)
        for thread in (self.thread, *self.clients):
            thread.join(30.0)
            assert not thread.is_alive()
        there = [c for c in self.loop._connections if hasattr(c, "transport")]
        assert all(connection.transport.is_closing() for connection in there)

    def identity(self, name):
        """What a client of that name connects with; its key is known to the server."""
        if self.keys is None:
            return None, name
        path = keys.make_client_key(self.keys, name)
        return keys.client_context(path, self.keys / keys.AUTHORITY), None

    def client(self, name, rows=T, answer=None, column="a"):
        """A client in a thread of its own; ``answer(loop, message)`` may stand in for its own."""
        lines = [f"{math.sin(n)!r},{math.cos(n)!r}" for n in range(rows)]
        source = io.StringIO("\n".join([f"{column},y", *lines]))
        owner = DataOwner(self.folder / name, ClientRows(source, name, "y"))
        loop = ClientLoop(owner, None, name)
        reply = loop.answer if answer is None else lambda message: answer(loop, message)
        arguments = (self.address, *self.identity(name), reply)
        arguments += (lambda: loop.over or self.over, lambda text: None)
        thread = threading.Thread(target=self._converse, args=(loop, *arguments), daemon=True)
        self.clients.append(thread)
        thread.start()
        return loop

    def _converse(self, loop, *arguments):
        try:
            transport.converse(*arguments)
        except ValueError as error:
            loop.refused = str(error)

    def end(self):
        """Wait until the federation is over."""
        self.thread.join(60.0)
        assert not self.thread.is_alive()

    def connected(self, context, token=None, host="127.0.0.1"):
        """A bare connection, for who does not keep to the rules."""
        return connect(
            f"{'ws' if context is None else 'wss'}://{host}:{self.loop.port}", ssl=context,
            additional_headers={} if token is None else {"Authorization": f"Bearer {token}"},
        )  # fmt: skip

    def wait_for(self, reason, seconds=30.0):
        end = time.monotonic() + seconds
        while not any(reason in event.reason for event in self.coordinator.server.events):
            assert time.monotonic() < end, self.coordinator.server.events
            time.sleep(0.02)

    def reasons(self):
        return [(event.client, event.reason) for event in self.coordinator.server.events]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(transport, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(serving, "GRACE", 0.5)
    monkeypatch.setattr(serving, "FAREWELL", 2.0)


@pytest.fixture
def hub_of(tmp_path):
    """Starts a server, ``hub_of(**options)``, which ends with the test."""
    with contextlib.ExitStack() as stack:

        def start(**options):
            hub = Hub(tmp_path, **options)
            stack.callback(hub.stop)
            return hub

        yield start


@pytest.mark.parametrize("secure", [True, False])
def test_a_federation_from_the_first_round_to_the_last(hub_of, secure):
    hub = hub_of(secure=secure)
    first, second = hub.client("ann"), hub.client("bob", rows=4)
    hub.end()
    assert hub.coordinator.over and hub.reasons() == []
    assert (~np.isnan(hub.coordinator.measured().regret)).sum() == T + 4
    assert sorted(hub.coordinator.members.names()) == ["ann", "bob"]
    assert first.ended and second.ended and first.owner.write_model().exists()


def test_keys_of_the_server_and_no_others(hub_of, tmp_path):
    """A stranger is refused; a key that comes while the server runs is let in, until it goes."""
    hub = hub_of()
    authority = tmp_path / "keys" / keys.AUTHORITY
    eve = keys.client_context(keys.make_client_key(tmp_path / "elsewhere", "eve"), authority)
    said = []
    transport.converse(
        hub.address, eve, None, lambda message: None, lambda: bool(said), said.append
    )
    refused = f"the server at {hub.address} closes the connection. Does it know this key? Give the"
    assert said[0].startswith(refused)
    without = keys.ssl.create_default_context(cafile=authority)
    with pytest.raises((OSError, WebSocketException)), hub.connected(without) as connection:
        connection.recv(5.0)
    ann, _ = hub.identity("ann")
    time.sleep(3 * serving.WAKE)
    with hub.connected(ann) as connection:
        assert transport.unpack_message(connection.recv(5.0)).kind == "terms"
        (tmp_path / "keys" / "clients" / "ann.pub").rename(tmp_path / "ann.pub")
        refusal = transport.unpack_message(connection.recv(5.0))
        assert refusal.fields["reason"] == "its key was taken away"
    (tmp_path / "keys" / "clients" / "half.pub").write_text("-----BEGIN CERTI")  # being copied
    time.sleep(3 * serving.WAKE)
    (tmp_path / "keys" / "clients" / "half.pub").unlink()
    hub.identity("bob")
    time.sleep(3 * serving.WAKE)
    with pytest.raises(InvalidStatus, match="403"), hub.connected(ann):
        pass
    said.clear()
    transport.converse(
        hub.address, ann, None, lambda message: None, lambda: bool(said), said.append
    )
    assert said[0].startswith(refused)


def test_a_server_with_the_certificate_of_another_authority(hub_of, tmp_path):
    hub = hub_of()
    keys.make_certificates(tmp_path / "others", ["127.0.0.1"])
    path = keys.make_client_key(tmp_path / "keys", "ann")
    said = []
    context = keys.client_context(path, tmp_path / "others" / keys.AUTHORITY)
    transport.converse(hub.address, context, None, lambda m: None, lambda: bool(said), said.append)
    assert "certificate verify failed" in said[0]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (b"\x80\x04\x95", "its message cannot be read"),
        (transport.pack_message("reply", client=0), "its message cannot be read"),
        (transport.pack_message("failed", reason="...\nno power\n"), "failed in round 2: no power"),
        (b"\0" * 2**20, "its message is larger than one of this federation can be"),
        (transport.pack_message("declined", reason="\x1b[2J"), r"it has left: \x1b[2J"),
    ],
    ids=["no message", "half a reply", "failed", "too large", "declined"],
)  # fmt: skip
def test_rounds_go_on_without_a_bad_reply(hub_of, reply, reason):
    """One client answers wrongly in round 2; the event says whose message it was and why."""
    hub = hub_of()

    def answer(loop, message):
        if message.kind == "round" and message.fields["t"] == 2 and not hub.reasons():
            loop.refused = "it has said so" if b"declined" in reply else ""
            return reply
        return loop.answer(message)

    hub.client("ann"), hub.client("bob", answer=answer)
    hub.wait_for(reason)
    hub.end()
    bob = hub.coordinator.members.names().index("bob")
    assert hub.reasons()[0][0] == bob
    there = ~np.isnan(hub.coordinator.measured().regret)
    again = "larger" in reason  # its connection is closed, and it answers rightly over the next
    assert there[:, 1 - bob].all() and there[0, bob] and there[1, bob] == again
    assert there[2:, bob].all() or b"declined" in reply


def test_a_late_reply_is_refused_and_its_client_heard_again(hub_of):
    hub = hub_of(timeout=0.4)
    slow = []

    def answer(loop, message):
        reply = loop.answer(message)
        if message.kind == "round" and not slow:
            slow.append(message.fields["t"])
            time.sleep(1.0)
        return reply

    hub.client("ann"), hub.client("bob", answer=answer)
    hub.end()
    bob = hub.coordinator.members.names().index("bob")
    reasons = [reason for client, reason in hub.reasons() if client == bob]
    assert reasons[0] == "no reply in time"
    assert f"late: its message is of round {slow[0]}" in reasons
    assert hub.coordinator.measured().regret[-1, bob] < np.inf


def test_a_quorum_closes_a_round(hub_of):
    """The second client answers never; nobody waits for it."""
    hub = hub_of(quorum=1, timeout=1000.0)
    hub.client("bob", answer=lambda loop, m: None if m.kind == "round" else loop.answer(m))
    hub.client("ann")
    end = time.monotonic() + 30.0
    while not hub.coordinator.over:
        assert time.monotonic() < end
        time.sleep(0.02)
    there = ~np.isnan(hub.coordinator.measured().regret)
    assert hub.reasons() == [] and sorted(there.sum(axis=0)) == [0, T]


def test_who_has_left_is_waited_for_and_goes_on(hub_of):
    """A client's process dies in round 3, and another one with its folder and key goes on."""
    hub = hub_of()

    def answer(loop, message):
        if message.kind == "round" and message.fields["t"] == 3 and not died:
            died.append(loop.owner.play(*transport.read_round(message)))  # learned, and not sent
            raise ConnectionResetError
        return loop.answer(message)

    died = []
    hub.client("ann"), hub.client("bob", answer=answer)
    hub.end()
    bob = hub.coordinator.members.names().index("bob")
    assert {client for client, _ in hub.reasons()} <= {bob}
    assert not np.isnan(hub.coordinator.measured().regret).any()
    lines = (hub.folder / "bob" / "predictions.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == [str(t) for t in range(1, T + 1)]


def test_two_processes_with_one_key(hub_of):
    hub = hub_of()
    first = hub.client("ann")
    while not len(hub.coordinator.members):
        time.sleep(0.02)
    context, _ = hub.identity("ann")
    with hub.connected(context) as second:
        assert transport.unpack_message(second.recv(10.0)).kind == "terms"
        hub.wait_for("it is another process now")
        hub.clients[0].join(10.0)
    assert first.refused == "another process uses this client's key: end one of them"


def test_who_speaks_without_being_asked_is_turned_away(hub_of):
    hub = hub_of()
    context, _ = hub.identity("ann")
    time.sleep(3 * serving.WAKE)
    with hub.connected(context) as connection:
        connection.recv(10.0)
        for _ in "12":
            connection.send(transport.pack_message("joined", columns=["a"], name="\x1b[2Jann"))
        refused = transport.unpack_message(connection.recv(10.0))
        with pytest.raises(ConnectionClosed):
            connection.recv(10.0)
    assert refused.fields["reason"] == "it speaks without being asked"
    assert hub.coordinator.members.names()[0] == r"\x1b[2Jann"  # shown, and not obeyed


def test_clients_that_do_not_fit(hub_of):
    """Other columns, and one client too many: both are told at the server and at the client."""
    hub = hub_of()
    other = hub.client("eve", column="b")
    hub.wait_for("does not join: eve has the columns b beside y; the federation has a")
    assert other.refused == "eve has the columns b beside y; the federation has a"
    hold = threading.Event()

    def answer(loop, message):
        if message.kind == "round":
            hold.wait(30.0)
        return loop.answer(message)

    hub.client("ann", answer=answer), hub.client("bob", answer=answer)
    while len(hub.coordinator.members) < 2:
        time.sleep(0.02)
    third = hub.client("cid")
    hub.wait_for("there are 2 clients, all here")
    hub.clients[-1].join(10.0)
    assert "the server refuses this client: node" in third.refused
    hold.set()
    hub.end()


# --- the command --------------------------------------------------------------------------------


def test_a_key_of_an_earlier_version_gets_a_certificate(tmp_path):
    """The private key stays: the server knows the client again."""
    path = keys.make_client_key(tmp_path, "ann")
    (before,) = keys.trusted_certificates(tmp_path)
    whole = path.read_bytes()
    assert path.stat().st_mode & 0o077 == 0
    path.write_bytes(whole[: whole.index(b"-----BEGIN CERTIFICATE")])
    path.with_suffix(".pub").write_bytes(b"-----BEGIN PUBLIC KEY-----\n")
    with pytest.raises(
        ValueError, match=r"ann.pub is no certificate.*omkl-federate key FOLDER ann"
    ):
        keys.trusted_certificates(tmp_path)
    with pytest.raises(ValueError, match=r"no private key with its certificate. Type: omkl-fed"):
        keys.client_context(path, None)
    keys.make_client_key(tmp_path, "ann")
    assert list(keys.trusted_certificates(tmp_path)) == [before]
    keys.client_context(path, None)


OPEN = ["F", "inputs=a", "target=y", "insecure=true"]
JOIN = ["--data", "-", "--target", "y", "--server", "localhost:1"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "nothing is no command of omkl-federate"),
        (["gird"], "gird is no command of omkl-federate"),
        (["trial", "federation=idd"], "there is no federation=idd. Did you mean iid?"),
        (["trial", "algorithm=raker"], "no federation is set"),
        (["grid", "rounds=x"], "grid is called trial now"),
        (["trial", "rounds=x"], "rounds and timeout are numbers"),
        (["trial", "rounds=-1"], "rounds is at least 0"),
        (["trial", "timeout=0"], "timeout above 0 seconds"),
        (["trial", "timeout=nan"], "timeout above 0 seconds"),
        (["deployment", "insecure=yes"], "neither true nor false"),
        (["keys"], "name a folder"),
        (["key", "FOLDER", "../ann"], "is no name of a client"),
        (["server"], "name the folder of the federation first"),
        (["server", "F", "target=y"], "inputs= is missing"),
        (["server", "F", "inputs=a", "target=y"], "insecure=true goes without"),
        (["server", "F", "inputs=a", "target=y", "insecure=1"], "insecure=1 is neither"),
        (["server", "F", "inputs=a", "target=y", "clients=2", "algorithm=ofskl", "keys=F",
          "federation.rounds=3"], "server.pem is missing: make keys and certificates"),
        (["server", "F", "dataset=naval"], "a server of holders has no data"),
        (["server", *OPEN, "quorum=0"], "quorum=0 is no number of at least 1"),
        (["server", *OPEN, "bounds=none.yaml"], "bounds=none.yaml cannot be read"),
        (["server", *OPEN, "clients=2", "algorithm=raker"], "raker does not learn in a federation"),
        (["client", *JOIN], "--keys FOLDER has this client's key"),
        (["client", *JOIN, "--keys", "K"], "K/ca.pem is missing"),
        (["client", *JOIN, "--keys", "K", "--system-certificates"],
         "Make a key: omkl-federate key K client"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_with_its_cure(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command.main(words) in (1, 2)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("module", ["omkl.federation.flower", "omkl.federated.flower"])
def test_the_former_commands_say_the_new_name(module, tmp_path):
    words = [sys.executable, "-m", module, "key", str(tmp_path), "ann"]
    ended = subprocess.run(
        words,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
    )
    assert "this command is called omkl-federate now" in ended.stderr
    assert (tmp_path / "clients" / "ann.key").exists()


# --- processes ----------------------------------------------------------------------------------


def test_a_federation_whose_server_and_client_are_killed(tmp_path, monkeypatch):
    """Three clients with a file each, TLS and keys; bit for bit the simulation all the same."""
    line = (
        "algorithm=pof_mkl algorithm.M=3 algorithm.xi=0.5 dataset=synthetic dataset.rows=400 "
        "kernels=gaussian17 federation=iid clients=3 federation.rounds=60 seeds=1 figures=false"
    )
    with trial(line, tmp_path) as parties:

        def wait_for_round(t):
            end = time.monotonic() + 200.0
            while parties.learned(0) < t:
                assert time.monotonic() < end
                time.sleep(0.05)

        wait_for_round(2)
        parties.kill_server()
        parties.kill(1)
        assert parties.learned(0) < 60
        parties.start_server()
        parties.start(1)
        result = parties.result(seconds=400)
    assert result.y_hat.shape == (60, 3) and not np.isnan(result.y_hat).any()
    assert difference(line, result) == 0.0
    allowed = {(1, "it is another process now"), (1, "it has left")}
    assert {(e.client, e.reason) for e in result.events} <= allowed
    learner = omkl.load_learner(parties.models()[-1])
    assert len(parties.models()) == 4 and np.isfinite(learner.predict([[0.0] * 5])).all()
    (run,) = (tmp_path / "outputs").glob("runs/*/*/result.json")
    assert '"n_clients": 3' in run.read_text()
    assert not [p for p in (tmp_path / "keys").rglob("*.key") if p.stat().st_mode & 0o077]


def test_a_library_that_is_not_there(capsys, monkeypatch):
    def client(words):
        raise ModuleNotFoundError("No module named 'websockets'", name="websockets.exceptions")

    monkeypatch.setitem(command.COMMANDS, "client", client)
    assert command.main(["client", *JOIN, "--insecure"]) == 1
    needed = f"client needs websockets: {how_to_install('federation')}"
    assert needed in capsys.readouterr().err
