"""OMKC MUA-P on random features: f_i(x) = theta_i'z_i(x), in bounded memory."""

from omkl.algorithms import omkc_mua_p
from omkl.algorithms.variants import ON_RANDOM_FEATURES, variant

algorithm = variant(__name__, omkc_mua_p, ON_RANDOM_FEATURES)
