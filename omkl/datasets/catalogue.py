"""The catalogue of data sets (conf/dataset/*.yaml), and opening one as a stream.

Keys of a tabular entry
-----------------------
name, title    as typed on the command line; as published
task           "regression"
file           path below a data folder, see ``omkl.datasets.download``
format         text | csv | zip | excel | mat; with delimiter, header, decimal, encoding
members        of a zip: {file in it: its digest}, read one below the other; a digest is
               sha256:HEX, git:HEX (id of the git blob) or null
member_column  of a zip: a last column with the name of the file, without its ending
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
sites          column that names where a row comes from, for federation=by_site
federated      clients and rounds of a published federation of these data
licence, citation, notes
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl.datasets import download
from omkl.datasets.stream import ORDERS, SCALINGS, DataError, Source, Stream

if TYPE_CHECKING:
    import pandas as pd


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
    if own:
        return _open_own(dataset_cfg, name, limit, scaling, causal)
    if "n_centres" in dataset_cfg:
        return _open_synthetic(dataset_cfg, name, limit, scaling)
    if "file" in dataset_cfg:
        return _open_catalogued(dataset_cfg, name, limit, scaling, causal, order, seed)
    raise DataError(
        f"{name}: a data set needs one of the keys 'file' (an entry of the catalogue), "
        "'path' (an own table) or 'n_centres' (synthetic)."
    )


def open_labelled(
    dataset_cfg: Mapping[str, Any], stream_cfg: Mapping[str, Any], column: str | int | None
) -> tuple[Stream, np.ndarray | None]:
    """A stream that is held in memory, and what ``column`` says of each of its rows (T,).

    The column can be of words; it is an input only if ``dataset.inputs`` names it. With
    column None the labels are None. Raises DataError as ``open_stream``.
    """
    limit, scaling, order = _stream_options(stream_cfg)
    if order != "file" or scaling == "running":
        raise DataError(
            "a federation takes stream.order=file (its rows are dealt out at random, or by "
            "a column) and stream.scaling=whole or none (there is no one order in time)."
        )
    if "n_centres" in dataset_cfg:
        if column is not None:
            raise DataError(f"{dataset_cfg['name']}: made on the fly, it has no columns of words.")
        return open_stream(dataset_cfg, stream_cfg), None
    return _open_frame(dataset_cfg, str(dataset_cfg["name"]), limit, scaling, column)


def _open_frame(
    cfg: Mapping[str, Any], name: str, limit: int | None, scaling: str, column: str | int | None
) -> tuple[Stream, np.ndarray | None]:
    from omkl.datasets import readers

    steps: Mapping[str, Any] = {}
    if "path" in cfg:
        path, frame = readers.read_own(cfg)
        file = {"name": path.name, "bytes": path.stat().st_size, "sha256": download.sha256_of(path)}
    else:
        frame, found, steps = _catalogued_frame(cfg, name)
        size = found.path.stat().st_size
        file = {"name": cfg["file"], "bytes": size, "sha256": found.sha256}
    columns, rows, values = _columns_of(frame, cfg, name, steps, column)
    missing = cfg.get("missing", "error")
    labels = None
    if column is not None:
        labels = frame.iloc[:, _place(frame, column, name)].to_numpy()
        if missing == "drop":
            whole = ~np.isnan(values).any(axis=1)
            values, rows, labels = values[whole], rows[whole], labels[whole]
        labels = labels[:limit]
    source = readers.TableSource(readers.ArrayTable(values, rows, columns), name, missing, False)
    keys = ("title", "uci", "url", "licence", "citation")

    def provenance() -> dict[str, Any]:
        known = {key: cfg[key] for key in keys if key in cfg and "path" not in cfg}
        return {
            "name": name,
            "files": [file],
            **known,
            "missing": missing,
            "prepare": steps,
            "order": "file",
        }

    stream = Stream(
        source,
        name=name,
        task=cfg.get("task", "regression"),
        scaling=scaling,
        limit=limit,
        survey=True,
        provenance=provenance,
    )
    return stream, labels


def _catalogued_frame(
    cfg: Mapping[str, Any], name: str
) -> tuple[pd.DataFrame, download.Found, Mapping[str, Any]]:
    """A file of the catalogue after its preparation, but for ``scale_inputs``."""
    from omkl.datasets import prepare, readers

    steps = cfg.get("prepare") or {}
    prepare.check_steps(steps, name)
    found = download.obtain(cfg)
    frame = readers.read_frame(found.path, cfg, steps.get("first_rows"))
    frame = prepare.prepare_rows(frame, steps, name)
    if cfg.get("rows") is not None and len(frame) != cfg["rows"]:
        raise DataError(
            f"{name}: {found.path} leaves {len(frame)} rows, {cfg['rows']} were expected. "
            "For another version of the file set dataset.rows=null."
        )
    return frame, found, steps


def _columns_of(
    frame: pd.DataFrame,
    cfg: Mapping[str, Any],
    name: str,
    steps: Mapping[str, Any],
    label: str | int | None = None,
) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """Names of the chosen columns, the rows' numbers in the file, the values (T, d + 1).

    Where no inputs are named, the column of labels is none of them.
    """
    from omkl.datasets import prepare, readers

    numeric = readers.numeric_columns(frame)
    if label is not None:
        numeric[_place(frame, label, name)] = False
    columns = readers.choose_columns(
        [str(column) for column in frame.columns],
        numeric,
        cfg.get("inputs"),
        cfg.get("target"),
        name,
    )
    rows = frame.index.to_numpy() + 1
    values = readers.frame_values(frame, columns, rows, name)
    return columns.names, rows, prepare.scale_inputs(values, steps)


def _place(frame: pd.DataFrame, column: str | int, name: str) -> int:
    """The position of a column that is given by its name or its 1-based position."""
    names = [str(known) for known in frame.columns]
    if isinstance(column, int) and 1 <= column <= len(names):
        return column - 1
    if column in names:
        return names.index(str(column))
    near = difflib.get_close_matches(str(column), names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise DataError(f"{name}: no column {column!r}.{hint} Columns: {', '.join(names[:40])}")


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

    path, table = open_own(cfg)
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
    )


def _open_synthetic(cfg: Mapping[str, Any], name: str, limit: int | None, scaling: str) -> Stream:
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
    )


def _open_catalogued(
    cfg: Mapping[str, Any],
    name: str,
    limit: int | None,
    scaling: str,
    causal: bool,
    order: str,
    seed: int,
) -> Stream:
    from omkl.datasets import readers

    frame, found, steps = _catalogued_frame(cfg, name)
    names, rows, values = _columns_of(frame, cfg, name, steps)
    if order == "shuffled":
        permutation = np.random.default_rng(seed).permutation(len(values))
        values, rows = values[permutation], rows[permutation]
    missing = cfg.get("missing", "error")
    table = readers.ArrayTable(values, rows, names)
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
