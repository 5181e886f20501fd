"""The streams of a suite: rows from packages, the catalogue or a generator, as a table in a file.

An entry of a suite's ``streams``

    name         as in tables
    from         river | sklearn | package | catalogue | made
    set          of river, sklearn and made: which data set or generator
    options      its arguments; of made {seed}
    package, file, target, columns, header
                 of package: a CSV file inside an installed package. columns: those that are
                 inputs, in words; without a header they are called x1, x2, ..
    dataset      of catalogue: a name of conf/dataset
    inputs, target   of the table that came: columns that are inputs, and what is to be predicted
    order        "file" (in time, the default) or "shuffled" (once, with seed 1)
    task         if it is not the suite's
    version, sha256  of the package and of the rows as read; others are refused, so that a number
                 of a suite is always about the same rows

Rows without a target are left out. The table is written to a Parquet file, which ``omkl-run
dataset=file`` reads: words and blanks become numbers there, and nothing looks ahead.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl import api, conf
from omkl.benchmark import generators, packaged
from omkl.benchmark.suite import BadSuite
from omkl.datasets import DataError, Stream, open_stream
from omkl.disk import write_atomically

if TYPE_CHECKING:
    import pandas as pd

TARGET = "target"
SHUFFLE = 1  # the seed of an order that is shuffled
MISSING = (ImportError, OSError, DataError)  # what says that a stream is not there
SOURCES = ("river", "sklearn", "package", "catalogue", "made")
KEYS = {
    "name", "from", "set", "options", "package", "file", "target", "columns", "header", "dataset",
    "inputs", "order", "task", "version", "sha256",
}  # fmt: skip


class Rows(NamedTuple):
    """A stream that was read.

    frame          inputs and, as the last column, ``TARGET``
    truth          of a generator: what would have been best to say of each row (n,)
    change_rounds  rounds that are the first after a known change
    stated         what is said of it: source, version, sha256, numbers of rows
    """

    frame: pd.DataFrame
    truth: np.ndarray | None
    change_rounds: tuple[int, ...]
    stated: dict[str, Any]


class OtherRows(DataError):
    """The rows are not those that the suite is about."""


def load(entry: Mapping[str, Any], task: str, most: int) -> Rows:
    """Read at most so many rows. Raises one of ``MISSING`` where that cannot be."""
    if unknown := sorted(set(entry) - KEYS):
        raise BadSuite(f"stream {entry['name']} has no {', '.join(unknown)}")
    source = entry["from"]
    if source not in SOURCES:
        raise BadSuite(f"stream {entry['name']}: from={source} is none of {', '.join(SOURCES)}")
    truth, changes, version = None, (), None
    if source == "made":
        X, y, truth, changes = _made(entry, most)
    elif source == "catalogue":
        X, y = _catalogued(str(entry["dataset"]), task)
    else:
        package = str(entry.get("package", source))
        X, y = _packaged(entry, source, package, most)
        version = packaged.version_of(package)
    frame = table_of(entry, X, y, task)
    n_blank = len(y) - len(frame)
    if entry.get("order", "file") == "shuffled":
        frame = frame.iloc[np.random.default_rng(SHUFFLE).permutation(len(frame))]
    frame = frame.iloc[:most].reset_index(drop=True)
    found = {"from": source, "task": task, "rows": len(frame), "columns": frame.shape[1] - 1}
    found |= {"order": entry.get("order", "file"), "rows_without_target": n_blank}
    found |= {"sha256": rows_sha256(frame)}
    found |= {"package": entry.get("package", source), "version": version} if version else {}
    found |= {k: entry[k] for k in ("set", "file", "dataset", "options") if k in entry}
    _require_same(entry, found, most)
    return Rows(frame, truth, tuple(changes), found)


def _require_same(entry: Mapping[str, Any], found: Mapping[str, Any], most: int) -> None:
    """Of a suite with fewer rows the digest is not known: ``sha256`` says of how many it is."""
    known = dict(entry.get("sha256") or {})
    if most in known and known[most] != found["sha256"]:
        read = f"{found['package']} {found['version']}" if "version" in found else "the source"
        raise OtherRows(
            f"{entry['name']}: {read} gives other rows than the suite is about"
            + (f", which came from version {entry['version']}" if "version" in entry else "")
            + f": their sha256 is {found['sha256'][:16]}.., not {known[most][:16]}.."
        )


def _made(entry: Mapping[str, Any], most: int) -> tuple[Any, ...]:
    known = generators.REGRESSION | generators.CLASSIFICATION
    if entry["set"] not in known:
        raise BadSuite(f"there is no generator {entry['set']}; there are: {', '.join(known)}")
    import pandas as pd

    seed = int((entry.get("options") or {}).get("seed", 0))
    X, y, truth, changes = generators.made(entry["set"], most, seed)
    names = [f"x{k + 1}" for k in range(X.shape[1])]
    return pd.DataFrame(X, columns=names), y, truth, changes


def _catalogued(name: str, task: str) -> tuple[pd.DataFrame, np.ndarray]:
    import pandas as pd

    described = conf.chosen("dataset", name) | {"task": task}
    options = {"limit": None, "scaling": "none", "order": "file", "labels": "data"}
    stream = open_stream(described, options)
    X, y = (np.concatenate(arrays) for arrays in zip(*stream.blocks(4096), strict=True))
    if stream.classes:
        codes = (y > 0).astype(int) if len(stream.classes) == 2 else y.astype(int)
        y = np.array([str(c) for c in stream.classes])[codes]
    return pd.DataFrame(X, columns=list(stream.inputs)), y


def _packaged(
    entry: Mapping[str, Any], source: str, package: str, most: int
) -> tuple[pd.DataFrame, np.ndarray]:
    options = entry.get("options") or {}
    if source == "package":
        named = entry.get("header", True)
        table = packaged.csv_in(package, entry["file"], header="infer" if named else None)
        if not named:
            table.columns = [f"x{k + 1}" for k in range(table.shape[1])]
        chosen = str(entry.get("columns", "")).split()
        X = table[chosen] if chosen else table.drop(columns=entry["target"])
        return X, table[entry["target"]].to_numpy()
    if source == "sklearn":
        return packaged.of_sklearn(entry["set"], most, options)
    rows = most if entry.get("order", "file") == "file" else 10**6
    X, y = packaged.of_river(entry["set"], rows, options)
    if "target" in entry:
        y = X[entry["target"]].to_numpy()
    chosen = str(entry.get("inputs", "")).split()
    return (X[chosen] if chosen else X), y


def table_of(entry: Mapping[str, Any], X: pd.DataFrame, y: np.ndarray, task: str) -> pd.DataFrame:
    """Inputs and target as one table, its columns named by text."""
    import pandas as pd

    frame = X.rename(columns=str)
    if TARGET in frame.columns:
        raise BadSuite(f"stream {entry['name']}: an input is called {TARGET!r}")
    for name in frame.columns:
        if frame[name].dtype == bool:
            frame[name] = frame[name].astype(float)
    labels = pd.Series(np.asarray(y).ravel(), index=frame.index)
    known = labels.notna()
    told = labels.astype(float) if task == "regression" else labels.map(_class)
    frame = frame.assign(**{TARGET: told})
    return frame[known]


def _class(label: Any) -> str:
    """A class as a word: whole numbers without a point, and no word that stands for a blank."""
    text = str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)
    return text.strip() if text.strip() not in ("NA", "None", "null", "nan") else f"is {text}"


def rows_sha256(frame: pd.DataFrame) -> str:
    """The sha256 of a table: names, words, and numbers to seven digits.

    The last bits of a generator's sines are others on other processors.
    """
    digest = hashlib.sha256()
    for name in frame.columns:
        digest.update(f"{name}\n".encode())
        column = frame[name]
        if column.dtype.kind in "biuf":
            digest.update(column.to_numpy("<f4").tobytes())
        else:
            digest.update("\n".join(map(str, column)).encode())
    return digest.hexdigest()


def file_name(stream: str) -> str:
    return re.sub(r"\W+", "-", stream.lower()).strip("-")


def write(rows: Rows, path: Path) -> None:
    """The table as a Parquet file."""
    import io

    buffer = io.BytesIO()
    rows.frame.to_parquet(buffer, index=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, buffer.getvalue())


class Opened(NamedTuple):
    """A stream that can be learned: as ``omkl-run dataset=file`` opens it, and its settings."""

    stream: Stream
    overrides: list[str]


def opened(path: Path, task: str, lags: int) -> Opened:
    """The table in a file as a stream, scaled by what was seen; all its columns are inputs.

    ``overrides`` are those of ``omkl-run`` typed in the folder above the file's.
    """
    from pyarrow.parquet import read_schema  # 0.1 s

    inputs = f"1-{len(read_schema(path)) - 1}"
    stream = api.open_stream(path, TARGET, task=task, scaling="columns", lags=lags, inputs=inputs)
    overrides = [
        f"task={task}",
        "dataset=file",
        f"dataset.path={path.parent.name}/{path.name}",
        f"dataset.target={TARGET}",
        f"dataset.inputs={inputs}",
    ]
    return Opened(stream, overrides + ([f"stream.lags={lags}"] if lags else []))


def arrays(stream: Stream) -> tuple[np.ndarray, np.ndarray]:
    """All rows X (n, d) and labels y (n,) of a stream."""
    X, y = zip(*stream.blocks(4096), strict=True)
    return np.concatenate(X), np.concatenate(y)


def numbers(path: Path, stream: Stream) -> np.ndarray:
    """The inputs (n, d) of a table that holds numbers alone, as they are. Raises BadSuite."""
    import pandas as pd

    frame = pd.read_parquet(path)[list(stream.inputs)]
    values = frame.to_numpy(dtype=np.float64)
    if not np.isfinite(values).all():
        raise BadSuite(f"{path.name}: peers_see=raw is for tables without blanks")
    return values
