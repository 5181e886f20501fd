"""Define and check the valid settings of a data set and its stream, before a file is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from omkl.datasets.base import MOST_DELAY, NAME, DataError, is_name, is_relative_file
from omkl.utils.constraints import is_number, is_text, is_whole, is_writable
from omkl.utils.sections import Accepted, Content, Model, Section, read

# Coordinates of all centres of a synthetic stream: with more its calibration takes long.
MOST_COORDINATES = 20_000
MOST_LAGS = 1_000  # each lag is a column of every chunk of rows
Task = Literal["regression", "classification"]
Whole = Annotated[int, Field(ge=1)]
Finite = Annotated[Any, Accepted(is_number, "a number")]


def _is_cell(value: Any) -> bool:
    return (isinstance(value, str) and is_writable(value)) or is_number(value)


def _is_column(value: Any) -> bool:
    return (isinstance(value, str) and is_writable(value)) or is_whole(value)


def _is_list(value: Any, holds: Callable[[Any], bool]) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and all(map(holds, value))


def _is_season(value: Any) -> bool:
    return is_whole(value) and value >= 0


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_delimiter(value: Any) -> bool:
    if value == "auto":
        return True
    return isinstance(value, str) and len(value) == 1 and not (value.isalnum() or value in '"\r\n')


def _is_declared(value: Any) -> bool:
    """Return whether a value is a mapping of column names to declarations."""
    return isinstance(value, Mapping) and all(
        _is_cell(name) and isinstance(declared, str) for name, declared in value.items()
    )


def _is_encoding(value: Any) -> bool:
    try:
        return isinstance(value, str) and isinstance("".encode(value), bytes)
    except (LookupError, ValueError):
        return False


Cell = Annotated[Any, Accepted(_is_cell, "a text or a number")]
Column = Annotated[Any, Accepted(_is_column, "a column, by its name or its position")]
Columns = Annotated[
    Any,
    Accepted(
        lambda value: _is_column(value) or _is_list(value, _is_column),
        "columns by name or position, or a range '3-23', or a list of these",
    ),
]
Text = Annotated[Any, Accepted(is_text, "a text")]


class Drop(Section):
    column: str
    equals: Cell


class Keep(Section):
    column: str
    at_most: Finite


class RowsEach(Section):
    column: str
    rows: Whole
    values: int | None = None


class OneHot(Section):
    all_but: str


class ScaleInputs(Section):
    shift: Finite
    divide: Annotated[
        Any, Accepted(lambda value: is_number(value) and value != 0, "a number other than 0")
    ]


class ScaleColumns(Section):
    low: Finite
    high: Finite


class Steps(Section):
    """Steps of preparation, see ``omkl.datasets.prepare``."""

    first_rows: Whole | None = None
    drop: Drop | None = None
    keep: Keep | None = None
    complete: bool | None = None
    rows_each: RowsEach | None = None
    codes: list[str] | None = None
    time_of_day: str | None = None
    one_hot: OneHot | None = None
    scale_inputs: ScaleInputs | None = None
    scale_columns: ScaleColumns | None = None


class Published(Section):
    """Clients and rounds of the published federation of a data set."""

    clients: Whole | None = None
    rounds: Whole | None = None


class Spectrum(Section):
    """Kernel of a synthetic stream: a family that has random features, and a bandwidth."""

    # Copied from core.kernels, which imports the compiler: ``--help`` must not import it.
    family: Literal["gaussian", "laplacian", "cauchy", "matern32", "matern52"]
    bandwidth: Annotated[float, Field(ge=1e-100, le=1e100)]


class Dataset(Section):
    """Settings of a data set: an entry of the catalogue, a user's table, or a synthetic stream."""

    name: Annotated[Any, Accepted(is_name, NAME)]
    task: Task | None = None
    path: Annotated[Any, Accepted(_is_path, "the path of a file")] = None
    file: Annotated[
        Any,
        Accepted(
            is_relative_file,
            "the path of a file below a data folder: names of letters, digits, '-', '_' and '.', "
            "at most 80, none of them beginning with a dot, with / between them",
        ),
    ] = None
    format: Literal["csv", "zip", "excel", "mat", "libsvm"] | None = None
    encoding: Annotated[
        Any,
        Accepted(_is_encoding, "an encoding of text that Python knows, such as utf-8 or latin-1"),
    ] = None
    delimiter: Annotated[
        Any, Accepted(_is_delimiter, "auto, null for any run of spaces, or one character")
    ] = None
    decimal: Annotated[
        Any, Accepted(lambda value: value in ("auto", ".", ","), "auto, '.' or ','")
    ] = None
    header: bool | Annotated[int, Field(ge=1, le=9)] | None = None
    columns: Annotated[
        Any,
        Accepted(
            lambda value: _is_declared(value) or _is_list(value, _is_column),
            "what columns are, {shop: category, when: date dayfirst}, or names of all columns of a "
            "file: [a,b,c]",
        ),
    ] = None
    skip_lines: Annotated[int, Field(ge=0)] | None = None
    zero_based: bool | None = None
    target: Annotated[
        Any,
        Accepted(
            _is_column,
            "one column, by its name or its position (of several columns each has a run: "
            "-m dataset.target=a,b)",
        ),
    ] = None
    inputs: Columns = None
    exclude: Columns = None
    labels: Annotated[
        Any,
        Accepted(
            lambda value: isinstance(value, list | tuple) or value == "all",
            "a list of what stands in the target's column, or all, however many that are",
        ),
    ] = None
    missing: Literal["error", "mean", "drop"] | None = None
    na_values: Annotated[
        Any,
        Accepted(
            lambda value: _is_cell(value) or _is_list(value, _is_cell),
            "a cell that stands for a missing value, or a list of these",
        ),
    ] = None
    series: Column = None
    max_series: Whole | None = None
    season: Annotated[
        Any,
        Accepted(
            lambda value: _is_season(value) or _is_list(value, _is_season),
            "rows of a season, such as 7, or several, [24, 168]; 0: none; null: found",
        ),
    ] = None
    share_weights: bool | None = None
    share_scaling: bool | None = None
    client_column: Column = None
    sites: Column = None
    array: Annotated[Any, Accepted(is_text, "the name of an array")] = None
    member_column: Text = None
    members: Content | None = None
    prepare: Steps | None = None
    rows: Whole | None = None
    federated: Published | None = None
    sha256: Annotated[Any, Accepted(is_text, "64 hex digits")] = None
    # Settings of a synthetic stream, see ``Synthetic``.
    n_centres: Any = None
    noise: Any = None
    seed: Any = None
    kernel: Any = None
    kernel_after: Any = None
    change_at: Any = None
    # Descriptions, which change no number.
    title: Any = None
    notes: Any = None
    licence: Any = None
    citation: Any = None
    uci: Any = None
    url: Annotated[Any, Accepted(is_text, "an address")] = None
    member: Annotated[Any, Accepted(is_text, "the name of a file in a zip")] = None
    by_hand: Any = None

    @model_validator(mode="before")
    @classmethod
    def _without_null(cls, content: Any) -> Any:
        if not isinstance(content, Mapping):
            return content
        return {key: value for key, value in content.items() if value is not None}


class Synthetic(Section):
    """Settings of a synthetic stream, see ``omkl.datasets.synthetic``."""

    model_config = ConfigDict(extra="ignore")

    rows: Annotated[int, Field(ge=2, le=10**9)]
    inputs: Annotated[int, Field(ge=1, le=1_000)]
    n_centres: Annotated[int, Field(ge=1, le=MOST_COORDINATES)]
    noise: Annotated[float, Field(ge=0, le=1e100)]
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    kernel: Spectrum
    kernel_after: Spectrum | None = None


class Stream(Section):
    """Order, scaling, lags and delay of the streamed rows."""

    limit: Annotated[int, Field(ge=2)] | None = Field(None, description="rows at most; null: all")
    scaling: Literal["columns", "whole", "none"] | None = Field(
        None,
        description="columns: standardised by the rows so far; whole: to [0, 1] by all rows; null: "
        "columns for your own files, else whole",
    )
    lags: int = Field(0, ge=0, le=MOST_LAGS, description="past targets that are inputs too")
    delay: int = Field(
        0,
        ge=0,
        le=MOST_DELAY,
        description="a target is learned so many rows after its prediction; 0: before the next row",
    )
    horizon: int = Field(
        0,
        ge=0,
        le=MOST_DELAY,
        description="rows between a row and the one whose target it predicts",
    )
    series_delay: Literal["date", 0] = Field(
        "date",
        description="of auto with series=: date, all rows of a date are predicted before one of "
        "them is learned; 0, each row is learned before the next is predicted",
    )
    order: Literal["file", "shuffled"] | None = Field(
        None,
        description="file, or shuffled by the seed; null: file for your own files, shuffled in a "
        "classification of the catalogue",
    )


def check_dataset(cfg: Mapping[str, Any]) -> None:
    """Check the settings of a data set. Raises DataError naming key, value and valid values."""
    _read(Dataset, cfg, "dataset")
    if not {"file", "path", "n_centres"} & set(cfg):
        raise DataError(
            f"dataset.name={cfg['name']}: a data set needs one of the keys 'file' (an entry of the "
            "catalogue), 'path' (an own table) or 'n_centres' (synthetic)."
        )
    if cfg.get("delimiter") == cfg.get("decimal") != "auto" and cfg.get("decimal"):
        raise DataError(
            f"dataset.delimiter and dataset.decimal are both {cfg['decimal']!r}: they must differ."
        )


def check_stream(cfg: Mapping[str, Any]) -> None:
    """Check the options of a stream. Raises DataError as ``check_dataset`` does."""
    _read(Stream, cfg, "stream")


def read_synthetic(cfg: Mapping[str, Any]) -> Synthetic:
    """Return the typed settings of a synthetic stream. Raises DataError as ``check_dataset``."""
    return _read(Synthetic, cfg, "dataset")


def _read(model: type[Model], cfg: Mapping[str, Any], where: str) -> Model:
    try:
        return read(model, cfg, where)
    except ValueError as error:
        raise DataError(f"{error}.") from None
