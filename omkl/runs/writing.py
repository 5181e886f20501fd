"""How a run folder is written: whole or not at all."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from omkl import disk
from omkl.runs import config_file
from omkl.runs import folder as run_folder
from omkl.runs.folder import Run
from omkl.runs.provenance import identity_of
from omkl.runs.seal import LABELS, RESULT, sha256_of

fcntl: Any
try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

PREDICTIONS = "predictions.parquet"


def folder_of(config: Mapping[str, Any]) -> Path:
    """Where the run of this configuration lives, relative to nothing but ``outputs``."""
    identity = identity_of(config)
    algorithm = str(identity.algorithm).replace("/", ".")  # no folder in between
    name = f"{algorithm}-{identity.key}"
    return Path(config["outputs"]) / "runs" / str(identity.dataset) / name


def is_complete(run: Run) -> bool:
    """Whether a finished result is there, whole; what is damaged or cut off is none."""
    try:
        return run.problem is None and run.complete
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def writable(folder: Path) -> Iterator[None]:
    """The run folder, tried out before the first round; removed if nothing came into it.

    Another process that computes the same run makes it again when it writes.
    """
    _made(folder, lambda: tempfile.TemporaryFile(dir=folder).close())
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # it holds something
            folder.rmdir()


@contextlib.contextmanager
def staging_folder(folder: Path) -> Iterator[Path]:
    """Where new files are made before they take the place of the old ones, all at once."""
    prefix = f"{disk.STAGING}{disk.owner()}-"
    staging = Path(_made(folder, lambda: tempfile.mkdtemp(prefix=prefix, dir=folder)))
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


T = TypeVar("T")


def _made(folder: Path, make: Callable[[], T]) -> T:
    """What ``make`` makes in a folder that a process which was interrupted may just remove."""
    for _ in range(20):
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            return make()
    return make()


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Of processes that finish the same run one puts its files in place at a time.

    Where the file system has no locks, files of two could mix; the seal tells it.
    """
    with contextlib.ExitStack() as held:
        if fcntl is not None:
            descriptor = os.open(folder, os.O_RDONLY)
            held.callback(os.close, descriptor)
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def replace_files(folder: Path, staging: Path) -> None:
    """Put the new files in place of the old ones; without result.json they count for nothing."""
    with alone(folder):
        (folder / RESULT).unlink(missing_ok=True)
        for old in (*folder.glob("*.png"), *folder.glob("*.pdf"), *folder.glob(PREDICTIONS)):
            old.unlink()
        for new in sorted(staging.iterdir(), key=lambda path: path.name == RESULT):
            os.replace(new, folder / new.name)


def add_files(folder: Path, staging: Path) -> None:
    """Put new files beside those that there are."""
    for new in staging.iterdir():
        os.replace(new, folder / new.name)


def npz_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    # Not compressed: curves are noise in all but the first digits, 15 % is all there is to gain.
    buffer = io.BytesIO()
    np.savez(buffer, **dict(arrays))  # type: ignore[arg-type]
    return buffer.getvalue()


def held_in_memory(folder: Path, **known: Any) -> Run:
    """A run whose result, curves or configuration are held in memory."""
    run = Run(folder)
    run.__dict__.update(known)
    return run


def without_places(config: Mapping[str, Any]) -> dict[str, Any]:
    # Where results go and how they are shown is no part of the run: the folder can move.
    return {k: v for k, v in config.items() if k not in ("outputs", "force", "fail_fast")}


def files_of_run(
    config: Mapping[str, Any],
    result: Mapping[str, Any],
    curves: Mapping[str, np.ndarray],
    predictions: bytes | None,
) -> dict[str, bytes | str]:
    """The files of a finished run by name, ``result.json`` last, sealed with the others."""
    files: dict[str, bytes | str] = {
        "config.yaml": config_file.config_text(without_places(config)),
        "curves.npz": npz_bytes(curves),
        "results.parquet": _tidy(result),
    }
    if predictions is not None:
        files[PREDICTIONS] = predictions
    digests = {name: sha256_of(data) for name, data in files.items()}
    labels = folder_of(config) / LABELS
    if labels.exists():
        digests[LABELS] = sha256_of(labels.read_bytes())
    return files | {RESULT: run_folder.result_text(result, digests)}


def _tidy(result: Mapping[str, Any]) -> bytes:
    """results.parquet: one row a seed."""
    import pyarrow.parquet  # takes a while

    from omkl.runs import parquet

    n = len(result["seeds"])
    columns: dict[str, list[Any]] = {
        name: [result[name]] * n
        for name in ("key", "algorithm", "dataset", "kernels", "n_rounds", "n_kernels", "D")
    }
    columns |= {f"algorithm.{k}": [_cell(v)] * n for k, v in result["params"].items()}
    key = run_folder.measure(result).key
    columns |= {
        "seed": list(result["seeds"]),
        key: list(result[key]),
        "seconds": list(result["seconds_per_seed"]),
        "kernels_per_round": [result["kernels_per_round"]] * n,
        "labels": list(result["labels_per_seed"]),
    }
    sink = io.BytesIO()
    table = parquet.table({name: parquet.column(values) for name, values in columns.items()})
    pyarrow.parquet.write_table(table, sink)
    return sink.getvalue()


def _cell(value: Any) -> Any:
    """A parameter as a column can hold it: large numbers, lists and mappings as text."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
        return str(value)
    return json.dumps(value, default=str) if isinstance(value, Mapping | list | tuple) else value
