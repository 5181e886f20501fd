"""Placement of the D frequencies of a kernel: drawn alone, in orthogonal blocks, or evenly.

The mean of cos(omega'(x - x')) over D frequencies is kappa(x, x') in expectation for all three
placements. They differ in its error.

rff         each frequency by itself from the spectral distribution (Rahimi and Recht, NIPS 2007)
orthogonal  blocks of d orthogonal frequencies, each as long as a normal one, for kernels whose
            spectral distribution depends on the length alone, the Gaussian ones (F. X. Yu,
            A. T. Suresh, K. Choromanski, D. Holtmann-Rice, S. Kumar, "Orthogonal Random Features",
            NIPS 2016; its text was read in parts)
qmc         D points of a scrambled Sobol sequence, by the quantile function of each input
            (H. Avron, V. Sindhwani, J. Yang, M. W. Mahoney, "Quasi-Monte Carlo Feature Maps for
            Shift-Invariant Kernels", JMLR 17 (2016); its text was read in parts). The seed
            scrambles: seeds differ and the mean stays right
"""

from __future__ import annotations

import numpy as np

RFF, ORTHOGONAL, QMC = FEATURES = ("rff", "orthogonal", "qmc")
SOBOL_BITS = 30


def orthogonal_normals(rng: np.random.Generator, D: int, d: int) -> np.ndarray:
    """Draw rows (D, d), each normal with covariance I and orthogonal within blocks of d rows.

    Parameters
    ----------
    rng
        Generator.
    D, d
        Number of frequencies and of inputs. Blocks begin at the rows 0, d, 2 d, ..
    """
    blocks = []
    for first in range(0, D, d):
        n = min(d, D - first)  # only the rows that are needed: all d would take d^3 time
        q, r = np.linalg.qr(rng.standard_normal((d, n)))
        q *= np.sign(np.diag(r))  # makes q uniform over the rotations
        lengths = np.sqrt(rng.chisquare(d, size=n))
        blocks.append(lengths[:, None] * q.T)
    return np.concatenate(blocks)


def even_uniforms(rng: np.random.Generator, D: int, d: int) -> np.ndarray:
    """Return the first D points of a scrambled Sobol sequence, inside the open unit cube.

    Parameters
    ----------
    rng
        Generator of the scrambling.
    D, d
        Number of points and of inputs.

    Returns
    -------
    Points (D, d).

    Raises
    ------
    ValueError
        There are more inputs than the sequence has dimensions.
    """
    from scipy.stats import qmc  # heavy, and most runs need none of it

    if d > qmc.Sobol.MAXDIM:
        raise ValueError(f"features=qmc places up to {qmc.Sobol.MAXDIM:,} inputs, not {d:,}")
    sequence = qmc.Sobol(d, scramble=True, bits=SOBOL_BITS, seed=rng)
    points: np.ndarray = sequence.random_base2((D - 1).bit_length())[:D]
    return points + 0.5 ** (SOBOL_BITS + 1)  # the middle of a cell: 0 has no quantile
