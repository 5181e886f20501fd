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
from collections.abc import Callable, Mapping
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


Check = Callable[[Any, str], None]
LARGEST = 2**63


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
        _failure(result, "")
        return
    _mapping(ALWAYS, OPTIONAL)(result, "")
    error = {measure: number_or_null} if measure == "mse" else {measure: number}
    of_task = {measure: _list(error[measure]), f"{measure}_mean": error[measure]}
    accuracy = dict.fromkeys(("rmse", "mae") if measure == "mse" else (), number_or_null)
    # An error came in a later version.
    of_baselines = accuracy | (error if "seal" in result else {})
    of_baseline = _computed_or_skipped(of_baselines, error)
    baselines = _mapping({}, dict.fromkeys(BASELINES, of_baseline))
    of_task[f"{measure}_std"] = number_or_null
    # Before results were sealed they said less.
    always, often = (WITH_CHECKSUMS, {}) if "seal" in result else ({}, WITH_CHECKSUMS)
    by_task = CLASSIFICATION if measure == "error_rate" and "seal" in result else {}
    _mapping(COMPLETE | of_task | always | by_task, often | {"baselines": baselines})(result, "")
    if others := set(result.get("baselines", {})) - set(BASELINES):
        raise CorruptFileError(f"baselines has {sorted(others)[0]!r:.40}, which is no baseline")
    if len(result[measure]) != len(result["seeds"]):
        raise CorruptFileError(
            f"{measure} has {len(result[measure])} entries of {len(result['seeds'])} seeds"
        )


def require_job(facts: Any) -> None:
    """Raise CorruptFileError where the facts of a sweep's job cannot be read."""
    _mapping({"number": whole, "status": text}, {"tracked": flag, "folder": text})(facts, "")
    if facts["status"] == "failed":
        anything = _each(lambda value, where: None)
        _mapping({"result": _failure, "config": anything})(facts, "")
        require_config(facts["config"])
    elif facts["status"] != "begun":
        _mapping({"tracked": flag, "folder": text})(facts, "")


def require_config(config: Mapping[str, Any]) -> None:
    """Raise CorruptFileError where a section that reports read is no mapping."""
    for name in ("algorithm", "dataset", "kernels", "stream", "regret"):
        if not isinstance(config.get(name, {}), dict | None):
            _refuse(name, config[name], "mapping")
    _require_floats(config, "", or_infinite=True)


def _refuse(where: str, value: Any, what: str) -> None:
    raise CorruptFileError(f"{where or 'it'} is {value!r:.40}, which is no {what}")


def text(value: Any, where: str) -> None:
    if not isinstance(value, str):
        _refuse(where, value, "text")


def text_or_null(value: Any, where: str) -> None:
    if value is not None:
        text(value, where)


def number(value: Any, where: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(where, value, "number")
    if isinstance(value, int):
        whole(value, where)


def number_or_null(value: Any, where: str) -> None:
    """A summary that has overflowed is null."""
    if value is not None:
        number(value, where)


def whole(value: Any, where: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not -LARGEST <= value < LARGEST:
        _refuse(where, value, "whole number below 2^63")


def whole_or_null(value: Any, where: str) -> None:
    if value is not None:
        whole(value, where)


def flag(value: Any, where: str) -> None:
    if not isinstance(value, bool):
        _refuse(where, value, "truth value")


def moment(value: Any, where: str) -> None:
    text(value, where)
    try:
        datetime.datetime.fromisoformat(value)
    except ValueError:
        _refuse(where, value, "time")


def _list(check: Check) -> Check:
    def check_list(value: Any, where: str) -> None:
        if not isinstance(value, list):
            _refuse(where, value, "list")
        for k, item in enumerate(value):
            check(item, f"{where}.{k}")

    return check_list


def _mapping(wanted: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """A mapping that has all keys of ``wanted``, and may have those of ``optional``."""

    def check_mapping(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            _refuse(where, value, "mapping")
        for key, check in {**(optional or {}), **wanted}.items():
            place = f"{where}.{key}" if where else key
            if key in value:
                check(value[key], place)
            elif key in wanted:
                raise CorruptFileError(f"{place} is missing")

    return check_mapping


def _each(check: Check) -> Check:
    """A mapping of names to values of one kind."""

    def check_each(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            _refuse(where, value, "mapping")
        for key, item in value.items():
            check(item, f"{where}.{key}")

    return check_each


def _computed_or_skipped(
    computed: Mapping[str, Check],
    optional: Mapping[str, Check],
    together: Mapping[str, Check] | None = None,
) -> Check:
    """An entry with numbers, or why it has none; of ``together`` all are there or none."""
    skipped, done = _mapping({"skipped": text}), _mapping(computed, optional)
    with_all = _mapping({**computed, **(together or {})}, optional)

    def check_entry(value: Any, where: str) -> None:
        found = value if isinstance(value, dict) else {}
        some = found.keys() & (together or {}).keys()
        (skipped if "skipped" in found else with_all if some else done)(value, where)

    return check_entry


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


BASELINES = ("mean", "last", "ridge", "constant")

numbers = _list(number_or_null)


def _windows(*coverages: str) -> Check:
    """Last rounds of windows, and as many numbers of each kind; there is one window at least."""
    check = _mapping({"until": _list(number), **dict.fromkeys(coverages, numbers)})

    def check_windows(value: Any, where: str) -> None:
        check(value, where)
        for name in coverages:
            if len(value[name]) != len(value["until"]) or not value["until"]:
                _refuse(f"{where}.{name}", value[name], "list of a number a window")

    return check_windows


_scores = ("log_loss", "coverage_50", "coverage_90", "width_90", "interval_score_90")
_sent = ("numbers_a_round", "bytes_a_round", "most_numbers_a_round", "numbers", "bytes")
_way = _mapping({"numbers_a_round": number, "bytes": number}, dict.fromkeys(_sent, number_or_null))
_limits = ("clients_per_round", "max_change", "max_loss")
_guarantee = ("noise", "clip", "delta", "epsilon_of_sample", "epsilon_of_client")
_safeguards = _mapping(
    {
        **dict.fromkeys(_limits, number_or_null),
        **dict.fromkeys(("trim", "messages", "refused"), number),
    },
    {"privacy": _mapping(dict.fromkeys(_guarantee, number_or_null))},
)
_statement = _mapping(
    {"name": text, "value": number_or_null, "of": text},
    dict.fromkeys(("measured", "beta"), number_or_null),
)

_of_key = _mapping({"rows": whole, "rmse": number}, {"last": number, "ridge": number})

ALWAYS: dict[str, Check] = {
    **dict.fromkeys(("key", "algorithm", "dataset", "kernels"), text),
    "started": moment,
    "params": _each(lambda value, where: None),
    "versions": _each(text_or_null),
    "machine": _mapping({}, {"processor": text, "cores": whole, "system": text}),
}
OPTIONAL: dict[str, Check] = {
    **dict.fromkeys(("settings_sha256", "task", "mse_over"), text),
    **dict.fromkeys(("commit", "numbers", "lock", "changes", "typed"), text_or_null),
    "machine_code": text,
    **dict.fromkeys(
        ("rmse", "mae", "r2", "target_unit", "max_norm", "max_squared_error", "mse_per_label"),
        number_or_null,
    ),
    **dict.fromkeys(
        ("max_kernel_squared_error", "al_efficiency_std", "updates_per_kernel", "support_size"),
        number_or_null,
    ),
    **dict.fromkeys(("best_kernel", "jobs_in_pass"), number_or_null),
    **dict.fromkeys(("n_inputs", "threads", "rows_without_target"), whole),
    "deterministic": flag,
    "mistakes": _list(number),
    "confusion": _list(_list(whole)),
    **dict.fromkeys(("log_loss", "brier_score"), number),
    "labels_per_seed": numbers,
    "labels_of_classes": _list(lambda value, where: None),
    "modules": _each(text),
    "missing_cells": _each(whole),
    "far_out": _each(number),
    "keys": _mapping(
        {
            "column": text,
            **dict.fromkeys(("n", "ranked"), whole),
            "better_than": _each(whole),
            **dict.fromkeys(("best", "worst"), _list(_of_key)),
        }
    ),
    "target_sorted": flag,
    "code": _mapping({"shared": text, "learner": text}),
    "stream": _mapping(
        {},
        {
            "name": text,
            "title": text,
            "url": text_or_null,
            "files": _list(_mapping({"name": text, "sha256": text})),
            "inputs": _list(text),
            "target": text_or_null,
            "scaling": _mapping({}, {"kind": text_or_null}),
            "limit": number_or_null,
            "synthetic": _each(lambda value, where: None),
        },
    ),
    "spread": _mapping(
        dict.fromkeys(_scores, number_or_null),
        {"windows": _windows("coverage_50", "coverage_90")},
    ),
    "interval": _mapping(
        {
            "level": number,
            **dict.fromkeys(("coverage", "width", "interval_score"), number_or_null),
        },
        {"rates": numbers, "windows": _windows("coverage")},
    ),
    "federated": _mapping(
        {
            "scheme": text,
            **dict.fromkeys(("n_clients", "rounds", "least_rounds", "rows", "rows_used"), whole),
            "up": _way,
            "down": _way,
        },
        {"safeguards": _safeguards, "max_upload": whole_or_null, "bytes_of_all": number_or_null},
    ),
    "bound": _computed_or_skipped(
        {"theorem": text, "value": number_or_null, "unproved": text_or_null},
        {
            "minimum": numbers,
            "further": _list(_statement),
        },
    ),
}
_error = _mapping({"type": text, "message": text, "traceback": text_or_null})
_failure = _mapping({**ALWAYS, "status": text, "error": _error}, OPTIONAL)
# What a result says since results are sealed, beside what tables ask for.
WITH_CHECKSUMS: dict[str, Check] = {
    "commit": text_or_null,
    "deterministic": flag,
    **dict.fromkeys(("n_inputs", "threads"), whole),
    "stream": _mapping({}),
}
CLASSIFICATION: dict[str, Check] = {
    "mistakes": _list(number),
    **dict.fromkeys(("updates_per_kernel", "support_size"), number),
    "best_kernel": number_or_null,
}
COMPLETE: dict[str, Check] = {
    "n_rounds": whole,
    "n_kernels": whole,
    "D": whole,
    "seeds": _list(whole),
    "seconds": number,
    "seconds_per_seed": numbers,
    "kernels_per_round": number,
    "labels": number,
    "al_efficiency": number,
    "regret": _each(
        _computed_or_skipped(
            {"label": text, "mean": number, "std": number_or_null},
            {
                **dict.fromkeys(("spread", "theta_norm"), number_or_null),
                "kernels": _list(text),
            },
            {
                **dict.fromkeys(("theorem", "bound_of"), text),
                **dict.fromkeys(("bound", "largest_loss"), number_or_null),
            },
        )
    ),
}
