"""OMKC SUA-O on random features: f_i(x) = theta_i'z_i(x), in bounded memory."""

from omkl.algorithms import omkc_sua_o
from omkl.algorithms.variants import ON_RANDOM_FEATURES, variant

algorithm = variant(__name__, omkc_sua_o, ON_RANDOM_FEATURES)
