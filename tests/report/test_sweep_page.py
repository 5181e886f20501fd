"""The page of a sweep: one file, what its curves say, and the commands that make its runs."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from omkl.commands import report
from omkl.config.compose import compose
from omkl.online.settings import FEATURES
from omkl.report import naming, page
from omkl.runs.run_folder import Run
from omkl.utils.conf import config_text
from tests.conftest import seal


@pytest.fixture
def runs(run_folder_maker, tmp_path):
    """Raker and GF with two M on one data set."""
    folders = [run_folder_maker(tmp_path, "raker", n_rounds=3000)]
    for M in (5, 10):
        params = {"eta": "0.1/sqrt(t)", "M": M}
        folders.append(run_folder_maker(tmp_path, "gf", key=f"{M:08d}", params=params))
    return [Run(folder) for folder in folders]


def curves_in(text: str) -> dict:
    found = re.search(r'<script type="application/json" id="curves">(.*?)</script>', text, re.S)
    return json.loads(found[1])


def test_a_page_needs_nothing_else(runs):
    text = page.sweep_page(runs)
    addresses = set(re.findall(r"https?://[^\s\"'`]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}, "a name, and nothing that is loaded"
    assert not re.search(r"<(link|img|iframe)\b|\bsrc=|@import|url\((?!#)", text)
    assert len(text) < 150_000


def test_the_curves_are_those_of_the_runs(runs):
    running, windows, regret = curves_in(page.sweep_page(runs))["airfoil"]["views"]
    assert [line["name"] for line in running["lines"]] == ["Raker", "OMKL-GF, M=5", "OMKL-GF, M=10"]
    line = running["lines"][0]
    t, mse = np.array(line["t"]), runs[0].curves["mse"]
    assert len(t) <= page.N_POINTS and t[-1] == 3000
    np.testing.assert_allclose(line["y"], mse.mean(axis=0)[t - 1], rtol=1e-3)
    np.testing.assert_allclose(line["s"], mse.std(axis=0, ddof=1)[t - 1], rtol=1e-3)
    last = regret["lines"][1]["y"][-1]
    assert last == pytest.approx(runs[1].result["regret"]["ridge_features"]["mean"], rel=1e-3)
    assert np.average(windows["lines"][0]["y"]) == pytest.approx(line["y"][-1], rel=1e-2)
    assert running["lines"][1]["colour"] == running["lines"][2]["colour"]


def test_names_are_no_markup(run_folder_maker, tmp_path):
    name = "</script><b>'x\""
    run = Run(run_folder_maker(tmp_path))
    run.result["dataset"] = name
    text = page.sweep_page([run])
    assert "<b>" not in text and list(curves_in(text)) == [name]


def test_the_command_writes_the_page_of_the_last_sweep_or_of_chosen_runs(runs, tmp_path, capsys):
    sweep = tmp_path / "sweeps" / "2026"
    (sweep / "jobs").mkdir(parents=True)
    (sweep / "sweep.json").write_text("{}")
    for number, run in enumerate(runs[:2]):
        fact = {"number": number, "status": "complete", "tracked": False}
        fact["folder"] = f"../../../runs/airfoil/{run.folder.name}"
        (sweep / "jobs" / f"{run.folder.name}.json").write_text(json.dumps(fact))

    def lines(*arguments: str) -> list[str]:
        assert report.main(["page", "--outputs", str(tmp_path), *arguments]) == 0
        written = Path(capsys.readouterr().out.strip())
        views = curves_in(written.read_text(encoding="utf-8"))["airfoil"]["views"]
        return [line["name"] for line in views[0]["lines"]]

    assert lines() == ["Raker", "OMKL-GF"] and (sweep / "page.html").exists()
    assert lines("algorithm=gf") == ["OMKL-GF, M=5", "OMKL-GF, M=10"]
    taken = str(tmp_path / "runs")
    assert report.main(["page", "--outputs", str(tmp_path), "--to", taken]) == 1
    assert f"cannot use {taken}: Is a directory" in capsys.readouterr().err
    assert report.main(["page", "--outputs", str(tmp_path), "format=csv"]) == 1
    assert "are of show: leave them out" in capsys.readouterr().err


@pytest.mark.parametrize(
    "typing",
    [
        ["algorithm=gf", "dataset=airfoil"],
        ["algorithm=gf", "dataset=airfoil", "algorithm.M=7", "algorithm.lam=0.5"],
        ["algorithm=raker", "dataset=wine", "D=100", "seeds=3", "stream.limit=200"],
        ["algorithm=rf/omkc_da_o", "dataset=german", "kernels=omkc16", "regret.lam=0.01"],
    ],
)
def test_the_command_of_a_run_says_what_was_typed(run_folder_maker, tmp_path, typing):
    config = compose(typing)
    if config["D"] is None:
        config["D"] = FEATURES  # as a run does
    config["stream"]["scaling"] = "whole"
    folder = run_folder_maker(tmp_path, config["algorithm"]["name"].replace("/", "."))
    (folder / "config.yaml").write_text(config_text(config))
    run = seal(folder)
    names = {"algorithm": config["algorithm"]["name"], "dataset": config["dataset"]["name"]}
    run.__dict__["result"] = run.result | names
    said = naming.command(run).replace("'", "").split()
    assert sorted(said[1:]) == sorted(typing)
    assert FEATURES == naming.FEATURES
    assert said[0] == "omkl-run" and len(naming.differences(run)) == len(typing) - len(
        [text for text in typing if text.partition("=")[0] in naming.GROUPS]
    )
