"""Protection of clients by noise, and of the server by refusals and robust means.

``Safeguards`` has the settings. ``messages`` applies them. The page ``docs/privacy.md`` shows how a
sample is recovered from a message without noise.

**Accounting of noise.** A client clips the change of its message to the norm ``clip`` and its
losses to the norm ``clip_losses``, and adds Gaussian noise to both before it sends them
(``messages.protect``). The noise is added before the server sees a message, so (epsilon, delta)
also limits what the server can learn. This is the local model of differential privacy.

Two streams are neighbours if they differ in one sample (``unit`` sample) or in all samples of one
client (``unit`` client). Messages of neighbours differ by a norm of at most 2 clip, and their
losses by a norm of at most 2 clip_losses. The multiplier z of noise is its standard deviation
divided by this limit. If the parameters and the losses of a message both have noise of multiplier
z, the whole message has the privacy of one Gaussian mechanism of multiplier z / sqrt(2). n messages
of multiplier z have the privacy of one mechanism of multiplier z / sqrt(n), even if later messages
depend on earlier ones (Dong, Roth, Su, "Gaussian differential privacy", 2022). The epsilon of this
mechanism for a given delta is exact: Balle and Wang, "Improving the Gaussian mechanism", ICML 2018,
in Google's ``dp_accounting``.

One sample can change as many messages as the algorithm's ``exposure`` returns. Asking only a random
part of the clients does not increase privacy here, because the server knows which clients it asked.
"""

from __future__ import annotations

import math
import os
from fractions import Fraction
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.federated.messages import NO_PROTECTION, OFF, Inbox, Message, Protection
from omkl.utils.wording import how_to_install

if TYPE_CHECKING:
    from omkl.federated.protocol import FederatedAlgorithm


class Privacy(NamedTuple):
    """Settings ``privacy.*`` of a run with noise. The module docstring defines them."""

    epsilon: float
    delta: float
    unit: str
    clip: float
    clip_losses: float


class Safeguards(NamedTuple):
    """Settings of the exchange of messages. By default none of them is active.

    clients_per_round  number of clients asked for messages, drawn at random every round; None: all
    max_change         largest norm by which a message may change the shared parameters
    max_loss           largest size of a loss in a message
    trim               share of the values of a coordinate that is discarded at either end before
                       the mean; 0.5 is the median
    privacy            noise at the clients

    The server refuses a message above ``max_change`` or ``max_loss``.
    """

    clients_per_round: int | None = None
    max_change: float | None = None
    max_loss: float | None = None
    trim: float = 0.0
    privacy: Privacy | None = None


NO_SAFEGUARDS = Safeguards()


def require_no_server(algorithm: FederatedAlgorithm, guards: Safeguards) -> None:
    """Raise ValueError if the algorithm or the safeguards need a server in every round."""
    if algorithm.announces[1]:
        raise ValueError(
            f"the server of {algorithm.name} draws for all clients: it takes neither "
            "exchange.graph nor exchange.every"
        )
    if guards != NO_SAFEGUARDS:
        raise ValueError(
            "clients_per_round, robust and privacy need a server that receives messages in every "
            "round: leave out exchange.graph and exchange.every"
        )


def cuts(trim: float, n_senders: int) -> np.ndarray:
    """Return the number of values to discard at either end of n values, for n = 0..n_senders.

    The result is (n_senders + 1,) int64. The discarded share is at least ``trim``, but one or two
    values always remain, so nothing is discarded from fewer than three. If ``trim`` is 0, the
    result is empty, (0,).
    """
    if trim == 0.0:
        return np.zeros(0, dtype=np.int64)
    share = Fraction(str(trim))  # exact decimal: 0.1 of 10 is 1
    counts = [max(0, min(math.ceil(share * n), (n - 1) // 2)) for n in range(n_senders + 1)]
    return np.array(counts, dtype=np.int64)


def inbox_for(safeguards: Safeguards, n_clients: int, message: Message) -> Inbox:
    """Return an empty inbox of the server.

    Parameters
    ----------
    safeguards
        Limits and share of trimmed values.
    n_clients
        K.
    message
        Empty message, for the shapes.
    """
    senders = min(n_clients, safeguards.clients_per_round or n_clients)
    left_out = cuts(safeguards.trim, senders)
    K = max(0, len(left_out) - 1)  # messages kept for a robust mean
    change, loss = safeguards.max_change, safeguards.max_loss
    return Inbox(
        OFF if change is None else float(change),
        OFF if loss is None else float(loss),
        left_out,
        rows=np.zeros((K, len(message.rows)), dtype=np.int64),
        theta=np.zeros((K, *message.theta.shape)),
        losses=np.zeros((K, len(message.losses))),
        n=np.zeros((K, 2), dtype=np.int64),
        taken=np.zeros(1, dtype=np.int64),
        column=np.zeros(K),
        place=np.zeros((K, 2), dtype=np.int64),
    )


def protection_for(
    safeguards: Safeguards, algorithm: FederatedAlgorithm, params: Any, N: int, n_rounds: int
) -> Protection:
    """Return the clips and noise of one message.

    Parameters
    ----------
    safeguards
        Settings; without ``privacy`` there is no clip and no noise.
    algorithm, params
        The learner and its hyper-parameters.
    N
        Number of kernels.
    n_rounds
        Most messages of a client.
    """
    privacy, whole = safeguards.privacy, algorithm.announces[0] > 0
    if privacy is None:
        return NO_PROTECTION._replace(whole=whole)
    counted = account(privacy, algorithm, params, N, n_rounds)
    clips = float(privacy.clip), float(privacy.clip_losses)
    return Protection(*clips, counted.noise, counted.noise_losses, whole)


def draw_asked(
    rng: np.random.Generator, n: int, n_clients: int, present: np.ndarray, wanted: int | None
) -> np.ndarray:
    """Draw the clients that are asked in each of n rounds.

    Every set of ``wanted`` clients is equally likely. The generator always draws for all K clients,
    so that its state does not depend on which clients are present.

    Parameters
    ----------
    rng
        Generator of the draw.
    n
        Number of rounds.
    n_clients
        K, number of all clients.
    present
        (C,) int64, clients that have a row.
    wanted
        Clients to ask per round; None: all of ``present``, without a draw.

    Returns
    -------
    ndarray
        (n, C) bool.
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


# --- accounting of noise ------------------------------------------------------------------------


class Account(NamedTuple):
    """Noise of a federation, and the privacy that it gives.

    noise, noise_losses   standard deviations of the noise on a parameter and on a loss
    messages              number of messages that one ``unit``, a sample or a client, can change
    epsilon_of_sample, epsilon_of_client   epsilon for the given delta, if neighbouring streams
                                           differ in one sample, or in all samples of one client
    """

    noise: float
    noise_losses: float
    messages: int
    epsilon_of_sample: float
    epsilon_of_client: float


def account(
    privacy: Privacy, algorithm: FederatedAlgorithm, params: Any, N: int, n_rounds: int
) -> Account:
    """Return the least noise with which a client's messages satisfy ``privacy``.

    Parameters
    ----------
    privacy
        Epsilon, delta, unit and clips.
    algorithm, params
        The learner and its hyper-parameters.
    N
        Number of kernels.
    n_rounds
        Number of messages of a client.

    Raises
    ------
    ValueError
        No noise on messages can give this privacy, or ``dp_accounting`` is not installed.
    """
    gaussian = _accountant()
    of_sample = algorithm.exposure(params, N, n_rounds)
    messages = of_sample if privacy.unit == "sample" else n_rounds
    vectors = 2 if algorithm.shared_weights else 1  # per message: rows, and perhaps losses
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


def _accountant() -> ModuleType:
    try:
        import dp_accounting  # optional, and its import takes 2 s
    except ImportError as error:
        raise ValueError(
            "privacy.epsilon needs dp-accounting, which counts what is given away: "
            + how_to_install("privacy")
        ) from error
    accountant: ModuleType = dp_accounting
    return accountant


class SecretNormals:
    """Standard normal numbers from the randomness of the operating system. No seed repeats them.

    They are floating-point numbers, whose rounding reveals a little (Mironov, CCS 2012). This class
    does not prevent it.
    """

    def standard_normal(self, size: int) -> np.ndarray:
        """Return ``size`` numbers, by the inverse of the normal distribution function."""
        from scipy.special import ndtri  # imported here: runs without noise do not need SciPy

        whole = np.frombuffer(os.urandom(8 * size), dtype=np.uint64) >> np.uint64(11)
        numbers: np.ndarray = ndtri((whole + 0.5) / 2.0**53)
        return numbers
