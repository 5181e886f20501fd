"""Learners of one Gaussian kernel on a basis of rows that grows as far as the stream needs it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from omkl.algorithms.parts import gaussian_kernel, init_one, predict_only, select_all
from omkl.core.compiler import inlined
from omkl.core.hyperparameters import FRACTION, POSITIVE, Range
from omkl.core.kernels import Kernel
from omkl.core.protocol import register_as
from omkl.core.representations.growing_basis import GROWING_BASIS, joins
from omkl.core.representations.support_vectors import own_sum
from omkl.core.simd import LANES, load, pack, store, total

ROWS = Annotated[int, Range(1, 10_000)]  # matrices have its square


@inlined
def step(model, direction, size, n):
    """theta <- theta - size times the first n of ``direction`` (W,)."""
    for j in range(0, n, LANES):
        store(model.theta, j, load(model.theta, j) - load(direction, j) * size)


@register_as("aogd_ald", representation=GROWING_BASIS, kernels=gaussian_kernel)
class AogdAld:
    """AOGD-ALD: gradient steps of one Gaussian kernel, projected on a basis that grows.

    Paper    J. Li, S. Liao, "Nearly Optimal Algorithms with Sublinear Computational Complexity for
             Online Kernel Regression", ICML 2023.
    Task     regression; full information; no step size.
    Round    z(x) are the coordinates of kappa(x, .) in the span of the basis.
             1. Predict f(x_t) = theta'z(x_t).
             2. Where 1 - ||z(x_t)||^2 > threshold and fewer than ``budget`` rows are in the basis:
                x_t joins it, z(x_t) has a coordinate more and norm 1, and theta a 0 there.
             3. S <- S + 4 (f - y_t)^2 ||z(x_t)||^2, and
                theta <- theta - 2 U / sqrt(1 + S) (f - y_t) z(x_t).
             4. Where ||theta|| > U: theta <- U theta / ||theta||.
    Symbols  U          norm of the function at most, > 0; the step grows with it
             bandwidth  of the kernel exp(-||x - x'||^2 / bandwidth), > 0: there is no 2 in it
             threshold  squared distance from the span above which a row joins, in (0, 1)
             budget     rows of the basis at most, 1 to 10,000
    Cost     O(J d + J^2) time per round for the J <= budget rows of the basis;
             O(budget^2 + budget d) memory.
    Bound    O(sqrt(L(f))) for every f of norm <= U, with L(f) its loss over the stream; where the
             eigenvalues of the kernel matrix fall exponentially with J of order ln T. So the
             paper's abstract, of all its conditions not read.
    Reading  Of the paper its abstract was read, and the authors' code, AOGD-ALD.R, whole. There the
             threshold is 25 / T, and the sigma of its kernel is sqrt(bandwidth / 2).
    Differs  from the code: with ``budget`` rows every other one is projected, where the code, with
             a number of rows of order sqrt(d T), stores all that follow and goes on without the
             projection. Coordinates are orthonormal, where the code has coefficients of the rows;
             the function is the same. The dictionary (kernels=...) is not used.

    The same row again: its label is 1, and the function's norm at most 1/2:

    >>> from omkl import algorithms
    >>> from omkl.core.learner import Learner
    >>> aogd = algorithms.load("aogd_ald")
    >>> params = aogd.Params(U=0.5, bandwidth=1.0, threshold=0.01, budget=8)
    >>> learner = Learner(aogd, params, (), d=1, D=1, seed=0)
    >>> learner.partial_fit([[0.3], [0.3], [0.3]], [1.0, 1.0, 1.0]).y_hat.round(6).tolist()
    [0.0, 0.447214, 0.5]
    """

    class Params(NamedTuple):
        U: POSITIVE
        bandwidth: POSITIVE
        threshold: FRACTION
        budget: ROWS

    class State(NamedTuple):
        model: Any
        log_w: np.ndarray  # (1,)
        squares: np.ndarray  # (1,) S, squared norms of the gradients in sum

    select, predict = select_all, predict_only

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: Any) -> AogdAld.State:
        return AogdAld.State(*init_one(params, dictionary, model), np.zeros(1))

    @staticmethod
    def update(params, state, t, y, selection):
        model, z = state.model, selection.scratch.z
        joins(model, selection.scratch, params.threshold)
        n = model.stored.n[0]
        slope = 2.0 * (selection.f[0] - y)
        state.squares[0] += slope * slope * total(own_sum(z, 0, z, 0, n))
        step(model, z, params.U / math.sqrt(1.0 + state.squares[0]) * slope, n)
        norm = math.sqrt(total(own_sum(model.theta[0], 0, model.theta, 0, n)))
        if norm > params.U:
            step(model, model.theta[0], 1.0 - params.U / norm, n)


@register_as("nons_ald", representation=GROWING_BASIS, kernels=gaussian_kernel)
class NonsAld:
    """NONS-ALD: online Newton steps of one Gaussian kernel on a basis that grows.

    Paper    J. Li, S. Liao, "Nearly Optimal Algorithms with Sublinear Computational Complexity for
             Online Kernel Regression", ICML 2023. It follows PROS-N-KONS (D. Calandriello,
             A. Lazaric, M. Valko, NIPS 2017), which draws its basis and begins anew with it.
    Task     regression; full information; second order.
    Round    z(x) are the coordinates of kappa(x, .) in the span of the basis; theta is 0 and the
             basis empty at first. Round 1 lets x_1 join, and learns nothing.
             1. Predict f(x_t), which is theta'z(x_t) cut to [-C, C]: theta moves by a multiple of
                A^(-1) z(x_t) until it gives that.
             2. Where 1 - ||z(x_t)||^2 > threshold and fewer than ``budget`` rows are in the basis:
                x_t joins it, z(x_t) has a coordinate more, theta a 0 there, and A a mu there.
             3. g = 2 (f - y_t) z(x_t), A <- A + g g' / (4 C^2 + 4), theta <- theta - A^(-1) g.
    Symbols  C          predictions are within [-C, C], > 0
             mu         regularisation, > 0: A begins as mu I
             bandwidth  of the kernel exp(-||x - x'||^2 / bandwidth), > 0: there is no 2 in it
             threshold  squared distance from the span above which a row joins, in (0, 1)
             budget     rows of the basis at most, 1 to 10,000
    Cost     O(J d + J^2) time per round for the J <= budget rows of the basis;
             O(budget^2 + budget d) memory.
    Bound    O(d_eff(mu) ln T) for every f whose values are within [-C, C], with d_eff the effective
             dimension; where the eigenvalues of the kernel matrix fall exponentially with J of
             order ln T. So the paper's abstract, of all its conditions not read.
    Reading  Of the paper its abstract was read, and the authors' code, NONS-ALD.R, whole. There
             mu = C = 1, the threshold is 25 / T, and the sigma of its kernel is
             sqrt(bandwidth / 2). In step 3 the code has the A after the row where x_t joins, and
             the one before it else; here it is the one after it, that of the online Newton step.
    Differs  from the code: in that A; and with ``budget`` rows every other one is projected, where
             the code stores without an end. The code has coordinates by eigenvectors, and computes
             them anew with every row that joins: those here are turned, and the predictions the
             same. The dictionary (kernels=...) is not used.

    The same row again: A is 1, then 1.5, and the step is 2 / 1.5, too far; f is cut to 1:

    >>> from omkl import algorithms
    >>> from omkl.core.learner import Learner
    >>> nons = algorithms.load("nons_ald")
    >>> params = nons.Params(C=1.0, mu=1.0, bandwidth=1.0, threshold=0.01, budget=8)
    >>> learner = Learner(nons, params, (), d=1, D=1, seed=0)
    >>> learner.partial_fit([[0.3], [0.3], [0.3]], [1.0, 1.0, 1.0]).y_hat.round(6).tolist()
    [0.0, 0.0, 1.0]
    """

    class Params(NamedTuple):
        C: POSITIVE
        mu: POSITIVE
        bandwidth: POSITIVE
        threshold: FRACTION
        budget: ROWS

    class State(NamedTuple):
        model: Any
        log_w: np.ndarray  # (1,)
        inverse: np.ndarray  # (B, W) that of A, zeros behind the rows and columns of the basis

    select = select_all

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: Any) -> NonsAld.State:
        inverse = np.zeros_like(model.project)
        return NonsAld.State(*init_one(params, dictionary, model), inverse)

    @staticmethod
    def predict(params, state, t, selection):
        return min(params.C, max(-params.C, selection.f[0])), True

    @staticmethod
    def update(params, state, t, y, selection):
        model, inverse = state.model, state.inverse
        z, product = selection.scratch.z, selection.scratch.product
        n = model.stored.n[0]
        W = inverse.shape[1]
        for j in range(n):
            product[j] = total(own_sum(z, 0, inverse, j * W, n))
        for j in range(n, n + LANES - n % LANES):
            product[j] = 0.0
        spread = total(own_sum(product, 0, z, 0, n))
        f = min(params.C, max(-params.C, selection.f[0]))
        if f != selection.f[0]:
            step(model, product, (selection.f[0] - f) / spread, n)
        if joins(model, selection.scratch, params.threshold):
            inverse[n, n] = 1.0 / params.mu
            product[n] = z[n] / params.mu
            for j in range(n + 1, W):
                product[j] = 0.0
            spread += product[n] * z[n]
            n += 1
            if n == 1:
                return
        slope = 2.0 * (f - y)
        gain = slope * slope / (4.0 * params.C * params.C + 4.0)
        shrink = 1.0 + gain * spread
        for i in range(n):
            row = pack(gain / shrink * product[i])
            for j in range(0, n, LANES):
                store(inverse, i * W + j, load(inverse, i * W + j) - load(product, j) * row)
        step(model, product, slope / shrink, n)
