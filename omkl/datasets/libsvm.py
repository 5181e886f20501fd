"""LIBSVM text as a table: "label index:value index:value ...", a row a line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.datasets import read
from omkl.datasets.base import MOST_COLUMNS, DataError, RowCount, as_data_error
from omkl.datasets.columns import Column, class_codes
from omkl.datasets.files import FileContent
from omkl.utils.wording import few

CHUNK_ROWS = 1_024
NOT_HERE = ("columns", "exclude", "na_values", "key", "client_column", "prepare")


class LibsvmTable:
    """LIBSVM text: rows made dense, piece by piece, so that memory does not grow with the file.

    Indices that are left out are 0, and a # begins a comment. ``dataset.inputs`` is a range
    "1-123", or null for up to the highest index, which takes a pass over the file.

    Parameters
    ----------
    content, cfg
        The file, and the data set. ``zero_based``: indices count from 0 and not from 1.
    labelled
        Whether rows have labels. If not, a row may have one all the same, and it is not read.
    """

    columns: Sequence[Column] = ()
    notices: Sequence[str] = ()

    def __init__(self, content: FileContent, cfg: Mapping[str, Any], labelled: bool = True) -> None:
        self._content, self._cfg, self._labelled = content, cfg, labelled
        self._where, self._lowest = content.name, 0 if cfg.get("zero_based") else 1
        n = content.n_lines
        self.row_count = None if n is None else RowCount(n, False)
        _check_keys(cfg, content.name)
        highest = _range_from_1(cfg.get("inputs"), content.name, MOST_COLUMNS)
        if highest is None:
            highest = max((int(p.places.max(initial=-1)) + 1 for p in self._pieces()), default=0)
        if highest < 1:
            raise DataError(f"{self._where}: no row has an input, so there is nothing to learn.")
        self.names = (*(f"x{k + 1}" for k in range(highest)), "label")

    @classmethod
    def like(
        cls, content: FileContent, cfg: Mapping[str, Any], inputs: Sequence[str]
    ) -> LibsvmTable:
        """Return rows for a model whose ``inputs`` are those of such text, labels not needed."""
        reading = {key: cfg.get(key) for key in ("encoding", "zero_based")}
        table = cls(content, {**reading, "inputs": f"1-{len(inputs)}"}, labelled=False)
        if table.names[:-1] != tuple(inputs):
            raise DataError(
                f"{content.name}: the inputs of the model are {few(inputs)}, and those of LIBSVM "
                "text are called x1, x2, ..."
            )
        return table

    def raw(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        d = len(self.names) - 1
        most = max(1, read.CHUNK_CELLS // (d + 1))
        for piece in self._pieces():
            rows = np.arange(piece.first, piece.first + len(piece.labels))
            if piece.places.max(initial=0) >= d:
                n = int(np.argmax(piece.places >= d))
                last = d - 1 + self._lowest
                raise DataError(
                    f"{self._where}: row {rows[piece.at[n]]} has the index "
                    f"{piece.places[n] + self._lowest}, outside {self._lowest}..{last}. Look at "
                    "dataset.inputs."
                )
            targets = self._targets(piece, rows)
            for start in range(0, len(rows), most):
                stop = min(len(rows), start + most)
                these = slice(*np.searchsorted(piece.at, (start, stop)))
                values = np.zeros((stop - start, d + 1))
                values[piece.at[these] - start, piece.places[these]] = piece.values[these]
                values[:, d] = targets[start:stop]
                yield values, rows[start:stop]

    def _targets(self, piece: Piece, rows: np.ndarray) -> np.ndarray:
        classes = self._cfg.get("labels")
        if classes is not None:
            return class_codes(piece.labels, classes, rows, self._where)
        for n, text in enumerate(piece.labels):
            if not _NUMBER.fullmatch(text):
                raise DataError(
                    f"{self._where}: row {rows[n]} has the label {text!r} where a number should "
                    "be. If these are classes, add task=classification."
                )
        return np.array(piece.labels, dtype=np.float64)

    def _pieces(self) -> Iterator[Piece]:
        first = 1
        with as_data_error(self._where):
            rows = words_in(self._content, self._cfg, self._labelled)
            while split := list(itertools.islice(rows, CHUNK_ROWS)):
                yield self._piece(split, first)
                first += len(split)

    def _piece(self, split: list[list[str]], first: int) -> Piece:
        words = [word for row in split for word in row[1:]]
        at = np.repeat(np.arange(len(split)), [len(row) - 1 for row in split])
        joined = " ".join(words)
        if not _PAIRS.fullmatch(joined):
            n = next(n for n, word in enumerate(words) if not _PAIRS.fullmatch(word))
            raise DataError(
                f"{self._where}: row {first + at[n]} has {words[n][:80]!r} where index:value "
                f"should be, the index a whole number from {self._lowest}."
            )
        pairs = np.array(joined.replace(":", " ").split(), dtype=np.float64).reshape(-1, 2)
        places = pairs[:, 0] - self._lowest
        outside = (places < 0) | (places >= MOST_COLUMNS)
        if outside.any():
            n = int(np.argmax(outside))
            written, most = words[n].partition(":")[0][:40], MOST_COLUMNS - 1 + self._lowest
            cure = " If indices count from 0, set dataset.zero_based=true."
            if places[n] >= 0:
                cure = " Hash the columns first: sklearn.feature_extraction.FeatureHasher."
            raise DataError(
                f"{self._where}: row {first + at[n]} has the index {written}, outside "
                f"{self._lowest}..{most:,}.{cure}"
            )
        place = np.sort(at * MOST_COLUMNS + places.astype(np.int64))
        twice = place[1:][np.diff(place) == 0]
        if len(twice):
            row, k = divmod(int(twice[0]), MOST_COLUMNS)
            raise DataError(
                f"{self._where}: row {first + row} has the index {k + self._lowest} twice. Correct "
                "the file."
            )
        return Piece(places.astype(np.int64), pairs[:, 1], at, [row[0] for row in split], first)


class Piece(NamedTuple):
    """Rows as they are written: n pairs of index and value.

    places, values, at
        Input of each pair, from 0, its value, and its row in the piece (n,).
    labels
        One a row.
    first
        Number of the first row.
    """

    places: np.ndarray
    values: np.ndarray
    at: np.ndarray
    labels: list[str]
    first: int


def words_in(
    content: FileContent, cfg: Mapping[str, Any], labelled: bool = True
) -> Iterator[list[str]]:
    """Yield the words of each row, its label first, or 0 if a label is not needed.

    Among rows without a label an empty line is refused: it may be meant for one of zeros.
    """
    n, has_gap = 0, False
    with content.open_lines(cfg.get("encoding") or "utf-8") as file:
        for line in file:
            words = line.partition("#")[0].split()
            n += bool(words)
            if words and ":" in words[0]:
                if labelled:
                    raise DataError(
                        f"{content.name}: row {n} has no label: it begins with the pair "
                        f"{words[0]!r}. Put the target of the row before it."
                    )
                if has_gap:
                    raise DataError(
                        f"{content.name}: an empty line is before row {n}, and rows have no label. "
                        "Write a row of zeros as 1:0, or take the line out."
                    )
                words.insert(0, "0")
            has_gap |= not line.strip()
            if words:
                yield words


_FLOAT = r"(?:[-+]?(?:\d++\.?+\d*+|\.\d++)(?:e[-+]?\d++)?+|[-+]?inf(?:inity)?|nan)"
_NUMBER = re.compile(_FLOAT, re.ASCII | re.IGNORECASE)
# Possessive: a text of a million pairs is passed through once, and nothing is remembered of it.
_PAIRS = re.compile(rf"(?:\d++:{_FLOAT}(?: |$))*+", re.ASCII | re.IGNORECASE)


def _check_keys(cfg: Mapping[str, Any], where: str) -> None:
    """DataError for keys that mean nothing here, and would be passed over."""
    for key in NOT_HERE:
        if cfg.get(key):
            raise DataError(f"{where}: dataset.{key} is not for LIBSVM text, which has no columns.")
    if cfg.get("target") not in (None, "label"):
        raise DataError(
            f"{where}: dataset.target={cfg['target']!r} is not for LIBSVM text, whose target is "
            "the first number of a row. Leave it out."
        )


def _range_from_1(inputs: Any, where: str, most: int) -> int | None:
    """How many inputs "1-123" asks for, at most so many; None: as many as the file has."""
    if inputs is None:
        return None
    match = re.fullmatch(r"\s*1\s*-\s*(\d{1,18})\s*", inputs) if isinstance(inputs, str) else None
    if match is None or not 1 <= int(match[1]) <= most:
        raise DataError(
            f"{where}: dataset.inputs={inputs!r} is not for LIBSVM text: give a range '1-N', N at "
            f"most {most:,}, or null for up to the highest index."
        )
    return int(match[1])
