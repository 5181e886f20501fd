"""Shared fixtures."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest


def make_run_folder(
    outputs: Path,
    algorithm: str = "raker",
    dataset: str = "airfoil",
    key: str = "00000000",
    n_rounds: int = 400,
    n_seeds: int = 3,
    level: float = 0.03,
    failed: bool = False,
    params: dict | None = None,
) -> Path:
    """A run folder in the format of ``omkl.runs.folder`` with invented numbers."""
    rng = np.random.default_rng(abs(hash((algorithm, dataset))) % 2**32)
    folder = outputs / "runs" / dataset / f"{algorithm}-{key}"
    folder.mkdir(parents=True)
    params = params or {"eta": "0.1/sqrt(t)", "lam": 1e-3}
    config = f"algorithm:\n  name: {algorithm}\n  lam: 0.001\ndataset:\n  name: {dataset}\n"
    config += f"D: 50\nseeds: {n_seeds}\nseed: 0\n"
    (folder / "config.yaml").write_text(config)
    base = {
        "status": "failed" if failed else "complete",
        "key": key,
        "algorithm": algorithm,
        "dataset": dataset,
        "kernels": "rbf51_lap25",
        "params": params,
        "started": "2026-01-01T00:00:00+00:00",
        "versions": {"omkl": "0.1.0", "numpy": "2.4.6"},
        "machine": {"processor": "test", "cores": 2},
        "commit": "abc1234",
        "numbers": "feedbeef",
    }
    if failed:
        base["error"] = {
            "type": "ValueError",
            "message": "algorithm.M=90 is larger than N=76",
            "traceback": "Traceback (most recent call last): ...",
        }
        (folder / "result.json").write_text(json.dumps(base))
        return folder
    t = np.arange(1, n_rounds + 1)
    squared = level * rng.exponential(size=(n_seeds, n_rounds)) * (1 + 5 / np.sqrt(t))
    mse = np.cumsum(squared, axis=1) / t
    family = np.array(["gaussian"] * 51 + ["laplacian"] * 25)
    bandwidth = np.concatenate(
        [10.0 ** ((2 * np.arange(1, 52) - 52) / 25), 10.0 ** ((np.arange(1, 26) - 13) / 6)]
    )
    weights = rng.dirichlet(np.full(76, 0.3), size=n_seeds)
    usage = rng.integers(0, n_rounds, size=(n_seeds, 76))
    regret = np.cumsum(squared - 0.6 * level, axis=1)
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        t=t,
        mse=mse,
        labels=np.tile(t, (n_seeds, 1)),
        regret_ridge_features=regret,
        weights=weights,
        usage=usage,
        kernel_family=family,
        kernel_bandwidth=bandwidth,
        change_rounds=np.array([], dtype=np.int64),
    )
    (folder / "curves.npz").write_bytes(buffer.getvalue())
    import pandas as pd

    pd.DataFrame(
        {"algorithm": algorithm, "dataset": dataset, "seed": range(n_seeds), "mse": mse[:, -1]}
    ).to_parquet(folder / "results.parquet")
    base |= {
        "n_rounds": n_rounds,
        "n_inputs": 5,
        "n_kernels": 76,
        "D": 50,
        "seeds": list(range(n_seeds)),
        "mse": mse[:, -1].tolist(),
        "mse_mean": float(mse[:, -1].mean()),
        "mse_std": float(mse[:, -1].std(ddof=1)) if n_seeds > 1 else None,
        "kernels_per_round": 76.0,
        "labels": float(n_rounds),
        "labels_per_seed": [n_rounds] * n_seeds,
        "al_efficiency": 1.0,
        "al_efficiency_std": 0.0 if n_seeds > 1 else None,
        "mse_per_label": float(mse[:, -1].mean() / n_rounds),
        "seconds": 0.5,
        "seconds_per_seed": [0.2] * n_seeds,
        "regret": {
            "ridge_features": {
                "label": "best kernel in hindsight (ridge regression on its random features)",
                "mean": float(regret[:, -1].mean()),
                "std": float(regret[:, -1].std()),
            },
            "kernel_ridge": {
                "label": "best kernel in hindsight (kernel ridge regression)",
                "skipped": "400 rounds are more than regret.kernel_ridge_rounds=200",
            },
        },
    }
    (folder / "result.json").write_text(json.dumps(base))
    return folder


@pytest.fixture
def run_folder_maker():
    return make_run_folder
