"""Convert the arguments of ``omkl.run`` and ``omkl.sweep`` to settings.

A data frame is stored as a Parquet file in a folder named by the digest of its content. A run on an
equal data frame is therefore found again, like a run on any other file.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omkl.config import schema
from omkl.config.overrides import key_of, parse, read_jobs
from omkl.config.schema import Settings
from omkl.datasets.columns import require_distinct
from omkl.datasets.read import READERS
from omkl.online.settings import parts_of
from omkl.utils import registry
from omkl.utils.disk import write_atomically

if TYPE_CHECKING:
    import pandas as pd

FRAMES = "frames"  # folder below outputs with the stored data frames
QUIET = {"figures": False, "tracking": "none"}
SECTIONS = {*schema.GROUPS, *(k for k, value in schema.DEFAULTS.items() if isinstance(value, dict))}
# Settings that name columns of a data frame.
NAMING = ("target", "inputs", "exclude", "series", "client_column", "columns")


def read_run(what: Sequence[Any], settings: Mapping[str, Any]) -> Settings:
    """Return the settings for the arguments of ``omkl.run``.

    ``what`` are the positional arguments: an algorithm, a data set, and overrides. ``settings`` are
    the keywords. Raises ValueError naming a setting that is given twice or invalid.
    """
    texts = [one for one in what if isinstance(one, str) and is_override(one)]
    chosen = [one for one in what if not (isinstance(one, str) and is_override(one))]
    if len(chosen) > 2:
        raise ValueError(
            f"{len(chosen)} things by position: an algorithm and a data set are the two; "
            "settings are keywords, seeds=3, or texts, 'algorithm.eta=0.1'"
        )
    n_algorithms = 0 if len(chosen) == 1 and is_data(chosen[0]) else 1
    (made,) = read(chosen[:n_algorithms], chosen[n_algorithms:], texts, settings)
    return made


def read(
    algorithms: Sequence[Any],
    datasets: Sequence[Any],
    texts: Sequence[str],
    settings: Mapping[str, Any],
    sweeps: bool = False,
) -> list[Settings]:
    """Return the settings of one job per algorithm, data set, and combination of values.

    Parameters
    ----------
    algorithms, datasets
        Algorithms and data sets. If empty, ``texts``, ``settings`` or the defaults choose them.
    texts
        Settings as on the command line, ``algorithm.M=5``.
    settings
        Settings by their names, nested or dotted. ``target`` is short for ``dataset.target``.
    sweeps
        Whether a list in ``settings`` contains several values, each for a separate job.

    Raises
    ------
    ValueError
        Names a setting that is given twice or invalid.
    """
    values = dict(_values(settings, sweeps))
    typed = {key_of(text) for text in texts}
    for key, several in (("algorithm", algorithms), ("dataset", datasets)):
        if several and key in (typed | values.keys()):
            raise ValueError(f"the {key} is given twice: by position, and as {key}=")
    for name in algorithms:
        if not isinstance(name, str):
            raise ValueError(
                f"an algorithm is a name, as in omkl.run('auto', data); got {type(name)}"
            )
        values.setdefault("algorithm", []).append(name)
    for key, value in QUIET.items():
        if key not in typed:
            values.setdefault(key, [value])
    outputs = values["outputs"][0] if "outputs" in values else _outputs_in(texts)
    jobs: dict[str, Settings] = {}
    for data in datasets or [None]:
        of_data = values if data is None else _of_dataset(data, values, Path(outputs))
        found = read_jobs(texts, sweep=sweeps, values=of_data)
        jobs |= {made.key(): made for made in found.settings}
    return list(jobs.values())


def _values(settings: Mapping[str, Any], sweeps: bool) -> Iterator[tuple[str, list[Any]]]:
    """Yield the dotted key and the list of values of each setting."""
    for name, given in settings.items():
        of_section = name in SECTIONS and isinstance(given, Mapping)
        inside = {f"{name}.{key}": value for key, value in given.items()} if of_section else {}
        for key, value in (inside or {name: given}).items():
            if key == "outputs":  # expand ~, as a shell would
                value = Path(value).expanduser()
            several = value if sweeps and isinstance(value, list | tuple) else [value]
            if key in ("kernels", "kernels.parts"):
                key, several = _kernels(several)
            if not several:
                raise ValueError(f"{key}=[]: a sweep over no values runs nothing")
            yield "dataset.target" if key == "target" else key, [_plain(one) for one in several]


def _plain(value: Any) -> Any:
    """Convert a value, such as a NumPy array, a tuple or a path, to types that YAML can store."""
    if isinstance(value, Mapping):
        return {_plain(key): _plain(given) for key, given in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, Path) else value


def _outputs_in(texts: Sequence[str]) -> str:
    typed = [text for text in texts if key_of(text) == "outputs"]
    return str(parse(typed[-1]).value() if typed else "outputs")


def _kernels(several: Sequence[Any]) -> tuple[str, list[Any]]:
    """Return the key and the values of the setting for kernels.

    The key is "kernels" for names of dictionaries, and "kernels.parts" for lists of kernels.
    """
    if all(isinstance(one, str) for one in several):
        return "kernels", list(several)
    if all(isinstance(one, list | tuple) for one in several):
        return "kernels.parts", [parts_of(one) for one in several]
    raise ValueError(
        "kernels are the name of a dictionary or a list of kernels, and in a sweep a list of names "
        "or a list of lists"
    )


def is_override(text: str) -> bool:
    """Return whether a text is an override, ``key=value``, or an option."""
    return text.startswith(("-", "~")) or re.match(r"[\w.@/+]+=", text) is not None


def is_data(given: Any) -> bool:
    """Return whether a positional argument is a data set.

    A text is a data set if it is the name of a file. Any value other than text is a data set.
    """
    if not isinstance(given, str):
        return True
    is_file = Path(given).name.lower().endswith(tuple(READERS))
    return is_file and not registry.docstring(given)


def _of_dataset(given: Any, values: Mapping[str, list[Any]], outputs: Path) -> dict[str, list[Any]]:
    """Return the settings ``values`` with the settings that choose a data set.

    ``given`` is the name of a data set, a path or a data frame. A data frame is stored as a file.
    """
    if hasattr(given, "to_pandas"):  # a frame of Polars or PyArrow
        given = given.to_pandas()
    chosen = dict(values)
    if hasattr(given, "columns") and hasattr(given, "to_parquet"):
        others = [name for name in given.columns if not isinstance(name, str)]
        for key in chosen:
            if key.removeprefix("dataset.") in NAMING:
                chosen[key] = _named(chosen[key], others)
        given = kept_frame(given, outputs)
    if isinstance(given, str) and re.fullmatch(r"\w+", given):
        return chosen | {"dataset": [given]}
    if isinstance(given, str | Path):
        return chosen | {"dataset": ["file"], "dataset.path": [str(given)]}
    raise ValueError(
        "a data set is the name of one of the catalogue, the path of a file, or a data frame; got "
        f"{type(given).__name__}. Of arrays: pandas.DataFrame(X).assign(y=y), target='y'"
    )


def _named(value: Any, names: Sequence[Any]) -> Any:
    """Convert names of columns to text, as in the stored file of a data frame."""
    if isinstance(value, Mapping):
        return {_named(key, names): declared for key, declared in value.items()}
    if isinstance(value, list):
        return [_named(one, names) for one in value]
    return str(value) if not isinstance(value, str) and value in names else value


def kept_frame(frame: pd.DataFrame, outputs: Path) -> Path:
    """Write a data frame to a Parquet file below ``outputs``, and return the path.

    An index becomes a column if it has dates or a name. Any other index is left out. An existing
    file with the same content is not written again.
    """
    data = parquet_bytes(frame)
    digest = hashlib.sha256(data).hexdigest()[:16]
    path = outputs / FRAMES / digest / "frame.parquet"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)
    return path


def parquet_bytes(frame: pd.DataFrame) -> bytes:
    """Return a data frame as the bytes of a Parquet file.

    Raises ValueError if the file cannot store a value.
    """
    import pandas as pd

    if isinstance(frame.index, pd.DatetimeIndex) or any(n is not None for n in frame.index.names):
        frame = frame.reset_index()
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    require_distinct(list(frame.columns), "the data frame")
    frame = frame.apply(_storable)
    buffer = io.BytesIO()
    try:
        frame.to_parquet(buffer, index=False, engine="pyarrow")
    except (ValueError, TypeError, OverflowError, NotImplementedError) as error:  # as PyArrow's
        raise ValueError(f"the data frame cannot be kept as a Parquet file: {error}") from None
    return buffer.getvalue()


def _storable(column: pd.Series) -> pd.Series:
    """Convert a column so that Parquet can store it.

    Periods become dates, time spans become seconds, and cells of several types become text.
    """
    import pandas as pd

    if isinstance(column.dtype, pd.PeriodDtype):
        return column.dt.to_timestamp()
    if pd.api.types.is_timedelta64_dtype(column.dtype):
        return column.dt.total_seconds()
    if column.dtype != object or len({type(cell) for cell in column.dropna()}) < 2:
        return column
    return column.map(str, na_action="ignore")
