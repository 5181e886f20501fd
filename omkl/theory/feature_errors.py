"""How far random features are from their kernel, with a probability.

Symbols: ``D`` random features, ``d`` inputs, ``epsilon`` the largest error
|z(x)'z(x') - kappa(x, x')|, ``second_moment`` sigma^2 = E ||psi||^2 of the frequencies.

The statement is claim 1 of Rahimi and Recht (2007), over all x and x' of a set of diameter diam.
The papers have it without diam; ||x|| <= 1, their (as3), is a ball of diameter 2
(``docs/errata.md``).
"""

from __future__ import annotations

import math

PROBABILITY = 0.95  # at which the statements are evaluated
DIAMETER = 2.0  # of the ball ||x|| <= 1
LARGEST_EPSILON = 2.0  # |z'z - kappa| never exceeds it: both lie in [-1, 1]


def probability(epsilon: float, second_moment: float, D: int, d: int) -> float:
    """With at least this probability D features err by less than epsilon, for all ||x|| <= 1.

    1 - 2^8 (sigma diam / epsilon)^2 exp(-D epsilon^2 / (4 d + 8)), or 0 where that is negative:
    then nothing is promised.
    """
    if not math.isfinite(second_moment):
        return 0.0
    failure = _factor(second_moment) / epsilon**2 * math.exp(-D * epsilon**2 / (4 * d + 8))
    return max(0.0, 1.0 - failure)


def smallest_epsilon(chance: float, second_moment: float, D: int, d: int) -> float:
    """The epsilon that ``probability`` puts at ``chance``, in [0, 1); inf where none does.

    With a = D / (4 d + 8), a eps^2 exp(a eps^2) = 2^8 a (sigma diam)^2 / (1 - chance): Lambert's W.
    """
    from scipy.special import lambertw

    if not math.isfinite(second_moment):
        return math.inf
    a = D / (4 * d + 8)
    return math.sqrt(float(lambertw(a * _factor(second_moment) / (1 - chance)).real) / a)


def features_needed(epsilon: float, chance: float, second_moment: float, d: int) -> float:
    """The number of features from which ``probability`` of epsilon is at least ``chance``."""
    failure = _factor(second_moment) / epsilon**2
    return max(0.0, (4 * d + 8) / epsilon**2 * math.log(failure / (1 - chance)))


def _factor(second_moment: float) -> float:
    return 256 * second_moment * DIAMETER**2
