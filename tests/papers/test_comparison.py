"""The table of classifiers and peers: its cells are the runs, and peers see the same rows."""

import csv
import re

import numpy as np
import pytest

from omkl import papers
from omkl.commands import report
from omkl.experiment import metrics
from omkl.papers import comparison
from omkl.papers.comparison import Line
from omkl.runs.run_folder import find
from tests.conftest import catalogued

SPEC = {
    "name": "small",
    "title": "Small",
    "seeds": 3,
    "peer_seeds": 2,
    "overrides": ["task=classification", "kernels=gauss13", "D=10"],
    "algorithms": [
        {"algorithm": "omkc_da_p1"},
        {"algorithm": "rf/omkc_da_p1", "overrides": ["D=20"]},
    ],
    "best_kernel_of": "omkc_da_p1",
    "peers": ["sklearn_sgd"],
    "datasets": [
        {"dataset": "sonar", "overrides": ["regret.mistake_bound=true"]},
        {"dataset": "wdbc", "label": "wdbc, 60 rows", "overrides": ["stream.limit=60"]},
    ],
}


@pytest.mark.real_data
@pytest.mark.slow(6)
def test_a_small_table(tmp_path, capsys, monkeypatch):
    _ = catalogued("sonar"), catalogued("wdbc")
    monkeypatch.setenv("OMKL_THREADS", "1")  # a process for the peers, none for our runs
    assert comparison.command(SPEC, tmp_path) == 0
    text = (tmp_path / "tables" / "small.md").read_text()
    assert text in capsys.readouterr().out
    with open(tmp_path / "tables" / "small.csv", newline="") as file:
        cells = {(row["row"], row["dataset"]): row for row in csv.DictReader(file)}
    runs = {(r.result["algorithm"], r.result["dataset"]): r for r in find(tmp_path)}
    assert len(runs) == 4 and runs["rf/omkc_da_p1", "sonar"].result["D"] == 20
    ours = cells["OMKC DA-P(1)", "wdbc, 60 rows"]
    assert float(ours["error_rate"]) == runs["omkc_da_p1", "wdbc"].result["error_rate_mean"]
    best = float(cells[comparison.BEST, "sonar"]["error_rate"])
    assert best == pytest.approx(runs["omkc_da_p1", "sonar"].result["best_kernel"] / 208)
    bound = runs["omkc_da_p1", "sonar"].result["bound"]
    assert max(runs["omkc_da_p1", "sonar"].result["mistakes"]) <= bound["value"]
    assert f"{bound['value']:.1f}" in text and bound["theorem"] in text
    (corollary,) = bound["further"]
    assert corollary["name"] == "corollary 4" and 0 < corollary["beta"] < 1
    assert f"beta = {corollary['beta']:.3f}" in text and f"{corollary['value']:.1f}" in text
    for name in ("small_errors", "small_bounds"):
        assert f"({name}.png)" in text
        assert (tmp_path / "tables" / f"{name}.png").stat().st_size > 10_000
    assert float(cells[comparison.CONSTANT, "sonar"]["error_rate"]) == pytest.approx(97 / 208)
    peer = cells[comparison.title("sklearn_sgd"), "sonar"]
    assert peer["permutations"] == "2" and 0.1 < float(peer["error_rate"]) < 0.6
    kept = sorted((tmp_path / "peers").iterdir())
    assert comparison.command(SPEC, tmp_path) == 0  # now all of it is there
    assert sorted((tmp_path / "peers").iterdir()) == kept and "(reused)" in capsys.readouterr().out


def test_bold_is_what_no_test_tells_from_the_lowest():
    """Peers have fewer permutations, and what is chosen in hindsight cannot be the lowest."""
    ours, near, far = [0.20, 0.22, 0.21, 0.23], [0.23, 0.21, 0.22, 0.24], [0.30, 0.33, 0.31, 0.32]
    peer, single, hindsight = [0.23, 0.21], [0.25], [0.10, 0.11, 0.10, 0.12]
    rows = {"ours": ours, "near": near, "far": far, "peer": peer, "single": single}
    lines = [Line(row, "sonar", rates, 1.0) for row, rates in rows.items()]
    lines.append(Line(comparison.BEST, "sonar", hindsight, 1.0))
    text = comparison._document(SPEC | {"title": "T"}, lines, [], [], [])
    assert [row for row in rows if re.search(rf"\| {row} +\| +\*\*", text)] == [
        "ours", "near", "peer"
    ]  # fmt: skip
    assert text.count("**") == 6 and "paired t over permutations, Holm, 5%" in text
    assert lines[3].numbers == pytest.approx(["peer", "sonar", 0.22, 0.01 * 2**0.5, 2, 1.0])
    assert lines[4].numbers == ["single", "sonar", 0.25, None, 1, 1.0]


def test_data_that_are_not_there_are_left_out(tmp_path, monkeypatch, capsys):
    """A data set at a time, and without any there is no table; never a traceback."""
    monkeypatch.setenv("OMKL_DATA_DIR", str(tmp_path))
    missing = {"dataset": "a9a", "label": "a9a, far away", "overrides": ["dataset.file=nowhere"]}
    assert comparison.command(SPEC | {"datasets": [missing]}, tmp_path) == 1
    told = capsys.readouterr().out
    assert "a9a, far away: left out: a9a: nowhere was not found" in told
    assert "no data set of it could be read" in told
    assert not (tmp_path / "tables").exists()


@pytest.mark.parametrize("name", comparison.PEERS)
def test_peers_predict_before_they_learn(name):
    if reason := comparison.missing(name):
        pytest.skip(reason)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.where(np.linalg.norm(X, axis=1) > 1.18, 1.0, -1.0)
    peer = comparison.PEERS[name][2]
    y_hat = peer(X, y, 0)
    assert y_hat[0] == 0.0 and set(np.unique(y_hat)) <= {-1.0, 0.0, 1.0}
    assert metrics.mistaken(y_hat[200:], y[200:]).mean() < 0.35
    other = y.copy()
    other[100:] *= -1.0
    np.testing.assert_array_equal(peer(X, other, 0)[:101], y_hat[:101])


def test_the_bandwidth_of_peers_is_the_median_heuristic():
    X = np.array([[0.0], [1.0], [3.0]])  # squared distances 1, 4, 9
    assert comparison.median_gamma(X) == 0.5 / 4.0
    assert comparison.median_gamma(np.zeros((5, 2))) == 0.5


def test_the_table_is_known_to_the_command(capsys):
    spec = papers.entry("comparison", "omkc_table")
    assert set(spec["peers"]) <= set(comparison.PEERS)
    with pytest.raises(SystemExit):
        report.main(["run", "omkc_tabel"])
    assert "omkc_table" in capsys.readouterr().err
