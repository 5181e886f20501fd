"""Files of the catalogue, read whole: text, Excel, MATLAB, zip."""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl.datasets.stream import DataError
from omkl.datasets.tables import csv_options, reading, strict_about_lengths

if TYPE_CHECKING:
    import pandas as pd


def read_frame(path: Path, cfg: Mapping[str, Any], n_rows: int | None = None) -> pd.DataFrame:
    """The file of a catalogue entry as a frame whose index counts rows from 0.

    ``format``: text (columns between blanks), csv, zip (CSV files in a zip, one below the
    other), excel, or mat (arrays X and y, the columns then being x1, x2, ... and y; or the
    one that ``array`` names).
    """
    form = cfg.get("format")
    if form in ("csv", "text"):
        import pandas as pd

        options = csv_options({**cfg, "delimiter": None} if form == "text" else cfg)
        with reading(path), strict_about_lengths():
            frame = pd.read_csv(path, nrows=n_rows, **options)
    elif form == "zip":
        frame = _read_zip(path, cfg)
    elif form == "excel":
        frame = read_excel(path, cfg)
    elif form == "mat":
        frame = _read_mat(path, cfg.get("array"))
    else:
        known = "text, csv, zip, excel, mat, libsvm"
        raise DataError(f"{cfg['name']}: dataset.format={form!r} is none of {known}.")
    names = list(column_names(frame, cfg, path.name))
    if form == "zip" and cfg.get("member_column"):
        names[-1] = cfg["member_column"]
    frame.columns = names
    return frame


def column_names(frame: pd.DataFrame, cfg: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Names from ``columns``, else from the header, else x1, x2, ..."""
    given = cfg.get("columns")
    if given:
        if len(given) != frame.shape[1]:
            raise DataError(
                f"{where}: dataset.columns names {len(given)} columns, "
                f"the file has {frame.shape[1]}."
            )
        return tuple(str(name).strip() for name in given)
    if not cfg.get("header", True):
        return tuple(f"x{k + 1}" for k in range(frame.shape[1]))
    return tuple(str(name).strip() for name in frame.columns)


def _read_zip(path: Path, cfg: Mapping[str, Any]) -> pd.DataFrame:
    """The files of ``members``, found by name in any folder of the zip, each with its digest."""
    import pandas as pd

    frames = []
    try:
        with zipfile.ZipFile(path) as archive:
            inside = {PurePosixPath(name).name: name for name in archive.namelist()}
            for member, digest in cfg["members"].items():
                if member not in inside:
                    there = ", ".join(sorted(inside)) or "nothing"
                    raise DataError(f"{cfg['name']}: {path} holds no {member}, but {there}.")
                content = archive.read(inside[member])
                _check_digest(content, digest, f"{cfg['name']}: {member} in {path}")
                with reading(path), strict_about_lengths():
                    frame = pd.read_csv(io.BytesIO(content), **csv_options(cfg))
                if cfg.get("member_column"):  # read_frame gives it its name
                    frame[len(frame.columns)] = PurePosixPath(member).stem
                frames.append(frame)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise DataError(f"{path.name}: cannot be read, it may be damaged: {error}") from error
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


def read_excel(path: Path, cfg: Mapping[str, Any]) -> pd.DataFrame:
    """The first sheet of an Excel file, empty cells None."""
    import pandas as pd
    from python_calamine import CalamineError, CalamineWorkbook

    try:
        with CalamineWorkbook.from_path(path) as workbook:
            cells: Iterable[list[Any]] = workbook.get_sheet_by_index(0).to_python()
    except CalamineError as error:
        raise DataError(f"{path.name}: cannot be read, it may be damaged: {error}") from error
    rows = [[None if cell == "" else cell for cell in row] for row in cells]
    if cfg.get("header", True) and rows:
        return pd.DataFrame(rows[1:], columns=rows[0])
    return pd.DataFrame(rows)


def _read_mat(path: Path, array: str | None) -> pd.DataFrame:
    import pandas as pd
    import scipy.io

    arrays = scipy.io.loadmat(path)
    if array is not None:
        if array not in arrays:
            names = ", ".join(name for name in arrays if not name.startswith("__"))
            raise DataError(f"{path.name}: no array {array!r}, but {names}.")
        values = arrays[array].astype(np.float64)
        return pd.DataFrame(values, columns=[f"x{k + 1}" for k in range(values.shape[1])])
    shapes = {name: v.shape for name, v in arrays.items() if isinstance(v, np.ndarray)}
    if "X" not in shapes or "y" not in shapes:
        raise DataError(f"{path.name}: no arrays X and y, but {shapes}.")
    y = arrays["y"].ravel().astype(np.float64)
    x = arrays["X"].astype(np.float64)
    if x.shape[1] == len(y):  # one column a sample
        x = x.T
    if x.shape[0] != len(y):
        raise DataError(f"{path.name}: X {shapes['X']} and y {shapes['y']} do not go together.")
    frame = pd.DataFrame(x, columns=[f"x{k + 1}" for k in range(x.shape[1])])
    frame["y"] = y
    return frame
