"""What a message gives away, and what a federation does about it: noise, refusals, robust means.

``Safeguards`` are the settings; their arithmetic is in ``messages``.

**What noise is worth.** A client clips the change that its message makes to a norm of ``clip``, its
losses to a norm of ``clip_losses``, and adds Gaussian noise to both before anything leaves it
(``messages.protect``).
So the server itself learns no more than (epsilon, delta) allows: this is the local model.

Neighbours are streams that differ in one sample (``unit`` sample) or in all samples of one client
(``unit`` client), replaced by any others. Two messages of neighbours are at most 2 clip apart, so
noise of standard deviation 2 clip z has the multiplier z. Two vectors, or n messages, of multiplier
z are one Gaussian mechanism of multiplier z / sqrt(2), or z / sqrt(n), adaptively chosen or not
(Dong, Roth, Su, "Gaussian differential privacy", 2022). Its epsilon for a delta is exact: Balle and
Wang, "Improving the Gaussian mechanism", ICML 2018, as kept by Google in ``dp_accounting``.

One sample enters as many messages as the algorithm's ``exposure`` says. That a server asks a random
part of the clients is not counted in their favour: the server knows whom it asked.

**What one message without noise gives away: a client's sample, worked out by a curious server.**
Random features are no secret: all parties draw them from the seed. One gradient step of kernel i
from theta_i, which the server has sent, is

    theta_ik - theta_i = -a_i [sin(w_j'x), cos(w_j'x)]_j - b theta_i,
    a_i = 2 eta (f_i(x) - y) / (sqrt(D) p),     b = 2 eta lam / p,

where p is the probability that the kernels were sent with (POF-MKL; 1 elsewhere). With the right
b all entries have the amplitude a_i and the angles w_j'x: x follows by least squares, and y from
a_i (``from_step``). The first layer of a network moves by delta x' and its biases by delta: x is a
ratio (``from_network``). A server that knows more, or tries more, may find more.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Sequence
from fractions import Fraction
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.hyperparameters import rate
from omkl.federated.messages import Inbox, Message, Protection, new_inbox, no_protection

if TYPE_CHECKING:
    from omkl.federated.protocol import FederatedAlgorithm

UNITS = ("sample", "client")
ANGLES = (0.25 * math.pi, 0.5 * math.pi, math.pi, 2.0 * math.pi, 4.0 * math.pi)
EXACT = 1e-6  # a residual of angles below which they are those of an input
NEAREST, FARTHEST = 1e-6, 1e3  # from the network's output, that a label is looked for
ATTACKED = ("ofskl", "ofmkl_avg", "vm_kofl", "em_kofl", "pof_mkl", "perfedavg")


class Privacy(NamedTuple):
    """As ``privacy.*`` of conf/config.yaml, where epsilon is given."""

    epsilon: float
    delta: float
    unit: str
    clip: float
    clip_losses: float


class Safeguards(NamedTuple):
    """Settings of the exchange of messages; all off by default.

    clients_per_round  asked for their messages, drawn at random every round; None: all
    max_change         a message that moves the shared parameters by a larger norm is refused
    max_loss           one with a loss of a larger size is refused
    trim               share of the values left out at either end, by coordinate, before the mean;
                       0.5 the median
    privacy            noise at the clients
    """

    clients_per_round: int | None = None
    max_change: float | None = None
    max_loss: float | None = None
    trim: float = 0.0
    privacy: Privacy | None = None


NO_SAFEGUARDS = Safeguards()


def cuts(trim: float, n_senders: int) -> np.ndarray:
    """How many of n = 0..n_senders values are left out at either end, (n_senders + 1,) int64.

    At least the share ``trim`` of them, and one or two are always left: none of fewer than three.
    (0,) where ``trim`` is 0.
    """
    if trim == 0.0:
        return np.zeros(0, dtype=np.int64)
    share = Fraction(str(trim))  # as it was typed: 0.1 of 10 is 1
    counts = [max(0, min(math.ceil(share * n), (n - 1) // 2)) for n in range(n_senders + 1)]
    return np.array(counts, dtype=np.int64)


def inbox_for(safeguards: Safeguards, n_clients: int, message: Message) -> Inbox:
    """The server's inbox for messages like this one."""
    senders = min(n_clients, safeguards.clients_per_round or n_clients)
    bounds = safeguards.max_change, safeguards.max_loss
    return new_inbox(message, *bounds, cuts(safeguards.trim, senders))


def protection_for(
    safeguards: Safeguards, algorithm: FederatedAlgorithm, params: Any, N: int, n_rounds: int
) -> Protection:
    """What a client does to a message, of ``n_rounds`` of them at most."""
    if safeguards.privacy is None:
        return no_protection()
    return protection_of(safeguards.privacy, algorithm, params, N, n_rounds)


def draw_asked(
    rng: np.random.Generator, n: int, n_clients: int, present: np.ndarray, wanted: int | None
) -> np.ndarray:
    """Which of the clients ``present`` (C,) are asked in n rounds, (n, C); all without ``wanted``.

    Every set of ``wanted`` clients is as likely as any other. Draws for all K clients, whoever
    is present.
    """
    asked = np.ones((n, len(present)), dtype=bool)
    if wanted is None:
        return asked
    drawn = rng.random((n, n_clients))[:, present]
    if wanted < len(present):
        first = np.argsort(drawn, axis=1, kind="stable")[:, :wanted]
        asked[:] = False
        np.put_along_axis(asked, first, True, axis=1)
    return asked


# --- what noise is worth ------------------------------------------------------------------------


class Account(NamedTuple):
    """What the noise of a federation is worth.

    noise, noise_losses   standard deviations of what is added to a parameter and to a loss
    messages              that one unit of privacy can change
    epsilon_of_sample, epsilon_of_client   at delta, of one sample and of a client's whole stream
    """

    noise: float
    noise_losses: float
    messages: int
    epsilon_of_sample: float
    epsilon_of_client: float


def account(
    privacy: Privacy, algorithm: FederatedAlgorithm, params: Any, N: int, n_rounds: int
) -> Account:
    """The least noise with which ``n_rounds`` messages of a client keep what was asked for.

    ValueError where noise on messages cannot keep it, or without ``dp_accounting``.
    """
    gaussian = _accountant()
    of_sample = algorithm.exposure(params, N, n_rounds)
    messages = of_sample if privacy.unit == "sample" else n_rounds
    vectors = 2 if algorithm.shared_weights else 1  # of a message: its rows, its losses
    alone = gaussian.get_sigma_gaussian(privacy.epsilon, privacy.delta)
    multiplier = alone * math.sqrt(messages * vectors)

    def epsilon(n: int) -> float:
        together = multiplier / math.sqrt(n * vectors)
        return float(gaussian.get_epsilon_gaussian(together, privacy.delta))

    return Account(
        2.0 * privacy.clip * multiplier,
        2.0 * privacy.clip_losses * multiplier if vectors == 2 else 0.0,
        messages,
        epsilon(of_sample),
        epsilon(n_rounds),
    )


def protection_of(
    privacy: Privacy, algorithm: FederatedAlgorithm, params: Any, N: int, n_rounds: int
) -> Protection:
    """Clips and noise of a client's messages."""
    counted = account(privacy, algorithm, params, N, n_rounds)
    clips = float(privacy.clip), float(privacy.clip_losses)
    noise = counted.noise, counted.noise_losses
    return Protection(*clips, *noise, algorithm.announces[0] > 0)


def _accountant() -> ModuleType:
    try:
        import dp_accounting  # an extra, and 2 s
    except ImportError as error:
        raise ValueError(
            "privacy.epsilon needs dp-accounting, which counts what is given away: "
            "pip install 'omkl[privacy]'"
        ) from error
    accountant: ModuleType = dp_accounting
    return accountant


class SecretNormals:
    """Standard normal numbers from the operating system's randomness, which no seed gives back.

    They are doubles: what rounding of doubles gives away (Mironov, CCS 2012) is not hidden.
    """

    def standard_normal(self, size: int) -> np.ndarray:
        """(size,) numbers, by the inverse of the normal distribution."""
        from scipy.special import ndtri  # its start, which a run without noise need not wait for

        whole = np.frombuffer(os.urandom(8 * size), dtype=np.uint64) >> np.uint64(11)
        numbers: np.ndarray = ndtri((whole + 0.5) / 2.0**53)
        return numbers


# --- what a message without noise gives away ----------------------------------------------------


class Guess(NamedTuple):
    """x (d,) and y, and the residual of what was solved: 0 but for rounding where it is right."""

    x: np.ndarray
    y: float
    residual: float


class Seen(NamedTuple):
    """What the server knows of a client's message of round t.

    theta (N, W) as it was broadcast, the rows that it named, and the rows sent with their values
    """

    t: int
    theta: np.ndarray
    announced: np.ndarray
    rows: np.ndarray
    sent: np.ndarray


def guess(name: str, params: Any, model: Any, seen: Seen) -> Guess | None:
    """The sample behind a message of the algorithm ``name``; None where equations are too few.

    ``model`` are the shared parameters, whose random features or layers the server knows.
    ValueError for an algorithm that is none of ``ATTACKED``.
    """
    if name not in ATTACKED:
        raise ValueError(
            f"what a message of {name} tells is not known; of {', '.join(ATTACKED)} it is"
        )
    if name == "perfedavg":
        steps = rate(params.alpha, seen.t), rate(params.beta, seen.t)
        return from_network(model.sizes, seen.theta[0], seen.sent[0], *steps)
    theta = seen.theta
    if name == "em_kofl":  # rows that the client went on from, if the server knows them
        if seen.t > 1 and seen.announced[0] != seen.announced[1]:
            return None
        theta = theta if seen.t > 1 else np.zeros_like(theta)
    p: float | None = 1.0
    if name == "pof_mkl" and params.M < len(theta):
        bins = math.ceil(len(theta) / params.M)
        p = 1.0 / bins if params.xi == 1.0 else None
    eta = rate(params.eta, seen.t)
    return from_step(model.omega, theta[seen.rows], seen.rows, seen.sent, eta, params.lam, p)


def from_step(
    omega: np.ndarray, theta: np.ndarray, rows: Sequence[int] | np.ndarray, sent: np.ndarray,
    eta: float, lam: float, p: float | None = 1.0,
) -> Guess | None:  # fmt: skip
    """The sample behind one gradient step of some kernels.

    omega (N, d, D) frequencies; theta and sent (n, 2 D): values of ``rows`` as broadcast and as
    they came back; p None where it is not known. Angles are taken from low frequencies first,
    which no input turns further than half a circle, then from higher ones, until they agree.
    """
    D = omega.shape[2]
    change = sent - theta
    decay = _decay(change, theta, D) if p is None else 2.0 * eta * lam / p
    waves = change + decay * theta
    frequencies = omega[np.asarray(rows)]  # (n, d, D)
    slow = np.linalg.norm(frequencies, axis=1) < ANGLES[1]
    cosines = np.where(slow.any(axis=1)[:, None], np.where(slow, waves[:, D:], 0.0), waves[:, D:])
    side = np.sign(cosines.sum(axis=1))  # of -a_i: the cosines of small angles are positive
    angles = np.arctan2(side[:, None] * waves[:, :D], side[:, None] * waves[:, D:])
    sending = np.flatnonzero(side)
    groups = [sending, *sending[:, None]] if len(sending) > 1 else [sending]
    solutions = [_input(frequencies[group], angles[group]) for group in groups]
    x, residual = min((f for f in solutions if f is not None), key=_surest, default=(None, np.inf))
    if x is None:
        return None
    turned = np.einsum("nde,d->ne", frequencies, x)
    outputs = np.sum(theta * np.hstack([np.sin(turned), np.cos(turned)]), axis=1) / math.sqrt(D)
    chance = p if p is not None else (2.0 * eta * lam / decay if decay else np.nan)
    errors = -side * np.linalg.norm(waves, axis=1) * chance / (2.0 * eta)  # f_i - y
    return Guess(x, float(np.median(outputs - errors)), residual)


def _input(frequencies: np.ndarray, angles: np.ndarray) -> tuple[np.ndarray, float] | None:
    """x with the angles (n, D) at the frequencies (n, d, D), and how far it is from them.

    None where low frequencies are too few.
    """
    d = frequencies.shape[1]
    speed = np.linalg.norm(frequencies, axis=1)
    best = None
    for limit in ANGLES:
        n, j = np.nonzero(speed < limit)
        matrix, right = frequencies[n, :, j], angles[n, j]
        if len(n) < d:
            continue
        x, _, rank, _ = np.linalg.lstsq(matrix, right, rcond=None)
        residual = float(np.abs(matrix @ x - right).max())
        if rank == d and (best is None or residual < best[1]):
            best = x, residual
        if rank == d and len(n) > d and residual < EXACT:
            break
    return best


def _surest(solution: tuple[np.ndarray, float]) -> float:
    return solution[1]


def _decay(change: np.ndarray, theta: np.ndarray, D: int) -> float:
    """b: with it the amplitudes of a kernel are the same for all of its features."""
    pairs = (change, change), (change, theta), (theta, theta)
    A, B, C = (u[:, :D] * v[:, :D] + u[:, D:] * v[:, D:] for u, v in pairs)
    A, B, C = (part - part.mean(axis=1, keepdims=True) for part in (A, B, C))
    if not np.any(C):
        return 0.0
    # The sum of (A + 2 b B + b^2 C)^2 is least where its derivative is 0.
    slopes = [np.sum(C * C), 3.0 * np.sum(B * C), np.sum(A * C + 2.0 * B * B), np.sum(A * B)]
    roots = np.roots(slopes)
    real = roots[np.abs(roots.imag) <= 1e-6 * np.abs(roots)].real
    return float(min(real, key=lambda b: np.sum((A + 2.0 * b * B + b * b * C) ** 2)))


def from_network(
    sizes: np.ndarray, theta: np.ndarray, sent: np.ndarray, alpha: float, beta: float
) -> Guess | None:
    """The sample behind two steps of a network, theta (P,) as broadcast and as it came back."""
    moved = (theta - sent) / beta  # the gradient at the adapted parameters
    d, first = int(sizes[0]), int(sizes[1])
    slopes = moved[d * first : (d + 1) * first]
    b = int(np.argmax(np.abs(slopes)))
    if slopes[b] == 0.0:
        return None
    x = moved[d * b : d * (b + 1)] / slopes[b]
    y_hat, gradient = _output(sizes, theta, x)

    def off(error: float) -> float:
        """Of the last bias, which moves by twice the error of the adapted network."""
        adapted, _ = _output(sizes, theta - 2.0 * alpha * error * gradient, x)
        return adapted - (y_hat - error) - 0.5 * float(moved[-1])

    from scipy.optimize import brentq  # its start, which nobody else waits for

    far = NEAREST
    while far < FARTHEST and not off(-far) * off(far) < 0.0:
        far *= 2.0
    if not off(-far) * off(far) < 0.0:
        return None
    return Guess(x, y_hat - float(brentq(off, -far, far, xtol=1e-14)), 0.0)


def _output(sizes: np.ndarray, theta: np.ndarray, x: np.ndarray) -> tuple[float, np.ndarray]:
    """The network's output and its gradient (P,)."""
    values, weights, start = [x], [], 0
    for n_in, n_out in itertools.pairwise(sizes.tolist()):
        W = theta[start : start + n_in * n_out].reshape(n_out, n_in)
        start += n_in * n_out
        out = W @ values[-1] + theta[start : start + n_out]
        start += n_out
        weights.append(W)
        values.append(out if start == len(theta) else np.maximum(out, 0.0))
    pieces, delta = [], np.ones(1)
    for W, inputs in zip(weights[::-1], values[-2::-1], strict=True):
        pieces.append(np.concatenate([np.outer(delta, inputs).ravel(), delta]))
        delta = (W.T @ delta) * (inputs > 0.0)
    return float(values[-1][0]), np.concatenate(pieces[::-1])
