"""OMKC MUA-P on a budget: a classifier that is full drops a support vector.

Paper    none; the algorithm of ``omkc_mua_p`` with the budgets of Crammer, Kandola and Singer,
         NIPS 2003 (smallest), and Dekel, Shalev-Shwartz and Singer, NIPS 2005 (oldest).
Task     classification, labels -1 and +1; full information.
Round    As ``omkc_mua_p``; a support vector that is one too many takes the place of another.
Symbols  beta           discount of the weight of a mistaken classifier, in (0, 1)
         delta          smoothing of the draw, in (0, 1]
         budget         support vectors of a classifier, >= 1
         drop_smallest  drop the smallest coefficient; false: the oldest vector
Cost     O(N budget d) time a round; O(N budget d) memory.
Bound    none.
Differs  from ``omkc_mua_p``: it forgets.
"""

from __future__ import annotations

from typing import NamedTuple

from omkl.algorithms.budget import on_budget
from omkl.algorithms.omkc_mua_p import algorithm as exact
from omkl.core.hyperparameters import COUNT, FRACTION, UP_TO_ONE


class Params(NamedTuple):
    beta: FRACTION
    delta: UP_TO_ONE
    budget: COUNT
    drop_smallest: bool


algorithm = on_budget(__name__, Params, exact)
