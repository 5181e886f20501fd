"""Tables II and III of Hong and Chae, what they are made of, and their figures."""

import numpy as np
import pytest

from omkl.datasets import catalogue
from omkl.papers import matching, rendering, tables
from omkl.report import figures, style, sweep_figures
from omkl.runs.run_folder import Run
from tests.conftest import change

PLANT = "+dataset.prepare.scale_inputs.shift=0"


def test_recovered_settings_of_a_row_and_of_a_column_add_up():
    table = tables.load_table("active_table3")
    raker = table.specs[table.rows.index("Raker")]
    for spec in raker:
        own = spec.variants["recovered"].overrides
        assert 'algorithm.eta="50/sqrt(T)"' in own and "algorithm.lam=1e-3" in own
        plant = spec.dataset == "naval_decay"
        for variant in spec.variants.values():  # nowhere does the paper scale Plant's target
            assert ("stream.scaling=none" in variant.overrides) == plant
            assert (PLANT in variant.overrides) == plant
    exact = tables.load_table("active_table2").specs[0]
    assert all(set(spec.variants) == {"algorithm"} for spec in exact)  # nothing to add to


def test_the_sweep_of_figure_2_is_among_the_jobs():
    table = tables.load_table("active_table3")
    found = [job for job in matching.jobs(table) if "algorithm.M=5" in job]
    assert len(found) == 2 * 8 + 6 and all(job[1] == "dataset=toms" for job in found)
    names = ("amkl", "recovered/amkl_aks", "amkl_random")
    assert {job[0] for job in found} == {f"algorithm={name}" for name in names}


def test_random_labels_stand_beside_the_published_rows_and_are_not_judged():
    table = tables.load_table("active_table3")
    row = table.specs[table.rows.index("Random labels (as AMKL-AKS)")]
    rates = {}
    for column, spec in zip(table.columns, row, strict=True):
        for variant in spec.variants.values():
            assert variant.algorithm == "amkl_random"
            (rate,) = [o for o in variant.overrides if o.startswith("algorithm.rate=")]
            recovered = "algorithm.lam=1e-3" in variant.overrides
            rates.setdefault((column, recovered), set()).add(rate)
    assert len(rates) == 6 * 2 and all(len(same) == 1 for same in rates.values())  # MSE and AL_eff
    filled = matching.fill(table, [])
    cells = filled.cells[table.rows.index("Random labels (as AMKL-AKS)")]
    assert {cell.published for cell in cells} == {None}
    assert len(filled.entries()) == 4 * 12 - 2 * 6  # without AL_eff of learners that always ask
    assert (
        "| as written" in rendering._markdown(filled).split("Random labels (as AMKL-AKS)")[1][:60]
    )


def test_without_its_file_a_column_says_no_data(monkeypatch, tmp_path):
    monkeypatch.setattr(catalogue, "data_folders", lambda: (tmp_path,))
    matching._missing_file.cache_clear()
    filled = matching.fill(tables.load_table("active_table3"), [])
    by_column = {cell.column: cell.written for cell in filled.cells[0]}
    assert by_column["Twitter (L)"].verdict == "no data"
    assert "twitter/Twitter.data" in by_column["Twitter (L)"].reason
    assert by_column["Plant"].verdict == "missing"  # an address leads to it
    assert "no data" in rendering.render(filled, ["md"], tmp_path)[0].read_text()
    path = tmp_path / "twitter" / "Twitter.data"
    path.parent.mkdir()
    path.touch()
    matching._missing_file.cache_clear()
    filled = matching.fill(tables.load_table("active_table3"), [])
    assert {cell.written.verdict for cell in filled.cells[0] if cell.column == "Twitter (L)"} == {
        "missing"
    }
    matching._missing_file.cache_clear()


@pytest.fixture
def queried(run_folder_maker, tmp_path):
    """A run whose learner bought every ``step``-th label."""

    def make(key, eta_c, M, step, dataset="toms", algorithm="amkl"):
        params = {"eta": "1/sqrt(T)", "eta_g": "1/sqrt(T)", "lam": 0.01, "eta_c": eta_c, "M": M}
        if algorithm == "amkl_random":
            params["rate"] = params.pop("eta_c")
        run = Run(run_folder_maker(tmp_path, algorithm, dataset, key, params=params))
        bought = {"labels": np.ceil(run.curves["labels"] / step).astype(int)}
        counted = {"al_efficiency": 1 / step, "labels": run.result["n_rounds"] / step}
        return change(run.folder, bought, **counted)

    return make


def test_a_run_is_drawn_against_its_labels_where_some_were_saved(
    queried, run_folder_maker, tmp_path
):
    run = queried("01", 5e-4, 1, 2)
    paths = figures.mse_over_labels(run)
    assert [p.name for p in paths] == ["labels.png"] and paths[0].stat().st_size
    assert figures.mse_over_labels(Run(run_folder_maker(tmp_path, "raker"))) == []


def test_the_axis_of_a_comparison_ends_with_the_labels_bought(queried, tmp_path, monkeypatch):
    ends = []
    monkeypatch.setattr(
        style, "band_line", lambda axes, t, *a, **k: ends.append(t[-1]) or axes.plot(t, t)[0]
    )
    runs = [queried("01", 5e-4, 1, 2), queried("02", 0.0, 1, 1)]
    sweep_figures.comparison(runs, tmp_path, "labels", ("png",), against="labels")
    n = runs[0].result["n_rounds"]
    assert ends == [n / 2, n]


def test_a_sweep_is_drawn_against_labels_where_its_runs_count_them(queried, tmp_path):
    """Federations and classifications have no such curve."""
    other = queried("02", 0.0, 1, 1, dataset="energy")
    np.savez(
        other.folder / "curves.npz", **{k: v for k, v in other.curves.items() if k != "labels"}
    )
    drawn = sweep_figures.all_figures([queried("01", 5e-4, 1, 2), Run(other.folder)], tmp_path)
    names = [path.name for path in drawn if path.suffix == ".png"]
    assert names == ["comparison.png", "labels.png", "summary.png"]


def test_tradeoff_needs_two_values_of_eta_c(queried, tmp_path):
    one = [queried("01", 5e-4, 1, 2), queried("02", 5e-4, 2, 3)]
    assert sweep_figures.tradeoff(one, tmp_path) == []
    more = [*one, queried("03", 0.0, 1, 1), queried("04", 1e-3, 2, 3)]
    assert [p.name for p in sweep_figures.tradeoff(more, tmp_path)] == ["tradeoff.png"]


def test_tradeoff_draws_random_labels_beside_those_that_were_chosen(queried, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(sweep_figures.style, "save", lambda figure, *a: drawn.append(figure) or [])
    chosen = [queried(f"0{n}", eta_c, 1, n) for n, eta_c in ((1, 0.0), (2, 1e-3))]
    at_random = [
        queried(f"1{n}", rate, 1, n, algorithm="amkl_random") for n, rate in ((1, 1), (2, 0))
    ]
    sweep_figures.tradeoff([*chosen, *at_random], tmp_path)
    panels = [[line.get_xdata().tolist() for line in axes.lines] for axes in drawn[0].axes]
    assert [len(lines) for lines in panels] == [1, 1, 2]  # a rate is no eta_c
    assert panels[2] == [[1.0, 0.5], [0.5, 1.0]]  # by eta_c and by rate, over the share of labels
    sweep_figures.tradeoff(at_random, tmp_path)
    assert len(drawn[1].axes) == 1
