"""One run as the view keeps it: final metrics, curves, parameters, data set, tags and a note.

The charts of MLflow are sorted by the names of metrics, those with a prefix first: a section
"curves" has what a run is judged by over time, "final" the same after the last round.
"""

from __future__ import annotations

import errno
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl.report import typed
from omkl.report.baselines import NAMES, accuracy_text, computed, worse_than
from omkl.report.windows import windowed
from omkl.runs import checksum
from omkl.runs.config_file import flattened
from omkl.runs.run_folder import ERROR_RATE, MSE, NEUTRAL, Run, measure, number_of, scaling_of
from omkl.runs.wording import pluralize

CURVE_POINTS = 500
REGRET_POINTS = 100
CURVES, FINAL = "curves", "final"  # sections of MLflow's page of charts
SO_FAR, OF_A_WINDOW = "so far", "of a window"
DIGEST_LENGTH = 36  # MLflow's
_PARAM_LENGTH = 6000
_TAG_LENGTH = 5000
_KEY_LENGTH = 250
_STATUS = {"complete": "FINISHED", "failed": "FAILED"}


@dataclass(frozen=True)
class Record:
    """What MLflow is told about a run folder."""

    folder: Path
    digest: str  # of result.json
    key: str
    experiment: str
    name: str
    status: str
    start: int  # ms since 1970
    end: int
    metrics: dict[str, float]
    curves: dict[str, list[tuple[int, float]]]  # (round, seed-mean)
    params: dict[str, str]
    tags: dict[str, str]
    data: Data | None


class Data(NamedTuple):
    """The data of a run: MLflow's data set. The digest is the beginning of the sha256."""

    name: str
    digest: str
    source: str  # JSON: files, their sha256 and where they are from
    profile: str


def read_record(folder: Path, outputs: Path) -> Record:
    """What a run folder says. Raises ValueError where it is damaged, OSError where it is gone."""
    run = Run(folder).held()
    result = run.result
    start = _milliseconds(result["started"])
    return Record(
        folder=folder,
        digest=run.digest,
        key=str(result["key"]),
        # MLflow's pages take a slash for a path.
        experiment=str(result["dataset"]).replace("/", "_"),
        name=_run_name(run),
        status=_STATUS[result["status"]],
        start=start,
        end=start + round(1000 * float(result.get("seconds", 0.0))),
        metrics=_final_metrics(result),
        curves=_curves(run),
        params=_params(run),
        tags=_tags(run, outputs),
        data=_data(result),
    )


def about_one_run(error: Exception) -> bool:
    """Whether writing failed because of the run's own content, not of the disk or database."""
    if isinstance(error, OSError):
        full = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
        return not any(f"[Errno {number}]" in str(error) for number in full)
    return getattr(error, "error_code", None) == "INVALID_PARAMETER_VALUE"


def _run_name(run: Run) -> str:
    """The algorithm, its sizes, and what was typed: runs that differ have different names.

    Sizes are the papers' capital letters, such as M=10.
    """
    result = run.result
    sizes = {
        f"algorithm.{name}": value
        for name, value in result["params"].items()
        if len(name) == 1 and name.isupper() and isinstance(value, int)
    }
    different = sizes | typed.differences(run)
    others = typed.choices(run, ("kernels", "federation"))
    pairs = [f"{name.removeprefix('algorithm.')}={_text(v)}" for name, v in different.items()]
    return _short(" ".join([str(result["algorithm"]), *others, *pairs]), _KEY_LENGTH)


def _data(result: Mapping[str, Any]) -> Data | None:
    """The files of a run by their sha256, or what a synthetic stream is made of."""
    stream = result.get("stream")
    if not stream:
        return None
    files = stream.get("files", ())
    made = json.dumps(stream.get("synthetic", stream.get("title", "")), sort_keys=True)
    digests = [str(file["sha256"]) for file in files]
    digest = digests[0] if len(digests) == 1 else checksum.sha256_of("".join(digests or [made]))
    source = {"files": list(files), "url": stream.get("url")} if files else {"made of": made}
    sizes = {"rows": result.get("n_rounds"), "inputs": result.get("n_inputs")}
    name = str(stream.get("name", result["dataset"]))
    text = json.dumps(source, default=str)
    return Data(name, digest[:DIGEST_LENGTH], _short(text, _PARAM_LENGTH), json.dumps(sizes))


def unit_of(result: Mapping[str, Any]) -> tuple[str, float]:
    """What errors are called in charts, which show two decimals, and the factor of the unit.

    Runs whose errors can be compared have one unit, however large they are.
    """
    if measure(result) is not MSE:
        return "errors in percent", ERROR_RATE.scale
    return ("MSE in 1e-3", 1e3) if scaling_of(result) == "whole" else ("MSE", 1.0)


def _final_metrics(result: Mapping[str, Any]) -> dict[str, float]:
    key = measure(result).key
    values = {
        key: result.get(f"{key}_mean"),
        f"{key}_std": result.get(f"{key}_std"),
        "seconds": result.get("seconds"),
        "kernels_per_round": result.get("kernels_per_round"),
        **{name: result.get(name) for name in ("rmse", "mae", "r2")},
    }
    if result.get("al_efficiency", 1.0) < 1.0:  # others ask always
        values |= {name: result.get(name) for name in ("labels", "al_efficiency", "mse_per_label")}
    spread = result.get("spread", {})
    values |= {name: score for name, score in spread.items() if name != "windows"}
    interval = result.get("interval", {})
    numbers = {k: v for k, v in interval.items() if isinstance(v, float)}
    values |= {f"interval_{k.removeprefix('interval_')}": v for k, v in numbers.items()}
    for name, entry in result.get("baselines", {}).items():
        for what, value in entry.items():
            if what != "skipped":
                values[f"baseline_{name}_{what}"] = value
    for name, entry in result.get("regret", {}).items():
        values[f"regret_{name}"] = entry.get("mean")
    named = {_key(name): value for name, value in values.items()}
    if f"{key}_mean" in result:
        unit, scale = unit_of(result)
        named[f"{FINAL}/{unit}"] = scale * number_of(result[f"{key}_mean"])
        known = (entry["mean"] for entry in result["regret"].values() if "mean" in entry)
        named[f"{FINAL}/regret"] = next(known, None)
    return {
        name: float(value)
        for name, value in named.items()
        if value is not None and math.isfinite(value)
    }


def _curves(run: Run) -> dict[str, list[tuple[int, float]]]:
    """By the name of its chart: (round, mean over the seeds).

    The error so far in log-spaced rounds, the first and the last included; that of windows; and
    the regret against the first comparator that was computed.
    """
    if not (run.folder / "curves.npz").exists():
        return {}
    curves, result = run.curves, run.result
    t, (unit, scale) = curves["t"], unit_of(result)
    chosen = _log_spaced(t, CURVE_POINTS)
    what, _, of = unit.partition(" in ")
    ending = f" in {of}" if of else ""
    found = windowed(run)
    points = {
        f"{CURVES}/{what} {SO_FAR}{ending}": (
            t[chosen], scale * curves[measure(result).key][:, chosen],
        ),
        f"{CURVES}/{what} {OF_A_WINDOW}{ending}": (found.edges[1:], scale * found.loss),
    }  # fmt: skip
    stated = result["regret"]
    for name in [n for n in stated if "mean" in stated[n] and f"regret_{n}" in curves][:1]:
        chosen = _log_spaced(t, REGRET_POINTS)
        points[f"{CURVES}/regret"] = t[chosen], curves[f"regret_{name}"][:, chosen]
    return {
        name: [
            (int(step), float(value))
            for step, value in zip(rounds, values.mean(axis=0), strict=True)
            if math.isfinite(value)
        ]
        for name, (rounds, values) in points.items()
    }


def _log_spaced(t: np.ndarray, n_points: int) -> np.ndarray:
    """Indices of at most ``n_points`` of the ascending rounds ``t``, evenly spaced in log t."""
    if t.size <= n_points:
        return np.arange(t.size)
    wanted = np.geomspace(t[0], t[-1], n_points)
    indices = np.unique(np.searchsorted(t, wanted * (1 - 1e-12)))
    indices[-1] = t.size - 1
    return indices


def _params(run: Run) -> dict[str, str]:
    """The resolved configuration with dotted keys, without what cannot change a number."""
    config = {name: value for name, value in run.config.items() if name not in NEUTRAL}
    return {_key(name): _short(_text(value), _PARAM_LENGTH) for name, value in flattened(config)}


def _tags(run: Run, outputs: Path) -> dict[str, str]:
    result = run.result
    folder = run.folder.resolve()
    tags = {name: result[name] for name in ("key", "algorithm", "dataset", "status", "commit")}
    tags["numbers"] = result.get("numbers")  # of a failed run there are none
    tags["versions"] = ", ".join(f"{name} {v}" for name, v in result["versions"].items())
    tags["folder"] = (
        folder.relative_to(outputs).as_posix() if folder.is_relative_to(outputs) else folder.name
    )
    error = result.get("error")
    if error:
        tags["error"] = f"{error['type']}: {error['message']}"
    tags["mlflow.note.content"] = _note(result)
    tags["mlflow.source.name"] = "omkl"
    if result["commit"]:
        tags["mlflow.source.git.commit"] = result["commit"]
    return {
        name: _short(_text(value), _TAG_LENGTH) for name, value in tags.items() if value is not None
    }


def _note(result: Mapping[str, Any]) -> str:
    """The description on the run's page, in Markdown."""
    error = result.get("error")
    if error:
        trace = error["traceback"] or ""
        return f"**{error['type']}**: {error['message']}\n\n```\n{trace}\n```"
    kind = measure(result)
    std = result[f"{kind.key}_std"]
    spread = f" ± {std:.2g}" if std is not None else ""
    lines = [
        f"{kind.short} **{result[f'{kind.key}_mean']:.4g}**{spread} after {result['n_rounds']} "
        f"rounds, {pluralize(len(result['seeds']), 'seed')}, kernels {result['kernels']}"
    ]
    for name, entry in computed(result).items():
        lines.append(f"- {NAMES[name]}: {accuracy_text(entry)}")
    if better := worse_than(result):
        lines.append(f"- **worse than {better}**")
    for name, entry in result["regret"].items():
        what = f"skipped: {entry['skipped']}" if "skipped" in entry else f"{entry['mean']:.4g}"
        lines.append(f"- regret_{name} ({entry['label']}): {what}")
    return "\n".join(lines)


def _key(name: str) -> str:
    """A metric's or parameter's name in the letters that MLflow allows."""
    return re.sub(r"[^\w.\- ]", "_", name, flags=re.ASCII)[:_KEY_LENGTH]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _milliseconds(started: str) -> int:
    """An ISO time in ms since 1970."""
    return round(1000 * datetime.fromisoformat(started).timestamp())


def reason_of(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
