"""OMKC DA-P(1) on a budget: a classifier that is full drops a support vector."""

from omkl.algorithms import omkc_da_p1
from omkl.algorithms.variants import ON_BUDGET, variant

algorithm = variant(__name__, omkc_da_p1, ON_BUDGET)
