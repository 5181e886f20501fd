"""Figures of several federated runs: regret of the clients, theorem 1, exploration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from omkl.report import naming, style
from omkl.report.figures import sorted_clients
from omkl.runs.run_folder import Run

BOUND = "theorem 1"


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
    chosen = style.drawn_rounds(t, limit=style.N_DRAWN_SMALL)
    mean, std = style.mean_std(run.curves["regret_clients"][:, chosen])
    style.band_line(axes, t[chosen], mean, std, index, "", opacity=0.12)
    style.round_axis(axes, t)
    axes.set(xlabel="round t", ylabel="regret, mean over the clients")


def _draw_bound(axes: Axes, run: Run, index: int) -> None:
    _draw_regret(axes, run, index)
    t = run.curves["t"]
    chosen = style.drawn_rounds(t, limit=style.N_DRAWN_SMALL)
    bound = run.curves["bound"][chosen]
    axes.plot(t[chosen], bound, color=style.GREY, linestyle="dashed", label=BOUND)
    least, most = run.curves["client_regret"].min(), run.curves["client_regret"].max()
    place = t[-1] * (1.0 + 0.02 * index)
    axes.plot([place, place], [least, most], color=style.look(index)["color"], linewidth=3)
    axes.set_xlim(0, 1.1 * t[-1])
    style.log_axis(axes.yaxis, 1e-3 * bound[-1], 2.0 * bound[-1])


def _draw_clients(axes: Axes, run: Run, index: int) -> None:
    sorted_clients(axes, run, index)
    axes.set(xlabel="clients by regret", ylabel="regret after the last round")


def _panels(
    runs: Sequence[Run], folder: Path, name: str, draw: Callable[[Axes, Run, int], None]
) -> list[Path]:
    runs = [run for run in runs if run.complete and "client_regret" in run.curves]
    if not runs:
        return []
    legend = [legend_entry(run) for run in runs]
    order = list(dict.fromkeys(legend))
    with style.applied():
        figure, panels = style.panels(_datasets(runs), 3.0, 0.5)
        for axes, dataset, leftmost, _ in panels:
            for run, entry in zip(runs, legend, strict=True):
                if run.result["dataset"] == dataset:
                    draw(axes, run, order.index(entry))
            if axes.get_yscale() == "linear":
                axes.set_ylim(bottom=0)
            if not leftmost:
                axes.set_ylabel("")
        handles = [Line2D([], [], label=text, **style.look(i)) for i, text in enumerate(order)]
        if draw is _draw_bound:
            handles.append(Line2D([], [], label=BOUND, color=style.GREY, linestyle="dashed"))
        figure.legend(handles=handles, loc="outside lower center", ncols=min(4, len(handles)))
        return style.save(figure, folder, name)


def legend_entry(run: Run) -> str:
    """The learner's name, and M where it has one."""
    M = run.result["params"].get("M")
    return naming.name_of(run) + ("" if M is None else f", M = {M}")


def exploration(runs: Sequence[Run], folder: Path, name: str) -> list[Path]:
    """Figure 2: a panel a data set with the clients' mean regret over xi, a line an M."""
    runs = [run for run in runs if run.complete and "xi" in run.result["params"]]
    if not runs:
        return []
    sizes = sorted({run.result["params"]["M"] for run in runs})
    lines: dict[tuple[str, int], set[tuple[float, float, float]]] = {}
    for run in runs:
        params, regret = run.result["params"], run.result["regret"]["clients"]
        point = float(params["xi"]), regret["mean"], regret["std"] or 0.0
        lines.setdefault((run.result["dataset"], params["M"]), set()).add(point)
    with style.applied():
        figure, panels = style.panels(_datasets(runs), 3.0, 0.5)
        for axes, dataset, leftmost, _ in panels:
            for index, M in enumerate(sizes):
                if line := sorted(lines.get((dataset, M), ())):
                    xi, mean, std = map(list, zip(*line, strict=True))
                    label = f"M = {M}"
                    axes.errorbar(xi, mean, yerr=std, capsize=3, label=label, **style.look(index))
            axes.set_ylim(bottom=0)
            axes.set_xlabel("exploration rate")
            axes.set_ylabel("regret, mean over the clients" if leftmost else "")
            axes.legend(loc="best")
        return style.save(figure, folder, name)


def _datasets(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(run.result["dataset"] for run in runs))
