"""Read LIBSVM text as a table. A line is a row: "target index:value index:value ..."."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from omkl.datasets import read
from omkl.datasets.base import MOST_COLUMNS, DataError, Piece, RowCount, as_data_error
from omkl.datasets.cells import NumberFormat
from omkl.datasets.columns import Column, class_codes
from omkl.datasets.files import FileContent
from omkl.utils.wording import few

CHUNK_ROWS = 1_024
NOT_HERE = ("columns", "exclude", "na_values", "series", "client_column", "prepare")


class LibsvmTable:
    """Table of the rows in LIBSVM text. Rows are read in pieces, so memory stays bounded.

    An input whose index is missing in a row is 0, and # begins a comment. ``dataset.inputs`` is a
    range such as "1-123". If it is null, one pass over the file finds the highest index.

    Parameters
    ----------
    content, cfg
        The file, and the settings of the data set. If ``zero_based`` is true, indices begin with 0,
        otherwise with 1.
    labelled
        Whether rows must have targets. If False, rows may or may not have one.
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
            highest = max((max(inputs, default=-1) + 1 for _, inputs in self._rows()), default=0)
        if highest < 1:
            raise DataError(f"{self._where}: no row has an input, so there is nothing to learn.")
        self.names = (*(f"x{k + 1}" for k in range(highest)), "label")

    @classmethod
    def like(
        cls, content: FileContent, cfg: Mapping[str, Any], inputs: Sequence[str]
    ) -> LibsvmTable:
        """Return a table with the inputs of a model. Rows need no target.

        Parameters
        ----------
        content
            The file.
        cfg
            Settings of the data set; ``encoding`` and ``zero_based`` are used.
        inputs
            Names of the model's inputs, x1, x2, ...

        Raises
        ------
        DataError
            The model has other inputs.
        """
        reading = {key: cfg.get(key) for key in ("encoding", "zero_based")}
        table = cls(content, {**reading, "inputs": f"1-{len(inputs)}"}, labelled=False)
        if table.names[:-1] != tuple(inputs):
            raise DataError(
                f"{content.name}: the inputs of the model are {few(inputs)}, and those of LIBSVM "
                "text are called x1, x2, ..."
            )
        return table

    def raw(self) -> Iterator[Piece]:
        d, classes = len(self.names) - 1, self._cfg.get("labels")
        size = max(1, min(CHUNK_ROWS, read.CHUNK_CELLS // (d + 1)))
        rows = enumerate(self._rows(), start=1)
        while piece := list(itertools.islice(rows, size)):
            values, numbers = np.zeros((len(piece), d + 1)), np.array([n for n, _ in piece])
            for k, (n, (_, inputs)) in enumerate(piece):
                if inputs and max(inputs) >= d:
                    raise self._outside(n, max(inputs), d, "Look at dataset.inputs.")
                values[k, list(inputs)] = list(inputs.values())
            labels = [label for _, (label, _) in piece]
            if classes is None:
                values[:, d] = list(map(self._target, numbers, labels))
            else:
                values[:, d] = class_codes(labels, classes, numbers, self._where)
            yield Piece(values, numbers)

    def _target(self, row: int, text: str) -> float:
        number = NumberFormat().read(text)
        if number is None:
            raise DataError(
                f"{self._where}: row {row} has the label {text!r} where a number should be. If "
                "these are classes, add task=classification."
            )
        return number

    def _rows(self) -> Iterator[tuple[str, dict[int, float]]]:
        """Yield the target of each row, and its inputs by index; the first index is 0."""
        with as_data_error(self._where):
            rows = words_in(self._content, self._cfg, self._labelled)
            for row, (label, *pairs) in enumerate(rows, start=1):
                inputs: dict[int, float] = {}
                for pair in pairs:
                    index, _, text = pair.partition(":")
                    try:
                        inputs[int(index) - self._lowest] = float(text)
                    except ValueError:
                        raise DataError(
                            f"{self._where}: row {row} has {pair[:80]!r} where index:value should "
                            f"be, the index a whole number from {self._lowest}."
                        ) from None
                if len(inputs) < len(pairs):
                    raise DataError(
                        f"{self._where}: row {row} has an index twice. Correct the file."
                    )
                if inputs and min(inputs) < 0:
                    cure = "If indices count from 0, set dataset.zero_based=true."
                    raise self._outside(row, min(inputs), MOST_COLUMNS, cure)
                if inputs and max(inputs) >= MOST_COLUMNS:
                    cure = "Hash the columns first: sklearn.feature_extraction.FeatureHasher."
                    raise self._outside(row, max(inputs), MOST_COLUMNS, cure)
                yield label, inputs

    def _outside(self, row: int, place: int, most: int, cure: str) -> DataError:
        low = self._lowest
        return DataError(
            f"{self._where}: row {row} has the index {place + low}, outside "
            f"{low}..{most - 1 + low:,}. {cure}"
        )


def words_in(
    content: FileContent, cfg: Mapping[str, Any], labelled: bool = True
) -> Iterator[list[str]]:
    """Yield the words of each row. The first word is the target, or "0" if there is no target.

    Parameters
    ----------
    content
        The file.
    cfg
        Settings of the data set; ``encoding`` is used.
    labelled
        Whether every row must have a target. If False, an empty line before a row without a target
        is an error, because it may be a row of zeros.

    Raises
    ------
    DataError
        A row has no target, or an empty line is ambiguous.
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


def _check_keys(cfg: Mapping[str, Any], where: str) -> None:
    """Raise DataError for settings that LIBSVM text does not use."""
    for key in NOT_HERE:
        if cfg.get(key):
            raise DataError(f"{where}: dataset.{key} is not for LIBSVM text, which has no columns.")
    if cfg.get("target") not in (None, "label"):
        raise DataError(
            f"{where}: dataset.target={cfg['target']!r} is not for LIBSVM text, whose target is "
            "the first number of a row. Leave it out."
        )


def _range_from_1(inputs: Any, where: str, most: int) -> int | None:
    """Return N for a range "1-N", or None if ``inputs`` is None. Raises DataError if N > most."""
    if inputs is None:
        return None
    match = re.fullmatch(r"\s*1\s*-\s*(\d{1,18})\s*", inputs) if isinstance(inputs, str) else None
    if match is None or not 1 <= int(match[1]) <= most:
        raise DataError(
            f"{where}: dataset.inputs={inputs!r} is not for LIBSVM text: give a range '1-N', N at "
            f"most {most:,}, or null for up to the highest index."
        )
    return int(match[1])
