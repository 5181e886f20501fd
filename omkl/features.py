"""Random Fourier features and the linear learners on top of them.

A shift-invariant kernel is the mean of cos(omega'(x - x')) over its spectral
distribution, so with D frequencies

    z(x) = [sin(omega_1'x) .. sin(omega_D'x)  cos(omega_1'x) .. cos(omega_D'x)] / sqrt(D)

has z(x)'z(x') close to kappa(x, x'), and f(x) = theta'z(x) replaces a growing
kernel expansion (Rahimi and Recht, NIPS 2007).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from omkl.jit import compiled, dot, part

if TYPE_CHECKING:
    from omkl.kernels import Kernel


class RandomFeatures(NamedTuple):
    """One linear learner for each kernel of a dictionary of N, in d dimensions.

    omega   (N, d, D) frequencies, the feature index last
    theta   (N, 2 D) coefficients: sines first, then cosines
    norm2   (N,) squared Euclidean norm of each row of theta
    """

    omega: np.ndarray
    theta: np.ndarray
    norm2: np.ndarray

    @property
    def n_kernels(self) -> int:
        return len(self.theta)


def random_features(
    dictionary: Sequence[Kernel], d: int, D: int, rng: np.random.Generator
) -> RandomFeatures:
    """Fresh learners: frequencies drawn kernel by kernel, coefficients zero."""
    N = len(dictionary)
    omega = np.empty((N, d, D))
    for i, kernel in enumerate(dictionary):
        omega[i] = kernel.frequencies(rng, D, d).T
    return RandomFeatures(omega, np.zeros((N, 2 * D)), np.zeros(N))


# Half-period reduction x = k pi + r, then sin x = (-1)^k sin r. PI_HIGH has 27 bits, so
# k * PI_HIGH is exact for |k| < 2^26 (with fused multiply-add, for every k that is exact).
PI_HIGH = float.fromhex("0x1.921fb50000000p+1")
PI_LOW = 3.178650954710656e-08
HALF_PI = 0.5 * math.pi
PER_PI = 1.0 / math.pi
S1, S2 = -1.6666666666666666e-01, 8.333333333333184e-03
S3, S4 = -1.9841269841207903e-04, 2.7557319211136276e-06
S5, S6 = -2.5052106884442246e-08, 1.6058940657442572e-10
S7, S8 = -7.64302247224428e-13, 2.7215450954648354e-15
C1, C2, C3 = -0.5, 4.166666666666666e-02, -1.388888888888852e-03
C4, C5, C6 = 2.480158730148323e-05, -2.75573192078857e-07, 2.0876755508432244e-09
C7, C8, C9 = -1.1470662616514851e-11, 4.776686884404695e-14, -1.5101404114062806e-16


@part
def _sincos(x):
    k = np.floor(x * PER_PI + 0.5)
    r = (x - k * PI_HIGH) - k * PI_LOW
    # For |x| beyond 1e15 neighbouring floats are further apart than a period; keep the
    # result in range there. Written so that NaN stays NaN.
    r = HALF_PI if r > HALF_PI else r
    r = -HALF_PI if r < -HALF_PI else r
    sign = 1.0 - 2.0 * (k - 2.0 * np.floor(0.5 * k))
    v = r * r
    s = S4 + v * (S5 + v * (S6 + v * (S7 + v * S8)))
    s = r + r * (v * (S1 + v * (S2 + v * (S3 + v * s))))
    c = C5 + v * (C6 + v * (C7 + v * (C8 + v * C9)))
    c = 1.0 + v * (C1 + v * (C2 + v * (C3 + v * (C4 + v * c))))
    return sign * s, sign * c


@compiled
def sincos(x, sin, cos):
    """Write sine and cosine of each x, all (n,) float64.

    Branch-free, so that the compiler turns it into vector code: absolute error
    below 4e-16 for |x| <= 1e4 and below 1e-13 for |x| <= 1e6.
    """
    for j in range(x.shape[0]):
        s, c = _sincos(x[j])
        sin[j] = s
        cos[j] = c


class Buffers(NamedTuple):
    """Room for the features of one round, N D numbers each.

    Kernel number m of the evaluated ones fills entries m D .. (m + 1) D - 1, so
    that the trigonometry runs over one flat stretch whatever D is. The sines and
    cosines are not yet divided by sqrt(D).
    """

    angle: np.ndarray
    sin: np.ndarray
    cos: np.ndarray


def buffers(model: RandomFeatures) -> Buffers:
    """Empty room for the features of a model's rounds."""
    N, _, D = model.omega.shape
    return Buffers(np.empty(N * D), np.empty(N * D), np.empty(N * D))


@part
def transform(omega, x, kernels, n, buffers):
    """Fill the buffers with the features of the first ``n`` of ``kernels`` at x (d,)."""
    angle = buffers.angle
    d = omega.shape[1]
    D = omega.shape[2]
    for m in range(n):
        i = kernels[m]
        start = m * D
        for j in range(D):
            angle[start + j] = x[0] * omega[i, 0, j]
        k = 1
        while k + 4 <= d:
            x0, x1, x2, x3 = x[k], x[k + 1], x[k + 2], x[k + 3]
            for j in range(D):
                angle[start + j] += (x0 * omega[i, k, j] + x1 * omega[i, k + 1, j]) + (
                    x2 * omega[i, k + 2, j] + x3 * omega[i, k + 3, j]
                )
            k += 4
        while k < d:
            for j in range(D):
                angle[start + j] += x[k] * omega[i, k, j]
            k += 1
    sincos(angle[: n * D], buffers.sin, buffers.cos)


@part
def outputs(model, kernels, n, buffers, f):
    """f[i] = theta_i'z_i for the first ``n`` of ``kernels``; the rest of f is left alone."""
    D = model.omega.shape[2]
    scale = 1.0 / math.sqrt(D)
    for m in range(n):
        i = kernels[m]
        here = slice(m * D, (m + 1) * D)
        theta = model.theta[i]
        f[i] = scale * (dot(theta[:D], buffers.sin[here]) + dot(theta[D:], buffers.cos[here]))


@part
def gradient_step(model, i, m, buffers, step, shrink):
    """theta_i <- shrink theta_i - step z_i, where kernel i is number m of the evaluated ones."""
    D = model.omega.shape[2]
    scaled = step / math.sqrt(D)
    theta = model.theta[i]
    start = m * D
    for j in range(D):
        theta[j] = shrink * theta[j] - scaled * buffers.sin[start + j]
        theta[D + j] = shrink * theta[D + j] - scaled * buffers.cos[start + j]
    model.norm2[i] = dot(theta, theta)


@compiled
def _fill(angle, z):
    D = angle.shape[1]
    scale = 1.0 / math.sqrt(D)
    for s in range(angle.shape[0]):
        sincos(angle[s], z[s, :D], z[s, D:])
        for j in range(2 * D):
            z[s, j] *= scale


def features_of(omega: np.ndarray, X: np.ndarray) -> np.ndarray:
    """z(x) of one kernel for a block: omega (d, D), X (n, d) -> (n, 2 D), divided by sqrt(D)."""
    z = np.empty((len(X), 2 * omega.shape[1]))
    _fill(np.ascontiguousarray(X @ omega), z)
    return z
