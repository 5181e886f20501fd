"""Clients with files of their own and their server, in one process and without a network."""

import csv
import io
import json
import math

import numpy as np
import pytest

import omkl
from omkl.config.compose import compose
from omkl.datasets import DataError
from omkl.experiment import run as runner
from omkl.federated.parties import Refused
from omkl.federated.simulation import Federation
from omkl.federation import results, terms
from omkl.federation.coordinator import Coordinator, Members
from omkl.federation.data_owner import COLUMNS, DataOwner
from omkl.federation.rows import ClientRows, Units, open_rows
from omkl.report import sweep_table

LENGTHS = (12, 5, 9)
EVERYBODY = (0, 1, 2)
WORDS = ("kernels=gaussian17", "federation.rounds=12", f"clients={len(LENGTHS)}")


def words_of(name, *more):
    own = {
        "pof_mkl": ("algorithm.M=3", "algorithm.xi=0.5"),
        "perfedavg": ("algorithm.alpha=0.01", "algorithm.beta=0.01"),
        "fomd_oms": ("algorithm.eta_w=1e6",),  # one kernel is as good as certain
    }
    return [f"algorithm={name}", *WORDS, *own.get(name, ()), *more]


def rows_of(client):
    rng = np.random.default_rng(client)
    X = rng.normal(size=(LENGTHS[client], 2)) * [1.0, 0.5]
    return X, 0.5 * np.sin(X[:, 0])


@pytest.fixture
def files(tmp_path):
    """A file a client: columns b, load, a and an id."""
    for k in range(len(LENGTHS)):
        X, y = rows_of(k)
        lines = [f"{b!r},{label!r},{a!r},r{n}" for n, ((a, b), label) in
                 enumerate(zip(X.tolist(), y.tolist(), strict=True))]  # fmt: skip
        (tmp_path / f"{k}.csv").write_text("\n".join(["b,load,a,id", *lines]) + "\n")
    return tmp_path


def made(name="pof_mkl", *more, **others):
    return terms.make_terms(words_of(name, *more), ["a", "b"], "load", **others)


class Parties:
    """A server and its clients, each with its folder, and a network that loses nothing."""

    def __init__(self, files, folder, agreed):
        self.files, self.folder, self.agreed = files, folder, agreed
        self.start_server()
        self.clients = [self.started(k) for k in range(len(LENGTHS))]

    def start_server(self):
        self.server = Coordinator(self.folder / "server", self.agreed)

    def started(self, k):
        text = (self.files / f"{k}.csv").read_text()
        rows = ClientRows(io.StringIO(text), f"{k}.csv", "load", ["id"])
        holder = DataOwner(self.folder / f"client-{k}", rows)
        holder.join(self.server.terms.text())
        self.server.admit(f"key {k}", rows.columns, k, f"site {k}")
        return holder

    def round(self, of=EVERYBODY):
        """A round of some clients; the others are silent."""
        broadcast = self.server.open_round()
        for k in of:
            if not self.server.is_done(k):
                reply = self.clients[k].play(k, broadcast)
                assert self.server.receive(f"key {k}", k, broadcast.t, reply)
        self.server.close_round()

    def to_the_end(self):
        while not self.server.over:
            self.round()


@pytest.mark.parametrize("name", ["pof_mkl", "em_kofl", "perfedavg"])  # all: test_parties.py
def test_files_give_the_simulation(name, files):
    """Rows as they are, clients of unequal length: bit for bit the federation in one process."""
    parties = Parties(files, files / "own", made(name, scaling="none"))
    parties.to_the_end()
    plan = parties.server.plan
    federation = Federation(
        plan.algorithm, plan.params, plan.dictionary, 2, plan.D, 0, len(LENGTHS),
        plan.settings.max_upload, lengths=np.array(LENGTHS),
    )  # fmt: skip
    X, Y = np.zeros((12, 3, 2)), np.zeros((12, 3))
    for k, n in enumerate(LENGTHS):
        X[:n, k], Y[:n, k] = rows_of(k)
    trace = federation.partial_fit(X, Y)
    found = parties.server.measured()
    np.testing.assert_allclose(found.squared_error, (trace.y_hat - Y) ** 2, rtol=1e-12, atol=1e-15)
    there = ~np.isnan(found.regret)
    assert there.sum(axis=0).tolist() == list(LENGTHS)
    np.testing.assert_allclose(found.regret[there], trace.regret[there], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(parties.server.used, federation.totals.used)
    np.testing.assert_array_equal(parties.server.sent, federation.totals.sent)
    assert parties.server.server.events == []


@pytest.mark.parametrize(
    "words", [["pof_mkl"], ["em_kofl"], ["pof_mkl", "clients_per_round=1"]], ids=" ".join
)
def test_whoever_is_killed_goes_on_to_the_bit(words, files):
    """The server dies in an open round that one client has played, and another client with it."""
    agreed = made(*words)
    whole, killed = (Parties(files, files / which, agreed) for which in ("whole", "killed"))
    whole.to_the_end()
    for _ in range(3):
        killed.round()
    killed.clients[0].play(0, killed.server.open_round())
    killed.start_server()
    assert killed.server.t == 3
    killed.clients[1] = killed.started(1)
    killed.to_the_end()
    for ours, theirs in zip(whole.server.measured()[:2], killed.server.measured()[:2], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for k in range(len(LENGTHS)):
        read = [(party.folder / f"client-{k}" / "predictions.csv").read_text()
                for party in (whole, killed)]  # fmt: skip
        assert read[0] == read[1] and len(read[0].splitlines()) == 1 + LENGTHS[k]
    np.testing.assert_array_equal(whole.server.sent, killed.server.sent)
    assert killed.server.members.names() == ["site 0", "site 1", "site 2"]


def test_a_client_that_is_away_loses_no_row(files):
    """It misses rounds 3 to 5 and takes up its rows where it left; others do not wait."""
    parties = Parties(files, files / "own", made(scaling="none"))
    for t in range(1, 13):
        parties.round(of=(0, 2) if 3 <= t <= 5 else (0, 1, 2))
    measured = ~np.isnan(parties.server.measured().regret)
    assert measured.sum(axis=0).tolist() == list(LENGTHS)
    assert not measured[2:5, 1].any() and measured[5:8, 1].all()
    with open(files / "own" / "client-1" / "predictions.csv") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert [int(row["round"]) for row in rows] == [1, 2, 6, 7, 8]
    np.testing.assert_array_equal([float(row["y"]) for row in rows], rows_of(1)[1])


# --- scaling -------------------------------------------------------------------------------------


def test_own_scaling_does_not_look_ahead():
    """Inputs by the rows up to and with this one, labels by those before it."""
    X, y = rows_of(0)
    units = Units(made())
    for n, (x, label) in enumerate(zip(X, y, strict=True), 1):
        seen, before = X[:n], y[: n - 1]
        expected = (x - seen.mean(axis=0)) / np.where(n > 1, seen.std(axis=0), 1.0)
        np.testing.assert_allclose(units.inputs(x), expected, rtol=1e-9, atol=1e-12)
        if n > 2:
            far = math.sqrt(n - 1)
            scaled = np.clip((label - before.mean()) / before.std(), -far, far)
            assert units.label(label) == pytest.approx(scaled, rel=1e-9)
            back = before.mean() + before.std() * 0.25
            assert units.prediction(0.25) == pytest.approx(back, rel=1e-12)
        units.learn(label)


def test_bounds_scale_all_clients_alike():
    bounds = {"a": [0.0, 4.0], "b": [-2.0, 2.0], "load": [0.0, 10.0]}
    units = Units(made(bounds=bounds))
    for _ in range(3):  # what comes does not move them
        np.testing.assert_allclose(units.inputs(np.array([4.0, -3.0])), [0.5, -0.75])
        assert units.label(10.0) == pytest.approx(0.5) and units.prediction(-0.5) == 0.0
        units.learn(7.0)
    assert units.n_outside == 3
    np.testing.assert_allclose(units.inputs(np.array([np.nan, 0.0])), [0.0, 0.0], atol=1e-15)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"a": [0, 1], "load": [0, 1]}, "bounds are of a, load; the columns are a, b, load"),
        ({"a": [0, 1], "b": [1, 1], "load": [0, 1]}, "bounds of b are .low, high. with low < high"),
        ({"a": [0, 1], "b": 3, "load": [0, 1]}, "bounds of b are two numbers; got 3"),
    ],
)
def test_wrong_bounds(bounds, message):
    with pytest.raises(ValueError, match=message):
        made(bounds=bounds)


# --- rows ----------------------------------------------------------------------------------------


def test_labels_may_come_later(tmp_path):
    """From standard input: the prediction of a row is said before its label is read."""
    said = []
    lines = io.StringIO("a,b,load\n1,2,3\n2,,\n4\n3,1,\n5\n")
    agreed = made("vm_kofl", scaling="none")
    server = Coordinator(tmp_path / "server", agreed)
    rows = open_rows("-", lines, "load")
    holder = DataOwner(tmp_path / "client", rows, tell=lambda n, y_hat: said.append((n, y_hat)))
    holder.join(server.terms.text())
    server.admit("key", rows.columns, None, "")
    for t in (1, 2, 3, 4):
        reply = holder.play(0, server.open_round())
        server.receive("key", 0, t, reply)
        server.close_round()
        assert reply.done == (t == 4) and (reply.update is None) == (t == 4)
    predictions = (tmp_path / "client" / "predictions.csv").read_text().splitlines()[1:]
    played = [line.split(",") for line in predictions]
    assert [float(y) for *_, y in played] == [3.0, 4.0, 5.0]
    assert said == [(int(n), float(y_hat)) for _, n, y_hat, _ in played[1:]]
    assert server.server.lengths[0] == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,load\n1,2\n", r"rows.csv has the columns a beside load; the federation has a, b"),
        ("a,b,c,load\n1,2,3,4\n", r"has the columns a, b, c beside load; the federation has a, b"),
        ("a,b\n1,2\n", "no column load; its first line is 'a,b'"),
        ("a,a,load\n1,2,3\n", "two columns 'a'"),
        ("a,b,load\n1,red,3\n", "row 1, column b: 'red' is no number"),
        ("a,b,load\n1,2\n", "row 1 has 2 cells; the first line has 3"),
        ("a,b,load\n1,inf,3\n", "'inf' is not finite"),
        ("", "no column load"),
    ],
)
def test_a_file_that_does_not_fit(text, message):
    with pytest.raises(DataError, match=message):
        rows = ClientRows(io.StringIO(text), "rows.csv", "load")
        rows.arrange(["a", "b"])
        rows.row()


def test_rows_without_a_label_are_counted(tmp_path):
    (tmp_path / "rows.csv").write_text("load;b;a\n;1;2\n3;4;NA\n;;\n\n5;6;7\nNA;1;1\n")
    rows = open_rows(str(tmp_path / "rows.csv"), io.StringIO(), "load")
    rows.arrange(["a", "b"])
    first, second = rows.row(), rows.row()
    np.testing.assert_array_equal(first.x, [np.nan, 4.0])
    np.testing.assert_array_equal(second.x, [7.0, 6.0])
    assert (first.y, second.y, rows.ended, rows.n_without_label) == (3.0, 5.0, True, 2)
    rows.close()
    with pytest.raises(DataError, match=r"a text file: .csv, .tsv or .txt"):
        open_rows(str(tmp_path / "rows.parquet"), io.StringIO(), "load")


# --- who is who ----------------------------------------------------------------------------------


def test_a_key_speaks_for_one_client(tmp_path):
    members = Members(3, tmp_path / "clients.json")
    assert members.bind("first key", None, "ann") == (0, "ann")
    assert members.bind("second key", 2, "bob") == (2, "bob")
    with pytest.raises(
        Refused, match=r"node third key says that it is client 2, which is node sec"
    ):
        members.bind("third key", 2, "eve")
    with pytest.raises(Refused, match="says that it is client 0, which is node first key; it is"):
        members.bind("second key", 0, "bob")
    with pytest.raises(Refused, match="there is no client 3: the last of 3 is 2"):
        members.bind("third key", 3, "eve")
    again = Members(3, tmp_path / "clients.json")
    assert again.bind("second key", None, "") == (2, "bob")
    assert again.bind("third key", None, "").client == 1
    with pytest.raises(Refused, match="there are 3 clients, all here"):
        again.bind("fourth key", None, "")
    assert again.names() == ["ann", "2", "bob"]


def test_an_impostor_is_named_and_the_honest_client_heard(files):
    """A node that says it is client 2, with theta + 1000, changes nothing."""
    parties, alone = (Parties(files, files / which, made()) for which in ("both", "alone"))
    alone.round()
    server, broadcast = parties.server, parties.server.open_round()
    replies = [holder.play(k, broadcast) for k, holder in enumerate(parties.clients)]
    lie = replies[1].update._replace(client=2, theta=replies[1].update.theta + 1000.0)
    assert not server.receive("key 1", 2, 1, replies[1]._replace(update=lie))
    for k, reply in enumerate(replies):
        assert server.receive(f"key {k}", k, 1, reply)
    assert not server.receive("key 0", 0, 1, replies[0])
    server.close_round()
    np.testing.assert_array_equal(
        server.server.state.model.theta, alone.server.server.state.model.theta
    )
    assert [(e.client, e.reason) for e in server.server.events] == [
        (1, "node key 1 says that it is client 2, which is node key 2; it is client 1"),
        (0, "its second message of the round"),
    ]
    lines = (files / "both" / "server" / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["client"] for line in lines] == [1, 0]


def test_what_is_refused_at_the_door(files):
    parties = Parties(files, files / "own", made())
    with pytest.raises(Refused, match=r"dan has the columns a, c; the federation has a, b"):
        parties.server.admit("key 9", ["a", "c"], None, "dan")
    with pytest.raises(
        ValueError, match=r"other settings \(algorithm\): go on with those, or name"
    ):
        Coordinator(files / "own" / "server", made("pof_mkl", "algorithm.lam=0.5"))
    other = Coordinator(files / "other", made())
    with pytest.raises(Refused, match=r"client-0 is of the federation .* name another folder"):
        parties.clients[0].join(other.terms.text())
    mean = json.loads(other.terms.text())
    mean["config"]["kernels"]["parts"][0]["module"] = "os"
    mean["config"]["kernels"]["module"] = "antigravity"
    with pytest.raises(ValueError, match=r"module=antigravity.*nothing but omkl's own code"):
        terms.read_terms(json.dumps(mean))


@pytest.mark.parametrize(
    ("words", "inputs", "message"),
    [
        (["algorithm=pof_mkl"], ["a"], "how many clients"),
        (["algorithm=pof_mkl", "clients=3"], ["a"], "eta=1/sqrt.T. needs the number of rounds T"),
        (words_of("pof_mkl"), ["a", "load"], "target=load is one of the inputs"),
        (words_of("raker"), ["a"], "raker does not learn in a federation"),
        (words_of("ofmkl_avg", "max_upload=3"), ["a"], "sends at least 34 numbers per round"),
    ],
)
def test_terms_that_cannot_be(words, inputs, message):
    with pytest.raises(ValueError, match=message):
        terms.make_terms(words, inputs, "load")


def test_omkl_run_has_no_such_federation():
    with pytest.raises(ValueError, match="its clients bring files of theirs"):
        runner.prepare(compose(["dataset=synthetic", "federation=holders", "algorithm=ofskl"]))


# --- what is left in the end ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pof_mkl", "em_kofl", "ofskl", "fomd_oms"])
def test_a_model_predicts_as_its_client(name, tmp_path):
    """In the client's own units, from model.npz alone."""
    agreed = terms.make_terms(words_of(name, "D=8"), ["a", "b"], "load", scaling="columns")
    server = Coordinator(tmp_path / "server", agreed)
    X, y = rows_of(0)
    text = "\n".join(["a,b,load", *(f"{a!r},{b!r},{v!r}" for (a, b), v in
                                    zip(X.tolist(), y.tolist(), strict=True))])  # fmt: skip
    rows = ClientRows(io.StringIO(text), "rows", "load")
    holder = DataOwner(tmp_path / "client", rows)
    holder.join(server.terms.text())
    server.admit("key", rows.columns, 0, "")
    for t in range(1, 10):
        server.receive("key", 0, t, holder.play(0, server.open_round()))
        server.close_round()
    assert server.write_model() is not None
    last = server.last_broadcast()
    holder.finish(0, last)
    learner = omkl.load_learner(holder.write_model())
    expected = learner.predict([X[9]])[0]
    holder.play(0, last)
    said = (tmp_path / "client" / "predictions.csv").read_text().splitlines()[-1].split(",")[2]
    assert float(said) == pytest.approx(expected, rel=1e-12)
    assert learner.settings.inputs == ("a", "b") and learner.n_rows == 9
    assert len(omkl.load_learner(tmp_path / "server" / "model.npz").predict(X[:2])) == 2


def test_a_run_folder_as_of_any_run(files, tmp_path):
    bounds = {"a": [-9, 9], "b": [-30, 30], "load": [0, 10]}
    agreed = made("vm_kofl", f"outputs={tmp_path / 'outputs'}", bounds=bounds)
    parties = Parties(files, files / "own", agreed)
    parties.to_the_end()
    outcome = runner.record(
        results.job_of(parties.server), results.computed(parties.server), runner.now()
    )
    run = outcome.run
    run.require_whole()
    assert run.complete
    errors = parties.server.measured().squared_error
    assert run.result["mse_mean"] == pytest.approx(np.nanmean(errors, axis=0).mean())
    assert run.result["n_rounds"] == 12 and run.result["federated"]["rows_used"] == sum(LENGTHS)
    assert run.curves["mse"].shape == (1, 12)
    assert run.curves["mse"][0, -1] == pytest.approx(run.result["mse_mean"])
    assert run.curves["client_rounds"].tolist() == list(LENGTHS)
    assert run.curves["client_name"].tolist() == ["site 0", "site 1", "site 2"]
    assert run.curves["weights"].sum() == pytest.approx(1.0)
    (row,) = sweep_table.sweep_table([run])
    assert row["best"] and row["scaling"] == "bounds"


def test_curves_begin_with_the_first_score(files):
    """Scaled by what was seen, a client's first round is in no units."""
    parties = Parties(files, files / "own", made())
    parties.to_the_end()
    found = results.computed(parties.server)
    assert found.curves["t"].tolist() == list(range(2, 13))
    errors = parties.server.measured().squared_error
    assert found.curves["mse"][0, 0] == pytest.approx(errors[1].mean())
    assert found.result["mse_over"] == "all rounds but the first of each client"


def test_errors_may_stay_with_the_client(files):
    """measured=false: nothing but the update is told, and it is the same update."""
    silent, heard = (
        Parties(files, files / str(told), made(measured=told)) for told in (False, True)
    )
    for parties in (silent, heard):
        parties.to_the_end()
    assert np.isnan(silent.server.measured().squared_error).all()
    assert np.isnan(silent.server.measured().regret).all()
    theta = [parties.server.server.state.model.theta for parties in (silent, heard)]
    np.testing.assert_array_equal(*theta)
    assert silent.clients[0].summary() == heard.clients[0].summary()
    with pytest.raises(results.NothingMeasured, match="no client has measured anything"):
        results.computed(silent.server)


@pytest.mark.parametrize(
    "lie",
    [
        {"squared_error": math.inf},
        {"squared_error": -1.0},
        {"regret": -math.inf},
        {"regret": 1e300},
    ],
    ids=str,
)
def test_what_a_client_cannot_have_measured_is_left_out(files, lie):
    """What it sent to be learned from counts as ever, and the others make the run."""
    parties, honest = (Parties(files, files / which, made()) for which in ("own", "honest"))
    honest.to_the_end()
    play = parties.clients[1].play
    parties.clients[1].play = lambda k, broadcast: play(k, broadcast)._replace(**lie)
    parties.to_the_end()
    theta = [p.server.server.state.model.theta for p in (parties, honest)]
    np.testing.assert_array_equal(*theta)
    ((name, number),) = lie.items()
    events = parties.server.server.events
    assert {event.client for event in events} == {1} and len(events) == LENGTHS[1]
    assert f"its {name.replace('_', ' ')} of {number:g} cannot be, and is left" in events[0].reason
    found, true = (results.computed(p.server) for p in (parties, honest))
    key = "client_mse" if name == "squared_error" else "client_regret"
    others = [0, 2]
    np.testing.assert_array_equal(found.curves[key][0, others], true.curves[key][0, others])
    assert np.isnan(found.curves[key][0, 1])
    json.dumps(found.result, allow_nan=False)


def test_a_network_keeps_no_model(files):
    parties = Parties(files, files / "own", made("perfedavg", scaling="none"))
    parties.round()
    assert parties.server.write_model() is None and parties.clients[0].write_model() is None


def test_noise_hides_what_clients_would_measure(files):
    pytest.importorskip("dp_accounting")
    private = ("privacy.epsilon=8",)
    with pytest.raises(ValueError, match="set measured=false"):
        made("ofskl", *private)
    with pytest.raises(ValueError, match=r"set federation.rounds=T"):
        made("ofskl", *private, "federation.rounds=null", measured=False)
    silent, open_ = (
        Parties(files, files / name, made("ofskl", *words, measured=False))
        for name, words in (("private", private), ("open", ()))
    )
    for parties in (silent, open_):
        parties.to_the_end()
    assert np.isnan(silent.server.measured().squared_error).all()
    texts = [(p.folder / "client-0" / "predictions.csv").read_text() for p in (silent, open_)]
    said = [[float(line["y_hat"]) for line in csv.DictReader(io.StringIO(t))] for t in texts]
    assert np.isfinite(said[0]).all() and not np.allclose(*said)


def test_rounds_that_a_power_failure_took_from_the_file_are_missed(files):
    agreed = made()
    parties = Parties(files, files / "own", agreed)
    for _ in range(3):
        parties.round()
    rounds = files / "own" / "server" / "rounds.jsonl"
    rounds.write_text("".join(rounds.read_text().splitlines(keepends=True)[:1]))
    with pytest.raises(ValueError, match=r"rounds.jsonl has 1 rounds, .* is of round 3: lines are"):
        Coordinator(files / "own" / "server", agreed)
