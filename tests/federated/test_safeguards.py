"""Noise at the clients, refusals and robust means at the server, and clients that are asked."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from omkl import federated
from omkl.checks import federations
from omkl.checks.federations import streams
from omkl.config.settings import complete
from omkl.core.hyperparameters import Schedule
from omkl.core.kernels import Kernel
from omkl.core.representations.random_features import draw_features
from omkl.core.rng import ASKING, NOISE, generator, generators
from omkl.experiment import run as runner
from omkl.federated.messages import NO_PROTECTION, Protection
from omkl.federated.parties import Client, Server
from omkl.federated.privacy import Privacy, Safeguards, SecretNormals, account, cuts, draw_asked
from omkl.federated.simulation import Federation
from tests.compositions import compose
from tests.federated.attack import Seen, before_the_error, guess
from tests.federated.one_process import learn, play

DICTIONARY = tuple(Kernel("gaussian", b) for b in (0.1, 1.0, 10.0))
K, T, D, SEED = 6, 40, 2, 3
ETA, ETA_W, LAM = 0.1, 0.5, 0.02
PRIVACY = Privacy(epsilon=40.0, delta=1e-5, unit="sample", clip=0.05, clip_losses=0.3)


def job_of(name, *more):
    words = [f"algorithm={name}", "dataset=synthetic", "dataset.rows=400", "kernels=gaussian17"]
    words += ["federation=iid", "clients=6", "federation.rounds=40", "seeds=1"]
    return runner.prepare(compose([*words, *more]))


def vm_kofl(frequencies, X, y, asked, noise, noise_sd, loss_sd, middle):
    """vM-KOFL with clipped, noisy messages of some clients, and the mean of the middle values.

    frequencies (N, d, D), X (T, K, d), y and asked (T, K), noise (T, K, N (2 D + 1)); ``middle`` is
    a mean along the first axis, (m, ...) -> (...). Returns predictions (T, K), theta (N, 2 D).
    """
    N, _, D = frequencies.shape
    angles = np.einsum("tkd,ndf->tknf", X, frequencies)
    z = np.concatenate([np.sin(angles), np.cos(angles)], axis=-1) / np.sqrt(D)
    theta, log_w, y_hat = np.zeros((N, 2 * D)), np.zeros(N), np.zeros(y.shape)
    for t in range(len(y)):
        w = np.exp(log_w - log_w.max())
        thetas, losses = [], []
        for k in range(y.shape[1]):
            f = np.sum(theta * z[t, k], axis=1)
            y_hat[t, k] = w @ f / w.sum()
            loss = (f - y[t, k]) ** 2 + LAM * np.sum(theta**2, axis=1)
            step = -ETA * (2.0 * (f - y[t, k])[:, None] * z[t, k] + 2.0 * LAM * theta)
            step *= min(1.0, PRIVACY.clip / np.linalg.norm(step))
            loss = loss * min(1.0, PRIVACY.clip_losses / np.linalg.norm(loss))
            numbers = noise[t, k]
            if asked[t, k]:
                thetas.append(theta + step + noise_sd * numbers[: step.size].reshape(step.shape))
                losses.append(loss + loss_sd * numbers[step.size :])
        theta, log_w = middle(np.array(thetas)), log_w - ETA_W * middle(np.array(losses))
    return y_hat, theta


@pytest.mark.parametrize(
    ("wanted", "trim", "middle"),
    [
        (None, 0.0, lambda a: a.mean(axis=0)),
        (None, 0.5, lambda a: np.median(a, axis=0)),
        (5, 0.5, lambda a: np.median(a, axis=0)),
        (5, 0.2, lambda a: stats.trim_mean(a, 0.2, axis=0)),
    ],
)
def test_noise_and_robust_means_against_plain_numpy(wanted, trim, middle):
    pytest.importorskip("dp_accounting")
    X, y = streams(T, K, seed=2)
    algorithm = federated.load("vm_kofl")
    params = algorithm.Params(Schedule(ETA, 0.0), Schedule(ETA_W, 0.0), lam=LAM)
    guards = Safeguards(clients_per_round=wanted, trim=trim, privacy=PRIVACY)
    settings = (algorithm, params, DICTIONARY, X.shape[2], D, SEED, K)
    federation = Federation(*settings, lengths=np.full(K, T), guards=guards)
    blocks = np.split(np.arange(T), [1, 8])
    ours = np.concatenate([federation.partial_fit(X[b], y[b]).y_hat for b in blocks])
    size = len(DICTIONARY) * (2 * D + 1)
    noise = [rng.standard_normal((T, size)) for rng in generators(SEED, NOISE, K)]
    drawn = generator(SEED, ASKING).random((T, K)) if wanted else np.zeros((T, K))
    asked = np.argsort(np.argsort(drawn, axis=1), axis=1) < (wanted or K)
    counted = account(PRIVACY, algorithm, params, len(DICTIONARY), T)
    sigma = counted.noise / (2.0 * PRIVACY.clip) / math.sqrt(2.0)  # two vectors are one of this
    assert counted.noise_losses / counted.noise == pytest.approx(0.3 / 0.05)
    # Balle and Wang, theorem 8: the delta of this noise.
    below, above = stats.norm.cdf([0.5 / sigma - 40.0 * sigma, -0.5 / sigma - 40.0 * sigma])
    assert below - math.exp(40.0) * above == pytest.approx(1e-5, rel=1e-6)
    frequencies = draw_features(DICTIONARY, X.shape[2], D, SEED).omega
    sds = counted.noise, counted.noise_losses
    y_hat, theta = vm_kofl(frequencies, X, y, asked, np.stack(noise, axis=1), *sds, middle)
    np.testing.assert_allclose(ours, y_hat, rtol=0, atol=1e-12)
    np.testing.assert_allclose(federation.server.model.theta, theta, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(federation.totals.replies[:, 0], asked.sum(axis=0))


@pytest.mark.parametrize("name", ["pof_mkl", "em_kofl", "vm_kofl", "fomd_oms"])
@pytest.mark.parametrize("guard", ["privacy.epsilon=50", "robust.max_change=0.05"])
def test_messages_give_the_simulation_with_every_safeguard(name, guard):
    if name == "em_kofl":  # its clients go further before they send
        guard = guard.replace("0.05", "0.3")
    if guard.startswith("privacy"):
        pytest.importorskip("dp_accounting")
    M = ["algorithm.M=17"] if name == "pof_mkl" else []
    job = job_of(name, "clients_per_round=4", "robust.trim=0.3", guard, *M)
    federation = job.federation(0)
    expected = federation.partial_fit(job.split.X, job.split.y).y_hat
    server, y_hat = play(job, 0)
    np.testing.assert_allclose(y_hat, expected, rtol=0, atol=1e-12)
    theta = federation.server.model.theta
    np.testing.assert_allclose(server.state.model.theta, theta, rtol=0, atol=1e-12)
    asked, refused = federation.totals.replies.sum(axis=0)
    assert asked == 4 * 40 and len(server.events) == refused < asked
    assert (refused > 0) == guard.startswith("robust")


# --- a server that does not trust every client --------------------------------------------------


def test_how_many_values_are_left_out_is_exact():
    assert cuts(0.1, 31)[[10, 11, 20, 21, 30, 31]].tolist() == [1, 2, 2, 3, 3, 4]
    assert cuts(0.29, 100)[100] == 29  # 0.29 * 100 is 28.999999999999996
    assert cuts(0.5, 6).tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert cuts(0.0, 6).size == 0
    assert all(c >= Fraction("0.07") * n for n, c in enumerate(cuts(0.07, 40)) if n > 2)


def test_every_client_is_asked_as_often_as_any_other():
    present = np.array([0, 2, 3, 5])
    asked = draw_asked(np.random.default_rng(0), 20_000, 6, present, 3)
    assert np.all(asked.sum(axis=1) == 3)
    np.testing.assert_allclose(asked.mean(axis=0), 0.75, atol=0.015)  # 5 standard deviations
    assert draw_asked(np.random.default_rng(0), 7, 6, present, 4).all()


@pytest.mark.parametrize(
    ("words", "lie", "reason"),
    [
        ("robust.max_change=3", lambda u: u._replace(theta=u.theta + 1000.0), "max_change=3 allow"),
        ("robust.max_loss=9", lambda u: u._replace(losses=u.losses - 10.0), "max_loss=9 allow"),
    ],
)
def test_a_message_that_changes_too_much_is_refused(words, lie, reason):
    """The round goes on as if the liar had been silent, and the event names it."""
    job = job_of("vm_kofl", words)
    thetas = []
    for lies in (True, False):
        server = Server(job, 0)
        clients = [Client(job, 0, k) for k in range(6)]
        for _ in range(5):
            broadcast = server.broadcast()
            for client in clients:
                update = learn(client, broadcast)
                if client.client != 2:
                    assert server.receive(update)
                elif lies:
                    assert not server.receive(lie(update))
            server.finish()
        assert [event.client for event in server.events] == ([2] * 5 if lies else [])
        assert all(reason in event.reason for event in server.events)
        thetas.append(server.state.model.theta.copy())
    np.testing.assert_array_equal(*thetas)


def test_losses_without_rows_are_left_out_as_others_are():
    """Who sends losses of all kernels cannot get past the robust mean by keeping rows back."""
    job, log_w = job_of("vm_kofl", "robust.trim=0.2"), []
    for keeps in (slice(None), slice(0)):
        server = Server(job, 0)
        broadcast = server.broadcast()
        for k in range(6):
            update = learn(Client(job, 0, k), broadcast)
            if k == 4:
                rows, theta = update.rows[keeps], update.theta[keeps]
                update = update._replace(rows=rows, theta=theta, losses=update.losses + 1e3)
            assert server.receive(update)
        server.finish()
        log_w.append(server.state.log_w)
    np.testing.assert_array_equal(*log_w)


def test_who_was_not_asked_is_not_listened_to():
    job = job_of("ofskl", "clients_per_round=2")
    server, clients = Server(job, 0), [Client(job, 0, k) for k in range(6)]
    broadcast = server.broadcast()
    everybody = broadcast._replace(asked=np.zeros(0, dtype=np.int64))
    for client in clients:
        asked = client.client in broadcast.asked
        honest = learn(client, broadcast)
        assert honest.theta.size == (200 if asked else 0)
        if not asked:
            assert not server.receive(learn(Client(job, 0, client.client), everybody))
            assert server.events[-1].reason == "it sends an update and was not asked for one"
        assert server.receive(honest)
    assert len(broadcast.asked) == 2 and len(server.events) == 4


# --- privacy ------------------------------------------------------------------------------------


def test_what_noise_is_worth_is_what_another_accountant_says():
    """40 noisy messages one by one, by Google's accountant of privacy loss distributions."""
    accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    algorithm = federated.load("vm_kofl")
    params = algorithm.Params(Schedule(ETA, 0.0), Schedule(ETA_W, 0.0), lam=LAM)
    privacy = PRIVACY._replace(epsilon=2.0, unit="client")
    counted = account(privacy, algorithm, params, 3, T)
    one = accounting.GaussianDpEvent(counted.noise / (2.0 * privacy.clip))
    both = accounting.ComposedDpEvent([one, one])  # the parameters, and the losses
    accountant = PLDAccountant(accounting.NeighboringRelation.REPLACE_SPECIAL)
    accountant.compose(accounting.SelfComposedDpEvent(both, T))
    assert accountant.get_epsilon(1e-5) == pytest.approx(2.0, abs=2e-3)
    assert counted.messages == T and counted.epsilon_of_client == pytest.approx(2.0)
    assert counted.epsilon_of_sample < 0.3
    assert counted.noise_losses / counted.noise == pytest.approx(6.0)


@pytest.mark.parametrize("name", federated.names())
def test_the_unit_of_privacy(name):
    """One sample is in one message, but where clients learn for themselves before they send."""
    case = federations.Case(name)
    exposure = case.algorithm.exposure(case.params(M=3), 3, 100)
    assert exposure == (100 if name in ("domkl", "em_kofl") else 1)


def test_a_choice_of_kernels_is_not_hidden_by_noise():
    """The bin of POF-MKL is drawn by weights of all earlier labels: refused, with the way out."""
    pytest.importorskip("dp_accounting")
    with pytest.raises(ValueError, match=r"tells of all its earlier labels.*Set algorithm.M=17"):
        job_of("pof_mkl", "privacy.epsilon=1", "algorithm.M=5")


def test_noise_of_a_client_on_its_own_cannot_be_taken_off_again():
    """It does not come from the seed."""
    pytest.importorskip("dp_accounting")
    job = job_of("ofskl", "privacy.epsilon=10")
    server = Server(job, 0)
    broadcast = server.broadcast()
    one, two = (Client(job, 0, 0) for _ in "ab")
    first, second = learn(one, broadcast), learn(two, broadcast)
    assert one.y_hat == two.y_hat and not np.array_equal(first.theta, second.theta)
    numbers = SecretNormals().standard_normal(20_000)
    assert stats.kstest(numbers, "norm").pvalue > 1e-6


def recovered(case, protection):
    """How many of 40 samples a curious server works out to 1e-6 from their messages, the median
    distance of its guesses from x, and that of the mean input, which takes no message."""
    X, y = streams(60, K=1)
    federation, sent = federations.sent_by_one(case, X, y, protection)
    right, distances = 0, []
    theta, last, multiplier = sent.theta, sent.theta, np.zeros_like(sent.theta)
    for s in range(40):
        if case.name == "domkl":
            theta, multiplier = before_the_error(federation.params, last, multiplier, sent.theta)
            last = sent.values[s]
        seen = Seen(21 + s, theta, sent.announced[s], sent.rows[s], sent.values[s])
        guessed = guess(case.name, federation.params, federation.server.model, seen)
        if guessed is not None and np.isfinite(guessed.x).all():
            distances.append(np.linalg.norm(guessed.x - X[20 + s, 0]))
            right += distances[-1] < 1e-6
    blind = np.linalg.norm(X[20:, 0] - X.mean(axis=(0, 1)), axis=1)
    return right, np.median(distances or [np.inf]), np.median(blind)


@pytest.mark.parametrize("name", federated.names())
def test_a_message_without_noise_gives_its_sample_away(name):
    """And with noise as large as two messages may be apart nothing is recovered from one."""
    case, clip = federations.Case(name), 0.01
    right, distance, _ = recovered(case, NO_PROTECTION)
    assert right == (4 if name == "em_kofl" else 40) and distance < 1e-6
    whole = case.algorithm.announces[0] > 0
    right, distance, blind = recovered(case, Protection(clip, clip, 2.0 * clip, 2.0 * clip, whole))
    assert right == 0 and distance > 0.9 * blind


def test_messages_of_some_kernels_give_x_and_y_away():
    """Of POF-MKL too, which the paper says protects them: from x and y each right to 1e-6."""
    for words, least in (
        (["pof_mkl", "algorithm.M=5"], 150),
        (["pof_mkl", "algorithm.M=1", "algorithm.xi=0.5"], 80),
        (["fomd_oms"], 150),
    ):
        n, n_x, n_both = samples_given_away(job_of(*words))
        assert n == 240 and n_x >= n_both >= least


def samples_given_away(job):
    """Messages of a federation, and of how many the server works out x, and x and y, to 1e-6."""
    server = Server(job, 0)
    clients = [Client(job, 0, k) for k in range(job.split.y.shape[1])]
    n = n_x = n_both = 0
    for s in range(len(job.split.y)):
        broadcast, theta = server.broadcast(), server.state.model.theta.copy()
        log_w = server.state.log_w.copy()
        for k, client in enumerate(clients):
            update = learn(client, broadcast)
            server.receive(update)
            told = broadcast.announced, update.rows, update.theta
            seen = Seen(broadcast.t, theta, *told, log_w)
            guessed = guess(job.algorithm.name, job.params, server.state.model, seen)
            n += 1
            if guessed is not None:
                right = np.linalg.norm(guessed.x - job.split.X[s, k]) < 1e-6
                n_x += right
                n_both += right and abs(guessed.y - job.split.y[s, k]) < 1e-6
        server.finish()
    return n, n_x, n_both


# --- settings -----------------------------------------------------------------------------------


def test_what_privacy_costs_is_in_the_result():
    pytest.importorskip("dp_accounting")
    found = job_of("ofskl", "privacy.epsilon=3").compute().result["federated"]["safeguards"]
    assert found["privacy"]["epsilon_of_sample"] == pytest.approx(3.0)
    assert found["privacy"]["epsilon_of_client"] > 15.0
    assert found["privacy"]["unit"] == "sample" and found["privacy"]["clip"] == 0.1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["robust.trim=0.6"], "robust.trim=0.6 is not a number of at least 0, and at most 0.5"),
        (["privacy.epsilon=0"], "privacy.epsilon=0 is not a number of at least 0.001"),
        (["privacy.unit=row"], "privacy.unit='row' is none of sample, client"),
        (["clients_per_round=7"], "clients_per_round=7: there are 6 clients"),
    ],
)
def test_settings_that_cannot_be(words, told):
    with pytest.raises(ValueError, match=told):
        job_of("ofskl", *words)


def test_safeguards_are_of_a_federation():
    with pytest.raises(ValueError, match="need a federation: add federation=iid"):
        complete(compose(["algorithm=raker", "robust.trim=0.1"]))
