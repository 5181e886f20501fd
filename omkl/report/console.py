"""One finished run, told on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omkl.report.style import name_of

if TYPE_CHECKING:
    from rich.console import Console

    from omkl.results import Run


def mse_text(result: Mapping[str, Any]) -> str:
    """Mean squared error and its deviation over seeds, in units of 10^-3."""
    text = f"{1e3 * result['mse_mean']:.2f}"
    if result["mse_std"] is not None:
        text += f" ± {1e3 * result['mse_std']:.2f}"
    return text + " x 10^-3"


def print_run(run: Run, console: Console) -> None:
    """The result table of one run: error, regret, kernels and time."""
    from rich.table import Table

    result = run.result
    n_seeds = len(result["seeds"])
    table = Table(
        title=f"{name_of(run)} on {result['dataset']}", title_justify="left", show_header=False
    )
    table.add_row("MSE", f"{mse_text(result)}   (mean ± std over {n_seeds} seeds)")
    table.add_row("rounds", f"{result['n_rounds']:,} of {result['n_inputs']} inputs")
    table.add_row(
        "kernels",
        f"{result['n_kernels']} in the dictionary, {result['kernels_per_round']:.4g} a round",
    )
    table.add_row("labels", f"{result['labels']:,.0f} asked for")
    for entry in result["regret"].values():
        if "skipped" in entry:
            continue
        spread = "" if entry["std"] is None else f" ± {entry['std']:.2f}"
        table.add_row("regret", f"{entry['mean']:.2f}{spread} above {entry['label']}")
    rate = result["n_rounds"] * n_seeds / result["seconds"]
    table.add_row(
        "time", f"{result['seconds']:.2f} s, {rate:,.0f} rounds/s on {result['threads']} threads"
    )
    console.print(table)
    for entry in result["regret"].values():
        if "skipped" in entry:
            console.print(f"Not computed: {entry['label']} ({entry['skipped']}).")
