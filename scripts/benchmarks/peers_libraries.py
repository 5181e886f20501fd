"""One kernel's learner in scikit-learn and in river, row by row as the round demands.

Both get the frequencies of omkl, and a step size and a penalty that make their update the
same; so do their predictions then, up to rounding.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from omkl.algorithms import raker

Stream = Callable[[np.ndarray, np.ndarray], np.ndarray]


def scikit_learn(omega: np.ndarray, params: raker.Raker.Params) -> Stream:
    """``RBFSampler`` and ``SGDRegressor.partial_fit``, with the frequencies omega (d, D).

    The sampler's features are sqrt(2 / n) cos(w'x + b): with n = 2 D, every frequency
    twice and b = -pi/2 and 0, those are the sines and cosines of omkl.
    """
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import SGDRegressor

    D = omega.shape[1]

    def run(X: np.ndarray, y: np.ndarray) -> np.ndarray:
        sampler = RBFSampler(n_components=2 * D).fit(X[:1])
        sampler.random_weights_ = np.hstack([omega, omega])
        sampler.random_offset_ = np.repeat([-0.5 * math.pi, 0.0], D)
        model = SGDRegressor(
            penalty="l2",
            alpha=params.lam,
            learning_rate="invscaling",
            eta0=2.0 * params.eta.scale,  # its loss is half the squared error
            power_t=-params.eta.power,
            fit_intercept=False,
        )
        y_hat = np.zeros(len(y))
        for t in range(len(y)):
            z = sampler.transform(X[t : t + 1])
            if t:  # it has no prediction before the first label
                y_hat[t] = model.predict(z)[0]
            model.partial_fit(z, y[t : t + 1])
        return y_hat

    return run


def _river_regression(params: raker.Raker.Params, scale: float) -> Any:
    from river import linear_model, optim

    scheduler = optim.schedulers.InverseScaling(scale, -params.eta.power)
    return linear_model.LinearRegression(
        optimizer=optim.SGD(scheduler), l2=2.0 * params.lam, intercept_lr=0.0
    )


def river(omega: np.ndarray, params: raker.Raker.Params) -> Stream:
    """``LinearRegression`` on the sines and cosines of omega'x, handed over as a dictionary."""
    D = omega.shape[1]
    names = range(2 * D)

    def run(X: np.ndarray, y: np.ndarray) -> np.ndarray:
        model = _river_regression(params, params.eta.scale)
        y_hat = np.zeros(len(y))
        for t in range(len(y)):
            angle = X[t] @ omega
            z = np.concatenate([np.sin(angle), np.cos(angle)]) / math.sqrt(D)
            features = dict(zip(names, z.tolist(), strict=True))
            y_hat[t] = model.predict_one(features)
            model.learn_one(features, y[t])
        return y_hat

    return run


def river_sampler(omega: np.ndarray, params: raker.Raker.Params) -> Stream:
    """``RBFSampler | LinearRegression`` as river has them, 2 D features for every input.

    Its sampler takes each input by itself and does not sum over them: other features,
    and d times as many, none divided by their number: the step is, or it diverges.
    """
    from river import feature_extraction

    n = 2 * omega.shape[1]
    scale = params.eta.scale / omega.size

    def run(X: np.ndarray, y: np.ndarray) -> np.ndarray:
        sampler = feature_extraction.RBFSampler(n_components=n, seed=0)
        model = sampler | _river_regression(params, scale)
        y_hat = np.zeros(len(y))
        for t in range(len(y)):
            x = dict(enumerate(X[t].tolist()))
            y_hat[t] = model.predict_one(x)
            model.learn_one(x, y[t])
        return y_hat

    return run
