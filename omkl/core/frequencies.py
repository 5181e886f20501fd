"""How the D frequencies of a kernel are placed: drawn alone, in orthogonal blocks, or evenly.

The mean of cos(omega'(x - x')) over D frequencies is kappa(x, x') in expectation, whichever way
they are placed here; what differs is how far it is off.

rff         each by itself from the spectral distribution (Rahimi and Recht, NIPS 2007)
orthogonal  blocks of d frequencies that are orthogonal, each as long as a normal one would be: for
            kernels whose spectral distribution depends on the length alone, the Gaussian ones
            (F. X. Yu, A. T. Suresh, K. Choromanski, D. Holtmann-Rice, S. Kumar, "Orthogonal Random
            Features", NIPS 2016; its text was read in parts)
qmc         D points of a scrambled Sobol sequence, by the quantile function of each input
            (H. Avron, V. Sindhwani, J. Yang, M. W. Mahoney, "Quasi-Monte Carlo Feature Maps for
            Shift-Invariant Kernels", JMLR 17 (2016); its text was read in parts). Scrambling is by
            the seed, so that seeds differ and the mean stays right
"""

from __future__ import annotations

import numpy as np

RFF, ORTHOGONAL, QMC = FEATURES = ("rff", "orthogonal", "qmc")
SOBOL_BITS = 30


def orthogonal_normals(rng: np.random.Generator, D: int, d: int) -> np.ndarray:
    """(D, d) rows, each normal with covariance I; any d in a row, from 0, d, .. on, orthogonal."""
    blocks = []
    for first in range(0, D, d):
        n = min(d, D - first)  # of wide inputs as many as are asked for: all d take d^3 time
        q, r = np.linalg.qr(rng.standard_normal((d, n)))
        q *= np.sign(np.diag(r))  # else q is not uniform over the rotations
        lengths = np.sqrt(rng.chisquare(d, size=n))
        blocks.append(lengths[:, None] * q.T)
    return np.concatenate(blocks)


def even_uniforms(rng: np.random.Generator, D: int, d: int) -> np.ndarray:
    """(D, d) points within the open unit cube, the first of a scrambled Sobol sequence.

    ValueError where there are more inputs than the sequence has dimensions.
    """
    from scipy.stats import qmc  # heavy, and most runs need none of it

    if d > qmc.Sobol.MAXDIM:
        raise ValueError(f"features=qmc places up to {qmc.Sobol.MAXDIM:,} inputs, not {d:,}")
    sequence = qmc.Sobol(d, scramble=True, bits=SOBOL_BITS, seed=rng)
    points: np.ndarray = sequence.random_base2((D - 1).bit_length())[:D]
    return points + 0.5 ** (SOBOL_BITS + 1)  # the middle of a cell: 0 has no quantile
