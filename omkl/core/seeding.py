"""What is drawn from a seed: the features that every algorithm sees for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from omkl.core.representations import random_features
from omkl.core.representations.random_features import RandomFeatures

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


def draw_features(dictionary: Sequence[Kernel], d: int, D: int, seed: int) -> RandomFeatures:
    """The random features that every algorithm sees for this seed."""
    rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(2)[0])
    return random_features.random_features(dictionary, d, D, rng)
