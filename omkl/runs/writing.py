"""How a run folder is written: whole or not at all."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from omkl.runs import folder as run_folder
from omkl.runs.folder import Run
from omkl.runs.provenance import identity_of

PREDICTIONS = "predictions.parquet"


def folder_of(config: Mapping[str, Any]) -> Path:
    """Where the run of this configuration lives, relative to nothing but ``outputs``."""
    identity = identity_of(config)
    algorithm = str(identity.algorithm).replace("/", ".")  # no folder in between
    name = f"{algorithm}-{identity.key}"
    return Path(config["outputs"]) / "runs" / str(identity.dataset) / name


def is_complete(run: Run) -> bool:
    """Whether a finished result is there; what a power failure has cut off is none."""
    try:
        return run.complete and zipfile.is_zipfile(run.folder / "curves.npz")
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def writable(folder: Path) -> Iterator[None]:
    """The run folder, tried out before the first round; removed if nothing came into it."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
        yield
    finally:
        with contextlib.suppress(OSError):  # it holds something
            folder.rmdir()


@contextlib.contextmanager
def staging_folder(folder: Path) -> Iterator[Path]:
    """Where new files are made before they take the place of the old ones, all at once."""
    for left in folder.glob(".new-*"):  # by a process that was killed, not one at work
        if time.time() - left.stat().st_mtime > 3600:
            shutil.rmtree(left, ignore_errors=True)
    staging = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def replace_files(folder: Path, staging: Path) -> None:
    """Put the new files in place of the old ones; without result.json they count for nothing."""
    (folder / "result.json").unlink(missing_ok=True)
    for old in (*folder.glob("*.png"), *folder.glob("*.pdf"), *folder.glob(PREDICTIONS)):
        old.unlink()
    for new in sorted(staging.iterdir(), key=lambda path: path.name == "result.json"):
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
    config: Mapping[str, Any], result: Mapping[str, Any], curves: Mapping[str, np.ndarray]
) -> dict[str, bytes | str]:
    return {
        "config.yaml": run_folder.config_text(without_places(config)),
        "curves.npz": npz_bytes(curves),
        "results.parquet": _tidy(result),
        "result.json": run_folder.result_text(result),
    }


def _tidy(result: Mapping[str, Any]) -> bytes:
    """results.parquet: one row a seed."""
    import pyarrow as pa
    import pyarrow.parquet

    n = len(result["seeds"])
    columns: dict[str, list[Any]] = {
        name: [result[name]] * n
        for name in ("key", "algorithm", "dataset", "kernels", "n_rounds", "n_kernels", "D")
    }
    columns |= {f"algorithm.{k}": [v] * n for k, v in result["params"].items()}
    key = run_folder.measure(result).key
    columns |= {
        "seed": list(result["seeds"]),
        key: list(result[key]),
        "seconds": list(result["seconds_per_seed"]),
        "kernels_per_round": [result["kernels_per_round"]] * n,
        "labels": list(result["labels_per_seed"]),
    }
    sink = io.BytesIO()
    pa.parquet.write_table(pa.table(columns), sink)
    return sink.getvalue()
