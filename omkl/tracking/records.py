"""One run as the view keeps it: final metrics, a curve, parameters, tags and a note."""

from __future__ import annotations

import errno
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from omkl.report.baselines import NAMES, accuracy_text, computed, worse_than
from omkl.runs.folder import NEUTRAL, Run, measure
from omkl.runs.seal import RESULT, Broken, sha256_of

CURVE_POINTS = 500
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
    curve: list[tuple[int, float]]  # (round, seed-mean MSE)
    params: dict[str, str]
    tags: dict[str, str]


def read_record(folder: Path, outputs: Path) -> Record:
    """What a run folder says. Raises ValueError where it is damaged, OSError where it is gone."""
    run, digest = Run(folder), digest_of(folder)
    if run.problem is not None:
        raise Broken(run.problem)
    result = run.result
    start = _milliseconds(result["started"])
    return Record(
        folder=folder,
        digest=digest,
        key=str(result["key"]),
        # MLflow's pages take a slash for a path.
        experiment=str(result["dataset"]).replace("/", "_"),
        name=_run_name(run),
        status=_STATUS[result["status"]],
        start=start,
        end=start + round(1000 * float(result.get("seconds", 0.0))),
        metrics=_final_metrics(result),
        curve=_curve(run),
        params=_params(run),
        tags=_tags(run, outputs),
    )


def about_one_run(error: Exception) -> bool:
    """Whether writing failed because of the run's own content, not of the disk or database."""
    if isinstance(error, OSError):
        full = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
        return not any(f"[Errno {number}]" in str(error) for number in full)
    return getattr(error, "error_code", None) == "INVALID_PARAMETER_VALUE"


def _run_name(run: Run) -> str:
    """The algorithm and its sizes: the papers' capital letters, such as M=10."""
    result = run.result
    sizes = [
        f"{name}={value}"
        for name, value in result["params"].items()
        if len(name) == 1 and name.isupper() and isinstance(value, int)
    ]
    return " ".join([str(result["algorithm"]), *sizes])


def _final_metrics(result: Mapping[str, Any]) -> dict[str, float]:
    key = measure(result).key
    values = {
        key: result.get(f"{key}_mean"),
        f"{key}_std": result.get(f"{key}_std"),
        "seconds": result.get("seconds"),
        "kernels_per_round": result.get("kernels_per_round"),
        "labels": result.get("labels"),
        "al_efficiency": result.get("al_efficiency"),
        "mse_per_label": result.get("mse_per_label"),
        **{name: result.get(name) for name in ("rmse", "mae", "r2")},
    }
    spread = result.get("spread", {})
    values |= {name: score for name, score in spread.items() if name != "windows"}
    for name, entry in result.get("baselines", {}).items():
        for what, value in entry.items():
            if what != "skipped":
                values[f"baseline_{name}_{what}"] = value
    for name, entry in result.get("regret", {}).items():
        values[f"regret_{name}"] = entry.get("mean")
    return {
        _key(name): float(value)
        for name, value in values.items()
        if value is not None and math.isfinite(value)
    }


def _curve(run: Run) -> list[tuple[int, float]]:
    """(round, seed-mean MSE) in log-spaced rounds, the first and the last included."""
    if not (run.folder / "curves.npz").exists():
        return []
    t, mse = run.curves["t"], run.curves[measure(run.result).key]
    chosen = _log_spaced(t, CURVE_POINTS)
    mean = mse[:, chosen].mean(axis=0)
    return [
        (int(step), float(value))
        for step, value in zip(t[chosen], mean, strict=True)
        if math.isfinite(value)
    ]


def curve_name(record: Record) -> str:
    """The metric that the curve is written as."""
    return "error_curve" if "error_rate" in record.metrics else "mse_curve"


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
    return {_key(name): _short(_text(value), _PARAM_LENGTH) for name, value in _flatten(config)}


def _flatten(tree: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


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
        f"rounds, {len(result['seeds'])} seeds, kernels {result['kernels']}"
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


def digest_of(folder: Path) -> str:
    return sha256_of((folder / RESULT).read_bytes())


def reason_of(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
