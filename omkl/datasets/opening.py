"""Opening a data set as a stream: an entry of the catalogue, an own file, or made on the fly.

What is read of a file of the catalogue is kept in the user's cache folder, named by the file's
sha256, the entry and the sources that read and prepare: reading a spreadsheet or a text table takes
longer than learning from it. Deleting that folder costs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.datasets import catalogue, read, tables
from omkl.datasets.base import MOST_DELAY, DataError, Source
from omkl.datasets.cells import BLANKS
from omkl.datasets.columns import Column, place_of
from omkl.datasets.files import FileContent
from omkl.datasets.stream import Stream
from omkl.datasets.synthetic import SyntheticSource
from omkl.datasets.tables import ArrayTable, LibsvmTable, Table, TableSource
from omkl.utils import cached_arrays, sources
from omkl.utils.disk import user_cache

MOST_CACHED_BYTES = 2**26  # larger data are read anew: their reading is not what takes time
MOST_CACHED_FILES = 32


class Options(NamedTuple):
    """How rows are streamed, see ``open_stream``."""

    limit: int | None
    scaling: str
    order: str
    lags: int
    delay: int
    horizon: int

    @property
    def causal(self) -> bool:
        return self.scaling == "columns"


def open_stream(
    dataset_cfg: Mapping[str, Any], stream_cfg: Mapping[str, Any], seed: int = 0
) -> Stream:
    """Open a data set as a stream.

    Parameters
    ----------
    dataset_cfg
        Content of a conf/dataset/*.yaml. With the key ``path`` it is an own file, read in
        chunks; with ``file`` an entry of the catalogue, held in memory; with ``n_centres``
        synthetic.
    stream_cfg
        limit     None, or keep the first so many rows (at least 2), after shuffling and
                  before scaling; a shorter data set is streamed whole
        scaling   "columns" | "whole" | "none", see ``omkl.datasets.stream``
        order     "file" | "shuffled", which holds an own file in memory, up to MOST_SHUFFLED
                  cells of it
        lags      how many past labels are further inputs, 0 if not given
        delay     how many rows later than at once a target is in, 0 if not given
        horizon   h: the target of a row is that of the row h later, 0 if not given
    seed
        Of the shuffle; nothing else depends on it.

    Raises
    ------
    DataError
        The file is missing or damaged, the columns or options do not fit, or the data
        cannot be learned from. Own CSV and Parquet files are only checked as far as they
        are read, so their errors may also come out of ``blocks``.
    """
    return open_streams(dataset_cfg, stream_cfg, [seed])[0]


def open_streams(
    dataset_cfg: Mapping[str, Any], stream_cfg: Mapping[str, Any], seeds: Sequence[int]
) -> list[Stream]:
    """One stream per seed. A shuffled data set is read and held once; others are one stream."""
    options, is_own = _checked(dataset_cfg, stream_cfg), "path" in dataset_cfg
    name, is_made = str(dataset_cfg["name"]), "n_centres" in dataset_cfg
    shuffles = seeds if options.order == "shuffled" else None
    if shuffles and is_made:
        raise DataError(
            f"{name}: its rows are independent of each other already: set stream.order=file, and "
            "another dataset.seed for other rows."
        )
    if is_own:
        streams = _open_own(dataset_cfg, options, shuffles)
    elif is_made:
        streams = [_open_synthetic(dataset_cfg, options)]
    else:
        streams = _open_entry(dataset_cfg, options, shuffles)
    return streams if options.order == "shuffled" else streams * len(seeds)


def _checked(dataset_cfg: Mapping[str, Any], stream_cfg: Mapping[str, Any]) -> Options:
    """How rows are streamed; DataError for what cannot be, before a file is opened."""
    from omkl.datasets.schema import check_dataset  # imported here: pydantic takes 0.2 s

    check_dataset(dataset_cfg)
    options, name, is_own = _options(stream_cfg), str(dataset_cfg["name"]), "path" in dataset_cfg
    if dataset_cfg.get("key") is not None and not is_own:
        raise DataError(f"{name}: dataset.key is for files of yours: dataset=file.")
    _require_delay(options, name)
    return options


def load(name: str, *, as_frame: bool = True) -> tuple[Any, Any]:
    """The rows of a data set of the catalogue in memory, as they are: (X, y).

    Parameters
    ----------
    name
        As ``omkl-data list`` has it, ``"airfoil"``.
    as_frame
        X a ``pandas.DataFrame`` with the names of the inputs, y a ``pandas.Series`` with that of
        the target; False: arrays X (T, d) and y (T,).

    Returns
    -------
    X, y
        Numbers, NaN where blank, in the order of the file and not scaled. In a classification y
        holds the labels as they stand in the data.

    Raises
    ------
    DataError
        The file is missing and cannot be downloaded, or is damaged.
    ValueError
        There is no data set of that name.
    """
    try:
        cfg = catalogue.entry(name)
    except KeyError as error:
        raise ValueError(f"{error.args[0]}. Of a file: pandas.read_csv and others") from None
    if "path" in cfg:
        raise ValueError(f"{name} is for a file of yours: pandas.read_csv and others read it")
    if "file" in cfg:
        classes = _classes(cfg)
        table = _in_memory(cfg, catalogue.obtain(cfg), classes)
        X, y, (*inputs, target) = table.values[:, :-1], table.values[:, -1], table.names
    else:
        stream = open_stream(cfg, {"limit": None, "scaling": "none", "order": "file"})
        X, y = (np.concatenate(arrays) for arrays in zip(*stream.blocks(1000), strict=True))
        classes, inputs, target = stream.classes, list(stream.inputs), stream.target
    if classes:
        code = (y + 1) // 2 if len(classes) == 2 else y
        y = np.array([*classes, None], dtype=object)[np.nan_to_num(code, nan=-1).astype(int)]
    if not as_frame:
        return X, y
    import pandas as pd

    return pd.DataFrame(X, columns=inputs), pd.Series(y, name=target)


def open_with_column(
    dataset_cfg: Mapping[str, Any], stream_cfg: Mapping[str, Any], key: str | None
) -> tuple[Stream, np.ndarray | None]:
    """A stream of known length, and what the column ``dataset_cfg[key]`` says of its rows (T,).

    The column can be of words; it is an input only if ``dataset.inputs`` names it. With
    key None there is nothing to say. Raises DataError as ``open_stream``.
    """
    from omkl.datasets.schema import check_dataset  # imported here: pydantic takes 0.2 s

    check_dataset(dataset_cfg)
    stream_cfg = {**stream_cfg, "order": stream_cfg["order"] or "file"}
    options = _options(stream_cfg)
    if options.order != "file" or options.causal or options.lags:
        raise DataError(
            "a federation takes stream.order=file (its rows are dealt out at random, or by a "
            "column), stream.scaling=whole or none, and stream.lags=0 (there is no one order in "
            "time)."
        )
    if "path" not in dataset_cfg and key is None:
        return open_stream(dataset_cfg, stream_cfg), None
    if "n_centres" in dataset_cfg:
        name = dataset_cfg["name"]
        raise DataError(f"{name}: it is generated, so it has no columns of text.")
    return _open_frame(dataset_cfg, options, key)


def _options(cfg: Mapping[str, Any]) -> Options:
    from omkl.datasets.schema import check_stream  # imported here: pydantic takes 0.2 s

    check_stream(cfg)
    return Options(
        cfg["limit"],
        cfg["scaling"],
        cfg["order"],
        lags=cfg.get("lags", 0),
        delay=cfg.get("delay", 0),
        horizon=cfg.get("horizon", 0),
    )


def _require_delay(options: Options, name: str) -> None:
    """DataError where targets cannot come late, or be those of later rows."""
    delay, horizon = options.delay, options.horizon
    if not (delay or horizon):
        return
    key = f"stream.horizon={horizon}" if horizon else f"stream.delay={delay}"
    if horizon and options.order == "shuffled":
        raise DataError(
            f"{name}: {key} predicts later rows, and shuffled rows have no order in time. Set "
            "stream.order=file."
        )
    if delay + horizon > MOST_DELAY:
        raise DataError(
            f"{name}: stream.delay={delay} and stream.horizon={horizon} let {delay + horizon:,} "
            f"rows wait for their targets; together they must be at most {MOST_DELAY:,}."
        )


def _stream(
    source: Source,
    cfg: Mapping[str, Any],
    options: Options,
    provenance: Mapping[str, Any],
    classes: tuple[Any, ...],
    **more: Any,
) -> Stream:
    return Stream(
        source,
        name=str(cfg["name"]),
        task=cfg.get("task", "regression"),
        scaling=options.scaling,
        limit=options.limit,
        provenance=provenance,
        classes=classes,
        lags=options.lags,
        delay=options.delay,
        horizon=options.horizon,
        **more,
    )


def _classes(cfg: Mapping[str, Any], own: FileContent | None = None) -> tuple[Any, ...]:
    """What stands for the classes in the target's column; () of a regression."""
    if cfg.get("task", "regression") == "regression":
        return ()
    labels, where = cfg.get("labels"), str(cfg["name"])
    if own is not None:
        where = own.name
        if labels in (None, tables.ALL_LABELS) and not read.is_libsvm(own.path):
            labels = tables.classes_in(own, cfg)
            if len(labels) == 1 and cfg.get("labels") is None:
                raise DataError(
                    f"{where}: the target {cfg['target']!r} is {labels[0]!r} in all rows, so there "
                    "is nothing to learn. Choose another dataset.target or more rows."
                )
    if (
        not isinstance(labels, list | tuple)
        or len(labels) < 2
        or len(set(map(str, labels))) < len(labels)
    ):
        raise DataError(
            f"{where}: say what stands in the target's column: dataset.labels=[ham,spam], the "
            "first being -1 and the second +1; of three or more each is a class against the "
            f"rest. Got {labels!r}."
        )
    for label in labels:
        if str(label).strip() in BLANKS and cfg.get("format") not in ("libsvm", "mat"):
            raise DataError(
                f"{where}: dataset.labels names {label!r}, which stands for a missing value, as do "
                "NA, NaN, None and null. Rename the class in the file."
            )
    return tuple(labels)


def _provenance(
    cfg: Mapping[str, Any], content: FileContent, order: Any, columns: Sequence[Column]
) -> dict[str, Any]:
    """Where the rows of a file come from.

    Of an own file: which one it is, what became of its ``columns``, and how its text was taken
    apart. Of the catalogue: what is published about it, and ``columns`` that were left out.
    """
    is_own = "path" in cfg
    file = {
        "name": content.path.name if is_own else cfg["file"],
        "bytes": content.size,
        "sha256": content.sha256,
    }
    facts = {
        "name": str(cfg["name"]),
        "files": [file],
        "missing": cfg.get("missing", "error"),
        "order": order,
        "prepare": cfg.get("prepare") or {},
    }
    if is_own or columns:
        facts["columns"] = [column.as_dict() for column in columns]
    if not is_own:
        return facts | {key: cfg.get(key) for key in ("title", "uci", "url", "licence", "citation")}
    return facts | (read.layout(content, cfg) if read.is_text_file(content.path) else {})


# --- Own files and synthetic data -----------------------------------------------------------------


MOST_SHUFFLED = 2**25  # cells of an own file, which are held in memory: 256 MB


def _open_own(
    cfg: Mapping[str, Any], options: Options, seeds: Sequence[int] | None
) -> list[Stream]:
    """Open an own file: one stream per seed that shuffles it; None: one in the file's order."""
    content = read.open_content(cfg)
    key = None if cfg.get("key") is None else "key"
    if key:
        _require_panel(cfg, options, content.name)
    classes = _classes(cfg, content)
    described = {**cfg, "labels": classes or None}
    table: Table
    key_type: type | None = None
    if read.is_libsvm(content.path):
        table = LibsvmTable(content, described)
    else:
        table = own = tables.OwnTable(content, described, key)
        key_type = own.key_type
    missing, where = cfg.get("missing", "error"), content.name
    orders: list[tuple[Table, str | dict[str, int]]] = [(table, "file")]
    if seeds is not None:
        held = _held(table, where)
        orders = [(held.shuffled(seed), {"shuffled": seed}) for seed in seeds]
    streams = []
    for ordered, order in orders:
        source = TableSource(ordered, where, missing, options.causal)
        provenance = _provenance(cfg, content, order, table.columns)
        more = {"where": where, "key_type": key_type}
        streams.append(_stream(source, cfg, options, provenance, classes, **more))
    return streams


def _require_panel(cfg: Mapping[str, Any], options: Options, where: str) -> None:
    """DataError where rows that have keys cannot be streamed in this way."""
    if cfg.get("task") == "classification":
        cure = "a panel is for regression: set task=regression"
    elif options.order != "file":
        cure = "shuffled rows have no last target of their key: set stream.order=file"
    elif options.scaling == "whole":
        cure = "each key scales its rows as they come: set stream.scaling=columns or none"
    elif options.delay or options.horizon:
        cure = "targets of a panel come at once: leave stream.delay and stream.horizon out"
    else:
        return
    raise DataError(f"{where}: dataset.key gives each key a learner of its own, and {cure}.")


def _held(table: Table, where: str) -> ArrayTable:
    """All rows of a table that is read in chunks."""
    parts, n_cells = [], 0
    for values, rows, *_ in table.raw():
        n_cells += values.size
        if n_cells > MOST_SHUFFLED:
            raise DataError(
                f"{where}: stream.order=shuffled holds all rows in memory, and these are more than "
                f"{MOST_SHUFFLED:,} cells. Shuffle the file once and set stream.order=file."
            )
        parts.append((values, rows))
    values, rows = (np.concatenate(part) for part in zip(*parts, strict=True))
    return ArrayTable(values, rows, table.names, columns=table.columns)


def _open_synthetic(cfg: Mapping[str, Any], options: Options) -> Stream:
    source = SyntheticSource(cfg)
    provenance = {
        "name": str(cfg["name"]),
        "files": [],
        "order": "file",
        "synthetic": {key: value for key, value in cfg.items() if key not in ("title", "notes")},
        "constants": source.constants,
    }
    changes = () if source.change_at is None else (source.change_at,)
    return _stream(source, cfg, options, provenance, source.classes, change_rounds=changes)


# --- The catalogue --------------------------------------------------------------------------------


def _open_entry(
    cfg: Mapping[str, Any], options: Options, seeds: Sequence[int] | None
) -> list[Stream]:
    """The streams of an entry, one per seed that shuffles it; None: one in the file's order."""
    name, classes = str(cfg["name"]), _classes(cfg)
    content = catalogue.obtain(cfg)
    table: Table
    if cfg.get("format") == "libsvm" and seeds is None:  # in blocks, since no row is moved
        table = LibsvmTable(content, {**cfg, "labels": classes or None})
    else:
        table = _in_memory(cfg, content, classes)
    streams = []
    for seed in [None] if seeds is None else seeds:
        order: str | dict[str, int] = "file"
        ordered = table
        if seed is not None:
            assert isinstance(table, ArrayTable)
            ordered = table.shuffled(seed)
            order = {"shuffled": seed}
        missing, fills = cfg.get("missing", "error"), not options.causal  # as the papers did
        source = TableSource(ordered, name, missing, options.causal, fills_target=fills)
        provenance = _provenance(cfg, content, order, table.columns)
        streams.append(_stream(source, cfg, options, provenance, classes, survey=True))
    return streams


def _in_memory(
    cfg: Mapping[str, Any], content: FileContent, classes: tuple[Any, ...]
) -> ArrayTable:
    """The chosen columns of an entry's file, from the cache folder if they were there before."""

    def make() -> dict[str, np.ndarray]:
        made = _entry_table(cfg, content, classes)
        left_out = [column.name for column in made.columns]
        names = {"names": np.array(made.names, str), "left_out": np.array(left_out, str)}
        return {"values": made.values, "rows": made.rows, **names}

    of_sources = sources.digest(("datasets/",))
    identity = json.dumps([content.sha256, dict(cfg), of_sources], sort_keys=True, default=str)
    kept = cached_arrays.load_or_make(
        user_cache() / "data", identity, make, MOST_CACHED_BYTES, MOST_CACHED_FILES
    )
    names, left_out = (tuple(map(str, kept[key])) for key in ("names", "left_out"))
    unused = tables.unused_columns(left_out)
    return ArrayTable(kept["values"], kept["rows"], names, columns=unused)


def _entry_table(
    cfg: Mapping[str, Any], content: FileContent, classes: tuple[Any, ...]
) -> ArrayTable:
    if cfg.get("format") == "libsvm":
        sparse = LibsvmTable(content, {**cfg, "labels": classes or None})
        values, rows = (np.concatenate(arrays) for arrays in zip(*sparse.raw(), strict=True))
        _require_rows(cfg, content, len(values))
        return ArrayTable(values, rows, sparse.names)
    frame = read.read_entry(content, cfg)
    _require_rows(cfg, content, len(frame))
    return tables.entry_table(frame, cfg, classes or None)


def _require_rows(cfg: Mapping[str, Any], content: FileContent, n: int) -> None:
    if cfg.get("rows") is not None and n != cfg["rows"]:
        raise DataError(
            f"{cfg['name']}: {content.path} leaves {n} rows, {cfg['rows']} were expected. "
            "For another version of the file set dataset.rows=null."
        )


# --- Federations ----------------------------------------------------------------------------------


def _open_frame(
    cfg: Mapping[str, Any], options: Options, key: str | None
) -> tuple[Stream, np.ndarray | None]:
    import pandas as pd

    missing, where = cfg.get("missing", "error"), str(cfg["name"])
    if is_own := "path" in cfg:
        content = read.open_content(cfg)
        where = content.name
        classes = _classes(cfg, content)
        if read.is_libsvm(content.path):
            raise DataError(f"{where}: in a federation own data are a table with named columns.")
        frame = pd.concat(list(read.frames(content, cfg)))
        own = tables.OwnTable(content, {**cfg, "labels": classes or None}, key)
        values, rows = (np.concatenate(arrays) for arrays in zip(*own.raw(), strict=True))
        table = ArrayTable(values, rows, own.names, columns=own.columns)
    else:
        classes, content = _classes(cfg), catalogue.obtain(cfg)
        frame = read.read_entry(content, cfg)
        _require_rows(cfg, content, len(frame))
        table = tables.entry_table(frame, cfg, classes or None, key)
    provenance = _provenance(cfg, content, "file", table.columns)
    kept = np.ones(len(frame), dtype=bool)
    if is_own and missing == "mean":  # a client has no round without a target
        kept = ~np.isnan(table.values[:, -1])
    column = None
    if key is not None:
        names = [str(name) for name in frame.columns]
        place = place_of(cfg[key], names, where, f"dataset.{key}")
        cells = read.as_typed(frame.iloc[:, place]) if is_own else frame.iloc[:, place]
        column, blank = cells.to_numpy(), cells.isna().to_numpy()
        if missing == "drop":
            kept = ~(np.isnan(table.values).any(axis=1) | blank)
        first = np.flatnonzero(kept)[: options.limit]
        if blank[first].any():
            raise DataError(
                f"{where}: row {table.rows[first[blank[first].argmax()]]}, column "
                f"{names[place]!r} has no value, so the client of that row is not known. Set "
                "dataset.missing=drop, or correct the file."
            )
        column = column[first]
    chosen = ArrayTable(table.values[kept], table.rows[kept], table.names)
    source = TableSource(chosen, where, missing, False, fills_target=not is_own)
    return _stream(source, cfg, options, provenance, classes, survey=True, where=where), column
