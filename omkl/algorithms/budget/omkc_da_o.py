"""OMKC DA-O on a budget: a classifier that is full drops a support vector."""

from omkl.algorithms import omkc_da_o
from omkl.algorithms.variants import ON_BUDGET, variant

algorithm = variant(__name__, omkc_da_o, ON_BUDGET)
