"""What is drawn from a seed: features and selection, by generators of their own."""

from __future__ import annotations

import numpy as np


def feature_generator(seed: int) -> np.random.Generator:
    """Draws the random features, which every algorithm sees alike for this seed."""
    return np.random.default_rng(np.random.SeedSequence(seed).spawn(2)[0])


def selection_generator(seed: int) -> np.random.Generator:
    """Draws what a learner selects."""
    return np.random.default_rng(np.random.SeedSequence(seed).spawn(2)[1])
