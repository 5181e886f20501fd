"""The conformance suite of omkl, and what makes this algorithm different from others."""

from __future__ import annotations

import numpy as np
import pytest

from omkl.checks import learners, shared
from omkl.core.kernels import Kernel


@pytest.fixture(scope="module")
def case():
    return learners.Case("fixed_share")


@pytest.mark.parametrize("check", [*learners.cases("fixed_share")], ids=lambda check: check.name)
def test_conformance(case, check):
    outcome = shared.outcome(case, check)
    if outcome.status == "skipped":
        pytest.skip(outcome.reason)
    assert outcome.status != "failed", outcome.reason


def test_a_kernel_that_was_wrong_keeps_its_share(case):
    """Two kernels, of which one is always right: the other never falls below share / N."""
    learner = case.learner(dictionary=(Kernel("gaussian", 1.0), Kernel("gaussian", 2.0)), share=0.1)
    X = np.array([[0.5, 0.0, 0.0]])
    learner.state.model.omega[:] = 0.0  # cos = 1 and sin = 0: f_i = theta_i'(1, .., 1, 0, .., 0)
    theta = learner.state.model.theta  # sines, then cosines: in rows of packs of eight
    theta[1, theta.shape[1] // 2] = 1000.0
    learners.play(learner, X, np.zeros(1))
    w = np.exp(learner.state.log_w)
    np.testing.assert_allclose(w, [0.95, 0.05], rtol=1e-12)
