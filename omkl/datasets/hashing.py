"""Signed feature hashing: rows of very many columns, nearly all of them 0, as K numbers each.

Column j is added to the input p(j) with the sign s(j), both read off a hash of j:

    h(x)_k = sum over j with p(j) = k of s(j) x_j.

Over hashes E h(x)'h(z) = x'z, with a variance of at most 2 ||x||^2 ||z||^2 / K. So squared
distances, and with them Gaussian kernels, are kept up to 1 / sqrt(K): K. Weinberger, A. Dasgupta,
J. Langford, A. Smola, J. Attenberg, "Feature hashing for large scale multitask learning", ICML
2009. A row costs as many additions as it has numbers, and nothing is kept of columns.

Random features of hashed rows, cos(w'h(x)), are random features of the rows themselves whose
frequencies H'w need no memory: K numbers a feature in place of one for each column.
"""

from __future__ import annotations

from typing import Any

import numpy as np

MOST_INDEX = 2**32  # of a column


def hash_of(indices: np.ndarray) -> np.ndarray:
    """64 bits (n,) of whole numbers from 0: what splitmix64 with seed 0 draws as its index-th.

    G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA
    2014. The same on all machines, since unsigned whole numbers overflow in one way.
    """
    z = indices.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = z ^ (z >> np.uint64(31))
    return mixed


def hashed(
    at: np.ndarray, indices: np.ndarray, values: np.ndarray, n_rows: int, n_inputs: int
) -> np.ndarray:
    """Rows (n_rows, n_inputs) of numbers that are written row by row.

    at, indices, values (n,): the row of each number, from 0; its column, from 1; and itself. The
    lowest bit of the hash is the sign, the others are the place. Numbers of a place are added in
    the order in which they are written, so that no split into blocks changes a bit.
    """
    bits = hash_of(indices)
    places = (bits >> np.uint64(1)) % np.uint64(n_inputs)
    signed = np.where(bits & np.uint64(1), -values, values)
    sums = np.bincount(at * n_inputs + places.astype(np.int64), signed, n_rows * n_inputs)
    return sums.reshape(n_rows, n_inputs)


def names(n_inputs: int) -> tuple[str, ...]:
    """What the inputs of hashed rows are called."""
    return tuple(f"hash{k + 1}" for k in range(n_inputs))


def hash_inputs(X: Any, n_inputs: int) -> np.ndarray:
    """Hash rows of a sparse matrix into dense ones, as ``dataset.hash`` does those of a file.

    Signed feature hashing (Weinberger et al., 2009) keeps inner products on average, and Gaussian
    kernels up to about 1 / sqrt(n_inputs). It needs no vocabulary, and memory for the result alone.

    Parameters
    ----------
    X
        A sparse matrix or array of SciPy, of shape (n, d) with d up to 2^32 and finite numbers.
        Column k is the index k + 1 of LIBSVM text.
    n_inputs
        K, how many inputs the rows have afterwards, from 1.

    Returns
    -------
    numpy.ndarray
        Rows (n, K) of float64.

    Raises
    ------
    ValueError
        X is not sparse, or holds what is no finite number or complex ones, or ``n_inputs`` is no
        whole number from 1.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> X = csr_array(([2.0, 0.5], ([0, 1], [999_999, 3])), shape=(2, 1_000_000))
    >>> hash_inputs(X, 4)
    array([[-2. ,  0. ,  0. ,  0. ],
           [ 0. ,  0. ,  0.5,  0. ]])
    """
    if isinstance(n_inputs, bool) or not isinstance(n_inputs, int | np.integer) or n_inputs < 1:
        raise ValueError(f"n_inputs={n_inputs!r} must be a whole number from 1")
    if not hasattr(X, "tocoo") or len(X.shape) != 2:
        raise ValueError(
            "X is a sparse matrix of SciPy, of shape (n, d): scipy.sparse.csr_array(X) makes one"
        )
    n, d = X.shape
    if d > MOST_INDEX:
        raise ValueError(f"X has {d:,} columns, and at most {MOST_INDEX:,} are hashed")
    entries = X.tocsr().tocoo()
    if np.iscomplexobj(entries.data):
        raise ValueError("X holds complex numbers, which are not hashed: X.real has none")
    values = np.asarray(entries.data, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError(
            "X holds what is no finite number: leave such cells out, which makes them 0"
        )
    at, columns = (np.asarray(places, dtype=np.int64) for places in (entries.row, entries.col))
    return hashed(at, columns + 1, values, n, int(n_inputs))
