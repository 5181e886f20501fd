"""PerFedAvg: a small network, shared as the point from which one step adapts to a client.

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
         neurons  of a hidden layer, at most; >= 1 (the paper: 20)
Cost     a client: O(P) time a round and P numbers sent, P parameters.
Bound    none: clients hold no batch of data.
Differs  from the paper: none that is known. Readings: the first-order variant, without
         Hessians; as clients store no data, both steps use the sample that has just come,
         and the shared parameters predict the next one. Hidden layers are as many as
         ``max_upload`` lets through (1000 without one: the paper's limit); where not even
         one of ``neurons`` fits, one layer of as many as do. Weights start normal with
         variance 2 / inputs of the layer, biases at 0. The text states neither step size;
         1/sqrt(T), that of its other learners, is too large for alpha in two hidden layers:
         on naval one seed in ten breaks away and makes the mean error 0.41, the median being
         0.013. Smaller steps do not give the published numbers of all data sets either.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.hyperparameters import SIZE
from omkl.core.jit import inlined
from omkl.core.schedule import Schedule, rate
from omkl.core.simd import LANES, fma, load, pack, store, total
from omkl.federated.messages import average
from omkl.federated.protocol import choose_all, register

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel

LIMIT = 1000


class Params(NamedTuple):
    alpha: Schedule
    beta: Schedule
    neurons: SIZE


class Network(NamedTuple):
    """Parameters of dense layers, one after the other: weights (out, in), then biases (out).

    theta (1, P); norm2 (1,), not used; sizes (L + 1,) int64, inputs first, 1 last
    """

    theta: np.ndarray
    norm2: np.ndarray
    sizes: np.ndarray


class Layers(NamedTuple):
    """Scratch for one sample: values and derivatives of all units, input units first.

    value, delta (sum of sizes,); gradient, adapted (1, P)
    """

    value: np.ndarray
    delta: np.ndarray
    gradient: np.ndarray
    adapted: np.ndarray


def n_parameters(sizes: Sequence[int]) -> int:
    return sum(b * (a + 1) for a, b in itertools.pairwise(sizes))


def layer_sizes(d: int, neurons: int, limit: int) -> list[int]:
    """Inputs, hidden layers, 1: as many hidden layers as ``limit`` parameters allow."""
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
    rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(2)[0])
    pieces = []
    for a, b in itertools.pairwise(sizes):
        pieces += [np.sqrt(2.0 / a) * rng.standard_normal(a * b), np.zeros(b)]
    theta = np.concatenate(pieces)[None, :]
    return Network(np.ascontiguousarray(theta), np.zeros(1), np.array(sizes))


def empty_layers(model: Any) -> Layers:
    units = int(model.sizes.sum())
    zeros = np.zeros_like(model.theta)
    return Layers(np.zeros(units), np.zeros(units), zeros, zeros.copy())


def no_kernels(params: Params, dictionary: Sequence[Kernel]) -> Sequence[Kernel]:
    return ()


@inlined
def forward(theta, sizes, value):
    """The output of the network theta (1, P), from the inputs that stand first in ``value``."""
    first = 0
    w = 0
    last = sizes.shape[0] - 2
    for layer in range(last + 1):
        n_in = sizes[layer]
        n_out = sizes[layer + 1]
        for b in range(n_out):
            row = w + b * n_in
            sums = pack(0.0)
            a = 0
            while a + LANES <= n_in:
                sums = fma(load(theta, row + a), load(value, first + a), sums)
                a += LANES
            if a < n_in:
                k = n_in - a
                sums = fma(load(theta, row + a, k), load(value, first + a, k), sums)
            y = theta[0, w + n_in * n_out + b] + total(sums)
            value[first + n_in + b] = y if layer == last or y > 0.0 else 0.0
        first += n_in
        w += (n_in + 1) * n_out
    return value[first]


@inlined
def backward(theta, sizes, layers, slope):
    """layers.gradient (1, P) of the output times ``slope``, after ``forward`` with this theta."""
    value, delta, gradient = layers.value, layers.delta, layers.gradient
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
        for b in range(n_out):
            gradient[0, w + n_in * n_out + b] = delta[first + b]
        for a in range(0, n_in, LANES):
            k = min(LANES, n_in - a)
            inputs = load(value, below + a, k)
            sums = pack(0.0)
            for b in range(n_out):
                row = w + b * n_in + a
                store(gradient, row, inputs * delta[first + b], k)
                sums = fma(load(theta, row, k), delta[first + b], sums)
            store(delta, below + a, sums, k)
        for a in range(n_in):
            if value[below + a] <= 0.0:
                delta[below + a] = 0.0
        first = below


@inlined
def descend(theta, step, gradient, target):
    """target = theta - step gradient, all (1, P)."""
    P = theta.shape[1]
    for e in range(0, P, LANES):
        k = min(LANES, P - e)
        store(target, e, fma(load(gradient, e, k), -step, load(theta, e, k)), k)


def select(params, server, clients, k, t, u, scratch, message):
    choose_all(server, scratch, message)


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
    backward(theta, sizes, layers, 2.0 * (y_hat - y))
    descend(theta, alpha, layers.gradient, layers.adapted)
    adapted = forward(layers.adapted, sizes, layers.value)
    backward(layers.adapted, sizes, layers, 2.0 * (adapted - y))
    descend(theta, beta, layers.gradient, message.theta)


def aggregate(params, server, t, n_clients):
    average(server, n_clients)


def upload(params: Params, N: int, W: int) -> int:
    return W


EXPECTED_FAILURES = {"first_prediction": "its weights start at random, not at 0"}

algorithm = register(__name__, kernels=no_kernels, model=network, scratch=empty_layers)
