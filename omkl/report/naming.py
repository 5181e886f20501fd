"""Format runs, settings and numbers for tables and figures."""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from omkl.core.kernels import FAMILIES, RFF
from omkl.runs.run_folder import KEPT, Run, plain_texts
from omkl.utils import registry
from omkl.utils.conf import NEUTRAL, PROSE, flattened


def readable(value: float, like: float | None = None) -> str:
    """Format a number with about four digits, or with the decimals that ``like`` would have."""
    size = abs(value if like is None else like)
    if not 1e-4 <= size < 1e7:
        return f"{value:.4g}"
    return f"{value:,.{max(0, 3 - math.floor(math.log10(size)))}f}"


def markdown_text(text: str) -> str:
    """Escape text for a Markdown table: one line without markup."""
    escaped = re.sub(r"([\\|*_>`\[\]])", r"\\\1", " ".join(text.split()))
    return escaped.replace("<", "&lt;")  # not every renderer supports an escaped <


def scored_rows(result: Mapping[str, Any]) -> str:
    """Return the text that names the scored rows, such as "all rows but the first"."""
    over = str(result.get("mse_over", "all rounds"))
    return over.replace("rounds", "rows")


# Runs that differ only in these settings predict the same targets, so their errors are comparable.
OF_INPUTS = ("dataset.inputs", "dataset.client_column", "stream.lags")


def name_of(run: Run) -> str:
    """Return the printed name of the algorithm of a run."""
    return registry.title(run.result["algorithm"])


def data_name(run: Run) -> str:
    """Return the name of the data set, or of the user's file."""
    files = run.result.get("stream", {}).get("files", ())
    own = "path" in (run.config.get("dataset") or {})
    return str(files[0]["name"] if own and len(files) == 1 else run.result["dataset"])


def value_text(value: Any) -> str:
    """Format the value of a setting as it is typed."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{','.join(map(value_text, value))}]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{value_text(item)}" for key, item in value.items()) + "}"
    return f"{value:g}" if isinstance(value, float) else str(value)


# --- settings that distinguish runs ---------------------------------------------------------------


def varying(runs: Sequence[Run], of_all: bool = False) -> list[dict[str, Any]]:
    """Return, for each run, its settings that vary among the runs.

    A parameter varies if two runs of one algorithm differ in it. A setting of the stream varies if
    two runs on one data set differ in it. Any other setting varies if two runs of one algorithm on
    one data set differ in it. If ``of_all`` is True, a setting that varies among some runs is
    returned for every run that has this setting.
    """
    import pandas as pd  # imported here: it takes 0.3 s, and one run does not need it

    facts = [settings_of(run) for run in runs]
    table = pd.DataFrame([{k: value_text(v) for k, v in of_run.items()} for of_run in facts])
    groups = pd.DataFrame({name: [_group(run, name) for run in runs] for name in table})
    varies = pd.DataFrame(
        {n: table[n].fillna("").groupby(groups[n]).transform("nunique") > 1 for n in table}
    )
    if of_all:
        varies[:] = varies.any().to_numpy()
    return [
        {name: value for name, value in of_run.items() if varies.at[number, name]}
        for number, of_run in enumerate(facts)
    ]


def _group(run: Run, name: str) -> str:
    """Return the name of the group of runs that are compared to decide if a setting varies."""
    algorithm, dataset = run.result["algorithm"], run.result["dataset"]
    if name in run.result["params"]:
        return str(algorithm)
    return str((dataset,) if is_of_stream(name) else (algorithm, dataset))


def is_of_stream(setting: str) -> bool:
    """Return whether a setting changes the stream of a data set.

    The scaling does not count, because its default is different in a federation. Tables state the
    scaling in a note.
    """
    return setting.startswith(("dataset.", "stream.")) and setting != "stream.scaling"


def of_stream(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings that change the rows or targets of a data set, with values as text."""
    return {
        name: value_text(value)
        for name, value in settings.items()
        if is_of_stream(name) and name not in OF_INPUTS
    }


def streams(runs: Sequence[Run]) -> list[str]:
    """Return the name of each run's stream: its data set, and settings that change its rows.

    Only runs on one stream can be drawn in one panel.
    """
    return [
        ", ".join([run.result["dataset"], *map("=".join, of_stream(settings).items())])
        for run, settings in zip(runs, varying(runs), strict=True)
    ]


class Entry(NamedTuple):
    """Legend entry of a run: its algorithm, and its settings that vary."""

    learner: str
    settings: str

    def __str__(self) -> str:
        return f"{self.learner}, {self.settings}" if self.settings else self.learner


def legend(runs: Sequence[Run]) -> list[Entry]:
    """Return one entry per run. Add the run's key where entries on one stream would be equal."""
    pairs = [
        {k: v for k, v in settings.items() if k not in of_stream(settings)}
        for settings in varying(runs)
    ]
    places = [
        (stream, name_of(run), str(of_run))
        for stream, run, of_run in zip(streams(runs), runs, pairs, strict=True)
    ]
    seen = Counter(places)
    return [
        Entry(name_of(run), pairs_text(of_run | ({"key": run.result["key"]} if n > 1 else {})))
        for run, of_run, n in zip(runs, pairs, map(seen.__getitem__, places), strict=True)
    ]


def pairs_text(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value_text(value)}" for name, value in settings.items())


def settings_of(run: Run) -> dict[str, Any]:
    """Return the parameters and settings of a run that can change its numbers, by name."""
    beside = ("algorithm", "kernels", *KEPT, *NEUTRAL)
    config = {k: v for k, v in run.config.items() if k not in beside}
    apart = {f"dataset.{key}" for key in ("name", "path", *PROSE)}
    flat = {"kernels": run.result["kernels"]} | dict(flattened(config))
    flat.setdefault("features", RFF)  # the configuration omits the default
    shown = {k: v for k, v in flat.items() if k not in apart and v != {}}
    params = run.result["params"]
    return {**params, **{k: v for k, v in plain_texts(shown).items() if k not in params}}


def command(run: Run) -> str:
    """Return the command line that repeats a run with the settings in its folder."""
    return shlex.join(["omkl-run", "--from", run.folder.as_posix()])


# --- experts --------------------------------------------------------------------------------------


def has_kernels(run: Run) -> bool:
    """Return whether the experts of a run are kernels.

    An expert is a kernel if its family is registered here, or is named in the dictionary of the
    run. A family that is defined outside the package is not registered here.
    """
    kernels = run.config.get("kernels")
    parts = kernels.get("parts") if isinstance(kernels, dict) else None
    listed = parts if isinstance(parts, list) else []
    families = [part.get("family") for part in listed if isinstance(part, dict)]
    return set(run.curves["kernel_family"].tolist()) <= {*FAMILIES, *map(str, families)}


def expert_names(run: Run) -> list[str]:
    """Return the names of experts that are not kernels. Add the length scale if names repeat."""
    names = run.curves["kernel_family"].tolist()
    lengths = run.curves["kernel_bandwidth"].tolist()
    return [
        f"{name}, length {length:g}" if names.count(name) > 1 else name
        for name, length in zip(names, lengths, strict=True)
    ]
