"""Write run folders.

The files are written to a temporary folder, which is renamed when it is complete.
``predictions.parquet`` is written block by block during a run, by ``PredictedNumbers`` or
``PredictedClasses``.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl.runs import run_folder
from omkl.runs.run_folder import CHECKSUMS, CONFIG, CURVES, RESULT, Run
from omkl.utils import disk

if TYPE_CHECKING:
    from omkl.config.schema import Settings

PREDICTIONS, MODEL = "predictions.parquet", "model.npz"


def folder_of(settings: Settings, stamp: str) -> Path:
    """Return the folder of the run with these settings, code and data.

    If the user's file had another name in an earlier run, return the folder of that earlier run.
    """
    runs, named = settings.outputs / "runs", f"{settings.name}-{stamp}"
    return min(runs.glob(f"*/{named}"), default=runs / str(settings.dataset["name"]) / named)


@contextlib.contextmanager
def staging_folder(folder: Path) -> Iterator[Path]:
    """Create a temporary folder next to ``folder``, and finally remove it unless it was renamed.

    Temporary folders of killed processes are removed after a day.
    """
    staging = disk.temporary_name(folder)
    with disk.with_path_in_error(folder):
        staging.mkdir(parents=True)
        disk.remove_abandoned(folder.parent)
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def publish(
    staging: Path, folder: Path, files: Mapping[str, bytes | str], replace: bool = False
) -> None:
    """Write files to ``staging``, and rename it to ``folder`` when all files are on the disk.

    If another process has published the same run, ``folder`` stays as it is, and ``staging`` is not
    used.

    Parameters
    ----------
    staging
        Temporary folder. It may contain files that were written during the run.
    folder
        Folder of the run.
    files
        Content of further files by name.
    replace
        Whether to move an earlier folder to ``outputs/replaced`` first.
    """
    with disk.with_path_in_error(folder):
        staging.mkdir(exist_ok=True)  # it may have been removed as abandoned
        for name, data in files.items():
            (staging / name).write_bytes(data.encode() if isinstance(data, str) else data)
        names = sorted(path.name for path in staging.iterdir())
        lines = [f"{disk.sha256_of(staging / name)}  {name}\n" for name in names]
        (staging / CHECKSUMS).write_text("".join(lines), encoding="utf-8")
        for name in (*names, CHECKSUMS, ""):
            disk.flush(staging / name)
        if replace and folder.exists():
            place = folder.parents[2] / "replaced" / folder.parent.name
            place.mkdir(parents=True, exist_ok=True)
            os.rename(folder, place / f"{folder.name}-{_now()}")
        try:
            os.rename(staging, folder)
        except OSError:
            if not folder.exists():
                raise
        disk.flush(folder.parent)


def publish_figures(run: Run, staging: Path) -> None:
    """Replace the figures of a run by the files in the folder ``staging``."""
    figures = run.folder / run_folder.FIGURES
    shutil.rmtree(figures, ignore_errors=True)
    try:
        os.rename(staging, figures)
    except OSError:
        if not figures.exists():  # another process has drawn the same figures
            raise


def write_failure(run: Run) -> Run:
    """Write the result and the configuration of a failed run to ``outputs/failures``."""
    outputs, dataset = run.folder.parents[2], run.folder.parent.name
    folder = outputs / "failures" / dataset / f"{run.folder.name}-{_now()}"
    files = {CONFIG: run_folder.config_text(run.config), RESULT: run_folder.result_text(run.result)}
    with staging_folder(folder) as staging:
        publish(staging, folder, files)
    return Run(folder)


def _now() -> str:
    """Return the time as a text that makes a file name unique."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.%fZ")


def files_of_run(
    config: Mapping[str, Any],
    result: Mapping[str, Any],
    curves: Mapping[str, np.ndarray],
    kept: Mapping[str, bytes],
) -> dict[str, bytes | str]:
    """Return the files of a finished run by name.

    Parameters
    ----------
    config, result, curves
        Content of config.json, result.json and curves.npz.
    kept
        Content of further files by name.
    """
    return {
        CONFIG: run_folder.config_text(config),
        CURVES: disk.npz_bytes(curves),
        **kept,
        RESULT: run_folder.result_text(result),
    }


KINDS = {float: "float64", int: "int64", bool: "bool_", str: "string"}


def _parquet_writer(path: Path, schema: Any) -> Any:
    """Open a Parquet file with columns of ``PredictedNumbers`` or ``PredictedClasses``."""
    import pyarrow.parquet as pq

    # Compression by a dictionary takes most of the time, and few numbers with fractions repeat.
    repeated = [field.name for field in schema if str(field.type) != "double"]
    repeated.remove("row")
    of_row = {"row": "DELTA_BINARY_PACKED"}
    return pq.ParquetWriter(str(path), schema, use_dictionary=repeated, column_encoding=of_row)


class _Table:
    """Compressed Parquet file with named and typed columns, which is written block by block."""

    def __init__(self, path: Path, columns: Mapping[str, type]) -> None:
        import pyarrow as pa  # slow to import, and a run with many seeds does not need it

        self._pa, self._path = pa, path
        kinds = [(name, getattr(pa, KINDS[kind])()) for name, kind in columns.items()]
        self._kinds = columns
        self._schema = pa.schema(kinds)
        self._writer = _parquet_writer(path, self._schema)

    def write(self, columns: Mapping[str, Any]) -> None:
        """Write n rows. ``columns`` has an array (n,) per column; further arrays are ignored.

        NaN and None become null.
        """
        arrays = [self._array(columns[name], kind) for name, kind in self._kinds.items()]
        with disk.with_path_in_error(self._path):
            self._writer.write_table(self._pa.table(arrays, schema=self._schema))

    def _array(self, values: Any, kind: type) -> Any:
        """Convert a column for pyarrow.

        Numbers are copied into buffers, because ``pyarrow.array`` would import pandas (0.4 s).
        """
        pa = self._pa
        if kind is str:
            return pa.array(values, pa.string())
        values = np.ascontiguousarray(values, KINDS[kind])
        n, known = len(values), None
        if kind is float:
            known = pa.py_buffer(np.packbits(~np.isnan(values), bitorder="little"))
        if kind is bool:
            values = np.packbits(values, bitorder="little")
        arrow_type = getattr(pa, KINDS[kind])()
        return pa.Array.from_buffers(arrow_type, n, [known, pa.py_buffer(values)])

    def finish(self) -> Path:
        """Write the remaining rows, and return the path."""
        with disk.with_path_in_error(self._path):
            self._writer.close()
        return self._path


class PredictedNumbers(_Table):
    """Predictions of a regression: about 20 bytes per row and seed.

    The columns are

    seed        seed; only if there are several seeds
    row         row number in the file, from 1
    series      series, of type ``series_type``; only for a panel
    y           target; null if it is missing or was not requested
    y_hat       prediction
    asked       whether the target was requested
    spread      standard deviation; only if the learner has standard deviations
    low, high   ends of the interval, null if unknown; only if there are intervals
    """

    def __init__(
        self,
        path: Path,
        seeds: Sequence[int],
        has_spread: bool,
        has_interval: bool = False,
        series_type: type | None = None,
    ) -> None:
        columns: dict[str, type] = {"seed": int} if len(seeds) > 1 else {}
        columns |= {"row": int} | ({"series": series_type} if series_type else {})
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
        low: np.ndarray,
        high: np.ndarray,
        series: np.ndarray | None = None,
    ) -> None:
        """Add a block of rows.

        Parameters
        ----------
        rows, y, series
            (n,) row numbers in the file, targets, and series of a panel.
        y_hat, asked, spread, low, high
            (R, n) fields of ``Predictions`` for R seeds.
        """
        for r, seed in enumerate(self._seeds):
            columns = {"seed": np.full(len(y), seed), "row": rows, "y": y, "y_hat": y_hat[r]}
            columns |= {"series": series, "asked": asked[r], "spread": spread[r]}
            columns |= {"low": low[r], "high": high[r]}
            self.write(columns)


class PredictedClasses(_Table):
    """Predictions of a classification by the learner of one seed.

    The columns are

    seed    seed; only if there are several seeds
    row     row number in the file, from 1
    y       true class, as text
    y_hat   predicted class, as text; null for a score of 0 with two classes
    score   score; the largest score if there are more than two classes
    """

    def __init__(self, path: Path, classes: Sequence[Any], seed: int | None) -> None:
        columns: dict[str, type] = {} if seed is None else {"seed": int}
        columns |= {"row": int, "y": str, "y_hat": str, "score": float}
        super().__init__(path, columns)
        self._seed = seed
        self._classes = np.array([str(label) for label in classes], dtype=object)

    def add(self, rows: np.ndarray, y: np.ndarray, y_hat: np.ndarray) -> None:
        """Add a block of rows.

        Parameters
        ----------
        rows
            Row numbers (n,) in the file.
        y, y_hat
            Targets (n,) and scores (n,) or (n, K), as for ``metrics.mistaken``.
        """
        if y_hat.ndim == 1:
            score = y_hat
            meant, true = (score > 0.0).astype(int), (y > 0.0).astype(int)
            labels = np.where(score == 0.0, None, self._classes[meant])
        else:
            score, true = y_hat.max(axis=1), y.astype(int)
            labels = self._classes[y_hat.argmax(axis=1)]
        columns = {"row": rows, "y": self._classes[true], "y_hat": labels, "score": score}
        self.write({"seed": np.full(len(y), self._seed), **columns})


def join(parts: Sequence[Path], path: Path) -> None:
    """Concatenate the rows of the files ``parts`` into the file ``path``, and remove the parts."""
    import pyarrow.parquet as pq

    with disk.with_path_in_error(path):
        with _parquet_writer(path, pq.read_schema(parts[0])) as writer:
            for part in parts:
                with pq.ParquetFile(part) as file:
                    for k in range(file.num_row_groups):
                        writer.write_table(file.read_row_group(k))
        for part in parts:
            part.unlink()
