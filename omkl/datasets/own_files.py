"""Own files as tables: their columns encoded, chunk by chunk."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl.datasets import encoding, file_frames, prepare, tables
from omkl.datasets.base import DataError
from omkl.datasets.columns import MOST_COLUMNS, Columns, choose_columns, place_of
from omkl.datasets.files import FileContent
from omkl.datasets.libsvm import LibsvmTable
from omkl.datasets.tables import Table, frame_values, reading

if TYPE_CHECKING:
    import pandas as pd


LIBSVM = (".libsvm", ".svm")
SUFFIXES = (*file_frames.READERS, *LIBSVM)
MOST_CLASSES = 100
ALL_LABELS = "all"  # of dataset.labels: however many classes there are
MOST_COUNTED = 100_000  # different values of a target that holds no classes


class OwnTable:
    """Columns of a file as numbers, in chunks; ``encoding`` decides on the first of them.

    ``columns`` say what became of each column but the target. Where no inputs are named, the
    column ``cfg[besides]`` is none of them.
    """

    def __init__(
        self, content: FileContent, cfg: Mapping[str, Any], besides: str | None = None
    ) -> None:
        self._content, self._cfg, where = content, cfg, content.name
        self.n_rows = file_frames.row_count(content, cfg)
        first = next(file_frames.frames(content, cfg), None)
        if first is None or not len(first):
            left = "no row is left by dataset.prepare" if cfg.get("prepare") else "no rows"
            raise DataError(f"{where}: the file has a header but {left}.")
        names = [str(name) for name in first.columns]
        apart = -1
        if besides is not None:
            apart = place_of(cfg[besides], names, where, f"dataset.{besides}")
        read_as = first.attrs.get("read_as", {})
        described = [
            _noted(_described(first.iloc[:, k], name, where), read_as.get(name))
            for k, name in enumerate(names)
        ]
        wanted = cfg.get("inputs")
        if cfg.get("encoded"):  # as another file was
            earlier = encoded_before(cfg["encoded"], names, where)
            described = [earlier.get(column.name, column) for column in described]
            wanted = list(earlier)
        chosen = choose_columns(
            names,
            [column.kind != "left out" and k != apart for k, column in enumerate(described)],
            wanted,
            cfg.get("target"),
            where,
            cfg.get("labelled", True),
        )
        *inputs, self._target = chosen.positions
        self._inputs = [(k, _taken(described[k], where)) for k in inputs]
        used = dict(self._inputs)
        self.columns: Sequence[encoding.Column] = [
            used.get(k, _left(column, column.why or "not in dataset.inputs"))
            for k, column in enumerate(described)
            if k != self._target or k in used
        ]
        if self._target not in used:
            said = (read_as.get(chosen.names[-1]), self._blank_classes(first))
            column = _noted(encoding.Column(chosen.names[-1], "target", ()), *said)
            self.columns = [*self.columns, *([column] if column.why else [])]
        new = [name for _, column in self._inputs for name in column.inputs]
        if len(new) > MOST_COLUMNS:
            raise DataError(
                f"{where}: {len(new):,} inputs are more than {MOST_COLUMNS:,}. Name fewer columns "
                "in dataset.inputs."
            )
        self.names = (*new, chosen.names[-1])
        self._values(first)  # so that what is wrong in the first rows is told before a run begins

    def _blank_classes(self, first: pd.DataFrame) -> str | None:
        """That rows of no class are left out; NA may have been meant for one."""
        n = int(first.iloc[:, self._target].isna().sum())
        if not (n and self._cfg.get("labels")):
            return None
        return (
            f"blank in {n} of the first {len(first)} rows, which are left out; NA, NaN, None and "
            "null in text are blanks too"
        )

    def raw(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for frame in file_frames.frames(self._content, self._cfg):
            yield self._values(frame)

    def _values(self, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        where, rows = self._content.name, frame.index.to_numpy() + 1
        parts = [encoded(frame.iloc[:, k], column, rows, where) for k, column in self._inputs]
        if self._cfg.get("labelled", True):
            target = Columns((self._target,), self.names[-1:])
            parts.append(frame_values(frame, target, rows, where, self._cfg.get("labels")))
        else:
            parts.append(np.zeros((len(frame), 1)))
        values = np.concatenate(parts, axis=1)
        return prepare.scale_values(values, self._cfg.get("prepare") or {}), rows


def encoded_before(
    columns: Sequence[Mapping[str, Any]], names: Sequence[str], where: str
) -> dict[str, encoding.Column]:
    """Columns as they became inputs of another file; DataError where one is not in this file."""
    earlier = [encoding.Column(**column) for column in columns]
    if missing := [column.name for column in earlier if column.name not in names]:
        raise DataError(
            f"{where}: the model has the columns {', '.join(c.name for c in earlier)}; the file "
            f"has {', '.join(names)}, and not {', '.join(missing)}."
        )
    return {c.name: c._replace(inputs=tuple(c.inputs)) for c in earlier}


def inputs_in(
    cfg: Mapping[str, Any], columns: Sequence[Mapping[str, Any]] | None, inputs: Sequence[str]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Row numbers (n,), from 1, and inputs X (n, d) of a table, chunk by chunk; no target is read.

    ``columns`` say how those of another file became ``inputs``; None: inputs are columns of
    numbers. Raises DataError for a file that cannot be read, or has others.
    """
    content = open_content(cfg)
    where = content.name
    if is_libsvm(content.path):
        raise DataError(f"{where}: the columns of a model have names, which LIBSVM text has not.")
    numbers = [{"name": n, "kind": "numbers", "inputs": (n,), "recipe": encoding.NUMBERS}
               for n in inputs]  # fmt: skip
    found: dict[str, encoding.Column] | None = None
    for frame in file_frames.frames(content, cfg):
        names, rows = [str(name) for name in frame.columns], frame.index.to_numpy() + 1
        found = found or encoded_before(columns or numbers, names, where)
        parts = [
            encoded(frame.iloc[:, names.index(name)], column, rows, where)
            for name, column in found.items()
        ]
        X = np.concatenate(parts, axis=1)
        if np.isinf(X).any():
            n, k = np.argwhere(np.isinf(X))[0]
            raise DataError(f"{where}: row {rows[n]}, {inputs[k]!r} is infinite. Correct the file.")
        yield rows, X


def encoded(series: pd.Series, column: encoding.Column, rows: np.ndarray, where: str) -> np.ndarray:
    """The cells of a column as numbers (n, inputs); DataError names what cannot be read."""
    with reading(f"{where}: column {column.name!r}"):
        encode = column.encode
        return np.empty((len(series), 0)) if encode is None else encode(series, rows, where)


def _described(series: pd.Series, name: str, where: str) -> encoding.Column:
    with reading(f"{where}: column {name!r}"):
        return encoding.column_of(series, name)


def _noted(column: encoding.Column, *notes: str | None) -> encoding.Column:
    return column._replace(why="; ".join(filter(None, (column.why, *notes))))


def _taken(column: encoding.Column, where: str) -> encoding.Column:
    """A column that is an input; one that would be left out is in because it was named."""
    if column.encode is None:
        raise DataError(f"{where}: column {column.name!r} has {column.why}.")
    if column.kind != "left out":
        return column
    return column._replace(kind="as named", why=f"{column.why}; dataset.inputs names it")


def _left(column: encoding.Column, why: str) -> encoding.Column:
    return column._replace(kind="left out", inputs=(), why=why)


def classes_in(content: FileContent, cfg: Mapping[str, Any]) -> tuple[Any, ...]:
    """What stands in the target's column, numbers or words, in their order."""
    found: set[str] = set()
    all_of_them = cfg.get("labels") == ALL_LABELS
    for frame in file_frames.frames(content, cfg):
        names = [str(name) for name in frame.columns]
        series = frame.iloc[:, place_of(cfg.get("target"), names, content.name)].dropna()
        found |= {text for cell in series.unique() if (text := str(cell).strip())}
        if len(found) > MOST_COUNTED and not all_of_them:
            break
    if len(found) > MOST_CLASSES and not all_of_them:
        number = f"{'at least ' if len(found) > MOST_COUNTED else ''}{len(found):,}"
        raise DataError(
            f"{content.name}: the target {cfg['target']!r} holds {number} different values, "
            f"and classes are at most {MOST_CLASSES}. Set task=regression; or, if these are "
            f"classes, dataset.labels={ALL_LABELS}."
        )
    twins = next((same for same in tables.by_number(found).values() if len(same) > 1), None)
    if twins is not None:
        both = " and ".join(map(repr, sorted(twins)))
        raise DataError(
            f"{content.name}: the target {cfg['target']!r} holds {both}, "
            "which are one number written in two ways. Write it in one way; or, if these are "
            "classes of their own, name all classes in dataset.labels."
        )
    try:
        return tuple(sorted(found, key=float))
    except ValueError:
        return tuple(sorted(found))


def locate_own(cfg: Mapping[str, Any]) -> Path:
    """The file of ``dataset.path``, of a kind that is read."""
    given = cfg.get("path")
    if given is None:
        raise DataError("dataset=file: say which file: dataset.path=PATH dataset.target=COLUMN")
    path = Path(str(given)).expanduser()
    if not path.name.lower().endswith(SUFFIXES):
        raise DataError(
            f"dataset.path={given}: files of this kind are not read; "
            f"the name must end in one of {', '.join(SUFFIXES)}."
        )
    try:
        path.name.encode()
    except UnicodeEncodeError:
        raise DataError(
            f"dataset.path={str(path)!a}: the file's name is no UTF-8. Rename the file."
        ) from None
    if not path.exists():
        raise DataError(_no_such_file(path))
    return path


def open_content(cfg: Mapping[str, Any], follow: bool = False) -> FileContent:
    """The file of ``dataset.path`` as it is now; with ``follow`` its lines that are whole."""
    path = locate_own(cfg)
    if follow:
        text = is_libsvm(path) or path.name.lower().endswith(file_frames.GROWING)
        encoded = "a\n".encode(cfg.get("encoding") or "utf-8")
        if not text or encoded != b"a\n":
            raise DataError(
                f"stream.follow=true is for text that grows line by line, and {path.name} is not, "
                "or not in an encoding such as utf-8."
            )
    return FileContent(path, follow)


def is_libsvm(path: Path) -> bool:
    return path.name.lower().endswith(LIBSVM)


def open_own(content: FileContent, cfg: Mapping[str, Any]) -> Table:
    return LibsvmTable(content, cfg) if is_libsvm(content.path) else OwnTable(content, cfg)


def read_own(content: FileContent, cfg: Mapping[str, Any]) -> pd.DataFrame:
    """The file as a whole, for data that are held in memory."""
    import pandas as pd

    if is_libsvm(content.path):
        raise DataError(f"{content.name}: in a federation own data are a table with named columns.")
    return pd.concat(list(file_frames.frames(content, cfg)))


def _no_such_file(path: Path) -> str:
    folder = path.absolute().parent
    if not folder.is_dir():
        return f"dataset.path={path}: there is no folder {folder}."
    beside = sorted(p.name for p in folder.iterdir() if p.name.lower().endswith(SUFFIXES))
    near = difflib.get_close_matches(path.name, beside, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    there = ", ".join(beside[:20]) or "none"
    return f"dataset.path={path}: no such file in {folder}.{hint} Data files there: {there}"
