"""OMKC MUA-P on a budget: a classifier that is full drops a support vector."""

from omkl.algorithms import omkc_mua_p
from omkl.algorithms.variants import ON_BUDGET, variant

algorithm = variant(__name__, omkc_mua_p, ON_BUDGET)
