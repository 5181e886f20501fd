"""One table of the runs of a sweep: printed, as Markdown and as CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from omkl.disk import write_atomically
from omkl.report import baselines, columns, same_code, stars, style, sweep_columns
from omkl.report.columns import Column
from omkl.report.sweep_columns import (
    BASELINE,
    Row,
    comparators_text,
    pairs,
    setting_names,
    setting_texts,
    short_names,
)
from omkl.report.text import csv_text, latex_table, markdown_table, markdown_text
from omkl.runs.run_folder import ERROR_RATE, MSE, Run, measure, number_of, scaling_of
from omkl.runs.wording import plain


def sweep_table(runs: Sequence[Run]) -> list[Row]:
    """One row a complete run, grouped by data set, in the order of ``runs``.

    ``settings`` holds what varies among the runs, ``stream`` what of it makes another stream of the
    data set, ``measure`` what the run is judged by;
    ``mse`` and ``mse_std``, or ``error_rate`` and ``error_rate_std``, are in units of 1 (std
    None for one seed), ``scores`` the same by seed, ``seconds`` is the time of all seeds; ``best``
    marks the lowest of the data set and what does not differ from it, among runs with the same
    ``stream``, ``scaling`` and ``code`` (``omkl.report.same_code``); ``p_star`` is the p-value
    (``omkl.report.stars``); ``regret`` and ``regret_std`` belong to the first comparator that was
    computed, named in ``comparator`` (all None if none was). ``al_efficiency`` is the share of the
    labels that were asked for. Below the runs of a data set are its ``baselines``.
    """
    swept, codes = style.swept(runs), same_code.codes_of(runs)
    rows = []
    for run, settings, of_code in zip(runs, swept, codes, strict=True):
        if not run.complete:
            continue
        result, key = run.result, measure(run.result).key
        comparator = next((v for v in result["regret"].values() if "mean" in v), None)
        rows.append(
            {
                "algorithm": style.name_of(run),
                "dataset": result["dataset"],
                "settings": settings,
                "stream": style.of_stream(settings),
                "measure": measure(result),
                "scaling": _scaling(run),
                "code": of_code,
                key: number_of(result[f"{key}_mean"]),
                f"{key}_std": result[f"{key}_std"],
                "scores": dict(zip(result["seeds"], map(number_of, result[key]), strict=True)),
                "draws": _draws(run),
                "regret": comparator and comparator["mean"],
                "regret_std": comparator and comparator["std"],
                "comparator": comparator and comparator["label"],
                "labels": result["labels"],
                "al_efficiency": result["al_efficiency"],
                "mse_per_label": result.get("mse_per_label"),
                "seconds": result["seconds"],
                "kernels_per_round": result["kernels_per_round"],
                "n_seeds": len(result["seeds"]),
                "folder": _short(run.folder),
            }
        )
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    for dataset in datasets:
        comparable: dict[str, list[Row]] = {}
        for row in rows:
            if row["dataset"] == dataset:
                group = str((row["measure"].key, row["scaling"], row["stream"], row["code"]))
                comparable.setdefault(group, []).append(row)
        for alike in comparable.values():
            stars.compare(alike)
    rows += _baseline_rows(runs, swept)
    rows.sort(key=lambda row: datasets.index(row["dataset"]))
    return rows


def _scaling(run: Run) -> str | None:
    """``stream.scaling`` of a regression, which errors depend on by unit or by the first round."""
    return scaling_of(run.result) if measure(run.result) is MSE else None


def _draws(run: Run) -> bool:
    """Whether another seed could give another score: by what is drawn, or by the order of rows."""
    own_order = (
        measure(run.result) is ERROR_RATE
        and (run.config.get("stream") or {}).get("order") == "shuffled"
    )
    return own_order or not run.result.get("deterministic")


def _baseline_rows(runs: Sequence[Run], swept: Sequence[Row]) -> list[Row]:
    """One row a baseline and data set; several where settings of the stream vary."""
    rows: dict[str, Row] = {}
    for run, settings in zip(runs, swept, strict=True):
        result, kind = run.result, measure(run.result)
        parts = ("dataset", "stream", "federation", "clients")
        of_stream = {k: v for k, v in settings.items() if k.partition(".")[0] in parts}
        for name, entry in baselines.computed(result).items() if run.complete else ():
            if kind.key not in entry:
                continue
            row = {
                "algorithm": f"{baselines.NAMES[name]}{BASELINE}",
                "dataset": result["dataset"],
                "settings": of_stream,
                "measure": kind,
                kind.key: number_of(entry[kind.key]),
                f"{kind.key}_std": None,
                "best": False,
                "regret": None,
                "regret_std": None,
                "comparator": None,
                "status": "baseline",
                "folder": "",
            }
            rows.setdefault(str((row["algorithm"], row["dataset"], of_stream, kind.key)), row)
    return list(rows.values())


def failure_table(runs: Sequence[Run]) -> list[Row]:
    """One row a run that is not complete: what it was and why it ended."""
    rows = []
    for run, settings in zip(runs, style.swept(runs), strict=True):
        if run.complete:
            continue
        result = run.result
        error = result["error"]
        rows.append(
            {
                "algorithm": style.name_of(run),
                "dataset": result["dataset"],
                "settings": settings,
                "status": result["status"],
                "error": f"{error['type']}: {error['message']}",
                "folder": _short(run.folder),
            }
        )
    return rows


def print_sweep(rows: Sequence[Row], failures: Sequence[Row], console: Any) -> None:
    """Print the rows to a ``rich.console.Console``, failures last.

    Columns that say least are left out where there is no room, and named.
    """
    from rich.text import Text

    if rows:
        fitted, remarks = sweep_columns.fitted(rows, console.width)
        ends = {i for i, row in enumerate(rows[1:]) if row["dataset"] != rows[i]["dataset"]}
        columns.show(fitted.columns, console, ends, {i for i, r in enumerate(rows) if r["best"]})
        console.print()
        console.print(Text(f"* {stars.meaning(rows, short_names(rows))}"))
        for remark in remarks:
            console.print(Text(remark))
        if "regret" not in fitted.left_out and (comparators := comparators_text(rows)):
            console.print(Text(f"regret against: {comparators}"))
        if fitted.left_out:
            console.print(Text(columns.left_out_text(fitted.left_out)))
    if failures:
        _print_failures(failures, console)


def _print_failures(failures: Sequence[Row], console: Any) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console.print(Text(f"\n{len(failures)} not complete"))
    alike: dict[str, list[Row]] = {}
    for row in failures:
        alike.setdefault(row["error"], []).append(row)
    for error, rows in alike.items():
        runs = (", ".join([f"{r['algorithm']} on {r['dataset']}", *pairs(r)]) for r in rows)
        console.print(Padding(Text(f"{'; '.join(runs)}: {error}"), (0, 0, 0, 2)))
        for row in rows:  # to be copied
            console.print(Text(f"  {row['folder']}"), soft_wrap=True)


def write_sweep(rows: Sequence[Row], failures: Sequence[Row], folder: Path) -> list[Path]:
    """Write table.csv (every run, numbers in full) and table.md (for reading)."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "table.csv", folder / "table.md"]
    write_atomically(paths[0], csv(rows, failures))
    write_atomically(paths[1], markdown(rows, failures))
    return paths


def csv(rows: Sequence[Row], failures: Sequence[Row]) -> str:
    """Every run and baseline, numbers in full and in units of 1."""
    return csv_text(_csv_lines(rows, failures))


def markdown(rows: Sequence[Row], failures: Sequence[Row]) -> str:
    return "\n".join([*_markdown(rows), *_failures_in_markdown(failures)])


def latex(rows: Sequence[Row]) -> str:
    """The same columns as a LaTeX table."""
    shown, n_names, body = _cells(rows)
    bold = {(i, n_names) for i, row in enumerate(rows) if row["best"]}
    return latex_table([column.heading for column in shown], body, n_names, bold)


def _cells(rows: Sequence[Row]) -> tuple[list[Column], int, list[list[str]]]:
    """All columns, how many of them are names, and the cells by row."""
    shown = sweep_columns.columns_of(rows)
    n_names = sum(not column.right for column in shown)
    by_row = zip(*(column.cells for column in shown), strict=True)
    return shown, n_names, [list(cells) for cells in by_row]


def _csv_lines(rows: Sequence[Row], failures: Sequence[Row]) -> Iterator[list[Any]]:
    settings = setting_names([*rows, *failures])
    keys = dict.fromkeys(row["measure"].key for row in rows) or {"mse": None}
    losses = [name for key in keys for name in (key, f"{key}_std")]
    numbers = [*losses, "regret", "regret_std", "comparator", "labels", "al_efficiency"]
    numbers += ["mse_per_label", "seconds", "kernels_per_round", "n_seeds", "best", "p_star"]
    yield ["algorithm", "dataset", *settings, *numbers, "status", "error", "folder"]
    for row in [*rows, *failures]:
        chosen = [row["settings"].get(name, "") for name in settings]
        values = ["" if row.get(name) is None else row[name] for name in numbers]
        end = [row.get("status", "complete"), row.get("error", ""), row["folder"]]
        yield [row["algorithm"], row["dataset"], *chosen, *values, *end]


def _markdown(rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    shown, n_names, body = _cells(rows)
    for row, cells in zip(rows, body, strict=True):
        if row["best"]:
            cells[n_names] = f"**{cells[n_names]}**"
    remark = f"Bold: {stars.meaning(rows, short_names(rows))}. Seconds: all seeds together."
    headings = [column.heading for column in shown]
    parts = [markdown_table(headings, body, left=n_names), "", remark, ""]
    if comparators := comparators_text(rows):
        parts += [f"Regret against: {markdown_text(comparators)}.", ""]
    return parts


def _failures_in_markdown(failures: Sequence[Row]) -> list[str]:
    if not failures:
        return []
    settings = setting_names(failures)
    headings = ["algorithm", "data set", *settings, "error", "folder"]
    body = [
        [r["algorithm"], r["dataset"], *setting_texts(r, settings), r["error"], r["folder"]]
        for r in failures
    ]
    return ["Not complete:", "", markdown_table(headings, body, left=len(headings)), ""]


def _short(folder: Path) -> str:
    """The run folder below its outputs folder; runs can be moved, so never absolute."""
    return plain("/".join(Path(folder).parts[-3:]))
