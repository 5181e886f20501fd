"""A setting that is swept is a column wherever runs are shown, off or not."""

import io
import json

import numpy as np
import pytest
import yaml
from rich.console import Console

from omkl.commands import report
from omkl.experiment import run as runner
from omkl.report import naming, page, stats, style, sweep_figures, sweep_table
from omkl.runs.run_folder import Run
from tests.compositions import compose
from tests.conftest import seal

SWEEPS = {  # as typed; what tables call the two, and the values by which they are asked for
    "lags": ("stream.lags", ("0", "2"), ("0", "2"), ("0", "2")),
    "interval": ("interval", ("null", "0.9"), ("null", "0.9"), ("off", "null", "0.9")),
    "limit": ("stream.limit", ("null", "60"), ("null", "60"), ("off", "null", "60")),
    "inputs": ("dataset.inputs", ("null", "[u]"), ("null", "[u]"), ("null", "[u]")),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """By sweep, raker and gf of both values."""
    place = tmp_path_factory.mktemp("swept")
    u, v = np.random.default_rng(0).random((2, 80))
    rows = "\n".join(f"{a},{b},{a * b}" for a, b in zip(u, v, strict=True))
    (place / "x.csv").write_text(f"u,v,y\n{rows}\n")
    quick = ["seeds=1", "D=2", "kernels=rbf9", "figures=false", "tracking=none"]
    quick += [f"outputs={place}", "dataset=file", f"dataset.path={place}/x.csv"]
    found = {}
    for name, (key, values, *_) in SWEEPS.items():
        texts = [
            [f"algorithm={a}", f"{key}={value}"] for a in ("raker", "ridge") for value in values
        ]
        jobs = [runner.run(compose([*quick, "dataset.target=y", *text])) for text in texts]
        assert [job.run.complete for job in jobs] == [True] * 4, jobs[0].run.result
        found[name] = [Run(job.run.folder) for job in jobs]
    return found


@pytest.mark.slow(3)
@pytest.mark.parametrize("name", SWEEPS)
def test_a_swept_setting_is_told_in_every_table_legend_page_and_figure(
    runs, name, tmp_path, monkeypatch, capsys
):
    key, _, told, asked = SWEEPS[name]
    rows = sweep_table.sweep_table(runs[name])
    own = [row for row in rows if row.get("status") != "baseline"]
    shown = [sweep_table.setting_texts(row, [key]) for row in own]
    assert shown == [[told[0]], [told[1]]] * 2
    stream = io.StringIO()
    sweep_table.print_sweep(rows, [], Console(file=stream, width=120))
    assert stream.getvalue().count(told[1]) >= 2 and stream.getvalue().count(told[0]) >= 2
    header = sweep_table.csv(rows, []).splitlines()[0]
    assert key in header and key in sweep_table.latex(rows).replace("\\_", "_")
    assert f"{key}={told[0]}" in " ".join(sweep_table.pivot(rows, ["algorithm"], [key]).columns)
    legend = naming.legend(runs[name])
    places = list(zip(naming.streams(runs[name]), legend, strict=True))
    assert len(set(places)) == 4 and not any(
        run.result["key"] == entry.apart for run, entry in zip(runs[name], legend, strict=True)
    )
    html = page.sweep_page(runs[name])
    for value in told:
        assert f"{key}={value}" in html and f'<td class="name">{value}</td>' in html
    names = []
    monkeypatch.setattr(
        style, "save", lambda figure, *where, **how: names.append(texts_of(figure)) or []
    )
    sweep_figures.comparison(runs[name], tmp_path)
    for value in told:
        assert f"{key}={value}" in " ".join(names[0])
    outputs = runs[name][0].folder.parents[2]
    for value in asked:
        given = ["show", "--outputs", str(outputs), f"{key}={value}", "algorithm=ridge"]
        assert report.main([*given, "format=csv"]) == 0
        assert "ridge" in capsys.readouterr().out


def texts_of(figure):
    texts = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    return [*texts, *(axes.get_title() for axes in figure.axes)]


@pytest.mark.slow(3)
def test_each_run_has_its_own_baselines(runs):
    """With lags the ridge sees other inputs, and the running mean does not."""
    found = [line.text for line in stats.baseline_lines(runs["lags"])]
    assert found == [
        "running mean", "last target",
        "linear ridge, stream.lags=0", "linear ridge, stream.lags=2",
    ]  # fmt: skip
    html = page.sweep_page(runs["lags"])
    assert all(text in html for text in found)
    rows = sweep_table.sweep_table(runs["lags"])
    ridges = {row["mse"] for row in rows if row["algorithm"].startswith("linear ridge")}
    assert len(ridges) == 2


def test_what_is_off_is_no_column_however_it_is_written(run_folder_maker, tmp_path):
    """An earlier version wrote null where a later one leaves a setting out."""
    folders = [run_folder_maker(tmp_path, "raker", key=f"{n:08d}") for n in range(3)]
    for folder, stream in zip(folders, ({"lags": None}, {}, {"lags": False}), strict=True):
        config = yaml.safe_load((folder / "config.yaml").read_text()) | {"stream": stream}
        (folder / "config.yaml").write_text(json.dumps(config))
    assert naming.varying([seal(folder) for folder in folders]) == [{}, {}, {}]


def test_features_that_a_configuration_leaves_out_are_called_as_they_are_typed(
    run_folder_maker, tmp_path
):
    folders = [run_folder_maker(tmp_path, "raker", key=f"{n:08d}") for n in range(2)]
    config = yaml.safe_load((folders[1] / "config.yaml").read_text()) | {"features": "qmc"}
    (folders[1] / "config.yaml").write_text(json.dumps(config))
    found = [seal(folder) for folder in folders]
    assert naming.varying(found) == [{"features": "rff"}, {"features": "qmc"}]
    assert sweep_table.matching(found, {"features": ["rff"]}) == found[:1]
