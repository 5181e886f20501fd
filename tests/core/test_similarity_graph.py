"""The similarity graph of the first version: small cases by hand, and what holds for any."""

from __future__ import annotations

import numpy as np
import pytest

from omkl.core.feedback_graph import dominating_set, similarity_graph
from omkl.core.kernel_distance import overlaps, ranks
from omkl.core.kernels import Kernel

LINE = np.abs(np.subtract.outer([0.0, 1.0, 3.0, 7.0], [0.0, 1.0, 3.0, 7.0]))


def log(delta):
    with np.errstate(divide="ignore"):
        return np.log(delta)


def test_by_hand():
    assert similarity_graph(log(LINE), 2).tolist() == [[0, 1], [1, 0], [2, 1], [3, 2]]
    assert similarity_graph(log(LINE), 3).tolist() == [[0, 1, 2], [1, 0, 2], [2, 1, 0], [3, 2, 1]]
    assert dominating_set(similarity_graph(log(LINE), 2)).tolist() == [0, 3]


@pytest.mark.parametrize("d", [1, 5, 520])
@pytest.mark.parametrize("M", [1, 5, 30])
def test_threshold(d, M):
    """(11): no divergence left out is below one inside, and there are exactly M."""
    kernels = [Kernel("gaussian", 10.0 ** (b / 10)) for b in range(-20, 21)]
    kernels += [Kernel("laplacian", 10.0 ** (b / 3)) for b in range(-6, 7)]
    delta = ranks(overlaps(tuple(kernels), d))
    out = similarity_graph(overlaps(tuple(kernels), d), M)
    assert out.shape == (len(kernels), M)
    for i, row in enumerate(out):
        assert row[0] == i and len(set(row)) == M
        gamma = delta[i, row].max()
        left = np.setdiff1d(np.arange(len(kernels)), row)
        assert np.all(delta[i, left] >= gamma)


def test_extremes():
    np.testing.assert_array_equal(similarity_graph(log(LINE), 1), np.arange(4)[:, None])
    assert all(set(row) == set(range(4)) for row in similarity_graph(log(LINE), 4).tolist())


@pytest.mark.parametrize("M", [0, 5])
def test_refuses_an_impossible_number(M):
    with pytest.raises(ValueError, match="out-neighbours"):
        similarity_graph(log(LINE), M)


def test_copies_of_one_kernel():
    """The node itself is first even where copies come before it; then the smallest index."""
    same = np.full((3, 3), -np.inf)
    assert similarity_graph(same, 2).tolist() == [[0, 1], [1, 0], [2, 0]]
