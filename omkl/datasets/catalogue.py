"""The catalogue of data sets (conf/dataset/*.yaml), and opening one as a stream.

Keys of a tabular entry
-----------------------
name, title    as typed on the command line; as published
task           "regression" | "classification"
labels         of a classification: what stands in the target's column; of two labels the
               first is -1 and the second +1, of more each is a class against the rest
file           path below a data folder, see ``omkl.datasets.download``
format         text | csv | excel | mat | libsvm; with delimiter, header, decimal, encoding;
               array: the only one of a mat file
columns        names, for files without a header
inputs         list of names or 1-based positions, a range "3-23", or null: all other
               numeric columns
target         name or 1-based position
missing        error | mean | drop
prepare        steps, see ``omkl.datasets.prepare``
rows           expected number of rows after preparation, before blanks are dealt with
uci, url       number in the UCI repository, address of the zip
member         the file's name in the zip; null if it cannot be fetched automatically
by_hand        how to get it in that case
sha256         of the file; null accepts any
licence, citation, notes
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.datasets import download, kept
from omkl.datasets.stream import ORDERS, SCALINGS, DataError, Source, Stream

if TYPE_CHECKING:
    from omkl.datasets.readers import Table

TASKS = ("regression", "classification")


class _Held(NamedTuple):
    """What was read of a catalogue entry: streams of several orders share it."""

    table: Table
    found: download.Found


def open_stream(
    dataset_cfg: Mapping[str, Any], stream_cfg: Mapping[str, Any], seed: int = 0
) -> Stream:
    """Open a data set as a stream.

    Parameters
    ----------
    dataset_cfg
        Content of a conf/dataset/*.yaml. With the key ``path`` it is an own CSV or
        Parquet file, read in chunks; with ``file`` an entry of the catalogue, held in
        memory; with ``n_centres`` synthetic.
    stream_cfg
        limit     None, or keep the first so many rows (at least 2), after shuffling and
                  before scaling; a shorter data set is streamed whole
        scaling   "whole" | "running" | "none", see ``omkl.datasets.stream``
        order     "file" | "shuffled"; only data held in memory can be shuffled
        labels    "data"; anything else: labels come from outside, see ``omkl.labels``, and the
                  stream's y is NaN (an own file then needs no target)
    seed
        Of the shuffle; nothing else depends on it.

    Raises
    ------
    DataError
        The file is missing or damaged, the columns or options do not fit, or the data
        cannot be learned from. Own CSV and Parquet files are only checked as far as they
        are read, so their errors may also come out of ``blocks``.
    """
    limit, scaling, order = _stream_options(stream_cfg)
    name = str(dataset_cfg["name"])
    own = "path" in dataset_cfg
    if (own or "n_centres" in dataset_cfg) and order == "shuffled":
        raise DataError(
            f"{name}: stream.order=shuffled needs all rows in memory and this data set is "
            "read in chunks. "
            + (
                "Shuffle the file once and set stream.order=file."
                if own
                else "Its rows are independent of each other already: set stream.order=file, "
                "and another dataset.seed for other rows."
            )
        )
    causal = scaling == "running"
    labelled = stream_cfg.get("labels", "data") == "data"
    if own:
        return _open_own({**dataset_cfg, "labelled": labelled}, name, limit, scaling, causal)
    if "n_centres" in dataset_cfg:
        return _open_synthetic(dataset_cfg, name, limit, scaling, labelled)
    if "file" in dataset_cfg:
        return _open_catalogued(dataset_cfg, name, limit, scaling, causal, order, seed, labelled)
    raise DataError(
        f"{name}: a data set needs one of the keys 'file' (an entry of the catalogue), "
        "'path' (an own table) or 'n_centres' (synthetic)."
    )


def open_streams(
    dataset_cfg: Mapping[str, Any], stream_cfg: Mapping[str, Any], seeds: Sequence[int]
) -> list[Stream]:
    """A stream a seed. A shuffled data set is read and held once; others are one stream."""
    limit, scaling, order = _stream_options(stream_cfg)
    if order == "file" or "file" not in dataset_cfg:
        return [open_stream(dataset_cfg, stream_cfg, seeds[0])] * len(seeds)
    name = str(dataset_cfg["name"])
    held = _read_catalogued(dataset_cfg, name, in_memory=True)
    causal = scaling == "running"
    labelled = stream_cfg.get("labels", "data") == "data"
    return [
        _open_catalogued(dataset_cfg, name, limit, scaling, causal, order, seed, labelled, held)
        for seed in seeds
    ]


def _labels(cfg: Mapping[str, Any], name: str) -> tuple[Any, ...]:
    """The labels of a classification, () of a regression."""
    task = cfg.get("task", "regression")
    if task not in TASKS:
        raise DataError(f"{name}: dataset.task={task!r} is none of {', '.join(TASKS)}.")
    if task == "regression" or "n_centres" in cfg:
        return ()
    given = cfg.get("labels")
    if (
        not isinstance(given, list | tuple)
        or len(given) < 2
        or len(set(map(str, given))) < len(given)
    ):
        raise DataError(
            f"{name}: say what stands in the target's column: dataset.labels=[ham,spam], the "
            "first being -1 and the second +1; of three or more each is a class against the "
            f"rest. Got {given!r}."
        )
    return tuple(given)


def _stream_options(cfg: Mapping[str, Any]) -> tuple[int | None, str, str]:
    limit, scaling, order = cfg["limit"], cfg["scaling"], cfg["order"]
    if scaling not in SCALINGS:
        raise DataError(f"stream.scaling={scaling!r} is none of {', '.join(SCALINGS)}.")
    if order not in ORDERS:
        raise DataError(f"stream.order={order!r} is none of {', '.join(ORDERS)}.")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 2):
        raise DataError(f"stream.limit={limit!r} must be null or a whole number >= 2.")
    return limit, scaling, order


def _open_own(
    cfg: Mapping[str, Any], name: str, limit: int | None, scaling: str, causal: bool
) -> Stream:
    from omkl.datasets.readers import TableSource, open_own

    labels = _labels(cfg, name)
    path, table = open_own({**cfg, "labels": labels or None})
    missing = cfg.get("missing", "error")

    def provenance() -> dict[str, Any]:
        fingerprint = {
            "name": path.name,
            "bytes": path.stat().st_size,
            "sha256": download.sha256_of(path),
        }
        return {"name": name, "files": [fingerprint], "missing": missing, "order": "file"}

    return Stream(
        TableSource(table, path.name, missing, causal),
        name=name,
        task=cfg.get("task", "regression"),
        scaling=scaling,
        limit=limit,
        survey=False,
        provenance=provenance,
        labels=labels,
        labelled=cfg["labelled"],
    )


def _open_synthetic(
    cfg: Mapping[str, Any], name: str, limit: int | None, scaling: str, labelled: bool
) -> Stream:
    from omkl.datasets.synthetic import SyntheticSource

    source = SyntheticSource(cfg)

    def provenance() -> dict[str, Any]:
        settings = {key: value for key, value in cfg.items() if key not in ("title", "notes")}
        return {
            "name": name,
            "files": [],
            "order": "file",
            "synthetic": settings,
            "constants": source.constants,
        }

    return Stream(
        source,
        name=name,
        task=cfg.get("task", "regression"),
        scaling=scaling,
        limit=limit,
        survey=False,
        provenance=provenance,
        change_rounds=() if source.change_at is None else (source.change_at,),
        labels=source.labels,
        labelled=labelled,
    )


def _open_catalogued(
    cfg: Mapping[str, Any],
    name: str,
    limit: int | None,
    scaling: str,
    causal: bool,
    order: str,
    seed: int,
    labelled: bool,
    held: _Held | None = None,
) -> Stream:
    from omkl.datasets import readers

    labels = _labels(cfg, name)
    steps = cfg.get("prepare") or {}
    table, found = held or _read_catalogued(cfg, name, in_memory=order == "shuffled")
    if order == "shuffled":
        assert isinstance(table, readers.ArrayTable)
        table = table.in_order(np.random.default_rng(seed).permutation(len(table.values)))
    missing = cfg.get("missing", "error")
    source: Source = readers.TableSource(table, name, missing, causal)

    def provenance() -> dict[str, Any]:
        return {
            "name": name,
            "title": cfg.get("title"),
            "files": [
                {
                    "name": cfg["file"],
                    "bytes": found.path.stat().st_size,
                    "sha256": found.sha256,
                }
            ],
            "uci": cfg.get("uci"),
            "url": cfg.get("url"),
            "licence": cfg.get("licence"),
            "citation": cfg.get("citation"),
            "missing": missing,
            "prepare": steps,
            "order": order if order == "file" else {"shuffled": seed},
        }

    return Stream(
        source,
        name=name,
        task=cfg.get("task", "regression"),
        scaling=scaling,
        limit=limit,
        survey=True,
        provenance=provenance,
        labels=labels,
        labelled=labelled,
    )


def _read_catalogued(cfg: Mapping[str, Any], name: str, in_memory: bool) -> _Held:
    """The chosen columns of a catalogue entry's file; LIBSVM text stays there unless in_memory."""
    from omkl.datasets import prepare, readers

    labels = _labels(cfg, name) or None
    prepare.check_steps(cfg.get("prepare") or {}, name)
    found = download.obtain(cfg)
    if cfg.get("format") == "libsvm" and not in_memory:
        return _Held(readers.LibsvmTable(found.path, {**cfg, "labels": labels}), found)
    prepared = kept.prepared(found.sha256, cfg, lambda: _prepared(cfg, name, found, labels))
    return _Held(readers.ArrayTable(*prepared), found)


def _prepared(
    cfg: Mapping[str, Any], name: str, found: download.Found, labels: tuple[Any, ...] | None
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Values (n, d + 1) with the target last, their rows in the file (n,), and names."""
    from omkl.datasets import prepare, readers

    steps = cfg.get("prepare") or {}
    if cfg.get("format") == "libsvm":
        sparse = readers.LibsvmTable(found.path, {**cfg, "labels": labels})
        pieces = list(sparse.raw())
        values = np.concatenate([piece[0] for piece in pieces])
        _require_rows(cfg, name, found, len(values))
        return values, np.concatenate([piece[1] for piece in pieces]), sparse.names
    frame = readers.read_frame(found.path, cfg, steps.get("first_rows"))
    frame = prepare.prepare_rows(frame, steps, name)
    _require_rows(cfg, name, found, len(frame))
    columns = readers.choose_columns(
        [str(column) for column in frame.columns],
        readers.numeric_columns(frame),
        cfg.get("inputs"),
        cfg.get("target"),
        name,
    )
    rows = frame.index.to_numpy() + 1
    values = readers.frame_values(frame, columns, rows, name, labels)
    return prepare.scale_inputs(values, steps), rows, columns.names


def _require_rows(cfg: Mapping[str, Any], name: str, found: download.Found, n: int) -> None:
    if cfg.get("rows") is not None and n != cfg["rows"]:
        raise DataError(
            f"{name}: {found.path} leaves {n} rows, {cfg['rows']} were expected. "
            "For another version of the file set dataset.rows=null."
        )


def folder() -> Path:
    """conf/dataset of the checkout, or that of an installed package."""
    package = Path(__file__).resolve().parents[1]
    beside = package.parent / "conf" / "dataset"
    return beside if beside.is_dir() else package / "conf" / "dataset"


def entries() -> dict[str, dict[str, Any]]:
    """All data sets by name, as Hydra would compose them without overrides."""
    return {path.stem: _load(path) for path in sorted(folder().glob("*.yaml"))}


def entry(name: str) -> dict[str, Any]:
    """One data set; an unknown name is a KeyError that lists all and the nearest."""
    known = sorted(path.stem for path in folder().glob("*.yaml"))
    if name in known:
        return _load(folder() / f"{name}.yaml")
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise KeyError(f"no data set {name!r}.{hint} Known: {', '.join(known)}")


def _load(path: Path) -> dict[str, Any]:
    from omegaconf import OmegaConf

    content = OmegaConf.to_container(OmegaConf.load(path))
    assert isinstance(content, dict)
    own = {str(key): value for key, value in content.items()}
    merged: dict[str, Any] = {}
    for item in own.pop("defaults", []):
        if item != "_self_":
            merged |= _load(path.with_name(f"{item}.yaml"))
    return merged | own
