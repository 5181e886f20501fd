"""Own files as tables: their columns encoded, chunk by chunk; LIBSVM text."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl.datasets import encoding, file_frames, prepare
from omkl.datasets.columns import Columns, choose_columns, count_inputs, place_of
from omkl.datasets.stream import DataError
from omkl.datasets.tables import Table, class_codes, frame_values, reading

if TYPE_CHECKING:
    import pandas as pd


LIBSVM_ROWS = 4_096  # they become dense: 4,096 x 300 numbers are 10 MB
LIBSVM = (".libsvm", ".svm")
SUFFIXES = (*file_frames.READERS, *LIBSVM)
MOST_CLASSES = 100


class OwnTable:
    """Columns of a file as numbers, in chunks; ``encoding`` decides on the first of them.

    ``columns`` say what became of each column but the target. Where no inputs are named, the
    column ``besides`` is none of them.
    """

    def __init__(
        self, path: Path, cfg: Mapping[str, Any], besides: str | int | None = None
    ) -> None:
        self._path, self._cfg = path, cfg
        self.n_rows = file_frames.row_count(path, cfg)
        first = next(file_frames.frames(path, cfg), None)
        if first is None or first.empty:
            left = "no row is left by dataset.prepare" if cfg.get("prepare") else "no rows"
            raise DataError(f"{path.name}: the file has a header but {left}.")
        names = [str(name) for name in first.columns]
        apart = -1 if besides is None else place_of(besides, names, path.name)
        described = [encoding.column_of(first.iloc[:, k], name) for k, name in enumerate(names)]
        chosen = choose_columns(
            names,
            [column.kind != "left out" and k != apart for k, column in enumerate(described)],
            cfg.get("inputs"),
            cfg.get("target"),
            path.name,
            cfg.get("labelled", True),
        )
        *inputs, self._target = chosen.positions
        self._inputs = [(k, _taken(described[k], path.name)) for k in inputs]
        used = dict(self._inputs)
        self.columns: Sequence[encoding.Column] = [
            used.get(k, _left(column, column.why or "not in dataset.inputs"))
            for k, column in enumerate(described)
            if k != self._target or k in used
        ]
        new = (name for _, column in self._inputs for name in column.inputs)
        self.names = (*new, chosen.names[-1])
        self._values(first)  # so that what is wrong in the first rows is told before a run begins

    def raw(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for frame in file_frames.frames(self._path, self._cfg):
            yield self._values(frame)

    def _values(self, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        where, rows = self._path.name, frame.index.to_numpy() + 1
        parts = [c.encode(frame.iloc[:, k], rows, where) for k, c in self._inputs if c.encode]
        if self._cfg.get("labelled", True):
            target = Columns((self._target,), self.names[-1:])
            parts.append(frame_values(frame, target, rows, where, self._cfg.get("labels")))
        else:
            parts.append(np.zeros((len(frame), 1)))
        values = np.concatenate(parts, axis=1)
        return prepare.scale_values(values, self._cfg.get("prepare") or {}), rows


def _taken(column: encoding.Column, where: str) -> encoding.Column:
    """A column that is an input; one that would be left out is in because it was named."""
    if column.encode is None:
        raise DataError(f"{where}: column {column.name!r} has {column.why}.")
    if column.kind != "left out":
        return column
    return column._replace(kind="as named", why=f"{column.why}; dataset.inputs names it")


def _left(column: encoding.Column, why: str) -> encoding.Column:
    return column._replace(kind="left out", inputs=(), why=why)


def classes_in(path: Path, cfg: Mapping[str, Any]) -> tuple[Any, ...]:
    """What stands in the target's column, numbers or words, in their order."""
    found: set[str] = set()
    for frame in file_frames.frames(path, cfg):
        names = [str(name) for name in frame.columns]
        series = frame.iloc[:, place_of(cfg.get("target"), names, path.name)].dropna()
        found |= {text for cell in series.unique() if (text := str(cell).strip())}
        if len(found) > MOST_CLASSES:
            raise DataError(
                f"{path.name}: the target {cfg['target']!r} holds more than {MOST_CLASSES} "
                "different values, which are no classes. Set task=regression, or name the classes "
                "in dataset.labels."
            )
    try:
        return tuple(sorted(found, key=float))
    except ValueError:
        return tuple(sorted(found))


class LibsvmTable:
    """LIBSVM text, "label index:value index:value ...": blocks of rows, made dense.

    Indices count from 1 and those that are left out are 0; what follows a # is a comment.
    ``dataset.inputs`` is a range "1-123", or null for up to the highest index, which
    takes a pass over the file. Memory does not grow with it.
    """

    n_rows: int | None = None
    columns: Sequence[encoding.Column] = ()

    def __init__(self, path: Path, cfg: Mapping[str, Any]) -> None:
        self._path = path
        self._classes = cfg.get("labels")
        n_inputs = count_inputs(cfg.get("inputs"))
        if n_inputs is None:
            parts = [tokens for tokens, _, _ in self._tokens()]
            n_inputs = max((int(t[:, 0].max(initial=0)) for t in parts), default=0)
        if n_inputs < 1:
            raise DataError(f"{path.name}: no row has an input, so there is nothing to learn from.")
        self.names = (*(f"x{k + 1}" for k in range(n_inputs)), "label")

    def raw(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        d = len(self.names) - 1
        for pairs, counts, (first, given) in self._tokens():
            rows = np.arange(first, first + len(counts))
            at = np.repeat(np.arange(len(counts)), counts)
            index = pairs[:, 0].astype(int)
            outside = (index < 1) | (index > d) | (index != pairs[:, 0])
            if outside.any():
                n = int(np.argmax(outside))
                raise DataError(
                    f"{self._path.name}: row {rows[at[n]]} has the index {pairs[n, 0]:g}, "
                    f"outside 1..{d}. Look at dataset.inputs."
                )
            values = np.zeros((len(counts), d + 1))
            values[at, index - 1] = pairs[:, 1]
            if self._classes is None:
                values[:, d] = np.array(given, dtype=np.float64)
            else:
                cells = np.array(given, dtype=object)
                values[:, d] = class_codes(cells, self._classes, rows, self._path.name)
            yield values, rows

    def _tokens(self) -> Iterator[tuple[np.ndarray, np.ndarray, tuple[int, list[str]]]]:
        """Pairs (n, 2) of index and value, their number a row, the first row and the labels."""
        first = 1
        with reading(self._path), open(self._path, encoding="utf-8") as file:
            while lines := list(itertools.islice(file, LIBSVM_ROWS)):
                texts = [text for line in lines if (text := line.partition("#")[0].strip())]
                split = [text.split() for text in texts]
                counts = np.array([len(words) - 1 for words in split], dtype=int)
                joined = " ".join(word for words in split for word in words[1:])
                try:
                    flat = np.array(joined.replace(":", " ").split(), dtype=np.float64)
                    pairs = flat.reshape(int(counts.sum()), 2)
                except ValueError:
                    raise self._unreadable(split, first) from None
                yield pairs, counts, (first, [words[0] for words in split])
                first += len(split)

    def _unreadable(self, split: list[list[str]], first: int) -> DataError:
        for n, words in enumerate(split):
            for word in words[1:]:
                index, colon, value = word.partition(":")
                try:
                    readable = bool(colon) and float(index) * 0.0 + float(value) * 0.0 == 0.0
                except ValueError:
                    readable = False
                if not readable:
                    return DataError(
                        f"{self._path.name}: row {first + n} holds {word!r} where index:value "
                        "should be."
                    )
        return DataError(f"{self._path.name}: cannot be read as LIBSVM text.")


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
    if not path.is_file():
        raise DataError(_no_such_file(path))
    return path


def is_libsvm(path: Path) -> bool:
    return path.name.lower().endswith(LIBSVM)


def open_own(path: Path, cfg: Mapping[str, Any]) -> Table:
    if not is_libsvm(path):
        return OwnTable(path, cfg)
    if cfg.get("prepare"):
        raise DataError(
            f"{path.name}: dataset.prepare is not for LIBSVM text, which has no columns."
        )
    return LibsvmTable(path, cfg)


def read_own(path: Path, cfg: Mapping[str, Any]) -> pd.DataFrame:
    """The file as a whole, for data that are held in memory."""
    import pandas as pd

    if is_libsvm(path):
        raise DataError(f"{path.name}: in a federation own data are a table with named columns.")
    return pd.concat(list(file_frames.frames(path, cfg)))


def _no_such_file(path: Path) -> str:
    folder = path.absolute().parent
    if not folder.is_dir():
        return f"dataset.path={path}: there is no folder {folder}."
    beside = sorted(p.name for p in folder.iterdir() if p.name.lower().endswith(SUFFIXES))
    near = difflib.get_close_matches(path.name, beside, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    there = ", ".join(beside[:20]) or "none"
    return f"dataset.path={path}: no such file in {folder}.{hint} Data files there: {there}"
