"""Server and clients with nothing but messages between them; what goes wrong with messages."""

import dataclasses

import numpy as np
import pytest

from omkl import federated
from omkl.experiment import run as runner
from omkl.federated.parties import Client, Refused, Server
from tests.compositions import compose
from tests.federated.one_process import learn, play

ROUNDS, CLIENTS = 40, 4


def job_of(name="pof_mkl", *more):
    M = ["algorithm.M=3", "algorithm.xi=0.5"] if name == "pof_mkl" else []
    settings = [f"algorithm={name}", "dataset=synthetic", "dataset.rows=400", "kernels=gaussian17"]
    settings += ["federation=iid", f"clients={CLIENTS}", f"federation.rounds={ROUNDS}", "seeds=1"]
    return runner.prepare(compose([*settings, *M, *more]))


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("name", federated.names())
def test_messages_give_the_simulation(name, every):
    """Of unequal streams too; no message counts after a stream's end."""
    if name == "em_kofl" and every > 1:
        with pytest.raises(ValueError, match="draws for all clients"):
            Server(job_of(name, f"exchange.every={every}"), 0)
        return
    job = job_of(name, f"exchange.every={every}")
    lengths = np.array([ROUNDS, 3, 17, ROUNDS])
    split = job.split._replace(lengths=lengths)
    job = dataclasses.replace(job, split=split, lengths=lengths)
    federation = job.federation(0)
    expected = federation.partial_fit(job.split.X, job.split.y).y_hat
    server, y_hat = play(job, 0)
    np.testing.assert_allclose(y_hat, expected, rtol=0, atol=1e-12)
    if every == 1:  # else clients have states of their own
        theta = federation.server.model.theta
        np.testing.assert_allclose(server.state.model.theta, theta, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(server.numbers, federation.totals.sent[:, 0])
    assert np.isfinite(y_hat).sum(axis=0).tolist() == lengths.tolist()
    assert server.events == []
    if every > 1:
        return
    with pytest.raises(ValueError, match="0 rows for the rounds 4 to 4"):
        learn(Client(job, 0, 1), server.broadcast()._replace(t=4))
    server.t = 4
    stale = learn(Client(job, 0, 0), server.broadcast()._replace(t=5))._replace(client=1)
    assert not server.receive(stale)
    assert server.events[-1].reason == "its stream ended with round 3"


def damaged(update, how, last):
    theta = update.theta.copy()
    if how == "NaN":
        theta[0, 0] = np.nan
        return update._replace(theta=theta)
    if how == "wrong shape":
        return update._replace(theta=theta[:, :-1])
    if how == "too many numbers":
        n = 17  # all kernels
        rows = np.arange(n)
        return update._replace(rows=rows, theta=np.zeros((n, theta.shape[1])))
    if how == "wrong rows":
        return update._replace(rows=update.rows + 17)
    if how == "twice the same row":
        return update._replace(rows=np.zeros_like(update.rows))
    if how == "an array without a dimension":
        return update._replace(rows=np.array(3), theta=theta[:1])
    if how == "too large":
        return update._replace(theta=np.full_like(theta, 1e308))
    if how == "single precision":
        return update._replace(theta=theta.astype(np.float32))
    if how == "another client":
        return update._replace(client=CLIENTS)
    assert how == "late"
    return last


DAMAGE = {
    "NaN": "where numbers are finite",
    "wrong shape": "not of this federation: ",
    "an array without a dimension": "not of this federation: ",
    "too large": "squares are not finite",
    "too many numbers": "too many numbers: 3",
    "wrong rows": "not of this federation: rows holds",
    "twice the same row": "a row twice",
    "single precision": "theta is float32",
    "another client": "there is no client 4",
    "late": "late: its message is of round 4",
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_bad_update_is_as_none(how):
    """The round goes on without it, and the event says why."""
    job = job_of()
    thetas = []
    for refuse in (True, False):
        server = Server(job, 0)
        clients = [Client(job, 0, k) for k in range(CLIENTS)]
        last = None
        for t in range(1, 11):
            broadcast = server.broadcast()
            for client in clients:
                update = learn(client, broadcast)
                if client.client == 2 and t == 5:
                    if refuse:
                        assert not server.receive(damaged(update, how, last))
                    continue
                assert server.receive(update)
                last = update if client.client == 2 else last
            server.finish()
        if refuse:
            (event,) = server.events
            assert event.t == 5 and DAMAGE[how] in event.reason
        thetas.append(server.state.model.theta.copy())
    np.testing.assert_array_equal(*thetas)
    assert np.isfinite(thetas[0]).all()


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("name", federated.names())
def test_a_client_that_comes_back_has_forgotten_nothing(name, every):
    """Away in broadcasts 6 to 8: with its state on disk it goes on as one that was only silent."""
    if name == "em_kofl" and every > 1:
        pytest.skip("its server draws for all clients")
    job = job_of(name, f"exchange.every={every}")
    answers = []
    for dies in (True, False):
        server = Server(job, 0)
        clients = [Client(job, 0, k) for k in range(CLIENTS)]
        y_hat = []
        for n in range(1, 16):
            broadcast = server.broadcast()
            if dies and n == 6:
                saved = clients[3].checkpoint()
                clients[3] = Client(job, 0, 3)  # another process
                clients[3].restore(saved)
            for client in clients:
                if client.client == 3 and 6 <= n <= 8:
                    continue
                server.receive(learn(client, broadcast))
                y_hat += client.y_hat.tolist()
            server.finish()
        answers.append(y_hat)
    assert answers[0] == answers[1]


def test_a_round_of_nobody_changes_nothing():
    """And a second message in a round is refused."""
    job = job_of()
    server, client = Server(job, 0), Client(job, 0, 1)
    update = learn(client, server.broadcast())
    assert server.receive(update) and not server.receive(update)
    assert server.events[0].reason == "its second message of the round"
    server.finish()
    before = server.state.model.theta.copy()
    assert before.any()
    server.broadcast()
    server.finish()
    np.testing.assert_array_equal(server.state.model.theta, before)


@pytest.mark.parametrize("name", federated.names())
@pytest.mark.parametrize("number", [np.nan, np.inf, 1e200])
def test_a_broadcast_of_no_use_leaves_the_client_as_it_was(name, number):
    """One that is not finite, or so large that the reply would not be."""
    job = job_of(name)
    server, client, other = Server(job, 0), Client(job, 0, 1), Client(job, 0, 1)
    broadcast = server.broadcast()
    learn(client, broadcast)
    learn(other, broadcast)
    server.finish()
    bad = server.broadcast()
    with pytest.raises(Refused, match="finite"):
        learn(client, bad._replace(theta=np.full_like(bad.theta, number)))
    server.finish()
    good = server.broadcast()
    sent, expected = learn(client, good), learn(other, good)
    assert (client.y_hat[0], client.regret) == (other.y_hat[0], other.regret)
    for array, wanted in zip(sent, expected, strict=True):
        np.testing.assert_array_equal(array, wanted)


@pytest.mark.parametrize("how", ["too wide", "too few kernels", "no such kernel", "another type"])
def test_a_broadcast_that_does_not_fit_is_refused_before_anything_is_written(how):
    job = job_of("em_kofl" if how == "no such kernel" else "vm_kofl")
    client, broadcast = Client(job, 0, 0), Server(job, 0).broadcast()
    bad = {
        "too wide": {"theta": np.ones((len(broadcast.theta), 10_000))},
        "too few kernels": {"theta": broadcast.theta[:-1]},
        "no such kernel": {"announced": broadcast.announced + 10**6},
        "another type": {"theta": broadcast.theta.astype(np.int64)},
    }[how]
    before = client.server.model.theta.copy()
    with pytest.raises(ValueError, match="is not of this federation"):
        client.take(broadcast._replace(**bad))
    np.testing.assert_array_equal(client.server.model.theta, before)
