"""How far random features are from their kernel, with a probability.

Symbols: ``D`` random features, ``d`` inputs, ``epsilon`` the largest error
|z(x)'z(x') - kappa(x, x')|, ``second_moment`` sigma^2 = E ||psi||^2 of the frequencies.
"""

from __future__ import annotations

import math

PROBABILITY = 0.95  # at which the statements are evaluated
LARGEST_EPSILON = 2.0  # |z'z - kappa| never exceeds it: both lie in [-1, 1]


def probability(epsilon: float, second_moment: float, D: int, d: int) -> float:
    """With at least this probability D features err by less than epsilon, everywhere.

    1 - 2^8 (sigma / epsilon)^2 exp(-D epsilon^2 / (4 d + 8)), or 0 where that is negative:
    then nothing is promised.
    """
    if not math.isfinite(second_moment):
        return 0.0
    failure = 256 * second_moment / epsilon**2 * math.exp(-D * epsilon**2 / (4 * d + 8))
    return max(0.0, 1.0 - failure)


def smallest_epsilon(chance: float, second_moment: float, D: int, d: int) -> float:
    """The epsilon that ``probability`` puts at ``chance``, in [0, 1); inf where none does.

    With a = D / (4 d + 8), a eps^2 exp(a eps^2) = 256 a sigma^2 / (1 - chance): Lambert's W.
    """
    from scipy.special import lambertw

    if not math.isfinite(second_moment):
        return math.inf
    a = D / (4 * d + 8)
    return math.sqrt(float(lambertw(256 * a * second_moment / (1 - chance)).real) / a)


def features_needed(epsilon: float, chance: float, second_moment: float, d: int) -> float:
    """The number of features from which ``probability`` of epsilon is at least ``chance``."""
    failure = 256 * second_moment / epsilon**2
    return max(0.0, (4 * d + 8) / epsilon**2 * math.log(failure / (1 - chance)))
