"""Print jobs on a terminal: a progress bar while a job runs, then its result.

A single run prints a table. Each run of a sweep prints one line.
"""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omkl.report import stats
from omkl.report.naming import data_name, has_kernels, name_of, pairs_text, readable, scored_rows
from omkl.report.tables import print_plain
from omkl.runs.run_folder import ERROR_RATE, measure, number_of, plain_texts, scaling_of
from omkl.utils.disk import point_to
from omkl.utils.wording import few, over_seeds, plain, pluralize, time_left

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from omkl.runs.run_folder import Run


def loss_text(result: Mapping[str, Any]) -> str:
    """Return the name of the main error, its mean and its deviation over seeds, as text."""
    return f"{measure(result).short} {error_text(result)}"


def error_text(result: Mapping[str, Any]) -> str:
    """Format the main error and its deviation over seeds. An error that overflowed is inf."""
    kind = measure(result)
    text = stats.loss_text(kind, number_of(result[f"{kind.key}_mean"]), result[f"{kind.key}_std"])
    return f"{text} %" if kind is ERROR_RATE else text


def target_text(result: Mapping[str, Any]) -> str:
    """Return RMSE and MAE in the unit of the target, and R2, as text."""
    R2 = "" if result["r2"] is None else f"   R2 {result['r2']:.3f}"
    errors = stats.accuracy_text(result).replace(", ", "   ") + R2
    return f"{errors}   (in units of {result['stream']['target']})"


def _in_units(result: Mapping[str, Any]) -> bool:
    """Return True if errors are in the unit of the target, and False if they are scaled."""
    return "rmse" in result and scaling_of(result) != "whole"


def _baseline_rows(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the errors of the baselines, the smallest first.

    A second line says by how many per cent the run's error is below the smallest error of a
    baseline. The line is omitted if a baseline's error is equal to the run's error or smaller.
    """
    key, own = stats.compared_by(result)
    if key == "rmse" and not _in_units(result):
        key, own = "mse", "mse_mean"
    errors = {
        stats.NAMES[name]: number_of(entry[key]) for name, entry in stats.computed(result).items()
    }
    if not errors:
        return
    is_rate = key == "error_rate"
    in_order = sorted(errors, key=lambda name: errors[name])
    texts = {n: f"{readable(100.0 * e)} %" if is_rate else readable(e) for n, e in errors.items()}
    yield "baselines", "   ".join(f"{name} {texts[name]}" for name in in_order)
    best, value = errors[in_order[0]], number_of(result[own])
    if 0.0 <= value < best:  # otherwise a warning follows the table
        yield "", f"-> {100.0 * (1.0 - value / best):.3g} % below the best"


def _interval_text(result: Mapping[str, Any]) -> str:
    """Format coverage, mean width and score of the intervals that ``interval=`` requests."""
    interval = result["interval"]
    coverage = interval["coverage"]  # None if no row had an interval
    share = "none" if coverage is None else f"{100 * coverage:.1f} %"
    width, score = (readable(number_of(interval[key])) for key in ("width", "interval_score"))
    return (
        f"{100 * interval['level']:g} % intervals cover {share}, mean width {width}, interval "
        f"score {score}{'   (y in [0, 1])' if scaling_of(result) == 'whole' else ''}"
    )


def cost_text(result: Mapping[str, Any]) -> str:
    """Return the number of requested targets, and their share of the rows, as text."""
    text = f"{result['labels']:,.0f} requested, AL_eff {result['al_efficiency']:.4g}"
    std = result.get("al_efficiency_std")
    return f"{text} ± {std:.2g}" if std else text


def print_run(run: Run, console: Console) -> None:
    """Print the result table of one run: error, regret, kernels and time."""
    from rich.text import Text

    result = run.result
    _print_table(f"{name_of(run)} on {data_name(run)}", _rows(run), console)
    if better := stats.worse_than(result):
        text = f"Warning: {name_of(run)} is worse here than {better}."
        console.print(Text(text, style="bold"))
        easy = "auto_classifier" if measure(result) is ERROR_RATE else "auto"
        if result["algorithm"] != easy and not {"federated", "series"} & result.keys():
            console.print(Text(f"algorithm={easy} is the learner that has nothing to set."))
    print_notices([run], console)
    for name, entry in result.get("baselines", {}).items():
        if "skipped" in entry:
            console.print(Text(f"Not computed: {stats.NAMES[name]} ({entry['skipped']})."))
    for entry in result["regret"].values():
        if "skipped" in entry:
            console.print(Text(f"Not computed: {entry['label']} ({entry['skipped']})."))


def print_notices(runs: Sequence[Run], console: Console) -> None:
    """Print each warning about rows once, with its data set if the runs have several data sets."""
    from rich.text import Text

    several = len({data_name(run) for run in runs}) > 1
    notices = {
        f"{data_name(run)}: {notice}" if several else notice: None
        for run in runs
        for notice in run.result.get("notices", ())
    }
    for notice in notices:
        console.print(Text(f"Warning: {plain(notice)}", style="bold"))


LATEST = "latest"
MOST_LINES = 12  # largest number of columns that are described


def print_columns(stream: Mapping[str, Any], rows: str, console: Console) -> None:
    """Print how the columns of a user's file are used. For other data print nothing.

    All columns of plain numbers share one line. Each other column has a line with its encoding.

    Parameters
    ----------
    stream
        Provenance of the stream, as in ``result.json``.
    rows
        Number of rows as text; "" if unknown.
    console
        Output.
    """
    from rich.text import Text

    stream = plain_texts(stream)
    columns = stream.get("columns", ())
    if not columns:
        return
    numbers = [column for column in columns if not column["why"]]
    others = [column for column in columns if column["why"]]
    named = ", ".join(str(column["column"]) for column in numbers)
    files = [str(file["name"]) for file in stream.get("files", ())]
    used = [column["inputs"] for column in columns if column["as"] != "left out"]
    inputs = pluralize(sum(map(len, used)), "input")
    size = f"{rows}, " if rows else ""
    size += f"{inputs} from {pluralize(sum(map(bool, used)), 'column')}"
    heading = f"{' '.join(files) or stream['name']} -> {stream['target']}   {size}"
    lines = []
    if stream.get("delimiter", ",") != ",":
        between = "spaces" if stream["delimiter"] is None else repr(stream["delimiter"])
        lines.append(("separated by", f"{between}, decimals by {stream['decimal']!r}"))
    lines += [
        (str(c["column"]), c["why"] if c["as"] in c["why"] else f"{c['as']}: {c['why']}")
        for c in others[:MOST_LINES]
    ]
    if len(others) > MOST_LINES:
        lines.append(("...", f"{len(others) - MOST_LINES} more columns: stream in result.json"))
    if numbers:
        text = named if len(named) <= 60 else pluralize(len(numbers), "column")
        lines.append(("as numbers", text))
    _print_table(heading, lines, console)
    console.print(Text(""))


def print_inputs(run: Run, console: Console) -> None:
    """Print the columns of the file of a finished run."""
    n_rows = run.result["n_rounds"] + run.result.get("rows_without_target", 0)
    print_columns(run.result["stream"], pluralize(n_rows, "row"), console)


def _print_table(title: str, rows: Iterable[tuple[str, str]], console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for name, text in rows:
        table.add_row(Text(f"  {name}"), Text(text))  # Text: brackets in a name are not markup
    console.print(Text(title, style="bold"))
    print_plain(table, console)


def _rows(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the lines (name, text) of a run: errors, baselines, data, experts, regret, time."""
    result = run.result
    n_seeds = len(result["seeds"])
    over = over_seeds(n_seeds)
    classify = measure(result) is ERROR_RATE
    federated = result.get("federated")
    where = scored_rows(result)
    only = "" if where == "all rows" else f", {where}"
    scaled = "; y in [0, 1]" if scaling_of(result) == "whole" else ""
    mse = f"{error_text(result)}   ({over}{only}{scaled})"
    in_units = _in_units(result)
    if classify:
        yield "errors", f"{error_text(result)}   ({over})"
    elif in_units:
        yield "error", target_text(result)
    else:
        yield "MSE", mse
    yield from _baseline_rows(result)
    if result.get("interval"):
        yield "intervals", _interval_text(result)
    yield "rows", _rows_text(result)
    if far := result.get("far_out"):
        shares = {name: f"{name} {100 * share:.2g} %" for name, share in far.items()}
        yield "far out", f"values beyond 4 deviations: {_largest(far, shares)}"
    if seasons := result.get("seasons"):
        given = run.config["dataset"].get("season")
        yield "season", " and ".join(map(str, seasons)) + " rows" + ("" if given else ", found")
    if series := result.get("series"):
        yield from _series_rows(series)
    if federated:
        yield from _federated_rows(federated)
    if classify:
        mistakes = sum(result["mistakes"]) / n_seeds
        best = result["best_kernel"]
        more = "" if best is None else f"; of the best online kernel {_of_seeds(best, n_seeds)}"
        yield "mistakes", f"{_of_seeds(mistakes, n_seeds)}{more}"
        yield from _class_rows(result)
    yield from _expert_rows(run)
    if in_units and (n_seeds > 1 or "target" in only):
        yield "MSE", mse
    elif not in_units and "rmse" in result:  # a federation has no rmse
        yield "error", target_text(result)
    if classify:
        kept = result["support_size"]
        rows = f", {_of_seeds(kept, n_seeds)} rows kept" if kept else ""
        yield "updates", f"{result['updates_per_kernel']:,.1f} per kernel{rows}"
    elif result["al_efficiency"] < 1.0:  # other learners request every target
        yield "targets", cost_text(result)
    for entry in result["regret"].values():
        if "skipped" not in entry:
            yield from _regret_rows(entry)
    n_clients = federated["n_clients"] if federated else 1
    rate = result["n_rounds"] * n_clients * n_seeds / max(result["seconds"], 1e-9)
    threads = result["threads"]
    yield (
        "time",
        f"{result['seconds']:.2f} s on {pluralize(threads, 'thread')}, "
        f"{rate:,.0f} {'client-' if federated else ''}rows/s"
        + (" over all seeds" if n_seeds > 1 else ""),
    )


def _series_rows(series: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the number of series, the best and the worst series, and comparisons with baselines.

    A comparison is the number of series for which the baseline has a larger error.
    """
    few = series["n"] - series["ranked"]
    unranked = f"; {few:,} with too few rows are not ranked" if few else ""
    how = "learned together" if series["together"] else "a learner for each"
    yield "series", f"{series['n']:,} of {series['column']}, {how}{unranked}"
    if series["by_date"]:
        yield "", "rows of a date are predicted before one is learned (stream.series_delay=0: not)"
    half = series["ranked"] // 2  # no series is both best and worst
    for name, most in (("best", series["ranked"] - half), ("worst", half)):
        named = series[name][: min(3, most)]
        if each := [f"{entry['series']} {readable(entry['rmse'])}" for entry in named]:
            yield "", f"{name} RMSE: {', '.join(each)}"
    ahead = [f"{stats.NAMES[name]} on {n:,}" for name, n in series["better_than"].items()]
    yield "", f"ahead of {', '.join(ahead)}"


def _rows_text(result: Mapping[str, Any]) -> str:
    """Return the number of rows and inputs, and the columns with missing values."""
    text = f"{result['n_rounds']:,}, {pluralize(result['n_inputs'], 'input')}"
    if blank := result.get("rows_without_target"):
        text += f"; {pluralize(blank, 'row')} without a target predicted and not scored"
    if missing := result.get("missing_cells"):
        counts = {column: f"{column} {missing[column]:,}" for column in missing}
        text += f"; missing values: {_largest(missing, counts)}"
    return text


def _largest(values: Mapping[str, float], texts: Mapping[str, str]) -> str:
    """Join the texts of the columns with the largest values, and count the other columns."""
    columns = sorted(values, key=lambda name: -values[name])
    return few(texts[name] for name in columns)


MOST_SHOWN = 10  # largest number of classes of a printed confusion matrix


def _class_rows(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield accuracy, scores of probabilities, and a small confusion matrix."""
    accuracy = f"accuracy {100 * (1 - result['error_rate_mean']):.2f} %"
    if "log_loss" in result:
        accuracy += f", log loss {result['log_loss']:.4g}, Brier score {result['brier_score']:.4g}"
    yield "scores", accuracy
    counts, classes = result.get("confusion"), result.get("labels_of_classes", ())
    if counts and len(counts) == len(classes) <= MOST_SHOWN:
        import pandas as pd

        table = pd.DataFrame(counts, list(classes), [*classes, "none"]).rename_axis(columns="class")
        if not table["none"].any():
            table = table.drop(columns="none")
        for k, line in enumerate(table.map("{:,}".format).to_string().splitlines()):
            yield ("" if k else "predicted"), line


def _expert_rows(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the number of kernels or other experts. A single expert is not mentioned."""
    result = run.result
    n, evaluated = result["n_kernels"], f"{result['kernels_per_round']:.4g} per row"
    if n and has_kernels(run):  # a neural network has no kernels
        D = f", D = {result['D']}" if "federated" in result else ""  # D follows from max_upload
        yield "kernels", f"{n} in the dictionary, {evaluated}{D}"
    elif n > 1:
        yield "experts", f"{n}, {evaluated}"


def _regret_rows(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the regret against one comparator, and its deviation over the clients, if any."""
    mean, std = number_of(entry["mean"]), entry["std"]
    # The larger number decides the decimals: a mean near 0 is smaller than its deviation.
    deviation = "" if std is None else f" ± {readable(std, max(abs(mean), std))}"
    yield "regret", f"{readable(mean)}{deviation} above {entry['label']}"
    if entry.get("spread") is not None:
        yield "  deviation", f"{readable(entry['spread'])}, standard deviation over the clients"


def _federated_rows(federated: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the number of clients, and the traffic between a client and the server."""
    scheme = federated["scheme"].replace("_", " ")
    used = f"{federated['rows_used']:,} of {federated['rows']:,} rows"
    yield "clients", f"{federated['n_clients']}, {scheme}; {used}"
    least, most = federated["least_rounds"], federated["rounds"]
    if least < most:
        yield "rounds", f"{least:,} to {most:,}, of each client as many as it has rows"
    if safeguards := federated.get("safeguards"):
        yield "safeguards", _safeguards_text(safeguards)
    exchange = federated.get("exchange", {})
    if exchange:
        yield "exchange", _exchange_text(exchange, federated.get("disagreement"))
    ways = {"up": "to the server", "down": "to the client"}
    for way, name in ({"up": "to neighbours"} if "graph" in exchange else ways).items():
        sent = federated[way]
        limit = federated["max_upload"] if way == "up" else None
        of_each = " to each" if "graph" in exchange else ""
        yield (
            name,
            f"{sent['numbers_a_round']:,.0f} numbers per client and round"
            + (f" (allowed {limit:,}{of_each})" if limit else "")
            + f", {sent['bytes'] / 1e6:.3g} MB per client",
        )


def _exchange_text(exchange: Mapping[str, Any], disagreement: float | None) -> str:
    text = pairs_text(exchange)
    if disagreement is None:
        return text
    return f"{text}; clients are {100.0 * disagreement:.3g} % apart in the end"


def _safeguards_text(done: Mapping[str, Any]) -> str:
    """Format the safeguards that are set, the refused messages, and the privacy guarantee."""
    settings = {
        name: done[name] for name in ("clients_per_round", "trim", "max_change", "max_loss")
    }
    parts = [pairs_text({name: value for name, value in settings.items() if value})]
    if done["max_change"] is not None or done["max_loss"] is not None:
        parts.append(f"{done['refused']:,.0f} of {done['messages']:,.0f} messages refused")
    if privacy := done.get("privacy"):
        shown = {name: number_of(value) for name, value in privacy.items() if name != "epsilon"}
        parts.append(", ".join(f"{name} {value:.3g}" for name, value in shown.items()))
    return "; ".join(filter(None, parts))


def _of_seeds(mean: float, n_seeds: int) -> str:
    """Format a mean of counts with one decimal, or without decimals for a single seed."""
    return f"{mean:,.{1 if n_seeds > 1 else 0}f}"


def print_saved(name: str, folder: Path, outputs: Path) -> None:
    """Print the folder of results, and make the link ``latest`` in ``outputs`` point to it.

    Parameters
    ----------
    name
        First word of the line.
    folder, outputs
        Folder of the results, and the folder of all outputs.
    """
    print_path(name, folder, "/")
    if point_to(outputs / LATEST, folder):
        print(plain(f"         also as {outputs / LATEST}/"))


def print_path(name: str, path: Path, after: str = "") -> None:
    """Print a path, as a link if the terminal supports links.

    Parameters
    ----------
    name
        First word of the line.
    path
        File or folder.
    after
        Text after the path, such as "/".
    """
    from rich.console import Console
    from rich.style import Style
    from rich.text import Text

    link = Style(link=path.absolute().as_uri())
    line = Text(f"{name:<9}").append(plain(f"{path}{after}"), link)
    Console(highlight=False).print(line, soft_wrap=True)


def wrapped(head: str, names: Sequence[str]) -> str:
    """Return ``head`` and file names as text, in lines of at most 80 characters."""
    text = f"{head:9}{', '.join(names)}"
    return textwrap.fill(text, 80, subsequent_indent=" " * 9, break_long_words=False)


def tracked_text(outputs: Path) -> str:
    where = "" if outputs == Path("outputs") else f" --outputs {outputs}"
    return plain(f"tracked  {outputs / 'mlflow.db'}  (look: omkl-report ui{where})")


SECONDS_UNTIL_LEFT = 2.0  # seconds of a stage before the remaining time can be estimated


class Bar:
    """Progress bar of a run. It is shown only on a terminal, and removed at the end.

    As a context manager it returns the callback ``progress`` for ``run``, or None if standard error
    is not a terminal. The bar counts the rounds of the stream. The rate is the sum over all seeds.
    """

    def __init__(self, label: str, n_seeds: Any, classify: bool = False) -> None:
        self.label, self.classify, self.n_seeds = label, classify, n_seeds
        self.shown = sys.stderr.isatty()
        self.stage, self.since = "", 0.0
        self.bar: Progress | None = None

    def __enter__(self) -> Any:
        if not self.shown:
            return None
        from rich.console import Console
        from rich.constrain import Constrain
        from rich.progress import BarColumn, Progress, TextColumn

        console = Console(stderr=True)

        class Narrow(Progress):
            def get_renderables(self) -> Iterator[Constrain]:
                # If the echo of Ctrl-C began a line, Rich would erase that line and leave the bar.
                yield Constrain(self.make_tasks_table(self.tasks), console.width - 2)

        self.bar = Narrow(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[status]}", markup=False),
            console=console,
            transient=True,
            redirect_stdout=False,  # Rich would send standard output to standard error
        )
        try:
            self.bar.start()
            self.task = self.bar.add_task(self.label, total=None, status="")
        except BaseException:  # if Ctrl-C is pressed here, Python does not call __exit__
            self.bar.stop()
            raise
        return self.show

    def show(self, stage: str, done: int, total: int | None, mse: float | None) -> None:
        assert self.bar is not None
        now = time.perf_counter()
        if stage != self.stage:
            self.stage, self.since = stage, now
            self.bar.reset(self.task, total=total)
        status = f"{done:,}" if total or done else ""
        if total:
            status += f"/{total:,} ({100 * done // total} %)"
        if mse is not None and done:
            # A classification counts the rounds of all seeds.
            rate = done * (1 if self.classify else self.n_seeds) / max(now - self.since, 1e-9)
            shown = f"errors {100 * mse:.2f} %" if self.classify else f"MSE {readable(mse)}"
            status += f" {rate:,.0f} rows/s {shown}"
        if total and now - self.since > SECONDS_UNTIL_LEFT:
            status += f" {time_left(now - self.since, done, total)}"
        description = self.label if stage == "rounds" else f"{self.label}: {stage}"
        self.bar.update(
            self.task, description=description, completed=done, total=total, status=status
        )

    def print(self, what: Callable[[Console], None]) -> None:
        """Call ``what``, which prints on standard output, while the bar is hidden."""
        from rich.console import Console

        if self.bar is not None:
            self.bar.stop()
        what(Console())
        sys.stdout.flush()
        if self.bar is not None:
            self.bar.start()

    def __exit__(self, *exception: Any) -> None:
        if self.bar is not None:
            self.bar.stop()
