"""Runs that tests of several reports share."""

import pytest

from omkl.runs.run_folder import Run


@pytest.fixture
def sweep(run_folder_maker, tmp_path):
    """Four data sets, Raker and GF with two M; one failure."""
    runs = []
    for dataset in ("airfoil", "bias", "concrete", "naval"):
        runs.append(run_folder_maker(tmp_path, "raker", dataset, n_seeds=2, level=0.02))
        for M in (5, 10):
            params = {"eta": "0.1/sqrt(t)", "M": M}
            runs.append(run_folder_maker(tmp_path, "gf", dataset, f"{M:08d}", params=params))
    failed = {"failed": True, "params": {"M": 90}}
    runs.append(run_folder_maker(tmp_path, "gf", "naval", "deadbeef", **failed))
    return [Run(folder) for folder in runs]
