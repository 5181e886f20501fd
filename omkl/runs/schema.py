"""What ``result.json`` may hold, and its checksums, checked once for all who read it.

A run folder may be a stranger's: tables, figures and pages ask for names, numbers and mappings by
their keys, and would stumble over anything else. Keys that are not named here may hold what they
like, as long as every number fits a float.

``result.json`` holds the SHA-256 of every file of its run and of its own text, under ``seal``. They
find what a disk, a copy or an edit has changed. They are no signature: whoever can write a run
folder can write its checksums as well.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omkl.utils.wording import plain

RESULT = "result.json"
LABELS = "labels.csv"
# The files that hold numbers and configuration; figures are drawn from these.
CHECKED = (
    "config.yaml", "curves.npz", "results.parquet", "predictions.parquet", "model.npz", LABELS,
)  # fmt: skip

_BLANK = "0" * 64


class CorruptFileError(ValueError):
    """A file is damaged: it does not match its checksum or its schema; the text says where."""


def sha256_of(data: bytes | str | Path) -> str:
    """The digest of bytes, of a text, or of the file at a path, which may be larger than memory."""
    if isinstance(data, Path):
        with data.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def files_in(folder: Path, but: tuple[str, ...] = ()) -> dict[str, str]:
    """The SHA-256 of every checked file of a run folder, by its name."""
    names = [name for name in CHECKED if name not in but and (folder / name).exists()]
    return {name: sha256_of(folder / name) for name in names}


def checksummed_text(
    content: Mapping[str, Any],
    files: Mapping[str, str] | None = None,
) -> str:
    """A mapping as JSON whose last key, ``seal``, holds the sha256 of ``files`` and of this text.

    The text's own digest is that of the text with 64 zeros in its place. Raises ValueError for
    numbers that are not finite.
    """
    seal = {**(files or {}), RESULT: _BLANK}
    whole = {key: value for key, value in content.items() if key != "seal"} | {"seal": seal}
    text = json.dumps(whole, indent=2, allow_nan=False) + "\n"
    head, _, tail = text.rpartition(_BLANK)
    return head + sha256_of(text) + tail


def read_checksummed(text: str) -> dict[str, Any]:
    """The content of a ``checksummed_text``, without its checksums. Raises CorruptFileError."""
    content = content_of(text)
    if "seal" not in content:
        raise CorruptFileError("it has lost its checksums (seal)")
    require_whole(text, content["seal"])
    return {key: value for key, value in content.items() if key != "seal"}


def content_of(text: str) -> dict[str, Any]:
    """The mapping in a JSON text. Raises CorruptFileError."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"it is no JSON: {error}") from None
    if not isinstance(content, dict):
        raise CorruptFileError(f"it holds a {type(content).__name__}, not a mapping")
    return content


def require_whole(text: str, seal: Any) -> None:
    """Raises CorruptFileError where the sha256 in ``seal`` is not that of the text."""
    expected = seal.get(RESULT) if isinstance(seal, dict) else None
    head, separator, tail = text.rpartition(str(expected))
    if not separator or sha256_of(head + _BLANK + tail) != expected:
        raise CorruptFileError("it is not as it was written: its sha256 is another")


def require_files(folder: Path, seal: Mapping[str, Any], but: tuple[str, ...] = ()) -> None:
    """Raise CorruptFileError for the first file of a run folder that differs from ``seal``."""
    digests = files_in(folder, but)
    for name in CHECKED:
        if name in but or seal.get(name) == digests.get(name):
            continue
        if name not in digests:
            raise CorruptFileError(f"{name} is missing")
        if name not in seal:
            raise CorruptFileError(f"{name} was not written by this run")
        raise CorruptFileError(f"{name} is not as it was written: its sha256 is another")


Kind = Any  # see ``check``


# --- kinds of values ------------------------------------------------------------------------------

LARGEST = 2**63
WORDS = {
    str: "text", float: "number", int: "whole number below 2^63", bool: "truth value",
    list: "list", dict: "mapping",
}  # fmt: skip


def check(value: Any, kind: Any, where: str = "") -> None:
    """Raise CorruptFileError where a value is not of its kind.

    Parameters
    ----------
    kind
        ``str``, ``float`` (or a whole number), ``int``, ``bool``, ``object`` (anything);
        ``(kind, None)``, a value that may be null; ``[kind]``, a list; ``{key: kind}``, a mapping
        that has these keys, where those ending in ``?`` may be missing; ``{"*": kind}``, a mapping
        of any keys; or a function (value, where) that raises.
    where
        The path of the value, its keys joined by dots, which the error names.
    """
    if isinstance(kind, tuple):
        if value is not None:
            check(value, kind[0], where)
    elif isinstance(kind, list):
        _require_type(value, list, where)
        for k, item in enumerate(value):
            check(item, kind[0], f"{where}.{k}")
    elif isinstance(kind, dict):
        _require_type(value, dict, where)
        kinds = dict.fromkeys(value, kind["*"]) if "*" in kind else kind
        for key, of_key in kinds.items():
            name = key if "*" in kind else key.removesuffix("?")
            path = f"{where}.{name}" if where else name
            if name in value:
                check(value[name], of_key, path)
            elif name == key:
                raise CorruptFileError(f"{path} is missing")
    elif isinstance(kind, type):
        _require_type(value, kind, where)
    else:
        kind(value, where)


def _require_type(value: Any, kind: type, where: str) -> None:
    if kind is float and type(value) is int:
        kind = int
    fits = isinstance(value, kind) and (kind in (bool, object) or not isinstance(value, bool))
    if not fits or (kind is int and not -LARGEST <= value < LARGEST):
        _refuse(where, value, WORDS[kind])


def _refuse(where: str, value: Any, what: str) -> None:
    raise CorruptFileError(f"{where or 'it'} is {value!r:.40}, which is no {what}")


def _moment(value: Any, where: str) -> None:
    check(value, str, where)
    try:
        datetime.datetime.fromisoformat(value)
    except ValueError:
        _refuse(where, value, "time")


def _windows(*coverages: str) -> Kind:
    """Last rounds of windows, and as many numbers of each kind; there is one window at least."""

    def check_windows(value: Any, where: str) -> None:
        check(value, {"until": [float], **dict.fromkeys(coverages, NUMBERS)}, where)
        for name in coverages:
            if len(value[name]) != len(value["until"]) or not value["until"]:
                _refuse(f"{where}.{name}", value[name], "list of a number a window")

    return check_windows


def _or_skipped(computed: Kind, together: Kind | None = None) -> Kind:
    """An entry with numbers, or why it has none; of ``together`` all are there or none."""

    def check_entry(value: Any, where: str) -> None:
        keys = value.keys() if isinstance(value, dict) else set()
        more = together if together and keys & together.keys() else {}
        check(value, {"skipped": str} if "skipped" in keys else {**computed, **more}, where)

    return check_entry


# --- what result.json holds -----------------------------------------------------------------------

BASELINES = ("mean", "last", "ridge", "constant")

NUMBER = (float, None)  # a summary that has overflowed is null
NUMBERS = [NUMBER]
_way = {
    "numbers_a_round": float, "bytes": float, "bytes_a_round?": NUMBER,
    "most_numbers_a_round?": NUMBER, "numbers?": NUMBER,
}  # fmt: skip
_scores = ("log_loss", "coverage_50", "coverage_90", "width_90", "interval_score_90")
_guarantee = ("noise", "clip", "delta", "epsilon_of_sample", "epsilon_of_client")
_safeguards = {
    **dict.fromkeys(("clients_per_round", "max_change", "max_loss"), NUMBER),
    **dict.fromkeys(("trim", "messages", "refused"), float),
    "privacy?": dict.fromkeys(_guarantee, NUMBER),
}
_exchange = {"graph?": str, "edges?": float, "every?": int, "bits?": int}
_of_key = {"rows": int, "rmse": float, "last?": float, "ridge?": float}

ALWAYS: dict[str, Kind] = {
    **dict.fromkeys(("key", "algorithm", "dataset", "kernels"), str),
    "started": _moment,
    "params": {"*": object},
    "versions": {"*": (str, None)},
    "machine": {"processor?": str, "cores?": int, "system?": str},
}
OPTIONAL: dict[str, Kind] = {
    **dict.fromkeys(("settings_sha256?", "task?", "mse_over?", "machine_code?"), str),
    **dict.fromkeys(("commit?", "numbers?", "lock?", "changes?", "typed?"), (str, None)),
    **dict.fromkeys(("rmse?", "mae?", "r2?", "target_unit?", "max_norm?"), NUMBER),
    **dict.fromkeys(("max_squared_error?", "max_kernel_squared_error?", "mse_per_label?"), NUMBER),
    **dict.fromkeys(("al_efficiency_std?", "updates_per_kernel?", "support_size?"), NUMBER),
    "best_kernel?": NUMBER,
    **dict.fromkeys(("n_inputs?", "threads?", "rows_without_target?"), int),
    **dict.fromkeys(("deterministic?", "target_sorted?"), bool),
    **dict.fromkeys(("log_loss?", "brier_score?"), float),
    "mistakes?": [float],
    "confusion?": [[int]],
    "labels_per_seed?": NUMBERS,
    "labels_of_classes?": [object],
    "modules?": {"*": str},
    "missing_cells?": {"*": int},
    "far_out?": {"*": float},
    "keys?": {
        "column": str, "n": int, "ranked": int, "better_than": {"*": int},
        "best": [_of_key], "worst": [_of_key],
    },
    "code?": {"shared": str, "learner": str},
    "stream?": {
        "name?": str, "title?": str, "url?": (str, None), "target?": (str, None), "inputs?": [str],
        "files?": [{"name": str, "sha256": str}], "scaling?": {"kind?": (str, None)},
        "limit?": NUMBER, "synthetic?": {"*": object},
    },
    "spread?": {
        **dict.fromkeys(_scores, NUMBER), "windows?": _windows("coverage_50", "coverage_90"),
    },
    "interval?": {
        "level": float, "coverage": NUMBER, "width": NUMBER, "interval_score": NUMBER,
        "rates?": NUMBERS, "windows?": _windows("coverage"),
    },
    "federated?": {
        "scheme": str,
        **dict.fromkeys(("n_clients", "rounds", "least_rounds", "rows", "rows_used"), int),
        "up": _way, "down": _way, "safeguards?": _safeguards, "max_upload?": (int, None),
        "bytes_of_all?": NUMBER, "exchange?": _exchange, "disagreement?": NUMBER,
    },
    "bound?": _or_skipped({
        "theorem": str, "value": NUMBER, "unproved": (str, None), "minimum?": NUMBERS,
        "further?": [
            {"name": str, "value": NUMBER, "of": str, "measured?": NUMBER, "beta?": NUMBER}
        ],
    }),
}  # fmt: skip
FAILED: dict[str, Kind] = {
    **ALWAYS, **OPTIONAL, "status": str,
    "error": {"type": str, "message": str, "traceback": (str, None)},
}  # fmt: skip
COMPLETE: dict[str, Kind] = {
    **ALWAYS, **OPTIONAL,
    **dict.fromkeys(("n_rounds", "n_kernels", "D"), int),
    **dict.fromkeys(("seconds", "kernels_per_round", "labels", "al_efficiency"), float),
    "seeds": [int],
    "seconds_per_seed": NUMBERS,
    "regret": {
        "*": _or_skipped(
            {"label": str, "mean": float, "std": NUMBER, "spread?": NUMBER, "theta_norm?": NUMBER,
             "kernels?": [str]},
            {"theorem": str, "bound_of": str, "bound": NUMBER, "largest_loss": NUMBER},
        )
    },
}  # fmt: skip
# What a result says since it has checksums.
WITH_CHECKSUMS: dict[str, Kind] = {
    "commit": (str, None), "deterministic": bool, "n_inputs": int, "threads": int, "stream": {},
}  # fmt: skip
CLASSIFICATION: dict[str, Kind] = {
    "mistakes": [float], "updates_per_kernel": float, "support_size": float, "best_kernel": NUMBER,
}  # fmt: skip


def require(result: Mapping[str, Any], measure: str) -> None:
    """Raise CorruptFileError where a result is not what the schema says, naming the entry.

    Parameters
    ----------
    result
        The content of ``result.json``.
    measure
        The key of the error of its task, "mse" or "error_rate".
    """
    _require_floats(result, "")
    status = result.get("status")
    if status not in ("complete", "failed"):
        raise CorruptFileError(f"status is {status!r}, neither complete nor failed")
    if status == "failed":
        check(result, FAILED)
        return
    is_regression, has_checksums = measure == "mse", "seal" in result
    error = NUMBER if is_regression else float
    # Before there were checksums, baselines had no error and results said less.
    of_baseline: dict[str, Kind] = {measure if has_checksums else f"{measure}?": error}
    of_baseline |= {"rmse": NUMBER, "mae": NUMBER} if is_regression else {}
    kinds: dict[str, Kind] = {measure: [error], f"{measure}_mean": error, f"{measure}_std": NUMBER}
    kinds["baselines?"] = {f"{name}?": _or_skipped(of_baseline) for name in BASELINES}
    check(result, COMPLETE | kinds)
    if has_checksums:
        check(result, WITH_CHECKSUMS | ({} if is_regression else CLASSIFICATION))
    if others := set(result.get("baselines", {})) - set(BASELINES):
        raise CorruptFileError(f"baselines has {sorted(others)[0]!r:.40}, which is no baseline")
    if len(result[measure]) != len(result["seeds"]):
        raise CorruptFileError(
            f"{measure} has {len(result[measure])} entries of {len(result['seeds'])} seeds"
        )


def require_job(facts: Any) -> None:
    """Raise CorruptFileError where the facts of a sweep's job cannot be read."""
    check(facts, {"number": int, "status": str, "tracked?": bool, "folder?": str})
    if facts["status"] == "failed":
        check(facts, {"result": FAILED, "config": {"*": object}})
        require_config(facts["config"])
    elif facts["status"] != "begun":
        check(facts, {"tracked": bool, "folder": str})


def require_config(config: Mapping[str, Any]) -> None:
    """Raise CorruptFileError where a section that reports read is no mapping."""
    sections = ("algorithm", "dataset", "kernels", "stream", "regret")
    check(config, {f"{name}?": ({"*": object}, None) for name in sections})
    _require_floats(config, "", or_infinite=True)


def _require_floats(value: Any, where: str, or_infinite: bool = False) -> None:
    """Numbers that fit a float; ``or_infinite``: one that is infinite or NaN, too."""
    if isinstance(value, dict):
        for key, item in value.items():
            _require_floats(item, f"{where}.{key}" if where else str(key), or_infinite)
    elif isinstance(value, list):
        for k, item in enumerate(value):
            _require_floats(item, f"{where}.{k}", or_infinite)
    elif isinstance(value, float) and not math.isfinite(value) and not or_infinite:
        _refuse(where, value, "finite number")
    elif isinstance(value, int) and not math.isfinite(_as_float(value)):
        _refuse(where, "too large", "finite number")


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def plain_texts(value: Any) -> Any:
    """The same with texts, keys among them, that a terminal shows and does not obey."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {plain(str(key)): plain_texts(item) for key, item in value.items()}
    return [plain_texts(item) for item in value] if isinstance(value, list) else value
