"""Files of the catalogue, read whole: text, Excel, MATLAB, zip."""

from __future__ import annotations

import hashlib
import io
import math
import re
import zipfile
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from omkl.datasets.base import DataError
from omkl.datasets.columns import require_distinct, require_few
from omkl.datasets.files import FileContent
from omkl.datasets.tables import csv_options, reading, strict_about_lengths

if TYPE_CHECKING:
    import pandas as pd


MOST_UNPACKED = 2**31  # bytes of a file in a zip
MOST_CELLS = 2**25  # of a sheet: it is held in memory


def read_frame(
    content: FileContent, cfg: Mapping[str, Any], n_rows: int | None = None
) -> pd.DataFrame:
    """The file of a catalogue entry as a frame whose index counts rows from 0.

    ``format``: text (columns between blanks), csv, zip (CSV files in a zip, one below the
    other), excel, or mat (arrays X and y, the columns then being x1, x2, ... and y; or the
    one that ``array`` names).
    """
    form = cfg.get("format")
    with reading(content.name), strict_about_lengths():
        if form in ("csv", "text"):
            with content.open_text() as file:
                split_at = {**cfg, "delimiter": None} if form == "text" else cfg
                unpacked = file.read(MOST_UNPACKED + 1)
            if len(unpacked) > MOST_UNPACKED:
                raise DataError(
                    f"{content.name}: more than the {MOST_UNPACKED:,} bytes that are held in "
                    "memory. As dataset=file it is read in chunks."
                )
            frame = _read_csv(io.BytesIO(unpacked), split_at, n_rows)
        elif form == "zip":
            frame = _read_zip(content, cfg)
        elif form == "excel":
            frame = read_excel(content, cfg)
        elif form == "mat":
            frame = _read_mat(content, cfg.get("array"))
        else:
            known = "text, csv, zip, excel, mat, libsvm"
            raise DataError(f"{cfg['name']}: dataset.format={form!r} is none of {known}.")
    names = list(column_names(frame.columns, cfg, content.name))
    if form == "zip" and cfg.get("member_column"):
        names[-1] = cfg["member_column"]
    frame.columns = names
    return frame


def column_names(given: Any, cfg: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Names from ``columns``, else those ``given`` by a header, else x1, x2, ...

    DataError where two columns have one name, with their positions.
    """
    own = cfg.get("columns")
    if own and len(own) != len(given):
        raise DataError(
            f"{where}: dataset.columns names {len(own)} columns, the file has {len(given)}."
        )
    if not own and not cfg.get("header", True):
        require_few(len(given), where)
        return tuple(f"x{k + 1}" for k in range(len(given)))
    words = ["" if name is None else str(name).strip() for name in own or given]
    # A column without a name is called as pandas calls it.
    names = tuple(word or f"Unnamed: {k}" for k, word in enumerate(words))
    require_distinct(names, f"{where}: dataset.columns" if own else where)
    return names


def header_of(first: pd.DataFrame) -> list[str]:
    """The cells of a header that was read as a row of words, before anybody renames one."""
    return [str(cell) for cell in first.iloc[0]] if len(first) else []


def _read_csv(file: IO[bytes], cfg: Mapping[str, Any], n_rows: int | None) -> pd.DataFrame:
    import pandas as pd

    options = csv_options(cfg)
    header = header_of(pd.read_csv(file, **as_words(options))) if cfg.get("header", True) else None
    file.seek(0)
    frame = pd.read_csv(file, nrows=n_rows, **options)
    if header is not None and len(header) == frame.shape[1]:
        frame.columns = header
    return frame


def as_words(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that read the first row alone, as it is written."""
    return {**options, "header": None, "nrows": 1, "dtype": str, "keep_default_na": False}


def _read_zip(content: FileContent, cfg: Mapping[str, Any]) -> pd.DataFrame:
    """The files of ``members``, found by name in any folder of the zip, each with its digest."""
    import pandas as pd

    frames = []
    with content.open() as packed, zipfile.ZipFile(packed) as archive:
        inside = {PurePosixPath(name).name: name for name in archive.namelist()}
        for member, digest in cfg["members"].items():
            if member not in inside:
                there = ", ".join(sorted(inside)) or "nothing"
                raise DataError(f"{cfg['name']}: {content.path} holds no {member}, but {there}.")
            if archive.getinfo(inside[member]).file_size > MOST_UNPACKED:
                raise DataError(
                    f"{cfg['name']}: {member} in {content.path} is larger than the "
                    f"{MOST_UNPACKED:,} bytes that are unpacked."
                )
            unpacked = archive.read(inside[member])
            _check_digest(unpacked, digest, f"{cfg['name']}: {member} in {content.path}")
            frame = _read_csv(io.BytesIO(unpacked), cfg, None)
            if cfg.get("member_column"):  # read_frame gives it its name
                frame[len(frame.columns)] = PurePosixPath(member).stem
            frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def _check_digest(content: bytes, digest: str | None, what: str) -> None:
    """``digest``: sha256:HEX, git:HEX (the id of a git blob), or None for any content."""
    if digest is None:
        return
    kind, _, wanted = digest.partition(":")
    if kind == "git":
        found = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    else:
        found = hashlib.sha256(content).hexdigest()
    if found != wanted:
        raise DataError(
            f"{what} is not the file it should be.\n  expected {digest}\n  found    "
            f"{kind}:{found}\nGet the zip anew; for another version set its digest in "
            "dataset.members to null."
        )


def read_excel(content: FileContent, cfg: Mapping[str, Any]) -> pd.DataFrame:
    """The first sheet of an Excel file, empty cells None."""
    import pandas as pd
    from python_calamine import CalamineWorkbook

    with content.open() as file:
        _require_small_sheets(file, content.name)
        file.seek(0)
        with CalamineWorkbook.from_filelike(file) as workbook:
            cells = workbook.get_sheet_by_index(0).to_python()
    rows = [[None if cell == "" else cell for cell in row] for row in cells]
    if not (cfg.get("header", True) and rows):
        return pd.DataFrame(rows)
    names = ["" if cell is None else _whole(cell) for cell in rows[0]]
    require_few(len(names), content.name)
    return pd.DataFrame(rows[1:], columns=names)


def _whole(cell: Any) -> str:
    """A cell of a header; Excel's numbers are floats, and a year is none."""
    if isinstance(cell, float) and math.isfinite(cell) and cell == int(cell):
        return str(int(cell))
    return str(cell)


def _require_small_sheets(file: IO[bytes], where: str) -> None:
    """DataError for a sheet whose cells would fill the memory: its reader makes room for all.

    One cell in the last row and column is enough for that, so places are looked at.
    """
    if not zipfile.is_zipfile(file):  # .xls, whose sheets are small
        return
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            if name.endswith(".xml"):
                with archive.open(name) as member:
                    _require_small_sheet(member, where)


def _require_small_sheet(member: IO[bytes], where: str) -> None:
    height, columns, unpacked, tail = 0, {b"A"}, 0, b""
    while piece := member.read(2**20):
        unpacked += len(piece)
        found = _PLACE.findall(tail + piece)
        columns.update(column for column, _ in found)
        height = max(height, max((int(row) for _, row in found), default=0))
        tail = piece[-32:]
        width = max(map(_column_number, columns))
        if unpacked > MOST_UNPACKED or height * width > MOST_CELLS:
            raise DataError(
                f"{where}: a sheet of {height:,} rows and {width:,} columns ({unpacked:,} bytes "
                f"so far) is more than the {MOST_CELLS:,} cells and {MOST_UNPACKED:,} bytes that "
                "are read. Save it as CSV."
            )


_PLACE = re.compile(rb"""\br\s*=\s*["']([A-Za-z]{1,4})(\d{1,9})["']""")


def _column_number(letters: bytes) -> int:
    number = 0
    for letter in letters.upper():
        number = 26 * number + letter - ord("A") + 1
    return number


def _read_mat(content: FileContent, array: str | None) -> pd.DataFrame:
    import pandas as pd
    import scipy.io

    with content.open() as file:
        arrays = scipy.io.loadmat(io.BytesIO(file.read()))
    if array is not None:
        if array not in arrays:
            names = ", ".join(name for name in arrays if not name.startswith("__"))
            raise DataError(f"{content.name}: no array {array!r}, but {names}.")
        values = np.atleast_2d(arrays[array].astype(np.float64))
        return pd.DataFrame(values, columns=[f"x{k + 1}" for k in range(values.shape[1])])
    shapes = {name: v.shape for name, v in arrays.items() if isinstance(v, np.ndarray)}
    if "X" not in shapes or "y" not in shapes:
        raise DataError(f"{content.name}: no arrays X and y, but {shapes}.")
    y = arrays["y"].ravel().astype(np.float64)
    x = arrays["X"].astype(np.float64)
    if x.shape[1] == len(y):  # one column a sample
        x = x.T
    if x.shape[0] != len(y):
        raise DataError(f"{content.name}: X {shapes['X']} and y {shapes['y']} do not go together.")
    frame = pd.DataFrame(x, columns=[f"x{k + 1}" for k in range(x.shape[1])])
    frame["y"] = y
    return frame
