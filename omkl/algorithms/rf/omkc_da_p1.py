"""OMKC DA-P(1) on random features: f_i(x) = theta_i'z_i(x), in bounded memory."""

from omkl.algorithms import omkc_da_p1
from omkl.algorithms.variants import ON_RANDOM_FEATURES, variant

algorithm = variant(__name__, omkc_da_p1, ON_RANDOM_FEATURES)
