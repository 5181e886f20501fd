"""Collect runs in a data frame with one row per run, from which all tables are made.

The columns are ``algorithm`` and ``dataset``, then the settings that vary, then ``status`` and the
metrics in full precision. The columns in ``HIDDEN`` contain further data for the tables.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from omkl.report import naming, stats
from omkl.report.tables import absent
from omkl.runs.run_folder import ERROR_RATE, MSE, Run, measure, number_of, scaling_of
from omkl.utils.wording import few, plain

HIDDEN = ["run", "measure", "stream", "scaling", "code", "started", "scores", "draws", "untested"]
NUMBERS = ["mse", "mse_std", "error_rate", "error_rate_std", "rmse", "mae", "r2", "regret",
           "regret_std", "labels", "al_efficiency", "coverage", "width",
           "seconds", "kernels_per_round", "n_rounds", "n_seeds"]  # fmt: skip
FACTS = ["status", *NUMBERS, "best", "p_star", "comparator", "error", "key", "folder", *HIDDEN]
OF_RESULT = ("labels", "al_efficiency", "seconds", "kernels_per_round", "n_rounds")
BASELINE = "baseline"


def frame_of(runs: Sequence[Run], extra: Sequence[str] = ()) -> pd.DataFrame:
    """Return the frame of the runs, with the settings that vary and the settings ``extra``.

    ``error_rate`` is a share from 0 to 1. A run with one seed has no deviation over seeds.
    ``stats.compare`` compares the runs on one stream: ``best`` is True for runs with a star, and
    ``p_star`` is the p-value of the test. ``regret`` is against the first comparator that was
    computed.
    """
    rows = []
    for run, varying in zip(runs, naming.varying(runs, of_all=True), strict=True):
        every = naming.settings_of(run)
        settings = {name: every[name] for name in extra if name in every} | varying
        row = {"algorithm": run.result["algorithm"], "dataset": run.result["dataset"]}
        row |= {f"algorithm.{k}" if k in FACTS else k: v for k, v in settings.items()}
        row |= {"status": run.result["status"], "stream": naming.of_stream(settings), "run": run}
        row |= {"key": run.result["key"], "folder": plain("/".join(run.folder.parts[-3:]))}
        if run.complete:
            row |= _numbers(run)
        else:
            error = run.result["error"]
            row["error"] = f"{error['type']}: {error['message']}"
        rows.append(row)
    comparable: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if "scores" in row:
            parts = ("dataset", "measure", "scaling", "stream", "code")
            comparable.setdefault(str([row[part] for part in parts]), []).append(row)
    for group in comparable.values():
        stats.compare(group)
    given = [name for row in rows for name in row if name not in FACTS]
    names = dict.fromkeys(["algorithm", "dataset", *given, *FACTS])
    return pd.DataFrame(rows, columns=[*names], dtype=object)


def _numbers(run: Run) -> dict[str, Any]:
    result, kind = run.result, measure(run.result)
    no: dict[str, Any] = {}
    comparator = next((entry for entry in result["regret"].values() if "mean" in entry), no)
    shuffled = (run.config.get("stream") or {}).get("order") == "shuffled"
    scores = dict(zip(result["seeds"], map(number_of, result[kind.key]), strict=True))
    in_units = [name for name in ("rmse", "mae", "r2") if kind is MSE and name in result]
    return {
        kind.key: number_of(result[f"{kind.key}_mean"]),
        f"{kind.key}_std": result[f"{kind.key}_std"],
        **{name: number_of(result[name]) for name in in_units},
        **{name: result[name] for name in OF_RESULT if name in result},
        **{name: result.get("interval", {}).get(name) for name in ("coverage", "width")},
        "regret": comparator.get("mean"),
        "regret_std": comparator.get("std"),
        "comparator": comparator.get("label"),
        "n_seeds": len(result["seeds"]),
        "measure": kind,
        "code": result.get("code"),
        "started": result["started"],
        # The scaling of a regression decides the unit of its errors and the scored rows.
        "scaling": scaling_of(result) if kind is MSE else None,
        "scores": scores,
        # Whether the score depends on the seed, by random numbers or by the order of rows.
        "draws": (kind is ERROR_RATE and shuffled) or not result.get("deterministic"),
    }


def settings_in(frame: pd.DataFrame) -> list[str]:
    """Return the columns of the frame that are settings."""
    return list(frame.columns[2 : frame.columns.get_loc("status")])


def with_baselines(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the complete runs of a frame, and the baselines of each data set after its runs."""
    complete = frame[frame["status"] == "complete"]
    parts = ("dataset", "stream", "federation", "clients")
    of_stream = [name for name in settings_in(frame) if name.partition(".")[0] in parts]
    rows: dict[str, dict[str, Any]] = {}
    for row in complete.to_dict("records"):
        key = row["measure"].key
        for name, entry in stats.computed(row["run"].result).items():
            if key in entry:
                known = {k: row[k] for k in ("dataset", "measure", *of_stream)}
                known |= {"algorithm": stats.NAMES[name], "status": BASELINE, "best": False}
                rows.setdefault(str(known), known | {key: number_of(entry[key])})
    if not rows:
        return complete
    baselines = pd.DataFrame([*rows.values()], columns=frame.columns, dtype=object)
    return _by_dataset(pd.concat([complete, baselines], ignore_index=True))


def _by_dataset(frame: pd.DataFrame) -> pd.DataFrame:
    order = {name: place for place, name in enumerate(frame["dataset"].unique())}
    return frame.sort_values("dataset", key=lambda names: names.map(order), kind="stable")


def in_order(frame: pd.DataFrame, sort: str = "") -> pd.DataFrame:
    """Sort the rows of each data set by the column ``sort``.

    ``sort="rmse"`` sorts from the smallest value, ``sort="-rmse"`` from the largest. Rows without a
    value come last. An empty ``sort`` orders the rows by algorithm and settings, with baselines
    last. Raises ValueError for a column that does not exist.
    """
    names, column = settings_in(frame), sort.removeprefix("-")
    sortable = [name for name in ("algorithm", *names, *NUMBERS) if frame[name].notna().any()]
    if sort and column not in sortable:
        raise ValueError(f"sort={sort}: no row has {column!r}; there are: {', '.join(sortable)}")
    rows = frame.to_dict("records")
    order = sorted(
        range(len(rows)),
        key=lambda i: (
            rows[i]["status"] == BASELINE,
            [_place(rows[i][name]) for name in ("algorithm", *names)],
        ),
    )
    if sort:
        order.sort(key=lambda i: _place(rows[i][column]), reverse=sort.startswith("-"))
        order.sort(key=lambda i: absent(rows[i][column]))
    return _by_dataset(frame.iloc[order])


def _place(value: Any) -> tuple[int, float, str]:
    """Return a key that sorts numbers by size, then texts, then missing values."""
    if absent(value):
        return 2, 0.0, ""
    return (0, value, "") if isinstance(value, int | float) else (1, 0.0, naming.value_text(value))


# --- which runs -----------------------------------------------------------------------------------


def matching(runs: Sequence[Run], wanted: Mapping[str, Sequence[str]]) -> list[Run]:
    """Return the runs that have, for each key of ``wanted``, one of its values.

    A key is a setting, a parameter, or an entry such as ``status``. Numbers are compared as
    numbers. A value may contain the wildcard ``*``. The data set of a user's file has a name such
    as ``my-5c82``, which also matches ``dataset=my``. Raises ValueError if no run has a key, or if
    no run matches.
    """
    names = ("algorithm", "dataset", "status", "key")
    facts = [naming.settings_of(r) | {name: r.result[name] for name in names} for r in runs]
    left = list(zip(runs, facts, strict=True))
    for key, texts in wanted.items():
        if not any(key in of_run for of_run in facts):
            every = dict.fromkeys(name for of_run in facts for name in of_run)
            raise ValueError(
                f"no run has {key}=; there are: {', '.join([*every, 'sort', 'format'])}"
            )
        texts = [*texts, *(f"{text}-{'[0-9a-f]' * 4}" for text in texts if key == "dataset")]
        left = [one for one in left if any(_is(one[1].get(key), text) for text in texts)]
    if not left:
        pairs = " ".join(f"{key}={','.join(texts)}" for key, texts in wanted.items())
        known = "; ".join(
            f"{key}: {few(dict.fromkeys(naming.value_text(one.get(key)) for one in facts))}"
            for key in wanted
        )
        raise ValueError(f"no run has {pairs}. There are {known}")
    return [run for run, _ in left]


def _is(value: Any, text: str) -> bool:
    try:
        return float(value) == float(text)
    except (TypeError, ValueError):
        shown, text = naming.value_text(value).lower(), text.lower()
        return shown == text or fnmatch.fnmatchcase(shown, text)  # [u] is a list, and a pattern
