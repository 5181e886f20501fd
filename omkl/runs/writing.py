"""Write run folders, whole or not at all, and find the finished run of a configuration.

``predictions.parquet``, what was predicted for every row beside its target, grows while a run goes
on (``Predictions``, ``PredictedClasses``).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl.runs import run_folder
from omkl.runs.provenance import CHANGES, identity_of, settings_sha256
from omkl.runs.run_folder import Run
from omkl.runs.schema import LABELS, RESULT, sha256_of
from omkl.utils import conf, disk

PREDICTIONS, MODEL = "predictions.parquet", "model.npz"


def folder_of(config: Mapping[str, Any]) -> Path:
    """Where the run of this configuration lives, relative to nothing but ``outputs``.

    That of an own file lies where it was begun, even if the file had another name then.
    """
    identity = identity_of(config)
    algorithm = str(identity.algorithm).replace("/", ".")  # no folder in between
    runs, name = Path(config["outputs"]) / "runs", f"{algorithm}-{identity.key}"
    folder = runs / str(identity.dataset) / name
    if not {"path", "sha256"} <= config["dataset"].keys() or (folder / RESULT).exists():
        return folder
    content = config["dataset"]["sha256"][:4]  # as the names of such data sets end
    return min((path.parent for path in runs.glob(f"*-{content}/{name}/{RESULT}")), default=folder)


def is_complete(run: Run) -> bool:
    """Whether a finished result is there, whole; what is damaged or cut off is none."""
    try:
        return run.problem is None and run.complete
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def staging_folder(folder: Path) -> Iterator[Path]:
    """Where new files are made before they take the place of the old ones, all at once.

    The run folder around it is removed if nothing came into it.
    """
    prefix = f"{disk.STAGING}{disk.owner()}-"
    with disk.with_path_in_error(folder):
        for attempt in range(20):  # a process that is interrupted may just remove the folder
            folder.mkdir(parents=True, exist_ok=True)
            try:
                staging = Path(tempfile.mkdtemp(prefix=prefix, dir=folder))
                break
            except FileNotFoundError:
                if attempt == 19:
                    raise
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        with contextlib.suppress(OSError):  # it holds something
            folder.rmdir()


def write_together(folder: Path, files: Mapping[str, bytes | str | Path]) -> None:
    """Write files into a folder that nobody reads yet, with one wait for the disk.

    A path is that of a file that has grown there under its name. They are on the disk when this
    returns.
    """
    opened = []
    for name, data in files.items():
        file = open(folder / name, "r+b" if isinstance(data, Path) else "wb")  # noqa: SIM115
        opened.append(file)
        if not isinstance(data, Path):
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
    for file in opened:
        with file:
            os.fsync(file.fileno())


def replace_files(folder: Path, staging: Path) -> None:
    """Put the new files in place of the old ones; without result.json they count for nothing.

    What other code has computed stays as ``result.STAMP.json``.
    """
    with disk.exclusive_lock(folder):
        _keep_result_of_other_code(folder, staging)
        (folder / RESULT).unlink(missing_ok=True)
        besides = (folder / PREDICTIONS, folder / MODEL, folder / CHANGES)
        for old in (*folder.glob("*.png"), *folder.glob("*.pdf"), *filter(Path.exists, besides)):
            old.unlink()
        for new in sorted(staging.iterdir(), key=lambda path: path.name == RESULT):
            os.replace(new, folder / new.name)


def _keep_result_of_other_code(folder: Path, staging: Path) -> None:
    try:
        old, new = Run(folder), Run(staging)
        stamp = old.result.get("numbers") or old.digest[: run_folder.KEY_DIGITS]
        if old.complete and stamp != new.result.get("numbers"):
            os.replace(folder / RESULT, folder / f"result.{stamp}.json")
    except (OSError, ValueError):  # there is none, or it is damaged
        return


def add_figures(run: Run, staging: Path) -> bool:
    """Put new figures beside those that there are; False where the run is another by now."""
    with disk.exclusive_lock(run.folder):
        if not _is_there(run):
            return False
        for new in staging.iterdir():
            os.replace(new, run.folder / new.name)
    return True


def write_failure(run: Run) -> None:
    """Write result and configuration of a failed run, unless a finished one is there."""
    with staging_folder(run.folder), disk.exclusive_lock(run.folder):
        if is_complete(Run(run.folder)):
            return
        text = conf.config_text(run.config)
        disk.write_atomically(run.folder / "config.yaml", text)
        run_folder.write_result(run.folder, run.content)


def _is_there(run: Run) -> bool:
    """Whether the folder still holds the result that was read."""
    try:
        return Run(run.folder).digest == run.digest
    except OSError:
        return False


def without_places(config: Mapping[str, Any]) -> dict[str, Any]:
    # Where results go and how they are shown is no part of the run: the folder can move.
    return {k: v for k, v in config.items() if k not in ("outputs", "force", "fail_fast")}


def files_of_run(
    config: Mapping[str, Any],
    result: Mapping[str, Any],
    curves: Mapping[str, np.ndarray],
    kept: Mapping[str, bytes | Path],
) -> dict[str, bytes | str | Path]:
    """The files of a finished run by name, ``result.json`` last, sealed with the others.

    ``kept``   what it keeps besides, by name; a path is that of a file in the staging folder.
    """
    files: dict[str, bytes | str | Path] = {
        "config.yaml": conf.config_text(without_places(config)),
        "curves.npz": disk.npz_bytes(curves),
        "results.parquet": _tidy(result),
    }
    files |= kept
    digests = {name: sha256_of(data) for name, data in files.items()}
    labels = folder_of(config) / LABELS
    if labels.exists():
        digests[LABELS] = sha256_of(labels)
    return files | {RESULT: run_folder.result_text(result, digests)}


def _tidy(result: Mapping[str, Any]) -> bytes:
    """results.parquet: one row a seed."""
    import pyarrow as pa
    import pyarrow.parquet

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
    pa.parquet.write_table(pa.table(columns), sink)
    return sink.getvalue()


def _cell(value: Any) -> Any:
    """A parameter as a column can hold it: large numbers, lists and mappings as text."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
        return str(value)
    return json.dumps(value, default=str) if isinstance(value, Mapping | list | tuple) else value


class FinishedRun(NamedTuple):
    """The finished run of exactly these settings, if there is one, and notes for the user."""

    run: Run | None
    notes: list[str]


def find_finished(config: Mapping[str, Any]) -> FinishedRun:
    """Look for the run of a resolved configuration; what killed processes left there is removed.

    What is damaged, or of other settings, is told and not believed.
    """
    folder = folder_of(config)
    disk.remove_leftovers(folder)
    run = Run(folder)
    try:
        problem = run.problem
    except (FileNotFoundError, NotADirectoryError):
        return FinishedRun(None, [])
    if problem is not None:
        return FinishedRun(None, [f"{folder.name} is damaged ({problem}): computed anew"])
    if not run.complete:
        return FinishedRun(None, [])
    if run.result.get("settings_sha256") != settings_sha256(config):
        why = f"{folder.name} holds the results of other settings: computed anew"
        return FinishedRun(None, [why])
    return FinishedRun(run, [])


KINDS = {float: "float64", int: "int64", bool: "bool_", str: "string"}


class _Table:
    """A Parquet file as it grows, compressed; columns by name and kind."""

    def __init__(self, path: Path, columns: Mapping[str, type]) -> None:
        import pyarrow as pa  # takes a while, and a run with many seeds has no use for it
        import pyarrow.parquet as pq

        self._pa, self._path = pa, path
        kinds = [(name, getattr(pa, KINDS[kind])()) for name, kind in columns.items()]
        self._schema = pa.schema(kinds)
        self._writer = pq.ParquetWriter(str(path), self._schema)

    def write(self, columns: Mapping[str, Any]) -> None:
        """Rows: an array (n,) for each column, NaN and None where not known; others are left."""
        arrays = [
            self._pa.array(columns[field.name], field.type, from_pandas=True)
            for field in self._schema
        ]
        with disk.with_path_in_error(self._path):
            self._writer.write_table(self._pa.table(arrays, schema=self._schema))

    def finished(self) -> Path:
        """The file, whole."""
        with disk.with_path_in_error(self._path):
            self._writer.close()
        return self._path


class Predictions(_Table):
    """What was said of the rows of a regression: about 20 bytes a row and seed.

    Columns: ``seed`` where there are several, ``row`` in the file, from 1, ``key`` of the row in a
    panel, a whole number or a text (``key_type``), ``y`` (null where there is no target or nobody
    was asked for it), ``y_hat``, ``asked``, ``spread`` of a learner that has one, and ``low`` and
    ``high`` of an interval where there is one (null where not known).
    """

    def __init__(
        self,
        path: Path,
        seeds: Sequence[int],
        has_spread: bool,
        has_interval: bool = False,
        key_type: type | None = None,
    ) -> None:
        columns: dict[str, type] = {"seed": int} if len(seeds) > 1 else {}
        columns |= {"row": int} | ({"key": key_type} if key_type else {})
        columns |= {"y": float, "y_hat": float, "asked": bool}
        columns |= {"spread": float} if has_spread else {}
        columns |= {"low": float, "high": float} if has_interval else {}
        super().__init__(path, columns)
        self._seeds = seeds

    def add(
        self,
        rows: np.ndarray,
        y: np.ndarray,
        y_hat: np.ndarray,
        asked: np.ndarray,
        spread: np.ndarray,
        half: np.ndarray,
        keys: np.ndarray | None = None,
    ) -> None:
        """A block: rows, y and keys (n,), the others (R, n); NaN where not known."""
        for r, seed in enumerate(self._seeds):
            columns = {"seed": np.full(len(y), seed), "row": rows, "y": y, "y_hat": y_hat[r]}
            columns |= {"key": keys, "asked": asked[r], "spread": spread[r]}
            columns |= {"low": y_hat[r] - half[r], "high": y_hat[r] + half[r]}
            self.write(columns)


class PredictedClasses(_Table):
    """What a seed's learners said of the rows of a classification.

    Columns: ``seed`` where there are several, ``row`` in the file, from 1, ``y`` and ``y_hat``, the
    class and the predicted one as texts (null where nothing was said: a score of 0 of two classes),
    and ``score``: of two classes what was said, of more the largest that was.
    """

    def __init__(self, path: Path, classes: Sequence[Any], seed: int | None) -> None:
        columns: dict[str, type] = {} if seed is None else {"seed": int}
        columns |= {"row": int, "y": str, "y_hat": str, "score": float}
        super().__init__(path, columns)
        self._seed = seed
        self._classes = np.array([str(label) for label in classes], dtype=object)

    def add(self, rows: np.ndarray, y: np.ndarray, y_hat: np.ndarray) -> None:
        """A block of rows (n,): y and y_hat as ``metrics.mistaken`` takes them."""
        if y_hat.ndim == 1:
            score = y_hat
            meant, true = (score > 0.0).astype(int), (y > 0.0).astype(int)
            labels = np.where(score == 0.0, None, self._classes[meant])
        else:
            score, true = y_hat.max(axis=1), y.astype(int)
            labels = self._classes[y_hat.argmax(axis=1)]
        columns = {"row": rows, "y": self._classes[true], "y_hat": labels, "score": score}
        self.write({"seed": np.full(len(y), self._seed), **columns})


def joined(parts: Sequence[Path], path: Path) -> Path:
    """The rows of the files ``parts``, one after another, in ``path``; the parts are removed."""
    import pyarrow.parquet as pq

    with disk.with_path_in_error(path):
        with pq.ParquetWriter(str(path), pq.read_schema(parts[0])) as writer:
            for part in parts:
                with pq.ParquetFile(part) as file:
                    for k in range(file.num_row_groups):
                        writer.write_table(file.read_row_group(k))
        for part in parts:
            part.unlink()
    return path
