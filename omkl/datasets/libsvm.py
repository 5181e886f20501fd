"""LIBSVM text as a table: "label index:value index:value ...", a row a line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.datasets.base import DataError, as_data_error
from omkl.datasets.columns import MOST_COLUMNS, Column, class_codes
from omkl.datasets.files import FileContent

CHUNK_ROWS = 4_096
CHUNK_CHARACTERS = 2**24
CHUNK_CELLS = 2**22  # they become dense: 32 MB
NOT_HERE = ("columns", "na_values", "client_column", "prepare")


class Piece(NamedTuple):
    """Rows as they are written: n pairs of index and value.

    places, values (n,): what stands before and after the colon; at (n,): their row in the piece;
    labels: one a row; first: the number of the first row.
    """

    places: np.ndarray
    values: np.ndarray
    at: np.ndarray
    labels: list[str]
    first: int


class LibsvmTable:
    """LIBSVM text: blocks of rows, made dense.

    Indices count from 1 and those that are left out are 0; what follows a # is a comment.
    ``dataset.inputs`` is a range "1-123", or null for up to the highest index, which
    takes a pass over the file. Memory does not grow with it.
    """

    n_rows: int | None = None
    columns: Sequence[Column] = ()

    def __init__(self, content: FileContent, cfg: Mapping[str, Any]) -> None:
        self._content, self._classes = content, cfg.get("labels")
        self._encoding = cfg.get("encoding") or "utf-8"
        _check_keys(cfg, content.name)
        n_inputs = _range_from_1(cfg.get("inputs"), content.name)
        if n_inputs is None:
            n_inputs = max((int(p.places.max(initial=0)) for p in self._pieces()), default=0)
        if n_inputs < 1:
            raise DataError(f"{self._where}: no row has an input, so there is nothing to learn.")
        self.names = (*(f"x{k + 1}" for k in range(n_inputs)), "label")

    @property
    def _where(self) -> str:
        return self._content.name

    def raw(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        d = len(self.names) - 1
        most = max(1, CHUNK_CELLS // (d + 1))
        for piece in self._pieces():
            rows = np.arange(piece.first, piece.first + len(piece.labels))
            if piece.places.max(initial=0) > d:
                n = int(np.argmax(piece.places > d))
                raise DataError(
                    f"{self._where}: row {rows[piece.at[n]]} has the index {piece.places[n]}, "
                    f"outside 1..{d}. Look at dataset.inputs."
                )
            targets = self._targets(piece, rows)
            for start in range(0, len(rows), most):
                stop = min(len(rows), start + most)
                low, high = np.searchsorted(piece.at, (start, stop))
                values = np.zeros((stop - start, d + 1))
                values[piece.at[low:high] - start, piece.places[low:high] - 1] = piece.values[
                    low:high
                ]
                values[:, d] = targets[start:stop]
                yield values, rows[start:stop]

    def _targets(self, piece: Piece, rows: np.ndarray) -> np.ndarray:
        if self._classes is not None:
            cells = np.array(piece.labels, dtype=object)
            return class_codes(cells, self._classes, rows, self._where)
        targets = np.empty(len(rows))
        for n, text in enumerate(piece.labels):
            if not _NUMBER.fullmatch(text):
                raise DataError(
                    f"{self._where}: row {rows[n]} has the label {text!r} where a number should "
                    "be. If these are classes, add task=classification."
                )
            targets[n] = float(text)
        return targets

    def _pieces(self) -> Iterator[Piece]:
        first = 1
        with as_data_error(self._where), self._content.open_lines(self._encoding) as file:
            while lines := _some(file):
                texts = [text for line in lines if (text := line.partition("#")[0].strip())]
                split = [text.split() for text in texts]
                yield self._piece(split, first)
                first += len(split)

    def _piece(self, split: list[list[str]], first: int) -> Piece:
        words = [word for row in split for word in row[1:]]
        at = np.repeat(np.arange(len(split)), [len(row) - 1 for row in split])
        joined = " ".join(words)
        if not _PAIRS.fullmatch(joined):
            n = next(n for n, word in enumerate(words) if not _PAIRS.fullmatch(word))
            raise DataError(
                f"{self._where}: row {first + at[n]} holds {words[n][:80]!r} where index:value "
                "should be, the index a whole number from 1."
            )
        pairs = np.array(joined.replace(":", " ").split(), dtype=np.float64).reshape(-1, 2)
        outside = (pairs[:, 0] < 1) | (pairs[:, 0] > MOST_COLUMNS)
        if outside.any():
            n = int(np.argmax(outside))
            written = words[n].partition(":")[0][:40]
            raise DataError(
                f"{self._where}: row {first + at[n]} has the index {written}, outside "
                f"1..{MOST_COLUMNS:,}."
            )
        index = pairs[:, 0].astype(np.int64)
        place = np.sort(at * (MOST_COLUMNS + 1) + index)
        twice = place[1:][np.diff(place) == 0]
        if len(twice):
            row, k = divmod(int(twice[0]), MOST_COLUMNS + 1)
            raise DataError(
                f"{self._where}: row {first + row} has the index {k} twice. Correct the file."
            )
        return Piece(index, pairs[:, 1], at, [row[0] for row in split], first)


_FLOAT = r"(?:[-+]?(?:\d++\.?+\d*+|\.\d++)(?:e[-+]?\d++)?+|[-+]?inf(?:inity)?|nan)"
_NUMBER = re.compile(_FLOAT, re.ASCII | re.IGNORECASE)
# Possessive: a text of a million pairs is passed through once, and nothing is remembered of it.
_PAIRS = re.compile(rf"(?:\d++:{_FLOAT}(?: |$))*+", re.ASCII | re.IGNORECASE)


def _some(file: Iterator[str]) -> list[str]:
    """The next lines: CHUNK_ROWS of them, fewer where they are long."""
    lines: list[str] = []
    size = 0
    for line in itertools.islice(file, CHUNK_ROWS):
        lines.append(line)
        size += len(line)
        if size > CHUNK_CHARACTERS:
            break
    return lines


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


def _range_from_1(inputs: Any, where: str) -> int | None:
    """How many inputs "1-123" asks for; None: as many as the file has."""
    if inputs is None:
        return None
    match = re.fullmatch(r"\s*1\s*-\s*(\d{1,18})\s*", inputs) if isinstance(inputs, str) else None
    if match is None or not 1 <= int(match[1]) <= MOST_COLUMNS:
        raise DataError(
            f"{where}: dataset.inputs={inputs!r} is not for LIBSVM text: give a range '1-N', N at "
            f"most {MOST_COLUMNS:,}, or null for up to the highest index."
        )
    return int(match[1])
