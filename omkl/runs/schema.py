"""What ``result.json`` may hold, checked once for all who read it.

A run folder may be a stranger's: tables, figures and pages ask for names, numbers and mappings by
their keys, and would stumble over anything else. Keys that are not named here may hold what they
like, as long as every number fits a float and no text can reach a terminal as a command.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from omkl.runs.seal import Broken

Check = Callable[[Any, str], None]


def require(result: Mapping[str, Any], measure: str) -> None:
    """Raise Broken where a result is not what the schema says, naming the entry.

    Parameters
    ----------
    result
        The content of ``result.json``.
    measure
        The key of the error of its task, "mse" or "error_rate".
    """
    _plain(result, "")
    status = result.get("status")
    if status not in ("complete", "failed"):
        raise Broken(f"status is {status!r}, neither complete nor failed")
    _mapping(ALWAYS, OPTIONAL)(result, "")
    if status == "failed":
        _mapping({"error": _mapping({"type": text, "message": text, "traceback": text_or_null})})(
            result, ""
        )
        return
    error = {measure: number_or_null} if measure == "mse" else {measure: number}
    own = {measure: _list(error[measure]), f"{measure}_mean": error[measure]}
    accuracy = dict.fromkeys(("rmse", "mae") if measure == "mse" else (), number_or_null)
    of_baseline = _computed_or_skipped(accuracy, error)  # its error came in a later version
    baselines = _mapping({}, dict.fromkeys(BASELINES, of_baseline))
    more = {f"{measure}_std": number_or_null, "baselines": baselines}
    _mapping(COMPLETE | own, more)(result, "")
    if others := set(result.get("baselines", {})) - set(BASELINES):
        raise Broken(f"baselines has {sorted(others)[0]!r:.40}, which is no baseline")
    if len(result[measure]) != len(result["seeds"]):
        raise Broken(
            f"{measure} has {len(result[measure])} entries of {len(result['seeds'])} seeds"
        )


def require_plain(config: Mapping[str, Any]) -> None:
    """Raise Broken where a configuration holds a text that a terminal would obey."""
    _plain(config, "")


def _refuse(where: str, value: Any, what: str) -> None:
    raise Broken(f"{where or 'it'} is {value!r:.40}, which is no {what}")


def text(value: Any, where: str) -> None:
    if not isinstance(value, str):
        _refuse(where, value, "text")


def text_or_null(value: Any, where: str) -> None:
    if value is not None:
        text(value, where)


def number(value: Any, where: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(where, value, "number")


def number_or_null(value: Any, where: str) -> None:
    """A summary that has overflowed is null."""
    if value is not None:
        number(value, where)


def whole(value: Any, where: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        _refuse(where, value, "whole number")


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
        for key, check in {**wanted, **(optional or {})}.items():
            place = f"{where}.{key}" if where else key
            if key in value:
                check(value[key], place)
            elif key in wanted:
                raise Broken(f"{place} is missing")

    return check_mapping


def _each(check: Check) -> Check:
    """A mapping of names to values of one kind."""

    def check_each(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            _refuse(where, value, "mapping")
        for key, item in value.items():
            check(item, f"{where}.{key}")

    return check_each


def _computed_or_skipped(computed: Mapping[str, Check], optional: Mapping[str, Check]) -> Check:
    skipped, done = _mapping({"skipped": text}), _mapping(computed, optional)

    def check_entry(value: Any, where: str) -> None:
        (skipped if isinstance(value, dict) and "skipped" in value else done)(value, where)

    return check_entry


def _plain(value: Any, where: str) -> None:
    """Numbers that fit a float, and texts without the characters that command a terminal."""
    if isinstance(value, dict):
        for key, item in value.items():
            _plain(key, where)
            _plain(item, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list):
        for k, item in enumerate(value):
            _plain(item, f"{where}.{k}")
    elif isinstance(value, str):
        if any(not (c.isprintable() or c in "\n\t") and ord(c) < 160 for c in value):
            _refuse(where, value, "plain text")
    elif isinstance(value, int | float):
        try:
            finite = math.isfinite(value)
        except OverflowError:
            finite = False
        if not finite:
            _refuse(where, value if isinstance(value, float) else "too large", "finite number")


BASELINES = ("mean", "last", "ridge", "constant")

numbers = _list(number_or_null)
_windows = _mapping({"until": numbers}, {f"coverage{n}": numbers for n in ("", "_50", "_90")})
_scores = ("log_loss", "coverage_50", "coverage_90", "width_90", "interval_score_90")
_sent = ("numbers_a_round", "bytes_a_round", "most_numbers_a_round", "numbers", "bytes")
_statement = _mapping({"name": text}, {"value": number_or_null, "measured": number_or_null})

ALWAYS: dict[str, Check] = {
    **dict.fromkeys(("key", "algorithm", "dataset", "kernels", "started"), text),
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
    **dict.fromkeys(("best_kernel", "n_inputs", "threads", "jobs_in_pass"), number_or_null),
    "mistakes": numbers,
    "labels_per_seed": numbers,
    "labels_of_classes": _list(lambda value, where: None),
    "modules": _each(text),
    "code": _mapping({"shared": text, "learner": text}),
    "stream": _mapping(
        {},
        {
            "name": text,
            "title": text,
            "url": text_or_null,
            "files": _list(_mapping({"name": text, "sha256": text})),
            "inputs": _list(text),
            "target": text,
            "scaling": _mapping({}, {"kind": text_or_null}),
            "limit": number_or_null,
            "synthetic": _each(lambda value, where: None),
        },
    ),
    "spread": _mapping({}, {**dict.fromkeys(_scores, number_or_null), "windows": _windows}),
    "interval": _mapping(
        {},
        {
            **dict.fromkeys(("level", "coverage", "width", "interval_score"), number_or_null),
            "rates": numbers,
            "windows": _windows,
        },
    ),
    "federated": _mapping(
        {"scheme": text, "n_clients": whole},
        {
            **dict.fromkeys(
                ("rounds", "least_rounds", "rows", "rows_used", "max_upload", "bytes_of_all"),
                number_or_null,
            ),
            "up": _mapping({}, dict.fromkeys(_sent, number_or_null)),
            "down": _mapping({}, dict.fromkeys(_sent, number_or_null)),
        },
    ),
    "bound": _computed_or_skipped(
        {"theorem": text},
        {
            "value": number_or_null,
            "minimum": numbers,
            "unproved": text_or_null,
            "further": _list(_statement),
        },
    ),
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
            {"label": text, "mean": number_or_null, "std": number_or_null},
            {
                **dict.fromkeys(("spread", "bound", "theta_norm", "largest_loss"), number_or_null),
                **dict.fromkeys(("theorem", "bound_of"), text),
                "kernels": _list(text),
            },
        )
    ),
}
