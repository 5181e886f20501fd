"""Settings found by search: the graph that they lead to, and two published numbers from them."""

from __future__ import annotations

import numpy as np
import pytest

from omkl import algorithms, conf
from omkl.algorithms.as_released import released_divergence
from omkl.core import hyperparameters, kernels
from omkl.core.graphs import dissimilarity_graph
from omkl.core.learner import Learner
from omkl.datasets import catalogue, download, open_stream


@pytest.mark.parametrize("M", [1, 5, 10, 15, 20])
def test_jmlr_graph_is_the_node_and_the_narrowest_gaussians(M):
    some = kernels.dictionary(conf.entry("kernels", "rbf51_lap25"))
    out = dissimilarity_graph(released_divergence(some, -0.5, 0.5), M, logs=False)
    for i, row in enumerate(out):
        assert sorted(row) == sorted([i, *[j for j in range(M) if j != i][: M - 1]])


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "dictionary", "dataset", "published"),
    [
        ("sfg", "rbf51_lap25", "airfoil", 32.49),
        ("sfg_r", "rbf51_lap25", "airfoil", 33.99),
        ("sfg_mkl", "rbf41", "concrete", 21.56),
        ("sfg_mkl_r", "rbf41", "airfoil", 12.81),
        ("gf_v1", "rbf41", "concrete", 40.69),
    ],
)
def test_published_number(name, dictionary, dataset, published):
    cfg = catalogue.entry(dataset)
    if download.locate(cfg["file"]) is None:
        pytest.skip(f"{cfg['file']} is in no data folder; runs where the data are found")
    stream = open_stream(cfg, {"limit": None, "scaling": "whole", "order": "file"})
    X, y = next(iter(stream.blocks(stream.n_rounds)))
    settings = conf.entry("algorithm", f"recovered/{name}")
    some = kernels.dictionary(conf.entry("kernels", dictionary))
    algorithm = algorithms.load(settings.pop("name"))
    built = hyperparameters.build(algorithm.Params, settings, len(y), {"N": len(some), "D": 50})
    mse = []
    for seed in range(8):
        trace = Learner(algorithm, built, some, X.shape[1], 50, seed).partial_fit(X, y)
        mse.append(np.mean(np.square(trace.y_hat - y)))
    assert 1e3 * np.mean(mse) == pytest.approx(published, rel=0.05)
