"""A setting that is swept is a column wherever runs are shown, off or not."""

import io

import numpy as np
import pytest
from rich.console import Console

from omkl.commands import report
from omkl.experiment import run as runner
from omkl.report import naming, stats, sweep_figures, sweep_table
from omkl.report.frame import frame_of, matching, settings_in, with_baselines
from omkl.runs.run_folder import Run
from tests.compositions import compose
from tests.conftest import configure

SWEEPS = {  # as typed; what tables call the two, and the values by which they are asked for
    "lags": ("stream.lags", ("0", "2"), ("0", "2"), ("0", "2")),
    "interval": ("interval", ("null", "0.9"), ("null", "0.9"), ("null", "0.9")),
    "limit": ("stream.limit", ("null", "60"), ("null", "60"), ("null", "60")),
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
def test_a_swept_setting_is_in_every_table_legend_page_and_figure(runs, name, capsys):
    key, _, told, asked = SWEEPS[name]
    frame = frame_of(runs[name])
    assert settings_in(frame) == [key]
    stream = io.StringIO()
    sweep_table.print_frame(frame, Console(file=stream, width=120))
    assert stream.getvalue().count(told[1]) >= 2 and stream.getvalue().count(told[0]) >= 2
    header = sweep_table.csv(frame).splitlines()[0]
    assert key in header and key in sweep_table.latex(frame).replace("\\_", "_")
    legend = naming.legend(runs[name])
    assert len(set(zip(naming.streams(runs[name]), legend, strict=True))) == 4
    html = sweep_table.page(runs[name])
    for value in told:
        assert f"{key}={value}" in html and f'<td class="name">{value}</td>' in html
    figure = sweep_figures.chosen_figure(runs[name], "t")
    for value in told:
        assert f"{key}={value}" in " ".join(texts_of(figure))
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
    found = [name for name, *_ in stats.baseline_curves(runs["lags"])]
    assert found == ["running mean", "last target", "linear ridge", "linear ridge"]
    frame = with_baselines(frame_of(runs["lags"]))
    assert frame["mse"][frame["algorithm"] == "linear ridge"].nunique() == 2


def test_features_that_a_configuration_leaves_out_are_called_as_they_are_typed(
    run_folder_maker, tmp_path
):
    folders = [run_folder_maker(tmp_path, "raker", key=f"{n:08d}") for n in range(2)]
    found = [Run(folders[0]), configure(folders[1], features="qmc")]
    assert naming.varying(found) == [{"features": "rff"}, {"features": "qmc"}]
    assert matching(found, {"features": ["rff"]}) == found[:1]
