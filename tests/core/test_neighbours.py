"""The nearest rows are those that a stable sort of all distances puts first."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from omkl.core.representations import experts
from omkl.core.representations.experts import KEPT, NEAREST

ties = st.sampled_from([0.0, 1.0, 2.0, 1e300, np.inf])  # inputs of 1e200 are at inf from others


@example([np.inf] * 20)
@example([np.inf] * 8 + [1.0] * 3 + [np.inf] * 9)
@given(st.lists(ties | st.floats(0.0, 4.0), max_size=70))
def test_nearest_of_all(distances):
    scratch = experts.neighbours_scratch(experts.fresh_neighbours(1))
    n = len(distances)
    scratch.distance[:n] = distances
    found = experts._find(scratch, n)
    assert found == min(n, NEAREST)
    order = np.argsort(distances, kind="stable")
    assert list(scratch.nearest[:found]) == list(order[:found])


def test_rows_too_far_to_measure_count_nothing():
    model = experts.fresh_neighbours(2)
    scratch = experts.neighbours_scratch(model)
    for _ in range(20):
        experts.learn_neighbours(model, np.full(2, 1e200), 5.0, 1.0)
    with np.errstate(over="ignore"):
        experts.evaluate_neighbours(scratch, model, np.zeros(2))
    assert list(scratch.mean) == [0.0, 0.0]


@pytest.mark.parametrize(("n", "kept"), [(3, KEPT), (KEPT + 3, KEPT), (70, 64)])
def test_the_oldest_row_goes_first(n, kept):
    model = experts.fresh_neighbours(1, kept)
    scratch = experts.neighbours_scratch(model)
    for t in range(n):
        experts.learn_neighbours(model, np.array([float(t)]), float(t), 0.0)
    experts.evaluate_neighbours(scratch, model, np.zeros(1))
    nearest = np.arange(max(0, n - kept), n)[:NEAREST].astype(float)
    weights = 1.0 / (nearest**2 + experts.CLOSE) ** 2
    assert scratch.mean[0] == pytest.approx(weights @ nearest / weights.sum(), rel=1e-12)
