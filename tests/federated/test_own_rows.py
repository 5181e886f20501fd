"""Owners of files and the server of their federation, in one process and without a network."""

import csv
import math

import numpy as np
import pytest

import omkl
from omkl.datasets import DataError
from omkl.experiment import deployed
from omkl.federated.exchange import Exchange, links_of
from omkl.federated.flower import Coordinator
from omkl.federated.own_rows import DataOwner, Place, Units, read_rows, read_terms
from omkl.federated.parties import Refused
from omkl.federated.simulation import Federation

LENGTHS = (12, 5, 9)
EVERYBODY = (0, 1, 2)
WORDS = f"kernels=gaussian17 federation.rounds=12 clients={len(LENGTHS)}"
OWN = {
    "pof_mkl": "algorithm.M=3 algorithm.xi=0.5",
    "perfedavg": "algorithm.alpha=0.01 algorithm.beta=0.01",
    "fomd_oms": "algorithm.eta_w=1e6",  # one kernel is as good as certain
}
BOUNDS = "a=-4:4, b=-2:2, load=-1:3"


def terms_of(name="pof_mkl", more="", **others):
    config = {"settings": f"algorithm={name} {WORDS} {OWN.get(name, '')} {more}"}
    config |= {"inputs": "a, b", "target": "load", "scaling": "columns", "bounds": ""}
    return read_terms(config | {"measured": True} | others)


def rows_of(client):
    rng = np.random.default_rng(client)
    X = rng.normal(size=(LENGTHS[client], 2)) * [1.0, 0.5]
    return X, 0.5 * np.sin(X[:, 0])


@pytest.fixture
def files(tmp_path):
    """A file for each client: columns b, load, a and an id."""
    for k in range(len(LENGTHS)):
        X, y = rows_of(k)
        lines = [f"{b!r},{label!r},{a!r},r{n}" for n, ((a, b), label) in
                 enumerate(zip(X.tolist(), y.tolist(), strict=True))]  # fmt: skip
        (tmp_path / f"{k}.csv").write_text("\n".join(["b,load,a,id", *lines]) + "\n")
    return tmp_path


class Parties:
    """A server and its clients, each with its folder, and a network that loses nothing.

    A client is made anew from its folder for each round, as Flower starts a process for it.
    """

    def __init__(self, files, folder, terms):
        self.files, self.folder, self.terms = files, folder, terms
        self.plan = deployed.plan_of(terms)
        self.start_server()

    def start_server(self):
        self.server = Coordinator(self.folder / "server", self.terms, self.plan)

    def owner(self, k):
        return DataOwner(
            self.files / f"{k}.csv", self.folder / f"client-{k}", k, self.terms, self.plan
        )

    def round(self, of=EVERYBODY):
        """Play a round of some clients; the others are silent."""
        broadcast = self.server.open_round()
        for k in self.server.expected().intersection(of):
            self.server.receive(k, EVERYBODY, k, broadcast.t, self.owner(k).play(broadcast))
        self.server.close_round()

    def to_the_end(self):
        while not self.server.over:
            self.round()

    def lines(self, name, party="server"):
        with open(self.folder / party / name) as file:
            return list(csv.DictReader(file))

    @property
    def theta(self):
        return self.server.server.state.model.theta


@pytest.mark.parametrize(
    "name, every",
    [("pof_mkl", 1), ("em_kofl", 1), ("perfedavg", 1), ("pof_mkl", 4), ("vm_kofl", 5)],
)
def test_files_give_the_simulation(name, every, files):
    """Clients of unequal length: the predictions of the federation in one process."""
    terms = terms_of(name, f"exchange.every={every}", scaling="none")
    parties = Parties(files, files / "own", terms)
    parties.to_the_end()
    plan = parties.plan
    federation = Federation(
        plan.algorithm, plan.params, plan.dictionary, 2, plan.D, 0, len(LENGTHS),
        plan.settings.max_upload, lengths=np.array(LENGTHS),
        links=links_of(Exchange(every=every), len(LENGTHS), 0),
    )  # fmt: skip
    X, Y = np.zeros((12, 3, 2)), np.zeros((12, 3))
    for k, n in enumerate(LENGTHS):
        X[:n, k], Y[:n, k] = rows_of(k)
    trace = federation.partial_fit(X, Y)
    for k, n in enumerate(LENGTHS):
        learned = parties.lines("predictions.csv", f"client-{k}")
        assert [int(line["round"]) for line in learned] == list(range(1, n + 1))
        y_hat = [float(line["y_hat"]) for line in learned]
        np.testing.assert_allclose(y_hat, trace.y_hat[:n, k], rtol=0, atol=1e-12)
        reported = [line for line in parties.lines("rounds.csv") if line["client"] == str(k)]
        assert sum(int(line["rows"]) for line in reported) == n
        errors = sum(float(line["squared_error"]) for line in reported)
        assert errors == pytest.approx(np.square(y_hat - rows_of(k)[1]).sum(), rel=1e-12)
        assert float(reported[-1]["regret"]) == pytest.approx(trace.regret[-1, k], abs=1e-12)
    np.testing.assert_array_equal(parties.server.server.numbers, federation.totals.sent[:, 0])
    assert parties.lines("events.csv") == []


@pytest.mark.parametrize(
    "more", ["", "clients_per_round=1", "exchange.every=2", "algorithm=em_kofl"]
)
def test_whoever_is_killed_goes_on_to_the_bit(more, files):
    """The server dies in an open round that one client has played."""
    name = "em_kofl" if "em_kofl" in more else "pof_mkl"
    terms = terms_of(name, more.replace("algorithm=em_kofl", ""))
    whole, killed = (Parties(files, files / which, terms) for which in ("whole", "killed"))
    whole.to_the_end()
    killed.round()
    killed.round()
    killed.owner(0).play(killed.server.open_round())
    with open(files / "killed" / "server" / "rounds.csv", "a") as file:
        file.write("77,1,1,0.")  # half a line of a round that was not closed
    with open(files / "killed" / "client-1" / "predictions.csv", "a") as file:
        file.write("3,3,0.")
    killed.start_server()
    killed.to_the_end()
    np.testing.assert_array_equal(whole.theta, killed.theta)
    for name, party in (("rounds.csv", "server"), *(("predictions.csv", f"client-{k}") for k in
                        EVERYBODY)):  # fmt: skip
        assert whole.lines(name, party) == killed.lines(name, party)
    assert len(whole.lines("predictions.csv", "client-1")) == LENGTHS[1]


def test_a_client_that_is_away_loses_no_row(files):
    """It misses rounds 3 to 5 and takes up its rows where it left; others do not wait."""
    parties = Parties(files, files / "own", terms_of(scaling="none"))
    for t in range(1, 13):
        parties.round(of=(0, 2) if 3 <= t <= 5 else EVERYBODY)
    rows = parties.lines("predictions.csv", "client-1")
    assert [int(row["round"]) for row in rows] == [1, 2, 6, 7, 8]
    np.testing.assert_array_equal([float(row["y"]) for row in rows], rows_of(1)[1])
    events = parties.lines("events.csv")
    assert [(e["round"], e["client"]) for e in events] == [("3", "1"), ("4", "1"), ("5", "1")]
    assert events[0]["reason"] == "no reply in time"


@pytest.mark.parametrize("every", [1, 2])
def test_a_round_that_is_not_finite_is_not_written(every, files):
    """The client goes on from the round before, with the same row."""
    terms = terms_of("vm_kofl", f"exchange.every={every}")
    spoilt, honest = (Parties(files, files / which, terms) for which in ("spoilt", "honest"))
    for parties in (spoilt, honest):
        parties.round()
        broadcast = parties.server.open_round()
        if parties is spoilt:
            bad = broadcast._replace(theta=np.full_like(broadcast.theta, np.nan))
            with pytest.raises(Refused, match="holds nan, where numbers are finite"):
                parties.owner(0).play(bad)
        parties.server.receive(0, EVERYBODY, 0, broadcast.t, parties.owner(0).play(broadcast))
        parties.server.close_round()
    np.testing.assert_array_equal(spoilt.theta, honest.theta)
    assert len(spoilt.lines("predictions.csv", "client-0")) == 2 * every


# --- terms, scaling, rows ------------------------------------------------------------------------


def test_scaling_does_not_look_ahead():
    """Inputs by the rows up to and with this one, labels by those before it."""
    X, y = rows_of(0)
    units = Units(terms_of())
    for n, (x, label) in enumerate(zip(X, y, strict=True), 1):
        seen, before = X[:n], y[: n - 1]
        scaled = units.scale(x, label)
        expected = (x - seen.mean(axis=0)) / np.where(n > 1, seen.std(axis=0), 1.0)
        np.testing.assert_allclose(scaled.x, expected, rtol=1e-9, atol=1e-12)
        assert scaled.known == (n > 1)
        if n > 2:
            far = math.sqrt(n - 1)
            z = np.clip((label - before.mean()) / before.std(), -far, far)
            assert scaled.y == pytest.approx(z, rel=1e-9)
            assert (scaled.centre, scaled.unit) == pytest.approx((before.mean(), before.std()))


def test_bounds_scale_all_clients_alike():
    units = Units(terms_of(bounds="a=0:4, b=-2:2, load=0:10"))
    for _ in range(3):  # what comes does not move them
        scaled = units.scale(np.array([4.0, -3.0]), 10.0)
        np.testing.assert_allclose(scaled.x, [0.5, -0.75])
        assert scaled[1:] == (0.5, 5.0, 10.0, True)
    np.testing.assert_array_equal(units.scale(np.array([np.nan, 0.0]), 0.0).x, [0.0, 0.0])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"bounds": "a=0:1, load=0:1"}, "bounds are of a, load; the columns are a, b, load"),
        ({"bounds": "a=0:1, b=1:1, load=0:1"}, "'b=1:1' needs LOW < HIGH"),
        ({"scaling": "whole"}, "scaling=whole is none of columns, none"),
        ({"target": "a"}, "target=a and inputs=a, b: a name occurs twice"),
        ({"settings": "algorithm=pof_mkl clients=3"}, "eta=1/sqrt.T. needs the number of rounds"),
        ({"settings": "dataset=naval clients=3"}, "dataset=naval: data owners have the rows"),
        ({"settings": f"algorithm=ofskl {WORDS} privacy.epsilon=8"}, "set measured = false"),
    ],
)
def test_terms_that_cannot_be(wrong, message):
    with pytest.raises(ValueError, match=message):
        deployed.plan_of(terms_of(**wrong))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_rows_are_read_from_where_the_owner_is(tmp_path, encoding, end):
    path, terms = tmp_path / "rows.csv", terms_of()
    text = "load;b;a;id\n;1;2;x\n3;4;NA;é\n;;;\n\n5;6;7;z\nNA;1;1;x\n8;9;10;w\nNA;1;1;x\n5;6;\n"
    path.write_text(text[:-5], encoding, newline=end)
    X, y, place, ended = read_rows(path, terms, Place(), 2)
    np.testing.assert_array_equal(X, [[np.nan, 4.0], [7.0, 6.0]])
    assert y.tolist() == [3.0, 5.0] and not ended
    X, y, place, ended = read_rows(path, terms, place, 2)
    assert X.tolist() == [[10.0, 9.0]] and y.tolist() == [8.0] and ended
    X, y, again, ended = read_rows(path, terms, place, 1)
    assert X.shape == (0, 2) and ended and again == place
    path.write_text(text, encoding, newline=end)
    with pytest.raises(DataError, match="line 10 has 3 cells"):
        read_rows(path, terms, place, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,load\n1,2\n", "rows.csv has not one column 'b': the federation has a, b, load"),
        ("", "has not one column 'a'"),
        ("a,b,load\n1,red,3\n", "rows.csv, line 2, column b: 'red' is not a finite number"),
        ("a,b,load\n1,2\n", "line 2 has 2 cells; the header has 3"),
    ],
)
def test_a_file_that_does_not_fit(text, message, tmp_path):
    (tmp_path / "rows.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        read_rows(tmp_path / "rows.csv", terms_of(), Place(), 9)
    with pytest.raises(DataError, match=r"a text file: .csv, .tsv, .txt"):
        read_rows(tmp_path / "rows.parquet", terms_of(), Place(), 9)
    with pytest.raises(DataError, match=r"cannot read .*No such file"):
        read_rows(tmp_path / "none.csv", terms_of(), Place(), 9)


# --- who is who ----------------------------------------------------------------------------------


def test_an_impostor_is_named_and_the_honest_client_heard(files):
    """A node that says it is client 2, with theta + 1000, changes nothing."""
    parties, alone = (Parties(files, files / which, terms_of()) for which in ("both", "alone"))
    for both in (parties, alone):
        both.round()
        both.broadcast = both.server.open_round()
    server, t = parties.server, 2
    replies = [parties.owner(k).play(parties.broadcast) for k in EVERYBODY]
    lie = replies[1].update._replace(client=2, theta=replies[1].update.theta + 1000.0)
    lying = replies[1]._replace(update=lie)
    with pytest.raises(Refused, match="node 1 says that it is client 2, which is node 2"):
        server.receive(1, EVERYBODY, 2, t, lying)
    with pytest.raises(Refused, match="its message is of client 2"):
        server.receive(1, EVERYBODY, 1, t, lying)
    with pytest.raises(Refused, match="client 3: there is none"):
        server.receive(1, EVERYBODY, 3, t, lying)
    with pytest.raises(Refused, match="late: its message is of round 1"):
        server.receive(1, EVERYBODY, 1, 1, replies[1])
    for k, reply in enumerate(replies):
        server.receive(k, EVERYBODY, k, t, reply)
    with pytest.raises(Refused, match="its second message"):
        server.receive(0, EVERYBODY, 0, t, replies[0])
    for k in EVERYBODY:
        alone.server.receive(k, EVERYBODY, k, t, alone.owner(k).play(alone.broadcast))
    for both in (parties, alone):
        both.server.close_round()
    np.testing.assert_array_equal(parties.theta, alone.theta)
    # A node that is gone leaves its client to the one that comes in its place.
    broadcast = server.open_round()
    server.receive(9, (0, 2, 9), 1, 3, parties.owner(1).play(broadcast))
    assert server.answered == {1}


def test_a_folder_is_of_one_client_and_one_federation(files):
    parties = Parties(files, files / "own", terms_of())
    parties.round()
    other = Parties(files, files / "other", terms_of(more="algorithm.lam=0.5"))
    with pytest.raises(ValueError, match=r"other terms \(settings\): go on with those, or name"):
        Coordinator(files / "own" / "server", other.terms, other.plan)
    other.folder = files / "own"
    with pytest.raises(ValueError, match=r"client-0 holds a federation with other terms"):
        other.owner(0)
    with pytest.raises(ValueError, match=r"client-0 is of client 0, and this is client 1"):
        DataOwner(files / "1.csv", files / "own" / "client-0", 1, parties.terms, parties.plan)
    with pytest.raises(ValueError, match=r"partition-id=3: clients are 0 to 2"):
        DataOwner(files / "1.csv", files / "own" / "3", 3, parties.terms, parties.plan)
    parties.owner(0).play(parties.server.open_round())
    forgetful = Coordinator(files / "new", parties.terms, parties.plan)
    with pytest.raises(Refused, match="round 1 was asked for, and 2 was played"):
        parties.owner(0).play(forgetful.open_round())


# --- what is left in the end ---------------------------------------------------------------------


@pytest.mark.parametrize("bounds", ["", BOUNDS])
@pytest.mark.parametrize("name", ["pof_mkl", "em_kofl", "ofskl", "fomd_oms"])
def test_a_model_predicts_as_its_client(name, bounds, files):
    """In the client's own units, from model.npz alone."""
    parties = Parties(files, files / "own", terms_of(name, "D=8", bounds=bounds))
    for _ in range(9):
        parties.round()
    last, owner = parties.server.open_round(), parties.owner(0)
    owner.finish(last)
    (files / "model.npz").write_bytes(deployed.client_model(owner))
    learner = omkl.load_learner(files / "model.npz")
    expected = learner.predict([rows_of(0)[0][9]])[0]
    parties.owner(0).play(last)
    predicted = float(parties.lines("predictions.csv", "client-0")[-1]["y_hat"])
    assert predicted == pytest.approx(expected, rel=1e-2 if bounds else 1e-12)
    assert learner.settings.inputs == ("a", "b") and learner.n_rows == 9
    content = deployed.server_model(parties.server)
    (files / "server.npz").write_bytes(content)
    assert np.isfinite(omkl.load_learner(files / "server.npz").predict(rows_of(0)[0])).all()


def test_a_network_has_no_model(files):
    parties = Parties(files, files / "own", terms_of("perfedavg", scaling="none"))
    parties.round()
    assert deployed.client_model(parties.owner(0)) is None
    assert deployed.server_model(parties.server) is None


def test_errors_may_stay_with_the_client(files):
    """measured = false: nothing but the update is reported, and it is the same update."""
    silent, heard = (
        Parties(files, files / str(told), terms_of(measured=told)) for told in (False, True)
    )
    for parties in (silent, heard):
        parties.to_the_end()
    assert {(e["rows"], e["regret"]) for e in silent.lines("rounds.csv")} == {("0", "nan")}
    np.testing.assert_array_equal(silent.theta, heard.theta)
    assert "client 1: mean squared error" in heard.server.summary()
    assert "client" not in silent.server.summary()


@pytest.mark.parametrize(
    "lie", [{"squared_error": math.inf}, {"squared_error": -1.0}, {"regret": 1e300}], ids=str
)
def test_what_a_client_cannot_have_measured_is_left_out(files, lie):
    """What it sent to be learned from counts as ever."""
    parties, honest = (Parties(files, files / which, terms_of()) for which in ("own", "honest"))
    honest.to_the_end()
    honestly = parties.server.receive

    def receive(node, nodes, client, t, reply):
        honestly(node, nodes, client, t, reply._replace(**lie) if client == 1 else reply)

    parties.server.receive = receive
    parties.to_the_end()
    np.testing.assert_array_equal(parties.theta, honest.theta)
    ((name, number),) = lie.items()
    events = parties.lines("events.csv")
    assert {event["client"] for event in events} == {"1"} and len(events) == LENGTHS[1]
    assert (
        f"its {name.replace('_', ' ')} of {number:g} is impossible, and is left"
        in events[0]["reason"]
    )


def test_noise_hides_what_clients_would_measure(files):
    pytest.importorskip("dp_accounting")
    with pytest.raises(ValueError, match=r"add federation.rounds=T"):
        endless = "privacy.epsilon=8 federation.rounds=null algorithm.eta=1"
        deployed.plan_of(terms_of("ofskl", endless, measured=False))
    noisy, plain = (
        Parties(files, files / name, terms_of("ofskl", words, measured=False))
        for name, words in (("noisy", "privacy.epsilon=8"), ("plain", ""))
    )
    for parties in (noisy, plain):
        parties.to_the_end()
    y_hat = [[float(line["y_hat"]) for line in p.lines("predictions.csv", "client-0")]
             for p in (noisy, plain)]  # fmt: skip
    assert np.isfinite(y_hat[0]).all() and not np.allclose(*y_hat)
