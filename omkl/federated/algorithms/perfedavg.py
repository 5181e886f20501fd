"""PerFedAvg: a small shared network, from which one gradient step adapts to each client.

Paper    A. Fallah, A. Mokhtari, A. Ozdaglar, "Personalized Federated Learning with
         Theoretical Guarantees: A Model-Agnostic Meta-Learning Approach", NeurIPS 2020; as
         run for the comparison in Ghari and Shen, "Personalized Online Federated Learning
         with Multiple Kernels", NeurIPS 2022, section 4 and appendix C.
Task     regression; K clients and a server.
Round    1. The server sends the parameters theta of a network of dense layers with ReLU.
         2. Client k predicts with it.
         3. theta' = theta - alpha grad (net(x; theta) - y)^2; it sends
            theta - beta grad (net(x; theta') - y)^2, both on the one sample of the round.
         4. The server takes the mean.
Symbols  alpha    step size of the adaptation, > 0, a schedule
         beta     step size of the shared parameters, > 0, a schedule
         neurons  largest size of a hidden layer, >= 1 (the paper: 20)
Cost     a client: O(P) time per round and P numbers sent, P parameters.
Bound    none: clients store no batch of data.
Reading  This is the first-order variant, without Hessians. Clients store no data, so both steps
         use the sample that has just arrived, and the shared parameters predict the next one.
         The network has as many hidden layers of ``neurons`` as ``max_upload`` allows (1000 if
         it is not set: the paper's limit). If not even one fits, it has a single smaller layer.
         Weights start normal with variance 2 / (inputs of the layer), biases at 0. The paper gives
         neither step size. The step of its other learners, 1/sqrt(T), is too large for alpha
         with two hidden layers: on naval one seed in ten diverges and raises the mean error to
         0.41, with a median of 0.013. Smaller steps do not give the published numbers of all
         data sets either.
Differs  from the paper: no known difference.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.compiler import inlined
from omkl.core.hyperparameters import SIZE, Schedule, rate
from omkl.core.rng import FEATURES, generator
from omkl.core.simd import LANES, at_least, fma, load, pack, store, totals
from omkl.federated.algorithms import ofmkl
from omkl.federated.protocol import register

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel

LIMIT = 1000


class Params(NamedTuple):
    alpha: Schedule
    beta: Schedule
    neurons: SIZE


class Network(NamedTuple):
    """Parameters of a network of dense layers.

    theta  (1, P) parameters: of each layer in turn the weights (out, in), then the biases (out,)
    norm2  (1,), not used
    sizes  (L + 1,) int64, sizes of the layers from the inputs to the output, which is 1
    """

    theta: np.ndarray
    norm2: np.ndarray
    sizes: np.ndarray


class Layers(NamedTuple):
    """Scratch for one sample.

    value    (sum of sizes,) value of each unit, input units first
    delta    (sum of sizes,) derivative of the loss with respect to each unit
    adapted  (1, P) parameters after the first step
    """

    value: np.ndarray
    delta: np.ndarray
    adapted: np.ndarray


def n_parameters(sizes: Sequence[int]) -> int:
    return sum(b * (a + 1) for a, b in itertools.pairwise(sizes))


def layer_sizes(d: int, neurons: int, limit: int) -> list[int]:
    """Choose the sizes of input, hidden and output layers, with as many hidden layers as fit.

    Parameters
    ----------
    d
        Number of inputs.
    neurons
        Most units of a hidden layer, >= 1.
    limit
        Most parameters of the network.

    Returns
    -------
    list of int
        Sizes, d first and 1 last.

    Raises
    ------
    ValueError
        A single neuron exceeds the limit.
    """
    widest = neurons
    while widest > 1 and n_parameters([d, widest, 1]) > limit:
        widest -= 1
    sizes = [d, widest, 1]
    if n_parameters(sizes) > limit:
        raise ValueError(
            f"max_upload={limit}: a network of {d} inputs and one neuron already has "
            f"{n_parameters(sizes)} parameters"
        )
    if widest < neurons:
        return sizes
    further = (limit - n_parameters(sizes)) // (widest * (widest + 1))
    return [d, *[widest] * (1 + further), 1]


def network(
    params: Params, dictionary: Sequence[Kernel], d: int, D: int, seed: int, max_upload: int | None
) -> Network:
    sizes = layer_sizes(d, params.neurons, LIMIT if max_upload is None else max_upload)
    rng = generator(seed, FEATURES)
    pieces = []
    for a, b in itertools.pairwise(sizes):
        pieces += [np.sqrt(2.0 / a) * rng.standard_normal(a * b), np.zeros(b)]
    theta = np.concatenate(pieces)[None, :]
    return Network(np.ascontiguousarray(theta), np.zeros(1), np.array(sizes))


def empty_layers(model: Any) -> Layers:
    units = int(model.sizes.sum())
    return Layers(np.zeros(units), np.zeros(units), np.zeros_like(model.theta))


def no_kernels(params: Params, dictionary: Sequence[Kernel], d: int) -> Sequence[Kernel]:
    return ()


@inlined
def eight_sums(theta, row, next_row, n_rows, value, first, n_in):
    """Return the sums of weights times inputs, without bias, of eight units of a layer.

    The eight sums are one SIMD vector. If fewer than eight units are left, the remaining entries
    repeat the sum of the last unit.

    Parameters
    ----------
    theta
        Parameters (1, P).
    row, next_row
        Flat index of the first weight of the first unit, and distance from there to the first
        weight of the next unit.
    n_rows
        Number of units left, >= 1.
    value, first
        Values of all units, and the index of the first input of this layer.
    n_in
        Number of weights of a unit.
    """
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = pack(0.0)
    last = row + (n_rows - 1) * next_row
    for a in range(0, n_in, LANES):
        k = min(LANES, n_in - a)
        x = load(value, first + a, k)
        s0 = fma(load(theta, row + a, k), x, s0)
        s1 = fma(load(theta, min(row + next_row, last) + a, k), x, s1)
        s2 = fma(load(theta, min(row + 2 * next_row, last) + a, k), x, s2)
        s3 = fma(load(theta, min(row + 3 * next_row, last) + a, k), x, s3)
        s4 = fma(load(theta, min(row + 4 * next_row, last) + a, k), x, s4)
        s5 = fma(load(theta, min(row + 5 * next_row, last) + a, k), x, s5)
        s6 = fma(load(theta, min(row + 6 * next_row, last) + a, k), x, s6)
        s7 = fma(load(theta, min(row + 7 * next_row, last) + a, k), x, s7)
    return totals(s0, s1, s2, s3, s4, s5, s6, s7)


@inlined
def forward(theta, sizes, value):
    """Return the output of the network, and write the values of all units.

    Parameters
    ----------
    theta
        Parameters (1, P).
    sizes
        Sizes of the layers (L + 1,).
    value
        Values of all units; the inputs come first, the others are written.
    """
    first = 0
    w = 0
    last = sizes.shape[0] - 2
    for layer in range(last + 1):
        n_in = sizes[layer]
        n_out = sizes[layer + 1]
        biases = w + n_in * n_out
        for b in range(0, n_out, LANES):
            k = min(LANES, n_out - b)
            sums = eight_sums(theta, w + b * n_in, n_in, n_out - b, value, first, n_in)
            units = load(theta, biases + b, k) + sums
            store(value, first + n_in + b, units if layer == last else at_least(units, 0.0), k)
        first += n_in
        w = biases + n_out
    return value[first]


@inlined
def descend(theta, start, sizes, layers, slope, step, target):
    """Write the parameters after one gradient step to ``target``.

    ``forward`` must have been called with ``theta``. The gradient itself is not stored.

    Parameters
    ----------
    theta
        Parameters (1, P) at which the gradient is computed.
    start
        Parameters (1, P) from which the gradient times the step size is subtracted.
    sizes
        Sizes of the layers (L + 1,).
    layers
        Values of the units, and scratch.
    slope
        Derivative of the loss with respect to the output.
    step
        Step size.
    target
        Output (1, P).
    """
    value, delta = layers.value, layers.delta
    last = sizes.shape[0] - 2
    first = 0
    w = 0
    for layer in range(last + 1):
        first += sizes[layer]
        w += (sizes[layer] + 1) * sizes[layer + 1]
    delta[first] = slope
    for back in range(last + 1):
        layer = last - back
        n_in = sizes[layer]
        n_out = sizes[layer + 1]
        w -= (n_in + 1) * n_out
        below = first - n_in
        biases = w + n_in * n_out
        for b in range(0, n_out, LANES):
            k = min(LANES, n_out - b)
            bias = fma(load(delta, first + b, k), -step, load(start, biases + b, k))
            store(target, biases + b, bias, k)
        for a in range(0, n_in, LANES):
            k = min(LANES, n_in - a)
            inputs = load(value, below + a, k)
            for b in range(n_out):
                row = w + b * n_in + a
                store(target, row, fma(inputs * delta[first + b], -step, load(start, row, k)), k)
        if layer == 0:
            return
        for a in range(0, n_in, LANES):
            k = min(LANES, n_in - a)
            sums = pack(0.0)
            for b in range(n_out):
                sums = fma(load(theta, w + b * n_in + a, k), delta[first + b], sums)
            store(delta, below + a, sums, k)
        for a in range(n_in):
            delta[below + a] = delta[below + a] if value[below + a] > 0.0 else 0.0
        first = below


select, aggregate, upload = ofmkl.select, ofmkl.aggregate, ofmkl.upload


def predict(params, server, clients, k, t, X, row, scratch):
    for a in range(X.shape[1]):
        scratch.model.value[a] = X[row, a]
    scratch.f[0] = forward(server.model.theta, server.model.sizes, scratch.model.value)
    return scratch.f[0]


def local_step(params, server, clients, k, t, y, y_hat, scratch, message):
    theta, sizes, layers = server.model.theta, server.model.sizes, scratch.model
    scratch.own_loss[0] = (y_hat - y) * (y_hat - y)
    scratch.loss[0] = scratch.own_loss[0]
    alpha = rate(params.alpha, t)
    beta = rate(params.beta, t)
    descend(theta, theta, sizes, layers, 2.0 * (y_hat - y), alpha, layers.adapted)
    y_adapted = forward(layers.adapted, sizes, layers.value)
    descend(layers.adapted, theta, sizes, layers, 2.0 * (y_adapted - y), beta, message.theta)


EXPECTED_FAILURES = {"first_prediction": "its weights start at random, not at 0"}

algorithm = register(__name__, kernels=no_kernels, model=network, scratch=empty_layers)
