"""Random features of rows: the angles omega'x, and their sines and cosines, called waves.

There are functions for one, four and eight rows at once. Frequencies are padded with zeros to
(N, d, W), where W is their number D rounded up to a multiple of 8 (a pack, see ``simd``). Every
function adds the terms of an angle in the order of the inputs, so results do not depend on how many
rows are computed at once.

Coefficients theta (N, 2 W) are used without a mask, because the waves of the padding are 0: sin(0)
is 0, and the cosines of the padding are set to 0.
"""

from __future__ import annotations

import math

from omkl.core.compiler import inlined
from omkl.core.simd import LANES, fma, load, pack, store, total
from omkl.core.trigonometry import fill_pack


@inlined
def seven_packs(padded, w, X, row):
    """Return the angles omega'X[row] for seven packs (56) of frequencies, as seven packs.

    Parameters
    ----------
    padded
        Frequencies (N, d, W).
    w
        Flat index in ``padded`` of the first frequency.
    X, row
        Rows (n, d), and the index of one.
    """
    d = padded.shape[1]
    W = padded.shape[2]
    u = X[row, 0]
    a0 = load(padded, w) * u
    a1 = load(padded, w + LANES) * u
    a2 = load(padded, w + 2 * LANES) * u
    a3 = load(padded, w + 3 * LANES) * u
    a4 = load(padded, w + 4 * LANES) * u
    a5 = load(padded, w + 5 * LANES) * u
    a6 = load(padded, w + 6 * LANES) * u
    for k in range(1, d):
        w += W
        u = X[row, k]
        a0 = fma(load(padded, w), u, a0)
        a1 = fma(load(padded, w + LANES), u, a1)
        a2 = fma(load(padded, w + 2 * LANES), u, a2)
        a3 = fma(load(padded, w + 3 * LANES), u, a3)
        a4 = fma(load(padded, w + 4 * LANES), u, a4)
        a5 = fma(load(padded, w + 5 * LANES), u, a5)
        a6 = fma(load(padded, w + 6 * LANES), u, a6)
    return a0, a1, a2, a3, a4, a5, a6


@inlined
def two_packs(padded, w, X, row):
    """Do the same as ``seven_packs`` for two packs of frequencies.

    Parameters
    ----------
    padded, w, X, row
        As in ``seven_packs``.
    """
    d = padded.shape[1]
    W = padded.shape[2]
    u = X[row, 0]
    a0 = load(padded, w) * u
    a1 = load(padded, w + LANES) * u
    for k in range(1, d):
        w += W
        u = X[row, k]
        a0 = fma(load(padded, w), u, a0)
        a1 = fma(load(padded, w + LANES), u, a1)
    return a0, a1


@inlined
def one_pack(padded, w, X, row):
    """Do the same as ``seven_packs`` for one pack of frequencies.

    Parameters
    ----------
    padded, w, X, row
        As in ``seven_packs``.
    """
    d = padded.shape[1]
    W = padded.shape[2]
    a0 = load(padded, w) * X[row, 0]
    for k in range(1, d):
        w += W
        a0 = fma(load(padded, w), X[row, k], a0)
    return a0


@inlined
def arguments(padded, D, i, X, row, angle, start):
    """Write the angles of kernel i at X[row] to angle[start : start + D].

    Terms are summed in the order of the inputs. Seven packs are summed at once: an addition takes
    four cycles and two can begin in each cycle, so seven independent sums keep the adders busy.

    Parameters
    ----------
    padded
        Frequencies (N, d, W).
    D
        Number of angles.
    i
        Kernel.
    X, row
        Rows (n, d), and the index of one.
    angle, start
        Output, and its first index.
    """
    W = padded.shape[2]
    first = i * padded.shape[1] * W
    j = 0
    while j + 7 * LANES <= W:
        a0, a1, a2, a3, a4, a5, a6 = seven_packs(padded, first + j, X, row)
        store(angle, start + j, a0)
        store(angle, start + j + LANES, a1)
        store(angle, start + j + 2 * LANES, a2)
        store(angle, start + j + 3 * LANES, a3)
        store(angle, start + j + 4 * LANES, a4)
        store(angle, start + j + 5 * LANES, a5)
        store(angle, start + j + 6 * LANES, a6, min(LANES, D - j - 6 * LANES))
        j += 7 * LANES
    while j + 2 * LANES <= W:
        a0, a1 = two_packs(padded, first + j, X, row)
        store(angle, start + j, a0)
        store(angle, start + j + LANES, a1, min(LANES, D - j - LANES))
        j += 2 * LANES
    if j < W:
        store(angle, start + j, one_pack(padded, first + j, X, row), min(LANES, D - j))


@inlined
def two_packs_of_four(padded, w, X, row):
    """Return the angles omega'x of sixteen frequencies at each of the rows row .. row + 3.

    Each row gives two packs of angles.

    Parameters
    ----------
    padded, w, X, row
        As in ``seven_packs``.
    """
    d = padded.shape[1]
    W = padded.shape[2]
    v0 = load(padded, w)
    v1 = load(padded, w + LANES)
    u = X[row, 0]
    a0 = v0 * u
    a1 = v1 * u
    u = X[row + 1, 0]
    b0 = v0 * u
    b1 = v1 * u
    u = X[row + 2, 0]
    c0 = v0 * u
    c1 = v1 * u
    u = X[row + 3, 0]
    e0 = v0 * u
    e1 = v1 * u
    for k in range(1, d):
        w += W
        v0 = load(padded, w)
        v1 = load(padded, w + LANES)
        u = X[row, k]
        a0 = fma(v0, u, a0)
        a1 = fma(v1, u, a1)
        u = X[row + 1, k]
        b0 = fma(v0, u, b0)
        b1 = fma(v1, u, b1)
        u = X[row + 2, k]
        c0 = fma(v0, u, c0)
        c1 = fma(v1, u, c1)
        u = X[row + 3, k]
        e0 = fma(v0, u, e0)
        e1 = fma(v1, u, e1)
    return a0, a1, b0, b1, c0, c1, e0, e1


@inlined
def one_pack_of_four(padded, w, X, row):
    """Return the angles omega'x of eight frequencies at each of the rows row .. row + 3.

    Each row gives one pack of angles.

    Parameters
    ----------
    padded, w, X, row
        As in ``seven_packs``.
    """
    d = padded.shape[1]
    W = padded.shape[2]
    v0 = load(padded, w)
    a0 = v0 * X[row, 0]
    b0 = v0 * X[row + 1, 0]
    c0 = v0 * X[row + 2, 0]
    e0 = v0 * X[row + 3, 0]
    for k in range(1, d):
        w += W
        v0 = load(padded, w)
        a0 = fma(v0, X[row, k], a0)
        b0 = fma(v0, X[row + 1, k], b0)
        c0 = fma(v0, X[row + 2, k], c0)
        e0 = fma(v0, X[row + 3, k], e0)
    return a0, b0, c0, e0


@inlined
def arguments_of_four(padded, D, i, X, row, angle):
    """Write the angles of kernel i at the rows row .. row + 3, D for each row in turn.

    Parameters
    ----------
    padded, D, i, X, row
        As in ``arguments``.
    angle
        Output (4 D,).
    """
    W = padded.shape[2]
    first = i * padded.shape[1] * W
    j = 0
    while j + 2 * LANES <= W:
        a0, a1, b0, b1, c0, c1, e0, e1 = two_packs_of_four(padded, first + j, X, row)
        n = min(LANES, D - j - LANES)
        store(angle, j, a0)
        store(angle, j + LANES, a1, n)
        store(angle, D + j, b0)
        store(angle, D + j + LANES, b1, n)
        store(angle, 2 * D + j, c0)
        store(angle, 2 * D + j + LANES, c1, n)
        store(angle, 3 * D + j, e0)
        store(angle, 3 * D + j + LANES, e1, n)
        j += 2 * LANES
    if j < W:
        a0, b0, c0, e0 = one_pack_of_four(padded, first + j, X, row)
        n = min(LANES, D - j)
        store(angle, j, a0, n)
        store(angle, D + j, b0, n)
        store(angle, 2 * D + j, c0, n)
        store(angle, 3 * D + j, e0, n)


@inlined
def clear_behind(waves, z, D, W):
    """Set the cosines in the padding of one row to 0. Before, they are cos(0) = 1.

    Parameters
    ----------
    waves
        Sines and cosines.
    z
        Index of the first wave of the row.
    D, W
        Number of frequencies, without and with padding.
    """
    if D < W:
        store(waves.cos, z + D, pack(0.0), W - D)


@inlined
def dot_features(model, i, waves, z):
    """Return a pack whose sum is sqrt(D) theta_i'z(x) for the random features z(x) of a row x.

    Products with sines and with cosines have separate sums: an addition takes four cycles, and two
    independent sums halve the wait. All functions here add in this order, so their results are
    equal, to the last bit.

    Parameters
    ----------
    model
        ``RandomFeatures``.
    i
        Kernel.
    waves, z
        Sines and cosines, and the index of the first.
    """
    theta = model.theta
    S = theta.shape[1] // 2
    w = 2 * S * i
    a = pack(0.0)
    b = pack(0.0)
    j = 0
    while j + LANES <= S:
        a = fma(load(theta, w + j), load(waves.sin, z + j), a)
        b = fma(load(theta, w + S + j), load(waves.cos, z + j), b)
        j += LANES
    if j < S:
        k = S - j
        a = fma(load(theta, w + j, k), load(waves.sin, z + j, k), a)
        b = fma(load(theta, w + S + j, k), load(waves.cos, z + j, k), b)
    return a + b


@inlined
def output_at_row(model, i, X, row, angle, waves, z):
    """Return f_i(X[row]), and write the waves (sines and cosines) of kernel i.

    One loop does both, so that the processor can overlap the product of one pack of waves with
    theta and the computation of the next pack.

    Parameters
    ----------
    model
        ``RandomFeatures``.
    i
        Kernel.
    X, row
        Rows (n, d), and the index of one.
    angle
        Scratch (W,).
    waves, z
        Array of the output, and the index at which the waves of kernel i begin.
    """
    D = model.n_waves[0]
    theta = model.theta
    S = theta.shape[1] // 2
    arguments(model.padded, model.padded.shape[2], i, X, row, angle, 0)
    w = 2 * S * i
    a = pack(0.0)
    b = pack(0.0)
    j = 0
    while j + LANES <= S:
        fill_pack(waves, z + j, load(angle, j))
        a = fma(load(theta, w + j), load(waves.sin, z + j), a)
        b = fma(load(theta, w + S + j), load(waves.cos, z + j), b)
        j += LANES
    if j < S:
        k = S - j
        fill_pack(waves, z + j, load(angle, j))
        a = fma(load(theta, w + j, k), load(waves.sin, z + j), a)
        b = fma(load(theta, w + S + j, k), load(waves.cos, z + j), b)
    clear_behind(waves, z, D, model.padded.shape[2])
    return total(a + b) * (1.0 / math.sqrt(D))


@inlined
def waves_of_row(model, i, X, row, angle, waves, z):
    """Write the waves of kernel i at X[row].

    Parameters
    ----------
    model, i, X, row, angle, waves, z
        As in ``output_at_row``.
    """
    W = model.padded.shape[2]
    arguments(model.padded, W, i, X, row, angle, 0)
    for j in range(0, W, LANES):
        fill_pack(waves, z + j, load(angle, j))
    clear_behind(waves, z, model.n_waves[0], W)


@inlined
def waves_of_rows(model, i, X, row, angle, waves, start):
    """Write the waves of kernel i at X[row] .. X[row + 7].

    Parameters
    ----------
    model, i, X, row
        As in ``output_at_row``.
    angle
        Scratch (4 W,).
    waves, start
        Output, and the index of its first wave. Each row takes W entries.
    """
    D = model.n_waves[0]
    W = model.padded.shape[2]
    for r in range(0, LANES, 4):
        arguments_of_four(model.padded, W, i, X, row + r, angle)
        for j in range(0, 4 * W, LANES):
            fill_pack(waves, start + r * W + j, load(angle, j))
    for r in range(LANES):
        clear_behind(waves, start + r * W, D, W)


@inlined
def step_pack(theta, w, waves, z, scaled, shrink):
    """Update eight coefficients: shrink times theta plus scaled times waves. Return the new ones.

    Parameters
    ----------
    theta, w
        Coefficients, updated in place, and flat index of the first.
    waves, z
        Sines or cosines, and index of the first.
    scaled, shrink
        Factors of the waves and of the coefficients.
    """
    moved = fma(load(waves, z), scaled, load(theta, w) * shrink)
    store(theta, w, moved)
    return moved


@inlined
def step_first(theta, w, waves, z, scaled, shrink, k):
    """Do the same as ``step_pack`` for the first k of eight coefficients.

    Parameters
    ----------
    theta, w, waves, z, scaled, shrink
        As in ``step_pack``.
    k
        Number of coefficients, 1..8.
    """
    moved = fma(load(waves, z, k), scaled, load(theta, w, k) * shrink)
    store(theta, w, moved, k)
    return moved


@inlined
def gradient_step_at(model, i, waves, z, step, shrink):
    """Update theta_i <- shrink theta_i - step times the features at z, and the norm of theta_i.

    The squared norm is computed in the same pass, while the coefficients are in registers.

    Parameters
    ----------
    model
        ``RandomFeatures``, updated in place.
    i
        Kernel.
    waves, z
        Sines and cosines, and the index of the first.
    step, shrink
        Factors of the features and of the coefficients.
    """
    theta = model.theta
    S = theta.shape[1] // 2
    scaled = pack(-step / math.sqrt(model.n_waves[0]))
    w = 2 * S * i
    a = pack(0.0)
    b = pack(0.0)
    j = 0
    while j + LANES <= S:
        s = step_pack(theta, w + j, waves.sin, z + j, scaled, shrink)
        c = step_pack(theta, w + S + j, waves.cos, z + j, scaled, shrink)
        a = fma(s, s, a)
        b = fma(c, c, b)
        j += LANES
    if j < S:
        s = step_first(theta, w + j, waves.sin, z + j, scaled, shrink, S - j)
        c = step_first(theta, w + S + j, waves.cos, z + j, scaled, shrink, S - j)
        a = fma(s, s, a)
        b = fma(c, c, b)
    model.norm2[i] = total(a + b)


@inlined
def gradient_step_and_output(model, i, waves, z, after, step, shrink):
    """Do the same as ``gradient_step_at``, and return the output of the new theta_i at another row.

    Parameters
    ----------
    model, i, waves, z, step, shrink
        As in ``gradient_step_at``.
    after
        Index in ``waves`` of the first sine and cosine of the other row.
    """
    theta = model.theta
    S = theta.shape[1] // 2
    root = math.sqrt(model.n_waves[0])
    scaled = pack(-step / root)
    w = 2 * S * i
    a = pack(0.0)
    b = pack(0.0)
    f = pack(0.0)
    g = pack(0.0)
    j = 0
    while j + LANES <= S:
        s = step_pack(theta, w + j, waves.sin, z + j, scaled, shrink)
        c = step_pack(theta, w + S + j, waves.cos, z + j, scaled, shrink)
        a = fma(s, s, a)
        b = fma(c, c, b)
        f = fma(s, load(waves.sin, after + j), f)
        g = fma(c, load(waves.cos, after + j), g)
        j += LANES
    if j < S:
        s = step_first(theta, w + j, waves.sin, z + j, scaled, shrink, S - j)
        c = step_first(theta, w + S + j, waves.cos, z + j, scaled, shrink, S - j)
        a = fma(s, s, a)
        b = fma(c, c, b)
        f = fma(s, load(waves.sin, after + j), f)
        g = fma(c, load(waves.cos, after + j), g)
    model.norm2[i] = total(a + b)
    return total(f + g) * (1.0 / root)
