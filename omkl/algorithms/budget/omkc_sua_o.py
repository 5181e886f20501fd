"""OMKC SUA-O on a budget: a classifier that is full drops a support vector.

Paper    none; the algorithm of ``omkc_sua_o`` with the budgets of Crammer, Kandola and Singer,
         NIPS 2003 (smallest), and Dekel, Shalev-Shwartz and Singer, NIPS 2005 (oldest).
Task     classification, labels -1 and +1; full information.
Round    As ``omkc_sua_o``; a support vector that is one too many takes the place of another.
Symbols  beta           discount of the weights, in (0, 1)
         R              largest norm of a classifier, > 0
         delta          smoothing of the draw, in (0, 1]
         eta            step size, > 0; ``theorem``: that of theorem 10
         budget         support vectors of a classifier, >= 1
         drop_smallest  drop the smallest coefficient; false: the oldest vector
Cost     O(N budget d) time a round; O(N budget d) memory.
Bound    none.
Differs  from ``omkc_sua_o``: it forgets.
"""

from __future__ import annotations

from typing import NamedTuple

from omkl.algorithms.budget import on_budget
from omkl.algorithms.omkc_sua_o import algorithm as exact
from omkl.core.hyperparameters import COUNT, FRACTION, POSITIVE, STEP_OF_THEOREM, UP_TO_ONE


class Params(NamedTuple):
    beta: FRACTION
    R: POSITIVE
    delta: UP_TO_ONE
    eta: STEP_OF_THEOREM
    budget: COUNT
    drop_smallest: bool


algorithm = on_budget(__name__, Params, exact)
