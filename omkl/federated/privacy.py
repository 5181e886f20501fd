"""Differential privacy of what a client sends: what is counted, how much noise that takes.

A client clips the change that its message makes to a norm of ``clip``, its losses to a norm of
``clip_losses``, and adds Gaussian noise to both before anything leaves it (``exchange.protect``).
So the server itself learns no more than (epsilon, delta) allows: this is the local model.

Neighbours are streams that differ in one sample (``unit`` sample) or in all samples of one client
(``unit`` client), replaced by any others. Two messages of neighbours are at most 2 clip apart, so
noise of standard deviation 2 clip z has the multiplier z. Two vectors, or n messages, of multiplier
z are one Gaussian mechanism of multiplier z / sqrt(2), or z / sqrt(n), adaptively chosen or not
(Dong, Roth, Su, "Gaussian differential privacy", 2022). Its epsilon for a delta is exact: Balle and
Wang, "Improving the Gaussian mechanism", ICML 2018, as kept by Google in ``dp_accounting``.

One sample enters as many messages as the algorithm's ``exposure`` says. That a server asks a random
part of the clients is not counted in their favour: the server knows whom it asked.
"""

from __future__ import annotations

import math
import os
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.federated.exchange import Protection

if TYPE_CHECKING:
    from omkl.federated.protocol import FederatedAlgorithm

UNITS = ("sample", "client")


class Privacy(NamedTuple):
    """As ``privacy.*`` of conf/config.yaml, where epsilon is given."""

    epsilon: float
    delta: float
    unit: str
    clip: float
    clip_losses: float


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
