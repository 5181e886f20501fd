"""What stands beside a result: the baselines of its run, and whether the learner beats them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omkl.report.text import readable
from omkl.runs.folder import ERROR_RATE, measure, number_of

NAMES = {
    "mean": "running mean",
    "last": "last label",
    "ridge": "linear ridge",
    "constant": "most frequent class",
}


def computed(result: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Those that have numbers, by name."""
    entries = result.get("baselines", {})
    return {name: entry for name, entry in entries.items() if "skipped" not in entry}


def accuracy_text(entry: Mapping[str, Any]) -> str:
    """Root mean squared and mean absolute error in units of the target, or the error rate."""
    if "error_rate" in entry:
        return f"{100 * entry['error_rate']:.2f} %"
    return f"RMSE {readable(number_of(entry['rmse']))}, MAE {readable(number_of(entry['mae']))}"


def compared_by(result: Mapping[str, Any]) -> tuple[str, str]:
    """What a run is compared with its baselines by: its name in their entries, and in the result.

    That is what the learner's own row of a table says: of a federation MSE alone.
    """
    if measure(result) is ERROR_RATE:
        return "error_rate", "error_rate_mean"
    return ("rmse", "rmse") if "rmse" in result else ("mse", "mse_mean")


def worse_than(result: Mapping[str, Any]) -> str:
    """In words, the baselines that make smaller errors than the learner; "" if there is none."""
    key, own = compared_by(result)
    names = [
        f"the {NAMES[name]}"
        for name, entry in computed(result).items()
        if number_of(entry.get(key)) < number_of(result.get(own))
    ]
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), *names[-1:]])
