"""Learners and peers side by side: their rows, the front, and a picture in which names are read."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from benchmarks import page as pages
from benchmarks import side_by_side, side_plot, tables

from omkl.benchmark import generators, packaged, peer_models
from omkl.report import style


def test_a_row_for_ours_peers_and_trivial_forecasters(monkeypatch):
    def require(package):
        raise ImportError(f"{package} is not installed")

    monkeypatch.setattr(packaged, "require", require)
    monkeypatch.setattr(side_by_side, "STREAMS", [])
    monkeypatch.setattr(side_by_side, "NAVAL", side_by_side.WAVES)
    found = side_by_side.measure(rows=60, seeds=1, learners=["gf"], peers=["vw_nn"])
    rows = {row["learner"]: row for row in found["learners"]}
    assert list(rows) == ["mean", "last", "ridge", "gf", "vw_nn"]
    assert rows["mean"]["error"] == 1.0 and rows["gf"]["kb"] > rows["ridge"]["kb"] > 0.0
    assert found["versions"] == {"vowpalwabbit": "not installed"}
    y = generators.made("waves", 60, seed=0).y
    last = np.mean((y[30:] - y[29:-1]) ** 2)
    mean = np.mean([(y[t] - y[:t].mean()) ** 2 for t in range(30, 60)])
    assert rows["last"]["error"] == pytest.approx(np.sqrt(last / mean))

    bench = {"side": found | {"row_by_row": {"gf": 12.0}}}
    table, why = tables.side_table(bench), tables.side_missing(bench)
    assert "| Vowpal Wabbit: 10 hidden units" in table and table.count("missing") == 1
    assert why == "- Vowpal Wabbit: 10 hidden units: missing: vowpalwabbit is not installed."
    assert all(
        part in "".join(pages.PARTS["side"](bench))
        for part in (table, why, "side.png", "OMKL-GF 12 µs")
    )


def test_a_reason_is_told_once_and_of_which_streams():
    streams = [{"name": "s"}, {"name": "t"}, {"name": "u", "missing": "no file"}]
    gone = [("s", "VW", "not installed"), ("t", "VW", "not installed"), ("t", "POLY", "diverged")]
    rows = [dict(zip(("stream", "title", "missing"), row, strict=True)) for row in gone]
    told = tables.side_missing({"side": {"streams": streams, "learners": rows}})
    assert told.splitlines() == ["- u: no file.", "- VW: not installed.", "- POLY on t: diverged."]


def test_every_regressor_is_there_but_variants_and_what_is_left_out():
    ours = side_by_side.ours()
    assert {"auto", "vaw2", "ie_gp", "adaraker", "raker", "omkr"} <= set(ours)
    assert not {"ridge", "omkc_sua_p", "as_released/raker", *side_by_side.LEFT_OUT} & set(ours)
    assert set(side_by_side.PEERS) <= set(peer_models.PEERS)


def test_front_is_what_nothing_beats_in_both():
    points = [(1, 9), (2, 5), (2, 6), (3, 5), (4, 1), (9, 1), (5, 2), (4, 1)]
    rows = [{"us": us, "error": error} for us, error in points]
    marked = side_by_side.mark_front([*rows, {"missing": "diverged"}])
    assert [row["front"] for row in marked] == [1, 1, 0, 0, 1, 0, 0, 1, 0]
    steps = [(1, 9), (2, 9), (2, 5), (4, 5), (4, 1)]
    assert side_plot.front_line(marked[:-2]) == steps


def test_no_name_covers_another_or_a_mark():
    """Marks in a heap, and names of all lengths."""
    rng = np.random.default_rng(0)
    marks = np.array([200.0, 150.0]) + rng.normal(scale=25.0, size=(25, 2))
    halves = np.stack([rng.uniform(8.0, 40.0, 25), np.full(25, 4.0)], axis=1)
    panel = np.array([[0.0, 0.0], [450.0, 300.0]])
    centres = side_plot.places(marks, halves, panel, marks[:2])
    for a, b in itertools.combinations(range(25), 2):
        assert (np.abs(centres[a] - centres[b]) >= halves[a] + halves[b]).any()
    for centre, half in zip(centres, halves, strict=True):
        assert (np.abs(marks - centre) >= half).any(axis=1).all()
    assert (centres - halves >= panel[0]).all() and (centres + halves <= panel[1]).all()


def test_an_error_beyond_the_axis_is_named_with_its_value():
    rows = [
        {"stream": "s", "learner": name, "kind": kind, "short": name, "us": us, "error": error}
        for name, kind, us, error in (
            ("fast", "ours", 1.0, 0.5), ("good", "peer", 90.0, 0.1), ("bad", "ours", 3.0, 17.0),
        )
    ]  # fmt: skip
    rows.append({"stream": "s", "learner": "gone", "kind": "peer", "missing": "diverged"})
    streams = [{"name": "s", "rows": 10, "columns": 2}, {"name": "t", "missing": "not there"}]
    bench = {"side": {"streams": streams, "learners": side_by_side.mark_front(rows)}}
    with style.applied():
        (axes,) = side_plot.draw(bench).axes
    assert [text.get_text() for text in axes.texts] == ["fast", "good", "bad (error 17)"]
    assert axes.get_ylim()[1] > side_plot.HIGHEST


def test_bayesian_ridge_is_fitted_anew_after_each_block():
    pytest.importorskip("sklearn", reason="scikit-learn comes with make bench")
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import BayesianRidge

    X, y, *_ = generators.made("waves", 101, seed=0)
    model = peer_models.peer("sklearn_rff_bayes").make("regression", 0, 3)
    said = _said(model, X, y)
    assert said[0] is None and said[49] == pytest.approx(y[:49].mean())
    for n in (50, 100):
        centre, unit = X[:n].mean(axis=0), X[:n].std(axis=0)
        sampler = RBFSampler(gamma=0.5, random_state=3).fit(X[:1])
        features = lambda Z: sampler.transform((Z - centre) / unit)  # noqa: B023, E731
        fitted = BayesianRidge().fit(features(X[:n]), y[:n])
        assert said[n] == pytest.approx(fitted.predict(features(X[n : n + 1]))[0])


@pytest.mark.parametrize("name", ["vw_cubic", "vw_nn"])
def test_vowpal_wabbit_learns_and_has_a_size(name):
    pytest.importorskip("vowpalwabbit", reason="Vowpal Wabbit comes with make bench")
    X, y, *_ = generators.made("switch", 400, seed=0)
    model = peer_models.peer(name).make("regression", 0, 0)
    said = np.array(_said(model, X, y))
    assert np.mean((said - y)[100:200] ** 2) < 0.5 * np.var(y)
    assert len(pickle.dumps(model)) > 500
    with pytest.raises(ValueError, match="no classification"):
        peer_models.peer(name).make("classification", 2, 0)


def _said(model, X, y):
    said = []
    for z, label in zip(X.tolist(), y.tolist(), strict=True):
        x = dict(enumerate(z))
        said.append(model.predict_one(x))
        model.learn_one(x, label)
    return said
