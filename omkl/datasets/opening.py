"""Opening a data set as a stream: an entry of the catalogue, an own file, or made on the fly."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.datasets import cache, download
from omkl.datasets.base import DataError, Source
from omkl.datasets.columns import choose_columns, place_of
from omkl.datasets.files import FileContent
from omkl.datasets.keys import check_keys, check_stream
from omkl.datasets.stream import Stream

if TYPE_CHECKING:
    import pandas as pd

    from omkl.datasets.encoding import Column
    from omkl.datasets.tables import Table

# What pandas takes for a blank.
BLANKS = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip


class Options(NamedTuple):
    """How rows are streamed, see ``open_stream``; ``labelled``: labels are those of the data."""

    limit: int | None
    scaling: str
    order: str
    labelled: bool
    lags: int
    follow: bool = False

    @property
    def causal(self) -> bool:
        return self.scaling == "columns"


class _FileTable(NamedTuple):
    """What was read of a file: streams of several orders share it."""

    table: Table
    found: FileContent


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
        scaling   "columns" | "whole" | "none", see ``omkl.datasets.stream``
        order     "file" | "shuffled"; only data held in memory can be shuffled
        labels    "data"; anything else: labels come from outside, see ``label_sources``, and the
                  stream's y is NaN (an own file then needs no target)
        lags      how many past labels are further inputs, 0 if not given
        follow    True: an own text file may grow while it is streamed. The stream is the whole
                  lines that were there when it was opened, and so is the sha256 that it states;
                  False, if not given: a file that changes is an error
    seed
        Of the shuffle; nothing else depends on it.

    Raises
    ------
    DataError
        The file is missing or damaged, the columns or options do not fit, or the data
        cannot be learned from. Own CSV and Parquet files are only checked as far as they
        are read, so their errors may also come out of ``blocks``.
    """
    check_keys(dataset_cfg)
    options, name = _options(stream_cfg), str(dataset_cfg["name"])
    own = "path" in dataset_cfg
    if options.follow and not own:
        raise DataError(f"{name}: stream.follow=true is for own files: dataset=file.")
    if (own or "n_centres" in dataset_cfg) and options.order == "shuffled":
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
    if own:
        return _open_own(dataset_cfg, name, options)
    if "n_centres" in dataset_cfg:
        return _open_synthetic(dataset_cfg, name, options)
    read = _read_catalogued(dataset_cfg, name, in_memory=options.order == "shuffled")
    return _open_catalogued(dataset_cfg, name, options, seed, read)


def open_streams(
    dataset_cfg: Mapping[str, Any], stream_cfg: Mapping[str, Any], seeds: Sequence[int]
) -> list[Stream]:
    """A stream a seed. A shuffled data set is read and held once; others are one stream."""
    check_keys(dataset_cfg)
    options = _options(stream_cfg)
    if options.order == "file" or "file" not in dataset_cfg:
        return [open_stream(dataset_cfg, stream_cfg, seeds[0])] * len(seeds)
    name = str(dataset_cfg["name"])
    read = _read_catalogued(dataset_cfg, name, in_memory=True)
    return [_open_catalogued(dataset_cfg, name, options, seed, read) for seed in seeds]


def open_with_column(
    dataset_cfg: Mapping[str, Any], stream_cfg: Mapping[str, Any], key: str | None
) -> tuple[Stream, np.ndarray | None]:
    """A stream of known length, and what the column ``dataset_cfg[key]`` says of its rows (T,).

    The column can be of words; it is an input only if ``dataset.inputs`` names it. With
    key None there is nothing to say. Raises DataError as ``open_stream``.
    """
    check_keys(dataset_cfg)
    stream_cfg = {**stream_cfg, "order": stream_cfg["order"] or "file"}
    options = _options(stream_cfg)
    if options.order != "file" or options.causal or options.lags or not options.labelled:
        raise DataError(
            "a federation takes stream.order=file (its rows are dealt out at random, or by a "
            "column), stream.scaling=whole or none and stream.lags=0 (there is no one order in "
            "time), and stream.labels=data."
        )
    name = str(dataset_cfg["name"])
    if "path" not in dataset_cfg and key is None:
        return open_stream(dataset_cfg, stream_cfg), None
    if "n_centres" in dataset_cfg:
        raise DataError(f"{name}: made on the fly, it has no columns of words.")
    return _open_frame(dataset_cfg, name, options, key)


def _open_frame(
    cfg: Mapping[str, Any], name: str, options: Options, key: str | None
) -> tuple[Stream, np.ndarray | None]:
    from omkl.datasets import own_files, tables

    missing = cfg.get("missing", "error")
    if "path" in cfg:
        content = own_files.open_content(cfg, options.follow)
        classes = _classes(cfg, name, content)
        frame = own_files.read_own(content, cfg)
        own = own_files.OwnTable(content, {**cfg, "labels": classes or None}, key)
        values, rows = (np.concatenate(arrays) for arrays in zip(*own.raw(), strict=True))
        where, columns = content.name, own.names
        provenance = functools.partial(_own_provenance, cfg, name, content, missing, own)
        if missing == "mean":  # a client has no round without a target
            there = ~np.isnan(values[:, -1])
            frame, values, rows = frame[there], values[there], rows[there]
    else:
        classes = _classes(cfg, name)
        found = download.obtain(cfg)
        frame = _prepared_frame(cfg, name, found)
        taken = _columns_of(frame, cfg, name, classes or None, key)
        values, rows, columns = taken[:3]
        where, unused = name, _unused(taken.left_out)
        provenance = functools.partial(_provenance, cfg, name, found, missing, "file", unused)
    said = None
    if key is not None:
        place = place_of(cfg[key], [str(known) for known in frame.columns], where, f"dataset.{key}")
        said, blank = frame.iloc[:, place].to_numpy(), frame.iloc[:, place].isna().to_numpy()
        if missing == "drop":
            complete = ~(np.isnan(values).any(axis=1) | blank)
            values, rows, said = values[complete], rows[complete], said[complete]
        elif blank[: options.limit].any():
            raise DataError(
                f"{where}: row {rows[blank.argmax()]}, "
                f"column {str(frame.columns[place])!r} is blank, so it is not known whose row "
                "it is. Set dataset.missing=drop, or correct the file."
            )
        said = said[: options.limit]
    table = tables.ArrayTable(values, rows, columns)
    source = tables.TableSource(table, where, missing, False, fills_target="file" in cfg)
    stream = _stream(source, cfg, name, options, provenance, classes, survey=True, where=where)
    return stream, said


def _stream(
    source: Source,
    cfg: Mapping[str, Any],
    name: str,
    options: Options,
    provenance: Callable[[], dict[str, Any]],
    classes: tuple[Any, ...],
    survey: bool = False,
    change_rounds: tuple[int, ...] = (),
    where: str | None = None,
) -> Stream:
    return Stream(
        source,
        name=name,
        task=cfg.get("task", "regression"),
        scaling=options.scaling,
        limit=options.limit,
        survey=survey,
        provenance=provenance,
        change_rounds=change_rounds,
        classes=classes,
        labelled=options.labelled,
        lags=options.lags,
        where=where,
    )


def _classes(cfg: Mapping[str, Any], name: str, own: FileContent | None = None) -> tuple[Any, ...]:
    """What stands for the classes in the target's column; () of a regression."""
    if cfg.get("task", "regression") == "regression" or "n_centres" in cfg:
        return ()
    given, where = cfg.get("labels"), name if own is None else own.name
    if own is not None:
        from omkl.datasets import own_files

        if given in (None, own_files.ALL_LABELS) and not own_files.is_libsvm(own.path):
            given = own_files.classes_in(own, cfg)
    if (
        not isinstance(given, list | tuple)
        or len(given) < 2
        or len(set(map(str, given))) < len(given)
    ):
        if cfg.get("labels") is None and given is not None and len(given) == 1:
            raise DataError(
                f"{where}: the target {cfg['target']!r} is {given[0]!r} in all rows, so there is "
                "nothing to learn. Choose another dataset.target or more rows."
            )
        raise DataError(
            f"{where}: say what stands in the target's column: dataset.labels=[ham,spam], the "
            "first being -1 and the second +1; of three or more each is a class against the "
            f"rest. Got {given!r}."
        )
    for label in given:
        if str(label).strip() in BLANKS and cfg.get("format") not in ("libsvm", "mat"):
            raise DataError(
                f"{where}: dataset.labels names {label!r}, and that stands for a blank, as do NA, "
                "NaN, None and null. Call the class otherwise in the file."
            )
    return tuple(given)


def _options(cfg: Mapping[str, Any]) -> Options:
    check_stream(cfg)
    return Options(
        cfg["limit"],
        cfg["scaling"],
        cfg["order"],
        labelled=cfg.get("labels", "data") == "data",
        lags=cfg.get("lags", 0),
        follow=cfg.get("follow", False),
    )


def _open_own(cfg: Mapping[str, Any], name: str, options: Options) -> Stream:
    from omkl.datasets import own_files
    from omkl.datasets.tables import TableSource

    content = own_files.open_content(cfg, options.follow)
    classes = _classes(cfg, name, content)
    table = own_files.open_own(
        content, {**cfg, "labelled": options.labelled, "labels": classes or None}
    )
    missing = cfg.get("missing", "error")
    source = TableSource(table, content.name, missing, options.causal)
    provenance = functools.partial(_own_provenance, cfg, name, content, missing, table)
    return _stream(source, cfg, name, options, provenance, classes, where=content.name)


def _own_provenance(
    cfg: Mapping[str, Any], name: str, content: FileContent, missing: str, table: Table
) -> dict[str, Any]:
    """As ``_provenance``, with what became of each column."""
    from omkl.datasets import file_frames, own_files

    stated = _provenance(cfg, name, content, missing, "file")
    text = not own_files.is_libsvm(content.path) and file_frames.is_text(content.path)
    layout = file_frames.layout(content, cfg) if text else {}
    columns = [column.told() for column in table.columns]
    return stated | {"columns": columns, "prepare": cfg.get("prepare") or {}, **layout}


def _open_synthetic(cfg: Mapping[str, Any], name: str, options: Options) -> Stream:
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

    changes = () if source.change_at is None else (source.change_at,)
    classes = source.classes
    return _stream(source, cfg, name, options, provenance, classes, change_rounds=changes)


def _open_catalogued(
    cfg: Mapping[str, Any], name: str, options: Options, seed: int, read: _FileTable
) -> Stream:
    from omkl.datasets import tables

    table, found = read
    order: str | dict[str, int] = options.order
    if order == "shuffled":
        assert isinstance(table, tables.ArrayTable)
        table = table.in_order(np.random.default_rng(seed).permutation(len(table.values)))
        order = {"shuffled": seed}
    missing = cfg.get("missing", "error")
    fills = not options.causal  # as the published experiments did
    source = tables.TableSource(table, name, missing, options.causal, fills_target=fills)
    provenance = functools.partial(_provenance, cfg, name, found, missing, order, table.columns)
    return _stream(source, cfg, name, options, provenance, _classes(cfg, name), survey=True)


def _provenance(
    cfg: Mapping[str, Any],
    name: str,
    found: FileContent,
    missing: str,
    order: Any,
    columns: Sequence[Column] = (),
) -> dict[str, Any]:
    """Where the rows of a file come from; of an own file only which one it is.

    ``columns`` are those of the catalogue that were left out.
    """
    own = "path" in cfg
    file = {
        "name": found.path.name if own else cfg["file"],
        "bytes": found.size,
        "sha256": found.sha256,
    }
    stated = {"name": name, "files": [file], "missing": missing, "order": order}
    if own:
        return stated
    known = ("title", "uci", "url", "licence", "citation")
    if columns:
        stated["columns"] = [column.told() for column in columns]
    return stated | {key: cfg.get(key) for key in known} | {"prepare": cfg.get("prepare") or {}}


def _read_catalogued(cfg: Mapping[str, Any], name: str, in_memory: bool) -> _FileTable:
    """The chosen columns of a catalogue entry's file; LIBSVM text stays there unless in_memory."""
    from omkl.datasets import libsvm, prepare, tables

    classes = _classes(cfg, name) or None
    prepare.check_steps(cfg.get("prepare") or {}, name)
    found = download.obtain(cfg)
    if cfg.get("format") == "libsvm" and not in_memory:
        return _FileTable(libsvm.LibsvmTable(found, {**cfg, "labels": classes}), found)
    prepared = cache.prepared(found.sha256, cfg, lambda: _prepared(cfg, name, found, classes))
    values, rows, names, left_out = prepared
    return _FileTable(tables.ArrayTable(values, rows, names, columns=_unused(left_out)), found)


def _unused(names: Sequence[str]) -> list[Column]:
    """What becomes of columns of the catalogue that nobody named and that hold no numbers."""
    if not names:
        return []
    from omkl.datasets.encoding import Column

    why = "it holds words or dates, which are encoded in own files alone (dataset=file)"
    return [Column(name, "left out", (), why) for name in names]


def _prepared(
    cfg: Mapping[str, Any], name: str, found: FileContent, classes: tuple[Any, ...] | None
) -> cache.Prepared:
    from omkl.datasets import libsvm

    if cfg.get("format") == "libsvm":
        sparse = libsvm.LibsvmTable(found, {**cfg, "labels": classes})
        pieces = list(sparse.raw())
        values = np.concatenate([piece[0] for piece in pieces])
        _require_rows(cfg, name, found, len(values))
        rows = np.concatenate([piece[1] for piece in pieces])
        return cache.Prepared(values, rows, sparse.names)
    return _columns_of(_prepared_frame(cfg, name, found), cfg, name, classes)


def _prepared_frame(cfg: Mapping[str, Any], name: str, found: FileContent) -> pd.DataFrame:
    """A file of the catalogue after all steps of its preparation that do not scale."""
    from omkl.datasets import prepare, tables, whole_files

    steps = cfg.get("prepare") or {}
    prepare.check_steps(steps, name)
    frame = whole_files.read_frame(found, cfg, steps.get("first_rows"))
    with tables.reading(name):  # a step may be given what it cannot take
        frame = prepare.prepare_rows(frame, steps, name)
    _require_rows(cfg, name, found, len(frame))
    return frame


def _columns_of(
    frame: pd.DataFrame,
    cfg: Mapping[str, Any],
    name: str,
    classes: Sequence[Any] | None,
    besides: str | None = None,
) -> cache.Prepared:
    """The chosen columns. Where no inputs are named, ``cfg[besides]`` is none of them."""
    from omkl.datasets import cells, prepare, tables

    names = [str(column) for column in frame.columns]
    numeric = cells.numeric_columns(frame)
    words = [] if cfg.get("inputs") is not None else np.flatnonzero(~np.array(numeric)).tolist()
    if besides is not None:
        apart = place_of(cfg[besides], names, name, f"dataset.{besides}")
        numeric[apart] = False
        words = [k for k in words if k != apart]
    columns = choose_columns(names, numeric, cfg.get("inputs"), cfg.get("target"), name)
    rows = frame.index.to_numpy() + 1
    values = tables.frame_values(frame, columns, rows, name, classes)
    values = prepare.scale_values(values, cfg.get("prepare") or {})
    left_out = tuple(names[k] for k in words if k not in columns.positions)
    return cache.Prepared(values, rows, columns.names, left_out)


def _require_rows(cfg: Mapping[str, Any], name: str, found: FileContent, n: int) -> None:
    if cfg.get("rows") is not None and n != cfg["rows"]:
        raise DataError(
            f"{name}: {found.path} leaves {n} rows, {cfg['rows']} were expected. "
            "For another version of the file set dataset.rows=null."
        )
