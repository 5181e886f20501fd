"""Write run folders: a folder is renamed into place when all of it is written, or is absent.

``predictions.parquet``, with the prediction of every row, grows while a run goes on
(``PredictedNumbers``, ``PredictedClasses``).
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
    """Return the folder of the run of some settings by the code and the data of a stamp.

    The run of a file of the user's is found under the name that the file had when it was computed.
    """
    runs, named = settings.outputs / "runs", f"{settings.name}-{stamp}"
    return min(runs.glob(f"*/{named}"), default=runs / str(settings.dataset["name"]) / named)


@contextlib.contextmanager
def staging_folder(folder: Path) -> Iterator[Path]:
    """Make a folder beside ``folder``, to be renamed to it, and remove it if it was not.

    What processes that were killed have left there is removed after a day.
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
    """Write ``files`` beside those that have grown in ``staging``, and rename it to ``folder``.

    All of it is on the disk then. If another process has published the same run, its folder stays
    and ours is discarded. With ``replace`` the earlier folder is first moved to
    ``outputs/replaced``.
    """
    with disk.with_path_in_error(folder):
        staging.mkdir(exist_ok=True)  # where nothing grows it may have been taken for abandoned
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
    """Make the folder ``staging`` the figures of a run, in place of those that there are."""
    figures = run.folder / run_folder.FIGURES
    shutil.rmtree(figures, ignore_errors=True)
    try:
        os.rename(staging, figures)
    except OSError:
        if not figures.exists():  # another process has drawn the same figures
            raise


def write_failure(run: Run) -> Run:
    """Write the result and the configuration of a run that failed into ``outputs/failures``."""
    outputs, dataset = run.folder.parents[2], run.folder.parent.name
    folder = outputs / "failures" / dataset / f"{run.folder.name}-{_now()}"
    files = {CONFIG: run_folder.config_text(run.config), RESULT: run_folder.result_text(run.result)}
    with staging_folder(folder) as staging:
        publish(staging, folder, files)
    return Run(folder)


def _now() -> str:
    """Return the time as part of a name: no two folders of a run have the same."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.%fZ")


def files_of_run(
    config: Mapping[str, Any],
    result: Mapping[str, Any],
    curves: Mapping[str, np.ndarray],
    kept: Mapping[str, bytes],
) -> dict[str, bytes | str]:
    """Return the files of a finished run by name; ``kept`` are those that it has besides."""
    return {
        CONFIG: run_folder.config_text(config),
        CURVES: disk.npz_bytes(curves),
        **kept,
        RESULT: run_folder.result_text(result),
    }


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

    def finish(self) -> Path:
        """Write the rest, and return the file."""
        with disk.with_path_in_error(self._path):
            self._writer.close()
        return self._path


class PredictedNumbers(_Table):
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


def join(parts: Sequence[Path], path: Path) -> None:
    """Write the rows of the files ``parts``, one after another, to ``path``; remove the parts."""
    import pyarrow.parquet as pq

    with disk.with_path_in_error(path):
        with pq.ParquetWriter(str(path), pq.read_schema(parts[0])) as writer:
            for part in parts:
                with pq.ParquetFile(part) as file:
                    for k in range(file.num_row_groups):
                        writer.write_table(file.read_row_group(k))
        for part in parts:
            part.unlink()
