"""OMKC SUA-O on a budget: a classifier that is full drops a support vector."""

from omkl.algorithms import omkc_sua_o
from omkl.algorithms.variants import ON_BUDGET, variant

algorithm = variant(__name__, omkc_sua_o, ON_BUDGET)
