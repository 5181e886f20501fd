"""Jobs told on a terminal: a bar while they run, then a table, or a line of a sweep."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omkl.report.style import name_of
from omkl.runs.folder import ERROR_RATE, measure

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from omkl.experiment.run import Outcome
    from omkl.runs.folder import Run


def loss_text(result: Mapping[str, Any]) -> str:
    """Mean squared error or error rate, with its name and its deviation over seeds."""
    if measure(result) is ERROR_RATE:
        return f"errors {error_text(result)}"
    return f"MSE {mse_text(result)}"


def error_text(result: Mapping[str, Any]) -> str:
    """Error rate and its deviation over seeds, in per cent."""
    std = result["error_rate_std"]
    spread = "" if std is None else f" ± {100 * std:.2f}"
    return f"{100 * result['error_rate_mean']:.2f}{spread} %"


def mse_text(result: Mapping[str, Any]) -> str:
    """Mean squared error and its deviation over seeds, in units of 10^-3."""
    text = f"{1e3 * result['mse_mean']:.2f}"
    if result["mse_std"] is not None:
        text += f" ± {1e3 * result['mse_std']:.2f}"
    return text + " x 10^-3"


def labels_text(result: Mapping[str, Any]) -> str:
    """How many labels were asked for, and what one of them bought."""
    text = f"{result['labels']:,.0f} asked for, AL_eff {result['al_efficiency']:.4g}"
    if result["al_efficiency_std"]:
        text += f" ± {result['al_efficiency_std']:.2g}"
    return f"{text}, MSE per label {result['mse_per_label']:.3g}"


def print_run(run: Run, console: Console) -> None:
    """The result table of one run: error, regret, kernels and time."""
    from rich.table import Table

    result = run.result
    n_seeds = len(result["seeds"])
    table = Table(
        title=f"{name_of(run)} on {result['dataset']}", title_justify="left", show_header=False
    )
    over = f"mean ± std over {n_seeds} seeds" if n_seeds > 1 else "1 seed"
    classify = measure(result) is ERROR_RATE
    where = "" if result.get("mse_over", "all rounds") == "all rounds" else ", rounds with a label"
    if classify:
        table.add_row("errors", f"{error_text(result)}   ({over})")
    else:
        table.add_row("MSE", f"{mse_text(result)}   ({over}{where})")
    table.add_row("stream", f"{result['n_rounds']:,} rounds, {result['n_inputs']} inputs")
    federated = result.get("federated")
    if federated:
        for row in _federated_rows(federated):
            table.add_row(*row)
    if classify:
        mistakes = sum(result["mistakes"]) / n_seeds
        table.add_row("mistakes", f"{mistakes:,.1f}{_best_kernel_text(result)}")
    if result["n_kernels"]:  # a network has none
        evaluated = f"{result['kernels_per_round']:.4g} a round"
        chosen = f", D = {result['D']}" if federated else ""  # from max_upload
        table.add_row("kernels", f"{result['n_kernels']} in the dictionary, {evaluated}{chosen}")
    if bound := result.get("bound"):
        skipped = bound.get("skipped")
        table.add_row("at most", f"not computed: {skipped}" if skipped else _bound_text(bound))
        for more in bound.get("further", ()):
            table.add_row("", _further_text(more))
    if classify:
        kept = f", {result['support_size']:,.1f} rows kept" if result["support_size"] else ""
        table.add_row("updates", f"{result['updates_per_kernel']:,.1f} a kernel{kept}")
    elif not federated:  # its clients ask always
        table.add_row("labels", labels_text(result))
    for entry in result["regret"].values():
        if "skipped" in entry:
            continue
        spread = "" if entry["std"] is None else f" ± {entry['std']:.2f}"
        table.add_row("regret", f"{entry['mean']:.2f}{spread} above {entry['label']}")
        if entry.get("spread") is not None:
            text = f"{entry['spread']:.2f}, standard deviation over the clients"
            table.add_row("  spread", text)
        if entry.get("bound") is not None:
            theorem = entry["theorem"]
            text = f"{entry['bound']:.1f} for {entry['bound_of']} ({theorem})"
            if (largest := entry.get("largest_loss", 0.0)) > 1.0:
                text = f"none: {theorem} is for losses up to 1, a kernel's reached {largest:.3g}"
            table.add_row("  bound", text)
    n_clients = federated["n_clients"] if federated else 1
    rate = result["n_rounds"] * n_clients * n_seeds / result["seconds"]
    threads = result["threads"]
    table.add_row(
        "time",
        f"{result['seconds']:.2f} s on {threads} thread{'s' if threads > 1 else ''}, "
        f"{rate:,.0f} {'client-' if federated else ''}rounds/s over all seeds",
    )
    console.print(table)
    for entry in result["regret"].values():
        if "skipped" in entry:
            console.print(f"Not computed: {entry['label']} ({entry['skipped']}).")


def _federated_rows(federated: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How many clients, and what goes between each of them and the server."""
    used = federated["rows_used"]
    scheme = federated["scheme"].replace("_", " ")
    told = f"{federated['n_clients']}, {scheme}; {used:,} of {federated['rows']:,} rows"
    rows = [("clients", told)]
    least, most = federated["least_rounds"], federated["rounds"]
    if least < most:
        rows.append(("rounds", f"{least:,} to {most:,}, of each client as many as it has rows"))
    for way, text in (("up", "to the server"), ("down", "to the client")):
        sent = federated[way]
        limit = federated["max_upload"] if way == "up" else None
        rows.append(
            (
                text,
                f"{sent['numbers_a_round']:,.0f} numbers a client-round"
                + (f" (allowed {limit:,})" if limit else "")
                + f", {sent['bytes'] / 1e6:.3g} MB a client",
            )
        )
    return rows


def _bound_text(bound: Mapping[str, Any]) -> str:
    if bound["value"] is None:
        return f"nothing is promised by {bound['theorem']} for these parameters"
    gap = f", unproved: {bound['unproved']}" if bound.get("unproved") else ""
    return f"{bound['value']:,.1f} by {bound['theorem']}{gap}"


def _further_text(more: Mapping[str, Any]) -> str:
    if more["value"] is None:
        return f"nothing is promised by {more['name']} for these parameters"
    with_beta = f" with beta = {more['beta']:.3g}, known in hindsight" if "beta" in more else ""
    what = "" if more["of"] == "mistakes" else f" {more['of']} of all kernels"
    return f"{more['value']:,.1f}{what} by {more['name']}{with_beta}"


def _best_kernel_text(result: Mapping[str, Any]) -> str:
    best = result["best_kernel"]
    return "" if best is None else f"; of the best online kernel {best:,.1f}"


def print_outcome(outcome: Outcome, outputs: Path) -> None:
    """A single run: its table and where things are, or on stderr why it failed."""
    from rich.console import Console

    result, folder = outcome.run.result, outcome.run.folder
    if outcome.status == "failed":
        print(f"omkl-run: {result['error']['message']}", file=sys.stderr)
        if result["error"]["traceback"]:
            print(f"\n{result['error']['traceback']}", file=sys.stderr, end="")
        return
    print_run(outcome.run, Console())
    for note in outcome.notes:
        print(f"Note: {note}")
    if outcome.status == "reused":
        print("Found finished: nothing was computed (force=true computes it again).")
    # Paths stay whole: they are there to be copied.
    print(f"results  {folder}/")
    labels = ", labels.csv" if (folder / "labels.csv").exists() else ""
    print(f"         result.json, results.parquet, curves.npz, config.yaml{labels}")
    plots = sorted(p.name for p in folder.glob("*.png"))
    if plots:
        print(f"plots    {', '.join(plots)} (each as .pdf too)")
    if outcome.tracked:
        print(tracked_text(outputs))


def tracked_text(outputs: Path) -> str:
    where = "" if outputs == Path("outputs") else f" --outputs {outputs}"
    return f"tracked  {outputs / 'mlflow.db'}  (look: omkl-report ui{where})"


def line_text(head: str, outcome: Outcome) -> str:
    """One line a job while a sweep goes on, and its notes."""
    result = outcome.run.result
    if outcome.status == "failed":
        line = f"{head}: failed: {result['error']['message']}"
    else:
        how = " (found finished)" if outcome.status == "reused" else ""
        line = f"{head}: {loss_text(result)}{how}"
    return "\n    ".join([line, *outcome.notes])


class Bar:
    """A progress bar on a terminal, nothing elsewhere; it leaves no trace.

    Entered, it gives the function that ``run`` reports to, or None. Rounds
    are those of the stream, their rate is summed over the seeds.
    """

    def __init__(
        self, label: str, n_seeds: Any, shown: bool = True, classify: bool = False
    ) -> None:
        self.label = label
        self.classify = classify
        self.shown = shown and sys.stderr.isatty()
        self.n_seeds = n_seeds
        self.stage = ""
        self.since = 0.0
        self.bar: Progress | None = None

    def __enter__(self) -> Any:
        if not self.shown:
            return None
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self.bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[told]}", markup=False),
            console=Console(stderr=True),
            transient=True,
        )
        self.bar.start()
        self.task = self.bar.add_task(self.label, total=None, told="")
        return self.show

    def show(self, stage: str, done: int, total: int | None, mse: float | None) -> None:
        assert self.bar is not None
        now = time.perf_counter()
        if stage != self.stage:
            self.stage, self.since = stage, now
            self.bar.reset(self.task, total=total)
        told = f"{done:,}" + (f"/{total:,}" if total else "") if total or done else ""
        if mse is not None and done:
            # A classification counts the rounds of all seeds.
            rate = done * (1 if self.classify else self.n_seeds) / max(now - self.since, 1e-9)
            shown = f"errors {100 * mse:.2f} %" if self.classify else f"MSE {1e3 * mse:.2f}e-3"
            told += f" {rate:,.0f} rounds/s {shown}"
        description = self.label if stage == "rounds" else f"{self.label}: {stage}"
        self.bar.update(self.task, description=description, completed=done, total=total, told=told)

    def __exit__(self, *exception: Any) -> None:
        if self.bar is not None:
            self.bar.stop()
