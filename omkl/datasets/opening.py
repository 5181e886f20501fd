"""Open a data set as a stream.

The data set is an entry of the catalogue, a user's file, or a stream of synthetic rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from omkl.datasets import catalogue, read, tables
from omkl.datasets.base import MOST_DELAY, DataError
from omkl.datasets.cells import BLANKS
from omkl.datasets.columns import Column
from omkl.datasets.files import FileContent
from omkl.datasets.libsvm import LibsvmTable
from omkl.datasets.stream import Options, Stream
from omkl.datasets.synthetic import SyntheticSource
from omkl.datasets.tables import ArrayTable, FileTable, Table, TableSource


def open_stream(
    dataset_cfg: Mapping[str, Any], stream_cfg: Mapping[str, Any], seed: int = 0
) -> Stream:
    """Open a data set as a stream.

    Parameters
    ----------
    dataset_cfg
        Settings of a data set, as in a file of conf/dataset. With the key ``path`` it is a user's
        file, which is read in chunks. With the key ``file`` it is an entry of the catalogue, whose
        file is loaded into memory. With the key ``n_centres`` it is a synthetic stream.
    stream_cfg
        limit     largest number of rows, at least 2; None: all rows. Rows are shuffled before the
                  limit is applied. Scaling uses only rows within the limit
        scaling   "columns" | "whole" | "none", see ``omkl.datasets.stream``
        order     "file" | "shuffled". A user's file is shuffled in memory, if it has at most
                  MOST_SHUFFLED cells
        lags      number of past targets used as inputs, 0 by default
        delay     number of rows by which targets are late, 0 by default
        horizon   number of rows h from a row to the row whose target it predicts, 0 by default
    seed
        Seed of the shuffle. Nothing else depends on it.

    Raises
    ------
    DataError
        The file is missing or damaged, columns or options do not fit, or nothing can be learned
        from the data. A user's CSV or Parquet file is checked only as far as it has been read, so
        ``Stream.blocks`` may raise these errors too.
    """
    return open_streams(dataset_cfg, stream_cfg, [seed])[0]


def open_streams(
    dataset_cfg: Mapping[str, Any], stream_cfg: Mapping[str, Any], seeds: Sequence[int]
) -> list[Stream]:
    """Open one stream per seed.

    Parameters
    ----------
    dataset_cfg, stream_cfg
        Settings ``dataset`` and ``stream`` of a run.
    seeds
        Seeds of the order of rows if the data set is shuffled. If it is not, the result repeats one
        stream.

    Raises
    ------
    DataError
        As in ``open_stream``.
    """
    options, name = _checked(dataset_cfg, stream_cfg), str(dataset_cfg["name"])
    shuffles = options.order == "shuffled"
    if dataset_cfg.get("series") is not None and "path" not in dataset_cfg:
        raise DataError(f"{name}: dataset.series is for files of yours: dataset=file.")
    if "n_centres" not in dataset_cfg:
        streams = _open_file(dataset_cfg, options, seeds if shuffles else None)
    elif shuffles:
        raise DataError(
            f"{name}: its rows are independent of each other already: set stream.order=file, and "
            "another dataset.seed for other rows."
        )
    else:
        streams = [_open_synthetic(dataset_cfg, options)]
    return streams if shuffles else streams * len(seeds)


def _checked(dataset_cfg: Mapping[str, Any], stream_cfg: Mapping[str, Any]) -> Options:
    """Check the settings before a file is opened, and return the options of the stream."""
    from omkl.datasets.schema import check_dataset, check_stream  # pydantic takes 0.2 s

    check_dataset(dataset_cfg)
    check_stream(stream_cfg)
    late = {key: stream_cfg.get(key, 0) for key in ("lags", "delay", "horizon")}
    options = Options(*(stream_cfg[key] for key in ("limit", "scaling", "order")), **late)
    _require_delay(options, str(dataset_cfg["name"]))
    return options


def load(name: str, *, as_frame: bool = True) -> tuple[Any, Any]:
    """Return inputs and targets (X, y) of a data set of the catalogue.

    Parameters
    ----------
    name
        Name of the data set, as ``omkl-data list`` prints it, for example ``"airfoil"``.
    as_frame
        If True, X is a ``pandas.DataFrame`` and y a ``pandas.Series``, with the names of inputs
        and target. If False, X (T, d) and y (T,) are arrays.

    Returns
    -------
    X, y
        Unscaled numbers in the order of the file, NaN for a missing value. In a classification y
        contains the classes as spelled in the data.

    Raises
    ------
    DataError
        The file is missing and cannot be downloaded, or is damaged.
    ValueError
        There is no data set with this name.
    """
    try:
        cfg = catalogue.entry(name)
    except KeyError as error:
        raise ValueError(f"{error.args[0]}. Of a file: pandas.read_csv and others") from None
    if "path" in cfg:
        raise ValueError(f"{name} is for a file of yours: pandas.read_csv and others read it")
    if "file" in cfg:
        content = catalogue.obtain(cfg)
        classes = _classes(cfg, content)
        table = ArrayTable.holding(_table(cfg, content, classes))
        values, (*inputs, target) = table.whole.values, table.names
        X, y = values[:, :-1], values[:, -1]
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
    """Open a stream for a federation, and read the column that assigns its rows to clients.

    Parameters
    ----------
    dataset_cfg, stream_cfg
        Settings ``dataset`` and ``stream`` of a run.
    key
        Key of ``dataset_cfg`` that names the column, which has whole numbers or texts; None: no
        column. The column is an input only if ``dataset.inputs`` names it.

    Returns
    -------
    Stream, ndarray or None
        The stream, whose length T is known, and the cells (T,) of the column.

    Raises
    ------
    DataError
        As in ``open_stream``.
    """
    stream_cfg = {**stream_cfg, "order": stream_cfg["order"] or "file"}
    options = _checked(dataset_cfg, stream_cfg)
    if options.order != "file" or options.causal or options.lags:
        raise DataError(
            "a federation takes stream.order=file (its rows are dealt out at random, or by a "
            "column), stream.scaling=whole or none, and stream.lags=0 (there is no one order in "
            "time)."
        )
    if "n_centres" in dataset_cfg:
        if key is not None:
            raise DataError(f"{dataset_cfg['name']}: it is generated, and has no column of words.")
        return _open_synthetic(dataset_cfg, options), None
    (stream,) = _open_file(dataset_cfg, options, None, key, holds=True)
    if key is None:
        return stream, None
    names = [chunk.series for chunk in stream.rounds(read.CHUNK_ROWS) if chunk.series is not None]
    return stream, np.concatenate(names)


def _require_delay(options: Options, name: str) -> None:
    """Raise DataError if the options have a delay or a horizon that is not possible."""
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


def _classes(cfg: Mapping[str, Any], content: FileContent) -> tuple[Any, ...]:
    """Return the classes as spelled in the column of the target; () for a regression."""
    if cfg.get("task", "regression") == "regression":
        return ()
    where = content.name if "path" in cfg else str(cfg["name"])
    labels = cfg.get("labels")
    if labels in (None, tables.ALL_LABELS):
        labels = tables.classes_in(content, cfg)
        if len(labels) == 1 and cfg.get("labels") is None:
            raise DataError(
                f"{where}: the target {cfg.get('target') or 'label'!r} is {labels[0]!r} in all "
                "rows, so there is nothing to learn. Choose another dataset.target or more rows."
            )
    listed = labels if isinstance(labels, list | tuple) else ()
    if len(set(map(str, listed))) < max(2, len(listed)):
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
    """Return the provenance of the rows of a file: file with sha256, order, and preparation.

    For a user's file the provenance also describes the encoding of all ``columns`` and the layout
    of text. For an entry of the catalogue the provenance names the publication. If the entry lists
    no inputs, the provenance also describes the ``columns``.
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
    return facts | (read.layout(content, cfg)._asdict() if read.is_text_file(content, cfg) else {})


# --- Files and synthetic data ---------------------------------------------------------------------


MOST_SHUFFLED = 2**25  # largest number of cells of a user's file that is shuffled: 256 MB


def _open_file(
    cfg: Mapping[str, Any],
    options: Options,
    seeds: Sequence[int] | None,
    apart: str | None = None,
    holds: bool = False,
) -> list[Stream]:
    """Open a file as one shuffled stream per seed, or in its order if ``seeds`` is None.

    Rows are loaded into memory if the file belongs to the catalogue, if they are shuffled, or if
    ``holds`` is True. ``apart`` is as in ``FileTable``.
    """
    is_own = "path" in cfg
    content = read.open_content(cfg) if is_own else catalogue.obtain(cfg)
    where = content.name if is_own else str(cfg["name"])
    if cfg.get("series") is not None:
        apart = "series"
        _require_panel(cfg, options, where)
    classes = _classes(cfg, content)
    table = _table(cfg, content, classes, apart)
    series_type = table.series_type if apart == "series" and isinstance(table, FileTable) else None
    if seeds is not None or holds or not is_own:
        held = ArrayTable.holding(table, MOST_SHUFFLED if seeds and is_own else None)
        if cfg.get("rows") not in (None, len(held.order)):
            raise DataError(
                f"{where}: {content.path} leaves {len(held.order)} rows, {cfg['rows']} were "
                "expected. For another version of the file set dataset.rows=null."
            )
        table = held
    streams = []
    for seed in [None] if seeds is None else seeds:
        order: str | dict[str, int] = "file"
        ordered = table
        if seed is not None:
            ordered, order = held.shuffled(seed), {"shuffled": seed}
        missing, fills = cfg.get("missing", "error"), not (is_own or options.causal)
        source = TableSource(ordered, where, missing, options.causal, fills_target=fills)
        more: dict[str, Any] = {"where": where, "series_type": series_type}
        more |= {"survey": holds or not is_own, "classes": classes}
        provenance = _provenance(cfg, content, order, table.columns)
        streams.append(Stream(source, cfg, options, provenance, **more))
    return streams


def _table(
    cfg: Mapping[str, Any], content: FileContent, classes: Sequence[Any], apart: str | None = None
) -> Table:
    described = {**cfg, "labels": classes or None}
    if not read.is_libsvm(content, cfg):
        return FileTable(content, described, apart)
    if apart:
        raise DataError(f"{content.name}: dataset.{apart} is not for LIBSVM text: no columns.")
    return LibsvmTable(content, described)


def _require_panel(cfg: Mapping[str, Any], options: Options, where: str) -> None:
    """Raise DataError if a panel cannot be streamed with these options."""
    if cfg.get("task") == "classification":
        cure = "a panel is for regression: set task=regression"
    elif options.order != "file":
        cure = "shuffled rows have no last target of their series: set stream.order=file"
    elif options.scaling == "whole":
        cure = "each series scales its rows as they come: set stream.scaling=columns or none"
    else:
        return
    raise DataError(f"{where}: this run cannot have dataset.series: {cure}.")


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
    classes = source.classes
    return Stream(source, cfg, options, provenance, classes=classes, change_rounds=changes)
