"""OMKC DA-P(2) on a budget: a classifier that is full drops a support vector."""

from omkl.algorithms import omkc_da_p2
from omkl.algorithms.variants import ON_BUDGET, variant

algorithm = variant(__name__, omkc_da_p2, ON_BUDGET)
