"""``omkl-predict``: predict the rows of a file with a saved learner. Nothing is learned."""

from __future__ import annotations

import argparse
import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from omkl.commands import terminal
from omkl.datasets import notices, tables
from omkl.datasets.base import Chunk
from omkl.datasets.columns import columns_described, known_ahead
from omkl.datasets.stream import ahead, ahead_in_series
from omkl.online import learner as online
from omkl.online import model_file
from omkl.online.learner import OnlineLearner
from omkl.online.panel import Panel
from omkl.online.panel import load as load_panel
from omkl.runs.writing import MODEL
from omkl.utils.disk import write_atomically
from omkl.utils.wording import few, warn

EPILOG = """\
Each row is predicted as if it came next. Columns are found by name and
encoded as when the model learned. The target is not needed and not read. A
new category is 0 in all inputs of its column. A new series is predicted
without past targets, from all others by auto, and has no interval. Both are
reported on standard error. Rows of LIBSVM text have all a target, or none:
they then begin with a pair index:value.

columns: row (from 1), y_hat, spread (standard deviation), low and high
(interval). Classes: row, class, probabilities. Several outputs: y_hat(NAME)
and so on. Series: row, their column, y_hat, low, high. Without series, the
last column, far_out, names inputs beyond 4 deviations of earlier rows,
separated by semicolons, unless stream.scaling=none. A model with
stream.horizon=h predicts the target of the row h further down, target_row,
and needs its dates and known columns in the file.

exit status: 0 all well, 1 the model or the file cannot be used, 2 wrong usage
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``omkl-predict`` with ``argv`` (without the program's name). Return the exit status."""
    arguments = _parser().parse_args(argv)

    def act() -> int:
        path = _path_of(arguments.model)
        model = model_file.read(path)
        if model.panel is None:
            learner = online.load(path)
            if column := learner.settings.series:
                pieces = _of_series(learner, column, learner.series, model.columns, arguments.file)
            else:
                pieces = _predicted(learner, model.columns, arguments.file)
        else:
            panel = load_panel(path)
            if panel.series is None:
                raise ValueError(
                    "the panel was made without a column of series: predict with it from Python"
                )
            pieces = _of_series(panel, panel.series, panel.names, model.columns, arguments.file)
        if arguments.output is None:
            terminal.write_data(pieces)
        else:
            write_atomically(arguments.output, pieces)
        return 0

    # DataError and ModelError are ValueErrors.
    return terminal.exit_status("omkl-predict", act, output=arguments.output)


def _path_of(given: str) -> Path:
    """Return the path of a model file. ``given`` is this path, or the folder of a run."""
    try:
        path = Path(given).expanduser()
        is_folder = path.is_dir()
    except (OSError, RuntimeError) as error:  # a name that is too long, or an unknown user in ~user
        raise ValueError(f"{given} is no file and no folder: {error}") from None
    if is_folder and not (path / MODEL).is_file():
        raise ValueError(f"{given} has no {MODEL}: a run keeps its learner with model=true")
    return path / MODEL if is_folder else path


def _parser() -> argparse.ArgumentParser:
    parser = terminal.parser(
        "omkl-predict", "Predictions of a model that omkl-run kept with model=true, as CSV.", EPILOG
    )
    parser.add_argument("model", help="model.npz, or the run folder that has one")
    parser.add_argument("file", help="a table with the columns that the model learned from")
    parser.add_argument("-o", "--output", type=Path, help="write here in place of the terminal")
    return parser


def _predicted(learner: OnlineLearner, columns: dict[str, Any] | None, file: str) -> Iterator[str]:
    """Return pieces of the output of a learner without series, as CSV text.

    ``columns`` has the encodings of the columns, from the learner's model file.
    """
    described = (columns or {}).get("columns")
    cfg = {**(columns or {}).get("reading", {}), "path": file}
    tells_far, horizon = learner.settings.scaling == "columns", (columns or {}).get("horizon") or 0
    inputs = np.array(learner.inputs, dtype=object)
    words: dict[str, Counter[str]] = {}
    pieces = tables.inputs_in(cfg, described, learner.inputs, new_words=words)

    def blocks() -> Iterator[list[np.ndarray]]:
        for X, _, rows, *_ in _with_known_ahead(pieces, columns or {}, ahead):
            texts = [";".join(inputs[row]) for row in learner.far_out(X)] if tells_far else None
            far = [] if texts is None else [np.array(texts, dtype=object)]
            yield [rows, *[rows + horizon] * bool(horizon), *_columns(learner, X), *far]

    names = ["row", *["target_row"] * bool(horizon), *_names(learner)]
    return _csv([*names, *["far_out"] * tells_far], blocks(), words)


def _csv(
    names: Sequence[str], blocks: Iterable[Sequence[np.ndarray]], words: dict[str, Counter[str]]
) -> Iterator[str]:
    """Yield blocks of columns as CSV text, then warn of new categories.

    ``words`` counts the new categories of each column. The header is yielded with the first block,
    so nothing is printed if the file cannot be read.
    """
    header = csv_text([names])
    for columns in blocks:
        yield header + csv_text(np.column_stack([column.astype(object) for column in columns]))
        header = ""
    yield header
    for notice in notices.of_new_categories(words, "learning with columns='{}: text'"):
        warn(notice, "omkl-predict")


def _with_known_ahead(
    pieces: Iterable[tuple[np.ndarray, np.ndarray, Any]],
    columns: dict[str, Any],
    shifted: Callable[[Iterable[Chunk], int, np.ndarray], Iterator[Chunk]],
) -> Iterator[Chunk]:
    """Yield the rows of a file, with numbers of rows as ``y`` in place of targets.

    ``y`` is the number of the row whose target is predicted. Without a horizon this is the row
    itself. With a horizon it is a later row, and the inputs that are known ahead are taken from the
    later row. If the file lacks the later row, ``y`` is NaN, and the user is warned if there are
    inputs known ahead. ``pieces`` are blocks of inputs, row numbers and series. ``shifted`` is
    ``stream.ahead``, or the function that replaces it for rows of several series.
    """
    chunks: Iterator[Chunk]
    chunks = (Chunk(X, rows.astype(float), rows, series=series) for X, rows, series in pieces)
    horizon = columns.get("horizon")
    if not horizon:
        yield from chunks
        return
    known = known_ahead(columns_described(columns["columns"]), columns["reading"].get("columns"))
    lacking: list[int] = []
    for chunk in shifted(chunks, horizon, known):
        lacking += chunk.rows[np.isnan(chunk.y)].tolist()
        yield chunk
    if len(known) and lacking:
        warn(
            f"{len(lacking):,} rows, the last being row {lacking[-1]:,}, lack the dates and known "
            f"columns of the row {horizon} further down: append the coming rows to the file",
            "omkl-predict",
        )


def _of_series(
    model: OnlineLearner | Panel,
    column: str,
    names: Sequence[int | str],
    columns: dict[str, Any] | None,
    file: str,
) -> Iterator[str]:
    """Return pieces of the output of a model with series, as CSV text.

    Parameters
    ----------
    model, names
        Model, and the series that it has learned.
    column
        Name of the column with the series.
    columns
        Encodings in the model file.
    file
        Path of the file to predict.
    """
    described = (columns or {}).get("columns")
    cfg = {**(columns or {}).get("reading", {}), "path": file, "series": column}
    has = model.settings.interval is not None
    known, whole = set(names), all(isinstance(name, int) for name in names)
    words: dict[str, Counter[str]] = {}
    pieces = tables.inputs_in(cfg, described, model.settings.inputs, whole, words)

    horizon = (columns or {}).get("horizon") or 0

    def blocks() -> Iterator[list[np.ndarray]]:
        new = dict[Any, None]()
        for chunk in _with_known_ahead(pieces, columns or {}, ahead_in_series):
            X, series = chunk.x, chunk.series
            assert series is not None  # the settings name their column
            new.update(dict.fromkeys(name for name in series if name not in known))
            ends = list(model.predict_interval(X, series=series).T) if has else []
            later = [_whole(chunk.y)] * bool(horizon)
            yield [chunk.rows, *later, series, model.predict(X, series=series), *ends]
        if new:
            warn(f"{len(new):,} series that the model has not: {few(new)}", "omkl-predict")

    later = ["target_row"] * bool(horizon)
    return _csv(["row", *later, column, "y_hat", *["low", "high"] * has], blocks(), words)


def _whole(rows: np.ndarray) -> np.ndarray:
    """Return row numbers (n,) as integers for CSV text, with "" in place of NaN."""
    return np.array(["" if np.isnan(row) else int(row) for row in rows], dtype=object)


def _names(learner: OnlineLearner) -> list[str]:
    if learner.classes:
        names = learner.classes if learner.algorithm.probabilities else ()
        return ["class", *(f"p({name})" for name in names)]
    ends = ["low", "high"] if learner.settings.interval is not None else []
    columns = ["y_hat", *(["spread"] if learner.algorithm.has_spread else []), *ends]
    if learner.outputs:
        return [f"{column}({output})" for column in columns for output in learner.outputs]
    return columns


def _columns(learner: OnlineLearner, X: np.ndarray) -> list[np.ndarray]:
    """Return the columns of the output, (n,) or (n, m) each, in the order of ``_names``."""
    if learner.classes:
        shares = learner.predict_proba(X).T if learner.algorithm.probabilities else ()
        return [learner.predict(X), *shares]
    spread = learner.algorithm.has_spread
    columns = list(learner.predict(X, return_std=True)) if spread else [learner.predict(X)]
    if learner.settings.interval is not None:
        columns += list(np.moveaxis(learner.predict_interval(X), -1, 0))
    return columns


def csv_text(lines: Iterable[Sequence[Any]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(lines)
    return buffer.getvalue()
