"""Panels: a learner per series that learns as it would by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import omkl
from omkl.core.panel import FIRST, WORTH_THREADS
from omkl.utils.conf import PANEL

NAMES = ["a", "b"]


def stream(n: int, n_series: int, seed: int = 0) -> pd.DataFrame:
    """Rows of devices that differ in level and slope; some inputs and targets are missing."""
    rng = np.random.default_rng(seed)
    device = rng.integers(n_series, size=n)
    a, b = rng.normal(size=(2, n))
    y = 10.0 * device + (1.0 + device) * np.sin(a) + b * b
    a[rng.random(n) < 0.05] = np.nan
    y[rng.random(n) < 0.1] = np.nan
    return pd.DataFrame({"device": device, "a": a, "b": b, "y": y})


def one_learner(algorithm: str, **settings: object) -> omkl.OnlineLearner:
    own = {name: value for name, value in PANEL.items() if name != "algorithm"}
    return omkl.learner(algorithm, **{"inputs": NAMES, **own, **settings})


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("raker", {"lags": 2}),
        ("raker", {"scaling": "none", "eta": 0.01}),
        ("ridge", {}),
        ("ridge", {"lags": 3}),
        ("last", {}),
    ],
)
def test_each_key_learns_as_a_learner_by_itself(algorithm: str, settings: dict) -> None:
    rows = stream(600, n_series=4)
    if settings.get("scaling") == "none":
        rows = rows.fillna({"a": 0.0})
    panel = omkl.panel(algorithm, series="device", inputs=NAMES, threads=2, **settings)
    blocks = [rows[:1], rows[1:250], rows[250:]]
    parts = [panel.partial_fit(block[["device", *NAMES]], block.y) for block in blocks]
    y_hat = np.concatenate([part.y_hat for part in parts])
    coming = stream(50, n_series=4, seed=1).fillna({"a": 0.0})
    following = panel.predict(coming[["device", *NAMES]])
    for device, own in rows.groupby("device"):
        learner = one_learner(algorithm, **settings)
        alone = learner.partial_fit(own[NAMES], own.y)
        np.testing.assert_array_equal(y_hat[rows.device == device], alone.y_hat)
        assert panel.n_rows(device) == learner.n_rows == own.y.notna().sum()
        here = coming[coming.device == device]
        np.testing.assert_array_equal(
            following[coming.device == device], learner.predict(here[NAMES])
        )


def test_targets_of_several_series_come_in_any_order() -> None:
    panel, alone = omkl.panel(series="device", inputs=NAMES), one_learner("ridge")
    rows = [{"device": name, "a": a, "b": 0.5} for a in (1.0, 2.0, 3.0) for name in "pq"]
    for x in rows:
        assert panel.predict_one(x) == panel.predict_one(x) == 0.0
    for y, x in enumerate([*rows[::2], *rows[1::2]]):
        panel.learn_one(x, float(y))
    panel.learn_one({"device": "p", "a": 1.0, "b": 0.5}, None)
    assert (panel.n_rows("p"), panel.n_rows("q")) == (3, 3)
    for a in (1.0, 2.0, 3.0):
        alone.learn_one([a, 0.5], a - 1.0)
    expected = alone.partial_fit([[1.0, 0.5], [4.0, 0.5]], [np.nan, np.nan]).y_hat[1]
    assert panel.predict_one({"a": 4.0, "b": 0.5}, series="p") == expected


def test_threads_change_no_bit() -> None:
    rows = stream(2 * WORTH_THREADS, n_series=40).fillna({"y": 0.0})
    said = [
        omkl.panel(series="device", threads=threads).partial_fit(rows[["device", *NAMES]], rows.y)
        for threads in (1, 3)
    ]
    np.testing.assert_array_equal(said[0].y_hat, said[1].y_hat)


@pytest.mark.parametrize("settings", [{"share_weights": True}, {"share_scaling": True}])
def test_what_series_share_does_not_depend_on_blocks(settings: dict) -> None:
    rows = stream(400, n_series=5)
    X = rows[["device", *NAMES]]
    whole = omkl.panel("raker", series="device", **settings).partial_fit(X, rows.y)
    panel = omkl.panel("raker", series="device", **settings)
    parts = [panel.partial_fit(X[k : k + 37], rows.y[k : k + 37]) for k in range(0, 400, 37)]
    np.testing.assert_array_equal(whole.y_hat, np.concatenate([part.y_hat for part in parts]))
    alone = omkl.panel("raker", series="device").partial_fit(X, rows.y)
    assert not np.array_equal(whole.y_hat, alone.y_hat)


@pytest.mark.parametrize("size", [1, 7, 300])
def test_the_least_recent_key_is_forgotten(size: int) -> None:
    """As a dictionary of learners from which it is taken, for any split into blocks."""
    rows = stream(300, n_series=6)
    panel = omkl.panel("ridge", series="device", max_series=3)
    X = rows[["device", *NAMES]]
    parts = [panel.partial_fit(X[k : k + size], rows.y[k : k + size]) for k in range(0, 300, size)]
    learners: dict[int, omkl.OnlineLearner] = {}
    expected = []
    for device, a, b, y in rows.itertuples(index=False):
        if device not in learners and len(learners) == 3:
            del learners[next(iter(learners))]
        learners[device] = learners.pop(device, None) or one_learner("ridge")
        expected.append(learners[device].partial_fit([[a, b]], [y]).y_hat[0])
    np.testing.assert_array_equal(np.concatenate([part.y_hat for part in parts]), expected)
    assert panel.names == tuple(learners)
    assert panel._learner.n_slots == FIRST + 3, "memory is that of so many series"


@pytest.mark.parametrize(
    "settings", [{}, {"share_weights": True}, {"share_scaling": True, "lags": 1}, {"max_series": 4}]
)
def test_a_saved_panel_goes_on_to_the_bit(settings: dict, tmp_path: Path) -> None:
    rows = stream(500, n_series=6)
    X, y = rows[["device", *NAMES]], rows.y
    panel = omkl.panel("raker", series="device", **settings)
    panel.partial_fit(X[:300], y[:300])
    panel.forget(panel.names[2])
    panel.save(tmp_path / "panel.npz")
    loaded = omkl.load_panel(tmp_path / "panel.npz")
    assert loaded.names == panel.names
    here, there = (one.partial_fit(X[300:], y[300:]).y_hat for one in (panel, loaded))
    np.testing.assert_array_equal(here, there)
    with pytest.raises(ValueError, match="contains a panel"):
        omkl.load_learner(tmp_path / "panel.npz")


@pytest.mark.parametrize("inputs", [None, ["load", "town"]])
def test_words_become_inputs_as_in_a_learner(inputs: list[str] | None, tmp_path: Path) -> None:
    """And a prediction before the first row decides nothing."""
    towns = np.array(["Oslo", "Bergen", "Rome"])[np.arange(60) % 3]
    rows = pd.DataFrame({"device": "pump", "load": np.arange(60) % 7, "town": towns})
    y = 2.0 * rows.load + (rows.town == "Oslo")
    panel = omkl.panel(series="device", inputs=inputs)
    learner = one_learner("ridge", inputs=inputs)
    assert panel.predict(rows[:1]) == 0.0
    expected = learner.partial_fit(rows.drop(columns="device"), y).y_hat
    np.testing.assert_array_equal(panel.partial_fit(rows, y).y_hat, expected)
    panel.save(tmp_path / "panel.npz")
    again = omkl.load_panel(tmp_path / "panel.npz")
    np.testing.assert_array_equal(again.predict(rows), panel.predict(rows))


def test_memory_per_key_is_what_is_said() -> None:
    n_kernels, features, d = 5, 48, 4
    of_learner = 8 * (n_kernels * (features + 2) + 4 + 1)
    assert omkl.panel("raker", inputs=4, lags=0).bytes_per_series == of_learner + 8 * 20 * (d + 1)
    shared = omkl.panel("raker", inputs=4, lags=0, share_scaling=True)
    assert shared.bytes_per_series == of_learner + 8 * 20, "of the targets alone"


def test_a_key_that_is_forgotten_begins_anew() -> None:
    panel = omkl.panel(inputs=1)
    panel.partial_fit([[0.0], [1.0], [2.0]], [1.0, 2.0, 3.0], [1, 1, 2])
    assert panel.predict_one([0.5], series=1) != 0.0
    panel.forget(1)
    assert 1 not in panel and True not in panel and 2 in panel
    assert panel.predict_one([0.5], series=1) == 0.0


def test_frames_are_predicted_as_series() -> None:
    rows = stream(50, n_series=2).fillna({"y": 0.0}).set_index(np.arange(100, 150))
    panel = omkl.panel(series="device")
    panel.learn_many(rows[["device", *NAMES]], rows.y)
    predicted = panel.predict_many(rows[["device", *NAMES]])
    assert predicted.index.equals(rows.index)
    before = panel.n_rows(0)
    panel.predict_many(rows[["device", *NAMES]])
    assert panel.n_rows(0) == before


def test_intervals_are_of_series_that_differ_a_thousand_times(tmp_path: Path) -> None:
    """Any split into blocks, and a panel that was saved, go on to the bit; 32 bytes a series."""
    rng = np.random.default_rng(3)
    device = rng.integers(6, size=3000)
    X, scale = rng.normal(size=(3000, 2)), 10.0 ** np.arange(-2, 4)[device]
    y = scale * (3.0 * X[:, 0] + rng.normal(size=3000))
    y[::50] = np.nan
    whole, panel = (omkl.panel("ridge", inputs=2, interval=0.9) for _ in range(2))
    said = whole.partial_fit(X, y, device)
    parts = []
    for s in range(0, 3000, 700):
        rows = slice(s, s + 700)
        ends = panel.predict_interval(X[s : s + 1], device[s : s + 1])
        parts.append(panel.partial_fit(X[rows], y[rows], device[rows]))
        np.testing.assert_array_equal(ends[0], [parts[-1].low[0], parts[-1].high[0]])
        panel.save(tmp_path / "panel.npz")
        panel = omkl.load_panel(tmp_path / "panel.npz")
    for name in ("y_hat", "low", "high"):
        together = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(together, getattr(said, name))
    held = (said.low <= y) & (y <= said.high)
    covered = [held[(device == k) & ~np.isnan(y)][20:].mean() for k in range(6)]
    assert min(covered) > 0.85 and max(covered) < 0.95
    assert panel.bytes_per_series == omkl.panel("ridge", inputs=2).bytes_per_series + 32
    assert np.isnan(panel.predict_interval(X[:1], [99])).all()


def test_an_interval_has_no_width_until_a_series_errs() -> None:
    """What it would be after other errors cannot be known from those of other series."""
    panel, x = omkl.panel("last", inputs=1, interval=0.9), np.zeros((40, 1))
    panel.partial_fit(x, np.random.default_rng(0).normal(size=40), ["other"] * 40)
    y = np.r_[np.full(20, 3.0), np.full(20, 5.0)]
    said = panel.partial_fit(x, y, ["sensor"] * 40)
    np.testing.assert_array_equal((said.high - said.low)[2:21], 0.0)
    assert (said.high - said.low)[21] > 0.0, "after the first error other than 0"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: omkl.panel("auto", series="k"),
            r'auto keeps counts .* omkl.learner\("auto", seri',
        ),
        (lambda: omkl.panel("omkr", inputs=2), "omkr keeps rows of the stream"),
        (lambda: omkl.panel("ml_poly", inputs=2, share_weights=True), "share_weights=True"),
        (lambda: omkl.panel(share_weights=True), "ridge is none: raker and rfomkr"),
        (lambda: omkl.panel(max_series=0), "max_series"),
        (lambda: omkl.panel(interval=90), "interval=90 is not a number between 0 and 1"),
        (lambda: omkl.panel(series="k").predict_interval([{"k": 1}]), "panel with interval=0.9"),
        (lambda: omkl.panel().partial_fit([[1.0]], [1.0]), "each row needs a series"),
        (lambda: omkl.panel().partial_fit([[1.0]], [1.0], [1.5]), "series 1.5 must be a whole"),
        (
            lambda: omkl.panel().partial_fit([[1.0]], [1.0], [None]),
            "row 1 of the block has no series",
        ),
        (lambda: omkl.panel().partial_fit([[1.0]], [1.0], ["a", "b"]), "1 rows X, 1 targets y"),
        (lambda: omkl.panel().partial_fit([[1.0]], [1.0], "a"), "series='a' is no list"),
        (lambda: omkl.panel().partial_fit([[1.0]] * 2, [1.0] * 2, [1.0, np.nan]), "row 2 of the"),
        (lambda: omkl.panel().partial_fit([[1.0]] * 2, [1.0] * 2, [1, True]), "series True must"),
        (lambda: omkl.panel().partial_fit([[1.0]] * 2, [1.0] * 2, ["a", 1.0]), "series 1.0 must"),
        (lambda: omkl.panel().n_rows(True), "series True must be a whole"),
        (lambda: omkl.panel(series="k").predict([{"x": 1.0}]), "a row has no 'k'"),
        (lambda: omkl.panel(series="k").predict(pd.DataFrame({"x": [1]})), "no column 'k'"),
    ],
)
def test_what_a_panel_cannot_do_is_said(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_what_is_refused_decides_no_inputs() -> None:
    rows = stream(30, n_series=2)
    panel = omkl.panel(series="device")
    for X, y in ((rows[["device", "a"]], rows.y[:3]), (rows[["a"]].assign(device=None), rows.y)):
        with pytest.raises(ValueError):
            panel.partial_fit(X, y)
    with pytest.raises(RuntimeError, match="has seen no row"):
        panel.weights(0)
    with pytest.raises(RuntimeError, match="has seen no row"):
        _ = panel.bytes_per_series
    expected = omkl.panel(series="device").partial_fit(rows[["device", *NAMES]], rows.y).y_hat
    found = panel.partial_fit(rows[["device", *NAMES]], rows.y).y_hat
    np.testing.assert_array_equal(found, expected)


def test_the_column_of_series_is_no_input_where_series_are_given_too() -> None:
    rows = stream(30, n_series=2)[["device", *NAMES]]
    panels = [omkl.panel(series="device") for _ in range(3)]
    given = [(rows, None), (rows, rows.device), (rows.to_dict("records"), rows.device)]
    y_hat = [
        panel.partial_fit(X, np.arange(30.0), series).y_hat
        for panel, (X, series) in zip(panels, given, strict=True)
    ]
    np.testing.assert_array_equal(y_hat[1], y_hat[0])
    np.testing.assert_array_equal(y_hat[2], y_hat[0])
