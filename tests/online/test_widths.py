"""Widths of intervals that ``auto`` learns from the row."""

import numpy as np
import pytest

import omkl
from omkl.online.intervals import WARM_UP

LEVEL = 0.9


def noisy(n, seed=0):
    """Rows whose noise grows with the second input and is skewed, and the noise's size."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    size = 0.1 + np.exp(X[:, 1])
    return X, np.sin(X[:, 0]) + size * (rng.exponential(size=n) - 1.0), size


def row_by_row(learner, X, y):
    """Predict and learn single rows: ends and spreads (n, 3)."""
    found = []
    for x, target in zip(X, y.tolist(), strict=True):
        learner.predict_one(x)
        found.append((*learner.interval, learner.spread))
        learner.learn_one(x, target)
    return np.array(found)


@pytest.mark.parametrize("scaling", ["columns", "none"])
def test_widths_are_the_same_in_blocks_and_row_by_row(tmp_path, scaling):
    X, y, _ = noisy(700)
    X[350, 0], y[[2, 3, 300]] = 60.0, np.nan
    block, single, late = (
        omkl.learner("auto", inputs=3, interval=LEVEL, lags=1, scaling=scaling) for _ in range(3)
    )
    said = block.partial_fit(X, y)
    np.testing.assert_array_equal(
        row_by_row(single, X, y), np.stack([said.low, said.high, said.spread], axis=1)
    )
    parts = [late.partial_fit(X[s : s + 57], y[s : s + 57]) for s in range(0, 700, 57)]
    np.testing.assert_array_equal(np.concatenate([part.low for part in parts]), said.low)
    assert block._targets[0].widths.is_used
    for other in (single, late):
        arrays = other.arrays()
        for name, array in block.arrays().items():
            np.testing.assert_array_equal(arrays[name], array, err_msg=name)
    waiting = X[100:105]
    for x in waiting:  # their targets come after they are saved
        block.predict_one(x)
    block.save(tmp_path / "model.npz")
    loaded = omkl.load_learner(tmp_path / "model.npz")
    for x in waiting[::-1]:
        loaded.learn_one(x, 1.0)
        block.learn_one(x, 1.0)
    ends = loaded.predict_interval(X[:9])
    np.testing.assert_array_equal(ends, block.predict_interval(X[:9]))
    np.testing.assert_array_equal(ends[0], (loaded.predict_one(X[0]), loaded.interval)[1])
    _, spread = loaded.predict(X[:9], return_std=True)
    assert spread[0] == loaded.spread and len(set(spread)) == 9


def test_coverage_holds_where_noise_is_small_and_where_it_is_large():
    X, y, size = noisy(4000, seed=1)
    learner = omkl.learner("auto", inputs=3, interval=LEVEL)
    said, after = learner.partial_fit(X, y), slice(1000, None)
    quarter = np.digitize(size, np.quantile(size, [0.25, 0.5, 0.75]))[after]
    covered = ((said.low <= y) & (y <= said.high))[after]
    for k in range(4):
        assert 0.85 <= covered[quarter == k].mean() <= 0.95
    windows = np.lib.stride_tricks.sliding_window_view(covered, 200).mean(axis=1)
    assert windows.min() > 0.8
    assert np.corrcoef(said.spread[after], size[after])[0, 1] > 0.8
    below, above = (
        np.median(part[after]) for part in (said.y_hat - said.low, said.high - said.y_hat)
    )
    assert above > 1.3 * below, "the noise is skewed"


def test_widths_of_series_follow_an_input():
    X, y, size = noisy(3000, seed=4)
    shop, after = np.arange(3000) % 10, slice(1000, None)
    level = 10.0 ** (shop / 3.0)
    learner = omkl.learner("auto", size="small", inputs=3, interval=LEVEL, series="shop")
    said = learner.partial_fit(X, level * y, shop, np.arange(3000) // 10)
    assert learner._targets[0].series.widths.is_used
    quarter = np.digitize(size, np.quantile(size, [0.25, 0.5, 0.75]))[after]
    covered = ((said.low <= level * y) & (level * y <= said.high))[after]
    width = ((said.high - said.low) / level)[after]
    for k in range(4):
        assert 0.82 <= covered[quarter == k].mean() <= 0.97
    assert np.median(width[quarter == 3]) > 2.0 * np.median(width[quarter == 0])


def test_plain_widths_stay_where_no_input_tells_the_size_of_errors():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(1500, 3)), rng.normal(size=1500)
    learner = omkl.learner("auto", inputs=3, interval=LEVEL)
    said = learner.partial_fit(X, y)
    plain = np.isclose(said.high - said.y_hat, said.y_hat - said.low, equal_nan=True)
    assert plain[:WARM_UP].all() and plain[WARM_UP:].mean() > 0.5


@pytest.mark.parametrize("season", [0, 7])
@pytest.mark.parametrize(
    "shops", [{}, {"series": np.arange(600) % 2, "dates": np.arange(600) // 2}]
)
def test_no_end_is_negative_until_a_target_is(shops, season):
    X, _, size = noisy(600, seed=3)
    y = np.random.default_rng(0).poisson(size).astype(float)
    series = "shop" if shops else None
    learner = omkl.learner(
        "auto", size="small", inputs=3, interval=LEVEL, series=series, season=season
    )
    said = learner.partial_fit(X, y, **shops)
    assert np.nanmin(said.low[:19]) < 0.0
    assert said.low[30:].min() == 0.0 and said.high[30:].min() >= 0.0
    of_first = shops["series"][:200:2] if shops else None
    assert learner.predict_interval(X[:200:2], of_first)[:, 0].min() == 0.0
    learner.learn_one(X[1], -1.0, 1 if shops else None)  # of the other series
    assert learner.predict_interval(X[:200:2], of_first)[:, 0].min() < 0.0


def test_errors_of_zero_give_no_width_and_no_fault():
    learner = omkl.learner("auto", inputs=1, interval=LEVEL)
    X = np.arange(300.0)[:, None]
    said = learner.partial_fit(X, np.full(300, 5.0))
    assert (said.low[2:] == 5.0).all() and (said.high[2:] == 5.0).all()
