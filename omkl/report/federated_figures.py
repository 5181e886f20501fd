"""Figures of federated runs: regret of the clients, its spread, the server's, theorems 1 and 2.

Shapes: R seeds, P recorded rounds, K clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from omkl.report import drawing, style
from omkl.runs.run_folder import Run, number_of

BOUND = "theorem 1"


def clients(run: Run, folder: Path | None = None) -> list[Path]:
    """Mean regret over time beside theorem 1, and every client's regret in the end, all by (11).

    Nothing for a run that is no federation of kernel learners.
    """
    if "client_regret" not in run.curves:
        return []
    t = run.curves["t"]
    chosen = drawing.drawn_rounds(t)
    with style.applied():
        figure = Figure(figsize=(drawing.WIDTH, 3.6))
        left, right = figure.subplots(1, 2)
        mean, std = drawing.mean_std(run.curves["regret_clients"][:, chosen])
        drawing.band_line(left, t[chosen], mean, std, 0, "mean over the clients")
        if "bound" in run.curves:
            bound = run.curves["bound"][chosen]
            label = BOUND
            if (largest := number_of(run.result["regret"]["clients"]["largest_loss"])) > 1.0:
                label = f"{BOUND}, for losses up to 1;\nhere up to {largest:.3g}"
            left.plot(t[chosen], bound, color=style.COLOURS[2], linestyle="dashed", label=label)
            _beside_a_bound(left, mean, bound)
        drawing.round_axis(left, t[chosen])
        left.set(xlabel="round t", ylabel="regret against the best online kernel")
        left.legend(loc="best")
        _sorted_clients(right, run, 0)
        right.set(xlabel="clients by regret", ylabel="regret after the last round")
        title = f"{style.name_of(run)} on {run.result['dataset']}: regret of the clients"
        figure.suptitle(style.wrapped(title, 90), fontsize=10)
        return style.save(figure, folder or run.folder, "clients")


def server(run: Run, folder: Path | None = None) -> list[Path]:
    """Regret of the server over time, (12), beside theorem 2; nothing where it is not known."""
    if "server_regret" not in run.curves:
        return []
    t = run.curves["t"]
    chosen = drawing.drawn_rounds(t)
    entry = run.result["regret"]["server"]
    with style.applied():
        figure = Figure(figsize=(drawing.WIDTH, 4.2))
        axes = figure.add_subplot()
        mean, std = drawing.mean_std(run.curves["server_regret"][:, chosen])
        drawing.band_line(axes, t[chosen], mean, std, 0, "sum over the clients")
        if "server_bound" in run.curves:
            bound = run.curves["server_bound"][chosen]
            label = "theorem 2"
            if (largest := number_of(entry["largest_loss"])) > 1.0:
                label = f"{label}, for losses up to 1; here up to {largest:.3g}"
            axes.plot(t[chosen], bound, color=style.COLOURS[2], linestyle="dashed", label=label)
            _beside_a_bound(axes, mean, bound)
        drawing.round_axis(axes, t[chosen])
        axes.set(
            xlabel="round t", ylabel="loss of all clients above that of\nthe best function (12)"
        )
        title = f"{style.name_of(run)} on {run.result['dataset']}: regret of the server"
        axes.set_title(style.wrapped(title, 90))
        axes.legend(loc="best")
        return style.save(figure, folder or run.folder, "server")


def _beside_a_bound(axes: Axes, mean: np.ndarray, bound: np.ndarray) -> None:
    """A logarithmic axis for a regret far below its bound; a regret that ends below 0 has none."""
    low = max(1e-2, 0.5 * float(mean[len(mean) // 50]))
    if mean[-1] > low:
        style.log_axis(axes.yaxis, low, 2 * bound[-1])


def _sorted_clients(axes: Axes, run: Run, index: int) -> None:
    """Each client's regret, mean over the seeds, smallest first; the seeds' deviation as a band."""
    mean, std = drawing.mean_std(run.curves["client_regret"])
    order = np.argsort(mean)
    share = (np.arange(len(mean)) + 0.5) / len(mean)
    looks = style.look(index) | {"marker": ""}
    axes.plot(share, mean[order], **looks)
    if std is not None:
        low, high = (mean - std)[order], (mean + std)[order]
        axes.fill_between(share, low, high, color=looks["color"], alpha=0.15, linewidth=0)
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.5, 1], ["least", "median", "most"])


def regret_over_time(runs: Sequence[Run], folder: Path, name: str) -> list[Path]:
    """Figure 1: a panel a data set with the mean regret of the clients of its runs."""
    return _panels(runs, folder, name, _draw_regret)


def beside_theorem_1(runs: Sequence[Run], folder: Path, name: str) -> list[Path]:
    """The same on a logarithmic axis, the theorem above it, all clients' regrets at the end."""
    return _panels([run for run in runs if "bound" in run.curves], folder, name, _draw_bound)


def personalisation(runs: Sequence[Run], folder: Path, name: str) -> list[Path]:
    """A panel a data set: all clients by their regret; the flatter, the more alike they fare."""
    return _panels(runs, folder, name, _draw_clients)


def _draw_regret(axes: Axes, run: Run, index: int) -> None:
    t = run.curves["t"]
    chosen = drawing.drawn_rounds(t, limit=drawing.N_DRAWN_SMALL)
    mean, std = drawing.mean_std(run.curves["regret_clients"][:, chosen])
    drawing.band_line(axes, t[chosen], mean, std, index, "", opacity=0.12)
    drawing.round_axis(axes, t)
    axes.set(xlabel="round t", ylabel="regret, mean over the clients")


def _draw_bound(axes: Axes, run: Run, index: int) -> None:
    _draw_regret(axes, run, index)
    t = run.curves["t"]
    chosen = drawing.drawn_rounds(t, limit=drawing.N_DRAWN_SMALL)
    bound = run.curves["bound"][chosen]
    axes.plot(t[chosen], bound, color=style.GREY, linestyle="dashed", label=BOUND)
    least, most = run.curves["client_regret"].min(), run.curves["client_regret"].max()
    place = t[-1] * (1.0 + 0.02 * index)
    axes.plot([place, place], [least, most], color=style.look(index)["color"], linewidth=3)
    axes.set_xlim(0, 1.1 * t[-1])
    style.log_axis(axes.yaxis, 1e-3 * bound[-1], 2.0 * bound[-1])


def _draw_clients(axes: Axes, run: Run, index: int) -> None:
    _sorted_clients(axes, run, index)
    axes.set(xlabel="clients by regret", ylabel="regret after the last round")


def _panels(runs: Sequence[Run], folder: Path, name: str, draw) -> list[Path]:
    runs = [run for run in runs if run.complete and "client_regret" in run.curves]
    if not runs:
        return []
    legend = [legend_entry(run) for run in runs]
    order = list(dict.fromkeys(legend))
    datasets = list(dict.fromkeys(run.result["dataset"] for run in runs))
    with style.applied():
        rows, columns = drawing.panel_grid(len(datasets))
        size = (max(drawing.WIDTH, 3.4 * columns), 3.0 * rows + 0.5)
        figure = Figure(figsize=size)
        for place, dataset in enumerate(datasets):
            axes = figure.add_subplot(rows, columns, place + 1)
            for run, entry in zip(runs, legend, strict=True):
                if run.result["dataset"] == dataset:
                    draw(axes, run, order.index(entry))
            axes.set_title(style.wrapped(dataset, 30))
            if axes.get_yscale() == "linear":
                axes.set_ylim(bottom=0)
            if place % columns:
                axes.set_ylabel("")
        handles = [Line2D([], [], label=text, **style.look(i)) for i, text in enumerate(order)]
        if draw is _draw_bound:
            handles.append(Line2D([], [], label=BOUND, color=style.GREY, linestyle="dashed"))
        figure.legend(handles=handles, loc="outside lower center", ncols=min(4, len(handles)))
        return style.save(figure, folder, name, ("png",))


def legend_entry(run: Run) -> str:
    """The learner's name, and M where it has one."""
    M = run.result["params"].get("M")
    return style.name_of(run) + ("" if M is None else f", M = {M}")


def exploration(runs: Sequence[Run], folder: Path, name: str) -> list[Path]:
    """Figure 2: a panel a data set with the clients' mean regret over xi, a line an M."""
    runs = [run for run in runs if run.complete and "xi" in run.result["params"]]
    sizes = sorted({run.result["params"]["M"] for run in runs})
    found: dict[tuple[str, int], list[tuple[float, float, float]]] = {}
    for run in runs:
        params, regret = run.result["params"], run.result["regret"]["clients"]
        line = found.setdefault((run.result["dataset"], params["M"]), [])
        line.append((float(params["xi"]), regret["mean"], regret["std"] or 0.0))
    datasets = list(dict.fromkeys(dataset for dataset, _ in found))
    if not datasets:
        return []
    with style.applied():
        rows, columns = drawing.panel_grid(len(datasets))
        figure = Figure(figsize=(max(drawing.WIDTH, 3.4 * columns), 3.0 * rows + 0.5))
        for place, dataset in enumerate(datasets):
            axes = figure.add_subplot(rows, columns, place + 1)
            for index, M in enumerate(sizes):
                if line := sorted(set(found.get((dataset, M), []))):
                    xi, mean, std = map(list, zip(*line, strict=True))
                    axes.errorbar(
                        xi, mean, yerr=std, capsize=3, label=f"M = {M}", **style.look(index)
                    )
            axes.set_title(dataset)
            axes.set_ylim(bottom=0)
            axes.set_xlabel("exploration rate")
            axes.set_ylabel("" if place % columns else "regret, mean over the clients")
            axes.legend(loc="best")
        return style.save(figure, folder, name, ("png",))
