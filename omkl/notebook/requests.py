"""What ``omkl.run`` and ``omkl.sweep`` are given, as the texts of ``omkl-run``.

A data frame becomes a Parquet file, named by its content, so that its run is kept and found again
as that of any other file.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from omkl.config.overrides import parse
from omkl.core.kernels import FAMILIES
from omkl.datasets.columns import require_distinct
from omkl.datasets.read import READERS
from omkl.online.settings import parts_of
from omkl.utils import registry
from omkl.utils.conf import flattened, override_text
from omkl.utils.disk import write_atomically

if TYPE_CHECKING:
    import pandas as pd

FRAMES = "frames"  # the folder of outputs that keeps data frames
QUIET = {"figures": "false", "tracking": "none"}


class Request(NamedTuple):
    """One job or several: what is chosen by position, and all settings as texts.

    algorithms, datasets   as they were given; () where the defaults are meant
    overrides              ``key=value``, of keywords and of texts that were given as such
    """

    algorithms: tuple[Any, ...]
    datasets: tuple[Any, ...]
    overrides: tuple[str, ...]

    @property
    def outputs(self) -> Path:
        """The folder where runs are kept."""
        typed = [text for text in self.overrides if text.startswith("outputs=")]
        return Path(str(parse(typed[-1]).value() if typed else "outputs"))


def read(what: Sequence[Any], settings: Mapping[str, Any], sweeps: bool = False) -> Request:
    """An algorithm and a data set, by position, texts ``key=value``, and settings as keywords.

    ``target`` is short for ``dataset.target``. With ``sweeps`` a list has several values. Raises
    ValueError that names what is given twice or is not understood.
    """
    texts = [one for one in what if isinstance(one, str) and is_override(one)]
    chosen = [one for one in what if not (isinstance(one, str) and is_override(one))]
    if len(chosen) > 2:
        raise ValueError(
            f"{len(chosen)} things by position: an algorithm and a data set are the two; "
            "settings are keywords, seeds=3, or texts, 'algorithm.eta=0.1'"
        )
    algorithms = tuple(chosen[:1])
    if len(chosen) == 1 and is_data(chosen[0]):
        algorithms = ()
    datasets = tuple(chosen[len(algorithms) :])
    if algorithms and not isinstance(algorithms[0], str):
        raise ValueError(
            f"an algorithm is a name, as in omkl.run('auto', data); got {type(algorithms[0])}"
        )
    for key, value in flattened(settings):
        if key in ("kernels", "kernels.parts") and isinstance(value, list | tuple):
            key, value = _kernels(value, sweeps)
        if key == "outputs":  # as a shell would
            value = Path(value).expanduser()
        if sweeps and isinstance(value, list | tuple):
            if not value:
                raise ValueError(f"{key}=[]: a sweep over no values runs nothing")
            text = ",".join(map(as_text, value))
        else:
            text = as_text(value)
        texts.append(f"{'dataset.target' if key == 'target' else key}={text}")
    keys = {text.partition("=")[0] for text in texts}
    for key, several in (("algorithm", algorithms), ("dataset", datasets)):
        if several and key in keys:
            raise ValueError(f"the {key} is given twice: by position, and as {key}=")
    texts += [f"{key}={value}" for key, value in QUIET.items() if key not in keys]
    return Request(algorithms, datasets, tuple(texts))


def _kernels(value: Sequence[Any], sweeps: bool) -> tuple[str, Any]:
    """The setting that a list of kernels is: the parts of one dictionary, or several in a sweep.

    In a sweep several are names of dictionaries, or lists of bandwidths, families and parts.
    """
    if not sweeps:
        return "kernels.parts", parts_of(value)
    if not value:
        return "kernels", value
    lists = [isinstance(entry, list | tuple) for entry in value]
    if all(lists):
        return "kernels.parts", [parts_of(entry) for entry in value]
    if any(lists):
        raise ValueError(
            "kernels of a sweep are names of dictionaries, or lists of kernels, not both: "
            "omkl.sweep once with each"
        )
    words = all(isinstance(entry, str) for entry in value)
    if words and not all(entry in FAMILIES for entry in value):
        return "kernels", value
    return "kernels.parts", [parts_of(value)]


def is_override(text: str) -> bool:
    """Whether a text is one of the command line's, ``key=value`` or an option."""
    return text.startswith(("-", "~")) or re.match(r"[\w.@/+]+=", text) is not None


def is_data(given: Any) -> bool:
    """Whether it is a data set and no name of an algorithm: a path, or anything that is no text."""
    if not isinstance(given, str):
        return True
    is_file = Path(given).name.lower().endswith(tuple(READERS))
    return is_file and not registry.docstring(given)


def of_algorithm(name: Any) -> list[str]:
    """The text that chooses an algorithm."""
    if not isinstance(name, str):
        raise ValueError(f"an algorithm is a name, a text; got {type(name).__name__}")
    return [f"algorithm={name}"]


def of_dataset(given: Any, outputs: Path) -> list[str]:
    """The texts that choose a data set: a name of the catalogue, a path, or a data frame."""
    if hasattr(given, "to_pandas"):  # of Polars, PyArrow
        given = given.to_pandas()
    if hasattr(given, "columns") and hasattr(given, "to_parquet"):
        given = kept_frame(given, outputs)
    if isinstance(given, str) and re.fullmatch(r"\w+", given):
        return [f"dataset={given}"]
    if isinstance(given, str | Path):
        return ["dataset=file", f"dataset.path={override_text(str(given))}"]
    raise ValueError(
        "a data set is the name of one of the catalogue, the path of a file, or a data frame; got "
        f"{type(given).__name__}. Of arrays: pandas.DataFrame(X).assign(y=y), target='y'"
    )


def kept_frame(frame: pd.DataFrame, outputs: Path) -> Path:
    """The Parquet file of a data frame, below ``outputs``; written unless it is there.

    An index of dates, or with a name, becomes a column; another index is left out.
    """
    data = parquet_bytes(frame)
    digest = hashlib.sha256(data).hexdigest()[:16]
    path = outputs / FRAMES / digest / "frame.parquet"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)
    return path


def parquet_bytes(frame: pd.DataFrame) -> bytes:
    """A data frame as a Parquet file; ValueError for what no file can hold."""
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
    """A column of several types as text, and time spans as numbers of seconds."""
    import pandas as pd

    if isinstance(column.dtype, pd.PeriodDtype):
        return column.dt.to_timestamp()
    if pd.api.types.is_timedelta64_dtype(column.dtype):
        return column.dt.total_seconds()
    if column.dtype != object or len({type(cell) for cell in column.dropna()}) < 2:
        return column
    return column.map(str, na_action="ignore")


def as_text(value: Any) -> str:
    """A value as it stands on the command line: text that looks like a number is one."""
    if hasattr(value, "item") and not getattr(value, "shape", ()):
        value = value.item()  # of NumPy
    text = str(value) if isinstance(value, Path) else value
    plain = isinstance(text, str) and re.fullmatch(r"[\w./+-]+", text)
    return text if plain else override_text(text)
