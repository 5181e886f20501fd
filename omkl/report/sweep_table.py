"""One table of the runs of a sweep: printed, as Markdown and as CSV."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omkl.disk import write_atomically
from omkl.report import baselines, stars, style
from omkl.report.text import csv_text, markdown_table, markdown_text, readable
from omkl.runs.folder import ERROR_RATE, LARGE_MSE, MSE, Run, measure

if TYPE_CHECKING:
    from rich.table import Table

Row = dict[str, Any]


def sweep_table(runs: Sequence[Run]) -> list[Row]:
    """One row a complete run, grouped by data set, in the order of ``runs``.

    ``settings`` holds what varies in the sweep, ``measure`` what the run is judged by;
    ``mse`` and ``mse_std``, or ``error_rate`` and ``error_rate_std``, are in units of 1 (std
    None for one seed), ``scores`` the same by seed, ``seconds`` is the time of all seeds; ``best``
    marks the lowest of the data set and what does not differ from it, ``p_star`` is the p-value
    (``omkl.report.stars``); ``regret`` belongs to the first comparator that was computed, named in
    ``comparator`` (both None if none was). ``al_efficiency`` is the share of the labels that
    were asked for. Below the runs of a data set are its ``baselines``.
    """
    varying = style.varying(runs)
    rows = []
    for run, settings in zip(runs, varying, strict=True):
        if not run.complete:
            continue
        result, key = run.result, measure(run.result).key
        comparator = next((v for v in result["regret"].values() if "mean" in v), None)
        rows.append(
            {
                "algorithm": style.name_of(run),
                "dataset": result["dataset"],
                "settings": settings,
                "measure": measure(result),
                key: result[f"{key}_mean"],
                f"{key}_std": result[f"{key}_std"],
                "scores": dict(zip(result["seeds"], result[key], strict=True)),
                "draws": _draws(run),
                "regret": comparator and comparator["mean"],
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
        members = [row for row in rows if row["dataset"] == dataset]
        for kind in {row["measure"] for row in members}:
            stars.compare([row for row in members if row["measure"] == kind])
    rows += _baseline_rows(runs, varying)
    rows.sort(key=lambda row: datasets.index(row["dataset"]))
    if any(row.get("mse", 0.0) >= LARGE_MSE for row in rows):
        for row in rows:
            if row["measure"] is MSE:
                row["measure"] = MSE._replace(scale=1.0, unit="")
    return rows


def _draws(run: Run) -> bool:
    """Whether another seed could give another score: by what is drawn, or by the order of rows."""
    own_order = measure(run.result) is ERROR_RATE and run.config["stream"]["order"] == "shuffled"
    return own_order or not run.result["deterministic"]


def _baseline_rows(runs: Sequence[Run], varying: Sequence[Row]) -> list[Row]:
    """One row a baseline and data set; several where settings of the stream vary."""
    rows: dict[str, Row] = {}
    for run, settings in zip(runs, varying, strict=True):
        result, kind = run.result, measure(run.result)
        of_stream = {k: v for k, v in settings.items() if k.startswith("stream.")}
        for name, entry in baselines.computed(result).items() if run.complete else ():
            row = {
                "algorithm": f"{baselines.NAMES[name]} (baseline)",
                "dataset": result["dataset"],
                "settings": of_stream,
                "measure": kind,
                kind.key: entry[kind.key],
                f"{kind.key}_std": None,
                "best": False,
                "regret": None,
                "comparator": None,
                "status": "baseline",
                "folder": "",
            }
            rows.setdefault(str((row["algorithm"], row["dataset"], of_stream, kind.key)), row)
    return list(rows.values())


def failure_table(runs: Sequence[Run]) -> list[Row]:
    """One row a run that is not complete: what it was and why it ended."""
    varying = style.varying(runs)
    rows = []
    for run, settings in zip(runs, varying, strict=True):
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
    """Print the rows to a ``rich.console.Console`` of 80 columns or more, failures last.

    The regret has a column only where there is room for it (100 columns).
    """
    from rich.text import Text

    with_regret = console.width >= 100 and any(row["regret"] is not None for row in rows)
    if rows:
        console.print(_grid(rows, with_regret))
        console.print(
            Text(
                f"* {stars.meaning(rows, _short_names(rows))}; AL_eff: share of the labels "
                "asked for; seconds: all seeds"
            )
        )
        if with_regret:
            console.print(Text("regret against: " + "; ".join(_comparators(rows))))
    if failures:
        console.print(_failure_grid(failures))


def _grid(rows: Sequence[Row], with_regret: bool) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    settings = _setting_names(rows)
    below_name = len(settings) > 1  # columns would be too narrow
    longest = max(2 + len(pair) for row in rows for pair in _pairs(row)) if below_name else 7
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    grid.add_column("algorithm", overflow="fold", min_width=min(longest, 26))
    grid.add_column("data set", overflow="fold", min_width=6)
    for name in [] if below_name else settings:
        grid.add_column(Text(name), overflow="fold", min_width=4)
    numbers = [_heading(rows), *(["regret"] if with_regret else [])]
    for heading in (*numbers, "AL_eff", "seconds", "kernels\n/ round", "seeds"):
        grid.add_column(heading, justify="right", no_wrap=True)
    for place, row in enumerate(rows):
        cells = [
            "\n  ".join([row["algorithm"], *(_pairs(row) if below_name else [])]),
            row["dataset"],
            *([] if below_name else _setting_texts(row, settings)),
            _loss_text(row) + (" *" if row["best"] else "  "),
            *([_number(row["regret"], "{:.4g}")] if with_regret else []),
            *_cost_texts(row),
        ]
        last = place + 1 == len(rows) or rows[place + 1]["dataset"] != row["dataset"]
        looks = "bold" if row["best"] else ""
        grid.add_row(*(Text(cell, style=looks) for cell in cells), end_section=last)
    return grid


def _failure_grid(failures: Sequence[Row]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    title = f"{len(failures)} not complete"
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for heading in ("run", "error", "folder"):
        grid.add_column(heading, overflow="fold")
    for row in failures:
        what = ", ".join([f"{row['algorithm']} on {row['dataset']}", *_pairs(row)])
        grid.add_row(Text(what), Text(row["error"]), Text(row["folder"]))
    return grid


def write_sweep(rows: Sequence[Row], failures: Sequence[Row], folder: Path) -> list[Path]:
    """Write table.csv (every run, numbers in full) and table.md (for reading)."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "table.csv", folder / "table.md"]
    write_atomically(paths[0], csv_text(_csv_lines(rows, failures)))
    write_atomically(paths[1], "\n".join([*_markdown(rows), *_failures_in_markdown(failures)]))
    return paths


def _csv_lines(rows: Sequence[Row], failures: Sequence[Row]) -> Iterator[list[Any]]:
    settings = _setting_names([*rows, *failures])
    keys = dict.fromkeys(row["measure"].key for row in rows) or {"mse": None}
    losses = [name for key in keys for name in (key, f"{key}_std")]
    numbers = [*losses, "regret", "comparator", "labels", "al_efficiency", "mse_per_label"]
    numbers += ["seconds", "kernels_per_round", "n_seeds", "best", "p_star"]
    yield ["algorithm", "dataset", *settings, *numbers, "status", "error", "folder"]
    for row in [*rows, *failures]:
        chosen = [row["settings"].get(name, "") for name in settings]
        values = ["" if row.get(name) is None else row[name] for name in numbers]
        end = [row.get("status", "complete"), row.get("error", ""), row["folder"]]
        yield [row["algorithm"], row["dataset"], *chosen, *values, *end]


def _markdown(rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    settings = _setting_names(rows)
    headings = ["algorithm", "data set", *settings, _heading(rows), "regret", "AL_eff", "seconds"]
    headings += ["kernels / round", "seeds"]
    body = []
    for row in rows:
        loss = _loss_text(row)
        body.append(
            [
                *(row["algorithm"], row["dataset"], *_setting_texts(row, settings)),
                f"**{loss}**" if row["best"] else loss,
                _number(row["regret"], "{:.4g}"),
                *_cost_texts(row),
            ]
        )
    remark = (
        f"Bold: {stars.meaning(rows, _short_names(rows))}. AL_eff: share of the labels that "
        "were asked for. Seconds: all seeds together."
    )
    parts = [markdown_table(headings, body, left=2 + len(settings)), "", remark, ""]
    if comparators := _comparators(rows):
        parts += [f"Regret against: {markdown_text('; '.join(comparators))}.", ""]
    return parts


def _failures_in_markdown(failures: Sequence[Row]) -> list[str]:
    if not failures:
        return []
    settings = _setting_names(failures)
    headings = ["algorithm", "data set", *settings, "error", "folder"]
    body = [
        [r["algorithm"], r["dataset"], *_setting_texts(r, settings), r["error"], r["folder"]]
        for r in failures
    ]
    return ["Not complete:", "", markdown_table(headings, body, left=len(headings)), ""]


def _short(folder: Path) -> str:
    """The run folder below its outputs folder; runs can be moved, so never absolute."""
    return "/".join(Path(folder).parts[-3:])


def _setting_names(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row["settings"]))


def _setting_texts(row: Row, names: Iterable[str]) -> list[str]:
    chosen = row["settings"]
    return [style.value_text(chosen[name]) if name in chosen else "" for name in names]


def _pairs(row: Row) -> list[str]:
    return [f"{name}={style.value_text(value)}" for name, value in row["settings"].items()]


def _comparators(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["comparator"] for row in rows if row["comparator"]))


def _cost_texts(row: Row) -> list[str]:
    """Labels, seconds, kernels a round and seeds, which a baseline has none of."""
    if row.get("status") == "baseline":
        return [""] * 4
    return [
        f"{row['al_efficiency']:.3g}",
        f"{row['seconds']:.3g}",
        f"{row['kernels_per_round']:.4g}",
        str(row["n_seeds"]),
    ]


def _loss_text(row: Row) -> str:
    kind = row["measure"]
    loss, std = kind.scale * row[kind.key], row[f"{kind.key}_std"]
    if kind.scale == 1.0:
        return readable(loss) + ("" if std is None else f" ± {readable(std, loss)}")
    return f"{loss:.2f}" if std is None else f"{loss:.2f} ± {kind.scale * std:.2f}"


def _heading(rows: Sequence[Row]) -> str:
    kinds = dict.fromkeys(row["measure"] for row in rows) or {MSE: None}
    return " or ".join(f"{kind.short}{kind.unit}" for kind in kinds)


def _short_names(rows: Sequence[Row]) -> str:
    return " or ".join(dict.fromkeys(row["measure"].short for row in rows))


def _number(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)
