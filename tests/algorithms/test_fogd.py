"""FOGD against its paper's code in plain NumPy, with the same features."""

import math

import numpy as np
import pytest

from omkl.checks.learners import Case, stream

T = 300
X, Y = stream(T)


@pytest.mark.parametrize("tolerance", [0.0, 0.2])
def test_fogd(tolerance):
    """Features cos, sin without a factor, and the step that makes up for it."""
    ours = Case("fogd").learner(3, eta="0.4/sqrt(t)", tolerance=tolerance, bandwidth=0.7)
    angle = X @ ours.state.model.omega[0]
    z = np.hstack([np.cos(angle), np.sin(angle)])
    w, y_hat, n_steps = np.zeros(z.shape[1]), np.empty(T), 0
    for t in range(T):
        y_hat[t] = w @ z[t]
        delta = Y[t] - y_hat[t]
        if abs(delta) > tolerance:
            w = w + 0.4 / math.sqrt(t + 1) / angle.shape[1] * delta * z[t]
            n_steps += 1
    np.testing.assert_allclose(ours.partial_fit(X, Y).y_hat, y_hat, rtol=0, atol=1e-11)
    assert (n_steps < T) == (tolerance > 0.0) and np.ptp(y_hat) > 0.2
