"""What is drawn from a seed: features and selection, by generators of their own."""

from __future__ import annotations

import numpy as np

from omkl.core.uniform import Uniform, uniform


def feature_generator(seed: int) -> np.random.Generator:
    """Draws the random features, which every algorithm sees alike for this seed."""
    return np.random.default_rng(np.random.SeedSequence(seed).spawn(2)[0])


def selection_generator(seed: int) -> Uniform:
    """Draws what a learner selects."""
    return uniform(np.random.default_rng(np.random.SeedSequence(seed).spawn(2)[1]))


def party_generators(seed: int, n_clients: int) -> list[np.random.Generator]:
    """A server's and one a client; a client's does not depend on how many clients there are."""
    children = np.random.SeedSequence(seed).spawn(2)[1].spawn(n_clients + 1)
    return [np.random.default_rng(child) for child in children]


def asking_generator(seed: int) -> np.random.Generator:
    """Draws the clients that a server asks for messages."""
    return np.random.default_rng(np.random.SeedSequence(seed).spawn(5)[3])


def noise_generators(seed: int, n_clients: int) -> list[np.random.Generator]:
    """Draw the noise of the clients' messages in a simulation, one a client.

    Whoever knows the seed can take it off again: clients on their own have ``SecretNormals``.
    """
    children = np.random.SeedSequence(seed).spawn(5)[4].spawn(n_clients)
    return [np.random.default_rng(child) for child in children]
