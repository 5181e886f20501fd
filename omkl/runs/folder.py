"""Run folders: the truth about every experiment.

A run folder belongs to one resolved configuration. It is self-contained and
movable: nothing in it holds an absolute path, and tables, figures and the
MLflow view are all made from it.

    config.yaml      the resolved configuration
    result.json      status and every summary number (see below); written last
    results.parquet  one tidy row a seed
    predictions.parquet   row in the file, y, y_hat, asked (and seed, where there are several);
                     with one seed, or where predictions=true asks for it
    labels.csv       row and label, as they came, where labels come from outside
    curves.npz       arrays (see below)
    *.png, *.pdf     plots: mse, regret, weights, usage; labels where some were not asked for

``result.json``
    status            "complete" | "failed"; a run that was interrupted has no result.json
    key               hash of the settings that can change a number (``key_of``)
    algorithm, dataset, kernels      names, as typed
    n_rounds, n_inputs, n_kernels, D
    seeds             list of ints, one a repetition
    rows_without_target              rows that were predicted and not scored, in a regression
    mse, mse_mean, mse_std           per seed (list); mean and sample standard
                                     deviation over the seeds (std is null for one seed)
    kernels_per_round mean number of kernels evaluated in a round
    deterministic     true for exact-kernel learners: nothing is drawn, one seed says all
    target_unit       how much of the target is 1 in the scale of the stream, in which mse is
    rmse, mae, r2     root mean squared and mean absolute error in units of the target, and 1 -
                      MSE over the variance of the labels (null where they are all the same):
                      means over the seeds, over the rounds that ``mse_over`` names
    baselines         {"mean" | "last" | "ridge": {"rmse", "mae", "mse" (in the scale of the
                      stream)} or {"skipped": reason}}: what forecasters without a kernel make of
                      every label that the data have (``omkl.experiment.baselines``)
    max_squared_error, max_kernel_squared_error, max_norm
                      largest squared error of a prediction and of a single evaluated
                      kernel (null where it has overflowed), over rounds and seeds; largest
                      norm of x. With stream.scaling=columns mse and all squared errors are in
                      the target's units, but a kernel's in those that the learner is told
                      labels in (``omkl.datasets.stream``)
    mse_over          "all rounds", or "rounds with a label" where labels come from outside
                      (``omkl.datasets.label_sources``) and no others are known; regret is
                      skipped then. With stream.scaling=columns " but the first" follows: it
                      counts for nobody, and curves begin with the second round
    labels, labels_per_seed
                      labels asked for: mean over the seeds, list
    al_efficiency, al_efficiency_std
                      labels over rounds: mean and sample standard deviation over the seeds;
                      1 for a learner that asks always
    mse_per_label     MSE of all rounds over the number of labels, mean over the seeds
    seconds           wall time of streaming all seeds, without compilation
    seconds_per_seed  list: time inside the learner, summed over blocks
    regret            {comparator: {"label": .., "mean": .., "std": ..}} cumulative squared
                      error above the comparator's at the last round; or
                      {comparator: {"label": .., "skipped": reason}}; {} where what the
                      learner weighs are no kernels
    spread            of a learner whose predictions have one, scored as normal distributions:
                      {"log_loss", "coverage_50", "coverage_90", "width_90",
                      "interval_score_90"}, means over seeds and the rounds whose spread is
                      known, in the unit of mse; else absent (``omkl.experiment.spread``);
                      and "windows": {"until": last rounds, "coverage_50", "coverage_90"}, of
                      up to ten windows, null where no spread is known
    params            the algorithm's parameters
    versions, machine, commit, numbers   what computed it; ``numbers`` stamps the
                      sources that can change a number
    started           ISO time, UTC
    In classification there are, in place of mse and regret,
    labels_of_classes what stands in the data for -1 and +1, or for each class
    mistakes          per seed, rounds whose class was not predicted
    error_rate, error_rate_mean, error_rate_std      mistakes a round, as for mse
    baselines         {"constant" (the most frequent class so far) | "last" | "ridge" (on -1 and
                      +1, one class against the rest): {"error_rate"} or {"skipped": reason}}
    updates_per_kernel, support_size                 rounds in which a kernel's classifier
                      learned, and rows kept for all of them; means over seeds and kernels
    best_kernel       mistakes of the best online kernel, mean over the seeds,
                      where the classifiers do not depend on each other; else null
    bound             {"theorem", "value" (null where nothing is promised), "minimum": [lower,
                      upper], "unproved": what its proof lacks or null, "further": other
                      statements, [{"name", "of": "mistakes" or "updates", "value", "measured"
                      (updates: mean over the seeds), "beta" (corollary 4: the one it is about,
                      mean over the seeds)}]}, see ``omkl.theory.mistake_bounds``; or
                      {"skipped": reason}; absent without regret.mistake_bound
    error             {"type", "message", "traceback"} when failed; the traceback is null
                      where the message says all

``curves.npz`` (R seeds, P recorded rounds, N kernels)
    t                 (P,) rounds that are recorded, 1-based
    mse               (R, P) mean squared error of rounds 1..t, with or without a label
    labels            (R, P) labels asked for in rounds 1..t
    coverage_50, coverage_90   (R, P) share of rounds 1..t whose label was in the interval of
                      50 and 90 %, of those whose spread is known; NaN before the first
    recent_t, recent_y, recent_y_hat, recent_spread   (up to 120,) the last rounds of the first
                      seed: label, prediction and its spread, NaN where it is not known
    regret_<name>     (R, P) cumulative squared error minus the comparator's
    baseline_<name>   (P,) mean squared error of a baseline in rounds 1..t, in classification
                      its error rate, the mean over the seeds
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

import functools
import hashlib
import json
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple

import numpy as np

# Settings that say how to run and where to put things, never what comes out.
NEUTRAL = (
    "threads", "tracking", "force", "progress", "outputs", "block", "figures", "predictions",
    "fail_fast",
)  # fmt: skip


class Measure(NamedTuple):
    """What a run is judged by: key in result.json and curves.npz, words for it, and its unit."""

    key: str
    short: str
    long: str
    scale: float
    unit: str


MSE = Measure("mse", "MSE", "mean squared error", 1e3, " × 10⁻³")
LARGE_MSE = 10.0  # from here on it is not printed in units of 10^-3
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
        return read_config((self.folder / "config.yaml").read_text(encoding="utf-8"))

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


def write_atomically(path: Path, data: bytes | str, sync: bool = True) -> None:
    """Write a file that is either there whole or not at all, with ``sync`` on the disk as well."""
    raw = data.encode() if isinstance(data, str) else data
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(raw)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_together(folder: Path, files: Mapping[str, bytes | str]) -> None:
    """Write files into a folder that nobody reads yet, with one wait for the disk.

    They are on the disk when this returns, or soon after ``Syncing.in_background``.
    """
    opened = []
    for name, data in files.items():
        file = open(folder / name, "wb")  # noqa: SIM115
        opened.append(file)
        file.write(data.encode() if isinstance(data, str) else data)
        file.flush()
    Syncing.do(opened)


class Syncing:
    """How new files get from the system's memory to the disk.

    Only a power failure tells the difference, so the jobs of a batch go on meanwhile.
    """

    _pool: ThreadPoolExecutor | None = None
    _under_way: ClassVar[deque[Future[None]]] = deque()
    _MOST = 16  # folders

    @classmethod
    def in_background(cls) -> None:
        cls._pool = ThreadPoolExecutor(1)

    @classmethod
    def do(cls, files: Sequence[IO[bytes]]) -> None:
        if cls._pool is None:
            _sync(files)
            return
        cls._under_way.append(cls._pool.submit(_sync, files))
        if len(cls._under_way) > cls._MOST:
            cls._under_way.popleft().result()

    @classmethod
    def finish(cls) -> None:
        while cls._under_way:
            cls._under_way.popleft().result()


def _sync(files: Sequence[IO[bytes]]) -> None:
    for file in files:
        with file:
            os.fsync(file.fileno())


def write_result(folder: Path, result: Mapping[str, Any]) -> None:
    """Write ``result.json``; its presence with status "complete" ends a run."""
    write_atomically(folder / "result.json", result_text(result))


def result_text(result: Mapping[str, Any]) -> str:
    return json.dumps(result, indent=2, allow_nan=False, default=_plain) + "\n"


def config_text(config: Mapping[str, Any]) -> str:
    """The text of ``config.yaml``: what OmegaConf would write, 30 times as fast."""
    import yaml

    style = {"default_flow_style": False, "allow_unicode": True, "sort_keys": False}
    return yaml.dump(dict(config), Dumper=_dumper(), **style)


def read_config(text: str) -> dict[str, Any]:
    """The content of a ``config.yaml``: what OmegaConf would read, 20 times as fast."""
    import yaml

    return {str(k): v for k, v in yaml.load(text, Loader=_loader()).items()}


@functools.cache
def _loader() -> Any:
    import yaml
    from omegaconf._utils import get_yaml_loader

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    # What is a number and what is text, where OmegaConf differs from YAML.
    rules = get_yaml_loader().yaml_implicit_resolvers
    return type("Loader", (base,), {"yaml_implicit_resolvers": rules})


@functools.cache
def _dumper() -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(base):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: Any, value: str) -> Any:
        # OmegaConf reads 1e-3 as a number, which YAML itself does not.
        style = "'" if _is_number(value) or value.lower() in _YAML_BOOLEANS else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return Dumper


_YAML_BOOLEANS = ("y", "yes", "n", "no", "on", "off", "true", "false")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"result.json cannot hold a {type(value).__name__}: {value!r}")
