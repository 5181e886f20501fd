"""The page of several runs: one file, and the commands that make its runs."""

import json
import re
from pathlib import Path

import pytest

from omkl.commands import report
from omkl.report import sweep_table
from omkl.runs.run_folder import Run


@pytest.fixture
def runs(run_folder_maker, tmp_path):
    """Raker and GF with two M on one data set."""
    folders = [run_folder_maker(tmp_path, "raker", n_rounds=3000)]
    for M in (5, 10):
        params = {"eta": "0.1/sqrt(t)", "M": M}
        folders.append(run_folder_maker(tmp_path, "gf", key=f"{M:08d}", params=params))
    return [Run(folder) for folder in folders]


def test_a_page_needs_no_other_file_and_has_every_figure_and_command(runs, tmp_path):
    picture = tmp_path / "comparison.png"
    picture.write_bytes(b"png")
    figures = runs[0].folder / "figures"
    figures.mkdir()
    (figures / "mse.png").write_bytes(b"png")
    text = sweep_table.page(runs, [picture])
    assert not re.search(r"https?://|<(script|link|iframe)\b|@import|url\(", text)
    assert re.findall(r'src="([^,]*),cG5n" alt="([^"]*)"', text) == [
        ("data:image/png;base64", "comparison"),
        ("data:image/png;base64", "mse of Raker on airfoil"),
    ]
    assert text.count("<pre>omkl-run ") == 3
    assert re.findall(r"<summary>(.*?)</summary>", text) == [
        "Raker on airfoil", "OMKL-GF, M=5 on airfoil", "OMKL-GF, M=10 on airfoil"
    ]  # fmt: skip


def test_names_are_no_markup(run_folder_maker, tmp_path):
    run = Run(run_folder_maker(tmp_path))
    run.result["dataset"] = "</script><b>'x\""
    text = sweep_table.page([run])
    assert "&lt;/script&gt;&lt;b&gt;" in text and "</script>" not in text


@pytest.mark.slow
def test_the_command_writes_the_page_of_the_last_sweep_or_of_chosen_runs(runs, tmp_path, capsys):
    sweep = tmp_path / "sweeps" / "2026"
    (sweep / "jobs").mkdir(parents=True)
    (sweep / "sweep.json").write_text("{}")
    for number, run in enumerate(runs[:2]):
        fact = {"number": number, "status": "complete"}
        fact["folder"] = f"../../../runs/airfoil/{run.folder.name}"
        (sweep / "jobs" / f"{run.folder.name}.json").write_text(json.dumps(fact))

    def names(*arguments: str) -> list[str]:
        assert report.main(["page", "--outputs", str(tmp_path), *arguments]) == 0
        written = Path(capsys.readouterr().out.strip()).read_text(encoding="utf-8")
        assert 'alt="comparison"' in written
        return re.findall(r"<summary>(.*?)</summary>", written)

    assert names() == ["Raker on airfoil", "OMKL-GF on airfoil"]
    assert (sweep / "page.html").exists()
    assert names("algorithm=gf") == ["OMKL-GF, M=5 on airfoil", "OMKL-GF, M=10 on airfoil"]
    taken = str(tmp_path / "runs")
    assert report.main(["page", "--outputs", str(tmp_path), "--to", taken]) == 1
    assert f"cannot use {taken}: Is a directory" in capsys.readouterr().err
    assert report.main(["page", "--outputs", str(tmp_path), "format=csv"]) == 1
    assert "are of show: leave them out" in capsys.readouterr().err
