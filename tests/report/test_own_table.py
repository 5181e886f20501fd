"""A table of one's own: conf/table/mine.yaml, which is about no published number."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from omkl.papers import matching, rendering, tables
from omkl.report.text import readable
from omkl.runs.run_folder import Run, held_in_memory

MINE = {
    "name": "mine",
    "title": "Two learners",
    "metric": "mse_e3",
    "seeds": 3,
    "columns": [{"label": "Airfoil", "dataset": "airfoil"}, {"label": "Naval", "dataset": "naval"}],
    "rows": [{"label": "Raker", "algorithm": "raker"}, {"label": "GF", "algorithm": "gf"}],
    "footnotes": [{"text": "exploring more", "rows": ["GF"]}],
}


def test_it_needs_no_published_number(tmp_path, monkeypatch):
    table = tables.load_table(MINE)
    assert matching.jobs(table) == [
        [f"algorithm={algorithm}", f"dataset={dataset}", "seeds=3"]
        for algorithm in ("raker", "gf")
        for dataset in ("airfoil", "naval")
    ]
    run = {"mse_mean": 0.0125, "mse_std": 0.001, "commit": "abc1234", "numbers": "feed"}
    monkeypatch.setattr(matching, "_fitting", lambda spec, *_: found(run, spec.dataset))
    filled = matching.fill(table, [])
    assert not filled.judged
    paths = rendering.render(filled, rendering.FORMATS, tmp_path)
    texts = {path.suffix: path.read_text(encoding="utf-8") for path in paths}
    for suffix, number in ((".md", "12.50 ± 1.00"), (".tex", r"12.50 $\pm$ 1.00")):
        assert texts[suffix].count(number) == 2
        for word in ("published", "reproduced", "as written", "verdict", "not judged"):
            assert word not in texts[suffix]
    assert "# Two learners (MSE × 10⁻³)" in texts[".md"] and "GF <sup>1</sup>" in texts[".md"]
    lines = list(csv.DictReader(io.StringIO(texts[".csv"])))
    assert [line["verdict"] for line in lines] == ["unpublished", "missing"] * 2
    assert readable(float(lines[0]["ours"])) == "12.50"


def found(result: dict, dataset: str) -> list[Run]:
    """A finished run on airfoil alone, held in memory."""
    own = {"status": "complete", "seeds": [0, 1, 2], "started": "2026-01-01T00:00:00+00:00"}
    own |= {"seconds": 1.0, "machine": {"cores": 2}, "versions": {"omkl": "0.1.0"}}
    result = {**result, **own, "seconds_per_seed": [1.0] * 3}
    place = Path(f"outputs/runs/{dataset}/raker-1")
    return [held_in_memory(place, result=result)] if dataset == "airfoil" else []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"paper": "graph-aided-jmlr"}, "a published table has a paper and a table"),
        ({"rows": [{"label": "R", "published": "raker", "algorithm": "raker"}]}, "is of no paper"),
        ({"metric": "beauty"}, "metric 'beauty' is not one of"),
    ],
)
def test_what_is_neither_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        tables.load_table(MINE | {"footnotes": []} | wrong)


@pytest.mark.parametrize(
    ("metric", "result", "value"),
    [
        ("error_percent", {"error_rate_mean": 0.25, "error_rate_std": 0.01}, (25.0, 1.0)),
        (
            "regret",
            {"regret": {"a": {"skipped": ""}, "b": {"mean": 3.0, "std": None}}},
            (3.0, None),
        ),
    ],
)
def test_what_a_cell_may_measure(metric, result, value):
    assert tables.METRICS[metric].measure(result) == value
