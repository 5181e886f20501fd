"""Run folders: the truth about every experiment.

A run folder belongs to one resolved configuration. It is self-contained and
movable: nothing in it holds an absolute path, and tables, figures and the
MLflow view are all made from it.

    config.yaml      the resolved configuration
    result.json      status and every summary number (see below); written last
    results.parquet  one tidy row a seed
    curves.npz       arrays (see below)
    *.png, *.pdf     plots: mse, regret, weights, usage

``result.json``
    status            "complete" | "failed"; a run that was interrupted has no result.json
    key               hash of the settings that can change a number (``key_of``)
    algorithm, dataset, kernels      names, as typed
    n_rounds, n_inputs, n_kernels, D
    seeds             list of ints, one a repetition
    mse, mse_mean, mse_std           per seed (list); mean and sample standard
                                     deviation over the seeds (std is null for one seed)
    kernels_per_round mean number of kernels evaluated in a round
    deterministic     true for exact-kernel learners: nothing is drawn, one seed says all
    max_squared_error, max_kernel_squared_error, max_norm
                      largest squared error of a prediction and of a single evaluated
                      kernel, over rounds and seeds; largest norm of x
    labels            labels asked for, mean over the seeds
    seconds           wall time of streaming all seeds, without compilation
    seconds_per_seed  list: time inside the learner, summed over blocks
    regret            {comparator: {"label": .., "mean": .., "std": ..}} cumulative squared
                      error above the comparator's at the last round; or
                      {comparator: {"label": .., "skipped": reason}}
    params            the algorithm's parameters
    versions, machine, commit, numbers   what computed it; ``numbers`` stamps the
                      sources that can change a number
    started           ISO time, UTC
    In classification there are, in place of mse and regret,
    labels_of_classes what stands in the data for -1 and +1, or for each class
    mistakes          per seed, rounds whose class was not predicted
    error_rate, error_rate_mean, error_rate_std      mistakes a round, as for mse
    updates_per_kernel, support_size                 rounds in which a kernel's classifier
                      learned, and rows kept for all of them; means over seeds and kernels
    best_kernel       mistakes of the best kernel in hindsight, mean over the seeds, where
                      the learner's classifiers do not depend on each other; else null
    bound             {"theorem", "value" (null where nothing is promised), "minimum": [lower,
                      upper]}, see ``omkl.mistake_bounds``; or {"skipped": reason}; absent
                      without regret.mistake_bound
    error             {"type", "message", "traceback"} when failed; the traceback is null
                      where the message says all

``curves.npz`` (R seeds, P recorded rounds, N kernels)
    t                 (P,) rounds that are recorded, 1-based
    mse               (R, P) mean squared error of rounds 1..t
    regret_<name>     (R, P) cumulative squared error minus the comparator's
    weights           (R, N) expert weights after the last round, rows sum to 1
    usage             (R, N) rounds in which the kernel was evaluated
    kernel_family     (N,) "gaussian" | "laplacian" | "cauchy"
    kernel_bandwidth  (N,) bandwidths in the family's convention
    change_rounds     (C,) rounds at which the stream is known to change
    In classification error_rate (R, P), mistakes of rounds 1..t divided by t, in place of
    mse; updates, support (R, N), rounds in which a kernel's classifier learned and support
    vectors that it holds; bound (B,) after bound_t (B,) rounds of the first seed's order
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

# Settings that say how to run and where to put things, never what comes out.
NEUTRAL = ("threads", "tracking", "force", "progress", "outputs", "block", "figures", "fail_fast")


class Measure(NamedTuple):
    """What a run is judged by: key in result.json and curves.npz, words for it, and its unit."""

    key: str
    short: str
    long: str
    scale: float
    unit: str


MSE = Measure("mse", "MSE", "mean squared error", 1e3, " × 10⁻³")
ERROR_RATE = Measure("error_rate", "errors", "error rate", 1e2, ", %")


def measure(result: Mapping[str, Any]) -> Measure:
    """The mean squared error of a regression, the share of mistakes of a classification."""
    return ERROR_RATE if result.get("task") == "classification" else MSE


class Run:
    """One run folder, read lazily."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    def __repr__(self) -> str:
        return f"Run({self.folder.as_posix()!r})"

    @cached_property
    def result(self) -> dict[str, Any]:
        return json.loads((self.folder / "result.json").read_text(encoding="utf-8"))

    @cached_property
    def config(self) -> dict[str, Any]:
        from omegaconf import OmegaConf

        container = OmegaConf.to_container(OmegaConf.load(self.folder / "config.yaml"))
        assert isinstance(container, dict)
        return {str(k): v for k, v in container.items()}

    @cached_property
    def curves(self) -> dict[str, np.ndarray]:
        with np.load(self.folder / "curves.npz", allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}

    @property
    def complete(self) -> bool:
        return self.result.get("status") == "complete"


def find(outputs: Path) -> Iterator[Run]:
    """All run folders below ``outputs/runs``, in the order of their names."""
    for path in sorted((Path(outputs) / "runs").glob("*/*/result.json")):
        yield Run(path.parent)


def key_of(config: Mapping[str, Any]) -> str:
    """Eight hex digits naming the settings that can change a number."""
    relevant = {name: value for name, value in config.items() if name not in NEUTRAL}
    text = json.dumps(relevant, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def write_atomically(path: Path, data: bytes | str) -> None:
    """Write a file that is either there whole or not at all."""
    raw = data.encode() if isinstance(data, str) else data
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_result(folder: Path, result: Mapping[str, Any]) -> None:
    """Write ``result.json``; its presence with status "complete" ends a run."""
    text = json.dumps(result, indent=2, allow_nan=False, default=_plain)
    write_atomically(folder / "result.json", text + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"result.json cannot hold a {type(value).__name__}: {value!r}")
