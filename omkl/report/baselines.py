"""What stands beside a result: the baselines of its run, and whether the learner beats them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.report import style
from omkl.report.text import readable
from omkl.runs.run_folder import ERROR_RATE, Run, measure, number_of

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


class Line(NamedTuple):
    """The error (P,) of a baseline in rounds 1..t, t (P,), and what a figure calls it."""

    name: str
    text: str
    t: np.ndarray
    values: np.ndarray


def lines(runs: Sequence[Run]) -> Iterator[Line]:
    """The baselines of runs on one stream, each once, in the order of ``NAMES``.

    One that is not the same beside all runs, as they see other inputs or in other units, has a line
    for each, and the settings that tell them apart in its text.
    """
    found: dict[str, list[tuple[str, Run]]] = {name: [] for name in NAMES}
    for run, settings in zip(runs, style.varying(runs), strict=True):
        own = ", ".join(f"{k}={style.value_text(settings[k])}" for k in OTHERS if k in settings)
        for name in computed(run.result):
            if f"baseline_{name}" in run.curves and not any(
                np.array_equal(other.curves[f"baseline_{name}"], run.curves[f"baseline_{name}"])
                for _, other in found[name]
            ):
                found[name].append((own, run))
    for name, several in found.items():
        for own, run in several:
            text = f"{NAMES[name]}, {own}" if several[1:] and own else NAMES[name]
            yield Line(name, text, run.curves["t"], run.curves[f"baseline_{name}"])


OTHERS = (*style.OF_INPUTS, "stream.scaling")  # of runs on one stream


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
