"""What one message without noise gives away: a client's sample, worked out by a curious server.

Random features are no secret: all parties draw them from the seed. One gradient step of kernel i
from theta_i, which the server has sent, is

    theta_ik - theta_i = -a_i [sin(w_j'x), cos(w_j'x)]_j - b theta_i,
    a_i = 2 eta (f_i(x) - y) / (sqrt(D) p),     b = 2 eta lam / p,

where p is the probability that the kernels were sent with (POF-MKL, and of FOMD-OMS each
kernel's own; 1 elsewhere). With the right
b all entries have the amplitude a_i and the angles w_j'x: x follows by least squares, and y from
a_i (``from_step``). The first layer of a network moves by delta x' and its biases by delta: x is a
ratio (``from_network``). A server that knows more, or tries more, may find more.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from omkl.core.hyperparameters import rate
from omkl.core.weights import normalised

ANGLES = (0.25 * math.pi, 0.5 * math.pi, math.pi, 2.0 * math.pi, 4.0 * math.pi)
EXACT = 1e-6  # a residual of angles below which they are those of an input
NEAREST, FARTHEST = 1e-6, 1e3  # from the network's output, that a label is looked for
ATTACKED = (
    "domkl", "ofskl", "ofmkl_avg", "vm_kofl", "em_kofl", "pof_mkl", "fomd_oms", "perfedavg",
)  # fmt: skip


class Guess(NamedTuple):
    """x (d,) and y, and the residual of what was solved: 0 but for rounding where it is right."""

    x: np.ndarray
    y: float
    residual: float


class Seen(NamedTuple):
    """What the server knows of a client's message of round t.

    theta (N, W) as it was broadcast, of domkl ``before_the_error``; the rows that it named, and the
    rows sent with their values;
    log_w (N,) as it was broadcast, where the server has weights
    """

    t: int
    theta: np.ndarray
    announced: np.ndarray
    rows: np.ndarray
    sent: np.ndarray
    log_w: np.ndarray | None = None


def guess(name, params, model, seen):
    """The sample behind a message of the algorithm ``name``; None where equations are too few.

    ``model`` are the shared parameters, whose random features or layers the server knows.
    ValueError for an algorithm that is none of ``ATTACKED``.
    """
    if name not in ATTACKED:
        raise ValueError(
            f"what a message of {name} tells is not known; of {', '.join(ATTACKED)} it is"
        )
    if name == "perfedavg":
        steps = rate(params.alpha, seen.t), rate(params.beta, seen.t)
        return from_network(model.sizes, seen.theta[0], seen.sent[0], *steps)
    theta = seen.theta
    if name == "em_kofl":  # rows that the client went on from, if the server knows them
        if seen.t > 1 and seen.announced[0] != seen.announced[1]:
            return None
        theta = theta if seen.t > 1 else np.zeros_like(theta)
    p = 1.0
    if name == "pof_mkl" and params.M < len(theta):
        bins = math.ceil(len(theta) / params.M)
        p = 1.0 / bins if params.xi == 1.0 else None
    if name == "fomd_oms" and params.M < len(theta):
        uniform = (params.M - 1) / (len(theta) - 1)
        p = (1.0 - uniform) * normalised(seen.log_w)[seen.rows] + uniform
    eta = 1.0 / (params.c + 2.0) if name == "domkl" else rate(params.eta, seen.t)
    return from_step(
        model.omega, theta[seen.rows], seen.rows, seen.sent, eta, getattr(params, "lam", 0.0), p
    )


def before_the_error(params, theta, multiplier, mean):
    """theta of a client of DOMKL in step 3 but for the row's error, and the new multiplier.

    ``theta`` is its last message, and ``mean`` what was broadcast: a server that has kept the
    messages of a client knows all of it.
    """
    force = 0.5 * params.rho * (theta - mean)
    multiplier = multiplier + force
    return theta - (force + multiplier) / params.c, multiplier


def from_step(omega, theta, rows, sent, eta, lam, p=1.0):
    """The sample behind one gradient step of some kernels.

    omega (N, d, D) frequencies; theta and sent (n, 2 D): values of ``rows`` as broadcast and as
    they came back; p a number, one a row (n,), or None where it is not known. Angles are taken from
    low frequencies first, which no input turns further than half a circle, then from higher ones,
    until they agree.
    """
    D = omega.shape[2]
    change = sent - theta
    decay = _decay(change, theta, D) if p is None else 2.0 * eta * lam / p
    waves = change + np.reshape(decay, (-1, 1)) * theta
    frequencies = omega[np.asarray(rows)]  # (n, d, D)
    slow = np.linalg.norm(frequencies, axis=1) < ANGLES[1]
    cosines = np.where(slow.any(axis=1)[:, None], np.where(slow, waves[:, D:], 0.0), waves[:, D:])
    side = np.sign(cosines.sum(axis=1))  # of -a_i: the cosines of small angles are positive
    angles = np.arctan2(side[:, None] * waves[:, :D], side[:, None] * waves[:, D:])
    sending = np.flatnonzero(side)
    groups = [sending, *sending[:, None]] if len(sending) > 1 else [sending]
    solutions = [_input(frequencies[group], angles[group]) for group in groups]
    there = [found for found in solutions if found is not None]
    x, residual = min(there, key=lambda found: found[1], default=(None, np.inf))
    if x is None:
        return None
    turned = np.einsum("nde,d->ne", frequencies, x)
    outputs = np.sum(theta * np.hstack([np.sin(turned), np.cos(turned)]), axis=1) / math.sqrt(D)
    chance = p if p is not None else (2.0 * eta * lam / decay if decay else np.nan)
    errors = -side * np.linalg.norm(waves, axis=1) * chance / (2.0 * eta)  # f_i - y
    return Guess(x, float(np.median(outputs - errors)), residual)


def _input(frequencies, angles):
    """x with the angles (n, D) at the frequencies (n, d, D), and how far it is from them.

    None where low frequencies are too few.
    """
    d = frequencies.shape[1]
    speed = np.linalg.norm(frequencies, axis=1)
    best = None
    for limit in ANGLES:
        n, j = np.nonzero(speed < limit)
        matrix, right = frequencies[n, :, j], angles[n, j]
        if len(n) < d:
            continue
        x, _, rank, _ = np.linalg.lstsq(matrix, right, rcond=None)
        residual = float(np.abs(matrix @ x - right).max())
        if rank == d and (best is None or residual < best[1]):
            best = x, residual
        if rank == d and len(n) > d and residual < EXACT:
            break
    return best


def _decay(change, theta, D):
    """b: with it the amplitudes of a kernel are the same for all of its features."""
    pairs = (change, change), (change, theta), (theta, theta)
    A, B, C = (u[:, :D] * v[:, :D] + u[:, D:] * v[:, D:] for u, v in pairs)
    A, B, C = (part - part.mean(axis=1, keepdims=True) for part in (A, B, C))
    if not np.any(C):
        return 0.0
    # The sum of (A + 2 b B + b^2 C)^2 is least where its derivative is 0.
    slopes = [np.sum(C * C), 3.0 * np.sum(B * C), np.sum(A * C + 2.0 * B * B), np.sum(A * B)]
    roots = np.roots(slopes)
    real = roots[np.abs(roots.imag) <= 1e-6 * np.abs(roots)].real
    return float(min(real, key=lambda b: np.sum((A + 2.0 * b * B + b * b * C) ** 2)))


def from_network(sizes, theta, sent, alpha, beta):
    """The sample behind two steps of a network, theta (P,) as broadcast and as it came back."""
    moved = (theta - sent) / beta  # the gradient at the adapted parameters
    d, first = int(sizes[0]), int(sizes[1])
    slopes = moved[d * first : (d + 1) * first]
    b = int(np.argmax(np.abs(slopes)))
    if slopes[b] == 0.0:
        return None
    x = moved[d * b : d * (b + 1)] / slopes[b]
    y_hat, gradient = _output(sizes, theta, x)

    def off(error):
        """Of the last bias, which moves by twice the error of the adapted network."""
        adapted, _ = _output(sizes, theta - 2.0 * alpha * error * gradient, x)
        return adapted - (y_hat - error) - 0.5 * float(moved[-1])

    far = NEAREST
    while far < FARTHEST and not off(-far) * off(far) < 0.0:
        far *= 2.0
    if not off(-far) * off(far) < 0.0:
        return None
    return Guess(x, y_hat - float(brentq(off, -far, far, xtol=1e-14)), 0.0)


def _output(sizes, theta, x):
    """The network's output and its gradient (P,)."""
    values, weights, start = [x], [], 0
    for n_in, n_out in itertools.pairwise(sizes.tolist()):
        W = theta[start : start + n_in * n_out].reshape(n_out, n_in)
        start += n_in * n_out
        out = W @ values[-1] + theta[start : start + n_out]
        start += n_out
        weights.append(W)
        values.append(out if start == len(theta) else np.maximum(out, 0.0))
    pieces, delta = [], np.ones(1)
    for W, inputs in zip(weights[::-1], values[-2::-1], strict=True):
        pieces.append(np.concatenate([np.outer(delta, inputs).ravel(), delta]))
        delta = (W.T @ delta) * (inputs > 0.0)
    return float(values[-1][0]), np.concatenate(pieces[::-1])
